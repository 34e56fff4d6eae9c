# SPDX-License-Identifier: Apache-2.0
"""What a forward pass leaves in its modules while it is traced. `self.buffer = value` is the write into the buffer that it is in
torch, and the module has its own buffer again when the trace is over. What other attributes keep is nothing but a node of that
trace's graph: a later forward pass that reads it is told so."""

import torch

from sambaflow._core import lib
from sambaflow.errors import UnsupportedError
from sambaflow.samba.sambatensor import SambaTensor, make_wrapper, take_form

_INSTEAD = (
    "what one run leaves to the next is a buffer of that shape and dtype, which state_dict has, or an output that the program "
    "gives back as an input"
)


class Left:
    """A model's modules, (path, module) pairs, with the buffers they had before the trace."""

    def __init__(self, modules):
        self.modules = modules
        self.before = [(path, module, dict(module._buffers)) for path, module in modules]
        self.cast = []  # parameters that module.to(dtype) has given another dtype, with the one they had

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
            elif t.is_symbolic((new,), {}) and not _is_cast(t, tensor, new):
                was = (
                    "None"
                    if tensor is None
                    else f"{tuple(tensor.shape)} {tensor.dtype}"
                    + ("" if t.is_buffer(tensor) else " and that state_dict does not have")
                )
                raise UnsupportedError(
                    f"forward sets {_named(path, key)}, a buffer that was {was}, to a tensor of {tuple(new.shape)} "
                    f"{new.dtype}: {_INSTEAD}"
                )
        for path, module, buffers in self.before:
            for key, tensor in buffers.items():
                if id(tensor) in becomes and module._buffers.get(key) is not becomes[id(tensor)][1]:
                    raise UnsupportedError(
                        f"{_named(path, key)} is a buffer that another name has too, and forward sets only one of them: write "
                        "into it with copy_"
                    )
        for tensor, _, value in becomes.values():
            t.assign(tensor, value)

    def convert(self, t, module, fn, recurse=True):
        """torch.nn.Module._apply while the model is traced: what module.to(dtype), float() and their like do. A tensor that they
        leave as it is, is not written; one that they cast is the cast for the rest of the forward pass,
        and the device keeps the dtype that it had before."""
        for child in module.children() if recurse else ():
            child._apply(fn)
        for key, x in module._parameters.items():
            new = fn(x) if x is not None else x
            if new is not x:
                self._cast(t, type(module).__name__, key, x, new)
        for key, x in module._buffers.items():
            new = fn(x) if x is not None else x
            if new is not x:
                module._buffers[key] = new
        return module

    def _cast(self, t, kind, key, x, new):
        if id(x) not in t.names or not isinstance(x, SambaTensor) or not t.is_symbolic((new,), {}) or not _is_cast(t, x, new):
            raise UnsupportedError(
                f"a conversion of {kind} in forward that makes {tuple(new.shape)} {new.dtype} of its {key!r}, {tuple(x.shape)} "
                f"{x.dtype}: while a model is traced "
                "only a cast, as by to(dtype) or float(), of what the model has can be made; convert the module before "
                f"compile{t.where(code=True)}"
            )
        self.cast.append((x, x.dtype))
        t.values[id(x)] = t.value(new)
        take_form(x, new)

    def restore(self, t):
        """Buffers that the device keeps, and those that were set to what has no values, are the modules' own again,
        as are dtypes of parameters."""
        for x, dtype in reversed(self.cast):
            take_form(
                x,
                make_wrapper(SambaTensor, x._held, None, None)
                if x._held is not None
                else make_wrapper(SambaTensor, None, x.shape, dtype),
            )
        for _, module, key, tensor, new in self._set():
            if _keeps(t, tensor, new) or getattr(new, "_value", None) is not None:
                module._buffers[key] = tensor

    def refuse(self, t, x):
        """Of a tensor that another trace made: names who kept it."""
        for path, module in self.modules:
            for key, kept in {**vars(module), **module._buffers}.items():
                if key != "_buffers" and any(x is y for y in torch.utils._pytree.tree_leaves(kept)):
                    raise UnsupportedError(
                        f"{_named(path, key)} has a tensor that an earlier trace of forward left there, without values: "
                        f"{_INSTEAD}{t.where()}"
                    )
        raise UnsupportedError(
            f"a tensor of {tuple(x.shape)} {x.dtype} was left by an earlier trace of forward, without values: "
            f"{_INSTEAD}{t.where()}"
        )


def _keeps(t, tensor, new):
    return tensor is not None and t.is_buffer(tensor) and (new.shape, new.dtype) == (tensor.shape, tensor.dtype)


def _is_cast(t, tensor, new):
    """Whether `new` is the tensor of the model in another dtype and nothing else."""
    return (
        tensor is not None
        and id(tensor) in t.names
        and new.shape == tensor.shape
        and lib.samba_cast(t.value(tensor), lib.samba_value_dtype(t.value(new))).index == t.value(new).index
    )


def _named(path, key):
    return f"{key!r} of module {path!r}" if path else f"{key!r} of the model"
