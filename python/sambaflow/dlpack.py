# SPDX-License-Identifier: Apache-2.0
"""DLPack's side of runtime.Tensor: https://dmlc.github.io/dlpack. Memory is shared, never copied unless asked; read-only memory
is refused, since a tensor here may be written to."""

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.errors import DtypeError, OutOfMemoryError, UnsupportedError

CPU = (1, 0)  # kDLCPU, the only one
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}  # kDLInt ... kDLBool


def _kinds(dtype_names):
    """Name -> (code, bits) of DLPack."""
    return {name: (_CODES[name.rstrip("0123456789")], 8 * lib.samba_dtype_size(i)) for i, name in enumerate(dtype_names)}


def check_request(stream, dl_device):
    """What a consumer may ask of memory of the CPU."""
    if stream is not None:
        raise errors.ArgumentError(f"__dlpack__: stream={stream!r:.100}: memory of the CPU has no stream: give None")
    if dl_device is not None and (not isinstance(dl_device, tuple) or dl_device != CPU):
        raise BufferError(f"__dlpack__: device {dl_device!r:.100}: the memory is the CPU's, {CPU}, and is not copied elsewhere")


def check_version(max_version):
    """Whether a consumer takes capsules of version 1."""
    if max_version is None:
        return False
    if not isinstance(max_version, tuple) or len(max_version) != 2 or not all(isinstance(x, int) for x in max_version):
        raise errors.ArgumentTypeError(f"__dlpack__: max_version is a pair of integers: given {max_version!r:.100}")
    return max_version[0] >= 1


def give(owner, tensor, dtype, dtype_names, max_version, copied):
    """A capsule over a samba_tensor that `owner` keeps."""
    versioned, made = check_version(max_version), []
    address, code = (lambda x: ffi.cast("void *", id(x))), _kinds(dtype_names)[dtype][0]
    if not lib.sambaflow_dlpack_give(address(made), address(owner), tensor, code, versioned, copied):
        raise OutOfMemoryError("no memory for a DLPack capsule")
    return made[0]


def capsule_of(x):
    """What x.__dlpack__() gives, of version 1 where it can, since only that tells of read-only memory."""
    if type(x).__name__ == "PyCapsule":
        return x
    if not hasattr(x, "__dlpack__"):
        raise errors.ArgumentTypeError(f"from_dlpack: {type(x).__name__} has no __dlpack__")
    device = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else CPU
    if int(device[0]) != CPU[0]:
        raise UnsupportedError(
            f"from_dlpack: the memory is of DLPack's device {int(device[0])}, expected {CPU[0]}, the CPU: copy it there first"
        )
    try:
        try:
            return x.__dlpack__(max_version=(1, 0))
        except TypeError:  # of the time before versions
            return x.__dlpack__()
    except BufferError as error:  # mostly that it is read-only, which then cannot be told otherwise
        raise errors.ArgumentError(f"from_dlpack: {error}") from error


def look(capsule, dtype_names):
    """(sambaflow_dlpack, dtype's name) of a capsule that can be taken as it is."""
    found = ffi.new("sambaflow_dlpack *")
    if not lib.sambaflow_dlpack_look(ffi.cast("void *", id(capsule)), found):
        raise errors.ArgumentError("from_dlpack: no capsule of DLPack, or one that was taken already")
    if found.major > 1:
        raise UnsupportedError(f"from_dlpack: version {found.major} of DLPack: expected 1")
    if found.device_type != CPU[0]:
        raise UnsupportedError(
            f"from_dlpack: the memory is of DLPack's device {found.device_type}, expected {CPU[0]}, the CPU: copy it there first"
        )
    if found.read_only:
        raise errors.ArgumentError("from_dlpack: the memory is read-only: pass a copy")
    for name, kind in _kinds(dtype_names).items():
        if found.lanes == 1 and kind == (found.code, found.bits):
            return found, name
    raise DtypeError(
        f"from_dlpack: DLPack's type code {found.code} of {found.bits} bits, {found.lanes} lanes: expected one of "
        f"{', '.join(dtype_names)}"
    )


def release_of(found):
    """The C function that ends what was found."""
    return ffi.addressof(lib, "sambaflow_dlpack_release_versioned" if found.major else "sambaflow_dlpack_release")


def take(capsule):
    """Marks the capsule as used: the memory is ours now."""
    lib.sambaflow_dlpack_take(ffi.cast("void *", id(capsule)))
