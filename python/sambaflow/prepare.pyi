# SPDX-License-Identifier: Apache-2.0
import os

_Path = str | bytes | os.PathLike[str]

PACKINGS: tuple[str, ...]
BOUNDARIES: tuple[str, ...]

def prepare(
    input_file_path: _Path,
    pretrained_tokenizer: _Path,
    output_path: _Path,
    *,
    max_seq_length: int | None = ...,
    input_packing_config: str | None = ...,
    packing_boundary: str | None = ...,
    attention_boundary: str | None = ...,
    eos_token: str | None = ...,
    pad_token: str | None = ...,
    vocab_size: int | None = ...,
    prompt_keyword: str | None = ...,
    completion_keyword: str | None = ...,
    prompt_prefix: str | None = ...,
    prompt_postfix: str | None = ...,
    disable_space_separator: bool | None = ...,
    keep_prompt_only_sequences: bool | None = ...,
    categories_path: _Path | None = ...,
    skip_bad: bool | None = ...,
    num_training_splits: int | None = ...,
    num_dev_splits: int | None = ...,
    num_test_splits: int | None = ...,
    dev_ratio: float | None = ...,
    test_ratio: float | None = ...,
    shuffle: bool | None = ...,
    seed: int | None = ...,
    num_workers: int | None = ...,
    memory: int | None = ...,
    overwrite_output_path: bool | None = ...,
) -> dict[str, int]: ...
