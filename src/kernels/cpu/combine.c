/* SPDX-License-Identifier: Apache-2.0
 *
 * Fewer passes over a tile: where an f32 result has one reader in its step, its instruction moves into the reader, if combined.c has
 * a kernel for the two:
 *   spread, then add, sub or mul     the reader takes one value a row (ROWS)
 *   add, sub or mul, then another    one map of three sources
 *   mul, then sum                    a dot product (DOT)
 * Nothing on the way may change what the moved instruction reads: its registers, or memory that one of them is. What results stay
 * is the same to the last bit. */
#include "kernels/cpu/tile.h"
#include <string.h>

#define LONG_ROW 64 /* columns from which a loop for each row is no slower than spreading */

typedef struct combining {
    samba_tile_program *program;
    samba_instruction *list; /* as program->codes, with registers of -1 where the form has none */
    uint8_t *state;          /* of each code: PLAIN, MERGED with another, GONE into another */
} combining;
enum { PLAIN, MERGED, GONE };

static int times_read(const samba_instruction *x, int r) { return (x->a == r) + (x->b == r) + (x->c == r); }

/* The instruction before `end` that alone reads what i makes, and reads it once; -1. */
static int only_reader(const combining *c, int i, int end)
{
    int reader = -1, d = c->list[i].d;
    for (int k = i + 1; k < c->program->code_count; k++) {
        int times = c->state[k] == GONE ? 0 : times_read(&c->list[k], d);
        if (times > 1 || (times == 1 && (reader >= 0 || k >= end)))
            return -1;
        reader = times == 1 ? k : reader;
        if (c->state[k] != GONE && c->list[k].d == d)
            break;
    }
    return reader;
}

/* Would i compute the same at j? */
static bool may_move(const combining *c, int i, int j)
{
    const samba_tile_register *registers = c->program->registers;
    const samba_instruction *moved = &c->list[i];
    bool memory = registers[moved->a].direct >= 0 || (moved->b >= 0 && registers[moved->b].direct >= 0);
    for (int k = i + 1; k < j; k++) {
        const samba_instruction *between = &c->list[k];
        if (c->state[k] == GONE)
            continue;
        if (between->d >= 0 && (between->d == moved->a || between->d == moved->b))
            return false;
        if (memory && (between->op == SAMBA_TILE_store || (between->d >= 0 && registers[between->d].direct >= 0 &&
                                                           between->op != SAMBA_TILE_load)))
            return false;
    }
    return true;
}

static bool is_arithmetic(const combining *c, int i)
{
    int op = c->list[i].op;
    const samba_code *code = &c->program->codes[i];
    return c->state[i] == PLAIN && (op == SAMBA_TILE_add || op == SAMBA_TILE_sub || op == SAMBA_TILE_mul) &&
           code->class_ == SAMBA_F32 && code->extent == SAMBA_FULL;
}

static int number(int op) { return op == SAMBA_TILE_add ? 0 : op == SAMBA_TILE_sub ? 1 : 2; }

static void take(combining *c, int i, int j, int ra, int rb, int rc)
{
    samba_code *code = &c->program->codes[j];
    samba_instruction *x = &c->list[j];
    x->a = (int16_t)ra, x->b = (int16_t)rb, x->c = (int16_t)rc;
    code->a = (int16_t)ra, code->b = (int16_t)rb, code->c = (int16_t)(rc < 0 ? 0 : rc);
    c->state[j] = MERGED;
    c->state[i] = GONE;
}

static void combine_spread(combining *c, int i, int end)
{
    const samba_instruction *from = &c->list[i];
    int j = only_reader(c, i, end);
    if (j < 0 || !is_arithmetic(c, j) || !may_move(c, i, j))
        return;
    const samba_instruction *to = &c->list[j];
    if (to->op == SAMBA_TILE_sub && to->a == from->d)
        return;
    c->program->codes[j].action = SAMBA_DO_ROWS;
    c->program->codes[j].rows = c->program->kernels->combined->rows[number(to->op)];
    take(c, i, j, to->a == from->d ? to->b : to->a, from->a, -1);
}

static void combine_arithmetic(combining *c, int i, int end)
{
    const samba_combined *kernels = c->program->kernels->combined;
    const samba_instruction *from = &c->list[i];
    int j = only_reader(c, i, end);
    if (j < 0 || !may_move(c, i, j))
        return;
    const samba_instruction *to = &c->list[j];
    samba_code *code = &c->program->codes[j];
    if (to->op == SAMBA_TILE_sum && from->op == SAMBA_TILE_mul) {
        code->action = SAMBA_DO_DOT;
        code->dot = kernels->dot;
        take(c, i, j, from->a, from->b, -1);
    } else if (is_arithmetic(c, j)) {
        int then = to->op == SAMBA_TILE_add ? 0 : to->op == SAMBA_TILE_mul ? 3 : to->a == from->d ? 1 : 2;
        code->map = kernels->pair[number(from->op)][then];
        take(c, i, j, from->a, from->b, to->a == from->d ? to->b : to->a);
    }
}

/* Closes the gaps. */
static void close_up(combining *c, samba_step *steps)
{
    samba_tile_program *program = c->program;
    int kept = program->setup;
    for (int s = 0; s < program->step_count; s++) {
        int begin = kept;
        for (int i = program->steps[s].begin; i < program->steps[s].end; i++)
            if (c->state[i] != GONE)
                program->codes[kept++] = program->codes[i];
        steps[s] = (samba_step){begin, kept, program->steps[s].loop};
    }
    program->steps = steps;
    program->code_count = kept;
}

samba_status samba_tile_combine(samba_tile_program *program, const samba_program *source, samba_arena *arena)
{
    size_t codes = (size_t)program->code_count;
    combining c = {.program = program};
    samba_step *steps = samba_arena_alloc(arena, (size_t)program->step_count * sizeof *steps);
    c.list = samba_arena_alloc(arena, codes * sizeof *c.list);
    c.state = samba_arena_alloc(arena, codes);
    if (!steps || !c.list || !c.state)
        return SAMBA_ERROR_MEMORY;
    if (codes > 0)
        memcpy(c.list, source->instructions, codes * sizeof *c.list);
    for (int s = 0; s < program->step_count; s++)
        for (int i = program->steps[s].begin; i < program->steps[s].end; i++)
            if (c.list[i].op == SAMBA_TILE_spread && program->codes[i].class_ == SAMBA_F32 && program->cols >= LONG_ROW)
                combine_spread(&c, i, program->steps[s].end);
    for (int s = 0; s < program->step_count; s++)
        for (int i = program->steps[s].begin; i < program->steps[s].end; i++)
            if (is_arithmetic(&c, i))
                combine_arithmetic(&c, i, program->steps[s].end);
    close_up(&c, steps);
    return SAMBA_OK;
}
