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
from sambaflow.errors import StateError
from sambaflow.samba.attributes import _EACH


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
    changes = [("scale", 0.75, "0.5"), ("shift", 3, "2"), ("square", True, "False"), ("kind", "tanh", "'relu'")]
    name, value, shown = rng.choice(changes)
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
        "'parts.0.weight' is read on the host, which has its values from before the device trained it: call "
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
    assert first.startswith("forward has the number ") and "test_behind_a_trace.py:" in first
    assert "random.random() or a counter, draw it by torch" in first
