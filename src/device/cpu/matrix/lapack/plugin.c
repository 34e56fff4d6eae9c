/* SPDX-License-Identifier: Apache-2.0
 *
 * LAPACK by its C interface, and CBLAS: a plugin of this file alone, nothing of the library is linked in.
 *
 * The functions ending in _work are called: they neither allocate nor look for NaN, which the caller does. Which BLAS does the
 * work is the system's choice. Where it has threads of its own, it is told to use one: threads are dealt matrices, and the
 * bits of a result must not depend on how many there are. OpenBLAS that was made without threads gives wrong results to two
 * that call at once; its calls wait for each other. */
#include "device/cpu/matrix/lapack.h"
#include "plan/stage.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* Of OpenBLAS alone: not there where the system has another BLAS. */
void openblas_set_num_threads(int threads) __attribute__((weak));
char *openblas_get_config(void) __attribute__((weak));

static bool one_at_a_time;
static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER;

static void enter(void)
{
    if (one_at_a_time)
        pthread_mutex_lock(&calling);
}

static void leave(void)
{
    if (one_at_a_time)
        pthread_mutex_unlock(&calling);
}

#define COLUMNS LAPACK_COL_MAJOR

enum {
    FEW = 64,          /* columns up to which reflections are made one by one ... */
    LONG = 1024,       /* ... which have up to so many rows */
    BLOCK = 32,        /* reflections that are applied at once ... */
    WIDE_BLOCK = 48,   /* ... and of so many columns */
    WIDE_BLOCKS = 384, /* or more */
    MOST_BLOCK = 64,   /* work that LAPACK's gesdd asks for of each row and column, at most */
    TURNS = 4,         /* products that lengths of R are estimated by */
    SAFETY = 4,        /* how far from those that count as 0 singular values are that are only estimated */
};

static int lesser(int a, int b) { return a < b ? a : b; }
static int greater(int a, int b) { return a > b ? a : b; }

/* Reflections one by one are fastest where a lies in a near cache. */
static bool one_by_one(const samba_lapack_task *t) { return lesser(t->m, t->n) <= FEW && t->m <= LONG; }

static bool reflects(const samba_lapack_task *t)
{
    return t->function == SAMBA_MATRIX_QR || t->function == SAMBA_MATRIX_LSTSQ || t->function == SAMBA_MATRIX_PINV;
}

/* What LAPACK asks for in its workspace queries, as elements. */
#define QUERIES(name, real, s)                                                                                                   \
    static int64_t name##_work(const samba_lapack_task *t, int64_t *integers)                                                    \
    {                                                                                                                            \
        const int k = lesser(t->m, t->n);                                                                                        \
        real size = 0, none[1] = {0};                                                                                            \
        lapack_int count = 0, rank = 0;                                                                                          \
        int64_t least = 0;                                                                                                       \
        *integers = 0;                                                                                                           \
        if (reflects(t)) {                                                                                                       \
            LAPACKE_##s##orgqr_work(COLUMNS, t->m, t->block, t->block, none, t->pitch, none, &size, -1);                         \
            least = (int64_t)t->block * greater(greater(t->n, t->right), 2 * k);                                                 \
            least = (int64_t)size > least ? (int64_t)size : least;                                                               \
        }                                                                                                                        \
        switch (t->function) {                                                                                                   \
        case SAMBA_MATRIX_LSTSQ:                                                                                                 \
            LAPACKE_##s##gelsy_work(COLUMNS, k, k, t->right, none, k, none, k, &count, 0, &rank, &size, -1);                     \
            *integers = k;                                                                                                       \
            break;                                                                                                               \
        case SAMBA_MATRIX_PINV:                                                                                                  \
            LAPACKE_##s##gesdd_work(COLUMNS, 'S', k, k, none, k, none, none, k, none, k, &size, -1, &count);                     \
            *integers = 8 * (int64_t)k;                                                                                          \
            break;                                                                                                               \
        case SAMBA_MATRIX_EIGH:                                                                                                  \
            LAPACKE_##s##syevd_work(COLUMNS, t->values ? 'N' : 'V', 'L', t->n, none, t->n, none, &size, -1, &count, -1);         \
            *integers = count;                                                                                                   \
            break;                                                                                                               \
        case SAMBA_MATRIX_SVD:                                                                                                   \
            LAPACKE_##s##gesdd_work(COLUMNS, t->values ? 'N' : 'S', t->m, t->n, none, t->m, none, none, t->m, none, k, &size,    \
                                    -1, &count);                                                                                 \
            *integers = 8 * (int64_t)k;                                                                                          \
            break;                                                                                                               \
        default: return least;                                                                                                   \
        }                                                                                                                        \
        const int64_t asked = (int64_t)((double)size * 1.0001) + 1; /* a float may have been rounded down */                     \
        return asked > least ? asked : least;                                                                                    \
    }
QUERIES(single, float, s)
QUERIES(wide, double, d)

static bool room(samba_lapack_task *t, int64_t bytes[SAMBA_LAPACK_PARTS])
{
    const int64_t size = t->wide ? 8 : 4, k = lesser(t->m, t->n);
    const bool svd = t->function == SAMBA_MATRIX_SVD, lstsq = t->function == SAMBA_MATRIX_LSTSQ,
               pinv = t->function == SAMBA_MATRIX_PINV;
    int64_t integers;
    if (k > SAMBA_LAPACK_LARGEST || (svd && (int64_t)t->m + t->n > INT32_MAX / MOST_BLOCK))
        return false;
    t->block = lesser((int)k, k < WIDE_BLOCKS ? BLOCK : WIDE_BLOCK);
    memset(bytes, 0, sizeof *bytes * SAMBA_LAPACK_PARTS);
    bytes[SAMBA_LAPACK_A] = size * (reflects(t) ? t->pitch : t->m) * t->n;
    if (svd && !t->values)
        bytes[SAMBA_LAPACK_B] = size * t->m * k;
    if (reflects(t))
        bytes[SAMBA_LAPACK_B] = size * t->block * k;
    if ((svd && !t->values) || lstsq || pinv)
        bytes[SAMBA_LAPACK_C] = size * k * t->n;
    if (svd || t->function == SAMBA_MATRIX_EIGH || reflects(t))
        bytes[SAMBA_LAPACK_VALUES] = size * k;
    if (lstsq)
        bytes[SAMBA_LAPACK_SIDES] = size * t->m * t->line;
    bytes[SAMBA_LAPACK_MORE] = size * (lstsq ? k * t->right : pinv ? k * (2 * k + t->m) : 0);
    const int64_t work = (t->wide ? wide_work : single_work)(t, &integers);
    if (work < 0 || work > INT32_MAX || integers < 0 || integers > INT32_MAX)
        return false;
    t->work = (int)work;
    t->integers = (int)integers;
    bytes[SAMBA_LAPACK_INTEGERS] = (int64_t)sizeof(lapack_int) * integers;
    bytes[SAMBA_LAPACK_WORK] = size * work;
    return true;
}

#define FUNCTIONS(name, real, s)                                                                                                 \
    static int name##_run(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS])                                     \
    {                                                                                                                            \
        real *a = parts[SAMBA_LAPACK_A], *b = parts[SAMBA_LAPACK_B], *c = parts[SAMBA_LAPACK_C],                                 \
             *values = parts[SAMBA_LAPACK_VALUES], *work = parts[SAMBA_LAPACK_WORK], none[1];                                    \
        lapack_int *integers = parts[SAMBA_LAPACK_INTEGERS];                                                                     \
        const int m = t->m, n = t->n;                                                                                            \
        switch (t->function) {                                                                                                   \
        case SAMBA_MATRIX_CHOLESKY: return LAPACKE_##s##potrf_work(COLUMNS, 'L', n, a, n);                                       \
        case SAMBA_MATRIX_EIGH:                                                                                                  \
            return LAPACKE_##s##syevd_work(COLUMNS, t->values ? 'N' : 'V', 'L', n, a, n, values, work, t->work, integers,        \
                                           t->integers);                                                                         \
        case SAMBA_MATRIX_SVD:                                                                                                   \
            return LAPACKE_##s##gesdd_work(COLUMNS, t->values ? 'N' : 'S', m, n, a, m, values, t->values ? none : b, m,          \
                                           t->values ? none : c, greater(1, lesser(m, n)), work, t->work, integers);             \
        default: return 1;                                                                                                       \
        }                                                                                                                        \
    }
FUNCTIONS(single, float, s)
FUNCTIONS(wide, double, d)

/* Blocks of reflections are one triangle each (larft), which stays for all that they are applied to. In geqrt a block is made by
 * halves.
 *
 * The greatest singular value of R is about what R and its transpose, in turns, lengthen a vector by most; the least one is found
 * in the same way by R^-1. Either is seldom far from what it says. */
#define REFLECTIONS(name, real, s)                                                                                               \
    static void name##_reflections(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS])                            \
    {                                                                                                                            \
        const int m = t->m, n = t->n, pitch = t->pitch, k = lesser(m, n);                                                        \
        real *a = parts[SAMBA_LAPACK_A], *triangles = parts[SAMBA_LAPACK_B], *factors = parts[SAMBA_LAPACK_VALUES],              \
             *work = parts[SAMBA_LAPACK_WORK];                                                                                   \
        if (!one_by_one(t)) {                                                                                                    \
            LAPACKE_##s##geqrt_work(COLUMNS, m, n, t->block, a, pitch, triangles, t->block, work);                               \
            return;                                                                                                              \
        }                                                                                                                        \
        LAPACKE_##s##geqr2_work(COLUMNS, m, n, a, pitch, factors, work);                                                         \
        for (int i = 0; i < k && (k > t->block || t->function == SAMBA_MATRIX_LSTSQ); i += t->block)                             \
            LAPACKE_##s##larft_work(COLUMNS, 'F', 'C', m - i, lesser(t->block, k - i), a + i + (int64_t)i * pitch, pitch,        \
                                    factors + i, triangles + (int64_t)i * t->block, t->block);                                   \
    }                                                                                                                            \
    /* As orgqr does, from the last block to the first, by the triangles that there are; one block of few needs none. */         \
    static void name##_vectors(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS])                                \
    {                                                                                                                            \
        const int m = t->m, pitch = t->pitch, k = lesser(m, t->n), block = t->block;                                             \
        real *a = parts[SAMBA_LAPACK_A], *triangles = parts[SAMBA_LAPACK_B], *factors = parts[SAMBA_LAPACK_VALUES],              \
             *work = parts[SAMBA_LAPACK_WORK];                                                                                   \
        const bool has_factors = k <= block && one_by_one(t);                                                                    \
        for (int i = (k - 1) / block * block; i >= 0; i -= block) {                                                              \
            const int columns = lesser(block, k - i), rest = k - i - columns;                                                    \
            real *first = a + i + (int64_t)i * pitch, *behind = first + (int64_t)columns * pitch,                                \
                 *triangle = triangles + (int64_t)i * block;                                                                     \
            for (int j = 0; j < rest; j++)                                                                                       \
                memset(behind + (int64_t)j * pitch, 0, sizeof *a * (size_t)columns);                                             \
            if (rest > 0)                                                                                                        \
                LAPACKE_##s##larfb_work(COLUMNS, 'L', 'N', 'F', 'C', m - i, rest, columns, first, pitch, triangle, block,        \
                                        behind, pitch, work, rest);                                                              \
            for (int j = 0; j < columns && !has_factors; j++)                                                                    \
                factors[j] = triangle[(int64_t)j * block + j];                                                                   \
            LAPACKE_##s##orgqr_work(COLUMNS, m - i, columns, columns, first, pitch, factors, work, t->work);                     \
        }                                                                                                                        \
    }                                                                                                                            \
    /* Rows of right sides are columns of their transpose. */                                                                    \
    static void name##_reflect(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS], bool transposed)               \
    {                                                                                                                            \
        LAPACKE_##s##gemqrt_work(COLUMNS, 'R', transposed ? 'N' : 'T', t->right, t->m, lesser(t->m, t->n), t->block,             \
                                 parts[SAMBA_LAPACK_A], t->pitch, parts[SAMBA_LAPACK_B], t->block, parts[SAMBA_LAPACK_SIDES],    \
                                 t->line, parts[SAMBA_LAPACK_WORK]);                                                             \
    }                                                                                                                            \
    /* x becomes a unit vector; what its length was. */                                                                          \
    static double name##_unit(int n, real *x)                                                                                    \
    {                                                                                                                            \
        double sum = 0;                                                                                                          \
        for (int i = 0; i < n; i++)                                                                                              \
            sum += (double)x[i] * (double)x[i];                                                                                  \
        sum = sqrt(sum);                                                                                                         \
        for (int i = 0; i < n; i++)                                                                                              \
            x[i] = (real)((double)x[i] / sum);                                                                                   \
        return sum;                                                                                                              \
    }                                                                                                                            \
    /* Whether the least singular value of R is well above what counts as 0: NaN and infinities are not. */                      \
    static bool name##_regular(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS])                                \
    {                                                                                                                            \
        const int k = lesser(t->m, t->n);                                                                                        \
        const real *r = parts[SAMBA_LAPACK_A];                                                                                   \
        real *x = parts[SAMBA_LAPACK_WORK];                                                                                      \
        double longest[2] = {0};                                                                                                 \
        for (int i = 0; i < k; i++)                                                                                              \
            if (r[i + (int64_t)i * t->pitch] == 0)                                                                               \
                return false;                                                                                                    \
        for (int inverse = 0; inverse < 2; inverse++) {                                                                          \
            uint32_t drawn = 1;                                                                                                  \
            for (int i = 0; i < k; i++) {                                                                                        \
                drawn = drawn * 1664525 + 1013904223;                                                                            \
                x[i] = (real)((drawn >> 31 ? 1 : -1) * (1 + (drawn >> 8 & 255) / 256.0));                                        \
            }                                                                                                                    \
            name##_unit(k, x);                                                                                                   \
            for (int turn = 0; turn < TURNS; turn++) {                                                                           \
                const enum CBLAS_TRANSPOSE way = (turn + inverse) % 2 ? CblasTrans : CblasNoTrans;                               \
                const lapack_int pitch = t->pitch;                                                                               \
                inverse ? cblas_##s##trsv(CblasColMajor, CblasUpper, way, CblasNonUnit, k, r, pitch, x, 1)                       \
                        : cblas_##s##trmv(CblasColMajor, CblasUpper, way, CblasNonUnit, k, r, pitch, x, 1);                      \
                const double length = name##_unit(k, x);                                                                         \
                longest[inverse] = length <= longest[inverse] ? longest[inverse] : length;                                       \
            }                                                                                                                    \
        }                                                                                                                        \
        return 1 / longest[1] > SAFETY * fmax(t->atol, t->rtol * longest[0]);                                                    \
    }                                                                                                                            \
    static int name##_least(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS])                                   \
    {                                                                                                                            \
        const int k = lesser(t->m, t->n), right = t->right;                                                                      \
        real *r = parts[SAMBA_LAPACK_C], *sides = parts[SAMBA_LAPACK_SIDES], *columns = parts[SAMBA_LAPACK_MORE];                \
        lapack_int *exchanged = parts[SAMBA_LAPACK_INTEGERS], rank;                                                              \
        for (int j = 0; j < right; j++)                                                                                          \
            for (int i = 0; i < k; i++)                                                                                          \
                columns[(int64_t)j * k + i] = sides[(int64_t)i * t->line + j];                                                   \
        memset(exchanged, 0, sizeof *exchanged *(size_t)k);                                                                      \
        const int status = LAPACKE_##s##gelsy_work(COLUMNS, k, k, right, r, k, columns, k, exchanged, (real)t->rtol, &rank,      \
                                                   parts[SAMBA_LAPACK_WORK], t->work);                                           \
        for (int j = 0; j < right; j++)                                                                                          \
            for (int i = 0; i < k; i++)                                                                                          \
                sides[(int64_t)i * t->line + j] = columns[(int64_t)j * k + i];                                                   \
        return status;                                                                                                           \
    }                                                                                                                            \
    /* With R = U S V^T it is Q (U S^-1 V^T). */                                                                                 \
    static int name##_inverse(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS])                                 \
    {                                                                                                                            \
        const int k = lesser(t->m, t->n), m = t->m;                                                                              \
        real *a = parts[SAMBA_LAPACK_A], *r = parts[SAMBA_LAPACK_C], *values = parts[SAMBA_LAPACK_VALUES],                       \
             *u = parts[SAMBA_LAPACK_MORE], *v = u + (int64_t)k * k, *result = v + (int64_t)k * k;                               \
        name##_vectors(t, parts);                                                                                                \
        const int status = LAPACKE_##s##gesdd_work(COLUMNS, 'S', k, k, r, k, values, u, k, v, k, parts[SAMBA_LAPACK_WORK],       \
                                                   t->work, parts[SAMBA_LAPACK_INTEGERS]);                                       \
        for (int j = 0; j < k; j++) {                                                                                            \
            const bool counts = (double)values[j] > fmax(t->atol, t->rtol * (double)values[0]);                                  \
            for (int i = 0; i < k; i++)                                                                                          \
                u[(int64_t)j * k + i] = counts ? u[(int64_t)j * k + i] / values[j] : 0;                                          \
        }                                                                                                                        \
        cblas_##s##gemm(CblasColMajor, CblasNoTrans, CblasNoTrans, k, k, k, 1, u, k, v, k, 0, r, k);                             \
        cblas_##s##gemm(CblasColMajor, CblasNoTrans, CblasNoTrans, m, k, k, 1, a, t->pitch, r, k, 0, result, m);                 \
        for (int j = 0; j < k; j++)                                                                                              \
            memcpy(a + (int64_t)j * t->pitch, result + (int64_t)j * m, sizeof *a * (size_t)m);                                   \
        return status;                                                                                                           \
    }                                                                                                                            \
    static int name##_deficient(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS])                               \
    {                                                                                                                            \
        const int k = lesser(t->m, t->n);                                                                                        \
        const bool least = t->function == SAMBA_MATRIX_LSTSQ, turned = least && t->turned;                                       \
        const real *a = parts[SAMBA_LAPACK_A];                                                                                   \
        real *r = parts[SAMBA_LAPACK_C];                                                                                         \
        for (int64_t j = 0; j < k; j++)                                                                                          \
            for (int64_t i = 0; i < k; i++)                                                                                      \
                r[turned ? i * k + j : j * k + i] = i <= j ? a[j * t->pitch + i] : 0;                                            \
        return (least ? name##_least : name##_inverse)(t, parts);                                                                \
    }
REFLECTIONS(single, float, s)
REFLECTIONS(wide, double, d)

static int run(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS])
{
    enter();
    const int status = (task->wide ? wide_run : single_run)(task, parts);
    leave();
    return status;
}

static void reflections(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS])
{
    enter();
    (task->wide ? wide_reflections : single_reflections)(task, parts);
    leave();
}

static void vectors(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS])
{
    enter();
    (task->wide ? wide_vectors : single_vectors)(task, parts);
    leave();
}

static void reflect(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS], bool transposed)
{
    enter();
    (task->wide ? wide_reflect : single_reflect)(task, parts, transposed);
    leave();
}

static bool regular(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS])
{
    enter();
    const bool is = (task->wide ? wide_regular : single_regular)(task, parts);
    leave();
    return is;
}

static int deficient(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS])
{
    enter();
    const int status = (task->wide ? wide_deficient : single_deficient)(task, parts);
    leave();
    return status;
}

static void multiply(bool wide, int n, const void *a, const void *b, void *c)
{
    enter();
    if (wide)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
    else
        cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
    leave();
}

#define SHOWN __attribute__((visibility("default")))
SHOWN const samba_lapack_interface *samba_lapack_plugin(void);

const samba_lapack_interface *samba_lapack_plugin(void)
{
    static const samba_lapack_interface interface = {
        SAMBA_LAPACK_VERSION, sizeof interface, room, run, reflections, vectors, reflect, regular, deficient, multiply};
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    one_at_a_time = openblas_get_config && strstr(openblas_get_config(), "SINGLE_THREADED");
    return &interface;
}
