# SPDX-License-Identifier: Apache-2.0
"""Sessions are equals: each has its own PEF, settings and switches, several threads trace and run at once, each with one of its
own, and a thread that traces nothing has torch as it is. What a session has turned on ends with it."""

import gc
import json
import os
import subprocess
import sys
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.lazy import LazyParameter
from sambaflow.samba.patches import Patch, replaced
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.samba.utils.argparser import parse_app_args
from sambaflow.samba.utils.common import common_app_driver

nn = torch.nn
SEED = int(os.environ.get("SAMBAFLOW_SEED", "1"))


class Reversed(torch.autograd.Function):
    """The identity, whose gradient is turned around."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Net(nn.Module):
    """All of torch that is another while a model is traced; `between` is called in the middle of forward."""

    def __init__(self, width, between=None):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(width, 6), nn.SyncBatchNorm(6, momentum=None), nn.Linear(6, 3)
        self.between = between

    def forward(self, x, label):
        assert torch.compiler.is_compiling() is not (self.between is None)
        h = Reversed.apply(F.gelu(self.norm(self.a(x).to(torch.float32))))
        if self.between is not None:
            self.between()
        h = F.layer_norm(h, (6,)) + torch.utils.checkpoint.checkpoint(self.norm, h, use_reentrant=False)
        return F.cross_entropy(F.dropout(self.b(h), 0.0), label)


class Plain(nn.Module):
    """The same computation for torch, which has no SyncBatchNorm on a CPU."""

    def __init__(self, net):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(net.a.in_features, 6), nn.Linear(6, 3), nn.BatchNorm1d(6, momentum=None)
        self.load_state_dict({name: samba.to_torch(x).detach().clone() for name, x in net.state_dict().items()})

    def forward(self, x, label):
        h = Reversed.apply(F.gelu(self.norm(self.a(x))))
        h = F.layer_norm(h, (6,)) + self.norm(h)
        return F.cross_entropy(self.b(h), label)


def in_threads(*functions):
    """Each in a thread of its own; the first exception of any is raised."""
    failed = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def torchs():
    """What a trace or the lazy mode may put something else in the place of."""
    init, hooks = torch.nn.init, torch.nn.modules.module
    return [
        torch.compiler.is_compiling.__code__,
        torch.compiler._is_compiling_flag,
        vars(torch.distributions.Distribution)["_validate_args"],
        vars(torch.nn.modules.batchnorm).get("float"),
        torch.nn.SyncBatchNorm.forward,
        torch.nn.Module._apply,
        vars(torch.nn.Module).get("training"),
        torch.utils.hooks.BackwardHook._apply_on_tensors,
        torch.autograd.Function.apply.__func__.__code__,
        torch._functorch.vmap._add_batch_dim,
        torch._functorch.apis.vmap_impl,
        torch.autograd.forward_ad.make_dual,
        *(vars(F).get(name) for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")),
        *(vars(torch.functional).get(name) for name in ("has_torch_function", "has_torch_function_unary")),
        torch.overrides.has_torch_function,
        init._no_grad_trunc_normal_,
        len(hooks._global_forward_pre_hooks),
        len(hooks._global_forward_hooks),
        len(hooks._global_parameter_registration_hooks),
        len(torch.overrides._get_current_function_mode_stack()),
    ]


def trained(session, width, seed, folder, between=None, steps=4):
    """Losses of a session's own and of torch."""
    generator = torch.Generator().manual_seed(seed)
    net = samba.from_torch_model_(Net(width, between))
    with torch.no_grad():
        for x in net.parameters():
            x.torch().copy_(torch.randn(x.shape, generator=generator) * 0.3)
    plain, optim = Plain(net), samba.optim.SGD(net.parameters(), lr=0.1)
    x = samba.from_torch_tensor(torch.randn(5, width, generator=generator), name="x")
    label = samba.from_torch_tensor(torch.randint(3, (5,), generator=generator), name="label")
    pef = session.compile(net, (x, label), optim, loss_indices=[0], name=f"net{width}", output_folder=str(folder))
    outputs = session.trace_graph(net, (x, label), optim, loss_indices=[0], pef=pef)
    theirs = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(steps):
        (loss,) = session.run((x, label), outputs)
        theirs.zero_grad()
        expected = plain(x.torch(), label.torch())
        expected.backward()
        theirs.step()
        torch.testing.assert_close(loss.torch(), expected.detach(), rtol=1e-4, atol=1e-5)
    session.to_cpu(net)
    for name, mine in net.state_dict().items():
        torch.testing.assert_close(samba.to_torch(mine).detach(), plain.state_dict()[name], rtol=1e-4, atol=1e-5)


def plainly():
    """What another thread does meanwhile, by torch alone."""
    torch.manual_seed(3)
    assert torch.compiler.is_compiling() is False
    with pytest.raises(ValueError, match="Expected parameter scale"):
        torch.distributions.Normal(0.0, -1.0)
    norm = nn.BatchNorm1d(4, momentum=None)
    x = torch.randn(8, 4, requires_grad=True)
    y = F.gelu(norm(x))
    assert type(y) is torch.Tensor and type(torch.zeros(2)) is torch.Tensor and norm.training
    assert norm.double().weight.dtype is torch.float64 and norm.float().weight.dtype is torch.float32
    ran = []
    torch.utils.checkpoint.checkpoint(lambda z: (ran.append(1), z * z)[1], x, use_reentrant=True).sum().backward()
    assert len(ran) == 2  # forward, and again for backward
    torch.testing.assert_close(x.grad, 2 * x.detach())
    (g,) = torch.autograd.grad(Reversed.apply(x).sum(), x)
    torch.testing.assert_close(g, -torch.ones(8, 4))
    torch.testing.assert_close(torch.vmap(lambda z: z * 2)(x), 2 * x)
    torch.testing.assert_close(torch.func.jvp(torch.sin, (x.detach(),), (torch.ones(8, 4),))[1], x.detach().cos())
    layer = nn.Linear(4, 4)
    assert type(layer.weight) is nn.Parameter and layer.weight.numel() == 16
    s = samba.from_torch_tensor(torch.arange(6.0).reshape(2, 3), requires_name := "s")
    assert requires_name == s.sn_name and F.softmax(s, -1).has_data
    torch.testing.assert_close((F.silu(s) + s.sum()).torch(), F.silu(s.torch()) + 15)
    assert s[0].tolist() == [0, 1, 2] and not samba.session.tracing


# ---- threads ----


def test_a_thread_in_the_middle_of_a_trace(tmp_path):
    """Both are in forward at once, and a third computes by torch; one begins and ends while the other waits in its forward."""
    before, barrier, inside, done = torchs(), threading.Barrier(3), threading.Event(), threading.Event()
    calls = []

    def meet():
        if len(calls) < 2:
            calls.append(threading.get_ident())
            barrier.wait(60)  # both models' forward, and the third thread
            barrier.wait(60)

    def third():
        barrier.wait(60)
        plainly()
        barrier.wait(60)

    in_threads(
        lambda: trained(samba.SambaSession(), 7, SEED, tmp_path / "a", meet),
        lambda: trained(samba.SambaSession(), 9, SEED + 1, tmp_path / "b", meet),
        third,
    )
    assert len(set(calls)) == 2 and torchs() == before

    def hold():
        inside.set()
        assert done.wait(60)

    def whole():
        assert inside.wait(60)
        trained(samba.SambaSession(), 9, SEED + 1, tmp_path / "b", lambda: None)
        plainly()
        done.set()

    in_threads(lambda: trained(samba.SambaSession(), 7, SEED, tmp_path / "a", hold), whole)
    assert torchs() == before


def test_many_at_once(tmp_path):
    """Threads that trace and run in no order, beside torch: what each gets is torch's."""
    print("seed", SEED)
    before, switch = torchs(), sys.getswitchinterval()
    generator = torch.Generator().manual_seed(SEED)
    widths = [int(n) for n in torch.randint(2, 12, (6,), generator=generator)]

    def work(number):
        for turn in range(2):
            trained(samba.SambaSession(), widths[number + 3 * turn], SEED + number, tmp_path / f"{number}", lambda: None, steps=3)

    def beside():
        for _ in range(15):
            plainly()

    sys.setswitchinterval(1e-5)
    try:
        in_threads(*(lambda number=number: work(number) for number in range(3)), beside)
    finally:
        sys.setswitchinterval(switch)
    assert torchs() == before


def test_one_that_fails_leaves_torch_to_the_other(tmp_path):
    before, inside, failed = torchs(), threading.Event(), threading.Event()

    class Fails(nn.Module):
        def forward(self, x):
            assert inside.wait(60)
            raise KeyError("its own")

    def hold():
        inside.set()
        assert failed.wait(60)
        assert samba.session.tracing and torch.compiler.is_compiling() is True

    def fails():
        with pytest.raises(KeyError, match="its own"):
            samba.SambaSession().compile(Fails(), (samba.ones(2, name="x"),), inference=True, output_folder=str(tmp_path))
        assert not samba.session.tracing
        failed.set()

    in_threads(lambda: trained(samba.SambaSession(), 4, SEED, tmp_path, hold), fails)
    assert torchs() == before


def test_tensors_of_another_thread(tmp_path):
    """What a thread makes while another traces has values, and a trace does not note it."""
    made, x = [], samba.ones(2, name="x")

    class Waits(nn.Module):
        def forward(self, x):
            def work():
                made.extend([x + 0 if x.has_data else None, samba.ones(3) * 2, torch.ones(2)])

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            return x * 3

    graph = FwdGraph(Waits(), (x,))
    assert [o.op for o in graph if o.phase] == ["mul"]
    assert made[0] is None and made[1].tolist() == [2, 2, 2] and type(made[2]) is torch.Tensor


def test_patches():
    class Owner:
        value = 1

    table = {"a": 1}
    patch = Patch(lambda stack: [stack.enter_context(replaced(Owner, "value", 2)), stack.enter_context(replaced(table, "b", 3))])
    with patch:
        with patch:
            assert (Owner.value, table) == (2, {"a": 1, "b": 3})
        assert Owner.value == 2
        Owner.value = 5  # a program's own
    assert Owner.value == 5 and table == {"a": 1}

    def broken(stack):
        stack.enter_context(replaced(Owner, "value", 7))
        raise ValueError

    with pytest.raises(ValueError), Patch(broken):
        pass
    assert Owner.value == 5


# ---- what is a session's own ----


def line(session, folder, **options):
    model, x = samba.from_torch_model_(nn.Linear(3, 2)), samba.ones(4, 3, name="x")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = session.compile(model, (x,), optim, output_folder=str(folder), **options)
    return model, x, optim, pef


def test_functions_take_a_session(tmp_path, capsys):
    session = samba.SambaSession()
    model, x, optim, pef = line(session, tmp_path)
    outputs = utils.trace_graph(model, (x,), optim, pef=pef, session=session)
    assert session.is_loaded and not samba.session.is_loaded
    utils.init_output_grads(outputs, customized_tensors_dict={"output_0": torch.full((4, 2), 0.5)}, session=session)
    assert session.device_get("output_0.grad").unique().tolist() == [0.5] and outputs[0].sn_grad.unique().tolist() == [0.5]
    with pytest.raises(errors.StateError, match="no PEF is loaded"):
        utils.init_output_grads(outputs)
    assert utils.measure_performance(model, (x,), n_iterations=2, session=session)["batch_size"] == 4
    rows = utils.measure_sections(model, (x,), n_iterations=2, session=session)
    assert [row["type"] for row in rows] == ["FWD", "BCKWD", "OPT"]
    for measure in (utils.measure_performance, utils.measure_sections):
        with pytest.raises(errors.StateError, match="no PEF is loaded"):
            measure(model, (x,), n_iterations=2)
    utils.set_seed(7, session=session)
    assert (session.seed, samba.session.seed) == (7, 0)
    session.enable_pinned_memory()
    batches = [torch.full((4, 3), float(i)) for i in range(3)]
    for number, (batch,) in enumerate(SambaLoader(batches, ["x"], session=session)):
        assert batch.data_ptr() != batches[number].data_ptr() and batch.unique().tolist() == [number]
        session.run((batch,), outputs)
    assert [batch.data_ptr() for (batch,) in SambaLoader(batches, ["x"])] == [batch.data_ptr() for batch in batches]
    args = parse_app_args(["test", "--seed=5", "-p", pef], session=session)
    assert (session.seed, samba.session.seed) == (5, 0) and session.obeys(args) and not samba.session.obeys(args)
    common_app_driver(args, model, (x,), optim, session=session)
    assert "output_0: greatest difference" in capsys.readouterr().out and not samba.session.is_loaded


def test_multigraph_of_a_session(tmp_path):
    session, model, x = samba.SambaSession(), samba.from_torch_model_(nn.Linear(3, 2)), samba.ones(4, 3, name="x")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    train = SambaGraph(model, (x,), optim, "train")
    answer = FwdGraph(nn.Sequential(model), (samba.ones(1, 3, name="y"),), "answer")
    session.add_graph(train)
    session.add_graph(answer)
    pef = session.compile_multigraph("both", output_folder=str(tmp_path))
    (out,) = utils.trace_multigraph(train, (x,), optim, init_output_grads=True, session=session)
    utils.trace_multigraph(answer, answer.inputs, session=session)
    session.init_multigraph_runtime(pef)
    assert not samba.session.is_loaded and isinstance(train.output_tensors, tuple)
    session.device_set("train.output_0.grad", torch.full((4, 2), 0.5))
    session.init_multigraph_runtime(pef)
    assert out.sn_grad.unique().tolist() == [1.0]  # what init_output_grads says, when the PEF is there
    assert x.fast_access and not samba.SambaTensor.is_fast_access("x")
    other = samba.SambaSession()
    utils.trace_multigraph(answer, answer.inputs, init_output_grads=True, session=other)
    other.add_graph(answer)
    with pytest.warns(samba.NoEffectWarning, match="init_output_grads of 'answer.output_0': .* only run forward"):
        other.init_multigraph_runtime(other.compile_multigraph("one", output_folder=str(tmp_path)))


def test_legacy_names(tmp_path):
    """Of the session that traces; a run in another mode, which traces again, has them too."""
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), samba.ones(4, 3, name="x")
    samba.from_torch_model_(model)
    one, other = samba.SambaSession(), samba.SambaSession()
    one.use_legacy_names(True)
    found = []
    for session in (one, other):
        pef = session.compile(model, (x,), name=f"n{len(found)}", output_folder=str(tmp_path))
        session.trace_graph(model, (x,), pef=pef)
        found.append(session.get_dropout_rate_argin_names())
    assert found == [["dropout0.p"], ["1.p"]]
    model.eval()
    one.run((x,), section_types=["FWD"])
    one.reset()
    one.trace_graph(model.train(), (x,), pef=pef)  # compiled by names of modules
    samba.SambaSession.use_legacy_names(True)  # of the class: that of samba.session
    assert samba.session._legacy_names and not one._legacy_names and not other._legacy_names
    with pytest.raises(TypeError, match="use_legacy_names: use is 'no'"):
        samba.session.use_legacy_names("no")
    samba.session.reset()
    assert not samba.session._legacy_names


def test_lazy_mode():
    before, one, other = torchs(), samba.SambaSession(), samba.SambaSession()
    sessions = [one]
    one.enable_lazy_param(seed=1)
    assert (one.use_lazy_param(), other.use_lazy_param(), samba.session.use_lazy_param()) == (True, False, False)
    assert one.use_static_functional() and not other.use_static_functional()
    other.disable_lazy_param()
    samba.session.reset()
    assert isinstance(nn.Linear(2, 2).weight, LazyParameter)
    other.enable_lazy_param(seed=2)  # the latest counts
    second = nn.Linear(4, 4).weight
    other.disable_lazy_param()
    first = nn.Linear(4, 4).weight
    made = []
    in_threads(lambda: made.extend([type(nn.Linear(2, 2).weight), sessions[0].use_lazy_param()]))
    assert made == [nn.Parameter, False]
    with samba.lazy_param(seed=2, session=other):
        again = nn.Linear(4, 4).weight
        assert other.use_lazy_param() and not samba.session.use_lazy_param()
    assert not other.use_lazy_param() and one.use_lazy_param()
    assert torch.equal(second.torch_tensor(), again.torch_tensor())
    assert not torch.equal(second.torch_tensor(), first.torch_tensor())
    one.reset()
    assert not one.use_lazy_param() and type(nn.Linear(2, 2).weight) is nn.Parameter
    one.enable_lazy_param(seed=3)
    del one, sessions[:]
    gc.collect()
    assert type(nn.Linear(2, 2).weight) is nn.Parameter
    samba.session.enable_lazy_param(seed=1)
    late = nn.Linear(40, 40)
    samba.session.reset()
    nn.init.trunc_normal_(late.weight)  # a placeholder, when the mode is over
    assert isinstance(late.weight, LazyParameter) and late.weight.lazy and late.weight.torch_tensor().abs().max() <= 2
    del late, first, second, again
    gc.collect()
    assert torchs() == before


def test_lazy_mode_in_a_context_that_a_reset_ends():
    with samba.lazy_param(seed=1):
        samba.session.reset()
        assert type(nn.Linear(2, 2).weight) is nn.Parameter
    assert not samba.session.use_lazy_param()


def test_draws_of_a_session():
    """Materializers draw by their tensor's session; reset_random_generator is of one."""
    one, other = samba.SambaSession(), samba.SambaSession()
    for session in (one, other):
        session.enable_lazy_param(seed=4)
        session.disable_lazy_param()

    def drawn(session):
        from sambaflow.samba import materializers

        return materializers.rng(session).uniform(size=(3,)).tolist()

    first = drawn(one)
    assert first == drawn(other) != drawn(one)
    one.reset_random_generator()
    assert first == drawn(one) != drawn(other)


def test_fast_access(tmp_path):
    one, other = samba.SambaSession(), samba.SambaSession()
    model, x, optim, pef = line(one, tmp_path)
    outputs = one.trace_graph(model, (x,), optim, pef=pef)
    assert x.fast_access and one._fast_access == {"x": True} and not samba.SambaTensor.is_fast_access("x")
    assert other._fast_access == {}
    x.fast_access = False
    (kept,) = one.pin((x,))
    assert kept is x and not x.fast_access
    x.fast_access = True
    (pinned,) = one.pin((x,))
    assert pinned is not x and pinned.tolist() == x.tolist()
    with pytest.warns(samba.NoEffectWarning, match="fast_access of 'weight': without effect .* inputs are in pinned memory"):
        model.weight.fast_access = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.weight.fast_access = True  # it was said
        outputs[0].fast_access = False
    one.reset()
    assert one._fast_access == {} and not x.fast_access


def test_explicit_defaults_override_setup(tmp_path):
    session = samba.SambaSession()
    model, x, optim, pef = line(session, tmp_path)
    session.setup({"mapping": "spatial", "precision": "bf16", "inference": True, "output_folder": "elsewhere"})
    with pytest.raises(errors.StateError, match="was compiled with mapping 'section'"):
        session.trace_graph(model, (x,), optim, pef=pef)
    outputs = session.trace_graph(model, (x,), optim, pef=pef, mapping="section")
    utils.trace_graph(model, (x,), optim, pef=pef, mapping="section", session=session)
    own = session.compile(
        model, (x,), optim, name="own", mapping="section", precision="fp32", inference=False, output_folder=str(tmp_path)
    )
    assert utils.pef_utils.get_pefmeta(own).section_types == ["FWD", "BCKWD", "OPT"]
    session.reset()
    session.trace_graph(model, (x,), optim, pef=pef)
    session.setup({"data_parallel": True, "data_parallel_mode": "optimal", "reduce_on_rdu": True})
    asked = session._settings.replicas
    from sambaflow.samba.keywords import UNSAID_FALSE as no
    from sambaflow.samba.keywords import UNSAID_NORMAL as normal

    assert asked(no, no, normal) == (True, True, "optimal")
    assert asked(no, False, normal) == (True, False, "optimal") and asked(no, no, "normal") == (True, True, "normal")
    assert asked(False, no, normal) is None
    assert session.run((x,), outputs, data_parallel=False)[0].shape == (4, 2)  # of a PEF for one
    with pytest.raises(errors.SambaError, match="has no section of type REDUCE|data_parallel"):
        session.run((x,), outputs)
    with pytest.raises(errors.ArgumentError, match="reduce_on_rdu=True says how data_parallel=True"):
        session.run((x,), outputs, data_parallel=False, reduce_on_rdu=True)


def test_events_of_runs(tmp_path):
    """Section types are in the event's name, however they are given."""
    session = samba.SambaSession()
    model, x, optim, pef = line(session, tmp_path)
    outputs = session.trace_graph(model, (x,), optim, pef=pef)
    with session.samba_profile() as profiler:
        session.run((x,), outputs, None, False, False, (), ["fwd"])
        session.run(model, (x,), outputs, None, False, False, (), ("FWD", "bckwd"))
        session.run((x,), outputs, section_types="fwd")
        session.run((x,), outputs)
    found = {name: count[0] for name, count in profiler.events.items() if name.startswith("SAMBA_SESSION_RUN")}
    assert found == {"SAMBA_SESSION_RUN_FWD": 2, "SAMBA_SESSION_RUN_FWD_BCKWD": 1, "SAMBA_SESSION_RUN": 1}


def test_update_tensor(tmp_path):
    """The caller's handle stays the traced one, with its region, its session and its memory."""
    session = samba.SambaSession()
    model = samba.from_torch_model_(nn.Linear(3, 2))
    x = samba.SambaTensor(torch.zeros(4, 3), name="x", region_name="r")
    pef = session.compile(model, (x,), inference=True, output_folder=str(tmp_path))
    outputs = session.trace_graph(model, (x,), pef=pef)
    memory = x.data_ptr()
    given = samba.SambaTensor(torch.ones(4, 3), name="other", region_name="of another")
    session.update_tensor("x", given)
    assert session.get_samba_tensor_by_name("x") is x and (x.sn_name, x.sn_region_name) == ("x", "r")
    assert x.data_ptr() == memory and x.tolist() == given.tolist() == x.sn_data.tolist() and x._owner() is session
    assert (given.sn_name, given.sn_region_name) == ("other", "of another")
    given.torch()[0, 0] = 5
    assert x[0, 0].item() == 1  # a copy
    session.update_tensor("weight", torch.ones(2, 3))
    assert model.weight.torch().unique().tolist() == [1.0] and model.weight.sn_data.unique().tolist() == [1.0]
    (y,) = session.run((), outputs)
    torch.testing.assert_close(y.torch(), F.linear(torch.ones(4, 3), torch.ones(2, 3), model.bias.torch().detach()))
    with pytest.raises(ValueError):
        session.update_tensor("x", torch.ones(4, 2))
    assert x.shape == (4, 3) and x.tolist() == torch.ones(4, 3).tolist()
    session.update_tensor("x", None)
    with pytest.raises(LookupError, match="no traced tensor is named 'x'"):
        session.get_samba_tensor_by_name("x")


# ---- reset ----

DUMP = """
import gc, json, sys, threading, types
import torch
import sambaflow.samba as samba
import sambaflow.samba.utils, sambaflow.samba.progress, sambaflow.samba.sambaloader, sambaflow.samba.utils.argparser
import sambaflow.samba.utils.common, sambaflow.samba.graph, sambaflow.samba.directives, sambaflow.onnx, sambaflow.report

# what is kept for speed, and counts that tell nothing
CACHES = {"eager._programs", "eager.runs", "trace._asking", "locations._shown"}
PLAIN = (int, float, str, bytes, bool, type(None), torch.dtype)

def shown(x, depth=0):
    if isinstance(x, PLAIN):
        return repr(x)
    if isinstance(x, (list, tuple, set, frozenset)):
        parts = [shown(y, depth + 1) for y in x]
        return type(x).__name__ + str(sorted(parts) if isinstance(x, (set, frozenset)) else parts)
    if isinstance(x, threading.local):
        return str([(k, shown(v, depth + 1)) for k, v in vars(x).items() if v is not None])
    if isinstance(x, dict) or type(x).__name__ in ("WeakKeyDictionary", "WeakValueDictionary"):
        return str(sorted((shown(k, depth + 1), shown(v, depth + 1)) for k, v in x.items()))
    if type(x).__module__.startswith("sambaflow") and not isinstance(x, torch.Tensor) and depth < 4:
        return type(x).__name__ + shown(getattr(x, "__dict__", {}), depth + 1)
    return type(x).__name__

def dump():
    gc.collect()
    found = {"session": shown(vars(samba.session))}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("sambaflow.samba") and name != "sambaflow.launch":
            continue
        for key, value in vars(module).items():
            of = f"{name.rpartition('.')[2]}.{key}"
            if key.startswith("__") or isinstance(value, (types.ModuleType, types.FunctionType, type)) or of in CACHES:
                continue
            if key == "session" or key == "RULES":
                continue
            found[f"{name}.{key}"] = shown(value)
    hooks = torch.nn.modules.module
    found["torch"] = shown([
        len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks), len(hooks._global_parameter_registration_hooks),
        vars(torch.nn.Module).get("training") is None, torch.nn.Module._apply.__module__,
        torch.nn.SyncBatchNorm.forward.__module__,
        torch.nn.init._no_grad_trunc_normal_.__module__, torch.compiler.is_compiling.__code__.co_filename,
        torch.nn.functional.has_torch_function.__class__.__name__, torch.compiler.is_compiling(), torch.is_grad_enabled(),
        torch.distributions.Distribution._validate_args, torch.get_default_dtype(),
    ])
    return found

def used(folder):
    import warnings
    warnings.simplefilter("ignore")
    from sambaflow.samba.directives import op_fusion, sdpa_directives
    from sambaflow.samba.graph import FwdGraph, SambaGraph
    from sambaflow.samba.utils.argparser import parse_app_args
    session, nn = samba.session, torch.nn
    args = parse_app_args(["compile", "--seed=9", f"--output-folder={folder}", "-b=4", "--debug"])
    session.setup({"precision": "bf16", "threads": 1, "data_parallel_mode": "inorder"})
    session.setup({"threads": 1})
    samba.set_seed(4)
    session.enable_lazy_param(seed=3, inverse_transform_sampling=True)
    lazy = nn.Linear(3, 3)
    nn.init.trunc_normal_(lazy.weight)
    lazy.weight.torch_tensor()
    nn.Linear(2, 2)
    session.use_legacy_names(True)
    session.enable_pinned_memory()
    model = samba.from_torch_model_(nn.Sequential(op_fusion(nn.Linear(3, 3), "a"), nn.Dropout(0.5), nn.Linear(3, 2)))
    x = samba.ones(4, 3, name="x", batch_dim=0)
    x.mem_type = "HBM"
    optim = samba.optim.AdamW(model.parameters(), max_grad_norm=1.0)
    pef = session.compile(model, (x,), optim, io_host_memory=True)
    outputs = samba.utils.trace_graph(model, (x,), optim, pef=pef)
    with session.samba_profile():
        session.run((x,), outputs)
    session.profiler.start_event("mine")
    for batch in samba.sambaloader.SambaLoader([torch.ones(4, 3)] * 3, ["x"]):
        session.run(batch, outputs)
    session.add_aux_tensor("mask", torch.ones(2))
    session.dynamic_dims = {"batch": (1, 2)}
    model.eval()
    session.run((x,), outputs, section_types=["FWD"])
    outputs[0].fast_access = True
    sdpa_directives({"tile": 2})
    session.add_graph(FwdGraph(nn.ReLU(), (x,), "relu"))
    samba.utils.trace_multigraph(nn.ReLU(), (x,))
    (x.exp() + torch.linalg.lu_factor(samba.ones(2, 2) + torch.eye(2))[0].sum()).sum().item()  # which torch computes

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 2)

        def forward(self, x):
            y = self.lin(x)
            return y.sum(), y

    two = samba.from_torch_model_(Two())
    session.compile(two, (samba.ones(4, 3, name="x"),), samba.optim.SGD(two.parameters(), lr=0.1), pef_name="two")
    try:
        session.compile(nn.Sequential(nn.Linear(3, 3)), (x, x), inference=True)
    except Exception:
        pass
    session.disable_pinned_memory()
    session.enable_pinned_memory()
    import weakref
    return weakref.ref(model), weakref.ref(lazy)
"""
FRESH = "print(json.dumps(dump()))"
RESET = """
gone = used(sys.argv[1])
gc.collect()
changed = dump()
samba.session.reset()
gc.collect()
print(json.dumps([changed, dump(), [x() is None for x in gone]]))
"""


def in_a_process(code, *words):
    done = subprocess.run([sys.executable, "-c", DUMP + code, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_reset_leaves_a_fresh_process(tmp_path):
    fresh = in_a_process(FRESH)
    used, after, gone = in_a_process(RESET, str(tmp_path))
    assert gone == [True, True]  # nothing of the program's is held
    different = {name for name in fresh | after if fresh.get(name) != after.get(name)}
    assert not different, "\n".join(f"{name}\n  fresh {fresh.get(name)}\n  after {after.get(name)}" for name in different)
    changed = {name for name in fresh | used if fresh.get(name) != used.get(name)}
    said = {f"sambaflow.samba.{x}" for x in ("nominal._said", "starts._told", "eager._told")}
    assert {"session", "torch", *said} <= changed  # the dump sees what there is to see


def test_reset_of_another_session(tmp_path):
    """One session's reset leaves the others what they have."""
    one, other = samba.SambaSession(), samba.SambaSession()
    model, x, optim, pef = line(one, tmp_path)
    outputs = one.trace_graph(model, (x,), optim, pef=pef)
    other.reset()
    samba.session.reset()
    assert one.run((x,), outputs)[0].shape == (4, 2) and model.weight._owner() is one
    one.reset(pef)
    assert one.is_loaded and one.get_weight_names() == ["weight", "bias"]


def test_tensors_of_a_session_that_is_gone(tmp_path):
    """Another session's device, which may have tensors of the same names, is not theirs."""
    one = samba.SambaSession()
    model, x, optim, pef = line(one, tmp_path)
    one.trace_graph(model, (x,), optim, pef=pef)
    other, y, *_ = line(samba.session, tmp_path / "other")
    samba.session.trace_graph(other, (y,), pef=samba.session.compile(other, (y,), inference=True, output_folder=str(tmp_path)))
    before = model.weight.torch().detach().clone()
    one.reset()
    for _ in range(2):
        with pytest.raises(errors.StateError, match="no PEF is loaded"):
            model.weight.sn_data  # noqa: B018
        with pytest.raises(errors.StateError, match="no PEF is loaded"):
            model.weight.rdu()
        model.cpu()
        assert torch.equal(model.weight.torch(), before) and not x.fast_access
        one = None
        gc.collect()
    samba.session.trace_graph(model, (x,), pef=samba.session.loaded().pef)
    assert torch.equal(model.weight.sn_data, before)
