# SPDX-License-Identifier: Apache-2.0
"""train() and eval() in every way of running: drawn models of norms, dropouts and frozen parts, 30 steps with 5 evaluations in
between, beside PyTorch. Outputs, statistics, counters and weights are PyTorch's. Then modes that a graph cannot follow, which are
refused by the module's name."""

import contextlib
import copy
import io
import random
import re
import warnings

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import onnx
import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors, runtime
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.ports import host_tensor
from sambaflow.samba.sambaloader import SambaLoader

STEPS, EVALUATIONS = 30, 5


class Half(nn.Module):
    """A dropout of everything, which is known in both modes."""

    def __init__(self, kind):
        super().__init__()
        self.drop = kind(1.0)

    def forward(self, x):
        return 0.5 * x + 0.5 * self.drop(x)


class Whole(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, nn.Linear(4, 3)

    def forward(self, x):
        y = self.head(self.body(x).flatten(2).mean(2))
        return (y.square() * torch.tensor([0.5, 1.0, 2.0], dtype=y.dtype)).mean(), y


def draw_norm(draw, dims, exported):
    norm, instance = (nn.BatchNorm1d, nn.InstanceNorm1d) if dims == 1 else (nn.BatchNorm2d, nn.InstanceNorm2d)
    if exported:
        return norm(4, momentum=draw.choice([0.1, 0.3]), eps=draw.choice([1e-5, 1e-3]))
    if draw.random() < 0.3:
        return instance(4, momentum=draw.choice([0.1, 0.4]), affine=draw.random() < 0.5, track_running_stats=draw.random() < 0.8)
    return norm(4, momentum=draw.choice([None, 0.1, 0.3]), affine=draw.random() < 0.7, track_running_stats=draw.random() < 0.8)


def draw_block(draw, dims, exported):
    convolution = (nn.Conv1d if dims == 1 else nn.Conv2d)(4, 4, 1)
    last = nn.Tanh() if draw.random() < 0.5 else Half(nn.Dropout if exported or draw.random() < 0.5 else nn.AlphaDropout)
    if isinstance(last, Half) and isinstance(last.drop, nn.AlphaDropout):
        last.drop.p = 0.0
    return nn.Sequential(convolution, draw_norm(draw, dims, exported), last)


def draw_model(seed, exported):
    """(the model, paths of its frozen parts, the shape of a batch)."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    dims = draw.choice([1, 2])
    blocks = [draw_block(draw, dims, exported) for _ in range(4)]
    model = Whole(nn.Sequential(blocks[0], nn.Sequential(blocks[1], nn.Sequential(blocks[2])), blocks[3])).double()
    for name, x in model.named_buffers():
        if x.is_floating_point():
            x.copy_(torch.rand(4) + (0.5 if name.endswith("var") else -0.5))
    frozen = [path for path in ("body.0", "body.1", "body.1.1", "body.1.0.1", "body.2") if draw.random() < 0.3]
    if exported and "body.1" in frozen:  # of a file in which nothing trains nobody knows that it was exported in train()
        frozen.remove("body.1")
    return model, frozen, (5, 4, 6) if dims == 1 else (5, 4, 3, 2)


def stand(model, train, frozen):
    model.train(train)
    for path in frozen:
        model.get_submodule(path).eval()


# ---- ways of running ----


class Python:
    """One graph, by the model's modes."""

    exported, close = False, dict(rtol=1e-7, atol=1e-8)

    def __init__(self, model, frozen, shape, folder):
        self.frozen, self.draw, self.folder, self.shape = frozen, random.Random(len(frozen)), folder, shape
        self.model = self.convert(model)
        self.optim = samba.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.open(self.inputs(torch.zeros(shape, dtype=torch.float64)))

    def convert(self, model):
        return samba.from_torch_model(copy.deepcopy(model))

    def inputs(self, x):
        return (samba.from_torch_tensor(x, name="x"),)

    def open(self, x):
        stand(self.model, True, self.frozen)
        pef = samba.session.compile(self.model, x, self.optim, loss_indices=[0], output_folder=self.folder)
        self.outputs = utils.trace_graph(self.model, x, self.optim, loss_indices=[0], pef=pef)

    def forward_alone(self):
        """Ways of running forward and nothing else."""
        ids = [i for i, kind in enumerate(samba.session.loaded().sections) if kind == "FWD"]
        return self.draw.choice([dict(section_types=["FWD"]), dict(section_ids=ids), dict(run_until_call_id=len(ids))])

    def run(self, x, **keywords):
        return [y.torch() for y in samba.session.run(self.inputs(x), self.outputs, **keywords)]

    def train(self, x):
        stand(self.model, True, self.frozen)
        return self.run(x)

    def evaluate(self, x):
        self.model.eval()
        return self.run(x, **self.forward_alone())

    def state(self):
        samba.session.to_cpu(self.model)
        return {name: samba.to_torch(value) for name, value in self.model.state_dict().items()}


class Argument(Python):
    """By `train`, the model standing as it was traced."""

    def train(self, x):
        return self.run(x, train=True)

    def evaluate(self, x):
        return self.run(x, train=False, **self.forward_alone())


class Phases(Python):
    """Each phase a run of its own, the model in eval() before the backward: a step is what its forward was."""

    def train(self, x):
        stand(self.model, True, self.frozen)
        results = self.run(x, section_types=["FWD"])
        self.model.eval()
        samba.session.run(section_types=["BCKWD"])
        samba.session.run(section_types=["OPT"])
        return results


class Loader(Python):
    """Batches of a SambaLoader."""

    def run(self, x, **keywords):
        (batch,) = SambaLoader([(x,)], ["x"])
        return [y.torch() for y in samba.session.run(batch, self.outputs, **keywords)]


class Several(Python):
    """One graph of several, by the modes of its model."""

    def open(self, x):
        stand(self.model, True, self.frozen)
        self.other = samba.from_torch_model(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).double())
        graphs = [SambaGraph(self.model, x, self.optim, name="train", loss_indices=[0]), self.second()]
        for graph in graphs:
            samba.session.add_graph(graph)
        pef = samba.session.compile_multigraph("several", output_folder=self.folder)
        self.outputs = list(utils.trace_multigraph(graphs[0], x, self.optim))
        self.answers = list(utils.trace_multigraph(graphs[1], graphs[1].inputs))
        samba.session.init_multigraph_runtime(pef)

    def second(self):
        return FwdGraph(self.other, (samba.zeros(3, 4, dtype=torch.float64, name="other"),), name="other")

    def forward_alone(self):
        return dict(section_types=["FWD"])

    def run(self, x, **keywords):
        return super().run(x, graph_name="train", **keywords)


class Forward(Several):
    """A graph that trains, and a FwdGraph of the model that answers, in whatever mode the model stands."""

    def second(self):
        return FwdGraph(self.model, (samba.zeros(self.shape, dtype=torch.float64, name="question"),), name="answer")

    def evaluate(self, x):
        if self.draw.random() < 0.5:
            self.model.eval()
        given = (samba.from_torch_tensor(x, name="question"),)
        return [y.torch() for y in samba.session.run(given, self.answers, graph_name="answer")]


class C(Python):
    """samba_run, of a session that knows no model."""

    def open(self, x):
        stand(self.model, True, self.frozen)
        pef = samba.session.compile(self.model, x, self.optim, loss_indices=[0], output_folder=self.folder)
        self.session = runtime.Session(pef)
        for name, value in self.values():
            self.session.set(host_tensor(value, name))

    def values(self):
        for name, value in self.model.state_dict().items():
            if name in self.session.tensors:
                yield name, samba.to_torch(value).detach().clone()

    def run(self, x, train, **keywords):
        loss, y = torch.zeros((), dtype=x.dtype), torch.zeros(len(x), 3, dtype=x.dtype)
        given, results = host_tensor(x, "x"), [host_tensor(loss, "output_0"), host_tensor(y, "output_1")]
        self.session.run([given], results, train=train, **keywords)
        return loss, y

    def train(self, x):
        return self.run(x, True)

    def evaluate(self, x):
        return self.run(x, False, section_types=["FWD"])

    def state(self):
        found = {}
        for name, value in self.values():
            self.session.get(host_tensor(value, name))
            found[name] = value
        return found


class Onnx(Python):
    """The model as it was exported, in train() with frozen parts in eval(), or, without such parts, in eval()."""

    exported, close = True, dict(rtol=2e-6, atol=2e-7)  # ONNX's momentum and epsilon are float32

    def convert(self, model):
        path, exported = f"{self.folder}/model.onnx", copy.deepcopy(model)
        stand(exported, bool(self.frozen) or self.draw.random() < 0.5, self.frozen)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                exported,
                (torch.zeros(self.shape, dtype=torch.float64),),
                path,
                dynamo=False,
                opset_version=17,
                training=torch.onnx.TrainingMode.PRESERVE,
                do_constant_folding=False,
                input_names=["x"],
            )
        self.frozen = []  # the file knows them
        file = onnx.load(path)  # whose statistics the exporter has moved
        for initializer in file.graph.initializer:
            if "running" in initializer.name:
                held = model.get_buffer(initializer.name).numpy()
                initializer.CopyFrom(onnx.numpy_helper.from_array(held, initializer.name))
        onnx.save(file, path)
        return samba.from_onnx_model(path)


WAYS = {x.__name__.lower(): x for x in (Python, Argument, Phases, Loader, Several, Forward, C, Onnx)}


@pytest.mark.filterwarnings("ignore:.*compiled for inference")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", WAYS)
def test_table(tmp_path, way, seed):
    way = WAYS[way]
    theirs, frozen, shape = draw_model(100 + seed, way.exported)
    if way.exported and not frozen:  # exported in eval() it has no dropout
        theirs.apply(lambda x: setattr(x, "p", 0.0) if isinstance(x, nn.Dropout) else None)
    ours = way(theirs, frozen, shape, str(tmp_path))
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
    evaluated = random.Random(seed).sample(range(STEPS), EVALUATIONS)
    for step in range(STEPS):
        x = torch.randn(shape, dtype=torch.float64) * 2 + 1
        stand(theirs, True, frozen)
        sgd.zero_grad()
        loss, y = theirs(x)
        loss.backward()
        sgd.step()
        compare(ours.train(x), (loss.detach(), y.detach()), ours.close, f"step {step}")
        if step in evaluated:
            x = torch.randn(shape, dtype=torch.float64) * 2 + 1
            with torch.no_grad():
                compare(ours.evaluate(x), theirs.eval()(x), ours.close, f"evaluation after step {step}")
    state = ours.state()
    for name, value in theirs.state_dict().items():
        if name in state:
            torch.testing.assert_close(state[name], value, **ours.close, msg=lambda text: f"{name}: {text}")
    missing = set(theirs.state_dict()) - set(state)
    assert all(name.endswith("num_batches_tracked") for name in missing), missing
    assert way in (C, Onnx) or not missing


def compare(given, expected, close, what):
    for a, b in zip(given, expected):
        torch.testing.assert_close(a, b, **close, msg=lambda text: f"{what}: {text}")


# ---- what a graph cannot follow ----


def traced(model, folder, inference=False, train=True, x=None):
    """Ours of a model, traced as it stands, its inputs and what runs give."""
    ours = samba.from_torch_model(copy.deepcopy(model))
    x = (samba.from_torch_tensor(torch.randn(5, 4) if x is None else x, name="x"),)
    optim = None if inference else samba.optim.SGD(ours.parameters(), lr=0.05)
    pef = samba.session.compile(ours, x, optim, inference=inference, output_folder=str(folder))
    return ours, x, utils.trace_graph(ours, x, optim, pef=pef)


def refused(match):
    return pytest.raises(errors.StateError, match=match)


def layers():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.3)))


def counts(model):
    samba.session.to_cpu(model)
    return [int(samba.to_torch(x)) for name, x in model.state_dict().items() if name.endswith("num_batches_tracked")]


def test_part_switched_off(tmp_path):
    model, x, outputs = traced(layers(), tmp_path)
    model[2][1].eval()
    with refused(r"'2\.1' \(BatchNorm1d\) stands in eval\(\), and stood in train\(\).*while '1'"):
        samba.session.run(x, outputs)
    samba.session.run(x, outputs, train=False)
    assert counts(model) == [0, 0]
    model.eval()
    samba.session.run(x, outputs)
    assert counts(model) == [0, 0]
    model.train()
    samba.session.run(x, outputs)
    assert counts(model) == [1, 1]


def test_part_switched_on(tmp_path):
    model = layers()
    model[2].eval()
    model, x, outputs = traced(model, tmp_path)
    samba.session.run(x, outputs)
    model.train()
    with refused(r"'2\.1' \(BatchNorm1d\) stands in train\(\), and stood in eval\(\)"):
        samba.session.run(x, outputs)
    assert counts(model) == [1, 0]
    model.eval()
    samba.session.run(x, outputs)
    assert counts(model) == [1, 0]


def test_dropout_alone_switched(tmp_path):
    """As programs do that sample from dropout in eval()."""
    model, x, outputs = traced(layers(), tmp_path)
    model.eval()
    model[2][2].train()
    with refused(r"'1' \(BatchNorm1d\) stands in eval\(\).* while '2\.2' \(Dropout\) stands in train"):
        samba.session.run(x, outputs)


def test_parts_without_modes(tmp_path):
    """Switching what trains nothing by itself is nobody's concern."""
    norm = nn.BatchNorm1d(4, track_running_stats=False)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.0), norm, nn.Dropout(1.0))
    model, x, outputs = traced(model, tmp_path)
    for part in (0, 1, 2, 3):
        model[part].eval()
        assert not samba.session.run(x, outputs)[0].torch().any()
    model.eval()
    assert samba.session.run(x, outputs)[0].torch().any()
    for part in (0, 1, 2, 3):
        model[part].train()
        assert samba.session.run(x, outputs)[0].torch().any()


class Branch(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.norm, self.body = nn.BatchNorm1d(4), body

    def forward(self, x):
        return self.body(self, self.norm(x))


def test_own_code(tmp_path):
    """What a program decides by self.training: the same in both modes but for dropout is followed."""
    model = Branch(lambda self, x: F.dropout(x, 1.0, self.training) + (0.0 if self.training else 1.0) * 0.0)
    theirs, (model, x, outputs) = model, traced(model, tmp_path)
    assert not samba.session.run(x, outputs)[0].torch().any()
    model.eval()
    state = torch.get_rng_state()
    given = samba.session.run(x, outputs)[0].torch()
    assert torch.equal(torch.get_rng_state(), state)  # looking at the model takes no random number
    mean = x[0].torch().mean(0) * 0.1
    var = x[0].torch().var(0) * 0.1 + 0.9
    torch.testing.assert_close(given, (x[0].torch() - mean) / (var + 1e-5).sqrt())
    assert theirs.training and counts(model) == [1]


@pytest.mark.parametrize(
    "body",
    [
        lambda self, x: x * (2.0 if self.training else 3.0),
        lambda self, x: (x, x.sum()) if self.training else x,
        lambda self, x: x if self.training else x.no_such_thing(),
        lambda self, x: F.dropout(x, 0.5, True),
    ],
    ids=["another number", "another count", "fails", "always"],
)
def test_own_branch(tmp_path, body):
    model, x, outputs = traced(Branch(body), tmp_path)
    samba.session.run(x, outputs)
    model.eval()
    for _ in range(2):
        with refused(r"the model stands in eval\(\), and its forward pass is another one there"):
            samba.session.run(x, outputs)
    assert counts(model) == [1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            samba.session.run(x, outputs, train=False)
    (said,) = [each for each in caught if "took a step of the optimizer" not in str(each.message)]
    assert re.search("train=False turns dropout off.* decides more than that", str(said.message))
    assert said.filename == __file__ and counts(model) == [1]


def test_spectral_norm(tmp_path):
    """Its power iteration moves buffers in train() alone, by code of its own."""
    torch.manual_seed(1)
    model, x, outputs = traced(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), tmp_path)
    samba.session.run(x, outputs)
    model.eval()
    with refused(r"'parametrizations\.weight\.0' \(_SpectralNorm\) decides that by itself"):
        samba.session.run(x, outputs)


def test_traced_in_another_mode(tmp_path):
    model = samba.from_torch_model(layers())
    x, optim = (samba.randn(5, 4, name="x"),), samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, x, optim, output_folder=str(tmp_path))
    with refused(r"the model stands in eval\(\), and stood in train\(\) when the PEF was compiled"):
        utils.trace_graph(model.eval(), x, optim, pef=pef)
    pef = samba.session.compile(model, x, optim, output_folder=str(tmp_path))
    with refused(r"the model stands in train\(\), and stood in eval\(\) when the PEF was compiled"):
        utils.trace_graph(model.train(), x, optim, pef=pef)


def test_inference_then_train(tmp_path):
    model, x, outputs = traced(layers().eval(), tmp_path, inference=True)
    before = samba.session.run(x, outputs)[0].torch()
    model.train()  # as between two steps of training it elsewhere
    with pytest.warns(errors.NoEffectWarning, match=r"for inference, and '1' \(BatchNorm1d\) and 2 more stand in train\(\)"):
        assert torch.equal(samba.session.run(x, outputs)[0].torch(), before)
    with warnings.catch_warnings(action="error"):
        assert torch.equal(samba.session.run(x, outputs)[0].torch(), before)
        samba.session.run(x, outputs, train=False)


def test_measures(tmp_path, capsys):
    """Measured steps are real ones: in eval() they move no statistics."""
    model, x, outputs = traced(layers(), tmp_path)
    model.eval()
    utils.measure_performance(model, x, n_iterations=2)
    utils.measure_sections(model, x, n_iterations=2)
    assert counts(model) == [0, 0]
    model.train()
    utils.measure_performance(model, x, n_iterations=2)
    assert counts(model)[0] > 0
    capsys.readouterr()


def test_sizes(tmp_path):
    model = samba.from_torch_model(layers())
    x, last = (samba.randn(5, 4, name="x"),), (samba.randn(3, 4, name="x"),)
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, x, optim, dims={"batch": (5, 3)}, output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, x, optim, pef=pef)
    for given, train, expected in ((x, True, 1), (last, False, 1), (x, False, 1), (last, True, 2)):
        model.train(train)
        samba.session.run(given, outputs)
        assert counts(model) == [expected] * 2


def test_of_a_run(tmp_path):
    model, x, outputs = traced(layers(), tmp_path)
    assert (samba.session.trains(), samba.session.trains(False)) == (True, False)
    for wrong in ("yes", 2, 0.5):
        with pytest.raises(TypeError, match="train is .*: expected True or False"):
            samba.session.run(x, outputs, train=wrong)
    model.eval()
    assert (samba.session.trains(), samba.session.trains(False)) == (False, False)
    assert "training" not in vars(torch.nn.Module)
