/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of Fourier transforms and of CTC loss against the operators' reference kernels, which values/fourier.txt and PyTorch
 * (tests/operators) check: all forms and directions, lengths of small and large primes, one line and many, every instruction set,
 * one to five threads, whose results have the same bits; labels and lengths that are out of range. */
#include "failing_allocator.h"
#include "naive_tiles.h"
#include "ops/ops.h"

static void put(const tile_case *t, int buffer, int64_t i, double value)
{
    samba_dtype dtype = (samba_dtype)t->dtypes[buffer];
    samba_store_double(dtype, t->memory + t->buffers[buffer].offset + i * (int64_t)samba_dtype_size(dtype), value);
}

static void add_operand(tile_case *t, samba_dtype dtype, int64_t numel)
{
    t->operands[t->stage.operand_count++] = (samba_operand){.buffer = case_buffer(t, dtype, numel), .dtype = dtype};
}

/* By several threads what one gives, to the last bit. */
static void check_bits(const tile_case *t, const char *name)
{
    SAMBA_EACH_KERNELS (isa) {
        char *first = NULL;
        for (int team = 1; team <= 3; team++) {
            samba_arena arena;
            samba_prepared prepared;
            volatile int32_t fault = 0;
            char *got = case_room(t);
            samba_arena_init(&arena, context);
            samba_preparing prepare = case_prepare(t, context, &arena, (samba_isa)isa, team, got, &fault);
            need(samba_prepare_stage(&prepare, &t->stage, &prepared));
            run_prepared(&prepared, team);
            samba_arena_free(&arena);
            if (first && memcmp(first, got, (size_t)t->bytes) != 0)
                fail_msg("%s, %s: %d threads give other bits than one", name, samba_isa_names[isa], team);
            if (first)
                free(got);
            else
                first = got;
        }
        free(first);
    }
}

/* ---- Fourier transforms ---- */
static samba_array array_of(samba_dtype dtype, int64_t outer, int64_t size, int64_t inner, bool is_complex)
{
    const int64_t numel = outer * size * inner * (is_complex ? 2 : 1);
    return (samba_array){.dtype = dtype, .rank = is_complex ? 4 : 3, .shape = {outer, size, inner, 2}, .numel = numel};
}

static void fourier_case(samba_dtype dtype, int form, bool inverse, int64_t outer, int64_t size, int64_t inner)
{
    const samba_fourier fourier = {.form = form,
                                   .inverse = inverse,
                                   .outer = outer,
                                   .size = size,
                                   .inner = inner,
                                   .scale = 0.75,
                                   .pairs = form == SAMBA_FOURIER_COMPLEX ? 1 : 0.5};
    const samba_attrs attrs = {
        .fourier = {.form = form, .inverse = inverse, .dim = 1, .length = size, .scale = fourier.scale, .pairs = fourier.pairs}};
    const int64_t half = size / 2 + 1;
    samba_array arrays[2] = {
        array_of(dtype, outer, form == SAMBA_FOURIER_TO_REAL ? half : size, inner, form != SAMBA_FOURIER_FROM_REAL),
        array_of(dtype, outer, form == SAMBA_FOURIER_FROM_REAL ? half : size, inner, form != SAMBA_FOURIER_TO_REAL)};
    tile_case t;
    char name[96];
    case_begin(&t, 1, SHAPE(1));
    t.stage.kind = SAMBA_STAGE_FOURIER;
    t.stage.rank = 0;
    t.stage.fourier = fourier;
    for (int i = 0; i < 2; i++)
        add_operand(&t, dtype, arrays[i].numel);
    for (int64_t i = 0; i < arrays[0].numel; i++)
        put(&t, 0, i, (double)(rand() % 2001 - 1000) / 1000);
    char *want = case_room(&t);
    for (int i = 0; i < 2; i++)
        arrays[i].data = want + t.buffers[i].offset;
    need(samba_ops[SAMBA_OP_fft].reference(&(samba_reference){context, NULL, &attrs, 1, arrays, &arrays[1]}));
    snprintf(name, sizeof name, "form %d%s of %lld x %lld x %lld", form, inverse ? ", inverse," : "", (long long)outer,
             (long long)size, (long long)inner);
    const double steps = 4 + log2((double)size + 1), root = sqrt((double)size);
    case_check_against(&t, want, (dtype == SAMBA_FLOAT32 ? 1.2e-7 : 2.3e-16) * steps * root * 4, 0, name);
    check_bits(&t, name);
    if (size == 34 && inner == 3 && form == SAMBA_FOURIER_FROM_REAL)
        fail_each_allocation(case_scenario, &t);
    case_end(&t);
}

static void test_lengths(void **state)
{
    static const int64_t sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,  12,  13,  14,  16,  17,
                                    19, 22, 23, 25, 26, 32, 34, 37, 45, 64, 101, 121, 128, 130, 211, 256};
    (void)state;
    srand(11);
    for (int s = 0; s < LENGTH(sizes); s++)
        for (int form = 0; form < SAMBA_FOURIER_FORM_COUNT; form++)
            for (int inverse = 0; inverse < 2; inverse++) {
                fourier_case((s + form) % 2 ? SAMBA_FLOAT32 : SAMBA_FLOAT64, form, inverse, 2, sizes[s], 3);
                fourier_case((s + form) % 2 ? SAMBA_FLOAT64 : SAMBA_FLOAT32, form, inverse, s % 3 ? 1 : 37, sizes[s], 1);
            }
}

static void test_many_and_none(void **state)
{
    (void)state;
    for (int form = 0; form < SAMBA_FOURIER_FORM_COUNT; form++) {
        fourier_case(SAMBA_FLOAT32, form, false, 3, 12, 40);
        fourier_case(SAMBA_FLOAT64, form, true, 70, 9, 2);
        fourier_case(SAMBA_FLOAT32, form, false, 1, 1000, 1);
        fourier_case(SAMBA_FLOAT32, form, true, 0, 8, 5);
    }
}

/* ---- CTC ---- */
static void ctc_case(samba_dtype dtype, bool gradient, int64_t steps, int64_t batch, int64_t classes, int64_t most, int wrong)
{
    const samba_ctc ctc = {gradient, rand() % 2, steps, batch, classes, most, rand() % classes};
    const samba_attrs attrs = {.ctc = {.blank = ctc.blank, .zero_infinity = ctc.zero_infinity}};
    const samba_array x = {.dtype = dtype, .rank = 3, .shape = {steps, batch, classes}, .numel = steps * batch * classes},
                      rows = {.dtype = dtype, .rank = 1, .shape = {batch}, .numel = batch},
                      lengths = {.dtype = SAMBA_INT64, .rank = 1, .shape = {batch}, .numel = batch};
    samba_array arrays[6] = {
        x, {.dtype = SAMBA_INT64, .rank = 2, .shape = {batch, most}, .numel = batch * most}, lengths, lengths, rows, x};
    const int count = gradient ? 6 : 5;
    tile_case t;
    char name[96];
    case_begin(&t, 1, SHAPE(1));
    t.stage.kind = SAMBA_STAGE_CTC;
    t.stage.rank = 0;
    t.stage.ctc = ctc;
    for (int i = 0; i < count; i++)
        add_operand(&t, arrays[i].dtype, arrays[i].numel);
    for (int64_t i = 0; i < x.numel; i++)
        put(&t, 0, i, -(double)(rand() % 300) / 100);
    for (int64_t i = 0; i < batch * most; i++)
        put(&t, 1, i, (double)(rand() % classes));
    for (int64_t i = 0; i < batch; i++) {
        put(&t, 2, i, (double)(steps - rand() % (steps / 2 + 1)));
        put(&t, 3, i, (double)(rand() % (most + 1)));
        if (gradient)
            put(&t, 4, i, (double)(rand() % 7 - 3));
    }
    char *want = case_room(&t);
    for (int i = 0; i < count; i++)
        arrays[i].data = want + t.buffers[i].offset;
    const samba_op op = gradient ? SAMBA_OP_ctc_loss_grad : SAMBA_OP_ctc_loss;
    need(samba_ops[op].reference(&(samba_reference){context, NULL, &attrs, count - 1, arrays, &arrays[count - 1]}));
    snprintf(name, sizeof name, "ctc of %lld x %lld x %lld, %lld labels", (long long)steps, (long long)batch, (long long)classes,
             (long long)most);
    if (wrong >= 0) { /* a label, a length of steps, one of labels: the row is 0 and the run faults */
        static const double values[][2] = {{1, -1}, {1, 1e6}, {2, -1}, {2, 1e6}, {3, -1}, {3, 1e6}};
        put(&t, 3, 0, (double)most);
        put(&t, (int)values[wrong][0], 0, values[wrong][1]);
        for (int i = 1; i < 4; i++)
            memcpy(want + t.buffers[i].offset, t.memory + t.buffers[i].offset, (size_t)t.buffers[i].bytes);
        for (int64_t i = 0; i < arrays[count - 1].numel; i++)
            if (gradient ? i / classes % batch == 0 : i == 0)
                samba_store_double(dtype, (char *)arrays[count - 1].data + i * (int64_t)samba_dtype_size(dtype), 0);
    }
    case_check_against(&t, want, dtype == SAMBA_FLOAT32 ? 1e-6 : 1e-12, wrong >= 0 ? 7 : 0, name);
    if (wrong < 0)
        check_bits(&t, name);
    case_end(&t);
}

static void test_ctc(void **state)
{
    static const int64_t forms[][4] = {{6, 4, 5, 3}, {1, 2, 2, 1}, {9, 1, 3, 4},  {12, 7, 20, 0},
                                       {0, 3, 4, 2}, {5, 0, 3, 2}, {30, 5, 4, 12}};
    (void)state;
    srand(12);
    for (int f = 0; f < LENGTH(forms); f++)
        for (int way = 0; way < 4; way++)
            ctc_case(way % 2 ? SAMBA_FLOAT32 : SAMBA_FLOAT64, way / 2, forms[f][0], forms[f][1], forms[f][2], forms[f][3], -1);
    for (int wrong = 0; wrong < 6; wrong++)
        for (int gradient = 0; gradient < 2; gradient++)
            ctc_case(SAMBA_FLOAT32, gradient, 6, 3, 5, 2, wrong);
}

TEST_MAIN(test_lengths, test_many_and_none, test_ctc)
