# SPDX-License-Identifier: Apache-2.0
"""What asks for values, which a traced tensor has not: each function says what to do instead. Functions that other files trace
are left to them, so this file comes last.
Tensors whose values are known while tracing, constants of the model, are computed as ever."""

import torch

from sambaflow.samba.trace import INSTEAD, RULES, SIZED

T = torch.Tensor
aten = torch.ops.aten

_NUMBER = "keep the computation in tensors, or compute the number before and pass it as an input"
_BRANCH = (
    "use torch.where(condition, a, b) instead of if, or decide by what is known without values: shapes, or a flag of the module"
)
_INDEX = "take sizes and indices from shapes, pass them as Python numbers, or index with torch.gather or torch.index_select"
_MASK = (
    "use torch.where(mask, x, 0) or x * mask, which keep the shape; cross_entropy leaves out labels of -100; a mask that never "
    "changes is known where it is a buffer with persistent=False"
)
_PLACES = "use the condition itself in torch.where(condition, a, b), or argmax for a fixed number"
_DISTINCT = "compare with all possible values (x[:, None] == torch.arange(n)), or compute it before"
_COUNTS = "give minlength, the number of counts, or compute it before"
_ARRAY = "keep the computation in torch; what a library needs as an array must be an output, or be computed before"

_ASKING = {
    "item()": (_NUMBER, (aten._local_scalar_dense,)),
    "int()": (_NUMBER, (T.__int__,)),
    "float()": (_NUMBER, (T.__float__,)),
    "complex()": (_NUMBER, (T.__complex__,)),
    "an index of Python": (_INDEX, (T.__index__,)),
    "__dlpack__()": (_ARRAY, ()),
    "tolist()": (_NUMBER, ()),
    "numpy()": (_ARRAY, ()),
    "format()": (_NUMBER, ()),
    "bool()": (_BRANCH, (torch.is_nonzero, T.is_nonzero, aten.is_nonzero)),
    "in": (_BRANCH, (T.__contains__,)),
    "equal": (_BRANCH, (torch.equal, T.equal, aten.equal)),
    "allclose": (_BRANCH, (torch.allclose, T.allclose, aten.allclose)),
    "nonzero": (_PLACES, (torch.nonzero, T.nonzero, aten.nonzero)),
    "argwhere": (_PLACES, (torch.argwhere, T.argwhere, aten.argwhere)),
    "indexing by a mask": (_MASK, ()),
    "masked_select": (_MASK, (torch.masked_select, T.masked_select, aten.masked_select)),
    "unique": (_DISTINCT, (torch.unique, T.unique, aten._unique2, aten.unique_dim)),
    "unique_consecutive": (_DISTINCT, (torch.unique_consecutive, T.unique_consecutive, aten.unique_consecutive)),
    "bincount": (_COUNTS, ()),
}


SIZED.update({_what: _what for _what, (_instead, _) in _ASKING.items() if _instead in (_MASK, _PLACES, _DISTINCT, _COUNTS)})
SIZED["indexing by a mask"] = "x[mask]"


def _refuse(what):
    def refuse(tracer, *args, **kwargs):
        tracer.refuse_values(what)

    refuse.asks_values = True  # which outside tracing there are
    return refuse


for _what, (INSTEAD[_what], _functions) in _ASKING.items():
    for _function in _functions:
        RULES.setdefault(_function, _refuse(_what))


def as_mask(x):
    """An index tensor of uint8 is a mask, as it is in torch."""
    return x.bool() if isinstance(x, torch.Tensor) and x.dtype is torch.uint8 else x


def known_masks(tracer, index):
    """An index with the masks whose values are known as the places where they are true; one that is not known is refused."""
    words = []
    for word in map(as_mask, index):
        if isinstance(word, torch.Tensor) and word.dtype is torch.bool:
            if tracer.is_symbolic((word,), {}):
                tracer.refuse_values("indexing by a mask")
            words += torch.Tensor.nonzero(word._host_values() if hasattr(word, "_host_values") else word, as_tuple=True)
        else:
            words.append(word)
    return words
