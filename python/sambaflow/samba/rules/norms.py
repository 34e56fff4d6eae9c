# SPDX-License-Identifier: Apache-2.0
"""Normalizations."""

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import cast, dims_of, floating, optional, unsupported
from sambaflow.samba.trace import rule

T = torch.Tensor
aten = torch.ops.aten


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


@rule(torch.linalg.matrix_norm, aten.linalg_matrix_norm)
def matrix_norm(t, A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    if ord not in ("fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")):
        raise ValueError(f"ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, given {ord!r}")
    if A.dim() < 2 or len(dim) != 2 or dim[0] % A.dim() == dim[1] % A.dim():
        raise ValueError(f"expected two dims of a tensor of 2 dims or more, given {dim} and rank {A.dim()}")
    x = cast(t, A, dtype).movedim(dim, (-2, -1))
    if ord == "fro":
        result = torch.linalg.vector_norm(x, 2, (-2, -1))
    elif ord in ("nuc", 2, -2):
        values = torch.linalg.svdvals(x)
        result = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord == 2 else values.amin(-1)
    else:
        sums = x.abs().sum(-2 if abs(ord) == 1 else -1)
        result = sums.amax(-1) if ord > 0 else sums.amin(-1)
    if keepdim:
        for at in sorted(d % A.dim() for d in dim):
            result = result.unsqueeze(at)
    return result if out is None else t.into(out, result)


@rule(torch.linalg.norm, aten.linalg_norm)
def linalg_norm(t, A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    one = isinstance(dim, int) or (dim is not None and len(dim) == 1)
    if ord is None or one or (dim is None and A.dim() == 1):
        result = vector_norm(t, A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
        return result if out is None else t.into(out, result)
    if dim is None and A.dim() != 2:
        raise ValueError(f"linalg.norm: with ord {ord!r} and no dim a tensor has 1 or 2 dims, given {A.dim()}")
    return matrix_norm(t, A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)


@rule(torch.norm, T.norm)
def norm(t, input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    if isinstance(p, str) and p != "fro":
        return matrix_norm(t, input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
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


@rule(torch.pdist, F.pdist, aten.pdist)
def pdist(t, input, p=2.0):
    return t.wrap(lib.samba_pdist(t.value(input), float(p)))
