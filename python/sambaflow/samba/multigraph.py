# SPDX-License-Identifier: Apache-2.0
"""Several graphs in one PEF: what they share, and how a session compiles and loads them.

A name means one thing in all graphs: parameters and buffers of one path are one tensor on the device, and so are inputs of one
region name. One that a graph before had, at whatever path, keeps its name there. Outputs,
and inputs without a name, are named by their graph: ``decode.output_0``. An output with a region name, or one that is another
graph's input, is memory that graphs share, too.

>>> import tempfile
>>> import torch
>>> import sambaflow.samba as samba
>>> from sambaflow.samba.graph import FwdGraph, SambaGraph
>>> from sambaflow.samba.utils import trace_multigraph
>>> model = samba.from_torch_model_(torch.nn.Linear(3, 2))
>>> x, y = samba.ones(4, 3, name="x"), samba.ones(1, 3, name="y")
>>> optim = samba.optim.SGD(model.parameters(), lr=0.1)
>>> session = samba.SambaSession()
>>> session.add_graph(SambaGraph(model, (x,), optim, name="train"))
>>> session.add_graph(FwdGraph(model, (y,), name="answer"))
>>> with tempfile.TemporaryDirectory() as folder:
...     pef = session.compile_multigraph("line", output_folder=folder)
...     session.trace_multigraph(session.graphs["train"], (x,), optim)[0].shape
...     answers = session.trace_multigraph(session.graphs["answer"], (y,))
...     session.init_multigraph_runtime(pef)
torch.Size([4, 2])
>>> before = session.run((y,), answers, graph_name="answer")
>>> session.run((x,), graph_name="train")
()
>>> after = session.run((y,), answers, graph_name="answer")
>>> bool((before[0].torch() > after[0].torch()).all())
True
"""

import dataclasses
import re
from typing import Any

from sambaflow import errors, launch
from sambaflow._core import ffi, lib
from sambaflow.runtime import Context
from sambaflow.samba import modes, trees
from sambaflow.samba.arguments import check_hooks, check_mapped, listed, module
from sambaflow.samba.arguments import optimizers as optimizer_list
from sambaflow.samba.attributes import unlike
from sambaflow.samba.forward import Ends, forward_graph
from sambaflow.samba.graph import SambaGraph
from sambaflow.samba.optimizers import check_owned, hyperparameters, numbers, set_optimizers
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.words import encoded, path_of, text


@dataclasses.dataclass(eq=False)
class Traced:
    """A graph that trace_multigraph was given."""

    name: str  # "" where it is that of the PEF's next graph
    model: Any
    inputs: Any
    optimizers: list
    loss_indices: Any
    prefix: str
    mapping: str
    outputs: tuple
    sets_grads: bool  # whether its outputs' gradients become what they begin with, once there is a PEF
    kept: Any = None  # numbers of the outputs that the graph has; None: all

    def become(self, name, chosen):
        """A graph of that name is made of some of its outputs: their numbers."""
        for number, x in enumerate(self.outputs):
            x.sn_name = f"{name}.output_{number}"
        self.name = name
        self.kept = frozenset(number for number, x in enumerate(self.outputs) if any(x is y for y in chosen))
        return self.kept


def add(graphs, graph, overwrite):
    """Puts a SambaGraph behind the others in {name: graph}."""
    if not isinstance(graph, SambaGraph):
        raise errors.ArgumentTypeError(
            f"add_graph: expected a SambaGraph or FwdGraph, given {type(graph).__name__}: SambaGraph(model, inputs, "
            "optimizers, name)"
        )
    if graph.name in graphs and not overwrite:
        raise errors.UnknownNameError(
            f"add_graph: there is a graph {graph.name!r} already: give this one another name, or overwrite=True"
        )
    graphs.pop(graph.name, None)
    graphs[graph.name] = graph


def compile_all(
    session, graphs, name, output_folder, pef_name, precision, accumulation, budget, mapping, fast_memory, data_parallel, write
):
    """Traces the graphs, compiles them and, if `write`, writes the PEF, whose path it returns."""
    if not graphs:
        raise errors.StateError(
            "compile_multigraph: there is no graph: add_graph(SambaGraph(model, inputs, optimizers, name)) first"
        )
    context, made = Context(), ffi.new("samba_multigraph **")
    context.check(lib.samba_multigraph_new(context.c, made))
    several, known, shared, kept_alive = context.owned(made[0], lib.samba_multigraph_free), {}, {}, []
    everyone = {id(p) for graph in graphs.values() for p in graph.model.parameters()}
    for graph in graphs.values():
        if not graph.inference:
            check_hooks(f"compile_multigraph: graph {graph.name!r}", graph.model)
        tracer, _ = forward_graph(
            graph.model,
            graph.inputs,
            graph.loss_indices,
            graph.name,
            graph.name,
            context=context,
            known=shared,
            may_train=not graph.inference,
            ends=graph.ends(graphs.values()),
            legacy_names=session._legacy_names,
        )
        _check_alike(graph, unlike(tracer, graph, graphs.values()))
        shared.update((identity, path) for identity, (path, _, _) in tracer.names.items())
        kept_alive.append(tracer)
        options = ffi.new("samba_compile_options *", lib.samba_compile_defaults())
        kept = ffi.new("char[]", encoded(graph.name, "a graph's name"))
        options.name, options.graph, options.precision = kept, tracer.graph, precision
        options.inference, options.mapping, options.fast_memory = graph.inference, mapping, fast_memory
        if not graph.inference:
            options.grad_accumulation_steps, options.memory_budget = accumulation, budget
            options.data_parallel = data_parallel
            check_owned(
                f"compile_multigraph: graph {graph.name!r}",
                tracer,
                optimizer_list("compile_multigraph", graph.optimizers),
                everyone,
            )
            listed = optimizer_list("compile_multigraph", graph.optimizers)
            _alive = set_optimizers(options, tracer, listed, numbers(tracer, graph.optimizers, known))
        context.check(lib.samba_multigraph_add(several, options, False))
        _tell(several)
    if not write:
        return None
    path, words = (
        ffi.new("char[]", 4096),
        [
            ffi.new("char[]", encoded(pef_name or name or next(iter(graphs)), "compile_multigraph: pef_name")),
            ffi.new("char[]", path_of(output_folder, "compile_multigraph: output_folder")),
        ],
    )
    context.check(lib.samba_multigraph_compile(several, *words, path, len(path)))
    while warning := text(lib.samba_context_warning(context.c)):
        launch.warn(f"compile_multigraph: {warning}", RuntimeWarning, stacklevel=5)
    return text(path)


def _check_alike(graph, found):
    """Graphs are traced when they are compiled: of a module with a flag both would be what the flag says last."""
    if found is not None:
        other, name, behind, mine, its = found
        values = f": {mine!r:.40} and {its!r:.40}" if isinstance(mine, (bool, int, float, str)) else ""
        raise errors.ArgumentError(
            f"compile_multigraph: graphs {graph.name!r} and {other.name!r} are of one module, whose {name + behind!r} was "
            f"another when each was made{values}, and graphs are traced now: make a module for each, which may share layers"
        )


def _tell(several):
    """Warns of what two graphs train apart."""
    warning = text(lib.samba_multigraph_warning(several))
    if warning:
        launch.warn(
            f"compile_multigraph: {warning}; in Python give both graphs the same optimizer object", RuntimeWarning, stacklevel=6
        )


def begin_trace(session, graph, inputs, optimizers, prefix, mapping, sets_grads):
    """What trace_multigraph notes of a graph, with its outputs; it is compared with the PEF when that is there."""
    given = isinstance(graph, SambaGraph)
    model = graph.model if given else module("trace_multigraph", graph)
    losses = graph.loss_indices if given else None
    name = graph.name if given else ""
    called = name or type(model).__name__
    _, outputs = forward_graph(model, inputs, losses, called, called, prefix, legacy_names=session._legacy_names)
    model.output_tensors = outputs = tuple(outputs)
    listed_optimizers = optimizer_list("trace_multigraph", optimizers)
    traced = Traced(name, model, inputs, listed_optimizers, losses, prefix, mapping, outputs, sets_grads)
    for x in outputs:
        x._noted = traced
    if given:
        graph.traced_as(outputs)
    return traced


def compiled_graph(device, index):
    """The text of a PEF's graph and the literals that stand beside it, which live as long as the device's session."""
    info = ffi.new("samba_graph_info *")
    device.context.check(lib.samba_session_graph_info(device.c, index, info))
    literals = ffi.new("samba_literal[]", lib.samba_session_literal_count(device.c, index))
    for number in range(len(literals)):
        device.context.check(lib.samba_session_literal(device.c, index, number, literals + number))
    return info.text, literals


def _losses(graph_text, count):
    """Which of the outputs of a graph, given by its text, are losses; of more than `count` the comparison tells.

    >>> _losses('output "train.output_0" %3 @FWD\\nloss "train.output_1" %20 @FWD\\n', 2)
    [1]
    """
    return [int(number) for number in re.findall(r'^loss ".*output_(\d+)" ', graph_text, re.M) if int(number) < count]


def end_trace(session, device, traced, index, known):
    """Compares a traced graph with the PEF's; {other name of a device tensor: its name} and {name: tensor} of what it has, its
    optimizers' values, and the modes.Modes of its model. `known` numbers optimizers."""
    info = ffi.new("samba_graph_info *")
    if index >= lib.samba_session_graph_count(device.c):
        raise errors.StateError(
            f"trace_multigraph: {device.pef} has {index} graphs, and each is traced once: {', '.join(device.graph_names)}"
        )
    device.context.check(lib.samba_session_graph_info(device.c, index, info))
    name = text(info.name)
    if traced.name not in ("", name):
        raise errors.StateError(
            f"trace_multigraph: graph {traced.name!r} was traced where {device.pef} has {name!r}: trace graphs in the "
            "order in which they "
            f"were added, {', '.join(device.graph_names)}"
        )
    check_mapped(device.pef, text(lib.samba_session_mapping(device.c, index)), traced.mapping)
    if not info.inference:
        check_hooks(f"trace_multigraph: graph {name!r}", traced.model)
    losses = traced.loss_indices if traced.name else _losses(text(info.text), len(traced.outputs))  # a module does not say
    ends = Ends(traced.kept, traced.outputs, frozenset(device.names("input"))) if info.inference else None
    tracer, outputs = forward_graph(
        traced.model,
        traced.inputs,
        losses,
        name,
        name,
        traced.prefix,
        known=session._owned.names(),
        ends=ends,
        legacy_names=session._legacy_names,
    )
    session._owned.check(f"trace_multigraph: graph {name!r}", tracer, device.tensors)
    try:
        session._compare(device, tracer, index)
    except errors.StateError as error:
        lost = [x.sn_name for x in outputs if f'"{x.sn_name}"' not in text(info.text) and x.sn_name not in tracer.regions.aliases]
        if not (info.inference and lost):
            raise
        raise errors.StateError(
            f"{error}; the PEF's graph has no output {lost[0]!r}: one that is memory of several graphs is given its "
            "sn_region_name between trace_multigraph and init_multigraph_runtime"
        ) from None
    tensors = session._owned.add(tracer, traced.model)
    for handle, its in zip(traced.outputs, outputs):
        handle.sn_name = its.sn_name
    for tensor in (*traced.outputs, *(x for x in trees.tensors(traced.inputs) if isinstance(x, SambaTensor))):
        tensors[tensor.sn_name] = tensor
    its = numbers(tracer, traced.optimizers, known)
    found = hyperparameters(tracer, listed(traced.optimizers), device, its) if traced.optimizers else {}
    stand = modes.of_graph(
        device, index, f"graph {name!r}", traced.model, tracer, traced.inputs, losses, name, name, traced.prefix, ends=ends
    )
    session._attributes.add(tracer, traced.model)
    return tracer.regions.aliases, tensors, found, stand
