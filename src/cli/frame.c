/* SPDX-License-Identifier: Apache-2.0
 *
 * How each command begins and ends: a context, and behind the work output that is written whole, or a message. */
#include "cli/cli.h"

bool samba_cli_begin(samba_context **context)
{
    if (samba_context_new(NULL, context) == SAMBA_OK)
        return true;
    fputs("sambaflow: no memory\n", stderr);
    return false;
}

int samba_cli_end(samba_context *context, samba_status status)
{
    if (status == SAMBA_OK)
        status = samba_flush_output(context);
    if (status != SAMBA_OK)
        fprintf(stderr, "sambaflow: %s\n", samba_error_message(context));
    samba_context_free(context);
    return status == SAMBA_OK ? 0 : 1;
}
