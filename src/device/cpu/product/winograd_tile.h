/* SPDX-License-Identifier: Apache-2.0
 *
 * The transforms around the products of winograd.c, vectors of tiles or of weights at a time. Compiled once an instruction set;
 * blocks.h has them in its table. */
#ifndef SAMBA_CPU_WINOGRAD_TILE_H
#define SAMBA_CPU_WINOGRAD_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAMBA_WINOGRAD_POINTS = 16 /* of a tile of 4 x 4 */ };

typedef struct samba_winograd {
    /* u[p*pitch + i], p < 16: the window of weight i < n, whose tap t is w[i*step + taps[t]] */
    void (*weights)(const float *w, int64_t step, const int64_t *taps, int64_t n, float *u, int64_t pitch);
    /* even[j], odd[j] = pixels x + 2j and x + 2j + 1 of a row, 0 beyond its `limit` pixels; row NULL: 0.
     * Whole vectors of them. */
    void (*split)(const float *row, int64_t x, int64_t limit, int64_t pairs, float *even, float *odd);
    /* v[p*pitch + j]: tiles j, from four rows that have been split. Whole vectors of tiles. */
    void (*input)(const float *const *even, const float *const *odd, int64_t tiles, float *v, int64_t pitch);
    /* Two rows of `width` pixels, the lower one unless NULL, from tiles m[p*pitch + j]. Are all of them finite? */
    bool (*output)(const float *m, int64_t pitch, int64_t width, float *upper, float *lower);
    /* Of a weight's gradient. d[p*pitch + j]: tiles j of 2 x 2, from two rows that have been split. Whole vectors of tiles. */
    void (*gradient)(const float *const *even, const float *const *odd, int64_t tiles, float *d, int64_t pitch);
    /* w[i*9 + t]: the window of channel i < n, from sums s[p*pitch + i]. Are all finite? */
    bool (*window)(const float *s, int64_t pitch, int64_t n, float *w);
} samba_winograd;

/* What rows of tiles see of one channel of an image: tile j of row i begins at pixel (y + 2i, x + 2j). */
typedef struct samba_winograd_view {
    int64_t y, x, height, width, pitch; /* of the image: pixels, elements from a row to the next */
    int64_t across, line;               /* tiles of a row; floats of a line of scratch */
} samba_winograd_view;

/* Scratch that `tiles` rows of tiles take, in floats. */
static inline int64_t samba_winograd_lines(const samba_winograd_view *view, int64_t tiles)
{
    return (2 * tiles + 2) * 2 * view->line;
}

/* `count` rows of the image, from that on which tile row `tile` sees first, split into lines: even pixels, then odd ones. All of
 * them before any is read: a load that meets two stores just made waits for both. */
static inline void samba_winograd_split(const samba_winograd *kernels, const samba_winograd_view *view, const float *image,
                                        int64_t tile, int64_t count, int64_t pairs, float *lines)
{
    for (int64_t i = 0; i < count; i++, lines += 2 * view->line) {
        int64_t y = view->y + 2 * tile + i;
        kernels->split(y >= 0 && y < view->height ? image + y * view->pitch : NULL, view->x, view->width, pairs, lines,
                       lines + view->line);
    }
}

/* Rows [tile, tile + tiles) of tiles to v, point by point. */
static inline void samba_winograd_input(const samba_winograd *kernels, const samba_winograd_view *view, const float *image,
                                        int64_t tile, int64_t tiles, float *lines, float *v, int64_t point_pitch)
{
    samba_winograd_split(kernels, view, image, tile, 2 * tiles + 2, view->across + 1, lines);
    for (int64_t i = 0; i < tiles; i++, lines += 4 * view->line) {
        const float *even[4], *odd[4];
        for (int64_t j = 0; j < 4; j++) {
            even[j] = lines + 2 * j * view->line;
            odd[j] = even[j] + view->line;
        }
        kernels->input(even, odd, view->across, v + i * view->across, point_pitch);
    }
}

#endif
