/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the graphs of public functions that are made of several operators. Nodes are numbered as they are made, so these texts
 * are the same wherever each function says in which order it makes them, whatever compiler it was built with: same.sh compares
 * what two programs print. Which functions: those of src/trace that once left the order to the compiler. */
#include <sambaflow/sambaflow.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SHAPE(...)                                                                                                               \
    (const int64_t[]) { __VA_ARGS__ }
#define RANK(...) ((int)(sizeof(SHAPE(__VA_ARGS__)) / sizeof(int64_t)))
#define P(name, ...) parameter(g, name, SAMBA_FLOAT32, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))

static samba_context *context;
static const samba_value none;

static void need(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "graphs: %s\n", samba_error_message(context));
    exit(1);
}

static samba_value parameter(samba_graph *g, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_value p = samba_parameter(g, name, SAMBA_FLOAT32, rank, shape, (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    return dtype == SAMBA_FLOAT32 ? p : samba_cast(p, dtype);
}

static void out(samba_graph *g, samba_value value)
{
    char name[16];
    static int count;
    snprintf(name, sizeof name, "y%d", count++);
    samba_output(g, name, value);
    need(samba_graph_status(g));
}

static void elementwise(samba_graph *g)
{
    const double most = 9;
    samba_value x = P("x", 2, 3), y = P("y", 2, 3), z = P("z", 2, 3), w = P("w", 3), number = samba_number(g, 2);
    samba_value half = samba_cast(x, SAMBA_BFLOAT16), whole = samba_cast(y, SAMBA_INT32);
    out(g, samba_add(half, whole));
    out(g, samba_atan2(half, whole));
    out(g, samba_remainder(whole, half));
    out(g, samba_add_alpha(half, whole, number));
    out(g, samba_addcmul(half, y, whole, number));
    out(g, samba_addcdiv(half, y, z, number));
    out(g, samba_isclose(x, y, 1e-5, 1e-8, true));
    out(g, samba_logical_and(x, whole));
    out(g, samba_where(samba_gt(x, y), half, whole));
    out(g, samba_fmax(half, whole));
    out(g, samba_nan_to_num(x, 1, &most, NULL));
    out(g, samba_heaviside(half, whole));
    out(g, samba_logaddexp(half, whole));
    out(g, samba_xlogy(half, whole));
    out(g, samba_leaky_relu(x, 0.01));
    out(g, samba_functional_prelu(x, w));
    out(g, samba_hardtanh(x, -1, 1));
    out(g, samba_hardsigmoid(x));
    out(g, samba_hardswish(x));
    out(g, samba_tanhshrink(x));
    out(g, samba_tanhshrink(samba_cast(x, SAMBA_FLOAT64)));
    out(g, samba_softshrink(x, 0.5));
}

static void arranged(samba_graph *g)
{
    samba_value x = P("x", 4, 6), y = P("y", 4, 6), a = P("a", 3), b = P("b", 5), indices;
    samba_value index = samba_cast(P("i", 4, 6), SAMBA_INT64), m = P("m", 6, 2), n = P("n", 2, 9);
    samba_value whole = samba_cast(x, SAMBA_INT32), more = samba_cast(y, SAMBA_INT32);
    out(g, samba_roll(x, 1, SHAPE(2), (const int[]){1}));
    out(g, samba_windows(x, 1, 3, 2));
    out(g, samba_as_strided(x, 2, SHAPE(3, 2), SHAPE(5, 2), 1));
    out(g, samba_eye(g, 3, 4, SAMBA_FLOAT32));
    out(g, samba_linspace(g, -1, 2, 7, SAMBA_FLOAT32));
    out(g, samba_put(x, index, y, true));
    out(g, samba_scatter_reduce(x, 0, index, y, SAMBA_SCATTER_MEAN, false));
    out(g, samba_scatter_reduce(whole, 0, index, more, SAMBA_SCATTER_MEAN, true));
    out(g, samba_prod(x, 1, (const int[]){1}, false));
    out(g, samba_nanmedian(x, 1, false, &indices));
    out(g, indices);
    out(g, samba_median_of_all(x));
    out(g, samba_outer(a, b));
    out(g, samba_kron(x, y));
    out(g, samba_multi_dot(3, (const samba_value[]){x, m, n}));
    out(g, samba_einsum("ij,kj->ik", 2, (const samba_value[]){x, y}));
    out(g, samba_einsum("ij,ik->ijk", 2, (const samba_value[]){x, y}));
    out(g, samba_functional_bilinear(x, y, P("weight", 2, 6, 6), none));
    out(g, samba_cosine_similarity(x, y, 1, 1e-8));
    out(g, samba_cdist(x, y, 1, SAMBA_CDIST_NO_MM));
    out(g, samba_gumbel_softmax(x, "gumbel", 0.5, true, 1));
}

static void losses(samba_graph *g)
{
    samba_value x = P("x", 4, 6), y = P("y", 4, 6), w = P("w", 4, 6), sign = P("sign", 4);
    samba_value label = samba_cast(P("label", 4), SAMBA_INT64), labels = samba_cast(P("labels", 4, 6), SAMBA_INT64);
    samba_cross_entropy_options smooth = samba_cross_entropy_defaults();
    smooth.label_smoothing = 0.1;
    smooth.weight = P("classes", 6);
    out(g, samba_cross_entropy_with(x, label, &smooth));
    out(g, samba_l1_loss(x, y, w, SAMBA_MEAN));
    out(g, samba_smooth_l1_loss(x, y, 1, SAMBA_MEAN));
    out(g, samba_huber_loss(x, y, 2, none, SAMBA_SUM));
    out(g, samba_kl_div(x, y, false, SAMBA_BATCH_MEAN));
    out(g, samba_kl_div(x, y, true, SAMBA_MEAN));
    out(g, samba_binary_cross_entropy(x, y, none, SAMBA_MEAN));
    out(g, samba_poisson_nll_loss(x, y, NULL));
    out(g, samba_gaussian_nll_loss(x, y, w, NULL));
    out(g, samba_cosine_embedding_loss(x, y, sign, 0.1, SAMBA_MEAN));
    out(g, samba_multilabel_margin_loss(x, labels, SAMBA_MEAN));
    out(g, samba_multilabel_soft_margin_loss(x, y, none, SAMBA_MEAN));
}

static void layers(samba_graph *g)
{
    samba_value image = P("image", 2, 3, 6, 8), steps = P("steps", 2, 4, 6), volume = P("volume", 2, 2, 4, 6, 8);
    samba_value grid = P("grid", 2, 5, 4, 2), theta = P("theta", 2, 2, 3), index = samba_cast(P("index", 2, 4), SAMBA_INT64);
    samba_embedding_options rows = {sizeof rows, true, 1, true};
    out(g, samba_lstm(steps, "lstm", 5, NULL, NULL));
    out(g, samba_gru(steps, "gru", 5, NULL, NULL));
    out(g, samba_rotary_embedding(steps, NULL));
    out(g, samba_batch_norm(image, "bn", NULL));
    out(g, samba_functional_embedding(index, P("table", 7, 6), &rows));
    out(g, samba_lp_pool1d(steps, 2, 2, 2, false));
    out(g, samba_max_pool3d(volume, SHAPE(2, 2, 2), NULL));
    out(g, samba_max_pool3d_indices(volume, SHAPE(2, 2, 2), NULL));
    for (int padding = SAMBA_GRID_ZEROS; padding <= SAMBA_GRID_REFLECTION; padding++) {
        out(g, samba_grid_sample(image, grid, SAMBA_RESAMPLE_LINEAR, (samba_grid_padding)padding, padding > 0));
        out(g, samba_grid_sample(image, grid, SAMBA_RESAMPLE_BICUBIC, (samba_grid_padding)padding, false));
    }
    out(g, samba_affine_grid(theta, 4, SHAPE(2, 3, 5, 4), false));
    samba_value weights;
    samba_multi_head_options heads = {.is_causal = true, .weights = &weights};
    out(g, samba_multi_head_attention(steps, steps, steps, "heads", 2, &heads));
    out(g, weights);
}

int main(void)
{
    static void (*const parts[])(samba_graph *g) = {elementwise, arranged, losses, layers};
    need(samba_context_new(NULL, &context));
    for (int i = 0; i < 4; i++) {
        samba_graph *graph;
        char *text;
        need(samba_graph_new(context, "graphs", &graph));
        parts[i](graph);
        need(samba_graph_print(graph, &text));
        fputs(text, stdout);
        samba_text_free(context, text);
        samba_graph_free(graph);
    }
    samba_context_free(context);
    return 0;
}
