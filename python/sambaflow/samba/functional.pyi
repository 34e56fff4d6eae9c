# SPDX-License-Identifier: Apache-2.0
# torch's functions with torch's arguments; what they return is a SambaTensor, which is a torch.Tensor.
from collections.abc import Sequence

import torch
from torch import (
    add as add, sub as sub, mul as mul, div as div, floor_divide as floor_divide, remainder as remainder, pow as pow, neg as neg,
    abs as abs, sign as sign, exp as exp, expm1 as expm1, log as log, log1p as log1p, log2 as log2, sqrt as sqrt, rsqrt as rsqrt,
    reciprocal as reciprocal, sin as sin, cos as cos, tanh as tanh, sigmoid as sigmoid, erf as erf, clamp as clamp, minimum as minimum,
    maximum as maximum, floor as floor, ceil as ceil, round as round, trunc as trunc, where as where, masked_fill as masked_fill,
    eq as eq, ne as ne, lt as lt, le as le, gt as gt, ge as ge, logical_and as logical_and, logical_or as logical_or,
    logical_not as logical_not, logical_xor as logical_xor, isnan as isnan, isinf as isinf, bitwise_and as bitwise_and,
    bitwise_or as bitwise_or, bitwise_not as bitwise_not, bitwise_xor as bitwise_xor, sum as sum, mean as mean, var as var, std as std,
    prod as prod, max as max, min as min, amax as amax, amin as amin, argmax as argmax, argmin as argmin, any as any, all as all,
    norm as norm, logsumexp as logsumexp, cumsum as cumsum, reshape as reshape, permute as permute, transpose as transpose, t as t,
    tile as tile, cat as cat, stack as stack, split as split, chunk as chunk, unbind as unbind, narrow as narrow, flip as flip,
    roll as roll, squeeze as squeeze, unsqueeze as unsqueeze, flatten as flatten, tril as tril, triu as triu, gather as gather,
    scatter as scatter, scatter_add as scatter_add, index_select as index_select, index_add as index_add, topk as topk, sort as sort,
    argsort as argsort, select as select, matmul as matmul, mm as mm, bmm as bmm, baddbmm as baddbmm, einsum as einsum,
    outer as outer, dot as dot, zeros_like as zeros_like, ones_like as ones_like, full_like as full_like, empty_like as empty_like,
    randn_like as randn_like, rand_like as rand_like, square as square,
)
from torch.nn.functional import (
    relu as relu, relu6 as relu6, leaky_relu as leaky_relu, elu as elu, gelu as gelu, silu as silu, mish as mish, softplus as softplus,
    hardswish as hardswish, hardsigmoid as hardsigmoid, pad as pad, embedding as embedding, one_hot as one_hot, linear as linear,
    bilinear as bilinear, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d,
    conv_transpose1d as conv_transpose1d, conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d, unfold as unfold, fold as fold,
    max_pool1d as max_pool1d, max_pool2d as max_pool2d, max_pool3d as max_pool3d, avg_pool1d as avg_pool1d, avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d, lp_pool1d as lp_pool1d, lp_pool2d as lp_pool2d, lp_pool3d as lp_pool3d,
    adaptive_avg_pool1d as adaptive_avg_pool1d, adaptive_avg_pool2d as adaptive_avg_pool2d, adaptive_avg_pool3d as adaptive_avg_pool3d,
    adaptive_max_pool1d as adaptive_max_pool1d, adaptive_max_pool2d as adaptive_max_pool2d, adaptive_max_pool3d as adaptive_max_pool3d, layer_norm as layer_norm, batch_norm as batch_norm, group_norm as group_norm,
    instance_norm as instance_norm, rms_norm as rms_norm, softmax as softmax, log_softmax as log_softmax, dropout as dropout,
    cross_entropy as cross_entropy, nll_loss as nll_loss, mse_loss as mse_loss, l1_loss as l1_loss, smooth_l1_loss as smooth_l1_loss,
    huber_loss as huber_loss, binary_cross_entropy as binary_cross_entropy,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits, kl_div as kl_div, cosine_similarity as cosine_similarity,
    scaled_dot_product_attention as scaled_dot_product_attention, multi_head_attention_forward as multi_head_attention_forward,
    interpolate as interpolate, pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle, channel_shuffle as channel_shuffle,
)

def addmm(
    input: torch.Tensor,
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: torch.Tensor | None = None,
    is_transposed: bool = False,
) -> torch.Tensor: ...
def view(input: torch.Tensor, *shape: int | Sequence[int] | torch.dtype) -> torch.Tensor: ...
def expand(input: torch.Tensor, *sizes: int | Sequence[int]) -> torch.Tensor: ...
def repeat(input: torch.Tensor, *sizes: int | Sequence[int]) -> torch.Tensor: ...

NAMES: list[str]
