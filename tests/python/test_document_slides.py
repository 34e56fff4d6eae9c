# SPDX-License-Identifier: Apache-2.0
"""The sample code of the slides "Modeling: PyTorch to SambaFlow", as it stands there; what the fragments leave out (arguments, data) is around
them. The application itself is examples/python/resffn.py, which test_examples.py runs."""
import numpy as np
import pytest
import torch
from shown import shown
from torch import nn

import sambaflow
import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.utils.argparser import parse_app_args


def test_like_torch_tensors():
    tensor1 = samba.ones(2, 5)
    tensor2 = tensor1.reshape(-1, 5)
    tensor3 = tensor1 + tensor2
    assert isinstance(tensor3, samba.SambaTensor) and tensor3.tolist() == [[2.0] * 5] * 2


@pytest.mark.filterwarnings("ignore:__array_wrap__")  # torch's, with NumPy 2
@shown
def test_numpy(a, b):
    """
    >>> a = torch.ones(2, 4)
    >>> b = torch.zeros(2, 4)
    >>> np.add(a, b)
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.]])
    """
    assert np.array_equal(np.add(samba.from_torch_tensor(a), samba.from_torch_tensor(b)), np.ones((2, 4)))


def test_model_parameters():
    model = nn.Linear(3, 2)
    memory = model.weight.data_ptr()
    samba.from_torch_model(model)
    for weight in (model.weight, samba.from_torch_model_(model).weight):  # twice changes nothing
        assert isinstance(weight, samba.SambaTensor) and isinstance(weight, nn.Parameter)
        assert weight.sn_name == "weight" and weight.data_ptr() == memory and weight.requires_grad


class Small(nn.Module):
    """A model that has a linear1, as the slides' has."""

    def __init__(self):
        super().__init__()
        self.linear1 = nn.Linear(20, 10)

    def forward(self, image, label):
        logits = self.linear1(image)
        return nn.functional.cross_entropy(logits, label), logits


def batches(count, size=8):
    return [(samba.randn(size, 20, name="image"), samba.randint(10, (size,), name="label")) for _ in range(count)]


def test_run_all_sections(tmp_path):
    model = samba.from_torch_model_(Small())
    (inputs,) = batches(1)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=tmp_path)
    traced_outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    before = model.linear1.weight.torch().clone()
    loss, out = model(*(x.torch() for x in inputs))
    outputs = samba.session.run(input_tensors=inputs,
                                 output_tensors=traced_outputs,
                                 section_types=['fwd', 'bckwd', 'opt'])

    # Sync the parameter values on rdu back to host
    samba.session.to_cpu(model)

    # Retrieve individual gradients
    linear_grad = model.linear1.weight.sn_grad
    torch.testing.assert_close([x.data for x in outputs], [loss.data, out.data])
    (expected,) = torch.autograd.grad(loss, model.linear1.weight)
    torch.testing.assert_close(linear_grad, expected.data)
    torch.testing.assert_close(model.linear1.weight.torch(), before - 0.1 * linear_grad)


def test_inference_loop(tmp_path):
    model = samba.from_torch_model_(Small())
    dataloader = batches(2)
    traced_outputs = utils.trace_graph(model, dataloader[0], pef=samba.session.compile(model, dataloader[0], inference=True, output_folder=tmp_path))
    seen = []

    def process_inference_results(loss, out):
        assert loss.shape == () and out.shape == (8, 10)
        seen.append((loss.data, out.data))

    for inputs in dataloader:
        # Running only fwd here for inference
        loss, out = samba.session.run(input_tensors = inputs,
                                      output_tensors = traced_outputs,
                                      section_types = ['fwd'])

        # Can do anything you like with the outputs
        process_inference_results(loss, out)
    for inputs, results in zip(dataloader, seen):
        torch.testing.assert_close(results, tuple(x.data for x in model(*(x.torch() for x in inputs))))


def test_arguments():
    # python <app>.py compile -b=64 -mb=4
    # --inference -p <app.pef>
    argv = ["compile", "-b=64", "-mb=4", "--inference", "-p", "app.pef"]
    args = parse_app_args(argv)
    assert args.command == "compile"
    assert args.batch_size == 64
    assert args.microbatch_size == 4
    assert args.inference == True  # noqa: E712
    # python <app>.py run -b=64 -mb=4
    # --inference -p <app.pef>
    argv = ["run", "-b=64", "-mb=4", "--inference", "-p", "app.pef"]
    args = parse_app_args(argv)
    assert args.command == "run"
    assert args.batch_size == 64
    assert args.microbatch_size == 4
    assert args.inference == True  # noqa: E712
    assert args.pef == "app.pef"


def test_partial_model_on_the_device(tmp_path):
    criterion, targets = nn.CrossEntropyLoss(), torch.randint(10, (8,))
    model, reference = nn.Linear(20, 10), nn.Linear(20, 10)
    reference.load_state_dict(model.state_dict())
    samba.from_torch_model_(model)
    inputs = (samba.randn(8, 20, name="image"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, output_folder=str(tmp_path))
    utils.trace_graph(model, inputs, optim, pef=pef)
    traced_outputs = utils.trace_graph(model, inputs, optim)
    partial_output = samba.session.run(input_tensors=inputs,
                                       output_tensors=traced_outputs,
                                       section_types=['fwd'])[0]
    # Make PyTorch return the grads
    partial_output = samba.to_torch(partial_output)
    partial_output.requires_grad = True
    loss = criterion(partial_output, targets)
    loss.backward()
    samba.session.run(input_tensors=inputs,
                      output_tensors=traced_outputs,
                      grad_of_outputs=(samba.from_torch_tensor(partial_output.grad),),
                      section_types=['bckwd', 'opt'])
    criterion(reference(inputs[0].torch()), targets).backward()
    torch.testing.assert_close(model.weight.sn_grad, reference.weight.grad)
    torch.testing.assert_close(model.weight.sn_data, reference.weight.detach() - 0.1 * reference.weight.grad)


def test_schedule_of_the_learning_rate(tmp_path):
    model = nn.Linear(20, 10)
    samba.from_torch_model_(model)
    inputs = (samba.randn(8, 20, name="image"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, output_folder=str(tmp_path))
    traced_outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    dataloader, weight_decay, seen = [inputs] * 3, 0.0, []

    def lr_schedule(base_lr, batch_num):
        return base_lr * 0.5**batch_num

    base_lr = 0.01

    for batch_num, input_batch in enumerate(dataloader):
        # Generate a new lr per iteration
        new_lr = lr_schedule(base_lr, batch_num)
        hyperparam_dict = {'lr': new_lr, 'weight_decay': weight_decay}

        before = model.bias.sn_data
        samba.session.run(input_tensors=input_batch,
                          output_tensors=traced_outputs,
                          hyperparam_dict=hyperparam_dict)
        seen.append((before - model.bias.sn_data)[0].item() / 8)
    assert seen == pytest.approx([0.01, 0.005, 0.0025], rel=1e-4)


def test_tracing_of_modules(tmp_path):
    module = torch.nn.Conv2d(kernel_size=(3, 3),
                             in_channels=3,
                             out_channels=64,
                             padding=1,
                             bias=True)

    # batch_size, in_channels, width, height
    x = samba.randn(100, 3, 64, 64, name='input', batch_dim=0)

    # If samba.session.tracing is set, this will trace the convolution operation
    y = module(x)
    assert isinstance(y, samba.SambaTensor) and y.shape == (100, 64, 64, 64)
    assert samba.session.tracing is False and y.has_data  # it was not set

    class Traced(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, x):
            y = self.module(x)
            assert samba.session.tracing is True and isinstance(y, samba.SambaTensor) and not y.has_data and y.shape == (100, 64, 64, 64)
            return y

    log = samba.session.compile(samba.from_torch_model_(Traced()), (x,), inference=True, output_folder=tmp_path) + ".log"
    with open(log, encoding="utf-8") as file:
        assert "conv" in file.read()


def test_tracing_of_functions(tmp_path):
    import torch.nn.functional as F
    x = samba.rand(10, 20, name='input', batch_dim=0)
    # Similarly, during tracing these will get traced
    y = F.relu(x)
    z = x.split(10, dim=1)
    assert y.shape == (10, 20) and [part.shape for part in z] == [(10, 10)] * 2

    class Both(nn.Module):
        def forward(self, x):
            assert samba.session.tracing == samba.session.use_static_functional()
            y = F.relu(x)
            z = x.split(10, dim=1)
            return y, *z

    model = Both()
    pef = samba.session.compile(model, (x,), None, output_folder=str(tmp_path), inference=True)
    utils.trace_graph(model, (x,), None, pef=pef)
    results = samba.session.run((x,), model.output_tensors)
    for mine, its in zip(results, (y, *z)):
        assert torch.equal(mine.data, its.data)
    assert not samba.session.tracing


class Args:
    bs = 8


def test_loader(tmp_path):
    model = samba.from_torch_model_(Small())
    inputs = (samba.randn(8, 20, name="sample"), samba.randint(10, (8,), name="label"))
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    utils.trace_graph(model, inputs, optim, pef=samba.session.compile(model, inputs, optim, output_folder=tmp_path))
    args, outputs = Args(), []
    from torch.utils.data import DataLoader
    from sambaflow.samba.sambaloader import SambaLoader

    dataset = torch.utils.data.TensorDataset(torch.randn(24, 20), torch.randint(10, (24,)))
    # data_loader = DataLoader(dataset, batch_size=args.bs,...)
    data_loader = DataLoader(dataset, batch_size=args.bs, shuffle=False)
    samba_loader = SambaLoader(data_loader, ["sample", "label"])

    for X_val, Y_val in samba_loader:
        assert X_val.sn_name == "sample" and Y_val.sn_name == "label" and isinstance(X_val, samba.SambaTensor)
        # samba.session.run(input_tensors=[X_val, Y_val],...)
        outputs += samba.session.run(input_tensors=[X_val, Y_val], output_tensors=model.output_tensors[1:], section_types=["fwd"])
    torch.testing.assert_close(torch.cat([x.data for x in outputs]), model.linear1(dataset.tensors[0]).data)
    assert len(samba_loader) == 3


def test_loader_with_pinned_memory(tmp_path):
    model = samba.from_torch_model_(Small())
    inputs = (samba.randn(8, 20, name="sample"), samba.randint(10, (8,), name="label"))
    utils.trace_graph(model, inputs, pef=samba.session.compile(model, inputs, inference=True, output_folder=tmp_path))
    args, outputs = Args(), []
    dataset = torch.utils.data.TensorDataset(torch.randn(24, 20), torch.randint(10, (24,)))
    from torch.utils.data import DataLoader
    from sambaflow.samba.sambaloader import SambaLoader

    # data_loader = DataLoader(dataset, batch_size=args.bs,...)
    data_loader = DataLoader(dataset, batch_size=args.bs, shuffle=False)
    samba_loader = SambaLoader(data_loader, ["sample", "label"])

    sambaflow.samba.session.enable_pinned_memory()

    for X_val, Y_val in samba_loader:
        # samba.session.run(input_tensors=[X_val, Y_val],...)
        outputs += samba.session.run(input_tensors=[X_val, Y_val], output_tensors=model.output_tensors[1:])
    torch.testing.assert_close(torch.cat([x.data for x in outputs]), model.linear1(dataset.tensors[0]).data)


def test_loader_ends():
    # SambaLoader(torch_loader: Iterable[Iterable[torch.Tensor]], names: List[str])
    from sambaflow.samba.sambaloader import SambaLoader

    torch_loader = [(torch.zeros(1), torch.zeros(2))] * 3
    for X_val, Y_val in SambaLoader(torch_loader=torch_loader, names=["sample", "label"]):
        break  # leaving early stops the thread

    def failing():
        yield torch.zeros(1), torch.zeros(1)
        raise KeyError("the data ends here")

    with pytest.raises(KeyError, match="the data ends here"):
        list(SambaLoader(failing(), ["a", "b"]))
    with pytest.raises(ValueError, match="2 tensors, but there are 3 names"):
        list(SambaLoader(torch_loader, ["a", "b", "c"]))


def test_measuring(tmp_path, capsys):
    args = parse_app_args(["measure-performance", "-b", "8", "--num-iterations", "4"])
    model, num_sections = nn.Linear(20, 10), 2
    samba.from_torch_model_(model)
    inputs = (samba.randn(args.batch_size, 20, name="image"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    args.pef = samba.session.compile(model, inputs, optim, output_folder=str(tmp_path))
    # Trace the model
    utils.trace_graph(model, inputs, optim, pef=args.pef)
    utils.measure_performance(model, inputs,
                             batch_size=args.batch_size,
                             inference=args.inference,
                             run_graph_only=args.run_graph_only,
                             n_iterations=args.num_iterations)

    utils.measure_sections(model, inputs,
                           batch_size=args.batch_size,
                           num_sections=num_sections,
                           n_iterations=args.num_iterations)
    lines = capsys.readouterr().out.splitlines()
    assert "samples/s" in lines[1] and len(lines) == 2 + 1 + num_sections
