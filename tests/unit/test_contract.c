/* SPDX-License-Identifier: Apache-2.0
 *
 * Contractions against their definition in stage.h, evaluated in double one product after another; the epilogue by the naive
 * interpreter (naive_tiles.h). Values are small whole numbers, so every order of summing gives the same sum and results must be
 * equal to the last bit. Each case runs on every ISA, with and without libxsmm, by 1 to 3 threads. Random cases print seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "failing_allocator.h"
#include "naive_tiles.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

enum { R = SAMBA_CONTRACT_RANK };
/* epilogues: store; bias, relu (integers: maximum), residual, column sums; row sums subtracted, column sums; a bias a row and
 * relu; a bias a column */
enum { PLAIN, FUSED, ROWS, ROW_BIAS, COLUMN_BIAS, EPILOGUES };

static const int teams[] = {1, 2, 3};

static int64_t product(int rank, const int64_t *size)
{
    int64_t total = 1;
    for (int i = 0; i < rank; i++)
        total *= size[i];
    return total;
}

static void spread_index(int rank, const int64_t *size, int64_t flat, int64_t *index)
{
    for (int i = rank - 1; i >= 0; i--) {
        index[i] = flat % size[i];
        flat /= size[i];
    }
}

static int64_t inner_product(int rank, const int64_t *x, const int64_t *y)
{
    int64_t sum = 0;
    for (int i = 0; i < rank; i++)
        sum += x[i] * y[i];
    return sum;
}

/* ---- the definition ---- */

static double factor_value(const tile_case *t, const samba_factor *f, int batch_rank, const int64_t *batch, int own_rank,
                           const int64_t *own, int k_rank, const int64_t *k)
{
    int64_t offset = f->offset + inner_product(batch_rank, f->batch, batch) + inner_product(own_rank, f->own, own) +
                     inner_product(k_rank, f->inner, k);
    for (int w = 0; w < f->window_count; w++) {
        const samba_window *window = &f->windows[w];
        int64_t x = window->base + inner_product(own_rank, window->own, own) + inner_product(k_rank, window->inner, k);
        if (x < 0 || x >= window->limit * window->dilation || x % window->dilation)
            return 0;
        offset += x / window->dilation * window->stride;
    }
    offset *= (int64_t)samba_dtype_size((samba_dtype)f->dtype);
    return samba_load_double((samba_dtype)f->dtype, t->memory + t->buffers[f->buffer].offset + offset);
}

static void define_block(tile_case *t)
{
    const samba_contract *c = &t->stage.contract;
    int64_t batches = product(c->batch_rank, c->batch), m = product(c->m_rank, c->m), n = product(c->n_rank, c->n);
    int64_t k = product(c->k_rank, c->k), batch_index[R], m_index[R], n_index[R], k_index[R];
    double *a = malloc((size_t)(m * k + 1) * sizeof *a), *b = malloc((size_t)(n * k + 1) * sizeof *b);
    t->block = malloc((size_t)(batches * m * n + 1) * sizeof(double));
    for (int64_t e = 0; e < batches; e++) {
        spread_index(c->batch_rank, c->batch, e, batch_index);
        for (int64_t l = 0; l < k; l++) {
            spread_index(c->k_rank, c->k, l, k_index);
            for (int64_t i = 0; i < m; i++) {
                spread_index(c->m_rank, c->m, i, m_index);
                a[i * k + l] = factor_value(t, &c->a, c->batch_rank, batch_index, c->m_rank, m_index, c->k_rank, k_index);
            }
            for (int64_t j = 0; j < n; j++) {
                spread_index(c->n_rank, c->n, j, n_index);
                b[j * k + l] = factor_value(t, &c->b, c->batch_rank, batch_index, c->n_rank, n_index, c->k_rank, k_index);
            }
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0, *d = &t->block[(e * m + i) * n + j];
                for (int64_t l = 0; l < k; l++)
                    sum += a[i * k + l] * b[j * k + l];
                if (c->class_ == SAMBA_I64) /* the interpreter takes the bits */
                    memcpy(d, &(int64_t){(int64_t)sum}, sizeof *d);
                else
                    *d = sum;
            }
    }
    free(a);
    free(b);
}

/* ---- cases ---- */

/* Fills in the stage around a contract whose factors' sizes are known. */
static void begin(tile_case *t, const samba_contract *contract, int64_t a_elements, int64_t b_elements, int epilogue)
{
    int64_t domain[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK] = {0}, rows[SAMBA_MAX_RANK];
    int rank = contract->batch_rank + 2, column = rank - 1;
    memcpy(domain, contract->batch, sizeof contract->batch);
    domain[rank - 2] = product(contract->m_rank, contract->m);
    domain[rank - 1] = product(contract->n_rank, contract->n);
    case_begin(t, rank, domain);
    t->stage.kind = SAMBA_STAGE_CONTRACT;
    t->stage.contract = *contract;
    t->stage.contract.whole_rows = epilogue == ROWS;
    t->stage.contract.a.buffer = case_buffer(t, (samba_dtype)contract->a.dtype, a_elements);
    t->stage.contract.b.buffer = case_buffer(t, (samba_dtype)contract->b.dtype, b_elements);
    samba_register_class class_ = (samba_register_class)contract->class_;
    samba_dtype dtype = class_ == SAMBA_F32 ? SAMBA_FLOAT32 : class_ == SAMBA_F64 ? SAMBA_FLOAT64 : SAMBA_INT64;
    int y = case_contiguous(t, dtype), block = case_register(t, class_, SAMBA_FULL, epilogue == ROWS, -1);
    case_setup_ends(t);
    case_emit(t, SAMBA_TILE_block, block, -1, -1, -1, -1, 0);
    if (epilogue == FUSED) {
        strides[column] = 1;
        int bias = case_operand(t, dtype, 2, strides), sums = case_operand(t, dtype, 0, strides);
        int residual = case_contiguous(t, dtype);
        int r1 = case_register(t, class_, SAMBA_FULL, 0, -1), r2 = case_register(t, class_, SAMBA_FULL, 0, residual);
        case_load(t, r1, bias);
        case_op(t, SAMBA_TILE_add, block, block, r1);
        if (class_ == SAMBA_I64)
            case_op(t, SAMBA_TILE_maximum, block, block, r1);
        else
            case_op(t, SAMBA_TILE_relu, block, block, -1);
        case_load(t, r2, residual);
        case_op(t, SAMBA_TILE_add, block, block, r2);
        case_emit(t, SAMBA_TILE_collect_sum, -1, block, -1, -1, sums, 0);
    } else if (epilogue == ROW_BIAS || epilogue == COLUMN_BIAS) {
        strides[epilogue == ROW_BIAS ? column - 1 : column] = 1;
        int bias = case_operand(t, dtype, 0, strides), r1 = case_register(t, class_, SAMBA_FULL, 0, -1);
        case_load(t, r1, bias);
        case_op(t, SAMBA_TILE_add, block, epilogue == ROW_BIAS ? block : r1, epilogue == ROW_BIAS ? r1 : block);
        if (epilogue == ROW_BIAS && class_ != SAMBA_I64)
            case_op(t, SAMBA_TILE_relu, block, block, -1);
    } else if (epilogue == ROWS) {
        samba_shape_contiguous_strides(rank, domain, rows);
        for (int i = 0; i < rank; i++)
            strides[i] = domain[column] ? rows[i] / domain[column] : 0;
        strides[column] = 0;
        int total = case_register(t, class_, SAMBA_ROW, 1, -1), all = case_register(t, class_, SAMBA_FULL, 0, -1);
        int per_row = case_operand(t, dtype, 0, strides);
        case_op(t, SAMBA_TILE_sum, total, block, -1);
        case_step(t, 1);
        case_store(t, total, per_row);
        case_step(t, 0);
        case_op(t, SAMBA_TILE_spread, all, total, -1);
        case_op(t, SAMBA_TILE_sub, block, block, all);
        int64_t columns[SAMBA_MAX_RANK] = {0};
        columns[column] = 1;
        case_emit(t, SAMBA_TILE_collect_sum, -1, block, -1, -1, case_operand(t, dtype, 0, columns), 0);
    }
    case_store(t, block, y);
    case_step(t, 1);
    define_block(t);
}

static void poison(const tile_case *t, char *memory, bool on)
{
    for (int i = 0; i < t->buffer_count; i++) {
        char *at = memory + t->buffers[i].offset + t->buffers[i].bytes;
        if (on)
            ASAN_POISON_MEMORY_REGION(at, CASE_GUARD);
        else
            ASAN_UNPOISON_MEMORY_REGION(at, CASE_GUARD);
    }
}

static void check(tile_case *t, const char *name)
{
    size_t bytes = (size_t)(t->bytes + 127) / 64 * 64;
    char *want = aligned_alloc(64, bytes), *got = aligned_alloc(64, bytes), what[200];
    volatile int32_t fault = 0;
    memcpy(want, t->memory, (size_t)t->bytes);
    naive_run(t, want);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
        for (int k = 0; samba_kernels_for((samba_isa)isa) && k < 2 * SAMBA_COUNT(teams); k++) {
            samba_context *context;
            samba_arena arena;
            samba_prepared prepared;
            assert_int_equal(samba_context_new(NULL, &context), SAMBA_OK);
            samba_arena_init(&arena, context);
            memcpy(got, t->memory, (size_t)t->bytes);
            samba_prepare prepare = case_prepare(t, context, &arena, isa, teams[k / 2], got, &fault);
            prepare.machine = machine_with((samba_isa)isa, k % 2);
            if (samba_prepare_stage(&prepare, &t->stage, &prepared) != SAMBA_OK)
                fail_msg("%s: %s", name, samba_error_message(context));
            poison(t, got, true);
            run_prepared(&prepared, teams[k / 2]);
            poison(t, got, false);
            snprintf(what, sizeof what, "%s, %s%s, %d threads", name, samba_isa_names[isa], k % 2 ? " and libxsmm" : "",
                     teams[k / 2]);
            case_compare(t, got, want, 0, what);
            samba_arena_free(&arena);
            samba_context_free(context);
        }
    free(want);
    free(got);
}

/* C (m, n) = A (m, k) B (k, n), each of both stored as written or transposed. */
static void plain_case(int64_t m, int64_t n, int64_t k, bool a_turned, bool b_turned, samba_dtype dtype, int epilogue,
                       const char *name)
{
    tile_case t;
    samba_contract c = {.m_rank = 1, .n_rank = 1, .k_rank = 1, .m = {m}, .n = {n}, .k = {k}, .class_ = samba_class_of(dtype)};
    c.a = (samba_factor){.dtype = dtype, .own = {a_turned ? 1 : k}, .inner = {a_turned ? m : 1}};
    c.b = (samba_factor){.dtype = dtype, .own = {b_turned ? k : 1}, .inner = {b_turned ? 1 : n}};
    begin(&t, &c, m * k, n * k, epilogue);
    check(&t, name);
    case_end(&t);
}

static void test_sizes(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 10, 784},   {100, 10, 300}, {32, 128, 784},  {3, 5, 7},
                                       {65, 129, 33}, {200, 300, 17}, {17, 16, 2000}, {150, 70, 1600}, {2, 400, 64},
                                       {300, 1, 50},  {1, 1, 5000},   {64, 64, 64},   {9, 1100, 3}};
    srand(1);
    for (int i = 0; i < SAMBA_COUNT(sizes); i++)
        for (int layout = 0; layout < 4; layout++) {
            char name[100];
            snprintf(name, sizeof name, "%lld x %lld x %lld layout %d", (long long)sizes[i][0], (long long)sizes[i][1],
                     (long long)sizes[i][2], layout);
            plain_case(sizes[i][0], sizes[i][1], sizes[i][2], layout & 1, layout >> 1, SAMBA_FLOAT32, (i + layout) % EPILOGUES,
                       name);
        }
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{0, 5, 3}, {5, 0, 3}, {5, 3, 0}, {0, 0, 0}, {70, 70, 0}};
    for (int i = 0; i < SAMBA_COUNT(sizes); i++)
        for (int epilogue = PLAIN; epilogue <= ROWS; epilogue++)
            plain_case(sizes[i][0], sizes[i][1], sizes[i][2], false, false, SAMBA_FLOAT32, epilogue, "empty");
}

static void test_dtypes(void **state)
{
    (void)state;
    static const samba_dtype dtypes[] = {SAMBA_BFLOAT16, SAMBA_FLOAT16, SAMBA_FLOAT64, SAMBA_INT64,
                                         SAMBA_INT32,    SAMBA_INT8,    SAMBA_UINT8,   SAMBA_BOOL};
    srand(2);
    for (int i = 0; i < SAMBA_COUNT(dtypes); i++)
        for (int layout = 0; layout < 4; layout++)
            for (int epilogue = PLAIN; epilogue <= ROWS; epilogue++) {
                plain_case(70, 90, 130, layout & 1, layout >> 1, dtypes[i], epilogue, samba_dtype_name(dtypes[i]));
                plain_case(5, 3, 1700, layout & 1, layout >> 1, dtypes[i], epilogue, samba_dtype_name(dtypes[i]));
            }
}

/* ---- random views ---- */

static int64_t random_size(void)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 33, 64, 70};
    return sizes[rand() % SAMBA_COUNT(sizes)];
}

static int random_dims(int most, int64_t limit, int64_t *size)
{
    int rank = rand() % (most + 1);
    for (int i = 0; i < rank; i++) {
        size[i] = random_size();
        while (product(i + 1, size) > limit)
            size[i] = (size[i] + 1) / 2;
    }
    return rank;
}

/* Strides of a random order of the factor's dims, some with gaps, some batch dims broadcast. Returns the elements spanned. */
static int64_t random_layout(const samba_contract *c, bool second, samba_factor *f)
{
    int64_t *stride[3 * R], size[3 * R], next = 1;
    int count = 0, own_rank = second ? c->n_rank : c->m_rank;
    for (int i = 0; i < c->batch_rank; i++) {
        if (rand() % 4 == 0)
            continue;
        stride[count] = &f->batch[i];
        size[count++] = c->batch[i];
    }
    for (int i = 0; i < own_rank; i++) {
        stride[count] = &f->own[i];
        size[count++] = (second ? c->n : c->m)[i];
    }
    for (int i = 0; i < c->k_rank; i++) {
        stride[count] = &f->inner[i];
        size[count++] = c->k[i];
    }
    bool shuffle = rand() % 2;
    for (int i = count - 1; i >= 0; i--) {
        int j = shuffle ? rand() % (i + 1) : i;
        *stride[j] = next;
        next *= size[j] + (rand() % 8 == 0);
        stride[j] = stride[i];
        size[j] = size[i];
    }
    f->offset = rand() % 3;
    return next + f->offset;
}

static void test_views(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 250; seed++) {
        static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT32,  SAMBA_FLOAT32,
                                             SAMBA_FLOAT64, SAMBA_BFLOAT16, SAMBA_INT32};
        char name[60];
        tile_case t;
        srand(seed);
        samba_contract c = {0};
        samba_dtype dtype = dtypes[rand() % SAMBA_COUNT(dtypes)];
        c.class_ = samba_class_of(dtype);
        c.a.dtype = c.b.dtype = dtype;
        c.batch_rank = random_dims(2, 6, c.batch);
        c.m_rank = random_dims(3, 150, c.m);
        c.n_rank = random_dims(3, 150, c.n);
        c.k_rank = random_dims(3, 900, c.k);
        int64_t a = random_layout(&c, false, &c.a), b = random_layout(&c, true, &c.b);
        snprintf(name, sizeof name, "views, seed %u", seed);
        begin(&t, &c, a, b, rand() % EPILOGUES);
        check(&t, name);
        case_end(&t);
    }
}

/* ---- large products, which go by panels ---- */

static void test_panels(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{200, 130, 100}, {193, 77, 801}, {48, 64, 768}, {60, 700, 1601},
                                       {500, 65, 70},   {97, 641, 64},  {64, 1024, 40}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_BFLOAT16, SAMBA_FLOAT16};
    srand(4);
    for (int i = 0; i < SAMBA_COUNT(sizes); i++)
        for (int j = 0; j < 8; j++) {
            char name[100];
            samba_dtype dtype = dtypes[j < 4 ? 0 : 1 + (i + j) % 4 / 3]; /* mostly the two that have kernels of their own */
            snprintf(name, sizeof name, "panels, %lld x %lld x %lld layout %d %s", (long long)sizes[i][0], (long long)sizes[i][1],
                     (long long)sizes[i][2], j & 3, samba_dtype_name(dtype));
            plain_case(sizes[i][0], sizes[i][1], sizes[i][2], j & 1, j >> 1 & 1, dtype, (i + j) % EPILOGUES, name);
        }
}

/* Batches, some operands the same for each; rows with gaps, so that odd strides and places occur. */
static void test_panel_views(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 24; seed++) {
        char name[60];
        tile_case t;
        srand(seed);
        samba_contract c = {.m_rank = 1, .n_rank = 1, .k_rank = 1, .class_ = SAMBA_F32};
        c.batch_rank = rand() % 2;
        c.batch[0] = 1 + rand() % 3;
        c.m[0] = 48 + rand() % 200;
        c.n[0] = 64 + rand() % 200;
        c.k[0] = 64 + rand() % 200;
        c.a.dtype = c.b.dtype = seed % 2 ? SAMBA_FLOAT32 : SAMBA_BFLOAT16;
        int64_t a = random_layout(&c, false, &c.a), b = random_layout(&c, true, &c.b);
        snprintf(name, sizeof name, "panel views, seed %u", seed);
        begin(&t, &c, a, b, rand() % EPILOGUES);
        check(&t, name);
        case_end(&t);
    }
}

/* Whole rows where threads share the columns: sums in a matrix of all threads, the epilogue after a barrier. */
static void test_rows_apart(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{32, 128, 784}, {32, 128, 128}, {16, 500, 200}, {33, 130, 300}, {3, 700, 90}};
    for (int i = 0; i < SAMBA_COUNT(sizes); i++)
        for (int layout = 0; layout < 4; layout++) {
            char name[100];
            snprintf(name, sizeof name, "rows, %lld x %lld x %lld layout %d", (long long)sizes[i][0], (long long)sizes[i][1],
                     (long long)sizes[i][2], layout);
            plain_case(sizes[i][0], sizes[i][1], sizes[i][2], layout & 1, layout >> 1, SAMBA_FLOAT32, ROWS, name);
        }
    for (unsigned seed = 1; seed <= 12; seed++) {
        char name[60];
        tile_case t;
        srand(seed);
        samba_contract c = {.m_rank = 1, .n_rank = 1, .k_rank = 1, .class_ = seed % 4 ? SAMBA_F32 : SAMBA_F64};
        c.batch_rank = rand() % 2;
        c.batch[0] = 1 + rand() % 3;
        c.m[0] = 2 + rand() % 40;
        c.n[0] = 30 + rand() % 200;
        c.k[0] = 64 + rand() % 400;
        c.a.dtype = c.b.dtype = seed % 4 ? SAMBA_FLOAT32 : SAMBA_FLOAT64;
        int64_t a = random_layout(&c, false, &c.a), b = random_layout(&c, true, &c.b);
        snprintf(name, sizeof name, "rows, seed %u", seed);
        begin(&t, &c, a, b, ROWS);
        check(&t, name);
        case_end(&t);
    }
}

/* ---- convolutions ---- */

typedef struct convolution {
    int64_t images, groups, out, in, h, w, kernel[2], stride[2], padding[2], dilation[2]; /* out and in: channels of one group */
    int dtype;
    bool wrong; /* some pixels are not finite */
} convolution;
enum { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT };

/* Of the image, whose pixels far apart are not finite. */
static void poison_image(tile_case *t)
{
    static const float wrong[] = {INFINITY, -INFINITY, NAN};
    const samba_buffer *buffer = &t->buffers[t->stage.contract.b.buffer];
    float *image = (float *)(t->memory + buffer->offset);
    for (int64_t i = 5, n = 0; i < buffer->bytes / 4; i += 97 + 13 * n, n++)
        image[i] = wrong[n % 3];
    free(t->block);
    define_block(t);
}

static void convolution_case(const convolution *v, int kind, int epilogue, const char *name)
{
    tile_case t;
    int64_t size[2] = {v->h, v->w}, result[2];
    for (int i = 0; i < 2; i++)
        result[i] = (size[i] + 2 * v->padding[i] - v->dilation[i] * (v->kernel[i] - 1) - 1) / v->stride[i] + 1;
    int64_t pixels = v->h * v->w, results = result[0] * result[1], taps = v->kernel[0] * v->kernel[1],
            weights = v->out * v->in * taps;
    int64_t image_x = v->groups * v->in * pixels, image_y = v->groups * v->out * results;
    samba_contract c = {.class_ = samba_class_of((samba_dtype)v->dtype), .a.dtype = v->dtype, .b.dtype = v->dtype};
    c.b.window_count = 2;
    for (int i = 0; i < 2; i++) {
        samba_window *window = &c.b.windows[i];
        window->dilation = 1;
        window->base = -v->padding[i];
        window->limit = size[i];
        window->stride = i ? 1 : v->w;
        if (kind == FORWARD) {
            window->own[i] = v->stride[i];
            window->inner[1 + i] = v->dilation[i];
        } else if (kind == INPUT_GRADIENT) {
            *window = (samba_window){.base = v->padding[i], .limit = result[i], .dilation = v->stride[i]};
            window->stride = i ? 1 : result[1];
            window->own[i] = 1;
            window->inner[1 + i] = -v->dilation[i];
        } else {
            window->own[1 + i] = v->dilation[i];
            window->inner[1 + i] = v->stride[i];
        }
    }
    if (kind == WEIGHT_GRADIENT) {
        c.batch_rank = 1, c.m_rank = 1, c.n_rank = 3, c.k_rank = 3;
        c.batch[0] = v->groups, c.m[0] = v->out;
        c.n[0] = v->in, c.n[1] = v->kernel[0], c.n[2] = v->kernel[1];
        c.k[0] = v->images, c.k[1] = result[0], c.k[2] = result[1];
        c.a.batch[0] = v->out * results, c.a.own[0] = results;
        c.a.inner[0] = image_y, c.a.inner[1] = result[1], c.a.inner[2] = 1;
        c.b.batch[0] = v->in * pixels, c.b.own[0] = pixels, c.b.inner[0] = image_x;
        begin(&t, &c, v->images * image_y, v->images * image_x, epilogue);
    } else {
        bool forward = kind == FORWARD;
        c.batch_rank = 2, c.m_rank = 1, c.n_rank = 2, c.k_rank = 3;
        c.batch[0] = v->images, c.batch[1] = v->groups;
        c.m[0] = forward ? v->out : v->in;
        c.n[0] = forward ? result[0] : v->h, c.n[1] = forward ? result[1] : v->w;
        c.k[0] = forward ? v->in : v->out, c.k[1] = v->kernel[0], c.k[2] = v->kernel[1];
        c.a.batch[1] = weights, c.a.own[0] = forward ? v->in * taps : taps;
        c.a.inner[0] = forward ? taps : v->in * taps, c.a.inner[1] = v->kernel[1], c.a.inner[2] = 1;
        c.b.batch[0] = forward ? image_x : image_y, c.b.batch[1] = forward ? v->in * pixels : v->out * results;
        c.b.inner[0] = forward ? pixels : results;
        begin(&t, &c, v->groups * weights, v->images * (forward ? image_x : image_y), epilogue);
    }
    if (v->wrong)
        poison_image(&t);
    check(&t, name);
    case_end(&t);
}

static void test_convolutions(void **state)
{
    (void)state;
    static const convolution cases[] = {
        {.images = 3,
         .groups = 1,
         .out = 6,
         .in = 1,
         .h = 28,
         .w = 28,
         .kernel = {5, 5},
         .stride = {1, 1},
         .padding = {2, 2},
         .dilation = {1, 1}},
        {.images = 2, .groups = 1, .out = 16, .in = 6, .h = 14, .w = 14, .kernel = {5, 5}, .stride = {1, 1}, .dilation = {1, 1}},
        {.images = 2,
         .groups = 1,
         .out = 20,
         .in = 12,
         .h = 20,
         .w = 20,
         .kernel = {3, 3},
         .stride = {2, 2},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 2, .groups = 1, .out = 9, .in = 10, .h = 9, .w = 13, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}},
        {.images = 3,
         .groups = 1,
         .out = 6,
         .in = 16,
         .h = 14,
         .w = 35,
         .kernel = {5, 5},
         .stride = {1, 1},
         .padding = {4, 4},
         .dilation = {1, 1}},
        {.images = 2,
         .groups = 3,
         .out = 1,
         .in = 1,
         .h = 21,
         .w = 38,
         .kernel = {3, 3},
         .stride = {3, 2},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 1,
         .groups = 1,
         .out = 70,
         .in = 40,
         .h = 12,
         .w = 40,
         .kernel = {3, 3},
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
        /* input gradients that are folded: channels in blocks; groups; a row in parts; images side by side, with one left over;
         * more channels than one step takes */
        {.images = 1,
         .groups = 1,
         .out = 48,
         .in = 23,
         .h = 33,
         .w = 30,
         .kernel = {3, 3},
         .stride = {2, 2},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 3, .groups = 2, .out = 24, .in = 7, .h = 19, .w = 20, .kernel = {2, 1}, .stride = {2, 3}, .dilation = {1, 1}},
        {.images = 1,
         .groups = 1,
         .out = 20,
         .in = 3,
         .h = 1,
         .w = 3001,
         .kernel = {1, 5},
         .stride = {1, 2},
         .padding = {0, 3},
         .dilation = {1, 2}},
        {.images = 11, .groups = 1, .out = 40, .in = 5, .h = 9, .w = 8, .kernel = {4, 4}, .stride = {1, 1}, .dilation = {1, 1}},
        {.images = 2,
         .groups = 1,
         .out = 800,
         .in = 2,
         .h = 6,
         .w = 5,
         .kernel = {3, 3},
         .stride = {2, 2},
         .padding = {1, 1},
         .dilation = {1, 1}},
        /* images of a few pixels that share their packed weights through the steps of k,
         * not a multiple of those that go together */
        {.images = 37,
         .groups = 1,
         .out = 48,
         .in = 88,
         .h = 4,
         .w = 4,
         .kernel = {3, 3},
         .stride = {2, 2},
         .padding = {1, 1},
         .dilation = {1, 1}},
        /* 3 x 3 by tiles: whole ones, some cut at the right or below, images side by side with one left over, more padding than
         * kernel, rows of more tiles than a vector; what is not finite stays where it is seen */
        {.images = 2,
         .groups = 1,
         .out = 40,
         .in = 32,
         .h = 12,
         .w = 16,
         .kernel = {3, 3},
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 5,
         .groups = 1,
         .out = 33,
         .in = 26,
         .h = 7,
         .w = 9,
         .kernel = {3, 3},
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 1,
         .groups = 1,
         .out = 24,
         .in = 24,
         .h = 10,
         .w = 71,
         .kernel = {3, 3},
         .stride = {1, 1},
         .padding = {3, 2},
         .dilation = {1, 1}},
        {.images = 2, .groups = 1, .out = 48, .in = 24, .h = 15, .w = 21, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}},
        {.images = 3,
         .groups = 1,
         .out = 32,
         .in = 24,
         .h = 17,
         .w = 20,
         .kernel = {3, 3},
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1},
         .wrong = true},
        /* columns gathered: images side by side, one group of them smaller; boxes of rows, the last with fewer; every second
         * pixel; one place of the window; more padding than kernel; a long row */
        {.images = 5,
         .groups = 1,
         .out = 200,
         .in = 40,
         .h = 7,
         .w = 7,
         .kernel = {3, 3},
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 1,
         .groups = 1,
         .out = 130,
         .in = 24,
         .h = 26,
         .w = 31,
         .kernel = {3, 3},
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 3,
         .groups = 1,
         .out = 130,
         .in = 24,
         .h = 31,
         .w = 29,
         .kernel = {3, 3},
         .stride = {2, 2},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 2,
         .groups = 1,
         .out = 192,
         .in = 64,
         .h = 17,
         .w = 18,
         .kernel = {1, 1},
         .stride = {2, 2},
         .dilation = {1, 1}},
        {.images = 2,
         .groups = 1,
         .out = 150,
         .in = 30,
         .h = 8,
         .w = 9,
         .kernel = {2, 3},
         .stride = {1, 2},
         .padding = {3, 4},
         .dilation = {1, 1}},
        {.images = 1,
         .groups = 1,
         .out = 128,
         .in = 50,
         .h = 1,
         .w = 700,
         .kernel = {1, 4},
         .stride = {1, 1},
         .dilation = {1, 2}},
        /* depthwise: bands of rows; sorted planes; zeros between dy's rows; filters wider than the image; one row */
        {.images = 2,
         .groups = 5,
         .out = 1,
         .in = 1,
         .h = 60,
         .w = 67,
         .kernel = {3, 3},
         .stride = {1, 1},
         .padding = {1, 1},
         .dilation = {1, 1}},
        {.images = 2,
         .groups = 5,
         .out = 1,
         .in = 1,
         .h = 31,
         .w = 40,
         .kernel = {5, 3},
         .stride = {2, 2},
         .padding = {2, 1},
         .dilation = {1, 1}},
        {.images = 1,
         .groups = 4,
         .out = 1,
         .in = 1,
         .h = 20,
         .w = 17,
         .kernel = {2, 4},
         .stride = {1, 3},
         .padding = {0, 3},
         .dilation = {2, 2}},
        {.images = 2,
         .groups = 3,
         .out = 1,
         .in = 1,
         .h = 4,
         .w = 3,
         .kernel = {7, 7},
         .stride = {1, 1},
         .padding = {3, 3},
         .dilation = {1, 1}},
        {.images = 2, .groups = 6, .out = 1, .in = 1, .h = 1, .w = 90, .kernel = {1, 5}, .stride = {1, 1}, .dilation = {1, 2}},
        {.images = 2, .groups = 6, .out = 1, .in = 1, .h = 24, .w = 33, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}},
    };
    srand(3);
    for (int i = 0; i < SAMBA_COUNT(cases); i++)
        for (int kind = FORWARD; kind <= WEIGHT_GRADIENT; kind++) {
            char name[60];
            snprintf(name, sizeof name, "convolution %d of kind %d", i, kind);
            convolution_case(&cases[i], kind, (i + 2 * kind) % EPILOGUES, name);
        }
}

static void test_random_convolutions(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 150; seed++) {
        static const int dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT32, SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_BFLOAT16, SAMBA_INT32};
        char name[60];
        srand(seed);
        convolution v = {.images = 1 + rand() % 3,
                         .groups = 1 + (rand() % 3 == 0),
                         .out = 1 + rand() % 20,
                         .in = 1 + rand() % 8,
                         .dtype = dtypes[rand() % SAMBA_COUNT(dtypes)]};
        for (int i = 0; i < 2; i++) {
            v.kernel[i] = 1 + rand() % 4;
            v.stride[i] = 1 + (rand() % 3 == 0) * (1 + rand() % 2);
            v.padding[i] = rand() % 3;
            v.dilation[i] = 1 + (rand() % 4 == 0) * (1 + rand() % 2);
            *(i ? &v.w : &v.h) = v.dilation[i] * (v.kernel[i] - 1) + 1 + rand() % 20;
        }
        for (int kind = FORWARD; kind <= WEIGHT_GRADIENT; kind++) {
            snprintf(name, sizeof name, "random convolution of kind %d, seed %u", kind, seed);
            convolution_case(&v, kind, rand() % EPILOGUES, name);
        }
    }
}

/* A window along one dim, on the first factor, that shares its dim with a stride. */
static void test_one_window(void **state)
{
    (void)state;
    for (int64_t base = -3; base <= 1; base++)
        for (int epilogue = PLAIN; epilogue <= ROWS; epilogue++) {
            tile_case t;
            samba_contract c = {.m_rank = 2, .n_rank = 1, .k_rank = 2, .m = {3, 50}, .n = {12}, .k = {4, 5}};
            c.a = (samba_factor){.own = {60, 60}, .inner = {200, 0}, .window_count = 1};
            c.a.windows[0] = (samba_window){.base = base, .limit = 48, .dilation = 1, .stride = 1, .own = {0, 1}};
            c.a.windows[0].inner[1] = 2;
            c.b = (samba_factor){.own = {1}, .inner = {60, 12}};
            begin(&t, &c, 60 * 60 * 10, 240, epilogue);
            check(&t, "one window");
            case_end(&t);
        }
}

/* ---- errors ---- */

static samba_status prepare_scenario(samba_context *context, void *user)
{
    const tile_case *t = (const tile_case *)user;
    samba_arena arena;
    samba_prepared prepared;
    volatile int32_t fault = 0;
    samba_arena_init(&arena, context);
    samba_prepare prepare = case_prepare(t, context, &arena, samba_isa_best(), 2, t->memory, &fault);
    prepare.machine = machine_with(samba_isa_best(), true);
    samba_status status = samba_prepare_stage(&prepare, &t->stage, &prepared);
    samba_arena_free(&arena);
    return status;
}

static void test_errors(void **state)
{
    (void)state;
    tile_case t;
    samba_contract c = {.m_rank = 1, .n_rank = 1, .k_rank = 2, .m = {30}, .n = {40}, .k = {5, 6}};
    c.a = (samba_factor){.own = {30}, .inner = {6, 1}};
    c.b = (samba_factor){.own = {1}, .inner = {40, 250}};
    begin(&t, &c, 900, 2000, FUSED);
    fail_each_allocation(prepare_scenario, &t);
    t.stage.contract.b.dtype = SAMBA_INT32;
    samba_context *context;
    assert_int_equal(samba_context_new(NULL, &context), SAMBA_OK);
    assert_int_equal(prepare_scenario(context, &t), SAMBA_ERROR_INTERNAL);
    assert_non_null(strstr(samba_error_message(context), "int32"));
    samba_context_free(context);
    case_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_dtypes),       cmocka_unit_test(test_views),
        cmocka_unit_test(test_panels),       cmocka_unit_test(test_panel_views),
        cmocka_unit_test(test_convolutions), cmocka_unit_test(test_random_convolutions),
        cmocka_unit_test(test_rows_apart),   cmocka_unit_test(test_one_window),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
