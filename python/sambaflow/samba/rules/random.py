# SPDX-License-Identifier: Apache-2.0
"""Random numbers: new ones each run, by a seed of the module's name. A single number (shape ()) has a value while the model is
traced, too: models decide by it which layers to run (drawn.py)."""

import math

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.errors import ArgumentError
from sambaflow.samba.drawn import SINGLE
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

    def single(t, *_, dtype=None, **__):
        return draw(t, (), dtype or torch.get_default_dtype())

    return traced, single


RANDOM[torch.rand], SINGLE[torch.rand] = _made(uniform)
RANDOM[torch.randn], SINGLE[torch.randn] = _made(normal)


def _refuse_generator(t, name, generator):
    if generator is not None:
        unsupported(
            t,
            f"{name}: numbers of a generator of its own would be the same in each run: leave generator out, and "
            "new ones are drawn",
        )


@_random(torch.bernoulli, T.bernoulli)
def bernoulli(t, input, p=None, *, generator=None):
    _refuse_generator(t, "bernoulli", generator)
    return cast(t, uniform(t, input.shape, torch.float32) < (input if p is None else p), input.dtype)


@_random(torch.normal)
def normal_of(t, mean, std=1.0, size=None, *, generator=None):
    _refuse_generator(t, "normal", generator)
    mean, std = (
        t.wrap(lib.samba_detach(t.value(x))) if isinstance(x, torch.Tensor) else x for x in (mean, std)
    )  # torch's gradients are 0
    like = mean if isinstance(mean, torch.Tensor) else std
    if size is not None or not isinstance(like, torch.Tensor):
        return normal(t, size, torch.get_default_dtype()) * std + mean
    shape = torch.broadcast_shapes(*(x.shape for x in (mean, std) if isinstance(x, torch.Tensor)))
    return normal(t, shape, like.dtype) * std + mean


@_random(torch.multinomial, T.multinomial)
def multinomial(t, input, num_samples, replacement=False, *, generator=None):
    """With replacement by the sums of the weights, exact in float64. Without, the greatest of weights over exponential numbers:
    one is the greatest with a probability of its share, and so on among those that are left."""
    _refuse_generator(t, "multinomial", generator)
    if input.dim() not in (1, 2) or not input.dtype.is_floating_point:
        unsupported(t, f"multinomial of {tuple(input.shape)} {input.dtype}: expected floating-point weights of one dim or two")
    categories = input.shape[-1]
    if num_samples < 1 or categories == 0 or (num_samples > categories and not replacement):
        how = "with" if replacement else "without"
        raise ArgumentError(f"multinomial: {num_samples} samples of {categories} categories {how} replacement{t.where()}")
    weights = input.detach()
    if not replacement:
        weights = weights if weights.dtype is torch.float64 else cast(t, weights, torch.float32)
        waits = (-torch.log1p(-_uniform(t, weights.shape))).clamp(min=torch.finfo(torch.float32).tiny)
        return (weights / waits.to(weights.dtype)).topk(num_samples, -1).indices
    sums = weights.double().cumsum(-1)
    drawn = _uniform(t, [*weights.shape[:-1], num_samples]).double() * sums[..., -1:]
    return (sums.unsqueeze(-2) <= drawn.unsqueeze(-1)).sum(-1)


# ---- tensors filled with them ----


@_random(T.bernoulli_)
def bernoulli_(t, input, p=0.5, *, generator=None):
    return in_place(t, input, bernoulli(t, input, p, generator=generator), True)


@_random(T.uniform_)
def uniform_(t, input, to_from=0.0, to=1.0, *, generator=None, **named):
    _refuse_generator(t, "uniform_", generator)
    low = named.get("from", to_from)
    return in_place(t, input, uniform(t, input.shape, input.dtype) * (to - low) + low, True)


def _fills(method, draw, **options):
    """A method that fills a tensor with draw(t, shape, its options), drawn in float32."""

    @_random(method)
    def traced(t, input, *args, generator=None, **given):
        name = method.__name__
        _refuse_generator(t, name, generator)
        unknown = set(given) - set(list(options)[len(args) :])
        if unknown or len(args) > len(options):
            raise TypeError(f"expected the arguments {', '.join(options)}, given {', '.join(sorted(unknown)) or len(args)}")
        return in_place(
            t, input, cast(t, draw(t, input.shape, **{**options, **dict(zip(options, args)), **given}), input.dtype), True
        )


def _uniform(t, shape):
    return uniform(t, shape, torch.float32)


_fills(T.normal_, lambda t, shape, mean, std: normal(t, shape, torch.float32) * std + mean, mean=0.0, std=1.0)
_fills(T.log_normal_, lambda t, shape, mean, std: (normal(t, shape, torch.float32) * std + mean).exp(), mean=1.0, std=2.0)
_fills(T.exponential_, lambda t, shape, lambd: -torch.log1p(-_uniform(t, shape)) / lambd, lambd=1.0)
_fills(
    T.cauchy_,
    lambda t, shape, median, sigma: torch.tan((_uniform(t, shape) - 0.5) * math.pi) * sigma + median,
    median=0.0,
    sigma=1.0,
)
_fills(
    T.geometric_,
    lambda t, shape, p: (torch.log1p(-_uniform(t, shape)) / (math.log1p(-p) if p < 1 else -math.inf)).ceil().clamp(min=1),
    p=None,
)


@_random(torch.randperm)
def randperm(t, n, *, generator=None, dtype=torch.int64, **_):
    _refuse_generator(t, "randperm", generator)
    return cast(t, _uniform(t, [n]).argsort(), dtype) if n > 1 else NotImplemented


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


def _single_integer(t, low, high, size=None, *, dtype=None, **_):
    low, high = (0, low) if size is None else (low, high)
    return _integers(t, low, high, (), dtype or torch.int64)


RANDOM[torch.randint], SINGLE[torch.randint] = _randint, _single_integer


@rule(F.gumbel_softmax)
def gumbel_softmax(t, logits, tau=1, hard=False, eps=1e-10, dim=-1):
    return t.wrap(lib.samba_gumbel_softmax(t.value(logits), _name(t), tau, hard, dim))


def _refused(what, *functions):
    @_random(*functions)
    def traced(t, *_, **__):
        unsupported(t, f"{what} cannot be made in a graph yet: make them before and pass them as an input")


_refused("draws of counts, torch.poisson and binomial,", torch.poisson, torch.binomial)
_refused("draws of the gamma, beta and Dirichlet distributions", torch._standard_gamma, torch._sample_dirichlet)
_refused("integers that random_ draws", T.random_)
