# SPDX-License-Identifier: Apache-2.0
"""Modules are torch.nn's own; here is what SambaFlow adds."""

from torch.nn import *

from sambaflow.samba.nn.parameter import SambaParameter
