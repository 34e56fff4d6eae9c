# SPDX-License-Identifier: Apache-2.0
"""Random numbers: new ones each run, by a seed of the module's name. A single number (shape ()) is drawn once, while the model is traced: models
decide by it which layers to run."""

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import cast, in_place, unsupported
from sambaflow.samba.trace import RANDOM, rule

T = torch.Tensor


def uniform(t, shape, dtype):
    """[0, 1)"""
    return cast(t, t.wrap(lib.samba_rand(t.graph, _name(t), len(shape), list(shape))), dtype)


def normal(t, shape, dtype):
    return cast(t, t.wrap(lib.samba_randn(t.graph, _name(t), len(shape), list(shape))), dtype)


def _name(t):
    """What the seed's name begins with."""
    return (f"{t.stack[-1]}.random" if t.stack and t.stack[-1] else "random").encode()


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


def _integers(t, low, high, shape, dtype):
    low, high = (0, low) if high is None else (low, high)
    return cast(t, t.wrap(lib.samba_randint(t.graph, _name(t), low, high, len(shape), list(shape))), dtype)


@_random(torch.randint_like)
def randint_like(t, input, low, high=None, *, dtype=None, **_):
    return _integers(t, low, high, input.shape, dtype or input.dtype)


def _randint(t, low, high, size=None, *, generator=None, dtype=None, **_):
    low, high, size = (0, low, high) if size is None else (low, high, size)
    if generator is not None or len(size) == 0:
        return NotImplemented
    return _integers(t, low, high, size, dtype or torch.int64)


RANDOM[torch.randint] = _randint


@rule(F.gumbel_softmax)
def gumbel_softmax(t, logits, tau=1, hard=False, eps=1e-10, dim=-1):
    return t.wrap(lib.samba_gumbel_softmax(t.value(logits), _name(t), tau, hard, dim))


@_random(torch.multinomial, T.multinomial)
def refused(t, *_, **__):
    unsupported(t, "draws by weights cannot be made in a graph yet: make them before and pass them as an input")
