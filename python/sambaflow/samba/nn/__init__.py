# SPDX-License-Identifier: Apache-2.0
"""Modules are torch.nn's own; here is what SambaFlow adds."""
from torch.nn import *  # noqa: F401, F403

from sambaflow.samba.nn.parameter import SambaParameter  # noqa: F401
