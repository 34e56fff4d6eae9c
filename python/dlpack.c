/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack: host tensors to and from whoever speaks it, over one memory. Who makes a managed tensor says how it ends (`deleter`),
 * and whoever has it last calls that once: a capsule nobody took, or the taker. Both ends may come from any thread, so everything
 * here that touches Python takes the GIL. The structs are those of https://github.com/dmlc/dlpack, version 1.0,
 * and of the time before versions. */
#include <Python.h>

#include "extension.h"

#include <stdlib.h>
#include <string.h>

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *owner;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_managed_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *owner;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed_versioned;

enum { DL_CPU = 1, DL_READ_ONLY = 1, DL_IS_COPIED = 2 };

static const char plain_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

/* ---- giving ---- */
static void forget(void *owner)
{
    if (!Py_IsInitialized()) /* the process ends, and its memory with it */
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)owner);
    PyGILState_Release(gil);
}

static void end_plain(dl_managed *self)
{
    forget(self->owner);
    free(self);
}

static void end_versioned(dl_managed_versioned *self)
{
    forget(self->owner);
    free(self);
}

static void end_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, plain_name)) {
        dl_managed *managed = PyCapsule_GetPointer(capsule, plain_name);
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, versioned_name)) {
        dl_managed_versioned *managed = PyCapsule_GetPointer(capsule, versioned_name);
        managed->deleter(managed);
    }
}

static void describe(dl_tensor *given, const samba_tensor *tensor, int code, int64_t *sizes)
{
    int rank = samba_tensor_rank(tensor);
    given->data = samba_tensor_data(tensor);
    given->device.type = DL_CPU;
    given->ndim = rank;
    given->dtype.code = (uint8_t)code;
    given->dtype.bits = (uint8_t)(8 * samba_dtype_size(samba_tensor_dtype(tensor)));
    given->dtype.lanes = 1;
    given->shape = sizes;
    given->strides = sizes + rank;
    for (int i = 0; i < rank; i++) {
        given->shape[i] = samba_tensor_shape(tensor)[i];
        given->strides[i] = samba_tensor_strides(tensor)[i];
    }
}

bool sambaflow_dlpack_give(void *list, void *owner, const samba_tensor *tensor, int code, bool versioned, bool copied)
{
    struct {
        union {
            dl_managed plain;
            dl_managed_versioned versioned;
        } as;
        int64_t sizes[2 * SAMBA_MAX_RANK];
    } *managed = calloc(1, sizeof *managed);
    if (!managed)
        return false;
    PyGILState_STATE gil = PyGILState_Ensure();
    if (versioned) {
        managed->as.versioned.version.major = 1;
        managed->as.versioned.owner = owner;
        managed->as.versioned.deleter = end_versioned;
        managed->as.versioned.flags = copied ? DL_IS_COPIED : 0;
        describe(&managed->as.versioned.tensor, tensor, code, managed->sizes);
    } else {
        managed->as.plain.owner = owner;
        managed->as.plain.deleter = end_plain;
        describe(&managed->as.plain.tensor, tensor, code, managed->sizes);
    }
    PyObject *capsule = PyCapsule_New(managed, versioned ? versioned_name : plain_name, end_capsule);
    if (capsule)
        Py_INCREF((PyObject *)owner);
    else
        free(managed);
    bool given = capsule && PyList_Append(list, capsule) == 0;
    Py_XDECREF(capsule);
    if (!given)
        PyErr_Clear();
    PyGILState_Release(gil);
    return given;
}

/* ---- taking ---- */
bool sambaflow_dlpack_look(void *capsule, sambaflow_dlpack *found)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    const dl_tensor *tensor = NULL;
    *found = (sambaflow_dlpack){.major = 0};
    if (PyCapsule_IsValid(capsule, plain_name)) {
        dl_managed *managed = PyCapsule_GetPointer(capsule, plain_name);
        found->managed = managed;
        tensor = &managed->tensor;
    } else if (PyCapsule_IsValid(capsule, versioned_name)) {
        dl_managed_versioned *managed = PyCapsule_GetPointer(capsule, versioned_name);
        found->managed = managed;
        found->major = (int)managed->version.major;
        if (managed->version.major == 1) { /* of another one only the beginning is known */
            found->read_only = managed->flags & DL_READ_ONLY;
            tensor = &managed->tensor;
        }
    }
    PyGILState_Release(gil);
    if (tensor) {
        found->data = (char *)tensor->data + tensor->byte_offset;
        found->device_type = tensor->device.type;
        found->rank = tensor->ndim;
        found->code = tensor->dtype.code;
        found->bits = tensor->dtype.bits;
        found->lanes = tensor->dtype.lanes;
        found->shape = tensor->shape;
        found->strides = tensor->strides;
    }
    return found->managed != NULL;
}

void sambaflow_dlpack_take(void *capsule)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    if (PyCapsule_SetName(capsule, PyCapsule_IsValid(capsule, versioned_name) ? "used_dltensor_versioned" : "used_dltensor") != 0)
        PyErr_Clear();
    PyGILState_Release(gil);
}

void sambaflow_dlpack_release(void *managed)
{
    dl_managed *mine = managed;
    if (mine->deleter)
        mine->deleter(mine);
}

void sambaflow_dlpack_release_versioned(void *managed)
{
    dl_managed_versioned *mine = managed;
    if (mine->deleter)
        mine->deleter(mine);
}
