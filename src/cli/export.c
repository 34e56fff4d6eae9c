/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow export: the graph that a PEF carries, with weights, as an ONNX model. Weights are those of a session: from a file, or
 * as they are drawn. */
#include "cli/cli.h"
#include <sambaflow/onnx.h>

static samba_status work(samba_context *context, const samba_cli_arguments *a, const char *path, samba_session **session)
{
    samba_session_options options = samba_cli_session(a);
    SAMBA_TRY(samba_check_output(context, "--output", path, a->pef));
    SAMBA_TRY(samba_session_new(context, a->pef, &options, session));
    if (a->load)
        SAMBA_TRY(samba_session_load(*session, a->load));
    SAMBA_TRY(samba_onnx_write_session(context, *session, a->graph_name, a->opset, path));
    printf("%s\n", path);
    return SAMBA_OK;
}

samba_status samba_cli_export(samba_context *context, const samba_cli_arguments *arguments)
{
    samba_session *session = NULL;
    samba_text path; /* "model.pef" -> "model.pef.onnx" beside it, unless the caller says which file */
    samba_status status = samba_text_begin(&path, context, "%s%s", arguments->page ? arguments->page : arguments->pef,
                                           arguments->page ? "" : ".onnx");
    if (status == SAMBA_OK)
        status = work(context, arguments, path.data, &session);
    samba_session_free(session);
    samba_text_clear(&path);
    return status;
}
