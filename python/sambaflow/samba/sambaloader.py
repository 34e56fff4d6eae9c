# SPDX-License-Identifier: Apache-2.0
"""Batches of any iterable as named SambaTensors, fetched by a thread while the device runs.

>>> pairs = [(torch.zeros(4, 2), torch.ones(4)), (torch.ones(4, 2), torch.ones(4))]
>>> loader = SambaLoader(pairs, names=["x", "y"])
>>> [(x.sn_name, tuple(x.shape), y.sn_name) for x, y in loader]
[('x', (4, 2), 'y'), ('x', (4, 2), 'y')]
>>> len(loader)
2
>>> len(ReplicaBatches(range(100), 10, rank=1, replicas=4))  # of 25 samples that are its own
2
"""

import collections
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any

import torch

from sambaflow import errors
from sambaflow.runtime import replicas as joined
from sambaflow.samba import _state, resume
from sambaflow.samba.sambatensor import SambaTensor, plain_tensor

if TYPE_CHECKING:
    from sambaflow.samba.samba_session import SambaSession

_END = object()
_PATIENCE = 0.005  # seconds; a program that does not run the device has its batches made all the same


class _Ahead:
    """Items of an iterator, made by a thread up to `room` ahead of the one that takes them.

    Taking one wakes nobody: the thread goes on when the device does (_state.turns), when there is nothing left to take, or after
    a while. Locks are cheap where nobody waits for them, which is what a step's time asks for."""

    def __init__(self, iterator, make, room):
        self.items, self.room, self.stopped = collections.deque(), max(room, 1), False
        self.turn, self.ready, self.waited_for = threading.Lock(), threading.Lock(), False
        self.turn.acquire()
        self.ready.acquire()
        _state.turns.append(self.turn)
        self.thread = threading.Thread(target=self._fetch, args=(iterator, make), name="SambaLoader", daemon=True)
        self.thread.start()

    def _put(self, item):
        self.items.append(item)
        if self.waited_for:
            self.waited_for = False
            _let_go(self.ready)

    def _wait(self):
        """Until there is room and the device is at work;
        a program that has nothing to go on with, or that does not run the device, is served too."""
        while not self.stopped and self.items and (len(self.items) >= self.room or not _state.running):
            if not self.turn.acquire(timeout=_PATIENCE) and len(self.items) < self.room:
                return

    def _fetch(self, iterator, make):
        try:
            for item in iterator:
                self._put((make(item), None))
                self._wait()
                if self.stopped:
                    return
            self._put((_END, None))
        except BaseException as error:  # delivered where the item would have come
            self._put((_END, error))

    def next(self):
        """The next item, or _END; raises what the iterator raised."""
        while not self.items:
            self.waited_for = True
            _let_go(self.turn)
            if not self.items:
                self.ready.acquire(timeout=0.1)
        item, error = self.items.popleft()
        if error is not None:
            raise error
        return item

    def stop(self):
        """Waits for the item being made and ends the thread."""
        self.stopped = True
        _state.turns.remove(self.turn)
        _let_go(self.turn)
        self.thread.join()


def _let_go(lock):
    try:
        lock.release()
    except RuntimeError:
        pass  # it has been told already


class ReplicaBatches(torch.utils.data.Sampler[list[int]]):
    """What a DataLoader takes as batch_sampler where several replicas train: all of them walk through one shuffle of `data` (a
    data set, or how many samples there are), and each takes its `batch_size` samples of every step. So a step is that of one
    process with the whole batch, and every replica makes as many. Samples that fill no step of all are left out; with `shuffle`
    those are others in each epoch. The same `seed` has to be everyone's. `rank` and `replicas` are those of this process.

    >>> parts = [ReplicaBatches(9, 2, shuffle=False, rank=rank, replicas=2) for rank in range(2)]
    >>> [list(part) for part in parts]
    [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    """

    samples: int
    batch_size: int
    shuffle: bool
    rank: int
    replicas: int
    generator: torch.Generator

    def __init__(
        self,
        data: Sized | int,
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        rank: int | None = None,
        replicas: int | None = None,
    ) -> None:
        if (rank is None) != (replicas is None):
            raise errors.ArgumentTypeError(
                "ReplicaBatches: rank and replicas belong together: give both, or none for those of this process"
            )
        if rank is None:
            found = joined()
            rank, replicas = found.rank, found.size
        self.samples = data if isinstance(data, int) else len(data)
        self.batch_size, self.shuffle, self.rank, self.replicas = batch_size, shuffle, rank, replicas
        self.generator = torch.Generator().manual_seed(seed)  # an epoch's order is drawn from it; a SambaLoader keeps its state
        if not isinstance(batch_size, int) or batch_size < 1:
            raise errors.ArgumentError(
                f"ReplicaBatches: batch_size is {batch_size!r:.100}: expected the samples of one replica in a step"
            )
        if not 0 <= rank < replicas:
            raise errors.ArgumentError(f"ReplicaBatches: rank is {rank}: expected 0 to {replicas - 1}")
        if len(self) == 0:
            raise errors.ShapeError(
                f"ReplicaBatches: a step of {replicas} replicas takes {batch_size * replicas} samples and there are only "
                f"{self.samples}: train with a smaller batch or fewer replicas"
            )

    def __len__(self) -> int:
        return self.samples // (self.batch_size * self.replicas)

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = torch.randperm(self.samples, generator=self.generator) if self.shuffle else torch.arange(self.samples)
        for step in range(len(self)):
            start = (step * self.replicas + self.rank) * self.batch_size
            yield shuffled[start : start + self.batch_size].tolist()


class SambaLoader:
    """Iterates over `torch_loader`, whose items are one tensor, as many as `names` or a dict that has them, `prefetch` items
    ahead: a thread calls it and makes contiguous tensors of what it gives. Shuffling and workers are its own. An exception of the
    iterable is raised where its item would have come; leaving the loop early, or dropping the iterator, waits for the item being
    made and ends the thread.

    With session.enable_pinned_memory() the tensors are the device's own memory of the inputs of those names, and valid until the
    next batch is taken. `session`: which, by default samba.session."""

    torch_loader: Iterable[Any]
    names: list[str]
    prefetch: int

    def __init__(
        self, torch_loader: Iterable[Any], names: Iterable[str], prefetch: int = 2, *, session: "SambaSession | None" = None
    ) -> None:
        self._session = session
        self.torch_loader, self.names, self.prefetch = torch_loader, list(names), prefetch
        if not self.names or len(set(self.names)) != len(self.names):
            raise errors.ArgumentError(f"SambaLoader: names must be one or more different names, given {self.names}")
        if not hasattr(torch_loader, "__iter__") and not hasattr(torch_loader, "__getitem__"):
            raise errors.ArgumentTypeError(
                f"SambaLoader: torch_loader is {torch_loader!r:.100}: expected an iterable of batches, such as a DataLoader"
            )
        self._position, self._start, self._resumed, self._loop = 0, None, None, None

    def __len__(self) -> int:
        return len(self.torch_loader)

    # ---- where it stands ----

    def _generators(self):
        """Random generators that the iterable was given."""
        sampler = getattr(self.torch_loader, "sampler", None)
        batch_sampler = getattr(self.torch_loader, "batch_sampler", None)
        holders = self.torch_loader, sampler, batch_sampler, getattr(batch_sampler, "sampler", None)
        found = {id(x.generator): x.generator for x in holders if isinstance(getattr(x, "generator", None), torch.Generator)}
        return list(found.values())

    def state_dict(self) -> dict[str, Any]:
        """How many items the loop has got, and the states of random generators when it began; 0 items between loops."""
        return {
            "position": self._position,
            "start": self._start if self._position else None,
            "generators": [g.get_state() for g in self._generators()],
            "replicas": self._replicas(),
        }

    def _replicas(self):
        """That share the samples."""
        batches = getattr(self.torch_loader, "batch_sampler", None)
        return batches.replicas if isinstance(batches, ReplicaBatches) else 1

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on behind the item that was the last when `state` was taken: the iterable is started from the same
        states of random generators, so a DataLoader shuffles alike, and items up to there are fetched and dropped. What draws
        random numbers while it makes an item should have a generator of its own. Where another number of replicas shares the
        samples now (ReplicaBatches), the loop goes on where as many samples of the epoch were seen, or a few less."""
        for generator, its in zip(self._generators(), state["generators"]):
            generator.set_state(its)
        position = state["position"] * state.get("replicas", 1) // self._replicas()
        self._resumed = state if position else None
        self._position, self._start = position, state["start"]

    def _began(self):
        """An iterator whose next item is the one to give next, which is fetched here, as are those to drop: what an iterable
        draws from random generators to begin with is drawn by the program's thread, in its order. (iterator, [item] or [])"""
        generators = self._generators()
        if self._resumed is None:
            self._position, self._start = 0, {**resume.random_states(), "generators": [g.get_state() for g in generators]}
            iterator = iter(self.torch_loader)
            return iterator, list(itertools.islice(iterator, 1))
        now, count, self._resumed = resume.random_states(), self._position, None
        resume.set_random_states(self._start)
        for generator, its in zip(generators, self._start["generators"]):
            generator.set_state(its)
        iterator = iter(self.torch_loader)
        dropped = sum(1 for _ in itertools.islice(iterator, count))
        resume.set_random_states(now)
        if dropped < count:
            raise errors.StateError(
                f"SambaLoader: {count} items were given before the checkpoint and the iterable has {dropped} now: resume "
                "with the same data"
            )
        return iterator, []

    def _tensors(self, item):
        if isinstance(item, Mapping):
            missing = [name for name in self.names if name not in item]
            if missing:
                raise KeyError(f"SambaLoader: an item has no {missing[0]!r}; it has {', '.join(map(str, item))}")
            item = [item[name] for name in self.names]
        item = [item] if isinstance(item, torch.Tensor) else list(item)
        if len(item) != len(self.names):
            raise errors.ArgumentError(
                f"SambaLoader: an item has {len(item)} tensor{'s' * (len(item) != 1)}, but there are {len(self.names)} names, "
                f"{', '.join(self.names)}: give a name for each tensor"
            )
        item = [x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in item]
        return tuple(
            [plain_tensor(x if isinstance(x, SambaTensor) else x.contiguous(), name) for x, name in zip(item, self.names)]
        )

    def __iter__(self) -> Iterator[tuple[SambaTensor, ...]]:
        iterator, first = self._began()
        loop = self._loop = object()  # the one that began last says where the loader stands
        ahead = _Ahead(itertools.chain(first, iterator), self._tensors, self.prefetch)
        try:
            while (tensors := ahead.next()) is not _END:
                self._position += loop is self._loop
                session = _state.session if self._session is None else self._session
                yield session.pin(tensors) if session.use_pinned_memory() else tensors
        finally:
            if loop is self._loop:
                self._position = 0
            ahead.stop()
