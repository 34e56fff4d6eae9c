/* SPDX-License-Identifier: Apache-2.0
 *
 * From drafts over virtual registers to a stage's program: collapse the domain, sort by level, decide which registers are memory
 * itself (direct), which live across steps (wide), and share the rest by a linear scan. */
#include "compiler/lower/emitter.h"

#include <string.h>

void samba_emitter_init(samba_emitter *e, samba_compiler *compiler, int rank, const int64_t *domain, int cols)
{
    *e = (samba_emitter){.compiler = compiler, .rank = rank, .cols = cols};
    samba_arena_init(&e->arena, compiler->context);
    memcpy(e->domain, domain, sizeof(int64_t) * (size_t)rank);
}

void samba_emitter_free(samba_emitter *e)
{
    samba_context *context = e->compiler->context;
    samba_free(context, e->registers, sizeof(samba_virtual) * (size_t)e->register_capacity);
    samba_free(context, e->drafts, sizeof(samba_draft) * (size_t)e->draft_capacity);
    samba_free(context, e->operands, sizeof(samba_operand) * (size_t)e->operand_capacity);
    samba_arena_free(&e->arena);
}

int samba_emitter_operand(samba_emitter *e, int32_t buffer, samba_dtype dtype, int64_t offset, const int64_t *strides)
{
    samba_operand operand = {.buffer = buffer, .dtype = (int32_t)dtype, .offset = offset};
    memcpy(operand.strides, strides, sizeof(int64_t) * (size_t)e->rank);
    if (e->status == SAMBA_OK)
        e->status = SAMBA_GROW(e->compiler->context, e->operands, e->operand_capacity, e->operand_count + 1);
    if (e->status != SAMBA_OK)
        return -1;
    e->operands[e->operand_count] = operand;
    return (int)e->operand_count++;
}

int samba_emitter_add(samba_emitter *e, samba_tile op, samba_register_class class_, samba_extent extent, int level, int a, int b,
                      int c, int operand, double immediate)
{
    samba_context *context = e->compiler->context;
    samba_tile_form form = samba_tile_table[op].form;
    bool result = form != SAMBA_FORM_STORE && form != SAMBA_FORM_COLLECT;
    if (e->status == SAMBA_OK)
        e->status = SAMBA_GROW(context, e->drafts, e->draft_capacity, e->draft_count + 1);
    if (e->status == SAMBA_OK && result)
        e->status = SAMBA_GROW(context, e->registers, e->register_capacity, e->register_count + 1);
    if (e->status != SAMBA_OK)
        return -1;
    int d = -1;
    if (result) {
        d = (int)e->register_count++;
        int from = form == SAMBA_FORM_REDUCE ? level + 1 : level;
        e->registers[d] = (samba_virtual){class_, extent, from, level == SAMBA_LEVEL_SETUP};
    }
    e->drafts[e->draft_count++] = (samba_draft){op, d, a, b, c, operand, level, immediate};
    return d;
}

/* Strides that stay 0 however the domain is viewed, an empty one too, for which views have strides of their own. */
static bool same_everywhere(const samba_emitter *e, const int64_t *strides)
{
    bool same = true;
    for (int i = 0; i < e->rank; i++)
        same = same && strides[i] == 0;
    return same;
}

int samba_emitter_load(samba_emitter *e, int32_t buffer, samba_dtype dtype, int64_t offset, const int64_t *strides,
                       samba_extent extent, int level)
{
    int operand = samba_emitter_operand(e, buffer, dtype, offset, strides);
    return samba_emitter_add(e, SAMBA_TILE_load, samba_class_of(dtype), extent,
                             same_everywhere(e, strides) ? SAMBA_LEVEL_SETUP : level, -1, -1, -1, operand, 0);
}

void samba_emitter_store(samba_emitter *e, int reg, int32_t buffer, samba_dtype dtype, int64_t offset, const int64_t *strides)
{
    if (reg < 0 || e->status != SAMBA_OK)
        return;
    int operand = samba_emitter_operand(e, buffer, dtype, offset, strides);
    int level = e->registers[reg].fixed ? 0 : e->registers[reg].level;
    samba_emitter_add(e, SAMBA_TILE_store, 0, e->registers[reg].extent, level, reg, -1, -1, operand, 0);
}

/* ---- the domain ---- */

/* IOTA's dim as strides, so that collapsing sees it like any operand. */
static void iota_strides(const samba_emitter *e, const samba_draft *draft, int64_t *strides)
{
    memset(strides, 0, sizeof(int64_t) * SAMBA_MAX_RANK);
    if ((int)draft->immediate < e->rank)
        strides[(int)draft->immediate] = 1;
}

static bool mergeable(const samba_emitter *e, int i, int j) /* j: the next dim inwards that is not 1 */
{
    for (int64_t o = 0; o < e->operand_count; o++)
        if (e->operands[o].strides[i] != e->operands[o].strides[j] * e->domain[j])
            return false;
    for (int64_t d = 0; d < e->draft_count; d++)
        if (e->drafts[d].op == SAMBA_TILE_iota && ((int)e->drafts[d].immediate == i || (int)e->drafts[d].immediate == j))
            return false;
    return true;
}

static int64_t filled(int64_t size) { return size ? size : 2; } /* of an empty domain: what strides are seen by */

/* Beside a size of 0 others may be as large as they like: what does not fit any more fits no strides. */
static int64_t times_filled(int64_t product, int64_t size) { return (int64_t)((uint64_t)product * (uint64_t)filled(size)); }

/* Groups the domain's dims into plan dims: shape of each, and the same where no size is 0. With row reductions the last plan dim
 * is exactly the reduced ones. */
static int collapse(const samba_emitter *e, int64_t *shape, int64_t *filled_shape)
{
    int64_t reversed[SAMBA_MAX_RANK], full[SAMBA_MAX_RANK];
    int count = 0, inner = -1, row_dims = e->rank - e->cols;
    if (e->cols > 0) {
        reversed[count] = full[count] = 1;
        for (int i = e->rank - 1; i >= row_dims; i--) {
            reversed[count] *= e->domain[i];
            full[count] = times_filled(full[count], e->domain[i]);
        }
        count = 1;
    }
    for (int i = row_dims - 1; i >= 0; i--) {
        if (e->domain[i] == 1)
            continue;
        if (inner < 0 || !mergeable(e, i, inner))
            reversed[count] = full[count] = 1, count++;
        reversed[count - 1] *= e->domain[i];
        full[count - 1] = times_filled(full[count - 1], e->domain[i]);
        inner = i;
    }
    if (count == 0)
        reversed[count] = full[count] = 1, count++;
    for (int i = 0; i < count; i++) {
        shape[i] = reversed[count - 1 - i];
        filled_shape[i] = full[count - 1 - i];
    }
    return count;
}

/* The strides in the plan's shape. Of an empty domain they would say nothing, and a result that is not empty, a sum over no rows,
 * would lose its stride: so a size of 0 counts as 2 there. Where the plan's shape is given, its first 0 makes up for what it
 * merges. */
static bool plan_strides(const samba_emitter *e, const int64_t *strides, int plan_rank, const int64_t *plan_shape,
                         const int64_t *filled_shape, int64_t *viewed)
{
    int64_t domain[SAMBA_MAX_RANK], shape[SAMBA_MAX_RANK], total, rest;
    int open = -1;
    for (int i = 0; i < e->rank; i++)
        domain[i] = filled(e->domain[i]);
    if (filled_shape && samba_shape_view_strides(e->rank, domain, strides, plan_rank, filled_shape, viewed))
        return true;
    for (int i = plan_rank - 1; i >= 0; i--) {
        shape[i] = filled(plan_shape[i]);
        open = plan_shape[i] ? open : i;
    }
    if (open >= 0) {
        shape[open] = 1;
        if (samba_shape_numel(e->rank, domain, &total) && samba_shape_numel(plan_rank, shape, &rest) && total % rest == 0) {
            shape[open] = total / rest;
            if (samba_shape_view_strides(e->rank, domain, strides, plan_rank, shape, viewed))
                return true;
        }
    }
    return samba_shape_view_strides(e->rank, e->domain, strides, plan_rank, plan_shape, viewed);
}

/* `filled_shape` NULL: not known. */
static samba_status view_operands(samba_emitter *e, int plan_rank, const int64_t *plan_shape, const int64_t *filled_shape)
{
    samba_context *context = e->compiler->context;
    int64_t strides[SAMBA_MAX_RANK] = {0};
    for (int64_t o = 0; o < e->operand_count; o++) {
        memset(strides, 0, sizeof strides);
        if (!same_everywhere(e, e->operands[o].strides) &&
            !plan_strides(e, e->operands[o].strides, plan_rank, plan_shape, filled_shape, strides))
            return samba_fail(context, SAMBA_ERROR_INTERNAL, "lowering: an operand's strides do not fit its stage's domain");
        for (int i = 0; i < SAMBA_MAX_RANK; i++)
            e->operands[o].strides[i] = i < plan_rank && plan_shape[i] != 1 ? strides[i] : 0;
    }
    for (int64_t d = 0; d < e->draft_count; d++) {
        if (e->drafts[d].op != SAMBA_TILE_iota)
            continue;
        int64_t unit[SAMBA_MAX_RANK];
        iota_strides(e, &e->drafts[d], unit);
        int at = plan_rank - 1, ones = 0;
        if (!samba_shape_view_strides(e->rank, e->domain, unit, plan_rank, plan_shape, strides))
            return samba_fail(context, SAMBA_ERROR_INTERNAL, "lowering: a coordinate's dim is not a dim of its stage");
        for (int i = 0; i < plan_rank; i++)
            if (plan_shape[i] != 1 && strides[i] != 0) {
                at = i;
                ones++;
            }
        int64_t numel = 0; /* of an empty domain there are no coordinates: any dim will do */
        if (ones > 1 && samba_shape_numel(plan_rank, plan_shape, &numel) && numel > 0)
            return samba_fail(context, SAMBA_ERROR_INTERNAL, "lowering: a coordinate's dim is split by its stage");
        e->drafts[d].immediate = at;
    }
    return SAMBA_OK;
}

/* ---- registers ---- */
typedef struct allocation {
    samba_emitter *e;
    int *order;    /* drafts by level */
    int *defined;  /* per virtual register: position of its instruction */
    int *last;     /* position of the last that reads it */
    int *physical; /* per virtual register */
    bool *wide;
    int16_t *direct;
    int count, rank; /* of drafts; of the stage */
    int64_t cols;    /* of the stage */
} allocation;

static bool natural(samba_register_class class_, int32_t dtype)
{
    return (class_ == SAMBA_F32 && dtype == SAMBA_FLOAT32) || (class_ == SAMBA_F64 && dtype == SAMBA_FLOAT64) ||
           (class_ == SAMBA_I64 && dtype == SAMBA_INT64);
}

/* Memory may stand for a register where no other access to that memory comes between. */
static void choose_direct(allocation *a)
{
    samba_emitter *e = a->e;
    for (int p = 0; p < a->count; p++) { /* stores: the result is computed in place */
        const samba_draft *s = &e->drafts[a->order[p]];
        if (s->op != SAMBA_TILE_store)
            continue;
        int r = s->a, from = a->defined[r];
        samba_tile_form maker = samba_tile_table[e->drafts[a->order[from]].op].form;
        const samba_operand *to = &e->operands[s->operand];
        bool fine = e->registers[r].extent == SAMBA_FULL && a->direct[r] < 0 && !a->wide[r] && !e->registers[r].fixed &&
                    natural(e->registers[r].class_, to->dtype) && maker != SAMBA_FORM_LOAD && maker != SAMBA_FORM_BLOCK &&
                    maker != SAMBA_FORM_REDUCE && maker != SAMBA_FORM_SPREAD;
        for (int q = from; q < a->count && fine; q++) {
            const samba_draft *l = &e->drafts[a->order[q]];
            fine = !(l->op == SAMBA_TILE_load && e->operands[l->operand].buffer == to->buffer) &&
                   !(l->op == SAMBA_TILE_store && l != s && e->operands[l->operand].buffer == to->buffer);
        }
        if (fine)
            a->direct[r] = (int16_t)s->operand;
    }
    for (int p = 0; p < a->count; p++) { /* loads: memory is read where it lies */
        const samba_draft *l = &e->drafts[a->order[p]];
        if (l->op != SAMBA_TILE_load || e->registers[l->d].fixed || a->wide[l->d] ||
            !natural(e->registers[l->d].class_, e->operands[l->operand].dtype))
            continue;
        bool fine = true;
        for (int q = 0; q < a->count && fine; q++) {
            const samba_draft *s = &e->drafts[a->order[q]];
            if (s->op != SAMBA_TILE_store || e->operands[s->operand].buffer != e->operands[l->operand].buffer)
                continue;
            int written = a->direct[s->a] == s->operand ? a->defined[s->a] : q;
            fine = written >= a->last[l->d];
        }
        if (fine)
            a->direct[l->d] = (int16_t)l->operand;
    }
}

/* A value a row: whoever reads it may do so later than here, when instructions are combined at load, so its register stays its
 * own. */
static bool repeats_in_rows(const allocation *a, const samba_draft *draft)
{
    return draft->op == SAMBA_TILE_load && a->cols > 1 && a->e->operands[draft->operand].strides[a->rank - 1] == 0;
}

static samba_status allocate(allocation *a, samba_program *program, samba_arena *arena)
{
    samba_emitter *e = a->e;
    int *free_after; /* per physical; -1: never again */
    SAMBA_TRY(SAMBA_ROOM(arena, program->registers, e->register_count + 1));
    SAMBA_TRY(SAMBA_ROOM(&e->arena, free_after, e->register_count + 1));
    for (int p = 0; p < a->count; p++) {
        const samba_draft *draft = &e->drafts[a->order[p]];
        if (draft->d < 0)
            continue;
        const samba_virtual *v = &e->registers[draft->d];
        /* a register that may be memory itself, a block or an operand, belongs to one value */
        bool shared = v->extent == SAMBA_FULL && !v->fixed && !a->wide[draft->d] && a->direct[draft->d] < 0 &&
                      draft->op != SAMBA_TILE_block && !repeats_in_rows(a, draft);
        int pick = -1;
        for (int r = 0; r < program->register_count && shared && pick < 0; r++)
            if (program->registers[r].class_ == v->class_ && free_after[r] >= 0 && free_after[r] < p)
                pick = r;
        if (pick < 0) {
            pick = program->register_count++;
            program->registers[pick] =
                (samba_register){(uint8_t)v->class_, (uint8_t)v->extent, (uint8_t)a->wide[draft->d], a->direct[draft->d]};
        }
        free_after[pick] = shared ? a->last[draft->d] : -1;
        a->physical[draft->d] = pick;
    }
    return SAMBA_OK;
}

static int16_t physical(const allocation *a, int r) { return r < 0 ? -1 : (int16_t)a->physical[r]; }

static samba_status write_program(samba_emitter *e, const samba_stage *stage, samba_program *program, samba_arena *arena)
{
    int count = (int)e->draft_count;
    size_t registers = (size_t)e->register_count + 1;
    allocation a = {.e = e, .count = count, .rank = stage->rank, .cols = stage->domain[stage->rank - 1]};
    SAMBA_TRY(SAMBA_ROOM(&e->arena, a.order, count + 1));
    SAMBA_TRY(SAMBA_ROOM(&e->arena, a.defined, registers));
    SAMBA_TRY(SAMBA_ROOM(&e->arena, a.last, registers));
    SAMBA_TRY(SAMBA_ROOM(&e->arena, a.physical, registers));
    SAMBA_TRY(SAMBA_ROOM(&e->arena, a.wide, registers));
    SAMBA_TRY(SAMBA_ROOM(&e->arena, a.direct, registers));
    SAMBA_TRY(SAMBA_ROOM(arena, program->instructions, count + 1));
    SAMBA_TRY(SAMBA_ROOM(arena, program->steps, count + 1));
    for (int i = 0; i < count; i++) { /* stable insertion by level: drafts come nearly sorted */
        int k = i;
        for (; k > 0 && e->drafts[a.order[k - 1]].level > e->drafts[i].level; k--)
            a.order[k] = a.order[k - 1];
        a.order[k] = i;
    }
    for (int64_t r = 0; r < e->register_count; r++)
        a.direct[r] = -1;
    for (int p = 0; p < count; p++) {
        const samba_draft *draft = &e->drafts[a.order[p]];
        const int sources[3] = {draft->a, draft->b, draft->c};
        if (draft->d >= 0)
            a.defined[draft->d] = a.last[draft->d] = p;
        for (int s = 0; s < 3; s++) {
            if (sources[s] < 0)
                continue;
            const samba_virtual *v = &e->registers[sources[s]];
            a.last[sources[s]] = p;
            if (v->extent == SAMBA_FULL && !v->fixed && v->level != draft->level)
                a.wide[sources[s]] = true;
        }
    }
    choose_direct(&a);
    SAMBA_TRY(allocate(&a, program, arena));
    program->instruction_count = count;
    for (int p = 0; p < count; p++) {
        const samba_draft *draft = &e->drafts[a.order[p]];
        program->instructions[p] =
            (samba_instruction){(uint16_t)draft->op,    physical(&a, draft->d),  physical(&a, draft->a), physical(&a, draft->b),
                                physical(&a, draft->c), (int16_t)draft->operand, draft->immediate};
        if (draft->level == SAMBA_LEVEL_SETUP) {
            program->setup = p + 1;
            continue;
        }
        if (p == program->setup || draft->level != e->drafts[a.order[p - 1]].level)
            program->steps[program->step_count++] = (samba_step){p, p, draft->level % 2 == 0};
        program->steps[program->step_count - 1].end = p + 1;
    }
    return SAMBA_OK;
}

samba_status samba_emitter_finish(samba_emitter *e, int plan_rank, const int64_t *plan_shape, samba_stage *stage)
{
    SAMBA_TRY(e->status);
    if (e->draft_count > INT16_MAX || e->operand_count > INT16_MAX || e->register_count > INT16_MAX)
        return samba_fail(e->compiler->context, SAMBA_ERROR_INTERNAL, "lowering: a stage of %lld instructions is too long",
                          (long long)e->draft_count);
    samba_arena *arena = &e->compiler->plan.arena;
    int64_t collapsed[SAMBA_MAX_RANK], filled_shape[SAMBA_MAX_RANK];
    const bool given = plan_rank > 0;
    if (!given) {
        plan_rank = collapse(e, collapsed, filled_shape);
        plan_shape = collapsed;
    }
    SAMBA_TRY(view_operands(e, plan_rank, plan_shape, given ? NULL : filled_shape));
    stage->rank = plan_rank;
    memcpy(stage->domain, plan_shape, sizeof(int64_t) * (size_t)plan_rank);
    SAMBA_TRY(write_program(e, stage, &stage->program, arena));
    stage->operand_count = (int32_t)e->operand_count;
    SAMBA_TRY(SAMBA_ROOM(arena, stage->operands, e->operand_count + 1));
    for (int64_t o = 0; o < e->operand_count; o++) {
        stage->operands[o] = e->operands[o];
        int64_t bytes = (int64_t)samba_dtype_size((samba_dtype)e->operands[o].dtype);
        for (int i = 0; i < plan_rank; i++)
            if (e->operands[o].strides[i] != 0)
                bytes *= plan_shape[i];
        if (e->operands[o].buffer >= 0)
            stage->bytes += bytes;
    }
    return SAMBA_OK;
}
