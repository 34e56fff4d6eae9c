/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of attention: attention.c (preparing, operands, products), attention_forward.c, attention_grad.c (backward),
 * attention_row.c (one query), attention_cache.c (over a cache), attention_tile.c (loops over a block of scores, once for each
 * ISA).
 *
 * Work comes in blocks: forward of queries of one head, backward of keys of one key head. Threads take heads as they come free,
 * where there are enough; what a head's numbers are does not depend on who does it. With few heads, forward deals single blocks
 * in the same way, backward deals fixed rows of blocks.
 *
 * Where the causal rule cuts a block, on the diagonal, work goes by strips of 16 lanes, so that little is computed to be thrown
 * away.
 *
 * bfloat16 operands are multiplied as pairs where the CPU does that (pairs.h): scores, sums and softmax stay float, weights and
 * gradients of scores are rounded for the next product. Elsewhere all is computed in float. */
#ifndef SAMBA_CPU_ATTENTION_H
#define SAMBA_CPU_ATTENTION_H

#include "device/cpu/product/micro_kernel.h"

enum {
    SAMBA_ATTENTION_BLOCK = 64, /* queries, and keys, of a block of scores; its leading dimension */
    SAMBA_ATTENTION_STRIP = 16, /* lanes of a strip: one vector of the widest ISA */
    SAMBA_ATTENTION_STRIPS = SAMBA_ATTENTION_BLOCK / SAMBA_ATTENTION_STRIP
};

/* Tables are indexed by SAMBA_F32, SAMBA_F64. In float, weights are powers of 2 and scores are kept in units of log 2; UNIT there
 * and samba_attention_unit stand for it. Rows of blocks are BLOCK apart. */
struct samba_attention_tiles {
    /* s*factor + mask/unit; mask NULL: none */
    void (*adjust[2])(void *s, const void *mask, double factor, int64_t rows, int64_t lanes);
    /* Scores s (keys x lanes queries) become exp(s*factor - greatest of its query, or nearly), factor > 0; for each lane
     * `greatest` and `sum` go on from earlier blocks, and alpha is what earlier results are to be multiplied with; false:
     * 1, all of them. */
    bool (*weigh[2])(void *s, double factor, int64_t keys, int64_t lanes, void *greatest, void *sum, void *alpha);
    /* Scores s and gradients of weights dp (queries x lanes keys) become weights and gradients of scores before their scale:
     * p = exp(s*factor - lse/unit), s = p*kept, dp = p*(dp*kept - delta)*scale. kept: as s; NULL: none. Where lse is -infinity
     * the query sees nothing, and p is 0. */
    void (*differentiate[2])(void *s, void *dp, const void *kept, const void *lse, const void *delta, double factor, double scale,
                             int64_t queries, int64_t lanes);
    void (*scale_columns[2])(void *d, const void *factors, int64_t rows, int64_t lanes);
    void (*keep[2])(void *d, const float *drawn, float p, double factor, int64_t n); /* drawn >= p ? factor : 0 */
    void (*admit[2])(void *d, const uint8_t *seen, int64_t stride, int64_t n);       /* seen ? 0 : -infinity */
    /* of rows of a and b */
    void (*dots[2])(void *d, const void *a, int64_t lda, const void *b, int64_t ldb, int64_t rows, int64_t n);
    /* For products of pairs: d[r/2][lane] = {s[r], s[r+1]} rounded, an odd last partner 0; softmax and its gradient that end so,
     * the latter's gradients of scores also in rows. s and dp are not changed. */
    void (*pair)(uint32_t *d, const float *s, int64_t rows, int64_t lanes);
    bool (*weigh_pairs)(float *s, uint32_t *pairs, double factor, int64_t keys, int64_t lanes, float *greatest, float *sum,
                        float *alpha);
    void (*differentiate_pairs)(const float *s, const float *dp, const float *kept, const float *lse, const float *delta,
                                double factor, double scale, int64_t queries, int64_t lanes, uint32_t *p, uint32_t *ds,
                                uint16_t *ds_rows);
};

typedef struct samba_attention_rows { /* an operand as rows of elements */
    char *data;                       /* NULL: not there */
    samba_dtype dtype;
    int64_t size, strides[4], depth; /* size: bytes of an element */
    bool direct;                     /* rows of the register class, contiguous, apart and not crowded: used in place */
    int64_t ld;                      /* of what samba_attention_read gives */
    bool paired;                     /* the same of samba_attention_read_product, where products are of pairs */
    int64_t pair_ld;
} samba_attention_rows;

typedef struct samba_attention_state {
    samba_attention attention;
    const samba_preparing *prepare; /* while preparing */
    const samba_kernels *kernels;
    const samba_attention_tiles *tiles;
    int class_;   /* SAMBA_F32, SAMBA_F64: of scores and sums */
    int64_t size; /* bytes of one */
    bool half;    /* products are of pairs */
    bool one;     /* a single query: attention_row.c, attention_cache.c */
    int64_t each; /* of one query over a cache: heads of a unit */
    double unit;
    int64_t b, h, tq, tk, group; /* group: query heads of a key head */
    samba_attention_rows parts[SAMBA_ATTENTION_PARTS];
    int64_t units, blocks; /* heads, and blocks of one */
    int64_t ahead;         /* blocks of a head that are asked for during the one before */
    int64_t portion;       /* blocks that are taken at once: all of a unit, or one; 0: `begin` says */
    int64_t *begin;        /* backward of few heads: each thread's first block, counted through all units, and the end */
    /* by whether keys, and queries, are the rest at the end; on the diagonal by strips */
    samba_micro_kernel scores[2][2], values[2][2][2];               /* forward: s = k q^T; o += v^T p [first step] */
    samba_micro_kernel strip_scores[2][SAMBA_ATTENTION_STRIPS];     /* [rest of keys][strips of queries - 1] */
    samba_micro_kernel strip_values[SAMBA_ATTENTION_STRIPS + 1][2]; /* [keys by strips - 1, or their rest][first] */
    samba_micro_kernel weights[2][2], along[2][2];                  /* backward: s = q k^T; dp = dout v^T */
    /* dv^T += dout^T p; dk^T += q^T ds; dq += ds k [first step] */
    samba_micro_kernel dv[2][2][2], dk[2][2][2], dq[2][2][2];
    /* [rest of queries][strips of keys - 1] */
    samba_micro_kernel strip_weights[2][SAMBA_ATTENTION_STRIPS], strip_along[2][SAMBA_ATTENTION_STRIPS];
    /* [rest of queries][strip of keys][first] */
    samba_micro_kernel strip_dv[2][SAMBA_ATTENTION_STRIPS][2], strip_dk[2][SAMBA_ATTENTION_STRIPS][2];
    /* [rest of queries][keys by strips - 1, or their rest][first] */
    samba_micro_kernel strip_dq[2][SAMBA_ATTENTION_STRIPS + 1][2];
    int64_t at[24], thread_bytes; /* offsets in a thread's scratch, named by each direction */
    double multiply, score, byte; /* ns of a multiply-add, of a score besides, of a byte that another core wrote, about */
    int slots;                    /* backward: sums of dq a thread keeps */
    int64_t slot_bytes;
    bool longest_first; /* single blocks go by their length, not by their heads */
    bool fits;          /* scratch is countable */
    bool missing;       /* a product of pairs that nobody makes */
} samba_attention_state;

static inline int64_t samba_attention_width(int64_t total, int64_t block)
{
    int64_t left = total - block * SAMBA_ATTENTION_BLOCK;
    return left < SAMBA_ATTENTION_BLOCK ? left : SAMBA_ATTENTION_BLOCK;
}
/* Lanes that `n` queries or keys take: whole vectors, whatever the ISA. */
static inline int64_t samba_attention_lanes(int64_t n)
{
    return (n + SAMBA_ATTENTION_STRIP - 1) / SAMBA_ATTENTION_STRIP * SAMBA_ATTENTION_STRIP;
}
static inline int64_t samba_attention_even(int64_t n) { return n + (n & 1); }
/* Bytes of an element of products' operands. */
static inline int64_t samba_attention_half_size(const samba_attention_state *s) { return s->half ? 2 : s->size; }
/* The offset of a row and a lane of a product's second operand: pairs of rows, or rows, BLOCK apart; `row` is even. */
static inline int64_t samba_attention_second(const samba_attention_state *s, int64_t row, int64_t lane)
{
    return s->half ? (row / 2 * SAMBA_ATTENTION_BLOCK + lane) * 4 : (row * SAMBA_ATTENTION_BLOCK + lane) * s->size;
}
/* Index in tables by keys: how many strips they are, less one; of a last strip that is not whole, the rest's. */
static inline int samba_attention_strips(int64_t n)
{
    return n % SAMBA_ATTENTION_STRIP ? SAMBA_ATTENTION_STRIPS : (int)(n / SAMBA_ATTENTION_STRIP) - 1;
}

/* Depth is that of elements, whether they come in pairs or not. */
samba_micro_kernel samba_attention_product(samba_attention_state *s, int64_t rows, int64_t cols, int64_t depth, int64_t lda,
                                           int64_t ska, int64_t ldb, int64_t ldc, bool first);

/* `count` rows from `first` on of one head, and apart part->ld: in place, or loaded into `room`. */
const void *samba_attention_read(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head,
                                 int64_t first, int64_t count, void *room);
/* The same for a product's first operand: bfloat16 where products are of pairs, and apart samba_attention_ld. */
const void *samba_attention_read_product(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head,
                                         int64_t first, int64_t count, void *room);
static inline int64_t samba_attention_ld(const samba_attention_state *s, samba_attention_part part)
{
    return s->half ? s->parts[part].pair_ld : s->parts[part].ld;
}
/* Rows as lanes of a product's second operand, BLOCK apart; `rows`: what samba_attention_read_product gave, not used of pairs. */
void samba_attention_turn(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head, int64_t first,
                          int64_t count, const void *rows, void *d);
/* Rows of pairs turned, so that the head's positions are the depth: d[element*ld + position]. */
void samba_attention_turn_pairs(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head, int64_t first,
                                int64_t count, uint16_t *d, int64_t ld);
/* Rows as a product's second operand: pairs of positions. */
void samba_attention_pair(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head, int64_t first,
                          int64_t count, uint16_t *d);
/* Asks for rows that will be read, or written, soon: they lie too far apart for the CPU to guess them. */
void samba_attention_expect(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head, int64_t first,
                            int64_t count, bool write);
/* During block `block` of another: the first rows of a unit that follows, if there is one. */
void samba_attention_expect_unit(const samba_attention_state *s, int64_t unit, int64_t block);
/* Stores `count` contiguous rows, `ld` elements apart. */
void samba_attention_write(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head, int64_t first,
                           int64_t count, const void *rows, int64_t ld);
/* Stores lanes as rows; `room` for them. */
void samba_attention_write_lanes(const samba_attention_state *s, samba_attention_part part, int64_t b, int64_t head,
                                 int64_t first, int64_t count, const void *lanes, void *room);
/* The mask's addends to scores of queries x keys from (i, j) on, BLOCK apart; NULL without a mask. */
const void *samba_attention_mask(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t j,
                                 int64_t keys, void *room);
/* Dropout's factors of those weights; NULL without dropout. `drawn`: room for a row of keys. */
const void *samba_attention_kept(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t j,
                                 int64_t keys, void *room, float *drawn);
/* Room for n elements of the class in a thread's scratch. */
void samba_attention_reserve(samba_attention_state *s, int64_t part, int64_t n);

void samba_attention_prepare_forward(samba_attention_state *s); /* attention_forward.c */
void samba_attention_attend(const samba_attention_state *s, char *own, int64_t unit, int64_t block, int64_t *packed);
/* attention_row.c */
bool samba_attention_is_one(const samba_attention_state *s);
void samba_attention_prepare_one(samba_attention_state *s);
void samba_attention_attend_one(const samba_attention_state *s, char *own, int64_t unit);
/* attention_cache.c */
void samba_attention_cut_cache(samba_attention_state *s, int threads);
void samba_attention_prepare_cache(samba_attention_state *s);
void samba_attention_attend_cache(const samba_attention_state *s, char *own, int64_t unit, int64_t block);
samba_status samba_attention_prepare_grad(samba_attention_state *s); /* attention_grad.c */
void samba_attention_differentiate_unit(const samba_attention_state *s, char *own, int64_t unit, int64_t next);
/* What a block is worked on with: scores, sums and turned rows. */
int samba_attention_held(const void *state, samba_held held[SAMBA_HELD]);
/* ns of a block, of queries forward and of keys backward, about. */
double samba_attention_block_time(const samba_attention_state *s, int64_t block);
extern const samba_dealing samba_attention_shared_grad_dealing;
void samba_attention_run_shared_grad(const void *state, char *scratch, int phase, int thread, int threads);

#endif
