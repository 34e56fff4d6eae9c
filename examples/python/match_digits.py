# SPDX-License-Identifier: Apache-2.0
"""Metric learning by triplets: a net puts pictures of one digit together, and ten known ones of each tell the others.

    python examples/python/match_digits.py

A batch has 6 pictures of each digit, and forward makes all its triplets: a picture, one of the same digit, and one of another,
which has to be farther away by a margin. The loss is the mean over those that are not so yet (Hermans, Beyer and Leibe, 2017).
In the test a picture is given the digit of most of its nearest neighbours among a hundred.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.sambaloader import SambaLoader

DIGITS, EACH, STEPS, MARGIN, TEST = 10, 6, 200, 0.3, 100
BATCH = DIGITS * EACH


class Embedder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 5, stride=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 16, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(400, 32),
        )

    def forward(self, image):
        return torch.nn.functional.normalize(self.layers(image), dim=1)


class Triplets(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedder = Embedder()

    def forward(self, image, digit):
        place = self.embedder(image)
        distance = torch.cdist(place, place)
        same = digit[:, None] == digit[None, :]
        apart = distance[:, :, None] - distance[:, None, :] + MARGIN  # of a picture, one of its digit, and one of another
        missed = torch.relu(apart) * (same[:, :, None] & ~same[:, None, :])
        return missed.sum() / (missed > 0).sum().clamp(min=1)


class Balanced(torch.utils.data.Sampler):
    """Rows of a batch: EACH of every digit."""

    def __iter__(self):
        for _ in range(STEPS):
            yield torch.cat([rows[torch.randperm(len(rows))[:EACH]] for rows in of_digit]).tolist()

    def __len__(self):
        return STEPS


utils.set_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").float().div(255).unsqueeze(1)
labels = read_idx("digits-labels-idx1-ubyte.gz").long()
of_digit = [(labels[:4000] == digit).nonzero().squeeze(1) for digit in range(DIGITS)]
data = torch.utils.data.TensorDataset(images, labels)
loader = torch.utils.data.DataLoader(data, batch_sampler=Balanced())

model = samba.from_torch_model_(Triplets())
optim = samba.optim.Adam(model.parameters(), lr=0.002)
inputs = samba.zeros(BATCH, 1, 28, 28, name="image"), samba.zeros(BATCH, dtype=torch.int64, name="digit")
pictures = (samba.zeros(TEST, 1, 28, 28, name="picture"),)
samba.session.add_graph(SambaGraph(model, inputs, optim, name="triplets", loss_indices=[0]))
samba.session.add_graph(FwdGraph(model.embedder, pictures, name="embed"))
pef = samba.session.compile_multigraph("match")
losses = utils.trace_multigraph(model, inputs, optim)
places = utils.trace_multigraph(model.embedder, pictures)
samba.session.init_multigraph_runtime(pef)

for step, batch in enumerate(SambaLoader(loader, ["image", "digit"])):
    (loss,) = samba.session.run(batch, losses, graph_name="triplets")
    if (step + 1) % 50 == 0:
        print(f"step {step + 1}  loss {loss.item():.3f}")


def embedded(images):
    """Where pictures are, a number of them that TEST divides."""
    batches = SambaLoader(images.split(TEST), ["picture"])
    return torch.cat([samba.session.run(batch, places, graph_name="embed")[0].torch() for batch in batches])


def right(place):
    """The share of test digits whose 5 nearest neighbours, of 10 known ones of each digit, are mostly of the same digit."""
    known = torch.cat([rows[:10] for rows in of_digit])
    nearest = torch.cdist(place(images[4000:]), place(images[known])).topk(5, largest=False).indices
    return (labels[known][nearest].mode(1).values == labels[4000:]).float().mean().item()


ours, pixels = right(embedded), right(lambda images: images.flatten(1))
print(f"{100 * ours:.1f} % of the test digits are matched; by their pixels {100 * pixels:.1f} %")
assert ours > 0.88 and ours > pixels + 0.08
