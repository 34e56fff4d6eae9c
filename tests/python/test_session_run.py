# SPDX-License-Identifier: Apache-2.0
"""The arguments of samba.session.run: schedules whole and in pieces give the same bits,
wrong ones change nothing and say what is right."""

import random

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


class Model(torch.nn.Module):
    """Two losses' worth of outputs, with dropout."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Dropout(0.3), torch.nn.Tanh())
        self.head = torch.nn.Linear(16, 5)

    def forward(self, x, label):
        logits = self.head(self.body(x))
        return torch.nn.functional.cross_entropy(logits, label), logits


@pytest.fixture(scope="module")
def pefs(tmp_path_factory):
    """{steps of gradient accumulation: PEF}."""
    folder, made = tmp_path_factory.mktemp("pefs"), {}
    for steps in (1, 3):
        model, inputs, optim = parts()
        made[steps] = samba.session.compile(
            model, inputs, optim, name=f"m{steps}", loss_indices=[0], output_folder=str(folder), grad_accumulation_steps=steps
        )
    return made


def parts():
    torch.manual_seed(3)
    model = samba.from_torch_model_(Model())
    inputs = samba.randn(8, 12, name="x"), samba.randint(5, (8,), name="label")
    return model, inputs, samba.optim.AdamW(model.parameters(), lr=0.01, max_grad_norm=0.5)


def opened(pef):
    samba.session.reset()
    model, inputs, optim = parts()
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    return model, inputs, outputs


def everything():
    device = samba.session.loaded()
    return {name: samba.session.device_get(name) for name, (kind, _, _) in device.tensors.items() if kind != "input"}


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


TYPES = ["ZEROGRAD", "FWD", "BCKWD", "GRADNORM", "OPT"]


def pieces(way, step, steps):
    """Keyword arguments of runs that together are one run of the schedule."""
    device = samba.session.loaded()
    there = [
        t
        for t in TYPES
        if t in device.section_types
        and (t != "ZEROGRAD" or step % steps == 0)
        and (t not in ("GRADNORM", "OPT") or step % steps == steps - 1)
    ]
    if way == "schedule":
        return [{}]
    if way == "types":
        return [{"section_types": [t.lower() if step % 2 else t.title() for t in there]}]
    if way == "type by type":
        return [{"section_types": t} for t in there]
    if way == "ids":
        ids = [i for i, t in enumerate(device.sections) if t in there]
        return [{"section_ids": [ids[:1], [ids[1:2], [ids[2:]]]]}]
    if way == "id by id":
        return [{"section_ids": i} for i, t in enumerate(device.sections) if t in there]
    calls = device.call_count
    cut = 1 + step % (calls - 1)
    return [{"run_until_call_id": cut}, {"run_from_call_id": cut, **({"run_until_call_id": calls} if step % 2 else {})}]


@pytest.mark.parametrize("steps", (1, 3))
def test_same_bits(pefs, steps):
    found = {}
    for way in ("schedule", "types", "type by type", "ids", "id by id", "calls"):
        _, inputs, outputs = opened(pefs[steps])
        results = []
        for step in range(2 * steps):
            batch = (
                samba.from_torch_tensor(torch.randn(8, 12, generator=torch.Generator().manual_seed(step)), name="x"),
                inputs[1],
            )
            runs = pieces(way, step, steps)
            for i, run in enumerate(runs):
                last = samba.session.run(batch if i == 0 else None, outputs if i == len(runs) - 1 else [], **run)
            results.append(last[0].item())
        found[way] = everything(), results
    for way, (tensors, results) in found.items():
        assert_equal(found["schedule"][0], tensors)
        assert results == found["schedule"][1], way


def test_order_and_repetition(pefs):
    """What a list says runs in its order, as often as it says."""
    model, inputs, outputs = opened(pefs[1])
    samba.session.run(inputs, outputs, section_types=["FWD", "FWD", "bckwd"])
    gradient = model.head.weight.sn_grad
    before = everything()
    samba.session.run(section_types=["FWD"])
    with pytest.raises(RuntimeError, match=r"section 1 \(BCKWD\) needs the activations of a forward run"):
        samba.session.run(section_types=["BCKWD", "BCKWD"])
    samba.session.run(section_types=["BCKWD", "FWD"])
    assert not torch.equal(gradient, model.head.weight.sn_grad)  # another mask
    after = everything()
    assert all(torch.equal(after[name], before[name]) for name in ("head.weight", "head.weight.exp_avg"))
    samba.session.run(section_types=["GRADNORM", "OPT", "OPT"], hyperparam_dict={"lr": 0.5})
    assert samba.session.device_get("optim0.step").item() == 2


def test_wrong_arguments(pefs):
    """Each is refused with what would be right, and nothing has changed."""
    model, inputs, outputs = opened(pefs[1])
    samba.session.run(inputs, outputs)
    before = everything()
    calls = samba.session.loaded().call_count
    zero = samba.zeros(8, 12, name="x"), inputs[1]
    wrong = [
        (ValueError, "both section types and section ids", {"section_types": ["FWD"], "section_ids": [0]}),
        (ValueError, "call ids are of the schedule", {"section_types": ["FWD"], "run_from_call_id": 0}),
        (ValueError, "call ids are of the schedule", {"section_ids": [0], "run_until_call_id": 1}),
        (ValueError, f"run_from_call_id {calls}: this PEF's calls are 0 to {calls - 1}", {"run_from_call_id": calls}),
        (ValueError, "run: run_from_call_id is -1: calls are counted from 0", {"run_from_call_id": -1}),
        (ValueError, f"run_until_call_id 0: .* is 1 to {calls}", {"run_until_call_id": 0}),
        (ValueError, f"run_until_call_id {calls + 1}", {"run_until_call_id": calls + 1}),
        (ValueError, "run_from_call_id 2 is not before run_until_call_id 2", {"run_from_call_id": 2, "run_until_call_id": 2}),
        (TypeError, "expected an integer", {"run_from_call_id": 1.0}),
        (TypeError, "expected integers, or lists of them", {"section_ids": [0, ["1"]]}),
        (TypeError, "expected words such as", {"section_types": [0]}),
        (LookupError, 'there is no section type "FORWARD"; this PEF has', {"section_types": ["FORWARD"]}),
        (ValueError, "there is no section 99", {"section_ids": [[99]]}),
        (
            ValueError,
            "3 gradients, and there are 2 outputs: output_0, output_1",
            {"grad_of_outputs": [None, None, torch.ones(8, 5)]},
        ),
        (LookupError, 'of a loss that .*"output_0"', {"grad_of_outputs": {"logits": torch.ones(8, 5)}}),
        (LookupError, 'no gradient "head.weight.grad" of an output', {"grad_of_outputs": {"head.weight": torch.ones(5, 16)}}),
        (ValueError, "output_0.grad", {"grad_of_outputs": [torch.ones(2)]}),
        (ValueError, "compile it with data_parallel", {"data_parallel": True}),
        (ValueError, "reduce_on_rdu=True says", {"reduce_on_rdu": True}),
        (ValueError, "data_parallel_mode='inorder' says", {"data_parallel_mode": "inorder"}),
        (ValueError, "data_parallel_mode 'fast': expected one of normal, inorder, optimal", {"data_parallel_mode": "fast"}),
        (LookupError, 'there is no graph "decode"; this PEF has: "m1"', {"graph_name": "decode"}),
        (TypeError, "unexpected keyword|has no keyword", {"section_type": ["FWD"]}),
    ]
    for kind, message, options in wrong:
        with pytest.raises(kind, match=message):
            samba.session.run(zero, outputs, hyperparam_dict={"lr": 9.0}, **options)
    assert samba.session.loaded().hyperparameters["lr"] == pytest.approx(0.01)
    assert_equal(before, everything())
    samba.session.run(inputs, outputs, graph_name="m1")


def test_gradients_of_outputs(tmp_path):
    """A loss on the host between two runs; what was given stays."""
    torch.manual_seed(1)
    model = samba.from_torch_model_(torch.nn.Linear(6, 4))
    inputs = (samba.randn(3, 6, name="x"),)
    pef = samba.session.compile(model, inputs, samba.optim.SGD(model.parameters(), lr=0.0), output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, inputs, None, pef=pef)
    (y,) = samba.session.run(inputs, outputs, section_types=["FWD"])
    x, y = inputs[0].torch(), y.torch().requires_grad_()
    loss = (y**2).sum() * 0.5 + y.exp().sum()
    loss.backward()
    for given in ([y.grad], {"output_0": y.grad}, y.grad):
        samba.session.run(grad_of_outputs=torch.zeros(3, 4), section_types=["FWD", "BCKWD"])
        assert torch.count_nonzero(model.weight.sn_grad) == 0
        samba.session.run(section_types=["FWD"])
        samba.session.run(grad_of_outputs=given, section_types=["BCKWD"])
        torch.testing.assert_close(model.weight.sn_grad, y.grad.T @ x)
    outputs[0].sn_grad = 2 * y.grad
    for _ in range(2):  # it stays
        samba.session.run(inputs, section_types=["FWD", "BCKWD"])
        torch.testing.assert_close(model.weight.sn_grad, 2 * y.grad.T @ x)


def test_train_and_seeds(pefs):
    """train=False is no dropout for that run; a given seed repeats a mask and stays; the generators start over when told."""
    model, inputs, outputs = opened(pefs[1])
    session = samba.session
    assert session.get_dropout_seed_argin_names() == ["body.1.seed"]

    def logits(**options):
        return session.run(inputs, outputs[1:], section_types=["FWD"], **options)[0].torch()

    first, second = logits(), logits()
    assert not torch.equal(first, second)  # new masks
    with torch.no_grad():
        linear = torch.nn.functional.linear
        hidden = linear(inputs[0].torch(), model.body[0].weight.torch(), model.body[0].bias.torch()).tanh()
        expected = linear(hidden, model.head.weight.torch(), model.head.bias.torch())
    torch.testing.assert_close(logits(train=False), expected)
    assert not torch.equal(logits(), logits())  # dropout again, at its rate
    session.reset_random_generator()
    assert torch.equal(logits(), first) and torch.equal(logits(), second)
    seeded = logits(hyperparam_dict={"seed": 7})
    assert torch.equal(logits(), seeded)  # stays
    assert torch.equal(logits(hyperparam_dict={"body.1.seed": 8, "p": 0.3}), logits()) and not torch.equal(logits(), seeded)
    assert torch.equal(logits(hyperparam_dict={"seed": 7}), seeded)
    utils.set_seed(5)
    session.reset_random_generator()
    fifth = logits()
    assert not torch.equal(fifth, first) and not torch.equal(logits(), fifth)


def test_random_schedules(pefs):
    """Cuts of the schedule at random calls give the bits of the whole."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    found = []
    for cut in (False, True):
        _, inputs, outputs = opened(pefs[3])
        calls = samba.session.loaded().call_count
        for _ in range(12):
            places = sorted({0, calls, *(chance.randrange(1, calls) for _ in range(3))}) if cut else [0, calls]
            for begin, end in zip(places, places[1:]):
                samba.session.run(inputs, outputs, run_from_call_id=begin, run_until_call_id=end)
        found.append(everything())
    assert_equal(*found)
