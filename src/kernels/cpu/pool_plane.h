/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of one plane, written once for float and for double: planes.c includes this with T (the type) and NAME(x) defined.
 *
 * Work goes row by row of the result; for each place (ky, kx) of the window one loop runs over the columns whose element there is
 * inside the plane. The greatest element is the first one that no later one exceeds; NaN exceeds all (as in PyTorch). */

static void NAME(max_forward)(const samba_pool_plan *plan, const T *x, T *y)
{
    const samba_pool *p = &plan->pool;
    int64_t step = p->stride[1];
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        for (int64_t oj = 0; oj < p->ow; oj++)
            y[oj] = -INFINITY;
        for (int64_t ky = plan->rows[oi].begin; ky < plan->rows[oi].end; ky++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                int64_t start = row_start(p, oi, ky, kx), end = plan->columns[kx].end;
                SAMBA_VECTOR_LOOP
                for (int64_t oj = plan->columns[kx].begin; oj < end; oj++) {
                    T v = x[start + oj * step];
                    y[oj] = (v > y[oj]) | (v != v) ? v : y[oj];
                }
            }
    }
}

/* best, place: a row of the result */
static void NAME(max_gradient)(const samba_pool_plan *plan, const T *x, const T *dy, T *dx, T *best, int64_t *place)
{
    const samba_pool *p = &plan->pool;
    int64_t step = p->stride[1];
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        for (int64_t oj = 0; oj < p->ow; oj++) {
            best[oj] = -INFINITY;
            place[oj] = -1;
        }
        for (int64_t ky = plan->rows[oi].begin; ky < plan->rows[oi].end; ky++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                int64_t start = row_start(p, oi, ky, kx), end = plan->columns[kx].end;
                SAMBA_VECTOR_LOOP
                for (int64_t oj = plan->columns[kx].begin; oj < end; oj++) {
                    T v = x[start + oj * step];
                    bool better = (v > best[oj]) | (v != v) | (place[oj] < 0);
                    best[oj] = better ? v : best[oj];
                    place[oj] = better ? start + oj * step : place[oj];
                }
            }
        for (int64_t oj = 0; oj < p->ow; oj++)
            if (place[oj] >= 0)
                dx[place[oj]] += dy[oj];
    }
}

/* Where y beats x: y is greater or NaN. In two steps, since the compiler makes vector code of these and not of one with "or". */
static inline T NAME(choose)(T x, T y, T if_x, T if_y)
{
    T result = y > x ? if_y : if_x;
    return y != y ? if_y : result;
}

/* Windows of 2 x 2 side by side, the common case: four elements at a time, nothing to keep. */
static void NAME(max_forward_2x2)(const samba_pool *p, const T *x, T *y)
{
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        const T *upper = x + 2 * oi * p->w, *lower = upper + p->w;
        SAMBA_VECTOR_LOOP
        for (int64_t oj = 0; oj < p->ow; oj++) {
            T a = upper[2 * oj], b = upper[2 * oj + 1], c = lower[2 * oj], d = lower[2 * oj + 1];
            T top = NAME(choose)(a, b, a, b), bottom = NAME(choose)(c, d, c, d);
            y[oj] = NAME(choose)(top, bottom, top, bottom);
        }
    }
}

static void NAME(max_gradient_2x2)(const samba_pool *p, const T *x, const T *dy, T *dx)
{
    int64_t w = p->w;
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        const T *upper = x + 2 * oi * w, *lower = upper + w;
        T *dx_upper = dx + 2 * oi * w, *dx_lower = dx_upper + w;
        SAMBA_VECTOR_LOOP
        for (int64_t oj = 0; oj < p->ow; oj++) {
            T a = upper[2 * oj], b = upper[2 * oj + 1], c = lower[2 * oj], d = lower[2 * oj + 1], g = dy[oj];
            T top = NAME(choose)(a, b, a, b), bottom = NAME(choose)(c, d, c, d);
            T above = NAME(choose)(top, bottom, g, 0), below = NAME(choose)(top, bottom, 0, g);
            dx_upper[2 * oj] = NAME(choose)(a, b, above, 0);
            dx_upper[2 * oj + 1] = NAME(choose)(a, b, 0, above);
            dx_lower[2 * oj] = NAME(choose)(c, d, below, 0);
            dx_lower[2 * oj + 1] = NAME(choose)(c, d, 0, below);
        }
        for (int64_t j = 2 * p->ow; j < w; j++)
            dx_upper[j] = dx_lower[j] = 0;
    }
    memset(dx + 2 * p->oh * w, 0, (size_t)((p->h - 2 * p->oh) * w) * sizeof *dx);
}

static void NAME(average_forward)(const samba_pool_plan *plan, const T *x, T *y)
{
    const samba_pool *p = &plan->pool;
    int64_t step = p->stride[1];
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        memset(y, 0, (size_t)p->ow * sizeof *y);
        for (int64_t ky = plan->rows[oi].begin; ky < plan->rows[oi].end; ky++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                int64_t start = row_start(p, oi, ky, kx), end = plan->columns[kx].end;
                SAMBA_VECTOR_LOOP
                for (int64_t oj = plan->columns[kx].begin; oj < end; oj++)
                    y[oj] += x[start + oj * step];
            }
        T height = (T)plan->heights[oi];
        SAMBA_VECTOR_LOOP
        for (int64_t oj = 0; oj < p->ow; oj++)
            y[oj] /= height * (T)plan->widths[oj];
    }
}

static void NAME(average_gradient)(const samba_pool_plan *plan, const T *dy, T *dx, T *share)
{
    const samba_pool *p = &plan->pool;
    int64_t step = p->stride[1];
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        T height = (T)plan->heights[oi];
        SAMBA_VECTOR_LOOP
        for (int64_t oj = 0; oj < p->ow; oj++)
            share[oj] = dy[oj] / (height * (T)plan->widths[oj]);
        for (int64_t ky = plan->rows[oi].begin; ky < plan->rows[oi].end; ky++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                int64_t start = row_start(p, oi, ky, kx), end = plan->columns[kx].end;
                SAMBA_VECTOR_LOOP
                for (int64_t oj = plan->columns[kx].begin; oj < end; oj++)
                    dx[start + oj * step] += share[oj];
            }
    }
}

void SAMBA_ISA_NAME(NAME(samba_pool))(const samba_pool_plan *plan, const void *first, const void *second, void *result,
                                      void *value, int64_t *place)
{
    const samba_pool *p = &plan->pool;
    if (p->average && p->gradient)
        NAME(average_gradient)(plan, first, result, value);
    else if (p->average)
        NAME(average_forward)(plan, first, result);
    else if (p->gradient && is_2x2(p))
        NAME(max_gradient_2x2)(p, first, second, result);
    else if (p->gradient)
        NAME(max_gradient)(plan, first, second, result, value, place);
    else if (is_2x2(p))
        NAME(max_forward_2x2)(p, first, result);
    else
        NAME(max_forward)(plan, first, result);
}
