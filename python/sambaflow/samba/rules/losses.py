# SPDX-License-Identifier: Apache-2.0
"""Loss functions of torch.nn.functional."""
import math

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import floating, rank, unsupported
from sambaflow.samba.trace import rule

_REDUCTIONS = {"mean": lib.SAMBA_MEAN, "sum": lib.SAMBA_SUM, "none": lib.SAMBA_NO_REDUCTION}


def _chosen(t, reduction, size_average, reduce):
    """The reduction, also by the old pair of arguments."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if reduction not in _REDUCTIONS:
        unsupported(t, f"reduction={reduction!r}: expected 'mean', 'sum' or 'none'")
    return reduction


def _reduced(t, loss, reduction, weight=None):
    """A loss of each element, weighted."""
    if weight is not None:
        loss = loss * weight
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.sum() / weight.expand(loss.shape).sum() if weight is not None else loss.mean()


def _elementwise(*functions):
    """A loss of each element of input and target: f(tracer, input, target, its own options) -> loss."""

    def register(f):
        @rule(*functions)
        def traced(t, input, target, *args, size_average=None, reduce=None, reduction="mean", weight=None, **options):
            for given, word in zip(args, ("size_average", "reduce", "reduction")):
                size_average, reduce, reduction = {**dict(size_average=size_average, reduce=reduce, reduction=reduction), word: given}.values()
            return _reduced(t, f(t, input, target, **options), _chosen(t, reduction, size_average, reduce), weight)

        return f

    return register


@_elementwise(F.mse_loss)
def mse(t, input, target):
    return torch.square(input - target)


@_elementwise(F.l1_loss)
def l1(t, input, target):
    return torch.abs(input - target)


@_elementwise(F.soft_margin_loss)
def soft_margin(t, input, target):
    return F.softplus(-target * input)


def _smooth(input, target, near, beta):
    """Where the difference is less than beta near / beta, else linear."""
    away = torch.abs(input - target)
    return torch.where(away < beta, near * away * away, away - 0.5 * beta) if near else away


@rule(F.smooth_l1_loss)
def smooth_l1(t, input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    return _reduced(t, _smooth(input, target, 0.5 / beta if beta else 0, beta), _chosen(t, reduction, size_average, reduce))


@rule(F.huber_loss)
def huber(t, input, target, reduction="mean", delta=1.0, weight=None):
    return _reduced(t, delta * _smooth(input, target, 0.5 / delta, delta), _chosen(t, reduction, None, None), weight)


@rule(F.kl_div)
def kl_div(t, input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    if log_target:
        loss = torch.exp(target) * (target - input)
    else:  # 0 log 0 is 0
        logs = torch.log(torch.where(target > 0, target, 1.0))
        loss = torch.where(target > 0, target * logs, 0.0) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0]
    return _reduced(t, loss, _chosen(t, reduction, size_average, reduce))


@rule(F.binary_cross_entropy)
def binary_cross_entropy(t, input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    logs = [torch.maximum(torch.log(x), torch.full((), -100.0, dtype=input.dtype)) for x in (input, 1 - input)]  # as torch: no less than -100
    loss = -(target * logs[0] + (1 - target) * logs[1])
    return _reduced(t, loss if weight is None else loss * weight, _chosen(t, reduction, size_average, reduce))


@rule(F.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(t, input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    positive = F.softplus(-input)  # -log sigmoid
    loss = (1 - target) * input + (positive if pos_weight is None else (1 + (pos_weight - 1) * target) * positive)
    return _reduced(t, loss if weight is None else loss * weight, _chosen(t, reduction, size_average, reduce))


# ---- classes ----


def _class_dim(input):
    return 1 if rank(input) > 1 else 0


@rule(F.cross_entropy)
def cross_entropy(t, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    reduction = _chosen(t, reduction, size_average, reduce)
    if weight is None and not floating(target):
        options = ffi.new("samba_cross_entropy_options *", [ignore_index, label_smoothing, _REDUCTIONS[reduction]])
        return t.wrap(lib.samba_cross_entropy_with(t.value(input), t.value(target), options))
    dim = _class_dim(input)
    logs, classes = F.log_softmax(input, dim), input.shape[dim]
    if not floating(target):
        return _of_classes(t, logs, target, weight, ignore_index, reduction, label_smoothing)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        target = target * weight.reshape([classes] + [1] * (rank(input) - dim - 1))
    loss = -(target * logs).sum(dim)
    return loss.sum() / max(1, input.numel() // classes) if reduction == "mean" else _reduced(t, loss, reduction)


def _of_classes(t, logs, target, weight, ignore_index, reduction, label_smoothing):
    """-log probability of the target's class, classes weighted, some targets ignored."""
    dim = _class_dim(logs)
    classes = logs.shape[dim]
    counts = target != ignore_index
    safe = torch.where(counts, target, 0)
    along = [classes] + [1] * (rank(logs) - dim - 1)
    is_class = safe.unsqueeze(dim) == torch.arange(classes).reshape(along)
    each = torch.where(counts, 1.0, torch.zeros((), dtype=logs.dtype))
    share, spread = each, logs
    if weight is not None:
        share = torch.where(is_class, weight.reshape(along), 0.0).sum(dim) * each
        spread = logs * weight.reshape(along)
    loss = -torch.where(is_class, logs, 0.0).sum(dim) * share
    if label_smoothing:
        loss = (1 - label_smoothing) * loss - label_smoothing / classes * spread.sum(dim) * each
    return loss.sum() / share.sum() if reduction == "mean" else _reduced(t, loss, reduction)


@rule(F.nll_loss)
def nll_loss(t, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    return _of_classes(t, input, target, weight, ignore_index, _chosen(t, reduction, size_average, reduce), 0.0)


@rule(F.multi_margin_loss, F.multilabel_margin_loss, F.ctc_loss)
def not_yet(t, *_, **__):
    unsupported(t, "this loss cannot be traced yet: compose it of other functions, or compute it on the host from the outputs")


# ---- pairs ----


@rule(F.cosine_similarity)
def cosine_similarity(t, x1, x2, dim=1, eps=1e-8):
    def unit(x):
        return x / torch.maximum(torch.sqrt((x * x).sum(dim, True)), torch.full((), eps, dtype=x.dtype))

    return (unit(x1) * unit(x2)).sum(dim)


@rule(F.cosine_embedding_loss)
def cosine_embedding_loss(t, input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    def squares(a, b):
        return (a * b).sum(-1)

    eps = 1e-12
    cosine = squares(input1, input2) / torch.sqrt((squares(input1, input1) + eps) * (squares(input2, input2) + eps))
    loss = torch.where(target == 1, 1 - cosine, torch.where(target == -1, F.relu(cosine - margin), 0.0))
    return _reduced(t, loss, _chosen(t, reduction, size_average, reduce))


@rule(F.margin_ranking_loss)
def margin_ranking_loss(t, input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    return _reduced(t, F.relu(-target * (input1 - input2) + margin), _chosen(t, reduction, size_average, reduce))


@rule(F.hinge_embedding_loss)
def hinge_embedding_loss(t, input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    loss = torch.where(target != 1, F.relu(margin - input), 0.0) + torch.where(target != -1, input, 0.0)
    return _reduced(t, loss, _chosen(t, reduction, size_average, reduce))


@rule(F.pairwise_distance)
def pairwise_distance(t, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return torch.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim)


@rule(F.triplet_margin_loss)
def triplet_margin_loss(t, anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"):
    far = pairwise_distance(t, anchor, negative, p, eps)
    if swap:
        far = torch.minimum(far, pairwise_distance(t, positive, negative, p, eps))
    return _reduced(t, F.relu(pairwise_distance(t, anchor, positive, p, eps) - far + margin), _chosen(t, reduction, size_average, reduce))


@rule(F.gaussian_nll_loss)
def gaussian_nll_loss(t, input, target, var, full=False, eps=1e-6, reduction="mean"):
    var = torch.full_like(input, var) if not isinstance(var, torch.Tensor) else var
    var = var.unsqueeze(-1) if var.shape == input.shape[:-1] else var
    held = var + (torch.maximum(var, torch.full((), eps, dtype=var.dtype)) - var).detach()
    loss = 0.5 * (torch.log(held) + (input - target) ** 2 / held)
    return _reduced(t, loss + 0.5 * math.log(2 * math.pi) if full else loss, _chosen(t, reduction, None, None))
