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

static int lesser(int a, int b) { return a < b ? a : b; }
static int greater(int a, int b) { return a > b ? a : b; }

/* What LAPACK asks for in its workspace queries, as elements. */
#define QUERIES(name, real, s)                                                                                                   \
    static int64_t name##_work(const samba_lapack_task *t, int64_t *integers)                                                    \
    {                                                                                                                            \
        real size = 0, other = 0, none[1] = {0};                                                                                 \
        lapack_int count = 0;                                                                                                    \
        *integers = 0;                                                                                                           \
        switch (t->function) {                                                                                                   \
        case SAMBA_MATRIX_QR:                                                                                                    \
            LAPACKE_##s##geqrf_work(COLUMNS, t->m, t->n, none, t->m, none, &size, -1);                                           \
            LAPACKE_##s##orgqr_work(COLUMNS, t->m, lesser(t->m, t->n), lesser(t->m, t->n), none, t->m, none, &other, -1);        \
            break;                                                                                                               \
        case SAMBA_MATRIX_EIGH:                                                                                                  \
            LAPACKE_##s##syevd_work(COLUMNS, t->values ? 'N' : 'V', 'L', t->n, none, t->n, none, &size, -1, &count, -1);         \
            *integers = count;                                                                                                   \
            break;                                                                                                               \
        case SAMBA_MATRIX_SVD:                                                                                                   \
            LAPACKE_##s##gesdd_work(COLUMNS, t->values ? 'N' : 'S', t->m, t->n, none, t->m, none, none, t->m, none,              \
                                    lesser(t->m, t->n), &size, -1, &count);                                                      \
            *integers = 8 * (int64_t)lesser(t->m, t->n);                                                                         \
            break;                                                                                                               \
        default: return 0;                                                                                                       \
        }                                                                                                                        \
        size = other > size ? other : size;                                                                                      \
        return (int64_t)((double)size * 1.0001) + 1; /* a float may have been rounded down */                                    \
    }
QUERIES(single, float, s)
QUERIES(wide, double, d)

static bool room(samba_lapack_task *t, int64_t bytes[SAMBA_LAPACK_PARTS])
{
    const int64_t size = t->wide ? 8 : 4, k = lesser(t->m, t->n);
    const bool spectrum = t->function == SAMBA_MATRIX_EIGH || t->function == SAMBA_MATRIX_SVD;
    int64_t integers;
    if (t->m > SAMBA_LAPACK_LARGEST || t->n > SAMBA_LAPACK_LARGEST)
        return false;
    memset(bytes, 0, sizeof *bytes * SAMBA_LAPACK_PARTS);
    bytes[SAMBA_LAPACK_A] = size * t->m * t->n;
    if (t->function == SAMBA_MATRIX_QR || (t->function == SAMBA_MATRIX_SVD && !t->values))
        bytes[SAMBA_LAPACK_B] = size * t->m * k;
    if (t->function == SAMBA_MATRIX_SVD && !t->values)
        bytes[SAMBA_LAPACK_C] = size * k * t->n;
    if (spectrum || t->function == SAMBA_MATRIX_QR)
        bytes[SAMBA_LAPACK_VALUES] = size * k; /* of QR: the reflections' factors */
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
    static int name##_qr(const samba_lapack_task *t, real *a, real *q, real *factors, real *work)                                \
    {                                                                                                                            \
        const int k = lesser(t->m, t->n);                                                                                        \
        int status = LAPACKE_##s##geqrf_work(COLUMNS, t->m, t->n, a, t->m, factors, work, t->work);                              \
        memcpy(q, a, sizeof *a *(size_t)t->m *(size_t)k);                                                                        \
        return status ? status : LAPACKE_##s##orgqr_work(COLUMNS, t->m, k, k, q, t->m, factors, work, t->work);                  \
    }                                                                                                                            \
    static int name##_run(const samba_lapack_task *t, void *const parts[SAMBA_LAPACK_PARTS])                                     \
    {                                                                                                                            \
        real *a = parts[SAMBA_LAPACK_A], *b = parts[SAMBA_LAPACK_B], *c = parts[SAMBA_LAPACK_C],                                 \
             *values = parts[SAMBA_LAPACK_VALUES], *work = parts[SAMBA_LAPACK_WORK], none[1];                                    \
        lapack_int *integers = parts[SAMBA_LAPACK_INTEGERS];                                                                     \
        const int m = t->m, n = t->n;                                                                                            \
        switch (t->function) {                                                                                                   \
        case SAMBA_MATRIX_CHOLESKY: return LAPACKE_##s##potrf_work(COLUMNS, 'L', n, a, n);                                       \
        case SAMBA_MATRIX_QR: return name##_qr(t, a, b, values, work);                                                           \
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

static int run(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS])
{
    enter();
    const int status = (task->wide ? wide_run : single_run)(task, parts);
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
    static const samba_lapack_interface interface = {SAMBA_LAPACK_VERSION, sizeof interface, room, run, multiply};
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    one_at_a_time = openblas_get_config && strstr(openblas_get_config(), "SINGLE_THREADED");
    return &interface;
}
