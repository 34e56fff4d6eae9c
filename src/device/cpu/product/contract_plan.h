/* SPDX-License-Identifier: Apache-2.0
 *
 * How one contraction will run. The product's two sides are named for what they are to the block kernels: the vector side's
 * columns fill vector registers, the row side's elements are spread over them. `swapped` makes m the vector side: C^T = B^T A^T
 * is computed and each finished block is transposed before the epilogue.
 *
 * A unit is one batch element x a group of row blocks x a group of vector blocks, whose sums stay in scratch over all of k.
 * Units go to threads in fixed ranges; where there are too few of them k is cut in slices, whose partial sums are combined in
 * order. An epilogue that needs whole rows wants all columns in one unit, unless sums and epilogue are apart: all sums go to one
 * matrix that threads share, and after a barrier its rows are dealt anew. */
#ifndef SAMBA_CPU_CONTRACT_PLAN_H
#define SAMBA_CPU_CONTRACT_PLAN_H

#include "device/cpu/product/blocks.h"
#include "device/cpu/product/frame.h"

#define SAMBA_CONTRACT_GROUP 64    /* most row blocks of a unit */
#define SAMBA_CONTRACT_TOGETHER 16 /* most units that go through the steps of k together */

typedef enum samba_contract_way {
    SAMBA_WAY_DENSE,   /* k is evenly spaced on both sides: libxsmm, or the plain block kernel */
    SAMBA_WAY_OFFSETS, /* k by tables */
    SAMBA_WAY_DOT,     /* both sides contiguous along k */
    SAMBA_WAY_INTEGER
} samba_contract_way;

typedef struct samba_contract_plan {
    samba_contract_way way;
    bool swapped, row_packed, vector_packed;
    bool view;  /* vector blocks have gaps: they are computed along and dropped afterwards */
    bool apart; /* sums of all units in one shared matrix: rows of the row side by all columns of the vector side */
    samba_source row, vector;
    int64_t row_group, vector_group, row_units, vector_units, units, slices;
    int64_t together; /* units, batch elements, that take each step of k one after the other: what they share is packed once */
    int64_t sums_rows, sums_ld;          /* of a unit: elements */
    int64_t row_ld, row_step, vector_ld; /* strides of a row block (own, k) and of k on the vector side, where even */
    int64_t row_pack_ld, vector_pack_ld;
    int64_t dot_run;                                                   /* elements of k that lie together on both sides */
    int64_t sums_bytes, row_pack_bytes, vector_pack_bytes, turn_bytes; /* scratch; row_pack_bytes: of one block */
    double cost;                                                       /* ns, about */
} samba_contract_plan;

/* The cheapest plan by a model of measured costs. The same problem gives the same plan. False where its windows reach over more
 * elements than a machine's memory has. */
bool samba_contract_choose(const samba_contract_problem *problem, samba_contract_plan *plan);

/* Whether sums can be made where they are stored: there is nothing to finish, and the result's layout suits the blocks. */
bool samba_contract_in_place(const samba_contract_plan *plan, const samba_finish *finish);

#endif
