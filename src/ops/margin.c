/* SPDX-License-Identifier: Apache-2.0
 *
 * Margins between the classes of a row, the last dim.
 *
 * multilabel_margin(x, labels): of each row the sum of what is above 0 of 1 - x[t] + x[k] over each target t and each class k
 * that is none. Targets are the labels in front of the first negative one; one that stands twice counts twice. One beyond the
 * last class is an error of the values, which only running can find.
 * multilabel_margin_grad(x, labels, dy): the gradient of x from that of the sums. It is dy times a number of differences. */
#include "ops/families.h"
#include <string.h>

samba_index_range samba_range_multilabel_margin(const samba_node *node, const samba_node *source)
{
    (void)node;
    return (samba_index_range){.low = -1, .high = source->shape[source->rank - 1]};
}

/* ---- inference ---- */
static samba_status need_labels(samba_infer *infer, int64_t *rows)
{
    const samba_node *x = infer->inputs[0], *labels = infer->inputs[1];
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    if (x->dtype != SAMBA_FLOAT32 && x->dtype != SAMBA_FLOAT64)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected float32 or float64, given %s", samba_dtype_name(x->dtype));
    SAMBA_TRY(samba_infer_need_dtype(infer, 1, SAMBA_INT64));
    if (x->rank < 1 || !samba_shape_equal(x->rank, x->shape, labels->rank, labels->shape))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected values (..., classes) and labels of their shape, given %s and %s", SAMBA_SHAPE_OF(x),
                                SAMBA_SHAPE_OF(labels));
    memcpy(rows, x->shape, sizeof x->shape);
    rows[x->rank - 1] = 1;
    return SAMBA_OK;
}

samba_status samba_infer_multilabel_margin(samba_infer *infer)
{
    int64_t rows[SAMBA_MAX_RANK];
    SAMBA_TRY(need_labels(infer, rows));
    return samba_infer_set(infer, infer->inputs[0]->dtype, infer->inputs[0]->rank, rows);
}

samba_status samba_infer_multilabel_margin_grad(samba_infer *infer)
{
    int64_t rows[SAMBA_MAX_RANK];
    SAMBA_TRY(need_labels(infer, rows));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 2));
    SAMBA_TRY(samba_infer_need_shape(infer, 2, infer->inputs[0]->rank, rows));
    return samba_infer_set_like(infer, 0);
}

/* ---- gradient ---- */
samba_status samba_vjp_multilabel_margin(samba_vjp *vjp)
{
    samba_ref inputs[] = {vjp->inputs[0], vjp->inputs[1], vjp->gradient};
    return samba_vjp_deliver(vjp, 0, samba_emit(vjp->graph, SAMBA_OP_multilabel_margin_grad, 3, inputs, NULL));
}

/* ---- work: a few targets a row ---- */
int64_t samba_flops_multilabel_margin(const samba_node *node, const samba_node *const *inputs)
{
    const int64_t each = 8;
    int64_t numel = samba_flops_map(inputs[0], NULL);
    (void)node;
    return numel < INT64_MAX / each ? numel * each : INT64_MAX;
}

/* ---- values ---- */
typedef struct row { /* of the input */
    const samba_array *x, *labels;
    int64_t start, classes, targets;
} row;

static samba_status row_at(const samba_reference *reference, int64_t number, row *r)
{
    const samba_array *x = &reference->inputs[0], *labels = &reference->inputs[1];
    *r = (row){.x = x, .labels = labels, .classes = x->shape[x->rank - 1]};
    r->start = number * r->classes;
    for (; r->targets < r->classes; r->targets++) {
        int64_t label = samba_array_int64(labels, r->start + r->targets);
        if (label < 0)
            break;
        if (label >= r->classes)
            return samba_fail(
                reference->context, SAMBA_ERROR_ARGUMENT,
                "multilabel_margin: label %lld at position %lld is out of range: expected -1 to %lld, for %lld classes",
                (long long)label, (long long)(r->start + r->targets), (long long)r->classes - 1, (long long)r->classes);
    }
    return SAMBA_OK;
}

static int64_t target_at(const row *r, int64_t number) { return samba_array_int64(r->labels, r->start + number); }

static bool is_target(const row *r, int64_t class_)
{
    for (int64_t t = 0; t < r->targets; t++)
        if (target_at(r, t) == class_)
            return true;
    return false;
}

static double beyond(const row *r, int64_t target, int64_t class_)
{
    double difference = samba_array_double(r->x, r->start + class_) - (samba_array_double(r->x, r->start + target) - 1);
    return difference > 0 && !is_target(r, class_) ? difference : 0;
}

samba_status samba_ref_multilabel_margin(const samba_reference *reference)
{
    for (int64_t i = 0; i < reference->output->numel; i++) {
        row r;
        double sum = 0;
        SAMBA_TRY(row_at(reference, i, &r));
        for (int64_t t = 0; t < r.targets; t++)
            for (int64_t k = 0; k < r.classes; k++)
                sum += beyond(&r, target_at(&r, t), k);
        samba_array_set_double(reference->output, i, sum);
    }
    return SAMBA_OK;
}

samba_status samba_ref_multilabel_margin_grad(const samba_reference *reference)
{
    const samba_array *dy = &reference->inputs[2];
    for (int64_t i = 0; i < dy->numel; i++) {
        row r;
        SAMBA_TRY(row_at(reference, i, &r));
        for (int64_t c = 0; c < r.classes; c++) {
            int64_t count = 0;
            for (int64_t t = 0; t < r.targets; t++) {
                count += beyond(&r, target_at(&r, t), c) > 0;
                for (int64_t k = 0; k < r.classes && target_at(&r, t) == c; k++)
                    count -= beyond(&r, c, k) > 0;
            }
            samba_array_set_double(reference->output, r.start + c, (double)count * samba_array_double(dy, i));
        }
    }
    return SAMBA_OK;
}
