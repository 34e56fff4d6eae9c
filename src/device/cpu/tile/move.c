/* SPDX-License-Identifier: Apache-2.0
 *
 * See move.h. A move's dims are put in the order of the result's memory and merged where both sides allow; of what is left, two
 * make planes, cut into tiles that fit the first-level cache, and the others are counted through. Threads take tiles in a row. */
#include "device/cpu/tile/move.h"
#include "device/cpu/machine.h"
#include <math.h>
#include <string.h>

typedef struct dim { /* strides: elements of d and s */
    int64_t size, d, s;
} dim;

typedef struct move {
    char *d;
    const char *s;
    int64_t size; /* of an element: bytes */
    int32_t rank; /* of dims: first those that are counted through, then rows, then columns */
    dim dims[SAMBA_MAX_RANK + 2];
    int64_t tile_rows, tile_cols, down, across, tiles; /* of all planes */
    bool copies, transposes;                           /* rows are contiguous on both sides; columns here are rows there */
    void (*transpose)(void *d, int64_t ldd, const void *s, int64_t lds, int64_t rows, int64_t cols);
    void (*stride)(void *d, int64_t d_row, int64_t d_col, const void *s, int64_t s_row, int64_t s_col, int64_t rows,
                   int64_t cols);
} move;

typedef struct move_list {
    int32_t count;
    double byte; /* ns that one takes, about */
    move moves[];
} move_list;

/* ---- running ---- */
static void move_tile(const move *m, char *d, const char *s, int64_t rows, int64_t cols)
{
    const dim *row = &m->dims[m->rank - 2], *col = row + 1;
    if (m->transposes)
        m->transpose(d, row->d, s, col->s, cols, rows);
    else if (m->copies)
        for (int64_t r = 0; r < rows; r++)
            memcpy(d + r * row->d * m->size, s + r * row->s * m->size, (size_t)(cols * m->size));
    else
        m->stride(d, row->d, col->d, s, row->s, col->s, rows, cols);
}

static void run_move(const move *m, int thread, int threads)
{
    int outer = m->rank - 2;
    const dim *row = &m->dims[outer], *col = row + 1;
    int64_t tile = m->tiles * thread / threads, end = m->tiles * (thread + 1) / threads, d = 0, s = 0;
    int64_t rest = tile / (m->down * m->across), within = tile % (m->down * m->across), index[SAMBA_MAX_RANK + 2];
    for (int i = outer - 1; i >= 0; i--) {
        index[i] = rest % m->dims[i].size;
        rest /= m->dims[i].size;
        d += index[i] * m->dims[i].d;
        s += index[i] * m->dims[i].s;
    }
    for (; tile < end; tile++) {
        int64_t r = within / m->across * m->tile_rows, c = within % m->across * m->tile_cols;
        move_tile(m, m->d + (d + r * row->d + c * col->d) * m->size, m->s + (s + r * row->s + c * col->s) * m->size,
                  row->size - r < m->tile_rows ? row->size - r : m->tile_rows,
                  col->size - c < m->tile_cols ? col->size - c : m->tile_cols);
        if (++within < m->down * m->across)
            continue;
        within = 0;
        for (int i = outer - 1; i >= 0; i--) {
            d += m->dims[i].d;
            s += m->dims[i].s;
            if (++index[i] < m->dims[i].size)
                break;
            d -= index[i] * m->dims[i].d;
            s -= index[i] * m->dims[i].s;
            index[i] = 0;
        }
    }
}

static void run(const void *state, char *scratch, int phase, int thread, int threads)
{
    const move_list *list = state;
    (void)scratch, (void)phase;
    for (int i = 0; i < list->count; i++)
        run_move(&list->moves[i], thread, threads);
}

/* A part of all moves is a part of each. */
static int64_t move_units(const void *state, int phase, int threads, bool *free)
{
    (void)state, (void)phase;
    *free = false;
    return threads;
}

static double move_work(const void *state, int phase, int threads, int64_t unit)
{
    const move_list *list = state;
    double bytes = 0;
    (void)phase;
    for (int i = 0; i < list->count; i++) {
        const move *m = &list->moves[i];
        const dim *row = &m->dims[m->rank - 2], *col = row + 1;
        for (int64_t tile = m->tiles * unit / threads; tile < m->tiles * (unit + 1) / threads; tile++) {
            int64_t within = tile % (m->down * m->across), r = within / m->across * m->tile_rows,
                    c = within % m->across * m->tile_cols;
            bytes += (double)((row->size - r < m->tile_rows ? row->size - r : m->tile_rows) *
                              (col->size - c < m->tile_cols ? col->size - c : m->tile_cols) * m->size);
        }
    }
    return bytes * list->byte;
}

static int move_held(const void *state, samba_held held[SAMBA_HELD])
{
    const move_list *list = state;
    held[0] = (samba_held){"both sides of a tile that is moved", 1, 0};
    for (int i = 0; i < list->count; i++) {
        int64_t bytes = 2 * list->moves[i].tile_rows * list->moves[i].tile_cols * list->moves[i].size;
        if (!list->moves[i].copies && bytes > held[0].bytes)
            held[0].bytes = bytes;
    }
    return held[0].bytes > 0;
}

static const samba_dealing move_dealing = {move_units, move_work, NULL, move_held};

/* ---- planning ---- */
/* Dims of size > 1, the result's strides positive and falling; false: two elements may have one offset. */
static bool order_dims(move *m)
{
    for (int i = 0; i < m->rank; i++) {
        dim x = m->dims[i];
        if (x.d == 0)
            return false;
        if (x.d < 0) {
            m->d += (x.size - 1) * x.d * m->size;
            m->s += (x.size - 1) * x.s * m->size;
            x.d = -x.d;
            x.s = -x.s;
        }
        int at = i;
        for (; at > 0 && m->dims[at - 1].d < x.d; at--)
            m->dims[at] = m->dims[at - 1];
        m->dims[at] = x;
    }
    for (int i = 0; i + 1 < m->rank; i++)
        if (m->dims[i].d < m->dims[i + 1].size * m->dims[i + 1].d)
            return false;
    return true;
}

static void merge_dims(move *m)
{
    int kept = 0;
    for (int i = 0; i < m->rank; i++) {
        dim x = m->dims[i], *before = kept > 0 ? &m->dims[kept - 1] : NULL;
        if (before && before->d == x.size * x.d && before->s == x.size * x.s)
            *before = (dim){before->size * x.size, x.d, x.s};
        else
            m->dims[kept++] = x;
    }
    m->rank = kept;
}

/* A short run of elements side by side is one larger element. */
static void widen_element(move *m)
{
    if (m->rank == 0)
        return;
    const dim *run = &m->dims[m->rank - 1];
    int64_t count = run->size, bytes = count * m->size;
    if (run->d != 1 || run->s != 1 || (bytes != 2 && bytes != 4 && bytes != 8) || (uintptr_t)m->d % (uintptr_t)bytes ||
        (uintptr_t)m->s % (uintptr_t)bytes)
        return;
    for (int i = 0; i + 1 < m->rank; i++)
        if (m->dims[i].d % count || m->dims[i].s % count)
            return;
    m->size = bytes;
    m->rank--;
    for (int i = 0; i < m->rank; i++) {
        m->dims[i].d /= count;
        m->dims[i].s /= count;
    }
}

/* Puts the dim that makes planes with the last one before it. */
static void choose_plane(move *m)
{
    while (m->rank < 2) {
        memmove(m->dims + 1, m->dims, sizeof *m->dims * (size_t)m->rank);
        m->dims[0] = (dim){1, 0, 0};
        m->rank++;
    }
    dim *row = &m->dims[m->rank - 2], *col = row + 1;
    m->copies = col->d == 1 && col->s == 1;
    for (int i = m->rank - 2; i >= 0 && !m->copies; i--) {
        dim x = m->dims[i];
        if (x.size == 1 || (x.s != 1 && x.s != -1))
            continue;
        memmove(m->dims + i, m->dims + i + 1, sizeof x * (size_t)(m->rank - 2 - i));
        *row = x;
        int64_t least = m->size < 4 ? 8 : 4;
        m->transposes = col->d == 1 && x.size >= least && col->size >= least;
        if (!m->transposes && x.size > col->size) {
            *row = *col;
            *col = x;
        }
        break;
    }
    /* the transposing loops read forwards: from the last row on, if need be, with the result's rows going back */
    if (m->transposes && row->s < 0) {
        m->d += (row->size - 1) * row->d * m->size;
        m->s += (row->size - 1) * row->s * m->size;
        row->d = -row->d;
        row->s = -row->s;
    }
}

static void cut_tiles(const samba_cpu_machine *machine, move *m)
{
    const dim *row = &m->dims[m->rank - 2], *col = row + 1;
    int64_t most = m->transposes ? machine->tile.moved_side : machine->tile.moved / m->size;
    m->tile_cols = col->size < most ? col->size : most;
    m->tile_rows =
        (m->transposes ? machine->tile.moved_side * machine->tile.moved_side : machine->tile.moved / m->size) / m->tile_cols;
    if (m->transposes && m->tile_rows > 16)
        m->tile_rows -= m->tile_rows % 16;
    if (m->tile_rows < 1)
        m->tile_rows = 1;
    m->down = (row->size + m->tile_rows - 1) / m->tile_rows;
    m->across = (col->size + m->tile_cols - 1) / m->tile_cols;
    m->tiles = m->down * m->across;
    for (int i = 0; i < m->rank - 2; i++)
        m->tiles *= m->dims[i].size;
}

typedef struct range { /* memory that an operand touches; empty: begin == end */
    const char *begin, *end;
} range;

static bool meet(range a, range b) { return a.begin < b.end && b.begin < a.end; }

/* The operand's element of all zero indices, and what it touches, its last dim only when `full`. */
static char *operand_memory(const samba_preparing *prepare, const samba_stage *stage, int operand, bool full, range *touched)
{
    const samba_operand *o = &stage->operands[operand];
    int64_t size = (int64_t)samba_dtype_size((samba_dtype)o->dtype), low = 0, high = size;
    char *memory = prepare->memory + prepare->buffers[o->buffer].offset + o->offset * size;
    for (int i = 0; i < stage->rank - !full; i++)
        *(o->strides[i] < 0 ? &low : &high) += (stage->domain[i] - 1) * o->strides[i] * size;
    *touched = (range){memory + low, memory + high};
    return memory;
}

static bool plan_move(const samba_preparing *prepare, const samba_stage *stage, int from, int to, bool full, move *m, range *read,
                      range *written)
{
    const samba_operand *d = &stage->operands[to], *s = &stage->operands[from];
    if (d->dtype != s->dtype)
        return false;
    *m = (move){.size = (int64_t)samba_dtype_size((samba_dtype)d->dtype)};
    m->s = operand_memory(prepare, stage, from, full, read);
    m->d = operand_memory(prepare, stage, to, full, written);
    for (int i = 0; i < stage->rank - !full; i++)
        if (stage->domain[i] > 1)
            m->dims[m->rank++] = (dim){stage->domain[i], d->strides[i], s->strides[i]};
    if (!order_dims(m))
        return false;
    merge_dims(m);
    widen_element(m);
    choose_plane(m);
    cut_tiles(prepare->machine, m);
    int power = m->size == 1 ? 0 : m->size == 2 ? 1 : m->size == 4 ? 2 : 3;
    m->transpose = prepare->machine->kernels->moves->transpose[power];
    m->stride = prepare->machine->kernels->moves->stride[power];
    return true;
}

/* Nothing that is written may be read, nor written twice, so that the order of moves does not matter. */
static bool are_apart(const range *read, const range *written, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (meet(written[i], read[j]) || (i != j && meet(written[i], written[j])))
                return false;
    return true;
}

/* ---- zeros ---- */
typedef struct clearing {
    char *memory;
    int64_t bytes;
    double byte; /* ns */
} clearing;

/* The C library clears large memory without reading it first. Threads part at cache lines. */
static void run_clearing(const void *state, char *scratch, int phase, int thread, int threads)
{
    const clearing *c = state;
    int64_t lines = (c->bytes + 63) / 64, begin = lines * thread / threads * 64, end = lines * (thread + 1) / threads * 64;
    (void)scratch, (void)phase;
    if (end > c->bytes)
        end = c->bytes;
    if (begin < end)
        memset(c->memory + begin, 0, (size_t)(end - begin));
}

static int64_t clearing_units(const void *state, int phase, int threads, bool *free)
{
    (void)phase, (void)threads;
    *free = false;
    return (((const clearing *)state)->bytes + 63) / 64;
}

static double clearing_work(const void *state, int phase, int threads, int64_t unit)
{
    (void)phase, (void)threads, (void)unit;
    return 64 * ((const clearing *)state)->byte;
}

static const samba_dealing clearing_dealing = {clearing_units, clearing_work, NULL, NULL};

/* A constant 0, stored all over contiguous memory. */
static bool only_clears(const samba_stage *stage)
{
    const samba_program *program = &stage->program;
    const samba_instruction *list = program->instructions;
    int64_t stride = 1;
    if (program->setup != 1 || program->instruction_count != 2 || list[0].op != SAMBA_TILE_constant || list[0].immediate != 0 ||
        signbit(list[0].immediate) || list[1].op != SAMBA_TILE_store || list[1].a != list[0].d ||
        program->registers[list[1].a].extent != SAMBA_FULL)
        return false;
    for (int i = stage->rank - 1; i >= 0; stride *= stage->domain[i--])
        if (stage->domain[i] == 0 || (stage->domain[i] > 1 && stage->operands[list[1].operand].strides[i] != stride))
            return false;
    return true;
}

/* ns of a byte that is read or written, about. */
static double byte_time(const samba_preparing *prepare)
{
    return 1e9 / (prepare->far ? prepare->machine->share.memory : prepare->machine->share.cached);
}

static samba_status prepare_clearing(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    clearing *c = samba_arena_alloc(prepare->arena, sizeof *c);
    const samba_operand *o = &stage->operands[stage->program.instructions[1].operand];
    if (!c)
        return SAMBA_ERROR_MEMORY;
    c->bytes = (int64_t)samba_dtype_size((samba_dtype)o->dtype);
    c->memory = prepare->memory + prepare->buffers[o->buffer].offset + o->offset * c->bytes;
    for (int i = 0; i < stage->rank; i++)
        c->bytes *= stage->domain[i];
    c->byte = byte_time(prepare);
    *prepared = (samba_prepared){.run = run_clearing, .state = c, .phases = 1, .dealing = &clearing_dealing};
    return SAMBA_OK;
}

enum { MOST = 16 }; /* instructions and registers of a program that is looked at */

samba_status samba_prepare_move(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared, bool *moves)
{
    const samba_program *program = &stage->program;
    const samba_instruction *list = program->instructions;
    range read[MOST], written[MOST];
    int loaded[MOST], stores = 0; /* operand that a register holds; -1 none */
    bool empty = false, rows = false;
    *moves = only_clears(stage);
    if (*moves)
        return prepare_clearing(prepare, stage, prepared);
    if (program->setup > 0 || program->instruction_count > MOST || program->register_count > MOST)
        return SAMBA_OK;
    for (int i = 0; i < program->instruction_count; i++) {
        if (list[i].op == SAMBA_TILE_store) {
            stores++;
            rows |= program->registers[list[i].a].extent != SAMBA_FULL;
        } else if (list[i].op != SAMBA_TILE_load) {
            return SAMBA_OK;
        }
    }
    for (int i = 0; i < stage->rank; i++)
        empty |= stage->domain[i] == 0;
    if (stores == 0 || (empty && rows)) /* rows without columns have values all the same */
        return SAMBA_OK;
    move_list *planned = samba_arena_alloc(prepare->arena, sizeof *planned + (size_t)stores * sizeof planned->moves[0]);
    if (!planned)
        return SAMBA_ERROR_MEMORY;
    planned->count = 0;
    for (int r = 0; r < program->register_count; r++)
        loaded[r] = -1;
    for (int i = 0; i < program->instruction_count && !empty; i++) {
        if (list[i].op == SAMBA_TILE_load) {
            loaded[list[i].d] = list[i].operand;
            continue;
        }
        int at = planned->count++;
        bool full = program->registers[list[i].a].extent == SAMBA_FULL;
        if (loaded[list[i].a] < 0 ||
            !plan_move(prepare, stage, loaded[list[i].a], list[i].operand, full, &planned->moves[at], &read[at], &written[at]))
            return SAMBA_OK;
    }
    if (!are_apart(read, written, planned->count))
        return SAMBA_OK;
    planned->byte = 2 * byte_time(prepare);
    *prepared = (samba_prepared){.run = run, .state = planned, .phases = 1, .dealing = &move_dealing};
    *moves = true;
    return SAMBA_OK;
}
