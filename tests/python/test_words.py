# SPDX-License-Identifier: Apache-2.0
"""The walk of docs/words.md beside transformers and PEFT: the same prepared sequences, first weights and options give the loss of
each epoch and the test's within 1 %; so do the adapters."""

import json
import math

import h5py
import peft
import pytest
import torch
import transformers
from test_lm_train import COMPLETION, END, PADDING, ROOT, order_of, train

import sambaflow.prepare

WORDS = ROOT / "examples" / "words"
PACKED = {"max_seq_length": 64, "input_packing_config": "single::drop", "num_training_splits": 1}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sequences(path):
    """Inputs as transformers takes them: padding is behind the tokens, so that causal attention never sees it."""
    with h5py.File(path) as file:
        ids, types = torch.tensor(file["input_ids"][:]).long(), torch.tensor(file["token_type_ids"][:])
    learned = (types == COMPLETION) | (types == END)
    learned[:, 1:] &= types[:, :-1] != PADDING
    return ids, torch.where(learned, ids, -100)


def learn(model, data, epochs, batch, lr, warmup=0, norm=math.inf, decay=0.0):
    """Mean losses of the epochs."""
    ids, labels = data
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decay},
    ]
    optimizer = torch.optim.AdamW(groups, lr=lr)
    steps = epochs * (len(ids) // batch)
    means, step = [], 0
    for epoch in range(1, epochs + 1):
        order, losses = order_of(len(ids), epoch, 0), []
        for first in range(0, len(ids) - batch + 1, batch):
            now = order[first : first + batch]
            share = (
                (step + 1) / (warmup + 1) if step < warmup else 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
            )
            for group in optimizer.param_groups:
                group["lr"] = lr * share
            optimizer.zero_grad()
            loss = model(input_ids=ids[now], labels=labels[now]).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, norm)
            optimizer.step()
            losses.append(loss.item())
            step += 1
        means.append(sum(losses) / len(losses))
    return means


def test_walk(tmp_path):
    sambaflow.prepare.prepare(
        ROOT / "examples" / "data" / "text.txt", WORDS / "model", tmp_path / "text", num_dev_splits=1, dev_ratio=0.1, **PACKED
    )
    sambaflow.prepare.prepare(WORDS / "chat.jsonl", WORDS / "model", tmp_path / "talk", **PACKED)
    torch.manual_seed(20261128)
    config = transformers.AutoConfig.from_pretrained(WORDS / "model")
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(tmp_path / "first")

    run = train(
        *("--model", tmp_path / "first", "--data", tmp_path / "text", "--to", tmp_path / "poet", "-b", 16, "--lr", 0.004),
        *("--lr-schedule", "cosine", "--warmup-steps", 50, "--num-epochs", 20, "--max-grad-norm", 1, "--weight-decay", 0.1),
        *("--no-decay", "vectors", "--json", "--pef", tmp_path / "m.pef"),
    )
    told = json.loads(run.stdout)
    theirs = learn(model, sequences(tmp_path / "text" / "train_1_of_1.hdf5"), 20, 16, 0.004, warmup=50, norm=1.0, decay=0.1)
    assert [epoch["loss"] for epoch in told["epochs"]] == pytest.approx(theirs, rel=0.01)
    ids, labels = sequences(tmp_path / "text" / "dev_1_of_1.hdf5")
    with torch.no_grad():
        assert told["test_loss"] == pytest.approx(model(input_ids=ids, labels=labels).loss.item(), rel=0.01)

    # Adapters begin at random numbers, which are not PEFT's: both go on from those of a training whose rate is 0.
    words = ["--model", tmp_path / "poet", "--data", tmp_path / "talk", "-b", 8, "--weight-decay", 0, "--json"]
    words += ["--lr-schedule", "cosine", "--pef", tmp_path / "a.pef"]
    train(*words, "--lora-rank", 8, "--to", tmp_path / "adapter", "--num-epochs", 1, "--lr", 0)
    run = train(*words, "--adapter", tmp_path / "adapter", "--to", tmp_path / "manners", "--num-epochs", 60, "--lr", 0.01)
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "poet")
    adapted = peft.PeftModel.from_pretrained(base, tmp_path / "adapter", is_trainable=True)
    theirs = learn(adapted, sequences(tmp_path / "talk" / "train_1_of_1.hdf5"), 60, 8, 0.01)
    assert [epoch["loss"] for epoch in json.loads(run.stdout)["epochs"]] == pytest.approx(theirs, rel=0.01)
