# SPDX-License-Identifier: Apache-2.0
"""Sequence to sequence: a transformer reads six digits and writes them in order.

    python examples/python/sort_numbers.py

`torch.nn.Transformer` as it is, encoder, decoder and dropout. It is trained by what stands before each place (teacher forcing),
and asked to write on its own: a second graph reads the source and what is written so far. Its shapes are fixed, so it always
has six places; those to come are hidden by the causal mask, and what stands there does not matter.
"""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import FwdGraph, SambaGraph

BATCH, LENGTH, BEGIN, WIDTH, UPDATES = 64, 6, 10, 48, 220


class Sorter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.digit, self.place = torch.nn.Embedding(11, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.transformer = torch.nn.Transformer(WIDTH, 4, 2, 2, 2 * WIDTH, dropout=0.1, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, 10)

    def forward(self, source, written):
        place = self.place(torch.arange(LENGTH))
        mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
        hidden = self.transformer(self.digit(source) + place, self.digit(written) + place, tgt_mask=mask, tgt_is_causal=True)
        return self.head(hidden)


class Train(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sorter = Sorter()

    def forward(self, source, target):
        written = torch.cat([torch.full((BATCH, 1), BEGIN), target[:, :-1]], 1)
        logits = self.sorter(source, written)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def numbers():
    source = torch.randint(10, (BATCH, LENGTH))
    return source, source.sort(1).values


utils.set_seed(1)
model = samba.from_torch_model_(Train())
optim = samba.optim.AdamW(model.parameters(), lr=0.003, max_grad_norm=1.0)
inputs = tuple(samba.zeros(BATCH, LENGTH, dtype=torch.int64, name=name) for name in ("source", "target"))
asked = tuple(samba.zeros(BATCH, LENGTH, dtype=torch.int64, name=name) for name in ("question", "written"))
samba.session.add_graph(SambaGraph(model, inputs, optim, name="train", loss_indices=[0]))
samba.session.add_graph(FwdGraph(model.sorter, asked, name="write"))
pef = samba.session.compile_multigraph("sorter")
losses = utils.trace_multigraph(model, inputs, optim)
writings = utils.trace_multigraph(model.sorter, asked)
samba.session.init_multigraph_runtime(pef)

warm = torch.optim.lr_scheduler.LinearLR(optim, 0.1, 1.0, 50)
for update in range(UPDATES):
    batch = [samba.from_torch_tensor(x, name=name) for x, name in zip(numbers(), ("source", "target"))]
    (loss,) = samba.session.run(batch, losses, graph_name="train", hyperparam_dict={"lr": warm.get_last_lr()[0]})
    warm.step()
    if (update + 1) % 100 == 0:
        print(f"update {update + 1}  loss {loss.item():.3f}")

model.eval()
source, target = numbers()
written = torch.full((BATCH, LENGTH + 1), BEGIN)
for place in range(LENGTH):
    batch = samba.from_torch_tensor(source, name="question"), samba.from_torch_tensor(written[:, :-1], name="written")
    (logits,) = samba.session.run(batch, writings, graph_name="write")
    written[:, place + 1] = logits.torch()[:, place].argmax(1)
written = written[:, 1:]
for row in range(3):
    print(*source[row].tolist(), "->", *written[row].tolist())
digits, whole = (written == target).float().mean().item(), (written == target).all(1).float().mean().item()
print(f"{100 * digits:.1f} % of the digits are right, {100 * whole:.0f} % of the rows as a whole")
assert digits > 0.9 and whole > 0.6
