/* SPDX-License-Identifier: Apache-2.0
 *
 * A training in progress, which the command's files share: train.c opens it and makes the steps, evaluate.c tests, train_report.c
 * says how it went. */
#ifndef SAMBA_APP_TRAINER_H
#define SAMBA_APP_TRAINER_H

#include "app/app.h"
#include <sambaflow/parallel.h>

typedef struct samba_train_graph { /* of the PEF: samples of one size, or the rest of the last batch */
    const char *name;              /* NULL: the PEF has one graph */
    samba_batches batches;
    samba_tensor *logits;       /* NULL when the loss is the test */
    const samba_tensor *labels; /* the batch's */
} samba_train_graph;

typedef struct samba_train_step { /* samples of one size that all replicas take together */
    int64_t first, count;         /* order[first ..] */
    int size;
} samba_train_step;

typedef struct samba_trainer {
    const samba_app_run *run;
    const samba_app_arguments *arguments;
    samba_context *context;
    FILE *progress_file; /* stdout, or stderr beside JSON; of other replicas than the first `quiet` */
    FILE *quiet;
    samba_arena arena;
    samba_plan plan;
    samba_app_data data;
    samba_train_graph *graphs; /* as in the plan: of each size, then of the last batch's rest */
    int32_t graph_count;
    int64_t rows; /* of a micro-batch */
    samba_session *session;
    samba_tensor *loss;
    samba_tensor *start;             /* the loss's gradient; NULL: there is no smaller step */
    double started;                  /* what it is on the device */
    int64_t *order;                  /* of training samples, those of a step together */
    int64_t *shuffled;               /* in the epoch's order */
    int64_t *of_size;                /* how many have each size */
    int64_t *taken;                  /* while an epoch is drawn */
    samba_train_step *plan_of_steps; /* the epoch's */
    int64_t epoch_steps;
    bool keeps_last;                                        /* samples that fill no step make a smaller one */
    int64_t *tests;                                         /* a batch's, of those to test with */
    samba_replicas replicas;                                /* this one is one of */
    int64_t step_samples;                                   /* samples in a step of one replica */
    int64_t steps, trained;                                 /* trained: samples so far */
    samba_app_progress at;                                  /* steps done; what a checkpoint keeps */
    samba_hyperparameter *lr;                               /* what each step gets; NULL: it stays */
    samba_hyperparameter hyperparameters[SAMBA_HYPERS + 2]; /* those given, and lr */
    int hyperparameter_count;
    bool hyperparameters_sent;
    double train_seconds, test_loss;
    samba_metric *accuracy;
    int64_t right, tested;     /* test samples; tested 0: there is no test */
    int64_t predictions;       /* that the test's loss is the mean of, where the data tells how many a sample has */
    json_t *epochs, *warnings; /* NULL without --json */
    json_t *log, *tests_log;   /* of --log-every and --eval-every; NULL without */
} samba_trainer;

/* app/train.c: what a run of a graph is given: its batch, hyperparameters that are new, the loss to bring back. */
void samba_train_run_of(samba_trainer *t, const samba_train_graph *graph, samba_run_options *run);
/* The run's backward starts from this gradient of the loss. */
samba_status samba_train_start_from(samba_trainer *t, double gradient, samba_run_options *run);

/* app/steps.c: room for an epoch's steps, and how many there are; those of an epoch; a step with fewer samples than others */
samba_status samba_steps_plan(samba_trainer *t);
void samba_steps_draw(samba_trainer *t, int64_t epoch);
samba_status samba_steps_run_smaller(samba_trainer *t, const samba_train_step *step, double *loss);

/* app/evaluate.c: test samples, by right answers or by the loss; the results are in `t`. */
samba_status samba_train_evaluate(samba_trainer *t);
/* The same after a step, which it says. */
samba_status samba_train_evaluate_between(samba_trainer *t);
/* What the last test says, of which greater is better where answers are counted: percents right, or the loss. */
double samba_train_tested(const samba_trainer *t);

/* app/train_report.c */
/* Whether the exponential of the loss says something: losses over tokens or classes, which are whole numbers. */
bool samba_train_has_perplexity(const samba_trainer *t);
void samba_train_report_epoch(samba_trainer *t, int64_t epoch, int64_t epochs, double loss, double seconds, int64_t samples);
void samba_train_report_step(samba_trainer *t, double loss);
samba_status samba_train_report(samba_trainer *t);

#endif
