# SPDX-License-Identifier: Apache-2.0
"""What a host operation gives that is still the same tensor's value: a cast, or a view of all elements in their order. It keeps
the name, so that `samba.randn(2, 3, name="image").bfloat16()` is the input `image`. So it does not where a value is another one's
from then on (clone), or elements stand elsewhere (permute, t), are fewer (slices) or more (expand).

A name that was kept is weaker than one that was given: where a model is traced with both tensors, the one that was given the name
has it.

>>> x = SambaTensor(torch.ones(2, 3), name="x", batch_dim=0)
>>> [y.sn_name for y in (x.double(), x.view(6), x.detach().long().reshape(2, 3, 1), x.t(), x.clone(), x[0], x.view(torch.int32))]
['x', 'x', 'x', '', '', '', '']
>>> (x.half().batch_dim, x.view(6).batch_dim)
(0, None)
"""

import torch

from sambaflow.samba import _state
from sambaflow.samba.sambatensor import SambaTensor

_CASTS = "to type type_as float double half bfloat16 long int short char byte bool contiguous detach alias pin_memory".split()
_VIEWS = "view view_as reshape reshape_as flatten unflatten ravel squeeze unsqueeze".split()
_homes = (torch, torch.Tensor)
KEEPS = frozenset(getattr(home, name) for home in _homes for name in (*_CASTS, *_VIEWS) if callable(getattr(home, name, None)))


def carry(made, args, kwargs):
    """Gives the result of one of KEEPS the name of what it was made of, with all that goes by the name."""
    source = args[0] if args else next(iter(kwargs.values()), None)
    if (
        made is source
        or made.__class__ is not SambaTensor
        or not isinstance(source, SambaTensor)
        or not source._sn_name
        or made._sn_name
    ):
        return
    if made.numel() != source.numel() or (
        made.dtype != source.dtype and made.data_ptr() == source.data_ptr() != 0
    ):  # view(dtype) reads other numbers
        return
    made._sn_name, made._kept_name = source._sn_name, True
    made._sn_region_name, made._mem_type, made._is_result, made._session = (
        source._sn_region_name,
        source._mem_type,
        source._is_result,
        source._session,
    )
    dim = source.batch_dim
    if dim is not None and made.shape[: dim + 1] == source.shape[: dim + 1] and dim < made.dim():
        made.batch_dim = dim


_state.behind.update(dict.fromkeys(KEEPS, carry))
