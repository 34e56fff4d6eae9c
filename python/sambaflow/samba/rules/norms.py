# SPDX-License-Identifier: Apache-2.0
"""Normalizations. What has a mean and a deviation for each row is the library's layer_norm over another shape."""
import math

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba import _state
from sambaflow.samba.rules.common import NONE, cast, dims_of, floating, optional, rank, unsupported
from sambaflow.samba.trace import rule

T = torch.Tensor


@rule(F.layer_norm, torch.layer_norm)
def layer_norm(t, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = list(normalized_shape)
    return t.wrap(lib.samba_functional_layer_norm(t.value(input), len(shape), shape, optional(t, weight), optional(t, bias), eps))


@rule(F.rms_norm, torch.rms_norm)
def rms_norm(t, input, normalized_shape, weight=None, eps=None):
    value, count = t.value(input), len(normalized_shape)
    dims = list(range(-count, 0))
    square_ = lib.samba_mean(lib.samba_mul(value, value), count, dims, True)
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    result = lib.samba_mul(value, lib.samba_rsqrt(lib.samba_add(square_, t.number(eps, input))))
    return t.wrap(result if weight is None else lib.samba_mul(result, t.value(weight)))


@rule(F.batch_norm)
def batch_norm(t, input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if _state.legacy_names:
        unsupported(t, "batch_norm cannot be traced under legacy names: call samba.session.use_legacy_names(False)")
    dims = [d for d in range(rank(input)) if d != 1]
    shape = [1 if d != 1 else input.shape[1] for d in range(rank(input))]

    def along(x):
        return lib.samba_reshape(t.value(x) if isinstance(x, torch.Tensor) else x, len(shape), shape)

    value = t.value(input)
    if training or running_mean is None:
        mean = lib.samba_mean(value, len(dims), dims, True)
        centred = lib.samba_sub(value, mean)
        variance = lib.samba_mean(lib.samba_mul(centred, centred), len(dims), dims, True)
        if training and running_mean is not None:
            n = math.prod(input.shape[d] for d in dims)
            _run(t, running_mean, lib.samba_reshape(mean, 1, [shape[1]]), momentum, 1.0)
            _run(t, running_var, lib.samba_reshape(variance, 1, [shape[1]]), momentum, n / max(n - 1, 1))
    else:
        centred, variance = lib.samba_sub(value, along(running_mean)), along(running_var)
    result = lib.samba_mul(centred, lib.samba_rsqrt(lib.samba_add(variance, t.number(eps, input))))
    if weight is not None:
        result = lib.samba_mul(result, along(weight))
    return t.wrap(result if bias is None else lib.samba_add(result, along(bias)))


def _run(t, running, batch, momentum, factor):
    """running = (1 - momentum) * running + momentum * factor * batch, after the run."""
    old = lib.samba_mul(t.value(running), t.number(1 - momentum, running))
    t.assign(running, lib.samba_add(old, lib.samba_mul(batch, t.number(momentum * factor, running))))


def _rows(t, input, shape, eps):
    """Each row of a view normalized, in the input's shape again."""
    rows = input.reshape(shape)
    normal = lib.samba_functional_layer_norm(t.value(rows), 1, [shape[-1]], NONE, NONE, eps)
    return t.wrap(normal).reshape(input.shape)


def _scaled(input, weight, bias):
    shape = [-1] + [1] * (rank(input) - 2)
    input = input if weight is None else input * weight.reshape(shape)
    return input if bias is None else input + bias.reshape(shape)


@rule(F.group_norm, torch.group_norm)
def group_norm(t, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    if num_groups < 1 or input.shape[1] % num_groups:
        raise TypeError(f"{num_groups} groups of {input.shape[1]} channels")
    size = input.numel() // max(1, input.shape[0] * num_groups)
    return _scaled(_rows(t, input, [input.shape[0], num_groups, size], eps), weight, bias)


@rule(F.instance_norm)
def instance_norm(t, input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    if not use_input_stats:
        return batch_norm(t, input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(input.shape[2:])
    if running_mean is not None:
        rows = input.reshape(*input.shape[:2], count)
        mean, variance = rows.mean([0, 2]), rows.var(2, correction=1).mean(0)
        _run(t, running_mean, t.value(mean), momentum, 1.0)
        _run(t, running_var, t.value(variance), momentum, 1.0)
    return _scaled(_rows(t, input, [*input.shape[:2], count], eps), weight, bias)


@rule(F.local_response_norm)
def local_response_norm(t, input, size, alpha=1e-4, beta=0.75, k=1.0):
    square = (input * input).transpose(1, -1)
    square = F.avg_pool1d(F.pad(square, (size // 2, (size - 1) // 2)).reshape(-1, 1, input.shape[1] + size - 1), size, 1)
    average = square.reshape(input.transpose(1, -1).shape).transpose(1, -1)
    return input / (average * alpha + k) ** beta


@rule(torch.linalg.vector_norm, torch.ops.aten.linalg_vector_norm)
def vector_norm(t, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if dtype not in (None, x.dtype) and not (floating(x) and torch.promote_types(x.dtype, dtype) is dtype):
        raise TypeError(f"the norm of a tensor of {x.dtype} as {dtype}: expected a floating point tensor, and a dtype that holds its values")
    return t.wrap(lib.samba_vector_norm(t.value(cast(t, x, dtype)), float(ord), *dims_of(dim), keepdim))


@rule(torch.norm, T.norm)
def norm(t, input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    if isinstance(p, str) and p != "fro":
        raise TypeError(f"norm {p!r} of a matrix needs its singular values, which a graph cannot have")
    return vector_norm(t, input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@rule(F.normalize)
def normalize(t, input, p=2.0, dim=1, eps=1e-12, out=None):
    length = vector_norm(t, input, p, dim, True)
    return input / torch.maximum(length, torch.full((), eps, dtype=input.dtype))


@rule(torch._weight_norm)
def weight_norm(t, v, g, dim=0):
    dims = [d for d in range(rank(v)) if d != dim] if dim >= 0 else list(range(rank(v)))
    return v * (g / vector_norm(t, v, 2, dims, True))


@rule(torch.cdist)
def cdist(t, x1, x2, p=2.0, compute_mode=None):
    return vector_norm(t, x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)
