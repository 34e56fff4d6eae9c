# SPDX-License-Identifier: Apache-2.0
"""Gradients in float64 against central differences of the same program's values.

L = the sum of results times fixed seeds. Along a random direction v, D(h) = (L(x + h v) - L(x - h v)) / 2h is the gradient times
v up to h^2 of the third derivative and the rounding of L over h. h is the cube root of eps, where both are about equal. D(h) -
D(2h) shows what the third derivative does: three times the error of D(h). Allowed is four times that difference, for it is an
estimate, and eps / h times the sum of |results times seeds| times 64 units and the root of terms, of the roundings in the two
values, and eps / h times the sum of |inputs times their gradients|, of the roundings of x + h v and x - h v, which count where
inputs cancel.

Between x - 2 h v and x + 2 h v may lie a kink: two numbers of a maximum that are nearly equal, a sign that turns. A sample that
disagrees is asked again with a step of a 64th. A kink gives way, but for one in 64; a wrong gradient stays wrong."""

import torch

STEPS = 1, 1 / 64
STEP = torch.finfo(torch.float64).eps ** (1 / 3)


def _sums(values, counts, seeds):
    """L of each sample, and the sum of its terms' magnitudes."""
    found, at = [], 0
    for count in counts:
        terms = [y * s for y, s in zip(values[at : at + count], seeds[at : at + count]) if s is not None]
        found.append((float(sum(t.sum() for t in terms)), float(sum(t.abs().sum() for t in terms))))
        at += count
    return found


def _slopes(whole, by_reference, seeds, directions, step):
    """Of each sample: D(step), D(2 step), the magnitude of what D adds up."""
    values = {}
    for steps in (1, -1, 2, -2):
        given = list(whole.given)
        for i, v in zip(whole.wanted, directions):
            given[i] = given[i] + steps * step * v if v.any() else given[i]
        values[steps] = _sums(whole.values(by_reference, given), whole.counts, seeds)
    return [
        ((a[0] - b[0]) / (2 * step), (c[0] - d[0]) / (4 * step), a[1] + b[1])
        for a, b, c, d in zip(*(values[steps] for steps in (1, -1, 2, -2)))
    ]


def check(whole, by_reference, seeds, found, generators, turned):
    """`found`: gradients of whole.wanted; `generators`: of random numbers, one a sample.
    A message for each sample whose gradient is wrong, by the sample's number."""
    owners = [k for k, leaves in enumerate(whole.leaves) for _ in range(leaves)]
    directions = [
        torch.rand(whole.given[i].shape, generator=generators[k], dtype=torch.float64) * 2 - 1
        for i, k in zip(whole.wanted, owners)
    ]
    fine = [whole.given[i].dtype is torch.float64 for i in whole.wanted]  # others have no digits for a step, and stand still
    directions = [v if moves else torch.zeros_like(v) for v, moves in zip(directions, fine)]
    wrong = {k: "" for k, leaves in enumerate(whole.leaves) if leaves}
    for share in STEPS:
        step = STEP * share
        slopes = _slopes(whole, by_reference, seeds, directions, step) if wrong else []
        for k in list(wrong):
            near, far, magnitude = slopes[k]
            slope = sum(float((turned(g) * v).sum()) for g, v, owner in zip(found, directions, owners) if owner == k)
            felt = sum(
                float((turned(g).abs() * whole.given[i].abs()).nan_to_num(0, 0).sum())
                for g, i, owner in zip(found, whole.wanted, owners)
                if owner == k
            )
            rounded = (64 + whole.samples[k].terms ** 0.5) * (magnitude + abs(slope) * step) + felt
            allowed = 4 * abs(near - far) + torch.finfo(torch.float64).eps / step * rounded
            if abs(slope - near) <= allowed or not abs(near) < float("inf"):
                del wrong[k]
            else:
                wrong[k] = (
                    f"the gradient along a random direction is {slope!r}, central differences give {near!r}, allowed to differ "
                    f"by {allowed:.3g}"
                )
    return wrong
