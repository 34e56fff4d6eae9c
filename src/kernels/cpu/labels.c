/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of which one element matters, that in the column of the row's label (cross entropy): instead of comparing every column's
 * number, in 64 bits, the one element is found. And rows that are taken or left as a whole. combine.c makes these codes. */
#include "kernels/cpu/tile.h"
#include <math.h>
#include <string.h>

void samba_tile_set(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    float one = 1, zero = 0, *d = (float *)frame->pointers[code->d];
    const int64_t *labels = (const int64_t *)frame->pointers[code->a];
    bool eq = code->op == SAMBA_TILE_eq;
    const float *there = eq ? &one : (const float *)frame->pointers[code->b];
    const float *elsewhere = eq ? &zero : (const float *)frame->pointers[code->c];
    program->kernels->fill[SAMBA_F32](d, elsewhere, frame->rows * frame->cols);
    for (int64_t r = 0; r < frame->rows; r++)
        if (labels[r] >= frame->col && labels[r] - frame->col < frame->cols)
            d[r * frame->cols + labels[r] - frame->col] = *there;
}

void samba_tile_pick(samba_frame *frame, const samba_code *code)
{
    float *d = (float *)frame->pointers[code->d];
    const float *a = (const float *)frame->pointers[code->a];
    const int64_t *labels = (const int64_t *)frame->pointers[code->b];
    for (int64_t r = 0; r < frame->rows; r++) {
        if (frame->first)
            d[r] = -INFINITY;
        if (labels[r] >= frame->col && labels[r] - frame->col < frame->cols)
            d[r] = a[r * frame->cols + labels[r] - frame->col];
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
