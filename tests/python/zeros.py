# SPDX-License-Identifier: Apache-2.0
"""Inputs for runs whose values do not matter: a run over inputs that nobody gave is refused."""

from sambaflow.runtime import Tensor


def zeros_of(session):
    """A tensor of zeros for each input of a runtime.Session's PEF."""
    return [
        Tensor.zeros(name, dtype, shape, session.context)
        for name, (kind, dtype, shape) in session.tensors.items()
        if kind == "input"
    ]
