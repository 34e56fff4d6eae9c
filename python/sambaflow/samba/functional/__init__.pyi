# SPDX-License-Identifier: Apache-2.0
# torch's functions with torch's arguments; what they return is a SambaTensor, which is a torch.Tensor.
from collections.abc import Sequence

import torch
from torch import abs as abs
from torch import add as add
from torch import all as all
from torch import amax as amax
from torch import amin as amin
from torch import any as any
from torch import argmax as argmax
from torch import argmin as argmin
from torch import argsort as argsort
from torch import baddbmm as baddbmm
from torch import bitwise_and as bitwise_and
from torch import bitwise_not as bitwise_not
from torch import bitwise_or as bitwise_or
from torch import bitwise_xor as bitwise_xor
from torch import bmm as bmm
from torch import cat as cat
from torch import ceil as ceil
from torch import chunk as chunk
from torch import clamp as clamp
from torch import cos as cos
from torch import cumsum as cumsum
from torch import div as div
from torch import dot as dot
from torch import einsum as einsum
from torch import empty_like as empty_like
from torch import eq as eq
from torch import erf as erf
from torch import exp as exp
from torch import expm1 as expm1
from torch import flatten as flatten
from torch import flip as flip
from torch import floor as floor
from torch import floor_divide as floor_divide
from torch import full_like as full_like
from torch import gather as gather
from torch import ge as ge
from torch import gt as gt
from torch import index_add as index_add
from torch import index_select as index_select
from torch import isinf as isinf
from torch import isnan as isnan
from torch import le as le
from torch import log as log
from torch import log1p as log1p
from torch import log2 as log2
from torch import logical_and as logical_and
from torch import logical_not as logical_not
from torch import logical_or as logical_or
from torch import logical_xor as logical_xor
from torch import logsumexp as logsumexp
from torch import lt as lt
from torch import masked_fill as masked_fill
from torch import matmul as matmul
from torch import max as max
from torch import maximum as maximum
from torch import mean as mean
from torch import min as min
from torch import minimum as minimum
from torch import mm as mm
from torch import mul as mul
from torch import narrow as narrow
from torch import ne as ne
from torch import neg as neg
from torch import norm as norm
from torch import ones_like as ones_like
from torch import outer as outer
from torch import permute as permute
from torch import pow as pow
from torch import prod as prod
from torch import rand_like as rand_like
from torch import randn_like as randn_like
from torch import reciprocal as reciprocal
from torch import remainder as remainder
from torch import reshape as reshape
from torch import roll as roll
from torch import round as round
from torch import rsqrt as rsqrt
from torch import scatter as scatter
from torch import scatter_add as scatter_add
from torch import select as select
from torch import sigmoid as sigmoid
from torch import sign as sign
from torch import sin as sin
from torch import sort as sort
from torch import split as split
from torch import sqrt as sqrt
from torch import square as square
from torch import squeeze as squeeze
from torch import stack as stack
from torch import std as std
from torch import sub as sub
from torch import sum as sum
from torch import t as t
from torch import tanh as tanh
from torch import tile as tile
from torch import topk as topk
from torch import transpose as transpose
from torch import tril as tril
from torch import triu as triu
from torch import trunc as trunc
from torch import unbind as unbind
from torch import unsqueeze as unsqueeze
from torch import var as var
from torch import where as where
from torch import zeros_like as zeros_like
from torch.nn.functional import adaptive_avg_pool1d as adaptive_avg_pool1d
from torch.nn.functional import adaptive_avg_pool2d as adaptive_avg_pool2d
from torch.nn.functional import adaptive_avg_pool3d as adaptive_avg_pool3d
from torch.nn.functional import adaptive_max_pool1d as adaptive_max_pool1d
from torch.nn.functional import adaptive_max_pool2d as adaptive_max_pool2d
from torch.nn.functional import adaptive_max_pool3d as adaptive_max_pool3d
from torch.nn.functional import avg_pool1d as avg_pool1d
from torch.nn.functional import avg_pool2d as avg_pool2d
from torch.nn.functional import avg_pool3d as avg_pool3d
from torch.nn.functional import batch_norm as batch_norm
from torch.nn.functional import bilinear as bilinear
from torch.nn.functional import binary_cross_entropy as binary_cross_entropy
from torch.nn.functional import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from torch.nn.functional import channel_shuffle as channel_shuffle
from torch.nn.functional import conv1d as conv1d
from torch.nn.functional import conv2d as conv2d
from torch.nn.functional import conv3d as conv3d
from torch.nn.functional import conv_transpose1d as conv_transpose1d
from torch.nn.functional import conv_transpose2d as conv_transpose2d
from torch.nn.functional import conv_transpose3d as conv_transpose3d
from torch.nn.functional import cosine_similarity as cosine_similarity
from torch.nn.functional import cross_entropy as cross_entropy
from torch.nn.functional import dropout as dropout
from torch.nn.functional import elu as elu
from torch.nn.functional import embedding as embedding
from torch.nn.functional import fold as fold
from torch.nn.functional import gelu as gelu
from torch.nn.functional import group_norm as group_norm
from torch.nn.functional import hardsigmoid as hardsigmoid
from torch.nn.functional import hardswish as hardswish
from torch.nn.functional import huber_loss as huber_loss
from torch.nn.functional import instance_norm as instance_norm
from torch.nn.functional import interpolate as interpolate
from torch.nn.functional import kl_div as kl_div
from torch.nn.functional import l1_loss as l1_loss
from torch.nn.functional import layer_norm as layer_norm
from torch.nn.functional import leaky_relu as leaky_relu
from torch.nn.functional import linear as linear
from torch.nn.functional import log_softmax as log_softmax
from torch.nn.functional import lp_pool1d as lp_pool1d
from torch.nn.functional import lp_pool2d as lp_pool2d
from torch.nn.functional import lp_pool3d as lp_pool3d
from torch.nn.functional import max_pool1d as max_pool1d
from torch.nn.functional import max_pool2d as max_pool2d
from torch.nn.functional import max_pool3d as max_pool3d
from torch.nn.functional import mish as mish
from torch.nn.functional import mse_loss as mse_loss
from torch.nn.functional import multi_head_attention_forward as multi_head_attention_forward
from torch.nn.functional import nll_loss as nll_loss
from torch.nn.functional import one_hot as one_hot
from torch.nn.functional import pad as pad
from torch.nn.functional import pixel_shuffle as pixel_shuffle
from torch.nn.functional import pixel_unshuffle as pixel_unshuffle
from torch.nn.functional import relu as relu
from torch.nn.functional import relu6 as relu6
from torch.nn.functional import rms_norm as rms_norm
from torch.nn.functional import scaled_dot_product_attention as scaled_dot_product_attention
from torch.nn.functional import silu as silu
from torch.nn.functional import smooth_l1_loss as smooth_l1_loss
from torch.nn.functional import softmax as softmax
from torch.nn.functional import softplus as softplus
from torch.nn.functional import unfold as unfold

from sambaflow.samba.functional import stir as stir
from sambaflow.samba.functional.groups import groupby as groupby
from sambaflow.samba.functional.groups import sn_multinomial as sn_multinomial
from sambaflow.samba.functional.groups import triu_fill as triu_fill
from sambaflow.samba.functional.windows import sn_gather as sn_gather
from sambaflow.samba.functional.windows import sn_scatter as sn_scatter
from sambaflow.samba.sambatensor import SambaTensor as SambaTensor

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
