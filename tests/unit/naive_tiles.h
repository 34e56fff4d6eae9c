/* SPDX-License-Identifier: Apache-2.0
 *
 * A tile stage under test: a few calls build it (operands with memory of their own, registers, instructions, steps), and it
 * runs twice: by the kernels, on every ISA and with several numbers of threads, and by an interpreter that does one
 * instruction after another over the whole domain, element by element. Afterwards the memory must be equal, room between
 * buffers included. */
#ifndef SAMBA_TEST_NAIVE_TILES_H
#define SAMBA_TEST_NAIVE_TILES_H

#include "machines.h"
#include "device/cpu/kernel.h"
#include "tensor/philox.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CASE_GUARD 64 /* bytes of 0xE7 after each buffer */
#define CASE_MOST 64

typedef struct tile_case {
    samba_stage stage;
    samba_operand operands[CASE_MOST];
    samba_register registers[CASE_MOST];
    samba_instruction instructions[CASE_MOST];
    samba_step steps[CASE_MOST];
    samba_buffer buffers[CASE_MOST];
    int dtypes[CASE_MOST]; /* of buffers */
    int buffer_count;
    char *memory;
    int64_t bytes;
    double *block; /* what BLOCK gives: row-major, NULL none */
} tile_case;

typedef union naive_value {
    double f;
    int64_t i;
} naive_value;

static inline void case_begin(tile_case *t, int rank, const int64_t *domain)
{
    memset(t, 0, sizeof *t);
    t->stage = (samba_stage){.kind = SAMBA_STAGE_TILE, .name = "case", .rank = rank, .operands = t->operands};
    memcpy(t->stage.domain, domain, (size_t)rank * sizeof *domain);
    t->stage.program = (samba_program){.registers = t->registers, .instructions = t->instructions, .steps = t->steps};
}

static inline void case_end(tile_case *t)
{
    free(t->memory);
    free(t->block);
}

static inline int64_t case_rows(const tile_case *t)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < t->stage.rank; i++)
        rows *= t->stage.domain[i];
    return rows;
}

static inline int64_t case_cols(const tile_case *t) { return t->stage.domain[t->stage.rank - 1]; }

/* A buffer of `elements`, whole numbers from -4 to 4 (bool: 0 and 1). */
static inline int case_buffer(tile_case *t, samba_dtype dtype, int64_t elements)
{
    int64_t size = (int64_t)samba_dtype_size(dtype), bytes = (elements * size + 63) / 64 * 64;
    t->buffers[t->buffer_count] = (samba_buffer){t->bytes, bytes};
    t->dtypes[t->buffer_count] = dtype;
    t->memory = realloc(t->memory, (size_t)(t->bytes + bytes + CASE_GUARD));
    memset(t->memory + t->bytes, 0xE7, (size_t)(bytes + CASE_GUARD));
    for (int64_t i = 0; i < elements; i++)
        samba_store_double(dtype, t->memory + t->bytes + i * size,
                           dtype == SAMBA_BOOL    ? rand() % 2
                           : dtype == SAMBA_UINT8 ? rand() % 9
                                                  : rand() % 9 - 4);
    t->bytes += bytes + CASE_GUARD;
    return t->buffer_count++;
}

/* An operand with a buffer that just holds it. */
static inline int case_operand(tile_case *t, samba_dtype dtype, int64_t offset, const int64_t *strides)
{
    int64_t last = offset;
    for (int i = 0; i < t->stage.rank; i++)
        last += t->stage.domain[i] > 0 ? (t->stage.domain[i] - 1) * strides[i] : 0;
    samba_operand *o = &t->operands[t->stage.operand_count];
    *o = (samba_operand){.buffer = case_buffer(t, dtype, last + 1), .dtype = dtype, .offset = offset};
    memcpy(o->strides, strides, (size_t)t->stage.rank * sizeof *strides);
    return t->stage.operand_count++;
}

static inline int case_contiguous(tile_case *t, samba_dtype dtype)
{
    int64_t strides[SAMBA_MAX_RANK];
    samba_shape_contiguous_strides(t->stage.rank, t->stage.domain, strides);
    return case_operand(t, dtype, 0, strides);
}

static inline int case_register(tile_case *t, samba_register_class class_, samba_extent extent, int wide, int direct)
{
    t->registers[t->stage.program.register_count] =
        (samba_register){(uint8_t)class_, (uint8_t)extent, (uint8_t)wide, (int16_t)direct};
    return t->stage.program.register_count++;
}

static inline void case_emit(tile_case *t, samba_tile op, int d, int a, int b, int c, int operand, double immediate)
{
    samba_instruction *i = &t->instructions[t->stage.program.instruction_count++];
    *i = (samba_instruction){.op = (uint16_t)op, .operand = (int16_t)operand, .immediate = immediate};
    i->d = (int16_t)d;
    i->a = (int16_t)a;
    i->b = (int16_t)b;
    i->c = (int16_t)c;
}

static inline void case_load(tile_case *t, int d, int operand) { case_emit(t, SAMBA_TILE_load, d, -1, -1, -1, operand, 0); }
static inline void case_store(tile_case *t, int a, int operand) { case_emit(t, SAMBA_TILE_store, -1, a, -1, -1, operand, 0); }
static inline void case_op(tile_case *t, samba_tile op, int d, int a, int b) { case_emit(t, op, d, a, b, -1, -1, 0); }
static inline void case_setup_ends(tile_case *t) { t->stage.program.setup = t->stage.program.instruction_count; }

/* A step of all instructions since the one before. */
static inline void case_step(tile_case *t, int loop)
{
    samba_program *p = &t->stage.program;
    int32_t begin = p->step_count ? p->steps[p->step_count - 1].end : p->setup;
    p->steps[p->step_count++] = (samba_step){begin, p->instruction_count, loop};
}

/* ---- the interpreter ---- */
static inline double naive_round(int class_, double x) { return class_ == SAMBA_F32 ? (float)x : x; }

static inline naive_value naive_apply(int op, int class_, int d_class, naive_value x, naive_value y, naive_value z)
{
    naive_value v = {.i = 0};
    samba_tile_form form = samba_tile_table[op].form;
    if (form == SAMBA_FORM_COMPARE) {
        double p = class_ == SAMBA_I64 ? (double)x.i : x.f, q = class_ == SAMBA_I64 ? (double)y.i : y.f;
        v.f = op == SAMBA_TILE_eq   ? p == q
              : op == SAMBA_TILE_ne ? p != q
              : op == SAMBA_TILE_lt ? p < q
              : op == SAMBA_TILE_le ? p <= q
              : op == SAMBA_TILE_gt ? p > q
                                    : p >= q;
        return v;
    }
    if (form == SAMBA_FORM_CONVERT) {
        double p = class_ == SAMBA_I64 ? (double)x.i : x.f;
        if (op == SAMBA_TILE_not_zero)
            v.f = p != 0;
        else if (d_class == SAMBA_I64)
            v.i = class_ == SAMBA_I64 ? x.i : (int64_t)x.f;
        else
            v.f = naive_round(d_class, p);
        return v;
    }
    if (form == SAMBA_FORM_WHERE)
        return x.f != 0 ? y : z;
    if (class_ == SAMBA_I64) {
        v.i = op == SAMBA_TILE_add       ? x.i + y.i
              : op == SAMBA_TILE_sub     ? x.i - y.i
              : op == SAMBA_TILE_mul     ? x.i * y.i
              : op == SAMBA_TILE_maximum ? (x.i > y.i ? x.i : y.i)
              : op == SAMBA_TILE_minimum ? (x.i < y.i ? x.i : y.i)
              : op == SAMBA_TILE_neg     ? -x.i
                                         : llabs(x.i);
        return v;
    }
    double r = 0;
    switch (op) {
    case SAMBA_TILE_add: r = x.f + y.f; break;
    case SAMBA_TILE_sub: r = x.f - y.f; break;
    case SAMBA_TILE_mul: r = x.f * y.f; break;
    case SAMBA_TILE_div: r = x.f / y.f; break;
    case SAMBA_TILE_maximum: r = x.f > y.f ? x.f : y.f; break;
    case SAMBA_TILE_minimum: r = x.f < y.f ? x.f : y.f; break;
    case SAMBA_TILE_neg: r = -x.f; break;
    case SAMBA_TILE_abs: r = fabs(x.f); break;
    case SAMBA_TILE_sign: r = (x.f > 0) - (x.f < 0); break;
    case SAMBA_TILE_relu: r = x.f < 0 ? 0 : x.f; break;
    case SAMBA_TILE_exp: r = exp(x.f); break;
    case SAMBA_TILE_erf: r = erf(x.f); break;
    case SAMBA_TILE_tanh: r = tanh(x.f); break;
    case SAMBA_TILE_gelu_tanh: r = x.f / (1 + exp(-1.5957691216057308 * (x.f + 0.044715 * x.f * x.f * x.f))); break;
    case SAMBA_TILE_gelu_tanh_grad: {
        double s = 1 / (1 + exp(-1.5957691216057308 * (x.f + 0.044715 * x.f * x.f * x.f)));
        r = y.f * (s + x.f * s * (1 - s) * 1.5957691216057308 * (1 + 0.134145 * x.f * x.f));
        break;
    }
    case SAMBA_TILE_round_bfloat16: r = samba_bfloat16_to_float(samba_float_to_bfloat16((float)x.f)); break;
    case SAMBA_TILE_sqrt: r = sqrt(x.f); break;
    case SAMBA_TILE_rsqrt: r = 1 / sqrt(x.f); break;
    case SAMBA_TILE_reciprocal: r = 1 / x.f; break;
    default: fail_msg("naive: no %s", samba_tile_table[op].name);
    }
    v.f = naive_round(class_, r);
    return v;
}

/* better of two for amax, amin; sum */
static inline naive_value naive_fold(int kind, int class_, naive_value x, naive_value y)
{
    if (class_ == SAMBA_I64)
        return (naive_value){.i = kind == 0 ? x.i + y.i : (kind == 1 ? y.i > x.i : y.i < x.i) ? y.i : x.i};
    return (naive_value){.f = kind == 0 ? x.f + y.f : (kind == 1 ? y.f > x.f : y.f < x.f) ? y.f : x.f};
}

static inline naive_value naive_start(int kind, int class_)
{
    if (class_ == SAMBA_I64)
        return (naive_value){.i = kind == 0 ? 0 : kind == 1 ? INT64_MIN : INT64_MAX};
    return (naive_value){.f = kind == 0 ? 0 : kind == 1 ? -INFINITY : INFINITY};
}

typedef struct naive {
    const tile_case *t;
    int64_t rows, cols;
    naive_value *values[CASE_MOST]; /* rows * cols of each register; ROW: the first of each row; setup: the first of all */
    int once[CASE_MOST];            /* setup register */
} naive;

static inline void naive_index(const naive *n, int64_t row, int64_t col, int64_t *index)
{
    const samba_stage *s = &n->t->stage;
    index[s->rank - 1] = col;
    for (int i = s->rank - 2; i >= 0; i--) {
        index[i] = row % s->domain[i];
        row /= s->domain[i];
    }
}

static inline int64_t naive_offset(const naive *n, int operand, int64_t row, int64_t col)
{
    int64_t index[SAMBA_MAX_RANK], offset = n->t->operands[operand].offset;
    naive_index(n, row, col, index);
    for (int i = 0; i < n->t->stage.rank; i++)
        offset += index[i] * n->t->operands[operand].strides[i];
    return offset;
}

static inline char *naive_element(const naive *n, char *memory, int operand, int64_t row, int64_t col)
{
    const samba_operand *o = &n->t->operands[operand];
    return memory + n->t->buffers[o->buffer].offset +
           naive_offset(n, operand, row, col) * (int64_t)samba_dtype_size((samba_dtype)o->dtype);
}

static inline naive_value *naive_at(const naive *n, int r, int64_t row, int64_t col)
{
    static naive_value none;
    if (r < 0)
        return &none;
    int64_t place = n->once[r] ? 0 : n->t->registers[r].extent == SAMBA_ROW ? row * n->cols : row * n->cols + col;
    return &n->values[r][place];
}

static inline void naive_store(samba_dtype dtype, int class_, char *element, naive_value v)
{
    if (class_ == SAMBA_I64)
        samba_store_int64(dtype, element, v.i);
    else
        samba_store_double(dtype, element, v.f);
}

/* One result for each element of the operand, in double: those of dims with a stride. */
static inline void naive_collect(naive *n, const samba_instruction *i, char *memory, int kind, int class_, int64_t cols)
{
    const samba_operand *o = &n->t->operands[i->operand];
    int64_t size = (int64_t)samba_dtype_size((samba_dtype)o->dtype), last = o->offset;
    for (int k = 0; k < n->t->stage.rank; k++)
        last += o->strides[k] * (n->t->stage.domain[k] > 0 ? n->t->stage.domain[k] - 1 : 0);
    naive_value *sums = malloc((size_t)(last + 1) * sizeof *sums);
    bool *stays = calloc((size_t)(last + 1), sizeof *stays);
    int64_t index[SAMBA_MAX_RANK] = {0}, offset = o->offset;
    bool any = true;
    for (int k = 0; k < n->t->stage.rank; k++)
        any &= o->strides[k] == 0 || n->t->stage.domain[k] > 0;
    for (int k = 0; any && k >= 0;) { /* counts through the dims that stay */
        sums[offset] = naive_start(kind, class_);
        stays[offset] = true;
        for (k = n->t->stage.rank - 1; k >= 0; k--) {
            if (o->strides[k] != 0 && ++index[k] < n->t->stage.domain[k]) {
                offset += o->strides[k];
                break;
            }
            offset -= o->strides[k] ? (index[k] - 1) * o->strides[k] : 0;
            index[k] = 0;
        }
    }
    for (int64_t r = 0; r < n->rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            naive_value *sum = &sums[naive_offset(n, i->operand, r, c)];
            *sum = naive_fold(kind, class_, *sum, *naive_at(n, i->a, r, c));
        }
    for (int64_t k = 0; k <= last; k++)
        if (stays[k])
            naive_store((samba_dtype)o->dtype, class_, memory + n->t->buffers[o->buffer].offset + k * size, sums[k]);
    free(sums);
    free(stays);
}

static inline void naive_instruction(naive *n, const samba_instruction *i, char *memory)
{
    const tile_case *t = n->t;
    samba_tile_form form = samba_tile_table[i->op].form;
    int d_class = i->d >= 0 ? t->registers[i->d].class_ : 0, a_class = i->a >= 0 ? t->registers[i->a].class_ : d_class;
    int class_ = form == SAMBA_FORM_WHERE ? t->registers[i->b].class_ : a_class, target = i->d >= 0 ? i->d : i->a;
    bool once = n->once[target] && form != SAMBA_FORM_STORE;
    int64_t rows = once ? 1 : n->rows, cols = once || t->registers[target].extent == SAMBA_ROW ? 1 : n->cols;
    samba_dtype dtype = i->operand >= 0 ? (samba_dtype)t->operands[i->operand].dtype : SAMBA_FLOAT32;
    int kind = i->op == SAMBA_TILE_amax || i->op == SAMBA_TILE_argmax || i->op == SAMBA_TILE_collect_amax ? 1
               : i->op == SAMBA_TILE_amin || i->op == SAMBA_TILE_collect_amin                             ? 2
                                                                                                          : 0;
    if (form == SAMBA_FORM_COLLECT) {
        naive_collect(n, i, memory, kind, class_, cols);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            naive_value *d = naive_at(n, i->d, r, c), a = *naive_at(n, i->a, r, c);
            int64_t index[SAMBA_MAX_RANK];
            switch (form) {
            case SAMBA_FORM_LOAD:
                if (class_ == SAMBA_I64)
                    d->i = samba_load_int64(dtype, naive_element(n, memory, i->operand, r, c));
                else
                    d->f = samba_load_double(dtype, naive_element(n, memory, i->operand, r, c));
                break;
            case SAMBA_FORM_STORE: naive_store(dtype, class_, naive_element(n, memory, i->operand, r, c), a); break;
            case SAMBA_FORM_BLOCK: d->f = t->block[r * n->cols + c]; break;
            case SAMBA_FORM_CONST:
                if (class_ == SAMBA_I64)
                    d->i = (int64_t)i->immediate;
                else
                    d->f = naive_round(class_, i->immediate);
                break;
            case SAMBA_FORM_IOTA:
                naive_index(n, r, c, index);
                d->i = index[(int)i->immediate];
                break;
            case SAMBA_FORM_RANDOM:
                d->f = samba_philox_uniform((uint64_t)a.i, (uint64_t)naive_offset(n, i->operand, r, c));
                break;
            case SAMBA_FORM_REDUCE: {
                naive_value best = naive_start(kind, class_);
                int64_t where = 0;
                for (int64_t k = 0; k < n->cols; k++) {
                    naive_value x = *naive_at(n, i->a, r, k), next = naive_fold(kind, class_, best, x);
                    if (k > 0 && (class_ == SAMBA_I64 ? next.i != best.i : next.f != best.f))
                        where = k;
                    best = next;
                }
                if (i->op == SAMBA_TILE_argmax)
                    d->i = where;
                else if (class_ == SAMBA_I64)
                    *d = best;
                else
                    d->f = naive_round(class_, best.f);
                break;
            }
            case SAMBA_FORM_SPREAD: *d = *naive_at(n, i->a, r, 0); break;
            default: *d = naive_apply(i->op, class_, d_class, a, *naive_at(n, i->b, r, c), *naive_at(n, i->c, r, c)); break;
            }
        }
}

static inline void naive_run(const tile_case *t, char *memory)
{
    const samba_program *p = &t->stage.program;
    naive n = {.t = t, .rows = case_rows(t), .cols = case_cols(t)};
    for (int r = 0; r < p->register_count; r++)
        n.values[r] = calloc((size_t)(n.rows * (n.cols + 1) + 1), sizeof(naive_value));
    for (int i = 0; i < p->setup; i++)
        n.once[p->instructions[i].d] = 1;
    for (int i = 0; i < p->instruction_count; i++)
        naive_instruction(&n, &p->instructions[i], memory);
    for (int r = 0; r < p->register_count; r++)
        free(n.values[r]);
}

/* ---- the kernels ---- */
static inline samba_prepare case_prepare(const tile_case *t, samba_context *context, samba_arena *arena, int isa, int threads,
                                         char *memory, volatile int32_t *fault)
{
    return (samba_prepare){.context = context,
                           .machine = machine_with((samba_isa)isa, false),
                           .threads = threads,
                           .memory = memory,
                           .buffers = t->buffers,
                           .arena = arena,
                           .fault = fault};
}

/* A team one after the other, phase by phase, in scratch full of rubbish. */
static inline void run_prepared(const samba_prepared *prepared, int threads)
{
    size_t bytes = (size_t)(prepared->shared_scratch + threads * prepared->thread_scratch);
    char *scratch = aligned_alloc(64, bytes + 64);
    memset(scratch, 0xA5, bytes + 64);
    assert_int_equal(prepared->thread_scratch % 64, 0);
    for (int phase = 0; phase < prepared->phases; phase++)
        for (int thread = threads - 1; thread >= 0; thread--)
            prepared->run(prepared->state, scratch, phase, thread, threads);
    for (int i = 0; i < 64; i++)
        assert_int_equal((unsigned char)scratch[bytes + (size_t)i], 0xA5);
    free(scratch);
}

static inline void case_compare(const tile_case *t, const char *got, const char *want, double tolerance, const char *what)
{
    for (int b = 0; b < t->buffer_count; b++) {
        samba_dtype dtype = (samba_dtype)t->dtypes[b];
        int64_t size = (int64_t)samba_dtype_size(dtype), from = t->buffers[b].offset, bytes = t->buffers[b].bytes;
        for (int64_t i = 0; i < bytes / size; i++) {
            const char *x = got + from + i * size, *y = want + from + i * size;
            if (memcmp(x, y, (size_t)size) == 0)
                continue;
            double p = samba_load_double(dtype, x), q = samba_load_double(dtype, y);
            if (p == q || (isnan(p) && isnan(q)) || fabs(p - q) <= tolerance * fmax(1, fabs(q)))
                continue;
            fail_msg("%s: buffer %d (%s) element %lld is %g, not %g", what, b, samba_dtype_name(dtype), (long long)i, p, q);
        }
        assert_memory_equal(got + from + bytes, want + from + bytes, CASE_GUARD);
    }
}

/* Everything: all ISAs, 1 to 5 threads. */
static inline void case_check(const tile_case *t, double tolerance, const char *name)
{
    static const int teams[] = {1, 2, 3, 5};
    char *want = aligned_alloc(64, (size_t)(t->bytes + 127) / 64 * 64),
         *got = aligned_alloc(64, (size_t)(t->bytes + 127) / 64 * 64), what[200];
    volatile int32_t fault = 0;
    if (t->bytes)
        memcpy(want, t->memory, (size_t)t->bytes);
    naive_run(t, want);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
        for (int k = 0; samba_kernels_for((samba_isa)isa) && k < SAMBA_COUNT(teams); k++) {
            samba_context *context;
            samba_arena arena;
            samba_prepared prepared;
            assert_int_equal(samba_context_new(NULL, &context), SAMBA_OK);
            samba_arena_init(&arena, context);
            if (t->bytes)
                memcpy(got, t->memory, (size_t)t->bytes);
            samba_prepare prepare = case_prepare(t, context, &arena, isa, teams[k], got, &fault);
            prepare.far = k % 2; /* what is asked for a tile ahead changes nothing */
            if (samba_prepare_stage(&prepare, &t->stage, &prepared) != SAMBA_OK)
                fail_msg("%s: %s", name, samba_error_message(context));
            run_prepared(&prepared, teams[k]);
            snprintf(what, sizeof what, "%s, %s, %d threads", name, samba_isa_names[isa], teams[k]);
            case_compare(t, got, want, tolerance, what);
            samba_arena_free(&arena);
            samba_context_free(context);
        }
    assert_int_equal(fault, 0);
    free(want);
    free(got);
}

#endif
