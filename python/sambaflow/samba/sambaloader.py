# SPDX-License-Identifier: Apache-2.0
"""Batches of any iterable as named SambaTensors, fetched by a thread while the device runs.

>>> pairs = [(torch.zeros(4, 2), torch.ones(4)), (torch.ones(4, 2), torch.ones(4))]
>>> loader = SambaLoader(pairs, names=["x", "y"])
>>> [(x.sn_name, tuple(x.shape), y.sn_name) for x, y in loader]
[('x', (4, 2), 'y'), ('x', (4, 2), 'y')]
>>> len(loader)
2
"""
import queue
import threading

import torch

from sambaflow.samba import _state
from sambaflow.samba.sambatensor import SambaTensor

_END = object()


class SambaLoader:
    """Iterates over `torch_loader`, whose items are one tensor or as many as `names`, `prefetch` items ahead: a thread calls it and makes
    contiguous tensors of what it gives. Shuffling and workers are its own. An exception of the iterable is raised where its item would have
    come; leaving the loop early, or dropping the iterator, waits for the item being made and ends the thread.

    With samba.session.enable_pinned_memory() the tensors are the device's own memory of the inputs of those names, and valid until the next
    batch is taken."""

    def __init__(self, torch_loader, names, prefetch=2):
        self.torch_loader, self.names, self.prefetch = torch_loader, list(names), prefetch
        if not self.names or len(set(self.names)) != len(self.names):
            raise ValueError(f"SambaLoader: names must be one or more different names, given {self.names}")

    def __len__(self):
        return len(self.torch_loader)

    def _tensors(self, item):
        item = [item] if isinstance(item, torch.Tensor) else list(item)
        if len(item) != len(self.names):
            raise ValueError(f"SambaLoader: an item has {len(item)} tensors, expected {len(self.names)}: {', '.join(self.names)}")
        item = [x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in item]
        return tuple(SambaTensor(x if isinstance(x, SambaTensor) else x.contiguous(), name=name) for x, name in zip(item, self.names))

    def __iter__(self):
        items, stop = queue.Queue(self.prefetch), threading.Event()

        def put(item):
            while not stop.is_set():
                try:
                    items.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        def fetch():
            try:
                for item in self.torch_loader:
                    if not put((self._tensors(item), None)):
                        return
                put((_END, None))
            except BaseException as error:  # delivered where the item would have come
                put((_END, error))

        thread = threading.Thread(target=fetch, name="SambaLoader", daemon=True)
        thread.start()
        try:
            while True:
                tensors, error = items.get()
                if error is not None:
                    raise error
                if tensors is _END:
                    return
                yield _state.session.pin(tensors) if _state.session.use_pinned_memory() else tensors
        finally:
            stop.set()
            thread.join()
