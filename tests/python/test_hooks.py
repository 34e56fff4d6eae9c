# SPDX-License-Identifier: Apache-2.0
"""Hooks of gradients, and what a model asks of gradients while it is traced:
torch's outside tracing, refused where the device computes them."""

import pytest
import torch
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.errors import UnsupportedError
from sambaflow.samba.graph import FwdGraph, SambaGraph


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.second(self.first(x)).square().mean()


HOOKS = {
    "parameter 'first.weight'": lambda m: m.first.weight.register_hook(lambda grad: grad * 0),
    "parameter 'second.bias'": lambda m: m.second.bias.register_post_accumulate_grad_hook(lambda parameter: None),
    r"module 'first' \(Linear\)": lambda m: m.first.register_full_backward_hook(lambda module, given, grads: None),
    "module 'second'": lambda m: m.second.register_full_backward_pre_hook(lambda module, grads: None),
    r"module '' \(Two\)": lambda m: m.register_full_backward_hook(lambda module, given, grads: None),
    "every module": lambda m: nn.modules.module.register_module_full_backward_hook(lambda module, given, grads: None),
}


@pytest.mark.parametrize("whose", HOOKS)
@pytest.mark.parametrize("before", [True, False], ids=["before conversion", "after"])
def test_training_refuses_them(tmp_path, whose, before):
    """Without them it would train otherwise. What is only run forward has no use for them, and a removed one is gone."""
    model, x = Two(), samba.randn(5, 3, name="x")
    handle = HOOKS[whose](model) if before else None
    samba.from_torch_model_(model)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    handle = handle or HOOKS[whose](model)
    try:
        with pytest.raises(
            UnsupportedError, match=f"compile: {whose}.* has a hook on gradients, which the device cannot call: remove it"
        ):
            samba.session.compile(model, (x,), optim, output_folder=tmp_path)
        samba.session.compile(model, (x,), inference=True, output_folder=tmp_path)
        samba.session.add_graph(SambaGraph(model, (x,), optim, name="train"))
        with pytest.raises(UnsupportedError, match=f"compile_multigraph: graph 'train': {whose}"):
            samba.session.compile_multigraph(output_folder=tmp_path)
        samba.session.add_graph(FwdGraph(model, (x,), name="train"), overwrite=True)
        samba.session.compile_multigraph(output_folder=tmp_path)
    finally:
        handle.remove()
    pef = samba.session.compile(model, (x,), optim, loss_indices=[0], output_folder=tmp_path)
    handle = HOOKS[whose](model)
    try:
        with pytest.raises(UnsupportedError, match=f"trace_graph: {whose}"):
            utils.trace_graph(model, (x,), optim, pef=pef, loss_indices=[0])
    finally:
        handle.remove()
    utils.trace_graph(model, (x,), optim, pef=pef, loss_indices=[0])


def test_conversion_keeps_them():
    """What was registered before it is called, and its handle removes it."""
    theirs = Two()
    theirs.first.weight.register_hook(lambda grad: grad * 3)
    seen, x = [], torch.randn(5, 3)
    theirs(x).backward()
    model = Two()
    model.load_state_dict(theirs.state_dict())
    handle = model.first.weight.register_hook(lambda grad: grad * 3)
    model.second.bias.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad))
    samba.from_torch_model_(model)
    for factor in (1, 3):
        model.zero_grad()
        model(x).backward()
        torch.testing.assert_close(samba.to_torch(model.first.weight.grad) * factor, theirs.first.weight.grad)
        torch.testing.assert_close(samba.to_torch(seen.pop()), theirs.second.bias.grad)
        handle.remove()


def test_frozen_parameters_do_not_matter(tmp_path):
    model, x = samba.from_torch_model_(Two()), samba.randn(5, 3, name="x")
    model.first.weight.register_hook(lambda grad: grad * 0)
    model.first.weight.requires_grad_(False)
    samba.session.compile(model, (x,), samba.optim.SGD(model.parameters(), lr=0.1), loss_indices=[0], output_folder=tmp_path)


class Asks(nn.Module):
    """A model of a function (the model, x) -> result, with a trained layer a, a frozen one b."""

    def __init__(self, function):
        super().__init__()
        self.a, self.b, self.function = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False), function

    def forward(self, x):
        return self.function(self, x)


def compiled(function, folder, x=None, **options):
    model = samba.from_torch_model_(Asks(function))
    x = samba.randn(3, 3, name="x") if x is None else x
    return samba.session.compile(model, (x,), output_folder=folder, **{"inference": True, **options})


def written(m, x):
    made = torch.zeros(3, 3)
    made[0] = m.a(x)[0]
    return made


def through_a_view(m, x):
    copied = x.clone()
    copied.view(-1).mul_(m.a.weight.sum())
    return copied


def without(m, x):
    with torch.no_grad():
        return m.a(x)


ASKED = [
    lambda m, x: x,
    lambda m, x: x * 2,
    lambda m, x: m.a(x),
    lambda m, x: m.b(x),
    lambda m, x: m.a(x).detach() * 2,
    lambda m, x: m.a(x).data * 2,
    without,
    written,
    through_a_view,
    lambda m, x: m.a.weight,
    lambda m, x: m.b.weight,
    lambda m, x: m.a.weight[0],
    lambda m, x: m.a(x).argmax(-1),
    lambda m, x: (m.a(x) > 0).float(),
    lambda m, x: m.a(x).floor(),
    lambda m, x: torch.where(x > 0, x, m.a(x)),
    lambda m, x: torch.zeros_like(m.a(x)),
    lambda m, x: m.b(x.detach().requires_grad_()),
    lambda m, x: torch.utils.checkpoint.checkpoint(m.a, x, use_reentrant=False),
    lambda m, x: m.a(x).max(-1)[1],
]


@pytest.mark.parametrize("of_input", [False, True])
def test_requires_grad(tmp_path, of_input):
    """A traced tensor answers as torch's: whether what it is computed from requires a gradient."""
    for number, function in enumerate(ASKED):

        def ask(m, x):
            answers.append(function(m, x).requires_grad)
            return x * 1

        answers = []
        Asks(ask)(torch.randn(3, 3).requires_grad_(of_input))
        compiled(ask, tmp_path, samba.randn(3, 3, name="x").requires_grad_(of_input))
        assert answers[0] == answers[1], number


def test_the_branch_that_torch_takes(tmp_path):
    def forward(m, x):
        hidden = m.a(x)
        return (m.b(hidden * 2 if hidden.requires_grad else hidden) ** 2).mean()

    theirs, x = Asks(forward), torch.randn(3, 3)
    model = Asks(forward)
    model.load_state_dict(theirs.state_dict())
    inputs, optim = (samba.from_torch_tensor(x, name="x"),), samba.optim.SGD(samba.from_torch_model_(model).parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=tmp_path)
    outputs, reference = (
        utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0]),
        torch.optim.SGD(theirs.parameters(), lr=0.1),
    )
    for _ in range(3):
        loss = theirs(x)
        torch.testing.assert_close(samba.session.run(inputs, outputs)[0].torch(), loss.detach())
        reference.zero_grad()
        loss.backward()
        reference.step()


@pytest.mark.parametrize(
    "function, said",
    [
        (lambda m, x: m.a(x).register_hook(print), "register_hook while the model is traced: .* scaled by c"),
        (lambda m, x: m.a.weight.register_hook(print), "register_hook while the model is traced"),
        (
            lambda m, x: m.a(x).retain_grad(),
            "retain_grad while the model is traced: the device keeps the gradients of parameters and outputs",
        ),
        (lambda m, x: m.a.weight.requires_grad_(False), "cannot be frozen, or trained, from inside forward"),
        (lambda m, x: m.a(x).requires_grad_(False), r"take x.detach\(\)"),
    ],
)
def test_refused_while_traced(tmp_path, function, said):
    with pytest.raises(UnsupportedError, match=f"{said}.*test_hooks.py"):
        compiled(function, tmp_path)


def test_flags_that_are_so_already(tmp_path):
    def forward(m, x):
        m.a.weight.retain_grad()
        return m.b(x.requires_grad_()) * m.a.weight.requires_grad_() * m.b.weight.requires_grad_(False)

    compiled(forward, tmp_path)
    with pytest.raises(TypeError, match="floating point can require gradients, given torch.int64"):
        compiled(lambda m, x: x.long().requires_grad_(), tmp_path)


def test_scaled_gradients(tmp_path):
    """What the refusals recommend: the value of x, and c times its gradient."""
    x = torch.randn(3, 3)
    gradients = []
    for c in (1.0, 0.25):
        model = samba.from_torch_model_(Asks(lambda m, x: ((m.a(x) * c + (m.a(x) * (1 - c)).detach()) ** 2).mean()))
        model.a.weight.torch().detach().fill_(0.5)
        inputs, optim = (samba.from_torch_tensor(x, name="x"),), samba.optim.SGD(model.parameters(), lr=0.1)
        model.a.bias.torch().detach().zero_()
        pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=tmp_path)
        samba.session.run(
            inputs, utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0]), section_types=["FWD", "BCKWD"]
        )
        gradients.append(model.a.weight.sn_grad)
    torch.testing.assert_close(gradients[0] * 0.25, gradients[1])
    assert torch.count_nonzero(gradients[0])


def test_backward_in_forward(tmp_path):
    with pytest.raises(UnsupportedError, match=r"backward while the model .*torch.autograd.grad.* \(in .*test_hooks.py"):
        compiled(lambda m, x: m.a(x).sum().backward(), tmp_path)


def test_gradient_penalty_outside_tracing():
    """The same in an eager program."""

    def penalty(m, x):
        return ((torch.autograd.grad(torch.tanh(m.a(x)).sum(), x, create_graph=True)[0].norm(dim=1) - 1) ** 2).mean()

    theirs, x = Asks(None), torch.randn(5, 3)
    model = Asks(None)
    model.load_state_dict(theirs.state_dict())
    penalty(theirs, x.clone().requires_grad_()).backward()
    penalty(samba.from_torch_model_(model), samba.from_torch_tensor(x).requires_grad_()).backward()
    torch.testing.assert_close(samba.to_torch(model.a.weight.grad), theirs.a.weight.grad)
