/* SPDX-License-Identifier: Apache-2.0
 *
 * Pool stages against the reference kernels, gather stages against plain loops: kernels, strides, paddings and dilations of all
 * sorts, every float dtype, integers, NaN, equal elements, one to five threads, and indices out of range. Values are small whole
 * numbers, so results must be equal. */
#include "failing_allocator.h"
#include "naive_tiles.h"
#include "ops/ops.h"

static double value_at(const tile_case *t, const char *memory, int buffer, int64_t i)
{
    samba_dtype dtype = (samba_dtype)t->dtypes[buffer];
    return samba_load_double(dtype, memory + t->buffers[buffer].offset + i * (int64_t)samba_dtype_size(dtype));
}

static void set_value(const tile_case *t, char *memory, int buffer, int64_t i, double value)
{
    samba_dtype dtype = (samba_dtype)t->dtypes[buffer];
    samba_store_double(dtype, memory + t->buffers[buffer].offset + i * (int64_t)samba_dtype_size(dtype), value);
}

/* By the operator's own reference, which values/torch_conv.txt checks. */
static void reference_pool(const tile_case *t, char *memory)
{
    static const samba_op ops[2][2] = {{SAMBA_OP_max_pool2d, SAMBA_OP_max_pool2d_grad},
                                       {SAMBA_OP_avg_pool2d, SAMBA_OP_avg_pool2d_grad}};
    const samba_pool *p = &t->stage.pool;
    const int count = t->stage.operand_count, of_windows = p->gradient ? count - 2 : 1;
    samba_attrs attrs = {.pool2d = {.count_include_pad = p->count_include_pad, .adaptive = p->adaptive}};
    samba_array arrays[3];
    for (int i = 0; i < 2; i++) {
        attrs.pool2d.kernel.at[i] = !p->adaptive ? p->kernel[i] : i == 0 ? p->oh : p->ow; /* the operator has the size there */
        attrs.pool2d.stride.at[i] = p->stride[i];
        attrs.pool2d.padding.at[i] = p->padding[i];
        attrs.pool2d.dilation.at[i] = p->dilation[i];
    }
    for (int i = 0; i < count; i++) {
        const int64_t h = i == of_windows ? p->oh : p->h, w = i == of_windows ? p->ow : p->w;
        arrays[i] =
            (samba_array){(samba_dtype)t->dtypes[i], 3, {p->planes, h, w}, p->planes * h * w, memory + t->buffers[i].offset};
    }
    const samba_op op = p->indices ? SAMBA_OP_max_pool2d_indices : ops[p->average][p->gradient];
    need(samba_ops[op].reference(&(samba_reference){context, NULL, &attrs, count - 1, arrays, &arrays[count - 1]}));
}

static void pool_case(tile_case *t, samba_dtype dtype, const samba_pool *pool)
{
    int64_t in = pool->planes * pool->h * pool->w, sizes[3] = {in, pool->planes * pool->oh * pool->ow, in};
    case_begin(t, 1, SHAPE(1));
    t->stage.kind = SAMBA_STAGE_POOL;
    t->stage.rank = 0;
    t->stage.pool = *pool;
    for (int i = pool->average && pool->gradient ? 1 : 0; i < (pool->gradient ? 3 : 2); i++) {
        samba_dtype own = pool->indices && i == 1 ? SAMBA_INT64 : dtype;
        t->operands[t->stage.operand_count++] = (samba_operand){.buffer = case_buffer(t, own, sizes[i]), .dtype = own};
    }
}

/* The greatest, its gradient; averages and theirs, without padding and with; the place of the greatest. */
enum { KINDS = 7 };
static samba_pool pool_of(const int64_t *form, int kind)
{
    samba_pool pool = {
        .average = kind >= 2 && kind < 6, .gradient = kind % 2, .count_include_pad = kind >= 4, .indices = kind == 6};
    int64_t out[2];
    memcpy(pool.kernel, form + 2, sizeof pool.kernel);
    memcpy(pool.stride, form + 4, sizeof pool.stride);
    memcpy(pool.padding, form + 6, sizeof pool.padding);
    for (int i = 0; i < 2; i++) {
        pool.dilation[i] = pool.average ? 1 : form[8 + i]; /* averages have none */
        out[i] = (form[i] + 2 * form[6 + i] - pool.dilation[i] * (form[2 + i] - 1) - 1) / form[4 + i] + 1;
    }
    pool.planes = 3, pool.h = form[0], pool.w = form[1], pool.oh = out[0], pool.ow = out[1];
    return pool;
}

static void check_pool(const samba_pool *pool, samba_dtype dtype, const char *name)
{
    const double tolerance = dtype == SAMBA_FLOAT32 ? 1e-6 : dtype == SAMBA_FLOAT64 ? 1e-14 : 8e-3;
    const int64_t plane = pool->h * pool->w;
    tile_case t;
    pool_case(&t, dtype, pool);
    if (!pool->average && samba_dtype_is_floating_point(dtype) && plane > 0) {
        set_value(&t, t.memory, 0, 17 % plane, NAN);
        set_value(&t, t.memory, 0, 18 % plane, -INFINITY);
        set_value(&t, t.memory, 0, 23 % plane, NAN);
        for (int64_t k = plane; k < 2 * plane; k++) /* a plane of nothing but -inf */
            set_value(&t, t.memory, 0, k, -INFINITY);
    }
    char *want = case_room(&t);
    reference_pool(&t, want);
    case_check_against(&t, want, tolerance, 0, name);
    case_end(&t);
}

static void test_pool(void **state)
{
    /* Size, kernel, stride, padding, dilation. From the 11th on rows in pairs, one left, and bands; from the 17th two lines; from
     * the 24th one, three, as many as columns; from the 27th windows apart, and none of one inside;
     * from the 32nd whole planes; from the 36th windows of many vectors, over and beside each other, apart, and but one. */
    static const int64_t forms[][10] = {
        {8, 8, 2, 2, 2, 2, 0, 0, 1, 1},        {9, 7, 2, 2, 2, 2, 0, 0, 1, 1},       {28, 28, 2, 2, 2, 2, 0, 0, 1, 1},
        {7, 9, 3, 3, 2, 2, 1, 1, 1, 1},        {10, 33, 3, 2, 1, 1, 1, 1, 1, 1},     {12, 12, 3, 3, 3, 3, 0, 0, 1, 1},
        {11, 13, 3, 2, 2, 3, 1, 1, 2, 3},      {5, 5, 5, 5, 1, 1, 2, 2, 1, 1},       {4, 6, 1, 1, 1, 1, 0, 0, 1, 1},
        {6, 6, 4, 4, 2, 2, 2, 2, 1, 1},        {2, 6, 2, 2, 2, 2, 0, 0, 1, 1},       {3, 5, 2, 2, 2, 2, 0, 0, 1, 1},
        {120, 60, 2, 2, 2, 2, 0, 0, 1, 1},     {4, 71, 2, 2, 2, 2, 0, 0, 1, 1},      {5, 32, 2, 2, 2, 2, 0, 0, 1, 1},
        {2, 34, 2, 2, 2, 2, 0, 0, 1, 1},       {9, 67, 3, 3, 2, 2, 1, 1, 1, 1},      {16, 16, 3, 3, 2, 2, 1, 1, 1, 1},
        {6, 33, 3, 3, 2, 2, 0, 0, 1, 1},       {5, 31, 4, 4, 2, 2, 1, 1, 1, 1},      {3, 65, 5, 5, 2, 2, 2, 2, 1, 1},
        {7, 64, 3, 3, 2, 2, 1, 1, 2, 3},       {1, 2, 2, 2, 2, 2, 1, 1, 1, 1},       {6, 50, 3, 3, 1, 1, 1, 1, 1, 1},
        {4, 40, 3, 5, 3, 3, 1, 2, 2, 2},       {9, 9, 9, 9, 9, 9, 0, 0, 1, 1},       {8, 40, 2, 1, 3, 2, 0, 0, 1, 1},
        {5, 70, 2, 2, 4, 5, 1, 1, 1, 2},       {3, 2, 2, 2, 1, 1, 1, 1, 3, 3},       {20, 1, 3, 1, 1, 1, 1, 0, 4, 1},
        {3, 0, 1, 1, 1, 1, 0, 0, 1, 1},        {7, 7, 7, 7, 7, 7, 0, 0, 1, 1},       {1, 1, 1, 1, 1, 1, 0, 0, 1, 1},
        {2, 2, 2, 2, 1, 3, 0, 0, 1, 1},        {17, 33, 17, 33, 1, 1, 0, 0, 1, 1},   {2, 300, 2, 130, 1, 65, 1, 20, 1, 1},
        {1, 770, 1, 192, 1, 192, 0, 0, 1, 1},  {5, 700, 3, 140, 4, 250, 1, 0, 1, 1}, {2, 300, 1, 200, 1, 200, 0, 0, 1, 1},
        {4, 513, 2, 257, 2, 128, 1, 128, 1, 1}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_BFLOAT16, SAMBA_FLOAT16, SAMBA_INT64, SAMBA_INT8};
    srand(7);
    for (int f = 0; f < LENGTH(forms); f++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int d = 0; d < LENGTH(dtypes); d++) {
                /* the least integer is no number of the double that is compared */
                if (!samba_dtype_is_floating_point(dtypes[d]) && ((kind != 0 && kind != 6) || forms[f][8] > 2))
                    continue;
                char name[40];
                samba_pool pool = pool_of(forms[f], kind);
                snprintf(name, sizeof name, "pool, form %d, kind %d", f, kind);
                check_pool(&pool, dtypes[d], name);
            }
}

/* Windows by the size of the result: some over each other, of one column each, of one row, of many vectors. */
static void test_adaptive(void **state)
{
    static const int64_t forms[][4] = {{7, 5, 3, 2}, {4, 9, 4, 4},   {9, 40, 2, 40}, {1, 70, 1, 4},  {1, 1000, 1, 3},
                                       {6, 1, 4, 1}, {3, 500, 2, 3}, {8, 33, 1, 1},  {5, 17, 7, 19}, {2, 150, 1, 150}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_BFLOAT16, SAMBA_INT64};
    srand(8);
    for (int f = 0; f < LENGTH(forms); f++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int d = 0; d < LENGTH(dtypes); d++) {
                if ((kind == 4 || kind == 5) || (dtypes[d] == SAMBA_INT64 && kind != 0 && kind != 6))
                    continue;
                char name[40];
                samba_pool pool = pool_of((int64_t[10]){forms[f][0], forms[f][1], 1, 1, 1, 1, 0, 0, 1, 1}, kind);
                pool.adaptive = 1, pool.oh = forms[f][2], pool.ow = forms[f][3];
                snprintf(name, sizeof name, "adaptive pool, form %d, kind %d", f, kind);
                check_pool(&pool, dtypes[d], name);
            }
}

/* ---- images read at a grid's positions ---- */

/* kind: the values, the image's gradient, the grid's. form: images, channels, depth (0: images), height, width, positions */
static void sample_case(tile_case *t, samba_dtype dtype, const int64_t *form, int kind, const samba_pool *how)
{
    case_begin(t, 1, SHAPE(1));
    t->stage.kind = SAMBA_STAGE_POOL;
    t->stage.rank = 0;
    samba_pool *p = &t->stage.pool;
    *p = *how;
    p->gradient = kind > 0, p->of_grid = kind == 2;
    p->images = form[0], p->planes = form[0] * form[1], p->depth = form[2];
    p->h = form[3] * (form[2] ? form[2] : 1), p->w = form[4], p->oh = 1, p->ow = form[5];
    p->kernel[0] = p->kernel[1] = p->stride[0] = p->stride[1] = p->dilation[0] = p->dilation[1] = 1;
    int64_t sizes[4];
    int32_t count = samba_pool_sample_sizes(p, sizes), grid = kind == 1 ? 0 : 1;
    for (int32_t i = 0; i < count; i++)
        t->operands[t->stage.operand_count++] = (samba_operand){.buffer = case_buffer(t, dtype, sizes[i]), .dtype = dtype};
    for (int64_t i = 0; i < sizes[grid]; i++) /* 64ths: what is computed of them rounds nowhere */
        set_value(t, t->memory, grid, i, i % 97 == 13 ? NAN : (double)(rand() % 320 - 160) / 64);
    if (sizes[grid] > 5 && p->outside != SAMBA_SAMPLE_REFLECTION)
        set_value(t, t->memory, grid, 5, 1e30);
}

static void reference_sample(const tile_case *t, int kind, char *memory)
{
    static const samba_op ops[] = {SAMBA_OP_grid_sample, SAMBA_OP_grid_sample_input_grad, SAMBA_OP_grid_sample_grid_grad};
    const samba_pool *p = &t->stage.pool;
    const int64_t n = p->images, channels = n ? p->planes / n : 0, positions = p->oh * p->ow;
    const int rank = p->depth ? 5 : 4, count = t->stage.operand_count;
    samba_attrs attrs = {.grid = {.mode = p->sample - 1, .padding = p->outside, .align_corners = p->align_corners}};
    samba_array x = {.rank = rank, .shape = {n, channels, p->depth ? p->depth : p->h, p->depth ? p->h / p->depth : p->w, p->w}},
                grid = {.rank = rank, .shape = {n, 1, p->depth ? 1 : positions, p->depth ? positions : 2, 3}},
                y = {.rank = rank, .shape = {n, channels, 1, p->depth ? 1 : positions, positions}};
    const samba_array shapes[3][4] = {{x, grid, y}, {grid, y, x}, {x, grid, y, grid}};
    samba_array arrays[4];
    for (int i = 0; i < count; i++) {
        arrays[i] = shapes[kind][i];
        arrays[i].dtype = (samba_dtype)t->dtypes[i];
        arrays[i].data = memory + t->buffers[i].offset;
        arrays[i].numel = 1;
        for (int d = 0; d < rank; d++)
            arrays[i].numel *= arrays[i].shape[d];
    }
    need(samba_ops[ops[kind]].reference(&(samba_reference){context, NULL, &attrs, count - 1, arrays, &arrays[count - 1]}));
}

static void test_sample(void **state)
{
    static const int64_t forms[][6] = {{1, 1, 0, 1, 1, 1}, {2, 3, 0, 5, 7, 300}, {1, 2, 0, 1, 9, 129}, {3, 1, 2, 3, 4, 50},
                                       {2, 0, 0, 3, 3, 4}, {2, 2, 0, 4, 4, 0},   {1, 5, 1, 1, 2, 140}, {0, 2, 0, 2, 2, 3}};
    static const int modes[] = {SAMBA_SAMPLE_NEAREST, SAMBA_SAMPLE_LINEAR, SAMBA_SAMPLE_CUBIC};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64};
    srand(9);
    for (int f = 0; f < LENGTH(forms); f++)
        for (int way = 0; way < LENGTH(modes) * 3 * 3 * 2 * LENGTH(dtypes); way++) {
            int kind = way / 3 % 3, padding = way / 9 % 3, mode = modes[way % 3];
            samba_dtype dtype = dtypes[way / 27 % 2];
            if (mode == SAMBA_SAMPLE_CUBIC && forms[f][2])
                continue;
            char name[64];
            snprintf(name, sizeof name, "sample, form %d, mode %d, padding %d, kind %d", f, mode, padding, kind);
            tile_case t;
            samba_pool how = {.sample = mode, .outside = padding, .align_corners = way / 54};
            sample_case(&t, dtype, forms[f], kind, &how);
            char *want = case_room(&t);
            reference_sample(&t, kind, want);
            case_check_against(&t, want, dtype == SAMBA_FLOAT32 ? 5e-4 : 1e-11, 0, name);
            case_end(&t);
        }
}

/* ---- margins between classes ---- */

/* Rows of all lengths, short ones and those that fill vectors or do not; targets that repeat, and rows without any. */
static void test_margin(void **state)
{
    static const int64_t forms[][2] = {{1, 1},  {70, 1}, {5, 2},  {33, 3},  {16, 4},  {17, 7}, {40, 8}, {31, 9},
                                       {3, 16}, {4, 17}, {2, 33}, {3, 100}, {1, 515}, {0, 5},  {5, 0}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64};
    srand(10);
    for (int f = 0; f < LENGTH(forms); f++)
        for (int way = 0; way < 2 * LENGTH(dtypes); way++) {
            const bool gradient = way % 2;
            const samba_dtype dtype = dtypes[way / 2];
            const int64_t rows = forms[f][0], classes = forms[f][1], all = rows * classes;
            const int count = gradient ? 4 : 3;
            const samba_array x = {.dtype = dtype, .rank = 2, .shape = {rows, classes}, .numel = all},
                              labels = {.dtype = SAMBA_INT64, .rank = 2, .shape = {rows, classes}, .numel = all},
                              sums = {.dtype = dtype, .rank = 2, .shape = {rows, 1}, .numel = rows};
            samba_array arrays[4] = {x, labels, sums, x};
            tile_case t;
            case_begin(&t, 1, SHAPE(1));
            t.stage.kind = SAMBA_STAGE_LINE;
            t.stage.rank = 0;
            t.stage.line = (samba_line){.function = gradient ? SAMBA_LINE_MARGIN_GRAD : SAMBA_LINE_MARGIN,
                                        .has_values = 1,
                                        .outer = rows,
                                        .size = classes,
                                        .inner = 1,
                                        .count = gradient ? classes : 1};
            for (int i = 0; i < count; i++)
                t.operands[t.stage.operand_count++] =
                    (samba_operand){.buffer = case_buffer(&t, arrays[i].dtype, arrays[i].numel), .dtype = arrays[i].dtype};
            for (int64_t i = 0; i < all; i++) { /* 64ths: what is computed of them rounds nowhere */
                set_value(&t, t.memory, 0, i, i % 97 == 13 ? NAN : (double)(rand() % 320 - 160) / 64);
                set_value(&t, t.memory, 1, i, i / classes % 5 == 4 || rand() % 6 == 0 ? -1 : (double)(rand() % classes));
            }
            char *want = case_room(&t), name[64];
            for (int i = 0; i < count; i++)
                arrays[i].data = want + t.buffers[i].offset;
            samba_op op = gradient ? SAMBA_OP_multilabel_margin_grad : SAMBA_OP_multilabel_margin;
            need(samba_ops[op].reference(&(samba_reference){context, NULL, NULL, count - 1, arrays, &arrays[count - 1]}));
            snprintf(name, sizeof name, "margin, form %d, way %d", f, way);
            case_check_against(&t, want, 0, 0, name);
            case_end(&t);
        }
}

/* ---- the order of lines ---- */

/* Of (outer, size, inner): all, and some from everywhere, of lines of all lengths; equal elements, NaN, zeros of both signs. */
static void order_case(samba_dtype dtype, const int64_t form[3], int64_t first, int64_t count, int way)
{
    const bool middle = first == SAMBA_LINE_MIDDLE, backwards = !middle && way & 1, nan = !middle && way & 2, few = way & 4;
    const int often[] = {900, 2, 1, 3}, nan_in = middle ? often[way & 3] : 900; /* of which one is NaN */
    const int64_t size = form[1], all = form[0] * size * form[2];
    const samba_array x = {.dtype = dtype, .rank = 3, .shape = {form[0], size, form[2]}, .numel = all},
                      values = {
                          .dtype = dtype, .rank = 3, .shape = {form[0], count, form[2]}, .numel = form[0] * count * form[2]};
    samba_array arrays[3] = {x, values, values};
    arrays[2].dtype = SAMBA_INT64;
    tile_case t;
    case_begin(&t, 1, SHAPE(1));
    t.stage.kind = SAMBA_STAGE_LINE;
    t.stage.rank = 0;
    t.stage.line = (samba_line){.function = first != 0 || nan ? SAMBA_LINE_CHOOSE : SAMBA_LINE_SORT,
                                .backwards = backwards,
                                .nan = nan,
                                .has_values = 1,
                                .has_indices = 1,
                                .outer = form[0],
                                .size = size,
                                .inner = form[2],
                                .first = first,
                                .count = count};
    for (int i = 0; i < 3; i++)
        t.operands[t.stage.operand_count++] =
            (samba_operand){.buffer = case_buffer(&t, arrays[i].dtype, arrays[i].numel), .dtype = arrays[i].dtype};
    const bool real = samba_dtype_is_floating_point(dtype);
    for (int64_t i = 0; i < all; i++) {
        double value = few ? rand() % 5 - 2 * real : rand() % 100000 - 50000 * real;
        value = real && value == 0 && rand() % 2 ? -0.0
                : real && rand() % nan_in == 0   ? NAN
                : real && rand() % 90 == 0       ? -INFINITY
                                                 : value;
        set_value(&t, t.memory, 0, i, dtype == SAMBA_UINT8 ? (double)((int64_t)value & 255) : value);
    }
    char *want = case_room(&t), name[96];
    for (int i = 0; i < 3; i++)
        arrays[i].data = want + t.buffers[i].offset;
    const samba_attrs attrs = {.sort = {.dim = 1, .first = first, .count = count, .descending = backwards, .nan = nan}};
    need(samba_ops[SAMBA_OP_sort].reference(&(samba_reference){context, NULL, &attrs, 1, arrays, &arrays[1]}));
    need(samba_ops[SAMBA_OP_argsort].reference(&(samba_reference){context, NULL, &attrs, 1, arrays, &arrays[2]}));
    snprintf(name, sizeof name, "%s, lines of %d x %d x %d, %d from %d, way %d", samba_dtype_name(dtype), (int)form[0], (int)size,
             (int)form[2], (int)count, (int)first, way);
    case_check_against(&t, want, 0, 0, name);
    case_end(&t);
}

static void test_order(void **state)
{
    static const int64_t forms[][3] = {{3, 0, 2},    {0, 5, 1},  {2, 1, 3},    {40, 2, 1},   {33, 5, 1},   {7, 16, 1},
                                       {5, 17, 1},   {2, 64, 1}, {2, 65, 1},   {3, 300, 1},  {1, 4099, 1}, {1, 9001, 1},
                                       {2, 2, 37},   {1, 7, 16}, {2, 34, 5},   {1, 33, 3},   {1, 64, 20},  {2, 100, 18},
                                       {1, 4097, 2}, {1, 70, 8}, {3, 300, 70}, {1, 900, 139}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_BFLOAT16, SAMBA_INT32, SAMBA_INT64, SAMBA_UINT8};
    srand(11);
    for (int f = 0; f < LENGTH(forms); f++)
        for (int way = 0; way < 8; way++)
            for (int k = 0; k < LENGTH(dtypes); k++) {
                int64_t n = forms[f][1], some = n > 5 ? 5 : n;
                const int64_t parts[][2] = {{0, n},
                                            {(n - 1) / 2, n > 0},
                                            {n - (n > 0), n > 0},
                                            {0, n > 0},
                                            {0, n < 3 ? n : 3},
                                            {0, n < 16 ? n : 16},
                                            {0, n < 17 ? n : 17},
                                            {(n - some) / 2, some},
                                            {n / 3, n / 2},
                                            {n / 9, n / 9},
                                            {n, 0}};
                const int64_t *part = parts[rand() % LENGTH(parts)];
                order_case(dtypes[k], forms[f], n > 0 ? part[0] : 0, part[1], way);
                if (n > 0)
                    order_case(dtypes[k], forms[f], SAMBA_LINE_MIDDLE, 1, way);
            }
}

/* How index and rows lie over the domain: rows of a table (one index a row), elements along the last dim, elements along the
 * first, and those with all operands transposed. */
enum { ROWS, ALONG_LAST, ALONG_FIRST, TRANSPOSED, WAYS };

static void gather_case(tile_case *t, samba_dtype dtype, samba_dtype index, samba_gather_mode mode, int way, int64_t count,
                        int64_t width, int64_t places)
{
    bool scatter = mode != SAMBA_GATHER_READ, last = way == ALONG_LAST;
    const int64_t domain[2] = {last ? width : count, last ? count : width};
    case_begin(t, 2, domain);
    t->stage.kind = SAMBA_STAGE_GATHER;
    t->stage.operand_count = 3;
    t->stage.gather = (samba_gather_stage){.mode = (int32_t)mode,
                                           .axis = last,
                                           .negative = way == ALONG_FIRST,
                                           .table_rows = places,
                                           .table_stride = last ? 1 : width};
    samba_operand table = {.strides = {last ? places : 0, last ? 0 : 1}},
                  indices = {.strides = {way == ROWS ? 1 : domain[1], way == ROWS ? 0 : 1}}, rows = {.strides = {domain[1], 1}};
    if (way == TRANSPOSED) {
        t->stage.gather.table_stride = 1;
        table.strides[1] = places;
        indices = rows = (samba_operand){.strides = {1, count}};
    }
    samba_operand operands[3] = {scatter ? indices : table, scatter ? rows : indices, scatter ? table : rows};
    for (int i = 0; i < 3; i++) {
        bool is_index = i == (scatter ? 0 : 1), is_table = i == (scatter ? 2 : 0);
        operands[i].dtype = (int32_t)(is_index ? index : dtype);
        operands[i].buffer = case_buffer(t, is_index ? index : dtype,
                                         is_table                  ? places * width
                                         : is_index && way == ROWS ? count
                                                                   : count * width);
        t->operands[i] = operands[i];
        for (int64_t k = 0; is_index && k < (way == ROWS ? count : count * width); k++)
            set_value(t, t->memory, i, k, (double)(rand() % (int)places - (t->stage.gather.negative && rand() % 2 ? places : 0)));
    }
}

static double combined(samba_gather_mode mode, samba_dtype dtype, double a, double b)
{
    switch (mode) {
    case SAMBA_GATHER_ADD: return dtype == SAMBA_BOOL ? a != 0 || b != 0 : a + b;
    case SAMBA_GATHER_MUL: return a * b;
    case SAMBA_GATHER_AMAX: return a > b ? a : b;
    case SAMBA_GATHER_AMIN: return a < b ? a : b;
    default: return b;
    }
}

static void naive_gather(const tile_case *t, char *memory)
{
    const samba_gather_stage *g = &t->stage.gather;
    bool scatter = g->mode != SAMBA_GATHER_READ;
    int index = scatter ? 0 : 1, table = scatter ? 2 : 0, rows = scatter ? 1 : 2;
    for (int64_t i = 0; i < t->stage.domain[0]; i++)
        for (int64_t j = 0; j < t->stage.domain[1]; j++) {
            int64_t at[3];
            for (int k = 0; k < 3; k++)
                at[k] = i * t->operands[k].strides[0] + j * t->operands[k].strides[1];
            int64_t place = (int64_t)value_at(t, memory, index, at[index]);
            place += place < 0 && g->negative ? g->table_rows : 0;
            bool good = place >= 0 && place < g->table_rows;
            at[table] += place * g->table_stride;
            if (!scatter)
                set_value(t, memory, rows, at[rows], good ? value_at(t, memory, table, at[table]) : 0);
            else if (good)
                set_value(t, memory, table, at[table],
                          combined((samba_gather_mode)g->mode, (samba_dtype)t->dtypes[table],
                                   value_at(t, memory, table, at[table]), value_at(t, memory, rows, at[rows])));
        }
}

static void check_gather(const int64_t size[3], samba_dtype dtype, samba_gather_mode mode, int way, bool bad)
{
    tile_case t;
    int index = mode == SAMBA_GATHER_READ ? 1 : 0;
    gather_case(&t, dtype, (mode + way) & 1 ? SAMBA_INT32 : SAMBA_INT64, mode, way, size[0], size[1], size[2]);
    if (size[0] > 3)
        set_value(&t, t.memory, index, 1, way == ALONG_FIRST ? -1 : 0);
    if (bad) {
        set_value(&t, t.memory, index, 2, (double)size[2]);
        set_value(&t, t.memory, index, 3, -1 - (double)size[2]);
    }
    for (int64_t i = 0; i < size[0] * size[1] && mode == SAMBA_GATHER_MUL; i++) /* of ones and minus ones */
        set_value(&t, t.memory, 1, i, i % 3 && dtype != SAMBA_BOOL && dtype != SAMBA_UINT8 ? -1 : 1);
    char *want = case_room(&t);
    naive_gather(&t, want);
    case_check_against(&t, want, 0, bad ? 7 : 0, "gather");
    case_end(&t);
}

static void test_gather(void **state)
{
    static const int64_t sizes[][3] = {{40, 8, 5}, {1, 1, 1}, {0, 8, 3}, {100, 300, 20}, {7, 1000, 64}, {600, 3, 50}};
    srand(8);
    for (int s = 0; s < LENGTH(sizes); s++)
        for (int dtype = 0; dtype < SAMBA_DTYPE_COUNT; dtype++)
            for (int mode = 0; mode < SAMBA_GATHER_MODE_COUNT; mode++)
                for (int way = 0; way < WAYS; way++)
                    if (mode != SAMBA_GATHER_MUL || sizes[s][0] <= 40) /* products of many numbers are no small whole ones */
                        check_gather(sizes[s], (samba_dtype)dtype, (samba_gather_mode)mode, way,
                                     (s + mode + way) % 2 && sizes[s][0] > 3);
}

static void test_errors(void **state)
{
    tile_case t;
    samba_pool pool = pool_of((int64_t[]){4, 4, 2, 2, 2, 2, 0, 0, 1, 1}, 0);
    pool_case(&t, SAMBA_FLOAT32, &pool);
    fail_each_allocation(case_scenario, &t);
    t.operands[0].dtype = SAMBA_BFLOAT16;
    t.stage.pool.h = t.stage.pool.w = INT64_C(1) << 31;
    refuse(case_scenario(context, &t), SAMBA_ERROR_UNSUPPORTED, "");
    t.operands[0].dtype = SAMBA_FLOAT32; /* a window from the first to the last of 2^32 elements */
    t.stage.pool = pool_of((int64_t[]){2, INT64_C(1) << 32, 2, 1, 1, 1, 0, 0, 1, 1}, 1);
    t.stage.pool.planes = t.stage.pool.ow = 1;
    refuse(case_scenario(context, &t), SAMBA_ERROR_UNSUPPORTED,
           "stage case: a window of 2 by 1 elements, 1 by 1 apart, is too large to be searched");
    case_end(&t);
    gather_case(&t, SAMBA_FLOAT32, SAMBA_INT64, SAMBA_GATHER_ADD, ROWS, 4, 4, 4);
    fail_each_allocation(case_scenario, &t);
    t.operands[0].dtype = SAMBA_INT16;
    refuse(case_scenario(context, &t), SAMBA_ERROR_DTYPE, "");
    case_end(&t);
}

TEST_MAIN(test_pool, test_adaptive, test_sample, test_margin, test_order, test_gather, test_errors)
