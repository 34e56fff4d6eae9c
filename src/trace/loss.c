/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross entropy with PyTorch's shapes. The operator takes rows of logits (R, C) and as many labels (R); here classes move to the
 * last dim and all others become rows. With weights of classes, or probabilities for labels, it is made of log_softmax and core
 * operators; so is nll_loss. */
#include "trace/losses.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>

/* Labels: (N, d1 ...) for logits (N, C, d1 ...), () for (C). */
static bool check_shapes(samba_graph *graph, const char *what, const samba_node *logits, const samba_node *label)
{
    bool fits = logits->rank >= 1 && label->rank == logits->rank - 1;
    for (int d = 0; fits && d < label->rank; d++)
        fits = label->shape[d] == logits->shape[d == 0 ? 0 : d + 1];
    if (!fits && logits->rank == 2 && label->rank == 1)
        return samba_graph_refuse(
            graph, SAMBA_ERROR_SHAPE, what,
            "%lld labels for %lld rows of logits, given %s and %s: give labels (N) for logits (N, C), one for each row",
            (long long)label->shape[0], (long long)logits->shape[0], SAMBA_TYPE_OF(logits), SAMBA_TYPE_OF(label));
    if (!fits)
        return samba_graph_refuse(
            graph, SAMBA_ERROR_SHAPE, what,
            "labels %s do not fit logits %s: give (N) for logits (N, C), (N, d1 ...) for (N, C, d1 ...) and () for (C); "
            "squeeze(1) makes (N) of (N, 1)",
            SAMBA_TYPE_OF(label), SAMBA_TYPE_OF(logits));
    return samba_dtype_table[label->dtype].category == SAMBA_CATEGORY_INTEGER ||
           samba_graph_refuse(graph, SAMBA_ERROR_DTYPE, what, "expected labels of integers, given %s; cast them to int64",
                              samba_dtype_name(label->dtype));
}

static bool check_smoothing(samba_graph *graph, const char *what, const samba_cross_entropy_options *options, bool smooths)
{
    if (options->label_smoothing >= 0.0 && options->label_smoothing <= (smooths ? 1.0 : 0.0))
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_ARGUMENT, what,
                              smooths ? "label_smoothing must be from 0 to 1, given %g"
                                      : "label_smoothing must be 0, given %g; cross_entropy has it",
                              options->label_smoothing);
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

/* An emitted cross_entropy of indices without weights: one operator, whose gradient is softmax minus target. */
static samba_value of_rows(samba_graph *graph, samba_value logits, samba_value label, const samba_cross_entropy_options *o)
{
    samba_node x = samba_trace_node(logits), t = samba_trace_node(label);
    int64_t rows = 1;
    for (int d = 0; d < t.rank; d++)
        rows *= t.shape[d];
    samba_ref flat = samba_emit_reshape(graph, label.index, 1, &rows);
    if (t.dtype != SAMBA_INT64 && t.dtype != SAMBA_INT32)
        flat = samba_emit_cast(graph, flat, SAMBA_INT64);
    samba_attrs attrs = {
        .cross_entropy = {.ignore_index = o->ignore_index, .label_smoothing = o->label_smoothing, .reduction = o->reduction}};
    samba_ref inputs[2] = {rows_of(graph, logits.index, &x, rows), flat};
    samba_ref loss = samba_emit(graph, SAMBA_OP_cross_entropy, 2, inputs, &attrs);
    if (o->reduction == SAMBA_NO_REDUCTION)
        loss = samba_emit_reshape(graph, loss, t.rank, t.shape);
    return samba_trace_value(graph, loss);
}

/* ---- what has weights or probabilities, of core operators ---- */

static bool check_weight(const samba_losses *loss, samba_value weight, int64_t classes)
{
    if (!weight.graph || (samba_value_rank(weight) == 1 && samba_value_size(weight, 0) == classes))
        return true;
    samba_node node = samba_trace_node(weight);
    return samba_graph_refuse(loss->graph, SAMBA_ERROR_SHAPE, loss->what,
                              "expected a weight for each of the %lld classes, given %s", (long long)classes,
                              SAMBA_TYPE_OF(&node));
}

/* A number of each class (C) as it broadcasts to logits (..., C, ...). */
static samba_value beside_classes(samba_value a, int rank, int dim, int64_t classes)
{
    int64_t shape[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = d == dim ? classes : 1;
    return samba_reshape(a, rank, shape);
}

/* A loss of each target, 0 where it does not count, and the mean over the shares of those that do. */
static samba_value of_counted(const samba_losses *loss, samba_value each, samba_value share, samba_value counts,
                              const samba_cross_entropy_options *o)
{
    samba_value zero = samba_losses_number(loss, 0);
    each = samba_where(counts, each, zero);
    if (o->reduction != SAMBA_MEAN)
        return samba_losses_leave(loss, each, o->reduction);
    samba_value total = samba_sum(samba_where(counts, share, zero), 0, NULL, false);
    return samba_cast(samba_div(samba_sum(each, 0, NULL, false), total), loss->dtype);
}

/* The weight of each label's class. */
static samba_value share_of(samba_value labels, samba_value weight)
{
    samba_node t = samba_trace_node(labels);
    return samba_reshape(samba_gather(weight, 0, samba_flatten(labels, 0, -1)), t.rank, t.shape);
}

/* Targets that do not count get a class all the same. */
static samba_value classes_of(const samba_losses *loss, samba_value label, const samba_cross_entropy_options *o,
                              samba_value *counts)
{
    samba_value labels = samba_cast(label, SAMBA_INT64);
    *counts = samba_ne(labels, samba_constant(loss->graph, (double)o->ignore_index, SAMBA_INT64, 0, NULL));
    return samba_where(*counts, labels, samba_constant(loss->graph, 0, SAMBA_INT64, 0, NULL));
}

/* Of log-probabilities that lie in memory: the label's alone is read. */
static samba_value of_read(const samba_losses *loss, samba_value logs, samba_value label, samba_value weight,
                           const samba_cross_entropy_options *o)
{
    int dim = samba_value_rank(logs) > 1;
    samba_node t = samba_trace_node(label);
    samba_value counts, labels = classes_of(loss, label, o, &counts), share = samba_losses_number(loss, 1);
    samba_value each = samba_neg(samba_reshape(samba_gather(logs, dim, samba_losses_unsqueeze(labels, dim)), t.rank, t.shape));
    if (weight.graph)
        each = samba_mul(each, share = share_of(labels, weight));
    return of_counted(loss, each, share, counts, o);
}

/* Of logits with a weight for each class: rows cost what they would without, times their label's weight. Smoothing spreads a part
 * over all classes, by their weights. */
static samba_value of_weighted_rows(const samba_losses *loss, samba_value logits, samba_value label, samba_value weight,
                                    const samba_cross_entropy_options *o)
{
    samba_cross_entropy_options rows = *o;
    rows.reduction = SAMBA_NO_REDUCTION;
    rows.label_smoothing = 0;
    samba_value counts, labels = classes_of(loss, label, o, &counts), share = share_of(labels, weight);
    samba_value each = samba_mul(of_rows(loss->graph, logits, label, &rows), share);
    if (o->label_smoothing != 0) {
        int rank = samba_value_rank(logits), dim = rank > 1;
        int64_t classes = samba_value_size(logits, dim);
        samba_value weights = beside_classes(weight, rank, dim, classes), logs = samba_log_softmax(logits, dim);
        samba_value weighted = samba_mul(logs, weights);
        samba_value spread = samba_mul_scalar(samba_sum(weighted, 1, &dim, false), -o->label_smoothing / (double)classes);
        each = samba_add(samba_mul_scalar(each, 1 - o->label_smoothing), spread);
    }
    return of_counted(loss, each, share, counts, o);
}

/* Probabilities of the logits' shape. */
static samba_value of_probabilities(const samba_losses *loss, samba_value logits, samba_value target, samba_value weight,
                                    const samba_cross_entropy_options *o)
{
    samba_node x = samba_trace_node(logits), t = samba_trace_node(target);
    if (x.rank < 1 || !samba_shape_equal(x.rank, x.shape, t.rank, t.shape))
        return samba_losses_fail_shapes(loss, "labels cast to int64, or probabilities of the logits' shape, (C) or (N, C, ...)",
                                        logits, target);
    int dim = x.rank > 1;
    int64_t classes = x.shape[dim], numel = 1;
    for (int d = 0; d < x.rank; d++)
        numel *= x.shape[d];
    if (!check_weight(loss, weight, classes))
        return samba_trace_none(loss->graph);
    if (o->label_smoothing != 0)
        target = samba_add_scalar(samba_mul_scalar(target, 1 - o->label_smoothing), o->label_smoothing / (double)classes);
    if (weight.graph)
        target = samba_mul(target, beside_classes(weight, x.rank, dim, classes));
    samba_value each = samba_neg(samba_sum(samba_mul(target, samba_log_softmax(logits, dim)), 1, &dim, false));
    if (o->reduction != SAMBA_MEAN)
        return samba_losses_leave(loss, each, o->reduction);
    return samba_cast(samba_mul_scalar(samba_sum(each, 0, NULL, false), classes ? (double)classes / (double)numel : NAN),
                      loss->dtype);
}

samba_value samba_cross_entropy_with(samba_value logits, samba_value label, const samba_cross_entropy_options *options)
{
    const samba_cross_entropy_options defaults = samba_cross_entropy_defaults();
    const samba_cross_entropy_options *o = options ? options : &defaults;
    samba_losses loss;
    samba_value v[] = {logits, label, o->weight};
    if (!samba_losses_enter_any(&loss, "cross_entropy", 3, v, o->reduction))
        return samba_trace_none(loss.graph);
    samba_node x = samba_trace_node(logits), t = samba_trace_node(label);
    bool indices = !samba_dtype_is_floating_point(t.dtype);
    if ((indices && !check_shapes(loss.graph, loss.what, &x, &t)) || !check_smoothing(loss.graph, loss.what, o, true))
        return samba_trace_none(loss.graph);
    if (indices && !o->weight.graph)
        return of_rows(loss.graph, logits, label, o);
    if (!indices)
        return of_probabilities(&loss, v[0], v[1], v[2], o);
    if (!check_weight(&loss, o->weight, x.shape[x.rank > 1]))
        return samba_trace_none(loss.graph);
    return of_weighted_rows(&loss, v[0], label, v[2], o);
}

samba_value samba_cross_entropy(samba_value logits, samba_value label) { return samba_cross_entropy_with(logits, label, NULL); }

samba_value samba_nll_loss(samba_value input, samba_value target, const samba_cross_entropy_options *options)
{
    const samba_cross_entropy_options defaults = samba_cross_entropy_defaults();
    const samba_cross_entropy_options *o = options ? options : &defaults;
    samba_losses loss;
    samba_value v[] = {input, target, o->weight};
    if (!samba_losses_enter_any(&loss, "nll_loss", 3, v, o->reduction))
        return samba_trace_none(loss.graph);
    samba_node x = samba_trace_node(input), t = samba_trace_node(target);
    if (!check_shapes(loss.graph, loss.what, &x, &t) || !check_smoothing(loss.graph, loss.what, o, false) ||
        !check_weight(&loss, o->weight, x.shape[x.rank > 1]))
        return samba_trace_none(loss.graph);
    const samba_node *made = samba_node_at(input.graph, input.index);
    if (made->op != SAMBA_OP_log_softmax || made->attrs->axis.dim != (x.rank > 1))
        return of_read(&loss, v[0], target, v[2], o);
    return samba_cross_entropy_with(samba_trace_value(input.graph, made->inputs[0]), target, o); /* as models often write it */
}
