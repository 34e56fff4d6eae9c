# SPDX-License-Identifier: Apache-2.0
"""Writes a text file as a C string: embed.py INPUT OUTPUT NAME."""

import sys

source, output, name = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    lines = file.read().splitlines()
escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?") for line in lines)
with open(output, "w", encoding="utf-8") as file:
    file.write('#include "report/report.h"\n\nconst char %s[] =\n' % name)
    file.writelines('    "%s\\n"\n' % line for line in escaped)
    file.write("    ;\n")
