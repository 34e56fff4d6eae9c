/* SPDX-License-Identifier: Apache-2.0
 *
 * Random graphs, through everything that can run one. generate.c makes a graph of operators, views and layers, check.c runs it
 * fused, unfused and by the reference, slopes.c holds its gradient against differences, train.c compiles it for training and runs
 * that, onnx.c writes it as an ONNX model and reads it (form.c says when graphs are the same), shrink.c makes a failing one
 * small, tell.c says what was drawn, fuzz.c is the program. A graph's text is all there is to know of a case: inputs get their
 * values from the graph's name and their own (inputs.c), and whatever else is drawn comes from the graph's name. */
#ifndef SAMBA_FUZZ_H
#define SAMBA_FUZZ_H

#include "ops/ops.h"
#include "unit/noise.h"
#include <sambaflow/function.h>

#include <stdio.h>
#include <stdlib.h>

#define FUZZ_SINKS 128
#define FUZZ_LEAVES 256

/* ---- inputs.c ---- */
/* What an input's name begins with says what it holds: */
#define FUZZ_ANY 'x'             /* floats: eighths from -2 to 2, integers from -5 to 5 (0 to 9 unsigned), bool */
#define FUZZ_POSITIVE 'p'        /* eighths from 1/4 to 2, integers from 1 to 5 */
#define FUZZ_INDEX 'i'           /* "i7_2": integers from 0 to 6 */
#define FUZZ_BUFFER 'b'          /* as 'x', */
#define FUZZ_POSITIVE_BUFFER 'v' /* as 'p': "<name>.next" is assigned to it */
#define FUZZ_RATE 'r'            /* of dropout: eighths from 0 to 1/2 */
#define FUZZ_SEED 's'            /* of dropout */
#define FUZZ_MODE 'm'            /* 0 or 1, of batch norm: 1 trains */
/* of a graph's inputs, in order; of a graph that trains also of its parameters, buffers and argins */
typedef struct fuzz_values {
    int count;
    const char **names;
    samba_array *arrays;
    bool computed; /* some are what a run left: they were rounded, and are no multiples of 1/8 */
} fuzz_values;
samba_status fuzz_inputs(const samba_graph *graph, samba_arena *arena, fuzz_values *values);
/* The values of one node of the kind input. */
void fuzz_fill(const char *graph_name, const char *name, samba_array *array);

/* Is it "<output>.grad", a gradient that backward starts from? Those of parameters start as zeros. */
bool fuzz_is_start(const samba_graph *graph, const char *name);

/* ---- tell.c ---- */
#define FUZZ_MOST_LAYERS 200
typedef struct fuzz_counts {
    int64_t operators[SAMBA_OP_COUNT];              /* nodes that were made */
    int64_t layers[FUZZ_MOST_LAYERS][2];            /* left out, made */
    int64_t flatten, squeeze, unsqueeze, chains[8]; /* by length */
    /* of all values: dims, those of 1; values with two dims or more, those that begin with 1 */
    int64_t dims, ones, ranked, leading_ones;
    int64_t batches_of_one, many_ones; /* graphs drawn so */
    int64_t buffers, assigned;
    int64_t directions, skipped, flat; /* of differences: compared, left out at kinks, without a slope */
    int64_t trained, parameters, accumulated, budgets, spatial, small_memory, runs;
    int64_t onnx, onnx_refused; /* models read back; graphs that ONNX cannot say */
} fuzz_counts;
extern fuzz_counts fuzz_count;
void fuzz_tell(void);

/* ---- generate.c, layers.c ---- */
extern const int fuzz_layer_count;
const char *fuzz_layer_name(int index);
/* A graph "fuzz <seed>" with `nodes` operators. */
samba_status fuzz_generate(samba_context *context, uint64_t seed, int nodes, samba_graph **graph);

/* ---- check.c ---- */
/* the last: the reference itself refuses it */
typedef enum fuzz_verdict { FUZZ_RIGHT, FUZZ_WRONG, FUZZ_IMPOSSIBLE } fuzz_verdict;
typedef struct fuzz_report {
    char what[600];   /* of FUZZ_WRONG: output, element, given, expected */
    int64_t checked;  /* elements compared, in all runs */
    int64_t unstable; /* of these, elements of outputs that may differ by anything: a rounding more or less makes them nan */
    int64_t sink;     /* the wrong one; -1: a run failed */
} fuzz_report;
typedef fuzz_verdict fuzz_checker(const samba_graph *graph, fuzz_report *report);
fuzz_checker fuzz_check;             /* fused, unfused, by the reference */
fuzz_checker fuzz_check_slopes;      /* slopes.c: of the gradient, in float64 */
fuzz_checker fuzz_check_train;       /* train.c: of a graph that fuzz_training made */
fuzz_checker fuzz_check_onnx;        /* onnx.c: written as a model and read again */
const char *fuzz_isa(uint64_t draw); /* NULL: the best */
/* Reference values of the sinks and what each may differ by, in memory of the arena. */
samba_status fuzz_expect(const samba_graph *graph, const fuzz_values *inputs, samba_arena *arena, samba_array *values,
                         double *allowed);
/* Whether something is dropped in runs that train. */
bool fuzz_drops(const samba_graph *graph);
/* An output's or loss's name, or that of the leaf that is assigned. */
const char *fuzz_sink_name(const samba_graph *graph, int64_t index);
fuzz_verdict fuzz_wrong(fuzz_report *report, int64_t sink, const char *how, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An output against what is expected. */
fuzz_verdict fuzz_compare(fuzz_report *report, int64_t sink, const char *name, const samba_array *found,
                          const samba_array *expected, double allowed, const char *how);

/* ---- slopes.c ---- */
/* The gradient of all floating-point inputs, or NULL where there is none; *status is what made it fail. */
samba_graph *fuzz_gradient(const samba_graph *graph, samba_status *status);

/* ---- train.c ---- */
/* The graph as one that trains: inputs become parameters, buffers with assignments and argins, some outputs losses. NULL:
 * nothing would train. */
samba_graph *fuzz_training(const samba_graph *graph);
const char *fuzz_folder(void); /* where a check may write files; NULL: there is none */
void fuzz_folder_end(void);

/* ---- form.c ---- */
/* The graph in the form in which graphs are compared; NULL: no memory. */
samba_graph *fuzz_form(const samba_graph *graph);
/* What a graph says, whatever the order of its nodes and wherever they come from. 0: no memory. */
uint64_t fuzz_meaning(const samba_graph *graph);

/* ---- onnx.c ---- */
/* As a model of an opset that the graph's name draws. */
samba_status fuzz_write_onnx(const samba_graph *graph, const char *path);

/* ---- shrink.c ---- */
/* The smallest graph found that `check` still calls wrong, by leaving out outputs, cutting nodes off behind new inputs, and
 * replacing nodes by their inputs; takes `graph`. */
samba_graph *fuzz_shrink(samba_graph *graph, fuzz_checker *check, fuzz_report *report);

#endif
