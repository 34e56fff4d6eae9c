/* SPDX-License-Identifier: Apache-2.0
 *
 * A test: FWD in eval mode over all batches of a loader. The loss is the mean over samples, metrics sum up what they count.
 * Replicas take a part of the batches each. */
#include "base/null.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

samba_evaluate_options samba_evaluate_defaults(void)
{
    return (samba_evaluate_options){.struct_size = sizeof(samba_evaluate_options)};
}

typedef struct evaluation {
    samba_feed feed;
    const samba_evaluate_options *o;
    int *outputs, *fields; /* of each metric: where its output and its field lie; -1: it goes by the loss */
    samba_replicas replicas;
    double sum;
    int64_t samples;
} evaluation;

static int field_of(const samba_source *source, const char *name)
{
    for (int i = 0; i < source->o.field_count; i++)
        if (strcmp(source->o.fields[i].name, name) == 0)
            return i;
    return -1;
}

static samba_status place_metric(evaluation *e, int index)
{
    const samba_metric_options *m = samba_metric_its(e->o->metrics[index]);
    samba_context *context = e->feed.session->context;
    e->outputs[index] = e->fields[index] = -1;
    if (m->kind == SAMBA_METRIC_MEAN || (m->kind == SAMBA_METRIC_PERPLEXITY && e->o->loss))
        return m->kind == SAMBA_METRIC_MEAN && !e->o->loss
                   ? samba_fail(context, SAMBA_ERROR_ARGUMENT, "metric '%s' is the mean of a loss, and no loss is named", m->name)
                   : SAMBA_OK;
    SAMBA_TRY(samba_feed_add(&e->feed, m->output, &e->outputs[index]));
    e->fields[index] = field_of(e->feed.source, m->target);
    if (e->fields[index] >= 0)
        return SAMBA_OK;
    samba_text names;
    samba_feed_list_fields(&names, e->feed.session, e->feed.source);
    samba_fail(context, SAMBA_ERROR_NAME,
               "metric '%s' compares with field '%s', and the source has no such field: `target` of its options is one of %.400s",
               m->name, m->target, names.data ? names.data : "none");
    samba_text_clear(&names);
    return SAMBA_ERROR_NAME;
}

static samba_status take_batch(evaluation *e, const samba_batch *batch)
{
    static const char *const forward[] = {"FWD"};
    samba_run_options run = samba_run_defaults();
    samba_feed_graph *graph;
    double loss = NAN;
    run.train = false;
    run.section_types = forward;
    run.section_type_count = 1;
    SAMBA_TRY(samba_feed_run(&e->feed, batch, &run, &graph));
    SAMBA_TRY(samba_run(e->feed.session, &run));
    if (e->o->loss) {
        SAMBA_TRY(samba_tensor_item(graph->outputs[0], &loss));
        e->sum += loss * (double)batch->count;
    }
    e->samples += batch->count;
    for (int i = 0; i < e->o->metric_count; i++)
        SAMBA_TRY(e->outputs[i] < 0 ? samba_metric_add(e->o->metrics[i], loss, (double)batch->count)
                                    : samba_metric_update(e->o->metrics[i], graph->outputs[e->outputs[i]],
                                                          batch->padded[e->fields[i]], batch->count));
    return SAMBA_OK;
}

static samba_status take_all(evaluation *e, samba_loader *loader)
{
    samba_batch batch;
    for (int i = 0; i < e->o->metric_count; i++)
        samba_metric_reset(e->o->metrics[i]);
    SAMBA_TRY(samba_loader_begin(loader, 0, 0));
    for (;;) {
        SAMBA_TRY(samba_loader_next(loader, &batch));
        if (batch.count == 0)
            return SAMBA_OK;
        SAMBA_TRY(take_batch(e, &batch));
    }
}

/* The same by all replicas, each some of the batches; each gets what all have counted. */
static samba_status take_dealt(evaluation *e, samba_loader *loader)
{
    samba_context *context = e->feed.session->context;
    SAMBA_TRY(samba_replicas_find(context, &e->replicas));
    SAMBA_TRY(samba_loader_deal(loader, e->replicas.rank, e->replicas.size, 1));
    samba_status status = take_all(e, loader);
    samba_loader_deal(loader, 0, 1, 1);
    SAMBA_TRY(status);
    double sums[] = {e->sum, (double)e->samples};
    SAMBA_TRY(samba_train_sum(context, &e->replicas, 2, sums));
    e->sum = sums[0], e->samples = (int64_t)sums[1];
    for (int i = 0; i < e->o->metric_count; i++)
        SAMBA_TRY(samba_metric_share(e->o->metrics[i], &e->replicas));
    return SAMBA_OK;
}

/* `e` has its options, and is to be closed whatever becomes of it. */
static samba_status open_all(evaluation *e, samba_session *session, const samba_loader *loader)
{
    const samba_loader_options *by = samba_loader_its(loader);
    const samba_source *source = samba_loader_source(loader);
    SAMBA_TRY(samba_feed_open(&e->feed, session, source, by->batch_size, by->pad_count > 0, e->o->graph_name, e->o->loss));
    SAMBA_TRY(samba_feed_check_inputs(session, source, e->o->graph_name));
    SAMBA_TRY(SAMBA_ROOM(&e->feed.arena, e->outputs, e->o->metric_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&e->feed.arena, e->fields, e->o->metric_count + 1));
    for (int i = 0; i < e->o->metric_count; i++)
        SAMBA_TRY(place_metric(e, i));
    return SAMBA_OK;
}

samba_status samba_evaluate_check(samba_session *session, const samba_loader *loader, const samba_evaluate_options *options)
{
    evaluation e = {.o = options};
    const samba_status status = open_all(&e, session, loader);
    samba_feed_close(&e.feed);
    return status;
}

samba_status samba_evaluate(samba_session *session, samba_loader *loader, const samba_evaluate_options *options, double *loss)
{
    SAMBA_NEED(NULL, session);
    samba_context *context = session->context;
    SAMBA_NEED(context, loader);
    samba_evaluate_options o = samba_evaluate_defaults();
    if (options)
        SAMBA_TRY(samba_options_take(context, __func__, options, sizeof o, &o));
    if (o.metric_count < 0 || (o.metric_count > 0 && !o.metrics))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_evaluate: %d metrics were given", o.metric_count);
    for (int i = 0; i < o.metric_count; i++)
        SAMBA_NEED(context, o.metrics[i]);
    if (!o.loss && o.metric_count == 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_evaluate: neither a loss nor a metric is asked for");
    if (loss && !o.loss)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "samba_evaluate: a loss is wanted, and `loss` of the options names none");
    evaluation e = {.o = &o};
    samba_status status = open_all(&e, session, loader);
    if (status == SAMBA_OK)
        status = o.data_parallel ? take_dealt(&e, loader) : take_all(&e, loader);
    if (loss)
        *loss = e.samples > 0 ? e.sum / (double)e.samples : NAN;
    samba_feed_close(&e.feed);
    return status;
}
