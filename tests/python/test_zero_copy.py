# SPDX-License-Identifier: Apache-2.0
"""One memory, seen from sambaflow, torch and NumPy:
a write on one side is there on the other, and memory lives until the last one lets go."""

import array
import gc
import threading
import weakref

import numpy
import pytest
import torch

import sambaflow.samba as samba
from sambaflow.errors import SambaError, StateError, UnsupportedError
from sambaflow.runtime import Tensor

DTYPES = ["float32", "bfloat16", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]


def runtime_tensor(dtype="float32"):
    return Tensor.zeros("x", dtype, (2, 3))


def samba_tensor(dtype="float32"):
    return samba.zeros(2, 3, dtype=getattr(torch, dtype), name="x")


SOURCES = {"runtime.Tensor": runtime_tensor, "SambaTensor": samba_tensor}
VIEWS = {
    "numpy.asarray": numpy.asarray,
    "numpy.from_dlpack": numpy.from_dlpack,
    "torch.from_dlpack": torch.from_dlpack,
    "torch.utils.dlpack": lambda x: torch.utils.dlpack.from_dlpack(x.__dlpack__()),  # a capsule of the time before versions
    "samba.from_dlpack": samba.from_dlpack,
    "runtime.from_dlpack": lambda x: Tensor.from_dlpack("y", x),
}


def write(x, value):
    """Into element [1, 2]."""
    if isinstance(x, Tensor):
        numpy.asarray(x)[1, 2] = value
    elif isinstance(x, samba.SambaTensor):
        x.torch()[1, 2] = value
    else:
        x[1, 2] = value


def read(x):
    return x.tolist()[1][2]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("source", SOURCES)
def test_out(source, view):
    ours = SOURCES[source]()
    theirs = VIEWS[view](ours)
    assert tuple(theirs.shape) == (2, 3)
    write(ours, 3)
    assert read(theirs) == 3
    write(theirs, 4)
    assert read(ours) == 4
    del ours
    gc.collect()
    filler = [torch.full((2, 3), 9.0) for _ in range(100)]  # would reuse the memory
    assert read(theirs) == 4 and len(filler) == 100


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_through_dlpack(dtype):
    for source in SOURCES.values():
        theirs = torch.from_dlpack(source(dtype))
        assert theirs.dtype is getattr(torch, dtype)
        theirs[1, 2] = 1
        back = Tensor.from_dlpack("back", theirs)
        assert back.dtype == dtype and torch.equal(torch.from_dlpack(back), theirs)
        back = samba.from_dlpack(theirs, name="back")
        assert back.sn_name == "back" and back.data_ptr() == theirs.data_ptr()


IN = {
    "samba.from_torch": (torch.zeros, lambda x: samba.from_torch(x)),
    "samba.from_torch_tensor": (torch.zeros, lambda x: samba.from_torch_tensor(x, name="x")),
    "samba.from_dlpack of torch": (torch.zeros, samba.from_dlpack),
    "samba.from_dlpack of NumPy": (numpy.zeros, samba.from_dlpack),
    "samba.from_numpy": (numpy.zeros, samba.from_numpy),
    "Tensor.wrap": (numpy.zeros, lambda x: Tensor.wrap("x", x)),
    "Tensor.from_numpy": (numpy.zeros, lambda x: Tensor.from_numpy("x", x)),
    "Tensor.from_dlpack of torch": (torch.zeros, lambda x: Tensor.from_dlpack("x", x)),
    "Tensor.from_dlpack of NumPy": (numpy.zeros, lambda x: Tensor.from_dlpack("x", x)),
}


@pytest.mark.parametrize("way", IN)
def test_in(way):
    make, take = IN[way]
    theirs = make((2, 3))
    ours = take(theirs)
    write(theirs, 3)
    assert read(ours) == 3
    write(ours, 4)
    assert read(theirs) == 4
    del theirs
    gc.collect()
    filler = [make((2, 3)) + 9 for _ in range(100)]
    assert read(ours) == 4 and len(filler) == 100


def test_strides():
    theirs = torch.arange(6.0).reshape(2, 3).t()
    ours = Tensor.from_dlpack("x", theirs)
    assert ours.shape == (3, 2) and ours.strides == (1, 3) and numpy.asarray(ours).tolist() == theirs.tolist()
    wrapped = Tensor.wrap("x", numpy.arange(12.0).reshape(3, 4)[::2, 1::2])
    assert wrapped.strides == (8, 2) and numpy.asarray(wrapped).tolist() == [[1.0, 3.0], [9.0, 11.0]]
    assert numpy.from_dlpack(wrapped).tolist() == [[1.0, 3.0], [9.0, 11.0]]


def test_a_tensor_tells_of_itself():
    ours = Tensor.wrap("x", numpy.arange(6, dtype="float32").reshape(2, 3))
    assert (ours.name, ours.dtype, ours.shape, ours.strides) == ("x", "float32", (2, 3), (3, 1))
    assert (
        ours.tolist() == [[0, 1, 2], [3, 4, 5]]
        and repr(ours) == "Tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], name='x', dtype=float32, shape=(2, 3))"
    )


def test_no_elements_and_one():
    for shape in ((), (0,), (2, 0, 3)):
        ours = Tensor.zeros("x", "int64", shape)
        for theirs in (numpy.asarray(ours), numpy.from_dlpack(ours), torch.from_dlpack(ours)):
            assert tuple(theirs.shape) == shape and theirs.tolist() == ours.tolist()
        back = Tensor.from_dlpack("y", torch.zeros(shape))
        assert back.shape == shape and Tensor.wrap("y", numpy.zeros(shape)).shape == shape


def test_the_source_ends_with_the_last_view():
    """And not before: in any order, from any thread, taken or not."""
    source = numpy.zeros(4)
    ended = weakref.ref(source)
    ours = Tensor.from_dlpack("x", source)
    again = Tensor.from_dlpack("y", ours)
    del source, ours
    gc.collect()
    assert ended() is not None
    thread = threading.Thread(target=lambda holder: holder.clear(), args=([again],))
    del again
    thread.start()
    thread.join()
    del thread
    gc.collect()
    assert ended() is None

    for version in (None, (1, 0)):
        ours = runtime_tensor()
        ended = weakref.ref(ours)
        capsule = ours.__dlpack__(max_version=version)  # nobody takes it
        del ours
        assert ended() is not None
        del capsule
        assert ended() is None


def test_copies_when_asked():
    ours = runtime_tensor()
    theirs = numpy.from_dlpack(ours, copy=True)
    write(ours, 3)
    assert read(theirs) == 0
    ours = samba_tensor()
    assert numpy.array(ours, copy=True)[1, 2] == 0 and numpy.asarray(ours, dtype="float64").dtype == "float64"
    theirs = numpy.array(ours, copy=True)
    write(ours, 3)
    assert read(theirs) == 0 and read(numpy.asarray(ours)) == 3


def read_only():
    values = numpy.zeros((2, 3))
    values.flags.writeable = False
    return values


REFUSED = [  # call -> exception -> message
    (lambda: samba.from_numpy(read_only()), ValueError, "the array is read-only: pass array.copy()"),
    (lambda: samba.from_dlpack(read_only()), ValueError, "the memory is read-only: pass a copy"),
    (lambda: Tensor.wrap("x", read_only()), ValueError, "a read-only buffer: pass a copy"),
    (lambda: Tensor.wrap("x", bytes(8)), ValueError, "a read-only buffer: pass a copy"),
    (lambda: Tensor.from_dlpack("x", read_only()), ValueError, "the memory is read-only: pass a copy"),
    (lambda: Tensor.wrap("x", numpy.zeros(4)[::-1]), ValueError, "negative strides"),
    (lambda: Tensor.wrap("x", memoryview(bytearray(8))[::2]), ValueError, "not contiguous: pass a contiguous copy"),
    (lambda: Tensor.wrap("x", numpy.zeros(2, "complex64")), TypeError, "a buffer of format 'Zf': expected one of"),
    (lambda: Tensor.wrap("x", numpy.zeros(2, ">f4")), TypeError, "a buffer of format '>f'"),
    (lambda: Tensor.wrap("x", array.array("u", "ab")), TypeError, "a buffer of format"),
    (lambda: Tensor.wrap("x", [1.0]), TypeError, "list has no buffer of numbers"),
    (lambda: Tensor.from_dlpack("x", [1.0]), TypeError, "list has no __dlpack__"),
    (lambda: samba.from_dlpack(None), TypeError, "NoneType has no __dlpack__"),
    (lambda: samba.from_numpy([1.0]), TypeError, "expected np.ndarray"),
    (lambda: Tensor.from_dlpack("x", numpy.zeros(4)[::-1]), ValueError, "may not be negative"),
    (lambda: Tensor.from_dlpack("x", torch.zeros(2, dtype=torch.complex64)), TypeError, "DLPack's type code 5 of 64 bits"),
    (lambda: Tensor.from_dlpack("x", torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1)), ValueError, "rank 9; give 0 to 8"),
    (lambda: Tensor.from_dlpack("x", torch.zeros(2, device="meta")), Exception, ""),
    (lambda: Tensor.from_dlpack("x\0y", torch.zeros(2)), ValueError, "a name has a NUL in it"),
    (lambda: runtime_tensor().__dlpack__(stream=1), ValueError, "memory of the CPU has no stream"),
    (lambda: runtime_tensor().__dlpack__(dl_device=(2, 0)), BufferError, "the memory is the CPU's"),
    (lambda: Tensor.empty("x", "float32", (2,)).__dlpack__(), StateError, "__dlpack__ of tensor 'x': it is empty"),
    (lambda: numpy.asarray(Tensor.empty("x", "float32", (2,))), StateError, "it is empty"),
    (lambda: Tensor.empty("x", "float32", (2,)).tolist(), StateError, "it is empty"),
    (lambda: numpy.asarray(runtime_tensor("bfloat16")), TypeError, "NumPy has no bfloat16"),
    (lambda: runtime_tensor("bfloat16").tolist(), TypeError, "tolist of bfloat16: convert to float32 first"),
    (lambda: numpy.asarray(samba.SambaTensor(shape=(2,), dtype=torch.float32)), RuntimeError, "has no values"),
    (lambda: numpy.asarray(samba_tensor("float32"), dtype="int64", copy=False), ValueError, "need a copy"),
]


@pytest.mark.parametrize("row", range(len(REFUSED)))
def test_refused(row):
    call, kind, message = REFUSED[row]
    with pytest.raises(kind) as raised:
        call()
    assert message in str(raised.value)


def test_a_capsule_is_taken_once():
    capsule = torch.zeros(3).__dlpack__()
    ours = Tensor.from_dlpack("x", capsule)
    with pytest.raises(ValueError, match="taken already"):
        Tensor.from_dlpack("y", capsule)
    assert ours.tolist() == [0, 0, 0]


class Elsewhere:
    """An array of a device that is not here."""

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **request):
        raise AssertionError("asked for memory of another device")


def test_other_devices_are_not_asked():
    for take in (samba.from_dlpack, lambda x: Tensor.from_dlpack("x", x)):
        with pytest.raises(UnsupportedError, match="DLPack's device 2, expected 1, the CPU"):
            take(Elsewhere())
    assert issubclass(UnsupportedError, SambaError)
