/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts that the writer and the reader of a PEF share. */
#include "pef/format.h"

#include <string.h>

uint64_t samba_pef_tile_signature(uint32_t count)
{
    static const char *const rows[] = {
#define TILE(name, form, cost) #name ":" #form,
#include "plan/tiles.def"
#undef TILE
    };
    uint64_t signature = 0;
    for (uint32_t i = 0; i < count && i < SAMBA_TILE_COUNT; i++)
        signature = samba_hash(rows[i], strlen(rows[i]), signature);
    return signature;
}
