# SPDX-License-Identifier: Apache-2.0
"""A graph convolution network: 400 nodes of four groups, of which five each have a label, and their links tell the rest.

    python examples/python/label_graph.py

Two graph convolutions (Kipf and Welling, 2017) over a list of links, by `index_add`: a node gets the sum of what its neighbours
send. Links and labels never change, so they are buffers with `persistent=False`, which are constants of the PEF: their values are
known while the model is traced, and a mask may choose the rows that the loss is of. A buffer that `state_dict` has lies on the
device, and could not.
"""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils

NODES, GROUPS, FEATURES, KNOWN, STEPS = 400, 4, 16, 5, 100


class Convolution(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, source, target, strength):
        sent = self.linear(x)[source] * strength.unsqueeze(1)
        return torch.zeros(NODES, sent.shape[1]).index_add(0, target, sent)


class Groups(torch.nn.Module):
    def __init__(self, links, label, known):
        super().__init__()
        self.first, self.second = Convolution(FEATURES, 32), Convolution(32, GROUPS)
        self.dropout = torch.nn.Dropout(0.5)
        loops = torch.arange(NODES)
        source, target = torch.cat([links[0], links[1], loops]), torch.cat([links[1], links[0], loops])
        degree = torch.bincount(target, minlength=NODES).float()
        self.register_buffer("source", source, persistent=False)
        self.register_buffer("target", target, persistent=False)
        self.register_buffer("strength", (degree[source] * degree[target]).rsqrt(), persistent=False)
        self.register_buffer("label", label, persistent=False)
        self.register_buffer("known", known, persistent=False)

    def forward(self, x):
        hidden = torch.relu(self.first(self.dropout(x), self.source, self.target, self.strength))
        logits = self.second(self.dropout(hidden), self.source, self.target, self.strength)
        return torch.nn.functional.cross_entropy(logits[self.known], self.label[self.known]), logits


utils.set_seed(1)
label = torch.arange(NODES) % GROUPS
alike = label[:, None] == label[None, :]
links = (torch.rand(NODES, NODES) < torch.where(alike, 0.06, 0.006)).triu(1).nonzero().T
x = torch.randn(NODES, FEATURES) + 0.5 * torch.randn(GROUPS, FEATURES)[label]
known = torch.zeros(NODES, dtype=torch.bool)
known[: KNOWN * GROUPS] = True

model = samba.from_torch_model_(Groups(links, label, known))
optim = samba.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.0005)
inputs = (samba.from_torch_tensor(x, name="x"),)
pef = samba.session.compile(model, inputs, optim, name="groups", loss_indices=[0])
outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])

for step in range(STEPS):
    (loss,) = samba.session.run(inputs, outputs[:1])
    if (step + 1) % 25 == 0:
        print(f"step {step + 1}  loss {loss.item():.3f}")

model.eval()
_, logits = samba.session.run(inputs, outputs, section_types=["FWD"])
right = (logits.torch().argmax(1) == label)[~known].float().mean().item()
print(f"{100 * right:.1f} % of the {NODES - KNOWN * GROUPS} nodes without a label are put into their group")
assert right > 0.85
