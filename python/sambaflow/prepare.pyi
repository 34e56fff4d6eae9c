# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
import os

_Path = str | bytes | os.PathLike[str]
__all__ = ["prepare", "PACKINGS", "BOUNDARIES"]
PACKINGS: tuple[str, ...]
BOUNDARIES: tuple[str, ...]

def prepare(
    input_file_path: _Path,
    pretrained_tokenizer: _Path,
    output_path: _Path,
    *,
    max_seq_length: int | None = None,
    input_packing_config: str | None = None,
    packing_boundary: str | None = None,
    attention_boundary: str | None = None,
    eos_token: str | None = None,
    pad_token: str | None = None,
    vocab_size: int | None = None,
    prompt_keyword: str | None = None,
    completion_keyword: str | None = None,
    prompt_prefix: str | None = None,
    prompt_postfix: str | None = None,
    disable_space_separator: bool | None = None,
    keep_prompt_only_sequences: bool | None = None,
    categories_path: _Path | None = None,
    skip_bad: bool | None = None,
    num_training_splits: int | None = None,
    num_dev_splits: int | None = None,
    num_test_splits: int | None = None,
    dev_ratio: float | None = None,
    test_ratio: float | None = None,
    shuffle: bool | None = None,
    seed: int | None = None,
    num_workers: int | None = None,
    memory: int | None = None,
    overwrite_output_path: bool | None = None,
) -> dict[str, int]: ...
