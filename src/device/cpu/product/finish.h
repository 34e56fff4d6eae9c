/* SPDX-License-Identifier: Apache-2.0
 *
 * Epilogues that need no interpreter: finished sums, with a bias a row or a column and relu or without, stored as float32. They
 * end most products of small models, where a block has too few elements to make up for choosing instructions one by one. */
#ifndef SAMBA_CPU_FINISH_H
#define SAMBA_CPU_FINISH_H

#include "device/cpu/product/blocks.h"

typedef struct samba_finish {
    bool used; /* the program is of this kind */
    bool relu;
    int rank;
    int64_t sizes[SAMBA_MAX_RANK]; /* of the domain */
    char *result;
    const char *bias;                                                     /* NULL: none */
    int64_t result_strides[SAMBA_MAX_RANK], bias_strides[SAMBA_MAX_RANK]; /* elements */
    void (*run)(const float *sums, int64_t ld, const float *bias, int64_t bias_row, int64_t bias_col, bool relu, float *result,
                int64_t pitch, int64_t rows, int64_t cols);
} samba_finish;

void samba_finish_init(samba_finish *finish, const samba_prepare *prepare, const samba_stage *stage, const samba_blocks *blocks);
/* Is nothing done but storing? Then sums may be made where they are stored. */
bool samba_finish_is_copy(const samba_finish *finish);
/* All rows of the domain are evenly spaced in the result, and so are their biases, if there is one. */
bool samba_finish_is_even(const samba_finish *finish);
/* Where a region's results belong, with bias[0] that of the first; from there rows are the innermost dim's strides apart. */
void samba_finish_at(const samba_finish *finish, int64_t row0, int64_t col0, float **result, const float **bias);
/* Rows from row0 of all rows of the domain, which are of one index of the outer dims, by columns from col0. */
void samba_finish_region(const samba_finish *finish, int64_t row0, int64_t rows, int64_t col0, int64_t cols, const void *sums,
                         int64_t ld);

#endif
