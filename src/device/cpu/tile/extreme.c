/* SPDX-License-Identifier: Apache-2.0
 *
 * extreme.h: which programs, and how their dims are walked. The dims are those of the domain, merged where both operands see two
 * as one. The last is a row, or the columns of the one before it; those before are counted through. Threads part at a dim that
 * stays, so that each writes results of its own; a stage that has none large enough is a tile program for several threads. */
#include "device/cpu/tile/extreme.h"
#include "device/cpu/machine.h"
#include <string.h>

enum { LINE = 64 }; /* bytes that two threads had better not share */

typedef struct dim {
    int64_t size, from, to; /* strides in elements of what is read and of the results: 0 where it is reduced */
} dim;

typedef struct extreme {
    dim dims[SAMBA_MAX_RANK];
    int rank, split; /* split: the dim that threads divide, -1: there is one thread */
    int64_t size;    /* of an element */
    int64_t unit;    /* of the dim that threads divide */
    const char *from;
    char *to;
    void (*row)(void *d, const void *a, int64_t n, bool first);
    void (*columns)(void *d, const void *a, int64_t stride, int64_t rows, int64_t cols, bool first);
    double all; /* ns */
} extreme;

/* Elements [begin, end) of the dim that threads divide. */
static void run_range(const extreme *e, int64_t begin, int64_t end)
{
    int64_t at[SAMBA_MAX_RANK] = {0}, low[SAMBA_MAX_RANK] = {0}, high[SAMBA_MAX_RANK], from = 0, to = 0;
    for (int d = 0; d < e->rank; d++)
        high[d] = e->dims[d].size;
    if (e->split >= 0) {
        low[e->split] = begin;
        high[e->split] = end;
        from = begin * e->dims[e->split].from;
        to = begin * e->dims[e->split].to;
    }
    if (begin >= end)
        return;
    const dim *last = &e->dims[e->rank - 1];
    int64_t n = high[e->rank - 1] - low[e->rank - 1];
    bool by_rows = last->to == 0, one = by_rows || e->rank == 1 || last[-1].to != 0; /* one: the dim before is counted through */
    int outer = e->rank - (one ? 2 : 3);
    memcpy(at, low, sizeof at);
    for (int d = 0; d >= 0;) {
        bool first = true;
        for (int k = 0; k <= outer; k++)
            first &= e->dims[k].to != 0 || at[k] == 0;
        const char *a = e->from + from * e->size;
        char *result = e->to + to * e->size;
        if (by_rows)
            e->row(result, a, n, first);
        else
            e->columns(result, a, one ? 0 : last[-1].from, one ? 1 : last[-1].size, n, first);
        for (d = outer; d >= 0; d--) {
            from += e->dims[d].from;
            to += e->dims[d].to;
            if (++at[d] < high[d])
                break;
            from -= (high[d] - low[d]) * e->dims[d].from;
            to -= (high[d] - low[d]) * e->dims[d].to;
            at[d] = low[d];
        }
    }
}

static int64_t units_of(const extreme *e) { return e->split < 0 ? 1 : (e->dims[e->split].size + e->unit - 1) / e->unit; }

static void run(const void *state, char *scratch, int phase, int thread, int threads)
{
    const extreme *e = state;
    (void)scratch, (void)phase;
    if (e->split < 0) {
        run_range(e, 0, thread == 0);
        return;
    }
    int64_t units = units_of(e), size = e->dims[e->split].size, end = units * (thread + 1) / threads * e->unit;
    run_range(e, units * thread / threads * e->unit, end < size ? end : size);
}

static int64_t extreme_units(const void *state, int phase, int threads, bool *free)
{
    (void)phase, (void)threads;
    *free = false;
    return units_of(state);
}

static double extreme_work(const void *state, int phase, int threads, int64_t unit)
{
    const extreme *e = state;
    (void)phase, (void)threads;
    if (e->split < 0)
        return e->all;
    int64_t size = e->dims[e->split].size, left = size - unit * e->unit;
    return e->all * (double)(left < e->unit ? left : e->unit) / (double)size;
}

static const samba_dealing extreme_dealing = {extreme_units, extreme_work, NULL, NULL};

/* ---- preparing ---- */
/* What a program of a load and one reduction reduces, and where the results go; false: it is another one. */
static bool match(const samba_stage *stage, const samba_operand **from, const samba_operand **to, bool *greatest, bool *row)
{
    const samba_program *program = &stage->program;
    const samba_instruction *list = program->instructions;
    int count = program->instruction_count, result = count > 1 ? list[1].d : -1;
    if (program->setup > 0 || count < 2 || count > 4 || list[0].op != SAMBA_TILE_load || list[1].a != list[0].d ||
        program->registers[list[0].d].extent != SAMBA_FULL)
        return false;
    *row = count > 2;
    if (count == 4) { /* an extreme is in the range of what it is of */
        if (samba_tile_table[list[2].op].form != SAMBA_FORM_WRAP || list[2].a != result)
            return false;
        result = list[2].d;
    }
    if (*row &&
        (list[count - 1].op != SAMBA_TILE_store || list[count - 1].a != result || program->registers[result].extent != SAMBA_ROW))
        return false;
    samba_tile high = *row ? SAMBA_TILE_amax : SAMBA_TILE_collect_amax, low = *row ? SAMBA_TILE_amin : SAMBA_TILE_collect_amin;
    *from = &stage->operands[list[0].operand];
    *to = &stage->operands[list[count - 1].operand];
    *greatest = list[1].op == high;
    return (list[1].op == high || list[1].op == low) && (*from)->dtype == (*to)->dtype;
}

static bool narrow_of(samba_dtype dtype, samba_narrow *narrow)
{
    switch (dtype) {
    case SAMBA_INT8: *narrow = SAMBA_NARROW_INT8; return true;
    case SAMBA_UINT8: *narrow = SAMBA_NARROW_UINT8; return true;
    case SAMBA_INT16: *narrow = SAMBA_NARROW_INT16; return true;
    case SAMBA_INT32: *narrow = SAMBA_NARROW_INT32; return true;
    default: return false;
    }
}

static bool plan_dims(const samba_stage *stage, const samba_operand *from, const samba_operand *to, bool row, extreme *e)
{
    for (int d = 0; d < stage->rank; d++) {
        dim next = {stage->domain[d], from->strides[d], row && d == stage->rank - 1 ? 0 : to->strides[d]};
        dim *before = e->rank > 0 ? &e->dims[e->rank - 1] : NULL;
        if (next.size == 0)
            return false;
        if (next.size == 1)
            continue;
        if (before && before->from == next.size * next.from && before->to == next.size * next.to)
            *before = (dim){before->size * next.size, next.from, next.to};
        else
            e->dims[e->rank++] = next;
    }
    if (e->rank == 0)
        return false;
    const dim *last = &e->dims[e->rank - 1];
    /* what is begun for each row had better be worth it */
    return last->from == 1 && (last->to == 0 || last->to == 1) && last->size * e->size >= LINE;
}

/* Finds the dim for so many threads. */
static bool divide(extreme *e, int threads)
{
    e->split = -1;
    e->unit = 1;
    for (int d = 0; d < e->rank && e->split < 0; d++) {
        int64_t unit = d == e->rank - 1 ? LINE / e->size : 1;
        if (e->dims[d].to != 0 && e->dims[d].size >= 4 * threads * unit) {
            e->split = d;
            e->unit = unit;
        }
    }
    return e->split >= 0 || threads == 1;
}

samba_status samba_prepare_extreme(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared,
                                   bool *extreme_)
{
    const samba_operand *from, *to;
    bool greatest, row;
    samba_narrow narrow;
    extreme e = {0};
    *extreme_ = false;
    if (!match(stage, &from, &to, &greatest, &row) || !narrow_of((samba_dtype)from->dtype, &narrow))
        return SAMBA_OK;
    e.size = (int64_t)samba_dtype_size((samba_dtype)from->dtype);
    if (!plan_dims(stage, from, to, row, &e) || !divide(&e, prepare->threads))
        return SAMBA_OK;
    extreme *kept = samba_arena_alloc(prepare->arena, sizeof *kept);
    if (!kept)
        return SAMBA_ERROR_MEMORY;
    const samba_extremes *kernels = prepare->machine->kernels->extremes;
    e.row = kernels->row[narrow][greatest];
    e.columns = kernels->columns[narrow][greatest];
    e.from = prepare->memory + prepare->buffers[from->buffer].offset + from->offset * e.size;
    e.to = prepare->memory + prepare->buffers[to->buffer].offset + to->offset * e.size;
    e.all = (double)stage->bytes / (prepare->far ? prepare->machine->share.memory : prepare->machine->share.cached) * 1e9;
    *kept = e;
    *prepared = (samba_prepared){.run = run, .state = kept, .phases = 1, .dealing = &extreme_dealing};
    *extreme_ = true;
    return SAMBA_OK;
}
