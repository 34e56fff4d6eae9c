# SPDX-License-Identifier: Apache-2.0
"""Tensors of one region name share device memory."""

import pytest
import torch
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


class Sum(nn.Module):
    def forward(self, a, b, c):
        return a + 10 * b + 100 * c


def traced(tmp_path, inputs, **options):
    model = Sum()
    pef = samba.session.compile(model, inputs, output_folder=tmp_path, **options)
    utils.trace_graph(model, inputs, pef=pef)
    return model


def test_shared(tmp_path):
    t0 = samba.full((2,), 1.0, name="t0")
    t1 = samba.full((2,), 2.0, name="t1", region_name="t1_other")
    t2 = samba.full((2,), 3.0, name="t2", region_name="t0")
    outputs = traced(tmp_path, (t0, t1, t2), inference=True).output_tensors
    assert samba.session.loaded().names("input") == ["t0", "t1"]  # two pieces of memory
    assert torch.equal(t0.sn_data, t2.sn_data) and t0.sn_data.tolist() == [3, 3]  # the last that was transferred
    t0.sn_data = torch.full((2,), 5.0)
    assert t2.sn_data.tolist() == [5, 5] and t1.sn_data.tolist() == [2, 2]
    t2.rdu()
    assert t0.sn_data.tolist() == [3, 3]
    t0.cpu()
    assert t0.tolist() == [3, 3] and samba.session.get_samba_tensor_by_name("t2") is t2
    assert [x.sn_name for x in samba.session.get_tensors([t0, t2])] == ["t0", "t2"]

    def run(*inputs):
        return samba.session.run(inputs, outputs)[0].tolist()

    assert run() == [3 + 20 + 300] * 2
    assert run(samba.full((2,), 4.0, name="t2")) == [4 + 20 + 400] * 2
    assert run(samba.full((2,), 6.0, name="t2"), samba.full((2,), 7.0, name="t0")) == [7 + 20 + 700] * 2  # the last counts
    strided = samba.from_torch_tensor(torch.tensor([8.0, 0.0, 9.0, 0.0])[::2], name="t2")
    assert run(t0, t1, strided) == [8 + 20 + 800, 9 + 20 + 900]
    with pytest.raises(LookupError, match="t3"):
        run(samba.zeros(2, name="t3"))
    with pytest.raises(LookupError, match="no name"):
        run(samba.zeros(2), t0)


def test_gradients(tmp_path):
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)

        def forward(self, a, b):
            return self.lin(a) * self.lin(b)

    model = samba.from_torch_model_(Weighted())
    inputs = tuple(samba.ones(3, 2, name=name, region_name="r").requires_grad_() for name in "ab")
    pef = samba.session.compile(model, inputs, samba.optim.SGD(model.parameters(), lr=0.1), output_folder=tmp_path)
    utils.trace_graph(model, inputs, pef=pef)
    samba.session.run(inputs, section_types=["fwd", "bckwd"])
    x = torch.ones(3, 2)
    weight = model.lin.weight.torch().detach().clone().requires_grad_()
    (nn.functional.linear(x, weight, model.lin.bias.torch()) ** 2).sum().backward()
    torch.testing.assert_close(model.lin.weight.sn_grad, weight.grad)


def test_refusals(tmp_path):
    a, b = samba.ones(2, name="a"), samba.ones(2, name="b")
    for other in (samba.ones(3, name="c", region_name="a"), samba.ones(2, name="c", region_name="a", dtype=torch.float64)):
        with pytest.raises(NotImplementedError, match="'a'.*'c'.*must be alike"):
            traced(tmp_path, (a, b, other))
    model = samba.from_torch_model_(nn.Linear(2, 2))
    model.bias.sn_region_name = "weight"
    with pytest.raises(LookupError, match="'bias' has the region name 'weight': only inputs"):
        samba.session.compile(model, (a,), output_folder=tmp_path)
