# SPDX-License-Identifier: Apache-2.0
"""Imbalanced classes: one payment of twenty is a fraud, and a loss with class weights finds them.

    python examples/python/find_frauds.py

A net that says 'no fraud' to everything is right in 95 of 100 cases. So the class weights make a missed fraud count as much as
all the honest payments beside it, and what is watched is precision, recall and F1 of the rare class: `Metric(...,
average="binary")`.
"""

import torch

import sambaflow.samba as samba
from sambaflow.samba.metrics import Metric

torch.manual_seed(1)
count = 4000
fraud = (torch.rand(count) < 0.05).long()
x = torch.randn(count, 10)
x[:, :2] = torch.where(fraud[:, None] == 1, 0.6 * x[:, :2] + torch.tensor([2.0, -1.5]), x[:, :2])  # a region of its own
x[:, 2] += 0.8 * fraud
data = torch.utils.data.TensorDataset(x, fraud)
train, validation, test = torch.utils.data.random_split(data, [2800, 400, 800], torch.Generator().manual_seed(1))


def trained(weights, name):
    """Precision, recall and F1 of the test, by a net that was trained with these weights of the classes."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 2))
    samba.fit(
        model,
        torch.utils.data.DataLoader(train, batch_size=64, shuffle=True),
        torch.optim.AdamW(model.parameters(), lr=0.005),
        torch.nn.CrossEntropyLoss(weight=weights),
        epochs=12,
        validation=torch.utils.data.DataLoader(validation, batch_size=100),
        metrics=[Metric("recall", average="binary"), Metric("f1", average="binary")],
        progress=False,
    )
    model.eval()
    metrics = [Metric(kind, average="binary") for kind in ("precision", "recall", "f1")]
    with torch.no_grad():
        for rows, kinds in torch.utils.data.DataLoader(test, batch_size=800):
            for metric in metrics:
                metric.update(model(rows), kinds)
    precision, recall, f1 = (metric.value for metric in metrics)
    print(f"{name}: precision {precision:.2f}, recall {recall:.2f}, F1 {f1:.2f}")
    return precision, recall, f1


counts = torch.bincount(fraud, minlength=2)
_, few, _ = trained(None, "without weights")
precision, many, f1 = trained(count / (2.0 * counts), "with weights   ")
assert many > 0.85 and many > few and precision > 0.3 and f1 > 0.5
