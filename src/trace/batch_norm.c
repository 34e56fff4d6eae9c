/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm, sync_batch_norm and instance_norm, and what their running statistics become. Whether the statistics are the
 * batch's is known while tracing (training) or decided by each run (trains): then both are in the graph, a number a channel, and
 * a run chooses. */
#include "ops/norm.h"
#include "trace/trace.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>

typedef struct normalizing {
    const char *what;
    samba_graph *graph;
    samba_value input, running_mean, running_var, weight, bias;
    samba_batch_norm_options options;
    samba_node x;
    int64_t channels, count; /* count: elements behind each statistic */
} normalizing;

static bool fail_statistics(const normalizing *n, const char *missing)
{
    return samba_graph_refuse(n->graph, SAMBA_ERROR_ARGUMENT, n->what, "%s: give running_mean and running_var, or set training",
                              missing);
}

/* Enters, fills in what was left out and checks what the operators do not. */
static bool start(normalizing *n, int least_rank, const samba_batch_norm_options *options)
{
    n->options = options ? *options : samba_batch_norm_defaults();
    samba_batch_norm_options *o = &n->options;
    const samba_value values[] = {n->input, n->running_mean, n->running_var, n->weight, n->bias, o->trains, o->average_factor};
    const bool entered = samba_trace_enter_optional(n->what, SAMBA_COUNT(values), values, &n->graph);
    if (o->next_mean)
        *o->next_mean = samba_trace_none(n->graph);
    if (o->next_var)
        *o->next_var = samba_trace_none(n->graph);
    if (!entered || !samba_trace_need_floating(n->input, n->what))
        return false;
    n->x = samba_trace_node(n->input);
    if (n->x.rank < least_rank)
        return samba_graph_refuse(n->graph, SAMBA_ERROR_SHAPE, n->what,
                                  "expected an input (N, C, ...) of rank %d or more, given %s", least_rank, SAMBA_TYPE_OF(&n->x));
    bool statistics = n->running_mean.graph && n->running_var.graph;
    if (!n->running_mean.graph != !n->running_var.graph)
        return fail_statistics(n, "one of the running statistics is missing");
    if (!statistics && (o->trains.graph || !o->training))
        return fail_statistics(n, "there are no statistics to normalize by where nothing trains");
    n->channels = n->x.shape[1];
    if (!n->weight.graph)
        n->weight = samba_constant(n->graph, 1, n->x.dtype, 1, &n->channels);
    if (!n->bias.graph)
        n->bias = samba_constant(n->graph, 0, n->x.dtype, 1, &n->channels);
    if (!statistics) {
        n->running_mean = samba_constant(n->graph, 0, n->x.dtype, 1, &n->channels);
        n->running_var = samba_constant(n->graph, 1, n->x.dtype, 1, &n->channels);
    }
    return n->graph->status == SAMBA_OK;
}

static bool need_several(normalizing *n, const char *each)
{
    if (n->count != 1 || n->options.trains.graph || !n->options.training)
        return true;
    return samba_graph_refuse(n->graph, SAMBA_ERROR_SHAPE, n->what,
                              "expected more than 1 value for each %s when training, given %s; give more values, or call eval()",
                              each, SAMBA_TYPE_OF(&n->x));
}

/* As rank-0 float64: 1, 0, or what decides in each run. */
static samba_value decision(const normalizing *n)
{
    return n->options.trains.graph ? n->options.trains : samba_constant(n->graph, n->options.training, SAMBA_FLOAT64, 0, NULL);
}

/* Do the running statistics move? Of nothing there is no mean. */
static bool moves(const normalizing *n)
{
    return (n->options.trains.graph || n->options.training) && n->count != 0 && n->x.shape[0] != 0;
}

/* (1 - f) old + f fresh, in the dtype of `old`; `fresh` has a number a channel. */
static void move_to(const normalizing *n, samba_value old, samba_value fresh, samba_value *next)
{
    const samba_batch_norm_options *o = &n->options;
    samba_value wide = samba_cast(old, samba_value_dtype(fresh)), result;
    if (o->average_factor.graph) {
        result = samba_add(wide, samba_mul(samba_sub(fresh, wide), o->average_factor));
    } else {
        samba_value added = samba_mul_scalar(fresh, o->momentum), rest = samba_mul_scalar(wide, 1 - o->momentum);
        result = samba_add(rest, added);
    }
    result = samba_cast(result, samba_value_dtype(old));
    *next = o->trains.graph ? samba_where(samba_ne(o->trains, samba_constant(n->graph, 0, SAMBA_FLOAT64, 0, NULL)), result, old)
                            : result;
}

/* `factor` turns a biased variance into an unbiased one. */
static void move_running(const normalizing *n, samba_value old, samba_ref batch, double factor, samba_value *next)
{
    if (!next)
        return;
    *next = old;
    if (!moves(n))
        return;
    samba_value fresh = samba_trace_value(n->graph, samba_emit_reshape(n->graph, batch, 1, &n->channels));
    move_to(n, old, factor != 1 ? samba_mul_scalar(fresh, factor) : fresh, next);
}

static samba_ref emit_batch_norm(const normalizing *n, samba_op op, samba_value training)
{
    samba_attrs attrs = {.batch_norm = {.eps = n->options.eps}};
    const samba_ref inputs[] = {n->input.index,        n->weight.index,      n->bias.index,
                                n->running_mean.index, n->running_var.index, training.index};
    return samba_emit(n->graph, op, SAMBA_COUNT(inputs), inputs, &attrs);
}

static void count_batch(normalizing *n)
{
    n->count = n->x.shape[0];
    for (int d = 2; d < n->x.rank; d++)
        n->count *= n->x.shape[d];
}

static normalizing normalizing_of(const char *what, samba_value input, samba_value running_mean, samba_value running_var,
                                  samba_value weight, samba_value bias)
{
    return (normalizing){
        .what = what, .input = input, .running_mean = running_mean, .running_var = running_var, .weight = weight, .bias = bias};
}

samba_value samba_functional_batch_norm(samba_value input, samba_value running_mean, samba_value running_var, samba_value weight,
                                        samba_value bias, const samba_batch_norm_options *options)
{
    normalizing n = normalizing_of("batch_norm", input, running_mean, running_var, weight, bias);
    if (!start(&n, 2, options))
        return samba_trace_none(n.graph);
    count_batch(&n);
    if (!need_several(&n, "channel"))
        return samba_trace_none(n.graph);
    samba_ref result = emit_batch_norm(&n, SAMBA_OP_batch_norm, decision(&n)), mean, variance;
    if (running_mean.graph && result != SAMBA_NONE) {
        samba_emit_batch_moments(n.graph, input.index, &mean, &variance);
        move_running(&n, running_mean, mean, 1, n.options.next_mean);
        move_running(&n, running_var, variance, n.count > 1 ? (double)n.count / (double)(n.count - 1) : 1, n.options.next_var);
    }
    return samba_trace_value(n.graph, result);
}

/* Row `index` of moments (2, C). */
static samba_value moment(const normalizing *n, samba_value moments, int64_t index)
{
    return samba_reshape(samba_narrow(moments, 0, index, 1), 1, &n->channels);
}

/* What sync_batch_norm's running statistics become; all batches together have `count` elements a channel times replicas. */
static void move_synchronized(const normalizing *n)
{
    const samba_batch_norm_options *o = &n->options;
    if (o->next_mean)
        *o->next_mean = n->running_mean;
    if (o->next_var)
        *o->next_var = n->running_var;
    if (!moves(n))
        return;
    samba_value moments = samba_trace_value(n->graph, samba_emit1(n->graph, SAMBA_OP_sync_batch_moments, n->input.index));
    if (o->next_mean)
        move_to(n, n->running_mean, moment(n, moments, 0), o->next_mean);
    if (!o->next_var)
        return;
    samba_value all = samba_mul_scalar(samba_trace_replica_count(n->graph), (double)n->count);
    samba_value one = samba_constant(n->graph, 1, SAMBA_FLOAT64, 0, NULL);
    samba_value unbiased = samba_div(all, samba_maximum(samba_sub(all, one), one)); /* of one element: as it is */
    move_to(n, n->running_var, samba_mul(moment(n, moments, 1), unbiased), o->next_var);
}

samba_value samba_functional_sync_batch_norm(samba_value input, samba_value running_mean, samba_value running_var,
                                             samba_value weight, samba_value bias, const samba_batch_norm_options *options)
{
    normalizing n = normalizing_of("sync_batch_norm", input, running_mean, running_var, weight, bias);
    if (!start(&n, 2, options))
        return samba_trace_none(n.graph);
    count_batch(&n);
    const bool trains = n.options.trains.graph || n.options.training;
    samba_ref result = emit_batch_norm(&n, trains ? SAMBA_OP_sync_batch_norm : SAMBA_OP_batch_norm, decision(&n));
    if (running_mean.graph && result != SAMBA_NONE)
        move_synchronized(&n);
    return samba_trace_value(n.graph, result);
}

/* Over the images: the mean of what each has, (1, C). */
static void instance_moments(const normalizing *n, samba_value *mean, samba_value *variance)
{
    const int pixels = -1, images = 0;
    samba_value wide = samba_cast(samba_detach(n->input), n->x.dtype == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32);
    samba_value planes = samba_reshape(wide, 3, (int64_t[]){n->x.shape[0], n->channels, n->count});
    samba_value means = samba_mean(planes, 1, &pixels, true), away = samba_sub(planes, means);
    *mean = samba_mean(means, 1, &images, false);
    *variance = samba_mean(samba_mean(samba_mul(away, away), 1, &pixels, true), 1, &images, false);
}

samba_value samba_functional_instance_norm(samba_value input, samba_value running_mean, samba_value running_var,
                                           samba_value weight, samba_value bias, const samba_batch_norm_options *options)
{
    normalizing n = normalizing_of("instance_norm", input, running_mean, running_var, weight, bias);
    if (!start(&n, 3, options))
        return samba_trace_none(n.graph);
    n.count = 1;
    for (int d = 2; d < n.x.rank; d++)
        n.count *= n.x.shape[d];
    if (!need_several(&n, "channel of an image"))
        return samba_trace_none(n.graph);
    SAMBA_SPEAKS(n.graph, "instance_norm");
    const samba_batch_norm_options *o = &n.options;
    samba_value zero = samba_constant(n.graph, 0, SAMBA_FLOAT64, 0, NULL), result = samba_trace_none(n.graph), mean, variance;
    if (o->trains.graph || !o->training)
        result = samba_trace_value(n.graph, emit_batch_norm(&n, SAMBA_OP_batch_norm, zero));
    if (o->trains.graph || o->training) {
        samba_value own = samba_functional_group_norm(input, n.channels, n.weight, n.bias, o->eps);
        result = o->trains.graph ? samba_where(samba_ne(o->trains, zero), own, result) : own;
    }
    if (running_mean.graph && n.graph->status == SAMBA_OK) {
        instance_moments(&n, &mean, &variance);
        move_running(&n, running_mean, mean.index, 1, o->next_mean);
        move_running(&n, running_var, variance.index, n.count > 1 ? (double)n.count / (double)(n.count - 1) : 1, o->next_var);
    }
    return result;
}
