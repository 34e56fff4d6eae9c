# SPDX-License-Identifier: Apache-2.0
"""The examples of the document on samba.session, as they stand there, and what the document says of each name."""
import pytest
import torch
from models import ResFFNLogReg, trained

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


def test_compile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    import torch
    import sambaflow.samba as samba
    import sambaflow.samba.utils as utils
    model = torch.nn.Linear(10, 10)
    samba.from_torch_model_(model)
    torch_input = torch.randn(5, 10)
    ipt = samba.from_torch_tensor(torch_input, name='input')
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    samba.session.compile(model, (ipt, ), optim)
    assert [path.name for path in sorted((tmp_path / "out" / "Linear").iterdir())] == ["Linear.pef", "Linear.pef.log"]
    assert utils.trace_graph(model, (ipt, ), optim, pef="out/Linear/Linear.pef")[0].shape == (5, 10)


def test_run(tmp_path, monkeypatch):
    import torch.nn as nn
    import sambaflow.samba as samba
    import sambaflow.samba.utils as utils
    monkeypatch.setattr(torch.nn, "BiLinear", torch.nn.Linear, raising=False)  # torch has none of that name; it has two sizes, as Linear
    path_to_pef = str(tmp_path / "BiLinear" / "BiLinear.pef")
    like = samba.from_torch_model_(torch.nn.Linear(10, 10))
    samba.session.compile(like, (samba.randn(5, 10, name="input"),), samba.optim.SGD(like.parameters(), lr=0.1), "BiLinear", output_folder=tmp_path)
    model = nn.BiLinear(10, 10)
    samba.from_torch_model_(model)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    ipt = samba.randn(5, 10, name='input')
    before = model.weight.data.clone()
    expected = torch.nn.functional.linear(ipt.torch(), before, model.bias.data)
    utils.trace_graph(model, (ipt, ), optim, init_output_grads=True, pef=path_to_pef)
    samba_outputs = samba.session.run(model, (ipt, ), model.output_tensors)
    torch.testing.assert_close(samba_outputs[0].data, expected)
    # gradients started from ones, and the optimizer ran
    torch.testing.assert_close(model.weight.sn_grad, torch.ones(10, 5) @ ipt.torch())
    torch.testing.assert_close(model.weight.sn_data, before - 0.1 * model.weight.sn_grad)
    after = model.weight.sn_data
    samba_outputs = samba.session.run(model, (ipt, ), model.output_tensors, section_types=["FWD"])
    torch.testing.assert_close(samba_outputs[0].data, torch.nn.functional.linear(ipt.torch(), after, model.bias.sn_data))
    assert torch.equal(model.weight.sn_data, after)


def test_several_optimizers(tmp_path):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.a(x) + self.b(x)

    model = samba.from_torch_model_(Two())
    inputs = (samba.randn(5, 4, name="x"),)
    opt0, opt1 = samba.optim.SGD(model.a.parameters(), lr=0.1), samba.optim.SGD(model.b.parameters(), lr=0.2)
    gradient = torch.ones(3, 5) @ inputs[0].torch()

    def steps(optimizers):
        """How far a step takes the weights of a and b, in gradients."""
        utils.trace_graph(model, inputs, optimizers, pef=samba.session.compile(model, inputs, optimizers, output_folder=tmp_path))
        samba.session.run(inputs, model.output_tensors)
        return [((layer.weight.torch() - layer.weight.sn_data) / gradient).mean().item() for layer in (model.a, model.b)]

    optimizers = opt0
    assert steps(optimizers) == pytest.approx([0.1, 0], abs=1e-4)
    optimizers = [opt0, opt1]
    assert steps(optimizers) == pytest.approx([0.1, 0.2], abs=1e-4)


def test_mem_type(tmp_path):
    model = samba.from_torch_model_(torch.nn.Linear(4, 3))
    sambatensor = samba.randn(5, 4, name="x")
    assert sambatensor.mem_type is None
    for mem_type in ("DDR", "HBM", "HOST", None):
        sambatensor.mem_type = mem_type
        assert sambatensor.mem_type == mem_type
    sambatensor.mem_type = "Host"  # as the document has it too
    assert sambatensor.mem_type == "HOST"
    with pytest.raises(ValueError, match="mem_type 'SRAM': expected one of DDR, HBM, HOST"):
        sambatensor.mem_type = "SRAM"
    for io_host_memory in (None, True, False):
        samba.session.compile(model, (sambatensor,), io_host_memory=io_host_memory, output_folder=tmp_path)


def test_section_types(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    section_types=['FWD']
    before = model.gemm1.weight.sn_data
    loss, out = samba.session.run(inputs, outputs, section_types=section_types)
    assert torch.equal(model.gemm1.weight.sn_data, before)
    torch.testing.assert_close(loss.data, torch.nn.functional.cross_entropy(out.data, inputs[1].torch()))


def test_profile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, input_tensors, output_tensors = trained(tmp_path)
    import sambaflow.samba as samba
    with samba.session.samba_profile('dump.txt'):
        samba.session.run(input_tensors, output_tensors)
        samba.session.run(input_tensors, output_tensors, section_types=["FWD"])
    text = (tmp_path / "dump.txt").read_text()
    assert "SAMBA_SESSION_RUN_FWD" in text and "PyRT_RUN" in text


def test_names(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    session = samba.session
    assert set(session.get_argin_names()) >= {"lr", "momentum", "weight_decay"}
    assert session.get_section_types() == {"FWD", "BCKWD", "OPT"}
    assert set(session.get_weight_names()) == {name for name, _ in model.named_parameters()}
    assert session.get_samba_tensor_by_name("gemm1.weight") is model.gemm1.weight
    assert torch.equal(session.get_tensors([model.gemm1.bias])[0].data, session.get_tensors_by_name(["gemm1.bias"])[0].data)
    with pytest.raises(LookupError, match="nothing"):
        session.get_samba_tensor_by_name("nothing")


def test_hyperparameters_stay(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    before = model.gemm1.weight.sn_data
    samba.session.run(inputs, outputs, hyperparam_dict={"lr": 0.0})
    samba.session.run(inputs, outputs)
    assert torch.equal(model.gemm1.weight.sn_data, before)
    with pytest.raises(LookupError, match="learning_rate"):
        samba.session.run(inputs, outputs, hyperparam_dict={"learning_rate": 0.0})


def test_c_trains_what_python_compiled(tmp_path):
    import pathlib
    import subprocess
    import sys

    from sambaflow.runtime import Session, Tensor

    program = pathlib.Path(sys.executable).parent / "sambaflow"  # comes with the package
    model, inputs, outputs = trained(tmp_path)
    start, end = tmp_path / "start.safetensors", tmp_path / "end.safetensors"
    samba.session.save(start)
    image, label = (x.torch() for x in inputs)
    expected = [samba.session.run(inputs, outputs[:1])[0].item() for _ in range(5)]
    alone = Session(samba.session.loaded().pef)  # the C session, without a model
    alone.load(start)
    loss = Tensor.zeros("output_0", "float32", (), alone.context)
    given = [Tensor.wrap("image", image.numpy(), alone.context), Tensor.wrap("label", label.numpy(), alone.context)]
    for value in expected:
        alone.run(given, [loss])
        assert loss.tolist() == value  # the same bits
    alone.save(end)
    samba.session.load(end)  # and the checkpoint goes back
    assert torch.equal(model.gemm1.weight.sn_data, samba.session.get_tensors_by_name(["gemm1.weight"])[0].data)
    subprocess.run([program, "run", samba.session.loaded().pef, f"--load={start}"], check=True, capture_output=True)


def test_bad_arguments(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    image, label = inputs
    for bad, kind, words in (
        ((samba.randn(8, 21, name="image"), label), ValueError, "image"),
        ((samba.randn(8, 20, name="image", dtype=torch.float64), label), TypeError, "image"),
        ((samba.randn(8, 20, name="picture"), label), LookupError, "picture"),
        ((samba.randn(8, 20), label), LookupError, "no name"),
    ):
        with pytest.raises(kind, match=words):
            samba.session.run(bad, outputs)
    with pytest.raises(LookupError, match="FORWARD"):
        samba.session.run(inputs, outputs, section_types=["FORWARD"])
    with pytest.raises(ValueError, match="section"):
        samba.session.run(inputs, outputs, section_types=["FWD"], section_ids=[0])
    with pytest.raises(ValueError, match="compile it with data_parallel"):
        samba.session.run(inputs, outputs, data_parallel=True)
    strided = samba.from_torch_tensor(torch.randn(20, 8).t(), name="image")  # not contiguous: works
    assert samba.session.run((strided, label), outputs[:1])[0].item() > 0


def test_states():
    with pytest.raises(RuntimeError, match="no PEF"):
        samba.session.run((), ())
    with pytest.raises(OSError):
        utils.trace_graph(torch.nn.Linear(2, 2), (samba.randn(1, 2, name="x"),), pef="nowhere.pef")


def test_other_model(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    pef = samba.session.loaded().pef
    other = ResFFNLogReg(20, 33, 10)
    samba.from_torch_model_(other)
    with pytest.raises(RuntimeError, match="is float32.*, but was compiled as float32"):
        utils.trace_graph(other, inputs, None, pef=pef, loss_indices=[(0,)])


def test_unknown_keyword(tmp_path):
    model = torch.nn.Linear(2, 2)
    with pytest.raises(TypeError, match="did you mean 'pef_name'"):
        samba.session.compile(model, (samba.randn(1, 2, name="x"),), pefname="x")


def test_values_while_tracing():
    class Branch(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:  # the line to be named
                return x
            return -x

    with pytest.raises(NotImplementedError, match=r"bool\(\).*test_document_session.py:\d+: if x.sum\(\) > 0"):
        samba.session.compile(Branch(), (samba.randn(2, name="x"),))


def test_optimizer_state(tmp_path):
    model = samba.from_torch_model_(torch.nn.Linear(4, 3))
    inputs = (samba.randn(5, 4, name="x"),)
    optim = samba.optim.AdamW(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    samba.session.run(inputs, outputs)
    samba.session.to_cpu(model, optim)
    gradient = model.weight.sn_grad
    torch.testing.assert_close(optim.state[model.weight]["exp_avg"].torch(), 0.1 * gradient)
    memory = optim.state[model.weight]["exp_avg"].torch()
    memory.mul_(2)
    samba.session.to_rdu(model, [optim])
    torch.testing.assert_close(samba.session.get_tensors_by_name(["weight.exp_avg"])[0].torch(), 0.2 * gradient)
    samba.session.run(inputs, outputs)
    samba.session.to_cpu_(model, optim)
    torch.testing.assert_close(memory, 0.9 * 0.2 * gradient + 0.1 * model.weight.sn_grad)  # in place


def test_buffers(tmp_path):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(4, 3)
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.count += 1
            return self.lin(x) * self.count

    model = samba.from_torch_model_(Counting())
    inputs = (samba.randn(5, 4, name="x"),)
    pef = samba.session.compile(model, inputs, None, output_folder=str(tmp_path), inference=True)
    outputs = utils.trace_graph(model, inputs, None, pef=pef)
    for step in range(1, 4):
        result = samba.session.run(inputs, outputs)[0]
        torch.testing.assert_close(result.data, step * torch.nn.functional.linear(inputs[0].torch(), model.lin.weight.torch(), model.lin.bias.torch()))
    assert model.count.item() == 0
    samba.session.sync_buffers_to_cpu(model)
    assert model.count.item() == 3
    model.count.data = torch.tensor(10)
    samba.session.sync_buffers_to_rdu(model)
    assert samba.session.get_tensors([model.count])[0].item() == 10
    samba.session.update_tensor("lin.bias", torch.zeros(3))
    assert torch.count_nonzero(model.lin.bias.sn_data) == 0
    samba.session.update_tensor("lin.bias", None)
    with pytest.raises(LookupError):
        samba.session.get_samba_tensor_by_name("lin.bias")


def test_mixed_precision(tmp_path):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

        def forward(self, x):
            y = self.a(x)
            with samba.session.disable_graphamp():
                return y, self.b(x)

    model = samba.from_torch_model_(Two())
    inputs = (samba.randn(5, 64, name="x"),)
    pef = samba.session.compile(model, inputs, None, output_folder=str(tmp_path), inference=True, precision="bf16")
    outputs = utils.trace_graph(model, inputs, None, pef=pef)
    low, exact = samba.session.run(inputs, outputs)
    x = inputs[0].torch()
    expected = [torch.nn.functional.linear(x, layer.weight.torch(), layer.bias.torch()) for layer in (model.a, model.b)]
    assert 1e-6 < (low.data - expected[0]).abs().max() < 2e-2
    torch.testing.assert_close(exact.data, expected[1], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="fp16"):
        samba.session.compile(model, inputs, None, output_folder=str(tmp_path), precision="fp16")


def test_profiler(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    samba.session.start_samba_profile()
    samba.session.run(inputs, outputs)
    assert samba.session.profiler.events["PyRT_RUN"][0] == 1
    samba.session.end_samba_profile(tmp_path / "events.txt")
    samba.session.run(inputs, outputs)
    assert samba.session.profiler.events["PyRT_RUN"][0] == 1
    assert (tmp_path / "events.txt").read_text().startswith("event")


def test_dropout(tmp_path):
    model = samba.from_torch_model_(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)))
    inputs = (samba.ones(8, 64, name="x"),)
    pef = samba.session.compile(model, inputs, samba.optim.SGD(model.parameters(), lr=0.1), output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, inputs, None, pef=pef)
    assert samba.session.get_dropout_rate_argin_names() == ["1.p"] and samba.session.get_dropout_seed_argin_names() == ["1.seed"]

    def zeros(**options):
        return torch.count_nonzero(samba.session.run(inputs, outputs, section_types=["FWD"], **options)[0].data == 0).item()

    assert 150 < zeros() < 360 and zeros(train=False) == 0 and 150 < zeros() < 360  # of 512
    assert zeros(hyperparam_dict={"p": 0.0}) == 0


def test_to_device_and_reset(tmp_path):
    model, inputs, outputs = trained(tmp_path)
    model.gemm1.bias.data = torch.full((32,), 3.0)
    samba.session.to_device()
    assert torch.equal(model.gemm1.bias.sn_data, torch.full((32,), 3.0))
    pef = samba.session.loaded().pef
    samba.session.reset()
    with pytest.raises(RuntimeError, match="no PEF"):
        model.gemm1.bias.sn_data
    samba.session.reset(pef)
    assert samba.session.get_section_types() == {"FWD", "BCKWD", "OPT"}


def test_atexit_register(tmp_path):
    import os
    import subprocess
    import sys

    program = "import sambaflow.samba as samba; samba.session.atexit_register(print, 'the end', flush=True); print('before', flush=True)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    assert done.stdout.split("\n")[:2] == ["before", "the end"]


def test_optimizers(tmp_path):
    model = samba.from_torch_model_(torch.nn.Linear(4, 3))
    model.bias.requires_grad_(False)
    inputs = (samba.randn(5, 4, name="x"),)
    with pytest.raises(NotImplementedError, match="optimizer Rprop"):
        samba.session.compile(model, inputs, torch.optim.Rprop(model.parameters()), output_folder=str(tmp_path))
    optims = [samba.optim.SGD([model.bias], lr=9.0), samba.optim.SGD([model.weight], lr=0.1)]  # the first trains nothing
    pef = samba.session.compile(model, inputs, optims, output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, inputs, optims, pef=pef)
    samba.session.run(inputs, outputs)
    torch.testing.assert_close(model.weight.sn_data, model.weight.torch() - 0.1 * model.weight.sn_grad)
    assert torch.equal(model.bias.sn_data, model.bias.torch())


def test_by_the_class(tmp_path):
    """What the document has as methods of the class works on the session that programs use."""
    model, inputs, outputs = trained(tmp_path)
    samba.session.run(inputs, outputs)
    on_device = model.gemm1.weight.sn_data
    assert not torch.equal(model.gemm1.weight.torch(), on_device)
    memory = model.gemm1.weight.torch().detach()
    samba.SambaSession.to_cpu_(model)
    assert torch.equal(memory, on_device)
    memory.zero_()
    samba.SambaSession.to_rdu(model)
    assert torch.count_nonzero(model.gemm1.weight.sn_data) == 0
    samba.SambaSession.to_cpu(model, None, inplace=False)
    samba.SambaSession.sync_buffers_to_cpu(model, inplace=True)
    samba.SambaSession.sync_buffers_to_rdu(model)
    pef = samba.session.loaded().pef
    samba.SambaSession.reset()
    with pytest.raises(RuntimeError, match="no PEF"):
        samba.session.run()
    other = samba.SambaSession(pef)
    assert other.get_section_types() == {"FWD", "BCKWD", "OPT"}
    other.reset(pef_path="")
    samba.SambaSession.reset(pef)
    assert samba.session.get_weight_names() and not other.has("gemm1.weight")
