# SPDX-License-Identifier: Apache-2.0
"""SambaTensor: a torch.Tensor that may have no values yet, has a name on the device, and becomes a node of a graph while a
session traces.

It is a wrapper subclass: torch sees shape, dtype, strides and autograd; the values are another torch tensor, `_held`, or nothing.
Outside tracing operations run by the library's kernels on what is held (eager.py), in torch's autograd, so that `backward` works
as ever. While tracing they become nodes. `__torch_function__` offers each torch function whole, and `__torch_dispatch__` what
torch breaks into ATen operators.

>>> import numpy
>>> x = from_torch_tensor(torch.ones(2), name="x")
>>> to_torch(x)
tensor([1., 1.])
>>> values_of(x).requires_grad
False
>>> from_dlpack(numpy.zeros(2, "float32"), name="y")
SambaTensor([0., 0.], name='y', shape=(2,), dtype=torch.float32, device=cpu)
>>> SambaParameter(torch.ones(1), name="w").requires_grad
True
"""

import torch

from sambaflow import dlpack, errors
from sambaflow.errors import ArgumentIndexError, UnknownNameError
from sambaflow.runtime import DTYPE_NAMES
from sambaflow.samba import _state, changed, copies, host_steps, nominal
from sambaflow.samba.shown import shown
from sambaflow.samba.torch_methods import TorchMethods

_UNNAMED = ""
_make = torch.Tensor._make_wrapper_subclass
_default_dtype = torch.get_default_dtype
_of_torch = torch.Tensor.grad
_INDEXING = frozenset(
    (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
)  # not methods here: those would make a 0-d tensor a sequence to C
MEM_TYPES = ("DDR", "HBM", "HOST")


class SambaTensor(TorchMethods, torch.Tensor):
    """See samba.from_torch_tensor. Give either `torch_tensor`, whose memory is shared, or `shape` and `dtype` for an empty one.

    >>> import torch
    >>> import sambaflow.samba as samba
    >>> samba.SambaTensor(torch.ones(2), name="x").sn_name
    'x'
    >>> samba.SambaTensor(shape=(2, 3), dtype=torch.bfloat16).has_data
    False
    """

    @staticmethod
    def __new__(
        cls,
        torch_tensor=None,
        shape=None,
        dtype=None,
        name=None,
        batch_dim=None,
        named_dims=None,
        sized_dims=None,
        materializer=None,
        is_complex=None,
        region_name=None,
    ):
        if named_dims is not None or sized_dims is not None:
            _tell_dims("SambaTensor", named_dims, sized_dims)
        if is_complex or (dtype is not None and dtype.is_complex) or getattr(torch_tensor, "is_complex", bool)():
            raise errors.UnsupportedError(
                "SambaTensor: complex tensors are not supported as inputs; give torch.view_as_real(tensor), and begin the model "
                "with torch.view_as_complex"
            )
        if torch_tensor is not None:
            if shape is not None or dtype is not None:
                raise errors.ArgumentError("SambaTensor: give either torch_tensor or shape and dtype, not both")
            if not isinstance(torch_tensor, torch.Tensor):
                raise errors.ArgumentTypeError(
                    f"SambaTensor: torch_tensor must be a torch.Tensor, given {type(torch_tensor).__name__}"
                )
            held = torch_tensor._held if isinstance(torch_tensor, SambaTensor) else torch_tensor
        elif shape is None:
            raise errors.ArgumentError("SambaTensor: give torch_tensor, or shape and dtype")
        else:
            held = None
        made = make_wrapper(cls, held, shape, dtype or torch.float32, name, batch_dim, _checked(materializer), region_name)
        if isinstance(torch_tensor, SambaTensor):
            made._trace = torch_tensor._trace
        elif held is not None:
            _take_grad(made, held)
        return made

    # what most tensors have stands here once, and what one has that torch made without our __new__
    _held = None
    _is_param = False
    _complex = False
    _draw = None  # of a single random number: drawn.py
    _pair = None  # of a complex tensor while a model is traced: pairs.py
    _fixed = False  # the pair of a parameter or buffer, into which nothing is written
    _sn_name = _UNNAMED
    _value = None  # samba_value while traced
    _trace = None  # the Tracer.id whose model made it, traced or with values
    _view = None  # rules.views.View: what it is of another tensor
    _form = 0  # times that its shape was changed in place
    _written = 0  # times that something was written into it, by itself or a view
    _sn_region_name = None
    _mem_type = None
    _noted = None  # of what trace_multigraph gave: its note of the graph
    _session = None  # a weak reference to the session that has traced it; None: samba.session
    _pef = None  # of an output that trace_graph gave: the PEF's path
    _is_result = False  # of a run: the values are its own, whatever later runs leave on the device
    _kept_name = False  # the name is that of what it was cast from or is a view of: same_value.py
    _keeps_name = False  # when it is cast, as Module.double() does: a buffer of a converted model
    _unobserved = False  # another name, by data or detach(), of memory with values: the memory gets no gradient by it
    batch_dim = None
    materializer = None

    # ---- what torch calls ----

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _INDEXING:
            args = (args[0], _as_index(args[1]), *args[2:])
        if _state.here.tracer is not None:
            return _state.here.tracer.function(func, args, kwargs)
        result = _state.eager(func, args, kwargs)
        if result is NotImplemented:
            with torch._C.DisableTorchFunctionSubclass():
                result = func(*args, **kwargs)
        if func in _state.behind:
            _state.behind[func](result, args, kwargs)
        return result

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        return (_state.eager_aten if _state.here.tracer is None else _state.here.tracer.aten)(func, args, kwargs)

    # ---- names and what the device knows ----

    @property
    def sn_name(self):
        """Name on the device; '' while there is none."""
        return self._sn_name

    @sn_name.setter
    def sn_name(self, name):
        self._sn_name, self._kept_name = _named(name), False

    @property
    def sn_grad_name(self):
        """Name of the gradient on the device."""
        return f"{self._sn_name}.grad" if self._sn_name else _UNNAMED

    @property
    def sn_region_name(self):
        """Tensors of one region name share device memory; the name, where none was given."""
        return self._sn_region_name or self._sn_name

    @sn_region_name.setter
    def sn_region_name(self, name):
        self._sn_region_name = name

    @property
    def has_data(self):
        """Whether there are values on the host."""
        return self._held is not None

    # ---- values ----

    def torch(self):
        """The torch tensor with the values; changes are seen both ways. None while the tensor is empty. It requires a gradient
        where this does, and `backward` of what is computed from it adds to this tensor's gradient too."""
        changed.handed_out(self)
        if self._held is None or not self.requires_grad or _state.here.tracer is not None:
            return self._held
        if not self.is_leaf:
            return _Values.apply(self)
        leaf = self._held.detach().requires_grad_()
        leaf.register_hook(_Adds(self))
        return leaf

    def torch_tensor(self):
        """The torch tensor with the values, materialized where there are none."""
        self.materialize_()
        return self.torch()

    def _host_values(self):
        """The same below autograd."""
        changed.read(self)
        self.materialize_()
        return self._held

    def materialize_(self):
        """Gives an empty tensor values by its materializer; does nothing to one that has some."""
        if self._held is None:
            if self.materializer is None:
                host_steps.refuse_values(self)
            from sambaflow.samba import materializers  # which draws by the library

            made = values_of(materializers.make(self))
            if not isinstance(made, torch.Tensor):
                raise errors.ArgumentTypeError(
                    f"the materializer of {self._sn_name!r} returned {made!r:.100} of {type(made).__name__}: expected a tensor"
                )
            if made.shape != self.shape or made.dtype != self.dtype:
                raise errors.ArgumentError(
                    f"the materializer of {self._sn_name!r} made {tuple(made.shape)} {made.dtype}, expected "
                    f"{tuple(self.shape)} {self.dtype}"
                )
            self._held = made.detach()

    @property
    def grad(self):
        """The gradient on the host, a SambaTensor; None where there is none."""
        grad = _of_torch.__get__(self)
        if grad is None and self._is_param:
            changed.asked_for_grad(self)
        if grad is not None and not isinstance(grad, SambaTensor):
            grad = SambaTensor(grad.detach(), name=self.sn_grad_name)
            with torch._C.DisableTorchFunctionSubclass():
                _of_torch.__set__(self, grad)
        return grad

    @grad.setter
    def grad(self, grad):
        _of_torch.__set__(
            self, SambaTensor(grad, name=self.sn_grad_name) if type(grad) is torch.Tensor and _state.here.tracer is None else grad
        )

    @grad.deleter
    def grad(self):
        _of_torch.__delete__(self)

    @property
    def materializer_provided(self):
        """Whether there is a materializer."""
        return self.materializer is not None

    @property
    def fast_access(self):
        """Whether SambaLoader, once session.enable_pinned_memory was called, puts the tensor's values into the device's own
        memory. Inputs are so when they were traced; False leaves one out. It is the session's, and kept by name."""
        return self._owner()._fast_access.get(self._sn_name, False)

    @fast_access.setter
    def fast_access(self, value):
        if not self._sn_name:
            raise errors.ArgumentError("fast_access is kept by name: give the tensor an sn_name first")
        self._owner()._set_fast_access(self._sn_name, value)

    @staticmethod
    def is_fast_access(name):
        """Whether the tensor of that name is a fast access tensor of samba.session."""
        return _state.session._fast_access.get(name, False)

    @property
    def mem_type(self):
        """Where the device should keep the tensor: 'DDR', 'HBM', 'HOST', or None for what the compiler chooses. A CPU has one
        kind of memory: a NoEffectWarning tells of what is set."""
        return self._mem_type

    @mem_type.setter
    def mem_type(self, mem_type):
        word = mem_type.upper() if isinstance(mem_type, str) else mem_type
        if word is not None and word not in MEM_TYPES:
            raise errors.ArgumentError(f"mem_type {mem_type!r}: expected one of {', '.join(MEM_TYPES)} or None")
        if word is not None:
            nominal.say("mem_type", ", which has one kind of memory", stacklevel=2)
        self._mem_type = word

    # ---- where torch's own methods differ ----

    def type(self, dtype=None, non_blocking=False, **kwargs):
        """The type's name, or the tensor as another dtype. A cast blocks:
        `non_blocking` and `async`, its older name, are errors."""
        if non_blocking or kwargs:
            raise errors.ArgumentTypeError(f"SambaTensor.type does not take {next(iter(kwargs), 'non_blocking')!r}: only a dtype")
        return super().type(dtype) if dtype is not None else _type_name(self)

    def clear_data(self):
        """Forgets the values on the host."""
        self._held = None

    @property
    def data(self):
        """The torch tensor with the values; while a model is traced, of a tensor that the graph has,
        and of one that forward has made, what detach() gives."""
        tracer = _state.here.tracer
        if tracer is not None and (self._trace == tracer.id or tracer.is_symbolic((self,), {})):
            return self.detach()
        changed.handed_out(self)
        return None if self._held is None else self._held.detach()

    @data.setter
    def data(self, tensor):
        if _state.here.tracer is None or not _state.here.tracer.is_symbolic((tensor,), {}):
            tensor = values_of(tensor)
        if tensor.shape != self.shape or (tensor.dtype != self.dtype and _state.here.tracer is not None):
            raise errors.ArgumentError(
                f"data of {tuple(self.shape)} {self.dtype} cannot become {tuple(tensor.shape)} {tensor.dtype}"
            )
        if _state.here.tracer is not None and _state.here.tracer.is_symbolic((self, tensor), {}):
            self.detach().copy_(tensor)
            return
        if (
            tensor.dtype != self.dtype
        ):  # as Module.double() and the like do: the tensor stays who it is, so that ties and optimizers hold
            take_form(self, make_wrapper(SambaTensor, tensor, None, None))
        self._held = tensor
        changed.doubt(self)

    def take_values(self, values):
        """Copies a torch tensor of this shape and dtype into the memory that is there, which the model and others see; where
        there is none, or one place is several elements', into new memory."""
        shared = self._held is not None and any(
            stride == 0 and size > 1 for size, stride in zip(self._held.shape, self._held.stride())
        )
        values = values.detach()
        if self._held is None or shared:
            self._held = values.clone()
        else:
            self._held.copy_(values)

    def item(self):
        """The only element as a Python number."""
        if _state.here.tracer is not None:
            _refuse_traced(self, "item()")
        return self._host_values().item()

    def tolist(self):
        """Nested lists of Python numbers."""
        if _state.here.tracer is not None:
            _refuse_traced(self, "tolist()")
        return self._host_values().tolist()

    def numpy(self):
        """The NumPy array with the values."""
        if _state.here.tracer is not None:
            _refuse_traced(self, "numpy()")
        changed.doubt(self)
        return self._host_values().detach().numpy()

    def __array__(self, dtype=None, copy=None):
        """NumPy's view of the values: what np.asarray(tensor) gives,
        over the same memory unless another dtype or a copy is asked for."""
        array = self.numpy()
        if dtype is not None and dtype != array.dtype:
            if copy is False:
                raise errors.ArgumentError(f"{array.dtype} values as {dtype} need a copy, and copy=False was given")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **request):
        """A DLPack capsule over the values' memory."""
        if _state.here.tracer is not None:
            _refuse_traced(self, "__dlpack__()")
        return self._host_values().__dlpack__(**request)

    def __dlpack_device__(self):
        return self._host_values().__dlpack_device__()

    def data_ptr(self):
        """The address of the first element; 0 while the tensor is empty."""
        return 0 if self._held is None else self._held.data_ptr()

    def untyped_storage(self):
        """The memory of the values, which torch's own has no address of: what saves models tells by it what is tied."""
        return (
            super().untyped_storage()
            if self._held is None and not self.materializer_provided
            else self._host_values().untyped_storage()
        )

    def reusable(self):
        """Whether the memory can be read as it is for transfers: there are values, and they are contiguous."""
        return self._held is not None and self._held.is_contiguous()

    def __deepcopy__(self, memo):
        return copies.deep(self, memo)

    def __reduce_ex__(self, protocol):
        return copies.reduced(self)

    def __bool__(self):
        if _state.here.tracer is not None:
            _refuse_traced(self, "bool()")
        return bool(self._host_values())

    # torch.tensor([a, b]) asks these where torch cannot ask us for the element
    def __float__(self):
        return float(self._number("float()"))

    def __int__(self):
        return int(self._number("int()"))

    def __index__(self):
        return self._number("an index of Python").__index__()

    def _number(self, what):
        """The values as torch's tensor, to convert."""
        if _state.here.tracer is not None:
            _refuse_traced(self, what)
        return self._host_values()

    def __repr__(self, **_):
        changed.read(self)
        return shown(self)

    def __format__(self, spec):
        """What format() and f-strings show: of a 0-d tensor with values the number, as of torch's."""
        if _state.here.tracer is not None and spec:
            _refuse_traced(self, "format()")
        if self.dim() or (self._value is not None and _state.here.tracer is not None) or (self._held is None and not spec):
            return object.__format__(self, spec)
        return format(self.item(), spec)

    # ---- device ----

    def _as_held(self, values):
        """The device's values as this tensor has them: of a complex one it has pairs."""
        return torch.view_as_complex(values_of(values).contiguous()) if self._complex else values

    def _on_device(self):
        """Its session; an error where the tensor has no name there."""
        if not self._sn_name:
            raise UnknownNameError(
                "the tensor has no name on the device: set sn_name, or make it with samba.from_torch_tensor(tensor, name=...)"
            )
        session = self._owner()
        if self._pef is not None and session._device is not None and self._pef != session._device.pef:
            if not session.has_traced(self):
                raise errors.StateError(
                    f"{self._sn_name!r} is an output of {self._pef}, and the session has traced {session._device.pef} since: "
                    "read it before that, or take what the later trace_graph returned"
                )
        return session

    def _owner(self):
        """The session that traced it last, as long as that has a PEF; then samba.session, if that has traced it too. Another
        session's tensors of the same names are not its values: then it is one without a PEF."""
        if self._session is None:
            return _state.session
        session = self._session()
        if (session is None or not session.is_loaded) and _state.session.has_traced(self):
            return _state.session
        return session if session is not None else _state.new_session()

    @property
    def sn_data(self):
        """A copy of the tensor's device memory; setting copies to the device."""
        return self._on_device().device_get(self._sn_name)

    @sn_data.setter
    def sn_data(self, tensor):
        self._on_device().device_set(self._sn_name, tensor)

    @property
    def sn_grad(self):
        """The same for its gradient."""
        return self._on_device().device_get(self.sn_grad_name)

    @sn_grad.setter
    def sn_grad(self, tensor):
        self._on_device().device_set(self.sn_grad_name, tensor)

    def rdu(self):
        """Copies values, and the gradient if there is one, to the device."""
        session = self._on_device()
        session.device_set(self._sn_name, values_of(self))
        session._owned.is_alike(self)
        if self.grad is not None:
            session.device_set(self.sn_grad_name, self.grad)

    def cpu(self, inplace=False):
        """Copies values, and the gradient if the device has one, to the host; `inplace` into the memory that is there. Where no
        PEF is loaded, and for what has values that the device does not have - a result of a run, what was computed on the host, a
        model's buffer that is a constant of the PEF - all is on the host already. Returns the tensor."""
        here = self._held is not None and (self._is_result or self._kept_name or not self._sn_name)
        if _state.here.tracer is not None or here:
            return self
        return self._fetched(self._owner(), inplace)

    def _fetched(self, session, inplace, name=None):
        """cpu, from a session that may be another than its own and know it by another name."""
        if _state.here.tracer is not None or not session.is_loaded:
            return self
        if self._keeps_name and not session.has(name or self._sn_name):
            return self
        self._on_device()  # the name, or an error
        name = name or self._sn_name
        values = self._as_held(session.device_get(name))
        if self._is_param and values.dtype != self.dtype:
            raise errors.StateError(
                f"{name!r} has become {self.dtype} on the host since it was traced, and the device has it as {values.dtype}: "
                f"convert the model back, model.to({values.dtype}), and fetch it then"
            )
        self._held = _into(self._held if inplace else None, values)
        if session.has(f"{name}.grad"):
            grad = self._as_held(session.device_get(f"{name}.grad"))
            if inplace and self.grad is not None:
                values_of(self.grad).copy_(grad)
            else:
                self.grad = make_wrapper(SambaTensor, grad, None, None, f"{name}.grad")
        session._owned.is_alike(self)
        return self

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """As in torch; a result of a run has no graph on the host, and says what has the gradients."""
        if (self._is_result or self._pef is not None) and not self.requires_grad:
            host_steps.refuse_backward(self)
        return super().backward(gradient, retain_graph, create_graph, inputs)

    def cpu_(self):
        """cpu(inplace=True)."""
        return self.cpu(inplace=True)


class SambaParameter(SambaTensor):
    """A SambaTensor that modules take for a torch.nn.Parameter:
    over `torch_tensor`, or an empty one of `shape` and `dtype` whose values `materializer` makes."""

    _is_param = True

    @staticmethod
    def __new__(
        cls,
        torch_tensor=None,
        requires_grad=True,
        name=None,
        shape=None,
        dtype=None,
        batch_dim=None,
        materializer=None,
        region_name=None,
    ):
        if (torch_tensor is None) == (shape is None) or (torch_tensor is not None and dtype is not None):
            raise errors.ArgumentError("SambaParameter: give either torch_tensor or shape and dtype, not both")
        if torch_tensor is not None and not isinstance(torch_tensor, torch.Tensor):
            raise errors.ArgumentTypeError(
                f"SambaParameter: torch_tensor must be a torch.Tensor, given {type(torch_tensor).__name__}"
            )
        held = None if torch_tensor is None else values_of(torch_tensor).detach()
        self = make_wrapper(
            cls, held, shape, dtype or torch.float32, name, batch_dim, _checked(materializer), region_name
        ).requires_grad_(requires_grad)
        if requires_grad and torch_tensor is not None:
            _take_grad(self, torch_tensor)
        return self


class _Values(torch.autograd.Function):
    """A tensor as torch's over the same memory, for autograd."""

    @staticmethod
    def forward(ctx, x):
        return x._held.view_as(x._held)

    @staticmethod
    def backward(ctx, gradient):
        return SambaTensor(gradient)


class _Adds:
    """Hands on the gradient of a leaf's torch tensor."""

    __torch_unserializable__ = True  # torch.save leaves it out without a word

    def __init__(self, tensor):
        self._tensor = tensor

    def __call__(self, gradient):
        grad = self._tensor.grad
        if grad is None:
            self._tensor.grad = gradient.detach().clone()
        else:
            grad._host_values().add_(gradient.detach())


def _take_grad(made, tensor):
    """The gradient that a torch tensor has goes with it."""
    if tensor.requires_grad and tensor.is_leaf and tensor.grad is not None:
        made.grad = tensor.grad


def _checked(materializer):
    if materializer is not None:
        from sambaflow.samba import materializers

        materializers.form_of(materializer)
    return materializer


copies.allow_loading(SambaTensor, SambaParameter)
_WRITERS = torch.Tensor.requires_grad_, torch.Tensor.requires_grad.__set__, torch.Tensor.__setitem__
_state.behind.update(dict.fromkeys(_WRITERS, changed.doubt_first))


def _named(name):
    """A tensor's name; '' for None."""
    if name is not None and not isinstance(name, str):
        raise errors.ArgumentTypeError(f"a tensor's name is a str: given {name!r:.100} of {type(name).__name__}")
    return name or _UNNAMED


def make_wrapper(cls, held, shape, dtype, name=None, batch_dim=None, materializer=None, region_name=None, value=None):
    if torch.is_inference_mode_enabled():  # whose tensors cannot be views of ordinary ones
        with torch.inference_mode(False):
            return make_wrapper(cls, held, shape, dtype, name, batch_dim, materializer, region_name, value)
    if held is not None:
        self = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=held.device, requires_grad=held.requires_grad
        )
        held = held.detach()
    else:
        self = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=dtype, device="cpu", requires_grad=False)
    self._held = held
    if (dtype if held is None else held.dtype).is_complex:
        self._complex = True
    self._sn_name = _named(name) if name else _UNNAMED
    if value is not None:
        self._value = value
    if batch_dim is not None:
        self.batch_dim = _dim_of(self, batch_dim)
    if materializer is not None:
        self.materializer = materializer
    if region_name is not None:
        self._sn_region_name = region_name
    return self


def _dim_of(tensor, batch_dim):
    """The dim of a tensor that counts samples, from 0."""
    if isinstance(batch_dim, bool) or not isinstance(batch_dim, int):
        raise errors.ArgumentTypeError(f"batch_dim is {batch_dim!r:.100}: expected an integer, the dim of samples")
    if not -tensor.dim() <= batch_dim < tensor.dim():
        raise ArgumentIndexError(f"batch_dim is {batch_dim} and the tensor has shape {tuple(tensor.shape)}")
    return batch_dim % tensor.dim()


def _tell_dims(call, named_dims, sized_dims):
    """Of what the documents call deprecated and unfinished."""
    for name, dims in (("named_dims", named_dims), ("sized_dims", sized_dims)):
        if dims is not None:
            nominal.say(f"{call}: {name}", ": dims are known by their places", stacklevel=3)


def take_form(tensor, other):
    """Sizes, strides and dtype of another SambaTensor, for one that stays who it is."""
    with torch._C.DisableTorchFunctionSubclass():
        torch.Tensor.data.__set__(tensor, other)


def from_output(held, shape, dtype, name):
    """A tensor over new, contiguous memory of that shape and dtype: what a run gives.
    Asking torch for either costs as much as knowing."""
    self = _make(SambaTensor, shape) if dtype is _default_dtype() else _make(SambaTensor, shape, dtype=dtype)
    self._held = held
    self._sn_name = name
    return self


def plain_tensor(held, name, batch_dim=None):
    """SambaTensor(held, name=name), in a third of the time for what most batches are:
    contiguous, real, on the CPU, without a gradient."""
    if (
        held.__class__ is not torch.Tensor
        or name.__class__ is not str
        or held.requires_grad
        or not held.is_cpu
        or held.layout is not torch.strided
        or held.is_complex()
        or not held.is_contiguous()
        or held.is_inference()
        or torch.is_inference_mode_enabled()
    ):
        return SambaTensor(held, name=name, batch_dim=batch_dim)
    self = from_output(held, held.shape, held.dtype, name)
    if batch_dim is not None:
        self.batch_dim = _dim_of(self, batch_dim)
    return self


def from_value(value, shape, dtype, trace):
    """A traced tensor: a node of the graph of the Tracer of that id."""
    self = make_wrapper(SambaTensor, None, shape, dtype, value=value)
    self._trace = trace
    return self


def _refuse_traced(tensor, what):
    """The tracer's error where the tensor is known only when the graph runs."""
    if _state.here.tracer.is_symbolic((tensor,), {}):
        _state.here.tracer.refuse_values(what)


def _as_index(index):
    """Index tensors of floats, as torch.Tensor([0, 2]) makes them, count as integers;
    those that only a run knows are a mistake."""

    def known(x):
        return (
            isinstance(x, torch.Tensor)
            and x.dtype.is_floating_point
            and not (_state.here.tracer is not None and _state.here.tracer.is_symbolic((x,), {}))
        )

    words = index if isinstance(index, tuple) else (index,)
    words = tuple(x.long() if known(x) else x for x in words)
    return words if isinstance(index, tuple) else words[0]


def _type_name(tensor):
    return torch.empty(0, dtype=tensor.dtype).type()


def _into(memory, values):
    return values if memory is None else memory.copy_(values)


def _held(x):
    kind = type(x)
    if kind is tuple or kind is list or kind is dict:
        return torch.utils._pytree.tree_map(_held, x)
    if not isinstance(x, SambaTensor):
        return x
    return x._host_values() if x._held is None else x._held


def _wrapped(x):
    if isinstance(x, torch.Tensor):
        return make_wrapper(SambaTensor, x, None, None)
    return torch.utils._pytree.tree_map(_wrapped, x) if isinstance(x, (tuple, list)) else x


def run_on_held(func, args, kwargs):
    """Runs an ATen operator on what the tensors hold."""
    result = func(*[_held(x) for x in args], **{name: _held(x) for name, x in kwargs.items()})
    name = func._schema.name
    if func._schema.is_mutable:
        for x in (*args, *kwargs.values()):
            if isinstance(x, SambaTensor) and x._held is not None and x._held.shape != x.shape:  # unsqueeze_, out=
                take_form(x, make_wrapper(SambaTensor, x._held, None, None))
    if name.endswith("_") and not name.endswith("__") and args and isinstance(args[0], SambaTensor):
        return args[0]
    made = _wrapped(result)
    if args and isinstance(args[0], SambaTensor) and (name == "aten::detach" or args[0]._unobserved):
        for x in torch.utils._pytree.tree_leaves(made):
            if isinstance(x, SambaTensor):
                x._unobserved = x._held.untyped_storage().data_ptr() == args[0]._held.untyped_storage().data_ptr()
    return made


def from_torch_tensor(tensor, name=None, batch_dim=None, named_dims=None, region_name=None, sized_dims=None):
    """A SambaTensor over the memory of `tensor`; a SambaTensor and None as they are. `batch_dim`: the dim of its samples, for
    measure_performance, run_window and the command line's -b, which take dim 0 without it. `named_dims` and `sized_dims` have no
    effect, and a NoEffectWarning says so: the documents call them deprecated and unfinished."""
    if named_dims is not None or sized_dims is not None:
        _tell_dims("from_torch_tensor", named_dims, sized_dims)
    if tensor is None or isinstance(tensor, SambaTensor):
        return tensor
    return SambaTensor(tensor, name=name, batch_dim=batch_dim, region_name=region_name)


def from_numpy(array, name=None, batch_dim=None, region_name=None):
    """A SambaTensor over the memory of a NumPy array, as torch.from_numpy. Read-only arrays are refused: a tensor may be written
    to.

    >>> import numpy
    >>> array = numpy.zeros(2, "float32")
    >>> tensor = from_numpy(array, name="x")
    >>> array[0] = 5
    >>> tensor.tolist()
    [5.0, 0.0]
    """
    flags = getattr(array, "flags", None)
    if flags is not None and not getattr(flags, "writeable", True):
        raise errors.ArgumentError("from_numpy: the array is read-only: pass array.copy()")
    return from_torch_tensor(torch.from_numpy(array), name, batch_dim, region_name=region_name)


def from_dlpack(array, name=None, batch_dim=None, region_name=None):
    """A SambaTensor over the memory of anything with __dlpack__ (arrays of NumPy, JAX, runtime.Tensor ...), as torch.from_dlpack.
    Read-only memory is refused."""
    if isinstance(array, SambaTensor):
        return array
    if not isinstance(array, torch.Tensor):
        dlpack.look(dlpack.capsule_of(array), DTYPE_NAMES)
    return from_torch_tensor(torch.from_dlpack(array), name, batch_dim, region_name=region_name)


def values_of(obj):
    """to_torch below autograd."""
    return obj._host_values() if isinstance(obj, SambaTensor) else obj


def to_torch(obj):
    """The torch tensor of a SambaTensor, with requires_grad; a torch tensor and None as they are."""
    return obj.torch_tensor() if isinstance(obj, SambaTensor) else obj
