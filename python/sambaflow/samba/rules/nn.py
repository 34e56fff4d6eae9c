# SPDX-License-Identifier: Apache-2.0
"""Layers, attention."""
import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import binary, cast, in_place, optional, rank, unsupported, wrapped_dim
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor

# ---- layers ----


@rule(F.embedding)
def embedding(t, input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None or scale_grad_by_freq:
        unsupported(t, "embedding with max_norm or scale_grad_by_freq cannot be traced: normalise the weight between runs")
    result = t.wrap(lib.samba_functional_embedding(t.value(input), t.value(weight)))
    if padding_idx is None:
        return result
    padding = padding_idx % weight.shape[0]  # that row is not trained
    return torch.where((input == padding).unsqueeze(-1), result.detach(), result)


@rule(F.embedding_bag)
def embedding_bag(t, input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):  # fmt: skip
    if offsets is not None or rank(input) != 2:
        unsupported(t, "embedding_bag with offsets, whose bags differ in length: give bags of one length as a matrix, with padding_idx")
    rows = embedding(t, input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if padding_idx is None:
        return rows.mean(1) if mode == "mean" else rows.sum(1) if mode == "sum" else rows.max(1).values
    counts = (input != padding_idx % weight.shape[0]).unsqueeze(-1)
    if mode == "max":
        most = torch.where(counts, rows, -torch.inf).max(1).values
        return torch.where(counts.any(1), most, 0.0)
    total = torch.where(counts, rows, 0.0).sum(1)
    return total / counts.sum(1).clamp(min=1) if mode == "mean" else total


@rule(torch.embedding, aten.embedding)
def embedding_of(t, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return embedding(t, indices, weight, scale_grad_by_freq=scale_grad_by_freq)


def _dropout(call, *functions):
    @rule(*functions)
    def traced(t, input, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return input
        return in_place(t, input, t.wrap(call(t.value(input), t.dropout_name().encode(), p)), inplace)


_dropout(lib.samba_dropout, F.dropout, torch.dropout)
_dropout(lib.samba_dropout1d, F.dropout1d)
_dropout(lib.samba_dropout2d, F.dropout2d)
_dropout(lib.samba_dropout3d, F.dropout3d)
_dropout(lib.samba_alpha_dropout, F.alpha_dropout, torch.alpha_dropout)
_dropout(lib.samba_feature_alpha_dropout, F.feature_alpha_dropout, torch.feature_alpha_dropout)


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
    heads = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2]) if not enable_gqa else None
    if heads is not None and any(x.shape[:-2] != heads for x in (query, key, value)):  # torch broadcasts what stands before the positions
        query, key, value = (x.expand(*heads, *x.shape[-2:]) for x in (query, key, value))
    options = ffi.new("samba_attention_options *")
    kept = None
    if attn_mask is not None:
        options.mask = t.value(attn_mask)
    options.is_causal, options.enable_gqa, options.scale = is_causal, enable_gqa, scale or 0.0
    if dropout_p > 0:
        kept = ffi.new("char[]", t.dropout_name().encode())
        options.dropout, options.dropout_p = kept, dropout_p
    return t.wrap(lib.samba_scaled_dot_product_attention(t.value(query), t.value(key), t.value(value), options))
