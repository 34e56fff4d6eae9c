/* SPDX-License-Identifier: Apache-2.0
 *
 * Triangular systems a x = b (triangle.c). b is overwritten by x; its rows lie `line` elements apart, and `columns` of them
 * count. Up to `room` columns, whole vectors, are computed as well and count for nothing; they have to be there. With a line of
 * one element it is one column that is solved, for which a is read once; then alone may a lie by columns. */
#ifndef SAMBA_TRIANGLE_H
#define SAMBA_TRIANGLE_H

#include "device/cpu/kernel.h"

enum {
    SAMBA_TRIANGLE_LEAST = 64, /* bytes that a line is a multiple of: no vector is longer */
    SAMBA_TRIANGLE_MOST = 256, /* bytes of a line that are worth solving at once */
};

struct samba_triangle {
    const void *a; /* n x n, by rows that lie `pitch` elements apart, or by columns; the other triangle is not read */
    int64_t pitch, n, line, columns, room;
    bool turned;      /* by columns */
    bool upper, unit; /* unit: the diagonal is 1, and not read */
};

#endif
