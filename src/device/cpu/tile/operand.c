/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions that touch memory or coordinates: LOAD, STORE, BLOCK, IOTA, RANDOM; and rounding with a STORE. Each picks the
 * longest run that the view allows: the whole tile, a row, or an element.
 * A register that already is the operand's memory needs nothing. */
#include "device/cpu/tile/move.h"
#include "device/cpu/tile/tile.h"
#include <string.h>

void samba_view_locate(const samba_view *view, samba_view_slice *slice, int64_t *offsets, int64_t row0, int64_t rows,
                       int64_t cols)
{
    int inner = view->groups - 1;
    int64_t index[SAMBA_MAX_RANK], rest = row0, offset = view->offset, inner_stride = view->group_stride[inner];
    if (rows == 1) { /* no row that follows: the outermost dim's index needs no division */
        for (int g = inner; g > 0; g--) {
            int64_t outer = rest / view->group_size[g];
            offset += (rest - outer * view->group_size[g]) * view->group_stride[g];
            rest = outer;
        }
        offset += rest * view->group_stride[0];
        *slice = (samba_view_slice){.offset = offset, .dense_full = true, .dense_row = true, .rows = offsets, .run = 1};
        offsets[0] = offset;
        return;
    }
    for (int g = inner; g >= 0; g--) {
        index[g] = rest % view->group_size[g];
        rest /= view->group_size[g];
        offset += index[g] * view->group_stride[g];
    }
    bool inside = rows == 1 || index[inner] + rows <= view->group_size[inner];
    slice->offset = offset;
    slice->dense_full = inside && (rows == 1 || inner_stride == cols);
    slice->dense_row = inside && (rows == 1 || inner_stride == 1);
    slice->rows = offsets;
    slice->run = view->group_size[inner] - index[inner];
    offsets[0] = offset;
    for (int64_t r = 0, run; r < rows && !inside; r += run) { /* where it is, the first says all */
        run = view->group_size[inner] - index[inner] < rows - r ? view->group_size[inner] - index[inner] : rows - r;
        for (int64_t k = 0; k < run; k++)
            offsets[r + k] = offset + k * inner_stride;
        int g = inner;
        offset += run * inner_stride;
        index[g] += run - 1;
        while (++index[g] == view->group_size[g] && g > 0) {
            offset += view->group_stride[g - 1] - index[g] * view->group_stride[g];
            index[g--] = 0;
        }
    }
}

static int64_t row_stride(const samba_view *view) { return view->groups ? view->group_stride[0] : 0; }

static char *element(const samba_view *view, int64_t offset) { return view->base + offset * view->size; }

/* ---- short rows, in memory as they come ---- */
/* A call a row would take longer than what it moves: rows of at most so many bytes are moved by loops of their own. */
enum { SHORT_BYTES = 64, SHORT_RUN = 8 /* rows that a call is worth */ };

typedef struct apart { /* where rows lie, in bytes: by their offsets, or so far apart */
    char *base;
    const int64_t *offsets;
    int64_t pitch, size;
} apart;

static apart rows_of(const samba_view *view, const samba_view_slice *slice, int64_t col, int64_t rows)
{
    bool listed = view->groups > 1 && rows > slice->run; /* else of one run, and not listed */
    return (apart){.base = element(view, (listed ? 0 : slice->offset) + col),
                   .offsets = listed ? slice->rows : NULL,
                   .pitch = (view->groups ? view->group_stride[view->groups - 1] : 0) * view->size,
                   .size = view->size};
}

static inline char *row_at(const apart *at, int64_t r)
{
    return at->base + (at->offsets ? at->offsets[r] * at->size : r * at->pitch);
}

/* Rows of `width` to twice as many bytes: their first and, where these are not `all`, their last, which may be some of the
 * first. */
static inline __attribute__((always_inline)) void move_width(const size_t width, const bool all, const apart *at, int64_t first,
                                                             int64_t rows, char *tight, int64_t bytes, const bool in)
{
    for (int64_t r = first; r < first + rows; r++, tight += bytes) {
        char *far = row_at(at, r), *from = in ? far : tight, *to = in ? tight : far, head[32], tail[32];
        memcpy(head, from, width);
        if (!all)
            memcpy(tail, from + bytes - width, width);
        memcpy(to, head, width);
        if (!all)
            memcpy(to + bytes - width, tail, width);
    }
}

#define MOVE_WIDTH(width)                                                                                                        \
    if (bytes == (width))                                                                                                        \
        move_width(width, true, at, first, rows, tight, width, in);                                                              \
    else                                                                                                                         \
        move_width(width, false, at, first, rows, tight, bytes, in)

#define EACH_ELEMENT(type)                                                                                                       \
    for (int64_t r = first; r < first + rows; r++, tight += bytes)                                                               \
        for (int64_t c = 0; c < cols; c++) {                                                                                     \
            char *far = row_at(at, r) + c * step * (int64_t)sizeof(type), *near = tight + c * (int64_t)sizeof(type);             \
            memcpy(in ? near : far, in ? far : near, sizeof(type));                                                              \
        }

/* Between rows from `first` on, whose elements lie `step` apart, and `tight`, where they follow one another. */
static inline __attribute__((always_inline)) void move_short(const apart *at, int64_t first, int64_t rows, int64_t cols,
                                                             int64_t step, char *tight, const bool in)
{
    int64_t bytes = cols * at->size;
    if (step != 1 && cols > 1) {
        switch (at->size) {
        case 1: EACH_ELEMENT(uint8_t) break;
        case 2: EACH_ELEMENT(uint16_t) break;
        case 4: EACH_ELEMENT(uint32_t) break;
        default: EACH_ELEMENT(uint64_t) break;
        }
    } else if (bytes >= 32) {
        MOVE_WIDTH(32);
    } else if (bytes >= 16) {
        MOVE_WIDTH(16);
    } else if (bytes >= 8) {
        MOVE_WIDTH(8);
    } else if (bytes >= 4) {
        MOVE_WIDTH(4);
    } else if (bytes >= 2) {
        MOVE_WIDTH(2);
    } else if (bytes == 1) {
        MOVE_WIDTH(1);
    }
}

/* Those that memory holds otherwise than registers go through a buffer, some rows at a time. */
static void load_short(const samba_kernels *kernels, const samba_view *view, const samba_view_slice *slice, int64_t col,
                       int64_t rows, int64_t cols, int width, char *d)
{
    _Alignas(64) char raw[SAMBA_TILE_CAPACITY * 4];
    const apart at = rows_of(view, slice, col, rows);
    if (view->native) {
        move_short(&at, 0, rows, cols, view->col_stride, d, true);
        return;
    }
    int64_t most = (int64_t)sizeof raw / (cols * view->size);
    for (int64_t r = 0; r < rows; r += most) {
        int64_t some = rows - r < most ? rows - r : most;
        move_short(&at, r, some, cols, view->col_stride, raw, true);
        kernels->load[view->dtype](d + r * cols * width, raw, some * cols);
    }
}

static void store_short(const samba_kernels *kernels, const samba_view *view, const samba_view_slice *slice, int64_t col,
                        int64_t rows, int64_t cols, int width, const char *a)
{
    _Alignas(64) char raw[SAMBA_TILE_CAPACITY * 4];
    const apart at = rows_of(view, slice, col, rows);
    if (view->native) {
        move_short(&at, 0, rows, cols, view->col_stride, (char *)a, false); /* which is only read */
        return;
    }
    int64_t most = (int64_t)sizeof raw / (cols * view->size);
    for (int64_t r = 0; r < rows; r += most) {
        int64_t some = rows - r < most ? rows - r : most;
        kernels->store[view->dtype](raw, a + r * cols * width, some * cols);
        move_short(&at, r, some, cols, view->col_stride, raw, false);
    }
}

static bool is_short(const samba_view *view, int64_t rows, int64_t cols)
{
    return rows > 1 && cols > 0 && cols * view->size <= SHORT_BYTES;
}

/* One value a row. */
static void load_rows(const samba_kernels *kernels, const samba_view *view, const samba_view_slice *slice, int64_t col,
                      int64_t rows, int width, char *d)
{
    if (slice->dense_row) {
        kernels->load[view->dtype](d, element(view, slice->offset + col), rows);
    } else if (view->groups <= 1) {
        kernels->load_strided[view->dtype](d, element(view, slice->offset + col), row_stride(view), rows);
    } else if (view->group_size[view->groups - 1] < SHORT_RUN) {
        load_short(kernels, view, slice, col, rows, 1, width, d);
    } else {
        int64_t size = view->group_size[view->groups - 1], stride = view->group_stride[view->groups - 1], run = slice->run;
        for (int64_t r = 0, n; r < rows; r += n, run = size) {
            n = rows - r < run ? rows - r : run;
            kernels->load_strided[view->dtype](d + r * width, element(view, samba_view_row(view, slice, r) + col), stride, n);
        }
    }
}

/* Copies the first row of `bytes` to the others, doubling what is there. */
static void repeat_row(char *d, int64_t rows, int64_t bytes)
{
    for (int64_t done = 1; done < rows;) {
        int64_t more = done < rows - done ? done : rows - done;
        memcpy(d + done * bytes, d, (size_t)(more * bytes));
        done += more;
    }
}

/* Rows lie side by side and columns far apart: a transposed tile. */
static bool is_transposed(const samba_view *view, const samba_view_slice *slice, const samba_frame *frame)
{
    return view->native && slice->dense_row && frame->rows > 1 && view->col_stride > 1;
}

void samba_tile_load(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_kernels *kernels = program->kernels;
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    int width = program->registers[code->d].size;
    int64_t rows = frame->rows, cols = frame->cols, col = frame->col * view->col_stride;
    char *d = frame->pointers[code->d];
    const char *source = element(view, slice->offset + (code->extent == SAMBA_FULL ? col : 0));
    if (code->extent == SAMBA_ROW) {
        load_rows(kernels, view, slice, 0, rows, width, d);
        return;
    }
    if (code->kept >= 0) {
        samba_kept *kept = &frame->kept[code->kept];
        if (kept->col == frame->col && kept->cols == cols && kept->rows >= rows)
            return;
        *kept = (samba_kept){frame->col, cols, rows};
    }
    if (view->col_stride == 1 && slice->dense_full) {
        kernels->load[view->dtype](d, source, rows * cols);
    } else if (view->col_stride == 0) {
        load_rows(kernels, view, slice, 0, rows, width, frame->spare);
        kernels->spread[code->class_](d, frame->spare, rows, cols);
    } else if (row_stride(view) == 0 && view->groups <= 1) {
        kernels->load_strided[view->dtype](d, source, view->col_stride, cols);
        repeat_row(d, rows, cols * width);
    } else if (is_transposed(view, slice, frame)) {
        (view->size == 4 ? kernels->transpose4 : kernels->transpose8)(d, cols, source, view->col_stride, cols, rows);
    } else if (is_short(view, rows, cols)) {
        load_short(kernels, view, slice, col, rows, cols, width, d);
    } else if (view->col_stride == 1) {
        for (int64_t r = 0; r < rows; r++)
            kernels->load[view->dtype](d + r * cols * width, element(view, samba_view_row(view, slice, r) + col), cols);
    } else {
        for (int64_t r = 0; r < rows; r++)
            kernels->load_strided[view->dtype](d + r * cols * width, element(view, samba_view_row(view, slice, r) + col),
                                               view->col_stride, cols);
    }
}

void samba_tile_store(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_kernels *kernels = program->kernels;
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    int width = program->registers[code->a].size;
    int64_t rows = frame->rows, cols = frame->cols, col = frame->col * view->col_stride;
    const char *a = frame->pointers[code->a];
    char *destination = element(view, slice->offset + (code->extent == SAMBA_FULL ? col : 0));
    if (code->extent == SAMBA_ROW) {
        if (slice->dense_row)
            kernels->store[view->dtype](destination, a, rows);
        else if (view->groups <= 1)
            kernels->store_strided[view->dtype](destination, a, row_stride(view), rows);
        else
            store_short(kernels, view, slice, 0, rows, 1, width, a);
    } else if (view->col_stride == 1 && slice->dense_full) {
        kernels->store[view->dtype](destination, a, rows * cols);
    } else if (is_transposed(view, slice, frame)) {
        (view->size == 4 ? kernels->transpose4 : kernels->transpose8)(destination, view->col_stride, a, cols, rows, cols);
    } else if (is_short(view, rows, cols)) {
        store_short(kernels, view, slice, col, rows, cols, width, a);
    } else if (view->col_stride == 1) {
        for (int64_t r = 0; r < rows; r++)
            kernels->store[view->dtype](element(view, samba_view_row(view, slice, r) + col), a + r * cols * width, cols);
    } else {
        for (int64_t r = 0; r < rows; r++)
            kernels->store_strided[view->dtype](element(view, samba_view_row(view, slice, r) + col), a + r * cols * width,
                                                view->col_stride, cols);
    }
}

void samba_tile_round(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    bool dense = slice->dense_full;
    int64_t rows = dense ? 1 : frame->rows, cols = dense ? frame->rows * frame->cols : frame->cols;
    float *d = (float *)frame->pointers[code->d];
    const float *a = (const float *)frame->pointers[code->a];
    for (int64_t r = 0; r < rows; r++)
        program->kernels->combined->round(d + r * cols, (uint16_t *)element(view, samba_view_row(view, slice, r) + frame->col),
                                          a + r * cols, cols);
}

void samba_tile_block(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    int64_t size = program->registers[code->d].size, pitch = frame->block_ld * size, bytes = frame->cols * size;
    char *d = frame->pointers[code->d];
    const char *source = frame->block + frame->col * size;
    if (d == source)
        return;
    for (int64_t r = 0; r < frame->rows; r++)
        memcpy(d + r * bytes, source + r * pitch, (size_t)bytes);
}

void samba_tile_iota(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    enum { SHORT = 16 }; /* a call costs as much as so many numbers */
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    int64_t *d = (int64_t *)frame->pointers[code->d], cols = code->extent == SAMBA_FULL ? frame->cols : 1;
    for (int64_t r = 0; r < frame->rows; r++) {
        int64_t value = samba_view_row(view, slice, r) + (code->extent == SAMBA_FULL ? frame->col * view->col_stride : 0);
        if (cols >= SHORT)
            program->kernels->moves->numbers(d + r * cols, value, view->col_stride, cols);
        for (int64_t c = 0; c < cols && cols < SHORT; c++)
            d[r * cols + c] = value + c * view->col_stride;
    }
}

void samba_tile_random(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    bool full = code->extent == SAMBA_FULL;
    float *d = (float *)frame->pointers[code->d];
    uint64_t seed = (uint64_t) * (const int64_t *)frame->pointers[code->a];
    int64_t rows = frame->rows, cols = full ? frame->cols : 1, col = full ? frame->col * view->col_stride : 0;
    if (full ? slice->dense_full && view->col_stride == 1 : slice->dense_row) {
        program->kernels->random(d, seed, (uint64_t)(slice->offset + col), rows * cols);
        return;
    }
    for (int64_t r = 0; r < rows; r++, d += cols) {
        int64_t index = samba_view_row(view, slice, r) + col;
        if (view->col_stride == 1)
            program->kernels->random(d, seed, (uint64_t)index, cols);
        else
            for (int64_t c = 0; c < cols; c++)
                program->kernels->random(d + c, seed, (uint64_t)(index + c * view->col_stride), 1);
    }
}
