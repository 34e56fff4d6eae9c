# SPDX-License-Identifier: Apache-2.0
"""Lazy parameters by other means than the session's mode. The module itself can be called: `with samba.lazy_param(seed=1):` is
lazy.lazy_param. RNGProvider is a source of random numbers of its own for materializers; RNGProviderFactory makes one for each
name, so that what a parameter is filled with depends on its name, and on no other parameter.

>>> import torch
>>> import sambaflow.samba as samba
>>> from sambaflow.samba.lazy_param import RNGProviderFactory
>>> factory = RNGProviderFactory(seed=1)
>>> def filled(name):
...     return samba.SambaTensor(shape=(2,), materializer=lambda tensor: factory(name).rng().normal_(tensor)).torch_tensor()
>>> torch.equal(filled("a"), filled("a")), torch.equal(filled("a"), filled("b"))
(True, False)
>>> with samba.lazy_param(seed=1):
...     samba.session.use_lazy_param()
True
"""

import hashlib
import sys
import types

from sambaflow import errors
from sambaflow.samba.lazy import Mode, lazy_param
from sambaflow.samba.materializers import MultithreadedRNG


class RNGProvider:
    """A seed and a count of draws: values depend on these two alone, not on threads.

    Args:
        seed: an integer; None: one that torch draws.
        init_threads: how many threads fill tensors (at most four for each processor).
        inverse_transform_sampling: normal numbers by the inverse of their distribution function.
        fp32_to_bf16_rounding: 'nearest_even' or 'truncation', of bfloat16 tensors.

    >>> import torch
    >>> provider = RNGProvider(seed=3)
    >>> first = provider.rng().uniform(size=(2,))
    >>> provider.reset()
    >>> torch.equal(provider.rng().uniform(size=(2,)), first)
    True
    """

    def __init__(
        self,
        seed: int | None = None,
        init_threads: int = 8,
        inverse_transform_sampling: bool = False,
        fp32_to_bf16_rounding: str = "nearest_even",
    ) -> None:
        self._mode = Mode(seed, init_threads, inverse_transform_sampling, fp32_to_bf16_rounding, call=type(self).__name__)

    @property
    def seed(self) -> int:
        """What draws begin with."""
        return self._mode.seed

    def rng(self) -> MultithreadedRNG:
        """What fills tensors: normal_, uniform_, trunc_normal_ and their like, each call the next draw."""
        return MultithreadedRNG(self._mode)

    def reset(self) -> None:
        """The next draw is the first again."""
        self._mode.draws = 0

    def __repr__(self):
        return f"{type(self).__name__}(seed={self.seed})"


class RNGProviderFactory:
    """Makes RNGProviders of one seed and the arguments of RNGProvider, a name each.

    >>> one, other = RNGProviderFactory(seed=1), RNGProviderFactory(seed=2)
    >>> one("a").seed == one.create("a").seed != other("a").seed
    True
    """

    seed: int

    def __init__(
        self,
        seed: int | None = None,
        init_threads: int = 8,
        inverse_transform_sampling: bool = False,
        fp32_to_bf16_rounding: str = "nearest_even",
    ) -> None:
        self._more = init_threads, inverse_transform_sampling, fp32_to_bf16_rounding
        self.seed = Mode(seed, *self._more, call=type(self).__name__).seed

    def create(self, name: str) -> RNGProvider:
        """A provider at its first draw, whose seed is made of the factory's and the name."""
        if not isinstance(name, str):
            raise errors.ArgumentTypeError(
                f"RNGProviderFactory: a provider is made for a name, given {name!r:.100} of {type(name).__name__}"
            )
        digest = hashlib.blake2b(f"{self.seed} {name}".encode(), digest_size=7).digest()
        return RNGProvider(int.from_bytes(digest, "little"), *self._more)

    __call__ = create

    def __repr__(self):
        return f"{type(self).__name__}(seed={self.seed})"


class _Callable(types.ModuleType):
    """A module that is also the function of its name."""

    def __call__(
        self, seed=None, init_threads=8, inverse_transform_sampling=False, fp32_to_bf16_rounding="nearest_even", *, session=None
    ):
        return lazy_param(seed, init_threads, inverse_transform_sampling, fp32_to_bf16_rounding, session=session)


sys.modules[__name__].__class__ = _Callable
__all__ = ["RNGProvider", "RNGProviderFactory", "lazy_param"]
