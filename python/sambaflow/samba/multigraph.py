# SPDX-License-Identifier: Apache-2.0
"""Several graphs in one PEF: the documents' names for them are there, and refuse in one sentence.

>>> str(several_graphs("add_graph"))[:70]
'add_graph: several graphs in one PEF are not supported by this version'
"""
from sambaflow import errors


def several_graphs(name):
    """The error of a function of that name."""
    return errors.UnsupportedError(f"{name}: several graphs in one PEF are not supported by this version: compile each graph into a PEF of its own "
                                   "and run each from a SambaSession of its own")  # fmt: skip
