/* SPDX-License-Identifier: Apache-2.0
 *
 * See json.h. */
#include "runtime/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

char *samba_hex64(uint64_t value, char text[SAMBA_HEX64])
{
    snprintf(text, SAMBA_HEX64, "%016" PRIx64, value);
    return text;
}

bool samba_hex64_read(const char *text, uint64_t *value)
{
    if (!text || strlen(text) != SAMBA_HEX64 - 1 || strspn(text, "0123456789abcdef") != SAMBA_HEX64 - 1)
        return false;
    *value = strtoull(text, NULL, 16);
    return true;
}

json_t *samba_json_append(json_t *list, json_t *item)
{
    if (json_array_append_new(list, item) == 0)
        return list;
    json_decref(list);
    return NULL;
}

bool samba_json_hash(const json_t *value, char text[SAMBA_HEX64])
{
    char *dump = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    if (dump)
        samba_hex64(samba_hash(dump, strlen(dump), 0), text);
    free(dump);
    return dump != NULL;
}

samba_status samba_json_write(samba_context *context, const char *path, json_t *object)
{
    char *dump = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
    json_decref(object);
    if (!dump)
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory to write \"%s\"", path);
    const void *const parts[] = {dump, "\n"};
    const size_t sizes[] = {strlen(dump), 1};
    samba_status status = samba_file_write_atomic(context, path, parts, sizes, 2);
    free(dump);
    return status;
}
