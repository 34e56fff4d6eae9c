# SPDX-License-Identifier: Apache-2.0
"""Every test begins with a session of its own and the same random numbers."""

import pytest
import torch

import sambaflow.samba as samba


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    samba.session.reset()
    yield
    samba.session.reset()
    assert torch.distributions.Distribution._validate_args, "a trace has left its patches of torch behind"
