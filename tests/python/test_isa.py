# SPDX-License-Identifier: Apache-2.0
"""SAMBAFLOW_ISA names the instruction set of sessions and of eager operators, as it does for the programs;
isa= of a session goes before it."""

import pytest
import torch

import sambaflow.samba as samba
from sambaflow import errors
from sambaflow.runtime import Session
from sambaflow.samba import eager, utils


def compiled(folder):
    model, inputs = samba.from_torch_model_(torch.nn.Linear(3, 2)), (samba.randn(4, 3, name="x"),)
    return model, inputs, samba.session.compile(model, inputs, output_folder=str(folder))


def test_sessions(tmp_path, monkeypatch):
    model, inputs, pef = compiled(tmp_path)
    monkeypatch.delenv("SAMBAFLOW_ISA", raising=False)
    best = repr(Session(pef))
    monkeypatch.setenv("SAMBAFLOW_ISA", "")
    assert repr(Session(pef)) == best
    monkeypatch.setenv("SAMBAFLOW_ISA", "generic")
    assert "isa=generic)" in repr(Session(pef))
    utils.trace_graph(model, inputs, pef=pef)
    assert "isa=generic)" in repr(samba.session)
    monkeypatch.setenv("SAMBAFLOW_ISA", "avx1024")
    with pytest.raises(errors.UnsupportedError, match='"avx1024" is not available: this processor and library have generic'):
        Session(pef)
    assert "isa=generic)" in repr(Session(pef, isa="generic"))


def test_eager_operators(monkeypatch):
    x = samba.SambaTensor(torch.linspace(-2, 2, 60).reshape(5, 12))  # a shape of this test, so that its program is made here
    monkeypatch.setenv("SAMBAFLOW_ISA", "avx1024")
    with pytest.raises(errors.UnsupportedError, match="avx1024"):
        torch.exp(x)
    monkeypatch.setenv("SAMBAFLOW_ISA", "generic")
    torch.testing.assert_close(torch.exp(x).torch(), torch.exp(x.torch()))
    with eager.reference():
        torch.testing.assert_close(torch.exp(x).torch(), torch.exp(x.torch()))
