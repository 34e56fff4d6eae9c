/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention block by block, backward. A task is a block of 64 keys of one key head: queries of all heads that share it pass in
 * blocks of 64, their weights are computed again from the log-sum-exp, and
 *   dv += p^T dout    dp = dout v^T    ds = p (dp - delta)    dk += ds^T q    dq += ds k    (scale in ds; delta = row sums of
 *   dout * out)
 * Scores lie query by query here, keys in the lanes: what is constant for a query is one number a row, and rows of q, dout and k
 * are used where they lie. Keys and values are turned, once a task, and dk and dv are summed turned: dv^T += dout^T p. Of pairs,
 * q and dout are turned too, once a head.
 *
 * A thread sums dq of a head over its tasks in scratch and stores a block of it with the last keys that it sees. Where there are
 * few heads each thread has a fixed row of tasks: dq of a head that belongs to several is kept by each of them, and a second
 * phase adds these in the order of threads. Those are at most a thread's first and last head, so two slots do. So the order of
 * all sums depends on the number of threads alone. */
#include "device/cpu/attention/attention.h"
#include <math.h>
#include <string.h>

enum { BLOCK = SAMBA_ATTENTION_BLOCK, STRIP = SAMBA_ATTENTION_STRIP, STRIPS = SAMBA_ATTENTION_STRIPS };
enum {
    KEYS,
    VALUES,
    KEY_ROWS,
    VALUE_ROWS,
    QUERY_ROWS,
    DOUT_ROWS,
    OUT_ROWS,
    SCORES,
    ALONG,
    DK,
    DV,
    ROWS,
    MASK_ROWS,
    KEPT,
    DRAWN,
    ROW,
    DQ,
    KEY_PAIRS,
    P_PAIRS,
    DS_PAIRS,
    DS_HALVES,
    Q_PAIRS,
    DOUT_PAIRS
};

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

/* Blocks of all queries of a unit, and the offset of one; each head's begin anew. */
static int64_t query_blocks(const samba_attention_state *s) { return (s->tq + BLOCK - 1) / BLOCK; }
static int64_t pair_offset(const samba_attention_state *s, int64_t g, int64_t i, int64_t depth)
{
    return (g * query_blocks(s) + i / BLOCK) * depth * BLOCK * 2;
}

/* Where rows of q or dout from i on lie that are not used in place. */
static char *kept_rows(const samba_attention_state *s, char *own, int where, int64_t g, int64_t i, int64_t depth)
{
    return own + s->at[where] + (g * s->tq + i) * depth * s->size;
}

/* For all queries of a unit: the log-sum-exp, then delta; of pairs, what is turned; else the rows of q and dout that are not used
 * where they lie, as each block of keys meets them all. */
static void load_rows(const samba_attention_state *s, char *own, int64_t b, int64_t head)
{
    const samba_attention_rows *lse = &s->parts[SAMBA_ATTENTION_LSE];
    const samba_attention_rows *out = &s->parts[SAMBA_ATTENTION_RESULT], *dout = &s->parts[SAMBA_ATTENTION_DOUT];
    char *lses = own + s->at[ROW], *deltas = lses + s->group * s->tq * s->size;
    for (int64_t g = 0; g < s->group; g++)
        for (int64_t i = 0; i < s->tq; i += BLOCK) {
            int64_t h = head * s->group + g, queries = samba_attention_width(s->tq, i / BLOCK);
            if (i + BLOCK < s->tq) {
                samba_attention_expect(s, SAMBA_ATTENTION_RESULT, b, h, i + BLOCK, samba_attention_width(s->tq, i / BLOCK + 1),
                                       false);
                samba_attention_expect(s, SAMBA_ATTENTION_DOUT, b, h, i + BLOCK, samba_attention_width(s->tq, i / BLOCK + 1),
                                       false);
            }
            const char *a = samba_attention_read(s, SAMBA_ATTENTION_RESULT, b, h, i, queries, own + s->at[OUT_ROWS]);
            char *dout_rows = s->half ? own + s->at[DOUT_ROWS] : kept_rows(s, own, DOUT_ROWS, g, i, s->attention.dv);
            const char *c = samba_attention_read(s, SAMBA_ATTENTION_DOUT, b, h, i, queries, dout_rows);
            if (!s->half && !s->parts[SAMBA_ATTENTION_Q].direct)
                samba_attention_read(s, SAMBA_ATTENTION_Q, b, h, i, queries, kept_rows(s, own, QUERY_ROWS, g, i, s->attention.d));
            const char *from = lse->data + (b * lse->strides[0] + h * lse->strides[1] + i * lse->strides[2]) * lse->size;
            s->kernels->load_strided[lse->dtype](lses + (g * s->tq + i) * s->size, from, lse->strides[2], queries);
            if (s->half) {
                samba_attention_turn_pairs(s, SAMBA_ATTENTION_Q, b, h, i, queries,
                                           (uint16_t *)(own + s->at[Q_PAIRS] + pair_offset(s, g, i, s->attention.d)), BLOCK);
                samba_attention_turn_pairs(s, SAMBA_ATTENTION_DOUT, b, h, i, queries,
                                           (uint16_t *)(own + s->at[DOUT_PAIRS] + pair_offset(s, g, i, s->attention.dv)), BLOCK);
            }
            s->tiles->dots[s->class_](deltas + (g * s->tq + i) * s->size, a, out->ld, c, dout->ld, queries, s->attention.dv);
        }
}

typedef struct view { /* a task's keys, and queries of one of its heads */
    int64_t b, head, j, keys;
    const char *key_rows; /* second operand of dq */
    char *dq;             /* sums of the unit */
    int64_t g, i, queries;
    const char *q, *dout;   /* rows, as first operands */
    const char *turned[2];  /* the same with queries as depth: dout, q */
    bool first, first_keys; /* the first step of dk and dv; of dq */
} view;

/* Keys that come after a query have no weight, whatever their scores were: in a square of the diagonal. */
static void hide_later_keys(const samba_attention_state *s, char *weights, char *gradients, int64_t rows, int64_t lanes)
{
    for (int64_t r = 0; r < rows && r + 1 < lanes; r++) {
        int64_t offset = (r * BLOCK + r + 1) * s->size;
        memset(weights + offset, 0, (size_t)((lanes - r - 1) * s->size));
        memset(gradients + offset, 0, (size_t)((lanes - r - 1) * s->size));
    }
}

static void hide_later_pairs(uint32_t *d, int64_t rows, int64_t lanes)
{
    for (int64_t r = 0; r < rows && r + 1 < lanes; r += 2, d += BLOCK) {
        d[r + 1] &= 0xffff0000u; /* the second of the two queries sees it */
        memset(d + r + 2, 0, (size_t)(lanes > r + 2 ? lanes - r - 2 : 0) * sizeof *d);
    }
}

/* Weights and gradients of scores of queries from `row` on, `lanes` keys of which `keys` are there. */
static void weigh(const samba_attention_state *s, char *own, const view *v, int64_t row, int64_t rows, int64_t keys,
                  int64_t lanes, bool diagonal, const samba_micro_kernel *product, const samba_micro_kernel *product_along)
{
    int64_t h = v->head * s->group + v->g, at = row * BLOCK * s->size, first = v->i + row;
    char *scores = own + s->at[SCORES] + at, *along = own + s->at[ALONG] + at;
    const char *lse = own + s->at[ROW] + (v->g * s->tq + first) * s->size, *delta = lse + s->group * s->tq * s->size;
    double factor = s->attention.scale / s->unit;
    samba_micro_kernel_run(product, v->q + row * samba_attention_ld(s, SAMBA_ATTENTION_Q) * samba_attention_half_size(s),
                           own + s->at[KEYS], scores);
    samba_micro_kernel_run(product_along,
                           v->dout + row * samba_attention_ld(s, SAMBA_ATTENTION_DOUT) * samba_attention_half_size(s),
                           own + s->at[VALUES], along);
    const void *mask = samba_attention_mask(s, v->b, h, first, rows, v->j, keys, own + s->at[MASK_ROWS]);
    const void *kept =
        samba_attention_kept(s, v->b, h, first, rows, v->j, keys, own + s->at[KEPT], (float *)(own + s->at[DRAWN]));
    if (mask) {
        s->tiles->adjust[s->class_](scores, mask, factor, rows, lanes);
        factor = 1;
    }
    if (!s->half) {
        s->tiles->differentiate[s->class_](scores, along, kept, lse, delta, factor, s->attention.scale, rows, lanes);
        if (diagonal && row < lanes)
            hide_later_keys(s, scores + row * s->size, along + row * s->size, rows, lanes - row);
        return;
    }
    uint16_t *halves = (uint16_t *)(own + s->at[DS_HALVES]) + row * BLOCK;
    uint32_t *weights = (uint32_t *)(own + s->at[P_PAIRS]) + row / 2 * BLOCK,
             *gradients = (uint32_t *)(own + s->at[DS_PAIRS]) + row / 2 * BLOCK;
    s->tiles->differentiate_pairs((const float *)scores, (const float *)along, kept, (const float *)lse, (const float *)delta,
                                  factor, s->attention.scale, rows, lanes, weights, gradients, halves);
    if (diagonal && row < lanes) {
        hide_later_pairs(weights + row, rows, lanes - row);
        hide_later_pairs(gradients + row, rows, lanes - row);
        for (int64_t r = 0; r < rows && r + 1 < lanes - row; r++)
            memset(halves + r * BLOCK + row + r + 1, 0, (size_t)(lanes - row - r - 1) * sizeof *halves);
    }
    for (int64_t r = 0; r < rows && keys % 2; r++)
        halves[r * BLOCK + keys] = 0; /* its partner */
}

/* One block of queries against the task's keys; complete:
 * no later keys add to its dq, and all earlier ones were this thread's. */
static void step(const samba_attention_state *s, char *own, const view *v, bool diagonal, bool complete)
{
    int64_t h = v->head * s->group + v->g, d = s->attention.d, lanes = samba_attention_lanes(v->keys);
    bool rest_keys = v->keys < BLOCK, rest_queries = v->queries < BLOCK;
    const char *weights = own + s->at[s->half ? P_PAIRS : SCORES], *gradients = own + s->at[s->half ? DS_PAIRS : ALONG];
    const char *rows = own + s->at[s->half ? DS_HALVES : ALONG];
    char *sums = v->dq + (v->g * s->tq + v->i) * d * s->size;
    if (complete)
        samba_attention_expect(s, SAMBA_ATTENTION_DQ, v->b, h, v->i, v->queries, true);
    if (!diagonal) {
        weigh(s, own, v, 0, v->queries, v->keys, lanes, false, &s->weights[rest_keys][rest_queries],
              &s->along[rest_keys][rest_queries]);
        samba_micro_kernel_run(&s->dv[rest_keys][rest_queries][v->first], v->turned[0], weights, own + s->at[DV]);
        samba_micro_kernel_run(&s->dk[rest_keys][rest_queries][v->first], v->turned[1], gradients, own + s->at[DK]);
        samba_micro_kernel_run(&s->dq[rest_keys][rest_queries][v->first_keys], rows, v->key_rows, sums);
    }
    for (int64_t row = 0; row < v->queries && diagonal; row += STRIP) {
        int64_t count = v->queries - row < STRIP ? v->queries - row : STRIP, seen = row + STRIP < v->keys ? row + STRIP : v->keys;
        int64_t wide = samba_attention_lanes(seen), strip = wide / STRIP - 1;
        weigh(s, own, v, row, count, seen, wide, true, &s->strip_weights[count < STRIP][strip],
              &s->strip_along[count < STRIP][strip]);
        samba_micro_kernel_run(&s->strip_dq[count < STRIP][samba_attention_strips(seen)][v->first_keys],
                               rows + row * BLOCK * samba_attention_half_size(s), v->key_rows, sums + row * d * s->size);
    }
    for (int64_t lane = 0; lane < v->keys && lane < v->queries && diagonal; lane += STRIP) {
        int64_t second = samba_attention_second(s, lane, lane), strip = lane / STRIP;
        int64_t offsets[2]; /* of query `lane` in what is turned */
        for (int i = 0; i < 2; i++)
            offsets[i] = s->half ? lane * 2 : lane * s->parts[i ? SAMBA_ATTENTION_Q : SAMBA_ATTENTION_DOUT].ld * s->size;
        samba_micro_kernel_run(&s->strip_dv[rest_queries][strip][v->first], v->turned[0] + offsets[0], weights + second,
                               own + s->at[DV] + lane * s->size);
        samba_micro_kernel_run(&s->strip_dk[rest_queries][strip][v->first], v->turned[1] + offsets[1], gradients + second,
                               own + s->at[DK] + lane * s->size);
    }
    if (complete)
        samba_attention_write(s, SAMBA_ATTENTION_DQ, v->b, h, v->i, v->queries, sums, d);
}

/* Rows of q or dout as first operands. */
static const char *rows_of(const samba_attention_state *s, char *own, samba_attention_part which, int where, int64_t b,
                           const view *v)
{
    if (!s->half && !s->parts[which].direct)
        return kept_rows(s, own, where, v->g, v->i, s->parts[which].depth);
    return samba_attention_read_product(s, which, b, v->head * s->group + v->g, v->i, v->queries, own + s->at[where]);
}

/* fresh: dq of queries that see the first keys begins with them. */
static void differentiate(const samba_attention_state *s, char *own, int64_t unit, int64_t block, char *dq, bool whole,
                          bool fresh)
{
    view v = {.b = unit / s->attention.hkv,
              .head = unit % s->attention.hkv,
              .j = block * BLOCK,
              .keys = samba_attention_width(s->tk, block),
              .dq = dq,
              .first_keys = fresh && block == 0};
    int64_t b = v.b, head = v.head, j = v.j, d = s->attention.d, dv = s->attention.dv;
    const char *key_rows = NULL, *value_rows = NULL;
    if (s->half) {
        v.key_rows = own + s->at[KEY_PAIRS];
        samba_attention_pair(s, SAMBA_ATTENTION_K, b, head, j, v.keys, (uint16_t *)(own + s->at[KEY_PAIRS]));
    } else {
        v.key_rows = key_rows = samba_attention_read(s, SAMBA_ATTENTION_K, b, head, j, v.keys, own + s->at[KEY_ROWS]);
        value_rows = samba_attention_read(s, SAMBA_ATTENTION_V, b, head, j, v.keys, own + s->at[VALUE_ROWS]);
    }
    samba_attention_turn(s, SAMBA_ATTENTION_K, b, head, j, v.keys, key_rows, own + s->at[KEYS]);
    samba_attention_turn(s, SAMBA_ATTENTION_V, b, head, j, v.keys, value_rows, own + s->at[VALUES]);
    int64_t begin = s->attention.causal ? j : 0;
    /* else queries miss some keys */
    v.first = s->group > 0 && s->tq > begin && (!s->attention.causal || s->tq - begin >= v.keys);
    if (!v.first) {
        memset(own + s->at[DK], 0, (size_t)(d * BLOCK * s->size));
        memset(own + s->at[DV], 0, (size_t)(dv * BLOCK * s->size));
    }
    samba_attention_expect(s, SAMBA_ATTENTION_DK, b, head, j, v.keys, true);
    samba_attention_expect(s, SAMBA_ATTENTION_DV, b, head, j, v.keys, true);
    if (block + 1 < s->blocks) {
        samba_attention_expect(s, SAMBA_ATTENTION_K, b, head, j + BLOCK, samba_attention_width(s->tk, block + 1), false);
        samba_attention_expect(s, SAMBA_ATTENTION_V, b, head, j + BLOCK, samba_attention_width(s->tk, block + 1), false);
    }
    for (v.g = 0; v.g < s->group; v.g++)
        for (v.i = begin; v.i < s->tq; v.i += BLOCK, v.first = false) {
            bool diagonal = s->attention.causal && v.i == j && v.keys > 0;
            v.queries = samba_attention_width(s->tq, v.i / BLOCK);
            v.q = rows_of(s, own, SAMBA_ATTENTION_Q, QUERY_ROWS, b, &v);
            v.dout = rows_of(s, own, SAMBA_ATTENTION_DOUT, DOUT_ROWS, b, &v);
            v.turned[0] = s->half ? own + s->at[DOUT_PAIRS] + pair_offset(s, v.g, v.i, dv) : v.dout;
            v.turned[1] = s->half ? own + s->at[Q_PAIRS] + pair_offset(s, v.g, v.i, d) : v.q;
            step(s, own, &v, diagonal, whole && (diagonal || block == s->blocks - 1));
        }
    samba_attention_write_lanes(s, SAMBA_ATTENTION_DK, b, head, j, v.keys, own + s->at[DK], own + s->at[ROWS]);
    samba_attention_write_lanes(s, SAMBA_ATTENTION_DV, b, head, j, v.keys, own + s->at[DV], own + s->at[ROWS]);
}

static bool has_keys(const samba_attention_state *s) { return s->tk > 0; }

void samba_attention_differentiate_unit(const samba_attention_state *s, char *own, int64_t unit, int64_t next)
{
    char *dq = own + s->at[DQ];
    if (!has_keys(s))
        memset(dq, 0, (size_t)(s->group * s->tq * s->attention.d * s->size));
    load_rows(s, own, unit / s->attention.hkv, unit % s->attention.hkv);
    for (int64_t block = 0; block < s->blocks; block++) {
        samba_attention_expect_unit(s, next, block);
        differentiate(s, own, unit, block, dq, true, has_keys(s));
    }
}

/* ---- few heads: fixed rows of tasks ---- */

static void run_tasks(const samba_attention_state *s, char *own, int thread)
{
    char *dq = NULL;
    int64_t begin = s->begin[thread], end = s->begin[thread + 1], rows = s->group * s->tq;
    for (int64_t task = begin; task < end; task++) {
        int64_t unit = task / s->blocks;
        if (task == begin || task % s->blocks == 0) {
            dq = sums_of(s, own, unit, thread);
            memset(dq, 0, (size_t)(rows * s->attention.d * s->size));
            load_rows(s, own, unit / s->attention.hkv, unit % s->attention.hkv);
        }
        differentiate(s, own, unit, task % s->blocks, dq, !is_split(s, unit, thread), false);
    }
}

static void store_dq(const samba_attention_state *s, int64_t unit, const char *dq, int64_t first, int64_t end)
{
    int64_t b = unit / s->attention.hkv, head = unit % s->attention.hkv;
    for (int64_t row = first; row < end; row++)
        samba_attention_write(s, SAMBA_ATTENTION_DQ, b, head * s->group + row / s->tq, row % s->tq, 1,
                              dq + row * s->attention.d * s->size, s->attention.d);
}

/* Sums of split units, thread by thread, added to those of the first;
 * every thread of the team takes a share of the rows of each. */
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
                                                           sums_of(s, scratch + next * s->thread_bytes, unit, next) + offset,
                                                           NULL, count);
        store_dq(s, unit, total, first, end);
    }
}

void samba_attention_run_shared_grad(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_attention_state *s = (const samba_attention_state *)state;
    if (s->units == 0)
        return;
    if (phase == 0)
        run_tasks(s, scratch + thread * s->thread_bytes, thread);
    else
        combine(s, scratch, thread, threads);
}

/* A thread's row of tasks is a unit. */
static int64_t dealt_units(const void *state, int phase, int threads, bool *free)
{
    const samba_attention_state *s = state;
    (void)phase;
    *free = false;
    return s->units > 0 ? threads : 0;
}

static double dealt_work(const void *state, int phase, int threads, int64_t thread)
{
    const samba_attention_state *s = state;
    double time = 0;
    if (phase == 1) /* each adds its rows of all split heads */
        return (double)s->slot_bytes * (s->units < threads ? (double)s->units : threads) / threads * s->byte;
    for (int64_t task = s->begin[thread]; task < s->begin[thread + 1]; task++)
        time += samba_attention_block_time(s, task % s->blocks);
    return time;
}

static void dealt_moved(const void *state, int threads, samba_moved *moved)
{
    const samba_attention_state *s = state;
    if (s->slots > 1)
        moved->shared = (double)s->slot_bytes * threads;
}

const samba_dealing samba_attention_shared_grad_dealing = {dealt_units, dealt_work, dealt_moved, samba_attention_held};

/* ---- preparing ---- */

/* The cost of the first `count` tasks of a unit: blocks of queries that each meets, and one for its other work. In double: a file
 * may have sizes that no machine could work through. */
static double cost_of(const samba_attention_state *s, int64_t count)
{
    double n = (double)count, queries = (double)query_blocks(s);
    if (!s->attention.causal)
        return n * (1 + queries);
    double whole = fmin(n, queries); /* tasks each of which meets one block less than the last */
    return n + whole * queries - whole * (whole - 1) / 2;
}

/* Cuts all tasks into rows of like cost: a thread begins with the first task that at least its share of the cost comes before. */
static samba_status share_tasks(samba_attention_state *s)
{
    int threads = s->prepare->threads;
    s->begin = samba_arena_alloc(s->prepare->arena, (size_t)(threads + 1) * sizeof *s->begin);
    if (!s->begin)
        return SAMBA_ERROR_MEMORY;
    for (int thread = 0; thread <= threads; thread++) {
        /* units are dealt first: no product is too large */
        int64_t rest = s->units % threads * thread, low = 0, high = s->blocks;
        int64_t unit = s->units / threads * thread + rest / threads;
        double share = (double)(rest % threads) / threads * cost_of(s, s->blocks);
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (cost_of(s, middle) < share)
                low = middle + 1;
            else
                high = middle;
        }
        s->begin[thread] = unit * s->blocks + low;
    }
    return SAMBA_OK;
}

static void make_products(samba_attention_state *s)
{
    int64_t d = s->attention.d, dv = s->attention.dv, q_ld = samba_attention_ld(s, SAMBA_ATTENTION_Q);
    int64_t dout_ld = samba_attention_ld(s, SAMBA_ATTENTION_DOUT), key_ld = s->half ? d : s->parts[SAMBA_ATTENTION_K].ld;
    int64_t lda_dout = s->half ? BLOCK : 1, ska_dout = s->half ? 1 : dout_ld, lda_q = lda_dout, ska_q = s->half ? 1 : q_ld;
    for (int rest_keys = 0; rest_keys < 2; rest_keys++)
        for (int rest_queries = 0; rest_queries < 2; rest_queries++) {
            int64_t keys = rest_keys ? s->tk % BLOCK : BLOCK, queries = rest_queries ? s->tq % BLOCK : BLOCK;
            int64_t lanes = samba_attention_lanes(keys);
            s->weights[rest_keys][rest_queries] = samba_attention_product(s, queries, lanes, d, q_ld, 1, BLOCK, BLOCK, true);
            s->along[rest_keys][rest_queries] = samba_attention_product(s, queries, lanes, dv, dout_ld, 1, BLOCK, BLOCK, true);
            for (int first = 0; first < 2; first++) {
                s->dv[rest_keys][rest_queries][first] =
                    samba_attention_product(s, dv, lanes, queries, lda_dout, ska_dout, BLOCK, BLOCK, first);
                s->dk[rest_keys][rest_queries][first] =
                    samba_attention_product(s, d, lanes, queries, lda_q, ska_q, BLOCK, BLOCK, first);
                s->dq[rest_keys][rest_queries][first] = samba_attention_product(s, queries, d, keys, BLOCK, 1, key_ld, d, first);
            }
        }
    int64_t rest = s->tq % STRIP, keys_rest = s->tk % STRIP ? s->tk % BLOCK : 0;
    for (int rest_queries = 0; rest_queries < 2 && s->attention.causal; rest_queries++)
        for (int strip = 0; strip <= STRIPS; strip++) {
            int64_t rows = rest_queries ? rest : STRIP, keys = strip < STRIPS ? (strip + 1) * STRIP : keys_rest;
            int64_t below = (rest_queries ? s->tq % BLOCK : BLOCK) - strip * STRIP; /* queries that see this strip of keys */
            for (int first = 0; first < 2; first++)
                s->strip_dq[rest_queries][strip][first] = samba_attention_product(s, rows, d, keys, BLOCK, 1, key_ld, d, first);
            if (strip == STRIPS)
                continue;
            s->strip_weights[rest_queries][strip] = samba_attention_product(s, rows, keys, d, q_ld, 1, BLOCK, BLOCK, true);
            s->strip_along[rest_queries][strip] = samba_attention_product(s, rows, keys, dv, dout_ld, 1, BLOCK, BLOCK, true);
            for (int first = 0; first < 2 && below > 0; first++) {
                s->strip_dv[rest_queries][strip][first] =
                    samba_attention_product(s, dv, STRIP, below, lda_dout, ska_dout, BLOCK, BLOCK, first);
                s->strip_dk[rest_queries][strip][first] =
                    samba_attention_product(s, d, STRIP, below, lda_q, ska_q, BLOCK, BLOCK, first);
            }
        }
}

samba_status samba_attention_prepare_grad(samba_attention_state *s)
{
    const samba_attention_rows *parts = s->parts;
    int64_t d = s->attention.d, dv = s->attention.dv, deeper = d > dv ? d : dv;
    if (s->units == 0)
        return SAMBA_OK;
    if (s->portion == 0)
        SAMBA_TRY(share_tasks(s));
    make_products(s);
    samba_attention_reserve(s, KEYS, samba_attention_even(d) * BLOCK);
    samba_attention_reserve(s, VALUES, samba_attention_even(dv) * BLOCK);
    samba_attention_reserve(s, KEY_ROWS, parts[SAMBA_ATTENTION_K].direct ? 0 : d * BLOCK);
    samba_attention_reserve(s, VALUE_ROWS, parts[SAMBA_ATTENTION_V].direct ? 0 : dv * BLOCK);
    int64_t rows = s->group * s->tq, sums, pairs = 0, query_rows = samba_attention_even(d) * BLOCK,
            dout_rows = samba_attention_even(dv) * BLOCK; /* of pairs those of a block */
    if (!s->half)
        s->fits = s->fits && samba_mul_checked(parts[SAMBA_ATTENTION_Q].direct ? 0 : d, rows, &query_rows) &&
                  samba_mul_checked(parts[SAMBA_ATTENTION_DOUT].direct ? 0 : dv, rows, &dout_rows);
    samba_attention_reserve(s, QUERY_ROWS, query_rows);
    samba_attention_reserve(s, DOUT_ROWS, dout_rows);
    samba_attention_reserve(s, OUT_ROWS, parts[SAMBA_ATTENTION_RESULT].direct ? 0 : dv * BLOCK);
    samba_attention_reserve(s, SCORES, BLOCK * BLOCK);
    samba_attention_reserve(s, ALONG, BLOCK * BLOCK);
    samba_attention_reserve(s, DK, d * BLOCK);
    samba_attention_reserve(s, DV, dv * BLOCK);
    samba_attention_reserve(s, ROWS, deeper * BLOCK);
    samba_attention_reserve(s, MASK_ROWS, s->attention.masked ? BLOCK * BLOCK : 0);
    samba_attention_reserve(s, KEPT, s->attention.dropout ? BLOCK * BLOCK : 0);
    samba_attention_reserve(s, DRAWN, BLOCK);
    if (s->half) {
        int64_t blocks;
        s->fits = s->fits && samba_mul_checked(s->group, query_blocks(s), &blocks) &&
                  samba_mul_checked(blocks, deeper * (BLOCK / 2), &pairs);
        samba_attention_reserve(s, KEY_PAIRS, samba_attention_even(d) * BLOCK);
        samba_attention_reserve(s, P_PAIRS, BLOCK * BLOCK / 2);
        samba_attention_reserve(s, DS_PAIRS, BLOCK * BLOCK / 2);
        samba_attention_reserve(s, DS_HALVES, BLOCK * BLOCK / 2);
        samba_attention_reserve(s, Q_PAIRS, pairs);
        samba_attention_reserve(s, DOUT_PAIRS, pairs);
    }
    samba_attention_reserve(s, ROW, 2 * rows);
    s->fits = s->fits && samba_mul_checked(rows, d, &sums);
    if (!s->fits)
        return SAMBA_OK;
    s->slots = 1;
    for (int thread = 1; thread < s->prepare->threads && s->portion == 0; thread++)
        if (s->begin[thread] % s->blocks != 0)
            s->slots = 2;
    int64_t before = s->thread_bytes;
    samba_attention_reserve(s, DQ, sums);
    s->slot_bytes = s->thread_bytes - before;
    if (s->slots > 1)
        s->fits = s->fits && samba_add_checked(s->thread_bytes, s->slot_bytes, &s->thread_bytes);
    return SAMBA_OK;
}
