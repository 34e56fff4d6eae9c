# SPDX-License-Identifier: Apache-2.0
"""The same elements under other shapes and at other places."""

import torch
import torch.nn.functional as F
from table import ALL, FLOATS, Operator, Sample, shapes


def _moves(name, call, samples, **more):
    return Operator(name, call, samples, dtypes=ALL, exact=True, **more)


def _each(*variants, least_rank=0, terms=1):
    """Every shape with arguments that each variant makes of it; None leaves the shape out."""

    def samples(make):
        for x in shapes(make, least_rank=least_rank):
            for variant in variants:
                args = variant(x)
                if args is not None:
                    yield Sample((x, *args), terms=terms)

    return samples


def _turned(x):
    return (tuple(range(x.dim()))[1:] + (0,) * (x.dim() > 0),)


def _lists(dims):
    """Two or three tensors to be joined along each of these dims, of different sizes there."""

    def samples(make):
        for x in shapes(make, least_rank=1):
            for dim in dims(x):
                other = list(x.shape)
                other[dim] = 2
                yield Sample(([x, make.tensor(*other), x],), {"dim": dim})

    return samples


def _alike(make):
    for x in shapes(make):
        for dim in {0, -1, x.dim()}:
            yield Sample(([x, make.tensor(*x.shape)],), {"dim": dim})


def _stacked(make):
    for x in shapes(make):
        yield Sample(([x, make.tensor(*x.shape), x],))


def _blocks(make):
    for shape in [(), (1,), (3,), (2, 3), (0, 2), (4, 1), (33, 17)]:
        for other in [(), (2,), (3, 2)]:
            yield Sample(tuple(make.tensor(*each) for each in make.sized(shape, other)))


def _grids(make):
    for sizes in [(3,), (3, 4), (1, 5), (2, 3, 4), (0, 3), (7, 513)]:
        sizes = make.sized(sizes)
        for indexing in ("ij", "xy"):
            yield Sample(tuple(make.tensor(n) for n in sizes), {"indexing": indexing}, terms=100)
            yield Sample((*[make.tensor(n) for n in sizes], make.tensor()), {"indexing": indexing}, terms=100)


def _padded(mode, depth):
    """The last one to three dims, with amounts that `mode` takes."""

    def samples(make):
        for x in shapes(make, least_rank=depth):
            for n in range(1, min(3, x.dim()) + 1):
                if mode != "constant" and x.dim() - n not in (1, 2):
                    continue
                if mode != "constant" and 0 in x.shape:
                    continue
                sizes = [x.shape[-1 - i] for i in range(n)]
                most = {"constant": [4] * n, "replicate": [4] * n, "reflect": [s - 1 for s in sizes], "circular": sizes}[mode]
                yield Sample((x, [min(k, m) for m in most for k in (1, 2)]), {"mode": mode}, terms=64)
                yield Sample((x, [a for m in most for a in (0, min(3, m))]), {"mode": mode}, terms=64)
                if mode == "constant" and min(sizes) > 1:
                    yield Sample((x, [a for _ in range(n) for a in (-1, 2)]), {"mode": mode, "value": 1})
                    yield Sample((x, [a for _ in range(n) for a in (1, -1)]), {"mode": mode})

    return samples


def _repeats(make):
    for x in shapes(make):
        yield Sample((x, (2,) * x.dim()), terms=2 ** x.dim())
        yield Sample((x, (3, *[1] * x.dim())), terms=3)
        if x.dim():
            yield Sample((x, (*[1] * (x.dim() - 1), 2)), terms=2)


def _interleaved(make):
    for x in shapes(make, least_rank=1):
        for dim in (0, x.dim() - 1):
            yield Sample((x, 3, dim), terms=3)
            yield Sample((x, [k % 3 for k in range(x.shape[dim])], dim), terms=3)
        yield Sample((x, 2), terms=2)


def _interleave(x, repeats, dim=None):
    return torch.repeat_interleave(x, torch.tensor(repeats, dtype=torch.int64) if isinstance(repeats, list) else repeats, dim)


def _strided(make):
    for size, stride, start in [
        ((3, 4), (4, 1), 0),
        ((3, 4), (1, 3), 0),
        ((2, 2), (5, 2), 1),
        ((4, 3), (2, 1), 0),
        ((5,), (0,), 3),
        ((2, 3, 2), (1, 2, 4), 0),
        ((0, 3), (3, 1), 0),
        ((), (), 11),
    ]:
        for shape in [(12,), (3, 4), (1, 12)]:
            yield Sample((make.tensor(*shape), size, stride, start), terms=5)


def _windows(make):
    for x in shapes(make, least_rank=1):
        for dim in (0, x.dim() - 1):
            n = x.shape[dim]
            for size, step in {(min(n, 2), 1), (min(n, 3), 2), (min(n, 2), 3), (n, 1), (min(n, 4), 4)}:
                if size:
                    yield Sample((x, dim, size, step), terms=size)


def _sections(x):
    n = x.shape[-1]
    return ([n // 2, 0, n - n // 2], -1)


OPERATORS = [
    _moves(
        "reshape",
        torch.reshape,
        _each(lambda x: ((-1,),) if x.numel() else ((0, 7),), lambda x: ((*x.shape, 1),) if x.dim() < 8 else None),
    ),
    _moves("flatten", torch.flatten, _each(lambda x: (), lambda x: (-2, -1) if x.dim() > 1 else None)),
    _moves("unflatten", torch.unflatten, _each(lambda x: (-1, (1, x.shape[-1])), lambda x: (0, (-1, 1)), least_rank=1)),
    _moves("permute", torch.permute, _each(_turned, lambda x: (tuple(reversed(range(x.dim()))),))),
    _moves("transpose", torch.transpose, _each(lambda x: (0, -1))),
    _moves("movedim", torch.movedim, _each(lambda x: (0, -1), lambda x: ((0, 1), (-1, 0)) if x.dim() > 1 else None)),
    _moves("squeeze", torch.squeeze, _each(lambda x: (), lambda x: (0,), lambda x: ((-1, 0),) if x.dim() > 1 else None)),
    _moves("unsqueeze", torch.unsqueeze, _each(lambda x: (0,), lambda x: (-1,))),
    _moves(
        "expand",
        torch.broadcast_to,
        _each(lambda x: ((2, *x.shape),), lambda x: ((*x.shape[:-1], 3),) if x.dim() and x.shape[-1] == 1 else None, terms=3),
    ),
    _moves(
        "slice",
        lambda x, dim, start, stop, step: x[(slice(None),) * dim + (slice(start, stop, step),)],
        _each(lambda x: (0, 1, None, 1), lambda x: (x.dim() - 1, None, -1, 2), lambda x: (x.dim() - 1, -3, 100, 3), least_rank=1),
    ),
    _moves(
        "select",
        torch.select,
        _each(lambda x: (0, -1) if x.shape[0] else None, lambda x: (-1, 0) if x.shape[-1] else None, least_rank=1),
    ),
    _moves(
        "narrow",
        torch.narrow,
        _each(lambda x: (0, 0, x.shape[0] // 2), lambda x: (-1, x.shape[-1] // 2, x.shape[-1] - x.shape[-1] // 2), least_rank=1),
    ),
    _moves(
        "diagonal",
        torch.diagonal,
        _each(lambda x: (), lambda x: (1,), lambda x: (-2, -1, 0), lambda x: (1, 0, -1), lambda x: (100,), least_rank=2),
    ),
    _moves("windows", torch.Tensor.unfold, _windows),
    _moves("as_strided", torch.as_strided, _strided),
    _moves("split", torch.split, _each(lambda x: (2,), lambda x: (1 if x.shape[-1] < 50 else 100, -1), least_rank=1)),
    _moves("split_sizes", torch.split, _each(_sections, least_rank=1)),
    _moves("chunk", torch.chunk, _each(lambda x: (3,), lambda x: (2, -1), least_rank=1)),
    _moves("tensor_split", torch.tensor_split, _each(lambda x: (3,), lambda x: (2, -1), lambda x: ([1, 2], 0), least_rank=1)),
    _moves(
        "unbind",
        torch.unbind,
        _each(lambda x: (0,) if 0 < x.shape[0] < 50 else None, lambda x: (-1,) if 0 < x.shape[-1] < 50 else None, least_rank=1),
    ),
    _moves("concat", torch.cat, _lists(lambda x: {0, -1, x.dim() // 2})),
    _moves("stack", torch.stack, _alike),
    _moves("hstack", torch.hstack, _stacked),
    _moves("vstack", torch.vstack, _stacked),
    _moves("dstack", torch.dstack, _stacked),
    _moves("block_diag", torch.block_diag, _blocks),
    _moves("meshgrid", torch.meshgrid, _grids),
    _moves("repeat", torch.Tensor.repeat, _repeats),
    _moves("tile", torch.tile, _each(lambda x: ((2,),), lambda x: ((2, 1, 3),), terms=6)),
    _moves("repeat_interleave", _interleave, _interleaved),
    _moves(
        "flip",
        torch.flip,
        _each(
            lambda x: ((0,),) if x.dim() else ((),), lambda x: (tuple(range(x.dim())),), lambda x: ((-1,),) if x.dim() else None
        ),
    ),
    _moves("fliplr", torch.fliplr, _each(lambda x: (), least_rank=2)),
    _moves("flipud", torch.flipud, _each(lambda x: (), least_rank=1)),
    _moves(
        "rot90", torch.rot90, _each(lambda x: (1,), lambda x: (2, (0, -1)), lambda x: (-1, (1, 0)), lambda x: (4,), least_rank=2)
    ),
    _moves(
        "roll",
        torch.roll,
        _each(lambda x: (2,), lambda x: (-3, 0) if x.dim() else None, lambda x: ((1, 2), (0, -1)) if x.dim() > 1 else None),
    ),
    _moves("pad", F.pad, _padded("constant", 1)),
    Operator("pad_reflect", F.pad, _padded("reflect", 2), dtypes=FLOATS, exact=True),
    Operator("pad_replicate", F.pad, _padded("replicate", 2), dtypes=FLOATS, exact=True),
    Operator("pad_circular", F.pad, _padded("circular", 2), dtypes=FLOATS, exact=True),
    _moves("tril", torch.tril, _each(lambda x: (), lambda x: (1,), lambda x: (-2,), least_rank=2)),
    _moves("triu", torch.triu, _each(lambda x: (), lambda x: (-1,), lambda x: (100,), least_rank=2)),
    _moves(
        "diag",
        torch.diag,
        _each(
            lambda x: () if x.dim() <= 2 else None,
            lambda x: (1,) if x.dim() <= 2 else None,
            lambda x: (-2,) if x.dim() <= 2 else None,
            least_rank=1,
        ),
    ),
    _moves(
        "diag_embed",
        torch.diag_embed,
        _each(
            lambda x: () if x.numel() < 200 else None,
            lambda x: (1, 0, -1) if x.numel() < 200 else None,
            lambda x: (-1,) if x.numel() < 200 else None,
            least_rank=1,
        ),
    ),
]
