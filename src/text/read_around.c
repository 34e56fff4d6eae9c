/* SPDX-License-Identifier: Apache-2.0
 *
 * The post-processor of tokenizer.json: which ids stand before and behind those of one text. What it says of pairs of texts and
 * of offsets is left out. Each part of a Sequence goes around what the parts before it have made. */
#include "text/read.h"

static samba_status add_around(const samba_reader *r, const char *where, samba_around **around)
{
    samba_tokenizer *t = r->tokenizer;
    if (t->around_count == SAMBA_MOST_STEPS)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: %s has more than %d parts", r->path, where, SAMBA_MOST_STEPS);
    *around = &t->around[t->around_count++];
    return SAMBA_OK;
}

static samba_status read_id(const samba_reader *r, const char *where, const json_t *value, int32_t *id)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= INT32_MAX)
        return samba_reader_fail(r, where, "an id is no whole number from 0 to %d", INT32_MAX - 1);
    *id = (int32_t)json_integer_value(value);
    return SAMBA_OK;
}

/* BertProcessing and RobertaProcessing: "cls" before, "sep" behind, each a text and its id. */
static samba_status read_pair(const samba_reader *r, const char *where, const json_t *object)
{
    samba_around *around = NULL;
    SAMBA_TRY(add_around(r, where, &around));
    SAMBA_TRY(SAMBA_ROOM(r->arena, around->before, 1));
    SAMBA_TRY(SAMBA_ROOM(r->arena, around->behind, 1));
    around->before_count = around->behind_count = 1;
    SAMBA_TRY(read_id(r, where, json_array_get(json_object_get(object, "cls"), 1), around->before));
    return read_id(r, where, json_array_get(json_object_get(object, "sep"), 1), around->behind);
}

/* The ids of a template's special token, added to the list. */
static samba_status add_special(const samba_reader *r, const char *where, const json_t *specials, const json_t *part,
                                samba_ids *ids)
{
    const char *name = json_string_value(json_object_get(part, "id"));
    const json_t *list = name ? json_object_get(json_object_get(specials, name), "ids") : NULL;
    char shown[SAMBA_SHOWN];
    if (!json_is_array(list))
        return samba_reader_fail(r, where, "\"special_tokens\" has no ids of \"%.100s\"", samba_shown(name, shown));
    for (size_t i = 0; i < json_array_size(list); i++) {
        int32_t id = 0;
        SAMBA_TRY(read_id(r, where, json_array_get(list, i), &id));
        SAMBA_TRY(samba_ids_add(r->context, ids, id));
    }
    return ids->count > 1 << 16 ? samba_reader_fail(r, where, "the template has more than 65536 tokens") : SAMBA_OK;
}

static samba_status keep(const samba_reader *r, const samba_ids *ids, int32_t **kept, int64_t *count)
{
    SAMBA_TRY(SAMBA_ROOM(r->arena, *kept, ids->count + 1));
    if (ids->count > 0)
        memcpy(*kept, ids->data, (size_t)ids->count * sizeof **kept);
    *count = ids->count;
    return SAMBA_OK;
}

static samba_status walk_template(const samba_reader *r, const char *where, const json_t *object, samba_ids sides[2])
{
    const json_t *single = json_object_get(object, "single"), *specials = json_object_get(object, "special_tokens");
    int texts = 0;
    if (!json_is_array(single))
        return samba_reader_fail(r, where, "\"single\" is no list");
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *part = json_array_get(single, i), *special = json_object_get(part, "SpecialToken");
        const char *sequence = json_string_value(json_object_get(json_object_get(part, "Sequence"), "id"));
        if (special)
            SAMBA_TRY(add_special(r, where, specials, special, &sides[texts > 0]));
        else if (sequence && strcmp(sequence, "A") == 0)
            texts++;
        else
            return samba_reader_fail(r, where, "\"single\"[%zu] is neither a special token nor the sequence A", i);
    }
    if (texts != 1)
        return samba_reader_fail(r, where, "\"single\" has the sequence A %d times; once is what is supported", texts);
    return SAMBA_OK;
}

static samba_status read_template(const samba_reader *r, const char *where, const json_t *object)
{
    samba_ids sides[2] = {{0}};
    samba_around *around = NULL;
    SAMBA_TRY(add_around(r, where, &around));
    samba_status status = walk_template(r, where, object, sides);
    if (status == SAMBA_OK)
        status = keep(r, &sides[0], &around->before, &around->before_count);
    if (status == SAMBA_OK)
        status = keep(r, &sides[1], &around->behind, &around->behind_count);
    samba_ids_free(r->context, &sides[0]);
    samba_ids_free(r->context, &sides[1]);
    return status;
}

static samba_status read_part(const samba_reader *r, const char *where, const json_t *object, int depth)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    char shown[SAMBA_SHOWN], place[120];
    if (!type)
        return samba_reader_fail(r, where, "\"type\" is missing");
    snprintf(place, sizeof place, "%.60s %.40s", where, type);
    if (strcmp(type, "ByteLevel") == 0) /* changes offsets alone */
        return SAMBA_OK;
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return read_pair(r, place, object);
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(r, place, object);
    if (strcmp(type, "Sequence") != 0)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: %s: type \"%.100s\" is not supported", r->path, where,
                          samba_shown(type, shown));
    const json_t *list = json_object_get(object, "processors");
    if (!json_is_array(list) || depth == SAMBA_MOST_STEPS)
        return samba_reader_fail(r, where, "\"processors\" of the Sequence is no list, or nested too deeply");
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(place, sizeof place, "%.80s[%zu]", where, i);
        SAMBA_TRY(read_part(r, place, json_array_get(list, i), depth + 1));
    }
    return SAMBA_OK;
}

samba_status samba_read_around(const samba_reader *r, const json_t *component)
{
    return component ? read_part(r, "post_processor", component, 0) : SAMBA_OK;
}
