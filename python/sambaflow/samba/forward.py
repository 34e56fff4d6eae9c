# SPDX-License-Identifier: Apache-2.0
"""A model's forward pass, with its inputs, outputs and losses, as a graph. What outputs have a region of is no copy that a run
hands out: it is written into the memory of that region, where other graphs find it as their input."""

import inspect
from typing import NamedTuple

from sambaflow import errors
from sambaflow._core import lib
from sambaflow.samba import _state, pairs, trees
from sambaflow.samba.arguments import listed
from sambaflow.samba.arguments import section_ids as flat_ids
from sambaflow.samba.host_steps import StaleForward
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.trace import Tracer, at_work


class Ends(NamedTuple):
    """What is known of a graph's outputs before it is traced."""

    kept: frozenset = None  # numbers of those that the graph has; None: all
    handles: tuple = ()  # traced tensors of an earlier trace, whose region names count
    wanted: frozenset = frozenset()  # region names of inputs of all graphs

    def region(self, number, name):
        """That of an output; None where it is a result like any other."""
        handle = self.handles[number] if number < len(self.handles) else None
        region = handle.sn_region_name if handle is not None else ""
        if handle is not None and handle._sn_region_name:
            return region
        return next((x for x in (region, name) if x and x in self.wanted), None)


def _called(model, tracer, inputs):
    """What forward returns for the inputs as the graph has them."""
    args, kwargs = (), {}
    if isinstance(inputs, dict):
        kwargs = {key: trees.mapped(tracer.input, x, key) for key, x in inputs.items()}
    else:
        args = [trees.mapped(tracer.input, x, f"input_{i}") for i, x in enumerate(listed(inputs))]
    try:
        return model(*args, **kwargs)
    except TypeError as error:
        others = [x for x in model._forward_pre_hooks.values() if not isinstance(x, StaleForward)]  # which may change inputs
        said = None if others else _misfit(model, args, kwargs)
        if said is None:
            raise
        raise errors.ArgumentTypeError(said) from error


def _misfit(model, args, kwargs):
    """How the number of examples, or their names, does not fit forward; None where they do, or forward does not tell."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
        return None
    except TypeError as error:
        said = str(error)
    every = signature.parameters.values()
    takes = [its.name for its in every if its.kind in (its.POSITIONAL_ONLY, its.POSITIONAL_OR_KEYWORD)]
    needs = [x for x in takes[len(args) :] if signature.parameters[x].default is inspect.Parameter.empty and x not in kwargs]
    given = [x.sn_name if isinstance(x, SambaTensor) else type(x).__name__ for x in args] + list(kwargs)
    has = f"{len(given)} example{'s' * (len(given) != 1)}{', ' * bool(given)}{', '.join(map(repr, given))}"
    forward = f"{type(model).__name__}.forward"
    if needs:
        return (
            f"inputs has {has}, but {forward} also needs {', '.join(map(repr, needs))}: give one example tensor for each input "
            "of forward, in its order"
        )
    if len(args) > len(takes):
        named = ", ".join(map(repr, takes))
        return f"inputs has {has}, but {forward} takes {len(takes)}, {named}: leave out what it does not take"
    return f"inputs has {has}, but {forward} does not take them: {said}"


def forward_graph(
    model,
    inputs,
    loss_indices,
    name,
    scope="",
    prefix="",
    context=None,
    known=None,
    may_train=False,
    ends=None,
    evaluates=False,
    legacy_names=None,
):
    """(the Tracer, the traced outputs) of one forward pass. `ends` are those of a graph that is only run forward. `evaluates`:
    what a run of the graph computes that does not train. `legacy_names`: see SambaSession.use_legacy_names; None: as in
    samba.session."""
    tracer = Tracer(name or type(model).__name__, list(model.named_modules()), scope, prefix, context, evaluates)
    tracer.known, tracer.may_train = known or {}, may_train
    tracer.legacy_names = _state.session._legacy_names if legacy_names is None else legacy_names
    tracer.add_named(model.named_parameters(remove_duplicate=False), True)
    saved = {id(x) for x in model.state_dict(keep_vars=True).values()}  # other buffers are constants
    tracer.add_named(((path, x) for path, x in model.named_buffers(remove_duplicate=False) if id(x) in saved), False)
    tracer.regions.check(tracer.names)
    tracer.taken = {name for name, _, _ in tracer.names.values()}
    tracer.taken.update(x.sn_name for x in trees.tensors(inputs) if isinstance(x, SambaTensor) and not x._kept_name)
    with at_work(tracer):
        results = _called(model, tracer, inputs)
        outputs = trees.tensors(results)
        # before buffers become what forward has set them to: what they were may be returned
        for i, x in enumerate(outputs):
            if pairs.is_complex(x):
                pairs.refuse_border(f"output {i} of {type(model).__name__}", "return torch.view_as_real(output)")
        values = [tracer.value(x) for x in outputs]
    if not outputs and not tracer.assigned:
        what = "None" if results is None else f"{results!r:.60} of {type(results).__name__}"
        raise errors.ArgumentError(
            f"the forward pass of {type(model).__name__} returned {what}, in which there is no tensor: return what a run "
            "is to give, as a "
            "tensor or tensors in tuples, lists, dicts and dataclasses"
        )
    losses = set(flat_ids(loss_indices, "loss_indices"))
    for i in losses:
        if i not in range(len(outputs)):
            raise errors.ArgumentError(f"loss_indices: there is no output {i}; the model has {len(outputs)}, counted from 0")
    for i, value in enumerate(values):
        outputs[i] = tracer.wrap(value)
        outputs[i].sn_name = f"{tracer.scope}output_{i}"
        if ends is not None and ends.kept is not None and i not in ends.kept:
            continue
        region = None if ends is None else ends.region(i, outputs[i].sn_name)
        if region is not None:
            _share(tracer, outputs[i], value, region)
        else:
            (lib.samba_loss if i in losses else lib.samba_output)(tracer.graph, outputs[i].sn_name.encode(), value)
    tracer.check()
    return tracer, outputs


def _share(tracer, output, value, region):
    """The memory of a region becomes an output."""
    leaf = tracer.regions.of_output(output, region)
    if leaf is None:  # the graph has no input of that region: this one is written only
        leaf = tracer.new_input(region, output.dtype, output.shape)
    written = next((x for known, x in tracer.assigned.values() if known.index == leaf.index), None)
    if written is not None and written.index != value.index:
        raise errors.UnsupportedError(
            f"output {output.sn_name!r} has the region name {region!r}, and the forward pass writes something else into the "
            "input of that region: return what it writes, or give the output another region"
        )
    if written is None and leaf.index != value.index:
        lib.samba_assign(leaf, value)
