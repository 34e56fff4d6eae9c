# SPDX-License-Identifier: Apache-2.0
"""`sambaflow lm train` beside PyTorch and transformers: the same folder, sequences and options give the same losses of 20 steps,
the same test, and the same weights, with prompts, padding and packed articles. A training that is killed and resumed ends with
the bits of one that was not. Data is drawn from SEED, which SAMBAFLOW_SEED replaces."""

import ctypes
import json
import logging
import math
import os
import pathlib
import random
import signal
import subprocess
import time

import numpy
import pytest
import safetensors.torch
import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SAMBAFLOW_BUILD", ROOT / "build"))
SEED = int(os.environ.get("SAMBAFLOW_SEED", "20261128"))
VOCABULARY = 61
PROMPT, COMPLETION, PADDING, END = range(4)
logging.getLogger("transformers").setLevel(logging.ERROR)


@pytest.fixture(autouse=True)
def one_thread():
    """The models are small, and threads cost more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---- models and data ----


def llama():
    return transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=False,
    )


def gpt2():
    return transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=3, n_positions=24, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )


def save_model(config, folder):
    torch.manual_seed(SEED)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():  # initial weights are small, and many gradients would be all but zero
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model


def pairs(r, count, length):
    """A prompt, its completion, padding."""
    types = numpy.full((count, length), COMPLETION)
    for row in types:
        row[: r.randint(0, length // 2)] = PROMPT
        row[-1] = END
        padding = r.randint(0, length // 3)
        row[length - padding :] = PADDING
        row[length - padding - 1] = END
    return types


def left_padded(r, count, length):
    """The same, with the padding before."""
    types = pairs(r, count, length)
    for row in types:
        row[:] = numpy.roll(row, (row == PADDING).sum())
    return types


def articles(r, count, length):
    """Several in a sequence, some with prompts; the last may go on in the next sequence, or end in padding."""
    types = numpy.full((count, length), COMPLETION)
    for row in types:
        at = 0
        while at < length and r.random() < 0.9:
            end = min(length - 1, at + r.randint(0, length // 2))
            row[at : at + r.randint(0, end - at)] = PROMPT
            row[end] = END
            at = end + 1
        if r.random() < 0.5:
            row[at:] = PADDING
    types[0] = COMPLETION  # one article, and no end
    types[1] = PROMPT  # nothing to learn
    return types


def write_data(path, types):
    r = numpy.random.default_rng(SEED)
    ids = r.integers(0, VOCABULARY, types.shape)
    ids[:, 1::2] = (ids[:, ::2] * 7 + 3)[:, : ids[:, 1::2].shape[1]] % VOCABULARY  # something to learn
    numpy.savez(path, input_ids=ids.astype(numpy.int32), token_type_ids=types.astype(numpy.int8))
    return ids


def train(*words, check=True):
    words = [str(word) for word in words]
    run = subprocess.run([BUILD / "sambaflow", "lm", "train", *words], capture_output=True, text=True, check=False)
    assert not check or run.returncode == 0, run.stderr
    return run


# ---- the same in PyTorch ----


def order_of(count, epoch, seed):
    """The samples of an epoch: samba_shuffle by the hash of its number."""
    xxhash, library = ctypes.CDLL("libxxhash.so.0"), ctypes.CDLL(BUILD / "libsambaflow.so")
    xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    number, order = ctypes.c_int64(epoch), (ctypes.c_int64 * count)()
    hashed = xxhash.XXH3_64bits_withSeed(ctypes.byref(number), ctypes.c_size_t(8), ctypes.c_uint64(seed))
    library.samba_shuffle(ctypes.c_uint64(hashed), ctypes.c_int64(count), order)
    return list(order)


def inputs_of(ids, types, apart):
    """As the data says: what is learned, and who sees whom."""
    ids, types = torch.tensor(ids), torch.tensor(types)
    labels = torch.where((types == COMPLETION) | (types == END), ids, -100)
    labels[:, 1:][types[:, :-1] == PADDING] = -100  # padding has no successor
    length = ids.shape[1]
    document = torch.zeros_like(ids)
    position = torch.zeros_like(ids)
    for b in range(ids.shape[0]):
        for i in range(1, length):
            new = apart and types[b, i - 1] == END
            document[b, i] = document[b, i - 1] + int(new)
            position[b, i] = 0 if new else position[b, i - 1] + 1
    sees = (document[:, :, None] == document[:, None, :]) & torch.ones(length, length).tril().bool()
    sees &= (types != PADDING)[:, None, :]
    sees |= torch.eye(length).bool()  # padding sees itself, so that no row is empty
    mask = torch.where(sees, 0.0, torch.finfo(torch.float32).min)[:, None]
    return {"input_ids": ids, "labels": labels, "attention_mask": mask, "position_ids": position}


def mean_of(model, ids, types, apart):
    """Loss per learned token, and how many there are."""
    with torch.no_grad():
        inputs = inputs_of(ids, types, apart)
        logits = model(**{k: v for k, v in inputs.items() if k != "labels"}).logits[:, :-1]
        labels = inputs["labels"][:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1), reduction="sum")
        count = (labels != -100).sum().item()
        return loss.item() / count, count


EPS = 1e-4  # by AdamW's usual 1e-8 a gradient of 1e-9 would make a fifth of a step of rounding, and losses would drift apart


def adamw(model, lr):
    """Without decay of vectors."""
    vectors = [p for p in model.parameters() if p.dim() < 2]
    others = [p for p in model.parameters() if p.dim() >= 2]
    groups = [{"params": vectors, "weight_decay": 0.0}, {"params": others, "weight_decay": 0.1}]
    return torch.optim.AdamW(groups, lr=lr, eps=EPS)


def learn(model, ids, types, tests, apart, steps, micro, accumulation, lr, warmup):
    """Losses of the steps: AdamW, cosine with warm-up, clipping, accumulation."""
    optimizer = adamw(model, lr)
    batch, losses = micro * accumulation, []
    test = []
    epoch, order = 0, []
    model.train()
    for step in range(steps):
        if len(order) < batch:
            epoch += 1
            order = order_of(len(ids), epoch, 5)
        now, order = order[:batch], order[batch:]
        rate = (
            lr * (step + 1) / (warmup + 1)
            if step < warmup
            else lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = 0
        for i in range(accumulation):
            part = now[i * micro : (i + 1) * micro]
            result = model(**inputs_of(ids[part], types[part], apart)).loss / accumulation
            result.backward()
            loss += result.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss)
        if (step + 1) % 7 == 0:
            test.append(mean_of(model, *tests, apart)[0])
    return losses, test


@pytest.mark.parametrize(
    ("config", "draw", "boundary"),
    [
        (llama, pairs, None),
        (llama, left_padded, None),
        (llama, articles, None),
        (llama, articles, "none"),
        (gpt2, pairs, None),
        (gpt2, articles, None),
        (gpt2, articles, "none"),
    ],
)
def test_losses(config, draw, boundary, tmp_path):
    """20 steps. Of articles, both ways to see them."""
    r = random.Random(f"{SEED} {draw.__name__}")
    apart = draw is articles and boundary is None
    model = save_model(config(), tmp_path / "model")
    types = draw(r, 40, 17)
    ids = write_data(tmp_path / "data.npz", types)
    words = ["--attention-boundary", boundary] if boundary else []
    run = train(
        *("--model", tmp_path / "model", "--data", tmp_path / "data.npz", "--to", tmp_path / "trained", *words),
        *("-b", 6, "-mb", 3, "--lr", 0.01, "--eps", EPS, "--weight-decay", 0.1, "--no-decay", "vectors", "--max-grad-norm", 0.5),
        *("--lr-schedule", "cosine", "--warmup-steps", 3, "--eval-fraction", 0.2, "--eval-every", 7, "--log-every", 1),
        *("--num-epochs", 9, "--num-iterations", 20, "--seed", 5, "--json", "--pef", tmp_path / "m.pef"),
    )
    told = json.loads(run.stdout)
    fine = (inputs_of(ids, types, apart)["labels"][:, 1:] != -100).any(1).tolist()
    train_rows, test_rows = [i for i in range(32) if fine[i]], [i for i in range(32, 40) if fine[i]]
    assert ("left out" in run.stderr) == (not all(fine))
    tests = ids[test_rows], types[test_rows]
    losses, test = learn(model, ids[train_rows], types[train_rows], tests, apart, 20, 3, 2, 0.01, 3)
    numpy.testing.assert_allclose([entry["loss"] for entry in told["log"]], losses, rtol=5e-6)
    numpy.testing.assert_allclose([entry["loss"] for entry in told["tests"]], test, rtol=5e-6)
    loss, count = mean_of(model, *tests, apart)
    assert told["test_predictions"] == count
    numpy.testing.assert_allclose([told["test_loss"], told["test_perplexity"]], [loss, math.exp(loss)], rtol=5e-6)
    saved = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained", attn_implementation="eager")
    numpy.testing.assert_allclose(mean_of(saved, *tests, apart)[0], loss, rtol=5e-6)


def test_prompts(tmp_path):
    """Learned where that is asked for."""
    model = save_model(llama(), tmp_path / "model")
    types = pairs(random.Random(SEED), 12, 9)
    ids = write_data(tmp_path / "data.npz", types)
    run = train(
        *("--model", tmp_path / "model", "--data", tmp_path / "data.npz", "--learn-prompts", "--eval-fraction", 0.5, "--lr", 0),
        *("--json", "-b", 4, "--pef", tmp_path / "m.pef"),
    )
    types[types == PROMPT] = COMPLETION
    loss, count = mean_of(model, ids[6:], types[6:], False)
    told = json.loads(run.stdout)
    assert told["test_predictions"] == count
    numpy.testing.assert_allclose(told["test_loss"], loss, rtol=2e-5)


def test_folder(tmp_path):
    """Parts of a split are one after the other; what they test with is their own."""
    model = save_model(llama(), tmp_path / "model")
    types = pairs(random.Random(SEED), 12, 9)
    ids = write_data(tmp_path / "all.npz", types)
    (tmp_path / "data").mkdir()
    for name, rows in (("train_1_of_2", range(4)), ("train_2_of_2", range(4, 9)), ("dev_1_of_1", range(9, 12))):
        part = {"input_ids": torch.tensor(ids[rows]), "token_type_ids": torch.tensor(types[rows])}
        safetensors.torch.save_file(part, tmp_path / "data" / f"{name}.safetensors")
    words = ["--model", tmp_path / "model", "--json", "-b", 3, "--log-every", 1, "--pef", tmp_path / "m.pef"]
    folder = json.loads(train("--data", tmp_path / "data", *words).stdout)
    file = json.loads(train("--data", tmp_path / "all.npz", "--eval-fraction", 0.25, *words).stdout)
    assert folder["log"] == file["log"] and len(file["log"]) == 3
    assert folder["test_loss"] == file["test_loss"]


def test_text(tmp_path):
    """A text is cut every so many tokens, and its last sequence filled up."""
    model = save_model(gpt2(), tmp_path / "model")
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    text = "the quick brown fox jumps over the lazy dog, and the dog sleeps on; " * 9
    words.train_from_iterator([text], tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False))
    words.save(str(tmp_path / "model" / "tokenizer.json"))
    (tmp_path / "story.txt").write_text(text, encoding="utf-8")
    run = train(
        *("--model", tmp_path / "model", "--data", tmp_path / "story.txt", "--length", 10, "--eval-fraction", 0.3, "--lr", 0),
        *("--to", tmp_path / "trained", "--json", "--pef", tmp_path / "m.pef"),
    )
    ids = numpy.array(words.encode(text).ids)
    rows = -(-len(ids) // 10)
    types = numpy.full(rows * 10, PADDING)
    types[: len(ids)] = COMPLETION
    ids = numpy.pad(ids, (0, rows * 10 - len(ids)))
    tests = int(rows * 0.3)
    loss, count = mean_of(model, ids.reshape(rows, 10)[-tests:], types.reshape(rows, 10)[-tests:], False)
    told = json.loads(run.stdout)
    assert told["test_predictions"] == count
    numpy.testing.assert_allclose(told["test_loss"], loss, rtol=2e-5)
    assert (tmp_path / "trained" / "tokenizer.json").read_bytes() == (tmp_path / "model" / "tokenizer.json").read_bytes()


def steps_of(order, sizes, batch, keep):
    """Which samples make a step: those of a size, as soon as there are enough; then what is left of each."""
    steps, left = [], {size: [] for size in sorted(set(sizes))}
    for sample in order:
        its = left[sizes[sample]]
        its.append(sample)
        if len(its) == batch:
            steps.append(list(its))
            its.clear()
    return steps + [its for its in left.values() if its and keep]


@pytest.mark.parametrize(("config", "draw", "keep"), [(llama, pairs, True), (llama, pairs, False), (gpt2, articles, True)])
def test_lengths(config, draw, keep, tmp_path):
    """Sequences of three lengths in one training, and the last batch of each length as it is: every step, every epoch and the
    weights in the end are those of PyTorch over the same batches."""
    r = random.Random(f"{SEED} {draw.__name__} lengths")
    lengths, micro, accumulation, epochs, lr = (7, 12, 17), 3, 2, 3, 0.01
    apart = draw is articles
    model = save_model(config(), tmp_path / "model")
    types = draw(r, 61, 17)
    for row in types[2:]:  # ends early, so that each length has some
        row[r.randint(4, 17) :] = PADDING
    ids = write_data(tmp_path / "data.npz", types)
    run = train(
        *("--model", tmp_path / "model", "--data", tmp_path / "data.npz", "--to", tmp_path / "trained", "--lr", lr, "--eps", EPS),
        *("-b", micro * accumulation, "-mb", micro, "--weight-decay", 0.1, "--no-decay", "vectors", "--max-grad-norm", 0.5),
        *("--length", ",".join(map(str, lengths)), *(["--keep-last"] if keep else []), "--eval-fraction", 0.2, "--log-every", 1),
        *("--num-epochs", epochs, "--seed", 5, "--json", "--pef", tmp_path / "m.pef"),
    )
    told = json.loads(run.stdout)
    fine = (inputs_of(ids, types, apart)["labels"][:, 1:] != -100).any(1).tolist()
    cut = 61 - int(61 * 0.2)
    rows, test_rows = [i for i in range(cut) if fine[i]], [i for i in range(cut, 61) if fine[i]]
    tokens = [int(numpy.flatnonzero(types[i] != PADDING)[-1]) + 1 for i in rows]
    sizes = [next(length for length in lengths if length >= n) for n in tokens]
    assert set(sizes) == set(lengths)
    optimizer = adamw(model, lr)
    losses, means = [], []
    model.train()
    for epoch in range(1, epochs + 1):
        total = count = 0
        for step in steps_of(order_of(len(rows), epoch, 5), sizes, micro * accumulation, keep):
            length, parts = sizes[step[0]], [step[i : i + micro] for i in range(0, len(step), micro)]
            optimizer.zero_grad()
            loss = 0
            for part in parts:
                its = [rows[i] for i in part]
                result = model(**inputs_of(ids[its, :length], types[its, :length], apart)).loss / len(parts)
                result.backward()
                loss += result.item()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss)
            total, count = total + loss * len(step), count + len(step)
        means.append(total / count)
    numpy.testing.assert_allclose([entry["loss"] for entry in told["log"]], losses, rtol=5e-6)
    numpy.testing.assert_allclose([entry["loss"] for entry in told["epochs"]], means, rtol=5e-6)
    loss, count = mean_of(model, ids[test_rows], types[test_rows], apart)
    assert told["test_predictions"] == count
    numpy.testing.assert_allclose(told["test_loss"], loss, rtol=5e-6)
    saved = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained", attn_implementation="eager")
    for (name, ours), theirs in zip(saved.named_parameters(), model.parameters()):
        numpy.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=0, atol=1e-5, err_msg=name)


def test_lengths_killed(tmp_path):
    """A training of several lengths that goes on from a checkpoint ends with the bits of one that did not stop."""
    save_model(llama(), tmp_path / "model")
    types = pairs(random.Random(SEED), 60, 17)
    for i, row in enumerate(types):
        row[4 + i % 13 :] = PADDING
        row[3] = COMPLETION  # all are learned: 15 short ones and 45 long ones, whose last steps are not full
    write_data(tmp_path / "data.npz", types)
    words = ["--model", tmp_path / "model", "--data", tmp_path / "data.npz", "-b", 4, "-mb", 2, "--lr", 0.01, "--seed", 3]
    words += ["--length", "6,17", "--keep-last", "--threads", 1, "--checkpoint-every", 5]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    more = ["--num-epochs", 2, "--pef", tmp_path / "m.pef"]
    train(*words, *more, "--checkpoint-dir", whole, "--to", tmp_path / "one")
    train(*words, *more, "--checkpoint-dir", parts, "--num-iterations", 9)
    run = train(*words, *more, "--checkpoint-dir", parts, "--resume", "--to", tmp_path / "two")
    assert "resumed from" in run.stdout
    name = "model.safetensors"
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    words.remove("--keep-last")
    run = train(*words, *more, "--checkpoint-dir", parts, "--resume", check=False)
    assert "steps in an epoch" in run.stderr


def test_killed(tmp_path):
    """Dropout, accumulation, clipping and a schedule: what is resumed after kills ends with the same bits."""
    save_model(transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=3, n_positions=24), tmp_path / "model")
    write_data(tmp_path / "data.npz", articles(random.Random(SEED), 300, 17))
    words = ["--model", tmp_path / "model", "--data", tmp_path / "data.npz", "-b", 4, "-mb", 2, "--lr", 0.01, "--seed", 3]
    words += ["--max-grad-norm", 1, "--lr-schedule", "cosine", "--eval-every", 9, "--num-epochs", 2, "--checkpoint-every", 5]
    words += ["--threads", 1, "--no-decay", "vectors"]
    train(*words, "--to", tmp_path / "whole", "--checkpoint-dir", tmp_path / "a", "--pef", tmp_path / "a.pef")
    words += ["--to", tmp_path / "end", "--checkpoint-dir", tmp_path / "b", "--pef", tmp_path / "b.pef", "--resume"]
    killed = 0

    def whole():
        return {path.name for path in (tmp_path / "b").glob("checkpoint-*") if path.name[11:].isdigit()}

    for _ in range(4):
        run = subprocess.Popen(
            [BUILD / "sambaflow", "lm", "train", *(str(word) for word in words)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        before = whole()
        until = time.monotonic() + 20
        while run.poll() is None and whole() == before and time.monotonic() < until:
            time.sleep(0.001)
        run.send_signal(signal.SIGKILL)
        killed += run.wait() == -signal.SIGKILL
    assert killed > 0
    assert "resumed from" in train(*words).stdout
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "end" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert (tmp_path / "a.pef").read_bytes() == (tmp_path / "b.pef").read_bytes()
