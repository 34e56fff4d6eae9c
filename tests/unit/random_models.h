/* SPDX-License-Identifier: Apache-2.0
 *
 * Small models of random shapes, one generator a family, which draws sizes from the case's random numbers and traces a graph;
 * leaves are parameters, so that backward is generated too. test_random_shapes.c compiles, runs and compares. A new operator or
 * kernel is covered by adding a generator to the table at the end.
 *
 * Leaves hold multiples of 1/4 up to 2. So sums of products are exact in float32 whatever their order, and a family that stays
 * exact must agree with the reference in every bit. */
#ifndef SAMBA_TEST_RANDOM_MODELS_H
#define SAMBA_TEST_RANDOM_MODELS_H

#include "noise.h"
#include <sambaflow/functional.h>
#include <sambaflow/graph.h>
#include <sambaflow/layers.h>

typedef struct random_case {
    uint64_t state; /* of the random numbers */
    samba_context *context;
    samba_graph *graph;
    samba_dtype dtype; /* of the case's floats */
    bool exact;        /* every value is a small multiple of 1/64: no rounding anywhere */
    bool cancels;      /* terms as great as the greatest result may leave nothing, as slopes of a kernel along a flat border */
    bool inference;    /* no loss */
    int64_t budget;    /* of multiply-adds that are left */
    int count;         /* names given so far */
    struct {
        char name[16];
        int64_t end;
    } indices[4]; /* inputs of integers in [0, end) */
    int index_count;
} random_case;

/* ---- random numbers ---- */
static inline uint64_t draw(random_case *t) { return next_seed(&t->state); }
static inline int64_t below(random_case *t, int64_t bound) { return (int64_t)(draw(t) % (uint64_t)bound); }
static inline int64_t between(random_case *t, int64_t low, int64_t high) { return low + below(t, high - low + 1); }
static inline bool chance(random_case *t, int percent) { return below(t, 100) < percent; }

/* A size: now and then 0, often 1 or tiny, mostly odd ones, few huge; the budget shrinks by as much and keeps cases small. */
static inline int64_t size(random_case *t)
{
    int64_t kind = below(t, 100), most = t->budget < 1 ? 1 : t->budget;
    int64_t n = kind < 2    ? 0
                : kind < 12 ? 1
                : kind < 35 ? between(t, 2, 5)
                : kind < 75 ? between(t, 6, 40)
                : kind < 90 ? between(t, 41, 130)
                : kind < 98 ? between(t, 131, 700)
                            : between(t, 701, 5000);
    n = n > most ? 1 + n % most : n;
    t->budget /= n > 0 ? n : 1;
    return n;
}
static inline int64_t some(random_case *t) /* a size that is not 0 */
{
    int64_t n = size(t);
    return n ? n : 1;
}

/* ---- leaves and ends ---- */
/* A name of this kind that the model has not yet; good until the next one. */
static inline const char *named(random_case *t, const char *kind)
{
    static _Thread_local char name[16];
    snprintf(name, sizeof name, "%s%d", kind, t->count++);
    return name;
}

static inline samba_value leaf_of(random_case *t, samba_dtype dtype, int rank, const int64_t *shape)
{
    return samba_parameter(t->graph, named(t, "p"), dtype, rank, shape, (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
}
static inline samba_value leaf(random_case *t, int rank, const int64_t *shape) { return leaf_of(t, t->dtype, rank, shape); }

static inline samba_value indices(random_case *t, int rank, const int64_t *shape, int64_t end)
{
    samba_tensor *example;
    char *name = t->indices[t->index_count].name;
    snprintf(name, sizeof t->indices[0].name, "%s", named(t, "i"));
    t->indices[t->index_count++].end = end;
    if (samba_tensor_empty(t->context, name, chance(t, 50) ? SAMBA_INT64 : SAMBA_INT32, rank, shape, &example) == SAMBA_OK) {
        (void)samba_graph_add_input(t->graph, example);
        samba_tensor_free(example);
    }
    return samba_input(t->graph, name);
}

static inline int shape_of(samba_value v, int64_t *shape)
{
    int rank = samba_value_rank(v);
    for (int i = 0; i < rank; i++)
        shape[i] = samba_value_size(v, i);
    return rank;
}

static inline void output(random_case *t, samba_value v) { samba_output(t->graph, named(t, "out"), v); }

/* A loss that weighs every element differently. */
static inline void lose(random_case *t, samba_value v)
{
    int64_t shape[SAMBA_MAX_RANK];
    int rank = shape_of(v, shape);
    samba_value weighed = samba_mul(v, leaf_of(t, samba_value_dtype(v), rank, shape));
    samba_loss(t->graph, named(t, "loss"), samba_sum(weighed, 0, NULL, false));
}

/* The same shape with some sizes 1 and some dims in front gone: what broadcasts to it. */
static inline samba_value broadcast_leaf(random_case *t, samba_value like)
{
    int64_t shape[SAMBA_MAX_RANK];
    int rank = shape_of(like, shape), drop = rank ? (int)below(t, rank + 1) : 0;
    for (int i = drop; i < rank; i++)
        shape[i - drop] = chance(t, 25) ? 1 : shape[i];
    return leaf_of(t, samba_value_dtype(like), rank - drop, shape);
}

static inline samba_value bell(samba_value v) { return samba_exp(samba_neg(samba_mul(v, v))); }
static inline samba_value root(samba_value v) { return samba_rsqrt(samba_add_scalar(samba_mul(v, v), 0.5)); }

static inline samba_value smooth(random_case *t, samba_value v)
{
    static samba_value (*const functions[])(samba_value) = {
        samba_gelu, samba_gelu_tanh, samba_tanh, samba_sigmoid, samba_erf, bell, root};
    t->exact = false;
    return functions[below(t, 7)](samba_mul_scalar(v, 0.125));
}

static inline samba_value norm(random_case *t, samba_value v) { return samba_layer_norm(v, named(t, "norm")); }

/* Sums of 16-bit floats are compared before they are rounded, so which of two neighbours is greatest is open. */
static inline bool is_half(const random_case *t) { return t->dtype == SAMBA_BFLOAT16 || t->dtype == SAMBA_FLOAT16; }

/* What follows a contraction on its blocks, and the ends. */
static inline void finish(random_case *t, samba_value y)
{
    int rank = samba_value_rank(y);
    if (chance(t, 50))
        y = samba_add(y, broadcast_leaf(t, y));
    if (chance(t, 30))
        y = samba_relu(y);
    if (chance(t, 30))
        y = samba_add(broadcast_leaf(t, y), y);
    if (chance(t, 15))
        y = samba_mul(y, broadcast_leaf(t, y));
    if (chance(t, 30))
        y = smooth(t, y);
    if (rank > 0 && chance(t, 15)) {
        t->exact = false;
        y = chance(t, 50) ? samba_softmax(y, -1) : norm(t, y);
    }
    if (rank > 0 && chance(t, 20))
        output(t, samba_sum(y, 1, (int[]){(int)below(t, rank)}, chance(t, 50)));
    if (rank > 0 && samba_value_size(y, -1) > 0 && chance(t, 15))
        output(t, chance(t, 50) || is_half(t) ? samba_amax(y, 1, (int[]){-1}, false) : samba_argmax(y, -1, true));
    if (chance(t, 70))
        output(t, y);
    lose(t, y);
}

/* A part of rows that lie a page apart, as those of models whose width is a power of 2 do; few enough rows for the reference. */
static inline samba_value far_rows(random_case *t, int rank, const int64_t *shape)
{
    int64_t inner[SAMBA_MAX_RANK], rows = 1, page = 4096 / (int64_t)samba_dtype_size(t->dtype), front;
    for (int i = 0; i < rank; i++) {
        inner[i] = shape[i];
        rows *= i + 1 < rank ? shape[i] : 1;
    }
    if (rank == 0 || rows > 400 || shape[rank - 1] > page)
        return leaf(t, rank, shape);
    inner[rank - 1] = page;
    front = below(t, page - shape[rank - 1] + 1);
    return samba_slice(leaf(t, rank, inner), rank - 1, front, front + shape[rank - 1], 1);
}

/* A leaf of that shape, seen through a view: transposed, a part of a larger one, every other element, broadcast. */
static inline samba_value seen(random_case *t, int rank, const int64_t *shape)
{
    int64_t inner[SAMBA_MAX_RANK];
    int a = rank ? (int)below(t, rank) : 0, b = rank ? (int)below(t, rank) : 0;
    memcpy(inner, shape, sizeof *shape * (size_t)rank);
    switch (rank ? below(t, 7) : 6) {
    case 3: return far_rows(t, rank, shape);
    case 0: /* transposed */ inner[a] = shape[b], inner[b] = shape[a]; return samba_transpose(leaf(t, rank, inner), a, b);
    case 1: { /* a part of a larger one */
        int64_t front = below(t, 4), step = between(t, 1, 3);
        inner[a] = front + shape[a] * step + below(t, 3);
        return samba_slice(leaf(t, rank, inner), a, front, front + shape[a] * step, step);
    }
    case 2: /* broadcast */ inner[a] = 1; return samba_expand(leaf(t, rank, inner), rank, shape);
    default: return leaf(t, rank, shape);
    }
}

/* ---- families: contractions ---- */
static inline void linear(random_case *t) /* forward, input gradient and weight gradient; weights either way round, and vectors */
{
    int rank = (int)between(t, 1, 4);
    int64_t shape[4], k, n = some(t);
    for (int i = 0; i < rank; i++)
        shape[i] = size(t);
    k = shape[rank - 1];
    samba_value x = leaf(t, rank, shape);
    samba_value w = chance(t, 20)   ? seen(t, 1, &k)
                    : chance(t, 50) ? samba_transpose(leaf(t, 2, (int64_t[]){n, k}), 0, 1)
                                    : leaf(t, 2, (int64_t[]){k, n});
    finish(t, samba_matmul(x, w));
}

static inline void batched(random_case *t) /* batch dims broadcast, operands are views; some weigh others, by softmax */
{
    int batch = (int)between(t, 1, 2);
    int64_t a[4], b[4], m = size(t), k = size(t), n = size(t);
    for (int i = 0; i < batch; i++) {
        a[i] = b[i] = between(t, 1, 5);
        if (chance(t, 25))
            *(chance(t, 50) ? &a[i] : &b[i]) = 1;
        t->budget /= 3;
    }
    a[batch] = m, a[batch + 1] = k, b[batch] = k, b[batch + 1] = n;
    int skip = chance(t, 20) ? (int)between(t, 1, batch) : 0; /* operand b has fewer dims */
    samba_value y = samba_matmul(seen(t, batch + 2, a), seen(t, batch + 2 - skip, b + skip));
    if (m > 0 && n > 0 && chance(t, 25)) {
        samba_value row = samba_reshape(samba_arange(t->graph, m, SAMBA_INT64), 2, (int64_t[]){m, 1});
        samba_value hidden = samba_gt(samba_arange(t->graph, n, SAMBA_INT64), row);
        t->exact = false;
        if (chance(t, 60))
            y = samba_where(hidden, samba_constant(t->graph, -__builtin_inf(), t->dtype, 0, NULL), y);
        y = samba_matmul(samba_softmax(samba_mul_scalar(y, 0.125), -1), seen(t, 2, (int64_t[]){n, size(t)}));
    }
    finish(t, y);
}

static inline void attention_kernel(random_case *t) /* one operator; masks, grouped heads, dropout, operands seen through views */
{
    int64_t images = between(t, 1, 3), group = between(t, 1, 3), heads = between(t, 1, 2), width = between(t, 1, 70);
    int64_t queries = chance(t, 10) ? between(t, 1, 300) : between(t, 1, 50), keys = chance(t, 60) ? queries : between(t, 1, 90);
    int64_t out = chance(t, 70) ? width : between(t, 1, 40);
    samba_attention_options o = samba_attention_defaults();
    o.is_causal = chance(t, 40);
    o.enable_gqa = group > 1;
    o.scale = chance(t, 50) ? 0 : 0.25;
    o.dropout = chance(t, 20) ? "drop" : NULL;
    o.dropout_p = o.dropout ? 0.25 : 0;
    if (chance(t, 40)) {
        o.mask = samba_cast(indices(t, 2, (int64_t[]){queries, keys}, 4), SAMBA_BOOL);
        if (chance(t, 50))
            o.mask = samba_mul_scalar(samba_cast(o.mask, t->dtype), -0.75);
    }
    t->exact = false;
    samba_value q = seen(t, 4, (int64_t[]){images, heads * group, queries, width});
    samba_value k = seen(t, 4, (int64_t[]){images, heads, keys, width}), v = seen(t, 4, (int64_t[]){images, heads, keys, out});
    samba_value y = samba_scaled_dot_product_attention(q, k, v, &o);
    if (chance(t, 50))
        y = samba_reshape(samba_transpose(y, 1, 2), 3, (int64_t[]){images, queries, heads * group * out});
    finish(t, y);
}

/* New tokens over a cache, which is a ring or holds all; one token, or more than a block; operands seen through views. */
static inline void cache_kernel(random_case *t)
{
    int64_t sequences = between(t, 1, 3), group = between(t, 1, 3), heads = between(t, 1, 3), width = between(t, 1, 70);
    int64_t tokens = chance(t, 50) ? 1 : chance(t, 20) ? between(t, 60, 140) : between(t, 1, 20), all = between(t, 1, 200);
    int64_t out = chance(t, 70) ? width : between(t, 1, 40);
    samba_cache_options o = {.struct_size = sizeof o, .slots = chance(t, 50) ? 0 : between(t, 1, all)};
    o.window = chance(t, 50) ? 0 : between(t, 1, 90);
    o.scale = chance(t, 50) ? 0 : chance(t, 80) ? 0.25 : -0.25;
    o.cap = chance(t, 30) ? 1.5 : 0;
    t->exact = false;
    samba_value start = indices(t, 1, &sequences, chance(t, 50) ? all : 3 * all);
    if (chance(t, 10))
        start = samba_sub(start, samba_integer(t->graph, 5));
    samba_value q = seen(t, 4, (int64_t[]){sequences, heads * group, tokens, width});
    samba_value k = seen(t, 4, (int64_t[]){sequences, heads, all, width});
    samba_value v = seen(t, 4, (int64_t[]){sequences, heads, all, out});
    samba_value y = samba_detach(samba_cache_attention(q, k, v, start, &o)); /* it has no gradient */
    if (chance(t, 50))
        y = samba_reshape(samba_transpose(y, 1, 2), 3, (int64_t[]){sequences, tokens, heads * group * out});
    finish(t, y);
}

static inline void convolution(random_case *t) /* of two or three dims of space; transposed and depthwise ones too */
{
    int spatial = chance(t, 65) ? 2 : 3;
    bool back = spatial == 3 && chance(t, 35), plane = spatial == 2, depthwise = chance(t, 15);
    int64_t groups = depthwise ? between(t, 2, 17) : chance(t, 70) ? 1 : between(t, 2, plane ? 4 : 2);
    int64_t in = depthwise ? 1 : between(t, 1, plane ? 6 : 4), out = depthwise ? 1 : between(t, 1, plane ? 12 : 5);
    int64_t image[5] = {chance(t, 3) ? 0 : between(t, 1, 4), groups * in}, filters = groups * out;
    int64_t weight[5] = {back ? groups * in : filters, back ? out : in};
    samba_conv3d_options o = {.groups = groups};
    samba_conv_transpose3d_options b = {.groups = groups};
    for (int i = 0; i < spatial; i++) {
        int64_t kernel = weight[2 + i] = between(t, 1, plane || chance(t, 30) ? 5 : 3);
        b.stride[i] = o.stride[i] = chance(t, 60) ? 1 : between(t, 2, 3);
        o.padding[i] = below(t, 3);
        b.padding[i] = below(t, kernel);
        b.dilation[i] = o.dilation[i] = chance(t, 75) ? 1 : between(t, 2, 3);
        b.output_padding[i] = b.stride[i] > 1 && chance(t, 50) ? 1 : 0;
        int64_t least = back ? 2 * b.padding[i] : o.dilation[i] * (kernel - 1) + 1 - 2 * o.padding[i];
        image[2 + i] = (least < 1 ? 1 : least) + below(t, plane ? (chance(t, 10) ? 60 : 18) : i == 2 && chance(t, 20) ? 40 : 8);
    }
    samba_value x = leaf(t, 2 + spatial, image), w = leaf(t, 2 + spatial, weight), bias = {NULL, 0, 0}, y;
    if (chance(t, 50))
        bias = leaf(t, 1, &filters);
    samba_conv2d_options two = {.groups = groups,
                                .stride = {o.stride[0], o.stride[1]},
                                .padding = {o.padding[0], o.padding[1]},
                                .dilation = {o.dilation[0], o.dilation[1]}};
    y = back    ? samba_functional_conv_transpose3d(x, w, bias, &b)
        : plane ? samba_functional_conv2d(x, w, bias, &two)
                : samba_functional_conv3d(x, w, bias, &o);
    if (plane && samba_value_size(y, 2) > 1 && samba_value_size(y, 3) > 1 && chance(t, 20))
        y = samba_max_pool2d(y, (int64_t[]){2, 2}, NULL);
    finish(t, y);
}

/* ---- families: tile programs ---- */
static inline void maps(random_case *t) /* several leaves, several users, views between */
{
    int rank = (int)between(t, 0, 4);
    int64_t shape[4];
    for (int i = 0; i < rank; i++)
        shape[i] = size(t);
    samba_value v[4] = {seen(t, rank, shape), leaf(t, rank, shape)};
    v[2] = broadcast_leaf(t, v[0]);
    v[3] = samba_sub(v[1], v[2]);
    for (int round = 0, rounds = (int)between(t, 1, 6); round < rounds; round++) {
        samba_value a = v[below(t, 4)], b = v[below(t, 4)], c;
        switch (below(t, 9)) {
        case 0: c = samba_maximum(a, b); break;
        case 1: c = samba_minimum(a, b); break;
        case 2: c = samba_where(samba_gt(a, b), b, samba_neg(a)); break;
        case 3: c = samba_abs(a); break;
        case 4: c = samba_relu(samba_sub(a, b)); break;
        case 5: c = t->exact ? samba_add(a, b) : samba_div(a, samba_add_scalar(samba_abs(b), 1)); break;
        case 6: c = chance(t, 50) ? smooth(t, a) : samba_mul_scalar(a, 0.5); break;
        case 7: c = samba_sub(samba_mul_scalar(a, 0.25), b); break;
        default: c = samba_add(a, samba_mul_scalar(b, 0.5)); break;
        }
        v[below(t, 4)] = samba_expand(samba_add(c, v[0]), rank, shape);
    }
    output(t, samba_add(v[2], v[3]));
    lose(t, samba_add(v[0], v[1]));
}

/* Values that are read once more, in another order, by a later loop over a row or by a product: what results may not lie over. */
static inline void rereads(random_case *t)
{
    enum { MOST = 24 };
    t->dtype = t->dtype == SAMBA_FLOAT32 && chance(t, 40) ? SAMBA_FLOAT32 : SAMBA_FLOAT64; /* nothing passes for rounding */
    t->exact = false;
    int64_t rows = chance(t, 20) ? 1 : some(t),
            cols = chance(t, 30) ? rows : some(t); /* one: a product over what is added to it */
    samba_value w = leaf(t, 2, (int64_t[]){cols, cols}), b = leaf(t, 1, &cols), s = leaf(t, 2, (int64_t[]){rows, 1});
    samba_value pool[MOST] = {leaf(t, 2, (int64_t[]){rows, cols})};
    pool[1] = samba_mul(pool[0], leaf(t, 2, (int64_t[]){rows, cols}));
    int count = 2;
    for (int most = (int)between(t, 6, MOST); count < most; count++) {
        samba_value a = pool[chance(t, 75) ? count - 1 : below(t, count)], other = pool[below(t, count)], v;
        switch (below(t, 14)) {
        case 0: v = samba_add(a, other); break;
        case 1: v = samba_sub(samba_mul(a, s), other); break;
        case 2: v = samba_tanh(samba_add(a, b)); break;
        case 3: v = samba_relu(a); break;
        case 4: v = samba_sub(a, samba_mean(a, 1, (int[]){1}, true)); break;
        case 5: v = samba_mul(other, samba_softmax(a, 1)); break;
        case 6: v = samba_add(samba_mul_scalar(samba_matmul(a, w), 0.1), other); break;
        case 7: v = samba_add(a, samba_mul_scalar(samba_matmul(samba_tanh(a), w), 0.1)); break;
        case 8: /* rows moved down by one, the last first: the same elements at other places */
            v = samba_add(
                other,
                samba_concat(2, (samba_value[]){samba_slice(a, 0, rows - 1, rows, 1), samba_slice(a, 0, 0, rows - 1, 1)}, 0));
            break;
        case 9: v = samba_add(a, rows == cols ? samba_transpose(a, 0, 1) : samba_sum(a, 1, (int[]){0}, true)); break;
        case 10: v = samba_add(samba_matmul(a, samba_transpose(w, 0, 1)), samba_mul(other, samba_tanh(other))); break;
        case 11: v = samba_sub(a, samba_amax(other, 1, (int[]){1}, true)); break;
        case 12: v = norm(t, a); break;
        default: /* kept small, and looked at from outside */ v = samba_tanh(samba_mul_scalar(a, 0.5)); output(t, v);
        }
        pool[count] = v;
    }
    output(t, pool[count - 1]);
    lose(t, samba_add(samba_tanh(pool[count - 1]), samba_sigmoid(pool[count / 2])));
}

static inline void moves(random_case *t) /* shapes taken apart and put together; gradients are pads and sums */
{
    int rank = (int)between(t, 1, 4), dim = (int)below(t, rank);
    int64_t shape[4], numel = 1, other[4];
    int turn[4];
    for (int i = 0; i < rank; i++)
        numel *= shape[i] = size(t), turn[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int j = (int)below(t, i + 1), was = turn[i];
        turn[i] = turn[j], turn[j] = was;
    }
    samba_value x = seen(t, rank, shape), y = samba_mul_scalar(x, 0.5);
    memcpy(other, shape, sizeof other);
    other[dim] = below(t, 4);
    y = samba_concat(3, (samba_value[]){y, leaf(t, rank, other), samba_neg(x)}, dim);
    int64_t length = samba_value_size(y, dim), start = length ? below(t, length) : 0;
    y = samba_slice(y, dim, start, between(t, start, length), between(t, 1, 3));
    y = samba_permute(y, turn);
    numel = 1;
    for (int i = 0; i < rank; i++)
        numel *= samba_value_size(y, i);
    if (chance(t, 60))
        y = samba_relu(samba_reshape(y, 1, &numel));
    output(t, samba_flatten(y, 0, -1));
    lose(t, y);
}

static inline void reductions(random_case *t)
{
    int rank = (int)between(t, 1, 5), dims[5], count = 0;
    int64_t shape[5];
    for (int i = 0; i < rank; i++) {
        shape[i] = chance(t, 90) ? some(t) : 1;
        if (chance(t, 50))
            dims[count++] = i;
    }
    samba_value x = seen(t, rank, shape), y = samba_mul(x, broadcast_leaf(t, x)), s;
    bool extreme = chance(t, 50), to_leaves = true;
    if (extreme) {
        s = chance(t, 50) ? samba_amax(y, count, dims, true) : samba_amin(y, count, dims, true);
        to_leaves = chance(t, 50); /* the gradient is divided among equals, which rounds */
        t->exact = !to_leaves;
    } else {
        s = samba_sum(y, count, dims, true);
    }
    if (chance(t, 40)) { /* the reduced value comes back to its elements */
        output(t, samba_sub(y, s));
        s = samba_sum(samba_mul(samba_sub(y, s), x), count, dims, true);
    }
    if (!is_half(t))
        output(t, samba_argmax(y, (int)below(t, rank), chance(t, 50)));
    output(t, s);
    if (chance(t, 30)) {
        t->exact = false;
        s = samba_add(samba_mean(y, count, dims, true), samba_mul_scalar(s, 0.125));
    }
    lose(t, to_leaves ? s : y);
}

static inline void rows(random_case *t) /* softmax, norms, dropout and losses over rows, some of several chunks */
{
    int64_t n = some(t), c = some(t);
    samba_value x = seen(t, 2, (int64_t[]){n, c});
    t->exact = false;
    switch (below(t, 6)) {
    case 0: x = samba_softmax(x, (int)below(t, 2)); break;
    case 1: x = samba_log_softmax(x, (int)below(t, 2)); break;
    case 2: x = norm(t, x); break;
    case 3: x = samba_mul(norm(t, samba_add(x, broadcast_leaf(t, x))), samba_softmax(x, 1)); break;
    case 4: x = samba_dropout(samba_mul(x, broadcast_leaf(t, x)), "d", 0.3); break;
    default: {
        samba_cross_entropy_options o = {
            chance(t, 50) ? -100 : below(t, c), chance(t, 50) ? 0 : 0.1, (samba_reduction)below(t, 3), {NULL, 0, 0}};
        x = samba_cross_entropy_with(x, indices(t, 1, &n, c), &o);
        if (o.reduction == SAMBA_NO_REDUCTION)
            x = samba_mul(x, x);
    }
    }
    if (samba_value_rank(x) == 2 && chance(t, 60))
        finish(t, x);
    else
        lose(t, x);
}

static inline void integers(random_case *t)
{
    static const samba_dtype dtypes[] = {SAMBA_INT64, SAMBA_INT32, SAMBA_INT16, SAMBA_INT8, SAMBA_UINT8, SAMBA_BOOL};
    int64_t m = size(t), k = size(t), n = size(t);
    samba_value x = indices(t, 2, (int64_t[]){m, k}, 19), y = indices(t, 2, (int64_t[]){k, n}, 7);
    samba_dtype narrow = dtypes[below(t, 6)];
    t->inference = true;
    output(t, samba_matmul(samba_cast(x, SAMBA_INT32), samba_cast(y, SAMBA_INT32)));
    output(t, samba_cast(samba_mul(x, samba_add(x, x)), narrow));
    output(t, samba_sum(samba_eq(x, samba_mul(x, x)), 1, (int[]){(int)below(t, 2)}, false));
    output(t, samba_transpose(samba_maximum(y, samba_sub(y, samba_cast(y, SAMBA_INT64))), 0, 1));
    output(t, samba_cast(samba_mul_scalar(samba_cast(y, t->dtype), 0.25), SAMBA_INT16));
}

/* ---- families: kernels ---- */
static inline samba_value pooled(samba_value x, int spatial, bool average, bool adaptive, bool where, const int64_t *size,
                                 const samba_pool3d_options *o)
{
    const samba_pool1d_options one = {o->stride[0], o->padding[0], o->dilation[0], o->ceil_mode, o->no_count_include_pad};
    const samba_pool2d_options two = {{o->stride[0], o->stride[1]},     {o->padding[0], o->padding[1]},
                                      {o->dilation[0], o->dilation[1]}, o->ceil_mode,
                                      o->no_count_include_pad,          o->divisor_override};
    if (where) /* a greatest element was found */
        switch (spatial) {
        case 1: return adaptive ? samba_adaptive_max_pool1d_indices(x, *size) : samba_max_pool1d_indices(x, *size, &one);
        case 2: return adaptive ? samba_adaptive_max_pool2d_indices(x, size) : samba_max_pool2d_indices(x, size, &two);
        default: return adaptive ? samba_adaptive_max_pool3d_indices(x, size) : samba_max_pool3d_indices(x, size, o);
        }
    switch (spatial * 4 + adaptive * 2 + average) {
    case 4: return samba_max_pool1d(x, *size, &one);
    case 5: return samba_avg_pool1d(x, *size, &one);
    case 6: return samba_adaptive_max_pool1d(x, *size);
    case 7: return samba_adaptive_avg_pool1d(x, *size);
    case 8: return samba_max_pool2d(x, size, &two);
    case 9: return samba_avg_pool2d(x, size, &two);
    case 10: return samba_adaptive_max_pool2d(x, size);
    case 11: return samba_adaptive_avg_pool2d(x, size);
    case 12: return samba_max_pool3d(x, size, o);
    case 13: return samba_avg_pool3d(x, size, o);
    case 14: return samba_adaptive_max_pool3d(x, size);
    default: return samba_adaptive_avg_pool3d(x, size);
    }
}

static inline void pools(random_case *t) /* of one to three dims of space, adaptive ones, with divisors */
{
    int spatial = chance(t, 60) ? 2 : (int)between(t, 1, 3);
    bool average = chance(t, 50), adaptive = chance(t, 25);
    int64_t shape[5] = {!adaptive && chance(t, 3) ? 0 : between(t, 1, 3), between(t, 1, 5)}, kernel[3] = {1, 1, 1};
    samba_pool3d_options o = {
        .ceil_mode = chance(t, 40), .no_count_include_pad = chance(t, 40), .divisor_override = average && chance(t, 20) ? 4 : 0};
    for (int i = 0; i < spatial; i++) {
        kernel[i] = i == spatial - 1 && chance(t, 10) ? between(t, 120, 300) : between(t, 1, 4); /* or of many vectors */
        o.stride[i] = chance(t, 40) ? 0 : between(t, 1, kernel[i] > 4 ? kernel[i] : 4);
        o.padding[i] = below(t, kernel[i] / 2 + 1);
        o.dilation[i] = average || chance(t, 70) ? 1 : 2;
        shape[2 + i] = o.dilation[i] * (kernel[i] - 1) + 1 + below(t, spatial == 2 ? 20 : 12);
        kernel[i] = adaptive ? between(t, 1, shape[2 + i] + 1) : kernel[i];
    }
    samba_value x = leaf(t, 2 + spatial, shape);
    t->exact = !average;
    if (chance(t, 30))
        x = samba_mul(x, broadcast_leaf(t, x));
    samba_value y = pooled(x, spatial, average, adaptive, false, kernel, &o);
    if (!average && chance(t, 40))
        y = samba_add(y, samba_cast(pooled(x, spatial, average, adaptive, true, kernel, &o), t->dtype));
    finish(t, y);
}

static inline void resampled(random_case *t) /* images of other sizes; weights round */
{
    int spatial = (int)between(t, 1, 3);
    int64_t shape[5] = {between(t, 1, 3), between(t, 1, 5)};
    samba_interpolate_options o = {.mode = (samba_resample_mode)below(t, 4)};
    o.mode = o.mode == SAMBA_RESAMPLE_BICUBIC && spatial != 2 ? SAMBA_RESAMPLE_LINEAR : o.mode;
    o.align_corners = o.mode >= SAMBA_RESAMPLE_LINEAR && chance(t, 40);
    o.antialias = o.mode >= SAMBA_RESAMPLE_LINEAR && spatial == 2 && chance(t, 30);
    bool whole = chance(t, 30);
    for (int i = 0; i < spatial; i++) {
        shape[2 + i] = between(t, 1, chance(t, 20) ? 40 : 9);
        o.size[i] = whole ? shape[2 + i] * between(t, 1, 3) : between(t, 1, 20);
    }
    t->exact = false;
    samba_value y = samba_interpolate(leaf(t, 2 + spatial, shape), &o);
    finish(t, chance(t, 30) ? samba_channel_shuffle(y, shape[1]) : y);
}

static inline void sampled(random_case *t) /* images and volumes read at a grid's positions, many of them outside */
{
    int spatial = (int)between(t, 2, 3);
    int64_t shape[5] = {size(t) ? between(t, 1, 3) : 0, between(t, 0, 5)}, places[5] = {shape[0]};
    for (int i = 0; i < spatial; i++) {
        shape[2 + i] = between(t, 1, 9);
        places[1 + i] = between(t, 0, chance(t, 30) ? 30 : 6);
    }
    places[1 + spatial] = spatial;
    static const samba_resample_mode modes[] = {SAMBA_RESAMPLE_LINEAR, SAMBA_RESAMPLE_NEAREST, SAMBA_RESAMPLE_BICUBIC};
    samba_resample_mode mode = modes[below(t, spatial == 2 ? 3 : 2)];
    samba_grid_padding padding = (samba_grid_padding)below(t, 3);
    t->exact = false;
    t->cancels = mode == SAMBA_RESAMPLE_BICUBIC;
    samba_value x = leaf(t, 2 + spatial, shape), grid = leaf(t, 2 + spatial, places);
    finish(t, samba_grid_sample(x, grid, mode, padding, chance(t, 40)));
}

static inline void embeddings(random_case *t)
{
    int64_t rows = some(t), width = some(t), shape[2] = {size(t), between(t, 1, 9)};
    samba_value y = samba_embedding(indices(t, 2, shape, rows), "wte", rows, width);
    finish(t, samba_cast(y, t->dtype));
}

static inline void lines(random_case *t) /* along any dim, of lines sorted by insertion, by digits, and selected from */
{
    int rank = (int)between(t, 1, 4), dim = (int)below(t, rank);
    int64_t shape[4];
    for (int i = 0; i < rank; i++)
        shape[i] = chance(t, 90) ? size(t) : 1;
    if (chance(t, 30))
        shape[dim] = between(t, 60, 700);
    samba_value x = seen(t, rank, shape), index, y = samba_mul_scalar(x, 0.5);
    int64_t n = samba_value_size(x, dim);
    switch (below(t, n > 0 ? 7 : 6)) { /* nothing is in the middle of no elements */
    case 6: y = chance(t, 50) ? samba_median(y, dim, true, &index) : samba_kthvalue(y, 1 + below(t, n), dim, true, &index); break;
    case 0: y = samba_sort(y, dim, chance(t, 50), &index); break;
    case 1: y = samba_topk(y, below(t, (chance(t, 50) ? n : n / 5) + 1), dim, chance(t, 50), &index); break;
    case 2: y = chance(t, 50) ? samba_cummax(y, dim, &index) : samba_cummin(y, dim, &index); break;
    case 3: y = index = samba_cumsum(y, dim); break;
    case 4: y = index = samba_cumprod(samba_mul_scalar(y, 0.5), dim), t->exact = false; break;
    default: y = index = samba_logcumsumexp(y, dim), t->exact = false; break;
    }
    if (!is_half(t)) /* who is equal after rounding to 16 bits is not told */
        output(t, index);
    finish(t, y);
}

typedef struct random_family {
    const char *name;
    void (*make)(random_case *t);
    int share; /* of the cases, in parts of the sum of all */
} random_family;
static const random_family random_families[] = {
    {"linear", linear, 16},
    {"batched", batched, 16},
    {"attention_kernel", attention_kernel, 8},
    {"cache_kernel", cache_kernel, 6},
    {"convolution", convolution, 24},
    {"maps", maps, 10},
    {"rereads", rereads, 24},
    {"moves", moves, 8},
    {"reductions", reductions, 8},
    {"rows", rows, 12},
    {"integers", integers, 3},
    {"pools", pools, 11},
    {"resampled", resampled, 4},
    {"sampled", sampled, 4},
    {"embeddings", embeddings, 4},
    {"lines", lines, 8},
};

#endif
