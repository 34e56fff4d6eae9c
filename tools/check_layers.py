# SPDX-License-Identifier: Apache-2.0
"""Who may import whom in python/sambaflow: a line of LAYERS may import, at the top of its modules, itself and those above it.
What is imported inside a function, when it is called, may come from anywhere in `sambaflow.samba`; but what stands outside of
`sambaflow.samba` runs without torch and never imports it, nor torch. Usage: check_layers.py"""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1] / "python"
LAYERS = """
errors words logging sambacollections
dlpack report runtime launch checkpoint parquet __main__ sambaflow
onnx prepare text
onnx_backend
_state optimizer_facts keywords shown exits trees of_session profiler progress calls locations regions
nominal patches tracebacks seeds
changed attributes
arguments torch_methods directives transforms differences unwritten copies host_steps
sntype
sambatensor views functions nn experts packed
functional
left owned convert same_value asked pairs drawn
trace
rules
onnx_module eager starts ports
lazy materializers optim optimizers resume sambaloader runtime_profile settings auxiliary argconf transfers output_grads
lazy_param switches never_given saving profiling
forward
modes
graph multigraph sizes window
utils samba_session
metrics training
samba
"""


def name_of(path):
    """sambaflow.samba.rules.shape of its path; a package by its own name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit_of(module):
    """The word of LAYERS that a module belongs to."""
    parts = module.split(".")
    if len(parts) == 1:
        return "sambaflow"
    if parts[1] != "samba":
        return parts[1]
    return parts[2] if len(parts) > 2 else "samba"


def imports(tree, modules, everywhere):
    """(line, module) of each import of ours, and of torch: at the top alone, or in functions too."""
    for node in ast.walk(tree) if everywhere else tree.body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in inner]
        for name in names:
            yield node.lineno, name


def main():
    """Prints what breaks the layers; the exit status."""
    paths = sorted((ROOT / "sambaflow").rglob("*.py"))
    modules = {name_of(path) for path in paths}
    rank = {unit: i for i, line in enumerate(LAYERS.strip().split("\n")) for unit in line.split()}
    bad = []
    for path in paths:
        module, tree = name_of(path), ast.parse(path.read_text(encoding="utf-8"))
        inside = module == "sambaflow.samba" or module.startswith("sambaflow.samba.")
        where = path.relative_to(ROOT.parent)
        if unit_of(module) not in rank:
            bad.append(f"{where}: tools/check_layers.py has no line for {unit_of(module)}")
            continue
        for line, name in imports(tree, modules, everywhere=not inside):
            of_torch = name.partition(".")[0] == "torch" or name.startswith("sambaflow.samba.") or name == "sambaflow.samba"
            if not inside and of_torch:
                bad.append(f"{where}:{line}: imports {name}: what stands outside of sambaflow.samba runs without torch")
            elif inside and name in modules and rank.get(unit_of(name), 99) > rank[unit_of(module)]:
                bad.append(f"{where}:{line}: imports {name}, a layer above its own: import it in the function that needs it")
    for line in bad:
        print(f"house: {line}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
