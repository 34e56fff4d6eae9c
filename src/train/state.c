/* SPDX-License-Identifier: Apache-2.0
 *
 * What a checkpoint keeps of a training, beside the session: where it stands in the order of samples, the mean of the epoch so
 * far, the best value, what early stopping and the plateau know. It is the checkpoint's text, a JSON object. The best weights are
 * a file of their own, best.safetensors, whole whenever the process ends. */
#include "train/train.h"
#include "runtime/checkpoint.h"
#include "runtime/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- saving ---- */

static json_t *rates_json(const samba_loop *loop)
{
    json_t *list = json_array();
    for (int i = 0; i < loop->rate_count; i++) {
        const samba_train_rate *r = &loop->rates[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o, s:I, s:I}", "name", r->name, "base", samba_train_json(r->base),
                                        "lr", samba_train_json(r->plateau.lr), "best", samba_train_json(r->plateau.best), "bad",
                                        (json_int_t)r->plateau.bad, "cooling", (json_int_t)r->plateau.cooling));
    }
    return list;
}

static json_t *state_json(const samba_loop *loop)
{
    char seed[SAMBA_HEX64];
    const samba_train_options *o = &loop->o;
    return json_pack("{s:I, s:I, s:i, s:I, s:s, s:b, s:b, s:i, s:I, s:I, s:I, s:o, s:I, s:o, s:I, s:o, s:I, s:o, s:b, s:o}",
                     "train_format", (json_int_t)1, "train_samples", (json_int_t)samba_source_count(o->train), "replicas",
                     loop->replicas.size, "batch_size", (json_int_t)o->batch_size, "seed", samba_hex64(o->seed, seed), "in_order",
                     o->in_order, "drop_last", o->drop_last, "schedule", (int)o->schedule.kind, "epoch", (json_int_t)loop->epoch,
                     "epoch_step", (json_int_t)loop->epoch_step, "step", (json_int_t)loop->step, "epoch_sum",
                     samba_train_json(loop->epoch_sum), "epoch_samples", (json_int_t)loop->epoch_samples, "best",
                     samba_train_json(loop->best), "best_step", (json_int_t)loop->best_step, "stop_best",
                     samba_train_json(loop->stop.best), "stop_bad", (json_int_t)loop->stop.bad, "last_loss",
                     samba_train_json(loop->last_loss), "stopped", loop->stopped, "rates", rates_json(loop));
}

samba_status samba_loop_save(samba_loop *loop)
{
    if (!loop->o.folder || !samba_loop_saves(loop))
        return SAMBA_OK;
    json_t *object = state_json(loop);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    if (!text)
        return samba_fail(loop->context, SAMBA_ERROR_MEMORY, "no memory for a checkpoint");
    samba_checkpoint_options options = samba_checkpoint_defaults();
    options.folder = loop->o.folder;
    options.step = loop->step;
    options.keep = loop->o.keep;
    options.text = text;
    samba_status status = samba_checkpoint_save(loop->session, &options);
    free(text);
    return status;
}

static samba_status best_path(samba_loop *loop, samba_text *path)
{
    return samba_text_begin(path, loop->context, "%s/best.safetensors", loop->o.folder);
}

samba_status samba_loop_save_best(samba_loop *loop)
{
    samba_text path;
    if (!loop->o.folder || !samba_loop_saves(loop))
        return SAMBA_OK;
    samba_status status = best_path(loop, &path);
    if (status == SAMBA_OK)
        status = samba_session_save(loop->session, path.data, true);
    samba_text_clear(&path);
    return status;
}

samba_status samba_loop_restore_best(samba_loop *loop)
{
    samba_text path;
    if (isnan(loop->best))
        return SAMBA_OK;
    SAMBA_TRY(samba_loop_wait(loop)); /* until it is written */
    samba_status status = best_path(loop, &path);
    if (status == SAMBA_OK)
        status = samba_session_load(loop->session, path.data);
    samba_text_clear(&path);
    return status;
}

/* ---- resuming ---- */

static bool integer_of(const json_t *object, const char *key, int64_t *value)
{
    const json_t *its = json_object_get(object, key);
    *value = json_integer_value(its);
    return json_is_integer(its) && *value >= 0;
}

static bool real_of(const json_t *object, const char *key, double *value)
{
    const json_t *its = json_object_get(object, key);
    *value = json_is_number(its) ? json_number_value(its) : NAN;
    return json_is_number(its) || json_is_null(its);
}

static bool read_rates(samba_loop *loop, const json_t *list)
{
    if (!json_is_array(list) || (int)json_array_size(list) != loop->rate_count)
        return false;
    for (int i = 0; i < loop->rate_count; i++) {
        const json_t *its = json_array_get(list, (size_t)i);
        const char *name = json_string_value(json_object_get(its, "name"));
        samba_train_rate *r = &loop->rates[i];
        double base;
        if (!name || strcmp(name, r->name) != 0 || !real_of(its, "base", &base) || !real_of(its, "lr", &r->plateau.lr) ||
            !real_of(its, "best", &r->plateau.best) || !integer_of(its, "bad", &r->plateau.bad) ||
            !integer_of(its, "cooling", &r->plateau.cooling))
            return false;
        r->base = isnan(loop->o.lr) ? base : r->base; /* the session's is what the schedule had made of it */
    }
    return true;
}

static bool read_state(samba_loop *loop, const json_t *object)
{
    return integer_of(object, "epoch", &loop->epoch) && integer_of(object, "epoch_step", &loop->epoch_step) &&
           integer_of(object, "step", &loop->step) && real_of(object, "epoch_sum", &loop->epoch_sum) &&
           integer_of(object, "epoch_samples", &loop->epoch_samples) && real_of(object, "best", &loop->best) &&
           integer_of(object, "best_step", &loop->best_step) && real_of(object, "stop_best", &loop->stop.best) &&
           integer_of(object, "stop_bad", &loop->stop.bad) && real_of(object, "last_loss", &loop->last_loss) &&
           json_is_boolean(json_object_get(object, "stopped"));
}

static samba_status differs(const samba_loop *loop, const samba_checkpoint *checkpoint, const char *what, long long then,
                            long long now)
{
    return samba_fail(loop->context, SAMBA_ERROR_STATE,
                      "\"%s\" is of a training whose %s is %lld, and this one's is %lld: resume with the same data and options",
                      samba_checkpoint_path(checkpoint), what, then, now);
}

static samba_status check_same(const samba_loop *loop, const samba_checkpoint *checkpoint, const json_t *object)
{
    const samba_train_options *o = &loop->o;
    char seed[SAMBA_HEX64];
    const char *its = json_string_value(json_object_get(object, "seed"));
    const struct {
        const char *key, *words;
        long long now;
    } same[] = {{"train_samples", "count of samples", samba_source_count(o->train)},
                {"batch_size", "batch size", o->batch_size},
                {"schedule", "kind of schedule", (long long)o->schedule.kind}};
    const json_t *replicas = json_object_get(object, "replicas");
    if (replicas ? json_integer_value(replicas) != loop->replicas.size : loop->replicas.size > 1)
        return differs(loop, checkpoint, "count of replicas", replicas ? json_integer_value(replicas) : 1, loop->replicas.size);
    for (int i = 0; i < SAMBA_COUNT(same); i++) {
        const long long then = json_integer_value(json_object_get(object, same[i].key));
        if (then != same[i].now)
            return differs(loop, checkpoint, same[i].words, then, same[i].now);
    }
    if (!its || strcmp(its, samba_hex64(o->seed, seed)) != 0 ||
        json_is_true(json_object_get(object, "in_order")) != o->in_order ||
        json_is_true(json_object_get(object, "drop_last")) != o->drop_last)
        return samba_fail(loop->context, SAMBA_ERROR_STATE,
                          "\"%s\" is of a training with another order of samples: seed, in_order and drop_last must be as then",
                          samba_checkpoint_path(checkpoint));
    return SAMBA_OK;
}

static samba_status take(samba_loop *loop, const samba_checkpoint *checkpoint)
{
    const char *text = samba_checkpoint_text(checkpoint);
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    int64_t format;
    samba_status status = SAMBA_OK;
    if (!integer_of(object, "train_format", &format) || format != 1)
        status = samba_fail(loop->context, SAMBA_ERROR_STATE,
                            "\"%s\" was not saved by samba_train: give another folder, or train anew in an empty one",
                            samba_checkpoint_path(checkpoint));
    if (status == SAMBA_OK)
        status = check_same(loop, checkpoint, object);
    if (status == SAMBA_OK && (!read_state(loop, object) || !read_rates(loop, json_object_get(object, "rates")) ||
                               (loop->epoch_steps > 0 && loop->epoch_step >= loop->epoch_steps)))
        status = samba_fail(loop->context, SAMBA_ERROR_STATE, "\"%s\" is of a training with other learning rates, or damaged",
                            samba_checkpoint_path(checkpoint));
    if (status == SAMBA_OK)
        status = samba_checkpoint_load(loop->session, checkpoint);
    if (status == SAMBA_OK) {
        loop->stopped = json_is_true(json_object_get(object, "stopped"));
        loop->finished = loop->stopped || (loop->last_step >= 0 && loop->step >= loop->last_step) ||
                         (loop->o.epochs > 0 && loop->epoch >= loop->o.epochs);
    }
    json_decref(object);
    return status;
}

static samba_status check_empty(samba_loop *loop)
{
    samba_arena arena;
    int64_t *steps, count;
    samba_arena_init(&arena, loop->context);
    samba_status status = samba_checkpoint_steps(&arena, loop->o.folder, SAMBA_CHECKPOINT_WHOLE, &steps, &count);
    if (status == SAMBA_OK && count > 0)
        status =
            samba_fail(loop->context, SAMBA_ERROR_STATE,
                       "\"%s\" has checkpoints of another training, up to step %lld: give resume to go on, or another folder",
                       loop->o.folder, (long long)steps[0]);
    samba_arena_free(&arena);
    return status;
}

samba_status samba_loop_resume(samba_loop *loop)
{
    samba_checkpoint *checkpoint;
    if (!loop->o.folder)
        return SAMBA_OK;
    if (!loop->o.resume && loop->replicas.rank == 0)
        SAMBA_TRY(check_empty(loop));
    if (loop->replicas.rank == 0)
        SAMBA_TRY(samba_checkpoint_prepare(loop->context, loop->o.folder));
    SAMBA_TRY(samba_loop_wait(loop));
    if (!loop->o.resume)
        return SAMBA_OK;
    SAMBA_TRY(samba_checkpoint_newest(loop->context, loop->o.folder, &checkpoint));
    if (!checkpoint)
        return SAMBA_OK;
    if (samba_checkpoint_skipped(checkpoint)[0] && loop->o.progress)
        fprintf(loop->o.progress, "warning: passed over: %s\n", samba_checkpoint_skipped(checkpoint));
    samba_status status = take(loop, checkpoint);
    if (status == SAMBA_OK && loop->o.progress)
        fprintf(loop->o.progress, "resumed from %s\n", samba_checkpoint_path(checkpoint));
    samba_checkpoint_free(checkpoint);
    return status;
}
