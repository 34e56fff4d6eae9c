# SPDX-License-Identifier: Apache-2.0
"""A PEF compiled from Python trains in C without Python: the program of docs/python.md, built against the library, gets Python's
losses bit for bit from Python's checkpoint, and its checkpoint goes back."""

import os
import pathlib
import subprocess

import numpy
import pytest
import torch
from models import ResFFNLogReg
from page import ROOT, blocks

import sambaflow.samba as samba
import sambaflow.samba.utils as utils

BUILD = pathlib.Path(os.environ.get("SAMBAFLOW_BUILD", ROOT / "build"))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The page's C program."""
    folder = tmp_path_factory.mktemp("c")
    (block,) = blocks("docs/python.md", "c")
    (folder / "digits.c").write_text(block, encoding="utf-8")
    subprocess.run(
        [
            "gcc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{ROOT / 'include'}",
            f"-I{BUILD / 'include'}",
            "digits.c",
            "-o",
            "digits",
            f"-L{BUILD}",
            "-lsambaflow",
            f"-Wl,-rpath,{BUILD}",
        ],
        cwd=folder,
        check=True,
    )
    assert b"libpython" not in subprocess.run(["ldd", folder / "digits"], check=True, capture_output=True).stdout
    return folder / "digits"


@pytest.mark.parametrize(
    "make",
    [
        lambda p: samba.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4, max_grad_norm=1.0),
        lambda p: samba.optim.AdamW(p, lr=0.01, amsgrad=True),
    ],
    ids=["SGD", "AdamW"],
)
def test_train_in_c(program, make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = ResFFNLogReg(20, 32, 10)
    samba.from_torch_model_(model)
    inputs = (samba.randn(8, 20, name="image"), samba.randint(10, (8,), name="label"))
    optim = make(model.parameters())
    pef = samba.session.compile(model, inputs, optim, name="digits", loss_indices=[0])
    assert pef == "out/digits/digits.pef"
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    for _ in range(3):  # so that there is an optimizer's state to hand over
        samba.session.run(inputs, outputs)
    samba.session.save("digits.safetensors")
    numpy.savez("batch.npz", **{x.sn_name: x.numpy() for x in inputs})
    expected = [samba.session.run(inputs, outputs)[0].item() for _ in range(5)]
    names = [name for name, (kind, _, _) in samba.session.loaded().tensors.items() if kind in ("parameter", "buffer")]
    assert any("momentum_buffer" in name or "exp_avg_sq" in name for name in names)
    after = samba.session.get_tensors_by_name(names)
    seventh = samba.session.run(inputs, outputs)[0].item()

    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    assert [numpy.float32(word) for word in printed] == [numpy.float32(loss) for loss in expected]
    assert expected[-1] < expected[0]
    samba.session.load("digits-c.safetensors")
    for name, ours, theirs in zip(names, after, samba.session.get_tensors_by_name(names)):
        assert torch.equal(ours.torch(), theirs.torch()), name
    assert samba.session.run(inputs, outputs)[0].item() == seventh  # state and weights: training goes on as if it had never left
    samba.session.to_cpu(model, optim)
    assert torch.isfinite(model.gemm1.weight.torch()).all()
