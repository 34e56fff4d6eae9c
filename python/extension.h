/* SPDX-License-Identifier: Apache-2.0
 *
 * What the extension module has besides the library: calls that would cost too much, or could not be made, from Python. */
#ifndef SAMBAFLOW_EXTENSION_H
#define SAMBAFLOW_EXTENSION_H

#include <sambaflow/sambaflow.h>

/* samba_run with these counts of inputs and outputs, of which inputs[i] of the options is moved to addresses[i] before, and outputs[i] to
 * addresses[input_count + i]; at 0 a tensor stays where it is. The warning is that of samba_session_warning, NULL when there is none. */
samba_status sambaflow_run(samba_session *session, const samba_run_options *options, int input_count, int output_count,
                           const uintptr_t *addresses, const char **warning);

#endif
