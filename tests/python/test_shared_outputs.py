# SPDX-License-Identifier: Apache-2.0
"""Outputs that are memory of several graphs: by a region name that is set after tracing, or since another graph takes them; a
program that generates text so; and what is refused."""

import pathlib
import subprocess
import sys

import numpy
import pytest
import torch
import transformers

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors
from sambaflow.samba.graph import FwdGraph, SambaGraph

PROGRAM = pathlib.Path(__file__).with_name("programs") / "generate.py"


class First(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.lin(x)
        return y, y.sum(-1), y * 2


class Second(torch.nn.Module):
    def forward(self, y, total, z):
        return y + 1, total * 2, z - 1


def of_region(output):
    region = output.sn_region_name
    return samba.SambaTensor(shape=output.shape, dtype=output.dtype, name=f"{region}.in", region_name=region)


@pytest.mark.parametrize("way", ["regions", "outputs", "names"])
@pytest.mark.parametrize("again", [False, True], ids=["one process", "traced again"])
def test_outputs_are_inputs(tmp_path, way, again):
    """The second graph reads what the first one made, and what itself made before, without a copy from the host."""
    first, second = samba.from_torch_model_(First()), Second()
    x = samba.randn(2, 3, name="x")

    def build():
        outputs = utils.trace_multigraph(first, (x,))
        assert isinstance(outputs, tuple) and first.output_tensors is outputs
        if way == "regions":
            for output, region in zip(outputs, ("y", "total", "z")):
                output.sn_region_name = region
        samba.session.add_graph(FwdGraph((x,), outputs, "first"))
        assert [output.sn_name for output in outputs] == [f"first.output_{i}" for i in range(3)]
        inputs = outputs if way == "outputs" else tuple(map(of_region, outputs))
        made = utils.trace_multigraph(second, inputs)
        made[0].sn_region_name = outputs[0].sn_region_name
        samba.session.add_graph(FwdGraph(inputs, made, "second"))
        return outputs, made

    outputs, made = build()
    pef = samba.session.compile_multigraph("both", output_folder=str(tmp_path))
    if again:
        samba.session.reset()
        outputs, made = build()
    samba.session.init_multigraph_runtime(pef)
    kinds = {name: kind for name, (kind, _, _) in samba.session.loaded().tensors.items()}
    shared = ["y", "total", "z"] if way == "regions" else [f"first.output_{i}" for i in range(3)]
    assert [kinds[name] for name in shared] == ["input"] * 3 and "second.output_0" not in kinds
    expected = [part.detach() for part in map(samba.to_torch, first(x))]
    found = samba.session.run((x,), outputs, graph_name="first")
    for mine, theirs, name in zip(found, expected, shared):
        torch.testing.assert_close(mine.torch(), theirs)
        assert torch.equal(samba.session.get_tensors_by_name([name])[0].torch(), mine.torch())
        assert torch.equal(samba.session.get_tensors_by_name([mine.sn_name])[0].torch(), mine.torch())
    assert torch.equal(outputs[1].sn_data, found[1].torch())
    for step in range(3):
        y, total, z = samba.session.run((), made, graph_name="second")
        torch.testing.assert_close(y.torch(), expected[0] + 1 + step)
        torch.testing.assert_close(total.torch(), expected[1] * 2)
        torch.testing.assert_close(z.torch(), expected[2] - 1)
    assert torch.equal(made[0].sn_data, y.torch())
    (z,) = samba.session.run((samba.full((2, 3), 7.0, name=outputs[2].sn_name),), made[2:], graph_name="second")
    assert z.torch().eq(6).all()  # a value of the host's own


class Grown(torch.nn.Module):
    """A cache that is written in place, and given back."""

    def forward(self, cache, row, at):
        cache.index_copy_(0, at, row)
        return cache, cache.sum()


class Other(Grown):
    def forward(self, cache, row, at):
        super().forward(cache, row, at)
        return cache * 2, cache.sum()


@pytest.mark.parametrize("model, right", [(Grown(), True), (Other(), False)])
def test_what_is_written_in_place(tmp_path, model, right):
    inputs = (
        samba.zeros(4, 3, name="cache", region_name="kv"),
        samba.ones(1, 3, name="row"),
        samba.from_torch_tensor(torch.tensor([2]), name="at"),
    )
    graph = FwdGraph(model, inputs, "grown")
    outputs = utils.trace_multigraph(graph, inputs)  # a graph that was made before
    outputs[0].sn_region_name = "kv"
    assert graph.output_tensors is outputs
    samba.session.add_graph(graph)
    if not right:
        with pytest.raises(NotImplementedError, match="has the region name 'kv', and the forward pass writes something else"):
            samba.session.compile_multigraph(output_folder=str(tmp_path))
        return
    samba.session.init_multigraph_runtime(samba.session.compile_multigraph(output_folder=str(tmp_path)))
    cache, total = samba.session.run(inputs, outputs, graph_name="grown")
    assert total.item() == 3 and cache.torch()[2].eq(1).all() and torch.equal(inputs[0].sn_data, cache.torch())


def test_some_of_the_outputs(tmp_path):
    first = samba.from_torch_model_(First())
    x = (samba.randn(2, 3, name="x"),)
    outputs = utils.trace_multigraph(first, x)
    graph = FwdGraph(x, outputs[1:2], "sums")
    samba.session.add_graph(graph)
    samba.session.init_multigraph_runtime(samba.session.compile_multigraph(output_folder=str(tmp_path)))
    assert samba.session.loaded().names("output") == ["sums.output_1"]
    (total,) = samba.session.run(x, outputs[1:2])
    torch.testing.assert_close(total.torch(), samba.to_torch(first(x[0])[1]).detach())
    with pytest.raises(LookupError, match="sums.output_0"):
        samba.session.run(x, outputs)


def test_refused(tmp_path):
    first = samba.from_torch_model_(First())
    x = (samba.randn(2, 3, name="x"),)
    outputs = utils.trace_multigraph(first, x)
    for wrong in ((samba.randn(2, 3),), (), outputs[:1] + utils.trace_multigraph(first, x)[1:]):
        with pytest.raises(errors.ArgumentError, match=r"FwdGraph: expected FwdGraph\(model, inputs, name\), or inputs and what"):
            FwdGraph(x, wrong, "first")
    with pytest.raises(errors.ArgumentError, match="FwdGraph: these outputs were traced of other inputs: x"):
        FwdGraph((samba.randn(2, 3, name="x"),), outputs, "first")
    outputs[0].sn_region_name = "y"
    y = samba.SambaTensor(shape=(2, 4), name="y", region_name="y")
    samba.session.add_graph(FwdGraph(x, outputs, "first"))
    samba.session.add_graph(FwdGraph(torch.nn.ReLU(), (y,), "second"))
    with pytest.raises(LookupError, match=r'"y" is an input float32\(2, 3\) in graph "first" and an input float32\(2, 4\)'):
        samba.session.compile_multigraph(output_folder=str(tmp_path))
    samba.session.reset()
    training = SambaGraph(first, x, samba.optim.SGD(first.parameters(), lr=0.1), "train")
    utils.trace_multigraph(training, x)[0].sn_region_name = "y"
    samba.session.add_graph(training)
    with pytest.raises(
        NotImplementedError, match="graph 'train' has a backward pass, and its output 'train.output_0' the region"
    ):
        samba.session.compile_multigraph(output_folder=str(tmp_path))
    samba.session.reset()
    wide = samba.SambaTensor(shape=(2, 4), name="y", region_name="y")

    class Shapes(torch.nn.Module):
        def forward(self, x, wide):
            return x + wide[:, :3]

    (made,) = utils.trace_multigraph(Shapes(), (*x, wide))
    made.sn_region_name = "y"
    samba.session.add_graph(FwdGraph((*x, wide), (made,), "shapes"))
    with pytest.raises(NotImplementedError, match=r"input 'y', \(2, 4\) torch.float32, and 'shapes.output_0', \(2, 3\)"):
        samba.session.compile_multigraph(output_folder=str(tmp_path))


def test_region_names_come_before_the_runtime(tmp_path):
    first = samba.from_torch_model_(First())
    x = (samba.randn(2, 3, name="x"),)

    def named(outputs):
        outputs[0].sn_region_name = "y"
        return outputs

    samba.session.add_graph(FwdGraph(x, named(utils.trace_multigraph(first, x)), "first"))
    pef = samba.session.compile_multigraph(output_folder=str(tmp_path))
    samba.session.reset()
    utils.trace_multigraph(first, x)
    said = "the PEF's graph has no output 'first.output_0': .* between trace_multigraph and init_multigraph_runtime"
    with pytest.raises(errors.StateError, match=said):
        samba.session.init_multigraph_runtime(pef)
    samba.session.reset()
    samba.session.init_multigraph_runtime(pef)
    with pytest.raises(errors.StateError, match=said):
        utils.trace_multigraph(first, x)
    samba.session.reset()
    named(utils.trace_multigraph(first, x))  # no graph is made: the PEF knows its name
    samba.session.init_multigraph_runtime(pef)
    assert samba.session.get_tensors_by_name(["y"])[0].shape == (2, 3)


def test_a_region_of_one_graph(tmp_path):
    """get_tensors_by_name takes names of regions, also where a PEF has one graph."""
    model, x = torch.nn.ReLU(), samba.ones(2, name="x", region_name="place")
    pef = samba.session.compile(model, (x,), inference=True, output_folder=str(tmp_path))
    utils.trace_graph(model, (x,), pef=pef)
    for name in ("x", "place"):
        assert samba.session.get_tensors_by_name([name])[0].tolist() == [1, 1]
    with pytest.raises(LookupError, match="no tensor 'plac'"):
        samba.session.get_tensors_by_name(["plac"])


def test_a_program_generates_what_transformers_does(tmp_path):
    torch.manual_seed(3)
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=90, n_positions=48, initializer_range=0.2)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    theirs.save_pretrained(tmp_path)
    prompts = torch.randint(90, (2, 9))
    numpy.save(tmp_path / "prompts.npy", prompts.numpy())
    count = 40 - 9 + 1
    with torch.no_grad():
        expected = theirs.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
        )[:, 9:]
    for command in ("compile", "run"):
        words = [sys.executable, str(PROGRAM), str(tmp_path), command, "-p", str(tmp_path / "generate.pef")]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
    assert numpy.load(tmp_path / "tokens.npy").tolist() == expected.tolist()
    assert len(set(expected.flatten().tolist())) > 6
