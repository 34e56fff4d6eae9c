# SPDX-License-Identifier: Apache-2.0
"""What a PEF says of itself, and what the program that compiled it said: `<pef>.json` beside it keeps app_dir, config_dict and pef_metadata of
session.compile. A PEF without it runs all the same."""
import json
import os

from sambaflow.runtime import Session

_NOTES = ("app_dir", "config_dict", "pef_metadata")


class PefMeta:
    """Sections, tensors and hyperparameters of a PEF, and its program's notes."""

    def __init__(self, path):
        session = Session(path)
        self.path = str(path)
        self.section_types = session.section_types
        self.tensors = {name: {"kind": kind, "dtype": dtype, "shape": list(shape)} for name, (kind, dtype, shape) in session.tensors.items()}
        self.hyperparameters = session.hyperparameters
        notes = {}
        if os.path.exists(self.path + ".json"):
            with open(self.path + ".json", encoding="utf-8") as file:
                notes = json.load(file)
        self.app_dir, self.config_dict, self.pef_metadata = (notes.get(name) for name in _NOTES)


def get_pefmeta(source, model=None):
    """A PefMeta of a file; or of a program's parsed arguments and its model what it may give compile as `pef_metadata`, a dict."""
    if isinstance(source, (str, os.PathLike)):
        return PefMeta(source)
    parameters = {} if model is None else {name: list(x.shape) for name, x in model.named_parameters()}
    return {"model": None if model is None else type(model).__name__, "parameters": parameters, "arguments": dict(vars(source))}


def get_pefmeta_dict(source, model=None):
    """The same as a dict, which json takes."""
    found = get_pefmeta(source, model)
    return found if isinstance(found, dict) else dict(vars(found))


def write_notes(path, *notes):
    """Writes app_dir, config_dict and pef_metadata beside a PEF, as far as they are given; removes those of an older PEF."""
    notes = {name: note for name, note in zip(_NOTES, notes) if note is not None}
    if notes:
        text = json.dumps(notes, indent=1, default=lambda x: dict(vars(x)) if hasattr(x, "__dict__") else str(x))
        with open(path + ".json", "w", encoding="utf-8") as file:
            file.write(text + "\n")
    elif os.path.exists(path + ".json"):
        os.remove(path + ".json")
