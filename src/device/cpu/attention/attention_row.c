/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of one query, for generating a token: scores are products of the query with rows of k, results a sum of rows of v
 * (rows.h), each read once where it lies. Blocks of keys that the mask hides are not read, so a cache costs only its written
 * part. Neighbouring blocks that the mask shows are read as one run, since memory is slow to begin with. */
#include "device/cpu/attention/attention.h"
#include "device/cpu/product/rows.h"

#include <math.h>
#include <string.h>

enum { BLOCK = SAMBA_ATTENTION_BLOCK };
enum { QUERY, SCORES, SUMS, ADDED, SHOWN }; /* scratch: state->at; the last: a byte of each block */

static const char *element(const samba_attention_rows *part, int64_t b, int64_t head, int64_t row)
{
    return part->data + (b * part->strides[0] + head * part->strides[1] + row * part->strides[2]) * part->size;
}

/* The mask's addends to scores of keys from j on; the number of keys up to the last that it shows. */
static int64_t read_mask(const samba_attention_state *s, int64_t b, int64_t h, int64_t j, int64_t keys, float *added)
{
    const samba_attention_rows *mask = &s->parts[SAMBA_ATTENTION_MASK];
    const char *from = element(mask, b, h, 0) + j * mask->strides[3] * mask->size;
    uint64_t words[BLOCK / 8] = {0}, any = 0;
    if (mask->dtype == SAMBA_BOOL && mask->strides[3] == 1) { /* most of a cache is hidden: eight keys at a time */
        memcpy(words, from, (size_t)keys);
        for (int i = 0; i < BLOCK / 8; i++)
            any |= words[i];
        if (any == 0)
            return 0;
    }
    if (mask->dtype == SAMBA_BOOL)
        s->tiles->admit[SAMBA_F32](added, (const uint8_t *)from, mask->strides[3], keys);
    else if (mask->strides[3] == 1)
        s->kernels->load[mask->dtype](added, from, keys);
    else
        s->kernels->load_strided[mask->dtype](added, from, mask->strides[3], keys);
    while (keys > 0 && added[keys - 1] == -INFINITY)
        keys--;
    return keys;
}

typedef struct run {    /* of keys; but for its end the mask hides no whole block of them */
    int64_t from, keys; /* 0 keys: there is none */
} run;

/* The first in blocks from `block` on. */
static run next_run(const samba_attention_state *s, const uint8_t *shown, int64_t block)
{
    const int64_t blocks = (s->tk + BLOCK - 1) / BLOCK;
    while (block < blocks && shown[block] == 0)
        block++;
    int64_t last = block;
    while (last + 1 < blocks && shown[last] == BLOCK && shown[last + 1] > 0)
        last++;
    return (run){block * BLOCK, block < blocks ? (last - block) * BLOCK + shown[last] : 0};
}

#define EACH_RUN(r) (run r = next_run(s, shown, 0); r.keys > 0; r = next_run(s, shown, (r.from + r.keys + BLOCK - 1) / BLOCK))

void samba_attention_attend_one(const samba_attention_state *s, char *own, int64_t unit)
{
    const samba_rows *rows = s->kernels->rows;
    const samba_attention_rows *q = &s->parts[SAMBA_ATTENTION_Q], *k = &s->parts[SAMBA_ATTENTION_K],
                               *v = &s->parts[SAMBA_ATTENTION_V];
    const samba_attention_rows *result = &s->parts[SAMBA_ATTENTION_RESULT], *lse = &s->parts[SAMBA_ATTENTION_LSE];
    const int64_t b = unit / s->h, h = unit % s->h;
    char *query = own + s->at[QUERY];
    float *scores = (float *)(own + s->at[SCORES]), *sums = (float *)(own + s->at[SUMS]), *added = (float *)(own + s->at[ADDED]);
    float greatest = -INFINITY; /* NaN is passed on */
    const bool masked = s->parts[SAMBA_ATTENTION_MASK].data;
    uint8_t *shown = (uint8_t *)own + s->at[SHOWN]; /* of a block: keys up to the last one that is seen */
    double total = 0;
    for (int64_t i = 0; i < s->attention.d; i++)
        memcpy(query + i * q->size, element(q, b, h, 0) + i * q->strides[3] * q->size, (size_t)q->size);
    for (int64_t block = 0; block * BLOCK < s->tk; block++) {
        int64_t keys = samba_attention_width(s->tk, block);
        shown[block] = (uint8_t)(masked ? read_mask(s, b, h, block * BLOCK, keys, added + block * BLOCK) : keys);
    }
    for
        EACH_RUN(r)
        {
            rows->dots[k->dtype == SAMBA_BFLOAT16](query, element(k, b, h / s->group, r.from), k->strides[2], r.keys,
                                                   s->attention.d, scores + r.from);
            for (int64_t i = r.from; i < r.from + r.keys; i++)
                scores[i] = scores[i] * (float)s->attention.scale + (masked ? added[i] : 0);
            s->kernels->reduce_amax[SAMBA_F32](&greatest, scores + r.from, 1, r.keys, false);
        }
    memset(sums, 0, (size_t)s->attention.dv * sizeof *sums);
    for
        EACH_RUN(r)
        {
            float *weights = scores + r.from;
            if (greatest == -INFINITY)
                break;
            for (int64_t i = 0; i < r.keys; i++)
                weights[i] -= greatest;
            s->kernels->map[SAMBA_TILE_exp][SAMBA_F32](weights, weights, NULL, NULL, r.keys);
            total += s->kernels->total_f32(weights, r.keys);
            if (result->data)
                rows->sums[v->dtype == SAMBA_BFLOAT16](weights, element(v, b, h / s->group, r.from), v->strides[2], r.keys,
                                                       s->attention.dv, sums);
        }
    if (lse->data) {
        float value = total == 0 ? -INFINITY : (float)(log(total) + (double)greatest);
        s->kernels->store[lse->dtype]((char *)(uintptr_t)element(lse, b, h, 0), &value, 1);
    }
    if (!result->data)
        return;
    for (int64_t i = 0; i < s->attention.dv && total != 0; i++)
        sums[i] = (float)(sums[i] / total);
    if (result->strides[3] == 1)
        s->kernels->store[result->dtype]((char *)(uintptr_t)element(result, b, h, 0), sums, s->attention.dv);
    else
        s->kernels->store_strided[result->dtype]((char *)(uintptr_t)element(result, b, h, 0), sums, result->strides[3],
                                                 s->attention.dv);
}

static bool lies(const samba_attention_rows *part)
{
    return (part->dtype == SAMBA_FLOAT32 || part->dtype == SAMBA_BFLOAT16) && part->strides[3] == 1 && part->strides[2] >= 0;
}

bool samba_attention_is_one(const samba_attention_state *s)
{
    const samba_attention_rows *q = &s->parts[SAMBA_ATTENTION_Q], *k = &s->parts[SAMBA_ATTENTION_K],
                               *v = &s->parts[SAMBA_ATTENTION_V];
    return !s->attention.gradient && !s->attention.causal && !s->attention.dropout && s->class_ == SAMBA_F32 && s->tq == 1 &&
           s->attention.d > 0 && s->attention.dv > 0 && q->dtype == k->dtype && lies(k) && lies(v);
}

void samba_attention_prepare_one(samba_attention_state *s)
{
    samba_attention_reserve(s, QUERY, s->attention.d);
    samba_attention_reserve(s, SCORES, s->tk);
    samba_attention_reserve(s, SUMS, s->attention.dv);
    samba_attention_reserve(s, ADDED, s->parts[SAMBA_ATTENTION_MASK].data ? s->tk : 0);
    samba_attention_reserve(s, SHOWN, (s->tk + BLOCK - 1) / BLOCK);
}
