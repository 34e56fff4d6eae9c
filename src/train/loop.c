/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: epochs of steps; behind a step what is due - a test, early stopping, the best weights, a checkpoint. A step is a
 * function of the session, the epoch's order and the schedule, all of which checkpoints keep, so a training that is resumed makes
 * the same bits. */
#include "base/busy.h"
#include "base/null.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

/* ---- a step ---- */

static void set_rates(samba_loop *loop, samba_run_options *run)
{
    const samba_schedule *s = &loop->o.schedule;
    for (int i = 0; i < loop->rate_count; i++) {
        const samba_train_rate *rate = &loop->rates[i];
        const double base = s->kind == SAMBA_SCHEDULE_PLATEAU ? rate->plateau.lr : rate->base;
        loop->sent[i] = (samba_hyperparameter){
            rate->name, samba_schedule_lr(s, base, loop->step, loop->epoch, loop->last_step < 0 ? 0 : loop->last_step)};
    }
    if (loop->rate_count > 0)
        loop->lr = loop->sent[0].value;
    run->hyperparameters = loop->sent;
    run->hyperparameter_count = loop->rate_count;
}

/* One step, of as many batches as the PEF accumulates; the loss is the mean over the replicas. `samples` are theirs together, 0
 * where the epoch has ended before. */
static samba_status step(samba_loop *loop, double *loss, int64_t *samples)
{
    *loss = 0;
    *samples = 0;
    for (int i = 0; i < loop->accumulation; i++) {
        samba_run_options run = samba_run_defaults();
        samba_feed_graph *graph;
        samba_batch batch;
        double part;
        SAMBA_TRY(samba_loader_next(loop->train, &batch));
        if (batch.count == 0)
            return i == 0 ? SAMBA_OK
                          : samba_fail(loop->context, SAMBA_ERROR_SHAPE,
                                       "samba_train: the epoch ended within a step of %d batches", loop->accumulation);
        SAMBA_TRY(samba_feed_run(&loop->feed, &batch, &run, &graph));
        if (i == 0)
            set_rates(loop, &run);
        run.data_parallel = loop->o.data_parallel;
        SAMBA_TRY(samba_run(loop->session, &run));
        SAMBA_TRY(samba_tensor_item(graph->outputs[0], &part));
        *loss += part / loop->accumulation;
        *samples += batch.count;
    }
    double sums[] = {*loss, (double)*samples};
    SAMBA_TRY(samba_train_sum(loop->context, &loop->replicas, 2, sums));
    *loss = sums[0] / loop->replicas.size;
    *samples = (int64_t)sums[1];
    if (isnan(*loss))
        return samba_fail(loop->context, SAMBA_ERROR_STATE,
                          "samba_train: the loss of step %lld is no number (NaN), which no further step can mend: a smaller lr, "
                          "max_grad_norm or a warm-up may keep it from that",
                          (long long)loop->step + 1);
    return SAMBA_OK;
}

/* ---- behind it ---- */

/* A value of what is watched: best, stop, plateau. The test behind the last step, where none was due, says what is best alone: a
 * training that goes on from there would not have had it. */
static samba_status watch(samba_loop *loop, double value, bool due, bool *improved)
{
    *improved = samba_is_better(value, loop->best, loop->greater);
    if (*improved) {
        loop->best = value;
        loop->best_step = loop->step;
    }
    if (due)
        loop->stopped = samba_early_stop_step(&loop->stop, value) || loop->stopped;
    for (int i = 0; i < loop->rate_count && due && loop->o.schedule.kind == SAMBA_SCHEDULE_PLATEAU; i++)
        samba_plateau_step(&loop->rates[i].plateau, &loop->o.schedule, value, loop->greater);
    return *improved ? samba_loop_save_best(loop) : SAMBA_OK;
}

static double epoch_mean(const samba_loop *loop)
{
    return loop->epoch_samples > 0 ? loop->epoch_sum / (double)loop->epoch_samples : NAN;
}

static samba_status test(samba_loop *loop, bool due)
{
    const samba_evaluate_options by = samba_loop_evaluation(loop);
    bool improved;
    SAMBA_TRY(samba_evaluate(loop->session, loop->validation, &by, &loop->values[0].value));
    for (int i = 0; i < loop->o.metric_count; i++)
        loop->values[i + 1].value = samba_metric_value(loop->metrics[i]);
    loop->tested = true;
    SAMBA_TRY(watch(loop, loop->values[loop->monitored].value, due, &improved));
    samba_train_event event = {.kind = SAMBA_TRAIN_VALIDATED,
                               .loss = epoch_mean(loop),
                               .value_count = loop->o.metric_count + 1,
                               .values = loop->values,
                               .improved = improved};
    SAMBA_TRY(samba_loop_tell_warnings(loop));
    SAMBA_TRY(samba_loop_tell_look(loop, event.loss, improved));
    return samba_loop_tell(loop, &event);
}

static samba_status end_epoch(samba_loop *loop, bool tested)
{
    const double loss = epoch_mean(loop);
    bool improved = false;
    if (!loop->o.validation)
        SAMBA_TRY(watch(loop, loss, true, &improved));
    if (!tested)
        SAMBA_TRY(samba_loop_tell_look(loop, loss, improved));
    samba_train_event event = {.kind = SAMBA_TRAIN_EPOCH, .samples = loop->epoch_samples, .loss = loss};
    SAMBA_TRY(samba_loop_tell(loop, &event));
    loop->last_loss = loss;
    loop->epoch++;
    loop->epoch_step = loop->epoch_samples = 0;
    loop->epoch_sum = 0;
    return SAMBA_OK;
}

/* All that is due behind a step, or at the end of an epoch whose length was not known before. */
static samba_status look(samba_loop *loop, bool epoch_ends, bool stepped)
{
    const samba_train_options *o = &loop->o;
    const bool last = loop->step == loop->last_step || (epoch_ends && o->epochs > 0 && loop->epoch + 1 >= o->epochs);
    const bool every = stepped && o->validate_every > 0 && loop->step % o->validate_every == 0;
    const bool checkpoint = o->checkpoint_every > 0 ? stepped && loop->step % o->checkpoint_every == 0 : epoch_ends;
    const bool due = every || (o->validate_every == 0 && epoch_ends), tests = o->validation && (due || last);
    if (tests)
        SAMBA_TRY(test(loop, due));
    if (epoch_ends)
        SAMBA_TRY(end_epoch(loop, tests));
    SAMBA_TRY(samba_loop_agree(loop));
    loop->finished = last || loop->stopped;
    return checkpoint || loop->finished ? samba_loop_save(loop) : SAMBA_OK;
}

/* ---- epochs ---- */

static samba_status take_step(samba_loop *loop, bool *ended)
{
    double loss;
    int64_t samples;
    SAMBA_TRY(step(loop, &loss, &samples));
    *ended = samples == 0;
    if (*ended)
        return SAMBA_OK;
    loop->step++;
    loop->epoch_step++;
    loop->epoch_sum += loss * (double)samples;
    loop->epoch_samples += samples;
    loop->samples += samples;
    samba_progress_step(&loop->progress, loop->epoch_step, loss);
    SAMBA_TRY(samba_loop_tell_warnings(loop));
    samba_train_event event = {.kind = SAMBA_TRAIN_STEP, .samples = samples, .loss = loss};
    return samba_loop_tell(loop, &event);
}

static samba_status epoch(samba_loop *loop)
{
    const int64_t number = loop->epoch, steps = loop->epoch_steps;
    if (loop->o.epochs > 0)
        snprintf(loop->label, sizeof loop->label, "epoch %lld/%lld", (long long)number + 1, (long long)loop->o.epochs);
    else
        snprintf(loop->label, sizeof loop->label, "epoch %lld", (long long)number + 1);
    samba_progress_begin(&loop->progress, loop->o.progress, loop->label, steps < 0 ? 0 : steps,
                         loop->o.batch_size * loop->accumulation * loop->replicas.size);
    loop->progress.lines = true;
    SAMBA_TRY(samba_loader_begin(loop->train, number, loop->epoch_step * loop->accumulation));
    while (loop->epoch == number && !loop->finished) {
        bool ended;
        SAMBA_TRY(take_step(loop, &ended));
        if (ended && loop->epoch_step == 0)
            return samba_fail(loop->context, SAMBA_ERROR_SHAPE, "samba_train: the source has no samples to train on");
        SAMBA_TRY(look(loop, ended || loop->epoch_step == steps, !ended));
    }
    samba_progress_end(&loop->progress);
    return SAMBA_OK;
}

static samba_status train(samba_loop *loop)
{
    SAMBA_TRY(samba_loop_join(loop));
    SAMBA_TRY(samba_loop_open(loop));
    SAMBA_TRY(samba_loop_resume(loop));
    SAMBA_TRY(samba_loop_open_history(loop));
    const samba_busy_mark begin = samba_busy_begin();
    while (!loop->finished)
        SAMBA_TRY(epoch(loop));
    char notice[160];
    if (loop->o.progress && samba_busy_notice(&begin, samba_session_threads(loop->session), notice)[0])
        fprintf(loop->o.progress, "%s\n", notice);
    return loop->o.restore_best ? samba_loop_restore_best(loop) : SAMBA_OK;
}

samba_status samba_train(samba_session *session, const samba_train_options *options, samba_train_result *result)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, options);
    samba_loop loop = {.context = session->context, .session = session, .lr = NAN, .began = samba_seconds()};
    SAMBA_TRY(samba_options_take(session->context, __func__, options, sizeof loop.o, &loop.o));
    samba_arena_init(&loop.arena, session->context);
    samba_status status = train(&loop);
    if (result)
        *result = (samba_train_result){.steps = loop.step,
                                       .epochs = loop.epoch + (loop.epoch_step > 0),
                                       .samples = loop.samples,
                                       .seconds = samba_seconds() - loop.began,
                                       .loss = loop.epoch_samples > 0 ? epoch_mean(&loop) : loop.last_loss,
                                       .best = loop.best,
                                       .best_step = loop.best_step,
                                       .stopped = loop.stopped};
    samba_loop_close(&loop);
    return status;
}
