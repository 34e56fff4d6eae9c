/* SPDX-License-Identifier: Apache-2.0
 *
 * The location of operators in the user's model, as the tracing program gives it: the module's path, the line of the program, and
 * which operators a hint keeps in one section. samba_scope_push, which also names things, sets the path too (trace.c). */
#include "trace/trace.h"
#include <string.h>

#define LONGEST_FILE 128 /* bytes kept of a file's name */

void samba_set_module(samba_graph *graph, const char *path)
{
    if (graph && graph->status == SAMBA_OK)
        graph->location.scope = path && path[0] ? samba_graph_intern(graph, path) : graph->scope;
}

void samba_set_source(samba_graph *graph, const char *file, int line)
{
    if (!graph || graph->status != SAMBA_OK)
        return;
    if (!file || !file[0]) {
        graph->location.source = 0;
        return;
    }
    for (const char *c = file; *c; c++) /* a PEF has no paths of the machine that made it */
        if (*c == '/' || *c == '\\')
            file = c + 1;
    int length = (int)strnlen(file, LONGEST_FILE);
    while (length > 0 && ((unsigned char)file[length] & 0xC0) == 0x80) /* no letter is cut in two */
        length--;
    char source[LONGEST_FILE + 16];
    snprintf(source, sizeof source, "%.*s:%d", length, file, line);
    graph->location.source = samba_graph_intern(graph, source);
}

void samba_op_fusion_push(samba_graph *graph, const char *name)
{
    if (!graph || graph->status != SAMBA_OK)
        return;
    if (!name || !name[0]) {
        samba_graph_fail_at(graph, SAMBA_ERROR_NAME, "op_fusion", "a name that is not empty is needed, given %s",
                            name ? "\"\"" : "NULL");
        return;
    }
    if (graph->fusion_depth++ == 0)
        graph->location.fusion = samba_graph_intern(graph, name);
}

void samba_op_fusion_pop(samba_graph *graph)
{
    if (!graph || graph->status != SAMBA_OK)
        return;
    if (graph->fusion_depth == 0)
        samba_graph_fail(graph, SAMBA_ERROR_STATE, "samba_op_fusion_pop was called more often than samba_op_fusion_push");
    else if (--graph->fusion_depth == 0)
        graph->location.fusion = 0;
}
