/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers as graph: the rules of updates.def, as torch.optim writes them, at the parameters that each optimizer owns; clipping
 * by the global norm as torch.nn.utils.clip_grad_norm_.
 *
 * Every number of a rule is a hyperparameter that a run may change, whatever it was when compiled, so the state that some value
 * of it needs is always there. State whose hyperparameter is 0 is left alone, as in PyTorch; kernels then do not touch it
 * (device/cpu/tile/update.h).
 *
 * Needs: gradients (autodiff). Gives: GRADNORM and OPT nodes, assignments to parameters and state. Breaks nothing. */
#include "compiler/graph/optimizers.h"

#include <string.h>

int64_t samba_optimizer_joined(samba_graph *g, const char *prefix, const char *name)
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
    attrs.argin.name = samba_optimizer_joined(g, optimizer, name);
    attrs.argin.dtype = SAMBA_FLOAT64;
    attrs.argin.value = value;
    return samba_emit(g, SAMBA_OP_argin, 0, NULL, &attrs);
}

static samba_ref add(samba_graph *g, samba_ref a, samba_ref b) { return samba_emit2(g, SAMBA_OP_add, a, b); }
static samba_ref mul(samba_graph *g, samba_ref a, samba_ref b) { return samba_emit2(g, SAMBA_OP_mul, a, b); }

void samba_optimizer_assign(samba_graph *g, samba_ref target, samba_ref value)
{
    if (g->status == SAMBA_OK)
        samba_graph_sink(g, (samba_sink){SAMBA_SINK_ASSIGN, SAMBA_OPT, 0, target, value});
}

static samba_dtype dtype_of(const samba_graph *g, samba_ref ref) { return (samba_dtype)samba_node_at(g, ref)->dtype; }

static samba_dtype update_dtype(samba_dtype dtype)
{
    return dtype == SAMBA_BFLOAT16 || dtype == SAMBA_FLOAT16 ? SAMBA_FLOAT32 : dtype;
}

void samba_optimizer_hold(samba_graph *g, samba_ref leaf, samba_ref value)
{
    if (g->status == SAMBA_OK)
        samba_optimizer_assign(g, leaf, samba_emit_cast(g, value, dtype_of(g, leaf)));
}

/* Its hyperparameters that a run may change. */
static void declare(samba_graph *g, const samba_optimizer *o, const char *prefix, samba_ref hypers[SAMBA_HYPERS])
{
    for (int i = 0; i < SAMBA_HYPERS; i++)
        hypers[i] = samba_hypers[i].run && samba_optimizer_takes(o->kind, (samba_hyper)i)
                        ? argin(g, prefix, samba_hypers[i].name, samba_hyper_of(o, (samba_hyper)i))
                        : SAMBA_NONE;
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

/* What torch.optim refuses too: NaN, and numbers out of range. */
static samba_status check_number(samba_context *context, int i, const samba_optimizer *o, samba_hyper hyper)
{
    const double value = samba_hyper_of(o, hyper);
    if (samba_range_has(samba_hypers[hyper].range, value))
        return SAMBA_OK;
    return samba_fail(context, SAMBA_ERROR_ARGUMENT, "optimizer %d has %s %g: expected %s", i, samba_hypers[hyper].name, value,
                      samba_range_text(samba_hypers[hyper].range));
}

static samba_status check_numbers(samba_context *context, int i, const samba_optimizer *o)
{
    for (int hyper = 0; hyper < SAMBA_HYPERS; hyper++)
        if (samba_optimizer_takes(o->kind, (samba_hyper)hyper))
            SAMBA_TRY(check_number(context, i, o, (samba_hyper)hyper));
    return SAMBA_OK;
}

/* "SAMBA_SGD (0), SAMBA_ADAMW (1) or SAMBA_ADAM (2)" */
static samba_status fail_kind(samba_context *context, int i, const samba_optimizer *o)
{
    static const char *const kinds[] = {
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps) "SAMBA_" #KIND " (" #number ")",
#include "optimizers.def"
    };
    samba_text text;
    samba_text_init(&text, context);
    for (int k = 0; k < SAMBA_COUNT(kinds); k++)
        samba_text_add(&text, "%s%s", k == 0 ? "" : k + 1 < SAMBA_COUNT(kinds) ? ", " : " or ", kinds[k]);
    samba_status status =
        text.status == SAMBA_OK
            ? samba_fail(context, SAMBA_ERROR_ARGUMENT, "optimizer %d has kind %d: expected %s", i, (int)o->kind, text.data)
            : text.status;
    samba_text_clear(&text);
    return status;
}

static samba_status check_patterns(samba_context *context, int i, const samba_optimizer *o)
{
    if (o->parameter_count == 0 && o->parameters)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "optimizer %d: parameters is given, and parameter_count is 0: set the count, or parameters to NULL, "
                          "which means all",
                          i);
    bool complete = o->parameter_count == 0 || (o->parameter_count > 0 && o->parameters);
    for (int j = 0; complete && j < o->parameter_count; j++)
        complete = o->parameters[j] != NULL;
    return complete
               ? SAMBA_OK
               : samba_fail(context, SAMBA_ERROR_ARGUMENT,
                            "optimizer %d: parameter_count is %d, but its list or a name in it is NULL", i, o->parameter_count);
}

/* The first of the optimizers before that has the parameter; `before` where none has. */
static int taken_by(const samba_compile_options *options, int before, const char *parameter)
{
    int by = 0;
    while (by < before && !owns(&options->optimizers[by], parameter))
        by++;
    return by;
}

static bool is_taken(const samba_compile_options *options, int before, const char *parameter)
{
    return taken_by(options, before, parameter) < before;
}

static const char *name_of(const samba_optimizer *o, int number, char made_up[32])
{
    snprintf(made_up, 32, "optim%d", number);
    return o->name ? o->name : made_up;
}

static const char *nearer(const char *wanted, const char *before, const char *name)
{
    /* the first of those that are as near */
    const char *const both[] = {before ? before : name, name}, *const found = samba_nearest(wanted, both, 2);
    return found ? found : before;
}

/* "a.b" for what begins with "a.b." */
static bool is_module_of(const char *entry, const char *parameter)
{
    const size_t length = strlen(entry);
    return length > 0 && strncmp(parameter, entry, length) == 0 && parameter[length] == '.';
}

/* Does each entry of an optimizer's list name a parameter that it gets? `g` is the graph as the user made it,
 * whatever reaches a loss. */
static samba_status check_entry(const samba_graph *g, const samba_compile_options *options, int k, const char *entry)
{
    const char *mine = NULL, *others = NULL, *nearest = NULL, *first = NULL, *inside = NULL;
    char made_up[32], its_name[32];
    const char *optimizer = name_of(&options->optimizers[k], k, made_up);
    for (int64_t i = 0; i < g->node_count && !mine; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        const char *name = node->op == SAMBA_OP_parameter ? samba_graph_name_at(g, node->attrs->parameter.name) : NULL;
        if (!name)
            continue;
        first = first ? first : name;
        inside = !inside && is_module_of(entry, name) ? name : inside;
        if (!samba_match(entry, name))
            nearest = nearer(entry, nearest, name);
        else if (is_taken(options, k, name))
            others = name;
        else
            mine = name;
    }
    if (mine)
        return SAMBA_OK;
    const bool same = others && strcmp(entry, others) == 0;
    const int taken = others ? taken_by(options, k, others) : k;
    if (others)
        return samba_fail(g->context, SAMBA_ERROR_NAME,
                          "optimizer '%s': %s%.128s%sparameter '%.128s' is in '%s' too, but a parameter may be in only one: "
                          "leave it out of one "
                          "of the two",
                          optimizer, same ? "" : "nothing is left for '", same ? "" : entry, same ? "" : "', as ", others,
                          name_of(&options->optimizers[taken], taken, its_name));
    if (inside)
        return samba_fail(g->context, SAMBA_ERROR_NAME,
                          "optimizer '%s': no parameter is named '%.128s': the pattern '%.128s.*' takes all of that module, "
                          "such as '%.128s'",
                          optimizer, entry, entry, inside);
    if (nearest)
        return samba_fail(g->context, SAMBA_ERROR_NAME, "optimizer '%s': no parameter matches '%.128s' (did you mean '%.128s'?)",
                          optimizer, entry, nearest);
    return samba_fail(g->context, SAMBA_ERROR_NAME,
                      "optimizer '%s': no parameter matches '%.128s'; the model's begin with '%.128s'", optimizer, entry,
                      first ? first : "");
}

/* Does an entry of options.gradients name a parameter? */
static samba_status check_gradient(const samba_graph *g, const char *entry)
{
    const char *nearest = NULL, *inside = NULL;
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        const char *name = node->op == SAMBA_OP_parameter ? samba_graph_name_at(g, node->attrs->parameter.name) : NULL;
        if (name && samba_match(entry, name))
            return SAMBA_OK;
        nearest = name ? nearer(entry, nearest, name) : nearest;
        inside = name && !inside && is_module_of(entry, name) ? name : inside;
    }
    if (inside)
        return samba_fail(g->context, SAMBA_ERROR_NAME,
                          "compile: gradients: no parameter is named '%.128s': the pattern '%.128s.*' takes all of that module, "
                          "such as '%.128s'",
                          entry, entry, inside);
    return samba_fail(g->context, SAMBA_ERROR_NAME, "compile: gradients: no parameter matches '%.128s'%s%.128s%s", entry,
                      nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
}

static samba_status check_lists(const samba_graph *g, const samba_compile_options *options)
{
    for (int j = 0; j < options->gradient_count; j++)
        SAMBA_TRY(check_gradient(g, options->gradients[j]));
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
        if (!samba_optimizer_facts_at((int)o->kind))
            return fail_kind(context, i, o);
        SAMBA_TRY(check_patterns(context, i, o));
        SAMBA_TRY(check_numbers(context, i, o));
        if ((samba_optimizer_flags(o) & SAMBA_FLAG_nesterov) && (o->momentum <= 0 || o->dampening != 0))
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "optimizer %d: nesterov needs momentum > 0 and dampening 0, given momentum %g and dampening %g", i,
                              o->momentum, o->dampening);
        if (!(o->max_grad_norm >= 0))
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "optimizer %d has max_grad_norm %g: expected a number in [0, inf), where 0 clips nothing", i,
                              o->max_grad_norm);
        if (o->max_grad_norm > 0 && *max_norm > 0 && o->max_grad_norm != *max_norm)
            return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                              "optimizer %d has max_grad_norm %g: the norm is one over all optimizers, so those that give one "
                              "must give the same value > 0 (an earlier one gave %g)",
                              i, o->max_grad_norm, *max_norm);
        if (o->max_grad_norm > 0)
            *max_norm = o->max_grad_norm;
        const char *name = name_of(o, i, buffer);
        for (int j = 0; j < i; j++)
            if (strcmp(name, name_of(&options->optimizers[j], j, other)) == 0)
                return samba_fail(context, SAMBA_ERROR_NAME, "optimizers %d and %d are both named '%s': give each its own name",
                                  j, i, name);
    }
    return SAMBA_OK;
}

samba_status samba_check_optimizers(const samba_compiler *c)
{
    const samba_compile_options *options = c->options;
    double max_norm;
    SAMBA_TRY(check(c->context, options, &max_norm));
    return check_lists(options->graph ? options->graph : c->traced, options);
}

bool samba_has_gradient(const void *compile_options, const char *parameter)
{
    const samba_compile_options *options = compile_options;
    bool has = is_taken(options, options->optimizer_count, parameter);
    for (int j = 0; j < options->gradient_count; j++)
        has = has || samba_match(options->gradients[j], parameter);
    return has;
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
        const bool owned = is_taken(options, options->optimizer_count, name);
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
    samba_ref above = samba_emit_scalar(g, SAMBA_OP_add, norm, 1e-6), most = argin(g, NULL, "max_grad_norm", max_norm);
    samba_ref ratio = samba_emit2(g, SAMBA_OP_div, most, above);
    return samba_emit2(g, SAMBA_OP_minimum, ratio, samba_emit_constant(g, 1, SAMBA_FLOAT64));
}

static samba_status update(samba_rule *rule, samba_ref d)
{
    samba_graph *g = rule->graph;
    const samba_attrs_parameter *leaf = &samba_node_at(g, rule->leaf)->attrs->parameter;
    rule->parameter_name = samba_graph_name_at(g, leaf->name);
    rule->scope = (uint32_t)leaf->name;
    rule->stored = dtype_of(g, rule->leaf);
    rule->dtype = update_dtype(rule->stored);
    g->location.scope = rule->scope;
    rule->gradient = samba_emit_cast(g, d, rule->dtype);
    rule->parameter = samba_emit_cast(g, rule->leaf, rule->dtype);
    samba_rule_emit(rule);
    samba_optimizer_hold(g, rule->leaf, rule->result);
    return g->status;
}

/* Among several graphs: the name of the optimizer, for which all that it trains is listed first. */
static samba_status share(samba_compiler *compiler, int k, int64_t count, const char **optimizer)
{
    samba_graph *g = compiler->graph;
    const char **parameters;
    int64_t trained = 0;
    if (!compiler->one_of_several)
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_ROOM(&compiler->arena, parameters, count));
    for (int64_t i = 0; i < count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        const char *name = node->op == SAMBA_OP_parameter ? samba_graph_name_at(g, node->attrs->parameter.name) : NULL;
        if (name && !is_taken(compiler->options, k, name) && owns(&compiler->options->optimizers[k], name) &&
            samba_autodiff_gradient(g, (samba_ref)i) != SAMBA_NONE)
            parameters[trained++] = name;
    }
    return samba_shared_optimizer(compiler, k, *optimizer, trained, parameters, optimizer);
}

/* No parameter that is computed with is this optimizer's. */
static samba_status fail_without(const samba_compiler *compiler, int k, const char *optimizer)
{
    const samba_compile_options *options = compiler->options;
    const samba_graph *g = compiler->graph;
    const char *taken = NULL;
    for (int64_t i = 0; i < g->node_count && !taken; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        const char *name = node->op == SAMBA_OP_parameter ? samba_graph_name_at(g, node->attrs->parameter.name) : NULL;
        taken = name && is_taken(options, k, name) ? name : NULL;
    }
    if (options->optimizers[k].parameter_count == 0 && taken)
        return samba_fail(compiler->context, SAMBA_ERROR_NAME,
                          "optimizer '%s' has no parameter left, as %s before it took all of them: give each optimizer its own "
                          "`parameters`, names or patterns, such as '%.*s*'",
                          optimizer, k == 1 ? "the optimizer" : "those",
                          (int)(strrchr(taken, '.') ? strrchr(taken, '.') - taken + 1 : 0), taken);
    return samba_fail(compiler->context, SAMBA_ERROR_NAME,
                      "optimizer '%s' has nothing to train: no output or loss is computed from %s%s%s", optimizer,
                      options->optimizers[k].parameter_count ? "a parameter that matches '" : "a parameter",
                      options->optimizers[k].parameter_count ? options->optimizers[k].parameters[0] : "",
                      options->optimizers[k].parameter_count ? "'" : "");
}

samba_status samba_pass_optimizer(samba_compiler *compiler)
{
    const samba_compile_options *options = compiler->options;
    if (options->optimizer_count == 0)
        return SAMBA_OK;
    double max_norm;
    SAMBA_TRY(check(compiler->context, options, &max_norm));
    samba_graph *g = compiler->graph; /* adds to it in place: nothing else holds it */
    int64_t count = g->node_count;
    samba_ref coefficient = max_norm > 0 ? clipping(g, options, max_norm, count) : SAMBA_NONE;
    SAMBA_TRY(g->status);
    g->phase = SAMBA_OPT;
    for (int k = 0; k < options->optimizer_count; k++) {
        const samba_optimizer *o = &options->optimizers[k];
        char made_up[32];
        const char *optimizer = name_of(o, k, made_up);
        SAMBA_TRY(share(compiler, k, count, &optimizer));
        samba_ref hypers[SAMBA_HYPERS];
        samba_rule rule = {.graph = g,
                           .optimizer = o,
                           .flags = samba_optimizer_flags(o),
                           .name = optimizer,
                           .hypers = hypers,
                           .coefficient = coefficient,
                           .first = true};
        bool matched = false;
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
            if (rule.first)
                declare(g, o, options->optimizer_count > 1 || compiler->one_of_several ? optimizer : NULL, hypers);
            SAMBA_TRY(g->status);
            rule.leaf = (samba_ref)i;
            SAMBA_TRY(update(&rule, d));
            rule.first = false;
        }
        if (!matched)
            return fail_without(compiler, k, optimizer);
    }
    g->location = (samba_location){0};
    return g->status;
}
