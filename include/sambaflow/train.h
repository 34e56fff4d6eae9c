/* SPDX-License-Identifier: Apache-2.0
 *
 * Training loops: epochs over a source of samples, a test every so often, early stopping, the best weights kept, checkpoints to
 * resume from, a schedule of the learning rate, a line of progress, a history. samba_train is the whole loop over a session of
 * the program's own; it is made of the functions here and of those of source.h, metric.h, schedule.h and checkpoint.h, and a
 * program that wants another loop calls them one by one:
 *
 *     samba_train_options options = samba_train_defaults();
 *     options.train = train, options.validation = validation;
 *     options.epochs = 20, options.patience = 3, options.folder = "out/run";
 *     samba_train_result result;
 *     samba_train(session, &options, &result);
 *
 * Fields of a source are given to the inputs of their names. docs/training.md has C and Python side by side. */
#ifndef SAMBAFLOW_TRAIN_H
#define SAMBAFLOW_TRAIN_H

#include <sambaflow/metric.h>
#include <sambaflow/schedule.h>
#include <sambaflow/session.h>
#include <sambaflow/source.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- progress ---- */

/* One line of long work: on a terminal a bar that is drawn again ten times a second, with rate, time left and a number; in a file
 * nothing or, with `lines`, a line after 10 seconds, after 20, 40 and so on. */
typedef struct samba_progress {
    FILE *file;
    bool bar, lines;
    int64_t total, samples_per_step;
    double start, drawn, next_line;
    const char *label;
} samba_progress;
/* `file` and `label` are the caller's, until the end. A total of 0 is not known. */
SAMBA_API void samba_progress_begin(samba_progress *progress, FILE *file, const char *label, int64_t total,
                                    int64_t samples_per_step);
SAMBA_API void samba_progress_step(samba_progress *progress, int64_t done, double loss);
SAMBA_API void samba_progress_share(samba_progress *progress, double share, const char *words); /* 0 .. 1 of it is done */
SAMBA_API void samba_progress_end(samba_progress *progress);                                    /* removes the bar */

/* ---- early stopping ---- */

/* Whether to go on, by a value that is taken again and again. Plain numbers, which a program may keep and set again. */
typedef struct samba_early_stop {
    int64_t patience; /* stop behind so many values in a row that are no better than the best; 0: never */
    double min_delta; /* what a value must be better by, 0 or more */
    bool greater;     /* whether a greater value is better */
    double best;      /* NaN before the first; begin with that */
    int64_t bad;      /* values since the best */
} samba_early_stop;
/* Takes a value, and says whether to stop (Keras' EarlyStopping). A NaN is never better. */
SAMBA_API bool samba_early_stop_step(samba_early_stop *stop, double value);
/* Whether a value is better than another, which may be NaN for none. */
SAMBA_API bool samba_is_better(double value, double than, bool greater);

/* ---- evaluating ---- */

typedef struct samba_evaluate_options {
    size_t struct_size;
    const char *loss; /* the output whose mean over the samples is taken; NULL: none is */
    int metric_count;
    samba_metric *const
        *metrics;           /* reset first; their outputs and fields are read. PERPLEXITY goes by the loss where it has one */
    const char *graph_name; /* as samba_run_options; NULL: the only one */
    /* All replicas (parallel.h) call it together: each takes a part of the batches, and all get what comes of all. */
    bool data_parallel;
} samba_evaluate_options;
SAMBA_API samba_evaluate_options samba_evaluate_defaults(void);
/* Runs FWD in eval mode over an epoch of the loader: weights, statistics and dropout's seeds stay. A last batch that is smaller
 * runs on the graph of its size where the PEF has one. Else it is padded: metrics count its samples alone; a loss is the mean of
 * these only where the loader has pads, such as a label that the loss leaves out, and is refused without (SHAPE). `loss` receives
 * the mean over samples (NULL: not wanted), NaN where there were none. NAME: an output or field that is not there. */
SAMBA_API samba_status samba_evaluate(samba_session *session, samba_loader *loader, const samba_evaluate_options *options,
                                      double *loss);

/* ---- the loop ---- */

typedef struct samba_train_value { /* a figure of a test, by the metric's name; "loss" for the loss */
    const char *name;
    double value;
} samba_train_value;

typedef enum samba_train_event_kind {
    SAMBA_TRAIN_STEP = 0,      /* a step was made: `loss` is its own */
    SAMBA_TRAIN_VALIDATED = 1, /* a test: `values` are its figures */
    SAMBA_TRAIN_EPOCH = 2,     /* an epoch has ended: `loss` is the mean over its samples */
    SAMBA_TRAIN_WARNING = 3    /* `text` is a warning of the session */
} samba_train_event_kind;
typedef struct samba_train_event { /* lives during the call */
    samba_train_event_kind kind;
    samba_session *session;
    int64_t epoch, step; /* both from 1 */
    int64_t samples;     /* of this step, or of this epoch so far */
    double loss, lr;     /* lr: NaN where the PEF has none */
    int value_count;
    const samba_train_value *values;
    bool improved; /* of VALIDATED: the best so far */
    const char *text;
    bool stop; /* for the callback to set: the training ends as by early stopping */
} samba_train_event;
/* A status other than OK ends the training with the context's message. */
typedef samba_status samba_train_event_fn(samba_context *context, void *user, samba_train_event *event);

typedef struct samba_train_options {
    size_t struct_size;
    samba_source *train;      /* wanted */
    samba_source *validation; /* NULL: no tests; the loss of the epoch is watched in their place */
    /* Samples in a run; 0: those of the graph's first input that is a field. A step is one update: of a PEF that accumulates
     * gradients over N runs, N batches, and an epoch that does not end with a step wants drop_last. */
    int64_t batch_size;
    int64_t epochs; /* 0: until `steps` */
    int64_t steps;  /* 0: all of the epochs; else the training ends behind so many, which are no more than theirs */
    bool in_order;  /* samples come as the source has them; else shuffled anew each epoch */
    uint64_t seed;  /* of that order */
    /* The last samples of an epoch that fill no batch: refused, unless the PEF has a graph of that size, or `pads` say what
     * stands in rows that the loss leaves out; or they are left out, of training alone. */
    bool drop_last;
    int pad_count;
    const samba_padding *pads;
    int prefetch;           /* as of samba_loader_options */
    const char *graph_name; /* of the PEF's graphs, or of a function of several sizes; NULL: the first */
    const char *loss;       /* NULL: the only output of one number that the backward starts from */
    int metric_count;
    const samba_metric_options *metrics; /* of the validation */
    int64_t validate_every;              /* steps; 0: each epoch. The last step is always followed by a test */
    const char *monitor;                 /* a metric's name or "loss", which says what is best; NULL: the loss */
    int64_t patience;                    /* tests without a better value until the training stops; 0: it does not */
    double min_delta;
    double lr; /* the rate that the schedule scales; NaN: the session's */
    samba_schedule schedule;
    /* NULL: nothing is saved. Else "checkpoint-<step>" folders as of checkpoint.h, and best.safetensors, the weights and the
     * optimizer's state of the best test; each is written under another name and then renamed. */
    const char *folder;
    int64_t checkpoint_every; /* steps; 0: each epoch. One at the end */
    int keep;                 /* checkpoints that stay; 0: all */
    bool resume;         /* go on from the newest whole checkpoint of the folder, to the same bits; start where there is none */
    bool restore_best;   /* at the end the session gets the best weights back; wants `folder` */
    const char *history; /* NULL, or a file of JSON lines, one a test or epoch */
    FILE *progress;      /* NULL: nothing is shown */
    samba_train_event_fn *on_event; /* may be NULL */
    void *user;
    /* This process is one of several replicas (parallel.h), which all call samba_train with the same options, over a PEF that was
     * compiled with data_parallel. The samples of a step are dealt to them, batch_size is one replica's, and the last samples of
     * an epoch that do not fill a step of all want drop_last. Tests are dealt too. Losses, figures and events' samples are those
     * of all, so all stop at one step; a callback's `stop` stops all. The first saves, shows progress and writes the history. A
     * training is resumed by as many replicas. Sources must be read by number. */
    bool data_parallel;
} samba_train_options;
SAMBA_API samba_train_options samba_train_defaults(void); /* 1 epoch, prefetch 2, keep 2, lr NaN */

typedef struct samba_train_result {
    int64_t steps, epochs; /* made, those before a resume among them; epochs that were begun */
    int64_t samples;       /* trained by this call */
    double seconds;        /* of this call */
    double loss;           /* mean of the last epoch */
    double best;           /* of the monitored value; NaN: there was none */
    int64_t best_step;
    bool stopped; /* by patience or a callback */
} samba_train_result;
/* Errors: ARGUMENT of options, by name; NAME: an input that no field gives, an output, field or monitor that is not there; SHAPE:
 * fields that are not the inputs', a last batch that does not fit; STATE: a loss that is no number, a graph for inference or
 * without an optimizer, a folder with checkpoints of another training, or some without `resume`; those of sources, runs and
 * files. What was saved before an error stays. `result` may be NULL. */
SAMBA_API samba_status samba_train(samba_session *session, const samba_train_options *options, samba_train_result *result);

#ifdef __cplusplus
}
#endif
#endif
