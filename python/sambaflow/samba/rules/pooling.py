# SPDX-License-Identifier: Apache-2.0
"""Pooling; borders."""

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.convolution import numbers
from sambaflow.samba.trace import rule


def _options(what, spatial, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad=True, divisor_override=None):
    """Kernel and options as C takes them."""
    given = {"kernel_size": kernel_size, "padding": padding, "dilation": dilation}
    if stride not in (None, [], ()):
        given["stride"] = stride
    lists = numbers(what, spatial, **given)
    kernel = lists.pop("kernel_size")
    options = ffi.new(f"samba_pool{spatial}d_options *")
    for name, values in lists.items():
        setattr(options, name, values[0] if spatial == 1 else values)
    options.ceil_mode, options.no_count_include_pad = ceil_mode, not count_include_pad
    if divisor_override is not None:
        if divisor_override == 0:
            raise ValueError(f"{what}: divisor_override must not be 0")
        options.divisor_override = divisor_override
    return kernel[0] if spatial == 1 else kernel, options


def _maximum(spatial, *functions):
    what = f"max_pool{spatial}d"
    greatest, places = getattr(lib, f"samba_{what}"), getattr(lib, f"samba_{what}_indices")

    @rule(*functions)
    def traced(t, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        kernel, options = _options(what, spatial, kernel_size, stride, padding, dilation, ceil_mode)
        result = t.wrap(greatest(t.value(input), kernel, options))
        return (result, t.wrap(places(t.value(input), kernel, options))) if return_indices else result

    @rule(getattr(F, f"{what}_with_indices"), getattr(torch, f"{what}_with_indices", None) or getattr(F, f"{what}_with_indices"))
    def with_indices(t, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return traced(t, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    return traced


max_pool1d = _maximum(1, F.max_pool1d, torch.max_pool1d)
max_pool2d = _maximum(2, F.max_pool2d, torch.max_pool2d)
max_pool3d = _maximum(3, F.max_pool3d, torch.max_pool3d)


def _average(spatial, *functions):
    what = f"avg_pool{spatial}d"
    call = getattr(lib, f"samba_{what}")

    @rule(*functions)
    def traced(t, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        kernel, options = _options(what, spatial, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor_override)
        return t.wrap(call(t.value(input), kernel, options))

    return traced


_average(1, F.avg_pool1d, torch.avg_pool1d)
_average(2, F.avg_pool2d)
_average(3, F.avg_pool3d)


def _output_size(what, spatial, output_size):
    """-1 for None, the input's own size, which C takes so."""
    sizes = [output_size] * spatial if output_size is None or isinstance(output_size, int) else list(output_size)
    if len(sizes) != spatial or any(size is not None and size < 0 for size in sizes):
        raise ValueError(f"{what}: expected one size of 0 or more, or {spatial}, or None for the input's, given {output_size}")
    sizes = [-1 if size is None else size for size in sizes]
    return sizes[0] if spatial == 1 else sizes


def _adaptive_average(spatial, *functions):
    what = f"adaptive_avg_pool{spatial}d"
    call = getattr(lib, f"samba_{what}")

    @rule(*functions)
    def traced(t, input, output_size):
        return t.wrap(call(t.value(input), _output_size(what, spatial, output_size)))


_adaptive_average(1, F.adaptive_avg_pool1d, torch.adaptive_avg_pool1d)
_adaptive_average(2, F.adaptive_avg_pool2d)
_adaptive_average(3, F.adaptive_avg_pool3d)


def _adaptive_maximum(spatial, *functions):
    what = f"adaptive_max_pool{spatial}d"
    greatest, places = getattr(lib, f"samba_{what}"), getattr(lib, f"samba_{what}_indices")

    @rule(*functions)
    def traced(t, input, output_size, return_indices=False):
        size = _output_size(what, spatial, output_size)
        result = t.wrap(greatest(t.value(input), size))
        return (result, t.wrap(places(t.value(input), size))) if return_indices else result

    @rule(getattr(F, f"{what}_with_indices"), *([torch.adaptive_max_pool1d] if spatial == 1 else []))
    def with_indices(t, input, output_size, return_indices=False):
        return traced(t, input, output_size, True)


_adaptive_maximum(1, F.adaptive_max_pool1d)
_adaptive_maximum(2, F.adaptive_max_pool2d)
_adaptive_maximum(3, F.adaptive_max_pool3d)


def _power_average(spatial, function):
    what = f"lp_pool{spatial}d"
    call = getattr(lib, f"samba_{what}")

    @rule(function)
    def traced(t, input, norm_type, kernel_size, stride=None, ceil_mode=False):
        given = {"kernel_size": kernel_size} if stride in (None, [], ()) else {"kernel_size": kernel_size, "stride": stride}
        lists = numbers(what, spatial, **given)
        kernel, step = lists["kernel_size"], lists.get("stride", [0] * spatial)
        return t.wrap(call(t.value(input), norm_type, *((kernel[0], step[0]) if spatial == 1 else (kernel, step)), ceil_mode))


_power_average(1, F.lp_pool1d)
_power_average(2, F.lp_pool2d)
_power_average(3, F.lp_pool3d)


# ---- back to where the greatest elements lay ----


def _unpooling(spatial, *functions):
    def each(x):
        return [x] * spatial if isinstance(x, int) else list(x)

    @rule(*functions)
    def traced(t, input, indices, kernel_size, stride=None, padding=0, output_size=None):
        kernel = each(kernel_size)
        strides = kernel if stride is None else each(stride)
        sizes = F._unpool_output_size(input, kernel, strides, each(padding), output_size)
        return t.wrap(lib.samba_max_unpool(t.value(input), t.value(indices), spatial, list(sizes)))


for _spatial in (1, 2, 3):
    _unpooling(_spatial, getattr(F, f"max_unpool{_spatial}d"))
