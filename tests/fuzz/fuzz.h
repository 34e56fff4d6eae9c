/* SPDX-License-Identifier: Apache-2.0
 *
 * Random graphs, through everything that can run one. generate.c makes a graph of any operators, check.c runs it fused, unfused and by the
 * reference, shrink.c makes a failing one small, fuzz.c is the program. A graph's text is all there is to know of a case: inputs get their values
 * from the graph's name and their own (inputs.c). */
#ifndef SAMBA_FUZZ_H
#define SAMBA_FUZZ_H

#include "ops/ops.h"
#include "unit/noise.h"
#include <sambaflow/function.h>

#include <stdio.h>
#include <stdlib.h>

#define FUZZ_SINKS 64

/* ---- inputs.c ---- */
/* What an input's name begins with says what it holds: */
#define FUZZ_ANY 'x'      /* floats: eighths from -2 to 2, integers from -5 to 5 (0 to 9 unsigned), bool */
#define FUZZ_POSITIVE 'p' /* eighths from 1/4 to 2, integers from 1 to 5 */
#define FUZZ_INDEX 'i'    /* "i7_2": integers from 0 to 6 */
typedef struct fuzz_values { /* of a graph's inputs, in order */
    int count;
    const char **names;
    samba_array *arrays;
} fuzz_values;
samba_status fuzz_inputs(const samba_graph *graph, samba_arena *arena, fuzz_values *values);
/* The values of one node of the kind input. */
void fuzz_fill(const char *graph_name, const char *name, samba_array *array);

/* ---- generate.c ---- */
extern int64_t fuzz_reached[SAMBA_OP_COUNT]; /* how many nodes of each operator were made */
/* A graph "fuzz <seed>" with `nodes` operators. */
samba_status fuzz_generate(samba_context *context, uint64_t seed, int nodes, samba_graph **graph);

/* ---- check.c ---- */
typedef enum fuzz_verdict { FUZZ_RIGHT, FUZZ_WRONG, FUZZ_IMPOSSIBLE } fuzz_verdict; /* the last: the reference itself refuses it */
typedef struct fuzz_report {
    char what[600];  /* of FUZZ_WRONG: output, element, given, expected */
    int64_t checked; /* elements compared, in all runs */
    int64_t unstable; /* of these, elements of outputs that may differ by anything: a rounding more or less makes them nan */
    int64_t sink;    /* the wrong one; -1: a run failed */
} fuzz_report;
fuzz_verdict fuzz_check(const samba_graph *graph, fuzz_report *report);
/* Reference values of the sinks and what each may differ by, in memory of the arena. */
samba_status fuzz_expect(const samba_graph *graph, const fuzz_values *inputs, samba_arena *arena, samba_array *values, double *allowed);

/* ---- shrink.c ---- */
/* The smallest graph found that is still wrong, by leaving out outputs, cutting nodes off behind new inputs, and replacing nodes by their inputs;
 * takes `graph`. */
samba_graph *fuzz_shrink(samba_graph *graph, fuzz_report *report);

#endif
