/* SPDX-License-Identifier: Apache-2.0
 *
 * What checkpoint.json, the index of a folder of weights and PEF.tune share: JSON as a file, checked by a hash of itself. 64-bit
 * numbers are text, since JSON's readers round large ones. */
#ifndef SAMBA_RUNTIME_JSON_H
#define SAMBA_RUNTIME_JSON_H

#include "base/base.h"
#include <jansson.h>

enum { SAMBA_HEX64 = 17 }; /* 16 digits and a NUL */
char *samba_hex64(uint64_t value, char text[SAMBA_HEX64]);
bool samba_hex64_read(const char *text, uint64_t *value); /* false: not 16 such digits; NULL has none */

/* Appends the item to the list, takes both, and gives the list; NULL without memory. */
json_t *samba_json_append(json_t *list, json_t *item);
/* The hash of a value, written compactly with its keys sorted; false without memory. */
bool samba_json_hash(const json_t *value, char text[SAMBA_HEX64]);
/* A JSON object as a file, atomically; takes the object, and NULL counts as no memory. */
samba_status samba_json_write(samba_context *context, const char *path, json_t *object);

#endif
