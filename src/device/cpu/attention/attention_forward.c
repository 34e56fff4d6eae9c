/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention block by block, forward (Dao, Fu, Ermon, Rudra, Re: "FlashAttention", 2022; here for caches of a CPU). For 64
 * queries, keys pass in blocks of 64: scores, softmax as far as it is known, results so far rescaled and added to. Only scratch
 * that stays in the nearest caches holds scores.
 *
 * All is computed with queries side by side in the lanes of vectors: scores are k q^T, results v^T p. So the softmax goes on from
 * key to key in each lane, without sums across lanes, and rows of k and v are used where they lie, as the side of a product of
 * which each element is read once and spread. Only queries are turned, once a block; of pairs, values too, once a head. Blocks
 * that the causal rule hides are never looked at. */
#include "device/cpu/attention/attention.h"
#include <math.h>
#include <string.h>

enum { BLOCK = SAMBA_ATTENTION_BLOCK, STRIP = SAMBA_ATTENTION_STRIP, STRIPS = SAMBA_ATTENTION_STRIPS };
enum { /* scratch: state->at */
       QUERIES,
       SCORES,
       SUMS,
       KEY_ROWS,
       VALUE_ROWS,
       ROWS,
       MASK_ROWS,
       TURNED,
       DRAWN,
       GREATEST,
       TOTAL,
       ALPHA,
       PAIRS,
       VALUE_PAIRS
};

/* Queries as lanes; lanes without a query hold 0. */
static void load_queries(const samba_attention_state *s, char *own, int64_t b, int64_t h, int64_t i, int64_t queries)
{
    char *turned = own + s->at[QUERIES];
    int64_t lanes = samba_attention_lanes(queries), step = s->half ? 2 : 1;
    for (int64_t d = 0; d < s->attention.d && lanes > queries; d += step)
        memset(turned + samba_attention_second(s, d, queries), 0, (size_t)((lanes - queries) * s->size));
    const void *rows = s->half ? NULL : samba_attention_read(s, SAMBA_ATTENTION_Q, b, h, i, queries, own + s->at[ROWS]);
    samba_attention_turn(s, SAMBA_ATTENTION_Q, b, h, i, queries, rows, turned);
}

/* What is kept of a key head's blocks up to this one, for all queries: of pairs the values, turned; else the rows of keys and of
 * values that are not used where they lie. packed: that head, and how many of its blocks are. */
static void pack_head(const samba_attention_state *s, char *own, int64_t b, int64_t head, int64_t block, int64_t *packed)
{
    const samba_attention_rows *k = &s->parts[SAMBA_ATTENTION_K], *v = &s->parts[SAMBA_ATTENTION_V];
    bool result = s->parts[SAMBA_ATTENTION_RESULT].data;
    int64_t which = b * s->attention.hkv + head;
    if (packed[0] != which)
        packed[0] = which, packed[1] = 0;
    for (; packed[1] <= block; packed[1]++) {
        int64_t j = packed[1] * BLOCK, keys = samba_attention_width(s->tk, packed[1]);
        if (s->half && result)
            samba_attention_turn_pairs(s, SAMBA_ATTENTION_V, b, head, j, keys,
                                       (uint16_t *)(own + s->at[VALUE_PAIRS]) + j * v->depth, BLOCK);
        if (!s->half && !k->direct)
            samba_attention_read(s, SAMBA_ATTENTION_K, b, head, j, keys, own + s->at[KEY_ROWS] + j * k->depth * s->size);
        if (!s->half && !v->direct && result)
            samba_attention_read(s, SAMBA_ATTENTION_V, b, head, j, keys, own + s->at[VALUE_ROWS] + j * v->depth * s->size);
    }
}

/* Keys from j on as the first operand of k q^T. */
static const char *keys_of(const samba_attention_state *s, char *own, int64_t b, int64_t head, int64_t j, int64_t keys)
{
    const samba_attention_rows *k = &s->parts[SAMBA_ATTENTION_K];
    if (s->half || k->direct)
        return samba_attention_read_product(s, SAMBA_ATTENTION_K, b, head, j, keys, own + s->at[KEY_ROWS]);
    return own + s->at[KEY_ROWS] + j * k->depth * s->size;
}

/* Values of keys from j on as the first operand of v^T p; NULL where there is no result. */
static const char *values_of(const samba_attention_state *s, char *own, int64_t b, int64_t head, int64_t j, int64_t keys)
{
    const samba_attention_rows *v = &s->parts[SAMBA_ATTENTION_V];
    if (!s->parts[SAMBA_ATTENTION_RESULT].data)
        return NULL;
    if (s->half)
        return own + s->at[VALUE_PAIRS] + j * v->depth * 2;
    return v->direct ? samba_attention_read(s, SAMBA_ATTENTION_V, b, head, j, keys, NULL)
                     : own + s->at[VALUE_ROWS] + j * v->depth * s->size;
}

/* Prefetches memory that the next block of queries will be the first to read, and this one to write. */
static void expect_next(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t end)
{
    int64_t next = i + BLOCK, more = next < s->tq ? samba_attention_width(s->tq, next / BLOCK) : 0;
    samba_attention_expect(s, SAMBA_ATTENTION_Q, b, h, next, more, false);
    if (s->parts[SAMBA_ATTENTION_RESULT].data)
        samba_attention_expect(s, SAMBA_ATTENTION_RESULT, b, h, i, queries, true);
    if (!s->attention.causal || end >= s->tk)
        return;
    int64_t keys = samba_attention_width(s->tk, end / BLOCK);
    samba_attention_expect(s, SAMBA_ATTENTION_K, b, h / s->group, end, keys, false);
    samba_attention_expect(s, SAMBA_ATTENTION_V, b, h / s->group, end, keys, false);
}

typedef struct view { /* of queries from i on, `lanes` with what fills vectors, at keys from j on */
    int64_t b, h, i, queries, lanes, j, keys;
    bool first; /* the first keys that they see */
    double factor;
} view;

/* Scores of keys from `row` on that come after a query are -infinity; within one strip, as none before it has any. */
static void hide_later_keys(const samba_attention_state *s, char *scores, int64_t row, int64_t rows)
{
    const double hidden = -INFINITY;
    const float hidden_f32 = -INFINITY;
    const void *value = s->class_ == SAMBA_F32 ? (const void *)&hidden_f32 : (const void *)&hidden;
    for (int64_t k = 1; k < rows; k++)
        s->kernels->fill[s->class_](scores + ((row + k) * BLOCK + row) * s->size, value, k);
}

/* All lanes from `lane` on, keys from 0 on: softmax as far as it is known, then results. */
static void weigh(const samba_attention_state *s, char *own, const view *v, int64_t lane, int64_t lanes, int64_t keys,
                  const char *kept, const char *values, const samba_micro_kernel *product)
{
    int64_t at = lane * s->size;
    char *scores = own + s->at[SCORES] + at, *sums = own + s->at[SUMS] + at, *alpha = own + s->at[ALPHA] + at;
    char *greatest = own + s->at[GREATEST] + at, *total = own + s->at[TOTAL] + at, *pairs = own + s->at[PAIRS] + at;
    bool result = s->parts[SAMBA_ATTENTION_RESULT].data, at_once = s->half && result && !kept;
    bool rescale = at_once ? s->tiles->weigh_pairs((float *)scores, (uint32_t *)pairs, v->factor, keys, lanes, (float *)greatest,
                                                   (float *)total, (float *)alpha)
                           : s->tiles->weigh[s->class_](scores, v->factor, keys, lanes, greatest, total, alpha);
    if (!result)
        return;
    for (int64_t k = 0; k < keys && kept; k++) {
        char *row = scores + k * BLOCK * s->size;
        s->kernels->map[SAMBA_TILE_mul][s->class_](row, row, kept + at + k * BLOCK * s->size, NULL, lanes);
    }
    if (!v->first && rescale)
        s->tiles->scale_columns[s->class_](sums, alpha, s->attention.dv, lanes);
    if (s->half && !at_once)
        s->tiles->pair((uint32_t *)pairs, (const float *)scores, keys, lanes);
    if (s->half)
        scores = pairs;
    samba_micro_kernel_run(product, values, scores, sums);
}

static void turn(const samba_attention_state *s, char *d, const char *from, int64_t queries, int64_t keys)
{
    (s->class_ == SAMBA_F32 ? s->kernels->transpose4 : s->kernels->transpose8)(d, BLOCK, from, BLOCK, queries, keys);
}

static void look(const samba_attention_state *s, char *own, view *v, bool diagonal, int64_t *packed)
{
    int64_t head = v->h / s->group, key_ld = samba_attention_ld(s, SAMBA_ATTENTION_K) * samba_attention_half_size(s);
    char *scores = own + s->at[SCORES], *turned = own + s->at[TURNED];
    const char *queries = own + s->at[QUERIES];
    pack_head(s, own, v->b, head, v->j / BLOCK, packed);
    const char *keys = keys_of(s, own, v->b, head, v->j, v->keys);
    bool rest_keys = v->keys < BLOCK, rest_lanes = v->queries < BLOCK;
    if (diagonal)
        for (int64_t row = 0; row < v->keys; row += STRIP)
            samba_micro_kernel_run(&s->strip_scores[v->keys - row < STRIP][(v->lanes - row) / STRIP - 1], keys + row * key_ld,
                                   queries + row * s->size, scores + (row * BLOCK + row) * s->size);
    else
        samba_micro_kernel_run(&s->scores[rest_keys][rest_lanes], keys, queries, scores);
    const char *mask = samba_attention_mask(s, v->b, v->h, v->i, v->queries, v->j, v->keys, own + s->at[MASK_ROWS]);
    v->factor = s->attention.scale / s->unit;
    if (mask) {
        turn(s, turned, mask, v->queries, v->keys);
        mask = turned;
    }
    if (mask || !((s->class_ == SAMBA_F32 ? (double)(float)v->factor : v->factor) > 0)) {
        s->tiles->adjust[s->class_](scores, mask, v->factor, v->keys, v->lanes);
        v->factor = 1;
    }
    const char *kept = samba_attention_kept(s, v->b, v->h, v->i, v->queries, v->j, v->keys, own + s->at[MASK_ROWS],
                                            (float *)(own + s->at[DRAWN]));
    if (kept) {
        turn(s, turned, kept, v->queries, v->keys);
        kept = turned;
    }
    const char *values = values_of(s, own, v->b, head, v->j, v->keys);
    if (!diagonal) {
        weigh(s, own, v, 0, v->lanes, v->keys, kept, values, &s->values[rest_keys][rest_lanes][v->first]);
        return;
    }
    for (int64_t lane = 0; lane < v->lanes; lane += STRIP) {
        int64_t seen = lane + STRIP < v->keys ? lane + STRIP : v->keys;
        if (lane < v->keys)
            hide_later_keys(s, scores, lane, seen - lane);
        weigh(s, own, v, lane, STRIP, seen, kept, values, &s->strip_values[samba_attention_strips(seen)][v->first]);
    }
}

static void store_results(const samba_attention_state *s, char *own, const view *v)
{
    const samba_attention_rows *result = &s->parts[SAMBA_ATTENTION_RESULT], *lse = &s->parts[SAMBA_ATTENTION_LSE];
    char *greatest = own + s->at[GREATEST], *total = own + s->at[TOTAL], *alpha = own + s->at[ALPHA];
    if (lse->data) { /* -infinity where nothing was seen: greatest and log(0) both are */
        s->kernels->map[SAMBA_TILE_log][s->class_](alpha, total, NULL, NULL, v->queries);
        for (int64_t r = 0; r < v->queries; r++)
            if (s->class_ == SAMBA_F32)
                ((float *)alpha)[r] += ((float *)greatest)[r] * (float)s->unit;
            else
                ((double *)alpha)[r] += ((double *)greatest)[r];
        char *to = lse->data + (v->b * lse->strides[0] + v->h * lse->strides[1] + v->i * lse->strides[2]) * lse->size;
        s->kernels->store_strided[lse->dtype](to, alpha, lse->strides[2], v->queries);
    }
    if (!result->data)
        return;
    for (int64_t r = 0; r < v->queries; r++)
        if (s->class_ == SAMBA_F32)
            ((float *)alpha)[r] = ((float *)total)[r] == 0 ? 0 : 1 / ((float *)total)[r];
        else
            ((double *)alpha)[r] = ((double *)total)[r] == 0 ? 0 : 1 / ((double *)total)[r];
    s->tiles->scale_columns[s->class_](own + s->at[SUMS], alpha, result->depth, v->lanes);
    samba_attention_write_lanes(s, SAMBA_ATTENTION_RESULT, v->b, v->h, v->i, v->queries, own + s->at[SUMS], own + s->at[ROWS]);
}

void samba_attention_attend(const samba_attention_state *s, char *own, int64_t unit, int64_t block, int64_t *packed)
{
    view v = {.b = unit / s->h, .h = unit % s->h, .i = block * BLOCK, .queries = samba_attention_width(s->tq, block)};
    int64_t end = s->attention.causal && v.i + v.queries < s->tk ? v.i + v.queries : s->tk;
    const double none = -INFINITY;
    const float none_f32 = -INFINITY;
    v.lanes = samba_attention_lanes(v.queries);
    load_queries(s, own, v.b, v.h, v.i, v.queries);
    expect_next(s, v.b, v.h, v.i, v.queries, end);
    s->kernels->fill[s->class_](own + s->at[GREATEST], s->class_ == SAMBA_F32 ? (const void *)&none_f32 : (const void *)&none,
                                BLOCK);
    memset(own + s->at[TOTAL], 0, (size_t)(BLOCK * s->size));
    if (end == 0)
        memset(own + s->at[SUMS], 0, (size_t)(s->attention.dv * BLOCK * s->size));
    for (v.j = 0; v.j < end; v.j += BLOCK) {
        v.keys = end - v.j < BLOCK ? end - v.j : BLOCK;
        v.first = v.j == 0;
        look(s, own, &v, s->attention.causal && v.i == v.j, packed);
    }
    store_results(s, own, &v);
}

void samba_attention_prepare_forward(samba_attention_state *s)
{
    const samba_attention_rows *k = &s->parts[SAMBA_ATTENTION_K], *v = &s->parts[SAMBA_ATTENTION_V];
    int64_t d = s->attention.d, dv = s->attention.dv, key_ld = samba_attention_ld(s, SAMBA_ATTENTION_K);
    int64_t value_ld = s->half ? BLOCK : 1, value_step = s->half ? 1 : v->ld;
    for (int rest_keys = 0; rest_keys < 2; rest_keys++)
        for (int rest_lanes = 0; rest_lanes < 2; rest_lanes++) {
            int64_t keys = rest_keys ? s->tk % BLOCK : BLOCK, lanes = samba_attention_lanes(rest_lanes ? s->tq % BLOCK : BLOCK);
            s->scores[rest_keys][rest_lanes] = samba_attention_product(s, keys, lanes, d, key_ld, 1, BLOCK, BLOCK, true);
            for (int first = 0; first < 2; first++)
                s->values[rest_keys][rest_lanes][first] =
                    samba_attention_product(s, dv, lanes, keys, value_ld, value_step, BLOCK, BLOCK, first);
        }
    int64_t seen = s->tq < s->tk ? s->tq : s->tk, rest = seen % STRIP; /* on the diagonal */
    for (int strips = 1; strips <= STRIPS && s->attention.causal; strips++)
        for (int is_rest = 0; is_rest < 2; is_rest++) {
            s->strip_scores[is_rest][strips - 1] =
                samba_attention_product(s, is_rest ? rest : STRIP, strips * STRIP, d, key_ld, 1, BLOCK, BLOCK, true);
            s->strip_values[strips - 1][is_rest] =
                samba_attention_product(s, dv, STRIP, strips * STRIP, value_ld, value_step, BLOCK, BLOCK, is_rest);
        }
    for (int first = 0; first < 2 && s->attention.causal; first++)
        s->strip_values[STRIPS][first] =
            samba_attention_product(s, dv, STRIP, rest ? seen % BLOCK : 0, value_ld, value_step, BLOCK, BLOCK, first);
    bool extra = s->attention.masked || s->attention.dropout;
    int64_t deeper = d > dv ? d : dv;
    samba_attention_reserve(s, QUERIES, samba_attention_even(d) * BLOCK);
    samba_attention_reserve(s, SCORES, BLOCK * BLOCK);
    samba_attention_reserve(s, SUMS, dv * BLOCK);
    int64_t key_rows = samba_attention_even(d) * BLOCK, value_rows = 0; /* of pairs the keys of a block */
    if (!s->half)
        s->fits = s->fits && samba_mul_checked(k->direct ? 0 : d, s->tk, &key_rows) &&
                  samba_mul_checked(v->direct ? 0 : dv, s->tk, &value_rows);
    samba_attention_reserve(s, KEY_ROWS, key_rows);
    samba_attention_reserve(s, VALUE_ROWS, value_rows);
    samba_attention_reserve(s, ROWS, deeper * BLOCK);
    samba_attention_reserve(s, MASK_ROWS, extra ? BLOCK * BLOCK : 0);
    samba_attention_reserve(s, TURNED, extra ? BLOCK * BLOCK : 0);
    for (int part = DRAWN; part <= ALPHA; part++)
        samba_attention_reserve(s, part, BLOCK);
    if (!s->half)
        return;
    int64_t values = 0;
    /* two to an element of the class */
    s->fits = s->fits && samba_mul_checked(dv * (BLOCK / 2), (s->tk + BLOCK - 1) / BLOCK, &values);
    samba_attention_reserve(s, PAIRS, BLOCK * BLOCK / 2);
    samba_attention_reserve(s, VALUE_PAIRS, values);
}
