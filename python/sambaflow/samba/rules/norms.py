# SPDX-License-Identifier: Apache-2.0
"""Normalizations."""

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import cast, dims_of, floating, optional, unsupported
from sambaflow.samba.trace import rule

T = torch.Tensor


@rule(F.layer_norm, torch.layer_norm)
def layer_norm(t, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = list(normalized_shape)
    return t.wrap(lib.samba_functional_layer_norm(t.value(input), len(shape), shape, optional(t, weight), optional(t, bias), eps))


@rule(F.rms_norm, torch.rms_norm)
def rms_norm(t, input, normalized_shape, weight=None, eps=None):
    shape = list(normalized_shape)
    return t.wrap(
        lib.samba_functional_rms_norm(t.value(input), len(shape), shape, optional(t, weight), -1.0 if eps is None else eps)
    )


@rule(F.group_norm, torch.group_norm)
def group_norm(t, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return t.wrap(lib.samba_functional_group_norm(t.value(input), num_groups, optional(t, weight), optional(t, bias), eps))


def _by_channels(t, call, several, input, running_mean, running_var, weight, bias, training, momentum, eps):
    """A module that trains while it is traced has a graph that each run tells whether it trains: its running statistics then
    become what torch writes, or normalize and stay. `several`:
    values behind each of the statistics, without which nothing can be trained."""
    options = ffi.new("samba_batch_norm_options *")
    if training and t.chooses and running_mean is not None and running_var is not None:
        training = t.drops()
    options.training, options.eps = training, eps
    if training and t.chooses and running_mean is not None and running_var is not None and (several or not t.may_train):
        options.trains = lib.samba_training(t.graph)
    if isinstance(momentum, torch.Tensor):  # of a cumulative average, which counts its batches
        options.average_factor = t.value(momentum)
    else:
        options.momentum = momentum
    running = [x for x in (running_mean, running_var) if x is not None and training]
    moved = [ffi.new("samba_value *") for _ in running]  # each keeps what its [0] is
    if len(moved) == 2:
        options.next_mean, options.next_var = moved
    result = t.wrap(call(t.value(input), *(optional(t, x) for x in (running_mean, running_var, weight, bias)), options))
    for buffer, value in zip(running, moved):
        t.assign(buffer, value[0])
    return result


@rule(F.batch_norm)
def batch_norm(t, input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if t.legacy_names:
        unsupported(t, "batch_norm cannot be traced under legacy names: call samba.session.use_legacy_names(False)")
    synchronized = t.synchronized  # of SyncBatchNorm: other replicas have values too
    several = synchronized or input.dim() < 2 or input.numel() != input.shape[1]
    call = lib.samba_functional_sync_batch_norm if synchronized else lib.samba_functional_batch_norm
    return _by_channels(t, call, several, input, running_mean, running_var, weight, bias, training, momentum, eps)


@rule(F.instance_norm)
def instance_norm(
    t, input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    several = input.dim() < 3 or input.shape[2:].numel() != 1
    return _by_channels(
        t,
        lib.samba_functional_instance_norm,
        several,
        input,
        running_mean,
        running_var,
        weight,
        bias,
        use_input_stats,
        momentum,
        eps,
    )


@rule(F.local_response_norm)
def local_response_norm(t, input, size, alpha=1e-4, beta=0.75, k=1.0):
    square = (input * input).transpose(1, -1)
    square = F.avg_pool1d(F.pad(square, (size // 2, (size - 1) // 2)).reshape(-1, 1, input.shape[1] + size - 1), size, 1)
    average = square.reshape(input.transpose(1, -1).shape).transpose(1, -1)
    return input / (average * alpha + k) ** beta


@rule(torch.linalg.vector_norm, torch.ops.aten.linalg_vector_norm)
def vector_norm(t, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if dtype not in (None, x.dtype) and not (floating(x) and torch.promote_types(x.dtype, dtype) is dtype):
        raise TypeError(
            f"the norm of a tensor of {x.dtype} as {dtype}: expected a floating point tensor, and a dtype that holds its values"
        )
    return t.wrap(lib.samba_vector_norm(t.value(cast(t, x, dtype)), float(ord), *dims_of(dim), keepdim))


@rule(torch.norm, T.norm)
def norm(t, input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    if isinstance(p, str) and p != "fro":
        raise TypeError(f"norm {p!r} of a matrix needs its singular values, which a graph cannot have")
    result = vector_norm(t, input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)
    return result if out is None else t.into(out, result)


@rule(F.normalize)
def normalize(t, input, p=2.0, dim=1, eps=1e-12, out=None):
    result = t.wrap(lib.samba_normalize(t.value(input), p, dim, eps))
    return result if out is None else t.into(out, result)


@rule(torch._weight_norm)
def weight_norm(t, v, g, dim=0):
    return t.wrap(lib.samba_weight_norm(t.value(v), t.value(g), lib.SAMBA_ALL_DIMS if dim == -1 else dim))


@rule(F.cosine_similarity)
def cosine_similarity(t, x1, x2, dim=1, eps=1e-8):
    return t.wrap(lib.samba_cosine_similarity(t.value(x1), t.value(x2), dim, eps))


@rule(F.pairwise_distance)
def pairwise_distance(t, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return t.wrap(lib.samba_pairwise_distance(t.value(x1), t.value(x2), p, eps, keepdim))


CDIST_MODES = {
    "use_mm_for_euclid_dist_if_necessary": lib.SAMBA_CDIST_MM_IF_NECESSARY,
    "use_mm_for_euclid_dist": lib.SAMBA_CDIST_MM,
    "donot_use_mm_for_euclid_dist": lib.SAMBA_CDIST_NO_MM,
}


@rule(torch.cdist)
def cdist(t, x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    if compute_mode not in CDIST_MODES:
        raise ValueError(f"compute_mode must be one of {', '.join(CDIST_MODES)}, given {compute_mode!r}")
    return t.wrap(lib.samba_cdist(t.value(x1), t.value(x2), p, CDIST_MODES[compute_mode]))
