/* SPDX-License-Identifier: Apache-2.0
 *
 * LAPACK as a plugin gives it (lapack/plugin.c), which alone knows its header: the library starts without it. The plugin is asked
 * for one symbol, samba_lapack_plugin, whose version and size must be those of this header.
 *
 * Matrices lie by columns, without gaps, in memory of the caller. Functions keep no state and may be called by several threads;
 * each call runs in the thread that calls. */
#ifndef SAMBA_LAPACK_H
#define SAMBA_LAPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMBA_LAPACK_VERSION 3
#define SAMBA_LAPACK_SYMBOL "samba_lapack_plugin"
#define SAMBA_LAPACK_LARGEST 16384              /* of the lesser of m and n: sizes of work beyond overflow LAPACK's integers */
#define SAMBA_LAPACK_LONGEST (INT32_MAX - 1024) /* of the greater: with what a pitch adds it is such an integer */

typedef enum samba_lapack_part {
    SAMBA_LAPACK_A,        /* a, overwritten: by L, by the vectors of EIGH, by reflections and R, by Q */
    SAMBA_LAPACK_B,        /* U (m, k); triangles that reflections are applied by */
    SAMBA_LAPACK_C,        /* V transposed (k, n); of LSTSQ and PINV room for R (k, k) */
    SAMBA_LAPACK_VALUES,   /* of EIGH, ascending, and of SVD, descending; of reflections */
    SAMBA_LAPACK_INTEGERS, /* LAPACK's own */
    SAMBA_LAPACK_WORK,
    SAMBA_LAPACK_SIDES, /* of LSTSQ: right sides, m rows that lie `line` elements apart */
    SAMBA_LAPACK_MORE,  /* of LSTSQ and PINV, where singular values count as 0 */
    SAMBA_LAPACK_PARTS
} samba_lapack_part;
typedef struct samba_lapack_task {
    int function; /* samba_matrix_function of plan/stage.h, but for EXP, LU and those that solve by known factors */
    bool wide;    /* float64, else float32 */
    bool values;  /* as samba_matrix_stage has it */
    bool turned;  /* LSTSQ, PINV: of the transpose, so that m >= n; right sides are then those of R transposed, n of them */
    int m, n, right;
    int pitch, line;    /* QR, LSTSQ, PINV: elements between columns of a, and between rows of right sides */
    double atol, rtol;  /* as samba_matrix_stage has them */
    int work, integers; /* elements of LAPACK's own work, which `room` sets */
    int block;          /* reflections that are applied at once, which `room` sets */
} samba_lapack_task;

typedef struct samba_lapack_interface {
    int version;
    size_t struct_size;
    /* Bytes of each part; 0: it has none. False: sizes that this LAPACK does not take. */
    bool (*room)(samba_lapack_task *task, int64_t bytes[SAMBA_LAPACK_PARTS]);
    /* CHOLESKY, EIGH, SVD: 0; or above 0: there is no result, since a is not positive definite, or the iteration does not end.
     * All sizes are 1 or more. */
    int (*run)(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS]);
    /* QR, LSTSQ, PINV: a = Q R, R above and the reflections that Q is the product of below; Q (m, k) in the place of them; and
     * what Q, or its transpose, makes of the right sides. */
    void (*reflections)(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS]);
    void (*vectors)(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS]);
    void (*reflect)(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS], bool transposed);
    /* LSTSQ, PINV: whether no singular value of R is near those that count as 0, by an estimate, and what to do where one may be,
     * in the place of a triangular system: of LSTSQ the n right sides become x; of PINV, a becomes Q (R^-1)^T. As `run` it says
     * whether there is a result. */
    bool (*regular)(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS]);
    int (*deficient)(const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS]);
    /* c = a b of n x n matrices */
    void (*multiply)(bool wide, int n, const void *a, const void *b, void *c);
} samba_lapack_interface;

typedef const samba_lapack_interface *samba_lapack_plugin_fn(void);

#endif
