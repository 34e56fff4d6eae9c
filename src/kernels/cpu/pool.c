/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling: threads share the planes. float32 and float64 are worked on where they are; other float dtypes pass through planes of
 * double in the thread's scratch. Padding counts as absent (max) or as 0 (average). */
#include "kernels/kernel.h"
#include <math.h>
#include <string.h>

typedef struct range {
    int64_t begin, end;
} range;

static int64_t divide_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/* Places k of a window's side with 0 <= start + k*step < limit, of `count`. */
static range inside(int64_t start, int64_t step, int64_t limit, int64_t count)
{
    range r = {divide_up(-start, step), divide_up(limit - start, step)};
    r.begin = r.begin < 0 ? 0 : r.begin;
    r.end = r.end > count ? count : r.end < r.begin ? r.begin : r.end;
    return r;
}

/* dim 0: rows ky inside the plane for result row `index`; dim 1: columns kx for a result column */
static range window_range(const samba_pool *p, int dim, int64_t index)
{
    return inside(index * p->stride[dim] - p->padding[dim], p->dilation[dim], dim ? p->w : p->h, p->kernel[dim]);
}

/* Result columns whose element kx is inside the plane. */
static range column_range(const samba_pool *p, int64_t kx)
{
    return inside(kx * p->dilation[1] - p->padding[1], p->stride[1], p->w, p->ow);
}

/* Where the plane's element for (ky, kx) of result (oi, 0) would be; columns before the plane make it reach into the row before. */
static int64_t row_start(const samba_pool *p, int64_t oi, int64_t ky, int64_t kx)
{
    return (oi * p->stride[0] - p->padding[0] + ky * p->dilation[0]) * p->w - p->padding[1] + kx * p->dilation[1];
}

static int64_t divisor(const samba_pool *p, int64_t height, int64_t oj)
{
    if (p->count_include_pad)
        return p->kernel[0] * p->kernel[1];
    range kx = window_range(p, 1, oj);
    return height * (kx.end - kx.begin);
}

static bool is_2x2(const samba_pool *p)
{
    return p->kernel[0] == 2 && p->kernel[1] == 2 && p->stride[0] == 2 && p->stride[1] == 2 && p->padding[0] == 0 && p->padding[1] == 0 &&
           p->dilation[0] == 1 && p->dilation[1] == 1;
}

#define T float
#define NAME(x) x##_f32
#include "kernels/cpu/pool_plane.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_f64
#include "kernels/cpu/pool_plane.h"
#undef T
#undef NAME

typedef struct pool_state {
    samba_pool pool;
    const samba_kernels *kernels;
    samba_dtype dtype;
    int operand_count;
    char *memory[3];      /* operands; the last is the result */
    int64_t elements[3];  /* of a plane */
    int64_t planes[3];    /* in thread scratch: planes of double */
    int64_t value, place; /* in thread scratch: a row of results, and of places */
    int64_t thread_scratch;
} pool_state;

#define POOL_PLANE(suffix, type)                                                                                             \
    static void pool_plane_##suffix(const pool_state *s, char *const *data, char *scratch)                                   \
    {                                                                                                                        \
        const samba_pool *p = &s->pool;                                                                                      \
        const type *first = (const type *)data[0], *second = (const type *)data[1];                                          \
        type *result = (type *)data[s->operand_count - 1], *value = (type *)(scratch + s->value);                            \
        if (p->average && p->gradient)                                                                                       \
            average_gradient_##suffix(p, first, result, value);                                                              \
        else if (p->average)                                                                                                 \
            average_forward_##suffix(p, first, result);                                                                      \
        else if (p->gradient && is_2x2(p))                                                                                   \
            max_gradient_2x2_##suffix(p, first, second, result);                                                             \
        else if (p->gradient)                                                                                                \
            max_gradient_##suffix(p, first, second, result, value, (int64_t *)(scratch + s->place));                         \
        else if (is_2x2(p))                                                                                                  \
            max_forward_2x2_##suffix(p, first, result);                                                                      \
        else                                                                                                                 \
            max_forward_##suffix(p, first, result);                                                                          \
    }
POOL_PLANE(f32, float)
POOL_PLANE(f64, double)

/* Other dtypes: float32 registers between memory and double. */
static void widen(const pool_state *s, const char *source, double *d, int64_t n)
{
    float part[SAMBA_TILE_CAPACITY];
    size_t size = samba_dtype_size(s->dtype);
    for (int64_t i = 0; i < n; i += SAMBA_TILE_CAPACITY) {
        int64_t count = n - i < SAMBA_TILE_CAPACITY ? n - i : SAMBA_TILE_CAPACITY;
        s->kernels->load[s->dtype](part, source + i * (int64_t)size, count);
        s->kernels->convert[SAMBA_F32][SAMBA_F64](d + i, part, NULL, NULL, count);
    }
}

static void narrow(const pool_state *s, const double *a, char *destination, int64_t n)
{
    float part[SAMBA_TILE_CAPACITY];
    size_t size = samba_dtype_size(s->dtype);
    for (int64_t i = 0; i < n; i += SAMBA_TILE_CAPACITY) {
        int64_t count = n - i < SAMBA_TILE_CAPACITY ? n - i : SAMBA_TILE_CAPACITY;
        s->kernels->convert[SAMBA_F64][SAMBA_F32](part, a + i, NULL, NULL, count);
        s->kernels->store[s->dtype](destination + i * (int64_t)size, part, count);
    }
}

static void run_pool(const void *state, char *scratch, int phase, int thread, int threads)
{
    const pool_state *s = state;
    (void)phase;
    scratch += thread * s->thread_scratch;
    int64_t size = (int64_t)samba_dtype_size(s->dtype), result = s->operand_count - 1;
    for (int64_t plane = s->pool.planes * thread / threads, end = s->pool.planes * (thread + 1) / threads; plane < end; plane++) {
        char *data[3] = {NULL, NULL, NULL};
        for (int i = 0; i < s->operand_count; i++)
            data[i] = s->memory[i] + plane * s->elements[i] * size;
        if (s->dtype == SAMBA_FLOAT32) {
            pool_plane_f32(s, data, scratch);
            continue;
        }
        if (s->dtype == SAMBA_FLOAT64) {
            pool_plane_f64(s, data, scratch);
            continue;
        }
        char *wide[3] = {NULL, NULL, NULL};
        for (int i = 0; i < s->operand_count; i++) {
            wide[i] = scratch + s->planes[i];
            if (i < result)
                widen(s, data[i], (double *)wide[i], s->elements[i]);
        }
        pool_plane_f64(s, wide, scratch);
        narrow(s, (const double *)wide[result], data[result], s->elements[result]);
    }
}

/* Room for n elements of 8 bytes in the thread's scratch; false on overflow. */
static bool reserve(pool_state *s, int64_t n, int64_t *place)
{
    int64_t bytes;
    *place = s->thread_scratch;
    if (!samba_mul_checked(n, 8, &bytes) || !samba_add_checked(bytes, SAMBA_ALIGNMENT, &bytes) ||
        !samba_add_checked(s->thread_scratch, bytes, &s->thread_scratch))
        return false;
    s->thread_scratch -= s->thread_scratch % SAMBA_ALIGNMENT;
    return true;
}

samba_status samba_prepare_pool(const samba_prepare *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    pool_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    s->pool = stage->pool;
    s->kernels = prepare->kernels;
    s->operand_count = stage->operand_count;
    s->dtype = (samba_dtype)stage->operands[0].dtype;
    if (!samba_dtype_is_floating_point(s->dtype))
        return samba_fail(prepare->context, SAMBA_ERROR_DTYPE, "stage %s pools %s; it takes floating-point planes", stage->name,
                          samba_dtype_name(s->dtype));
    int64_t size = (int64_t)samba_dtype_size(s->dtype), outside = stage->pool.h * stage->pool.w, result = stage->pool.oh * stage->pool.ow;
    bool fits = reserve(s, stage->pool.ow, &s->value) && reserve(s, stage->pool.ow, &s->place);
    for (int i = 0; i < s->operand_count; i++) {
        const samba_operand *operand = &stage->operands[i];
        bool pooled = stage->pool.gradient ? i == s->operand_count - 2 : i == s->operand_count - 1; /* y or dy */
        s->memory[i] = prepare->memory + prepare->buffers[operand->buffer].offset + operand->offset * size;
        s->elements[i] = pooled ? result : outside;
        if (s->dtype != SAMBA_FLOAT32 && s->dtype != SAMBA_FLOAT64)
            fits = fits && reserve(s, s->elements[i], &s->planes[i]);
    }
    if (!fits)
        return samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED, "stage %s: a plane needs more scratch than this machine can address",
                          stage->name);
    *prepared = (samba_prepared){.run = run_pool, .state = s, .phases = 1, .thread_scratch = s->thread_scratch};
    return SAMBA_OK;
}
