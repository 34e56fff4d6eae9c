# SPDX-License-Identifier: Apache-2.0
"""Attention: masks of every shape that broadcasts, causal with lengths that differ, heads shared by several queries, scale, ranks 2 to 5."""
import torch
import torch.nn.functional as F

from table import Maker, Operator, Sample

SHAPES = [((5, 4), (5, 4)), ((3, 5, 4), (3, 7, 4)), ((2, 3, 5, 8), (2, 3, 5, 8)), ((2, 2, 70, 8), (2, 2, 67, 8)), ((1, 1, 1, 3), (1, 1, 9, 3)), ((2, 1, 2, 3, 4), (2, 1, 2, 5, 4))]


def _parts(make, q, k, width=None):
    return make.tensor(*q), make.tensor(*k), make.tensor(*k[:-1], width or k[-1])


def _terms(q, k):
    return 4 * k[-2] + q[-1]


def _attention(make):
    for q, k in SHAPES:
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


OPERATORS = [
    Operator("scaled_dot_product_attention", F.scaled_dot_product_attention, _attention),
]
