/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs tile programs: an interpreter whose instructions each work on a tile of some 512 elements. So the choice of the next
 * instruction costs little beside its work, and registers stay in the first-level cache.
 *
 * Where the memory of an operand has the layout of a register (tile.h: direct), that memory is the register, for reading and for
 * results. */
#include "device/cpu/tile/tile.h"
#include "device/cpu/tile/extreme.h"
#include "device/cpu/tile/move.h"
#include "device/cpu/tile/update.h"
#include "device/cpu/fetch.h"

int64_t samba_tile_thread_scratch(const samba_tile_program *program) { return program->thread_scratch; }

bool samba_tile_has_collect(const samba_tile_program *program) { return program->collector_count > 0; }

/* ---- one chunk ---- */
static void fill_constant(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    float f32 = (float)code->immediate;
    int64_t i64 = code->class_ == SAMBA_I64 ? samba_double_to_int64(code->immediate) : 0;
    const void *values[3] = {[SAMBA_F32] = &f32, [SAMBA_F64] = &code->immediate, [SAMBA_I64] = &i64};
    program->kernels->fill[code->class_](frame->pointers[code->d], values[code->class_], program->fill);
}

static void fill_scalar(const samba_tile_program *program, samba_frame *frame, const samba_code *code)
{
    const samba_view *view = &program->views[code->view];
    program->kernels->load[view->dtype](frame->spare, view->base, 1);
    program->kernels->fill[code->class_](frame->pointers[code->d], frame->spare, program->fill);
}

/* Registers that may be memory are, for this tile. */
static inline bool is_memory(const samba_frame *frame, int view, int extent)
{
    return extent == SAMBA_FULL ? frame->slices[view].dense_full : frame->slices[view].dense_row;
}

/* Instructions that tiles that stand have of their own. */
static inline bool stands_apart(const samba_code *code)
{
    samba_action action = (samba_action)code->action;
    bool moves = action == SAMBA_DO_LOAD || action == SAMBA_DO_STORE || action == SAMBA_DO_IOTA || action == SAMBA_DO_RANDOM;
    return (moves && code->extent == SAMBA_FULL) || action == SAMBA_DO_ARGMAX || action == SAMBA_DO_SPREAD ||
           action == SAMBA_DO_ROWS;
}

static void run_codes(const samba_tile_program *program, samba_frame *frame, int begin, int end)
{
    char *const *pointers = frame->pointers;
    const samba_code *code = &program->codes[begin], *stop = &program->codes[end];
    const samba_code *stands = &program->codes[program->setup]; /* what is set up is the same in every tile */
    int64_t counts[2] = {[SAMBA_FULL] = frame->rows * frame->cols, [SAMBA_ROW] = frame->rows};
    for (; code < stop; code++) {
        if (code->once && (!frame->first || (code->edge && frame->col != 0)))
            continue;
        if (program->stands && code >= stands && stands_apart(code)) {
            samba_tile_run_standing(program, frame, code);
            continue;
        }
        char *d = pointers[code->d], *a = pointers[code->a];
        switch ((samba_action)code->action) {
        case SAMBA_DO_MAP: code->map(d, a, pointers[code->b], pointers[code->c], counts[code->extent]); break;
        case SAMBA_DO_LOAD:
            if (!code->own || !is_memory(frame, code->view, code->extent))
                samba_tile_load(program, frame, code);
            break;
        case SAMBA_DO_STORE:
            if (!code->own || !is_memory(frame, code->view, code->extent))
                samba_tile_store(program, frame, code);
            break;
        case SAMBA_DO_BLOCK: samba_tile_block(program, frame, code); break;
        case SAMBA_DO_IOTA: samba_tile_iota(program, frame, code); break;
        case SAMBA_DO_RANDOM: samba_tile_random(program, frame, code); break;
        case SAMBA_DO_REDUCE: code->reduce(d, a, frame->rows, frame->cols, frame->first); break;
        case SAMBA_DO_ARGMAX:
            program->kernels->reduce_argmax[code->class_]((int64_t *)d, frame->scratch + code->best, a, frame->rows, frame->cols,
                                                          frame->col, frame->first);
            break;
        case SAMBA_DO_ROWS:
            code->rows((float *)d, (const float *)a, (const float *)pointers[code->b], frame->rows, frame->cols);
            break;
        case SAMBA_DO_DOT:
            code->dot((float *)d, (const float *)a, (const float *)pointers[code->b], frame->rows, frame->cols, frame->first);
            break;
        case SAMBA_DO_BOTH:
            code->both((float *)d, (float *)pointers[code->c], (const float *)a, (const float *)pointers[code->b],
                       counts[SAMBA_FULL]);
            break;
        case SAMBA_DO_SELECT:
            code->select((float *)d, (const float *)a, (const float *)pointers[code->b], (const float *)pointers[code->c],
                         (const float *)pointers[code->if_false], counts[SAMBA_FULL]);
            break;
        case SAMBA_DO_INSIDE:
            code->inside((float *)d, (const float *)a, (const float *)pointers[code->b], (const float *)pointers[code->s],
                         (const float *)pointers[code->t], (const float *)pointers[code->u], counts[SAMBA_FULL]);
            break;
        case SAMBA_DO_SUMMED:
            code->summed((float *)d, (float *)pointers[code->s], (float *)pointers[code->t], (const float *)a,
                         (const float *)pointers[code->b], (const float *)pointers[code->c], frame->rows, frame->cols,
                         frame->first);
            break;
        case SAMBA_DO_NORM:
            code->norm((float *)d, (const float *)a, (const float *)pointers[code->b], (const float *)pointers[code->c],
                       (const float *)pointers[code->s], (const float *)pointers[code->t], (const float *)pointers[code->u],
                       frame->rows, frame->cols);
            break;
        case SAMBA_DO_ROUND: samba_tile_round(program, frame, code); break;
        case SAMBA_DO_SET: samba_tile_set(program, frame, code); break;
        case SAMBA_DO_PICK: samba_tile_pick(frame, code); break;
        case SAMBA_DO_CHOOSE: samba_tile_choose(frame, code); break;
        case SAMBA_DO_SPREAD: program->kernels->spread[code->class_](d, a, frame->rows, frame->cols); break;
        case SAMBA_DO_COLLECT: samba_tile_collect(program, frame, code); break;
        case SAMBA_DO_CONST: fill_constant(program, frame, code); break;
        case SAMBA_DO_SCALAR: fill_scalar(program, frame, code); break;
        }
    }
}

/* Points registers at what they are for the first chunk of a tile: memory, the block, or storage. */
static void point_registers(const samba_tile_program *program, samba_frame *frame)
{
    for (int i = 0; i < program->moving_count; i++) {
        int r = program->moving[i];
        const samba_tile_register *at = &program->registers[r];
        bool full = at->extent == SAMBA_FULL;
        char *pointer = frame->scratch + at->storage + (at->wide && full ? (frame->col - frame->col0) * at->size : 0);
        if (at->block && frame->block && (frame->rows == 1 || frame->block_ld == frame->cols))
            pointer = (char *)frame->block + frame->col * at->size;
        if (at->direct >= 0) {
            const samba_view *view = &program->views[at->direct];
            if (is_memory(frame, at->direct, at->extent))
                pointer = view->base + (frame->slices[at->direct].offset + (full ? frame->col : 0)) * view->size;
        }
        frame->pointers[r] = pointer;
    }
}

/* Columns that a tile of so many rows is worked on with at a time. */
static int64_t chunk_of(const samba_tile_program *program, int64_t rows)
{
    return rows == 1 && !program->stands ? program->capacity : program->chunk;
}

/* ---- bringing nearer what comes next ---- */

void samba_tile_fetch(const samba_tile_program *program, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                      samba_fetch *fetch)
{
    for (int i = 0; i < program->located_count; i++) {
        const samba_view *view = &program->views[program->located[i]];
        int64_t offset = view->offset + col0, rest = row0;
        int inner = view->groups - 1;
        int64_t pitch = inner >= 0 ? view->group_stride[inner] : 0;
        if (!view->base || view->col_stride != 1 || (pitch == 0 && program->rows > 1))
            continue;
        for (int g = inner; g > 0; g--) {
            offset += rest % view->group_size[g] * view->group_stride[g];
            rest /= view->group_size[g];
        }
        offset += inner >= 0 ? rest * view->group_stride[0] : 0;
        const char *first = view->base + offset * view->size;
        if (pitch == cols)
            samba_fetch_rows(fetch, first, rows * cols * view->size, 1, 0);
        else
            samba_fetch_rows(fetch, first, cols * view->size, rows, pitch * view->size);
    }
}

/* A tile, or of one that has several chunks the first of them. */
static void fetch_tile(const samba_tile_program *program, int64_t row0, int64_t rows, int64_t col0, int64_t cols)
{
    samba_fetch fetch;
    fetch.now.todo = fetch.first = fetch.count = 0;
    const int64_t chunk = chunk_of(program, rows);
    samba_tile_fetch(program, row0, rows, col0, cols < chunk ? cols : chunk, &fetch);
    samba_fetch_all(&fetch);
}

/* ---- one tile: all steps ---- */
/* The chunk `done` columns into the tile. In a tile of one row all that moves is dense, and of one that stands what has a place
 * for each column; in another of several rows that has several chunks nothing is, and registers stay where they are stored. */
static void set_chunk(const samba_tile_program *program, samba_frame *frame, int64_t done, int64_t cols)
{
    int64_t by = frame->col0 + done - frame->col, chunk = chunk_of(program, frame->rows);
    frame->col += by;
    frame->cols = cols - done < chunk ? cols - done : chunk;
    frame->first = done == 0;
    if (program->stands)
        by *= frame->rows;
    for (int i = 0; i < program->moving_count && (frame->rows == 1 || program->stands); i++)
        frame->pointers[program->moving[i]] += by * program->column_bytes[i];
}

/* Before a thread's first tile, not before it knows whether it has one: another may have written by then what is read here. */
static void set_up(const samba_tile_program *program, samba_frame *frame)
{
    frame->fresh = false;
    frame->rows = program->fill; /* setup registers serve as FULL and as ROW */
    frame->cols = 1;
    frame->first = true;
    run_codes(program, frame, 0, program->setup);
}

static void run_tile(const samba_tile_program *program, samba_frame *frame, int64_t row0, int64_t rows, int64_t col0,
                     int64_t cols)
{
    const int64_t chunk = chunk_of(program, rows);
    if (frame->fresh)
        set_up(program, frame);
    for (int i = 0; i < program->located_count; i++) {
        const samba_view *view = &program->views[program->located[i]];
        samba_view_slice *slice = &frame->slices[program->located[i]];
        if (view->groups <= 1) {
            int64_t stride = view->groups ? view->group_stride[0] : 0;
            slice->offset = view->offset + row0 * stride;
            slice->dense_full = rows == 1 || stride == cols;
            slice->dense_row = rows == 1 || stride == 1;
        } else {
            samba_view_locate(view, slice, (int64_t *)(frame->scratch + view->row_offsets), row0, rows, cols);
        }
        slice->dense_full &= rows == 1 || cols <= chunk;
    }
    frame->rows = rows;
    frame->col0 = frame->col = col0;
    frame->cols = cols < chunk ? cols : chunk;
    point_registers(program, frame);
    set_chunk(program, frame, 0, cols);
    for (int s = 0; s < program->step_count; s++) {
        const samba_step *step = &program->steps[s];
        run_codes(program, frame, step->begin, step->end);
        if (!step->loop || cols <= chunk)
            continue;
        for (int64_t done = chunk; done < cols; done += chunk) {
            int64_t next = done + chunk;
            if (program->far && s == 0 && next < cols)
                fetch_tile(program, row0, rows, col0 + next, cols - next);
            set_chunk(program, frame, done, cols);
            run_codes(program, frame, step->begin, step->end);
        }
        if (s + 1 < program->step_count)
            set_chunk(program, frame, 0, cols);
    }
}

/* ---- regions ---- */
void samba_tile_begin(const samba_tile_program *program, char *thread_scratch)
{
    samba_frame *frame = (samba_frame *)thread_scratch;
    *frame = (samba_frame){.scratch = thread_scratch,
                           .pointers = (char **)(thread_scratch + program->pointers),
                           .slices = (samba_view_slice *)(thread_scratch + program->slices),
                           .kept = (samba_kept *)(thread_scratch + program->kept),
                           .spare = thread_scratch + program->spare,
                           .fresh = true};
    for (int r = 0; r < program->register_count; r++)
        frame->pointers[r] = thread_scratch + program->registers[r].storage;
    for (int k = 0; k < program->kept_count; k++)
        frame->kept[k] = (samba_kept){-1, -1, 0};
    samba_tile_collect_begin(program, frame);
}

void samba_tile_region(const samba_tile_program *program, char *thread_scratch, int64_t row0, int64_t rows, int64_t col0,
                       int64_t cols, const void *block, int64_t block_ld)
{
    samba_frame *frame = (samba_frame *)thread_scratch;
    int64_t height = cols < program->capacity ? program->capacity / (cols > 0 ? cols : 1) : 1;
    for (int64_t done = 0; done < rows; done += height) {
        frame->block = block ? (const char *)block + (done * block_ld - col0) * program->block_size : NULL;
        frame->block_ld = block_ld;
        run_tile(program, frame, row0 + done, rows - done < height ? rows - done : height, col0, cols);
    }
}

void samba_tile_finish(const samba_tile_program *program, char *scratches, int64_t pitch, int thread, int threads)
{
    samba_tile_collect_end(program, (samba_frame *)(scratches + thread * pitch), scratches, pitch, threads, thread, threads);
}

double samba_tile_finish_work(const samba_tile_program *program, int thread, int threads)
{
    double results = 0;
    for (int k = 0; k < program->collector_count; k++) {
        int64_t count = program->collectors[k].numel;
        results += (double)(count * (thread + 1) / threads - count * thread / threads);
    }
    return results * threads * program->partial;
}

double samba_tile_partial_bytes(const samba_tile_program *program)
{
    double bytes = 0;
    for (int k = 0; k < program->collector_count; k++)
        bytes += 8.0 * (double)program->collectors[k].numel;
    return bytes;
}

/* ---- a stage of its own ---- */
typedef struct tile_position {
    int64_t row0, rows, col0, cols;
} tile_position;

static tile_position position_of(const samba_tile_program *program, int64_t tile, int64_t across)
{
    tile_position at = {.row0 = tile / across * program->tile_rows, .col0 = tile % across * program->tile_cols};
    int64_t rows = program->rows - at.row0, cols = program->cols - at.col0;
    at.rows = rows < program->tile_rows ? rows : program->tile_rows;
    at.cols = cols < program->tile_cols ? cols : program->tile_cols;
    return at;
}

/* Tiles of a row of them; and of all. */
static int64_t count_tiles(const samba_tile_program *program, int64_t *across)
{
    int64_t width = program->tile_cols;
    *across = width > 0 ? (program->cols + width - 1) / width : 1;
    return (program->rows + program->tile_rows - 1) / program->tile_rows * *across;
}

static void run_stage(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_tile_program *program = state;
    char *own = scratch + thread * program->thread_scratch;
    samba_frame *frame = (samba_frame *)own;
    if (phase == 1) {
        samba_tile_collect_end(program, frame, scratch, program->thread_scratch, threads, thread, threads);
        return;
    }
    samba_tile_begin(program, own);
    int64_t across, tiles = count_tiles(program, &across);
    for (int64_t tile = tiles * thread / threads, end = tiles * (thread + 1) / threads; tile < end; tile++) {
        tile_position at = position_of(program, tile, across);
        if (program->far && tile + 1 < end) {
            tile_position next = position_of(program, tile + 1, across);
            fetch_tile(program, next.row0, next.rows, next.col0, next.cols);
        }
        run_tile(program, frame, at.row0, at.rows, at.col0, at.cols);
    }
}

static int64_t stage_units(const void *state, int phase, int threads, bool *free)
{
    int64_t across;
    *free = false;
    return phase == 1 ? threads : count_tiles(state, &across);
}

static double stage_work(const void *state, int phase, int threads, int64_t unit)
{
    const samba_tile_program *program = state;
    int64_t across;
    if (phase == 1)
        return samba_tile_finish_work(program, (int)unit, threads);
    count_tiles(program, &across);
    tile_position at = position_of(program, unit, across);
    return (double)at.rows * (double)at.cols * program->element;
}

static void stage_moved(const void *state, int threads, samba_moved *moved)
{
    moved->shared = samba_tile_partial_bytes(state) * (threads - 1);
    moved->in_order = true;
}

static int stage_held(const void *state, samba_held held[SAMBA_HELD])
{
    const samba_tile_program *program = state;
    held[0] = (samba_held){"registers of a tile that are in use at once", 1, program->live * program->capacity};
    return 1;
}

static const samba_dealing stage_dealing = {stage_units, stage_work, stage_moved, stage_held};

/* An optimizer's update as one loop, in parts of whole cache lines. */
static void run_update(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_update *update = state;
    int64_t lines = (update->count + 15) / 16, first = lines * thread / threads * 16, end = lines * (thread + 1) / threads * 16;
    (void)scratch, (void)phase;
    update->run(update, first, (end < update->count ? end : update->count) - first);
}

static int64_t update_units(const void *state, int phase, int threads, bool *free)
{
    (void)phase, (void)threads;
    *free = false;
    return (((const samba_update *)state)->count + 15) / 16;
}

static double update_work(const void *state, int phase, int threads, int64_t unit)
{
    const samba_update *update = state;
    (void)phase, (void)threads;
    return (double)(update->count - 16 * unit < 16 ? update->count - 16 * unit : 16) * update->element;
}

static const samba_dealing update_dealing = {update_units, update_work, NULL, NULL};

static samba_status prepare_update(const samba_preparing *prepare, const samba_update *update, samba_prepared *prepared)
{
    samba_update *kept = samba_arena_alloc(prepare->arena, sizeof *kept);
    if (!kept)
        return SAMBA_ERROR_MEMORY;
    *kept = *update;
    int arrays = 3; /* the parameter is read and written */
    for (int i = 0; i < SAMBA_STATES; i++)
        arrays += update->state[i] ? 2 : 0;
    kept->element = arrays * (double)sizeof(float) / prepare->machine->share.memory * 1e9;
    *prepared = (samba_prepared){.run = run_update, .state = kept, .phases = 1, .dealing = &update_dealing};
    return SAMBA_OK;
}

samba_status samba_prepare_tile(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    const samba_tile_program *program;
    samba_update update;
    if (samba_update_init(&update, prepare, stage))
        return prepare_update(prepare, &update, prepared);
    bool taken;
    SAMBA_TRY(samba_prepare_move(prepare, stage, prepared, &taken));
    if (!taken)
        SAMBA_TRY(samba_prepare_extreme(prepare, stage, prepared, &taken));
    if (taken)
        return SAMBA_OK;
    SAMBA_TRY(samba_tile_program_new(prepare, stage, &program));
    *prepared = (samba_prepared){.run = run_stage,
                                 .state = program,
                                 .phases = samba_tile_has_collect(program) ? 2 : 1,
                                 .dealing = &stage_dealing,
                                 .thread_scratch = samba_tile_thread_scratch(program)};
    return SAMBA_OK;
}
