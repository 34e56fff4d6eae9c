/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph in the making, for generate.c and what draws: recipes.c (operators), matrices.c, views.c, layers.c;
 * operands.c is common to them. */
#ifndef SAMBA_FUZZ_GENERATE_H
#define SAMBA_FUZZ_GENERATE_H

#include "fuzz.h"

typedef struct fuzz_fact { /* of a value */
    bool exact;            /* nothing was rounded, whatever the order of sums */
    int grain;             /* then: all are multiples of 2^grain */
    double bound;          /* the greatest magnitude */
} fuzz_fact;

#define FUZZ_BUFFERS 6

typedef struct fuzz_maker {
    uint64_t state; /* of the random numbers */
    samba_graph *graph;
    samba_arena arena;
    samba_dtype dtype;   /* of most inputs */
    samba_array *values; /* per node */
    fuzz_fact *facts;
    int64_t capacity;
    int names;
    int ones;          /* percent of dims that are 1 besides those that are so anyhow */
    bool batch_of_one; /* leading dims are 1 */
    bool meets;        /* what comparisons choose between meets there: they may take rounded values */
    samba_ref focus;   /* what operands are drawn from first; SAMBA_NONE: nothing */
    int buffer_count;
    struct {
        samba_ref buffer, next; /* an input, and what is assigned to it; SAMBA_NONE: to be drawn */
    } buffers[FUZZ_BUFFERS];
} fuzz_maker;

int64_t fuzz_below(fuzz_maker *m, int64_t bound);
bool fuzz_chance(fuzz_maker *m, int percent);
/* The node, if it makes sense and is new; else SAMBA_NONE, and nothing has changed. */
samba_ref fuzz_add(fuzz_maker *m, samba_op op, int arity, const samba_ref *inputs, const samba_attrs *attrs);
/* The same, or the equal node that is there. */
samba_ref fuzz_add_or_find(fuzz_maker *m, samba_op op, int arity, const samba_ref *inputs, const samba_attrs *attrs);
samba_ref fuzz_fresh(fuzz_maker *m, const char *kind, samba_dtype dtype, int rank, const int64_t *shape);

/* ---- operands.c ---- */
/* NULL: the operator has no such attribute */
void *fuzz_field(samba_op op, samba_attrs *attrs, const char *name, samba_field_kind kind);
void fuzz_set_int(samba_op op, samba_attrs *attrs, const char *name, int64_t value);
void fuzz_set_real(samba_op op, samba_attrs *attrs, const char *name, double value);
void fuzz_set_dims(samba_op op, samba_attrs *attrs, const char *name, int64_t count, const int64_t *at);
samba_attrs fuzz_none(void);
int64_t fuzz_size(fuzz_maker *m, int64_t most);  /* 1 to most */
int64_t fuzz_batch(fuzz_maker *m, int64_t most); /* the same of a leading dim */
int fuzz_shape(fuzz_maker *m, int64_t *shape);   /* returns the rank */
samba_dtype fuzz_float(const fuzz_maker *m);     /* the dtype of most inputs where it is floating-point, else float32 */
void fuzz_first(fuzz_maker *m);                  /* the first inputs */
samba_ref fuzz_input(fuzz_maker *m, samba_dtype dtype);
samba_ref fuzz_any(fuzz_maker *m);
/* Whether a node is computed from a grad_output, and so may not be read elsewhere. */
bool fuzz_is_of_gradient(const samba_graph *graph, samba_ref ref);
samba_ref fuzz_any_where(fuzz_maker *m, bool (*right)(const samba_node *node));
bool fuzz_is_floating(const samba_node *node);
bool fuzz_has_dims(const samba_node *node);
bool fuzz_is_matrices(const samba_node *node);
bool fuzz_is_integral(const samba_node *node);
bool fuzz_is_boolean(const samba_node *node);
samba_ref fuzz_constant(fuzz_maker *m, samba_dtype dtype, double value);
samba_ref fuzz_beside(fuzz_maker *m, samba_dtype dtype, const samba_node *like, const char *kind);
samba_ref fuzz_index(fuzz_maker *m, int64_t end, int rank, const int64_t *shape); /* numbers below end */
/* of so many dims of space: a value there is, one in another shape, or a new input */
samba_ref fuzz_image(fuzz_maker *m, int dims);
/* SAMBA_NONE: there are enough */
samba_ref fuzz_buffer(fuzz_maker *m, const char *kind, samba_dtype dtype, int rank, const int64_t *shape);

/* ---- views.c ---- */
#define FUZZ_CHAIN 4
void fuzz_shuffle(fuzz_maker *m, int64_t count, int64_t *at);
samba_ref fuzz_view(fuzz_maker *m, samba_op op);
samba_ref fuzz_chain(fuzz_maker *m, samba_ref value);             /* one to four views of it */
samba_ref fuzz_of_rank(fuzz_maker *m, samba_ref value, int rank); /* reshaped */

/* ---- recipes.c ---- */
samba_ref fuzz_draw(fuzz_maker *m); /* one more node, of any operator; SAMBA_NONE: what was drawn made no sense */

/* ---- matrices.c ---- */
samba_ref fuzz_matrices(fuzz_maker *m, samba_op op);

/* ---- layers.c ---- */
samba_ref fuzz_layer(fuzz_maker *m); /* the nodes of a layer or function of the public interface */

#endif
