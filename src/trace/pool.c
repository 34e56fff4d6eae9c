/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling. */
#include "trace/trace.h"

#include <sambaflow/pool.h>
#include <string.h>

/* Two numbers, the default in place of a zero. */
static samba_dims pair(const int64_t *given, int64_t default0, int64_t default1)
{
    return (samba_dims){.count = 2, .at = {given && given[0] ? given[0] : default0, given && given[1] ? given[1] : default1}};
}

static samba_value pool2d(samba_op op, samba_value a, const int64_t kernel[2], const samba_pool2d_options *options)
{
    static const samba_pool2d_options defaults;
    const samba_pool2d_options *o = options ? options : &defaults;
    samba_graph *graph;
    if (!samba_trace_enter(samba_op_table[op].name, 1, &a, &graph))
        return samba_trace_none(graph);
    if (!kernel)
        return samba_trace_value(graph, samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, samba_op_table[op].name,
                                                            "a kernel of two sizes is needed, NULL was given"));
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.pool2d.kernel = pair(kernel, 0, 0);
    attrs.pool2d.stride = pair(o->stride, kernel[0], kernel[1]);
    attrs.pool2d.padding = pair(o->padding, 0, 0);
    attrs.pool2d.dilation = pair(o->dilation, 1, 1);
    attrs.pool2d.ceil_mode = o->ceil_mode;
    attrs.pool2d.count_include_pad = op == SAMBA_OP_avg_pool2d && !o->no_count_include_pad;
    return samba_trace_value(graph, samba_emit(graph, op, 1, &a.index, &attrs));
}

samba_value samba_max_pool2d(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options)
{
    return pool2d(SAMBA_OP_max_pool2d, a, kernel, options);
}

samba_value samba_avg_pool2d(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options)
{
    return pool2d(SAMBA_OP_avg_pool2d, a, kernel, options);
}
