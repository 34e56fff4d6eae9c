/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of rows: a value that is too large to store (logits over a vocabulary), and that only row by row computations need, is
 * computed for some rows at a time, with all that is made of it, forward and backward. Every chunk is a part of its own, which
 * shares no stage with others, and the live ranges of their values do not meet; so they share memory.
 *
 * Others see only small results: rows, joined by a concat (which costs nothing: pieces.c), and sums over the rows, to which each
 * chunk adds. BCKWD computes the rows of FWD again. So the rows that FWD computed serve outputs alone. BCKWD delivers those too,
 * and a run of both leaves that part of FWD out (section.c). A step computes each thing once, and a run of FWD alone still has
 * its outputs.
 *
 * Needs: core operators, simplified; chunk_find.c. Gives: chunks, sinks that BCKWD delivers again. Breaks: simplify (equal nodes
 * of two phases would fall together again). */
#include "compiler/graph/chunk.h"

#include <string.h>

/* columns for each summed element: what is so much wider than its operands is worth computing twice when FWD runs alone; hidden
 * layers of 4 times the width are not */
#define WIDE_PRODUCT 8
/* of the value, a chunk: enough rows (320 for GPT-2's vocabulary) to make up for reading the weight, and adding to its gradient,
 * once more a chunk: 4 % of the products' time at 256 rows, 10 % at 128 */
#define CHUNK_BYTES ((int64_t)64 << 20)
#define ROW_STEP 64 /* rows of a chunk are a multiple: whole blocks of a product */

typedef struct chunking {
    samba_region region;
    samba_rewriter *rewriter;
    uint8_t *needed;     /* per node of the region: 1 << phase of those that compute it */
    samba_ref *value;    /* result -> its value in the phase it belongs to */
    samba_ref *again;    /* result of FWD, or what outputs are made of from it -> the same in BCKWD */
    samba_ref *early;    /* outside nodes that were emitted before their turn */
    samba_ref *chunk;    /* member -> its rows in the chunk at hand */
    samba_ref *pieces;   /* per result: one of each chunk */
    int64_t *piece_at;   /* result -> where its pieces begin */
    int64_t count, step; /* chunks, rows of each but the last */
    int64_t first, rows; /* of the chunk at hand */
    bool done[2];        /* FWD, BCKWD are emitted */
} chunking;

static samba_ref mapped(const chunking *c, samba_ref ref)
{
    return c->early[ref] != SAMBA_NONE ? c->early[ref] : c->rewriter->map[ref];
}

/* ---- one node, for the rows of a chunk: its row dims are one dim ---- */
static int flat_shape(const samba_node *node, int at, int count, int64_t rows, int64_t *shape)
{
    int rank = 0;
    for (int d = 0; d < node->rank; d++)
        if (d == at)
            shape[rank++] = rows;
        else if (d < at || d >= at + count)
            shape[rank++] = node->shape[d];
    return rank;
}

static int flat_dim(samba_row_dims rows, int64_t dim)
{
    return (int)(dim < rows.at ? dim : dim < rows.at + rows.count ? rows.at : dim - rows.count + 1);
}

static samba_ref cut(chunking *c, samba_ref ref, int at, int count)
{
    const samba_node *node = samba_node_at(c->region.graph, ref);
    samba_graph *out = c->rewriter->out;
    int64_t shape[SAMBA_MAX_RANK], start[SAMBA_MAX_RANK] = {0};
    int rank = flat_shape(node, at, count, c->region.rows, shape);
    samba_ref flat = samba_emit_reshape(out, mapped(c, ref), rank, shape);
    start[at] = c->first;
    shape[at] = c->first + c->rows;
    return samba_emit_slice(out, flat, rank, start, shape);
}

/* A member's rows, or those of what is cut. */
static samba_ref rows_of(chunking *c, samba_ref ref, int at, int count)
{
    return samba_in_region(&c->region, ref) ? c->chunk[ref] : cut(c, ref, at, count);
}

/* Operand k of a node with these row dims: its rows, or all of what they share. */
static samba_ref operand(chunking *c, const samba_node *node, samba_row_dims rows, int k)
{
    samba_ref u = node->inputs[k];
    const samba_node *input = samba_node_at(c->region.graph, u);
    if (samba_in_region(&c->region, u))
        return c->chunk[u];
    int at = rows.at - (node->rank - input->rank), from = at > 0 ? at : 0;
    if (samba_rows_relate(node, rows.at, rows.count, input) == SAMBA_ROWS_FULL)
        return cut(c, u, at, rows.count);
    if (at + rows.count <= 0)
        return mapped(c, u);
    int64_t shape[SAMBA_MAX_RANK];
    int rank = flat_shape(input, from, at + rows.count - from, 1, shape);
    return samba_emit_reshape(c->rewriter->out, mapped(c, u), rank, shape);
}

static samba_ref matrix(samba_graph *out, samba_ref ref, int64_t rows, int64_t columns)
{
    return samba_emit_reshape(out, ref, 2, (int64_t[]){rows, columns});
}

static samba_ref emit_matmul(chunking *c, const samba_node *node, samba_row_dims rows)
{
    samba_graph *out = c->rewriter->out;
    const samba_node *a = samba_node_at(c->region.graph, node->inputs[0]), *b = samba_node_at(c->region.graph, node->inputs[1]);
    int64_t m = a->shape[a->rank - 2], k = a->shape[a->rank - 1], n = b->shape[b->rank - 1], shape[SAMBA_MAX_RANK];
    samba_ref x = mapped(c, node->inputs[0]), y = mapped(c, node->inputs[1]);
    bool columns = rows.at == node->rank - 1; /* the rows are the product's columns */
    if (columns) {
        y = rows_of(c, node->inputs[1], b->rank - 1, 1);
        n = c->rows;
    } else {
        x = rows_of(c, node->inputs[0], rows.at - (node->rank - a->rank), rows.count);
        m = c->rows;
    }
    samba_ref right = matrix(out, y, k, n), product = samba_emit2(out, SAMBA_OP_matmul, matrix(out, x, m, k), right);
    int rank = flat_shape(node, rows.at, rows.count, c->rows, shape);
    return samba_emit_reshape(out, product, rank, shape);
}

/* Over the dims that are before `begin` or behind the rows. */
static samba_ref emit_reduced(chunking *c, const samba_node *node, int begin)
{
    samba_row_dims from = c->region.row[node->inputs[0]];
    int64_t dims[SAMBA_MAX_RANK];
    int count = 0;
    for (int64_t k = 0; k < node->attrs->reduce.dims.count; k++) {
        int64_t d = node->attrs->reduce.dims.at[k];
        if (d < begin || d >= from.at + from.count)
            dims[count++] = flat_dim(from, d);
    }
    return samba_emit_reduce(c->rewriter->out, (samba_op)node->op, c->chunk[node->inputs[0]], count, dims);
}

static samba_ref emit_member(chunking *c, samba_ref ref)
{
    samba_graph *out = c->rewriter->out;
    const samba_node *node = samba_node_at(c->region.graph, ref);
    samba_row_dims rows = c->region.row[ref], from = node->arity > 0 ? c->region.row[node->inputs[0]] : rows;
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    int64_t shape[SAMBA_MAX_RANK];
    int rank = flat_shape(node, rows.at, rows.count, c->rows, shape);
    samba_ref inputs[3];
    switch (node->op) {
    case SAMBA_OP_matmul: return emit_matmul(c, node, rows);
    case SAMBA_OP_reshape: return samba_emit_reshape(out, c->chunk[node->inputs[0]], rank, shape);
    case SAMBA_OP_expand: return samba_emit_expand(out, operand(c, node, rows, 0), rank, shape);
    case SAMBA_OP_permute: {
        int64_t dims[SAMBA_MAX_RANK];
        for (int d = 0, k = 0; d < node->rank; d++)
            if (d <= rows.at || d >= rows.at + rows.count)
                dims[k++] = flat_dim(from, node->attrs->permute.dims.at[d]);
        return samba_emit_permute(out, c->chunk[node->inputs[0]], dims);
    }
    case SAMBA_OP_slice:
        attrs.slice.start.count = attrs.slice.stop.count = attrs.slice.step.count = rank;
        for (int d = 0; d < node->rank; d++) {
            bool is_row = d >= rows.at && d < rows.at + rows.count;
            attrs.slice.start.at[flat_dim(rows, d)] = is_row ? 0 : node->attrs->slice.start.at[d];
            attrs.slice.stop.at[flat_dim(rows, d)] = is_row ? c->rows : node->attrs->slice.stop.at[d];
            attrs.slice.step.at[flat_dim(rows, d)] = is_row ? 1 : node->attrs->slice.step.at[d];
        }
        return samba_emit(out, SAMBA_OP_slice, 1, &c->chunk[node->inputs[0]], &attrs);
    case SAMBA_OP_constant:
        attrs.constant = node->attrs->constant;
        attrs.constant.shape.count = rank;
        memcpy(attrs.constant.shape.at, shape, sizeof(int64_t) * (size_t)rank);
        return samba_emit(out, SAMBA_OP_constant, 0, NULL, &attrs);
    case SAMBA_OP_iota:
        attrs.iota = node->attrs->iota;
        attrs.iota.shape.count = rank;
        memcpy(attrs.iota.shape.at, shape, sizeof(int64_t) * (size_t)rank);
        attrs.iota.dim = flat_dim(rows, attrs.iota.dim);
        return samba_emit(out, SAMBA_OP_iota, 0, NULL, &attrs);
    default: break;
    }
    if (samba_ops[node->op].class_ == SAMBA_REDUCE_CLASS)
        return emit_reduced(c, node, from.at); /* a row dim of size 1 may stand there: it is the rows' */
    for (int i = 0; i < node->arity; i++)
        inputs[i] = operand(c, node, rows, i);
    return samba_emit(out, (samba_op)node->op, node->arity, inputs, node->attrs);
}

/* The addend of a chunk's rows to a reduction over all rows, in the shape of the whole. */
static samba_ref emit_summed(chunking *c, samba_ref ref)
{
    samba_graph *out = c->rewriter->out;
    const samba_node *node = samba_node_at(c->region.graph, ref);
    samba_ref part;
    if (node->op == SAMBA_OP_matmul) {
        const samba_node *a = samba_node_at(c->region.graph, node->inputs[0]),
                         *b = samba_node_at(c->region.graph, node->inputs[1]);
        samba_ref x = rows_of(c, node->inputs[0], a->rank - 1, 1);
        samba_ref y = rows_of(c, node->inputs[1], b->rank - 2, 1);
        samba_ref right = matrix(out, y, c->rows, b->shape[b->rank - 1]);
        part = samba_emit2(out, SAMBA_OP_matmul, matrix(out, x, a->shape[a->rank - 2], c->rows), right);
    } else {
        part = emit_reduced(c, node, c->region.row[node->inputs[0]].at + 1);
    }
    return samba_emit_reshape(out, part, node->rank, node->shape);
}

/* ---- all chunks of a phase ---- */
static samba_ref joined(chunking *c, samba_ref ref)
{
    samba_graph *out = c->rewriter->out;
    const samba_node *node = samba_node_at(c->region.graph, ref);
    const samba_ref *pieces = c->pieces + c->piece_at[ref];
    samba_ref whole = samba_emit_concat(out, (int)c->count, pieces, c->region.row[ref].at);
    return samba_emit_reshape(out, whole, node->rank, node->shape);
}

/* What combines the chunks' results: of a reduction its own, of a product the sum. */
static samba_op combining(const samba_node *node) { return samba_is_combined(node) ? samba_ops[node->op].combine : SAMBA_OP_add; }

static void enter(chunking *c, samba_ref ref, samba_phase phase, uint32_t part)
{
    samba_graph *out = c->rewriter->out;
    const samba_node *node = samba_node_at(c->region.graph, ref);
    out->location = samba_graph_location(out, c->region.graph, node->location);
    out->phase = phase;
    out->part = part;
    out->recompute = true;
}

/* Nodes outside that a chunk may read, or outputs are made of: none waits for a result of this phase. */
static void emit_early(chunking *c, samba_ref now, samba_phase phase)
{
    const samba_graph *in = c->region.graph;
    int64_t last = 0;
    for (int64_t i = 0; i < in->node_count; i++)
        if (c->needed[i] >> phase & 1 || (c->region.tainted[i] && in->nodes[i].phase <= SAMBA_FWD))
            last = i;
    for (int64_t i = now; i < last; i++) {
        const samba_node *node = samba_node_at(in, (samba_ref)i);
        if (c->region.row[i].kind == SAMBA_ROWS_MEMBER || c->region.row[i].kind == SAMBA_ROWS_SUMMED || c->region.tainted[i] ||
            node->phase > phase || c->early[i] != SAMBA_NONE)
            continue;
        samba_ref inputs[SAMBA_MAX_ARITY];
        for (int k = 0; k < node->arity; k++)
            inputs[k] = mapped(c, node->inputs[k]);
        enter(c, (samba_ref)i, (samba_phase)node->phase, node->part);
        c->early[i] = samba_rewrite_copy(c->rewriter, (samba_ref)i, inputs);
    }
}

/* Outputs of FWD, from results that BCKWD has computed again. */
static void emit_outputs_again(chunking *c)
{
    const samba_graph *in = c->region.graph;
    for (int64_t i = 0; i < in->node_count; i++) {
        const samba_node *node = samba_node_at(in, (samba_ref)i);
        if (!c->region.tainted[i] || node->phase > SAMBA_FWD)
            continue;
        samba_ref inputs[SAMBA_MAX_ARITY];
        for (int k = 0; k < node->arity; k++)
            inputs[k] = c->again[node->inputs[k]] != SAMBA_NONE ? c->again[node->inputs[k]] : mapped(c, node->inputs[k]);
        enter(c, (samba_ref)i, SAMBA_BCKWD, (uint32_t)c->count + 1);
        c->again[i] = samba_emit(c->rewriter->out, (samba_op)node->op, node->arity, inputs, node->attrs);
    }
}

static void emit_phase(chunking *c, samba_ref now, samba_phase phase)
{
    const samba_graph *in = c->region.graph;
    emit_early(c, now, phase);
    for (int64_t k = 0; k < c->count; k++) {
        c->first = k * c->step;
        c->rows = c->region.rows - c->first < c->step ? c->region.rows - c->first : c->step;
        for (int64_t i = 0; i < in->node_count; i++) {
            if (!(c->needed[i] >> phase & 1))
                continue;
            enter(c, (samba_ref)i, phase, (uint32_t)k + 1);
            samba_ref *piece = c->pieces + c->piece_at[i];
            if (c->region.row[i].kind != SAMBA_ROWS_SUMMED) {
                c->chunk[i] = emit_member(c, (samba_ref)i);
                if (c->region.result[i])
                    piece[k] = c->chunk[i];
                continue;
            }
            samba_ref part = emit_summed(c, (samba_ref)i);
            piece[0] = k == 0 ? part : samba_emit2(c->rewriter->out, combining(&in->nodes[i]), piece[0], part);
        }
    }
    for (int64_t i = 0; i < in->node_count; i++) {
        if (!(c->needed[i] >> phase & 1) || !c->region.result[i])
            continue;
        enter(c, (samba_ref)i, phase, c->region.trains && in->nodes[i].phase <= SAMBA_FWD ? (uint32_t)c->count + 1 : 0);
        samba_ref whole = c->region.row[i].kind == SAMBA_ROWS_SUMMED ? c->pieces[c->piece_at[i]] : joined(c, (samba_ref)i);
        (phase == SAMBA_BCKWD && in->nodes[i].phase <= SAMBA_FWD ? c->again : c->value)[i] = whole;
    }
    if (phase == SAMBA_BCKWD)
        emit_outputs_again(c);
    c->done[phase == SAMBA_BCKWD] = true;
}

static samba_ref rewrite(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    chunking *c = rewriter->user;
    samba_graph *out = rewriter->out;
    const samba_node *node = samba_node_at(rewriter->in, ref);
    samba_row_kind kind = (samba_row_kind)c->region.row[ref].kind;
    c->rewriter = rewriter;
    if (kind == SAMBA_ROWS_MEMBER || kind == SAMBA_ROWS_SUMMED) {
        if (!c->region.result[ref]) /* nobody asks for it */
            return samba_emit_constant(out, 0, SAMBA_FLOAT32);
        samba_phase phase = node->phase == SAMBA_BCKWD ? SAMBA_BCKWD : SAMBA_FWD;
        if (!c->done[phase == SAMBA_BCKWD])
            emit_phase(c, ref, phase);
        return c->value[ref];
    }
    if (c->early[ref] != SAMBA_NONE)
        return c->early[ref];
    if (c->region.trains && c->region.tainted[ref] && node->phase <= SAMBA_FWD)
        out->part = (uint32_t)c->count + 1;
    return samba_rewrite_copy(rewriter, ref, inputs);
}

/* ---- preparing ---- */
static samba_status prepare(chunking *c, samba_arena *arena, int64_t bytes)
{
    const samba_graph *g = c->region.graph;
    size_t nodes = (size_t)g->node_count;
    int64_t most = bytes / c->region.row_bytes / ROW_STEP * ROW_STEP, results = 0;
    most = most < ROW_STEP ? ROW_STEP : most;
    c->count = (c->region.rows + most - 1) / most;
    c->count = c->count > SAMBA_MAX_ARITY ? SAMBA_MAX_ARITY : c->count;
    c->step = ((c->region.rows + c->count - 1) / c->count + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    c->count = (c->region.rows + c->step - 1) / c->step;
    for (size_t i = 0; i < nodes; i++)
        results += c->region.result[i];
    samba_ref **arrays[] = {&c->value, &c->again, &c->early, &c->chunk};
    for (size_t k = 0; k < SAMBA_COUNT(arrays); k++) {
        SAMBA_TRY(SAMBA_ROOM(arena, *arrays[k], nodes));
        for (size_t i = 0; i < nodes; i++)
            (*arrays[k])[i] = SAMBA_NONE;
    }
    SAMBA_TRY(SAMBA_ROOM(arena, c->needed, nodes));
    SAMBA_TRY(SAMBA_ROOM(arena, c->piece_at, nodes));
    SAMBA_TRY(SAMBA_ROOM(arena, c->pieces, results * c->count + 1));
    int64_t at = 0;
    for (int64_t i = g->node_count - 1; i >= 0; i--) {
        const samba_node *node = samba_node_at(g, (samba_ref)i);
        c->piece_at[i] = at;
        if (c->region.result[i]) {
            at += c->count;
            c->needed[i] |= (uint8_t)(1 << (node->phase == SAMBA_BCKWD ? SAMBA_BCKWD : SAMBA_FWD));
            if (c->region.trains)
                c->needed[i] |= 1 << SAMBA_BCKWD;
        }
        for (int k = 0; k < node->arity && c->needed[i]; k++)
            if (samba_in_region(&c->region, node->inputs[k]))
                c->needed[node->inputs[k]] |= c->needed[i];
    }
    return SAMBA_OK;
}

static samba_status chunk(samba_compiler *compiler, chunking *c)
{
    const samba_graph *in = compiler->graph;
    samba_graph *out;
    SAMBA_TRY(samba_graph_rewrite(in, rewrite, c, &out));
    for (int64_t i = 0; i < in->sink_count && c->region.trains; i++) {
        samba_sink sink = in->sinks[i];
        if (sink.kind == SAMBA_SINK_ASSIGN || sink.phase != SAMBA_FWD || c->again[sink.value] == SAMBA_NONE)
            continue;
        sink.name = samba_graph_intern(out, samba_graph_name_at(in, sink.name));
        sink.phase = SAMBA_BCKWD;
        sink.kind = SAMBA_SINK_AGAIN;
        sink.value = c->again[sink.value];
        samba_graph_sink(out, sink);
    }
    samba_compiler_take_graph(compiler, out);
    return samba_compiler_rewrite(compiler, NULL, NULL); /* without dead nodes */
}

/* A product with far more columns than it sums elements, and too large. */
static bool begins(const samba_graph *g, samba_ref ref, int64_t bytes)
{
    const samba_node *node = samba_node_at(g, ref);
    if (node->op != SAMBA_OP_matmul || node->phase != SAMBA_FWD)
        return false;
    const samba_node *a = samba_node_at(g, node->inputs[0]);
    int64_t rows = samba_sizes_product(node->rank - 1, node->shape), columns = node->shape[node->rank - 1];
    int64_t row = columns * (int64_t)samba_dtype_size((samba_dtype)node->dtype);
    return columns >= WIDE_PRODUCT * a->shape[a->rank - 1] && rows > ROW_STEP && row > 0 && rows > bytes / row;
}

/* The first such product that can be cut: a model has one head. */
static samba_status find_and_cut(samba_compiler *compiler, samba_arena *arena, int64_t bytes)
{
    const samba_graph *g = compiler->graph;
    size_t nodes = (size_t)g->node_count;
    chunking c = {.region = {.graph = g}};
    SAMBA_TRY(SAMBA_ROOM(arena, c.region.row, nodes));
    SAMBA_TRY(SAMBA_ROOM(arena, c.region.result, nodes));
    SAMBA_TRY(SAMBA_ROOM(arena, c.region.tainted, nodes));
    for (int64_t i = 0; i < g->node_count; i++)
        if (begins(g, (samba_ref)i, bytes) && samba_region_find(&c.region, (samba_ref)i)) {
            SAMBA_TRY(prepare(&c, arena, bytes));
            return chunk(compiler, &c);
        }
    return SAMBA_OK;
}

samba_status samba_pass_chunk(samba_compiler *compiler)
{
    int64_t bytes = compiler->options->chunk_bytes > 0 ? compiler->options->chunk_bytes : CHUNK_BYTES;
    bool any = false;
    for (int64_t i = 0; i < compiler->graph->node_count && !any; i++)
        any = begins(compiler->graph, (samba_ref)i, bytes);
    if (!any)
        return SAMBA_OK;
    SAMBA_TRY(samba_compiler_rewrite(compiler, NULL, NULL)); /* without dead nodes */
    samba_arena arena;
    samba_arena_init(&arena, compiler->context);
    samba_status status = find_and_cut(compiler, &arena, bytes);
    samba_arena_free(&arena);
    return status;
}
