# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of sambaflow._core, cffi's API mode over the public headers and extension.h: no name is declared twice.

Usage: make_core.py OUTPUT_C HEADER...

cffi reads declarations, not preprocessor text. The headers are plain enough that little has to go: directives (a numeric #define
stays), extern "C", SAMBA_API and the bodies of inline functions."""

import re
import sys

import cffi


def declarations(text):
    """A header's declarations as cffi.FFI.cdef takes them."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'#ifdef __cplusplus\s*(extern "C" \{|\})\s*#endif', "", text)
    text = re.sub(r"\\\n", "", text)  # a directive of several lines is one
    text = re.sub(r"^static inline [^\n]*\}\n|^static inline .*?^\}\n", "", text, flags=re.S | re.M)
    kept = []
    for line in text.splitlines():
        if re.match(r"#define \w+ \d+$", line) or not line.startswith("#"):
            kept.append(line.replace("SAMBA_API ", ""))
    return "\n".join(kept)


def main():
    output, headers = sys.argv[1], sys.argv[2:]
    builder = cffi.FFI()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            builder.cdef(declarations(file.read()))
    builder.set_source("sambaflow._core", '#include "extension.h"\n', py_limited_api=True)
    builder.emit_c_code(output)


if __name__ == "__main__":
    main()
