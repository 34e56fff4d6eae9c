# SPDX-License-Identifier: Apache-2.0
"""What the documents on samba.session and samba.utils state and their examples do not show: defaults, what is returned, names of events, arguments
that are for several replicas or deprecated. statements.py says which test is whose."""
import json
import re

import pytest
import torch
from models import trained

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba import exits
from sambaflow.samba.graph import FwdGraph
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.sambacollections import OrderedSet

nn = torch.nn


@pytest.fixture
def line():
    """A linear layer, its input and its optimizer."""
    model = samba.from_torch_model_(nn.Linear(3, 2))
    return model, (samba.randn(4, 3, name="x"),), samba.optim.SGD(model.parameters(), lr=0.1)


# ---- what comes with several replicas and with ONNX, and what is no more ----


def test_onnx(line, tmp_path):
    """An onnx.ModelProto in the place of a module; test_onnx_models.py has more of them."""
    import onnx

    model, inputs, _ = line
    weights = [onnx.numpy_helper.from_array(x.detach().torch().numpy(), name) for name, x in model.named_parameters()]
    sizes = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("x", (4, 3)), ("y", (4, 2)))]
    node = onnx.helper.make_node("Gemm", ["x", "weight", "bias"], ["y"], transB=1)
    proto = onnx.helper.make_model(onnx.helper.make_graph([node], "line", sizes[:1], sizes[1:], weights))
    assert type(proto).__name__ == "ModelProto"
    optim = samba.optim.SGD(samba.from_onnx_model(proto).parameters(), lr=0.1)
    pef = samba.session.compile(proto, inputs, optim, output_folder=tmp_path)
    outputs = utils.trace_graph(proto, inputs, optim, pef=pef)
    (first,) = samba.session.run(inputs, outputs)
    assert torch.allclose(first.torch(), model(inputs[0]).torch(), atol=1e-6)
    (second,) = samba.session.run(inputs, outputs)
    assert not torch.allclose(second.torch(), model(inputs[0]).torch(), atol=1e-3)  # it has learned
    with pytest.raises(TypeError, match="the model takes x: given 2 tensors"):
        samba.session.compile(proto, (*inputs, *inputs), output_folder=tmp_path)


def test_several_replicas(line, tmp_path):
    """Of which this process is the only one; test_replicas.py has several."""
    model, inputs, optim = line
    alone = samba.session.compile(model, inputs, optim, output_folder=tmp_path / "alone")
    pef = samba.session.compile(model, inputs, optim, output_folder=tmp_path, config_dict={"data_parallel": True})
    outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    losses = [samba.session.run(inputs, outputs)[0].clone()]
    for mode in ("normal", "inorder", "optimal"):
        samba.session.reset()
        optimizer = samba.optim.SGD(model.parameters(), lr=0.1)
        outputs = utils.trace_graph(model, inputs, optimizer, pef=pef, data_parallel_mode=mode)
        losses.append(samba.session.run(inputs, outputs, data_parallel=True, reduce_on_rdu=mode != "normal", data_parallel_mode=mode)[0])
        with pytest.raises(ValueError, match="run: reduce_on_rdu=True says how data_parallel=True reduces gradients: it means nothing without it"):
            samba.session.run(inputs, outputs, reduce_on_rdu=True)
        samba.session.run(inputs, outputs, section_types=["FWD", "BCKWD", "REDUCE", "OPT"], data_parallel=True)
    assert all(torch.equal(x.torch(), losses[0].torch()) for x in losses)
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, distlearn_config=__file__)  # runs are data parallel
    samba.session.run(inputs, outputs, data_parallel_mode="optimal")
    outputs = utils.trace_graph(model, inputs, optim, pef=alone)
    with pytest.raises(ValueError, match="data_parallel: graph .* has no section of type REDUCE, .*: compile it with data_parallel"):
        samba.session.run(inputs, outputs, data_parallel=True)
    with pytest.warns(RuntimeWarning, match="has no section of type REDUCE, which its model does not need: runs leave it out"):
        samba.session.run(inputs, outputs, section_types=["REDUCE"])


def test_deprecated(line, tmp_path):
    model, inputs, optim = line
    samba.session.compile(model, inputs, optim, init_output_grads=True, graph_names=None, graph_transform_hook=None, output_folder=tmp_path)
    with pytest.raises(NotImplementedError, match="compile: graph_names is deprecated and does nothing: leave it out; a graph is called by name"):
        samba.session.compile(model, inputs, optim, graph_names=["a"], output_folder=tmp_path)
    with pytest.raises(NotImplementedError, match="compile: graph_transform_hook is deprecated and does nothing: leave it out; what it would change"):
        samba.session.compile(model, inputs, optim, graph_transform_hook=print, output_folder=tmp_path)
    with pytest.raises(TypeError, match="compile: io_host_memory is 'HBM': expected True, False or None"):
        samba.session.compile(model, inputs, optim, io_host_memory="HBM", output_folder=tmp_path)


# ---- compiling and tracing ----


def test_names_of_the_graph_and_the_pef(line, tmp_path):
    model, inputs, optim = line
    pef = samba.session.compile(model, inputs, optim, name="inner", pef_name="outer", output_folder=tmp_path)
    assert pef == str(tmp_path / "outer" / "outer.pef")
    assert samba.session.is_loaded is False  # compiling loads nothing
    utils.trace_graph(model, inputs, optim, pef=pef)
    assert samba.session.loaded().graph_name == "inner"


def test_keyword_inputs(tmp_path):
    class Weighted(nn.Module):
        def forward(self, x, *, weight):
            return (x * weight).sum()

    model = Weighted()
    inputs = {"weight": samba.full((3,), 2.0, name="w"), "x": samba.ones(3, name="x")}
    pef = samba.session.compile(model, inputs, inference=True, output_folder=tmp_path)
    outputs = utils.trace_graph(model, inputs, pef=pef)
    assert samba.session.run(tuple(inputs.values()), outputs)[0].item() == 6


def test_log_has_sections(line, tmp_path):
    """Ids and types of sections, as run takes them, and the schedule of calls."""
    model, inputs, optim = line
    pef = samba.session.compile(model, inputs, optim, output_folder=tmp_path)
    outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    log = open(pef + ".log", encoding="utf-8").read()
    rows = re.findall(r"^ *(\d+) +(ZEROGRAD|FWD|BCKWD|GRADNORM|OPT)\b", log, re.M)
    assert [types for _, types in rows[:3]] == ["FWD", "BCKWD", "OPT"] == samba.session.loaded().sections
    by_ids = samba.session.run(inputs, outputs, section_ids=[int(number) for number, _ in rows[:3]])
    assert by_ids[0].shape == (4, 2)


@pytest.mark.parametrize("steps", [1, 2])
def test_zerograd(line, tmp_path, steps):
    """There only with gradient accumulation."""
    model, inputs, optim = line
    pef = samba.session.compile(model, inputs, optim, grad_accumulation_steps=steps, output_folder=tmp_path)
    utils.trace_graph(model, inputs, optim, pef=pef)
    assert ("ZEROGRAD" in samba.session.get_section_types()) == (steps > 1)
    for _ in range(steps):
        samba.session.run(inputs, section_types=["FWD", "BCKWD"])
    if steps > 1:
        assert torch.count_nonzero(model.weight.sn_grad) > 0
        samba.session.run(section_types=["ZEROGRAD"])
        assert torch.count_nonzero(model.weight.sn_grad) == 0


def test_trace_prefix(tmp_path):
    """Stands before modules' paths in what is said of operators, so that one knows which graph is meant."""

    class Inner(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x)

    x = (samba.randn(2, name="x"),)
    for prefix, said in ((None, "in module inner"), ("prefill", r"in module prefill\.inner")):
        with pytest.raises(NotImplementedError, match=said):
            utils.trace_multigraph(Outer(), x, trace_prefix=prefix)


def test_transfer_of_several_graphs(line, tmp_path):
    model, inputs, _ = line
    samba.session.add_graph(FwdGraph(model, inputs, "only"))
    pef = samba.session.compile_multigraph("several", output_folder=tmp_path)
    outputs = utils.trace_multigraph(model, inputs)
    for transfer, weight in ((True, model.weight.torch()), (False, torch.zeros(2, 3))):
        samba.session.init_multigraph_runtime(pef=pef, transfer_device=transfer)
        assert torch.equal(model.weight.sn_data, weight)
    assert samba.session.run(inputs, outputs)[0].shape == (4, 2)


# ---- running ----


def test_run_without_arguments(line, tmp_path):
    """No tensor moves: the device's inputs are those of the run before, and no output comes back."""
    model, inputs, optim = line
    outputs = utils.trace_graph(model, inputs, optim, pef=samba.session.compile(model, inputs, optim, output_folder=tmp_path))
    (first,) = samba.session.run(inputs, outputs, section_types=["FWD"])
    inputs[0].torch().zero_()  # the host's alone
    assert samba.session.run(section_types=["FWD"]) == ()
    (again,) = samba.session.run(None, outputs, section_types=["FWD"])
    assert torch.equal(again.torch(), first.torch())
    before = model.weight.sn_data
    assert samba.session.run() == () and not torch.equal(model.weight.sn_data, before)  # the whole schedule


def test_some_outputs(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    loss, logits = samba.session.run(inputs, outputs, section_types=["FWD"])
    for few in ([outputs[1]], (outputs[1],), outputs[1]):
        (only,) = samba.session.run(inputs, few, section_types=["FWD"])
        assert only.sn_name == "output_1" and torch.equal(only.torch(), logits.torch())
    back = samba.session.run(inputs, [outputs[1], outputs[0]], section_types=["FWD"])
    assert [x.sn_name for x in back] == ["output_1", "output_0"] and back[1].item() == loss.item()


# ---- what is returned ----


def test_types_of_results(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    session, weight = samba.session, model.gemm1.weight
    for value, kind in ((session.get_argin_names(), OrderedSet), (session.get_dropout_rate_argin_names(), list), (session.get_dropout_seed_argin_names(), list),
                        (session.get_section_types(), set), (session.get_weight_names(), list), (session.get_tensors([weight]), tuple),
                        (session.get_tensors_by_name(["gemm1.weight"]), tuple), (session.get_samba_tensor_by_name("gemm1.weight"), samba.SambaParameter),
                        (session.tracing, bool), (session.use_static_functional(), bool), (session.use_pinned_memory(), bool), (session.use_lazy_param(), bool),
                        (session.to_device(), type(None)), (session.to_cpu(model), type(None)), (session.update_tensor("gemm1.weight", weight), type(None)),
                        (session.run(inputs, outputs), tuple)):  # fmt: skip
        assert type(value) is kind, value
    assert all(isinstance(x, samba.SambaTensor) for x in session.get_tensors([weight, model.gemm1.bias]))
    assert all(isinstance(name, str) for name in (*session.get_argin_names(), *session.get_weight_names()))


def test_by_name_is_the_host(tmp_path):
    """get_samba_tensor_by_name gives the traced tensor, get_tensors_by_name what the device has."""
    model, inputs, outputs = trained(tmp_path)
    samba.session.run(inputs, outputs)
    host, device = samba.session.get_samba_tensor_by_name("gemm1.weight"), samba.session.get_tensors_by_name(["gemm1.weight"])[0]
    assert host is model.gemm1.weight and not torch.equal(host.torch(), device.torch())
    samba.session.update_tensor("gemm1.weight", samba.ones(32, 20))
    assert torch.equal(samba.session.get_tensors([host])[0].torch(), torch.ones(32, 20))


# ---- modes ----


def test_static_functional(line, tmp_path):
    """While tracing, and while parameters are initialized lazily; else operators compute."""
    seen = []

    class Watching(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 2)
            seen.append((samba.session.use_static_functional(), samba.session.tracing, getattr(self.lin.weight, "has_data", True)))

        def forward(self, x):
            y = self.lin(x)
            seen.append((samba.session.use_static_functional(), samba.session.tracing, y.has_data))
            return y

    model, inputs = samba.from_torch_model_(Watching()), line[1]
    model(*inputs)
    samba.session.compile(model, inputs, inference=True, output_folder=tmp_path)
    samba.session.enable_lazy_param(seed=1)
    try:
        Watching()
    finally:
        samba.session.disable_lazy_param()
    # built, called, traced, built lazily
    assert seen == [(False, False, True), (False, False, True), (True, True, False), (True, False, False)]
    assert samba.session.use_static_functional() is False


def test_events(line, tmp_path):
    """Each by the document's name, as often as it happened."""
    model, inputs, optim = line
    pef = samba.session.compile(model, inputs, optim, output_folder=tmp_path)
    session = samba.session
    session.start_samba_profile()
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, transfer_device=False, init_output_grads=False)
    session.to_rdu(model)
    session.run(inputs, outputs)
    session.run(inputs, outputs, section_types=["fwd"])
    session.run(section_types=["FWD", "BCKWD"])
    session.get_tensors([model.weight])
    session.enable_pinned_memory()
    for batch in SambaLoader([(torch.ones(4, 3),)], ["x"]):
        session.run(batch, outputs)
    session.end_samba_profile(filename=tmp_path / "events.json")
    counts = {name: row[0] for name, row in session.profiler.events.items()}
    assert counts == {"SAMBA_SET_PEF": 1, "SAMBA_INIT_RUNTIME": 1, "PyRT_SET_TENSORS": 2, "SAMBA_SESSION_RUN": 2, "SAMBA_SESSION_RUN_FWD": 1,
                      "SAMBA_SESSION_RUN_FWD_BCKWD": 1, "PyRT_RUN": 4, "PyRT_GET_TENSORS": 1, "PyRT_SET_PINNED_INPUT_TENSORS": 1}  # fmt: skip
    for absent in ("PyRT_GET_TENSORS_GATHER", "PyRT_SET_TENSORS_BROADCAST"):  # of several replicas
        assert absent not in counts
    kept = [e["name"] for e in json.loads((tmp_path / "events.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert {name: kept.count(name) for name in counts} == counts
    with session.samba_profile() as profiler:  # without a file
        assert profiler is session.profiler and not profiler.events
        session.run(inputs, outputs)
    assert profiler.events["PyRT_RUN"][0] == 1 and profiler.enabled is False
    run, whole = (profiler.events[name][1] for name in ("PyRT_RUN", "SAMBA_SESSION_RUN"))
    assert 0 < run <= whole  # it leaves out what Python does


def test_file_of_the_runtime_profile(line, tmp_path, monkeypatch):
    model, inputs, optim = line
    outputs = utils.trace_graph(model, inputs, optim, pef=samba.session.compile(model, inputs, optim, output_folder=tmp_path))
    monkeypatch.setenv("ENABLE_RUNTIME_PERF", "SUMMARY")
    monkeypatch.chdir(tmp_path)
    samba.session.start_runtime_profile()
    samba.session.run(inputs, outputs)
    samba.session.end_runtime_profile()
    assert "FWD" in (tmp_path / "cprofile_tmp.log").read_text()
    samba.session.start_runtime_profile(timer_enabled=False)
    samba.session.end_runtime_profile(log_file="other.log")
    assert (tmp_path / "other.log").exists()


def test_exit_handlers():
    """What is registered gets its arguments, each once, the last one first."""
    called = []
    samba.session.atexit_register(called.append, "first")
    samba.session.atexit_register(lambda *args, **kwargs: called.append((args, kwargs)), 1, 2, key=3)
    exits._run_handlers()
    exits._run_handlers()
    assert called == [((1, 2), {"key": 3}), "first"]
