/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention block by block, forward (Dao, Fu, Ermon, Rudra, Re: "FlashAttention", 2022; here for caches of a CPU). For 64 queries, keys
 * pass in blocks of 64: scores, softmax as far as it is known, results so far rescaled and added to. Only scratch that stays in the
 * nearest caches holds scores.
 *
 * All is computed with queries side by side in the lanes of vectors: scores are k q^T, results v^T p. So the softmax goes on from key to
 * key in each lane, without sums across lanes, and rows of k and v are used where they lie, as the side of a product of which each element
 * is read once and spread. Only queries are turned, once a block. Blocks that the causal rule hides are never looked at. */
#include "kernels/cpu/attention.h"
#include <limits.h>
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <libxsmm.h>
#endif

enum { BLOCK = SAMBA_ATTENTION_BLOCK, HALF = BLOCK / 2 };
enum { QUERIES, SCORES, SUMS, KEY_ROWS, VALUE_ROWS, ROWS, MASK_ROWS, TURNED, DRAWN, GREATEST, TOTAL, ALPHA }; /* scratch: state->at */

/* ---- products ---- */

#if defined(__x86_64__)
static void make_kernel(samba_product *p)
{
    bool turned = p->ska != 1;
    int64_t row_ld = turned ? p->ska : p->lda;
    if (p->rows < 1 || p->cols < 1 || p->depth < 1 || row_ld < (turned ? p->rows : p->depth) || (turned && p->lda != 1) || row_ld > INT_MAX / 8 ||
        p->ldb > INT_MAX / 8 || p->ldc > INT_MAX / 8)
        return;
    int ldb = (int)p->ldb, lda = (int)row_ld, ldc = (int)p->ldc, flags = turned ? LIBXSMM_GEMM_FLAG_TRANS_B : 0;
    float alpha = 1, beta = p->first ? 0 : 1;
    double wide_alpha = 1, wide_beta = p->first ? 0 : 1;
    if (p->wide)
        p->f64 = libxsmm_dmmdispatch((int)p->cols, (int)p->rows, (int)p->depth, &ldb, &lda, &ldc, &wide_alpha, &wide_beta, &flags, NULL);
    else
        p->f32 = libxsmm_smmdispatch((int)p->cols, (int)p->rows, (int)p->depth, &ldb, &lda, &ldc, &alpha, &beta, &flags, NULL);
}
#endif

samba_product samba_product_new(const samba_prepare *prepare, bool wide, int64_t rows, int64_t cols, int64_t depth, int64_t lda, int64_t ska,
                                int64_t ldb, int64_t ldc, bool first)
{
    samba_product product = {.kernels = prepare->kernels, .rows = rows, .cols = cols, .depth = depth, .lda = lda, .ska = ska, .ldb = ldb,
                             .ldc = ldc, .wide = wide, .first = first};
#if defined(__x86_64__)
    if (prepare->use_libxsmm)
        make_kernel(&product);
#endif
    return product;
}

void samba_product_run(const samba_product *p, const void *a, const void *b, void *c)
{
    if (p->f32)
        p->f32((const float *)b, (const float *)a, (float *)c);
    else if (p->f64)
        p->f64((const double *)b, (const double *)a, (double *)c);
    else if (p->wide)
        p->kernels->block_f64((const double *)a, p->lda, p->ska, (const double *)b, p->ldb, (double *)c, p->ldc, p->rows, p->cols, p->depth,
                              p->first);
    else
        p->kernels->block_f32((const float *)a, p->lda, p->ska, (const float *)b, p->ldb, (float *)c, p->ldc, p->rows, p->cols, p->depth,
                              p->first);
}

/* ---- operands ---- */

static char *row_at(const samba_attention_rows *part, int64_t b, int64_t head, int64_t row)
{
    return part->data + (b * part->strides[0] + head * part->strides[1] + row * part->strides[2]) * part->size;
}

const void *samba_attention_read(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head, int64_t first,
                                 int64_t count, void *room)
{
    const samba_attention_rows *part = &s->parts[which];
    if (part->direct)
        return row_at(part, b, head, first);
    for (int64_t i = 0; i < count; i++) {
        char *to = (char *)room + i * part->depth * s->size;
        if (part->strides[3] == 1)
            s->kernels->load[part->dtype](to, row_at(part, b, head, first + i), part->depth);
        else
            s->kernels->load_strided[part->dtype](to, row_at(part, b, head, first + i), part->strides[3], part->depth);
    }
    return room;
}

void samba_attention_write(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head, int64_t first, int64_t count,
                           const void *rows, int64_t ld)
{
    const samba_attention_rows *part = &s->parts[which];
    for (int64_t i = 0; i < count; i++) {
        const char *from = (const char *)rows + i * ld * s->size;
        if (part->strides[3] == 1)
            s->kernels->store[part->dtype](row_at(part, b, head, first + i), from, part->depth);
        else
            s->kernels->store_strided[part->dtype](row_at(part, b, head, first + i), from, part->strides[3], part->depth);
    }
}

void samba_attention_expect(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head, int64_t first, int64_t count,
                            bool write)
{
    const samba_attention_rows *part = &s->parts[which];
    if (!part->direct)
        return;
    for (int64_t i = 0; i < count; i++) {
        const char *row = row_at(part, b, head, first + i);
        for (int64_t at = 0; at < part->depth * part->size; at += SAMBA_ALIGNMENT)
            if (write)
                __builtin_prefetch(row + at, 1, 2);
            else
                __builtin_prefetch(row + at, 0, 2);
    }
}

const void *samba_attention_mask(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t j, int64_t keys,
                                 void *room)
{
    const samba_attention_rows *mask = &s->parts[SAMBA_ATTENTION_MASK];
    if (!mask->data)
        return NULL;
    for (int64_t r = 0; r < queries; r++) {
        const char *from = row_at(mask, b, h, i + r) + j * mask->strides[3] * mask->size;
        char *to = (char *)room + r * BLOCK * s->size;
        if (r > 0 && mask->strides[2] == 0)
            memcpy(to, room, (size_t)(keys * s->size));
        else if (mask->dtype == SAMBA_BOOL)
            s->tiles->admit[s->class_](to, (const uint8_t *)from, mask->strides[3], keys);
        else if (mask->strides[3] == 1)
            s->kernels->load[mask->dtype](to, from, keys);
        else
            s->kernels->load_strided[mask->dtype](to, from, mask->strides[3], keys);
    }
    return room;
}

const void *samba_attention_kept(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t j, int64_t keys,
                                 void *room, float *drawn)
{
    if (!s->parts[SAMBA_ATTENTION_P].data)
        return NULL;
    double p = *(const double *)s->parts[SAMBA_ATTENTION_P].data;
    uint64_t seed = *(const uint64_t *)s->parts[SAMBA_ATTENTION_SEED].data;
    for (int64_t r = 0; r < queries; r++) {
        s->kernels->random(drawn, seed, (uint64_t)(((b * s->h + h) * s->tq + i + r) * s->tk + j), keys);
        s->tiles->keep[s->class_]((char *)room + r * BLOCK * s->size, drawn, (float)p, 1 / (1 - p), keys);
    }
    return room;
}

/* ---- forward ---- */

static void turn(const samba_attention_state *s, void *d, int64_t ldd, const void *from, int64_t lds, int64_t rows, int64_t cols)
{
    (s->class_ == SAMBA_F32 ? s->kernels->transpose4 : s->kernels->transpose8)(d, ldd, from, lds, rows, cols);
}

/* Queries as lanes, times the scale; lanes without a query hold 0. */
static void load_queries(const samba_attention_state *s, char *own, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t lanes)
{
    const samba_attention_rows *q = &s->parts[SAMBA_ATTENTION_Q];
    char *turned = own + s->at[QUERIES];
    const void *rows = samba_attention_read(s, SAMBA_ATTENTION_Q, b, h, i, queries, own + s->at[ROWS]);
    turn(s, turned, BLOCK, rows, q->ld, queries, q->depth);
    for (int64_t d = 0; d < q->depth && lanes > queries; d++)
        memset(turned + (d * BLOCK + queries) * s->size, 0, (size_t)((lanes - queries) * s->size));
    s->tiles->scale[s->class_](turned, s->attention.scale, q->depth * BLOCK);
}

/* Scores of keys that come after a query are -infinity. */
static void hide_later_keys(const samba_attention_state *s, char *scores, int64_t i, int64_t lanes, int64_t j, int64_t keys)
{
    const double hidden = -INFINITY;
    const float hidden_f32 = -INFINITY;
    const void *value = s->class_ == SAMBA_F32 ? (const void *)&hidden_f32 : (const void *)&hidden;
    for (int64_t k = 0; k < keys; k++) {
        int64_t count = j + k - i; /* lanes before it */
        count = count < lanes ? count : lanes;
        if (count > 0)
            s->kernels->fill[s->class_](scores + k * BLOCK * s->size, value, count);
    }
}

static void store_results(const samba_attention_state *s, char *own, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t lanes)
{
    const samba_attention_rows *result = &s->parts[SAMBA_ATTENTION_RESULT], *lse = &s->parts[SAMBA_ATTENTION_LSE];
    char *greatest = own + s->at[GREATEST], *total = own + s->at[TOTAL], *alpha = own + s->at[ALPHA];
    if (lse->data) { /* -infinity where nothing was seen: greatest and log(0) both are */
        s->kernels->map[SAMBA_TILE_log][s->class_](alpha, total, NULL, NULL, queries);
        s->kernels->map[SAMBA_TILE_add][s->class_](alpha, alpha, greatest, NULL, queries);
        s->kernels->store_strided[lse->dtype](row_at(lse, b, h, i), alpha, lse->strides[2], queries);
    }
    if (!result->data)
        return;
    for (int64_t r = 0; r < queries; r++)
        if (s->class_ == SAMBA_F32)
            ((float *)alpha)[r] = ((float *)total)[r] == 0 ? 0 : 1 / ((float *)total)[r];
        else
            ((double *)alpha)[r] = ((double *)total)[r] == 0 ? 0 : 1 / ((double *)total)[r];
    s->tiles->scale_columns[s->class_](own + s->at[SUMS], alpha, result->depth, lanes);
    turn(s, own + s->at[ROWS], result->depth, own + s->at[SUMS], BLOCK, result->depth, queries);
    samba_attention_write(s, SAMBA_ATTENTION_RESULT, b, h, i, queries, own + s->at[ROWS], result->depth);
}

/* What the next block of queries will be the first to read. */
static void expect_next(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t end)
{
    int64_t next = i + BLOCK, queries = next < s->tq ? samba_attention_width(s->tq, next / BLOCK) : 0;
    samba_attention_expect(s, SAMBA_ATTENTION_Q, b, h, next, queries, false);
    if (!s->attention.causal || end >= s->tk)
        return;
    int64_t keys = samba_attention_width(s->tk, end / BLOCK);
    samba_attention_expect(s, SAMBA_ATTENTION_K, b, h / s->group, end, keys, false);
    samba_attention_expect(s, SAMBA_ATTENTION_V, b, h / s->group, end, keys, false);
}

/* Queries from i on, `lane` the first one's, look at keys from j on; first: as the first keys that they see. */
static void look(const samba_attention_state *s, char *own, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t lane, int64_t j,
                 int64_t keys, bool first)
{
    int64_t head = h / s->group, lanes = samba_attention_lanes(queries), at = lane * s->size;
    int of_keys = samba_attention_kind(keys), of_queries = samba_attention_kind(queries);
    char *scores = own + s->at[SCORES], *sums = own + s->at[SUMS] + at, *turned = own + s->at[TURNED], *alpha = own + s->at[ALPHA] + at;
    samba_product_run(&s->scores[of_keys][of_queries], samba_attention_read(s, SAMBA_ATTENTION_K, b, head, j, keys, own + s->at[KEY_ROWS]),
                      own + s->at[QUERIES] + at, scores);
    const void *mask = samba_attention_mask(s, b, h, i, queries, j, keys, own + s->at[MASK_ROWS]);
    if (mask) {
        turn(s, turned, BLOCK, mask, BLOCK, queries, keys);
        mask = turned;
    }
    if (s->attention.causal && j + keys > i + 1)
        hide_later_keys(s, scores, i, lanes, j, keys);
    s->tiles->weigh[s->class_](scores, mask, keys, lanes, own + s->at[GREATEST] + at, own + s->at[TOTAL] + at, alpha);
    if (!s->parts[SAMBA_ATTENTION_RESULT].data)
        return;
    const void *kept = samba_attention_kept(s, b, h, i, queries, j, keys, own + s->at[MASK_ROWS], (float *)(own + s->at[DRAWN]));
    if (kept) {
        turn(s, turned, BLOCK, kept, BLOCK, queries, keys);
        s->kernels->map[SAMBA_TILE_mul][s->class_](scores, scores, turned, NULL, keys * BLOCK);
    }
    if (!first)
        s->tiles->scale_columns[s->class_](sums, alpha, s->attention.dv, lanes);
    samba_product_run(&s->values[of_keys][of_queries][first],
                      samba_attention_read(s, SAMBA_ATTENTION_V, b, head, j, keys, own + s->at[VALUE_ROWS]), scores, sums);
}

static void attend(const samba_attention_state *s, char *own, int64_t b, int64_t h, int64_t block)
{
    int64_t i = block * BLOCK, queries = samba_attention_width(s->tq, block), lanes = samba_attention_lanes(queries);
    int64_t end = s->attention.causal && i + queries < s->tk ? i + queries : s->tk;
    const double none = -INFINITY;
    const float none_f32 = -INFINITY;
    load_queries(s, own, b, h, i, queries, lanes);
    expect_next(s, b, h, i, end);
    s->kernels->fill[s->class_](own + s->at[GREATEST], s->class_ == SAMBA_F32 ? (const void *)&none_f32 : (const void *)&none, BLOCK);
    memset(own + s->at[TOTAL], 0, (size_t)(BLOCK * s->size));
    if (end == 0)
        memset(own + s->at[SUMS], 0, (size_t)(s->attention.dv * BLOCK * s->size));
    for (int64_t j = 0; j < end; j += BLOCK) {
        int64_t keys = samba_attention_width(s->tk, j / BLOCK);
        bool halves = samba_attention_halves(s, i, queries, j, keys);
        look(s, own, b, h, i, queries, 0, j, halves ? HALF : keys, j == 0);
        if (halves)
            look(s, own, b, h, i + HALF, HALF, HALF, j + HALF, HALF, false);
    }
    store_results(s, own, b, h, i, queries, lanes);
}

static void run(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_attention_state *s = (const samba_attention_state *)state;
    (void)phase, (void)threads;
    for (int64_t task = s->begin[thread]; task < s->begin[thread + 1]; task++) {
        int64_t unit = task / s->blocks;
        attend(s, scratch + thread * s->thread_bytes, unit / s->h, unit % s->h, task % s->blocks);
    }
}

/* ---- preparing ---- */

void samba_attention_reserve(samba_attention_state *s, int64_t place, int64_t n)
{
    int64_t bytes;
    s->at[place] = s->thread_bytes;
    s->fits = s->fits && samba_mul_checked(n, s->size, &bytes) && samba_add_checked(bytes, SAMBA_ALIGNMENT - 1, &bytes) &&
              samba_add_checked(s->thread_bytes, bytes / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT, &s->thread_bytes);
}

static void resolve(const samba_prepare *prepare, const samba_stage *stage, samba_attention_state *s)
{
    int32_t places[SAMBA_ATTENTION_PARTS];
    samba_attention_places(&stage->attention, places);
    for (int i = 0; i < SAMBA_ATTENTION_PARTS; i++) {
        samba_attention_rows *part = &s->parts[i];
        if (places[i] < 0)
            continue;
        const samba_operand *operand = &stage->operands[places[i]];
        int64_t sizes[4];
        samba_attention_sizes(stage, (samba_attention_part)i, sizes);
        part->dtype = (samba_dtype)operand->dtype;
        part->size = (int64_t)samba_dtype_size(part->dtype);
        part->data = prepare->memory + prepare->buffers[operand->buffer].offset + operand->offset * part->size;
        part->depth = sizes[3];
        memcpy(part->strides, operand->strides, sizeof part->strides);
        part->direct = part->dtype == (s->class_ == SAMBA_F32 ? SAMBA_FLOAT32 : SAMBA_FLOAT64) && part->strides[3] == 1 &&
                       part->strides[2] >= part->depth;
        part->ld = part->direct ? part->strides[2] : part->depth;
    }
}

/* What the first `count` tasks of a unit cost: blocks of the other side that each meets, and one for what it does besides. In double: a
 * file may have sizes that no machine could work through. */
static double cost_of(const samba_attention_state *s, int64_t count)
{
    double n = (double)count, keys = (double)((s->tk + BLOCK - 1) / BLOCK), queries = (double)((s->tq + BLOCK - 1) / BLOCK);
    if (!s->attention.causal)
        return n * (1 + (s->attention.gradient ? queries : keys));
    double whole = fmin(n, s->attention.gradient ? queries : keys); /* tasks each of which meets one block more, or less, than the last */
    if (s->attention.gradient)
        return n + whole * queries - whole * (whole - 1) / 2;
    return n + whole * (whole + 1) / 2 + (n - whole) * keys;
}

/* Cuts all tasks into rows of like cost: a thread begins with the first task that at least its share of the cost comes before. */
static samba_status share_tasks(const samba_prepare *prepare, samba_attention_state *s)
{
    s->begin = samba_arena_alloc(prepare->arena, (size_t)(prepare->threads + 1) * sizeof *s->begin);
    if (!s->begin)
        return SAMBA_ERROR_MEMORY;
    for (int thread = 0; thread <= prepare->threads; thread++) {
        int64_t rest = s->units % prepare->threads * thread, low = 0, high = s->blocks; /* units are dealt first: no product is too large */
        int64_t unit = s->units / prepare->threads * thread + rest / prepare->threads;
        double share = (double)(rest % prepare->threads) / prepare->threads * cost_of(s, s->blocks);
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

static void prepare_forward(const samba_prepare *prepare, samba_attention_state *s)
{
    const samba_attention_rows *k = &s->parts[SAMBA_ATTENTION_K], *v = &s->parts[SAMBA_ATTENTION_V];
    int64_t d = s->attention.d, dv = s->attention.dv;
    for (int of_keys = 0; of_keys < 3; of_keys++)
        for (int of_queries = 0; of_queries < 3; of_queries++) {
            int64_t keys = samba_attention_extent(of_keys, s->tk), lanes = samba_attention_lanes(samba_attention_extent(of_queries, s->tq));
            if (!samba_attention_meet(s, of_keys, of_queries))
                continue;
            s->scores[of_keys][of_queries] = samba_product_new(prepare, s->class_ == SAMBA_F64, keys, lanes, d, k->ld, 1, BLOCK, BLOCK, true);
            for (int first = 0; first < 2; first++)
                s->values[of_keys][of_queries][first] =
                    samba_product_new(prepare, s->class_ == SAMBA_F64, dv, lanes, keys, 1, v->ld, BLOCK, BLOCK, first);
        }
    bool extra = s->attention.masked || s->attention.dropout;
    int64_t deeper = d > dv ? d : dv;
    samba_attention_reserve(s, QUERIES, d * BLOCK);
    samba_attention_reserve(s, SCORES, BLOCK * BLOCK);
    samba_attention_reserve(s, SUMS, dv * BLOCK);
    samba_attention_reserve(s, KEY_ROWS, k->direct ? 0 : d * BLOCK);
    samba_attention_reserve(s, VALUE_ROWS, v->direct ? 0 : dv * BLOCK);
    samba_attention_reserve(s, ROWS, deeper * BLOCK);
    samba_attention_reserve(s, MASK_ROWS, extra ? BLOCK * BLOCK : 0);
    samba_attention_reserve(s, TURNED, extra ? BLOCK * BLOCK : 0);
    for (int place = DRAWN; place <= ALPHA; place++)
        samba_attention_reserve(s, place, BLOCK);
}

static const samba_attention_tiles *tiles_for(samba_isa isa)
{
#if defined(__x86_64__)
    if (isa == SAMBA_ISA_AVX512)
        return &samba_attention_tiles_avx512;
    if (isa == SAMBA_ISA_AVX2)
        return &samba_attention_tiles_avx2;
#endif
    (void)isa;
    return &samba_attention_tiles_generic;
}

samba_status samba_prepare_attention(const samba_prepare *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    samba_attention_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    *s = (samba_attention_state){.attention = stage->attention, .kernels = prepare->kernels, .tiles = tiles_for(prepare->kernels->isa),
                                 .b = stage->domain[0], .h = stage->domain[1], .tq = stage->domain[2], .tk = stage->domain[3], .fits = true};
    s->class_ = (int)samba_class_of((samba_dtype)stage->operands[SAMBA_ATTENTION_Q].dtype);
    s->size = s->class_ == SAMBA_F32 ? 4 : 8;
    s->group = s->attention.hkv > 0 ? s->h / s->attention.hkv : 1;
    resolve(prepare, stage, s);
    bool gradient = s->attention.gradient;
    s->units = s->b * (gradient ? s->attention.hkv : s->h);
    s->blocks = ((gradient ? s->tk : s->tq) + BLOCK - 1) / BLOCK;
    if (gradient && s->blocks == 0)
        s->blocks = 1; /* no keys: dq is 0, and has to be written */
    SAMBA_TRY(share_tasks(prepare, s));
    *prepared = (samba_prepared){.run = run, .state = s, .phases = 1};
    if (gradient) {
        SAMBA_TRY(samba_attention_prepare_grad(prepare, s));
        prepared->run = samba_attention_run_grad;
        prepared->phases = s->slots > 1 ? 2 : 1;
    } else if (s->units > 0 && s->blocks > 0) {
        prepare_forward(prepare, s);
    }
    prepared->thread_scratch = s->thread_bytes;
    return s->fits ? SAMBA_OK
                   : samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED, "stage %s: a block needs more scratch than this machine can address",
                                stage->name);
}
