# SPDX-License-Identifier: Apache-2.0
"""Layers, attention."""

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import cast, in_place, unsupported
from sambaflow.samba.rules.indexing import embedding
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor

# ---- layers ----


@rule(torch.embedding, aten.embedding)
def embedding_of(t, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return embedding(t, indices, weight, None if padding_idx < 0 else padding_idx, scale_grad_by_freq=scale_grad_by_freq)


def _dropout(call, *functions):
    @rule(*functions)
    def traced(t, input, p=0.5, training=True, inplace=False):
        if not training or p == 0 or not t.drops():
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
    return t.wrap(lib.samba_softmax(t.value(cast(t, input, dtype)), softmax_dim(t, dim)))


@rule(F.log_softmax, torch.log_softmax, T.log_softmax)
def log_softmax(t, input, dim=None, _stacklevel=3, dtype=None):
    return t.wrap(lib.samba_log_softmax(t.value(cast(t, input, dtype)), softmax_dim(t, dim)))


def softmax_dim(t, dim):
    if dim is None:
        unsupported(t, "softmax without a dim: say which")
    return dim


def heads_of(query, key, value):
    """What stands before the positions, broadcast."""
    before = [tuple(x.shape[:-2]) for x in (query, key, value)]
    try:
        return torch.broadcast_shapes(*before)
    except RuntimeError as error:
        raise ValueError(
            f"batch and heads of query, key and value must broadcast, given {before[0]}, {before[1]} and {before[2]}: "
            "enable_gqa=True shares heads"
        ) from error


@rule(F.scaled_dot_product_attention)
def attention(t, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    heads = None if enable_gqa else heads_of(query, key, value)
    if heads is not None and any(
        x.shape[:-2] != heads for x in (query, key, value)
    ):  # torch broadcasts what stands before the positions
        query, key, value = (x.expand(*heads, *x.shape[-2:]) for x in (query, key, value))
    if scale == 0:  # which C takes for the default
        query, scale = query * 0, None
    options = ffi.new("samba_attention_options *")
    kept = None
    if attn_mask is not None:
        options.mask = t.value(attn_mask)
    options.is_causal, options.enable_gqa, options.scale = is_causal, enable_gqa, scale or 0.0
    if dropout_p > 0 and t.drops():
        kept = ffi.new("char[]", t.dropout_name().encode())
        options.dropout, options.dropout_p = kept, dropout_p
    return t.wrap(lib.samba_scaled_dot_product_attention(t.value(query), t.value(key), t.value(value), options))


_WEIGHTS = (
    "in_proj_weight q_proj_weight k_proj_weight v_proj_weight in_proj_bias bias_k bias_v out_proj_weight out_proj_bias".split()
)


@rule(F.multi_head_attention_forward)
def multi_head_attention(
    t,
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    if static_k is not None or static_v is not None or query.shape[-1] != embed_dim_to_check or (is_causal and attn_mask is None):
        return NotImplemented  # rare, or refused by torch: its own Python code
    if use_separate_proj_weight:
        in_proj_weight = None
    else:
        q_proj_weight = k_proj_weight = v_proj_weight = None
    here = locals()
    weights = ffi.new("samba_multi_head_weights *", {name: t.value(here[name]) for name in _WEIGHTS if here[name] is not None})
    options = ffi.new(
        "samba_multi_head_options *", {"add_zero_attn": add_zero_attn, "weights_of_heads": not average_attn_weights}
    )
    options.is_causal = is_causal and key_padding_mask is None and not need_weights  # a hint that attn_mask is the causal one
    if attn_mask is not None and not options.is_causal:
        options.attn_mask = t.value(attn_mask)
    if key_padding_mask is not None:
        options.key_padding_mask = t.value(key_padding_mask)
    if training and dropout_p > 0 and t.drops():
        name = ffi.new("char[]", t.dropout_name().encode())
        options.dropout, options.dropout_p = name, dropout_p
    told = ffi.new("samba_value *")
    if need_weights:
        options.weights = told
    result = t.wrap(
        lib.samba_functional_multi_head_attention(t.value(query), t.value(key), t.value(value), num_heads, weights, options)
    )
    return result, t.wrap(told[0]) if need_weights else None
