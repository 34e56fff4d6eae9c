/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics as counts and sums. Predictions of classes go into three counts a class - right, predicted, there - from which
 * accuracy, precision, recall and F1 follow; the rest is a weighted sum. A batch is checked whole before any of it counts. */
#include "train/train.h"
#include "base/null.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

typedef struct counts { /* of a class */
    int64_t right, predicted, there;
} counts;

struct samba_metric {
    samba_context *context;
    samba_metric_options o;
    char *name, *output, *target;
    double sum, weight; /* of MEAN, TOP_K, PERPLEXITY, RMSE and MAE */
    counts *classes;
    int64_t class_count, class_room;
};

static const char *const names[] = {"mean", "accuracy", "top_k", "precision", "recall", "f1", "perplexity", "rmse", "mae"};

static bool counts_classes(samba_metric_kind kind)
{
    return kind == SAMBA_METRIC_ACCURACY || (kind >= SAMBA_METRIC_PRECISION && kind <= SAMBA_METRIC_F1);
}

static bool is_of_numbers(samba_metric_kind kind) { return kind == SAMBA_METRIC_RMSE || kind == SAMBA_METRIC_MAE; }

samba_metric_options samba_metric_defaults(samba_metric_kind kind)
{
    return (samba_metric_options){
        .struct_size = sizeof(samba_metric_options), .kind = kind, .ignores = true, .ignore_index = -100};
}

bool samba_metric_is_greater_better(samba_metric_kind kind) { return counts_classes(kind) || kind == SAMBA_METRIC_TOP_K; }

samba_status samba_metric_from_name(samba_context *context, const char *name, samba_metric_kind *kind)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, name);
    SAMBA_NEED(context, kind);
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) {
            *kind = (samba_metric_kind)i;
            return SAMBA_OK;
        }
    return samba_fail(context, SAMBA_ERROR_NAME,
                      "'%s' is no metric; there are accuracy, top_k, precision, recall, f1, perplexity, rmse, mae and mean",
                      name);
}

static samba_status check(samba_context *context, const samba_metric_options *o)
{
    if ((int)o->kind < 0 || (int)o->kind >= SAMBA_COUNT(names))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%d is no kind of metric", (int)o->kind);
    if ((int)o->average < 0 || o->average > SAMBA_AVERAGE_BINARY)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "metric %s: %d is no average", names[o->kind], (int)o->average);
    if (o->average != SAMBA_AVERAGE_MACRO && (o->kind < SAMBA_METRIC_PRECISION || o->kind > SAMBA_METRIC_F1))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "metric %s: average has no effect; precision, recall and f1 have one",
                          names[o->kind]);
    if (o->k < 0 || (o->k > 0 && o->kind != SAMBA_METRIC_TOP_K))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "metric %s: k is %d: expected 1 or more, of top_k alone", names[o->kind],
                          o->k);
    if (isnan(o->threshold))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "metric %s: the threshold is NaN", names[o->kind]);
    return SAMBA_OK;
}

samba_status samba_metric_new(samba_context *context, const samba_metric_options *options, samba_metric **metric)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, options);
    SAMBA_NEED(context, metric);
    samba_metric_options o;
    *metric = NULL;
    SAMBA_TRY(samba_options_take(context, __func__, options, sizeof o, &o));
    SAMBA_TRY(check(context, &o));
    samba_metric *m = samba_calloc(context, sizeof *m);
    if (!m)
        return SAMBA_ERROR_MEMORY;
    *m = (samba_metric){.context = context, .o = o};
    m->name = samba_strdup(context, o.name ? o.name : names[o.kind]);
    m->output = samba_strdup(context, o.output ? o.output : "logits");
    m->target = samba_strdup(context, o.target ? o.target : "label");
    if (!m->name || !m->output || !m->target) {
        samba_metric_free(m);
        return SAMBA_ERROR_MEMORY;
    }
    m->o.name = m->name, m->o.output = m->output, m->o.target = m->target;
    m->o.k = o.k > 0 ? o.k : 5;
    *metric = m;
    return SAMBA_OK;
}

void samba_metric_free(samba_metric *m)
{
    if (!m)
        return;
    samba_strfree(m->context, m->name);
    samba_strfree(m->context, m->output);
    samba_strfree(m->context, m->target);
    samba_free(m->context, m->classes, sizeof *m->classes * (size_t)m->class_room);
    samba_free(m->context, m, sizeof *m);
}

/* Classes up to the greatest that a replica has seen; those behind its own are 0. */
static samba_status share_classes(samba_metric *m, const samba_replicas *replicas)
{
    const int64_t own = m->class_count;
    int64_t most = 0;
    int64_t *counted = samba_alloc(m->context, sizeof *counted * (size_t)replicas->size);
    if (!counted)
        return SAMBA_ERROR_MEMORY;
    samba_status status = samba_replicas_gather(m->context, &own, sizeof own, counted);
    for (int r = 0; r < replicas->size && status == SAMBA_OK; r++)
        most = counted[r] > most ? counted[r] : most;
    samba_free(m->context, counted, sizeof *counted * (size_t)replicas->size);
    SAMBA_TRY(status);
    if (most == 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_grow(m->context, (void **)&m->classes, sizeof *m->classes, &m->class_room, most));
    m->class_count = most;
    const size_t bytes = sizeof *m->classes * (size_t)most;
    counts *all = samba_alloc(m->context, bytes * (size_t)replicas->size);
    if (!all)
        return SAMBA_ERROR_MEMORY;
    status = samba_replicas_gather(m->context, m->classes, bytes, all);
    if (status == SAMBA_OK)
        memset(m->classes, 0, bytes);
    for (int64_t i = 0; i < replicas->size * most && status == SAMBA_OK; i++) {
        counts *to = &m->classes[i % most];
        *to = (counts){to->right + all[i].right, to->predicted + all[i].predicted, to->there + all[i].there};
    }
    samba_free(m->context, all, bytes * (size_t)replicas->size);
    return status;
}

samba_status samba_metric_share(samba_metric *m, const samba_replicas *replicas)
{
    double sums[] = {m->sum, m->weight};
    if (replicas->size <= 1)
        return SAMBA_OK;
    SAMBA_TRY(samba_train_sum(m->context, replicas, 2, sums));
    m->sum = sums[0], m->weight = sums[1];
    return share_classes(m, replicas);
}

void samba_metric_reset(samba_metric *m)
{
    if (!m)
        return;
    m->sum = m->weight = 0;
    m->class_count = 0;
    if (m->classes)
        memset(m->classes, 0, sizeof *m->classes * (size_t)m->class_room);
}

const char *samba_metric_name(const samba_metric *m) { return m ? m->name : ""; }

const samba_metric_options *samba_metric_its(const samba_metric *m) { return &m->o; }

/* ---- batches ---- */

typedef struct batch { /* what of an output and a target counts, contiguous */
    const samba_metric *metric;
    samba_dtype dtype, target_dtype;
    const char *scores, *targets;
    int64_t rows, classes; /* targets, and scores of each: 1 where one says which of two */
} batch;

static double score(const batch *b, int64_t row, int64_t k)
{
    return samba_load_double(b->dtype, b->scores + samba_dtype_size(b->dtype) * (size_t)(row * b->classes + k));
}

static double number(const batch *b, int64_t row)
{
    return samba_load_double(b->target_dtype, b->targets + samba_dtype_size(b->target_dtype) * (size_t)row);
}

static int64_t label(const batch *b, int64_t row)
{
    const char *element = b->targets + samba_dtype_size(b->target_dtype) * (size_t)row;
    return samba_dtype_is_floating_point(b->target_dtype) ? (int64_t)samba_load_double(b->target_dtype, element)
                                                          : samba_load_int64(b->target_dtype, element);
}

static bool is_left_out(const batch *b, int64_t row)
{
    return b->metric->o.ignores && label(b, row) == b->metric->o.ignore_index;
}

/* NaN is greater than any number, as torch.argmax has it. */
static bool is_greater(double a, double b) { return a > b || (isnan(a) && !isnan(b)); }

static int64_t predicted(const batch *b, int64_t row)
{
    int64_t best = 0;
    if (b->classes == 1)
        return is_greater(score(b, row, 0), b->metric->o.threshold);
    for (int64_t k = 1; k < b->classes; k++)
        if (is_greater(score(b, row, k), score(b, row, best)))
            best = k;
    return best;
}

/* Scores as good as the target's that stand before it count as greater, so that scores that are all alike are no success. */
static bool is_among(const batch *b, int64_t row, int k)
{
    const int64_t target = label(b, row);
    int64_t before = 0;
    for (int64_t i = 0; i < b->classes; i++)
        before += i != target && (is_greater(score(b, row, i), score(b, row, target)) ||
                                  (i < target && score(b, row, i) == score(b, row, target)));
    return before < k;
}

static double cross_entropy(const batch *b, int64_t row)
{
    double most = -INFINITY, sum = 0;
    if (b->classes == 1) { /* of two, by one logit */
        const double x = score(b, row, 0) * (label(b, row) == 1 ? -1 : 1);
        return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    }
    for (int64_t k = 0; k < b->classes; k++)
        most = fmax(most, score(b, row, k));
    for (int64_t k = 0; k < b->classes; k++)
        sum += exp(score(b, row, k) - most);
    return most + log(sum) - score(b, row, label(b, row));
}

static samba_status check_labels(const batch *b)
{
    const samba_metric *m = b->metric;
    const int64_t classes = b->classes == 1 ? 2 : b->classes;
    if (m->o.average == SAMBA_AVERAGE_BINARY && classes != 2)
        return samba_fail(m->context, SAMBA_ERROR_SHAPE, "metric '%s' is binary and the scores are of %lld classes", m->name,
                          (long long)classes);
    for (int64_t i = 0; i < b->rows; i++) {
        const double value = number(b, i);
        if (samba_dtype_is_floating_point(b->target_dtype) && value != floor(value))
            return samba_fail(
                m->context, SAMBA_ERROR_DTYPE,
                "metric '%s': target %g is no class, which is a whole number: the metrics rmse and mae are for numbers", m->name,
                value);
        const int64_t target = label(b, i);
        if (!is_left_out(b, i) && (target < 0 || target >= classes))
            return samba_fail(m->context, SAMBA_ERROR_INDEX, "metric '%s': target %lld is not among the %lld classes", m->name,
                              (long long)target, (long long)classes);
    }
    return SAMBA_OK;
}

static samba_status room_for_classes(samba_metric *m, int64_t classes)
{
    SAMBA_TRY(SAMBA_GROW(m->context, m->classes, m->class_room, classes));
    m->class_count = classes > m->class_count ? classes : m->class_count;
    return SAMBA_OK;
}

static samba_status take_classes(samba_metric *m, const batch *b)
{
    SAMBA_TRY(check_labels(b));
    if (counts_classes(m->o.kind))
        SAMBA_TRY(room_for_classes(m, b->classes == 1 ? 2 : b->classes));
    for (int64_t i = 0; i < b->rows; i++) {
        if (is_left_out(b, i))
            continue;
        if (counts_classes(m->o.kind)) {
            const int64_t target = label(b, i), guess = predicted(b, i);
            m->classes[target].there++;
            m->classes[guess].predicted++;
            m->classes[target].right += guess == target;
            continue;
        }
        m->sum += m->o.kind == SAMBA_METRIC_TOP_K ? is_among(b, i, m->o.k) : cross_entropy(b, i);
        m->weight++;
    }
    return SAMBA_OK;
}

static void take_numbers(samba_metric *m, const batch *b)
{
    for (int64_t i = 0; i < b->rows; i++) {
        const double difference = score(b, i, 0) - number(b, i);
        m->sum += m->o.kind == SAMBA_METRIC_MAE ? fabs(difference) : difference * difference;
        m->weight++;
    }
}

static int64_t tail(const samba_tensor *tensor, int to)
{
    int64_t numel = 1;
    for (int d = 1; d < to; d++)
        numel *= samba_tensor_shape(tensor)[d];
    return numel;
}

static samba_status bad_shapes(const samba_metric *m, const samba_tensor *output, const samba_tensor *target)
{
    return samba_fail(
        m->context, SAMBA_ERROR_SHAPE, "metric '%s': an output of shape %s does not go with targets of %s: expected %s", m->name,
        SAMBA_SHAPE_OF(output), SAMBA_SHAPE_OF(target),
        is_of_numbers(m->o.kind) ? "as many elements in each sample"
                                 : "the targets' shape and a last dim of the classes, or one score for each target");
}

static samba_status measure(samba_metric *m, const samba_tensor *output, const samba_tensor *target, int64_t count, batch *b)
{
    const int rank = samba_tensor_rank(output), target_rank = samba_tensor_rank(target);
    if (rank < 1 || target_rank < 1 || output->shape[0] < count || target->shape[0] < count)
        return samba_fail(m->context, SAMBA_ERROR_SHAPE, "metric '%s': %lld samples of an output of shape %s and targets of %s",
                          m->name, (long long)count, SAMBA_SHAPE_OF(output), SAMBA_SHAPE_OF(target));
    const int64_t each = tail(target, target_rank), scores = tail(output, rank);
    const bool classes = !is_of_numbers(m->o.kind) && rank == target_rank + 1;
    if (classes ? (output->shape[rank - 1] < 1 || scores != each * output->shape[rank - 1]) : scores != each)
        return bad_shapes(m, output, target);
    if (!samba_dtype_is_floating_point(output->dtype) && !is_of_numbers(m->o.kind))
        return samba_fail(m->context, SAMBA_ERROR_DTYPE, "metric '%s': scores are floating-point numbers, given %s", m->name,
                          samba_dtype_name(output->dtype));
    b->rows = count * each;
    b->classes = classes ? output->shape[rank - 1] : 1;
    if (m->o.kind == SAMBA_METRIC_TOP_K && b->classes < 2)
        return bad_shapes(m, output, target);
    return SAMBA_OK;
}

/* The elements in C order; *copy is the caller's to free. */
static samba_status elements(const samba_metric *m, const samba_tensor *tensor, samba_tensor **copy, const char **data)
{
    *copy = NULL;
    if (!samba_tensor_has_data(tensor))
        return samba_fail(m->context, SAMBA_ERROR_STATE, "metric '%s': tensor '%s' has no data", m->name,
                          samba_tensor_name(tensor));
    if (!samba_tensor_is_contiguous(tensor)) {
        SAMBA_TRY(samba_tensor_new(m->context, NULL, tensor->dtype, tensor->rank, tensor->shape, copy));
        SAMBA_TRY(samba_tensor_copy(*copy, tensor));
    }
    *data = samba_tensor_data(*copy ? *copy : tensor);
    return SAMBA_OK;
}

samba_status samba_metric_update(samba_metric *m, const samba_tensor *output, const samba_tensor *target, int64_t count)
{
    SAMBA_NEED(NULL, m);
    SAMBA_NEED(m->context, output);
    SAMBA_NEED(m->context, target);
    if (m->o.kind == SAMBA_METRIC_MEAN)
        return samba_fail(m->context, SAMBA_ERROR_ARGUMENT, "metric '%s' is a mean of numbers: samba_metric_add gives them",
                          m->name);
    if (count < 0)
        return samba_fail(m->context, SAMBA_ERROR_ARGUMENT, "metric '%s': %lld samples", m->name, (long long)count);
    batch b = {.metric = m, .dtype = output->dtype, .target_dtype = target->dtype};
    samba_tensor *copies[2] = {NULL};
    SAMBA_TRY(measure(m, output, target, count, &b));
    samba_status status = elements(m, output, &copies[0], &b.scores);
    if (status == SAMBA_OK)
        status = elements(m, target, &copies[1], &b.targets);
    if (status == SAMBA_OK && is_of_numbers(m->o.kind))
        take_numbers(m, &b);
    else if (status == SAMBA_OK)
        status = take_classes(m, &b);
    samba_tensor_free(copies[0]);
    samba_tensor_free(copies[1]);
    return status;
}

samba_status samba_metric_add(samba_metric *m, double value, double weight)
{
    SAMBA_NEED(NULL, m);
    if (m->o.kind != SAMBA_METRIC_MEAN && m->o.kind != SAMBA_METRIC_PERPLEXITY)
        return samba_fail(m->context, SAMBA_ERROR_ARGUMENT, "metric '%s' takes outputs and targets: samba_metric_update",
                          m->name);
    if (!(weight >= 0) || isinf(weight))
        return samba_fail(m->context, SAMBA_ERROR_ARGUMENT, "metric '%s': a weight of %g: expected 0 or more", m->name, weight);
    if (weight > 0)
        m->sum += value * weight;
    m->weight += weight;
    return SAMBA_OK;
}

/* ---- values ---- */

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static double of_counts(samba_metric_kind kind, const counts *c)
{
    const double right = (double)c->right;
    switch (kind) {
    case SAMBA_METRIC_PRECISION: return ratio(right, (double)c->predicted);
    case SAMBA_METRIC_RECALL: return ratio(right, (double)c->there);
    default: return ratio(2 * right, (double)(c->predicted + c->there));
    }
}

static double of_classes(const samba_metric *m)
{
    counts all = {0};
    double sum = 0;
    int64_t present = 0;
    for (int64_t k = 0; k < m->class_count; k++) {
        const counts *c = &m->classes[k];
        all.right += c->right, all.predicted += c->predicted, all.there += c->there;
        if (c->predicted + c->there > 0) {
            sum += of_counts(m->o.kind, c);
            present++;
        }
    }
    if (all.there == 0)
        return NAN;
    if (m->o.kind == SAMBA_METRIC_ACCURACY)
        return (double)all.right / (double)all.there;
    if (m->o.average == SAMBA_AVERAGE_BINARY)
        return of_counts(m->o.kind, &m->classes[1]);
    return m->o.average == SAMBA_AVERAGE_MICRO ? of_counts(m->o.kind, &all) : sum / (double)present;
}

double samba_metric_value(const samba_metric *m)
{
    if (!m)
        return NAN;
    if (counts_classes(m->o.kind))
        return of_classes(m);
    if (m->weight == 0)
        return NAN;
    const double mean = m->sum / m->weight;
    return m->o.kind == SAMBA_METRIC_PERPLEXITY ? exp(mean) : m->o.kind == SAMBA_METRIC_RMSE ? sqrt(mean) : mean;
}
