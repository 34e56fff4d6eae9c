# SPDX-License-Identifier: Apache-2.0
"""Data preparation for language models: a file of lines, jsonl or text, becomes HDF5 files of sequences of one length. The work
is the library's (samba_prepare); docs/prepare.md has the rules. Neither torch nor NumPy is needed; for Parquet pyarrow is.

>>> from sambaflow.prepare import prepare
>>> try:
...     prepare("articles.csv", "gpt2", "prepared", max_seq_length=512)
... except ValueError as error:
...     print(error)
articles.csv: the name must end in .jsonl, for an object or a list of objects a line, or in .txt
"""

import os

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.errors import raise_status
from sambaflow.parquet import as_lines, is_parquet
from sambaflow.runtime import Context
from sambaflow.words import encoded, message, path_of

_Path = str | bytes | os.PathLike[str]

__all__ = ["prepare", "PACKINGS", "BOUNDARIES"]

_LONG = ("drop", "truncate_left", "truncate_right")
#: What `input_packing_config` takes, and the two boundaries.
PACKINGS: tuple[str, ...] = ("full", *(f"greedy::{word}" for word in _LONG), *(f"single::{word}" for word in _LONG))
BOUNDARIES: tuple[str, ...] = ("jsonl", "prompt_completion_pair")

_CHOICES = {"input_packing_config": ("packing", PACKINGS), "packing_boundary": ("packing_boundary", BOUNDARIES)}
_CHOICES["attention_boundary"] = ("attention_boundary", BOUNDARIES)
_WORDS = ("prompt_keyword", "completion_keyword", "prompt_prefix", "prompt_postfix", "eos_token", "pad_token")
_FLAGS = ("disable_space_separator", "keep_prompt_only_sequences", "skip_bad", "overwrite_output_path")
_NUMBERS = ("max_seq_length", "num_training_splits", "num_dev_splits", "num_test_splits", "dev_ratio", "test_ratio", "seed")
_NUMBERS += ("num_workers", "memory", "vocab_size")
_OPTIONS = {*_CHOICES, *_WORDS, *_FLAGS, *_NUMBERS, "categories_path", "shuffle"}
_COUNTS = ("articles", "bad_lines", "train_articles", "dev_articles", "test_articles", "train_sequences", "dev_sequences")
_COUNTS += ("train_tokens", "dev_tokens", "dropped_sequences", "dropped_units", "truncated_units")


def _set(options, name, value, kept):
    """One option of C's struct; `kept` holds what it points at."""
    if name in _CHOICES:
        field, words = _CHOICES[name]
        if value not in words:
            raise_status(lib.SAMBA_ERROR_ARGUMENT, f"{name} is {value!r:.100}: expected one of {', '.join(words)}")
        setattr(options, field, words.index(value))
    elif name in _WORDS or name == "categories_path":
        kept.append(ffi.new("char[]", path_of(value, name) if name == "categories_path" else encoded(value, name)))
        setattr(options, name, kept[-1])
    elif name in _FLAGS or name == "shuffle":
        if not isinstance(value, bool):
            raise errors.ArgumentTypeError(f"{name} is a bool: given {value!r:.100}")
        setattr(options, "no_shuffle" if name == "shuffle" else name, value != (name == "shuffle"))
    else:
        try:
            setattr(options, name, value)
        except OverflowError:
            raise_status(lib.SAMBA_ERROR_ARGUMENT, f"{name} is {value!r:.100}, which is out of range")


def _prepare(context, source, tokenizer, output, options, lines=None):
    """The counts; `lines`: of the rows of `source`."""
    result = ffi.new("samba_prepare_result *")
    status = lib.samba_prepare(context.c, lines or source, tokenizer, output, options, result)
    if status:
        said = message(lib.samba_error_message(context.c))
        raise_status(status, said.replace(os.fsdecode(lines) + ", line", os.fsdecode(source) + ", row") if lines else said)
    counts = {name: getattr(result, name) for name in _COUNTS}
    counts.update(max_batch_size_train=result.max_batch_train, max_batch_size_dev=result.max_batch_dev, resumed=result.resumed)
    return counts


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
) -> dict[str, int]:
    """Prepares a .jsonl, .txt or .parquet file by a tokenizer (a folder or a file) into a folder, and gives the counts as a dict:
    articles, sequences and tokens of each part, max_batch_size_train and max_batch_size_dev, and whether an earlier call had
    begun the work ("resumed"). Options are those of `sambaflow prepare`, with `shuffle` (True) for --no-shuffle; None: the
    default."""
    options = {name: value for name, value in locals().items() if name in _OPTIONS}
    context, kept = Context(), []
    c = ffi.new("samba_prepare_options *", lib.samba_prepare_defaults())
    for name, value in options.items():
        if value is not None:
            _set(c, name, value, kept)
    source, tokenizer = path_of(input_file_path, "input_file_path"), path_of(pretrained_tokenizer, "pretrained_tokenizer")
    output = path_of(output_path, "output_path")
    if not is_parquet(source):
        return _prepare(context, source, tokenizer, output, c)
    with as_lines(source, output, prompt_keyword, completion_keyword) as lines:
        return _prepare(context, source, tokenizer, output, c, os.fsencode(lines))
