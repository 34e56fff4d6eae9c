# SPDX-License-Identifier: Apache-2.0
"""Hyperparameters that change while a model trains, against torch.optim whose param_groups change at the same steps: every number
of every optimizer, drawn by a seed, from 0 and to 0, with several optimizers, gradient accumulation and clipping.
Then what no run can set, and an input that nobody gave."""

import copy
import random
import warnings

import pytest
import torch
import torch.nn as nn
from models import TwoLinears as Model

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors

SGD, ADAMW, ADAM = samba.optim.SGD, samba.optim.AdamW, samba.optim.Adam
STEPS = 30


def _numbers(kind, draw):
    """Numbers of an optimizer; each may be 0 that may be."""
    some = lambda most: draw.choice([0.0, most * draw.random(), most * draw.random()])
    found = {"lr": 0.001 + some(0.05), "weight_decay": some(0.2)}
    if kind is SGD:
        return {**found, "momentum": some(0.95), "dampening": some(0.9)}
    return {**found, "betas": (some(0.95), some(0.99)), "eps": 1e-2 + some(0.1)}


def _optimizers(kinds, model, seed):
    """One of all parameters, or one for each half."""
    draw = random.Random(seed)
    parts = [model.parameters()] if len(kinds) == 1 else [model.first.parameters(), model.second.parameters()]
    clip = draw.choice([None, 0.3])
    made = [kind(part, **_numbers(kind, draw), max_grad_norm=clip) for kind, part in zip(kinds, parts)]
    if kinds == [SGD] and seed % 3 == 0:
        made[0] = SGD(model.parameters(), lr=0.02, momentum=0.5, nesterov=True, max_grad_norm=clip)
    return made, clip


def _batch(generator, dtype):
    return torch.randn(4, 5, generator=generator).to(dtype), torch.randn(4, 3, generator=generator).to(dtype)


def _trace(tmp_path, ours, optimizers, dtype=torch.float32, **options):
    inputs = (
        samba.from_torch_tensor(torch.zeros(4, 5, dtype=dtype), name="x"),
        samba.from_torch_tensor(torch.zeros(4, 3, dtype=dtype), name="y"),
    )
    pef = samba.session.compile(
        ours, inputs, optimizers, name="changing", loss_indices=[0], output_folder=str(tmp_path), **options
    )
    return pef, utils.trace_graph(ours, inputs, optimizers, pef=pef, loss_indices=[0])


def _inputs(x, y):
    return samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(y, name="y")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(
    "kinds", [[SGD], [ADAMW], [ADAM], [SGD, ADAMW], [SGD, SGD]], ids=lambda kinds: "-".join(kind.__name__ for kind in kinds)
)
@pytest.mark.parametrize("seed", range(1, 5))
def test_every_number_changes(tmp_path, kinds, dtype, seed):
    torch.manual_seed(seed)
    model = Model().to(dtype)
    ours = samba.from_torch_model(copy.deepcopy(model))
    theirs, clip = _optimizers(kinds, model, seed)
    mine, _ = _optimizers(kinds, ours, seed)
    draw, generator, parts = random.Random(100 + seed), torch.Generator().manual_seed(seed), 1 + seed % 2
    _trace(tmp_path, ours, mine, dtype, grad_accumulation_steps=parts)
    tolerance = (
        dict(rtol=1e-9, atol=1e-10) if dtype is torch.float64 else dict(rtol=2e-4, atol=1e-4)
    )  # Adam divides small numbers by small ones
    for step in range(STEPS):
        given = {}
        if draw.random() < 0.5:
            for i, (kind, optimizer) in enumerate(zip(kinds, theirs)):
                numbers = {name: x for name, x in _numbers(kind, draw).items() if draw.random() < 0.7}
                optimizer.param_groups[0].update(numbers)
                given.update({f"optim{i}.{name}" if len(kinds) > 1 else name: x for name, x in numbers.items()})
        for optimizer in theirs:
            optimizer.zero_grad()
        for _ in range(parts):
            x, y = _batch(generator, dtype)
            (model(x, y) / parts).backward()
            samba.session.run(_inputs(x, y), hyperparam_dict=given or None)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        for optimizer in theirs:
            optimizer.step()
        if step % 5 == 4 or step < 3:
            samba.session.to_cpu(ours, mine)
            for (name, a), b in zip(ours.named_parameters(), model.parameters()):
                torch.testing.assert_close(
                    a.torch(), b, **tolerance, msg=lambda text: f"seed {seed}, step {step}, {name}: {text}"
                )
            for a, b in zip(mine, theirs):  # the same state, or none
                for p, q in zip(a.param_groups[0]["params"], b.param_groups[0]["params"]):
                    assert set(a.state[p]) == {key for key, x in b.state[q].items() if x is not None}, (seed, step)
                    for key, x in a.state[p].items():
                        torch.testing.assert_close(samba.to_torch(x).to(dtype), b.state[q][key].to(dtype), **tolerance)


def test_momentum_from_none_is_saved(tmp_path):
    """SGD without momentum that gets one has its state in checkpoints, goes on to the same bits from them,
    and says its memory in the log."""
    ours = samba.from_torch_model(Model())
    optimizer = SGD(ours.parameters(), lr=0.1)
    pef, _ = _trace(tmp_path, ours, optimizer)
    with open(pef + ".log") as log:
        text = log.read()
    assert "momentum, which runs may change: while it is 0 steps leave them alone" in text
    generator, ends = torch.Generator().manual_seed(5), []
    batches = [_inputs(*_batch(generator, torch.float32)) for _ in range(6)]
    samba.session.run(batches[0])
    assert not samba.session.loaded().hyperparameters["momentum"]
    samba.session.run(batches[1], hyperparam_dict={"momentum": 0.9, "dampening": 0.4})
    samba.session.save(str(tmp_path / "half.safetensors"))
    samba.session.save_checkpoint(str(tmp_path / "points"), 2)
    for how in ("on", "loaded", "checkpoint"):
        given = None
        if how == "loaded":
            samba.session.load(str(tmp_path / "half.safetensors"))
            given = {"momentum": 0.9, "dampening": 0.4}
        elif how == "checkpoint":
            samba.session.load_checkpoint(str(tmp_path / "points"))
        for batch in batches[2:]:
            samba.session.run(batch, hyperparam_dict=given)
        ends.append(samba.session.get_tensors_by_name(["first.weight", "second.bias", "first.weight.momentum_buffer"]))
        if how == "on":
            samba.session.run(batches[0], hyperparam_dict={"momentum": 0.0, "dampening": 0.0})  # which a checkpoint puts back
    for other in ends[1:]:
        assert all(torch.equal(a.torch(), b.torch()) for a, b in zip(ends[0], other))
    assert ends[0][2].torch().abs().max() > 0


@pytest.mark.parametrize("name", ["nesterov", "amsgrad", "maximize", "max_grad_norm"])
def test_structure_is_no_number(tmp_path, name):
    ours = samba.from_torch_model(Model())
    _trace(tmp_path, ours, SGD(ours.parameters(), lr=0.1))
    with pytest.raises(errors.UnknownNameError, match=f'"{name}" cannot be changed by a run, .*compile (again|with an)'):
        samba.session.run(_inputs(*_batch(torch.Generator(), torch.float32)), hyperparam_dict={name: 1.0})


def test_a_rate_without_dropout(tmp_path):
    ours = samba.from_torch_model(Model())
    _trace(tmp_path, ours, SGD(ours.parameters(), lr=0.1))
    batch = _inputs(*_batch(torch.Generator(), torch.float32))
    with pytest.warns(RuntimeWarning, match='"p" has no effect: there is no dropout'):
        samba.session.run(batch, hyperparam_dict={"p": 0.1, "lr": 0.2})
    assert samba.session.loaded().hyperparameters["lr"] == 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samba.session.run(batch, hyperparam_dict={"p": 0.1})
    with pytest.raises(errors.ArgumentError, match="dropout rate must be in"):
        samba.session.run(batch, hyperparam_dict={"p": 1.1})


def test_an_optimizer_of_what_the_model_has_not(tmp_path):
    """Each parameter by itself: one whose module was replaced would stay as it is in silence."""
    ours = samba.from_torch_model(Model())
    optimizer = SGD(ours.parameters(), lr=0.1)
    ours.second = samba.from_torch_model(nn.Linear(7, 3))
    inputs = _inputs(*_batch(torch.Generator(), torch.float32))
    with pytest.raises(
        errors.UnknownNameError,
        match=r"compile: parameter 2 of group 0 of optimizer SGD, .*of shape \(3, 7\), is no parameter of the model",
    ):
        samba.session.compile(ours, inputs, optimizer, output_folder=str(tmp_path))
    fitting = SGD(ours.parameters(), lr=0.1)
    pef = samba.session.compile(ours, inputs, fitting, output_folder=str(tmp_path))
    with pytest.raises(errors.UnknownNameError, match="trace_graph: parameter 2 of group 0"):
        utils.trace_graph(ours, inputs, optimizer, pef=pef)
    ours.spare = samba.from_torch_model(nn.Linear(2, 2))  # the model's, which forward does not use: torch skips it as well
    more = SGD(ours.parameters(), lr=0.1)
    utils.trace_graph(ours, inputs, more, pef=samba.session.compile(ours, inputs, more, output_folder=str(tmp_path)))


def test_inputs_that_nobody_gave(tmp_path):
    ours = samba.from_torch_model(Model())
    optimizer = SGD(ours.parameters(), lr=0.1)
    x, y = _inputs(*_batch(torch.Generator().manual_seed(1), torch.float32))
    pef = samba.session.compile(ours, (x, y), optimizer, output_folder=str(tmp_path))
    outputs = utils.trace_graph(ours, (x, y), optimizer, pef=pef)
    first = samba.session.run(output_tensors=outputs, section_types=["FWD"])  # tracing has moved them
    utils.trace_graph(ours, (x, y), optimizer, pef=pef, transfer_device=False)
    samba.session.to_rdu(ours)
    with pytest.raises(errors.StateError, match='reads the inputs "x", "y", which were never given'):
        samba.session.run(output_tensors=outputs, section_types=["FWD"])
    with pytest.raises(errors.StateError, match='reads the input "y", which was never given'):
        samba.session.run((x,), outputs, section_types=["FWD"])
    second = samba.session.run((x, y), outputs, section_types=["FWD"])
    third = samba.session.run(output_tensors=outputs, section_types=["FWD"])
    assert all(torch.equal(first[0].torch(), other[0].torch()) for other in (second, third))
