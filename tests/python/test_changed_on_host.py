# SPDX-License-Identifier: Apache-2.0
"""What a program changes on the host behind trace_graph, where PyTorch would go on with it and the device does not: a run says so
once, and says nothing where the program has said what it means."""

import contextlib
import copy
import warnings

import pytest
import torch
import torch.nn.functional as F

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = torch.nn.Linear(4, 5), torch.nn.Linear(5, 1)

    def forward(self, x, y):
        return F.mse_loss(self.head(self.trunk(x).relu()), y)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The PEF of Net, of which each test traces a model of its own."""
    model = samba.from_torch_model_(Net())
    optim = samba.optim.AdamW(model.parameters(), lr=0.1)
    return samba.session.compile(model, batch(), optim, name="net", output_folder=str(tmp_path_factory.mktemp("net")))


def batch():
    x = torch.randn(6, 4)
    return samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(x.sum(1, keepdim=True), name="y")


class Traced:
    def __init__(self, pef):
        self.model = samba.from_torch_model_(Net())
        self.optim = samba.optim.AdamW(self.model.parameters(), lr=0.1)
        self.outputs = utils.trace_graph(self.model, batch(), self.optim, pef=pef)

    def run(self, **options):
        return samba.session.run(batch(), self.outputs, **options)


@pytest.fixture
def traced(compiled):
    return Traced(compiled)


@contextlib.contextmanager
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def replace_head(net):
    net.head = samba.from_torch_model_(torch.nn.Linear(5, 1))


def replace_bias(net):
    net.head.bias = torch.nn.Parameter(torch.ones(1))


def in_no_grad(net):
    with torch.no_grad():
        net.head.weight.mul_(2)


def set_data(net):
    net.trunk.bias.data = torch.ones(5)


def freeze_by_attribute(net):
    net.head.bias.requires_grad = False


VALUES = r"run: '[a-z.]+' has other values on the host .*to_rdu\(model\) to send them"
CHANGES = {
    "load_state_dict": (lambda net: net.load_state_dict(Net().state_dict()), VALUES),
    "assign": (lambda net: net.load_state_dict(Net().state_dict(), assign=True), "run: 'weight' of Linear was replaced"),
    "data": (set_data, VALUES),
    "data in place": (lambda net: net.head.bias.data.fill_(3), VALUES),
    "no_grad": (in_no_grad, VALUES),
    "init": (lambda net: torch.nn.init.ones_(net.head.weight), VALUES),
    "vector": (lambda net: torch.nn.utils.vector_to_parameters(torch.ones(31), net.parameters()), VALUES),
    "torch": (lambda net: net.head.bias.torch().detach().fill_(3), VALUES),
    "frozen": (lambda net: net.head.requires_grad_(False), "'head.weight' has requires_grad=False since it was traced"),
    "frozen by attribute": (freeze_by_attribute, "'head.bias' has requires_grad=False since it was traced"),
    "half": (lambda net: net.half(), r"'trunk.weight' has become torch.float16 on the host, .* in torch.float32"),
    "to": (lambda net: net.to(torch.bfloat16), r"'trunk.weight' has become torch.bfloat16 on the host"),
    "a layer": (replace_head, "run: 'head' of Net was replaced after the trace"),
    "a parameter": (replace_bias, "run: 'bias' of Linear was replaced after the trace"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_told_once(traced, name):
    change, said = CHANGES[name]
    with silence():
        traced.run()
        samba.session.to_cpu(traced.model)
        change(traced.model)
    with pytest.warns(UserWarning, match=said) as told:
        traced.run()
    assert len([each for each in told if "run: " in str(each.message)]) == 1
    with silence():
        change(traced.model)
        traced.run()


def sent(net, _):
    net.load_state_dict(Net().state_dict())
    samba.session.to_rdu(net)


def fetched(net, _):
    net.load_state_dict(Net().state_dict())
    samba.session.to_cpu(net)


def sent_one(net, _):
    net.head.bias.data.fill_(3)
    net.head.bias.rdu()
    assert net.head.bias.data[0] == 3


def set_on_device(net, _):
    torch.nn.init.ones_(net.head.weight)
    net.head.weight.sn_data = net.head.weight.torch()


def loaded(net, folder):
    samba.session.save(folder / "weights.safetensors")
    torch.nn.init.ones_(net.head.weight)
    samba.session.load(folder / "weights.safetensors")
    assert net.head.weight.data[0, 0] == 1


def updated(net, _):
    samba.session.update_tensor("head.weight", torch.ones(1, 5))
    assert net.head.weight.data[0, 0] == 1


def fetched_one(net, _):
    assert net.head.weight.cpu().data.shape == net.trunk.weight.torch().shape[:0] + (1, 5)


def same_values(net, _):
    net.load_state_dict(copy.deepcopy(net.state_dict()))


def frozen_for_a_while(net, _):
    net.requires_grad_(False)
    net.requires_grad_(True)


def another_model(net, _):
    samba.from_torch_model_(Net()).half()
    copy.deepcopy(net).requires_grad_(False)


def something_beside(net, _):
    net.metric = torch.nn.Linear(2, 2)
    net.note = 3


MEANT = [sent, fetched, sent_one, set_on_device, loaded, updated, fetched_one, same_values, frozen_for_a_while, another_model]


@pytest.mark.parametrize("means", [*MEANT, something_beside], ids=lambda means: means.__name__)
def test_meant(traced, tmp_path, means):
    with silence():
        traced.run()
        samba.session.to_cpu(traced.model, traced.optim)
        means(traced.model, tmp_path)
        traced.run()


def test_fetching_what_was_cast(traced):
    traced.run()
    traced.model.to(torch.bfloat16)
    before = traced.model.trunk.weight.torch().clone()
    with pytest.raises(errors.StateError, match=r"'trunk.weight' has become torch.bfloat16 .*model.to\(torch.float32\)"):
        samba.session.to_cpu(traced.model)
    assert torch.equal(traced.model.trunk.weight.torch(), before)
    samba.session.to_cpu(traced.model.float())
    assert traced.model.trunk.weight.torch().dtype is torch.float32


@pytest.mark.parametrize("cured", [False, True])
def test_state_of_an_optimizer(traced, cured):
    with silence():
        traced.run()
        samba.session.to_cpu(traced.model, traced.optim)
        kept = copy.deepcopy(traced.optim.state_dict())
        traced.run()
        traced.optim.load_state_dict(kept)
        if cured:
            samba.session.to_rdu(traced.model, traced.optim)
            traced.run()
            return
    with pytest.warns(UserWarning, match=r"load_state_dict has given AdamW another state .*to_rdu\(model, optimizer\)"):
        traced.run()


def test_options_of_an_optimizer(traced):
    with silence():
        traced.run()
        traced.optim.param_groups[0]["note"] = "of the program's own"
        traced.run()
    traced.optim.param_groups[0]["weight_decay"] = 0.5
    with pytest.warns(UserWarning, match="weight_decay was changed to 0.5 on the host, but the device still uses"):
        traced.run()


def test_further_group_of_an_optimizer(traced):
    with silence():
        traced.run()
        traced.optim.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
    with pytest.warns(UserWarning, match="the optimizer has 2 groups of parameters on the host, and the device trains the 1 "):
        traced.run()
    with silence():
        traced.run()


def test_training_without_gradients(traced):
    with silence(), torch.no_grad():
        traced.run(section_types=["FWD"])
        traced.run(train=False)
    with torch.no_grad(), pytest.warns(UserWarning, match=r"run: it takes a step .* torch.no_grad\(\) does not prevent"):
        traced.run()
    with silence(), torch.no_grad():
        traced.run()


def test_gradients_on_the_host(traced):
    with silence():
        assert traced.model.head.weight.grad is None  # nothing was trained
        traced.run()
        traced.optim.zero_grad()
    with pytest.warns(UserWarning, match=r"grad of '[a-z.]+' is None on the host, .*sn_grad.*max_grad_norm"):
        torch.nn.utils.clip_grad_norm_(traced.model.parameters(), 1.0)
    with silence():
        assert traced.model.head.weight.grad is None  # told
        samba.session.to_cpu(traced.model)
    assert traced.model.head.weight.grad is not None


@pytest.mark.parametrize("used", ["fetched", "untrained", "traced again", ""])
def test_reset(traced, used):
    pef = samba.session.loaded().pef
    if used != "untrained":
        traced.run()
    if used == "fetched":
        samba.session.to_cpu(traced.model)
    with silence():
        samba.session.reset()
        if used == "traced again":
            utils.trace_graph(traced.model, batch(), traced.optim, pef=pef)
    said = pytest.warns(UserWarning, match="the device had trained 'trunk.weight' when the session was reset")
    with said if not used else silence():
        traced.model.state_dict()


def test_outputs_of_an_earlier_trace(traced, tmp_path):
    (old,) = traced.outputs
    assert old.sn_data.shape == ()
    again = Traced(samba.session.loaded().pef)
    assert old.sn_data.shape == again.outputs[0].sn_data.shape == ()  # the same graph's
    other, x = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.randn(5, 3, name="x")
    pef = samba.session.compile(other, (x,), inference=True, name="other", output_folder=str(tmp_path))
    (new,) = utils.trace_graph(other, (x,), pef=pef)
    assert new.sn_data.shape == (5, 2)
    with pytest.raises(errors.StateError, match=r"'output_0' is an output of .*net.pef, and the session has traced .*other.pef"):
        old.cpu()


LOSSES = [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shapes", [((7, 1), (7,)), ((3, 7), ())])
def test_targets_that_broadcast(loss, shapes):
    given, target = torch.randn(shapes[0]), torch.randn(shapes[1])
    with pytest.warns(UserWarning, match="different to the input size"):
        expected = loss(given, target)
    with pytest.warns(UserWarning, match=rf"^{loss.__name__}: the input .* and the target .* broadcast to .* seldom meant: give"):
        computed = loss(samba.from_torch_tensor(given), samba.from_torch_tensor(target))
    torch.testing.assert_close(computed.torch(), expected)
    with silence():
        loss(samba.from_torch_tensor(given), samba.from_torch_tensor(given.clone()))


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 1)

    def forward(self, x, y):
        return torch.nn.MSELoss()(self.lin(x), y)


def test_targets_that_broadcast_in_a_traced_model(tmp_path):
    model, inputs = samba.from_torch_model_(Loss()), (samba.randn(4, 3, name="x"), samba.randn(4, name="y"))
    with pytest.warns(UserWarning, match=r"mse_loss: the input \(4, 1\) and the target \(4\) broadcast to \(4, 4\)"):
        pef = samba.session.compile(model, inputs, name="loss", output_folder=str(tmp_path))
    with silence():
        utils.trace_graph(model, inputs, pef=pef)
