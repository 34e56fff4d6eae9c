/* SPDX-License-Identifier: Apache-2.0
 *
 * A contraction whose A has one row: see rows.h. Threads share the columns of the result in order, so each reads one part of B
 * from its beginning to its end: rows of B^T that are multiplied with x one by one (W of (out, in), a table of tokens), or parts
 * of rows of B that are added up (W of (in, out)).
 * What follows runs on each thread's columns, or on all of them by one thread where it needs whole rows. */
#include "device/cpu/product/roads.h"
#include "device/cpu/product/rows.h"

#include <string.h>

typedef struct row {
    samba_frame frame;
    const samba_kernels *kernels;
    void (*dots)(const void *x, const void *rows, int64_t ld, int64_t count, int64_t k, float *d);
    void (*sums)(const float *x, const void *rows, int64_t ld, int64_t count, int64_t n, float *d);
    const char *a, *b;
    samba_dtype dtype;
    int64_t n, k, a_step, ld, size; /* elements; size: bytes of one of B */
    bool along_k, whole_rows;
    int64_t x_at;
} row;

enum { LINE = 16 /* columns of the result: a unit */ };

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

static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t end)
{
    const row *r = (const row *)frame;
    float *y = (float *)room->shared;
    int64_t from = unit * LINE, until = at_most(end * LINE, r->n);
    if (r->along_k) {
        r->dots(read_x(r, room->own), r->b + from * r->ld * r->size, r->ld, until - from, r->k, y + from);
    } else {
        memset(y + from, 0, (size_t)(until - from) * sizeof(float));
        r->sums(read_x(r, room->own), r->b + from * r->size, r->ld, r->k, until - from, y + from);
    }
    if (!r->whole_rows)
        samba_tile_region(frame->program, room->own, 0, 1, from, until - from, y + from, r->n);
}

static void finish(const samba_frame *frame, const samba_workspace *room, int64_t from, int64_t end)
{
    const row *r = (const row *)frame;
    (void)from;
    (void)end;
    samba_tile_region(frame->program, room->own, 0, 1, 0, r->n, (const float *)room->shared, r->n);
}

static double work(const samba_frame *frame, samba_frame_phase phase, int64_t unit)
{
    const row *r = (const row *)frame;
    if (phase == SAMBA_FRAME_APART)
        return (double)r->n * frame->element;
    double columns = (double)at_most(LINE, r->n - unit * LINE);
    return columns * ((double)(r->k * r->size) / frame->machine->share.memory * 1e9 + (r->whole_rows ? 0 : frame->element));
}

static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const row *r = (const row *)frame;
    moved->reads[0] = (double)(r->k * r->size) * threads;
    moved->in_order = true;
}

static bool suits(const samba_contract_problem *problem)
{
    const samba_contract *c = &problem->contract;
    if (c->class_ != SAMBA_F32 || problem->batches != 1 || problem->m != 1 || c->n_rank != 1 || c->k_rank != 1 ||
        c->a.window_count || c->b.window_count || c->a.dtype != c->b.dtype ||
        (c->b.dtype != SAMBA_FLOAT32 && c->b.dtype != SAMBA_BFLOAT16) || problem->n < problem->machine->row.side ||
        problem->k < problem->machine->row.side)
        return false;
    int64_t size = c->b.dtype == SAMBA_FLOAT32 ? 4 : 2;
    return problem->n * problem->k * size >= problem->machine->row.least && (c->b.inner[0] == 1 || c->b.own[0] == 1) &&
           c->b.inner[0] > 0 && c->b.own[0] > 0;
}

/* Where it leads nothing is faster: it reads the matrix once, in order, and does nothing else. */
static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    (void)frame;
    return suits(problem) ? 0 : -1;
}

static samba_status prepare(const samba_prepare *to, const samba_contract_problem *problem, samba_frame *frame)
{
    row *r = (row *)frame;
    const samba_contract *c = &problem->contract;
    const int kind = c->b.dtype == SAMBA_BFLOAT16 ? SAMBA_ROWS_BF16 : SAMBA_ROWS_F32;
    (void)to;
    r->kernels = frame->machine->kernels;
    r->dots = r->kernels->rows->dots[kind];
    r->sums = r->kernels->rows->sums[kind];
    r->dtype = (samba_dtype)c->a.dtype;
    r->size = kind == SAMBA_ROWS_BF16 ? 2 : 4;
    r->n = problem->n;
    r->k = problem->k;
    r->a_step = c->a.inner[0];
    r->along_k = c->b.inner[0] == 1;
    r->whole_rows = c->whole_rows;
    r->ld = r->along_k ? c->b.own[0] : c->b.inner[0];
    r->a = samba_factor_bytes(problem, &c->a);
    r->b = samba_factor_bytes(problem, &c->b);
    r->x_at = samba_frame_room(frame, problem->k * (int64_t)sizeof(float));
    frame->shared_bytes = problem->n * (int64_t)sizeof(float);
    frame->units = divide_up(problem->n, LINE);
    frame->in_order = true; /* each thread reads one part of the matrix */
    frame->apart = r->whole_rows;
    return SAMBA_OK;
}

const samba_road samba_road_row = {"row", sizeof(row), plan, prepare, NULL, run, finish, work, moved, NULL};
