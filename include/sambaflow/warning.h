/* SPDX-License-Identifier: Apache-2.0
 *
 * Warnings of what is built. A model may be a mistake and no error, as where PyTorch only warns: a loss whose target has another
 * shape than its input. Such a warning waits in the context until the program takes it; nothing is printed.
 *
 *     samba_compile(context, &options, path, sizeof path);
 *     for (const char *warning; (warning = samba_context_warning(context))[0];)
 *         fprintf(stderr, "warning: %s\n", warning);
 *
 * samba_session_warning gives them too, so a program that asks sessions alone sees them behind its first run. Applications print
 * them when they compile. */
#ifndef SAMBAFLOW_WARNING_H
#define SAMBAFLOW_WARNING_H

#include <sambaflow/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The oldest warning not yet taken ("" when none, and of NULL), valid until the next call. The same text waits once, and 8 texts
 * at most. */
SAMBA_API const char *samba_context_warning(samba_context *context);

#ifdef __cplusplus
}
#endif
#endif
