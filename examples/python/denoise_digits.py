# SPDX-License-Identifier: Apache-2.0
"""An autoencoder: pictures of digits through 32 numbers and back. It is given noisy ones, and has to say what they were.

    python examples/python/denoise_digits.py

The noise is a dropout of the input, so a test by `samba.fit` has none. The trained weights are in the model when fit ends, and
its parts go on in plain PyTorch: noisy pictures are cleaned, and digits are found by the distance of their codes.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba

torch.manual_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").float().div(255).unsqueeze(1)
labels = read_idx("digits-labels-idx1-ubyte.gz").long()
data = torch.utils.data.TensorDataset(images, images)  # what goes in is what has to come out
train, test = torch.utils.data.Subset(data, range(3000)), torch.utils.data.Subset(data, range(4000, 5000))

encoder = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3, stride=2, padding=1),
    torch.nn.ReLU(),
    torch.nn.Conv2d(8, 16, 3, stride=2, padding=1),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(784, 32),
)
decoder = torch.nn.Sequential(
    torch.nn.Linear(32, 784),
    torch.nn.ReLU(),
    torch.nn.Unflatten(1, (16, 7, 7)),
    torch.nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
    torch.nn.ReLU(),
    torch.nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1),
)
model = torch.nn.Sequential(torch.nn.Dropout(0.2), encoder, decoder)
history = samba.fit(
    model,
    torch.utils.data.DataLoader(train, batch_size=50, shuffle=True),
    torch.optim.Adam(model.parameters(), lr=0.003),
    torch.nn.functional.binary_cross_entropy_with_logits,
    epochs=8,
    validation=torch.utils.data.DataLoader(test, batch_size=50),
    restore_best=True,
    progress=False,
)

with torch.no_grad():
    clean, noisy = images[4000:], torch.nn.functional.dropout(images[4000:], 0.2)
    again = torch.sigmoid(decoder(encoder(noisy)))
    codes, known = encoder(images[4000:]), encoder(images[:3000])
    nearest = labels[torch.cdist(codes, known).argmin(1)]
before, after = (noisy - clean).square().mean().item(), (again - clean).square().mean().item()
alike = (nearest == labels[4000:]).float().mean().item()
print(f"loss of the validation {history.best:.4f}")
print(f"square error of noisy pictures {before:.4f}, of cleaned ones {after:.4f}")
print(f"{100 * alike:.1f} % of the codes lie next to one of the same digit")
assert history.best < 0.11 and after < 0.025 and alike > 0.85
