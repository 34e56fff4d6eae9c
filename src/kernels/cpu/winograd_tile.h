/* SPDX-License-Identifier: Apache-2.0
 *
 * The transforms around the products of winograd.c, vectors of tiles or of weights at a time. Compiled once an instruction set; blocks.h
 * has them in its table. */
#ifndef SAMBA_CPU_WINOGRAD_TILE_H
#define SAMBA_CPU_WINOGRAD_TILE_H

#include <stdbool.h>
#include <stdint.h>

enum { SAMBA_WINOGRAD_PLACES = 16 /* of a tile of 4 x 4 */ };

typedef struct samba_winograd {
    /* u[p*pitch + i], p < 16: the window of weight i < n, whose tap t is w[i*step + taps[t]] */
    void (*weights)(const float *w, int64_t step, const int64_t *taps, int64_t n, float *u, int64_t pitch);
    /* even[j], odd[j] = pixels x + 2j and x + 2j + 1 of a row, 0 beyond its `limit` pixels; row NULL: 0. Whole vectors of them. */
    void (*split)(const float *row, int64_t x, int64_t limit, int64_t pairs, float *even, float *odd);
    /* v[p*pitch + j]: tiles j, from four rows that have been split. Whole vectors of tiles. */
    void (*input)(const float *const *even, const float *const *odd, int64_t tiles, float *v, int64_t pitch);
    /* Two rows of `width` pixels, the lower one unless NULL, from tiles m[p*pitch + j]. Are all of them finite? */
    bool (*output)(const float *m, int64_t pitch, int64_t width, float *upper, float *lower);
} samba_winograd;

#endif
