# SPDX-License-Identifier: Apache-2.0
"""Attention: masks of every shape that broadcasts, causal with lengths that differ, heads shared by several queries, scale,
ranks 2 to 5."""

import functools

import torch
import torch.nn.functional as F
from table import Maker, Operator, Sample
from views import between_views

SHAPES = [
    ((5, 4), (5, 4)),
    ((3, 5, 4), (3, 7, 4)),
    ((2, 3, 5, 8), (2, 3, 5, 8)),
    ((2, 2, 70, 8), (2, 2, 67, 8)),
    ((1, 1, 1, 3), (1, 1, 9, 3)),
    ((2, 1, 2, 3, 4), (2, 1, 2, 5, 4)),
]


def _parts(make, q, k, width=None):
    return make.tensor(*q), make.tensor(*k), make.tensor(*k[:-1], width or k[-1])


class _Weighted(torch.autograd.Function):
    """Softmax of scores, times values. Kernels of attention take sum p dp in the gradient of scores from the result, as sum of dO
    O: what rounding does to either, and to dp, does not cancel there as it does in torch's softmax. So noise has to."""

    @staticmethod
    def forward(ctx, scores, values):
        weights = torch.softmax(scores, -1).masked_fill(scores.isneginf().all(-1, keepdim=True), 0)
        result = weights @ values
        ctx.save_for_backward(weights, values, result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        weights, values, result = ctx.saved_tensors
        return weights * (gradient @ values.mT - (gradient * result).sum(-1, keepdim=True)), weights.mT @ gradient


def _by_steps(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype is torch.bool else scores + attn_mask
    return _Weighted.apply(scores, v.expand(*scores.shape[:-2], *v.shape[-2:]))


def _terms(q, k):
    return 4 * k[-2] + q[-1]


def _attention(make):
    for q, k in SHAPES:
        q, k = make.sized(q, k)
        yield Sample(_parts(make, q, k), terms=_terms(q, k))
        yield Sample(_parts(make, q, k, 6), {"scale": 0.3}, terms=_terms(q, k))
        yield Sample(_parts(make, q, k), {"is_causal": True}, terms=_terms(q, k))
        scores = (*q[:-1], k[-2])
        seen = make.tensor(*scores, low=0, high=1, requires_grad=False) > 0.3
        seen[..., 0] = True
        yield Sample((*_parts(make, q, k), seen), terms=_terms(q, k))
        yield Sample((*_parts(make, q, k), make.tensor(*scores, requires_grad=False)), terms=_terms(q, k))
    q, k = (2, 3, 5, 4), (2, 3, 6, 4)
    for mask in [(5, 6), (1, 6), (3, 5, 6), (3, 1, 6), (1, 3, 5, 6), (2, 1, 1, 6), (2, 1, 5, 6), (2, 3, 5, 1)]:
        yield Sample((*_parts(make, q, k), make.tensor(*mask, requires_grad=False)), terms=_terms(q, k))
    for heads in (1, 2):
        k = (2, heads, 6, 4)
        yield Sample(_parts(make, (2, 4, 5, 4), k), {"enable_gqa": True}, terms=4 * _terms((5, 4), k))
        yield Sample(_parts(make, (2, 4, 5, 4), k), {"enable_gqa": True, "is_causal": True}, terms=4 * _terms((5, 4), k))
    yield Sample(_parts(make, (2, 1, 5, 4), (1, 3, 6, 4)), terms=40)  # leading dims broadcast
    for layout in Maker.LAYOUTS[1:]:
        yield Sample(tuple(make.tensor(2, 5, 8, layout=layout) for _ in range(3)), terms=28)


def _multi_head(*args, **options):
    return [x for x in F.multi_head_attention_forward(*args, **options) if x is not None]


def _heads(make):
    """E, heads, biases, separate projections, one more key of either kind."""
    for e, heads, biases, separate, added, zeros in [
        (4, 2, True, False, False, False),
        (6, 3, False, False, True, False),
        (4, 1, True, True, False, True),
        (6, 2, True, True, True, True),
    ]:
        length, others, images, *sizes = make.sized((3, 4, 2, e // heads, 5, 3), work=4096)
        e = heads * sizes[0]
        kdim, vdim = sizes[1:] if separate else (e, e)
        weight = functools.partial(make.tensor, low=-0.5, high=0.5)  # scores that do not saturate the softmax
        weights = [
            None if separate else weight(3 * e, e),
            weight(3 * e) if biases else None,
            *([weight(1, 1, e), weight(1, 1, e)] if added else [None, None]),
        ]
        out = weight(e, e), weight(e) if biases else None
        own = (
            dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), (weight(e, size) for size in (e, kdim, vdim))))
            if separate
            else {}
        )
        for batch in ((), (images,)):
            q = make.tensor(length, *batch, e)
            widths = (kdim, vdim) if separate else (e,)
            k, v = [make.tensor(others, *batch, width) for width in widths] * (1 if separate else 2)
            hides = torch.triu(torch.ones(length, others, dtype=torch.bool), 1)
            padded = torch.arange(others).expand(*batch, others) == others - 1
            scores = make.tensor((batch[0] if batch else 1) * heads, length, others, requires_grad=False)
            for i, masks in enumerate(
                ({}, {"attn_mask": hides}, {"attn_mask": scores}, {"key_padding_mask": padded, "attn_mask": hides})
            ):
                asked = (
                    {"need_weights": True, "average_attn_weights": bool(batch)} if (i + heads) % 2 else {"need_weights": False}
                )
                yield Sample(
                    (q, k, v, e, heads, *weights, zeros, 0.0, *out),
                    {"use_separate_proj_weight": separate} | own | masks | asked,
                    terms=16 * e,
                )


OPERATORS = [
    Operator("scaled_dot_product_attention", F.scaled_dot_product_attention, _attention, truth=_by_steps),
    Operator("multi_head_attention", _multi_head, _heads),
]
OPERATORS += [between_views(row, whole=True) for row in OPERATORS]
