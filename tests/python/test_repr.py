# SPDX-License-Identifier: Apache-2.0
"""What people see when they print: torch's values with name, shape, dtype and device;
sessions and optimizers with what they hold."""

import re

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.runtime import Session, Tensor


@pytest.mark.parametrize(
    "held",
    [
        torch.tensor([[1.0, 2.5], [3.0, -4.0]]),
        torch.tensor([1, 2]),
        torch.tensor(3.5),
        torch.tensor([True]),
        torch.zeros(0, 3),
        torch.ones(2, dtype=torch.bfloat16),
        torch.tensor([float("nan"), float("inf")]),
        torch.zeros(2000),
        torch.arange(24.0).reshape(2, 3, 4),
    ],
    ids=lambda x: f"{x.dtype}{list(x.shape)}",
)
def test_values_as_torch(held):
    text = repr(samba.from_torch_tensor(held, name="x"))
    tail = f", name='x', shape={tuple(held.shape)}, dtype={held.dtype}, device=cpu)"
    assert text.endswith(tail)
    ours = text[len("SambaTensor(") : -len(tail)]
    of_torch = torch._tensor_str._tensor_str(held, len("SambaTensor(")) if held.numel() else "[]"
    assert ours == of_torch
    assert re.sub(r"\s+", "", repr(held)).startswith("tensor(" + re.sub(r"\s+", "", ours))


def test_kinds():
    x = samba.ones(2, name="x")
    assert repr(x) == "SambaTensor([1., 1.], name='x', shape=(2,), dtype=torch.float32, device=cpu)"
    x.requires_grad_()
    assert repr(x).endswith("device=cpu, requires_grad=True)")
    assert re.search(r"grad_fn=<\w+>\)$", repr(x + 1))
    assert (
        repr(samba.SambaTensor(shape=(2, 3), dtype=torch.bfloat16))
        == "SambaTensor(shape=(2, 3), dtype=torch.bfloat16, device=cpu, no data)"
    )
    model = samba.from_torch_model_(torch.nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        model.weight.fill_(2.0)
    assert (
        repr(model.weight)
        == "SambaParameter([[2.]], name='weight', shape=(1, 1), dtype=torch.float32, device=cpu, requires_grad=True)"
    )
    assert "Linear(in_features=1" in repr(model)


def test_traced(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            seen.append(repr(x + 1))
            return x

    seen = []
    samba.session.compile(Model(), (samba.ones(2, 3, name="x"),), inference=True, output_folder=str(tmp_path))
    assert seen == ["SambaTensor(shape=(2, 3), dtype=torch.float32, device=cpu, traced)"]


def test_runtime_tensor():
    assert repr(Tensor.zeros("x", "float32", (1, 2))) == "Tensor([[0.0, 0.0]], name='x', dtype=float32, shape=(1, 2))"
    assert repr(Tensor.zeros("x", "int64", (8,))) == "Tensor([0, 0, 0, 0, 0, 0, ...], name='x', dtype=int64, shape=(8,))"
    assert repr(Tensor.zeros("x", "bfloat16", (2,))) == "Tensor(name='x', dtype=bfloat16, shape=(2,))"
    assert repr(Tensor.zeros("x", "float32", (1001,))) == "Tensor(name='x', dtype=float32, shape=(1001,))"
    assert repr(Tensor.empty("x", "float32", (2,))) == "Tensor(name='x', dtype=float32, shape=(2,), no data)"


def test_sessions_and_optimizers(tmp_path):
    assert repr(samba.session) == "SambaSession(no PEF)"
    model = samba.from_torch_model_(torch.nn.Linear(3, 2))
    inputs = (samba.randn(4, 3, name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1, max_grad_norm=2.0)
    assert repr(optim).startswith("SGD (\nParameter Group 0\n") and repr(optim).endswith("\nmax_grad_norm: 2.0\n)")
    assert repr(samba.optim.AdamW(model.parameters())).endswith("weight_decay: 0.01\n)")
    pef = samba.session.compile(model, inputs, optim, output_folder=str(tmp_path))
    utils.trace_graph(model, inputs, optim, pef=pef)
    device = Session(pef, threads=1, isa="generic")
    words = (
        f"Session({pef!r}, sections={' '.join(device.sections)}, inputs=x, outputs=output_0, 2 parameters, "
        "threads=1, isa=generic)"
    )
    assert repr(device) == words
    assert repr(samba.session) == f"SambaSession({samba.session.loaded()!r})"


def test_format(tmp_path):
    """format() and f-strings show the number of a 0-d tensor, as those of torch's do."""
    loss, count, flag = (
        samba.from_torch_tensor(torch.tensor(0.5)),
        samba.from_torch_tensor(torch.tensor(42)),
        samba.from_torch_tensor(torch.tensor(True)),
    )
    for x, spec in ((loss, ".4f"), (loss, ""), (loss, ">10.2e"), (count, "05d"), (count, ""), (flag, "")):
        assert format(x, spec) == format(x.torch(), spec)
    model = samba.from_torch_model_(torch.nn.Linear(3, 2))
    inputs = (samba.randn(4, 3, name="x"),)
    outputs = utils.trace_graph(
        model, inputs, pef=samba.session.compile(model, inputs, inference=True, output_folder=str(tmp_path))
    )
    (y,) = samba.session.run(inputs, outputs)
    assert (
        f"{y.sum():.4f}" == f"{y.torch().sum():.4f}"
        and f"{y}" == repr(y)
        and f"{samba.SambaTensor(shape=())}".endswith("no data)")
    )
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{y:.4f}"

    class Model(torch.nn.Module):
        def forward(self, x):
            shown.append(f"{x.sum()}")
            return x if len(shown) == 1 else x * float(f"{x.sum():.3f}")

    shown = []
    samba.session.compile(Model(), inputs, inference=True, output_folder=str(tmp_path))
    assert shown == ["SambaTensor(shape=(), dtype=torch.float32, device=cpu, traced)"]
    with pytest.raises(NotImplementedError, match=r"format\(\) asks for the value of a tensor while the model is traced"):
        samba.session.compile(Model(), inputs, inference=True, output_folder=str(tmp_path))
