#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what is made of src/optimizers.def: include/sambaflow/optimizers.h or, where OUTPUT ends in .pyi, the types of
samba.optim.

Usage: make_optimizers.py OPTIMIZERS_DEF OUTPUT"""

import re
import sys

HEADER = """/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers, with PyTorch's names, update rules and defaults (torch.optim; Lion: Chen et al. 2023). Made of their table, src/optimizers.def. */
#ifndef SAMBAFLOW_OPTIMIZERS_H
#define SAMBAFLOW_OPTIMIZERS_H

#include <sambaflow/context.h>

#ifdef __cplusplus
extern "C" {{
#endif

typedef enum samba_optimizer_kind {{ {kinds} }} samba_optimizer_kind;

/* One optimizer, which is also one parameter group. It reads the fields of its kind, which its function below names, and no others. Its numbers are
 * hyperparameters, which runs may change whatever they are here, also from 0, unless said otherwise; what true and false decide, and whether there is
 * a max_grad_norm, is compiled in.
 * `name` prefixes its hyperparameters when a model has several ("head.lr"); plain "lr" then sets all of them. */
typedef struct samba_optimizer {{
    size_t struct_size;
    samba_optimizer_kind kind;
    const char *name;                /* NULL: "optim0", "optim1" ... */
    int parameter_count;             /* 0: every parameter that no earlier optimizer names */
    const char *const *parameters;   /* exact names, or patterns with '*' and '?' ("*.bias"); NAME where one finds no parameter that is not taken */
{fields}    bool maximize;                   /* goes up the gradient */
    double max_grad_norm;            /* > 0: gradients of all optimizers' parameters are clipped to this global norm in
                                        GRADNORM; optimizers that give one must give the same */
}} samba_optimizer;

/* An optimizer with PyTorch's defaults, its learning rate too. */
SAMBA_API samba_optimizer samba_optimizer_defaults(samba_optimizer_kind kind);
/* So with that learning rate. */
{functions}
/* What an optimizer has: rows of the table, which last. */
typedef struct samba_optimizer_hyperparameter {{
    const char *name; /* of its field above */
    double value;     /* PyTorch's default */
    bool run;         /* a run may change it */
}} samba_optimizer_hyperparameter;
typedef struct samba_optimizer_state {{
    const char *name;  /* as in PyTorch's state_dict */
    bool of_parameter; /* a tensor of the parameter's shape, "<parameter>.<name>"; else one number, "<optimizer>.<name>" */
    const char *flag;  /* it is kept where that field is true; "": always */
    const char *idle;  /* while that hyperparameter is 0 steps leave it alone; "": none does */
}} samba_optimizer_state;
typedef struct samba_optimizer_facts {{
    samba_optimizer_kind kind;
    const char *name, *title; /* "adamw", "AdamW" */
    int hyperparameter_count, flag_count, state_count;
    const samba_optimizer_hyperparameter *hyperparameters;
    const char *const *flags; /* fields that are true or false, maximize among them */
    const samba_optimizer_state *states;
}} samba_optimizer_facts;
SAMBA_API int samba_optimizer_count(void);
/* NULL where there is no optimizer `index`. */
SAMBA_API const samba_optimizer_facts *samba_optimizer_facts_at(int index);

#ifdef __cplusplus
}}
#endif
#endif
"""  # noqa: E501
STUB = """# SPDX-License-Identifier: Apache-2.0
# Made of src/optimizers.def by tools/make_optimizers.py.
from typing import Any

import torch
from torch.optim.optimizer import ParamsT
"""


def arguments(text):
    """The arguments of a call whose bracket has been opened, as far as it is closed."""
    depth, found = 0, [""]
    for token in re.findall(r'"[^"]*"|.', text, re.S):
        depth += (token == "(") - (token == ")")
        if depth < 0:
            break
        if token == "," and depth == 0:
            found.append("")
        else:
            found[-1] += token
    return [" ".join(x.split()) for x in found]


def rows(table, macro):
    """The arguments of each row of a macro."""
    return [arguments(table[row.end() :]) for row in re.finditer(rf"^{macro}\(", table, re.M)]


def calls(text, macro):
    return [arguments(text[call.end() :]) for call in re.finditer(rf"\b{macro}\(", text)]


def sentence(help):
    return help[1].lower() + help[2:-1]


def field(kind, name, comment):
    return f"    {kind + ' ' + name + ';':<32} /* {comment} */\n"


def header(table):
    optimizers = rows(table, "OPTIMIZER")

    def takers(at, macro, name):
        return ", ".join(row[2] for row in optimizers if name in [call[0] for call in calls(row[at], macro)])

    every = len(optimizers)
    fields = ""
    for name, _, _, when, help in rows(table, "HYPERPARAMETER"):
        users = takers(8, "TAKES", name)
        whose = "" if users.count(",") + 1 == every else f" ({users})"
        fields += field("double", name, sentence(help) + whose + ("" if when == "RUN" else "; compiled in"))
    for name, _, help in rows(table, "FLAG"):
        fields += field("bool", name, f"{sentence(help)} ({takers(9, 'HAS', name)})")
    functions = ""
    for row in optimizers:
        defaults = [f"{name} {value}" for name, value in calls(row[8], "TAKES") if name != "lr"] + [
            call[0] for call in calls(row[9], "HAS")
        ]
        functions += (
            f"SAMBA_API samba_optimizer samba_{row[3]}(double lr); /* {row[4].strip(chr(34))}: {', '.join(defaults)} */\n"
        )
    return HEADER.format(kinds=", ".join(f"SAMBA_{row[0]} = {row[1]}" for row in optimizers), fields=fields, functions=functions)


def stub(table):
    text = STUB
    for row in rows(table, "OPTIMIZER"):
        lr = dict(calls(row[8], "TAKES"))["lr"]
        base = row[4].strip('"') if row[4].startswith('"torch.') else "torch.optim.Optimizer"
        text += (
            f"\nclass {row[2]}({base}):\n    max_grad_norm: float | None\n"
            f"    def __init__(self, params: ParamsT, lr: float = {lr}, *args: Any, max_grad_norm: float | None = None, "
            "**kwargs: Any) -> None: ...\n"
        )
    return text


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        table = file.read()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write((stub if sys.argv[2].endswith(".pyi") else header)(table))


if __name__ == "__main__":
    main()
