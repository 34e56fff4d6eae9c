/* SPDX-License-Identifier: Apache-2.0
 *
 * A contraction whose A has one row, or B one column: a vector x, the other side a matrix; see rows.h. Threads share the elements
 * of the result in order, so each reads one part of the matrix from its beginning to its end: rows that are multiplied with x one
 * by one (W of (out, in), a table of tokens, the matrix of mv), or parts of rows that are added up (W of (in, out)).
 * What follows runs on each thread's elements, or, of a row, on all of them by one thread where it needs whole rows. */
#include "device/cpu/product/roads.h"
#include "device/cpu/product/rows.h"

#include <string.h>

typedef struct row {
    samba_frame frame;
    const samba_kernels *kernels;
    void (*dots)(const void *x, const void *rows, int64_t ld, int64_t count, int64_t k, float *d);
    void (*sums)(const float *x, const void *rows, int64_t ld, int64_t count, int64_t n, float *d);
    const char *a, *b; /* the vector, the matrix */
    samba_dtype dtype;
    int64_t n, k, a_step, ld, size; /* n: of the result; elements; size: bytes of one of B */
    bool along_k, column, whole_rows;
    int64_t x_at;
} row;

enum {
    LINE = 16,   /* elements of the result: a unit */
    PIECE = 2048 /* of a column, whose sums stay in the nearest cache until what follows has read them */
};

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

static void run_piece(const row *r, const void *x, float *y, int64_t from, int64_t until)
{
    if (r->along_k) {
        r->dots(x, r->b + from * r->ld * r->size, r->ld, until - from, r->k, y + from);
    } else {
        memset(y + from, 0, (size_t)(until - from) * sizeof(float));
        r->sums(x, r->b + from * r->size, r->ld, r->k, until - from, y + from);
    }
}

static void run(const samba_frame *frame, const samba_workspace *room, int64_t unit, int64_t end)
{
    const row *r = (const row *)frame;
    float *y = (float *)room->shared;
    int64_t from = unit * LINE, until = at_most(end * LINE, r->n);
    const void *x = read_x(r, room->own);
    if (!r->column) {
        run_piece(r, x, y, from, until);
        if (!r->whole_rows)
            samba_tile_region(frame->program, room->own, 0, 1, from, until - from, y + from, r->n);
        return;
    }
    const int64_t piece = r->along_k ? until - from : PIECE;
    for (; from < until; from += piece) {
        int64_t stop = at_most(from + piece, until);
        run_piece(r, x, y, from, stop);
        samba_tile_region(frame->program, room->own, from, stop - from, 0, 1, y + from, 1);
    }
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

/* The matrix: B beside one row, A beside one column. */
static const samba_factor *matrix_of(const samba_contract_problem *problem)
{
    return problem->n == 1 ? &problem->contract.a : &problem->contract.b;
}

/* A row's matrix comes from memory: of those in a cache blocks make more. Of a column they make one vector, which is most of the
 * time a part of one: it is read by rows whatever its size, unless there are so few that threads had nothing to share. */
static bool suits(const samba_contract_problem *problem)
{
    const samba_contract *c = &problem->contract;
    const samba_factor *matrix = matrix_of(problem);
    const bool column = problem->n == 1;
    int64_t n = column ? problem->m : problem->n, side = problem->machine->row.side, least = problem->machine->row.least;
    if (c->class_ != SAMBA_F32 || problem->batches != 1 || (problem->m != 1 && !column) || (column ? c->m_rank : c->n_rank) > 1 ||
        c->k_rank != 1 || c->a.window_count || c->b.window_count || c->a.dtype != c->b.dtype ||
        (matrix->dtype != SAMBA_FLOAT32 && matrix->dtype != SAMBA_BFLOAT16))
        return false;
    const bool along_k = matrix->inner[0] == 1, along_n = matrix->own[0] == 1;
    int64_t bytes = n * problem->k * (matrix->dtype == SAMBA_FLOAT32 ? 4 : 2);
    if ((!along_k && !along_n) || matrix->inner[0] <= 0 || (n > 1 && matrix->own[0] <= 0))
        return false;
    if (!column)
        return n >= side && problem->k >= side && bytes >= least;
    return along_k ? problem->k >= side && (n >= side || bytes < least || matrix->dtype == SAMBA_BFLOAT16) : n >= side;
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
    const samba_factor *matrix = matrix_of(problem), *vector = problem->n == 1 ? &problem->contract.b : &problem->contract.a;
    const int kind = matrix->dtype == SAMBA_BFLOAT16 ? SAMBA_ROWS_BF16 : SAMBA_ROWS_F32;
    (void)to;
    r->kernels = frame->machine->kernels;
    r->dots = r->kernels->rows->dots[kind];
    r->sums = r->kernels->rows->sums[kind];
    r->dtype = (samba_dtype)vector->dtype;
    r->size = kind == SAMBA_ROWS_BF16 ? 2 : 4;
    r->n = problem->n == 1 ? problem->m : problem->n;
    r->k = problem->k;
    r->a_step = vector->inner[0];
    r->along_k = matrix->inner[0] == 1;
    r->column = problem->n == 1;
    r->whole_rows = problem->contract.whole_rows && !r->column;
    r->ld = r->along_k ? matrix->own[0] : matrix->inner[0];
    r->a = samba_factor_bytes(problem, vector);
    r->b = samba_factor_bytes(problem, matrix);
    r->x_at = samba_frame_room(frame, problem->k * (int64_t)sizeof(float));
    frame->shared_bytes = r->n * (int64_t)sizeof(float);
    frame->units = divide_up(r->n, LINE);
    frame->in_order = true; /* each thread reads one part of the matrix */
    frame->apart = r->whole_rows;
    return SAMBA_OK;
}

const samba_road samba_road_row = {"row", sizeof(row), plan, prepare, NULL, run, finish, work, moved, NULL};
