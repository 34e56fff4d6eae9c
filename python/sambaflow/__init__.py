# SPDX-License-Identifier: Apache-2.0
"""SambaFlow: compile a model once into one file, a PEF, then train or run it anywhere.

``sambaflow.samba`` is for those who bring PyTorch models and needs torch. ``sambaflow.runtime`` loads and runs PEFs, and needs
neither torch nor NumPy; importing this package imports only that it can be imported.
"""

import sys

from sambaflow import _core

__version__ = _core.ffi.string(_core.lib.samba_version()).decode()
__all__ = ["__version__"]


def __getattr__(name: str) -> object:
    """einsum, tensordot and transpose as NumPy has them, where there are SambaTensors: opt_einsum, and who contracts by it, looks
    for them in the package of a tensor's type, and makes arrays of tensors whose package has none."""
    if name not in ("einsum", "tensordot", "transpose") or "sambaflow.samba" not in sys.modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    torch = sys.modules["torch"]
    return {
        "einsum": torch.einsum,
        "tensordot": lambda x, y, axes=2: torch.tensordot(x, y, dims=axes),
        "transpose": lambda x, axes: x.permute(*axes),
    }[name]
