# SPDX-License-Identifier: Apache-2.0
"""Which of a model's tensors is which of the device's: models that became part of others, buffers made anew, graphs that share a
model under several paths, and what cannot be told."""

import copy

import pytest
import torch
import torch.nn.functional as F

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import errors
from sambaflow.samba.graph import FwdGraph, SambaGraph


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm, self.out = torch.nn.Linear(6, 8, bias=False), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)

    def forward(self, x, target):
        y = self.out(torch.relu(self.norm(self.lin(x))))
        return F.cross_entropy(y, target), y


class Around(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, target):
        return self.net(x, target)


class Average(torch.nn.Module):
    """A buffer that is set and not written into."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(6, 4)
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x, target):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        y = self.lin(x - self.mean)
        return F.cross_entropy(y, target), y


def batches(count=3):
    numbers = torch.Generator().manual_seed(5)
    return [(torch.randn(7, 6, generator=numbers), torch.randint(4, (7,), generator=numbers)) for _ in range(count)]


def named(batch, suffix=""):
    return tuple(samba.from_torch_tensor(x, name=name + suffix) for x, name in zip(batch, ("x", "target")))


def prepared(tmp_path, model, optim=None, session=samba.session):
    inputs = named(batches(1)[0])
    pef = session.compile(model, inputs, optim, loss_indices=[0], output_folder=tmp_path, inference=optim is None)
    return session.trace_graph(model, inputs, optim, loss_indices=[0], pef=pef)


def sgd(model):
    return samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(model, optim, batch):
    optim.zero_grad()
    model(*batch)[0].backward()
    optim.step()


def check(ours, theirs):
    for (name, x), y in zip(ours.state_dict().items(), theirs.state_dict().values()):
        torch.testing.assert_close(samba.to_torch(x), samba.to_torch(y), rtol=1e-4, atol=1e-6, msg=lambda text: f"{name}: {text}")


def test_a_part_that_was_converted_alone(tmp_path):
    """Its names were those of its own paths; the device's are those of the whole."""
    torch.manual_seed(1)
    net = Net()
    theirs = copy.deepcopy(net)
    whole = Around(samba.from_torch_model_(net))
    optim, their_optim = sgd(net), sgd(theirs)
    outputs = prepared(tmp_path, whole, optim)
    for batch in batches():
        train(theirs, their_optim, batch)
        samba.session.run(named(batch), outputs)
    assert net.lin.weight.sn_name == "net.lin.weight"
    torch.testing.assert_close(net.lin.weight.sn_grad, theirs.lin.weight.grad, rtol=1e-4, atol=1e-6)
    samba.session.to_cpu(whole, optim)
    check(net, theirs)
    momentum = samba.to_torch(optim.state[net.out.weight]["momentum_buffer"])
    torch.testing.assert_close(momentum, their_optim.state[theirs.out.weight]["momentum_buffer"], rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        net.out.weight.zero_()
    samba.session.to_rdu(net)
    assert not net.out.weight.sn_data.any()


def test_parts_of_one_name(tmp_path):
    body, head = samba.from_torch_model_(torch.nn.Linear(6, 8)), samba.from_torch_model_(torch.nn.Linear(8, 6))
    model, x = torch.nn.Sequential(body, head), samba.randn(2, 6, name="x")
    assert body.weight.sn_name == head.weight.sn_name == "weight"
    utils.trace_graph(model, (x,), pef=samba.session.compile(model, (x,), inference=True, output_folder=tmp_path))
    torch.testing.assert_close(body.weight.sn_data, body.weight.torch().detach())
    torch.testing.assert_close(head.weight.sn_data, head.weight.torch().detach())


def test_one_model_under_two_paths(tmp_path):
    """Trained in one session, answering in another that knows it by other names."""
    model, other = samba.from_torch_model_(Net()), samba.SambaSession()
    optim, whole = sgd(model), Around(model)
    outputs = prepared(tmp_path, model, optim)
    model.eval()
    answers = prepared(tmp_path / "other", whole, session=other)
    model.train()
    for batch in batches():
        samba.session.run(named(batch), outputs)
        samba.session.to_cpu(model, optim)
        other.to_rdu(whole)
        plain = Net().eval()
        plain.load_state_dict({name: samba.to_torch(x) for name, x in model.state_dict().items()})
        torch.testing.assert_close(other.run(named(batch), answers)[1].torch(), plain(*batch)[1], rtol=1e-4, atol=1e-6)


def test_buffers_made_anew(tmp_path):
    """A forward pass on the host sets them to tensors without a name."""
    model = samba.from_torch_model_(Average())
    theirs, optim, its = copy.deepcopy(model), sgd(model), batches()
    outputs = prepared(tmp_path, model, optim)
    model(*named(its[0]))
    theirs(*named(its[0]))
    samba.session.to_rdu(model)
    (_, y), (_, expected) = samba.session.run(named(its[1]), outputs, section_types=["FWD"]), theirs(*named(its[1]))
    torch.testing.assert_close(y.torch(), expected.torch(), rtol=1e-4, atol=1e-6)
    samba.session.sync_buffers_to_cpu(model)
    torch.testing.assert_close(model.mean.torch(), theirs.mean.torch(), rtol=1e-4, atol=1e-6)


def test_what_is_no_samba_tensor(tmp_path):
    """Left out silently, the device would go on with other values, at first zeros."""
    model, plain, inputs = samba.from_torch_model_(Net()), Net(), named(batches(1)[0])
    pef = samba.session.compile(model, inputs, sgd(model), loss_indices=[0], output_folder=tmp_path)
    with pytest.raises(
        errors.StateError,
        match="trace_graph: parameter 'lin.weight' is a torch tensor and no SambaTensor: samba.from_torch_model_",
    ):
        utils.trace_graph(plain, inputs, loss_indices=[0], pef=pef)
    utils.trace_graph(model, inputs, loss_indices=[0], pef=pef)
    with pytest.raises(errors.StateError, match="to_cpu: parameter 'lin.weight' is a torch tensor"):
        samba.session.to_cpu(plain)
    model.norm.running_mean = torch.ones(8)
    with pytest.raises(errors.StateError, match="sync_buffers_to_rdu: buffer 'norm.running_mean' is a torch tensor"):
        samba.session.sync_buffers_to_rdu(model)
    model.load_state_dict(plain.state_dict(), assign=True)
    with pytest.raises(errors.StateError, match="to_rdu: parameter 'lin.weight' is a torch tensor"):
        samba.session.to_rdu(model)
    utils.trace_graph(samba.from_torch_model_(model), inputs, loss_indices=[0], pef=pef)
    torch.testing.assert_close(model.lin.weight.sn_data, plain.lin.weight.detach())


def test_a_model_that_the_device_has_not(tmp_path):
    prepared(tmp_path, samba.from_torch_model_(Net()))
    other = samba.from_torch_model_(torch.nn.Bilinear(2, 3, 4))
    with pytest.raises(errors.StateError, match="to_cpu: the device has no parameter and no buffer of this Bilinear"):
        samba.session.to_cpu(other)
    samba.session.sync_buffers_to_cpu(other)  # it has none
    samba.session.to_cpu(torch.nn.ReLU())


def test_graphs_that_have_a_model_under_two_paths(tmp_path):
    """What is one tensor in the program is one on the device."""
    model, its = samba.from_torch_model_(Net()), batches()
    optim, whole, session = sgd(model), Around(model), samba.SambaSession()
    graphs = SambaGraph(model, named(its[0]), optim, "train", loss_indices=[0]), FwdGraph(whole, named(its[0], "2"), "answer")
    for graph in graphs:
        session.add_graph(graph)
    pef = session.compile_multigraph("several", output_folder=tmp_path)
    losses, answers = (
        session.trace_multigraph(graphs[0], named(its[0]), optim),
        session.trace_multigraph(graphs[1], named(its[0], "2")),
    )
    session.init_multigraph_runtime(pef)
    assert session.get_weight_names() == [name for name, _ in model.named_parameters()]
    for batch in its:
        session.run(named(batch), losses, graph_name="train")
    session.to_cpu(whole)
    plain = Net().eval()  # a FwdGraph answers by running statistics
    plain.load_state_dict({name: samba.to_torch(x) for name, x in model.state_dict().items()})
    torch.testing.assert_close(
        session.run(named(its[0], "2"), answers, graph_name="answer")[1].torch(), plain(*its[0])[1], rtol=1e-4, atol=1e-6
    )


def test_two_tensors_of_one_name_in_a_graph(tmp_path):
    model, session = samba.from_torch_model_(Net()), samba.SambaSession()
    whole = Around(model)
    whole.out = torch.nn.Linear(8, 4)  # at the path that the other has in the first graph
    session.add_graph(SambaGraph(model, named(batches(1)[0]), sgd(model), "train", loss_indices=[0]))
    session.add_graph(FwdGraph(samba.from_torch_model_(whole), named(batches(1)[0]), "answer"))
    with pytest.raises(
        errors.UnknownNameError, match="would be 'out.weight' on the device: the one at 'out.weight' and one that a graph before"
    ):
        session.compile_multigraph("several", output_folder=tmp_path)
