/* SPDX-License-Identifier: Apache-2.0
 *
 * A training in progress, which the command's files share: train.c opens it and makes the steps, evaluate.c tests, train_report.c
 * says how it went. */
#ifndef SAMBA_APP_TRAINER_H
#define SAMBA_APP_TRAINER_H

#include "app/app.h"
#include <sambaflow/parallel.h>

typedef struct samba_trainer {
    const samba_app_run *run;
    const samba_app_arguments *arguments;
    samba_context *context;
    FILE *progress_file; /* stdout, or stderr beside JSON; of other replicas than the first `quiet` */
    FILE *quiet;
    samba_arena arena;
    samba_plan plan;
    samba_app_data data;
    samba_batches batches;
    samba_session *session;
    samba_tensor *loss, *logits; /* logits: NULL when the loss is the test */
    const samba_tensor *labels;  /* the batch's */
    int64_t *order;              /* of training samples */
    int64_t *tests;              /* a batch's, of those to test with */
    samba_replicas replicas;     /* this one is one of */
    int64_t step_samples;        /* samples in a step of one replica */
    int64_t steps, first_step;
    samba_app_progress at;                                  /* steps done; what a checkpoint keeps */
    samba_hyperparameter *lr;                               /* what each step gets; NULL: it stays */
    samba_hyperparameter hyperparameters[SAMBA_HYPERS + 2]; /* those given, and lr */
    int hyperparameter_count;
    bool hyperparameters_sent;
    double train_seconds, test_loss;
    int64_t right, tested;     /* test samples; tested 0: there is no test */
    int64_t predictions;       /* that the test's loss is the mean of, where the data tells how many a sample has */
    json_t *epochs, *warnings; /* NULL without --json */
    json_t *log, *tests_log;   /* of --log-every and --eval-every; NULL without */
} samba_trainer;

/* app/evaluate.c: test samples, by right answers or by the loss; the results are in `t`. */
samba_status samba_train_evaluate(samba_trainer *t);
/* The same after a step, which it says. */
samba_status samba_train_evaluate_between(samba_trainer *t);

/* app/train_report.c */
void samba_train_report_epoch(samba_trainer *t, int64_t epoch, int64_t epochs, double loss, double seconds, int64_t samples);
void samba_train_report_step(samba_trainer *t, double loss);
samba_status samba_train_report(samba_trainer *t);

#endif
