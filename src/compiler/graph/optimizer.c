/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers as graph: SGD, AdamW and Adam as torch.optim writes them, clipping by the global norm as torch.nn.utils.clip_grad_norm_.
 *
 * Scalars (bias corrections, products of hyperparameters) are computed in float64, as PyTorch computes them in Python, and cast
 * to the dtype of the update where they meet it: the parameter's, but float32 for half precision, where 0.999 would be 0.998 and small
 * gradients have no squares. Parameters and state are rounded when they are stored. State leaves start at zero.
 *
 * Every number of a rule is a hyperparameter that a run may change, whatever it was when compiled, so the state that some value of it needs is always
 * there. SGD has momentum while that is not 0: the first such step copies the gradient, which `step` tells, and a step whose momentum is 0 leaves the
 * buffer alone, as in PyTorch; kernels then do not touch it (device/cpu/tile/update.h).
 *
 * Needs: gradients (autodiff). Gives: GRADNORM and OPT nodes, assignments to parameters and state. Breaks nothing. */
#include "compiler/compiler.h"

#include <math.h>
#include <string.h>

typedef struct hyper { /* leaves of one optimizer, rank 0 float64 */
    samba_ref lr, weight_decay, momentum, dampening, beta1, beta2, eps;
    samba_ref step, next_step; /* SGD: those with momentum */
    samba_ref active, share;   /* SGD: is momentum not 0? what the gradient counts for in its buffer */
} hyper;

/* The graph's name "prefix.name", or "name" alone. */
static int64_t joined(samba_graph *g, const char *prefix, const char *name)
{
    samba_text text;
    samba_text_init(&text, g->context);
    samba_text_add(&text, "%s%s%s", prefix ? prefix : "", prefix ? "." : "", name);
    int64_t index = 0;
    if (text.status == SAMBA_OK)
        index = samba_graph_intern(g, text.data);
    else
        g->status = text.status;
    samba_text_clear(&text);
    return index;
}

static samba_ref argin(samba_graph *g, const char *optimizer, const char *name, double value)
{
    samba_attrs attrs = {0};
    attrs.argin.name = joined(g, optimizer, name);
    attrs.argin.dtype = SAMBA_FLOAT64;
    attrs.argin.value = value;
    return samba_emit(g, SAMBA_OP_argin, 0, NULL, &attrs);
}

static samba_ref kept(samba_graph *g, int kind, const char *prefix, const char *name, samba_dtype dtype, samba_dims shape)
{
    samba_attrs attrs = {0};
    attrs.state.name = joined(g, prefix, name);
    attrs.state.dtype = dtype;
    attrs.state.shape = shape;
    attrs.state.init = SAMBA_INIT_ZEROS;
    attrs.state.kind = kind;
    return samba_emit(g, SAMBA_OP_state, 0, NULL, &attrs);
}

static samba_ref state(samba_graph *g, const char *prefix, const char *name, samba_dtype dtype, samba_dims shape)
{
    return kept(g, SAMBA_STATE_OPTIMIZER, prefix, name, dtype, shape);
}

static samba_ref add(samba_graph *g, samba_ref a, samba_ref b) { return samba_emit2(g, SAMBA_OP_add, a, b); }
static samba_ref sub(samba_graph *g, samba_ref a, samba_ref b) { return samba_emit2(g, SAMBA_OP_sub, a, b); }
static samba_ref mul(samba_graph *g, samba_ref a, samba_ref b) { return samba_emit2(g, SAMBA_OP_mul, a, b); }
static samba_ref divide(samba_graph *g, samba_ref a, samba_ref b) { return samba_emit2(g, SAMBA_OP_div, a, b); }
static samba_ref one_minus(samba_graph *g, samba_ref a) { return sub(g, samba_emit_constant(g, 1, SAMBA_FLOAT64), a); }

static void assign(samba_graph *g, samba_ref target, samba_ref value)
{
    if (g->status == SAMBA_OK)
        samba_graph_sink(g, (samba_sink){SAMBA_SINK_ASSIGN, SAMBA_OPT, 0, target, value});
}

static bool is_adam(const samba_optimizer *o) { return o->kind == SAMBA_ADAMW || o->kind == SAMBA_ADAM; }

static void declare(samba_graph *g, const samba_optimizer *o, const char *name, bool several, hyper *h)
{
    const char *prefix = several ? name : NULL;
    *h = (hyper){0};
    h->lr = argin(g, prefix, "lr", o->lr);
    h->weight_decay = argin(g, prefix, "weight_decay", o->weight_decay);
    if (is_adam(o)) {
        h->beta1 = argin(g, prefix, "beta1", o->beta1);
        h->beta2 = argin(g, prefix, "beta2", o->beta2);
        h->eps = argin(g, prefix, "eps", o->eps);
    } else {
        h->momentum = argin(g, prefix, "momentum", o->momentum);
        h->dampening = argin(g, prefix, "dampening", o->dampening);
    }
    h->step = state(g, name, "step", SAMBA_FLOAT64, (samba_dims){0});
    if (is_adam(o)) {
        h->next_step = samba_emit_scalar(g, SAMBA_OP_add, h->step, 1);
    } else {
        samba_ref zero = samba_emit_constant(g, 0, SAMBA_FLOAT64);
        h->active = samba_emit2(g, SAMBA_OP_ne, h->momentum, zero);
        h->next_step = add(g, h->step, samba_emit_cast(g, h->active, SAMBA_FLOAT64));
        samba_ref first = samba_emit2(g, SAMBA_OP_eq, h->step, zero);
        h->share = samba_emit3(g, SAMBA_OP_where, first, samba_emit_constant(g, 1, SAMBA_FLOAT64), one_minus(g, h->dampening));
    }
    assign(g, h->step, h->next_step);
}

static samba_dtype dtype_of(const samba_graph *g, samba_ref ref) { return (samba_dtype)samba_node_at(g, ref)->dtype; }

static samba_dtype update_dtype(samba_dtype dtype) { return dtype == SAMBA_BFLOAT16 || dtype == SAMBA_FLOAT16 ? SAMBA_FLOAT32 : dtype; }

/* A parameter-like state leaf, as the update reads it and as it is stored. */
static samba_ref held(samba_graph *g, samba_ref leaf)
{
    return g->status == SAMBA_OK ? samba_emit_cast(g, leaf, update_dtype(dtype_of(g, leaf))) : SAMBA_NONE;
}

static void hold(samba_graph *g, samba_ref leaf, samba_ref value)
{
    if (g->status == SAMBA_OK)
        assign(g, leaf, samba_emit_cast(g, value, dtype_of(g, leaf)));
}

/* torch.optim.sgd._single_tensor_sgd. `d` and the result are of the update's dtype. */
static samba_ref sgd(samba_graph *g, const samba_optimizer *o, const hyper *h, const char *name, samba_ref leaf, samba_ref d)
{
    samba_dtype stored = dtype_of(g, leaf), dtype = update_dtype(stored);
    samba_dims shape = samba_node_at(g, leaf)->attrs->parameter.shape;
    samba_ref p = held(g, leaf);
    d = add(g, d, mul(g, p, samba_emit_cast(g, h->weight_decay, dtype)));
    samba_ref buffer = kept(g, SAMBA_STATE_MOMENTUM, name, "momentum_buffer", stored, shape), before = held(g, buffer);
    samba_ref momentum = samba_emit_cast(g, h->momentum, dtype), share = samba_emit_cast(g, h->share, dtype);
    samba_ref next = add(g, mul(g, before, momentum), mul(g, d, share));
    hold(g, buffer, samba_emit3(g, SAMBA_OP_where, h->active, next, before));
    d = samba_emit3(g, SAMBA_OP_where, h->active, o->nesterov ? add(g, d, mul(g, next, momentum)) : next, d);
    return sub(g, p, mul(g, d, samba_emit_cast(g, h->lr, dtype)));
}

/* torch.optim.adam._single_tensor_adam; weight decay shrinks the parameter (AdamW) or is part of the gradient (Adam) */
static samba_ref adam(samba_graph *g, const samba_optimizer *o, const hyper *h, const char *name, samba_ref leaf, samba_ref d)
{
    samba_dtype stored = dtype_of(g, leaf), dtype = update_dtype(stored);
    samba_dims shape = samba_node_at(g, leaf)->attrs->parameter.shape;
    samba_ref mean = state(g, name, "exp_avg", stored, shape), square = state(g, name, "exp_avg_sq", stored, shape);
    samba_ref p = held(g, leaf), m = held(g, mean), v = held(g, square);
    samba_ref correction1 = one_minus(g, samba_emit2(g, SAMBA_OP_pow, h->beta1, h->next_step));
    samba_ref correction2 = samba_emit1(g, SAMBA_OP_sqrt, one_minus(g, samba_emit2(g, SAMBA_OP_pow, h->beta2, h->next_step)));
    samba_ref step_size = samba_emit_cast(g, divide(g, h->lr, correction1), dtype);
    samba_ref scale = samba_emit_cast(g, samba_emit1(g, SAMBA_OP_reciprocal, correction2), dtype);
    samba_ref decayed = o->kind == SAMBA_ADAMW ? mul(g, p, samba_emit_cast(g, one_minus(g, mul(g, h->lr, h->weight_decay)), dtype)) : p;
    if (o->kind == SAMBA_ADAM)
        d = add(g, d, mul(g, p, samba_emit_cast(g, h->weight_decay, dtype)));
    samba_ref share1 = samba_emit_cast(g, one_minus(g, h->beta1), dtype), share2 = samba_emit_cast(g, one_minus(g, h->beta2), dtype);

    samba_ref next_m = add(g, m, mul(g, sub(g, d, m), share1));
    samba_ref next_v = add(g, mul(g, v, samba_emit_cast(g, h->beta2, dtype)), mul(g, mul(g, d, d), share2));
    hold(g, mean, next_m);
    hold(g, square, next_v);
    samba_ref second = next_v;
    if (o->amsgrad) {
        samba_ref greatest = state(g, name, "max_exp_avg_sq", stored, shape);
        second = samba_emit2(g, SAMBA_OP_maximum, held(g, greatest), next_v);
        hold(g, greatest, second);
    }
    samba_ref root = mul(g, samba_emit1(g, SAMBA_OP_sqrt, second), scale);
    samba_ref denominator = add(g, root, samba_emit_cast(g, h->eps, dtype));
    return sub(g, decayed, mul(g, divide(g, next_m, denominator), step_size));
}

static bool owns(const samba_optimizer *o, const char *parameter)
{
    if (o->parameter_count == 0)
        return true;
    for (int i = 0; i < o->parameter_count; i++)
        if (samba_match(o->parameters[i], parameter))
            return true;
    return false;
}

/* What torch.optim refuses too: NaN, and numbers outside [0, end). */
static samba_status check_number(samba_context *context, int optimizer, const char *name, double value, double end)
{
    if (value >= 0 && value < end)
        return SAMBA_OK;
    return samba_fail(context, SAMBA_ERROR_ARGUMENT, "optimizer %d has %s %g: expected a number in [0, %g)", optimizer, name, value, end);
}

static samba_status check_numbers(samba_context *context, int i, const samba_optimizer *o)
{
    SAMBA_TRY(check_number(context, i, "lr", o->lr, INFINITY));
    SAMBA_TRY(check_number(context, i, "weight_decay", o->weight_decay, INFINITY));
    if (o->kind == SAMBA_SGD)
        return check_number(context, i, "momentum", o->momentum, INFINITY);
    SAMBA_TRY(check_number(context, i, "beta1", o->beta1, 1));
    SAMBA_TRY(check_number(context, i, "beta2", o->beta2, 1));
    return check_number(context, i, "eps", o->eps, INFINITY);
}

static samba_status check_patterns(samba_context *context, int i, const samba_optimizer *o)
{
    bool complete = o->parameter_count == 0 || (o->parameter_count > 0 && o->parameters);
    for (int j = 0; complete && j < o->parameter_count; j++)
        complete = o->parameters[j] != NULL;
    return complete ? SAMBA_OK
                    : samba_fail(context, SAMBA_ERROR_ARGUMENT, "optimizer %d: parameter_count is %d, but its list or a name in it is NULL", i,
                                 o->parameter_count);
}

static bool is_taken(const samba_compile_options *options, int before, const char *parameter)
{
    bool taken = false;
    for (int j = 0; j < before; j++)
        taken = taken || owns(&options->optimizers[j], parameter);
    return taken;
}

static const char *name_of(const samba_optimizer *o, int number, char made_up[32])
{
    snprintf(made_up, 32, "optim%d", number);
    return o->name ? o->name : made_up;
}

static const char *nearer(const char *wanted, const char *before, const char *name)
{
    const char *const both[] = {before ? before : name, name}, *const found = samba_nearest(wanted, both, 2); /* the first of those that are as near */
    return found ? found : before;
}

/* Does each entry of an optimizer's list name a parameter that it gets? `g` is the graph as the user made it, whatever reaches a loss. */
static samba_status check_entry(const samba_graph *g, const samba_compile_options *options, int k, const char *entry)
{
    const char *mine = NULL, *others = NULL, *nearest = NULL, *first = NULL;
    char made_up[32];
    const char *optimizer = name_of(&options->optimizers[k], k, made_up);
    for (int64_t i = 0; i < g->node_count && !mine; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        const char *name = node->op == SAMBA_OP_parameter ? samba_graph_name_at(g, node->attrs->parameter.name) : NULL;
        if (!name)
            continue;
        first = first ? first : name;
        if (!samba_match(entry, name))
            nearest = nearer(entry, nearest, name);
        else if (is_taken(options, k, name))
            others = name;
        else
            mine = name;
    }
    if (mine)
        return SAMBA_OK;
    if (others)
        return samba_fail(g->context, SAMBA_ERROR_NAME, "optimizer '%s': '%.128s' gets nothing, an earlier optimizer has '%.128s' already: leave it out of one of them", optimizer, entry, others);
    if (nearest)
        return samba_fail(g->context, SAMBA_ERROR_NAME, "optimizer '%s': no parameter matches '%.128s' (did you mean '%.128s'?)", optimizer, entry, nearest);
    return samba_fail(g->context, SAMBA_ERROR_NAME, "optimizer '%s': no parameter matches '%.128s'; the model's begin with '%.128s'", optimizer, entry, first ? first : "");
}

static samba_status check_lists(const samba_graph *g, const samba_compile_options *options)
{
    for (int k = 0; k < options->optimizer_count; k++)
        for (int j = 0; j < options->optimizers[k].parameter_count; j++)
            SAMBA_TRY(check_entry(g, options, k, options->optimizers[k].parameters[j]));
    return SAMBA_OK;
}

static samba_status check(samba_context *context, const samba_compile_options *options, double *max_norm)
{
    *max_norm = 0;
    for (int i = 0; i < options->optimizer_count; i++) {
        const samba_optimizer *o = &options->optimizers[i];
        char buffer[32], other[32];
        if (o->kind != SAMBA_SGD && !is_adam(o))
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "optimizer %d has kind %d: expected SAMBA_SGD (0), SAMBA_ADAMW (1) or SAMBA_ADAM (2)", i,
                              (int)o->kind);
        SAMBA_TRY(check_patterns(context, i, o));
        SAMBA_TRY(check_numbers(context, i, o));
        if (o->nesterov && (o->momentum <= 0 || o->dampening != 0))
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "optimizer %d: nesterov needs momentum > 0 and dampening 0, given momentum %g and dampening %g", i, o->momentum,
                              o->dampening);
        if (!(o->max_grad_norm >= 0) || (o->max_grad_norm > 0 && *max_norm > 0 && o->max_grad_norm != *max_norm))
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "optimizer %d has max_grad_norm %g: the norm is one over all optimizers, so those that give one must give the "
                              "same value > 0 (an earlier one gave %g)",
                              i, o->max_grad_norm, *max_norm);
        if (o->max_grad_norm > 0)
            *max_norm = o->max_grad_norm;
        const char *name = name_of(o, i, buffer);
        for (int j = 0; j < i; j++)
            if (strcmp(name, name_of(&options->optimizers[j], j, other)) == 0)
                return samba_fail(context, SAMBA_ERROR_NAME, "optimizers %d and %d are both named '%s': give each its own name", j, i, name);
    }
    return SAMBA_OK;
}

/* min(1, max_grad_norm / (norm + 1e-6)) over the gradients of every parameter that some optimizer owns */
static samba_ref clipping(samba_graph *g, const samba_compile_options *options, double max_norm, int64_t count)
{
    g->phase = SAMBA_GRADNORM;
    samba_ref total = SAMBA_NONE;
    for (int64_t i = 0; i < count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        if (node->op != SAMBA_OP_parameter)
            continue;
        const char *name = samba_graph_name_at(g, node->attrs->parameter.name);
        bool owned = false;
        for (int k = 0; k < options->optimizer_count; k++)
            owned = owned || owns(&options->optimizers[k], name);
        samba_ref d = owned ? samba_autodiff_gradient(g, (samba_ref)i) : SAMBA_NONE;
        if (d == SAMBA_NONE)
            continue;
        int64_t dims[SAMBA_MAX_RANK];
        int rank = samba_node_at(g, d)->rank;
        d = samba_emit_cast(g, d, update_dtype(dtype_of(g, d)));
        for (int j = 0; j < rank; j++)
            dims[j] = j;
        samba_ref squares = samba_emit_reduce(g, SAMBA_OP_sum, mul(g, d, d), rank, dims);
        squares = samba_emit_cast(g, samba_emit_reshape(g, squares, 0, NULL), SAMBA_FLOAT64);
        total = total == SAMBA_NONE ? squares : add(g, total, squares);
    }
    if (total == SAMBA_NONE)
        return SAMBA_NONE;
    samba_ref norm = samba_emit1(g, SAMBA_OP_sqrt, total);
    samba_ref ratio = divide(g, argin(g, NULL, "max_grad_norm", max_norm), samba_emit_scalar(g, SAMBA_OP_add, norm, 1e-6));
    return samba_emit2(g, SAMBA_OP_minimum, ratio, samba_emit_constant(g, 1, SAMBA_FLOAT64));
}

static samba_status update(samba_graph *g, const samba_optimizer *o, const hyper *h, samba_ref p, samba_ref d, samba_ref coefficient)
{
    const char *name = samba_graph_name_at(g, samba_node_at(g, p)->attrs->parameter.name);
    samba_dtype dtype = update_dtype(dtype_of(g, p));
    g->location.scope = (uint32_t)samba_node_at(g, p)->attrs->parameter.name;
    d = samba_emit_cast(g, d, dtype);
    if (coefficient != SAMBA_NONE)
        d = mul(g, d, samba_emit_cast(g, coefficient, dtype));
    if (o->maximize)
        d = samba_emit1(g, SAMBA_OP_neg, d);
    hold(g, p, is_adam(o) ? adam(g, o, h, name, p, d) : sgd(g, o, h, name, p, d));
    return g->status;
}

samba_status samba_pass_optimizer(samba_compiler *compiler)
{
    const samba_compile_options *options = compiler->options;
    if (options->optimizer_count == 0)
        return SAMBA_OK;
    double max_norm;
    SAMBA_TRY(check(compiler->context, options, &max_norm));
    SAMBA_TRY(check_lists(options->graph ? options->graph : compiler->traced, options));
    samba_graph *g = compiler->graph; /* adds to it in place: nothing else holds it */
    int64_t count = g->node_count;
    samba_ref coefficient = max_norm > 0 ? clipping(g, options, max_norm, count) : SAMBA_NONE;
    SAMBA_TRY(g->status);
    g->phase = SAMBA_OPT;
    for (int k = 0; k < options->optimizer_count; k++) {
        const samba_optimizer *o = &options->optimizers[k];
        char made_up[32];
        const char *optimizer = name_of(o, k, made_up);
        hyper h;
        bool declared = false, matched = false;
        for (int64_t i = 0; i < count; i++) {
            const samba_node *node = samba_node_at(g, (samba_ref)i);
            if (node->op != SAMBA_OP_parameter)
                continue;
            const char *name = samba_graph_name_at(g, node->attrs->parameter.name);
            if (is_taken(options, k, name) || !owns(o, name))
                continue;
            matched = true;
            samba_ref d = samba_autodiff_gradient(g, (samba_ref)i);
            if (d == SAMBA_NONE)
                continue;
            if (!declared)
                declare(g, o, optimizer, options->optimizer_count > 1 || compiler->one_of_several, &h);
            declared = true;
            SAMBA_TRY(g->status);
            SAMBA_TRY(update(g, o, &h, (samba_ref)i, d, coefficient));
        }
        if (!matched)
            return samba_fail(compiler->context, SAMBA_ERROR_NAME,
                              "optimizer '%s' owns no parameter: none that no earlier optimizer owns has a name that matches '%s'", optimizer,
                              o->parameter_count ? o->parameters[0] : "*");
    }
    g->location = (samba_location){0};
    return g->status;
}

samba_optimizer samba_sgd(double lr) { return (samba_optimizer){.struct_size = sizeof(samba_optimizer), .kind = SAMBA_SGD, .lr = lr}; }

samba_optimizer samba_adam(double lr)
{
    return (samba_optimizer){.struct_size = sizeof(samba_optimizer), .kind = SAMBA_ADAM, .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

samba_optimizer samba_adamw(double lr)
{
    samba_optimizer o = samba_adam(lr);
    o.kind = SAMBA_ADAMW;
    o.weight_decay = 0.01;
    return o;
}
