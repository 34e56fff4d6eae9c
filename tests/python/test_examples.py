# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python do what they say at their beginning."""

import importlib
import os
import re
import subprocess
import sys

import pytest
from fragments import ROOT

import sambaflow.samba as samba

FOLDER = ROOT / "examples" / "python"


@pytest.fixture
def example(monkeypatch, tmp_path, capsys):
    """Runs the main function of an example in this process; returns what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))

    def run(name, *argv):
        samba.session.reset()
        importlib.import_module(name).main(list(argv))
        return capsys.readouterr().out

    return run


def accuracy(text):
    return float(re.search(r"accuracy ([\d.]+)%", text)[1])


def test_resffn_by_commands(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def start(*argv):
        return subprocess.Popen(
            [sys.executable, FOLDER / "resffn.py", *argv],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said(process):
        out, error = process.communicate(timeout=600)  # of a hang, not of a busy machine
        assert process.returncode == 0, error
        return out

    pef = "out/ResFFNLogReg/ResFFNLogReg.pef"
    assert said(start("compile", "-b", "40", "--hidden-size", "32")).strip() == pef
    commands = {
        "run": ["--num-epochs", "2", "--checkpoint", "x.safetensors"],
        "test": [],
        "measure-performance": ["--num-iterations", "5", "--run-graph-only"],
        "measure-sections": ["--num-iterations", "5"],
    }
    running = {
        command: start(command, "-b", "40", "--hidden-size", "32", "-p", pef, *options) for command, options in commands.items()
    }
    text = {command: said(process) for command, process in running.items()}
    losses = [float(word) for word in re.findall(r"  loss ([\d.]+)", text["run"])]
    assert len(losses) == 2 and losses[1] < losses[0] < 2.4 and accuracy(text["run"]) > 75
    assert (tmp_path / "x.safetensors").exists()
    assert re.match(r"output_0: greatest difference [\d.e-]+, greatest value .*\noutput_1: ", text["test"])
    assert re.match(r"latency +[\d.]+ ms median, [\d.]+ ms best\nthroughput +[\d.e+]+ samples/s\n$", text["measure-performance"])
    assert [line.split()[1] for line in text["measure-sections"].splitlines()] == ["type", "FWD", "BCKWD", "OPT"]


def test_resffn_for_inference(example):
    example("resffn", "compile")
    trained = example(
        "resffn", "run", "-p", "out/ResFFNLogReg/ResFFNLogReg.pef", "--num-epochs", "1", "--checkpoint", "x.safetensors"
    )
    options = ["-b=50", "-mb=5", "--inference", "-p", "out/inference/inference.pef"]
    assert example("resffn", "compile", *options).strip() == "out/inference/inference.pef"
    assert accuracy(example("resffn", "run", *options, "--checkpoint", "x.safetensors")) == accuracy(trained) > 60
    assert samba.session.get_section_types() == {"FWD"}
    assert accuracy(example("resffn", "run", *options)) < 40  # without the weights
    assert "greatest difference" in example("resffn", "test", *options)
    assert "samples/s" in example("resffn", "measure-performance", *options, "--num-iterations", "3")


def test_lenet(example):
    example("lenet_train", "compile", "--pef-name", "lenet")
    lines = example("lenet_train", "run", "-p", "out/lenet/lenet.pef", "--num-epochs", "2").splitlines()
    assert [line[:9] for line in lines] == ["epoch 1/2", "epoch 2/2"] and float(lines[1].split()[-1]) < 0.6
    inference = "out/lenet-inference/lenet-inference.pef"
    assert example("lenet_infer", "compile", "--inference", "--pef-name", "lenet-inference").strip() == inference
    assert accuracy(example("lenet_infer", "run", "--inference", "-p", inference)) > 85


def test_lenet_fit(example):
    lines = example("lenet_fit", "--num-epochs", "2").splitlines()
    assert [line[:20] for line in lines[:2]] == ["epoch 1/2  step 80  ", "epoch 2/2  step 160 "]
    assert lines[2].startswith("accuracy ") and accuracy(lines[2]) > 85
    assert example("lenet_fit", "--num-epochs", "2").splitlines() == lines[2:]  # it goes on from its end
