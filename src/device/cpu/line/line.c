/* SPDX-License-Identifier: Apache-2.0
 *
 * A line stage: sorting, running sums and their like, or margins between classes, along one dim of contiguous operands. */
#include "device/cpu/line/line.h"

static bool is_order(const samba_line *line) { return line->function == SAMBA_LINE_SORT || line->function == SAMBA_LINE_CHOOSE; }

/* What a thread does is one unit: how lines are dealt, sort.c and scan.c say. */
static int64_t line_units(const void *state, int phase, int threads, bool *free)
{
    (void)state, (void)phase;
    *free = false;
    return threads;
}

static double line_work(const void *state, int phase, int threads, int64_t unit)
{
    const samba_line_state *s = state;
    (void)phase;
    double share = is_order(&s->line) ? samba_sort_share(s, (int)unit, threads) : samba_scan_share(s, (int)unit, threads);
    return share * s->all;
}

static const samba_dealing line_dealing = {line_units, line_work, NULL, NULL};

samba_status samba_prepare_line(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    samba_line_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    const samba_operand *operand = stage->operands;
    bool sorts = is_order(&stage->line),
         margin = stage->line.function == SAMBA_LINE_MARGIN || stage->line.function == SAMBA_LINE_MARGIN_GRAD;
    *s = (samba_line_state){.line = stage->line,
                            .machine = prepare->machine,
                            .kernels = prepare->machine->kernels,
                            .threads = prepare->threads,
                            .dtype = (samba_dtype)operand->dtype};
    s->x = samba_operand_memory(prepare, operand++);
    s->fault = prepare->fault;
    s->fault_value = prepare->stage_index + 1;
    if (margin)
        s->margins.labels = (const int64_t *)(const void *)samba_operand_memory(prepare, operand++);
    if (s->line.function == SAMBA_LINE_CUMPROD_GRAD || s->line.function == SAMBA_LINE_MARGIN_GRAD)
        s->dy = samba_operand_memory(prepare, operand++);
    if (s->line.has_values)
        s->values = samba_operand_memory(prepare, operand++);
    if (s->line.has_indices)
        s->indices = (int64_t *)(void *)samba_operand_memory(prepare, operand++);
    (sorts ? samba_line_prepare_sort : margin ? samba_line_prepare_margin : samba_line_prepare_scan)(s);
    s->all = (double)stage->flops / prepare->machine->share.line * 1e9 / (s->shared_scratch > 0 ? 2 : 1);
    *prepared = (samba_prepared){.run = sorts    ? samba_run_sort
                                        : margin ? samba_run_margin
                                                 : samba_run_scan,
                                 .state = s,
                                 .phases = s->shared_scratch > 0 ? 2 : 1,
                                 .dealing = &line_dealing,
                                 .shared_scratch = s->shared_scratch,
                                 .thread_scratch = s->thread_scratch};
    return SAMBA_OK;
}
