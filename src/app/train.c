/* SPDX-License-Identifier: Apache-2.0
 *
 * The command run, and the second half of train: trains a PEF on the application's samples and tests it; with --inference it only
 * does the latter. A model with an output `logits` of shape (batch, classes) is tested by counting how many samples it gets
 * right. Any other is tested by its loss, taken as the mean over its predictions: a language model's, whose exponential, the
 * perplexity, says among how many tokens it hesitates. A loss that is no number ends train. Batches are drawn in a new
 * order every epoch, a function of the seed; the rest of an epoch that fills no step makes a smaller one with --keep-last, and is
 * left out else (steps.c). The rest of the test samples is left out where a loss is wanted of data that does not say what counts.
 * Everything is allocated before the first step. */
#include "app/trainer.h"
#include "base/busy.h"
#include "train/train.h"
#include <sambaflow/profile.h>
#include <sambaflow/data.h>
#include <sambaflow/schedule.h>

#include <math.h>
#include <string.h>

static samba_status new_output(samba_trainer *t, const samba_plan_tensor *output, samba_tensor **tensor)
{
    return samba_tensor_new(t->context, output->name, (samba_dtype)output->dtype, output->rank, output->shape, tensor);
}

/* Logits that a test can count right answers of. */
static samba_status find_logits(samba_trainer *t, int32_t number)
{
    samba_train_graph *graph = &t->graphs[number];
    const samba_plan_tensor *logits = samba_plan_tensor_in(&t->plan, number, SAMBA_KIND_OUTPUT, "logits");
    for (int i = 0; i < graph->batches.tensor_count; i++) {
        const samba_tensor *tensor = graph->batches.tensors[i];
        if (strcmp(samba_tensor_name(tensor), "label") == 0 && samba_tensor_rank(tensor) == 1)
            graph->labels = tensor;
    }
    return graph->labels && logits && logits->rank == 2 && logits->shape[0] == graph->batches.batch
               ? new_output(t, logits, &graph->logits)
               : SAMBA_OK;
}

static samba_status find_outputs(samba_trainer *t)
{
    const char *pef = t->arguments->pef;
    const samba_plan_tensor *loss = NULL;
    for (int32_t g = 0; g < t->graph_count; g++)
        SAMBA_TRY(find_logits(t, g));
    const bool counted = t->graphs[0].logits != NULL;
    for (int i = 0; i < t->plan.tensor_count && !loss; i++)
        if (t->plan.tensors[i].kind == SAMBA_KIND_OUTPUT && t->plan.tensors[i].is_loss)
            loss = &t->plan.tensors[i];
    if (counted && t->arguments->inference)
        return SAMBA_OK;
    if (!loss || loss->rank != 0)
        return samba_fail(t->context, SAMBA_ERROR_NAME, "'%s' has no loss of one number%s: run cannot %s it", pef,
                          counted ? "" : " and no output 'logits' of shape (batch, classes)",
                          t->arguments->inference ? "test" : "train");
    return new_output(t, loss, &t->loss);
}

/* The rest of the last batch, which takes a graph of its own where no rows that do not count fill it up. */
static samba_status check_last(samba_trainer *t)
{
    const samba_app_arguments *a = t->arguments;
    const int64_t last = t->data.train_count % t->step_samples, rest = last % t->rows;
    const bool extra = t->graph_count > samba_app_sizes(a->app);
    const int64_t there = extra ? t->graphs[t->graph_count - 1].batches.batch : 0;
    t->keeps_last = !a->inference && (a->keep_last || extra);
    if (!t->keeps_last || t->data.weight || rest == there)
        return SAMBA_OK;
    if (rest == 0)
        return samba_fail(t->context, SAMBA_ERROR_SHAPE,
                          "'%s' has a graph for %lld samples of a last batch, and the last %lld of the %lld samples need none: "
                          "compile without --last-batch",
                          a->pef, (long long)there, (long long)last, (long long)t->data.train_count);
    return samba_fail(
        t->context, SAMBA_ERROR_SHAPE,
        "the last batch of %lld samples has %lld, and '%s' has no graph for %lld in a run: compile with --last-batch "
        "%lld",
        (long long)t->data.train_count, (long long)last, a->pef, (long long)rest, (long long)last);
}

static samba_status new_start(samba_trainer *t)
{
    char name[512];
    t->started = 1;
    if (!t->keeps_last || t->plan.graphs[0].grad_accumulation_steps == 1)
        return SAMBA_OK;
    snprintf(name, sizeof name, "%s%s", samba_tensor_name(t->loss), SAMBA_GRADIENT_OF);
    return samba_tensor_new(t->context, name, samba_tensor_dtype(t->loss), 0, NULL, &t->start);
}

static samba_status plan_steps(samba_trainer *t)
{
    const samba_app_arguments *a = t->arguments;
    t->step_samples = t->rows * t->plan.graphs[0].grad_accumulation_steps;
    SAMBA_TRY(check_last(t));
    SAMBA_TRY(new_start(t));
    SAMBA_TRY(samba_steps_plan(t));
    const int64_t per_epoch = t->epoch_steps;
    if (per_epoch == 0 && !a->inference)
        return samba_fail(t->context, SAMBA_ERROR_SHAPE,
                          "a step takes %lld samples but there are only %lld to train on: compile with a smaller batch size",
                          (long long)(t->step_samples * t->replicas.size), (long long)t->data.train_count);
    const bool whole = t->graphs[0].logits || t->data.weight; /* the last batch may have rows that do not count */
    t->tested = whole ? t->data.test_count : t->data.test_count / t->rows * t->rows;
    if (t->tested == 0 && (t->data.test_count > 0 || a->inference || a->eval_every || a->patience || a->save_best))
        return samba_fail(t->context, SAMBA_ERROR_SHAPE,
                          "a batch takes %lld samples but there are only %lld to test with: compile with a smaller batch size",
                          (long long)t->rows, (long long)t->data.test_count);
    if (!samba_mul_checked(per_epoch, a->num_epochs, &t->steps))
        t->steps = INT64_MAX;
    if (a->num_iterations && a->num_iterations < t->steps)
        t->steps = a->num_iterations;
    return SAMBA_ROOM(&t->arena, t->tests, t->rows);
}

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && name[length - tail - 1] == '.' && strcmp(name + length - tail, end) == 0;
}

/* What the session calls it: the optimizer of parameters that do not decay takes no weight decay from the command line. */
static samba_status name_hyperparameters(samba_trainer *t)
{
    static const char decayed[] = "decayed.weight_decay";
    for (int i = 0; i < samba_session_hyperparameter_count(t->session); i++) {
        samba_hyperparameter info;
        SAMBA_TRY(samba_session_hyperparameter(t->session, i, &info));
        for (int k = 0; k < t->hyperparameter_count && strcmp(info.name, decayed) == 0; k++)
            if (ends_in(decayed, t->hyperparameters[k].name))
                t->hyperparameters[k].name = decayed;
    }
    return SAMBA_OK;
}

/* The learning rate as the session has it, which a schedule scales. */
static samba_status plan_schedule(samba_trainer *t)
{
    const samba_app_arguments *a = t->arguments;
    t->hyperparameter_count = a->hyperparameter_count;
    memcpy(t->hyperparameters, a->hyperparameters, sizeof a->hyperparameters);
    SAMBA_TRY(name_hyperparameters(t));
    if (t->at.schedule.kind == SAMBA_LR_CONSTANT && t->at.schedule.warmup_steps == 0)
        return SAMBA_OK;
    for (int i = 0; i < a->hyperparameter_count && !t->lr; i++)
        if (strcmp(a->hyperparameters[i].name, "lr") == 0)
            t->lr = &t->hyperparameters[i];
    for (int i = 0; i < samba_session_hyperparameter_count(t->session) && !t->lr; i++) {
        samba_hyperparameter info;
        SAMBA_TRY(samba_session_hyperparameter(t->session, i, &info));
        if (strcmp(info.name, "lr") == 0 || ends_in(info.name, "lr")) {
            t->lr = &t->hyperparameters[t->hyperparameter_count++];
            *t->lr = (samba_hyperparameter){"lr", info.value}; /* of all optimizers */
        }
    }
    if (!t->lr)
        return samba_fail(t->context, SAMBA_ERROR_NAME,
                          "'%s' has no hyperparameter 'lr' that --lr-schedule or --warmup-steps could change", a->pef);
    if (a->hyperparameter_count < t->hyperparameter_count && !isnan(t->at.base_lr))
        t->lr->value = t->at.base_lr; /* resumed: the session has what the schedule made of it */
    t->at.base_lr = t->lr->value;
    return SAMBA_OK;
}

static double scheduled(const samba_trainer *t)
{
    const samba_app_schedule *s = &t->at.schedule;
    const samba_schedule schedule = {.kind = (samba_schedule_kind)s->kind, /* the same numbers */
                                     .warmup_steps = s->warmup_steps,
                                     .total_steps = s->total_steps,
                                     .min_lr = s->min_lr};
    return samba_schedule_lr(&schedule, t->at.base_lr, t->at.steps_done, 0, t->steps);
}

/* The samples, and room for a batch of each graph. */
static samba_status open_data(samba_trainer *t)
{
    const samba_app_arguments *a = t->arguments;
    samba_app_input inputs[SAMBA_APP_MAX_INPUTS];
    samba_text folder;
    int count;
    SAMBA_TRY(samba_app_check(t->run, &t->plan, 0, &count, inputs));
    t->rows = inputs[0].shape[0];
    samba_status status = samba_app_data_folder(t->context, a->data, &folder);
    if (status == SAMBA_OK)
        status = a->app->samples ? a->app->samples(t->context, a->app->user, folder.data, count, inputs, &t->data)
                                 : a->app->data(t->context, folder.data, count, inputs, &t->data);
    samba_text_clear(&folder);
    SAMBA_TRY(status);
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->graphs, t->plan.graph_count));
    for (int32_t g = 0; g < t->plan.graph_count; g++) {
        samba_train_graph *graph = &t->graphs[t->graph_count++];
        *graph = (samba_train_graph){.name = t->plan.graph_count > 1 ? t->plan.graphs[g].name : NULL};
        SAMBA_TRY(samba_app_check(t->run, &t->plan, g, &count, inputs));
        SAMBA_TRY(samba_batches_new(t->context, &t->data, inputs, &graph->batches));
    }
    return SAMBA_OK;
}

static samba_status open_trainer(samba_trainer *t)
{
    const samba_app_arguments *a = t->arguments;
    if (a->save)
        SAMBA_TRY(samba_check_output(t->context, "--save", a->save, a->pef));
    if (a->save_best)
        SAMBA_TRY(samba_check_output(t->context, "--save-best", a->save_best, a->pef));
    SAMBA_TRY(samba_pef_read(t->context, a->pef, &t->plan));
    if (t->plan.graphs[0].inference && !a->inference)
        return samba_fail(t->context, SAMBA_ERROR_STATE,
                          "'%s' was compiled with --inference and cannot train: give --inference to test it, or compile again",
                          a->pef);
    SAMBA_TRY(open_data(t));
    SAMBA_TRY(find_outputs(t));
    const samba_metric_options accuracy = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    SAMBA_TRY(samba_metric_new(t->context, &accuracy, &t->accuracy));
    if (a->data_parallel)
        SAMBA_TRY(samba_replicas_find(t->context, &t->replicas));
    if (a->world_size && a->world_size != t->replicas.size)
        return samba_fail(t->context, SAMBA_ERROR_ARGUMENT,
                          "--world-size is %d, and the replicas are %d: start it by mpirun -n %d, or leave --world-size out",
                          a->world_size, t->replicas.size, a->world_size);
    if (t->replicas.rank > 0) { /* the first speaks for all */
        t->quiet = fopen("/dev/null", "w");
        t->progress_file = t->quiet ? t->quiet : t->progress_file;
    }
    SAMBA_TRY(plan_steps(t));
    samba_session_options options = samba_app_session(a);
    SAMBA_TRY(samba_session_new(t->context, a->pef, &options, &t->session));
    if (a->app->started)
        SAMBA_TRY(a->app->started(t->context, a->app->user, t->session));
    if (a->load)
        SAMBA_TRY(samba_session_load(t->session, a->load));
    t->at.train_count = t->data.train_count;
    t->at.step_samples = t->step_samples * t->replicas.size;
    t->at.epoch_steps = t->epoch_steps;
    t->at.replicas = t->replicas.size;
    t->at.rank = t->replicas.rank;
    if (t->replicas.rank > 0) /* behind the first, which makes the folder and removes what is old */
        SAMBA_TRY(samba_replicas_wait(t->context));
    t->at.stop = (samba_early_stop){a->patience, a->min_delta, t->graphs[0].logits != NULL, NAN, 0};
    t->at.best = NAN;
    SAMBA_TRY(samba_app_resume(t->run, t->session, &t->at, t->progress_file));
    if (t->at.stopped)
        t->steps = t->at.steps_done;
    if (t->replicas.rank == 0 && t->replicas.size > 1)
        SAMBA_TRY(samba_replicas_wait(t->context));
    return plan_schedule(t);
}

static void close_trainer(samba_trainer *t)
{
    samba_session_free(t->session);
    samba_tensor_free(t->loss);
    samba_tensor_free(t->start);
    samba_metric_free(t->accuracy);
    for (int32_t g = 0; g < t->graph_count; g++) {
        samba_tensor_free(t->graphs[g].logits);
        samba_batches_free(&t->graphs[g].batches);
    }
    samba_app_data_free(&t->data);
    samba_plan_free(&t->plan);
    samba_arena_free(&t->arena);
    json_decref(t->log);
    json_decref(t->tests_log);
    json_decref(t->epochs);
    json_decref(t->warnings);
    if (t->quiet)
        fclose(t->quiet);
}

/* Everything behind it would be no number either. `run` goes on all the same, as sessions do, which warn. */
static samba_status check_loss(const samba_trainer *t, double loss)
{
    if (!isnan(loss) || t->arguments->command != SAMBA_APP_TRAIN)
        return SAMBA_OK;
    return samba_fail(t->context, SAMBA_ERROR_STATE,
                      "the loss of step %lld is no number (NaN): the training stops, as no further step can mend it. A smaller "
                      "--lr, --max-grad-norm or --warmup-steps may keep it from that",
                      (long long)t->at.steps_done + 1);
}

void samba_train_run_of(samba_trainer *t, const samba_train_graph *graph, samba_run_options *run)
{
    run->graph_name = graph->name;
    run->input_count = graph->batches.tensor_count;
    run->inputs = graph->batches.tensors;
    run->output_count = 1;
    run->outputs = &t->loss;
    run->data_parallel = t->arguments->data_parallel;
    run->reduce_on_rdu = t->arguments->reduce_on_rdu;
    run->data_parallel_mode = samba_replica_modes[t->arguments->mode];
    run->hyperparameter_count = t->hyperparameters_sent ? 0 : t->hyperparameter_count;
    run->hyperparameters = t->hyperparameters;
}

samba_status samba_train_start_from(samba_trainer *t, double gradient, samba_run_options *run)
{
    if (!t->start || t->started == gradient)
        return SAMBA_OK;
    samba_store_double(samba_tensor_dtype(t->start), samba_tensor_data(t->start), gradient);
    run->output_gradients = &t->start;
    run->output_gradient_count = 1;
    t->started = gradient;
    return SAMBA_OK;
}

/* A whole step: `loss` is the mean over its micro-batches, which the session counts by itself. */
static samba_status run_whole(samba_trainer *t, const samba_train_step *step, double *loss)
{
    samba_train_graph *graph = &t->graphs[step->size];
    const int64_t *samples = t->order + step->first + t->replicas.rank * t->step_samples;
    for (int i = 0; i < t->plan.graphs[0].grad_accumulation_steps; i++) {
        samba_run_options run = samba_run_defaults();
        double part;
        samba_train_run_of(t, graph, &run);
        SAMBA_TRY(samba_train_start_from(t, 1, &run));
        SAMBA_TRY(samba_batches_fill(&graph->batches, samples + i * t->rows, t->rows));
        SAMBA_TRY(samba_run(t->session, &run));
        t->hyperparameters_sent = true;
        SAMBA_TRY(samba_tensor_item(t->loss, &part));
        *loss += part / t->plan.graphs[0].grad_accumulation_steps;
    }
    return SAMBA_OK;
}

static samba_status train_step(samba_trainer *t, const samba_train_step *step, double *loss)
{
    *loss = 0;
    if (t->lr) {
        t->lr->value = scheduled(t);
        t->hyperparameters_sent = false;
    }
    SAMBA_TRY(step->count < t->step_samples ? samba_steps_run_smaller(t, step, loss) : run_whole(t, step, loss));
    return check_loss(t, *loss);
}

/* All have the same weights, so one saves; where each has a part of the optimizer's state, all do. */
static bool saves(const samba_trainer *t) { return t->replicas.rank == 0 || t->arguments->shard_optimizer; }

/* Checkpoints are due every so many steps, or with each epoch, and after the last step. */
static samba_status checkpoint_if_due(samba_trainer *t, bool epoch_ends)
{
    const samba_app_arguments *a = t->arguments;
    bool due = a->checkpoint_every ? t->at.steps_done % a->checkpoint_every == 0 : epoch_ends;
    return a->checkpoint_dir && saves(t) && (due || t->at.steps_done == t->steps)
               ? samba_app_checkpoint(t->run, t->session, &t->at)
               : SAMBA_OK;
}

/* What a test between says: the best weights are saved, and the training may stop. The test behind the last step, where none was
 * due, does not count for that: a training that goes on from there would not have had it. */
static samba_status follow_test(samba_trainer *t, bool due)
{
    const samba_app_arguments *a = t->arguments;
    const double value = samba_train_tested(t);
    const bool improved = samba_is_better(value, t->at.best, t->at.stop.greater);
    if (improved)
        t->at.best = value;
    if (improved && a->save_best)
        SAMBA_TRY(samba_session_save(t->session, a->save_best, true));
    if (!due || !samba_early_stop_step(&t->at.stop, value))
        return SAMBA_OK;
    t->at.stopped = true;
    t->steps = t->at.steps_done;
    fprintf(t->progress_file, "stopped at step %lld: %lld tests were no better than the best\n", (long long)t->at.steps_done,
            (long long)a->patience);
    return SAMBA_OK;
}

/* Behind a step: what is due of lines, tests and checkpoints. */
static samba_status follow_step(samba_trainer *t, double loss, bool epoch_ends, samba_progress *progress)
{
    const samba_app_arguments *a = t->arguments;
    const int64_t step = t->at.steps_done;
    const bool logs = a->log_every && step % a->log_every == 0;
    const bool watches = a->patience || a->save_best;
    const bool due = a->eval_every ? step % a->eval_every == 0 : watches && step % t->epoch_steps == 0;
    const bool tests = ((due && step < t->steps) || (watches && step == t->steps)) && t->replicas.rank == 0;
    if (logs || tests)
        samba_progress_end(progress);
    if (logs)
        samba_train_report_step(t, loss);
    if (tests)
        SAMBA_TRY(samba_train_evaluate_between(t));
    if (tests && watches)
        SAMBA_TRY(follow_test(t, due));
    return checkpoint_if_due(t, epoch_ends);
}

/* The epoch's steps from `first` on. */
static samba_status train_epoch(samba_trainer *t, int64_t epoch, int64_t epochs, int64_t first, int64_t steps)
{
    char label[64];
    snprintf(label, sizeof label, "epoch %lld/%lld", (long long)epoch, (long long)epochs);
    const double whole = (double)(t->step_samples * t->replicas.size);
    double counted = 0;
    int64_t samples = 0;
    samba_steps_draw(t, epoch);
    for (int64_t i = 0; i < first; i++)
        counted += (double)t->plan_of_steps[i].count / whole;
    samba_progress progress;
    samba_progress_begin(&progress, t->progress_file, label, steps, t->step_samples * t->replicas.size);
    double start = samba_seconds();
    samba_status status = SAMBA_OK;
    if (first == 0)
        t->at.epoch_loss = 0;
    for (int64_t i = first; status == SAMBA_OK && i < steps && !t->at.stopped; i++) {
        double loss;
        const samba_train_step *step = &t->plan_of_steps[i];
        status = train_step(t, step, &loss);
        samba_app_warnings(t->arguments->app->name, t->session, t->warnings, &progress);
        if (status != SAMBA_OK)
            break;
        t->at.epoch_loss += loss * ((double)step->count / whole); /* a smaller step counts less */
        counted += (double)step->count / whole;
        samples += step->count;
        t->at.steps_done++;
        t->at.updates++;
        samba_progress_step(&progress, i + 1, loss);
        status = follow_step(t, loss, i + 1 == steps, &progress);
    }
    double seconds = samba_seconds() - start;
    samba_progress_end(&progress);
    SAMBA_TRY(status);
    t->train_seconds += seconds;
    t->trained += samples;
    double loss = t->at.epoch_loss / counted;
    SAMBA_TRY(samba_train_sum(t->context, &t->replicas, 1, &loss));
    loss /= t->replicas.size;
    samba_train_report_epoch(t, epoch, epochs, loss, seconds, samples);
    return SAMBA_OK;
}

static samba_status train(samba_trainer *t)
{
    int64_t per_epoch = t->epoch_steps, epochs = (t->steps + per_epoch - 1) / per_epoch;
    const samba_busy_mark begin = samba_busy_begin();
    for (int64_t epoch = t->at.steps_done / per_epoch + 1; epoch <= epochs && t->at.steps_done < t->steps; epoch++) {
        int64_t before = (epoch - 1) * per_epoch, left = t->steps - before;
        SAMBA_TRY(train_epoch(t, epoch, epochs, t->at.steps_done - before, left < per_epoch ? left : per_epoch));
    }
    char notice[160];
    if (samba_busy_notice(&begin, samba_session_threads(t->session), notice)[0])
        fprintf(stderr, "%s\n", notice);
    return SAMBA_OK;
}

samba_status samba_app_train(const samba_app_run *run)
{
    const samba_app_arguments *a = run->arguments;
    samba_trainer t = {.run = run,
                       .arguments = a,
                       .context = run->context,
                       .progress_file = a->json ? stderr : stdout,
                       .replicas = {.size = 1, .local_size = 1}};
    samba_plan_init(&t.plan, run->context);
    samba_arena_init(&t.arena, run->context);
    if (a->json) {
        t.epochs = json_array();
        t.warnings = json_array();
        t.log = a->log_every ? json_array() : NULL;
        t.tests_log = a->eval_every || a->patience || a->save_best ? json_array() : NULL;
    }
    samba_status status = open_trainer(&t);
    if (status == SAMBA_OK && !a->inference)
        status = train(&t);
    const bool first = t.replicas.rank == 0; /* all have the same weights: one tests them */
    if (status == SAMBA_OK && a->save && saves(&t))
        status = samba_session_save(t.session, a->save, true);
    if (status == SAMBA_OK && first && !a->inference && a->app->trained)
        status = a->app->trained(t.context, a->app->user, t.session, a->json ? stderr : stdout);
    if (status == SAMBA_OK && first)
        status = samba_train_evaluate(&t);
    if (status == SAMBA_OK && first)
        status = samba_train_report(&t);
    close_trainer(&t);
    return status;
}
