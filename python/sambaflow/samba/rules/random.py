# SPDX-License-Identifier: Apache-2.0
"""Random numbers: new ones each run, by a seed of the module's name. A single number (shape ()) is drawn once, while the model is traced: models
decide by it which layers to run."""
import math

import torch

from sambaflow._core import lib
from sambaflow.samba.rules.common import cast, in_place, unsupported
from sambaflow.samba.trace import RANDOM, rule

T = torch.Tensor


def uniform(t, shape, dtype):
    """[0, 1)"""
    name = f"{t.stack[-1]}.random" if t.stack and t.stack[-1] else "random"
    return cast(t, t.wrap(lib.samba_rand(t.graph, name.encode(), len(shape), list(shape))), dtype)


def normal(t, shape, dtype):
    """Box and Muller 1958."""
    radius = torch.sqrt(-2 * torch.log(1 - uniform(t, shape, torch.float32)))
    return cast(t, radius * torch.cos(2 * math.pi * uniform(t, shape, torch.float32)), dtype)


def _random(*functions):
    """A rule that also holds where no argument is traced."""

    def register(f):
        RANDOM.update(dict.fromkeys(functions, f))
        return rule(*functions)(f)

    return register


def _like(draw, *functions):
    @_random(*functions)
    def traced(t, input, *, dtype=None, **_):
        return draw(t, input.shape, dtype or input.dtype)


_like(uniform, torch.rand_like)
_like(normal, torch.randn_like)


def _made(draw):
    def traced(t, *size, generator=None, dtype=None, **kwargs):
        shape = kwargs["size"] if "size" in kwargs else size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        if generator is not None or len(shape) == 0:
            return NotImplemented
        return draw(t, shape, dtype or torch.get_default_dtype())

    return traced


RANDOM[torch.rand] = _made(uniform)
RANDOM[torch.randn] = _made(normal)


@_random(torch.bernoulli, T.bernoulli)
def bernoulli(t, input, p=None, *, generator=None):
    return cast(t, uniform(t, input.shape, torch.float32) < (input if p is None else p), input.dtype)


@_random(torch.normal)
def normal_of(t, mean, std=1.0, size=None, *, generator=None):
    like = mean if isinstance(mean, torch.Tensor) else std
    if size is not None or not isinstance(like, torch.Tensor):
        return normal(t, size, torch.get_default_dtype()) * std + mean
    shape = torch.broadcast_shapes(*(x.shape for x in (mean, std) if isinstance(x, torch.Tensor)))
    return normal(t, shape, like.dtype) * std + mean


@_random(T.bernoulli_)
def bernoulli_(t, input, p=0.5, *, generator=None):
    return in_place(t, input, bernoulli(t, input, p), True)


@_random(T.uniform_)
def uniform_(t, input, to_from=0.0, to=1.0, **named):
    low = named.get("from", to_from)
    return in_place(t, input, uniform(t, input.shape, input.dtype) * (to - low) + low, True)


@_random(T.normal_)
def normal_(t, input, mean=0.0, std=1.0, *, generator=None):
    return in_place(t, input, normal(t, input.shape, input.dtype) * std + mean, True)


@_random(torch.multinomial, T.multinomial, torch.randint_like)
def refused(t, *_, **__):
    unsupported(t, "random integers cannot be drawn in a graph yet: draw them before and pass them as an input")
