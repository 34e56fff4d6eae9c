# SPDX-License-Identifier: Apache-2.0
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

class SGD(torch.optim.SGD):
    max_grad_norm: float | None
    def __init__(self, params: ParamsT, lr: float = 1e-3, *args: Any, max_grad_norm: float | None = None, **kwargs: Any) -> None: ...

class Adam(torch.optim.Adam):
    max_grad_norm: float | None
    def __init__(self, params: ParamsT, lr: float = 1e-3, *args: Any, max_grad_norm: float | None = None, **kwargs: Any) -> None: ...

class AdamW(torch.optim.AdamW):
    max_grad_norm: float | None
    def __init__(self, params: ParamsT, lr: float = 1e-3, *args: Any, max_grad_norm: float | None = None, **kwargs: Any) -> None: ...
