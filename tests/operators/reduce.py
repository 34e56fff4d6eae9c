# SPDX-License-Identifier: Apache-2.0
"""Reductions: over each dim, over several, over all; with ties, NaN and no elements."""

import math

import torch
from table import ALL, FLOATS, INTEGERS, NUMBERS, Operator, Sample, shapes


def _extents(x):
    """dim=None, each end, the middle, several; nothing twice."""
    yield None
    if x.dim():
        yield from sorted({0, x.dim() // 2, x.dim() - 1} - {x.dim()})
        yield -1
    if x.dim() > 2:
        yield from ([0, -1], [1, 2], list(range(x.dim())))


def _terms(x, dim):
    dims = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    return max(1, math.prod(x.shape[d] for d in dims))


def _over(low=None, high=None, least=0, several=True, options=({},), whole=True):
    """Samples over `_extents`; `least`: elements that a result needs; `several`: the function takes lists of dims."""

    def samples(make):
        for k, x in enumerate(shapes(make, low=low, high=high)):
            for dim in _extents(x):
                if (isinstance(dim, list) and not several) or (dim is None and not whole):
                    continue
                dims = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
                if any(x.shape[d] < least for d in dims) or (least and dim is None and x.numel() < least):
                    continue
                terms = _terms(x, dim)
                if dim is None:
                    yield Sample((x,), dict(options[k % len(options)]), terms=terms)
                else:
                    yield Sample((x, dim), {"keepdim": k % 2 == 1, **options[k % len(options)]}, terms=terms)

    return samples


def _with_nan(make):
    for sample in _over()(make):
        x = sample.args[0]
        if x.dtype.is_floating_point and x.numel():
            x = torch.where(make.tensor(*x.shape, low=0, high=1, dtype=torch.float32) < 0.3, math.nan, x)
        # of a mean of nothing torch has NaN for gradients, and we 0
        yield Sample(
            (x, *sample.args[1:]),
            sample.kwargs,
            terms=sample.terms,
            gradient=not x.dtype.is_floating_point or not bool(torch.nanmean(x, *sample.args[1:]).isnan().any()),
        )


def _pairs(name):
    """torch.max(a, dim) gives two results; the values carry the gradient."""
    function = getattr(torch, name)

    def call(x, *args, **kwargs):
        return tuple(function(x, *args, **kwargs))

    return call


def _norms(p):
    def samples(make):
        for sample in _over(least=0 if 0 <= p < math.inf else 1)(make):
            x, *dims = sample.args
            yield Sample((x, p), {**sample.kwargs, "dim": dims[0] if dims else None}, terms=sample.terms)

    return samples


def _flags(make):
    for sample in _over()(make):
        x = sample.args[0]
        yield sample
        yield Sample((torch.zeros_like(x), *sample.args[1:]), sample.kwargs)
        yield Sample((torch.ones_like(x), *sample.args[1:]), sample.kwargs)


def _counted(make):
    for sample in _over()(make):
        yield Sample(sample.args, {})


def _aminmax(make):
    for sample in _over(least=1, several=False)(make):
        x, *dims = sample.args
        yield Sample((x,), {**sample.kwargs, **({"dim": dims[0]} if dims else {})})


def _deviation(make):
    """Whole numbers, apart or equal: between two that are nearly so,
    gradients of the root are the rounding of their difference."""
    for sample in _over(least=2, options=({}, {"correction": 0}, {"correction": 0.5}))(make):
        yield Sample((sample.args[0].round(), *sample.args[1:]), sample.kwargs, terms=sample.terms)


def _of_all(make):
    """Distinct and equal elements, of which equal ones share the gradient; NaN.
    No -0, which torch takes for 0 or not by where it stands."""
    for x in shapes(make):
        if x.numel():
            yield Sample((x,), terms=x.numel())
            yield Sample(
                (x.round() + 0.0 if make.floating() else x,), terms=x.numel(), gradient=make.dtype is not torch.float64
            )  # which has central differences
    if make.floating():
        yield Sample((torch.tensor([1, math.nan, math.inf, math.nan], dtype=make.dtype),), gradient=False)


def _histograms(make):
    for shape in [(7,), (0,), (3, 5), (600,)]:
        yield Sample((make.tensor(*shape),), {"bins": 6, "min": -2, "max": 2})
        yield Sample((make.tensor(*shape),), {"bins": 1})
    yield Sample((make.tensor(40),), {})
    yield Sample((torch.full((5,), 2.0, dtype=make.dtype),), {"bins": 4})
    yield Sample((torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, float("nan")], dtype=make.dtype),), {"bins": 2, "min": 0, "max": 1})
    yield Sample((make.tensor(4, 9, layout="transposed"),), {"bins": 5, "min": -3, "max": 3})


def _counts(make):
    for size in (0, 1, 7, 300):
        x = make.tensor(size, low=0, high=9)
        yield Sample((x,), {"minlength": 10})
        yield Sample((x,), {"minlength": 13, "weights": torch.linspace(-1, 1, size, dtype=torch.float64)})
        yield Sample((x,), {"minlength": 10, "weights": torch.arange(size, dtype=torch.float32)})


OPERATORS = [
    Operator("sum", torch.sum, _over(), dtypes=ALL),
    Operator("mean", torch.mean, _over()),
    Operator("nansum", torch.nansum, _with_nan, dtypes=ALL),
    Operator("nanmean", torch.nanmean, _with_nan, note="the gradient of a mean of nothing is 0, torch's NaN"),
    Operator("prod", torch.prod, _over(low=-1.5, high=1.5, several=False), dtypes=ALL),
    Operator("var", torch.var, _deviation),
    Operator("std", torch.std, _deviation),
    Operator("var_mean", torch.var_mean, _deviation),
    Operator("std_mean", torch.std_mean, _deviation),
    Operator("amax", torch.amax, _over(least=1), dtypes=ALL, exact=True),
    Operator("amin", torch.amin, _over(least=1), dtypes=ALL, exact=True),
    Operator("aminmax", lambda *a, **k: tuple(torch.aminmax(*a, **k)), _aminmax, dtypes=ALL, exact=True),
    Operator("argmax", torch.argmax, _over(least=1, several=False), dtypes=NUMBERS, gradient=False, exact=True),
    Operator("argmin", torch.argmin, _over(least=1, several=False), dtypes=NUMBERS, gradient=False, exact=True),
    Operator("max", _pairs("max"), _over(least=1, several=False, whole=False), dtypes=ALL, exact=True),
    Operator("min", _pairs("min"), _over(least=1, several=False, whole=False), dtypes=ALL, exact=True),
    Operator(
        "max_of_all",
        torch.max,
        _of_all,
        dtypes=ALL,
        exact=True,
        note="of NaN all gradients are NaN, as those of amax, and not of the NaN alone",
    ),
    Operator(
        "min_of_all",
        torch.min,
        _of_all,
        dtypes=ALL,
        exact=True,
        note="of NaN all gradients are NaN, as those of amin, and not of the NaN alone",
    ),
    Operator("any", torch.any, _flags, dtypes=ALL, gradient=False, exact=True),
    Operator("all", torch.all, _flags, dtypes=ALL, gradient=False, exact=True),
    Operator("count_nonzero", torch.count_nonzero, _counted, dtypes=ALL, gradient=False, exact=True),
    *[Operator("vector_norm", torch.linalg.vector_norm, _norms(p)) for p in (2, 1, 0, 3, math.inf, -math.inf)],
    *[
        Operator(
            "vector_norm",
            torch.linalg.vector_norm,
            _norms(p),
            without={torch.float16: "torch computes this gradient in float16, where it overflows"},
        )
        for p in (0.5, -1)
    ],
    Operator(
        "logsumexp",
        torch.logsumexp,
        _over(whole=False),
        dtypes=(*FLOATS, *INTEGERS),
        truth=lambda x, *args, **options: torch.logsumexp(x.double(), *args, **options),
    ),
    Operator("histc", torch.histc, _histograms, dtypes=(torch.float32, torch.float64), gradient=False, exact=True),
    Operator("bincount", torch.bincount, _counts, dtypes=INTEGERS, gradient=False),
]
