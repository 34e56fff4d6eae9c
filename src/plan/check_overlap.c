/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of a stage lie apart from its operands, so that nothing that a kernel has looked at changes while it works: indices
 * that were found to be in range, the greatest element of a window. Buffers may share memory, so a footprint is a set of bytes of
 * the arena.
 *
 * Two kinds of stages may write over what they read. A program's store may lie where a load does, element for element: each is
 * computed from itself. The gradient of max pooling in windows of 2 x 2 side by side may lie over the pooling's input, since each
 * window is read whole before it is written.
 *
 * Operands that interleave share no element: heads of a joint projection, columns of a concat. They are told apart by their bytes
 * modulo a stride, the longest first: if neither of two footprints crosses a multiple of it, only their bytes within one can
 * meet. So the check may refuse footprints that are apart in a way no stride shows, but accepts none that meet. */
#include "plan/check.h"

enum { MOST_DIMS = 3 * SAMBA_CONTRACT_RANK + SAMBA_CONTRACT_WINDOWS };

typedef struct footprint {      /* bytes of the arena: first + any of i * step, `width` of them at each */
    int64_t first, last, width; /* last: the first byte of the furthest element */
    int rank;
    int64_t step[MOST_DIMS], count[MOST_DIMS];
} footprint;
typedef struct user { /* an operand or a factor */
    footprint at;
    int access;
    char name[24]; /* "operand 2", "factor a" */
} user;

static void begin(footprint *p, const samba_check *check, int32_t buffer, int32_t dtype, int64_t offset)
{
    p->width = (int64_t)samba_dtype_size((samba_dtype)dtype);
    p->first = p->last = check->plan->buffers[buffer].offset + offset * p->width;
    p->rank = 0;
}

/* Dims of size 0 or 1 say nothing: stages without elements are not looked at. */
static void add_dims(footprint *p, int count, const int64_t *sizes, const int64_t *strides)
{
    for (int i = 0; i < count; i++) {
        if (sizes[i] <= 1 || strides[i] == 0)
            continue;
        int64_t step = strides[i] * p->width, way = step * (sizes[i] - 1);
        *(way < 0 ? &p->first : &p->last) += way;
        p->step[p->rank] = step < 0 ? -step : step;
        p->count[p->rank++] = sizes[i];
    }
}

/* The footprint modulo `period`, counted from `origin`; false where an element lies over a multiple of it. */
static bool fold(const footprint *p, int64_t origin, int64_t period, footprint *folded)
{
    int64_t first = (p->first - origin) % period;
    *folded = (footprint){.first = first < 0 ? first + period : first, .width = p->width};
    folded->last = folded->first;
    for (int i = 0; i < p->rank; i++) {
        if (p->step[i] % period == 0)
            continue;
        folded->step[folded->rank] = p->step[i];
        folded->count[folded->rank++] = p->count[i];
        folded->last += p->step[i] * (p->count[i] - 1);
    }
    return folded->last + folded->width <= period;
}

static int64_t longest_step(const footprint *p, int64_t below)
{
    int64_t longest = 0;
    for (int i = 0; i < p->rank; i++)
        if (p->step[i] < below && p->step[i] > longest)
            longest = p->step[i];
    return longest;
}

static bool are_apart(const footprint *one, const footprint *other)
{
    if (one->last + one->width <= other->first || other->last + other->width <= one->first)
        return true;
    footprint a = *one, b = *other, folded_a, folded_b;
    for (int64_t period = INT64_MAX; period > 0;) {
        if (a.last + a.width <= b.first || b.last + b.width <= a.first)
            return true;
        int64_t of_a = longest_step(&a, period), of_b = longest_step(&b, period);
        period = of_a > of_b ? of_a : of_b;
        for (int i = 0; i < 2 && period > 0; i++) {
            int64_t origin = i ? b.first : a.first;
            if (!fold(&a, origin, period, &folded_a) || !fold(&b, origin, period, &folded_b))
                continue;
            a = folded_a;
            b = folded_b;
            break;
        }
    }
    return false;
}

static samba_status overlap(const samba_check *check, const char *written, const char *read, const char *expected)
{
    return samba_check_stage_fail(check, "%s, which it writes, lies over %s, which it reads: %s", written, read, expected);
}

static const char *const apart = "what a stage reads must lie apart from what it writes";

/* ---- kinds whose operands have sizes of their own ---- */
static void use_contiguous(user *u, const samba_check *check, const samba_operand *operand, int64_t count)
{
    const int64_t stride = 1;
    begin(&u->at, check, operand->buffer, operand->dtype, operand->offset);
    add_dims(&u->at, 1, &count, &stride);
}

static samba_status check_apart(const samba_check *check, const samba_stage *stage, const user *users)
{
    for (int32_t w = 0; w < stage->operand_count; w++)
        for (int32_t r = 0; r < stage->operand_count && users[w].access & SAMBA_WRITES; r++)
            if (r != w && !are_apart(&users[w].at, &users[r].at))
                return users[r].access & SAMBA_WRITES
                           ? samba_check_stage_fail(check, "%s and %s, both of which it writes, lie over each other",
                                                    users[w].name, users[r].name)
                           : overlap(check, users[w].name, users[r].name, apart);
    return SAMBA_OK;
}

static samba_status check_pool(const samba_check *check, const samba_stage *stage, user *users)
{
    const samba_pool *pool = &stage->pool;
    if (pool->sample) {
        int64_t sizes[4];
        samba_pool_sample_sizes(pool, sizes);
        for (int32_t i = 0; i < stage->operand_count; i++) {
            if (sizes[i] == 0) /* nothing is read, and but zeros written */
                return SAMBA_OK;
            use_contiguous(&users[i], check, &stage->operands[i], sizes[i]);
        }
        return check_apart(check, stage, users);
    }
    int64_t plane = pool->planes * pool->h * pool->w, pooled = pool->planes * pool->oh * pool->ow;
    if (plane == 0 || pooled == 0)
        return SAMBA_OK;
    bool in_place = pool->gradient && !pool->average && samba_pool_fits_in_place(pool);
    for (int32_t i = 0; i < stage->operand_count; i++)
        use_contiguous(&users[i], check, &stage->operands[i],
                       i == stage->operand_count - (pool->gradient ? 2 : 1) ? pooled : plane);
    if (in_place && users[0].at.first == users[2].at.first)
        /* the gradient may lie there, and nowhere near it */
        users[0].at = (footprint){.first = INT64_MAX / 2, .last = INT64_MAX / 2};
    return check_apart(check, stage, users);
}

static samba_status check_line(const samba_check *check, const samba_stage *stage, user *users)
{
    const samba_line *line = &stage->line;
    int64_t all = line->outer * line->size * line->inner, results = line->outer * line->count * line->inner;
    bool slopes = line->function == SAMBA_LINE_MARGIN_GRAD; /* operand 2, the gradient, has one a line */
    if (all == 0 || results == 0)
        return SAMBA_OK;
    for (int32_t i = 0; i < stage->operand_count; i++)
        use_contiguous(&users[i], check, &stage->operands[i],
                       users[i].access & SAMBA_WRITES ? results
                       : slopes && i == 2             ? line->outer
                                                      : all);
    return check_apart(check, stage, users);
}

static samba_status check_gather(const samba_check *check, const samba_stage *stage, user *users)
{
    const samba_gather_stage *gather = &stage->gather;
    if (gather->table_rows == 0)
        return SAMBA_OK;
    for (int32_t i = 0; i < 3; i++) {
        const samba_operand *operand = &stage->operands[i];
        begin(&users[i].at, check, operand->buffer, operand->dtype, operand->offset);
        add_dims(&users[i].at, stage->rank, stage->domain, operand->strides);
    }
    add_dims(&users[gather->mode == SAMBA_GATHER_READ ? 0 : 2].at, 1, &gather->table_rows, &gather->table_stride);
    return check_apart(check, stage, users);
}

static samba_status check_attention(const samba_check *check, const samba_stage *stage, user *users)
{
    int32_t at[SAMBA_ATTENTION_PARTS];
    samba_attention_operands(&stage->attention, at);
    for (int part = 0; part < SAMBA_ATTENTION_PARTS; part++) {
        if (at[part] < 0)
            continue;
        const samba_operand *operand = &stage->operands[at[part]];
        int64_t sizes[4], numel;
        samba_attention_sizes(stage, (samba_attention_part)part, sizes);
        users[at[part]].at = (footprint){.first = INT64_MAX / 2 + part, .last = INT64_MAX / 2 + part}; /* empty: over nothing */
        if (!samba_check_numel(4, sizes, &numel) || numel == 0)
            continue;
        begin(&users[at[part]].at, check, operand->buffer, operand->dtype, operand->offset);
        add_dims(&users[at[part]].at, 4, sizes, operand->strides);
    }
    return check_apart(check, stage, users);
}

/* ---- programs ---- */

/* Reads and writes of a program's operands:
 * by instructions that name them, and by those that compute in a register that lies in one. */
static void find_access(const samba_program *program, user *users)
{
    for (int32_t i = 0; i < program->instruction_count; i++) {
        const samba_instruction *instruction = &program->instructions[i];
        samba_tile_form form = samba_tile_table[instruction->op].form;
        int direct = instruction->d >= 0 ? program->registers[instruction->d].direct : -1;
        if (form == SAMBA_FORM_LOAD)
            users[instruction->operand].access |= SAMBA_READS;
        if (form == SAMBA_FORM_STORE || form == SAMBA_FORM_COLLECT)
            users[instruction->operand].access |= SAMBA_WRITES;
        if (direct >= 0 && !(form == SAMBA_FORM_LOAD && instruction->operand == direct))
            users[direct].access |= SAMBA_WRITES;
    }
}

/* One element of both for each of the domain. */
static bool in_step(const samba_stage *stage, const samba_operand *a, const samba_operand *b)
{
    for (int32_t i = 0; i < stage->rank; i++)
        if (stage->domain[i] != 1 && a->strides[i] != b->strides[i])
            return false;
    return a->dtype == b->dtype;
}

static void use_factor(user *u, const samba_check *check, const samba_contract *contract, const samba_factor *factor,
                       int own_rank, const int64_t *own)
{
    begin(&u->at, check, factor->buffer, factor->dtype, factor->offset);
    add_dims(&u->at, contract->batch_rank, contract->batch, factor->batch);
    add_dims(&u->at, own_rank, own, factor->own);
    add_dims(&u->at, contract->k_rank, contract->k, factor->inner);
    for (int32_t i = 0; i < factor->window_count; i++)
        add_dims(&u->at, 1, &factor->windows[i].limit, &factor->windows[i].stride);
}

static bool reads_factor(const samba_contract *contract, const samba_factor *factor)
{
    bool reads = true;
    for (int32_t i = 0; i < contract->k_rank; i++)
        reads = reads && contract->k[i] > 0;
    for (int32_t i = 0; i < factor->window_count; i++)
        reads = reads && factor->windows[i].limit > 0;
    return reads;
}

static samba_status check_factors(const samba_check *check, const samba_stage *stage, const user *written)
{
    const samba_contract *contract = &stage->contract;
    user a = {.name = "factor a"}, b = {.name = "factor b"};
    use_factor(&a, check, contract, &contract->a, contract->m_rank, contract->m);
    use_factor(&b, check, contract, &contract->b, contract->n_rank, contract->n);
    if (reads_factor(contract, &contract->a) && !are_apart(&written->at, &a.at))
        return overlap(check, written->name, a.name, apart);
    if (reads_factor(contract, &contract->b) && !are_apart(&written->at, &b.at))
        return overlap(check, written->name, b.name, apart);
    return SAMBA_OK;
}

static samba_status check_program(const samba_check *check, const samba_stage *stage, user *users)
{
    find_access(&stage->program, users);
    for (int32_t i = 0; i < stage->operand_count; i++) {
        const samba_operand *operand = &stage->operands[i];
        if (operand->buffer < 0)
            users[i].access = 0;
        if (users[i].access == 0)
            continue;
        begin(&users[i].at, check, operand->buffer, operand->dtype, operand->offset);
        add_dims(&users[i].at, stage->rank, stage->domain, operand->strides);
    }
    for (int32_t w = 0; w < stage->operand_count; w++) {
        if (!(users[w].access & SAMBA_WRITES))
            continue;
        if (stage->kind == SAMBA_STAGE_CONTRACT)
            SAMBA_TRY(check_factors(check, stage, &users[w]));
        for (int32_t r = 0; r < stage->operand_count; r++) {
            if (r != w && users[r].access & SAMBA_READS &&
                !(users[w].at.first == users[r].at.first && in_step(stage, &stage->operands[w], &stage->operands[r])) &&
                !are_apart(&users[w].at, &users[r].at))
                return overlap(check, users[w].name, users[r].name,
                               "a program may write over what it reads only element for element");
        }
    }
    return SAMBA_OK;
}

static samba_status check_linear(const samba_check *check, const samba_stage *stage, user *users)
{
    const samba_linear_stage *l = &stage->linear;
    const bool scaled = stage->operand_count == 4, four = l->form == SAMBA_LINEAR_INT4;
    const int64_t w = l->n * l->k, scales = four ? w / SAMBA_LINEAR_GROUP : l->n;
    const int64_t sizes[4] = {l->m * l->k, four ? w / 2 : w, scaled ? scales : l->m * l->n, l->m * l->n};
    if (l->m * l->n == 0 || l->k == 0)
        return SAMBA_OK;
    for (int32_t i = 0; i < stage->operand_count; i++)
        use_contiguous(&users[i], check, &stage->operands[i], sizes[i]);
    return check_apart(check, stage, users);
}

/* Operands of such sizes, where any is written. */
static samba_status check_contiguous(const samba_check *check, const samba_stage *stage, const int64_t *sizes, user *users)
{
    for (int32_t i = 0; i < stage->operand_count; i++) {
        users[i].at = (footprint){.first = INT64_MAX / 2 + i, .last = INT64_MAX / 2 + i}; /* empty: over nothing */
        if (sizes[i] > 0)
            use_contiguous(&users[i], check, &stage->operands[i], sizes[i]);
    }
    return check_apart(check, stage, users);
}

static samba_status check_matrix(const samba_check *check, const samba_stage *stage, user *users)
{
    int64_t sizes[3][2], numel;
    samba_matrix_sizes(&stage->matrix, sizes);
    for (int32_t i = 0; i < stage->operand_count; i++) {
        const samba_operand *operand = &stage->operands[i];
        const int64_t of[3] = {stage->domain[0], sizes[i][0], sizes[i][1]};
        users[i].at = (footprint){.first = INT64_MAX / 2 + i, .last = INT64_MAX / 2 + i}; /* empty: over nothing */
        if (!samba_check_numel(3, of, &numel) || numel == 0)
            continue;
        begin(&users[i].at, check, operand->buffer, operand->dtype, operand->offset);
        add_dims(&users[i].at, 3, of, operand->strides);
    }
    return check_apart(check, stage, users);
}

static samba_status check_fourier(const samba_check *check, const samba_stage *stage, user *users)
{
    int64_t sizes[2];
    samba_fourier_sizes(&stage->fourier, sizes);
    return check_contiguous(check, stage, sizes, users);
}

static samba_status check_ctc(const samba_check *check, const samba_stage *stage, user *users)
{
    int64_t sizes[6];
    samba_ctc_sizes(&stage->ctc, sizes);
    sizes[stage->operand_count - 1] = stage->ctc.gradient ? sizes[5] : sizes[4];
    return check_contiguous(check, stage, sizes, users);
}

samba_status samba_check_overlap(const samba_check *check, const samba_stage *stage)
{
    int64_t numel;
    if (stage->rank > 0 && (!samba_check_numel(stage->rank, stage->domain, &numel) || numel == 0))
        return SAMBA_OK;
    user *users = samba_alloc(check->context, sizeof *users * (size_t)stage->operand_count);
    if (!users)
        return SAMBA_ERROR_MEMORY;
    bool program = stage->kind == SAMBA_STAGE_TILE || stage->kind == SAMBA_STAGE_CONTRACT;
    for (int32_t i = 0; i < stage->operand_count; i++) {
        users[i].access = program ? 0 : samba_stage_access(stage, i);
        snprintf(users[i].name, sizeof users[i].name, "operand %d", i);
    }
    samba_status status = SAMBA_OK;
    switch ((samba_stage_kind)stage->kind) {
    case SAMBA_STAGE_TILE:
    case SAMBA_STAGE_CONTRACT: status = check_program(check, stage, users); break;
    case SAMBA_STAGE_POOL: status = check_pool(check, stage, users); break;
    case SAMBA_STAGE_GATHER: status = check_gather(check, stage, users); break;
    case SAMBA_STAGE_ATTENTION: status = check_attention(check, stage, users); break;
    case SAMBA_STAGE_LINE: status = check_line(check, stage, users); break;
    case SAMBA_STAGE_LINEAR: status = check_linear(check, stage, users); break;
    case SAMBA_STAGE_FOURIER: status = check_fourier(check, stage, users); break;
    case SAMBA_STAGE_CTC: status = check_ctc(check, stage, users); break;
    case SAMBA_STAGE_MATRIX: status = check_matrix(check, stage, users); break;
    case SAMBA_STAGE_EXCHANGE: break; /* one operand, each element over itself */
    case SAMBA_STAGE_KIND_COUNT: break;
    }
    samba_free(check->context, users, sizeof *users * (size_t)stage->operand_count);
    return status;
}
