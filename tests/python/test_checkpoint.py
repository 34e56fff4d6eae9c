# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Python programs: a training that stops anywhere and is resumed by a new session, new modules and new loaders
ends with the bits of one that never stopped; Hugging Face's library reads the weights;
what is damaged or of something else is refused or passed over, and said."""

import pathlib
import random

import numpy
import pytest
import torch
import torch.optim.lr_scheduler as rates
import transformers as hf
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, TensorDataset

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import checkpoint, errors, runtime
from sambaflow.samba.sambaloader import SambaLoader

STEPS, EPOCH = 14, 7


class Model(torch.nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.fc1, self.fc2, self.norm = torch.nn.Linear(5, width), torch.nn.Linear(width, 3), torch.nn.BatchNorm1d(width)
        self.dropout = torch.nn.Dropout(0.3)

    def forward(self, x, label):
        return torch.nn.functional.cross_entropy(self.fc2(self.dropout(self.norm(torch.relu(self.fc1(x))))), label)


def loader(kind):
    """Batches that are shuffled by torch's generator, by one of the loader's own,
    or by NumPy and Python in a generator function."""
    generator = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(4 * EPOCH, 5, generator=generator), torch.randint(3, (4 * EPOCH,), generator=generator))

    class Shuffled:
        def __iter__(self):
            order = numpy.random.permutation(4 * EPOCH)
            random.shuffle(order)
            for i in range(0, len(order), 4):
                yield data[order[i : i + 4]]

    return SambaLoader(
        {
            "torch": lambda: DataLoader(data, 4, shuffle=True),
            "own": lambda: DataLoader(data, 4, shuffle=True, generator=generator),
            "numpy": Shuffled,
        }[kind](),
        ["x", "label"],
    )


@pytest.fixture(scope="module")
def pef(tmp_path_factory):
    torch.manual_seed(0)
    model = samba.from_torch_model_(Model())
    optim = samba.optim.AdamW(model.parameters(), lr=0.01)
    return samba.session.compile(
        model, inputs(), optim, name="resumed", loss_indices=[0], output_folder=str(tmp_path_factory.mktemp("pef"))
    )


def inputs():
    return samba.randn(4, 5, name="x"), samba.randint(3, (4,), name="label")


def load(pef, seed, model=None):
    """As a new process has it."""
    samba.session.reset()
    utils.set_seed(seed)
    model = samba.from_torch_model_(model or Model())
    utils.trace_graph(model, inputs(), samba.optim.AdamW(model.parameters(), lr=0.01), pef=pef, loss_indices=[0])
    return model


def train(model, batches, folder, until, every=3):
    """Losses by step, and the random numbers that the program draws beside them;
    saves every `every` steps, goes on from what there is."""
    found = samba.session.load_checkpoint(folder, batches)
    step, first_epoch = (found.step, found.state["epoch"]) if found else (0, 0)
    losses = {}
    for epoch in range(first_epoch, STEPS // EPOCH):
        for x, label in batches:
            noise = torch.rand(()).item() + random.random() + numpy.random.rand()
            (loss,) = samba.session.run(
                (x, label), model.output_tensors, hyperparam_dict={"lr": 0.01 / (1 + step)} if step % 2 == 0 else None
            )
            step += 1
            losses[step] = (loss.item(), noise)
            if step == until:
                return losses
            if step % every == 0:
                samba.session.save_checkpoint(folder, step, batches, {"epoch": epoch, "last": loss.torch()})
    return losses


def on_device():
    names = [name for name, (kind, _, _) in samba.session.loaded().tensors.items() if kind in ("parameter", "buffer")]
    return {name: samba.session.device_get(name) for name in names}


@pytest.mark.parametrize("kind", ("torch", "own", "numpy"))
def test_resume(pef, tmp_path, kind):
    whole = train(load(pef, 7), loader(kind), tmp_path / "whole", STEPS + 1)
    expected = on_device()
    assert any(name.endswith("exp_avg_sq") for name in expected) and len(whole) == STEPS
    stops, found = (2, 5, 9, 11), {}
    for i, until in enumerate((*stops, STEPS + 1)):
        found.update(train(load(pef, 7 if i == 0 or until <= 3 else 100 + i), loader(kind), tmp_path / "stopped", until, 3))
        if until == 2:
            assert samba.session.load_checkpoint(tmp_path / "stopped", loader(kind)) is None
            found.clear()
            utils.set_seed(7)
            found.update(train(load(pef, 7), loader(kind), tmp_path / "stopped", 5, 3))
    assert found == whole
    for name, value in on_device().items():
        assert torch.equal(value, expected[name]), name
    assert sorted(path.name for path in (tmp_path / "stopped").iterdir()) == ["checkpoint-12", "checkpoint-9"]


def test_end_of_an_epoch(pef, tmp_path):
    """After the last batch of an epoch, inside its loop, after a loop that was left, and between loops."""
    model, batches = load(pef, 3), loader("torch")
    for x, label in batches:
        samba.session.save_checkpoint(tmp_path / "inside", 1, batches)
    rest = [x.torch().clone() for x, _ in batches]
    for x, label in batches:
        break
    samba.session.save_checkpoint(tmp_path / "left", 1, batches)
    after = [x.torch().clone() for x, _ in batches]
    for folder, expected in (("inside", [rest]), ("left", [after])):
        utils.set_seed(55)
        again = loader("torch")
        samba.session.load_checkpoint(tmp_path / folder, again)
        loops = [[x.torch().clone() for x, _ in again] for _ in range(2 if folder == "inside" else 1)]
        assert loops[0] == [] or folder == "left"
        assert all(torch.equal(a, b) for a, b in zip(loops[-1], expected[0])) and len(loops[-1]) == EPOCH
    short = SambaLoader([], ["x", "label"])
    with pytest.raises(errors.StateError, match="7 items were given before the checkpoint and the iterable has 0 now"):
        samba.session.load_checkpoint(tmp_path / "inside", short)
        list(short)


def test_state(pef, tmp_path):
    load(pef, 0)
    state = {
        "a": [1, 2.5, None, True, "é"],
        "b": {"c": torch.arange(6).reshape(2, 3), "d": (torch.tensor(1.5, dtype=torch.bfloat16), {})},
        "e": float("inf"),
    }
    path = samba.session.save_checkpoint(tmp_path, 5, state=state)
    assert path == str(tmp_path / "checkpoint-5")
    found = samba.session.load_checkpoint(path)
    assert found.step == 5 and found.path == path and found.state["a"] == state["a"] and found.state["e"] == float("inf")
    assert torch.equal(found.state["b"]["c"], state["b"]["c"]) and found.state["b"]["c"].dtype == torch.int64
    assert found.state["b"]["d"] == [state["b"]["d"][0], {}]
    samba.session.save_checkpoint(tmp_path, 6, state=torch.ones(2))
    assert samba.session.load_checkpoint(tmp_path).state.tolist() == [1, 1]
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1), 10)
    samba.session.save_checkpoint(tmp_path, 7, state=scheduler.state_dict())
    scheduler.load_state_dict(samba.session.load_checkpoint(tmp_path).state)
    for state, message in (
        ({1: 2}, "has a key 1"),
        ({"a": object()}, "state.a is a object|a is a object"),
        ({"a": {1, 2}}, "a is a set"),
    ):
        with pytest.raises(TypeError, match=message):
            samba.session.save_checkpoint(tmp_path, 8, state=state)
    with pytest.raises(TypeError, match="loaders: .* has no state_dict"):
        samba.session.save_checkpoint(tmp_path, 8, loaders=[[1]])
    with pytest.raises(errors.ArgumentError, match="was saved with 0 loaders and 1 are given"):
        samba.session.load_checkpoint(tmp_path, loader("torch"))
    with pytest.raises(errors.ArgumentError, match="step -1"):
        samba.session.save_checkpoint(tmp_path, -1)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["checkpoint-6", "checkpoint-7"]


def test_damaged(pef, tmp_path):
    load(pef, 1)
    for step in (1, 2):
        samba.session.save_checkpoint(tmp_path, step, shard_size=100)
    shard = sorted((tmp_path / "checkpoint-2").glob("model-0*"))[1]
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match=f"passed over.*checkpoint-2.*is damaged.*{shard.name} has"):
        assert samba.session.load_checkpoint(tmp_path).step == 1
    with pytest.raises(errors.FormatError, match=shard.name):
        samba.session.load_checkpoint(tmp_path / "checkpoint-2")
    shard.unlink()
    with pytest.raises(errors.FormatError, match=f"its file {shard.name} is missing"):
        checkpoint.open_(tmp_path / "checkpoint-2")
    (tmp_path / "checkpoint-1" / "checkpoint.json").write_text("{")
    with pytest.raises(errors.FormatError, match="has no checkpoint that is whole"):
        samba.session.load_checkpoint(tmp_path)
    assert samba.session.load_checkpoint(tmp_path / "nothing") is None
    with pytest.raises(errors.FileError, match="cannot make the directory"):
        samba.session.save_checkpoint(shard.parent / "checkpoint.json" / "x", 1)
    samba.session.reset()
    with pytest.raises(errors.StateError, match="no PEF is loaded"):
        samba.session.save_checkpoint(tmp_path, 1)


def test_of_something_else(pef, tmp_path):
    load(pef, 1)
    samba.session.save_checkpoint(tmp_path, 1)
    model = samba.from_torch_model_(Model(width=8))
    optim = samba.optim.AdamW(model.parameters(), lr=0.01)
    other = samba.session.compile(model, inputs(), optim, name="other", loss_indices=[0], output_folder=str(tmp_path / "out"))
    load(other, 1, Model(width=8))
    before = on_device()
    with pytest.raises(errors.ShapeError, match=r"\(8, 5\) in the PEF and \(6, 5\) was given|has the shape"):
        samba.session.load_checkpoint(tmp_path)
    assert all(torch.equal(value, before[name]) for name, value in on_device().items())
    sgd = samba.session.compile(
        model,
        inputs(),
        samba.optim.SGD(model.parameters(), lr=0.1),
        name="sgd",
        loss_indices=[0],
        output_folder=str(tmp_path / "out"),
    )
    samba.session.reset()
    utils.trace_graph(model, inputs(), None, pef=sgd, loss_indices=[0])
    with pytest.raises((errors.UnknownNameError, errors.ShapeError), match="which PEF of graph|has the shape"):
        samba.session.load_checkpoint(tmp_path)


CONFIG = hf.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=40, n_positions=8, use_cache=False)


class Hidden(hf.GPT2Model):
    def forward(self, tokens):
        return super().forward(input_ids=tokens).last_hidden_state


def test_transformers_reads_it(tmp_path):
    """Weights in several files, by Hugging Face's own reader."""
    torch.manual_seed(0)
    model = samba.from_torch_model_(Hidden(CONFIG).eval())
    tokens = (samba.randint(40, (2, 8), name="tokens"),)
    pef = samba.session.compile(model, tokens, name="hidden", inference=True, output_folder=str(tmp_path))
    samba.session.reset()
    utils.trace_graph(model, tokens, pef=pef)
    path = pathlib.Path(samba.session.save_checkpoint(tmp_path, 3, shard_size=4000))
    assert len(list(path.glob("model-*-of-*.safetensors"))) > 2
    read, info = hf.GPT2Model.from_pretrained(path, config=CONFIG, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    for name, value in read.state_dict().items():
        assert torch.equal(value, samba.session.device_get(name)), name


def test_folders_of_weights(tmp_path):
    """load takes what transformers' save_pretrained cuts into files, the folder of a checkpoint, and an index by its path."""
    torch.manual_seed(0)
    theirs, model, tokens = (
        hf.GPT2Model(CONFIG).eval(),
        samba.from_torch_model_(Hidden(CONFIG).eval()),
        (samba.randint(40, (2, 8), name="tokens"),),
    )
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="4KB")
    assert len(list((tmp_path / "theirs").glob("model-*-of-*.safetensors"))) > 2
    outputs = utils.trace_graph(model, tokens, pef=samba.session.compile(model, tokens, inference=True, output_folder=tmp_path))
    other = model.wte.weight.torch().clone()
    samba.session.load(tmp_path / "theirs")
    (hidden,) = samba.session.run(tokens, outputs)
    torch.testing.assert_close(hidden.torch(), theirs(tokens[0].torch()).last_hidden_state.detach(), rtol=1e-4, atol=1e-5)
    ours = pathlib.Path(samba.session.save_checkpoint(tmp_path, 3, shard_size=4000))
    for path in (ours, ours / "model.safetensors.index.json", tmp_path / "theirs" / "model.safetensors.index.json"):
        samba.session.to_rdu(model)
        assert torch.equal(samba.session.device_get("wte.weight"), other)
        samba.session.load(path)
        assert all(torch.equal(samba.session.device_get(name), value) for name, value in theirs.state_dict().items())
    with pytest.raises(
        errors.FileError,
        match="has neither model.safetensors.index.json nor model.safetensors: give one that has, or a file of weights",
    ):
        samba.session.load(tmp_path)
    (ours / "model.safetensors.index.json").write_text('{"weight_map": {"wte.weight": "../theirs/x"}}')
    with pytest.raises(errors.FormatError, match="its files lie beside it, and it names ../theirs/x"):
        samba.session.load(ours)


def test_without_torch(pef, tmp_path):
    """sambaflow.checkpoint over a runtime.Session."""
    session, other = runtime.Session(pef, seed=4), runtime.Session(pef, seed=5)
    own = runtime.Tensor.zeros("place", "int64", (2,))
    checkpoint.prepare(tmp_path / "deep" / "points")
    checkpoint.save(session, tmp_path / "deep" / "points", 12, text="here", tensors=[own])
    found = checkpoint.newest(tmp_path / "deep" / "points")
    assert (found.step, found.text, found.seed, found.skipped) == (12, "here", 4, "") and found.tensors["place"].tolist() == [
        0,
        0,
    ]
    checkpoint.load(other, found)
    values = []
    for x in (session, other):
        values.append(runtime.Tensor.zeros("fc1.weight", "float32", (6, 5)))
        x.get(values[-1])
    assert values[0].tolist() == values[1].tolist()
    assert checkpoint.newest(tmp_path / "nowhere") is None
    with pytest.raises(errors.FileError, match="No such file"):
        checkpoint.open_(tmp_path / "nowhere")
    with pytest.raises(TypeError, match="a Checkpoint is expected"):
        checkpoint.load(other, str(tmp_path))
    samba.session.reset(pef)
    with pytest.raises(errors.FormatError, match="was not saved by save_checkpoint of a Python program"):
        samba.session.load_checkpoint(tmp_path / "deep" / "points")


SCHEDULERS = {
    "cosine": lambda o: rates.CosineAnnealingLR(o, 10),
    "milestones": lambda o: rates.MultiStepLR(o, [2, 5, 6], 0.5),
    "one cycle": lambda o: rates.OneCycleLR(o, 0.5, total_steps=12),
    "plateau": lambda o: rates.ReduceLROnPlateau(o, patience=0, factor=0.5),
    "in turn": lambda o: rates.SequentialLR(o, [rates.LinearLR(o), rates.ExponentialLR(o, 0.8)], [3]),
    "function": lambda o: rates.LambdaLR(o, lambda step: 1 / (1 + step)),
    "chained": lambda o: rates.ChainedScheduler([rates.ConstantLR(o), rates.StepLR(o, 3)]),
}


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_a_scheduler_goes_on(pef, tmp_path, kind):
    """A checkpoint has the scheduler's state and the rates of its optimizer."""

    def made():
        groups = [{"params": [torch.nn.Parameter(torch.ones(1))], "lr": lr} for lr in (0.1, 0.02)]
        optim = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
        return optim, SCHEDULERS[kind](optim)

    def step(optim, scheduler, i):
        optim.step()
        scheduler.step(*[[3.0, 2.0, 2.5, 2.6, 1.0, 4.0, 4.0, 4.0, 4.0][i]][: kind == "plateau"])

    load(pef, 0)
    (optim, scheduler), (fresh_optim, fresh) = made(), made()
    for i in range(4):
        step(optim, scheduler, i)
    samba.session.save_checkpoint(tmp_path, 4, schedulers=scheduler)
    assert samba.session.load_checkpoint(tmp_path, schedulers=[fresh]).state is None
    for i in range(4, 9):
        assert [[g["lr"], g["momentum"]] for g in fresh_optim.param_groups] == [
            [g["lr"], g["momentum"]] for g in optim.param_groups
        ]
        step(optim, scheduler, i)
        step(fresh_optim, fresh, i)
        assert fresh.get_last_lr() == scheduler.get_last_lr()
    with pytest.raises(errors.ArgumentError, match="was saved with 1 schedulers and 0 are given"):
        samba.session.load_checkpoint(tmp_path)
    with pytest.raises(TypeError, match="schedulers: 3 is no scheduler of torch.optim.lr_scheduler"):
        samba.session.save_checkpoint(tmp_path, 5, schedulers=[3])


def test_a_part_of_the_weights(pef, tmp_path):
    """load takes what a file has, in part and behind a prefix, and says how many tensors that were."""
    model = samba.from_torch_model_(Model())
    optim = samba.optim.AdamW(model.parameters(), lr=0.01)
    samba.session.trace_graph(model, inputs(), optim, pef=pef, loss_indices=[0])
    samba.session.save(tmp_path / "whole.safetensors", with_state=False)
    weights = load_file(tmp_path / "whole.safetensors")
    save_file({f"module.{name}": x + 1 for name, x in weights.items() if x.is_floating_point()}, tmp_path / "behind.safetensors")
    save_file({"fc1.weight": weights["fc1.weight"] + 2, "head.weight": torch.ones(2)}, tmp_path / "part.safetensors")
    with pytest.raises(errors.UnknownNameError, match='has "module.fc1.weight" where the PEF has "fc1.weight": give drop_prefix'):
        samba.session.load(tmp_path / "behind.safetensors")
    with pytest.raises(errors.UnknownNameError, match="lacks 8 of the PEF's tensors.*nothing was loaded"):
        samba.session.load(tmp_path / "part.safetensors")
    floating = sum(x.is_floating_point() for x in weights.values())
    assert samba.session.load(tmp_path / "behind.safetensors", strict=False, drop_prefix="module.") == floating
    assert samba.session.load(tmp_path / "part.safetensors", strict=False) == 1
    samba.session.to_cpu(model)
    for name, x in model.state_dict().items():
        wanted = weights[name] + (2 if name == "fc1.weight" else x.is_floating_point())
        torch.testing.assert_close(samba.to_torch(x), wanted, rtol=0, atol=0)
    assert samba.session.load(tmp_path / "whole.safetensors") == len(weights)
    with pytest.raises(errors.ArgumentTypeError):
        samba.session.load(tmp_path / "part.safetensors", strict=False, drop_prefix=3)


def test_torchs_seed_goes_on_behind_a_checkpoint(pef, tmp_path):
    """A program that torch.manual_seed seeds with any number, 0 too, is resumed by one that seeds nothing with the same masks."""
    for seed in (0, 3):
        samba.session.reset()
        torch.manual_seed(seed)
        model = samba.from_torch_model_(Model())
        optim = samba.optim.AdamW(model.parameters(), lr=0.01)
        batch = inputs()
        outputs = samba.session.trace_graph(model, batch, optim, pef=pef, loss_indices=[0])
        step = lambda outputs=outputs: samba.to_torch(samba.session.run(batch, outputs)[0]).item()  # noqa: B023, E731
        step()
        folder = samba.session.save_checkpoint(tmp_path / str(seed), 1)
        wanted = [step() for _ in range(3)]
        samba.session.reset()
        torch.default_generator.manual_seed(67280421310721)  # as torch begins
        model = samba.from_torch_model_(Model())
        optim = samba.optim.AdamW(model.parameters(), lr=0.01)
        outputs = samba.session.trace_graph(model, batch, optim, pef=pef, loss_indices=[0])
        samba.session.load_checkpoint(folder)
        assert [step(outputs) for _ in range(3)] == wanted
