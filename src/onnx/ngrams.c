/* SPDX-License-Identifier: Apache-2.0
 *
 * TfIdfVectorizer: how often each n-gram of a pool stands in a line of integers. An n-gram of n numbers, s apart, is compared
 * with a line at all places at once; which n-grams there are is known, so that the shapes are. */
#include "onnx/lists.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <string.h>

enum { TF, IDF, TFIDF };

typedef struct pool {
    int64_t numbers, sizes, grams, width; /* of the pool; longest n-gram that it has; n-grams that count; of the result */
    const int64_t *number;                /* the pool, */
    const int64_t *start, *index;         /* where n-grams of 1, 2 ... numbers begin in it, the place of each in the result */
    int64_t least, most, skips;
} pool;

/* n-grams of `size` numbers: how many, and where they begin among all n-grams. */
static int64_t grams_of(const pool *p, int64_t size, int64_t *first)
{
    *first = 0;
    for (int64_t n = 1; n <= size && n <= p->sizes; n++) {
        int64_t end = n < p->sizes ? p->start[n] : p->numbers, count = (end - p->start[n - 1]) / n;
        if (n == size)
            return count;
        *first += count;
    }
    return 0;
}

static bool take_pool(samba_onnx_node *node, pool *p)
{
    int64_t words, total = 0;
    samba_onnx_words(node, "pool_strings", &words);
    p->number = samba_onnx_long_ints(node, "pool_int64s", &p->numbers);
    p->start = samba_onnx_long_ints(node, "ngram_counts", &p->sizes);
    p->index = samba_onnx_long_ints(node, "ngram_indexes", &p->grams);
    p->least = samba_onnx_int(node, "min_gram_length", 1);
    p->most = samba_onnx_int(node, "max_gram_length", 1);
    p->skips = samba_onnx_int(node, "max_skip_count", 0);
    if (words > 0)
        samba_onnx_refuse(node, "n-grams of texts are not supported: SambaFlow has no texts");
    bool fits = p->sizes > 0 && p->least >= 1 && p->most >= p->least && p->skips >= 0;
    for (int64_t n = 1; n <= p->sizes && fits; n++) {
        int64_t end = n < p->sizes ? p->start[n] : p->numbers, begin = p->start[n - 1];
        fits = begin >= 0 && begin <= end && end <= p->numbers && (end - begin) % n == 0;
        total += fits ? (end - begin) / n : 0;
    }
    p->width = 0;
    for (int64_t i = 0; i < p->grams && fits; i++) {
        fits = p->index[i] >= 0 && p->index[i] < INT32_MAX;
        p->width = fits && p->index[i] >= p->width ? p->index[i] + 1 : p->width;
    }
    if (!node->refused && (!fits || total != p->grams || total == 0))
        samba_onnx_refuse(node,
                          "its pool of %lld numbers, ngram_counts, ngram_indexes and lengths %lld to %lld do not fit each other",
                          (long long)p->numbers, (long long)p->least, (long long)p->most);
    return !node->refused;
}

/* Counts (lines, n-grams) of those of `size` numbers. */
static samba_value count(samba_onnx_node *node, const pool *p, samba_value lines, int64_t size, int64_t grams)
{
    const int64_t length = samba_value_size(lines, 1), *numbers = p->number + p->start[size - 1];
    samba_value sum = {NULL, SAMBA_NONE, 0};
    int64_t *column;
    if (!samba_onnx_afford(node, 8 * (double)grams, 0) || SAMBA_ROOM(&node->reader->arena, column, grams + 1) != SAMBA_OK)
        return sum;
    for (int64_t apart = 1; apart - 1 <= p->skips && (size > 1 || apart == 1); apart++) {
        const int64_t places = size == 1 ? length : apart > (length - 1) / (size - 1) ? 0 : length - (size - 1) * apart;
        samba_value all = {NULL, SAMBA_NONE, 0};
        if (places <= 0 || !samba_onnx_afford(node, 2000 * (double)size, 2000 * (double)size)) /* some nodes */
            break;
        for (int64_t k = 0; k < size; k++) {
            for (int64_t i = 0; i < grams; i++)
                column[i] = numbers[i * size + k];
            samba_value part = samba_narrow(lines, 1, k * apart, places), tall = samba_unsqueeze(part, 2);
            samba_value wanted = samba_onnx_ints_value(node, 1, &grams, column), same = samba_eq(tall, wanted);
            all = all.graph ? samba_logical_and(all, same) : same;
        }
        const int along = 1;
        samba_value ones = samba_cast(all, SAMBA_FLOAT32), found = samba_sum(ones, 1, &along, false);
        sum = sum.graph ? samba_add(sum, found) : found;
    }
    if (!sum.graph && !node->refused)
        sum = samba_constant(node->graph, 0, SAMBA_FLOAT32, 2, (int64_t[]){samba_value_size(lines, 0), grams});
    return sum;
}

/* (n-grams, width): where the count of each goes. */
static samba_value places_of(samba_onnx_node *node, const pool *p, int64_t first, int64_t grams)
{
    const int64_t shape[2] = {grams, p->width};
    double *ones;
    if (!samba_onnx_afford(node, 16 * (double)grams * (double)p->width, 0) ||
        SAMBA_ROOM(&node->reader->arena, ones, grams * p->width + 1) != SAMBA_OK)
        return (samba_value){NULL, SAMBA_NONE, 0};
    for (int64_t i = 0; i < grams; i++)
        ones[i * p->width + p->index[first + i]] = 1;
    return samba_onnx_doubles_value(node, SAMBA_FLOAT32, 2, shape, ones);
}

/* The weight of each place; 1 where none is given. */
static samba_value weights_of(samba_onnx_node *node, const pool *p)
{
    int64_t given;
    const float *weights = samba_onnx_floats(node, "weights", &given);
    double *values;
    if (weights && given != p->grams) {
        samba_onnx_refuse(node, "it has %lld weights for %lld n-grams", (long long)given, (long long)p->grams);
        return (samba_value){NULL, SAMBA_NONE, 0};
    }
    if (!samba_onnx_afford(node, 8 * (double)p->width, 0) || SAMBA_ROOM(&node->reader->arena, values, p->width + 1) != SAMBA_OK)
        return (samba_value){NULL, SAMBA_NONE, 0};
    for (int64_t i = 0; i < p->width; i++)
        values[i] = 1;
    for (int64_t i = 0; weights && i < p->grams; i++)
        values[p->index[i]] = (double)weights[i];
    return samba_onnx_doubles_value(node, SAMBA_FLOAT32, 1, &p->width, values);
}

void samba_onnx_tf_idf_vectorizer(samba_onnx_node *node);
void samba_onnx_tf_idf_vectorizer(samba_onnx_node *node)
{
    static const char *const modes[] = {"TF", "IDF", "TFIDF", NULL};
    pool p;
    samba_value lines = samba_onnx_need(node, 0), sum = {NULL, SAMBA_NONE, 0};
    int mode = samba_onnx_choice(node, "mode", "TF", modes);
    if (node->refused || !take_pool(node, &p))
        return;
    samba_value weights = weights_of(node, &p);
    const bool one = samba_value_rank(lines) == 1;
    if (samba_value_rank(lines) != 1 && samba_value_rank(lines) != 2)
        samba_onnx_refuse(node, "lines of integers are expected, given a value of rank %d", samba_value_rank(lines));
    if (node->refused)
        return;
    lines = one ? samba_unsqueeze(lines, 0) : lines;
    for (int64_t size = p.least; size <= p.most && size <= p.sizes && !node->refused; size++) {
        int64_t first, grams = grams_of(&p, size, &first);
        if (grams == 0)
            continue;
        samba_value counts = count(node, &p, lines, size, grams), places = places_of(node, &p, first, grams);
        if (node->refused)
            return;
        samba_value part = samba_matmul(counts, places);
        sum = sum.graph ? samba_add(sum, part) : part;
    }
    if (node->refused)
        return;
    if (!sum.graph)
        sum = samba_constant(node->graph, 0, SAMBA_FLOAT32, 2, (int64_t[]){samba_value_size(lines, 0), p.width});
    if (mode == IDF) {
        samba_value zero = samba_onnx_number(node, 0), found = samba_gt(sum, zero);
        sum = samba_cast(found, SAMBA_FLOAT32);
    }
    if (mode != TF)
        sum = samba_mul(sum, weights);
    const int lone = 0;
    samba_onnx_out(node, 0, one ? samba_squeeze(sum, 1, &lone) : sum);
}
