/* SPDX-License-Identifier: Apache-2.0
 *
 * Epilogues that need no interpreter: finished sums, with a bias a row or a column or without, with the elements of another value
 * (float32) or without, with relu, bounds (relu6) or neither, stored as float32, or rounded to 16 bits. They end most products of
 * small models, where a block has too few elements to make up for choosing instructions one by one, and all whose results are 16
 * bits wide: a tile would copy the block, round it and copy it again. */
#ifndef SAMBA_CPU_FINISH_H
#define SAMBA_CPU_FINISH_H

#include "device/cpu/product/blocks.h"
#include "device/cpu/product/micro_kernel.h"

typedef struct samba_finish {
    bool used; /* the program is of this kind */
    bool relu, clamp, round_sums;
    float low, high;
    samba_dtype dtype; /* of the result, and of the bias */
    int rank;
    int64_t sizes[SAMBA_MAX_RANK]; /* of the domain, whatever the kind */
    char *result;
    const char *bias, *more;                                              /* NULL: none */
    int64_t result_strides[SAMBA_MAX_RANK], bias_strides[SAMBA_MAX_RANK]; /* elements */
    int64_t more_strides[SAMBA_MAX_RANK];
    samba_finish_fn *run;
} samba_finish;

void samba_finish_init(samba_finish *finish, const samba_preparing *prepare, const samba_stage *stage);
/* Results are float32 and nothing lies there that is still to be read, so sums may be made where these are stored. */
bool samba_finish_takes_sums(const samba_finish *finish);
/* Nothing is done to such results, either. */
bool samba_finish_is_copy(const samba_finish *finish);
/* All rows of the domain are evenly spaced in the result, and so are their biases, if there is one. */
bool samba_finish_is_even(const samba_finish *finish);
/* A region's results and biases, to which its sums and its size are yet to be added: rows are the innermost dim's. */
samba_finish_rows samba_finish_at(const samba_finish *finish, int64_t row0, int64_t col0);
/* Rows from row0 of all rows of the domain, which are of one index of the outer dims, by columns from col0. */
void samba_finish_region(const samba_finish *finish, int64_t row0, int64_t rows, int64_t col0, int64_t cols, const void *sums,
                         int64_t ld);

#endif
