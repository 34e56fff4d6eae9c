# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a session (sambaflow/checkpoint.h), without torch and NumPy: folders from which a training goes on to the same
bits.

>>> import tempfile, torch, sambaflow.samba as samba
>>> from sambaflow.runtime import Session
>>> folder = tempfile.TemporaryDirectory()
>>> model = samba.from_torch_model_(torch.nn.Linear(3, 2))
>>> pef = samba.session.compile(model, samba.ones(4, 3, name="x"), inference=True, output_folder=folder.name)
>>> session = Session(pef)
>>> prepare(folder.name)
>>> save(session, folder.name, step=100, text="the program's own")
>>> checkpoint = newest(folder.name)
>>> isinstance(checkpoint, Checkpoint), checkpoint.step, checkpoint.text
(True, 100, "the program's own")
>>> load(session, open_(checkpoint.path))
>>> folder.cleanup()
"""

import os
from collections.abc import Iterable

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.runtime import Context, Session, Tensor
from sambaflow.words import encoded, message, path_of, text

_Path = str | os.PathLike[str]


def save(
    session: Session,
    folder: _Path,
    step: int,
    keep: int = 2,
    shard_size: int = 0,
    text: str | None = None,
    tensors: Iterable[Tensor] = (),
) -> None:
    """Saves a runtime.Session as `<folder>/checkpoint-<step>` (samba_checkpoint_save).

    Args:
        session: its weights, optimizer state, counters and hyperparameters are saved.
        folder: where checkpoints are; it is made where there is none.
        step: the number in the checkpoint's name.
        keep: so many stay, this one and the newest before it; 0: all.
        shard_size: bytes of a file at most, 0: 5 GB.
        text, tensors: the program's own, as the Checkpoint gives them back.

    Raises:
        FileError: it cannot be written; nothing that was there changed.
    """
    options = ffi.new("samba_checkpoint_options *", lib.samba_checkpoint_defaults())
    kept = [
        ffi.new("char[]", path_of(folder, "save: folder")),
        ffi.NULL if text is None else ffi.new("char[]", encoded(text, "save: text")),
    ]
    tensors = list(tensors)  # which own the memory
    own = ffi.new("samba_tensor *[]", [tensor.c for tensor in tensors])
    options.folder, options.text = kept
    options.step, options.keep, options.shard_size = step, keep, shard_size
    options.tensors, options.tensor_count = own, len(own)
    with session._mine():
        session.context.check(lib.samba_checkpoint_save(session.c, options))


def prepare(folder: _Path) -> None:
    """Makes the folder and removes what interrupted saves have left in it: for a start, where an error costs less than later."""
    context = Context()
    context.check(lib.samba_checkpoint_prepare(context.c, path_of(folder, "prepare: folder")))


class Checkpoint:
    """A checkpoint whose files were all found as they were saved: `path`, `step`, `text`, `tensors` (by name, of the program),
    the session's `seed`, and `skipped`, which says what newest() passed over since it is damaged. open_ and newest make them."""

    path: str
    step: int
    text: str | None
    seed: int
    skipped: str
    tensors: dict[str, Tensor]

    def __init__(self, context, pointer):
        self.context, self.c = context, context.owned(pointer, lib.samba_checkpoint_free)
        self.path, self.step = text(lib.samba_checkpoint_path(self.c)), lib.samba_checkpoint_step(self.c)
        self.text, self.seed = text(lib.samba_checkpoint_text(self.c)), lib.samba_checkpoint_seed(self.c)
        self.skipped = message(lib.samba_checkpoint_skipped(self.c))
        found = lib.samba_checkpoint_tensors(self.c)
        self.tensors = {tensor.name: tensor for tensor in (Tensor._borrowed(found.tensors[i], self) for i in range(found.count))}

    def __repr__(self):
        return f"Checkpoint({self.path!r})"

    def __reduce_ex__(self, protocol):
        raise errors.ArgumentTypeError("a checkpoint cannot be copied or pickled: open it by its path")


def _opened(call, path):
    context, made = Context(), ffi.new("samba_checkpoint **")
    context.check(call(context.c, path_of(path), made))
    return Checkpoint(context, made[0]) if made[0] != ffi.NULL else None


def open_(path: _Path) -> Checkpoint:
    """Opens one checkpoint.

    Args:
        path: `<folder>/checkpoint-<step>`.

    Returns:
        The Checkpoint, all of whose files are whole.

    Raises:
        FormatError: a file is missing or damaged; it says which.
    """
    return _opened(lib.samba_checkpoint_open, path)


def newest(folder: _Path) -> Checkpoint | None:
    """Opens the newest checkpoint that is whole.

    Args:
        folder: where `save` was told to put them.

    Returns:
        The Checkpoint of the greatest step; None where the folder has none.

    Raises:
        FormatError: all are damaged.
    """
    return _opened(lib.samba_checkpoint_newest, folder)


def load(session: Session, checkpoint: Checkpoint) -> None:
    """Loads a checkpoint (samba_checkpoint_load).

    Args:
        session: a runtime.Session of the same graph.
        checkpoint: has the tensors and hyperparameters of this graph, all and no others.

    Raises:
        ArgumentTypeError: it is no Checkpoint, but perhaps a path.
    """
    if not isinstance(checkpoint, Checkpoint):
        raise errors.ArgumentTypeError(
            f"load: a Checkpoint is expected: given {type(checkpoint).__name__}; newest(folder) and open_(path) give one"
        )
    with session._mine():
        session.context.check(lib.samba_checkpoint_load(session.c, checkpoint.c))
