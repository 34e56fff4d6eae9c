# SPDX-License-Identifier: Apache-2.0
"""Constants of a model in a file: what nobody has written is zero, no byte is of the process that compiled,
and what differs from another trace is said."""

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from models import Taker, beside_torch
from torch import nn

import sambaflow.samba as samba

HERE = pathlib.Path(__file__).parent


def filled(h):
    """Of diffusers' Wan and DeepSeek: memory that is written altogether, piece by piece."""
    out = torch.empty_like(h)
    out[..., 0::2] = -h[..., 1::2]
    out[..., 1::2] = h[..., 0::2]
    return out


# Tensors of two rows and four columns that nobody has written, of every way to make them.
UNWRITTEN = {
    "empty": lambda h: torch.empty(2, 4),
    "empty in a list": lambda h: torch.empty([2, 4], dtype=torch.float64),
    "empty_like": lambda h: torch.empty_like(h),
    "empty_like of a constant": lambda h: torch.empty_like(torch.ones(2, 4)),
    "new_empty": lambda h: h.new_empty(2, 4),
    "new_empty of a constant": lambda h: torch.ones(1).new_empty((2, 4)),
    "empty_strided": lambda h: torch.empty_strided((2, 4), (1, 2)),
    "new_empty_strided": lambda h: torch.ones(1).new_empty_strided((2, 4), (4, 1)),
    "empty_permuted": lambda h: torch.empty_permuted((2, 4), (1, 0)),
    "the constructor": lambda h: torch.Tensor(2, 4),
    "an older constructor": lambda h: torch.DoubleTensor(2, 4),
    "integers": lambda h: torch.empty(2, 4, dtype=torch.int64),
    "halves": lambda h: torch.empty(2, 4, dtype=torch.bfloat16),
    "bools": lambda h: torch.empty(2, 4, dtype=torch.bool),
    "new": lambda h: torch.ones(1).new(2, 4),
    "resized": lambda h: torch.zeros(1).resize_(2, 4),
    "resized as": lambda h: torch.zeros(1).resize_as_(torch.ones(2, 4)),
    "out": lambda h: torch.empty(0, out=torch.zeros(0)).resize_(2, 4),
    "empty, out": lambda h: torch.empty(2, 4, out=torch.zeros(0)),
    "a part of more": lambda h: torch.empty(100)[3:11].view(2, 4),
    "of bytes": lambda h: torch.empty(32, dtype=torch.uint8).view(torch.float32).view(2, 4),
    "a copy": lambda h: torch.empty(2, 4).clone(),
}


def compiled(model, folder):
    """The bytes of its PEF."""
    model = samba.from_torch_model_(model)
    x = (samba.from_torch_tensor(torch.ones(2, 4), name="x"),)
    return pathlib.Path(samba.session.compile(model, x, inference=True, name="m", output_folder=str(folder))).read_bytes()


@pytest.mark.parametrize("way", UNWRITTEN)
def test_unwritten_is_zero(way, tmp_path):
    """After memory of many sizes was used and given back; the constant takes the place of as many zeros."""
    junk = [torch.full((size,), 7.7) for size in (2, 8, 16, 32, 100, 1000) for _ in range(50)]
    del junk
    model = samba.from_torch_model_(Taker(lambda m, x: m.a(x) + UNWRITTEN[way](m.a(x)), a=nn.Linear(4, 4)))
    x = (samba.randn(2, 4, name="x"),)
    pef = samba.session.compile(model, x, inference=True, output_folder=str(tmp_path))
    (y,) = samba.session.run(x, samba.utils.trace_graph(model, x, pef=pef))
    torch.testing.assert_close(
        y.torch().to(torch.float32),
        torch.nn.functional.linear(x[0].torch(), model.a.weight.torch(), model.a.bias.torch()).detach(),
    )


def test_what_is_written_altogether(tmp_path):
    beside_torch(
        tmp_path,
        Taker(lambda m, x: filled(m.a(x)).square().mean() + filled(m.b(x)).sin().mean(), a=nn.Linear(4, 4), b=nn.Linear(4, 4)),
        (torch.randn(2, 4),),
    )


class Several(nn.Module):
    """Constants of many kinds: views of larger memory, dtypes, masks, of no elements; buffers; random numbers;
    a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.lin, self.norm, self.cell = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.LSTM(4, 4)
        self.register_buffer("scale", torch.arange(4.0))
        self.register_buffer("hidden", torch.arange(40.0)[3:7] * 0.5, persistent=False)
        self.table = torch.arange(100.0).reshape(10, 10)[2:4, 1:9:2]

    def forward(self, x):
        h = self.norm(self.lin(x)) * self.scale + self.hidden + self.table
        h = h + self.cell(filled(h))[0] + torch.eye(4)[:2] * torch.tensor([1.5, 2, 3, 4], dtype=torch.float64).float()
        kept = torch.tensor([[True, False, True, True], [False, True, True, False]])
        h = (
            torch.where(kept, h, torch.tensor(-1e4)).half().float()
            + torch.cat([h, torch.zeros(0, 4)])
            + torch.nn.functional.dropout(h, 0.5)
        )
        return sum(way(h).to(h.dtype).sum() for way in UNWRITTEN.values()) + (h[:, torch.tensor([2, 0, 1, 1])] ** 2).mean()


def print_digests(junk):
    """In a process of its own: the digest of a PEF for inference and one for training,
    after `junk` tensors were made and freed."""
    import tempfile

    torch.manual_seed(0)
    heap = [torch.full((1 + i * 37 % 5000,), float(i)) for i in range(junk)]
    del heap[::2]
    with tempfile.TemporaryDirectory() as folder:
        parts = [compiled(Several(), folder)]
        model = samba.from_torch_model_(Several())
        x = (samba.from_torch_tensor(torch.ones(2, 4), name="x"),)
        optimizer = samba.optim.AdamW(model.parameters(), lr=0.1)
        parts.append(
            pathlib.Path(
                samba.session.compile(model, x, optimizer, name="t", loss_indices=[0], output_folder=folder)
            ).read_bytes()
        )
    print(*(hashlib.sha256(part).hexdigest() for part in parts))


def test_no_byte_is_of_the_process():
    """Processes with other heaps, hashes and addresses write the same files."""
    said = set()
    for environment, junk in (
        ({}, 0),
        ({"MALLOC_PERTURB_": "171", "PYTHONHASHSEED": "1"}, 300),
        ({"MALLOC_PERTURB_": "85", "PYTHONHASHSEED": "77", "MALLOC_ARENA_MAX": "1"}, 1500),
    ):
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", f"import test_constants; test_constants.print_digests({junk})"],
            capture_output=True,
            text=True,
            cwd=HERE,
            env={**os.environ, **environment},
            check=True,
        )
        said.add(ran.stdout.strip().splitlines()[-1])
    assert len(said) == 1, said


def test_zero_and_minus_zero_are_two_numbers(tmp_path):
    """A tensor of both is no constant of one number: 1 / x tells them apart."""
    signs = torch.tensor([0.0, -0.0, -0.0, 0.0])
    for values in (signs, signs[1:2].expand(4).clone()):
        model = Taker(lambda m, x, values=values: m.a(x) * 0 + 1 / values, a=nn.Linear(4, 4))
        model = samba.from_torch_model_(model)
        x = (samba.zeros(2, 4, name="x"),)
        pef = samba.session.compile(model, x, inference=True, output_folder=str(tmp_path))
        (y,) = samba.session.run(x, samba.utils.trace_graph(model, x, pef=pef))
        assert torch.equal(y.torch()[0], 1 / values)


def test_what_differs_in_a_constant(tmp_path):
    """The model of another trace has another constant: which, where it comes from, and the first element."""
    values = torch.arange(6.0).reshape(2, 3)
    model = samba.from_torch_model_(Taker(lambda m, x: m.a(x) * values, a=nn.Linear(3, 3)))
    x = (samba.randn(2, 3, name="x"),)
    pef = samba.session.compile(model, x, inference=True, output_folder=str(tmp_path))
    samba.utils.trace_graph(model, x, pef=pef)
    values[1, 0], values[1, 2] = 30, 50
    with pytest.raises(
        RuntimeError,
        match=r"the model differs .*literal dtype=float32 shape=\[2,3\].*test_constants.py:\d+.*: element \[1, 0\] of the constant was 3.0 and is 30.0, "  # noqa: E501
        r"which is the first of 2 that differ among 6: seed what makes it, or make it a buffer or an input\. The PEF is .*$",
    ):
        samba.utils.trace_graph(model, x, pef=pef)


def test_what_differs_in_a_large_constant(tmp_path):
    """The bytes stand beside the graph's text, in the PEF once, and are told apart as those in the text are."""
    values = torch.arange(30000.0).reshape(100, 300)
    model = samba.from_torch_model_(Taker(lambda m, x: m.a(x) * values, a=nn.Linear(300, 300)))
    x = (samba.randn(100, 300, name="x"),)
    pef = samba.session.compile(model, x, inference=True, output_folder=str(tmp_path))
    assert pathlib.Path(pef).stat().st_size < 4 * 30000 + 8192
    samba.utils.trace_graph(model, x, pef=pef)
    values[97, 5] = 1
    with pytest.raises(
        RuntimeError,
        match=r"the model differs .*literal dtype=float32 shape=\[100,300\].*test_constants.py:\d+.*: element \[97, 5\] of the constant was 29105.0 and is 1.0, "  # noqa: E501
        r"which is the first of 1 that differ among 30000: seed what makes it, or make it a buffer or an input\. The PEF is .*$",
    ):
        samba.utils.trace_graph(model, x, pef=pef)


def test_constants_that_many_places_share_are_stored_once(tmp_path):
    """Each of six layers makes the same mask, as window attention does: the file has it as often as it would have one layer's."""
    mask = 100 * 100 * 4

    def size(layers):
        model = Taker(
            lambda m, x: sum(
                (m.a(x) * torch.arange(10000.0).reshape(100, 100).sin()[i // 100, :4]).sum()
                + (x.sum() * torch.arange(10000.0).sin().reshape(100, 100)).sum()
                for i in range(layers)
            ),
            a=nn.Linear(4, 4),
        )
        return len(compiled(model, tmp_path))

    assert size(6) < size(1) + mask / 4
