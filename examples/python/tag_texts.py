# SPDX-License-Identifier: Apache-2.0
"""Multi-label classification of texts of different lengths: which of five themes does a text touch?

    python examples/python/tag_texts.py

A text is the numbers of its words. Texts of one batch are padded to the next of three lengths. Each length is a graph of one PEF
(`sizes`), so short texts do not cost what long ones do. A mask, which the model makes of the numbers, leaves out what is padded.
"""

import random

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils

BATCH, LENGTHS, PAD = 32, (12, 24, 48), 0
THEMES = {
    "sea": "wave harbour sail tide anchor salt",
    "kitchen": "oven flour knife soup salt plate",
    "music": "violin chord drum wave score song",
    "garden": "root leaf soil spade seed plate",
    "money": "bank coin price loan seed score",
}
FILLERS = "the a of and in to it was on with for as at by from this that is had not but his her they".split()
WORDS = ["<pad>", *sorted({word for words in THEMES.values() for word in words.split()} | set(FILLERS))]


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(len(WORDS), 32, padding_idx=PAD)
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, len(THEMES)))

    def forward(self, ids, themes):
        there = (ids != PAD).unsqueeze(2)
        words = self.embedding(ids)
        mean = (words * there).sum(1) / there.sum(1)
        most = words.masked_fill(~there, -torch.inf).amax(1)
        logits = self.layers(torch.cat([mean, most], 1))
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, themes), logits


def write(draw):
    """A text of 6 to 48 words, and which themes it touches: two of their words are in it."""
    chosen = draw.sample(list(THEMES), draw.randint(0, 3))
    words = [word for theme in chosen for word in draw.sample(THEMES[theme].split(), 2)]
    words += draw.choices(FILLERS, k=draw.randint(6, 42))
    draw.shuffle(words)
    return [WORDS.index(word) for word in words], [float(theme in chosen) for theme in THEMES]


def padded(texts):
    """A batch: numbers of words, padded to the next length, and themes."""
    length = next(length for length in LENGTHS if length >= max(len(words) for words, _ in texts))
    ids = torch.full((len(texts), length), PAD)
    for row, (words, _) in enumerate(texts):
        ids[row, : len(words)] = torch.tensor(words)
    return samba.from_torch_tensor(ids, name="ids"), samba.from_torch_tensor(torch.tensor([t for _, t in texts]), name="themes")


def batches(texts, draw=None):
    """Batches of texts of about one length, in random order."""
    texts = sorted(texts, key=lambda text: len(text[0]))
    parts = [texts[i : i + BATCH] for i in range(0, len(texts), BATCH)]
    return [padded(part) for part in (draw.sample(parts, len(parts)) if draw else parts)]


utils.set_seed(1)
draw = random.Random(1)
train, test = [write(draw) for _ in range(64 * BATCH)], [write(draw) for _ in range(16 * BATCH)]
model = samba.from_torch_model_(Tagger())
optim = samba.optim.AdamW(model.parameters(), lr=0.005)


def example(length):
    """Inputs of one size. `dims` would take the second dim of all inputs for a length, and that of `themes` is none."""
    ids, themes = samba.zeros(BATCH, length, dtype=torch.int64, name="ids"), samba.zeros(BATCH, len(THEMES), name="themes")
    return ids, themes


inputs, *longer = map(example, LENGTHS)
pef = samba.session.compile(model, inputs, optim, name="tagger", loss_indices=[0], sizes=longer)
outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])

for epoch in range(8):
    total = 0.0
    for batch in batches(train, draw):
        (loss,) = samba.session.run(batch, outputs[:1])
        total += loss.item()
    print(f"epoch {epoch + 1}  loss {total / 64:.4f}")

right = found = meant = 0
for ids, themes in batches(test):
    _, logits = samba.session.run((ids, themes), outputs, section_types=["FWD"], train=False)
    guess, truth = logits.torch() > 0, themes.torch() > 0
    right, found, meant = right + (guess & truth).sum(), found + guess.sum(), meant + truth.sum()
f1 = 2 * right / (found + meant)
print(f"F1 of {len(test)} texts: {f1:.3f}")
assert f1 > 0.9
