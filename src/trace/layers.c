/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of torch.nn. A layer is called by name: its name is a scope, in which it makes or finds
 * its parameters under the names and with the initial distributions that PyTorch's layer has. */
#include "trace/trace.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <math.h>

/* The initial distribution of weights and biases of Linear and Conv2d: kaiming_uniform with a = sqrt(5) comes to this. */
static samba_initializer uniform_within(double fan_in)
{
    double bound = fan_in > 0 ? 1.0 / sqrt(fan_in) : 0.0;
    return (samba_initializer){SAMBA_INIT_UNIFORM, -bound, bound};
}

/* ---- linear ---- */

samba_value samba_linear_with(samba_value input, const char *name, int64_t out_features, const samba_linear_options *options)
{
    static const samba_linear_options defaults;
    const samba_linear_options *o = options ? options : &defaults;
    samba_graph *graph;
    if (!samba_trace_enter_layer("linear", &input, name, true, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (x.rank == 0 || out_features < 0)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "linear",
                                "expected an input of rank 1 or more and out_features of 0 or more, given rank %d and %lld",
                                x.rank, (long long)out_features);
    int64_t in_features = x.shape[x.rank - 1];
    samba_initializer initializer = uniform_within((double)in_features);
    samba_linear_weight weight =
        samba_trace_linear_weight(graph, x.dtype, out_features, in_features, o->transposed, o->weight ? *o->weight : initializer);
    samba_value bias = {0};
    if (!o->no_bias)
        bias = samba_parameter(graph, "bias", x.dtype, 1, &out_features, o->bias ? *o->bias : initializer);
    samba_value result;
    if (weight.kept.graph) {
        result = samba_stored_linear(input, weight.kept, weight.scales, weight.transposed);
        result = bias.graph ? samba_add(result, bias) : result;
    } else {
        result = samba_functional_linear(input, weight.wide, bias);
    }
    result = samba_trace_adapt(input, result, weight.wide, bias);
    samba_scope_pop(graph);
    return result;
}

samba_value samba_linear(samba_value input, const char *name, int64_t out_features)
{
    return samba_linear_with(input, name, out_features, NULL);
}

samba_value samba_linear_no_bias(samba_value input, const char *name, int64_t out_features)
{
    return samba_linear_with(input, name, out_features, &(samba_linear_options){.no_bias = true});
}

samba_value samba_bilinear(samba_value input1, samba_value input2, const char *name, int64_t out_features,
                           const samba_linear_options *options)
{
    static const samba_linear_options defaults;
    const samba_linear_options *o = options ? options : &defaults;
    samba_graph *graph;
    if (!samba_trace_enter("bilinear", 2, (samba_value[]){input1, input2}, &graph) ||
        !samba_trace_enter_layer("bilinear", &input1, name, true, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input1), y = samba_trace_node(input2);
    if (x.rank == 0 || y.rank == 0 || out_features < 0)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "bilinear",
                                "expected inputs of rank 1 or more and out_features of 0 or more, given ranks %d and %d and %lld",
                                x.rank, y.rank, (long long)out_features);
    samba_initializer initializer = uniform_within((double)x.shape[x.rank - 1]);
    samba_value weight =
        samba_parameter(graph, "weight", x.dtype, 3, (int64_t[]){out_features, x.shape[x.rank - 1], y.shape[y.rank - 1]},
                        o->weight ? *o->weight : initializer);
    samba_value bias = {NULL, 0, 0};
    if (!o->no_bias)
        bias = samba_parameter(graph, "bias", x.dtype, 1, &out_features, o->bias ? *o->bias : initializer);
    samba_value result = samba_functional_bilinear(input1, input2, weight, bias);
    samba_scope_pop(graph);
    return result;
}

/* ---- slopes ---- */

samba_value samba_prelu(samba_value input, const char *name, int64_t num_parameters, double init)
{
    samba_graph *graph;
    if (!samba_trace_enter_layer("prelu", &input, name, true, &graph))
        return samba_trace_none(graph);
    samba_value weight = samba_parameter(graph, "weight", samba_value_dtype(input), 1, &num_parameters,
                                         (samba_initializer){SAMBA_INIT_CONSTANT, init, 0});
    samba_value y = samba_functional_prelu(input, weight);
    samba_scope_pop(graph);
    return y;
}

/* ---- layers in a row ---- */

samba_value samba_sequential(samba_value input, const char *name, int count, const samba_layer *layers)
{
    samba_graph *graph;
    if (!samba_trace_enter_layer("sequential", &input, name, false, &graph))
        return samba_trace_none(graph);
    if (count < 0 || (count > 0 && !layers))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "sequential", "expected 0 layers or more, given %s%d",
                                count > 0 ? "NULL for " : "", count);
    samba_value x = input;
    for (int i = 0; i < count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        if (!layers[i].layer == !layers[i].function)
            return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "sequential", "layer %d must be a layer or a function, given %s",
                                    i, layers[i].layer ? "both" : "neither");
        x = layers[i].layer ? layers[i].layer(x, number, layers[i].options) : layers[i].function(x);
    }
    samba_scope_pop(graph);
    return x;
}

/* ---- embedding, dropout ---- */

samba_value samba_embedding_with(samba_value index, const char *name, int64_t num_embeddings, int64_t embedding_dim,
                                 const samba_embedding_options *options)
{
    samba_graph *graph;
    if (!samba_trace_enter_layer("embedding", &index, name, false, &graph))
        return samba_trace_none(graph);
    samba_initializer initializer = {SAMBA_INIT_NORMAL, 0, 1};
    if (options && options->has_padding_idx && options->padding_idx >= -num_embeddings && options->padding_idx < num_embeddings)
        initializer = (samba_initializer){SAMBA_INIT_NORMAL_BUT_ROW,
                                          (double)(options->padding_idx + (options->padding_idx < 0 ? num_embeddings : 0)), 1};
    samba_value weight =
        samba_parameter(graph, "weight", SAMBA_FLOAT32, 2, (int64_t[]){num_embeddings, embedding_dim}, initializer);
    samba_value y = samba_functional_embedding(index, weight, options);
    samba_scope_pop(graph);
    return y;
}

samba_value samba_embedding(samba_value index, const char *name, int64_t num_embeddings, int64_t embedding_dim)
{
    return samba_embedding_with(index, name, num_embeddings, embedding_dim, NULL);
}

samba_value samba_embedding_bag(samba_value index, const char *name, int64_t num_embeddings, int64_t embedding_dim,
                                const samba_embedding_bag_options *options)
{
    samba_graph *graph;
    if (!samba_trace_enter_layer("embedding_bag", &index, name, false, &graph))
        return samba_trace_none(graph);
    samba_value weight = samba_parameter(graph, "weight", SAMBA_FLOAT32, 2, (int64_t[]){num_embeddings, embedding_dim},
                                         (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
    samba_value y = samba_functional_embedding_bag(index, weight, options);
    samba_scope_pop(graph);
    return y;
}

/* The seed of this call: that of the name plus how many nodes have `used` by now. */
static samba_ref seed_of_call(samba_graph *graph, samba_ref seed, samba_ref used)
{
    int64_t calls = 0;
    for (int64_t i = 0; used != SAMBA_NONE && i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].arity; k++)
            calls += graph->nodes[i].inputs[k] == used;
    return calls > 0 ? samba_emit_scalar(graph, SAMBA_OP_add, seed, (double)calls) : seed;
}

bool samba_trace_dropout(samba_graph *graph, const char *what, const char *name, double p, samba_ref *rate, samba_ref *seed)
{
    samba_scope_push(graph, name);
    if (graph->status == SAMBA_OK && !(p >= 0.0 && p <= 1.0))
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, what, "p must be from 0 to 1, given %g", p);
    if (graph->status != SAMBA_OK)
        return false;
    *rate = samba_trace_argin(graph, "p", SAMBA_FLOAT64, p, 1);
    *seed = samba_trace_argin(graph, "seed", SAMBA_INT64, 0, 2);
    *seed = seed_of_call(graph, *seed, *rate);
    samba_scope_pop(graph);
    return graph->status == SAMBA_OK;
}

samba_value samba_rand(samba_graph *graph, const char *name, int rank, const int64_t *shape)
{
    if (!samba_trace_check_shape(graph, "rand", rank, shape))
        return samba_trace_none(graph);
    samba_scope_push(graph, name);
    samba_ref seed = samba_trace_argin(graph, "seed", SAMBA_INT64, 0, 2);
    seed = seed_of_call(graph, seed, seed);
    samba_attrs attrs = {.random = {.shape = samba_dims_of(rank, shape)}};
    samba_ref numbers = seed == SAMBA_NONE ? SAMBA_NONE : samba_emit(graph, SAMBA_OP_random, 1, &seed, &attrs);
    samba_scope_pop(graph);
    return samba_trace_value(graph, numbers);
}

samba_value samba_dropout(samba_value input, const char *name, double p)
{
    samba_graph *graph;
    samba_ref rate, seed;
    if (!samba_trace_enter("dropout", 1, &input, &graph) || !samba_trace_need_floating(input, "dropout") ||
        !samba_trace_dropout(graph, "dropout", name, p, &rate, &seed))
        return samba_trace_none(graph);
    samba_scope_push(graph, name);
    samba_ref y = samba_emit3(graph, SAMBA_OP_dropout, input.index, rate, seed);
    samba_scope_pop(graph);
    return samba_trace_value(graph, y);
}
