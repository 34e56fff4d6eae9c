# SPDX-License-Identifier: Apache-2.0
"""Schedules of the C library's training loop, samba_schedule_lr and samba_plateau_step, beside torch.optim.lr_scheduler: every
kind, with a warm-up before it, step by step."""

import os
import random

import pytest
import torch
from torch.optim import lr_scheduler

from sambaflow._core import ffi, lib
from sambaflow.runtime import Context

SEED = int(os.environ.get("SAMBAFLOW_SEED", "20261129"))


def rates(make, steps, values=None):
    """torch's rate of each step."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    scheduler, found = make(optimizer), []
    for step in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step() if values is None else scheduler.step(values[step])
    return found


def warmed(optimizer, steps, then):
    warmup = lr_scheduler.LinearLR(optimizer, 1 / (steps + 1), 1, steps)
    return lr_scheduler.SequentialLR(optimizer, [warmup, then(optimizer)], [steps])


def schedule(**fields):
    kept = fields.pop("milestones", None)
    made = ffi.new("samba_schedule *", {"kind": getattr(lib, f"SAMBA_SCHEDULE_{fields.pop('kind')}"), **fields})
    if kept is not None:
        array = ffi.new("int64_t[]", kept)
        made.milestones, made.milestone_count = array, len(kept)
        return made, array
    return made, None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["CONSTANT", "LINEAR", "COSINE", "STEP", "MULTI_STEP", "EXPONENTIAL", "ONE_CYCLE"])
def test_as_torch(kind, seed):
    draw = random.Random(f"{SEED} {kind} {seed}")
    total = draw.randint(20, 60)
    warmup = 0 if kind == "ONE_CYCLE" else draw.choice([0, 1, 7])
    gamma, size, low = draw.choice([0.5, 0.9]), draw.randint(1, 9), draw.choice([0.0, 0.01])
    stones = sorted(draw.sample(range(1, total - warmup), 3))
    rest = total - warmup
    fields = {
        "CONSTANT": {},
        "LINEAR": {"min_lr": low},
        "COSINE": {"min_lr": low},
        "STEP": {"step_size": size, "gamma": gamma},
        "MULTI_STEP": {"milestones": stones, "gamma": gamma},
        "EXPONENTIAL": {"gamma": gamma},
        "ONE_CYCLE": {"one_cycle": {"pct_start": 0.4, "linear": bool(seed % 2), "three_phase": seed == 2}},
    }[kind]
    then = {
        "CONSTANT": lambda o: lr_scheduler.ConstantLR(o, 1.0),
        "LINEAR": lambda o: lr_scheduler.LinearLR(o, 1.0, low / 0.3, rest),
        "COSINE": lambda o: lr_scheduler.CosineAnnealingLR(o, rest, low),
        "STEP": lambda o: lr_scheduler.StepLR(o, size, gamma),
        "MULTI_STEP": lambda o: lr_scheduler.MultiStepLR(o, stones, gamma),
        "EXPONENTIAL": lambda o: lr_scheduler.ExponentialLR(o, gamma),
        "ONE_CYCLE": lambda o: lr_scheduler.OneCycleLR(
            o, 0.3, total, pct_start=0.4, anneal_strategy="linear" if seed % 2 else "cos", three_phase=seed == 2
        ),
    }[kind]
    ours, _kept = schedule(kind=kind, warmup_steps=warmup, **fields)
    context = Context()
    context.check(lib.samba_schedule_check(context.c, ours, total))
    expected = rates(then if warmup == 0 else lambda o: warmed(o, warmup, then), total)
    found = [lib.samba_schedule_lr(ours, 0.3, step, 0, total) for step in range(total)]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_by_epoch():
    ours, _ = schedule(kind="STEP", step_size=2, by_epoch=True)
    expected = rates(lambda o: lr_scheduler.StepLR(o, 2), 9)
    assert [lib.samba_schedule_lr(ours, 0.3, 100, epoch, 0) for epoch in range(9)] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(20))
def test_plateau(seed):
    draw = random.Random(f"{SEED} {seed}")
    greater, absolute = draw.random() < 0.5, draw.random() < 0.5
    patience, cooldown, factor = draw.choice([1, 3]), draw.choice([0, 2]), draw.choice([0.1, 0.7])
    threshold, low = draw.choice([1e-4, 0.1]), draw.choice([0.0, 0.02])
    values = [draw.choice([draw.random(), 1.0, float("nan")]) for _ in range(60)]
    values[0] = draw.random()
    expected = rates(
        lambda o: lr_scheduler.ReduceLROnPlateau(
            o, "max" if greater else "min", factor, patience, threshold, "abs" if absolute else "rel", cooldown, low
        ),
        60,
        values,
    )
    ours, _ = schedule(
        kind="PLATEAU",
        gamma=factor,
        patience=patience,
        cooldown=cooldown,
        threshold=threshold,
        absolute_threshold=absolute,
        min_lr=low,
    )
    state = ffi.new("samba_plateau *", lib.samba_plateau_begin(0.3))
    found = [0.3] + [lib.samba_plateau_step(state, ours, value, greater) for value in values]
    assert found[:60] == pytest.approx(expected, rel=1e-12), seed
