/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices of few columns (few.h): a call of LAPACK costs more than such a matrix does.
 *
 * a = Q R, block by block of rows (Demmel, Grigori, Hoemmen and Langou 2012): the triangle that is known and one more block give
 * the next triangle, by reflections that each have one element in the triangle's place, and the rest in the block. So a block
 * is read once for R and once for the vectors. R = U S V^T by rotations of its columns until they stand at right angles
 * (Hestenes 1958), and the long vectors are Q U, by all the reflections of a block at once. Q is always that of whole matrices,
 * so the vectors are at right angles whatever the rank. A symmetric matrix is turned to a diagonal by Jacobi's rotations.
 * Compiled once for each ISA. */
#include "device/cpu/isa/isa.h"
#include "device/cpu/isa/lanes.h"
#include "device/cpu/matrix/few.h"
#include "device/cpu/tile/parts.h"

#include <math.h>
#include <string.h>

enum {
    LANES = VECTOR_BYTES / (int)sizeof(double),
    SWEEPS = 30, /* five or six, of so few columns */
};
#define NOTHING 1e-280 /* the square of a length that is none: the greatest element is at least 1e-100 */

typedef struct reflection {
    double head, factor; /* 1 - factor v v^T, v the head and what stands in the block */
} reflection;

INLINE doubles at(const double *x)
{
    doubles v;
    __builtin_memcpy(&v, x, sizeof v);
    return v;
}

/* Products of x with `count` columns. */
INLINE void some_dots(const double *x, const double *y, int64_t pitch, const int count, double *dots)
{
    doubles sum[SAMBA_FEW] = {{0}};
    for (int64_t i = 0; i < pitch; i += LANES) {
        UNROLL for (int c = 0; c < count; c++)
            sum[c] += at(x + i) * at(y + c * pitch + i);
    }
    UNROLL for (int c = 0; c < count; c++) {
        dots[c] = 0;
        for (int l = 0; l < LANES; l++)
            dots[c] += sum[c][l];
    }
}

static void dots_of(const double *x, const double *y, int64_t pitch, int count, double *dots)
{
    switch (count) {
    case 1: some_dots(x, y, pitch, 1, dots); break;
    case 2: some_dots(x, y, pitch, 2, dots); break;
    case 3: some_dots(x, y, pitch, 3, dots); break;
    case 4: some_dots(x, y, pitch, 4, dots); break;
    default: break;
    }
}

/* The reflection that leaves of a column nothing below `head`, which becomes what it leaves there. */
static reflection reflection_of(double *head, double squares)
{
    if (squares < NOTHING)
        return (reflection){0};
    const double own = *head, length = sqrt(squares + own * own);
    *head = own < 0 ? length : -length;
    return (reflection){own - *head, 1 / (length * (length + fabs(own)))};
}

/* Of the first k rows R, and their reflections below its diagonal. */
static void factorize_first(samba_few *few, reflection *made)
{
    for (int j = 0; j < few->k; j++) {
        double *x = few->first[j], squares = 0;
        for (int i = j + 1; i < few->k; i++)
            squares += x[i] * x[i];
        made[j] = reflection_of(&x[j], squares);
        for (int c = j + 1; c < few->k; c++) {
            double *y = few->first[c], dot = made[j].head * y[j];
            for (int i = j + 1; i < few->k; i++)
                dot += x[i] * y[i];
            dot *= made[j].factor;
            y[j] -= dot * made[j].head;
            for (int i = j + 1; i < few->k; i++)
                y[i] -= dot * x[i];
        }
    }
}

/* R, the upper triangle in `first`, and a block: R of both, and reflections in the place of the block. */
static void factorize_block(samba_few *few, double *block, int64_t pitch, reflection *made)
{
    for (int j = 0; j < few->k; j++) {
        double *x = block + j * pitch, dots[SAMBA_FEW] = {0};
        dots_of(x, x, pitch, few->k - j, dots);
        made[j] = reflection_of(&few->first[j][j], dots[0]);
        for (int c = j + 1; c < few->k; c++) {
            double *y = block + c * pitch;
            const double dot = made[j].factor * (made[j].head * few->first[c][j] + dots[c - j]);
            few->first[c][j] -= dot * made[j].head;
            for (int64_t i = 0; i < pitch; i += LANES) {
                const doubles less = at(y + i) - dot * at(x + i);
                __builtin_memcpy(y + i, &less, sizeof less);
            }
        }
    }
}

/* What a block's reflections make of vectors, of which `top` is what stands in the triangle's place and the rest is 0: the
 * reflections' place is theirs then. With G the products of reflections among each other, what each of them takes away is known
 * before any is. */
INLINE void some_vectors(double top[SAMBA_FEW][SAMBA_FEW], double *block, int64_t pitch, const int k, const reflection *made)
{
    double taken[SAMBA_FEW][SAMBA_FEW];
    for (int j = k - 1; j >= 0; j--) {
        double dots[SAMBA_FEW] = {0};
        dots_of(block + j * pitch, block + (j + 1) * pitch, pitch, k - 1 - j, dots);
        for (int q = 0; q < k; q++) {
            double dot = made[j].head * top[q][j];
            for (int i = j + 1; i < k; i++)
                dot -= taken[i][q] * dots[i - j - 1];
            taken[j][q] = made[j].factor * dot;
            top[q][j] -= taken[j][q] * made[j].head;
        }
    }
    for (int64_t i = 0; i < pitch; i += LANES) {
        doubles sum[SAMBA_FEW] = {{0}};
        UNROLL for (int j = 0; j < k; j++) {
            UNROLL for (int q = 0; q < k; q++)
                sum[q] -= taken[j][q] * at(block + j * pitch + i);
        }
        UNROLL for (int q = 0; q < k; q++)
            __builtin_memcpy(block + q * pitch + i, &sum[q], sizeof sum[q]);
    }
}

static void block_vectors(double top[SAMBA_FEW][SAMBA_FEW], double *block, int64_t pitch, int k, const reflection *made)
{
    switch (k) {
    case 1: some_vectors(top, block, pitch, 1, made); break;
    case 2: some_vectors(top, block, pitch, 2, made); break;
    case 3: some_vectors(top, block, pitch, 3, made); break;
    case 4: some_vectors(top, block, pitch, 4, made); break;
    default: break;
    }
}

static void rotate(double *x, double *y, double cosine, double sine)
{
    for (int i = 0; i < SAMBA_FEW; i++) {
        const double kept = x[i];
        x[i] = cosine * kept - sine * y[i];
        y[i] = sine * kept + cosine * y[i];
    }
}

/* The rotation of a symmetric matrix of two rows, (p both; both q), to a diagonal. */
static void rotation(double p, double q, double both, double *cosine, double *sine)
{
    const double zeta = (q - p) / (2 * both), t = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    *cosine = 1 / sqrt(1 + t * t);
    *sine = *cosine * t;
}

static void swap(double *x, double *y)
{
    for (int i = 0; i < SAMBA_FEW; i++) {
        const double kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

/* Values in descending order, or ascending, and two vectors of each. */
static void sort(int k, double *values, bool ascending, double x[SAMBA_FEW][SAMBA_FEW], double y[SAMBA_FEW][SAMBA_FEW])
{
    for (int i = 0; i < k; i++)
        for (int j = k - 1; j > i; j--)
            if (ascending ? values[j] < values[j - 1] : values[j] > values[j - 1]) {
                const double kept = values[j];
                values[j] = values[j - 1];
                values[j - 1] = kept;
                swap(x[j], x[j - 1]);
                swap(y[j], y[j - 1]);
            }
}

/* A unit vector at right angles to those before becomes vector j. */
static void complete(int k, double u[SAMBA_FEW][SAMBA_FEW], int j)
{
    double best = 0, squares = 0;
    int unit = 0;
    for (int e = 0; e < k; e++) { /* the axis of which least lies in the others */
        double left = 1;
        for (int c = 0; c < j; c++)
            left -= u[c][e] * u[c][e];
        if (left > best) {
            best = left;
            unit = e;
        }
    }
    for (int i = 0; i < SAMBA_FEW; i++)
        u[j][i] = i == unit;
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < j; c++) {
            double dot = 0;
            for (int i = 0; i < k; i++)
                dot += u[c][i] * u[j][i];
            for (int i = 0; i < k; i++)
                u[j][i] -= dot * u[c][i];
        }
    for (int i = 0; i < k; i++)
        squares += u[j][i] * u[j][i];
    for (int i = 0; i < k; i++)
        u[j][i] /= sqrt(squares);
}

static double greatest_of(const double *x, int64_t count)
{
    double greatest = 0;
    for (int64_t i = 0; i < count; i++)
        greatest = fabs(x[i]) > greatest ? fabs(x[i]) : greatest;
    return greatest;
}

/* u holds R by columns, and then its left vectors. */
static void one_sided(samba_few *few, double u[SAMBA_FEW][SAMBA_FEW])
{
    const int k = few->k;
    const double least = few->exact ? 4e-16 : 1e-9; /* of a right angle's cosine */
    for (int j = 0; j < SAMBA_FEW; j++)
        for (int i = 0; i < SAMBA_FEW; i++)
            few->vectors[j][i] = i == j;
    bool turned = true;
    for (int sweep = 0; sweep < SWEEPS && turned; sweep++) {
        turned = false;
        for (int p = 0; p < k; p++)
            for (int q = p + 1; q < k; q++) {
                double of_p = 0, of_q = 0, both = 0, cosine, sine;
                for (int i = 0; i < SAMBA_FEW; i++) {
                    of_p += u[p][i] * u[p][i];
                    of_q += u[q][i] * u[q][i];
                    both += u[p][i] * u[q][i];
                }
                if (fabs(both) <= 1e-300 || fabs(both) <= least * sqrt(of_p) * sqrt(of_q))
                    continue;
                rotation(of_p, of_q, both, &cosine, &sine);
                rotate(u[p], u[q], cosine, sine);
                rotate(few->vectors[p], few->vectors[q], cosine, sine);
                turned = true;
            }
    }
    for (int j = 0; j < k; j++) {
        const double most = greatest_of(u[j], k);
        double squares = 0;
        const double unit = most > 0 && most < 1e-140 ? most : 1; /* whose squares would be nothing */
        for (int i = 0; i < k; i++)
            squares += (u[j][i] / unit) * (u[j][i] / unit);
        few->spectrum[j] = unit * sqrt(squares);
    }
    sort(k, few->spectrum, false, u, few->vectors);
    for (int j = 0; j < k; j++)
        if (few->spectrum[j] <= 1e-15 * few->spectrum[0] || few->spectrum[j] * few->spectrum[j] < NOTHING)
            complete(k, u, j); /* what there is of it is rounding */
        else
            for (int i = 0; i < k; i++)
                u[j][i] /= few->spectrum[j];
}

/* Which sign the vector of the first element that is more than 0.37 of the greatest has. */
static bool negative(const double *x, int64_t count, double greatest)
{
    for (int64_t i = 0; i < count; i++)
        if (fabs(x[i]) > 0.37 * greatest)
            return x[i] < 0;
    return false;
}

static void negate(double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = -x[i];
}

/* The sign of long vector j, by all of its blocks, whose greatest elements are known. */
static void turn_long(samba_few *few, int j, double greatest)
{
    const int64_t m = few->m, k = few->k;
    bool found = greatest_of(few->first[j], k) > 0.37 * greatest, turns = found && negative(few->first[j], k, greatest);
    for (int64_t row = k; !found && row < m; row += SAMBA_FEW_ROWS) {
        const int64_t pitch = samba_few_pitch(m - row);
        const double *x = few->blocks + (row - k) * k + j * pitch;
        found = greatest_of(x, pitch) > 0.37 * greatest;
        turns = found && negative(x, pitch, greatest);
    }
    few->negative[j] = turns;
    if (!turns)
        return;
    negate(few->first[j], k);
    negate(few->vectors[j], k);
}

/* The first k rows' reflections of what is left of the long vectors there. */
static void first_vectors(samba_few *few, double top[SAMBA_FEW][SAMBA_FEW], const reflection *made)
{
    const int k = few->k;
    for (int j = k - 1; j >= 0; j--)
        for (int q = 0; q < k; q++) {
            double dot = made[j].head * top[q][j];
            for (int i = j + 1; i < k; i++)
                dot += few->first[j][i] * top[q][i];
            dot *= made[j].factor;
            top[q][j] -= dot * made[j].head;
            for (int i = j + 1; i < k; i++)
                top[q][i] -= dot * few->first[j][i];
        }
    memcpy(few->first, top, sizeof few->first);
}

void SAMBA_ISA_NAME(samba_few_svd)(samba_few *few)
{
    const int64_t m = few->m, k = few->k, blocks = samba_few_blocks(m, k);
    reflection *made = (reflection *)(void *)(few->blocks + samba_few_all(m, k)), *first = made + blocks * SAMBA_FEW;
    double u[SAMBA_FEW][SAMBA_FEW] = {{0}}, greatest[SAMBA_FEW] = {0};
    if (few->step == SAMBA_FEW_FIRST) {
        factorize_first(few, first);
        return;
    }
    if (few->step >= 0) {
        factorize_block(few, few->blocks + few->step * SAMBA_FEW_ROWS * k, samba_few_pitch(m - k - few->step * SAMBA_FEW_ROWS),
                        made + few->step * SAMBA_FEW);
        return;
    }
    for (int j = 0; j < k; j++)
        memcpy(u[j], few->first[j], sizeof(double) * (size_t)(j + 1));
    one_sided(few, u);
    if (few->values)
        return;
    for (int j = 0; few->turned && j < k; j++)
        if (negative(few->vectors[j], k, greatest_of(few->vectors[j], k))) {
            negate(few->vectors[j], k);
            negate(u[j], k);
        }
    for (int64_t b = blocks - 1; b >= 0; b--) {
        const int64_t pitch = samba_few_pitch(m - k - b * SAMBA_FEW_ROWS);
        double *block = few->blocks + b * SAMBA_FEW_ROWS * k;
        block_vectors(u, block, pitch, (int)k, made + b * SAMBA_FEW);
        for (int j = 0; j < k && !few->turned; j++)
            greatest[j] = fmax(greatest[j], greatest_of(block + j * pitch, pitch));
    }
    first_vectors(few, u, first);
    for (int j = 0; j < k && !few->turned; j++)
        turn_long(few, j, fmax(greatest[j], greatest_of(few->first[j], k)));
}

void SAMBA_ISA_NAME(samba_few_eigh)(samba_few *few)
{
    const int k = few->k;
    double(*a)[SAMBA_FEW] = few->first, norm = 0;
    for (int j = 0; j < SAMBA_FEW; j++)
        for (int i = 0; i < SAMBA_FEW; i++) {
            few->vectors[j][i] = i == j;
            if (i < k && j < k && i > j)
                a[i][j] = a[j][i];
        }
    for (int j = 0; j < k; j++)
        norm = fmax(norm, greatest_of(a[j], k));
    const double least = norm * (few->exact ? 1e-17 : 1e-10);
    bool turned = true;
    for (int sweep = 0; sweep < SWEEPS && turned; sweep++) {
        turned = false;
        for (int p = 0; p < k; p++)
            for (int q = p + 1; q < k; q++) {
                double cosine, sine;
                if (fabs(a[p][q]) <= least)
                    continue;
                rotation(a[p][p], a[q][q], a[p][q], &cosine, &sine);
                rotate(a[p], a[q], cosine, sine);
                for (int i = 0; i < k; i++) { /* the same of the rows */
                    const double x = a[i][p], y = a[i][q];
                    a[i][p] = cosine * x - sine * y;
                    a[i][q] = sine * x + cosine * y;
                }
                a[p][q] = a[q][p] = 0;
                rotate(few->vectors[p], few->vectors[q], cosine, sine);
                turned = true;
            }
    }
    for (int j = 0; j < k; j++)
        few->spectrum[j] = a[j][j];
    sort(k, few->spectrum, true, few->vectors, a);
    for (int j = 0; j < k; j++)
        if (negative(few->vectors[j], k, greatest_of(few->vectors[j], k)))
            negate(few->vectors[j], k);
}
