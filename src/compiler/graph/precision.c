/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixed precision as torch.autocast(bfloat16) does it, chosen operator by operator in the column `amp` of ops.def:
 *   low   contractions read bfloat16. A parameter is cast once, under its views, and every reader shares that node; the parameter
 *   itself,
 *         its gradient and its update stay float32. The sum is a float32 value; it is rounded once, with its bias added.
 *   fp32  norms, losses, sums and their like read float32.
 *   any   is computed in float32 registers and rounded where its operands were; one float32 operand that is no number makes it
 *   float32:
 *         what is added to a float32 residual is not rounded before.
 * Rounding stands in the graph as casts, nothing is implied; fusion makes them free. Outputs and losses keep their dtype. Values
 * of a dtype other than float32, and nodes marked fp32 (samba_graphamp_push), stay as they were traced.
 *
 * Before autodiff: gradients then are of what forward really computes and come in the dtypes of its values.
 * Needs: a traced graph. Gives: the same graph with casts and without fp32 marks. Breaks nothing. */
#include "compiler/compiler.h"

typedef struct lowering {
    const uint8_t *delivered; /* by a sink, per node */
    const int32_t *users;     /* per node, sinks included */
} lowering;

static samba_dtype dtype_of(const samba_graph *g, samba_ref ref) { return (samba_dtype)samba_node_at(g, ref)->dtype; }

/* The value that a chain of views is a view of. */
static const samba_node *shown(const samba_graph *g, samba_ref ref)
{
    const samba_node *node = samba_node_at(g, ref);
    while (samba_ops[node->op].class_ == SAMBA_VIEW)
        node = samba_node_at(g, node->inputs[0]);
    return node;
}

/* `ref` in bfloat16: the cast stands under views, so that all views of a parameter share it. */
static samba_ref rounded(samba_graph *g, samba_ref ref)
{
    samba_node node = *samba_node_at(g, ref);
    if (node.dtype == SAMBA_BFLOAT16)
        return ref;
    if (node.op == SAMBA_OP_cast && dtype_of(g, node.inputs[0]) == SAMBA_BFLOAT16)
        return node.inputs[0];
    if (samba_ops[node.op].class_ != SAMBA_VIEW)
        return samba_emit_cast(g, ref, SAMBA_BFLOAT16);
    samba_ref source = rounded(g, node.inputs[0]);
    return samba_emit(g, (samba_op)node.op, 1, &source, node.attrs);
}

/* The value from which `ref`, a bfloat16 value of this pass, was rounded; `ref` itself in float32 where that is not there. */
static samba_ref before_rounding(samba_graph *g, samba_ref ref)
{
    const samba_node *node = samba_node_at(g, ref);
    bool cast = node->op == SAMBA_OP_cast && dtype_of(g, node->inputs[0]) == SAMBA_FLOAT32;
    return cast ? node->inputs[0] : samba_emit_cast(g, ref, SAMBA_FLOAT32);
}

/* product + bias: the sum that a bias is added to, SAMBA_NONE for any other node. */
static samba_ref biased(const samba_graph *g, const samba_node *node, const samba_ref *inputs, int *bias)
{
    if (node->op != SAMBA_OP_add)
        return SAMBA_NONE;
    for (int i = 0; i < 2; i++) {
        const samba_node *cast = samba_node_at(g, inputs[i]);
        *bias = 1 - i;
        if (cast->dtype == SAMBA_BFLOAT16 && cast->op == SAMBA_OP_cast && shown(g, inputs[1 - i])->op == SAMBA_OP_parameter &&
            samba_ops[samba_node_at(g, cast->inputs[0])->op].class_ == SAMBA_CONTRACT)
            return cast->inputs[0];
    }
    return SAMBA_NONE;
}

/* The result of a node whose operands were low: bfloat16, but for what is delivered. */
static samba_ref result_of(samba_rewriter *rewriter, samba_ref ref, samba_ref value)
{
    const lowering *l = rewriter->user;
    if (value == SAMBA_NONE || dtype_of(rewriter->out, value) != SAMBA_FLOAT32 || l->delivered[ref])
        return value;
    return samba_emit_cast(rewriter->out, value, SAMBA_BFLOAT16);
}

/* Operators that go as their operands go. */
static samba_ref follow(samba_rewriter *rewriter, samba_ref ref, samba_ref *inputs, const bool *ours)
{
    samba_graph *out = rewriter->out;
    const lowering *l = rewriter->user;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_op_class class_ = samba_ops[node->op].class_;
    bool any_low = false, all_low = true;
    for (int i = 0; i < node->arity; i++) {
        bool low = ours[i] && dtype_of(out, inputs[i]) == SAMBA_BFLOAT16;
        any_low = any_low || low;
        all_low = all_low && (low || !ours[i] || shown(out, inputs[i])->op == SAMBA_OP_constant);
    }
    if (!any_low)
        return samba_rewrite_copy(rewriter, ref, inputs);
    int bias;
    samba_ref sum = biased(out, node, inputs, &bias);
    if (sum != SAMBA_NONE) {
        inputs[1 - bias] = sum;
        return result_of(rewriter, ref, samba_rewrite_copy(rewriter, ref, inputs));
    }
    bool moves = class_ == SAMBA_VIEW || class_ == SAMBA_MOVE;
    for (int i = 0; i < node->arity; i++) {
        if (!ours[i])
            continue;
        if (all_low && moves)
            inputs[i] = rounded(out, inputs[i]);
        else if (!all_low && dtype_of(out, inputs[i]) == SAMBA_BFLOAT16 && l->users[node->inputs[i]] == 1)
            inputs[i] = before_rounding(out, inputs[i]);
        else
            inputs[i] = samba_emit_cast(out, inputs[i], SAMBA_FLOAT32);
    }
    samba_ref value = samba_rewrite_copy(rewriter, ref, inputs);
    return all_low ? result_of(rewriter, ref, value) : value;
}

static samba_ref lower(samba_rewriter *rewriter, samba_ref ref, const samba_ref *mapped)
{
    samba_graph *out = rewriter->out;
    const lowering *l = rewriter->user;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_ref inputs[SAMBA_MAX_ARITY];
    bool ours[SAMBA_MAX_ARITY], as_traced = node->fp32 || samba_ops[node->op].amp == SAMBA_AMP_fp32;
    out->recompute = false;
    out->fp32 = false;
    for (int i = 0; i < node->arity; i++) {
        ours[i] = dtype_of(rewriter->in, node->inputs[i]) == SAMBA_FLOAT32;
        inputs[i] = ours[i] && as_traced ? samba_emit_cast(out, mapped[i], SAMBA_FLOAT32) : mapped[i];
    }
    if (as_traced)
        return samba_rewrite_copy(rewriter, ref, inputs);
    samba_ref value;
    if (samba_ops[node->op].amp == SAMBA_AMP_any) {
        value = follow(rewriter, ref, inputs, ours);
    } else {
        bool low = false;
        for (int i = 0; i < node->arity; i++) {
            inputs[i] = ours[i] ? rounded(out, inputs[i]) : inputs[i];
            low = low || ours[i];
        }
        value = samba_rewrite_copy(rewriter, ref, inputs);
        value = low ? result_of(rewriter, ref, value) : value;
    }
    /* A view of a low value, or attention, comes in bfloat16 even when a sink wants it. */
    return value != SAMBA_NONE && l->delivered[ref] ? samba_emit_cast(out, value, (samba_dtype)node->dtype) : value;
}

static samba_ref unmark(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    rewriter->out->fp32 = false;
    return samba_rewrite_copy(rewriter, ref, inputs);
}

samba_status samba_lower_precision(const samba_graph *in, samba_precision precision, samba_graph **out)
{
    if (precision == SAMBA_FP32)
        return samba_graph_rewrite(in, unmark, NULL, out);
    samba_arena arena;
    samba_arena_init(&arena, in->context);
    uint8_t *delivered = samba_arena_alloc(&arena, (size_t)in->node_count + 1);
    int32_t *users = samba_arena_alloc(&arena, sizeof *users * (size_t)(in->node_count + 1));
    samba_status status = SAMBA_ERROR_MEMORY;
    if (delivered && users) {
        for (int64_t i = 0; i < in->node_count; i++)
            for (int k = 0; k < in->nodes[i].arity; k++)
                users[in->nodes[i].inputs[k]]++;
        for (int64_t i = 0; i < in->sink_count; i++) {
            delivered[in->sinks[i].value] = 1;
            users[in->sinks[i].value]++;
        }
        lowering l = {delivered, users};
        status = samba_graph_rewrite(in, lower, &l, out);
    }
    samba_arena_free(&arena);
    return status;
}

samba_status samba_pass_precision(samba_compiler *c)
{
    samba_graph *out;
    SAMBA_TRY(samba_lower_precision(c->graph, c->options->precision, &out));
    samba_compiler_take_graph(c, out);
    return SAMBA_OK;
}
