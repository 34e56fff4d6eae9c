/* SPDX-License-Identifier: Apache-2.0
 *
 * Dependences of groups (compiler/fuse/depend.c) against what they must be: random groups that depend on each other and are
 * merged, with the whole relation kept in a matrix beside them. */
#include "harness.h"
#include "compiler/fuse/fuse.h"

enum { MOST = 40 };

typedef struct pair { /* the groups, and the relation: before[b][a]: a must run before b */
    samba_fusion fusion;
    int count;
    bool alive[MOST], before[MOST][MOST];
} pair;

static void add_group(pair *p)
{
    samba_fusion *f = &p->fusion;
    need(samba_grow(f->arena.context, (void **)&f->groups, sizeof(samba_group), &f->group_capacity, f->group_count + 1));
    f->groups[f->group_count] = (samba_group){.position = (int32_t)f->group_count, .merged_into = -1, .member_count = 1};
    f->group_count++;
    p->alive[p->count++] = true;
}

static void close_relation(pair *p)
{
    for (int k = 0; k < p->count; k++)
        for (int b = 0; b < p->count; b++)
            for (int a = 0; a < p->count && p->before[b][k]; a++)
                p->before[b][a] = p->before[b][a] || p->before[k][a];
}

static bool between(const pair *p, int first, int second)
{
    for (int k = 0; k < p->count; k++)
        if (p->before[k][first] && p->before[second][k])
            return true;
    return false;
}

static void check(pair *p)
{
    for (int a = 0; a < p->count; a++)
        for (int b = 0; b < p->count; b++) {
            if (!p->alive[a] || !p->alive[b] || a == b)
                continue;
            assert_int_equal(samba_group_precedes(&p->fusion, a, b), p->before[b][a]);
            assert_int_equal(samba_group_between(&p->fusion, a, b), between(p, a, b));
            assert_int_not_equal(p->fusion.groups[a].position, p->fusion.groups[b].position);
            if (p->before[b][a])
                assert_true(p->fusion.groups[a].position < p->fusion.groups[b].position);
        }
}

static void merge(pair *p, int into, int from)
{
    need(samba_group_absorb(&p->fusion, into, from));
    p->fusion.groups[from].member_count = 0;
    p->alive[from] = false;
    for (int k = 0; k < p->count; k++) {
        p->before[k][into] |= p->before[k][from];
        p->before[into][k] |= p->before[from][k];
        p->before[k][from] = p->before[from][k] = false;
    }
    p->before[into][into] = false;
    close_relation(p);
    assert_int_equal(samba_group_now(&p->fusion, from), into);
}

static void check_schedule(pair *p)
{
    samba_ref members[MOST];
    for (int i = 0; i < p->count; i++) {
        members[i] = (samba_ref)draw_below(1000) * MOST + (samba_ref)i;
        p->fusion.groups[i].members = &members[i];
    }
    need(samba_fusion_schedule(&p->fusion));
    int turn[MOST], live = 0;
    for (int i = 0; i < p->count; i++)
        live += p->alive[i];
    assert_int_equal(p->fusion.order_count, live);
    for (int i = 0; i < live; i++)
        turn[p->fusion.order[i]] = i;
    for (int i = 0; i < live; i++) {
        int now = p->fusion.order[i];
        for (int k = 0; k < p->count; k++) /* whoever comes later waits for something, or its first member is a later one */
            if (p->alive[k] && turn[k] > i && members[k] < members[now]) {
                bool waits = false;
                for (int a = 0; a < p->count; a++)
                    waits = waits || (p->before[k][a] && turn[a] >= i);
                assert_true(waits);
            }
        for (int a = 0; a < p->count; a++)
            assert_true(!p->before[now][a] || turn[a] < i);
    }
    for (int i = 0; i < p->count; i++)
        p->fusion.groups[i].members = NULL;
}

TEST(test_random)
{
    seed_anew();
    for (int round = 0; round < 300; round++) {
        pair p = {.count = 0};
        samba_arena_init(&p.fusion.arena, context);
        need(samba_dependences_begin(&p.fusion, MOST));
        int most = 2 + draw_below(MOST - 1);
        for (int step = 0; step < 400; step++) {
            int a = p.count ? draw_below(p.count) : 0, b = p.count ? draw_below(p.count) : 0, what = draw_below(10);
            bool two = a != b && p.alive[a] && p.alive[b];
            if (p.count < 2 || (what < 2 && p.count < most)) {
                add_group(&p);
            } else if (two && what < 9 && !p.before[a][b]) {
                need(samba_group_depend(&p.fusion, b, a));
                p.before[b][a] = true;
                close_relation(&p);
            } else if (two && what == 9 && !between(&p, a, b) && !between(&p, b, a)) {
                merge(&p, a, b);
            }
        }
        check(&p);
        check_schedule(&p);
        samba_fusion_free(&p.fusion);
    }
}

TEST_MAIN(test_random)
