/* SPDX-License-Identifier: Apache-2.0
 *
 * What the backward computes again at a given price of memory. The pass `remat` has none;
 * `budget` (compiler/budget.c) looks for the lowest whose plan fits. */
#ifndef SAMBA_REMAT_H
#define SAMBA_REMAT_H

#include "compiler/compiler.h"

typedef struct samba_remat_price {
    double
        memory; /* of a byte that is kept from forward to backward, beside the time its traffic takes; 0: contractions, reductions
                            and kernels are never repeated */
    /* forward is cut into so many, and values that reach over a cut are never computed again; 0: into none */
    int64_t segments;
    /* what a byte costs that nodes from `border` on give: between two prices there are as many choices as borders */
    double late;
    int64_t border;
    const uint8_t *kept; /* per node: never computed again; NULL: none is named */
} samba_remat_price;

typedef struct samba_remat {
    samba_context *context;
    const samba_graph *graph;
    samba_fusion forward; /* of the forward phase alone */
    uint8_t *needed;      /* per node, of FWD: a later phase reads it */
    uint8_t *in_memory;   /* per node, of FWD: a later phase reads it in a stage that needs it in memory */
    uint8_t *frozen;      /* per node: it is made of what no step changes, and of no input, by maps and moves */
    uint8_t *read_anyway; /* per node: the backward reads it in a stage of maps and sums, whatever is decided */
    /* per node of FWD that has memory or a register: the last node of FWD that reads it, itself at least */
    int64_t *last_use;
    int64_t contractions; /* of FWD */
    int64_t forward_end;  /* behind the last node of FWD */
    uint8_t *again;       /* per node, of FWD: the last rewriting computes it again */
    double repeated;      /* what that takes, in the units of prices */
} samba_remat;

samba_status samba_remat_begin(samba_remat *remat, samba_context *context, const samba_graph *graph);
void samba_remat_end(samba_remat *remat);
/* A new graph, in which BCKWD computes again what that makes cheaper. */
samba_status samba_remat_rewrite(samba_remat *remat, const samba_remat_price *price, samba_graph **graph);
/* The cost of computing a value again, in the same units. */
double samba_remat_cost(const samba_remat *remat, const samba_remat_price *price, samba_ref ref);

#endif
