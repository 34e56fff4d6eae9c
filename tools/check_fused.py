# SPDX-License-Identifier: Apache-2.0
"""Which loops of the kernels for aarch64 multiply and add in two instructions where one would do.

Reads the disassembly of the kernels' library: in every loop that has no other within it, a product (fmul) that one sum (fadd,
fsub) of the same loop takes, and nothing else, is a multiply-add that was not fused. Some sources round products and sums one by
one, so that a loop gives the bits that its instructions give apart (isa/uncontracted.h): pairs are counted there, and fine. Every
other source must have none, and those that multiply must fuse somewhere.

Usage: check_fused.py OBJDUMP LIBRARY SOURCE_FOLDER [--table]
"""

import os
import re
import subprocess
import sys

LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
BRANCH = re.compile(r"^(b\.?[a-z]*|cbn?z|tbn?z)$")
REGISTER = re.compile(r"\b[vsdq](\d+)\b")
# Code for the one source that gives it two operands, and rounds apart (tile/combined.c); tile/reduce.c only sums by it
APART = ("samba_row_sum_f32", "samba_row_sum_f64")
MULTIPLY = (
    "product_dense",
    "product_blocks",
    "product_rows",
    "product_winograd_tile",
    "attention_attention_tile",
    "tile_kernels",
)
ADD_TO_RESULT = ("bsl", "bit", "bif", "ins", "mla", "tbx")
FUSED = ("fmla", "fmls", "fmadd", "fmsub", "fnmadd", "fnmsub", "bfmmla")


def functions(objdump, library):
    """(object, function, [(address, operation, operands)]) of each function."""
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    where, name, body = None, None, []
    for line in text.splitlines():
        head = re.match(r"^(\S+):\s+file format", line)
        start = re.match(r"^[0-9a-f]+ <(.+)>:$", line)
        if head or start:
            if body:
                yield where, name, body
            body = []
            where = head.group(1) if head else where
            name = start.group(1) if start else None
            continue
        found = LINE.match(line)
        if found and name:
            body.append((int(found.group(1), 16), found.group(2), found.group(3)))
    if body:
        yield where, name, body


def loops(body):
    """The instructions of each loop that has no other in it."""
    at = {address: i for i, (address, _, _) in enumerate(body)}
    ranges = set()
    for i, (_, operation, operands) in enumerate(body):
        target = re.search(r"\b([0-9a-f]+) <", operands) if BRANCH.match(operation) else None
        first = at.get(int(target.group(1), 16)) if target else None
        if first is not None and first <= i:
            ranges.add((first, i))
    for first, last in sorted(ranges):
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in ranges):
            yield body[first : last + 1]


def unfused(loop):
    """Products whose one use is a sum, before their register is written again; the loop is read twice, as it runs."""
    pairs = []
    for i, (_, operation, operands) in enumerate(loop):
        if operation != "fmul":
            continue
        target = REGISTER.findall(operands)[0]
        uses = []
        for _, later, words in loop[i + 1 :] + loop[: i + 1]:
            if BRANCH.match(later):  # whose target, d8f4, may look like a register
                continue
            registers = REGISTER.findall(words)
            keeps = later.startswith(("st", "fcmp")) or not re.match(r"[vsdq]\d", words)  # no register of these is written
            sources = registers if keeps or later in FUSED + ADD_TO_RESULT else registers[1:]
            if target in sources:
                uses.append(later)
            if not keeps and registers[0] == target:
                break
        if uses in (["fadd"], ["fsub"]):
            pairs.append(operands)
    return pairs


def main():
    objdump, library, folder = sys.argv[1:4]
    table = "--table" in sys.argv
    apart = {
        os.path.splitext(os.path.relpath(os.path.join(root, file), folder))[0].replace(os.sep, "_")
        for root, _, files in os.walk(folder)
        for file in files
        if file.endswith(".c") and '#include "device/cpu/isa/uncontracted.h"' in open(os.path.join(root, file)).read()
    }
    count, bad = {}, 0
    for where, name, body in functions(objdump, library):
        source = re.sub(r"\.c\.o$", "", os.path.basename(where))
        total = count.setdefault(source, [0, 0, 0])
        for loop in loops(body):
            pairs, fused = unfused(loop), sum(operation in FUSED for _, operation, _ in loop)
            total[0] += 1
            total[1] += fused
            total[2] += len(pairs)
            if pairs and source not in apart and name not in APART:
                bad += 1
                print(f"{source}: {name}: a loop at {loop[0][0]:x} multiplies and adds apart: {'; '.join(pairs)}")
    for source, (all_loops, fused, pairs) in sorted(count.items()):
        if table:
            rule = " by rule" if source in apart else ""
            print(f"{source:28} {all_loops:5} loops {fused:6} multiply-adds fused, {pairs:5} apart{rule}")
    for source in MULTIPLY:
        if count.get(source, [0, 0])[1] == 0:
            bad += 1
            print(f"{source}: nothing is fused")
    return bad


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
