# SPDX-License-Identifier: Apache-2.0
"""Several graphs in one PEF: what they share, the order of adding and tracing, GPT-2 with a cache of keys and values,
and what is refused."""

import copy

import pytest
import torch
import torch.nn.functional as F

import sambaflow.samba as samba
from sambaflow import errors
from sambaflow.samba import utils
from sambaflow.samba.graph import FwdGraph, SambaGraph


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(6, 16), torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


class Loss(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, label):
        return F.cross_entropy(self.net(x), label)


class Answer(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, question):
        return self.net(question)


class Both(Answer):
    def forward(self, question):
        logits = self.net(question)
        return logits, logits.square().mean()


def inputs():
    torch.manual_seed(5)
    x, label = torch.randn(8, 6), torch.randint(3, (8,))
    return (samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(label, name="label")), (
        samba.from_torch_tensor(torch.randn(2, 6), name="question"),
    )


@pytest.fixture(autouse=True)
def fresh():
    """The session that tensors ask."""
    samba.session.reset()
    yield
    samba.session.reset()


def compiled(tmp_path, *graphs, **options):
    session = samba.session
    for graph in graphs:
        session.add_graph(graph)
    return session, session.compile_multigraph("several", output_folder=str(tmp_path), **options)


@pytest.mark.parametrize("late", [False, True])
def test_weights_are_shared(tmp_path, late):
    torch.manual_seed(1)
    net = Net()
    reference, (batch, question) = copy.deepcopy(net), inputs()
    train, answer = samba.from_torch_model_(Loss(net)), Answer(net)
    optim = samba.optim.AdamW(train.parameters(), lr=0.05)
    graphs = SambaGraph(train, batch, optim, "train", loss_indices=[0]), FwdGraph(answer, question, "answer")
    session, pef = compiled(tmp_path, *graphs)
    if late:
        session.init_multigraph_runtime(pef)
    losses, answers = (
        session.trace_multigraph(graphs[0], batch, optim),
        session.trace_multigraph(answer, question),
    )  # by its graph, and as a module
    if not late:
        session.init_multigraph_runtime(pef)
    assert [x.sn_name for x in (*losses, *answers)] == ["train.output_0", "answer.output_0"]
    assert answer.output_tensors is answers and session.loaded().graph_names == ["train", "answer"]
    theirs = torch.optim.AdamW(reference.parameters(), lr=0.05)
    for _ in range(4):
        (given,) = session.run(question, answers, graph_name="answer")
        torch.testing.assert_close(given.torch(), reference(question[0].torch()), rtol=1e-5, atol=1e-6)
        (loss,) = session.run(batch, losses, graph_name="train")
        expected = F.cross_entropy(reference(batch[0].torch()), batch[1].torch())
        theirs.zero_grad()
        expected.backward()
        theirs.step()
        torch.testing.assert_close(loss.torch(), expected.detach(), rtol=1e-5, atol=1e-6)
    session.to_cpu(train, optim)
    torch.testing.assert_close(net.out.weight.torch(), reference.out.weight, rtol=1e-4, atol=1e-6)
    assert optim.state[net.out.weight]["step"].item() == 4
    session.run(hyperparam_dict={"optim0.lr": 0.0, "optim0.weight_decay": 0.0}, graph_name="train")
    assert len(session.run(batch, graph_name="train", section_types=["fwd"])) == 0


class Push(torch.nn.Module):
    """Writes a row of a cache that is an input."""

    def forward(self, cache, row, position):
        cache.index_copy_(0, position, row)
        return cache.sum()


class Look(torch.nn.Module):
    def forward(self, seen):
        return seen * 2


@pytest.mark.parametrize("traced_first", [True, False])
@pytest.mark.parametrize("by_module", [True, False], ids=["modules", "graphs"])
def test_losses_of_modules(tmp_path, traced_first, by_module):
    """Which outputs are losses is known of a module, too: two graphs with a loss each train as torch does."""
    theirs, net = Net(), samba.from_torch_model_(Net())
    net.load_state_dict(theirs.state_dict())
    given, question = inputs()
    optim = samba.optim.SGD(net.parameters(), lr=0.1)
    graphs = [
        SambaGraph(Loss(net), given, optim, name="train", loss_indices=[0]),
        SambaGraph(Both(net), question, optim, name='the "other"', loss_indices=[1]),
    ]
    session, pef = compiled(tmp_path, *graphs)
    if not traced_first:
        session.init_multigraph_runtime(pef)
    losses, others = (utils.trace_multigraph(graph.model if by_module else graph, graph.inputs, optim) for graph in graphs)
    if traced_first:
        session.init_multigraph_runtime(pef)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(3):
        loss = Loss(theirs)(*(x.torch() for x in given))
        torch.testing.assert_close(session.run(given, losses, graph_name="train")[0].torch(), loss.detach())
        train(reference, loss)
        logits, loss = Both(theirs)(question[0].torch())
        torch.testing.assert_close(session.run(question, others, graph_name='the "other"')[1].torch(), loss.detach())
        train(reference, loss)


def train(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("traced_first", [True, False])
def test_regions(tmp_path, traced_first):
    cache = samba.zeros(4, 3, name="cache", region_name="kv")
    row, position = samba.ones(1, 3, name="row"), samba.from_torch_tensor(torch.tensor([1]), name="position")
    seen = samba.zeros(4, 3, name="seen", region_name="kv")
    push, look = Push(), Look()
    session, pef = compiled(tmp_path, FwdGraph(push, (cache, row, position), "push"), FwdGraph(look, (seen,), "look"))
    if not traced_first:
        session.init_multigraph_runtime(pef)
    sums, doubled = session.trace_multigraph(push, (cache, row, position)), session.trace_multigraph(look, (seen,))
    if traced_first:
        session.init_multigraph_runtime(pef)
    expected = torch.zeros(4, 3)
    for place in (1, 3):
        values = torch.full((1, 3), 1.0 + place)
        expected[place] = values
        (total,) = session.run(
            (samba.from_torch_tensor(values, name="row"), samba.from_torch_tensor(torch.tensor([place]), name="position")),
            sums,
            graph_name="push",
        )
        assert total.item() == expected.sum()
        (shown,) = session.run((), doubled, graph_name="look")
        assert torch.equal(shown.torch(), 2 * expected)
    for name in ("cache", "seen"):  # two names of one place
        assert torch.equal(session.get_tensors_by_name([name])[0].torch(), expected)
    (shown,) = session.run((samba.ones(4, 3, name="seen"),), doubled, graph_name="look")
    assert torch.equal(session.get_tensors_by_name(["cache"])[0].torch(), torch.ones(4, 3)) and shown.torch().eq(2).all()


def test_graphs_have_an_order(tmp_path):
    _, question = inputs()
    net = samba.from_torch_model_(Answer(Net()))
    session = samba.session
    a, b, c = (FwdGraph(net, question, name) for name in "abc")
    for graph in (a, b, c):
        session.add_graph(graph)
    with pytest.raises(
        LookupError, match="add_graph: there is a graph 'a' already: give this one another name, or overwrite=True"
    ):
        session.add_graph(a)
    assert list(session.graphs) == ["a", "b", "c"]
    session.add_graph(a, overwrite=True)
    assert list(session.graphs) == ["b", "c", "a"]
    assert session.compile_multigraph(samba_only=True) is None
    pef = session.compile_multigraph(output_folder=str(tmp_path), pef_name="abc")
    assert pef == str(tmp_path / "abc" / "abc.pef")
    session.trace_multigraph(c, question)
    with pytest.raises(
        errors.StateError, match=r"graph 'c' was traced where .*abc.pef has 'b': trace graphs in the order .* added, b, c, a"
    ):
        session.init_multigraph_runtime(pef)
    assert not session.is_loaded


def test_refused(tmp_path):
    batch, question = inputs()
    net = samba.from_torch_model_(Net())
    train, answer = Loss(net), Answer(net)
    session = samba.session
    with pytest.raises(errors.StateError, match="compile_multigraph: there is no graph: add_graph"):
        session.compile_multigraph()
    with pytest.raises(TypeError, match="add_graph: expected a SambaGraph or FwdGraph, given Net"):
        session.add_graph(net)
    session.add_graph(SambaGraph(train, batch, samba.optim.SGD(train.parameters(), lr=0.1), "train", loss_indices=[0]))
    session.add_graph(FwdGraph(answer, question, "answer"))
    with pytest.raises(TypeError, match="no keyword 'precison': did you mean 'precision'"):
        session.compile_multigraph(precison="bf16")
    pef = session.compile_multigraph("refused", output_folder=str(tmp_path))
    session.init_multigraph_runtime(pef)
    session.trace_multigraph(session.graphs["train"], batch)
    answers = session.trace_multigraph(answer, question)
    with pytest.raises(errors.StateError, match="has 2 graphs, and each is traced once: train, answer"):
        session.trace_multigraph(answer, question)
    with pytest.raises(
        errors.ArgumentError,
        match='this PEF has 2 graphs, and the run does not say which: give it a graph_name of: "train", "answer"',
    ):
        session.run(question, answers)
    with pytest.raises(LookupError, match='there is no graph "prefill"; this PEF has: "train", "answer"'):
        session.run(question, answers, graph_name="prefill")
    with pytest.raises(LookupError, match='"train" has no input "question": its inputs are "x", "label"; .* graph "answer"'):
        session.run(question, graph_name="train")
    with pytest.raises(LookupError, match='no section of type "OPT"; this graph has: "FWD"'):
        session.run(graph_name="answer", section_types=["OPT"])
    with pytest.raises(TypeError):
        session.run(question, answers, graph_name=3)
    with pytest.raises(errors.StateError, match="which a run of another graph has replaced: run FWD of this graph again"):
        session.run(batch, graph_name="train", section_types=["FWD"])
        session.run(question, graph_name="answer")
        session.run(graph_name="train", section_types=["BCKWD"])

    def region(shape):
        return samba.zeros(*shape, name="a" if shape == (2, 6) else "b", region_name="r")

    other = samba.SambaSession()
    other.add_graph(FwdGraph(answer, (region((2, 6)),), "one"))
    other.add_graph(FwdGraph(answer, (region((3, 6)),), "two"))
    with pytest.raises(
        LookupError,
        match=r'"r" is an input float32\(2, 6\) in graph "one" and an input float32\(3, 6\) in graph "two": what graphs share',
    ):
        other.compile_multigraph(output_folder=str(tmp_path))
    with pytest.raises(errors.StateError, match="the model differs"):
        other = samba.SambaSession()
        other.trace_multigraph(session.graphs["train"], batch)
        other.trace_multigraph(torch.nn.Sequential(samba.from_torch_model_(torch.nn.Linear(6, 3))), question)
        other.init_multigraph_runtime(pef)


def test_two_optimizers(tmp_path):
    """One for each graph, over parameters of its own: numbered apart, each with its own count of steps."""
    torch.manual_seed(2)
    models = [samba.from_torch_model_(torch.nn.ModuleDict({name: torch.nn.Linear(4, 4)})) for name in "ab"]
    for name, model in zip("ab", models):
        model.forward = lambda x, model=model, name=name: model[name](x).square().mean()
    x = samba.randn(2, 4, name="x")
    optims = [samba.optim.AdamW(model.parameters(), lr=lr) for model, lr in zip(models, (0.1, 0.2))]
    graphs = [SambaGraph(model, (x,), optim, name, [0]) for model, optim, name in zip(models, optims, "ab")]
    session, pef = compiled(tmp_path, *graphs)
    for graph, optim in zip(graphs, optims):
        session.trace_multigraph(graph, (x,), optim)
    session.init_multigraph_runtime(pef)
    values = session.loaded().hyperparameters
    assert (values["optim0.lr"], values["optim1.lr"]) == (0.1, 0.2)
    session.run((x,), graph_name="a")
    session.run((x,), graph_name="b")
    session.run((x,), graph_name="b")
    for model, optim, steps in zip(models, optims, (1, 2)):
        session.to_cpu(model, optim)
        assert {state["step"].item() for state in optim.state.values()} == {steps}


class Cached(torch.nn.Module):
    """transformers' GPT-2, a token or a prompt at a time; keys and values of all places are buffers."""

    def __init__(self, model, places):
        super().__init__()
        self.model, config = model, model.config
        shape = config.n_layer, 2, config.n_head, places, config.n_embd // config.n_head
        self.register_buffer("cache", torch.zeros(shape))

    def forward(self, tokens, positions):
        body, places = self.model.transformer, self.cache.shape[3]
        x = body.wte(tokens) + body.wpe(positions)
        seen = torch.arange(places).unsqueeze(0) <= positions.unsqueeze(1)
        for i, block in enumerate(body.h):
            q, k, v = (
                part.unflatten(-1, (block.attn.num_heads, -1)).transpose(0, 1)
                for part in block.attn.c_attn(block.ln_1(x)).chunk(3, -1)
            )
            self.cache[i].index_copy_(2, positions, torch.stack((k, v)))
            y = F.scaled_dot_product_attention(q, self.cache[i, 0], self.cache[i, 1], attn_mask=seen)
            x = x + block.attn.c_proj(y.transpose(0, 1).flatten(1))
            x = x + block.mlp(block.ln_2(x))
        return self.model.lm_head(body.ln_f(x[-1:])).argmax(-1)


def test_gpt2_generates_what_pytorch_does(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=90, n_positions=48, initializer_range=0.2)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    prompt, count = torch.randint(90, (1, 9)), 24
    with torch.no_grad():
        expected = theirs.generate(
            prompt, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0, eos_token_id=None
        )[0, 9:]
    model = Cached(copy.deepcopy(theirs), 40).eval()
    samba.from_torch_model_(model)

    def place(name, values):
        return samba.from_torch_tensor(values, name=name)

    prefill = place("prompt", prompt[0]), place("places", torch.arange(9))
    decode = place("token", prompt[0, :1].clone()), place("place", torch.tensor([9]))
    graphs = FwdGraph(model, prefill, "prefill"), FwdGraph(model, decode, "decode")
    session, pef = compiled(tmp_path, *graphs)
    first, following = session.trace_multigraph(graphs[0], prefill, trace_prefix="p"), session.trace_multigraph(graphs[1], decode)
    session.init_multigraph_runtime(pef)
    given = [session.run(prefill, first, graph_name="prefill")[0].torch()]
    for step in range(count - 1):
        given.append(
            session.run((place("token", given[-1]), place("place", torch.tensor([9 + step]))), following, graph_name="decode")[
                0
            ].torch()
        )
    assert torch.cat(given).tolist() == expected.tolist() and len(set(expected.tolist())) > 3


def test_utils(tmp_path):
    """The documents' function works on samba.session."""
    _, question = inputs()
    net = samba.from_torch_model_(Answer(Net()))
    samba.session.add_graph(FwdGraph(net, question, "only"))
    pef = samba.session.compile_multigraph("documents", output_folder=str(tmp_path))
    outputs = utils.trace_multigraph(net, question, trace_prefix="only", init_output_grads=True, mapping="section")
    samba.session.init_multigraph_runtime(pef, transfer_device=False)
    (zeros,) = samba.session.run(question, outputs)  # one graph needs no name; its weights are not there yet
    assert zeros.torch().eq(0).all()
    samba.session.to_rdu(net)
    (y,) = samba.session.run(question, outputs, graph_name="only")
    torch.testing.assert_close(y.torch(), net(question[0]).torch(), rtol=1e-5, atol=1e-6)
    with pytest.raises(errors.ArgumentError, match="mapping"):
        utils.trace_multigraph(net, question, mapping="temporal")


def test_measuring(tmp_path, capsys):
    """One of several graphs, by its name."""
    batch, question = inputs()
    net = samba.from_torch_model_(Net())
    train, answer = Loss(net), Answer(net)
    optim = samba.optim.SGD(train.parameters(), lr=0.1)
    session, pef = compiled(tmp_path, SambaGraph(train, batch, optim, "train", [0]), FwdGraph(answer, question, "answer"))
    session.trace_multigraph(session.graphs["train"], batch, optim)
    session.trace_multigraph(answer, question)
    session.init_multigraph_runtime(pef)
    assert utils.measure_performance(answer, question, n_iterations=3, graph_name="answer")["batch_size"] == 2
    assert utils.measure_performance(train, batch, n_iterations=3, graph_name="train")["batch_size"] == 8
    assert [row["type"] for row in utils.measure_sections(train, batch, n_iterations=3, graph_name="train")] == [
        "FWD",
        "BCKWD",
        "OPT",
    ]
    (row,) = utils.measure_sections(answer, question, n_iterations=3, graph_name="answer")
    assert (row["id"], row["type"], row["share"]) == (3, "FWD", 1.0)
    capsys.readouterr()
    for measure in (utils.measure_performance, utils.measure_sections):
        with pytest.raises(LookupError, match='there is no graph "prefill"; this PEF has: "train", "answer"'):
            measure(answer, question, n_iterations=3, graph_name="prefill")
        with pytest.raises(errors.ArgumentError, match="this PEF has 2 graphs, and the run does not say which"):
            measure(None, question, n_iterations=3)
        with pytest.raises(errors.ArgumentError, match="graph 'train' is of another model, a Loss; of this one: answer"):
            measure(answer, question, n_iterations=3, graph_name="train")
        with pytest.raises(errors.StateError, match="this ReLU is not what was traced, Loss and Answer: give the model"):
            measure(torch.nn.ReLU(), question, n_iterations=3)
    (row,) = utils.measure_sections(answer, question, n_iterations=3)  # the model says which
    assert (row["id"], row["type"]) == (3, "FWD")


def test_mapping(tmp_path):
    """fast_memory cuts each graph into sections and mapping='spatial' joins them: the same bits;
    a graph is traced with the mapping it was compiled with."""
    batch, question = inputs()
    torch.manual_seed(6)
    start, found = Net().state_dict(), {}
    for name, options in (("whole", {}), ("cut", {"fast_memory": 1500}), ("joint", {"mapping": "spatial"})):
        samba.session.reset()
        net = Net()
        net.load_state_dict(start)
        train, answer = samba.from_torch_model_(Loss(net)), Answer(net)
        optim = samba.optim.SGD(train.parameters(), lr=0.1)
        graphs = SambaGraph(train, batch, optim, "train", loss_indices=[0]), FwdGraph(answer, question, "answer")
        session, pef = compiled(tmp_path, *graphs, **options)
        mapping = options.get("mapping", "section")
        (loss,) = session.trace_multigraph(graphs[0], batch, optim, mapping=mapping)
        answers = session.trace_multigraph(answer, question)
        session.init_multigraph_runtime(pef)
        values = [session.run(batch, (loss,), graph_name="train")[0].item() for _ in range(3)]
        found[name] = (
            values,
            session.run(question, answers, graph_name="answer")[0].torch(),
            net.out.weight.sn_data,
            session.loaded().sections,
        )
    whole, cut, joint = found["whole"], found["cut"], found["joint"]
    for other in (cut, joint):
        assert other[0] == whole[0] and torch.equal(other[1], whole[1]) and torch.equal(other[2], whole[2])
    assert whole[3] == ["FWD", "BCKWD", "OPT", "FWD"] and len(cut[3]) > 4 and "FWD+BCKWD" in joint[3]
    samba.session.reset()
    with pytest.raises(errors.StateError, match="was compiled with mapping 'section': compile it with mapping='spatial'"):
        session, pef = compiled(tmp_path, FwdGraph(answer, question, "answer"))
        session.trace_multigraph(answer, question, mapping="spatial")
        session.init_multigraph_runtime(pef)
    with pytest.raises(errors.ArgumentError, match="cannot hold stage .* needs|in fast memory at once"):
        samba.session.compile_multigraph(fast_memory=1, output_folder=str(tmp_path))
    with pytest.raises(errors.ArgumentError, match="compile_multigraph: mapping 'both': expected one of section, spatial"):
        samba.session.compile_multigraph(mapping="both", output_folder=str(tmp_path))
