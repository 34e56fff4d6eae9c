/* SPDX-License-Identifier: Apache-2.0
 *
 * Contractions against their definition in stage.h, evaluated in double one product after another; the epilogue by the naive
 * interpreter (naive_tiles.h). Values are small whole numbers, so every order of summing gives the same sum and results must be
 * equal to the last bit. Each case runs on every ISA, with and without libxsmm, by 1 to 3 threads. Random cases print seeds. */
#include "failing_allocator.h"
#include "naive_tiles.h"

enum { R = SAMBA_CONTRACT_RANK };
/* epilogues: store; bias, relu (integers: maximum), residual, column sums; row sums subtracted, column sums; a bias a row and
 * relu; a bias a column */
enum { PLAIN, FUSED, ROWS, ROW_BIAS, COLUMN_BIAS, EPILOGUES };

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

static int64_t inner_product(const int64_t *x, const int64_t *y)
{
    int64_t sum = 0;
    for (int i = 0; i < R; i++)
        sum += x[i] * y[i];
    return sum;
}

/* ---- the definition ---- */
static double factor_value(const tile_case *t, const samba_factor *f, const int64_t *batch, const int64_t *own, const int64_t *k)
{
    int64_t offset = f->offset + inner_product(f->batch, batch) + inner_product(f->own, own) + inner_product(f->inner, k);
    for (int w = 0; w < f->window_count; w++) {
        const samba_window *window = &f->windows[w];
        int64_t x = window->base + inner_product(window->own, own) + inner_product(window->inner, k);
        if (x < 0 || x >= window->limit * window->dilation || x % window->dilation)
            return 0;
        offset += x / window->dilation * window->stride;
    }
    offset *= (int64_t)samba_dtype_size((samba_dtype)f->dtype);
    return samba_load_double((samba_dtype)f->dtype, t->memory + t->buffers[f->buffer].offset + offset);
}

/* All of a factor that belongs to one batch element: (own, k). */
static double *factor_values(const tile_case *t, const samba_factor *f, const int64_t *batch, int own_rank, const int64_t *own)
{
    const samba_contract *c = &t->stage.contract;
    int64_t rows = product(own_rank, own), k = product(c->k_rank, c->k), own_index[R] = {0}, k_index[R] = {0};
    double *values = malloc((size_t)(rows * k + 1) * sizeof *values);
    for (int64_t i = 0; i < rows; i++) {
        spread_index(own_rank, own, i, own_index);
        for (int64_t l = 0; l < k; l++) {
            spread_index(c->k_rank, c->k, l, k_index);
            values[i * k + l] = factor_value(t, f, batch, own_index, k_index);
        }
    }
    return values;
}

static void define_block(tile_case *t)
{
    const samba_contract *c = &t->stage.contract;
    int64_t batches = product(c->batch_rank, c->batch), m = product(c->m_rank, c->m), n = product(c->n_rank, c->n);
    int64_t k = product(c->k_rank, c->k), batch[R] = {0};
    t->block = malloc((size_t)(batches * m * n + 1) * sizeof(double));
    double *d = t->block;
    for (int64_t e = 0; e < batches; e++) {
        spread_index(c->batch_rank, c->batch, e, batch);
        double *a = factor_values(t, &c->a, batch, c->m_rank, c->m), *b = factor_values(t, &c->b, batch, c->n_rank, c->n);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++, d++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += a[i * k + l] * b[j * k + l];
                if (c->class_ == SAMBA_I64) /* the interpreter takes the bits */
                    memcpy(d, &(int64_t){(int64_t)sum}, sizeof *d);
                else
                    *d = sum;
            }
        free(a);
        free(b);
    }
}

/* ---- cases ---- */
/* Fills in the stage around a contract whose factors' sizes are known, but for its program. */
static void begin_stage(tile_case *t, const samba_contract *contract, int64_t a_elements, int64_t b_elements, int epilogue)
{
    static const samba_dtype wide[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64};
    int64_t domain[SAMBA_MAX_RANK];
    const int rank = contract->batch_rank + 2, row = rank - 2, column = rank - 1;
    memcpy(domain, contract->batch, sizeof contract->batch);
    domain[row] = product(contract->m_rank, contract->m);
    domain[column] = product(contract->n_rank, contract->n);
    case_begin(t, rank, domain);
    t->stage.kind = SAMBA_STAGE_CONTRACT;
    t->stage.contract = *contract;
    t->stage.contract.whole_rows = epilogue == ROWS;
    t->stage.contract.a.buffer = case_buffer(t, (samba_dtype)contract->a.dtype, a_elements);
    t->stage.contract.b.buffer = case_buffer(t, (samba_dtype)contract->b.dtype, b_elements);
    t->dtype = wide[contract->class_];
    define_block(t);
}

static void begin(tile_case *t, const samba_contract *contract, int64_t a_elements, int64_t b_elements, int epilogue)
{
    const int row = contract->batch_rank, column = row + 1;
    const bool whole = contract->class_ == SAMBA_I64;
    begin_stage(t, contract, a_elements, b_elements, epilogue);
    case_text(t, "T y; setup; block block%s", epilogue == ROWS ? "*" : "");
    if (epilogue == FUSED)
        case_text(t,
                  "T bias:%d sums: residual; load r1 bias; add block block r1; %s; load r2@residual residual; add block block r2;"
                  "collect_sum block sums",
                  column, whole ? "maximum block block r1" : "relu block block");
    else if (epilogue == ROW_BIAS)
        case_text(t, "T bias:%d; load r1 bias; add block block r1; %s", row, whole ? "" : "relu block block");
    else if (epilogue == COLUMN_BIAS)
        case_text(t, "T bias:%d; load r1 bias; add block r1 block", column);
    else if (epilogue == ROWS)
        case_text(t,
                  "T per_row:%.*s columns:%d; sum total* block; step; store total per_row; once; spread all total;"
                  "sub block block all; collect_sum block columns",
                  column, "01234567", column);
    case_text(t, "store block y; step");
}

/* C (m, n) = A (m, k) B (k, n), A and B stored as written and transposed. */
static samba_contract laid_out(const int64_t size[3], samba_dtype dtype, int layout)
{
    const int64_t m = size[0], n = size[1], k = size[2];
    bool a_turned = layout & 1, b_turned = layout & 2;
    samba_contract c = {.m_rank = 1, .n_rank = 1, .k_rank = 1, .m = {m}, .n = {n}, .k = {k}, .class_ = samba_class_of(dtype)};
    c.a = (samba_factor){.dtype = dtype, .own = {a_turned ? 1 : k}, .inner = {a_turned ? m : 1}};
    c.b = (samba_factor){.dtype = dtype, .own = {b_turned ? k : 1}, .inner = {b_turned ? 1 : n}};
    return c;
}

/* By an epilogue or, turning, the next one each time. */
static void check_layouts(const int64_t size[3], samba_dtype dtype, int epilogue, bool turning)
{
    const int64_t m = size[0], n = size[1], k = size[2];
    for (int layout = 0; layout < 4; layout++) {
        tile_case t;
        samba_contract c = laid_out(size, dtype, layout);
        begin(&t, &c, m * k, n * k, turning ? (epilogue + layout) % EPILOGUES : epilogue);
        case_check(&t, 0, "%lld x %lld x %lld layout %d %s", (long long)m, (long long)n, (long long)k, layout,
                   samba_dtype_name(dtype));
    }
}

/* Those after the first 14 go by panels, mostly of the two dtypes that have kernels of their own. */
TEST(test_sizes)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},       {1, 10, 784},    {100, 10, 300}, {32, 128, 784},  {3, 5, 7},     {65, 129, 33}, {200, 300, 17},
        {17, 16, 2000},  {150, 70, 1600}, {2, 400, 64},   {300, 1, 50},    {1, 1, 5000},  {64, 64, 64},  {9, 1100, 3},
        {200, 130, 100}, {193, 77, 801},  {48, 64, 768},  {60, 700, 1601}, {500, 65, 70}, {97, 641, 64}, {64, 1024, 40}};
    static const int64_t empty[][3] = {{0, 5, 3}, {5, 0, 3}, {5, 3, 0}, {0, 0, 0}, {70, 70, 0}};
    /* whole rows where threads share the columns: sums in a matrix of all threads, the epilogue after a barrier */
    static const int64_t shared[][3] = {{32, 128, 784}, {32, 128, 128}, {16, 500, 200}, {33, 130, 300}, {3, 700, 90}};
    srand(1);
    for (int i = 0; i < LENGTH(sizes); i++) {
        check_layouts(sizes[i], SAMBA_FLOAT32, i, true);
        if (i >= 14)
            check_layouts(sizes[i], SAMBA_BFLOAT16, i + 4, true);
        if (i >= 14 && i % 3 == 2)
            check_layouts(sizes[i], SAMBA_FLOAT16, i + 4, true);
    }
    for (int i = 0; i < EPILOGUES * LENGTH(empty); i++)
        check_layouts(empty[i / EPILOGUES], SAMBA_FLOAT32, i, true);
    for (int i = 0; i < LENGTH(shared); i++)
        check_layouts(shared[i], SAMBA_FLOAT32, ROWS, false);
}

TEST(test_dtypes)
{
    srand(2);
    for (int dtype = 0; dtype < SAMBA_DTYPE_COUNT; dtype++)
        for (int epilogue = PLAIN; epilogue <= ROWS && dtype != SAMBA_FLOAT32; epilogue++) {
            check_layouts(SHAPE(70, 90, 130), (samba_dtype)dtype, epilogue, false);
            check_layouts(SHAPE(5, 3, 1700), (samba_dtype)dtype, epilogue, false);
        }
    static const int64_t vectors[][3] = {{1, 301, 515}, {301, 1, 515}, {1, 30000, 3}, {30000, 1, 1}, {1, 1, 70000}, {5, 1, 20000},
                                         {1, 3, 40000}, {40, 1, 19},   {5000, 1, 3},  {37, 1, 16},   {2, 1, 140000}};
    for (int i = 0; i < LENGTH(vectors); i++) /* one row, or one column */
        for (int epilogue = PLAIN; epilogue < EPILOGUES; epilogue++) {
            check_layouts(vectors[i], SAMBA_FLOAT32, epilogue, false);
            check_layouts(vectors[i], SAMBA_BFLOAT16, epilogue, false);
        }
}

/* ---- results of 16 bits ---- */
/* Rounded before a bias and after it, or not, with relu or without; once in a while a result that is no copy of whole rows. */
static void check_halves(const int64_t size[3], unsigned seed)
{
    static const samba_dtype factors[] = {SAMBA_BFLOAT16, SAMBA_FLOAT32, SAMBA_FLOAT16};
    tile_case t;
    char round[60], bias[160] = "";
    srand(seed);
    samba_dtype result = seed % 5 ? SAMBA_BFLOAT16 : SAMBA_FLOAT16;
    samba_contract c = laid_out(size, factors[rand() % 4 % 3], rand() % 4);
    begin_stage(&t, &c, size[0] * size[2], size[1] * size[2], PLAIN);
    snprintf(round, sizeof round, "round_%s block block;", samba_dtype_name(result));
    if (rand() % 2)
        snprintf(bias, sizeof bias, "%s bias:%s; load r1 bias; add block block r1; %s",
                 samba_dtype_name(rand() % 4 ? result : SAMBA_FLOAT32),
                 rand() % 2   ? "0"
                 : rand() % 2 ? "1"
                              : "01",
                 rand() % 2 ? round : "");
    case_text(&t, "%s y:%s; setup; block block; %s %s %s %s store block y; step", samba_dtype_name(result),
              rand() % 6 ? "01" : "10", rand() % 2 ? round : "", bias, rand() % 3 ? "" : "relu block block;",
              rand() % 2 ? round : "");
    case_check(&t, 0, "%lld x %lld x %lld to %s, seed %u", (long long)size[0], (long long)size[1], (long long)size[2],
               samba_dtype_name(result), seed);
}

TEST(test_halves)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {7, 33, 5},    {65, 129, 33}, {200, 130, 100}, {193, 77, 801},
                                       {3, 700, 90},  {1, 301, 515}, {301, 1, 515}, {500, 65, 70},   {97, 641, 64},
                                       {5, 3, 1700},  {60, 1600, 3}, {40, 1100, 1}, {70, 90, 1601},  {1, 1, 3000},
                                       {1, 20000, 2}, {2, 1, 70000}, {1, 9000, 1},  {300, 1, 9},     {1, 5, 900}};
    for (unsigned seed = 0; seed < 6 * LENGTH(sizes); seed++)
        if (runs_case(seed))
            check_halves(sizes[seed % LENGTH(sizes)], seed);
}

/* ---- random views ---- */
static int random_dims(int most, int64_t limit, int64_t *size)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 33, 64, 70};
    int rank = rand() % (most + 1);
    for (int i = 0; i < rank; i++) {
        size[i] = sizes[rand() % LENGTH(sizes)];
        while (product(i + 1, size) > limit)
            size[i] = (size[i] + 1) / 2;
    }
    return rank;
}

/* Strides of a random order of the factor's dims, some with gaps, some batch dims broadcast. Returns the elements spanned. */
static int64_t random_layout(const samba_contract *c, bool second, samba_factor *f)
{
    const int ranks[] = {c->batch_rank, second ? c->n_rank : c->m_rank, c->k_rank};
    const int64_t *sizes[] = {c->batch, second ? c->n : c->m, c->k};
    int64_t *const strides[] = {f->batch, f->own, f->inner}, *stride[3 * R], size[3 * R], next = 1;
    int count = 0;
    for (int part = 0; part < 3; part++)
        for (int i = 0; i < ranks[part]; i++)
            if (part > 0 || rand() % 4 > 0) {
                stride[count] = &strides[part][i];
                size[count++] = sizes[part][i];
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

/* Of several dims each; as large as panels want them; few whole rows, which threads share. */
enum { F32 = SAMBA_FLOAT32, F64 = SAMBA_FLOAT64, BF16 = SAMBA_BFLOAT16, I32 = SAMBA_INT32 };
static const struct family {
    const char *name;
    unsigned seeds;
    int64_t least[3], more[3]; /* of m, n, k in one dim each; 0: of several dims */
    int epilogue, dtypes[6];   /* -1: any */
} families[] = {
    {"views", 250, {0}, {0}, -1, {F32, F32, F32, F64, BF16, I32}},
    {"panel views", 24, {48, 64, 64}, {200, 200, 200}, -1, {BF16, F32, BF16, F32, BF16, F32}},
    {"rows", 12, {2, 30, 64}, {40, 200, 400}, ROWS, {F32, F32, F32, F64, F32, F32}},
};

static void random_view(const struct family *of, unsigned seed)
{
    tile_case t;
    srand(seed);
    samba_contract c = {.m_rank = 1, .n_rank = 1, .k_rank = 1};
    samba_dtype dtype = (samba_dtype)of->dtypes[of->more[0] ? seed % 6 : (unsigned)rand() % 6];
    c.class_ = samba_class_of(dtype);
    c.a.dtype = c.b.dtype = dtype;
    if (of->more[0] == 0) {
        c.batch_rank = random_dims(2, 6, c.batch);
        c.m_rank = random_dims(3, 150, c.m);
        c.n_rank = random_dims(3, 150, c.n);
        c.k_rank = random_dims(3, 900, c.k);
    } else {
        c.batch_rank = rand() % 2;
        c.batch[0] = 1 + rand() % 3;
        c.m[0] = of->least[0] + rand() % of->more[0];
        c.n[0] = of->least[1] + rand() % of->more[1];
        c.k[0] = of->least[2] + rand() % of->more[2];
    }
    int64_t a = random_layout(&c, false, &c.a), b = random_layout(&c, true, &c.b);
    begin(&t, &c, a, b, of->epilogue < 0 ? rand() % EPILOGUES : of->epilogue);
    case_check(&t, 0, "%s, seed %u", of->name, seed);
}

TEST(test_views)
{
    for (int i = 0; i < LENGTH(families); i++)
        for (unsigned seed = 1; seed <= families[i].seeds; seed++)
            if (runs_case(seed))
                random_view(&families[i], seed);
}

/* ---- convolutions ---- */
typedef struct convolution {
    int64_t images, groups, out, in, size[2], kernel[2], stride[2], padding[2], dilation[2]; /* out, in: channels of one group */
} convolution;
enum { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT };

/* Of the image, whose pixels far apart are not finite. */
static void spoil_image(tile_case *t)
{
    static const float wrong[] = {INFINITY, -INFINITY, NAN};
    const samba_buffer *buffer = &t->buffers[t->stage.contract.b.buffer];
    float *image = (float *)(t->memory + buffer->offset);
    for (int64_t i = 5, n = 0; i < buffer->bytes / 4; i += 97 + 13 * n, n++)
        image[i] = wrong[n % 3];
    free(t->block);
    define_block(t);
}

static samba_window window_of(const convolution *v, const int64_t *result, int kind, int i)
{
    samba_window window = {.base = -v->padding[i], .limit = v->size[i], .dilation = 1, .stride = i ? 1 : v->size[1]};
    if (kind == FORWARD) {
        window.own[i] = v->stride[i];
        window.inner[1 + i] = v->dilation[i];
    } else if (kind == INPUT_GRADIENT) {
        window = (samba_window){.base = v->padding[i], .limit = result[i], .dilation = v->stride[i], .stride = i ? 1 : result[1]};
        window.own[i] = 1;
        window.inner[1 + i] = -v->dilation[i];
    } else {
        window.own[1 + i] = v->dilation[i];
        window.inner[1 + i] = v->stride[i];
    }
    return window;
}

/* finite: all pixels are */
static void check_mixed_convolution(const convolution *v, samba_dtype weight, samba_dtype pixel, bool finite, int kind,
                                    int epilogue, int number)
{
    tile_case t;
    int64_t result[2];
    for (int i = 0; i < 2; i++)
        result[i] = (v->size[i] + 2 * v->padding[i] - v->dilation[i] * (v->kernel[i] - 1) - 1) / v->stride[i] + 1;
    int64_t pixels = product(2, v->size), results = product(2, result), taps = product(2, v->kernel);
    int64_t weights = v->out * v->in * taps, image_x = v->groups * v->in * pixels, image_y = v->groups * v->out * results;
    samba_contract c = {.class_ = samba_class_of(pixel), .m_rank = 1, .k_rank = 3};
    c.a.dtype = weight;
    c.b.dtype = pixel;
    c.b.window_count = 2;
    for (int i = 0; i < 2; i++)
        c.b.windows[i] = window_of(v, result, kind, i);
    if (kind == WEIGHT_GRADIENT) {
        c.batch_rank = 1, c.n_rank = 3;
        c.batch[0] = v->groups, c.m[0] = v->out;
        c.n[0] = v->in, c.n[1] = v->kernel[0], c.n[2] = v->kernel[1];
        c.k[0] = v->images, c.k[1] = result[0], c.k[2] = result[1];
        c.a.batch[0] = v->out * results, c.a.own[0] = results;
        c.a.inner[0] = image_y, c.a.inner[1] = result[1], c.a.inner[2] = 1;
        c.b.batch[0] = v->in * pixels, c.b.own[0] = pixels, c.b.inner[0] = image_x;
        begin(&t, &c, v->images * image_y, v->images * image_x, epilogue);
    } else {
        const bool forward = kind == FORWARD;
        const int64_t *to = forward ? result : v->size, image = forward ? image_x : image_y;
        c.batch_rank = 2, c.n_rank = 2;
        c.batch[0] = v->images, c.batch[1] = v->groups, c.m[0] = forward ? v->out : v->in;
        c.n[0] = to[0], c.n[1] = to[1];
        c.k[0] = forward ? v->in : v->out, c.k[1] = v->kernel[0], c.k[2] = v->kernel[1];
        c.a.batch[1] = weights, c.a.own[0] = forward ? v->in * taps : taps;
        c.a.inner[0] = forward ? taps : v->in * taps, c.a.inner[1] = v->kernel[1], c.a.inner[2] = 1;
        c.b.batch[0] = image, c.b.batch[1] = image / v->groups, c.b.inner[0] = forward ? pixels : results;
        begin(&t, &c, v->groups * weights, v->images * image, epilogue);
    }
    if (!finite)
        spoil_image(&t);
    case_check(&t, 0, "convolution %d (of the table, or the random one), of kind %d", number, kind);
}

static void check_convolution(const convolution *v, samba_dtype dtype, bool finite, int kind, int epilogue, int number)
{
    check_mixed_convolution(v, dtype, dtype, finite, kind, epilogue, number);
}

TEST(test_convolutions)
{
    static const convolution cases[] = {
        /* images, groups, channels out and in, size, kernel, stride, padding, dilation */
        {3, 1, 6, 1, {28, 28}, {5, 5}, {1, 1}, {2, 2}, {1, 1}},
        {2, 1, 16, 6, {14, 14}, {5, 5}, {1, 1}, {0, 0}, {1, 1}},
        {2, 1, 20, 12, {20, 20}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        {2, 1, 9, 10, {9, 13}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
        {3, 1, 6, 16, {14, 35}, {5, 5}, {1, 1}, {4, 4}, {1, 1}},
        {2, 3, 1, 1, {21, 38}, {3, 3}, {3, 2}, {1, 1}, {1, 1}},
        {1, 1, 70, 40, {12, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        /* input gradients that are folded: channels in blocks; groups; a row in parts; images side by side, with one left over;
         * more channels than one step takes */
        {1, 1, 48, 23, {33, 30}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        {3, 2, 24, 7, {19, 20}, {2, 1}, {2, 3}, {0, 0}, {1, 1}},
        {1, 1, 20, 3, {1, 3001}, {1, 5}, {1, 2}, {0, 3}, {1, 2}},
        {11, 1, 40, 5, {9, 8}, {4, 4}, {1, 1}, {0, 0}, {1, 1}},
        {2, 1, 800, 2, {6, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        /* images of a few pixels that share their packed weights through the steps of k,
         * not a multiple of those that go together */
        {37, 1, 48, 88, {4, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        /* 3 x 3 by tiles: whole ones, some cut at the right or below, images side by side with one left over, more padding than
         * kernel, rows of more tiles than a vector */
        {2, 1, 40, 32, {12, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {5, 1, 33, 26, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {1, 1, 24, 24, {10, 71}, {3, 3}, {1, 1}, {3, 2}, {1, 1}},
        {2, 1, 48, 24, {15, 21}, {3, 3}, {1, 1}, {0, 0}, {1, 1}},
        /* columns gathered: images side by side, one group of them smaller; boxes of rows, the last with fewer; every second
         * pixel; one place of the window; more padding than kernel; a long row */
        {5, 1, 200, 40, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {1, 1, 130, 24, {26, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {3, 1, 130, 24, {31, 29}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        {2, 1, 192, 64, {17, 18}, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
        {2, 1, 150, 30, {8, 9}, {2, 3}, {1, 2}, {3, 4}, {1, 1}},
        {1, 1, 128, 50, {1, 700}, {1, 4}, {1, 1}, {0, 0}, {1, 2}},
        /* depthwise: bands of rows; sorted planes; zeros between dy's rows; filters wider than the image; one row */
        {2, 5, 1, 1, {60, 67}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {2, 5, 1, 1, {31, 40}, {5, 3}, {2, 2}, {2, 1}, {1, 1}},
        {1, 4, 1, 1, {20, 17}, {2, 4}, {1, 3}, {0, 3}, {2, 2}},
        {2, 3, 1, 1, {4, 3}, {7, 7}, {1, 1}, {3, 3}, {1, 1}},
        {2, 6, 1, 1, {1, 90}, {1, 5}, {1, 1}, {0, 0}, {1, 2}},
        {2, 6, 1, 1, {24, 33}, {3, 3}, {1, 1}, {0, 0}, {1, 1}}};
    srand(3);
    for (int i = 0; i < LENGTH(cases); i++)
        for (int kind = FORWARD; kind <= WEIGHT_GRADIENT; kind++)
            check_convolution(&cases[i], SAMBA_FLOAT32, true, kind, (i + 2 * kind) % EPILOGUES, i);
    for (int kind = FORWARD; kind <= WEIGHT_GRADIENT; kind++) /* what is not finite stays where it is seen */
        check_convolution(&(convolution){3, 1, 32, 24, {17, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, SAMBA_FLOAT32, false, kind,
                          kind, -1);
}

static convolution random_convolution(void)
{
    convolution v = {1 + rand() % 3, 1 + (rand() % 3 == 0), 1 + rand() % 20, .in = 1 + rand() % 8};
    for (int i = 0; i < 2; i++) {
        v.kernel[i] = 1 + rand() % 4;
        v.stride[i] = 1 + (rand() % 3 == 0) * (1 + rand() % 2);
        v.padding[i] = rand() % 3;
        v.dilation[i] = 1 + (rand() % 4 == 0) * (1 + rand() % 2);
        v.size[i] = v.dilation[i] * (v.kernel[i] - 1) + 1 + rand() % 20;
    }
    return v;
}

TEST(test_random_convolutions)
{
    static const int dtypes[] = {F32, F32, F32, F64, BF16, I32};
    for (unsigned seed = 1; seed <= 150; seed++) {
        if (!runs_case(seed))
            continue;
        srand(seed);
        samba_dtype dtype = (samba_dtype)dtypes[rand() % LENGTH(dtypes)];
        convolution v = random_convolution();
        for (int kind = FORWARD; kind <= WEIGHT_GRADIENT; kind++)
            check_convolution(&v, dtype, true, kind, rand() % EPILOGUES, (int)seed);
    }
}

/* Whatever a road would cost: of those whose sums are exact. */
TEST(test_dear_roads)
{
    static const char *const by[] = {"columns", "fold", "depthwise", "panel", "blocks"};
    for (unsigned seed = 1; seed <= 60; seed++) {
        if (!runs_case(seed))
            continue;
        srand(seed);
        convolution v = random_convolution();
        v.groups = seed % 4 ? 1 : v.groups;
        case_road = by[seed % 10 < 6 ? 0 : seed % LENGTH(by)];
        for (int kind = FORWARD; kind <= WEIGHT_GRADIENT; kind++)
            check_convolution(&v, (samba_dtype)(seed % 3 ? BF16 : F32), true, kind, rand() % EPILOGUES, (int)seed);
    }
    case_road = NULL;
}

/* One filter a plane, of pixels and weights that are floats of one size or of two. */
TEST(test_random_depthwise)
{
    static const int dtypes[] = {F32, BF16, SAMBA_FLOAT16};
    const uint64_t first = random_seed();
    uint64_t draws = first;
    print_message("seed %llu\n", (unsigned long long)first);
    for (int turn = 0; turn < 60; turn++) {
        srand((unsigned)next_seed(&draws));
        convolution v = {1 + rand() % 3, 1 + rand() % 6, 1, .in = 1};
        samba_dtype weight = (samba_dtype)dtypes[rand() % LENGTH(dtypes)], pixel = (samba_dtype)dtypes[rand() % LENGTH(dtypes)];
        for (int i = 0; i < 2; i++) {
            v.kernel[i] = 1 + rand() % 4;
            v.stride[i] = 1 + (rand() % 3 == 0) * (1 + rand() % 2);
            v.padding[i] = rand() % 3;
            v.dilation[i] = 1 + (rand() % 4 == 0) * (1 + rand() % 2);
            v.size[i] = v.dilation[i] * (v.kernel[i] - 1) + 1 + rand() % (rand() % 2 ? 3 : 40);
        }
        if (!runs_case((uint64_t)turn))
            continue;
        for (int kind = FORWARD; kind <= WEIGHT_GRADIENT; kind++)
            check_mixed_convolution(&v, weight, pixel, true, kind, rand() % EPILOGUES, turn);
    }
}

/* Rows that are all the same memory, of which a file may claim any number: no scratch holds a plane of them. */
TEST(test_endless_plane)
{
    for (int strided = 0; strided < 2; strided++) {
        tile_case t;
        samba_contract c = {
            .batch_rank = 1, .m_rank = 1, .n_rank = 2, .k_rank = 2, .batch = {3}, .m = {1}, .n = {5, 9}, .k = {3, 3}};
        c.a = (samba_factor){.dtype = BF16, .inner = {3, 1}};
        c.b = (samba_factor){.dtype = strided ? F32 : BF16, .batch = {1 << 14}, .window_count = 2};
        c.b.windows[0] = (samba_window){.base = -1, .limit = (int64_t)1 << 48, .dilation = 1, .own = {1}, .inner = {1}};
        c.b.windows[1] =
            (samba_window){.base = -1, .limit = 1 << 14, .dilation = 1, .stride = 1, .own = {0, 1 + strided}, .inner = {0, 1}};
        begin(&t, &c, 9, 3 << 14, PLAIN);
        refuse(case_prepare_by(&t, context, "depthwise"), SAMBA_ERROR_UNSUPPORTED, "does not lead there");
        case_check(&t, 0, "an endless plane");
    }
}

/* A window along one dim, on the first factor, that shares its dim with a stride. */
TEST(test_one_window)
{
    for (int64_t base = -3; base <= 1; base++)
        for (int epilogue = PLAIN; epilogue <= ROWS; epilogue++) {
            tile_case t;
            samba_contract c = {.m_rank = 2, .n_rank = 1, .k_rank = 2, .m = {3, 50}, .n = {12}, .k = {4, 5}};
            c.a = (samba_factor){.own = {60, 60}, .inner = {200, 0}, .window_count = 1};
            c.a.windows[0] =
                (samba_window){.base = base, .limit = 48, .dilation = 1, .stride = 1, .own = {0, 1}, .inner = {0, 2}};
            c.b = (samba_factor){.own = {1}, .inner = {60, 12}};
            begin(&t, &c, 60 * 60 * 10, 240, epilogue);
            case_check(&t, 0, "one window");
        }
}

TEST(test_errors)
{
    tile_case t;
    samba_contract c = {.m_rank = 1, .n_rank = 1, .k_rank = 2, .m = {30}, .n = {40}, .k = {5, 6}};
    c.a = (samba_factor){.own = {30}, .inner = {6, 1}};
    c.b = (samba_factor){.own = {1}, .inner = {40, 250}};
    begin(&t, &c, 900, 2000, FUSED);
    fail_each_allocation(case_scenario, &t);
    t.stage.contract.b.dtype = SAMBA_INT32;
    refuse(case_scenario(context, &t), SAMBA_ERROR_INTERNAL, "int32");
    case_end(&t);
}

/* The cases before are made for the roads: a road that none of them takes is one that nothing here tests. */
TEST(test_every_road)
{
#define ROAD(name, idea) #name,
    const char *const roads[] = {
#include "device/cpu/product/roads.def"
    };
    for (int i = 0; i < LENGTH(roads); i++) {
        int at = 0;
        while (roads_taken[at] && strcmp(roads_taken[at], roads[i]) != 0)
            at++;
        if (!roads_taken[at])
            fail_msg("no contraction of this test took the road %s", roads[i]);
    }
}

TEST_MAIN(test_sizes, test_dtypes, test_views, test_convolutions, test_random_convolutions, test_random_depthwise, test_halves,
          test_dear_roads, test_endless_plane, test_one_window, test_errors, test_every_road)
