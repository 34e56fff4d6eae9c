# SPDX-License-Identifier: Apache-2.0
"""Two heads and two losses: a digit's class, and how much ink it has and how far it leans, from one trunk.

    python examples/python/two_tasks.py

A loss counts as much as its noise allows: each has a weight that is trained along (Kendall, Gal and Cipolla, 2018). The
weighted sum is the first output and the one that backward starts from; the two losses beside it are there to be printed.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.sambaloader import SambaLoader

BATCH, EPOCHS = 50, 8


class TwoTasks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = torch.nn.Sequential(
            torch.nn.Conv2d(1, 12, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(12, 24, 3, stride=2), torch.nn.ReLU()
        )
        self.kind = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.2), torch.nn.Linear(600, 10))
        self.shape = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(600, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        self.log_noise = torch.nn.Parameter(torch.zeros(2))

    def forward(self, image, digit, shape):
        features = self.trunk(image)
        logits, guess = self.kind(features), self.shape(features)
        losses = torch.stack([torch.nn.functional.cross_entropy(logits, digit), torch.nn.functional.mse_loss(guess, shape)])
        loss = ((-self.log_noise).exp() * losses + 0.5 * self.log_noise).sum()
        return loss, losses, logits, guess


def shapes(image):
    """Ink and lean of each picture, both with mean 0 and variance 1."""
    image = image.squeeze(1)
    place = torch.arange(28.0) - 13.5
    mass = image.sum((1, 2))
    down = (image.sum(2) * place).sum(1) / mass
    across = (image.sum(1) * place).sum(1) / mass
    away = (place - down[:, None])[:, :, None] * (place - across[:, None])[:, None, :]
    both = torch.stack([mass, (image * away).sum((1, 2)) / mass], 1)
    return (both - both.mean(0)) / both.std(0)


utils.set_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").float().div(255).unsqueeze(1)
labels = read_idx("digits-labels-idx1-ubyte.gz").long()
data = torch.utils.data.TensorDataset(images, labels, shapes(images))
train, test = torch.utils.data.Subset(data, range(3000)), torch.utils.data.Subset(data, range(4000, 5000))
loader = torch.utils.data.DataLoader(train, batch_size=BATCH, shuffle=True)

model = samba.from_torch_model_(TwoTasks())
optim = samba.optim.AdamW(model.parameters(), lr=0.005)
schedule = torch.optim.lr_scheduler.OneCycleLR(optim, 0.005, EPOCHS * len(loader), cycle_momentum=False)
names = ["image", "digit", "shape"]
inputs = (
    samba.zeros(BATCH, 1, 28, 28, name="image"),
    samba.zeros(BATCH, dtype=torch.int64, name="digit"),
    samba.zeros(BATCH, 2, name="shape"),
)
pef = samba.session.compile(model, inputs, optim, name="two_tasks", loss_indices=[0])
outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])

for epoch in range(EPOCHS):
    for batch in SambaLoader(loader, names):
        loss, losses = samba.session.run(batch, outputs[:2], hyperparam_dict={"lr": schedule.get_last_lr()[0]})
        schedule.step()
    print(f"epoch {epoch + 1}  last losses: class {losses.torch()[0]:.3f}, shape {losses.torch()[1]:.3f}")

model.eval()
right, error = 0, 0.0
for batch in SambaLoader(torch.utils.data.DataLoader(test, batch_size=BATCH), names):
    _, _, logits, guess = samba.session.run(batch, outputs, section_types=["FWD"])
    right += (logits.torch().argmax(1) == batch[1].torch()).sum().item()
    error += (guess.torch() - batch[2].torch()).square().mean().item() * BATCH / 1000
samba.session.to_cpu(model)
weights = (-model.log_noise.torch()).exp().tolist()
print(f"{right} of 1000 digits are right, {100 * (1 - error):.1f} % of ink and lean explained")
print(f"weights of the losses: class {weights[0]:.1f}, shape {weights[1]:.1f}")
assert right > 920 and error < 0.1 and weights[1] > 1.5
