/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of attention: attention.c (preparing, what both directions share, forward), attention_grad.c (backward),
 * attention_tile.c (loops over a block of scores, once for each ISA).
 *
 * Work comes in tasks of one block: forward of queries of one head, backward of keys of one key head. A thread does a row of tasks that
 * follow each other, so that it stays with a head; where the rows begin depends on what the tasks cost (causal ones differ) and on the
 * number of threads alone. */
#ifndef SAMBA_CPU_ATTENTION_H
#define SAMBA_CPU_ATTENTION_H

#include "kernels/kernel.h"

#define SAMBA_ATTENTION_BLOCK 64 /* queries, and keys, of a block of scores; its leading dimension */

typedef struct samba_attention_tiles { /* indexed by SAMBA_F32, SAMBA_F64 */
    /* Scores s (keys x lanes queries, a key's BLOCK apart) plus mask (as s; NULL: none) become exp(score - greatest of its query); for
     * each lane `greatest` and `sum` go on from earlier blocks, and alpha is what earlier results are to be multiplied with. */
    void (*weigh[2])(void *s, const void *mask, int64_t keys, int64_t lanes, void *greatest, void *sum, void *alpha);
    /* Scores s and gradients of weights dp (queries x lanes keys, a query's BLOCK apart) become weights and gradients of scores before
     * their scale: p = exp(s*scale + mask - lse), s = p*kept, dp = p*(dp*kept - delta)*scale. mask, kept: as s; NULL: none. Where lse is
     * -infinity the query sees nothing, and p is 0. */
    void (*differentiate[2])(void *s, void *dp, const void *mask, const void *kept, const void *lse, const void *delta, double scale,
                             int64_t queries, int64_t lanes);
    void (*scale[2])(void *d, double factor, int64_t n);
    void (*scale_columns[2])(void *d, const void *factors, int64_t rows, int64_t lanes); /* rows BLOCK apart */
    void (*keep[2])(void *d, const float *drawn, float p, double factor, int64_t n); /* drawn >= p ? factor : 0 */
    void (*admit[2])(void *d, const uint8_t *seen, int64_t stride, int64_t n);       /* seen ? 0 : -infinity */
    void (*dots[2])(void *d, const void *a, int64_t lda, const void *b, int64_t ldb, int64_t rows, int64_t n); /* of rows of a and b */
} samba_attention_tiles;
extern const samba_attention_tiles samba_attention_tiles_generic, samba_attention_tiles_avx2, samba_attention_tiles_avx512;

/* C (rows x cols, ld ldc) (+)= A (row stride lda, depth stride ska) B (ld ldb, columns contiguous), one shape */
typedef struct samba_product {
    const samba_kernels *kernels;
    int64_t rows, cols, depth, lda, ska, ldb, ldc;
    bool wide, first;
    void (*f32)(const float *b, const float *a, float *c, ...); /* libxsmm's; NULL: plain */
    void (*f64)(const double *b, const double *a, double *c, ...);
} samba_product;
samba_product samba_product_new(const samba_prepare *prepare, bool wide, int64_t rows, int64_t cols, int64_t depth, int64_t lda, int64_t ska,
                                int64_t ldb, int64_t ldc, bool first);
void samba_product_run(const samba_product *product, const void *a, const void *b, void *c);

typedef struct samba_attention_rows { /* an operand as rows of elements */
    char *data;                       /* NULL: not there */
    samba_dtype dtype;
    int64_t size, strides[4], depth;  /* size: bytes of an element */
    bool direct;                      /* rows of the register class, contiguous and apart: used in place */
    int64_t ld;                       /* of what samba_attention_read gives */
} samba_attention_rows;

typedef struct samba_attention_state {
    samba_attention attention;
    const samba_kernels *kernels;
    const samba_attention_tiles *tiles;
    int class_;                  /* SAMBA_F32, SAMBA_F64: of scores and sums */
    int64_t size;                /* bytes of one */
    int64_t b, h, tq, tk, group; /* group: query heads of a key head */
    samba_attention_rows parts[SAMBA_ATTENTION_PARTS];
    int64_t units, blocks;       /* heads, and tasks of one */
    int64_t *begin;              /* per thread, and the end: its first task */
    /* by kind of keys and of queries; values also [first step] */
    samba_product scores[3][3], values[3][3][2];                            /* forward: s = k q^T; o += v^T p */
    samba_product weights[3][3], along[3][3], dv[3][3], dk[3][3], dq[3][3]; /* backward */
    int64_t at[16], thread_bytes; /* places in a thread's scratch, named by each direction */
    int slots;                    /* backward: sums of dq a thread keeps */
    int64_t slot_bytes;
    bool fits;                    /* scratch is countable */
} samba_attention_state;

static inline int64_t samba_attention_width(int64_t total, int64_t block)
{
    int64_t left = total - block * SAMBA_ATTENTION_BLOCK;
    return left < SAMBA_ATTENTION_BLOCK ? left : SAMBA_ATTENTION_BLOCK;
}
/* Products are made for whole blocks, halves of those on the diagonal of a causal attention, and what is left at the end. */
enum { SAMBA_ATTENTION_WHOLE, SAMBA_ATTENTION_HALF, SAMBA_ATTENTION_REST };
static inline int samba_attention_kind(int64_t n)
{
    return n == SAMBA_ATTENTION_BLOCK ? SAMBA_ATTENTION_WHOLE : n == SAMBA_ATTENTION_BLOCK / 2 ? SAMBA_ATTENTION_HALF : SAMBA_ATTENTION_REST;
}
static inline int64_t samba_attention_extent(int kind, int64_t total)
{
    return kind == SAMBA_ATTENTION_REST ? total % SAMBA_ATTENTION_BLOCK : SAMBA_ATTENTION_BLOCK >> kind;
}
/* On the diagonal the first half of the queries sees nothing of the second half of the keys. */
static inline bool samba_attention_halves(const samba_attention_state *s, int64_t i, int64_t queries, int64_t j, int64_t keys)
{
    return s->attention.causal && i == j && queries == SAMBA_ATTENTION_BLOCK && keys == SAMBA_ATTENTION_BLOCK;
}
/* May such keys meet such queries? Halves meet halves and whole blocks. A rest as long as a half is made as such, for any. */
static inline bool samba_attention_meet(const samba_attention_state *s, int of_keys, int of_queries)
{
    bool half = of_keys == SAMBA_ATTENTION_HALF || of_queries == SAMBA_ATTENTION_HALF;
    bool rest = s->tk % SAMBA_ATTENTION_BLOCK == SAMBA_ATTENTION_BLOCK / 2 || s->tq % SAMBA_ATTENTION_BLOCK == SAMBA_ATTENTION_BLOCK / 2;
    return !half || rest || (s->attention.causal && of_keys != SAMBA_ATTENTION_REST && of_queries != SAMBA_ATTENTION_REST);
}
/* Lanes that `n` queries or keys take: whole vectors, whatever the ISA. */
static inline int64_t samba_attention_lanes(int64_t n) { return (n + 15) / 16 * 16; }

/* `count` rows from `first` on of one head, and apart part->ld: in place, or loaded into `room`. */
const void *samba_attention_read(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head, int64_t first,
                                 int64_t count, void *room);
/* Asks for rows that will be read, or written, soon: they lie too far apart for the CPU to guess them. */
void samba_attention_expect(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head, int64_t first, int64_t count,
                            bool write);
/* Stores `count` contiguous rows, `ld` elements apart. */
void samba_attention_write(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head, int64_t first, int64_t count,
                           const void *rows, int64_t ld);
/* What the mask adds to scores of queries x keys from (i, j) on, BLOCK apart; NULL without a mask. */
const void *samba_attention_mask(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t j, int64_t keys,
                                 void *room);
/* What dropout multiplies those weights with; NULL without dropout. `drawn`: room for a row of keys. */
const void *samba_attention_kept(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t j, int64_t keys,
                                 void *room, float *drawn);
/* Room for n elements of the class in a thread's scratch. */
void samba_attention_reserve(samba_attention_state *s, int64_t place, int64_t n);

samba_status samba_attention_prepare_grad(const samba_prepare *prepare, samba_attention_state *s); /* attention_grad.c */
void samba_attention_run_grad(const void *state, char *scratch, int phase, int thread, int threads);

#endif
