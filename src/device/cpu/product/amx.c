/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of pairs of bfloat16 (dense.h) by AMX (Intel's Advanced Matrix Extensions): registers are matrices of 16 rows of 64
 * bytes, and one instruction multiplies two of them. Four sums of 16 x 16 live in registers over all of k, beside two pieces of
 * A and two of B: each piece is used twice. A piece of A is 16 rows by 16 pairs of k, a piece of B 16 pairs of k by 16 columns,
 * both as they are packed.
 *
 * What is left of rows or columns is a register of fewer rows or shorter ones, which the processor is told before a run of
 * blocks. What is left of k is copied to where zeros fill it up. Results flush subnormal numbers to zero, as the instruction
 * does; so does that of vectors. */
#include "device/cpu/product/amx.h"

#include <string.h>

enum { SIDE = 16, BOTH = 2 * SIDE, ROW_BYTES = 64, FETCHES = 4 /* lines asked for in each step of 16 pairs */ };

/* Registers: 0 to 3 sums, by rows; 4 and 5 of A; 6 and 7 of B. */
typedef struct shapes { /* as LDTILECFG reads it: the numbers of 16 registers, of which there are 8 */
    uint8_t palette, start, zeros[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} shapes;

#define LOAD(register, at, stride) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #register ::"r"(at), "r"(stride) : "memory")
#define STORE(register, at, stride) __asm__ volatile("tilestored %%tmm" #register ", (%0,%1,1)" ::"r"(at), "r"(stride) : "memory")
#define ZERO(register) __asm__ volatile("tilezero %tmm" #register)
#define MULTIPLY(sums, a, b) __asm__ volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #sums)

static int at_most(int64_t n, int most) { return n < most ? (int)n : most; }

/* Registers for so many rows and columns, up to 32 of each. */
static void shape(int rows, int cols)
{
    shapes s = {.palette = 1};
    for (int i = 0; i < 2; i++) {
        int high = at_most(rows - i * SIDE, SIDE), wide = at_most(cols - i * SIDE, SIDE);
        for (int j = 0; j < 2 && high > 0; j++) {
            int columns = at_most(cols - j * SIDE, SIDE);
            s.rows[2 * i + j] = columns > 0 ? (uint8_t)high : 0;
            s.row_bytes[2 * i + j] = columns > 0 ? (uint16_t)(4 * columns) : 0;
        }
        if (high > 0) {
            s.rows[4 + i] = (uint8_t)high;
            s.row_bytes[4 + i] = ROW_BYTES;
        }
        if (wide > 0) {
            s.rows[6 + i] = SIDE;
            s.row_bytes[6 + i] = (uint16_t)(4 * wide);
        }
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(s) : "memory");
}

/* 16 pairs of k: of A from row to row `lda` bytes, of B from pair to pair `ldb`. */
static inline __attribute__((always_inline)) void step(const bool two_rows, const bool two_cols, const char *a, int64_t lda,
                                                       const char *b, int64_t ldb)
{
    LOAD(4, a, lda);
    LOAD(6, b, ldb);
    MULTIPLY(0, 4, 6);
    if (two_cols) {
        LOAD(7, b + ROW_BYTES, ldb);
        MULTIPLY(1, 4, 7);
    }
    if (two_rows) {
        LOAD(5, a + SIDE * lda, lda);
        MULTIPLY(2, 5, 6);
    }
    if (two_rows && two_cols)
        MULTIPLY(3, 5, 7);
}

typedef struct piece {
    const char *a, *b, *from;
    char *c;
    int64_t lda, ldb, from_ld, ldc; /* bytes */
    int64_t k;                      /* pairs, a multiple of 16 */
    const char *rest_a, *rest_b;    /* the last 16 pairs, filled up; NULL: none. From row to row 64 and 128 bytes */
} piece;

static inline __attribute__((always_inline)) void multiply(const bool two_rows, const bool two_cols, const piece *p,
                                                           samba_fetch *fetch)
{
    const char *a = p->a, *b = p->b, *from = p->from;
    char *c = p->c;
    samba_fetch_region region = fetch->now;
    if (from) {
        LOAD(0, from, p->from_ld);
        if (two_cols)
            LOAD(1, from + ROW_BYTES, p->from_ld);
        if (two_rows)
            LOAD(2, from + SIDE * p->from_ld, p->from_ld);
        if (two_rows && two_cols)
            LOAD(3, from + SIDE * p->from_ld + ROW_BYTES, p->from_ld);
    } else {
        ZERO(0);
        if (two_cols)
            ZERO(1);
        if (two_rows)
            ZERO(2);
        if (two_rows && two_cols)
            ZERO(3);
    }
    for (int64_t l = 0; l < p->k; l += SIDE, a += ROW_BYTES, b += SIDE * p->ldb) {
        if (region.todo == 0 && fetch->count > 0) {
            fetch->now.todo = 0;
            samba_fetch_advance(fetch);
            region = fetch->now;
        }
        for (int i = 0; i < FETCHES; i++)
            samba_fetch_line(&region);
        step(two_rows, two_cols, a, p->lda, b, p->ldb);
    }
    fetch->now = region;
    if (p->rest_a)
        step(two_rows, two_cols, p->rest_a, ROW_BYTES, p->rest_b, 2 * ROW_BYTES);
    STORE(0, c, p->ldc);
    if (two_cols)
        STORE(1, c + ROW_BYTES, p->ldc);
    if (two_rows)
        STORE(2, c + SIDE * p->ldc, p->ldc);
    if (two_rows && two_cols)
        STORE(3, c + SIDE * p->ldc + ROW_BYTES, p->ldc);
}

static void multiply_piece(int rows, int cols, const piece *p, samba_fetch *fetch)
{
    if (rows > SIDE && cols > SIDE)
        multiply(true, true, p, fetch);
    else if (rows > SIDE)
        multiply(true, false, p, fetch);
    else if (cols > SIDE)
        multiply(false, true, p, fetch);
    else
        multiply(false, false, p, fetch);
}

/* What 16 does not divide of k, filled up with zeros: nothing that lies behind it may be multiplied. */
static void copy_rest(const char *from, int64_t ld, int count, int bytes, char *to, int64_t to_ld)
{
    for (int i = 0; i < count; i++)
        memcpy(to + i * to_ld, from + i * ld, (size_t)bytes);
}

void samba_dense_amx(const samba_dense *d, samba_fetch *fetch)
{
    const int64_t lda = d->lda * 4, ldb = d->ldb * 4, whole = d->k / SIDE * SIDE;
    const int rest = (int)(d->k - whole);
    char rest_a[BOTH * ROW_BYTES] __attribute__((aligned(64))), rest_b[SIDE * 2 * ROW_BYTES] __attribute__((aligned(64)));
    int shaped_rows = 0, shaped_cols = 0;
    for (int64_t j = 0; j < d->cols; j += BOTH) {
        const int cols = at_most(d->cols - j, BOTH);
        const char *b = (const char *)(d->b + j);
        if (rest) {
            memset(rest_b, 0, sizeof rest_b);
            copy_rest(b + whole * ldb, ldb, rest, cols * 4, rest_b, 2 * ROW_BYTES);
        }
        for (int64_t i = 0; i < d->rows; i += BOTH) {
            const int rows = at_most(d->rows - i, BOTH);
            const char *a = (const char *)d->a + i * lda;
            if (rest) {
                memset(rest_a, 0, sizeof rest_a);
                copy_rest(a + whole * 4, lda, rows, rest * 4, rest_a, ROW_BYTES);
            }
            if (rows != shaped_rows || cols != shaped_cols)
                shape(shaped_rows = rows, shaped_cols = cols);
            const piece p = {.a = a,
                             .b = b,
                             .from = d->from ? (const char *)(d->from + i * d->from_ld + j) : NULL,
                             .c = (char *)(d->c + i * d->ldc + j),
                             .lda = lda,
                             .ldb = ldb,
                             .from_ld = d->from_ld * 4,
                             .ldc = d->ldc * 4,
                             .k = whole,
                             .rest_a = rest ? rest_a : NULL,
                             .rest_b = rest_b};
            multiply_piece(rows, cols, &p, fetch);
        }
    }
    __asm__ volatile("tilerelease"); /* else each switch of threads saves 8 KiB */
}
