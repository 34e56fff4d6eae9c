# SPDX-License-Identifier: Apache-2.0
"""Loss functions of torch.nn.functional."""

import torch
import torch.nn.functional as F

from sambaflow import launch
from sambaflow._core import ffi, lib
from sambaflow.samba import _state
from sambaflow.samba.locations import outside
from sambaflow.samba.rules.common import optional
from sambaflow.samba.sambatensor import values_of
from sambaflow.samba.trace import rule
from sambaflow.words import text

_REDUCTIONS = {"mean": lib.SAMBA_MEAN, "sum": lib.SAMBA_SUM, "none": lib.SAMBA_NO_REDUCTION}


def _chosen(size_average=None, reduce=None, reduction="mean", batch=False):
    """The reduction, also by the old pair of arguments."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if batch and reduction == "batchmean":
        return lib.SAMBA_BATCH_MEAN
    if reduction not in _REDUCTIONS:
        words = [*_REDUCTIONS, *(["batchmean"] if batch else [])]
        raise ValueError(f"reduction must be one of {', '.join(words)}, given {reduction!r}")
    return _REDUCTIONS[reduction]


_told = _state.until_reset(set())


def _compared(t, value):
    """The traced loss of an input and a target. Where one is broadcast to the other, the library warns, as torch does: once for
    each line, though a model is traced twice."""
    result = t.wrap(value)
    while warning := text(lib.samba_context_warning(t.context.c)):
        _tell(warning)
    return result


def _tell(warning):
    if warning not in _told:
        _told.add(warning)
        launch.warn(warning, UserWarning, stacklevel=outside())


# ---- distances ----


@rule(F.mse_loss)
def mse_loss(t, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    return _compared(
        t, lib.samba_mse_loss(t.value(input), t.value(target), optional(t, weight), _chosen(size_average, reduce, reduction))
    )


@rule(F.l1_loss)
def l1_loss(t, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    return _compared(
        t, lib.samba_l1_loss(t.value(input), t.value(target), optional(t, weight), _chosen(size_average, reduce, reduction))
    )


@rule(F.smooth_l1_loss)
def smooth_l1_loss(t, input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    return _compared(t, lib.samba_smooth_l1_loss(t.value(input), t.value(target), beta, _chosen(size_average, reduce, reduction)))


@rule(F.huber_loss)
def huber_loss(t, input, target, reduction="mean", delta=1.0, weight=None):
    return _compared(
        t, lib.samba_huber_loss(t.value(input), t.value(target), delta, optional(t, weight), _chosen(reduction=reduction))
    )


# ---- likelihoods ----


@rule(F.kl_div)
def kl_div(t, input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    chosen = _chosen(size_average, reduce, reduction, batch=True)
    if chosen == lib.SAMBA_MEAN:  # torch warns of it too
        _tell(
            "kl_div: reduction='mean' divides by all elements, and the divergence is the sum over the batch size: "
            "reduction='batchmean'"
        )
    return _compared(t, lib.samba_kl_div(t.value(input), t.value(target), log_target, chosen))


@rule(F.binary_cross_entropy)
def binary_cross_entropy(t, input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return t.wrap(
        lib.samba_binary_cross_entropy(
            t.value(input), t.value(target), optional(t, weight), _chosen(size_average, reduce, reduction)
        )
    )


@rule(F.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(
    t, input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    weights = optional(t, weight), optional(t, pos_weight)
    return t.wrap(
        lib.samba_binary_cross_entropy_with_logits(
            t.value(input), t.value(target), *weights, _chosen(size_average, reduce, reduction)
        )
    )


@rule(F.poisson_nll_loss)
def poisson_nll_loss(t, input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    options = ffi.new("samba_poisson_nll_options *", [not log_input, full, eps, _chosen(size_average, reduce, reduction)])
    return _compared(t, lib.samba_poisson_nll_loss(t.value(input), t.value(target), options))


@rule(F.gaussian_nll_loss)
def gaussian_nll_loss(t, input, target, var, full=False, eps=1e-6, reduction="mean"):
    var = (
        t.value(var)
        if isinstance(var, torch.Tensor)
        else lib.samba_constant(t.graph, var, lib.samba_value_dtype(t.value(input)), 0, ffi.NULL)
    )
    options = ffi.new("samba_gaussian_nll_options *", [full, eps, _chosen(reduction=reduction)])
    return _compared(t, lib.samba_gaussian_nll_loss(t.value(input), t.value(target), var, options))


# ---- classes ----


def _class_options(t, weight, ignore_index, reduction, label_smoothing=0.0):
    return ffi.new("samba_cross_entropy_options *", [ignore_index, label_smoothing, reduction, optional(t, weight)])


@rule(F.cross_entropy)
def cross_entropy(
    t, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    options = _class_options(t, weight, ignore_index, _chosen(size_average, reduce, reduction), label_smoothing)
    return t.wrap(lib.samba_cross_entropy_with(t.value(input), t.value(target), options))


@rule(F.nll_loss)
def nll_loss(t, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    options = _class_options(t, weight, ignore_index, _chosen(size_average, reduce, reduction))
    return t.wrap(lib.samba_nll_loss(t.value(input), t.value(target), options))


@rule(F.multi_margin_loss)
def multi_margin_loss(t, input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    options = ffi.new("samba_multi_margin_options *", [p, margin, optional(t, weight), _chosen(size_average, reduce, reduction)])
    return t.wrap(lib.samba_multi_margin_loss(t.value(input), t.value(target), options))


@rule(F.multilabel_margin_loss)
def multilabel_margin_loss(t, input, target, size_average=None, reduce=None, reduction="mean"):
    return t.wrap(lib.samba_multilabel_margin_loss(t.value(input), t.value(target), _chosen(size_average, reduce, reduction)))


@rule(F.multilabel_soft_margin_loss)
def multilabel_soft_margin_loss(t, input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return t.wrap(
        lib.samba_multilabel_soft_margin_loss(
            t.value(input), t.value(target), optional(t, weight), _chosen(size_average, reduce, reduction)
        )
    )


def _lengths(t, lengths, most, of):
    """(the lengths as a value, the greatest where they are known)."""
    if isinstance(lengths, torch.Tensor) and t.is_symbolic((lengths,), {}):
        return t.value(lengths), None
    known = torch.as_tensor(values_of(lengths) if isinstance(lengths, torch.Tensor) else lengths, dtype=torch.int64)
    if known.numel() and not 0 <= int(known.min()) <= int(known.max()) <= most:
        raise ValueError(f"{of} must be 0 to {most}, given {known.tolist()!r:.100}")
    return t.value(known), int(known.max()) if known.numel() else 0


@rule(F.ctc_loss)
def ctc_loss(t, log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Lengths that only a run knows are looked at then."""
    if log_probs.dim() not in (2, 3):
        raise ValueError(f"expected log probabilities (T, N, C) or (T, C), given {tuple(log_probs.shape)}")
    steps, _ = _lengths(t, input_lengths, log_probs.shape[0], "input_lengths")
    labels, most = _lengths(t, target_lengths, targets.shape[-1] if targets.dim() else 0, "target_lengths")
    options = ffi.new("samba_ctc_options *", (blank, most or 0, bool(zero_infinity), _chosen(reduction=reduction)))
    return t.wrap(lib.samba_ctc_loss(t.value(log_probs), t.value(targets), steps, labels, options))


# ---- margins ----


@rule(F.soft_margin_loss)
def soft_margin_loss(t, input, target, size_average=None, reduce=None, reduction="mean"):
    return _compared(t, lib.samba_soft_margin_loss(t.value(input), t.value(target), _chosen(size_average, reduce, reduction)))


@rule(F.hinge_embedding_loss)
def hinge_embedding_loss(t, input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    return t.wrap(
        lib.samba_hinge_embedding_loss(t.value(input), t.value(target), margin, _chosen(size_average, reduce, reduction))
    )


@rule(F.margin_ranking_loss)
def margin_ranking_loss(t, input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    return t.wrap(
        lib.samba_margin_ranking_loss(
            t.value(input1), t.value(input2), t.value(target), margin, _chosen(size_average, reduce, reduction)
        )
    )


@rule(F.cosine_embedding_loss)
def cosine_embedding_loss(t, input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    return t.wrap(
        lib.samba_cosine_embedding_loss(
            t.value(input1), t.value(input2), t.value(target), margin, _chosen(size_average, reduce, reduction)
        )
    )


@rule(F.triplet_margin_loss)
def triplet_margin_loss(
    t, anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    options = ffi.new("samba_triplet_margin_options *", [margin, p, eps, swap, _chosen(size_average, reduce, reduction)])
    return t.wrap(lib.samba_triplet_margin_loss(t.value(anchor), t.value(positive), t.value(negative), options))
