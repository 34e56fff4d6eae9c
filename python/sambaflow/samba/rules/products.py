# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, and their diagonals."""

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import binary, optional, rank
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor

binary(lib.samba_matmul, torch.matmul, T.matmul, T.__matmul__, aten.matmul)
binary(lib.samba_mm, torch.mm, T.mm, aten.mm)
binary(lib.samba_bmm, torch.bmm, T.bmm, aten.bmm)
binary(lib.samba_mv, torch.mv, T.mv, aten.mv)
binary(lib.samba_dot, torch.dot, T.dot, torch.vdot, T.vdot, aten.dot, aten.vdot)
binary(lib.samba_inner, torch.inner, T.inner)
binary(lib.samba_kron, torch.kron, T.kron)


@rule(torch.outer, T.outer, torch.ger, T.ger)
def outer(t, input, vec2):
    return t.wrap(lib.samba_outer(t.value(input), t.value(vec2)))


def _named(call, names, *functions):
    """beta * input + alpha * product, under torch's names of the two factors."""

    @rule(*functions)
    def traced(t, input, *factors, beta=1, alpha=1, **named):
        a, b = (*factors, *(named.pop(name) for name in names[len(factors) :]))
        if named:
            raise TypeError(
                f"{functions[0].__name__}() got unexpected keywords {sorted(named)}: expected {names[0]}, {names[1]}, beta, alpha"
            )
        return t.wrap(call(t.value(input), t.value(a), t.value(b), float(beta), float(alpha)))


_named(lib.samba_addmm, ("mat1", "mat2"), torch.addmm, T.addmm, aten.addmm)
_named(lib.samba_addmv, ("mat", "vec"), torch.addmv, T.addmv, aten.addmv)
_named(lib.samba_addr, ("vec1", "vec2"), torch.addr, T.addr, aten.addr)
_named(lib.samba_addbmm, ("batch1", "batch2"), torch.addbmm, T.addbmm, aten.addbmm)
_named(lib.samba_baddbmm, ("batch1", "batch2"), torch.baddbmm, T.baddbmm, aten.baddbmm)


@rule(F.linear, aten.linear)
def linear(t, input, weight, bias=None):
    return t.wrap(lib.samba_functional_linear(t.value(input), t.value(weight), optional(t, bias)))


@rule(F.bilinear, torch.bilinear)
def bilinear(t, input1, input2, weight, bias=None):
    return t.wrap(lib.samba_functional_bilinear(t.value(input1), t.value(input2), t.value(weight), optional(t, bias)))


def _letter(number):
    if not 0 <= number < 52:
        raise ValueError(f"einsum: a sublist names dims by the numbers 0 to 51, given {number}")
    return chr(ord("A") + number) if number < 26 else chr(ord("a") + number - 26)


def _from_sublists(operands):
    """torch's other form: einsum(a, [0, 1], b, [1, ...], [0])."""

    def text(sublist):
        return "".join("..." if dim is Ellipsis else _letter(dim) for dim in sublist)

    pairs = len(operands) // 2
    equation = ",".join(text(operands[2 * i + 1]) for i in range(pairs))
    return equation + ("->" + text(operands[-1]) if len(operands) % 2 else ""), operands[0 : 2 * pairs : 2]


@rule(torch.einsum)
def einsum(t, equation, *operands):
    if isinstance(equation, torch.Tensor):
        equation, operands = _from_sublists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return t.wrap(lib.samba_einsum(equation.encode(), len(operands), [t.value(x) for x in operands]))


@rule(torch.tensordot)
def tensordot(t, a, b, dims=2, out=None):
    if isinstance(dims, int):
        if not 0 <= dims <= min(rank(a), rank(b)):
            raise RuntimeError(f"tensordot: expected dims of 0 to {min(rank(a), rank(b))}, given {dims}")
        dims = list(range(rank(a) - dims, rank(a))), list(range(dims))
    of_a, of_b = ([x] if isinstance(x, int) else list(x) for x in dims)
    if len(of_a) != len(of_b):
        raise RuntimeError(f"tensordot: expected as many dims of both tensors, given {of_a} and {of_b}")
    result = t.wrap(lib.samba_tensordot(t.value(a), t.value(b), len(of_a), of_a, of_b))
    return result if out is None else t.into(out, result)


@rule(torch.linalg.multi_dot)
def multi_dot(t, tensors):
    return t.wrap(lib.samba_multi_dot(len(tensors), [t.value(x) for x in tensors]))


@rule(torch.chain_matmul)
def chain_matmul(t, *matrices):
    return matrices[0] if len(matrices) == 1 else multi_dot(t, matrices)


@rule(torch.trace, T.trace, aten.trace)
def trace(t, input):
    return t.wrap(lib.samba_trace(t.value(input)))
