/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of architectures, and what all of them read alike: which head the model has, what it is not. */
#include "lm/lm.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *model_type;
    samba_lm_read *read;
} table[] = {
#define ARCHITECTURE(type, read) {type, samba_lm_read_##read},
#include "lm/architectures.def"
#undef ARCHITECTURE
};
static const char supported[] =
#define ARCHITECTURE(type, read) type ", "
#include "lm/architectures.def"
    ;

static bool ends_in(const char *text, const char *end)
{
    const size_t length = strlen(text), last = strlen(end);
    return length >= last && strcmp(text + length - last, end) == 0;
}

/* A classifier has another head under the same model_type. */
static void check_head(samba_lm_config *c)
{
    const json_t *list = samba_lm_ask(c, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    if (list && !json_is_array(list))
        samba_lm_wrong(c, "architectures", "a list of strings");
    if (name && !ends_in(name, "ForCausalLM") && !ends_in(name, "LMHeadModel") && !ends_in(name, "Model"))
        samba_lm_refuse(c, "architectures", "a model with a language model's head, as LlamaForCausalLM");
}

/* What would make another model of any architecture. */
static void check_rest(samba_lm_config *c)
{
    const json_t *quantized = samba_lm_ask(c, "quantization_config"), *pruned = samba_lm_ask(c, "pruned_heads");
    if (quantized)
        samba_lm_refuse(c, "quantization_config", "null: weights that are floating-point");
    if (json_object_size(pruned) > 0)
        samba_lm_refuse(c, "pruned_heads", "none");
    samba_lm_only(c, "is_encoder_decoder", false);
    samba_lm_only(c, "add_cross_attention", false);
    samba_lm_only(c, "is_causal", true); /* false: transformers lets each token see all */
}

samba_status samba_lm_describe(samba_lm *lm, const char *path)
{
    samba_lm_config c;
    samba_lm_shape *s = &lm->shape;
    int found = -1;
    samba_lm_config_init(&c, lm->context, path, "", lm->json);
    lm->model_type = samba_lm_word(&c, "model_type", "");
    for (int i = 0; i < SAMBA_COUNT(table); i++)
        if (strcmp(table[i].model_type, lm->model_type) == 0)
            found = i;
    if (found < 0) {
        char list[sizeof supported];
        snprintf(list, sizeof list, "%.*s", (int)sizeof supported - 3, supported);
        samba_lm_refuse(&c, "model_type", list);
    }
    check_head(&c);
    SAMBA_TRY(c.status);
    s->embedding_scale = 1;
    s->initializer_range = samba_lm_number(&c, "initializer_range", 0.02, 0, 10);
    table[found].read(&c, &lm->arena, s);
    check_rest(&c);
    SAMBA_TRY(samba_lm_config_finish(&c));
    if (s->scale == 0)
        s->scale = 1 / sqrt((double)s->head_dim);
    if (s->sliding_rope.kind == SAMBA_LM_NO_ROPE)
        s->sliding_rope = s->rope;
    return SAMBA_OK;
}
