/* SPDX-License-Identifier: Apache-2.0
 *
 * When two graphs are the same: the form in which they are compared, and a number for what a graph says.
 *
 * A model of ONNX has no nodes that change nothing, and its reader computes what is known. So the form leaves out such nodes and
 * what no output needs, has known values as literals, and one way to say what may be said in several: a cut of one element has
 * step 1, an axis of one element is not turned, a greatest element of a window does not count its padding, and what has no
 * elements is an empty literal. */
#include "fuzz.h"

#include <string.h>

#define MOST_KNOWN ((int64_t)1 << 20) /* elements of a value that is computed */

static bool all_are(const samba_dims *dims, int64_t number)
{
    bool are = true;
    for (int64_t i = 0; i < dims->count; i++)
        are = are && dims->at[i] == number;
    return are;
}

static bool is_one(const samba_graph *graph, samba_ref ref)
{
    const samba_node *node = samba_node_at(graph, ref);
    return node->op == SAMBA_OP_constant && node->attrs->constant.value == 1;
}

/* Whether a node gives its first input as it is: it moves nothing, rounds integers, or only says something to a gradient. */
static bool changes_nothing(const samba_graph *graph, const samba_node *node)
{
    const samba_node *from = node->arity ? samba_node_at(graph, node->inputs[0]) : node;
    const bool same = from->dtype == node->dtype && samba_shape_equal(from->rank, from->shape, node->rank, node->shape);
    bool still = same;
    switch (node->op) {
    case SAMBA_OP_detach:
    case SAMBA_OP_variable:
    case SAMBA_OP_replica_mean:
    case SAMBA_OP_custom_gradient:
    case SAMBA_OP_dropout: return true;
    case SAMBA_OP_reshape:
    case SAMBA_OP_expand:
    case SAMBA_OP_slice:
    case SAMBA_OP_cast: return same;
    case SAMBA_OP_concat: return same && node->arity == 1;
    case SAMBA_OP_pad: return same && all_are(&node->attrs->pad.before, 0) && all_are(&node->attrs->pad.after, 0);
    case SAMBA_OP_permute:
        for (int d = 0; d < node->rank; d++)
            still = still && node->attrs->permute.dims.at[d] == d;
        return still;
    case SAMBA_OP_flip:
        for (int64_t i = 0; i < node->attrs->reduce.dims.count; i++)
            still = still && node->shape[node->attrs->reduce.dims.at[i]] < 2;
        return still;
    case SAMBA_OP_cumsum:
    case SAMBA_OP_cumprod:
    case SAMBA_OP_logcumsumexp:
    case SAMBA_OP_cummax:
    case SAMBA_OP_cummin: return same && node->shape[node->attrs->scan.dim] < 2;
    case SAMBA_OP_pow: return same && !samba_dtype_is_floating_point((samba_dtype)node->dtype) && is_one(graph, node->inputs[1]);
    case SAMBA_OP_softmax: return node->shape[node->attrs->axis.dim] == 0;
    case SAMBA_OP_floor:
    case SAMBA_OP_ceil:
    case SAMBA_OP_trunc:
    case SAMBA_OP_round: return !samba_dtype_is_floating_point((samba_dtype)node->dtype);
    default: return false;
    }
}

/* One way to say what attributes may say in several. */
static void choose_attributes(const samba_node *node, const samba_node *from, samba_attrs *attrs)
{
    int64_t kept = 0;
    switch (node->op) {
    case SAMBA_OP_slice:
        for (int d = 0; d < node->rank; d++) {
            const int64_t count = node->shape[d];
            int64_t *start = &attrs->slice.start.at[d], *step = &attrs->slice.step.at[d];
            *start = count ? *start : 0;
            *step = count > 1 ? *step : 1;
            attrs->slice.stop.at[d] = count ? *start + (count - 1) * *step + 1 : 0;
        }
        break;
    case SAMBA_OP_pad:
        for (int d = 0; d < node->rank; d++)
            if (from->shape[d] < 2)
                attrs->pad.interior.at[d] = 0;
        break;
    case SAMBA_OP_flip:
        for (int64_t i = 0; i < node->attrs->reduce.dims.count; i++)
            if (node->shape[node->attrs->reduce.dims.at[i]] > 1)
                attrs->reduce.dims.at[kept++] = node->attrs->reduce.dims.at[i];
        memset(attrs->reduce.dims.at + kept, 0, (size_t)(SAMBA_MAX_RANK - kept) * sizeof *attrs->reduce.dims.at);
        attrs->reduce.dims.count = kept;
        break;
    case SAMBA_OP_max_pool2d:
    case SAMBA_OP_max_pool2d_indices: attrs->pool2d.count_include_pad = 0; break;
    default: break;
    }
}

static bool is_known(const samba_graph *graph, const samba_node *node)
{
    bool known = samba_ops[node->op].class_ != SAMBA_LEAF || node->op == SAMBA_OP_iota || node->op == SAMBA_OP_constant;
    for (int k = 0; k < node->arity; k++)
        known = known && samba_node_at(graph, node->inputs[k])->op == SAMBA_OP_literal;
    return known && samba_ops[node->op].reference;
}

/* What a node gives whose inputs are literals, as one. */
static samba_ref literal_of(samba_graph *graph, samba_ref ref)
{
    const samba_node *node = samba_node_at(graph, ref);
    samba_array operands[SAMBA_MAX_ARITY], result = {.dtype = node->dtype, .rank = node->rank};
    samba_attrs attrs;
    memcpy(result.shape, node->shape, sizeof node->shape);
    if (!samba_shape_numel(result.rank, result.shape, &result.numel) || result.numel > MOST_KNOWN)
        return ref;
    for (int k = 0; k < node->arity; k++) {
        const samba_node *from = samba_node_at(graph, node->inputs[k]);
        operands[k] = (samba_array){.dtype = from->dtype, .rank = from->rank};
        memcpy(operands[k].shape, from->shape, sizeof from->shape);
        samba_shape_numel(from->rank, from->shape, &operands[k].numel);
        operands[k].data = samba_graph_blob_at(graph, from->attrs->literal.data)->data;
    }
    samba_blob *blob = samba_blob_new(graph->context, result.numel * (int64_t)samba_dtype_size(result.dtype));
    if (!blob)
        return samba_graph_stick(graph, SAMBA_ERROR_MEMORY);
    result.data = blob->data;
    const samba_reference reference = {graph->context, graph, node->attrs, node->arity, operands, &result};
    if (samba_ops[node->op].reference(&reference) != SAMBA_OK) {
        samba_blob_drop(blob);
        return ref;
    }
    samba_blob_seal(blob);
    memset(&attrs, 0, sizeof attrs);
    attrs.literal.dtype = node->dtype;
    attrs.literal.shape = samba_dims_of(node->rank, node->shape);
    attrs.literal.data = samba_graph_blob(graph, blob);
    samba_blob_drop(blob);
    return samba_emit(graph, SAMBA_OP_literal, 0, NULL, &attrs);
}

static samba_ref reshaped(samba_graph *out, const samba_node *node, samba_ref input)
{
    const samba_node *from = samba_node_at(out, input);
    if (from->op == SAMBA_OP_reshape)
        input = from->inputs[0];
    const samba_node *first = samba_node_at(out, input);
    return samba_shape_equal(first->rank, first->shape, node->rank, node->shape)
               ? input
               : samba_emit_reshape(out, input, node->rank, node->shape);
}

/* Whether all that a node can give is nothing, or the place of the only element of each line. */
static bool is_zeros(const samba_graph *graph, const samba_node *node)
{
    const samba_node *from = node->arity ? samba_node_at(graph, node->inputs[0]) : node;
    int64_t numel;
    if (samba_shape_numel(node->rank, node->shape, &numel) && numel == 0)
        return true;
    switch (node->op) {
    case SAMBA_OP_argsort: return from->shape[node->attrs->sort.dim] < 2;
    case SAMBA_OP_cummax_index:
    case SAMBA_OP_cummin_index: return from->shape[node->attrs->scan.dim] < 2;
    default: return false;
    }
}

static samba_ref zeros_like(samba_graph *out, const samba_node *node)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.constant.dtype = node->dtype;
    attrs.constant.shape = samba_dims_of(node->rank, node->shape);
    return samba_emit(out, SAMBA_OP_constant, 0, NULL, &attrs);
}

static samba_ref to_form(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_graph *out = rewriter->out;
    samba_attrs attrs;
    if (changes_nothing(rewriter->in, node))
        return inputs[0];
    samba_attrs_carry(out, rewriter->in, node, &attrs);
    choose_attributes(node, node->arity ? samba_node_at(rewriter->in, node->inputs[0]) : node, &attrs);
    samba_ref result = is_zeros(rewriter->in, node)   ? zeros_like(out, node)
                       : node->op == SAMBA_OP_reshape ? reshaped(out, node, inputs[0])
                                                      : samba_emit(out, (samba_op)node->op, node->arity, inputs, &attrs);
    return result != SAMBA_NONE && is_known(out, samba_node_at(out, result)) ? literal_of(out, result) : result;
}

samba_graph *fuzz_form(const samba_graph *graph)
{
    samba_graph *form = NULL, *pruned = NULL;
    if (samba_graph_rewrite(graph, to_form, NULL, &form) == SAMBA_OK && samba_graph_prune(form, &pruned) != SAMBA_OK)
        pruned = NULL;
    samba_graph_free(form);
    return pruned;
}

/* " = add %4 %1 : float32[6]": which operand comes first says nothing. */
static bool is_commutative(const char *line)
{
    static const char *const names[] = {"add", "mul",         "maximum",    "minimum",    "eq",
                                        "ne",  "bitwise_and", "bitwise_or", "bitwise_xor"};
    const char *name = line + strlen(" = ");
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0 && name[strlen(names[i])] == ' ')
            return true;
    return false;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Of one line, behind the node's own number; `nodes` has those before it. */
static uint64_t hash_line(const char *at, const uint64_t *nodes)
{
    uint64_t hash = 1, operands[SAMBA_MAX_ARITY];
    size_t count = 0;
    const bool commutative = strncmp(at, " = ", 3) == 0 && is_commutative(at);
    for (const char *operand; (operand = strstr(at, " %")) && count < SAMBA_MAX_ARITY;) {
        char *end;
        hash = samba_hash(at, (size_t)(operand - at), hash);
        operands[count++] = nodes[strtoll(operand + 2, &end, 10)];
        at = end;
    }
    hash = samba_hash(at, strlen(at), hash);
    if (commutative)
        qsort(operands, count, sizeof *operands, by_size);
    return samba_hash(operands, count * sizeof *operands, hash);
}

/* The hash of the sinks' lines, in which a node stands for the hash of its own line. */
uint64_t fuzz_meaning(const samba_graph *graph)
{
    char *text = NULL, *save = NULL;
    uint64_t *nodes = calloc((size_t)graph->node_count + 1, sizeof *nodes), sum = 0;
    if (!nodes || samba_graph_print(graph, &text) != SAMBA_OK)
        return free(nodes), 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const bool is_node = line[0] == '%';
        char *at = line, *type = NULL;
        for (char *colon = line; is_node && (colon = strstr(colon, " : ")); colon++)
            type = colon;
        char *location = type ? strstr(type, " \"") : NULL;
        if (location)
            *location = '\0';
        const int64_t self = is_node ? strtoll(line + 1, &at, 10) : 0;
        const uint64_t hash = hash_line(at, nodes);
        if (is_node)
            nodes[self] = hash;
        else
            sum = samba_hash(&hash, sizeof hash, sum + 1);
    }
    free(nodes);
    samba_text_free(graph->context, text);
    return sum;
}
