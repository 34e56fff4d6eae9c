# SPDX-License-Identifier: Apache-2.0
"""The sample code of the slides "Modeling: PyTorch to SambaFlow" and of the page "Model conversion overview". Each test quotes the lines it
runs; what the fragments leave out (arguments, data) is around them."""
import sys

import pytest
import torch
from models import ResFFNLogReg
from torch import nn

import sambaflow
import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.utils.argparser import parse_app_args
from sambaflow.samba.utils.common import common_app_driver

SIZES = {"num_features": 20, "hidden_size": 32, "num_classes": 10}


def add_options(parser):
    for name, value in SIZES.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=1e-4)


def app(argv, train):
    args = parse_app_args(argv, common_parser_fn=add_options)
    # image = samba.randn(args.batch_size, args.num_features, name='image', batch_dim=0)
    # label = samba.randint(args.num_classes, (args.batch_size, ), name='label', batch_dim=0)
    # inputs = (image, label)
    image = samba.randn(args.batch_size, args.num_features, name='image', batch_dim=0)
    label = samba.randint(args.num_classes, (args.batch_size, ), name='label', batch_dim=0)
    inputs = (image, label)

    # model = ResFFNLogReg(args.num_features, args.hidden_size, args.num_classes)
    # samba.from_torch_model_(model)
    model = ResFFNLogReg(args.num_features, args.hidden_size, args.num_classes)
    samba.from_torch_model_(model)

    # optim = sambaflow.samba.optim.SGD(model.parameters(),
    #                                     lr=args.lr,
    #                                     momentum=args.momentum,
    #                                     weight_decay=args.weight_decay)
    optim = sambaflow.samba.optim.SGD(model.parameters(),
                                      lr=args.lr,
                                      momentum=args.momentum,
                                      weight_decay=args.weight_decay)

    # if args.command == "run":
    #     utils.trace_graph(model, inputs, optim, pef=args.pef, mapping=args.mapping)
    #     train(args, model)
    # else:
    #     common_app_driver(args=args, model=model, inputs=inputs, optim=optim, name=model.__class__.__name__,
    #                       init_output_grads=not args.inference, app_dir=utils.get_file_dir(__file__))
    if args.command == "run":
        utils.trace_graph(model, inputs, optim, pef=args.pef, mapping=args.mapping)
        return train(args, model)
    else:
        return common_app_driver(args=args,
                                 model=model,
                                 inputs=inputs,
                                 optim=optim,
                                 name=model.__class__.__name__,
                                 init_output_grads=not args.inference,
                                 app_dir=utils.get_file_dir(__file__))


def batches(count, size=8):
    return [(samba.randn(size, 20, name="image"), samba.randint(10, (size,), name="label")) for _ in range(count)]


def test_application(tmp_path, capsys):
    pef = app(["compile", "-b=8", "--output-folder", str(tmp_path)], None)

    def train(args, model):
        traced_outputs, dataloader, losses = model.output_tensors, batches(3), []
        for inputs in dataloader:
            # outputs = samba.session.run(input_tensors=inputs,
            #                              output_tensors=traced_outputs,
            #                              section_types=['fwd', 'bckwd', 'opt'])
            outputs = samba.session.run(input_tensors=inputs,
                                        output_tensors=traced_outputs,
                                        section_types=['fwd', 'bckwd', 'opt'])
            losses.append(outputs[0].item())
        # samba.session.to_cpu(model)
        # linear_grad = model.linear1.weight.sn_grad
        samba.session.to_cpu(model)
        linear_grad = model.gemm1.weight.sn_grad
        assert linear_grad.shape == (32, 20)
        assert torch.equal(model.gemm1.weight.torch(), model.gemm1.weight.sn_data)
        return losses

    assert len(app(["run", "-b=8", "-p", pef], train)) == 3
    app(["test", "-b=8", "-p", pef], None)
    measured = app(["measure-performance", "-b", "8", "-p", pef, "--run-graph-only", "--num-iterations", "5"], None)
    assert measured["median_ms"] > 0
    assert [row["type"] for row in app(["measure-sections", "-b", "8", "-p", pef, "--num-iterations", "5"], None)] == ["FWD", "BCKWD", "OPT"]
    assert "samples/s" in capsys.readouterr().out


def test_compile_for_inference(tmp_path):
    pef = app(["compile", "-b=8", "-mb=4", "--inference", "-p", str(tmp_path / "x" / "y" / "y.pef")], None)

    def infer(args, model):
        traced_outputs, dataloader = model.output_tensors, batches(2)
        results = []
        for inputs in dataloader:
            # loss, out = samba.session.run(input_tensors = inputs,
            #                               output_tensors = traced_outputs,
            #                               section_types = ['fwd'])
            loss, out = samba.session.run(input_tensors = inputs,
                                          output_tensors = traced_outputs,
                                          section_types = ['fwd'])
            results.append((loss, out))
        return results

    assert samba.session.get_section_types() if samba.session.has("x") else True
    for loss, out in app(["run", "-b=8", "--inference", "-p", pef], infer):
        assert loss.shape == () and out.shape == (8, 10)


def test_arguments():
    # python <app>.py compile -b=64 -mb=4 --inference -p <app.pef>
    args = parse_app_args(["compile", "-b=64", "-mb=4", "--inference", "-p", "app.pef"])
    assert args.command == "compile"
    assert args.batch_size == 64
    assert args.microbatch_size == 4
    assert args.inference is True
    args = parse_app_args(["run", "-b=64", "-mb=4", "--inference", "-p", "app.pef"])
    assert args.command == "run" and args.pef == "app.pef"
    with pytest.raises(SystemExit):
        parse_app_args(["compile", "-b=64", "-mb=5"])

    def own(parser):  # an own option replaces a built-in one
        parser.add_argument("--seed", type=str, default="mine")

    assert parse_app_args(["run"], common_parser_fn=own).seed == "mine"


def test_partial_model_on_the_device(tmp_path):
    criterion, targets = nn.CrossEntropyLoss(), torch.randint(10, (8,))
    model, reference = nn.Linear(20, 10), nn.Linear(20, 10)
    reference.load_state_dict(model.state_dict())
    samba.from_torch_model_(model)
    inputs = (samba.randn(8, 20, name="image"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, output_folder=str(tmp_path))
    utils.trace_graph(model, inputs, optim, pef=pef)
    # traced_outputs = utils.trace_graph(model, inputs, optim)
    # partial_output = samba.session.run(input_tensors=inputs,
    #                                    output_tensors=traced_outputs,
    #                                    section_types=['fwd'])[0]
    # # Make PyTorch return the grads
    # partial_output = samba.to_torch(partial_output)
    # partial_output.requires_grad = True
    # loss = criterion(partial_output, targets)
    # loss.backward()
    # samba.session.run(input_tensors=inputs,
    #                    output_tensors=traced_outputs,
    #                    grad_of_outputs=(samba.from_torch_tensor(partial_output.grad),),
    #                    section_types=['bckwd', 'opt'])
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

    # base_lr = 0.01
    # for batch_num, input_batch in enumerate(dataloader):
    #     # Generate a new lr per iteration
    #     new_lr = lr_schedule(base_lr, batch_num)
    #     hyperparam_dict = {'lr': new_lr, 'weight_decay': weight_decay}
    #     samba.session.run(input_tensors=input_batch,
    #                       output_tensors=traced_outputs,
    #                       hyperparam_dict=hyperparam_dict)
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


def test_tracing_of_modules_and_functions(tmp_path):
    # module = torch.nn.Conv2d(kernel_size=(3, 3), in_channels=3, out_channels=64, padding=1, bias=True)
    # x = samba.randn(100, 3, 64, 64, name='input', batch_dim=0)
    # # If samba.session.tracing is set, this will trace the convolution operation
    # y = module(x)
    # import torch.nn.functional as F
    # x = samba.rand(10, 20, name='input', batch_dim=0)
    # y = F.relu(x)
    # z = x.split(10, dim=1)
    import torch.nn.functional as F

    module = torch.nn.Conv2d(kernel_size=(3, 3),
                             in_channels=3,
                             out_channels=64,
                             padding=1,
                             bias=True)
    x = samba.randn(100, 3, 64, 64, name='input', batch_dim=0)
    y = module(x)
    assert isinstance(y, samba.SambaTensor) and y.shape == (100, 64, 64, 64)
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


def test_loader(tmp_path):
    # data_loader = DataLoader(dataset, batch_size=args.bs,...)
    # samba_loader = SambaLoader(data_loader, ["sample", "label"])
    # for X_val, Y_val in samba_loader:
    #     samba.session.run(input_tensors=[X_val, Y_val],...)
    from torch.utils.data import DataLoader, TensorDataset

    from sambaflow.samba.sambaloader import SambaLoader

    dataset = TensorDataset(torch.randn(24, 20), torch.randint(10, (24,)))
    data_loader = DataLoader(dataset, batch_size=8)
    samba_loader = SambaLoader(data_loader, ["sample", "label"])
    seen = 0
    for X_val, Y_val in samba_loader:
        assert X_val.sn_name == "sample" and Y_val.sn_name == "label" and isinstance(X_val, samba.SambaTensor)
        seen += len(X_val)
    assert seen == 24 and len(samba_loader) == 3
    for X_val, Y_val in samba_loader:
        break  # leaving early stops the thread

    def failing():
        yield torch.zeros(1), torch.zeros(1)
        raise KeyError("the data ends here")

    with pytest.raises(KeyError, match="the data ends here"):
        list(SambaLoader(failing(), ["a", "b"]))
    with pytest.raises(ValueError, match="2 tensors, expected 3"):
        list(SambaLoader(data_loader, ["a", "b", "c"]))


def test_measuring(tmp_path, capsys):
    args = parse_app_args(["measure-performance", "-b", "8", "--num-iterations", "4"])
    model, num_sections = nn.Linear(20, 10), 2
    samba.from_torch_model_(model)
    inputs = (samba.randn(args.batch_size, 20, name="image"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    args.pef = samba.session.compile(model, inputs, optim, output_folder=str(tmp_path))
    # # Trace the model
    # utils.trace_graph(model, inputs, optim, pef=args.pef)
    # utils.measure_performance(model, inputs,
    #                          batch_size=args.batch_size,
    #                          inference=args.inference,
    #                          run_graph_only=args.run_graph_only,
    #                          n_iterations=args.num_iterations)
    #
    # utils.measure_sections(model, inputs,
    #                        batch_size=args.batch_size,
    #                        num_sections=num_sections,
    #                        n_iterations=args.num_iterations)
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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
