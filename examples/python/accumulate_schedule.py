# SPDX-License-Identifier: Apache-2.0
"""Gradient accumulation with a schedule and clipping: a small transformer learns to write the text of examples/data.

    python examples/python/accumulate_schedule.py

An update is by 32 passages, of which the memory holds 8 at once: `run_window` makes four runs of FWD and BCKWD, then one of OPT.
A scheduler of torch gives the learning rate, which warms up and falls as a cosine. `max_grad_norm` of the optimizer clips the
gradients of all four runs together.
"""

import pathlib

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils

PART, PARTS, LENGTH, UPDATES = 8, 4, 48, 160
DATA = pathlib.Path(__file__).resolve().parents[1] / "data"


class Writer(torch.nn.Module):
    def __init__(self, letters, width=64):
        super().__init__()
        self.letter, self.place = torch.nn.Embedding(letters, width), torch.nn.Embedding(LENGTH, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, letters)

    def forward(self, ids, following):
        hidden = self.letter(ids) + self.place(torch.arange(LENGTH))
        mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
        logits = self.head(self.layers(hidden, mask=mask, is_causal=True))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())


utils.set_seed(1)
text = (DATA / "text.txt").read_text(encoding="utf-8")
letters = sorted(set(text))
ids = torch.tensor([letters.index(letter) for letter in text])

model = samba.from_torch_model_(Writer(len(letters)))
optim = samba.optim.AdamW(model.parameters(), lr=0.005, max_grad_norm=1.0)
warm = torch.optim.lr_scheduler.LinearLR(optim, 0.1, 1.0, total_iters=20)
fall = torch.optim.lr_scheduler.CosineAnnealingLR(optim, T_max=UPDATES - 20)
schedule = torch.optim.lr_scheduler.SequentialLR(optim, [warm, fall], milestones=[20])

inputs = tuple(samba.zeros(PART, LENGTH, dtype=torch.int64, name=name) for name in ("ids", "following"))
pef = samba.session.compile(model, inputs, optim, name="writer", loss_indices=[0], grad_accumulation_steps=PARTS)
outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])


def part():
    rows = torch.randint(0, len(ids) - LENGTH, (PART, 1)) + torch.arange(LENGTH + 1)
    passages = ids[rows]
    return samba.from_torch_tensor(passages[:, :-1], name="ids"), samba.from_torch_tensor(passages[:, 1:], name="following")


for update in range(UPDATES):
    window = [part() for _ in range(PARTS)]
    losses = samba.session.run_window(window, outputs, hyperparam_dict={"lr": schedule.get_last_lr()[0]})
    schedule.step()
    loss = sum(loss.item() for (loss,) in losses) / PARTS
    if (update + 1) % 30 == 0:
        print(f"update {update + 1}  loss {loss:.3f}  next rate {schedule.get_last_lr()[0]:.5f}")
assert loss < 2.3
