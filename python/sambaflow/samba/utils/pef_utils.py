# SPDX-License-Identifier: Apache-2.0
"""What a PEF says of itself."""
from sambaflow.runtime import Session


class PefMeta:
    """Name, sections, tensors and hyperparameters of a PEF."""

    def __init__(self, path):
        session = Session(path)
        self.path = str(path)
        self.section_types = session.section_types
        self.tensors = {name: {"kind": kind, "dtype": dtype, "shape": list(shape)} for name, (kind, dtype, shape) in session.tensors.items()}
        self.hyperparameters = session.hyperparameters


def get_pefmeta(path):
    """A PefMeta of the file."""
    return PefMeta(path)


def get_pefmeta_dict(path):
    """The same as a dict, which json takes."""
    return dict(vars(PefMeta(path)))
