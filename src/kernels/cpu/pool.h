/* SPDX-License-Identifier: Apache-2.0
 *
 * Between pool.c, which shares planes among threads, and planes.c, which pools one plane and is compiled once for each ISA. */
#ifndef SAMBA_CPU_POOL_H
#define SAMBA_CPU_POOL_H

#include "kernels/stage.h"

typedef struct samba_pool_range {
    int64_t begin, end;
} samba_pool_range;

struct samba_pool_plan {
    samba_pool pool;
    const samba_pool_range *rows;    /* [oh] places ky of the window that are inside the plane; adaptive: rows of the plane */
    const samba_pool_range *columns; /* [kernel[1]] result columns whose element kx is inside the plane; adaptive: [ow] columns of the plane */
    /* resampling: of each dim the taps, tables [taps][oh] and [taps][ow] of rows and columns and of weights of the computing type; and
     * whether nothing happens to the dim */
    int64_t taps[2];
    const int32_t *places[2];
    const void *weights[2];
    bool same[2];
    const double *widths, *heights;  /* [ow], [oh] average: columns and rows that count; their product is the divisor */
};

#endif
