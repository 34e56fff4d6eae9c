/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stages find their operands in no cache. Memory that was touched not long ago is still in the last cache. How long ago is
 * counted in bytes that stages have moved since. (Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage
 * hierarchies", 1970, count distinct bytes.) Runs repeat, so the last stage precedes the first. */
#ifndef SAMBA_REUSE_H
#define SAMBA_REUSE_H

#include "plan/plan.h"

/* far, of a byte for each stage of the plan, zeroed: 1 where most of what the stage touches was touched last more than `near`
 * bytes ago, which is the machine's. */
samba_status samba_reuse_find(samba_context *context, const samba_plan *plan, int64_t near, uint8_t *far);

#endif
