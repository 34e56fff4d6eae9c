/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of an epoch. Samples come in a new order every epoch, a function of the seed; those of one size make a step as soon
 * as there are enough of it. What is left of each size in the end makes smaller steps, or is left out.
 *
 * A smaller step is the mean over what it has. Its micro-batches run as a window of its own: the first sets gradients to zero,
 * the last updates; and each loss has a gradient of its share, since graphs divide by the micro-batches of a whole step. */
#include "app/trainer.h"
#include <sambaflow/data.h>

/* ---- which samples ---- */

static int size_of(const samba_trainer *t, int64_t sample) { return t->data.size ? t->data.size(t->data.user, sample) : 0; }

samba_status samba_steps_plan(samba_trainer *t)
{
    const int64_t whole = t->step_samples * t->replicas.size;
    const size_t sizes = (size_t)samba_app_sizes(t->arguments->app);
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->of_size, sizes));
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->taken, sizes));
    for (size_t k = 0; k < sizes; k++)
        t->of_size[k] = 0;
    for (int64_t i = 0; i < t->data.train_count; i++)
        t->of_size[size_of(t, i)]++;
    t->epoch_steps = 0;
    for (size_t k = 0; k < sizes; k++)
        t->epoch_steps += t->of_size[k] / whole + (t->keeps_last && t->of_size[k] % whole > 0);
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->plan_of_steps, t->epoch_steps + 1));
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->shuffled, t->data.train_count));
    return SAMBA_ROOM(&t->arena, t->order, t->data.train_count);
}

void samba_steps_draw(samba_trainer *t, int64_t epoch)
{
    const int64_t whole = t->step_samples * t->replicas.size;
    const int sizes = samba_app_sizes(t->arguments->app);
    int64_t first = 0, count = 0;
    samba_shuffle(samba_hash(&epoch, sizeof epoch, t->at.seed), t->data.train_count, t->shuffled);
    for (int k = 0; k < sizes; k++) { /* those of a size lie together */
        t->taken[k] = first;
        first += t->of_size[k];
    }
    first = 0;
    for (int64_t i = 0; i < t->data.train_count; i++) {
        const int k = size_of(t, t->shuffled[i]);
        t->order[t->taken[k]++] = t->shuffled[i];
        int64_t begin = 0;
        for (int before = 0; before < k; before++)
            begin += t->of_size[before];
        if ((t->taken[k] - begin) % whole == 0)
            t->plan_of_steps[count++] = (samba_train_step){t->taken[k] - whole, whole, k};
    }
    for (int k = 0; k < sizes && t->keeps_last; k++) {
        const int64_t rest = t->of_size[k] % whole;
        first += t->of_size[k];
        if (rest > 0)
            t->plan_of_steps[count++] = (samba_train_step){first - rest, rest, k};
    }
}

/* ---- a smaller one ---- */

/* Types of sections of a micro-batch, of those that the graph has. */
static int choose_types(const samba_trainer *t, int32_t graph, bool first, bool last, const char *types[6])
{
    static const struct {
        const char *name;
        int32_t phase;
        bool of_first, of_last;
    } all[] = {{"ZEROGRAD", 0, true, false}, {"FWD", 1, false, false},     {"BCKWD", 2, false, false},
               {"REDUCE", 3, false, true},   {"GRADNORM", 4, false, true}, {"OPT", 5, false, true}};
    const samba_plan_graph *its = &t->plan.graphs[graph];
    int count = 0;
    for (int i = 0; i < SAMBA_COUNT(all); i++) {
        bool there = all[i].phase == SAMBA_PLAN_FWD || all[i].phase == SAMBA_PLAN_BCKWD;
        for (int32_t s = its->first_section; s < its->first_section + its->section_count; s++)
            there = there || t->plan.sections[s].phase == all[i].phase;
        if (there && (first || !all[i].of_first) && (last || !all[i].of_last))
            types[count++] = all[i].name;
    }
    return count;
}

/* What a micro-batch's loss counts in its step. Where the data says what counts, a step is the mean over its micro-batches; else
 * over its samples. */
static double share_of(const samba_trainer *t, const samba_train_step *step, int64_t rows)
{
    const int64_t runs = (step->count + t->rows - 1) / t->rows;
    return t->data.weight ? 1 / (double)runs : (double)rows / (double)step->count;
}

static samba_status run_part(samba_trainer *t, const samba_train_step *step, int64_t done, samba_run_options *run, double *loss)
{
    const int64_t left = step->count - done, rows = left < t->rows ? left : t->rows;
    samba_train_graph *graph = &t->graphs[step->size];
    const int32_t steps = t->plan.graphs[0].grad_accumulation_steps;
    const double share = share_of(t, step, rows);
    const char *types[6];
    double part;
    for (int g = 0; g < t->graph_count && !t->data.weight; g++) /* the rest of the last batch has its own */
        graph = t->graphs[g].batches.batch == rows ? &t->graphs[g] : graph;
    SAMBA_TRY(samba_batches_fill(&graph->batches, t->order + step->first + done, rows));
    samba_train_run_of(t, graph, run);
    if (steps > 1) {
        run->section_types = types;
        run->section_type_count = choose_types(t, (int32_t)(graph - t->graphs), done == 0, left <= t->rows, types);
    }
    SAMBA_TRY(samba_train_start_from(t, share * steps, run));
    SAMBA_TRY(samba_run(t->session, run));
    t->hyperparameters_sent = true;
    SAMBA_TRY(samba_tensor_item(t->loss, &part));
    *loss += part * share;
    return SAMBA_OK;
}

samba_status samba_steps_run_smaller(samba_trainer *t, const samba_train_step *step, double *loss)
{
    for (int64_t done = 0; done < step->count; done += t->rows) {
        samba_run_options run = samba_run_defaults();
        SAMBA_TRY(run_part(t, step, done, &run, loss));
    }
    return SAMBA_OK;
}
