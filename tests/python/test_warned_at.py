# SPDX-License-Identifier: Apache-2.0
"""A warning stands at the program's line, also where torch is between it and the package: `state_dict` calls a hook."""

import pytest
import torch

import sambaflow.samba as samba


def test_behind_torch(tmp_path):
    model = samba.from_torch_model_(torch.nn.Linear(3, 1))
    inputs, session = (samba.ones(4, 3, name="x"),), samba.SambaSession()
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = session.compile(model, inputs, optim, output_folder=str(tmp_path))
    outputs = session.trace_graph(model, inputs, optim, pef=pef)
    session.run(inputs, outputs)
    with pytest.warns(UserWarning, match="the device has trained 'weight'") as told:
        model.state_dict()
    assert told[0].filename == __file__
