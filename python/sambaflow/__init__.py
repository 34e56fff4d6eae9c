# SPDX-License-Identifier: Apache-2.0
"""SambaFlow: compile a model once into one file, a PEF, then train or run it anywhere.

``sambaflow.samba`` is for those who bring PyTorch models and needs torch. ``sambaflow.runtime`` loads and runs PEFs, and needs
neither torch nor NumPy; importing this package imports only that it can be imported.
"""

from sambaflow import _core

__version__ = _core.ffi.string(_core.lib.samba_version()).decode()
__all__ = ["__version__"]
