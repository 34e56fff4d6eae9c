# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions: arithmetic, comparisons, logic, bits, choice, functions of one and two real numbers; with the values at
which they change their ways: zeros of both signs, ties, bounds, infinities, NaN, subnormal numbers, the ends of integers."""

import dataclasses
import itertools
import math

import torch
from table import ALL, BOOL, FLOATS, HALVES, INTEGERS, NUMBERS, Operator, Sample, pairs, shapes

INF, NAN = math.inf, math.nan
REALS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 6.0, 20.0, -20.0, 100.0, -100.0, INF, -INF, NAN]
WHOLE = {torch.bool: [0, 1], torch.uint8: [0, 1, 2, 3, 7, 8, 9, 50, 64, 127, 128, 200, 255]}


def corners(make):
    """Values at which functions change their ways, all there are for the dtype."""
    if make.floating():
        info = torch.finfo(make.dtype)
        return torch.tensor(
            [*REALS, info.max, info.min, info.tiny, -info.tiny, info.smallest_normal / 4, 1 + info.eps, 1 - info.eps / 2],
            dtype=torch.float64,
        ).to(make.dtype)
    if make.dtype in WHOLE:
        return torch.tensor(WHOLE[make.dtype], dtype=make.dtype)
    info = torch.iinfo(make.dtype)
    return torch.tensor(
        [0, 1, -1, 2, -2, 3, -3, 5, 7, 8, 9, 31, 63, 64, 50, -50, info.max, info.min, info.min + 1], dtype=make.dtype
    )


def plain(x):
    """Of values those at which gradients neither overflow nor are a choice, as they are of NaN:
    torch's depend on the size of the tensor."""
    return x[(x.abs() < 1e4) & ((x.abs() > 1e-3) | (x == 0))] if x.dtype.is_floating_point else x


def corner_pairs(make, nonzero=False):
    """Every pair of them. Divisors: not 0, where torch raises, nor -1, by which torch's process dies of the least integer; of
    floats only those whose rest torch has right."""
    x = corners(make)
    y = x
    if nonzero:
        y = plain(x) if make.floating() else x[(x != 0) & (x != -1)]
        x = y if make.floating() else x
    return x[:, None].expand(len(x), len(y)).contiguous(), y.expand(len(x), len(y)).contiguous()


def one(low=None, high=None, edge=True, edge_gradient=True, **options):
    def samples(make):
        for x in shapes(make, low=low, high=high):
            yield Sample((x,), dict(options))
        if edge:
            yield Sample((plain(corners(make)),), dict(options), gradient=edge_gradient)
            yield Sample((corners(make),), dict(options), gradient=False)

    return samples


def two(
    low=None,
    high=None,
    other_low=None,
    other_high=None,
    nonzero=False,
    numbers=(),
    edge=True,
    edge_gradient=True,
    ties=False,
    **options,
):
    """Pairs; a divisor that is not 0, nor near, where asked for; a number on the right.
    Where `ties` are kinks, float64 has no central differences."""

    def samples(make):
        for a, b in pairs(make, low=low, high=high, other_low=other_low, other_high=other_high):
            yield Sample(
                (a, torch.where(b.double().abs() < 0.25, torch.ones((), dtype=b.dtype), b) if nonzero else b), dict(options)
            )
        for number in numbers:
            for shape in ((), (5,), (3, 4)):
                yield Sample((make.tensor(*shape, low=low, high=high), number), dict(options))
        if edge:
            a, b = corner_pairs(make, nonzero)
            yield Sample((a, b), dict(options), gradient=False)
            if edge_gradient and make.floating():
                x = plain(corners(make))
                yield Sample(
                    (x[:, None].expand(len(x), len(x)).contiguous(), x.expand(len(x), len(x)).contiguous()),
                    dict(options),
                    gradient=not ties or make.dtype is not torch.float64,
                )

    return samples


def _promoting(samples):
    """The same, and operands of other dtypes: a value of rank 0, another integer, a bool."""

    def more(make):
        yield from samples(make)
        x = make.tensor(3, 4)
        for dtype in (torch.int16, torch.uint8, torch.float32):
            yield Sample((x, make.tensor(3, 4, low=1, high=3, dtype=dtype)))
            yield Sample((x, make.tensor(low=1, high=3, dtype=dtype)))

    return more


def _scaled(make):
    for a, b in pairs(make):
        yield Sample((a, b), {"alpha": 3 if not make.floating() else 0.3}, terms=2)


def _bounds(make):
    for k, x in enumerate(shapes(make)):
        yield Sample((x,), [{"min": 1}, {"max": 2}, {"min": 1, "max": 2}, {"min": 2, "max": 1}][k % 4])
    x, smooth = corners(make), make.dtype is not torch.float64  # at bounds there is no central difference
    yield Sample((plain(x),), {"min": 0, "max": 3}, gradient=smooth)
    yield Sample((x,), {"min": 0, "max": 3}, gradient=False)
    if make.floating():
        yield Sample((plain(x),), {"min": -0.5, "max": 0.5}, gradient=smooth)
    low, high = torch.broadcast_tensors(x[:, None], x)
    yield Sample((plain(x),), {"min": x[3]}, gradient=smooth)
    yield Sample((make.tensor(3, 4), make.tensor(4), make.tensor(3, 1)), {})
    yield Sample(
        (make.tensor(len(x), len(x)), low.contiguous(), high.contiguous()), {}, gradient=False
    )  # where bounds are equal, or NaN


def _chosen(make):
    for a, b in pairs(make):
        condition = make.tensor(*torch.broadcast_shapes(a.shape, b.shape), dtype=torch.bool)
        yield Sample((condition, a, b))
    yield Sample((make.tensor(3, 1, dtype=torch.bool), make.tensor(4), 2))
    yield Sample((make.tensor(3, dtype=torch.bool), 1, make.tensor(3)))


def _masked(make):
    for k, x in enumerate(shapes(make)):
        mask = make.tensor(*x.shape, dtype=torch.bool)
        yield Sample((x, mask, [1, 0, make.tensor()][k % 3]), terms=max(1, x.numel()))
    if make.floating():
        yield Sample((make.tensor(2, 3), make.tensor(3, dtype=torch.bool), -INF))


def _close(make):
    for k, (a, b) in enumerate(pairs(make)):
        yield Sample(
            (a, (a + b * (1e-6 if make.floating() else 0)).to(make.dtype)), [{}, {"rtol": 0.0, "atol": 0.5}, {"rtol": 0.3}][k % 3]
        )
    a, b = corner_pairs(make)
    for equal_nan in (False, True):
        yield Sample((a, b), {"equal_nan": equal_nan})


def _replaced(make):
    for k, x in enumerate(shapes(make)):
        yield Sample((x,), [{}, {"nan": 1.5}, {"posinf": 2.0, "neginf": -3.0}][k % 3])
    for options in ({}, {"nan": 2.0, "posinf": 1.0}):
        yield Sample((corners(make),), options)


def _decimals(make):
    for k, x in enumerate(shapes(make, low=-30, high=30)):
        yield Sample((x,), {"decimals": (0, 1, 2, -1)[k % 4]} if make.floating() else {})
    yield Sample((corners(make),))


def _three(low=None, values=(1, 3)):
    def samples(make):
        for k, (a, b) in enumerate(pairs(make)):
            yield Sample((a, b, make.tensor(*b.shape, low=low)), {"value": values[k % len(values)]} if k % 3 else {}, terms=2)

    return samples


def _between(make):
    for k, (a, b) in enumerate(pairs(make)):
        yield Sample((a, b, [0.25, 0.75, 1.0, make.tensor(*b.shape, low=0, high=1)][k % 4]), terms=2)


def _powers(make):
    if make.floating():
        for a, b in pairs(make, low=0.1, high=3, other_low=-2, other_high=3):
            yield Sample((a, b))
        for number in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5, 4):
            yield Sample((make.tensor(3, 5, low=0.1, high=3), number))
        a, b = corner_pairs(make)
        yield Sample((a, b), gradient=False)
    else:
        for a, b in pairs(make, other_low=0, other_high=9):
            yield Sample((a, b))
        for number in (0, 1, 2, 3, 9):
            yield Sample((corners(make), number))
        yield Sample(corner_pairs(make))


def _shifts(make):
    for a, b in pairs(make, other_low=0, other_high=9):
        yield Sample((a, b))
    yield Sample(corner_pairs(make))
    yield Sample((make.tensor(7), 3))


def _rules(names, samples, dtypes=FLOATS, **options):
    return [Operator(name, getattr(torch, name), samples, dtypes=dtypes, **options) for name in names.split()]


def _summed(samples):
    """Of two terms that may cancel: errors are units of theirs; of arguments far from where they do, of what the row says."""

    def cut(make):
        for sample in samples(make):
            near = [(x.double().abs() > 1e-3) & (x.double().abs() < 100) for x in sample.args]
            if len(near) > 1 or bool(near[0].all()):
                small = all(bool((x.double().abs() < 100).all()) for x in sample.args)
                yield dataclasses.replace(sample, terms=2 if small else 1)
            else:
                yield dataclasses.replace(sample, args=(sample.args[0][near[0]],), terms=2)
                yield dataclasses.replace(sample, args=(sample.args[0][~near[0]],))

    return cut


def _above(low, samples):
    """Without arguments below."""

    def cut(make):
        for sample in samples(make):
            (x,) = sample.args
            yield dataclasses.replace(sample, args=(x[~(x < low)],)) if bool((x < low).any()) else sample

    return cut


def _logit(x, eps=None):
    x = x.double() if eps is None else x.double().clamp(eps, 1 - eps)
    near = (2 * x - 1).abs() < 0.5
    middle = torch.where(near, x, 0.5)
    return torch.where(near, torch.log1p((2 * middle - 1) / (1 - middle)), torch.log(x / (1 - x)))


FULL = (torch.float32, torch.float64)
_FAR = torch.arange(40.0, dtype=torch.float64)


def _digamma(x):
    """By the recurrence: torch's own slope has nine digits where the argument is small."""
    return torch.digamma(x + 40) - (1 / (x.unsqueeze(-1) + _FAR)).sum(-1)


def _trigamma(x):
    return torch.polygamma(1, x + 40) + (1 / (x.unsqueeze(-1) + _FAR) ** 2).sum(-1)


OPERATORS = [
    Operator("add", torch.add, _promoting(two(numbers=(2, True))), dtypes=ALL),
    Operator("sub", torch.sub, _promoting(two(numbers=(2,))), dtypes=NUMBERS),
    Operator("mul", torch.mul, _promoting(two(numbers=(3,))), dtypes=ALL),
    Operator("div", torch.div, _promoting(two(nonzero=True, numbers=(3, 0.7), edge_gradient=False)), dtypes=ALL),
    Operator("add_alpha", torch.add, _scaled, dtypes=NUMBERS),
    Operator("sub_alpha", torch.sub, _scaled, dtypes=NUMBERS),
    Operator(
        "floor_divide",
        torch.floor_divide,
        two(nonzero=True, numbers=(3, -2)),
        dtypes=NUMBERS,
        gradient=False,
        note="an integer divided by 0 is 0",
    ),
    Operator(
        "trunc_divide",
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        two(nonzero=True, numbers=(3, -2)),
        dtypes=NUMBERS,
        gradient=False,
        note="an integer divided by 0 is 0",
    ),
    Operator(
        "remainder",
        torch.remainder,
        two(nonzero=True, numbers=(3, -2), edge_gradient=False),
        dtypes=NUMBERS,
        note="an integer divided by 0 leaves 0",
    ),
    Operator(
        "fmod",
        torch.fmod,
        two(nonzero=True, numbers=(3, -2), edge_gradient=False),
        dtypes=NUMBERS,
        note="an integer divided by 0 leaves 0",
    ),
    Operator("pow", torch.pow, _powers, dtypes=NUMBERS),
    Operator("addcmul", torch.addcmul, _three(), dtypes=NUMBERS),
    Operator("addcdiv", torch.addcdiv, _three(low=0.5, values=(1, 0.3))),
    Operator("lerp", torch.lerp, _between),
    *_rules("eq ne lt le gt ge", two(numbers=(1, 0.5), edge_gradient=False), dtypes=ALL, gradient=False, exact=True),
    Operator("isclose", torch.isclose, _close, dtypes=ALL, gradient=False, exact=True),
    *_rules("isnan isinf isfinite", one(), dtypes=ALL, gradient=False, exact=True),
    *_rules("logical_and logical_or logical_xor", two(edge_gradient=False), dtypes=ALL, gradient=False, exact=True),
    Operator("logical_not", torch.logical_not, one(), dtypes=ALL, gradient=False, exact=True),
    *_rules("bitwise_and bitwise_or bitwise_xor", two(numbers=(3,)), dtypes=INTEGERS + BOOL, gradient=False, exact=True),
    Operator("bitwise_not", torch.bitwise_not, one(), dtypes=INTEGERS + BOOL, gradient=False, exact=True),
    Operator("left_shift", torch.bitwise_left_shift, _shifts, dtypes=INTEGERS, gradient=False, exact=True),
    Operator("right_shift", torch.bitwise_right_shift, _shifts, dtypes=INTEGERS, gradient=False, exact=True),
    Operator("where", torch.where, _chosen, dtypes=ALL, exact=True),
    Operator("masked_fill", torch.masked_fill, _masked, dtypes=ALL, exact=True),
    *_rules("maximum minimum", two(ties=True), dtypes=ALL),
    *_rules("fmax fmin", two(ties=True), dtypes=ALL),
    Operator("clamp", torch.clamp, _bounds, dtypes=NUMBERS),
    Operator("nan_to_num", torch.nan_to_num, _replaced, dtypes=ALL),
    Operator("heaviside", torch.heaviside, two(), dtypes=NUMBERS, gradient=False, exact=True),
    Operator("copysign", torch.copysign, two(), dtypes=FLOATS),
    *_rules("neg abs", one(), dtypes=NUMBERS, exact=True),
    Operator("sign", torch.sign, one(), dtypes=ALL, gradient=False, exact=True),
    Operator("square", torch.square, one(), dtypes=ALL),
    *_rules("floor ceil trunc", one(-30, 30), dtypes=NUMBERS, gradient=False, exact=True),
    Operator("round", torch.round, _decimals, dtypes=NUMBERS, gradient=False),
    Operator("frac", torch.frac, one(-30, 30)),
    Operator("sqrt", torch.sqrt, one(0, 9), dtypes=ALL),
    Operator("rsqrt", torch.rsqrt, one(0.1, 9), dtypes=ALL),
    Operator("reciprocal", torch.reciprocal, one(0.2, 3, edge_gradient=False), dtypes=ALL),
    *_rules("exp exp2 expm1 sin cos tan sinh cosh tanh atan asinh erf erfc sigmoid", one(), dtypes=ALL),
    *_rules("log log2 log10", one(0.1, 9), dtypes=ALL),
    Operator("lgamma", torch.lgamma, _summed(one(0.1, 9, edge_gradient=False)), dtypes=ALL),  # terms cancel near its zeros
    Operator("lgamma", torch.lgamma, _summed(one(-2.9, -2.1, edge_gradient=False)), dtypes=FULL),
    Operator("digamma", torch.digamma, _summed(one(0.1, 9, edge_gradient=False)), dtypes=FULL, truth=_digamma),
    Operator("digamma", torch.digamma, _summed(one(-2.8, -2.6, edge_gradient=False)), dtypes=FULL, truth=_digamma),
    Operator(  # at poles far below 0, torch's sine is not 0
        "polygamma", lambda x: torch.polygamma(1, x), _above(-9, one(0.1, 9)), dtypes=FULL, gradient=False, truth=_trigamma
    ),
    Operator("entr", torch.special.entr, one(0.01, 9), dtypes=ALL),
    Operator("log1p", torch.log1p, one(-0.9, 9), dtypes=ALL),
    *_rules("asin acos atanh", one(-0.95, 0.95), dtypes=ALL),
    Operator("acosh", torch.acosh, one(1.1, 9), dtypes=ALL),
    Operator(
        "logit",
        torch.logit,
        lambda make: itertools.chain(one(0.05, 0.4, edge_gradient=False)(make), one(-0.5, 1.5, eps=0.1)(make)),
        truth=_logit,
        note="has all digits near 1/2, where torch's get lost",
    ),
    Operator("atan2", torch.atan2, two(edge_gradient=False), dtypes=ALL),
    Operator("hypot", torch.hypot, two(edge_gradient=False)),
    Operator("logaddexp", torch.logaddexp, _summed(two(edge_gradient=False)), dtypes=FULL),
    Operator("logaddexp", torch.logaddexp, _summed(two(edge_gradient=False)), dtypes=HALVES),
    Operator("xlogy", torch.xlogy, two(0.1, 3, edge_gradient=False), dtypes=ALL),
    Operator(
        "detach", torch.detach, one(), dtypes=ALL, gradient=False, exact=True, untraced="an operator that gives its operand"
    ),
]
