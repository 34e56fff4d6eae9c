/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile programs: each instruction has exactly the registers of its form, of classes and extents that fit; no register is read
 * before it was written; steps cover the instructions behind the setup, in order. What a form needs is one row of a table.
 *
 * Extents bound a kernel's writes: a FULL register holds a chunk of a row and is computed in loop steps only, a ROW register
 * holds one value a row. Registers of the setup are filled to capacity and serve as both, so nothing else may write them. */
#include "plan/check.h"

#include <math.h>

/* Classes of d and the sources. A register that meets memory also has the class of the operand's dtype. */
typedef enum rule {
    FREE,      /* any */
    ONE,       /* all of one class */
    PREDICATE, /* a b of one class, d f32 */
    CHOICE,    /* a f32; b c d of one class */
    ALL_F32,
    ALL_I64,
    UNIFORM /* d f32, a i64 */
} rule;
typedef struct form_facts {
    bool d, a, b, c, operand, setup; /* what it has; whether it may stand in the setup */
    rule rule;
} form_facts;
static const form_facts forms[] = {
    [SAMBA_FORM_LOAD] = {.d = true, .operand = true, .setup = true, .rule = FREE},
    [SAMBA_FORM_STORE] = {.a = true, .operand = true, .rule = FREE},
    [SAMBA_FORM_BLOCK] = {.d = true, .rule = FREE},
    [SAMBA_FORM_CONST] = {.d = true, .setup = true, .rule = FREE},
    [SAMBA_FORM_IOTA] = {.d = true, .rule = ALL_I64},
    [SAMBA_FORM_RANDOM] = {.d = true, .a = true, .operand = true, .rule = UNIFORM},
    [SAMBA_FORM_UNARY] = {.d = true, .a = true, .setup = true, .rule = ONE},
    [SAMBA_FORM_BINARY] = {.d = true, .a = true, .b = true, .setup = true, .rule = ONE},
    [SAMBA_FORM_COMPARE] = {.d = true, .a = true, .b = true, .setup = true, .rule = PREDICATE},
    [SAMBA_FORM_WHERE] = {.d = true, .a = true, .b = true, .c = true, .setup = true, .rule = CHOICE},
    [SAMBA_FORM_TERNARY] = {.d = true, .a = true, .b = true, .c = true, .setup = true, .rule = ONE},
    [SAMBA_FORM_CONVERT] = {.d = true, .a = true, .setup = true, .rule = FREE},
    [SAMBA_FORM_WRAP] = {.d = true, .a = true, .setup = true, .rule = ALL_I64},
    [SAMBA_FORM_ROUND] = {.d = true, .a = true, .setup = true, .rule = ALL_F32},
    [SAMBA_FORM_REDUCE] = {.d = true, .a = true, .rule = ONE},
    [SAMBA_FORM_SPREAD] = {.d = true, .a = true, .rule = ONE},
    [SAMBA_FORM_COLLECT] = {.a = true, .operand = true, .rule = FREE},
};

typedef enum register_state { UNSET = 0, SET = 1, SET_UP = 2 } register_state;
typedef struct walk {
    const samba_check *check;
    const samba_stage *stage;
    const samba_program *program;
    int32_t at;       /* instruction */
    bool setup, loop; /* where it stands */
    uint8_t state[SAMBA_PLAN_REGISTERS];
} walk;

static samba_status fail_at(const walk *w, const char *reason)
{
    const samba_instruction *i = &w->program->instructions[w->at];
    return samba_check_stage_fail(w->check, "instruction %d (%s d=%d a=%d b=%d c=%d operand=%d): %s", w->at,
                                  samba_tile_table[i->op].name, i->d, i->a, i->b, i->c, i->operand, reason);
}

static bool register_fits(const walk *w, bool wanted, int16_t index)
{
    return wanted ? index >= 0 && index < w->program->register_count : index == -1;
}

static int class_of(const walk *w, int16_t index) { return w->program->registers[index].class_; }

static bool classes_fit(const walk *w, const samba_instruction *i, samba_tile_form form)
{
    switch (forms[form].rule) {
    case FREE: return true;
    case ONE:
        return (class_of(w, i->d) == class_of(w, i->a) || (i->op == SAMBA_TILE_argmax && class_of(w, i->d) == SAMBA_I64)) &&
               (i->op != SAMBA_TILE_argmax || class_of(w, i->d) == SAMBA_I64) &&
               (i->b < 0 || class_of(w, i->b) == class_of(w, i->a));
    case PREDICATE: return class_of(w, i->d) == SAMBA_F32 && class_of(w, i->a) == class_of(w, i->b);
    case CHOICE:
        return class_of(w, i->a) == SAMBA_F32 && class_of(w, i->d) == class_of(w, i->b) && class_of(w, i->d) == class_of(w, i->c);
    case ALL_F32: return class_of(w, i->d) == SAMBA_F32 && class_of(w, i->a) == SAMBA_F32;
    case ALL_I64: return class_of(w, i->d) == SAMBA_I64 && (i->a < 0 || class_of(w, i->a) == SAMBA_I64);
    case UNIFORM: return class_of(w, i->d) == SAMBA_F32 && class_of(w, i->a) == SAMBA_I64;
    }
    return false;
}

/* Does the source serve as `extent` here? */
static bool serves(const walk *w, int16_t source, samba_extent extent)
{
    return source < 0 || w->state[source] == SET_UP || w->program->registers[source].extent == extent;
}

/* Rows without columns are rows: what is read or stored once a row is touched there, though the domain has no element. */
static bool rows_fit(const samba_check *check, const samba_stage *stage, const samba_operand *operand)
{
    bool rows = stage->domain[stage->rank - 1] == 0;
    for (int32_t dim = 0; dim < stage->rank - 1; dim++)
        rows &= stage->domain[dim] > 0;
    return !rows || samba_check_reach(check, stage, operand);
}

static samba_status check_extents(const walk *w, const samba_instruction *i, samba_tile_form form)
{
    samba_extent extent = (samba_extent)w->program->registers[i->d >= 0 ? i->d : i->a].extent;
    if (i->d < 0 && w->state[i->a] == SET_UP)
        extent = w->loop ? SAMBA_FULL : SAMBA_ROW;
    samba_extent source = form == SAMBA_FORM_REDUCE ? SAMBA_FULL : form == SAMBA_FORM_SPREAD ? SAMBA_ROW : extent;
    bool any = form == SAMBA_FORM_RANDOM; /* its source is one number */
    if (!any && (!serves(w, i->a, source) || !serves(w, i->b, source) || !serves(w, i->c, source)))
        return fail_at(w, "a source has the other extent");
    if ((form == SAMBA_FORM_REDUCE && extent != SAMBA_ROW) ||
        ((form == SAMBA_FORM_SPREAD || form == SAMBA_FORM_BLOCK) && extent != SAMBA_FULL))
        return fail_at(w, "the result has the other extent");
    if ((extent == SAMBA_FULL || form == SAMBA_FORM_REDUCE) && !w->loop)
        return fail_at(w, "it works on chunks of rows but stands outside a loop step");
    if (extent == SAMBA_ROW && (form == SAMBA_FORM_LOAD || form == SAMBA_FORM_STORE) &&
        !rows_fit(w->check, w->stage, &w->stage->operands[i->operand]))
        return fail_at(w, "its operand lies beyond the end of its buffer"); /* for rows; there are no columns */
    return SAMBA_OK;
}

static samba_status check_setup(const walk *w, const samba_instruction *i, samba_tile_form form)
{
    if (!forms[form].setup)
        return fail_at(w, "it may not stand in the setup");
    const int16_t sources[] = {i->a, i->b, i->c};
    for (int s = 0; s < 3; s++)
        if (sources[s] >= 0 && w->state[sources[s]] != SET_UP)
            return fail_at(w, "a source is not of the setup");
    if (w->program->registers[i->d].direct >= 0)
        return fail_at(w, "a register of the setup cannot lie in an operand");
    for (int32_t dim = 0; form == SAMBA_FORM_LOAD && dim < w->stage->rank; dim++)
        if (w->stage->operands[i->operand].strides[dim] != 0)
            return fail_at(w, "an operand loaded in the setup has a stride");
    if (form == SAMBA_FORM_LOAD && !samba_check_reach(w->check, w->stage, &w->stage->operands[i->operand]))
        return fail_at(w, "its operand lies beyond the end of its buffer"); /* the setup runs on an empty domain too */
    return SAMBA_OK;
}

/* The result of a COLLECT is stored even when there was nothing to collect, unless it is empty itself. */
static bool collect_fits(const walk *w, const samba_operand *operand, bool full)
{
    int32_t last = w->stage->rank - 1;
    if (!full && operand->strides[last] != 0 && w->stage->domain[last] != 1)
        return false; /* one value a row has no column to go to */
    for (int32_t dim = 0; dim < w->stage->rank; dim++)
        if (w->stage->domain[dim] == 0 && operand->strides[dim] != 0)
            return true;
    return samba_check_reach(w->check, w->stage, operand);
}

static samba_status check_form(const walk *w, const samba_instruction *i, samba_tile_form form)
{
    if (form == SAMBA_FORM_BLOCK && (w->stage->kind != SAMBA_STAGE_CONTRACT || class_of(w, i->d) != w->stage->contract.class_))
        return fail_at(w, "there is no block of that class");
    if (form == SAMBA_FORM_IOTA && !(i->immediate >= 0 && i->immediate < w->stage->rank && i->immediate == trunc(i->immediate)))
        return fail_at(w, "there is no such dim");
    const bool in_memory = forms[form].operand && form != SAMBA_FORM_RANDOM;
    if (in_memory && w->stage->operands[i->operand].buffer < 0)
        return fail_at(w, "its operand has no buffer");
    if (in_memory &&
        (int)samba_class_of((samba_dtype)w->stage->operands[i->operand].dtype) != class_of(w, i->d >= 0 ? i->d : i->a))
        return fail_at(w, "its operand's dtype is of another class than its register");
    if (form == SAMBA_FORM_COLLECT &&
        !collect_fits(w, &w->stage->operands[i->operand], w->program->registers[i->a].extent == SAMBA_FULL))
        return fail_at(w, "its operand reaches beyond the end of its buffer, or has columns for values of rows");
    return SAMBA_OK;
}

static samba_status check_instruction(walk *w)
{
    const samba_instruction *i = &w->program->instructions[w->at];
    if (i->op >= SAMBA_TILE_COUNT)
        return samba_check_stage_fail(w->check, "instruction %d: there is no tile operator %d among %d", w->at, i->op,
                                      (int)SAMBA_TILE_COUNT);
    samba_tile_form form = samba_tile_table[i->op].form;
    const form_facts *facts = &forms[form];
    if (!register_fits(w, facts->d, i->d) || !register_fits(w, facts->a, i->a) || !register_fits(w, facts->b, i->b) ||
        !register_fits(w, facts->c, i->c))
        return fail_at(w, "a register is missing, too many or not there");
    if (facts->operand ? i->operand < 0 || i->operand >= w->stage->operand_count : i->operand != -1)
        return fail_at(w, "the operand is missing, too many or not there");
    const int16_t sources[] = {i->a, i->b, i->c};
    for (int s = 0; s < 3; s++)
        if (sources[s] >= 0 && w->state[sources[s]] == UNSET)
            return fail_at(w, "a source was not written before");
    if (!classes_fit(w, i, form))
        return fail_at(w, "classes of registers do not fit");
    SAMBA_TRY(check_form(w, i, form));
    if (i->d >= 0 && w->state[i->d] == SET_UP && !w->setup)
        return fail_at(w, "it writes a register of the setup");
    SAMBA_TRY(w->setup ? check_setup(w, i, form) : check_extents(w, i, form));
    if (i->d >= 0)
        w->state[i->d] = w->setup ? SET_UP : SET;
    return SAMBA_OK;
}

static samba_status check_registers(const samba_check *check, const samba_stage *stage)
{
    const samba_program *program = &stage->program;
    int64_t wide = 0;
    for (int32_t i = 0; i < program->register_count; i++) {
        const samba_register *r = &program->registers[i];
        if (r->class_ > SAMBA_I64 || r->extent > SAMBA_ROW || r->wide > 1 || r->direct < -1 || r->direct >= stage->operand_count)
            return samba_check_stage_fail(check, "register %d: class %d, extent %d, wide %d or direct operand %d is impossible",
                                          i, r->class_, r->extent, r->wide, r->direct);
        if (r->direct >= 0 && (stage->operands[r->direct].buffer < 0 ||
                               samba_class_of((samba_dtype)stage->operands[r->direct].dtype) != (samba_register_class)r->class_))
            return samba_check_stage_fail(
                check, "register %d cannot lie in operand %d: its class is another or there is no buffer", i, r->direct);
        if (r->direct >= 0 && r->extent == SAMBA_ROW && !rows_fit(check, stage, &stage->operands[r->direct]))
            return samba_check_stage_fail(check, "register %d lies in operand %d, beyond the end of its buffer", i, r->direct);
        wide += r->wide;
    }
    /* Wide registers hold whole rows in every thread's scratch. */
    int64_t bytes;
    if (!samba_mul_checked(wide * 8, stage->domain[stage->rank - 1], &bytes) || bytes > SAMBA_PLAN_LARGEST_MEMORY)
        return samba_check_stage_fail(check, "%lld registers for whole rows of %lld elements need too much memory",
                                      (long long)wide, (long long)stage->domain[stage->rank - 1]);
    return SAMBA_OK;
}

samba_status samba_check_program(const samba_check *check, const samba_stage *stage)
{
    const samba_program *program = &stage->program;
    if (program->register_count < 0 || program->register_count > SAMBA_PLAN_REGISTERS || program->instruction_count < 0 ||
        program->step_count < 0 || program->setup < 0 || program->setup > program->instruction_count ||
        (program->register_count > 0 && !program->registers) || (program->instruction_count > 0 && !program->instructions) ||
        (program->step_count > 0 && !program->steps))
        return samba_check_stage_fail(check, "a program of %d registers, %d instructions (%d setup) and %d steps is impossible",
                                      program->register_count, program->instruction_count, program->setup, program->step_count);
    SAMBA_TRY(check_registers(check, stage));
    walk w = {.check = check, .stage = stage, .program = program, .setup = true};
    for (; w.at < program->setup; w.at++)
        SAMBA_TRY(check_instruction(&w));
    w.setup = false;
    for (int32_t s = 0; s < program->step_count; s++) {
        const samba_step *step = &program->steps[s];
        if (step->begin != w.at || step->end < step->begin || step->end > program->instruction_count ||
            (step->loop != 0 && step->loop != 1))
            return samba_check_stage_fail(check, "step %d takes instructions [%d, %d) where %d is next of %d", s, step->begin,
                                          step->end, w.at, program->instruction_count);
        w.loop = step->loop;
        for (; w.at < step->end; w.at++)
            SAMBA_TRY(check_instruction(&w));
    }
    if (w.at != program->instruction_count)
        return samba_check_stage_fail(check, "%d instructions belong to no step", program->instruction_count - w.at);
    return SAMBA_OK;
}
