/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of planes, written once for float, double and int64_t: planes.c includes this with T (the type), LEAST (no value is
 * less), NO_NUMBER, VECTOR and INDICES (vectors of T and of integers of its size) and NAME(x) defined.
 * Greatest elements are pool_max.h's. */
#include "device/cpu/pool/pool_max.h"

/* y[oj] += x[start + oj * step], and the reverse */
INLINE void NAME(gather_sum_of)(T *y, const T *x, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    SAMBA_VECTOR_LOOP for (int64_t oj = begin; oj < end; oj++)
        y[oj] += x[start + oj * step];
}

INLINE void NAME(scatter_sum_of)(T *x, const T *y, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    SAMBA_VECTOR_LOOP for (int64_t oj = begin; oj < end; oj++)
        x[start + oj * step] += y[oj];
}

/* Loops for a step that the compiler knows are of whole vectors. */
static void NAME(gather_sum)(T *y, const T *x, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    if (step == 1)
        NAME(gather_sum_of)(y, x, start, 1, begin, end);
    else if (step == 2)
        NAME(gather_sum_of)(y, x, start, 2, begin, end);
    else
        NAME(gather_sum_of)(y, x, start, step, begin, end);
}

static void NAME(scatter_sum)(T *x, const T *y, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    if (step == 1)
        NAME(scatter_sum_of)(x, y, start, 1, begin, end);
    else if (step == 2)
        NAME(scatter_sum_of)(x, y, start, 2, begin, end);
    else
        NAME(scatter_sum_of)(x, y, start, step, begin, end);
}

/* The sum of n elements: of four vectors side by side, so that an addition need not wait for the one before it. */
INLINE T NAME(sum_of)(const T *x, int64_t n)
{
    T lanes[4 * NAME_LANES], sum = 0;
    int64_t i = 0;
    if (n >= 4 * NAME_LANES) {
        VECTOR sums[4] = {0};
        for (; i + 4 * NAME_LANES <= n; i += 4 * NAME_LANES) {
            UNROLL for (int k = 0; k < 4; k++)
                sums[k] += NAME(load_whole)(x + i + k * NAME_LANES);
        }
        __builtin_memcpy(lanes, sums, sizeof lanes);
        for (int k = 0; k < 4 * NAME_LANES; k++)
            sum += lanes[k];
    }
    for (; i < n; i++)
        sum += x[i];
    return sum;
}

/* Rows first, whole and as they lie; then columns, which are some apart. row: a row of the plane. */
static void NAME(average_forward)(const samba_pool_plan *plan, const T *x, T *y, T *row)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        int64_t first = plan->rows[oi].begin, at = oi * p->stride[0] - p->padding[0] + first * p->dilation[0];
        const T *from = x + at * p->w;
        if (first >= plan->rows[oi].end) {
            memset(y, 0, (size_t)p->ow * sizeof *y);
            continue;
        }
        if (first + 1 < plan->rows[oi].end) {
            const T *next = from + p->dilation[0] * p->w;
            SAMBA_VECTOR_LOOP for (int64_t j = 0; j < p->w; j++)
                row[j] = from[j] + next[j];
            for (int64_t ky = first + 2; ky < plan->rows[oi].end; ky++)
                NAME(gather_sum_of)(row, from, (ky - first) * p->dilation[0] * p->w, 1, 0, p->w);
            from = row;
        }
        if (p->kernel[1] == 1 && p->ow == p->w && p->stride[1] == 1 && p->padding[1] == 0) { /* each column for itself */
            T divisor = (T)plan->heights[oi] * (T)plan->widths[0];
            SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < p->ow; oj++)
                y[oj] = from[oj] / divisor;
            continue;
        }
        samba_pool_range all = plan->columns[0];
        bool whole = all.begin == 0 && all.end == p->ow;
        if (whole) {
            const T *one = from - p->padding[1];
            SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < p->ow; oj++)
                y[oj] = one[oj * p->stride[1]];
        } else {
            memset(y, 0, (size_t)p->ow * sizeof *y);
        }
        for (int64_t kx = whole ? 1 : 0; kx < p->kernel[1]; kx++) {
            samba_pool_range range = plan->columns[kx];
            int64_t start = kx * p->dilation[1] - p->padding[1];
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

/* Windows of several sizes: rows are added first. row: one of the plane. */
static void NAME(average_adaptive)(const samba_pool_plan *plan, const T *x, T *y, T *row)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        samba_pool_range rows = plan->rows[oi];
        const T *sums = x + rows.begin * p->w;
        if (rows.end - rows.begin > 1) {
            memcpy(row, sums, (size_t)p->w * sizeof *row);
            for (int64_t i = rows.begin + 1; i < rows.end; i++)
                NAME(gather_sum_of)(row, x + i * p->w, 0, 1, 0, p->w);
            sums = row;
        }
        T height = (T)plan->heights[oi];
        if (plan->single) {
            SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < p->ow; oj++)
                y[oj] = sums[oj] / height;
            continue;
        }
        for (int64_t oj = 0; oj < p->ow; oj++) {
            samba_pool_range columns = plan->columns[oj];
            y[oj] = NAME(sum_of)(sums + columns.begin, columns.end - columns.begin) / (height * (T)plan->widths[oj]);
        }
    }
}

/* What the windows of a row of the result give to each column. Windows begin one behind the other, so what lies before the end
 * of one is there already for the next. */
INLINE void NAME(deal_shares)(const samba_pool_plan *plan, int64_t oi, const T *dy, T *row)
{
    const samba_pool *p = &plan->pool;
    T height = (T)plan->heights[oi];
    int64_t done = 0;
    if (plan->single) {
        SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < p->ow; oj++)
            row[oj] = dy[oj] / height;
        return;
    }
    for (int64_t oj = 0; oj < p->ow; oj++) {
        samba_pool_range columns = plan->columns[oj];
        T share = dy[oj] / (height * (T)plan->widths[oj]);
        for (; done < columns.begin; done++)
            row[done] = 0;
        for (int64_t j = columns.begin; j < done && j < columns.end; j++)
            row[j] += share;
        if (done < columns.end) {
            SAMBA_VECTOR_LOOP for (int64_t j = done; j < columns.end; j++)
                row[j] = share;
            done = columns.end;
        }
    }
    for (; done < p->w; done++)
        row[done] = 0;
}

/* Rows that no window had before are written, others added to. row: one of the plane. */
static void NAME(average_adaptive_gradient)(const samba_pool_plan *plan, const T *dy, T *dx, T *row)
{
    const samba_pool *p = &plan->pool;
    int64_t done = 0;
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        samba_pool_range rows = plan->rows[oi];
        if (done < rows.begin) {
            memset(dx + done * p->w, 0, (size_t)((rows.begin - done) * p->w) * sizeof *dx);
            done = rows.begin;
        }
        const T *shares = row;
        if (rows.begin == done && rows.begin < rows.end) {
            shares = dx + done++ * p->w;
            NAME(deal_shares)(plan, oi, dy, dx + rows.begin++ * p->w);
        } else {
            NAME(deal_shares)(plan, oi, dy, row);
        }
        for (int64_t i = rows.begin; i < done && i < rows.end; i++)
            NAME(scatter_sum_of)(dx + i * p->w, shares, 0, 1, 0, p->w);
        for (; done < rows.end; done++)
            memcpy(dx + done * p->w, shares, (size_t)p->w * sizeof *dx);
    }
    if (done < p->h)
        memset(dx + done * p->w, 0, (size_t)((p->h - done) * p->w) * sizeof *dx);
}

/* What makes row oi, in `found` where no table has it. */
static void NAME(find_row)(const samba_pool_plan *plan, int64_t oi, void *found)
{
    int64_t *index = found;
    double *weight = (double *)(index + plan->taps[0]);
    if (plan->indices[0])
        return;
    index[0] = oi, weight[0] = 1;
    if (!plan->same[0])
        samba_resample_taps_of(&plan->axis[0], oi, index, weight);
}

static int64_t NAME(row_of)(const samba_pool_plan *plan, int64_t oi, int64_t k, const void *found, T *weight)
{
    const int64_t *index = found;
    const double *weights = (const double *)(index + plan->taps[0]);
    int64_t at = k * plan->pool.oh + oi;
    *weight = plan->indices[0] ? ((const T *)plan->weights[0])[at] : (T)weights[k];
    return plan->indices[0] ? plan->indices[0][at] : index[k];
}

/* One row, column by column, without a table; many taps are summed in parts, so that little is lost. */
static void NAME(resample_long)(const samba_pool_plan *plan, const T *from, T *y, void *found)
{
    int64_t *index = (int64_t *)found + 2 * plan->taps[0], taps = plan->taps[1];
    double *weight = (double *)(index + taps);
    for (int64_t oj = 0; oj < plan->pool.ow; oj++) {
        samba_resample_taps_of(&plan->axis[1], oj, index, weight);
        T sum = 0;
        for (int64_t first = 0; first < taps; first += TAPS_TOGETHER) {
            T part = 0;
            for (int64_t k = first; k < taps && k < first + TAPS_TOGETHER; k++)
                part += (T)weight[k] * from[index[k]];
            sum += part;
        }
        y[oj] = sum;
    }
}

static void NAME(resample_long_gradient)(const samba_pool_plan *plan, const T *dy, T *sums, void *found)
{
    int64_t *index = (int64_t *)found + 2 * plan->taps[0], taps = plan->taps[1];
    double *weight = (double *)(index + taps);
    for (int64_t oj = 0; oj < plan->pool.ow; oj++) {
        samba_resample_taps_of(&plan->axis[1], oj, index, weight);
        for (int64_t k = 0; k < taps; k++)
            sums[index[k]] += (T)weight[k] * dy[oj];
    }
}

/* Columns of one row, by the table or without. */
INLINE void NAME(resample_row)(const samba_pool_plan *plan, const T *from, T *y, void *found)
{
    const int64_t ow = plan->pool.ow;
    if (!plan->indices[1]) {
        NAME(resample_long)(plan, from, y, found);
        return;
    }
    for (int64_t k = 0; k < plan->taps[1]; k++) {
        const int32_t *indices = plan->indices[1] + k * ow;
        const T *weights = (const T *)plan->weights[1] + k * ow;
        if (k == 0) {
            SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < ow; oj++)
                y[oj] = weights[oj] * from[indices[oj]];
        } else {
            SAMBA_VECTOR_LOOP for (int64_t oj = 0; oj < ow; oj++)
                y[oj] += weights[oj] * from[indices[oj]];
        }
    }
}

INLINE void NAME(resample_row_gradient)(const samba_pool_plan *plan, const T *dy, T *sums, void *found)
{
    const int64_t ow = plan->pool.ow;
    if (!plan->indices[1])
        NAME(resample_long_gradient)(plan, dy, sums, found);
    for (int64_t k = 0; k < plan->taps[1] && plan->indices[1]; k++)
        for (int64_t oj = 0; oj < ow; oj++)
            sums[plan->indices[1][k * ow + oj]] += ((const T *)plan->weights[1])[k * ow + oj] * dy[oj];
}

/* y = weight * x, or added to it */
INLINE void NAME(add_row)(T *y, const T *x, T weight, int64_t n, bool first)
{
    if (first) {
        SAMBA_VECTOR_LOOP for (int64_t j = 0; j < n; j++)
            y[j] = weight * x[j];
    } else {
        SAMBA_VECTOR_LOOP for (int64_t j = 0; j < n; j++)
            y[j] += weight * x[j];
    }
}

/* Columns of all rows of x first, then rows of these: where that is less to do. middle: h rows of ow columns. */
static void NAME(resample_columns_first)(const samba_pool_plan *plan, const T *x, T *y, T *middle, void *found)
{
    const samba_pool *p = &plan->pool;
    for (int64_t i = 0; i < p->h; i++)
        NAME(resample_row)(plan, x + i * p->w, middle + i * p->ow, found);
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        NAME(find_row)(plan, oi, found);
        for (int64_t k = 0; k < plan->taps[0]; k++) {
            T weight;
            const T *row = middle + NAME(row_of)(plan, oi, k, found, &weight) * p->ow;
            NAME(add_row)(y, row, weight, p->ow, k == 0);
        }
    }
}

static void NAME(resample_columns_first_gradient)(const samba_pool_plan *plan, const T *dy, T *dx, T *middle, void *found)
{
    const samba_pool *p = &plan->pool;
    memset(middle, 0, (size_t)(p->h * p->ow) * sizeof *middle);
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        NAME(find_row)(plan, oi, found);
        for (int64_t k = 0; k < plan->taps[0]; k++) {
            T weight;
            T *row = middle + NAME(row_of)(plan, oi, k, found, &weight) * p->ow;
            NAME(add_row)(row, dy, weight, p->ow, false);
        }
    }
    for (int64_t i = 0; i < p->h; i++)
        NAME(resample_row_gradient)(plan, middle + i * p->ow, dx + i * p->w, found);
}

/* Rows of x are added first, then columns of their sum; sums: a row of the plane. */
static void NAME(resample)(const samba_pool_plan *plan, const T *x, T *y, T *sums, void *found)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        T *to = plan->same[1] ? y : sums;
        const T *from = to;
        NAME(find_row)(plan, oi, found);
        if (plan->same[0] && !plan->same[1])
            from = x + oi * p->w;
        else
            for (int64_t k = 0; k < plan->taps[0]; k++) {
                T weight;
                const T *row = x + NAME(row_of)(plan, oi, k, found, &weight) * p->w;
                NAME(add_row)(to, row, weight, p->w, k == 0);
            }
        if (!plan->same[1])
            NAME(resample_row)(plan, from, y, found);
    }
}

static void NAME(resample_gradient)(const samba_pool_plan *plan, const T *dy, T *dx, T *sums, void *found)
{
    const samba_pool *p = &plan->pool;
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        if (!plan->same[1]) {
            memset(sums, 0, (size_t)p->w * sizeof *sums);
            NAME(resample_row_gradient)(plan, dy, sums, found);
        }
        const T *from = plan->same[1] ? dy : sums;
        NAME(find_row)(plan, oi, found);
        for (int64_t k = 0; k < plan->taps[0]; k++) {
            T weight;
            T *row = dx + NAME(row_of)(plan, oi, k, found, &weight) * p->w;
            NAME(add_row)(row, from, weight, p->w, false);
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
        if (plan->columns_first)
            (p->gradient ? NAME(resample_columns_first_gradient) : NAME(resample_columns_first))(plan, from, to, value,
                                                                                                 scratch->taps);
        else if (p->resample)
            (p->gradient ? NAME(resample_gradient) : NAME(resample))(plan, from, to, value, scratch->taps);
        else if (p->adaptive)
            (p->gradient ? NAME(average_adaptive_gradient) : NAME(average_adaptive))(plan, from, to, value);
        else if (p->gradient)
            NAME(average_gradient)(plan, from, to, scratch->index, value);
        else
            NAME(average_forward)(plan, from, to, value);
    }
}

#undef NAME_LANES
#undef NAME_BELOW
#undef NAME_BAND
