# SPDX-License-Identifier: Apache-2.0
"""Where backward begins, told once. Without loss_indices gradients start from every output, but with zeros from one that another
output is computed from: a model that returns a loss and logits learns by the loss.
That is a choice made for the user, so it is said."""

from sambaflow import launch
from sambaflow._core import ffi, lib
from sambaflow.errors import SambaError
from sambaflow.samba import _state
from sambaflow.samba.arguments import section_ids
from sambaflow.samba.locations import outside

_told = _state.until_reset(set())


def tell_starts(tracer, outputs, loss_indices):
    """Warns, once for each sentence, where an output of the traced graph starts with zeros though nobody asked for that, or where
    loss_indices perhaps count other outputs than there are."""
    if len(outputs) < 2:
        return
    if loss_indices is not None:
        _tell_miscounted(outputs, set(section_ids(loss_indices, "loss_indices")))
        return
    starts = ffi.new("double[]", len(outputs))
    try:
        tracer.context.check(lib.samba_graph_starts(tracer.graph, len(outputs), starts))
    except SambaError:
        return  # nothing to differentiate: compiling says so
    zeros = [x.sn_name for x, start in zip(outputs, starts) if start == 0]
    ones = [i for i, start in enumerate(starts) if start == 1]
    said = (
        f"backward starts from {', '.join(outputs[i].sn_name for i in ones)}, with ones, since loss_indices was not given, and "
        f"not from {', '.join(zeros)}, from which another output is computed: give loss_indices={ones}, or the numbers of the "
        "losses"
    )
    scalars = [i for i in ones if outputs[i].dim() == 0]
    if not zeros and len(ones) > 1 and len(scalars) == 1:
        said = (
            f"backward starts from {', '.join(outputs[i].sn_name for i in ones)}, each with ones, so their sums are trained for; "
            f"where {outputs[scalars[0]].sn_name} alone is the loss, loss_indices={scalars} of compile and trace_graph says so"
        )
    elif not zeros:
        return
    _tell(said)


def _tell_miscounted(outputs, losses):
    many = [i for i in sorted(losses) if outputs[i].numel() > 1]
    single = [i for i, x in enumerate(outputs) if i not in losses and x.dim() == 0 and x.dtype.is_floating_point]
    if many and len(many) == len(losses) and single:
        name, shape = outputs[many[0]].sn_name, tuple(outputs[many[0]].shape)
        _tell(
            f"loss_indices has {many[0]}, {name} of shape {shape}, whose sum is trained for, and not {single[0]}, "
            f"{outputs[single[0]].sn_name}, a single number: outputs are counted from 0, without None, and those of nested "
            "tuples one by one"
        )


def tell_untrained(pef, inference):
    """Warns, once, where a program has an optimizer and its PEF no backward pass: it would run, and learn nothing."""
    why = (
        "the PEF was compiled with inference=True and trains nothing: compile without it, and with the optimizer"
        if inference
        else "no parameter has a gradient from the loss: do not detach it or make it of comparisons or argmax, or choose another "
        "output by loss_indices, and compile again"
    )
    _tell(f"trace_graph: the optimizer has no effect, because {why}. The PEF is {pef}")


def tell_unstepped(pef):
    """The same where the PEF has gradients and no steps."""
    _tell(
        "trace_graph: the optimizer has no effect, because the PEF was compiled without one: runs compute gradients and take no "
        f"step. Give compile the optimizer, too. The PEF is {pef}"
    )


def _tell(said):
    if said not in _told:
        _told.add(said)
        launch.warn(said, UserWarning, stacklevel=outside())
