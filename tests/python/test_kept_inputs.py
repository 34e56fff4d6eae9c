# SPDX-License-Identifier: Apache-2.0
"""Inputs that keep the last batch's values: refused by name beside others that are given anew, unless reuse_inputs, setup, a
value that trace_graph has sent or the device's own memory says that they are to stay. Numbers that no optimizer may have."""

import warnings

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors, runtime
from sambaflow.samba.graph import SambaGraph

STALE = 'reads the input "mask", which still has the value of an earlier step'


class Masked(torch.nn.Module):
    """A regression over what a mask leaves."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 1)

    def forward(self, x, mask, target):
        return ((self.lin(x * mask) - target) ** 2).mean()


def parts(masked=True):
    torch.manual_seed(1)
    model = samba.from_torch_model_(Masked())
    mask = samba.SambaTensor(shape=(4,), name="mask") if not masked else samba.randn(4, name="mask")
    return model, (samba.randn(6, 4, name="x"), mask, samba.randn(6, 1, name="target"))


def opened(folder, name, setup=None):
    samba.session.reset()
    model, inputs = parts()
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, name=name, output_folder=str(folder))
    if setup:
        samba.session.setup(setup)
    return model, inputs, utils.trace_graph(model, inputs, optim, pef=pef)


def test_refused_and_asked_for(tmp_path):
    """As torch computes it with the mask that was given last."""
    model, (x, mask, target), outputs = opened(tmp_path, "asked")
    run = samba.session.run
    run((x, mask, target), outputs)
    before = samba.session.device_get("lin.weight")
    with pytest.raises(errors.StateError, match=STALE):
        run((x, target), outputs)
    with pytest.raises(errors.UnknownNameError, match='did you mean "mask"'):
        run((x, target), outputs, reuse_inputs="maks")
    with pytest.raises(errors.ArgumentError, match="given to this run and named in reuse_inputs"):
        run((x, mask, target), outputs, reuse_inputs=[mask])
    assert torch.equal(before, samba.session.device_get("lin.weight"))
    for given in ("mask", mask, ["mask"], ()):  # asked for once, it stays
        weight, bias = samba.session.device_get("lin.weight"), samba.session.device_get("lin.bias")
        (loss,) = run((x, target), outputs, reuse_inputs=given)
        wanted = ((torch.nn.functional.linear(x.torch() * mask.torch(), weight, bias) - target.torch()) ** 2).mean()
        torch.testing.assert_close(loss.torch(), wanted)
    run((), outputs)  # repeats


def test_setup(tmp_path):
    _, (x, mask, target), outputs = opened(tmp_path, "told", {"reuse_inputs": ["mask"]})
    samba.session.run((x, mask, target), outputs)
    samba.session.run((x, target), outputs)
    with pytest.raises(errors.StateError, match='"x", which still has'):
        samba.session.run((target,), outputs)
    with pytest.raises(TypeError, match="reuse_inputs is 'mask': expected list"):
        samba.session.setup({"reuse_inputs": "mask"})


def test_sent_by_trace_graph(tmp_path):
    """A constant that was given once, when the model was traced."""
    _, (x, mask, target), outputs = opened(tmp_path, "sent")
    for _ in range(3):
        samba.session.run((x, target), outputs)
    samba.session.run((x, mask, target), outputs)
    with pytest.raises(errors.StateError, match=STALE):
        samba.session.run((x, target), outputs)


def test_parts_of_a_step(tmp_path):
    _, inputs, outputs = opened(tmp_path, "parts")
    for _ in range(3):
        samba.session.run(inputs, outputs, section_types=["fwd"])
        samba.session.run((), (), section_types=["bckwd"])
        samba.session.run(inputs, outputs, section_types=["opt"])
    samba.session.run(inputs, section_types=["fwd"])
    samba.session.run(inputs, section_types=["bckwd", "opt"])


def test_pinned(tmp_path):
    """The device's own memory is the program's to fill."""
    _, (x, mask, target), outputs = opened(tmp_path, "pinned")
    (own,) = samba.session.pin((mask,))
    samba.session.run((x, own, target), outputs)
    for _ in range(2):
        samba.session.run((x, target), outputs)


def test_runtime(tmp_path):
    _, inputs, _ = opened(tmp_path, "plain")
    pef = samba.session.loaded().pef
    tensors = {x.sn_name: runtime.Tensor.wrap(x.sn_name, x.torch().numpy()) for x in inputs}
    with runtime.Session(pef) as session:
        with pytest.raises(errors.StateError, match='"mask", which was never given'):
            session.run([tensors["x"], tensors["target"]])
        session.run(tensors.values())
        with pytest.raises(errors.StateError, match=STALE):
            session.run([tensors["x"], tensors["target"]])
        with pytest.raises(TypeError, match="write \\['mask'\\]"):
            session.run([tensors["x"], tensors["target"]], reuse_inputs="mask")
        session.run([tensors["x"], tensors["target"]], reuse_inputs=["mask"])
        session.run([tensors["x"], tensors["target"]])
    with runtime.Session(pef, reuse_inputs=["mask"]) as session:
        session.run(tensors.values())
        session.run([tensors["x"], tensors["target"]])
    with pytest.raises(errors.UnknownNameError, match='there is no input "maks"'):
        runtime.Session(pef, reuse_inputs=["maks"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"lr": -0.1}, "number in \\[0, inf\\); to go up the gradient compile with maximize"),
        ({"weight_decay": -1e-3}, "\\[0, inf\\)"),
        ({"eps": -1e-8}, "\\[0, inf\\)"),
        ({"betas": (0.9, 1.0)}, '"beta2" is a number in \\[0, 1\\)'),
        ({"beta1": -0.1}, "\\[0, 1\\)"),
        ({"lr": float("nan")}, "finite"),
        ({"learning_rate": 0.1}, 'did you mean "lr".*they are: "lr", '),
    ],
)
def test_numbers_of_optimizers(tmp_path, values, said):
    """What torch refuses when an optimizer is made, a run refuses too, and changes nothing."""
    samba.session.reset()
    model, inputs = parts()
    optim = samba.optim.AdamW(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, inputs, optim, name="numbers", output_folder=str(tmp_path))
    outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    before = dict(samba.session.loaded().hyperparameters)
    with pytest.raises(errors.SambaError, match=said):
        samba.session.run(inputs, outputs, hyperparam_dict=values)
    assert samba.session.loaded().hyperparameters == before
    for name, value in values.items():
        if name in optim.param_groups[0] and name != "betas":
            with pytest.raises(ValueError, match="Invalid|invalid"):
                torch.optim.AdamW(model.parameters(), **({"lr": 0.1} | {name: value})) if value == value else _raise()
            optim.param_groups[0][name] = value
            with pytest.raises(errors.SambaError):
                utils.trace_graph(model, inputs, optim, pef=pef)
            with pytest.raises(errors.SambaError):
                samba.session.compile(model, inputs, optim, name="bad", output_folder=str(tmp_path))


def _raise():
    raise ValueError("Invalid: torch takes NaN")


def graphs(first, second):
    samba.session.reset()
    model, inputs = parts()
    optims = first(model), second(model)
    if optims[1] is None:
        optims = optims[0], optims[0]
    for name, optim in zip(("a", "b"), optims):
        samba.session.add_graph(SambaGraph(model, inputs, optim, name=name))


def adamw(model):
    return samba.optim.AdamW(model.parameters(), lr=0.1)


def test_optimizers_of_several_graphs(tmp_path, recwarn):
    """One optimizer is one in all graphs; two over the same weights are said to be two."""
    graphs(adamw, lambda model: None)
    samba.session.compile_multigraph("one", output_folder=str(tmp_path))
    assert not [w for w in recwarn if "do not share" in str(w.message)]
    graphs(adamw, adamw)
    with pytest.warns(RuntimeWarning, match='graphs "a" and "b" both train "lin.weight".*give both graphs the same optimizer'):
        samba.session.compile_multigraph("two", output_folder=str(tmp_path))


def test_never_given(tmp_path):
    """A loop that forgets an input learns from trace_graph's, and is told so, once."""
    _, (x, mask, target), outputs = opened(tmp_path, "never")
    run = samba.session.run
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run((), outputs)  # over what the device has
        run((x,), outputs, section_types=["FWD"], train=False)
    with pytest.warns(UserWarning, match="run: 'mask', 'target' is not given, so each step learns from what trace_graph") as said:
        run((x,), outputs)
    assert len(said) == 1 and said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run((x,), outputs)
        for setup, reuse in ((None, ("mask", "target")), ({"reuse_inputs": ["mask", "target"]}, ())):
            _, (x, *_), outputs = opened(tmp_path, "named", setup)
            run((x,), outputs, reuse_inputs=reuse)
            run((x,), outputs)
        _, inputs, outputs = opened(tmp_path, "all")
        run(inputs, outputs)
