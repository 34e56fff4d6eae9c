# SPDX-License-Identifier: Apache-2.0
"""What a row of the operators' proof is, and how its inputs are made.

A family's file (elementwise.py, reduce.py ...) has a list OPERATORS. A row names torch's function and gives samples of its
arguments; prove.py calls it with torch's tensors and with SambaTensors: eager, traced and compiled, and by the reference kernels,
for each dtype, values and gradients. An operator is proved on shapes of size 0 and 1, odd, broadcast, strided, up to 5 dims:
`shapes` and `pairs` have them all."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Callable, Tuple

import torch

HALVES = (torch.bfloat16, torch.float16)
FLOATS = (torch.float32, torch.float64, *HALVES)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
BOOL = (torch.bool,)
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, *BOOL)


@dataclasses.dataclass
class Sample:
    """One call: call(*args, **kwargs). Tensors may stand inside lists and tuples."""

    args: Tuple[Any, ...]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    terms: int = 1  # how many products or sums one element of the result is made of: what tolerances grow with
    gradient: bool = True  # False: at this point torch's gradient is a choice among several (a tie, a kink)


@dataclasses.dataclass(frozen=True)
class Operator:
    """One row. `samples(make)` yields Samples of the dtype that `make` (a Maker) has."""

    name: str  # as in C without samba_, and in docs/operators.md
    call: Callable  # of torch: takes torch's tensors and SambaTensors
    samples: Callable
    dtypes: Tuple[torch.dtype, ...] = FLOATS
    gradient: bool = True
    # of the compiled elementwise kernel where the result is a plain function of few elements: allowed units in the last place
    ulp: float = 4.0
    # eps of the greatest input allowed besides:
    # a place that is computed is off by eps of itself, the result and its gradients by that times their slopes
    place: float = 0.0
    truth: Callable = None  # `call` of float64 where torch's own loses digits: the same function put otherwise
    exact: bool = False  # equal to the last bit: comparisons, integers, what only moves elements
    without: Mapping[torch.dtype, str] = dataclasses.field(default_factory=dict)  # dtypes of torch that are left out, and why
    untraced: str = ""  # why it cannot be part of a graph: then only eager execution is proved
    note: str = ""  # for docs/operators.md: what differs from torch, in one sentence


class Maker:
    """Makes inputs of one dtype from a seed. Layouts are those of views that a user's program makes."""

    LAYOUTS = ("contiguous", "transposed", "strided", "offset")

    def __init__(self, dtype, seed):
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def tensor(self, *shape, low=None, high=None, dtype=None, layout="contiguous", requires_grad=None):
        """Values between low and high, by default of -3 to 3 (0 to 9 where unsigned): floats uniformly, integers with both ends,
        bool evenly. requires_grad=False: no gradient is asked for."""
        if requires_grad is False:  # torch gives it no gradient: running statistics, targets
            made = self.tensor(*shape, low=low, high=high, dtype=dtype, layout=layout)
            made.no_gradient = True
            return made
        dtype = dtype or self.dtype
        shape = list(shape)
        if layout == "transposed" and len(shape) > 1:
            return self.tensor(*reversed(shape), low=low, high=high, dtype=dtype).permute(*reversed(range(len(shape))))
        if layout == "strided" and shape:
            return self.tensor(*shape[:-1], 2 * shape[-1], low=low, high=high, dtype=dtype)[..., ::2]
        if layout == "offset" and shape:
            return self.tensor(shape[0] + 1, *shape[1:], low=low, high=high, dtype=dtype)[1:]
        if dtype is torch.bool:
            return torch.rand(shape, generator=self.generator) < 0.5
        unsigned = dtype is torch.uint8
        low = (0 if unsigned else -3) if low is None else low
        high = (9 if unsigned else 3) if high is None else high
        if dtype.is_floating_point:
            return (torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low).to(dtype)
        return torch.randint(math.ceil(low), math.floor(high) + 1, shape, generator=self.generator).to(dtype)

    def index(self, size, *shape, negative=False):
        """int64 numbers of 0 .. size-1, or of -size .. size-1."""
        return torch.randint(-size if negative else 0, size, shape, generator=self.generator)

    def floating(self):
        return self.dtype.is_floating_point

    def sized(self, *shapes, work=1):
        """Shapes that belong together, as they are; speed.py's maker has larger ones of the same form: every dim so many times.
        What a sample has from them grows with it, what it has not stays. work: how many times more elements a result of theirs
        is worth, where they are the sizes of a product."""
        return shapes if len(shapes) > 1 else shapes[0]

    def times(self, count):
        """A count that grows as the dims of the latest `sized` do."""
        return count


# Shapes that every operator of one operand meets: no dim, size 0 and 1, odd, beyond a tile of 512, 5-D.
SHAPES = [
    (),
    (1,),
    (0,),
    (7,),
    (513,),
    (1, 1),
    (3, 5),
    (0, 4),
    (4, 0),
    (33, 17),
    (2, 1, 3),
    (3, 0, 2),
    (2, 3, 4, 5),
    (1, 7, 1, 3),
    (2, 1, 3, 2, 2),
    (3, 2, 1, 2, 5),
]


def shapes(make, low=None, high=None, least_rank=0):
    """A tensor of each shape and of each layout: 20 and more."""
    for shape in SHAPES:
        if len(shape) >= least_rank:
            yield make.tensor(*make.sized(shape), low=low, high=high)
    for shape in [(5, 9), (2, 3, 7), (2, 3, 2, 3, 2)]:
        for layout in Maker.LAYOUTS[1:]:
            yield make.tensor(*make.sized(shape), low=low, high=high, layout=layout)


PAIRS = [
    ((), ()),
    ((3,), ()),
    ((), (3,)),
    ((1,), (7,)),
    ((0,), (1,)),
    ((0, 3), (3,)),
    ((5, 7), (5, 7)),
    ((5, 7), (7,)),
    ((5, 1), (1, 7)),
    ((513,), (513,)),
    ((4, 1, 3), (2, 1)),
    ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), (3, 1)),
    ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)),
    ((2, 2, 2, 2, 3), (3,)),
]


def pairs(make, low=None, high=None, other_low=None, other_high=None):
    """Two tensors that broadcast against each other, in shapes and layouts: 20 and more."""
    other = {"low": low if other_low is None else other_low, "high": high if other_high is None else other_high}
    for a, b in PAIRS:
        a, b, _ = make.sized(a, b, torch.broadcast_shapes(a, b))
        yield make.tensor(*a, low=low, high=high), make.tensor(*b, **other)
    for shape in [(5, 9), (2, 3, 4)]:
        for layout in Maker.LAYOUTS[1:]:
            yield make.tensor(*shape, low=low, high=high, layout=layout), make.tensor(*shape, **other)
        yield make.tensor(*shape, low=low, high=high), make.tensor(*shape, layout="transposed", **other)
