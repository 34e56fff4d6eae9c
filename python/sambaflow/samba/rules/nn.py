# SPDX-License-Identifier: Apache-2.0
"""Products, layers and losses."""
import math

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import binary, cast, floating, in_place, optional, pair, rank, unsupported, wrapped_dim
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor

# ---- products ----


binary(lib.samba_matmul, torch.matmul, T.matmul, T.__matmul__, torch.mm, T.mm, torch.bmm, T.bmm, aten.mm, aten.bmm, aten.matmul)


@rule(torch.addmm, T.addmm, torch.baddbmm, T.baddbmm, aten.addmm, aten.baddbmm)
def addmm(t, input, mat1, mat2, *, beta=1, alpha=1):
    product, added = lib.samba_matmul(t.value(mat1), t.value(mat2)), t.value(input)
    product = product if alpha == 1 else lib.samba_mul(product, t.number(alpha, mat1))
    added = added if beta == 1 else lib.samba_mul(added, t.number(beta, input))
    return t.wrap(lib.samba_add(product, added))


@rule(F.linear, aten.linear)
def linear(t, input, weight, bias=None):
    return t.wrap(lib.samba_functional_linear(t.value(input), t.value(weight), optional(t, bias)))


@rule(torch.conv2d, F.conv2d)
def conv2d(t, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if isinstance(padding, str):
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(pair(dilation), weight.shape[2:])]
            if any(p % 2 for p in total):
                unsupported(t, f"padding='same' with a kernel {tuple(weight.shape[2:])} needs unequal borders: pad the input first")
            padding = [p // 2 for p in total]
        else:
            padding = 0
    options = ffi.new("samba_conv2d_options *")
    options.stride, options.padding, options.dilation, options.groups = pair(stride), pair(padding), pair(dilation), groups
    return t.wrap(lib.samba_functional_conv2d(t.value(input), t.value(weight), optional(t, bias), options))


# ---- layers ----


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


@rule(F.embedding)
def embedding(t, input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None or scale_grad_by_freq:
        unsupported(t, "embedding with max_norm or scale_grad_by_freq cannot be traced: normalise the weight between runs")
    return t.wrap(lib.samba_functional_embedding(t.value(input), t.value(weight)))


@rule(torch.embedding, aten.embedding)
def embedding_of(t, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return embedding(t, indices, weight, scale_grad_by_freq=scale_grad_by_freq)


@rule(F.dropout, torch.dropout)
def dropout(t, input, p=0.5, training=True, inplace=False):
    if not training or p == 0:
        return input
    name = t.stack[-1] if t.stack and t.stack[-1] else f"dropout{t.dropouts}"
    t.dropouts += 1
    return in_place(t, input, t.wrap(lib.samba_dropout(t.value(input), name.encode(), p)), inplace)


@rule(F.softmax, torch.softmax, T.softmax)
def softmax(t, input, dim=None, _stacklevel=3, dtype=None):
    return t.wrap(lib.samba_softmax(t.value(cast(t, input, dtype)), _softmax_dim(t, input, dim)))


@rule(F.log_softmax, torch.log_softmax, T.log_softmax)
def log_softmax(t, input, dim=None, _stacklevel=3, dtype=None):
    return t.wrap(lib.samba_log_softmax(t.value(cast(t, input, dtype)), _softmax_dim(t, input, dim)))


def _softmax_dim(t, input, dim):
    if dim is None:
        unsupported(t, "softmax without a dim: say which")
    return wrapped_dim(dim, rank(input))


@rule(F.scaled_dot_product_attention)
def attention(t, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    options = ffi.new("samba_attention_options *")
    kept = None
    if attn_mask is not None:
        options.mask = t.value(attn_mask)
    options.is_causal, options.enable_gqa, options.scale = is_causal, enable_gqa, scale or 0.0
    if dropout_p > 0:
        name = t.stack[-1] if t.stack and t.stack[-1] else f"dropout{t.dropouts}"
        t.dropouts += 1
        kept = ffi.new("char[]", name.encode())
        options.dropout, options.dropout_p = kept, dropout_p
    return t.wrap(lib.samba_scaled_dot_product_attention(t.value(query), t.value(key), t.value(value), options))


def _pool(t, call, input, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad=True):
    options = ffi.new("samba_pool2d_options *")
    options.stride = pair(stride) if stride not in (None, [], ()) else [0, 0]
    options.padding, options.dilation = pair(padding), pair(dilation)
    options.ceil_mode, options.no_count_include_pad = ceil_mode, not count_include_pad
    return t.wrap(call(t.value(input), pair(kernel_size), options))


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


@rule(F.adaptive_avg_pool2d)
def adaptive_avg_pool2d(t, input, output_size):
    size = [s if s is not None else input.shape[i - 2] for i, s in enumerate(pair(output_size))]
    if size == [1, 1]:
        return t.wrap(lib.samba_mean(t.value(input), 2, [-2, -1], True))
    if any(whole % part for whole, part in zip(input.shape[-2:], size)):
        unsupported(t, f"adaptive_avg_pool2d from {tuple(input.shape[-2:])} to {tuple(size)}: sizes must divide")
    kernel = [whole // part for whole, part in zip(input.shape[-2:], size)]
    return _pool(t, lib.samba_avg_pool2d, input, kernel, None, 0, 1, False)


@rule(F.batch_norm)
def batch_norm(t, input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
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


# ---- losses ----

_REDUCTIONS = {"mean": lib.SAMBA_MEAN, "sum": lib.SAMBA_SUM, "none": lib.SAMBA_NO_REDUCTION}


@rule(F.cross_entropy)
def cross_entropy(t, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    if weight is not None or floating(target):
        unsupported(t, "cross_entropy with class weights or probabilities as target cannot be traced yet: give class indices")
    options = ffi.new("samba_cross_entropy_options *", [ignore_index, label_smoothing, _REDUCTIONS[reduction]])
    return t.wrap(lib.samba_cross_entropy_with(t.value(input), t.value(target), options))


def _reduced(t, value, reduction):
    if reduction == "none":
        return t.wrap(value)
    return t.wrap((lib.samba_mean if reduction == "mean" else lib.samba_sum)(value, 0, [], False))


@rule(F.mse_loss)
def mse_loss(t, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    difference = lib.samba_sub(t.value(input), t.value(target))
    return _reduced(t, lib.samba_mul(difference, difference), reduction)


@rule(F.l1_loss)
def l1_loss(t, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    return _reduced(t, lib.samba_abs(lib.samba_sub(t.value(input), t.value(target))), reduction)
