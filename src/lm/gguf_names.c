/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of GGUF files and parameters of folders: which is which, by the modules that the description names, and how their rows
 * lie. Files have the two features that turn together side by side where the architecture is Llama's; joint projections have all
 * queries, then all keys, then all values. */
#include "lm/gguf.h"

#include <stdlib.h>

/* "outer.inner." at the begin of a name, either of which may be "": what stands behind; NULL: the name begins otherwise. */
static const char *behind(const char *name, const char *outer, const char *inner)
{
    const char *parts[2] = {outer, inner};
    for (int i = 0; i < 2; i++) {
        const size_t size = parts[i] ? strlen(parts[i]) : 0;
        if (size == 0)
            continue;
        if (strncmp(name, parts[i], size) != 0 || name[size] != '.')
            return NULL;
        name += size + 1;
    }
    return name;
}

static bool is_leaf(const char *rest) { return rest && (strcmp(rest, "weight") == 0 || strcmp(rest, "bias") == 0); }

/* ---- of a layer ---- */

/* A norm of each head by itself is a row of one tensor. */
static bool place_head(const samba_lm_shape *m, const char *rest, samba_lm_gguf_place *place, const char **leaf,
                       const char **ending)
{
    const char *const names[2] = {m->names.query_norm, m->names.key_norm};
    for (int i = 0; i < 2 && m->norms_each_head; i++) {
        const char *number = names[i] ? behind(rest, m->names.attention, names[i]) : NULL;
        char *end;
        if (!number || strncmp(number, "norms.", 6) != 0)
            continue;
        place->slice = strtoll(number + 6, &end, 10);
        place->rank = 2;
        place->shape[0] = i == 0 ? m->heads : m->key_value_heads;
        place->shape[1] = m->head_dim;
        *leaf = i == 0 ? "attn_q_norm" : "attn_k_norm";
        *ending = *end == '.' ? end + 1 : end;
        return true;
    }
    return false;
}

static bool place_in_layer(const samba_lm_shape *m, const samba_lm_gguf_kind *kind, const char *rest, samba_lm_gguf_place *place,
                           const char **leaf, const char **ending)
{
    const samba_lm_names *n = &m->names;
    const bool two_norms = m->order == SAMBA_LM_PARALLEL && n->norm_mlp && strcmp(n->norm_mlp, "ln_mlp") == 0;
    const struct {
        const char *outer, *inner, *leaf;
        int rows;
    } modules[] = {
        {n->attention, n->query, "attn_q", kind->turned ? SAMBA_LM_ROWS_TURNED : SAMBA_LM_ROWS_ALIKE},
        {n->attention, n->key, "attn_k", kind->turned ? SAMBA_LM_ROWS_TURNED : SAMBA_LM_ROWS_ALIKE},
        {n->attention, n->value, "attn_v", 0},
        {n->attention, n->qkv, "attn_qkv", m->qkv == SAMBA_LM_GROUPED ? SAMBA_LM_ROWS_GROUPED : SAMBA_LM_ROWS_ALIKE},
        {n->attention, n->out, "attn_output", 0},
        {n->attention, n->query_norm, "attn_q_norm", 0},
        {n->attention, n->key_norm, "attn_k_norm", 0},
        {n->mlp, n->gate, "ffn_gate", 0},
        {n->mlp, n->gate_up, "ffn_up", 0},
        {n->mlp, n->up, "ffn_up", 0},
        {n->mlp, n->down, "ffn_down", 0},
        {NULL, n->norm_attention, two_norms ? "attn_norm_2" : "attn_norm", 0},
        {NULL, n->norm_mlp, two_norms ? "attn_norm" : "ffn_norm", 0},
        {NULL, n->after_attention, "post_attention_norm", 0},
        {NULL, n->after_mlp, "post_ffw_norm", 0},
    };
    if (place_head(m, rest, place, leaf, ending))
        return true;
    for (int i = 0; i < SAMBA_COUNT(modules); i++) {
        const char *found = modules[i].inner ? behind(rest, modules[i].outer, modules[i].inner) : NULL;
        if (!is_leaf(found))
            continue;
        *leaf = modules[i].leaf;
        *ending = found;
        place->rows = modules[i].rows;
        return true;
    }
    return false;
}

/* ---- of the whole ---- */

static bool place_outside(const samba_lm_shape *m, const char *name, const char **leaf, const char **ending)
{
    const samba_lm_names *n = &m->names;
    const struct {
        const char *outer, *inner, *leaf;
    } modules[] = {
        {n->model, n->embedding, "token_embd"},
        {n->model, n->embedding_norm, "token_embd_norm"},
        {n->model, n->positions, "position_embd"},
        {n->model, n->final_norm, "output_norm"},
        {NULL, n->head, "output"},
    };
    for (int i = 0; i < SAMBA_COUNT(modules); i++) {
        const char *found = modules[i].inner ? behind(name, modules[i].outer, modules[i].inner) : NULL;
        if (!is_leaf(found))
            continue;
        *leaf = modules[i].leaf;
        *ending = found;
        return true;
    }
    return false;
}

bool samba_lm_gguf_place_of(const samba_lm_shape *m, const samba_lm_gguf_kind *kind, const samba_parameter_info *parameter,
                            samba_lm_gguf_place *place)
{
    const char *leaf = "", *ending = "", *rest = behind(parameter->name, m->names.model, m->names.layers);
    char *end;
    *place = (samba_lm_gguf_place){.rank = parameter->rank, .slice = -1};
    if (parameter->rank < 1 || parameter->rank > 2)
        return false;
    memcpy(place->shape, parameter->shape, (size_t)parameter->rank * sizeof(int64_t));
    if (!rest) {
        if (!place_outside(m, parameter->name, &leaf, &ending))
            return false;
        snprintf(place->name, sizeof place->name, "%s.%s", leaf, ending);
        place->plus_one = m->norm.plus_one && strcmp(leaf, "output_norm") == 0;
        return true;
    }
    const int64_t layer = strtoll(rest, &end, 10);
    if (*end != '.' || !place_in_layer(m, kind, end + 1, place, &leaf, &ending))
        return false;
    snprintf(place->name, sizeof place->name, "blk.%lld.%s.%s", (long long)layer, leaf, ending);
    place->plus_one = m->norm.plus_one && strstr(leaf, "_norm");
    place->transposed = m->transposed && parameter->rank == 2;
    if (place->transposed)
        place->shape[0] = parameter->shape[1], place->shape[1] = parameter->shape[0];
    return true;
}

int64_t samba_lm_gguf_row(const samba_lm_shape *m, const samba_lm_gguf_place *place, int64_t row)
{
    const int64_t d = m->head_dim, head = row / d, at = row % d, groups = m->key_value_heads, each = m->heads / groups;
    if (place->rows == SAMBA_LM_ROWS_TURNED)
        return head * d + at % (d / 2) * 2 + at / (d / 2);
    if (place->rows == SAMBA_LM_ROWS_ALIKE)
        return row;
    const int64_t group = head / (each + 2), slot = head % (each + 2);
    const int64_t to = slot < each ? group * each + slot : m->heads + (slot - each) * groups + group;
    return to * d + at;
}
