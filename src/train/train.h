/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of training loops. feed.c makes runs of batches, evaluate.c tests, together.c is what replicas agree on, options.c
 * checks what was asked for, loop.c is the loop, state.c what a checkpoint keeps of it, tell.c what it says. The room sees
 * sessions by their plan, and prints only into files that the caller gave. */
#ifndef SAMBA_TRAIN_H
#define SAMBA_TRAIN_H

#include "data/source.h"
#include "runtime/runtime.h"
#include <jansson.h>
#include <sambaflow/parallel.h>
#include <sambaflow/train.h>

const samba_metric_options *samba_metric_its(const samba_metric *metric);
/* What all replicas have counted, in each. */
samba_status samba_metric_share(samba_metric *metric, const samba_replicas *replicas);
/* together.c: the sum of each number over the replicas, on all the same bits. */
samba_status samba_train_sum(samba_context *context, const samba_replicas *replicas, int count, double *numbers);

/* ---- feed.c: batches of a source as runs of a session ---- */
enum { SAMBA_FEED_OUTPUTS = 32 };
typedef struct samba_feed_graph { /* host tensors of a graph's outputs; none before it first runs */
    bool made;
    samba_tensor *outputs[SAMBA_FEED_OUTPUTS];
} samba_feed_graph;
typedef struct samba_feed {
    samba_session *session;
    const samba_source *source;
    const char *graph_name;
    bool pads; /* the loader says what stands in rows that the loss leaves out */
    int64_t rows;
    int output_count;
    const char *outputs[SAMBA_FEED_OUTPUTS]; /* names; the loss first, where one is wanted */
    bool has_loss;
    samba_feed_graph *graphs;
    samba_arena arena;
    samba_tensor *inputs[SAMBA_MAX_FIELDS]; /* of the run at hand */
} samba_feed;
/* `loss` may be NULL. NAME, SHAPE, DTYPE of fields and outputs. */
samba_status samba_feed_open(samba_feed *feed, samba_session *session, const samba_source *source, int64_t rows, bool pads,
                             const char *graph_name, const char *loss);
/* Another output to bring back; its place. */
samba_status samba_feed_add(samba_feed *feed, const char *output, int *place);
void samba_feed_close(samba_feed *feed);
/* SHAPE unless a batch of so many samples can be run: whole, by a graph of its size, by pads, or where only metrics count it. */
samba_status samba_feed_check(samba_feed *feed, int64_t count, bool drop_possible);
/* Sets inputs, outputs and graph of a run; the graph's outputs. */
samba_status samba_feed_run(samba_feed *feed, const samba_batch *batch, samba_run_options *run, samba_feed_graph **graph);
/* The first graph of a name, or of a function of that name; NAME. */
samba_status samba_feed_graph_of(samba_session *session, const char *name, int32_t *graph);
/* The output of one number that the backward starts from. NAME: none or several. */
samba_status samba_feed_find_loss(samba_session *session, const char *graph_name, const char **loss);
/* How many samples its first input has that is a field. NAME */
samba_status samba_feed_rows(samba_session *session, const samba_source *source, const char *graph_name, int64_t *rows);

/* NAME where an input of the graph has no field of its name, and no value that was given before. */
samba_status samba_feed_check_inputs(samba_session *session, const samba_source *source, const char *graph_name);
/* Names of a source's fields, for messages; to be cleared. */
void samba_feed_list_fields(samba_text *names, const samba_session *session, const samba_source *source);

/* What samba_evaluate would refuse before its first run. */
samba_status samba_evaluate_check(samba_session *session, const samba_loader *loader, const samba_evaluate_options *options);

/* ---- the loop ---- */
enum { SAMBA_TRAIN_RATES = 16 };
typedef struct samba_train_rate { /* a learning rate of the PEF */
    const char *name;
    double base;
    samba_plateau plateau;
} samba_train_rate;
typedef struct samba_loop {
    samba_context *context;
    samba_session *session;
    samba_replicas replicas; /* this one is one of */
    samba_train_options o;
    samba_arena arena;
    samba_loader *train, *validation;
    samba_feed feed;
    samba_metric **metrics;
    samba_train_value *values; /* of the last test: the loss, then each metric */
    bool tested;
    int monitored; /* of values */
    bool greater;
    int accumulation;               /* runs in a step of one replica */
    int64_t epoch_steps, last_step; /* -1: not known */
    samba_train_rate rates[SAMBA_TRAIN_RATES];
    int rate_count;
    samba_hyperparameter sent[SAMBA_TRAIN_RATES];
    double lr;
    /* where it stands, which a checkpoint keeps */
    int64_t epoch, epoch_step, step; /* epochs ended; steps of this epoch and of all */
    double epoch_sum;                /* of this epoch: losses times samples */
    int64_t epoch_samples;
    double best;
    int64_t best_step;
    samba_early_stop stop;
    bool stopped, finished;
    double last_loss; /* mean of the epoch that ended last */
    /* of this call */
    int64_t samples;
    double began;
    samba_progress progress;
    char label[64];
    FILE *history;
} samba_loop;

/* options.c: checks and fills in what was left out, makes loaders, feed and metrics. */
samba_status samba_loop_open(samba_loop *loop);
samba_evaluate_options samba_loop_evaluation(const samba_loop *loop); /* what a test of the validation is asked for */
void samba_loop_close(samba_loop *loop);

/* together.c */
samba_status samba_loop_join(samba_loop *loop);  /* finds the other replicas, before the loop is opened */
samba_status samba_loop_agree(samba_loop *loop); /* one that is to stop stops all */
samba_status samba_loop_wait(const samba_loop *loop);
bool samba_loop_saves(
    const samba_loop *loop); /* all have the same weights, and one saves; all where each has a part of the state */

/* state.c */
samba_status samba_loop_resume(samba_loop *loop); /* also makes the folder ready */
samba_status samba_loop_save(samba_loop *loop);
samba_status samba_loop_save_best(samba_loop *loop);
samba_status samba_loop_restore_best(samba_loop *loop);

/* tell.c */
samba_status samba_loop_open_history(samba_loop *loop);
samba_status samba_loop_tell(samba_loop *loop, samba_train_event *event); /* the callback, with what all events have */
samba_status samba_loop_tell_warnings(samba_loop *loop);
/* A line of progress and of history: a test, or the end of an epoch without one. */
samba_status samba_loop_tell_look(samba_loop *loop, double loss, bool improved);
json_t *samba_train_json(double value); /* null where it is not finite */

#endif
