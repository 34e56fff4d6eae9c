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


# ---- of each matrix: shapes (..., m, n), sizes 0 and 1, batches of 0 and 2 dims ----

REAL = (torch.float32, torch.float64)
SQUARE = [(1, 1), (2, 2), (3, 3), (5, 5), (0, 0), (0, 3, 3), (2, 0, 0), (2, 3, 3), (3, 1, 1), (2, 2, 4, 4), (9, 9)]
OBLONG = [(3, 2), (2, 3), (5, 1), (1, 5), (0, 3), (3, 0), (7, 4), (4, 7), (0, 3, 2), (2, 4, 3), (2, 3, 5), (1, 2, 3, 2)]


def _zeros(make):
    """One row: the gradient of its determinant is 1, also where that is 0."""
    for shape in ((1, 1), (3, 1, 1)):
        yield Sample((make.tensor(*shape, low=0, high=0),), terms=512)


def _matrices(shapes):
    def samples(make):
        for k, shape in enumerate(shapes):
            shape = make.sized(shape)
            terms = 512 * max(1, *shape[-2:])  # errors of factors are of the whole matrix's norm
            yield Sample((make.tensor(*shape, low=-1, high=1),), terms=terms)
            yield Sample((make.tensor(*shape, low=-1, high=1, layout=LAYOUTS[k % 4]),), terms=terms)

    return samples


def _systems(make):
    for k, (a, b) in enumerate(
        [
            ((1, 1), (1, 2)),
            ((2, 2), (2, 3)),
            ((3, 3), (3, 1)),
            ((0, 0), (0, 2)),
            ((3, 3), (3, 0)),
            ((5, 5), (5, 4)),
            ((2, 3, 3), (2, 3, 2)),
            ((3, 3), (2, 3, 2)),
            ((2, 3, 3), (3, 2)),
            ((2, 1, 2, 2), (3, 2, 4)),
            ((0, 3, 3), (3, 2)),
            ((9, 9), (9, 5)),
        ]
    ):
        a, b = make.sized(a, b)
        for layouts in (LAYOUTS[:2], (LAYOUTS[k % 4], LAYOUTS[(k + 1) % 4])):
            args = [make.tensor(*shape, low=-1, high=1, layout=of) for shape, of in zip((a, b), layouts)]
            yield Sample(tuple(args), terms=512 * max(1, a[-1]))


def _one(a):
    return torch.eye(a.shape[-1], dtype=a.dtype)


def _definite(a):
    return a @ a.mT + _one(a)


def _regular(a):
    return a + (a.shape[-1] + 2) * _one(a)


def _separate(a):
    """Symmetric, eigenvalues far apart."""
    return (a + a.mT) / 4 + torch.diag(torch.arange(a.shape[-1], dtype=a.dtype) * 3)


def _values_apart(a):
    """Singular values far apart."""
    m, n = a.shape[-2:]
    return a / 4 + torch.eye(m, n, dtype=a.dtype) * (torch.arange(n, dtype=a.dtype) * 3 + 4)


def _eigh(a):
    values, vectors = torch.linalg.eigh(_separate(a))
    return values, torch.einsum("...ik,...jk->...ijk", vectors, vectors)


def _svd(a):
    u, s, vh = torch.linalg.svd(_values_apart(a), full_matrices=False)
    return s, torch.einsum("...ik,...kj->...ikj", u, vh)


def _triangular(upper, left, unit):
    def call(a, b):
        b = b if left else b.mT
        return torch.linalg.solve_triangular(_regular(a), b, upper=upper, left=left, unitriangular=unit)

    return call


def _solve_right(a, b):
    b = b if b.dim() >= a.dim() else b.expand(*a.shape[:-2], *b.shape)  # of (2, 3) beside (2, 3, 3) torch makes vectors
    return torch.linalg.solve(_regular(a), b.mT, left=False)


def _named(call, what):
    return lambda a: call(what(a))


def _least(make):
    """Those that torch takes: it broadcasts no batch, and has no rank of no columns."""
    return (x for x in _systems(make) if x.args[0].shape[:-2] == x.args[1].shape[:-2] and 0 not in x.args[0].shape[-2:])


SIGNS = "vectors are compared up to their signs, which are those of no library"
LINALG = [
    Operator("cholesky", _named(torch.linalg.cholesky, _definite), _matrices(SQUARE), dtypes=REAL),
    Operator("cholesky upper", lambda a: torch.linalg.cholesky(_definite(a), upper=True), _matrices(SQUARE), dtypes=REAL),
    Operator("solve_triangular", _triangular(False, True, False), _systems, dtypes=REAL),
    Operator("solve_triangular upper", _triangular(True, True, False), _systems, dtypes=REAL),
    Operator("solve_triangular right", _triangular(True, False, False), _systems, dtypes=REAL),
    Operator(
        "solve_triangular unit",
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True),
        _systems,
        dtypes=REAL,
    ),
    Operator("solve", lambda a, b: torch.linalg.solve(_regular(a), b), _systems, dtypes=REAL),
    Operator("solve right", _solve_right, _systems, dtypes=REAL),
    Operator("inv", _named(torch.linalg.inv, _regular), _matrices(SQUARE), dtypes=REAL),
    Operator("det", torch.linalg.det, _matrices(SQUARE), dtypes=REAL),
    Operator("det", torch.linalg.det, _zeros, dtypes=REAL),
    Operator("slogdet", lambda a: tuple(torch.linalg.slogdet(_regular(a))), _matrices(SQUARE), dtypes=REAL),
    Operator("logdet", _named(torch.logdet, _definite), _matrices(SQUARE), dtypes=REAL),
    Operator("qr", lambda a: tuple(torch.linalg.qr(_values_apart(a))), _matrices(SQUARE + OBLONG), dtypes=REAL, place=8.0),
    Operator("eigh", _eigh, _matrices(SQUARE), dtypes=REAL, place=8.0, note=SIGNS),
    Operator("eigvalsh", _named(torch.linalg.eigvalsh, _separate), _matrices(SQUARE), dtypes=REAL, place=8.0),
    Operator("svd", _svd, _matrices(SQUARE + OBLONG), dtypes=REAL, place=8.0, note=SIGNS),
    Operator("svdvals", _named(torch.linalg.svdvals, _values_apart), _matrices(SQUARE + OBLONG), dtypes=REAL, place=8.0),
    Operator("pinv", _named(torch.linalg.pinv, _values_apart), _matrices(SQUARE + OBLONG), dtypes=REAL, place=8.0),
    Operator("lstsq", lambda a, b: torch.linalg.lstsq(_values_apart(a), b).solution, _least, dtypes=REAL, place=8.0),
    Operator("matrix_power", lambda a: torch.linalg.matrix_power(a, 5), _matrices(SQUARE), dtypes=REAL),
    Operator("matrix_power -2", lambda a: torch.linalg.matrix_power(_regular(a), -2), _matrices(SQUARE), dtypes=REAL),
    Operator("matrix_exp", lambda a: torch.linalg.matrix_exp(3 * a), _matrices(SQUARE), dtypes=REAL),
    Operator(
        "matrix_norm nuc", lambda a: torch.linalg.matrix_norm(_values_apart(a), "nuc"), _matrices(OBLONG), dtypes=REAL, place=8.0
    ),
]

OPERATORS = [
    *LINALG,
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
