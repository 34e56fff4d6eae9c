/* SPDX-License-Identifier: Apache-2.0
 *
 * A session of several graphs that were never a file, as function.c makes one of a single graph: for programs that compile a
 * model to run it at once. It has names, graphs and state like a session of a PEF. */
#include "base/null.h"
#include "compiler/compiler.h"
#include "runtime/runtime.h"

#include <sambaflow/multigraph.h>

samba_status samba_multigraph_session(samba_multigraph *multigraph, const char *name, const samba_session_options *given,
                                      samba_session **session)
{
    SAMBA_NEED(NULL, multigraph);
    samba_context *context = samba_multigraph_context(multigraph);
    SAMBA_NEED(context, session);
    samba_session_options options = samba_session_defaults();
    samba_plan plan;
    *session = NULL;
    if (given)
        SAMBA_TRY(samba_options_take(context, "samba_multigraph_session", given, sizeof options, &options));
    SAMBA_TRY(samba_multigraph_plan(multigraph, name, &plan));
    return samba_session_of_plan(context, &plan, plan.memory_bytes, "multigraph", &options, session);
}
