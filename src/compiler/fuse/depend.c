/* SPDX-License-Identifier: Apache-2.0
 *
 * Which group must run before which, while groups are still being formed. Every group has a position in one topological order.
 * Positions change only where a new dependence contradicts them, within the stretch between the two groups (Pearce and Kelly, "A
 * dynamic topological sort algorithm for directed acyclic graphs"). Whether one group must precede another is a search along
 * dependences between their positions. For neighbours in a model that is short, however large the model is.
 *
 * Lists hold groups as they were named when the dependence was made; a group that was merged since is replaced by the group that
 * took it. */
#include "compiler/fuse/fuse.h"

#include <stdlib.h>

int32_t samba_group_now(const samba_fusion *f, int32_t group)
{
    while (f->groups[group].merged_into >= 0)
        group = f->groups[group].merged_into;
    return group;
}

samba_status samba_dependences_begin(samba_fusion *f, int64_t possible)
{
    return SAMBA_ROOM(&f->arena, f->pending, 2 * (possible + 1));
}

static samba_status list_add(samba_fusion *f, samba_group_list *list, int32_t group)
{
    SAMBA_TRY(SAMBA_GROW(f->arena.context, list->at, list->capacity, list->count + 1));
    list->at[list->count++] = group;
    return SAMBA_OK;
}

/* All that must precede `start` (or follow it) and stands between the positions low and high, both left out; `skipped` is no step
 * from `start` itself. Returns how many. */
static int64_t collect(samba_fusion *f, int32_t start, bool forward, int32_t low, int32_t high, int32_t skipped, int32_t *found)
{
    int64_t count = 0;
    int32_t from = start;
    f->stamp++;
    for (int64_t at = 0;; from = found[at++]) {
        const samba_group_list *list = forward ? &f->groups[from].after : &f->groups[from].before;
        for (int64_t i = 0; i < list->count; i++) {
            int32_t next = samba_group_now(f, list->at[i]);
            samba_group *g = &f->groups[next];
            if (g->stamp == f->stamp || g->position <= low || g->position >= high || (from == start && next == skipped))
                continue;
            g->stamp = f->stamp;
            found[count++] = next;
        }
        if (at == count)
            return count;
    }
}

/* Is there a dependence of `second` on `first`: direct, or only through others? */
static bool precedes(samba_fusion *f, int32_t first, int32_t second, bool direct)
{
    int32_t low = f->groups[first].position, high = f->groups[second].position;
    return low < high && collect(f, second, false, low - 1, high, direct ? -1 : first, f->pending) > 0 &&
           f->groups[first].stamp == f->stamp;
}

bool samba_group_precedes(samba_fusion *f, int32_t first, int32_t second) { return precedes(f, first, second, true); }
bool samba_group_between(samba_fusion *f, int32_t first, int32_t second) { return precedes(f, first, second, false); }

/* ---- the order ---- */
static int by_value(const void *a, const void *b)
{
    return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b);
}

/* Groups[0 .. before-1], then the others, each part in the order it has, onto the positions that they have together. */
static samba_status rearrange(samba_fusion *f, const int32_t *groups, int64_t before, int64_t count)
{
    /* sorted: position, group */
    int64_t *sorted = samba_alloc(f->arena.context, 2 * sizeof *sorted * (size_t)count), *positions = sorted + count;
    if (!sorted)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        positions[i] = f->groups[groups[i]].position;
        sorted[i] = positions[i] << 32 | groups[i];
    }
    qsort(sorted, (size_t)before, sizeof *sorted, by_value);
    qsort(sorted + before, (size_t)(count - before), sizeof *sorted, by_value);
    qsort(positions, (size_t)count, sizeof *positions, by_value);
    for (int64_t i = 0; i < count; i++)
        f->groups[(int32_t)sorted[i]].position = (int32_t)positions[i];
    samba_free(f->arena.context, sorted, 2 * sizeof *sorted * (size_t)count);
    return SAMBA_OK;
}

samba_status samba_group_depend(samba_fusion *f, int32_t group, int32_t on)
{
    samba_group *g = &f->groups[group], *o = &f->groups[on];
    if (g->position < o->position) {
        int32_t low = g->position, high = o->position, *found = f->pending;
        int64_t count = collect(f, on, false, low, high, -1, found);
        found[count++] = on;
        int64_t before = count;
        found[count++] = group;
        count += collect(f, group, true, low, high, -1, found + count);
        SAMBA_TRY(rearrange(f, found, before, count));
    }
    SAMBA_TRY(list_add(f, &g->before, on));
    samba_status status = list_add(f, &o->after, group);
    if (status != SAMBA_OK)
        g->before.count--;
    return status;
}

/* Groups that must precede the later of the two move before both; groups that must follow the earlier move behind them. */
samba_status samba_group_absorb(samba_fusion *f, int32_t into, int32_t from)
{
    samba_group *a = &f->groups[into], *b = &f->groups[from];
    bool first = a->position < b->position;
    int32_t early = first ? into : from, late = first ? from : into, *found = f->pending;
    int32_t low = f->groups[early].position, high = f->groups[late].position;
    int64_t before = collect(f, late, false, low, high, -1, found), count = before;
    found[count++] = into;
    count += collect(f, early, true, low, high, -1, found + count);
    a->position = low; /* first of the second part */
    SAMBA_TRY(rearrange(f, found, before, count));
    for (int64_t i = 0; i < b->before.count; i++)
        SAMBA_TRY(list_add(f, &a->before, b->before.at[i]));
    for (int64_t i = 0; i < b->after.count; i++)
        SAMBA_TRY(list_add(f, &a->after, b->after.at[i]));
    b->merged_into = into;
    return SAMBA_OK;
}

void samba_dependences_free(samba_fusion *f)
{
    for (int64_t i = 0; i < f->group_count; i++) {
        samba_group_list *lists[] = {&f->groups[i].before, &f->groups[i].after};
        for (int k = 0; k < 2; k++)
            samba_free(f->arena.context, lists[k]->at, sizeof(int32_t) * (size_t)lists[k]->capacity);
    }
}
