/* SPDX-License-Identifier: Apache-2.0
 *
 * Components of tokenizer.json: an object with a "type", or a Sequence of such, laid flat into a list of steps. A type that is
 * not in the table is refused by its name. */
#include "text/read.h"

samba_status samba_step_add(const samba_reader *r, const char *where, samba_text_steps *steps, samba_text_step step)
{
    if (steps->count == SAMBA_MOST_STEPS)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: %s has more than %d steps", r->path, where, SAMBA_MOST_STEPS);
    steps->steps[steps->count++] = step;
    return SAMBA_OK;
}

static samba_status read_steps(const samba_reader *r, const char *where, const json_t *object, const char *parts,
                               const samba_step_type *types, samba_text_steps *steps, int depth)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    char shown[SAMBA_SHOWN], place[120];
    if (!json_is_object(object))
        return samba_reader_fail(r, where, "it is no object");
    if (!type)
        return samba_reader_fail(r, where, "\"type\" is missing");
    if (strcmp(type, "Sequence") != 0) {
        for (; types->name; types++)
            if (strcmp(types->name, type) == 0) {
                snprintf(place, sizeof place, "%.80s %s", where, type);
                return types->read(r, place, object, steps);
            }
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: %s: type \"%.100s\" is not supported", r->path, where,
                          samba_shown(type, shown));
    }
    const json_t *list = json_object_get(object, parts);
    if (!json_is_array(list))
        return samba_reader_fail(r, where, "\"%s\" of the Sequence is no list", parts);
    if (depth == SAMBA_MOST_STEPS)
        return samba_reader_fail(r, where, "Sequences are nested more than %d deep", depth);
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(place, sizeof place, "%.80s[%zu]", where, i);
        SAMBA_TRY(read_steps(r, place, json_array_get(list, i), parts, types, steps, depth + 1));
    }
    return SAMBA_OK;
}

samba_status samba_read_steps(const samba_reader *r, const char *where, const json_t *object, const char *parts,
                              const samba_step_type *types, samba_text_steps *steps)
{
    return read_steps(r, where, object, parts, types, steps, 0);
}

samba_status samba_read_pattern(const samba_reader *r, const char *where, const json_t *object, samba_text_step *step)
{
    const json_t *pattern = json_object_get(object, "pattern");
    if (json_is_string(pattern)) /* of older files */
        return samba_copy_text(r, pattern, &step->text);
    if (!json_is_object(pattern))
        return samba_reader_fail(r, where, "\"pattern\" is missing");
    if (json_object_get(pattern, "String"))
        return samba_need_text(r, where, pattern, "String", &step->text);
    SAMBA_TRY(samba_need_text(r, where, pattern, "Regex", &step->text));
    if (strlen(step->text.data) != step->text.size)
        return samba_reader_fail(r, where, "the regular expression has a NUL");
    if (step->text.size > 1 << 16)
        return samba_reader_fail(r, where, "the regular expression has %zu bytes; 65536 are the most", step->text.size);
    char place[SAMBA_SHOWN];
    snprintf(place, sizeof place, "%.300s: %.120s", r->path, where);
    return samba_regex_new(r->arena, place, step->text.data, &r->tokenizer->regexes, &step->regex);
}

samba_status samba_read_behavior(const samba_reader *r, const char *where, const json_t *object, samba_behavior *behavior)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    samba_str name = {NULL, 0};
    char shown[SAMBA_SHOWN];
    SAMBA_TRY(samba_read_text(r, where, object, "behavior", &name));
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (name.data && strcmp(names[i], name.data) == 0)
            *behavior = (samba_behavior)i;
        else if (i == SAMBA_COUNT(names) - 1 && name.data && strcmp(names[*behavior], name.data) != 0)
            return samba_reader_fail(r, where,
                                     "\"behavior\" is \"%.60s\", none of Removed, Isolated, MergedWithPrevious, "
                                     "MergedWithNext and Contiguous",
                                     samba_shown(name.data, shown));
    return SAMBA_OK;
}

samba_status samba_read_metaspace(const samba_reader *r, const char *where, const json_t *object, samba_text_step *step)
{
    samba_str scheme = {NULL, 0};
    bool prefix = true;
    char shown[SAMBA_SHOWN];
    step->split = true;
    step->behavior = SAMBA_MERGED_WITH_NEXT;
    SAMBA_TRY(samba_need_char(r, where, object, "replacement", &step->text));
    SAMBA_TRY(samba_read_bool(r, where, object, "add_prefix_space", &prefix));
    SAMBA_TRY(samba_read_bool(r, where, object, "split", &step->split));
    SAMBA_TRY(samba_read_text(r, where, object, "prepend_scheme", &scheme));
    step->prepend = prefix ? SAMBA_ALWAYS : SAMBA_NEVER;
    if (!scheme.data)
        return SAMBA_OK;
    if (strcmp(scheme.data, "always") == 0)
        step->prepend = SAMBA_ALWAYS;
    else if (strcmp(scheme.data, "first") == 0)
        step->prepend = SAMBA_FIRST;
    else if (strcmp(scheme.data, "never") == 0)
        step->prepend = SAMBA_NEVER;
    else
        return samba_reader_fail(r, where, "\"prepend_scheme\" is \"%.60s\", none of always, first and never",
                                 samba_shown(scheme.data, shown));
    return SAMBA_OK;
}
