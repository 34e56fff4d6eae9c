# SPDX-License-Identifier: Apache-2.0
"""What a program of PyTorch expects and the device does not do by itself is said, once: weights that were trained and not fetched
before a model that shares them is traced, a scheduler whose rate no run is given, and a loss that compares each guess with each
target."""

import contextlib
import copy
import pathlib
import pickle
import warnings

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x, y):
        return torch.nn.functional.mse_loss(self.head(self.trunk(x).relu()), y)


class Trunk(torch.nn.Module):
    def __init__(self, trunk):
        super().__init__()
        self.trunk = trunk

    def forward(self, x):
        return self.trunk(x)


def batch():
    x = torch.randn(16, 4)
    return samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(x.sum(1, keepdim=True), name="y")


def traced(tmp_path, model, *, train=True):
    """(outputs, optimizer) of a model that is compiled and traced."""
    inputs = batch() if train else batch()[:1]
    optim = samba.optim.SGD(model.parameters(), lr=0.1) if train else None
    options = {"loss_indices": [0]} if train else {"inference": True}
    pef = samba.session.compile(model, inputs, optim, name="net", output_folder=str(tmp_path / type(model).__name__), **options)
    return utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0] if train else None), optim


@contextlib.contextmanager
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def test_forward_on_the_host(tmp_path):
    """A model that the device has trained computes on the host with the weights that it was sent: said once, and not where they
    were fetched, nor of a copy."""
    model = samba.from_torch_model_(Net())
    outputs, _ = traced(tmp_path, model)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    with silence():
        model(x, y)  # nothing has been trained
    samba.session.run(batch(), outputs)
    with pytest.warns(UserWarning, match="Net is called on the host, where 'head.bias' has values from before"):
        model(x, y)
    with silence():
        model(x, y)
        samba.session.run(batch(), outputs)
        samba.session.to_cpu(model)
        model(x, y)
    outputs, _ = traced(tmp_path, model)
    samba.session.run(batch(), outputs)
    with silence():
        samba.session.to_cpu(model)
        model(x, y)
        copy.deepcopy(model)(x, y)


def test_weights_that_were_not_fetched(tmp_path):
    model = samba.from_torch_model_(Net())
    outputs, _ = traced(tmp_path, model)
    before = model.trunk.weight.torch().clone()
    samba.session.run(batch(), outputs)
    with pytest.warns(UserWarning, match=r"trained 'trunk.weight'.* call samba.session.to_cpu\(model\)"):
        traced(tmp_path, Trunk(model.trunk), train=False)
    assert torch.equal(model.trunk.weight.torch(), before)


@pytest.mark.parametrize("between", ["fetched", "fetched in place", "untrained", "changed on the host", "reset"])
def test_weights_that_may_be_replaced(tmp_path, between):
    model = samba.from_torch_model_(Net())
    outputs, _ = traced(tmp_path, model)
    if between != "untrained":
        samba.session.run(batch(), outputs)
    if between.startswith("fetched"):
        samba.session.to_cpu(model, inplace="place" in between)
    if between == "changed on the host":
        model.load_state_dict(Net().state_dict())
    if between == "reset":
        samba.session.reset()
    with silence():
        traced(tmp_path, Trunk(model.trunk), train=False)


def test_trained_again_behind_a_fetch(tmp_path):
    model = samba.from_torch_model_(Net())
    outputs, _ = traced(tmp_path, model)
    for _ in range(2):
        samba.session.run(batch(), outputs)
        samba.session.to_cpu(model)
    samba.session.run(batch(), outputs)
    with pytest.warns(UserWarning, match="values from before"):
        traced(tmp_path, model)


def test_schedule_that_no_run_is_given(tmp_path):
    model = samba.from_torch_model_(Net())
    outputs, optim = traced(tmp_path, model)
    schedule = torch.optim.lr_scheduler.StepLR(optim, 1, gamma=0.5)
    with silence():
        samba.session.run(batch(), outputs)
        schedule.step()
        samba.session.run(batch(), outputs, section_types=["FWD"])  # takes no step
    with pytest.warns(UserWarning, match=r"to 0.05 on the host, but the device still uses 0.1, .*hyperparam_dict=\{'lr'"):
        samba.session.run(batch(), outputs)
    with silence():
        samba.session.run(batch(), outputs)


@pytest.mark.parametrize("types", [(), ("fwd", "bckwd", "opt")])
def test_schedule_that_runs_are_given(tmp_path, types):
    model = samba.from_torch_model_(Net())
    outputs, optim = traced(tmp_path, model)
    schedule = torch.optim.lr_scheduler.StepLR(optim, 1, gamma=0.5)
    with silence():
        for _ in range(3):
            samba.session.run(batch(), outputs, section_types=types, hyperparam_dict={"lr": schedule.get_last_lr()[0]})
            schedule.step()
        samba.session.run(batch(), outputs, section_types=types)  # the rate that was given last stays


def test_dims_of_inputs_that_differ():
    inputs = samba.zeros(4, 16, name="ids"), samba.zeros(4, 5, name="themes")
    with pytest.raises(ValueError, match=r"'themes' has 5 in dim 1, .* inputs of each other size instead: sizes=\[other_inputs"):
        samba.session.compile(torch.nn.Identity(), inputs, inference=True, dims={"batch": (4,), "length": (16, 32)})


def test_inputs_without_names(tmp_path):
    outputs, _ = traced(tmp_path, samba.from_torch_model_(Net()))
    with silence(), pytest.raises(LookupError, match="an input tensor of shape .* has no name .*: make it with"):
        samba.session.run((torch.randn(16, 4), torch.randn(16, 1)), outputs)
    with pytest.warns(UserWarning, match="'y' is not given, so each step learns"):
        samba.session.run(batch()[:1], outputs)


def test_state_dict_of_what_was_not_fetched(tmp_path):
    model = samba.from_torch_model_(Net())
    outputs, _ = traced(tmp_path, model)
    with silence():
        model.state_dict()
    samba.session.run(batch(), outputs)
    with pytest.warns(UserWarning, match=r"state_dict of Net: .*trained 'trunk.weight'.*to_cpu\(model\) first"):
        old = model.state_dict()
    with silence():
        copy.deepcopy(model).state_dict()
        pickle.loads(pickle.dumps(model)).state_dict()
        samba.session.to_cpu(model)
        assert not torch.equal(old["trunk.weight"].torch(), model.state_dict()["trunk.weight"].torch())
        samba.session.run(batch(), outputs)
        samba.session.reset()
    with pytest.warns(UserWarning, match=r"had trained 'trunk.weight' when the session was reset.*to_cpu\(model\) before"):
        model.state_dict()
    with silence():
        model.load_state_dict(old)
        model.trunk.weight.data.fill_(1)
        model.state_dict()


def test_keywords_of_run(tmp_path):
    outputs, _ = traced(tmp_path, samba.from_torch_model_(Net()))
    with pytest.raises(TypeError, match="no keyword 'inputs': did you mean 'input_tensors'"):
        samba.session.run(inputs=batch(), outputs=outputs)


def test_lazy_parameters_stay_without_values(tmp_path):
    with samba.lazy_param(seed=1):
        model = samba.from_torch_model_(Net())
    outputs, _ = traced(tmp_path, model)
    samba.session.run(batch(), outputs)
    with silence():
        model.state_dict()
    assert not model.trunk.weight.has_data


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_loss_that_broadcasts(tmp_path, name):
    """As torch: a warning at the user's line where the target has another shape than the guess, and none else."""
    loss = getattr(torch.nn.functional, name)

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.line = torch.nn.Linear(4, 1)

        def forward(self, x, y):
            return loss(self.line(x), y)

    samba.session.reset()
    model, (x, y) = samba.from_torch_model_(Line()), batch()
    flat = samba.from_torch_tensor(torch.randn(16), name="y")
    with pytest.warns(UserWarning, match="different to the input size"):
        loss(torch.randn(16, 1), torch.randn(16))
    with pytest.warns(UserWarning, match=rf"{name}: the input \(16, 1\) and the target \(16\) broadcast to \(16, 16\)") as said:
        samba.session.compile(model, (x, flat), samba.optim.SGD(model.parameters(), lr=0.1), output_folder=str(tmp_path))
    assert {pathlib.Path(w.filename).name for w in said} == {pathlib.Path(__file__).name}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samba.session.compile(model, (x, y), samba.optim.SGD(model.parameters(), lr=0.1), output_folder=str(tmp_path))
