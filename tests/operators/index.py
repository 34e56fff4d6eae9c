# SPDX-License-Identifier: Apache-2.0
"""Elements by their index."""

import math

import torch
import torch.nn.functional as F
from table import ALL, FLOATS, NUMBERS, Operator, Sample, shapes

SUMS = NUMBERS  # what sums and products are proved for


def _dims(x):
    return {0, x.dim() // 2, -1} if x.dim() else {0}


def _taken(make, x, dim, shorter=False):
    """An index for torch.gather of x along dim, now and then shorter than x elsewhere; none where the dim is empty."""
    shape = [max(n - 1, 1) if shorter and n else n for n in x.shape]
    n = x.shape[dim] if x.dim() else 1
    if x.dim():
        shape[dim] = make.times(3)
    return make.index(n, *shape) if n else None


def _gathered(make):
    for k, x in enumerate(shapes(make)):
        for dim in _dims(x):
            index = _taken(make, x, dim, k % 2 == 1)
            if index is not None:
                yield Sample((x, dim, index), terms=3)


def _along(make):
    for x in shapes(make, least_rank=1):
        for dim in _dims(x):
            n = x.shape[dim]
            if n:
                shape = [1] * x.dim()
                shape[dim] = make.times(4)
                yield Sample((x, make.index(n, *shape), dim), terms=x.numel())
                yield Sample((x, make.index(n, *x.shape), dim), terms=n)


def _once(x, dim):
    """An index that names no place twice: what is written twice, torch leaves open."""
    n = x.shape[dim]
    line = torch.randperm(n)[: max(n - 1, 1) if n else 0]
    shape = [1] * x.dim()
    shape[dim] = len(line)
    return line.reshape(shape).expand([len(line) if d == dim % x.dim() else s for d, s in enumerate(x.shape)])


def _set(make):
    torch.manual_seed(0)
    for x in shapes(make, least_rank=1):
        for dim in _dims(x):
            index = _once(x, dim)
            yield Sample((x, dim, index, make.tensor(*index.shape)))


def _added(make):
    for k, x in enumerate(shapes(make)):
        for dim in _dims(x):
            index = _taken(make, x, dim, k % 2 == 1)
            if index is not None:
                yield Sample((x, dim, index, make.tensor(*index.shape)), terms=5)


def _reduced(*reductions, low=None, high=None):
    def samples(make):
        for x in shapes(make, low=low, high=high):
            for dim in _dims(x):
                index = _taken(make, x, dim)
                if index is not None:
                    for reduce in reductions:
                        for include_self in (True, False):
                            # torch counts what is left out among equals that share a gradient: halves have many
                            gradient = (
                                include_self or reduce in ("sum", "mean", "prod") or make.dtype in (torch.float32, torch.float64)
                            )
                            yield Sample(
                                (x, dim, index, make.tensor(*index.shape, low=low, high=high), reduce),
                                {"include_self": include_self},
                                terms=5,
                                gradient=gradient,
                            )

    return samples


def _slices(make, x, dim):
    n = make.times(4)
    return make.index(x.shape[dim], n), [n if d == dim % x.dim() else s for d, s in enumerate(x.shape)]


def _selected(make):
    for x in shapes(make, least_rank=1):
        for dim in _dims(x):
            if x.shape[dim]:
                yield Sample((x, dim, make.index(x.shape[dim], make.times(5))), terms=5)
                yield Sample((x, dim, make.index(x.shape[dim], 2).int()), terms=2)


def _slices_added(make):
    for x in shapes(make, least_rank=1):
        for dim in _dims(x):
            if x.shape[dim]:
                index, shape = _slices(make, x, dim)
                yield Sample((x, dim, index, make.tensor(*shape)), terms=5)
                yield Sample((x, dim, index, make.tensor(*shape)), {"alpha": 2}, terms=5)


def _slices_set(make):
    for x in shapes(make, least_rank=1):
        for dim in _dims(x):
            n = x.shape[dim]
            if n:
                index = torch.arange(n - 1, -1, -2)
                yield Sample(
                    (x, dim, index, make.tensor(*[len(index) if d == dim % x.dim() else s for d, s in enumerate(x.shape)]))
                )


def _filled(make):
    for x in shapes(make, least_rank=1):
        for dim in _dims(x):
            if x.shape[dim]:
                yield Sample((x, dim, make.index(x.shape[dim], make.times(3), negative=True), 1))


def _slices_reduced(make):
    for x in shapes(make, least_rank=1):
        for dim in _dims(x):
            if x.shape[dim]:
                index, shape = _slices(make, x, dim)
                for reduce in ("amax", "amin", "mean", "prod"):
                    yield Sample(
                        (x, dim, index, make.tensor(*shape), reduce),
                        {"include_self": reduce != "amin"},
                        terms=5,
                        gradient=reduce != "amin" or make.dtype in (torch.float32, torch.float64),
                    )


class _Known:
    """A mask that the program knows, not an input."""

    def __init__(self, mask):
        self.mask = mask


def _plain(words):
    return tuple(word.mask if isinstance(word, _Known) else word for word in words)


def _drawn_words(make, sizes):
    """Words for some of the dims, drawn: slices with steps, numbers, index tensors of up to two dims, one at least. No place is
    named twice, so that it does not matter who writes last."""

    def below(count):
        return int(make.index(count, 1))

    def numbers(size):
        shape = [(), (3,), (2, 1), (1, 3)][below(4)]
        return (torch.randperm(size, generator=make.generator)[: math.prod(shape)] - below(2) * size).reshape(shape)

    def word(size):
        begin, end, step = below(size), below(size + 1), 1 + below(3)
        slices = [slice(None), slice(begin, None, step), slice(None, end, step), slice(begin - size, end)]
        kinds = [*slices, begin, -1 - begin]
        return kinds[below(len(kinds))] if below(5) < 3 else numbers(size)

    words = [word(size) for size in sizes[: 1 + below(len(sizes))]]
    if not any(isinstance(word, torch.Tensor) for word in words):
        at = below(len(words))
        words[at] = numbers(sizes[at])
    return tuple(words)


def _words(make):
    """a[...] with index tensors, slices, None, masks whose values are known."""
    a, b, c = sizes = make.sized((4, 5, 6))
    n, m = make.times(3), make.times(2)
    x, i, j = make.tensor(*sizes), make.index(a, n, negative=True), make.index(b, n, negative=True)
    mask = torch.tensor([True, False, True, True]).repeat(a // 4)
    for y in (x, make.tensor(*sizes, layout="transposed"), make.tensor(*sizes, layout="strided")):
        for words in [
            (i,),
            (slice(None), j),
            (i, j),
            (i, slice(None), make.index(c, n)),
            (Ellipsis, make.index(c, m, n)),
            (i.unsqueeze(1), j),
            (2, j),
            (i, 1),
            (slice(1, 3), j),
            (None, i),
            (i, None, j),
            (_Known(mask),),
            (slice(None), j, 2),
            ([0, -1],),
            (_Known(mask.unsqueeze(1).expand(a, b)),),
            (make.index(a, 0),),
            (make.index(a),),
            (1, slice(None), make.index(c, n, negative=True)),
        ]:
            yield Sample((y, words), terms=12)
    for sizes in (make.sized((4, 5, 6)), make.sized((3, 4, 3, 5))):
        for layout in 4 * ("contiguous", "transposed", "strided"):
            yield Sample((make.tensor(*sizes, layout=layout), _drawn_words(make, sizes)), terms=12)
    yield Sample((make.tensor(0, 3), (slice(None), make.index(3, 2))))
    yield Sample((make.tensor(2, 3, 2, 3, 2), (slice(None), make.index(3, 4), slice(None), make.index(3, 4))))


def _written(x, words, values):
    x = x.clone()
    x[_plain(words)] = values
    return x


def _writes(make):
    a, *_ = sizes = make.sized((4, 5, 6))
    x, i, j = make.tensor(*sizes), torch.tensor([0, -1, 2]), torch.tensor([1, 3, -1])
    mask = torch.tensor([True, False, True, True]).repeat(a // 4)
    for y in (x, make.tensor(*sizes, layout="transposed")):
        for words in [
            (i,),
            (slice(None), j),
            (i, j),
            (i, slice(None), j),
            (Ellipsis, j),
            (i.unsqueeze(1), j),
            (2, j),
            (slice(1, 3), j),
            (i, slice(None, None, 2)),
            (_Known(mask),),
            ([0, -1],),
        ]:
            yield Sample((y, words, make.tensor(*y[_plain(words)].shape)))
            yield Sample((y, words, make.tensor()), terms=120)
    for sizes in (make.sized((4, 5, 6)), make.sized((3, 4, 3, 5))):
        for layout in 6 * ("contiguous", "transposed"):
            y, words = make.tensor(*sizes, layout=layout), _drawn_words(make, sizes)
            yield Sample((y, words, make.tensor(*y[words].shape)), terms=12)


def _put_added(x, indices, values):
    return torch.index_put(x, indices, values, accumulate=True)


def _puts(make):
    for rows, columns in [(4, 5), (1, 3), (33, 17), (7, 513)]:
        rows, columns = make.sized((rows, columns))
        n = make.times(6)
        x, i, j = make.tensor(rows, columns), make.index(rows, n, negative=True), make.index(columns, n, negative=True)
        yield Sample((x, (i, j), make.tensor(n)), terms=6)
        yield Sample((x, (i,), make.tensor(n, columns)), terms=6)
        yield Sample((x, (i,), make.tensor(columns)), terms=6)
        yield Sample((x, (i.reshape(2, n // 2), j.reshape(2, n // 2)), make.tensor(2, n // 2)), terms=6)
        yield Sample((x, (i.reshape(n, 1), j[:2]), make.tensor(n, 2)), terms=6)
        yield Sample((make.tensor(rows, columns, layout="transposed"), (i,), make.tensor(n, columns)), terms=6)


def _lines(make):
    for x in shapes(make):
        if x.numel():
            yield Sample((x, make.index(x.numel(), make.times(2), make.times(3), negative=True)), terms=6)
            yield Sample((x, make.index(x.numel())))


def _line_puts(make):
    for x in shapes(make):
        if x.numel():
            index = torch.randperm(x.numel())[: make.times(5)]
            yield Sample((x, index, make.tensor(len(index))))


TABLES = [(7, 3), (1, 1), (5, 0), (50, 33), (3, 513)]
INDICES = [(), (4,), (2, 3), (0,), (2, 1, 3), (17,)]


def _looked_up(make):
    for rows, width in TABLES:
        for shape in INDICES:
            table, shape = make.sized((rows, width), shape)
            yield Sample((make.index(table[0], *shape), make.tensor(*table)), terms=8)
        yield Sample((make.index(rows, 5).int(), make.tensor(rows, width, layout="transposed")), terms=8)


def _looked_up_options(make):
    for rows, width in TABLES:
        rows, width = make.sized((rows, width))
        index = make.index(rows, make.times(4), 3)
        weight = make.tensor(rows, width)
        for options in (
            {"padding_idx": 0},
            {"padding_idx": -1},
            {"scale_grad_by_freq": True},
            {"padding_idx": 0, "scale_grad_by_freq": True},
        ):
            yield Sample((index, weight), options, terms=12)


def _bag(index, weight, offsets=None, **options):
    return F.embedding_bag(index, weight, None if offsets is None else torch.tensor(offsets), **options)


def _bags(make):
    for rows, width in [(7, 3), (1, 1), (50, 33)]:
        rows, width = make.sized((rows, width))
        bags, n = make.times(4), make.times(9)
        ends = tuple(make.times(end) for end in (0, 2, 2, 5)), tuple(make.times(end) for end in (0, 4, 9))
        for mode in ("sum", "mean", "max"):
            yield Sample((make.index(rows, bags, 3), make.tensor(rows, width)), {"mode": mode}, terms=12)
            yield Sample((make.index(rows, bags, 3), make.tensor(rows, width)), {"mode": mode, "padding_idx": 0}, terms=12)
            yield Sample((make.index(rows, n), make.tensor(rows, width), ends[0]), {"mode": mode}, terms=12)
            yield Sample(
                (make.index(rows, n), make.tensor(rows, width), ends[1]), {"mode": mode, "include_last_offset": True}, terms=12
            )
        weighted = {"mode": "sum", "per_sample_weights": make.tensor(bags, 3)}
        yield Sample((make.index(rows, bags, 3), make.tensor(rows, width)), weighted, terms=12)


def _classes(make):
    for shape in [(), (1,), (7,), (0,), (3, 5), (2, 3, 4), (513,), (4, 0), (2, 1, 3, 2)]:
        for classes in (5, 9, 33):
            yield Sample((make.index(5, *make.sized(shape)).to(make.dtype), classes))


OPERATORS = [
    Operator("gather", torch.gather, _gathered, dtypes=ALL, exact=True),
    Operator("take_along_dim", torch.take_along_dim, _along, dtypes=ALL, exact=True),
    Operator("scatter", torch.scatter, _set, dtypes=ALL, exact=True),
    Operator("scatter_add", torch.scatter_add, _added, dtypes=ALL),
    Operator("scatter_reduce_sum", torch.scatter_reduce, _reduced("sum", "mean"), dtypes=SUMS),
    Operator("scatter_reduce_prod", torch.scatter_reduce, _reduced("prod"), dtypes=SUMS),
    Operator("scatter_reduce_extremes", torch.scatter_reduce, _reduced("amax", "amin"), dtypes=ALL, exact=True),
    Operator("index_select", torch.index_select, _selected, dtypes=ALL, exact=True),
    Operator("index_add", torch.index_add, _slices_added, dtypes=NUMBERS),
    Operator("index_copy", torch.index_copy, _slices_set, dtypes=ALL, exact=True),
    Operator("index_fill", torch.index_fill, _filled, dtypes=ALL, exact=True),
    Operator("index_reduce", torch.index_reduce, _slices_reduced, dtypes=NUMBERS),
    Operator("index", lambda x, words: x[_plain(words)], _words, dtypes=ALL, exact=True),
    Operator("setitem", _written, _writes, dtypes=ALL, exact=True),
    Operator("index_put", _put_added, _puts, dtypes=NUMBERS),
    Operator("take", torch.take, _lines, dtypes=ALL, exact=True),
    Operator("put", torch.Tensor.put, _line_puts, dtypes=ALL, exact=True),
    Operator("embedding", F.embedding, _looked_up, dtypes=FLOATS),
    Operator(
        "embedding_options",
        F.embedding,
        _looked_up_options,
        dtypes=(torch.float32,),
        note="gradients that are no derivatives: padding_idx, scale_grad_by_freq",
    ),
    Operator("embedding_bag", _bag, _bags, dtypes=(torch.float32, torch.float64)),
    Operator("one_hot", F.one_hot, _classes, dtypes=(torch.int64,), gradient=False, exact=True),
]
