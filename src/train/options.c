/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training was asked for: checked by name before anything runs, filled in where it was left out, and made into loaders,
 * metrics and rates. What would fail at the end of an epoch is refused here. */
#include "train/train.h"

#include <math.h>
#include <string.h>

samba_train_options samba_train_defaults(void)
{
    return (samba_train_options){.struct_size = sizeof(samba_train_options), .epochs = 1, .prefetch = 2, .keep = 2, .lr = NAN};
}

static samba_status bad_option(const samba_loop *loop, const char *name, const char *what)
{
    return samba_fail(loop->context, SAMBA_ERROR_ARGUMENT, "samba_train: %s %s", name, what);
}

static samba_status check_numbers(const samba_loop *loop)
{
    const samba_train_options *o = &loop->o;
    if (!o->train)
        return bad_option(loop, "train", "is NULL: the samples to train on are wanted");
    if (o->epochs < 0 || o->steps < 0 || (o->epochs == 0 && o->steps == 0))
        return bad_option(loop, "epochs and steps", "are 0 or more, and one of them is more");
    if (o->batch_size < 0 || o->validate_every < 0 || o->checkpoint_every < 0 || o->keep < 0 || o->patience < 0)
        return bad_option(loop, "batch_size, validate_every, checkpoint_every, keep and patience", "are 0 or more");
    if (!(o->min_delta >= 0) || isinf(o->min_delta))
        return bad_option(loop, "min_delta", "is 0 or more");
    if (o->metric_count < 0 || (o->metric_count > 0 && !o->metrics))
        return bad_option(loop, "metrics", "are missing, or their count is below 0");
    if (o->lr < 0 || isinf(o->lr))
        return bad_option(loop, "lr", "is 0 or more, or NaN for the session's");
    return SAMBA_OK;
}

/* An argument that would have no effect is a mistake. */
static samba_status check_effects(const samba_loop *loop)
{
    const samba_train_options *o = &loop->o;
    if (!o->validation && o->metric_count > 0)
        return bad_option(loop, "metrics", "are those of a validation, and there is none");
    if (!o->validation && o->validate_every > 0)
        return bad_option(loop, "validate_every", "is given, and there is no validation");
    if (!o->folder && (o->resume || o->restore_best || o->checkpoint_every > 0))
        return bad_option(loop, "resume, restore_best and checkpoint_every", "want a folder");
    if (o->min_delta > 0 && o->patience == 0)
        return bad_option(loop, "min_delta", "has no effect without patience");
    if (o->in_order && o->seed != 0)
        return bad_option(loop, "seed", "has no effect on samples that come in order");
    return SAMBA_OK;
}

/* ---- what is watched ---- */

static samba_status make_metrics(samba_loop *loop)
{
    const samba_train_options *o = &loop->o;
    SAMBA_TRY(SAMBA_ROOM(&loop->arena, loop->metrics, o->metric_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&loop->arena, loop->values, o->metric_count + 1));
    loop->values[0] = (samba_train_value){"loss", NAN};
    for (int i = 0; i < o->metric_count; i++) {
        SAMBA_TRY(samba_metric_new(loop->context, &o->metrics[i], &loop->metrics[i]));
        const char *name = samba_metric_name(loop->metrics[i]);
        for (int k = 0; k <= i; k++)
            if (strcmp(loop->values[k].name, name) == 0)
                return samba_fail(loop->context, SAMBA_ERROR_NAME,
                                  "samba_train: two figures are named '%s': samba_metric_options.name gives another", name);
        loop->values[i + 1] = (samba_train_value){name, NAN};
    }
    return SAMBA_OK;
}

static samba_status find_monitor(samba_loop *loop)
{
    const samba_train_options *o = &loop->o;
    const char *wanted = o->monitor ? o->monitor : "loss";
    samba_text names;
    const char **figures;
    SAMBA_TRY(SAMBA_ROOM(&loop->arena, figures, o->metric_count + 1));
    for (int i = 0; i <= o->metric_count; i++)
        figures[i] = loop->values[i].name;
    for (loop->monitored = 0; loop->monitored <= o->metric_count; loop->monitored++)
        if (strcmp(loop->values[loop->monitored].name, wanted) == 0) {
            loop->greater =
                loop->monitored > 0 && samba_metric_is_greater_better(samba_metric_its(loop->metrics[loop->monitored - 1])->kind);
            return SAMBA_OK;
        }
    const char *near = samba_nearest(wanted, figures, o->metric_count + 1);
    samba_text_init(&names, loop->context);
    for (int i = 0; i <= o->metric_count; i++)
        samba_text_add(&names, "%s'%s'", i ? ", " : "", figures[i]);
    samba_fail(loop->context, SAMBA_ERROR_NAME, "samba_train: monitor is '%s'%s%s%s, and the figures are %.400s", wanted,
               near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", names.data ? names.data : "");
    samba_text_clear(&names);
    return SAMBA_ERROR_NAME;
}

/* ---- loaders ---- */

static samba_loader_options loader_options(const samba_train_options *o, bool training)
{
    samba_loader_options by = samba_loader_defaults();
    by.batch_size = o->batch_size;
    by.shuffle = training && !o->in_order;
    by.seed = o->seed;
    by.drop_last = training && o->drop_last;
    by.prefetch = o->prefetch;
    by.pad_count = o->pad_count;
    by.pads = o->pads;
    return by;
}

static samba_status make_loaders(samba_loop *loop)
{
    samba_train_options *o = &loop->o;
    if (o->batch_size == 0)
        SAMBA_TRY(samba_feed_rows(loop->session, o->train, o->graph_name, &o->batch_size));
    samba_loader_options by = loader_options(o, true);
    SAMBA_TRY(samba_loader_new(loop->context, o->train, &by, &loop->train));
    SAMBA_TRY(samba_loader_deal(loop->train, loop->replicas.rank, loop->replicas.size, loop->accumulation));
    if (!o->validation)
        return SAMBA_OK;
    by = loader_options(o, false);
    return samba_loader_new(loop->context, o->validation, &by, &loop->validation);
}

static samba_status check_last_batches(samba_loop *loop)
{
    const samba_train_options *o = &loop->o;
    const int64_t train = samba_source_count(o->train), validation = o->validation ? samba_source_count(o->validation) : 0;
    if (train == 0)
        return samba_fail(loop->context, SAMBA_ERROR_SHAPE, "samba_train: the source has no samples to train on");
    if (o->validation && validation == 0)
        return samba_fail(loop->context, SAMBA_ERROR_SHAPE, "samba_train: the validation has no samples");
    if (train > 0 && !o->drop_last && train % o->batch_size > 0)
        SAMBA_TRY(samba_feed_check(&loop->feed, train % o->batch_size, true));
    if (validation > 0 && validation % o->batch_size > 0) {
        samba_feed feed;
        samba_status status = samba_feed_open(&feed, loop->session, o->validation, o->batch_size, o->pad_count > 0, o->graph_name,
                                              loop->feed.outputs[0]);
        if (status == SAMBA_OK)
            status = samba_feed_check(&feed, validation % o->batch_size, false);
        samba_feed_close(&feed);
        SAMBA_TRY(status);
    }
    return SAMBA_OK;
}

/* ---- steps ---- */

static samba_status count_steps(samba_loop *loop)
{
    const samba_train_options *o = &loop->o;
    const int64_t batches = samba_loader_batches(loop->train);
    const int64_t together = (int64_t)loop->accumulation * loop->replicas.size;
    loop->epoch_steps = batches < 0 ? -1 : batches / together;
    if (together > 1 && !o->drop_last &&
        (batches < 0 || batches % together > 0 || samba_source_count(o->train) % o->batch_size > 0))
        return samba_fail(
            loop->context, SAMBA_ERROR_SHAPE,
            "samba_train: a step of this PEF%s is %lld batches, and the last ones of an epoch may fill none: give drop_last",
            loop->replicas.size > 1 ? " and these replicas" : "", (long long)together);
    if (loop->epoch_steps == 0)
        return samba_fail(loop->context, SAMBA_ERROR_SHAPE,
                          "samba_train: a step takes %lld samples and there are only %lld to train on",
                          (long long)(o->batch_size * together), (long long)samba_source_count(o->train));
    loop->last_step = -1;
    if (o->epochs > 0 && loop->epoch_steps > 0 && !samba_mul_checked(loop->epoch_steps, o->epochs, &loop->last_step))
        loop->last_step = INT64_MAX;
    if (o->steps > 0 && loop->last_step > 0 && o->steps > loop->last_step)
        return samba_fail(loop->context, SAMBA_ERROR_ARGUMENT,
                          "samba_train: steps is %lld, and %lld epochs of %lld steps end before: give more epochs, or epochs 0, "
                          "which goes on until the steps are made",
                          (long long)o->steps, (long long)o->epochs, (long long)loop->epoch_steps);
    if (o->steps > 0 && (loop->last_step < 0 || o->steps < loop->last_step))
        loop->last_step = o->steps;
    return SAMBA_OK;
}

static bool is_rate(const char *name) { return strcmp(name, "lr") == 0 || samba_ends_with(name, ".lr"); }

static samba_status find_rates(samba_loop *loop)
{
    const samba_train_options *o = &loop->o;
    const bool scheduled = o->schedule.kind != SAMBA_SCHEDULE_CONSTANT || o->schedule.warmup_steps > 0 || !isnan(o->lr);
    if (scheduled || o->schedule.min_lr != 0)
        SAMBA_TRY(samba_schedule_check(loop->context, &o->schedule, loop->last_step < 0 ? 0 : loop->last_step));
    for (int i = 0; i < samba_session_hyperparameter_count(loop->session); i++) {
        samba_hyperparameter info;
        SAMBA_TRY(samba_session_hyperparameter(loop->session, i, &info));
        if (!is_rate(info.name))
            continue;
        loop->lr = loop->rate_count == 0 ? info.value : loop->lr;
        if (!scheduled)
            return SAMBA_OK;
        if (loop->rate_count == SAMBA_TRAIN_RATES)
            return samba_fail(loop->context, SAMBA_ERROR_UNSUPPORTED, "samba_train: a schedule of more than %d optimizers",
                              SAMBA_TRAIN_RATES);
        const double base = isnan(o->lr) ? info.value : o->lr;
        loop->rates[loop->rate_count++] = (samba_train_rate){info.name, base, samba_plateau_begin(base)};
    }
    if (scheduled && loop->rate_count == 0)
        return samba_fail(loop->context, SAMBA_ERROR_NAME, "samba_train: the PEF has no hyperparameter 'lr' for a schedule");
    return SAMBA_OK;
}

/* Without one a loop would run to its end, and no weight would move. */
static samba_status check_optimizer(const samba_loop *loop, const samba_plan_graph *graph)
{
    for (int32_t s = 0; s < graph->section_count; s++)
        if (strcmp(samba_section_type_names[loop->session->plan.sections[graph->first_section + s].phase], "OPT") == 0)
            return SAMBA_OK;
    return samba_fail(loop->context, SAMBA_ERROR_STATE,
                      "samba_train: graph '%s' was compiled without an optimizer and cannot train: give "
                      "samba_compile_options.optimizers one",
                      graph->name);
}

samba_evaluate_options samba_loop_evaluation(const samba_loop *loop)
{
    samba_evaluate_options by = samba_evaluate_defaults();
    by.loss = loop->o.loss;
    by.graph_name = loop->o.graph_name;
    by.metric_count = loop->o.metric_count;
    by.metrics = loop->metrics;
    by.data_parallel = loop->o.data_parallel;
    return by;
}

samba_status samba_loop_open(samba_loop *loop)
{
    samba_train_options *o = &loop->o;
    int32_t graph;
    SAMBA_TRY(check_numbers(loop));
    SAMBA_TRY(check_effects(loop));
    SAMBA_TRY(samba_feed_graph_of(loop->session, o->graph_name, &graph));
    if (loop->session->plan.graphs[graph].inference)
        return samba_fail(loop->context, SAMBA_ERROR_STATE, "samba_train: graph '%s' was compiled for inference and cannot train",
                          loop->session->plan.graphs[graph].name);
    SAMBA_TRY(check_optimizer(loop, &loop->session->plan.graphs[graph]));
    loop->accumulation = loop->session->plan.graphs[graph].grad_accumulation_steps;
    SAMBA_TRY(make_metrics(loop));
    SAMBA_TRY(find_monitor(loop));
    SAMBA_TRY(make_loaders(loop));
    if (!o->loss)
        SAMBA_TRY(samba_feed_find_loss(loop->session, o->graph_name, &o->loss));
    SAMBA_TRY(samba_feed_open(&loop->feed, loop->session, o->train, o->batch_size, o->pad_count > 0, o->graph_name, o->loss));
    SAMBA_TRY(count_steps(loop));
    SAMBA_TRY(check_last_batches(loop));
    SAMBA_TRY(samba_feed_check_inputs(loop->session, o->train, o->graph_name));
    if (o->validation) {
        const samba_evaluate_options by = samba_loop_evaluation(loop);
        SAMBA_TRY(samba_evaluate_check(loop->session, loop->validation, &by));
    }
    SAMBA_TRY(find_rates(loop));
    loop->stop = (samba_early_stop){o->patience, o->min_delta, loop->greater, NAN, 0};
    loop->best = loop->last_loss = NAN;
    return SAMBA_OK;
}

void samba_loop_close(samba_loop *loop)
{
    samba_progress_end(&loop->progress);
    samba_loader_free(loop->train);
    samba_loader_free(loop->validation);
    samba_feed_close(&loop->feed);
    for (int i = 0; loop->metrics && i < loop->o.metric_count; i++)
        samba_metric_free(loop->metrics[i]);
    if (loop->history)
        fclose(loop->history);
    samba_arena_free(&loop->arena);
}
