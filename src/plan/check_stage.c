/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages: domains, and for every operand the furthest element that any coordinate can reach. Offsets are never negative, nor
 * strides but those of tile stages, which may read a dim from its end: the least element is the offset and what negative strides
 * take away, the furthest the sum of (size - 1) * stride over the others; all of it in checked arithmetic.
 *
 * A window's coordinate may leave [0, limit), where elements count as 0; what it can add to an address is at most (limit - 1) *
 * stride. */
#include "plan/check.h"
#include "tensor/resample.h"

#include <math.h>

samba_status samba_check_stage_fail(const samba_check *check, const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const char *name = check->plan->stages[check->stage].name;
    return samba_fail(check->context, SAMBA_ERROR_FORMAT, "stage %d \"%.128s\": %s", check->stage, name ? name : "", message);
}

/* *reach += sum of (size - 1) * stride, a size of 0 counting as 1. False where a stride is negative or anything is too large. */
static bool add_reach(int count, const int64_t *sizes, const int64_t *strides, int64_t *reach)
{
    for (int i = 0; i < count; i++) {
        int64_t step, last = sizes[i] > 0 ? sizes[i] - 1 : 0;
        if (strides[i] < 0 || strides[i] > SAMBA_PLAN_LARGEST_STEP || !samba_mul_checked(last, strides[i], &step) ||
            !samba_add_checked(*reach, step, reach) || *reach > SAMBA_PLAN_LARGEST_MEMORY)
            return false;
    }
    return true;
}

static bool strides_possible(int count, const int64_t *strides, bool negative)
{
    for (int i = 0; i < count; i++)
        if (strides[i] < (negative ? -SAMBA_PLAN_LARGEST_STEP : 0) || strides[i] > SAMBA_PLAN_LARGEST_STEP)
            return false;
    return true;
}

/* The same of a tile stage's operand, whose strides may be negative: no element may come before the first. */
static bool add_reach_both_ways(int count, const int64_t *sizes, const int64_t *strides, int64_t *reach)
{
    int64_t low = *reach, forward[SAMBA_MAX_RANK] = {0};
    for (int i = 0; i < count; i++) {
        int64_t step, last = sizes[i] > 0 ? sizes[i] - 1 : 0;
        forward[i] = strides[i] > 0 ? strides[i] : 0;
        if (strides[i] < -SAMBA_PLAN_LARGEST_STEP ||
            (strides[i] < 0 && (!samba_mul_checked(last, -strides[i], &step) || (low -= step) < 0)))
            return false;
    }
    return add_reach(count, sizes, forward, reach);
}

bool samba_check_reach(const samba_check *check, const samba_stage *stage, const samba_operand *operand)
{
    int64_t reach = operand->offset;
    return (stage->kind == SAMBA_STAGE_TILE ? add_reach_both_ways : add_reach)(stage->rank, stage->domain, operand->strides,
                                                                               &reach) &&
           samba_check_fits(check->plan, operand->buffer, operand->dtype, reach, 1);
}

static samba_status check_operands(const samba_check *check, const samba_stage *stage, int64_t numel)
{
    for (int32_t i = 0; i < stage->operand_count; i++) {
        const samba_operand *operand = &stage->operands[i];
        if (!samba_check_dtype(operand->dtype) || operand->offset < 0 || operand->offset > SAMBA_PLAN_LARGEST_STEP ||
            !strides_possible(stage->rank, operand->strides, stage->kind == SAMBA_STAGE_TILE))
            return samba_check_stage_fail(check, "operand %d: dtype %d, offset %lld or a stride is impossible", i, operand->dtype,
                                          (long long)operand->offset);
        if (operand->buffer != -1 && !samba_check_buffer(check->plan, operand->buffer))
            return samba_check_stage_fail(check, "operand %d: there is no buffer %d among %d", i, operand->buffer,
                                          check->plan->buffer_count);
        int64_t reach = operand->offset;
        bool possible = (stage->kind == SAMBA_STAGE_TILE ? add_reach_both_ways : add_reach)(stage->rank, stage->domain,
                                                                                            operand->strides, &reach);
        if (stage->kind == SAMBA_STAGE_ATTENTION || stage->kind == SAMBA_STAGE_MATRIX)
            continue; /* its operands have sizes of their own */
        if (stage->kind == SAMBA_STAGE_GATHER && stage->gather.table_rows == 0 &&
            i == (stage->gather.mode == SAMBA_GATHER_READ ? 0 : 2))
            continue; /* a table without rows is not touched */
        /* what is touched on an empty domain is checked with the program; pools, which have none, by their sizes */
        bool touched = operand->buffer >= 0 && numel > 0 && stage->rank > 0;
        if (!possible || (touched && !samba_check_fits(check->plan, operand->buffer, operand->dtype, reach, 1)))
            return samba_check_stage_fail(
                check, "operand %d reaches element %lld of %s, beyond the end of buffer %d, or one before its first", i,
                (long long)reach, samba_dtype_name((samba_dtype)operand->dtype), operand->buffer);
    }
    return SAMBA_OK;
}

/* ---- contract ---- */
static bool window_steps_possible(int count, const int64_t *sizes, const int64_t *steps)
{
    for (int i = 0; i < count; i++) {
        int64_t magnitude = steps[i] < 0 ? -(steps[i] + 1) : steps[i], way; /* +1: the most negative number has no positive */
        if (magnitude >= SAMBA_PLAN_LARGEST_STEP || !samba_mul_checked(sizes[i], magnitude + 1, &way) ||
            way > SAMBA_PLAN_LARGEST_STEP)
            return false;
    }
    return true;
}

static samba_status check_factor(const samba_check *check, const samba_contract *contract, const samba_factor *factor,
                                 int own_rank, const int64_t *own, bool empty, const char *what)
{
    if (!samba_check_buffer(check->plan, factor->buffer) || !samba_check_dtype(factor->dtype) || factor->offset < 0 ||
        factor->offset > SAMBA_PLAN_LARGEST_STEP || factor->window_count < 0 ||
        factor->window_count > SAMBA_COUNT(factor->windows) ||
        samba_class_of((samba_dtype)factor->dtype) != (samba_register_class)contract->class_)
        return samba_check_stage_fail(check, "factor %s: buffer %d, dtype %d, offset %lld or %d windows are impossible", what,
                                      factor->buffer, factor->dtype, (long long)factor->offset, factor->window_count);
    if (!strides_possible(contract->batch_rank, factor->batch, false) || !strides_possible(own_rank, factor->own, false) ||
        !strides_possible(contract->k_rank, factor->inner, false))
        return samba_check_stage_fail(check, "factor %s has an impossible stride", what);
    int64_t reach = factor->offset;
    for (int32_t i = 0; i < factor->window_count; i++) {
        const samba_window *window = &factor->windows[i];
        const int64_t limit = SAMBA_PLAN_LARGEST_STEP;
        if (window->base < -limit || window->base > limit || window->limit < 0 || window->limit > SAMBA_PLAN_LARGEST_NUMEL ||
            window->dilation < 1 || window->dilation > limit / (window->limit + 1) || window->stride < 0 ||
            window->stride > limit || !window_steps_possible(own_rank, own, window->own) ||
            !window_steps_possible(contract->k_rank, contract->k, window->inner))
            return samba_check_stage_fail(check, "factor %s, window %d: base, limit, dilation, stride or a step is impossible",
                                          what, i);
        empty |= window->limit == 0; /* every element counts as 0 */
    }
    if (empty)
        return SAMBA_OK;
    bool possible = add_reach(contract->batch_rank, contract->batch, factor->batch, &reach) &&
                    add_reach(own_rank, own, factor->own, &reach) &&
                    add_reach(contract->k_rank, contract->k, factor->inner, &reach);
    for (int32_t i = 0; possible && i < factor->window_count; i++)
        possible = add_reach(1, &factor->windows[i].limit, &factor->windows[i].stride, &reach);
    if (!possible || !samba_check_fits(check->plan, factor->buffer, factor->dtype, reach, 1))
        return samba_check_stage_fail(check, "factor %s reaches element %lld of %s, beyond the end of buffer %d", what,
                                      (long long)reach, samba_dtype_name((samba_dtype)factor->dtype), factor->buffer);
    return SAMBA_OK;
}

static bool rank_possible(int32_t rank) { return rank >= 0 && rank <= SAMBA_CONTRACT_RANK; }

/* A block holds all of N where the program needs whole rows: it reduces them, or passes over them more than once. */
static bool needs_whole_rows(const samba_program *program)
{
    int loops = 0;
    for (int32_t i = 0; i < program->step_count; i++)
        loops += program->steps[i].loop;
    bool reduces = false;
    for (int32_t i = 0; i < program->instruction_count; i++)
        reduces |= samba_tile_table[program->instructions[i].op].form == SAMBA_FORM_REDUCE;
    return reduces || loops > 1;
}

static samba_status check_contract(const samba_check *check, const samba_stage *stage)
{
    const samba_contract *contract = &stage->contract;
    int64_t batch, m, n, k, result, a, b, all;
    if (!rank_possible(contract->batch_rank) || !rank_possible(contract->m_rank) || !rank_possible(contract->n_rank) ||
        !rank_possible(contract->k_rank) || contract->class_ < 0 || contract->class_ > SAMBA_I64 || contract->whole_rows < 0 ||
        contract->whole_rows > 1)
        return samba_check_stage_fail(check, "a contraction of ranks %d, %d, %d, %d and class %d is impossible",
                                      contract->batch_rank, contract->m_rank, contract->n_rank, contract->k_rank,
                                      contract->class_);
    if (!samba_check_numel(contract->batch_rank, contract->batch, &batch) ||
        !samba_check_numel(contract->m_rank, contract->m, &m) || !samba_check_numel(contract->n_rank, contract->n, &n) ||
        !samba_check_numel(contract->k_rank, contract->k, &k) || !samba_check_numel(3, (int64_t[]){batch, m, n}, &result) ||
        !samba_check_numel(3, (int64_t[]){batch, m, k}, &a) || !samba_check_numel(3, (int64_t[]){batch, k, n}, &b) ||
        !samba_check_numel(3, (int64_t[]){m, n, k}, &all))
        return samba_check_stage_fail(check, "a size of the contraction is negative or too large");
    bool fits =
        stage->rank == contract->batch_rank + 2 && stage->domain[stage->rank - 2] == m && stage->domain[stage->rank - 1] == n;
    for (int32_t i = 0; fits && i < contract->batch_rank; i++)
        fits = stage->domain[i] == contract->batch[i];
    if (!fits)
        return samba_check_stage_fail(check, "the domain is not that of a contraction of %lld x %lld in %lld batches",
                                      (long long)m, (long long)n, (long long)batch);
    SAMBA_TRY(check_factor(check, contract, &contract->a, contract->m_rank, contract->m, a == 0, "a"));
    SAMBA_TRY(check_factor(check, contract, &contract->b, contract->n_rank, contract->n, b == 0, "b"));
    SAMBA_TRY(samba_check_program(check, stage));
    if (!contract->whole_rows && needs_whole_rows(&stage->program))
        return samba_check_stage_fail(check, "its program needs whole rows and the contraction does not give them");
    return SAMBA_OK;
}

/* ---- pool: contiguous operands of known sizes ---- */
static samba_status check_sizes(const samba_check *check, const samba_stage *stage, int32_t count, const int64_t *sizes)
{
    if (stage->rank != 0 || stage->operand_count != count)
        return samba_check_stage_fail(check, "it has a domain, or %d operands and not %d", stage->operand_count, count);
    for (int32_t i = 0; i < count; i++)
        if (!samba_check_fits(check->plan, stage->operands[i].buffer, stage->operands[i].dtype, stage->operands[i].offset,
                              sizes[i]))
            return samba_check_stage_fail(check, "operand %d: %lld elements at %lld do not fit buffer %d", i, (long long)sizes[i],
                                          (long long)stage->operands[i].offset, stage->operands[i].buffer);
    return SAMBA_OK;
}

static bool adaptive_possible(int64_t size, int64_t windows)
{
    int64_t way;
    return (size > 0 || windows == 0) && samba_mul_checked(windows + 1, size, &way) && way <= SAMBA_PLAN_LARGEST_STEP;
}

static bool resample_possible(const samba_pool *pool, samba_dtype dtype)
{
    const int64_t in[2] = {pool->h, pool->w}, out[2] = {pool->oh, pool->ow};
    bool possible = pool->average && !pool->adaptive && pool->divisor == 0;
    for (int i = 0; possible && i < 2; i++) {
        samba_resample_axis axis = {in[i],           out[i], pool->resample - 1, pool->align_corners,
                                    pool->antialias, false,  pool->scale[i]};
        possible = samba_resample_possible(&axis) && (samba_dtype_is_floating_point(dtype) || axis.mode <= 1);
    }
    return possible;
}

/* Images read at a grid's positions. */
static samba_status check_sample(const samba_check *check, const samba_stage *stage)
{
    const samba_pool *p = &stage->pool;
    int64_t x, y, grid, sizes[4];
    bool possible = samba_check_numel(3, (int64_t[]){p->planes, p->h, p->w}, &x) &&
                    samba_check_numel(3, (int64_t[]){p->planes, p->oh, p->ow}, &y) &&
                    samba_check_numel(4, (int64_t[]){p->images, p->oh, p->ow, 3}, &grid);
    possible = possible && (p->images == 0 ? p->planes == 0 : p->planes % p->images == 0) && p->h >= 1 && p->w >= 1 &&
               p->depth >= 0 && (p->depth == 0 || p->h % p->depth == 0) && p->outside >= SAMBA_SAMPLE_ZEROS &&
               p->outside <= SAMBA_SAMPLE_REFLECTION && (!p->of_grid || p->gradient) &&
               (p->sample == SAMBA_SAMPLE_NEAREST || p->sample == SAMBA_SAMPLE_LINEAR ||
                (p->sample == SAMBA_SAMPLE_CUBIC && p->depth == 0)) &&
               !p->average && !p->indices && !p->adaptive && !p->resample && !p->divisor;
    if (!possible)
        return samba_check_stage_fail(check, "a size, mode or padding of the sampling is impossible");
    int32_t count = samba_pool_sample_sizes(p, sizes);
    SAMBA_TRY(check_sizes(check, stage, count, sizes));
    for (int32_t i = 0; i < count; i++)
        if (stage->operands[i].dtype != stage->operands[0].dtype ||
            (stage->operands[i].dtype != SAMBA_FLOAT32 && stage->operands[i].dtype != SAMBA_FLOAT64))
            return samba_check_stage_fail(check, "operands of a sampling are of several dtypes, or not float32 or float64");
    return SAMBA_OK;
}

static samba_status check_pool(const samba_check *check, const samba_stage *stage)
{
    const samba_pool *pool = &stage->pool;
    if (pool->sample)
        return check_sample(check, stage);
    int64_t input, output, way;
    const int64_t outputs[] = {pool->oh, pool->ow};
    bool possible = samba_check_numel(3, (int64_t[]){pool->planes, pool->h, pool->w}, &input) &&
                    samba_check_numel(3, (int64_t[]){pool->planes, pool->oh, pool->ow}, &output);
    for (int i = 0; possible && i < 2; i++)
        possible = pool->kernel[i] >= 1 && pool->stride[i] >= 1 && pool->padding[i] >= 0 && pool->dilation[i] >= 1 &&
                   pool->padding[i] <= SAMBA_PLAN_LARGEST_NUMEL && samba_mul_checked(outputs[i], pool->stride[i], &way) &&
                   way <= SAMBA_PLAN_LARGEST_NUMEL && samba_mul_checked(pool->kernel[i], pool->dilation[i], &way) &&
                   way <= SAMBA_PLAN_LARGEST_NUMEL && pool->stride[i] <= SAMBA_PLAN_LARGEST_NUMEL;
    possible = possible && samba_check_numel(2, pool->kernel, &way) && pool->divisor >= -SAMBA_PLAN_LARGEST_NUMEL &&
               pool->divisor <= SAMBA_PLAN_LARGEST_NUMEL && (pool->divisor == 0 || pool->average) &&
               (!pool->indices || (!pool->average && !pool->gradient)) &&
               (!pool->adaptive || (adaptive_possible(pool->h, pool->oh) && adaptive_possible(pool->w, pool->ow)));
    if (!possible)
        return samba_check_stage_fail(check, "a size, kernel, stride, padding, dilation or divisor of the pool is impossible");
    const int64_t max_forward[] = {input, output}, max_gradient[] = {input, output, input}, average_gradient[] = {output, input};
    const int64_t *sizes = !pool->gradient ? max_forward : pool->average ? average_gradient : max_gradient;
    int32_t count = pool->gradient && !pool->average ? 3 : 2;
    SAMBA_TRY(check_sizes(check, stage, count, sizes));
    for (int32_t i = 1; i < count; i++)
        if (stage->operands[i].dtype != (pool->indices ? (int32_t)SAMBA_INT64 : stage->operands[0].dtype))
            return samba_check_stage_fail(check, "operands of a pool have several dtypes, or its indices are not int64");
    samba_dtype dtype = (samba_dtype)stage->operands[0].dtype;
    if (pool->resample && !resample_possible(pool, dtype))
        return samba_check_stage_fail(check, "a size, mode or scale of the resampling is impossible");
    if (dtype == SAMBA_BOOL ||
        (!samba_dtype_is_floating_point(dtype) &&
         (pool->gradient || (pool->average && !pool->resample && (dtype != SAMBA_INT64 || pool->divisor < 0)))))
        return samba_check_stage_fail(check, "a pool of %s is impossible", samba_dtype_name(dtype));
    return SAMBA_OK;
}

/* ---- gather: operands over the domain, the table with rows of its own along the axis ---- */
static samba_status check_gather(const samba_check *check, const samba_stage *stage)
{
    const samba_gather_stage *gather = &stage->gather;
    if (stage->rank < 1 || stage->operand_count != 3 || gather->mode < 0 || gather->mode >= SAMBA_GATHER_MODE_COUNT ||
        gather->axis < 0 || gather->axis >= stage->rank || gather->table_rows < 0 ||
        gather->table_rows > SAMBA_PLAN_LARGEST_NUMEL || gather->negative < 0 || gather->negative > 1)
        return samba_check_stage_fail(
            check, "a gather of mode %d over %d dims, along dim %d of %lld rows, with %d operands, is impossible", gather->mode,
            stage->rank, gather->axis, (long long)gather->table_rows, stage->operand_count);
    bool scatter = gather->mode != SAMBA_GATHER_READ;
    const samba_operand *table = &stage->operands[scatter ? 2 : 0], *index = &stage->operands[scatter ? 0 : 1];
    if ((index->dtype != SAMBA_INT64 && index->dtype != SAMBA_INT32) ||
        stage->operands[1 - (index - stage->operands)].dtype != stage->operands[2].dtype)
        return samba_check_stage_fail(check, "indices must be int64 or int32, and elements of the table's dtype");
    int64_t reach = table->offset, numel;
    for (int i = 0; i < 3; i++)
        if (stage->operands[i].buffer < 0)
            return samba_check_stage_fail(check, "operand %d of a gather has no memory", i);
    if (!samba_check_numel(stage->rank, stage->domain, &numel) || numel == 0 || gather->table_rows == 0)
        return SAMBA_OK;
    if (table->strides[gather->axis] != 0 || !add_reach(stage->rank, stage->domain, table->strides, &reach) ||
        !add_reach(1, &gather->table_rows, &gather->table_stride, &reach) ||
        !samba_check_fits(check->plan, table->buffer, table->dtype, reach, 1))
        return samba_check_stage_fail(
            check, "%lld rows of the table, %lld apart, reach beyond the end of buffer %d, or are seen by the domain too",
            (long long)gather->table_rows, (long long)gather->table_stride, table->buffer);
    return SAMBA_OK;
}

/* ---- attention: strided operands over sizes of their own ---- */
static bool attention_dtype_fits(const samba_stage *stage, samba_attention_part part, int32_t dtype)
{
    int32_t values = stage->operands[SAMBA_ATTENTION_Q].dtype;
    switch (part) {
    case SAMBA_ATTENTION_MASK: return dtype == SAMBA_BOOL || dtype == values;
    case SAMBA_ATTENTION_P: return dtype == SAMBA_FLOAT64;
    case SAMBA_ATTENTION_SEED: return dtype == SAMBA_INT64;
    case SAMBA_ATTENTION_START: return dtype == SAMBA_INT64 || dtype == SAMBA_INT32;
    case SAMBA_ATTENTION_LSE: return dtype == (values == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32);
    default: return dtype == values && samba_dtype_is_floating_point((samba_dtype)dtype);
    }
}

static samba_status check_attention(const samba_check *check, const samba_stage *stage)
{
    const samba_attention *a = &stage->attention;
    int32_t operand_of[SAMBA_ATTENTION_PARTS], count = samba_attention_operands(a, operand_of);
    const int32_t flags[] = {a->gradient, a->causal, a->masked, a->dropout, a->has_result, a->has_lse};
    bool possible = stage->rank == 4 && a->hkv >= 0 && a->d >= 0 && a->d <= SAMBA_PLAN_LARGEST_NUMEL && a->dv >= 0 &&
                    a->dv <= SAMBA_PLAN_LARGEST_NUMEL && a->scale == a->scale;
    for (int i = 0; i < SAMBA_COUNT(flags); i++)
        possible = possible && (flags[i] == 0 || flags[i] == 1);
    possible = possible && (a->gradient ? a->has_result && a->has_lse : a->has_result || a->has_lse) &&
               (a->hkv == 0 ? stage->domain[1] == 0 : stage->domain[1] % a->hkv == 0);
    if (!possible)
        return samba_check_stage_fail(check, "a rank, size, flag or the scale of the attention is impossible");
    if (a->slots == 0 ? a->window != 0 || a->cap != 0
                      : a->slots < 0 || a->slots > stage->domain[3] || a->window < 0 || !(a->cap >= 0) || isinf(a->cap) ||
                            a->gradient || a->causal || a->masked || a->dropout || a->has_lse)
        return samba_check_stage_fail(check, "slots, a window, a cap or flags of an attention over a cache are impossible");
    if (stage->operand_count != count)
        return samba_check_stage_fail(check, "an attention of these parts has %d operands, not %d", count, stage->operand_count);
    for (int part = 0; part < SAMBA_ATTENTION_PARTS; part++) {
        if (operand_of[part] < 0)
            continue;
        const samba_operand *operand = &stage->operands[operand_of[part]];
        int64_t sizes[4], numel, reach = operand->offset;
        samba_attention_sizes(stage, (samba_attention_part)part, sizes);
        if (!attention_dtype_fits(stage, (samba_attention_part)part, operand->dtype))
            return samba_check_stage_fail(check, "operand %d of the attention is %s", operand_of[part],
                                          samba_dtype_name((samba_dtype)operand->dtype));
        if (!samba_check_numel(4, sizes, &numel) || !add_reach(4, sizes, operand->strides, &reach) ||
            !samba_check_fits(check->plan, operand->buffer, operand->dtype, numel > 0 ? reach : 0, numel > 0))
            return samba_check_stage_fail(check, "operand %d reaches element %lld of %s, beyond the end of buffer %d",
                                          operand_of[part], (long long)reach, samba_dtype_name((samba_dtype)operand->dtype),
                                          operand->buffer);
    }
    return SAMBA_OK;
}

/* ---- line: contiguous operands; what there is depends on the function ---- */
static samba_status check_margin(const samba_check *check, const samba_stage *stage)
{
    const samba_line *line = &stage->line;
    bool gradient = line->function == SAMBA_LINE_MARGIN_GRAD;
    int64_t numel;
    if (line->outer < 0 || line->inner != 1 || line->count != (gradient ? line->size : 1) || line->backwards ||
        line->first != 0 || line->nan || !line->has_values || line->has_indices ||
        !samba_check_numel(2, (int64_t[]){line->outer, line->size}, &numel))
        return samba_check_stage_fail(check, "margins of %lld x %lld x %lld are impossible", (long long)line->outer,
                                      (long long)line->size, (long long)line->inner);
    SAMBA_TRY(check_sizes(check, stage, gradient ? 4 : 3, (int64_t[]){numel, numel, line->outer, numel}));
    samba_dtype dtype = (samba_dtype)stage->operands[0].dtype;
    bool fits = (dtype == SAMBA_FLOAT32 || dtype == SAMBA_FLOAT64) && stage->operands[1].dtype == SAMBA_INT64 &&
                stage->operands[2].dtype == (int32_t)dtype && (!gradient || stage->operands[3].dtype == (int32_t)dtype);
    return fits ? SAMBA_OK : samba_check_stage_fail(check, "margins take float32 or float64 and int64 labels");
}

static samba_status check_line(const samba_check *check, const samba_stage *stage)
{
    const samba_line *line = &stage->line;
    bool somewhere = line->function == SAMBA_LINE_CHOOSE, sorts = line->function == SAMBA_LINE_SORT || somewhere,
         gradient = line->function == SAMBA_LINE_CUMPROD_GRAD;
    bool chooses = sorts || line->function == SAMBA_LINE_CUMMAX || line->function == SAMBA_LINE_CUMMIN;
    int64_t sizes[4], numel, results;
    if (line->function == SAMBA_LINE_MARGIN || line->function == SAMBA_LINE_MARGIN_GRAD)
        return check_margin(check, stage);
    bool middle = somewhere && line->first == SAMBA_LINE_MIDDLE && line->count == 1 && !line->backwards && !line->nan;
    bool possible = line->function >= 0 && line->function < SAMBA_LINE_FUNCTION_COUNT && line->count >= 0 &&
                    line->count <= line->size && (sorts || line->count == line->size) && (line->first >= 0 || middle) &&
                    line->first <= line->size - line->count && (somewhere || (line->first == 0 && !line->nan)) &&
                    (!sorts || line->size <= (int64_t)1 << 31) && (chooses || (line->has_values && !line->has_indices)) &&
                    (line->has_values || line->has_indices) &&
                    samba_check_numel(3, (int64_t[]){line->outer, line->size, line->inner}, &numel) &&
                    samba_check_numel(3, (int64_t[]){line->outer, line->count, line->inner}, &results);
    if (!possible)
        return samba_check_stage_fail(check, "function %d over %lld x %lld x %lld, of which %lld, is impossible", line->function,
                                      (long long)line->outer, (long long)line->size, (long long)line->inner,
                                      (long long)line->count);
    int32_t count = 0, values = 1 + gradient;
    sizes[count++] = numel;
    if (gradient)
        sizes[count++] = numel;
    if (line->has_values)
        sizes[count++] = results;
    if (line->has_indices)
        sizes[count++] = results;
    SAMBA_TRY(check_sizes(check, stage, count, sizes));
    for (int32_t i = 1; i < values + line->has_values; i++)
        if (stage->operands[i].dtype != stage->operands[0].dtype)
            return samba_check_stage_fail(check, "operand %d of a line is %s and the first %s", i,
                                          samba_dtype_name((samba_dtype)stage->operands[i].dtype),
                                          samba_dtype_name((samba_dtype)stage->operands[0].dtype));
    bool real = samba_dtype_is_floating_point((samba_dtype)stage->operands[0].dtype);
    if ((gradient || line->function == SAMBA_LINE_LOGCUMSUMEXP) && !real)
        return samba_check_stage_fail(check, "function %d of a line takes floating point, not %s", line->function,
                                      samba_dtype_name((samba_dtype)stage->operands[0].dtype));
    if (line->has_indices && stage->operands[count - 1].dtype != SAMBA_INT64)
        return samba_check_stage_fail(check, "indices of a line must be int64");
    return SAMBA_OK;
}

/* ---- linear: contiguous operands; what weights there are depends on the form ---- */
static samba_status check_linear(const samba_check *check, const samba_stage *stage)
{
    static const samba_dtype weights[SAMBA_LINEAR_FORM_COUNT] = {SAMBA_FLOAT32, SAMBA_BFLOAT16, SAMBA_INT8, SAMBA_UINT8};
    const samba_linear_stage *l = &stage->linear;
    const bool known = l->form >= 0 && l->form < SAMBA_LINEAR_FORM_COUNT,
               scaled = l->form == SAMBA_LINEAR_INT8 || l->form == SAMBA_LINEAR_INT4, four = l->form == SAMBA_LINEAR_INT4;
    int64_t x, w, y;
    if (!known || l->transposed < 0 || l->transposed > 1 || (scaled && l->transposed) ||
        (four && l->k % SAMBA_LINEAR_GROUP != 0) || !samba_check_numel(2, (int64_t[]){l->m, l->k}, &x) ||
        !samba_check_numel(2, (int64_t[]){l->n, l->k}, &w) || !samba_check_numel(2, (int64_t[]){l->m, l->n}, &y))
        return samba_check_stage_fail(check, "form %d of %lld x %lld x %lld is impossible", l->form, (long long)l->m,
                                      (long long)l->n, (long long)l->k);
    int64_t sizes[4] = {x, four ? w / 2 : w};
    if (scaled)
        sizes[2] = four ? w / SAMBA_LINEAR_GROUP : l->n;
    sizes[2 + scaled] = y;
    SAMBA_TRY(check_sizes(check, stage, 3 + scaled, sizes));
    const samba_operand *o = stage->operands;
    if (o[0].dtype != SAMBA_FLOAT32 || o[1].dtype != (int32_t)weights[l->form] || o[2 + scaled].dtype != SAMBA_FLOAT32 ||
        (scaled && o[2].dtype != (four ? SAMBA_FLOAT16 : SAMBA_FLOAT32)))
        return samba_check_stage_fail(check, "operands of form %d are of other dtypes", l->form);
    return SAMBA_OK;
}

/* ---- fourier, ctc: contiguous operands ---- */
static samba_status check_fourier(const samba_check *check, const samba_stage *stage)
{
    const samba_fourier *f = &stage->fourier;
    int64_t numel, sizes[2];
    if (f->form < 0 || f->form >= SAMBA_FOURIER_FORM_COUNT || f->inverse < 0 || f->inverse > 1 || f->size < 1 ||
        f->size > SAMBA_PLAN_LARGEST_NUMEL / 4 || !isfinite(f->scale) || !isfinite(f->pairs) ||
        !samba_check_numel(4, (int64_t[]){f->outer, f->size + 2, f->inner, 2}, &numel))
        return samba_check_stage_fail(check, "a transform of form %d of %lld x %lld x %lld is impossible", f->form,
                                      (long long)f->outer, (long long)f->size, (long long)f->inner);
    samba_fourier_sizes(f, sizes);
    SAMBA_TRY(check_sizes(check, stage, 2, sizes));
    const int32_t dtype = stage->operands[0].dtype;
    return (dtype == SAMBA_FLOAT32 || dtype == SAMBA_FLOAT64) && stage->operands[1].dtype == dtype
               ? SAMBA_OK
               : samba_check_stage_fail(check, "a transform takes float32 or float64, and gives the same");
}

static samba_status check_ctc(const samba_check *check, const samba_stage *stage)
{
    const samba_ctc *c = &stage->ctc;
    int64_t numel, labels, table, sizes[6];
    if (c->gradient < 0 || c->gradient > 1 || c->zero_infinity < 0 || c->zero_infinity > 1 || c->blank < 0 ||
        c->blank >= c->classes || !samba_check_numel(3, (int64_t[]){c->steps, c->batch, c->classes}, &numel) ||
        !samba_check_numel(2, (int64_t[]){c->batch, c->most}, &labels) || c->most > SAMBA_PLAN_LARGEST_NUMEL / 4 ||
        !samba_check_numel(2, (int64_t[]){c->steps + 2, 2 * c->most + 1}, &table))
        return samba_check_stage_fail(check, "a loss of %lld x %lld x %lld, with %lld labels and blank %lld, is impossible",
                                      (long long)c->steps, (long long)c->batch, (long long)c->classes, (long long)c->most,
                                      (long long)c->blank);
    const int32_t count = samba_ctc_sizes(c, sizes), dtype = stage->operand_count > 0 ? stage->operands[0].dtype : 0;
    SAMBA_TRY(check_sizes(check, stage, count, sizes));
    bool fits = dtype == SAMBA_FLOAT32 || dtype == SAMBA_FLOAT64;
    for (int32_t i = 1; i < count; i++)
        fits = fits && stage->operands[i].dtype == (i < 4 ? (int32_t)SAMBA_INT64 : dtype);
    return fits ? SAMBA_OK : samba_check_stage_fail(check, "a ctc loss takes float32 or float64, and int64 labels and lengths");
}

/* ---- matrix: strided operands over sizes of their own ---- */
static samba_status check_matrix(const samba_check *check, const samba_stage *stage)
{
    const samba_matrix_stage *x = &stage->matrix;
    const int32_t function = x->function, flags[] = {x->upper, x->unit, x->transposed, x->values, x->singular};
    const bool solves = samba_matrix_solves(function), cuts = function == SAMBA_MATRIX_LSTSQ || function == SAMBA_MATRIX_PINV,
               spectrum = function == SAMBA_MATRIX_EIGH || function == SAMBA_MATRIX_SVD,
               tall = function == SAMBA_MATRIX_QR || function == SAMBA_MATRIX_SVD || cuts;
    const int64_t most = SAMBA_PLAN_LARGEST_NUMEL;
    int64_t sizes[3][2];
    bool possible = stage->rank == 3 && function >= 0 && function < SAMBA_MATRIX_FUNCTION_COUNT && x->m >= 0 && x->m <= most &&
                    x->n >= 0 && x->n <= most && x->right >= 0 && x->right <= most && (tall || x->m == x->n) &&
                    (solves || x->right == 0);
    for (int i = 0; i < SAMBA_COUNT(flags); i++)
        possible = possible && (flags[i] == 0 || flags[i] == 1);
    possible = possible && (function == SAMBA_MATRIX_TRIANGULAR || (!x->upper && !x->unit)) &&
               (function == SAMBA_MATRIX_LU_SOLVE || !x->transposed) && (spectrum || !x->values) &&
               (function == SAMBA_MATRIX_LU || !x->singular) && x->atol >= 0 && x->rtol >= 0 &&
               (function == SAMBA_MATRIX_PINV || x->atol == 0) && (cuts || x->rtol == 0);
    if (!possible)
        return samba_check_stage_fail(check, "function %d of matrices %lld x %lld and %lld right sides is impossible", function,
                                      (long long)x->m, (long long)x->n, (long long)x->right);
    const int32_t count = samba_matrix_sizes(x, sizes);
    if (stage->operand_count != count || stage->domain[1] != sizes[count - 1][0] || stage->domain[2] != sizes[count - 1][1])
        return samba_check_stage_fail(check, "function %d has %d operands and a result %lld x %lld, not %d and %lld x %lld",
                                      function, count, (long long)sizes[count - 1][0], (long long)sizes[count - 1][1],
                                      stage->operand_count, (long long)stage->domain[1], (long long)stage->domain[2]);
    for (int32_t i = 0; i < count; i++) {
        const samba_operand *operand = &stage->operands[i];
        const int64_t of[3] = {stage->domain[0], sizes[i][0], sizes[i][1]};
        int64_t numel, reach = operand->offset;
        if ((operand->dtype != SAMBA_FLOAT32 && operand->dtype != SAMBA_FLOAT64) || operand->dtype != stage->operands[0].dtype)
            return samba_check_stage_fail(check, "operand %d is %s: a matrix stage takes float32 or float64, one of both", i,
                                          samba_dtype_name((samba_dtype)operand->dtype));
        if (!samba_check_numel(3, of, &numel) || !add_reach(3, of, operand->strides, &reach) ||
            !samba_check_fits(check->plan, operand->buffer, operand->dtype, numel > 0 ? reach : 0, numel > 0))
            return samba_check_stage_fail(check, "operand %d reaches element %lld of %s, beyond the end of buffer %d", i,
                                          (long long)reach, samba_dtype_name((samba_dtype)operand->dtype), operand->buffer);
    }
    return SAMBA_OK;
}

/* Replicas average sums of gradients, between the sections that make them and those that read them. */
static samba_status check_exchange(const samba_check *check, const samba_stage *stage)
{
    if (stage->rank != 1 || stage->operand_count != 1 || stage->operands[0].buffer < 0 ||
        !samba_dtype_is_floating_point((samba_dtype)stage->operands[0].dtype) ||
        (stage->operands[0].strides[0] != 1 && stage->domain[0] > 1))
        return samba_check_stage_fail(check, "an exchange takes one range of floating-point elements side by side");
    return SAMBA_OK;
}

samba_status samba_check_stage(const samba_check *check, const samba_stage *stage)
{
    int64_t numel;
    if (stage->kind < 0 || stage->kind >= SAMBA_STAGE_KIND_COUNT || !stage->name || stage->flops < 0 || stage->bytes < 0 ||
        stage->rank < 0 || stage->rank > SAMBA_MAX_RANK || stage->operand_count < 0 ||
        stage->operand_count > SAMBA_PLAN_OPERANDS || (stage->operand_count > 0 && !stage->operands))
        return samba_check_stage_fail(check, "kind %d, rank %d, %d operands, FLOPs or bytes are impossible", stage->kind,
                                      stage->rank, stage->operand_count);
    if (!samba_check_numel(stage->rank, stage->domain, &numel))
        return samba_check_stage_fail(check, "a size of its domain is negative, or the domain has more than %lld elements",
                                      (long long)SAMBA_PLAN_LARGEST_NUMEL);
    SAMBA_TRY(check_operands(check, stage, numel));
    switch ((samba_stage_kind)stage->kind) {
    case SAMBA_STAGE_TILE:
        if (stage->rank < 1)
            return samba_check_stage_fail(check, "a tile stage needs a domain of rank 1 or more");
        return samba_check_program(check, stage);
    case SAMBA_STAGE_CONTRACT: return check_contract(check, stage);
    case SAMBA_STAGE_POOL: return check_pool(check, stage);
    case SAMBA_STAGE_GATHER: return check_gather(check, stage);
    case SAMBA_STAGE_ATTENTION: return check_attention(check, stage);
    case SAMBA_STAGE_LINE: return check_line(check, stage);
    case SAMBA_STAGE_EXCHANGE: return check_exchange(check, stage);
    case SAMBA_STAGE_LINEAR: return check_linear(check, stage);
    case SAMBA_STAGE_FOURIER: return check_fourier(check, stage);
    case SAMBA_STAGE_CTC: return check_ctc(check, stage);
    case SAMBA_STAGE_MATRIX: return check_matrix(check, stage);
    case SAMBA_STAGE_KIND_COUNT: break;
    }
    return samba_check_stage_fail(check, "there is no kind %d", stage->kind);
}
