# SPDX-License-Identifier: Apache-2.0
"""Pooling, resizing, borders. Resizing and adaptive averages are linear along each dim: torch's own function of an identity matrix gives the
matrix to multiply with."""
import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import each, rank, unsupported
from sambaflow.samba.rules.indexing import take
from sambaflow.samba.trace import rule


def _pool(t, call, input, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad=True):
    options = ffi.new("samba_pool2d_options *")
    options.stride = each(stride, 2) if stride not in (None, [], ()) else [0, 0]
    options.padding, options.dilation = each(padding, 2), each(dilation, 2)
    options.ceil_mode, options.no_count_include_pad = ceil_mode, not count_include_pad
    return t.wrap(call(t.value(input), each(kernel_size, 2), options))


@rule(F.max_pool2d, torch.max_pool2d)
def max_pool2d(t, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    if return_indices:
        unsupported(t, "max_pool2d with return_indices cannot be traced")
    return _pool(t, lib.samba_max_pool2d, input, kernel_size, stride, padding, dilation, ceil_mode)


@rule(F.avg_pool2d)
def avg_pool2d(t, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    if divisor_override is not None:
        unsupported(t, "avg_pool2d with divisor_override: multiply the result instead")
    return _pool(t, lib.samba_avg_pool2d, input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)


def _single(x):
    return x if isinstance(x, int) or not x else x[0]


@rule(F.max_pool1d, torch.max_pool1d)
def max_pool1d(t, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    stride = kernel_size if stride in (None, [], ()) else stride
    wide = [(first, _single(x)) for first, x in ((1, kernel_size), (1, stride), (0, padding), (1, dilation))]
    return max_pool2d(t, input.unsqueeze(-2), *wide, ceil_mode, return_indices).squeeze(-2)


@rule(F.avg_pool1d, torch.avg_pool1d)
def avg_pool1d(t, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    stride = kernel_size if stride in (None, [], ()) else stride
    wide = [(first, _single(x)) for first, x in ((1, kernel_size), (1, stride), (0, padding))]
    return avg_pool2d(t, input.unsqueeze(-2), *wide, ceil_mode, count_include_pad).squeeze(-2)


# ---- linear along each dim ----


def _along(t, input, dim, size, function):
    """`dim` through the linear function of a (1, n, n) identity that gives (1, n, size)."""
    if input.shape[dim] == size:
        return input
    matrix = function(torch.eye(input.shape[dim], dtype=torch.float64).unsqueeze(0))[0].to(input.dtype)
    return (input.transpose(dim, -1) @ matrix).transpose(dim, -1)


def _adaptive_average(spatial, *functions):
    @rule(*functions)
    def traced(t, input, output_size):
        sizes = [output_size] * spatial if isinstance(output_size, int) else list(output_size)
        sizes = [size if size is not None else input.shape[i - spatial] for i, size in enumerate(sizes)]
        if all(size == 1 for size in sizes):
            return input.mean(list(range(-spatial, 0)), keepdim=True)
        kernel = [whole // part for whole, part in zip(input.shape[-spatial:], sizes)]
        if spatial == 2 and all(k * size == whole for k, size, whole in zip(kernel, sizes, input.shape[-2:])):
            return _pool(t, lib.samba_avg_pool2d, input, kernel, None, 0, 1, False)
        for i, size in enumerate(sizes):
            input = _along(t, input, rank(input) - spatial + i, size, lambda x, size=size: F.adaptive_avg_pool1d(x, size))
        return input


_adaptive_average(1, F.adaptive_avg_pool1d, torch.adaptive_avg_pool1d)
_adaptive_average(2, F.adaptive_avg_pool2d)
_adaptive_average(3, F.adaptive_avg_pool3d)


def _adaptive_maximum(spatial, *functions):
    @rule(*functions)
    def traced(t, input, output_size, return_indices=False):
        sizes = [output_size] * spatial if isinstance(output_size, int) else list(output_size)
        sizes = [size if size is not None else input.shape[i - spatial] for i, size in enumerate(sizes)]
        if return_indices or any(whole % part for whole, part in zip(input.shape[-spatial:], sizes)):
            unsupported(t, f"adaptive max pooling from {tuple(input.shape[-spatial:])} to {tuple(sizes)}: sizes must divide, and indices are not given")
        kernel = [whole // part for whole, part in zip(input.shape[-spatial:], sizes)]
        return max_pool2d(t, input, kernel) if spatial == 2 else max_pool1d(t, input, kernel)


_adaptive_maximum(1, F.adaptive_max_pool1d)
_adaptive_maximum(2, F.adaptive_max_pool2d)


@rule(F.interpolate)
def interpolate(t, input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    spatial = rank(input) - 2
    scales = [None] * spatial if scale_factor is None else [scale_factor] * spatial if isinstance(scale_factor, (int, float)) else list(scale_factor)
    sizes = [None] * spatial if size is None else [size] * spatial if isinstance(size, int) else list(size)
    plain = {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)
    for i, (n, scale) in enumerate(zip(sizes, scales)):
        dim = 2 + i
        n = int(input.shape[dim] * scale) if n is None else int(n)
        if plain.startswith("nearest") and n % input.shape[dim] == 0:  # each element a few times
            input = input.repeat_interleave(n // input.shape[dim], dim)
            continue

        def resize(x, n=n, scale=scale):
            options = {"size": n} if scale is None or recompute_scale_factor else {"scale_factor": scale}
            if plain == "bicubic" or antialias:  # torch has these for two dims
                options = {key: (1, n) if key == "size" else (1.0, scale) for key in options}
                flat = {"linear": "bilinear"}.get(plain, plain)
                return F.interpolate(x.unsqueeze(-2), mode=flat, align_corners=align_corners, antialias=antialias, **options).squeeze(-2)
            return F.interpolate(x, mode=plain, align_corners=align_corners, **options)

        input = _along(t, input, dim, n, resize)
    return input


@rule(F.pad)
def pad(t, input, pad, mode="constant", value=None):
    if mode == "constant":
        return torch.constant_pad_nd(input, pad, value or 0)
    for i in range(len(pad) // 2):
        dim, (before, after) = rank(input) - 1 - i, pad[2 * i : 2 * i + 2]
        places = F.pad(torch.arange(input.shape[dim], dtype=torch.float64).reshape(1, 1, -1), (before, after), mode).flatten().long()
        input = take(t, input, dim, places) if before or after else input
    return input
