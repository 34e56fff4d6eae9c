/* SPDX-License-Identifier: Apache-2.0
 *
 * See finish.h. The program is recognised instruction by instruction: block, load and add, once or twice, relu or bounds, store,
 * nothing else; the same operations in the same order as the interpreter's, so the results are the same bits. */
#include "device/cpu/product/finish.h"
#include <math.h>
#include <string.h>

/* The program's next instructions, and what they have computed so far: `value`, a register. */
typedef struct reader {
    const samba_program *program;
    const samba_instruction *at, *end;
    int value;
} reader;

static bool take_unary(reader *r, int op)
{
    if (r->at == r->end || r->at->op != op || r->at->a != r->value)
        return false;
    r->value = r->at++->d;
    return true;
}

static bool take_round(reader *r, samba_dtype dtype)
{
    return (dtype == SAMBA_BFLOAT16 && take_unary(r, SAMBA_TILE_round_bfloat16)) ||
           (dtype == SAMBA_FLOAT16 && take_unary(r, SAMBA_TILE_round_float16));
}

/* What is loaded and added: its operand, else -1. */
static int take_added(reader *r)
{
    const samba_instruction *load = r->at, *add = load + 1;
    if (r->end - load < 2 || load->op != SAMBA_TILE_load || add->op != SAMBA_TILE_add ||
        r->program->registers[load->d].class_ != SAMBA_F32 ||
        !((add->a == r->value && add->b == load->d) || (add->b == r->value && add->a == load->d)))
        return -1;
    r->at += 2;
    r->value = add->d;
    return load->operand;
}

/* One value a row, or one a column that all rows share. */
static bool is_bias(const samba_stage *stage, const samba_operand *operand)
{
    int last = stage->rank - 1;
    bool rows = false;
    for (int i = 0; i < last; i++)
        rows = rows || (operand->strides[i] != 0 && stage->domain[i] > 1);
    return operand->strides[last] == 0 || stage->domain[last] == 1 || (!rows && operand->strides[last] == 1);
}

/* A number that the setup makes; false: the register is no such. */
static bool known_number(const samba_program *program, int at, float *number)
{
    for (int i = 0; i < program->setup; i++)
        if (program->instructions[i].d == at && program->instructions[i].op == SAMBA_TILE_constant &&
            program->registers[at].class_ == SAMBA_F32) {
            *number = (float)program->instructions[i].immediate;
            return true;
        }
    return false;
}

static bool take_bound(reader *r, int op, float *bound)
{
    if (r->at == r->end || r->at->op != op || r->at->a != r->value || !known_number(r->program, r->at->b, bound))
        return false;
    r->value = r->at++->d;
    return true;
}

/* Whether rounding to the dtype leaves a bound what it is, so that it may come before or after. */
static bool is_exact(samba_dtype dtype, float bound)
{
    int64_t held;
    samba_store_double(dtype, &held, bound);
    return isinf(bound) || samba_load_double(dtype, &held) == bound;
}

static bool take_bounds(reader *r, samba_finish *finish)
{
    finish->low = -INFINITY;
    finish->high = INFINITY;
    const bool low = take_bound(r, SAMBA_TILE_maximum, &finish->low), high = take_bound(r, SAMBA_TILE_minimum, &finish->high);
    return low || high;
}

static bool is_setup_known(const samba_program *program)
{
    for (int i = 0; i < program->setup; i++)
        if (program->instructions[i].op != SAMBA_TILE_constant)
            return false;
    return true;
}

/* The last instruction's operand, where that stores what has a dtype of ours, else NULL. */
static const samba_operand *stored(const samba_stage *stage)
{
    const samba_program *program = &stage->program;
    const samba_instruction *last = program->instructions + program->instruction_count - 1;
    const samba_operand *result = &stage->operands[last->operand];
    if (last->op != SAMBA_TILE_store ||
        (result->dtype != SAMBA_FLOAT32 && result->dtype != SAMBA_BFLOAT16 && result->dtype != SAMBA_FLOAT16))
        return NULL;
    return result->strides[stage->rank - 1] == 1 || stage->domain[stage->rank - 1] < 2 ? result : NULL;
}

void samba_finish_init(samba_finish *finish, const samba_preparing *prepare, const samba_stage *stage)
{
    const samba_program *program = &stage->program;
    reader r = {program, program->instructions + program->setup, program->instructions + program->instruction_count, -1};
    int last = stage->rank - 1;
    *finish = (samba_finish){.rank = stage->rank, .run = samba_finish_fn_of(prepare->machine)};
    memcpy(finish->sizes, stage->domain, sizeof finish->sizes);
    if (stage->contract.class_ != SAMBA_F32 || !is_setup_known(program) || program->step_count != 1 || r.end - r.at < 2 ||
        r.at->op != SAMBA_TILE_block)
        return;
    const samba_operand *result = stored(stage);
    if (!result)
        return;
    r.value = r.at++->d;
    finish->dtype = (samba_dtype)result->dtype;
    finish->round_sums = take_round(&r, finish->dtype);
    int bias = take_added(&r), more = finish->dtype == SAMBA_FLOAT32 ? take_added(&r) : -1;
    take_round(&r, finish->dtype); /* which storing does, too; so may relu before it, of equal results */
    finish->relu = take_unary(&r, SAMBA_TILE_relu);
    finish->clamp = !finish->relu && take_bounds(&r, finish);
    if (finish->clamp && !(is_exact(finish->dtype, finish->low) && is_exact(finish->dtype, finish->high)))
        return;
    take_round(&r, finish->dtype);
    if (r.end - r.at != 1 || r.at->a != r.value)
        return;
    if (bias >= 0 && more < 0 && finish->dtype == SAMBA_FLOAT32 && !is_bias(stage, &stage->operands[bias])) {
        more = bias;
        bias = -1;
    }
    if (more >= 0) {
        const samba_operand *operand = &stage->operands[more];
        if (operand->dtype != SAMBA_FLOAT32 || (operand->strides[last] != 1 && stage->domain[last] > 1))
            return;
        finish->more = samba_operand_memory(prepare, operand);
        memcpy(finish->more_strides, operand->strides, sizeof finish->more_strides);
    }
    if (bias >= 0) {
        const samba_operand *operand = &stage->operands[bias];
        if ((samba_dtype)operand->dtype != finish->dtype || !is_bias(stage, operand))
            return;
        finish->bias = samba_operand_memory(prepare, operand);
        memcpy(finish->bias_strides, operand->strides, sizeof finish->bias_strides);
    }
    finish->result = samba_operand_memory(prepare, result);
    memcpy(finish->result_strides, result->strides, sizeof finish->result_strides);
    finish->result_strides[last] = 1;
    finish->used = true;
}

bool samba_finish_takes_sums(const samba_finish *finish)
{
    return finish->used && finish->dtype == SAMBA_FLOAT32 && !finish->more;
}

bool samba_finish_is_copy(const samba_finish *finish)
{
    return samba_finish_takes_sums(finish) && !finish->bias && !finish->relu && !finish->clamp;
}

bool samba_finish_is_even(const samba_finish *finish)
{
    int row = finish->rank - 2;
    int64_t rows = 1;
    for (int i = row; i >= 0; i--) {
        if (finish->sizes[i] == 1)
            continue;
        if (finish->result_strides[i] != rows * finish->result_strides[row] ||
            finish->bias_strides[i] != rows * finish->bias_strides[row] ||
            finish->more_strides[i] != rows * finish->more_strides[row])
            return false;
        rows *= finish->sizes[i];
    }
    return row >= 0;
}

samba_finish_rows samba_finish_at(const samba_finish *finish, int64_t row0, int64_t col0)
{
    int last = finish->rank - 1, row = last - 1;
    int64_t size = (int64_t)samba_dtype_size(finish->dtype), to = col0, from = col0 * finish->bias_strides[last], other = col0;
    for (int i = last - 1; i >= 0; i--) {
        to += row0 % finish->sizes[i] * finish->result_strides[i];
        from += row0 % finish->sizes[i] * finish->bias_strides[i];
        other += row0 % finish->sizes[i] * finish->more_strides[i];
        row0 /= finish->sizes[i];
    }
    return (samba_finish_rows){.result = finish->result + to * size,
                               .bias = finish->bias ? finish->bias + from * size : NULL,
                               .more = finish->more ? (const float *)finish->more + other : NULL,
                               .more_pitch = finish->more_strides[row],
                               .low = finish->low,
                               .high = finish->high,
                               .clamp = finish->clamp,
                               .pitch = finish->result_strides[row],
                               .bias_row = finish->bias_strides[row],
                               .bias_col = (int)finish->bias_strides[last],
                               .dtype = finish->dtype,
                               .relu = finish->relu,
                               .round_sums = finish->round_sums};
}

void samba_finish_region(const samba_finish *finish, int64_t row0, int64_t rows, int64_t col0, int64_t cols, const void *sums,
                         int64_t ld)
{
    samba_finish_rows some = samba_finish_at(finish, row0, col0);
    some.sums = sums;
    some.ld = ld;
    some.rows = rows;
    some.cols = cols;
    finish->run(&some);
}
