# SPDX-License-Identifier: Apache-2.0
"""A tune file beside the PEF is used where it fits and warned of where it does not;
tune= of a session goes before it."""

import json
import math
import subprocess
import sys
import warnings

import pytest
import torch

import sambaflow.samba as samba
from sambaflow import errors
from sambaflow.runtime import Session, Tensor


@pytest.fixture
def pef(tmp_path):
    model, inputs = samba.from_torch_model_(torch.nn.Linear(96, 160)), (samba.randn(64, 96, name="x"),)
    path = samba.session.compile(model, inputs, output_folder=str(tmp_path))
    subprocess.run(
        [sys.executable, "-m", "sambaflow", "tune", path, "--seconds", "0", "--threads", "2"], check=True, capture_output=True
    )
    return path


def output(session):
    (name,) = session.names("output")
    given = Tensor.zeros(name, *session.tensors[name][1:])
    for parameter in session.names("parameter"):
        shape = session.tensors[parameter][2]
        session.set(Tensor.wrap(parameter, torch.linspace(-1, 1, math.prod(shape)).reshape(shape).numpy()))
    session.run([Tensor.from_numpy("x", torch.ones(64, 96).numpy())], [given], section_types=["FWD"])
    return given.tolist()


def test_used_where_it_fits(pef, tmp_path):
    with open(f"{pef}.tune") as file:
        written = json.load(file)
    session = Session(pef, threads=2)
    assert session.tuning == (f"{pef}.tune", len(written["tune"]["choices"]))
    assert Session(pef, threads=2, tune="off").tuning == (None, 0)
    other = tmp_path / "other.tune"
    (tmp_path / f"{pef}.tune").rename(other)
    assert Session(pef, threads=2).tuning == (None, 0)
    assert Session(pef, threads=2, tune=other).tuning[0] == str(other)


def test_warned_of_where_it_does_not(pef):
    session = Session(pef, threads=1)
    assert session.tuning == (None, 0)
    with pytest.warns(RuntimeWarning, match=r"not tuned: .*\.tune\": machine\.threads: expected 1, given 2"):
        one = output(session)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert output(Session(pef, threads=1, tune="off")) == one
    with pytest.raises(errors.FileError, match="cannot read the tune file"):
        Session(pef, tune="/nowhere/at all.tune")
    with pytest.raises(TypeError, match="tune is a str"):
        Session(pef, tune=False)
