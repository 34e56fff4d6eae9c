# SPDX-License-Identifier: Apache-2.0
"""Which of a model's parameters and buffers are which of the device's tensors.

The device calls them by their paths in the module that was traced, and from then on so do they themselves. A model that was
converted and then became a part of another one, or a buffer that a forward pass on the host has made anew, is found all the same:
by what was traced where. What cannot be found that way and has the path of a device tensor has been replaced, or was never
converted, and is refused: left out silently, old values would go on.

>>> import tempfile
>>> import torch
>>> import sambaflow.samba as samba
>>> part, x, session = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.ones(4, 3, name="x"), samba.SambaSession()
>>> whole = torch.nn.Sequential(part)
>>> with tempfile.TemporaryDirectory() as folder:
...     outputs = session.trace_graph(whole, (x,), pef=session.compile(whole, (x,), inference=True, output_folder=folder))
>>> part.weight.sn_name, [name for name, _ in session._owned.of_model("to_cpu", session, part, ("_parameters",))]
('0.weight', ['0.weight', '0.bias'])
"""

import contextlib
import weakref

import torch

from sambaflow import errors, launch
from sambaflow.samba.sambatensor import SambaTensor

KINDS = ("_parameters", "_buffers")


def _plain(call, kind, path):
    return errors.StateError(
        f"{call}: {'parameter' if kind == KINDS[0] else 'buffer'} {path!r} is a torch tensor and no SambaTensor: "
        "samba.from_torch_model_(model) makes it one, before the optimizer is made; this also happens after "
        "load_state_dict(assign=True) and `module.weight = ...`"
    )


def _sample(values):
    """Some of a tensor's values, by which a change of it is seen; None of what has none, which nobody makes for this, or lies
    scattered."""
    if values is None or not values.is_contiguous():
        return None
    return values.detach().reshape(-1)[:: max(1, values.numel() // 256)].clone()


class Owned:
    """Of a session."""

    def __init__(self):
        self._tensors = {}  # id -> (name, tensor), which stays alive
        self._modules = weakref.WeakKeyDictionary()  # module -> {(kind, key): name}
        self._samples = {}  # id -> sample of a tensor when host and device had the same values
        self._settled = {}  # id -> sample of the host's values when they, or the device's, were last what the program had set
        self._stood = {}  # id -> (whether it required a gradient, its dtype) when it was traced
        self.written = set()  # ids of tensors that the host has written into since
        self.runs = 0  # that may have trained
        self._fresh = {}  # id -> how many there were when host and device had the same values
        self.lost = None  # the name of a parameter whose training a reset has forgotten
        self.told = set()  # kinds of sentences of changed.py

    def names(self):
        """{id of a tensor: name}."""
        return {identity: name for identity, (name, _) in self._tensors.items()}

    def check(self, call, tracer, tensors):
        """Refuses what was traced and cannot be sent; `tensors` are the device's."""
        for name, tensor, trainable in tracer.names.values():
            if name in tensors and not isinstance(tensor, SambaTensor):
                raise _plain(call, KINDS[0 if trainable else 1], name)

    def add(self, tracer, model):
        """Notes what was traced of the model, and names it; {name: tensor}."""
        found = {}
        for name, tensor, _ in tracer.names.values():
            if isinstance(tensor, SambaTensor):
                tensor.sn_name = name
                found[name], self._tensors[id(tensor)] = tensor, (name, tensor)
                self._stood[id(tensor)] = tensor.requires_grad, tensor.dtype
        for part in model.modules():
            self._modules.setdefault(part, {}).update(
                {
                    (kind, key): self._tensors[id(x)][0]
                    for kind in KINDS
                    for key, x in getattr(part, kind).items()
                    if id(x) in self._tensors
                }
            )
        return found

    def has(self, tensor):
        """Whether it is one of them."""
        return id(tensor) in self._tensors

    def has_module(self, module):
        """Whether it is a part of a model that was traced."""
        return module is not None and module in self._modules

    def name_of(self, tensor):
        """The name of a tensor, '' where it has none."""
        known = self._tensors.get(id(tensor))
        return known[0] if known else tensor.sn_name

    def is_alike(self, tensor):
        """Notes that host and device have the same values of a tensor: it was sent, or fetched."""
        if id(tensor) in self._tensors:
            self._samples[id(tensor)] = self._settled[id(tensor)] = _sample(tensor._held)
            self._fresh[id(tensor)] = self.runs
            self.written.discard(id(tensor))

    def is_fresh(self, tensor):
        """Whether nothing can have trained it since then."""
        return self._fresh.get(id(tensor)) == self.runs

    def settle(self, tensor):
        """Notes that a tensor's values are as the program wants them, on the device and, perhaps others, on the host."""
        if id(tensor) in self._tensors:
            self._settled[id(tensor)] = _sample(tensor._held)
            self.written.discard(id(tensor))

    def settle_all(self):
        """The same of all of them."""
        for _, tensor in self._tensors.values():
            self.settle(tensor)

    def stood(self, tensor):
        """(whether it required a gradient, its dtype) when it was traced."""
        return self._stood[id(tensor)]

    def changed(self, tensor):
        """Whether the host has changed its values since they were settled."""
        sample = self._settled.get(id(tensor))
        now = None if sample is None else _sample(tensor._held)
        return now is not None and not torch.equal(now, sample)

    def is_written(self, session, tensor):
        """Whether the host has written into it, be it the values that it had there, and the device has others."""
        if id(tensor) not in self.written or self.is_fresh(tensor):
            return False
        mine, its = _sample(tensor._held), _sample(tensor._as_held(session.device_get(self.name_of(tensor))))
        return mine is not None and its is not None and not torch.equal(mine, its)

    def differs(self, tensor, new):
        """Whether another tensor in its place has other values than it had when they were settled."""
        sample, now = self._settled.get(id(tensor)), _sample(getattr(new, "_held", new))
        return sample is None or now is None or now.dtype != sample.dtype or not torch.equal(now, sample)

    def left(self, session, tensors, buffers=False):
        """The name of one of these parameters that the device has trained and nobody has fetched since, None where there is none;
        with `buffers` of these too. What the host has changed meanwhile is meant to be as it is."""
        for tensor in tensors:
            name, sample = self.name_of(tensor) if self.has(tensor) else "", self._samples.get(id(tensor))
            if sample is None or not session.has(name) or not (session.has(f"{name}.grad") or (buffers and not tensor._is_param)):
                continue
            now, trained = _sample(tensor._held), _sample(tensor._as_held(session.device_get(name)))
            if now is not None and torch.equal(now, sample) and not torch.equal(trained, sample):
                return name
        return None

    def warn_of_left(self, session, tracer):
        """Warns when trace_graph is about to send weights anew that this device has trained and nobody has fetched."""
        if name := self.left(session, [tensor for _, tensor, trainable in tracer.names.values() if trainable]):
            launch.warn(
                f"trace_graph: the device has trained {name!r}, and the model on the host has the values from before, which are "
                "sent to the device now: call samba.session.to_cpu(model) of the model that was trained before this call",
                UserWarning,
                stacklevel=2,
            )

    def note_lost(self, session):
        """Before a reset: whether it forgets weights that this device has trained and nobody has fetched."""
        with contextlib.suppress(errors.StateError):  # another thread runs it meanwhile
            self.lost = self.left(session, [tensor for _, tensor in self._tensors.values() if tensor._is_param])

    def is_lost(self):
        """The name of a weight that a reset has forgotten and the host still has from before; None where there is none."""
        of = {name: tensor for name, tensor in self._tensors.values()}.get(self.lost)
        return None if of is None or self.changed(of) else self.lost

    def of_model(self, call, session, model, kinds):
        """(name, tensor) of those of its tensors that the device of `session` has."""
        seen = set()
        for path, part in model.named_modules():
            for kind in kinds:
                for key, x in getattr(part, kind).items():
                    if x is None or id(x) in seen:
                        continue
                    seen.add(id(x))
                    place = f"{path}.{key}" if path else key
                    name = self._modules.get(part, {}).get((kind, key)) or getattr(x, "sn_name", "") or place
                    if not session.has(name):
                        continue
                    if not isinstance(x, SambaTensor):
                        raise _plain(call, kind, place)
                    if not x.sn_name:  # made anew
                        x.sn_name, x._session, x._keeps_name = (
                            name,
                            None if session._is_global else weakref.ref(session),
                            kind == KINDS[1],
                        )
                    yield name, x
