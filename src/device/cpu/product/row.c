/* SPDX-License-Identifier: Apache-2.0
 *
 * A contraction whose A has one row: see rows.h. Threads share the columns of the result in order, so each reads one part of B from its beginning to
 * its end: rows of B^T that are multiplied with x one by one (W of (out, in), a table of tokens), or parts of rows of B that are added up (W of
 * (in, out)). What follows runs on each thread's columns, or on all of them by one thread where it needs whole rows. */
#include "device/cpu/product/contract_plan.h"
#include "device/cpu/product/rows.h"

#include <string.h>

typedef struct row {
    const samba_tile_program *program;
    const samba_kernels *kernels;
    void (*dots)(const void *x, const void *rows, int64_t ld, int64_t count, int64_t k, float *d);
    void (*sums)(const float *x, const void *rows, int64_t ld, int64_t count, int64_t n, float *d);
    const char *a, *b;
    samba_dtype dtype;
    int64_t n, k, a_step, ld, size; /* elements; size: bytes of one of B */
    bool along_k, whole_rows;
    int64_t shared_bytes, thread_bytes, x_at;
} row;

/* Columns of a thread: whole lines of the result. */
static int64_t column(const row *r, int thread, int threads)
{
    int64_t lines = (r->n + 15) / 16, at = thread * lines / threads * 16;
    return at < r->n ? at : r->n;
}

/* x, one element after the other: as it is for products, for sums as floats. */
static const void *read_x(const row *r, char *own)
{
    char *x = own + r->x_at;
    if (r->a_step == 1 && (r->along_k || r->dtype == SAMBA_FLOAT32))
        return r->a;
    if (!r->along_k)
        r->kernels->load_strided[r->dtype](x, r->a, r->a_step, r->k);
    for (int64_t i = 0; i < r->k && r->along_k; i++)
        memcpy(x + i * r->size, r->a + i * r->a_step * r->size, (size_t)r->size);
    return x;
}

/* Phases: sums, and what follows where columns can do it alone; else that; finishing, where the epilogue collects. */
static void run(const void *state, char *scratch, int phase, int thread, int threads)
{
    const row *r = (const row *)state;
    char *own = scratch + r->shared_bytes + thread * r->thread_bytes;
    float *y = (float *)scratch;
    int64_t from = column(r, thread, threads), until = column(r, thread + 1, threads);
    if (phase == 0) {
        if (!r->whole_rows)
            samba_tile_begin(r->program, own);
        if (from < until && r->along_k) {
            r->dots(read_x(r, own), r->b + from * r->ld * r->size, r->ld, until - from, r->k, y + from);
        } else if (from < until) {
            memset(y + from, 0, (size_t)(until - from) * sizeof(float));
            r->sums(read_x(r, own), r->b + from * r->size, r->ld, r->k, until - from, y + from);
        }
        if (!r->whole_rows && from < until)
            samba_tile_region(r->program, own, 0, 1, from, until - from, y + from, r->n);
    } else if (phase == 1 && r->whole_rows) {
        samba_tile_begin(r->program, own);
        if (thread == 0)
            samba_tile_region(r->program, own, 0, 1, 0, r->n, y, r->n);
    } else if (thread == 0) {
        samba_tile_finish(r->program, scratch + r->shared_bytes, r->thread_bytes, threads);
    }
}

bool samba_row_suits(const samba_contract_problem *problem)
{
    const samba_contract *c = &problem->contract;
    if (c->class_ != SAMBA_F32 || problem->batches != 1 || problem->m != 1 || c->n_rank != 1 || c->k_rank != 1 || c->a.window_count || c->b.window_count ||
        c->a.dtype != c->b.dtype || (c->b.dtype != SAMBA_FLOAT32 && c->b.dtype != SAMBA_BFLOAT16) || problem->n < problem->machine->row.side ||
        problem->k < problem->machine->row.side)
        return false;
    int64_t size = c->b.dtype == SAMBA_FLOAT32 ? 4 : 2;
    return problem->n * problem->k * size >= problem->machine->row.least && (c->b.inner[0] == 1 || c->b.own[0] == 1) && c->b.inner[0] > 0 && c->b.own[0] > 0;
}

samba_status samba_prepare_row(const samba_prepare *prepare, const samba_contract_problem *problem, const samba_tile_program *program,
                               samba_prepared *prepared)
{
    const samba_contract *c = &problem->contract;
    const int kind = c->b.dtype == SAMBA_BFLOAT16 ? SAMBA_ROWS_BF16 : SAMBA_ROWS_F32;
    const samba_rows *rows = prepare->machine->kernels->rows;
    const int64_t size = kind == SAMBA_ROWS_BF16 ? 2 : 4;
    row *r = (row *)samba_arena_alloc(prepare->arena, sizeof *r);
    if (!r)
        return SAMBA_ERROR_MEMORY;
    *r = (row){.program = program, .kernels = prepare->machine->kernels, .dots = rows->dots[kind], .sums = rows->sums[kind], .dtype = (samba_dtype)c->a.dtype,
               .n = problem->n, .k = problem->k, .a_step = c->a.inner[0], .size = size, .along_k = c->b.inner[0] == 1, .whole_rows = c->whole_rows};
    r->ld = r->along_k ? c->b.own[0] : c->b.inner[0];
    r->a = problem->memory + problem->buffers[c->a.buffer].offset + c->a.offset * size;
    r->b = problem->memory + problem->buffers[c->b.buffer].offset + c->b.offset * size;
    r->shared_bytes = (problem->n * (int64_t)sizeof(float) + 63) / 64 * 64;
    r->x_at = (samba_tile_thread_scratch(program) + 63) / 64 * 64;
    r->thread_bytes = r->x_at + (problem->k * (int64_t)sizeof(float) + 63) / 64 * 64;
    *prepared = (samba_prepared){.run = run, .state = r, .shared_scratch = r->shared_bytes, .thread_scratch = r->thread_bytes,
                                 .phases = 1 + r->whole_rows + samba_tile_has_collect(program)};
    return SAMBA_OK;
}
