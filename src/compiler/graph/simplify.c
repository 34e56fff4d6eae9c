/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules that make a graph smaller without changing a value: operations with neutral constants, double negations, views of views,
 * views that change nothing, elementwise work that is less on the small side of pooling. Each rule is a few lines and looks at
 * one node and its inputs only; hash-consing does the rest (equal subexpressions), and copying only what sinks reach does away
 * with dead nodes.
 *
 * x*0 and x-x stay: they are NaN for some x. The order of operands stays too: products.c follows a sum by its first one.
 * Needs: nothing. Gives: fewer nodes. Breaks nothing. */
#include "compiler/compiler.h"

#include <string.h>

/* The number of a constant, or of a view of one. */
static bool number(const samba_graph *g, samba_ref ref, double *value)
{
    const samba_node *node = samba_node_at(g, ref);
    while (samba_ops[node->op].class_ == SAMBA_VIEW)
        node = samba_node_at(g, node->inputs[0]);
    if (node->op != SAMBA_OP_constant)
        return false;
    *value = node->attrs->constant.value;
    return true;
}

static bool same_shape(const samba_graph *g, samba_ref a, const samba_node *b)
{
    const samba_node *node = samba_node_at(g, a);
    return samba_shape_equal(node->rank, node->shape, b->rank, b->shape);
}

/* The operand beside a constant of this value, which may be the first one too where they can be exchanged. */
static samba_ref beside(const samba_graph *g, const samba_node *node, const samba_ref *inputs, double value, bool exchanged)
{
    double found;
    for (int i = 1; i >= !exchanged; i--)
        if (number(g, inputs[i], &found) && found == value && same_shape(g, inputs[1 - i], node))
            return inputs[1 - i];
    return SAMBA_NONE;
}

static samba_ref neutral(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    bool integer_or_bool = !samba_dtype_is_floating_point((samba_dtype)node->dtype);
    switch (node->op) {
    case SAMBA_OP_add: /* x + 0 is x but for -0 + 0, which nobody can tell apart by comparing */
        return node->dtype == SAMBA_BOOL ? SAMBA_NONE : beside(g, node, inputs, 0, true);
    case SAMBA_OP_sub: return beside(g, node, inputs, 0, false);
    case SAMBA_OP_mul: return beside(g, node, inputs, 1, true);
    case SAMBA_OP_div: return integer_or_bool ? SAMBA_NONE : beside(g, node, inputs, 1, false);
    case SAMBA_OP_where: /* what is left of where(condition, detach(x), x) */
        return inputs[1] == inputs[2] && same_shape(g, inputs[1], node) ? inputs[1] : SAMBA_NONE;
    default: return SAMBA_NONE;
    }
}

static samba_ref view(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    const samba_node *source = samba_node_at(g, inputs[0]);
    if (samba_is_combined(node)) /* over dims of size 1 */
        return source->dtype == node->dtype && same_shape(g, inputs[0], node) ? inputs[0] : SAMBA_NONE;
    switch (node->op) {
    case SAMBA_OP_cast: /* to what it is; there and back, where the way there keeps every value */
        if (source->dtype == node->dtype)
            return inputs[0];
        if (source->op == SAMBA_OP_cast && samba_node_at(g, source->inputs[0])->dtype == node->dtype &&
            samba_promote((samba_dtype)node->dtype, SAMBA_DIMENSIONED, (samba_dtype)source->dtype, SAMBA_DIMENSIONED) ==
                (samba_dtype)source->dtype &&
            samba_dtype_is_floating_point((samba_dtype)node->dtype))
            return source->inputs[0];
        return SAMBA_NONE;
    case SAMBA_OP_reshape:
        if (same_shape(g, inputs[0], node))
            return inputs[0];
        if (source->op == SAMBA_OP_reshape)
            return samba_emit_reshape(g, source->inputs[0], node->rank, node->shape);
        return SAMBA_NONE;
    case SAMBA_OP_expand:
        if (same_shape(g, inputs[0], node))
            return inputs[0];
        if (source->op == SAMBA_OP_expand)
            return samba_emit_expand(g, source->inputs[0], node->rank, node->shape);
        return SAMBA_NONE;
    case SAMBA_OP_permute: {
        samba_dims dims = node->attrs->permute.dims;
        if (source->op == SAMBA_OP_permute) {
            int64_t joined[SAMBA_MAX_RANK];
            for (int i = 0; i < node->rank; i++)
                joined[i] = source->attrs->permute.dims.at[dims.at[i]];
            bool identity = true;
            for (int i = 0; i < node->rank; i++)
                identity = identity && joined[i] == i;
            return identity ? source->inputs[0] : samba_emit_permute(g, source->inputs[0], joined);
        }
        for (int i = 0; i < node->rank; i++)
            if (dims.at[i] != i)
                return SAMBA_NONE;
        return inputs[0];
    }
    case SAMBA_OP_slice:
        for (int i = 0; i < node->rank; i++)
            if (node->attrs->slice.start.at[i] != 0 || node->attrs->slice.step.at[i] != 1 || node->shape[i] != source->shape[i])
                return SAMBA_NONE;
        return inputs[0];
    case SAMBA_OP_neg: return source->op == SAMBA_OP_neg ? source->inputs[0] : SAMBA_NONE;
    default: return SAMBA_NONE;
    }
}

/* The transpose of a product that nobody else reads is the product of the transposes, the other way round: a weight's gradient
 * comes in the weight's own layout. */
static samba_ref transposed(samba_rewriter *rewriter, const samba_node *node)
{
    samba_graph *out = rewriter->out;
    const int32_t *users = ((const samba_reads *)rewriter->user)->count;
    const samba_node *product = samba_node_at(rewriter->in, node->inputs[0]);
    int last = node->rank - 1;
    if (node->op != SAMBA_OP_permute || product->op != SAMBA_OP_matmul || users[node->inputs[0]] != 1)
        return SAMBA_NONE;
    for (int i = 0; i < node->rank; i++)
        if (node->attrs->permute.dims.at[i] != (i == last ? last - 1 : i == last - 1 ? last : i))
            return SAMBA_NONE;
    samba_ref a = rewriter->map[product->inputs[0]], b = rewriter->map[product->inputs[1]];
    samba_ref ta = samba_emit_transpose(out, a, -2, -1), tb = samba_emit_transpose(out, b, -2, -1);
    return samba_emit2(out, SAMBA_OP_matmul, tb, ta);
}

/* A product that sums over one row or column is elementwise, by broadcasting, in the dtype in which products are summed: it fuses
 * with what is around it. products.c joins those that are added before, as it looks at the graph that was. */
static samba_ref outer_product(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    const samba_node *a = samba_node_at(g, inputs[0]);
    if (node->op != SAMBA_OP_matmul || a->shape[a->rank - 1] != 1)
        return SAMBA_NONE;
    samba_ref x = samba_emit_cast(g, inputs[0], (samba_dtype)node->dtype);
    return samba_emit2(g, SAMBA_OP_mul, x, samba_emit_cast(g, inputs[1], (samba_dtype)node->dtype));
}

/* A scatter that adds to zeros, as a table's gradient does, and whose result is added to a value:
 * it adds to that value itself. */
static samba_ref added_there(samba_rewriter *rewriter, const samba_node *node, const samba_ref *inputs)
{
    const int32_t *users = ((const samba_reads *)rewriter->user)->count;
    for (int i = 0; node->op == SAMBA_OP_add && i < 2; i++) {
        const samba_node *sums = samba_node_at(rewriter->in, node->inputs[i]);
        double value;
        if (sums->op != SAMBA_OP_scatter || sums->attrs->scatter.reduce != 1 || users[node->inputs[i]] != 1 ||
            !same_shape(rewriter->out, inputs[1 - i], node) || !number(rewriter->in, sums->inputs[0], &value) || value != 0)
            continue;
        samba_attrs attrs;
        memset(&attrs, 0, sizeof attrs);
        attrs.scatter = sums->attrs->scatter;
        return samba_emit(rewriter->out, SAMBA_OP_scatter, 3,
                          (samba_ref[]){inputs[1 - i], rewriter->map[sums->inputs[1]], rewriter->map[sums->inputs[2]]}, &attrs);
    }
    return SAMBA_NONE;
}

static bool is_zero(const samba_graph *g, samba_ref ref)
{
    double value;
    return number(g, ref, &value) && value == 0;
}

/* relu then max_pool2d, backwards: what the mask of relu lets through of the pool's gradient. An element has a gradient where it
 * is the greatest of a window, so it is the pooled value: masking the pooled gradient by that does the same to fewer elements,
 * and where the gradient was made. */
static samba_ref pooled_mask(samba_graph *g, const samba_ref *inputs)
{
    const samba_node *closed = samba_node_at(g, inputs[0]), *spread = samba_node_at(g, inputs[2]);
    if (closed->op != SAMBA_OP_le || spread->op != SAMBA_OP_max_pool2d_grad || !is_zero(g, inputs[1]) ||
        !is_zero(g, closed->inputs[1]) || closed->inputs[0] != spread->inputs[0])
        return SAMBA_NONE;
    samba_attrs spreading, pooling;
    memset(&spreading, 0, sizeof spreading);
    spreading.pool2d = spread->attrs->pool2d; /* a node has no more bytes of attributes than its kind */
    pooling = spreading;
    pooling.pool2d.shape = (samba_dims){0};
    samba_ref x = spread->inputs[0], dy = spread->inputs[1];
    samba_ref y = samba_emit(g, SAMBA_OP_max_pool2d, 1, &x, &pooling);
    samba_ref zero = samba_emit_constant(g, 0, (samba_dtype)samba_node_at(g, dy)->dtype);
    samba_ref masked = samba_emit3(g, SAMBA_OP_where, samba_emit2(g, SAMBA_OP_le, y, zero), zero, dy);
    return samba_emit(g, SAMBA_OP_max_pool2d_grad, 2, (samba_ref[]){x, masked}, &spreading);
}

/* Every element of dy goes to elements of its own plane, so over whole planes the sum of a pool's gradient is that of dy. Only
 * windows that padding or ceil_mode lets reach out of the plane may lose some. */
static samba_ref pooled_sum(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    const samba_node *source = samba_node_at(g, inputs[0]);
    if (node->op != SAMBA_OP_sum || node->dtype != source->dtype ||
        (source->op != SAMBA_OP_max_pool2d_grad && source->op != SAMBA_OP_avg_pool2d_grad))
        return SAMBA_NONE;
    const samba_attrs_pool2d *pool = &source->attrs->pool2d;
    const samba_dims *dims = &node->attrs->reduce.dims;
    int pixel_dims = 0;
    for (int i = 0; i < dims->count; i++)
        pixel_dims += dims->at[i] >= source->rank - 2;
    if (pixel_dims != 2 || pool->ceil_mode || pool->divisor || pool->padding.at[0] || pool->padding.at[1])
        return SAMBA_NONE;
    int64_t over[SAMBA_MAX_RANK];
    for (int i = 0; i < dims->count; i++)
        over[i] = dims->at[i];
    return samba_emit_reduce(g, SAMBA_OP_sum, source->inputs[source->arity - 1], (int)dims->count, over);
}

/* The index of the greatest of all elements: over one dim, so that strides which cannot be read in one run are copied first. */
static samba_ref flat_argmax(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    const samba_node *source = samba_node_at(g, inputs[0]);
    if (node->op != SAMBA_OP_argmax || node->attrs->reduce.dims.count < 2)
        return SAMBA_NONE;
    int64_t numel, rank = node->rank, shape[SAMBA_MAX_RANK];
    memcpy(shape, node->shape, sizeof shape);
    samba_shape_numel(source->rank, source->shape, &numel);
    samba_ref flat = samba_emit_reshape(g, inputs[0], 1, &numel);
    return samba_emit_reshape(g, samba_emit_reduce(g, SAMBA_OP_argmax, flat, 1, (int64_t[]){0}), (int)rank, shape);
}

/* A bound written as a choice, x <= low ? low : x, or x >= high ? high : x, is a maximum or a minimum: they too take the second
 * operand of equal ones and keep a NaN. So is one by < or > where equal ones have the same bits, as all but zeros have. Around
 * one that is above it low stands first: x <= low ? low : minimum(x, high). */
static samba_ref bound(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    double limit, compared, other;
    samba_node test = *samba_node_at(g, inputs[0]), rest = *samba_node_at(g, inputs[2]);
    bool low = test.op == SAMBA_OP_le || test.op == SAMBA_OP_lt, strict = test.op == SAMBA_OP_lt || test.op == SAMBA_OP_gt;
    if (node->dtype == SAMBA_BOOL || (!low && test.op != SAMBA_OP_ge && test.op != SAMBA_OP_gt) ||
        !number(g, inputs[1], &limit) || !number(g, test.inputs[1], &compared) || (strict && limit == 0) ||
        memcmp(&limit, &compared, sizeof limit) != 0 || limit != limit ||
        samba_node_at(g, test.inputs[0])->dtype != node->dtype || !same_shape(g, inputs[2], node))
        return SAMBA_NONE;
    bool around = low && rest.op == SAMBA_OP_minimum && rest.inputs[0] == test.inputs[0] && number(g, rest.inputs[1], &other) &&
                  limit < other;
    if (inputs[2] != test.inputs[0] && !around)
        return SAMBA_NONE;
    return samba_emit2(g, low ? SAMBA_OP_maximum : SAMBA_OP_minimum, inputs[2], inputs[1]);
}

/* n == 0 ? y + n : y is y: what is left of a sum that is there for its gradient (by_frequency in trace/embedding.c). */
static samba_ref unchanged(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    const samba_node *test = samba_node_at(g, inputs[0]), *sum = samba_node_at(g, inputs[1]);
    return test->op == SAMBA_OP_eq && sum->op == SAMBA_OP_add && is_zero(g, test->inputs[1]) && sum->inputs[0] == inputs[2] &&
                   sum->inputs[1] == test->inputs[0] && same_shape(g, inputs[2], node)
               ? inputs[2]
               : SAMBA_NONE;
}

/* Rows of a table that is widened are widened rows: there are fewer. Of less elements than the table only, and where nothing is
 * rounded. */
static samba_ref widened_rows(samba_graph *g, const samba_node *node, const samba_ref *inputs)
{
    const samba_node *table = samba_node_at(g, inputs[0]);
    if (node->op != SAMBA_OP_embedding || table->op != SAMBA_OP_cast || samba_node_numel(node) >= samba_node_numel(table))
        return SAMBA_NONE;
    const samba_dtype narrow = (samba_dtype)samba_node_at(g, table->inputs[0])->dtype;
    if ((narrow != SAMBA_BFLOAT16 && narrow != SAMBA_FLOAT16) || (table->dtype != SAMBA_FLOAT32 && table->dtype != SAMBA_FLOAT64))
        return SAMBA_NONE;
    const samba_dtype wide = (samba_dtype)table->dtype;
    samba_ref rows = samba_emit2(g, SAMBA_OP_embedding, table->inputs[0], inputs[1]);
    return samba_emit_cast(g, rows, wide);
}

static samba_ref simplify(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    samba_graph *out = rewriter->out;
    out->recompute = false;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_ref simpler = samba_ops[node->op].arity >= 2 ? neutral(out, node, inputs) : SAMBA_NONE;
    if (simpler == SAMBA_NONE)
        simpler = samba_simplify_concat(out, node, inputs);
    if (simpler == SAMBA_NONE && node->arity == 2)
        simpler = samba_simplify_products(rewriter, ref, rewriter->user);
    if (simpler == SAMBA_NONE && node->arity == 2)
        simpler = samba_simplify_window(out, node, inputs);
    if (simpler == SAMBA_NONE && node->arity == 2)
        simpler = widened_rows(out, node, inputs);
    if (simpler == SAMBA_NONE && node->arity == 2)
        simpler = outer_product(out, node, inputs);
    if (simpler == SAMBA_NONE && node->arity == 2)
        simpler = added_there(rewriter, node, inputs);
    if (simpler == SAMBA_NONE && node->arity == 1)
        simpler = transposed(rewriter, node);
    if (simpler == SAMBA_NONE && node->arity == 1)
        simpler = view(out, node, inputs);
    if (simpler == SAMBA_NONE && node->op == SAMBA_OP_where)
        simpler = pooled_mask(out, inputs);
    if (simpler == SAMBA_NONE && node->op == SAMBA_OP_where)
        simpler = bound(out, node, inputs);
    if (simpler == SAMBA_NONE && node->op == SAMBA_OP_where)
        simpler = unchanged(out, node, inputs);
    if (simpler == SAMBA_NONE && node->arity == 1)
        simpler = pooled_sum(out, node, inputs);
    if (simpler == SAMBA_NONE && node->arity == 1)
        simpler = flat_argmax(out, node, inputs);
    return simpler != SAMBA_NONE || out->status != SAMBA_OK ? simpler : samba_rewrite_copy(rewriter, ref, inputs);
}

/* An addition that an addition of the same shape alone reads, as what it adds to, is inside of a sum. */
static samba_status find_reads(const samba_graph *g, samba_arena *arena, samba_reads *reads)
{
    SAMBA_TRY(SAMBA_ROOM(arena, reads->count, (size_t)g->node_count + 1));
    SAMBA_TRY(SAMBA_ROOM(arena, reads->inner, (size_t)g->node_count + 1));
    for (int64_t i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i].arity; k++)
            reads->count[g->nodes[i].inputs[k]]++;
    for (int64_t i = 0; i < g->sink_count; i++)
        reads->count[g->sinks[i].value]++;
    for (int64_t i = 0; i < g->node_count; i++) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        if (node->op != SAMBA_OP_add)
            continue;
        const samba_node *left = samba_node_at(g, node->inputs[0]);
        reads->inner[node->inputs[0]] = left->op == SAMBA_OP_add && reads->count[node->inputs[0]] == 1 &&
                                        left->phase == node->phase && left->fp32 == node->fp32 &&
                                        same_shape(g, node->inputs[0], node);
    }
    return SAMBA_OK;
}

static samba_status sweep(samba_compiler *compiler)
{
    samba_arena arena;
    samba_reads reads;
    samba_arena_init(&arena, compiler->context);
    samba_status status = find_reads(compiler->graph, &arena, &reads);
    if (status == SAMBA_OK)
        status = samba_compiler_rewrite(compiler, simplify, &reads);
    samba_arena_free(&arena);
    return status;
}

/* Twice: what a rule makes of a node may be simpler for its users, and what it leaves behind is dead only for the next sweep. */
samba_status samba_pass_simplify(samba_compiler *compiler)
{
    SAMBA_TRY(sweep(compiler));
    return sweep(compiler);
}
