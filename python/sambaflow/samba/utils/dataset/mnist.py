# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits.

>>> dataset_transform()(torch.full((28, 28), 255, dtype=torch.uint8)).shape
torch.Size([784])
"""

from collections.abc import Callable
from typing import Any

import torch

MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's training pixels, as torchvision's examples have them


class _Flatten:
    def __call__(self, image):
        """An image (NumPy, PIL or tensor; bytes 0 to 255, or floats 0 to 1) as one normalised row of float32."""
        if not isinstance(image, torch.Tensor):
            import numpy

            image = torch.from_numpy(numpy.array(image))
        if not image.dtype.is_floating_point:
            image = image.float() / 255
        return ((image.float() - MEAN) / DEVIATION).reshape(-1)


def dataset_transform(args: Any = None) -> Callable[[Any], torch.Tensor]:
    """What a torchvision data set takes as `transform`: a function of an image (28, 28), as PIL, NumPy or torch have it, that
    gives a float32 tensor (784), normalised. `args`, a program's arguments, change nothing."""
    return _Flatten()
