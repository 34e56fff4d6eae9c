# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import enum

import torch

class SNType(enum.Enum):
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT64 = "float64"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    UINT8 = "uint8"
    BOOL = "bool"
    @classmethod
    def of(cls, x: SNType | torch.dtype | torch.Tensor | str) -> SNType: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def is_floating_point(self) -> bool: ...
