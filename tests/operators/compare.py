# SPDX-License-Identifier: Apache-2.0
"""What a result may differ by, from arithmetic.

The truth is torch's result in float64 of the same inputs, which are exact in float64. A result y in a dtype of unit eps may
differ from it by

    eps * |y| * (ulp + sqrt(terms))  +  (8 + sqrt(terms)) * moved + (1 + log2(terms)) * moved of the whole tensor
    +  ulp * the smallest subnormal

`ulp` is of the row: units in the last place of an elementwise kernel. sqrt(terms): the roundings of a sum of so many numbers,
whose partial sums are that much greater than a term. `moved` is
how far the truth moves when each element of the inputs, of what torch's kernels compute on the way, and of the gradient that
comes from behind, moves by up to eps of itself: root mean square of six random moves. That is the magnitude of the terms of a sum
that cancels, times eps and the root of their number, without knowing what the operator sums. An elementwise value (terms = 1) has
moved = 0: its kernel answers for the exact input. Gradients always have it: they are products and sums of several factors. Six
moves of one element may all be small by chance, so what the whole tensor moves (root mean square) counts once; and once for each
of the log2(terms) steps of a Fourier transform or a sum in pairs, whose roundings meet an element that is 0 by symmetry and does
not move at all. A truth in the dtype float64 is as far off as we are: twice as much there.

What torch gives in the dtype itself is as good: an element that differs from the truth by more counts as right where it is that
near to torch's. NaN and infinities are where the truth, rounded to the dtype, has them, or where torch has them. Integers and
bool are torch's own, to the last bit, and so is everything of a row that says `exact`, signed zeros included."""

import dataclasses
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROUNDS = 6
aten = torch.ops.aten
ARITHMETIC_IN_PLACE = {
    aten.add_,
    aten.sub_,
    aten.mul_,
    aten.div_,
    aten.sigmoid_,
    aten.tanh_,
    aten.exp_,
    aten.sqrt_,
}  # what they wrote was rounded too


def epsilon(dtype):
    return torch.finfo(dtype).eps


def _wide(x, dtype=torch.float64):
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype.is_floating_point else x


def widened(tree):
    return torch.utils._pytree.tree_map(_wide, tree)


class Noise(TorchDispatchMode):
    """Inside, what torch's kernels compute in float64 is off by up to eps of `dtype` of itself, element by element."""

    def __init__(self, dtype, generator):
        super().__init__()
        self.width, self.generator = epsilon(dtype), generator

    def nudge(self, x):
        if not isinstance(x, torch.Tensor) or x.dtype is not torch.float64:
            return x
        noise = torch.rand(x.shape, generator=self.generator, dtype=torch.float64)
        return x * noise.mul_(2 * self.width).add_(1 - self.width)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is aten.multilabel_margin_loss_forward.default:
            return self.nudge(out[0]), out[1]  # the second result is marks of 0 and 1
        if (
            func.overloadpacket is aten.abs
            or func.overloadpacket is aten.linalg_vector_norm
            and math.isinf(args[1] if len(args) > 1 else 2)
        ):
            return out  # exact; where they are equal the greatest stood
        if func.overloadpacket in ARITHMETIC_IN_PLACE and out.dtype is torch.float64:
            return out.copy_(self.nudge(out))
        return out if func.is_view or func._schema.is_mutable else torch.utils._pytree.tree_map(self.nudge, out)

    def nudged(self, tree):
        """Its tensors, off likewise."""
        return torch.utils._pytree.tree_map(self.nudge, tree)


@dataclasses.dataclass
class Expected:
    """What one result, or one gradient, may be."""

    truth: torch.Tensor  # float64; of integers and bool torch's own
    torchs: torch.Tensor  # torch's in the dtype; None: torch has none
    dtype: torch.dtype
    allowed: torch.Tensor = None  # of float64; None: exact
    magnitude: torch.Tensor = (
        None  # of the result or, where it cancels, of its terms: what an error in units in the last place refers to
    )


def expected_around(truth, torchs, moves, dtype, ulp, terms):
    """`moves`: results that are as good as the truth but for roundings; none of an elementwise function."""
    magnitude = truth.abs()
    allowed = epsilon(dtype) * magnitude * (ulp + terms**0.5)
    if moves:
        square = sum((move - truth).nan_to_num(0, 0, 0).square() for move in moves) / len(moves)
        whole = square.mean().sqrt() if square.numel() else 0.0
        allowed = allowed + (8 + terms**0.5) * square.sqrt() + (1 + math.log2(max(terms, 1))) * whole
        magnitude = torch.maximum(
            magnitude, torch.clamp(square.sqrt(), min=whole) * (3**0.5 / epsilon(dtype))
        )  # noise of -eps to eps is sqrt(3) smaller on the average
    allowed = allowed.nan_to_num(0, 0, 0) * (2 if dtype is torch.float64 else 1)
    return Expected(truth, torchs, dtype, allowed + ulp * torch.finfo(dtype).smallest_normal * epsilon(dtype), magnitude)


@dataclasses.dataclass
class Difference:
    """Of one tensor: what is wrong, if anything, and the greatest error in units in the last place of `magnitude`."""

    wrong: str = ""
    ulp: float = 0.0


def _same_bits(a, b):
    if a.dtype.is_floating_point:
        return (a == b) & (torch.signbit(a) == torch.signbit(b)) | (a.isnan() & b.isnan())
    return a == b


def _first(bad, found, expected, allowed=None):
    at = tuple(int(i) for i in bad.nonzero()[0])
    more = int(bad.sum()) - 1
    bound = f", allowed to differ by {float(allowed[at]):.3g}" if allowed is not None else ""
    return f"at {list(at)}: {found[at].item()!r} instead of {expected[at].item()!r}{bound}" + (
        f", and {more} more" if more else ""
    )


def compare(found, expected):
    """A result against what it may be."""
    if found.dtype != expected.dtype:
        return Difference(f"dtype {found.dtype} instead of {expected.dtype}")
    if found.shape != expected.truth.shape:
        return Difference(f"shape {tuple(found.shape)} instead of {tuple(expected.truth.shape)}")
    if found.numel() == 0:
        return Difference()
    if expected.allowed is None or not expected.dtype.is_floating_point:
        wanted = expected.torchs if expected.torchs is not None else expected.truth.to(expected.dtype)
        bad = ~_same_bits(found, wanted)
        return Difference(_first(bad, found, wanted)) if bad.any() else Difference()
    dtype = expected.dtype
    wide, rounded = found.double(), expected.truth.to(dtype).double()
    error = (wide - expected.truth).abs()
    near = error <= expected.allowed
    special = ~(wide.isfinite() & rounded.isfinite())
    right = torch.where(special, (wide == rounded) | (wide.isnan() & rounded.isnan()), near)
    greatest = torch.finfo(dtype).max
    right |= wide.isinf() & (expected.truth.abs() + expected.allowed >= greatest) & (wide.sign() == expected.truth.sign())
    if expected.torchs is not None and not right.all():
        other = expected.torchs.double()
        right |= (wide == other) | (wide.isnan() & other.isnan()) | ((wide - other).abs() <= expected.allowed)
    if not right.all():
        shown = expected.truth if expected.torchs is None else torch.where(special, expected.torchs.double(), expected.truth)
        return Difference(_first(~right, wide, shown, expected.allowed))
    plain = ~special & near
    unit = torch.maximum(
        torch.exp2(torch.floor(torch.log2(expected.magnitude))),
        torch.tensor(torch.finfo(dtype).smallest_normal, dtype=torch.float64),
    )
    ulps = torch.where(plain, error / (unit * epsilon(dtype)), torch.zeros_like(error))
    return Difference("", float(ulps.max()))
