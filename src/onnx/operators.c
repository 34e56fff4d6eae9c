/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operators, operators.def, and looking up in it. */
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

#define ROW(name, since, function) void samba_onnx_##function(samba_onnx_node *);
#define REFUSED(name, since, reason)
#define DOMAIN(name)
#include "onnx/operators.def"
#undef ROW
#undef REFUSED
#undef DOMAIN

/* Of one name, rows of later versions stand behind those of earlier ones. A row that names no operator begins a domain. */
const samba_onnx_operator samba_onnx_operators[] = {
#define DOMAIN(name) {name, NULL, 0, NULL, NULL},
#define ROW(name, since, function) {NULL, #name, since, samba_onnx_##function, NULL},
#define REFUSED(name, since, reason) {NULL, #name, since, NULL, reason},
#include "onnx/operators.def"
};
const int samba_onnx_operator_count = SAMBA_COUNT(samba_onnx_operators);

const samba_onnx_operator *samba_onnx_operator_find(const char *domain, const char *name, int64_t version)
{
    const samba_onnx_operator *found = NULL;
    bool here = false;
    if (!domain || strcmp(domain, "ai.onnx") == 0)
        domain = "";
    for (int i = 0; i < samba_onnx_operator_count; i++) {
        const samba_onnx_operator *row = &samba_onnx_operators[i];
        if (!row->name)
            here = strcmp(row->domain, domain) == 0;
        else if (here && row->since <= version && strcmp(row->name, name) == 0)
            found = row;
    }
    return found;
}
