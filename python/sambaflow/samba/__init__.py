# SPDX-License-Identifier: Apache-2.0
"""PyTorch models on SambaFlow: tensors, conversion, the session. Needs torch.

>>> [tuple(x.shape) for x in (randn(2, 3), rand(2), randint(10, (4,)), zeros(1), ones(2, 2), full((3,), 7), empty(0), arange(5))]
[(2, 3), (2,), (4,), (1,), (2, 2), (3,), (0,), (5,)]
>>> ones(2, name="x", batch_dim=0).sn_name
'x'
"""

import torch as _torch

from sambaflow.errors import HostFallbackWarning, NoEffectWarning
from sambaflow.samba import _state, eager, lazy_param, optim, rules, same_value, tracebacks
from sambaflow.samba.convert import (
    from_named_dict,
    from_torch,
    from_torch_,
    from_torch_model,
    from_torch_model_,
    from_torch_tensor_,
)
from sambaflow.samba.functional import *
from sambaflow.samba.onnx_module import OnnxModule, from_onnx_model
from sambaflow.samba.samba_session import SambaSession
from sambaflow.samba.sambatensor import SambaParameter, SambaTensor, from_dlpack, from_numpy, from_torch_tensor, to_torch

tracebacks.install()
session = SambaSession()
_state.session, _state.new_session = session, SambaSession

from sambaflow.samba import nn, utils
from sambaflow.samba.training import fit
from sambaflow.samba.utils import set_seed


def _create(make):
    def create(*args, name=None, batch_dim=None, region_name=None, **kwargs):
        return SambaTensor(make(*args, **kwargs), name=name, batch_dim=batch_dim, region_name=region_name)

    create.__name__ = make.__name__
    create.__doc__ = f"torch.{make.__name__} as a SambaTensor: also takes name, batch_dim and region_name."
    return create


randn, rand, randint, zeros, ones, full, empty, arange = map(
    _create, (_torch.randn, _torch.rand, _torch.randint, _torch.zeros, _torch.ones, _torch.full, _torch.empty, _torch.arange)
)
