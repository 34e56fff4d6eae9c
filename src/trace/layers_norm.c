/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that normalize: parameters and buffers under the names of PyTorch's layers, weights of 1, biases of 0, running
 * statistics of 0 and 1. Running statistics move in runs that train. */
#include "trace/trace.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

static const samba_initializer ones = {SAMBA_INIT_CONSTANT, 1, 0}, zeros = {SAMBA_INIT_ZEROS, 0, 0};
static const samba_norm_options plain;

/* The number of last dims that a layer normalizes, of which the input has as many; 0 after an error. */
static int last_dims(samba_graph *graph, const char *what, const samba_node *x, int dims)
{
    int count = dims ? dims : 1;
    if (count >= 1 && count <= x->rank)
        return count;
    samba_graph_fail_at(graph, SAMBA_ERROR_SHAPE, what,
                        "expected an input of rank %d or more, for %d normalized dims, given rank %d", count < 1 ? 1 : count,
                        count, x->rank);
    return 0;
}

static samba_value over_last_dims(const char *what, samba_value input, const char *name, const samba_norm_options *options,
                                  bool rms)
{
    const samba_norm_options *o = options ? options : &plain;
    samba_graph *graph;
    if (!samba_trace_enter_layer(what, &input, name, true, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    int count = last_dims(graph, what, &x, o->dims);
    if (!count)
        return samba_trace_none(graph);
    const int64_t *shape = x.shape + x.rank - count;
    samba_value weight = {0}, bias = {0};
    if (!o->no_affine)
        weight = samba_parameter(graph, "weight", x.dtype, count, shape, ones);
    if (!rms && !o->no_affine && !o->no_bias)
        bias = samba_parameter(graph, "bias", x.dtype, count, shape, zeros);
    samba_value y = rms ? samba_functional_rms_norm(input, count, shape, weight, o->eps != 0 ? o->eps : -1)
                        : samba_functional_layer_norm(input, count, shape, weight, bias, o->eps != 0 ? o->eps : 1e-5);
    samba_scope_pop(graph);
    return y;
}

samba_value samba_layer_norm_with(samba_value input, const char *name, const samba_norm_options *options)
{
    return over_last_dims("layer_norm", input, name, options, false);
}

samba_value samba_layer_norm(samba_value input, const char *name) { return samba_layer_norm_with(input, name, NULL); }

samba_value samba_rms_norm(samba_value input, const char *name, const samba_norm_options *options)
{
    return over_last_dims("rms_norm", input, name, options, true);
}

/* ---- channels ---- */

/* An input (N, C, ...) of rank least to most. */
static bool need_channels(samba_graph *graph, const char *what, const samba_node *x, int least, int most)
{
    if (x->rank >= least && x->rank <= most)
        return true;
    return samba_graph_refuse(graph, SAMBA_ERROR_SHAPE, what, "expected an input (N, C%s, ...) of rank %d to %d, given %s",
                              least > 2 ? ", L" : "", least, most, SAMBA_TYPE_OF(x));
}

samba_value samba_group_norm(samba_value input, const char *name, int64_t num_groups, const samba_norm_options *options)
{
    const samba_norm_options *o = options ? options : &plain;
    samba_graph *graph;
    if (!samba_trace_enter_layer("group_norm", &input, name, true, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (!need_channels(graph, "group_norm", &x, 2, SAMBA_MAX_RANK))
        return samba_trace_none(graph);
    samba_value weight = {0}, bias = {0};
    if (!o->no_affine) {
        weight = samba_parameter(graph, "weight", x.dtype, 1, &x.shape[1], ones);
        bias = samba_parameter(graph, "bias", x.dtype, 1, &x.shape[1], zeros);
    }
    samba_value y = samba_functional_group_norm(input, num_groups, weight, bias, o->eps != 0 ? o->eps : 1e-5);
    samba_scope_pop(graph);
    return y;
}

typedef samba_value functional_norm(samba_value, samba_value, samba_value, samba_value, samba_value,
                                    const samba_batch_norm_options *);

/* Normalizes in the layer's scope; the running statistics, where there are any, are buffers that runs which train move. */
static samba_value normalize(const char *what, samba_value input, const char *name, int least_rank,
                             const samba_batch_norm_layer *o, bool affine, bool tracks, functional_norm *functional)
{
    samba_graph *graph;
    if (!samba_trace_enter_layer(what, &input, name, true, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (!need_channels(graph, what, &x, least_rank, 5))
        return samba_trace_none(graph);
    if (o->frozen && !tracks) {
        samba_graph_fail_at(graph, SAMBA_ERROR_ARGUMENT, what,
                            "a frozen layer normalizes by running statistics, and this one has none: leave frozen out, or give "
                            "it statistics");
        return samba_trace_none(graph);
    }
    const bool moves = tracks && !o->frozen;
    const int64_t *channels = &x.shape[1];
    samba_dtype dtype = x.dtype;
    samba_batch_norm_options options = samba_batch_norm_defaults();
    samba_value weight = {0}, bias = {0}, mean = {0}, variance = {0}, next_mean, next_var, tracked = {0}, count = {0};
    if (affine) {
        weight = samba_parameter(graph, "weight", dtype, 1, channels, ones);
        bias = samba_parameter(graph, "bias", dtype, 1, channels, zeros);
    }
    options.training = !o->frozen;
    options.eps = o->eps != 0 ? o->eps : options.eps;
    options.momentum = o->momentum != 0 ? o->momentum : options.momentum;
    if (tracks) {
        mean = samba_register_buffer(graph, "running_mean", dtype, 1, channels, zeros);
        variance = samba_register_buffer(graph, "running_var", dtype, 1, channels, ones);
        tracked = samba_register_buffer(graph, "num_batches_tracked", SAMBA_INT64, 0, NULL, zeros);
    }
    if (moves) {
        options.trains = samba_training(graph);
        count = samba_add(tracked, samba_constant(graph, 1, SAMBA_INT64, 0, NULL));
        if (o->cumulative)
            options.average_factor = samba_reciprocal(samba_cast(count, SAMBA_FLOAT64));
        options.next_mean = &next_mean;
        options.next_var = &next_var;
    }
    samba_value y = functional(input, mean, variance, weight, bias, &options);
    if (moves && graph->status == SAMBA_OK) {
        samba_assign(mean, next_mean);
        samba_assign(variance, next_var);
        samba_assign(tracked,
                     samba_where(samba_ne(options.trains, samba_constant(graph, 0, SAMBA_FLOAT64, 0, NULL)), count, tracked));
    }
    samba_scope_pop(graph);
    return y;
}

static const samba_batch_norm_layer defaults;

samba_value samba_batch_norm(samba_value input, const char *name, const samba_batch_norm_layer *options)
{
    const samba_batch_norm_layer *o = options ? options : &defaults;
    return normalize("batch_norm", input, name, 2, o, !o->no_affine, !o->no_running_stats, samba_functional_batch_norm);
}

samba_value samba_sync_batch_norm(samba_value input, const char *name, const samba_batch_norm_layer *options)
{
    const samba_batch_norm_layer *o = options ? options : &defaults;
    return normalize("sync_batch_norm", input, name, 2, o, !o->no_affine, !o->no_running_stats, samba_functional_sync_batch_norm);
}

samba_value samba_instance_norm(samba_value input, const char *name, const samba_batch_norm_layer *options)
{
    const samba_batch_norm_layer *o = options ? options : &defaults;
    return normalize("instance_norm", input, name, 3, o, o->affine, o->track_running_stats, samba_functional_instance_norm);
}
