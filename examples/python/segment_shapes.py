# SPDX-License-Identifier: Apache-2.0
"""Segmentation by a small U-Net: which pixels of a noisy picture belong to a disc, which to a square, which to neither.

    python examples/python/segment_shapes.py

The net halves the picture twice and doubles it twice; what was seen on the way down is put beside what comes up again. Labels are
one class a pixel. Few pixels belong to a shape, so the loss counts theirs more.
"""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


def twice(channels, out):
    """Two convolutions, each with a norm and a ReLU."""
    layers = []
    for inside in (channels, out):
        layers += [torch.nn.Conv2d(inside, out, 3, padding=1, bias=False), torch.nn.BatchNorm2d(out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


class UNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = twice(1, 8), twice(8, 16), twice(16, 32)
        self.up2, self.join2 = torch.nn.ConvTranspose2d(32, 16, 2, stride=2), twice(32, 16)
        self.up1, self.join1 = torch.nn.ConvTranspose2d(16, 8, 2, stride=2), twice(16, 8)
        self.head = torch.nn.Conv2d(8, 3, 1)
        self.register_buffer("weight", torch.tensor([1.0, 3.0, 3.0]))

    def forward(self, picture, label):
        first = self.down1(picture)
        second = self.down2(torch.nn.functional.max_pool2d(first, 2))
        bottom = self.bottom(torch.nn.functional.max_pool2d(second, 2))
        second = self.join2(torch.cat([second, self.up2(bottom)], 1))
        first = self.join1(torch.cat([first, self.up1(second)], 1))
        logits = self.head(first)
        return torch.nn.functional.cross_entropy(logits, label, weight=self.weight), logits


def draw(count, size=32):
    """Pictures of a disc and a square in noise, and the class of each pixel: 0 neither, 1 disc, 2 square."""
    row, column = torch.arange(size).reshape(size, 1), torch.arange(size).reshape(1, size)

    def distances():
        place, half = torch.randint(6, size - 6, (2, count, 1, 1)), torch.randint(3, 7, (count, 1, 1))
        return row - place[0], column - place[1], half

    (dy, dx, half), label = distances(), torch.zeros(count, size, size, dtype=torch.int64)
    label[dy.square() + dx.square() <= half.square()] = 1
    dy, dx, half = distances()
    label[torch.maximum(dy.abs(), dx.abs()) <= half] = 2
    return (label > 0).unsqueeze(1) + 0.4 * torch.randn(count, 1, size, size), label


utils.set_seed(1)
model = samba.from_torch_model_(UNet())
optim = samba.optim.AdamW(model.parameters(), lr=0.005)
inputs = samba.zeros(16, 1, 32, 32, name="picture"), samba.zeros(16, 32, 32, dtype=torch.int64, name="label")
pef = samba.session.compile(model, inputs, optim, name="unet", loss_indices=[0])
outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])


def batch():
    picture, label = draw(16)
    return samba.from_torch_tensor(picture, name="picture"), samba.from_torch_tensor(label, name="label")


for step in range(240):
    (loss,) = samba.session.run(batch(), outputs[:1], hyperparam_dict={"lr": 0.005 * (1 - step / 240)})
    if (step + 1) % 60 == 0:
        print(f"step {step + 1}  loss {loss.item():.4f}")

model.eval()
both, either = torch.zeros(3), torch.zeros(3)
for _ in range(8):
    picture, label = batch()
    _, logits = samba.session.run((picture, label), outputs, section_types=["FWD"])
    found = torch.nn.functional.one_hot(logits.torch().argmax(1), 3).bool()
    meant = torch.nn.functional.one_hot(label.torch(), 3).bool()
    both, either = both + (found & meant).sum((0, 1, 2)), either + (found | meant).sum((0, 1, 2))
shares = both / either
print("intersection over union:", *(f"{name} {share:.3f}" for name, share in zip(("neither", "disc", "square"), shares)))
assert shares.mean() > 0.75
