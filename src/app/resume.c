/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of the command run. The order of samples is a function of seed, epoch and how many there are, so where the training
 * stands is the number of steps done; the rest of what it writes down lets a resumed run print and schedule as if it had never
 * stopped, and refuse data and options that it did not begin with. The rule for --resume:
 * the newest checkpoint that is whole, and whatever it passes over is said. */
#include "app/app.h"
#include "runtime/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const samba_lr_schedule_names[] = {"constant", "linear", "cosine"};

samba_status samba_app_checkpoint(const samba_app_run *run, samba_session *session, const samba_app_progress *at)
{
    const samba_app_arguments *a = run->arguments;
    const samba_app_schedule *s = &at->schedule;
    json_t *object =
        json_pack("{s:I, s:i, s:I, s:I, s:I, s:o, s:o, s:s, s:I, s:I, s:f, s:o, s:o, s:I, s:b}", "epoch_steps",
                  (json_int_t)at->epoch_steps, "replicas", at->replicas, "steps_done", (json_int_t)at->steps_done,
                  "train_samples", (json_int_t)at->train_count, "step_samples", (json_int_t)at->step_samples, "epoch_loss",
                  samba_json_number(at->epoch_loss), "base_lr", samba_json_number(at->base_lr), "lr_schedule",
                  samba_lr_schedule_names[s->kind], "warmup_steps", (json_int_t)s->warmup_steps, "total_steps",
                  (json_int_t)s->total_steps, "min_lr", s->min_lr, "best", samba_json_number(at->best), "stop_best",
                  samba_json_number(at->stop.best), "bad_tests", (json_int_t)at->stop.bad, "stopped", at->stopped);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return samba_fail(run->context, SAMBA_ERROR_MEMORY, "no memory for a checkpoint");
    samba_checkpoint_options options = samba_checkpoint_defaults();
    options.folder = a->checkpoint_dir;
    options.step = at->updates;
    options.keep = a->keep;
    options.shard_size = a->shard_size;
    options.text = text;
    samba_status status = samba_checkpoint_save(session, &options);
    free(text);
    return status;
}

/* Nobody's checkpoints are mixed with another run's. */
static samba_status check_empty(const samba_app_run *run)
{
    const char *folder = run->arguments->checkpoint_dir;
    samba_arena arena;
    int64_t *steps, count;
    samba_arena_init(&arena, run->context);
    samba_status status = samba_checkpoint_steps(&arena, folder, SAMBA_CHECKPOINT_WHOLE, &steps, &count);
    if (status == SAMBA_OK && count > 0)
        status = samba_fail(run->context, SAMBA_ERROR_STATE,
                            "--checkpoint-dir \"%s\" has checkpoints already, the newest of step %lld: give --resume to go on "
                            "from it, or another folder",
                            folder, (long long)steps[0]);
    samba_arena_free(&arena);
    return status;
}

static samba_status other_schedule(const samba_app_run *run, const samba_checkpoint *checkpoint, const char *saved,
                                   const char *given)
{
    return samba_fail(run->context, SAMBA_ERROR_STATE,
                      "\"%s\" is of a training with %s: leave %s out, or train anew in another folder",
                      samba_checkpoint_path(checkpoint), saved, given);
}

/* The training goes on by its own schedule: options that are given again must be those it began with. */
static samba_status check_schedule(const samba_app_run *run, const samba_checkpoint *checkpoint, const samba_app_schedule *saved)
{
    const samba_app_arguments *a = run->arguments;
    const samba_app_schedule *s = &a->schedule;
    char theirs[64], ours[64];
    const struct {
        bool given;
        const char *option;
        double saved, ours;
    } numbers[] = {{a->warmup_given, "--warmup-steps", (double)saved->warmup_steps, (double)s->warmup_steps},
                   {a->total_given, "--total-steps", (double)saved->total_steps, (double)s->total_steps},
                   {a->min_lr_given, "--min-lr", saved->min_lr, s->min_lr}};
    if (a->kind_given && s->kind != saved->kind) {
        snprintf(theirs, sizeof theirs, "--lr-schedule %s", samba_lr_schedule_names[saved->kind]);
        snprintf(ours, sizeof ours, "--lr-schedule %s", samba_lr_schedule_names[s->kind]);
        return other_schedule(run, checkpoint, theirs, ours);
    }
    for (int i = 0; i < SAMBA_COUNT(numbers); i++)
        if (numbers[i].given && numbers[i].saved != numbers[i].ours) {
            snprintf(theirs, sizeof theirs, "%s %.15g", numbers[i].option, numbers[i].saved);
            snprintf(ours, sizeof ours, "%s %.15g", numbers[i].option, numbers[i].ours);
            return other_schedule(run, checkpoint, i == 1 && numbers[i].saved == 0 ? "no --total-steps" : theirs, ours);
        }
    return SAMBA_OK;
}

/* Where another number of replicas stands that has seen as many samples of each epoch; it may see some that are in hand again. */
static void share_anew(samba_app_progress *at, int64_t step_samples, int64_t *steps, double *epoch_loss)
{
    const int64_t per_epoch = at->train_count / step_samples, now = at->train_count / at->step_samples;
    const int64_t epoch = *steps / per_epoch, within = *steps % per_epoch, within_now = within * step_samples / at->step_samples;
    *epoch_loss = within > 0 ? *epoch_loss / (double)within * (double)within_now : *epoch_loss;
    *steps = epoch * now + within_now;
}

static samba_status read_progress(const samba_app_run *run, const samba_checkpoint *checkpoint, samba_app_progress *at)
{
    const char *text = samba_checkpoint_text(checkpoint);
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    json_int_t steps, train, step;
    json_t *loss, *lr;
    const char *kind = NULL;
    samba_app_schedule schedule = {.kind = SAMBA_LR_SCHEDULES};
    json_int_t warmup = 0, total = 0, epoch_steps = 0, bad = 0; /* an earlier version's does not say how many */
    json_t *best = NULL, *stop_best = NULL;
    int stopped = 0;
    int replicas = 1;
    bool fine = object &&
                json_unpack(object, "{s?I, s?i, s:I, s:I, s:I, s:o, s:o, s?s, s?I, s?I, s?F, s?o, s?o, s?I, s?b}", "epoch_steps",
                            &epoch_steps, "replicas", &replicas, "steps_done", &steps, "train_samples", &train, "step_samples",
                            &step, "epoch_loss", &loss, "base_lr", &lr, "lr_schedule", &kind, "warmup_steps", &warmup,
                            "total_steps", &total, "min_lr", &schedule.min_lr, "best", &best, "stop_best", &stop_best,
                            "bad_tests", &bad, "stopped", &stopped) == 0 &&
                steps >= 0 && replicas > 0 && train > 0 && step > 0 && step <= train;
    if (!kind) /* an earlier version's: it kept no schedule, and so goes on only where there was none */
        kind = fine && json_is_null(lr) ? samba_lr_schedule_names[SAMBA_LR_CONSTANT] : "";
    for (int i = 0; i < SAMBA_LR_SCHEDULES; i++)
        if (strcmp(kind, samba_lr_schedule_names[i]) == 0)
            schedule.kind = (samba_lr_schedule)i;
    schedule.warmup_steps = warmup, schedule.total_steps = total;
    samba_status status = SAMBA_OK;
    if (!fine || schedule.kind == SAMBA_LR_SCHEDULES || warmup < 0 || total < 0)
        status = samba_fail(run->context, SAMBA_ERROR_FORMAT,
                            "\"%s\" was not saved by run --checkpoint-dir, or by an earlier version: it does not tell where the "
                            "training stands or by which schedule its learning rate goes on",
                            samba_checkpoint_path(checkpoint));
    else if (train != at->train_count || step / replicas != at->step_samples / at->replicas || at->step_samples > train)
        status = samba_fail(
            run->context, SAMBA_ERROR_STATE,
            "\"%s\" is of a training on %lld samples, %lld a step; this one has %lld and %lld: resume with the same data and PEF",
            samba_checkpoint_path(checkpoint), (long long)train, (long long)step, (long long)at->train_count,
            (long long)at->step_samples);
    else if (epoch_steps != 0 && step == at->step_samples && epoch_steps != at->epoch_steps)
        status = samba_fail(run->context, SAMBA_ERROR_STATE,
                            "\"%s\" is of a training with %lld steps in an epoch, and this one has %lld: give the same sizes of "
                            "samples, and --keep-last as then",
                            samba_checkpoint_path(checkpoint), (long long)epoch_steps, (long long)at->epoch_steps);
    else
        status = check_schedule(run, checkpoint, &schedule);
    if (status == SAMBA_OK) {
        int64_t done = steps;
        at->epoch_loss = json_is_number(loss) ? json_number_value(loss) : NAN;
        if (step != at->step_samples)
            share_anew(at, step, &done, &at->epoch_loss);
        at->steps_done = done;
        at->updates = samba_checkpoint_step(checkpoint);
        at->base_lr = json_is_number(lr) ? json_number_value(lr) : NAN;
        at->schedule = schedule;
        at->best = json_is_number(best) ? json_number_value(best) : NAN;
        at->stop.best = json_is_number(stop_best) ? json_number_value(stop_best) : NAN;
        at->stop.bad = bad;
        at->stopped = stopped;
    }
    json_decref(object);
    return status;
}

static samba_status check_seed(const samba_app_run *run, const samba_checkpoint *checkpoint, samba_app_progress *at)
{
    uint64_t seed = samba_checkpoint_seed(checkpoint);
    if (run->arguments->seed_given && run->arguments->seed != seed)
        return samba_fail(run->context, SAMBA_ERROR_STATE,
                          "\"%s\" is of a training with --seed %llu: leave --seed %llu out, or train anew in another folder",
                          samba_checkpoint_path(checkpoint), (unsigned long long)seed, (unsigned long long)run->arguments->seed);
    at->seed = seed;
    return SAMBA_OK;
}

/* Those that a run which was killed should have removed after its last save. Not before it is known which one is whole. */
static samba_status remove_old(const samba_app_run *run, int64_t step)
{
    const samba_app_arguments *a = run->arguments;
    samba_checkpoint_folder folder;
    samba_status status = samba_checkpoint_folder_open(run->context, a->checkpoint_dir, &folder);
    if (status == SAMBA_OK && a->keep > 0)
        status = samba_checkpoint_folder_keep(&folder, step, a->keep);
    samba_checkpoint_folder_close(&folder);
    return status;
}

samba_status samba_app_resume(const samba_app_run *run, samba_session *session, samba_app_progress *at, FILE *file)
{
    const samba_app_arguments *a = run->arguments;
    samba_checkpoint *checkpoint = NULL;
    at->seed = a->seed;
    at->base_lr = NAN;
    at->schedule = a->schedule;
    if (!a->checkpoint_dir)
        return SAMBA_OK;
    if (!a->resume && at->rank == 0)
        SAMBA_TRY(check_empty(run));
    if (at->rank == 0) /* the one that saves */
        SAMBA_TRY(samba_checkpoint_prepare(run->context, a->checkpoint_dir));
    if (!a->resume)
        return SAMBA_OK;
    SAMBA_TRY(samba_checkpoint_newest(run->context, a->checkpoint_dir, &checkpoint));
    if (!checkpoint) {
        fprintf(file, "no checkpoint in %s: the training starts\n", a->checkpoint_dir);
        return SAMBA_OK;
    }
    if (samba_checkpoint_skipped(checkpoint)[0] && at->rank == 0)
        fprintf(stderr, "%s: warning: passed over: %s\n", a->app->name, samba_checkpoint_skipped(checkpoint));
    samba_status status = read_progress(run, checkpoint, at);
    if (status == SAMBA_OK)
        status = check_seed(run, checkpoint, at);
    if (status == SAMBA_OK)
        status = samba_checkpoint_load(session, checkpoint);
    if (status == SAMBA_OK && at->rank == 0)
        status = remove_old(run, samba_checkpoint_step(checkpoint));
    if (status == SAMBA_OK)
        fprintf(file, "resumed from %s, the newest checkpoint that is whole\n", samba_checkpoint_path(checkpoint));
    samba_checkpoint_free(checkpoint);
    return status;
}
