# SPDX-License-Identifier: Apache-2.0
"""The code of the page "Model conversion overview", as it stands there, and what the page says of tensors, tracing and hyperparameters. Its training
and inference programs are examples/python/lenet_train.py and lenet_infer.py, which test_examples.py runs."""
import types

import pytest
import torch
from models import trained

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


def test_like_torch_tensors():
    tensor1 = samba.from_torch_tensor(torch.arange(10.0).reshape(2, 5), name="tensor1")
    tensor2 = samba.ones(2, 5)
    tensor3 = tensor1 + tensor2
    assert isinstance(tensor3, samba.SambaTensor) and torch.equal(tensor3.data, torch.arange(10.0).reshape(2, 5) + 1)
    tensor2 = tensor1.reshape(-1, 5)
    assert isinstance(tensor2, samba.SambaTensor) and torch.equal(tensor2.data, tensor1.data)


def test_from_torch_tensor(torch=types.SimpleNamespace(Tensor=torch.ones(2))):
    tensor = samba.from_torch_tensor(torch.Tensor, name="example_name")  # the page writes the class for a tensor of it
    samba.from_torch_tensor(torch.Tensor, name="example_name")
    assert tensor.sn_name == "example_name" and tensor.tolist() == [1, 1]


def test_overrides():
    a, b = torch.ones(2), torch.full((2,), 2.0)
    assert type(torch.add(a, b)) is torch.Tensor
    result = torch.add(samba.from_torch_tensor(a), samba.from_torch_tensor(b))
    assert isinstance(result, samba.SambaTensor) and torch.equal(result.data, samba.add(a, b).data)


def test_only_the_branch_taken_is_kept(tmp_path):
    class Branching(torch.nn.Module):
        double = True

        def forward(self, x):
            return x * 2 if self.double else x * 3

    model, inputs = Branching(), (samba.ones(3, name="x"),)
    outputs = utils.trace_graph(model, inputs, pef=samba.session.compile(model, inputs, inference=True, output_folder=tmp_path))
    model.double = False
    assert samba.session.run(inputs, outputs)[0].tolist() == [2, 2, 2]


def test_run(tmp_path):
    model, inputs, traced_outputs = trained(tmp_path)
    expected = [x.data for x in model(*(x.torch() for x in inputs))]
    before = model.gemm3.bias.sn_data
    outputs = samba.session.run(input_tensors=inputs, output_tensors=traced_outputs, section_types= ['fwd', 'bckwd', 'opt'])
    torch.testing.assert_close([x.data for x in outputs], expected)
    assert not torch.equal(model.gemm3.bias.sn_data, before)


def test_hyperparameters(tmp_path):
    class Dropped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.dropout = torch.nn.Linear(64, 64, bias=False), torch.nn.Dropout(0.5)

        def forward(self, x):
            return self.dropout(self.linear(x))

    model, inputs = samba.from_torch_model_(Dropped()), (samba.ones(8, 64, name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, weight_decay=0.0)
    pef = samba.session.compile(model, inputs, optim, output_folder=tmp_path)
    outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    reference = torch.nn.Parameter(model.linear.weight.torch().clone())
    expected = torch.optim.SGD([reference], lr=0.1, momentum=0.5, weight_decay=0.0)
    for step, given in enumerate(({"lr": 0.3}, {"weight_decay": 0.1}, {"momentum": 0.9}, {}, {"lr": 0.01, "p": 0.25})):
        hyperparam_dict = given | {"p": 0.0} if step == 0 else given  # p holds until it is given again
        (out,) = samba.session.run(inputs, outputs, hyperparam_dict=hyperparam_dict)
        assert (out.data == 0).any() == (step == 4)
        for name, value in given.items():
            if name != "p":
                expected.param_groups[0][name] = value
        reference.grad = model.linear.weight.sn_grad
        expected.step()
        torch.testing.assert_close(model.linear.weight.sn_data, reference.data)
    with pytest.raises(LookupError, match='"rate".*"lr"'):
        samba.session.run(inputs, outputs, hyperparam_dict={"rate": 0.1})
