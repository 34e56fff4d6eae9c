#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes include/sambaflow/operators.h: the public functions of those rows of ops.def whose column `call` is not none.

Usage: make_operators.py OPS_DEF OUTPUT"""

import re
import sys

HEAD = """/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that are one operator each and have no arguments but their operands, PyTorch's in name and meaning. Made of the table of
 * operators, src/ops.def. Operands broadcast. bfloat16 and float16 are computed in float32 and rounded once.
 * Errors stick to the graph: values of two graphs, shapes that do not broadcast, a dtype that PyTorch refuses too. */
#ifndef SAMBAFLOW_OPERATORS_H
#define SAMBAFLOW_OPERATORS_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
"""  # noqa: E501
KINDS = {
    "given": "operands as they are: those of another dtype than PyTorch takes are refused",
    "real": "functions of real numbers: integers and bool become float32, two operands meet in one dtype",
    "promoted": "two operands meet in the dtype of torch.result_type",
}
TAIL = """
#ifdef __cplusplus
}
#endif
#endif
"""


def functions(table):
    """(name, arity, call, comment) of each row that has a public function."""
    row = r"^OP\((\w+),\s*(-?\d+),.*,\s*(\w+)\)[ ]*(?:/\* (.*?) \*/)?$"
    return [(name, int(arity), call, words) for name, arity, call, words in re.findall(row, table, re.M) if call != "none"]


def declaration(name, arity, words):
    operands = ", ".join(f"samba_value {x}" for x in "abcdefgh"[:arity])
    return f"SAMBA_API samba_value samba_{name}({operands}); /* {words or f'torch.{name}'} */\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        found = functions(file.read())
    parts = [HEAD]
    for kind, meaning in KINDS.items():
        parts.append(f"\n/* ---- {meaning} ---- */\n")
        parts += [declaration(name, arity, words) for name, arity, call, words in found if call == kind]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("".join([*parts, TAIL]))


if __name__ == "__main__":
    main()
