/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of large products: see dense.h. A small block of sums, rows by vectors, lives in registers over all of k. Its sizes are
 * constants of an inlined call, so each is a loop of multiply-adds and little else; there is room between them to ask for memory
 * that will be needed next (fetch.h).
 *
 * Compiled once more with -DSAMBA_DENSE_PAIRS, for CPUs that multiply pairs of bfloat16: an element of a or b is then a pair, and
 * a multiply-add two of them. */
#include "device/cpu/product/dense.h"
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/dense_shape.h"

#include <string.h>

#define ROWS DENSE_ROWS
#define VECTORS DENSE_VECTORS

/* Steps of k between two looks at what else is to be done: some hundred multiply-adds. A core that shares its decoders with
 * another thread takes fewer than four instructions a cycle, so those beside the multiply-adds are what it loses time by. */
enum { LANES = DENSE_LANES, COLS = DENSE_COLS, DEPTH = VECTOR_REGISTERS >= 32 ? 4 : 8 };

/* How the rows of a lie: in strips; each by itself, its k together; or side by side, for each k. */
typedef enum rows_lie { STRIPS, ALONG_K, SIDE_BY_SIDE } rows_lie;

INLINE floats load(const float *p)
{
    floats v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
typedef floats small_sums[ROWS][VECTORS];

#if defined(SAMBA_DENSE_PAIRS)
#if defined(__clang__) /* Clang 16 does not survive a vector of bfloat16 made of one float */
typedef floats pairs;
INLINE floats add_pairs(floats sum, pairs a, floats b)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}
#else
typedef __m512bh pairs;
#define add_pairs(sum, a, b) ((floats)_mm512_dpbf16_ps((__m512)(sum), a, (__m512bh)(b)))
#endif
#endif

INLINE void load_vectors(const int vectors, const float *b, floats *x)
{
    UNROLL for (int j = 0; j < vectors; j++)
        x[j] = load(b + j * LANES);
}

/* Up to six rows from one of them on. Two addresses and one distance reach them: three from each, as an instruction adds the
 * distance once or twice. The compiler would make an address for each row, more than there are registers; so it is kept from
 * knowing that these belong together. */
typedef struct some_rows {
    const float *first, *fourth;
    int64_t ld;
} some_rows;

INLINE some_rows rows_from(const float *a, int64_t ld)
{
    some_rows r = {a, a + 3 * ld, ld};
    __asm__("" : "+r"(r.fourth), "+r"(r.ld));
    return r;
}
INLINE const float *row_at(const some_rows *r, const int i) { return i < 3 ? r->first + i * r->ld : r->fourth + (i - 3) * r->ld; }
INLINE void move_rows(some_rows *r, int64_t by)
{
    r->first += by;
    r->fourth += by;
}

INLINE const float *element_at(const some_rows *r, const rows_lie lie, const int i, const int u)
{
    return lie == STRIPS ? r->first + u * ROWS + i : lie == SIDE_BY_SIDE ? r->first + i : row_at(r, i) + u;
}

INLINE void multiply_step(const int rows, const int vectors, const rows_lie lie, const some_rows *a, const int u, const floats *x,
                          small_sums sums)
{
    UNROLL for (int i = 0; i < rows; i++) {
        const float *at = element_at(a, lie, i, u);
#if defined(SAMBA_DENSE_PAIRS)
        float pair; /* rows that are read in place may begin at any bfloat16 */
        __builtin_memcpy(&pair, at, sizeof pair);
        pairs y = (pairs)_mm512_set1_ps(pair);
        UNROLL for (int j = 0; j < vectors; j++)
            sums[i][j] = add_pairs(sums[i][j], y, x[j]);
#else
        spread_float y = spread_of(*at);
        UNROLL for (int j = 0; j < vectors; j++)
            sums[i][j] = fused_spread(sums[i][j], y, x[j]);
#endif
    }
}

#if defined(SAMBA_NEON)
#define LANE(n)                                                                                                                  \
    case n: __asm__("fmla %0.4s, %1.4s, %2.s[" #n "]" : "+w"(sum) : "w"(b), "w"(a)); break;
INLINE floats fused_lane(floats sum, floats a, const int lane, floats b)
{
    switch (lane) {
        LANE(0)
        LANE(1)
        LANE(2)
        LANE(3)
    }
    return sum;
}

/* DEPTH steps of a strip, whose elements follow one another: a product takes its factor from a lane, so one load serves four. */
INLINE void multiply_strip(const int rows, const int vectors, const float *a, const float *b, small_sums sums)
{
    UNROLL for (int u = 0; u < DEPTH; u++) {
        floats x[VECTORS];
        load_vectors(vectors, b + u * COLS, x);
        UNROLL for (int i = 0; i < rows; i++) {
            const int at = u * ROWS + i;
            floats y = load(a + at / LANES * LANES);
            UNROLL for (int j = 0; j < vectors; j++)
                sums[i][j] = fused_lane(sums[i][j], y, at % LANES, x[j]);
        }
    }
}
INLINE void multiply_strips(const int rows, const int vectors, const bool twos, const some_rows *strip, const some_rows *other,
                            const float *b, small_sums sums, small_sums more)
{
    multiply_strip(rows, vectors, strip->first, b, sums);
    if (twos)
        multiply_strip(rows, vectors, other->first, b, more);
}
#else
/* DEPTH steps of one strip or two. */
INLINE void multiply_strips(const int rows, const int vectors, const bool twos, const some_rows *strip, const some_rows *other,
                            const float *b, small_sums sums, small_sums more)
{
    floats x[VECTORS];
    UNROLL for (int u = 0; u < DEPTH; u++) {
        load_vectors(vectors, b + u * COLS, x);
        multiply_step(rows, vectors, STRIPS, strip, u, x, sums);
        if (twos)
            multiply_step(rows, vectors, STRIPS, other, u, x, more);
    }
}
#endif

/* With masks the last vector may hold a part of the lanes alone: `last` of them. */
INLINE void begin_sums(const int rows, const int vectors, int last, const float *from, int64_t ld, small_sums sums)
{
    some_rows r = rows_from(from, ld);
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++) {
            const float *at = row_at(&r, i) + j * LANES;
            sums[i][j] = VECTOR_MASKED && j + 1 == vectors ? load_part_f32(at, last) : load(at);
        }
    }
}

INLINE void end_sums(const int rows, const int vectors, int last, float *c, int64_t ld, const small_sums sums)
{
    some_rows r = rows_from(c, ld);
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++) {
            float *at = (float *)row_at(&r, i) + j * LANES;
            if (VECTOR_MASKED && j + 1 == vectors)
                store_part_f32(at, last, sums[i][j]);
            else
                __builtin_memcpy(at, &sums[i][j], sizeof(floats));
        }
    }
}

/* Strips of equal height, one under the other, times some columns. */
typedef struct strip_run {
    const float *a, *b;
    int64_t next; /* from one strip's first element of a to the next one's */
    const float *from;
    float *c;
    int64_t count;
    int last; /* lanes of the last vector of columns */
} strip_run;

/* In twos, two strips are taken at once: the sums of one by one vector are too few to hide how long a multiply-add takes. */
INLINE void run_of(const int rows, const int vectors, const rows_lie lie, const bool twos, const samba_dense *d, strip_run *run,
                   samba_fetch *fetch)
{
    const int64_t ldb = lie == STRIPS ? COLS : d->ldb, k = d->k, next = run->next, ldc = d->ldc, from_ld = d->from_ld;
    /* from one look to the next the rows move once, those side by side at each step */
    const int64_t step = lie == STRIPS ? ROWS : lie == ALONG_K ? 1 : d->ska;
    const int last = run->last, taken = twos ? 2 : 1;
    const float *a = run->a, *from = run->from;
    float *c = run->c;
    int64_t count = run->count;
    samba_fetch_region region = fetch->now;
    do {
        const float *b = run->b;
        some_rows strip = rows_from(a, d->lda), other = rows_from(a + next, d->lda);
        small_sums sums, more;
        floats x[VECTORS];
        if (region.todo == 0 && fetch->count > 0) {
            fetch->now.todo = 0;
            samba_fetch_advance(fetch);
            region = fetch->now;
        }
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vectors; j++)
                sums[i][j] = more[i][j] = (floats){0};
        }
        if (from) {
            begin_sums(rows, vectors, last, from, from_ld, sums);
            if (twos)
                begin_sums(rows, vectors, last, from + rows * from_ld, from_ld, more);
            from += taken * rows * from_ld;
        }
        for (int64_t left = k / DEPTH; left > 0; left--) {
            samba_fetch_line(&region);
            if (lie == STRIPS) {
                multiply_strips(rows, vectors, twos, &strip, &other, b, sums, more);
                b += DEPTH * ldb;
            }
            UNROLL for (int u = 0; lie != STRIPS && u < DEPTH; u++, b += ldb) {
                /* else the compiler keeps the distances of all steps, in memory as there are not so many registers */
                __asm__("" : "+r"(b), "+r"(strip.ld));
                if (twos)
                    __asm__("" : "+r"(other.ld));
                load_vectors(vectors, b, x);
                multiply_step(rows, vectors, lie, &strip, u, x, sums);
                if (twos)
                    multiply_step(rows, vectors, lie, &other, u, x, more);
                move_rows(&strip, lie == SIDE_BY_SIDE ? step : 0);
                move_rows(&other, lie == SIDE_BY_SIDE ? step : 0);
            }
            move_rows(&strip, lie == SIDE_BY_SIDE ? 0 : DEPTH * step);
            move_rows(&other, lie == SIDE_BY_SIDE ? 0 : DEPTH * step);
        }
#pragma GCC unroll 1
        for (int64_t left = k % DEPTH; left > 0; left--, b += ldb) {
            load_vectors(vectors, b, x);
            multiply_step(rows, vectors, lie, &strip, 0, x, sums);
            if (twos)
                multiply_step(rows, vectors, lie, &other, 0, x, more);
            move_rows(&strip, step);
            move_rows(&other, step);
        }
        end_sums(rows, vectors, last, c, ldc, sums);
        if (twos)
            end_sums(rows, vectors, last, c + rows * ldc, ldc, more);
        c += taken * rows * ldc;
        a += taken * next;
        count -= taken;
    } while (count >= taken);
    fetch->now = region;
    run->a = a;
    run->from = from;
    run->c = c;
    run->count = count;
}

/* One function for each shape, so that the compiler gives each all registers. */
typedef void run_fn(const samba_dense *d, strip_run *run, samba_fetch *fetch);
#define LIES(rows, vectors, twos)                                                                                                \
    ONE(rows, vectors, STRIPS, twos) ONE(rows, vectors, ALONG_K, twos) ONE(rows, vectors, SIDE_BY_SIDE, twos)
#if VECTORS == 4
#define WIDTHS(rows) LIES(rows, 1, 0) LIES(rows, 1, 1) LIES(rows, 2, 0) LIES(rows, 3, 0) LIES(rows, 4, 0)
#else
#define WIDTHS(rows) LIES(rows, 1, 0) LIES(rows, 1, 1) LIES(rows, 2, 0)
#endif
#if ROWS == 6
#define SHAPES WIDTHS(1) WIDTHS(2) WIDTHS(3) WIDTHS(4) WIDTHS(5) WIDTHS(6)
#else
#define SHAPES WIDTHS(1) WIDTHS(2) WIDTHS(3) WIDTHS(4) WIDTHS(5)
#endif

#define ONE(rows, vectors, lie, twos)                                                                                            \
    static void run_##rows##_##vectors##_##lie##_##twos(const samba_dense *d, strip_run *run, samba_fetch *fetch)                \
    {                                                                                                                            \
        run_of(rows, vectors, lie, twos, d, run, fetch);                                                                         \
    }
SHAPES
#undef ONE
#define ONE(rows, vectors, lie, twos) [rows - 1][vectors - 1][lie][twos] = run_##rows##_##vectors##_##lie##_##twos,
static run_fn *const runs[ROWS][VECTORS][3][2] = {SHAPES};
#undef ONE

INLINE void run_all(const samba_dense *d, int64_t rows, int vectors, rows_lie lie, strip_run *run, samba_fetch *fetch)
{
    if (vectors == 1 && run->count > 1)
        runs[rows - 1][0][lie][1](d, run, fetch);
    if (run->count > 0)
        runs[rows - 1][vectors - 1][lie][0](d, run, fetch);
}

/* The last vector has lanes to spare, and there are no masks: the sums take a way through scratch. b can be read that far. */
static void run_part(const samba_dense *d, int64_t rows, int64_t cols, rows_lie lie, const strip_run *run, samba_fetch *fetch)
{
    float near[2 * ROWS * COLS];
    int64_t total = run->count * rows, most = 2 * rows;
    samba_dense block = *d;
    block.from_ld = block.ldc = COLS;
    for (int64_t i = 0; i < total; i += most) {
        int64_t some = total - i < most ? total - i : most;
        strip_run part = *run;
        part.a += i / rows * run->next;
        part.count = some / rows;
        part.c = near;
        part.from = run->from ? near : NULL;
        memset(near, 0, sizeof near);
        for (int64_t r = 0; run->from && r < some; r++)
            memcpy(near + r * COLS, run->from + (i + r) * d->from_ld, (size_t)cols * sizeof *near);
        run_all(&block, rows, (int)((cols + LANES - 1) / LANES), lie, &part, fetch);
        for (int64_t r = 0; r < some; r++)
            memcpy(run->c + (i + r) * d->ldc, near + r * COLS, (size_t)cols * sizeof *near);
    }
}

#if defined(SAMBA_DENSE_PAIRS)
#define BLOCK samba_dense_pairs
#else
#define BLOCK SAMBA_ISA_NAME(samba_dense_block)
#endif
void BLOCK(const samba_dense *block, samba_fetch *fetch)
{
    int64_t strips = samba_dense_strips(block->rows, ROWS);
    rows_lie lie = block->strips ? STRIPS : block->ska == 1 ? ALONG_K : SIDE_BY_SIDE;
    for (int64_t j = 0, width; j < block->cols; j += width) {
        int64_t left = block->cols - j, s = 0, i = 0;
        width = left < COLS ? left : COLS;
        int vectors = (int)((width + LANES - 1) / LANES), last = (int)(width - (vectors - 1) * LANES);
        while (s < strips) {
            int64_t rows = samba_dense_strip_row(block->rows, strips, s + 1) - i, count = 1;
            while (s + count < strips && samba_dense_strip_row(block->rows, strips, s + count + 1) - i == (count + 1) * rows)
                count++;
            strip_run run = {.a = block->a + (block->strips ? s : i) * block->lda,
                             .b = block->b + j,
                             .next = (block->strips ? 1 : rows) * block->lda,
                             .from = block->from ? block->from + i * block->from_ld + j : NULL,
                             .c = block->c + i * block->ldc + j,
                             .count = count,
                             .last = last};
            if (VECTOR_MASKED || last == LANES)
                run_all(block, rows, vectors, lie, &run, fetch);
            else
                run_part(block, rows, width, lie, &run, fetch);
            s += count;
            i += count * rows;
        }
    }
}
