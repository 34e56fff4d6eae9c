/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix stage: LAPACK's functions, and the exponential, of each matrix of a batch. Threads are dealt matrices, each of which
 * one thread computes alone: a result has the same bits whatever the threads.
 *
 * LU is our own (lu.h). So are triangular systems, and those whose factors are known (triangle.h): some columns of the right
 * sides at once, which are what is dealt.
 *
 * A matrix is copied by columns into the thread's scratch, computed there, and its parts are copied into the result. LAPACK never
 * sees memory of the device, NaN where it would not end, or exchanged rows beyond the matrix. All scratch is known when the stage
 * is prepared, since LAPACK says then what it works in.
 *
 * Matrices of one element need no function at all, and those of few columns, EIGH and SVD, have their own (few.h).
 *
 * Vectors of EIGH and SVD are unique up to their signs. Here the first element of a vector that is more than a third of its
 * greatest, of SVD in U, is positive, whichever LAPACK there is. */
#include "device/cpu/matrix/matrix.h"
#include "device/cpu/kernel.h"
#include "device/cpu/machine.h"
#include "device/cpu/matrix/few.h"
#include "device/cpu/matrix/lu.h"
#include "device/cpu/matrix/triangle.h"

#include <math.h>
#include <string.h>

enum {
    SIDES_AT_ONCE = 512, /* of LSTSQ: reflections are products with so many columns */
    LITTLE = 4,          /* rows up to which LU is plain loops */
    LINE_OF_ONE = 4096,  /* of right sides of one row: columns that are dealt to threads */
};

typedef struct operand { /* strides in elements */
    char *memory;
    int64_t batch, row, column;
} operand;
typedef struct matrix_state {
    samba_matrix_stage stage;
    samba_lapack_task task;
    const samba_lapack_interface *lapack;
    operand operands[3];
    int operand_count;
    int64_t sizes[3][2], batch;
    int64_t begin[SAMBA_LAPACK_PARTS]; /* of each part in a thread's scratch */
    int64_t scratch;                   /* bytes of that */
    double each;                       /* ns of a matrix, or of columns of its right sides, about */
    int64_t line, panels;              /* of solving: columns at once, and how often that is of a matrix */
    int64_t pitch;                     /* elements between two rows that LU is made of */
    const samba_kernels *kernels;
    bool (*one)(const struct matrix_state *s, int64_t element, char *scratch); /* a whole matrix; false: it has no result */
    bool (*some)(const struct matrix_state *s, int64_t element, int64_t panel, bool anew, char *scratch); /* columns of one */
    volatile int32_t *fault;
    int64_t *fault_element;
    int32_t fault_value;
} matrix_state;

static void place(const matrix_state *s, char *scratch, void *parts[SAMBA_LAPACK_PARTS])
{
    for (int i = 0; i < SAMBA_LAPACK_PARTS; i++)
        parts[i] = scratch + s->begin[i];
}

#define REAL float
#define NAME(x) f32_##x
#define EXPONENTIAL samba_matrix_exp_f32
#include "device/cpu/matrix/matrix_body.h"
#undef REAL
#undef NAME
#undef EXPONENTIAL
#define REAL double
#define NAME(x) f64_##x
#define EXPONENTIAL samba_matrix_exp_f64
#include "device/cpu/matrix/matrix_body.h"

static const char *fault_of(const samba_matrix_stage *matrix)
{
    switch ((samba_matrix_function)matrix->function) {
    case SAMBA_MATRIX_CHOLESKY: return "is not positive definite";
    case SAMBA_MATRIX_LU: return "is singular";
    case SAMBA_MATRIX_LU_SOLVE:
    case SAMBA_MATRIX_LU_INVERSE: return "was not made by lu_factors: its last row names no rows to exchange";
    default: return "has NaN or infinite elements, or the iteration for it does not end";
    }
}

samba_status samba_matrix_fail(samba_context *context, const samba_stage *stages, int64_t fault_element)
{
    const int64_t at = fault_element - 1, element = at & (((int64_t)1 << 40) - 1);
    const samba_stage *stage = &stages[at >> 40];
    return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                      "stage %d \"%.128s\": matrix %lld of its batch %s; the run went on with NaN in the place of its result, up "
                      "to OPT, which did not run: check the inputs that the matrix is computed from, and begin the step anew",
                      (int)(at >> 40), stage->name, (long long)element, fault_of(&stage->matrix));
}

static void run_solve(const void *state, char *scratch, int phase, int thread, int threads)
{
    const matrix_state *s = state;
    (void)phase;
    scratch += s->scratch * thread;
    int64_t held = -1; /* the matrix that was copied last */
    for (int64_t i = s->batch * s->panels * thread / threads; i < s->batch * s->panels * (thread + 1) / threads; i++) {
        const int64_t element = i / s->panels, panel = i % s->panels;
        if (!s->some(s, element, panel, element != held, scratch))
            samba_fault_raise(s->fault, s->fault_element, s->fault_value, element);
        held = element;
    }
}

static void run_matrix(const void *state, char *scratch, int phase, int thread, int threads)
{
    const matrix_state *s = state;
    (void)phase;
    scratch += s->scratch * thread;
    for (int64_t i = s->batch * thread / threads; i < s->batch * (thread + 1) / threads; i++) {
        if (s->one(s, i, scratch))
            continue;
        (s->task.wide ? f64_spoil : f32_spoil)(s, i);
        samba_fault_raise(s->fault, s->fault_element, s->fault_value, i);
    }
}

static int64_t matrix_units(const void *state, int phase, int threads, bool *free)
{
    (void)phase, (void)threads;
    *free = false;
    const matrix_state *s = state;
    return s->batch * s->panels;
}

static double matrix_work(const void *state, int phase, int threads, int64_t unit)
{
    (void)phase, (void)threads, (void)unit;
    return ((const matrix_state *)state)->each;
}

static const samba_dealing matrix_dealing = {matrix_units, matrix_work, NULL, NULL};

/* A matrix of more columns than rows is turned for LSTSQ and PINV. Its columns lie so that vectors may read beyond their ends. */
static void plan_reflections(matrix_state *s)
{
    samba_lapack_task *task = &s->task;
    const int64_t size = task->wide ? 8 : 4;
    const bool cuts = s->stage.function == SAMBA_MATRIX_LSTSQ || s->stage.function == SAMBA_MATRIX_PINV;
    task->turned = cuts && task->m < task->n;
    if (task->turned) {
        task->m = (int)s->stage.n;
        task->n = (int)s->stage.m;
    }
    task->pitch = (int)samba_lu_pitch(task->m, size);
    if (s->stage.function == SAMBA_MATRIX_LSTSQ) {
        task->right = s->stage.right < SIDES_AT_ONCE ? (int)s->stage.right : SIDES_AT_ONCE;
        task->line = (int)samba_lu_pitch(task->right, size);
    }
}

/* A function of one number. */
static bool is_lone(const matrix_state *s)
{
    switch ((samba_matrix_function)s->stage.function) {
    case SAMBA_MATRIX_CHOLESKY:
    case SAMBA_MATRIX_LU:
    case SAMBA_MATRIX_QR:
    case SAMBA_MATRIX_EIGH:
    case SAMBA_MATRIX_SVD: return s->stage.m == 1 && s->stage.n == 1;
    default: return false;
    }
}

/* Singular values of few columns or rows, and eigenvalues of as many. */
static bool is_few(const matrix_state *s)
{
    const bool spectrum = s->stage.function == SAMBA_MATRIX_EIGH || s->stage.function == SAMBA_MATRIX_SVD;
    return spectrum && (s->stage.m <= SAMBA_FEW || s->stage.n <= SAMBA_FEW);
}

/* LAPACK says what its parts are of, and which sizes it takes. */
static bool ask(matrix_state *s, int64_t bytes[SAMBA_LAPACK_PARTS])
{
    const int64_t m = s->stage.m, n = s->stage.n;
    if ((m < n ? m : n) > SAMBA_LAPACK_LARGEST || m > SAMBA_LAPACK_LONGEST || n > SAMBA_LAPACK_LONGEST)
        return false;
    s->task.m = (int)m;
    s->task.n = (int)n;
    plan_reflections(s);
    return m == 0 || s->lapack->room(&s->task, bytes);
}

/* What is asked of LAPACK, and where each part begins in a thread's scratch. */
static samba_status place_parts(const samba_preparing *prepare, const samba_stage *stage, matrix_state *s)
{
    int64_t of[SAMBA_LAPACK_PARTS] = {0};
    s->task = (samba_lapack_task){.function = s->stage.function,
                                  .wide = stage->operands[0].dtype == SAMBA_FLOAT64,
                                  .values = s->stage.values != 0,
                                  .atol = s->stage.atol,
                                  .rtol = s->stage.rtol};
    if (s->lapack && !is_few(s) && !ask(s, of))
        return samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED,
                          "stage %s has matrices of %lld x %lld; of rows and columns, whichever are fewer, linear algebra takes "
                          "up to %d, and of the others as many as LAPACK counts in 32 bits",
                          stage->name, (long long)s->stage.m, (long long)s->stage.n, SAMBA_LAPACK_LARGEST);
    if (s->stage.function == SAMBA_MATRIX_EXP)
        of[SAMBA_LAPACK_B] = SAMBA_EXP_ROOM * of[SAMBA_LAPACK_A];
    for (int i = 0; i < SAMBA_LAPACK_PARTS; i++) {
        s->begin[i] = s->scratch;
        s->scratch += (of[i] + 63) / 64 * 64;
    }
    return SAMBA_OK;
}

/* Columns at once are as many as the right sides fill: a whole line of them, or a part. Of one column the matrix may lie either
 * way, and one row is a division of as many columns as are worth dealing. */
static void plan_solving(matrix_state *s)
{
    const int64_t size = s->task.wide ? 8 : 4, n = s->stage.n;
    const int64_t right = s->operand_count == 3 ? s->stage.right : n;
    const bool few = right * size <= SAMBA_TRIANGLE_LEAST;
    const bool one = s->operand_count == 3 && right == 1, by_rows = s->operands[0].column == 1;
    const bool in_place = n == 1 || (one ? by_rows || s->operands[0].row == 1 : by_rows && !s->stage.transposed);
    const int64_t copied = in_place ? 0 : size * n * n;
    s->line = n == 1 ? LINE_OF_ONE : one ? 1 : (few ? SAMBA_TRIANGLE_LEAST : SAMBA_TRIANGLE_MOST) / size;
    s->panels = (right + s->line - 1) / s->line;
    s->begin[SAMBA_LAPACK_B] = (copied + 63) / 64 * 64;
    s->begin[SAMBA_LAPACK_INTEGERS] = s->begin[SAMBA_LAPACK_B] + size * n * s->line;
    s->scratch = s->begin[SAMBA_LAPACK_INTEGERS] + ((int64_t)sizeof(int32_t) * n + 63) / 64 * 64;
}

static void plan_few(matrix_state *s)
{
    const int64_t m = s->stage.m, n = s->stage.n;
    s->scratch = (int64_t)sizeof(double) * (m < n ? samba_few_room(n, m) : samba_few_room(m, n));
}

static void plan_lu(matrix_state *s)
{
    const int64_t size = s->task.wide ? 8 : 4, n = s->stage.n;
    s->pitch = samba_lu_pitch(n, size);
    s->begin[SAMBA_LAPACK_B] = size * n * s->pitch;
    s->begin[SAMBA_LAPACK_INTEGERS] = s->begin[SAMBA_LAPACK_B] + size * samba_lu_room(n, size);
    s->scratch = s->begin[SAMBA_LAPACK_INTEGERS] + ((int64_t)sizeof(int32_t) * n + 63) / 64 * 64;
}

samba_status samba_prepare_matrix(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    matrix_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    *s = (matrix_state){.stage = stage->matrix,
                        .batch = stage->domain[0],
                        .operand_count = stage->operand_count,
                        .panels = 1,
                        .kernels = prepare->machine->kernels,
                        .fault = prepare->fault,
                        .fault_element = prepare->fault_element,
                        .fault_value = prepare->stage_index + 1};
    samba_matrix_sizes(&stage->matrix, s->sizes);
    if (s->batch == 0 || stage->domain[1] == 0 || stage->domain[2] == 0)
        s->batch = 0; /* nothing to write */
    for (int i = 0; i < stage->operand_count; i++) {
        const samba_operand *from = &stage->operands[i];
        s->operands[i] = (operand){samba_operand_memory(prepare, from), from->strides[0], from->strides[1], from->strides[2]};
    }
    const bool wide = stage->operands[0].dtype == SAMBA_FLOAT64, lu = s->stage.function == SAMBA_MATRIX_LU,
               inverse = s->stage.function == SAMBA_MATRIX_LU_INVERSE,
               solves = inverse || s->stage.function == SAMBA_MATRIX_TRIANGULAR || s->stage.function == SAMBA_MATRIX_LU_SOLVE;
    if (!solves && !lu)
        SAMBA_TRY(samba_lapack_find(prepare->context, prepare->machine->isa, &s->lapack));
    if (s->batch > 0)
        SAMBA_TRY(place_parts(prepare, stage, s));
    if (s->batch > 0 && solves)
        plan_solving(s);
    if (s->batch > 0 && lu)
        plan_lu(s);
    if (s->batch > 0 && is_few(s))
        plan_few(s);
    switch ((samba_matrix_function)s->stage.function) {
    case SAMBA_MATRIX_LU: s->one = s->stage.n > LITTLE ? wide ? f64_lu : f32_lu : wide ? f64_little_lu : f32_little_lu; break;
    case SAMBA_MATRIX_QR: s->one = wide ? f64_qr : f32_qr; break;
    case SAMBA_MATRIX_LSTSQ: s->one = wide ? f64_lstsq : f32_lstsq; break;
    case SAMBA_MATRIX_PINV: s->one = wide ? f64_pinv : f32_pinv; break;
    default: s->one = wide ? f64_one : f32_one;
    }
    if (is_few(s))
        s->one = wide ? f64_few : f32_few;
    if (is_lone(s))
        s->one = wide ? f64_lone : f32_lone;
    s->some = inverse ? wide ? f64_inverse : f32_inverse : wide ? f64_panel : f32_panel;
    s->each = s->batch > 0 ? (double)stage->flops / (double)(s->batch * s->panels) / prepare->machine->share.matrix * 1e9 : 0;
    *prepared = (samba_prepared){.run = solves ? run_solve : run_matrix,
                                 .state = s,
                                 .phases = 1,
                                 .thread_scratch = s->scratch,
                                 .dealing = &matrix_dealing};
    return SAMBA_OK;
}
