/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention block by block, backward. A task is a block of 64 keys of one key head: queries of all heads that share it pass in blocks of
 * 64, their weights are computed again from the log-sum-exp, and
 *   dv += p^T dout    dp = dout v^T    ds = p (dp - delta)    dk += ds^T q    dq += ds k    (scale in ds; delta = row sums of dout * out)
 * Scores lie query by query here, keys in the lanes: what is constant for a query is one number a row, and rows of q, dout and k are used
 * where they lie. Only keys and values are turned, once a task.
 *
 * A thread sums dq of a head over its tasks in scratch and stores a block of it with the last keys that it sees. Where a head's tasks belong to several
 * threads each keeps its sums, and a second phase adds them in the order of threads: at most its first and its last head, so two slots
 * do. So the order of all sums depends on the number of threads alone. */
#include "kernels/cpu/attention.h"
#include <math.h>
#include <string.h>

enum { BLOCK = SAMBA_ATTENTION_BLOCK, HALF = BLOCK / 2 };
enum { KEYS, VALUES, KEY_ROWS, VALUE_ROWS, QUERY_ROWS, DOUT_ROWS, OUT_ROWS, SCORES, ALONG, DK, DV, MASK_ROWS, KEPT, DRAWN, ROW, DQ };

/* A unit is split when its tasks are not all this thread's. */
static bool is_split(const samba_attention_state *s, int64_t unit, int thread)
{
    return s->begin[thread] > unit * s->blocks || s->begin[thread + 1] < (unit + 1) * s->blocks;
}

/* A thread's sums of dq: its first unit's in slot 0 where that is split, all others in the last slot. */
static char *sums_of(const samba_attention_state *s, char *own, int64_t unit, int thread)
{
    bool last = s->begin[thread] / s->blocks != unit || !is_split(s, unit, thread);
    return own + s->at[DQ] + (s->slots > 1 && last ? s->slot_bytes : 0);
}

static void turn(const samba_attention_state *s, void *d, int64_t ldd, const void *from, int64_t lds, int64_t rows, int64_t cols)
{
    (s->class_ == SAMBA_F32 ? s->kernels->transpose4 : s->kernels->transpose8)(d, ldd, from, lds, rows, cols);
}

/* For all queries of a unit: the log-sum-exp, then delta. */
static void load_rows(const samba_attention_state *s, char *own, int64_t b, int64_t head)
{
    const samba_attention_rows *lse = &s->parts[SAMBA_ATTENTION_LSE];
    const samba_attention_rows *out = &s->parts[SAMBA_ATTENTION_RESULT], *dout = &s->parts[SAMBA_ATTENTION_DOUT];
    char *lses = own + s->at[ROW], *deltas = lses + s->group * s->tq * s->size;
    for (int64_t g = 0; g < s->group; g++)
        for (int64_t i = 0; i < s->tq; i += BLOCK) {
            int64_t h = head * s->group + g, queries = samba_attention_width(s->tq, i / BLOCK);
            if (i + BLOCK < s->tq) {
                samba_attention_expect(s, SAMBA_ATTENTION_RESULT, b, h, i + BLOCK, samba_attention_width(s->tq, i / BLOCK + 1), false);
                samba_attention_expect(s, SAMBA_ATTENTION_DOUT, b, h, i + BLOCK, samba_attention_width(s->tq, i / BLOCK + 1), false);
            }
            const char *a = samba_attention_read(s, SAMBA_ATTENTION_RESULT, b, h, i, queries, own + s->at[OUT_ROWS]);
            const char *c = samba_attention_read(s, SAMBA_ATTENTION_DOUT, b, h, i, queries, own + s->at[DOUT_ROWS]);
            const char *from = lse->data + (b * lse->strides[0] + h * lse->strides[1] + i * lse->strides[2]) * lse->size;
            s->kernels->load_strided[lse->dtype](lses + (g * s->tq + i) * s->size, from, lse->strides[2], queries);
            s->tiles->dots[s->class_](deltas + (g * s->tq + i) * s->size, a, out->ld, c, dout->ld, queries, s->attention.dv);
        }
}

/* Keys that come after a query have no weight, whatever their scores were. */
static void hide_later_keys(const samba_attention_state *s, char *weights, char *gradients, int64_t i, int64_t queries, int64_t j, int64_t lanes)
{
    for (int64_t r = 0; r < queries; r++) {
        int64_t seen = i + r + 1 > j ? i + r + 1 - j : 0, offset = (r * BLOCK + seen) * s->size;
        if (seen >= lanes)
            return;
        memset(weights + offset, 0, (size_t)((lanes - seen) * s->size));
        memset(gradients + offset, 0, (size_t)((lanes - seen) * s->size));
    }
}

/* One block of queries against the task's keys; complete: no later keys add to its dq, and all earlier ones were this thread's. */
static void step(const samba_attention_state *s, char *own, int64_t b, int64_t head, int64_t g, int64_t i, int64_t queries, int64_t j,
                 int64_t keys, const void *key_rows, char *dq, bool complete)
{
    int64_t h = head * s->group + g, lanes = samba_attention_lanes(keys);
    int of_keys = samba_attention_kind(keys), of_queries = samba_attention_kind(queries);
    char *scores = own + s->at[SCORES], *along = own + s->at[ALONG];
    const char *lse = own + s->at[ROW] + (g * s->tq + i) * s->size, *delta = lse + s->group * s->tq * s->size;
    const void *q = samba_attention_read(s, SAMBA_ATTENTION_Q, b, h, i, queries, own + s->at[QUERY_ROWS]);
    const void *dout = samba_attention_read(s, SAMBA_ATTENTION_DOUT, b, h, i, queries, own + s->at[DOUT_ROWS]);
    if (complete)
        samba_attention_expect(s, SAMBA_ATTENTION_DQ, b, h, i, queries, true);
    samba_product_run(&s->weights[of_keys][of_queries], q, own + s->at[KEYS], scores);
    samba_product_run(&s->along[of_keys][of_queries], dout, own + s->at[VALUES], along);
    const void *mask = samba_attention_mask(s, b, h, i, queries, j, keys, own + s->at[MASK_ROWS]);
    const void *kept = samba_attention_kept(s, b, h, i, queries, j, keys, own + s->at[KEPT], (float *)(own + s->at[DRAWN]));
    s->tiles->differentiate[s->class_](scores, along, mask, kept, lse, delta, s->attention.scale, queries, lanes);
    if (s->attention.causal && j + keys > i + 1)
        hide_later_keys(s, scores, along, i, queries, j, lanes);
    samba_product_run(&s->dv[of_keys][of_queries], scores, dout, own + s->at[DV]);
    samba_product_run(&s->dk[of_keys][of_queries], along, q, own + s->at[DK]);
    char *sums = dq + (g * s->tq + i) * s->attention.d * s->size;
    samba_product_run(&s->dq[of_keys][of_queries], along, key_rows, sums);
    if (complete)
        samba_attention_write(s, SAMBA_ATTENTION_DQ, b, h, i, queries, sums, s->attention.d);
}

static void differentiate(const samba_attention_state *s, char *own, int64_t b, int64_t head, int64_t block, char *dq, bool whole)
{
    int64_t j = block * BLOCK, keys = samba_attention_width(s->tk, block), d = s->attention.d, dv = s->attention.dv;
    const void *key_rows = samba_attention_read(s, SAMBA_ATTENTION_K, b, head, j, keys, own + s->at[KEY_ROWS]);
    const void *value_rows = samba_attention_read(s, SAMBA_ATTENTION_V, b, head, j, keys, own + s->at[VALUE_ROWS]);
    turn(s, own + s->at[KEYS], BLOCK, key_rows, s->parts[SAMBA_ATTENTION_K].ld, keys, d);
    turn(s, own + s->at[VALUES], BLOCK, value_rows, s->parts[SAMBA_ATTENTION_V].ld, keys, dv);
    memset(own + s->at[DK], 0, (size_t)(d * BLOCK * s->size));
    memset(own + s->at[DV], 0, (size_t)(dv * BLOCK * s->size));
    samba_attention_expect(s, SAMBA_ATTENTION_DK, b, head, j, keys, true);
    samba_attention_expect(s, SAMBA_ATTENTION_DV, b, head, j, keys, true);
    if (block + 1 < s->blocks) {
        samba_attention_expect(s, SAMBA_ATTENTION_K, b, head, j + BLOCK, samba_attention_width(s->tk, block + 1), false);
        samba_attention_expect(s, SAMBA_ATTENTION_V, b, head, j + BLOCK, samba_attention_width(s->tk, block + 1), false);
    }
    for (int64_t g = 0; g < s->group; g++)
        for (int64_t i = s->attention.causal ? j : 0; i < s->tq; i += BLOCK) {
            int64_t queries = samba_attention_width(s->tq, i / BLOCK);
            bool halves = samba_attention_halves(s, i, queries, j, keys);
            bool complete = whole && (block == s->blocks - 1 || (s->attention.causal && i == j));
            step(s, own, b, head, g, i, halves ? HALF : queries, j, halves ? HALF : keys, key_rows, dq, complete);
            if (halves)
                step(s, own, b, head, g, i + HALF, HALF, j, keys, key_rows, dq, complete);
        }
    samba_attention_write(s, SAMBA_ATTENTION_DK, b, head, j, keys, own + s->at[DK], d);
    samba_attention_write(s, SAMBA_ATTENTION_DV, b, head, j, keys, own + s->at[DV], dv);
}

static void run_tasks(const samba_attention_state *s, char *own, int thread)
{
    char *dq = NULL;
    int64_t begin = s->begin[thread], end = s->begin[thread + 1], rows = s->group * s->tq;
    for (int64_t task = begin; task < end; task++) {
        int64_t unit = task / s->blocks, b = unit / s->attention.hkv, head = unit % s->attention.hkv;
        if (task == begin || task % s->blocks == 0) {
            dq = sums_of(s, own, unit, thread);
            memset(dq, 0, (size_t)(rows * s->attention.d * s->size));
            load_rows(s, own, b, head);
        }
        differentiate(s, own, b, head, task % s->blocks, dq, !is_split(s, unit, thread));
    }
}

static void store_dq(const samba_attention_state *s, int64_t unit, const char *dq, int64_t first, int64_t end)
{
    int64_t b = unit / s->attention.hkv, head = unit % s->attention.hkv;
    for (int64_t row = first; row < end; row++)
        samba_attention_write(s, SAMBA_ATTENTION_DQ, b, head * s->group + row / s->tq, row % s->tq, 1,
                              dq + row * s->attention.d * s->size, s->attention.d);
}

/* Sums of split units, thread by thread, added to those of the first; every thread of the team takes a share of the rows of each. */
static void combine(const samba_attention_state *s, char *scratch, int thread, int threads)
{
    int64_t rows = s->group * s->tq, first = rows * thread / threads, end = rows * (thread + 1) / threads;
    int64_t offset = first * s->attention.d * s->size, count = (end - first) * s->attention.d;
    for (int t = 0; t < threads; t++) {
        int64_t unit = (s->begin[t + 1] - 1) / s->blocks;
        if (s->begin[t] == s->begin[t + 1] || s->begin[t + 1] % s->blocks == 0 || s->begin[t] > unit * s->blocks)
            continue; /* its last unit ends with it, or began in another */
        char *total = sums_of(s, scratch + t * s->thread_bytes, unit, t);
        for (int next = t + 1; next < threads && s->begin[next] < (unit + 1) * s->blocks; next++)
            if (s->begin[next] < s->begin[next + 1])
                s->kernels->map[SAMBA_TILE_add][s->class_](total + offset, total + offset,
                                                           sums_of(s, scratch + next * s->thread_bytes, unit, next) + offset, NULL, count);
        store_dq(s, unit, total, first, end);
    }
}

void samba_attention_run_grad(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_attention_state *s = (const samba_attention_state *)state;
    if (s->units == 0)
        return;
    if (phase == 0)
        run_tasks(s, scratch + thread * s->thread_bytes, thread);
    else
        combine(s, scratch, thread, threads);
}

samba_status samba_attention_prepare_grad(const samba_prepare *prepare, samba_attention_state *s)
{
    const samba_attention_rows *parts = s->parts;
    int64_t d = s->attention.d, dv = s->attention.dv, q_ld = parts[SAMBA_ATTENTION_Q].ld, dout_ld = parts[SAMBA_ATTENTION_DOUT].ld;
    bool wide = s->class_ == SAMBA_F64;
    if (s->units == 0)
        return SAMBA_OK;
    for (int of_keys = 0; of_keys < 3; of_keys++)
        for (int of_queries = 0; of_queries < 3; of_queries++) {
            int64_t keys = samba_attention_extent(of_keys, s->tk), queries = samba_attention_extent(of_queries, s->tq);
            int64_t lanes = samba_attention_lanes(keys);
            if (!samba_attention_meet(s, of_keys, of_queries))
                continue;
            s->weights[of_keys][of_queries] = samba_product_new(prepare, wide, queries, lanes, d, q_ld, 1, BLOCK, BLOCK, true);
            s->along[of_keys][of_queries] = samba_product_new(prepare, wide, queries, lanes, dv, dout_ld, 1, BLOCK, BLOCK, true);
            s->dv[of_keys][of_queries] = samba_product_new(prepare, wide, keys, dv, queries, 1, BLOCK, dout_ld, dv, false);
            s->dk[of_keys][of_queries] = samba_product_new(prepare, wide, keys, d, queries, 1, BLOCK, q_ld, d, false);
            s->dq[of_keys][of_queries] = samba_product_new(prepare, wide, queries, d, keys, BLOCK, 1, parts[SAMBA_ATTENTION_K].ld, d, false);
        }
    samba_attention_reserve(s, KEYS, d * BLOCK);
    samba_attention_reserve(s, VALUES, dv * BLOCK);
    samba_attention_reserve(s, KEY_ROWS, parts[SAMBA_ATTENTION_K].direct ? 0 : d * BLOCK);
    samba_attention_reserve(s, VALUE_ROWS, parts[SAMBA_ATTENTION_V].direct ? 0 : dv * BLOCK);
    samba_attention_reserve(s, QUERY_ROWS, parts[SAMBA_ATTENTION_Q].direct ? 0 : d * BLOCK);
    samba_attention_reserve(s, DOUT_ROWS, parts[SAMBA_ATTENTION_DOUT].direct ? 0 : dv * BLOCK);
    samba_attention_reserve(s, OUT_ROWS, parts[SAMBA_ATTENTION_RESULT].direct ? 0 : dv * BLOCK);
    samba_attention_reserve(s, SCORES, BLOCK * BLOCK);
    samba_attention_reserve(s, ALONG, BLOCK * BLOCK);
    samba_attention_reserve(s, DK, d * BLOCK);
    samba_attention_reserve(s, DV, dv * BLOCK);
    samba_attention_reserve(s, MASK_ROWS, s->attention.masked ? BLOCK * BLOCK : 0);
    samba_attention_reserve(s, KEPT, s->attention.dropout ? BLOCK * BLOCK : 0);
    samba_attention_reserve(s, DRAWN, BLOCK);
    int64_t rows = s->group * s->tq, sums;
    samba_attention_reserve(s, ROW, 2 * rows);
    s->fits = s->fits && samba_mul_checked(rows, d, &sums);
    if (!s->fits)
        return SAMBA_OK;
    s->slots = 1;
    for (int thread = 1; thread < prepare->threads; thread++)
        if (s->begin[thread] % s->blocks != 0)
            s->slots = 2;
    int64_t before = s->thread_bytes;
    samba_attention_reserve(s, DQ, sums);
    s->slot_bytes = s->thread_bytes - before;
    if (s->slots > 1)
        s->fits = s->fits && samba_add_checked(s->thread_bytes, s->slot_bytes, &s->thread_bytes);
    return SAMBA_OK;
}
