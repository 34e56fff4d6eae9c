/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters as PEFT keeps them: a folder with adapter_config.json and adapter_model.safetensors, whose names are those of the
 * model's modules behind "base_model.model.". They are written from a session, read into one, and merged into the weights. */
#include "base/null.h"
#include "data/data.h"
#include "graph/graph.h"
#include "lm/lm.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define PREFIX "base_model.model."
static const char *const endings[] = {".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"};

static bool is_adapter(const char *name)
{
    bool is = false;
    for (int i = 0; i < SAMBA_COUNT(endings); i++)
        is = is || samba_ends_with(name, endings[i]);
    return is;
}

/* What a file's names have that this folder's lack: files of a bare model lack the first word of theirs. */
static const char *missing_word(const samba_lm *lm, char word[64])
{
    const char *dot = strchr(lm->whole ? lm->whole : "", '.');
    const bool bare = lm->whole && strcmp(lm->whole, lm->shape.names.model) != 0;
    snprintf(word, 64, "%.*s%s", bare ? (int)(dot ? dot - lm->whole : (long)strlen(lm->whole)) : 0, bare ? lm->whole : "",
             bare ? "." : "");
    return word;
}

/* ---- writing ---- */

static json_t *words_json(int count, const char *const *words)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_string(words[i]));
    return list;
}

static json_t *config_of(const samba_lm *lm, const samba_lora_options *lora)
{
    json_t *all = json_string("all-linear"), *none = json_null();
    json_t *targets = lora->target_count > 0 ? words_json(lora->target_count, lora->targets) : json_incref(all);
    json_t *excludes = lora->exclude_count > 0 ? words_json(lora->exclude_count, lora->excludes) : json_incref(none);
    json_t *config = json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:f, s:b, s:b, s:b, s:s, s:o, s:o, s:b}", "peft_type", "LORA",
                               "task_type", "CAUSAL_LM", "base_model_name_or_path", lm->folder, "bias", "none", "r",
                               (json_int_t)lora->rank, "lora_alpha", lora->alpha, "lora_dropout", lora->dropout, "use_rslora",
                               lora->rslora, "use_dora", lora->dora, "fan_in_fan_out", lm->shape.transposed, "init_lora_weights",
                               "true", "target_modules", targets, "exclude_modules", excludes, "inference_mode", true);
    if (config)
        json_object_set_new(config, "init_lora_weights", json_true());
    json_decref(all);
    json_decref(none);
    return config;
}

static samba_status write_json(const samba_lm *lm, const char *folder, json_t *object)
{
    samba_text path;
    char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
    json_decref(object);
    if (!text)
        return samba_fail(lm->context, SAMBA_ERROR_MEMORY, "no memory for the text of adapter_config.json");
    const void *parts[] = {text};
    const size_t size = strlen(text);
    samba_status status = samba_text_begin(&path, lm->context, "%s/adapter_config.json", folder);
    if (status == SAMBA_OK)
        status = samba_file_write_atomic(lm->context, path.data, parts, &size, 1);
    samba_text_clear(&path);
    free(text);
    return status;
}

static samba_status rename_for_file(const samba_lm *lm, samba_tensor *tensor)
{
    samba_text name;
    char word[64];
    samba_status status = samba_text_begin(&name, lm->context, PREFIX "%s%s", missing_word(lm, word), samba_tensor_name(tensor));
    if (status == SAMBA_OK)
        status = samba_tensor_set_name(tensor, name.data);
    samba_text_clear(&name);
    return status;
}

static samba_status gather(const samba_lm *lm, samba_session *session, samba_tensor_list *list, int *count)
{
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        SAMBA_TRY(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER || !is_adapter(info.name))
            continue;
        SAMBA_TRY(samba_session_get_by_name(session, info.name, &list->tensors[*count]));
        SAMBA_TRY(rename_for_file(lm, list->tensors[(*count)++]));
    }
    return *count > 0 ? SAMBA_OK
                      : samba_fail(lm->context, SAMBA_ERROR_NAME, "samba_lm_save_adapter: the session has no adapters");
}

samba_status samba_lm_save_adapter(const samba_lm *lm, samba_session *session, const samba_lora_options *lora, const char *folder)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    samba_lora_options taken = samba_lora_defaults();
    samba_tensor_list list;
    samba_text path;
    int count = 0;
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, session);
    SAMBA_NEED(lm->context, lora);
    SAMBA_NEED(lm->context, folder);
    SAMBA_TRY(samba_options_take(lm->context, __func__, lora, sizeof taken, &taken));
    SAMBA_TRY(samba_tensor_list_new(lm->context, samba_session_tensor_count(session) + 1, &list));
    samba_status status = gather(lm, session, &list, &count);
    if (status == SAMBA_OK)
        status = samba_make_directories(lm->context, folder);
    samba_text_init(&path, lm->context);
    if (status == SAMBA_OK)
        status = samba_text_begin(&path, lm->context, "%s/adapter_model.safetensors", folder);
    if (status == SAMBA_OK)
        status = samba_safetensors_write(lm->context, path.data, count, list.tensors, metadata);
    samba_text_clear(&path);
    samba_tensor_list_free(lm->context, &list);
    return status == SAMBA_OK ? write_json(lm, folder, config_of(lm, &taken)) : status;
}

/* ---- reading the config ---- */

struct samba_lm_adapter {
    const samba_lm *lm;
    samba_arena arena;
    json_t *json;
    const char *folder;
    samba_lora_options lora;
};

/* Names of whole modules begin with a word that a bare model's lack. */
static const char *own_name(const samba_lm *lm, const char *name)
{
    char word[64];
    const size_t length = strlen(missing_word(lm, word));
    return length > 0 && strncmp(name, word, length) == 0 ? name + length : name;
}

static void take_words(samba_lm_adapter *a, samba_lm_config *config, const char *key, int *count, const char *const **words)
{
    const json_t *list = samba_lm_ask(config, key);
    const char **room;
    *count = 0;
    if (!list || (json_is_string(list) && strcmp(json_string_value(list), "all-linear") == 0))
        return;
    if (json_is_string(list)) {
        samba_lm_refuse(config, key, "a list of names, or all-linear; expressions are not");
        return;
    }
    if (!json_is_array(list)) {
        samba_lm_wrong(config, key, "a list of names");
        return;
    }
    if (json_array_size(list) == 0 && strcmp(key, "target_modules") == 0) {
        samba_lm_wrong(config, key, "a list of one name or more, or all-linear");
        return;
    }
    if (SAMBA_ROOM(&a->arena, room, (int64_t)json_array_size(list) + 1) != SAMBA_OK) {
        config->status = SAMBA_ERROR_MEMORY;
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || !name[0]) {
            samba_lm_wrong(config, key, "a list of names");
            return;
        }
        room[(*count)++] = own_name(a->lm, name);
    }
    *words = room;
}

/* Whether a key is there with something in it. */
static void need_empty(samba_lm_config *config, const char *key)
{
    const json_t *value = samba_lm_ask(config, key);
    if (value && !json_is_false(value) &&
        !((json_is_object(value) || json_is_array(value)) && json_array_size(value) == 0 && json_object_size(value) == 0))
        samba_lm_refuse(config, key, "null, false and what is empty");
}

/* Of some starts PEFT takes what the adapters begin with out of the model's weights, each time that it opens the folder. */
static void check_start(samba_lm_config *config)
{
    static const char *const kept[] = {"gaussian", "eva", "orthogonal", "mica"};
    const json_t *start = samba_lm_ask(config, "init_lora_weights");
    bool fine = !start || json_is_boolean(start);
    for (int i = 0; i < SAMBA_COUNT(kept) && json_is_string(start); i++)
        fine = fine || strcasecmp(json_string_value(start), kept[i]) == 0;
    if (!fine)
        samba_lm_refuse(config, "init_lora_weights",
                        "true, false, gaussian, eva, orthogonal, mica, with which the model's weights stay as they are; convert "
                        "others by save_pretrained(path_initial_model_for_weight_conversion=...)");
}

static samba_status read_config(samba_lm_adapter *a, samba_lm_config *config)
{
    static const char *const nothing[] = {
        "auto_mapping",   "base_model_name_or_path", "inference_mode",     "megatron_core", "peft_version", "qalora_group_size",
        "revision",       "fan_in_fan_out",          "task_type",          "eva_config",    "corda_config", "loftq_config",
        "lora_ga_config", "runtime_config",          "ensure_weight_tying"};
    static const char *const empty[] = {
        "rank_pattern",      "alpha_pattern",     "modules_to_save",         "layers_to_transform", "layers_pattern",
        "layer_replication", "target_parameters", "trainable_token_indices", "megatron_config",     "lora_bias",
        "use_qalora",        "use_bdlora",        "alora_invocation_tokens", "arrow_config",        "kasa_config",
        "velora_config",     "monteclora_config"};
    samba_lora_options *o = &a->lora;
    const char *type = samba_lm_word(config, "peft_type", "LORA");
    if (strcmp(type, "LORA") != 0)
        samba_lm_refuse(config, "peft_type", "LORA");
    if (strcmp(samba_lm_word(config, "bias", "none"), "none") != 0)
        samba_lm_refuse(config, "bias", "none");
    for (int i = 0; i < SAMBA_COUNT(nothing); i++)
        samba_lm_ask(config, nothing[i]);
    for (int i = 0; i < SAMBA_COUNT(empty); i++)
        need_empty(config, empty[i]);
    check_start(config);
    o->rank = samba_lm_integer(config, "r", 8, 1, 1 << 20);
    o->alpha = samba_lm_number(config, "lora_alpha", 8, -1e9, 1e9);
    o->dropout = samba_lm_number(config, "lora_dropout", 0, 0, 0.999999);
    o->rslora = samba_lm_flag(config, "use_rslora", false);
    o->dora = samba_lm_flag(config, "use_dora", false);
    if (!samba_lm_ask(config, "target_modules")) /* PEFT has its own choice for each architecture */
        samba_lm_wrong(config, "target_modules", "a list of names, or all-linear");
    take_words(a, config, "target_modules", &o->target_count, &o->targets);
    take_words(a, config, "exclude_modules", &o->exclude_count, &o->excludes);
    return samba_lm_config_finish(config);
}

static samba_status open_adapter(samba_lm_adapter *a, const char *folder)
{
    samba_text path;
    char *kept, *copy;
    void *data;
    size_t size;
    json_error_t error;
    SAMBA_TRY(samba_arena_copy(&a->arena, folder, &copy));
    a->folder = copy;
    samba_status status = samba_text_begin(&path, a->lm->context, "%s/adapter_config.json", folder);
    if (status == SAMBA_OK)
        status = samba_text_keep(&path, &a->arena, &kept);
    samba_text_clear(&path);
    SAMBA_TRY(status);
    SAMBA_TRY(samba_file_read(a->lm->context, kept, &data, &size));
    a->json = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    samba_free(a->lm->context, data, size);
    if (!a->json || !json_is_object(a->json))
        return samba_fail(a->lm->context, SAMBA_ERROR_FORMAT, "%s: no object of JSON: %s", kept,
                          a->json ? "it is of another kind" : error.text);
    samba_lm_config config;
    samba_lm_config_init(&config, a->lm->context, kept, "", a->json);
    return read_config(a, &config);
}

samba_status samba_lm_adapter_open(const samba_lm *lm, const char *folder, samba_lm_adapter **adapter,
                                   const samba_lora_options **lora)
{
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, folder);
    SAMBA_NEED(lm->context, adapter);
    *adapter = NULL;
    samba_lm_adapter *made = samba_calloc(lm->context, sizeof *made);
    if (!made)
        return SAMBA_ERROR_MEMORY;
    made->lm = lm;
    made->lora = samba_lora_defaults();
    samba_arena_init(&made->arena, lm->context);
    samba_status status = open_adapter(made, folder);
    if (status != SAMBA_OK) {
        samba_lm_adapter_free(made);
        return status;
    }
    *adapter = made;
    if (lora)
        *lora = &made->lora;
    return SAMBA_OK;
}

void samba_lm_adapter_free(samba_lm_adapter *adapter)
{
    if (!adapter)
        return;
    samba_context *context = adapter->lm->context;
    json_decref(adapter->json);
    samba_arena_free(&adapter->arena);
    samba_free(context, adapter, sizeof *adapter);
}

/* ---- its weights ---- */

static samba_status read_weights(const samba_lm_adapter *a, samba_tensor_list *list)
{
    samba_text path;
    samba_status status = samba_text_begin(&path, a->lm->context, "%s/adapter_model.safetensors", a->folder);
    if (status == SAMBA_OK)
        status = samba_safetensors_read(a->lm->context, path.data, list);
    samba_text_clear(&path);
    return status;
}

/* Whether the file has what the config says: modules that are its targets, matrices of its rank, DoRA's magnitudes. */
static samba_status check_parts(const samba_lm_adapter *a, const samba_tensor_list *parts)
{
    const samba_lm_options options = {.struct_size = sizeof options, .lora = &a->lora};
    char word[64], prefix[sizeof PREFIX + 64];
    int matrices = 0, magnitudes = 0;
    samba_graph *graph;
    snprintf(prefix, sizeof prefix, PREFIX "%s", missing_word(a->lm, word));
    SAMBA_TRY(samba_lm_token_graph(a->lm, &options, &graph));
    samba_status status = SAMBA_OK;
    for (int i = 0; i < parts->count && status == SAMBA_OK; i++) {
        const samba_tensor *part = parts->tensors[i];
        const char *name = samba_tensor_name(part);
        const bool known = strncmp(name, prefix, strlen(prefix)) == 0 && is_adapter(name);
        const samba_ref leaf = known ? samba_graph_leaf(graph, name + strlen(prefix)) : SAMBA_NONE;
        const samba_node *node = leaf == SAMBA_NONE ? NULL : samba_node_at(graph, leaf);
        matrices += samba_ends_with(name, endings[0]);
        magnitudes += samba_ends_with(name, endings[2]);
        if (!node)
            status =
                samba_fail(a->lm->context, SAMBA_ERROR_NAME,
                           "\"%.300s\" has \"%.300s\", which is no adapter of the model by adapter_config.json", a->folder, name);
        else if (!samba_shape_equal(node->rank, node->shape, part->rank, part->shape))
            status = samba_fail(a->lm->context, SAMBA_ERROR_SHAPE,
                                "\"%.300s\" has \"%.300s\" of %s, which is %s by adapter_config.json", a->folder, name,
                                SAMBA_SHAPE(part->rank, part->shape), SAMBA_SHAPE(node->rank, node->shape));
    }
    if (status == SAMBA_OK && a->lora.dora && magnitudes != matrices)
        status = samba_fail(a->lm->context, SAMBA_ERROR_NAME,
                            "\"%.300s\" has \"use_dora\", and %d magnitudes for %d adapters: one for each is expected", a->folder,
                            magnitudes, matrices);
    samba_graph_free(graph);
    return status;
}

samba_status samba_lm_adapter_load(const samba_lm_adapter *adapter, samba_session *session)
{
    SAMBA_NEED(NULL, adapter);
    SAMBA_NEED(adapter->lm->context, session);
    char word[64], prefix[sizeof PREFIX + 64];
    samba_tensor_list list = {0};
    int loaded = 0;
    samba_load_options options = samba_load_defaults();
    snprintf(prefix, sizeof prefix, PREFIX "%s", missing_word(adapter->lm, word));
    options.partial = true;
    options.drop_prefix = prefix;
    options.loaded = &loaded;
    SAMBA_TRY(read_weights(adapter, &list));
    samba_status status = check_parts(adapter, &list);
    for (int i = 0; i < list.count && status == SAMBA_OK; i++)
        status = samba_lm_own_float32(adapter->lm->context, &list.tensors[i]);
    if (status == SAMBA_OK)
        status = samba_session_load_tensors(session, list.count, list.tensors, &options);
    if (status == SAMBA_OK && loaded != list.count)
        status =
            samba_fail(adapter->lm->context, SAMBA_ERROR_NAME,
                       "\"%.300s\" has %d tensors of adapters, and %d of them are the session's: they are of another model, or "
                       "the graph was compiled for others",
                       adapter->folder, list.count, loaded);
    samba_tensor_list_free(adapter->lm->context, &list);
    return status;
}

const samba_lora_options *samba_lm_adapter_lora(const samba_lm_adapter *adapter) { return &adapter->lora; }

/* ---- merging ---- */

typedef struct merging {
    const samba_lm_adapter *adapter;
    samba_tensor_list parts, weights;
    double factor;
    int used;
} merging;

/* The adapter's tensors of a weight's module; NULL where it has none. */
static samba_status find_parts(const merging *m, const char *weight, const samba_tensor *found[SAMBA_COUNT(endings)])
{
    char word[64];
    const int length = (int)(strlen(weight) - strlen(".weight"));
    missing_word(m->adapter->lm, word);
    for (int e = 0; e < SAMBA_COUNT(endings); e++) {
        samba_text name;
        found[e] = NULL;
        samba_status status =
            samba_text_begin(&name, m->adapter->lm->context, PREFIX "%s%.*s%s", word, length, weight, endings[e]);
        for (int i = 0; i < m->parts.count && status == SAMBA_OK && !found[e]; i++)
            if (strcmp(samba_tensor_name(m->parts.tensors[i]), name.data) == 0)
                found[e] = m->parts.tensors[i];
        samba_text_clear(&name);
        SAMBA_TRY(status);
    }
    return SAMBA_OK;
}

/* Adds factor B A to a weight and, of DoRA, gives its rows their magnitudes. */
static samba_status merge_one(merging *m, samba_tensor *weight, const samba_tensor *a, const samba_tensor *b,
                              const samba_tensor *magnitude)
{
    const samba_lm *lm = m->adapter->lm;
    const char *head = lm->shape.names.head;
    const bool turned = lm->shape.transposed && strncmp(samba_tensor_name(weight), head, strlen(head)) != 0;
    const int64_t *shape = samba_tensor_shape(weight), rank = samba_tensor_rank(a) == 2 ? samba_tensor_shape(a)[0] : -1;
    const int64_t out = shape[turned], in = shape[!turned];
    if (samba_tensor_rank(weight) != 2 || samba_tensor_rank(b) != 2 || samba_tensor_shape(a)[1] != in ||
        samba_tensor_shape(b)[0] != out || samba_tensor_shape(b)[1] != rank ||
        (magnitude && samba_tensor_numel(magnitude) != out))
        return samba_fail(lm->context, SAMBA_ERROR_SHAPE, "the adapter in \"%.300s\" does not fit \"%s\", which is %s",
                          m->adapter->folder, samba_tensor_name(weight), SAMBA_SHAPE(samba_tensor_rank(weight), shape));
    float *w = samba_tensor_data(weight), *row = samba_alloc(lm->context, (size_t)(in + 1) * sizeof *row);
    const float *low = samba_tensor_data(a), *high = samba_tensor_data(b),
                *size = magnitude ? samba_tensor_data(magnitude) : NULL;
    if (!row)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < out; i++) {
        const int64_t step = turned ? out : 1, first = turned ? i : i * in;
        double norm = 0;
        memset(row, 0, (size_t)in * sizeof *row);
        for (int64_t r = 0; r < rank; r++)
            for (int64_t k = 0; k < in; k++)
                row[k] += high[i * rank + r] * low[r * in + k];
        for (int64_t k = 0; k < in; k++) {
            row[k] = (float)(w[first + k * step] + m->factor * row[k]);
            norm += (double)row[k] * row[k];
        }
        const double scale = size ? size[i] / sqrt(norm) : 1;
        for (int64_t k = 0; k < in; k++)
            w[first + k * step] = (float)(row[k] * scale);
    }
    samba_free(lm->context, row, (size_t)(in + 1) * sizeof *row);
    return SAMBA_OK;
}

static samba_status merge_all(merging *m)
{
    for (int i = 0; i < m->weights.count; i++) {
        samba_tensor *weight = m->weights.tensors[i];
        const char *name = samba_tensor_name(weight);
        if (!samba_ends_with(name, ".weight"))
            continue;
        const samba_tensor *parts[SAMBA_COUNT(endings)];
        SAMBA_TRY(find_parts(m, name, parts));
        if (!parts[0] || !parts[1])
            continue;
        SAMBA_TRY(merge_one(m, weight, parts[0], parts[1], parts[2]));
        m->used += 2 + (parts[2] != NULL);
    }
    if (m->used != m->parts.count)
        return samba_fail(m->adapter->lm->context, SAMBA_ERROR_NAME,
                          "\"%.300s\" has %d tensors of adapters, and %d of them are of the model's modules", m->adapter->folder,
                          m->parts.count, m->used);
    return SAMBA_OK;
}

samba_status samba_lm_adapter_merge(const samba_lm_adapter *adapter, const char *folder)
{
    SAMBA_NEED(NULL, adapter);
    const samba_lm *lm = adapter->lm;
    const samba_lora_options *o = &adapter->lora;
    SAMBA_NEED(lm->context, folder);
    merging m = {.adapter = adapter, .factor = o->alpha / (o->rslora ? sqrt((double)o->rank) : (double)o->rank)};
    SAMBA_TRY(read_weights(adapter, &m.parts));
    samba_status status = check_parts(adapter, &m.parts);
    if (status == SAMBA_OK)
        status = samba_lm_weights(lm, &m.weights);
    for (int i = 0; i < m.parts.count && status == SAMBA_OK; i++)
        status = samba_lm_own_float32(lm->context, &m.parts.tensors[i]);
    for (int i = 0; i < m.weights.count && status == SAMBA_OK; i++)
        status = samba_lm_own_float32(lm->context, &m.weights.tensors[i]);
    if (status == SAMBA_OK)
        status = merge_all(&m);
    if (status == SAMBA_OK)
        status = samba_lm_save_tensors(lm, m.weights.count, m.weights.tensors, folder);
    samba_tensor_list_free(lm->context, &m.parts);
    samba_tensor_list_free(lm->context, &m.weights);
    return status;
}
