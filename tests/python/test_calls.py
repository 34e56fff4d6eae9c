# SPDX-License-Identifier: Apache-2.0
"""Calls of torch functions as programs write them, traced and outside tracing: arguments under all their names, NumPy's numbers
among them, dtypes of results, indices of every kind. What comes is compared with torch's: values, shapes and dtypes."""

import re

import numpy as np  # noqa: F401  what is called is text
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import sambaflow.samba as samba
import sambaflow.samba.utils as utils

X = torch.tensor([[0.3, -1.2, 2.5, 0.7], [1.1, 0.4, -0.6, 1.9], [-2.2, 0.8, 1.3, -0.5]])
I = torch.tensor([[1, 0, 3], [2, 1, 0]])


class Calls(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, *tensors):
        return [call(*tensors) * 1 for call in self.calls]  # times one: a result that is its argument is no output


def traced(calls, tensors, folder, inference=True):
    model = Calls(calls)
    inputs = tuple(samba.from_torch_tensor(x.clone(), name=f"x{i}") for i, x in enumerate(tensors))
    pef = samba.session.compile(model, inputs, inference=inference, name="calls", output_folder=str(folder))
    return [
        samba.to_torch(y) for y in samba.session.run(inputs, utils.trace_graph(model, inputs, pef=pef), section_types=["FWD"])
    ]


def as_torch(lines, tensors, folder, eager=True):
    """Each line of text, an expression of `x`, `i` ..., has the values, the shape and the dtype that torch's has."""
    names = "xi"[: len(tensors)]
    lines = [line.strip() for line in lines.strip().splitlines()]
    calls = [eval(f"lambda {', '.join(names)}: {line}", globals()) for line in lines]
    wanted = [call(*(x.clone() for x in tensors)) * 1 for call in calls]
    got = traced(calls, tensors, folder)
    at_once = (
        [samba.to_torch(call(*(samba.from_torch_tensor(x.clone()) for x in tensors)) * 1) for call in calls] if eager else got
    )
    for line, a, b, c in zip(lines, wanted, got, at_once):
        for y in (b, c):
            torch.testing.assert_close(y, a, equal_nan=True, msg=lambda said: f"{line}: {said}")


def refused(call, tensors, folder):
    """What tracing says against a call."""
    with pytest.raises(Exception) as caught:
        traced([call], tensors, folder)
    return str(caught.value)


def test_names_of_arguments(tmp_path):
    reductions = "sum mean prod var std argmax argmin amax amin logsumexp nansum".split()
    lines = [f"x.{name}({words})" for name in reductions for words in ("axis=1", "axis=1, keepdims=True")] + [
        f"torch.{name}(x, axis=0)" for name in reductions
    ]
    as_torch("\n".join(lines), [X], tmp_path)
    as_torch(
        """torch.max(x, axis=1, keepdims=True)[0]
        x.min(axis=1)[1]
        torch.cumsum(x, axis=0)
        x.cumprod(axis=0)
        torch.softmax(x, axis=1)
        x.log_softmax(axis=1)
        torch.stack([x, x], axis=1)
        torch.cat([x, x], axis=1)
        x[None].squeeze(axis=0)
        x.unsqueeze(axis=1)
        x.sort(axis=0)[0]
        x.argsort(axis=0)
        x.topk(2, axis=0)[1]
        (x > 0).any(axis=1)
        (x > 0).all(axis=1, keepdims=True)
        x.chunk(2, axis=1)[1]
        x.unbind(axis=1)[1]
        x.index_select(axis=1, index=i[0])
        x.gather(axis=1, index=i)
        x.repeat_interleave(2, axis=1)
        x.count_nonzero(axis=1)
        x.median(axis=1)[0]
        x.select(axis=1, index=0)
        x.narrow(axis=1, start=1, length=2)
        torch.flip(x, dims=[0])
        x.flip(dims=(0, 1))
        x.pow(exponent=2)
        torch.pow(2, exponent=x)
        x[:, :1].expand(size=(3, 5))
        torch.broadcast_to(x, size=(2, 3, 4))
        x.repeat(repeats=(2, 1))
        torch.tile(x, dims=(2,))
        torch.mm(x[:, :3], mat2=x)
        torch.bmm(x[None, :, :3], mat2=x[None])
        torch.mv(x, vec=x[0])
        torch.dot(x[0], tensor=x[1])
        torch.outer(x[0], vec2=x[1])
        torch.swapaxes(x, axis0=0, axis1=1)
        x.double().float(memory_format=torch.contiguous_format)
        x.view(size=(4, 3))
        torch.reshape(x, shape=(2, 6))
        torch.permute(input=x, dims=(1, 0))
        torch.add(x1=x, x2=x)
        torch.dropout(x, p=0.0, train=True)
        x.clone().pow_(exponent=2)
        x.clone().cumsum_(axis=0)
        x.clone().index_fill_(axis=1, index=i[0], value=2)""",
        [X, I],
        tmp_path,
    )


def test_arguments_that_no_name_fits(tmp_path):
    said = refused(lambda x: torch.mm(x, x, out_dtype=torch.float32), [X[:, :3]], tmp_path)
    assert re.match(r"mm: got an unexpected keyword argument 'out_dtype' \(in test_calls.py:\d+\)", said), said
    assert "axis" in refused(lambda x: F.softmax(x, axis=1), [X], tmp_path)  # written in Python: torch does not take it either


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_transposed(tmp_path):
    three = torch.arange(24.0).reshape(2, 3, 4)
    as_torch("x.T\nx.mT\nx.mH\nx.transpose(0, 2)", [three], tmp_path)
    as_torch("x.T\nx.t()\nx.mT\nx.H\ntorch.t(x)\nx.clone().T.mul_(2)", [X], tmp_path)
    as_torch("x.T\nx.t()", [X[0]], tmp_path)
    assert "t: expected a tensor of 2 dims or fewer, given one of rank 3: use mT" in refused(lambda x: x.t(), [three], tmp_path)
    assert "mT: expected a tensor of 2 dims or more, given one of rank 1" in refused(lambda x: x.mT, [X[0]], tmp_path)


def test_dtypes_of_reductions(tmp_path):
    whole = torch.arange(12).reshape(3, 4) - 5
    lines = """x.sum(dtype=torch.int32)
    torch.sum(x, 1, dtype=torch.int8)
    (x * 100).sum(0, dtype=torch.int8)
    x.sum((0, 1), dtype=torch.bool)
    (x > 0).sum(dtype=torch.uint8)
    (x * 1.7).sum(dtype=torch.int32)
    x.nansum(dtype=torch.int32)
    x.prod(dtype=torch.int32)
    x.prod(1, dtype=torch.int8)
    x.cumsum(0, dtype=torch.int32)
    x.cumsum(0, dtype=torch.uint8)
    x.cumprod(0, dtype=torch.int16)
    x.int().cumsum(1)
    x.sum(dtype=torch.float64)
    x.mean(dtype=torch.float32)
    x.cumsum(0, dtype=torch.float64)"""
    as_torch(lines, [whole], tmp_path)
    assert "cumsum: dtype must be one of numbers" in refused(lambda x: x.cumsum(0, dtype=torch.bool), [whole], tmp_path)


def test_distances(tmp_path):
    lines = """
    torch.cdist(x, x[1:] + 0.5)
    torch.cdist(x, x[1:] + 0.5, compute_mode="use_mm_for_euclid_dist")
    torch.cdist(x, x[1:] + 0.5, compute_mode="donot_use_mm_for_euclid_dist")
    torch.cdist(x / (x - 0.3), x + 9, compute_mode="use_mm_for_euclid_dist").isnan()"""
    as_torch(lines, [X], tmp_path)
    assert "compute_mode must be one of use_mm_for_euclid_dist_if_necessary, " in refused(
        lambda x: torch.cdist(x, x, compute_mode="mm"), [X], tmp_path
    )


def test_numbers_of_numpy(tmp_path):
    lines = """i * np.int64(3)
    np.int64(3) * i
    i + np.int32(3)
    i // np.int64(3)
    i % np.int64(3)
    i == np.int64(3)
    i * np.float32(1.5)
    i * np.float64(1.5)
    i.add(np.int64(3), alpha=np.int64(2))
    i.clamp(np.int64(0), np.int64(2))
    i.clone().mul_(np.int64(3))
    x.sum(np.int64(1))
    x.sum((np.int64(0),))
    x.roll(np.int64(1), np.int64(0))
    x.reshape(np.int64(4), -1)
    x.permute(np.int64(1), 0)
    x.repeat(np.int64(2), 1)
    torch.cat([x, x], np.int64(1))
    F.interpolate(x[None], size=np.int64(3))
    F.avg_pool1d(x, np.int64(2))
    F.softmax(x, np.int64(1))
    F.pad(x, (np.int64(1), 1))
    F.one_hot(i, np.int64(5))"""
    as_torch(lines, [X, I], tmp_path)


def written(x, index):
    y = x.clone()
    y[index] = 7
    return y


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8", "ignore:Using a non-tuple sequence")
def test_indices_of_every_kind(tmp_path):
    indices = """np.int64(1)
    np.array([0, 1])
    np.array(1)
    np.array([True, False, True])
    range(2)
    (range(2), range(1, 3))
    (None, range(1, 3))
    (slice(None), [True, False, True, False])
    (..., np.array([[0, 1], [2, 3]]))
    [True, False, True]
    []
    [[0, 1], [1, 2]]
    [0, slice(1, 3)]
    (0, [np.int64(1), np.int64(2)])
    True
    False
    (True, 0)
    (0, True)
    (True, [0, 1])
    (slice(None), None, True)
    torch.tensor(True)
    torch.tensor([1, 0, 1], dtype=torch.uint8)
    (slice(None), (0, 1))
    slice(np.int64(0), np.int64(2))"""
    indices = [line.strip() for line in indices.splitlines()]
    as_torch("\n".join(f"x[{index}]" for index in indices), [X], tmp_path)
    as_torch("\n".join(f"written(x, {index})" for index in indices if "uint8" not in index), [X], tmp_path)
    assert "an index of type str: expected integers" in refused(lambda x: x["a"], [X], tmp_path)
    assert "an index of type float: expected integers" in refused(lambda x: x[1.5], [X], tmp_path)


def test_large_integers(tmp_path):
    lines = """i.clone().fill_(2**63 - 2)
    i.clone().fill_(-(2**63))
    i.clone().fill_(2**53 + 1)
    i.clone().fill_(i.sum())
    i.index_fill(0, torch.tensor([1]), 2**53 + 1)
    i.masked_fill(i > 1, 2**53 + 1)
    i.scatter(0, torch.tensor([[1, 0, 1]]), 2**53 + 1)
    written(i, True) * 2**60 + 1
    x.clone().fill_(2**60 + 1)"""
    as_torch(lines, [X, I], tmp_path)


def test_options_of_zero(tmp_path):
    """A scale and a padding index of 0 are not left out."""
    as_torch("F.scaled_dot_product_attention(x[None], x[None] + 1, x[None] * 2, scale=0.0)", [X], tmp_path)

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 2))

        def forward(self, i):
            return torch.embedding(self.weight, i, 0).sum()

    plain = Table()
    model, inputs = samba.from_torch_model(Table()), (samba.from_torch_tensor(I, name="i"),)
    plain(I).backward()
    model(inputs[0]).backward()
    assert torch.equal(samba.to_torch(model.weight.grad), plain.weight.grad)
    pef = samba.session.compile(model, inputs, samba.optim.SGD(model.parameters(), lr=0.1), output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, inputs, samba.optim.SGD(model.parameters(), lr=0.1), pef=pef)
    samba.session.run(inputs, outputs, section_types=["FWD", "BCKWD"])
    assert torch.equal(samba.to_torch(model.weight.sn_grad), plain.weight.grad)


@pytest.mark.parametrize("size", [3, 300])
def test_constants_that_differ(tmp_path, size):
    """What was compiled and what is traced have other values: the sentence has the place, and not the bytes."""
    said = refused(
        lambda x: x.sum() + torch.rand(size, generator=torch.Generator().manual_seed(torch.seed() % 2**60)), [X], tmp_path
    )
    assert "First difference" in said and "test_calls.py" in said and "seed what makes it" in said
    assert "data=" not in said and len(said) < 600, said


def test_rrelu_that_does_not_train(tmp_path):
    lines = """F.rrelu(x)
    F.rrelu(x, 0.1, 0.5)
    torch.rrelu(x, lower=0.2)
    F.rrelu(x.clone(), inplace=True)
    torch.rrelu_(x.clone(), 0.2)
    nn.RReLU(0.1, 0.4).eval()(x)"""
    as_torch(lines, [X], tmp_path)
    assert "rrelu while it trains draws a slope" in refused(lambda x: F.rrelu(x, training=True), [X], tmp_path)
    assert samba.to_torch(F.rrelu(samba.from_torch_tensor(X), training=True)).shape == X.shape  # outside tracing it is torch's
