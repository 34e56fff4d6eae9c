# SPDX-License-Identifier: Apache-2.0
"""What test_replicas.py starts as several replicas: a model with SyncBatchNorm, trained in every mode. It saves what each replica
saw: losses, parameters and buffers. torch.distributed is begun, which SyncBatchNorm's own forward would ask for a GPU."""

import os
import sys

import torch
import torch.nn as nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import runtime

MODES = ("normal", "inorder", "optimal")
STEPS, BATCH = 4, 6


class Model(nn.Module):
    """Batch norms of images, volumes, lines and rows, with every option, and one that is frozen. No layer before a norm has a
    bias, whose gradient would be rounding."""

    def __init__(self):
        super().__init__()
        self.images = nn.Sequential(nn.Conv2d(2, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3, bias=False))
        self.volumes, self.frozen = nn.BatchNorm3d(2, momentum=None), nn.BatchNorm2d(4)
        self.lines, self.wide = nn.BatchNorm1d(4, eps=1e-3), nn.Linear(64, 1100, bias=False)
        self.rows = nn.Sequential(nn.BatchNorm1d(1100, affine=False, momentum=0.3), nn.Tanh(), nn.Linear(1100, 12, bias=False))
        self.untracked, self.head = nn.BatchNorm1d(12, track_running_stats=False), nn.Linear(12, 5)
        nn.init.normal_(self.frozen.running_mean)
        nn.init.uniform_(self.frozen.running_var, 0.5, 2)
        self.frozen.eval()

    def forward(self, x, y):
        x = self.images(x)
        x = self.volumes(x.unflatten(1, (2, 2))).flatten(1, 2)
        x = self.lines(torch.tanh(self.frozen(x)).flatten(2))
        logits = self.head(self.untracked(self.rows(self.wide(torch.tanh(x).flatten(1)))))
        return nn.functional.cross_entropy(logits, y), logits


def data(step, size):
    """The whole batch of a step: the same on all replicas."""
    torch.manual_seed(step)
    return torch.randn(BATCH * size, 2, 8, 8) * 2 + 1, torch.randint(5, (BATCH * size,))


def part(step, rank, size):
    return [x[rank * BATCH : (rank + 1) * BATCH] for x in data(step, size)]


def made():
    torch.manual_seed(0)
    return Model()


def on_whole_batch(size):
    """PyTorch's losses, and what parameters and buffers become, in one process with BatchNorm."""
    model, losses = made(), []
    optim = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(STEPS):
        loss, _ = model(*data(step, size))
        optim.zero_grad()
        loss.backward()
        optim.step()
        losses.append(loss.item())
    return losses, model.state_dict()


def inputs(x, y):
    return samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(y, name="y")


def converted():
    model = samba.from_torch_model_(nn.SyncBatchNorm.convert_sync_batchnorm(made()))
    return model, samba.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def trained(folder, rank, size, data_parallel=True, mode="normal"):
    """(losses, what the model has then), compiled and run with data_parallel or without."""
    samba.session.reset()
    model, optim = converted()
    said = {"name": "model", "loss_indices": [0], "output_folder": folder, "data_parallel": data_parallel}
    pef = samba.session.compile(model, inputs(*part(0, 0, 1)), optim, **said)
    model, optim = converted()
    outputs = utils.trace_graph(model, inputs(*part(0, 0, 1)), optim, loss_indices=[0], pef=pef)
    losses, how = [], {"data_parallel": True, "data_parallel_mode": mode} if data_parallel else {}
    for step in range(STEPS):
        found = samba.session.run(inputs(*part(step, rank, size)), outputs[:1], **how)
        losses.append(found[0].item())
    samba.session.to_cpu(model)
    return losses, {name: x.torch().detach().clone() for name, x in model.state_dict(keep_vars=True).items()}


def main(folder):
    rank, size = utils.get_rank(), utils.get_world_size()
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/gloo", rank=rank, world_size=size)
    assert runtime.thread_context()
    own = os.path.join(folder, str(rank))
    found = {mode: trained(own, rank, size, mode=mode) for mode in MODES}
    torch.save(found, os.path.join(folder, f"{rank}.pt"))


if __name__ == "__main__":
    samba.session.use_abexit(main, *sys.argv[1:])
