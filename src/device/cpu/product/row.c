/* SPDX-License-Identifier: Apache-2.0
 *
 * A vector x and a matrix: a contraction whose A has one row, or else whose B has one column; see rows.h. Threads share the
 * elements of the result in order, so each reads one part of the matrix from its beginning to its end: rows that are multiplied
 * with x one by one (W of (out, in), a table of tokens), or parts of rows that are added up (W of (in, out)).
 * What follows runs on each thread's elements, or on all of them by one thread where it needs whole rows. */
#include "device/cpu/product/roads.h"
#include "device/cpu/product/rows.h"

#include <string.h>

typedef struct row {
    samba_frame frame;
    const samba_kernels *kernels;
    void (*dots)(const void *x, const void *rows, int64_t ld, int64_t count, int64_t k, float *d);
    void (*sums)(const float *x, const void *rows, int64_t ld, int64_t count, int64_t n, float *d);
    const char *x, *matrix;
    samba_dtype dtype;
    int64_t n, k, x_step, ld, size;   /* elements; n: of the result; size: bytes of one of the matrix */
    int64_t line, most;               /* elements of the result: a unit, and whose sums the first cache holds */
    bool along_k, whole_rows, column; /* column: the result is one, not a row */
    bool direct;                      /* sums are made where the result belongs */
    int64_t x_at, y_at;
} row;

enum { LINE = 16 /* elements of the result, where it has many */ };

/* x, one element after the other: as it is for products, for sums as floats. */
static const void *read_x(const row *r, char *own)
{
    char *x = own + r->x_at;
    if (r->x_step == 1 && (r->along_k || r->dtype == SAMBA_FLOAT32))
        return r->x;
    if (!r->along_k)
        r->kernels->load_strided[r->dtype](x, r->x, r->x_step, r->k);
    for (int64_t i = 0; i < r->k && r->along_k; i++)
        memcpy(x + i * r->size, r->x + i * r->x_step * r->size, (size_t)r->size);
    return x;
}

/* Some elements of the result. */
static void run_part(const row *r, const samba_workspace *room, const void *x, int64_t from, int64_t until)
{
    float *y = r->whole_rows ? (float *)room->shared + from : (float *)(room->own + r->y_at);
    if (r->direct)
        y = samba_finish_at(&r->frame.finish, r->column ? from : 0, r->column ? 0 : from).result;
    if (r->along_k) {
        r->dots(x, r->matrix + from * r->ld * r->size, r->ld, until - from, r->k, y);
    } else {
        memset(y, 0, (size_t)(until - from) * sizeof(float));
        r->sums(x, r->matrix + from * r->size, r->ld, r->k, until - from, y);
    }
    if (r->column && !r->direct)
        samba_frame_finish(&r->frame, room, from, until - from, 0, 1, y, 1);
    else if (!r->whole_rows && !r->direct)
        samba_frame_finish(&r->frame, room, 0, 1, from, until - from, y, r->n);
}

/* Sums stay in the first cache until they are whole, and until they are used. */
static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t end)
{
    const row *r = (const row *)frame;
    int64_t until = at_most(end * r->line, r->n), most = r->whole_rows && r->along_k ? r->n : r->most;
    const void *x = read_x(r, room->own);
    for (int64_t from = unit * r->line; from < until; from += most)
        run_part(r, room, x, from, at_most(from + most, until));
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
    double columns = (double)at_most(r->line, r->n - unit * r->line);
    return columns * ((double)(r->k * r->size) / frame->machine->share.memory * 1e9 + (r->whole_rows ? 0 : frame->element));
}

static void moved(const samba_frame *frame, int threads, samba_moved *moved)
{
    const row *r = (const row *)frame;
    moved->reads[r->column] = (double)(r->k * r->size) * threads;
    moved->in_order = true;
}

/* The matrix: B, where A has one row. */
static bool is_column(const samba_contract_problem *problem) { return problem->m != 1; }

static const samba_factor *matrix_of(const samba_contract_problem *problem)
{
    return is_column(problem) ? &problem->contract.a : &problem->contract.b;
}

/* Are rows of the matrix multiplied? Where each has one element, they are its columns as well. */
static bool multiplies_rows(const samba_contract_problem *problem, const samba_factor *matrix)
{
    bool one_column = problem->k == 1 && problem->m * problem->n > 1;
    return one_column ? matrix->own[0] != 1 : matrix->inner[0] == 1;
}

/* Rows of 16 bits that fill no vector, where a part of one takes many instructions. */
static bool is_short(const samba_contract_problem *problem, const samba_factor *matrix)
{
    return multiplies_rows(problem, matrix) && problem->k < problem->machine->kernels->lanes && !problem->machine->masked;
}

static bool suits(const samba_contract_problem *problem)
{
    const samba_contract *c = &problem->contract;
    const samba_factor *matrix = matrix_of(problem);
    if (c->class_ != SAMBA_F32 || problem->batches != 1 || (problem->m != 1 && problem->n != 1) || c->m_rank != 1 ||
        c->n_rank != 1 || c->k_rank != 1 || c->a.window_count || c->b.window_count || c->a.dtype != c->b.dtype ||
        (c->b.dtype != SAMBA_FLOAT32 && c->b.dtype != SAMBA_BFLOAT16) || problem->k == 0)
        return false;
    int64_t n = problem->m * problem->n;
    if (c->b.dtype == SAMBA_FLOAT32 ? n < problem->threads : is_short(problem, matrix))
        return false; /* blocks deal k, or turn such rows */
    return (matrix->inner[0] == 1 || matrix->own[0] == 1 || problem->k == 1 || n == 1) &&
           (problem->k == 1 || matrix->inner[0] > 0) && (n == 1 || matrix->own[0] > 0);
}

/* Where it leads nothing is faster: it reads the matrix once, in order, and does nothing else. */
static double plan(const samba_contract_problem *problem, samba_frame *frame)
{
    (void)frame;
    return suits(problem) ? 0 : -1;
}

static samba_status prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame)
{
    row *r = (row *)frame;
    const samba_contract *c = &problem->contract;
    const samba_factor *matrix = matrix_of(problem), *x = matrix == &c->b ? &c->a : &c->b;
    const int kind = c->b.dtype == SAMBA_BFLOAT16 ? SAMBA_ROWS_BF16 : SAMBA_ROWS_F32;
    (void)to;
    r->kernels = frame->machine->kernels;
    r->dots = r->kernels->rows->dots[kind];
    r->sums = r->kernels->rows->sums[kind];
    r->dtype = (samba_dtype)x->dtype;
    r->size = kind == SAMBA_ROWS_BF16 ? 2 : 4;
    r->n = problem->m * problem->n;
    r->k = problem->k;
    r->line = r->n < LINE * problem->threads ? 1 : LINE;
    r->most = round_up(frame->machine->row.sums / (int64_t)sizeof(float), LINE);
    r->x_step = x->inner[0];
    r->along_k = multiplies_rows(problem, matrix);
    r->column = is_column(problem);
    r->whole_rows = c->whole_rows && !r->column;
    r->ld = r->along_k ? matrix->own[0] : matrix->inner[0];
    r->x = samba_factor_bytes(problem, x);
    r->matrix = samba_factor_bytes(problem, matrix);
    r->x_at = samba_frame_room(frame, problem->k * (int64_t)sizeof(float));
    r->y_at = samba_frame_room(frame, r->most * (int64_t)sizeof(float));
    r->direct = samba_finish_is_copy(&frame->finish) && !r->whole_rows &&
                (!r->column || samba_finish_at(&frame->finish, 0, 0).pitch == 1);
    frame->shared_bytes = r->whole_rows ? r->n * (int64_t)sizeof(float) : 0;
    frame->units = divide_up(r->n, r->line);
    frame->in_order = true; /* each thread reads one part of the matrix */
    frame->apart = r->whole_rows;
    return SAMBA_OK;
}

const samba_road samba_road_row = {"row", sizeof(row), plan, prepare, NULL, run, finish, work, moved, NULL};
