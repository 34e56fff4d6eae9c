/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurrent nets, unrolled. Inside, a sequence is a matrix (T * N, width) whose rows are the steps one behind the other: what
 * does not wait for the step before, the product of the inputs with their weights and the biases, is computed for all steps at
 * once, and a step is a slice of it. So are the gradients: those of slices are a concat, which meets its weight's inputs in one
 * product. A bias that stands inside a step (GRU's new gate) is expanded to all steps and sliced, so that its gradient is one
 * sum.
 *
 * Steps are computed in float32 where values are 16 bits wide;
 * h and the outputs are rounded to their dtype, which products take. */
#include "ops/families.h"
#include "trace/shape.h"
#include "trace/trace.h"

#include <sambaflow/recurrent.h>
#include <math.h>

typedef enum kind { RNN, GRU, LSTM } kind;
static const struct {
    const char *name, *cell;
    int gates, states;
} facts[] = {[RNN] = {"rnn", "rnn_cell", 1, 1}, [GRU] = {"gru", "gru_cell", 3, 1}, [LSTM] = {"lstm", "lstm_cell", 4, 2}};

typedef struct net {
    samba_graph *graph;
    kind kind;
    const char *what; /* for messages */
    samba_recurrent_options o;
    samba_dtype dtype;
    int64_t steps, batch, hidden, width; /* width: of h, hidden_size or proj_size */
    samba_ref states[2];                 /* (layers, N, width) before the first step; SAMBA_NONE: zeros */
} net;

typedef struct run_weights { /* of one layer and direction; SAMBA_NONE where there is none */
    samba_ref w_ih, w_hh, b_ih, b_hh, w_hr;
} run_weights;

/* ---- small steps ---- */
static samba_ref add(const net *n, samba_ref a, samba_ref b) { return samba_emit2(n->graph, SAMBA_OP_add, a, b); }
static samba_ref mul(const net *n, samba_ref a, samba_ref b) { return samba_emit2(n->graph, SAMBA_OP_mul, a, b); }
static samba_ref sigmoid(const net *n, samba_ref a) { return samba_emit1(n->graph, SAMBA_OP_sigmoid, a); }
static samba_ref tangent(const net *n, samba_ref a) { return samba_emit1(n->graph, SAMBA_OP_tanh, a); }

static samba_ref cut(const net *n, samba_ref a, int dim, int64_t start, int64_t stop)
{
    return n->graph->status == SAMBA_OK ? samba_trace_slice(n->graph, a, dim, start, stop, 1) : SAMBA_NONE;
}

static samba_ref step_of(const net *n, samba_ref all, int64_t t) { return cut(n, all, 0, t * n->batch, (t + 1) * n->batch); }

/* Gate `i` of a step. */
static samba_ref gate(const net *n, samba_ref a, int64_t i) { return cut(n, a, 1, i * n->hidden, (i + 1) * n->hidden); }

/* Along `dim`; more than one concat takes are joined by several. Overwrites `parts`. */
static samba_ref join(const net *n, int64_t count, samba_ref *parts, int dim)
{
    samba_attrs attrs = {.axis = {.dim = dim}};
    for (; count > 1; count = (count + SAMBA_MAX_ARITY - 1) / SAMBA_MAX_ARITY)
        for (int64_t i = 0; i < count; i += SAMBA_MAX_ARITY) {
            int some = (int)(count - i < SAMBA_MAX_ARITY ? count - i : SAMBA_MAX_ARITY);
            parts[i / SAMBA_MAX_ARITY] = some == 1 ? parts[i] : samba_emit(n->graph, SAMBA_OP_concat, some, parts + i, &attrs);
        }
    return parts[0];
}

/* x w^T, in float32 where x has 16 bits */
static samba_ref product(const net *n, samba_ref x, samba_ref w)
{
    return samba_emit2(n->graph, SAMBA_OP_matmul, x, samba_emit_transpose(n->graph, w, 0, 1));
}

static samba_ref lift(const net *n, samba_ref a) { return a == SAMBA_NONE ? a : samba_emit_lift(n->graph, a); }

/* ---- one layer in one direction ---- */
static void lstm_step(const net *n, const run_weights *w, samba_ref x, samba_ref *h, samba_ref *c)
{
    samba_ref gates = *h == SAMBA_NONE ? x : add(n, x, product(n, *h, w->w_hh));
    samba_ref fresh = tangent(n, gate(n, gates, 2)), added = mul(n, sigmoid(n, gate(n, gates, 0)), fresh);
    *c = *c == SAMBA_NONE ? added : add(n, mul(n, sigmoid(n, gate(n, gates, 1)), *c), added);
    samba_ref bent = tangent(n, *c);
    *h = samba_emit_cast(n->graph, mul(n, sigmoid(n, gate(n, gates, 3)), bent), n->dtype);
    if (n->o.proj_size)
        *h = samba_emit_cast(n->graph, product(n, *h, w->w_hr), n->dtype);
}

static void gru_step(const net *n, const run_weights *w, samba_ref x, samba_ref bias, samba_ref *h)
{
    samba_graph *g = n->graph;
    samba_ref r = gate(n, x, 0), z = gate(n, x, 1), from_h = bias;
    if (*h != SAMBA_NONE) {
        samba_ref gates = product(n, *h, w->w_hh);
        r = add(n, r, gate(n, gates, 0)), z = add(n, z, gate(n, gates, 1));
        from_h = bias == SAMBA_NONE ? gate(n, gates, 2) : add(n, gate(n, gates, 2), bias);
    }
    samba_ref sum = gate(n, x, 2);
    if (from_h != SAMBA_NONE)
        sum = add(n, sum, mul(n, sigmoid(n, r), from_h));
    samba_ref fresh = tangent(n, sum), keep = sigmoid(n, z);
    samba_ref change = *h == SAMBA_NONE ? samba_emit1(g, SAMBA_OP_neg, fresh) : samba_emit2(g, SAMBA_OP_sub, lift(n, *h), fresh);
    *h = samba_emit_cast(g, add(n, fresh, mul(n, keep, change)), n->dtype);
}

static void rnn_step(const net *n, const run_weights *w, samba_ref x, samba_ref *h)
{
    samba_ref sum = *h == SAMBA_NONE ? x : add(n, x, product(n, *h, w->w_hh));
    *h = samba_emit_cast(n->graph, samba_emit1(n->graph, n->o.relu ? SAMBA_OP_relu : SAMBA_OP_tanh, sum), n->dtype);
}

/* The biases that all steps add to their inputs' product; GRU's new gate multiplies that of h, which is left for the steps. */
static samba_ref input_bias(const net *n, const run_weights *w)
{
    if (w->b_ih == SAMBA_NONE)
        return SAMBA_NONE;
    samba_ref b_ih = lift(n, w->b_ih), b_hh = lift(n, w->b_hh);
    if (n->kind != GRU)
        return add(n, b_ih, b_hh);
    samba_ref gates_hh = cut(n, b_hh, 0, 0, 2 * n->hidden), gates = add(n, cut(n, b_ih, 0, 0, 2 * n->hidden), gates_hh);
    samba_ref fresh = cut(n, b_ih, 0, 2 * n->hidden, 3 * n->hidden);
    return join(n, 2, (samba_ref[]){gates, fresh}, 0);
}

/* x (T * N, inputs) -> (T * N, width). `outputs` has room for T. h and c: (N, ...), before and after. */
static samba_ref layer(const net *n, const run_weights *w, samba_ref x, bool reverse, samba_ref *outputs, samba_ref *h,
                       samba_ref *c)
{
    samba_graph *g = n->graph;
    samba_ref all = lift(n, product(n, x, w->w_ih)), bias = input_bias(n, w), new_bias = SAMBA_NONE;
    if (bias != SAMBA_NONE)
        all = add(n, all, bias);
    if (n->kind == GRU && bias != SAMBA_NONE)
        new_bias = samba_emit_expand(g, lift(n, cut(n, w->b_hh, 0, 2 * n->hidden, 3 * n->hidden)), 2,
                                     (int64_t[]){n->steps * n->batch, n->hidden});
    for (int64_t i = 0; i < n->steps && g->status == SAMBA_OK; i++) {
        int64_t t = reverse ? n->steps - 1 - i : i;
        samba_ref inputs = step_of(n, all, t);
        switch (n->kind) {
        case RNN: rnn_step(n, w, inputs, h); break;
        case GRU: gru_step(n, w, inputs, new_bias == SAMBA_NONE ? SAMBA_NONE : step_of(n, new_bias, t), h); break;
        case LSTM: lstm_step(n, w, inputs, h, c); break;
        }
        outputs[t] = *h;
    }
    return g->status == SAMBA_OK ? join(n, n->steps, outputs, 0) : SAMBA_NONE;
}

/* ---- all layers ---- */

/* Layer `at` of a state (layers, N, width), as a step has it. */
static samba_ref first_state(const net *n, samba_ref state, int64_t at, int64_t width)
{
    if (state == SAMBA_NONE)
        return SAMBA_NONE;
    return samba_emit_reshape(n->graph, cut(n, state, 0, at, at + 1), 2, (int64_t[]){n->batch, width});
}

static samba_ref dropout(const net *n, samba_ref x)
{
    samba_ref rate, seed;
    if (!samba_trace_dropout(n->graph, n->what, n->o.dropout, n->o.dropout_p, &rate, &seed))
        return SAMBA_NONE;
    return samba_emit3(n->graph, SAMBA_OP_dropout, x, rate, seed);
}

/* x (T * N, input size) -> (T * N, directions * width); n->states become the last ones. */
static samba_ref layers(net *n, const run_weights *w, samba_ref x)
{
    samba_graph *g = n->graph;
    int64_t directions = n->o.bidirectional ? 2 : 1, runs = n->o.num_layers * directions;
    samba_arena scratch;
    samba_arena_init(&scratch, g->context);
    samba_ref *outputs = samba_arena_alloc(&scratch, sizeof(samba_ref) * (size_t)n->steps), *last[2];
    for (int k = 0; k < 2; k++)
        last[k] = samba_arena_alloc(&scratch, sizeof(samba_ref) * (size_t)runs);
    if (!outputs || !last[0] || !last[1])
        samba_graph_stick(g, SAMBA_ERROR_MEMORY);
    for (int64_t i = 0; i < n->o.num_layers && g->status == SAMBA_OK; i++) {
        samba_ref both[2];
        for (int64_t d = 0; d < directions && g->status == SAMBA_OK; d++) {
            int64_t at = i * directions + d;
            samba_ref h = first_state(n, n->states[0], at, n->width), c = lift(n, first_state(n, n->states[1], at, n->hidden));
            both[d] = layer(n, &w[at], x, d == 1, outputs, &h, &c);
            if (g->status != SAMBA_OK)
                break;
            last[0][at] = samba_emit_reshape(g, h, 3, (int64_t[]){1, n->batch, n->width});
            if (n->kind == LSTM)
                last[1][at] = samba_emit_reshape(g, samba_emit_cast(g, c, n->dtype), 3, (int64_t[]){1, n->batch, n->hidden});
        }
        if (g->status == SAMBA_OK)
            x = join(n, directions, both, 1);
        if (n->o.dropout && i + 1 < n->o.num_layers && g->status == SAMBA_OK)
            x = dropout(n, x);
    }
    for (int k = 0; k < facts[n->kind].states && g->status == SAMBA_OK; k++)
        n->states[k] = join(n, runs, last[k], 0);
    samba_arena_free(&scratch);
    return g->status == SAMBA_OK ? x : SAMBA_NONE;
}

/* ---- what callers give ---- */
static samba_value fail(const net *n, samba_status status, const char *expected, const samba_node *given)
{
    return samba_trace_fail(n->graph, status, n->what, "expected %s, given %s", expected, SAMBA_TYPE_OF(given));
}

/* A weight of a dtype and shape; rank 1 where columns is 0. SAMBA_NONE after an error. */
static samba_ref take(const net *n, samba_value value, const char *name, int64_t rows, int64_t columns, bool matrix)
{
    if (!value.graph) {
        samba_graph_fail_at(n->graph, SAMBA_ERROR_ARGUMENT, n->what, "%s is missing", name);
        return SAMBA_NONE;
    }
    samba_graph *graph;
    if (!samba_trace_enter(n->what, 1, &value, &graph) || graph != n->graph) {
        samba_graph_fail_at(n->graph, SAMBA_ERROR_ARGUMENT, n->what, "%s belongs to another graph or is of no value", name);
        return SAMBA_NONE;
    }
    samba_node node = samba_trace_node(value);
    int64_t shape[2] = {rows, columns};
    int rank = matrix ? 2 : 1;
    if (node.dtype == n->dtype && samba_shape_equal(node.rank, node.shape, rank, shape))
        return value.index;
    samba_graph_fail_at(n->graph, node.dtype == n->dtype ? SAMBA_ERROR_SHAPE : SAMBA_ERROR_DTYPE, n->what,
                        "expected %s %s%s, given %s", name, samba_dtype_name(n->dtype), SAMBA_SHAPE(rank, shape),
                        SAMBA_TYPE_OF(&node));
    return SAMBA_NONE;
}

static bool take_weights(const net *n, int count, const samba_value *values, int64_t input_size, run_weights *w)
{
    int64_t directions = n->o.bidirectional ? 2 : 1, gates = facts[n->kind].gates * n->hidden;
    int per = (n->o.no_bias ? 2 : 4) + (n->o.proj_size ? 1 : 0);
    if (count != per * n->o.num_layers * directions)
        return samba_graph_refuse(n->graph, SAMBA_ERROR_ARGUMENT, n->what,
                                  "expected %d weights for each of %lld layers and %lld directions, given %d", per,
                                  (long long)n->o.num_layers, (long long)directions, count);
    for (int64_t i = 0; i < n->o.num_layers * directions && n->graph->status == SAMBA_OK; i++) {
        const samba_value *own = values + i * per;
        int64_t inputs = i < directions ? input_size : directions * n->width;
        w[i] = (run_weights){SAMBA_NONE, SAMBA_NONE, SAMBA_NONE, SAMBA_NONE, SAMBA_NONE};
        w[i].w_ih = take(n, *own++, "w_ih", gates, inputs, true);
        if (n->graph->status == SAMBA_OK)
            w[i].w_hh = take(n, *own++, "w_hh", gates, n->width, true);
        if (n->graph->status == SAMBA_OK && !n->o.no_bias) {
            w[i].b_ih = take(n, *own++, "b_ih", gates, 0, false);
            if (n->graph->status == SAMBA_OK)
                w[i].b_hh = take(n, *own++, "b_hh", gates, 0, false);
        }
        if (n->graph->status == SAMBA_OK && n->o.proj_size)
            w[i].w_hr = take(n, *own, "w_hr", n->o.proj_size, n->hidden, true);
    }
    return n->graph->status == SAMBA_OK;
}

/* A state as (layers, N, width); zeros as SAMBA_NONE. */
static bool take_state(net *n, int k, samba_value value, bool batched)
{
    static const char *const names[] = {"h", "c"};
    samba_graph *graph;
    n->states[k] = SAMBA_NONE;
    if (!value.graph)
        return true;
    if (!samba_trace_enter(n->what, 2, (samba_value[]){{n->graph, 0, 0}, value}, &graph))
        return false;
    int64_t shape[3] = {n->o.num_layers * (n->o.bidirectional ? 2 : 1), n->batch, k ? n->hidden : n->width};
    samba_node node = samba_trace_node(value);
    int64_t flat[2] = {shape[0], shape[2]};
    bool fits = batched ? samba_shape_equal(node.rank, node.shape, 3, shape) : samba_shape_equal(node.rank, node.shape, 2, flat);
    if (!fits || node.dtype != n->dtype)
        return samba_graph_refuse(n->graph, fits ? SAMBA_ERROR_DTYPE : SAMBA_ERROR_SHAPE, n->what,
                                  "expected a state %s %s%s, given %s", names[k], samba_dtype_name(n->dtype),
                                  SAMBA_SHAPE(batched ? 3 : 2, batched ? shape : flat), SAMBA_TYPE_OF(&node));
    /* PyTorch's modules make zeros where they are given no state */
    if (node.op != SAMBA_OP_constant || node.attrs->constant.value != 0)
        n->states[k] = samba_emit_reshape(n->graph, value.index, 3, shape);
    return true;
}

static bool check_options(const net *n, int64_t hidden)
{
    const samba_recurrent_options *o = &n->o;
    const char *wrong = NULL;
    if (o->num_layers < 1 || o->num_layers > 1024)
        wrong = "num_layers must be from 1 to 1024";
    else if (hidden < 1)
        wrong = "hidden_size must be 1 or more";
    else if (o->proj_size < 0 || (o->proj_size && (n->kind != LSTM || o->proj_size >= hidden)))
        wrong = "proj_size is an LSTM's, and must be smaller than hidden_size";
    else if (o->relu && n->kind != RNN)
        wrong = "relu is rnn's: a gated net has its own functions";
    else if (!o->dropout && o->dropout_p != 0)
        wrong = "dropout_p needs the name of its hyperparameters in the option dropout";
    if (wrong)
        samba_graph_fail_at(n->graph, SAMBA_ERROR_ARGUMENT, n->what,
                            "%s; given num_layers %lld, hidden_size %lld, proj_size %lld", wrong, (long long)o->num_layers,
                            (long long)hidden, (long long)o->proj_size);
    return !wrong;
}

static samba_recurrent_options settled(const samba_recurrent_options *options)
{
    samba_recurrent_options o = {0};
    if (options)
        o = *options;
    o.num_layers += o.num_layers == 0;
    return o;
}

/* (T, N, width) in the caller's order of dims, from (T * N, width). */
static samba_ref as_given(const net *n, samba_ref rows, bool batched)
{
    int64_t width = samba_node_at(n->graph, rows)->shape[1];
    if (!batched)
        return rows;
    samba_ref result = samba_emit_reshape(n->graph, rows, 3, (int64_t[]){n->steps, n->batch, width});
    return n->o.batch_first ? samba_emit_transpose(n->graph, result, 0, 1) : result;
}

static samba_value run(kind k, samba_value input, int count, const samba_value *values, const samba_recurrent_options *options,
                       samba_value *state)
{
    net n = {.kind = k, .what = facts[k].name, .o = settled(options)};
    if (!samba_trace_enter(n.what, 1, &input, &n.graph))
        return samba_trace_none(n.graph);
    samba_node x = samba_trace_node(input);
    bool batched = x.rank == 3;
    int time = batched && n.o.batch_first ? 1 : 0;
    if (x.rank != 2 && x.rank != 3)
        return fail(&n, SAMBA_ERROR_SHAPE, "an input (T, N, input_size), with batch_first (N, T, input_size), or (T, input_size)",
                    &x);
    if (!samba_dtype_is_floating_point(x.dtype))
        return fail(&n, SAMBA_ERROR_DTYPE, "a floating-point input", &x);
    if (x.shape[time] < 1)
        return fail(&n, SAMBA_ERROR_SHAPE, "an input of 1 or more steps", &x);
    if (count < 2 || !values || !values[1].graph)
        return fail(&n, SAMBA_ERROR_ARGUMENT, "2 or more weights behind the input", &x);
    samba_graph *of;
    if (!samba_trace_enter(n.what, 3, (samba_value[]){input, values[0], values[1]}, &of))
        return samba_trace_none(n.graph);
    samba_node w_ih = samba_trace_node(values[0]);
    n.dtype = x.dtype;
    n.steps = x.shape[time];
    n.batch = batched ? x.shape[1 - time] : 1;
    n.hidden = w_ih.rank ? w_ih.shape[0] / facts[k].gates : 0;
    n.width = n.o.proj_size ? n.o.proj_size : n.hidden;
    if (!check_options(&n, n.hidden))
        return samba_trace_none(n.graph);
    samba_arena scratch;
    samba_arena_init(&scratch, n.graph->context);
    run_weights *w = samba_arena_alloc(&scratch, sizeof *w * (size_t)(2 * n.o.num_layers));
    if (!w)
        samba_graph_stick(n.graph, SAMBA_ERROR_MEMORY);
    samba_ref result = SAMBA_NONE;
    int64_t size = x.shape[x.rank - 1];
    if (w && take_weights(&n, count, values, size, w) &&
        take_state(&n, 0, state ? state[0] : (samba_value){NULL, 0, 0}, batched) &&
        take_state(&n, 1, state && k == LSTM ? state[1] : (samba_value){NULL, 0, 0}, batched)) {
        samba_ref steps = time == 1 ? samba_emit_transpose(n.graph, input.index, 0, 1) : input.index;
        result = layers(&n, w, samba_emit_reshape(n.graph, steps, 2, (int64_t[]){n.steps * n.batch, size}));
        for (int i = 0; state && i < facts[k].states && n.graph->status == SAMBA_OK; i++) {
            samba_node last = *samba_node_at(n.graph, n.states[i]);
            int64_t flat[2] = {last.shape[0], last.shape[2]};
            state[i] = samba_trace_value(n.graph, batched ? n.states[i] : samba_emit_reshape(n.graph, n.states[i], 2, flat));
        }
        if (n.graph->status == SAMBA_OK)
            result = as_given(&n, result, batched);
    }
    samba_arena_free(&scratch);
    return samba_trace_value(n.graph, n.graph->status == SAMBA_OK ? result : SAMBA_NONE);
}

/* One step is a sequence of one, whose states have no layers. */
static samba_value run_cell(kind k, samba_value input, const samba_value given[4], bool relu, samba_value *state)
{
    net n = {.kind = k, .what = facts[k].cell, .o = {.num_layers = 1, .relu = relu}, .steps = 1};
    if (!samba_trace_enter(n.what, 1, &input, &n.graph))
        return samba_trace_none(n.graph);
    samba_node x = samba_trace_node(input);
    if (x.rank != 1 && x.rank != 2)
        return fail(&n, SAMBA_ERROR_SHAPE, "an input (N, input_size) or (input_size)", &x);
    if (!samba_dtype_is_floating_point(x.dtype))
        return fail(&n, SAMBA_ERROR_DTYPE, "a floating-point input", &x);
    if (!given || !given[0].graph || !given[2].graph != !given[3].graph)
        return fail(&n, SAMBA_ERROR_ARGUMENT, "weights w_ih, w_hh, and both biases or none of them behind the input", &x);
    samba_graph *of;
    if (!samba_trace_enter(n.what, 2, (samba_value[]){input, given[0]}, &of))
        return samba_trace_none(n.graph);
    samba_node w_ih = samba_trace_node(given[0]);
    run_weights w;
    n.o.no_bias = !given[2].graph;
    n.dtype = x.dtype;
    n.batch = x.rank == 2 ? x.shape[0] : 1;
    n.width = n.hidden = w_ih.rank ? w_ih.shape[0] / facts[k].gates : 0;
    int64_t size = x.shape[x.rank - 1], shape[3] = {1, n.batch, n.hidden};
    if (!check_options(&n, n.hidden) || !take_weights(&n, n.o.no_bias ? 2 : 4, given, size, &w))
        return samba_trace_none(n.graph);
    for (int i = 0; i < 2; i++) {
        samba_value own = state && i < facts[k].states ? state[i] : (samba_value){NULL, 0, 0};
        if (own.graph == n.graph && own.index < (samba_ref)n.graph->node_count) { /* without the dim of layers */
            samba_node node = samba_trace_node(own);
            if (!samba_shape_equal(node.rank, node.shape, x.rank, x.rank == 2 ? shape + 1 : shape + 2))
                return fail(&n, SAMBA_ERROR_SHAPE, "a state (N, hidden_size), or (hidden_size) where the input has no batch",
                            &node);
            own.index = samba_emit_reshape(n.graph, own.index, 3, shape);
        }
        if (!take_state(&n, i, own, true))
            return samba_trace_none(n.graph);
    }
    samba_ref h = layers(&n, &w, samba_emit_reshape(n.graph, input.index, 2, (int64_t[]){n.batch, size}));
    for (int i = 0; state && i < facts[k].states && n.graph->status == SAMBA_OK; i++)
        state[i] =
            samba_trace_value(n.graph, samba_emit_reshape(n.graph, n.states[i], x.rank, x.rank == 2 ? shape + 1 : shape + 2));
    return samba_trace_value(n.graph,
                             h == SAMBA_NONE ? h : samba_emit_reshape(n.graph, h, x.rank, x.rank == 2 ? shape + 1 : shape + 2));
}

samba_value samba_functional_rnn_cell(samba_value input, const samba_value weights[4], bool relu, samba_value *state)
{
    return run_cell(RNN, input, weights, relu, state);
}
samba_value samba_functional_gru_cell(samba_value input, const samba_value weights[4], samba_value *state)
{
    return run_cell(GRU, input, weights, false, state);
}
samba_value samba_functional_lstm_cell(samba_value input, const samba_value weights[4], samba_value *state)
{
    return run_cell(LSTM, input, weights, false, state);
}

/* ---- by name ---- */
static samba_value named(samba_graph *graph, const char *name, int64_t at, bool reverse, samba_dtype dtype, int64_t rows,
                         int64_t columns, int64_t hidden)
{
    char text[64];
    double bound = 1 / sqrt((double)hidden);
    if (at < 0)
        snprintf(text, sizeof text, "%s", name);
    else
        snprintf(text, sizeof text, "%s_l%lld%s", name, (long long)at, reverse ? "_reverse" : "");
    return samba_parameter(graph, text, dtype, columns ? 2 : 1, (int64_t[]){rows, columns},
                           (samba_initializer){SAMBA_INIT_UNIFORM, -bound, bound});
}

static samba_value by_name(kind k, samba_value input, const char *name, int64_t hidden, const samba_recurrent_options *options,
                           samba_value *state)
{
    net n = {.kind = k, .what = facts[k].name, .o = settled(options)};
    if (!n.o.dropout && n.o.dropout_p != 0)
        n.o.dropout = "dropout";
    if (!samba_trace_enter_layer(n.what, &input, name, false, &n.graph) || !check_options(&n, hidden))
        return samba_trace_none(n.graph);
    samba_graph *g = n.graph;
    samba_node x = samba_trace_node(input);
    int directions = n.o.bidirectional ? 2 : 1, count = 0;
    int64_t width = n.o.proj_size ? n.o.proj_size : hidden, gates = facts[k].gates * hidden,
            inputs = x.rank ? x.shape[x.rank - 1] : 0;
    if (inputs < 1)
        return fail(&n, SAMBA_ERROR_SHAPE, "an input (T, N, input_size) of an input_size of 1 or more", &x);
    samba_dtype dtype = x.dtype;
    samba_arena scratch;
    samba_arena_init(&scratch, g->context);
    samba_value *w = samba_arena_alloc(&scratch, sizeof *w * (size_t)(10 * n.o.num_layers)), result = samba_trace_none(g);
    if (!w)
        samba_graph_stick(g, SAMBA_ERROR_MEMORY);
    for (int64_t i = 0; w && i < n.o.num_layers; i++) {
        for (int d = 0; d < directions; d++) {
            w[count++] = named(g, "weight_ih", i, d, dtype, gates, inputs, hidden);
            w[count++] = named(g, "weight_hh", i, d, dtype, gates, width, hidden);
            if (!n.o.no_bias) {
                w[count++] = named(g, "bias_ih", i, d, dtype, gates, 0, hidden);
                w[count++] = named(g, "bias_hh", i, d, dtype, gates, 0, hidden);
            }
            if (n.o.proj_size)
                w[count++] = named(g, "weight_hr", i, d, dtype, width, hidden, hidden);
        }
        inputs = directions * width;
    }
    if (g->status == SAMBA_OK)
        result = run(k, input, count, w, &n.o, state);
    samba_arena_free(&scratch);
    samba_scope_pop(g);
    return result;
}

static samba_value cell_by_name(kind k, samba_value input, const char *name, int64_t hidden, const samba_cell_options *options,
                                samba_value *state)
{
    samba_cell_options o = {0};
    if (options)
        o = *options;
    net n = {.kind = k, .what = facts[k].cell, .o = {.num_layers = 1, .relu = o.relu}};
    if (!samba_trace_enter_layer(n.what, &input, name, false, &n.graph) || !check_options(&n, hidden))
        return samba_trace_none(n.graph);
    samba_graph *g = n.graph;
    samba_node x = samba_trace_node(input);
    int64_t inputs = x.rank ? x.shape[x.rank - 1] : 0, gates = facts[k].gates * hidden;
    if (inputs < 1)
        return fail(&n, SAMBA_ERROR_SHAPE, "an input (N, input_size) of an input_size of 1 or more", &x);
    samba_dtype dtype = x.dtype;
    samba_value w[4] = {{NULL, 0, 0}};
    w[0] = named(g, "weight_ih", -1, false, dtype, gates, inputs, hidden);
    w[1] = named(g, "weight_hh", -1, false, dtype, gates, hidden, hidden);
    if (!o.no_bias) {
        w[2] = named(g, "bias_ih", -1, false, dtype, gates, 0, hidden);
        w[3] = named(g, "bias_hh", -1, false, dtype, gates, 0, hidden);
    }
    samba_value h = g->status == SAMBA_OK ? run_cell(k, input, w, o.relu, state) : samba_trace_none(g);
    samba_scope_pop(g);
    return h;
}

#define NET(name, kind)                                                                                                          \
    samba_value samba_functional_##name(samba_value input, int count, const samba_value *weights,                                \
                                        const samba_recurrent_options *options, samba_value *state)                              \
    {                                                                                                                            \
        return run(kind, input, count, weights, options, state);                                                                 \
    }                                                                                                                            \
    samba_value samba_##name(samba_value input, const char *scope, int64_t hidden_size, const samba_recurrent_options *options,  \
                             samba_value *state)                                                                                 \
    {                                                                                                                            \
        return by_name(kind, input, scope, hidden_size, options, state);                                                         \
    }                                                                                                                            \
    samba_value samba_##name##_cell(samba_value input, const char *scope, int64_t hidden_size,                                   \
                                    const samba_cell_options *options, samba_value *state)                                       \
    {                                                                                                                            \
        return cell_by_name(kind, input, scope, hidden_size, options, state);                                                    \
    }
NET(rnn, RNN)
NET(gru, GRU)
NET(lstm, LSTM)
