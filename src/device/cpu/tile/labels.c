/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of which one element matters, the one in the column of the row's label (cross entropy): that element is found, where
 * comparing every column's number would take 64-bit comparisons of all. Also rows that are taken or left as a whole. combine.c
 * makes these codes.
 *
 * A label may lie in memory that the program writes as well. It is read once, and its column is not looked up again. */
#include "device/cpu/tile/tile.h"
#include <math.h>
#include <string.h>

/* The column of the label in the tile; -1 where it is in another. */
static inline int64_t column_of(const samba_frame *frame, const int64_t *label)
{
    int64_t column = __atomic_load_n(label, __ATOMIC_RELAXED);
    return column >= frame->col && column - frame->col < frame->cols ? column - frame->col : -1;
}

void samba_tile_set(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    float one = 1, zero = 0, *d = (float *)frame->pointers[code->d];
    const int64_t *labels = (const int64_t *)frame->pointers[code->a];
    bool eq = code->op == SAMBA_TILE_eq;
    const float *there = eq ? &one : (const float *)frame->pointers[code->b];
    const float *elsewhere = eq ? &zero : (const float *)frame->pointers[code->c];
    program->kernels->fill[SAMBA_F32](d, elsewhere, frame->rows * frame->cols);
    for (int64_t r = 0; r < frame->rows; r++) {
        int64_t column = column_of(frame, &labels[r]);
        if (column >= 0)
            d[r * frame->cols + column] = *there;
    }
}

void samba_tile_pick(samba_frame *frame, const samba_code *code)
{
    float *d = (float *)frame->pointers[code->d];
    const float *a = (const float *)frame->pointers[code->a];
    const int64_t *labels = (const int64_t *)frame->pointers[code->b];
    for (int64_t r = 0; r < frame->rows; r++) {
        if (frame->first)
            d[r] = -INFINITY;
        int64_t column = column_of(frame, &labels[r]);
        if (column >= 0)
            d[r] = a[r * frame->cols + column];
    }
}

void samba_tile_choose(samba_frame *frame, const samba_code *code)
{
    const float *taken = (const float *)frame->pointers[code->a];
    char *d = frame->pointers[code->d];
    const char *b = frame->pointers[code->b], *c = frame->pointers[code->c];
    int64_t bytes = frame->cols * (int64_t)sizeof(float);
    for (int64_t r = 0; r < frame->rows; r++) {
        const char *from = taken[r] != 0 ? b : c;
        if (from + r * bytes != d + r * bytes)
            memcpy(d + r * bytes, from + r * bytes, (size_t)bytes);
    }
}
