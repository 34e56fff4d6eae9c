/* SPDX-License-Identifier: Apache-2.0
 *
 * The post-processor of tokenizer.json: which ids stand before and behind those of one text. Its parts work on a list of
 * encodings, at first the text alone. A template makes one of each of its pieces, and of two encodings it takes the template for
 * pairs; Bert's and Roberta's put "cls" before all and "sep" behind each. Here an encoding is a row of ids with a
 * mark for the text, and all are done once, when the file is read. */
#include "text/read.h"

enum { TEXT = -1, BREAK = -2, MOST = 1 << 16 };

typedef struct around_reader {
    const samba_reader *r;
    samba_ids rows, made; /* encodings, with a BREAK between two */
    int parts;
} around_reader;

static samba_status put(around_reader *a, int32_t id) { return samba_ids_add(a->r->context, &a->made, id); }

/* What has been made takes the place of what there was. */
static samba_status done(around_reader *a, const char *where)
{
    const samba_ids kept = a->rows;
    a->rows = a->made;
    a->made = kept;
    a->made.count = 0;
    return a->rows.count > MOST ? samba_reader_fail(a->r, where, "there are more than %d tokens around a text", MOST) : SAMBA_OK;
}

static samba_status read_id(const samba_reader *r, const char *where, const json_t *value, int32_t *id)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= INT32_MAX)
        return samba_reader_fail(r, where, "an id is no whole number from 0 to %d", INT32_MAX - 1);
    *id = (int32_t)json_integer_value(value);
    return SAMBA_OK;
}

/* BertProcessing and RobertaProcessing: "cls" before, "sep" behind, each a text and its id; Roberta's has two of it between. */
static samba_status read_pair(around_reader *a, const char *where, const json_t *object, bool twice)
{
    int32_t first = 0, last = 0;
    SAMBA_TRY(read_id(a->r, where, json_array_get(json_object_get(object, "cls"), 1), &first));
    SAMBA_TRY(read_id(a->r, where, json_array_get(json_object_get(object, "sep"), 1), &last));
    SAMBA_TRY(put(a, first));
    for (int64_t i = 0; i < a->rows.count; i++) {
        const int32_t id = a->rows.data[i];
        if (id == BREAK)
            SAMBA_TRY(put(a, last));
        SAMBA_TRY(put(a, id));
        if (id == BREAK && twice)
            SAMBA_TRY(put(a, last));
    }
    SAMBA_TRY(put(a, last));
    return done(a, where);
}

/* The ids of a template's special token, added to the list. */
static samba_status add_special(around_reader *a, const char *where, const json_t *specials, const json_t *part)
{
    const json_t *id = json_object_get(part, "id");
    const char *name = json_string_value(id);
    const json_t *list = name ? json_object_get(json_object_getn(specials, name, json_string_length(id)), "ids") : NULL;
    char shown[SAMBA_SHOWN];
    if (!json_is_array(list))
        return samba_reader_fail(a->r, where, "\"special_tokens\" has no ids of \"%.100s\"", samba_shown(name, shown));
    for (size_t i = 0; i < json_array_size(list); i++) {
        int32_t number = 0;
        SAMBA_TRY(read_id(a->r, where, json_array_get(list, i), &number));
        SAMBA_TRY(put(a, number));
    }
    return a->made.count > MOST ? samba_reader_fail(a->r, where, "the template has more than %d tokens", MOST) : SAMBA_OK;
}

/* One of the encodings that there are. */
static samba_status add_encoding(around_reader *a, int64_t which)
{
    for (int64_t i = 0; i < a->rows.count; i++)
        if (a->rows.data[i] == BREAK)
            which--;
        else if (which == 0)
            SAMBA_TRY(put(a, a->rows.data[i]));
    return SAMBA_OK;
}

static samba_status read_template(around_reader *a, const char *where, const json_t *object)
{
    const json_t *specials = json_object_get(object, "special_tokens");
    int count = 1, texts = 0;
    for (int64_t i = 0; i < a->rows.count; i++)
        count += a->rows.data[i] == BREAK;
    if (count > 2)
        return samba_fail(a->r->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: %s: a template behind one of %d pieces is not supported; there are templates for one and for two",
                          a->r->path, where, count);
    const char *name = count == 1 ? "single" : "pair";
    const json_t *list = json_object_get(object, name);
    if (!json_is_array(list))
        return samba_reader_fail(a->r, where, "\"%s\" is no list", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *part = json_array_get(list, i), *special = json_object_get(part, "SpecialToken");
        const char *sequence = json_string_value(json_object_get(json_object_get(part, "Sequence"), "id"));
        const bool first = sequence && strcmp(sequence, "A") == 0, second = sequence && strcmp(sequence, "B") == 0;
        if (i > 0)
            SAMBA_TRY(put(a, BREAK));
        if (special)
            SAMBA_TRY(add_special(a, where, specials, special));
        else if (first || (second && count == 2))
            SAMBA_TRY(add_encoding(a, second));
        else
            return samba_reader_fail(a->r, where, "\"%s\"[%zu] is neither a special token nor the sequence A%s", name, i,
                                     count == 2 ? " or B" : "");
        if (a->made.count > MOST)
            return samba_reader_fail(a->r, where, "the template has more than %d tokens", MOST);
    }
    for (int64_t i = 0; i < a->made.count; i++)
        texts += a->made.data[i] == TEXT;
    if (texts != 1)
        return samba_reader_fail(a->r, where, "\"%s\" has the text %d times; once is what is supported", name, texts);
    return done(a, where);
}

static samba_status read_part(around_reader *a, const char *where, const json_t *object, int depth)
{
    const samba_reader *r = a->r;
    const char *type = json_string_value(json_object_get(object, "type"));
    char shown[SAMBA_SHOWN], place[120];
    if (!type)
        return samba_reader_fail(r, where, "\"type\" is missing");
    snprintf(place, sizeof place, "%.60s %.40s", where, type);
    if (strcmp(type, "ByteLevel") == 0) /* changes offsets alone */
        return SAMBA_OK;
    const bool bert = strcmp(type, "BertProcessing") == 0, roberta = strcmp(type, "RobertaProcessing") == 0;
    const bool template = strcmp(type, "TemplateProcessing") == 0;
    if ((bert || roberta || template) && a->parts++ == SAMBA_MOST_STEPS)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: %s has more than %d parts", r->path, where, SAMBA_MOST_STEPS);
    if (bert || roberta)
        return read_pair(a, place, object, roberta);
    if (template)
        return read_template(a, place, object);
    if (strcmp(type, "Sequence") != 0)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: %s: type \"%.100s\" is not supported", r->path, where,
                          samba_shown(type, shown));
    const json_t *list = json_object_get(object, "processors");
    if (!json_is_array(list) || depth == SAMBA_MOST_STEPS)
        return samba_reader_fail(r, where, "\"processors\" of the Sequence is no list, or nested too deeply");
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(place, sizeof place, "%.80s[%zu]", where, i);
        SAMBA_TRY(read_part(a, place, json_array_get(list, i), depth + 1));
    }
    return SAMBA_OK;
}

/* The ids on one side of the text, from `begin` to `end`. */
static samba_status keep(const samba_reader *r, const samba_ids *rows, int64_t begin, int64_t end, int32_t **kept, int64_t *count)
{
    SAMBA_TRY(SAMBA_ROOM(r->arena, *kept, end - begin + 1));
    for (int64_t i = begin; i < end; i++)
        if (rows->data[i] != BREAK)
            (*kept)[(*count)++] = rows->data[i];
    return SAMBA_OK;
}

static samba_status read_all(around_reader *a, const json_t *component)
{
    samba_around *around = &a->r->tokenizer->around;
    int64_t text = 0;
    SAMBA_TRY(samba_ids_add(a->r->context, &a->rows, TEXT));
    SAMBA_TRY(read_part(a, "post_processor", component, 0));
    while (a->rows.data[text] != TEXT)
        text++;
    SAMBA_TRY(keep(a->r, &a->rows, 0, text, &around->before, &around->before_count));
    return keep(a->r, &a->rows, text + 1, a->rows.count, &around->behind, &around->behind_count);
}

samba_status samba_read_around(const samba_reader *r, const json_t *component)
{
    around_reader a = {.r = r};
    if (!component)
        return SAMBA_OK;
    samba_status status = read_all(&a, component);
    samba_ids_free(r->context, &a.rows);
    samba_ids_free(r->context, &a.made);
    return status;
}
