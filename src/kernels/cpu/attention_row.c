/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of one query, as generating a token asks for it: scores are products of the query with rows of k, results a sum of rows of v (rows.h), each
 * read once where it lies. Blocks of keys that the mask hides are not read, so a cache costs what has been written of it. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/rows.h"

#include <math.h>
#include <string.h>

enum { BLOCK = SAMBA_ATTENTION_BLOCK };
enum { QUERY, SCORES, SUMS, ADDED, GREATEST }; /* scratch: state->at; the last: of each block */

static const char *element(const samba_attention_rows *part, int64_t b, int64_t head, int64_t row)
{
    return part->data + (b * part->strides[0] + head * part->strides[1] + row * part->strides[2]) * part->size;
}

static void load(const samba_attention_state *s, const samba_attention_rows *part, int64_t b, int64_t head, float *to)
{
    if (part->strides[3] == 1)
        s->kernels->load[part->dtype](to, element(part, b, head, 0), part->depth);
    else
        s->kernels->load_strided[part->dtype](to, element(part, b, head, 0), part->strides[3], part->depth);
}

/* What the mask adds to scores of keys from j on; whether it shows any of them. */
static bool read_mask(const samba_attention_state *s, int64_t b, int64_t h, int64_t j, int64_t keys, float *added)
{
    const samba_attention_rows *mask = &s->parts[SAMBA_ATTENTION_MASK];
    const char *from = element(mask, b, h, 0) + j * mask->strides[3] * mask->size;
    bool shown = false;
    uint64_t words[BLOCK / 8] = {0}, any = 0;
    if (mask->dtype == SAMBA_BOOL && mask->strides[3] == 1) { /* most of a cache is hidden: eight keys at a time */
        memcpy(words, from, (size_t)keys);
        for (int i = 0; i < BLOCK / 8; i++)
            any |= words[i];
        if (any == 0)
            return false;
    }
    if (mask->dtype == SAMBA_BOOL) {
        for (int64_t i = 0; i < keys; i++) {
            bool seen = ((const uint8_t *)from)[i * mask->strides[3]] != 0;
            added[i] = seen ? 0 : -INFINITY;
            shown = shown || seen;
        }
        return shown;
    }
    if (mask->strides[3] == 1)
        s->kernels->load[mask->dtype](added, from, keys);
    else
        s->kernels->load_strided[mask->dtype](added, from, mask->strides[3], keys);
    for (int64_t i = 0; i < keys; i++)
        shown = shown || !(added[i] == -INFINITY);
    return shown;
}

/* Scores of a block; the greatest, -infinity where none is seen. NaN is passed on. */
static float score(const samba_attention_state *s, const samba_rows *rows, char *own, int64_t b, int64_t h, int64_t j, int64_t keys)
{
    const samba_attention_rows *k = &s->parts[SAMBA_ATTENTION_K];
    float *scores = (float *)(own + s->at[SCORES]) + j, *added = (float *)(own + s->at[ADDED]), greatest = -INFINITY;
    bool masked = s->parts[SAMBA_ATTENTION_MASK].data;
    if (masked && !read_mask(s, b, h, j, keys, added))
        return -INFINITY;
    rows->dots[k->dtype == SAMBA_BFLOAT16]((const float *)(own + s->at[QUERY]), element(k, b, h / s->group, j), k->strides[2], keys, s->attention.d, scores);
    for (int64_t i = 0; i < keys && masked; i++)
        scores[i] += added[i];
    for (int64_t i = 0; i < keys; i++)
        greatest = scores[i] > greatest || scores[i] != scores[i] ? scores[i] : greatest;
    return greatest;
}

void samba_attention_attend_one(const samba_attention_state *s, char *own, int64_t unit)
{
    const samba_rows *rows = samba_rows_for(s->kernels->isa);
    const samba_attention_rows *v = &s->parts[SAMBA_ATTENTION_V], *result = &s->parts[SAMBA_ATTENTION_RESULT], *lse = &s->parts[SAMBA_ATTENTION_LSE];
    const int64_t b = unit / s->h, h = unit % s->h, blocks = (s->tk + BLOCK - 1) / BLOCK;
    float *query = (float *)(own + s->at[QUERY]), *scores = (float *)(own + s->at[SCORES]), *sums = (float *)(own + s->at[SUMS]);
    float *greatest_of = (float *)(own + s->at[GREATEST]), greatest = -INFINITY;
    double total = 0;
    load(s, &s->parts[SAMBA_ATTENTION_Q], b, h, query);
    for (int64_t i = 0; i < s->attention.d; i++)
        query[i] *= (float)s->attention.scale;
    for (int64_t block = 0; block < blocks; block++) {
        float here = greatest_of[block] = score(s, rows, own, b, h, block * BLOCK, samba_attention_width(s->tk, block));
        greatest = here > greatest || here != here ? here : greatest;
    }
    memset(sums, 0, (size_t)s->attention.dv * sizeof *sums);
    for (int64_t block = 0; block < blocks; block++) {
        int64_t keys = samba_attention_width(s->tk, block);
        float *weights = scores + block * BLOCK;
        if (greatest_of[block] == -INFINITY)
            continue;
        for (int64_t i = 0; i < keys; i++)
            weights[i] -= greatest;
        s->kernels->map[SAMBA_TILE_exp][SAMBA_F32](weights, weights, NULL, NULL, keys);
        total += s->kernels->total_f32(weights, keys);
        if (result->data)
            rows->sums[v->dtype == SAMBA_BFLOAT16](weights, element(v, b, h / s->group, block * BLOCK), v->strides[2], keys, s->attention.dv, sums);
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
        s->kernels->store_strided[result->dtype]((char *)(uintptr_t)element(result, b, h, 0), sums, result->strides[3], s->attention.dv);
}

static bool lies(const samba_attention_rows *part)
{
    return (part->dtype == SAMBA_FLOAT32 || part->dtype == SAMBA_BFLOAT16) && part->strides[3] == 1 && part->strides[2] >= 0;
}

bool samba_attention_is_one(const samba_attention_state *s)
{
    return !s->attention.gradient && !s->attention.causal && !s->attention.dropout && s->class_ == SAMBA_F32 && s->tq == 1 && s->attention.d > 0 &&
           s->attention.dv > 0 && lies(&s->parts[SAMBA_ATTENTION_K]) && lies(&s->parts[SAMBA_ATTENTION_V]);
}

void samba_attention_prepare_one(samba_attention_state *s)
{
    samba_attention_reserve(s, QUERY, s->attention.d);
    samba_attention_reserve(s, SCORES, s->tk);
    samba_attention_reserve(s, SUMS, s->attention.dv);
    samba_attention_reserve(s, ADDED, BLOCK);
    samba_attention_reserve(s, GREATEST, (s->tk + BLOCK - 1) / BLOCK);
}
