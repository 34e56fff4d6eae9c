/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of files that a command will write at its end, before it begins: so no result is lost for a path and no PEF for its own
 * output. Changes in the meantime are found when the file is written. */
#include "app/app.h"

samba_status samba_check_output(samba_context *context, const char *option, const char *path, const char *pef)
{
    if (samba_file_same(path, pef))
        return samba_fail(context, SAMBA_ERROR_FILE,
                          "%s \"%s\" is the PEF itself, '%s', and would overwrite it: give another file", option, path, pef);
    samba_status status = samba_file_check_writable(context, path);
    return status == SAMBA_OK ? SAMBA_OK : samba_fail(context, status, "%s: %s", option, samba_error_message(context));
}
