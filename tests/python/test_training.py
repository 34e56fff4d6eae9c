# SPDX-License-Identifier: Apache-2.0
"""samba.fit beside a loop of plain PyTorch over the same batches: losses, figures of validations, the best epoch, the final
weights; uneven batches, schedules, early stopping, resuming to the same bits; and what is refused."""

import itertools
import json
import math
import os
import random

import numpy
import pytest
import torch
from torch.nn import functional as F

import sambaflow.samba as samba
from sambaflow import errors
from sambaflow.samba.metrics import Metric

SEED = int(os.environ.get("SAMBAFLOW_SEED", "20261129"))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(6, 16, bias=False)  # the norm takes a bias away: its gradient would be rounding alone
        self.norm, self.out = torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.out(torch.tanh(self.norm(self.hidden(x))))


class WithLoss(torch.nn.Module):
    """What programs of the documents have: the loss, then the logits."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, label):
        logits = self.net(x)
        return F.cross_entropy(logits, label), logits


@pytest.fixture(autouse=True)
def fresh():
    samba.session.reset()
    torch.manual_seed(SEED)
    yield
    samba.session.reset()


def samples(count, seed):
    generator = torch.Generator().manual_seed(SEED + seed)
    x = torch.randn(count, 6, generator=generator)
    label = (x[:, :4] + 0.5 * torch.randn(count, 4, generator=generator)).argmax(1)
    return torch.utils.data.TensorDataset(x, label)


def loaders(train=77, validation=29, size=16, seed=3):
    """The same shuffles for whoever asks."""
    generator = torch.Generator().manual_seed(seed)
    train = torch.utils.data.DataLoader(samples(train, 1), size, shuffle=True, generator=generator)
    return train, torch.utils.data.DataLoader(samples(validation, 2), size)


def plain(model, optimizer, loader, tests, epochs, scheduler=None, by_step=False):
    """torch's own loop: a row for each epoch."""
    rows = []
    for epoch in range(epochs):
        model.train()
        total = count = 0
        for x, label in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), label)
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(x), count + len(x)
            if scheduler is not None and by_step:
                scheduler.step()
        lr = optimizer.param_groups[0]["lr"]
        model.eval()
        with torch.no_grad():
            logits = torch.cat([model(x) for x, _ in tests])
        label = torch.cat([label for _, label in tests])
        value = F.cross_entropy(logits, label).item()
        rows.append((total / count, value, (logits.argmax(1) == label).float().mean().item(), lr))
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(value)
        elif scheduler is not None and not by_step:
            scheduler.step()
    return rows


def twins():
    first = Net()
    second = Net()
    second.load_state_dict(first.state_dict())
    return first, second


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.9, weight_decay=1e-3),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.02),
}
SCHEDULES = {
    "none": lambda o: (None, False),
    "step": lambda o: (torch.optim.lr_scheduler.StepLR(o, 2, 0.3), False),
    "one cycle": lambda o: (torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=40), True),
    "plateau": lambda o: (torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5, threshold=0.05), False),
}


@pytest.mark.parametrize("optimizer, schedule", [("SGD", "step"), ("AdamW", "one cycle"), ("SGD", "plateau"), ("AdamW", "none")])
@pytest.mark.parametrize("own_loss", [False, True])
def test_as_torch(optimizer, schedule, own_loss):
    theirs, ours = twins()
    optim = OPTIMIZERS[optimizer](theirs.parameters())
    scheduler, by_step = SCHEDULES[schedule](optim)
    expected = plain(theirs, optim, *loaders(), 6, scheduler, by_step)
    model = WithLoss(ours) if own_loss else ours
    optim = OPTIMIZERS[optimizer](ours.parameters())
    scheduler, by_step = SCHEDULES[schedule](optim)
    train, validation = loaders()
    history = samba.fit(
        model,
        train,
        optim,
        None if own_loss else F.cross_entropy,
        epochs=6,
        validation=validation,
        metrics=["accuracy"],
        scheduler=scheduler,
        schedule_by="step" if by_step else "epoch",
        progress=False,
    )
    rows = [(r["loss"], r["validation"]["loss"], r["validation"]["accuracy"], r["lr"]) for r in history.rows]
    numpy.testing.assert_allclose([r[:2] for r in rows], [r[:2] for r in expected], rtol=2e-3, atol=1e-4)
    numpy.testing.assert_allclose([r[2] for r in rows], [r[2] for r in expected], atol=1 / 29 + 1e-6)
    if not by_step:  # here a row's lr is that of its last step, there what the scheduler has made of it
        numpy.testing.assert_allclose([r[3] for r in rows], [r[3] for r in expected], rtol=1e-12)
    assert history.best_epoch == 1 + int(numpy.argmin([r[1] for r in expected]))
    assert history.best == min(r[1] for r in rows) and history.steps == 30 and not history.stopped
    for name, its in theirs.state_dict().items():
        mine = samba.to_torch(ours.state_dict()[name]).detach()
        numpy.testing.assert_allclose(mine, its, rtol=0, atol=5e-3, err_msg=name)
    assert model.training and all(not name.startswith("model.") for name in samba.session.get_weight_names())


def test_early_stopping(tmp_path):
    """The rule once more over the figures; the best weights come back, also from a file."""
    values = []

    def note(event):
        if event.kind == "validated":
            values.append(event.values["loss"])

    for folder in (None, tmp_path / "run"):
        values.clear()
        torch.manual_seed(SEED)
        model, (train, validation) = Net(), loaders(train=40)
        history = samba.fit(
            model,
            train,
            torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
            F.cross_entropy,
            epochs=100,
            validation=validation,
            patience=3,
            min_delta=0.01,
            restore_best=True,
            folder=folder,
            callbacks=[note],
            progress=False,
        )
        best, bad = math.inf, 0
        for i, value in enumerate(values):
            assert bad < 3, i
            best, bad = (value, 0) if value < best - 0.01 else (best, bad + 1)
        assert bad == 3 and history.stopped and history.epochs == len(values) < 100
        assert history.best == min(values) and history.best_epoch == 1 + values.index(min(values))
        model.eval()
        x, label = validation.dataset.tensors
        loss = F.cross_entropy(samba.to_torch(model(x)), label).item()
        assert loss == pytest.approx(history.best, rel=1e-4)
    other = Net()
    from safetensors.torch import load_file

    state = load_file(tmp_path / "run" / "best.safetensors")
    other.load_state_dict({name: state[name] for name in other.state_dict()})
    assert F.cross_entropy(other.eval()(x), label).item() == pytest.approx(history.best, rel=1e-4)


class Dies(Exception):
    pass


@pytest.mark.parametrize("every", [None, 1])
def test_resumes_to_the_same_bits(tmp_path, every):
    """Killed behind any step, it ends as if it had never stopped."""

    def run(folder, die_at=None, resume=False, seed=SEED):
        samba.session.reset()
        torch.manual_seed(seed)
        model, (train, validation) = Net(), loaders(train=40, size=16)
        optim = torch.optim.AdamW(model.parameters(), lr=0.02)

        def die(event):
            if event.kind == "step" and event.step == die_at:
                raise Dies

        return model, samba.fit(
            model,
            train,
            optim,
            F.cross_entropy,
            epochs=3,
            validation=validation,
            validate_every=2,
            scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau(optim, patience=0, factor=0.5, threshold=0.2),
            folder=folder,
            checkpoint_every=every,
            resume=resume,
            history=tmp_path / "lines.jsonl",
            callbacks=[die],
            progress=False,
        )

    whole, expected = run(tmp_path / "whole")
    for at in (2, 5, 7) if every is None else (4, 9):
        folder = tmp_path / f"cut{at}"
        with pytest.raises(Dies):
            run(folder, at)
        model, history = run(folder, resume=True, seed=SEED if at == 2 else 1)  # at 2 nothing was saved
        for name, its in whole.state_dict().items():
            assert torch.equal(samba.to_torch(model.state_dict()[name]), samba.to_torch(its)), (at, name)
        assert [{**row, "seconds": 0} for row in history.rows] == [{**row, "seconds": 0} for row in expected.rows]
        lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines] == [row["step"] for row in expected.rows]
        assert (history.best, history.best_step) == (expected.best, expected.best_step)
    model, history = run(folder, resume=True)  # it has ended
    assert history.steps == expected.steps
    with pytest.raises(errors.StateError, match="has checkpoints of another training"):
        run(folder)


def test_accumulates():
    """A step of two batches; the last one of an epoch has one, and counts as that."""
    theirs, ours = twins()
    theirs.norm = ours.norm = torch.nn.Identity()  # statistics would be a batch's
    optim = torch.optim.SGD(theirs.parameters(), lr=0.1)
    train, _ = loaders(train=45, size=10)
    for _ in range(2):
        batches = list(train)
        for i in range(0, len(batches), 2):
            x, label = (torch.cat(parts) for parts in zip(*batches[i : i + 2]))
            optim.zero_grad()
            F.cross_entropy(theirs(x), label).backward()
            optim.step()
    train, _ = loaders(train=45, size=10)
    optim = torch.optim.SGD(ours.parameters(), lr=0.1)
    history = samba.fit(ours, train, optim, F.cross_entropy, epochs=2, grad_accumulation_steps=2, progress=False)
    assert history.steps == 6
    for name, its in theirs.state_dict().items():
        numpy.testing.assert_allclose(samba.to_torch(ours.state_dict()[name]).detach(), its, atol=1e-4, err_msg=name)


def test_kinds_of_batches():
    """Dicts, lists, a generator with sizes that are told, two groups of an optimizer, a session of its own."""
    x, label = samples(20, 5).tensors
    dicts = [{"label": label[i : i + 8], "x": x[i : i + 8]} for i in range(0, 20, 8)]
    ends = []
    for batches, loss, target in (
        (dicts, None, None),
        ([{"x": each["x"], "y": each["label"]} for each in dicts], F.cross_entropy, "y"),
        ([[each["x"], each["label"]] for each in dicts], F.cross_entropy, None),
    ):
        torch.manual_seed(SEED)
        net = Net()
        model = net if loss else WithLoss(net)
        groups = [{"params": net.out.parameters(), "lr": 0.05}, {"params": net.hidden.parameters()}]
        session = samba.SambaSession()
        optim = torch.optim.SGD(groups, lr=0.1)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optim, 0.5)
        samba.fit(model, batches, optim, loss, epochs=2, target=target, scheduler=scheduler, session=session, progress=False)
        assert not samba.session.is_loaded and session.is_loaded
        ends.append(samba.to_torch(net.out.weight).detach().clone())
    assert torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2])

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(zip(x, label))

    torch.manual_seed(SEED)
    net = Net()
    loader = torch.utils.data.DataLoader(Endless(), 8)
    groups = [{"params": net.out.parameters(), "lr": 0.05}, {"params": net.hidden.parameters()}]
    optim = torch.optim.SGD(groups, lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optim, 0.5)
    history = samba.fit(net, loader, optim, F.cross_entropy, epochs=2, scheduler=scheduler, batch_sizes=(8, 4), progress=False)
    assert history.steps == 6 and history.epochs == 2 and len(history.rows) == 2
    assert torch.equal(samba.to_torch(net.out.weight).detach(), ends[0])


def test_outputs_of_other_kinds():
    """A model that returns what Hugging Face's do, and takes keywords; a metric of the second output behind the loss."""
    from transformers.modeling_outputs import SequenceClassifierOutput

    class Hub(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, labels=None, inputs=None):
            logits = self.net(inputs)
            return SequenceClassifierOutput(loss=F.cross_entropy(logits, labels), logits=logits, hidden_states=(inputs * 2,))

    x, label = samples(24, 5).tensors
    batches = [{"inputs": x[i : i + 8], "labels": label[i : i + 8]} for i in range(0, 24, 8)]
    theirs, model = Net(), Hub()
    model.net.load_state_dict(theirs.state_dict())
    optim = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for batch in batches:
        optim.zero_grad()
        F.cross_entropy(theirs(batch["inputs"]), batch["labels"]).backward()
        optim.step()
    metrics = [Metric("accuracy", target="labels"), Metric("mae", output=1, target="inputs")]
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    history = samba.fit(model, batches, optim, validation=batches, metrics=metrics, progress=False)
    for name, its in theirs.state_dict().items():
        numpy.testing.assert_allclose(samba.to_torch(model.net.state_dict()[name]).detach(), its, atol=1e-5, err_msg=name)
    assert history.rows[0]["validation"]["mae"] == pytest.approx(x.abs().mean().item(), rel=1e-5)


def test_frozen_parts():
    """Parts that stand in eval() stay so; parameters that no optimizer has stay as they are."""
    model, (train, validation) = Net(), loaders(train=32)
    model.norm.eval()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    samba.fit(
        model, train, torch.optim.SGD(model.out.parameters(), lr=0.1), F.cross_entropy, validation=validation, progress=False
    )
    after = {name: samba.to_torch(x) for name, x in model.state_dict().items()}
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"out.weight", "out.bias"}
    assert model.training and not model.norm.training


def test_progress(capsys):
    model, (train, validation) = Net(), loaders()
    samba.fit(model, train, torch.optim.Adam(model.parameters()), F.cross_entropy, epochs=2, validation=validation)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[1].startswith("epoch 2/2  step 10  loss ") and "  validation loss " in lines[1]


REFUSED = {
    "epochs=None": "neither epochs nor steps",
    "epochs=0": "epochs is 0: expected 1 or more",
    "metrics=['accuracy']": "metrics and validate_every are of a validation",
    "resume=True": "want a folder",
    "min_delta=0.1": "with patience",
    "schedule_by='day'": "expected 'epoch' or 'step'",
    "validation=train, monitor='f1'": "monitor is 'f1', and the figures are loss",
    "validation=train, metrics=['f2']": "expected one of mean, accuracy",
    "validation=train, metrics=['f1', 'f1']": "two figures have one name",
    "validation=train, metrics=[Metric('f1', output=1)]": "looks at output 1, and the model has 1 behind the loss",
    "validation=train, metrics=[Metric('f1', target='y')]": "compares with 'y', and batches have x, target",
    "names=['x']": "batches have 2 tensors and names are 1",
    "epoch=3": "did you mean 'epochs'",
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    model, (train, _) = Net(), loaders()
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    given = eval(f"dict({words})", {"train": train, "Metric": Metric})
    with pytest.raises((errors.SambaError, TypeError), match=REFUSED[words].replace("(", r"\(")):
        samba.fit(model, train, optim, F.cross_entropy, progress=False, **given)


def test_refused_models():
    model, (train, _) = Net(), loaders()
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(errors.StateError, match="stands in eval"):
        samba.fit(model.eval(), train, optim, F.cross_entropy)
    model.train()
    with pytest.raises(errors.ArgumentError, match="the loader has no batches"):
        samba.fit(model, [], optim, F.cross_entropy)
    with pytest.raises(errors.ArgumentError, match="a batch has one tensor, and `loss` wants two"):
        samba.fit(model, [torch.zeros(4, 3)], optim, F.mse_loss)
    with pytest.raises(errors.ArgumentError, match="an optimizer over"):
        samba.fit(model, train, [], F.cross_entropy)
    with pytest.raises(errors.StateError, match=r"the loss of step \d+ is no number"):
        samba.fit(model, train, optim, lambda out, _: (out.sum() * 0).log() * 0, progress=False)
    model = Net()
    model.register_forward_hook(lambda *_: None)
    with pytest.raises(errors.UnsupportedError, match="has forward hooks of its own"):
        samba.fit(model, train, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy)


# ---- metrics: the formulas of scikit-learn, written once more ----


def confusion(predicted, target, classes):
    table = numpy.zeros((classes, classes), dtype=int)
    numpy.add.at(table, (target, predicted), 1)
    return table


def by_classes(table, average):
    """(precision, recall, f1) with zero_division=0, as scikit-learn's documentation defines them."""

    def ratio(a, b):
        return numpy.divide(a, b, out=numpy.zeros(len(a)), where=b != 0)

    right, guessed, there = numpy.diag(table).astype(float), table.sum(0).astype(float), table.sum(1).astype(float)
    if average == "micro":
        right, guessed, there = (numpy.array([x.sum()]) for x in (right, guessed, there))
    elif average == "binary":
        right, guessed, there = right[1:], guessed[1:], there[1:]
    else:
        present = guessed + there > 0
        right, guessed, there = right[present], guessed[present], there[present]
    return [x.mean() for x in (ratio(right, guessed), ratio(right, there), ratio(2 * right, guessed + there))]


@pytest.mark.parametrize("seed", range(12))
def test_metrics(seed):
    """Random scores of several dtypes, in uneven batches, through views."""
    draw = random.Random(SEED + seed)
    torch.manual_seed(draw.randrange(1 << 30))
    rows, classes = draw.choice([1, 2, 7, 40]), draw.choice([2, 3, 9])
    dtype = draw.choice([torch.float32, torch.float64, torch.bfloat16])
    scores = torch.randn(classes, rows).to(dtype).T  # a view that is not contiguous
    target = torch.randint(0, classes, (rows,), dtype=draw.choice([torch.int64, torch.int32, torch.uint8]))
    table = confusion(scores.argmax(1).numpy(), target.numpy(), classes)
    k = draw.randint(1, classes)
    wide = scores.double()
    expected = {
        "accuracy": numpy.trace(table) / rows,
        "top_k": (wide.topk(k).indices == target[:, None]).any(1).double().mean().item(),
        "perplexity": math.exp(F.cross_entropy(wide, target.long()).item()),
        "rmse": F.mse_loss(wide, wide.flip(0)).sqrt().item(),
        "mae": F.l1_loss(wide, wide.flip(0)).item(),
    }
    cuts = sorted({0, rows, *(draw.randint(0, rows) for _ in range(3))})
    for average in ("macro", "micro", "binary"):
        if average != "binary" or classes == 2:
            expected.update({(name, average): x for name, x in zip(("precision", "recall", "f1"), by_classes(table, average))})
    for key, value in expected.items():
        name, average = key if isinstance(key, tuple) else (key, "macro")
        metric = Metric(name, average=average, k=k if name == "top_k" else None)
        for begin, end in itertools.pairwise(cuts):
            other = scores.flip(0) if name in ("rmse", "mae") else target
            metric.update(scores[begin:end], other[begin:end])
        assert metric.value == pytest.approx(value, rel=1e-9, abs=1e-12), (key, seed)
        metric.reset()
        assert math.isnan(metric.value)


def test_metrics_leave_out():
    """Targets of -100, scores of sequences, one score of two classes."""
    scores, target = torch.randn(3, 5, 7), torch.randint(0, 7, (3, 5))
    target[0, 2:] = -100
    metric, accuracy = Metric("perplexity"), Metric("accuracy")
    metric.update(scores, target)
    accuracy.update(scores, target, 2)
    expected = F.cross_entropy(scores.flatten(0, 1).double(), target.flatten(), ignore_index=-100)
    assert metric.value == pytest.approx(math.exp(expected), rel=1e-9)
    kept = target[:2] != -100
    assert accuracy.value == pytest.approx((scores[:2].argmax(-1) == target[:2])[kept].double().mean().item())
    one, two = torch.randn(9, 1), torch.randint(0, 2, (9,))
    metric, recall = Metric("perplexity"), Metric("recall", average="binary", threshold=0.3)
    metric.update(one, two)
    recall.update(one, two)
    expected = F.binary_cross_entropy_with_logits(one[:, 0].double(), two.double())
    assert metric.value == pytest.approx(math.exp(expected), rel=1e-9)
    there = int((two == 1).sum())
    assert recall.value == pytest.approx(int(((one[:, 0] > 0.3) & (two == 1)).sum()) / there if there else 0)
    with pytest.raises(errors.ArgumentIndexError, match="target 7 is not among the 7 classes"):
        Metric("accuracy").update(scores, torch.full((3, 5), 7))
