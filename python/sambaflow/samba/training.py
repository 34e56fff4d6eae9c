# SPDX-License-Identifier: Apache-2.0
"""A training loop in one call: traces and compiles the model, trains it by a loader, tests it, stops early, keeps the best
weights, saves and resumes. docs/training.md has it beside the C library's samba_train, which makes the same loop.

>>> import torch
>>> data = torch.utils.data.TensorDataset(torch.randn(50, 4), torch.randint(0, 3, (50,)))
>>> loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
>>> model = torch.nn.Linear(4, 3)
>>> optim = torch.optim.SGD(model.parameters(), lr=0.1)
>>> def quiet(event):
...     event.stop = event.kind == "epoch" and event.epoch == 2
>>> history = fit(model, loader, optim, torch.nn.functional.cross_entropy, epochs=5, validation=loader, metrics=["accuracy"],
...               callbacks=[quiet], progress=False)
>>> isinstance(history, History), [row["epoch"] for row in history.rows], history.stopped, sorted(history.rows[0]["validation"])
(True, [1, 2], True, ['accuracy', 'loss'])
>>> event = Event("epoch", 1, 7, 0.5, 0.1, {}, False, model)
>>> event.stop
False
"""

import copy
import inspect
import itertools
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.optim.lr_scheduler import LRScheduler

from sambaflow import errors, launch
from sambaflow._core import ffi, lib
from sambaflow.samba import _state, convert, host_steps
from sambaflow.samba.arguments import module
from sambaflow.samba.arguments import optimizers as optimizer_list
from sambaflow.samba.keywords import exact
from sambaflow.samba.metrics import Metric
from sambaflow.samba.optimizers import running
from sambaflow.samba.progress import Progress
from sambaflow.samba.resume import random_states, set_random_states
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.samba.sambatensor import from_torch_tensor

if TYPE_CHECKING:
    from sambaflow.samba.samba_session import SambaSession

_Path = str | os.PathLike[str]

BEST: str = "best.safetensors"


class Event:
    """What a callback is given: `kind` is "step", "validated" or "epoch"; `epoch` and `step` count from 1, `loss` is the step's,
    or the mean of the epoch so far; `values` are a validation's figures by name, `improved` says whether it is the best.
    `stop = True` ends the training as early stopping does."""

    kind: str
    epoch: int
    step: int
    loss: float
    lr: float
    values: dict[str, float]
    improved: bool
    model: torch.nn.Module
    stop: bool

    def __init__(
        self,
        kind: str,
        epoch: int,
        step: int,
        loss: float,
        lr: float,
        values: dict[str, float],
        improved: bool,
        model: torch.nn.Module,
    ) -> None:
        self.kind, self.epoch, self.step, self.loss, self.lr = kind, epoch, step, loss, lr
        self.values, self.improved, self.model, self.stop = values, improved, model, False


class History:
    """What fit returns. `rows` has a dict for each validation, or each epoch without: epoch, step, loss (the mean of the epoch so
    far), lr, validation (figures by name, or None), best (whether it was), seconds. `best` is the best value of what was
    monitored, at `best_step` in `best_epoch`; `stopped` whether early stopping or a callback ended the training."""

    rows: list[dict[str, Any]]
    best: float
    best_step: int
    best_epoch: int
    steps: int
    epochs: int
    stopped: bool

    def __init__(self) -> None:
        self.rows, self.best, self.best_step, self.best_epoch = [], math.nan, 0, 0
        self.steps, self.epochs, self.stopped = 0, 0, False

    def __repr__(self):
        return f"History({len(self.rows)} rows, {self.steps} steps, best {self.best:.6g} at step {self.best_step})"

    def column(self, name: str) -> list[Any]:
        """A figure of all rows: "loss", "lr", or one of the validation's, "validation.accuracy"."""
        part, _, inner = name.partition(".")
        return [row[part][inner] if inner else row[part] for row in self.rows]


# ---- the model ----


def _with_loss(model, loss, names, keywords):
    """The model as what is traced: its inputs in order, the last one the target where there is a loss. It shares parameters,
    buffers and parts with the model, under the same names."""
    own = model.__dict__.get("forward")
    before = [hook for hook in model._forward_pre_hooks.values() if not isinstance(hook, host_steps.StaleForward)]
    if model._forward_hooks or before:
        raise errors.UnsupportedError(
            f"fit: the {type(model).__name__} has forward hooks of its own, which would see the loss too: put them on a part"
        )

    def forward(self, *inputs):
        given = inputs if loss is None else inputs[:-1]
        run = own or super(made, self).forward
        result = run(**dict(zip(names, given))) if keywords else run(*given)
        return result if loss is None else (loss(result, inputs[-1]), result)

    made = type(type(model).__name__, (type(model),), {"forward": forward, "__module__": type(model).__module__})
    twin = copy.copy(model)
    twin.__dict__.pop("forward", None)
    twin.__class__ = made
    return twin


def _convert(model, optimizers):
    """Makes parameters SambaTensors, in the optimizers too, which a program of PyTorch has made before."""
    before = dict(model.named_parameters(remove_duplicate=False))
    convert.from_torch_model_(model)
    fresh = {id(old): new for (_, old), (_, new) in zip(before.items(), model.named_parameters(remove_duplicate=False))}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["params"] = [fresh.get(id(p), p) for p in group["params"]]
        for old in [p for p in optimizer.state if id(p) in fresh and fresh[id(p)] is not p]:
            optimizer.state[fresh[id(old)]] = optimizer.state.pop(old)


# ---- loaders ----


def _first(loader, what):
    """A batch to see dtypes and shapes by. What drawing it takes from random generators is given back."""
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise errors.ArgumentTypeError(
            f"fit: {what} is {loader!r:.100}: expected a DataLoader, a list or another iterable of batches"
        )
    generators = SambaLoader(loader, ["x"])._generators()
    states, its = random_states(), [g.get_state() for g in generators]
    batches = iter(loader)
    if batches is loader:
        raise errors.ArgumentError(f"fit: {what} is an iterator, which ends with the first epoch: give what begins anew, a list")
    item = next(batches, None)
    set_random_states(states)
    for generator, state in zip(generators, its):
        generator.set_state(state)
    if item is None:
        raise errors.ArgumentError(f"fit: {what} has no batches")
    return item


def _names_of(model, item, loss, names, target):
    """Names of a batch's tensors, in the order of the model's inputs, the target last."""
    if isinstance(item, Mapping):
        found = list(names or item)
        if loss is not None:
            if target not in found:
                raise errors.ArgumentError(f"fit: batches are dicts of {', '.join(map(str, found))}: `target` names the loss's")
            found = [name for name in found if name != target] + [target]
        return found
    count = 1 if isinstance(item, torch.Tensor) else len(item)
    if names is None:
        taken = inspect.signature(model.forward).parameters.values()
        plain = [x for x in taken if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
        if loss is not None and count == 1 and plain and plain[0].default is inspect.Parameter.empty:
            raise errors.ArgumentError(
                "fit: a batch has one tensor, and `loss` wants two, what the model is given and the target: where both are one, "
                "as of an autoencoder, TensorDataset(x, x), or a model that returns its loss"
            )
        names = [x.name for x in plain][: count - (loss is not None)]
        names += [f"input_{i}" for i in range(len(names), count - (loss is not None))]
        names += ["target" if "target" not in names else "target_of_loss"] if loss is not None else []
    if len(names) != count:
        raise errors.ArgumentError(f"fit: batches have {count} tensors and names are {len(names)}: {', '.join(names)}")
    return list(names)


def _tensors(item, names):
    if isinstance(item, Mapping):
        item = [item[name] for name in names]
    return [torch.as_tensor(x) for x in ([item] if isinstance(item, torch.Tensor) else item)]


def _sizes(loader, first, batch_sizes):
    """How many samples batches have, the usual number first."""
    if batch_sizes is not None:
        return list(batch_sizes)
    if isinstance(loader, (list, tuple)):
        return [len(_first_tensor(item)) for item in loader]
    found, data, size = [first], getattr(loader, "dataset", None), getattr(loader, "batch_size", None)
    if size is not None and isinstance(data, Sized) and not getattr(loader, "drop_last", False):
        count = len(loader.sampler) if isinstance(getattr(loader, "sampler", None), Sized) else len(data)
        if count % size:
            found.append(count % size)
    return found


def _first_tensor(item):
    if isinstance(item, Mapping):
        item = list(item.values())
    return item if isinstance(item, torch.Tensor) else torch.as_tensor(item[0])


def _examples(tensors, names, count):
    """Examples of so many samples: dtypes and shapes alone count."""
    return tuple(
        from_torch_tensor(torch.zeros((count, *x.shape[1:]) if x.dim() else (), dtype=x.dtype), name=name)
        for x, name in zip(tensors, names)
    )


# ---- the loop ----


class _Loop:
    """A call of fit: what it was asked for, and where it stands."""

    def __init__(self, model, loader, optimizers, loss, session):
        self.model, self.optimizers, self.loss = model, optimizers, loss
        self.session = _state.session if session is None else session
        self.loader, self.history = loader, History()
        self.epoch = self.step = self.epoch_step = self.epoch_samples = 0
        self.epoch_sum, self.sent, self.kept = 0.0, {}, None
        self.began = time.monotonic()

    # -- before --

    def trace(self, loader, validation, names, target, batch_sizes, options):
        """Compiles the model for the sizes of both loaders' batches and loads it."""
        item = _first(loader, "the loader")
        self.names = _names_of(self.model, item, self.loss, names, target)
        tensors = _tensors(item, self.names)
        usual = len(tensors[0])
        sizes = _sizes(loader, usual, batch_sizes)
        if validation is not None:
            its = _first(validation, "validation")
            sizes += _sizes(validation, len(_tensors(its, self.names)[0]), batch_sizes)
        sizes = list(dict.fromkeys([usual, *sizes]))
        _convert(self.model, self.optimizers)
        self.twin = _with_loss(self.model, self.loss, self.names, isinstance(item, Mapping))
        examples = [_examples(tensors, self.names, count) for count in sizes]
        self.accumulation = options.get("grad_accumulation_steps") or 1
        with tempfile.TemporaryDirectory(prefix="sambaflow-fit-") as folder:
            pef = self.session.compile(
                self.twin,
                examples[0],
                self.optimizers,
                type(self.model).__name__,
                loss_indices=[0],
                output_folder=folder,
                **({"sizes": examples[1:]} if len(examples) > 1 else {}),
                **options,
            )
            self.outputs = self.session.trace_graph(self.twin, examples[0], self.optimizers, loss_indices=[0], pef=pef)
        self.batches = SambaLoader(loader, self.names, session=self.session)
        self.tests = None if validation is None else SambaLoader(validation, self.names, session=self.session)

    def choose(self, metrics, monitor, patience, min_delta):
        """Checks metrics and what is watched."""
        self.metrics = []
        for each in metrics:
            made = each if isinstance(each, Metric) else Metric(each)
            if not 0 <= made.output < len(self.outputs) - 1:
                raise errors.ArgumentError(
                    f"fit: metric {made.name!r} looks at output {made.output}, and the model has {len(self.outputs) - 1} behind "
                    "the loss"
                )
            self.metrics.append((made, self._place(made)))
        known = ["loss", *(made.name for made, _ in self.metrics)]
        if len(set(known)) < len(known):
            raise errors.ArgumentError(f"fit: two figures have one name: {', '.join(known)}: give a Metric with `name`")
        if monitor not in known:
            raise errors.UnknownNameError(f"fit: monitor is {monitor!r}, and the figures are {', '.join(known)}")
        self.monitor = monitor
        self.greater = any(made.greater_is_better for made, _ in self.metrics if made.name == monitor)
        self.stop = ffi.new("samba_early_stop *", {"patience": patience or 0, "min_delta": min_delta, "greater": self.greater})
        self.stop.best = math.nan

    def _place(self, metric):
        if isinstance(metric.target, str):
            if metric.target not in self.names:
                raise errors.UnknownNameError(
                    f"fit: metric {metric.name!r} compares with {metric.target!r}, and batches have {', '.join(self.names)}"
                )
            return self.names.index(metric.target)
        return metric.target

    # -- a step --

    def rates(self):
        """Hyperparameters that have changed since they were sent."""
        now = running(self.session, self.optimizers)
        changed = {name: value for name, value in now.items() if self.sent.get(name) != value}
        self.sent = now
        return changed or None

    @property
    def lr(self):
        return self.optimizers[0].param_groups[0]["lr"]

    def take(self, window):
        """One step over its batches; the loss, the mean over their samples."""
        rates, wanted = self.rates(), self.outputs[:1]
        if self.accumulation == 1:
            results = [self.session.run(window[0], wanted, rates)]
        else:
            results = self.session.run_window(window, wanted, rates)
        counts = [len(batch[0]) for batch in window]
        loss = sum(float(loss) * n for (loss, *_), n in zip(results, counts)) / sum(counts)
        if math.isnan(loss):
            raise errors.StateError(
                f"fit: the loss of step {self.step + 1} is no number (NaN), which no further step can mend: a smaller lr, "
                "max_grad_norm or a warm-up may keep it from that"
            )
        self.step += 1
        self.epoch_step += 1
        self.epoch_sum += loss * sum(counts)
        self.epoch_samples += sum(counts)
        return loss

    @property
    def mean(self):
        return self.epoch_sum / self.epoch_samples if self.epoch_samples else math.nan

    # -- a test --

    def test(self):
        """Figures of the validation by name."""
        total, samples = 0.0, 0
        for metric, _ in self.metrics:
            metric.reset()
        for batch in self.tests:
            loss, *outputs = self.session.run(batch, self.outputs, section_types=["FWD"], train=False)
            count = len(batch[0])
            total, samples = total + float(loss) * count, samples + count
            for metric, place in self.metrics:
                metric.update(outputs[metric.output], batch[place], count)
        if not samples:
            raise errors.ArgumentError("fit: validation has no batches")
        return {"loss": total / samples, **{metric.name: metric.value for metric, _ in self.metrics}}

    def watch(self, value, due):
        """Whether a value of what is monitored is the best; keeps the best weights. The test behind the last step, where none was
        due, does not count for early stopping: a training that goes on from there would not have had it."""
        improved = bool(lib.samba_is_better(value, self.history.best, self.greater))
        if improved:
            self.history.best, self.history.best_step, self.history.best_epoch = value, self.step, self.epoch + 1
            if self.folder is not None:
                self.session.save(os.path.join(self.folder, BEST))
            elif self.restore_best:
                names = [name for kind in ("parameter", "buffer") for name in self.session.loaded().names(kind)]
                self.kept = {name: self.session.device_get(name) for name in names}
        if due:
            self.history.stopped |= bool(lib.samba_early_stop_step(self.stop, value))
        return improved

    def restore(self):
        """The best weights, back to the device."""
        if self.folder is not None and not math.isnan(self.history.best):
            self.session.load(os.path.join(self.folder, BEST))
        for name, values in (self.kept or {}).items():
            self.session.device_set(name, values)

    # -- telling --

    def tell(self, kind, loss, values=None, improved=False):
        event = Event(kind, self.epoch + 1, self.step, loss, self.lr, values or {}, improved, self.model)
        for callback in self.callbacks:
            callback(event)
        self.history.stopped |= bool(event.stop)

    def row(self, values, improved):
        """A row of the history, and the line that shows it."""
        row = {"epoch": self.epoch + 1, "step": self.step, "loss": self.mean, "lr": self.lr, "validation": values}
        row.update(best=improved, seconds=time.monotonic() - self.began)
        self.history.rows.append(row)
        if self.lines is not None:
            with open(self.lines, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if self.shows:
            figures = "".join(f"  validation {name} {value:.4f}" for name, value in (values or {}).items())
            of = "" if self.epochs is None else f"/{self.epochs}"
            ending = f"{figures}  lr {self.lr:.3g}{'  best' if improved else ''}"
            print(f"epoch {self.epoch + 1}{of}  step {self.step}  loss {row['loss']:.4f}{ending}", flush=True)

    # -- checkpoints --

    def state(self):
        h = self.history
        return {
            "fit": 1,
            "epoch": self.epoch,
            "epoch_step": self.epoch_step,
            "epoch_sum": self.epoch_sum,
            "epoch_samples": self.epoch_samples,
            "best": None if math.isnan(h.best) else h.best,
            "best_at": [h.best_step, h.best_epoch],
            "stop": [None if math.isnan(self.stop.best) else self.stop.best, self.stop.bad],
            "stopped": h.stopped,
            "rows": h.rows,
            "schedulers": [json.dumps(_plain(s.state_dict())) for s in self.schedulers],
            "groups": json.dumps([[_plain(group) for group in optimizer.param_groups] for optimizer in self.optimizers]),
        }

    def save(self):
        if self.folder is not None:
            self.session.save_checkpoint(self.folder, self.step, [self.batches], self.state(), self.keep)

    def resume(self):
        """Goes on from the newest checkpoint of the folder."""
        found = self.session.load_checkpoint(self.folder, [self.batches])
        if found is None:
            return
        state, h = found.state, self.history
        if not isinstance(state, dict) or state.get("fit") != 1 or len(state["schedulers"]) != len(self.schedulers):
            raise errors.StateError(
                f"fit: {found.path} was not saved by fit with as many schedulers: give the same, or another folder"
            )
        self.step, self.epoch, self.epoch_step = found.step, state["epoch"], state["epoch_step"]
        self.epoch_sum, self.epoch_samples = state["epoch_sum"], state["epoch_samples"]
        h.best = math.nan if state["best"] is None else state["best"]
        (h.best_step, h.best_epoch), h.stopped, h.rows = state["best_at"], state["stopped"], state["rows"]
        best, self.stop.bad = state["stop"]
        self.stop.best = math.nan if best is None else best
        for scheduler, text in zip(self.schedulers, state["schedulers"]):
            scheduler.load_state_dict({**scheduler.state_dict(), **json.loads(text)})
        for optimizer, groups in zip(self.optimizers, json.loads(state["groups"])):
            for group, its in zip(optimizer.param_groups, groups):
                group.update({key: tuple(x) if isinstance(x, list) else x for key, x in its.items()})
        if self.lines is not None:
            with open(self.lines, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in h.rows)

    def check_folder(self, resume):
        """Nobody's checkpoints are mixed with another training's."""
        os.makedirs(self.folder, exist_ok=True)
        there = [name for name in os.listdir(self.folder) if name.startswith("checkpoint-") and name[11:].isdigit()]
        if there and not resume:
            raise errors.StateError(
                f"fit: {os.fsdecode(self.folder)!r} has checkpoints of another training, {there[0]} for one: give resume=True to "
                "go on, or another folder"
            )

    # -- the loop itself --

    def look(self, epoch_ends, last, stepped):
        """What is due behind a step, or at the end of an epoch whose length was not known."""
        every = self.validate_every
        due = epoch_ends if every is None else stepped and self.step % every == 0
        tests = self.tests is not None and (due or last)
        improved, values = False, None
        if tests:
            values = self.test()
            improved = self.watch(values[self.monitor], due)
        elif epoch_ends and self.tests is None:
            improved = self.watch(self.mean, True)
        if tests or epoch_ends:
            self.row(values, improved)
        if tests:
            self.tell("validated", self.mean, values, improved)
        if epoch_ends:
            self.tell("epoch", self.mean, values, improved)
        watched = (values[self.monitor] if due else None) if tests else self.mean if epoch_ends and self.tests is None else None
        self.schedule(epoch_ends, watched)
        if epoch_ends:
            self.epoch, self.epoch_step, self.epoch_sum, self.epoch_samples = self.epoch + 1, 0, 0.0, 0
        every = self.checkpoint_every
        if (epoch_ends if every is None else stepped and self.step % every == 0) or last or self.history.stopped:
            self.save()

    def schedule(self, epoch_ends, watched):
        for scheduler in self.schedulers:
            if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                if watched is not None:
                    scheduler.step(watched)
            elif self.by_step or epoch_ends:
                scheduler.step()

    def ended(self):
        """Whether nothing is left to do."""
        return (
            self.history.stopped
            or (self.steps is not None and self.step >= self.steps)
            or (self.epochs is not None and self.epoch >= self.epochs)
        )

    def train(self):
        while not self.ended():
            length = _length(self.batches)
            of = "" if self.epochs is None else f"/{self.epochs}"
            steps = None if length is None else -(-length // self.accumulation)
            with Progress(f"epoch {self.epoch + 1}{of}", steps) if self.shows else _Nothing() as shown:
                self.train_epoch(steps, shown)

    def train_epoch(self, steps, shown):
        """The rest of an epoch, of so many steps where that is known. Its loader has ended before the epoch's checkpoint is
        saved, so that the next epoch begins with a shuffle of its own."""
        number, batches = self.epoch, iter(self.batches)
        final = self.epochs is not None and number + 1 >= self.epochs
        while not self.ended() and self.epoch == number:
            window = list(itertools.islice(batches, self.accumulation))
            if not window:
                if self.epoch_step == 0:
                    raise errors.ArgumentError("fit: the loader has no batches")
                self.look(True, final, False)
                break
            loss = self.take(window)
            shown.step()
            self.tell("step", loss)
            ends = self.epoch_step == steps
            if ends and (more := next(batches, None)) is not None:  # more than it said
                batches, steps, ends = itertools.chain([more], batches), None, False
            self.look(ends, (ends and final) or self.step == self.steps, True)
        if hasattr(batches, "close"):
            batches.close()


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def step(self):
        pass


def _length(loader):
    try:
        return len(loader)
    except TypeError:  # nobody knows
        return None


def _plain(values):
    """Of a state or a group what JSON has."""
    return {key: x for key, x in values.items() if _is_plain(x)}


def _is_plain(x):
    if isinstance(x, (list, tuple)):
        return all(map(_is_plain, x))
    return x is None or isinstance(x, (bool, int, float, str)) and not isinstance(x, torch.Tensor)


def _check(epochs, steps, validation, metrics, options, **counts):
    if epochs is None and steps is None:
        raise errors.ArgumentError("fit: neither epochs nor steps is given: the training would have no end")
    for name, value in {"epochs": epochs, "steps": steps, **counts}.items():
        if value is not None and (type(value) is not int or value < 1):
            raise errors.ArgumentError(f"fit: {name} is {value!r}: expected 1 or more")
    if validation is None and (metrics or counts["validate_every"] is not None):
        raise errors.ArgumentError("fit: metrics and validate_every are of a validation, and there is none")
    if options["folder"] is None and (options["resume"] or counts["checkpoint_every"] is not None):
        raise errors.ArgumentError("fit: resume and checkpoint_every want a folder")
    if options["min_delta"] < 0 or (options["min_delta"] and counts["patience"] is None):
        raise errors.ArgumentError(f"fit: min_delta is {options['min_delta']!r}: expected 0 or more, with patience")


@exact
def fit(
    model: torch.nn.Module,
    loader: Iterable[Any],
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    loss: Callable[..., torch.Tensor] | None = None,
    *,
    epochs: int | None = 1,
    steps: int | None = None,
    validation: Iterable[Any] | None = None,
    metrics: Sequence[str | Metric] = (),
    validate_every: int | None = None,
    monitor: str = "loss",
    patience: int | None = None,
    min_delta: float = 0.0,
    scheduler: LRScheduler | Sequence[LRScheduler] | None = None,
    schedule_by: Literal["epoch", "step"] = "epoch",
    folder: _Path | None = None,
    checkpoint_every: int | None = None,
    keep: int = 2,
    resume: bool = False,
    restore_best: bool = False,
    history: _Path | None = None,
    callbacks: Iterable[Callable[[Event], object]] = (),
    progress: bool = True,
    names: Sequence[str] | None = None,
    target: str | None = None,
    batch_sizes: Sequence[int] | None = None,
    precision: str | None = None,
    grad_accumulation_steps: int | None = None,
    memory_budget: int | None = None,
    session: "SambaSession | None" = None,
) -> History:
    """Trains a model by a loader of batches, and returns its History. Afterwards the model has the weights, and the session the
    traced model, to run or save.

    `model` is a torch module that returns a loss, or a loss and other outputs; or any, with `loss`, a function of its result and
    the last tensor of a batch (torch.nn.functional.cross_entropy), of a dict the one that `target` names. `loader` and
    `validation` are torch DataLoaders, or any iterables of batches: tensors, tuples or dicts of them. `names` are those of the
    model's inputs, as a session has them; without it those of forward's arguments, or the dict's keys. Batches may be of several
    sizes: the last one of an epoch counts as many samples as it has. Which sizes there are is seen from a DataLoader or a
    list; of other iterables `batch_sizes` tells. `optimizer` is one of torch or samba.optim over the model's parameters, or
    several.

    Each epoch, or every `validate_every` steps, and behind the last step, the model is tested in eval mode: loss and `metrics`
    (names, or samba.metrics.Metric). `monitor` says by which figure the best is chosen. The training stops behind `patience`
    validations without one that is better by `min_delta`. Without a validation the mean loss of an epoch is watched.

    `scheduler` is one of torch.optim.lr_scheduler, or several, stepped each "epoch" or "step" (`schedule_by`); ReduceLROnPlateau
    is stepped with what is monitored. `folder` gets checkpoint-<step> folders, each epoch or every `checkpoint_every` steps, the
    `keep` newest, and best.safetensors; with `resume` a training goes on from there to the same bits. `restore_best`: the model
    ends with its best weights. `history` is a file of JSON lines. `callbacks` are called with an Event. `progress` False: nothing
    is shown. `precision`, `grad_accumulation_steps` and `memory_budget` are compile's; a step that has fewer batches is the mean
    over what it has.

    StateError: a model that stands in eval(), a loss that is no number, a folder with other checkpoints; ArgumentError: arguments
    without effect, or that do not go together."""
    options = {"folder": folder, "resume": resume, "min_delta": min_delta}
    counts = {"validate_every": validate_every, "patience": patience, "checkpoint_every": checkpoint_every}
    _check(epochs, steps, validation, metrics, options, **counts)
    if schedule_by not in ("epoch", "step"):
        raise errors.ArgumentError(f"fit: schedule_by is {schedule_by!r}: expected 'epoch' or 'step'")
    model = module("fit", model)
    if not model.training:
        raise errors.StateError("fit: the model stands in eval(): model.train() first; parts that are to be frozen may stand so")
    loop = _Loop(model, loader, optimizer_list("fit", optimizer), loss, session)
    if not loop.optimizers:
        raise errors.ArgumentError("fit: an optimizer over the model's parameters is wanted")
    loop.epochs, loop.steps, loop.validate_every, loop.checkpoint_every = epochs, steps, validate_every, checkpoint_every
    loop.folder, loop.keep, loop.restore_best, loop.lines = folder, keep, restore_best, history
    loop.callbacks, loop.shows = list(callbacks), progress and launch.speaks()
    loop.schedulers = [] if scheduler is None else list(scheduler) if isinstance(scheduler, (list, tuple)) else [scheduler]
    loop.by_step = schedule_by == "step"
    if folder is not None:
        loop.check_folder(resume)
    chosen = {"precision": precision, "grad_accumulation_steps": grad_accumulation_steps, "memory_budget": memory_budget}
    loop.trace(loader, validation, names, target, batch_sizes, {k: v for k, v in chosen.items() if v is not None})
    loop.choose(metrics, monitor, patience, min_delta)
    if history is not None and not resume:
        open(history, "w", encoding="utf-8").close()
    if resume:
        loop.resume()
    loop.train()
    if restore_best:
        loop.restore()
    loop.session.to_cpu(loop.twin, loop.optimizers)
    loop.history.steps, loop.history.epochs = loop.step, loop.epoch + (loop.epoch_samples > 0)
    return loop.history
