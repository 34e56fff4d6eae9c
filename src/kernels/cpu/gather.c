/* SPDX-License-Identifier: Apache-2.0
 *
 * Gather and scatter_add of rows. Gather: threads share the result's rows. scatter_add into zeros: threads share the table's rows, each
 * reading all indices and taking those of its rows; onto what the table holds: threads share its columns, since a few rows may
 * get all additions. Either way the additions to an element have one order whatever the number of threads.
 * Sums of bfloat16 and float16 round after each addition, as the table is the only place that holds them. */
#include "kernels/kernel.h"
#include <string.h>

typedef struct gather_state {
    samba_gather gather;
    const samba_kernels *kernels;
    samba_dtype dtype, index_dtype;
    const char *index;
    char *table, *rows;
    volatile int32_t *fault;
    int32_t fault_value;
} gather_state;

static int64_t index_at(const gather_state *s, int64_t i)
{
    return s->index_dtype == SAMBA_INT32 ? ((const int32_t *)s->index)[i] : ((const int64_t *)s->index)[i];
}

static void gather_rows(const gather_state *s, int thread, int threads)
{
    const samba_gather *g = &s->gather;
    size_t bytes = (size_t)g->width * samba_dtype_size(s->dtype);
    for (int64_t i = g->count * thread / threads, end = g->count * (thread + 1) / threads; i < end; i++) {
        int64_t row = index_at(s, i);
        if (row >= 0 && row < g->table_rows) {
            memcpy(s->rows + (size_t)i * bytes, s->table + (size_t)row * bytes, bytes);
        } else {
            memset(s->rows + (size_t)i * bytes, 0, bytes);
            __atomic_store_n(s->fault, s->fault_value, __ATOMIC_RELAXED);
        }
    }
}

/* part of a table row += part of a row, a tile at a time, in the register class of the dtype */
static void add_row(const gather_state *s, char *d, const char *source, int64_t width)
{
    double x[SAMBA_TILE_CAPACITY], y[SAMBA_TILE_CAPACITY];
    samba_register_class class_ = samba_class_of(s->dtype);
    samba_map_fn *add = s->kernels->map[SAMBA_TILE_add][class_];
    size_t size = samba_dtype_size(s->dtype);
    if (s->dtype == SAMBA_FLOAT32 || s->dtype == SAMBA_FLOAT64) {
        add(d, d, source, NULL, width);
        return;
    }
    for (int64_t c = 0; c < width; c += SAMBA_TILE_CAPACITY) {
        int64_t n = width - c < SAMBA_TILE_CAPACITY ? width - c : SAMBA_TILE_CAPACITY;
        s->kernels->load[s->dtype](x, d + (size_t)c * size, n);
        s->kernels->load[s->dtype](y, source + (size_t)c * size, n);
        add(x, x, y, NULL, n);
        s->kernels->store[s->dtype](d + (size_t)c * size, x, n);
    }
}

static void scatter_rows(const gather_state *s, int thread, int threads)
{
    const samba_gather *g = &s->gather;
    size_t bytes = (size_t)g->width * samba_dtype_size(s->dtype);
    int64_t begin = g->table_rows * thread / threads, end = g->table_rows * (thread + 1) / threads;
    memset(s->table + (size_t)begin * bytes, 0, (size_t)(end - begin) * bytes);
    for (int64_t i = 0; i < g->count; i++) {
        int64_t row = index_at(s, i);
        if (row >= begin && row < end)
            add_row(s, s->table + (size_t)row * bytes, s->rows + (size_t)i * bytes, g->width);
        else if (row < 0 || row >= g->table_rows)
            __atomic_store_n(s->fault, s->fault_value, __ATOMIC_RELAXED);
    }
}

#define LINE 64 /* bytes that two threads had better not share */

static void add_columns(const gather_state *s, int thread, int threads)
{
    const samba_gather *g = &s->gather;
    int64_t size = (int64_t)samba_dtype_size(s->dtype), bytes = g->width * size, lines = (bytes + LINE - 1) / LINE;
    int64_t begin = lines * thread / threads * LINE, end = lines * (thread + 1) / threads * LINE;
    end = end < bytes ? end : bytes;
    for (int64_t i = 0; i < g->count && begin < end; i++) {
        int64_t row = index_at(s, i);
        if (row >= 0 && row < g->table_rows)
            add_row(s, s->table + row * bytes + begin, s->rows + i * bytes + begin, (end - begin) / size);
        else
            __atomic_store_n(s->fault, s->fault_value, __ATOMIC_RELAXED);
    }
}

static void run_gather(const void *state, char *scratch, int phase, int thread, int threads)
{
    const gather_state *s = state;
    (void)scratch, (void)phase;
    (!s->gather.scatter ? gather_rows : s->gather.onto ? add_columns : scatter_rows)(s, thread, threads);
}

samba_status samba_prepare_gather(const samba_prepare *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    gather_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    char *memory[3];
    for (int i = 0; i < 3; i++) {
        const samba_operand *operand = &stage->operands[i];
        memory[i] = prepare->memory + prepare->buffers[operand->buffer].offset +
                    operand->offset * (int64_t)samba_dtype_size((samba_dtype)operand->dtype);
    }
    bool scatter = stage->gather.scatter;
    *s = (gather_state){.gather = stage->gather, .kernels = prepare->kernels, .fault = prepare->fault,
                        .fault_value = prepare->stage_index + 1};
    s->table = memory[scatter ? 2 : 0];
    s->index = memory[scatter ? 0 : 1];
    s->rows = memory[scatter ? 1 : 2];
    s->dtype = (samba_dtype)stage->operands[2].dtype;
    s->index_dtype = (samba_dtype)stage->operands[scatter ? 0 : 1].dtype;
    bool indices = s->index_dtype == SAMBA_INT64 || s->index_dtype == SAMBA_INT32;
    if (!indices || (scatter && !samba_dtype_is_floating_point(s->dtype)))
        return samba_fail(prepare->context, SAMBA_ERROR_DTYPE,
                          "stage %s has indices of %s and rows of %s; indices are int64 or int32, summed rows floating point",
                          stage->name, samba_dtype_name(s->index_dtype), samba_dtype_name(s->dtype));
    *prepared = (samba_prepared){.run = run_gather, .state = s, .phases = 1};
    return SAMBA_OK;
}
