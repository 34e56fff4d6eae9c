# SPDX-License-Identifier: Apache-2.0
"""Every test begins with a session of its own and the same random numbers."""

import pytest
import torch

import sambaflow.samba as samba


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch.distributions.Distribution.set_default_validate_args(True)  # torch.compile switches it off for the whole process
    samba.session.reset()
    yield
    samba.session.reset()
