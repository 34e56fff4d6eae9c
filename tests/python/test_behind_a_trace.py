# SPDX-License-Identifier: Apache-2.0
"""What a program of PyTorch does around a model and a graph cannot see is followed or said, once: a number that a module keeps as
an attribute and forward has read, weights that are read on the host while the device has newer ones, and torch's seed."""

import copy
import os
import pickle
import random
import warnings

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.errors import ArgumentError, StateError
from sambaflow.samba.attributes import _EACH
from sambaflow.samba.graph import FwdGraph


class Part(torch.nn.Module):
    """Reads some attributes, has others, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift, self.square, self.kind = 0.5, 2, False, "relu"
        self.unread, self.calls = 7, 0
        self.weight = torch.nn.Parameter(torch.randn(3))

    def forward(self, x):
        self.calls += 1
        y = getattr(torch, self.kind)(x * self.weight * self.scale + self.shift)
        return y * y if self.square else y


class Net(torch.nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = torch.nn.Sequential(*[Part() for _ in range(parts)])
        self.drop = torch.nn.Dropout(0.25)

    def forward(self, x):
        return self.drop(self.parts(x)).square().mean()


@pytest.fixture
def rng():
    seed = int(os.environ.get("SAMBAFLOW_SEED", random.randrange(2**32)))
    print(f"SAMBAFLOW_SEED={seed}")
    return random.Random(seed)


def traced(tmp_path, model, session, *, name="net", lr=0.1):
    inputs = (samba.from_torch_tensor(torch.rand(4, 3), name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=lr)
    pef = session.compile(model, inputs, optim, loss_indices=[0], output_folder=str(tmp_path / name))
    outputs = session.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    return lambda count=1: [samba.to_torch(session.run(inputs, outputs)[0]).item() for _ in range(count)]


def said(call):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in heard]


def test_an_attribute_that_changes(tmp_path, rng):
    parts = rng.choice([1, 2, 3, 40])
    model, session = samba.from_torch_model_(Net(parts)), samba.SambaSession()
    run = traced(tmp_path, model, session)
    which = rng.randrange(parts)
    part = model.parts[which]
    part.unread, part.calls, part.training, part.scale = 8, 100, True, 0.5 * 1.0  # which changes nothing
    assert said(lambda: run(2 * _EACH)) == []
    new = {"scale": (0.75, "0.5"), "shift": (3, "2"), "square": (True, "False"), "kind": ("tanh", "'relu'")}
    name, (value, shown) = rng.choice(list(new.items()))
    setattr(part, name, value)
    assert said(lambda: run(_EACH)) == [
        f"run: {name!r} of 'parts.{which}' was changed to {value!r} after the trace, but the device still uses {shown}: make it "
        "an input of the model, or compile and trace the model as it is now"
    ]
    setattr(part, name, getattr(Part(), name))
    assert said(lambda: run(_EACH)) == []
    model.drop.p = 0.5
    assert said(lambda: run(_EACH)) == [
        "run: 'p' of 'drop' was changed to 0.5 after the trace, but the device still uses 0.25: give run "
        "hyperparam_dict={'drop.p': 0.5}"
    ]
    setattr(part, name, value)
    run = traced(tmp_path, model, session, name="again")  # as it is now
    assert said(lambda: run(_EACH)) == []


class Settings:
    def __init__(self):
        self.scale, self.other = 2.0, 3


class Kinds(torch.nn.Module):
    of_class = 1.5

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3))
        self.function, self.kinds, self.options = torch.tanh, [1, 2], {"power": 2}
        self.settings, self.constant, self.lines = Settings(), torch.ones(3), {}

    def forward(self, x):
        self.lines["calls"] = self.lines.get("calls", 0) + 1
        y = self.function(x * self.weight) ** self.options["power"] * self.settings.scale * self.of_class
        return (y * self.constant * len(self.kinds)).mean()


KINDS = {  # name: (a change, what of it the warning says)
    "function": (lambda model: setattr(model, "function", torch.sin), "'function' of the model was replaced"),
    "kinds[1]": (lambda model: model.kinds.__setitem__(1, 7), "'kinds[1]' of the model was changed to 7"),
    "kinds[2]": (lambda model: model.kinds.append(3), "'kinds[2]' of the model was replaced"),
    "options": (lambda model: model.options.update(power=3), "\"options['power']\" of the model was changed to 3"),
    "settings.scale": (lambda model: vars(model.settings).update(scale=4.0), "'settings.scale' of the model was changed to 4.0"),
    "of_class": (lambda model: setattr(model, "of_class", 2.5), "'of_class' of the model was changed to 2.5"),
    "constant": (lambda model: model.constant.fill_(2), "'constant' of the model was given other values"),
    "another": (lambda model: setattr(model, "constant", torch.zeros(3)), "'constant' of the model was given other values"),
    "nothing": (lambda model: model.options.update(power=2), None),
    "what forward writes": (lambda model: model.lines.clear(), None),
}


@pytest.mark.parametrize("name", KINDS)
def test_attributes_of_all_kinds(tmp_path, name):
    change, beginning = KINDS[name]
    model, session = samba.from_torch_model_(Kinds()), samba.SambaSession()
    run = traced(tmp_path, model, session)
    run(_EACH)
    told = said(lambda: (change(model), run(2 * _EACH)))
    assert [sentence.partition(" after the trace, but the device still uses")[0] for sentence in told] == (
        [f"run: {beginning}"] if beginning else []
    )


class Flagged(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.absolute, self.calls = body, False, 0

    def forward(self, x):
        self.calls += 1
        y = self.body(x)
        return (y.abs() if self.absolute else y * y).mean()


def test_graphs_of_one_module_with_a_flag(tmp_path):
    """Graphs are traced when they are compiled, by the flag as it is then: refused where each was made with another."""

    def compiled(first, second, session):
        inputs = (samba.ones(4, 3, name="x"),)
        for model, name, flag in ((first, "square", False), (second, "absolute", True)):
            model.absolute = flag
            session.add_graph(FwdGraph(model, inputs, name=name))
        pef = session.compile_multigraph(name=name, output_folder=str(tmp_path))
        for name in ("square", "absolute"):
            session.trace_multigraph(session.graphs[name], inputs)
        session.init_multigraph_runtime(pef)
        outputs = {name: session.graphs[name].output_tensors for name in ("square", "absolute")}
        return [samba.to_torch(session.run(inputs, its, graph_name=name)[0]).item() for name, its in outputs.items()]

    body = torch.nn.Linear(3, 2)
    first, second = (samba.from_torch_model_(Flagged(body)) for _ in range(2))
    square, absolute = compiled(first, second, samba.SambaSession())
    y = samba.to_torch(body(samba.ones(4, 3))).detach()
    assert abs(square - y.square().mean().item()) < 1e-6 and abs(absolute - y.abs().mean().item()) < 1e-6
    with pytest.raises(ArgumentError) as refused:
        compiled(first, first, samba.SambaSession())
    assert str(refused.value) == (
        "compile_multigraph: graphs 'square' and 'absolute' are of one module, whose 'absolute' was another when each was made: "
        "False and True, and graphs are traced now: make a module for each, which may share layers"
    )


READS = {
    "data": lambda model, mine: mine[0].mul_(0.9).add_(next(model.parameters()).data, alpha=0.1),
    "detach": lambda model, mine: mine[0].copy_(next(model.parameters()).detach()),
    "lerp": lambda model, mine: mine[0].lerp_(next(model.parameters()), 0.1),
    "a product": lambda model, mine: next(model.parameters()) * 0.9,
    "foreach": lambda model, mine: torch._foreach_lerp_(mine, list(model.parameters()), 0.1),
    "vector": lambda model, mine: torch.nn.utils.parameters_to_vector(model.parameters()),
    "to_torch": lambda model, mine: samba.to_torch(next(model.parameters())).clone(),
    "a copy": lambda model, mine: copy.deepcopy(model),
    "a pickle": lambda model, mine: pickle.dumps(list(model.parameters())),
    "numbers": lambda model, mine: next(model.parameters()).tolist(),
    "numpy": lambda model, mine: next(model.parameters()).detach().numpy(),
    "a line of print": lambda model, mine: str(next(model.parameters())),
}


@pytest.mark.parametrize("name", READS)
def test_weights_read_before_they_are_fetched(tmp_path, name):
    model, session = samba.from_torch_model_(Net(1)), samba.SambaSession()
    mine = [samba.to_torch(p).detach().clone() for p in model.parameters()]
    read = torch.no_grad()(lambda: READS[name](model, mine))
    run = traced(tmp_path, model, session)
    assert said(read) == []  # as they were sent
    run()
    assert said(lambda: (session.to_cpu(model), read())) == []
    run()
    assert said(read) == [
        "'parts.0.weight' is read on the host, which has its values from before the device trained: call "
        "samba.session.to_cpu(model) first, in each step where each step reads weights"
    ]
    assert said(lambda: (run(), read())) == []  # once


def test_averages_by_torch(tmp_path):
    """AveragedModel over weights that each step fetches has the averages that PyTorch's has."""
    torch.manual_seed(1)
    model, session = samba.from_torch_model_(Part()), samba.SambaSession()
    averaged = torch.optim.swa_utils.AveragedModel(model)
    inputs = (samba.from_torch_tensor(torch.rand(4, 3), name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = session.compile(model, inputs, optim, output_folder=str(tmp_path))
    outputs = session.trace_graph(model, inputs, optim, pef=pef)
    seen = []

    def train():
        for _ in range(3):
            session.run(inputs, outputs)
            session.to_cpu(model)
            averaged.update_parameters(model)
            seen.append(samba.to_torch(model.weight).detach().clone())

    assert said(train) == []
    torch.testing.assert_close(samba.to_torch(averaged.module.weight).detach(), torch.stack(seen).mean(0))
    run_again = lambda: (session.run(inputs, outputs), averaged.update_parameters(model))  # noqa: E731
    assert [sentence.partition(" is read")[0] for sentence in said(run_again)] == ["'weight'"]


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm = torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)
        self.register_buffer("mask", torch.ones(3))

    def forward(self, x):
        return (self.norm(self.lin(x)) * self.mask).square().mean()


WRITES = {
    "fill_": lambda model: model.mask.fill_(2),
    "copy_": lambda model: model.mask.copy_(torch.zeros(3)),
    "an element": lambda model: model.mask.__setitem__(0, 3.0),
    "data": lambda model: setattr(model.mask, "data", torch.zeros(3)),
    "an element of data": lambda model: model.mask.data.__setitem__(0, 3.0),
    "numpy": lambda model: model.mask.numpy().fill(3),
    "another": lambda model: setattr(model, "mask", samba.from_torch_tensor(torch.zeros(3))),
    "load_state_dict": lambda model: model.load_state_dict({"mask": torch.zeros(3)}, strict=False),
    "statistics": lambda model: model.norm.reset_running_stats(),  # which the host has as they were at first
    "an element of a weight": lambda model: model.lin.weight.__setitem__((0, 0), 9.0),
    "nothing": lambda model: None,
    "the same": lambda model: setattr(model, "mask", model.mask.clone()),
}


@pytest.mark.parametrize("name", WRITES)
def test_buffers_written_on_the_host(tmp_path, name):
    """Said by the next run, and no more once they are sent."""
    model, session = samba.from_torch_model_(Masked()), samba.SambaSession()
    run = traced(tmp_path, model, session)
    run()
    told = said(lambda: (torch.no_grad()(WRITES[name])(model), run()))
    told = [sentence for sentence in told if " is read on the host" not in sentence]
    assert len(told) == (name not in ("nothing", "the same")) and all("samba.session.to_rdu(model) to send" in x for x in told)
    assert said(lambda: (session.to_rdu(model), run(2))) == []
    given = samba.to_torch(session.get_tensors_by_name(["mask"])[0])
    torch.testing.assert_close(given, samba.to_torch(model.mask))


class Drops(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.drop = torch.nn.Parameter(torch.ones(())), torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x * self.one)


def masks(tmp_path, session, name):
    """A function that gives the masks of a run."""
    model, inputs = samba.from_torch_model_(Drops()), (samba.ones(6, 7, name="x"),)
    pef = session.compile(model, inputs, output_folder=str(tmp_path / name))
    outputs = session.trace_graph(model, inputs, pef=pef)
    return lambda: samba.to_torch(session.run(inputs, outputs, section_types=["FWD"])[0]).detach().clone()


def test_torchs_seed(tmp_path):
    """torch.manual_seed does on the device what it does on the host: it starts random numbers over."""
    first, other = samba.SambaSession(), samba.SambaSession()
    torch.manual_seed(11)
    run = masks(tmp_path, first, "first")
    a, b = run(), run()
    assert not torch.equal(a, b)
    torch.manual_seed(12)
    c = run()
    assert not torch.equal(a, c) and not torch.equal(b, c)
    torch.manual_seed(11)
    assert torch.equal(run(), a) and torch.equal(run(), b)
    torch.manual_seed(12)
    assert torch.equal(masks(tmp_path, other, "other")(), c)


def test_the_same_seed_again(tmp_path):
    """Whatever a program draws in between, a seed or a state that is given again starts the masks over, and a state from the
    middle goes on with new ones."""
    torch.manual_seed(5)
    run = masks(tmp_path, samba.SambaSession(), "again")
    a, b = run(), run()
    torch.manual_seed(5)
    assert torch.equal(run(), a) and torch.equal(run(), b)
    for seed in (7, 8, 5):
        torch.manual_seed(seed)
    assert torch.equal(run(), a)
    torch.randn(3), torch.randperm(5)  # which start nothing over
    assert torch.equal(run(), b)
    torch.manual_seed(9)
    torch.randn(3)
    c = run()
    torch.manual_seed(9)
    torch.randn(3)
    assert torch.equal(run(), c)
    seen = [run()]
    for _ in range(3):
        with torch.random.fork_rng():
            torch.manual_seed(11)
            d = run()
            torch.manual_seed(11)
            assert torch.equal(run(), d)
        seen.append(run())
    assert not any(torch.equal(x, y) for i, x in enumerate(seen) for y in seen[:i])
    state = torch.get_rng_state()
    torch.manual_seed(12)
    run()
    torch.manual_seed(13)
    e = run()
    torch.set_rng_state(state)
    run()
    torch.manual_seed(13)
    assert torch.equal(run(), e)


def test_a_sessions_own_seed(tmp_path):
    """set_seed is its session's alone, and torch.manual_seed does not change it afterwards; nor what setup says."""
    first, other, third = samba.SambaSession(), samba.SambaSession(), samba.SambaSession()
    torch.manual_seed(21)
    run, its = masks(tmp_path, first, "first"), masks(tmp_path, other, "other")
    a, b = run(), run()
    assert torch.equal(its(), a)
    utils.set_seed(21, session=other)
    assert torch.equal(its(), a)  # from its beginning
    utils.set_seed(22, session=other)
    c = its()
    assert not torch.equal(c, a) and torch.equal(run(), masks_after(tmp_path, 21, 2))
    torch.manual_seed(23)
    third.setup({"seed": 22})
    assert torch.equal(masks(tmp_path, third, "third")(), c)
    utils.set_seed(22, session=other)
    torch.manual_seed(24)
    assert torch.equal(its(), c) and not torch.equal(b, c)


def masks_after(tmp_path, seed, runs):
    """Those of a run behind so many others."""
    session = samba.SambaSession()
    session.setup({"seed": seed})
    run = masks(tmp_path, session, "fresh")
    for _ in range(runs):
        run()
    return run()


def test_a_number_of_the_host_in_forward(tmp_path):
    class Noisy(torch.nn.Module):
        def forward(self, x):
            return x * random.random()

    model, inputs, session = samba.from_torch_model_(Noisy()), (samba.ones(2, 2, name="x"),), samba.SambaSession()
    pef = session.compile(model, inputs, inference=True, output_folder=str(tmp_path))
    with pytest.raises(StateError) as refused:
        session.trace_graph(model, inputs, pef=pef)
    first = str(refused.value)[:330]
    assert first.startswith("forward has the constant ") and "test_behind_a_trace.py:" in first
    assert "(random.random(), a counter), use torch.rand(()) or make it an input" in first
