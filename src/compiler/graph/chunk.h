/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the pass `chunk`: chunk_find.c finds what can be computed rows by rows, chunk.c rewrites it so. */
#ifndef SAMBA_CHUNK_H
#define SAMBA_CHUNK_H

#include "compiler/compiler.h"

typedef enum samba_row_kind {
    SAMBA_ROWS_OUTSIDE, /* computed as before */
    SAMBA_ROWS_MEMBER,  /* exists only as rows of a chunk */
    SAMBA_ROWS_PULLED,  /* a wide operand of a member, computed again in each chunk; others may read it as before */
    SAMBA_ROWS_SUMMED   /* reduced over the rows: each chunk adds its part */
} samba_row_kind;

typedef struct samba_row_dims { /* of a node: its kind, and the dims that are the rows */
    uint8_t kind;
    int8_t at, count; /* dims [at, at + count), together `rows` elements; sizes of 1 at both ends left out */
} samba_row_dims;

typedef struct samba_region {
    const samba_graph *graph;
    int64_t rows;        /* of the value that began it */
    int64_t row_bytes;   /* of that value */
    int64_t wide;        /* a value of more elements than this is never stored whole */
    samba_row_dims *row; /* per node */
    uint8_t *result;     /* per node: a member that others read, or a summed one */
    uint8_t *tainted;    /* per node: outside, and depends on a result */
    bool trains;         /* BCKWD has members: it computes those of FWD again */
} samba_region;

/* Grows the region of `anchor`, a product over rows; false where it cannot be cut without storing a wide value or computing twice
 * in a training step. Arrays of `region` have room for all nodes; what they held is lost. */
bool samba_region_find(samba_region *region, samba_ref anchor);

typedef enum samba_relation { SAMBA_ROWS_UNIFORM, SAMBA_ROWS_FULL, SAMBA_ROWS_PARTIAL } samba_relation;
/* The rows of an operand, broadcast to `user`, in the dims [at, at + count) of it: one for all, all of them, or some. */
samba_relation samba_rows_relate(const samba_node *user, int at, int count, const samba_node *operand);
/* Has this node, of the region or not, rows of its own there for its user? */
static inline bool samba_in_region(const samba_region *r, samba_ref ref)
{
    return r->row[ref].kind == SAMBA_ROWS_MEMBER || r->row[ref].kind == SAMBA_ROWS_PULLED;
}

#endif
