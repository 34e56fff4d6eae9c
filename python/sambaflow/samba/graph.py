# SPDX-License-Identifier: Apache-2.0
"""Graphs as objects: a model with the inputs and optimizers it is compiled for, and the operators that tracing makes of it."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from sambaflow._core import ffi, lib
from sambaflow.errors import ArgumentError, UnsupportedError
from sambaflow.runtime import DTYPE_NAMES
from sambaflow.samba import trees
from sambaflow.samba.arguments import listed, module
from sambaflow.samba.attributes import taken
from sambaflow.samba.forward import Ends, forward_graph
from sambaflow.words import text

if TYPE_CHECKING:
    from sambaflow.samba.sambatensor import SambaTensor


class Operator(NamedTuple):
    """One node: an operator, or a leaf ("input", "parameter", "state", "constant" ...)."""

    name: str  # of a leaf that has one; else "%12", its number in the graph's text
    op: str
    shape: tuple[int, ...]
    dtype: str
    inputs: tuple[str, ...]  # names
    phase: str  # "FWD"; "" for leaves
    module: str  # "encoder.layers.0"
    source: str  # "model.py:42"
    fusion: str  # name of directives.op_fusion


def operators(graph: Any) -> list[Operator]:
    """The Operators of `graph`, a samba_graph of C, in order."""
    info, names, found = ffi.new("samba_node_info *"), [], []
    for i in range(lib.samba_graph_node_count(graph)):
        lib.samba_graph_node(graph, i, info)
        names.append(text(info.name) or f"%{i}")
        inputs = tuple(names[k] for k in info.inputs[0 : info.input_count])
        place = (text(info.module), text(info.source), text(info.fusion))
        found.append(
            Operator(
                names[i],
                text(info.op),
                tuple(info.shape[0 : info.rank]),
                DTYPE_NAMES[info.dtype],
                inputs,
                text(info.phase),
                *place,
            )
        )
    return found


class SambaGraph:
    """A model, the inputs it is traced with and the optimizers that train it: what a session compiles under one name.

    ``str(graph)`` is the graph's text, iterating gives its Operators and `output_tensors` the traced outputs; each traces the
    model once, when first asked for. `inputs` is a tuple, a list or, for keyword arguments, a dict.
    `loss_indices` are numbers of outputs, as compile takes them.

    >>> import torch
    >>> import sambaflow.samba as samba
    >>> from sambaflow.samba.graph import SambaGraph
    >>> model = samba.from_torch_model(torch.nn.Linear(3, 2))
    >>> graph = SambaGraph(model, (samba.randn(4, 3, name="x"),), samba.optim.SGD(model.parameters(), lr=0.1), name="line")
    >>> [(o.op, o.shape) for o in graph if o.phase]
    [('permute', (3, 2)), ('matmul', (4, 2)), ('add', (4, 2))]
    >>> str(graph).splitlines()[0]
    'graph "line"'
    """

    model: torch.nn.Module
    inputs: Any
    optimizers: list[torch.optim.Optimizer]
    name: str
    loss_indices: Iterable[Any] | None

    inference: bool = False

    def __init__(
        self,
        model: torch.nn.Module,
        inputs: Any,
        optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
        name: str = "",
        loss_indices: Iterable[Any] | None = None,
    ) -> None:
        self.model = module(type(self).__name__, model)
        self.inputs = inputs
        self.optimizers = listed(optimizers)
        self.name = name or type(model).__name__
        self.loss_indices = loss_indices
        self.attributes = taken(self.model)
        self._traced = self._handles = self._kept = None

    def traced_as(self, outputs: "Iterable[SambaTensor]") -> None:
        """trace_multigraph has traced it: `outputs` are what it gave, of which region names may be set."""
        self._handles = tuple(outputs)

    def ends(self, graphs: "Iterable[SambaGraph]") -> Any:
        """What is known of its outputs, where it is one of these graphs."""
        shared = [x for x in self._handles or () if x._sn_region_name]
        if shared and not self.inference:
            raise UnsupportedError(
                f"graph {self.name!r} has a backward pass, and its output {shared[0].sn_name!r} the region name "
                f"{shared[0].sn_region_name!r}: outputs of graphs that are only run forward, FwdGraph, share memory"
            )
        wanted = frozenset(x.sn_region_name for graph in graphs for x in trees.tensors(graph.inputs) if hasattr(x, "sn_name"))
        return Ends(self._kept, self._handles or (), wanted) if self.inference else None

    def _trace(self):
        if self._traced is None:
            tracer, outputs = forward_graph(self.model, self.inputs, self.loss_indices, self.name, may_train=not self.inference)
            tracer.prune()
            self._traced = tracer, tuple(outputs)
        return self._traced

    @property
    def output_tensors(self) -> "tuple[SambaTensor, ...]":
        """The traced outputs: named tensors with shapes and no values; those of trace_multigraph where it was called."""
        return self._trace()[1] if self._handles is None else self._handles

    def __str__(self):
        return self._trace()[0].print()

    def __iter__(self) -> Iterator[Operator]:
        return iter(operators(self._trace()[0].graph))

    def __len__(self) -> int:
        return lib.samba_graph_node_count(self._trace()[0].graph)

    def __repr__(self):
        trained = f", {len(self.optimizers)} optimizers" if self.optimizers else ""
        return f"{type(self).__name__}(name={self.name!r}, model={type(self.model).__name__}{trained})"


class FwdGraph(SambaGraph):
    """A graph that is only run forward: it has no optimizers and no gradients.

    FwdGraph(model, inputs, name) is traced when it is compiled. `optimizers` has to be None, and
    `loss_indices` is as of SambaGraph. FwdGraph(inputs, outputs, name) is what trace_multigraph has traced: `outputs` are what it
    gave for these inputs, or some of them, and the graph has no others.

    >>> import torch
    >>> import sambaflow.samba as samba
    >>> from sambaflow.samba.graph import FwdGraph
    >>> from sambaflow.samba.utils import trace_multigraph
    >>> len(FwdGraph(torch.nn.ReLU(), (samba.randn(4, name="x"),)))
    2
    >>> inputs = (samba.randn(4, name="x"),)
    >>> outputs = trace_multigraph(torch.nn.ReLU(), inputs)
    >>> FwdGraph(inputs, outputs, "line").output_tensors[0].sn_name
    'line.output_0'
    >>> samba.session.reset()
    """

    inference = True

    def __init__(
        self, model: Any, inputs: Any, name: str = "", optimizers: None = None, loss_indices: Iterable[Any] | None = None
    ) -> None:
        if optimizers:
            raise ArgumentError("FwdGraph: a graph that is only run forward has no optimizers: take SambaGraph")
        if isinstance(model, (dict, list, tuple)) or hasattr(model, "sn_name"):
            found = _traced_of(model, inputs)
            super().__init__(found.model, found.inputs, None, name or found.name or type(found.model).__name__, loss_indices)
            self._kept = found.become(self.name, trees.tensors(inputs))
            self.traced_as(found.outputs)
        else:
            super().__init__(model, inputs, None, name, loss_indices)


def _traced_of(inputs, outputs):
    """What trace_multigraph has noted of tensors that it gave, for these inputs."""
    notes = [getattr(x, "_noted", None) for x in trees.tensors(outputs)]
    if not notes or any(note is None or note is not notes[0] for note in notes):
        raise ArgumentError(
            "FwdGraph: expected FwdGraph(model, inputs, name), or inputs and what trace_multigraph(model, inputs) gave for them"
        )
    given, known = trees.tensors(inputs), trees.tensors(notes[0].inputs)
    if len(given) != len(known) or any(x is not y for x, y in zip(given, known)):
        names = ", ".join(getattr(x, "sn_name", "") or "one without a name" for x in known)
        raise ArgumentError(f"FwdGraph: these outputs were traced of other inputs: {names}")
    return notes[0]
