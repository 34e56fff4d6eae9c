# SPDX-License-Identifier: Apache-2.0
"""Rows of layers once more, at batch 1 and 2 and between views: their first operand comes out of one or two views, and their
result goes through up to three. A gradient that arrives permuted,
flattened or spread is laid out as no sample of the layer alone has it."""

import dataclasses
import random
import zlib

import torch
from table import Sample

MOST = 24  # samples of a row and dtype


def through(views, y):
    for view, *arguments in views:
        y = getattr(y, view)(*arguments)
    return y


def _between(call):
    def viewed(before, after, x, *args, **kwargs):
        y = call(through(before, x), *args, **kwargs)
        return through(after, y) if isinstance(y, torch.Tensor) else (through(after, y[0]), *y[1:])

    return viewed


def _undone(draws, x):
    """(views, something) that give x."""
    kind = draws.choice(("permute", "reshape", "unsqueeze", "both"))
    if kind in ("permute", "both") and x.dim() > 1:
        order = draws.sample(range(x.dim()), x.dim())
        back = [order.index(d) for d in range(x.dim())]
        turned = x.permute(order).contiguous()
        if kind == "permute":
            return [("permute", back)], turned
        return [("reshape", list(turned.shape)), ("permute", back)], turned.reshape(-1)
    if kind == "unsqueeze":
        dim = draws.randrange(x.dim() + 1)
        return [("squeeze", dim)], x.unsqueeze(dim).contiguous()
    return [("reshape", list(x.shape))], x.reshape(-1)


def _chain(draws, shape):
    """Views of a result of that shape."""
    y, views = torch.empty(shape, device="meta"), []
    for _ in range(draws.randrange(1, 4)):
        kind = draws.choice(("permute", "flatten", "transpose", "unsqueeze", "squeeze", "reshape", "expand"))
        if kind == "permute":
            view = (kind, draws.sample(range(y.dim()), y.dim()))
        elif kind == "flatten":
            view = (kind, draws.randrange(max(y.dim(), 1)))
        elif kind == "transpose" and y.dim() > 1:
            view = (kind, *draws.sample(range(y.dim()), 2))
        elif kind == "unsqueeze":
            view = (kind, draws.randrange(y.dim() + 1))
        elif kind == "squeeze":
            view = (kind,)
        elif kind == "expand":
            view = (kind, [2, *y.shape])
        else:
            view = ("reshape", [-1, y.shape[-1]] if y.dim() > 1 and y.numel() else list(y.shape))
        if y.dim() >= 5 and kind in ("unsqueeze", "expand"):
            continue
        views.append(view)
        y = through([view], y)
    return views


def _images(sample, batch):
    """The sample with so many images; None where it has fewer."""
    x = sample.args[0]
    if x.dim() < 2 or x.shape[0] < batch or x.numel() == 0:
        return None
    return Sample((x[:batch].contiguous(), *sample.args[1:]), sample.kwargs, sample.terms, sample.gradient)


def between_views(row, call=None, whole=False):
    """The row between views. whole: its samples stay as they are, for operands that share the batch."""
    call = call or row.call

    def samples(make):
        draws = random.Random(zlib.crc32(f"{row.name} {make.dtype} {make.generator.initial_seed()}".encode()))
        found = []
        for sample in row.samples(make):
            found += [sample] if whole else [few for few in (_images(sample, batch) for batch in (1, 2)) if few is not None]
        draws.shuffle(found)
        count = 0
        for sample in found:
            x = sample.args[0]
            try:
                with torch.no_grad():
                    y = call(*sample.args, **sample.kwargs)
            except (RuntimeError, ValueError):  # batch norm of one element a channel
                continue
            y = y if isinstance(y, torch.Tensor) else y[0]
            if x.numel() == 0 or y.numel() == 0:
                continue
            before, given = _undone(draws, x)
            if getattr(x, "no_gradient", False):
                given.no_gradient = True
            yield Sample((before, _chain(draws, y.shape), given, *sample.args[1:]), sample.kwargs, sample.terms, sample.gradient)
            count += 1
            if count == MOST:
                return

    return dataclasses.replace(row, call=_between(call), samples=samples, truth=row.truth and _between(row.truth))
