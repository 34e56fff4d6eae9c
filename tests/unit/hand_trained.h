/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions over the training plan made by hand (tests/pef/plans.h) with all that a run of it takes, in memory that is counted:
 * count_memory and check_memory are a test's setup and teardown, and nothing may be alive between two tests. */
#ifndef SAMBA_TEST_HAND_TRAINED_H
#define SAMBA_TEST_HAND_TRAINED_H

#include "training.h"
#include "../pef/plans.h"
#include "failing_allocator.h"

static samba_context *uncounted;
static failing_allocator counted;
static char pef[96];

static inline int count_memory(void **unused)
{
    uncounted = context;
    context = counting_context_new(&counted);
    snprintf(pef, sizeof pef, "%s/train.pef", folder);
    return 0;
}

static inline int check_memory(void **unused)
{
    drop_kept(unused);
    counting_context_free(context, &counted);
    context = uncounted;
    return 0;
}

typedef struct fixture {
    samba_session *session;
    samba_tensor *inputs[3], *outputs[2];
    samba_run_options run;
} fixture;
typedef void change_fn(samba_plan *plan);

static inline void write_plan(int64_t rows, int accumulation, change_fn *change)
{
    samba_plan plan;
    make_train_plan(&plan, context, rows);
    plan.graphs[0].grad_accumulation_steps = accumulation;
    if (change)
        change(&plan);
    need(samba_pef_write(context, &plan, pef));
    samba_plan_free(&plan);
}

static inline void begin_with(fixture *f, int64_t rows, int accumulation, change_fn *change, const samba_session_options *options)
{
    write_plan(rows, accumulation, change);
    need(samba_session_new(context, pef, options, &f->session));
    kept_session(f->session);
    f->inputs[0] = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(rows, 6), 5));
    f->inputs[1] = kept(tensor("label", SAMBA_INT64, 1, SHAPE(4)));
    f->inputs[2] = kept(tensor("token", SAMBA_INT64, 1, SHAPE(4)));
    f->outputs[0] = kept(tensor("y", SAMBA_FLOAT32, 2, SHAPE(rows, 6)));
    f->outputs[1] = kept(tensor("loss", SAMBA_FLOAT32, 0, NULL));
    f->run = giving(3, f->inputs);
    f->run.output_count = 2;
    f->run.outputs = f->outputs;
}

static inline void run(fixture *f) { need(samba_run(f->session, &f->run)); }

#endif
