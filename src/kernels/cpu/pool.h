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
    const double *widths, *heights;  /* [ow], [oh] average: columns and rows that count; their product is the divisor */
};

#endif
