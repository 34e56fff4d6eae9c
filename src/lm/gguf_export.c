/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as a GGUF file: metadata, the folder's tokenizer, and the weights by the files' names and order of rows. Vectors, norms
 * and tables of positions stay float32, as readers expect them. */
#include "base/null.h"
#include "data/data.h"
#include "gguf/tokenizer_write.h"
#include "graph/graph.h"
#include "lm/gguf_export.h"
#include "tensor/tensor.h"

#include <sys/stat.h>

samba_lm_export_options samba_lm_export_defaults(void)
{
    return (samba_lm_export_options){.struct_size = sizeof(samba_lm_export_options)};
}

/* ---- the tokenizer ---- */

/* A file of the folder; *text is NULL where it is not there, else samba_free takes it. */
static samba_status read_beside(const samba_lm *lm, const char *name, char **text, size_t *size)
{
    char path[PATH_MAX];
    struct stat facts;
    void *data;
    *text = NULL;
    const int length = snprintf(path, sizeof path, "%s/%s", lm->folder, name);
    if (length < 0 || length >= (int)sizeof path || stat(path, &facts) != 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_file_read(lm->context, path, &data, size));
    *text = data;
    return SAMBA_OK;
}

static samba_status parse_beside(const samba_lm *lm, const char *name, json_t **json)
{
    char *text;
    size_t size;
    json_error_t error;
    *json = NULL;
    SAMBA_TRY(read_beside(lm, name, &text, &size));
    if (!text)
        return SAMBA_OK;
    *json = json_loadb(text, size, JSON_ALLOW_NUL, &error);
    samba_free(lm->context, text, size);
    if (json_is_object(*json))
        return SAMBA_OK;
    json_decref(*json);
    *json = NULL;
    return samba_fail(lm->context, SAMBA_ERROR_FORMAT, "%s/%s: no JSON object", lm->folder, name);
}

/* A template in a file of its own counts more than that of the config. */
static samba_status add_template(const samba_lm *lm, json_t **config)
{
    char *text;
    size_t size;
    SAMBA_TRY(read_beside(lm, "chat_template.jinja", &text, &size));
    if (!text)
        return SAMBA_OK;
    if (!*config)
        *config = json_object();
    const bool fine = json_object_set_new(*config, "chat_template", json_stringn(text, size)) == 0;
    samba_free(lm->context, text, size);
    return fine ? SAMBA_OK : samba_fail(lm->context, SAMBA_ERROR_FORMAT, "%s/chat_template.jinja: no UTF-8", lm->folder);
}

static samba_status read_tokenizer(const samba_lm *lm, json_t **tokenizer, json_t **config)
{
    static const char *const others[] = {"tokenizer.model", "vocab.json"};
    char path[PATH_MAX];
    struct stat facts;
    if (lm->gguf && !samba_gguf_has_tokenizer(lm->gguf))
        return SAMBA_OK;
    if (lm->gguf) {
        SAMBA_TRY(samba_gguf_tokenizer_json(lm->gguf, tokenizer));
        return samba_gguf_tokenizer_config(lm->gguf, config);
    }
    SAMBA_TRY(parse_beside(lm, "tokenizer.json", tokenizer));
    for (int i = 0; i < SAMBA_COUNT(others) && !*tokenizer; i++)
        if (snprintf(path, sizeof path, "%s/%s", lm->folder, others[i]) < (int)sizeof path && stat(path, &facts) == 0)
            return samba_fail(
                lm->context, SAMBA_ERROR_UNSUPPORTED,
                "%s: of tokenizers a tokenizer.json is supported for GGUF: make one of it, or leave the tokenizer out", path);
    SAMBA_TRY(parse_beside(lm, "tokenizer_config.json", config));
    return add_template(lm, config);
}

static samba_status put_tokenizer(samba_lm_gguf_export *e)
{
    json_t *tokenizer = NULL, *config = NULL;
    samba_status status = read_tokenizer(e->lm, &tokenizer, &config);
    if (status == SAMBA_OK && tokenizer)
        status = samba_gguf_put_tokenizer(&e->builder, e->lm->folder, tokenizer, config, e->lm->shape.vocab_size);
    json_decref(tokenizer);
    json_decref(config);
    return status;
}

/* ---- weights ---- */

typedef struct values { /* of a tensor of the file, which may be of several parameters */
    float *data;
    size_t size;
} values;

static const samba_tensor *find(const samba_tensor_list *list, const samba_parameter_info *parameter)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(samba_tensor_name(list->tensors[i]), parameter->name) == 0)
            return list->tensors[i];
    return NULL;
}

/* The parameter's rows where the file has them. */
static void move(const samba_lm *lm, const samba_lm_gguf_place *place, const samba_tensor *wide, float *to)
{
    const float *from = samba_tensor_data(wide);
    const int64_t columns = place->rank == 2 ? place->shape[1] : 1;
    const int64_t rows = place->slice >= 0 ? 1 : place->shape[0];
    for (int64_t i = 0; i < rows; i++) {
        float *row = to + (place->slice >= 0 ? place->slice : samba_lm_gguf_row(&lm->shape, place, i)) * columns;
        for (int64_t k = 0; k < columns; k++)
            row[k] = from[place->transposed ? k * rows + i : i * columns + k] + (place->plus_one ? 1 : 0);
    }
}

static samba_gguf_type type_of(const samba_lm_gguf_export *e, const samba_lm_gguf_place *place)
{
    const bool plain = place->rank == 1 || strstr(place->name, "_norm") || strncmp(place->name, "position_embd", 13) == 0;
    return plain ? SAMBA_GGUF_F32 : e->type;
}

static samba_status put_parameter(samba_lm_gguf_export *e, const samba_tensor_list *list, const samba_parameter_info *parameter,
                                  values *v)
{
    const samba_lm *lm = e->lm;
    samba_lm_gguf_place place;
    samba_tensor *wide = NULL;
    const samba_tensor *source = find(list, parameter);
    if (!samba_lm_gguf_place_of(&lm->shape, e->kind, parameter, &place))
        return samba_fail(lm->context, SAMBA_ERROR_UNSUPPORTED, "GGUF files of \"%s\" have no tensor for \"%s\"", e->kind->name,
                          parameter->name);
    if (!source || !samba_shape_equal(source->rank, source->shape, parameter->rank, parameter->shape))
        return samba_fail(lm->context, SAMBA_ERROR_FORMAT, "\"%.300s\": the weight \"%s\" is not there, or has another shape",
                          lm->folder, parameter->name);
    if (!v->data) {
        v->size = sizeof(float) * (size_t)(place.rank == 2 ? place.shape[0] * place.shape[1] : place.shape[0]);
        v->data = samba_alloc(lm->context, v->size);
        if (!v->data)
            return SAMBA_ERROR_MEMORY;
    }
    SAMBA_TRY(samba_tensor_new(lm->context, "wide", SAMBA_FLOAT32, parameter->rank, parameter->shape, &wide));
    samba_status status = samba_tensor_copy(wide, source);
    if (status == SAMBA_OK)
        move(lm, &place, wide, v->data);
    samba_tensor_free(wide);
    if (status != SAMBA_OK || (place.slice >= 0 && place.slice + 1 < place.shape[0]))
        return status;
    samba_gguf_put_tensor(&e->builder, place.name, type_of(e, &place), place.rank, place.shape, v->data);
    samba_free(lm->context, v->data, v->size);
    v->data = NULL;
    return e->builder.status;
}

static samba_status put_weights(samba_lm_gguf_export *e)
{
    samba_graph *graph = NULL;
    samba_tensor_list list = {0};
    values v = {0};
    samba_status status = samba_lm_token_graph(e->lm, NULL, &graph);
    if (status == SAMBA_OK)
        status = samba_lm_read_weights(e->lm, &list);
    for (int64_t i = 0; status == SAMBA_OK && i < samba_graph_parameter_count(graph); i++) {
        samba_parameter_info parameter;
        status = samba_graph_parameter(graph, i, &parameter);
        if (status == SAMBA_OK)
            status = put_parameter(e, &list, &parameter, &v);
    }
    if (v.data)
        samba_free(e->lm->context, v.data, v.size);
    samba_tensor_list_free(e->lm->context, &list);
    samba_graph_free(graph);
    return status;
}

/* ---- the file ---- */

static const struct {
    samba_gguf_type type;
    int file_type; /* what "general.file_type" has for it */
} types[] = {
    [SAMBA_EXPORT_F32] = {SAMBA_GGUF_F32, 0},    [SAMBA_EXPORT_F16] = {SAMBA_GGUF_F16, 1},
    [SAMBA_EXPORT_BF16] = {SAMBA_GGUF_BF16, 32}, [SAMBA_EXPORT_Q8_0] = {SAMBA_GGUF_Q8_0, 7},
    [SAMBA_EXPORT_Q4_0] = {SAMBA_GGUF_Q4_0, 2},
};

static const samba_lm_gguf_kind *kind_of(const samba_lm *lm)
{
    const bool windowed = lm->shape.sliding && lm->shape.window > 0;
    const char *type = strcmp(lm->model_type, "mistral") == 0 && !windowed ? "llama" : lm->model_type;
    for (int i = 0; i < samba_lm_gguf_kind_count; i++)
        if (strcmp(samba_lm_gguf_kinds[i].model_type, type) == 0)
            return &samba_lm_gguf_kinds[i];
    return NULL;
}

static samba_status put_all(samba_lm_gguf_export *e, const samba_lm_export_options *o)
{
    samba_gguf_builder *b = &e->builder;
    const char *name = strrchr(e->lm->folder, '/');
    name = name && name[1] ? name + 1 : e->lm->folder;
    samba_gguf_put_text(b, "general.architecture", e->kind->name, strlen(e->kind->name));
    samba_gguf_put_text(b, "general.type", "model", 5);
    samba_gguf_put_text(b, "general.name", name, strlen(name));
    samba_gguf_put_integer(b, "general.file_type", types[o->type].file_type);
    samba_gguf_put_integer(b, "general.quantization_version", 2);
    SAMBA_TRY(samba_lm_gguf_put_metadata(e));
    if (!o->no_tokenizer)
        SAMBA_TRY(put_tokenizer(e));
    return put_weights(e);
}

samba_status samba_lm_export(const samba_lm *lm, const samba_lm_export_options *options, const char *path)
{
    samba_lm_export_options o = samba_lm_export_defaults();
    SAMBA_NEED(NULL, lm);
    SAMBA_NEED(lm->context, path);
    if (options)
        SAMBA_TRY(samba_options_take(lm->context, "samba_lm_export", options, sizeof o, &o));
    if ((int)o.type < 0 || (int)o.type >= SAMBA_COUNT(types))
        return samba_fail(lm->context, SAMBA_ERROR_ARGUMENT, "samba_lm_export: a type of samba_export_type is expected, given %d",
                          (int)o.type);
    if (!lm->has_weights)
        return samba_fail(lm->context, SAMBA_ERROR_STATE, "the folder \"%.300s\" has no weights", lm->folder);
    samba_lm_gguf_export e = {.lm = lm, .kind = kind_of(lm), .type = types[o.type].type};
    if (!e.kind)
        return samba_fail(lm->context, SAMBA_ERROR_UNSUPPORTED,
                          "GGUF has no architecture for \"%s\": supported are those of the table in docs/lm.md but opt",
                          lm->model_type);
    samba_gguf_build_init(&e.builder, lm->context);
    samba_status status = put_all(&e, &o);
    if (status == SAMBA_OK)
        status = samba_gguf_build_write(&e.builder, path);
    samba_gguf_build_free(&e.builder);
    return status;
}
