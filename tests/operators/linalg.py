# SPDX-License-Identifier: Apache-2.0
"""Products of matrices: every case of matmul, sizes 0 and 1, transposed and strided operands."""

import torch
import torch.nn.functional as F
from table import FLOATS, INTEGERS, NUMBERS, Operator, Sample

LAYOUTS = ("contiguous", "transposed", "strided", "offset")
ROUNDED = "torch rounds each step of the way to 16 bits"


def _of(pairs):
    def samples(make):
        for k, (a, b) in enumerate(pairs):
            a, b = make.sized(a, b)
            terms = max(1, a[-1])
            yield Sample((make.tensor(*a), make.tensor(*b)), terms=terms)
            yield Sample((make.tensor(*a, layout=LAYOUTS[k % 4]), make.tensor(*b, layout=LAYOUTS[(k + 1) % 4])), terms=terms)

    return samples


MATRICES = [
    ((1, 1), (1, 1)),
    ((2, 3), (3, 4)),
    ((5, 1), (1, 7)),
    ((1, 9), (9, 1)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((3, 2), (2, 0)),
    ((17, 33), (33, 9)),
    ((64, 16), (16, 64)),
    ((7, 130), (130, 5)),
    ((0, 0), (0, 0)),
    ((33, 2), (2, 33)),
]
BATCHES = [((b, *x), (b, *y)) for b, (x, y) in zip((1, 2, 3, 0, 2, 2, 1, 3, 2, 1, 2, 5), MATRICES)]
VECTORS = [((m, k), (k,)) for m, k in ((1, 1), (2, 3), (0, 3), (2, 0), (17, 33), (130, 5), (3, 130), (1, 9), (9, 1), (0, 0))]
DOTS = [((k,), (k,)) for k in (0, 1, 2, 3, 7, 16, 33, 130, 513, 700)]
OUTER = [((m,), (k,)) for m, k in ((1, 1), (2, 3), (0, 3), (2, 0), (17, 33), (130, 5), (1, 9), (9, 1), (0, 0), (3, 3))]
MATMUL = (
    MATRICES
    + BATCHES[:5]
    + VECTORS[:4]
    + DOTS[:4]
    + [
        ((3,), (3, 4)),
        ((3,), (2, 3, 4)),
        ((2, 3, 4), (4,)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 2, 1, 3, 4), (2, 1, 5, 4, 2)),
        ((0, 3, 4), (4, 5)),
    ]
)
INNER = [
    ((3,), (3,)),
    ((2, 3), (4, 3)),
    ((2, 3), (3,)),
    ((2, 1, 3), (2, 3)),
    ((0, 3), (4, 3)),
    ((2, 0), (4, 0)),
    ((1,), (1,)),
    ((2, 2, 5), (3, 1, 5)),
    ((7, 33), (9, 33)),
    ((1, 1), (5, 1)),
]
KRON = [
    ((2,), (3,)),
    ((2, 3), (4, 5)),
    ((2, 3), (4,)),
    ((3,), (2, 2)),
    ((1, 1), (2, 3)),
    ((0, 2), (3, 2)),
    ((2, 1, 3), (2, 2)),
    ((2, 1, 2, 1), (1, 2, 1, 2)),
    ((4,), (4, 1)),
    ((7,), (1,)),
]


def _krons(make):
    """torch's kron takes no views with gaps."""
    for a, b in KRON:
        both = make.sized(a + b)
        a, b = both[: len(a)], both[len(a) :]
        for layout in ("contiguous", "offset"):
            yield Sample((make.tensor(*a, layout=layout), make.tensor(*b)))


def _added(pairs, of_product):
    """With inputs that broadcast, and factors."""

    def samples(make):
        whole = not make.floating()
        factors = (
            [{}, {"beta": 2, "alpha": 3}, {"beta": 0}, {"alpha": 2}]
            if whole
            else [{}, {"beta": 0.5, "alpha": 2.0}, {"beta": 0}, {"alpha": -1.5}]
        )
        for k, (a, b) in enumerate(pairs):
            a, b = make.sized(a, b)
            shape = of_product(a, b)
            for j, of in enumerate((shape, shape[-1:], (1,) * len(shape))):
                terms = max(1, a[-1] * (a[0] if len(shape) < len(a) else 1)) + 1
                if (
                    0 not in a or len(shape) > 1 or of == shape
                ):  # torch's addmv of no products has the input's shape, and fails in the gradient
                    yield Sample(
                        (make.tensor(*of), make.tensor(*a, layout=LAYOUTS[j % 4]), make.tensor(*b)),
                        factors[(k + j) % 4],
                        terms=terms,
                    )

    return samples


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ij,kj->ki", (3, 4), (5, 4)),
    ("i,i->", (5,), (5,)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->i", (3,), (3,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("b i j , b j k -> b i k", (1, 4, 3), (2, 3, 5)),
    ("...ij,...jk", (2, 3, 4), (4, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("iij->ji", (3, 3, 2)),
    ("ii,ij->j", (3, 3), (3, 2)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("ijk->k", (2, 3, 4)),
    ("i...->...", (2, 3)),
    ("...->...", (2, 3)),
    ("ba,aB", (2, 3), (3, 2)),
    ("ij,jk->ik", (3, 0), (0, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ik,il->jkl", (3, 2), (3, 4), (3, 5)),
    ("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4)),
    ("ij,j->i", (3, 1), (4,)),
    ("abcd,abcd->abcd", (2, 1, 2, 3), (2, 2, 2, 3)),
    ("ijk,kjl->il", (2, 3, 4), (4, 3, 5)),
    ("ij,kl->ijkl", (2, 3), (3, 2)),
    ("i,->i", (3,), ()),
    ("...,...->...", (2, 3), (3,)),
]


def _einsums(make):
    for equation, *shapes in EQUATIONS:
        shapes = make.sized(*shapes, ())[:-1]
        for k in range(2):
            operands = [make.tensor(*shape, low=-1, high=1, layout=LAYOUTS[k * (i + 1) % 4]) for i, shape in enumerate(shapes)]
            yield Sample((equation, *operands), terms=max([1, *(x.numel() for x in operands)]))
    a, b = make.tensor(2, 3, 4), make.tensor(2, 4, 2)
    yield Sample((a, [0, 1, 2], b, [0, 2, 3], [1, 3, 0]), terms=4)
    yield Sample((a, [..., 1, 2], b, [..., 2, 3]), terms=4)


def _tensordots(make):
    for a, b, dims in [
        ((2, 3, 4), (3, 4, 5), 2),
        ((2, 3, 4), (4, 3, 5), ([1, 2], [1, 0])),
        ((2,), (3,), 0),
        ((2, 1), (3, 2), ([1], [0])),
        ((3, 4), (4, 3), ([0], [1])),
        ((2, 3), (2, 3), 0),
        ((2, 3), (2, 3), ([0, 1], [0, 1])),
        ((0, 3), (3, 2), 1),
        ((2, 0), (0, 3), 1),
        ((2, 3, 4), (5, 3), ([-2], [-1])),
    ]:
        a, b = make.sized(a, b)
        for layout in LAYOUTS[:2]:
            yield Sample((make.tensor(*a, layout=layout), make.tensor(*b)), {"dims": dims}, terms=24)


def _chains(make):
    for shapes in [
        ((2, 3), (3, 4)),
        ((2,), (2, 3), (3,)),
        ((2, 3), (3, 4), (4, 5)),
        ((10, 2), (2, 10), (10, 1), (1, 4)),
        ((3,), (3, 5)),
        ((4, 3), (3,)),
        ((1, 1), (1, 1)),
        ((2, 0), (0, 3), (3, 2)),
        ((5, 4), (4, 3), (3, 2), (2, 1)),
        ((7, 7), (7, 7), (7, 7)),
    ]:
        shapes = make.sized(*shapes)
        for layout in LAYOUTS[:2]:
            yield Sample(([make.tensor(*shape, low=-1, high=1, layout=layout) for shape in shapes],), terms=50)


def _linears(make):
    for x, out in [
        ((3,), 4),
        ((2, 3), 4),
        ((2, 5, 3), 4),
        ((0, 3), 4),
        ((2, 0), 4),
        ((1, 1), 1),
        ((2, 3, 2, 3), 5),
        ((17, 33), 9),
        ((5, 64), 64),
        ((4, 130), 7),
    ]:
        x, (out,) = make.sized(x, (out,))
        yield Sample((make.tensor(*x), make.tensor(out, x[-1])), terms=max(1, x[-1]))
        yield Sample(
            (make.tensor(*x, layout="transposed"), make.tensor(out, x[-1], layout="offset"), make.tensor(out)),
            terms=max(1, x[-1]) + 1,
        )


def _bilinears(make):
    for lead, n, m, out in [
        ((2,), 3, 4, 5),
        ((), 3, 4, 5),
        ((2, 3), 2, 2, 2),
        ((0,), 3, 4, 5),
        ((4,), 1, 1, 1),
        ((2,), 5, 1, 3),
        ((7,), 3, 3, 2),
        ((3, 1, 2), 2, 3, 4),
        ((1,), 7, 7, 7),
        ((5,), 2, 9, 1),
    ]:
        lead, (n, m, out) = make.sized(lead, (n, m, out))
        for bias in ((), (make.tensor(out),)):
            yield Sample((make.tensor(*lead, n), make.tensor(*lead, m), make.tensor(out, n, m), *bias), terms=n * m + 1)


def _traces(make):
    for shape in [(1, 1), (2, 2), (2, 3), (3, 2), (0, 3), (3, 0), (17, 33), (64, 64), (5, 1), (1, 5)]:
        shape = make.sized(shape)
        for layout in LAYOUTS[:2]:
            yield Sample((make.tensor(*shape, layout=layout),), terms=max(1, min(shape)))


OPERATORS = [
    Operator("matmul", torch.matmul, _of(MATMUL), dtypes=NUMBERS),
    Operator("mm", torch.mm, _of(MATRICES), dtypes=NUMBERS),
    Operator("bmm", torch.bmm, _of(BATCHES), dtypes=NUMBERS),
    Operator("mv", torch.mv, _of(VECTORS), dtypes=NUMBERS),
    Operator("dot", torch.dot, _of(DOTS), dtypes=NUMBERS),
    Operator("outer", torch.outer, _of(OUTER), dtypes=NUMBERS),
    Operator("inner", torch.inner, _of(INNER), dtypes=NUMBERS),
    Operator("kron", torch.kron, _krons, dtypes=NUMBERS),
    Operator("addmm", torch.addmm, _added(MATRICES, lambda a, b: (a[0], b[1])), dtypes=NUMBERS),
    Operator("addmv", torch.addmv, _added(VECTORS, lambda a, b: (a[0],)), dtypes=NUMBERS),
    Operator("addr", torch.addr, _added(OUTER, lambda a, b: (a[0], b[0])), dtypes=NUMBERS),
    Operator("baddbmm", torch.baddbmm, _added(BATCHES, lambda a, b: (a[0], a[1], b[2])), dtypes=NUMBERS),
    Operator(
        "addbmm",
        torch.addbmm,
        _added(BATCHES, lambda a, b: (a[1], b[2])),
        dtypes=NUMBERS,
        without=dict.fromkeys((torch.bfloat16, torch.float16), ROUNDED),
    ),
    Operator("einsum", torch.einsum, _einsums, dtypes=(*FLOATS, torch.int64)),
    Operator("tensordot", torch.tensordot, _tensordots, dtypes=(*FLOATS, torch.int64)),
    Operator("multi_dot", torch.linalg.multi_dot, _chains, dtypes=(*FLOATS, torch.int64)),
    Operator("linear", F.linear, _linears, dtypes=(*FLOATS, *INTEGERS)),
    Operator("bilinear", F.bilinear, _bilinears),
    Operator("trace", torch.trace, _traces, dtypes=NUMBERS),
]
