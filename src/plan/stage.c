/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about tile operators and stages, and which register class holds which dtype. */
#include "plan/stage.h"

const samba_tile_facts samba_tile_table[SAMBA_TILE_COUNT] = {
#define TILE(name, form, cost) {#name, SAMBA_FORM_##form, SAMBA_COST_##cost},
#include "plan/tiles.def"
#undef TILE
};

samba_register_class samba_class_of(samba_dtype dtype)
{
    if (dtype == SAMBA_FLOAT64)
        return SAMBA_F64;
    return samba_dtype_table[dtype].category == SAMBA_CATEGORY_INTEGER ? SAMBA_I64 : SAMBA_F32;
}

int32_t samba_pool_sample_sizes(const samba_pool *pool, int64_t sizes[4])
{
    const int64_t x = pool->planes * pool->h * pool->w, y = pool->planes * pool->oh * pool->ow;
    const int64_t grid = pool->images * pool->oh * pool->ow * (pool->depth ? 3 : 2);
    sizes[0] = pool->gradient && !pool->of_grid ? grid : x;
    sizes[1] = pool->gradient && !pool->of_grid ? y : grid;
    sizes[2] = pool->gradient && !pool->of_grid ? x : y;
    sizes[3] = grid;
    return pool->of_grid ? 4 : 3;
}

bool samba_pool_fits_in_place(const samba_pool *pool)
{
    bool apart = !pool->adaptive && 2 * pool->oh <= pool->h && 2 * pool->ow <= pool->w;
    for (int i = 0; i < 2; i++)
        apart = apart && pool->kernel[i] == 2 && pool->stride[i] == 2 && pool->padding[i] == 0 && pool->dilation[i] == 1;
    return apart;
}

int32_t samba_attention_operands(const samba_attention *attention, int32_t operand_of[SAMBA_ATTENTION_PARTS])
{
    int32_t count = 0;
    for (int part = 0; part < SAMBA_ATTENTION_PARTS; part++) {
        bool there = true;
        switch ((samba_attention_part)part) {
        case SAMBA_ATTENTION_MASK: there = attention->masked; break;
        case SAMBA_ATTENTION_P:
        case SAMBA_ATTENTION_SEED: there = attention->dropout; break;
        case SAMBA_ATTENTION_RESULT: there = attention->has_result; break;
        case SAMBA_ATTENTION_LSE: there = attention->has_lse; break;
        case SAMBA_ATTENTION_DOUT:
        case SAMBA_ATTENTION_DQ:
        case SAMBA_ATTENTION_DK:
        case SAMBA_ATTENTION_DV: there = attention->gradient; break;
        case SAMBA_ATTENTION_START: there = attention->slots > 0; break;
        default: break;
        }
        operand_of[part] = there ? count++ : -1;
    }
    return count;
}

void samba_attention_sizes(const samba_stage *stage, samba_attention_part part, int64_t sizes[4])
{
    bool keys =
        part == SAMBA_ATTENTION_K || part == SAMBA_ATTENTION_V || part == SAMBA_ATTENTION_DK || part == SAMBA_ATTENTION_DV;
    sizes[0] = stage->domain[0];
    sizes[1] = keys ? stage->attention.hkv : stage->domain[1];
    sizes[2] = keys ? stage->domain[3] : stage->domain[2];
    switch (part) {
    case SAMBA_ATTENTION_Q:
    case SAMBA_ATTENTION_K:
    case SAMBA_ATTENTION_DQ:
    case SAMBA_ATTENTION_DK: sizes[3] = stage->attention.d; return;
    case SAMBA_ATTENTION_MASK: sizes[3] = stage->domain[3]; return;
    case SAMBA_ATTENTION_LSE: sizes[3] = 1; return;
    case SAMBA_ATTENTION_START: sizes[1] = sizes[2] = sizes[3] = 1; return;
    case SAMBA_ATTENTION_P:
    case SAMBA_ATTENTION_SEED: sizes[0] = sizes[1] = sizes[2] = sizes[3] = 1; return;
    default: sizes[3] = stage->attention.dv;
    }
}

static int program_access(const samba_program *program, int32_t operand)
{
    int access = 0;
    for (int32_t i = 0; i < program->instruction_count; i++) {
        if (program->instructions[i].operand != operand)
            continue;
        samba_tile_form form = samba_tile_table[program->instructions[i].op].form;
        access |= form == SAMBA_FORM_STORE || form == SAMBA_FORM_COLLECT ? SAMBA_WRITES
                  : form == SAMBA_FORM_LOAD                              ? SAMBA_READS
                                                                         : 0;
    }
    return access;
}

int samba_stage_access(const samba_stage *stage, int32_t operand)
{
    int32_t operand_of[SAMBA_ATTENTION_PARTS];
    switch ((samba_stage_kind)stage->kind) {
    case SAMBA_STAGE_TILE:
    case SAMBA_STAGE_CONTRACT: return program_access(&stage->program, operand);
    case SAMBA_STAGE_POOL: return operand == stage->operand_count - 1 ? SAMBA_WRITES : SAMBA_READS;
    case SAMBA_STAGE_GATHER:
        return operand < stage->operand_count - 1 ? SAMBA_READS
                                                  : SAMBA_WRITES | (stage->gather.mode != SAMBA_GATHER_READ ? SAMBA_READS : 0);
    case SAMBA_STAGE_ATTENTION:
        samba_attention_operands(&stage->attention, operand_of);
        for (int part = 0; part < SAMBA_ATTENTION_PARTS; part++)
            if (operand_of[part] == operand) {
                bool made = stage->attention.gradient ? part >= SAMBA_ATTENTION_DQ && part <= SAMBA_ATTENTION_DV
                                                      : part == SAMBA_ATTENTION_RESULT || part == SAMBA_ATTENTION_LSE;
                return made ? SAMBA_WRITES : SAMBA_READS;
            }
        break;
    case SAMBA_STAGE_LINE: return operand < samba_line_sources(&stage->line) ? SAMBA_READS : SAMBA_WRITES;
    case SAMBA_STAGE_EXCHANGE: return SAMBA_READS | SAMBA_WRITES;
    case SAMBA_STAGE_FOURIER:
    case SAMBA_STAGE_CTC:
    case SAMBA_STAGE_MATRIX:
    case SAMBA_STAGE_LINEAR: return operand == stage->operand_count - 1 ? SAMBA_WRITES : SAMBA_READS;
    case SAMBA_STAGE_KIND_COUNT: break;
    }
    return 0;
}

static bool meets(const samba_buffer *buffers, int32_t buffer, samba_buffer range)
{
    return buffer >= 0 && buffers[buffer].offset < range.offset + range.bytes &&
           buffers[buffer].offset + buffers[buffer].bytes > range.offset;
}

bool samba_stage_touches(const samba_stage *stage, const samba_buffer *buffers, samba_buffer range, int access)
{
    bool touched = stage->kind == SAMBA_STAGE_CONTRACT && access & SAMBA_READS &&
                   (meets(buffers, stage->contract.a.buffer, range) || meets(buffers, stage->contract.b.buffer, range));
    for (int32_t o = 0; o < stage->operand_count && !touched; o++)
        touched = samba_stage_access(stage, o) & access && meets(buffers, stage->operands[o].buffer, range);
    return touched;
}

bool samba_matrix_solves(int32_t function)
{
    return function == SAMBA_MATRIX_TRIANGULAR || function == SAMBA_MATRIX_LU_SOLVE || function == SAMBA_MATRIX_LSTSQ;
}

int32_t samba_matrix_sizes(const samba_matrix_stage *matrix, int64_t sizes[3][2])
{
    const int64_t m = matrix->m, n = matrix->n, k = m < n ? m : n;
    const bool solves = samba_matrix_solves(matrix->function),
               factors = matrix->function == SAMBA_MATRIX_LU_SOLVE || matrix->function == SAMBA_MATRIX_LU_INVERSE;
    int64_t *a = sizes[0], *b = sizes[1], *result = sizes[solves ? 2 : 1];
    a[0] = m + factors;
    a[1] = n;
    if (solves) {
        b[0] = m;
        b[1] = matrix->right;
    }
    result[1] = solves ? matrix->right : matrix->function == SAMBA_MATRIX_PINV ? m : k;
    switch ((samba_matrix_function)matrix->function) {
    case SAMBA_MATRIX_LU: result[0] = n + 1; break;
    case SAMBA_MATRIX_QR: result[0] = m + n; break;
    case SAMBA_MATRIX_EIGH: result[0] = matrix->values ? 1 : 1 + n; break;
    case SAMBA_MATRIX_SVD: result[0] = matrix->values ? 1 : m + 1 + n; break;
    default: result[0] = n;
    }
    return solves ? 3 : 2;
}

int32_t samba_line_sources(const samba_line *line)
{
    switch (line->function) {
    case SAMBA_LINE_MARGIN_GRAD: return 3;
    case SAMBA_LINE_MARGIN:
    case SAMBA_LINE_CUMPROD_GRAD: return 2;
    default: return 1;
    }
}

void samba_fourier_sizes(const samba_fourier *fourier, int64_t sizes[2])
{
    const int64_t lines = fourier->outer * fourier->inner, half = fourier->size / 2 + 1;
    const bool from_real = fourier->form == SAMBA_FOURIER_FROM_REAL, to_real = fourier->form == SAMBA_FOURIER_TO_REAL;
    sizes[0] = lines * (from_real ? fourier->size : 2 * (to_real ? half : fourier->size));
    sizes[1] = lines * (to_real ? fourier->size : 2 * (from_real ? half : fourier->size));
}

int32_t samba_ctc_sizes(const samba_ctc *ctc, int64_t sizes[6])
{
    const int64_t all = ctc->steps * ctc->batch * ctc->classes;
    sizes[0] = all;
    sizes[1] = ctc->batch * ctc->most;
    sizes[2] = sizes[3] = sizes[4] = ctc->batch;
    sizes[5] = all;
    return ctc->gradient ? 6 : 5;
}

const char *const samba_stage_kind_names[SAMBA_STAGE_KIND_COUNT] = {
    "tile", "contract", "pool", "gather", "attention", "line", "exchange", "linear", "fourier", "ctc", "matrix"};
