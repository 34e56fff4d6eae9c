/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph in the making, for generate.c and recipes.c. */
#ifndef SAMBA_FUZZ_GENERATE_H
#define SAMBA_FUZZ_GENERATE_H

#include "fuzz.h"

typedef struct fuzz_fact { /* of a value */
    bool exact;   /* nothing was rounded, whatever the order of sums */
    int grain;    /* then: all are multiples of 2^grain */
    double bound; /* the greatest magnitude */
} fuzz_fact;

typedef struct fuzz_maker {
    uint64_t state; /* of the random numbers */
    samba_graph *graph;
    samba_arena arena;
    samba_dtype dtype; /* of most inputs */
    samba_array *values; /* per node */
    fuzz_fact *facts;
    int64_t capacity;
    int names;
} fuzz_maker;

int64_t fuzz_below(fuzz_maker *m, int64_t bound);
bool fuzz_chance(fuzz_maker *m, int percent);
/* The node, if it makes sense and is new; else SAMBA_NONE, and nothing has changed. */
samba_ref fuzz_add(fuzz_maker *m, samba_op op, int arity, const samba_ref *inputs, const samba_attrs *attrs);
samba_ref fuzz_fresh(fuzz_maker *m, const char *kind, samba_dtype dtype, int rank, const int64_t *shape);

/* ---- recipes.c ---- */
void fuzz_first(fuzz_maker *m);     /* the first inputs */
samba_ref fuzz_draw(fuzz_maker *m); /* one more node, of any operator; SAMBA_NONE: what was drawn made no sense */

#endif
