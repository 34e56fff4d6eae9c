# SPDX-License-Identifier: Apache-2.0
"""Programs in the style of the documents, as processes: with every flag, by the session, with a config_dict and by the driver,
they write where they were told, and run, for training and for inference.
And what a session takes from a command line, and what wins over it."""

import pathlib
import re
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.utils.argparser import parse_app_args
from sambaflow.samba.utils.common import common_app_driver
from sambaflow.samba.utils.pef_utils import get_pefmeta

PROGRAM = pathlib.Path(__file__).with_name("programs") / "slides.py"
NAMED = """--o0 --o1 --o3 --debug --mac-v2 --tiling-accum --num-tiles=4 --log-level=info --resources-scaling-factors=0.7 --arch=sn10 --compiler-mode=full
--optimization-rules=rules.yaml --compiler-configs-file=settings.json""".split()  # noqa: E501
ELSEWHERE = [*NAMED, "--resources-scaling-factors", "0.7", "0.8", "0.8", "--optimization-rules", "a.yaml", "b.yaml"]


def program(folder, *lines):
    """[(stdout, stderr)] of its command lines, in one process."""
    words = [word for line in lines for word in ("+", *line)][1:]
    done = subprocess.run([sys.executable, str(PROGRAM), *words], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return list(zip(done.stdout.split("+\n"), re.split(r"^\+ .*\n", done.stderr, flags=re.M)[1:]))


def refused(folder, status, *words):
    """What it says on stderr when it ends with that status."""
    done = subprocess.run([sys.executable, str(PROGRAM), *words], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == status, done.stderr
    return done.stderr


def is_named(said, flags):
    """Each flag once, in one warning."""
    (line,) = [line for line in said.splitlines() if "NoEffectWarning: --" in line]
    assert re.search(r"slides.py:\d+: NoEffectWarning: .*: without effect on this device, a CPU$", line), line
    for flag in {flag.split("=")[0] for flag in flags}:
        assert len(re.findall(rf"{flag}[,:]", line)) == 1, (flag, line)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def written(name):
    return [f"{name}{end}" for end in ("", ".json", ".log")]


@pytest.mark.parametrize("way", ["session", "config", "driver"])
@pytest.mark.parametrize("inference", [False, True], ids=["training", "inference"])
def test_every_flag(tmp_path, way, inference):
    mode = ["--inference"] if inference else []
    shared = ["-b=32", "-mb=32", *mode, *ELSEWHERE, "--way", way]
    commands = ("measure-performance", "measure-sections", "test")
    told, own, ran, *measured = program(
        tmp_path,
        [
            "compile",
            *shared,
            "--output-folder",
            "pefs",
            "--pef-name",
            "digits",
            "--precision=bf16" if inference else "--precision=fp32",
            "--memory-budget=100000000",
            "--fast-memory=100000000",
            "--mapping=section",
            "--seed=3",
        ],
        ["compile", "-b", "32", *mode, "-p", "own/own.pef", "--way", way],
        ["run", *shared, "-p", "own/own.pef"],
        *(
            [
                command,
                *shared,
                "-p",
                "own/own.pef",
                "--num-iterations=2",
                *["--run-graph-only"][: command == "measure-performance"],
            ]
            for command in commands
        ),
    )
    for _, said in (told, ran, *measured):
        is_named(said, NAMED)
    of_compile = 0 if inference or way == "driver" else 1  # init_output_grads of compile, which slides.py gives
    for _, said in (told, own):
        assert said.count("NoEffectWarning") == of_compile + ("--o0" in said), said
        assert said.count("NoEffectWarning: compile: init_output_grads: without effect") == of_compile, said
    said = [out.splitlines()[-1] for out, _ in (told, own)]
    assert said == ["pefs/digits/digits.pef", "own/own.pef"] and files(tmp_path) == written("own/own.pef") + written(
        "pefs/digits/digits.pef"
    )
    for path in said:
        assert get_pefmeta(tmp_path / path).section_types == (["FWD"] if inference else ["FWD", "BCKWD", "OPT"])
        assert (get_pefmeta(tmp_path / path).config_dict is None) == (way == "session")
    if inference:
        assert ran[0] == "types FWD\n"
    else:
        first, last = (float(line.split()[1]) for line in ran[0].splitlines())
        assert 1 < first < 2.5 and last < 0.1  # it has learned
        assert ran[1].count("has no section of type ZEROGRAD, REDUCE, GRADNORM, which its model does not need") == 1
    for (out, _), expected in zip(measured, ("samples/s", "FWD", "output_0: greatest difference")):
        assert expected in out


def test_mistakes(tmp_path):
    assert "there is no option --output-foldr: did you mean --output-folder?" in refused(
        tmp_path, 2, "compile", "--output-foldr=x"
    )
    assert "reduce_on_rdu=True says how data_parallel=True reduces gradients" in refused(
        tmp_path, 1, "compile", "--reduce-on-rdu"
    )
    assert files(tmp_path) == []


# ---- in this process ----


@pytest.fixture
def line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = samba.from_torch_model_(nn.Linear(3, 2))
    return model, (samba.randn(4, 3, name="x"),), samba.optim.SGD(model.parameters(), lr=0.1)


def test_what_wins(line):
    """What compile is told itself, then config_dict, then setup, then the command line."""
    model, inputs, optim = line
    args = parse_app_args(["compile", "--inference", "--output-folder=a", "--pef-name=b", "--mapping=spatial"])
    assert samba.session.compile(model, inputs, optim) == "a/b/b.pef"
    assert samba.session.compile(model, inputs, optim, config_dict=vars(args)) == "a/b/b.pef"
    assert get_pefmeta("a/b/b.pef").section_types == ["FWD"] and get_pefmeta("a/b/b.pef").config_dict["pef_name"] == "b"
    assert samba.session.compile(model, inputs, optim, config_dict={"pef_name": "c"}) == "a/c/c.pef"
    assert (
        samba.session.compile(model, inputs, optim, config_dict={"pef_name": "c"}, pef_name="d", inference=False) == "a/d/d.pef"
    )
    assert [section["type"] for section in get_pefmeta("a/d/d.pef").sections] == ["FWD+BCKWD", "OPT"]
    samba.session.setup({"output_folder": "e", "inference": False, "mapping": "section", "grad_accumulation_steps": 2})
    assert samba.session.compile(model, inputs, optim) == "e/b/b.pef" and get_pefmeta("e/b/b.pef").section_types == [
        "ZEROGRAD",
        "FWD",
        "BCKWD",
        "OPT",
    ]
    args.pef_name = "f"  # programs change them
    assert samba.session.compile(model, inputs, optim) == "e/f/f.pef"
    samba.session.reset()
    assert samba.session.compile(model, inputs, optim) == "out/Linear/Linear.pef"
    assert get_pefmeta("out/Linear/Linear.pef").section_types == ["FWD", "BCKWD", "OPT"]


def test_the_file_to_write(line):
    model, inputs, optim = line
    args = parse_app_args(["compile", "-p", "own.pef"])
    assert (
        samba.session.compile(model, inputs, optim)
        == "own.pef"
        == samba.session.compile(model, inputs, optim, output_folder=args.output_folder)
    )
    with pytest.warns(samba.NoEffectWarning, match="compile: --pef own.pef has no effect: the program gives pef_name"):
        assert samba.session.compile(model, inputs, optim, pef_name="mine") == "out/mine/mine.pef"
    args = parse_app_args(["run", "-p", "own.pef"])  # to read: compile does not write over it
    assert samba.session.compile(model, inputs, optim) == "out/Linear/Linear.pef"
    outputs = utils.trace_graph(model, inputs, optim)
    assert samba.session.loaded().pef == "own.pef"
    samba.session.run(inputs, outputs)
    utils.trace_graph(model, inputs, optim, pef="out/Linear/Linear.pef")
    utils.trace_graph(model, inputs, optim)  # what is loaded stays
    assert samba.session.loaded().pef == "out/Linear/Linear.pef"


def test_several_graphs(line):
    model, inputs, optim = line
    parse_app_args(["compile", "--inference", "-p", "both.pef", "--precision=bf16"])
    samba.session.add_graph(FwdGraph(model, inputs, name="answer"))
    assert samba.session.compile_multigraph("x") == "both.pef"
    samba.session.add_graph(SambaGraph(model, inputs, optim, name="train"))
    with pytest.warns(
        samba.NoEffectWarning,
        match="--inference has no effect on the graph 'train': a graph that is only run forward is a FwdGraph",
    ):
        samba.session.compile_multigraph("x")


def test_batch_size_of_nothing(line):
    model, inputs, optim = line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for words in (["-b=4"], ["-b=8", "-mb=4"], ["-b=4", "-mb=2"][:1], []):
            parse_app_args(["compile", *words])
            samba.session.compile(model, inputs, optim)
    parse_app_args(["compile", "-b64"])
    with pytest.warns(samba.NoEffectWarning, match="compile: --batch-size 64 has no effect: no input has a dim of 64"):
        samba.session.compile(model, inputs, optim)
    parse_app_args(["compile", "-b=4", "-mb=1"])
    with pytest.warns(samba.NoEffectWarning, match="compile: --microbatch-size 1 has no effect"):
        samba.session.compile(model, inputs, optim)


def test_own_options_of_those_names(line):
    """An option of the application's own counts where its values are of the built-in one's kind,
    and flags of its own are its own."""
    model, inputs, optim = line

    def own(parser):
        parser.add_argument("--precision", default="mixed")
        parser.add_argument("--seed", type=str, default="mine")
        parser.add_argument("--debug", type=int, default=0)
        parser.add_argument("--pef-name", default="its")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        args = parse_app_args(["compile", "--debug", "3", "--seed=7"], common_parser_fn=own)
        assert args.debug == 3 and samba.session.seed == 0
        assert samba.session.compile(model, inputs, optim, config_dict=vars(args)) == "out/its/its.pef"
    with pytest.raises(ValueError, match="compile: config_dict: precision 'mixd': expected one of fp32, bf16"):
        samba.session.reset()
        samba.session.compile(model, inputs, optim, config_dict={"precision": "mixd"})
    with pytest.raises(TypeError, match="compile: config_dict: inference is 'no': expected bool"):
        samba.session.compile(model, inputs, optim, config_dict={"inference": "no"})


def test_batch_sizes_of_a_run(line):
    """Said once, by the first call that has the inputs; batch_dim says which dim counts samples."""
    model, inputs, optim = line
    pef = samba.session.compile(model, inputs, optim)
    rows, width = inputs[0].shape
    parse_app_args(["run", f"-b={2 * rows}", "-mb", str(rows)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        utils.trace_graph(model, inputs, optim, pef=pef)
    parse_app_args(["run", f"-b={width}"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        utils.trace_graph(model, inputs, optim, pef=pef)
    inputs[0].batch_dim = 0
    with pytest.warns(samba.NoEffectWarning, match=f"trace_graph: --batch-size {width} has no effect") as said:
        utils.trace_graph(model, inputs, optim, pef=pef)
        utils.trace_graph(model, inputs, optim, pef=pef)
    assert len(said) == 1 and said[0].filename == __file__
    parse_app_args(["run", f"-b={rows}", "-mb", "1"])
    with pytest.warns(samba.NoEffectWarning, match="trace_graph: --microbatch-size 1 has no effect"):
        utils.trace_graph(model, inputs, optim, pef=pef)


def test_seed(line):
    utils.set_seed(5)
    parse_app_args(["run"])
    assert samba.session.seed == 5
    parse_app_args(["run", "--seed", "9"])
    assert samba.session.seed == 9


def test_replicas(line):
    model, inputs, optim = line
    args = parse_app_args(["compile", "--reduce-on-rdu"])
    with pytest.raises(errors.ArgumentError, match="compile: reduce_on_rdu=True says how"):
        samba.session.compile(model, inputs, optim)
    with pytest.raises(errors.ArgumentError, match="compile: reduce_on_rdu=True says how"):
        common_app_driver(args, model, inputs, optim)
    parse_app_args(["run"])
    with pytest.raises(errors.ArgumentError, match="compile: reduce_on_rdu=True says how"):
        samba.session.compile(model, inputs, optim, config_dict={"reduce_on_rdu": True})
    pef = samba.session.compile(model, inputs, optim)
    parse_app_args(["run", "--reduce-on-rdu"])
    outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    with pytest.raises(errors.ArgumentError, match="run: reduce_on_rdu=True says how"):
        samba.session.run(inputs, outputs)


def test_distlearn_config(line, tmp_path):
    """Its presence says that there are replicas, each of which runs with data_parallel then."""
    model, inputs, optim = line
    parse_app_args(["compile", "--data-parallel"])
    pef = samba.session.compile(model, inputs, optim)
    path = tmp_path / "x.yaml"
    path.write_text("")
    args = parse_app_args(["run", "--distlearn-config", str(path)])
    before = model.weight.torch().clone()
    for config in (None, args.distlearn_config, path):
        outputs = utils.trace_graph(model, inputs, optim, pef=pef, distlearn_config=config)
        samba.session.run(inputs, outputs, data_parallel_mode="inorder" if config else "normal")
        samba.session.to_cpu(model)
        assert not torch.equal(before, before := model.weight.torch().clone())
    with pytest.raises(OSError, match="distlearn_config: there is no file 'y.yaml'"):
        utils.trace_graph(model, inputs, optim, pef=pef, distlearn_config="y.yaml")


def test_flags_have_values():
    with pytest.warns(samba.NoEffectWarning) as told:
        args = parse_app_args(["compile", *ELSEWHERE])
    assert len(told) == 1
    assert (args.o0, args.mac_v2, args.num_tiles, args.log_level, args.world_size) == (True, True, 4, "info", 1)
    assert (
        args.resources_scaling_factors == [0.7, 0.8, 0.8]
        and args.optimization_rules == ["a.yaml", "b.yaml"]
        and args.arch == "sn10"
    )
    assert torch.equal(torch.tensor(args.resources_scaling_factors), torch.tensor([0.7, 0.8, 0.8]))
