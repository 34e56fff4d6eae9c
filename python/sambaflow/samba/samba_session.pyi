# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, overload

import torch

from sambaflow.report import Report
from sambaflow.runtime import Session
from sambaflow.samba.graph import SambaGraph
from sambaflow.samba.profiler import Profiler
from sambaflow.samba.resume import Resumed
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.sambacollections import OrderedSet

_Path = str | os.PathLike[str]
_Tensors = torch.Tensor | Sequence[torch.Tensor] | None
_Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None
_Schedulers = torch.optim.lr_scheduler.LRScheduler | Iterable[torch.optim.lr_scheduler.LRScheduler]
_Losses = Sequence[int | Sequence[int]] | None

class SambaSession:
    seed: int
    def __init__(self, pef_path: _Path = "") -> None: ...
    @staticmethod
    def reset(pef_path: _Path = "") -> None: ...
    def setup(self, args: Any) -> None: ...
    def take_arguments(self, args: Any, own: Iterable[str] = (), given: Iterable[str] = ()) -> None: ...
    def obeys(self, args: Any) -> bool: ...
    def save(self, path: _Path, with_state: bool = True) -> None: ...
    def load(self, path: _Path, strict: bool = True, drop_prefix: str = "") -> int: ...
    def save_checkpoint(
        self,
        folder: _Path,
        step: int,
        loaders: SambaLoader | Iterable[SambaLoader] = (),
        state: Any = None,
        keep: int = 2,
        shard_size: int = 0,
        schedulers: _Schedulers = (),
    ) -> str: ...
    def load_checkpoint(
        self, folder: _Path, loaders: SambaLoader | Iterable[SambaLoader] = (), schedulers: _Schedulers = ()
    ) -> Resumed | None: ...
    @property
    def profiler(self) -> Profiler: ...
    def start_samba_profile(self) -> None: ...
    def end_samba_profile(self, filename: _Path | None = None) -> None: ...
    def samba_profile(self, filename: _Path | None = None) -> AbstractContextManager[Profiler]: ...
    def start_runtime_profile(self, timer_enabled: bool = True) -> None: ...
    def end_runtime_profile(self, log_file: _Path = "cprofile_tmp.log") -> None: ...
    def report(self) -> Report: ...
    def enable_pinned_memory(self) -> None: ...
    def disable_pinned_memory(self) -> None: ...
    def use_pinned_memory(self) -> bool: ...
    def pin(self, tensors: Iterable[SambaTensor]) -> tuple[SambaTensor, ...]: ...
    @property
    def tracing(self) -> bool: ...
    @property
    def is_loaded(self) -> bool: ...
    def use_static_functional(self) -> bool: ...
    def compile(
        self,
        model: torch.nn.Module,
        inputs: Any,
        optimizers: _Optimizers = None,
        name: str = "",
        loss_indices: _Losses = None,
        io_host_memory: bool | None = None,
        *,
        inference: bool | None = None,
        output_folder: _Path | None = None,
        pef_name: str | None = None,
        precision: str | None = None,
        grad_accumulation_steps: int | None = None,
        memory_budget: int | None = None,
        init_output_grads: bool | None = None,
        app_dir: _Path | None = None,
        config_dict: Any = None,
        pef_metadata: Any = None,
        squeeze_bs_dim: bool = False,
        mapping: str | None = None,
        fast_memory: int | None = None,
        data_parallel: bool | None = None,
        graph_names: None = None,
        graph_transform_hook: None = None,
        dims: Mapping[str, Sequence[int]] | None = None,
        sizes: Sequence[Any] | None = None,
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
        mapping: str = "section",
        data_parallel_mode: str = "normal",
        distlearn_config: _Path | None = None,
    ) -> list[SambaTensor]: ...
    def add_graph(self, graph: SambaGraph, overwrite: bool = False) -> None: ...
    def compile_multigraph(
        self,
        name: str = "",
        samba_only: bool = False,
        *,
        output_folder: _Path | None = None,
        pef_name: str | None = None,
        precision: str | None = None,
        grad_accumulation_steps: int | None = None,
        memory_budget: int | None = None,
        mapping: str | None = None,
        fast_memory: int | None = None,
        data_parallel: bool | None = None,
        app_dir: _Path | None = None,
        config_dict: Any = None,
        pef_metadata: Any = None,
    ) -> str | None: ...
    def trace_multigraph(
        self,
        graph: SambaGraph | torch.nn.Module,
        inputs: Any,
        optimizers: _Optimizers = None,
        trace_prefix: str | None = "",
        mapping: str = "",
        init_output_grads: bool | None = None,
    ) -> tuple[SambaTensor, ...]: ...
    def init_multigraph_runtime(self, pef: _Path, transfer_device: bool = True) -> None: ...
    graphs: dict[str, SambaGraph]
    def loaded(self) -> Session: ...
    def run_window(
        self, batches: Iterable[_Tensors], output_tensors: _Tensors = (), hyperparam_dict: Mapping[str, float] | None = None
    ) -> list[tuple[SambaTensor, ...]]: ...
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
        reuse_inputs: str | SambaTensor | Sequence[str | SambaTensor] = (),
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
        reuse_inputs: str | SambaTensor | Sequence[str | SambaTensor] = (),
    ) -> tuple[SambaTensor, ...]: ...
    def graph_of(self, call: str, model: Any, graph_name: str | None = None) -> str | None: ...
    def trains(self, train: bool = True, graph_name: str | None = None) -> bool: ...
    def has(self, name: str) -> bool: ...
    def has_traced(self, tensor: SambaTensor) -> bool: ...
    def start_of(self, output: str) -> float: ...
    def to_onnx(self, path: str | bytes | os.PathLike[str], opset: int = 0, graph_name: str | None = None) -> None: ...
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
    def use_legacy_names(use: bool) -> None: ...
    @staticmethod
    def use_abexit(func: Callable[..., object], *args: Any, **kwargs: Any) -> NoReturn: ...
    @staticmethod
    def atexit_register(func: Callable[..., object], *args: Any, **kwargs: Any) -> None: ...
    def reset_random_generator(self) -> None: ...
    def enable_lazy_param(
        self,
        seed: int | None = None,
        init_threads: int = 8,
        inverse_transform_sampling: bool = False,
        fp32_to_bf16_rounding: str = "nearest_even",
    ) -> None: ...
    @staticmethod
    def disable_lazy_param() -> None: ...
    @staticmethod
    def use_lazy_param() -> bool: ...
    @property
    def dynamic_dims(self) -> Any: ...
    @dynamic_dims.setter
    def dynamic_dims(self, dims: Any) -> None: ...
    def is_valid_aux_tensor_name(self, name: object) -> bool: ...
    def add_aux_tensor(self, name: str | SambaTensor, tensor: torch.Tensor | None = None) -> SambaTensor: ...
    def get_argin_names(self) -> OrderedSet[str]: ...
    def get_dropout_rate_argin_names(self) -> list[str]: ...
    def get_dropout_seed_argin_names(self) -> list[str]: ...
    def get_section_types(self) -> set[str]: ...
    def get_weight_names(self) -> list[str]: ...
    def get_samba_tensor_by_name(self, name: str) -> SambaTensor: ...
    def get_tensors_by_name(self, names: Iterable[str]) -> tuple[SambaTensor, ...]: ...
    def get_tensors(self, samba_tensors: Iterable[SambaTensor]) -> tuple[SambaTensor, ...]: ...
