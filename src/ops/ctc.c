/* SPDX-License-Identifier: Apache-2.0
 *
 * Connectionist temporal classification (Graves et al., 2006), in logarithms.
 *
 * ctc_loss(x, targets, input_lengths, target_lengths; blank, zero_infinity): x (steps, batch, classes), log probabilities;
 * targets (batch, most), of which a row's first target_lengths count; of the steps its first input_lengths do. -> (batch): minus
 * the log probability of all ways to say the labels, each one or several steps long, with blanks between where one says nothing.
 * infinity where there is no way; with zero_infinity 0, and so is its gradient.
 * ctc_loss_grad(the same, dy): (steps, batch, classes), 0 beyond a row's steps. As torch.nn.functional.ctc_loss has it, the
 * gradient is that of log probabilities whose exponentials sum to 1: exp(x) less the share of the ways that say the class there.
 *
 * A row's labels stand between blanks, 2 n + 1 of them. alpha: log of the sum over all ways to be at a label in a step; beta: the
 * same over all ways to go on from there, without the step itself.
 * Labels and lengths are values, which only running can look at: one out of range is an error. */
#include "ops/families.h"
#include <math.h>
#include <string.h>

/* ---- inference ---- */
static samba_status need_rows(samba_infer *infer)
{
    const samba_node *x = infer->inputs[0], *targets = infer->inputs[1];
    const samba_attrs_ctc *attrs = &infer->attrs->ctc;
    if (x->dtype != SAMBA_FLOAT32 && x->dtype != SAMBA_FLOAT64)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected log probabilities of float32 or float64, given %s",
                                samba_dtype_name((samba_dtype)x->dtype));
    for (int i = 1; i < 4; i++)
        SAMBA_TRY(samba_infer_need_dtype(infer, i, SAMBA_INT64));
    if (x->rank != 3 || targets->rank != 2 || targets->shape[0] != x->shape[1])
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected log probabilities (steps, batch, classes) and targets (batch, most), given %s and %s",
                                SAMBA_SHAPE_OF(x), SAMBA_SHAPE_OF(targets));
    for (int i = 2; i < 4; i++)
        SAMBA_TRY(samba_infer_need_shape(infer, i, 1, &x->shape[1]));
    if (attrs->blank < 0 || attrs->blank >= x->shape[2] || attrs->zero_infinity < 0 || attrs->zero_infinity > 1)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "blank must be a class, 0 to %lld, given %lld",
                                (long long)x->shape[2] - 1, (long long)attrs->blank);
    return SAMBA_OK;
}

samba_status samba_infer_ctc_loss(samba_infer *infer)
{
    SAMBA_TRY(need_rows(infer));
    return samba_infer_set(infer, infer->inputs[0]->dtype, 1, &infer->inputs[0]->shape[1]);
}

samba_status samba_infer_ctc_loss_grad(samba_infer *infer)
{
    SAMBA_TRY(need_rows(infer));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 4));
    SAMBA_TRY(samba_infer_need_shape(infer, 4, 1, &infer->inputs[0]->shape[1]));
    return samba_infer_set_like(infer, 0);
}

/* ---- gradient ---- */
samba_status samba_vjp_ctc_loss(samba_vjp *vjp)
{
    const samba_attrs attrs = {.ctc = vjp->node->attrs->ctc};
    samba_ref inputs[] = {vjp->inputs[0], vjp->inputs[1], vjp->inputs[2], vjp->inputs[3], vjp->gradient};
    return samba_vjp_deliver(vjp, 0, samba_emit(vjp->graph, SAMBA_OP_ctc_loss_grad, 5, inputs, &attrs));
}

/* ---- work: a few exponentials for each label of each step, and one for each class ---- */
int64_t samba_flops_ctc_loss(const samba_node *node, const samba_node *const *inputs)
{
    const double steps = (double)inputs[0]->shape[0], batch = (double)inputs[0]->shape[1], labels = (double)inputs[1]->shape[1];
    const double ways = node->op == SAMBA_OP_ctc_loss ? 60 : 130;
    return (int64_t)fmin(steps * batch * (ways * (2 * labels + 1) + (double)inputs[0]->shape[2]), 9e18);
}

/* ---- values ---- */
typedef struct row {
    const samba_array *x, *targets;
    int64_t number, steps, labels, blank;
} row;

static samba_status row_at(const samba_reference *reference, int64_t number, row *r)
{
    const samba_array *in = reference->inputs;
    *r = (row){.x = &in[0], .targets = &in[1], .number = number, .blank = reference->attrs->ctc.blank};
    r->steps = samba_array_int64(&in[2], number);
    r->labels = samba_array_int64(&in[3], number);
    if (r->steps < 0 || r->steps > in[0].shape[0] || r->labels < 0 || r->labels > in[1].shape[1])
        return samba_fail(reference->context, SAMBA_ERROR_ARGUMENT,
                          "ctc_loss: row %lld has input length %lld and target length %lld: expected 0 to %lld and 0 to %lld",
                          (long long)number, (long long)r->steps, (long long)r->labels, (long long)in[0].shape[0],
                          (long long)in[1].shape[1]);
    for (int64_t i = 0; i < r->labels; i++) {
        const int64_t label = samba_array_int64(&in[1], number * in[1].shape[1] + i);
        if (label < 0 || label >= in[0].shape[2])
            return samba_fail(reference->context, SAMBA_ERROR_ARGUMENT,
                              "ctc_loss: label %lld at position %lld of row %lld is out of range: expected 0 to %lld",
                              (long long)label, (long long)i, (long long)number, (long long)in[0].shape[2] - 1);
    }
    return SAMBA_OK;
}

static int64_t label_at(const row *r, int64_t s)
{
    return s % 2 == 0 ? r->blank : samba_array_int64(r->targets, r->number * r->targets->shape[1] + s / 2);
}
static double log_at(const row *r, int64_t step, int64_t class_)
{
    return samba_array_double(r->x, (step * r->x->shape[1] + r->number) * r->x->shape[2] + class_);
}
/* May a way leave out the blank before s? */
static bool skips(const row *r, int64_t s) { return s % 2 == 1 && s >= 3 && label_at(r, s) != label_at(r, s - 2); }

static double log_add(double x, double y)
{
    const double high = fmax(x, y), low = fmin(x, y);
    return isnan(x) || isnan(y) ? NAN : isinf(high) ? high : high + log1p(exp(low - high));
}

/* alpha (steps, 2 labels + 1); gives the log probability of the labels */
static double forward(const row *r, double *alpha)
{
    const int64_t places = 2 * r->labels + 1;
    if (r->steps == 0)
        return r->labels == 0 ? 0 : -INFINITY;
    for (int64_t t = 0; t < r->steps; t++)
        for (int64_t s = 0; s < places; s++) {
            const double *before = alpha + (t - 1) * places;
            double sum = t == 0 ? (s < 2 ? 0 : -INFINITY) : before[s];
            if (t > 0 && s > 0)
                sum = log_add(sum, before[s - 1]);
            if (t > 0 && skips(r, s))
                sum = log_add(sum, before[s - 2]);
            alpha[t * places + s] = sum + log_at(r, t, label_at(r, s));
        }
    const double *end = alpha + (r->steps - 1) * places;
    return places == 1 ? end[0] : log_add(end[places - 1], end[places - 2]);
}

static void backward(const row *r, double *beta)
{
    const int64_t places = 2 * r->labels + 1;
    for (int64_t t = r->steps - 1; t >= 0; t--)
        for (int64_t s = places - 1; s >= 0; s--) {
            double sum = t == r->steps - 1 ? (s >= places - 2 ? 0 : -INFINITY) : -INFINITY;
            for (int64_t next = s; t < r->steps - 1 && next < places && next <= s + 2; next++)
                if (next < s + 2 || skips(r, next))
                    sum = log_add(sum, beta[(t + 1) * places + next] + log_at(r, t + 1, label_at(r, next)));
            beta[t * places + s] = sum;
        }
}

static samba_status each_row(const samba_reference *reference, bool gradient)
{
    const samba_array *x = &reference->inputs[0], *y = reference->output;
    const int64_t most = x->shape[0] * (2 * reference->inputs[1].shape[1] + 1) + 1;
    const size_t bytes = 2 * sizeof(double) * (size_t)most;
    double *alpha = samba_alloc(reference->context, bytes), *beta = alpha ? alpha + most : NULL;
    if (!alpha)
        return SAMBA_ERROR_MEMORY;
    samba_status status = SAMBA_OK;
    for (int64_t i = 0; i < y->numel && gradient; i++)
        samba_array_set_double(y, i, 0);
    for (int64_t n = 0; n < x->shape[1] && status == SAMBA_OK; n++) {
        row r;
        status = row_at(reference, n, &r);
        if (status != SAMBA_OK)
            break;
        const double total = forward(&r, alpha);
        const bool none = reference->attrs->ctc.zero_infinity && total == -INFINITY;
        if (!gradient) {
            samba_array_set_double(y, n, none ? 0 : -total);
            continue;
        }
        backward(&r, beta);
        const double dy = samba_array_double(&reference->inputs[4], n);
        const int64_t places = 2 * r.labels + 1;
        for (int64_t t = 0; t < r.steps && !none; t++)
            for (int64_t c = 0; c < x->shape[2]; c++) {
                double ways = -INFINITY;
                for (int64_t s = 0; s < places; s++)
                    if (label_at(&r, s) == c)
                        ways = log_add(ways, alpha[t * places + s] + beta[t * places + s]);
                samba_array_set_double(y, (t * x->shape[1] + n) * x->shape[2] + c,
                                       (exp(log_at(&r, t, c)) - exp(ways - total)) * dy);
            }
    }
    samba_free(reference->context, alpha, bytes);
    return status;
}

samba_status samba_ref_ctc_loss(const samba_reference *reference) { return each_row(reference, false); }
samba_status samba_ref_ctc_loss_grad(const samba_reference *reference) { return each_row(reference, true); }
