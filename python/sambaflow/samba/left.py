# SPDX-License-Identifier: Apache-2.0
"""What a forward pass leaves in its modules while it is traced. `self.buffer = value` is the write into the buffer that it is in torch, and the module
has its own buffer again when the trace is over. What other attributes keep is nothing but a node of that trace's graph: a later forward pass that
reads it is told so."""
import torch

from sambaflow.errors import UnsupportedError

_INSTEAD = "what one run leaves to the next is a buffer of that shape and dtype, which state_dict has, or an output that the program gives back as an input"


class Left:
    """A model's modules, (path, module) pairs, with the buffers they had before the trace."""

    def __init__(self, modules):
        self.modules = modules
        self.before = [(path, module, dict(module._buffers)) for path, module in modules]

    def _set(self):
        """(path, module, key, the buffer, what it is set to) of each; a buffer that was not there before is None."""
        for path, module, buffers in self.before:
            for key, new in list(module._buffers.items()):
                if new is not buffers.get(key) and isinstance(new, torch.Tensor):
                    yield path, module, key, buffers.get(key), new

    def assign(self, t):
        """What forward has set buffers to is what they become; what the device cannot keep is refused."""
        becomes = {}  # id of a buffer -> (itself, what it is set to, the samba_value of that)
        for path, _, key, tensor, new in self._set():
            if _keeps(t, tensor, new):
                becomes[id(tensor)] = (tensor, new, t.value(new))
            elif t.is_symbolic((new,), {}):
                was = "None" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}" + ("" if t.is_buffer(tensor) else " and that state_dict does not have")
                raise UnsupportedError(f"forward sets {_named(path, key)}, a buffer that was {was}, to a tensor of {tuple(new.shape)} {new.dtype}: {_INSTEAD}")
        for path, module, buffers in self.before:
            for key, tensor in buffers.items():
                if id(tensor) in becomes and module._buffers.get(key) is not becomes[id(tensor)][1]:
                    raise UnsupportedError(f"{_named(path, key)} is a buffer that another name has too, and forward sets only one of them: write into it with copy_")
        for tensor, _, value in becomes.values():
            t.assign(tensor, value)

    def restore(self, t):
        """Buffers that the device keeps, and those that were set to what has no values, are the modules' own again."""
        for _, module, key, tensor, new in self._set():
            if _keeps(t, tensor, new) or getattr(new, "_value", None) is not None:
                module._buffers[key] = tensor

    def refuse(self, t, x):
        """Of a tensor that another trace made: names who kept it."""
        for path, module in self.modules:
            for key, kept in {**vars(module), **module._buffers}.items():
                if key != "_buffers" and any(x is y for y in torch.utils._pytree.tree_leaves(kept)):
                    raise UnsupportedError(f"{_named(path, key)} has a tensor that an earlier trace of forward left there, without values: {_INSTEAD}{t.where()}")
        raise UnsupportedError(f"a tensor of {tuple(x.shape)} {x.dtype} was left by an earlier trace of forward, without values: {_INSTEAD}{t.where()}")


def _keeps(t, tensor, new):
    return tensor is not None and t.is_buffer(tensor) and (new.shape, new.dtype) == (tensor.shape, tensor.dtype)


def _named(path, key):
    return f"{key!r} of module {path!r}" if path else f"{key!r} of the model"
