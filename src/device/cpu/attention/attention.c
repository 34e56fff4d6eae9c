/* SPDX-License-Identifier: Apache-2.0
 *
 * What both directions of attention share: products of blocks, operands as rows of one head wherever they lie, dealing of work to
 * threads, preparing. attention.h has the overview. */
#include "device/cpu/attention/attention.h"
#include "device/cpu/product/pairs.h"
#include <math.h>
#include <string.h>

enum {
    BLOCK = SAMBA_ATTENTION_BLOCK,
    WHOLE_ROW = 64, /* bytes of a vector of which those of a register file hold BLOCK sums in a row */
    CROWD = 16      /* rows at one place: about as many as a nearest cache has ways */
};
enum {
    COUNTER_BYTES = 64 /* at the start of shared scratch: the next portion to be taken */
};

/* ---- products ---- */

samba_micro_kernel samba_attention_product(samba_attention_state *s, int64_t rows, int64_t cols, int64_t depth, int64_t lda,
                                           int64_t ska, int64_t ldb, int64_t ldc, bool first)
{
    samba_micro_kernel kernel = {.rows = rows,
                                 .cols = cols,
                                 .depth = s->half ? samba_attention_even(depth) : depth,
                                 .lda = lda,
                                 .ska = ska,
                                 .ldb = ldb,
                                 .ldc = ldc,
                                 .first = first,
                                 .kind = s->half                  ? SAMBA_MICRO_PAIRS
                                         : s->class_ == SAMBA_F64 ? SAMBA_MICRO_F64
                                                                  : SAMBA_MICRO_F32};
    samba_micro_kernel_make(s->prepare->machine, &kernel);
    s->missing = s->missing || (!samba_micro_kernel_exists(&kernel) && rows > 0 && cols > 0 && depth > 0);
    return kernel;
}

/* ---- operands ---- */

static char *row_at(const samba_attention_rows *part, int64_t b, int64_t head, int64_t row)
{
    return part->data + (b * part->strides[0] + head * part->strides[1] + row * part->strides[2]) * part->size;
}

const void *samba_attention_read(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head,
                                 int64_t first, int64_t count, void *room)
{
    const samba_attention_rows *part = &s->parts[which];
    if (part->direct)
        return row_at(part, b, head, first);
    for (int64_t i = 0; i < count; i++) {
        char *to = (char *)room + i * part->depth * s->size;
        if (part->strides[3] == 1)
            s->kernels->load[part->dtype](to, row_at(part, b, head, first + i), part->depth);
        else
            s->kernels->load_strided[part->dtype](to, row_at(part, b, head, first + i), part->strides[3], part->depth);
    }
    return room;
}

const void *samba_attention_read_product(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head,
                                         int64_t first, int64_t count, void *room)
{
    const samba_attention_rows *part = &s->parts[which];
    if (!s->half)
        return samba_attention_read(s, which, b, head, first, count, room);
    if (part->paired)
        return row_at(part, b, head, first);
    samba_pack_rows_of_pairs(s->kernels, (const uint16_t *)row_at(part, b, head, first), part->strides[3], part->strides[2],
                             part->depth, count, (uint16_t *)room, part->pair_ld);
    return room;
}

/* d[element][position], BLOCK apart */
static void turn(const samba_attention_state *s, void *d, int64_t ldd, const void *from, int64_t lds, int64_t rows, int64_t cols)
{
    (s->class_ == SAMBA_F32 ? s->kernels->transpose4 : s->kernels->transpose8)(d, ldd, from, lds, rows, cols);
}

void samba_attention_turn(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head, int64_t first,
                          int64_t count, const void *rows, void *d)
{
    const samba_attention_rows *part = &s->parts[which];
    if (s->half)
        samba_pack_pairs(s->kernels, (const uint16_t *)row_at(part, b, head, first), part->strides[3], part->strides[2],
                         part->depth, count, (uint16_t *)d, BLOCK);
    else
        turn(s, d, BLOCK, rows, part->ld, count, part->depth);
}

void samba_attention_turn_pairs(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head,
                                int64_t first, int64_t count, uint16_t *d, int64_t ld)
{
    const samba_attention_rows *part = &s->parts[which];
    samba_pack_rows_of_pairs(s->kernels, (const uint16_t *)row_at(part, b, head, first), part->strides[2], part->strides[3],
                             count, part->depth, d, ld);
}

void samba_attention_pair(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head, int64_t first,
                          int64_t count, uint16_t *d)
{
    const samba_attention_rows *part = &s->parts[which];
    samba_pack_pairs(s->kernels, (const uint16_t *)row_at(part, b, head, first), part->strides[2], part->strides[3], count,
                     part->depth, d, part->depth);
}

void samba_attention_write(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head, int64_t first,
                           int64_t count, const void *rows, int64_t ld)
{
    const samba_attention_rows *part = &s->parts[which];
    for (int64_t i = 0; i < count; i++) {
        const char *from = (const char *)rows + i * ld * s->size;
        if (part->strides[3] == 1)
            s->kernels->store[part->dtype](row_at(part, b, head, first + i), from, part->depth);
        else
            s->kernels->store_strided[part->dtype](row_at(part, b, head, first + i), from, part->strides[3], part->depth);
    }
}

void samba_attention_write_lanes(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head,
                                 int64_t first, int64_t count, const void *lanes, void *room)
{
    const samba_attention_rows *part = &s->parts[which];
    if (part->direct) {
        turn(s, row_at(part, b, head, first), part->strides[2], lanes, BLOCK, part->depth, count);
        return;
    }
    turn(s, room, part->depth, lanes, BLOCK, part->depth, count);
    samba_attention_write(s, which, b, head, first, count, room, part->depth);
}

void samba_attention_expect(const samba_attention_state *s, samba_attention_part which, int64_t b, int64_t head, int64_t first,
                            int64_t count, bool write)
{
    const samba_attention_rows *part = &s->parts[which];
    if (part->strides[3] != 1)
        return;
    for (int64_t i = 0; i < count; i++) {
        const char *row = row_at(part, b, head, first + i);
        for (int64_t at = 0; at < part->depth * part->size; at += SAMBA_ALIGNMENT)
            if (write)
                __builtin_prefetch(row + at, 1, 2);
            else
                __builtin_prefetch(row + at, 0, 2);
    }
}

void samba_attention_expect_unit(const samba_attention_state *s, int64_t unit, int64_t block)
{
    static const samba_attention_part parts[] = {SAMBA_ATTENTION_Q, SAMBA_ATTENTION_K, SAMBA_ATTENTION_V, SAMBA_ATTENTION_RESULT,
                                                 SAMBA_ATTENTION_DOUT};
    bool gradient = s->attention.gradient;
    int64_t count = s->blocks < s->ahead ? s->blocks : s->ahead, ahead = block - (s->blocks - count),
            heads = gradient ? s->attention.hkv : s->h;
    if (unit >= s->units || ahead < 0)
        return;
    for (int i = 0; i < (gradient ? 5 : 3); i++) {
        bool keys = parts[i] == SAMBA_ATTENTION_K || parts[i] == SAMBA_ATTENTION_V;
        int64_t head = unit % heads, rows = samba_attention_width(keys ? s->tk : s->tq, ahead);
        head = keys ? (gradient ? head : head / s->group) : (gradient ? head * s->group : head);
        samba_attention_expect(s, parts[i], unit / heads, head, ahead * BLOCK, rows, false);
    }
}

const void *samba_attention_mask(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t j,
                                 int64_t keys, void *room)
{
    const samba_attention_rows *mask = &s->parts[SAMBA_ATTENTION_MASK];
    if (!mask->data)
        return NULL;
    for (int64_t r = 0; r < queries; r++) {
        const char *from = row_at(mask, b, h, i + r) + j * mask->strides[3] * mask->size;
        char *to = (char *)room + r * BLOCK * s->size;
        if (r > 0 && mask->strides[2] == 0)
            memcpy(to, room, (size_t)(keys * s->size));
        else if (mask->dtype == SAMBA_BOOL)
            s->tiles->admit[s->class_](to, (const uint8_t *)from, mask->strides[3], keys);
        else if (mask->strides[3] == 1)
            s->kernels->load[mask->dtype](to, from, keys);
        else
            s->kernels->load_strided[mask->dtype](to, from, mask->strides[3], keys);
    }
    return room;
}

const void *samba_attention_kept(const samba_attention_state *s, int64_t b, int64_t h, int64_t i, int64_t queries, int64_t j,
                                 int64_t keys, void *room, float *drawn)
{
    if (!s->parts[SAMBA_ATTENTION_P].data)
        return NULL;
    double p = *(const double *)s->parts[SAMBA_ATTENTION_P].data;
    uint64_t seed = *(const uint64_t *)s->parts[SAMBA_ATTENTION_SEED].data;
    for (int64_t r = 0; r < queries; r++) {
        s->kernels->random(drawn, seed, (uint64_t)(((b * s->h + h) * s->tq + i + r) * s->tk + j), keys);
        s->tiles->keep[s->class_]((char *)room + r * BLOCK * s->size, drawn, (float)p, 1 / (1 - p), keys);
    }
    return room;
}

/* ---- running ---- */

/* Of portions that are single blocks: the longest first, where the causal rule shows most. Of one head after the other, so that
 * its keys are near; where threads get few, of all heads together, so that the short ones are left to even out. */
static int64_t block_of(const samba_attention_state *s, int64_t portion, int64_t *unit)
{
    *unit = s->longest_first ? portion % s->units : portion / s->blocks;
    return s->blocks - 1 - (s->longest_first ? portion / s->units : portion % s->blocks);
}

/* next: the portion that this thread will probably take then. */
static void run_portion(const samba_attention_state *s, char *own, int64_t portion, int64_t next, int64_t *packed)
{
    int64_t unit = portion * s->portion / s->blocks, block = 0;
    if (s->portion == 1)
        block = block_of(s, portion, &unit);
    if (s->attention.slots > 0 && s->portion == 1)
        samba_attention_attend_cache(s, own, unit, block);
    else if (s->attention.slots > 0)
        for (; block < s->blocks; block++)
            samba_attention_attend_cache(s, own, unit, block);
    else if (s->one)
        samba_attention_attend_one(s, own, unit);
    else if (s->attention.gradient)
        samba_attention_differentiate_unit(s, own, unit, next);
    else if (s->portion == 1)
        samba_attention_attend(s, own, unit, block, packed);
    else
        for (; block < s->blocks; block++) {
            samba_attention_expect_unit(s, next, block);
            samba_attention_attend(s, own, unit, block, packed);
        }
}

double samba_attention_block_time(const samba_attention_state *s, int64_t block)
{
    const samba_attention *a = &s->attention;
    int64_t first = block * BLOCK, own = samba_attention_width(a->gradient ? s->tk : s->tq, block);
    int64_t others = a->gradient ? s->tq : s->tk;
    if (a->causal && a->gradient)
        others = others > first ? others - first : 0;
    else if (a->causal)
        others = others < first + own ? others : first + own;
    double scores = (double)(own > 0 ? own : 0) * (double)others * (double)(a->gradient ? s->group : 1);
    return scores * ((double)(a->gradient ? 3 * a->d + 2 * a->dv : a->d + a->dv) * s->multiply + s->score);
}

int samba_attention_held(const void *state, samba_held held[SAMBA_HELD])
{
    const samba_attention_state *s = state;
    int64_t rows = 2 * s->attention.d + 2 * s->attention.dv;
    held[0] = (samba_held){"attention: a block of scores, its rows and sums", 2, (2 * BLOCK + rows) * BLOCK * s->size};
    return 1;
}

static int64_t dealt_units(const void *state, int phase, int threads, bool *free)
{
    const samba_attention_state *s = state;
    *free = threads > 1;
    return phase == (threads > 1) ? s->units * (s->blocks / s->portion) : 0;
}

static double dealt_work(const void *state, int phase, int threads, int64_t portion)
{
    const samba_attention_state *s = state;
    double time = 0;
    int64_t unit;
    (void)phase, (void)threads;
    if (s->portion == 1)
        return samba_attention_block_time(s, block_of(s, portion, &unit));
    for (int64_t block = 0; block < s->blocks; block++)
        time += samba_attention_block_time(s, block);
    return time;
}

static const samba_dealing dealing = {dealt_units, dealt_work, NULL, samba_attention_held};

/* Phases: the counter, where several threads take; all work. */
static void run(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_attention_state *s = (const samba_attention_state *)state;
    char *own = scratch + COUNTER_BYTES + thread * s->thread_bytes;
    int64_t *next = (int64_t *)scratch, count = s->units * (s->blocks / s->portion), packed[2] = {-1, 0};
    if (threads == 1) {
        for (int64_t i = 0; i < count; i++)
            run_portion(s, own, i, i + threads, packed);
    } else if (phase == 0) {
        if (thread == 0)
            __atomic_store_n(next, 0, __ATOMIC_RELAXED);
    } else {
        for (int64_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < count;)
            run_portion(s, own, i, i + threads, packed);
    }
}

/* ---- preparing ---- */

void samba_attention_reserve(samba_attention_state *s, int64_t part, int64_t n)
{
    int64_t bytes;
    s->at[part] = s->thread_bytes;
    s->fits = s->fits && samba_mul_checked(n, s->size, &bytes) && samba_add_checked(bytes, SAMBA_ALIGNMENT - 1, &bytes) &&
              samba_add_checked(s->thread_bytes, bytes / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT, &s->thread_bytes);
}

/* Whether so many rows of a block lie at the same place of a page that a nearest cache drops some before they are read again:
 * places repeat after page / gcd(stride, page) rows. Widths that are powers of 2 do that. Where a row of a block of sums fits the
 * registers, rows are read but once, and copies of them only cost. */
static bool is_crowded(const samba_cpu_machine *machine, const samba_attention_rows *part)
{
    int64_t page = machine->product.page, stride = part->strides[2] % page * part->size; /* any stride, of a single row */
    return machine->vector_bytes < WHOLE_ROW && BLOCK * samba_greatest_common_divisor(stride, page) > CROWD * page;
}

static void resolve(const samba_stage *stage, samba_attention_state *s)
{
    int32_t operand_of[SAMBA_ATTENTION_PARTS];
    samba_attention_operands(&stage->attention, operand_of);
    for (int i = 0; i < SAMBA_ATTENTION_PARTS; i++) {
        samba_attention_rows *part = &s->parts[i];
        if (operand_of[i] < 0)
            continue;
        const samba_operand *operand = &stage->operands[operand_of[i]];
        int64_t sizes[4];
        samba_attention_sizes(stage, (samba_attention_part)i, sizes);
        part->dtype = (samba_dtype)operand->dtype;
        part->size = (int64_t)samba_dtype_size(part->dtype);
        part->data = s->prepare->memory + s->prepare->buffers[operand->buffer].offset + operand->offset * part->size;
        part->depth = sizes[3];
        memcpy(part->strides, operand->strides, sizeof part->strides);
        bool rows = part->strides[3] == 1 && part->strides[2] >= part->depth;
        part->direct = rows && part->dtype == (s->class_ == SAMBA_F32 ? SAMBA_FLOAT32 : SAMBA_FLOAT64) &&
                       !is_crowded(s->prepare->machine, part);
        part->ld = part->direct ? part->strides[2] : part->depth;
        part->paired = rows && part->dtype == SAMBA_BFLOAT16 && part->depth % 2 == 0;
        part->pair_ld = part->paired ? part->strides[2] : samba_attention_even(part->depth);
    }
}

/* Products and scratch of one direction. */
static samba_status prepare_direction(samba_attention_state *s)
{
    s->thread_bytes = 0;
    s->fits = true;
    s->missing = false;
    if (s->attention.gradient)
        return samba_attention_prepare_grad(s);
    if (s->attention.slots > 0)
        samba_attention_prepare_cache(s);
    else if (s->one)
        samba_attention_prepare_one(s);
    else if (s->units > 0 && s->blocks > 0)
        samba_attention_prepare_forward(s);
    return SAMBA_OK;
}

samba_status samba_prepare_attention(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    samba_attention_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    *s = (samba_attention_state){.attention = stage->attention,
                                 .prepare = prepare,
                                 .kernels = prepare->machine->kernels,
                                 .tiles = prepare->machine->kernels->attention,
                                 .b = stage->domain[0],
                                 .h = stage->domain[1],
                                 .tq = stage->domain[2],
                                 .tk = stage->domain[3]};
    samba_dtype dtype = (samba_dtype)stage->operands[SAMBA_ATTENTION_Q].dtype;
    s->class_ = (int)samba_class_of(dtype);
    s->size = s->class_ == SAMBA_F32 ? 4 : 8;
    s->unit = s->class_ == SAMBA_F32 ? M_LN2 : 1;
    s->group = s->attention.hkv > 0 ? s->h / s->attention.hkv : 1;
    /* where there is AMX, pairs take twice as long by vectors as floats do */
    s->half = dtype == SAMBA_BFLOAT16 && s->attention.d > 0 && s->attention.dv > 0 && prepare->machine->libxsmm &&
              prepare->machine->pairs && !prepare->machine->amx;
    resolve(stage, s);
    s->each = 1;
    if (s->attention.slots > 0)
        samba_attention_cut_cache(s, prepare->threads);
    else
        s->one = samba_attention_is_one(s);
    s->half = s->half && !s->one;
    bool gradient = s->attention.gradient, many;
    s->units = s->b * (gradient ? s->attention.hkv : s->h / s->each);
    s->blocks = ((gradient ? s->tk : s->tq) + BLOCK - 1) / BLOCK;
    if (gradient && s->blocks == 0)
        s->blocks = 1; /* no keys: dq is 0, and has to be written */
    s->ahead = prepare->machine->attention.ahead;
    many = prepare->threads == 1 || s->units / prepare->machine->attention.many >= prepare->threads;
    s->portion = s->blocks == 0 ? 1 : many ? s->blocks : gradient ? 0 : 1;
    s->longest_first = s->portion == 1 && s->units * s->blocks < prepare->machine->attention.many * prepare->threads;
    SAMBA_TRY(prepare_direction(s));
    if (s->half && s->missing) {
        s->half = false;
        SAMBA_TRY(prepare_direction(s));
    }
    s->multiply = 1 / (prepare->machine->product.rate * prepare->machine->kernels->lanes);
    s->score = 1e9 / prepare->machine->share.slow_values;
    s->byte = prepare->machine->block.crossing;
    *prepared = (samba_prepared){.run = run,
                                 .dealing = &dealing,
                                 .state = s,
                                 .phases = prepare->threads == 1 ? 1 : 2,
                                 .shared_scratch = COUNTER_BYTES,
                                 .thread_scratch = s->thread_bytes};
    if (s->portion == 0) {
        prepared->run = samba_attention_run_shared_grad;
        prepared->dealing = &samba_attention_shared_grad_dealing;
        prepared->phases = s->slots > 1 ? 2 : 1;
        prepared->shared_scratch = 0;
    }
    return s->fits ? SAMBA_OK
                   : samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED,
                                "stage %s: a block needs more scratch than this machine can address", stage->name);
}
