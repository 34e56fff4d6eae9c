# SPDX-License-Identifier: Apache-2.0
"""Functions around a session: tracing beside a PEF, measuring, seeds, paths, ranks.

>>> import tempfile
>>> import sambaflow.samba as samba
>>> from sambaflow.samba.graph import FwdGraph
>>> set_seed(1)
>>> model, x = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.randn(4, 3, name="x")
>>> optim = samba.optim.SGD(model.parameters(), lr=0.1)
>>> with tempfile.TemporaryDirectory() as folder:
...     pef = samba.session.compile(model, (x,), optim, output_folder=folder)
...     outputs = trace_graph(model, (x,), optim, pef=pef)
>>> init_output_grads(outputs, customized_tensors_dict={"output_0": torch.full((4, 2), 0.5)})
>>> measured = measure_performance(model, (x,), n_iterations=2)  # doctest: +ELLIPSIS
latency    ... ms median, ... ms best
throughput ... samples/s
>>> measured["batch_size"]
4
>>> sections = measure_sections(model, (x,), n_iterations=2)  # doctest: +ELLIPSIS
section  type        median      best   share
...
>>> (get_rank(), get_world_size(), get_local_rank(), is_main_process(), get_file_dir("/data/x.csv"))
(0, 1, 0, True, '/data')
>>> samba.session.add_graph(FwdGraph(model, (x,), "line"))
>>> with tempfile.TemporaryDirectory() as folder:
...     pef = samba.session.compile_multigraph(output_folder=folder)
...     (traced,) = trace_multigraph(model, (x,))
...     samba.session.init_multigraph_runtime(pef)
>>> traced.sn_name
'line.output_0'
>>> samba.session.reset()
"""

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from sambaflow import launch
from sambaflow._core import ffi, lib
from sambaflow.runtime import replicas
from sambaflow.samba import _state, modes, output_grads, seeds, trees
from sambaflow.samba.arguments import DATA_PARALLEL_MODES, MAPPINGS
from sambaflow.samba.keywords import UNSAID_NORMAL, UNSAID_SECTION, exact
from sambaflow.samba.progress import watched
from sambaflow.samba.sambatensor import SambaTensor, from_torch_tensor
from sambaflow.samba.window import samples_in, samples_of
from sambaflow.words import encoded, text

if TYPE_CHECKING:
    from sambaflow.samba.graph import SambaGraph
    from sambaflow.samba.samba_session import SambaSession


def _of(session):
    """The session that a function was given; None is samba.session."""
    return _state.session if session is None else session


def trace_graph(
    model: torch.nn.Module,
    inputs: Any,
    optim: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    init_output_grads: bool = True,
    loss_indices: Sequence[int | Sequence[int]] | None = None,
    pef: str | os.PathLike[str] = "",
    mapping: str = UNSAID_SECTION,
    data_parallel_mode: str = UNSAID_NORMAL,
    transfer_device: bool = True,
    distlearn_config: str | os.PathLike[str] | None = None,
    *,
    session: "SambaSession | None" = None,
) -> list[SambaTensor]:
    """Loads the PEF, traces the model again and refuses a model that differs, moves weights, optimizer state and inputs to the
    device, and sets the gradients of outputs to what they begin with (init_output_grads); hyperparameters (lr ...) become those
    of `optim`. With `mapping` 'spatial' the PEF must be one that was compiled so. `data_parallel_mode` is that of runs with
    data_parallel. `distlearn_config`, the path of a file, says that this process is one of several replicas: runs are
    data_parallel then. What the file says is about another network and is not read: MPI knows who the replicas are.
    `session`: the SambaSession that runs it, by default samba.session.
    Returns the traced outputs, which are `model.output_tensors` too."""
    return _of(session).trace_graph(
        model, inputs, optim, init_output_grads, loss_indices, pef, transfer_device, mapping, data_parallel_mode, distlearn_config
    )


def trace_multigraph(
    graph: "SambaGraph | torch.nn.Module",
    inputs: Any,
    optimizers: Sequence[torch.optim.Optimizer] | None = None,
    init_output_grads: bool | None = None,
    mapping: str = "",
    trace_prefix: str | None = None,
    *,
    session: "SambaSession | None" = None,
) -> tuple[SambaTensor, ...]:
    """Traces a graph of a PEF that compile_multigraph made, once, in the order in which graphs were added: a SambaGraph, or the
    module that it was made of. session.init_multigraph_runtime then compares it with the PEF and sends weights, inputs and
    optimizer state to the device; where that was called before, this does. `init_output_grads` sets the gradients of outputs to
    what they begin with, when the PEF is there. `trace_prefix` stands before the paths of modules in messages.
    `session`: the SambaSession that runs it, by default samba.session.
    Returns the traced outputs, which are `output_tensors` of the module, too."""
    return _of(session).trace_multigraph(graph, inputs, optimizers, trace_prefix, mapping, init_output_grads)


def init_output_grads(
    output_tensors: Iterable[SambaTensor | str],
    unspecified_tensor_grad: Iterable[str] = (),
    customized_tensors_dict: Mapping[str, torch.Tensor] | None = None,
    is_variable_batch_size: bool = False,
    *,
    session: "SambaSession | None" = None,
) -> None:
    """Sets the gradients that the backward starts from, on the device. Those of `output_tensors` (tensors or names; those that
    have a gradient there) become what they begin with: zeros for an output from which another one is computed, else ones; losses
    begin with ones. Those of the names in `unspecified_tensor_grad` become ones, and `customized_tensors_dict` gives some by
    name. With `is_variable_batch_size` a given gradient may have fewer samples than the PEF:
    those that are missing count for nothing. `session`: whose device, by default samba.session's."""
    output_grads.start(_of(session), output_tensors, unspecified_tensor_grad, customized_tensors_dict, is_variable_batch_size)


def set_seed(seed: int, *, session: "SambaSession | None" = None) -> None:
    """Seeds Python's, NumPy's and torch's random numbers and those of `session`, by default samba.session, whose device starts
    over with them; from then on the session has this seed whatever torch.manual_seed is given."""
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy
    except ImportError:
        pass
    else:
        numpy.random.seed(seed % 2**32)
    seeds.choose(_of(session), seed)


def get_file_dir(path: str | os.PathLike[str]) -> str:
    """The folder of a file, absolute."""
    return os.path.dirname(os.path.abspath(path))


def get_rank() -> int:
    """This process among the replicas, which MPI has started: 0 where it is the only one."""
    return replicas().rank


def get_world_size() -> int:
    """How many replicas there are."""
    return replicas().size


def get_local_rank() -> int:
    """This process among the replicas of this machine."""
    return replicas().local_rank


def is_main_process() -> bool:
    """Whether this process reports for all."""
    return get_rank() == 0


def _measure(call, session, model, inputs, batch_size, inference, run_graph_only, n_iterations, graph_name):
    from sambaflow.samba.ports import host_tensor

    device = session.loaded()
    graph_name = session.graph_of(call, model, graph_name)
    tensors = [host_tensor(x, x.sn_name) for x in trees.tensors(inputs) if isinstance(x, SambaTensor)]
    options = ffi.new("samba_measure_options *", lib.samba_measure_defaults())
    pointers = ffi.new("samba_tensor *[]", [t.c for t in tensors])
    options.inputs, options.input_count = pointers, len(tensors)
    options.iterations, options.batch_size = n_iterations, batch_size or samples_of(call, inputs) or 0
    options.inference, options.run_graph_only = inference, run_graph_only
    options.train = modes.chosen(session._modes, not inference, graph_name)
    options.done = done = ffi.new("int64_t *")
    options.graph_name = name = ffi.NULL if graph_name is None else ffi.new("char[]", encoded(graph_name, "graph_name"))
    return (
        device,
        options,
        watched("measuring", n_iterations if n_iterations > 0 else None, lambda: done[0]),
        (tensors, pointers, name),
        graph_name,
    )


@exact
def measure_performance(
    model: torch.nn.Module | None,
    inputs: Any,
    batch_size: int | None = None,
    inference: bool = False,
    run_graph_only: bool = False,
    n_iterations: int = 100,
    graph_name: str | None = None,
    *,
    session: "SambaSession | None" = None,
) -> dict[str, float]:
    """Runs the PEF `n_iterations` times and prints throughput and latency, its progress to stderr; returns them as a dict.
    Training goes on meanwhile, as a run has it: a model that stands in eval() keeps its statistics. `model` is the one that was
    traced, or None: of several graphs it says which, or `graph_name` does, whose inputs these are. Throughput counts
    `batch_size` samples a run; None: the inputs' size in their batch_dim, or in their first dim. `session`: which, by default
    samba.session."""
    device, options, bar, _kept, _ = _measure(
        "measure_performance", _of(session), model, inputs, batch_size, inference, run_graph_only, n_iterations, graph_name
    )
    found = ffi.new("samba_performance *")
    with bar:
        device.context.check(lib.samba_measure_performance(device.context.c, device.c, options, found))
    result = {name: getattr(found, name) for name, _ in ffi.typeof(found[0]).fields}
    launch.say(f"latency    {result['median_ms']:.4g} ms median, {result['best_ms']:.4g} ms best")
    launch.say(f"throughput {result['samples_per_second']:.4g} samples/s")
    return result


@exact
def measure_sections(
    model: torch.nn.Module | None,
    inputs: Any,
    batch_size: int | None = None,
    num_sections: int | None = None,
    n_iterations: int = 100,
    inference: bool = False,
    graph_name: str | None = None,
    *,
    session: "SambaSession | None" = None,
) -> list[dict[str, Any]]:
    """Runs the sections one by one and prints the time of each, its progress to stderr; returns a list of dicts. `model`,
    `batch_size`, `graph_name` and `session` as of measure_performance. `num_sections`: how many are printed."""
    device, options, bar, _kept, graph_name = _measure(
        "measure_sections", _of(session), model, inputs, batch_size, inference, False, n_iterations, graph_name
    )
    count = lib.samba_session_section_count(device.c)
    times = ffi.new("samba_section_time[]", count)
    with bar:
        device.context.check(lib.samba_measure_sections(device.context.c, device.c, options, times))
    samples = options.batch_size or next((samples_in(x, "measure_sections") for x in trees.tensors(inputs) if x.dim()), 0)
    rows = [
        {
            "id": t.section.id,
            "type": text(t.section.type),
            "median_ms": t.median_ms,
            "best_ms": t.best_ms,
            "share": t.share,
            "samples_per_second": 1e3 * samples / t.median_ms if t.median_ms else 0.0,
        }
        for t in times
        if (graph_name is None or device.graph_names[t.section.graph] == graph_name)
        and (not inference or text(t.section.type) == "FWD")
    ]
    launch.say("section  type        median      best   share")
    for row in rows[:num_sections]:
        launch.say(f"{row['id']:7d}  {row['type']:8s} {row['median_ms']:7.4g} ms {row['best_ms']:6.4g} ms {row['share']:6.1%}")
    return rows


__all__ = [
    "DATA_PARALLEL_MODES",
    "MAPPINGS",
    "from_torch_tensor",
    "get_file_dir",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "init_output_grads",
    "is_main_process",
    "measure_performance",
    "measure_sections",
    "set_seed",
    "trace_graph",
    "trace_multigraph",
]
