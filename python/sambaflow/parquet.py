# SPDX-License-Identifier: Apache-2.0
"""A Parquet file's rows as lines of jsonl, which is what sambaflow.prepare works on. pyarrow reads some rows at a time. A value
that is null is one that the line does not have. The lines' file has the time of the Parquet file, by which a preparation that was
interrupted knows its input."""

import contextlib
import json
import os
import tempfile

from sambaflow._core import lib
from sambaflow.errors import SambaError, raise_status

_ROWS, _BYTES = 128, 1 << 20  # that are in memory at once, beside the pages that they lie in


def is_parquet(path):
    return os.fsdecode(path).endswith(".parquet")


def _pyarrow(path):
    try:
        import pyarrow.parquet
    except ImportError:
        message = f"{path}: pyarrow reads Parquet, and it is not installed: pip install pyarrow, or write the rows as .jsonl"
        raise_status(lib.SAMBA_ERROR_UNSUPPORTED, message)
    return pyarrow


def _check_type(types, path, name, kind, of_text):
    value = kind.value_type if types.is_dictionary(kind) else kind
    texts = (types.is_string, types.is_large_string, getattr(types, "is_string_view", types.is_string))
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if not types.is_null(value) and not any(fits(value) for fits in (texts if of_text else lists)):
        expected = "string" if of_text else "list of struct"
        raise_status(lib.SAMBA_ERROR_FORMAT, f'{path}: column "{name}" is of type {kind}: expected {expected}')


def _columns(pyarrow, path, schema, prompt, completion):
    """Those that a preparation knows, in the file's order."""
    texts, others = [prompt, completion, "text", "category"], ["messages", "tools"]
    for name in texts + others:
        if schema.names.count(name) > 1:
            raise_status(lib.SAMBA_ERROR_FORMAT, f'{path}: there are several columns "{name}"')
    if not any(name in schema.names for name in (completion, "text", "messages")):
        there = ", ".join(f'"{name}"' for name in schema.names[:20])
        message = f'{path}: there is no column "{completion}", "text" or "messages"; its columns are {there or "none"}'
        raise_status(lib.SAMBA_ERROR_FORMAT, message)
    found = [name for name in schema.names if name in texts + others]
    for name in found:
        _check_type(pyarrow.types, path, name, schema.field(name).type, name in texts)
    return found


def _without_null(value):
    if isinstance(value, dict):
        return {name: _without_null(part) for name, part in value.items() if part is not None}
    return [_without_null(part) for part in value] if isinstance(value, list) else value


def _lines(pyarrow, path, prompt, completion):
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path, buffer_size=_BYTES, pre_buffer=False) as file:
            columns = _columns(pyarrow, path, file.schema_arrow, prompt, completion)
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    yield json.dumps(_without_null({name: row[name] for name in columns}), ensure_ascii=False) + "\n"
    except (UnicodeError, TypeError, RecursionError) as error:
        raise_status(lib.SAMBA_ERROR_FORMAT, f"{path}, row {number}: {error}")
    except (pyarrow.ArrowException, OSError) as error:
        raise_status(lib.SAMBA_ERROR_FORMAT, f"{path}: pyarrow cannot read it: {error}")


@contextlib.contextmanager
def as_lines(path, output, prompt=None, completion=None):
    """The path of a file of lines that has the rows; it lies beside the output, and goes when the preparation has ended."""
    path, output = os.fsdecode(path), os.path.abspath(os.fsdecode(output))
    pyarrow = _pyarrow(path)
    try:
        time = os.stat(path).st_mtime_ns
    except OSError as error:
        raise_status(lib.SAMBA_ERROR_FILE, f'cannot read "{path}": {error.strerror}')
    beside = os.path.dirname(output)
    with tempfile.TemporaryDirectory(prefix=".sambaflow-rows-", dir=beside if os.path.isdir(beside) else None) as folder:
        lines = os.path.join(folder, "rows.jsonl")
        try:
            with open(lines, "w", encoding="utf-8", newline="\n") as to:
                to.writelines(_lines(pyarrow, path, prompt or "prompt", completion or "completion"))
        except SambaError:
            raise
        except OSError as error:
            raise_status(lib.SAMBA_ERROR_FILE, f'{path}: cannot write its rows to "{lines}": {error.strerror or error}')
        os.utime(lines, ns=(time, time))
        yield lines
