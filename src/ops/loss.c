/* SPDX-License-Identifier: Apache-2.0
 *
 * cross_entropy(logits (R,C), labels (R)): a row costs -(1-s)*logp[label] - s/C * sum(logp), s = attrs.label_smoothing. Rows
 * whose label is attrs.ignore_index cost 0; the mean is over the others (no others: 0/0, NaN, as in PyTorch).
 *
 * The expansion compares each class with the row's label: no indexing, so the loss is one pass over rows. A label that is no
 * class matches nothing and makes the loss infinite; the reference refuses it. The gradient, softmax - target, is emitted from
 * the same exponentials as the expansion, so that they need be computed only once. */
#include "ops/families.h"

#include <sambaflow/loss.h> /* samba_reduction */
#include <math.h>

#define EXACT_MAX ((int64_t)1 << 53) /* constants are doubles */

samba_index_range samba_range_cross_entropy(const samba_node *node, const samba_node *source)
{
    return (samba_index_range){
        .high = source->shape[1], .has_ignore = true, .ignore = node->attrs->cross_entropy.ignore_index, .trusted = true};
}

samba_status samba_infer_cross_entropy(samba_infer *infer)
{
    const samba_node *logits = infer->inputs[0], *labels = infer->inputs[1];
    const samba_attrs_cross_entropy *attrs = &infer->attrs->cross_entropy;
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    if (labels->dtype != SAMBA_INT64 && labels->dtype != SAMBA_INT32)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected labels of dtype int64 or int32, given %s",
                                samba_dtype_name(labels->dtype));
    if (logits->rank != 2 || labels->rank != 1 || logits->shape[0] != labels->shape[0] || logits->shape[1] < 1)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected logits (rows, classes) of at least one class and labels (rows), given %s and %s",
                                SAMBA_SHAPE_OF(logits), SAMBA_SHAPE_OF(labels));
    if (!(attrs->label_smoothing >= 0 && attrs->label_smoothing <= 1))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "label_smoothing must be from 0 to 1, given %g",
                                attrs->label_smoothing);
    if (attrs->ignore_index < -EXACT_MAX || attrs->ignore_index > EXACT_MAX)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "ignore_index must be from -2^53 to 2^53, given %lld",
                                (long long)attrs->ignore_index);
    if (attrs->reduction < SAMBA_MEAN || attrs->reduction > SAMBA_NO_REDUCTION)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "reduction must be 0 (mean), 1 (sum) or 2 (none), given %lld",
                                (long long)attrs->reduction);
    return samba_infer_set(infer, logits->dtype, attrs->reduction == SAMBA_NO_REDUCTION ? 1 : 0, logits->shape);
}

/* ---- nodes that expansion and gradient share: matrices (R,C), columns (R,1) ---- */

typedef struct parts {
    samba_graph *graph;
    samba_attrs_cross_entropy attrs;
    samba_dtype wide; /* of the sums */
    int64_t rows, classes;
    double smooth;     /* the part of the target that every class gets */
    samba_ref logits;  /* (R,C) minus each row's greatest */
    samba_ref powers;  /* (R,C) exp(logits) */
    samba_ref sum;     /* (R,1) of powers */
    samba_ref matches; /* (R,C) class is the label */
    samba_ref counts;  /* (R,1) row is not ignored */
} parts;

static samba_ref number(const parts *p, double value) { return samba_emit_constant(p->graph, value, p->wide); }

static samba_ref over_classes(const parts *p, samba_op op, samba_ref a)
{
    return samba_emit_reduce(p->graph, op, a, 1, (int64_t[]){1});
}

static parts emit_parts(samba_graph *graph, const samba_attrs *attrs, const samba_ref *inputs)
{
    const samba_node *node = samba_node_at(graph, inputs[0]);
    parts p = {.graph = graph, .attrs = attrs->cross_entropy, .rows = node->shape[0], .classes = node->shape[1]};
    p.wide = samba_compute_dtype(node->dtype);
    p.smooth = p.attrs.label_smoothing / (double)p.classes;
    samba_ref wide = samba_emit_lift(graph, inputs[0]);
    p.logits = samba_emit2(graph, SAMBA_OP_sub, wide, over_classes(&p, SAMBA_OP_amax, wide));
    p.powers = samba_emit1(graph, SAMBA_OP_exp, p.logits);
    p.sum = over_classes(&p, SAMBA_OP_sum, p.powers);
    samba_ref classes = samba_emit_iota(graph, 2, (int64_t[]){1, p.classes}, 1);
    samba_ref labels = samba_emit_reshape(graph, samba_emit_cast(graph, inputs[1], SAMBA_INT64), 2, (int64_t[]){p.rows, 1});
    p.matches = samba_emit2(graph, SAMBA_OP_eq, classes, labels);
    samba_ref ignored = samba_emit_constant(graph, (double)p.attrs.ignore_index, SAMBA_INT64);
    p.counts = samba_emit2(graph, SAMBA_OP_ne, labels, ignored);
    return p;
}

static samba_ref total(const parts *p, samba_ref rows) /* (R,1) -> () */
{
    return samba_emit_reshape(p->graph, samba_emit_reduce(p->graph, SAMBA_OP_sum, rows, 2, (int64_t[]){0, 1}), 0, NULL);
}

static samba_ref counted_rows(const parts *p) { return total(p, samba_emit_cast(p->graph, p->counts, p->wide)); }

samba_ref samba_expand_cross_entropy(samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    samba_dtype dtype = node->dtype;
    parts p = emit_parts(graph, node->attrs, inputs);
    samba_ref log_sum = samba_emit1(graph, SAMBA_OP_log, p.sum);
    /* The greatest of one logit and -inf is that logit; of none it is -inf, and the loss of such a label infinite. */
    samba_ref matching = samba_emit3(graph, SAMBA_OP_where, p.matches, p.logits, number(&p, -INFINITY));
    samba_ref loss = samba_emit2(graph, SAMBA_OP_sub, log_sum, over_classes(&p, SAMBA_OP_amax, matching));
    if (p.smooth != 0) {
        samba_ref every = samba_emit_scalar(graph, SAMBA_OP_mul, log_sum, (double)p.classes);
        every = samba_emit2(graph, SAMBA_OP_sub, every, over_classes(&p, SAMBA_OP_sum, p.logits));
        every = samba_emit_scalar(graph, SAMBA_OP_mul, every, p.smooth);
        loss = samba_emit2(graph, SAMBA_OP_add, samba_emit_scalar(graph, SAMBA_OP_mul, loss, 1 - p.attrs.label_smoothing), every);
    }
    loss = samba_emit3(graph, SAMBA_OP_where, p.counts, loss, number(&p, 0));
    if (p.attrs.reduction == SAMBA_NO_REDUCTION)
        loss = samba_emit_reshape(graph, loss, 1, &p.rows);
    else
        loss = total(&p, loss);
    if (p.attrs.reduction == SAMBA_MEAN)
        loss = samba_emit2(graph, SAMBA_OP_div, loss, counted_rows(&p));
    return samba_emit_cast(graph, loss, dtype);
}

/* dlogits = (softmax - target) * g for rows that count, 0 for the others; the mean's g is shared by them. */
samba_status samba_vjp_cross_entropy(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    if (!vjp->needed[0])
        return SAMBA_OK;
    parts p = emit_parts(graph, vjp->node->attrs, vjp->inputs);
    samba_ref softmax = samba_emit2(graph, SAMBA_OP_mul, p.powers, samba_emit1(graph, SAMBA_OP_reciprocal, p.sum));
    samba_ref hit = number(&p, 1 - p.attrs.label_smoothing + p.smooth), miss = number(&p, p.smooth);
    samba_ref target = samba_emit3(graph, SAMBA_OP_where, p.matches, hit, miss);
    samba_ref g = samba_emit_lift(graph, vjp->gradient);
    if (p.attrs.reduction == SAMBA_NO_REDUCTION)
        g = samba_emit_reshape(graph, g, 2, (int64_t[]){p.rows, 1});
    if (p.attrs.reduction == SAMBA_MEAN)
        g = samba_emit2(graph, SAMBA_OP_div, g, counted_rows(&p));
    samba_ref dlogits = samba_emit2(graph, SAMBA_OP_mul, samba_emit2(graph, SAMBA_OP_sub, softmax, target), g);
    return samba_vjp_deliver(vjp, 0, samba_emit3(graph, SAMBA_OP_where, p.counts, dlogits, number(&p, 0)));
}

/* ---- reference ---- */

static double row_loss(const samba_array *logits, int64_t row, int64_t label, double label_smoothing)
{
    int64_t classes = logits->shape[1];
    double greatest = -INFINITY, powers = 0, every = 0;
    for (int64_t c = 0; c < classes; c++)
        greatest = fmax(greatest, samba_array_double(logits, row * classes + c)); /* skips NaN, which the next sum does not */
    for (int64_t c = 0; c < classes; c++)
        powers += exp(samba_array_double(logits, row * classes + c) - greatest);
    for (int64_t c = 0; c < classes; c++)
        every -= samba_array_double(logits, row * classes + c) - greatest - log(powers);
    double loss = log(powers) - (samba_array_double(logits, row * classes + label) - greatest);
    if (label_smoothing == 0) /* classes of probability 0 do not matter then: 0 * inf would be NaN */
        return loss;
    return (1 - label_smoothing) * loss + label_smoothing / (double)classes * every;
}

samba_status samba_ref_cross_entropy(const samba_reference *reference)
{
    const samba_array *logits = &reference->inputs[0], *labels = &reference->inputs[1];
    const samba_attrs_cross_entropy *attrs = &reference->attrs->cross_entropy;
    int64_t counted = 0;
    double sum = 0;
    for (int64_t row = 0; row < labels->numel; row++) {
        int64_t label = samba_array_int64(labels, row);
        bool counts = label != attrs->ignore_index;
        if (counts && (label < 0 || label >= logits->shape[1]))
            return samba_fail(reference->context, SAMBA_ERROR_ARGUMENT,
                              "cross_entropy: label %lld of row %lld is out of range: expected 0 to %lld, for %lld classes, or "
                              "the ignore_index %lld",
                              (long long)label, (long long)row, (long long)logits->shape[1] - 1, (long long)logits->shape[1],
                              (long long)attrs->ignore_index);
        double loss = counts ? row_loss(logits, row, label, attrs->label_smoothing) : 0;
        if (attrs->reduction == SAMBA_NO_REDUCTION)
            samba_array_set_double(reference->output, row, loss);
        counted += counts;
        sum += loss;
    }
    if (attrs->reduction != SAMBA_NO_REDUCTION)
        samba_array_set_double(reference->output, 0, attrs->reduction == SAMBA_MEAN ? sum / (double)counted : sum);
    return SAMBA_OK;
}

/* A comparison, a subtraction, an exponential and an addition for each logit. */
int64_t samba_flops_cross_entropy(const samba_node *node, const samba_node *const *inputs)
{
    (void)node;
    return (int64_t)fmin(4.0 * (double)inputs[0]->shape[0] * (double)inputs[0]->shape[1], 9e18);
}
