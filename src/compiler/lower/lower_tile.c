/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups to tile programs: each member becomes a few instructions, each external input a load, each stored member a store or a
 * collect. A value is asked for with an extent and a level (emitter.h); the instructions that bring it there are emitted once and
 * remembered.
 *
 * Integers narrower than 64 bits are computed in 64 and wrapped; bfloat16 and float16 are computed in float32 and rounded where
 * they are cast or stored. */
#include "compiler/lower/emitter.h"

#include <string.h>

typedef struct known { /* a value in a register */
    samba_ref ref;
    samba_extent extent;
    int level;
    int reg;
    int8_t axes[SAMBA_MAX_RANK]; /* of what is read from outside: where its dims lie in the domain; -1: they do not matter */
} known;

typedef struct lowering {
    samba_compiler *compiler;
    const samba_graph *graph;
    const samba_fusion *fusion;
    int32_t index;
    const samba_group *group;
    samba_emitter e;
    known *values; /* members' own registers first found; then loads, spreads, constants */
    int64_t value_count, value_capacity;
} lowering;

static const int8_t nowhere[SAMBA_MAX_RANK] = {-1, -1, -1, -1, -1, -1, -1, -1};

static samba_status remember(lowering *l, samba_ref ref, const int8_t *axes, samba_extent extent, int level, int reg)
{
    SAMBA_TRY(l->e.status);
    l->e.status = SAMBA_GROW(l->compiler->context, l->values, l->value_capacity, l->value_count + 1);
    SAMBA_TRY(l->e.status); /* sticks: `value` can only answer -1 */
    known *k = &l->values[l->value_count++];
    *k = (known){ref, extent, level, reg, {0}};
    memcpy(k->axes, axes, sizeof k->axes);
    return SAMBA_OK;
}

static int recall(const lowering *l, samba_ref ref, const int8_t *axes, samba_extent extent, int level)
{
    for (int64_t i = 0; i < l->value_count; i++) {
        const known *k = &l->values[i];
        if (k->ref == ref && memcmp(k->axes, axes, sizeof k->axes) == 0 &&
            (l->e.registers[k->reg].fixed || (k->extent == extent && k->level == level)))
            return k->reg;
    }
    return -1;
}

/* A member's own register, whatever its level. */
static int member_register(const lowering *l, samba_ref ref)
{
    for (int64_t i = 0; i < l->value_count; i++)
        if (l->values[i].ref == ref)
            return l->values[i].reg;
    return -1;
}

static samba_ref unalias(const lowering *l, samba_ref ref)
{
    while (l->fusion->members[ref].group == l->index && l->fusion->members[ref].role == SAMBA_MEMBER_ALIAS)
        ref = samba_node_at(l->graph, ref)->inputs[0];
    return ref;
}

static bool inside(const lowering *l, samba_ref ref)
{
    return l->fusion->members[ref].group == l->index && l->fusion->members[ref].role != SAMBA_MEMBER_COLLECT;
}

/* Strides of `node`'s elements over the domain, when its dim i lies at domain dim dims[i]. */
static void over_domain(const samba_node *node, const int64_t *node_strides, const int8_t *dims, int64_t *strides)
{
    memset(strides, 0, sizeof(int64_t) * SAMBA_MAX_RANK);
    for (int i = 0; i < node->rank; i++)
        if (node->shape[i] != 1 && dims[i] >= 0)
            strides[dims[i]] = node_strides[i];
}

static void input_dims(const samba_node *input, const samba_node *user, const int8_t *user_dims, int8_t *dims)
{
    memset(dims, -1, SAMBA_MAX_RANK);
    for (int i = 0; i < input->rank; i++)
        dims[i] = user_dims[i + user->rank - input->rank];
}

static int constant(lowering *l, samba_register_class class_, double value)
{
    return samba_emitter_add(&l->e, SAMBA_TILE_constant, class_, SAMBA_FULL, SAMBA_LEVEL_SETUP, -1, -1, -1, -1, value);
}

static int load_external(lowering *l, samba_ref ref, const int8_t *dims, samba_extent extent, int level)
{
    const samba_node *node = samba_node_at(l->graph, ref);
    const samba_access *access = &l->fusion->access[ref];
    int64_t strides[SAMBA_MAX_RANK];
    over_domain(node, access->strides, dims, strides);
    samba_dtype dtype = (samba_dtype)samba_node_at(l->graph, access->base)->dtype; /* which may be narrower (narrow.c) */
    return samba_emitter_load(&l->e, l->compiler->placed.buffer_of[access->base], dtype, access->offset, strides, extent, level);
}

static int draw(lowering *l, const samba_node *node, const int8_t *dims, samba_extent extent, int level)
{
    int seed = load_external(l, node->inputs[0], nowhere, extent, level);
    int64_t own[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
    samba_shape_contiguous_strides(node->rank, node->shape, own);
    over_domain(node, own, dims, strides);
    int operand = samba_emitter_operand(&l->e, -1, SAMBA_FLOAT32, 0, strides);
    return samba_emitter_add(&l->e, SAMBA_TILE_random, SAMBA_F32, extent, level, seed, -1, -1, operand, 0);
}

static int coordinate(lowering *l, const samba_node *node, const int8_t *dims, samba_extent extent, int level)
{
    int at = (int)node->attrs->iota.dim;
    if (node->shape[at] == 1)
        return constant(l, samba_class_of((samba_dtype)node->dtype), 0);
    int reg = samba_emitter_add(&l->e, SAMBA_TILE_iota, SAMBA_I64, extent, level, -1, -1, -1, -1, dims[at]);
    if (samba_class_of((samba_dtype)node->dtype) != SAMBA_I64)
        reg = samba_emitter_add(&l->e, SAMBA_TILE_cast, samba_class_of((samba_dtype)node->dtype), extent, level, reg, -1, -1, -1,
                                0);
    return reg;
}

/* The register that holds input `ref` of a member with `dims`, readable at `level` with `extent`. */
static int value(lowering *l, samba_ref ref, const int8_t *dims, samba_extent extent, int level)
{
    const samba_node *node = samba_node_at(l->graph, ref);
    const samba_node *base = samba_node_at(l->graph, l->fusion->access[ref].base);
    if (inside(l, ref)) {
        samba_ref root = unalias(l, ref);
        int reg = member_register(l, root);
        if (reg < 0)
            return -1;
        const samba_virtual *v = &l->e.registers[reg];
        if (v->fixed || v->extent == extent)
            return reg;
        int spread = recall(l, root, nowhere, SAMBA_FULL, level);
        if (spread < 0) {
            spread = samba_emitter_add(&l->e, SAMBA_TILE_spread, v->class_, SAMBA_FULL, level, reg, -1, -1, -1, 0);
            if (remember(l, root, nowhere, SAMBA_FULL, level, spread) != SAMBA_OK)
                return -1;
        }
        return spread;
    }
    bool unknown = base->op != SAMBA_OP_constant && !samba_is_inline(l->graph, ref);
    int8_t axes[SAMBA_MAX_RANK]; /* a square read by rows and by columns is two values */
    memcpy(axes, nowhere, sizeof axes);
    for (int i = 0; i < node->rank && base->op != SAMBA_OP_constant; i++)
        axes[i] = node->shape[i] != 1 ? dims[i] : -1;
    int reg = recall(l, ref, axes, extent, level);
    if (reg >= 0)
        return reg;
    if (base->op == SAMBA_OP_constant)
        reg = constant(l, samba_class_of((samba_dtype)node->dtype), base->attrs->constant.value);
    else if (unknown)
        reg = load_external(l, ref, dims, extent, level);
    else if (node->op == SAMBA_OP_iota)
        reg = coordinate(l, node, dims, extent, level);
    else
        reg = draw(l, node, dims, extent, level);
    return remember(l, ref, axes, extent, level, reg) == SAMBA_OK ? reg : -1;
}

static int convert(lowering *l, int reg, samba_dtype from, samba_dtype to, samba_extent extent, int level)
{
    samba_register_class a = samba_class_of(from), d = samba_class_of(to);
    if (to == SAMBA_BOOL)
        return from == SAMBA_BOOL ? reg
                                  : samba_emitter_add(&l->e, SAMBA_TILE_not_zero, SAMBA_F32, extent, level, reg, -1, -1, -1, 0);
    if (a != d)
        reg = samba_emitter_add(&l->e, SAMBA_TILE_cast, d, extent, level, reg, -1, -1, -1, 0);
    bool narrower = from != to;
    samba_tile op = to == SAMBA_BFLOAT16  ? SAMBA_TILE_round_bfloat16
                    : to == SAMBA_FLOAT16 ? SAMBA_TILE_round_float16
                    : to == SAMBA_INT32   ? SAMBA_TILE_wrap_int32
                    : to == SAMBA_INT16   ? SAMBA_TILE_wrap_int16
                    : to == SAMBA_INT8    ? SAMBA_TILE_wrap_int8
                    : to == SAMBA_UINT8   ? SAMBA_TILE_wrap_uint8
                                          : SAMBA_TILE_cast;
    return op == SAMBA_TILE_cast || !narrower ? reg : samba_emitter_add(&l->e, op, d, extent, level, reg, -1, -1, -1, 0);
}

/* Arithmetic on a narrow integer leaves its range, on 16-bit floats their digits; bring it back. */
static int wrap(lowering *l, int reg, samba_dtype dtype, samba_extent extent, int level)
{
    if (dtype == SAMBA_BFLOAT16 || dtype == SAMBA_FLOAT16)
        return convert(l, reg, SAMBA_FLOAT32, dtype, extent, level);
    if (samba_class_of(dtype) != SAMBA_I64 || dtype == SAMBA_INT64)
        return reg;
    return convert(l, reg, SAMBA_INT64, dtype, extent, level);
}

/* Does a MAP of 16-bit floats compute such that nothing is left to round? A number drawn at random has all its digits. */
static bool is_exact(const lowering *l, const samba_node *node)
{
    bool exact = samba_ops[node->op].exact && (node->dtype == SAMBA_BFLOAT16 || node->dtype == SAMBA_FLOAT16);
    for (int i = 0; exact && i < node->arity; i++) {
        const samba_node *base = samba_node_at(l->graph, l->fusion->access[node->inputs[i]].base);
        exact = base->op != SAMBA_OP_random &&
                (base->op != SAMBA_OP_constant ||
                 base->attrs->constant.value == samba_dtype_hold((samba_dtype)node->dtype, base->attrs->constant.value) ||
                 base->attrs->constant.value != base->attrs->constant.value);
    }
    return exact;
}

/* A MAP or REDUCE without a tile operator, whose cost is the operator's, does not build. */
enum {
    NEEDS_TILE_LEAF = 0,
    NEEDS_TILE_MAP = 1,
    NEEDS_TILE_REDUCE = 1,
    NEEDS_TILE_VIEW = 0,
    NEEDS_TILE_MOVE = 0,
    NEEDS_TILE_CONTRACT = 0,
    NEEDS_TILE_KERNEL = 0,
    NEEDS_TILE_COMPOSITE = 0
};
#define SAMBA_TILE_NONE SAMBA_TILE_COUNT
#define OP(name, arity, attrs, class_, tile, ...)                                                                                \
    _Static_assert(NEEDS_TILE_##class_ == ((int)SAMBA_TILE_##tile != (int)SAMBA_TILE_COUNT),                                     \
                   "ops.def: operator '" #name "' needs a tile operator as a MAP or REDUCE, or has one as another class");
#include "ops.def"

samba_tile samba_tile_of(samba_op op)
{
    static const samba_tile tiles[SAMBA_OP_COUNT] = {
#define OP(name, arity, attrs, class_, tile, ...) [SAMBA_OP_##name] = SAMBA_TILE_##tile,
#include "ops.def"
#undef SAMBA_TILE_NONE
    };
    return tiles[op];
}

static samba_tile tile_of(const samba_node *node)
{
    samba_tile tile = samba_tile_of((samba_op)node->op);
    if (node->dtype == SAMBA_BOOL && tile == SAMBA_TILE_add) /* on 0 and 1: or, and */
        return SAMBA_TILE_maximum;
    if (node->dtype == SAMBA_BOOL && tile == SAMBA_TILE_mul)
        return SAMBA_TILE_minimum;
    return tile;
}

static int level_for(const lowering *l, const samba_node *node, samba_extent extent)
{
    int level = extent == SAMBA_FULL ? 0 : -1;
    for (int i = 0; i < node->arity; i++) {
        if (!inside(l, node->inputs[i]))
            continue;
        int reg = member_register(l, unalias(l, node->inputs[i]));
        if (reg < 0 || l->e.registers[reg].fixed)
            continue;
        const samba_virtual *v = &l->e.registers[reg];
        int from = v->extent == SAMBA_ROW && extent == SAMBA_FULL ? v->level + 1 : v->level;
        if (from > level)
            level = from;
    }
    return level;
}

static samba_status lower_map(lowering *l, samba_ref ref, samba_extent extent)
{
    const samba_node *node = samba_node_at(l->graph, ref);
    const samba_member *member = &l->fusion->members[ref];
    int level = level_for(l, node, extent), sources[3] = {-1, -1, -1};
    for (int i = 0; i < node->arity; i++) {
        int8_t dims[SAMBA_MAX_RANK];
        input_dims(samba_node_at(l->graph, node->inputs[i]), node, member->dims, dims);
        sources[i] = value(l, node->inputs[i], dims, extent, level);
    }
    SAMBA_TRY(l->e.status);
    int reg;
    if (node->op == SAMBA_OP_cast) {
        reg = convert(l, sources[0], (samba_dtype)samba_node_at(l->graph, node->inputs[0])->dtype, (samba_dtype)node->dtype,
                      extent, level);
        if (reg == sources[0]) { /* nothing to do: the same register under another name */
            const samba_virtual v = l->e.registers[reg];
            return remember(l, ref, nowhere, v.extent, v.level, reg);
        }
    } else {
        reg = samba_emitter_add(&l->e, tile_of(node), samba_class_of((samba_dtype)node->dtype), extent, level, sources[0],
                                sources[1], sources[2], -1, 0);
        if (!is_exact(l, node))
            reg = wrap(l, reg, (samba_dtype)node->dtype, extent, level);
    }
    return remember(l, ref, nowhere, extent, level, reg);
}

static samba_status lower_reduce(lowering *l, samba_ref ref)
{
    const samba_node *node = samba_node_at(l->graph, ref), *source = samba_node_at(l->graph, node->inputs[0]);
    const samba_member *member = &l->fusion->members[ref];
    int8_t dims[SAMBA_MAX_RANK];
    input_dims(source, node, member->dims, dims);
    samba_extent from = SAMBA_FULL;
    if (inside(l, node->inputs[0])) {
        int held = member_register(l, unalias(l, node->inputs[0]));
        if (member->role == SAMBA_MEMBER_COLLECT && held >= 0 && !l->e.registers[held].fixed)
            from = l->e.registers[held].extent;
    }
    int level = level_for(l, node, from);
    int reg = value(l, node->inputs[0], dims, from, level);
    samba_dtype dtype = (samba_dtype)source->dtype, result = (samba_dtype)node->dtype;
    if (samba_widens_integers((samba_op)node->op))
        reg = convert(l, reg, dtype, result, from, level);
    samba_tile tile = tile_of(node);
    if (member->role == SAMBA_MEMBER_ROW) {
        reg = samba_emitter_add(&l->e, tile, samba_class_of(result), SAMBA_ROW, level, reg, -1, -1, -1, 0);
        reg = wrap(l, reg, result, SAMBA_ROW, level + 1);
        return remember(l, ref, nowhere, SAMBA_ROW, level + 1, reg);
    }
    const samba_access *access = &l->fusion->access[ref];
    int64_t strides[SAMBA_MAX_RANK];
    over_domain(node, access->strides, member->dims, strides);
    tile = tile == SAMBA_TILE_sum    ? SAMBA_TILE_collect_sum
           : tile == SAMBA_TILE_prod ? SAMBA_TILE_collect_prod
           : tile == SAMBA_TILE_amax ? SAMBA_TILE_collect_amax
                                     : SAMBA_TILE_collect_amin;
    int operand = samba_emitter_operand(&l->e, l->compiler->placed.buffer_of[ref], result, access->offset, strides);
    samba_emitter_add(&l->e, tile, 0, from, level, reg, -1, -1, operand, 0);
    return l->e.status;
}

/* A collected value goes to one buffer only: other sinks of it copy from there (bufferize.c sees to that through `stored`). */
static samba_status store_member(lowering *l, samba_ref ref, int32_t buffer, const samba_access *access)
{
    const samba_node *node = samba_node_at(l->graph, ref);
    int64_t strides[SAMBA_MAX_RANK];
    over_domain(node, access->strides, l->fusion->members[ref].dims, strides);
    int reg = member_register(l, ref);
    samba_emitter_store(&l->e, reg, buffer, (samba_dtype)node->dtype, access->offset, strides);
    return l->e.status;
}

/* Whether a member behind this one reads what the buffer, a leaf's, held before the stage. */
static bool is_read_behind(const lowering *l, int64_t member, int32_t buffer)
{
    for (int64_t m = member + 1; m < l->group->member_count; m++) {
        const samba_node *node = samba_node_at(l->graph, l->group->members[m]);
        for (int i = 0; i < node->arity; i++) {
            samba_ref base = l->fusion->access[node->inputs[i]].base;
            if (l->compiler->placed.buffer_of[base] == buffer &&
                samba_ops[samba_node_at(l->graph, base)->op].class_ == SAMBA_LEAF)
                return true;
        }
    }
    return false;
}

/* The stores of a member that come at once, or those that wait until all members have read the leaf that they overwrite. */
static samba_status store_wherever(lowering *l, int64_t member, bool late)
{
    samba_ref ref = l->group->members[member];
    if (l->fusion->members[ref].role == SAMBA_MEMBER_COLLECT)
        return SAMBA_OK;
    int32_t first = l->compiler->placed.buffer_of[ref];
    if (l->fusion->members[ref].stored && is_read_behind(l, member, first) == late)
        SAMBA_TRY(store_member(l, ref, first, &l->fusion->access[ref]));
    samba_access whole;
    samba_access_own(l->graph, ref, &whole);
    for (int64_t i = 0; i < l->compiler->placed.extra_store_count; i++) {
        const samba_extra_store *more = &l->compiler->placed.extra_stores[i];
        if (more->value == ref && is_read_behind(l, member, more->buffer) == late)
            SAMBA_TRY(store_member(l, ref, more->buffer, &whole));
    }
    return SAMBA_OK;
}

/* A cast that others read as it lies (narrow.c), and that no member reads either. */
static bool is_unread(const lowering *l, int64_t member)
{
    samba_ref ref = l->group->members[member];
    if (samba_node_at(l->graph, ref)->op != SAMBA_OP_cast || l->fusion->access[ref].base == ref || l->fusion->members[ref].stored)
        return false;
    for (int64_t m = member + 1; m < l->group->member_count; m++) {
        const samba_node *node = samba_node_at(l->graph, l->group->members[m]);
        for (int i = 0; i < node->arity; i++)
            if (unalias(l, node->inputs[i]) == ref)
                return false;
    }
    return true;
}

static samba_status lower_members(lowering *l)
{
    const samba_group *g = l->group;
    for (int64_t m = 0; m < g->member_count; m++) {
        samba_ref ref = g->members[m];
        const samba_node *node = samba_node_at(l->graph, ref);
        samba_op_class class_ = samba_ops[node->op].class_;
        if (is_unread(l, m))
            continue;
        samba_extent extent = l->fusion->members[ref].role == SAMBA_MEMBER_ROW ? SAMBA_ROW : SAMBA_FULL;
        if (class_ == SAMBA_REDUCE_CLASS) {
            SAMBA_TRY(lower_reduce(l, ref));
        } else if (class_ == SAMBA_CONTRACT) {
            int reg = samba_emitter_add(&l->e, SAMBA_TILE_block, samba_class_of((samba_dtype)node->dtype), SAMBA_FULL, 0, -1, -1,
                                        -1, -1, 0);
            SAMBA_TRY(remember(l, ref, nowhere, SAMBA_FULL, 0, wrap(l, reg, (samba_dtype)node->dtype, SAMBA_FULL, 0)));
        } else if (samba_is_inline(l->graph, ref)) {
            int reg = node->op == SAMBA_OP_constant
                          ? constant(l, samba_class_of((samba_dtype)node->dtype), node->attrs->constant.value)
                      : node->op == SAMBA_OP_iota ? coordinate(l, node, l->fusion->members[ref].dims, SAMBA_FULL, 0)
                                                  : draw(l, node, l->fusion->members[ref].dims, SAMBA_FULL, 0);
            SAMBA_TRY(remember(l, ref, nowhere, SAMBA_FULL, 0, reg));
        } else {
            SAMBA_TRY(lower_map(l, ref, extent));
        }
        SAMBA_TRY(store_wherever(l, m, false));
    }
    for (int64_t m = 0; m < g->member_count; m++)
        SAMBA_TRY(store_wherever(l, m, true));
    return l->e.status;
}

samba_status samba_lower_program(samba_compiler *compiler, int32_t group, int plan_rank, const int64_t *plan_shape,
                                 samba_stage *stage)
{
    lowering l = {.compiler = compiler, .graph = compiler->graph, .fusion = &compiler->fusion, .index = group};
    l.group = &compiler->fusion.groups[group];
    samba_emitter_init(&l.e, compiler, l.group->rank, l.group->domain, l.group->cols);
    samba_status status = lower_members(&l);
    if (status == SAMBA_OK)
        samba_emitter_share(&l.e, l.group);
    if (status == SAMBA_OK)
        status = samba_emitter_finish(&l.e, plan_rank, plan_shape, stage);
    for (int64_t m = 0; m < l.group->member_count && status == SAMBA_OK; m++) {
        const samba_node *node = samba_node_at(l.graph, l.group->members[m]), *inputs[3] = {0};
        for (int i = 0; i < node->arity && i < 3; i++)
            inputs[i] = samba_node_at(l.graph, node->inputs[i]);
        stage->flops += samba_ops[node->op].flops(node, inputs);
    }
    samba_free(compiler->context, l.values, sizeof(known) * (size_t)l.value_capacity);
    samba_emitter_free(&l.e);
    return status;
}

/* A stage that does nothing but copy a view or spread a constant. */
samba_status samba_lower_copy(samba_compiler *compiler, const samba_copy *copy)
{
    const samba_graph *graph = compiler->graph;
    const samba_node *node = samba_node_at(graph, copy->value);
    const samba_access *access = &compiler->fusion.access[copy->value];
    const samba_node *base = samba_node_at(graph, access->base);
    samba_dtype dtype = (samba_dtype)node->dtype;
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_stage(compiler, copy->phase, &stage));
    stage->kind = SAMBA_STAGE_TILE;
    SAMBA_TRY(samba_arena_copy(&compiler->plan.arena, base->op == SAMBA_OP_constant ? "fill" : "copy", &stage->name));
    samba_emitter e;
    samba_emitter_init(&e, compiler, node->rank, node->shape, 0);
    int64_t strides[SAMBA_MAX_RANK], own[SAMBA_MAX_RANK];
    for (int i = 0; i < node->rank; i++)
        strides[i] = node->shape[i] == 1 ? 0 : access->strides[i];
    samba_shape_contiguous_strides(node->rank, node->shape, own);
    int reg = base->op == SAMBA_OP_constant ? samba_emitter_add(&e, SAMBA_TILE_constant, samba_class_of(dtype), SAMBA_FULL,
                                                                SAMBA_LEVEL_SETUP, -1, -1, -1, -1, base->attrs->constant.value)
                                            : samba_emitter_load(&e, compiler->placed.buffer_of[access->base], dtype,
                                                                 access->offset, strides, SAMBA_FULL, 0);
    samba_emitter_store(&e, reg, copy->buffer, dtype, 0, own);
    samba_status status = samba_emitter_finish(&e, 0, NULL, stage);
    samba_emitter_free(&e);
    return status;
}
