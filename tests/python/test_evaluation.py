# SPDX-License-Identifier: Apache-2.0
"""Evaluation does not train: normalizations by a batch's statistics, in models that stand in train() while they are traced,
evaluated between steps of training in every way that there is, beside PyTorch with eval() in between.
Outputs, gradients and running statistics are PyTorch's."""

import contextlib
import copy
import re
import warnings

import pytest
import torch
import torch.nn as nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.samba.utils.argparser import parse_app_args
from sambaflow.samba.utils.common import common_app_driver

NORMS = {
    "1d": lambda: nn.BatchNorm1d(4),
    "2d": lambda: nn.BatchNorm2d(4),
    "3d": lambda: nn.BatchNorm3d(4),
    "synchronized": lambda: nn.SyncBatchNorm(4),
    "cumulative": lambda: nn.BatchNorm2d(4, momentum=None),
    "without statistics": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "plain": lambda: nn.BatchNorm2d(4, affine=False, momentum=0.3, eps=1e-3),
    "instance 1d": lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
    "instance 2d": lambda: nn.InstanceNorm2d(4, track_running_stats=True),
    "instance without": lambda: nn.InstanceNorm2d(4),
    "instance cumulative": lambda: nn.InstanceNorm2d(4, momentum=0.4, track_running_stats=True),
}


class Normed(nn.Module):
    """A norm, used once or twice, between layers that are trained, and one more norm of rows behind."""

    def __init__(self, norm, twice):
        super().__init__()
        self.scale, self.norm, self.twice = nn.Parameter(torch.tensor(1.5)), norm, twice
        self.lin, self.last = nn.Linear(4, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        x = self.norm(x * self.scale)
        if self.twice:
            x = self.norm(torch.tanh(x) + 0.5)
        y = self.last(self.lin(torch.exp(0.5 * x).flatten(2).mean(2)))
        return (y.square() * torch.tensor([0.5, 1.0, 2.0], dtype=y.dtype)).mean(), y


@contextlib.contextmanager
def told_once(expected, match):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    said = [str(x.message) for x in caught if issubclass(x.category, errors.NoEffectWarning)]
    assert len(said) == bool(expected) and all(re.search(match, text) for text in said), said


def _shape(name):
    return (6, 4, 5) if "1d" in name else (6, 4, 2, 3, 2) if "3d" in name else (6, 4, 3, 2)


class Beside:
    """PyTorch's model and ours, which take the same steps."""

    def __init__(self, name, twice=False):
        torch.manual_seed(11)
        self.theirs = Normed(NORMS[name](), twice).double()
        self.ours = samba.from_torch_model(copy.deepcopy(self.theirs)).train()
        self.sgd = torch.optim.SGD(self.theirs.parameters(), lr=0.02, momentum=0.9)
        self.optimizer = samba.optim.SGD(self.ours.parameters(), lr=0.02, momentum=0.9)
        self.generator, self.name = torch.Generator().manual_seed(2), name

    def batch(self):
        return torch.randn(_shape(self.name), generator=self.generator, dtype=torch.float64) * 2 + 1

    def step(self, x):
        self.theirs.train()
        self.sgd.zero_grad()
        loss, y = self.theirs(x)
        loss.backward()
        self.sgd.step()
        return loss.detach(), y.detach()

    def evaluated(self, x):
        self.theirs.eval()
        with torch.no_grad():
            return self.theirs(x)

    def compare_state(self, what):
        samba.session.to_cpu(self.ours)
        for (name, a), b in zip(self.ours.state_dict().items(), self.theirs.state_dict().values()):
            torch.testing.assert_close(samba.to_torch(a), b, rtol=1e-7, atol=1e-8, msg=lambda text: f"{what}, {name}: {text}")
        assert int(samba.to_torch(self.ours.last.num_batches_tracked)) == int(self.theirs.last.num_batches_tracked)


def _close(given, expected, what):
    for a, b in zip(given, expected):
        torch.testing.assert_close(a.torch(), b, rtol=1e-7, atol=1e-8, msg=lambda text: f"{what}: {text}")


def _input(x):
    return (samba.from_torch_tensor(x, name="x"),)


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("name", NORMS)
def test_train_evaluate_train(tmp_path, name, twice):
    both = Beside(name, twice)
    x = both.batch()
    pef = samba.session.compile(both.ours, _input(x), both.optimizer, loss_indices=[0], output_folder=str(tmp_path))
    outputs = utils.trace_graph(both.ours, _input(x), both.optimizer, pef=pef, loss_indices=[0])
    forward = [i for i, kind in enumerate(samba.session.loaded().sections) if kind == "FWD"]
    ways = [dict(section_types=["FWD"]), dict(section_ids=forward), dict(run_until_call_id=len(forward))]
    for step in range(6):
        x = both.batch()
        _close(samba.session.run(_input(x), outputs), both.step(x), f"step {step}")
        for way in ways:
            x = both.batch()
            _close(samba.session.run(_input(x), outputs, train=False, **way), both.evaluated(x), f"evaluated after step {step}")
        both.compare_state(f"step {step}")


def test_gradients_of_an_evaluation(tmp_path):
    """A whole step with train=False is one of a model in eval(): it learns, by running statistics that stay."""
    both = Beside("2d")
    x = both.batch()
    pef = samba.session.compile(both.ours, _input(x), both.optimizer, loss_indices=[0], output_folder=str(tmp_path))
    outputs = utils.trace_graph(both.ours, _input(x), both.optimizer, pef=pef, loss_indices=[0])
    for step in range(6):
        x = both.batch()
        if step % 2 == 0:
            _close(samba.session.run(_input(x), outputs), both.step(x), f"step {step}")
        else:
            both.theirs.eval().train = lambda mode=True: None  # for a step
            _close(samba.session.run(_input(x), outputs, train=False), both.step(x), f"step {step}")
            del both.theirs.train
        both.compare_state(f"step {step}")


@pytest.mark.parametrize("name", NORMS)
def test_forward_graph_beside_training(tmp_path, name):
    """Graphs of one module in train(): one trains it, one only answers."""
    both = Beside(name)
    x = both.batch()
    training = SambaGraph(both.ours, _input(x), both.optimizer, name="train", loss_indices=[0])
    question = (samba.from_torch_tensor(x, name="question"),)
    samba.session.add_graph(training)
    samba.session.add_graph(FwdGraph(both.ours, question, name="answer"))
    pef = samba.session.compile_multigraph("both", output_folder=str(tmp_path))
    losses = list(utils.trace_multigraph(training, _input(x), both.optimizer))
    answers = utils.trace_multigraph(both.ours, question)
    samba.session.init_multigraph_runtime(pef)
    for step in range(4):
        x = both.batch()
        _close(samba.session.run(_input(x), losses, graph_name="train"), both.step(x), f"step {step}")
        for train in (True, False):
            x = both.batch()
            with told_once(step == 0 and train, "graph 'answer' was compiled for inference, and '(norm|last)'.* train"):
                question = (samba.from_torch_tensor(x, name="question"),)
                given = samba.session.run(question, answers, graph_name="answer", train=train)
            _close(given, both.evaluated(x), f"answered after step {step}")
        x = both.batch()
        _close(
            samba.session.run(_input(x), losses, graph_name="train", section_types=["FWD"], train=False),
            both.evaluated(x),
            f"evaluated after step {step}",
        )
        both.compare_state(f"step {step}")


@pytest.mark.parametrize("name", NORMS)
def test_compiled_for_inference(tmp_path, name):
    both = Beside(name)
    for _ in range(3):
        both.step(both.batch())
    ours, x = samba.from_torch_model(copy.deepcopy(both.theirs)).train(), both.batch()
    pef = samba.session.compile(ours, _input(x), inference=True, output_folder=str(tmp_path))
    outputs = utils.trace_graph(ours, _input(x), pef=pef)
    both.ours = ours
    for train in (True, False, True):
        x = both.batch()
        with told_once(train and both.ours.training, "was compiled for inference"):
            given = samba.session.run(_input(x), outputs, train=train)
        _close(given, both.evaluated(x), "inference")
        both.compare_state("inference")
        both.ours.eval()


def test_epochs_of_a_loader(tmp_path):
    """An epoch that trains, then one that validates, as the documents' programs have them."""
    both = Beside("2d")
    x = both.batch()
    pef = samba.session.compile(both.ours, _input(x), both.optimizer, loss_indices=[0], output_folder=str(tmp_path))
    outputs = utils.trace_graph(both.ours, _input(x), both.optimizer, pef=pef, loss_indices=[0])
    train, validation = [[both.batch() for _ in range(3)] for _ in range(2)]
    for epoch in range(3):
        for given, x in zip(SambaLoader([(x,) for x in train], ["x"]), train):
            _close(samba.session.run(given, outputs), both.step(x), f"epoch {epoch}")
        for given, x in zip(SambaLoader([(x,) for x in validation], ["x"]), validation):
            _close(
                samba.session.run(given, outputs, section_types=["FWD"], train=False), both.evaluated(x), f"validation {epoch}"
            )
        both.compare_state(f"epoch {epoch}")


def test_driver(tmp_path):
    """`test` and the measuring commands run the forward as the model's mode says and leave its statistics as they were."""
    torch.manual_seed(3)
    model = samba.from_torch_model(Normed(nn.BatchNorm2d(4), False)).eval()
    inputs, path = (samba.randn(*_shape("2d"), name="x"),), str(tmp_path / "normed.pef")
    before = {name: samba.to_torch(value).clone() for name, value in model.state_dict().items()}
    common_app_driver(parse_app_args(["compile", "--inference", "-p", path]), model, inputs)
    for argv in (
        ["test", "--inference", "-p", path],
        ["measure-performance", "--inference", "-p", path, "--num-iterations", "3"],
    ):
        common_app_driver(parse_app_args(argv), model, inputs)
    samba.session.to_cpu(model)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(samba.to_torch(value), before[name], rtol=0, atol=0)


def test_one_sample(tmp_path):
    """Statistics of one value cannot be trained by, as in torch; by running ones such a sample is answered."""
    torch.manual_seed(1)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), torch.randn(1, 3)
    ours = samba.from_torch_model(copy.deepcopy(model))
    with pytest.raises(errors.ShapeError, match="more than 1 value for each channel when training"):
        samba.session.compile(ours, _input(x), samba.optim.SGD(ours.parameters(), lr=0.1), output_folder=str(tmp_path))
    pef = samba.session.compile(ours, _input(x), inference=True, output_folder=str(tmp_path))
    outputs = utils.trace_graph(ours, _input(x), pef=pef)
    torch.testing.assert_close(samba.session.run(_input(x), outputs)[0].torch(), model.eval()(x).detach())


def test_eager_is_torchs(tmp_path):
    """Outside tracing train() means now: statistics move at each call."""
    torch.manual_seed(1)
    model, x = nn.BatchNorm1d(4), torch.randn(5, 4)
    ours = samba.from_torch_model(copy.deepcopy(model))
    torch.testing.assert_close(ours(samba.from_torch_tensor(x, name="x")).torch(), model(x))
    torch.testing.assert_close(samba.to_torch(ours.running_var), model.running_var)
    assert int(samba.to_torch(ours.num_batches_tracked)) == 1
