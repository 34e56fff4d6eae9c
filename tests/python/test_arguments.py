# SPDX-License-Identifier: Apache-2.0
"""What models take, give and keep: nested arguments of every kind, constants, parameters that are tied,
modules used twice, buffers."""

import collections
import dataclasses
import typing

import pytest
import torch
import transformers
from models import Taker, beside_torch
from torch import nn

import sambaflow.samba as samba

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Batch:
    image: torch.Tensor
    scale: float
    mask: typing.Optional[torch.Tensor] = None


def compare(tmp_path, model, inputs, **keywords):
    """Inference by ours and by torch: the tensors of both results, in order."""
    expected = samba.trees.tensors(model(**inputs) if isinstance(inputs, dict) else model(*inputs))
    samba.from_torch_model_(model)
    given = samba.trees.mapped(lambda x, name: samba.from_torch_tensor(x, name=f"given.{name}" if name else None), inputs)
    pef = samba.session.compile(model, given, inference=True, name="arguments", output_folder=str(tmp_path), **keywords)
    outputs = samba.utils.trace_graph(model, given, pef=pef)
    results = samba.session.run(given, outputs)
    assert len(results) == len(expected) > 0
    for mine, its in zip(results, expected):
        torch.testing.assert_close(mine.torch(), its.detach(), rtol=1e-5, atol=1e-6)
    return results


x, y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)


@pytest.mark.parametrize(
    "inputs, function",
    [
        (((x, [y, None]), {"a": x, "b": {"c": y}}), lambda self, p, d: p[0] * 2 + p[1][0] - d["b"]["c"] * d["a"]),
        ((Pair(x, y), 3, "word", None), lambda self, p, n, word, none: p.first * n + p.second * len(word)),
        ((Batch(x, 0.5),), lambda self, b: b.image * b.scale if b.mask is None else None),
        (([Batch(x, 0.5, y > 0), (Batch(y, 2.0),)],), lambda self, b: torch.where(b[0].mask, b[0].image * b[1][0].scale, 0)),
        (
            {"first": x, "second": {"deep": [y]}, "flag": True},
            lambda self, first, second, flag=False: first + second["deep"][0] if flag else None,
        ),
        ((x, x), lambda self, a, b: a + b),
        (
            (transformers.modeling_outputs.BaseModelOutput(last_hidden_state=x, hidden_states=(y, x)),),
            lambda self, o: o.last_hidden_state + o.hidden_states[1] * o[1][0],
        ),
    ],
    ids=["nested", "namedtuple", "dataclass", "list of dataclasses", "keywords", "twice", "ModelOutput"],
)
def test_inputs(tmp_path, inputs, function):
    compare(tmp_path, Taker(function), inputs)


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: {"a": x + 1, "b": [x * 2, None, (x - 1, "word")], "n": 3},
        lambda self, x: Pair(x + 1, x * 2),
        lambda self, x: Batch(x * 2, 0.5, x > 1),
        lambda self, x: transformers.modeling_outputs.BaseModelOutput(last_hidden_state=x + 1, hidden_states=(x * 3, x * 4)),
        lambda self, x: (x, x, x + 0, torch.ones(3)),  # inputs and constants too
    ],
)
def test_outputs(tmp_path, function):
    compare(tmp_path, Taker(function), (x,))


def test_unnamed_inputs_are_named_by_their_place(tmp_path):
    model = Taker(lambda self, a, b: a["x"] + b[1])
    given = {"a": {"x": samba.from_torch_tensor(x.clone())}, "b": (None, samba.from_torch_tensor(y.clone()))}
    samba.session.compile(model, given, inference=True, name="names", output_folder=str(tmp_path))
    assert given["a"]["x"].sn_name == "a.x" and given["b"][1].sn_name == "b.1"


def test_constants_and_shape_arithmetic(tmp_path):
    outside = torch.randn(3)

    def forward(self, x):
        batch, width = x.shape
        half = width // 2
        steps = torch.arange(x.size(-1)) * 2 + len(x)
        table = torch.tensor([[1.0, 2.0, 3.0]]).expand(batch, -1)
        rows = x.new_zeros(batch, width - half)
        for i in range(int(steps[1])):
            rows = rows + i * x[:, half:]
        return x * outside + steps + table * self.scale, rows, torch.full_like(x, x.numel()), x.view(batch, -1, 1).squeeze(-1)

    model = Taker(forward)
    model.scale = torch.tensor(0.5)
    compare(tmp_path, model, (x,))


def test_buffers_that_state_dict_leaves_out_are_constants(tmp_path):
    model = Taker(lambda self, x: x * self.kept + self.left)
    model.register_buffer("kept", torch.tensor([1.0, 2.0, 3.0]))
    model.register_buffer("left", torch.tensor([4.0, 5.0, 6.0]), persistent=False)
    compare(tmp_path, model, (x,))
    assert samba.session.has("kept") and not samba.session.has("left")


# ---- training ----


def test_tied_parameters_stay_tied(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return nn.functional.cross_entropy(self.head(self.embed(tokens)).flatten(0, 1), tokens.flatten())

    model = Tied()
    beside_torch(tmp_path, model, (torch.randint(11, (3, 4)),))
    assert model.head.weight is model.embed.weight and samba.session.get_weight_names() == ["embed.weight"]


def test_a_module_used_twice(tmp_path):
    """Batch norm's statistics move twice, in order."""
    model = nn.Sequential(
        nn.Linear(3, 4), norm := nn.BatchNorm1d(4), nn.Tanh(), shared := nn.Linear(4, 4), norm, nn.Tanh(), shared
    )
    beside_torch(tmp_path, Taker(lambda self, x: self.net(x).square().mean(), net=model), (torch.randn(6, 3),))
    assert norm.num_batches_tracked.item() == 6


def test_frozen_parameters(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    net[0].weight.requires_grad_(False)
    before = net[0].weight.clone()
    beside_torch(tmp_path, Taker(lambda self, x: self.net(x).square().mean(), net=net), (torch.randn(6, 3),))
    assert torch.equal(net[0].weight.torch(), before)


def test_detach_and_no_grad(tmp_path):
    def forward(self, x):
        a = self.a(x)
        with torch.no_grad():
            target = self.b(a) + a
        return (
            (self.b(a.detach()) - target).square().mean() + (a * a.data).mean() + (x + (self.a(x).round() - x).detach()).sum() * 0
        )

    beside_torch(tmp_path, Taker(forward, a=nn.Linear(3, 3), b=nn.Linear(3, 3)), (torch.randn(6, 3),))


def test_checkpointing_is_the_function_itself(tmp_path):
    def forward(self, x):
        y = self.a(x)
        return (
            torch.utils.checkpoint.checkpoint(self.b, y, use_reentrant=True).mean()
            + torch.utils.checkpoint.checkpoint(self.c, y, use_reentrant=False).mean()
        )

    parts = Taker(forward, a=nn.Linear(3, 3), b=nn.Sequential(nn.Linear(3, 3), nn.Tanh()), c=nn.Linear(3, 3))
    beside_torch(tmp_path, parts, (torch.randn(6, 3),))


def test_a_plain_parameter_is_refused(tmp_path):
    model = Taker(lambda self, x: x @ (self.w * 2))
    model.w = nn.Parameter(torch.randn(3, 3))
    with pytest.raises(NotImplementedError, match="from_torch_model_"):
        samba.session.compile(model, (samba.randn(6, 3, name="x"),), inference=True, output_folder=str(tmp_path))


def test_random_numbers(tmp_path):
    """New ones each run, uniform or normal: mean, spread and range over 40,000, within five standard errors."""
    model = Taker(
        lambda self, x: (torch.rand_like(x), torch.randn(200, 200), torch.bernoulli(torch.full_like(x, 0.3)), torch.rand_like(x))
    )
    given = (samba.zeros(200, 200, name="x"),)
    pef = samba.session.compile(model, given, inference=True, name="random", output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, given, pef=pef)
    first, second = ([z.torch() for z in samba.session.run(given, outputs)] for _ in range(2))
    for (mean, deviation), one, other in zip(((0.5, 12**-0.5), (0, 1), (0.3, 0.21**0.5), (0.5, 12**-0.5)), first, second):
        assert not torch.equal(one, other)
        assert abs(one.mean() - mean) < 5 * deviation / 200 and abs(one.std() - deviation) < 5 * deviation / 200
    assert not torch.equal(first[0], first[3]) and 0 <= first[0].min() and first[0].max() < 1
    assert abs((first[0] - 0.5).mul(first[3] - 0.5).mean()) < 5 / 12 / 200
