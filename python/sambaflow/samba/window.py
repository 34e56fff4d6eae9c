# SPDX-License-Identifier: Apache-2.0
"""One step of an optimizer over some batches, as many as there are: a window of gradient accumulation that need not be full, and
whose batches may differ in size.

A PEF that was compiled with grad_accumulation_steps N divides each batch's gradients by N. Here each loss begins its backward
with N times the batch's share of the window's samples, so that gradients are those of the mean over all of these samples."""

import torch

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.samba import trees

_TYPES = (("ZEROGRAD", True, False), ("FWD", False, False), ("BCKWD", False, False), ("REDUCE", False, True))
_TYPES += (("GRADNORM", False, True), ("OPT", False, True))  # name, of the first batch alone, of the last alone


def samples_in(x, call):
    """How many samples a tensor has: in its batch_dim, else in dim 0."""
    dim = getattr(x, "batch_dim", None) or 0
    if not -x.dim() <= dim < x.dim():
        raise errors.ArgumentIndexError(f"{call}: {x.sn_name!r} has batch_dim {dim} and {x.dim()} dims")
    return x.shape[dim]


def samples_of(call, inputs):
    """The same of the first input that has a batch_dim; None where none has."""
    return next((samples_in(x, call) for x in trees.tensors(inputs) if getattr(x, "batch_dim", None) is not None), None)


def _samples(batch, number):
    counts = {samples_in(x, "run_window") for x in trees.tensors(batch) if x.dim() > 0}
    if len(counts) != 1:
        raise errors.ShapeError(
            f"run_window: the tensors of batch {number} have {sorted(counts) or 'no'} samples in dim 0, or their batch_dim: a "
            "window weighs batches by them, so they must agree"
        )
    return counts.pop()


def _losses(session, device):
    """Names of the outputs that the backward starts from."""
    names = [name for name in device.outputs_of() if session.start_of(name) == 1]
    wide = [name for name in names if device.tensors[name][2] != ()]
    if wide:
        raise errors.UnsupportedError(
            f"run_window: the backward starts from {wide[0]!r}, which is no single number: only a mean over samples can be one "
            "over a window; give loss_indices when the model is compiled"
        )
    return names


def run_window(session, batches, outputs, hyperparameters):
    """What run gives for each batch."""
    device, batches = session.loaded(), list(batches)
    info = ffi.new("samba_graph_info *")
    device.context.check(lib.samba_session_graph_info(device.c, 0, info))
    steps = info.grad_accumulation_steps
    if not 1 <= len(batches) <= steps:
        raise errors.ArgumentError(
            f"run_window: {len(batches)} batches, and the PEF was compiled for 1 to {steps} in a step (grad_accumulation_steps)"
        )
    counts = [_samples(batch, number) for number, batch in enumerate(batches)]
    losses, there, results = _losses(session, device), set(device.section_types), []
    try:
        for i, (batch, count) in enumerate(zip(batches, counts)):
            types = [
                word
                for word, first, last in _TYPES
                if word in there and (i == 0 or not first) and (i + 1 == len(batches) or not last)
            ]
            start = torch.tensor(steps * count / sum(counts))
            gradients = {name: start.to(getattr(torch, device.tensors[name][1])) for name in losses}
            results.append(session.run(batch, outputs, hyperparameters, section_types=types, grad_of_outputs=gradients))
    finally:
        for name in losses:  # as runs of whole windows have it
            session.device_set(f"{name}.grad", torch.ones((), dtype=getattr(torch, device.tensors[name][1])))
    return results
