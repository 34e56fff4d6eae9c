# SPDX-License-Identifier: Apache-2.0
"""What is refused, as tables to read from top to bottom: call -> exception -> words of its message. A refused call changes
nothing, and never ends the process; odd_values.py looks for calls that would."""

import copy
import os
import pathlib
import pickle
import subprocess
import sys

import numpy
import pytest
import torch
from torch import nn
from zeros import zeros_of

import sambaflow.samba as samba
from sambaflow import errors
from sambaflow.runtime import Context, Session, Tensor
from sambaflow.samba.utils import pef_utils


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 4)

    def forward(self, x, target):
        logits = self.lin(x)
        return nn.functional.cross_entropy(nn.functional.dropout(logits, 0.1), target), logits


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A PEF, a checkpoint and files that are neither."""
    home = tmp_path_factory.mktemp("bad")
    model = samba.from_torch_model_(Model())
    inputs = (samba.randn(4, 6, name="x"), samba.randint(4, (4,), name="target"))
    pef = pathlib.Path(
        samba.session.compile(model, inputs, samba.optim.SGD(model.parameters(), lr=0.1), loss_indices=[0], output_folder=home)
    )
    pef.rename(home / "good.pef")
    Session(home / "good.pef").save(home / "good.safetensors")
    for kind in ("pef", "safetensors"):
        good = (home / f"good.{kind}").read_bytes()
        (home / f"empty.{kind}").write_bytes(b"")
        (home / f"half.{kind}").write_bytes(good[: len(good) // 2])
        (home / f"flipped.{kind}").write_bytes(
            good[:-9] + bytes([good[-9] ^ 255]) + good[-8:] if kind == "pef" else b"\xff" * 8 + good[8:]
        )
        (home / f"foreign.{kind}").write_bytes(pathlib.Path(__file__).read_bytes())
    return home


class Place:
    """What the calls of the tables find."""

    def __init__(self, folder):
        self.pef, self.folder = str(folder / "good.pef"), folder
        self.model = samba.from_torch_model_(Model())
        self.x, self.target = samba.randn(4, 6, name="x"), samba.randint(4, (4,), name="target")
        self.inputs = (self.x, self.target)
        self.optim = samba.optim.SGD(self.model.parameters(), lr=0.1)
        self.outputs = samba.utils.trace_graph(self.model, self.inputs, self.optim, pef=self.pef, loss_indices=[0])
        self.session = Session(self.pef)
        self.closed = Session(self.pef)
        self.closed.close()

    def run(self, x=None, **keywords):
        return samba.session.run((self.x if x is None else x, self.target), self.outputs, **keywords)

    def compile(self, model=None, **keywords):
        return samba.session.compile(model or self.model, self.inputs, self.optim, output_folder=self.folder / "out", **keywords)


def named(tensor, name="x"):
    return samba.from_torch_tensor(tensor, name=name)


def over(tensor, change):
    """A SambaTensor whose torch tensor is changed behind its back."""
    made = named(tensor)
    change(tensor)
    return made


def held(tensor, change):
    """The same with the one it holds."""
    made = named(tensor)
    change(made.torch())
    return made


# ---- samba.session.run ----
RUN = [
    (
        lambda p: p.run(named(torch.zeros(4, 7))),
        errors.ShapeError,
        'input "x" has the shape (4, 6) in the PEF and (4, 7) was given',
    ),
    (
        lambda p: p.run(named(torch.zeros(4, 0))),
        errors.ShapeError,
        'input "x" has the shape (4, 6) in the PEF and (4, 0) was given',
    ),
    (lambda p: p.run(named(torch.zeros(()))), errors.ShapeError, 'input "x" has the shape (4, 6) in the PEF and () was given'),
    (
        lambda p: p.run(named(torch.zeros(4, 6, dtype=torch.float64))),
        errors.DtypeError,
        'input "x" is float32 in the PEF and float64 was given',
    ),
    (lambda p: p.run(named(torch.zeros(4, 6, dtype=torch.uint16))), TypeError, "torch.uint16 is not a dtype of SambaFlow"),
    (lambda p: p.run(named(torch.zeros(4, 6), "y")), errors.UnknownNameError, 'there is no input "y"'),
    (
        lambda p: p.run(named(torch.zeros(4, 6), "lin.weight")),
        errors.UnknownNameError,
        '"lin.weight" is a parameter, not an input',
    ),
    (lambda p: p.run(named(torch.zeros(4, 6), "x\0y")), ValueError, "a name has a NUL in it"),
    (lambda p: p.run(samba.zeros(4, 6)), errors.UnknownNameError, "an input tensor of shape (4, 6) has no name"),
    (lambda p: p.run(torch.zeros(4, 6)), errors.UnknownNameError, "an input tensor of shape (4, 6) has no name"),
    (lambda p: p.run(named(torch.zeros(4, 6, device="meta"))), errors.UnsupportedError, "'x' is a torch.strided tensor on meta"),
    (
        lambda p: p.run(samba.SambaTensor(shape=(4, 6), dtype=torch.float32, name="x")),
        RuntimeError,
        "tensor 'x' of shape (4, 6) has no values",
    ),
    (
        lambda p: p.run(over(torch.zeros(4, 6), lambda x: x.untyped_storage().resize_(0))),
        errors.ArgumentError,
        "the memory is NULL",
    ),
    (lambda p: p.run(held(torch.zeros(4, 6), lambda x: x.resize_(2, 2))), errors.ShapeError, "(2, 2) was given"),
    (lambda p: p.run(held(torch.zeros(4, 6), lambda x: x.unsqueeze_(0))), errors.ShapeError, "(1, 4, 6) was given"),
    (lambda p: samba.session.run((p.x, p.x), p.outputs), errors.UnknownNameError, 'input "x" was given twice'),
    (lambda p: samba.session.run(p.inputs, p.outputs * 2), errors.UnknownNameError, 'output "output_0" was given twice'),
    (
        lambda p: samba.session.run(p.inputs, [named(torch.zeros(()), "loss")]),
        errors.UnknownNameError,
        'there is no output "loss"',
    ),
    (
        lambda p: samba.session.run((p.x, named(torch.tensor([0, 1, 2, 9]), "target"))),
        errors.ArgumentError,
        "input target[3] = 9 is outside [0, 4)",
    ),
    (lambda p: p.run(section_types=["FORWARD"]), errors.UnknownNameError, 'there is no section type "FORWARD"'),
    (lambda p: p.run(section_types=[1]), TypeError, "section_types has 1: expected words"),
    (lambda p: p.run(section_types=["FWD\0"]), ValueError, "a section type has a NUL in it"),
    (lambda p: p.run(section_ids=[99]), errors.ArgumentError, "there is no section 99"),
    (lambda p: p.run(section_ids=["0"]), TypeError, "section_ids has '0': expected integers"),
    (lambda p: p.run(section_types=["BCKWD"]), errors.StateError, "needs the activations of a forward run"),
    (lambda p: p.run(hyperparam_dict={"lr2": 1}), errors.UnknownNameError, 'there is no hyperparameter "lr2"'),
    (lambda p: p.run(hyperparam_dict={"lr": "much"}), TypeError, "hyperparameter 'lr' is a number: given 'much' of str"),
    (lambda p: p.run(hyperparam_dict={"lr": float("nan")}), errors.ArgumentError, "lr"),
    (lambda p: p.run(hyperparam_dict={1: 1}), TypeError, "a hyperparameter's name is a str: given 1 of int"),
    (lambda p: p.run(hyperparam_dict=[("lr", 1)]), TypeError, "hyperparameters are a dict of numbers by name"),
    (lambda p: p.run(odd=1), TypeError, "odd"),
]

# ---- tracing and compiling ----
COMPILE = [
    (lambda p: p.compile("model"), TypeError, "the model is a torch.nn.Module: given str"),
    (lambda p: p.compile(name=3), TypeError, "a name is a str: given 3 of int"),
    (lambda p: p.compile(name="a\0b"), ValueError, "a name has a NUL in it"),
    (lambda p: p.compile(pef_name="\udcff\ud800"), ValueError, "compile: pef_name is no Unicode text"),
    (lambda p: p.compile(loss_indices=[5]), errors.ArgumentError, "there is no output 5; the model has 2"),
    (lambda p: p.compile(loss_indices=["loss"]), TypeError, "loss_indices has 'loss': expected integers"),
    (lambda p: p.compile(precision="fp8"), errors.ArgumentError, "precision 'fp8': expected one of fp32, bf16"),
    (lambda p: p.compile(grad_accumulation_steps=0), errors.ArgumentError, "accumulation"),
    (lambda p: p.compile(prefix=1), TypeError, "compile has no keyword 'prefix'"),
    (
        lambda p: samba.session.compile(p.model, p.inputs, "SGD"),
        TypeError,
        "expected an optimizer, given something of type str: make one",
    ),
    (
        lambda p: samba.session.compile(p.model, p.inputs, torch.optim.Rprop(p.model.parameters())),
        errors.UnsupportedError,
        "optimizer Rprop",
    ),
    (lambda p: samba.session.compile(p.model, p.inputs, output_folder="/dev/null"), errors.FileError, "/dev/null"),
    (
        lambda p: samba.session.compile(p.model, p.inputs, output_folder=3),
        TypeError,
        "output_folder is a str, bytes or os.PathLike: given 3 of int",
    ),
    (
        lambda p: samba.session.compile(p.model, (samba.zeros(4, 7, name="x"), p.target)),
        errors.ShapeError,
        "a weight float32(4, 6); give an input of 6 features, or make the layer for 7 (in module lin",
    ),
    (
        lambda p: samba.session.compile(p.model, (samba.zeros(4, 6, name="x", dtype=torch.int64), p.target)),
        errors.DtypeError,
        "int64",
    ),
    (
        lambda p: samba.utils.trace_graph(p.model, p.inputs, pef=3),
        TypeError,
        "pef is a str, bytes or os.PathLike: given 3 of int",
    ),
    (lambda p: samba.utils.trace_graph(p.model, p.inputs, pef="nowhere.pef"), errors.FileError, "nowhere.pef"),
    (lambda p: samba.utils.trace_graph(p.model, p.inputs, pef=p.pef, mapping="other"), errors.ArgumentError, "mapping 'other'"),
    (
        lambda p: samba.utils.trace_graph(samba.from_torch_model_(Wider()), p.inputs, pef=p.pef, loss_indices=[0]),
        errors.StateError,
        "but was compiled as",
    ),
    (
        lambda p: samba.utils.trace_graph(Wider(), p.inputs, pef=p.pef, loss_indices=[0]),
        errors.StateError,
        "'lin.weight' is a torch tensor",
    ),
    (lambda p: samba.session.to_cpu("model"), TypeError, "the model is a torch.nn.Module: given str"),
    (lambda p: samba.session.to_rdu(p.model, ["SGD"]), TypeError, "expected an optimizer"),
    (lambda p: samba.session.get_tensors_by_name(["lin.wait"]), errors.UnknownNameError, "the device has no tensor 'lin.wait'"),
    (
        lambda p: samba.session.device_set("lin.weight", torch.zeros(3)),
        errors.ShapeError,
        'parameter "lin.weight" has the shape (4, 6)',
    ),
    (lambda p: samba.session.device_set("lin.weight", 3), TypeError, "'lin.weight': expected a tensor, given int"),
    (lambda p: samba.session.update_tensor("nothing", None), errors.UnknownNameError, "no traced tensor is named 'nothing'"),
    (lambda p: samba.SambaSession().run(), errors.StateError, "no PEF is loaded"),
]

# ---- making tensors ----
TENSORS = [
    (lambda p: samba.SambaTensor([1.0]), TypeError, "torch_tensor must be a torch.Tensor, given list"),
    (
        lambda p: samba.SambaTensor(torch.zeros(2, dtype=torch.complex64)),
        NotImplementedError,
        "complex tensors are not supported",
    ),
    (lambda p: samba.SambaTensor(torch.zeros(2), name=3), TypeError, "a tensor's name is a str: given 3 of int"),
    (lambda p: samba.SambaParameter([1.0]), TypeError, "torch_tensor must be a torch.Tensor, given list"),
    (lambda p: setattr(p.x, "sn_name", b"x"), TypeError, "a tensor's name is a str: given b'x' of bytes"),
    (lambda p: setattr(p.x, "data", torch.zeros(3)), ValueError, "cannot become (3,)"),
    (lambda p: samba.from_torch_model_(torch.zeros(2)), TypeError, "the model is a torch.nn.Module: given Tensor"),
    (lambda p: samba.from_named_dict([torch.zeros(2)]), TypeError, "expected a dict of tensors by name: given list"),
    (lambda p: Tensor("x", "float", (2,)), TypeError, "a dtype is one of float32, bfloat16"),
    (lambda p: Tensor("x", torch.float32, (2,)), TypeError, "a dtype is one of float32, bfloat16"),
    (lambda p: Tensor("x", "float32", 2), TypeError, "a shape is a sequence of integers: given 2"),
    (lambda p: Tensor("x", "float32", (2.0,)), TypeError, "'float' object cannot be interpreted as an integer"),
    (lambda p: Tensor("x", "float32", (-1,)), errors.ArgumentError, "shape (-1) has a negative size"),
    (lambda p: Tensor("x", "float32", (2**63,)), OverflowError, "too big"),
    (lambda p: Tensor("x", "float32", (2**61, 4)), errors.ShapeError, "takes 2^62 bytes or more"),
    (lambda p: Tensor("x", "float32", (2**45, 1024)), MemoryError, "no memory for"),
    (lambda p: Tensor("x", "float32", (1,) * 9), errors.ArgumentError, "rank 9; give 0 to 8"),
    (lambda p: Tensor(b"x", "float32", (1,)), TypeError, "a name is a str: given b'x' of bytes"),
    (lambda p: Tensor("x", "float32", (1,), context="mine"), TypeError, "context is a sambaflow.runtime.Context: given str"),
    (lambda p: pickle.dumps(Tensor("x", "float32", (1,))), TypeError, "a sambaflow.runtime.Tensor cannot be pickled"),
    (lambda p: pickle.dumps(Context()), TypeError, "a context cannot be copied or pickled"),
]

# ---- runtime.Session ----
SESSIONS = [
    (lambda p: Session(None), TypeError, "pef is a str, bytes or os.PathLike: given None of NoneType"),
    (lambda p: Session("a\0b"), ValueError, "pef has a NUL in it"),
    (lambda p: Session(b"\xff\xfe.pef"), errors.FileError, "No such file"),
    (lambda p: Session("x" * 70000), errors.FileError, "cannot read"),
    (lambda p: Session(p.folder), errors.FileError, "is a folder and no PEF"),
    (lambda p: Session(p.pef, threads=-1), errors.ArgumentError, "-1 threads: give 1 to 4096"),
    (lambda p: Session(p.pef, threads=2**40), OverflowError, "int"),
    (lambda p: Session(p.pef, seed=-1), OverflowError, "negative"),
    (lambda p: Session(p.pef, seed="lucky"), TypeError, "integer"),
    (lambda p: Session(p.pef, isa="sse"), errors.UnsupportedError, "sse"),
    (lambda p: p.session.run([p.x]), TypeError, "an input is a sambaflow.runtime.Tensor: given SambaTensor"),
    (lambda p: p.session.run(None), TypeError, "NoneType"),
    (lambda p: p.session.run([Tensor("x", "float32", (4, 7))]), errors.ShapeError, "(4, 7) was given"),
    (lambda p: p.session.run([Tensor(None, "float32", (4, 6))]), errors.UnknownNameError, 'there is no input ""'),
    (lambda p: p.session.run([Tensor.empty("x", "float32", (4, 6))]), errors.ArgumentError, 'input "x" is an empty tensor'),
    (
        lambda p: p.session.run(outputs=[Tensor.from_dlpack("output_1", torch.zeros(1, 1).expand(4, 4))]),
        errors.ArgumentError,
        "share memory",
    ),
    (lambda p: p.session.run([Tensor("x", "float32", (4, 6))] * 300), errors.UnknownNameError, 'input "x" was given twice'),
    (lambda p: p.session.run(section_types="FWD"), TypeError, "section_types is a list: given 'FWD'"),
    (lambda p: p.session.get(numpy.zeros(2)), TypeError, "get: the tensor is a sambaflow.runtime.Tensor: given ndarray"),
    (lambda p: p.session.set(Tensor("nothing", "float32", (2,))), errors.UnknownNameError, 'there is no tensor "nothing"'),
    (lambda p: p.session.save("/nowhere/at/all"), errors.FileError, "/nowhere/at/all"),
    (lambda p: p.session.save(3), TypeError, "a path is a str, bytes or os.PathLike: given 3 of int"),
    (lambda p: p.session.load("nothing.safetensors"), errors.FileError, "nothing.safetensors"),
    (lambda p: p.closed.run(), errors.StateError, "is closed: make a new one"),
    (lambda p: p.closed.get(Tensor("x", "float32", (4, 6))), errors.StateError, "is closed"),
    (lambda p: p.closed.hyperparameters, errors.StateError, "is closed"),
    (lambda p: p.closed.save("file"), errors.StateError, "is closed"),
    (lambda p: p.closed.nothing, AttributeError, "'Session' object has no attribute 'nothing'"),
    (lambda p: pickle.dumps(p.session), TypeError, "a session cannot be copied or pickled"),
    (lambda p: copy.copy(p.session), TypeError, "a session cannot be copied or pickled"),
    (lambda p: copy.deepcopy(samba.session), TypeError, "a session cannot be copied or pickled"),
    (lambda p: Session.__new__(Session).run(), AttributeError, "no attribute"),
    (lambda p: Tensor.__new__(Tensor).tolist(), AttributeError, "c"),
]

# ---- files ----
FILES = [
    (lambda p: Session(p.folder / "empty.pef"), errors.FormatError, "empty.pef"),
    (lambda p: Session(p.folder / "half.pef"), errors.FormatError, "half.pef"),
    (lambda p: Session(p.folder / "flipped.pef"), errors.FormatError, "flipped.pef"),
    (lambda p: Session(p.folder / "foreign.pef"), errors.FormatError, "foreign.pef"),
    (lambda p: Session(p.folder / "good.safetensors"), errors.FormatError, "good.safetensors"),
    (lambda p: samba.SambaSession(p.folder / "half.pef"), errors.FormatError, "half.pef"),
    (lambda p: samba.utils.trace_graph(p.model, p.inputs, pef=p.folder / "half.pef"), errors.FormatError, "half.pef"),
    (lambda p: pef_utils.get_pefmeta(p.folder / "foreign.pef"), errors.FormatError, "foreign.pef"),
    (lambda p: p.session.load(p.folder / "empty.safetensors"), errors.FormatError, "empty.safetensors"),
    (lambda p: p.session.load(p.folder / "half.safetensors"), errors.FormatError, "half.safetensors"),
    (lambda p: p.session.load(p.folder / "flipped.safetensors"), errors.FormatError, "flipped.safetensors"),
    (lambda p: p.session.load(p.folder / "foreign.safetensors"), errors.FormatError, "foreign.safetensors"),
    (lambda p: p.session.load(p.pef), errors.FormatError, "good.pef"),
    (lambda p: samba.session.load(p.folder / "half.safetensors"), errors.FormatError, "half.safetensors"),
]


class Wider(Model):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 5)


@pytest.fixture
def place(folder):
    return Place(folder)


@pytest.mark.parametrize("table", ["RUN", "COMPILE", "TENSORS", "SESSIONS", "FILES"])
def test_refused(place, table):
    weights = torch.from_dlpack(samba.session.device_get("lin.weight")).clone()
    wrong = []
    for row, (call, kind, message) in enumerate(globals()[table]):
        try:
            got = call(place)
        except Exception as error:
            if not isinstance(error, kind) or message not in str(error):
                wrong.append(f"row {row}: {type(error).__name__}: {error}; wanted {kind.__name__}: {message}")
        else:
            wrong.append(f"row {row} returned {got!r:.100}; wanted {kind.__name__}: {message}")
        assert torch.equal(samba.session.device_get("lin.weight"), weights), row
    assert not wrong, "\n".join(wrong)
    place.run()  # and all is well


def test_not_contiguous(place):
    """Strided, expanded, negated and sliced inputs are copied as they are."""
    values = torch.randn(4, 6)
    wide = torch.zeros(8, 12)
    wide[::2, ::2] = values
    for same in (values.t().contiguous().t(), wide[::2, ::2], torch._neg_view(-values), values.as_subclass(nn.Parameter)):
        assert torch.equal(same.detach(), values)
        results = samba.session.run((named(same), place.target), place.outputs, section_types=["FWD"], train=False)
        expected = samba.session.run((named(values), place.target), place.outputs, section_types=["FWD"], train=False)
        assert torch.equal(results[1].torch(), expected[1].torch())
    one = named(torch.ones(1, 1).expand(4, 6))
    assert torch.isfinite(samba.session.run((one, place.target), place.outputs)[0].torch())


def test_no_elements(tmp_path):
    """A batch of nothing goes through."""
    model = samba.from_torch_model_(nn.Linear(6, 4))
    x = samba.zeros(0, 6, name="x")
    pef = samba.session.compile(model, (x,), inference=True, output_folder=tmp_path)
    outputs = samba.utils.trace_graph(model, (x,), pef=pef)
    (result,) = samba.session.run((x,), outputs)
    assert tuple(result.torch().shape) == (0, 4)


def test_tensors_of_two_sessions(place):
    """A tensor belongs to no session: what one made another takes, after its own session ended too."""
    other = Session(place.pef)
    x = Tensor("x", "float32", (4, 6), other.context)
    loss = Tensor("output_0", "float32", (), other.context)
    target = Tensor.wrap("target", numpy.zeros(4, "int64"))
    other.close()
    place.session.run([x, target], [loss])
    assert loss.tolist() > 0


def test_close(place):
    with Session(place.pef) as session:
        session.run(zeros_of(session))
    session.close()
    with pytest.raises(errors.StateError, match="is closed"):
        session.run()


def test_every_cut_of_a_file(place, tmp_path):
    """No prefix of a PEF or a checkpoint is taken for one, and none crashes."""
    for kind, take in (("pef", Session), ("safetensors", place.session.load)):
        good = (place.folder / f"good.{kind}").read_bytes()
        path = tmp_path / f"cut.{kind}"
        for size in (*range(0, 64), *range(64, len(good), max(1, len(good) // 40))):
            path.write_bytes(good[:size])
            with pytest.raises((errors.FormatError, errors.UnknownNameError)):
                take(path)


def test_odd_values(tmp_path):
    """A part of odd_values.py, another one each time; `odd_values.py LOG` does all of it."""
    part, log = f"{int(os.times().elapsed * 100) % 40}/40", tmp_path / "calls"
    program = pathlib.Path(__file__).with_name("odd_values.py")
    done = subprocess.run(
        [sys.executable, program, log, part],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    last = [line for line in log.read_text(encoding="utf-8").splitlines() if not line.startswith(" ")][-1:]
    assert done.returncode == 0, (
        f"part {part} ended with {done.returncode} in {last}: {done.stdout[-1000:]} {done.stderr[-2000:]}"
    )
