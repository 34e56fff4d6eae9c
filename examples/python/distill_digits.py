# SPDX-License-Identifier: Apache-2.0
"""Distillation: a small net learns digits from a large one's answers, and from few labels.

    python examples/python/distill_digits.py

The teacher is trained first, on 4,000 labelled digits. The student has the labels of 100 digits, and what the teacher
says of all. The teacher is a part of the student's graph: frozen by `eval()` before it is traced, and without an optimizer.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.sambaloader import SambaLoader

BATCH, TEMPERATURE = 50, 3.0


def net(hidden, dropout):
    return torch.nn.Sequential(
        torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(hidden, 10)
    )


class Student(torch.nn.Module):
    """A net that learns from labels, where there are some (not -100), and from a teacher, where there is one."""

    def __init__(self, net, teacher=None):
        super().__init__()
        self.net, self.teacher = net, teacher

    def train(self, mode=True):
        super().train(mode)
        if self.teacher is not None:
            self.teacher.eval()  # it stays as it was traced, whatever the student does
        return self

    def forward(self, image, label):
        logits = self.net(image)
        known = (label != -100).sum().clamp(min=1)
        loss = torch.nn.functional.cross_entropy(logits, label, ignore_index=-100, reduction="sum") / known
        if self.teacher is not None:
            with torch.no_grad():
                soft = torch.softmax(self.teacher(image) / TEMPERATURE, 1)
            ours = torch.log_softmax(logits / TEMPERATURE, 1)
            loss = loss + TEMPERATURE**2 * torch.nn.functional.kl_div(ours, soft, reduction="batchmean")
        return loss, logits


utils.set_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").reshape(5000, 784).float().div(255)
labels = read_idx("digits-labels-idx1-ubyte.gz").long()
few = torch.where(torch.arange(4000) < 100, labels[:4000], -100)
inputs = samba.zeros(BATCH, 784, name="image"), samba.zeros(BATCH, dtype=torch.int64, name="label")


def trained(model, images, labels, epochs, name):
    """Trains the model, and gives the share of 1,000 test digits that it gets right."""
    samba.session.reset()
    samba.from_torch_model_(model)
    optim = samba.optim.AdamW(model.net.parameters(), lr=0.002)
    pef = samba.session.compile(model, inputs, optim, name=name, loss_indices=[0])
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    data = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True)
    for _ in range(epochs):
        for batch in SambaLoader(loader, ["image", "label"]):
            samba.session.run(batch, outputs[:1])
    model.eval()
    right = 0
    for batch in SambaLoader(zip(test_images.split(BATCH), test_labels.split(BATCH)), ["image", "label"]):
        _, logits = samba.session.run(batch, outputs, section_types=["FWD"])
        right += (logits.torch().argmax(1) == batch[1].torch()).sum().item()
    samba.session.to_cpu(model)  # the weights are back in the model, which another graph may have a part of
    return right / 1000


test_images, test_labels = images[4000:], labels[4000:]
teacher = Student(net(256, 0.3))
of_teacher = trained(teacher, images[:4000], labels[:4000], 8, "teacher")
teacher.net.requires_grad_(False)
alone = trained(Student(net(24, 0.0)), images[:100], labels[:100], 100, "alone")
taught = trained(Student(net(24, 0.0), teacher.net), images[:4000], few, 10, "taught")
print(f"teacher {of_teacher:.3f}, student from 100 labels {alone:.3f}, the same with the teacher {taught:.3f}")
assert of_teacher > 0.92 and taught > 0.88 and taught > alone + 0.05
