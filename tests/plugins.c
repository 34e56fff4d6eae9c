/* SPDX-License-Identifier: Apache-2.0
 *
 * Test programs find the plugins of their build, unless they are told of others. */
#include <stdlib.h>

static void __attribute__((constructor)) name_plugins(void) { setenv("SAMBAFLOW_PLUGINS", SAMBA_TEST_PLUGINS, 0); }
