# SPDX-License-Identifier: Apache-2.0
"""What the arguments of the session's methods may be, as far as they are Python's:
names, shapes and dtypes are checked by the C library."""

import os

import torch
from torch.nn.modules import module as _of_modules

from sambaflow import errors

MAPPINGS = ("section", "spatial")
NO_CALLS = (-1, -1)  # what C takes for the whole schedule
DATA_PARALLEL_MODES = ("normal", "inorder", "optimal")
REDUCE_DTYPES = ("float32", "bfloat16")


def one_of(name, value, known):
    """Refuses a word that is not among the known."""
    if value not in known:
        if not isinstance(value, str):
            raise errors.ArgumentError(
                f"{name} is {value!r:.60} of type {type(value).__name__}: give a string, one of {', '.join(map(repr, known))}"
            )
        raise errors.ArgumentError(f"{name} {value!r}: expected one of {', '.join(known)}")


def module(call, model):
    """The model, which is a module, or an ONNX model as one."""
    if type(model).__name__ == "ModelProto":
        from sambaflow.samba.onnx_module import from_onnx_model

        return from_onnx_model(model)
    if not isinstance(model, torch.nn.Module):
        raise errors.ArgumentTypeError(f"{call}: the model is a torch.nn.Module: given {type(model).__name__}")
    return model


def check_hooks(call, model):
    """Refuses hooks of gradients where the device computes the gradients:
    it cannot call Python, and without them it would train otherwise."""
    whose = [
        f"parameter {name!r}"
        for name, x in model.named_parameters()
        if x.requires_grad and (x._backward_hooks or getattr(x, "_post_accumulate_grad_hooks", None))
    ]
    whose += [
        f"module {path!r} ({type(part).__name__})"
        for path, part in model.named_modules()
        if part._backward_hooks or part._backward_pre_hooks
    ]
    whose += ["every module"] * bool(_of_modules._global_backward_hooks or _of_modules._global_backward_pre_hooks)
    if whose:
        rest = f" and {len(whose) - 3} more" if len(whose) > 3 else ""
        raise errors.UnsupportedError(
            f"{call}: {', '.join(whose[:3])}{rest} has a hook on gradients, which the device cannot call: remove it by its "
            "handle and clip with max_grad_norm, "
            "scale gradients in forward by x * c + (x * (1 - c)).detach(), or change sn_grad between a run of FWD and BCKWD and "
            "one of OPT; inference=True goes without them"
        )


def optimizers(call, given):
    """None, one or several optimizers as a list."""
    given = listed(given)
    for x in given:
        if not isinstance(x, torch.optim.Optimizer):
            raise errors.ArgumentTypeError(
                f"{call}: expected an optimizer, given something of type {type(x).__name__}: make one from the parameters, for "
                "example samba.optim.SGD(model.parameters(), lr=0.1)"
            )
    return given


def check_data_parallel(call, data_parallel, reduce_on_rdu, mode):
    """What says how replicas reduce gradients means nothing where they do not."""
    one_of("data_parallel_mode", mode, DATA_PARALLEL_MODES)
    for name, value in (("data_parallel", data_parallel), ("reduce_on_rdu", reduce_on_rdu)):
        if not isinstance(value, bool):
            raise errors.ArgumentTypeError(f"{call}: {name} is {value!r:.100}: expected True or False")
    if not data_parallel and (reduce_on_rdu or mode != "normal"):
        word = "reduce_on_rdu=True" if reduce_on_rdu else f"data_parallel_mode={mode!r}"
        raise errors.ArgumentError(f"{call}: {word} says how data_parallel=True reduces gradients: it means nothing without it")


def check_distlearn(call, config):
    """What trace_graph is told of replicas: a file, whose presence says that there are some. MPI knows the rest."""
    if config is None:
        return
    if not isinstance(config, (str, os.PathLike)):
        raise errors.ArgumentTypeError(
            f"{call}: distlearn_config is {config!r:.100}: expected the path of a file, as of --distlearn-config, or None; how "
            "many replicas there are is what mpirun says"
        )
    if not os.path.exists(config):
        raise errors.FileError(f"{call}: distlearn_config: there is no file {os.fspath(config)!r}")


def check_deprecated(call, **given):
    """Arguments that the documents have and call deprecated: None is fine, anything else would be left out silently."""
    for name, value in given.items():
        if value is not None:
            raise errors.UnsupportedError(f"{call}: {name} is deprecated and does nothing: leave it out{_INSTEAD[name]}")


_INSTEAD = {
    "graph_names": "; a graph is called by name, several graphs by add_graph(SambaGraph(...))",
    "graph_transform_hook": "; what it would change belongs into the model, which is traced as it runs",
}


def check_flag(call, name, value):
    """True, False or None."""
    if value is not None and not isinstance(value, bool):
        raise errors.ArgumentTypeError(f"{call}: {name} is {value!r:.100}: expected True, False or None")


def check_mapping(call, mapping):
    """How a graph is placed on the device."""
    one_of(f"{call}: mapping", mapping, MAPPINGS)


def check_mapped(pef, mapped, mapping):
    """A program that asks for 'spatial' has a PEF that was compiled so; 'section' is a default and asks for nothing."""
    if mapping == "spatial" and mapped != mapping:
        raise errors.StateError(
            f"trace_graph: {pef} was compiled with mapping {mapped!r}: compile it with mapping='spatial', or trace it without"
        )


def listed(x):
    """None, one or several as a list. A word is one."""
    return [] if x is None else list(x) if isinstance(x, (list, tuple)) else [x]


def section_ids(given, what="run: section_ids"):
    """Ids and lists of ids, nested as deep as you like, one after the other.

    >>> section_ids([0, [1, [2, 1]], 3])
    [0, 1, 2, 1, 3]
    """
    flat = []
    for x in listed(given):
        if isinstance(x, (list, tuple)):
            flat += section_ids(x, what)
        elif isinstance(x, int) and not isinstance(x, bool):
            flat.append(x)
        else:
            raise errors.ArgumentTypeError(f"{what} has {x!r:.100}: expected integers, or lists of them")
    return flat


def section_types(given):
    """Words, one or several."""
    types = listed(given)
    for x in types:
        if not isinstance(x, str):
            raise errors.ArgumentTypeError(f"run: section_types has {x!r}: expected words such as 'FWD'")
    return types


def call_id(name, given):
    """A call's number; -1, which C takes for none, where there is none."""
    if given is None:
        return -1
    if isinstance(given, bool) or not isinstance(given, int):
        raise errors.ArgumentTypeError(f"run: {name} is {given!r}: expected an integer")
    if given < 0:
        raise errors.ArgumentError(f"run: {name} is {given}: calls are counted from 0")
    return given


def output_gradients(given, outputs):
    """{name of an output: gradient} of a dict, or of a list in the order of the traced outputs,
    where None leaves one as it is."""
    if isinstance(given, dict):
        return {name: grad for name, grad in given.items() if grad is not None}
    given = listed(given)
    if len(given) > len(outputs):
        raise errors.ArgumentError(
            f"run: grad_of_outputs has {len(given)} gradients, and there are {len(outputs)} outputs: {', '.join(outputs)}"
        )
    return {name: grad for name, grad in zip(outputs, given) if grad is not None}
