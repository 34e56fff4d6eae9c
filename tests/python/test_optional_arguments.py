# SPDX-License-Identifier: Apache-2.0
"""No argument without effect: each optional argument of every public function, given a value that is drawn, changes what can be
seen of the call, is refused, or is told of by a NoEffectWarning that names it. A parameter that has no line in VALUES fails."""

import contextlib
import hashlib
import inspect
import io
import json
import os
import random
import re
import warnings

import pytest
import safetensors.torch
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba import convert, lazy_param, materializers, sambatensor
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.profiler import Profiler
from sambaflow.samba.sambaloader import ReplicaBatches, SambaLoader
from sambaflow.samba.utils import argparser, checkpoint, common, pef_utils

SEED = int(os.environ.get("SAMBAFLOW_SEED", "1"))
nn = torch.nn


# ---- what calls are made in, and what is seen of them ----


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.drop, self.norm = nn.Linear(3, 2), nn.Dropout(0.5), nn.BatchNorm1d(2)

    def forward(self, x, mask):
        logits = self.drop(self.norm(self.lin(x))) * mask
        return logits.square().mean(), logits


class World:
    """A model with inputs and an optimizer, and what a session does with them; one for each call."""

    def __init__(self, folder):
        torch.manual_seed(5)
        samba.session.reset()
        self.folder = str(folder)
        self.session, self.other = samba.session, samba.SambaSession()
        self.model = samba.from_torch_model_(Net())
        self.x, self.mask = samba.randn(4, 3, name="x"), samba.ones(4, 1, name="mask")
        self.inputs = (self.x, self.mask)
        self.optim = samba.optim.SGD(self.model.parameters(), lr=0.1)

    def compiled(self, session=None, **options):
        options = {"output_folder": self.folder, "pef_name": "base", **options}
        return (session or self.session).compile(self.model, self.inputs, self.optim, **options)

    def traced(self, **options):
        self.outputs = self.session.trace_graph(self.model, self.inputs, self.optim, pef=self.compiled(**options))
        return self

    def forward_pef(self, name="forward"):
        return self.session.compile(self.model, self.inputs, inference=True, output_folder=self.folder, pef_name=name)

    def files(self):
        """What is written, but for what names the folder and for times."""
        found = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    data = file.read().replace(self.folder.encode(), b"")
                if path.endswith((".log", ".txt", ".html")):
                    data = re.sub(rb"[0-9.]+", b"", data)
                found[os.path.relpath(path, self.folder)] = hashlib.sha256(data).hexdigest()
        return found


def seen(x, depth=0):
    """A value as text."""
    if isinstance(x, samba.SambaTensor):
        values = x.torch_tensor().tolist() if x.has_data or x.materializer_provided else None
        shown = tuple(x.shape), str(x.dtype), x.sn_name, x.sn_region_name, x.batch_dim, x.requires_grad, values
        return f"{type(x).__name__}{shown}"
    if isinstance(x, torch.Tensor):
        return f"tensor({x.tolist()}, {x.dtype}, {x.requires_grad})"
    if isinstance(x, dict):
        return str({seen(k): seen(v) for k, v in x.items()})
    if isinstance(x, (list, tuple, set)):
        return str([seen(y) for y in x])
    if isinstance(x, nn.Module):
        return seen(dict(x.state_dict()))
    return re.sub(r" at 0x\w+", "", str(x))


def of_device(session):
    """What a session's device has, and what was said of its runs."""
    if not session.is_loaded:
        return "nothing"
    device, settings = session.loaded(), session._settings
    names = [name for name, (kind, *_) in device.tensors.items() if kind in ("parameter", "buffer", "state", "input")]
    grads = [f"{name}.grad" for name in device.names("output") if session.has(f"{name}.grad")]
    held = {name: seen(session.device_get(name)) for name in (*names, *grads) if session.has(name)}
    told = settings.of_replicas, settings._mode, session._fast_access, device.hyperparameters
    return str((os.path.basename(device.pef), device.mapping, held, told, sorted(session._traced)))


CALLS = {}  # name -> function(world, **given), which returns what is seen
VALUES = {}  # name -> {parameter: [values]}; a value may be a function of the world
OF = {}  # name -> the function


def of_world(function):
    """A value that is made for each call."""
    function.of_world = True
    return function


def call(name, function, /, **values):
    """Decorator of the call. `values` lists those of each optional parameter."""

    def register(run):
        CALLS[name], VALUES[name], OF[name] = run, values, function
        return run

    return register


W = of_world
T = torch.arange(6.0).reshape(2, 3)
OF_TENSOR = dict(name=["n", "m"], batch_dim=[0, 1, 7], region_name=["r"])
LOADER = W(lambda w: SambaLoader([T], ["x"]))
SCHEDULER = W(lambda w: torch.optim.lr_scheduler.StepLR(torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1), 2))
DIMS = dict(named_dims=[("a", "b"), ["a", None]], sized_dims=[(None, "b")])


def same(function):
    return lambda w, *args, **given: seen(function(*args, **given))


call(
    "SambaTensor",
    samba.SambaTensor,
    torch_tensor=[torch.ones(2), 3],
    shape=[(2,)],
    dtype=[torch.float64],
    materializer=[lambda shape: torch.ones(shape), 3],
    is_complex=[True],
    **OF_TENSOR,
    **DIMS,
)(lambda w, **given: seen(samba.SambaTensor(**{"shape": (2, 3), "materializer": torch.zeros, **given})))
call(
    "SambaParameter",
    samba.SambaParameter,
    torch_tensor=[torch.ones(2), 3],
    requires_grad=[False],
    shape=[(2,)],
    dtype=[torch.float64],
    materializer=[lambda shape: torch.ones(shape)],
    **OF_TENSOR,
)(lambda w, **given: seen(samba.SambaParameter(**{"shape": (2, 3), "materializer": torch.zeros, **given})))
for name in ("from_torch_tensor", "from_torch_tensor_"):
    call(name, getattr(samba, name), **OF_TENSOR, **DIMS)(
        lambda w, name=name, **given: seen(getattr(samba, name)(T.clone(), **given))
    )
for name in ("from_torch", "from_torch_"):
    call(name, getattr(samba, name), **OF_TENSOR)(lambda w, name=name, **given: seen(getattr(samba, name)(T.clone(), **given)))
call("from_numpy", samba.from_numpy, **OF_TENSOR)(lambda w, **given: seen(samba.from_numpy(T.numpy().copy(), **given)))
call("from_dlpack", samba.from_dlpack, **OF_TENSOR)(lambda w, **given: seen(samba.from_dlpack(T.numpy().copy(), **given)))
for name, size in dict(zeros=(2, 3), ones=(2, 3), empty=(0, 3), full=((2, 3), 7), randn=(2, 3), rand=(2, 3), arange=(6,)).items():
    values = {**OF_TENSOR, "batch_dim": [0, 7]}
    call(name, getattr(samba, name), **values)(
        lambda w, name=name, size=size, **given: seen(getattr(samba, name)(*size, **given))
    )
call("randint", samba.randint, **OF_TENSOR)(lambda w, **given: seen(samba.randint(9, (2, 3), **given)))
for name in ("new_empty", "new_zeros", "new_ones"):
    values = dict(dtype=[torch.float64], requires_grad=[True], device=["meta", "cuda:0", "nowhere"])
    call(name, None, **values)(lambda w, name=name, **given: seen(getattr(w.x, name)((0, 2), **given)))
call("new_full", samba.SambaTensor.new_full, dtype=[torch.float64], requires_grad=[True], device=["meta", "cuda"])(
    lambda w, **given: seen(w.x.new_full((2,), 3, **given))
)


@call("mem_type", None, mem_type=["DDR", "HBM", "Host", "SRAM"])
def _mem_type(w, mem_type=None):
    w.x.mem_type = mem_type
    return ""


@call("fast_access", None, fast_access=[False])
def _fast_access(w, fast_access=True):
    w.traced().x.fast_access = fast_access
    return seen([w.session.pin((w.x,))[0] is w.x])


@call("fast_access of a parameter", None, fast_access=[True])
def _fast_access_of_a_parameter(w, fast_access=False):
    w.traced().model.lin.weight.fast_access = fast_access
    return ""


call("cpu", samba.SambaTensor.cpu, inplace=[True])(
    lambda w, **given: (ptr := w.traced().model.lin.weight.data_ptr()) == w.model.lin.weight.cpu(**given).data_ptr() and ptr > 0
)

LAZY = dict(
    seed=[2, 3, "x"],
    inverse_transform_sampling=[True],
    fp32_to_bf16_rounding=["truncation", "up"],
    init_threads=[0, "x"],  # how many threads there are is seen in no value
)


def _normal(dtype=torch.bfloat16):
    layer = nn.Linear(9, 9, dtype=dtype)
    with torch.no_grad():
        nn.init.normal_(layer.weight)
    return seen(layer.weight)


@call("enable_lazy_param", samba.SambaSession.enable_lazy_param, **LAZY)
def _enable_lazy_param(w, **given):
    w.session.enable_lazy_param(**{"seed": 1, **given})
    return _normal()


@call("lazy_param", lazy_param.lazy_param, session=[W(lambda w: w.other)], **LAZY)
def _lazy_param(w, **given):
    with samba.lazy_param(**{"seed": 1, **given}):
        return _normal() + str(w.session.use_lazy_param())


for name in ("RNGProvider", "RNGProviderFactory"):

    @call(name, getattr(lazy_param, name), **LAZY)
    def _provider(w, name=name, **given):
        made = getattr(lazy_param, name)(**{"seed": 1, **given})
        made = made if name == "RNGProvider" else made("a")
        return seen(made.rng().normal(size=(99,), dtype=torch.bfloat16))


for name, values in dict(
    normal_=dict(mean=[1.0], std=[2.0]),
    uniform_=dict(low=[-1.0], high=[2.0]),
    trunc_normal_=dict(mean=[1.0], std=[2.0], a=[-1.0], b=[1.0]),
).items():
    call(name, getattr(materializers.MultithreadedRNG, name), **values)(
        lambda w, name=name, **given: seen(getattr(lazy_param.RNGProvider(1).rng(), name)(torch.empty(50), **given))
    )
    if name != "trunc_normal_":
        values = dict(values, size=[(3,)], dtype=[torch.float64])
        call(name[:-1], getattr(materializers.MultithreadedRNG, name[:-1]), **values)(
            lambda w, name=name, **given: seen(getattr(lazy_param.RNGProvider(1).rng(), name[:-1])(**{"size": (50,), **given}))
        )
call("materializers.rng", materializers.rng, session=[W(lambda w: w.other)])(
    lambda w, **given: (setattr(w.other, "seed", 4), seen(materializers.rng(**given).uniform(size=(3,))))[1]
)


# ---- compiling and tracing ----

OF_FILES = dict(
    output_folder=[W(lambda w: os.path.join(w.folder, "elsewhere"))],
    pef_name=["other", 3],
    precision=["bf16", "fp8"],
    grad_accumulation_steps=[2, 0],
    memory_budget=[100, -1],
    mapping=["spatial", "other"],
    fast_memory=[200, -1],
    data_parallel=[True, "yes"],
    app_dir=["here"],
    config_dict=[{"precision": "bf16"}, {"width": 3}],
    pef_metadata=[{"a": 1}],
)
OF_COMPILE = dict(
    name=["named"],
    loss_indices=[[1], [7]],
    io_host_memory=[True],
    inference=[True],
    init_output_grads=[True],
    squeeze_bs_dim=[True],
    graph_names=[["a"]],
    graph_transform_hook=[len],
    dims=[{"batch": (4, 2)}, {"batch": (5,)}],
    sizes=[W(lambda w: [(samba.ones(2, 3, name="x"), samba.ones(2, 1, name="mask"))])],
    **OF_FILES,
)


@call("compile", samba.SambaSession.compile, optimizers=[W(lambda w: w.optim)], **OF_COMPILE)
def _compile(w, **given):
    w.session.compile(w.model, w.inputs, **{"output_folder": w.folder, **given})
    return seen(w.files())


@call("compile_multigraph", samba.SambaSession.compile_multigraph, name=["named"], samba_only=[True], **OF_FILES)
def _compile_multigraph(w, **given):
    w.session.add_graph(SambaGraph(w.model, w.inputs, w.optim, "g"))
    return seen([w.session.compile_multigraph(**{"output_folder": w.folder, **given}) is None, w.files()])


DRIVER = {key: value for key, value in OF_COMPILE.items() if key != "init_output_grads"}


@call(
    "common_app_driver",
    common.common_app_driver,
    optim=[W(lambda w: w.optim)],
    session=[W(lambda w: w.other)],
    init_output_grads=[False],
    **DRIVER,
)
def _common_app_driver(w, **given):
    args = argparser.parse_app_args(["compile"])
    common.common_app_driver(args, w.model, w.inputs, **{"output_folder": w.folder, **given})
    return seen([w.files(), w.session.obeys(args), w.other.obeys(args)])


def _traced_again(w, trace, **given):
    """Over a loaded PEF, whose gradients and weights are others by then: what is sent shows."""
    w.traced()
    w.session.device_set("output_0.grad", torch.tensor(0.5))
    w.session.device_set("lin.bias", torch.tensor([7.0, 8.0]))
    trace(w.model, w.inputs, **given)
    return of_device(w.session) + of_device(w.other)


OF_TRACE = dict(
    optim=[W(lambda w: samba.optim.SGD(w.model.parameters(), lr=0.7)), W(lambda w: [samba.optim.Adam(w.model.parameters())])],
    init_output_grads=[False],
    loss_indices=[[1], [9]],
    pef=[W(lambda w: w.forward_pef()), "nowhere.pef"],
    mapping=["spatial", "other"],
    data_parallel_mode=["optimal", "other"],
    transfer_device=[False],
    distlearn_config=[__file__, "nowhere"],
)
call("utils.trace_graph", utils.trace_graph, session=[W(lambda w: w.other)], **OF_TRACE)(
    lambda w, **given: _traced_again(w, utils.trace_graph, **given)
)
call("trace_graph", samba.SambaSession.trace_graph, **OF_TRACE)(
    lambda w, **given: _traced_again(w, w.session.trace_graph, **given)
)


def _multigraph(w, trace, **given):
    graph = SambaGraph(w.model, w.inputs, w.optim, "g")
    w.session.add_graph(graph)
    pef = w.session.compile_multigraph("several", output_folder=w.folder)
    w.session.trace_multigraph(w.session.graphs["g"], w.inputs, w.optim)
    w.session.init_multigraph_runtime(pef)
    for session in (w.session, w.other):
        session._several.clear()
        session._use(w.session.loaded())
        session._optimizers = {}
    w.session.device_set("g.output_0.grad", torch.tensor(0.5))
    outputs = trace(graph, w.inputs, **given)
    return of_device(w.session) + seen([x.sn_name for x in outputs]) + str([len(x._several) for x in (w.session, w.other)])


OF_SEVERAL = dict(
    optimizers=[W(lambda w: [samba.optim.SGD(w.model.parameters(), lr=0.7)])],
    init_output_grads=[True],
    mapping=["spatial", "other"],
)
call("trace_multigraph", samba.SambaSession.trace_multigraph, trace_prefix=[3], **OF_SEVERAL)(
    lambda w, **given: _multigraph(w, w.session.trace_multigraph, **given)
)
call("utils.trace_multigraph", utils.trace_multigraph, trace_prefix=[3], session=[W(lambda w: w.other)], **OF_SEVERAL)(
    lambda w, **given: _multigraph(w, utils.trace_multigraph, **given)
)


class Asks(nn.Module):
    def forward(self, x, mask):
        return x if x.sum() > 0 else mask


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Asks()

    def forward(self, x, mask):
        return self.part(x, mask)


@call("trace_multigraph of what is refused", None, trace_prefix=["decode", "prefill"])
def _refused(w, **given):
    try:
        return utils.trace_multigraph(Holder(), w.inputs, **given)
    except NotImplementedError as error:
        return str(error)


@call("init_multigraph_runtime", samba.SambaSession.init_multigraph_runtime, transfer_device=[False])
def _init_multigraph_runtime(w, **given):
    w.session.add_graph(FwdGraph(w.model, w.inputs, "g"))
    pef = w.session.compile_multigraph("several", output_folder=w.folder)
    w.session.trace_multigraph(w.model, w.inputs)
    w.session.init_multigraph_runtime(pef, **given)
    return of_device(w.session)


@call("add_graph", samba.SambaSession.add_graph, overwrite=[True])
def _add_graph(w, **given):
    first, second = (FwdGraph(w.model, w.inputs, "g") for _ in range(2))
    w.session.add_graph(first)
    try:
        w.session.add_graph(second, **given)
    except LookupError as error:
        return str(error)
    return str(w.session.graphs["g"] is second)


call("SambaGraph", SambaGraph, optimizers=[W(lambda w: w.optim)], name=["n"], loss_indices=[[1], [9]])(
    lambda w, **given: (graph := SambaGraph(w.model, w.inputs, **given)) and repr(graph) + str(graph)
)
call("FwdGraph", FwdGraph, optimizers=[W(lambda w: w.optim)], name=["n"], loss_indices=[[1], [9]])(
    lambda w, **given: (graph := FwdGraph(w.model, w.inputs, **given)) and repr(graph) + str(graph)
)


# ---- running ----


@call(
    "run",
    samba.SambaSession.run,
    input_tensors=[W(lambda w: (w.x * 2, w.mask)), W(lambda w: (samba.ones(4, 3, name="y"), w.mask))],
    output_tensors=[W(lambda w: w.outputs[:1])],
    hyperparam_dict=[{"lr": 0.9}, {"lrr": 0.9}],
    data_parallel=[True, 1],
    reduce_on_rdu=[True],
    section_ids=[[0], [77]],
    section_types=[["FWD"], "opt", ["FORWARD"]],
    run_until_call_id=[1, -1],
    run_from_call_id=[1, "x"],
    data_parallel_mode=["inorder", "other"],
    train=[False],
    grad_of_outputs=[{"output_0": torch.tensor(0.25)}, {"output_9": torch.tensor(1.0)}],
    graph_name=["nope"],
    reuse_inputs=[["nope"]],
)
def _run(w, **given):
    w.traced()
    w.session.start_samba_profile()
    results = w.session.run(**{"input_tensors": w.inputs, "output_tensors": w.outputs, **given})
    return of_device(w.session) + seen(results)


@call("run of some inputs", None, reuse_inputs=[["mask"], W(lambda w: w.mask)])
def _run_of_some(w, **given):
    w.traced().session.run(w.inputs, w.outputs)
    try:
        return seen(w.session.run((w.x,), w.outputs, **given))
    except RuntimeError as error:
        return str(error)


@call("run_window", samba.SambaSession.run_window, output_tensors=[W(lambda w: w.outputs)], hyperparam_dict=[{"lr": 0.9}])
def _run_window(w, **given):
    pef = w.compiled(grad_accumulation_steps=2, loss_indices=[0])
    w.outputs = w.session.trace_graph(w.model, w.inputs, w.optim, pef=pef, loss_indices=[0])
    return seen(w.session.run_window([w.inputs, w.inputs], **given)) + of_device(w.session)


call("trains", samba.SambaSession.trains, train=[False], graph_name=["nope"])(
    lambda w, **given: str(w.traced() and w.session.trains(**given))
)


@call(
    "init_output_grads",
    utils.init_output_grads,
    unspecified_tensor_grad=[["output_1"], ["nope"]],
    customized_tensors_dict=[{"output_0": torch.tensor(0.25)}, {"nope": torch.ones(1)}],
    is_variable_batch_size=[True],
    session=[W(lambda w: w.other)],
)
def _init_output_grads(w, **given):
    w.traced()
    if "is_variable_batch_size" in given or not given:
        given["customized_tensors_dict"] = {"output_1": torch.ones(2, 2)}
    try:
        utils.init_output_grads(w.outputs, **given)
    except ValueError as error:
        return str(error)
    return of_device(w.session)


OF_MEASURE = dict(batch_size=[9], inference=[True], n_iterations=[3, -1], graph_name=["nope"], session=[W(lambda w: w.other)])


def _measured(w, measure, **given):
    w.traced()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        found = measure(w.model, w.inputs, **{"n_iterations": 2, **given})
    if isinstance(found, dict):
        kept = {key: found[key] for key in ("batch_size", "iterations", "flops")}
        kept["copies"] = found["bytes"], given.get("run_graph_only", False) if found else 0
        return seen(kept)
    rates = [round(row["samples_per_second"] * row["median_ms"] / 1e3) for row in found]
    return seen([[row["type"] for row in found], rates, len(said.getvalue().splitlines()), given.get("n_iterations")])


call("measure_performance", utils.measure_performance, run_graph_only=["none: transfers are times alone"], **OF_MEASURE)(
    lambda w, **given: _measured(w, utils.measure_performance, **given)
)
call("measure_sections", utils.measure_sections, num_sections=[1], **OF_MEASURE)(
    lambda w, **given: _measured(w, utils.measure_sections, **given)
)
for measure in (utils.measure_performance, utils.measure_sections):
    call(f"model of {measure.__name__}", None, model=[nn.ReLU(), 3])(
        lambda w, measure=measure, model=None: _measured(w, lambda own, *args, **more: measure(model or own, *args, **more))
    )


# ---- the host's side ----


@call("SambaSession", samba.SambaSession, pef_path=[W(lambda w: w.compiled()), "nowhere.pef"])
def _session(w, **given):
    return repr(samba.SambaSession(**given))


@call("reset", samba.SambaSession.reset, pef_path=[W(lambda w: w.compiled()), "nowhere.pef"])
def _reset(w, **given):
    w.session.reset(**given)
    return repr(w.session)


@call("save", samba.SambaSession.save, with_state=[False])
def _save(w, **given):
    w.optim = samba.optim.Adam(w.model.parameters())
    w.traced().session.save(os.path.join(w.folder, "w.safetensors"), **given)
    return seen(w.files())


@call(
    "save_checkpoint",
    samba.SambaSession.save_checkpoint,
    loaders=[LOADER, 3],
    state=[{"a": 1}, len],
    keep=[1, -1],
    shard_size=[20, -1],
    schedulers=[SCHEDULER, 3],
)
def _save_checkpoint(w, **given):
    w.traced()
    folder = w.folder + "/points"
    for step in range(4):
        w.session.save_checkpoint(folder, step, **given)
    along = {name: given.get(name, ()) for name in ("loaders", "schedulers")}
    return seen(w.files()) + seen(w.session.load_checkpoint(folder, **along).state)


@call("load_checkpoint", samba.SambaSession.load_checkpoint, loaders=[LOADER], schedulers=[SCHEDULER])
def _load_checkpoint(w, **given):
    w.traced()
    w.session.save_checkpoint(w.folder + "/points", 1)
    return seen(w.session.load_checkpoint(w.folder + "/points", **given).step)


@call("end_samba_profile", samba.SambaSession.end_samba_profile, filename=[W(lambda w: w.folder + "/p.txt")])
def _end_samba_profile(w, **given):
    w.session.start_samba_profile()
    w.session.end_samba_profile(**given)
    return seen(w.files())


@call("samba_profile", samba.SambaSession.samba_profile, filename=[W(lambda w: w.folder + "/p.txt")])
def _samba_profile(w, **given):
    with w.session.samba_profile(**given):
        pass
    return seen(w.files())


@call("start_runtime_profile", samba.SambaSession.start_runtime_profile, timer_enabled=[False])
def _start_runtime_profile(w, log_file=None, **given):
    w.traced()
    os.environ["ENABLE_RUNTIME_PERF"], said, before = "SUMMARY", io.StringIO(), os.getcwd()
    os.chdir(w.folder)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            w.session.start_runtime_profile(**given)
            w.session.run(w.inputs)
            w.session.end_runtime_profile(**({"log_file": log_file} if log_file else {}))
    finally:
        del os.environ["ENABLE_RUNTIME_PERF"]
        os.chdir(before)
    return seen([len(said.getvalue().splitlines()), sorted(w.files())])


call("end_runtime_profile", samba.SambaSession.end_runtime_profile, log_file=["other.log"])(_start_runtime_profile)


def _moved(w, method, **given):
    w.traced()
    w.session.device_set("lin.bias", torch.tensor([7.0, 8.0]))
    memory = w.model.lin.bias.data_ptr(), w.model.norm.running_mean.data_ptr()
    if method == "to_rdu":
        w.optim.state[w.model.lin.bias]["momentum_buffer"] = torch.ones(2)
    getattr(w.session, method)(w.model, **given)
    after = w.model.lin.bias.data_ptr(), w.model.norm.running_mean.data_ptr()
    return seen([[a == b for a, b in zip(memory, after)], dict(w.optim.state), of_device(w.session)])


OPTIMS = [W(lambda w: w.optim), [3]]
for name, values in dict(
    to_cpu=dict(optims=[[3]], inplace=[True]),
    to_cpu_=dict(optims=[[3]]),
    to_rdu=dict(optims=OPTIMS),
    sync_buffers_to_cpu=dict(inplace=[True]),
).items():
    call(name, getattr(samba.SambaSession, name), **values)(lambda w, name=name, **given: _moved(w, name, **given))
call("add_aux_tensor", samba.SambaSession.add_aux_tensor, tensor=[torch.ones(2), [1]])(
    lambda w, **given: w.traced() and seen(w.session.add_aux_tensor("aux" if given else samba.ones(3, name="own"), **given))
)
call("graph_of", samba.SambaSession.graph_of, graph_name=["nope"])(
    lambda w, **given: str(w.traced() and w.session.graph_of("call", w.model, **given))
)


@call("to_onnx", samba.SambaSession.to_onnx, opset=[20, 3], graph_name=["nope"])
def _to_onnx(w, **given):
    w.session.trace_graph(w.model.eval(), w.inputs, pef=w.forward_pef())
    w.session.to_onnx(w.folder + "/m.onnx", **given)
    return w.files()["m.onnx"]


call("set_seed", utils.set_seed, session=[W(lambda w: w.other)])(
    lambda w, **given: (utils.set_seed(9, **given), seen([w.session.seed, w.other.seed]))[1]
)


@call("SambaLoader", SambaLoader, prefetch=["x"], session=[W(lambda w: w.other)])
def _loader(w, **given):
    w.traced().session.enable_pinned_memory()
    data = torch.ones(4, 3)
    return seen([batch.data_ptr() == data.data_ptr() for (batch,) in SambaLoader([data], ["x"], **given)])


call("ReplicaBatches", ReplicaBatches, shuffle=[False], seed=[3], rank=[1], replicas=[2])(
    lambda w, **given: seen(list(ReplicaBatches(12, 2, **given)))
)


def _added(parser):
    parser.add_argument("--own", default=3)


@call(
    "parse_app_args",
    argparser.parse_app_args,
    argv=[["compile", "-b", "9"], ["kompile"]],
    dev_mode=[True],
    common_parser_fn=[_added],
    compile_parser_fn=[_added],
    test_parser_fn=[_added],
    run_parser_fn=[_added],
    measure_performance_parser_fn=[_added],
    measure_sections_parser_fn=[_added],
    session=[W(lambda w: w.other)],
)
def _parse_app_args(w, **given):
    found = []
    own = {"run_parser_fn": lambda p: p.add_argument("--of-run", default=1), **given}
    for command in argparser.COMMANDS:
        try:
            args = argparser.parse_app_args(**{"argv": [command], **own})
        except SystemExit as error:
            return f"ended with {error.code}"
        found.append([sorted(vars(args).items()), w.session.obeys(args)])
    return seen(found)


@call("end_event", Profiler.end_event, count=[3, -1])
def _end_event(w, **given):
    profiler = Profiler()
    profiler.start_event("a")
    profiler.end_event("a", **given)
    (latency,), rates = profiler.get_latencies("a"), profiler.get_throughputs()
    return str(round(latency * rates["a"]))


def _saved(w):
    """Two checkpoints in a folder: the one of torch.save has no bias."""
    torch.save({"weight": torch.ones(2, 3)}, w.folder + "/a.bin")
    safetensors.torch.save_file({"bias": torch.ones(2), "weight": torch.zeros(2, 3)}, w.folder + "/b.safetensors")
    for stem, places in (
        ("pytorch_model.bin", {"weight": "a.bin"}),
        ("model.safetensors", {"weight": "b.safetensors", "bias": "b.safetensors"}),
    ):
        with open(f"{w.folder}/{stem}.index.json", "w", encoding="utf-8") as file:
            json.dump({"weight_map": places}, file)


@call("load_sharded_checkpoint", checkpoint.load_sharded_checkpoint, prefer_safe=[False], strict=[])
def _load_sharded_checkpoint(w, **given):
    _saved(w)
    return seen(checkpoint.load_sharded_checkpoint(nn.Linear(3, 2), w.folder, **given))


@call("load_sharded_checkpoint of fewer", None, strict=[False])
def _load_sharded_checkpoint_of_fewer(w, **given):
    _saved(w)
    try:
        return seen(checkpoint.load_sharded_checkpoint(nn.Linear(3, 2), w.folder, prefer_safe=False, **given))
    except LookupError as error:
        return str(error)


# ---- the tests ----

# what has no effect that can be seen, and why
UNSEEN = {
    ("measure_performance", "run_graph_only"),  # transfers are a part of the times alone
    ("common_app_driver", "init_output_grads"),  # gradients of a PEF that is loaded anew begin so anyway
}
# functions whose optional arguments are another's, or that end the process
ELSEWHERE = """parse_yaml_to_args take_arguments from_onnx_model from_torch_model_ from_torch_model setup load has op_fusion
    sdpa_directives get_pefmeta get_pefmeta_dict watched get_pef_info to_torch inside enable""".split()


def optional(function):
    return [
        name
        for name, its in inspect.signature(function).parameters.items()
        if its.default is not its.empty or its.kind is its.KEYWORD_ONLY
    ]


def tried():
    pairs = [(name, parameter) for name in VALUES for parameter in VALUES[name] if VALUES[name][parameter]]
    return [pair for pair in pairs if pair not in UNSEEN]


def outcome(name, folder, given):
    """(what is seen, or the error, and what NoEffectWarnings said) of a call."""
    folder.mkdir()
    w = World(folder)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            made = {key: value(w) if getattr(value, "of_world", False) else value for key, value in given.items()}
            shown = str(CALLS[name](w, **made))
        except Exception as error:  # whatever refuses it
            shown = f"{type(error).__name__}: {error}"
            assert "internal" not in shown.lower()
    shown = shown.replace(w.folder, "")
    samba.session.disable_lazy_param()
    return shown, [str(each.message) for each in said if isinstance(each.message, samba.NoEffectWarning)]


def test_no_argument_without_effect(tmp_path):
    rng = random.Random(SEED)
    print("seed", SEED)
    silent, base, order = [], {}, tried()
    rng.shuffle(order)
    for number, (name, parameter) in enumerate(order):
        value = rng.choice(VALUES[name][parameter])
        if name not in base:
            base[name], _ = outcome(name, tmp_path / f"base{len(base)}", {})
            again, _ = outcome(name, tmp_path / f"again{len(base)}", {})
            assert not re.match(r"\w+(Error|_): ", base[name]), f"{name}: {base[name]}"
            assert base[name] == again, f"{name}: what is seen of it is another each time"
        shown, said = outcome(name, tmp_path / f"{number}", {parameter: value})
        if shown == base[name] and not any(parameter in each for each in said):
            silent.append(f"{name}({parameter}={value!r:.60})")
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize("name", [name for name in OF if OF[name] is not None])
def test_every_argument_is_tried(name):
    function = OF[name].__new__ if OF[name] in (samba.SambaTensor, samba.SambaParameter) else OF[name]
    missing = [x for x in optional(function) if x not in VALUES[name]]
    assert not missing, f"{name} has {', '.join(missing)}: say in VALUES what they are given"


def test_every_function_is_tried():
    """Those that have optional arguments."""
    public = {name: x for name, x in inspect.getmembers(samba.SambaSession) if not name.startswith("_")}
    for module in (utils.utils, convert, sambatensor, common, argparser, checkpoint, pef_utils, lazy_param):
        public.update(
            (name, x)
            for name, x in vars(module).items()
            if inspect.isfunction(x) and x.__module__.startswith("sambaflow.samba") and not name.startswith("_")
        )
    house = "from_output plain_tensor from_value make_wrapper run_on_held take_form exact write_notes".split()
    missing = [
        name
        for name, x in public.items()
        if callable(x) and name not in (*OF, *ELSEWHERE, *house) and f"utils.{name}" not in OF and optional(x)
    ]
    assert not missing, missing
