# SPDX-License-Identifier: Apache-2.0
"""A training that is killed in the middle and goes on from its last checkpoint, to the same bits.

    python examples/python/resume_killed.py                     # a child is killed, this process goes on
    python examples/python/resume_killed.py train FOLDER 1000   # by hand: interrupt it, and start it again

The program is the same whether it begins or goes on: it compiles, asks for a checkpoint, and starts its loop where that says. The
checkpoint carries weights, the optimizer's state, the schedule, the place in the data and the random numbers of dropout.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.sambaloader import SambaLoader

STEPS, EVERY = 400, 50


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 2))

    def forward(self, point, inside):
        return torch.nn.functional.cross_entropy(self.layers(point), inside)


def train(folder, steps, killed_at=None):
    """Trains up to `steps` steps from the newest checkpoint in the folder, if there is one. The losses of this call's steps."""
    samba.session.reset()
    utils.set_seed(1)
    x = torch.rand(1000, 2) * 2 - 1
    data = torch.utils.data.TensorDataset(x, (x.square().sum(1) < 0.5).long())
    batches = torch.utils.data.DataLoader(data, batch_size=50, shuffle=True)
    loader = SambaLoader(batches, ["point", "inside"])

    model = samba.from_torch_model_(Net())
    optim = samba.optim.AdamW(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optim, T_max=steps)
    inputs = samba.zeros(50, 2, name="point"), samba.zeros(50, dtype=torch.int64, name="inside")
    pef = samba.session.compile(model, inputs, optim, name="killed", loss_indices=[0])
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])

    found = samba.session.load_checkpoint(folder, loaders=loader, schedulers=schedule)
    step, losses = found.step if found else 0, []
    print(f"process {os.getpid()} begins at step {step}", flush=True)
    while step < steps:
        for batch in loader:  # goes on inside of the epoch that was interrupted
            (loss,) = samba.session.run(batch, outputs, hyperparam_dict={"lr": schedule.get_last_lr()[0]})
            schedule.step()
            losses.append(loss.item())
            step += 1
            if step % EVERY == 0:
                samba.session.save_checkpoint(folder, step=step, loaders=loader, schedulers=schedule)
            if step == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == steps:
                break
    return losses


def main():
    if sys.argv[1:2] == ["train"]:
        train(sys.argv[2], int(sys.argv[3]), *map(int, sys.argv[4:]))
        return
    with tempfile.TemporaryDirectory() as folder:
        killed, whole = pathlib.Path(folder, "killed"), pathlib.Path(folder, "whole")
        child = subprocess.run([sys.executable, __file__, "train", str(killed), str(STEPS), "230"], cwd=folder)
        assert child.returncode == -signal.SIGKILL
        resumed, straight = train(killed, STEPS), train(whole, STEPS)
        mean = sum(straight[-20:]) / 20
        print(f"the last loss is {resumed[-1]:.6f} resumed, {straight[-1]:.6f} in one go; mean of the last 20: {mean:.3f}")
        assert len(resumed) == STEPS - 200 and resumed == straight[200:]
        assert mean < 0.3


if __name__ == "__main__":
    main()
