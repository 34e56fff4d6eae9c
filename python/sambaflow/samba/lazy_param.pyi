# SPDX-License-Identifier: Apache-2.0
from contextlib import AbstractContextManager

from sambaflow.samba.materializers import MultithreadedRNG as MultithreadedRNG
from sambaflow.samba.samba_session import SambaSession

class RNGProvider:
    def __init__(
        self,
        seed: int | None = None,
        init_threads: int = 8,
        inverse_transform_sampling: bool = False,
        fp32_to_bf16_rounding: str = "nearest_even",
    ) -> None: ...
    @property
    def seed(self) -> int: ...
    def rng(self) -> MultithreadedRNG: ...
    def reset(self) -> None: ...

class RNGProviderFactory:
    seed: int
    def __init__(
        self,
        seed: int | None = None,
        init_threads: int = 8,
        inverse_transform_sampling: bool = False,
        fp32_to_bf16_rounding: str = "nearest_even",
    ) -> None: ...
    def create(self, name: str) -> RNGProvider: ...
    def __call__(self, name: str) -> RNGProvider: ...

def lazy_param(
    seed: int | None = None,
    init_threads: int = 8,
    inverse_transform_sampling: bool = False,
    fp32_to_bf16_rounding: str = "nearest_even",
    *,
    session: SambaSession | None = None,
) -> AbstractContextManager[None]: ...
