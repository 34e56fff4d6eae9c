/* SPDX-License-Identifier: Apache-2.0
 *
 * Update rules (updates.def) as nodes. Scalars are computed in float64, as PyTorch computes them in Python, and cast to the dtype
 * of the update where they meet it: the parameter's, but float32 for half precision, where 0.999 would be 0.998 and small
 * gradients have no squares. Parameters and state are rounded when they are stored. */
#include "compiler/graph/optimizers.h"

static samba_ref number_of(const samba_rule *x, samba_ref value) { return samba_emit_cast(x->graph, value, x->dtype); }

static samba_ref state_leaf(samba_graph *g, const char *prefix, samba_state state, samba_dtype dtype, samba_dims shape,
                            double initial)
{
    samba_attrs attrs = {0};
    attrs.state.name = samba_optimizer_joined(g, prefix, samba_states[state].name);
    attrs.state.dtype = dtype;
    attrs.state.shape = shape;
    attrs.state.init = initial == 0 ? SAMBA_INIT_ZEROS : SAMBA_INIT_CONSTANT;
    attrs.state.init_a = initial;
    attrs.state.kind = SAMBA_STATE_OPTIMIZER;
    return samba_emit(g, SAMBA_OP_state, 0, NULL, &attrs);
}

/* State of the parameter, as it is stored. */
static samba_ref state_of(const samba_rule *x, samba_state state)
{
    if (x->graph->status != SAMBA_OK)
        return SAMBA_NONE;
    samba_dims shape = samba_node_at(x->graph, x->leaf)->attrs->parameter.shape;
    return state_leaf(x->graph, x->parameter_name, state, x->stored, shape, samba_state_initial(x->optimizer, state));
}

static samba_ref total_of(const samba_rule *x, samba_state state)
{
    return state_leaf(x->graph, x->name, state, SAMBA_FLOAT64, (samba_dims){0}, samba_state_initial(x->optimizer, state));
}

/* From here on nodes are the parameter's: its module's, for people, and the first is its gradient, clipped and turned round. */
static void enter(samba_rule *x)
{
    samba_graph *g = x->graph;
    if (x->entered)
        return;
    x->entered = true;
    g->location.scope = x->scope;
    if (x->coefficient != SAMBA_NONE)
        x->gradient = samba_emit2(g, SAMBA_OP_mul, x->gradient, number_of(x, x->coefficient));
    if (x->flags & SAMBA_FLAG_MAXIMIZE)
        x->gradient = samba_emit1(g, SAMBA_OP_neg, x->gradient);
}

static void keep_total(samba_rule *x, samba_state state, samba_ref value)
{
    if (x->first)
        samba_optimizer_assign(x->graph, total_of(x, state), value);
    enter(x);
}

static samba_ref before_of(const samba_rule *x, samba_state state) { return number_of(x, state_of(x, state)); }

#define UNARY(op, a) samba_emit1(x->graph, SAMBA_OP_##op, a)
#define BINARY(op, a, b) samba_emit2(x->graph, SAMBA_OP_##op, a, b)
#define VALUE samba_ref
#define RULE(name) static __attribute__((unused)) void name(samba_rule *x)
#define EACH_ELEMENT enter(x);
#define IS(flag) ((x->flags & SAMBA_FLAG_##flag) != 0)
#define HYPER(hyper) (x->hypers[SAMBA_HYPER_##hyper])
#define TOTAL(state) total_of(x, SAMBA_STATE_##state)
#define KEEP_TOTAL(state, value) keep_total(x, SAMBA_STATE_##state, value)
#define SCALAR(name, value) const samba_ref name = value
#define CONDITION(name, value) const samba_ref name = value
#define NUMBER(name, value) const samba_ref name = number_of(x, value)
#define CONSTANT(value) samba_emit_constant(x->graph, value, SAMBA_FLOAT64)
#define TO_NUMBER(a) samba_emit_cast(x->graph, a, SAMBA_FLOAT64)
#define PARAMETER (x->parameter)
#define GRADIENT (x->gradient)
#define BEFORE(state) before_of(x, SAMBA_STATE_##state)
#define KEEP(state, value) samba_optimizer_hold(x->graph, state_of(x, SAMBA_STATE_##state), value)
#define KEEP_WHILE(condition, state, value) KEEP(state, SELECT(condition, value, BEFORE(state)))
#define CHOOSE(condition, a, b) SELECT(condition, a, b)
#define RESULT(value) x->result = value
#define SELECT(condition, a, b) samba_emit3(x->graph, SAMBA_OP_where, condition, a, b)
#define NE(a, b) BINARY(ne, a, b)
#define EQ(a, b) BINARY(eq, a, b)
#define GT(a, b) BINARY(gt, a, b)
#define ADD(a, b) BINARY(add, a, b)
#define SUB(a, b) BINARY(sub, a, b)
#define MUL(a, b) BINARY(mul, a, b)
#define DIV(a, b) BINARY(div, a, b)
#define POW(a, b) BINARY(pow, a, b)
#define MAXIMUM(a, b) BINARY(maximum, a, b)
#define SQRT(a) UNARY(sqrt, a)
#define RECIPROCAL(a) UNARY(reciprocal, a)
#define ABS(a) UNARY(abs, a)
#define SIGN(a) UNARY(sign, a)
#include "updates.def"

void samba_rule_emit(samba_rule *rule)
{
    rule->entered = false;
    rule->graph->location.scope = 0;
    switch ((int)rule->optimizer->kind) {
#define OPTIMIZER(KIND, kind, title, name, source, rule_of, fixed, branch, takes, flags, keeps)                                  \
    case kind: rule_of(rule); break;
#include "optimizers.def"
    }
}
