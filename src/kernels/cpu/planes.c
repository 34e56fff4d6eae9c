/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of one plane of float, double or int64_t (pool_plane.h). Compiled once for each ISA. */
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/parts.h"
#include "kernels/cpu/pool.h"
#include <math.h>
#include <string.h>

/* Where the plane's element for (ky, kx) of result (oi, 0) would be. */
static int64_t row_start(const samba_pool *p, int64_t oi, int64_t ky, int64_t kx)
{
    return (oi * p->stride[0] - p->padding[0] + ky * p->dilation[0]) * p->w - p->padding[1] + kx * p->dilation[1];
}

static bool is_2x2(const samba_pool *p)
{
    return !p->adaptive && p->kernel[0] == 2 && p->kernel[1] == 2 && p->stride[0] == 2 && p->stride[1] == 2 && p->padding[0] == 0 &&
           p->padding[1] == 0 && p->dilation[0] == 1 && p->dilation[1] == 1 && 2 * p->oh <= p->h && 2 * p->ow <= p->w;
}

#define T float
#define LEAST -INFINITY
#define NO_NUMBER(v) ((v) != (v))
#define VECTOR floats
#define INDICES ints
#define NAME(x) x##_f32
#include "kernels/cpu/pool_plane.h"
#undef T
#undef VECTOR
#undef INDICES
#undef NAME
#define T double
#define VECTOR doubles
#define INDICES longs
#define NAME(x) x##_f64
#include "kernels/cpu/pool_plane.h"
#undef T
#undef LEAST
#undef NO_NUMBER
#undef VECTOR
#undef INDICES
#undef NAME
#define T int64_t
#define LEAST INT64_MIN
#define NO_NUMBER(v) false
#define NAME(x) x##_i64
#include "kernels/cpu/pool_plane.h"
