# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, overload

import torch

from sambaflow.runtime import Session
from sambaflow.samba.profiler import Profiler
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.sambacollections import OrderedSet

_Path = str | os.PathLike[str]
_Tensors = torch.Tensor | Sequence[torch.Tensor] | None
_Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None
_Losses = Sequence[int | Sequence[int]] | None

class SambaSession:
    seed: int
    def __init__(self, pef_path: _Path = "") -> None: ...
    @staticmethod
    def reset(pef_path: _Path = "") -> None: ...
    def save(self, path: _Path, with_state: bool = True) -> None: ...
    def load(self, path: _Path) -> None: ...
    @property
    def profiler(self) -> Profiler: ...
    def start_samba_profile(self) -> None: ...
    def end_samba_profile(self, filename: _Path | None = None) -> None: ...
    def samba_profile(self, filename: _Path | None = None) -> AbstractContextManager[Profiler]: ...
    @property
    def tracing(self) -> bool: ...
    def use_static_functional(self) -> bool: ...
    def compile(
        self,
        model: torch.nn.Module,
        inputs: Any,
        optimizers: _Optimizers = None,
        name: str = "",
        loss_indices: _Losses = None,
        io_host_memory: Any = None,
        *,
        inference: bool = False,
        output_folder: _Path = "out",
        pef_name: str | None = None,
        precision: str = "fp32",
        grad_accumulation_steps: int = 1,
        memory_budget: int = 0,
        init_output_grads: bool | None = None,
        app_dir: _Path | None = None,
        config_dict: Mapping[str, Any] | None = None,
        pef_metadata: Any = None,
        squeeze_bs_dim: bool = False,
    ) -> str: ...
    def trace_graph(
        self,
        model: torch.nn.Module,
        inputs: Any,
        optim: _Optimizers = None,
        init_output_grads: bool = True,
        loss_indices: _Losses = None,
        pef: _Path = "",
        transfer_device: bool = True,
    ) -> list[SambaTensor]: ...
    def loaded(self) -> Session: ...
    @overload
    def run(
        self,
        input_tensors: _Tensors = None,
        output_tensors: _Tensors = (),
        hyperparam_dict: Mapping[str, float] | None = None,
        data_parallel: bool = False,
        reduce_on_rdu: bool = False,
        section_ids: Any = (),
        section_types: str | Sequence[str] = (),
        run_until_call_id: int | None = None,
        run_from_call_id: int | None = None,
        data_parallel_mode: str = "normal",
        train: bool = True,
        grad_of_outputs: Mapping[str, torch.Tensor] | _Tensors = None,
        graph_name: str | None = None,
    ) -> tuple[SambaTensor, ...]: ...
    @overload
    def run(
        self,
        model: torch.nn.Module,
        input_tensors: _Tensors = None,
        output_tensors: _Tensors = (),
        hyperparam_dict: Mapping[str, float] | None = None,
        data_parallel: bool = False,
        reduce_on_rdu: bool = False,
        section_ids: Any = (),
        section_types: str | Sequence[str] = (),
        run_until_call_id: int | None = None,
        run_from_call_id: int | None = None,
        data_parallel_mode: str = "normal",
        train: bool = True,
        grad_of_outputs: Mapping[str, torch.Tensor] | _Tensors = None,
        graph_name: str | None = None,
    ) -> tuple[SambaTensor, ...]: ...
    def has(self, name: str) -> bool: ...
    def device_get(self, name: str) -> torch.Tensor: ...
    def device_set(self, name: str, tensor: torch.Tensor) -> None: ...
    def to_device(self) -> None: ...
    @classmethod
    def to_cpu(cls, model: torch.nn.Module, optims: _Optimizers = None, inplace: bool = False) -> None: ...
    @classmethod
    def to_cpu_(cls, model: torch.nn.Module, optims: _Optimizers = None) -> None: ...
    @classmethod
    def to_rdu(cls, model: torch.nn.Module, optims: _Optimizers = None) -> None: ...
    @classmethod
    def sync_buffers_to_cpu(cls, model: torch.nn.Module, inplace: bool = False) -> None: ...
    @classmethod
    def sync_buffers_to_rdu(cls, model: torch.nn.Module) -> None: ...
    def update_tensor(self, name: str, tensor: torch.Tensor | None) -> None: ...
    def disable_graphamp(self) -> AbstractContextManager[None]: ...
    @staticmethod
    def atexit_register(func: Callable[..., object], *args: Any, **kwargs: Any) -> None: ...
    def reset_random_generator(self) -> None: ...
    def get_argin_names(self) -> OrderedSet[str]: ...
    def get_dropout_rate_argin_names(self) -> list[str]: ...
    def get_dropout_seed_argin_names(self) -> list[str]: ...
    def get_section_types(self) -> set[str]: ...
    def get_weight_names(self) -> list[str]: ...
    def get_samba_tensor_by_name(self, name: str) -> SambaTensor: ...
    def get_tensors_by_name(self, names: Iterable[str]) -> tuple[SambaTensor, ...]: ...
    def get_tensors(self, samba_tensors: Iterable[SambaTensor]) -> tuple[SambaTensor, ...]: ...
