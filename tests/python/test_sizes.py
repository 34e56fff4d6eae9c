# SPDX-License-Identifier: Apache-2.0
"""A model for inputs of several shapes in one PEF, beside PyTorch over the same uneven batches: losses of every epoch, gradients,
statistics of norms and final weights. Sizes are drawn from SEED, which SAMBAFLOW_SEED replaces."""

import ctypes
import json
import os
import pathlib
import random
import subprocess

import numpy
import pytest
import safetensors.torch
import torch

import sambaflow.samba as samba
from sambaflow import errors
from sambaflow.runtime import Session
from sambaflow.samba import utils
from sambaflow.samba.sambaloader import SambaLoader

BUILD = pathlib.Path(os.environ.get("SAMBAFLOW_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
SEED = int(os.environ.get("SAMBAFLOW_SEED", "20261129"))


class Classifier(torch.nn.Module):
    """Batch norm looks at the whole batch, a weighted loss at all labels."""

    def __init__(self, width=24, classes=5):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv1d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm1d(8)
        self.hidden, self.out = torch.nn.Linear(8 * 16, width), torch.nn.Linear(width, classes)
        self.loss = torch.nn.CrossEntropyLoss(weight=torch.linspace(0.5, 1.5, classes))

    def forward(self, x, y):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        logits = self.out(torch.tanh(self.hidden(x)))
        return self.loss(logits, y), logits


class Reader(torch.nn.Module):
    """Texts of any length; padding has label -100."""

    def __init__(self, words=40, width=16):
        super().__init__()
        self.embed, self.out = torch.nn.Embedding(words, width), torch.nn.Linear(width, words)
        self.gru = torch.nn.GRU(width, width, batch_first=True)

    def forward(self, ids, labels):
        logits = self.out(self.gru(self.embed(ids))[0])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


@pytest.fixture(autouse=True)
def fresh():
    samba.session.reset()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    samba.session.reset()


def twins(make):
    """The same model twice, one for each side."""
    torch.manual_seed(SEED)
    plain, ours = make(), make()
    ours.load_state_dict(plain.state_dict())
    return plain, samba.from_torch_model_(ours)


def as_inputs(names, tensors):
    return tuple(samba.from_torch_tensor(x, name=name) for name, x in zip(names, tensors))


def check_weights(plain, ours, atol):
    samba.session.to_cpu(ours)
    for name, theirs in plain.state_dict().items():
        its = ours.state_dict()[name]
        numpy.testing.assert_allclose(samba.to_torch(its).detach(), theirs, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_last_batch(optimizer, tmp_path):
    """1,003 samples, 32 at a time: the last 11 count as 11."""
    torch.manual_seed(SEED)
    data = torch.utils.data.TensorDataset(torch.randn(1003, 3, 16), torch.randint(0, 5, (1003,)))
    generator = torch.Generator().manual_seed(SEED)
    plain, ours = twins(Classifier)
    kwargs = {"lr": 0.05, "momentum": 0.9} if optimizer == "SGD" else {"lr": 0.01}
    theirs = getattr(torch.optim, optimizer)(plain.parameters(), **kwargs)
    optim = getattr(samba.optim, optimizer)(ours.parameters(), **kwargs)
    loader = torch.utils.data.DataLoader(data, 32, shuffle=True, generator=generator)
    inputs = as_inputs(("x", "y"), [x[:32] for x in data.tensors])
    pef = samba.session.compile(
        ours, inputs, optim, loss_indices=[0], dims={"batch": (32, 11)}, output_folder=str(tmp_path), name="classifier"
    )
    outputs = utils.trace_graph(ours, inputs, optim, pef=pef, loss_indices=[0])
    for _ in range(3):
        order = generator.get_state()
        mine, batches = [], []
        for batch in SambaLoader(loader, names=["x", "y"]):
            loss, logits = samba.session.run(batch, outputs)
            assert logits.shape == (len(batch[0]), 5)
            mine.append(float(loss))
            batches.append(len(batch[0]))
        assert sorted(set(batches)) == [11, 32] and len(batches) == 32
        generator.set_state(order)
        expected = []
        for x, y in loader:
            theirs.zero_grad()
            loss, _ = plain(x, y)
            loss.backward()
            theirs.step()
            expected.append(loss.item())
        numpy.testing.assert_allclose(mine, expected, rtol=2e-4, atol=1e-5)
    check_weights(plain, ours, 2e-4)


def test_texts(tmp_path):
    """Texts of 5 to 128 tokens in three lengths, the last batch of each as large as it is."""
    r = random.Random(SEED)
    lengths, batch, texts = (32, 64, 128), 8, []
    for _ in range(101):
        n = r.randint(5, 128)
        texts.append([r.randrange(40) for _ in range(n)])
    by_length = {length: [] for length in lengths}
    for text in texts:
        by_length[next(length for length in lengths if len(text) <= length)].append(text)
    batches = [(length, own[i : i + batch]) for length, own in by_length.items() for i in range(0, len(own), batch)]
    sizes = sorted({(len(own), length) for length, own in batches}, reverse=True)
    plain, ours = twins(Reader)
    theirs, optim = torch.optim.Adam(plain.parameters(), lr=0.01), samba.optim.Adam(ours.parameters(), lr=0.01)

    def padded(length, own):
        ids, labels = torch.zeros(len(own), length, dtype=torch.int64), torch.full((len(own), length), -100)
        for row, text in enumerate(own):
            ids[row, : len(text)] = torch.tensor(text)
            labels[row, : len(text) - 1] = torch.tensor(text[1:])
        return ids, labels

    examples = [as_inputs(("ids", "labels"), [torch.zeros(shape, dtype=torch.int64) for _ in range(2)]) for shape in sizes]
    pef = samba.session.compile(ours, examples[0], optim, sizes=examples[1:], output_folder=str(tmp_path), name="reader")
    assert Session(pef).graph_names == [f"reader@{rows}x{length}" for rows, length in sizes]
    outputs = utils.trace_graph(ours, examples[-1], optim, pef=pef)
    for _ in range(2):
        r.shuffle(batches)
        for length, own in batches:
            ids, labels = padded(length, own)
            (loss,) = samba.session.run(as_inputs(("ids", "labels"), (ids, labels)), outputs)
            theirs.zero_grad()
            expected = plain(ids, labels)
            expected.backward()
            theirs.step()
            numpy.testing.assert_allclose(float(loss), expected.item(), rtol=2e-4)
    check_weights(plain, ours, 5e-4)


def test_windows(tmp_path):
    """Steps of four micro-batches; the last window of an epoch has two, of which the last is smaller."""
    torch.manual_seed(SEED)
    x, y = torch.randn(43, 3, 16), torch.randint(0, 5, (43,))
    plain, ours = twins(Classifier)
    for model in (plain, ours):
        model.loss = torch.nn.CrossEntropyLoss()
        model.norm.eval()  # whose statistics would be a micro-batch's
    theirs, optim = torch.optim.AdamW(plain.parameters(), lr=0.01), samba.optim.AdamW(ours.parameters(), lr=0.01)
    inputs = as_inputs(("x", "y"), (x[:8], y[:8]))
    pef = samba.session.compile(
        ours, inputs, optim, loss_indices=[0], dims={"batch": (8, 3)}, grad_accumulation_steps=4, output_folder=str(tmp_path)
    )
    outputs = utils.trace_graph(ours, inputs, optim, pef=pef, loss_indices=[0])
    for _ in range(3):
        for start in (0, 32):
            rows = [slice(i, min(i + 8, 43)) for i in range(start, min(start + 32, 43), 8)]
            batches = [as_inputs(("x", "y"), (x[its], y[its])) for its in rows]
            results = samba.session.run_window(batches, outputs[:1])
            counts = [len(batch[0]) for batch in batches]
            mine = sum(float(loss) * n for (loss,), n in zip(results, counts)) / sum(counts)
            theirs.zero_grad()
            loss, _ = plain(x[start : start + 32], y[start : start + 32])
            loss.backward()
            theirs.step()
            numpy.testing.assert_allclose(mine, loss.item(), rtol=1e-4)
    check_weights(plain, ours, 2e-4)
    for batches in ([], batches * 3):
        with pytest.raises(errors.ArgumentError, match="1 to 4 in a step"):
            samba.session.run_window(batches, outputs)


def memory_of(pef):
    session = Session(pef)
    from sambaflow._core import ffi, lib

    found = ffi.new("samba_memory_info *")
    session.context.check(lib.samba_session_memory(session.c, found))
    return found.total


def stages_of(pef, sections):
    """The kernels of the first sections, with the work and the bytes of each: all that a step's time depends on."""
    shown = subprocess.run(
        [BUILD / "sambaflow", "inspect", "--json", "--verbose", pef], capture_output=True, text=True, check=True
    ).stdout
    told = ("kind", "name", "flops", "bytes", "road")
    return [
        (section["type"], section["fast_memory"], [[stage[key] for key in told] for stage in section["stages"]])
        for section in json.loads(shown)["sections"][:sections]
    ]


def test_memory_and_work(tmp_path):
    """The plan takes what the largest graph takes, and a step does what a graph of its own does."""
    _, ours = twins(Classifier)
    optim = samba.optim.AdamW(ours.parameters(), lr=0.01)
    inputs = as_inputs(("x", "y"), [torch.randn(256, 3, 16), torch.randint(0, 5, (256,))])
    common = {"loss_indices": [0], "output_folder": str(tmp_path)}
    alone = samba.session.compile(ours, inputs, optim, name="alone", **common)
    several = samba.session.compile(ours, inputs, optim, name="several", dims={"batch": (256, 64, 11)}, **common)
    assert memory_of(several) <= 1.05 * memory_of(alone)
    assert stages_of(several, 3) == stages_of(alone, 3)


def test_evaluation(tmp_path):
    """A size for training answers too, by running statistics; one that was not compiled is refused with those there are."""
    plain, ours = twins(Classifier)
    optim = samba.optim.SGD(ours.parameters(), lr=0.1)
    inputs = as_inputs(("x", "y"), [torch.randn(6, 3, 16), torch.randint(0, 5, (6,))])
    pef = samba.session.compile(ours, inputs, optim, loss_indices=[0], dims={"batch": (6, 2)}, output_folder=str(tmp_path))
    outputs = utils.trace_graph(ours, inputs, optim, pef=pef, loss_indices=[0])
    plain.eval()
    for n in (2, 6, 2):
        x, y = torch.randn(n, 3, 16), torch.randint(0, 5, (n,))
        loss, logits = samba.session.run(as_inputs(("x", "y"), (x, y)), outputs, section_types=["FWD"], train=False)
        expected = plain(x, y)
        numpy.testing.assert_allclose(samba.to_torch(logits), expected[1].detach(), atol=1e-5)
        numpy.testing.assert_allclose(float(loss), expected[0].item(), rtol=1e-4)
    odd = as_inputs(("x", "y"), (torch.randn(5, 3, 16), torch.randint(0, 5, (5,))))
    with pytest.raises(
        errors.ShapeError, match=r'"x" has the shape \(5, 3, 16\), and "Classifier" was compiled for: "\(6, 3, 16\)"'
    ):
        samba.session.run(odd, outputs)
    mixed = (inputs[0], as_inputs(("y",), (torch.randint(0, 5, (2,)),))[0])
    with pytest.raises(errors.ShapeError, match="different sizes"):
        samba.session.run(mixed, outputs)


def test_pinned(tmp_path):
    """Batches that lie in the device's memory, of both sizes."""
    plain, ours = twins(Classifier)
    optim = samba.optim.SGD(ours.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(14, 3, 16), torch.randint(0, 5, (14,)))
    inputs = as_inputs(("x", "y"), [x[:6] for x in data.tensors])
    pef = samba.session.compile(ours, inputs, optim, loss_indices=[0], dims={"batch": (6, 2)}, output_folder=str(tmp_path))
    outputs = utils.trace_graph(ours, inputs, optim, pef=pef, loss_indices=[0])
    theirs = torch.optim.SGD(plain.parameters(), lr=0.1)
    samba.session.enable_pinned_memory()
    loader = torch.utils.data.DataLoader(data, 6)
    for _ in range(2):
        mine = [float(samba.session.run(batch, outputs)[0]) for batch in SambaLoader(loader, names=["x", "y"])]
        expected = []
        for x, y in loader:
            theirs.zero_grad()
            loss = plain(x, y)[0]
            loss.backward()
            theirs.step()
            expected.append(loss.item())
        numpy.testing.assert_allclose(mine, expected, rtol=1e-4)


def test_saved_and_traced_again(tmp_path):
    """A PEF of sizes is one model: weights and state go from one session to another, whichever size traces it."""
    _, ours = twins(Classifier)
    optim = samba.optim.Adam(ours.parameters(), lr=0.01)
    inputs, last = (as_inputs(("x", "y"), [torch.randn(n, 3, 16), torch.randint(0, 5, (n,))]) for n in (6, 2))
    pef = samba.session.compile(ours, inputs, optim, loss_indices=[0], dims={"batch": (6, 2)}, output_folder=str(tmp_path))
    outputs = utils.trace_graph(ours, inputs, optim, pef=pef, loss_indices=[0])
    samba.session.run(inputs, outputs, hyperparam_dict={"lr": 0.02})
    samba.session.run(last, outputs)
    samba.session.save_checkpoint(str(tmp_path / "steps"), 2)
    samba.session.to_cpu(ours, optim)
    assert float(next(iter(optim.state.values()))["step"]) == 2
    expected = float(samba.session.run(inputs, outputs)[0])
    samba.session.reset()
    outputs = utils.trace_graph(ours, last, optim, pef=pef, loss_indices=[0])
    samba.session.load_checkpoint(str(tmp_path / "steps"))
    assert float(samba.session.run(inputs, outputs)[0]) == expected


@pytest.mark.parametrize(
    ("dims", "sizes", "error", "words"),
    [
        ({"batch": (6,)}, [()], errors.ArgumentError, "give one of them"),
        ({}, None, TypeError, "dims is"),
        ({"batch": ()}, None, ValueError, r"dims\['batch'\] is"),
        ({"batch": (6, 6)}, None, ValueError, "a size twice"),
        ({"batch": (6, 0)}, None, ValueError, "1 or more"),
        ({"batch": (8, 2)}, None, errors.ShapeError, "has 6 in dim 0"),
        ({"batch": (6, 2), "channels": (3, 4)}, None, errors.ShapeError, "conv1d"),
        (None, [], TypeError, "a list of example inputs"),
        (None, [()], errors.ArgumentError, "has 0 inputs"),
    ],
)
def test_refused(dims, sizes, error, words, tmp_path):
    _, ours = twins(Classifier)
    inputs = as_inputs(("x", "y"), [torch.randn(6, 3, 16), torch.randint(0, 5, (6,))])
    with pytest.raises(error, match=words):
        samba.session.compile(ours, inputs, inference=True, dims=dims, sizes=sizes, output_folder=str(tmp_path))


def test_refused_examples(tmp_path):
    _, ours = twins(Classifier)
    inputs = as_inputs(("x", "y"), [torch.randn(6, 3, 16), torch.randint(0, 5, (6,))])
    with pytest.raises(errors.ArgumentError, match="two of the sizes"):
        samba.session.compile(ours, inputs, inference=True, sizes=[inputs], output_folder=str(tmp_path))
    other = as_inputs(("x", "z"), [torch.randn(2, 3, 16), torch.randint(0, 5, (2,))])
    with pytest.raises(errors.ArgumentError, match="differ in shapes alone"):
        samba.session.compile(ours, inputs, inference=True, sizes=[other], output_folder=str(tmp_path))
    pef = samba.session.compile(ours, inputs, inference=True, dims={"batch": (6, 2)}, output_folder=str(tmp_path))
    odd = as_inputs(("x", "y"), [torch.randn(3, 3, 16), torch.randint(0, 5, (3,))])
    with pytest.raises(errors.ShapeError, match="was compiled for"):
        utils.trace_graph(ours, odd, pef=pef)
    changed = Classifier()
    changed.forward = lambda x, y: (changed.loss(x.mean((1, 2))[:, None].expand(-1, 5), y), x)
    with pytest.raises(errors.StateError):
        utils.trace_graph(samba.from_torch_model_(changed), inputs, pef=pef)


# ---- applications in C ----


def order_of(count, epoch, seed):
    """The samples of an epoch: samba_shuffle by the hash of its number."""
    xxhash, library = ctypes.CDLL("libxxhash.so.0"), ctypes.CDLL(BUILD / "libsambaflow.so")
    xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    number, order = ctypes.c_int64(epoch), (ctypes.c_int64 * count)()
    hashed = xxhash.XXH3_64bits_withSeed(ctypes.byref(number), ctypes.c_size_t(8), ctypes.c_uint64(seed))
    library.samba_shuffle(ctypes.c_uint64(hashed), ctypes.c_int64(count), order)
    return list(order)


def write_idx(path, array):
    array = numpy.ascontiguousarray(array, dtype=numpy.uint8)
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(head + array.tobytes())


@pytest.mark.parametrize(("micro", "samples"), [(32, 1003), (8, 1003), (8, 1000), (32, 20)])
def test_application(micro, samples, tmp_path):
    """`train --keep-last` over uneven data: steps, epochs and weights of PyTorch over the same batches."""
    r = numpy.random.default_rng(SEED)
    images, answers = r.integers(0, 256, (samples + 30, 28, 28)), r.integers(0, 10, samples + 30)
    for name, rows in (("train", slice(samples)), ("t10k", slice(samples, None))):
        write_idx(tmp_path / f"{name}-images-idx3-ubyte", images[rows])
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte", answers[rows])
    plain = torch.nn.Linear(784, 10)
    start = {"lin_layer.weight": plain.weight.detach(), "lin_layer.bias": plain.bias.detach()}
    safetensors.torch.save_file(start, tmp_path / "start.safetensors")
    words = ["-b", 32, "-mb", micro, "--data", tmp_path, "--lr", 0.001, "--optimizer", "adamw", "--num-epochs", 3, "--json"]
    words += ["--load", tmp_path / "start.safetensors", "--save", tmp_path / "end.safetensors", "--seed", 5, "--log-every", 1]
    words += ["--weight-decay", 0, "--keep-last", "--pef", tmp_path / "m.pef", "--threads", 1]
    run = subprocess.run([BUILD / "examples" / "logreg", "train", *map(str, words)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    x = torch.tensor((images[:samples].reshape(samples, 784) / 255 - 0.1307) / 0.3081, dtype=torch.float32)
    y, losses, means = torch.tensor(answers[:samples]), [], []
    theirs = torch.optim.AdamW(plain.parameters(), lr=0.001, weight_decay=0)
    for epoch in range(1, 4):
        order, total = order_of(samples, epoch, 5), 0
        for at in range(0, samples, 32):
            rows = order[at : at + 32]
            theirs.zero_grad()
            loss = torch.nn.functional.cross_entropy(plain(x[rows]), y[rows])
            loss.backward()
            theirs.step()
            losses.append(loss.item())
            total += loss.item() * len(rows)
        means.append(total / samples)
    numpy.testing.assert_allclose([entry["loss"] for entry in told["log"]], losses, rtol=5e-4)
    numpy.testing.assert_allclose([entry["loss"] for entry in told["epochs"]], means, rtol=5e-4)
    end = safetensors.torch.load_file(tmp_path / "end.safetensors")
    for name, its in (("lin_layer.weight", plain.weight), ("lin_layer.bias", plain.bias)):
        numpy.testing.assert_allclose(end[name], its.detach(), atol=1e-3)
