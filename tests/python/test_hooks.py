# SPDX-License-Identifier: Apache-2.0
"""Hooks of gradients, and what a model asks of gradients while it is traced: torch's outside tracing, refused where the device computes them."""
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
        with pytest.raises(UnsupportedError, match=f"compile: {whose}.* has a hook on gradients, which the device cannot call: remove it"):
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
