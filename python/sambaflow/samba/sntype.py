# SPDX-License-Identifier: Apache-2.0
"""What the elements of a tensor may be on the device, as an enumeration: the rows of the library's table of dtypes.

>>> SNType.of(torch.bfloat16), SNType.BFLOAT16.dtype, SNType.BFLOAT16.itemsize
(SNType.BFLOAT16, torch.bfloat16, 2)
>>> SNType("int64").is_floating_point
False
"""

import enum

import torch

from sambaflow import errors


class SNType(enum.Enum):
    """A dtype of the device; its value is the library's name of it."""

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
    def of(cls, x: "SNType | torch.dtype | torch.Tensor | str") -> "SNType":
        """The SNType of `x`: a tensor, a torch dtype, a name such as "float32", or an SNType. An ArgumentTypeError where the
        device has none."""
        if isinstance(x, cls):
            return x
        name = str(getattr(x, "dtype", x)).removeprefix("torch.")
        if name not in cls._value2member_map_:
            raise errors.ArgumentTypeError(
                f"SNType: {name!r:.100} is none of the device's dtypes: {', '.join(cls._value2member_map_)}"
            )
        return cls(name)

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype."""
        return getattr(torch, self.value)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a floating-point type."""
        return self.dtype.is_floating_point

    def __repr__(self):
        return f"SNType.{self.name}"
