# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import torch

MEAN: float
DEVIATION: float

def dataset_transform(args: Any = None) -> Callable[[Any], torch.Tensor]: ...
