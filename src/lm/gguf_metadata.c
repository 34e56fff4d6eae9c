/* SPDX-License-Identifier: Apache-2.0
 *
 * A description as the metadata of a GGUF file, the other way of gguf_config.c. What files of the architecture leave to its name
 * has to be what the name says: another activation, another scale of scores or another choice of layers with a window is refused,
 * since a reader would compute another model. */
#include "lm/gguf_export.h"

#include <math.h>

static samba_status refuse(const samba_lm_gguf_export *e, const char *what, const char *supported)
{
    return samba_fail(e->lm->context, SAMBA_ERROR_UNSUPPORTED, "GGUF files of \"%s\" cannot say %s: supported is %s",
                      e->kind->name, what, supported);
}

static void key_of(const samba_lm_gguf_export *e, const char *suffix, char key[128])
{
    snprintf(key, 128, "%s.%s", e->kind->name, suffix);
}

static void put_integer(samba_lm_gguf_export *e, const char *suffix, int64_t value)
{
    char key[128];
    key_of(e, suffix, key);
    samba_gguf_put_integer(&e->builder, key, value);
}

static void put_number(samba_lm_gguf_export *e, const char *suffix, double value)
{
    char key[128];
    key_of(e, suffix, key);
    samba_gguf_put_number(&e->builder, key, value);
}

static void put_text(samba_lm_gguf_export *e, const char *suffix, const char *value)
{
    char key[128];
    key_of(e, suffix, key);
    samba_gguf_put_text(&e->builder, key, value, strlen(value));
}

static bool is(const samba_lm_gguf_export *e, const char *model_type) { return strcmp(e->kind->model_type, model_type) == 0; }

/* ---- what the name says ---- */

/* Of the layers, how many have a window; *every: all but each so manyth do, 0: it is no such choice. */
static int64_t count_sliding(const samba_lm_shape *m, int64_t *every)
{
    int64_t count = 0, first = -1;
    for (int64_t i = 0; i < m->layers && m->sliding; i++) {
        count += m->sliding[i];
        first = first < 0 && !m->sliding[i] ? i : first;
    }
    *every = first < 0 ? m->layers + 1 : first + 1;
    for (int64_t i = 0; i < m->layers && m->sliding; i++)
        if (m->sliding[i] != ((i + 1) % *every != 0)) {
            *every = 0;
            break;
        }
    return count;
}

static samba_status check_window(const samba_lm_gguf_export *e)
{
    const samba_lm_shape *m = &e->lm->shape;
    int64_t every, count = count_sliding(m, &every);
    if (is(e, "gemma2") && count == 0) /* readers take 4096 where the key is not there */
        return refuse(e, "layers without a window", "\"sliding_window\"");
    if (is(e, "gemma2"))
        return every == 2 || m->layers == 1 ? SAMBA_OK
                                            : refuse(e, "\"layer_types\"", "a window in every other layer, from the first on");
    if (is(e, "gemma3_text"))
        return every > 0 ? SAMBA_OK : refuse(e, "\"layer_types\"", "a window in all layers but each so manyth");
    if (count != 0 && count != m->layers)
        return refuse(e, "\"layer_types\"", "a window in all layers or in none");
    if (count > 0 && !is(e, "mistral") && !is(e, "phi3"))
        return refuse(e, "\"sliding_window\"", "no window");
    return SAMBA_OK;
}

static double usual_scale(const samba_lm_gguf_export *e)
{
    const samba_lm_shape *m = &e->lm->shape;
    const int64_t largest = is(e, "gemma2") ? 46 : is(e, "gemma3_text") ? 62 : -1;
    return 1 / sqrt(m->layers == largest ? (double)(m->hidden_size / m->heads) : (double)m->head_dim);
}

static samba_status check_shape(const samba_lm_gguf_export *e)
{
    const samba_lm_shape *m = &e->lm->shape;
    const bool gemma = strncmp(e->kind->name, "gemma", 5) == 0;
    if (m->activation != e->kind->activation)
        return refuse(e, "this activation", "that of the architecture's default in transformers");
    if (fabs(m->scale / usual_scale(e) - 1) > 1e-9 || m->scale_by_layer)
        return refuse(e, "this scale of attention's scores", "1 over the root of a head's size");
    if (m->order != SAMBA_LM_PRE_NORM && !(m->order == SAMBA_LM_PARALLEL && !is(e, "llama")))
        return refuse(e, "this order of norms", "norms before attention and MLP");
    if (is(e, "falcon") && m->order != SAMBA_LM_PARALLEL)
        return refuse(e, "\"parallel_attn\": false", "true");
    if (m->alibi && !is(e, "bloom"))
        return refuse(e, "\"alibi\": true", "false");
    if (m->qkv_bias && (gemma || is(e, "qwen3")))
        return refuse(e, "\"attention_bias\": true", "false");
    if (!m->qkv_bias && is(e, "gpt_neox"))
        return refuse(e, "\"attention_bias\": false", "true");
    if (is(e, "gemma2") && (m->attention_cap == 0 || m->final_cap == 0)) /* readers take 50 and 30 where the keys are not there */
        return refuse(e, "logits without bounds", "\"attn_logit_softcapping\" and \"final_logit_softcapping\"");
    if (!m->tied && (is(e, "gemma") || is(e, "gemma2")))
        return refuse(e, "a head that is not the embedding", "\"tie_word_embeddings\": true");
    return check_window(e);
}

/* ---- rotary positions ---- */

static samba_status check_sliding_rope(const samba_lm_gguf_export *e)
{
    const samba_lm_rope *r = &e->lm->shape.sliding_rope;
    if (is(e, "gemma3_text") && r->kind != SAMBA_LM_ROPE)
        return refuse(e, "a scaling of rotary positions in layers with a window", "none");
    if (is(e, "gemma3_text") && e->lm->shape.rope.kind != SAMBA_LM_ROPE && e->lm->shape.rope.kind != SAMBA_LM_LINEAR)
        return refuse(e, "this scaling of rotary positions", "default, linear");
    return SAMBA_OK;
}

static void put_yarn(samba_lm_gguf_export *e, const samba_lm_rope *r)
{
    put_text(e, "rope.scaling.type", "yarn");
    put_number(e, "rope.scaling.factor", r->factor);
    put_integer(e, "rope.scaling.original_context_length", (int64_t)r->original);
    if (r->beta_fast != 32)
        put_number(e, "rope.scaling.yarn_beta_fast", r->beta_fast);
    if (r->beta_slow != 1)
        put_number(e, "rope.scaling.yarn_beta_slow", r->beta_slow);
}

static void put_factors(samba_lm_gguf_export *e, const char *name, const json_t *list)
{
    float values[1 << 10];
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)json_number_value(json_array_get(list, i));
    samba_gguf_put_tensor(&e->builder, name, SAMBA_GGUF_F32, 1, &(int64_t){(int64_t)count}, values);
}

/* By how much each pair turns slower than without a scaling. */
static samba_status put_llama3(samba_lm_gguf_export *e, const samba_lm_rope *r)
{
    float steps[1 << 10], plain[1 << 10];
    double scale;
    samba_lm_rope without = *r;
    without.kind = SAMBA_LM_ROPE;
    samba_lm_rope_steps(r, 1, steps, &scale);
    samba_lm_rope_steps(&without, 1, plain, &scale);
    for (int64_t i = 0; i < r->dims / 2; i++)
        steps[i] = plain[i] / steps[i];
    samba_gguf_put_tensor(&e->builder, "rope_freqs.weight", SAMBA_GGUF_F32, 1, &(int64_t){r->dims / 2}, steps);
    return SAMBA_OK;
}

static samba_status put_longrope(samba_lm_gguf_export *e, const samba_lm_rope *r)
{
    if (is(e, "phi3")) {
        put_factors(e, "rope_factors_long.weight", r->long_factor);
        put_factors(e, "rope_factors_short.weight", r->short_factor);
        put_integer(e, "rope.scaling.original_context_length", (int64_t)r->original);
        put_number(e, "rope.scaling.attn_factor", r->attention_factor);
        return SAMBA_OK;
    }
    if (!json_equal(r->long_factor, r->short_factor) || r->attention_factor != 1)
        return refuse(e, "\"longrope\" with other factors for long sequences", "the same factors, and an attention factor of 1");
    put_factors(e, "rope_freqs.weight", r->long_factor);
    return SAMBA_OK;
}

static samba_status put_scaling(samba_lm_gguf_export *e, const samba_lm_rope *r)
{
    const bool by_factors = r->kind == SAMBA_LM_LLAMA3 || r->kind == SAMBA_LM_LONGROPE;
    if (by_factors && !e->kind->turned && !is(e, "phi3"))
        return refuse(e, "a scaling of rotary positions by factors", "default, linear, yarn");
    if (by_factors && r->dims > 2 << 10)
        return refuse(e, "so many factors of rotary positions", "at most 1024");
    switch (r->kind) {
    case SAMBA_LM_LINEAR:
        put_text(e, "rope.scaling.type", "linear");
        put_number(e, "rope.scaling.factor", r->factor);
        return SAMBA_OK;
    case SAMBA_LM_YARN: {
        const double grown = r->factor <= 1 ? 1 : 0.1 * log(r->factor) + 1;
        if (!r->truncate || fabs(r->attention_factor - grown) > 1e-9)
            return refuse(e, "\"yarn\" with another attention factor or without \"truncate\"", "0.1 log(factor) + 1 and true");
        put_yarn(e, r);
        return SAMBA_OK;
    }
    case SAMBA_LM_LLAMA3: return put_llama3(e, r);
    case SAMBA_LM_LONGROPE: return put_longrope(e, r);
    case SAMBA_LM_DYNAMIC: return refuse(e, "\"dynamic\" rotary positions", "default, linear, yarn, llama3");
    default: return SAMBA_OK;
    }
}

static samba_status put_rope(samba_lm_gguf_export *e)
{
    const samba_lm_shape *m = &e->lm->shape;
    if (!e->kind->theta)
        return SAMBA_OK;
    SAMBA_TRY(check_sliding_rope(e));
    put_integer(e, "rope.dimension_count", m->rope.dims);
    put_number(e, "rope.freq_base", m->rope.base);
    if (is(e, "gemma3_text") && m->sliding_rope.base != 10000)
        put_number(e, "rope.freq_base_swa", m->sliding_rope.base);
    return put_scaling(e, &m->rope);
}

/* ---- the whole ---- */

static void put_own(samba_lm_gguf_export *e)
{
    const samba_lm_shape *m = &e->lm->shape;
    char key[128];
    int64_t every;
    if (m->window > 0 && count_sliding(m, &every) > 0)
        put_integer(e, "attention.sliding_window", m->window);
    if (is(e, "gemma3_text") && count_sliding(m, &every) >= 0 && every != 6 && !(every > m->layers && m->layers < 6))
        put_integer(e, "attention.sliding_window_pattern", every);
    if (m->attention_cap > 0)
        put_number(e, "attn_logit_softcapping", m->attention_cap);
    if (m->final_cap > 0)
        put_number(e, "final_logit_softcapping", m->final_cap);
    key_of(e, "use_parallel_residual", key);
    if (is(e, "stablelm") || is(e, "gpt_neox"))
        samba_gguf_put_flag(&e->builder, key, m->order == SAMBA_LM_PARALLEL);
    if (is(e, "falcon"))
        put_text(e, "tensor_data_layout", "jploski");
}

/* The longest sequence; Bloom's config need not say it. */
static int64_t positions_of(const samba_lm_gguf_export *e)
{
    const samba_lm_shape *m = &e->lm->shape;
    const json_int_t length = json_integer_value(json_object_get(e->lm->json, "seq_length"));
    if (is(e, "bloom"))
        return length > 0 && length <= INT32_MAX ? length : 2048;
    return m->positions ? m->positions : (int64_t)m->rope.most;
}

samba_status samba_lm_gguf_put_metadata(samba_lm_gguf_export *e)
{
    const samba_lm_shape *m = &e->lm->shape;
    SAMBA_TRY(check_shape(e));
    put_integer(e, "vocab_size", m->vocab_size);
    put_integer(e, "context_length", positions_of(e));
    put_integer(e, "embedding_length", m->hidden_size);
    put_integer(e, "block_count", m->layers);
    put_integer(e, "feed_forward_length", m->intermediate_size);
    put_integer(e, "attention.head_count", m->heads);
    if (e->kind->groups || is(e, "falcon"))
        put_integer(e, "attention.head_count_kv", m->key_value_heads);
    if (e->kind->head_dim) {
        put_integer(e, "attention.key_length", m->head_dim);
        put_integer(e, "attention.value_length", m->head_dim);
    }
    put_number(e, e->kind->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", m->norm.eps);
    put_own(e);
    return put_rope(e);
}
