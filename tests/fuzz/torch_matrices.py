# SPDX-License-Identifier: Apache-2.0
"""PyTorch's linear algebra for torch_graphs.py, by the names, attributes and layouts that src/ops/matrix.c describes: factors of
several parts stand below each other in one matrix."""

import torch


def positive(vectors, *others):
    """Vectors in columns, of which the first element beyond 0.37 of the greatest is positive; others change sign with them."""
    if vectors.numel() == 0:
        return vectors, *others
    size = vectors.detach().abs()
    first = (size > 0.37 * size.amax(-2, keepdim=True)).to(torch.uint8).argmax(-2, keepdim=True)
    signs = torch.where(vectors.detach().gather(-2, first) < 0, -1.0, 1.0).to(vectors.dtype)
    return vectors * signs, *(x * signs for x in others)


def lu_factors(x):
    lu, pivots = torch.linalg.lu_factor(x)
    return torch.cat([lu, (pivots - 1).to(x.dtype).unsqueeze(-2)], -2)


def lu_solve(factors, b, transposed):
    pivots = factors[..., -1, :].detach().int() + 1
    return torch.linalg.lu_solve(factors[..., :-1, :].contiguous(), pivots.contiguous(), b, adjoint=transposed)


def lu_inverse(factors):
    n = factors.shape[-1]
    return lu_solve(factors, torch.eye(n, dtype=factors.dtype).expand(*factors.shape[:-2], n, n), False)


def qr_factors(x):
    q, r = torch.linalg.qr(x)
    return torch.cat([q, r.mT], -2)


def eigh(x):
    values, vectors = torch.linalg.eigh(x)
    return values, *positive(vectors)


def svd(x):
    u, values, vt = torch.linalg.svd(x, full_matrices=False)
    u, v = positive(u, vt.mT)
    return u, values, v


def eigh_factors(x, values_alone):
    values, vectors = eigh(x)
    rows = values.unsqueeze(-2)
    return rows if values_alone else torch.cat([rows, vectors], -2)


def svd_factors(x, values_alone):
    u, values, v = svd(x)
    rows = values.unsqueeze(-2)
    return rows if values_alone else torch.cat([u, rows, v], -2)


def part_of_svd(x, part):
    u, values, v = svd(x)
    return (u, values, v.mT, values)[part]


def part_of_eigh(x, part):
    values, vectors = eigh(x)
    return (values, vectors, values)[part]


LINALG = torch.linalg
MATRICES = {
    "cholesky": lambda ins, a: LINALG.cholesky(ins[0].tril() + ins[0].tril(-1).mT),
    "triangular_solve": lambda ins, a: LINALG.solve_triangular(
        ins[0], ins[1], upper=a["upper"] != "0", unitriangular=a["unit"] != "0"
    ),
    "lu_factors": lambda ins, a: lu_factors(ins[0]),
    "lu_solve": lambda ins, a: lu_solve(ins[0], ins[1], a["transposed"] != "0"),
    "qr_factors": lambda ins, a: qr_factors(ins[0]),
    "eigh_factors": lambda ins, a: eigh_factors(ins[0], a["values"] != "0"),
    "svd_factors": lambda ins, a: svd_factors(ins[0], a["values"] != "0"),
    "matrix_exp": lambda ins, a: LINALG.matrix_exp(ins[0]),
    "solve": lambda ins, a: LINALG.solve(ins[0], ins[1]),
    "inv": lambda ins, a: LINALG.inv(ins[0]),
    "det": lambda ins, a: LINALG.det(ins[0]),
    "slogdet": lambda ins, a: LINALG.slogdet(ins[0])[int(a["part"])],
    "qr": lambda ins, a: LINALG.qr(ins[0])[int(a["part"])],
    "eigh": lambda ins, a: part_of_eigh(ins[0], int(a["part"])),
    "svd": lambda ins, a: part_of_svd(ins[0], int(a["part"])),
    "lu_inverse": lambda ins, a: lu_inverse(ins[0]),
    "lstsq": lambda ins, a: LINALG.pinv(ins[0], atol=0.0, rtol=float(a["rcond"])) @ ins[1],  # gelsy takes no size of 0
    "pinv": lambda ins, a: LINALG.pinv(ins[0], atol=float(a["atol"]), rtol=float(a["rtol"])),
}
