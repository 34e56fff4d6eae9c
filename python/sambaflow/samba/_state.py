# SPDX-License-Identifier: Apache-2.0
"""What tensors must find without importing what imports them: the tracer at work, eager execution and the global session."""
tracer = None
session = None
legacy_names = False  # SambaSession.use_legacy_names


def eager(func, args, kwargs):
    """Until eager.py is there, and has put its own here, torch computes."""
    return NotImplemented


eager_aten = None
