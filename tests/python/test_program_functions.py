# SPDX-License-Identifier: Apache-2.0
"""groupby, triu_fill, sn_multinomial and functional.stir against plain torch, outside tracing and compiled. SAMBAFLOW_SEED names
other cases."""

import math
import os
import random

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors
from sambaflow.samba.functional import stir
from sambaflow.samba.functional.stir import sn_imm, sn_iteridx, sn_select, sn_zipmapreduce
from sambaflow.samba.utils import SNType

SEED = int(os.environ.get("SAMBAFLOW_SEED", "21"))


class Call(torch.nn.Module):
    def __init__(self, function, x):
        super().__init__()
        self.function, self.x = function, torch.nn.Parameter(x)

    def forward(self, weight, *more):
        y = self.function(self.x, *more)
        return (y * weight).sum(), y


def both(tmp_path, way, mine, theirs, x, *more):
    """Values and the gradient of x, ours and torch's."""
    leaf = x.clone().requires_grad_()
    expected = theirs(leaf, *more)
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(SEED), dtype=x.dtype)
    (wanted,) = torch.autograd.grad(torch.nan_to_num((expected * weight)[expected.isfinite()]).sum() + 0 * leaf.sum(), leaf)
    if way == "eager":
        given = samba.from_torch_tensor(x.clone().requires_grad_())
        y = mine(given, *map(samba.from_torch_tensor, more))
        finite = samba.to_torch(y).detach().isfinite()
        (grad,) = torch.autograd.grad((y[finite] * weight[finite]).sum() + 0 * given.sum(), given)
        found, grad = samba.to_torch(y).detach(), samba.to_torch(grad)
    else:
        model = samba.from_torch_model_(Call(mine, x.clone()))
        inputs = [samba.from_torch_tensor(weight, name="weight")]
        inputs += [samba.from_torch_tensor(part, name=f"more{i}") for i, part in enumerate(more)]
        optim = samba.optim.SGD(model.parameters(), lr=0.1)
        pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=str(tmp_path))
        outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
        found = samba.session.run(inputs, outputs, section_types=["fwd", "bckwd"])[1].torch()
        grad = model.x.sn_grad
    note = f"seed {SEED}: x {tuple(x.shape)}"
    torch.testing.assert_close(found, expected.detach(), rtol=1e-9, atol=1e-9, msg=lambda text: f"{note}: {text}")
    torch.testing.assert_close(grad, wanted, rtol=1e-9, atol=1e-9, msg=lambda text: f"{note}: {text}")


# ---- groupby ----


def loop_groupby(x, groups, count, capacity, dim, fill):
    x = x.movedim(dim, 0)
    capacity = len(x) if capacity is None else capacity
    found, used = torch.full((count, capacity, *x.shape[1:]), fill, dtype=x.dtype) + 0 * x.sum(), [0] * count
    for row, group in zip(x, groups.tolist()):
        if 0 <= group < count:
            if used[group] < capacity:
                places = torch.zeros(count, capacity, *[1] * row.dim(), dtype=torch.bool)
                places[group, used[group]] = True
                found = torch.where(places, row, found)
            used[group] += 1
    return found, torch.tensor(used)


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_groupby(way, tmp_path):
    r = random.Random(SEED)
    for number in range(40 if way == "eager" else 12):
        g = torch.Generator().manual_seed(r.randrange(2**31))
        shape = [r.choice((0, 1, 2, 5, 7)) for _ in range(r.randint(1, 3))]
        dim = r.randrange(-len(shape), len(shape))
        count, capacity = r.randint(1, 4), r.choice((None, 0, 1, 2, 3))
        x = torch.randn(shape, generator=g, dtype=torch.float64)
        groups = torch.randint(-1, count + 1, (shape[dim],), generator=g, dtype=r.choice((torch.int64, torch.int32)))
        how = count, capacity, dim, r.choice((0, -1.5))
        expected = loop_groupby(x, groups, *how)[1]
        assert samba.to_torch(samba.groupby(x, groups, *how)[1]).equal(expected), (SEED, number)
        both(
            tmp_path,
            way,
            lambda x, groups: samba.groupby(x, groups, *how)[0],
            lambda x, groups: loop_groupby(x, groups, *how)[0],
            x,
            groups,
        )


def test_a_mixture_of_experts(tmp_path):
    """Two experts with room for all tokens, trained for ten steps as torch trains the same by masks."""

    class Routed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.router, self.experts = torch.nn.Linear(4, 2), torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))

        def forward(self, x, target):
            share, chosen = self.router(x).softmax(-1).max(-1)
            if isinstance(x, samba.SambaTensor):
                rows, _ = samba.groupby(x, chosen, 2)
                places, _ = samba.groupby(torch.arange(len(x)), chosen, 2, fill=len(x))
                done = torch.stack([expert(part) for expert, part in zip(self.experts, rows)])
                y = torch.zeros(len(x) + 1, 4).index_copy(0, places.reshape(-1), done.reshape(-1, 4))[: len(x)]
            else:
                y = torch.where((chosen == 0).unsqueeze(1), self.experts[0](x), self.experts[1](x))
            return (y * share.unsqueeze(1) - target).square().mean()

    theirs, mine = Routed(), Routed()
    mine.load_state_dict(theirs.state_dict())
    samba.from_torch_model_(mine)
    x, target = torch.randn(9, 4), torch.randn(9, 4)
    inputs = samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(target, name="target")
    optim, torchs = samba.optim.SGD(mine.parameters(), lr=0.5), torch.optim.SGD(theirs.parameters(), lr=0.5)
    pef = samba.session.compile(mine, inputs, optim, loss_indices=[0], output_folder=str(tmp_path))
    outputs = utils.trace_graph(mine, inputs, optim, pef=pef, loss_indices=[0])
    for _ in range(10):
        loss = theirs(x, target)
        torch.testing.assert_close(samba.session.run(inputs, outputs)[0].torch(), loss.detach(), rtol=1e-4, atol=1e-6)
        torchs.zero_grad()
        loss.backward()
        torchs.step()


# ---- triu_fill ----


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_triu_fill(way, tmp_path):
    r = random.Random(SEED)
    for _ in range(12 if way == "eager" else 5):
        g = torch.Generator().manual_seed(r.randrange(2**31))
        shape = [r.choice((0, 1, 2, 4, 5)) for _ in range(r.randint(2, 4))]
        diagonal, value = r.randint(-3, 3), r.choice((0.0, 2, -1e9))

        def theirs(x):
            return x.masked_fill(torch.ones(x.shape[-2:], dtype=torch.bool).triu(diagonal), value)

        x = torch.randn(shape, generator=g, dtype=torch.float64)
        both(tmp_path, way, lambda x: samba.triu_fill(x, value, diagonal), theirs, x)
    y = samba.triu_fill(torch.zeros(2, 2))
    assert y.tolist() == [[0, -math.inf], [0, 0]]
    assert samba.triu_fill(torch.ones(2, 2, dtype=torch.int32), 7).tolist() == [[1, 7], [1, 1]]


# ---- draws ----


def counts(drawn, categories):
    return torch.stack([(drawn == i).sum((0, 2)) for i in range(categories)], -1).double()


@pytest.mark.parametrize("way", ["eager", "compiled"])
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(way, replacement, tmp_path):
    """Shares of what is drawn first are those of the weights; pairs without replacement as drawing one after the other gives."""
    weights = torch.tensor([[1.0, 0.0, 3.0, 4.0], [0.5, 0.5, 0.0, 1.0]])
    rows = 4000

    class Draw(torch.nn.Module):
        def forward(self, weights):
            return samba.sn_multinomial(weights.repeat(rows, 1), 2, replacement)

    given = samba.from_torch_tensor(weights, name="weights")
    if way == "eager":
        drawn = [samba.to_torch(Draw()(given)) for _ in range(2)]
    else:
        pef = samba.session.compile(Draw(), (given,), inference=True, output_folder=str(tmp_path))
        outputs = utils.trace_graph(Draw(), (given,), pef=pef)
        drawn = [samba.session.run((given,), outputs)[0].torch() for _ in range(2)]
        samba.session.reset_random_generator()
        assert torch.equal(samba.session.run((given,), outputs)[0].torch(), drawn[0])
    assert drawn[0].shape == (2 * rows, 2) and drawn[0].dtype is torch.int64 and not torch.equal(*drawn)
    if not replacement:
        assert (drawn[0][:, 0] != drawn[0][:, 1]).all()
    pairs = drawn[0].reshape(rows, 2, 2)
    for row in range(2):
        p = (weights[row] / weights[row].sum()).double()
        expected = p.unsqueeze(1) * p if replacement else p.unsqueeze(1) * (p / (1 - p).unsqueeze(1)) * (1 - torch.eye(4))
        found = torch.zeros(4, 4, dtype=torch.float64)
        found.index_put_((pairs[:, row, 0], pairs[:, row, 1]), torch.ones(rows, dtype=torch.float64), accumulate=True)
        assert (found[expected == 0] == 0).all()
        likely = expected > 0
        statistic = ((found - rows * expected)[likely].square() / (rows * expected[likely])).sum().item()
        assert statistic < 3 * likely.sum() + 20, statistic  # chi-square of as many cells: beyond 1 in 10^6


def test_multinomial_of_one_row(tmp_path):
    class Draw(torch.nn.Module):
        def forward(self, weights):
            return torch.multinomial(weights, 3), torch.multinomial(weights, 50, replacement=True)

    given = samba.from_torch_tensor(torch.tensor([0.0, 1.0, 2.0, 1e-3], dtype=torch.float64), name="weights")
    pef = samba.session.compile(Draw(), (given,), inference=True, output_folder=str(tmp_path))
    outputs = utils.trace_graph(Draw(), (given,), pef=pef)
    some, many = (x.torch() for x in samba.session.run((given,), outputs))
    assert sorted(some.tolist()) == [1, 2, 3] and many.shape == (50,) and set(many.tolist()) <= {1, 2, 3}


# ---- stir ----


def space_of(*shapes):
    return torch.broadcast_shapes(*shapes)


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_zipmapreduce(way, tmp_path):
    r = random.Random(SEED)
    for number in range(30 if way == "eager" else 12):
        g = torch.Generator().manual_seed(r.randrange(2**31))
        shape = [r.choice((1, 2, 3, 5)) for _ in range(r.randint(1, 3))]
        other = [1 if r.random() < 0.4 else size for size in shape[r.randrange(len(shape)) :]]
        x, y = (torch.randn(s, generator=g, dtype=torch.float64) for s in (shape, other))
        dim, reduce = r.randrange(-len(shape), len(shape)), r.choice((None, "sum", "mean", "amax", "amin", "prod"))
        dims = None if reduce is None else r.choice((None, dim, list(range(len(shape)))[: r.randint(1, len(shape))]))
        keep = reduce is not None and r.random() < 0.5
        given = r.random() < 0.5

        def mine(x, y):
            def plain(a, b):
                return sn_select(sn_iteridx(dim) >= sn_imm(1), a * b, a + sn_iteridx(dim, SNType.FLOAT64))

            def told(space, a, b):
                assert space.shape == tuple(shape)
                return sn_select(sn_iteridx(dim, space=space) >= 1, a * b, a + sn_iteridx(dim, torch.float64, space))

            return sn_zipmapreduce(told if given else plain, [x, y], reduce, dims, keep)

        def theirs(x, y):
            at = torch.arange(shape[dim]).reshape([-1 if d == dim % len(shape) else 1 for d in range(len(shape))])
            z = torch.where(at >= 1, x * y, x + at.double())
            if reduce is None:
                return z
            over = list(range(len(shape))) if dims is None else [dims] if isinstance(dims, int) else dims
            if reduce == "prod":
                for d in sorted((d % len(shape) for d in over), reverse=True):
                    z = z.prod(d, keepdim=keep)
                return z
            return getattr(torch, reduce)(z, over, keep)

        both(tmp_path, way, mine, theirs, x, y)


def test_several_results():
    least, sum_ = sn_zipmapreduce(lambda a, b: (torch.minimum(a, b), a + b), [torch.ones(2), torch.arange(2.0)])
    assert least.tolist() == [0, 1] and sum_.tolist() == [1, 2]
    assert sn_zipmapreduce(lambda a: 3.0, torch.ones(2, 2)).tolist() == [[3, 3], [3, 3]]
    assert sn_zipmapreduce(lambda a: a > 1, [torch.arange(3.0)], "any").item() is True
    assert sn_zipmapreduce(lambda a: a > 1, [torch.arange(4.0).reshape(2, 2)], "all", 1).tolist() == [False, True]


# ---- refusals ----

X = torch.ones(2, 3)
REFUSED = {
    "groupby of a scalar": (lambda: samba.groupby(torch.ones(()), torch.ones(1).long(), 1), ValueError, "input has no dims"),
    "groups": (
        lambda: samba.groupby(X, torch.ones(3).long(), 1),
        ValueError,
        r"groups of shape \(3,\) for 2 rows: expected \(2,\)",
    ),
    "float groups": (lambda: samba.groupby(X, torch.ones(2), 1), TypeError, "groups must be integers, given torch.float32"),
    "no groups": (lambda: samba.groupby(X, torch.ones(2).long(), 0), ValueError, "num_groups is 0: expected an integer of 1"),
    "capacity": (lambda: samba.groupby(X, torch.ones(2).long(), 1, -1), ValueError, "capacity is -1: expected an integer of 0"),
    "a line": (lambda: samba.triu_fill(torch.ones(3)), ValueError, r"input of shape \(3,\): expected two dims or more"),
    "a word": (lambda: samba.triu_fill(X, "0"), TypeError, "value must be a number, given str"),
    "half": (lambda: samba.triu_fill(X.long(), 0.5), ValueError, "0.5 cannot be written into a tensor of torch.int64"),
    "infinity": (lambda: samba.triu_fill(X.long()), ValueError, "-inf cannot be written into a tensor of torch.int64"),
    "imm": (lambda: sn_imm("1"), TypeError, "sn_imm: expected a number, given '1' of str"),
    "imm's dtype": (lambda: sn_imm(1, torch.complex64), TypeError, "'complex64' is none of the device's dtypes: float32"),
    "outside": (lambda: sn_iteridx(0), RuntimeError, "sn_iteridx: there is an index in a function that sn_zipmapreduce applies"),
    "dim": (lambda: sn_zipmapreduce(lambda a: sn_iteridx(2), X), IndexError, "sn_iteridx: dim 2 of a space of 2 dims"),
    "no function": (lambda: sn_zipmapreduce(X, X), TypeError, "expected a function first, given Tensor"),
    "no tensors": (lambda: sn_zipmapreduce(lambda: 1, []), ValueError, "expected a tensor or more"),
    "shapes": (
        lambda: sn_zipmapreduce(lambda a, b: a, [X, torch.ones(2)]),
        ValueError,
        r"the shapes \(2, 3\), \(2,\) do not broadcast",
    ),
    "reduce": (lambda: sn_zipmapreduce(lambda a: a, X, "max"), ValueError, "reduce='max': expected None, 'sum'"),
    "dims": (lambda: sn_zipmapreduce(lambda a: a, X, None, 0), ValueError, "dims and keepdim are those of a reduction"),
    "too much": (
        lambda: sn_zipmapreduce(lambda a: a.reshape(6), X),
        ValueError,
        r"the function returned \(6,\) for a space of \(2, 3\)",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, kind, said = REFUSED[what]
    with pytest.raises(kind, match=said) as found:
        call()
    assert isinstance(found.value, errors.SambaError) or what == "imm's dtype"
    assert not stir._spaces()


def test_draws_that_are_refused(tmp_path):
    class Draw(torch.nn.Module):
        def __init__(self, *how, **more):
            super().__init__()
            self.how, self.more = how, more

        def forward(self, x):
            return samba.sn_multinomial(x, *self.how, **self.more)

    x = samba.ones(2, 3, name="x")
    for model, kind, said in (
        (Draw(4), ValueError, "multinomial: 4 samples of 3 categories without replacement"),
        (Draw(0, True), ValueError, "0 samples of 3 categories with replacement"),
        (Draw(1, generator=torch.Generator()), NotImplementedError, "numbers of a generator of its own"),
    ):
        with pytest.raises(kind, match=said):
            samba.session.compile(model, (x,), inference=True, output_folder=str(tmp_path))
    with pytest.raises(NotImplementedError, match=r"multinomial of \(2, 3\) torch.int64: expected floating-point weights"):
        samba.session.compile(
            Draw(1), (samba.ones(2, 3, dtype=torch.int64, name="x"),), inference=True, output_folder=str(tmp_path)
        )
