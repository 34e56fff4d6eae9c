# SPDX-License-Identifier: Apache-2.0
"""Softmax and normalizations."""
import torch
import torch.nn.functional as F

from table import Operator, Sample, shapes


def _along(make):
    """Every dim of every shape."""
    for x in shapes(make, least_rank=1):
        for dim in {0, -1, x.dim() // 2}:
            yield Sample((x,), {"dim": dim}, terms=max(1, x.shape[dim]))


OPERATORS = [
    Operator("softmax", F.softmax, _along),
    Operator("log_softmax", F.log_softmax, _along),
]
