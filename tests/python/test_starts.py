# SPDX-License-Identifier: Apache-2.0
"""Where backward begins: outputs, losses, loss_indices and gradients of outputs,
each against torch's backward with the same starts."""

import itertools
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors

pytestmark = pytest.mark.filterwarnings("ignore:backward starts from")

# What a model may return of its logits, and what its gradient starts from without loss_indices where these stand side by side.
PARTS = {
    "loss": lambda m, logits, label: nn.functional.cross_entropy(logits, label),
    "logits": lambda m, logits, label: logits,
    "hidden": lambda m, logits, label: m.hidden,
    "view": lambda m, logits, label: logits.t(),
    "penalty": lambda m, logits, label: (m.second.weight**2).sum(),
    "scaled": lambda m, logits, label: 3 * nn.functional.cross_entropy(logits, label) + 1,
    "class": lambda m, logits, label: logits.argmax(1),
    "detached": lambda m, logits, label: (2 * logits).detach().sum(),
    "right": lambda m, logits, label: (logits.argmax(1) == label).float().mean(),
}
# Which of the parts another one is computed from, by a road that gradients take. 'scaled' computes a loss of its own:
# hash-consing makes it the same one.
BEFORE = {
    "loss": {"logits", "hidden"},
    "scaled": {"logits", "hidden", "loss"},
    "view": {"logits", "hidden"},
    "logits": {"hidden"},
}
NO_GRADIENT = {"class", "detached", "right"}


class Model(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.first, self.second, self.parts = nn.Linear(6, 5), nn.Linear(5, 4), parts

    def forward(self, image, label):
        self.hidden = torch.tanh(self.first(image))
        logits = self.second(self.hidden)
        results = [PARTS[part](self, logits, label) for part in self.parts]
        self.hidden = None
        return tuple(results)


def made(parts):
    torch.manual_seed(3)
    model, image, label = Model(parts), torch.randn(7, 6), torch.randint(4, (7,))
    theirs = Model(parts)
    theirs.load_state_dict(model.state_dict())
    return (
        samba.from_torch_model_(model),
        theirs,
        (samba.from_torch_tensor(image, name="image"), samba.from_torch_tensor(label, name="label")),
        (image, label),
    )


def expected(theirs, inputs, starts):
    """torch's gradients of the parameters when backward starts from `starts`, {output: gradient}."""
    results = theirs(*inputs)
    taken = [i for i in starts if results[i].requires_grad]
    torch.autograd.backward([results[i] for i in taken], [starts[i].expand_as(results[i]) for i in taken])
    return {name: x.grad for name, x in theirs.named_parameters() if x.grad is not None}


def compare(model, wanted):
    for name, x in model.named_parameters():
        found = samba.session.device_get(f"{name}.grad") if samba.session.has(f"{name}.grad") else None
        assert (found is None) == (name not in wanted), name
        if found is not None:
            torch.testing.assert_close(found, wanted[name], rtol=1e-5, atol=1e-6)


def default_starts(parts):
    return {
        i: torch.tensor(0.0 if any(part in BEFORE.get(other, ()) for other in parts) else 1.0)
        for i, part in enumerate(parts)
        if part not in NO_GRADIENT
    }


def traced(model, inputs, folder, compiled=None, losses=None):
    optim = samba.optim.SGD(model.parameters(), lr=0.0)
    pef = samba.session.compile(model, inputs, optim, name="starts", loss_indices=compiled, output_folder=str(folder))
    return utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=losses)


ORDERS = [order for size in (1, 2, 3) for order in itertools.permutations(PARTS, size) if set(order) - NO_GRADIENT]


@pytest.mark.parametrize("chunk", range(6))
def test_without_loss_indices(tmp_path, chunk):
    """Every order of one or two parts, and every sixth of three."""
    for number, parts in enumerate(ORDERS):
        if (number % 6 if len(parts) < 3 else number % 36) != chunk:
            continue
        model, theirs, inputs, plain = made(parts)
        traced(model, inputs, tmp_path)
        samba.session.run(inputs, section_types=["FWD", "BCKWD"])
        starts = default_starts(parts)
        compare(model, expected(theirs, plain, starts))
        for i in range(len(parts)):
            if i in starts and samba.session.has(f"output_{i}.grad"):
                assert samba.session.start_of(f"output_{i}") == starts[i], (parts, i)


@pytest.mark.parametrize(
    "parts",
    [("loss", "logits"), ("logits", "loss"), ("loss", "scaled"), ("loss", "penalty", "logits"), ("hidden", "logits", "loss")],
    ids="-".join,
)
def test_loss_indices(tmp_path, parts):
    for losses in [c for size in range(1, len(parts) + 1) for c in itertools.combinations(range(len(parts)), size)]:
        model, theirs, inputs, plain = made(parts)
        traced(model, inputs, tmp_path, list(losses), list(losses))
        samba.session.run(inputs, section_types=["FWD", "BCKWD"])
        compare(model, expected(theirs, plain, {i: torch.tensor(1.0) for i in losses}))


@pytest.mark.parametrize("way", ["sn_grad", "grad_of_outputs", "init_output_grads", "unspecified"])
def test_given_gradients(tmp_path, way):
    parts = ("loss", "logits")
    model, theirs, inputs, plain = made(parts)
    outputs = traced(model, inputs, tmp_path)
    gradients = {0: torch.tensor(0.5), 1: torch.randn(7, 4)}
    more = {}
    if way == "sn_grad":
        for i, x in gradients.items():
            outputs[i].sn_grad = x
    elif way == "grad_of_outputs":
        more["grad_of_outputs"] = tuple(samba.from_torch_tensor(x) for x in gradients.values())
    elif way == "init_output_grads":
        utils.init_output_grads(outputs, customized_tensors_dict={outputs[i].sn_name: x for i, x in gradients.items()})
    else:  # ones, for a name that is said
        utils.init_output_grads(outputs, [outputs[1].sn_name])
        gradients = {0: torch.tensor(1.0), 1: torch.tensor(1.0)}
    samba.session.run(inputs, section_types=["FWD"])
    samba.session.run(inputs, section_types=["BCKWD"], **more)
    compare(model, expected(theirs, plain, gradients))
    utils.init_output_grads(outputs)  # what they begin with, again
    samba.session.run(inputs, section_types=["FWD", "BCKWD"])
    theirs.zero_grad()
    compare(model, expected(theirs, plain, {0: torch.tensor(1.0)}))


def test_only_logits_get_a_gradient(tmp_path):
    """A loss on the host beside one on the device."""
    model, theirs, inputs, plain = made(("loss", "logits"))
    outputs = traced(model, inputs, tmp_path)
    gradient = torch.randn(7, 4)
    outputs[0].sn_grad = torch.tensor(0.0)
    outputs[1].sn_grad = gradient
    samba.session.run(inputs, section_types=["FWD", "BCKWD"])
    compare(model, expected(theirs, plain, {1: gradient}))


def test_compiled_and_traced_mean_the_same(tmp_path):
    for compiled, losses, fits in (
        (None, [0], True),
        ([0], None, True),
        ([0], [0], True),
        (None, None, True),
        (None, [1], False),
        ([1], None, False),
        ([0, 1], [0], False),
    ):
        model, theirs, inputs, plain = made(("loss", "logits"))
        if not fits:
            with pytest.raises(errors.StateError, match="the losses are .* but the model was compiled with"):
                traced(model, inputs, tmp_path, compiled, losses)
            continue
        traced(model, inputs, tmp_path, compiled, losses)
        samba.session.run(inputs, section_types=["FWD", "BCKWD"])
        compare(model, expected(theirs, plain, {0: torch.tensor(1.0)}))


def test_both_outputs_are_one_value(tmp_path):
    model, theirs, inputs, plain = made(("loss", "loss"))
    traced(model, inputs, tmp_path)
    samba.session.run(inputs, section_types=["FWD", "BCKWD"])
    compare(model, expected(theirs, plain, {0: torch.tensor(2.0)}))


def test_it_is_said_once(tmp_path):
    program = f"""
import torch, warnings
import sambaflow.samba as samba, sambaflow.samba.utils as utils

class Said(torch.nn.Linear):
    def forward(self, x):
        logits = super().forward(x)
        return logits.mean(), logits

def train(losses):
    model, x = samba.from_torch_model_(Said(3, 2)), samba.randn(4, 3, name="x")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, (x,), optim, loss_indices=losses, output_folder={str(tmp_path)!r})
    utils.trace_graph(model, (x,), optim, pef=pef, loss_indices=losses)
    return pef

train([0])
pef = train(None)
train(None)
print(open(pef + ".log").read())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    wanted = "backward starts from output_0, with ones, since loss_indices was not given, and not from output_1"
    assert done.stderr.count(wanted) == 1, done.stderr
    assert "backward    from output_0, with ones; output_1, from which another output is computed, with zeros\n" in done.stdout


def test_nothing_is_said_of_one_loss(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for parts, losses in (
            (("loss", "logits"), [0]),
            (("loss",), None),
            (("loss", "penalty"), None),
            (("loss", "class", "right"), None),
        ):
            model, _, inputs, _ = made(parts)
            traced(model, inputs, tmp_path, losses, losses)


@pytest.mark.parametrize("loss", [lambda y: y.mean().detach(), lambda y: (y > 0).float().mean()], ids=["detached", "compared"])
def test_loss_that_trains_nothing(tmp_path, loss):
    """The program runs, and says that it learns nothing."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x):
            return loss(self.linear(x))

    samba.session.reset()
    model, x = samba.from_torch_model_(Model()), samba.randn(4, 3, name="x")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, (x,), optim, name="still", output_folder=str(tmp_path), loss_indices=[0])
    with pytest.warns(UserWarning, match="the optimizer has no effect, because no parameter has a gradient from the loss"):
        utils.trace_graph(model, (x,), optim, pef=pef, loss_indices=[0])


class Returns(nn.Module):
    """A loss and logits, in an order and between what is no output."""

    def __init__(self, order):
        super().__init__()
        self.lin, self.order = nn.Linear(3, 2), order

    def forward(self, x, label):
        logits = self.lin(x)
        of = {"loss": nn.functional.cross_entropy(logits, label), "logits": logits, "none": None}
        return tuple(of[word] for word in self.order.split())


@pytest.mark.parametrize(
    "order, given, told",
    [
        ("none loss logits", 1, True),  # the logits
        ("none loss logits", 0, False),
        ("loss none logits", 0, False),
        ("loss logits", 1, True),
        ("logits none loss", 1, False),
        ("logits logits", 1, False),
    ],
)
def test_loss_indices_that_count_otherwise(tmp_path, order, given, told):
    inputs = samba.randn(4, 3, name="x"), samba.randint(2, (4,), name="label")
    model = samba.from_torch_model_(Returns(order))
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pef = samba.session.compile(model, inputs, optim, loss_indices=[given], output_folder=str(tmp_path))
        samba.session.trace_graph(model, inputs, optim, pef=pef, loss_indices=[given])
    wanted = (
        f"loss_indices has {given}, output_{given} of shape (4, 2), whose sum is trained for, and not 0, output_0, a single "
        "number: outputs are counted from 0, without None, and those of nested tuples one by one"
    )
    assert [str(each.message) for each in said] == [wanted] * told


def test_a_divergence_by_all_elements(tmp_path):
    """kl_div's own default is told of as torch tells of it, once."""

    class Model(nn.Module):
        def __init__(self, reduction):
            super().__init__()
            self.reduction = reduction

        def forward(self, x, y):
            return nn.functional.kl_div(x.log_softmax(-1), y.softmax(-1), reduction=self.reduction)

    inputs = samba.randn(4, 3, name="x"), samba.randn(4, 3, name="y")
    for reduction, told in (("batchmean", False), ("sum", False), ("mean", True)):
        model = samba.from_torch_model_(Model(reduction))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            pef = samba.session.compile(model, inputs, inference=True, output_folder=str(tmp_path / reduction))
            samba.session.trace_graph(model, inputs, pef=pef)
        assert [str(each.message).partition(":")[0] for each in said] == ["kl_div"] * told


def test_optimizer_that_was_not_compiled(tmp_path):
    """A PEF without steps says that the optimizer of trace_graph takes none."""
    samba.session.reset()
    model, x = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.randn(4, 3, name="x")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, (x,), None, name="unstepped", output_folder=str(tmp_path))
    with pytest.warns(UserWarning, match="the optimizer has no effect, because the PEF was compiled without one"):
        utils.trace_graph(model, (x,), optim, pef=pef)
