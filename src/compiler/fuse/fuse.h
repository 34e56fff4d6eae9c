/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of fusion: fuse.c (the walk over nodes, the order), depend.c (which group must precede which), join.c (may a
 * node join a group), merge.c (two groups become one), turn.c (a domain's dims in another order), reach.c (sizes, and memory a
 * group can read or write under its domain). */
#ifndef SAMBA_FUSE_H
#define SAMBA_FUSE_H

#include "compiler/compiler.h"

#define SAMBA_GROUP_MEMBER_LIMIT 96 /* bounds registers and operands of a group's program */
/* with fewer rows than this, rows longer than SAMBA_LONG_ROW are collected by all threads instead */
#define SAMBA_FEW_ROWS 4
#define SAMBA_LONG_ROW 4096

typedef struct samba_joining { /* how a node would be a member of a group */
    samba_member_role role;
    int8_t dims[SAMBA_MAX_RANK];
    int cols; /* what the group's cols become */
} samba_joining;

/* ---- reach.c ---- */
/* Needs no memory to be read: an inline leaf, or a view of a constant. */
bool samba_computed_in_place(const samba_fusion *fusion, samba_ref ref);
/* One number for all elements, whatever the shape.
 * Coordinates and random numbers are computed in place too, but by the offsets of elements. */
bool samba_is_constant(const samba_fusion *fusion, samba_ref ref);
/* A value of the group that its other members may read. */
bool samba_is_member(const samba_fusion *fusion, int32_t group, samba_ref ref);
/* Sizes that are not 1, and where they stand; returns how many. */
int samba_dense(int rank, const int64_t *shape, int64_t *sizes, int *where);
/* Do these sizes, those of 1 aside, equal the first domain_rank of the group's domain? dims: where each lies. */
bool samba_group_fits(const samba_group *group, int domain_rank, int rank, const int64_t *shape, int8_t *dims);
/* Can a member with these dims read the input from memory (write its reduction there),
 * if the last `cols` domain dims make a row? */
bool samba_group_readable(const samba_fusion *fusion, const samba_group *group, int cols, samba_ref input, int user_rank,
                          const int8_t *user_dims);
bool samba_group_writable(const samba_group *group, int cols, const samba_node *node, const int8_t *dims);
bool samba_group_writable_at(const samba_group *group, int cols, const samba_node *node, const int8_t *dims,
                             const int64_t *strides);
/* Could a FULL member, whatever it is computed from, be stored as its node lies in memory? Whether it must is known later. */
bool samba_group_storable(const samba_group *group, int cols, const samba_node *node, const int8_t *dims);
bool samba_group_in_reach(const samba_fusion *fusion, int32_t group, int cols); /* of all its members */

/* ---- fuse.c ---- */
int32_t samba_maker(const samba_fusion *fusion, samba_ref ref); /* group that computes what ref is a view of; -1: none */
/* Groups that compute what a group holding `ref` would read from memory (group -1: a new one); at most SAMBA_MAX_ARITY. */
int samba_makers(const samba_fusion *fusion, int32_t group, samba_ref ref, int32_t *makers);

/* ---- depend.c ---- */
samba_status samba_dependences_begin(samba_fusion *fusion, int64_t possible); /* groups there can be */
void samba_dependences_free(samba_fusion *fusion);
int32_t samba_group_now(const samba_fusion *fusion, int32_t group); /* that it was merged into */
/* `group` runs after `on`, which must not be what follows it. */
samba_status samba_group_depend(samba_fusion *fusion, int32_t group, int32_t on);
/* Must `first` run before `second`: at all, or because of a third group that stands between them? */
bool samba_group_precedes(samba_fusion *fusion, int32_t first, int32_t second);
bool samba_group_between(samba_fusion *fusion, int32_t first, int32_t second);
/* `into` takes over the dependences of `from`; no third group stands between them. */
samba_status samba_group_absorb(samba_fusion *fusion, int32_t into, int32_t from);

/* ---- turn.c ---- */
samba_status samba_find_read_back(samba_fusion *fusion);
/* Are the dims that `node` reduces, `dims` in a domain of these sizes, to be the last of it although others are? */
bool samba_is_turned(const samba_fusion *fusion, samba_ref ref, const bool *reduced, int rank, const int64_t *domain);
/* Puts the dims that are reduced last, in a group of nodes up to `last`; to: where each was put. */
void samba_group_turn(samba_fusion *fusion, int32_t group, samba_ref last, const bool *reduced, int8_t to[SAMBA_MAX_RANK]);
void samba_group_turn_back(samba_fusion *fusion, int32_t group, samba_ref last, const int8_t to[SAMBA_MAX_RANK]);

/* ---- join.c ---- */
bool samba_can_join(samba_fusion *fusion, int32_t group, samba_ref ref, samba_joining *how);
/* The role of a member; that of an alias is its source's. */
samba_member_role samba_role_of(const samba_fusion *fusion, samba_ref ref);
/* A reduction of a row's value that a view in the group broadcasts: rare, and better from memory. */
bool samba_reduces_spread(const samba_fusion *fusion, const samba_group *group, const samba_node *node);
/* In-group inputs lie in the domain where broadcasting against the node's own dims puts them. */
bool samba_inputs_aligned(const samba_fusion *fusion, int32_t group, const samba_node *node, const int8_t *dims);
/* The number of trailing dims that are exactly the reduced ones (sizes of 1 aside); 0 when others are. */
int samba_trailing(const samba_group *group, const bool *reduced);

/* ---- merge.c ---- */
/* Node `ref` has just joined a group: merges it with those of its inputs where that is possible. */
samba_status samba_merge_inputs(samba_fusion *fusion, samba_ref ref);

#endif
