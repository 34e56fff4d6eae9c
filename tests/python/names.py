# SPDX-License-Identifier: Apache-2.0
"""Every name of the documents, where it is implemented and which test uses it: makes docs/names.md, and says whether it is what
it should be.

Needs Python alone: sources and tests are read, not imported. A name is looked up as Python would, through imports and base
classes; what ends in a class of torch is torch's. The test is the first of the documents' tests that has the name in its own
name, else the first that uses it, tests of the documents before others. statements.py adds what the documents state of arguments.
test_names.py imports the package and compares.

Usage: names.py [--write]"""

import ast
import functools
import pathlib
import re
import sys

import statements

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "names.md"
TESTS = ROOT / "tests" / "python"

# document -> (where its names live, names)
DOCUMENTS = {
    "samba.sambatensor: SambaTensor": (
        "sambaflow.samba.sambatensor.SambaTensor",
        """__getitem__ __setitem__ backward bfloat16 bool clear_data cpu cpu_ data_ptr dim element_size float int is_fast_access
        is_floating_point item long materialize_ ndimension nelement new_empty new_full new_ones new_zeros numel permute rdu
        requires_grad_ reshape reusable short size stride to torch torch_tensor type type_as view_as T data device dtype
        fast_access grad materializer materializer_provided ndim requires_grad shape
        sn_data sn_grad sn_grad_name sn_name sn_region_name""",
    ),
    "samba.sambatensor: functions": ("sambaflow.samba", "SambaTensor from_torch_tensor to_torch"),
    "samba.session: SambaSession": (
        "sambaflow.samba.samba_session.SambaSession",
        """add_graph atexit_register compile compile_multigraph disable_graphamp disable_lazy_param disable_pinned_memory
        enable_lazy_param enable_pinned_memory end_runtime_profile end_samba_profile get_argin_names get_dropout_rate_argin_names
        get_dropout_seed_argin_names get_samba_tensor_by_name get_section_types get_tensors get_tensors_by_name get_weight_names
        init_multigraph_runtime reset reset_random_generator run samba_profile setup start_runtime_profile start_samba_profile
        sync_buffers_to_cpu sync_buffers_to_rdu to_cpu
        to_cpu_ to_device to_rdu update_tensor use_abexit use_lazy_param use_legacy_names use_pinned_memory use_static_functional profiler tracing""",  # noqa: E501
    ),
    "samba.utils": ("sambaflow.samba.utils", "init_output_grads trace_graph trace_multigraph"),
    "slides and overview": (
        "sambaflow.samba",
        """from_torch_model_ from_torch_model session randn randint rand add SambaTensor.batch_dim
        SambaTensor.mem_type optim.SGD optim.AdamW utils.utils.trace_graph utils.measure_performance
        utils.measure_sections utils.get_file_dir utils.argparser.parse_app_args utils.common.common_app_driver sambaloader.SambaLoader""",  # noqa: E501
    ),
    "what programs import": (
        "sambaflow",
        """__version__ samba.from_torch samba.from_named_dict samba.zeros samba.ones samba.full samba.empty samba.arange samba.functional samba.nn
        samba.nn.parameter.SambaParameter samba.set_seed samba.utils.set_seed samba.utils.get_rank samba.utils.get_world_size
        samba.utils.get_local_rank samba.utils.is_main_process samba.utils.argparser.parse_yaml_to_args samba.utils.dataset.mnist.dataset_transform
        samba.utils.pef_utils.get_pefmeta samba.utils.pef_utils.get_pefmeta_dict samba.directives.op_fusion samba.graph.FwdGraph
        samba.graph.SambaGraph samba.profiler.Profiler logging.samba_logger sambacollections.OrderedSet""",  # noqa: E501
    ),
    "what public programs use besides": (
        "sambaflow.samba",
        """from_torch_tensor_ sn_gather sn_scatter sn_multinomial groupby triu_fill functional.sn_gather functional.stir.sn_imm
        functional.stir.sn_iteridx functional.stir.sn_select functional.stir.sn_zipmapreduce utils.SNType lazy_param
        lazy_param.RNGProvider lazy_param.RNGProviderFactory argconf.args.CommonArgs argconf.args.CompileArgs argconf.args.RunArgs
        argconf.args.FlattenSambaArgsAllowExtra argconf.args.HydraSambaArgs utils.pef_utils.PefInfoStruct
        utils.pef_utils.get_pef_info directives.sdpa_directives utils.checkpoint.load_sharded_checkpoint""",
    ),
    "what public programs use of a session": (
        "sambaflow.samba.samba_session.SambaSession",
        "add_aux_tensor dynamic_dims is_valid_aux_tensor_name",
    ),
    "what public programs use of a profiler": (
        "sambaflow.samba.profiler.Profiler",
        "end_event get_latencies get_throughputs start_event",
    ),
}


# ---- where a name is implemented ----


@functools.lru_cache(None)
def module_of(path):
    """(file, its statements) of a module of the package; None where there is none."""
    base = ROOT / "python" / pathlib.Path(*path.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.exists():
            return file, ast.parse(file.read_text(encoding="utf-8")).body
    return None


def bound(statements):
    """(name, statement that binds it) of a module's or a class's statements, the last one of a name last."""
    for node in statements:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for leaf in ast.walk(target):
                    if isinstance(leaf, ast.Name):
                        yield leaf.id, node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], node
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.For)):
            yield from bound(node.body + getattr(node, "orelse", []))


def generated(statements, name):
    """Whether a module makes names from text: a list of words, split, that has it."""
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and name in node.value.split()
        for statement in statements
        if isinstance(statement, ast.Assign)
        for node in ast.walk(statement)
    )


OPTIMIZERS = (ROOT / "src" / "optimizers.def").read_text(encoding="utf-8")  # whose rows are classes
REFUSED = "refused"


def refuses(node):
    """Whether a function does nothing but raise."""
    return isinstance(node, ast.FunctionDef) and all(
        isinstance(x, ast.Raise) for x in node.body[ast.get_docstring(node) is not None :]
    )


def find(path, name):
    """`file: name` where module `path` has `name`; REFUSED where that only raises, None where it has not."""
    if not module_of(path):
        return None
    file, statements = module_of(path)
    node = dict(bound(statements)).get(name)
    if isinstance(node, ast.ImportFrom):
        original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
        if module_of(f"{node.module}.{original}"):
            return shown(module_of(f"{node.module}.{original}")[0])
        return find(node.module, original)
    if node is not None:
        return REFUSED if refuses(node) else shown(file, name)
    for star in statements:
        if isinstance(star, ast.ImportFrom) and star.names[0].name == "*" and module_of(star.module):
            found = find(star.module, name)
            if found:
                return found
    if generated(statements, name) or (path == "sambaflow.samba.optim" and f" {name}, " in OPTIMIZERS):
        return shown(file, name)
    return shown(module_of(f"{path}.{name}")[0]) if module_of(f"{path}.{name}") else None


def attributes(node):
    """Names that a class binds, also in the methods that make an object."""
    yield from (name for name, _ in bound(node.body))
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name in ("__init__", "__new__"):
            for leaf in ast.walk(method):
                if isinstance(leaf, ast.Attribute) and isinstance(leaf.ctx, ast.Store):
                    yield leaf.attr


def find_member(path, owner, name):
    """The same for a class of a module."""
    file, statements = module_of(path)
    node = dict(bound(statements))[owner]
    if isinstance(node, ast.ImportFrom):
        return find_member(node.module, owner, name)
    if name in attributes(node):
        return REFUSED if refuses(dict(bound(node.body)).get(name)) else shown(file, f"{owner}.{name}")
    for base in node.bases:
        words = ast.unparse(base)
        if words.startswith("torch."):
            return name if name in OF_TORCH.split() and words == "torch.Tensor" else None
        found = find_member(path, words, name)
        if found:
            return found
    return None


# What SambaTensor has from torch.Tensor, which works on it as it is.
OF_TORCH = """__getitem__ __setitem__ backward bfloat16 bool dim element_size float int is_floating_point long ndimension nelement
new_empty new_full new_ones new_zeros numel
permute requires_grad_ reshape short size stride to type_as view_as T device dtype grad ndim requires_grad shape"""


def shown(file, name=None):
    return f"{file.relative_to(ROOT / 'python').as_posix()}" + (f": {name}" if name else "")


def implemented(home, name):
    """Where, as a line of the page; '' where it is nowhere."""
    *path, last = f"{home}.{name}".split(".")
    if path[-1][0].isupper():
        found = find_member(".".join(path[:-1]), path[-1], last)
        return f"torch.Tensor.{last}" if found == last else found or ""
    return find(".".join(path), last) or ""


# ---- which test uses it ----


def used(node):
    """Names that a function uses: attributes of anything but torch and its like, names, `x[...]` and `x[...] = ...`; in strings,
    which may be programs or examples, words behind a dot."""
    foreign = ("torch", "nn", "F", "np", "numpy", "pytest", "os", "sys", "ffi", "lib")
    for leaf in ast.walk(node):
        if isinstance(leaf, ast.Attribute) and not (isinstance(leaf.value, ast.Name) and leaf.value.id in foreign):
            yield leaf.attr
        elif isinstance(leaf, ast.Name):
            yield leaf.id
        elif isinstance(leaf, ast.ImportFrom):
            yield from (alias.name for alias in leaf.names)
        elif isinstance(leaf, ast.Subscript):
            yield "__setitem__" if isinstance(leaf.ctx, ast.Store) else "__getitem__"
        elif isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
            yield from re.findall(r"(?<!torch)\.(\w+)", leaf.value)


@functools.lru_cache(None)
def tests():
    """(file, function, names it uses), tests of the documents first;
    what a function of the file does belongs to those that call it."""
    rows = []
    for file in sorted(TESTS.glob("test_*.py"), key=lambda file: (not file.name.startswith("test_document"), file.name)):
        functions = {
            node.name: node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)
        }
        uses = {name: set(used(node)) for name, node in functions.items()}
        for name in functions:
            reached, front = set(), {name}
            while front:
                reached |= front
                front = {callee for each in front for callee in uses[each] & functions.keys()} - reached
            if name.startswith("test_"):
                rows.append((file.name, name, set().union(*(uses[each] for each in reached))))
    return rows


def tested(home, name):
    """`file: function`; '' while no test uses the name."""
    last = name.rsplit(".", 1)[-1]
    fitting = [row for row in tests() if last in row[2]]
    if home.endswith("SambaTensor"):
        fitting.sort(key=lambda row: row[0] != "test_document_tensor.py")
    fitting.sort(
        key=lambda row: not row[0].startswith("test_document") or not re.search(rf"(?<![a-z]){last.strip('_')}(?![a-z])", row[1])
    )
    return f"{fitting[0][0]}: {fitting[0][1]}" if fitting else ""


def rows(document):
    """(name, implemented, tested) of a document's names."""
    home, names = DOCUMENTS[document]
    return [
        (name, implemented(home, name), tested(home, name))
        for name in sorted(names.split(), key=lambda name: (name.lower(), name))
    ]


def page():
    """The text of docs/names.md."""
    lines = [
        "# Names of the documents",
        "",
        "Made by `tests/python/names.py --write`, which reads `python` and `tests`; `make check` fails when it is not",
        "what that makes, or a name, an argument or a word has no test. Files are those of `python`, `tests/python` and",
        "`tests/unit`. What is refused raises an UnsupportedError that says what to do. The tables at the end say what the",
        "documents state, argument by argument.",
    ]
    for document in DOCUMENTS:
        lines += ["", f"## {document}", "", "| name | implemented | tested |", "| --- | --- | --- |"]
        for name, where, test in rows(document):
            lines.append(f"| `{name}` | {where if where == REFUSED else f'`{where}`'} | `{test}` |")
    return "\n".join(lines + statements.page()) + "\n"


def missing():
    """Names that are nowhere, or that no test uses; what statements.py finds missing."""
    return [
        f"{document}: {name}" for document in DOCUMENTS for name, where, test in rows(document) if not where or not test
    ] + statements.gaps()


if __name__ == "__main__":
    if missing():
        sys.exit("not implemented, or used by no test:\n" + "\n".join(missing()))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/names.md is stale: run python3 tests/python/names.py --write")
