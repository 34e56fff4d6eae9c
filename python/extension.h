/* SPDX-License-Identifier: Apache-2.0
 *
 * What the extension module has besides the library: calls that would cost too much, or could not be made, from Python. */
#ifndef SAMBAFLOW_EXTENSION_H
#define SAMBAFLOW_EXTENSION_H

#include <sambaflow/sambaflow.h>

/* samba_run with these counts of inputs and outputs, of which inputs[i] of the options is moved to addresses[i] before, and
 * outputs[i] to addresses[input_count + i]; at 0 a tensor stays where it is.
 * The warning is that of samba_session_warning, NULL when there is none. */
samba_status sambaflow_run(samba_session *session, const samba_run_options *options, int input_count, int output_count,
                           const uintptr_t *addresses, const char **warning);

/* samba_session_set of tensors that are moved to these addresses before, as far as it goes well. */
samba_status sambaflow_set(samba_session *session, int count, samba_tensor *const *tensors, const uintptr_t *addresses);

/* DLPack (dlpack.c). PyObjects come as `void *`, which is what id() gives.
 *
 * Appends to a list a capsule over the tensor's memory, which the object `owner` keeps; false: no memory. */
bool sambaflow_dlpack_give(void *list, void *owner, const samba_tensor *tensor, int code, bool versioned, bool copied);

typedef struct sambaflow_dlpack { /* what a capsule has */
    void *managed;
    int major; /* 0: of the time before versions. Of one that is not 0 or 1 nothing else is known */
    bool read_only;
    void *data;
    int device_type, rank, code, bits, lanes;
    const int64_t *shape, *strides; /* strides NULL: C-contiguous */
} sambaflow_dlpack;
/* False: no capsule of DLPack, or taken already. */
bool sambaflow_dlpack_look(void *capsule, sambaflow_dlpack *found);
/* From here on the managed tensor is the taker's, to be released once by the function of its version. */
void sambaflow_dlpack_take(void *capsule);
void sambaflow_dlpack_release(void *managed);
void sambaflow_dlpack_release_versioned(void *managed);

#endif
