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

/* Rows of a from one of them on. Two addresses and one distance reach six rows: three from each, as an instruction adds the
 * distance once or twice. */
typedef struct some_rows {
    const float *first, *fourth;
    int64_t lda;
} some_rows;

INLINE some_rows rows_from(const float *a, int64_t lda)
{
    some_rows r = {a, a + 3 * lda, lda};
    __asm__("" : "+r"(r.fourth)); /* else the compiler makes an address for each row, more than there are registers */
    return r;
}
INLINE void move_rows(some_rows *r, int64_t by)
{
    r->first += by;
    r->fourth += by;
}
INLINE const float *row_of(const some_rows *r, const rows_lie lie, const int i, const int u)
{
    return lie == STRIPS         ? r->first + u * ROWS + i
           : lie == SIDE_BY_SIDE ? r->first + i
           : i < 3               ? r->first + i * r->lda + u
                                 : r->fourth + (i - 3) * r->lda + u;
}

INLINE void multiply_step(const int rows, const int vectors, const rows_lie lie, const some_rows *a, const int u, const floats *x,
                          small_sums sums)
{
    UNROLL for (int i = 0; i < rows; i++) {
        const float *at = row_of(a, lie, i, u);
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

/* The last vector holds `last` lanes; without masks a whole one is faster. */
INLINE floats load_last(const float *p, int last) { return VECTOR_MASKED || last < LANES ? load_part_f32(p, last) : load(p); }
INLINE void store_last(float *p, int last, floats v)
{
    if (VECTOR_MASKED || last < LANES)
        store_part_f32(p, last, v);
    else
        __builtin_memcpy(p, &v, sizeof v);
}

INLINE void begin_sums(const int rows, const int vectors, const samba_dense *d, int64_t i0, int64_t j0, int last, small_sums sums)
{
    const float *from = d->from ? d->from + i0 * d->from_ld + j0 : NULL;
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++)
            sums[i][j] = (floats){0};
    }
    if (from) {
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vectors; j++)
                sums[i][j] = load_last(from + i * d->from_ld + j * LANES, j + 1 < vectors ? LANES : last);
        }
    }
}

INLINE void end_sums(const int rows, const int vectors, const samba_dense *d, int64_t i0, int64_t j0, int last, small_sums sums)
{
    float *c = d->c + i0 * d->ldc + j0;
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++)
            store_last(c + i * d->ldc + j * LANES, j + 1 < vectors ? LANES : last, sums[i][j]);
    }
}

/* Rows from i0, which a has the first of, columns from j of a block; the last vector has `last` lanes. In twos, the rows after
 * these as well, from a + next on: the sums of one strip by one vector are too few to hide how long a multiply-add takes. */
INLINE void dense_of(const int rows, const int vectors, const rows_lie lie, const bool twos, const samba_dense *d, const float *a,
                     int64_t next, int64_t i0, int64_t j0, int last, samba_fetch *fetch)
{
    const float *b = d->b + j0;
    int64_t ldb = lie == STRIPS ? COLS : d->ldb, l = 0, k = d->k;
    /* from one look to the next the rows move once, those side by side at each step */
    const int64_t step = lie == STRIPS ? ROWS : lie == ALONG_K ? 1 : d->ska;
    some_rows strip = rows_from(a, d->lda), other = rows_from(a + next, d->lda);
    samba_fetch_region region = fetch->now;
    small_sums sums, more;
    floats x[VECTORS];
    begin_sums(rows, vectors, d, i0, j0, last, sums);
    if (twos)
        begin_sums(rows, vectors, d, i0 + rows, j0, last, more);
    for (; l + DEPTH <= k; l += DEPTH) {
        samba_fetch_line(&region);
        if (lie == STRIPS) {
            multiply_strips(rows, vectors, twos, &strip, &other, b, sums, more);
            b += DEPTH * ldb;
        }
        UNROLL for (int u = 0; lie != STRIPS && u < DEPTH; u++, b += ldb) {
            /* else the compiler keeps the distances of all steps, in memory as there are not so many registers */
            __asm__("" : "+r"(b), "+r"(strip.lda), "+r"(other.lda));
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
    for (; l < k; l++, b += ldb) {
        load_vectors(vectors, b, x);
        multiply_step(rows, vectors, lie, &strip, 0, x, sums);
        if (twos)
            multiply_step(rows, vectors, lie, &other, 0, x, more);
        move_rows(&strip, step);
        move_rows(&other, step);
    }
    fetch->now = region;
    end_sums(rows, vectors, d, i0, j0, last, sums);
    if (twos)
        end_sums(rows, vectors, d, i0 + rows, j0, last, more);
}

/* One strip, or two of as many rows each; these have one vector of columns. */
static void dense_small(int64_t rows, int vectors, bool twos, const samba_dense *d, const float *a, int64_t next, int64_t i,
                        int64_t j, int last, samba_fetch *fetch)
{
#define LIE(rows, vectors, lie, twos)                                                                                            \
    case (((rows)*4 + (vectors)-1) * 3 + (lie)) * 2 + (twos):                                                                    \
        dense_of(rows, vectors, lie, twos, d, a, next, i, j, last, fetch);                                                       \
        break;
#define PART(rows, vectors) LIE(rows, vectors, STRIPS, 0) LIE(rows, vectors, ALONG_K, 0) LIE(rows, vectors, SIDE_BY_SIDE, 0)
#define TWOS(rows) LIE(rows, 1, STRIPS, 1) LIE(rows, 1, ALONG_K, 1) LIE(rows, 1, SIDE_BY_SIDE, 1)
#if VECTORS == 4
#define CASE(rows) PART(rows, 1) PART(rows, 2) PART(rows, 3) PART(rows, 4) TWOS(rows)
#else
#define CASE(rows) PART(rows, 1) PART(rows, 2) TWOS(rows)
#endif
    rows_lie lie = d->strips ? STRIPS : d->ska == 1 ? ALONG_K : SIDE_BY_SIDE;
    switch (((rows * 4 + vectors - 1) * 3 + (int)lie) * 2 + twos) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
#if ROWS == 6
        CASE(6)
#endif
    }
#undef CASE
#undef TWOS
#undef PART
#undef LIE
}

#if defined(SAMBA_DENSE_PAIRS)
#define BLOCK samba_dense_pairs
#else
#define BLOCK SAMBA_ISA_NAME(samba_dense_block)
#endif
void BLOCK(const samba_dense *block, samba_fetch *fetch)
{
    int64_t strips = samba_dense_strips(block->rows, ROWS);
    for (int64_t j = 0, width; j < block->cols; j += width) {
        int64_t left = block->cols - j;
        width = left < COLS ? left : COLS;
        int vectors = (int)((width + LANES - 1) / LANES), last = (int)(width - (vectors - 1) * LANES);
        for (int64_t s = 0, taken; s < strips; s += taken) {
            int64_t i = samba_dense_strip_row(block->rows, strips, s),
                    rows = samba_dense_strip_row(block->rows, strips, s + 1) - i;
            bool twos = vectors == 1 && s + 1 < strips && samba_dense_strip_row(block->rows, strips, s + 2) - i == 2 * rows;
            const float *a = block->a + (block->strips ? s : i) * block->lda;
            taken = twos ? 2 : 1;
            samba_fetch_advance(fetch);
            dense_small(rows, vectors, twos, block, a, (block->strips ? 1 : rows) * block->lda, i, j, last, fetch);
        }
    }
}
