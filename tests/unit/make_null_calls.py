# SPDX-License-Identifier: Apache-2.0
"""Writes null_calls.h for test_null.c from the public headers: every function, with each of its pointers NULL in turn and the
others as the test has them, and with all of them NULL. Usage: make_null_calls.py OUTPUT HEADER..."""

import re
import sys

# What stands for an argument that is not the one that is NULL: by its type, else by its kind below.
GIVEN = {
    "samba_value": "value",
    "samba_context *": "context",
    "const samba_context *": "context",
    "samba_session *": "session",
    "const samba_session *": "session",
    "samba_graph *": "graph",
    "const samba_graph *": "graph",
    "samba_tensor *": "tensor_",
    "const samba_tensor *": "tensor_",
    "samba_function *": "function",
    "const samba_function *": "function",
    "const char *": '"x"',
    "samba_multigraph *": "multigraph",
    "const samba_multigraph *": "multigraph",
    "samba_checkpoint *": "checkpoint",
    "const samba_checkpoint *": "checkpoint",
    "samba_tensor_list *": "tensors",
    "const samba_tensor_list *": "tensors",
    "samba_onnx *": "onnx",
    "const samba_onnx *": "onnx",
    "samba_lm *": "lm",
    "const samba_lm *": "lm",
    "samba_lm_adapter *": "adapter",
    "const samba_lm_adapter *": "adapter",
    "samba_generator *": "generator",
    "const samba_generator *": "generator",
    "samba_reading *": "reading",
    "const samba_tokenizer *": "tokenizer",
    "samba_token_encoder *": "encoder",
    "samba_token_stream *": "stream",
    "samba_source *": "source",
    "const samba_source *": "source",
    "samba_source *const *": "&source",
    "samba_loader *": "loader",
    "const samba_loader *": "loader",
    "samba_metric *": "metric",
    "const samba_metric *": "metric",
    "samba_tensor *const *": "&tensor_",
    "const samba_value *": "values",
    "samba_value *": "values",
    "const int64_t *": "sizes",
    "int64_t *": "sizes",
    "const int *": "numbers",
    "int *": "numbers",
    "const double *": "reals",
    "double *": "reals",
    "const char *const *": "names",
    "void *const *": "places",
    "bool": "false",
    "double": "0.5",
    "int": "1",
    "size_t": "64",
    "int64_t": "1",
    "uint64_t": "1",
}


def functions(headers):
    for header in headers:
        text = re.sub(r"/\*.*?\*/", " ", open(header, encoding="utf-8").read(), flags=re.S)
        for found in re.finditer(r"SAMBA_API\s+([^;{]+?)\b(samba_\w+)\((.*?)\)\s*;", text, flags=re.S):
            result, name, parameters = (" ".join(part.split()) for part in found.groups())
            yield result, name, [type_of(p) for p in split(parameters) if p not in ("", "void")]


def split(parameters):
    depth, part = 0, ""
    for letter in parameters + ",":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += letter


def type_of(parameter):
    if "(*" in parameter:
        return "function *"
    array = parameter.endswith("]")
    return re.sub(r"\b\w+(\[\w*\])?$", "", parameter).strip() + (" *" if array else "")


def given(kind):
    if kind in GIVEN:
        return GIVEN[kind]
    if kind.endswith("_options *") or kind == "const samba_allocator *" or kind == "function *":
        return "NULL"
    if kind.endswith("*"):
        return "(void *)room"
    return f"({kind}){{0}}"  # a compound literal, of numbers too


def is_pointer(kind):
    return kind.endswith("*") or kind.endswith("*const")


# A place for the result, and what a call is about: where one of these is NULL a call that can say so says ARGUMENT.
def must_refuse(result, kind, name):
    things = "session|function|multigraph|tensor|graph|checkpoint|reading|lm|source|loader|metric"
    about = re.match(rf"(const )?samba_({things}) \*$", kind)
    place = re.match(r"samba_\w+ \*\*$|samba_\w+_info \*$", kind)
    return result == "samba_status" and bool(about or place)


def main():
    output, headers = sys.argv[1], sys.argv[2:]
    calls, table = [], []
    for result, name, kinds in functions(headers):
        pointers = [i for i, kind in enumerate(kinds) if is_pointer(kind)]
        ways = [(i,) for i in pointers] + ([tuple(pointers)] if len(pointers) > 1 or not pointers else [])
        for way in ways:
            arguments = ["NULL" if i in way else given(kind) for i, kind in enumerate(kinds)]
            if len(way) != 1:
                arguments = [
                    "(samba_value){0}" if kind == "samba_value" else argument for kind, argument in zip(kinds, arguments)
                ]
            call = f"{name}({', '.join(arguments)})"
            label = f"call_{len(calls)}"
            refused = len(way) == 1 and must_refuse(result, kinds[way[0]], name)
            body = f"return (int){call};" if result == "samba_status" else f"(void){call};\n    return 0;"
            calls.append(f"static int {label}(void)\n{{\n    {body}\n}}\n")
            table.append(f'    {{"{name}", {way[0] if len(way) == 1 else -1}, {"true" if refused else "false"}, {label}}},\n')
    with open(output, "w", encoding="utf-8") as file:
        file.writelines(calls)
        file.write(
            "static const struct {\n    const char *name;\n    int argument; /* that is NULL; -1: all */\n    bool refused;\n    int (*call)(void);\n} calls[] = {\n"  # noqa: E501
        )
        file.writelines(table)
        file.write("};\n")


main()
