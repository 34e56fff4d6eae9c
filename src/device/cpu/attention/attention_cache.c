/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a cache (tensor/positions.h says who sees what): how many keys there are is known when the stage runs, so time
 * goes with the tokens there are and not with the size of the cache.
 *
 * Few queries, one after the other, so that each gives the bits that it gives alone: keys and values are read in order, for all
 * heads that share them (rows.h), a piece at a time that stays in a near cache from one head to the next. More: blocks of 64
 * queries by 64 keys as attention_forward.c has them. A block ends where the ring does or where no more is seen; such a block is
 * copied and filled up with zeros, since products have fixed sizes and what else lies in the cache may be no number. 16-bit
 * floats are computed in float. */
#include "device/cpu/attention/attention.h"
#include "device/cpu/product/rows.h"
#include "tensor/positions.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK = SAMBA_ATTENTION_BLOCK,
    FEW = 12,   /* queries, as many as rows that products of weights read them for (product/stored.c) */
    PIECE = 256 /* keys that are read for all heads that share them, before the next ones: some 64 KiB */
};
enum { QUERY, SCORES, SUMS }; /* scratch of one query: state->at */
enum { QUERIES = SUMS + 1, WEIGHTS, RESULTS, KEY_ROWS, VALUE_ROWS, ROWS, GREATEST, TOTAL, ALPHA }; /* of blocks */

static char *element(const samba_attention_rows *part, int64_t b, int64_t head, int64_t row)
{
    return part->data + (b * part->strides[0] + head * part->strides[1] + row * part->strides[2]) * part->size;
}

static int64_t start_of(const samba_attention_state *s, int64_t b)
{
    const samba_attention_rows *start = &s->parts[SAMBA_ATTENTION_START];
    const char *at = start->data + b * start->strides[0] * start->size;
    return start->dtype == SAMBA_INT32 ? *(const int32_t *)at : *(const int64_t *)at;
}

/* ---- few queries ---- */

typedef struct piece {        /* keys of neighbouring slots */
    int64_t slot, keys, done; /* done: keys before them */
} piece;

/* The piece behind `done` keys; of 0 keys: there is none. */
static piece next_piece(const samba_attention_state *s, const samba_positions *seen, int64_t done)
{
    const int64_t position = seen->from + done, slots = s->attention.slots;
    piece p = {.slot = position % slots, .keys = seen->to - position, .done = done};
    if (p.keys > slots - p.slot)
        p.keys = slots - p.slot;
    if (p.keys > PIECE)
        p.keys = PIECE;
    return p;
}

/* Scores become weights; returns their sum. */
static double weigh_row(const samba_attention_state *s, float *scores, int64_t keys)
{
    const samba_attention *a = &s->attention;
    float greatest = -INFINITY; /* NaN is passed on */
    const float scale = (float)(a->cap > 0 ? a->scale / a->cap : a->scale);
    for (int64_t i = 0; i < keys; i++)
        scores[i] *= scale;
    if (a->cap > 0) {
        s->kernels->map[SAMBA_TILE_tanh][SAMBA_F32](scores, scores, NULL, NULL, keys);
        for (int64_t i = 0; i < keys; i++)
            scores[i] *= (float)a->cap;
    }
    s->kernels->reduce_amax[SAMBA_F32](&greatest, scores, 1, keys, false);
    if (greatest == -INFINITY) {
        memset(scores, 0, (size_t)keys * sizeof *scores);
        return 0;
    }
    for (int64_t i = 0; i < keys; i++)
        scores[i] -= greatest;
    s->kernels->map[SAMBA_TILE_exp][SAMBA_F32](scores, scores, NULL, NULL, keys);
    return (double)s->kernels->total_f32(scores, keys);
}

static void store_row(const samba_attention_state *s, char *to, float *sums, double total)
{
    const samba_attention_rows *result = &s->parts[SAMBA_ATTENTION_RESULT];
    for (int64_t i = 0; i < s->attention.dv && total != 0; i++)
        sums[i] = (float)(sums[i] / total);
    if (result->strides[3] == 1)
        s->kernels->store[result->dtype](to, sums, s->attention.dv);
    else
        s->kernels->store_strided[result->dtype](to, sums, result->strides[3], s->attention.dv);
}

/* Query i of heads from h on, s->each of them, which share a key head. */
static void attend_row(const samba_attention_state *s, char *own, int64_t b, int64_t h, int64_t row)
{
    const samba_rows *rows = s->kernels->rows;
    const samba_attention_rows *q = &s->parts[SAMBA_ATTENTION_Q], *k = &s->parts[SAMBA_ATTENTION_K],
                               *v = &s->parts[SAMBA_ATTENTION_V], *result = &s->parts[SAMBA_ATTENTION_RESULT];
    const int64_t head = h / s->group, d = s->attention.d, dv = s->attention.dv, slots = s->attention.slots;
    char *query = own + s->at[QUERY];
    float *scores = (float *)(own + s->at[SCORES]), *sums = (float *)(own + s->at[SUMS]);
    samba_positions seen;
    samba_cache_sees(start_of(s, b), row, 1, s->tq, slots, s->attention.window, &seen);
    const int64_t keys = seen.to - seen.from;
    for (int64_t g = 0; g < s->each; g++)
        for (int64_t i = 0; i < d; i++)
            memcpy(query + (g * d + i) * q->size, element(q, b, h + g, row) + i * q->strides[3] * q->size, (size_t)q->size);
    for (piece p = next_piece(s, &seen, 0); p.keys > 0; p = next_piece(s, &seen, p.done + p.keys))
        for (int64_t g = 0; g < s->each; g++)
            rows->dots[k->dtype == SAMBA_BFLOAT16](query + g * d * q->size, element(k, b, head, p.slot), k->strides[2], p.keys, d,
                                                   scores + g * slots + p.done);
    double *totals = (double *)(sums + s->each * dv + (s->each * dv & 1));
    for (int64_t g = 0; g < s->each; g++)
        totals[g] = weigh_row(s, scores + g * slots, keys);
    memset(sums, 0, (size_t)(s->each * dv) * sizeof *sums);
    for (piece p = next_piece(s, &seen, 0); p.keys > 0; p = next_piece(s, &seen, p.done + p.keys))
        for (int64_t g = 0; g < s->each; g++)
            rows->sums[v->dtype == SAMBA_BFLOAT16](scores + g * slots + p.done, element(v, b, head, p.slot), v->strides[2],
                                                   p.keys, dv, sums + g * dv);
    for (int64_t g = 0; g < s->each; g++)
        store_row(s, element(result, b, h + g, row), sums + g * dv, totals[g]);
}

/* ---- blocks ---- */

typedef struct view { /* of queries from i on, `lanes` with what fills vectors, at keys of positions from `position` on */
    int64_t b, h, i, queries, lanes, position, slot, keys;
    bool rest; /* of queries */
} view;

/* Rows from v->slot on as `BLOCK` rows, of fewer keys with zeros behind; `room` for them. */
static const char *rows_of(const samba_attention_state *s, samba_attention_part which, const view *v, char *room)
{
    const samba_attention_rows *part = &s->parts[which];
    const int64_t head = v->h / s->group;
    if (v->keys == BLOCK)
        return samba_attention_read(s, which, v->b, head, v->slot, BLOCK, room);
    for (int64_t j = 0; j < v->keys; j++) {
        char *to = room + j * part->depth * s->size;
        if (part->strides[3] == 1)
            s->kernels->load[part->dtype](to, element(part, v->b, head, v->slot + j), part->depth);
        else
            s->kernels->load_strided[part->dtype](to, element(part, v->b, head, v->slot + j), part->strides[3], part->depth);
    }
    memset(room + v->keys * part->depth * s->size, 0, (size_t)((BLOCK - v->keys) * part->depth * s->size));
    return room;
}

/* Scores with their scale and cap; the factor that is left of it, which is above 0. */
static double adjust(const samba_attention_state *s, char *scores, const view *v)
{
    const samba_attention *a = &s->attention;
    const double factor = a->scale / s->unit;
    if (a->cap > 0) {
        s->tiles->adjust[s->class_](scores, NULL, a->scale / a->cap, v->keys, v->lanes);
        for (int64_t j = 0; j < v->keys; j++) {
            char *row = scores + j * BLOCK * s->size;
            s->kernels->map[SAMBA_TILE_tanh][s->class_](row, row, NULL, NULL, v->lanes);
        }
        return a->cap / s->unit;
    }
    if ((s->class_ == SAMBA_F32 ? (double)(float)factor : factor) > 0)
        return factor;
    s->tiles->adjust[s->class_](scores, NULL, factor, v->keys, v->lanes);
    return 1;
}

/* Positions that a query sees at most. */
static int64_t width(const samba_attention_state *s)
{
    const samba_attention *a = &s->attention;
    return a->window > 0 && a->window < a->slots ? a->window : a->slots;
}

/* Scores of keys that a query does not see are -infinity. */
static void hide(const samba_attention_state *s, char *scores, const view *v, int64_t first)
{
    const double hidden = -INFINITY;
    const float hidden_f32 = -INFINITY;
    const void *value = s->class_ == SAMBA_F32 ? (const void *)&hidden_f32 : (const void *)&hidden;
    for (int64_t j = 0; j < v->keys; j++) {
        char *row = scores + j * BLOCK * s->size;
        const int64_t from = v->position + j - first, window = width(s);
        const int64_t before = from < v->lanes ? from : v->lanes;
        if (before > 0)
            s->kernels->fill[s->class_](row, value, before);
        if (from + window < v->lanes) {
            const int64_t to = from + window > 0 ? from + window : 0;
            s->kernels->fill[s->class_](row + to * s->size, value, v->lanes - to);
        }
    }
}

static void look(const samba_attention_state *s, char *own, const view *v, int64_t first)
{
    char *scores = own + s->at[WEIGHTS], *sums = own + s->at[RESULTS], *alpha = own + s->at[ALPHA];
    const bool part = v->keys < BLOCK;
    const char *keys = rows_of(s, SAMBA_ATTENTION_K, v, own + s->at[KEY_ROWS]);
    samba_micro_kernel_run(&s->scores[part][v->rest], keys, own + s->at[QUERIES], scores);
    const double factor = adjust(s, scores, v);
    hide(s, scores, v, first);
    if (s->tiles->weigh[s->class_](scores, factor, v->keys, v->lanes, own + s->at[GREATEST], own + s->at[TOTAL], alpha))
        s->tiles->scale_columns[s->class_](sums, alpha, s->attention.dv, v->lanes);
    for (int64_t j = v->keys; j < BLOCK; j++)
        memset(scores + j * BLOCK * s->size, 0, (size_t)(v->lanes * s->size));
    const char *values = rows_of(s, SAMBA_ATTENTION_V, v, own + s->at[VALUE_ROWS]);
    samba_micro_kernel_run(&s->values[part][v->rest][0], values, scores, sums);
}

static void finish(const samba_attention_state *s, char *own, const view *v)
{
    char *total = own + s->at[TOTAL], *alpha = own + s->at[ALPHA], *sums = own + s->at[RESULTS];
    for (int64_t r = 0; r < v->queries; r++)
        if (s->class_ == SAMBA_F32)
            ((float *)alpha)[r] = ((float *)total)[r] == 0 ? 0 : 1 / ((float *)total)[r];
        else
            ((double *)alpha)[r] = ((double *)total)[r] == 0 ? 0 : 1 / ((double *)total)[r];
    s->tiles->scale_columns[s->class_](sums, alpha, s->attention.dv, v->lanes);
    samba_attention_write_lanes(s, SAMBA_ATTENTION_RESULT, v->b, v->h, v->i, v->queries, sums, own + s->at[ROWS]);
}

static void attend_block(const samba_attention_state *s, char *own, int64_t b, int64_t h, int64_t block)
{
    view v = {.b = b, .h = h, .i = block * BLOCK, .queries = samba_attention_width(s->tq, block)};
    const int64_t start = start_of(s, b), first = samba_cache_start(start, s->tq) + v.i, slots = s->attention.slots;
    const double none = -INFINITY;
    const float none_f32 = -INFINITY;
    samba_positions seen;
    samba_cache_sees(start, v.i, v.queries, s->tq, slots, s->attention.window, &seen);
    v.lanes = samba_attention_lanes(v.queries);
    v.rest = v.queries < BLOCK;
    if (v.lanes > v.queries)
        memset(own + s->at[QUERIES], 0, (size_t)(s->attention.d * BLOCK * s->size));
    const void *rows = samba_attention_read(s, SAMBA_ATTENTION_Q, b, h, v.i, v.queries, own + s->at[ROWS]);
    samba_attention_turn(s, SAMBA_ATTENTION_Q, b, h, v.i, v.queries, rows, own + s->at[QUERIES]);
    s->kernels->fill[s->class_](own + s->at[GREATEST], s->class_ == SAMBA_F32 ? (const void *)&none_f32 : (const void *)&none,
                                BLOCK);
    memset(own + s->at[TOTAL], 0, (size_t)(BLOCK * s->size));
    memset(own + s->at[RESULTS], 0, (size_t)(s->attention.dv * BLOCK * s->size));
    for (v.position = seen.from; v.position < seen.to; v.position += v.keys) {
        v.slot = v.position % slots;
        v.keys = seen.to - v.position < slots - v.slot ? seen.to - v.position : slots - v.slot;
        v.keys = v.keys < BLOCK ? v.keys : BLOCK;
        look(s, own, &v, first);
    }
    finish(s, own, &v);
}

void samba_attention_attend_cache(const samba_attention_state *s, char *own, int64_t unit, int64_t block)
{
    const int64_t units = s->h / s->each; /* of a sequence */
    for (int64_t i = 0; i < s->tq && s->one; i++)
        attend_row(s, own, unit / units, unit % units * s->each, i);
    if (!s->one)
        attend_block(s, own, unit / units, unit % units, block);
}

/* ---- preparing ---- */

static bool lies(const samba_attention_rows *part)
{
    return (part->dtype == SAMBA_FLOAT32 || part->dtype == SAMBA_BFLOAT16) && part->strides[3] == 1 && part->strides[2] >= 0;
}

/* How the work is cut: s->one, s->each. Heads that share keys go together where there are enough of such. */
void samba_attention_cut_cache(samba_attention_state *s, int threads)
{
    s->half = false;
    s->one = s->class_ == SAMBA_F32 && s->tq >= 1 && s->tq <= FEW && s->attention.d > 0 && s->attention.dv > 0 &&
             lies(&s->parts[SAMBA_ATTENTION_K]) && lies(&s->parts[SAMBA_ATTENTION_V]);
    s->each = s->one && s->b * s->attention.hkv >= threads ? s->group : 1;
}

static void reserve(samba_attention_state *s, int64_t part, int64_t rows, int64_t row)
{
    int64_t n = 0;
    s->fits = s->fits && samba_mul_checked(rows, row, &n);
    samba_attention_reserve(s, part, n);
}

void samba_attention_prepare_cache(samba_attention_state *s)
{
    const samba_attention_rows *k = &s->parts[SAMBA_ATTENTION_K], *v = &s->parts[SAMBA_ATTENTION_V];
    const int64_t d = s->attention.d, dv = s->attention.dv;
    if (s->one) {
        reserve(s, QUERY, s->each, d);
        reserve(s, SCORES, s->each, s->attention.slots);
        reserve(s, SUMS, s->each, dv + 4); /* and the totals */
        return;
    }
    for (int part = 0; part < 2; part++) /* copied */
        for (int rest = 0; rest < 2; rest++) {
            const int64_t lanes = samba_attention_lanes(rest ? s->tq % BLOCK : BLOCK);
            s->scores[part][rest] = samba_attention_product(s, BLOCK, lanes, d, part ? d : k->ld, 1, BLOCK, BLOCK, true);
            s->values[part][rest][0] = samba_attention_product(s, dv, lanes, BLOCK, 1, part ? dv : v->ld, BLOCK, BLOCK, false);
        }
    for (int part = QUERY; part <= SUMS; part++)
        samba_attention_reserve(s, part, 0);
    reserve(s, QUERIES, d, BLOCK);
    reserve(s, WEIGHTS, BLOCK, BLOCK);
    reserve(s, RESULTS, dv, BLOCK);
    reserve(s, KEY_ROWS, d, BLOCK);
    reserve(s, VALUE_ROWS, dv, BLOCK);
    reserve(s, ROWS, d > dv ? d : dv, BLOCK);
    for (int part = GREATEST; part <= ALPHA; part++)
        samba_attention_reserve(s, part, BLOCK);
}
