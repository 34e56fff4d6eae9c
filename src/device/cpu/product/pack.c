/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks, planes and packing: see pack.h. Packing copies along whichever side is contiguous, by runs, or transposes. */
#include "device/cpu/product/pack.h"
#include <string.h>

int64_t samba_batch_offset(const samba_contract *contract, const samba_factor *factor, int64_t batch)
{
    int64_t offset = 0;
    for (int i = contract->batch_rank - 1; i >= 0; i--) {
        offset += batch % contract->batch[i] * factor->batch[i];
        batch /= contract->batch[i];
    }
    return offset;
}

/* ---- blocks ---- */

void samba_split_init(samba_split *split, int rank, const int64_t *size, int64_t target, int64_t round)
{
    int64_t outer = 1, count, steps;
    *split = (samba_split){.rank = rank, .total = 1, .inner = 1};
    for (int i = 0; i < rank; i++) {
        split->size[i] = size[i];
        split->total *= size[i];
    }
    split->cut = rank - 1;
    while (split->cut > 0 && split->inner * size[split->cut] < target)
        split->inner *= size[split->cut--];
    count = size[split->cut];
    split->step = target / split->inner;
    split->step = split->step < 1 ? 1 : split->step > count ? count : split->step;
    if (split->step > 0) { /* as many steps as needed, of one length */
        steps = (count + split->step - 1) / split->step;
        split->step = (count + steps - 1) / steps;
        if (split->inner == 1 && steps > 1)
            split->step = (split->step + round - 1) / round * round;
    }
    for (int i = 0; i < split->cut; i++)
        outer *= size[i];
    split->per = split->step ? (count + split->step - 1) / split->step : 0;
    split->blocks = split->total ? outer * split->per : 0;
    split->width = split->step < count ? split->step * split->inner : count * split->inner;
}

samba_box samba_split_box(const samba_split *split, int64_t block)
{
    samba_box box = {{0}, 0, 0, 0};
    if (block == 0) { /* of small products the only one: divisions would cost more than they multiply */
        box.count = split->size[split->cut] < split->step ? split->size[split->cut] : split->step;
        box.width = box.count * split->inner;
        return box;
    }
    int64_t outer = block / split->per, start = block % split->per * split->step, left = split->size[split->cut] - start;
    box.count = left < split->step ? left : split->step;
    box.index[split->cut] = start;
    box.first = (outer * split->size[split->cut] + start) * split->inner;
    box.width = box.count * split->inner;
    for (int i = split->cut - 1; i >= 0; i--) {
        box.index[i] = outer % split->size[i];
        outer /= split->size[i];
    }
    return box;
}

/* ---- sources ---- */

static int64_t box_count(const samba_split *split, int dim) { return dim == split->cut ? split->step : split->size[dim]; }

static int64_t window_position(const samba_plane_window *window, int64_t x)
{
    return x % window->phases * window->phase_pitch + x / window->phases * window->pitch;
}

/* How far an index of a dim moves along a window: not at all where the plane has images for the steps instead. */
static int64_t window_step(const samba_source *source, bool inner, int window, int dim)
{
    const samba_factor *factor = &source->factor;
    bool instead = source->unrolled && inner == source->sort_own && window == factor->window_count - 1;
    return instead ? 0 : inner ? factor->windows[window].inner[dim] : factor->windows[window].own[dim];
}

/* pitch * count; false where a plane of so much would be larger than any machine's memory:
 * a file may say any step of a window. */
static bool enlarge(int64_t *pitch, int64_t count)
{
    const int64_t largest = (int64_t)1 << 44;
    return samba_mul_checked(*pitch, count, pitch) && *pitch <= largest;
}

/* The plane holds, outermost first, the dims with strides of their own, then an image for each combination of phases. An unrolled
 * plane needs only the first phase of the last window, since nothing moves there but what the phases were made for. */
static bool describe_plane(samba_source *source)
{
    const samba_factor *factor = &source->factor;
    bool sort_own = source->sort_own;
    int64_t pitch = 1;
    for (int w = factor->window_count - 1; w >= 0; w--) {
        samba_plane_window *window = &source->plane_windows[w];
        *window = (samba_plane_window){.length = 1, .pitch = pitch};
        for (int side = 0; side < 2; side++) {
            const samba_split *split = side ? &source->inner : &source->own;
            for (int i = split->cut; i < split->rank; i++) {
                int64_t step = window_step(source, side, w, i), reach = step * (box_count(split, i) - 1);
                window->length += reach < 0 ? -reach : reach;
                window->origin += reach < 0 ? -reach : 0;
                if (!side == sort_own && box_count(split, i) > 1)
                    window->phases = samba_greatest_common_divisor(window->phases, step);
            }
        }
        if (window->phases < 1)
            window->phases = 1;
        window->per = (window->length + window->phases - 1) / window->phases;
        window->filled = source->unrolled && w == factor->window_count - 1 ? 1 : window->phases;
        if (!enlarge(&pitch, window->per))
            return false;
    }
    for (int w = factor->window_count - 1; w >= 0; w--) {
        source->plane_windows[w].phase_pitch = pitch;
        if (!enlarge(&pitch, source->plane_windows[w].filled))
            return false;
    }
    source->image_size = pitch;
    for (int side = 1; side >= 0; side--) {
        const samba_split *split = side ? &source->inner : &source->own;
        const int64_t *stride = side ? factor->inner : factor->own;
        const samba_window *last = &factor->windows[factor->window_count - 1];
        for (int i = split->rank - 1; i >= split->cut; i--) {
            int64_t shift = (side ? last->inner[i] : last->own[i]) - window_step(source, side, factor->window_count - 1, i);
            if ((stride[i] == 0 && shift == 0) || box_count(split, i) == 1)
                continue;
            source->plane_dims[source->plane_rank++] = (samba_plane_dim){side, i, box_count(split, i), stride[i], shift, pitch};
            if (!enlarge(&pitch, box_count(split, i)))
                return false;
        }
    }
    source->plane_bytes = (pitch * source->element_size + 63) / 64 * 64;
    return true;
}

/* How far from the block's first element the element at `index` (within the box) lies. */
static int64_t source_offset(const samba_source *source, bool inner, const int64_t *index)
{
    const samba_factor *factor = &source->factor;
    const samba_split *split = inner ? &source->inner : &source->own;
    const int64_t *stride = inner ? factor->inner : factor->own;
    int64_t offset = 0;
    if (!source->plane_bytes) {
        for (int i = split->cut; i < split->rank; i++)
            offset += stride[i] * index[i];
        return offset;
    }
    for (int j = 0; j < source->plane_rank; j++)
        if (source->plane_dims[j].inner == inner)
            offset += source->plane_dims[j].pitch * index[source->plane_dims[j].dim];
    for (int w = 0; w < factor->window_count; w++) {
        int64_t origin = source->plane_windows[w].origin, x = origin;
        for (int i = split->cut; i < split->rank; i++)
            x += window_step(source, inner, w, i) * index[i];
        /* Which side is in phase with the sorting does not matter: offsets are relative to that of the blocks' first elements,
         * and one of the two sides moves by whole phases. */
        offset += window_position(&source->plane_windows[w], x) - window_position(&source->plane_windows[w], origin);
    }
    return offset;
}

/* The longest run: the last dim, then those around it that go on where it ends. */
static void describe_axis(const samba_source *source, bool inner, samba_axis *axis)
{
    const samba_split *split = inner ? &source->inner : &source->own;
    *axis = (samba_axis){.count = split->width, .run = 1};
    for (int dim = split->rank - 1; dim >= split->cut; dim--) {
        int64_t index[SAMBA_CONTRACT_RANK] = {0}, count = box_count(split, dim), stride = axis->stride;
        if (count == 0)
            return;
        for (int64_t i = 1; i < count; i++) { /* sorting by mod phases may have broken the row */
            index[dim] = i;
            int64_t offset = source_offset(source, inner, index);
            if (axis->run == 1 && i == 1)
                stride = offset;
            if (offset != i * axis->run * stride)
                return;
        }
        axis->stride = stride;
        axis->run *= count;
    }
}

bool samba_source_describe(samba_source *source, bool sort_own)
{
    const samba_factor *factor = &source->factor;
    source->sort_own = sort_own;
    source->memory_size = (int64_t)samba_dtype_table[factor->dtype].size;
    source->element_size = source->class_ == SAMBA_F32 ? 4 : 8;
    source->plane_rank = 0;
    source->plane_bytes = 0;
    if (factor->window_count && !describe_plane(source))
        return false;
    source->native =
        source->plane_bytes || factor->dtype == SAMBA_FLOAT32 || factor->dtype == SAMBA_FLOAT64 || factor->dtype == SAMBA_INT64;
    describe_axis(source, false, &source->own_axis);
    describe_axis(source, true, &source->inner_axis);
    return true;
}

int64_t samba_source_step(const samba_source *source, int dim)
{
    int64_t index[SAMBA_CONTRACT_RANK] = {0};
    index[dim] = 1;
    return source_offset(source, false, index);
}

static samba_status fill_axis(const samba_source *source, bool inner, samba_arena *arena, samba_axis *axis)
{
    const samba_split *split = inner ? &source->inner : &source->own;
    int64_t index[SAMBA_CONTRACT_RANK] = {0};
    axis->offset = (int64_t *)samba_arena_alloc(arena, (size_t)axis->count * sizeof(int64_t));
    if (!axis->offset)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < axis->count; i++) {
        axis->offset[i] = source_offset(source, inner, index);
        for (int dim = split->rank - 1; dim >= split->cut && ++index[dim] == box_count(split, dim) && dim > split->cut; dim--)
            index[dim] = 0;
    }
    return SAMBA_OK;
}

samba_status samba_source_tables(samba_source *source, samba_arena *arena)
{
    SAMBA_TRY(fill_axis(source, false, arena, &source->own_axis));
    return fill_axis(source, true, arena, &source->inner_axis);
}

/* ---- planes ---- */

/* Short runs are the rule, so no call: whole steps of 16 bytes, then one that ends where the run ends. n is a multiple of 4. */
static inline void copy_run(char *d, const char *s, int64_t n)
{
    if (n > 512) {
        memcpy(d, s, (size_t)n);
    } else if (n >= 16) {
        for (int64_t i = 0; i + 16 <= n; i += 16)
            memcpy(d + i, s + i, 16);
        memcpy(d + n - 16, s + n - 16, 16);
    } else {
        for (int64_t i = 0; i < n; i += 4)
            memcpy(d + i, s + i, 4);
    }
}

/* What a row of the image gives to one phase of a plane's row: coordinates x, x + step ... that lie in the image and are none
 * of the dilation's zeros. */
typedef struct plane_piece {
    int64_t from, from_step; /* elements of the image's row */
    int64_t to, to_step, count;
} plane_piece;

static plane_piece find_piece(const samba_window *window, const samba_plane_window *plane, int64_t low, int64_t phase)
{
    int64_t limit = window->limit * window->dilation, x = low + phase, i = 0, left;
    plane_piece piece = {0};
    while (i < plane->per && (x < 0 || (window->dilation > 1 && x % window->dilation))) {
        x += plane->phases;
        i++;
    }
    if (i >= plane->per || x >= limit)
        return piece;
    piece.to_step = window->dilation > 1 ? window->dilation / samba_greatest_common_divisor(window->dilation, plane->phases) : 1;
    piece.to = phase * plane->phase_pitch + i;
    piece.from = x / window->dilation * window->stride;
    piece.from_step = piece.to_step * plane->phases / window->dilation * window->stride;
    left = (plane->per - 1 - i) / piece.to_step;
    piece.count = (limit - 1 - x) / (piece.to_step * plane->phases);
    piece.count = (left < piece.count ? left : piece.count) + 1;
    return piece;
}

static void copy_piece(const samba_source *source, const plane_piece *piece, const char *row, char *d)
{
    int dtype = source->factor.dtype;
    int64_t size = source->element_size, from_size = source->memory_size;
    row += piece->from * from_size;
    d += piece->to * size;
    if (piece->to_step > 1 && dtype == SAMBA_FLOAT32)
        for (int64_t i = 0; i < piece->count; i++)
            memcpy(d + i * piece->to_step * 4, row + i * piece->from_step * 4, 4);
    else if (piece->to_step > 1)
        for (int64_t i = 0; i < piece->count; i++)
            source->machine->kernels->load[dtype](d + i * piece->to_step * size, row + i * piece->from_step * from_size, 1);
    else if (piece->from_step != 1)
        source->machine->kernels->load_strided[dtype](d, row, piece->from_step, piece->count);
    else if (dtype == SAMBA_FLOAT32)
        copy_run(d, row, piece->count * size);
    else
        source->machine->kernels->load[dtype](d, row, piece->count);
}

/* Nothing but rows of float32 copied, the common case: what lies above, below and beside them is cleared on the way. */
static void copy_image(const samba_window *window, const samba_plane_window *rows, const plane_piece *piece, const char *memory,
                       int64_t low, char *d)
{
    int64_t pitch = rows->pitch * 4, before = piece->to * 4, bytes = piece->count * 4, after = pitch - before - bytes;
    int64_t top = low < 0 ? (-low < rows->length ? -low : rows->length) : 0;
    int64_t bottom = window->limit - low < rows->length ? window->limit - low : rows->length;
    const char *row = memory + (low + top) * window->stride * 4 + piece->from * 4;
    if (bottom <= top) { /* all of it lies beside the image */
        memset(d, 0, (size_t)(rows->length * pitch));
        return;
    }
    memset(d, 0, (size_t)(top * pitch + before));
    d += top * pitch + before;
    for (int64_t i = top; i < bottom; i++, row += window->stride * 4, d += pitch) {
        copy_run(d, row, bytes);
        for (int64_t j = 0; j < after + before && i + 1 < bottom; j += 4)
            memset(d + bytes + j, 0, 4);
    }
    memset(d - pitch + bytes, 0, (size_t)(after + (rows->length - bottom) * pitch));
}

/* The image's pixel for coordinate x, or -1 where there is none. */
static int64_t pixel_of(const samba_window *window, int64_t x)
{
    int64_t y = window->dilation > 1 ? x / window->dilation : x;
    return x >= 0 && y < window->limit && y * window->dilation == x ? y : -1;
}

/* The piece of each row that window w sees, over zeros. */
static void fill_rows(const samba_source *source, int w, const plane_piece *piece, const char *memory, const int64_t *low,
                      char *d)
{
    const samba_window *window = &source->factor.windows[w];
    const samba_plane_window *rows = &source->plane_windows[w];
    for (int64_t i = 0; i < rows->length; i++) {
        int64_t y = pixel_of(window, low[w] + i), at = rows->phases > 1 ? window_position(rows, i) : i * rows->pitch;
        if (y >= 0)
            copy_piece(source, piece, memory + y * window->stride * source->memory_size, d + at * source->element_size);
    }
}

/* The same of three windows: rows of the images that the first sees. */
static void fill_images(const samba_source *source, const plane_piece *piece, const char *memory, const int64_t *low, char *d)
{
    const samba_window *window = &source->factor.windows[0];
    const samba_plane_window *images = &source->plane_windows[0];
    for (int64_t i = 0; i < images->length; i++) {
        int64_t y = pixel_of(window, low[0] + i);
        if (y >= 0)
            fill_rows(source, 1, piece, memory + y * window->stride * source->memory_size, low,
                      d + window_position(images, i) * source->element_size);
    }
}

/* The rows and columns of one image, or of all images along a third window. */
static void fill_image(const samba_source *source, const char *memory, const int64_t *low, char *d)
{
    const samba_factor *factor = &source->factor;
    int last = factor->window_count - 1, first = last > 0 ? last - 1 : 0; /* windows of columns and rows */
    const samba_plane_window *columns = &source->plane_windows[last], *rows = &source->plane_windows[first];
    const samba_window *window = &factor->windows[first];
    bool plain = last > 0 && factor->dtype == SAMBA_FLOAT32 && window->dilation == 1 && rows->phases == 1 && columns->filled == 1;
    if (plain && (last == 1 || source->plane_windows[0].phases == 1)) {
        plane_piece piece = find_piece(&factor->windows[last], columns, low[last], 0);
        bool copied = piece.count > 0 && piece.from_step == 1 && piece.to_step == 1;
        if (copied && last == 1) {
            copy_image(window, rows, &piece, memory, low[0], d);
            return;
        }
        const samba_plane_window *images = &source->plane_windows[0];
        for (int64_t i = 0; copied && i < images->length; i++, d += images->pitch * 4) {
            int64_t y = pixel_of(&factor->windows[0], low[0] + i);
            if (y >= 0)
                copy_image(window, rows, &piece, memory + y * factor->windows[0].stride * 4, low[1], d);
            else
                memset(d, 0, (size_t)(images->pitch * 4));
        }
        if (copied)
            return;
    }
    memset(d, 0, (size_t)(source->image_size * source->element_size));
    for (int64_t phase = 0; phase < columns->filled; phase++) {
        plane_piece piece = find_piece(&factor->windows[last], columns, low[last], phase);
        if (piece.count > 0 && last == 0)
            copy_piece(source, &piece, memory, d);
        else if (piece.count > 0 && last == 1)
            fill_rows(source, 0, &piece, memory, low, d);
        else if (piece.count > 0)
            fill_images(source, &piece, memory, low, d);
    }
}

static void fill_plane(const samba_source *source, const char *memory, const int64_t *low, const int64_t *counts, char *plane)
{
    int64_t index[2 * SAMBA_CONTRACT_RANK] = {0}, start[SAMBA_CONTRACT_WINDOWS];
    int j, last = source->factor.window_count - 1;
    memcpy(start, low, sizeof start);
    do {
        const char *from = memory;
        char *to = plane;
        start[last] = low[last];
        for (j = 0; j < source->plane_rank; j++) {
            start[last] += index[j] * source->plane_dims[j].shift;
            from += index[j] * source->plane_dims[j].stride * source->memory_size;
            to += index[j] * source->plane_dims[j].pitch * source->element_size;
        }
        fill_image(source, from, start, to);
        for (j = 0; j < source->plane_rank && ++index[j] >= counts[j]; j++)
            index[j] = 0;
    } while (j < source->plane_rank);
}

const char *samba_source_at(const samba_source *source, int64_t batch_offset, const samba_box *own, const samba_box *inner,
                            char *plane)
{
    const samba_factor *factor = &source->factor;
    int64_t offset = batch_offset, low[SAMBA_CONTRACT_WINDOWS] = {0}, counts[2 * SAMBA_CONTRACT_RANK], origin = 0;
    const char *memory;
    for (int i = 0; i <= source->own.cut; i++)
        offset += factor->own[i] * own->index[i];
    for (int i = 0; i <= source->inner.cut; i++)
        offset += factor->inner[i] * inner->index[i];
    memory = source->memory + offset * source->memory_size;
    if (!source->plane_bytes)
        return memory;
    for (int w = 0; w < factor->window_count; w++) {
        low[w] = factor->windows[w].base - source->plane_windows[w].origin;
        for (int i = 0; i <= source->own.cut; i++)
            low[w] += factor->windows[w].own[i] * own->index[i];
        for (int i = 0; i <= source->inner.cut; i++)
            low[w] += factor->windows[w].inner[i] * inner->index[i];
        origin += window_position(&source->plane_windows[w], source->plane_windows[w].origin);
    }
    for (int j = 0; j < source->plane_rank; j++) {
        const samba_plane_dim *dim = &source->plane_dims[j];
        const samba_split *split = dim->inner ? &source->inner : &source->own;
        counts[j] = dim->dim == split->cut ? (dim->inner ? inner : own)->count : dim->size;
    }
    fill_plane(source, memory, low, counts, plane);
    return plane + origin * source->element_size;
}

/* ---- packing ---- */

typedef enum pack_way { BY_COPY, BY_TRANSPOSE, BY_GATHER } pack_way;

bool samba_source_is_far(const samba_source *source, bool inner)
{
    const int64_t *stride = inner ? source->factor.inner : source->factor.own;
    int64_t farthest = 0, rank = (inner ? &source->inner : &source->own)->rank;
    for (int64_t i = 0; i < rank; i++)
        farthest = stride[i] > farthest ? stride[i] : -stride[i] > farthest ? -stride[i] : farthest;
    return source->plane_bytes == 0 && farthest * source->memory_size >= source->machine->product.page;
}

/* Times an element; a run costs its start, a square of 16 x 16 as much when it is not full. */
static pack_way choose_way(const samba_source *source, const samba_axis *rows, const samba_axis *cols, double *cost)
{
    double row_run = (double)rows->run, col_run = (double)cols->run;
    double squares = (double)((rows->run + 15) / 16 * ((cols->run + 15) / 16));
    const samba_cpu_machine *machine = source->machine;
    double far = rows->stride * source->memory_size >= machine->product.line_of_rows && !source->plane_bytes
                     ? machine->pack.copy_far
                     : machine->pack.copy;
    /* from a run to the next */
    double jump = cols->run < cols->count && samba_source_is_far(source, cols == &source->inner_axis) ? machine->pack.run_far
                                                                                                      : machine->pack.run;
    double copy = cols->stride == 1 || cols->run == 1 ? far + jump / col_run : 1e9,
           gather = machine->pack.gather + machine->pack.gather_run / col_run, transpose = 1e9;
    if (rows->stride == 1 && rows->run > 1 && cols->run > 1)
        transpose = (machine->pack.square * squares + machine->pack.square_start) / (row_run * col_run);
    pack_way way = copy <= transpose && copy <= gather ? BY_COPY : transpose <= gather ? BY_TRANSPOSE : BY_GATHER;
    *cost = (way == BY_COPY ? copy : way == BY_TRANSPOSE ? transpose : gather) + (source->native ? 0 : machine->pack.convert);
    bool taps = source->native && source->element_size == 4 && cols->run <= 16; /* gathered without a call */
    int64_t from_size = source->plane_bytes ? source->element_size : source->memory_size;
    if (way == BY_GATHER && !taps && rows->run >= 16 && rows->stride > 0 && rows->stride < cols->stride &&
        cols->stride * from_size >= machine->product.line_of_rows)
        return BY_TRANSPOSE; /* far columns are read in the order of memory */
    return way;
}

double samba_pack_cost(const samba_source *source, const samba_axis *rows, const samba_axis *cols)
{
    double cost;
    choose_way(source, rows, cols, &cost);
    return cost;
}

static samba_dtype read_dtype(const samba_source *source)
{
    static const samba_dtype plane_dtypes[3] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64};
    return source->plane_bytes ? plane_dtypes[source->class_] : (samba_dtype)source->factor.dtype;
}

/* Rows far apart are new to the caches and their prefetchers: bytes of a row that are asked for AHEAD rows before its turn. */
enum { AHEAD = 8 };
static int64_t ahead_bytes(const samba_source *source, const samba_axis *rows, const samba_axis *cols, int64_t col_count,
                           int64_t element_size)
{
    bool far = rows->stride * element_size >= source->machine->product.line_of_rows && cols->run >= col_count;
    return far ? col_count * cols->stride * element_size : 0;
}

static inline void ask_for(const char *row, int64_t bytes)
{
    for (int64_t j = 0; j < bytes; j += 64)
        __builtin_prefetch(row + j);
}

static void pack_copy(const samba_source *source, const char *at, const samba_axis *rows, int64_t row_count,
                      const samba_axis *cols, int64_t col_count, char *d, int64_t ldd)
{
    int64_t size = source->element_size, from_size = source->plane_bytes ? size : source->memory_size;
    int64_t ahead = ahead_bytes(source, rows, cols, col_count, from_size);
    for (int64_t i = 0; i < row_count; i++) {
        const char *row = at + rows->offset[i] * from_size;
        char *to = d + i * ldd * size;
        if (i + AHEAD < row_count)
            ask_for(at + rows->offset[i + AHEAD] * from_size, ahead);
        for (int64_t j = 0; j < col_count; j += cols->run) {
            int64_t n = col_count - j < cols->run ? col_count - j : cols->run;
            if (source->native)
                copy_run(to + j * size, row + cols->offset[j] * size, n * size);
            else
                source->machine->kernels->load[source->factor.dtype](to + j * size, row + cols->offset[j] * from_size, n);
        }
    }
}

/* Reads along rows->stride, which is nearer than cols->stride, into tiles that are transposed. */
static void pack_transpose(const samba_source *source, const char *at, const samba_axis *rows, int64_t row_count,
                           const samba_axis *cols, int64_t col_count, char *d, int64_t ldd)
{
    enum { TILE = 32 };
    char tile[TILE * TILE * 8] __attribute__((aligned(64)));
    const samba_kernels *kernels = source->machine->kernels;
    int64_t size = source->element_size, from_size = source->plane_bytes ? size : source->memory_size;
    samba_dtype dtype = read_dtype(source);
    void (*transpose)(void *, int64_t, const void *, int64_t, int64_t, int64_t) =
        size == 4 ? kernels->transpose4 : kernels->transpose8;
    for (int64_t i = 0; i < row_count; i += rows->run)
        for (int64_t j = 0; j < col_count; j += cols->run) {
            int64_t height = at_most(row_count - i, rows->run), width = at_most(col_count - j, cols->run);
            const char *from = at + (rows->offset[i] + cols->offset[j]) * from_size;
            char *to = d + (i * ldd + j) * size;
            if (source->native && rows->stride == 1) {
                transpose(to, ldd, from, cols->stride, width, height);
                continue;
            }
            for (int64_t c = 0; c < width; c += TILE)
                for (int64_t r = 0; r < height; r += TILE) {
                    int64_t tile_height = at_most(height - r, TILE), tile_width = at_most(width - c, TILE);
                    int64_t next = r + TILE < height ? tile_height * rows->stride * from_size : 0;
                    for (int64_t k = 0; k < tile_width; k++) {
                        const char *col = from + ((c + k) * cols->stride + r * rows->stride) * from_size;
                        ask_for(col + next, next);
                        kernels->load_strided[dtype](tile + k * TILE * size, col, rows->stride, tile_height);
                    }
                    transpose(to + (r * ldd + c) * size, ldd, tile, TILE, tile_width, tile_height);
                }
        }
}

static void pack_gather(const samba_source *source, const char *at, const samba_axis *rows, int64_t row_count,
                        const samba_axis *cols, int64_t col_count, char *d, int64_t ldd)
{
    int64_t size = source->element_size, from_size = source->plane_bytes ? size : source->memory_size;
    if (source->native && size == 4 && cols->run <= 16) { /* taps of a flipped window: too short for a call */
        for (int64_t i = 0; i < row_count; i++)
            for (int64_t j = 0; j < col_count; j += cols->run) {
                const float *from = (const float *)at + rows->offset[i] + cols->offset[j];
                float *to = (float *)d + i * ldd + j;
                int64_t n = at_most(col_count - j, cols->run), stride = cols->stride;
                for (int64_t l = 0; l < n; l++)
                    to[l] = from[l * stride];
            }
        return;
    }
    samba_dtype dtype = read_dtype(source);
    int64_t ahead = ahead_bytes(source, rows, cols, col_count, from_size);
    for (int64_t i = 0; i < row_count; i++) {
        if (i + AHEAD < row_count)
            ask_for(at + rows->offset[i + AHEAD] * from_size, ahead);
        for (int64_t j = 0; j < col_count; j += cols->run)
            source->machine->kernels->load_strided[dtype](d + (i * ldd + j) * size,
                                                          at + (rows->offset[i] + cols->offset[j]) * from_size, cols->stride,
                                                          at_most(col_count - j, cols->run));
    }
}

void samba_pack(const samba_source *source, const char *at, const samba_axis *rows, int64_t row_count, const samba_axis *cols,
                int64_t col_count, char *d, int64_t ldd)
{
    double cost;
    switch (choose_way(source, rows, cols, &cost)) {
    case BY_COPY: pack_copy(source, at, rows, row_count, cols, col_count, d, ldd); break;
    case BY_TRANSPOSE: pack_transpose(source, at, rows, row_count, cols, col_count, d, ldd); break;
    case BY_GATHER: pack_gather(source, at, rows, row_count, cols, col_count, d, ldd); break;
    }
}
