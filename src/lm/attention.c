/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of a decoder: its projections in one of three layouts, norms of queries and keys, rotary positions, which tokens see
 * which, and scores that may be bounded. Between what turns queries and keys and what attends, a step has its cache (step.c).
 * Masks and angles are made anew in each layer: equal nodes of a graph are one. */
#include "graph/graph.h"
#include "lm/lm.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

/* ---- queries, keys, values: (batch, length, heads, head_dim) ---- */

static samba_value heads_of(const samba_lm_build *b, samba_value x, int64_t heads)
{
    return samba_reshape(x, 4, (int64_t[]){b->batch, b->length, heads, b->m->head_dim});
}

static void project(samba_lm_build *b, samba_value x, samba_value qkv[3])
{
    const samba_lm_shape *m = b->m;
    const samba_lm_names *n = &m->names;
    const int64_t groups = m->key_value_heads, each = m->heads / groups, d = m->head_dim;
    if (m->qkv == SAMBA_LM_SEPARATE) {
        const char *const name[3] = {n->query, n->key, n->value};
        for (int i = 0; i < 3; i++) {
            int64_t heads = i == 0 ? m->heads : groups;
            qkv[i] = heads_of(b, samba_lm_linear(b, x, name[i], heads * d, m->qkv_bias), heads);
        }
        return;
    }
    samba_value joint = samba_lm_linear(b, x, n->qkv, (m->heads + 2 * groups) * d, m->qkv_bias);
    if (m->qkv == SAMBA_LM_JOINED) {
        samba_split_sizes(joint, 3, (int64_t[]){m->heads * d, groups * d, groups * d}, -1, qkv);
        for (int i = 0; i < 3; i++)
            qkv[i] = heads_of(b, qkv[i], i == 0 ? m->heads : groups);
        return;
    }
    joint = samba_reshape(joint, 5, (int64_t[]){b->batch, b->length, groups, each + 2, d});
    samba_split_sizes(joint, 3, (int64_t[]){each, 1, 1}, 3, qkv);
    for (int i = 0; i < 3; i++)
        qkv[i] = heads_of(b, qkv[i], i == 0 ? m->heads : groups);
}

/* A layer norm whose weight is another in each head. */
static samba_value normalize_each(samba_lm_build *b, samba_value x, const char *name)
{
    const int64_t heads = samba_value_size(x, 2), d = b->m->head_dim;
    const samba_value none = {0};
    char number[32];
    samba_value weights = none;
    samba_lm_enter(b, name);
    samba_lm_enter(b, "norms");
    for (int64_t i = 0; i < heads; i++) {
        snprintf(number, sizeof number, "%lld", (long long)i);
        samba_lm_enter(b, number);
        samba_value row = samba_unsqueeze(samba_lm_parameter(b, "weight", 1, &d, 1), 0);
        weights = i == 0 ? row : samba_concat(2, (samba_value[]){weights, row}, 0);
        samba_lm_leave(b, number);
    }
    samba_lm_leave(b, "norms");
    samba_lm_leave(b, name);
    return samba_mul(samba_functional_layer_norm(x, 1, &d, none, none, b->m->head_norm.eps), weights);
}

static samba_value normalize_heads(samba_lm_build *b, samba_value x, const char *name)
{
    if (!name)
        return x;
    return b->m->norms_each_head ? normalize_each(b, x, name) : samba_lm_normalize(b, x, name, &b->m->head_norm);
}

/* ---- positions ---- */

/* Cosine and sine of each position's angles: (length, dims / 2), or (batch, 1, length, dims / 2). */
static samba_status make_angles(samba_lm_build *b, const samba_lm_rope *rope, samba_rotary_options *rotary)
{
    samba_context *context = b->lm->context;
    samba_tensor *steps;
    double scale = 1;
    SAMBA_TRY(samba_tensor_new(context, NULL, SAMBA_FLOAT32, 1, (int64_t[]){rope->dims / 2}, &steps));
    samba_lm_rope_steps(rope, b->capacity ? b->capacity : b->length, samba_tensor_data(steps), &scale);
    samba_value step = samba_constant_tensor(b->graph, steps), position = b->options.position_ids;
    samba_tensor_free(steps);
    if (position.graph)
        position = samba_unsqueeze(samba_unsqueeze(position, 1), -1);
    else
        position = samba_unsqueeze(samba_arange(b->graph, b->length, SAMBA_INT64), -1);
    samba_value angle = samba_mul(samba_cast(position, SAMBA_FLOAT32), step);
    rotary->dims = rope->dims;
    rotary->cos = samba_cos(angle);
    rotary->sin = samba_sin(angle);
    if (scale != 1) {
        rotary->cos = samba_mul_scalar(rotary->cos, scale);
        rotary->sin = samba_mul_scalar(rotary->sin, scale);
    }
    return SAMBA_OK;
}

static void turn(samba_lm_build *b, samba_value qk[2], int64_t layer)
{
    const samba_lm_rope *rope = b->m->sliding && b->m->sliding[layer] ? &b->m->sliding_rope : &b->m->rope;
    samba_rotary_options rotary = samba_rotary_defaults();
    if (rope->kind == SAMBA_LM_NO_ROPE || samba_graph_status(b->graph) != SAMBA_OK)
        return;
    samba_status status = make_angles(b, rope, &rotary);
    if (status != SAMBA_OK)
        samba_graph_fail(b->graph, status, "no memory for the angles of rotary positions");
    for (int i = 0; i < 2; i++)
        qk[i] = samba_rotary_embedding(qk[i], &rotary);
}

/* ---- who sees whom, besides that nobody sees what comes later ---- */

static samba_value both(samba_value a, samba_value b) { return a.graph ? samba_logical_and(a, b) : b; }

/* bool, broadcasts to (batch, 1, length, length); a zeroed value where there is nothing to hide. */
static samba_value make_mask(const samba_lm_build *b, int64_t layer)
{
    const samba_lm_options *o = &b->options;
    samba_value mask = {0};
    if (b->m->sliding && b->m->sliding[layer] && b->m->window < b->length) {
        samba_value at = samba_arange(b->graph, b->length, SAMBA_INT64);
        samba_value distance = samba_sub(samba_unsqueeze(at, 1), samba_unsqueeze(at, 0));
        mask = samba_lt(distance, samba_integer(b->graph, b->m->window));
    }
    if (o->attention_mask.graph) {
        samba_value shown = samba_ne(o->attention_mask, samba_integer(b->graph, 0));
        mask = both(mask, samba_unsqueeze(samba_unsqueeze(shown, 1), 1));
    }
    if (o->document_ids.graph) {
        samba_value row = samba_unsqueeze(o->document_ids, 1);
        samba_value query = samba_unsqueeze(row, -1), key = samba_unsqueeze(row, 2);
        mask = both(mask, samba_eq(query, key));
    }
    return mask;
}

/* ---- scores ---- */

/* With bounded scores, which exist here. A query that may see nothing sees all alike, as where masks are added. */
static samba_value attend_capped(samba_lm_build *b, const samba_value qkv[3], samba_value mask, double scale)
{
    const samba_lm_shape *m = b->m;
    const int64_t groups = m->key_value_heads, each = m->heads / groups, t = b->length, d = m->head_dim;
    const int64_t grouped[5] = {b->batch, groups, each, t, d}, scores[5] = {b->batch, groups, each, t, t};
    samba_value query = samba_reshape(qkv[0], 5, grouped), key = samba_unsqueeze(qkv[1], 2), value = samba_unsqueeze(qkv[2], 2);
    samba_value score =
        samba_reshape(samba_matmul(query, samba_transpose(key, -1, -2)), 4, (int64_t[]){b->batch, m->heads, t, t});
    samba_value at = samba_arange(b->graph, t, SAMBA_INT64);
    samba_value seen = both(mask, samba_ge(samba_unsqueeze(at, 1), samba_unsqueeze(at, 0)));
    score = samba_lm_cap(samba_mul_scalar(score, scale), m->attention_cap);
    score = samba_masked_fill(score, samba_logical_not(seen), samba_number(b->graph, -3.4028234663852886e38));
    samba_value weights = samba_lm_drop(b, samba_softmax(score, -1), "attn_dropout", m->attention_dropout);
    return samba_reshape(samba_matmul(samba_reshape(weights, 5, scores), value), 4, (int64_t[]){b->batch, m->heads, t, d});
}

/* Where keys are: by position_ids; by how many tokens the mask has shown so far; else 0, 1, 2 ... */
static samba_value key_positions(const samba_lm_build *b)
{
    const samba_lm_options *o = &b->options;
    if (o->position_ids.graph)
        return o->position_ids;
    if (!o->attention_mask.graph)
        return samba_unsqueeze(samba_arange(b->graph, b->length, SAMBA_INT64), 0);
    samba_value shown = samba_cast(samba_ne(o->attention_mask, samba_integer(b->graph, 0)), SAMBA_INT64);
    samba_value before = samba_sub(samba_cumsum(shown, 1), samba_integer(b->graph, 1));
    return samba_mul(before, shown);
}

static samba_value add_alibi(samba_lm_build *b, samba_value mask, double scale)
{
    samba_value bias = samba_lm_alibi(b, key_positions(b), scale);
    return mask.graph ? samba_where(mask, bias, samba_number(b->graph, -3.4028234663852886e38)) : bias;
}

static samba_value attend(samba_lm_build *b, const samba_value qkv[3], samba_value mask, double scale)
{
    const samba_lm_shape *m = b->m;
    if (m->alibi)
        mask = add_alibi(b, mask, scale);
    samba_attention_options options = {
        .is_causal = true, .mask = mask, .scale = scale, .enable_gqa = m->key_value_heads != m->heads};
    if (m->attention_cap > 0)
        return attend_capped(b, qkv, mask, scale);
    if (m->attention_dropout > 0 && !b->options.no_dropout)
        options.dropout = "attn_dropout", options.dropout_p = m->attention_dropout;
    return samba_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], &options);
}

samba_value samba_lm_attention(samba_lm_build *b, samba_value x, int64_t layer)
{
    const samba_lm_shape *m = b->m;
    const samba_lm_names *n = &m->names;
    samba_value qkv[3], y;
    samba_lm_enter(b, n->attention);
    project(b, x, qkv);
    qkv[0] = normalize_heads(b, qkv[0], n->query_norm);
    qkv[1] = normalize_heads(b, qkv[1], n->key_norm);
    for (int i = 0; i < 3; i++)
        qkv[i] = samba_transpose(qkv[i], 1, 2);
    turn(b, qkv, layer);
    const double scale = m->scale_by_layer ? m->scale / (double)(layer + 1) : m->scale;
    y = b->capacity ? samba_lm_attend_step(b, qkv, layer, scale) : attend(b, qkv, make_mask(b, layer), scale);
    y = samba_flatten(samba_transpose(y, 1, 2), 2, 3);
    y = samba_lm_linear(b, y, n->out, m->hidden_size, m->out_bias);
    samba_lm_leave(b, n->attention);
    return y;
}
