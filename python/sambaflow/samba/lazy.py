# SPDX-License-Identifier: Apache-2.0
"""Lazy parameters: while the mode is on, parameters that modules register are placeholders of a shape and a dtype, and what
initializes them (torch.nn.init, `weight.data.normal_()` and the like) is written down instead of done. Values are made when they
are needed: for a transfer to the device one parameter at a time, and for good by `torch_tensor()`.

What is written down are torch's in-place operators, so kaiming_uniform_, trunc_normal_ and a model's own initialization need no
rule each. uniform_, normal_ and trunc_normal_ draw from the C library's counter-based generator: the k-th of them since the mode
was turned on has a seed of its own, made of the mode's seed and k. So values depend on the seed and on the order of
initialization, not on threads nor on when or whether other parameters are made. They are other numbers than torch's own for that
seed.
"""

import contextlib
import hashlib
import os
import threading
import weakref

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.samba import _state
from sambaflow.samba.arguments import one_of
from sambaflow.samba.patches import Patch, replaced
from sambaflow.samba.ports import host_tensor
from sambaflow.samba.sambatensor import SambaParameter, SambaTensor, make_wrapper

ROUNDINGS = {"nearest_even": lib.SAMBA_NEAREST_EVEN, "truncation": lib.SAMBA_TRUNCATION}
aten = torch.ops.aten
_WHOLE = {aten.uniform_, aten.normal_, aten.fill_, aten.zero_}  # nothing of what was there is left
_SAME = {aten.detach, aten.alias}  # views of everything
_DRAWS = {aten.uniform_: (lib.SAMBA_UNIFORM, "from", "to"), aten.normal_: (lib.SAMBA_NORMAL, "mean", "std")}


class Mode:
    """What enable_lazy_param was given, and how many draws were written down."""

    of_session = False  # made for a session that was told nothing of lazy parameters

    def __init__(self, seed, init_threads, inverse_transform_sampling, fp32_to_bf16_rounding, call="enable_lazy_param"):
        one_of(f"{call}: fp32_to_bf16_rounding", fp32_to_bf16_rounding, tuple(ROUNDINGS))
        if isinstance(init_threads, bool) or not isinstance(init_threads, int) or init_threads < 1:
            raise errors.ArgumentError(f"{call}: init_threads is {init_threads!r}: expected a positive integer")
        if seed is not None and (isinstance(seed, bool) or not hasattr(seed, "__index__")):
            raise errors.ArgumentTypeError(
                f"{call}: seed is {seed!r:.100}: expected an integer, or None for one that torch draws"
            )
        self.seed = int(torch.randint(2**63 - 1, ())) if seed is None else int(seed)
        self.threads = min(init_threads, 4 * (os.cpu_count() or 1))
        self.inverse, self.rounding, self.draws = bool(inverse_transform_sampling), ROUNDINGS[fp32_to_bf16_rounding], 0

    def next_draw(self):
        """A draw's seed."""
        self.draws += 1
        return int.from_bytes(hashlib.blake2b(f"{self.seed} {self.draws}".encode(), digest_size=8).digest(), "little")


# ---- where it is on ----


class _InForce:
    """A mode that is on, in the thread that turned it on, as long as somebody holds this."""

    def __init__(self, mode):
        self.mode = mode
        _PLACEHOLDERS.while_alive(self)
        _REGISTERING.while_alive(self)


class _Here(threading.local):
    def __init__(self):
        self.in_force = []  # weak references to what was turned on in this thread, the latest last

    def modes(self):
        """[_InForce] of the thread."""
        return [its for its in [reference() for reference in tuple(self.in_force)] if its is not None]

    def add(self, its):
        """The latest, until nobody holds it."""
        self.in_force.append(weakref.ref(its, self.in_force.remove))


_here = _Here()


class Switch:
    """The lazy mode of a session, which ends with it. It is of the thread that turned it on: modules that another thread makes
    have values."""

    def __init__(self):
        self._on = []  # what holds its modes
        self._latest = None
        self._ended = False

    def enable(self, *arguments):
        """Turns the mode on, anew if it is on."""
        mode = Mode(*arguments)
        self._on, self._latest = [_InForce(mode)], mode
        _here.add(self._on[0])

    def disable(self):
        """Turns it off; placeholders that there are stay what they are."""
        self._on = []

    def end(self):
        """Turns it off for good: the session has another switch."""
        self._ended, self._on = True, []

    def enabled(self):
        """Whether it is on in this thread."""
        return any(its in self._on for its in _here.modes())

    @contextlib.contextmanager
    def inside(self, *arguments):
        """On for what is made inside; then it is what it was."""
        before = self._on
        self.enable(*arguments)
        try:
            yield
        finally:
            self._on = [] if self._ended else before

    def latest(self, seed):
        """The mode that was turned on last, on or off; one of that seed where there was none."""
        if self._latest is None or (self._latest.of_session and self._latest.seed != seed):
            self._latest = Mode(seed, 8, False, "nearest_even")
            self._latest.of_session = True
        return self._latest

    def restart(self):
        """The next draw is the first again."""
        if self._latest is not None:
            self._latest.draws = 0


def lazy_param(
    seed=None, init_threads=8, inverse_transform_sampling=False, fp32_to_bf16_rounding="nearest_even", *, session=None
):
    """session.enable_lazy_param for what is made inside: `with samba.lazy_param(seed=1): model = Model()`. Afterwards the mode is
    what it was. It is that of `session`, by default samba.session.

    >>> import sambaflow.samba as samba
    >>> with lazy_param(seed=1):
    ...     model = torch.nn.Linear(4096, 4096)
    >>> (model.weight.has_data, samba.session.use_lazy_param())
    (False, False)
    """
    switch = (session or _state.session)._lazy
    return switch.inside(seed, init_threads, inverse_transform_sampling, fp32_to_bf16_rounding)


def _registered(module, name, parameter):
    """What a module is given as a parameter becomes a placeholder. Its memory, which torch.empty has not touched, is kept until
    an initialization says that nothing of it counts."""
    modes = _here.modes()
    if (
        not modes
        or parameter is None
        or isinstance(parameter, SambaTensor)
        or not parameter.is_floating_point()
        or parameter.device.type != "cpu"
    ):
        return None
    return LazyParameter(Recipe(parameter.shape, parameter.dtype, modes[-1].mode, parameter.detach()), parameter.requires_grad)


class Draw:
    """Random numbers of the C library: the next of a mode's draws."""

    def __init__(self, mode, distribution, a, b, low=0.0, high=0.0):
        options = self.options = ffi.new("samba_fill_options *", lib.samba_fill_defaults())
        inverse = distribution == lib.SAMBA_NORMAL and mode.inverse
        options.distribution = lib.SAMBA_NORMAL_INVERSE if inverse else distribution
        options.rounding, options.threads, options.seed = mode.rounding, mode.threads, mode.next_draw()
        options.a, options.b, options.low, options.high = a, b, low, high

    def __call__(self, part):
        fresh = part if part.is_contiguous() else torch.empty(part.shape, dtype=part.dtype)
        tensor = host_tensor(fresh, "values")
        tensor.context.check(lib.samba_fill(tensor.c, self.options))
        if fresh is not part:
            part.copy_(fresh)


class Recipe:
    """How to make the values of a parameter: what it held, and the in-place operators since.
    It is the parameter's materializer."""

    def __init__(self, shape, dtype, mode, initial):
        self.shape, self.dtype, self.mode, self.initial = shape, dtype, mode, initial
        # (views that lead to what is changed, operator, arguments, keyword arguments), or with a Draw for an operator
        self.steps = []

    def __call__(self, *_):
        """The values, in memory of their own where anything was done to them."""
        if self.initial is not None:
            values = self.initial.clone() if self.steps else self.initial
        else:
            values = torch.empty(self.shape, dtype=self.dtype)
        with torch.no_grad():
            for views, func, args, kwargs in self.steps:
                func(_through(values, views), *args, **kwargs)
        return values

    def note(self, views, func, args, kwargs):
        """Writes an operator down; False if it has to be done at once."""
        packet = func.overloadpacket
        kwargs = dict(kwargs)
        if kwargs.pop("generator", None) is not None:  # its numbers are wanted
            return False
        if any(isinstance(x, torch.Tensor) and (x.dim() > 0 or isinstance(x, SambaTensor)) for x in (*args, *kwargs.values())):
            return False
        if packet in _DRAWS:
            distribution, first, second = _DRAWS[packet]
            a, b = args[0] if args else kwargs.get(first, 0.0), args[1] if len(args) > 1 else kwargs.get(second, 1.0)
            func, args, kwargs = Draw(self.mode, distribution, a, b), (), {}
        if packet in _WHOLE and not views:
            self.steps, self.initial = [], None
        self.steps.append((views, func, args, kwargs))
        return True

    def note_truncated(self, views, mean, std, a, b):
        """The same for trunc_normal_."""
        if not views:
            self.steps, self.initial = [], None
        self.steps.append((views, Draw(self.mode, lib.SAMBA_NORMAL_TRUNCATED, mean, std, a, b), (), {}))

    def copy(self):
        """One that goes its own way from here on."""
        twin = Recipe(self.shape, self.dtype, self.mode, None if self.initial is None else self.initial.clone())
        twin.steps = list(self.steps)
        return twin


def _through(tensor, views):
    for view, args in views:
        tensor = view(tensor, *args)
    return tensor


def _materialize(args, kwargs):
    for x in torch.utils._pytree.tree_leaves((args, kwargs)):
        if isinstance(x, _Lazy):
            x.materialize_()


class _Lazy:
    """What placeholders and views of them do."""

    _views = ()  # lead from the parameter's values to these
    _base = None  # the parameter, of a view

    @property
    def lazy(self):
        """Whether values are still to be made."""
        return self._held is None and isinstance(self.materializer, Recipe) and (self._base is None or self._base.lazy)

    def materialize_(self):
        """Makes the values for good: the parameter's, if this is a view. From then on it is as any other tensor."""
        if self._held is None and self._base is not None:
            self._held = _through(self._base._host_values(), self._views)
        else:
            super().materialize_()
        self.__class__ = SambaParameter if isinstance(self, SambaParameter) else SambaTensor

    @property
    def data(self):
        """The values; a placeholder for them, to be initialized, as long as they are not made."""
        return _view(self) if _state.here.tracer is None and self.lazy else SambaTensor.data.fget(self)

    @data.setter
    def data(self, tensor):
        SambaTensor.data.fset(self, tensor)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _state.here.tracer is None:
            first = args[0] if args else next(iter(kwargs.values()), None)  # torch.nn.init gives names
            if isinstance(first, _Lazy) and first.lazy:
                with torch._C.DisableTorchFunctionSubclass():
                    return func(*args, **kwargs)
            _materialize(args, kwargs)
        return super().__torch_function__(func, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs, x = kwargs or {}, args[0] if args else None
        if _state.here.tracer is None and isinstance(x, _Lazy) and x.lazy:
            alias = func._schema.arguments[0].alias_info
            if alias is not None and alias.is_write and x.materializer.note(x._views, func, args[1:], kwargs):
                return x
            if alias is not None and not alias.is_write and not kwargs and len(func._schema.returns) == 1:
                shaped = func(torch.empty(x.shape, dtype=x.dtype, device="meta"), *args[1:])
                if isinstance(shaped, torch.Tensor):
                    return _view(x, shaped, () if func.overloadpacket in _SAME else ((func, args[1:]),))
        if _state.here.tracer is None:
            _materialize(args, kwargs)
        return super().__torch_dispatch__(func, types, args, kwargs)

    def __deepcopy__(self, memo):
        """Of a placeholder another one that will have the same values."""
        if self.lazy and self._base is None:
            copied = LazyParameter(self.materializer.copy(), self.requires_grad)
        else:
            held = self._host_values().detach().clone()
            copied = SambaParameter(held, self.requires_grad) if isinstance(self, SambaParameter) else SambaTensor(held)
        copied.sn_name = self.sn_name
        memo[id(self)] = copied
        return copied


class LazyParameter(_Lazy, SambaParameter):
    """A parameter whose values are still to be made."""

    @staticmethod
    def __new__(cls, recipe, requires_grad=True):
        self = make_wrapper(cls, None, recipe.shape, recipe.dtype, materializer=recipe)
        _PLACEHOLDERS.while_alive(self)
        return self.requires_grad_(requires_grad)


class LazyView(_Lazy, SambaTensor):
    """A part of one, or all of it without gradients."""


def _view(x, shaped=None, views=()):
    """Of a placeholder, through more views."""
    shaped = x if shaped is None else shaped
    view = torch.Tensor._make_wrapper_subclass(LazyView, shaped.shape, strides=shaped.stride(), dtype=shaped.dtype, device="cpu")
    view._held, view._sn_name, view.materializer = None, x._sn_name, x.materializer
    view._base, view._views = x._base if x._base is not None else x, (*x._views, *views)
    return view


def _truncated(torchs):
    def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
        """torch's draws until all values fit, and so looks at them; of a placeholder it is one draw."""
        if isinstance(tensor, _Lazy) and tensor.lazy and generator is None:
            tensor.materializer.note_truncated(tensor._views, mean, std, a, b)
            return tensor
        return torchs(tensor, mean, std, a, b, generator=generator)

    return _no_grad_trunc_normal_


def _put_truncated(stack):
    init = torch.nn.init
    stack.enter_context(replaced(init, "_no_grad_trunc_normal_", _truncated(init._no_grad_trunc_normal_)))


# as long as the mode is on anywhere, and as there are placeholders, which may be initialized when it is off again
_PLACEHOLDERS = Patch(_put_truncated)
_REGISTERING = Patch(lambda stack: stack.callback(register_module_parameter_registration_hook(_registered).remove))


def values_once(tensor):
    """The values for one use: a placeholder stays one."""
    return tensor.materializer() if isinstance(tensor, LazyParameter) and tensor.lazy else tensor
