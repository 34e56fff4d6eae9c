/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers and functions of the public interface, as models call them. Each is traced into a graph of its own, whose inputs stand
 * for values of the graph in the making or are new; what the layer made is then added node by node, so that every node passes the
 * checks of one that was drawn. Parameters become inputs, running statistics become buffers with what is assigned to them, rates,
 * seeds and "training" become inputs of their kind. */
#include "generate.h"

#include <sambaflow/sambaflow.h>

#define BORROWED 8

typedef struct layer {
    fuzz_maker *m;
    samba_graph *graph;
    int count, fresh;
    samba_ref inner[BORROWED], outer[BORROWED];
} layer;

#define CHANCE(percent) fuzz_chance(l->m, percent)
#define BELOW(bound) fuzz_below(l->m, bound)
#define SIZE(most) fuzz_size(l->m, most)
#define SHAPE(...)                                                                                                               \
    (const int64_t[]) { __VA_ARGS__ }
static const samba_value nothing = {NULL, 0, 0};

/* ---- operands ---- */
static samba_value input(layer *l, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_attrs attrs = fuzz_none();
    attrs.leaf.name = samba_graph_intern(l->graph, name);
    attrs.leaf.dtype = dtype;
    attrs.leaf.shape.count = rank;
    if (rank > 0)
        memcpy(attrs.leaf.shape.at, shape, sizeof *shape * (size_t)rank);
    return (samba_value){l->graph, samba_emit(l->graph, SAMBA_OP_input, 0, NULL, &attrs), 0};
}

/* A value of the graph in the making; nothing where there is none. */
static samba_value borrow(layer *l, samba_ref outer)
{
    char name[16];
    if (outer == SAMBA_NONE || l->count == BORROWED)
        return (samba_value){l->graph, SAMBA_NONE, 0};
    for (int i = 0; i < l->count; i++)
        if (l->outer[i] == outer)
            return (samba_value){l->graph, l->inner[i], 0};
    const samba_node *node = samba_node_at(l->m->graph, outer);
    snprintf(name, sizeof name, "@%d", l->count);
    samba_value value = input(l, name, (samba_dtype)node->dtype, node->rank, node->shape);
    l->inner[l->count] = value.index;
    l->outer[l->count++] = outer;
    return value;
}

/* A new input; of its name what stands before '_' is the kind, but for an index, "i7_". */
static samba_value fresh(layer *l, const char *kind, samba_dtype dtype, int rank, const int64_t *shape)
{
    char name[40];
    snprintf(name, sizeof name, "%s#%d", kind, l->fresh++);
    return input(l, name, dtype, rank, shape);
}

static samba_value index_below(layer *l, int64_t end, int rank, const int64_t *shape)
{
    char kind[24];
    snprintf(kind, sizeof kind, "i%lld_", (long long)(end > 0 ? end : 1));
    return fresh(l, kind, SAMBA_INT64, rank, shape);
}

static samba_value like(layer *l, samba_value x, const char *kind)
{
    if (x.index == SAMBA_NONE)
        return x;
    samba_node node = *samba_node_at(l->graph, x.index);
    return fresh(l, kind, (samba_dtype)node.dtype, node.rank, node.shape);
}

static int rank_of(samba_value x) { return x.index == SAMBA_NONE ? 0 : samba_node_at(x.graph, x.index)->rank; }
static int64_t size_of(samba_value x, int dim)
{
    return x.index == SAMBA_NONE ? 1 : samba_node_at(x.graph, x.index)->shape[dim < 0 ? rank_of(x) + dim : dim];
}
static samba_dtype dtype_of(samba_value x)
{
    return x.index == SAMBA_NONE ? SAMBA_FLOAT32 : (samba_dtype)samba_node_at(x.graph, x.index)->dtype;
}
static int dim_of(layer *l, samba_value x) { return rank_of(x) > 0 ? (int)BELOW(rank_of(x)) : 0; }

static samba_value some(layer *l) { return borrow(l, fuzz_any_where(l->m, fuzz_is_floating)); }

static samba_value with_dims(layer *l)
{
    samba_value x = some(l);
    return rank_of(x) > 0 ? x : (samba_value){l->graph, SAMBA_NONE, 0};
}

/* Of that rank: one there is, another reshaped, or a new one. */
static samba_value ranked(layer *l, int rank)
{
    for (int i = 0; i < 6; i++) {
        samba_ref ref = fuzz_any_where(l->m, fuzz_is_floating);
        if (ref != SAMBA_NONE && CHANCE(40))
            ref = fuzz_of_rank(l->m, ref, rank);
        if (ref != SAMBA_NONE && samba_node_at(l->m->graph, ref)->rank == rank)
            return borrow(l, ref);
    }
    int64_t shape[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = d == 0 ? fuzz_batch(l->m, 3) : SIZE(7);
    return fresh(l, "x", fuzz_float(l->m), rank, shape);
}

static samba_value image(layer *l, int dims) { return borrow(l, fuzz_image(l->m, dims)); }

/* ---- activations and other functions of one value ---- */
/* clang-format off */
#define MEETING(ROW) \
    ROW(relu6, samba_relu6(x)) \
    ROW(leaky_relu, samba_leaky_relu(x, 0.25)) \
    ROW(elu, samba_elu(x, 0.5)) \
    ROW(selu, samba_selu(x)) \
    ROW(celu, samba_celu(x, 0.5)) \
    ROW(softplus_beta, samba_softplus_beta(x, 2, 20)) \
    ROW(log_sigmoid, samba_log_sigmoid(x)) \
    ROW(softsign, samba_softsign(x)) \
    ROW(tanhshrink, samba_tanhshrink(x)) \
    ROW(hardswish, samba_hardswish(x)) \
    ROW(hardsigmoid, samba_hardsigmoid(x)) \
    ROW(hardtanh, samba_hardtanh(x, -1, 0.75)) \
    ROW(softshrink, samba_softshrink(x, 0.5)) \
    ROW(softmin, samba_softmin(x, dim_of(l, x))) \
    ROW(glu, samba_glu(x, dim_of(l, x))) \
    ROW(logsumexp, samba_logsumexp(x, 1, (int[]){dim_of(l, x)}, CHANCE(50))) \
    ROW(mean, samba_mean(x, 1, (int[]){dim_of(l, x)}, CHANCE(50))) \
    ROW(mean_of_all, samba_mean(x, 0, NULL, false)) \
    ROW(var, samba_var(x, 1, (int[]){dim_of(l, x)}, (double)BELOW(2), CHANCE(50))) \
    ROW(std, samba_std(x, 1, (int[]){dim_of(l, x)}, 0, CHANCE(50))) \
    ROW(prod, samba_prod(x, 1, (int[]){dim_of(l, x)}, CHANCE(50))) \
    ROW(vector_norm, samba_vector_norm(x, (double)BELOW(4), 1, (int[]){dim_of(l, x)}, CHANCE(50))) \
    ROW(normalize, samba_normalize(x, 2, dim_of(l, x), 0.125)) \
    ROW(diagonal_sum, samba_trace(x)) \
    ROW(tril, samba_tril(x, BELOW(3) - 1)) \
    ROW(triu, samba_triu(x, BELOW(3) - 1)) \
    ROW(diag_embed, samba_diag_embed(x, BELOW(2), 0, 1)) \
    ROW(diagonal, samba_diagonal(x, BELOW(2), 0, 1)) \
    ROW(roll, samba_roll(x, 1, SHAPE(BELOW(4)), (int[]){dim_of(l, x)})) \
    ROW(rot90, samba_rot90(x, BELOW(4), 0, 1)) \
    ROW(repeat_interleave, samba_repeat_interleave(x, 1 + BELOW(3), dim_of(l, x))) \
    ROW(windows, samba_windows(x, dim_of(l, x), 1 + BELOW(2), 1 + BELOW(2))) \
    ROW(select, samba_select(x, dim_of(l, x), 0)) \
    ROW(movedim, samba_movedim(x, 1, (int[]){dim_of(l, x)}, (int[]){dim_of(l, x)})) \
    ROW(squeeze, samba_squeeze(x, 0, NULL)) \
    ROW(unsqueeze, samba_unsqueeze(x, dim_of(l, x))) \
    ROW(flatten, samba_flatten(x, 0, -1)) \
    ROW(flatten_space, samba_flatten(x, rank_of(x) > 2 ? 2 : 0, -1)) \
    ROW(pad_reflect, samba_pad(x, 1, SHAPE(BELOW(2), BELOW(2)), SAMBA_PAD_REFLECT, 0)) \
    ROW(pad_replicate, samba_pad(x, 1, SHAPE(BELOW(2), BELOW(2)), SAMBA_PAD_REPLICATE, 0)) \
    ROW(pad_circular, samba_pad(x, 1, SHAPE(BELOW(2), BELOW(2)), SAMBA_PAD_CIRCULAR, 0)) \
    ROW(rotary, samba_rotary_embedding(x, NULL)) \
    ROW(cumsum_public, samba_cumsum(x, dim_of(l, x))) \
    ROW(channel_shuffle, samba_channel_shuffle(x, 1 + BELOW(2))) \
    ROW(pixel_shuffle, samba_pixel_shuffle(x, 1 + BELOW(2))) \
    ROW(pixel_unshuffle, samba_pixel_unshuffle(x, 1 + BELOW(2)))
/* clang-format on */
/* What jumps, and so wants exact values. */
/* clang-format off */
#define JUMPING(ROW) \
    ROW(hardshrink, samba_hardshrink(x, 0.5)) \
    ROW(threshold, samba_threshold(x, 0.25, 1)) \
    ROW(median, samba_median(x, dim_of(l, x), CHANCE(50), &(samba_value){0})) \
    ROW(max, samba_max(x, dim_of(l, x), CHANCE(50), &(samba_value){0})) \
    ROW(min, samba_min(x, dim_of(l, x), CHANCE(50), &(samba_value){0})) \
    ROW(topk, samba_topk(x, 1, dim_of(l, x), CHANCE(50), &(samba_value){0})) \
    ROW(kthvalue, samba_kthvalue(x, 1, dim_of(l, x), CHANCE(50), &(samba_value){0})) \
    ROW(nansum, samba_nansum(x, 1, (int[]){dim_of(l, x)}, CHANCE(50)))
/* clang-format on */
#define DEFINE(name, call)                                                                                                       \
    static samba_value unary_##name(layer *l)                                                                                    \
    {                                                                                                                            \
        samba_value x = CHANCE(50) ? some(l) : with_dims(l);                                                                     \
        return x.index == SAMBA_NONE ? x : call;                                                                                 \
    }
MEETING(DEFINE)
JUMPING(DEFINE)
#undef DEFINE

/* ---- products ---- */
static samba_value linear(layer *l)
{
    samba_value x = with_dims(l);
    return CHANCE(70) ? samba_linear(x, "fc", SIZE(6)) : samba_linear_no_bias(x, "fc", SIZE(6));
}

static samba_value bilinear(layer *l)
{
    samba_value x = with_dims(l);
    if (x.index == SAMBA_NONE)
        return x;
    samba_node node = *samba_node_at(l->graph, x.index);
    node.shape[node.rank - 1] = SIZE(4);
    return samba_bilinear(x, fresh(l, "x", dtype_of(x), node.rank, node.shape), "bi", SIZE(4), NULL);
}

static samba_value outer(layer *l)
{
    samba_value x = ranked(l, 1);
    return samba_outer(x, fresh(l, "x", dtype_of(x), 1, SHAPE(SIZE(8))));
}
static samba_value kron(layer *l)
{
    samba_value x = ranked(l, 2);
    return samba_kron(x, fresh(l, "x", dtype_of(x), 2, SHAPE(SIZE(3), SIZE(3))));
}

static samba_value baddbmm(layer *l)
{
    samba_value a = ranked(l, 3);
    int64_t b = size_of(a, 0), n = size_of(a, 1), k = size_of(a, 2), m = SIZE(5);
    samba_value c = fresh(l, "x", dtype_of(a), 3, SHAPE(CHANCE(50) ? 1 : b, n, m));
    return samba_baddbmm(c, a, fresh(l, "x", dtype_of(a), 3, SHAPE(b, k, m)), 0.5, 2);
}

static samba_value einsum(layer *l)
{
    samba_value a = ranked(l, 3);
    samba_value b = fresh(l, "x", dtype_of(a), 3, SHAPE(size_of(a, 0), size_of(a, 2), SIZE(4)));
    return samba_einsum(CHANCE(50) ? "bij,bjk->kbi" : "bij,bjk->bk", 2, (samba_value[]){a, b});
}

/* ---- convolutions, pooling, images ---- */
static samba_value conv1d(layer *l)
{
    samba_value x = image(l, 1);
    samba_conv1d_options o = {.stride = SIZE(2),
                              .padding = BELOW(2),
                              .no_bias = CHANCE(30),
                              .padding_mode = (samba_pad_mode)(CHANCE(80) ? 0 : BELOW(4))};
    return samba_conv1d(x, "conv", SIZE(5), SHAPE(SIZE(3)), &o);
}

static samba_value conv2d(layer *l)
{
    samba_value x = image(l, 2);
    samba_conv2d_options o = {.stride = {SIZE(2), SIZE(2)}, .padding = {BELOW(2), BELOW(2)}, .no_bias = CHANCE(30)};
    return CHANCE(40) ? samba_conv2d(x, "conv", SIZE(6), SHAPE(1, 1), NULL)
                      : samba_conv2d(x, "conv", SIZE(6), SHAPE(SIZE(3), SIZE(3)), &o);
}

static samba_value conv3d(layer *l)
{
    samba_conv3d_options o = {.padding = {BELOW(2), BELOW(2), BELOW(2)}, .no_bias = CHANCE(30)};
    return samba_conv3d(image(l, 3), "conv", SIZE(4), SHAPE(SIZE(2), SIZE(2), SIZE(2)), &o);
}

static samba_value conv_transpose1d(layer *l)
{
    samba_conv_transpose1d_options o = {.stride = SIZE(2), .padding = BELOW(2), .no_bias = CHANCE(30)};
    return samba_conv_transpose1d(image(l, 1), "conv", SIZE(4), SHAPE(SIZE(3)), &o);
}

static samba_value conv_transpose2d(layer *l)
{
    samba_conv_transpose2d_options o = {.stride = {SIZE(2), SIZE(2)}, .padding = {BELOW(2), BELOW(2)}, .no_bias = CHANCE(30)};
    return samba_conv_transpose2d(image(l, 2), "conv", SIZE(4), SHAPE(SIZE(3), SIZE(3)), &o);
}

static samba_value conv_transpose3d(layer *l)
{
    samba_conv_transpose3d_options o = {.stride = {SIZE(2), SIZE(2), SIZE(2)}, .no_bias = CHANCE(30)};
    return samba_conv_transpose3d(image(l, 3), "conv", SIZE(3), SHAPE(SIZE(2), SIZE(2), SIZE(2)), &o);
}

static samba_value max_pool1d(layer *l)
{
    return samba_max_pool1d(image(l, 1), SIZE(3), &(samba_pool1d_options){.stride = SIZE(2)});
}
static samba_value max_pool3d(layer *l)
{
    return samba_max_pool3d(image(l, 3), SHAPE(SIZE(2), SIZE(3), SIZE(2)), &(samba_pool3d_options){.stride = {1, 1, 2}});
}
static samba_value avg_pool1d(layer *l)
{
    return samba_avg_pool1d(image(l, 1), SIZE(3), &(samba_pool1d_options){.stride = SIZE(2), .ceil_mode = CHANCE(50)});
}
static samba_value avg_pool3d(layer *l) { return samba_avg_pool3d(image(l, 3), SHAPE(SIZE(2), SIZE(3), SIZE(2)), NULL); }
static samba_value adaptive_avg_pool1d(layer *l) { return samba_adaptive_avg_pool1d(image(l, 1), SIZE(4)); }
static samba_value adaptive_avg_pool2d(layer *l) { return samba_adaptive_avg_pool2d(image(l, 2), SHAPE(SIZE(4), SIZE(4))); }
static samba_value adaptive_avg_pool3d(layer *l)
{
    return samba_adaptive_avg_pool3d(image(l, 3), SHAPE(SIZE(3), SIZE(2), SIZE(3)));
}
static samba_value adaptive_max_pool1d(layer *l) { return samba_adaptive_max_pool1d(image(l, 1), SIZE(4)); }
static samba_value adaptive_max_pool2d(layer *l) { return samba_adaptive_max_pool2d(image(l, 2), SHAPE(SIZE(4), SIZE(4))); }
static samba_value lp_pool2d(layer *l) { return samba_lp_pool2d(image(l, 2), 2, SHAPE(SIZE(3), SIZE(3)), NULL, CHANCE(50)); }
static samba_value unfold(layer *l)
{
    return samba_unfold(image(l, 2), SHAPE(SIZE(3), SIZE(3)), &(samba_unfold_options){.padding = {BELOW(2), BELOW(2)}});
}

static samba_value fold(layer *l)
{
    int64_t kh = SIZE(2), kw = SIZE(2), h = kh + BELOW(4), w = kw + BELOW(4);
    return samba_fold(
        fresh(l, "x", fuzz_float(l->m), 3, SHAPE(fuzz_batch(l->m, 2), SIZE(3) * kh * kw, (h - kh + 1) * (w - kw + 1))),
        SHAPE(h, w), SHAPE(kh, kw), NULL);
}

static samba_value interpolate(layer *l)
{
    int dims = 1 + (int)BELOW(3);
    samba_interpolate_options o = {.mode = (samba_resample_mode)BELOW(5), .size = {SIZE(6), SIZE(6), SIZE(6)}};
    for (int d = dims; d < 3; d++)
        o.size[d] = 0;
    o.align_corners = (o.mode == SAMBA_RESAMPLE_LINEAR || o.mode == SAMBA_RESAMPLE_BICUBIC) && CHANCE(50);
    return samba_interpolate(image(l, dims), &o);
}

static samba_value grid_sample(layer *l)
{
    samba_value x = image(l, 2);
    samba_value grid = samba_tanh(fresh(l, "x", dtype_of(x), 4, SHAPE(size_of(x, 0), SIZE(4), SIZE(4), 2)));
    return samba_grid_sample(x, grid, SAMBA_RESAMPLE_LINEAR, (samba_grid_padding)BELOW(2), CHANCE(50));
}

static samba_value affine_grid(layer *l)
{
    int64_t n = fuzz_batch(l->m, 2);
    return samba_affine_grid(fresh(l, "x", fuzz_float(l->m), 3, SHAPE(n, 2, 3)), 4, SHAPE(n, 1, SIZE(4), SIZE(4)), CHANCE(50));
}

/* ---- norms ---- */
static samba_batch_norm_layer norm_options(layer *l, bool instance)
{
    samba_batch_norm_layer o = {.no_affine = !instance && CHANCE(20),
                                .affine = CHANCE(70),
                                .no_running_stats = !instance && CHANCE(25),
                                .track_running_stats = CHANCE(40),
                                .eps = 0.125,
                                .momentum = CHANCE(50) ? 0 : 0.5,
                                .cumulative = CHANCE(15)};
    return o;
}

static samba_value batch_norm(layer *l)
{
    samba_batch_norm_layer o = norm_options(l, false);
    return samba_batch_norm(CHANCE(20) ? ranked(l, 2) : image(l, 1 + (int)BELOW(3)), "bn", &o);
}

static samba_value instance_norm(layer *l)
{
    samba_batch_norm_layer o = norm_options(l, true);
    return samba_instance_norm(image(l, 1 + (int)BELOW(3)), "in", &o);
}

static samba_value group_norm(layer *l)
{
    samba_value x = image(l, 1 + (int)BELOW(3));
    return samba_group_norm(x, "gn", CHANCE(50) ? 1 : size_of(x, 1),
                            &(samba_norm_options){.no_affine = CHANCE(30), .eps = 0.125});
}

static samba_value layer_norm(layer *l)
{
    return samba_layer_norm_with(
        with_dims(l), "ln",
        &(samba_norm_options){.dims = 1 + (int)BELOW(2), .no_affine = CHANCE(30), .no_bias = CHANCE(30), .eps = 0.125});
}
static samba_value rms_norm(layer *l)
{
    return samba_rms_norm(with_dims(l), "rms",
                          &(samba_norm_options){.dims = 1 + (int)BELOW(2), .no_affine = CHANCE(30), .eps = 0.125});
}

static samba_value weight_norm(layer *l)
{
    samba_value v = ranked(l, 2);
    return samba_weight_norm(v, fresh(l, "x", dtype_of(v), 2, SHAPE(size_of(v, 0), 1)), 0);
}

static samba_value cosine_similarity(layer *l)
{
    samba_value x = with_dims(l);
    return samba_cosine_similarity(x, like(l, x, "x"), dim_of(l, x), 0.125);
}
static samba_value pairwise_distance(layer *l)
{
    samba_value x = with_dims(l);
    return samba_pairwise_distance(x, like(l, x, "p"), 2, 0.125, CHANCE(50));
}

static samba_value cdist(layer *l)
{
    samba_value x = ranked(l, 2);
    return samba_cdist(x, fresh(l, "p", dtype_of(x), 2, SHAPE(SIZE(5), size_of(x, 1))), 2,
                       (samba_cdist_mode)(CHANCE(50) ? SAMBA_CDIST_MM : SAMBA_CDIST_NO_MM));
}

/* ---- dropout, numbers ---- */
static samba_value dropout(layer *l)
{
    samba_value x = samba_dropout(some(l), "drop", 0.25);
    return CHANCE(60) ? x : samba_dropout(x, "drop", 0.25);
}
static samba_value dropout2d(layer *l) { return samba_dropout2d(image(l, 2), "drop", 0.25); }
static samba_value alpha_dropout(layer *l) { return samba_alpha_dropout(some(l), "drop", 0.25); }
static samba_value feature_alpha_dropout(layer *l) { return samba_feature_alpha_dropout(image(l, 1), "drop", 0.25); }
static samba_value rand_(layer *l) { return samba_rand(l->graph, "rand", 2, SHAPE(SIZE(4), SIZE(4))); }

/* ---- indices ---- */
static samba_value embedding(layer *l)
{
    return samba_embedding(index_below(l, 7, 2, SHAPE(fuzz_batch(l->m, 3), SIZE(4))), "emb", 7, SIZE(5));
}

static samba_value embedding_bag(layer *l)
{
    samba_embedding_bag_options o = {.struct_size = sizeof o, .mode = (samba_bag_mode)BELOW(3)};
    return samba_embedding_bag(index_below(l, 7, 2, SHAPE(fuzz_batch(l->m, 3), SIZE(4))), "bag", 7, SIZE(5), &o);
}

static samba_value index_select(layer *l)
{
    samba_value x = with_dims(l);
    int d = dim_of(l, x);
    return samba_index_select(x, d, index_below(l, size_of(x, d), 1, SHAPE(SIZE(5))));
}

static samba_value index_add(layer *l)
{
    samba_value x = with_dims(l);
    if (x.index == SAMBA_NONE)
        return x;
    samba_node node = *samba_node_at(l->graph, x.index);
    int d = dim_of(l, x);
    samba_value index = index_below(l, node.shape[d], 1, SHAPE(3));
    node.shape[d] = 3;
    return samba_index_add(x, d, index, fresh(l, "x", dtype_of(x), node.rank, node.shape), 0.5);
}

static samba_value scatter_add(layer *l)
{
    samba_value x = with_dims(l), source = like(l, x, "x");
    int d = dim_of(l, x);
    return x.index == SAMBA_NONE
               ? x
               : samba_scatter_add(x, d, index_below(l, size_of(x, d), rank_of(x), samba_node_at(l->graph, x.index)->shape),
                                   source);
}

static samba_value index_rows(layer *l)
{
    samba_value x = ranked(l, 2);
    return samba_index(x, 1, (samba_value[]){index_below(l, size_of(x, 0), 2, SHAPE(SIZE(3), SIZE(3)))});
}

static samba_value index_put(layer *l)
{
    samba_value x = ranked(l, 2);
    samba_value rows = index_below(l, size_of(x, 0), 1, SHAPE(3));
    return samba_index_put(x, 1, (samba_value[]){rows}, fresh(l, "x", dtype_of(x), 2, SHAPE(3, size_of(x, 1))), true);
}

/* ---- losses ---- */
static samba_reduction reduction(layer *l) { return (samba_reduction)BELOW(3); }
static samba_value optional(layer *l, samba_value x, const char *kind) { return CHANCE(30) ? like(l, x, kind) : nothing; }
static samba_value mse_loss(layer *l)
{
    samba_value x = some(l);
    return samba_mse_loss(x, like(l, x, "x"), optional(l, x, "p"), reduction(l));
}
static samba_value l1_loss(layer *l)
{
    samba_value x = some(l);
    return samba_l1_loss(x, like(l, x, "x"), nothing, reduction(l));
}
static samba_value smooth_l1_loss(layer *l)
{
    samba_value x = some(l);
    return samba_smooth_l1_loss(x, like(l, x, "x"), 0.75, reduction(l));
}
static samba_value huber_loss(layer *l)
{
    samba_value x = some(l);
    return samba_huber_loss(x, like(l, x, "x"), 0.75, optional(l, x, "p"), reduction(l));
}
static samba_value kl_div(layer *l)
{
    samba_value x = some(l);
    return samba_kl_div(x, like(l, x, "p"), CHANCE(50), reduction(l));
}
static samba_value bce(layer *l)
{
    samba_value x = some(l);
    return samba_binary_cross_entropy(samba_sigmoid(x), like(l, x, "x"), optional(l, x, "p"), reduction(l));
}
static samba_value bce_logits(layer *l)
{
    samba_value x = some(l);
    return samba_binary_cross_entropy_with_logits(x, like(l, x, "x"), nothing, optional(l, x, "p"), reduction(l));
}
static samba_value poisson_nll(layer *l)
{
    samba_value x = some(l);
    return samba_poisson_nll_loss(x, like(l, x, "p"), &(samba_poisson_nll_options){.eps = 1e-2, .reduction = reduction(l)});
}
static samba_value gaussian_nll(layer *l)
{
    samba_value x = some(l);
    return samba_gaussian_nll_loss(x, like(l, x, "x"), like(l, x, "p"),
                                   &(samba_gaussian_nll_options){.eps = 1e-2, .reduction = reduction(l)});
}
static samba_value soft_margin(layer *l)
{
    samba_value x = some(l);
    return samba_soft_margin_loss(x, like(l, x, "x"), reduction(l));
}
static samba_value margin_ranking(layer *l)
{
    samba_value x = some(l);
    return samba_margin_ranking_loss(x, like(l, x, "x"), like(l, x, "x"), 0.25, reduction(l));
}
static samba_value multilabel_soft_margin(layer *l)
{
    samba_value x = ranked(l, 2);
    return samba_multilabel_soft_margin_loss(x, like(l, x, "p"), nothing, reduction(l));
}
static samba_value triplet(layer *l)
{
    samba_value x = ranked(l, 2);
    return samba_triplet_margin_loss(x, like(l, x, "p"), like(l, x, "x"),
                                     &(samba_triplet_margin_options){1.0, 2.0, 0.125, CHANCE(50), reduction(l)});
}
static samba_value multi_margin(layer *l)
{
    samba_value x = ranked(l, 2);
    return samba_multi_margin_loss(x, index_below(l, size_of(x, 1), 1, SHAPE(size_of(x, 0))), NULL);
}

static samba_value nll_loss(layer *l)
{
    samba_value x = ranked(l, 2);
    samba_cross_entropy_options o = samba_cross_entropy_defaults();
    o.reduction = reduction(l);
    o.weight = CHANCE(40) ? fresh(l, "p", dtype_of(x), 1, SHAPE(size_of(x, 1))) : nothing;
    return samba_nll_loss(samba_log_softmax(x, 1), index_below(l, size_of(x, 1), 1, SHAPE(size_of(x, 0))), &o);
}

static samba_value soft_cross_entropy(layer *l)
{
    samba_value x = ranked(l, 2);
    samba_cross_entropy_options o = samba_cross_entropy_defaults();
    o.reduction = reduction(l);
    o.label_smoothing = CHANCE(50) ? 0.25 : 0;
    return samba_cross_entropy_with(x, CHANCE(50) ? like(l, x, "p") : index_below(l, size_of(x, 1), 1, SHAPE(size_of(x, 0))), &o);
}

/* ---- transformers, recurrent layers ---- */
static samba_value attention(layer *l)
{
    samba_value q = ranked(l, 4);
    samba_value k = fresh(l, "x", dtype_of(q), 4, SHAPE(size_of(q, 0), size_of(q, 1), SIZE(5), size_of(q, 3)));
    samba_attention_options o = samba_attention_defaults();
    o.is_causal = CHANCE(40);
    o.dropout = CHANCE(25) ? "drop" : NULL;
    o.dropout_p = 0.25;
    return samba_scaled_dot_product_attention(q, k, like(l, k, "x"), &o);
}

static samba_value multi_head_attention(layer *l)
{
    samba_value x = ranked(l, 3), weights;
    samba_multi_head_options o = {.no_bias = CHANCE(30),
                                  .batch_first = CHANCE(50),
                                  .is_causal = CHANCE(30),
                                  .add_zero_attn = CHANCE(15),
                                  .add_bias_kv = CHANCE(15)};
    o.weights = CHANCE(25) ? &weights : NULL;
    samba_value y = samba_multi_head_attention(x, x, x, "mha", size_of(x, 2) % 2 ? 1 : 2, &o);
    return o.weights && CHANCE(50) ? weights : y;
}

static samba_transformer_options transformer(layer *l)
{
    samba_transformer_options o = {.dim_feedforward = SIZE(6),
                                   .gelu = CHANCE(50),
                                   .norm_first = CHANCE(50),
                                   .batch_first = CHANCE(50),
                                   .no_bias = CHANCE(20),
                                   .dropout_p = CHANCE(30) ? 0.25 : 0,
                                   .layer_norm_eps = 0.125,
                                   .is_causal = CHANCE(30)};
    return o;
}

static samba_value encoder_layer(layer *l)
{
    samba_value x = ranked(l, 3);
    samba_transformer_options o = transformer(l);
    return samba_transformer_encoder_layer(x, "enc", size_of(x, 2) % 2 ? 1 : 2, &o);
}

static samba_value decoder_layer(layer *l)
{
    samba_value x = ranked(l, 3);
    samba_transformer_options o = transformer(l);
    return samba_transformer_decoder_layer(x, like(l, x, "x"), "dec", size_of(x, 2) % 2 ? 1 : 2, &o);
}

static samba_recurrent_options recurrent(layer *l)
{
    samba_recurrent_options o = {.num_layers = CHANCE(70) ? 1 : 2,
                                 .no_bias = CHANCE(25),
                                 .batch_first = CHANCE(50),
                                 .bidirectional = CHANCE(25),
                                 .relu = CHANCE(30)};
    return o;
}

/* A few steps, and the outputs or the last state. */
static samba_value sequence(layer *l) { return fresh(l, "x", fuzz_float(l->m), 3, SHAPE(fuzz_batch(l->m, 3), SIZE(3), SIZE(4))); }
static samba_value of_steps(layer *l)
{
    samba_value x = ranked(l, 3);
    return size_of(x, 0) <= 4 && size_of(x, 1) <= 4 ? x : sequence(l);
}
static samba_value either(layer *l, samba_value y, samba_value state) { return CHANCE(60) ? y : state; }
static samba_value rnn(layer *l)
{
    samba_value s = nothing;
    samba_recurrent_options o = recurrent(l);
    samba_value y = samba_rnn(of_steps(l), "rnn", SIZE(4), &o, &s);
    return either(l, y, s);
}
static samba_value gru(layer *l)
{
    samba_value s = nothing;
    samba_recurrent_options o = recurrent(l);
    samba_value y = samba_gru(of_steps(l), "gru", SIZE(4), &o, &s);
    return either(l, y, s);
}
static samba_value lstm(layer *l)
{
    samba_value s[2] = {nothing, nothing};
    samba_recurrent_options o = recurrent(l);
    samba_value y = samba_lstm(of_steps(l), "lstm", SIZE(4), &o, s);
    return either(l, y, s[BELOW(2)]);
}
static samba_value rnn_cell(layer *l) { return samba_rnn_cell(ranked(l, 2), "cell", SIZE(4), NULL, NULL); }
static samba_value gru_cell(layer *l) { return samba_gru_cell(ranked(l, 2), "cell", SIZE(4), NULL, NULL); }
static samba_value lstm_cell(layer *l)
{
    samba_value s[2] = {nothing, nothing};
    samba_value y = samba_lstm_cell(ranked(l, 2), "cell", SIZE(4), NULL, s);
    return either(l, y, s[1]);
}
static samba_value prelu(layer *l)
{
    samba_value x = image(l, 1 + (int)BELOW(2));
    return samba_prelu(x, "prelu", CHANCE(50) ? 1 : size_of(x, 1), 0.25);
}

static const struct {
    const char *name;
    samba_value (*trace)(layer *l);
    bool meets;
} layers[] = {
#define MEETS(name, call) {#name, unary_##name, true},
#define JUMPS(name, call) {#name, unary_##name, false},
#define LAYER(name) {#name, name, true},
    /* clang-format off */
    MEETING(MEETS) JUMPING(JUMPS) LAYER(linear) LAYER(bilinear) LAYER(outer) LAYER(kron) LAYER(baddbmm) LAYER(einsum)
    LAYER(conv1d) LAYER(conv2d) LAYER(conv3d) LAYER(conv_transpose1d) LAYER(conv_transpose2d) LAYER(conv_transpose3d)
    LAYER(max_pool1d) LAYER(max_pool3d) LAYER(avg_pool1d) LAYER(avg_pool3d) LAYER(adaptive_avg_pool1d) LAYER(adaptive_avg_pool2d)
    LAYER(adaptive_avg_pool3d) LAYER(adaptive_max_pool1d) LAYER(adaptive_max_pool2d) LAYER(lp_pool2d) LAYER(unfold) LAYER(fold)
    LAYER(interpolate) LAYER(grid_sample) LAYER(affine_grid) LAYER(batch_norm) LAYER(batch_norm) LAYER(batch_norm)
    LAYER(instance_norm) LAYER(instance_norm) LAYER(instance_norm) LAYER(group_norm) LAYER(layer_norm) LAYER(rms_norm)
    LAYER(weight_norm) LAYER(cosine_similarity) LAYER(pairwise_distance) LAYER(cdist) LAYER(dropout) LAYER(dropout2d)
    LAYER(alpha_dropout) LAYER(feature_alpha_dropout) LAYER(rand_) LAYER(embedding) LAYER(embedding_bag) LAYER(index_select)
    LAYER(index_add) LAYER(scatter_add) LAYER(index_rows) LAYER(index_put) LAYER(mse_loss) LAYER(l1_loss) LAYER(smooth_l1_loss)
    LAYER(huber_loss) LAYER(kl_div) LAYER(bce) LAYER(bce_logits) LAYER(poisson_nll) LAYER(gaussian_nll) LAYER(soft_margin)
    LAYER(margin_ranking) LAYER(multilabel_soft_margin) LAYER(triplet) LAYER(multi_margin) LAYER(nll_loss)
    LAYER(soft_cross_entropy) LAYER(attention) LAYER(multi_head_attention) LAYER(encoder_layer) LAYER(decoder_layer) LAYER(rnn)
    LAYER(gru) LAYER(lstm) LAYER(rnn_cell) LAYER(gru_cell) LAYER(lstm_cell) LAYER(prelu)
    /* clang-format on */
};

const int fuzz_layer_count = SAMBA_COUNT(layers);
const char *fuzz_layer_name(int index) { return layers[index].name; }

/* ---- into the graph in the making ---- */
/* A buffer where something is assigned to the leaf, else an input. */
static samba_ref leaf(layer *l, samba_ref ref)
{
    const samba_node *node = samba_node_at(l->graph, ref);
    const char *name = samba_graph_name_at(l->graph, node->attrs->leaf.name);
    samba_dtype dtype = (samba_dtype)node->dtype;
    char kind[24];
    if (node->op == SAMBA_OP_argin) {
        int64_t role = node->attrs->argin.role;
        return fuzz_fresh(l->m, role == 1 ? "r" : role == 2 ? "s" : "m", dtype, 0, NULL);
    }
    for (int i = 0; i < l->count; i++)
        if (l->inner[i] == ref)
            return l->outer[i];
    bool positive = strstr(name, "var") || strstr(name, "num_batches");
    for (int64_t i = 0; i < l->graph->sink_count; i++)
        if (l->graph->sinks[i].kind == SAMBA_SINK_ASSIGN && l->graph->sinks[i].target == ref) {
            samba_ref buffer = fuzz_buffer(l->m, positive ? "v" : "b", dtype, node->rank, node->shape);
            if (buffer != SAMBA_NONE)
                return buffer;
        }
    if (node->op != SAMBA_OP_input)
        return fuzz_fresh(l->m, positive ? "p" : "x", dtype, node->rank, node->shape);
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(name, "#"), name);
    return fuzz_fresh(l->m, kind, dtype, node->rank, node->shape);
}

static samba_ref copied(layer *l, samba_ref ref, const samba_ref *map)
{
    const samba_node *node = samba_node_at(l->graph, ref);
    samba_ref inputs[16];
    samba_attrs attrs = fuzz_none();
    memcpy(&attrs, node->attrs, samba_attrs_table[samba_ops[node->op].attrs].size);
    if (node->op == SAMBA_OP_literal)
        attrs.literal.data = samba_graph_blob(l->m->graph, samba_graph_blob_at(l->graph, attrs.literal.data));
    for (int k = 0; k < node->arity && k < 16; k++)
        inputs[k] = map[node->inputs[k]];
    return node->arity > 16 ? SAMBA_NONE : fuzz_add_or_find(l->m, (samba_op)node->op, node->arity, inputs, &attrs);
}

/* The result, if all of it could be added. */
static samba_ref bring(layer *l, samba_ref result)
{
    int64_t count = l->graph->node_count;
    bool *live = calloc((size_t)count, sizeof *live), whole = live != NULL;
    samba_ref *map = calloc((size_t)count, sizeof *map);
    live[result] = whole = whole && map;
    for (int64_t i = 0; i < l->graph->sink_count; i++)
        live[l->graph->sinks[i].value] = true;
    for (int64_t i = count - 1; i >= 0; i--)
        for (int k = 0; k < l->graph->nodes[i].arity; k++)
            live[l->graph->nodes[i].inputs[k]] |= live[i];
    for (int64_t i = 0; i < count && whole; i++) {
        samba_op op = (samba_op)l->graph->nodes[i].op;
        bool named = op == SAMBA_OP_input || op == SAMBA_OP_parameter || op == SAMBA_OP_state || op == SAMBA_OP_argin;
        map[i] = !live[i] ? SAMBA_NONE : named ? leaf(l, (samba_ref)i) : copied(l, (samba_ref)i, map);
        whole = !live[i] || map[i] != SAMBA_NONE;
    }
    for (int64_t i = 0; i < l->graph->sink_count && whole; i++)
        for (int b = 0; b < l->m->buffer_count; b++)
            if (l->graph->sinks[i].kind == SAMBA_SINK_ASSIGN && l->m->buffers[b].buffer == map[l->graph->sinks[i].target])
                l->m->buffers[b].next = map[l->graph->sinks[i].value];
    samba_ref made = whole ? map[result] : SAMBA_NONE;
    free(live);
    free(map);
    return made;
}

samba_ref fuzz_layer(fuzz_maker *m)
{
    layer l = {.m = m};
    int which = (int)fuzz_below(m, fuzz_layer_count);
    samba_ref made = SAMBA_NONE;
    if (samba_graph_new(m->graph->context, "layer", &l.graph) != SAMBA_OK)
        return SAMBA_NONE;
    l.graph->phase = SAMBA_FWD;
    samba_value result = layers[which].trace(&l);
    if (l.graph->status == SAMBA_OK && result.graph == l.graph && result.index != SAMBA_NONE && l.graph->node_count < 500) {
        m->meets = layers[which].meets;
        made = bring(&l, result.index);
        m->meets = false;
    }
    fuzz_count.layers[which][made != SAMBA_NONE]++;
    samba_graph_free(l.graph);
    return made;
}
