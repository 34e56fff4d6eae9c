/* SPDX-License-Identifier: Apache-2.0
 *
 * Between pool.c, which shares planes among threads, and planes.c, which pools one plane and is compiled once for each ISA. */
#ifndef SAMBA_CPU_POOL_H
#define SAMBA_CPU_POOL_H

#include "device/cpu/kernel.h"
#include "plan/stage.h"
#include "tensor/resample.h"

typedef struct samba_pool_range {
    int64_t begin, end;
} samba_pool_range;

/* Columns that taps of the window meet, window after window: `count` columns of the plane, the window's stride apart, from column
 * `from` on, lie from `at` on; before and behind them is less than all (pool_max.h) */
typedef struct samba_pool_line {
    int64_t at, from, count;
} samba_pool_line;

/* A thread's own scratch: rows of the computing type, `index` of integers */
struct samba_pool_scratch {
    void *value; /* a row of results or of the plane; columns_first: [h][ow] */
    void *index; /* a row of results or of the plane */
    void *lines; /* greatest elements: kept * kept_size */
    void *taps;  /* resampling without tables: [2 * taps] indices and weights of a row, then of a column */
};

/* Positions of a grid that are worked on together, and what a thread needs for them (sample_plane.h). */
enum {
    SAMBA_SAMPLE_PLANES = 4,      /* that are added to at once */
    SAMBA_SAMPLE_TOGETHER = 8192, /* bytes of coordinates: enough positions that a plane is read whole */
    SAMBA_SAMPLE_SCRATCH = 1280 * 1024
};

samba_status samba_prepare_sample(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);

struct samba_pool_plan {
    samba_pool pool;              /* `adaptive` of wide windows too, whose parts of the plane are listed then */
    const samba_pool_range *rows; /* [oh] taps ky of the window that are inside the plane; adaptive: rows of the plane */
    /* average: [kernel[1]] result columns whose element kx is inside the plane; adaptive: [ow] columns of the plane */
    const samba_pool_range *columns;
    /* greatest elements of windows of one kind: the lines of a row and their size; so many rows are kept; [kernel[1]] where the
     * elements of tap kx begin; [ow, rounded up to vectors] the first element inside the plane, from the window's first tap on,
     * or negative where there is none: int32 for float, else int64 */
    const samba_pool_line *lines;
    int64_t line_count, kept, kept_size;
    const int64_t *starts;
    const void *first_inside;
    /* resampling: of each dim the taps, tables [taps][oh] and [taps][ow] of rows and columns and of weights of the computing
     * type; and whether nothing happens to the dim. No tables, NULL: found whenever they are needed, as `axis` has them */
    int64_t taps[2];
    const int32_t *indices[2];
    const void *weights[2];
    bool same[2];
    bool columns_first; /* columns of all rows, then rows of these: less to do than rows first. `value` then has room for them */
    samba_resample_axis axis[2];
    bool single;                    /* adaptive: each column is a window's */
    const double *widths, *heights; /* [ow], [oh] average: columns and rows that count; their product is the divisor */
};

#endif
