# SPDX-License-Identifier: Apache-2.0
"""Parameters as SambaTensors."""

from sambaflow.samba.sambatensor import SambaParameter

__all__ = ["SambaParameter"]
