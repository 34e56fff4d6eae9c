/* SPDX-License-Identifier: Apache-2.0
 *
 * Warnings that wait in a context until the program takes them (sambaflow/warning.h). */
#ifndef SAMBA_WARN_H
#define SAMBA_WARN_H

#include "base/base.h"
#include <sambaflow/warning.h>

/* Keeps a warning, unless the same one waits, or too many do. Longer ones are cut at 767 bytes. */
void samba_warn(samba_context *context, const char *text);

#endif
