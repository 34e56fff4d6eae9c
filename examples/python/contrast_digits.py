# SPDX-License-Identifier: Apache-2.0
"""Learns what digits look like without a label (SimCLR): two changed copies of one picture shall be near, all others far.

    python examples/python/contrast_digits.py

Each picture is shifted and dimmed twice. Of the 2 n copies in a batch each one has to choose its partner, by cross entropy over
cosines. Labels come last, and only to judge: the nearest of 1,000 known digits, by what was learned, says what a digit is.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba
import sambaflow.samba.utils as utils

BATCH, TEMPERATURE = 128, 0.2


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 5, stride=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(800, 64),
        )
        self.projection = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(64, 32))

    def forward(self, one, other):
        features = self.features(torch.cat([one, other]))
        place = torch.nn.functional.normalize(self.projection(features), dim=1)
        cosines = place @ place.T / TEMPERATURE
        itself = torch.eye(2 * BATCH, dtype=torch.bool)
        partner = (torch.arange(2 * BATCH) + BATCH) % (2 * BATCH)
        return torch.nn.functional.cross_entropy(cosines.masked_fill(itself, -torch.inf), partner), features


def changed(images):
    """The pictures, each moved by up to 3 pixels, with a rectangle of it dimmed."""
    padded = torch.nn.functional.pad(images, (3, 3, 3, 3))
    dy, dx = torch.randint(0, 7, (2, len(images), 1, 1))
    rows, columns = torch.arange(28).reshape(1, 28, 1) + dy, torch.arange(28).reshape(1, 1, 28) + dx
    moved = padded[torch.arange(len(images)).reshape(-1, 1, 1), 0, rows, columns]
    top, left = torch.randint(0, 22, (2, len(images), 1, 1))
    row, column = torch.arange(28).reshape(1, 28, 1), torch.arange(28).reshape(1, 1, 28)
    hole = (row >= top) & (row < top + 6) & (column >= left) & (column < left + 6)
    return torch.where(hole, 0.2 * moved, moved).unsqueeze(1)


utils.set_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").float().div(255).unsqueeze(1)
labels = read_idx("digits-labels-idx1-ubyte.gz").long()
model = samba.from_torch_model_(Encoder())
optim = samba.optim.AdamW(model.parameters(), lr=0.002)
inputs = samba.zeros(BATCH, 1, 28, 28, name="one"), samba.zeros(BATCH, 1, 28, 28, name="other")
pef = samba.session.compile(model, inputs, optim, name="simclr", loss_indices=[0])
outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])


def features(images):
    """What the encoder says of pictures, a multiple of 2 * BATCH of them: a run takes two batches."""
    found = []
    for part in images.split(2 * BATCH):
        batch = samba.from_torch_tensor(part[:BATCH], name="one"), samba.from_torch_tensor(part[BATCH:], name="other")
        found.append(samba.session.run(batch, outputs, section_types=["FWD"])[1].torch())
    return torch.nn.functional.normalize(torch.cat(found), dim=1)


def accuracy():
    known, asked = features(images[:1024]), features(images[4000:4768])
    return (labels[:1024][(asked @ known.T).argmax(1)] == labels[4000:4768]).float().mean().item()


before = accuracy()
for step in range(250):
    batch = images[torch.randint(0, 4000, (BATCH,))]
    copies = samba.from_torch_tensor(changed(batch), name="one"), samba.from_torch_tensor(changed(batch), name="other")
    (loss,) = samba.session.run(copies, outputs[:1])
    if (step + 1) % 50 == 0:
        print(f"step {step + 1}  loss {loss.item():.3f}")
after = accuracy()
print(f"right by the nearest known digit: {before:.3f} before, {after:.3f} after")
assert after > 0.86 and after > before + 0.03
