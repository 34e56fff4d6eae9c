/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of generating: the graph of a few new tokens, whose positions come with the run, and the cache of what was before them.
 *
 * Each layer's cache is a pair of buffers, which the graph writes in place: a scatter whose result is assigned to the buffer that
 * it began with has no memory of its own. Tokens that do not count go to one slot more than attention looks at, so sequences of
 * unequal lengths are one batch and a prompt's end is no graph of its own. */
#include "graph/graph.h"
#include "lm/lm.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

samba_lm_step_options samba_lm_step_defaults(void)
{
    return (samba_lm_step_options){.struct_size = sizeof(samba_lm_step_options)};
}

/* Slots of a layer. Beyond its window a layer keeps what is written before anybody looks. */
static int64_t slots_of(const samba_lm_shape *m, int64_t layer, int64_t capacity, int64_t chunk)
{
    const bool windowed = m->sliding && m->sliding[layer] && m->window > 0;
    return windowed && m->window < capacity - chunk + 1 ? m->window + chunk - 1 : capacity;
}

/* Whether sequences may go on beyond the capacity: every layer sees a window, and all of it is kept. */
bool samba_lm_slides(const samba_lm_shape *m, int64_t capacity, int64_t chunk)
{
    if (m->positions || !m->sliding || m->window <= 0 || capacity < m->window + chunk - 1)
        return false;
    for (int64_t i = 0; i < m->layers; i++)
        if (!m->sliding[i])
            return false;
    const samba_lm_rope_kind kind = m->sliding_rope.kind;
    return kind != SAMBA_LM_DYNAMIC && kind != SAMBA_LM_LONGROPE; /* whose angles depend on how long a sequence is */
}

static samba_value column(const samba_lm_build *b, samba_value each) /* (batch) -> (batch, 1), int64 */
{
    return samba_cast(samba_reshape(each, 2, (int64_t[]){b->batch, 1}), SAMBA_INT64);
}

static samba_value counted(const samba_lm_build *b) /* (batch, length), bool */
{
    samba_value at = samba_arange(b->graph, b->length, SAMBA_INT64);
    return samba_lt(at, column(b, b->count));
}

static samba_value positions(const samba_lm_build *b)
{
    samba_value at = samba_arange(b->graph, b->length, SAMBA_INT64);
    return samba_add(column(b, b->start), at);
}

static int64_t kept(const samba_lm_build *b) { return b->sequences ? b->sequences : b->batch; } /* sequences of the cache */

/* The layer's buffer with the new tokens' rows, which it keeps. */
static samba_value write(samba_lm_build *b, const char *name, samba_value index, samba_value rows, int64_t slots)
{
    const int64_t shape[4] = {kept(b), b->m->key_value_heads, slots + 1, b->m->head_dim};
    samba_value buffer =
        samba_register_buffer(b->graph, name, SAMBA_FLOAT32, 4, shape, (samba_initializer){.kind = SAMBA_INIT_ZEROS});
    samba_value written = samba_scatter(buffer, 2, index, rows);
    samba_assign(buffer, written);
    return b->sequences ? samba_index_select(written, 0, b->row) : written;
}

/* Where tokens of all sequences go that the cache has: those of the others, which are no tokens, where nobody looks. */
static samba_value of_all(const samba_lm_build *b, samba_value slot, samba_value unused)
{
    const int64_t each[4] = {b->sequences, 1, 1, 1}, one[4] = {1, 1, 1, 1};
    samba_value which = samba_reshape(samba_arange(b->graph, b->sequences, SAMBA_INT64), 4, each);
    samba_value mine = samba_eq(which, samba_reshape(samba_cast(b->row, SAMBA_INT64), 4, one));
    return samba_where(mine, slot, unused);
}

/* Attention over all slots of the cache, with a bias for each: such models have no window, so that slots are positions. */
static samba_value attend_alibi(samba_lm_build *b, samba_value query, samba_value key, samba_value value, int64_t slots,
                                double scale)
{
    samba_attention_options options = {.scale = scale, .enable_gqa = b->m->key_value_heads != b->m->heads};
    samba_value slot = samba_unsqueeze(samba_arange(b->graph, slots, SAMBA_INT64), 0);
    samba_value bias = samba_lm_alibi(b, slot, scale);
    samba_value row = samba_unsqueeze(slot, 0), at = samba_unsqueeze(positions(b), -1);
    samba_value seen = samba_le(row, at); /* (batch, length, slots) */
    options.mask = samba_where(samba_unsqueeze(seen, 1), bias, samba_number(b->graph, -3.4028234663852886e38));
    key = samba_narrow(key, 2, 0, slots);
    return samba_scaled_dot_product_attention(query, key, samba_narrow(value, 2, 0, slots), &options);
}

samba_value samba_lm_attend_step(samba_lm_build *b, const samba_value qkv[3], int64_t layer, double scale)
{
    const samba_lm_shape *m = b->m;
    const int64_t slots = slots_of(m, layer, b->capacity, b->chunk);
    const int64_t rows[4] = {kept(b), m->key_value_heads, b->length, m->head_dim};
    const bool windowed = m->sliding && m->sliding[layer];
    samba_cache_options options = {.struct_size = sizeof options,
                                   .slots = slots,
                                   .window = windowed ? m->window : 0,
                                   .scale = scale,
                                   .cap = m->attention_cap};
    samba_value slot = positions(b), unused = samba_integer(b->graph, slots), seen = counted(b);
    if (windowed)
        slot = samba_remainder(slot, samba_integer(b->graph, slots));
    slot = samba_where(seen, slot, unused);
    slot = samba_reshape(slot, 4, (int64_t[]){b->batch, 1, b->length, 1});
    if (b->sequences)
        slot = of_all(b, slot, unused);
    slot = samba_expand(slot, 4, rows);
    samba_value key = write(b, "cache_key", slot, samba_expand(qkv[1], 4, rows), slots);
    samba_value value = write(b, "cache_value", slot, samba_expand(qkv[2], 4, rows), slots);
    if (m->alibi)
        return attend_alibi(b, qkv[0], key, value, slots, scale);
    return samba_cache_attention(qkv[0], key, value, b->start, &options);
}

samba_value samba_lm_last_token(const samba_lm_build *b, samba_value x)
{
    const int64_t row[3] = {b->batch, 1, samba_value_size(x, 2)};
    if (b->length == 1)
        return x;
    samba_value last = column(b, b->count);
    last = samba_sub(last, samba_integer(b->graph, 1));
    last = samba_maximum(last, samba_integer(b->graph, 0));
    return samba_gather(x, 1, samba_expand(samba_unsqueeze(last, -1), 3, row));
}

/* ---- the whole ---- */

static samba_value fail(samba_graph *graph, samba_status status, const char *words)
{
    samba_graph_fail(graph, status, "samba_lm_step: %s", words);
    return (samba_value){.graph = graph};
}

static bool is_list(const samba_lm_build *b, samba_value value)
{
    return value.graph == b->graph && samba_value_rank(value) == 1 && samba_value_size(value, 0) == b->batch &&
           (samba_value_dtype(value) == SAMBA_INT64 || samba_value_dtype(value) == SAMBA_INT32);
}

samba_value samba_lm_step(const samba_lm *lm, samba_graph *graph, samba_value input_ids, samba_value start, samba_value count,
                          const samba_lm_step_options *given)
{
    samba_lm_build b = {.graph = graph, .lm = lm, .options = samba_lm_defaults(), .start = start, .count = count};
    samba_lm_step_options options = samba_lm_step_defaults();
    if (!graph || samba_graph_status(graph) != SAMBA_OK)
        return (samba_value){.graph = graph};
    if (!lm)
        return fail(graph, SAMBA_ERROR_ARGUMENT, "no model was given");
    samba_status status = given ? samba_options_take(lm->context, "samba_lm_step", given, sizeof *given, &options) : SAMBA_OK;
    if (status != SAMBA_OK)
        return fail(graph, status, samba_error_message(lm->context));
    if (input_ids.graph != graph || samba_value_rank(input_ids) != 2 ||
        samba_dtype_is_floating_point(samba_value_dtype(input_ids)))
        return fail(graph, SAMBA_ERROR_SHAPE, "input_ids of shape (batch, length) and an integer dtype are expected");
    b.m = &lm->shape;
    b.batch = samba_value_size(input_ids, 0);
    b.length = samba_value_size(input_ids, 1);
    b.options.base = options.base;
    b.capacity = options.capacity;
    b.chunk = options.chunk ? options.chunk : b.length;
    b.each = options.each;
    b.sequences = options.sequences;
    b.row = options.row;
    samba_lora_options lora = samba_lora_defaults();
    if (options.lora) {
        status = samba_options_take(lm->context, "samba_lm_step", options.lora, sizeof lora, &lora);
        if (status != SAMBA_OK)
            return fail(graph, status, samba_error_message(lm->context));
        lora.dropout = 0;
        b.options.lora = &lora;
    }
    if (!is_list(&b, start) || !is_list(&b, count))
        return fail(graph, SAMBA_ERROR_SHAPE, "start and count are expected to be (batch), int64 or int32");
    if (b.sequences < 0 || (b.sequences && (b.batch != 1 || !is_list(&b, b.row))))
        return fail(graph, SAMBA_ERROR_SHAPE,
                    "of one of several sequences input_ids, start, count and row are expected to have batch 1, and row to be an "
                    "integer");
    if (b.length < 1 || b.chunk < b.length || b.capacity < 1 || b.chunk > INT32_MAX || b.capacity > INT32_MAX)
        return fail(graph, SAMBA_ERROR_ARGUMENT,
                    "a capacity of 1 or more, at least one token, and a chunk of at least the graph's length are expected");
    if (b.m->positions && b.capacity > b.m->positions - b.m->position_offset) {
        samba_graph_fail(graph, SAMBA_ERROR_ARGUMENT, "samba_lm_step: a capacity of %lld, and the model has %lld positions",
                         (long long)b.capacity, (long long)(b.m->positions - b.m->position_offset));
        return (samba_value){.graph = graph};
    }
    /* what does not count stands at a position that there is */
    b.options.no_dropout = true;
    samba_value at = positions(&b), shown = counted(&b);
    b.options.position_ids = samba_where(shown, at, samba_integer(graph, 0));
    samba_value logits = samba_lm_logits_of(&b, input_ids);
    return b.each ? logits : samba_reshape(logits, 2, (int64_t[]){b.batch, b.m->vocab_size});
}
