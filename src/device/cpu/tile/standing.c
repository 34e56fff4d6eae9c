/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles that stand: their registers hold column after column, element (r, c) at c * rows + r. So programs with row reductions
 * have whole vectors of work where rows are short, and read whole lines of cache where it is rows that lie side by side in memory
 * and not columns: greatest and least values and where they are.
 *
 * A program stands or lies from when it is prepared. What has a value a row, and what is filled once, is as in any tile
 * (operand.c). A tile is worked on in chunks of columns for all its rows; a register that outlives a step has room for all of
 * them. */
#include "device/cpu/tile/tile.h"
#include <string.h>

enum { LEAST = 16 }; /* rows of a tile: a line of cache of floats */

/* ---- whether and how ---- */
/* What a program has in memory for each element. */
typedef struct traffic {
    int across, along; /* operands whose rows lie side by side, and whose columns do */
} traffic;

/* Sums and products take one column after the other, as they do in tiles that lie where rows are short. Longer rows are taken by
 * vectors there, and a result has to be the same bits in every program: the backward makes values of the forward again in other
 * ones. */
enum { NO_REDUCTION, REDUCED, SUMMED };

/* Has a program row reductions that tiles which stand can do, sums among them? */
static int reductions_of(const samba_program *source)
{
    int found = NO_REDUCTION;
    for (int i = 0; i < source->instruction_count; i++) {
        int op = source->instructions[i].op;
        samba_tile_form form = samba_tile_table[op].form;
        if (form == SAMBA_FORM_COLLECT || form == SAMBA_FORM_BLOCK)
            return NO_REDUCTION;
        if (form == SAMBA_FORM_REDUCE)
            found = op == SAMBA_TILE_sum || op == SAMBA_TILE_prod ? SUMMED : found == SUMMED ? SUMMED : REDUCED;
    }
    return found;
}

static traffic count_traffic(const samba_stage *stage)
{
    const samba_program *source = &stage->program;
    traffic t = {0, 0};
    int row = stage->rank - 2, last = stage->rank - 1;
    while (row > 0 && stage->domain[row] == 1)
        row--;
    for (int i = source->setup; i < source->instruction_count; i++) {
        const samba_instruction *instruction = &source->instructions[i];
        samba_tile_form form = samba_tile_table[instruction->op].form;
        int reg = form == SAMBA_FORM_LOAD ? instruction->d : instruction->a;
        if ((form != SAMBA_FORM_LOAD && form != SAMBA_FORM_STORE) || source->registers[reg].extent != SAMBA_FULL)
            continue;
        const int64_t *strides = stage->operands[instruction->operand].strides;
        t.across += strides[row] == 1 && (strides[last] != 1 || stage->domain[last] == 1);
        t.along += strides[last] == 1 && strides[row] != 1 && stage->domain[last] > 1;
    }
    return t;
}

static bool keeps_rows(const samba_program *source)
{
    bool found = false;
    for (int i = 0; i < source->register_count; i++)
        found |= source->registers[i].wide && source->registers[i].extent == SAMBA_FULL;
    return found;
}

bool samba_tile_stands(const samba_preparing *prepare, const samba_stage *stage, int64_t rows, int64_t cols)
{
    int reductions = reductions_of(&stage->program);
    if (stage->kind != SAMBA_STAGE_TILE || stage->rank < 2 || rows < LEAST || cols < 1 || reductions == NO_REDUCTION ||
        (reductions == SUMMED && cols >= SAMBA_SHORT_SUM) ||
        (keeps_rows(&stage->program) && cols > prepare->machine->tile.standing_columns))
        return false;
    traffic t = count_traffic(stage);
    return cols <= prepare->machine->tile.short_row && reductions != SUMMED ? t.across + t.along > 0
                                                                            : t.across > 0 && t.along == 0;
}

void samba_tile_stand(samba_tile_program *program)
{
    int64_t rows = program->capacity / program->cols / LEAST * LEAST;
    rows = rows < LEAST ? LEAST : rows > SAMBA_TILE_CAPACITY ? SAMBA_TILE_CAPACITY : rows;
    program->tile_rows = rows < program->rows ? rows : program->rows;
    program->chunk = program->capacity / program->tile_rows;
    program->tile_cols = program->cols;
}

/* ---- one chunk ---- */
/* One column of an operand, for all rows: rows follow one another, or do within the groups of the view. */
static void load_column(const samba_kernels *kernels, const samba_view *view, const samba_view_slice *slice, int64_t column,
                        int64_t rows, int width, char *d)
{
    int64_t stride = view->groups ? view->group_stride[view->groups - 1] : 0;
    int64_t run = view->groups > 1 ? slice->run : rows;
    for (int64_t r = 0, n; r < rows; r += n, run = view->group_size[view->groups - 1]) {
        n = rows - r < run ? rows - r : run;
        const char *source = view->base + ((r > 0 ? slice->rows[r] : slice->offset) + column) * view->size;
        if (stride == 1)
            kernels->load[view->dtype](d + r * width, source, n);
        else
            kernels->load_strided[view->dtype](d + r * width, source, stride, n);
    }
}

static void store_column(const samba_kernels *kernels, const samba_view *view, const samba_view_slice *slice, int64_t column,
                         int64_t rows, int width, const char *a)
{
    int64_t stride = view->groups ? view->group_stride[view->groups - 1] : 0;
    int64_t run = view->groups > 1 ? slice->run : rows;
    for (int64_t r = 0, n; r < rows; r += n, run = view->group_size[view->groups - 1]) {
        n = rows - r < run ? rows - r : run;
        char *to = view->base + ((r > 0 ? slice->rows[r] : slice->offset) + column) * view->size;
        if (stride == 1)
            kernels->store[view->dtype](to, a + r * width, n);
        else
            kernels->store_strided[view->dtype](to, a + r * width, stride, n);
    }
}

/* Copies the first column to the others, doubling what is there. */
static void repeat_column(char *d, int64_t cols, int64_t bytes)
{
    for (int64_t done = 1; done < cols;) {
        int64_t more = done < cols - done ? done : cols - done;
        memcpy(d + done * bytes, d, (size_t)(more * bytes));
        done += more;
    }
}

/* Rows in one piece of memory, one behind the other, of elements as registers hold them. */
static bool is_turned(const samba_view *view)
{
    return view->native && view->groups == 1 && view->col_stride == 1 && view->group_stride[0] > 1;
}

static void load(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_kernels *kernels = program->kernels;
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    int width = program->registers[code->d].size;
    int64_t rows = frame->rows, cols = frame->cols, column = frame->col * view->col_stride;
    char *d = frame->pointers[code->d];
    if (code->kept >= 0) {
        samba_kept *kept = &frame->kept[code->kept];
        if (kept->col == frame->col && kept->cols == cols && kept->rows == rows)
            return;
        *kept = (samba_kept){frame->col, cols, rows};
    }
    if (samba_view_repeats(view) && rows > 1) {
        kernels->load_strided[view->dtype](frame->spare, view->base + (slice->offset + column) * view->size, view->col_stride,
                                           cols);
        kernels->spread[code->class_](d, frame->spare, cols, rows);
    } else if (view->col_stride == 0) {
        load_column(kernels, view, slice, 0, rows, width, d);
        repeat_column(d, cols, rows * width);
    } else if (is_turned(view)) {
        const char *source = view->base + (slice->offset + column) * view->size;
        (view->size == 4 ? kernels->transpose4 : kernels->transpose8)(d, rows, source, view->group_stride[0], rows, cols);
    } else {
        for (int64_t c = 0; c < cols; c++)
            load_column(kernels, view, slice, column + c * view->col_stride, rows, width, d + c * rows * width);
    }
}

static void store(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_kernels *kernels = program->kernels;
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    int width = program->registers[code->a].size;
    int64_t rows = frame->rows, cols = frame->cols, column = frame->col * view->col_stride;
    const char *a = frame->pointers[code->a];
    if (is_turned(view)) {
        char *to = view->base + (slice->offset + column) * view->size;
        (view->size == 4 ? kernels->transpose4 : kernels->transpose8)(to, view->group_stride[0], a, rows, cols, rows);
        return;
    }
    for (int64_t c = 0; c < cols; c++)
        store_column(kernels, view, slice, column + c * view->col_stride, rows, width, a + c * rows * width);
}

static void coordinates(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    int64_t *d = (int64_t *)frame->pointers[code->d], rows = frame->rows;
    for (int64_t r = 0; r < rows; r++) {
        int64_t value = samba_view_row(view, slice, r) + frame->col * view->col_stride;
        for (int64_t c = 0; c < frame->cols; c++)
            d[c * rows + r] = value + c * view->col_stride;
    }
}

static void draw(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_view *view = &program->views[code->view];
    const samba_view_slice *slice = &frame->slices[code->view];
    float *d = (float *)frame->pointers[code->d];
    uint64_t seed = (uint64_t) * (const int64_t *)frame->pointers[code->a];
    int64_t rows = frame->rows;
    for (int64_t c = 0; c < frame->cols; c++)
        for (int64_t r = 0; r < rows; r++)
            program->kernels->random(d + c * rows + r, seed,
                                     (uint64_t)(samba_view_row(view, slice, r) + (frame->col + c) * view->col_stride), 1);
}

void samba_tile_run_standing(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_kernels *kernels = program->kernels;
    char *d = frame->pointers[code->d];
    const char *a = frame->pointers[code->a];
    switch ((samba_action)code->action) {
    case SAMBA_DO_LOAD: load(program, frame, code); break;
    case SAMBA_DO_STORE: store(program, frame, code); break;
    case SAMBA_DO_IOTA: coordinates(program, frame, code); break;
    case SAMBA_DO_RANDOM: draw(program, frame, code); break;
    case SAMBA_DO_ARGMAX:
        kernels->standing_argmax[code->class_]((int64_t *)d, frame->scratch + code->best, a, frame->rows, frame->cols, frame->col,
                                               frame->first);
        break;
    case SAMBA_DO_SPREAD: {
        int64_t bytes = frame->rows * program->registers[code->d].size;
        memcpy(d, a, (size_t)bytes);
        repeat_column(d, frame->cols, bytes);
        break;
    }
    case SAMBA_DO_ROWS: { /* a value a row with each column */
        static const samba_tile ops[] = {SAMBA_TILE_add, SAMBA_TILE_sub, SAMBA_TILE_mul};
        samba_map_fn *map = kernels->map[ops[code->pattern - SAMBA_PATTERN_ROW_ADD]][SAMBA_F32];
        int64_t bytes = frame->rows * (int64_t)sizeof(float);
        for (int64_t c = 0; c < frame->cols; c++)
            map(d + c * bytes, a + c * bytes, frame->pointers[code->b], NULL, frame->rows);
        break;
    }
    default: break; /* the same in every tile: tile.c */
    }
}
