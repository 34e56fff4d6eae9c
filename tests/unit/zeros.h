/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs for tests that do not care for values: a session refuses to run over inputs that nobody gave, so all of them are given
 * zeros. The session and the context stay the caller's. */
#ifndef SAMBA_TEST_ZEROS_H
#define SAMBA_TEST_ZEROS_H

#include <sambaflow/session.h>

static inline samba_status give_zeros(samba_context *of, samba_session *session)
{
    samba_status status = SAMBA_OK;
    for (int i = 0; i < samba_session_tensor_count(session) && status == SAMBA_OK; i++) {
        samba_tensor_info info;
        samba_tensor *zeros = NULL;
        status = samba_session_tensor_info(session, i, &info);
        if (status != SAMBA_OK || info.kind != SAMBA_KIND_INPUT)
            continue;
        status = samba_tensor_new(of, info.name, info.dtype, info.rank, info.shape, &zeros);
        if (status == SAMBA_OK)
            status = samba_session_set(session, zeros);
        samba_tensor_free(zeros);
    }
    return status;
}

#endif
