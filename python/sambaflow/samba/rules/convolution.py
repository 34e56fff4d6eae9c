# SPDX-License-Identifier: Apache-2.0
"""Convolutions, plain and transposed, over one, two and three dims of space. The library has two: one dim is two with a height of 1, three
are sums of two, one for each place along the kernel's depth."""
import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import each, optional, rank, unsupported
from sambaflow.samba.trace import rule


def _padding(t, padding, weight, stride, dilation, spatial):
    """Numbers, and what 'same' pads more behind than before."""
    if not isinstance(padding, str):
        return each(padding, spatial), [0] * spatial
    if padding == "valid":
        return [0] * spatial, [0] * spatial
    if any(s != 1 for s in each(stride, spatial)):
        raise TypeError("padding='same' needs stride 1")
    total = [d * (k - 1) for d, k in zip(each(dilation, spatial), weight.shape[2:])]
    return [p // 2 for p in total], [p % 2 for p in total]


def _conv2d(t, input, weight, bias, stride, padding, dilation, groups):
    options = ffi.new("samba_conv2d_options *")
    options.stride, options.padding, options.dilation, options.groups = stride, padding, dilation, groups
    return t.wrap(lib.samba_functional_conv2d(t.value(input), t.value(weight), optional(t, bias), options))


def _convolution(spatial, *functions):
    @rule(*functions)
    def traced(t, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        padding, more = _padding(t, padding, weight, stride, dilation, spatial)
        if any(more):
            input = F.pad(input, [n for m in reversed(more) for n in (0, m)])
        stride, dilation = each(stride, spatial), each(dilation, spatial)
        if spatial == 1:
            flat = _conv2d(t, input.unsqueeze(-2), weight.unsqueeze(-2), bias, [1, *stride], [0, *padding], [1, *dilation], groups)
            return flat.squeeze(-2)
        if spatial == 2:
            return _conv2d(t, input, weight, bias, stride, padding, dilation, groups)
        return _conv3d(t, input, weight, bias, stride, padding, dilation, groups)

    return traced


def _conv3d(t, input, weight, bias, stride, padding, dilation, groups):
    if rank(input) == 4:
        return _conv3d(t, input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    input = F.pad(input, [0, 0, 0, 0, padding[0], padding[0]])
    depth = (input.shape[2] - dilation[0] * (weight.shape[2] - 1) - 1) // stride[0] + 1
    total = None
    for k in range(weight.shape[2]):
        begin = k * dilation[0]
        planes = input[:, :, begin : begin + (depth - 1) * stride[0] + 1 : stride[0]].transpose(1, 2)
        part = _conv2d(t, planes.reshape(-1, *planes.shape[2:]), weight[:, :, k], None, stride[1:], padding[1:], dilation[1:], groups)
        total = part if total is None else total + part
    result = total.reshape(input.shape[0], depth, *total.shape[1:]).transpose(1, 2)
    return result if bias is None else result + bias.reshape(-1, 1, 1, 1)


conv1d = _convolution(1, torch.conv1d, F.conv1d)
conv2d = _convolution(2, torch.conv2d, F.conv2d)
conv3d = _convolution(3, torch.conv3d, F.conv3d)


def _transposed(spatial, *functions):
    @rule(*functions)
    def traced(t, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        stride, padding, more, dilation = (each(x, spatial) for x in (stride, padding, output_padding, dilation))
        options = ffi.new("samba_conv_transpose2d_options *")
        options.groups = groups
        if spatial == 1:
            input, weight = input.unsqueeze(-2), weight.unsqueeze(-2)
            stride, padding, more, dilation = [1, *stride], [0, *padding], [0, *more], [1, *dilation]
        options.stride, options.padding, options.output_padding, options.dilation = stride, padding, more, dilation
        result = t.wrap(lib.samba_functional_conv_transpose2d(t.value(input), t.value(weight), optional(t, bias), options))
        return result.squeeze(-2) if spatial == 1 else result


_transposed(1, torch.conv_transpose1d, F.conv_transpose1d)
_transposed(2, torch.conv_transpose2d, F.conv_transpose2d)


@rule(torch.conv_transpose3d, F.conv_transpose3d)
def conv_transpose3d(t, *_, **__):
    unsupported(t, "conv_transpose3d cannot be traced yet: repeat the planes and use conv3d")


@rule(F.unfold)
def unfold(t, input, kernel_size, dilation=1, padding=0, stride=1):
    """A convolution whose kernels each pick one place of the window."""
    if rank(input) == 3:
        return unfold(t, input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    height, width = each(kernel_size, 2)
    batch, channels, places = *input.shape[:2], height * width
    picks = torch.eye(places, dtype=input.dtype).reshape(places, 1, height, width)
    planes = input.reshape(batch * channels, 1, *input.shape[2:])
    return conv2d(t, planes, picks, None, stride, padding, dilation).reshape(batch, channels * places, -1)
