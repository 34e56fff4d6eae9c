# SPDX-License-Identifier: Apache-2.0
"""Dense linear algebra: factors, solving, determinants, functions of matrices. What torch returns as a named tuple is one here.

The functions that give an error code beside their result (`_ex`) are not traced, since a run that meets such a matrix fails."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.errors import ArgumentError
from sambaflow.samba.rules.common import unsupported
from sambaflow.samba.rules.reduction import two
from sambaflow.samba.trace import rule

aten = torch.ops.aten
L = torch.linalg
T = torch.Tensor
types = torch.return_types


def _into(t, out, result):
    return result if out is None else t.into(out, result)


def _triangle(t, what, UPLO):
    if UPLO not in ("L", "U", "l", "u"):
        raise ArgumentError(f"{what}: UPLO is 'L' or 'U', given {UPLO!r}{t.where()}")
    return UPLO in ("U", "u")


# ---- Cholesky and triangles ----


@rule(L.cholesky, aten.linalg_cholesky)
def linalg_cholesky(t, A, *, upper=False, out=None):
    return _into(t, out, t.wrap(lib.samba_cholesky(t.value(A), upper)))


@rule(torch.cholesky, T.cholesky, aten.cholesky)
def cholesky(t, input, upper=False, *, out=None):
    return linalg_cholesky(t, input, upper=upper, out=out)


@rule(L.solve_triangular, aten.linalg_solve_triangular)
def solve_triangular(t, A, B, *, upper, left=True, unitriangular=False, out=None):
    return _into(t, out, t.wrap(lib.samba_solve_triangular(t.value(A), t.value(B), upper, left, unitriangular)))


@rule(torch.triangular_solve, T.triangular_solve, aten.triangular_solve)
def triangular_solve(t, input, A, upper=True, transpose=False, unitriangular=False, *, out=None):
    if out is not None:
        unsupported(t, "torch.triangular_solve with out= is not traced: use torch.linalg.solve_triangular")
    matrix = A.mT if transpose else A
    solution = L.solve_triangular(matrix, input, upper=upper != transpose, unitriangular=unitriangular)
    return types.triangular_solve((solution, A.clone()))


@rule(torch.cholesky_solve, T.cholesky_solve, aten.cholesky_solve)
def cholesky_solve(t, input, input2, upper=False, *, out=None):
    """The gradient by the factor is that of the triangle that is read."""
    lower = input2.mT if upper else input2
    first = L.solve_triangular(lower, input, upper=False)
    return _into(t, out, L.solve_triangular(lower.mT, first, upper=True))


@rule(torch.cholesky_inverse, T.cholesky_inverse, aten.cholesky_inverse)
def cholesky_inverse(t, input, upper=False, *, out=None):
    one = torch.eye(input.shape[-1], dtype=input.dtype).expand(input.shape)
    return cholesky_solve(t, one, input, upper, out=out)


# ---- solving ----


@rule(L.solve, aten.linalg_solve)
def solve(t, A, B, *, left=True, out=None):
    return _into(t, out, t.wrap(lib.samba_solve(t.value(A), t.value(B), left)))


@rule(L.inv, aten.linalg_inv)
def linalg_inv(t, A, *, out=None):
    return _into(t, out, t.wrap(lib.samba_inv(t.value(A))))


@rule(torch.inverse, T.inverse, aten.inverse)
def inverse(t, input, *, out=None):
    return linalg_inv(t, input, out=out)


@rule(L.pinv, aten.linalg_pinv)
def pinv(t, A, rcond=None, hermitian=False, *, atol=None, rtol=None, out=None):
    if hermitian:
        unsupported(t, "torch.linalg.pinv(hermitian=True) is not traced: leave it out, the result is the same")
    for name, given in (("rcond", rcond), ("atol", atol), ("rtol", rtol)):
        if isinstance(given, torch.Tensor):
            unsupported(t, f"torch.linalg.pinv takes {name} as a number in a graph, given a tensor")
    rtol = rcond if rtol is None else rtol
    return _into(t, out, t.wrap(lib.samba_pinv(t.value(A), 0 if atol is None else atol, -1 if rtol is None else rtol)))


@rule(torch.pinverse, T.pinverse, aten.pinverse)
def pinverse(t, input, rcond=1e-15):
    return pinv(t, input, rtol=rcond)


@rule(L.lstsq, aten.linalg_lstsq)
def lstsq(t, input, b, rcond=None, *, driver=None):
    """What torch's drivers give beside the solution: gelsy, the default, the rank; gels the squares of what is left over, where
    there are more rows than columns; gelsd and gelss both, and the singular values. As if no column depended on others."""
    if driver not in (None, "gelsy", "gels", "gelsd", "gelss"):
        raise ArgumentError(f"lstsq: the driver is gels, gelsy, gelsd or gelss, given {driver!r}{t.where()}")
    cutoff = torch.finfo(input.dtype).eps * max(input.shape[-2:]) if rcond is None else rcond
    column = b.unsqueeze(-1) if b.dim() == input.dim() - 1 else b
    solution = t.wrap(lib.samba_lstsq(t.value(input), t.value(column), cutoff))
    rest = values = solution.new_zeros(0)
    found = solution.new_zeros(0, dtype=torch.int64)
    if driver not in (None, "gelsy") and input.shape[-2] > input.shape[-1]:
        rest = (input @ solution - column).square().sum(-2)
        rest = rest if column is b else rest.squeeze(-1)
    if driver != "gels":
        singular = L.svdvals(input.detach())
        singular = singular.expand(*solution.shape[:-2], singular.shape[-1])
        if singular.shape[-1] > 0:
            found = (singular > cutoff * singular.amax(-1, keepdim=True)).sum(-1)
        else:
            found = torch.zeros(singular.shape[:-1], dtype=torch.int64)
        values = singular if driver in ("gelsd", "gelss") else values
    return types.linalg_lstsq((solution if column is b else solution.squeeze(-1), rest, found, values))


lstsq.asks_values = True  # outside tracing it is torch's


# ---- determinants ----


@rule(torch.det, T.det, L.det, aten.det, aten.linalg_det)
def det(t, A, *, out=None):
    return _into(t, out, t.wrap(lib.samba_det(t.value(A))))


@rule(torch.logdet, T.logdet, aten.logdet)
def logdet(t, input):
    return t.wrap(lib.samba_logdet(t.value(input)))


@rule(L.slogdet, aten.linalg_slogdet)
def linalg_slogdet(t, A):
    return two(t, types.linalg_slogdet, lib.samba_slogdet, t.value(A))


@rule(torch.slogdet, T.slogdet, aten.slogdet)
def slogdet(t, input):
    return two(t, types.slogdet, lib.samba_slogdet, t.value(input))


# ---- factors ----


@rule(L.qr, aten.linalg_qr)
def linalg_qr(t, A, mode="reduced"):
    if mode not in ("reduced", "r", "complete"):
        raise ArgumentError(f"qr: the mode is 'reduced', 'complete' or 'r', given {mode!r}{t.where()}")
    if mode == "complete" and A.shape[-2] > A.shape[-1]:
        unsupported(t, "torch.linalg.qr(mode='complete') of more rows than columns is not traced: use mode='reduced'")
    q, r = two(t, types.linalg_qr, lib.samba_qr, t.value(A))
    return types.linalg_qr((q.new_zeros(0) if mode == "r" else q, r))


@rule(torch.qr, T.qr, aten.qr)
def qr(t, input, some=True):
    return types.qr(tuple(linalg_qr(t, input, "reduced" if some else "complete")))


@rule(L.eigh, aten.linalg_eigh)
def eigh(t, A, UPLO="L"):
    return two(t, types.linalg_eigh, lib.samba_eigh, t.value(A), _triangle(t, "eigh", UPLO))


@rule(L.eigvalsh, aten.linalg_eigvalsh)
def eigvalsh(t, A, UPLO="L", *, out=None):
    return _into(t, out, t.wrap(lib.samba_eigvalsh(t.value(A), _triangle(t, "eigvalsh", UPLO))))


def _svd(t, A):
    others = ffi.new("samba_value[2]")
    u = lib.samba_svd(t.value(A), others, others + 1)
    return t.wrap(u), t.wrap(others[0]), t.wrap(others[1])


@rule(L.svd, aten.linalg_svd)
def linalg_svd(t, A, full_matrices=True, *, driver=None, out=None):
    if full_matrices and A.shape[-2] != A.shape[-1]:
        unsupported(
            t, "torch.linalg.svd(full_matrices=True) of a matrix that is not square is not traced: use full_matrices=False"
        )
    if out is not None:
        unsupported(t, "torch.linalg.svd with out= is not traced: take what it returns")
    return types.linalg_svd(_svd(t, A))


@rule(torch.svd, T.svd, aten.svd)
def svd(t, input, some=True, compute_uv=True):
    if not compute_uv or (not some and input.shape[-2] != input.shape[-1]):
        unsupported(t, "torch.svd is traced with some=True and compute_uv=True: for values alone use torch.linalg.svdvals")
    u, s, vh = _svd(t, input)
    return types.svd((u, s, vh.mT))


@rule(L.svdvals, aten.linalg_svdvals)
def svdvals(t, A, *, driver=None, out=None):
    return _into(t, out, t.wrap(lib.samba_svdvals(t.value(A))))


@rule(L.matrix_rank, aten.linalg_matrix_rank)
def matrix_rank(t, A, tol=None, hermitian=False, *, atol=None, rtol=None, out=None):
    if hermitian:
        unsupported(t, "torch.linalg.matrix_rank(hermitian=True) is not traced: leave it out, the result is the same")
    atol = tol if atol is None else atol
    if isinstance(atol, torch.Tensor) or isinstance(rtol, torch.Tensor):
        unsupported(t, "torch.linalg.matrix_rank takes tolerances as numbers in a graph, given a tensor")
    if rtol is None:
        rtol = torch.finfo(A.dtype).eps * max(A.shape[-2:]) if not atol else 0
    values = L.svdvals(A.detach())
    least = (values.amax(-1, keepdim=True) * rtol).clamp_min(atol or 0)
    return _into(t, out, (values > least).sum(-1))


@rule(L.cond, aten.linalg_cond)
def cond(t, A, p=None, *, out=None):
    if p in (None, 2, -2):
        values = L.svdvals(A)
        great, small = values[..., 0], values[..., -1]
        return _into(t, out, small / great if p == -2 else great / small)
    return _into(t, out, L.matrix_norm(A, p) * L.matrix_norm(L.inv(A), p))


# ---- functions of matrices ----


@rule(torch.matrix_power, T.matrix_power, L.matrix_power, aten.matrix_power, aten.linalg_matrix_power)
def matrix_power(t, A, n, *, out=None):
    return _into(t, out, t.wrap(lib.samba_matrix_power(t.value(A), n)))


@rule(torch.matrix_exp, T.matrix_exp, L.matrix_exp, aten.matrix_exp, aten.linalg_matrix_exp)
def matrix_exp(t, A):
    return t.wrap(lib.samba_matrix_exp(t.value(A)))
