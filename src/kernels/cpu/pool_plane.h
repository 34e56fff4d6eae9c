/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of planes, written once for float, double and int64_t: planes.c includes this with T (the type), LEAST (no value is less), NO_NUMBER
 * and NAME(x) defined, and for floats with VECTOR and INDICES.
 *
 * Work goes row by row of the result; for each place (ky, kx) of the window one loop runs over the columns whose element there is
 * inside the plane. The greatest element is the first one that no later one exceeds; NaN exceeds all (as in PyTorch). */

/* y[oj] = the greater of it and x[start + oj * step], columns begin .. end - 1 */
INLINE void NAME(raise)(T *y, const T *x, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    SAMBA_VECTOR_LOOP
    for (int64_t oj = begin; oj < end; oj++) {
        T v = x[start + oj * step];
        y[oj] = (v > y[oj]) | NO_NUMBER(v) ? v : y[oj];
    }
}

/* Rows first, whole and as they lie; then columns, which are some apart. row: a row of the plane. */
static void NAME(max_forward)(const samba_pool_plan *plan, const T *x, T *y, T *row)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        int64_t first = plan->rows[oi].begin, at = oi * p->stride[0] - p->padding[0] + first * p->dilation[0];
        const T *from = x + at * p->w;
        for (int64_t oj = 0; oj < p->ow; oj++)
            y[oj] = LEAST;
        if (first >= plan->rows[oi].end)
            continue;
        if (first + 1 < plan->rows[oi].end) {
            memcpy(row, from, (size_t)p->w * sizeof *row);
            for (int64_t ky = first + 1; ky < plan->rows[oi].end; ky++)
                NAME(raise)(row, from, (ky - first) * p->dilation[0] * p->w, 1, 0, p->w);
            from = row;
        }
        for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
            samba_pool_range range = plan->columns[kx];
            int64_t start = kx * p->dilation[1] - p->padding[1];
            if (p->stride[1] == 1)
                NAME(raise)(y, from, start, 1, range.begin, range.end);
            else if (p->stride[1] == 2)
                NAME(raise)(y, from, start, 2, range.begin, range.end);
            else
                NAME(raise)(y, from, start, p->stride[1], range.begin, range.end);
        }
    }
}

/* Where the greatest elements of row oi of the result lie in the plane; best, place: a row of the result. */
static void NAME(find_row)(const samba_pool_plan *plan, const T *x, int64_t oi, T *best, int64_t *place)
{
    const samba_pool *p = &plan->pool;
    int64_t step = p->stride[1];
    for (int64_t oj = 0; oj < p->ow; oj++) {
        best[oj] = LEAST;
        place[oj] = -1;
    }
    for (int64_t ky = plan->rows[oi].begin; ky < plan->rows[oi].end; ky++)
        for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
            int64_t start = row_start(p, oi, ky, kx), end = plan->columns[kx].end;
            SAMBA_VECTOR_LOOP
            for (int64_t oj = plan->columns[kx].begin; oj < end; oj++) {
                T v = x[start + oj * step];
                bool better = (v > best[oj]) | NO_NUMBER(v) | (place[oj] < 0);
                best[oj] = better ? v : best[oj];
                place[oj] = better ? start + oj * step : place[oj];
            }
        }
}

/* The same of windows of several sizes: rows and columns are those of the plane. */
static void NAME(find_adaptive_row)(const samba_pool_plan *plan, const T *x, int64_t oi, T *best, int64_t *place)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oj = 0; oj < p->ow; oj++) {
        int64_t at = plan->rows[oi].begin * p->w + plan->columns[oj].begin;
        T most = x[at];
        for (int64_t i = plan->rows[oi].begin; i < plan->rows[oi].end; i++)
            for (int64_t j = plan->columns[oj].begin; j < plan->columns[oj].end; j++) {
                T v = x[i * p->w + j];
                bool better = (v > most) | NO_NUMBER(v);
                most = better ? v : most;
                at = better ? i * p->w + j : at;
            }
        best[oj] = most;
        place[oj] = at;
    }
}

static void NAME(find)(const samba_pool_plan *plan, const T *x, int64_t oi, T *best, int64_t *place)
{
    (plan->pool.adaptive ? NAME(find_adaptive_row) : NAME(find_row))(plan, x, oi, best, place);
}

static void NAME(max_gradient)(const samba_pool_plan *plan, const T *x, const T *dy, T *dx, T *best, int64_t *place)
{
    const samba_pool *p = &plan->pool;
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        NAME(find)(plan, x, oi, best, place);
        for (int64_t oj = 0; oj < p->ow; oj++)
            if (place[oj] >= 0)
                dx[place[oj]] += dy[oj];
    }
}

#ifdef VECTOR
/* ---- windows of 2 x 2 side by side, the common case: a vector of windows at a time, nothing to keep ----
 * Two vectors of each of two rows make a vector of windows. They lie side by side in a row; where a row's windows fill half a vector
 * or less they are of two rows of windows, one below the other. Planes that leave no row over are one tall plane. */
#define NAME_LANES ((int)(VECTOR_BYTES / sizeof(T)))

typedef struct NAME(windows) {
    int64_t apart;                /* the second vector, from the first */
    NAME(span) first, second, all; /* elements of the two, and windows */
    INDICES even, odd;            /* from the two vectors to those of the windows' left and right elements */
    INDICES low, high;            /* and back */
} NAME(windows);

/* n windows of a row; below: and those of the next row, w columns long */
INLINE NAME(windows) NAME(windows_of)(int64_t n, int64_t w, bool below)
{
    NAME(windows) v = {.apart = below ? 2 * w : NAME_LANES, .first = NAME(span_of)(2 * n),
                       .second = NAME(span_of)(below ? 2 * n : 2 * n - NAME_LANES), .all = NAME(span_of)(below ? 2 * n : n)};
    int half = below ? (int)n : NAME_LANES / 2;
    UNROLL for (int i = 0; i < NAME_LANES; i++) {
        v.even[i] = i < half ? 2 * i : NAME_LANES + 2 * (i - half);
        v.odd[i] = v.even[i] + 1;
        v.low[i] = i / 2 + i % 2 * NAME_LANES;
        v.high[i] = v.low[i] + half;
    }
    return v;
}

INLINE void NAME(forward_rows)(int64_t rows, int64_t x_step, int64_t y_step, int64_t w, const T *x, T *y, const NAME(windows) *v)
{
    for (int64_t row = 0; row < rows; row++, x += x_step, y += y_step) {
        VECTOR a = NAME(load_span)(x, v->first), b = NAME(load_span)(x + v->apart, v->second);
        VECTOR c = NAME(load_span)(x + w, v->first), d = NAME(load_span)(x + w + v->apart, v->second);
        VECTOR left = NAME(beaten)(a, c, a, c), right = NAME(beaten)(b, d, b, d);
        a = __builtin_shuffle(left, right, v->even);
        b = __builtin_shuffle(left, right, v->odd);
        NAME(store_span)(y, v->all, NAME(beaten)(a, b, a, b));
    }
}

/* dx may be x. The next rows are loaded before these are stored: a load waits for a store of a part of a vector that it overlaps, be
 * it by lanes that were not stored. */
INLINE void NAME(gradient_rows)(int64_t rows, int64_t x_step, int64_t y_step, int64_t w, const T *x, const T *dy, T *dx,
                                const NAME(windows) *v)
{
    const VECTOR zero = {0};
    if (rows == 0)
        return;
    VECTOR p = NAME(load_span)(x, v->first), q = NAME(load_span)(x + v->apart, v->second);
    VECTOR r = NAME(load_span)(x + w, v->first), s = NAME(load_span)(x + w + v->apart, v->second);
    for (int64_t row = 0; row < rows; row++, dy += y_step, dx += x_step) {
        VECTOR g = NAME(load_span)(dy, v->all);
        VECTOR a = __builtin_shuffle(p, q, v->even), b = __builtin_shuffle(p, q, v->odd);
        VECTOR c = __builtin_shuffle(r, s, v->even), d = __builtin_shuffle(r, s, v->odd);
        if (row + 1 < rows) {
            x += x_step;
            p = NAME(load_span)(x, v->first), q = NAME(load_span)(x + v->apart, v->second);
            r = NAME(load_span)(x + w, v->first), s = NAME(load_span)(x + w + v->apart, v->second);
        }
        VECTOR top = NAME(beaten)(a, b, a, b), bottom = NAME(beaten)(c, d, c, d);
        VECTOR above = NAME(beaten)(top, bottom, g, zero), below = NAME(beaten)(top, bottom, zero, g);
        VECTOR left = NAME(beaten)(a, b, above, zero), right = NAME(beaten)(a, b, zero, above);
        NAME(store_span)(dx, v->first, __builtin_shuffle(left, right, v->low));
        NAME(store_span)(dx + v->apart, v->second, __builtin_shuffle(left, right, v->high));
        left = NAME(beaten)(c, d, below, zero), right = NAME(beaten)(c, d, zero, below);
        NAME(store_span)(dx + w, v->first, __builtin_shuffle(left, right, v->low));
        NAME(store_span)(dx + w + v->apart, v->second, __builtin_shuffle(left, right, v->high));
    }
}

/* Rows of several vectors are passed over vector by vector, so many at a time that they stay in the first-level cache: the gradient of
 * many rows, whose stores are in the way of loads else. From far away rows come faster one by one, as they lie. */
#define NAME_BAND(rows, w) ((rows) * (w) * (int64_t)sizeof(T) > 1 << 21 ? 1 : 1 + 8192 / ((w) * (int64_t)sizeof(T)))

/* Two rows of windows in a vector need its elements shuffled as the plane is wide, which takes one instruction or very many. */
#define NAME_BELOW(ow) (VECTOR_BYTES == 64 && 2 * (ow) <= NAME_LANES)

static void NAME(max_forward_2x2)(const samba_pool *p, int64_t rows, const T *x, T *y)
{
    int64_t w = p->w, ow = p->ow, done = 0, band = ow > NAME_LANES ? 1 : rows;
    if (NAME_BELOW(ow)) {
        NAME(windows) v = NAME(windows_of)(ow, w, true);
        done = rows / 2 * 2;
        NAME(forward_rows)(rows / 2, 4 * w, 2 * ow, w, x, y, &v);
    }
    const NAME(windows) full = NAME(windows_of)(NAME_LANES, w, false), last = NAME(windows_of)((ow - 1) % NAME_LANES + 1, w, false);
    for (; done < rows; done += band) {
        band = band < rows - done ? band : rows - done;
        const T *from = x + 2 * done * w;
        T *to = y + done * ow;
        int64_t oj = 0;
        for (; oj + NAME_LANES < ow; oj += NAME_LANES)
            NAME(forward_rows)(band, 2 * w, ow, w, from + 2 * oj, to + oj, &full);
        NAME(forward_rows)(band, 2 * w, ow, w, from + 2 * oj, to + oj, &last);
    }
}

static void NAME(max_gradient_2x2)(const samba_pool *p, int64_t rows, const T *x, const T *dy, T *dx)
{
    int64_t w = p->w, ow = p->ow, done = 0, band = ow > NAME_LANES ? NAME_BAND(rows, w) : rows;
    if (NAME_BELOW(ow)) {
        NAME(windows) v = NAME(windows_of)(ow, w, true);
        done = rows / 2 * 2;
        NAME(gradient_rows)(rows / 2, 4 * w, 2 * ow, w, x, dy, dx, &v);
    }
    const NAME(windows) full = NAME(windows_of)(NAME_LANES, w, false), last = NAME(windows_of)((ow - 1) % NAME_LANES + 1, w, false);
    for (; done < rows; done += band) {
        band = band < rows - done ? band : rows - done;
        int64_t at = 2 * done * w, from = done * ow, oj = 0;
        for (; oj + NAME_LANES < ow; oj += NAME_LANES)
            NAME(gradient_rows)(band, 2 * w, ow, w, x + at + 2 * oj, dy + from + oj, dx + at + 2 * oj, &full);
        NAME(gradient_rows)(band, 2 * w, ow, w, x + at + 2 * oj, dy + from + oj, dx + at + 2 * oj, &last);
    }
    for (int64_t row = 0; row < 2 * rows && 2 * ow < w; row++)
        memset(dx + row * w + 2 * ow, 0, (size_t)(w - 2 * ow) * sizeof *dx);
}

static void NAME(max_2x2)(const samba_pool *p, int64_t planes, const T *first, const T *second, T *result)
{
    bool tall = 2 * p->oh == p->h; /* planes follow each other without rows left over */
    int64_t rows = tall ? planes * p->oh : p->oh, outside = p->h * p->w, pooled = p->oh * p->ow;
    for (int64_t plane = 0; plane < (tall ? 1 : planes); plane++) {
        if (p->gradient) {
            T *dx = result + plane * outside;
            NAME(max_gradient_2x2)(p, rows, first + plane * outside, second + plane * pooled, dx);
            if (!tall)
                memset(dx + 2 * p->oh * p->w, 0, (size_t)((p->h - 2 * p->oh) * p->w) * sizeof *dx);
        } else {
            NAME(max_forward_2x2)(p, rows, first + plane * outside, result + plane * pooled);
        }
    }
}

#endif

/* y[oj] += x[start + oj * step], and the reverse */
INLINE void NAME(gather_sum)(T *y, const T *x, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    SAMBA_VECTOR_LOOP
    for (int64_t oj = begin; oj < end; oj++)
        y[oj] += x[start + oj * step];
}

INLINE void NAME(scatter_sum)(T *x, const T *y, int64_t start, int64_t step, int64_t begin, int64_t end)
{
    SAMBA_VECTOR_LOOP
    for (int64_t oj = begin; oj < end; oj++)
        x[start + oj * step] += y[oj];
}

/* Rows first, as with maxima. */
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
        SAMBA_VECTOR_LOOP
        for (int64_t oj = 0; oj < p->ow; oj++)
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
        SAMBA_VECTOR_LOOP
        for (int64_t oj = 0; oj < p->ow; oj++)
            share[oj] = dy[oj] / (height * (T)plan->widths[oj]);
        memset(row, 0, (size_t)p->w * sizeof *row);
        for (int64_t kx = 0; kx < p->kernel[1]; kx++)
            NAME(scatter_sum)(row, share, kx * p->dilation[1] - p->padding[1], p->stride[1], plan->columns[kx].begin, plan->columns[kx].end);
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
            SAMBA_VECTOR_LOOP
            for (int64_t j = 0; j < p->w; j++)
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
            SAMBA_VECTOR_LOOP
            for (int64_t j = 0; j < p->w; j++)
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
                const T *row = x + plan->places[0][k * p->oh + oi] * p->w;
                T weight = row_weights[k * p->oh + oi];
                if (k == 0) {
                    SAMBA_VECTOR_LOOP
                    for (int64_t j = 0; j < p->w; j++)
                        to[j] = weight * row[j];
                } else {
                    SAMBA_VECTOR_LOOP
                    for (int64_t j = 0; j < p->w; j++)
                        to[j] += weight * row[j];
                }
            }
        for (int64_t k = 0; k < plan->taps[1] && !plan->same[1]; k++) {
            const int32_t *places = plan->places[1] + k * p->ow;
            const T *weights = column_weights + k * p->ow;
            if (k == 0) {
                SAMBA_VECTOR_LOOP
                for (int64_t oj = 0; oj < p->ow; oj++)
                    y[oj] = weights[oj] * from[places[oj]];
            } else {
                SAMBA_VECTOR_LOOP
                for (int64_t oj = 0; oj < p->ow; oj++)
                    y[oj] += weights[oj] * from[places[oj]];
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
                sums[plan->places[1][k * p->ow + oj]] += column_weights[k * p->ow + oj] * dy[oj];
        const T *from = plan->same[1] ? dy : sums;
        for (int64_t k = 0; k < plan->taps[0]; k++) {
            T *row = dx + plan->places[0][k * p->oh + oi] * p->w, weight = row_weights[k * p->oh + oi];
            SAMBA_VECTOR_LOOP
            for (int64_t j = 0; j < p->w; j++)
                row[j] += weight * from[j];
        }
    }
}

void SAMBA_ISA_NAME(NAME(samba_pool))(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second, void *result,
                                      void *value, int64_t *place)
{
    const samba_pool *p = &plan->pool;
#ifdef VECTOR
    if (!p->average && !p->indices && is_2x2(p)) {
        NAME(max_2x2)(p, planes, first, second, result);
        return;
    }
#endif
    int64_t outside = p->h * p->w, pooled = p->oh * p->ow;
    const T *x = first, *dy = p->average ? first : second;
    T *to = result;
    for (int64_t plane = 0; plane < planes; plane++, x += outside, dy += pooled, to += p->gradient ? outside : pooled) {
        if (p->resample)
            (p->gradient ? NAME(resample_gradient) : NAME(resample))(plan, p->gradient ? dy : x, to, value);
        else if (p->average && p->gradient)
            p->adaptive ? NAME(average_adaptive_gradient)(plan, dy, to, value) : NAME(average_gradient)(plan, dy, to, (T *)place, value);
        else if (p->average && p->adaptive)
            NAME(average_adaptive)(plan, x, to, value);
        else if (p->average)
            NAME(average_forward)(plan, x, to, value);
        else if (p->gradient)
            NAME(max_gradient)(plan, x, dy, to, value, place);
        else if (p->indices)
            for (int64_t oi = 0; oi < p->oh; oi++)
                NAME(find)(plan, x, oi, value, (int64_t *)result + plane * pooled + oi * p->ow);
        else if (p->adaptive)
            for (int64_t oi = 0; oi < p->oh; oi++)
                NAME(find_adaptive_row)(plan, x, oi, to + oi * p->ow, place);
        else
            NAME(max_forward)(plan, x, to, value);
    }
}
#undef NAME_LANES
#undef NAME_BELOW
#undef NAME_BAND
