/* SPDX-License-Identifier: Apache-2.0
 *
 * The test of a training: by how many answers are right, or by the loss. The last batch is filled up with rows that are not
 * counted. The loss is the mean over predictions where the data says how many a sample has, since samples of a text differ in how
 * much of them is learned; else over whole batches, whose means weigh alike. */
#include "app/trainer.h"

#include <math.h>

static int64_t count_right(const samba_trainer *t, int64_t count)
{
    samba_dtype dtype = samba_tensor_dtype(t->logits), label_dtype = samba_tensor_dtype(t->labels);
    size_t size = samba_dtype_size(dtype);
    int64_t classes = samba_tensor_shape(t->logits)[1], right = 0;
    const char *logits = samba_tensor_data(t->logits), *label = samba_tensor_data(t->labels);
    for (int64_t i = 0; i < count; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < classes; k++)
            if (samba_load_double(dtype, logits + size * (size_t)(i * classes + k)) >
                samba_load_double(dtype, logits + size * (size_t)(i * classes + best)))
                best = k;
        right += best == samba_load_int64(label_dtype, label + samba_dtype_size(label_dtype) * (size_t)i);
    }
    return right;
}

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

/* The test samples from `done` on, a batch of them; adds to the sum of losses and to what they count. */
static samba_status evaluate_batch(samba_trainer *t, const samba_run_options *run, int64_t done, double *sum, int64_t *weights)
{
    const int64_t left = t->tested - done, count = left < t->batches.batch ? left : t->batches.batch;
    double part = 0;
    for (int64_t i = 0; i < count; i++)
        t->tests[i] = t->data.train_count + done + i;
    const int64_t weight = weigh(t, count);
    if (weight == 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_batches_fill(&t->batches, t->tests, count));
    SAMBA_TRY(samba_run(t->session, run));
    if (t->logits)
        t->right += count_right(t, count);
    else
        SAMBA_TRY(samba_tensor_item(t->loss, &part));
    *sum += part * (double)weight;
    *weights += weight;
    return SAMBA_OK;
}

samba_status samba_train_evaluate(samba_trainer *t)
{
    static const char *const forward[] = {"FWD"};
    samba_run_options run = samba_run_defaults();
    double sum = 0;
    int64_t weights = 0;
    run.train = false;
    run.section_type_count = 1;
    run.section_types = forward;
    run.input_count = t->batches.tensor_count;
    run.inputs = t->batches.tensors;
    run.output_count = 1;
    run.outputs = t->logits ? &t->logits : &t->loss;
    t->right = 0;
    for (int64_t done = 0; done < t->tested; done += t->batches.batch)
        SAMBA_TRY(evaluate_batch(t, &run, done, &sum, &weights));
    t->test_loss = sum / (double)weights;
    t->predictions = t->data.weight ? weights : 0;
    samba_app_warnings(t->arguments->app->name, t->session, t->warnings, NULL);
    return SAMBA_OK;
}

samba_status samba_train_evaluate_between(samba_trainer *t)
{
    const long long step = (long long)t->at.steps_done;
    SAMBA_TRY(samba_train_evaluate(t));
    const double accuracy = 100 * (double)t->right / (double)t->tested;
    if (t->logits)
        fprintf(t->progress_file, "step %lld  test accuracy %.2f %%\n", step, accuracy);
    else
        fprintf(t->progress_file, "step %lld  test loss %.4f  perplexity %.2f\n", step, t->test_loss, exp(t->test_loss));
    fflush(t->progress_file);
    if (t->tests_log)
        json_array_append_new(t->tests_log,
                              json_pack("{s:I, s:o}", "step", (json_int_t)step, t->logits ? "accuracy_percent" : "loss",
                                        samba_json_number(t->logits ? accuracy : t->test_loss)));
    return SAMBA_OK;
}
