/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows longer than the first cache: what a step loaded or computed by a sum, a difference or a product, and a later one reads, is
 * made there once more, chunk by chunk. Kept for a whole row it would leave the caches and come back, in float32 where memory may
 * hold 16 bits. What a later step makes again, combine.c joins with what it does with it.
 *
 * Memory that the program writes may be memory that it reads, but only element for element (check_overlap.c): a step that begins
 * by loading once more reads what was there unless an earlier step stores. Results stay the same to the last bit. */
#include "device/cpu/tile/tile.h"
#include <string.h>

typedef struct remaking {
    samba_tile_program *program;
    const samba_program *source;
} remaking;

static const samba_instruction *at(const remaking *m, int i) { return &m->source->instructions[i]; }

static int step_of(const remaking *m, int i)
{
    int s = 0;
    while (m->source->steps[s].end <= i)
        s++;
    return s;
}

static bool reads(const samba_instruction *x, int r) { return x->a == r || x->b == r || x->c == r; }

/* The last instruction before `end` that writes r; -1. times: how many of all do. */
static int maker(const remaking *m, int r, int end, int *times)
{
    int last = -1;
    *times = 0;
    for (int i = 0; i < m->program->code_count; i++) {
        *times += at(m, i)->d == r;
        last = at(m, i)->d == r && i < end ? i : last;
    }
    return last;
}

/* A value a row that has been the same since the step of i began, and stays so. */
static bool is_settled(const remaking *m, int r, int i)
{
    int begin = m->source->steps[step_of(m, i)].begin;
    for (int k = begin; k < m->program->code_count; k++)
        if (at(m, k)->d == r && (k > i || !m->program->codes[k].once))
            return false;
    return true;
}

/* Marks i and what it needs of its step; false: not all of it can be made again. */
static bool mark(const remaking *m, int i, uint8_t *marked)
{
    const samba_tile_program *program = m->program;
    const samba_instruction *x = at(m, i);
    const samba_code *code = &program->codes[i];
    const samba_tile_register *registers = program->registers;
    if (code->extent != SAMBA_FULL || code->class_ != SAMBA_F32 || registers[x->d].block)
        return false;
    marked[i] = 1;
    if (x->op == SAMBA_TILE_load)
        return code->action == SAMBA_DO_LOAD && code->kept < 0 && program->views[code->view].col_stride <= 1;
    if (x->op == SAMBA_TILE_spread)
        return is_settled(m, x->a, i);
    if (x->op != SAMBA_TILE_add && x->op != SAMBA_TILE_sub && x->op != SAMBA_TILE_mul)
        return false;
    const int sources[] = {x->a, x->b};
    for (int s = 0; s < 2; s++) {
        int times, from = maker(m, sources[s], i, &times);
        if (from < 0 || registers[sources[s]].extent != SAMBA_FULL)
            return false;
        if (from < m->source->setup) {
            if (times > 1)
                return false;
            continue;
        }
        bool wide = registers[sources[s]].wide;
        if (wide ? times > 1 : from < m->source->steps[step_of(m, i)].begin)
            return false;
        if (wide && registers[sources[s]].direct >= 0 && at(m, from)->op == SAMBA_TILE_load)
            continue; /* memory, or a whole row of it */
        if (!mark(m, from, marked))
            return false;
    }
    return true;
}

/* Whether elements have been stored before step s. */
static bool has_stored(const remaking *m, int s)
{
    for (int i = m->source->setup; i < m->source->steps[s].begin; i++) {
        const samba_instruction *x = at(m, i);
        const samba_code *code = &m->program->codes[i];
        if ((x->op == SAMBA_TILE_store && code->extent == SAMBA_FULL) ||
            (x->d >= 0 && m->program->registers[x->d].direct >= 0 && x->op != SAMBA_TILE_load))
            return true;
    }
    return false;
}

static bool is_read(const remaking *m, int r, int s)
{
    for (int i = m->source->steps[s].begin; i < m->source->steps[s].end; i++)
        if (reads(at(m, i), r))
            return true;
    return false;
}

/* Register r needs room for a chunk only, if each later step that reads it can make it. `again`: a row of marks for each step. */
static void make_again(remaking *m, int r, uint8_t *again, uint8_t *marked)
{
    samba_tile_program *program = m->program;
    const samba_tile_register *of = &program->registers[r];
    int times, i = maker(m, r, program->code_count, &times), count = program->code_count;
    if (!of->wide || of->extent != SAMBA_FULL || of->direct >= 0 || times != 1 || i < m->source->setup)
        return;
    memset(marked, 0, (size_t)count);
    if (!mark(m, i, marked))
        return;
    for (int s = step_of(m, i) + 1; s < m->source->step_count; s++)
        if (is_read(m, r, s) && (!m->source->steps[s].loop || has_stored(m, s)))
            return;
    for (int s = step_of(m, i) + 1; s < m->source->step_count; s++)
        for (int k = 0; k < count && is_read(m, r, s); k++)
            again[s * count + k] |= marked[k];
    program->registers[r].wide = 0;
    for (int k = 0; k < program->moving_count; k++)
        if (program->moving[k] == r)
            program->column_bytes[k] = 0;
}

samba_status samba_tile_remake(samba_tile_program *program, const samba_program *source, samba_program *changed,
                               samba_arena *arena)
{
    remaking m = {.program = program, .source = source};
    size_t count = (size_t)program->code_count, total = count, kept = 0;
    *changed = *source;
    if (count == 0 || source->step_count < 2)
        return SAMBA_OK;
    uint8_t *again = samba_arena_alloc(arena, count * ((size_t)source->step_count + 1));
    if (!again)
        return SAMBA_ERROR_MEMORY;
    memset(again, 0, count * ((size_t)source->step_count + 1));
    /* Marks are found while all registers are as wide as they were. */
    samba_tile_register *before = program->registers;
    size_t registers = (size_t)program->register_count;
    samba_tile_register *after = samba_arena_alloc(arena, registers * sizeof *after);
    if (!after)
        return SAMBA_ERROR_MEMORY;
    memcpy(after, before, registers * sizeof *after);
    for (int r = 0; r < program->register_count; r++) {
        int32_t wide = before[r].wide;
        make_again(&m, r, again, again + count * (size_t)source->step_count);
        after[r].wide = before[r].wide;
        before[r].wide = wide;
    }
    program->registers = after;
    for (size_t k = 0; k < count * (size_t)source->step_count; k++)
        total += again[k];
    if (total == count)
        return SAMBA_OK;
    samba_step *steps = samba_arena_alloc(arena, (size_t)source->step_count * sizeof *steps);
    samba_code *codes = samba_arena_alloc(arena, total * sizeof *codes);
    samba_instruction *instructions = samba_arena_alloc(arena, total * sizeof *instructions);
    if (!steps || !codes || !instructions)
        return SAMBA_ERROR_MEMORY;
    for (; kept < (size_t)source->setup; kept++)
        codes[kept] = program->codes[kept], instructions[kept] = source->instructions[kept];
    for (int s = 0; s < source->step_count; s++) {
        steps[s] = (samba_step){(int32_t)kept, 0, source->steps[s].loop};
        for (size_t k = 0; k < count; k++)
            if (again[(size_t)s * count + k])
                codes[kept] = program->codes[k], instructions[kept++] = source->instructions[k];
        for (int k = source->steps[s].begin; k < source->steps[s].end; k++)
            codes[kept] = program->codes[k], instructions[kept++] = source->instructions[k];
        steps[s].end = (int32_t)kept;
    }
    program->codes = codes;
    program->steps = changed->steps = steps;
    changed->instructions = instructions;
    program->code_count = changed->instruction_count = (int32_t)kept;
    return SAMBA_OK;
}
