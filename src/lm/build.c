/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a description: embedding, layers, head; and the loss. Only public functions build it, so shapes, gradients and
 * errors are those of every other model. */
#include "graph/graph.h"
#include "lm/lm.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <math.h>

samba_lm_options samba_lm_defaults(void) { return (samba_lm_options){.struct_size = sizeof(samba_lm_options)}; }

/* ---- embedding ---- */

/* The table of embeddings: its rows as float32, and what lies in memory, of which int8 has scales. */
typedef struct tokens_table {
    samba_value rows, kept, scales;
} tokens_table;

/* Rows of integers, as a linear layer's weights are in INT8: nearly half of what a small model reads is this table. */
static tokens_table table_of_int8(samba_lm_build *b, const int64_t shape[2])
{
    const samba_initializer given = {.kind = SAMBA_INIT_NONE};
    samba_value kept = samba_register_buffer(b->graph, "weight", SAMBA_INT8, 2, shape, given);
    samba_value scales = samba_register_buffer(b->graph, "weight_scale", SAMBA_FLOAT32, 2, (int64_t[]){shape[0], 1}, given);
    samba_value rows = samba_cast(kept, SAMBA_FLOAT32);
    return (tokens_table){samba_mul(rows, scales), kept, scales};
}

static tokens_table table_of(samba_lm_build *b)
{
    const samba_lm_shape *m = b->m;
    const int64_t shape[2] = {m->vocab_size, m->embedding_size};
    tokens_table table = {{0}, {0}, {0}};
    samba_lm_enter(b, m->names.embedding);
    if (b->options.base == SAMBA_BASE_INT8 || b->options.base == SAMBA_BASE_INT4) {
        table = table_of_int8(b, shape);
    } else {
        table.rows = table.kept = samba_lm_parameter(b, "weight", 2, shape, NAN);
        const samba_node *node = table.rows.index == SAMBA_NONE ? NULL : samba_node_at(b->graph, table.rows.index);
        if (node && node->op == SAMBA_OP_cast)
            table.kept.index = node->inputs[0];
    }
    samba_lm_leave(b, m->names.embedding);
    return table;
}

/* Rows of learned positions: those of position_ids; of how many tokens the mask has shown so far; or the first ones. */
static samba_value position_rows(samba_lm_build *b)
{
    const samba_lm_shape *m = b->m;
    samba_lm_options *o = &b->options;
    samba_value at = o->position_ids;
    samba_lm_enter(b, m->names.positions);
    samba_value table = samba_lm_parameter(b, "weight", 2, (int64_t[]){m->positions, m->hidden_size}, NAN);
    samba_lm_leave(b, m->names.positions);
    if (!at.graph && !(o->attention_mask.graph && m->positions_follow_mask))
        return samba_narrow(table, 0, m->position_offset, b->length);
    if (!at.graph) {
        samba_value shown = samba_cast(o->attention_mask, SAMBA_INT64);
        at = samba_sub(samba_mul(samba_cumsum(shown, 1), shown), samba_integer(b->graph, 1));
    }
    if (m->position_offset)
        at = samba_add(at, samba_integer(b->graph, m->position_offset));
    return samba_functional_embedding(at, table, NULL);
}

/* Rows of the table; of integers these alone are widened. */
static samba_value rows_of(samba_lm_build *b, samba_value input_ids)
{
    const tokens_table table = table_of(b);
    const samba_embedding_options options = {
        .struct_size = sizeof options, .has_padding_idx = b->m->has_padding, .padding_idx = b->m->padding};
    if (!table.scales.graph)
        return samba_functional_embedding(input_ids, table.rows, &options);
    samba_value integers = samba_functional_embedding(input_ids, table.kept, NULL);
    samba_value scales = samba_functional_embedding(input_ids, table.scales, NULL);
    integers = samba_cast(integers, SAMBA_FLOAT32);
    return samba_mul(integers, scales);
}

static samba_value embed(samba_lm_build *b, samba_value input_ids)
{
    const samba_lm_shape *m = b->m;
    samba_value x = rows_of(b, input_ids);
    if (m->embedding_scale != 1)
        x = samba_mul_scalar(x, m->embedding_scale);
    x = samba_lm_normalize(b, x, m->names.embedding_norm, &m->norm);
    if (m->names.project_in)
        x = samba_lm_linear(b, x, m->names.project_in, m->hidden_size, false);
    if (m->names.positions)
        x = samba_add(x, position_rows(b));
    return samba_lm_drop(b, x, "drop", m->embedding_dropout);
}

/* ---- layers ---- */

static samba_value attention(samba_lm_build *b, samba_value x, int64_t layer)
{
    samba_value y = samba_lm_attention(b, x, layer);
    y = samba_lm_normalize(b, y, b->m->names.after_attention, &b->m->norm);
    return samba_lm_drop(b, y, "attention_dropout", b->m->attention_out_dropout);
}

static samba_value mlp(samba_lm_build *b, samba_value x)
{
    samba_value y = samba_lm_mlp(b, x);
    y = samba_lm_normalize(b, y, b->m->names.after_mlp, &b->m->norm);
    return samba_lm_drop(b, y, "mlp_dropout", b->m->mlp_out_dropout);
}

static samba_value layer_of(samba_lm_build *b, samba_value x, int64_t layer)
{
    const samba_lm_shape *m = b->m;
    const samba_lm_names *n = &m->names;
    if (m->order == SAMBA_LM_POST_NORM) {
        x = samba_lm_normalize(b, samba_add(x, attention(b, x, layer)), n->norm_attention, &m->norm);
        return samba_lm_normalize(b, samba_add(x, mlp(b, x)), n->norm_mlp, &m->norm);
    }
    samba_value normed = samba_lm_normalize(b, x, n->norm_attention, &m->norm);
    if (m->order == SAMBA_LM_PARALLEL) {
        samba_value other = m->shared_norm ? normed : samba_lm_normalize(b, x, n->norm_mlp, &m->norm);
        x = samba_add(x, attention(b, normed, layer));
        return samba_add(x, mlp(b, other));
    }
    x = samba_add(x, attention(b, normed, layer));
    normed = samba_lm_normalize(b, x, n->norm_mlp, &m->norm);
    return samba_add(x, mlp(b, normed));
}

/* ---- what is frozen, and adapters: of everything, or of the decoder's layers alone ---- */

static bool reads_kept(const samba_lm_build *b) { return b->capacity > 0; } /* a step */
static bool is_tuned(const samba_lm_build *b) { return b->options.lora || b->options.base != SAMBA_BASE_AS_TRACED; }
static bool names_targets(const samba_lm_build *b) { return b->options.lora && b->options.lora->target_count > 0; }

static void begin_tuning(samba_lm_build *b, bool layers)
{
    samba_freeze_options freeze = samba_freeze_defaults();
    freeze.base = !layers && b->options.base == SAMBA_BASE_INT4 ? SAMBA_BASE_INT8 : b->options.base;
    static const char *const everything = "*";
    freeze.as_kept = reads_kept(b);
    if (!is_tuned(b)) {
        freeze.except_count = 1;
        freeze.excepts = &everything;
    }
    if (is_tuned(b) || reads_kept(b))
        samba_freeze_push(b->graph, &freeze);
    if (b->options.lora && layers == !names_targets(b))
        samba_lora_push(b->graph, b->options.lora);
}

static void end_tuning(samba_lm_build *b, bool layers)
{
    if (b->options.lora && layers == !names_targets(b))
        samba_lora_pop(b->graph);
    if (is_tuned(b) || reads_kept(b))
        samba_freeze_pop(b->graph);
}

static samba_value layers_of(samba_lm_build *b, samba_value x)
{
    char number[32];
    b->inside = true;
    begin_tuning(b, true);
    samba_lm_enter(b, b->m->names.layers);
    for (int64_t i = 0; i < b->m->layers && samba_graph_status(b->graph) == SAMBA_OK; i++) {
        snprintf(number, sizeof number, "%lld", (long long)i);
        samba_lm_enter(b, number);
        x = layer_of(b, x, i);
        samba_lm_leave(b, number);
    }
    samba_lm_leave(b, b->m->names.layers);
    end_tuning(b, true);
    b->inside = false;
    return x;
}

/* ---- the whole ---- */

/* The logits by the embedding's table, which a step reads as it is kept. */
static samba_value tied_head(const samba_lm_build *b, samba_value x, tokens_table table)
{
    const samba_value none = {0};
    return reads_kept(b) ? samba_stored_linear(x, table.kept, table.scales, false) : samba_functional_linear(x, table.rows, none);
}

static samba_value fail(samba_graph *graph, samba_status status, const char *words)
{
    samba_graph_fail(graph, status, "samba_lm_logits: %s", words);
    return (samba_value){.graph = graph};
}

/* Whether it is there with the batch and length of the tokens, or, where that is allowed, with batch 1. */
static bool fits(const samba_lm_build *b, samba_value value, bool shared)
{
    if (!value.graph)
        return true;
    const int64_t batch = samba_value_size(value, 0);
    return value.graph == b->graph && samba_value_rank(value) == 2 && samba_value_size(value, 1) == b->length &&
           (batch == b->batch || (shared && batch == 1)) && !samba_dtype_is_floating_point(samba_value_dtype(value));
}

samba_value samba_lm_logits_of(samba_lm_build *b, samba_value input_ids)
{
    const samba_lm_shape *m = b->m;
    const samba_lm_names *n = &m->names;
    samba_value x;
    tokens_table table = {{0}, {0}, {0}};
    begin_tuning(b, false);
    samba_lm_enter(b, n->model);
    x = layers_of(b, embed(b, input_ids));
    if (b->capacity && !b->each)
        x = samba_lm_last_token(b, x);
    x = samba_lm_normalize(b, x, n->final_norm, &m->norm);
    if (n->project_out)
        x = samba_lm_linear(b, x, n->project_out, m->embedding_size, false);
    if (m->tied)
        table = table_of(b);
    samba_lm_leave(b, n->model);
    x = m->tied ? tied_head(b, x, table) : samba_lm_linear(b, x, n->head, m->vocab_size, false);
    end_tuning(b, false);
    return samba_lm_cap(x, m->final_cap);
}

samba_value samba_lm_logits(const samba_lm *lm, samba_graph *graph, samba_value input_ids, const samba_lm_options *options)
{
    samba_lm_build b = {.graph = graph, .lm = lm, .options = samba_lm_defaults()};
    if (!graph || samba_graph_status(graph) != SAMBA_OK)
        return (samba_value){.graph = graph};
    if (!lm)
        return fail(graph, SAMBA_ERROR_ARGUMENT, "no model was given");
    samba_status status =
        options ? samba_options_take(lm->context, "samba_lm_logits", options, sizeof *options, &b.options) : SAMBA_OK;
    if (status != SAMBA_OK)
        return fail(graph, status, samba_error_message(lm->context));
    b.m = &lm->shape;
    if (input_ids.graph != graph || samba_value_rank(input_ids) != 2 ||
        samba_dtype_is_floating_point(samba_value_dtype(input_ids)))
        return fail(graph, SAMBA_ERROR_SHAPE, "input_ids of shape (batch, length) and an integer dtype are expected");
    b.batch = samba_value_size(input_ids, 0);
    b.length = samba_value_size(input_ids, 1);
    if (!fits(&b, b.options.attention_mask, false) || !fits(&b, b.options.position_ids, true) ||
        !fits(&b, b.options.document_ids, false))
        return fail(graph, SAMBA_ERROR_SHAPE,
                    "attention_mask, position_ids and document_ids are expected to be integers of the shape of input_ids");
    if (b.m->positions && b.length > b.m->positions - b.m->position_offset) {
        samba_graph_fail(graph, SAMBA_ERROR_SHAPE, "samba_lm_logits: a sequence of %lld tokens, and the model has %lld positions",
                         (long long)b.length, (long long)(b.m->positions - b.m->position_offset));
        return (samba_value){.graph = graph};
    }
    return samba_lm_logits_of(&b, input_ids);
}

samba_value samba_lm_loss(samba_value logits, samba_value labels)
{
    samba_graph *graph = logits.graph;
    if (!graph || samba_graph_status(graph) != SAMBA_OK)
        return logits;
    if (samba_value_rank(logits) != 3 || samba_value_rank(labels) != 2 ||
        samba_value_size(labels, 1) != samba_value_size(logits, 1) ||
        samba_value_size(labels, 0) != samba_value_size(logits, 0)) {
        samba_graph_fail(graph, SAMBA_ERROR_SHAPE,
                         "samba_lm_loss: logits (batch, length, vocabulary) and labels (batch, length) are expected");
        return logits;
    }
    /* Labels move, and not the logits, which may be large. */
    const int64_t last[2] = {samba_value_size(labels, 0), 1}, all = -1, rows[2] = {-1, samba_value_size(logits, 2)};
    samba_value end = samba_constant(graph, -100, samba_value_dtype(labels), 2, last);
    samba_value next = samba_slice(labels, 1, 1, INT64_MAX, 1);
    samba_value shifted = samba_concat(2, (samba_value[]){next, end}, 1);
    samba_value lines = samba_reshape(logits, 2, rows);
    return samba_cross_entropy(lines, samba_reshape(shifted, 1, &all));
}
