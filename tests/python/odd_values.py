# SPDX-License-Identifier: Apache-2.0
"""Calls everything public of the package with odd values, one wrong argument at a time, the others as they should be. A program
of its own, since what it looks for would end the process: test_bad_input.py runs it.

Usage: odd_values.py LOG [PART/PARTS]. Writes each call to LOG before it makes it; prints what came of all, and exits with 1 if
some call ended as none may: with SystemError or an error of the library about itself.
Works in a temporary folder, since some calls write files."""

import array
import collections
import gc
import inspect
import os
import pathlib
import sys
import tempfile
import warnings

import numpy
import torch
from torch import nn

import sambaflow.runtime as runtime
import sambaflow.samba as samba
from sambaflow import _core, errors, words
from sambaflow.samba.profiler import Profiler
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.samba.utils import argparser, common, pef_utils
from sambaflow.sambacollections import OrderedSet


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, target):
        logits = self.lin(x)
        return nn.functional.cross_entropy(nn.functional.dropout(logits, 0.1), target), logits


class Sub(torch.Tensor):
    pass


class Text(str):
    pass


class Raises:
    """Whatever is asked of it fails."""

    def refuse(self, *_, **__):
        raise RuntimeError("refused")

    __len__ = __iter__ = __fspath__ = __index__ = __float__ = __dlpack__ = __array__ = refuse


class Liar:
    """Says it is what it is not."""

    sn_name, c, shape = "x", None, (4, 6)

    def __fspath__(self):
        return 3

    def __dlpack__(self, **_):
        return "capsule"


def cyclic_list():
    made = [1]
    made.append(made)
    return made


def cyclic_dict():
    made = {}
    made["x"] = made
    return made


def text_file():
    with open("text.txt", "w", encoding="utf-8") as file:
        file.write("neither a PEF nor a checkpoint\n" * 20)
    return "text.txt"


ODD = {  # its name in the log -> how it is made
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "7": lambda: 7,
    "2**63": lambda: 2**63,
    "-2**70": lambda: -(2**70),
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "1j": lambda: 1j,
    "''": lambda: "",
    "'x'": lambda: "x",
    "'\\0'": lambda: "\0",
    "'a\\0b'": lambda: "a\0b",
    "long": lambda: "a" * 70000,
    "'%s%n'": lambda: "%s%n%s%n",
    "surrogates": lambda: "\udcff\ud800",
    "emoji": lambda: "\U0001f600" * 300,
    "b'\\xff'": lambda: b"\xff\xfe",
    "b''": lambda: b"",
    "Text": lambda: Text("x"),
    "[]": lambda: [],
    "()": lambda: (),
    "{}": lambda: {},
    "set": lambda: {1, "x"},
    "[None]": lambda: [None],
    "[[[]]]": lambda: [[[]]],
    "[1, 'x']": lambda: [1, "x"],
    "['x', 'x']": lambda: ["x", "x"],
    "{1: 2}": lambda: {1: 2},
    "{'x': None}": lambda: {"x": None},
    "{'lr': nan}": lambda: {"lr": float("nan")},
    "OrderedDict": lambda: collections.OrderedDict(a=1),
    "cyclic list": cyclic_list,
    "cyclic dict": cyclic_dict,
    "generator": lambda: (x for x in (1,)),
    "function": lambda: len,
    "class": lambda: int,
    "object": object,
    "module": nn.ReLU,
    "exception": lambda: ValueError("x"),
    "Raises": Raises,
    "Liar": Liar,
    "torch": lambda: torch.zeros(3),
    "0-d": lambda: torch.tensor(1.0),
    "no elements": lambda: torch.zeros(0, 6),
    "meta": lambda: torch.zeros(4, 6, device="meta"),
    "expanded": lambda: torch.zeros(1).expand(4, 6),
    "strided": lambda: torch.zeros(6, 4).t(),
    "complex": lambda: torch.zeros(2, dtype=torch.complex64),
    "sparse": lambda: torch.zeros(4, 6).to_sparse(),
    "quantized": lambda: torch.quantize_per_tensor(torch.zeros(2), 1, 0, torch.qint8),
    "bfloat16": lambda: torch.zeros(4, 6, dtype=torch.bfloat16),
    "Sub": lambda: torch.zeros(4, 6).as_subclass(Sub),
    "neg": lambda: torch._neg_view(torch.ones(4, 6)),
    "uint16": lambda: torch.zeros(4, 6, dtype=torch.uint16),
    "rank 12": lambda: torch.zeros((1,) * 12),
    "grad": lambda: torch.zeros(4, 6, requires_grad=True),
    "dtype": lambda: torch.float16,
    "SambaTensor": lambda: samba.zeros(4, 6, name="x"),
    "unnamed": lambda: samba.zeros(4, 6),
    "empty": lambda: samba.SambaTensor(shape=(4, 6), dtype=torch.float32, name="x"),
    "resized": lambda: samba.SambaTensor(torch.zeros(4, 6).resize_(0), name="x"),
    "not by __new__": lambda: torch.Tensor._make_wrapper_subclass(samba.SambaTensor, (2,)),
    "SambaTensor on meta": lambda: samba.zeros(4, 6, name="x", device="meta"),
    "runtime.Tensor": lambda: runtime.Tensor("x", "float32", (4, 6)),
    "without memory": lambda: runtime.Tensor.empty("x", "float32", (4, 6)),
    "Tensor not made": lambda: runtime.Tensor.__new__(runtime.Tensor),
    "Session not made": lambda: runtime.Session.__new__(runtime.Session),
    "closed": lambda: closed,
    "SambaSession": samba.SambaSession,
    "Context": runtime.Context,
    "NULL": lambda: _core.ffi.NULL,
    "cdata": lambda: _core.ffi.new("int[4]"),
    "numpy": lambda: numpy.zeros((4, 6)),
    "object array": lambda: numpy.array([object()]),
    "read-only": lambda: numpy.frombuffer(b"12345678"),
    "record": lambda: numpy.zeros(2, "i4,f8"),
    "bytearray": lambda: bytearray(8),
    "array": lambda: array.array("f", [1, 2]),
    "view": lambda: memoryview(b"12")[::2],
    "no path": lambda: pathlib.Path("/dev/null/no folder"),
    "folder": lambda: pathlib.Path("."),
    "/dev/null": lambda: "/dev/null",
    "text file": text_file,
}

model = inputs = optim = outputs = pef = device = closed = None


def begin():
    """Everything as it should be."""
    global model, inputs, optim, outputs, device, closed
    samba.session.reset()
    model = samba.from_torch_model_(Small())
    inputs = (samba.randn(4, 6, name="x"), samba.randint(4, (4,), name="target"))
    optim = samba.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    outputs = samba.utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    device, closed = runtime.Session(pef), runtime.Session(pef)
    closed.close()


GOOD = {  # what a parameter of that name wants; others get None
    "model": lambda: model,
    "obj": lambda: torch.zeros(2),
    "inputs": lambda: inputs,
    "input_tensors": lambda: inputs,
    "output_tensors": lambda: outputs,
    "optim": lambda: optim,
    "optims": lambda: optim,
    "optimizers": lambda: optim,
    "pef": lambda: pef,
    "pef_path": lambda: pef,
    "path": lambda: "file.safetensors",
    "name": lambda: "lin.weight",
    "names": lambda: ["x"],
    "tensor": lambda: torch.zeros(4, 6),
    "tensors": lambda: {"x": torch.zeros(2)},
    "samba_tensors": lambda: inputs,
    "torch_tensor": lambda: torch.zeros(2),
    "array": lambda: numpy.zeros(3),
    "dtype": lambda: "float32",
    "shape": lambda: (4, 6),
    "seed": lambda: 1,
    "args": lambda: argparser.parse_app_args(["run"]),
    "torch_loader": lambda: [torch.zeros(2)],
    "word": lambda: "x",
    "words": lambda: ["x"],
    "params": lambda: [torch.zeros(2, requires_grad=True)],
    "func": lambda: len,
    "status": lambda: 2,
    "message": lambda: "m",
    "elements": lambda: (),
    "element": lambda: 1,
    "index": lambda: 0,
    "filename": lambda: "profile.txt",
    "kind": lambda: "input",
    "argv": lambda: ["run"],
    "batch_size": lambda: 4,
    "n_iterations": lambda: 3,
    "max_version": lambda: (1, 0),
    "output_folder": lambda: "out",
    "loss_indices": lambda: [0],
}
SPECIAL = ("__dlpack__", "__getitem__", "__contains__", "__array__", "__deepcopy__")
NOT_CALLED = ("session.atexit_register",)  # what it is given is called when the process ends


def methods(name, cls, make):
    """(name, what gives the callable) of a class and its public methods and properties."""
    yield name, lambda: cls
    for key in dir(cls):
        if key.startswith("_") and key not in SPECIAL:
            continue
        if isinstance(inspect.getattr_static(cls, key), property):
            yield f"{name}.{key}", lambda key=key: lambda: getattr(make(), key)
        elif key in vars(cls) and callable(getattr(cls, key)) and f"{name}.{key}" not in NOT_CALLED:
            yield f"{name}.{key}", lambda key=key: getattr(make(), key)


def functions(home, names):
    for name in names.split() if isinstance(names, str) else names:
        yield f"{home.__name__}.{name}", lambda name=name: getattr(home, name)


def everything():
    yield from methods("session", samba.SambaSession, lambda: samba.session)
    yield from methods("runtime.Session", runtime.Session, lambda: device)
    yield from methods("runtime.Tensor", runtime.Tensor, lambda: runtime.Tensor("x", "float32", (4, 6)))
    yield from methods("SambaTensor", samba.SambaTensor, lambda: inputs[0])
    yield from methods("Profiler", Profiler, Profiler)
    yield from methods("OrderedSet", OrderedSet, OrderedSet)
    yield from methods("SambaLoader", SambaLoader, lambda: SambaLoader([torch.zeros(2)], ["x"]))
    yield from functions(
        samba,
        "from_torch from_torch_model from_torch_model_ from_named_dict from_torch_tensor from_numpy from_dlpack to_torch "
        "set_seed SambaParameter",
    )
    yield from functions(samba, "add matmul softmax cross_entropy reshape cat embedding dropout conv2d layer_norm where")
    yield from functions(
        samba.utils, [name for name in dir(samba.utils) if name[0] != "_" and inspect.isfunction(getattr(samba.utils, name))]
    )
    yield from functions(common, "common_app_driver")
    yield from functions(pef_utils, "get_pefmeta get_pefmeta_dict")
    yield from functions(argparser, "parse_app_args parse_yaml_to_args")
    yield from functions(samba.optim, "SGD AdamW")
    yield from functions(errors, "raise_status")
    yield from functions(words, "encoded path_of array_of")


def parameters(function):
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in found if p.name not in ("self", "cls")]


def arguments(function, wrong, value):
    """Positional and keyword arguments of a call with one that is wrong."""
    listed, named = [], {}
    for p in parameters(function):
        given = value if p.name == wrong else GOOD.get(p.name, lambda: None)()
        if p.kind is p.VAR_POSITIONAL:
            listed.append(value if p.name == wrong else torch.zeros(2, 2))
        elif p.kind is p.VAR_KEYWORD:
            named.update({"odd_keyword": value} if p.name == wrong else {})
        elif p.kind is p.POSITIONAL_ONLY:
            listed.append(given)
        elif p.name == wrong or p.default is p.empty:
            named[p.name] = given
    return listed, named


def outcome_of(get, wrong, make):
    """What came of a call: 'returned', or its exception."""
    try:
        function = get()
        listed, named = arguments(function, wrong, make())
        result = function(*listed, **named)
        if inspect.isgenerator(result):
            list(zip(range(2), result))
        repr(result)
        return "returned", ""
    except (Exception, SystemExit) as error:
        try:
            return type(error).__name__, str(error)[:300]
        except Exception:  # of an object that was never made, or is closed, which raise_status was given as the message
            return type(error).__name__, "a message without text"


def main():
    global pef
    part, parts = map(int, (sys.argv[2] if len(sys.argv) > 2 else "0/1").split("/"))
    log = open(sys.argv[1], "w", encoding="utf-8", errors="backslashreplace")
    sys.argv[1:] = ["run"]  # what argparser finds where it is given nothing
    os.chdir(tempfile.mkdtemp())
    warnings.simplefilter("ignore")
    example = (samba.randn(4, 6, name="x"), samba.randint(4, (4,), name="target"))
    made = samba.from_torch_model_(Small())
    pef = samba.session.compile(
        made,
        example,
        samba.optim.SGD(made.parameters(), lr=0.01, momentum=0.9),
        loss_indices=[0],
        output_folder=os.path.abspath("kept"),
    )
    outcomes, wrong_ends = collections.Counter(), []
    printed, silent = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    for number, (name, get) in enumerate(everything()):
        if number % parts != part:
            continue
        begin()
        for wrong in [p.name for p in parameters(get())] or [None]:
            for label, make in ODD.items():
                log.write(f"{name}({wrong}={label})\n")
                log.flush()
                os.dup2(silent, 1)
                outcome, message = outcome_of(get, wrong, make)
                sys.stdout.flush()
                os.dup2(printed, 1)
                outcomes[outcome] += 1
                if message:
                    log.write(f"    {outcome}: {message}\n")
                if outcome in ("SystemError", "InternalError"):
                    wrong_ends.append(f"{name}({wrong}={label}): {outcome}: {message}")
        gc.collect()
    print(f"{sum(outcomes.values())} calls: " + ", ".join(f"{count} {name}" for name, count in outcomes.most_common()))
    for end in wrong_ends:
        print("WRONG", end)
    sys.exit(bool(wrong_ends))


if __name__ == "__main__":
    main()
