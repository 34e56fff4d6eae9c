# SPDX-License-Identifier: Apache-2.0
"""What applications import beside the session:
the command line, YAML, the driver, metadata of PEFs, data sets, logging, collections, ranks."""

import dataclasses
import json
import logging
import types

import numpy as np
import pytest
import torch
from torch import nn

import sambaflow
import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.logging import samba_logger
from sambaflow.samba.nn.parameter import SambaParameter
from sambaflow.samba.profiler import Profiler
from sambaflow.samba.utils.argparser import parse_app_args, parse_yaml_to_args
from sambaflow.samba.utils.common import common_app_driver
from sambaflow.samba.utils.dataset.mnist import dataset_transform
from sambaflow.samba.utils.pef_utils import get_pefmeta, get_pefmeta_dict
from sambaflow.sambacollections import OrderedSet


def test_defaults():
    args = parse_app_args(["run"])
    expected = {
        "command": "run",
        "batch_size": 1,
        "microbatch_size": None,
        "grad_accumulation_steps": 1,
        "inference": False,
        "pef": "",
        "pef_name": None,
        "output_folder": "out",
        "mapping": "section",
        "fast_memory": 0,
        "precision": "fp32",
        "memory_budget": 0,
        "data_parallel": False,
        "reduce_on_rdu": False,
        "data_parallel_mode": "normal",
        "num_iterations": 100,
        "run_graph_only": False,
        "num_sections": None,
        "seed": 0,
        "o0": False,
        "o1": False,
        "o3": False,
        "debug": False,
        "mac_v2": False,
        "tiling_accum": False,
        "num_tiles": None,
        "log_level": None,
        "resources_scaling_factors": None,
        "arch": None,
        "compiler_mode": None,
        "optimization_rules": None,
        "compiler_configs_file": None,
        "world_size": 1,
        "distlearn_config": None,
        "shard_optimizer": False,
        "reduce_dtype": None,
    }
    assert vars(args) == expected


def test_short_forms(monkeypatch):
    long = ["--batch-size=64", "--microbatch-size", "4", "--pef=x.pef"]
    for words in (["-b=64", "-mb=4", "-p=x.pef"], ["-b", "64", "-mb", "4", "-p", "x.pef"], long):
        args = parse_app_args(["compile", *words])
        assert (args.batch_size, args.microbatch_size, args.pef) == (64, 4, "x.pef")
    monkeypatch.setattr("sys.argv", ["app.py", "test", "-b", "3"])
    assert parse_app_args().command == "test" and parse_app_args().batch_size == 3


@pytest.mark.parametrize(
    "argv, said",
    [
        (["compile", "-b=64", "-mb=5"], "5 does not divide the batch size 64"),
        ([], "command"),
        (["fly"], "'fly' is no command: give compile, run, test, measure-performance or measure-sections"),
        (["rnu", "-b", "3"], "'rnu' is no command (did you mean run?)"),
        (["run", "--mapping", "random"], "random"),
        (["run", "--batchsize", "3"], "there is no option --batchsize: did you mean --batch-size?"),
        (["compile", "--pef-nmae=x"], "there is no option --pef-nmae: did you mean --pef-name?"),
        (["test", "word"], "there is no option word"),
        (["compile", "-p", "a.pef", "--output-folder", "b"], "leave out --pef-name and --output-folder, or --pef"),
        (["run", "--num-tiles"], "--num-tiles"),
        (["run", "-b", "many"], "many"),
    ],
)
def test_refused_arguments(argv, said, capsys):
    with pytest.raises(SystemExit):
        parse_app_args(argv)
    assert said in capsys.readouterr().err


def test_own_options(capsys):
    def common(parser):
        parser.add_argument("--seed", type=str, default="mine")  # an own option replaces a built-in one
        parser.add_argument("-b", "--batch-size", type=int, default=7)

    def compiling(parser):
        parser.add_argument("--level", type=int, default=1)

    def testing(parser):
        parser.add_argument("--tolerance", type=float, default=0.5)

    def running(parser):
        parser.add_argument("--epochs", type=int, default=2)

    # by position: argv, dev_mode, common_parser_fn, compile_parser_fn, test_parser_fn, run_parser_fn
    functions = (False, common, compiling, testing, running)
    for command in ("compile", "test", "run", "measure-performance", "measure-sections"):
        args = parse_app_args([command], *functions)
        assert args.seed == "mine" and args.batch_size == 7
        own = {name for name in ("level", "tolerance", "epochs") if hasattr(args, name)}
        assert own == {"compile": {"level"}, "test": {"tolerance"}, "run": {"epochs"}}.get(command, set())
    assert parse_app_args(["measure-performance"], dev_mode=True, run_parser_fn=running).epochs == 2
    assert parse_app_args(["measure-sections", "--epochs", "5"], measure_sections_parser_fn=running).epochs == 5
    with pytest.raises(TypeError, match="'common_parser'"):
        parse_app_args(["run"], common_parser=common)
    with pytest.raises(SystemExit):
        parse_app_args(["compile", "--epochs", "3"], run_parser_fn=running)
    assert "--epochs" in capsys.readouterr().err


def test_yaml(tmp_path, capsys):
    pytest.importorskip("yaml")
    file = tmp_path / "app.yaml"
    file.write_text(
        "command: compile\nbatch_size: 64\nmicrobatch-size: 4\ninference: true\ndata_parallel: false\npef: null\nsizes: [1, 2]\n"
    )

    def sizes(parser):
        parser.add_argument("--sizes", type=int, nargs="*")

    args = parse_yaml_to_args(file, common_parser_fn=sizes)
    assert (args.command, args.batch_size, args.microbatch_size, args.inference, args.data_parallel, args.pef) == (
        "compile",
        64,
        4,
        True,
        False,
        "",
    )
    assert args.sizes == [1, 2]
    args = parse_yaml_to_args(str(file), ["run", "-b", "8"], common_parser_fn=sizes)
    assert (args.command, args.batch_size, args.microbatch_size) == ("run", 8, 4)
    for text, said in (
        ("[1, 2]", "name: value"),
        ("batch_size: 2", "command"),
        ("command: run\nmodel:\n  width: 3\n", "model is a mapping"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=said):
            parse_yaml_to_args(file)
    file.write_text("command: run\nwidth: 3\n")
    with pytest.raises(SystemExit):
        parse_yaml_to_args(file)
    assert "--width" in capsys.readouterr().err


@pytest.fixture
def app(tmp_path, monkeypatch, capsys):
    """Runs the driver with a command line on a small model; returns what it gives."""
    monkeypatch.chdir(tmp_path)
    model = samba.from_torch_model_(nn.Linear(3, 2))
    inputs = (samba.randn(4, 3, name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)

    def run(*argv, **keywords):
        given = {"args": parse_app_args(list(argv)), "model": model, "inputs": inputs, "optim": optim, "name": "small"}
        result = common_app_driver(**{**given, **keywords})
        return result, capsys.readouterr().out

    return run


def test_driver(app, tmp_path):
    assert app("compile") == ("out/small/small.pef", "out/small/small.pef\n")
    assert app("compile", "--output-folder", "a", "--pef-name", "b")[0] == "a/b/b.pef"
    assert app("compile", "-p", "app.pef")[0] == "app.pef"  # as the slides have it: compile writes it, run reads it
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "app.pef", "app.pef.json", "app.pef.log", "out"]
    assert app("test", "-p", "app.pef")[1].startswith("output_0: greatest difference")
    measures, said = app("measure-performance", "-p", "app.pef", "-b", "4", "--num-iterations", "3")
    assert measures["samples_per_second"] > 0 and "samples/s" in said
    assert [row["type"] for row in app("measure-sections", "-p", "app.pef", "--num-iterations", "3")[0]] == [
        "FWD",
        "BCKWD",
        "OPT",
    ]
    assert len(app("measure-sections", "-p", "app.pef", "--num-iterations", "3", "--num-sections", "1")[1].splitlines()) == 2
    assert app("compile", "--inference", "-p", "x/y.pef")[0] == "x/y.pef"
    app("test", "--inference", "-p", "x/y.pef")
    assert samba.session.get_section_types() == {"FWD"}
    assert app("compile", optim=None, name="")[0] == "out/Linear/Linear.pef"


@dataclasses.dataclass
class Scores:
    first: torch.Tensor


def test_driver_compares_nested_outputs(tmp_path, monkeypatch, capsys):
    """`test` finds outputs and inputs wherever tracing does, and sees that they differ."""
    monkeypatch.chdir(tmp_path)

    class Model(nn.Module):
        def forward(self, batch):
            return {"scores": Scores(2 * batch.first)}

    model, inputs = Model(), (Scores(samba.ones(3, name="x")),)
    common_app_driver(parse_app_args(["compile", "--inference", "-p", "m.pef"]), model, inputs)
    common_app_driver(parse_app_args(["test", "-p", "m.pef"]), model, inputs)
    assert "output_0: greatest difference 0, greatest value 2" in capsys.readouterr().out
    traced = model.forward
    model.forward = lambda batch: traced(batch) if samba.session.tracing else {"scores": Scores(3 * batch.first)}
    with pytest.raises(RuntimeError, match="output_0 differs from the model on the host by 1"):
        common_app_driver(parse_app_args(["test", "-p", "m.pef"]), model, inputs)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_driver_compares_by_the_size_of_what_it_compares(tmp_path, monkeypatch, size):
    """A hundredth of an output is no rounding, however small the output is."""
    monkeypatch.chdir(tmp_path)

    class Model(nn.Module):
        def forward(self, x):
            return size * x if samba.session.tracing else 1.01 * size * x

    common_app_driver(parse_app_args(["compile", "--inference", "-p", "m.pef"]), Model(), (samba.ones(3, name="x"),))
    with pytest.raises(RuntimeError, match="output_0 differs from the model on the host by .*would be rounding"):
        common_app_driver(parse_app_args(["test", "-p", "m.pef"]), Model(), (samba.ones(3, name="x"),))


def test_driver_keywords(app):
    app(
        "compile",
        "-b",
        "4",
        app_dir="here",
        init_output_grads=False,
        pef_metadata={"task": "digits"},
        squeeze_bs_dim=True,
        loss_indices=None,
    )
    found = get_pefmeta("out/small/small.pef")
    assert found.app_dir == "here" and found.pef_metadata == {"task": "digits"} and found.config_dict["batch_size"] == 4
    for command in ("compile", "test", "measure-sections"):
        with pytest.raises(TypeError, match="no keyword 'loss_indexes': did you mean 'loss_indices'"):
            app(command, loss_indexes=[0])
    with pytest.raises(ValueError, match="'run' is the application's own"):
        app("run")
    app("compile", "-b", "4", "--mapping", "spatial", "--pef-name", "joint", "--fast-memory", "1000000")
    assert get_pefmeta("out/joint/joint.pef").sections[0]["type"] == "FWD+BCKWD"
    with pytest.raises(RuntimeError, match="small.pef was compiled with mapping 'section': compile it with mapping='spatial'"):
        app("test", "-b", "4", "-p", "out/small/small.pef", "--mapping", "spatial")
    with pytest.raises(ValueError, match="REDUCE.*compile it with data_parallel"):
        app("test", "-b", "4", "-p", "out/small/small.pef", "--data-parallel")
    app("compile", "-b", "4", "--pef-name", "several", "--data-parallel")
    for command in ("test", "measure-performance", "measure-sections"):
        app(command, "-b", "4", "-p", "out/several/several.pef", "--data-parallel")
    with pytest.raises(OSError, match="nowhere.pef"):
        app("test", "-p", "nowhere.pef")


def test_measuring(app):
    pef = app("compile")[0]
    app("test", "-p", pef)
    inputs = (samba.randn(4, 3, name="x"),)
    by_position = utils.measure_performance(
        None, inputs, 4, False, True, 3
    )  # model, inputs, batch_size, inference, run_graph_only, n_iterations
    assert by_position["samples_per_second"] == pytest.approx(4000 / by_position["median_ms"], rel=1e-3)
    assert utils.measure_performance(None, inputs, batch_size=4, inference=True, n_iterations=3)["median_ms"] > 0
    rows = utils.measure_sections(None, inputs, num_sections=2, n_iterations=3)
    assert len(rows) == 3 and sum(row["share"] for row in rows) == pytest.approx(1)
    for measure in (utils.measure_performance, utils.measure_sections):
        with pytest.raises(TypeError, match="no keyword 'iterations': did you mean 'n_iterations'"):
            measure(None, inputs, iterations=3)


def test_pefmeta(app):
    pef = app("compile")[0]
    found = get_pefmeta(pef)
    assert (
        found.path == pef
        and list(found.section_types) == ["FWD", "BCKWD", "OPT"]
        and found.hyperparameters["lr"] == pytest.approx(0.1)
    )
    assert found.tensors["weight"] == {"kind": "parameter", "dtype": "float32", "shape": [2, 3]}
    assert json.loads(json.dumps(get_pefmeta_dict(pef))) == get_pefmeta_dict(pef) and get_pefmeta_dict(pef)["path"] == pef
    args = types.SimpleNamespace(width=3)
    assert get_pefmeta(args, nn.Linear(3, 2)) == {
        "model": "Linear",
        "parameters": {"weight": [2, 3], "bias": [2]},
        "arguments": {"width": 3},
    }
    # what compile is given comes back, and goes with the next PEF that has none
    model, inputs = nn.Linear(3, 2), (samba.randn(4, 3, name="x"),)
    pef = samba.session.compile(
        model, inputs, app_dir=utils.get_file_dir(__file__), config_dict=vars(args), pef_metadata=get_pefmeta(args, model)
    )
    assert get_pefmeta(pef).app_dir.endswith("tests/python") and get_pefmeta(pef).config_dict == {"width": 3}
    assert get_pefmeta_dict(pef)["pef_metadata"]["parameters"]["bias"] == [2]
    samba.session.compile(model, inputs)
    assert get_pefmeta(pef).config_dict is None
    with pytest.raises(OSError, match="nowhere.pef"):
        get_pefmeta("nowhere.pef")


def test_dataset_transform():
    image = torch.randint(256, (28, 28), dtype=torch.uint8)
    expected = ((image.float() / 255 - 0.1307) / 0.3081).flatten()
    for transform in (dataset_transform(), dataset_transform(types.SimpleNamespace())):
        for given in (image, image.numpy(), image.float() / 255, image.reshape(1, 28, 28)):
            result = transform(given)
            assert result.shape == (784,) and result.dtype is torch.float32
            torch.testing.assert_close(result, expected)


def test_samba_logger(caplog):
    with caplog.at_level(logging.INFO):
        for i in range(4):
            samba_logger.info("a %d", i, log_limit=2)
            samba_logger.log(logging.WARNING, "b %d", i, log_limit=1)
            samba_logger.error("c %d", i)
        samba_logger.info("a %d", 9, log_limit=2)  # another place
    assert [message for message in caplog.messages if message[0] == "a"] == ["a 0", "a 1", "a 9"]
    assert [message for message in caplog.messages if message[0] != "a"] == ["b 0", "c 0", "c 1", "c 2", "c 3"]
    assert {record.filename for record in caplog.records} == {"test_application.py"} and caplog.records[0].name == "sambaflow"


def test_ordered_set():
    words = OrderedSet(["b", "a", "b"])
    words.add("c")
    words.discard("a")
    words.update(["d", "b"], ["e"])
    assert list(words) == ["b", "c", "d", "e"] and words[0] == "b" and len(words) == 4 and "c" in words
    assert repr(words) == "OrderedSet(['b', 'c', 'd', 'e'])"
    assert (
        words | {"f"} == set("bcdef") and words & ["d", "b"] == OrderedSet(["b", "d"]) and list(words - {"c"}) == ["b", "d", "e"]
    )
    assert words == {"e", "d", "c", "b"} and words != {"b"} and isinstance(words | words, OrderedSet)
    with pytest.raises(KeyError):
        words.remove("z")


def test_alone():
    assert utils.get_rank() == 0 and utils.get_world_size() == 1 and utils.is_main_process()
    assert sambaflow.__version__.count(".") == 2
    assert utils.get_file_dir("/a/b.py") == "/a" and utils.get_file_dir(__file__).endswith("python")


def test_seeds():
    import random

    def draws():
        return random.random(), np.random.rand(), torch.rand(1).item(), samba.rand(1).item()

    utils.set_seed(3)
    first = draws()
    samba.set_seed(3)
    assert draws() == first
    utils.set_seed(4)
    assert draws() != first


def test_creation():
    for made, expected in (
        (samba.zeros(2, 3, name="x"), torch.zeros(2, 3)),
        (samba.ones((2,), dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
        (samba.full((2,), 3, name="x"), torch.full((2,), 3)),
        (samba.arange(1, 7, 2), torch.arange(1, 7, 2)),
        (samba.empty(0, 3), torch.empty(0, 3)),
    ):
        assert isinstance(made, samba.SambaTensor) and made.dtype is expected.dtype and torch.equal(made.data, expected)
    x = samba.randn(4, 3, name="x", batch_dim=0, region_name="r", requires_grad=True)
    assert x.sn_name == "x" and x.batch_dim == 0 and x.sn_region_name == "r" and x.requires_grad and x.is_leaf
    assert 0 <= samba.rand(100).data.min() and samba.rand(100).data.max() < 1 and set(samba.randint(2, (100,)).tolist()) == {0, 1}
    with pytest.raises(TypeError, match="nmae"):
        samba.zeros(2, nmae="x")


def test_conversion():
    a, b = torch.ones(2), torch.zeros(2)
    named = samba.from_named_dict({"a": a, "b": b})
    assert {name: x.sn_name for name, x in named.items()} == {"a": "a", "b": "b"} and named["a"].data_ptr() == a.data_ptr()
    nested = samba.from_torch({"x": [a, (b, 3)], "y": None})
    assert (
        isinstance(nested["x"][0], samba.SambaTensor)
        and nested["x"][1][1] == 3
        and nested["y"] is None
        and isinstance(nested["x"][1], tuple)
    )
    parameter = SambaParameter(torch.ones(2), name="w")
    assert (
        isinstance(parameter, nn.Parameter)
        and parameter.requires_grad
        and parameter.sn_name == "w"
        and samba.nn.SambaParameter is SambaParameter
    )
    module = nn.Module()
    module.w = parameter
    assert (
        dict(module.named_parameters()) == {"w": parameter}
        and not SambaParameter(torch.ones(2), requires_grad=False).requires_grad
    )


def test_profiler(tmp_path):
    profiler = Profiler()
    with profiler.event("off"):
        pass
    profiler.start()
    for _ in range(3):
        with profiler.event("on"):
            pass
    profiler.stop()
    count, seconds, least, greatest = profiler.events["on"]
    assert profiler.events.keys() == {"on"} and count == 3 and 0 <= least <= seconds / 3 <= greatest
    profiler.dump(tmp_path / "events.txt")
    assert (tmp_path / "events.txt").read_text() == profiler.summary() and isinstance(samba.session.profiler, Profiler)
