/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of one plane of float, double or int64_t (pool_plane.h). Compiled once for each ISA. */
#include "device/cpu/isa/lanes.h"
#include "device/cpu/tile/parts.h"
#include "device/cpu/pool/pool.h"
#include "device/cpu/isa/shuffle.h"
#include "device/cpu/isa/wide.h"
#include <math.h>
#include <string.h>

static bool is_2x2(const samba_pool *p)
{
    return !p->adaptive && p->kernel[0] == 2 && p->kernel[1] == 2 && p->stride[0] == 2 && p->stride[1] == 2 &&
           p->padding[0] == 0 && p->padding[1] == 0 && p->dilation[0] == 1 && p->dilation[1] == 1 && 2 * p->oh <= p->h &&
           2 * p->ow <= p->w;
}

/* One window that is the whole plane: global pooling. */
static bool is_whole(const samba_pool_plan *plan)
{
    const samba_pool *p = &plan->pool;
    if (p->oh != 1 || p->ow != 1 || p->h < 1 || p->w < 1)
        return false;
    if (p->adaptive)
        return plan->rows->begin == 0 && plan->rows->end == p->h && plan->columns->begin == 0 && plan->columns->end == p->w;
    return p->kernel[0] == p->h && p->kernel[1] == p->w && p->padding[0] == 0 && p->padding[1] == 0 && p->dilation[0] == 1 &&
           p->dilation[1] == 1;
}

enum { TAPS_TOGETHER = 256 };

/* Elements of INDICES */
typedef int32_t index_f32;
typedef int64_t index_f64, index_i64;

#define T float
#define LEAST -INFINITY
#define NO_NUMBER(v) ((v) != (v))
#define VECTOR floats
#define INDICES ints
#define LANES_FROM lanes_from_ints
#define NAME(x) x##_f32
#include "device/cpu/pool/pool_plane.h"
#undef T
#undef VECTOR
#undef INDICES
#undef LANES_FROM
#undef NAME
#define T double
#define VECTOR doubles
#define INDICES longs
#define LANES_FROM lanes_from_longs
#define NAME(x) x##_f64
#include "device/cpu/pool/pool_plane.h"
#undef T
#undef LEAST
#undef NO_NUMBER
#undef VECTOR
#undef NAME
#define T int64_t
#define LEAST INT64_MIN
#define NO_NUMBER(v) false
#define VECTOR longs
#define NAME(x) x##_i64
#include "device/cpu/pool/pool_plane.h"
