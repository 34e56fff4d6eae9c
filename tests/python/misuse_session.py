#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a session says to misuse: messages/<part>.txt, for a person to read from top to bottom.

    misuse_session.py              whether every sentence is as it stands there
    misuse_session.py --write      writes the sentences anew, for review in the difference

Headings are the rules of the documents and of the library; below each stand misuses, one line of Python, and further in their
message. Headings and misuses are written by hand, sentences by --write. After each the device's weights are what they were. A
line has torch, F, nn, samba, utils, session (samba.session) and

    float32(4, 6)                 a tensor of that dtype and shape; float32(4, 6, name="x") a SambaTensor
    model, x, target, optim       a model `lin` and a cross entropy (outputs: the loss and logits), its inputs x float32(4, 6) and
    target int64(4), SGD y, loss                       its traced outputs, pef the PEF's path, FOLDER a folder
    forward_only, unstepped       PEFs of it: for inference, and without an optimizer
    run(a, b, outputs=..., ...)   session.run((x, target), (loss, y)) with others
    compile(model, ...)           session.compile(model, (x, target), optim), which is `changed(...)` with another layer or input
    trace(model, ...)             trace_graph of it beside pef
    behind(change)                a model of its own, traced; change(model, optim); a run, or 16 where that is said
    trained()                     a model of its own, traced and run; the host has its values from before
    plain()                       a model that was not converted
    several                       a session with two graphs, `train` and `answer`, compiled and traced; graph(name) another of the
    kind fresh()                       a session without a PEF"""

import argparse
import os
import pathlib
import random
import sys
import tempfile
import warnings

import numpy
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.sambaloader import SambaLoader

FOLDER = pathlib.Path(__file__).with_name("messages")
# how warnings begin that count as said
WARNINGS = (
    "run: '[^']*' (has|of) ",
    "run: the optimizer's",
    "run: load_state_dict",
    "mse_loss: the input",
    "backward starts from",
    "trace_graph: the optimizer has",
    "state_dict of",
    "'[^']*' is read on the host",
)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32)


class Model(nn.Module):
    """A linear layer, dropout and a cross entropy."""

    def __init__(self, wide=4, function=F.cross_entropy, flip=False):
        super().__init__()
        self.lin, self.drop, self.function, self.flip = nn.Linear(6, wide), nn.Dropout(0.1), function, flip

    def forward(self, x, target):
        logits = self.lin(x)
        logits = self.drop(-logits if self.flip else logits)
        return self.function(logits, target), logits


class Answer(nn.Module):
    """The model's layer alone."""

    def __init__(self, model):
        super().__init__()
        self.lin = model.lin

    def forward(self, question):
        return self.lin(question)


def make(dtype):
    """float32(4, 6, name=...) and its like."""

    def tensor(*shape, name=None, region_name=None):
        values = torch.zeros(shape, dtype=dtype)
        return (
            values
            if name is None and region_name is None
            else samba.from_torch_tensor(values, name=name, region_name=region_name)
        )

    return tensor


def words(folder):
    """What a line of the files finds."""
    torch.manual_seed(0)
    samba.session.reset()
    model = samba.from_torch_model_(Model())
    x, target = samba.ones(4, 6, name="x"), samba.from_torch_tensor(torch.zeros(4, dtype=torch.int64), name="target")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    home = pathlib.Path(folder)
    pef = samba.session.compile(model, (x, target), optim, "graph", [0], output_folder=home)
    (home / "short.pef").write_bytes(pathlib.Path(pef).read_bytes()[:100])
    torch.save(model.state_dict(), home / "weights.pt")
    (home / "damaged.safetensors").write_bytes(b"\xff" * 8 + b'{"' + b"\xff" * 10)
    question = samba.zeros(2, 6, name="question")
    several = samba.SambaSession()
    graphs = SambaGraph(model, (x, target), optim, "train", [0]), FwdGraph(Answer(model), (question,), "answer")
    for graph in graphs:
        several.add_graph(graph)
    both = several.compile_multigraph("several", output_folder=home)
    several.trace_multigraph(graphs[0], (x, target), optim)
    (answer,) = several.trace_multigraph(graphs[1], (question,))
    several.init_multigraph_runtime(both)
    outputs = utils.trace_graph(model, (x, target), optim, loss_indices=[0], pef=pef)
    samba.session.save(home / "weights.safetensors")
    samba.session.save(home / "cut.safetensors")
    (home / "cut.safetensors").write_bytes((home / "cut.safetensors").read_bytes()[:-20])
    forward_only = samba.session.compile(model, (x, target), None, "forward", [0], inference=True, output_folder=home)
    unstepped = samba.session.compile(model, (x, target), None, "unstepped", [0], output_folder=home)

    kept = []  # sessions of their own

    def run(a=x, b=target, outputs=tuple(outputs), **options):
        return samba.session.run((a, b), outputs, **options)

    def compile_(model=model, inputs=(x, target), optimizers=optim, **options):
        return samba.session.compile(
            model, inputs, optimizers, **{"loss_indices": [0], "output_folder": home / "again", **options}
        )

    def trace(model=model, inputs=(x, target), optimizers=None, **options):
        return utils.trace_graph(model, inputs, optimizers, **{"loss_indices": [0], "pef": pef, **options})

    def changed(**options):
        return samba.from_torch_model_(Model(**options))

    def behind(change, runs=1):
        its, own = changed(), samba.SambaSession()
        kept.append(own)
        steps = samba.optim.SGD(its.parameters(), lr=0.1)
        ends = own.trace_graph(its, (x, target), steps, loss_indices=[0], pef=pef)
        change(its, steps)
        for _ in range(runs):
            own.run((x, target), ends)
        return its

    found = {str(dtype).removeprefix("torch."): make(dtype) for dtype in DTYPES}
    found.update(
        torch=torch,
        F=F,
        nn=nn,
        samba=samba,
        utils=utils,
        session=samba.session,
        model=model,
        x=x,
        target=target,
        optim=optim,
        loss=outputs[0],
        y=outputs[1],
        pef=pef,
        both=both,
        FOLDER=home,
        run=run,
        compile=compile_,
        trace=trace,
        changed=changed,
        behind=behind,
        trained=lambda: behind(lambda model, optim: None),
        plain=Model,
        several=several,
        answer=answer,
        question=question,
        graph=lambda name, **options: FwdGraph(Answer(model), (question,), name, **options),
        fresh=samba.SambaSession,
        SambaLoader=SambaLoader,
        SambaGraph=SambaGraph,
        ModelProto=type("ModelProto", (), {"SerializeToString": lambda self: b"no model"}),
        environ=os.environ,
        forward_only=forward_only,
        unstepped=unstepped,
        array=numpy.zeros((4, 6), numpy.float32),
        random=random.Random(0),
        save_file=save_file,
        nan=float("nan"),
    )
    return found


def said(code, found):
    """The message of a line of Python, or that there is none; the folder's name is left out."""
    before = torch.from_dlpack(samba.session.device_get("lin.weight")).clone()
    try:
        with warnings.catch_warnings():
            for sentence in WARNINGS:
                warnings.filterwarnings("error", sentence, UserWarning)
            exec(code, {**found})  # a line may be a statement
        message = "nothing is wrong with it"
    except Exception as error:
        message = f"{type(error).__name__}: {error}".replace(str(found["FOLDER"]), "FOLDER").replace("\n", " / ")
    if not torch.equal(samba.session.device_get("lin.weight"), before):
        message += " [and the weights changed]"
    return message


def read(path):
    """Lines as (depth, text); what belongs to nothing is an error."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        depth, text = len(line) - len(line.lstrip()), line.strip()
        if depth not in (0, 4, 8):
            raise SystemExit(f"{path}:{number}: expected a rule, 4 spaces and a misuse, or 8 spaces and its message: {line!r}")
        yield depth, text


def parts():
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def misuses(part):
    """[(rule, code, message)]."""
    rows, rule = [], ""
    for depth, text in read(FOLDER / f"{part}.txt"):
        if depth == 0 and text and not text.startswith("#"):
            rule = text
        elif depth == 4:
            rows.append([rule, text, ""])
        elif depth == 8:
            rows[-1][2] = text
    return rows


def wrong(part):
    """What is not as it stands in the file, in words."""
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        found = words(folder)
        for rule, code, expected in misuses(part):
            given = said(code, found)
            if given != expected:
                bad.append(f"{rule}: {code}\n    says     {given}\n    expected {expected}")
            elif given.startswith("nothing") or given.endswith("changed]"):
                bad.append(f"{rule}: {code}: {given}")
    samba.session.reset()
    return bad


def write(part):
    """The file with the sentences as they are."""
    path = FOLDER / f"{part}.txt"
    with tempfile.TemporaryDirectory() as folder:
        found, lines = words(folder), []
        for depth, text in read(path):
            if depth < 8:
                lines.append(" " * depth + text)
            if depth == 4:
                lines.append(" " * 8 + said(text, found))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    samba.session.reset()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    bad, options = [], parser.parse_args()
    for part in parts():
        if options.write:
            write(part)
        bad += wrong(part)
    print("\n".join(bad) if bad else "every message is as it stands there")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
