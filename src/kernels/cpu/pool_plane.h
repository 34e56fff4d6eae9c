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

/* ---- windows of 2 x 2 side by side, the common case: a vector of windows at a time, nothing to keep ---- */
#define NAME_LANES ((int)(VECTOR_BYTES / sizeof(T)))

/* n <= 0: nothing */
INLINE VECTOR NAME(load_some)(const T *p, int64_t n)
{
    VECTOR v = {0};
    if (n >= NAME_LANES)
        __builtin_memcpy(&v, p, sizeof v);
    else if (n > 0)
        v = NAME(load_part)(p, (int)n);
    return v;
}
INLINE void NAME(store_some)(T *p, int64_t n, VECTOR v)
{
    if (n >= NAME_LANES)
        __builtin_memcpy(p, &v, sizeof v);
    else if (n > 0)
        NAME(store_part)(p, (int)n, v);
}

/* Two neighbouring vectors are split into the elements at even and at odd places, or made of these. */
INLINE void NAME(split)(VECTOR low, VECTOR high, VECTOR *even, VECTOR *odd)
{
    INDICES evens, odds;
    UNROLL for (int i = 0; i < NAME_LANES; i++) {
        evens[i] = 2 * i;
        odds[i] = 2 * i + 1;
    }
    *even = __builtin_shuffle(low, high, evens);
    *odd = __builtin_shuffle(low, high, odds);
}
INLINE void NAME(join)(VECTOR even, VECTOR odd, VECTOR *low, VECTOR *high)
{
    INDICES lows, highs;
    UNROLL for (int i = 0; i < NAME_LANES; i++) {
        lows[i] = i / 2 + i % 2 * NAME_LANES;
        highs[i] = lows[i] + NAME_LANES / 2;
    }
    *low = __builtin_shuffle(even, odd, lows);
    *high = __builtin_shuffle(even, odd, highs);
}

static void NAME(max_forward_2x2)(const samba_pool *p, const T *x, T *y)
{
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        const T *upper = x + 2 * oi * p->w, *lower = upper + p->w;
        for (int64_t oj = 0; oj < p->ow; oj += NAME_LANES) {
            int64_t n = p->ow - oj, more = 2 * n - NAME_LANES;
            VECTOR a = NAME(load_some)(upper + 2 * oj, 2 * n), b = NAME(load_some)(upper + 2 * oj + NAME_LANES, more);
            VECTOR c = NAME(load_some)(lower + 2 * oj, 2 * n), d = NAME(load_some)(lower + 2 * oj + NAME_LANES, more);
            NAME(split)(NAME(beaten)(a, c, a, c), NAME(beaten)(b, d, b, d), &a, &b);
            NAME(store_some)(y + oj, n, NAME(beaten)(a, b, a, b));
        }
    }
}

static void NAME(max_gradient_2x2)(const samba_pool *p, const T *x, const T *dy, T *dx)
{
    int64_t w = p->w;
    const VECTOR zero = {0};
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        const T *upper = x + 2 * oi * w, *lower = upper + w;
        T *dx_upper = dx + 2 * oi * w, *dx_lower = dx_upper + w;
        for (int64_t oj = 0; oj < p->ow; oj += NAME_LANES) {
            int64_t n = p->ow - oj, more = 2 * n - NAME_LANES, at = 2 * oj;
            VECTOR a, b, c, d, low, high, g = NAME(load_some)(dy + oj, n);
            NAME(split)(NAME(load_some)(upper + at, 2 * n), NAME(load_some)(upper + at + NAME_LANES, more), &a, &b);
            NAME(split)(NAME(load_some)(lower + at, 2 * n), NAME(load_some)(lower + at + NAME_LANES, more), &c, &d);
            VECTOR top = NAME(beaten)(a, b, a, b), bottom = NAME(beaten)(c, d, c, d);
            VECTOR above = NAME(beaten)(top, bottom, g, zero), below = NAME(beaten)(top, bottom, zero, g);
            NAME(join)(NAME(beaten)(a, b, above, zero), NAME(beaten)(a, b, zero, above), &low, &high);
            NAME(store_some)(dx_upper + at, 2 * n, low);
            NAME(store_some)(dx_upper + at + NAME_LANES, more, high);
            NAME(join)(NAME(beaten)(c, d, below, zero), NAME(beaten)(c, d, zero, below), &low, &high);
            NAME(store_some)(dx_lower + at, 2 * n, low);
            NAME(store_some)(dx_lower + at + NAME_LANES, more, high);
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
#undef NAME_LANES
