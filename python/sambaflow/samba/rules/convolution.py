# SPDX-License-Identifier: Apache-2.0
"""Convolutions, plain and transposed, over one, two and three dims of space, and the windows they see."""

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import each, optional
from sambaflow.samba.trace import rule


def numbers(what, spatial, **given):
    """A number for each dim of space, as C's options take them: there 0 means the default, so a size of 0 is refused here."""
    lists = {}
    for name, value in given.items():
        lists[name] = each(value, spatial)
        if len(lists[name]) != spatial:
            raise ValueError(f"{what}: expected one number or {spatial} for {name}, given {value}")
        if "padding" not in name and 0 in lists[name]:
            raise ValueError(f"{what}: {name} must be 1 or more, given {value}")
    return lists


def _options(kind, spatial, lists, groups):
    options = ffi.new(f"samba_{kind}_options *")
    for name, values in lists.items():
        setattr(options, name, values[0] if spatial == 1 else values)
    if groups == 0:
        raise ValueError(f"{kind}: groups must be 1 or more, given 0")
    options.groups = groups
    return options


def _convolution(spatial, *functions):
    kind = f"conv{spatial}d"
    call = getattr(lib, f"samba_functional_{kind}")

    @rule(*functions)
    def traced(t, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"{kind}: padding must be numbers, 'same' or 'valid', given {padding!r}")
        same, padding = padding == "same", 0 if isinstance(padding, str) else padding
        options = _options(kind, spatial, numbers(kind, spatial, stride=stride, padding=padding, dilation=dilation), groups)
        options.same = same
        return t.wrap(call(t.value(input), t.value(weight), optional(t, bias), options))

    return traced


def _transposed(spatial, *functions):
    kind = f"conv_transpose{spatial}d"
    call = getattr(lib, f"samba_functional_{kind}")

    @rule(*functions)
    def traced(t, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        lists = numbers(kind, spatial, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation)
        return t.wrap(call(t.value(input), t.value(weight), optional(t, bias), _options(kind, spatial, lists, groups)))

    return traced


conv1d = _convolution(1, torch.conv1d, F.conv1d)
conv2d = _convolution(2, torch.conv2d, F.conv2d)
conv3d = _convolution(3, torch.conv3d, F.conv3d)
_transposed(1, torch.conv_transpose1d, F.conv_transpose1d)
_transposed(2, torch.conv_transpose2d, F.conv_transpose2d)
_transposed(3, torch.conv_transpose3d, F.conv_transpose3d)


def _windows(what, dilation, padding, stride):
    options = ffi.new("samba_unfold_options *")
    for name, values in numbers(what, 2, dilation=dilation, padding=padding, stride=stride).items():
        setattr(options, name, values)
    return options


@rule(F.unfold)
def unfold(t, input, kernel_size, dilation=1, padding=0, stride=1):
    return t.wrap(lib.samba_unfold(t.value(input), each(kernel_size, 2), _windows("unfold", dilation, padding, stride)))


@rule(F.fold)
def fold(t, input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    options = _windows("fold", dilation, padding, stride)
    return t.wrap(lib.samba_fold(t.value(input), each(output_size, 2), each(kernel_size, 2), options))
