/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan's beginning and end, and the facts about the format that writer and reader share: names of section types and the
 * signature of the tile operators. */
#include "pef/plan.h"
#include "pef/format.h"

#include <string.h>

const char *const samba_section_type_names[6] = {"ZEROGRAD", "FWD", "BCKWD", "GRADNORM", "REDUCE", "OPT"};

void samba_plan_init(samba_plan *plan, samba_context *context)
{
    memset(plan, 0, sizeof *plan);
    samba_arena_init(&plan->arena, context);
}

void samba_plan_free(samba_plan *plan)
{
    samba_context *context = plan->arena.context;
    samba_arena_free(&plan->arena);
    samba_plan_init(plan, context);
}

uint64_t samba_pef_tile_signature(uint32_t count)
{
    static const char *const rows[] = {
#define TILE(name, form) #name ":" #form,
#include "kernels/tiles.def"
#undef TILE
    };
    uint64_t signature = 0;
    for (uint32_t i = 0; i < count && i < SAMBA_TILE_COUNT; i++)
        signature = samba_hash(rows[i], strlen(rows[i]), signature);
    return signature;
}
