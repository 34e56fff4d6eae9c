# SPDX-License-Identifier: Apache-2.0
"""What a loop of PyTorch around a traced model does: steps and backwards that would do nothing say what the device has in their
place, training on the host goes on as ever, a scheduler finds nothing to warn of."""

import copy
import pickle
import warnings

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors


def traced(folder, name, make):
    samba.session.reset()
    torch.manual_seed(2)
    model, x = samba.from_torch_model_(torch.nn.Linear(3, 1)), samba.randn(5, 3, name="x")
    optim = make(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, (x,), optim, name=name, output_folder=str(folder))
    return model, x, optim, pef, utils.trace_graph(model, (x,), optim, pef=pef)


@pytest.mark.parametrize("make", [samba.optim.SGD, torch.optim.SGD])
def test_step(tmp_path, make):
    model, x, optim, pef, outputs = traced(tmp_path, "step", make)
    samba.session.run((x,), outputs)
    with pytest.raises(errors.StateError, match=r"the device trains 'weight'.*section_types=\['OPT'\]"):
        optim.step()
    (model(x).torch() ** 2).mean().backward()  # on the host
    before = model.weight.torch().detach().clone()
    optim.step()
    assert not torch.equal(before, model.weight.torch())
    assert utils.trace_graph(model, (x,), optim, pef=pef)  # our own hook is none of the program's
    copied = pickle.loads(pickle.dumps(copy.deepcopy(optim.state_dict())))
    optim.load_state_dict(copied)
    optim.zero_grad()
    with pytest.raises(errors.StateError):
        optim.step()
    samba.session.reset()
    optim.step()  # nothing is traced any more: torch's step, which does nothing


@pytest.mark.parametrize("early", [False, True])
def test_scheduler(tmp_path, early):
    samba.session.reset()
    model, x = samba.from_torch_model_(torch.nn.Linear(3, 1)), samba.randn(5, 3, name="x")
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optim, 1, 0.5) if early else None
    pef = samba.session.compile(model, (x,), optim, name="scheduler", output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, (x,), optim, pef=pef)
    scheduler = scheduler or torch.optim.lr_scheduler.StepLR(optim, 1, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(3):
            samba.session.run((x,), outputs, hyperparam_dict={"lr": scheduler.get_last_lr()[0]})
            assert samba.session.loaded().hyperparameters["lr"] == 0.1 * 0.5**step
            scheduler.step()


def test_backward(tmp_path):
    model, x, _, _, outputs = traced(tmp_path, "backward", samba.optim.SGD)
    (y,) = samba.session.run((x,), outputs, section_types=["fwd"])
    with pytest.raises(errors.StateError, match=r"backward\(\) cannot start at 'output_0', which.*grad_of_outputs"):
        y.backward(torch.ones(5, 1))
    partial = samba.to_torch(y).requires_grad_()  # as the slides have it
    (partial**2).mean().backward()
    samba.session.run((x,), outputs, grad_of_outputs=(samba.from_torch_tensor(partial.grad),), section_types=["bckwd", "opt"])
    loss = (model(x) ** 2).mean()
    loss.backward()
    assert model.weight.grad is not None


class Two(torch.nn.Module):
    """A loss, and something beside it that is made of other parameters."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 1), torch.nn.Linear(3, 2)

    def forward(self, x):
        return (self.a(x) ** 2).mean(), self.b(x)


def test_forgotten_loss_indices(tmp_path):
    samba.session.reset()
    model, x = samba.from_torch_model_(Two()), samba.randn(5, 3, name="x")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match=r"where output_0 alone is the loss, loss_indices=\[0\]"):
        samba.session.compile(model, (x,), optim, name="none", output_folder=str(tmp_path))
    pef = samba.session.compile(model, (x,), optim, name="some", output_folder=str(tmp_path), loss_indices=[0])
    said = r'the losses are "output_0", "output_1" \(every .*\), but .* with "output_0": give .* loss_indices .*, \[0\],'
    with pytest.raises(errors.StateError, match=said):
        utils.trace_graph(model, (x,), optim, pef=pef)
