# SPDX-License-Identifier: Apache-2.0
"""What the document on samba.utils says: trace_graph and init_output_grads with every argument, and its fragments."""
import pytest
import torch
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.utils.utils import init_output_grads, trace_graph


class Four(nn.Module):
    """Two results and two losses, each of which moves a weight of its own."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(3, 2, bias=False) for _ in range(4))

    def forward(self, x):
        out0, out1, loss0, loss1 = self.a(x), self.b(x), self.c(x).sum(), 2 * self.d(x).sum()
        outputs=[out0, out1, loss0, loss1]
        return outputs


def gradients(tmp_path, loss_indices):
    """Sums of the weights' gradients after a backward pass, in units of those of a sum."""
    model = samba.from_torch_model_(Four())
    inputs = (samba.ones(4, 3, name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, loss_indices=loss_indices, output_folder=tmp_path)
    utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=loss_indices)
    samba.session.run(inputs, section_types=["fwd", "bckwd"])
    return [weight.sn_grad.mean().item() / 4 if samba.session.has(weight.sn_grad_name) else 0 for weight in model.parameters()]


def test_loss_indices(tmp_path):
    loss_indices=[2, 3]
    assert gradients(tmp_path, loss_indices) == [0, 0, 1, 2]
    assert gradients(tmp_path, [(2,), (3,)]) == [0, 0, 1, 2]
    assert gradients(tmp_path, [(2, 3)]) == [0, 0, 1, 2]
    assert gradients(tmp_path, None) == [1, 1, 1, 2]  # every output counts as a loss
    with pytest.raises(TypeError, match="loss_indices has 'loss0'"):
        gradients(tmp_path, ["loss0"])
    for wrong in ([4], [(0, -1)]):
        with pytest.raises(ValueError, match="loss_indices: there is no output .*; the model has 4"):
            gradients(tmp_path, wrong)


@pytest.fixture
def model(tmp_path):
    """A linear layer whose two results have gradients on the device, compiled and traced."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 2)

        def forward(self, x):
            return self.lin(x), self.lin(2 * x)

    model = samba.from_torch_model_(Two())
    model.inputs = (samba.randn(4, 3, name="x"),)
    model.pef = samba.session.compile(model, model.inputs, samba.optim.SGD(model.parameters(), lr=0.1), output_folder=tmp_path)
    trace_graph(model, model.inputs, pef=model.pef)
    return model


def test_trace_graph(model):
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="mapping 'fused': expected one of section, spatial"):
        trace_graph(model, model.inputs, mapping="fused")
    with pytest.raises(RuntimeError, match="was compiled with mapping 'section': compile it with mapping='spatial', or trace it without"):
        trace_graph(model, model.inputs, pef=model.pef, mapping="spatial")
    with pytest.raises(ValueError, match="data_parallel_mode 'random': expected one of normal, inorder, optimal"):
        trace_graph(model, model.inputs, data_parallel_mode="random")
    # by position, as the document has them: model, inputs, optim, init_output_grads, loss_indices, pef, mapping, data_parallel_mode, transfer_device
    outputs = trace_graph(model, list(model.inputs), [optim], True, None, model.pef, "section", "normal", True)
    assert outputs is model.output_tensors or list(outputs) == list(model.output_tensors)
    assert [x.sn_name for x in outputs] == ["output_0", "output_1"] and all(isinstance(x, samba.SambaTensor) for x in outputs)
    assert torch.equal(model.lin.weight.sn_data, model.lin.weight.torch())


def test_transfer_device(model):
    trace_graph(model, model.inputs, pef=model.pef, transfer_device=False)
    assert torch.count_nonzero(model.lin.weight.sn_data) == 0  # nothing was moved
    samba.session.to_device()
    assert torch.equal(model.lin.weight.sn_data, model.lin.weight.torch()) and torch.equal(model.inputs[0].sn_data, model.inputs[0].torch())


def test_init_output_grads_of_trace_graph(model):
    first, second = model.output_tensors
    assert torch.equal(first.sn_grad, torch.ones(4, 2))
    first.sn_grad = torch.zeros(4, 2)
    trace_graph(model, model.inputs, init_output_grads=False)  # the PEF stays, and so does what the program set
    assert torch.equal(first.sn_grad, torch.zeros(4, 2))
    trace_graph(model, model.inputs, init_output_grads=True)
    assert torch.equal(first.sn_grad, torch.ones(4, 2)) and torch.equal(second.sn_grad, torch.ones(4, 2))


def test_init_output_grads(model):
    first, second = model.output_tensors
    twos = torch.full((4, 2), 2.0)
    init_output_grads(model.output_tensors, customized_tensors_dict={"output_1": twos})
    assert torch.equal(first.sn_grad, torch.ones(4, 2)) and torch.equal(second.sn_grad, twos)
    # names will do, and by position: output_tensors, unspecified_tensor_grad, customized_tensors_dict, is_variable_batch_size
    init_output_grads([], ["output_1"], {"output_0": samba.from_torch_tensor(twos)}, False)
    assert torch.equal(first.sn_grad, twos) and torch.equal(second.sn_grad, torch.ones(4, 2))
    init_output_grads(["output_0"])
    assert torch.equal(first.sn_grad, torch.ones(4, 2))
    samba.session.run(model.inputs, section_types=["fwd", "bckwd"])
    torch.testing.assert_close(model.lin.bias.sn_grad, torch.full((2,), 8.0))
    # a batch that is not full: the samples that are missing count for nothing
    init_output_grads([second], customized_tensors_dict={"output_0": twos[:3]}, is_variable_batch_size=True)
    assert first.sn_grad.tolist() == [[2, 2]] * 3 + [[0, 0]]
    with pytest.raises(ValueError, match="output_0.grad"):
        init_output_grads([first], customized_tensors_dict={"output_0": twos[:3]})
    with pytest.raises(ValueError, match="output_0"):
        init_output_grads([first], customized_tensors_dict={"output_0": torch.ones(5, 2)}, is_variable_batch_size=True)
    with pytest.raises(LookupError, match="'output_2' has no gradient on the device"):
        init_output_grads([first], customized_tensors_dict={"output_2": twos})
    with pytest.raises(LookupError, match="'output_3' has no gradient on the device"):
        init_output_grads([first], ["output_3"])


def test_outputs_without_gradients(model, tmp_path):
    trace_graph(model, model.inputs, pef=samba.session.compile(model, model.inputs, inference=True, output_folder=tmp_path / "inference"))
    init_output_grads(model.output_tensors)  # nothing to set
    with pytest.raises(LookupError, match="output_0.grad"):
        model.output_tensors[0].sn_grad


def compiled(tmp_path, make):
    """A model, its inputs and a PEF with the optimizers that `make` gives for it."""
    model = samba.from_torch_model_(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)))
    inputs = (samba.randn(4, 3, name="x"),)
    return model, inputs, samba.session.compile(model, inputs, make(model), output_folder=tmp_path)


def test_hyperparameters_of_the_optimizer(tmp_path):
    model, inputs, pef = compiled(tmp_path, lambda model: samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    trace_graph(model, inputs, pef=pef)
    assert samba.session.loaded().hyperparameters == {"lr": 0.1, "weight_decay": 0, "momentum": 0.9, "dampening": 0}  # as compiled
    trace_graph(model, inputs, samba.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.25), pef=pef)
    assert samba.session.loaded().hyperparameters == {"lr": 0.5, "weight_decay": 0.25, "momentum": 0, "dampening": 0}
    before = model[0].bias.sn_data
    samba.session.run(inputs)
    torch.testing.assert_close(model[0].bias.sn_data, before - 0.5 * (model[0].bias.sn_grad + 0.25 * before))
    with pytest.raises(RuntimeError, match="AdamW, but the PEF was compiled with SGD"):
        trace_graph(model, inputs, samba.optim.AdamW(model.parameters()), pef=pef)
    with pytest.raises(NotImplementedError, match="optimizer Rprop"):
        trace_graph(model, inputs, torch.optim.Rprop(model.parameters()), pef=pef)
    model, inputs, pef = compiled(tmp_path, lambda model: samba.optim.SGD(model.parameters(), lr=0.1))
    trace_graph(model, inputs, samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), pef=pef)  # whatever it was when compiled
    assert samba.session.loaded().hyperparameters["momentum"] == 0.9


def test_several_optimizers(tmp_path):
    def make(model, rates=(0.1, 0.2)):
        return [samba.optim.AdamW(model[0].parameters(), lr=rates[0]), samba.optim.SGD(model[1].parameters(), lr=rates[1])]

    model, inputs, pef = compiled(tmp_path, make)
    trace_graph(model, inputs, make(model, (0.3, 0.4)), pef=pef)
    found = samba.session.loaded().hyperparameters
    assert (found["optim0.lr"], found["optim1.lr"], found["optim0.beta2"]) == (0.3, 0.4, 0.999)
    with pytest.raises(RuntimeError, match="'0.weight' is AdamW, and '1.weight' has none, but the PEF trains it"):
        trace_graph(model, inputs, make(model, (0.3, 0.4))[0], pef=pef)


def test_optimizer_state_goes_to_the_device(tmp_path):
    model, inputs, pef = compiled(tmp_path, lambda model: samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    optim = samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    momentum = torch.randn(3, 3)
    optim.state[model[0].weight]["momentum_buffer"] = momentum.clone()
    trace_graph(model, inputs, optim, pef=pef)
    assert torch.equal(samba.session.get_tensors_by_name(["0.weight.momentum_buffer"])[0].data, momentum)
    before = model[0].weight.sn_data
    samba.session.run(inputs)
    torch.testing.assert_close(model[0].weight.sn_data, before - 0.1 * (0.9 * momentum + model[0].weight.sn_grad))
    trace_graph(model, inputs, optim, pef=samba.session.compile(model, inputs, inference=True, output_folder=tmp_path / "inference"))  # no state there


def test_adamw_goes_on_where_it_was(tmp_path):
    """Three steps on the device, one on the host, one on the device again: as five of torch."""

    def make(model):
        return [samba.optim.SGD(model[1].parameters(), lr=0.0), samba.optim.AdamW(model[0].parameters(), lr=0.1)]

    model, inputs, pef = compiled(tmp_path, make)
    reference = nn.Parameter(model[0].weight.torch().clone())
    expected, optims, gradients = torch.optim.AdamW([reference], lr=0.1), make(model), []
    trace_graph(model, inputs, optims, pef=pef)
    for _ in range(3):
        samba.session.run(inputs)
        gradients.append(model[0].weight.sn_grad)
    samba.session.to_cpu(model, optims)
    state = optims[1].state[model[0].weight]
    assert state["step"].item() == 3 and state["step"].dtype is torch.float32 and not isinstance(state["step"], samba.SambaTensor)
    host = nn.Parameter(model[0].weight.torch().clone())
    on_host = torch.optim.AdamW([host], lr=0.1)
    on_host.state[host] = {key: samba.to_torch(value).clone() for key, value in state.items()}
    host.grad = torch.randn(3, 3)
    gradients.append(host.grad.clone())
    on_host.step()
    model[0].weight.data = host.detach().clone()
    state.update((key, value) for key, value in on_host.state[host].items())
    with pytest.raises(RuntimeError, match="4 and 3 steps"):
        samba.session.to_rdu(model, optims)
    optims[1].state[model[0].bias]["step"] += 1
    trace_graph(model, inputs, optims, pef=pef)  # a new session of the PEF
    samba.session.run(inputs)
    gradients.append(model[0].weight.sn_grad)
    for gradient in gradients:
        reference.grad = gradient
        expected.step()
    torch.testing.assert_close(model[0].weight.sn_data, reference.detach())
