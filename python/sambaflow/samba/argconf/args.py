# SPDX-License-Identifier: Apache-2.0
"""What a session may be set up with, as pydantic models with the defaults of the command line: `session.setup(args)` takes any of
them, and models of a program's own that inherit from them. A field that is not there, or of another kind, is pydantic's
ValidationError.

>>> import sambaflow.samba as samba
>>> from sambaflow.samba.argconf.args import FlattenSambaArgsAllowExtra, HydraSambaArgs
>>> args = FlattenSambaArgsAllowExtra(pef_name="digits", inference=True, hidden=32)
>>> args.batch_size, args.hidden
(1, 32)
>>> samba.session.setup(args)
>>> nested = HydraSambaArgs(compile={"precision": "bf16"}, run={"pef": "out/digits/digits.pef"})
>>> nested.compile.precision, nested.run.pef, nested.common.seed
('bf16', 'out/digits/digits.pef', 0)
>>> samba.session.setup(nested)
>>> samba.session.reset()
"""

from typing import Annotated, Any, Literal, Optional

from sambaflow import errors

try:
    from pydantic import BaseModel, ConfigDict, Field, model_validator
except ImportError as error:
    raise ImportError("sambaflow.samba.argconf.args needs the package pydantic, 2 or later: pip install pydantic") from error


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class CommonArgs(_Strict):
    """What compiling and running have alike.

    batch_size: samples in a step, those of the inputs. microbatch_size: samples that the device takes at a time, which changes no
    result and must divide it. inference: forward only. seed: of weights, dropout and samples. mapping: 'section' or 'spatial'.
    data_parallel: several replicas train."""

    batch_size: Annotated[int, Field(ge=1)] = 1
    microbatch_size: Annotated[Optional[int], Field(ge=1)] = None
    inference: bool = False
    seed: Annotated[int, Field(ge=0)] = 0
    mapping: Literal["section", "spatial"] = "section"
    data_parallel: bool = False

    @model_validator(mode="after")
    def _microbatches(self) -> "CommonArgs":
        if self.microbatch_size is not None and self.batch_size % self.microbatch_size:
            raise errors.ArgumentError(
                f"the microbatch size {self.microbatch_size} does not divide the batch size {self.batch_size}"
            )
        return self


class CompileArgs(_Strict):
    """What only compiling is told: see session.compile."""

    output_folder: str = "out"
    pef_name: Optional[str] = None
    precision: Literal["fp32", "bf16"] = "fp32"
    grad_accumulation_steps: Annotated[int, Field(ge=1)] = 1
    memory_budget: Annotated[int, Field(ge=0)] = 0
    fast_memory: Annotated[int, Field(ge=0)] = 0


class RunArgs(_Strict):
    """What only running is told. pef: the file. threads: of the device; 0: as many as there are processors. The rest is about
    replicas: docs/distributed.md. num_iterations: steps, which the session leaves to the program."""

    pef: str = ""
    threads: Annotated[int, Field(ge=0)] = 0
    reduce_on_rdu: bool = False
    data_parallel_mode: Literal["normal", "inorder", "optimal"] = "normal"
    shard_optimizer: bool = False
    reduce_dtype: Optional[Literal["float32", "bfloat16"]] = None
    num_iterations: Annotated[int, Field(ge=1)] = 100


class FlattenSambaArgsAllowExtra(CommonArgs, CompileArgs, RunArgs):
    """All of them side by side, and any of the program's own beside them."""

    model_config = ConfigDict(extra="allow", validate_assignment=True)
    command: Optional[str] = None


class HydraSambaArgs(BaseModel):
    """The same in parts, as configurations in files have them: `common`, `compile` and `run`. Others are the program's own."""

    model_config = ConfigDict(extra="allow", validate_assignment=True)
    command: Optional[str] = None
    common: CommonArgs = Field(default_factory=CommonArgs)
    compile: CompileArgs = Field(default_factory=CompileArgs)
    run: RunArgs = Field(default_factory=RunArgs)

    def flat(self) -> FlattenSambaArgsAllowExtra:
        """All in one."""
        found: dict[str, Any] = {**(self.model_extra or {}), "command": self.command}
        for part in (self.common, self.compile, self.run):
            found.update(part.model_dump())
        return FlattenSambaArgsAllowExtra(**found)
