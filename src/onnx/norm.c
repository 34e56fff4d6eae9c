/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalizations, and dropout. */
#include "onnx/onnx.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/layers.h>
#include <sambaflow/norm.h>
#include <sambaflow/pool.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_buffer(samba_value value)
{
    const samba_node *node = samba_node_at(value.graph, value.index);
    return node->op == SAMBA_OP_state;
}

static int64_t flag_of(const Samba__Onnx__NodeProto *proto, const char *name)
{
    for (size_t i = 0; i < proto->n_attribute; i++)
        if (proto->attribute[i]->name && strcmp(proto->attribute[i]->name, name) == 0)
            return proto->attribute[i]->i;
    return 0;
}

/* Whether a node says that its statistics are the batch's. */
static bool says_training(const Samba__Onnx__NodeProto *proto, int64_t version)
{
    return version >= 14  ? flag_of(proto, "training_mode") != 0
           : version >= 7 ? proto->n_output > 1
                          : flag_of(proto, "is_test") == 0;
}

/* Whether the model tells what of it trains, as one that was exported in train(): there a node that does not say so is a part
 * that stood in eval(). Where no node says it, the model was exported in eval() as a whole, and all may train. */
static bool tells_modes(const samba_onnx_node *node)
{
    samba_onnx_reader *reader = node->reader;
    const Samba__Onnx__GraphProto *graph = reader->model->message->graph;
    for (size_t i = 0; i < graph->n_node && reader->tells_modes == 0; i++)
        if (graph->node[i]->op_type && strcmp(graph->node[i]->op_type, node->op) == 0 &&
            says_training(graph->node[i], node->version))
            reader->tells_modes = 1;
    if (reader->tells_modes == 0)
        reader->tells_modes = -1;
    return reader->tells_modes > 0;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static samba_status find_used(samba_onnx_reader *reader)
{
    const Samba__Onnx__GraphProto *graph = reader->model->message->graph;
    size_t count = graph->n_output;
    for (size_t i = 0; i < graph->n_node; i++)
        count += graph->node[i]->n_input;
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, reader->used, count + 1));
    for (size_t i = 0; i < graph->n_output; i++)
        if (graph->output[i]->name)
            reader->used[reader->used_count++] = graph->output[i]->name;
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_input; k++)
            reader->used[reader->used_count++] = graph->node[i]->input[k];
    qsort(reader->used, reader->used_count, sizeof *reader->used, compare_names);
    return SAMBA_OK;
}

/* Whether the model does anything with a node's result; inside functions and graphs of nodes that is taken for granted. */
static bool is_used(samba_onnx_node *node, int output)
{
    samba_onnx_reader *reader = node->reader;
    if (!samba_onnx_wants(node, output) || reader->depth > 0)
        return reader->depth > 0;
    if (!reader->used && find_used(reader) != SAMBA_OK) {
        samba_onnx_refuse(node, "%s", samba_error_message(reader->context));
        return true;
    }
    const char *const *name = (const char *const *)&node->proto->output[output];
    return bsearch(name, reader->used, reader->used_count, sizeof *reader->used, compare_names) != NULL;
}

/* Where the model is read for training its statistics are the batch's in runs that train, and the running ones move. A node that
 * says training_mode is so always where the model is not, or uses what the statistics become. */
void samba_onnx_batch_normalization(samba_onnx_node *node);
void samba_onnx_batch_normalization(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1), bias = samba_onnx_need(node, 2), next_mean,
                next_var;
    double eps = samba_onnx_float(node, "epsilon", 1e-5), momentum = samba_onnx_float(node, "momentum", 0.9);
    bool always = node->version >= 14  ? samba_onnx_flag(node, "training_mode", false)
                  : node->version >= 7 ? node->output_count > 1
                                       : !samba_onnx_flag(node, "is_test", false);
    const samba_onnx_options *reads = &node->reader->options;
    const bool uses = always && (reads->train || reads->evaluate) && (is_used(node, 1) || is_used(node, 2));
    always = always && (uses || !reads->evaluate);
    bool may_train = reads->train && node->reader->depth == 0 && (always ? !uses : !tells_modes(node));
    if (node->version < 9 && !samba_onnx_flag(node, "spatial", true) && samba_onnx_rank(a) > 2) {
        samba_onnx_refuse(node, "spatial is 0, statistics of each pixel; those of a channel (1) are supported");
        return;
    }
    const samba_onnx_item *mean_item = samba_onnx_item_in(node, 3), *var_item = samba_onnx_item_in(node, 4);
    samba_value mean, var;
    if (node->refused)
        return;
    bool running = false; /* they are the model's own: nothing trains them but this node */
    if (may_train && mean_item && var_item && mean_item->initializer && var_item->initializer) {
        mean = samba_onnx_buffer(node, 3);
        var = samba_onnx_buffer(node, 4);
    } else {
        mean = samba_onnx_need(node, 3);
        var = samba_onnx_need(node, 4);
    }
    if (node->refused)
        return;
    running = may_train && is_buffer(mean) && is_buffer(var);
    samba_batch_norm_options options = samba_batch_norm_defaults();
    samba_dtype dtype = samba_value_dtype(a), statistics = samba_value_dtype(mean);
    weight = samba_cast(weight, dtype);
    bias = samba_cast(bias, dtype);
    samba_value own_mean = samba_cast(mean, dtype), own_var = samba_cast(var, dtype);
    options.eps = eps;
    options.momentum = 1 - momentum;
    options.training = always;
    options.next_mean = &next_mean;
    options.next_var = &next_var;
    if (running)
        options.trains = samba_training(node->graph);
    if (running || !always) {
        if (!running)
            options.next_mean = options.next_var = NULL;
        samba_onnx_out(node, 0, samba_functional_batch_norm(a, own_mean, own_var, weight, bias, &options));
        if (running && !node->refused) {
            next_mean = samba_cast(next_mean, statistics);
            next_var = samba_cast(next_var, statistics);
            samba_assign(mean, next_mean);
            samba_assign(var, next_var);
        }
        samba_onnx_out(node, 1, running ? next_mean : mean); /* which nothing reads */
        samba_onnx_out(node, 2, running ? next_var : var);
        return;
    }
    samba_onnx_out(node, 0, samba_functional_batch_norm(a, own_mean, own_var, weight, bias, &options));
    if (node->refused || (!samba_onnx_wants(node, 1) && !samba_onnx_wants(node, 2)))
        return;
    /* ONNX's running variance is the biased one */
    int dims[SAMBA_MAX_RANK], count = 0;
    for (int i = 0; i < samba_value_rank(a); i++)
        if (i != 1)
            dims[count++] = i;
    samba_value keep = samba_onnx_number(node, momentum), share = samba_onnx_number(node, 1 - momentum);
    samba_value batch_mean, batch_var = samba_var_mean(a, count, dims, 0, false, &batch_mean);
    samba_value old_mean = samba_mul(mean, keep), new_mean = samba_mul(batch_mean, share);
    samba_value old_var = samba_mul(var, keep), new_var = samba_mul(batch_var, share);
    samba_value moved_mean = samba_add(old_mean, new_mean), moved_var = samba_add(old_var, new_var);
    samba_onnx_out(node, 1, samba_cast(moved_mean, statistics));
    samba_onnx_out(node, 2, samba_cast(moved_var, statistics));
}

void samba_onnx_layer_normalization(samba_onnx_node *node);
void samba_onnx_layer_normalization(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_in(node, 1), bias = samba_onnx_in(node, 2);
    double eps = samba_onnx_float(node, "epsilon", 1e-5);
    samba_onnx_int(node, "stash_type", 1);
    if (node->refused)
        return;
    int rank = samba_value_rank(a), axis = samba_onnx_axis(node, "axis", -1, rank), count = rank - axis, dims[SAMBA_MAX_RANK];
    int64_t shape[SAMBA_MAX_RANK];
    if (axis < 0)
        return;
    samba_onnx_shape(a, shape);
    /* scale and bias broadcast: PyTorch's have the shape of what is normalized */
    bool fits = true;
    for (int k = 0; k < 2; k++) {
        samba_value v = k ? bias : weight;
        int64_t own[SAMBA_MAX_RANK];
        if (!v.graph)
            continue;
        samba_onnx_shape(v, own);
        fits &= samba_shape_equal(samba_value_rank(v), own, count, shape + axis);
    }
    if (!samba_onnx_wants(node, 1) && !samba_onnx_wants(node, 2) && fits) {
        samba_onnx_out(node, 0, samba_functional_layer_norm(a, count, shape + axis, weight, bias, eps));
        return;
    }
    for (int i = 0; i < count; i++)
        dims[i] = axis + i;
    samba_dtype dtype = samba_value_dtype(a);
    samba_value wide = dtype == SAMBA_FLOAT64 ? a : samba_cast(a, SAMBA_FLOAT32), mean;
    samba_value var = samba_var_mean(wide, count, dims, 0, true, &mean), small = samba_onnx_number(node, eps),
                sum = samba_add(var, small);
    samba_value inverse = samba_rsqrt(sum), none = {NULL, 0, 0};
    samba_value y = samba_functional_layer_norm(a, count, shape + axis, fits ? weight : none, fits ? bias : none, eps);
    if (!fits && weight.graph)
        y = samba_mul(y, weight);
    if (!fits && bias.graph)
        y = samba_add(y, bias);
    samba_onnx_out(node, 0, y);
    samba_onnx_out(node, 1, mean);
    samba_onnx_out(node, 2, inverse);
}

void samba_onnx_rms_normalization(samba_onnx_node *node);
void samba_onnx_rms_normalization(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1);
    double eps = samba_onnx_float(node, "epsilon", 1e-5);
    samba_onnx_int(node, "stash_type", 1);
    if (node->refused)
        return;
    int rank = samba_value_rank(a), axis = samba_onnx_axis(node, "axis", -1, rank);
    int64_t shape[SAMBA_MAX_RANK], own[SAMBA_MAX_RANK];
    if (axis < 0)
        return;
    samba_onnx_shape(a, shape);
    samba_onnx_shape(weight, own);
    samba_dtype dtype = samba_value_dtype(a);
    if (samba_value_dtype(weight) == dtype && samba_shape_equal(samba_value_rank(weight), own, rank - axis, shape + axis)) {
        samba_onnx_out(node, 0, samba_functional_rms_norm(a, rank - axis, shape + axis, weight, eps));
        return;
    }
    samba_value y = samba_functional_rms_norm(a, rank - axis, shape + axis, (samba_value){NULL, 0, 0}, eps);
    samba_value scaled = samba_mul(y, weight);
    samba_onnx_out(node, 0, samba_cast(scaled, samba_value_dtype(weight)));
}

void samba_onnx_group_normalization(samba_onnx_node *node);
void samba_onnx_group_normalization(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1), bias = samba_onnx_need(node, 2);
    int64_t groups = samba_onnx_int(node, "num_groups", 0);
    double eps = samba_onnx_float(node, "epsilon", 1e-5);
    samba_onnx_int(node, "stash_type", 1);
    if (node->refused)
        return;
    int64_t channels = samba_value_rank(a) > 1 ? samba_value_size(a, 1) : 0;
    if (node->version >= 21 || groups == channels) {
        samba_onnx_out(node, 0, samba_functional_group_norm(a, groups, weight, bias, eps));
        return;
    }
    /* versions 18 to 20: one scale and bias a group */
    if (groups < 1 || channels % groups) {
        samba_onnx_refuse(node, "%lld channels are no %lld groups", (long long)channels, (long long)groups);
        return;
    }
    samba_value each_weight = samba_repeat_interleave(weight, channels / groups, 0);
    samba_value each_bias = samba_repeat_interleave(bias, channels / groups, 0);
    samba_onnx_out(node, 0, samba_functional_group_norm(a, groups, each_weight, each_bias, eps));
}

void samba_onnx_instance_normalization(samba_onnx_node *node);
void samba_onnx_instance_normalization(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), weight = samba_onnx_need(node, 1), bias = samba_onnx_need(node, 2),
                none = {NULL, 0, 0};
    samba_batch_norm_options options = samba_batch_norm_defaults();
    options.eps = samba_onnx_float(node, "epsilon", 1e-5);
    options.training = true;
    if (!node->refused)
        samba_onnx_out(node, 0, samba_functional_instance_norm(a, none, none, weight, bias, &options));
}

/* x / max(its p-norm along the axis, the least that is no 0) */
void samba_onnx_lp_normalization(samba_onnx_node *node);
void samba_onnx_lp_normalization(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double p = (double)samba_onnx_int(node, "p", 2);
    if (node->refused)
        return;
    int axis = samba_onnx_axis(node, "axis", -1, samba_value_rank(a));
    if (axis < 0)
        return;
    samba_value norm = samba_vector_norm(a, p, 1, &axis, true), zero = samba_onnx_like(node, 0, a),
                one = samba_onnx_like(node, 1, a);
    samba_value nothing = samba_eq(norm, zero), divisor = samba_where(nothing, one, norm); /* 0 / 0 is 0 */
    samba_onnx_out(node, 0, samba_div(a, divisor));
}

void samba_onnx_mean_variance_normalization(samba_onnx_node *node);
void samba_onnx_mean_variance_normalization(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), mean;
    int64_t axes[SAMBA_MAX_RANK] = {0, 2, 3};
    int count = samba_onnx_ints(node, "axes", SAMBA_MAX_RANK, axes), dims[SAMBA_MAX_RANK];
    if (node->refused)
        return;
    count = count < 0 ? 3 : count;
    for (int i = 0; i < count; i++)
        if ((dims[i] = samba_onnx_fit_dim(node, axes[i], samba_value_rank(a))) < 0)
            return;
    samba_value var = samba_var_mean(a, count, dims, 0, true, &mean), small = samba_onnx_number(node, 1e-9);
    samba_value centred = samba_sub(a, mean), root = samba_sqrt(var), divisor = samba_add(root, small);
    samba_onnx_out(node, 0, samba_div(centred, divisor));
}

/* x / (bias + alpha / size * sum of squares of neighbouring channels)^beta */
void samba_onnx_lrn(samba_onnx_node *node);
void samba_onnx_lrn(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double alpha = samba_onnx_float(node, "alpha", 0.0001), beta = samba_onnx_float(node, "beta", 0.75),
           bias = samba_onnx_float(node, "bias", 1);
    int64_t size = samba_onnx_int(node, "size", 0);
    if (node->refused)
        return;
    if (samba_value_rank(a) < 2 || size < 1 || size > 4096) {
        samba_onnx_refuse(node, "a value (N, C, ...) and a size of 1 to 4096 are expected");
        return;
    }
    int64_t shape[SAMBA_MAX_RANK], before = (size - 1) / 2, after = size - 1 - before;
    samba_onnx_shape(a, shape);
    samba_value square = samba_square(a), turned = samba_transpose(square, 1, -1);
    samba_value padded = samba_pad(turned, 1, (const int64_t[]){before, after}, SAMBA_PAD_CONSTANT, 0);
    samba_value windows = samba_windows(padded, -1, size, 1);
    int last = -1;
    samba_value sums = samba_sum(windows, 1, &last, false), back = samba_transpose(sums, 1, -1);
    samba_value factor = samba_onnx_number(node, alpha / (double)size), start = samba_onnx_number(node, bias),
                power = samba_onnx_number(node, beta);
    samba_value scaled = samba_mul(back, factor), base = samba_add(scaled, start), divisor = samba_pow(base, power);
    samba_onnx_out(node, 0, samba_div(a, divisor));
}

/* ---- dropout ---- */

/* In runs that train, where the model is read for training; a rate that an input says is its initial one. */
void samba_onnx_dropout(samba_onnx_node *node);
void samba_onnx_dropout(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double rate = node->version < 12 ? samba_onnx_float(node, "ratio", 0.5) : samba_onnx_known_double(node, 1, "the ratio", 0.5);
    bool says_so = node->version < 7
                       ? !samba_onnx_flag(node, "is_test", false)
                       : node->version >= 12 && samba_onnx_has(node, 2) && samba_onnx_known_int(node, 2, "training_mode", 0) != 0;
    int64_t seed = samba_onnx_int(node, "seed", 0);
    (void)seed; /* ONNX leaves open which numbers a seed gives */
    if (node->refused)
        return;
    says_so = says_so && !node->reader->options.evaluate;
    bool drops = rate > 0 && (node->reader->options.train || says_so);
    if (drops && says_so && !node->reader->options.train) {
        samba_onnx_refuse(node, "it drops whenever it runs (%s): that needs a model that is read for training",
                          node->version < 7 ? "is_test is 0" : "training_mode is set");
        return;
    }
    int64_t shape[SAMBA_MAX_RANK];
    samba_onnx_shape(a, shape);
    if (!drops) {
        samba_onnx_out(node, 0, a);
        if (samba_onnx_wants(node, 1))
            samba_onnx_out(node, 1, samba_constant(node->graph, 1, SAMBA_BOOL, samba_value_rank(a), shape));
        return;
    }
    char name[64];
    snprintf(name, sizeof name, "dropout_%lld", (long long)node->reader->draws++);
    if (!samba_onnx_wants(node, 1)) {
        samba_onnx_out(node, 0, samba_dropout(a, name, rate));
        return;
    }
    /* What is left of ones tells which elements were kept, whatever they are. */
    samba_value ones = samba_constant(node->graph, 1, samba_value_dtype(a), samba_value_rank(a), shape);
    samba_value factors = samba_dropout(ones, name, rate), zero = samba_onnx_number(node, 0), kept = samba_ne(factors, zero);
    samba_value scaled = samba_mul(a, factors), nothing = samba_onnx_like(node, 0, a);
    samba_onnx_out(node, 0, samba_where(kept, scaled, nothing)); /* 0 times an infinity is none */
    samba_onnx_out(node, 1, kept);
}
