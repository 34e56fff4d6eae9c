# SPDX-License-Identifier: Apache-2.0
__version__: str
__all__ = ["__version__"]
