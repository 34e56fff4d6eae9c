# SPDX-License-Identifier: Apache-2.0
"""Super-resolution: pictures of 14 times 14 pixels are made 28 times 28, sharper than by interpolation.

    python examples/python/enlarge_digits.py

A small net (as in Shi et al., 2016) computes at the low resolution and says four pixels for each, which `PixelShuffle` puts
into their places; it learns what bicubic interpolation lacks. The rate falls when the validation gets no better
(`ReduceLROnPlateau`), and the best weights are kept as a file and loaded at the end.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.sambaloader import SambaLoader

BATCH, EPOCHS = 50, 8


class Enlarger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 5, padding=2),
            torch.nn.Tanh(),
            torch.nn.Conv2d(16, 12, 3, padding=1),
            torch.nn.Tanh(),
            torch.nn.Conv2d(12, 4, 3, padding=1),
            torch.nn.PixelShuffle(2),
        )

    def forward(self, small, large):
        smooth = torch.nn.functional.interpolate(small, scale_factor=2, mode="bicubic")
        sharp = smooth + self.layers(small)
        return torch.nn.functional.mse_loss(sharp, large), sharp


def psnr(error):
    """Decibels of a mean square error, of pixels from 0 to 1."""
    return -10 * torch.log10(torch.as_tensor(error)).item()


utils.set_seed(1)
large = read_idx("digits-images-idx3-ubyte.gz").float().div(255).unsqueeze(1)
small = torch.nn.functional.avg_pool2d(large, 2)
data = torch.utils.data.TensorDataset(small, large)
train, validation, test = (torch.utils.data.Subset(data, part) for part in (range(1500), range(3500, 4000), range(4000, 5000)))
loader = torch.utils.data.DataLoader(train, batch_size=BATCH, shuffle=True)

model = samba.from_torch_model_(Enlarger())
optim = samba.optim.Adam(model.parameters(), lr=0.004)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optim, factor=0.3, patience=0)
inputs = samba.zeros(BATCH, 1, 14, 14, name="small"), samba.zeros(BATCH, 1, 28, 28, name="large")
pef = samba.session.compile(model, inputs, optim, name="enlarger", loss_indices=[0])
outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])


def error(part):
    """The mean square error of pictures that are not trained on."""
    model.eval()
    batches = SambaLoader(torch.utils.data.DataLoader(part, batch_size=BATCH), ["small", "large"])
    losses = [samba.session.run(batch, outputs[:1], section_types=["FWD"])[0].item() for batch in batches]
    model.train()
    return sum(losses) / len(losses)


best = float("inf")
for epoch in range(EPOCHS):
    for batch in SambaLoader(loader, ["small", "large"]):
        samba.session.run(batch, outputs[:1], hyperparam_dict={"lr": optim.param_groups[0]["lr"]})
    now = error(validation)
    schedule.step(now)
    if now < best:
        best = now
        samba.session.save("best.safetensors", with_state=False)
    print(f"epoch {epoch + 1}  validation {psnr(now):.2f} dB  next rate {optim.param_groups[0]['lr']:.5f}")

samba.session.load("best.safetensors")
smooth = torch.nn.functional.interpolate(small[4000:], scale_factor=2, mode="bicubic")
ours, simple = psnr(error(test)), psnr((smooth - large[4000:]).square().mean())
print(f"test: {ours:.2f} dB; bicubic interpolation {simple:.2f} dB")
assert ours > simple + 0.8
