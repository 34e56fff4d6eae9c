/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLECT: partial results of each thread, and how they are combined.
 *
 * Partial results are C-contiguous over the dims that stay: double for f32 and f64, int64_t for i64. Each thread works on a fixed
 * range of rows, and all are combined in thread order, so results depend on the number of threads alone. */
#include "device/cpu/tile/tile.h"
#include <math.h>

static int64_t wrap_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }

static double combine_double(int op, double x, double y)
{
    if (op == SAMBA_TILE_collect_sum)
        return x + y;
    if (op == SAMBA_TILE_collect_prod)
        return x * y;
    if (y != y)
        return y;
    return op == SAMBA_TILE_collect_amax ? (y > x ? y : x) : (y < x ? y : x);
}

static int64_t combine_int64(int op, int64_t x, int64_t y)
{
    if (op == SAMBA_TILE_collect_sum)
        return wrap_add(x, y);
    if (op == SAMBA_TILE_collect_prod)
        return (int64_t)((uint64_t)x * (uint64_t)y);
    return op == SAMBA_TILE_collect_amax ? (y > x ? y : x) : (y < x ? y : x);
}

static void combine_at(int op, bool integer, char *x, int64_t i, const char *y, int64_t j)
{
    if (integer)
        ((int64_t *)x)[i] = combine_int64(op, ((int64_t *)x)[i], ((const int64_t *)y)[j]);
    else
        ((double *)x)[i] = combine_double(op, ((double *)x)[i], ((const double *)y)[j]);
}

/* What a partial result is before anything has come. */
static int64_t none_int64(int op)
{
    switch (op) {
    case SAMBA_TILE_collect_sum: return 0;
    case SAMBA_TILE_collect_prod: return 1;
    case SAMBA_TILE_collect_amax: return INT64_MIN;
    default: return INT64_MAX;
    }
}

static double none_double(int op)
{
    switch (op) {
    case SAMBA_TILE_collect_sum: return 0;
    case SAMBA_TILE_collect_prod: return 1;
    case SAMBA_TILE_collect_amax: return -INFINITY;
    default: return INFINITY;
    }
}

void samba_tile_collect_begin(const samba_tile_program *program, samba_frame *frame)
{
    for (int k = 0; k < program->collector_count; k++) {
        const samba_collector *collector = &program->collectors[k];
        int64_t start = none_int64(collector->op);
        double start_double = none_double(collector->op);
        bool integer = collector->class_ == SAMBA_I64;
        const void *value = integer ? (const void *)&start : &start_double;
        program->kernels->fill[integer ? SAMBA_I64 : SAMBA_F64](frame->scratch + collector->partial, value, collector->numel);
    }
}

/* n values into one partial result */
static void collect_total(const samba_kernels *kernels, int op, int class_, char *partial, const char *a, int64_t n)
{
    union {
        float f32;
        double f64;
        int64_t i64;
    } value;
    if (n == 0)
        return;
    if (op != SAMBA_TILE_collect_sum) {
        (op == SAMBA_TILE_collect_prod   ? kernels->reduce_prod
         : op == SAMBA_TILE_collect_amax ? kernels->reduce_amax
                                         : kernels->reduce_amin)[class_](&value, a, 1, n, true);
        if (class_ == SAMBA_F32)
            value.f64 = value.f32;
    } else if (class_ == SAMBA_F32) {
        value.f64 = kernels->total_f32((const float *)a, n);
    } else if (class_ == SAMBA_F64) {
        value.f64 = kernels->total_f64((const double *)a, n);
    } else {
        value.i64 = kernels->total_i64((const int64_t *)a, n);
    }
    combine_at(op, class_ == SAMBA_I64, partial, 0, (const char *)&value, 0);
}

/* rows x cols values into cols partial results */
static void collect_columns(const samba_kernels *kernels, int op, int class_, char *partial, const char *a, int64_t rows,
                            int64_t cols)
{
    if (op == SAMBA_TILE_collect_sum) {
        if (cols == 1)
            collect_total(kernels, op, class_, partial, a, rows);
        else
            kernels->collect_rows[class_](partial, a, NULL, rows, cols);
        return;
    }
    if (cols == 1) {
        collect_total(kernels, op, class_, partial, a, rows);
        return;
    }
    samba_tile better = op == SAMBA_TILE_collect_prod   ? SAMBA_TILE_mul
                        : op == SAMBA_TILE_collect_amax ? SAMBA_TILE_maximum
                                                        : SAMBA_TILE_minimum; /* they propagate NaN as well */
    int64_t width = class_ == SAMBA_F32 ? 4 : 8;
    double best[SAMBA_TILE_CAPACITY], wide[SAMBA_TILE_CAPACITY]; /* in the tile's class first, in that of partial results then */
    for (int64_t c = 0; c < cols; c += SAMBA_TILE_CAPACITY) {
        int64_t n = cols - c < SAMBA_TILE_CAPACITY ? cols - c : SAMBA_TILE_CAPACITY;
        const char *row = a + c * width;
        const void *of_tile = row;
        for (int64_t r = 1; r < rows; r++, of_tile = best)
            kernels->map[better][class_](best, of_tile, row + r * cols * width, NULL, n);
        if (class_ == SAMBA_F32) {
            kernels->convert[SAMBA_F32][SAMBA_F64](wide, of_tile, NULL, NULL, n);
            of_tile = wide;
        }
        samba_register_class kept = class_ == SAMBA_I64 ? SAMBA_I64 : SAMBA_F64;
        kernels->map[better][kept](partial + 8 * c, partial + 8 * c, of_tile, NULL, n);
    }
}

/* rows x cols values, whose partial results lie `stride` apart from row to row */
static void collect_run(const samba_kernels *kernels, int op, int class_, char *partial, int64_t stride, bool per_column,
                        const char *a, int64_t rows, int64_t cols)
{
    const int64_t width = class_ == SAMBA_F32 ? 4 : 8;
    if (per_column && stride == 0)
        collect_columns(kernels, op, class_, partial, a, rows, cols);
    else if (stride == 0)
        collect_total(kernels, op, class_, partial, a, rows * cols);
    else if (per_column ? stride == cols : cols == 1 && stride == 1)
        collect_columns(kernels, op, class_, partial, a, 1, rows * cols);
    else if (!per_column && op == SAMBA_TILE_collect_sum)
        kernels->collect_totals[class_](partial, stride, a, rows, cols);
    else
        for (int64_t r = 0; r < rows; r++, partial += 8 * stride, a += cols * width) {
            if (per_column)
                collect_columns(kernels, op, class_, partial, a, 1, cols);
            else
                collect_total(kernels, op, class_, partial, a, cols);
        }
}

/* The same of sums of what is not NaN. */
static void collect_numbers(const samba_kernels *kernels, char *partial, int64_t stride, bool per_column, const float *a,
                            int64_t rows, int64_t cols)
{
    if (per_column ? stride == cols : cols == 1 && stride == 1)
        kernels->collect_numbers[SAMBA_F32](partial, a, rows * cols, 1, rows * cols, 0);
    else if (stride == 0 && per_column)
        kernels->collect_numbers[SAMBA_F32](partial, a, cols, rows, cols, 0);
    else if (stride == 0)
        *(double *)partial += kernels->combined->total_nansum(a, rows * cols);
    else
        for (int64_t r = 0; r < rows; r++, partial += 8 * stride, a += cols) {
            if (per_column)
                kernels->collect_numbers[SAMBA_F32](partial, a, cols, 1, cols, 0);
            else
                *(double *)partial += kernels->combined->total_nansum(a, cols);
        }
}

/* From a tile's elements to those of the next: along the rows, then further down. 0 where there is none. */
static int64_t to_next(const samba_tile_program *program, const samba_frame *frame, int64_t row, int64_t pitch)
{
    int64_t across = (program->cols + program->tile_cols - 1) / program->tile_cols, at = frame->col / program->tile_cols + 1;
    int64_t down = at / across * program->tile_rows;
    return row + down < program->rows ? down * pitch + at % across * program->tile_cols - frame->col : 0;
}

void samba_tile_collect(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_kernels *kernels = program->kernels;
    const samba_collector *collector = &program->collectors[code->collector];
    const samba_view *view = &program->views[collector->view];
    const samba_view_slice *slice = &frame->slices[collector->view];
    const char *a = frame->pointers[code->a];
    int op = collector->op, class_ = collector->class_;
    bool full = code->extent == SAMBA_FULL, per_column = full && view->col_stride != 0;
    int64_t width = class_ == SAMBA_F32 ? 4 : 8, rows = frame->rows, cols = full ? frame->cols : 1;
    char *partial = frame->scratch + collector->partial + 8 * (slice->offset + (per_column ? frame->col : 0));
    if (code->product) { /* one sum a column, over all rows */
        kernels->collect_rows[class_](partial, a, frame->pointers[code->b], rows, cols);
        return;
    }
    const samba_view *memory = code->memory ? &program->views[code->view] : NULL;
    const int kind = memory && memory->dtype == SAMBA_BFLOAT16 ? SAMBA_COLLECT_BFLOAT16 : class_;
    const int64_t pitch = memory && memory->groups ? memory->group_stride[0] : cols;
    int64_t ahead = 0;
    if (memory) {
        int64_t offset = frame->slices[code->view].offset;
        a = memory->base + (offset + frame->col) * memory->size;
        width = memory->size;
        ahead = to_next(program, frame, (offset - memory->offset) / pitch, pitch);
    }
    const int64_t inner = view->groups ? view->group_stride[view->groups - 1] : 0;
    int64_t run = view->groups > 1 ? slice->run : rows;
    for (int64_t r = 0, n; r < rows; r += n, run = view->group_size[view->groups - 1]) {
        n = rows - r < run ? rows - r : run;
        char *to = partial + 8 * (view->groups > 1 ? samba_view_row(view, slice, r) - slice->offset : 0);
        if (memory)
            (code->nansum ? kernels->collect_numbers : kernels->collect_memory)[kind](to, a + r * pitch * width, pitch, n, cols,
                                                                                      ahead);
        else if (code->nansum)
            collect_numbers(kernels, to, inner, per_column, (const float *)a + r * cols, n, cols);
        else
            collect_run(kernels, op, class_, to, inner, per_column, a + r * cols * width, n, cols);
    }
}

/* Results [begin, end), at most SAMBA_TILE_CAPACITY of them. */
static void finish_range(const samba_tile_program *program, const samba_collector *collector, samba_frame *frame, char *scratches,
                         int64_t pitch, int threads, int64_t begin, int64_t end)
{
    const samba_kernels *kernels = program->kernels;
    bool integer = collector->class_ == SAMBA_I64;
    char *sum = scratches + collector->partial + 8 * begin;
    for (int t = 1; t < threads; t++)
        for (int64_t i = 0; i < end - begin; i++)
            combine_at(collector->op, integer, sum, i, sum + t * pitch, i);
    const char *values = sum;
    if (collector->class_ == SAMBA_F32) {
        kernels->convert[SAMBA_F64][SAMBA_F32](frame->spare, sum, NULL, NULL, end - begin);
        values = frame->spare;
    }
    if (collector->contiguous) {
        kernels->store[collector->dtype](collector->base + begin * collector->size, values, end - begin);
        return;
    }
    int64_t width = collector->class_ == SAMBA_F32 ? 4 : 8;
    for (int64_t i = begin; i < end; i++) {
        int64_t offset = 0, rest = i;
        for (int k = collector->rank - 1; k >= 0; k--) {
            offset += rest % collector->sizes[k] * collector->strides[k];
            rest /= collector->sizes[k];
        }
        kernels->store[collector->dtype](collector->base + offset * collector->size, values + (i - begin) * width, 1);
    }
}

void samba_tile_collect_end(const samba_tile_program *program, samba_frame *frame, char *scratches, int64_t pitch, int threads,
                            int part, int parts)
{
    for (int k = 0; k < program->collector_count; k++) {
        const samba_collector *collector = &program->collectors[k];
        int64_t begin = collector->numel * part / parts, end = collector->numel * (part + 1) / parts;
        for (int64_t i = begin; i < end; i += SAMBA_TILE_CAPACITY)
            finish_range(program, collector, frame, scratches, pitch, threads, i,
                         i + SAMBA_TILE_CAPACITY < end ? i + SAMBA_TILE_CAPACITY : end);
    }
}
