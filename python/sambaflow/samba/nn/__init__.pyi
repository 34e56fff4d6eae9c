# SPDX-License-Identifier: Apache-2.0
from torch.nn import *

from sambaflow.samba.nn.parameter import SambaParameter as SambaParameter
