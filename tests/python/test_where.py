# SPDX-License-Identifier: Apache-2.0
"""Where in the user's model an operator comes from: in graphs, in errors, when a PEF's graph is compared; what asks for values;
graphs as objects; the hint op_fusion; a PEF in a notebook."""

import html.parser
import inspect
import json
import pathlib
import re
import subprocess
import sys
import warnings

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.errors import SambaError
from sambaflow.samba.directives import op_fusion
from sambaflow.samba.graph import FwdGraph, Operator, SambaGraph
from sambaflow.samba.utils.pef_utils import get_pefmeta, get_pefmeta_dict

HERE = pathlib.Path(__file__).name


def line_of(function, code):
    """'test_where.py:42' of the line of a function that has that text."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [i for i, line in enumerate(lines) if code in line]
    return f"{HERE}:{first + at}"


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.act = torch.nn.GELU()

    def forward(self, x):
        y = self.lin(x)
        return self.act(y) - y.exp()


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.tail = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.tail(x).sum()


def graph_of(forward, *inputs, **kwargs):
    """A FwdGraph of a function."""
    model = torch.nn.Module()
    model.forward = forward
    return FwdGraph(model, inputs or (samba.randn(4, 4, name="x"),), **kwargs)


def test_module_and_line_of_each_operator():
    graph = SambaGraph(samba.from_torch_model(Stack()), (samba.randn(2, 4, name="x"),), name="stack")
    places = {(o.op, o.module): o.source for o in graph if o.phase}
    for i in range(2):
        assert places["matmul", f"blocks.{i}.lin"] == line_of(Block.forward, "self.lin")
        assert places["gelu", f"blocks.{i}.act"] == line_of(Block.forward, "self.act")
        assert places["exp", f"blocks.{i}"] == places["sub", f"blocks.{i}"] == line_of(Block.forward, "y.exp()")
    # inside modules of torch the line is the one that called them
    assert places["tanh", "tail.1"] == places["matmul", "tail.0"] == places["sum", ""] == line_of(Stack.forward, "self.tail")


def test_modules_that_the_model_does_not_have_count_to_their_caller():
    class Makes(torch.nn.Module):
        def forward(self, x):
            return torch.nn.Sequential(torch.nn.ReLU())(x)

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.makes = Makes()

        def forward(self, x):
            return self.makes(x)

    (relu,) = [o for o in FwdGraph(Outer(), (samba.randn(3, name="x"),)) if o.phase]
    assert (relu.op, relu.module, relu.source) == ("relu", "makes", line_of(Makes.forward, "ReLU"))


def test_nothing_stays_behind_after_an_error():
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    hooks = torch.nn.modules.module
    before = len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)
    for _ in range(2):
        with pytest.raises(KeyError, match="^'mine'$"):  # the user's own error as it is
            samba.session.compile(torch.nn.Sequential(Fails()), (samba.randn(2, name="x"),))
    assert (len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)) == before
    assert not samba.session.tracing and Fails.__call__ is torch.nn.Module.__call__


# ---- errors ----


class Deep(torch.nn.Module):
    """A model with a module encoder.layers.0 whose forward is given."""

    def __init__(self, forward):
        super().__init__()
        layer = torch.nn.Module()
        layer.forward = forward
        self.encoder = torch.nn.Module()
        self.encoder.layers = torch.nn.ModuleList([layer])

    def forward(self, x):
        return self.encoder.layers[0](x)


def trace_deep(forward):
    return str(FwdGraph(Deep(forward), (samba.randn(4, 6, name="x"),)))


@pytest.mark.parametrize(
    "forward, kind, words",
    [
        (lambda x: x @ x, ValueError, "matmul: "),  # ShapeError of the library
        (lambda x: torch.nn.functional.linear(x, torch.ones(3, 5)), ValueError, "linear: "),
        (lambda x: x.view(5, 5), ValueError, ""),
        (lambda x: torch.nn.functional.embedding(x, torch.ones(3, 5)), TypeError, "embedding: "),  # DtypeError
        (lambda x: torch.cat([x, x[0]]), (ValueError, IndexError), ""),
        (lambda x: x.sum(2), ValueError, "sum: "),
        (lambda x: x[7], IndexError, "index 7"),
        (lambda x: torch.special.airy_ai(x), NotImplementedError, "airy_ai"),  # no rule
    ],
)
def test_errors_name_module_and_line(forward, kind, words):
    with pytest.raises(kind) as caught:
        trace_deep(forward)
    place = f" (in module encoder.layers.0, {HERE}:{forward.__code__.co_firstlineno})"
    assert words in str(caught.value) and str(caught.value).endswith(place) and str(caught.value).count("(in ") == 1


MASKS = "torch.where(mask, x, 0)"


@pytest.mark.parametrize(
    "forward, what, instead",
    [
        (lambda x: x.sum().item(), "item()", "pass it as an input"),
        (lambda x: int(x.sum()), "int()", "pass it as an input"),
        (lambda x: float(x.sum()), "float()", "pass it as an input"),
        (lambda x: complex(x.sum()), "complex()", "pass it as an input"),
        (lambda x: x.tolist(), "tolist()", "pass it as an input"),
        (lambda x: x.numpy(), "numpy()", "must be an output"),
        (lambda x: x.__array__(), "numpy()", "must be an output"),
        (lambda x: x.__dlpack__(), "__dlpack__()", "must be an output"),
        (lambda x: x if x.sum() > 0 else -x, "bool()", "torch.where(condition, a, b)"),
        (lambda x: x if torch.is_nonzero(x.sum()) else -x, "bool()", "torch.where(condition, a, b)"),
        (lambda x: x if torch.equal(x, -x) else -x, "equal", "torch.where(condition, a, b)"),
        (lambda x: x if torch.allclose(x, -x) else -x, "allclose", "torch.where(condition, a, b)"),
        (lambda x: x if 3 in x else -x, "in", "torch.where(condition, a, b)"),
        (lambda x: [x * i for i in range(x.argmax())][0], "an index of Python", "torch.gather"),
        (lambda x: x[x > 0], "x[mask]", MASKS),
        (lambda x: x[:, (x > 0)[0]], "x[mask]", MASKS),
        (lambda x: x.masked_select(x > 0), "masked_select", MASKS),
        (lambda x: torch.masked_select(x, x > 0), "masked_select", MASKS),
        (lambda x: torch.nonzero(x), "nonzero", "torch.where(condition, a, b)"),
        (lambda x: x.nonzero(as_tuple=True)[0], "nonzero", "torch.where(condition, a, b)"),
        (lambda x: torch.argwhere(x), "argwhere", "torch.where(condition, a, b)"),
        (lambda x: torch.where(x > 0)[0], "torch.where(condition)", "where(condition, a, b)"),
        (lambda x: torch.unique(x), "unique", "torch.arange(n)"),
        (lambda x: x.unique(), "unique", "torch.arange(n)"),
        (lambda x: torch.unique_consecutive(x), "unique_consecutive", "torch.arange(n)"),
        (lambda x: torch.bincount(x.long()[0]), "bincount", "give minlength"),
    ],
)
def test_asking_for_values(forward, what, instead):
    with pytest.raises(NotImplementedError) as caught:
        trace_deep(forward)
    message = str(caught.value)
    assert message.startswith(what) and instead in message
    assert f"(in module encoder.layers.0, {HERE}:{forward.__code__.co_firstlineno}" in message


def test_a_loss_is_wrong_where_it_was_computed(tmp_path):
    model = Deep(lambda x: x.argmax())
    with pytest.raises(TypeError) as caught:
        samba.session.compile(model, (samba.randn(4, name="x"),), loss_indices=[0], output_folder=str(tmp_path))
    assert "loss: expected a floating-point value, given int64" in str(caught.value)
    assert re.search(r" \(in module encoder.layers.0, test_where.py:\d+\)$", str(caught.value))


def test_missing_operators_have_the_names_that_were_called():
    """Not those of what torch takes them apart into."""
    for forward, said in (
        (lambda x: torch.special.log_ndtr(x), r"torch\.special\.log_ndtr \(prims\.erfcx\.default\) has no operator here"),
        (lambda x: torch.diagonal_scatter(x[:4, :4], x[0, :4]), r"torch\.diagonal_scatter \(prims\.copy_to.*\) has no operator"),
        (lambda x: x.igamma_(x), r"torch\.Tensor\.igamma_ \("),
        (lambda x: torch.linalg.lu_factor(x)[0], r"torch\.linalg\.lu_factor"),
    ):
        with pytest.raises(NotImplementedError, match=said):
            trace_deep(forward)


def test_results_without_tensors(tmp_path):
    """They are refused by the model's name, unless what it writes stays on the device."""
    for result, said in ((None, "None"), (3, "3 of int"), ([], r"\[\] of list"), ({"loss": 0.5}, "{'loss': 0.5} of dict")):
        with pytest.raises(
            ValueError,
            match=f"the forward pass of Deep returned {said}, in which there is no tensor: return what a run is to give",
        ):
            trace_deep(lambda x: result)

    class Push(torch.nn.Module):
        def forward(self, cache, row):
            cache.index_copy_(0, torch.tensor([1]), row)

    inputs = (samba.zeros(3, 2, name="cache", region_name="kv"), samba.ones(1, 2, name="row"))
    pef = samba.session.compile(Push(), inputs, inference=True, output_folder=tmp_path)
    assert utils.trace_graph(Push(), inputs, pef=pef) == [] and samba.session.run(inputs) == ()
    assert inputs[0].sn_data.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_transforms_of_functions(tmp_path):
    """torch.vmap has its function once for each sample where tensors of the model come in, as arguments or beside them; of
    constants it is torch's, as is the derivative of a function of its arguments alone."""

    class Model(torch.nn.Module):
        def __init__(self, function):
            super().__init__()
            self.lin, self.function = torch.nn.Linear(3, 3), function

        def forward(self, x):
            return self.function(self, x)

    def loss(weight, row):
        return torch.nn.functional.linear(row, weight).square().sum()

    def scan(x):
        from torch._higher_order_ops.associative_scan import associative_scan

        return associative_scan(lambda a, b: a * 0.5 + b, x, 0, combine_mode="generic")

    x = torch.randn(3, 3)
    inputs = (samba.from_torch_tensor(x, name="x"),)
    for function in (
        lambda m, x: torch.vmap(m.lin)(x),
        lambda m, x: torch.vmap(m.lin, in_dims=1, out_dims=-1)(x),
        lambda m, x: torch.vmap(lambda row: (row * 2).sum())(x),
        lambda m, x: torch.vmap(m.lin)(torch.ones(2, 3)),
        lambda m, x: torch.vmap(m.lin)(x[:0]).sum() + x,
        lambda m, x: torch.vmap(torch.vmap(lambda a, b: a * b, (0, None)), (None, 0))(x[0], x[1]),
        lambda m, x: torch.vmap(lambda pair: {"sum": pair[0] + pair[1]}, in_dims=((0, None),))((x, x[0]))["sum"],
        lambda m, x: torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(m.lin.weight, x),  # of each sample
        lambda m, x: scan(x),
        lambda m, x: x + torch.vmap(lambda row: row * 2)(torch.ones(3, 3)),
        lambda m, x: torch.func.grad(lambda z: (z**3).sum())(x),
    ):
        samba.session.reset()
        model = samba.from_torch_model_(Model(function))
        expected = function(model, x).detach()
        pef = samba.session.compile(model, inputs, inference=True, output_folder=tmp_path)
        outputs = utils.trace_graph(model, inputs, pef=pef)
        torch.testing.assert_close(samba.session.run(inputs, outputs)[0].torch(), expected)
    torch.testing.assert_close(torch.vmap(lambda row: row * 2)(inputs[0]).torch(), x * 2)  # outside tracing it is as ever
    for function, words in (
        (lambda m, x: torch.vmap(m.lin)(x.repeat(100, 1)), "torch.vmap over 300 samples, .* 256 times at most: .*"),
        (lambda m, x: torch.vmap(m.lin, randomness="same")(x), "torch.vmap with randomness='same', .*"),
        (lambda m, x: torch.vmap(lambda row: 1)(x), "torch.vmap: the function must give tensors, and gave int"),
        (lambda m, x: torch.vmap(m.lin, out_dims=(0, 0))(x), r"torch.vmap: out_dims \(0, 0\) do not fit what .*"),
    ):
        with pytest.raises(SambaError, match=rf"{words} \(in .*{HERE}"):
            SambaGraph(samba.from_torch_model_(Model(function)), inputs).output_tensors


def test_autocast_is_refused():
    def cast(enabled, device="cpu"):
        def forward(x):
            with torch.autocast(device, dtype=torch.bfloat16, enabled=enabled):
                return x * 2

        return forward

    with pytest.raises(NotImplementedError, match=rf"torch.autocast is on .* precision='bf16'.*{HERE}"):
        trace_deep(cast(True))
    trace_deep(cast(False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no such device, as torch says
        trace_deep(cast(True, "cuda"))


@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="torch has no stances yet")
def test_what_torch_compile_has_made(tmp_path):
    doubled, x = torch.compile(lambda x: torch.tanh(x) * 2), torch.randn(4, 3)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(3, 2)

        def forward(self, x):
            return doubled(self.lin(x))

    for model in (Model(), torch.compile(Model())):
        expected = torch.tanh(torch.nn.functional.linear(x, *model.parameters())) * 2
        inputs = (samba.from_torch_tensor(x, name="x"),)
        pef = samba.session.compile(samba.from_torch_model_(model), inputs, inference=True, output_folder=tmp_path)
        torch.testing.assert_close(samba.session.run(inputs, utils.trace_graph(model, inputs, pef=pef))[0].torch(), expected)


def test_parameters_have_no_values_either():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            return x * self.scale.item()  # would be a constant of the PEF

    with pytest.raises(NotImplementedError, match=r"item\(\) asks .* \(in test_where.py:\d+: return x \* self.scale.item"):
        str(FwdGraph(samba.from_torch_model(Scaled()), (samba.randn(3, name="x"),)))


def test_what_is_known_may_be_asked():
    mask, rows = torch.tensor([True, False, True]), torch.tensor([[True, False], [False, True]])

    def forward(x, y):
        assert len(x) == 3 and x.shape[1] == 2 and x.dim() == 2 and bool(mask.any()) and mask.sum().item() == 2
        return x[mask] + int(mask.sum()), y[rows], [row for row in x][0]

    a, b, c = graph_of(forward, samba.randn(3, 2, name="x"), samba.randn(2, 2, name="y")).output_tensors
    assert a.shape == (2, 2) and b.shape == (2,) and c.shape == (2,)


def test_masks_that_are_known_pick_what_torch_picks(tmp_path):
    mask = torch.tensor([True, False, True])
    model = torch.nn.Module()
    model.forward = lambda x: x[mask]
    x = samba.randn(3, 2, name="x")
    pef = samba.session.compile(model, (x,), inference=True, output_folder=str(tmp_path), name="mask")
    outputs = utils.trace_graph(model, (x,), pef=pef)
    assert torch.equal(samba.session.run((x,), outputs)[0].torch(), x.torch()[mask])


# ---- the PEF's graph and the model's ----

MOVED = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):{lines}
        return torch.{function}(self.lin(x)).sum()
"""


def moved(folder, name, lines, function):
    file = folder / name
    file.write_text(MOVED.format(lines=lines, function=function))
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    return samba.from_torch_model(scope["Model"]())


def test_a_line_that_moved_is_the_same_model(tmp_path):
    x = samba.randn(2, 3, name="x")
    first = moved(tmp_path, "first.py", "", "tanh")
    optim = samba.optim.SGD(first.parameters(), lr=0.1)
    pef = samba.session.compile(first, (x,), optim, output_folder=str(tmp_path), name="moved")
    same = moved(tmp_path, "second.py", "\n" * 7, "tanh")
    outputs = utils.trace_graph(same, (x,), samba.optim.SGD(same.parameters(), lr=0.1), pef=pef)
    assert "at" in str(SambaGraph(same, (x,))) and samba.session.run((x,), outputs)[0].shape == ()
    other = moved(tmp_path, "third.py", "\n" * 3, "sigmoid")
    with pytest.raises(RuntimeError) as caught:
        utils.trace_graph(other, (x,), samba.optim.SGD(other.parameters(), lr=0.1), pef=pef)
    message = str(caught.value)
    assert pef in message and re.search(
        r"compiled was +%\d+ = tanh .* \(in first.py:10\) +and the model has +%\d+ = sigmoid .* \(in third.py:13\)", message
    )


# ---- graphs as objects ----


def test_samba_graph():
    model = samba.from_torch_model(Block())
    x, optim = samba.randn(2, 4, name="x"), samba.optim.SGD(model.parameters(), lr=0.1)
    graph = SambaGraph(model, (x,), optim, name="net")
    assert (
        graph.model is model
        and graph.inputs == (x,)
        and graph.optimizers == [optim]
        and graph.name == "net"
        and not graph.inference
    )
    ops = list(graph)
    assert len(graph) == len(ops) and all(isinstance(o, Operator) for o in ops) and list(graph) == ops
    lines = str(graph).splitlines()
    assert lines[0] == 'graph "net"' and len(lines) == 1 + len(ops) + 1  # and one output
    for number, (o, line) in enumerate(zip(ops, lines[1:])):
        assert line.startswith(f"%{number} = {o.op} ") and f": {o.dtype}[{','.join(map(str, o.shape))}]" in line
    named = {o.name: o for o in ops}
    assert named["x"].op == "input" and named["lin.weight"].op == "parameter" and named["lin.weight"].shape == (4, 4)
    (matmul,) = [o for o in ops if o.op == "matmul"]
    assert matmul.inputs[0] == "x" and matmul.phase == "FWD" and matmul.dtype == "float32"
    (out,) = graph.output_tensors
    assert out.sn_name == "output_0" and out.shape == (2, 4)
    assert repr(graph) == "SambaGraph(name='net', model=Block, 1 optimizers)"


def test_fwd_graph():
    graph = FwdGraph(torch.nn.ReLU(), {"input": samba.randn(2, name="input")})
    assert graph.inference and graph.optimizers == [] and graph.name == "ReLU" and [o.op for o in graph] == ["input", "relu"]
    assert repr(graph) == "FwdGraph(name='ReLU', model=ReLU)"
    with pytest.raises(ValueError, match="take SambaGraph"):
        FwdGraph(torch.nn.ReLU(), (), optimizers=[1])
    with pytest.raises(TypeError, match="a torch.nn.Module: given function"):
        SambaGraph(lambda x: x, ())


# ---- op_fusion, inspect ----


def sections_of(pef):
    """Type and operators of each section, as the command line says."""
    program = pathlib.Path(sys.executable).parent / "sambaflow"  # comes with the package
    text = subprocess.run([program, "inspect", "--operators", "--json", pef], check=True, capture_output=True, text=True).stdout
    return [
        (section["type"], [o for stage in section["stages"] for o in stage["operators"]])
        for section in json.loads(text)["sections"]
    ]


def test_op_fusion(tmp_path):
    model = samba.from_torch_model(Stack())
    assert op_fusion(model.blocks[1], "second block") is model.blocks[1]
    op_fusion(model.blocks[1].act, "inside")  # part of the outer one
    x = samba.randn(2, 4, name="x")
    graph = SambaGraph(model, (x,))
    assert {o.fusion for o in graph if o.module.startswith("blocks.1")} == {"second block"}
    assert {o.fusion for o in graph if not o.module.startswith("blocks.1")} == {""}
    pef = samba.session.compile(
        model, (x,), samba.optim.SGD(model.parameters(), lr=0.1), output_folder=str(tmp_path), name="fused"
    )
    sections = sections_of(pef)
    for kind in ("FWD", "BCKWD"):
        having = [ops for its, ops in sections if its == kind and any(o["fusion"] == "second block" for o in ops)]
        assert len(having) == 1
        inside = [o for o in having[0] if o["module"].startswith("blocks.1")]
        assert inside and all(o["fusion"] == "second block" and o["source"].startswith(HERE) for o in inside)


def test_op_fusion_refuses():
    with pytest.raises(TypeError, match="a torch.nn.Module, given str"):
        op_fusion("module", "name")
    for name in ("", None):
        with pytest.raises(ValueError, match="a name that is not empty"):
            op_fusion(torch.nn.ReLU(), name)


# ---- notebooks ----


class Cells(html.parser.HTMLParser):
    """Rows of cells of all tables; tags must match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.rows = [], set(), []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert not attrs  # neither style nor handlers nor addresses
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_a_pef_in_a_notebook(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    samba.from_torch_model_(model)
    x = samba.randn(2, 4, name="<script>alert('x')</script> & x")
    pef = samba.session.compile(
        model, (x,), samba.optim.SGD(model.parameters(), lr=0.25), output_folder=str(tmp_path), name="note"
    )
    meta = get_pefmeta(pef)
    assert dict(meta) == get_pefmeta_dict(pef) and meta["tensors"] is meta.tensors and len(meta) == len(list(meta))
    json.dumps(get_pefmeta_dict(pef))
    with pytest.raises(KeyError):
        meta["nothing"]
    (forward,) = [section for section in meta.sections if section["type"] == "FWD"]
    assert forward["flops"] >= 2 * 2 * 4 * 3 and meta.memory["parameters"] >= 4 * (12 + 3)
    shown = meta._repr_html_()
    cells = Cells(shown)
    assert "script" not in cells.tags and "<script" not in shown and "http" not in shown
    rows = {row[0]: row[1:] for row in cells.rows}
    assert rows[x.sn_name] == ["input", "float32", "2×4"]  # escaped, and read back
    assert rows["0.weight"] == ["parameter", "float32", "3×4"]
    assert (
        rows["parameters"] == [f"{meta.memory['parameters']} B"]
        and rows[str(forward["id"])][0] == "FWD"
        and rows["lr"] == ["0.25"]
    )
    assert "note.pef" in repr(meta)
