# SPDX-License-Identifier: Apache-2.0
"""What a program turns on and off in a session: lazy parameters, legacy names, pinned memory and which tensors take it. Each is
the session's own, other sessions do not see it, and it ends with the session and with its `reset`.

>>> import sambaflow.samba as samba
>>> one, other = samba.SambaSession(), samba.SambaSession()
>>> one.enable_pinned_memory()
>>> one.enable_lazy_param(seed=1)
>>> one.use_pinned_memory(), one.use_lazy_param(), other.use_pinned_memory(), other.use_lazy_param()
(True, True, False, False)
>>> one.reset()
>>> one.use_pinned_memory(), one.use_lazy_param()
(False, False)
"""

import contextlib

from sambaflow._core import lib
from sambaflow.samba import _state, nominal
from sambaflow.samba.arguments import check_flag
from sambaflow.samba.lazy import Switch
from sambaflow.samba.of_session import of_session


class Switches:
    """Of a session."""

    def _all_off(self):
        self._lazy, self._legacy_names, self._pinned = Switch(), False, False
        self._fast_access = {}  # name -> whether a program, or a trace, has said so

    # ---- tracing ----

    @property
    def tracing(self):
        """Whether this thread traces a model, for whichever session."""
        return _state.here.tracer is not None

    def use_static_functional(self):
        """Whether operators are noted instead of computed, and tensors are symbols without values: while a model is traced all of
        them, for its graph; in lazy parameter mode those that initialize parameters, for when their values are needed."""
        return self.tracing or self._lazy.enabled()

    @contextlib.contextmanager
    def disable_graphamp(self):
        """What is traced inside is computed as written when the PEF is compiled with mixed precision."""
        tracer = _state.here.tracer
        if tracer is not None:
            lib.samba_graphamp_push(tracer.graph, False)
        try:
            yield
        finally:
            if tracer is not None:
                lib.samba_graphamp_pop(tracer.graph)

    @of_session
    def use_legacy_names(self, use):
        """Whether models that this session traces from here on name operators by counting them instead of by their module: the
        hyperparameters of dropouts are dropout0.p, dropout0.seed, dropout1.p and so on.
        Models with batch normalization are refused while it is on."""
        check_flag("use_legacy_names", "use", use)
        self._legacy_names = bool(use)

    # ---- lazy parameters ----

    def enable_lazy_param(
        self, seed=None, init_threads=8, inverse_transform_sampling=False, fp32_to_bf16_rounding="nearest_even"
    ):
        """Parameters that modules register from here on are placeholders without memory; what initializes them is done when their
        values are needed, by `init_threads` threads (at most four for each processor). The values depend on `seed` (None: one
        that torch draws) and the order of initialization alone. `inverse_transform_sampling`: normal numbers by the inverse of
        their distribution function instead of Box and Muller's transform. `fp32_to_bf16_rounding`:
        'nearest_even' or 'truncation', of parameters made as bfloat16. The mode is of the thread that turns it on, and ends with
        disable_lazy_param, reset and the session."""
        self._lazy.enable(seed, init_threads, inverse_transform_sampling, fp32_to_bf16_rounding)

    @of_session
    def disable_lazy_param(self):
        """Modules get parameters with values again. Placeholders that there are stay."""
        self._lazy.disable()

    @of_session
    def use_lazy_param(self):
        """Whether enable_lazy_param is in force, in this thread."""
        return self._lazy.enabled()

    # ---- pinned memory ----

    def enable_pinned_memory(self):
        """From here on a SambaLoader puts its batches into the device's own memory of the inputs, so that run copies nothing. A
        batch is then valid until the next one is taken."""
        self._pinned = True

    def disable_pinned_memory(self):
        """Batches have memory of their own again."""
        self._pinned = False

    def use_pinned_memory(self):
        """Whether enable_pinned_memory is in force."""
        return self._pinned

    def pin(self, tensors):
        """SambaTensors over the device's memory of these inputs, with their values; those that are no inputs, and those whose
        fast_access a program has set to False, as they are."""
        self.loaded()
        with self._profiler.event("PyRT_SET_PINNED_INPUT_TENSORS"):
            return self._ports.pin(tensors, self._fast_access)

    def _set_fast_access(self, name, value):
        """What SambaTensor.fast_access is set to."""
        if value and self.is_loaded and self.has(name) and self._device.tensors[self._aliases.get(name, name)][0] != "input":
            nominal.say(f"fast_access of {name!r}", ": inputs are in pinned memory, and all else is on the device", stacklevel=3)
        self._fast_access[name] = bool(value)
