/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross entropy with PyTorch's shapes. The operator takes rows of logits (R, C) and as many labels (R); here classes move to the
 * last dim and all others become rows. */
#include "trace/trace.h"

#include <sambaflow/loss.h>
#include <string.h>

/* Labels: (N, d1 ...) for logits (N, C, d1 ...), () for (C). */
static bool check_shapes(samba_graph *graph, const samba_node *logits, const samba_node *label)
{
    bool fits = logits->rank >= 1 && label->rank == logits->rank - 1;
    for (int d = 0; fits && d < label->rank; d++)
        fits = label->shape[d] == logits->shape[d == 0 ? 0 : d + 1];
    char logits_type[SAMBA_TYPE_TEXT], label_type[SAMBA_TYPE_TEXT];
    if (!fits)
        samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, "cross_entropy",
                            "expected logits (N, C), (N, C, d1 ...) or (C) and labels (N), (N, d1 ...) or (); given %s and %s",
                            samba_trace_format(logits, logits_type), samba_trace_format(label, label_type));
    else if (samba_dtype_table[label->dtype].category != SAMBA_CATEGORY_INTEGER)
        samba_graph_fail_at(graph, SAMBA_ERROR_DTYPE, "cross_entropy", "expected labels of integers, given %s",
                            samba_dtype_name(label->dtype));
    else
        return true;
    return false;
}

static bool check_options(samba_graph *graph, const samba_cross_entropy_options *options)
{
    if (options->label_smoothing >= 0.0 && options->label_smoothing <= 1.0 && (int)options->reduction >= SAMBA_MEAN &&
        options->reduction <= SAMBA_NO_REDUCTION)
        return true;
    samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, "cross_entropy",
                        "expected label_smoothing from 0 to 1 and a known reduction, given %g and %d", options->label_smoothing,
                        (int)options->reduction);
    return false;
}

/* (N, C, d1 ...) as (N * d1 ..., C) */
static samba_ref rows_of(samba_graph *graph, samba_ref logits, const samba_node *node, int64_t rows)
{
    if (node->rank > 2) {
        int64_t order[SAMBA_MAX_RANK];
        for (int d = 0; d < node->rank; d++)
            order[d] = d == 0 ? 0 : d == node->rank - 1 ? 1 : d + 1;
        logits = samba_emit_permute(graph, logits, order);
    }
    return samba_emit_reshape(graph, logits, 2, (int64_t[]){rows, node->shape[node->rank > 1]});
}

samba_value samba_cross_entropy_with(samba_value logits, samba_value label, const samba_cross_entropy_options *options)
{
    const samba_cross_entropy_options defaults = samba_cross_entropy_defaults();
    const samba_cross_entropy_options *o = options ? options : &defaults;
    samba_graph *graph;
    if (!samba_trace_enter("cross_entropy", 2, (samba_value[]){logits, label}, &graph) ||
        !samba_trace_need_floating(logits, "cross_entropy"))
        return samba_trace_value(graph, SAMBA_NONE);
    samba_node x = samba_trace_node(logits), t = samba_trace_node(label);
    if (!check_shapes(graph, &x, &t) || !check_options(graph, o))
        return samba_trace_value(graph, SAMBA_NONE);
    int64_t rows = 1;
    for (int d = 0; d < t.rank; d++)
        rows *= t.shape[d];
    samba_ref flat = samba_emit_reshape(graph, label.index, 1, &rows);
    if (t.dtype != SAMBA_INT64 && t.dtype != SAMBA_INT32)
        flat = samba_emit_cast(graph, flat, SAMBA_INT64);
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.cross_entropy.ignore_index = o->ignore_index;
    attrs.cross_entropy.label_smoothing = o->label_smoothing;
    attrs.cross_entropy.reduction = o->reduction;
    samba_ref inputs[2] = {rows_of(graph, logits.index, &x, rows), flat};
    samba_ref loss = samba_emit(graph, SAMBA_OP_cross_entropy, 2, inputs, &attrs);
    return samba_trace_value(graph, o->reduction == SAMBA_NO_REDUCTION ? samba_emit_reshape(graph, loss, t.rank, t.shape) : loss);
}

samba_value samba_cross_entropy(samba_value logits, samba_value label) { return samba_cross_entropy_with(logits, label, NULL); }
