# SPDX-License-Identifier: Apache-2.0
"""The examples of the document on samba.sambatensor that go through device memory, as they stand there."""
import copy
import pickle

import numpy as np
import pytest
import torch
from models import trained

import sambaflow.samba as samba


@pytest.fixture
def weight(tmp_path):
    """A weight that has a gradient on the device."""
    model, inputs, outputs = trained(tmp_path)
    samba.session.run(inputs, outputs, section_types=["fwd", "bckwd"])
    return model.gemm1.weight


def test_access(weight, capsys):
    sambatensor = weight
    # samba_tensor.sn_data and samba_tensor.sn_grad copy data
    print('data on device memory:', sambatensor.sn_data)
    print('gradient data on device memory if it exists:', sambatensor.sn_grad)
    text = capsys.readouterr().out
    assert text.startswith("data on device memory: tensor([[") and "gradient data on device memory if it exists: tensor([[" in text
    sn_weight = weight.sn_data
    sn_grad = weight.sn_grad
    assert type(sn_weight) is torch.Tensor and torch.equal(sn_weight, weight.torch()) and torch.count_nonzero(sn_grad)
    sn_weight.zero_()  # a copy: the device does not see it
    assert torch.equal(weight.sn_data, weight.torch())


def test_modification(weight):
    sn_weight, sn_grad = weight.sn_data, weight.sn_grad
    weight.sn_data = sn_weight / torch.norm(sn_weight)  # weight normalization on host
    weight.sn_grad = sn_grad / torch.norm(sn_grad)  # grad normalization on host
    torch.testing.assert_close(torch.norm(weight.sn_data), torch.tensor(1.0))
    torch.testing.assert_close(torch.norm(weight.sn_grad), torch.tensor(1.0))


def test_assignment(weight):
    samba_tensor = weight
    for tensor in (torch.full(weight.shape, 2.0), samba.full(weight.shape, 3.0)):
        samba_tensor.sn_data = tensor  # as long as isinstance(tensor, torch.Tensor), like torch.Tensor or SambaTensor
        assert torch.equal(weight.sn_data, samba.to_torch(tensor))
        samba_tensor.sn_grad = tensor
        assert torch.equal(weight.sn_grad, samba.to_torch(tensor))


def test_transfer(weight):
    samba_tensor = weight
    weight.sn_data = torch.zeros(weight.shape)
    # transfer the host data to the device
    samba_tensor.rdu()
    assert torch.equal(weight.sn_data, weight.torch()) and torch.count_nonzero(weight.sn_data)


def test_host_and_device(weight, capsys):
    on_device, sn_grad = weight.sn_data, weight.sn_grad
    weight.cpu()  # now there is a gradient on the host too
    shown = []

    def said():
        shown.append(capsys.readouterr().out.strip())
        return shown[-1]

    weight.data = weight / torch.norm(weight)
    weight.grad = weight / torch.norm(weight.grad)
    host, gradient = weight.torch().detach().clone(), weight.grad.torch().clone()
    torch.testing.assert_close(host, on_device / torch.norm(on_device))
    torch.testing.assert_close(gradient, host / torch.norm(sn_grad))
    print(weight.sn_data)
    assert said() == str(on_device)  # unchanged
    weight.rdu()
    print(weight.sn_data)
    assert said() == str(host)
    assert torch.equal(weight.sn_grad, gradient)  # both are synchronized
    weight.sn_grad = torch.zeros_like(sn_grad)
    print(weight.grad)
    assert said() == str(weight.grad) and torch.equal(weight.grad.torch(), gradient)  # the host's is as it was
    weight.cpu()
    print(weight.grad)
    assert said() != shown[2] and torch.count_nonzero(weight.grad.torch()) == 0


def test_in_place(weight):
    memory = weight.torch()
    weight.sn_data = torch.full(weight.shape, 2.0)
    weight.cpu()
    assert weight.torch() is not memory and not torch.equal(memory, weight.torch())  # other views of the host's memory are left alone
    memory = weight.torch()
    weight.sn_data = torch.full(weight.shape, 3.0)
    weight.cpu_()
    assert memory.data_ptr() == weight.data_ptr() and torch.equal(memory, torch.full(weight.shape, 3.0))
    weight.sn_data = torch.full(weight.shape, 4.0)
    weight.cpu(inplace=True)
    assert torch.equal(memory, torch.full(weight.shape, 4.0))


def test_without_a_gradient(weight):
    with pytest.raises(LookupError, match="image.grad"):
        samba.session.get_samba_tensor_by_name("image").sn_grad
    for use in (lambda x: x.sn_data, lambda x: x.sn_grad, lambda x: x.rdu()):
        with pytest.raises(LookupError, match="no name on the device"):
            use(samba.zeros(2))
    with pytest.raises(LookupError, match="no name on the device"):
        samba.SambaTensor(shape=(2,)).cpu()


def test_results_stay(tmp_path):
    """Results of runs keep their values, computed tensors have theirs; the traced output is the device's."""
    model, inputs, outputs = trained(tmp_path)
    losses = [samba.session.run(inputs, outputs)[0] for _ in range(3)]
    values = [loss.tolist() for loss in losses]
    assert values[0] != values[2] and [loss.cpu().tolist() for loss in losses] == values == [loss.cpu_().tolist() for loss in losses]
    logits = losses[1] * 2
    assert np.array_equal(logits.detach().cpu().numpy(), 2 * losses[1].numpy()) and (logits + 1).softmax(-1).cpu().shape == logits.shape
    assert outputs[0].cpu() is outputs[0] and outputs[0].tolist() == values[2]
    samba.session.run(inputs, outputs)
    assert outputs[0].cpu().tolist() not in values
    assert copy.deepcopy(losses[0]).cpu().tolist() == values[0]


def test_tensors_belong_to_the_session_that_traced_them(tmp_path):
    """sn_data, sn_grad, rdu and cpu mean that session's device; a session's own to_cpu and to_rdu mean its own, whatever the tensors' is."""
    model = samba.from_torch_model_(torch.nn.Linear(3, 2))
    inputs = (samba.randn(4, 3, name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, output_folder=tmp_path)
    samba.session.trace_graph(model, inputs, optim, pef=pef)
    other = samba.SambaSession()
    (y,) = other.trace_graph(model, inputs, optim, pef=pef)
    start = model.weight.torch().clone()
    other.run(inputs, (y,))
    moved = other.device_get("weight")
    assert torch.equal(model.weight.sn_data, moved) and not torch.equal(moved, start) and torch.equal(samba.session.device_get("weight"), start)
    assert torch.equal(model.weight.sn_grad, other.device_get("weight.grad"))
    model.weight.sn_data = torch.ones(2, 3)
    y.sn_grad = torch.full((4, 2), 3.0)
    assert torch.equal(other.device_get("weight"), torch.ones(2, 3)) and torch.equal(samba.session.device_get("weight"), start)
    assert torch.equal(other.device_get("output_0.grad"), torch.full((4, 2), 3.0)) and torch.equal(samba.session.device_get("output_0.grad"), torch.ones(4, 2))
    assert torch.equal(model.weight.cpu().torch(), torch.ones(2, 3))
    samba.session.to_cpu(model)  # of the other one, since it says so
    assert torch.equal(model.weight.torch(), start)
    other.to_cpu_(model)
    assert torch.equal(model.weight.torch(), torch.ones(2, 3))
    model.weight.data = torch.zeros(2, 3)
    model.weight.rdu()
    assert torch.equal(other.device_get("weight"), torch.zeros(2, 3)) and torch.equal(samba.session.device_get("weight"), start)
    other.reset()  # from here on samba.session has them
    assert torch.equal(model.weight.sn_data, start)
    samba.session.trace_graph(model, inputs, optim, pef=pef)
    assert torch.equal(model.weight.sn_data, torch.zeros(2, 3))
    copied = copy.deepcopy(model)
    assert torch.equal(pickle.loads(pickle.dumps(copied)).weight.torch(), torch.zeros(2, 3))


def test_moving_while_tracing(tmp_path):
    """In a model that is traced beside a loaded PEF it is where it is, too."""

    class Moves(torch.nn.Linear):
        def forward(self, x):
            return (x.cpu() * 2).cpu() @ self.weight.cpu().T + self.bias

    trained(tmp_path)
    model, inputs = samba.from_torch_model_(Moves(3, 2)), (samba.randn(4, 3, name="moved"),)
    outputs = samba.utils.trace_graph(model, inputs, pef=samba.session.compile(model, inputs, inference=True, output_folder=tmp_path))
    torch.testing.assert_close(samba.session.run(inputs, outputs)[0].torch(), model(inputs[0]).detach().torch())


def test_what_the_host_writes(tmp_path):
    """The device goes on with its weights until to_rdu, or rdu of a parameter, copies the host's."""
    model, inputs = samba.from_torch_model_(torch.nn.Linear(3, 2)), (samba.randn(4, 3, name="x"),)
    outputs = samba.utils.trace_graph(model, inputs, pef=samba.session.compile(model, inputs, inference=True, output_folder=tmp_path))
    x = inputs[0].torch()

    def y():
        return samba.session.run(inputs, outputs)[0].torch()

    before = y()
    model.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
    assert torch.equal(y(), before) and model.weight.tolist() == [[1] * 3] * 2
    samba.session.to_rdu(model)
    torch.testing.assert_close(y(), x.sum(1, keepdim=True).expand(4, 2))
    with torch.no_grad():
        model.bias.fill_(3.0)
    torch.testing.assert_close(y(), x.sum(1, keepdim=True).expand(4, 2))
    model.bias.rdu()
    torch.testing.assert_close(y(), x.sum(1, keepdim=True).expand(4, 2) + 3)
