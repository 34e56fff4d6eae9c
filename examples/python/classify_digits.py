# SPDX-License-Identifier: Apache-2.0
"""Classifies handwritten digits: the best weights by a validation, early stopping, and a test at the end.

    python examples/python/classify_digits.py

`samba.fit` is the whole loop. The model and the optimizer are torch's; fit compiles both, runs the steps, tests after each epoch,
stops when three tests in a row were no better, and takes the best weights back into the model.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba

torch.manual_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").float().div(255).unsqueeze(1)
labels = read_idx("digits-labels-idx1-ubyte.gz").long()
data = torch.utils.data.TensorDataset(images, labels)
train, validation, test = (torch.utils.data.Subset(data, part) for part in (range(3500), range(3500, 4000), range(4000, 5000)))


def batches(part, shuffle=False):
    return torch.utils.data.DataLoader(part, batch_size=50, shuffle=shuffle)


model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 5, stride=2),
    torch.nn.BatchNorm2d(8),
    torch.nn.ReLU(),
    torch.nn.Conv2d(8, 16, 3, stride=2),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Dropout(0.2),
    torch.nn.Linear(400, 10),
)
optim = torch.optim.AdamW(model.parameters(), lr=0.003)
history = samba.fit(
    model,
    batches(train, shuffle=True),
    optim,
    torch.nn.functional.cross_entropy,
    epochs=20,
    validation=batches(validation),
    metrics=["accuracy"],
    monitor="accuracy",
    patience=3,
    restore_best=True,
    progress=False,
)
print(f"best accuracy of the validation: {history.best:.3f} in epoch {history.best_epoch}, {len(history.rows)} epochs made")

model.eval()
with torch.no_grad():
    right = (model(images[4000:]).argmax(1) == labels[4000:]).sum().item()
print(f"{right} of 1000 test digits are right")
assert right >= 950
