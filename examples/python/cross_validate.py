# SPDX-License-Identifier: Apache-2.0
"""Five-fold cross-validation over two learning rates: one PEF, trained ten times from fresh weights.

    python examples/python/cross_validate.py

Each training makes a model and an optimizer of its own, as in PyTorch. `trace_graph` with the same PEF then sends the new
weights and the optimizer's fresh state; nothing is compiled again. The learning rate is a number of the optimizer and not of
the PEF.
"""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.sambaloader import SambaLoader

BATCH, FOLDS, EPOCHS, RATES = 40, 5, 15, (0.0003, 0.01)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 2)
        )

    def forward(self, x, label):
        logits = self.layers(x)
        return torch.nn.functional.cross_entropy(logits, label), logits


utils.set_seed(1)
x = torch.randn(400, 8)
label = ((x[:, 0] * x[:, 1] + x[:, 2].square() + 0.3 * torch.randn(400)) > 0.6).long()
parts = torch.randperm(400).chunk(FOLDS)
inputs = samba.zeros(BATCH, 8, name="x"), samba.zeros(BATCH, dtype=torch.int64, name="label")


def new(rate):
    model = samba.from_torch_model_(Net())
    return model, samba.optim.Adam(model.parameters(), lr=rate)


def accuracy(rate, fold):
    """Trains by all parts but one, and gives the share of that one that is right."""
    torch.manual_seed(fold)
    model, optim = new(rate)
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    rows = torch.cat([part for number, part in enumerate(parts) if number != fold])
    data = torch.utils.data.TensorDataset(x[rows], label[rows])
    for _ in range(EPOCHS):
        for batch in SambaLoader(torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True), ["x", "label"]):
            samba.session.run(batch, outputs[:1])
    model.eval()
    right = 0
    for batch in SambaLoader(zip(x[parts[fold]].split(BATCH), label[parts[fold]].split(BATCH)), ["x", "label"]):
        _, logits = samba.session.run(batch, outputs, section_types=["FWD"])
        right += (logits.torch().argmax(1) == batch[1].torch()).sum().item()
    return right / len(parts[fold])


model, optim = new(RATES[0])
pef = samba.session.compile(model, inputs, optim, name="folds", loss_indices=[0])
means = {}
for rate in RATES:
    folds = [accuracy(rate, fold) for fold in range(FOLDS)]
    means[rate] = sum(folds) / FOLDS
    print(f"rate {rate}: mean accuracy {means[rate]:.3f} of", *(f"{fold:.2f}" for fold in folds))
best = max(means, key=means.get)
print("the better rate is", best)
assert accuracy(best, 0) == accuracy(best, 0), "a training from fresh weights does not see the one before"
assert best == RATES[1] and means[best] > 0.8
