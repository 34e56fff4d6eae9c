/* SPDX-License-Identifier: Apache-2.0
 *
 * A file's JSON. Vocabularies have tokens with a NUL. Jansson's objects can have such keys, but its parser refuses them. Such a
 * text is parsed once more, with another character for each NUL of a key, one that the text does not have, and the keys then get
 * their NULs back. The characters are those from U+FDD0 to U+FDEF, which Unicode leaves to uses like this one. */
#include "text/read.h"

enum { STAND_INS = 32 };

typedef struct renamer { /* of keys */
    samba_context *context;
    char mark[3]; /* the stand-in as UTF-8 */
} renamer;

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Which of the stand-ins the text has nowhere, as bytes or as an escape; -1: it has all. */
static int find_unused(const char *text, size_t size)
{
    bool used[STAND_INS] = {false};
    for (size_t i = 0; i + 3 <= size; i++)
        if ((uint8_t)text[i] == 0xef && (uint8_t)text[i + 1] == 0xb7 && (uint8_t)text[i + 2] >= 0x90 &&
            (uint8_t)text[i + 2] < 0x90 + STAND_INS)
            used[(uint8_t)text[i + 2] - 0x90] = true;
    for (size_t i = 0; i + 5 <= size; i++)
        if (text[i] == 'u' && (text[i + 1] | 32) == 'f' && (text[i + 2] | 32) == 'd') {
            const int high = digit(text[i + 3]), low = digit(text[i + 4]);
            if ((high == 0xd || high == 0xe) && low >= 0)
                used[(high - 0xd) * 16 + low] = true;
        }
    for (int i = 0; i < STAND_INS; i++)
        if (!used[i])
            return i;
    return -1;
}

/* The stand-in for each NUL of a key, which is a text with a colon behind it. */
static void put_stand_in(char *text, size_t size, int which)
{
    char escape[8];
    snprintf(escape, sizeof escape, "\\ufd%x%x", 0xdu + ((unsigned)which >> 4), (unsigned)which & 15);
    for (size_t at = 0; at < size; at++) {
        const size_t begin = at + 1;
        if (text[at] != '"')
            continue;
        for (at = begin; at < size && text[at] != '"'; at++)
            at += text[at] == '\\';
        size_t next = at + 1;
        while (next < size && is_space(text[next]))
            next++;
        if (next >= size || text[next] != ':')
            continue;
        for (size_t i = begin; i + 6 <= at; i++)
            if (text[i] == '\\') {
                if (memcmp(text + i, "\\u0000", 6) == 0)
                    memcpy(text + i, escape, 6);
                i++;
            }
    }
}

static json_t *renamed(renamer *r, json_t *value);

static int put_renamed(renamer *r, json_t *object, const char *key, size_t size, json_t *value)
{
    char *name = samba_alloc(r->context, size + 1);
    size_t length = 0;
    if (!name)
        return -1;
    for (size_t at = 0; at < size; at++) {
        const bool stands_in = size - at >= sizeof r->mark && memcmp(key + at, r->mark, sizeof r->mark) == 0;
        name[length++] = stands_in ? '\0' : key[at];
        at += stands_in ? sizeof r->mark - 1 : 0;
    }
    const int failed = json_object_setn_new_nocheck(object, name, length, renamed(r, json_incref(value)));
    samba_free(r->context, name, size + 1);
    return failed;
}

/* Takes a value and gives one whose objects have their keys back; NULL: no memory. */
static json_t *renamed(renamer *r, json_t *value)
{
    int failed = 0;
    json_t *child, *made = NULL;
    const char *key;
    size_t i, size;
    if (json_is_array(value)) {
        json_array_foreach(value, i, child) failed |= json_array_set_new(value, i, renamed(r, json_incref(child)));
        made = failed ? NULL : json_incref(value);
    } else if (json_is_object(value)) {
        made = json_object();
        failed = made == NULL;
        if (made)
            json_object_keylen_foreach(value, key, size, child) failed |= put_renamed(r, made, key, size, child);
        if (failed) {
            json_decref(made);
            made = NULL;
        }
    } else
        made = json_incref(value);
    json_decref(value);
    return made;
}

/* NULL: no memory, or an error of the text. */
static json_t *parse_with_nul_keys(samba_context *context, const char *data, size_t size, int which, json_error_t *error)
{
    renamer r = {.context = context, .mark = {(char)0xef, (char)0xb7, (char)(0x90 + which)}};
    char *copy = samba_alloc(context, size);
    if (!copy)
        return NULL;
    memcpy(copy, data, size);
    put_stand_in(copy, size, which);
    json_t *json = json_loadb(copy, size, JSON_ALLOW_NUL, error);
    samba_free(context, copy, size);
    return json ? renamed(&r, json) : NULL;
}

samba_status samba_json_parse(samba_context *context, const char *path, const void *data, size_t size, json_t **json)
{
    json_error_t error;
    char shown[SAMBA_SHOWN];
    *json = NULL;
    if (size > (size_t)1 << 30)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED, "%s has %zu bytes; 1 GiB is the most for JSON", path, size);
    *json = json_loadb(data, size, JSON_ALLOW_NUL, &error);
    const bool has_nul_keys = !*json && json_error_code(&error) == json_error_null_byte_in_key;
    const int which = has_nul_keys ? find_unused(data, size) : -1;
    if (which >= 0) {
        memset(&error, 0, sizeof error);
        *json = parse_with_nul_keys(context, data, size, which, &error);
    }
    if (!*json && (json_error_code(&error) == json_error_out_of_memory || (which >= 0 && !error.text[0])))
        return samba_fail(context, SAMBA_ERROR_MEMORY, "%s: no memory for its JSON", path);
    if (!*json)
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: line %d, column %d: this is no JSON: %.200s", path, error.line,
                          error.column, samba_shown(error.text, shown));
    if (!json_is_object(*json)) {
        json_decref(*json);
        *json = NULL;
        return samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the file is no JSON object", path);
    }
    return SAMBA_OK;
}
