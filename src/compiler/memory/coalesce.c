/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages that run the same program over adjacent memory become one stage over all of it: the update of a model's parameters, each
 * too small to be worth a stage, is one pass. Bytes that alignment leaves between two buffers are computed along; nobody reads
 * them. Within a buffer there is no such gap: between two parts of a concatenation lies a third.
 *
 * Needs: offsets (memory keeps parameters, gradients and states in one order). Gives: fewer stages. Breaks nothing. */
#include "compiler/compiler.h"

#include <string.h>

bool samba_program_equal(const samba_program *a, const samba_program *b)
{
    if (a->register_count != b->register_count || a->instruction_count != b->instruction_count ||
        a->step_count != b->step_count || a->setup != b->setup ||
        memcmp(a->steps, b->steps, sizeof(samba_step) * (size_t)a->step_count) != 0)
        return false;
    for (int i = 0; i < a->register_count; i++) {
        const samba_register *x = &a->registers[i], *y = &b->registers[i];
        if (x->class_ != y->class_ || x->extent != y->extent || x->wide != y->wide || x->direct != y->direct)
            return false;
    }
    for (int i = 0; i < a->instruction_count; i++) {
        const samba_instruction *x = &a->instructions[i], *y = &b->instructions[i];
        if (x->op != y->op || x->d != y->d || x->a != y->a || x->b != y->b || x->c != y->c || x->operand != y->operand ||
            x->immediate != y->immediate)
            return false;
    }
    return true;
}

static bool elementwise(const samba_program *p)
{
    for (int i = 0; i < p->instruction_count; i++) {
        samba_tile_form form = samba_tile_table[p->instructions[i].op].form;
        if (form == SAMBA_FORM_COLLECT || form == SAMBA_FORM_REDUCE || form == SAMBA_FORM_RANDOM || form == SAMBA_FORM_IOTA ||
            form == SAMBA_FORM_BLOCK)
            return false;
    }
    return true;
}

static int64_t address(const samba_plan *plan, const samba_operand *o)
{
    return plan->buffers[o->buffer].offset + o->offset * (int64_t)samba_dtype_size((samba_dtype)o->dtype);
}

/* Does b read what a writes? */
static bool feeds(const samba_plan *plan, const samba_stage *a, const samba_stage *b)
{
    for (int i = 0; i < a->program.instruction_count; i++) {
        if (samba_tile_table[a->program.instructions[i].op].form != SAMBA_FORM_STORE)
            continue;
        const samba_operand *written = &a->operands[a->program.instructions[i].operand];
        int64_t from = address(plan, written), to = from + a->domain[0] * (int64_t)samba_dtype_size((samba_dtype)written->dtype);
        for (int j = 0; j < b->program.instruction_count; j++) {
            if (samba_tile_table[b->program.instructions[j].op].form != SAMBA_FORM_LOAD)
                continue;
            const samba_operand *read = &b->operands[b->program.instructions[j].operand];
            int64_t begin = address(plan, read), count = read->strides[0] == 0 ? 1 : b->domain[0];
            if (begin < to && begin + count * (int64_t)samba_dtype_size((samba_dtype)read->dtype) > from)
                return true;
        }
    }
    return false;
}

/* One pass computes elements of both in any order, by several threads: neither may write what the other reads. */
static bool are_apart(const samba_plan *plan, const samba_stage *a, const samba_stage *b)
{
    return !feeds(plan, a, b) && !feeds(plan, b, a);
}

/* Does alignment alone lie between what x and y cover? */
static bool buffers_meet(const samba_plan *plan, const samba_operand *x, int64_t count, const samba_operand *y)
{
    return (x->offset + count) * (int64_t)samba_dtype_size((samba_dtype)x->dtype) == plan->buffers[x->buffer].bytes &&
           y->offset == 0;
}

/* Elements from the first stage's domain to the next one's, the same for every operand that moves;
 * 0 when they cannot be joined. */
static int64_t distance(const samba_plan *plan, const samba_stage *a, const samba_stage *b)
{
    if (a->kind != SAMBA_STAGE_TILE || b->kind != SAMBA_STAGE_TILE || a->rank != 1 || b->rank != 1 ||
        a->operand_count != b->operand_count || a->domain[0] == 0 || b->domain[0] == 0 ||
        !samba_program_equal(&a->program, &b->program) || !elementwise(&a->program))
        return 0;
    int64_t result = 0;
    for (int o = 0; o < a->operand_count; o++) {
        const samba_operand *x = &a->operands[o], *y = &b->operands[o];
        if (x->dtype != y->dtype)
            return 0;
        bool scalar = x->buffer == y->buffer && x->offset == y->offset && (x->strides[0] == 0 || a->domain[0] == 1) &&
                      (y->strides[0] == 0 || b->domain[0] == 1);
        bool setup = false; /* a setup load is the same scalar for all; only a value a loop reads may move */
        for (int i = 0; i < a->program.setup; i++)
            setup = setup || a->program.instructions[i].operand == o;
        if (setup && scalar)
            continue;
        if (setup || (x->strides[0] != 1 && a->domain[0] != 1) || (y->strides[0] != 1 && b->domain[0] != 1))
            return 0;
        int64_t size = (int64_t)samba_dtype_size((samba_dtype)x->dtype), bytes = address(plan, y) - address(plan, x);
        if (bytes <= 0 || bytes % size != 0 || bytes / size < a->domain[0] || bytes - a->domain[0] * size >= SAMBA_ALIGNMENT ||
            (bytes / size > a->domain[0] && !buffers_meet(plan, x, a->domain[0], y)) || (result != 0 && bytes / size != result))
            return 0;
        result = bytes / size;
    }
    return result;
}

/* Stretches stage `a` over `b`, which begins `start` elements after it. */
static samba_status join(samba_compiler *c, samba_stage *a, const samba_stage *b, int64_t start)
{
    samba_plan *plan = &c->plan;
    a->domain[0] = start + b->domain[0];
    a->flops += b->flops;
    a->bytes += b->bytes;
    for (int o = 0; o < a->operand_count; o++) {
        samba_operand *x = &a->operands[o];
        bool setup = false;
        for (int i = 0; i < a->program.setup; i++)
            setup = setup || a->program.instructions[i].operand == o;
        if (setup)
            continue;
        int64_t size = (int64_t)samba_dtype_size((samba_dtype)x->dtype), from = address(plan, x);
        int64_t before = from % SAMBA_ALIGNMENT; /* an operand may be a piece in the middle of a buffer; buffers begin aligned */
        int32_t span;
        SAMBA_TRY(samba_plan_add_buffer(c, before + a->domain[0] * size, true, &span));
        plan->buffers[span].offset = from - before;
        x->buffer = span;
        x->offset = before / size;
        x->strides[0] = 1;
    }
    return SAMBA_OK;
}

/* The bytes that the stage touches over so many elements. */
static int64_t bytes_with(const samba_stage *stage, int64_t elements)
{
    int64_t bytes = 0;
    for (int o = 0; o < stage->operand_count; o++)
        bytes += elements * (int64_t)samba_dtype_size((samba_dtype)stage->operands[o].dtype);
    return bytes;
}

static samba_status rename_stage(samba_compiler *c, samba_stage *stage, int count)
{
    const char *ops = strchr(stage->name, ':');
    samba_text text;
    samba_text_init(&text, c->context);
    samba_text_add(&text, "%d tensors%s", count, ops ? ops : "");
    return samba_text_keep(&text, &c->plan.arena, &stage->name);
}

samba_status samba_pass_coalesce(samba_compiler *c)
{
    samba_plan *plan = &c->plan;
    int32_t kept = 0;
    for (int32_t s = 0; s < plan->stage_count;) {
        samba_stage *first = &plan->stages[kept];
        samba_plan_move_stage(c, s, kept);
        samba_stage last = plan->stages[s]; /* as it was: distances are between neighbours */
        int64_t start = 0;
        int32_t next = s + 1;
        const int32_t bucket = samba_bucket_read(c, kept, kept); /* replicas may update one while another still travels */
        for (; next < plan->stage_count && samba_made_alike(c, next, kept); next++) {
            int64_t step = distance(plan, &last, &plan->stages[next]);
            if (step == 0 || !are_apart(plan, first, &plan->stages[next]) || samba_bucket_read(c, next, kept) != bucket)
                break;
            int64_t budget = plan->graphs[c->growth.made[kept].graph].fast_memory;
            if (budget > 0 && bytes_with(first, start + step + plan->stages[next].domain[0]) > budget)
                break;           /* a section could not hold it */
            if (next == s + 1) { /* the joined stage's operands change: keep its neighbour's view of them apart */
                samba_operand *own;
                SAMBA_TRY(SAMBA_ROOM(&plan->arena, own, first->operand_count + 1));
                memcpy(own, first->operands, sizeof(samba_operand) * (size_t)first->operand_count);
                first->operands = own;
            }
            start += step;
            last = plan->stages[next];
            SAMBA_TRY(join(c, first, &last, start));
        }
        if (next > s + 1) {
            SAMBA_TRY(rename_stage(c, first, next - s));
            SAMBA_TRY(samba_stage_operators_join(c, first, &plan->stages[s], next - s));
        }
        s = next;
        kept++;
    }
    plan->stage_count = kept;
    return SAMBA_OK;
}
