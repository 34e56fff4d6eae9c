/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling: threads share the planes. float32, float64 and int64 are worked on where they are; narrower dtypes pass through planes
 * of float or int64_t in the thread's scratch. Padding counts as absent (max) or as 0 (average). */
#include "device/cpu/pool/pool.h"
#include "device/cpu/machine.h"
#include "tensor/resample.h"

enum { LANES = 16 }; /* of the longest vectors */

static int64_t divide_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/* k of 0 .. count-1 with 0 <= start + k*step < limit */
static samba_pool_range inside(int64_t start, int64_t step, int64_t limit, int64_t count)
{
    samba_pool_range r = {divide_up(-start, step), divide_up(limit - start, step)};
    r.begin = r.begin < 0 ? 0 : r.begin;
    r.end = r.end > count ? count : r.end;
    r.end = r.end < r.begin ? r.begin : r.end;
    return r;
}

/* The divisor of an average along one dim: taps of the window inside the plane or, with padding counted, inside the padded plane
 * (a window that ceil_mode lets reach beyond even that is cut there, as torch.nn.functional.avg_pool2d does). */
static double counted(const samba_pool *p, int dim, int64_t o, int64_t size)
{
    int64_t start = o * p->stride[dim] - p->padding[dim];
    samba_pool_range k = p->count_include_pad ? inside(start + p->padding[dim], 1, size + 2 * p->padding[dim], p->kernel[dim])
                                              : inside(start, p->dilation[dim], size, p->kernel[dim]);
    return (double)(k.end - k.begin);
}

/* Window `o` of `count` that share `size` elements: adaptive pooling. */
static samba_pool_range share(int64_t o, int64_t size, int64_t count)
{
    return (samba_pool_range){o * size / count, ((o + 1) * size + count - 1) / count};
}

/* Window `o` as the elements of the plane that are in it. */
static samba_pool_range window(const samba_pool *p, int dim, int64_t o)
{
    int64_t size = dim ? p->w : p->h, begin = o * p->stride[dim] - p->padding[dim], end = begin + p->kernel[dim];
    begin = begin < 0 ? 0 : begin > size ? size : begin;
    end = end > size ? size : end;
    return (samba_pool_range){begin, end < begin ? begin : end};
}

/* Windows of many vectors a row are passed over one by one, as adaptive ones are: nothing to list for each of their columns. So
 * are wider ones that are searched and share no elements: lines would deal their columns one by one. */
static bool is_wide(const samba_pool *p)
{
    bool apart = p->stride[0] >= p->kernel[0] && p->stride[1] >= p->kernel[1];
    return !p->adaptive && p->kernel[1] >= (apart && !p->average ? 8 : 8 * LANES) && p->dilation[0] == 1 && p->dilation[1] == 1;
}

/* Parts of windows inside the plane, counted once. */
static samba_status make_plan(const samba_preparing *prepare, const samba_pool *given, bool floating, samba_pool_plan *plan)
{
    samba_pool copy = *given, *p = &copy;
    bool wide = is_wide(given);
    p->adaptive |= wide;
    bool single = p->adaptive && p->ow == p->w;
    samba_pool_range *rows = samba_arena_alloc(prepare->arena, (size_t)p->oh * sizeof *rows);
    samba_pool_range *columns = samba_arena_alloc(prepare->arena, (size_t)(p->adaptive ? p->ow : p->kernel[1]) * sizeof *columns);
    double *widths = samba_arena_alloc(prepare->arena, (size_t)p->ow * sizeof *widths);
    double *heights = samba_arena_alloc(prepare->arena, (size_t)p->oh * sizeof *heights);
    if (!rows || !columns || !widths || !heights)
        return SAMBA_ERROR_MEMORY;
    for (int64_t oi = 0; oi < p->oh; oi++) {
        rows[oi] = wide          ? window(p, 0, oi)
                   : p->adaptive ? share(oi, p->h, p->oh)
                                 : inside(oi * p->stride[0] - p->padding[0], p->dilation[0], p->h, p->kernel[0]);
        heights[oi] = p->divisor             ? (double)p->divisor
                      : p->adaptive && !wide ? (double)(rows[oi].end - rows[oi].begin)
                                             : counted(p, 0, oi, p->h);
    }
    for (int64_t kx = 0; kx < p->kernel[1] && !p->adaptive; kx++)
        columns[kx] = inside(kx * p->dilation[1] - p->padding[1], p->stride[1], p->w, p->ow);
    for (int64_t oj = 0; oj < p->ow; oj++) {
        if (p->adaptive)
            columns[oj] = wide ? window(p, 1, oj) : share(oj, p->w, p->ow);
        single = single && columns[oj].begin == oj && columns[oj].end == oj + 1;
        widths[oj] = p->divisor             ? 1
                     : p->adaptive && !wide ? (double)(columns[oj].end - columns[oj].begin)
                                            : counted(p, 1, oj, p->w);
    }
    if (!floating) /* integers cannot be divided by nothing */
        for (int64_t i = 0; i < p->oh || i < p->ow; i++) {
            if (i < p->oh && heights[i] < 1)
                heights[i] = 1;
            if (i < p->ow && widths[i] < 1)
                widths[i] = 1;
        }
    *plan = (samba_pool_plan){.pool = *p, .rows = rows, .columns = columns, .widths = widths, .heights = heights};
    plan->single = single;
    return SAMBA_OK;
}

/* Lines of greatest elements (pool_max.h). */
static samba_status make_lines(const samba_preparing *prepare, const samba_stage *stage, samba_register_class class_,
                               samba_pool_plan *plan)
{
    const samba_pool *p = &stage->pool;
    int64_t kw = p->kernel[1], step = p->stride[1], across, down, kept = 1, size;
    /* shared: a line has all columns of one remainder, else those of one tap */
    bool shared = step <= kw, indices = p->gradient || p->indices;
    int64_t shift = shared ? (kw - 1) * p->dilation[1] / step : 0, whole = (p->ow + LANES - 1) / LANES * LANES;
    plan->line_count = shared ? step : kw;
    if (indices) {
        kept = (p->kernel[0] - 1) * p->dilation[0] + 1;
        kept = kept < p->h ? kept : p->h > 1 ? p->h : 1;
    }
    if (!samba_mul_checked((p->kernel[0] - 1) * p->dilation[0], p->w, &down) ||
        !samba_add_checked(down, (kw - 1) * p->dilation[1], &across) ||
        (indices && across > (class_ == SAMBA_F32 ? INT32_MAX : INT64_MAX / 2)) ||
        !samba_mul_checked(plan->line_count, whole + (shift + LANES - 1) / LANES * LANES, &size) ||
        !samba_mul_checked(size, kept, &down))
        return samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED,
                          "stage %s: a window of %lld by %lld elements, %lld by %lld apart, is too large to be searched",
                          stage->name, (long long)p->kernel[0], (long long)kw, (long long)p->dilation[0],
                          (long long)p->dilation[1]);
    plan->kept = kept;
    plan->kept_size = size;
    samba_pool_line *lines = samba_arena_alloc(prepare->arena, (size_t)plan->line_count * sizeof *lines);
    int64_t *starts = samba_arena_alloc(prepare->arena, (size_t)kw * sizeof *starts);
    char *first = samba_arena_alloc(prepare->arena, (size_t)(indices ? whole : 0) * 8);
    if (!lines || !starts || !first)
        return SAMBA_ERROR_MEMORY;
    size /= plan->line_count;
    for (int64_t l = 0; l < plan->line_count; l++) {
        int64_t column = (shared ? l : l * p->dilation[1]) - p->padding[1]; /* of the line's first element */
        samba_pool_range within = inside(column, step, p->w, p->ow + shift);
        lines[l] = (samba_pool_line){
            .at = l * size + within.begin, .from = column + within.begin * step, .count = within.end - within.begin};
    }
    for (int64_t kx = 0; kx < kw; kx++)
        starts[kx] = shared ? kx * p->dilation[1] % step * size + kx * p->dilation[1] / step : kx * size;
    for (int64_t oj = 0; indices && oj < whole; oj++) {
        samba_pool_range within = inside(oj * step - p->padding[1], p->dilation[1], p->w, kw);
        bool any = oj < p->ow && within.begin < within.end;
        if (class_ == SAMBA_F32)
            ((int32_t *)first)[oj] = any ? (int32_t)(within.begin * p->dilation[1]) : INT32_MIN;
        else
            ((int64_t *)first)[oj] = any ? within.begin * p->dilation[1] : INT64_MIN;
    }
    plan->lines = lines;
    plan->starts = starts;
    plan->first_inside = first;
    return SAMBA_OK;
}

/* Taps of a dim that a table holds; those of others are found at each run. Many taps of an element are then added in parts. */
#define MOST_TABLED 262144      /* of no machine: what is added in which order depends on these */
#define MOST_TABLED_FEW 4194304 /* of elements that have few each */
#define FEW_TAPS 64
#define MOST_BETWEEN 262144 /* elements of what lies between columns and rows: each thread keeps it */
#define GATHERED 8          /* what a tap of a column costs, a tap of a whole row costs one */

typedef struct taps_table { /* NULL: not to be filled */
    int32_t *indices;
    void *weights;
    int64_t *index; /* of one element */
    double *weight;
} taps_table;

static void set_tap(const taps_table *table, samba_register_class class_, int64_t at, int64_t index, double weight)
{
    if (!table->indices)
        return;
    table->indices[at] = (int32_t)index;
    if (class_ == SAMBA_F32)
        ((float *)table->weights)[at] = (float)weight;
    else if (class_ == SAMBA_F64)
        ((double *)table->weights)[at] = weight;
    else
        ((int64_t *)table->weights)[at] = 1;
}

/* Fills the table; whether each element is made of itself alone. */
static bool fill_taps(const taps_table *table, samba_register_class class_, const samba_resample_axis *axis, int64_t taps)
{
    bool same = axis->in == axis->out;
    for (int64_t o = 0; o < axis->out && (same || table->indices); o++) {
        double own = 0;
        samba_resample_taps_of(axis, o, table->index, table->weight);
        for (int64_t k = 0; k < taps; k++) {
            set_tap(table, class_, k * axis->out + o, table->index[k], table->weight[k]);
            own += table->index[k] == o ? table->weight[k] : 0;
            same = same && (table->index[k] == o || table->weight[k] == 0);
        }
        same = same && own == 1;
    }
    for (int64_t o = 0; o < axis->out && same; o++) /* one tap, the element itself */
        set_tap(table, class_, o, o, 1);
    return same;
}

/* Tables of what each row or column of a resampled plane is made of. */
static samba_status make_taps(const samba_preparing *prepare, const samba_pool *p, samba_dtype dtype, samba_pool_plan *plan)
{
    samba_register_class class_ = samba_class_of(dtype);
    *plan = (samba_pool_plan){.pool = *p};
    for (int d = 0; d < 2; d++) {
        samba_resample_axis axis = {d ? p->w : p->h, d ? p->ow : p->oh,      p->resample - 1, p->align_corners,
                                    p->antialias,    dtype == SAMBA_FLOAT64, p->scale[d]};
        int64_t taps = samba_resample_taps(&axis);
        size_t count = (size_t)(taps * axis.out);
        bool tabled = taps * axis.out <= (taps <= FEW_TAPS ? MOST_TABLED_FEW : MOST_TABLED);
        taps_table table = {tabled ? samba_arena_alloc(prepare->arena, count * sizeof *table.indices) : NULL,
                            tabled ? samba_arena_alloc(prepare->arena, count * (class_ == SAMBA_F32 ? 4 : 8)) : NULL,
                            samba_arena_alloc(prepare->arena, (size_t)taps * sizeof *table.index),
                            samba_arena_alloc(prepare->arena, (size_t)taps * sizeof *table.weight)};
        if ((tabled && (!table.indices || !table.weights)) || !table.index || !table.weight)
            return SAMBA_ERROR_MEMORY;
        plan->axis[d] = axis;
        plan->same[d] = fill_taps(&table, class_, &axis, taps);
        plan->taps[d] = plan->same[d] ? 1 : taps;
        plan->indices[d] = table.indices;
        plan->weights[d] = table.weights;
    }
    double down = (double)plan->taps[0] * (double)p->oh, across = GATHERED * (double)plan->taps[1] * (double)p->ow;
    plan->columns_first = !plan->same[0] && !plan->same[1] && (double)p->h * (double)p->ow <= MOST_BETWEEN &&
                          across * (double)p->h + down * (double)p->ow < across * (double)p->oh + down * (double)p->w;
    return SAMBA_OK;
}

typedef struct pool_state {
    samba_pool_plan plan;
    const samba_kernels *kernels;
    void (*run)(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second, void *result,
                const samba_pool_scratch *scratch);
    samba_dtype dtype;
    bool widened; /* elements are narrower than what is computed with */
    int operand_count;
    char *memory[3];                   /* operands; the last is the result */
    int64_t elements[3];               /* of a plane */
    int64_t planes[3];                 /* in thread scratch: widened planes */
    int64_t value, index, lines, taps; /* in thread scratch, as samba_pool_scratch */
    int64_t thread_scratch;
    double plane; /* ns, about */
} pool_state;

static void run_pool(const void *state, char *scratch, int phase, int thread, int threads)
{
    const pool_state *s = state;
    (void)phase;
    scratch += thread * s->thread_scratch;
    int64_t size = (int64_t)samba_dtype_size(s->dtype), planes = s->plan.pool.planes;
    int result = s->operand_count - 1;
    const samba_pool_scratch own = {scratch + s->value, scratch + s->index, scratch + s->lines, scratch + s->taps};
    int64_t begin = planes * thread / threads, end = planes * (thread + 1) / threads, at_once = s->widened ? 1 : end - begin;
    for (int64_t plane = begin; plane < end; plane += at_once) {
        char *memory[3] = {NULL, NULL, NULL}, *data[3] = {NULL, NULL, NULL};
        for (int i = 0; i < s->operand_count; i++) {
            bool indices = i == result && s->plan.pool.indices;
            memory[i] = data[i] = s->memory[i] + plane * s->elements[i] * (indices ? 8 : size);
            if (s->widened && !indices)
                data[i] = scratch + s->planes[i];
            if (s->widened && i < result)
                s->kernels->load[s->dtype](data[i], memory[i], s->elements[i]);
        }
        s->run(&s->plan, at_once, data[0], data[1], data[result], &own);
        if (data[result] != memory[result])
            s->kernels->store[s->dtype](memory[result], data[result], s->elements[result]);
    }
}

static int64_t pool_units(const void *state, int phase, int threads, bool *free)
{
    (void)phase, (void)threads;
    *free = false;
    return ((const pool_state *)state)->plan.pool.planes;
}

static double pool_work(const void *state, int phase, int threads, int64_t unit)
{
    (void)phase, (void)threads, (void)unit;
    return ((const pool_state *)state)->plane;
}

static const samba_dealing pool_dealing = {pool_units, pool_work, NULL, NULL};

/* Room for n elements of 8 bytes in the thread's scratch; false on overflow. */
static bool reserve(pool_state *s, int64_t n, int64_t *offset)
{
    int64_t bytes;
    *offset = s->thread_scratch;
    if (!samba_mul_checked(n, 8, &bytes) || !samba_add_checked(bytes, SAMBA_ALIGNMENT, &bytes) ||
        !samba_add_checked(s->thread_scratch, bytes, &s->thread_scratch))
        return false;
    s->thread_scratch -= s->thread_scratch % SAMBA_ALIGNMENT;
    return true;
}

samba_status samba_prepare_pool(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    if (stage->pool.sample)
        return samba_prepare_sample(prepare, stage, prepared);
    pool_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    s->kernels = prepare->machine->kernels;
    s->operand_count = stage->operand_count;
    s->dtype = (samba_dtype)stage->operands[0].dtype;
    samba_register_class class_ = samba_class_of(s->dtype);
    s->run = class_ == SAMBA_F32 ? s->kernels->pool_f32 : class_ == SAMBA_F64 ? s->kernels->pool_f64 : s->kernels->pool_i64;
    s->widened = s->dtype != SAMBA_FLOAT32 && s->dtype != SAMBA_FLOAT64 && s->dtype != SAMBA_INT64;
    if (stage->pool.resample)
        SAMBA_TRY(make_taps(prepare, &stage->pool, s->dtype, &s->plan));
    else
        SAMBA_TRY(make_plan(prepare, &stage->pool, class_ != SAMBA_I64, &s->plan));
    int64_t outside = stage->pool.h * stage->pool.w, result = stage->pool.oh * stage->pool.ow;
    int64_t row = stage->pool.ow > stage->pool.w ? stage->pool.ow : stage->pool.w;
    if (!stage->pool.average && s->plan.pool.adaptive && class_ == SAMBA_F32 && stage->pool.h > INT32_MAX)
        return samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED, "stage %s: a plane of %lld rows is too high to be searched",
                          stage->name, (long long)stage->pool.h);
    if (!stage->pool.average && !s->plan.pool.adaptive)
        SAMBA_TRY(make_lines(prepare, stage, class_, &s->plan));
    int64_t value = row;
    bool fits = !s->plan.columns_first || samba_mul_checked(stage->pool.h, stage->pool.ow, &value);
    fits = fits && reserve(s, value > row ? value : row, &s->value) && reserve(s, row + LANES, &s->index) &&
           reserve(s, s->plan.kept * s->plan.kept_size, &s->lines) &&
           reserve(s, 2 * (s->plan.taps[0] + s->plan.taps[1]), &s->taps);
    for (int i = 0; i < s->operand_count; i++) {
        const samba_operand *operand = &stage->operands[i];
        bool pooled = stage->pool.gradient ? i == s->operand_count - 2 : i == s->operand_count - 1; /* y or dy */
        s->memory[i] = samba_operand_memory(prepare, operand);
        s->elements[i] = pooled ? result : outside;
        if (s->widened)
            fits = fits && reserve(s, s->elements[i], &s->planes[i]);
    }
    if (!fits)
        return samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED,
                          "stage %s: a plane needs more scratch than this machine can address", stage->name);
    if (stage->pool.planes > 0)
        s->plane = (double)stage->flops / (double)stage->pool.planes / prepare->machine->share.pool * 1e9;
    *prepared =
        (samba_prepared){.run = run_pool, .state = s, .phases = 1, .thread_scratch = s->thread_scratch, .dealing = &pool_dealing};
    return SAMBA_OK;
}
