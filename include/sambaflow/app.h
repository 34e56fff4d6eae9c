/* SPDX-License-Identifier: Apache-2.0
 *
 * Applications: one model with a command line, and the measurements it shares with the sambaflow program.
 *
 * An application fills one samba_app and calls samba_app_main, which understands
 *   compile | run | train | test | measure-performance | measure-sections
 * and every option that those share; train is compile and then run, with the options of both. A model that can be run has inputs
 * "image"-like and "label", a loss "loss" and an output "logits" of shape (batch, classes): run trains on `loss` and counts how
 * often the greatest logit is the label. Without such an output it is tested by its loss. */
#ifndef SAMBAFLOW_APP_H
#define SAMBAFLOW_APP_H

#include <sambaflow/compile.h>
#include <sambaflow/session.h>
#include <sambaflow/source.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SAMBA_APP_MAX_INPUTS 16

/* ---- measuring ------------------------------------------------------------------------------------------------ */
typedef struct samba_measure_options {
    size_t struct_size;
    int64_t iterations; /* steps to measure; 0: 100; a tenth as many, at least 3, come before as warm-up */
    int input_count;
    samba_tensor *const *inputs; /* values to measure with, transferred in every run */
    int output_count;
    samba_tensor *const *outputs; /* likewise received */
    bool run_graph_only;          /* inputs are transferred once before, and nothing while measuring */
    bool inference;               /* a step is FWD alone, dropout off; else the whole schedule */
    int runs;                     /* in a step: the PEF's gradient accumulation; 0: 1 */
    int64_t batch_size;           /* samples in one step; 0: the first dim of the first input, times runs */
    int64_t *done;          /* NULL, or how many of the iterations are measured, for another thread to read meanwhile and show */
    const char *graph_name; /* which of several graphs; NULL: the only one */
    bool train;             /* as that of samba_run_options; no step trains with `inference` */
} samba_measure_options;
SAMBA_API samba_measure_options samba_measure_defaults(void); /* train = true */

typedef struct samba_performance {
    int threads;
    int64_t iterations, batch_size;
    double median_ms, best_ms;    /* one step, transfers included unless run_graph_only */
    double samples_per_second;    /* batch_size over the median */
    int64_t flops, bytes;         /* of one step, as planned: every stage's operands and results once */
    double flops_per_second;      /* flops over the median */
    double peak_flops_per_second; /* fp32 FMA peak of this machine, measured just now with as many threads */
    double mfu;                   /* their ratio, 0 .. 1 */
    double bytes_per_second;      /* bytes over the median */
    double outside_kernels_ms;    /* mean of a step's time that is in no kernel: transfers, checks, calls */
    int64_t planned_bytes;        /* device memory as planned at compile time */
    int64_t peak_resident_bytes;  /* of the process so far */
    double others;                /* of the processors' time while steps were measured, what other programs had, 0 .. 1: where it
                                     is much, an idle machine is faster. Below 0: not known */
} samba_performance;

/* Steps and measures. Training goes on meanwhile: weights change unless inference is set. */
SAMBA_API samba_status samba_measure_performance(samba_context *context, samba_session *session,
                                                 const samba_measure_options *options, samba_performance *performance);

typedef struct samba_section_time {
    samba_section_info section;
    double median_ms, best_ms; /* inside kernels */
    double share;              /* of all sections' medians, 0 .. 1 */
} samba_section_time;
/* `times` has room for samba_session_section_count entries. Sections of the graph run one by one, in the order of their ids;
 * those of other graphs take no time. With `inference` only FWD runs, and weights stay:
 * the others take no time, and a section that is FWD and BCKWD in one is told as its part of FWD. */
SAMBA_API samba_status samba_measure_sections(samba_context *context, samba_session *session,
                                              const samba_measure_options *options, samba_section_time *times);

/* Multiply-adds in registers on `threads` threads with the widest vectors this CPU has, or those of the instruction set that
 * SAMBAFLOW_ISA names: FLOP/s. Takes about a third of a second. */
SAMBA_API double samba_measure_fma_peak(int threads);
/* The same in bfloat16 products with float32 sums (AVX512-BF16); 0 where the CPU, or that instruction set, has no such
 * instruction. */
SAMBA_API double samba_measure_bf16_peak(int threads);
/* Bytes a second that `threads` (1 or more) threads read from memory together, of 256 MiB, the best of some passes. */
SAMBA_API samba_status samba_measure_bandwidth(samba_context *context, int threads, double *bytes_per_second);
/* The same a pass at a time over `bytes` of its own, for programs that measure between steps: what memory gives changes from
 * second to second where others share it. ARGUMENT: threads or bytes < 1; MEMORY. samba_reading_free frees it; NULL is fine. */
typedef struct samba_reading samba_reading;
SAMBA_API samba_status samba_reading_new(samba_context *context, int threads, int64_t bytes, samba_reading **reading);
SAMBA_API double samba_reading_pass(samba_reading *reading); /* bytes a second of this pass */
SAMBA_API void samba_reading_free(samba_reading *reading);

/* ---- applications --------------------------------------------------------------------------------------------- */
typedef struct samba_app_input {
    const char *name;
    samba_dtype dtype;
    int rank;
    int64_t shape[SAMBA_MAX_RANK]; /* dim 0 counts the samples */
    int64_t classes;               /* of an integer input: its values are 0 .. classes-1 */
} samba_app_input;

/* An option of the application's own, "--name VALUE". Exactly one target is set; what a number holds before is the default. */
typedef struct samba_app_option {
    const char *name, *help;
    int64_t *integer; /* low <= value <= high */
    double *real;
    bool *flag; /* "--name" sets it */
    double low, high;
    const char **texts; /* as often as it is given, up to text_most times: texts[0] to texts[*text_count - 1] */
    int *text_count, text_most;
    const char *value; /* what help calls a text: "NAME=SIZE" */
} samba_app_option;

/* Writes samples, by their numbers, into the first `count` rows of a batch, whose tensors are those of samba_app_data in their
 * order, contiguous, with as many rows as the batch has samples. The rows behind become such that they do not count in the loss,
 * or zeros where a test counts right answers. Of several sizes the tensors have the shapes of the samples'. An error ends the
 * training. */
typedef samba_status samba_app_fill_fn(samba_context *context, void *user, const int64_t *samples, int64_t count,
                                       int tensor_count, samba_tensor *const *batch);

/* Prepared samples: one tensor for each input, with its name, dtype and shape but for dim 0, which counts all
 * samples: train_count to learn from, then test_count (0: no test). They lie in the tensors' memory, or `fill` makes them when
 * their turn comes; the tensors may then be empty (samba_tensor_empty), since only their names, dtypes and shapes count.
 * What belongs to `user` must stay until `free`. Begins as zeros: fields that a version adds stand at the end. */
typedef struct samba_app_data {
    int64_t train_count, test_count;
    int tensor_count;
    samba_tensor *tensors[SAMBA_APP_MAX_INPUTS];
    samba_app_fill_fn *fill; /* NULL: samples are the tensors' rows */
    /* How many predictions of a sample count in the loss, 0 or more: the test's loss is the mean over predictions. NULL: the mean
     * over whole batches. */
    int64_t (*weight)(const void *user, int64_t sample);
    void (*free)(void *user); /* called once, when the samples are no longer needed; may be NULL */
    void *user;
    /* Which of the application's sizes a sample has; a batch's samples have one. NULL: there is one. Wants `fill` and
     * `weight`. */
    int (*size)(const void *user, int64_t sample);
} samba_app_data;
/* Frees the tensors and calls `free`; NULL is allowed. */
SAMBA_API void samba_app_data_free(samba_app_data *data);
typedef samba_status samba_app_data_fn(samba_context *context, const char *folder, int input_count, const samba_app_input *inputs,
                                       samba_app_data *data);
/* Samples of sources (source.h): `train` to learn from, `test`, or NULL, to test with. Their fields are the application's inputs,
 * by name, dtype and shape. The sources are held until samba_app_data_free, and stay the caller's to free. ARGUMENT: a source
 * that gives its samples in order alone; NAME, DTYPE, SHAPE: a field that is no input, or an input that no field gives. */
SAMBA_API samba_status samba_app_data_of(samba_context *context, samba_source *train, samba_source *test, int input_count,
                                         const samba_app_input *inputs, samba_app_data *data);
/* The handwritten digits of a folder: `image` becomes (pixel / 255 - 0.1307) / 0.3081 in whatever shape the input has,
 * `label` the digit. */
SAMBA_API samba_app_data_fn samba_app_digits;
/* A text file, or text.txt in a folder: its bytes are tokens, cut into samples of `input`, int64 (batch, tokens), and `label`,
 * the same one byte further on. The last tenth of the samples is for testing. */
SAMBA_API samba_app_data_fn samba_app_text;

typedef struct samba_app {
    size_t struct_size;
    const char *name; /* of the graph, and of the PEF unless --pef-name says otherwise */
    const char *description;
    samba_model model;
    const void *settings; /* the model's options: the own options below point into it */
    int option_count;
    const samba_app_option *options;
    /* Returns a sentence that says which options do not go together; NULL: all do. May itself be NULL. */
    const char *(*check)(const void *settings);
    /* Fills up to SAMBA_APP_MAX_INPUTS inputs for a batch, returns how many. */
    int (*inputs)(const void *settings, int64_t batch_size, samba_app_input *inputs);
    samba_app_data_fn *data;        /* NULL: no `run` */
    int64_t batch_size, num_epochs; /* defaults of the command line */
    samba_optimizer optimizer;
    /* Called with the path of a PEF that compile has written; `out` is where lines for people go, NULL with --json. */
    samba_status (*compiled)(samba_context *context, void *user, const char *pef, FILE *out);
    void *compiled_user;
    /* The rest may be NULL; `user` goes to each of these functions. A status other than OK ends the command with the context's
     * message (samba_error_set). The context is the application's own and ends in samba_app_main: what a function makes under it,
     * such as sources that `trained` reads, is freed by then, and not behind samba_app_main. */
    void *user;
    /* Called once the command line is understood, before anything else: opens files that `inputs` depends on. `data` is --data,
     * NULL where it was not given. `out` as below; NULL in other replicas than the first. */
    samba_status (*opened)(samba_context *context, void *user, const char *data, FILE *out);
    /* In the place of `data`: the samples, as samba_app_data_fn. `path` is --data; without it, as for `data`, examples/data. */
    samba_status (*samples)(samba_context *context, void *user, const char *path, int input_count, const samba_app_input *inputs,
                            samba_app_data *data);
    /* Gives a new session of run and train its first weights; --load and checkpoints come after it. */
    samba_status (*started)(samba_context *context, void *user, samba_session *session);
    /* Called by run and train behind the last step, in the first of several replicas alone: saves what the application keeps.
     * `out` is where lines for people go, stderr with --json. */
    samba_status (*trained)(samba_context *context, void *user, samba_session *session, FILE *out);
    /* Samples of several sizes, such as texts of several lengths: how many sizes there are, 1 or more, and `inputs` of each. The
     * PEF has a graph for each, over the same weights, and a step takes samples of one. NULL: one size, by `inputs`. */
    int (*sizes)(const void *settings);
    int (*sized_inputs)(const void *settings, int size, int64_t batch_size, samba_app_input *inputs);
} samba_app;

/* The body of main: parses, does, prints. Results go to stdout, messages to stderr. Returns 0, or 1 after a failure; wrong usage
 * and --help end the process as argp does (64 and 0). The environment variable SAMBAFLOW_ISA stands in for --isa. */
SAMBA_API int samba_app_main(int argc, char **argv, const samba_app *app);

#ifdef __cplusplus
}
#endif
#endif
