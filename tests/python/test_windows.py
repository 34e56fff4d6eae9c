# SPDX-License-Identifier: Apache-2.0
"""sn_gather and sn_scatter of random shapes, dims and starts against loops over windows in plain torch: outside tracing and
compiled, values and gradients. Starts are drawn from below 0 to beyond the end, sizes from 0.
SAMBAFLOW_SEED names other cases."""

import itertools
import os
import random

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors

SEED = int(os.environ.get("SAMBAFLOW_SEED", "20"))
CASES = 120


def selected(x, batched, at):
    """x without its batched dims, at that place of theirs: a view."""
    for d, i in sorted(zip(batched, at), reverse=True):
        x = x.select(d, i)
    return x


def narrowed(part, kept, dims, starts, lengths):
    """The window of a part whose dims are those dims of x: a view."""
    for d, start, length in zip(dims, starts, lengths):
        part = part.narrow(kept.index(d), start, length)
    return part


def loop_gather(x, starts, dims, lengths, batched):
    batch, kept = starts.shape[:-1], [d for d in range(x.dim()) if d not in batched]
    found = []
    for at in itertools.product(*map(range, batch)):
        moved = [min(max(int(s), 0), x.shape[d] - n) for s, d, n in zip(starts[at], dims, lengths)]
        found.append(narrowed(selected(x, batched, at), kept, dims, moved, lengths))
    if not found:
        return x.new_zeros(*batch, *[lengths[dims.index(d)] if d in dims else x.shape[d] for d in kept]) + 0 * x.sum()
    return torch.stack(found).reshape(*batch, *found[0].shape)


COMBINED = {
    None: lambda there, u: u,
    "sum": lambda there, u: there + u,
    "prod": lambda there, u: there * u,
    "amax": torch.maximum,
    "amin": torch.minimum,
}


def loop_scatter(x, starts, updates, dims, lengths, batched, reduce):
    batch, kept, out = starts.shape[:-1], [d for d in range(x.dim()) if d not in batched], x.clone()
    for at in itertools.product(*map(range, batch)):
        if all(0 <= s <= x.shape[d] - n for s, d, n in zip(starts[at].tolist(), dims, lengths)):
            view = narrowed(selected(out, batched, at), kept, dims, starts[at].tolist(), lengths)
            view.copy_(COMBINED[reduce](view.clone(), updates[at]))
    return out


def drawn(number):
    """(x, starts, dims, lengths, batched) of a case; x may be a view with strides."""
    r = random.Random(f"{SEED} {number}")
    g = torch.Generator().manual_seed(r.randrange(2**31))
    rank = r.randint(1, 4)
    shape = [r.choice((0, 1, 2, 3, 5)) if r.random() < 0.3 else r.randint(1, 5) for _ in range(rank)]
    order = r.sample(range(rank), rank)
    dims = order[: r.randint(1, rank)]
    batched = order[len(dims) : len(dims) + r.randint(0, rank - len(dims))]
    more = (
        [] if not batched and r.random() < 0.3 else [r.choice((0, 1, 2, 3, 4)) for _ in range(r.randint(0 if batched else 1, 2))]
    )
    lengths = [r.randint(0, shape[d]) if r.random() < 0.3 else min(r.randint(1, 3), shape[d]) for d in dims]
    batch = [shape[d] for d in batched] + more
    columns = [
        torch.where(
            torch.rand(batch, generator=g) < 0.85,  # most lie in x
            torch.randint(0, shape[d] - n + 1, batch, generator=g),
            torch.randint(-2, shape[d] + 3, batch, generator=g),
        )
        for d, n in zip(dims, lengths)
    ]
    starts = torch.stack(columns, -1).to(r.choice((torch.int64, torch.int32)))
    x = torch.randn(shape, generator=g, dtype=torch.float64)
    if r.random() < 0.4:  # another layout of the same values
        x = x.permute(*order).contiguous().permute(*[order.index(d) for d in range(rank)])
    negative = [d - rank if r.random() < 0.3 else d for d in dims]
    return x, starts, dims, negative, lengths, batched, r, g


class Call(torch.nn.Module):
    """A function of x and more, as a model whose parameters x and updates are."""

    def __init__(self, function, **tensors):
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            setattr(self, name, torch.nn.Parameter(tensor))

    def forward(self, starts, weight):
        y = self.function(*self.parameters(), starts)
        return (y * weight).sum(), y


def compiled(tmp_path, function, starts, weight, **tensors):
    """(value, gradients of the tensors) of the compiled program."""
    model = samba.from_torch_model_(Call(function, **tensors))
    given = samba.from_torch_tensor(starts, name="starts"), samba.from_torch_tensor(weight, name="weight")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, given, optim, loss_indices=[0], output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, given, optim, pef=pef, loss_indices=[0])
    y = samba.session.run(given, outputs, section_types=["fwd", "bckwd"])[1].torch()
    return y, [getattr(model, name).sn_grad for name in tensors]


def outside(function, starts, weight, **tensors):
    leaves = [samba.from_torch_tensor(x.clone().requires_grad_()) for x in tensors.values()]
    y = function(*leaves, samba.from_torch_tensor(starts))
    grads = torch.autograd.grad((y * weight).sum(), leaves)
    return samba.to_torch(y).detach(), [samba.to_torch(g) for g in grads]


def expected(function, starts, weight, **tensors):
    leaves = [x.clone().requires_grad_() for x in tensors.values()]
    y = function(*leaves, starts)
    grads = torch.autograd.grad((y * weight).sum(), leaves, allow_unused=True)
    return y.detach(), [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads)]


def compared(number, mine, theirs):
    for a, b in zip((mine[0], *mine[1]), (theirs[0], *theirs[1])):
        assert a.shape == b.shape, (SEED, number)
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda text: f"seed {SEED}, case {number}: {text}")


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_gather(way, tmp_path):
    for number in range(CASES if way == "eager" else CASES // 3):
        x, starts, dims, named, lengths, batched, r, g = drawn(number)

        def theirs(x, starts):
            return loop_gather(x, starts, dims, lengths, batched)

        def mine(x, starts):
            return samba.functional.sn_gather(x, starts, named, lengths, batched)

        weight = torch.randn(theirs(x, starts).shape, generator=g, dtype=torch.float64)
        wanted = expected(theirs, starts, weight, x=x)
        found = outside(mine, starts, weight, x=x) if way == "eager" else compiled(tmp_path, mine, starts, weight, x=x)
        compared(number, found, wanted)


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_scatter(way, tmp_path):
    overlaps = 0
    for number in range(CASES if way == "eager" else CASES // 3):
        x, starts, dims, named, lengths, batched, r, g = drawn(number)
        kept = [d for d in range(x.dim()) if d not in batched]
        window = [lengths[dims.index(d)] if d in dims else x.shape[d] for d in kept]
        updates = torch.randn(*starts.shape[:-1], *window, generator=g, dtype=torch.float64)
        reduce = r.choice(list(COMBINED))
        times = loop_scatter(torch.zeros_like(x), starts, torch.ones_like(updates), dims, lengths, batched, "sum")
        if reduce is None and (times > 1).any():  # which of several stays is not said
            overlaps += 1
            reduce = "sum"

        def theirs(x, updates, starts):
            return loop_scatter(x, starts, updates, dims, lengths, batched, reduce)

        def mine(x, updates, starts):
            return samba.functional.sn_scatter(x, starts, updates, named, lengths, batched, reduce)

        weight = torch.randn(x.shape, generator=g, dtype=torch.float64)
        wanted = expected(theirs, starts, weight, x=x, updates=updates)
        call = {"x": x, "updates": updates}
        found = outside(mine, starts, weight, **call) if way == "eager" else compiled(tmp_path, mine, starts, weight, **call)
        compared(number, found, wanted)
    assert overlaps


def test_one_of_several_stays():
    x, starts = torch.zeros(6), torch.tensor([1, 1, 2])
    updates = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    y = samba.sn_scatter(x, starts, updates, 0).tolist()
    assert y[0] == y[4] == y[5] == 0 and y[1] in (1, 3) and y[2] in (2, 4, 5) and y[3] == 6


def test_an_int_is_a_start_each():
    x = torch.arange(10.0)
    starts = torch.tensor([[0, 3], [8, 20]])
    expected = torch.stack([x[[0, 1]], x[[3, 4]], x[[8, 9]], x[[8, 9]]]).reshape(2, 2, 2)
    assert torch.equal(samba.to_torch(samba.sn_gather(x, starts, 0, 2)), expected)
    assert samba.sn_gather(x, torch.tensor(7), 0, 2).tolist() == [7, 8]


def differences(function, at):
    """Central differences of a number at a tensor."""
    found, step = torch.zeros_like(at), 1e-6
    for i in range(at.numel()):
        ends = []
        for sign in (1, -1):
            moved = at.clone()
            moved.view(-1)[i] += sign * step
            ends.append(function(moved))
        found.view(-1)[i] = (ends[0] - ends[1]) / (2 * step)
    return found


def test_finite_differences():
    g = torch.Generator().manual_seed(SEED)
    x, u, w = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((3, 4, 2), (3, 2, 2, 2), (3, 4, 2)))
    starts = torch.tensor([[[0], [3]], [[2], [-1]], [[1], [0]]])

    def gathered(x):
        return (samba.sn_gather(x, starts, [1], [2], [0]) * u).sum()

    def scattered(reduce):
        its = starts[:, :1] if reduce is None else starts
        return lambda x, u: (samba.sn_scatter(x, its, u[:, : its.shape[1]], [1], None, [0], reduce) * w).sum()

    leaf = samba.from_torch_tensor(x.clone().requires_grad_())
    (grad,) = torch.autograd.grad(gathered(leaf), leaf)
    torch.testing.assert_close(samba.to_torch(grad), differences(lambda x: gathered(x).item(), x))
    for reduce in COMBINED:
        call = scattered(reduce)
        leaves = [samba.from_torch_tensor(part.clone().requires_grad_()) for part in (x, u)]
        grads = [samba.to_torch(grad) for grad in torch.autograd.grad(call(*leaves), leaves)]
        torch.testing.assert_close(grads[0], differences(lambda x: call(x, u).item(), x))
        torch.testing.assert_close(grads[1], differences(lambda u: call(x, u).item(), u))


def test_integers():
    x = torch.arange(12, dtype=torch.int32).reshape(3, 4)
    assert samba.sn_gather(x, torch.tensor([1, 1]), (0, 1), (1, 2)).tolist() == [[5, 6]]
    y = samba.sn_scatter(x, torch.tensor([[0], [2]]), torch.full((2, 2, 4), 9, dtype=torch.int32), [0])
    assert y.tolist() == [[9] * 4, [9] * 4, [8, 9, 10, 11]]  # rows 2 and 3 are not in x as a whole


REFUSED = {
    "float starts": (
        lambda x, i: samba.sn_gather(x, i.float(), 0, 1),
        TypeError,
        "start_indices must be integers, given torch.float32",
    ),
    "no dims": (lambda x, i: samba.sn_gather(x, i, [], []), ValueError, "expected one dim of x or more in dims"),
    "twice": (lambda x, i: samba.sn_gather(x, i, [0, -2], [1, 1]), ValueError, "each dim once"),
    "in both": (lambda x, i: samba.sn_gather(x, i, [0], [1], [0]), ValueError, "each dim once"),
    "a dim": (lambda x, i: samba.sn_gather(x, i, [2], [1]), IndexError, "dims has 2, and x has 2 dims"),
    "a word": (lambda x, i: samba.sn_gather(x, i, "0", 1), TypeError, "dims must be integers, given '0'"),
    "last dim": (
        lambda x, i: samba.sn_gather(x, i, [0], [1]),
        ValueError,
        r"start_indices of shape \(2,\): its last dim must have 1, a start for each of dims \[0\]",
    ),
    "lengths": (lambda x, i: samba.sn_gather(x, i, [0, 1], [1]), ValueError, "1 lengths for 2 dims"),
    "too long": (lambda x, i: samba.sn_gather(x, i, 0, 4), ValueError, "a window of length 4 in dim 0 of x, which is of size 3"),
    "below 0": (lambda x, i: samba.sn_gather(x, i, 0, -1), ValueError, "a window of length -1"),
    "batch": (
        lambda x, i: samba.sn_gather(x, i, 1, 2, 0),
        ValueError,
        r"batched_dims \[0\] of x are of sizes \[3\], and start_indices of shape \(2,\) begins with \[2\]",
    ),
    "no tensor": (lambda x, i: samba.sn_gather([1.0], i, 0, 1), TypeError, "x must be a tensor, given list"),
    "updates": (
        lambda x, i: samba.sn_scatter(x, i, torch.ones(2, 1, 5), 0),
        ValueError,
        r"updates of shape \(2, 1, 5\): expected \(2, length, 4\)",
    ),
    "their dtype": (
        lambda x, i: samba.sn_scatter(x, i, torch.ones(2, 1, 4, dtype=torch.float64), 0),
        TypeError,
        "updates of torch.float64 for x of torch.float32",
    ),
    "their length": (
        lambda x, i: samba.sn_scatter(x, i, torch.ones(2, 1, 4), 0, 2),
        ValueError,
        r"lengths 2, and updates has \[1\] in dims \[0\]",
    ),
    "updates too long": (
        lambda x, i: samba.sn_scatter(x, i, torch.ones(2, 4, 4), 0),
        ValueError,
        "a window of length 4 in dim 0",
    ),
    "reduce": (
        lambda x, i: samba.sn_scatter(x, i, torch.ones(2, 1, 4), 0, reduce="max"),
        ValueError,
        "reduce='max': expected None, 'sum'",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what, tmp_path):
    call, kind, said = REFUSED[what]
    x, starts = torch.randn(3, 4), torch.tensor([0, 1])
    with pytest.raises(kind, match=said) as found:
        call(x, starts)
    assert isinstance(found.value, errors.SambaError)

    class Model(torch.nn.Module):
        def forward(self, x, starts):
            return call(x, starts)

    inputs = samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(starts, name="starts")
    with pytest.raises(kind, match=said) as found:
        samba.session.compile(Model(), inputs, inference=True, output_folder=str(tmp_path))
    assert "test_windows.py" in str(found.value)
