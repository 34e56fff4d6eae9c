/* SPDX-License-Identifier: Apache-2.0
 *
 * What readers of architectures share: sizes, heads, the padding token, activations, rates of dropout, which layers have a
 * window. Sizes are bounded, so that products of two of them, and of such a product and a third, fit into 64 bits. */
#include "lm/lm.h"

#include <string.h>

#define MOST_VOCAB (1 << 28)
#define MOST_LAYERS 10000
#define MOST_HEADS (1 << 16)
#define MOST_DIM (1 << 16)

void samba_lm_read_sizes(samba_lm_config *c, samba_lm_shape *s, int64_t vocab, int64_t hidden, int64_t intermediate,
                         int64_t layers, int64_t heads)
{
    s->vocab_size = samba_lm_integer(c, "vocab_size", vocab, 1, MOST_VOCAB);
    s->hidden_size = samba_lm_integer(c, "hidden_size", hidden, 1, SAMBA_LM_MOST_WIDTH);
    s->layers = samba_lm_integer(c, "num_hidden_layers", layers, 1, MOST_LAYERS);
    s->heads = samba_lm_integer(c, "num_attention_heads", heads, 1, MOST_HEADS);
    s->key_value_heads = s->heads;
    s->embedding_size = s->hidden_size;
    if (intermediate)
        s->intermediate_size = samba_lm_integer(c, "intermediate_size", intermediate, 1, SAMBA_LM_MOST_WIDTH);
}

void samba_lm_divide_heads(samba_lm_config *c, samba_lm_shape *s)
{
    if (c->status == SAMBA_OK && s->hidden_size % s->heads != 0)
        c->status = samba_fail(c->context, SAMBA_ERROR_FORMAT, "%s: %lld heads do not divide the hidden size %lld", c->path,
                               (long long)s->heads, (long long)s->hidden_size);
    s->head_dim = s->hidden_size / s->heads;
}

void samba_lm_read_heads(samba_lm_config *c, samba_lm_shape *s, int64_t key_value_heads, int64_t head_dim)
{
    s->key_value_heads = samba_lm_integer(
        c, "num_key_value_heads", key_value_heads && !samba_lm_is_null(c, "num_key_value_heads") ? key_value_heads : s->heads, 1,
        MOST_HEADS);
    s->head_dim = samba_lm_integer(c, "head_dim", head_dim, 1, MOST_DIM);
    if (s->head_dim == 0)
        samba_lm_divide_heads(c, s);
    if (c->status == SAMBA_OK && s->heads % s->key_value_heads != 0)
        c->status = samba_fail(c->context, SAMBA_ERROR_FORMAT,
                               "%s: \"num_key_value_heads\" is %lld, which does not divide \"num_attention_heads\", %lld",
                               c->path, (long long)s->key_value_heads, (long long)s->heads);
}

void samba_lm_read_padding(samba_lm_config *c, samba_lm_shape *s, int64_t otherwise)
{
    if (samba_lm_is_null(c, "pad_token_id"))
        otherwise = -1;
    s->has_padding = samba_lm_ask(c, "pad_token_id") || otherwise >= 0;
    if (s->has_padding)
        s->padding = samba_lm_integer(c, "pad_token_id", otherwise, -s->vocab_size, s->vocab_size - 1);
    if (c->status == SAMBA_OK && s->padding >= s->vocab_size)
        c->status =
            samba_fail(c->context, SAMBA_ERROR_FORMAT,
                       "%s: \"pad_token_id\" is not there and stands for %lld, a token beyond \"vocab_size\": give one, or "
                       "null",
                       c->path, (long long)s->padding);
}

samba_lm_activation samba_lm_read_activation(samba_lm_config *c, const char *key, const char *otherwise)
{
    static const struct {
        const char *name;
        samba_lm_activation activation;
    } known[] = {
        {"gelu", SAMBA_LM_GELU},          {"gelu_python", SAMBA_LM_GELU},
        {"gelu_new", SAMBA_LM_GELU_TANH}, {"gelu_fast", SAMBA_LM_GELU_TANH},
        {"silu", SAMBA_LM_SILU},          {"gelu_pytorch_tanh", SAMBA_LM_GELU_TANH},
        {"swish", SAMBA_LM_SILU},         {"gelu_python_tanh", SAMBA_LM_GELU_TANH},
        {"relu", SAMBA_LM_RELU},          {"tanh", SAMBA_LM_TANH},
    };
    const char *name = samba_lm_word(c, key, otherwise);
    for (int i = 0; i < SAMBA_COUNT(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].activation;
    samba_lm_refuse(c, key,
                    "gelu, gelu_python, gelu_new, gelu_fast, gelu_pytorch_tanh, gelu_python_tanh, silu, swish, relu, tanh");
    return SAMBA_LM_GELU;
}

double samba_lm_read_dropout(samba_lm_config *c, const char *key, double otherwise)
{
    return samba_lm_number(c, key, otherwise, 0, 0.999);
}

/* "full_attention" or "sliding_attention" for each layer. */
static void read_types(samba_lm_config *c, const json_t *types, samba_lm_shape *s)
{
    if (!json_is_array(types) || (int64_t)json_array_size(types) != s->layers) {
        samba_lm_wrong(c, "layer_types", "a list with one word for each layer");
        return;
    }
    for (int64_t i = 0; i < s->layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        s->sliding[i] = type && strcmp(type, "sliding_attention") == 0;
        if (!type || (!s->sliding[i] && strcmp(type, "full_attention") != 0))
            samba_lm_refuse(c, "layer_types", "full_attention, sliding_attention");
    }
}

void samba_lm_read_sliding(samba_lm_config *c, samba_arena *arena, samba_lm_shape *s, bool has_types, int64_t from, int64_t every)
{
    const json_t *types = has_types ? samba_lm_ask(c, "layer_types") : NULL;
    if (c->status == SAMBA_OK)
        c->status = SAMBA_ROOM(arena, s->sliding, s->layers + 1);
    if (c->status != SAMBA_OK)
        return;
    for (int64_t i = 0; i < s->layers; i++)
        s->sliding[i] = s->window > 0 && i >= from && (every == 0 || (i + 1) % every != 0);
    if (types)
        read_types(c, types, s);
    for (int64_t i = 0; i < s->layers; i++)
        if (s->sliding[i] && s->window == 0) {
            samba_lm_wrong(c, "sliding_window", "a number of tokens, since a layer of \"layer_types\" has a window");
            return;
        }
}
