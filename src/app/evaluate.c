/* SPDX-License-Identifier: Apache-2.0
 *
 * The test of a training: by how many answers are right, or by the loss. The last batch is filled up with rows that are not
 * counted. The loss is the mean over predictions where the data says how many a sample has, since samples of a text differ in how
 * much of them is learned; else over whole batches, whose means weigh alike. */
#include "app/trainer.h"

#include <math.h>

/* How much the batch counts: its predictions, or its samples. */
static int64_t weigh(const samba_trainer *t, int64_t count)
{
    int64_t sum = 0;
    if (!t->data.weight)
        return count;
    for (int64_t i = 0; i < count; i++)
        sum += t->data.weight(t->data.user, t->tests[i]);
    return sum;
}

typedef struct tally { /* of a test */
    double sum;        /* of losses, each times what it counts */
    int64_t weights;   /* what they count together */
} tally;

/* The `count` samples of t->tests, of one size. */
static samba_status evaluate_batch(samba_trainer *t, samba_train_graph *graph, int64_t count, tally *all)
{
    static const char *const forward[] = {"FWD"};
    samba_run_options run = samba_run_defaults();
    double part = 0;
    const int64_t weight = weigh(t, count);
    if (weight == 0)
        return SAMBA_OK;
    run.train = false;
    run.section_type_count = 1;
    run.section_types = forward;
    run.graph_name = graph->name;
    run.input_count = graph->batches.tensor_count;
    run.inputs = graph->batches.tensors;
    run.output_count = 1;
    run.outputs = graph->logits ? &graph->logits : &t->loss;
    SAMBA_TRY(samba_batches_fill(&graph->batches, t->tests, count));
    SAMBA_TRY(samba_run(t->session, &run));
    if (graph->logits)
        SAMBA_TRY(samba_metric_update(t->accuracy, graph->logits, graph->labels, count));
    else
        SAMBA_TRY(samba_tensor_item(t->loss, &part));
    all->sum += part * (double)weight;
    all->weights += weight;
    return SAMBA_OK;
}

/* The test samples of one size, a batch at a time. */
static samba_status evaluate_size(samba_trainer *t, int size, tally *all)
{
    int64_t count = 0;
    for (int64_t i = t->data.train_count; i < t->data.train_count + t->tested; i++) {
        if (t->data.size && t->data.size(t->data.user, i) != size)
            continue;
        t->tests[count++] = i;
        if (count < t->rows)
            continue;
        SAMBA_TRY(evaluate_batch(t, &t->graphs[size], count, all));
        count = 0;
    }
    return count > 0 ? evaluate_batch(t, &t->graphs[size], count, all) : SAMBA_OK;
}

samba_status samba_train_evaluate(samba_trainer *t)
{
    tally all = {.sum = 0};
    samba_metric_reset(t->accuracy);
    for (int size = 0; size < samba_app_sizes(t->arguments->app); size++)
        SAMBA_TRY(evaluate_size(t, size, &all));
    t->right = t->graphs[0].logits ? llround(samba_metric_value(t->accuracy) * (double)t->tested) : 0;
    t->test_loss = all.sum / (double)all.weights;
    t->predictions = t->data.weight ? all.weights : 0;
    samba_app_warnings(t->arguments->app->name, t->session, t->warnings, NULL);
    return SAMBA_OK;
}

double samba_train_tested(const samba_trainer *t)
{
    return t->graphs[0].logits ? 100 * (double)t->right / (double)t->tested : t->test_loss;
}

samba_status samba_train_evaluate_between(samba_trainer *t)
{
    const long long step = (long long)t->at.steps_done;
    SAMBA_TRY(samba_train_evaluate(t));
    if (t->graphs[0].logits)
        fprintf(t->progress_file, "step %lld  test accuracy %.2f %%\n", step, samba_train_tested(t));
    else if (samba_train_has_perplexity(t))
        fprintf(t->progress_file, "step %lld  test loss %.4f  perplexity %.2f\n", step, t->test_loss, exp(t->test_loss));
    else
        fprintf(t->progress_file, "step %lld  test loss %.4f\n", step, t->test_loss);
    fflush(t->progress_file);
    if (t->tests_log)
        json_array_append_new(t->tests_log,
                              json_pack("{s:I, s:o}", "step", (json_int_t)step, t->graphs[0].logits ? "accuracy_percent" : "loss",
                                        samba_json_number(samba_train_tested(t))));
    return SAMBA_OK;
}
