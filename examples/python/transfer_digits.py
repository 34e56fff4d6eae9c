# SPDX-License-Identifier: Apache-2.0
"""Transfer: a trunk learns the digits 0 to 4, then stays as it is while a new head learns 5 to 9 from 50 pictures.

    python examples/python/transfer_digits.py

Freeze, convert, compile, trace: in this order. `requires_grad_(False)` and an optimizer that has the head alone leave the trunk's
weights as they are and compute no gradient of them; `eval()` before tracing keeps the statistics of its norms.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba
import sambaflow.samba.utils as utils

BATCH = 50


class Classifier(torch.nn.Module):
    def __init__(self, trunk=None):
        super().__init__()
        self.trunk = trunk or torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 5, stride=2),
            torch.nn.BatchNorm2d(16),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2),
            torch.nn.BatchNorm2d(32),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
        )
        self.head = torch.nn.Linear(800, 5)

    def forward(self, image, label):
        logits = self.head(self.trunk(image))
        return torch.nn.functional.cross_entropy(logits, label), logits


def named(image, label):
    return samba.from_torch_tensor(image, name="image"), samba.from_torch_tensor(label, name="label")


def trained(model, parameters, images, labels, steps, tests, name):
    """Trains `parameters` of the model, and gives the share of the tests that it gets right."""
    samba.session.reset()
    samba.from_torch_model_(model)
    optim = samba.optim.AdamW(parameters(), lr=0.003)
    inputs = named(images[:BATCH], labels[:BATCH])
    pef = samba.session.compile(model, inputs, optim, name=name, loss_indices=[0])
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    for _ in range(steps):
        rows = torch.randint(0, len(images), (BATCH,))
        samba.session.run(named(images[rows], labels[rows]), outputs[:1])
    right = 0
    for image, label in zip(tests[0].split(BATCH), tests[1].split(BATCH)):
        _, logits = samba.session.run(named(image, label), outputs, section_types=["FWD"], train=False)
        right += (logits.torch().argmax(1) == label).sum().item()
    samba.session.to_cpu(model)
    return right / len(tests[0])


utils.set_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").float().div(255).unsqueeze(1)
labels = read_idx("digits-labels-idx1-ubyte.gz").long()


def part(digits, begin, end, count):
    """The first `count` pictures of the given digits between two places, labelled from 0."""
    rows = torch.arange(begin, end)[torch.isin(labels[begin:end], torch.tensor(digits))][:count]
    return images[rows], labels[rows] - digits[0]


first, second = [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]
model = Classifier()
known = trained(model, model.parameters, *part(first, 0, 4000, 2000), 120, part(first, 4000, 5000, 450), "trunk")

model.trunk.requires_grad_(False)
model.trunk.eval()
before = {name: value.torch().clone() for name, value in model.trunk.state_dict().items()}
model = Classifier(model.trunk)
new = trained(model, model.head.parameters, *part(second, 0, 4000, 50), 150, part(second, 4000, 5000, 450), "head")
assert all(torch.equal(value.torch(), before[name]) for name, value in model.trunk.state_dict().items())

fresh = Classifier()
alone = trained(fresh, fresh.parameters, *part(second, 0, 4000, 50), 150, part(second, 4000, 5000, 450), "alone")
print(f"0 to 4: {known:.3f}; 5 to 9 from 50 pictures: {new:.3f} by the frozen trunk, {alone:.3f} from nothing")
assert known > 0.95 and new > 0.8 and new > alone
