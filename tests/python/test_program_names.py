# SPDX-License-Identifier: Apache-2.0
"""What public programs use beside functions: SNType, providers of random numbers, arguments as pydantic models, facts of a PEF,
auxiliary tensors, directives around a part of forward, checkpoints in several files, a profiler's events of one's own."""

import gc
import json
import re
import subprocess
import sys
import time
import warnings

import pydantic
import pytest
import safetensors.torch
import torch
import transformers

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors
from sambaflow.samba.argconf.args import CommonArgs, CompileArgs, FlattenSambaArgsAllowExtra, HydraSambaArgs, RunArgs
from sambaflow.samba.directives import op_fusion, sdpa_directives
from sambaflow.samba.graph import FwdGraph
from sambaflow.samba.lazy_param import RNGProvider, RNGProviderFactory
from sambaflow.samba.profiler import Profiler
from sambaflow.samba.trace import _TORCH_DTYPES
from sambaflow.samba.utils.checkpoint import load_sharded_checkpoint
from sambaflow.samba.utils.pef_utils import PefInfoStruct, get_pef_info, get_pefmeta_dict


@pytest.fixture
def line(tmp_path, monkeypatch):
    """A loaded PEF."""
    monkeypatch.chdir(tmp_path)
    model = samba.from_torch_model_(torch.nn.Linear(3, 2))
    inputs = (samba.randn(4, 3, name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pef = samba.session.compile(model, inputs, optim)
    outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    return model, inputs, outputs, pef


# ---- SNType ----


def test_sntype():
    assert {x.dtype for x in utils.SNType} == set(_TORCH_DTYPES)
    for x in utils.SNType:
        assert utils.SNType.of(x.dtype) is utils.SNType.of(torch.empty(0, dtype=x.dtype)) is utils.SNType.of(x) is x
        assert (x.itemsize, x.is_floating_point) == (x.dtype.itemsize, x.dtype.is_floating_point)
    with pytest.raises(TypeError, match="'complex64' is none of the device's dtypes: float32, bfloat16"):
        utils.SNType.of(torch.complex64)


# ---- random numbers ----


def test_providers():
    provider = RNGProvider(seed=5)
    first = provider.rng().normal(size=(1000,))
    second = provider.rng().normal(size=(1000,))
    assert not torch.equal(first, second) and abs(first.mean()) < 0.2 and 0.8 < first.std() < 1.2
    provider.reset()
    assert torch.equal(provider.rng().normal(size=(1000,)), first)
    assert torch.equal(RNGProvider(seed=5, init_threads=1).rng().normal(size=(1000,)), first)
    inverse = RNGProvider(seed=5, inverse_transform_sampling=True).rng().normal(size=(1000,))
    assert not torch.equal(inverse, first)
    truncated = RNGProvider(seed=5, fp32_to_bf16_rounding="truncation").rng().normal(size=(1000,), dtype=torch.bfloat16)
    nearest = RNGProvider(seed=5).rng().normal(size=(1000,), dtype=torch.bfloat16)
    assert (truncated.abs() <= nearest.abs()).all() and not torch.equal(truncated, nearest)
    factory = RNGProviderFactory(seed=5)
    assert factory("w").seed == RNGProviderFactory(seed=5).create("w").seed != factory("b").seed
    assert repr(provider) == "RNGProvider(seed=5)" and repr(factory) == "RNGProviderFactory(seed=5)"
    for wrong, kind, said in (
        (lambda: RNGProvider("a"), TypeError, "RNGProvider: seed is 'a'"),
        (lambda: RNGProvider(1, 0), ValueError, "RNGProvider: init_threads is 0"),
        (lambda: RNGProviderFactory(1, fp32_to_bf16_rounding="up"), ValueError, "RNGProviderFactory: fp32_to_bf16_rounding 'up'"),
        (lambda: factory(3), TypeError, "a provider is made for a name, given 3"),
    ):
        with pytest.raises(kind, match=said):
            wrong()


def test_providers_fill_a_model(line):
    """Parameters whose values are their name's: the same whatever else there is and in whatever order."""
    factory = RNGProviderFactory(seed=1)

    def parameter(name, *shape):
        return samba.SambaParameter(shape=shape, materializer=lambda tensor: factory(name).rng().normal_(tensor, std=0.02))

    ab = {name: parameter(name, 4, 4).torch_tensor() for name in "ab"}
    ba = {name: parameter(name, 4, 4).torch_tensor() for name in "ba"}
    assert torch.equal(ab["a"], ba["a"]) and torch.equal(ab["b"], ba["b"]) and not torch.equal(ab["a"], ab["b"])


def test_lazy_param_is_a_function_too():
    with samba.lazy_param(seed=1):
        lazy = torch.nn.Linear(3, 2)
    assert not lazy.weight.has_data and samba.lazy_param.RNGProvider is RNGProvider
    with pytest.raises(ValueError, match="enable_lazy_param: init_threads is 0"), samba.lazy_param(init_threads=0):
        pass


# ---- arguments ----


def test_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, inputs = samba.from_torch_model_(torch.nn.Linear(3, 2)), (samba.randn(4, 3, name="x"),)

    class Mine(FlattenSambaArgsAllowExtra):
        width: int = 8

    args = Mine(output_folder="a", pef_name="b", inference=True, other="x", seed=3)
    assert (args.width, args.other, args.batch_size) == (8, "x", 1)
    samba.session.setup(args)
    assert samba.session.compile(model, inputs) == "a/b/b.pef" and samba.session.seed == 3
    assert get_pef_info("a/b/b.pef").inference
    samba.session.reset()
    nested = HydraSambaArgs(
        common={"mapping": "spatial"},
        compile={"pef_name": "c", "output_folder": "a"},
        run={"pef": "a/c/c.pef"},
        model={"width": 8},
    )
    samba.session.setup(nested)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    assert samba.session.compile(model, inputs, optim) == "a/c/c.pef" and get_pef_info("a/c/c.pef").mapping == "spatial"
    utils.trace_graph(model, inputs, optim)
    assert samba.session.loaded().pef == "a/c/c.pef"
    flat = nested.flat()
    assert (flat.mapping, flat.pef_name, flat.pef, flat.model) == ("spatial", "c", "a/c/c.pef", {"width": 8})
    assert get_pefmeta_dict(flat.model_dump(), model)["arguments"]["pef_name"] == "c"
    for wrong, said in (
        (lambda: CommonArgs(batch_size=0), "greater than or equal to 1"),
        (lambda: CommonArgs(batch_size=4, microbatch_size=3), "the microbatch size 3 does not divide the batch size 4"),
        (lambda: CompileArgs(precision="fp8"), "'fp32' or 'bf16'"),
        (lambda: RunArgs(peff="x"), "Extra inputs are not permitted"),
        (lambda: HydraSambaArgs(run={"threads": "many"}), "valid integer"),
    ):
        with pytest.raises(pydantic.ValidationError, match=said):
            wrong()


def test_without_pydantic(tmp_path):
    """Everything else works, and what needs it says so."""
    (tmp_path / "pydantic.py").write_text("raise ImportError('hidden')\n")
    code = "import sambaflow.samba\ntry:\n    import sambaflow.samba.argconf.args\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout == "sambaflow.samba.argconf.args needs the package pydantic, 2 or later: pip install pydantic\n", (
        done.stderr
    )


# ---- a PEF's facts ----


def test_pef_info(line, tmp_path):
    model, inputs, _, pef = line
    info = get_pef_info(pef)
    assert isinstance(info, PefInfoStruct)
    assert info.path == pef and info.section_types == ("FWD", "BCKWD", "OPT") and not info.inference and info.mapping == "section"
    assert info.inputs == {"x": ("float32", (4, 3))} and info.outputs == {"output_0": ("float32", (4, 2))}
    assert info.parameters == {"weight": ("float32", (2, 3)), "bias": ("float32", (2,))}
    assert "weight.momentum_buffer" in info.buffers and info.hyperparameters["lr"] == pytest.approx(0.1)
    assert info.memory["total"] >= info.memory["parameters"] > 0
    with pytest.raises(AttributeError):
        info.path = "other"
    with pytest.raises(OSError, match="nowhere.pef"):
        get_pef_info("nowhere.pef")
    samba.session.reset()
    for name in ("one", "two"):
        samba.session.add_graph(FwdGraph(model, inputs, name))
    info = get_pef_info(samba.session.compile_multigraph("several", output_folder=str(tmp_path)))
    assert info.graph_names == ("one", "two") and info.inference and set(info.outputs) == {"one.output_0", "two.output_0"}


def test_pefmeta_of_a_dict(line):
    model = line[0]
    found = get_pefmeta_dict({"batch_size": 4}, model)
    assert found == {"model": "Linear", "parameters": {"weight": [2, 3], "bias": [2]}, "arguments": {"batch_size": 4}}
    assert json.loads(json.dumps(found)) == found


# ---- auxiliary tensors ----


def test_auxiliary(line):
    model, inputs, outputs, pef = line
    session = samba.session
    for name, valid in (
        ("mask", True),
        ("x", False),
        ("weight", False),
        ("output_0", False),
        ("weight.grad", False),
        ("", False),
        (3, False),
    ):
        assert session.is_valid_aux_tensor_name(name) is valid, name
    values = torch.arange(3.0)
    mask = session.add_aux_tensor("mask", values)
    assert not session.is_valid_aux_tensor_name("mask") and session.get_samba_tensor_by_name("mask") is mask
    values += 1  # the handle's memory; the device has a copy
    assert mask.tolist() == [1, 2, 3] and mask.sn_data.tolist() == [0, 1, 2]
    mask.rdu()
    assert session.get_tensors_by_name(["mask", "x"])[0].tolist() == [1, 2, 3]
    session.update_tensor("mask", torch.zeros(3))
    assert mask.tolist() == [0, 0, 0] == mask.sn_data.tolist()
    mask.sn_data = torch.ones(3)
    mask.cpu()
    assert mask.tolist() == [1, 1, 1]
    session.run(inputs, outputs)
    session.to_device()
    assert session.add_aux_tensor(samba.ones(2, name="named")).sn_name == "named"
    with pytest.raises(ValueError, match=r"auxiliary tensor 'mask' is \(3,\) torch.float32, given \(2,\) torch.float32"):
        mask.sn_data = torch.ones(2)
    for name in ("mask", "x", ""):
        with pytest.raises(LookupError, match=f"add_aux_tensor: {name!r} is no name for an auxiliary tensor"):
            session.add_aux_tensor(name, values)
    with pytest.raises(TypeError, match="add_aux_tensor: expected a tensor, given list"):
        session.add_aux_tensor("list", [1.0])
    session.update_tensor("mask", None)
    assert session.is_valid_aux_tensor_name("mask")
    with pytest.raises(LookupError, match="the device has no tensor 'mask'"):
        session.get_tensors_by_name(["mask"])
    utils.trace_graph(model, inputs, pef=pef)  # another device
    assert session.is_valid_aux_tensor_name("named")
    session.reset()
    with pytest.raises(errors.StateError, match="no PEF is loaded"):
        session.add_aux_tensor("mask", values)


def test_auxiliary_of_another_session(line):
    model, inputs, _, pef = line
    other = samba.SambaSession()
    other.trace_graph(model, inputs, pef=pef)
    theirs, mine = other.add_aux_tensor("mask", torch.zeros(2)), samba.session.add_aux_tensor("mask", torch.ones(2))
    theirs.sn_data = torch.full((2,), 2.0)
    assert (theirs.sn_data.tolist(), mine.sn_data.tolist()) == ([2, 2], [1, 1])


def test_dynamic_dims():
    assert samba.session.dynamic_dims == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samba.session.dynamic_dims = None
    with pytest.warns(
        samba.NoEffectWarning, match="session.dynamic_dims: without effect on this device.* compile a graph for each size"
    ):
        samba.session.dynamic_dims = {"batch": (1, 32)}
    assert samba.session.dynamic_dims == {"batch": (1, 32)}
    samba.session.reset()
    assert samba.session.dynamic_dims == {}


# ---- directives ----


class Parts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        with op_fusion(func_name="first"):
            x = torch.relu(self.a(x))
            with op_fusion("inner"):
                x = x * 2
        return self.b(x).sigmoid()


def test_op_fusion_around_a_part():
    graph = FwdGraph(Parts(), (samba.randn(2, 4, name="x"),))
    found = {o.op: o.fusion for o in graph if o.phase}
    assert found["relu"] == "first" and found["sigmoid"] == "" and found["mul"].startswith("first"), found
    assert {o.fusion for o in graph if o.module == "b"} == {""}

    class Fails(torch.nn.Module):
        def forward(self, x):
            try:
                with op_fusion(func_name="broken"):
                    raise ValueError
            except ValueError:
                return x * 2

    assert [o.fusion for o in FwdGraph(Fails(), (samba.randn(2, name="x"),)) if o.phase] == [""]
    with op_fusion(func_name="outside"):  # nothing is traced
        assert samba.ones(2).sum().item() == 2
    module = torch.nn.ReLU()
    assert op_fusion(module, func_name="name") is module
    for wrong, kind, said in (
        (lambda: op_fusion(), ValueError, "expected a name that is not empty, given None"),
        (lambda: op_fusion(func_name=""), ValueError, "expected a name that is not empty"),
        (lambda: op_fusion(3, "x"), TypeError, "expected a torch.nn.Module, given int"),
        (lambda: op_fusion(module, "a", func_name="b"), TypeError, "name is 'a' and func_name 'b': give one of them"),
    ):
        with pytest.raises(kind, match=said):
            wrong()


def test_sections_by_op_fusion(tmp_path):
    """What one name holds together is in one section; results are the same bits."""
    found = []
    x = (samba.randn(64, 4, name="x"),)
    torch.manual_seed(1)
    model = samba.from_torch_model_(Parts())
    for options in ({}, {"fast_memory": 2600}):
        pef = samba.session.compile(model, x, inference=True, output_folder=str(tmp_path), pef_name=f"p{len(options)}", **options)
        found.append(samba.session.run(x, utils.trace_graph(model, x, pef=pef))[0].torch())
    done = subprocess.run(
        [sys.executable, "-m", "sambaflow", "inspect", "--operators", pef], capture_output=True, text=True, check=True
    )
    sections = {row.split()[0] for row in done.stdout.splitlines() if re.search(r"\bfirst\b", row)}
    assert len(sections) == 1 and len(samba.session.loaded().sections) > 1 and torch.equal(*found)


def test_sdpa_directives():
    q = torch.randn(1, 2, 3, 4)
    expected = torch.nn.functional.scaled_dot_product_attention(q, q, q)

    with pytest.warns(
        samba.NoEffectWarning, match="^sdpa_directives: tile, order: without effect on this device, a CPU$"
    ) as said:

        @sdpa_directives({"tile": 64}, order="rows")
        def attention():
            return samba.scaled_dot_product_attention(q, q, q)

    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(samba.to_torch(attention()), expected)
        with sdpa_directives(tile=32), sdpa_directives():  # it was said
            pass
    with pytest.raises(TypeError, match="expected a dict of hints, or hints by name, given int"), sdpa_directives(64):
        pass


# ---- checkpoints in several files ----


def saved(folder, model, safe):
    """Two files with an index, as Hugging Face's libraries name them."""
    state = list(model.state_dict().items())
    parts, ending = (state[:2], state[2:]), "safetensors" if safe else "bin"
    stem, places = "model" if safe else "pytorch_model", {}
    for i, part in enumerate(parts):
        file = f"{stem}-{i + 1:05}-of-00002.{ending}"
        places.update((name, file) for name, _ in part)
        if safe:
            safetensors.torch.save_file(dict(part), folder / file)
        else:
            torch.save(dict(part), folder / file)
    index = folder / f"{stem}.{ending}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index


def net():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2, dtype=torch.bfloat16))


@pytest.mark.parametrize("safe", [True, False], ids=["safetensors", "torch"])
@pytest.mark.parametrize("lazy", [False, True])
def test_load_sharded_checkpoint(tmp_path, safe, lazy):
    theirs = net()
    saved(tmp_path, theirs, safe)
    if lazy:
        with samba.lazy_param(seed=1):
            mine = samba.from_torch_model_(net())
    else:
        mine = samba.from_torch_model_(net())
    before = [id(x) for x in mine.parameters()]
    assert load_sharded_checkpoint(mine, tmp_path) == ([], [])
    gc.collect()  # the files' memory is gone, the model's is its own
    assert [id(x) for x in mine.parameters()] == before
    for name, x in mine.state_dict().items():
        assert torch.equal(samba.to_torch(x).detach(), theirs.state_dict()[name]), name


def test_load_sharded_checkpoint_of_transformers(tmp_path):
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=90, n_positions=16)
    theirs = transformers.GPT2LMHeadModel(config)
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    mine = samba.from_torch_model_(transformers.GPT2LMHeadModel(config))
    assert load_sharded_checkpoint(mine, str(tmp_path)) == ([], [])  # lm_head is tied, and in no file
    for name, x in mine.named_parameters():
        assert torch.equal(samba.to_torch(x).detach(), theirs.get_parameter(name).detach()), name


def test_load_sharded_checkpoint_refuses(tmp_path):
    model = net()
    call = "load_sharded_checkpoint"
    with pytest.raises(OSError, match="has neither model.safetensors.index.json nor pytorch_model.bin.index.json"):
        load_sharded_checkpoint(model, tmp_path)
    index = saved(tmp_path, model, False)
    good = json.loads(index.read_text())["weight_map"]
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 4))
    with pytest.raises(LookupError, match="lacks 1.*, which the model has|has 1.running_mean") as found:
        load_sharded_checkpoint(other, tmp_path)
    before = other[0].weight.clone()
    assert "give it another model, or strict=False" in str(found.value) and torch.equal(other[0].weight, before)
    with pytest.raises(ValueError, match=r"'1.weight' is \(4,\) in .*bin and \(4, 4\) in the model"):
        load_sharded_checkpoint(other, tmp_path, strict=False)
    missing, unexpected = load_sharded_checkpoint(other[:1], tmp_path, strict=False)
    assert missing == [] and "2.weight" in unexpected
    wider = torch.nn.Sequential(*net(), torch.nn.Linear(2, 2))
    assert load_sharded_checkpoint(wider, tmp_path, strict=False) == (["3.weight", "3.bias"], [])
    with pytest.raises(TypeError, match="the model is a torch.nn.Module"):
        load_sharded_checkpoint({}, tmp_path)
    for text, said in (
        ("{", 'expected an object with "weight_map"'),
        ("[]", 'expected an object with "weight_map"'),
        ('{"weight_map": {"0.weight": 3}}', 'expected an object with "weight_map"'),
        (
            json.dumps({"weight_map": {**good, "0.weight": "../a.bin"}}),
            "names the file '../a.bin': expected one in the same folder",
        ),
    ):
        index.write_text(text)
        with pytest.raises(errors.FormatError, match=f"{call}: .*{said}"):
            load_sharded_checkpoint(model, tmp_path)
    index.write_text(json.dumps({"weight_map": {**good, "0.weight": "a.bin"}}))
    with pytest.raises(OSError, match="names the file 'a.bin', which is not there"):
        load_sharded_checkpoint(model, tmp_path)
    (tmp_path / "a.bin").write_bytes(b"nonsense")
    with pytest.raises(errors.FormatError, match="is no file that torch.save has written"):
        load_sharded_checkpoint(model, tmp_path)
    torch.save([1], tmp_path / "a.bin")
    with pytest.raises(errors.FormatError, match="has a list: expected a dict of tensors by name"):
        load_sharded_checkpoint(model, tmp_path)
    torch.save({}, tmp_path / "a.bin")
    with pytest.raises(errors.FormatError, match="has no tensor '0.weight', which the index says is there"):
        load_sharded_checkpoint(model, tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"nonsense")
    index.write_text(json.dumps({"weight_map": {**good, "0.weight": "a.safetensors"}}))
    with pytest.raises(errors.FormatError, match="a.safetensors"):
        load_sharded_checkpoint(model, tmp_path)


# ---- events of a program's own ----


def test_events():
    profiler = samba.session.profiler
    profiler.start()
    for count in (2, 3):
        profiler.start_event("prefill")
        profiler.start_event("decode")
        time.sleep(0.01)
        assert profiler.end_event("decode", count=count) >= 0.01
        profiler.end_event("prefill")
    latencies = profiler.get_latencies()
    assert set(latencies) == {"prefill", "decode"} and len(latencies["decode"]) == 2
    assert all(a > b >= 0.01 for a, b in zip(latencies["prefill"], latencies["decode"]))
    assert profiler.get_throughputs("decode") == pytest.approx(5 / sum(latencies["decode"]))
    assert profiler.get_throughputs() == {
        name: pytest.approx(count / sum(latencies[name])) for name, count in (("prefill", 2), ("decode", 5))
    }
    assert profiler.get_latencies("decode") == latencies["decode"]
    assert "prefill" in profiler.summary() and profiler.events["decode"][0] == 2
    profiler.stop()
    profiler.start_event("later")
    profiler.end_event("later")
    assert "later" in profiler.get_latencies() and "later" not in profiler.events  # it is off
    profiler.start()
    assert profiler.get_latencies() == {} == profiler.get_throughputs()
    profiler.start_event("open")
    for wrong, kind, said in (
        (lambda: profiler.start_event("open"), RuntimeError, "start_event: 'open' has begun already: end_event"),
        (lambda: profiler.end_event("other"), RuntimeError, "end_event: 'other' has not begun; begun have: open"),
        (lambda: profiler.end_event("open", count=-1), ValueError, "count is -1: expected a number of 0 or more"),
        (lambda: profiler.start_event(""), ValueError, "expected a name that is not empty, given ''"),
        (lambda: profiler.get_latencies("open"), LookupError, "get_latencies: no event 'open' has ended; ended have: none"),
        (lambda: profiler.get_throughputs("x"), LookupError, "get_throughputs: no event 'x' has ended"),
    ):
        with pytest.raises(kind, match=said):
            wrong()
    assert Profiler().get_latencies() == {}
