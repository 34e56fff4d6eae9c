# SPDX-License-Identifier: Apache-2.0
from sambaflow.samba.sambatensor import SambaParameter as SambaParameter

__all__ = ["SambaParameter"]
