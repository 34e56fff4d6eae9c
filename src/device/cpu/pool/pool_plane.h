/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of planes, written once for float, double and int64_t: planes.c includes this with T (the type), LEAST (no value is
 * less), NO_NUMBER, VECTOR and INDICES (vectors of T and of integers of its size) and NAME(x) defined.
 * Greatest elements are pool_max.h's. */
#include "device/cpu/pool/pool_max.h"

/* y[oj] += x[start + oj * step], and the reverse */
INLINE void NAME(gather_sum)(T *y, const T *x, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    SAMBA_VECTOR_LOOP for (int64_t oj = begin; oj < end; oj++)
        y[oj] += x[start + oj * step];
}

INLINE void NAME(scatter_sum)(T *x, const T *y, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    SAMBA_VECTOR_LOOP for (int64_t oj = begin; oj < end; oj++)
        x[start + oj * step] += y[oj];
}

/* Rows first, whole and as they lie; then columns, which are some apart. row: a row of the plane. */
static void NAME(average_forward)(const samba_pool_plan *plan, const T *x, T *y, T *row)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        int64_t first = plan->rows[oi].begin, at = oi * p->stride[0] - p->padding[0] + first * p->dilation[0];
        const T *from = x + at * p->w;
        memset(y, 0, (size_t)p->ow * sizeof *y);
        if (first >= plan->rows[oi].end)
            continue;
        if (first + 1 < plan->rows[oi].end) {
            memcpy(row, from, (size_t)p->w * sizeof *row);
            for (int64_t ky = first + 1; ky < plan->rows[oi].end; ky++)
                NAME(gather_sum)(row, from, (ky - first) * p->dilation[0] * p->w, 1, 0, p->w);
            from = row;
        }
        for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
            samba_pool_range range = plan->columns[kx];
            int64_t start = kx * p->dilation[1] - p->padding[1];
            if (p->stride[1] == 2)
                NAME(gather_sum)(y, from, start, 2, range.begin, range.end);
            else
                NAME(gather_sum)(y, from, start, p->stride[1], range.begin, range.end);
        }
        T height = (T)plan->heights[oi];
        SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < p->ow; oj++)
            y[oj] /= height * (T)plan->widths[oj];
    }
}

/* share: a row of the result; row: one of the plane */
static void NAME(average_gradient)(const samba_pool_plan *plan, const T *dy, T *dx, T *share, T *row)
{
    const samba_pool *p = &plan->pool;
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        T height = (T)plan->heights[oi];
        SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < p->ow; oj++)
            share[oj] = dy[oj] / (height * (T)plan->widths[oj]);
        memset(row, 0, (size_t)p->w * sizeof *row);
        for (int64_t kx = 0; kx < p->kernel[1]; kx++)
            NAME(scatter_sum)
        (row, share, kx * p->dilation[1] - p->padding[1], p->stride[1], plan->columns[kx].begin, plan->columns[kx].end);
        for (int64_t ky = plan->rows[oi].begin; ky < plan->rows[oi].end; ky++)
            NAME(scatter_sum)(dx + (oi * p->stride[0] - p->padding[0] + ky * p->dilation[0]) * p->w, row, 0, 1, 0, p->w);
    }
}

/* Windows of several sizes: rows are added first. sums: a row of the plane. */
static void NAME(average_adaptive)(const samba_pool_plan *plan, const T *x, T *y, T *sums)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        memset(sums, 0, (size_t)p->w * sizeof *sums);
        for (int64_t i = plan->rows[oi].begin; i < plan->rows[oi].end; i++) {
            const T *row = x + i * p->w;
            SAMBA_VECTOR_LOOP for (int64_t j = 0; j < p->w; j++)
                sums[j] += row[j];
        }
        for (int64_t oj = 0; oj < p->ow; oj++) {
            T sum = 0;
            for (int64_t j = plan->columns[oj].begin; j < plan->columns[oj].end; j++)
                sum += sums[j];
            y[oj] = sum / ((T)plan->heights[oi] * (T)plan->widths[oj]);
        }
    }
}

static void NAME(average_adaptive_gradient)(const samba_pool_plan *plan, const T *dy, T *dx, T *sums)
{
    const samba_pool *p = &plan->pool;
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        memset(sums, 0, (size_t)p->w * sizeof *sums);
        for (int64_t oj = 0; oj < p->ow; oj++) {
            T share = dy[oj] / ((T)plan->heights[oi] * (T)plan->widths[oj]);
            for (int64_t j = plan->columns[oj].begin; j < plan->columns[oj].end; j++)
                sums[j] += share;
        }
        for (int64_t i = plan->rows[oi].begin; i < plan->rows[oi].end; i++) {
            T *row = dx + i * p->w;
            SAMBA_VECTOR_LOOP for (int64_t j = 0; j < p->w; j++)
                row[j] += sums[j];
        }
    }
}

/* Rows of x are added first, then columns of their sum; sums: a row of the plane. */
static void NAME(resample)(const samba_pool_plan *plan, const T *x, T *y, T *sums)
{
    const samba_pool *p = &plan->pool;
    const T *row_weights = plan->weights[0], *column_weights = plan->weights[1];
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        T *to = plan->same[1] ? y : sums;
        const T *from = to;
        if (plan->same[0] && !plan->same[1])
            from = x + oi * p->w;
        else
            for (int64_t k = 0; k < plan->taps[0]; k++) {
                const T *row = x + plan->indices[0][k * p->oh + oi] * p->w;
                T weight = row_weights[k * p->oh + oi];
                if (k == 0) {
                    SAMBA_VECTOR_LOOP for (int64_t j = 0; j < p->w; j++)
                        to[j] = weight * row[j];
                } else {
                    SAMBA_VECTOR_LOOP for (int64_t j = 0; j < p->w; j++)
                        to[j] += weight * row[j];
                }
            }
        for (int64_t k = 0; k < plan->taps[1] && !plan->same[1]; k++) {
            const int32_t *indices = plan->indices[1] + k * p->ow;
            const T *weights = column_weights + k * p->ow;
            if (k == 0) {
                SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < p->ow; oj++)
                    y[oj] = weights[oj] * from[indices[oj]];
            } else {
                SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < p->ow; oj++)
                    y[oj] += weights[oj] * from[indices[oj]];
            }
        }
    }
}

static void NAME(resample_gradient)(const samba_pool_plan *plan, const T *dy, T *dx, T *sums)
{
    const samba_pool *p = &plan->pool;
    const T *row_weights = plan->weights[0], *column_weights = plan->weights[1];
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        if (!plan->same[1])
            memset(sums, 0, (size_t)p->w * sizeof *sums);
        for (int64_t k = 0; k < plan->taps[1] && !plan->same[1]; k++)
            for (int64_t oj = 0; oj < p->ow; oj++)
                sums[plan->indices[1][k * p->ow + oj]] += column_weights[k * p->ow + oj] * dy[oj];
        const T *from = plan->same[1] ? dy : sums;
        for (int64_t k = 0; k < plan->taps[0]; k++) {
            T *row = dx + plan->indices[0][k * p->oh + oi] * p->w, weight = row_weights[k * p->oh + oi];
            SAMBA_VECTOR_LOOP for (int64_t j = 0; j < p->w; j++)
                row[j] += weight * from[j];
        }
    }
}

void SAMBA_ISA_NAME(NAME(samba_pool))(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second,
                                      void *result, const samba_pool_scratch *scratch)
{
    const samba_pool *p = &plan->pool;
    int64_t outside = p->h * p->w, pooled = p->oh * p->ow;
    if (!p->average) {
        NAME(max)(plan, planes, first, second, result, scratch);
        return;
    }
    const T *from = first;
    T *to = result, *value = scratch->value;
    for (int64_t plane = 0; plane < planes;
         plane++, from += p->gradient ? pooled : outside, to += p->gradient ? outside : pooled) {
        if (p->resample)
            (p->gradient ? NAME(resample_gradient) : NAME(resample))(plan, from, to, value);
        else if (p->adaptive)
            (p->gradient ? NAME(average_adaptive_gradient) : NAME(average_adaptive))(plan, from, to, value);
        else if (p->gradient)
            NAME(average_gradient)(plan, from, to, scratch->index, value);
        else
            NAME(average_forward)(plan, from, to, value);
    }
}
