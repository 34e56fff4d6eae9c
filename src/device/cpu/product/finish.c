/* SPDX-License-Identifier: Apache-2.0
 *
 * See finish.h. The program is recognised instruction by instruction: block, load and add, relu, store, nothing else; the same
 * operations in the same order as the interpreter's, so the results are the same bits. */
#include "device/cpu/product/finish.h"
#include <string.h>

/* The bias of an add whose other side is the block; -1 none. */
static int added_operand(const samba_program *program, const samba_instruction *load, const samba_instruction *add, int block)
{
    bool reads = (add->a == block && add->b == load->d) || (add->b == block && add->a == load->d);
    return load->op == SAMBA_TILE_load && add->op == SAMBA_TILE_add && reads && program->registers[load->d].class_ == SAMBA_F32
               ? load->operand
               : -1;
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

static char *address_of(const samba_prepare *prepare, const samba_operand *operand)
{
    return prepare->memory + prepare->buffers[operand->buffer].offset + operand->offset * 4;
}

void samba_finish_init(samba_finish *finish, const samba_prepare *prepare, const samba_stage *stage, const samba_blocks *blocks)
{
    const samba_program *program = &stage->program;
    const samba_instruction *at = program->instructions, *end = at + program->instruction_count;
    int value, bias = -1, last = stage->rank - 1;
    *finish = (samba_finish){.rank = stage->rank, .run = blocks->finish};
    if (stage->contract.class_ != SAMBA_F32 || program->setup || program->step_count != 1 || at == end ||
        at->op != SAMBA_TILE_block)
        return;
    value = at++->d;
    if (end - at >= 2 && (bias = added_operand(program, &at[0], &at[1], value)) >= 0) {
        value = at[1].d;
        at += 2;
    }
    if (at < end && at->op == SAMBA_TILE_relu && at->a == value) {
        finish->relu = true;
        value = at++->d;
    }
    if (end - at != 1 || at->op != SAMBA_TILE_store || at->a != value)
        return;
    const samba_operand *result = &stage->operands[at->operand];
    if (result->dtype != SAMBA_FLOAT32 || (result->strides[last] != 1 && stage->domain[last] > 1))
        return;
    if (bias >= 0) {
        const samba_operand *operand = &stage->operands[bias];
        if (operand->dtype != SAMBA_FLOAT32 || !is_bias(stage, operand))
            return;
        finish->bias = address_of(prepare, operand);
        memcpy(finish->bias_strides, operand->strides, sizeof finish->bias_strides);
    }
    finish->result = address_of(prepare, result);
    memcpy(finish->result_strides, result->strides, sizeof finish->result_strides);
    finish->result_strides[last] = 1;
    memcpy(finish->sizes, stage->domain, sizeof finish->sizes);
    finish->used = true;
}

bool samba_finish_is_copy(const samba_finish *finish) { return finish->used && !finish->bias && !finish->relu; }

bool samba_finish_is_even(const samba_finish *finish)
{
    int row = finish->rank - 2;
    int64_t rows = 1;
    for (int i = row; i >= 0; i--) {
        if (finish->sizes[i] == 1)
            continue;
        if (finish->result_strides[i] != rows * finish->result_strides[row] ||
            finish->bias_strides[i] != rows * finish->bias_strides[row])
            return false;
        rows *= finish->sizes[i];
    }
    return row >= 0;
}

void samba_finish_at(const samba_finish *finish, int64_t row0, int64_t col0, float **result, const float **bias)
{
    int last = finish->rank - 1;
    int64_t to = col0, from = col0 * finish->bias_strides[last];
    for (int i = last - 1; i >= 0; i--) {
        to += row0 % finish->sizes[i] * finish->result_strides[i];
        from += row0 % finish->sizes[i] * finish->bias_strides[i];
        row0 /= finish->sizes[i];
    }
    *result = (float *)finish->result + to;
    *bias = finish->bias ? (const float *)finish->bias + from : NULL;
}

void samba_finish_region(const samba_finish *finish, int64_t row0, int64_t rows, int64_t col0, int64_t cols, const void *sums,
                         int64_t ld)
{
    int last = finish->rank - 1, row = last - 1;
    float *result;
    const float *bias;
    samba_finish_at(finish, row0, col0, &result, &bias);
    finish->run((const float *)sums, ld, bias, finish->bias_strides[row], finish->bias_strides[last], finish->relu, result,
                finish->result_strides[row], rows, cols);
}
