/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks for NULL in the arguments of public functions. */
#ifndef SAMBA_NULL_H
#define SAMBA_NULL_H

#include "base/base.h"

/* At the beginning of a public function: ARGUMENT where this argument is NULL. The context may be NULL too:
 * then nobody holds the message. */
#define SAMBA_NEED(context, argument)                                                                                            \
    do {                                                                                                                         \
        if (!(argument))                                                                                                         \
            return samba_fail_null(context, __func__, #argument);                                                                \
    } while (0)
samba_status samba_fail_null(samba_context *context, const char *call, const char *argument);

#endif
