/* SPDX-License-Identifier: Apache-2.0
 *
 * An assignment takes effect when its phase ends, and what the phase's other sinks take is the leaf's old value. A sink that takes it as it is, or
 * some of it, is no operator that place.c could order before the one that writes: two buffers that change places, an output that is what a buffer
 * was. Such a value becomes one that is computed, by a cast to the dtype that it has.
 *
 * Needs: the final graph (simplify takes such casts away). Gives: sinks without reads of leaves that their phase overwrites. Breaks nothing. */
#include "compiler/compiler.h"

static bool is_overwritten(const samba_graph *g, const samba_access *access, const samba_sink *reader)
{
    samba_ref leaf = access[reader->value].base;
    for (int64_t i = 0; i < g->sink_count; i++) {
        const samba_sink *writer = &g->sinks[i];
        if (writer->kind == SAMBA_SINK_ASSIGN && writer->target == leaf && writer->phase == reader->phase &&
            (writer != reader || !samba_access_is_whole(g, access, reader->value)))
            return true;
    }
    return false;
}

samba_status samba_pass_hold(samba_compiler *c)
{
    samba_graph *g = c->graph; /* adds to it in place: nothing else holds it */
    samba_access *access = samba_arena_alloc(&c->arena, sizeof(samba_access) * ((size_t)g->node_count + 1));
    if (!access)
        return SAMBA_ERROR_MEMORY;
    SAMBA_TRY(samba_access_all(g, access));
    g->place = (samba_place){0};
    for (int64_t i = 0; i < g->sink_count; i++) {
        samba_ref value = g->sinks[i].value;
        if (samba_ops[samba_node_at(g, access[value].base)->op].class_ != SAMBA_LEAF || !is_overwritten(g, access, &g->sinks[i]))
            continue;
        g->phase = g->sinks[i].phase;
        samba_attrs same = {.cast.dtype = samba_node_at(g, value)->dtype};
        samba_ref held = samba_emit(g, SAMBA_OP_cast, 1, &value, &same);
        SAMBA_TRY(g->status);
        g->sinks[i].value = held;
    }
    return SAMBA_OK;
}
