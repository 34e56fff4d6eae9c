# SPDX-License-Identifier: Apache-2.0
"""The session of a program: compiles models, loads a PEF beside the model it was made of, runs its sections.

`samba.session` is the one that programs use. The device is behind `runtime.Session`; here names of the documents become its
calls.

>>> import tempfile
>>> import sambaflow.samba as samba
>>> model = samba.from_torch_model_(torch.nn.Linear(3, 2))
>>> x = samba.ones(4, 3, name="x")
>>> session = SambaSession()
>>> with tempfile.TemporaryDirectory() as folder:
...     pef = session.compile(model, (x,), samba.optim.SGD(model.parameters(), lr=0.1), output_folder=folder)
...     outputs = session.trace_graph(model, (x,), pef=pef)
>>> (y,) = session.run((x,), outputs)
>>> torch.allclose(y.torch(), torch.nn.functional.linear(x.torch(), model.weight.torch(), model.bias.torch()))
True
>>> session.get_section_types() == {"FWD", "BCKWD", "OPT"}
True
"""

import difflib
import functools
import inspect
import weakref

import torch

from sambaflow import errors, launch
from sambaflow._core import lib
from sambaflow.runtime import Session
from sambaflow.samba import (
    _state,
    changed,
    differences,
    exits,
    host_steps,
    lazy,
    modes,
    multigraph,
    never_given,
    nominal,
    output_grads,
    seeds,
    trees,
    window,
)
from sambaflow.samba import sizes as sizes_of
from sambaflow.samba.arguments import (
    DATA_PARALLEL_MODES,
    MAPPINGS,
    NO_CALLS,
    call_id,
    check_deprecated,
    check_distlearn,
    check_flag,
    check_hooks,
    check_mapped,
    check_mapping,
    listed,
    module,
    one_of,
    output_gradients,
)
from sambaflow.samba.arguments import optimizers as optimizer_list
from sambaflow.samba.arguments import section_ids as flat_ids
from sambaflow.samba.arguments import section_types as words
from sambaflow.samba.attributes import Attributes
from sambaflow.samba.auxiliary import Auxiliary
from sambaflow.samba.forward import forward_graph
from sambaflow.samba.keywords import UNSAID_FALSE, UNSAID_NORMAL, UNSAID_SECTION, exact, refuse_unknown
from sambaflow.samba.of_session import of_session
from sambaflow.samba.optimizers import check_owned, hyperparameters
from sambaflow.samba.owned import Owned
from sambaflow.samba.ports import Ports, host_tensor, inputs_of, name_of
from sambaflow.samba.profiling import Profiling
from sambaflow.samba.regions import last_of_each
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.saving import Saving
from sambaflow.samba.settings import PRECISIONS, Settings, written_to
from sambaflow.samba.starts import tell_starts, tell_unstepped, tell_untrained
from sambaflow.samba.switches import Switches
from sambaflow.samba.transfers import Transfers
from sambaflow.sambacollections import OrderedSet
from sambaflow.words import text

_grad_enabled = torch.is_grad_enabled
_PRECISIONS = dict(zip(PRECISIONS, (lib.SAMBA_FP32, lib.SAMBA_BF16)))


class SambaSession(Saving, Profiling, Transfers, Auxiliary, Switches):
    """Compiles and runs models. `pef_path`: a PEF to load at once."""

    def __init__(self, pef_path=""):
        self._ports = None
        self._device = None
        self._aliases = {}  # other names of device tensors, see regions.py
        self._owned = Owned()  # which tensors of models they are
        self._modes = {}  # graph's name -> Modes of its model
        if pef_path:
            self._use(Session(pef_path))
        self._traced = {}  # name -> SambaTensor
        self.graphs = {}  # name -> SambaGraph, as add_graph was given them
        self._several = []  # what trace_multigraph was given, in order
        self._optimizers = None  # {(id of an optimizer, number of a group): number in the PEF} of a PEF of several graphs
        self.seed, self._follows, self._draws = 0, seeds.Follows(), False  # whether the device draws random numbers
        self._rates = ()  # of host_steps
        self._doubts, self._watch, self._attributes = {}, None, Attributes()  # of changed.py, attributes.py
        self._forget_profiles()
        self._settings = Settings()
        self._all_off()
        self._forget_auxiliary()

    def setup(self, args):
        """Takes what a program's arguments say of sessions: `args` is a pydantic model, argparse's result, a dict, or anything
        with attributes, also in parts such as `args.run`. `pef` and `threads` are what trace_graph loads and gives the device
        where it is not told, `seed` is that of initial weights and dropout, `data_parallel`, `reduce_on_rdu` and
        `data_parallel_mode` are defaults of run; `reuse_inputs`, a list, are names of inputs that keep their values from step to
        step; `shard_optimizer` and `reduce_dtype` are how replicas train (docs/distributed.md); `mapping` is what compile and
        trace_graph go by; `inference`, `output_folder`, `pef_name`, `precision`, `grad_accumulation_steps`, `memory_budget` and
        `fast_memory` are defaults of compile. Other attributes are left alone. What was set up before is replaced. A command line
        needs no setup: parse_app_args tells the session, and what is set up wins over that."""
        self._settings.set_up(args)
        if "seed" in self._settings.of_setup:
            self._follows.give(self, self._settings.of_setup["seed"])

    def take_arguments(self, args, own=(), given=()):
        """What parse_app_args calls, so that compile and trace_graph obey the command line: its namespace, the names of options
        that the application has replaced, and of those that were given. reset forgets them."""
        self._settings.take(args, own, given)
        if self._settings.seed is not None:
            self._follows.give(self, self._settings.seed)

    def obeys(self, args):
        """Whether these are the arguments that take_arguments was given last."""
        return self._settings.is_taken(args)

    def __repr__(self):
        return f"SambaSession({'no PEF' if self._device is None else self._device})"

    def __reduce_ex__(self, protocol):
        raise errors.ArgumentTypeError(
            "a session cannot be copied or pickled: it is a device's memory; save() its weights and load them into a new one"
        )

    @of_session
    def reset(self, pef_path=""):
        """Forgets the PEF, its device memory, what was traced, set up and turned on, so that the session is as a new one; loads
        another PEF where one is given. What had no effect, and was told of, is told of again after a reset of samba.session."""
        self._drop_profile()
        self._owned.note_lost(self)
        if self._is_global:
            _state.reset()
        self._lazy.end()
        self.__init__(pef_path)

    def _use(self, device, aliases=None):
        if device is not self._device:
            self._forget_auxiliary()
        self._device, self._aliases = device, aliases or {}
        self._ports = Ports(device, self._aliases)
        self._draws = any(name.endswith(".seed") for name in device.hyperparameters)

    # ---- compiling ----

    @exact
    def compile(
        self,
        model,
        inputs,
        optimizers=None,
        name="",
        loss_indices=None,
        io_host_memory=None,
        *,
        inference=None,
        output_folder=None,
        pef_name=None,
        precision=None,
        grad_accumulation_steps=None,
        memory_budget=None,
        init_output_grads=None,
        app_dir=None,
        config_dict=None,
        pef_metadata=None,
        squeeze_bs_dim=False,
        mapping=None,
        fast_memory=None,
        data_parallel=None,
        graph_names=None,
        graph_transform_hook=None,
        dims=None,
        sizes=None,
    ):
        """Traces the model and writes `<output_folder>/<pef_name>/<pef_name>.pef`, whose path it returns. `name` is the graph's,
        and the PEF's where `pef_name` says nothing else. Of `inference`, `output_folder`, `pef_name`, `precision`,
        `grad_accumulation_steps`, `memory_budget`, `mapping`, `fast_memory` and `data_parallel` what is not given here is what
        `config_dict`, setup or the command line that parse_app_args read says (-p of its `compile` is the file to write), in this
        order; else training, "out", the name, "fp32", 1, no limits and one replica. `app_dir`, `config_dict` and `pef_metadata`
        are kept beside it for pef_utils.get_pefmeta; `init_output_grads` (see trace_graph), `squeeze_bs_dim` (a dim of 1 costs
        nothing here) and `io_host_memory` (the host's memory is the device's) have no effect, and a NoEffectWarning tells of one
        that is given. `graph_names` and `graph_transform_hook` are refused.

        `mapping` 'section' cuts the graph into sections that touch at most `fast_memory` bytes each (0: as much as
        there is), between modules where it can and never inside a directives.op_fusion; 'spatial' makes forward and backward one
        section, and refuses where it does not fit. Results are the same, bit by bit. `data_parallel`: gradients become the mean
        over all replicas that run it, in sections of type REDUCE.

        `dims`, {name: sizes} of the inputs' first dims in order, as {"batch": (32, 11), "length": (64, 128)}, or `sizes`, a list
        of further example inputs: the PEF has a graph for each size, over the same weights, and a run takes that of its inputs'
        shapes. Losses and norms are those of exactly these samples, so the last batch of an epoch is one more size."""
        check_deprecated("compile", graph_names=graph_names, graph_transform_hook=graph_transform_hook)
        _check_nominal(io_host_memory=io_host_memory, init_output_grads=init_output_grads, squeeze_bs_dim=squeeze_bs_dim)
        chosen = self._settings.chosen(
            "compile",
            config_dict,
            inference=inference,
            output_folder=output_folder,
            pef_name=pef_name,
            precision=precision,
            mapping=mapping,
            grad_accumulation_steps=grad_accumulation_steps,
            memory_budget=memory_budget,
            fast_memory=fast_memory,
            data_parallel=data_parallel,
        )
        file = self._settings.file_to_write("compile", config_dict, output_folder=output_folder, pef_name=pef_name)
        self._settings.check_batch("compile", inputs)
        examples = sizes_of.examples_of(inputs, dims, sizes)

        def write(folder, pef_name):
            return self._compile(
                model,
                inputs,
                optimizers,
                name,
                loss_indices,
                examples,
                (app_dir, config_dict, pef_metadata),
                **{**chosen, "output_folder": folder, "pef_name": pef_name},
            )

        return written_to(file, write) if file else write(chosen["output_folder"], chosen["pef_name"])

    def _compile(self, model, inputs, optimizers, name, loss_indices, examples, notes, **chosen):
        check_mapping("compile", chosen["mapping"])
        check_flag("compile", "data_parallel", chosen["data_parallel"])
        model = module("tracing", model)
        path = sizes_of.compile_model(model, inputs, optimizers, name, loss_indices, examples, self._legacy_names, **chosen)
        _write_notes(path, *notes)
        return path

    def trace_graph(
        self,
        model,
        inputs,
        optim=None,
        init_output_grads=True,
        loss_indices=None,
        pef="",
        transfer_device=True,
        mapping=UNSAID_SECTION,
        data_parallel_mode=UNSAID_NORMAL,
        distlearn_config=None,
    ):
        """See samba.utils.trace_graph, whose arguments these are."""
        check_flag("trace_graph", "init_output_grads", init_output_grads)
        check_flag("trace_graph", "transfer_device", transfer_device)
        check_mapping("trace_graph", mapping)
        optimizers = optimizer_list("trace_graph", optim)
        check_distlearn("trace_graph", distlearn_config)
        one_of("data_parallel_mode", data_parallel_mode, DATA_PARALLEL_MODES)
        model = module("tracing", model)
        self._settings.check_batch("trace_graph", inputs)
        tracer, outputs = forward_graph(model, inputs, loss_indices, "", legacy_names=self._legacy_names)
        check_owned("trace_graph", tracer, optimizers)
        pef = pef or self._settings.pef_to_run(self.is_loaded)
        if not pef and self._device is None:
            raise errors.ArgumentError("trace_graph: no PEF is given: pef= takes the path that compile gave")
        if pef:
            with self._profiler.event("SAMBA_SET_PEF"), self._profiler.event("SAMBA_INIT_RUNTIME"):
                self._follows.begin(self)
                device = self._settings.session(pef, self.seed, distlearn_config is not None)
        else:
            device = self._device
        if "BCKWD" in device.section_types:
            check_hooks("trace_graph", model)
            tell_starts(tracer, outputs, loss_indices)
            if optimizers and "OPT" not in device.section_types:
                tell_unstepped(device.pef)
        elif optimizers:
            tell_untrained(device.pef, device.is_inference(0))
        check_mapped(device.pef, device.mapping, self._settings.mapping(mapping))
        self._owned.check("trace_graph", tracer, device.tensors)
        own = sizes_of.graph_of(device, inputs)
        self._compare(device, tracer, own)
        stand = modes.of_graph(device, own, "the graph", model, tracer, inputs, loss_indices, "")
        sizes_of.compare_others(self, device, model, inputs, loss_indices, own)
        values = hyperparameters(tracer, optimizers, device) if optimizers else {}
        regions = {region: of for region, of in tracer.regions.names.items() if region not in device.tensors}
        if transfer_device and self.is_loaded:
            self._owned.warn_of_left(self, tracer)
        self._use(device, {**regions, **tracer.regions.aliases})  # from here on nothing is refused
        self._settings.traced(data_parallel_mode, distlearn_config is not None)
        self._several, self._optimizers, self._owned, self._modes = [], None, Owned(), stand
        self._traced = self._owned.add(tracer, model)
        for tensor in (*outputs, *(x for x in trees.tensors(inputs) if isinstance(x, SambaTensor))):
            self._traced[tensor.sn_name] = tensor
        self._own(self._traced)
        if transfer_device:
            self.to_device()
            self._send_optimizer_state(optim)
            never_given.watch(self._ports, inputs, self._settings.of_setup.get("reuse_inputs", ()))
        device.set_hyperparameters(values)
        host_steps.watch(self, optimizers, model)
        changed.watch(self)
        self._attributes = Attributes()
        self._attributes.add(tracer, model)
        for tensor in outputs:
            tensor._pef = device.pef
        model.output_tensors = outputs
        if init_output_grads:
            output_grads.start(self, outputs)
        return outputs

    @property
    def _is_global(self):
        """Whether it is samba.session."""
        return self is _state.session

    def _own(self, tensors):
        """They are this session's: sn_data, sn_grad, rdu and cpu mean its device. Inputs may lie in its pinned memory."""
        owner = None if self._is_global else weakref.ref(self)
        for name, tensor in tensors.items():
            tensor._session = owner
            if self._device.tensors.get(self._aliases.get(name, name), ("",))[0] == "input":
                self._fast_access.setdefault(name, True)

    def _compare(self, device, tracer, graph=0):
        compiled, literals = multigraph.compiled_graph(device, graph)
        try:
            tracer.compare(compiled, literals)
        except errors.StateError as error:
            said = differences.refusal(str(error), device.pef, modes.hint(tracer, text(compiled)))
            raise errors.StateError(said) from None

    # ---- several graphs ----

    def add_graph(self, graph, overwrite=False):
        """Adds a SambaGraph or FwdGraph to those that compile_multigraph compiles, behind the others; `session.graphs` has them
        by name. Names differ; with `overwrite` one of the same name is taken out."""
        multigraph.add(self.graphs, graph, overwrite)

    @exact
    def compile_multigraph(
        self,
        name="",
        samba_only=False,
        *,
        output_folder=None,
        pef_name=None,
        precision=None,
        grad_accumulation_steps=None,
        memory_budget=None,
        mapping=None,
        fast_memory=None,
        data_parallel=None,
        app_dir=None,
        config_dict=None,
        pef_metadata=None,
    ):
        """Compiles the graphs of add_graph, in their order, into one PEF, whose path it returns. The keywords are those of
        compile that are not a graph's own. With `samba_only` the graphs are traced and planned, nothing is written, and the
        result is None."""
        call = "compile_multigraph"
        chosen = self._settings.chosen(
            call,
            config_dict,
            output_folder=output_folder,
            pef_name=pef_name,
            precision=precision,
            mapping=mapping,
            inference=None,
            grad_accumulation_steps=grad_accumulation_steps,
            memory_budget=memory_budget,
            fast_memory=fast_memory,
            data_parallel=data_parallel,
        )
        file = self._settings.file_to_write(call, config_dict, output_folder=output_folder, pef_name=pef_name)
        self._settings.check_batch(call, [graph.inputs for graph in self.graphs.values()])
        one_of("precision", chosen["precision"], _PRECISIONS)
        check_mapping(call, chosen["mapping"])
        check_flag(call, "data_parallel", chosen["data_parallel"])
        trained = [graph.name for graph in self.graphs.values() if not graph.inference]
        if chosen["inference"] and trained:
            launch.warn(
                f"{call}: --inference has no effect on the graph {trained[0]!r}: a graph that is only run forward is a FwdGraph",
                errors.NoEffectWarning,
                stacklevel=3,
            )

        def write(folder, pef_name):
            path = multigraph.compile_all(
                self,
                self.graphs,
                name,
                folder,
                pef_name,
                _PRECISIONS[chosen["precision"]],
                chosen["grad_accumulation_steps"],
                chosen["memory_budget"],
                MAPPINGS.index(chosen["mapping"]),
                chosen["fast_memory"],
                chosen["data_parallel"],
                not samba_only,
            )
            if path is not None:
                _write_notes(path, app_dir, config_dict, pef_metadata)
            return path

        return written_to(file, write) if file and not samba_only else write(chosen["output_folder"], chosen["pef_name"])

    def trace_multigraph(self, graph, inputs, optimizers=None, trace_prefix="", mapping="", init_output_grads=None):
        """See samba.utils.trace_multigraph."""
        if mapping:
            check_mapping("trace_multigraph", mapping)
        check_flag("trace_multigraph", "init_output_grads", init_output_grads)
        if trace_prefix is not None and not isinstance(trace_prefix, str):
            raise errors.ArgumentTypeError(
                f"trace_multigraph: trace_prefix is {trace_prefix!r:.100}: expected a word, before paths of modules"
            )
        traced = multigraph.begin_trace(self, graph, inputs, optimizers, trace_prefix or "", mapping, bool(init_output_grads))
        if self._optimizers is not None:
            self._end_trace(traced, len(self._several), True)
        self._several.append(traced)
        return traced.outputs

    def init_multigraph_runtime(self, pef, transfer_device=True):
        """Loads a PEF of several graphs, compares it with what trace_multigraph was given, in the order in which graphs were
        added, and sends weights, inputs and optimizer state to the device, unless `transfer_device` is false.
        Graphs may be traced afterwards, too."""
        with self._profiler.event("SAMBA_SET_PEF"), self._profiler.event("SAMBA_INIT_RUNTIME"):
            self._follows.begin(self)
            device = self._settings.session(pef, self.seed)
        before = self._device, self._aliases, self._traced, self._optimizers, self._owned, self._modes
        try:
            self._traced, self._optimizers, self._owned, self._modes = {}, {}, Owned(), {}
            self._attributes = Attributes()
            self._use(device)
            for index, traced in enumerate(self._several):
                self._end_trace(traced, index, transfer_device)
        except Exception:
            device, aliases, self._traced, self._optimizers, self._owned, self._modes = before
            if device is not None:
                self._use(device, aliases)
            else:
                self._device = self._ports = None
            raise

    def _end_trace(self, traced, index, transfer):
        """A traced graph as the PEF's graph of that number."""
        aliases, tensors, values, stand = multigraph.end_trace(self, self._device, traced, index, self._optimizers)
        self._use(self._device, {**self._aliases, **aliases})
        self._traced.update(tensors)
        self._modes.update(stand)
        self._own(tensors)
        if transfer:
            self._send(tensors)
            self._send_optimizer_state(traced.optimizers)
        host_steps.watch(self, traced.optimizers)
        changed.watch(self)
        for tensor in traced.outputs:
            tensor._pef = self._device.pef
        if values:
            self._device.set_hyperparameters(values)
        if traced.sets_grads:
            output_grads.start(self, traced.outputs)
            if not any(self.has(f"{x.sn_name}.grad") for x in traced.outputs):
                name = traced.outputs[0].sn_name
                nominal.say(f"trace_multigraph: init_output_grads of {name!r}", ", since its graph is only run forward", 3)

    # ---- running ----

    @property
    def is_loaded(self):
        """Whether a PEF was traced: the device has its tensors."""
        return self._device is not None

    def loaded(self):
        """The runtime.Session of the PEF that was traced last."""
        if self._device is None:
            raise errors.StateError("no PEF is loaded: call samba.utils.trace_graph(model, inputs, optim, pef=...) first")
        return self._device

    def _run(
        self,
        input_tensors=None,
        output_tensors=(),
        hyperparam_dict=None,
        data_parallel=UNSAID_FALSE,
        reduce_on_rdu=UNSAID_FALSE,
        section_ids=(),
        section_types=(),
        run_until_call_id=None,
        run_from_call_id=None,
        data_parallel_mode=UNSAID_NORMAL,
        train=True,
        grad_of_outputs=None,
        graph_name=None,
        reuse_inputs=(),
    ):
        """Runs sections of the PEF; returns the outputs that were asked for.

        `section_types`, any case, or `section_ids`, nested as you like, say which sections run, in the order given; without them
        the schedule does, from the call `run_from_call_id` up to `run_until_call_id`, which is not run: [0, k) and [k, end) one
        after the other are the whole. `grad_of_outputs` is what the backward starts from, {output's name: gradient} or in the
        order of the outputs, and stays, as do hyperparameters. Wrong arguments change nothing.

        `train` True: as the model stands, in train() or eval(). In eval(), or with False, every dropout rate is 0 for this run,
        and norms take their running statistics, which stay; else all trains that stood in train() when it was traced. Modes that
        the graph cannot follow, a part in eval() that stood in train(), are a StateError that names the module.

        A run of FWD that is given some of its inputs is given all of them, since another would keep the last batch's values. One
        that is to keep them, a mask that was given once, is named in `reuse_inputs`, once, by name or as a tensor, or in `setup`.
        Inputs that trace_graph has sent with their values keep these until a run is given others; the first run that trains
        warns of those that it is not given. A run that is given no input computes over what the device has.

        A module may come before all of these, as programs of the documents have it.

        `data_parallel`: this process is one of the replicas that MPI has started, all of which run alike, each with a batch of
        its own, and average their gradients (REDUCE). `data_parallel_mode` 'normal' runs sections in the schedule's order,
        'inorder' has gradients travel while others are made, 'optimal' begins updates whose gradients have come, too. Results are
        the same bits. `reduce_on_rdu` changes none here: the device's memory is the host's."""
        device, calls, gradients, replicas = self._device or self.loaded(), NO_CALLS, (), None
        train = modes.chosen(self._modes, train, graph_name)
        if data_parallel or reduce_on_rdu or data_parallel_mode != "normal" or self._settings.of_replicas:
            replicas = self._settings.replicas(data_parallel, reduce_on_rdu, data_parallel_mode)
        if run_from_call_id is not None or run_until_call_id is not None:
            calls = call_id("run_from_call_id", run_from_call_id), call_id("run_until_call_id", run_until_call_id)
        if section_types.__class__ is not tuple or section_types:
            section_types = tuple(words(section_types))
        if section_ids.__class__ is not tuple or section_ids:  # a single 0 is one, too
            section_ids = tuple(flat_ids(section_ids))
        if grad_of_outputs is not None:
            given = output_gradients(grad_of_outputs, device.outputs_of(graph_name))
            gradients = [host_tensor(grad, f"{name}.grad") for name, grad in given.items()]
        if self._draws:
            self._follows.follow(self)
        if train:
            self._owned.runs += 1
        if self._attributes.modules:
            self._attributes.look(device)
        if self._doubts:
            changed.tell(self)
        if not _grad_enabled() and train:
            changed.tell_no_grad(self, section_types)
        if self._rates:
            self._rates = host_steps.checked(self._rates, hyperparam_dict, section_types, section_ids, device)
        inputs = input_tensors if input_tensors.__class__ is tuple else listed(input_tensors)
        for x in inputs:
            if x.__class__ is not SambaTensor:  # nested, or a parameter
                inputs = inputs_of(input_tensors)
                break
        if self._aliases:
            inputs = last_of_each(inputs, self._aliases)
        outputs = output_tensors if output_tensors.__class__ is tuple else listed(output_tensors)
        reuse = () if reuse_inputs.__class__ is tuple and not reuse_inputs else self._names_of(reuse_inputs)
        if replicas and not device.is_shared:
            with self._profiler.event("PyRT_SET_TENSORS_BROADCAST"):
                device.share()
        run = inputs, outputs, hyperparam_dict, section_types, section_ids, train, calls, gradients, graph_name, replicas, reuse
        if self._profiler.enabled:
            with self._profiler.event("PyRT_RUN"):
                return self._ports.run(*run)
        return self._ports.run(*run)

    @functools.wraps(_run)
    def run(self, *args, **kwargs):
        if args and args[0].__class__ is not tuple and isinstance(args[0], torch.nn.Module):
            args = args[1:]
        if not self._profiler.enabled:
            try:
                return self._run(*args, **kwargs)
            except TypeError:
                refuse_unknown(kwargs, self.run)  # which may be why
                raise
        refuse_unknown(kwargs, self.run)
        given = kwargs.get("section_types", args[_TYPES_OF_RUN] if len(args) > _TYPES_OF_RUN else ())
        with self._profiler.event("SAMBA_SESSION_RUN" + "".join(f"_{word.upper()}" for word in words(given))):
            return self._run(*args, **kwargs)

    run.__name__, run.__qualname__ = "run", "SambaSession.run"

    def _names_of(self, given):
        """What the device calls inputs that are given by name or as tensors."""
        names = [x if isinstance(x, str) else name_of(x, "an input of reuse_inputs") for x in listed(given)]
        return [self._aliases.get(name, name) for name in names]

    def run_window(self, batches, output_tensors=(), hyperparam_dict=None):
        """One step of the optimizer over these batches, inputs as run takes them: as many as grad_accumulation_steps of compile,
        or fewer, such as the last of an epoch, and of any sizes that the PEF has. Losses have to be means over samples: gradients
        are those of the mean over all samples of the window. Returns what run returns for each batch."""
        return window.run_window(self, batches, output_tensors, hyperparam_dict)

    def trains(self, train=True, graph_name=None):
        """Whether a run that is given these would train: with True as the graph's model stands."""
        if graph_name is not None and graph_name not in self._modes:
            known = ", ".join(name for name in self._modes if name is not None)
            raise errors.UnknownNameError(f"trains: no graph {graph_name!r:.100} was traced; there are: {known or 'none'}")
        return modes.chosen(self._modes, train, graph_name)

    def graph_of(self, call, model, graph_name=None):
        """The name of the graph that a call means by the traced model; None: the only one. Another model is a StateError."""
        return modes.graph_of(self._modes, call, model, graph_name)

    # ---- host and device ----

    def has(self, name):
        """Whether the device has a tensor of that name."""
        return self._device is not None and self._aliases.get(name, name) in self._device.tensors

    def has_traced(self, tensor):
        """Whether it is a tensor of what this session has traced last."""
        return self._owned.has(tensor) or self._traced.get(tensor.sn_name) is tensor

    def start_of(self, output):
        """What the gradient of an output, by its name, starts from: 1.0, 0.0, or NaN where it has none."""
        return self.loaded().start(self._aliases.get(output, output))

    def device_get(self, name):
        """A copy of device memory as a torch tensor."""
        if name in self._auxiliary:
            return self._auxiliary[name].clone()
        device, name = self.loaded(), self._aliases.get(name, name)
        if name not in device.tensors:
            near = difflib.get_close_matches(name, device.tensors, 1)
            if name.endswith(".grad") and device.tensors.get(name[: -len(".grad")], ("",))[0] == "input":
                raise errors.UnknownNameError(
                    f"the device has no {name!r}, the gradient of an input: only those of parameters are computed. Give "
                    "torch.autograd.grad in forward as an output, or make the input a parameter"
                )
            hint = f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(device.tensors):.1000}"
            raise errors.UnknownNameError(f"the device has no tensor {name!r}{hint}")
        _, dtype, shape = device.tensors[name]
        held = torch.empty(shape, dtype=getattr(torch, dtype))
        with self._profiler.event("PyRT_GET_TENSORS"):
            device.get(host_tensor(held, name))
        return held

    def device_set(self, name, tensor):
        """Copies a host tensor to the device."""
        if name in self._auxiliary:
            return self._set_auxiliary(name, tensor)
        device = self.loaded()
        with self._profiler.event("PyRT_SET_TENSORS"):
            device.set(host_tensor(lazy.values_once(tensor), self._aliases.get(name, name)))
        if name in self._traced:
            self._owned.settle(self._traced[name])

    def to_device(self):
        """Sends all traced tensors that have values to the device."""
        self.loaded()
        self._send(self._traced)

    def _send(self, tensors):
        for name, tensor in tensors.items():
            if (
                (tensor.has_data or tensor.materializer_provided)
                and self.has(name)
                and self._device.tensors[self._aliases.get(name, name)][0] != "output"
            ):
                self.device_set(name, tensor)
                self._owned.is_alike(tensor)

    @staticmethod
    def use_abexit(func, *args, **kwargs):
        """Runs func(*args, **kwargs), usually main, as the whole rest of the program, and ends the process when it ends: handlers
        given to atexit_register run, those of Python's atexit do not. The exit status is 0, what sys.exit was given, or 1 after
        an exception, which is printed. Where it is one of several replicas, a status that is not 0 ends all of them at once, and
        the exception is printed with this one's number. Does not return."""
        exits.run(func, args, kwargs)

    @staticmethod
    def atexit_register(func, *args, **kwargs):
        """Has func(*args, **kwargs) called when the program ends, as usual or by use_abexit;
        what was registered last runs first."""
        exits.register(func, *args, **kwargs)

    def reset_random_generator(self):
        """Random numbers start over, from the seed of utils.set_seed: masks of dropout, also of dropouts that were given a seed,
        as right after trace_graph."""
        if self._device is not None:
            self._device.reset_random(self.seed)
        self._lazy.restart()

    # ---- what the PEF has ----

    def get_argin_names(self):
        """Names of hyperparameters."""
        return OrderedSet(self.loaded().hyperparameters)

    def get_dropout_rate_argin_names(self):
        """Those of dropout rates."""
        return [name for name in self.loaded().hyperparameters if name.endswith(".p")]

    def get_dropout_seed_argin_names(self):
        """Those of dropout seeds."""
        return [name for name in self.loaded().hyperparameters if name.endswith(".seed")]

    def get_section_types(self):
        """Types of sections."""
        return set(self.loaded().section_types)

    def get_weight_names(self):
        """Names of parameters."""
        return self.loaded().names("parameter")

    def get_samba_tensor_by_name(self, name):
        """The traced tensor of a name."""
        if name not in self._traced:
            raise errors.UnknownNameError(f"no traced tensor is named {name!r}; there are {', '.join(sorted(self._traced))}")
        return self._traced[name]

    def get_tensors_by_name(self, names):
        """Copies of device tensors, by their names or by names of regions."""
        return tuple(SambaTensor(self.device_get(name), name=name) for name in listed(names))

    def get_tensors(self, samba_tensors):
        """The same for tensors on the host."""
        return self.get_tensors_by_name([name_of(tensor, "a tensor of get_tensors") for tensor in samba_tensors])


def _write_notes(path, *notes):
    from sambaflow.samba.utils.pef_utils import write_notes  # what is in utils knows sessions

    write_notes(path, *notes)


def _check_nominal(**given):
    """What compile takes and a CPU has no use for."""
    for name, value in given.items():
        check_flag("compile", name, value)
        if value:
            nominal.say(f"compile: {name}", _WHY[name], stacklevel=4)


_WHY = {
    "io_host_memory": ", whose memory is the host's",
    "init_output_grads": ": trace_graph has it, and session.run grad_of_outputs",
    "squeeze_bs_dim": ", where a dim of 1 costs nothing",
}
_TYPES_OF_RUN = list(inspect.signature(SambaSession._run).parameters).index("section_types") - 1
