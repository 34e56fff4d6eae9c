# SPDX-License-Identifier: Apache-2.0
"""Optimizers against torch.optim over 20 steps, each option in float32 and float64; groups, frozen parameters, state_dict both
ways; schedules against torch.optim.lr_scheduler, in C and driving a session."""

import contextlib
import copy
import math
import os
import pickle
import random
import warnings

import pytest
import torch
import torch.nn as nn
from models import TwoLinears as Model

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow._core import ffi, lib
from sambaflow.samba.optimizer_facts import FACTS

STEPS = 20
SGD, ADAMW, ADAM = samba.optim.SGD, samba.optim.AdamW, samba.optim.Adam
OPTIONS = [
    (SGD, dict(lr=0.1)),
    (SGD, dict(lr=0.1, weight_decay=0.05)),
    (SGD, dict(lr=0.1, momentum=0.9)),
    (SGD, dict(lr=0.1, momentum=0.9, dampening=0.3)),
    (SGD, dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.02)),
    (SGD, dict(lr=0.02, maximize=True, momentum=0.8, weight_decay=0.1)),
    (SGD, dict(lr=0.3, momentum=0.5, max_grad_norm=0.2)),
    (SGD, dict(lr=0.02, maximize=True, max_grad_norm=0.2)),
    (ADAMW, dict(lr=0.01)),
    (ADAMW, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)),
    (ADAMW, dict(lr=0.01, amsgrad=True)),
    (ADAMW, dict(lr=0.01, maximize=True, weight_decay=0.2)),
    (ADAMW, dict(lr=0.01, max_grad_norm=0.1, amsgrad=True, maximize=True)),
    (ADAM, dict(lr=0.01)),
    (ADAM, dict(lr=0.01, weight_decay=0.3, amsgrad=True)),
    (ADAM, dict(lr=0.01, weight_decay=0.3, maximize=True)),
    (samba.optim.Lion, dict(lr=0.01, weight_decay=0.1, betas=(0.8, 0.9))),
    (samba.optim.Adagrad, dict(lr=0.1, lr_decay=0.1, weight_decay=0.05, initial_accumulator_value=0.2)),
    (samba.optim.RMSprop, dict(lr=0.01, alpha=0.9, momentum=0.8, centered=True, weight_decay=0.1)),
    (samba.optim.Adadelta, dict(lr=0.7, rho=0.8, weight_decay=0.1)),
    (samba.optim.NAdam, dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True, momentum_decay=0.02)),
    (samba.optim.RAdam, dict(lr=0.01, weight_decay=0.1, betas=(0.8, 0.99))),
    (samba.optim.Adamax, dict(lr=0.01, weight_decay=0.1)),
]


def _pair(make, dtype=torch.float32, freeze=(), model=Model):
    """(torch's model, its optimizers and clipping), (ours, its optimizers)."""
    torch.manual_seed(3)
    model = model().to(dtype)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in freeze)
    ours = samba.from_torch_model(copy.deepcopy(model))
    return model, make(model), ours, make(ours)


def _batches(dtype):
    generator = torch.Generator().manual_seed(7)
    return [
        (torch.randn(4, 5, generator=generator).to(dtype), torch.randn(4, 3, generator=generator).to(dtype)) for _ in range(STEPS)
    ]


def _trace(tmp_path, ours, optimizers, dtype, pef=None):
    inputs = (
        samba.from_torch_tensor(torch.zeros(4, 5, dtype=dtype), name="x"),
        samba.from_torch_tensor(torch.zeros(4, 3, dtype=dtype), name="y"),
    )
    pef = pef or samba.session.compile(ours, inputs, optimizers, name="optimizers", loss_indices=[0], output_folder=str(tmp_path))
    return utils.trace_graph(ours, inputs, optimizers, pef=pef, loss_indices=[0])


def _run(x, y, outputs=None, **hyperparameters):
    return samba.session.run(
        (samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(y, name="y")),
        outputs,
        hyperparam_dict=hyperparameters or None,
    )


@contextlib.contextmanager
def _scalars(dtype):
    """torch keeps what is one number of an optimizer in float32, but for programs whose default is float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


def _train(model, optimizers, batches, clip=None, schedulers=()):
    with _scalars(batches[0][0].dtype):
        return _train_on(model, optimizers, batches, clip, schedulers)


def _train_on(model, optimizers, batches, clip, schedulers):
    for x, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        model(x, y).backward()
        if clip:
            nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], clip)
        for step in (*optimizers, *schedulers):
            step.step()


def _compare(ours, model, dtype, what=""):
    """A rounding of each step, which later steps keep or shrink; Adam divides small gradients by themselves."""
    eps = torch.finfo(dtype).eps
    for (name, mine), its in zip(ours.named_parameters(), model.parameters()):
        torch.testing.assert_close(mine.torch(), its, rtol=40 * eps, atol=100 * eps, msg=lambda text: f"{what} {name}: {text}")


class Models(nn.Module):
    """As many models as there are options, each trained by an optimizer of its own: one graph."""

    def __init__(self, count):
        super().__init__()
        self.each = nn.ModuleList(Model() for _ in range(count))

    def forward(self, x, y):
        return sum(model(x, y) for model in self.each)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_options(tmp_path, dtype):
    rows = [(kind, options) for kind, options in OPTIONS if "max_grad_norm" not in options]

    def make(models):
        return [kind(model.parameters(), **options) for model, (kind, options) in zip(models.each, rows)]

    model, theirs, ours, mine = _pair(make, dtype, model=lambda: Models(len(rows)))
    batches = _batches(dtype)
    _trace(tmp_path, ours, mine, dtype)
    for x, y in batches:
        _run(x, y)
    _train(model, theirs, batches)
    samba.session.to_cpu(ours)
    for i, (kind, options) in enumerate(rows):
        _compare(ours.each[i], model.each[i], dtype, f"{kind.__name__} {options}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "kind, options",
    [row for row in OPTIONS if "max_grad_norm" in row[1]],
    ids=lambda x: x.__name__ if isinstance(x, type) else ",".join(x),
)
def test_clipping(tmp_path, kind, options, dtype):
    model, theirs, ours, mine = _pair(lambda model: kind(model.parameters(), **options), dtype)
    batches = _batches(dtype)
    _trace(tmp_path, ours, mine, dtype)
    for x, y in batches:
        _run(x, y)
    _train(model, [theirs], batches, options["max_grad_norm"])
    samba.session.to_cpu(ours)
    _compare(ours, model, dtype)


# ---- arguments that a seed draws, of every optimizer of the table ----

RANGES = {
    "lr": (0.002, 0.02),
    "beta1": (0.5, 0.95),
    "beta2": (0.6, 0.999),
    "eps": (1e-6, 1e-3),
    "dampening": (-0.5, 0.9),
    "momentum": (0.1, 0.95),
}  # else 0 to 0.3
OFTEN_ZERO = ("weight_decay", "momentum", "dampening", "lr_decay", "initial_accumulator_value")


def _drawn(draw, facts, only_runs=False):
    """Arguments as torch takes them."""
    found = {}
    for number in facts.hyperparameters:
        low, high = RANGES.get(number.name, (0.5, 0.99) if number.value >= 0.5 else (0.0, 0.3))
        value = 0.0 if number.name in OFTEN_ZERO and draw.random() < 0.4 else draw.uniform(low, high)
        if number.run or not only_runs:
            found[number.name] = value
    if not only_runs:
        found.update({flag: draw.random() < 0.5 for flag in facts.flags})
    if found.get("nesterov"):
        found["momentum"], found["dampening"] = found["momentum"] or 0.5, 0.0
    if "beta1" in found:
        found["betas"] = (found.pop("beta1"), found.pop("beta2"))
    return found


def _as_device(arguments):
    return {
        key: x
        for name, value in arguments.items()
        for key, x in (zip(("beta1", "beta2"), value) if name == "betas" else [(name, value)])
    }


SEED = int(os.environ.get("SAMBAFLOW_SEED") or random.SystemRandom().randrange(1 << 30))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("title", FACTS)
def test_drawn(tmp_path, title, dtype):
    """Losses of 20 steps, parameters and state are torch's;
    halfway all numbers become others, by torch's groups and by hyperparameters of a run."""
    print(f"seed {SEED}")
    draw = random.Random(f"{SEED} {title} {dtype}")
    for _ in range(3):
        options = _drawn(draw, FACTS[title])
        print(title, options)
        later = _drawn(draw, FACTS[title], only_runs=True) if not options.get("nesterov") else {}
        with _scalars(dtype):
            model, theirs, ours, mine = _pair(lambda model: getattr(samba.optim, title)(model.parameters(), **options), dtype)
        if "momentum" in later:  # torch makes a buffer in the first step of all or never
            later["momentum"] = later["momentum"] if options["momentum"] else 0.0
        batches = _batches(dtype)
        outputs = _trace(tmp_path, ours, mine, dtype)
        for step, (x, y) in enumerate(batches):
            if step == STEPS // 2:
                theirs.param_groups[0].update(later)
            with torch.no_grad():
                loss = model(x, y)
            _train(model, [theirs], [(x, y)])
            (ran,) = _run(x, y, outputs, **(_as_device(later) if step == STEPS // 2 else {}))
            tight = dict(rtol=2e3 * torch.finfo(dtype).eps, atol=2e3 * torch.finfo(dtype).eps)
            torch.testing.assert_close(ran.torch(), loss, **tight)
        samba.session.to_cpu(ours, mine)
        for its, parameter in zip(ours.parameters(), model.parameters()):
            torch.testing.assert_close(its.torch(), parameter.detach(), **tight)
            assert set(mine.state[its]) == set(theirs.state[parameter]), (mine.state[its].keys(), theirs.state[parameter].keys())
            for key, value in theirs.state[parameter].items():
                if value is not None:
                    held = mine.state[its][key]
                    torch.testing.assert_close(
                        (held.torch() if hasattr(held, "torch") else held).to(value.dtype),
                        value,
                        **{name: max(x, 1e-6) for name, x in tight.items()},
                    )


@pytest.mark.parametrize("title", FACTS)
def test_refused_numbers(tmp_path, title):
    """What torch refuses when an optimizer is made, compile refuses of a group that was changed afterwards."""
    for number in FACTS[title].hyperparameters:
        if number.name == "dampening":
            continue
        optimizer = getattr(samba.optim, title)((model := samba.from_torch_model_(nn.Linear(3, 2))).parameters())
        group = optimizer.param_groups[0]
        if number.name in ("beta1", "beta2"):
            group["betas"] = (-0.5, 0.9) if number.name == "beta1" else (0.9, -0.5)
        else:
            group[number.name] = -0.5
        with pytest.raises(ValueError, match=rf"optimizer 0 has {number.name} -0.5: expected a number in \[0"):
            samba.session.compile(model, (samba.ones(4, 3, name="x"),), optimizer, output_folder=tmp_path)


@pytest.mark.parametrize("kind", [getattr(samba.optim, title) for title in FACTS])
def test_copies_and_pickles(kind):
    optim = kind(samba.from_torch_model_(nn.Linear(3, 2)).parameters(), lr=0.1, max_grad_norm=2.0)
    for copied in (copy.deepcopy(optim), pickle.loads(pickle.dumps(optim))):
        assert copied.max_grad_norm == 2.0 and repr(copied) == repr(optim)


def test_groups_and_frozen_parameters(tmp_path):
    """Two optimizers, one of two groups, and a parameter that nobody trains."""

    def make(model):
        groups = [
            {"params": [model.first.weight], "lr": 0.05},
            {"params": [model.first.bias, model.second.bias], "weight_decay": 0.1, "momentum": 0.0},
        ]
        return [SGD(groups, lr=0.1, momentum=0.9), ADAMW([model.second.weight], lr=0.01, maximize=False)]

    model, theirs, ours, mine = _pair(make, freeze=("second.bias",))
    before = model.second.bias.detach().clone()
    batches = _batches(torch.float32)
    _trace(tmp_path, ours, mine, torch.float32)
    for x, y in batches:
        _run(x, y)
    _train(model, theirs, batches)
    samba.session.to_cpu(ours)
    _compare(ours, model, torch.float32)
    assert torch.equal(ours.second.bias.torch(), before)


@pytest.mark.parametrize("kind, options", [OPTIONS[3], OPTIONS[10], OPTIONS[14]], ids=["SGD", "AdamW", "Adam"])
def test_state_dict_there_and_back(tmp_path, kind, options):
    """torch trains, its state goes to the device, the device trains on, its state goes back, torch trains on: as torch alone."""
    model, theirs, ours, mine = _pair(lambda model: kind(model.parameters(), **options))
    alone, batches = copy.deepcopy(model), _batches(torch.float32)
    _train(alone, [kind(alone.parameters(), **options)], batches)
    _train(model, [theirs], batches[:7])
    with torch.no_grad():
        for its, p in zip(ours.parameters(), model.parameters()):
            its.copy_(p)
    mine.load_state_dict(copy.deepcopy(theirs.state_dict()))
    _trace(tmp_path, ours, mine, torch.float32)
    for x, y in batches[7:13]:
        _run(x, y)
    samba.session.to_cpu(ours, mine)
    with torch.no_grad():
        for p, its in zip(model.parameters(), ours.parameters()):
            p.copy_(its.torch())
    state = mine.state_dict()
    state["state"] = {
        k: {name: x.torch() if hasattr(x, "torch") else x for name, x in s.items()} for k, s in state["state"].items()
    }
    theirs.load_state_dict(state)
    _train(model, [theirs], batches[13:])
    for p, expected in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(p, expected, rtol=1e-5, atol=2e-5)


# ---- schedules ----

S = torch.optim.lr_scheduler
RATE = 0.4
SCHEDULES = {
    "constant": (lambda o: S.ConstantLR(o, 0.25, 6), lambda step: lib.samba_constant_lr(RATE, step, 0.25, 6)),
    "linear": (lambda o: S.LinearLR(o, 0.1, 0.7, 8), lambda step: lib.samba_linear_lr(RATE, step, 0.1, 0.7, 8)),
    "polynomial": (lambda o: S.PolynomialLR(o, 15, 1.7), lambda step: lib.samba_polynomial_lr(RATE, step, 15, 1.7)),
    "step": (lambda o: S.StepLR(o, 4, 0.3), lambda step: lib.samba_step_lr(RATE, step, 4, 0.3)),
    "multi step": (
        lambda o: S.MultiStepLR(o, [3, 7, 7, 12], 0.5),
        lambda step: lib.samba_multi_step_lr(RATE, step, 4, [3, 7, 7, 12], 0.5),
    ),
    "exponential": (lambda o: S.ExponentialLR(o, 0.9), lambda step: lib.samba_exponential_lr(RATE, step, 0.9)),
    "cosine": (lambda o: S.CosineAnnealingLR(o, 9, 0.05), lambda step: lib.samba_cosine_annealing_lr(RATE, step, 9, 0.05)),
    "restarts": (
        lambda o: S.CosineAnnealingWarmRestarts(o, 4, 1, 0.02),
        lambda step: lib.samba_cosine_annealing_warm_restarts(RATE, step, 4, 1, 0.02),
    ),
    "longer restarts": (
        lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2),
        lambda step: lib.samba_cosine_annealing_warm_restarts(RATE, step, 3, 2, 0),
    ),
    "one cycle": (lambda o: S.OneCycleLR(o, RATE, 30), lambda step: lib.samba_one_cycle_lr(RATE, step, 30, ffi.NULL)),
    "one cycle, straight": (
        lambda o: S.OneCycleLR(o, RATE, 30, pct_start=0.4, anneal_strategy="linear", div_factor=5, final_div_factor=50),
        lambda step: lib.samba_one_cycle_lr(
            RATE,
            step,
            30,
            ffi.new("samba_one_cycle_options *", {"pct_start": 0.4, "linear": True, "div_factor": 5, "final_div_factor": 50}),
        ),
    ),
    "one cycle, three phases": (
        lambda o: S.OneCycleLR(o, RATE, 30, three_phase=True),
        lambda step: lib.samba_one_cycle_lr(RATE, step, 30, ffi.new("samba_one_cycle_options *", {"three_phase": True})),
    ),
    "chained": (
        lambda o: S.ChainedScheduler([S.StepLR(o, 5, 0.5), S.LinearLR(o, 0.25, 1.0, 6)], o),
        lambda step: lib.samba_linear_lr(lib.samba_step_lr(RATE, step, 5, 0.5), step, 0.25, 1.0, 6),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    make, ours = SCHEDULES[name]
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = make(optimizer)
    for step in range(30):
        assert math.isclose(ours(step), optimizer.param_groups[0]["lr"], rel_tol=1e-9, abs_tol=1e-12), step
        optimizer.step()
        if step < 29:
            scheduler.step()


def test_schedules_refuse():
    wrong = [
        lib.samba_constant_lr(1, -1, 0.5, 3),
        lib.samba_constant_lr(1, 0, 1.5, 3),
        lib.samba_linear_lr(1, 0, 0, 1, 3),
        lib.samba_linear_lr(1, 0, 1, 2, 3),
        lib.samba_polynomial_lr(1, 0, 0, 1),
        lib.samba_step_lr(1, 0, 0, 1),
        lib.samba_multi_step_lr(1, 0, 2, ffi.NULL, 1),
        lib.samba_exponential_lr(1, -1, 1),
        lib.samba_cosine_annealing_lr(1, 0, 0, 0),
        lib.samba_cosine_annealing_warm_restarts(1, 0, 4, 0, 0),
        lib.samba_one_cycle_lr(1, 30, 30, ffi.NULL),
    ]
    assert all(math.isnan(x) for x in wrong)
    assert lib.samba_cosine_annealing_warm_restarts(1, 2**62, 1, 2, 0) <= 1  # lengths that double stay within 64 bits


def test_scheduler_of_torch_drives_a_session(tmp_path):
    """Warm-up, then a cosine: the optimizer's groups of torch, its scheduler, and lr as the hyperparameter of each run."""
    model, theirs, ours, mine = _pair(lambda model: SGD(model.parameters(), lr=0.2, momentum=0.9))
    batches = _batches(torch.float32)
    schedulers = [S.SequentialLR(o, [S.LinearLR(o, 0.1, 1.0, 5), S.CosineAnnealingLR(o, 15)], [5]) for o in (theirs, mine)]
    _trace(tmp_path, ours, mine, torch.float32)
    for x, y in batches:
        _run(x, y, lr=mine.param_groups[0]["lr"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the optimizer's step was the device's
            schedulers[1].step()
    _train(model, [theirs], batches, schedulers=[schedulers[0]])
    samba.session.to_cpu(ours)
    _compare(ours, model, torch.float32)


class Signs(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter -= group["lr"] * parameter.grad.sign()


class Named(torch.optim.SGD):
    """One that only looks different."""


def test_steps_of_the_program(tmp_path):
    """The device cannot call them."""
    model, x = samba.from_torch_model_(nn.Linear(3, 2)), samba.ones(4, 3, name="x")
    with pytest.raises(NotImplementedError, match="optimizer Signs has a step of its own"):
        samba.session.compile(model, (x,), Signs(model.parameters(), lr=0.1), output_folder=tmp_path)
    optim = Named(model.parameters(), lr=0.1)
    hook = optim.register_step_post_hook(lambda *_: None)
    with pytest.raises(NotImplementedError, match="optimizer Named has a hook of register_step_pre_hook or"):
        samba.session.compile(model, (x,), optim, output_folder=tmp_path)
    hook.remove()
    torch.optim.lr_scheduler.StepLR(optim, 1)
    samba.session.compile(model, (x,), optim, output_folder=tmp_path)


DIFFER = [
    (ADAMW, {}, ADAMW, dict(amsgrad=True), "with a state max_exp_avg_sq of 'weight'"),
    (ADAMW, dict(amsgrad=True), ADAMW, {}, "without a state max_exp_avg_sq"),
    (ADAMW, {}, SGD, dict(lr=0.1), "is SGD without a state exp_avg of 'weight'"),
    (SGD, {}, ADAMW, dict(lr=0.1), "is AdamW, but the PEF was compiled with SGD: give"),
    (SGD, {}, SGD, dict(max_grad_norm=1.0), "with max_grad_norm 1, but .* does not clip"),
    (SGD, dict(max_grad_norm=1.0), SGD, {}, "without max_grad_norm, but .* clips"),
]


@pytest.mark.parametrize("compiled, options, kind, given, says", DIFFER, ids=lambda x: x if isinstance(x, str) else "")
def test_other_optimizers_than_compiled(tmp_path, compiled, options, kind, given, says):
    model, x = samba.from_torch_model_(nn.Linear(3, 2)), samba.ones(4, 3, name="x")
    pef = samba.session.compile(model, (x,), compiled(model.parameters(), **options), output_folder=tmp_path)
    with pytest.raises(RuntimeError, match=says):
        utils.trace_graph(model, (x,), kind(model.parameters(), **given), pef=pef)


def test_an_optimizer_of_fewer_parameters(tmp_path):
    model, x = samba.from_torch_model_(nn.Linear(3, 2)), samba.ones(4, 3, name="x")
    pef = samba.session.compile(model, (x,), ADAMW(model.parameters()), output_folder=tmp_path)
    with pytest.raises(RuntimeError, match="'weight' has none, but the PEF trains it"):
        utils.trace_graph(model, (x,), ADAMW([model.bias]), pef=pef)
    pef = samba.session.compile(model, (x,), ADAMW([model.bias]), output_folder=tmp_path)
    with pytest.raises(RuntimeError, match="with a state exp_avg of 'weight'"):
        utils.trace_graph(model, (x,), ADAMW(model.parameters()), pef=pef)


def test_what_is_a_hyperparameter_comes_from_the_optimizer(tmp_path):
    model, x = samba.from_torch_model_(nn.Linear(3, 2)), samba.ones(4, 3, name="x")
    pef = samba.session.compile(
        model, (x,), SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5, max_grad_norm=1.0), output_folder=tmp_path
    )
    utils.trace_graph(model, (x,), SGD(model.parameters(), lr=0.2, momentum=0.8, dampening=0.1, max_grad_norm=2.0), pef=pef)
    known = samba.session.loaded().hyperparameters
    assert [known[name] for name in ("lr", "momentum", "dampening", "max_grad_norm")] == [0.2, 0.8, 0.1, 2.0]
