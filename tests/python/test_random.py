# SPDX-License-Identifier: Apache-2.0
"""Functions of random numbers in a graph: what is drawn has torch's distribution, and no other shape than torch's; a run that
does not train, and a graph for inference, drop nothing."""

import math

import pytest
import torch
import torch.nn.functional as F

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.errors import SambaError


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.one = function, torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.function(x * self.one)


def traced(function, x, tmp_path, inference=False):
    model = Model(function)
    samba.from_torch_model_(model)
    inputs = (samba.from_torch_tensor(x.requires_grad_(not inference), name="x"),)
    pef = samba.session.compile(model, inputs, inference=inference, output_folder=str(tmp_path), name="random")
    outputs = utils.trace_graph(model, inputs, pef=pef)
    return lambda **options: (
        samba.to_torch(samba.session.run(inputs, outputs, section_types=["FWD"], **options)[0]).detach().clone()
    )


CHANNELS = {
    "1d": (F.dropout1d, (40, 30, 5), (0, 1)),
    "2d": (F.dropout2d, (40, 30, 3, 2), (0, 1)),
    "2d as torch takes three dims": (F.dropout2d, (40, 30, 3), (0, 1)),
    "3d of one image": (F.dropout3d, (600, 2, 1, 2), (0,)),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_dropout_of_channels(name, tmp_path):
    function, shape, kept = CHANNELS[name]
    x = torch.rand(shape) + 1
    run = traced(lambda x: function(x, 0.25), x, tmp_path)
    first, second = run(), run()
    assert not torch.equal(first, second)
    ratio = (first / x.detach()).flatten(len(kept))
    assert torch.equal(ratio > 0.5, (ratio > 0.5)[..., :1].expand(ratio.shape))  # all of a channel or nothing
    torch.testing.assert_close(ratio[ratio > 0.5], torch.full_like(ratio[ratio > 0.5], 1 / 0.75))
    rows = ratio[..., 0].numel()
    assert abs((ratio[..., 0] > 0.5).float().mean().item() - 0.75) < 6 * math.sqrt(0.25 * 0.75 / rows)  # six deviations
    torch.testing.assert_close(run(hyperparam_dict={"p": 0.0}), x.detach())


@pytest.mark.parametrize("function", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout(function, tmp_path):
    x = torch.randn(200, 150, 2)
    run = traced(lambda x: function(x, 0.3, training=True), x, tmp_path)
    y = run()
    a = ((1.7580993408473766**2 * 0.3 + 1) * 0.7) ** -0.5
    low = -1.7580993408473766 * a * 0.7
    dropped = torch.isclose(y, torch.tensor(low), rtol=1e-5)
    torch.testing.assert_close(y[~dropped], (x.detach() * a + 1.7580993408473766 * a * 0.3)[~dropped])
    assert abs(dropped.float().mean().item() - 0.3) < 6 * math.sqrt(0.21 / 30000)
    assert abs(y.mean().item()) < 0.05 and abs(y.var().item() - 1) < 0.05  # as x has them
    if function is F.feature_alpha_dropout:
        assert torch.equal(dropped[..., 0], dropped[..., 1])
    torch.testing.assert_close(run(hyperparam_dict={"p": 0.0}), x.detach())
    assert torch.equal(run(hyperparam_dict={"p": 1.0}), torch.zeros_like(y))


def test_inference(tmp_path):
    x = torch.randn(4, 6, 3)
    for k, function in enumerate((F.dropout1d, F.alpha_dropout, F.feature_alpha_dropout)):
        torch.testing.assert_close(traced(lambda x: function(x, 0.5, training=True), x, tmp_path / str(k), inference=True)(), x)


def test_integers(tmp_path):
    run = traced(lambda x: torch.randint_like(x, -3, 5) + 0 * x, torch.zeros(8000), tmp_path)
    counts = torch.bincount((run() + 3).long(), minlength=8)
    assert counts.numel() == 8 and (counts - 1000).abs().max() < 6 * math.sqrt(1000)


def test_gumbel_softmax(tmp_path):
    logits = torch.log(torch.tensor([0.1, 0.2, 0.7])).expand(9000, 3).contiguous()
    hard = traced(lambda x: F.gumbel_softmax(x, hard=True), logits, tmp_path / "hard")()
    assert torch.equal(hard.round().sum(1), torch.ones(9000))
    assert (hard.mean(0) - torch.tensor([0.1, 0.2, 0.7])).abs().max() < 6 * math.sqrt(0.25 / 9000)
    soft = traced(lambda x: F.gumbel_softmax(x, tau=2.0), logits, tmp_path / "soft")()
    torch.testing.assert_close(soft.sum(1), torch.ones(9000))
    assert soft.std(0).min() > 0.1


def test_refusals(tmp_path):
    wrong = {
        "dropout1d: p must be from 0 to 1, given 2": lambda x: F.dropout1d(x, 2.0),
        "dropout3d: expected an input of rank 4 or 5, given": lambda x: F.dropout3d(x, 0.5),
        "gumbel_softmax: tau must be more than 0, given 0": lambda x: F.gumbel_softmax(x, tau=0.0),
        "gumbel_softmax: dim 2 is out of range": lambda x: F.gumbel_softmax(x, dim=2),
        "randint: expected low below high": lambda x: torch.randint_like(x, 5, 2),
    }
    for message, function in wrong.items():
        with pytest.raises(SambaError, match=message):
            traced(function, torch.rand(3, 4), tmp_path, inference=True)


def test_gradients_of_normal(tmp_path):
    """Mean and deviation have no gradients through what is drawn, as in torch."""

    class Drawn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.std = torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            return (
                torch.normal(self.mean, self.std)
                + torch.normal(self.mean, 1.0)
                + torch.normal(0.0, self.std)
                + x * self.mean
                + x * self.std
            ).sum()

    model = samba.from_torch_model(Drawn())
    inputs = (samba.ones(4, name="x"),)
    pef = samba.session.compile(model, inputs, samba.optim.SGD(model.parameters(), lr=0.1), output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, inputs, samba.optim.SGD(model.parameters(), lr=0.1), pef=pef)
    samba.session.run(inputs, outputs, section_types=["FWD", "BCKWD"])
    assert all(torch.equal(samba.to_torch(parameter.sn_grad), torch.ones(4)) for parameter in (model.mean, model.std))


FILLED = {  # call -> what of its numbers has the mean, the mean
    "exponential": (lambda x: torch.empty(9000).exponential_(2.0) + x, lambda y: y, 0.5),
    "exponential of a traced one": (lambda x: x.clone().exponential_(lambd=0.5) + x, lambda y: y.exp().reciprocal(), 1 / 3),
    "Exponential": (lambda x: torch.distributions.Exponential(x + 2).rsample(), lambda y: y, 0.5),
    "Laplace": (lambda x: torch.distributions.Laplace(x, 1.0).rsample(), lambda y: y.abs(), 1.0),
    "geometric": (lambda x: torch.empty(9000).geometric_(0.5) + x, lambda y: y, 2.0),
    "log-normal": (lambda x: torch.empty(9000).log_normal_(0.0, 0.5) + x, lambda y: y.log(), 0.0),
    "cauchy": (lambda x: torch.empty(9000).cauchy_(1.0, 2.0) + x, lambda y: ((y - 1).abs() < 2).float(), 0.5),
    "uniform": (lambda x: torch.empty(9000).uniform_(-1, 3) + x, lambda y: y, 1.0),
    "normal": (lambda x: torch.empty(9000).normal_(1, 2) + x, lambda y: y, 1.0),
}


@pytest.mark.parametrize("name", FILLED)
def test_filled_in_place(name, tmp_path):
    function, shown, mean = FILLED[name]
    run = traced(function, torch.zeros(9000), tmp_path)
    first, second = run(), run()
    assert not torch.equal(first, second)
    y = shown(first)
    assert y.isfinite().all() and abs(y.mean().item() - mean) < 6 * y.std().item() / math.sqrt(9000)


def test_permutations(tmp_path):
    run = traced(lambda x: x[torch.randperm(50)], torch.arange(50.0), tmp_path)
    first, second = run(), run()
    assert not torch.equal(first, second) and not torch.equal(first, torch.arange(50.0))
    assert torch.equal(first.sort().values, torch.arange(50.0))


def test_what_is_not_drawn(tmp_path):
    """Neither once, when the model is traced, nor with a generator whose state no graph has."""
    own = torch.Generator()
    for name, function in {
        "bernoulli: numbers of a generator": lambda x: torch.bernoulli(x, generator=own),
        "normal: numbers of a generator": lambda x: torch.normal(x, 1.0, generator=own),
        "uniform_: numbers of a generator": lambda x: x.clone().uniform_(generator=own),
        "exponential_: numbers of a generator": lambda x: x.clone().exponential_(generator=own),
        "randperm: numbers of a generator": lambda x: x[:, torch.randperm(4, generator=own)],
        "draws of counts": lambda x: torch.poisson(torch.ones(3, 4)) + x,
        "draws of the gamma": lambda x: torch.distributions.Gamma(torch.ones(3, 4), 1.0).sample() + x,
        "integers that random_ draws": lambda x: torch.empty(3, 4).random_(5) + x,
    }.items():
        with pytest.raises(NotImplementedError, match=name):
            traced(function, torch.rand(3, 4), tmp_path, inference=True)


SINGLE = {
    "rand": (lambda x: x * torch.rand(()), 0.5, 1 / 12),
    "randn": (lambda x: x * torch.randn([]), 0.0, 1.0),
    "randint": (lambda x: x * torch.randint(1, 7, ()), 3.5, 35 / 12),
    "of float64": (lambda x: x * torch.rand((), dtype=torch.float64).float(), 0.5, 1 / 12),
    "a term": (lambda x: x * (1 - torch.rand(())) ** 2, 1 / 3, 1 / 5 - 1 / 9),
    "drop path": (lambda x: x * torch.floor(0.75 + torch.rand(size=())) / 0.75, 1.0, 1 / 3),
    "where": (lambda x: torch.where(torch.rand(()) < 0.25, x, 3 * x), 2.5, 0.75),
    "twice one number": (lambda x: (lambda u: x * u * u + (1 - u) * 0)(torch.rand(())), 1 / 3, 1 / 5 - 1 / 9),
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_single_number(name, tmp_path):
    """A new one in each run, of torch's mean and variance, and one for all that reads it."""
    function, mean, variance = SINGLE[name]
    x = torch.ones(5)
    run, count = traced(function, x, tmp_path), 400
    drawn = torch.stack([run() for _ in range(count)])
    assert torch.equal(drawn, drawn[:, :1].expand(drawn.shape))
    drawn = drawn[:, 0].double()
    assert abs(drawn.mean().item() - mean) < 6 * math.sqrt(variance / count)  # six deviations
    assert abs(drawn.var().item() / variance - 1) < 6 * math.sqrt(8 / count)  # no kurtosis here is above 9


def test_a_single_number_that_decides(tmp_path):
    """What asks for its value has one while the model is traced, as models do that leave out layers; what writes into it is
    refused."""
    run = traced(lambda x: x if torch.rand(()) < 0.0 else x * 2 if torch.rand([]) < 1.0 else x * 3, torch.ones(3), tmp_path)
    assert torch.equal(run(), torch.full((3,), 2.0))
    with pytest.raises(SambaError, match="a single random number is written in place: draw it with a dim"):
        traced(lambda x: x * torch.rand(()).mul_(2), torch.ones(3), tmp_path)
