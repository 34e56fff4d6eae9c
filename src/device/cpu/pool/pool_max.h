/* SPDX-License-Identifier: Apache-2.0
 *
 * Max pooling of planes, a part of pool_plane.h. The greatest element of a window is the first one that no later one exceeds; NaN
 * exceeds all (as in PyTorch).
 *
 * A row of the plane is dealt to lines: the columns that one tap kx of the window meets, window after window, lie side by side in
 * a line, and beyond the plane is LEAST. So any window, stride, dilation or padding is loads of whole vectors, kw of them a row,
 * and nothing is asked about borders. Two vectors of a row make one of each of two lines where windows are 2 apart; one line
 * serves all kx where they are 1 apart. Values alone take the greatest of a window's rows first, as they lie. Indices take all
 * elements in their order, from lines that stay while windows overlap. The gradient then goes where the indices say, element by
 * element, which costs less than asking every element of the plane which windows chose it. */
#define NAME_LANES ((int)(VECTOR_BYTES / sizeof(T)))

/* ---- windows of 2 x 2 side by side, the common case: a vector of windows at a time, nothing to keep ----
 * Two vectors of each of two rows make a vector of windows. They lie side by side in a row; where a row's windows fill half a
 * vector or less they are of two rows of windows, one below the other. Planes that leave no row over are one tall plane. */
typedef struct NAME(windows) {
    int64_t apart;                 /* the second vector, from the first */
    NAME(span) first, second, all; /* elements of the two, and windows */
    INDICES even, odd;             /* from the two vectors to those of the windows' left and right elements */
    INDICES low, high;             /* and back */
} NAME(windows);

/* n windows of a row; below: and those of the next row, w columns long */
INLINE NAME(windows) NAME(windows_of)(int64_t n, int64_t w, bool below)
{
    NAME(windows)
    v = {.apart = below ? 2 * w : NAME_LANES,
         .first = NAME(span_of)(2 * n),
         .second = NAME(span_of)(below ? 2 * n : 2 * n - NAME_LANES),
         .all = NAME(span_of)(below ? 2 * n : n)};
    int half = below ? (int)n : NAME_LANES / 2;
    UNROLL for (int i = 0; i < NAME_LANES; i++) {
        v.even[i] = i < half ? 2 * i : NAME_LANES + 2 * (i - half);
        v.odd[i] = v.even[i] + 1;
        v.low[i] = i / 2 + i % 2 * NAME_LANES;
        v.high[i] = v.low[i] + half;
    }
    return v;
}

INLINE void NAME(forward_rows)(int64_t rows, int64_t x_step, int64_t y_step, int64_t w, const T *x, T *y, const NAME(windows) * v)
{
    for (int64_t row = 0; row < rows; row++, x += x_step, y += y_step) {
        VECTOR a = NAME(load_span)(x, v->first), b = NAME(load_span)(x + v->apart, v->second);
        VECTOR c = NAME(load_span)(x + w, v->first), d = NAME(load_span)(x + w + v->apart, v->second);
        VECTOR left = NAME(beaten)(a, c, a, c), right = NAME(beaten)(b, d, b, d);
        a = SHUFFLE2(left, right, v->even);
        b = SHUFFLE2(left, right, v->odd);
        NAME(store_span)(y, v->all, NAME(beaten)(a, b, a, b));
    }
}

/* dx may be x. The next rows are loaded before these are stored: a load waits for a store of a part of a vector that it overlaps,
 * be it by lanes that were not stored. */
INLINE void NAME(gradient_rows)(int64_t rows, int64_t x_step, int64_t y_step, int64_t w, const T *x, const T *dy, T *dx,
                                const NAME(windows) * v)
{
    const VECTOR zero = {0};
    if (rows == 0)
        return;
    VECTOR p = NAME(load_span)(x, v->first), q = NAME(load_span)(x + v->apart, v->second);
    VECTOR r = NAME(load_span)(x + w, v->first), s = NAME(load_span)(x + w + v->apart, v->second);
    for (int64_t row = 0; row < rows; row++, dy += y_step, dx += x_step) {
        VECTOR g = NAME(load_span)(dy, v->all);
        VECTOR a = SHUFFLE2(p, q, v->even), b = SHUFFLE2(p, q, v->odd);
        VECTOR c = SHUFFLE2(r, s, v->even), d = SHUFFLE2(r, s, v->odd);
        if (row + 1 < rows) {
            x += x_step;
            p = NAME(load_span)(x, v->first), q = NAME(load_span)(x + v->apart, v->second);
            r = NAME(load_span)(x + w, v->first), s = NAME(load_span)(x + w + v->apart, v->second);
        }
        VECTOR top = NAME(beaten)(a, b, a, b), bottom = NAME(beaten)(c, d, c, d);
        VECTOR above = NAME(beaten)(top, bottom, g, zero), below = NAME(beaten)(top, bottom, zero, g);
        VECTOR left = NAME(beaten)(a, b, above, zero), right = NAME(beaten)(a, b, zero, above);
        NAME(store_span)(dx, v->first, SHUFFLE2(left, right, v->low));
        NAME(store_span)(dx + v->apart, v->second, SHUFFLE2(left, right, v->high));
        left = NAME(beaten)(c, d, below, zero), right = NAME(beaten)(c, d, zero, below);
        NAME(store_span)(dx + w, v->first, SHUFFLE2(left, right, v->low));
        NAME(store_span)(dx + w + v->apart, v->second, SHUFFLE2(left, right, v->high));
    }
}

/* Rows of several vectors are passed over vector by vector, so many at a time that they stay in the first-level cache: the
 * gradient of many rows, whose stores are in the way of loads else. From far away rows come faster one by one, as they lie. */
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
    const NAME(windows) full = NAME(windows_of)(NAME_LANES, w, false),
                        last = NAME(windows_of)((ow - 1) % NAME_LANES + 1, w, false);
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
    const NAME(windows) full = NAME(windows_of)(NAME_LANES, w, false),
                        last = NAME(windows_of)((ow - 1) % NAME_LANES + 1, w, false);
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

/* ---- windows of any kind ---- */

INLINE VECTOR NAME(greater)(VECTOR x, VECTOR y) { return NAME(beaten)(x, y, x, y); }

INLINE VECTOR NAME(load_whole)(const T *p)
{
    VECTOR v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

/* Columns of `rows` rows of the plane, w elements from one to the next `apart`, the greatest of each, to lines. row:
 * room for a row of the plane. */
INLINE void NAME(deal)(const samba_pool_plan *plan, const T *x, int64_t rows, int64_t apart, T *lines, T *row)
{
    int64_t w = plan->pool.w, step = plan->pool.stride[1];
    const samba_pool_line *one = plan->lines, *even = one, *odd = one + 1;
    if (step == 1) {
        const T *from = x + one->from;
        T *to = lines + one->at;
        for (int64_t i = 0; i < one->count; i += NAME_LANES) {
            NAME(span) part = NAME(span_of)(one->count - i);
            VECTOR v = NAME(load_span)(from + i, part);
            for (int64_t k = 1; k < rows; k++)
                v = NAME(greater)(v, NAME(load_span)(from + k * apart + i, part));
            NAME(store_span)(to + i, part, v);
        }
        return;
    }
    if (step == 2 && plan->line_count == 2) {
        INDICES evens, odds;
        if (even->from > odd->from)
            even = one + 1, odd = one;
        UNROLL for (int i = 0; i < NAME_LANES; i++) {
            evens[i] = 2 * i;
            odds[i] = 2 * i + 1;
        }
        T *left = lines + even->at, *right = lines + odd->at;
        /* as many even columns as odd ones, or one more */
        for (int64_t i = 0; i < even->count; i += NAME_LANES, x += 2 * NAME_LANES) {
            NAME(span) first = NAME(span_of)(w - 2 * i), second = NAME(span_of)(w - 2 * i - NAME_LANES);
            VECTOR a = NAME(load_span)(x, first), b = NAME(load_span)(x + NAME_LANES, second);
            for (int64_t k = 1; k < rows; k++) {
                a = NAME(greater)(a, NAME(load_span)(x + k * apart, first));
                b = NAME(greater)(b, NAME(load_span)(x + k * apart + NAME_LANES, second));
            }
            NAME(store_span)(left + i, NAME(span_of)(even->count - i), SHUFFLE2(a, b, evens));
            NAME(store_span)(right + i, NAME(span_of)(odd->count - i), SHUFFLE2(a, b, odds));
        }
        return;
    }
    if (rows > 1) {
        for (int64_t j = 0; j < w; j += NAME_LANES) {
            NAME(span) part = NAME(span_of)(w - j);
            VECTOR v = NAME(load_span)(x + j, part);
            for (int64_t k = 1; k < rows; k++)
                v = NAME(greater)(v, NAME(load_span)(x + k * apart + j, part));
            NAME(store_span)(row + j, part, v);
        }
        x = row;
    }
    for (int64_t l = 0; l < plan->line_count; l++) {
        const T *from = x + plan->lines[l].from;
        T *to = lines + plan->lines[l].at;
        for (int64_t i = 0; i < plan->lines[l].count; i++)
            to[i] = from[i * step];
    }
}

static void NAME(max_forward)(const samba_pool_plan *plan, const T *x, T *y, T *lines, T *row)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        samba_pool_range inside = plan->rows[oi];
        int64_t at = oi * p->stride[0] - p->padding[0] + inside.begin * p->dilation[0];
        for (int64_t oj = 0; inside.begin >= inside.end && oj < p->ow; oj++)
            y[oj] = LEAST;
        if (inside.begin >= inside.end)
            continue;
        NAME(deal)(plan, x + at * p->w, inside.end - inside.begin, p->dilation[0] * p->w, lines, row);
        for (int64_t oj = 0; oj < p->ow; oj += NAME_LANES) {
            VECTOR v = NAME(load_whole)(lines + plan->starts[0] + oj);
            for (int64_t kx = 1; kx < p->kernel[1]; kx++)
                v = NAME(greater)(v, NAME(load_whole)(lines + plan->starts[kx] + oj));
            NAME(store_span)(y + oj, NAME(span_of)(p->ow - oj), v);
        }
    }
}

/* One vector of windows; line: that of the first row inside the plane, number `turn` of those kept. */
INLINE INDICES NAME(index_of)(const samba_pool_plan *plan, samba_pool_range inside, int64_t turn, const T *lines, int64_t oj,
                              int64_t kw, INDICES index)
{
    const samba_pool *p = &plan->pool;
    int64_t down = p->dilation[0] * p->w;
    VECTOR best = (VECTOR){0} + (T)LEAST;
    index += (NAME(index))(inside.begin * down);
    for (int64_t ky = inside.begin; ky < inside.end; ky++) {
        const T *line = lines + turn * plan->kept_size + oj;
        for (int64_t kx = 0; kx < kw; kx++) {
            VECTOR v = NAME(load_whole)(line + plan->starts[kx]);
            INDICES here = (INDICES){0} + (NAME(index))(ky * down + kx * p->dilation[1]);
            index = (INDICES)NAME(beaten)(best, v, (VECTOR)index, (VECTOR)here);
            best = NAME(greater)(best, v);
        }
        turn += p->dilation[0];
        turn -= turn >= plan->kept ? plan->kept : 0;
    }
    return index;
}

/* The indices of the greatest elements of row oi of the result, from the window's first tap on; negative where nothing of it is
 * inside the plane. `next`: the first row of the plane that was not dealt yet. */
static void NAME(find)(const samba_pool_plan *plan, const T *x, int64_t oi, T *lines, T *row, int64_t *next, NAME(index) * index)
{
    const samba_pool *p = &plan->pool;
    const NAME(index) *first = plan->first_inside;
    samba_pool_range inside = plan->rows[oi];
    int64_t top = oi * p->stride[0] - p->padding[0], begin = top + inside.begin * p->dilation[0],
            end = top + (inside.end - 1) * p->dilation[0];
    if (inside.begin >= inside.end) {
        for (int64_t oj = 0; oj < p->ow; oj++)
            index[oj] = -1;
        return;
    }
    if (*next < top) /* rows that this window leaves out may be another's */
        *next = top;
    for (int64_t y = *next; y <= end; y++)
        NAME(deal)(plan, x + y * p->w, 1, 0, lines + y % plan->kept * plan->kept_size, row);
    *next = end + 1 > *next ? end + 1 : *next;
    for (int64_t oj = 0; oj < p->ow; oj += NAME_LANES) {
        INDICES at;
        __builtin_memcpy(&at, first + oj, sizeof at);
        if (p->kernel[1] == 3)
            at = NAME(index_of)(plan, inside, begin % plan->kept, lines, oj, 3, at);
        else
            at = NAME(index_of)(plan, inside, begin % plan->kept, lines, oj, p->kernel[1], at);
        __builtin_memcpy(index + oj, &at, sizeof at);
    }
}

static void NAME(max_gradient)(const samba_pool_plan *plan, const T *x, const T *dy, T *dx, T *lines, T *row, NAME(index) * index)
{
    const samba_pool *p = &plan->pool;
    int64_t next = 0, step = p->stride[1];
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        int64_t at = (oi * p->stride[0] - p->padding[0]) * p->w - p->padding[1];
        NAME(find)(plan, x, oi, lines, row, &next, index);
        for (int64_t oj = 0; oj < p->ow; oj++, at += step)
            if (index[oj] >= 0)
                dx[at + index[oj]] += dy[oj];
    }
}

static void NAME(max_indices)(const samba_pool_plan *plan, const T *x, int64_t *y, T *lines, T *row, NAME(index) * index)
{
    const samba_pool *p = &plan->pool;
    int64_t next = 0;
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        int64_t at = (oi * p->stride[0] - p->padding[0]) * p->w - p->padding[1];
        NAME(find)(plan, x, oi, lines, row, &next, index);
        for (int64_t oj = 0; oj < p->ow; oj++, at += p->stride[1])
            y[oj] = index[oj] >= 0 ? at + index[oj] : -1;
    }
}

/* ---- adaptive: windows of several sizes, whose rows and columns are those of the plane ---- */
static void NAME(find_adaptive_row)(const samba_pool_plan *plan, const T *x, int64_t oi, T *best, int64_t *index)
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
        index[oj] = at;
    }
}

static void NAME(max_adaptive_gradient)(const samba_pool_plan *plan, const T *x, const T *dy, T *dx, T *best, int64_t *index)
{
    const samba_pool *p = &plan->pool;
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        NAME(find_adaptive_row)(plan, x, oi, best, index);
        for (int64_t oj = 0; oj < p->ow; oj++)
            dx[index[oj]] += dy[oj];
    }
}

static void NAME(max_adaptive)(const samba_pool_plan *plan, const T *first, const T *dy, void *result,
                               const samba_pool_scratch *scratch)
{
    const samba_pool *p = &plan->pool;
    if (p->gradient)
        NAME(max_adaptive_gradient)(plan, first, dy, result, scratch->value, scratch->index);
    else
        for (int64_t oi = 0; oi < p->oh; oi++) {
            int64_t at = oi * p->ow;
            if (p->indices)
                NAME(find_adaptive_row)(plan, first, oi, scratch->value, (int64_t *)result + at);
            else
                NAME(find_adaptive_row)(plan, first, oi, (T *)result + at, scratch->index);
        }
}

/* ---- one window, the whole plane: passed over as it lies, a vector at a time ---- */

/* The index of the greatest of n elements: the first that equals it, or the last that is no number. */
static int64_t NAME(find_greatest)(const T *x, int64_t n)
{
    VECTOR v = NAME(load_span)(x, NAME(span_of)(n));
    T lanes[NAME_LANES];
    for (int64_t i = NAME_LANES; i + NAME_LANES <= n; i += NAME_LANES)
        v = NAME(greater)(v, NAME(load_whole)(x + i));
    __builtin_memcpy(lanes, &v, sizeof lanes);
    T most = x[0];
    for (int64_t i = 0; i < NAME_LANES && i < n; i++)
        most = lanes[i] > most || NO_NUMBER(lanes[i]) ? lanes[i] : most;
    for (int64_t i = n < NAME_LANES ? n : n / NAME_LANES * NAME_LANES; i < n; i++)
        most = x[i] > most || NO_NUMBER(x[i]) ? x[i] : most;
    if (NO_NUMBER(most)) {
        int64_t at = n - 1;
        while (at > 0 && !NO_NUMBER(x[at]))
            at--;
        return at;
    }
    int64_t at = 0;
    for (int64_t band = 4 * NAME_LANES; at + band <= n; at += band) { /* bands without it are passed over */
        VECTOR a = NAME(load_whole)(x + at), b = NAME(load_whole)(x + at + NAME_LANES);
        VECTOR c = NAME(load_whole)(x + at + 2 * NAME_LANES), d = NAME(load_whole)(x + at + 3 * NAME_LANES);
        a = NAME(greater)(NAME(greater)(a, b), NAME(greater)(c, d));
        bool there = false;
        __builtin_memcpy(lanes, &a, sizeof lanes);
        UNROLL for (int i = 0; i < NAME_LANES; i++)
            there |= lanes[i] == most;
        if (there)
            break;
    }
    while (at < n - 1 && x[at] != most)
        at++;
    return at;
}

static void NAME(max_whole)(const samba_pool *p, int64_t planes, const T *x, const T *dy, void *result)
{
    int64_t n = p->h * p->w;
    T *y = result;
    int64_t *indices = result;
    for (int64_t plane = 0; plane < planes; plane++) {
        const T *from = x + plane * n;
        int64_t at = NAME(find_greatest)(from, n);
        if (p->gradient) {
            memset(y + plane * n, 0, (size_t)n * sizeof *y);
            y[plane * n + at] = dy[plane];
        } else if (p->indices) {
            indices[plane] = at;
        } else {
            y[plane] = from[at];
        }
    }
}

/* ---- */
static void NAME(max)(const samba_pool_plan *plan, int64_t planes, const T *x, const T *dy, void *result,
                      const samba_pool_scratch *scratch)
{
    const samba_pool *p = &plan->pool;
    int64_t outside = p->h * p->w, pooled = p->oh * p->ow;
    T *lines = scratch->lines, *row = scratch->value;
    if (!p->indices && is_2x2(p)) {
        NAME(max_2x2)(p, planes, x, dy, result);
        return;
    }
    if (is_whole(p)) {
        NAME(max_whole)(p, planes, x, dy, result);
        return;
    }
    for (int64_t i = 0; i < plan->kept * plan->kept_size; i++)
        lines[i] = LEAST;
    for (int64_t plane = 0; plane < planes; plane++, x += outside, dy += p->gradient ? pooled : 0) {
        T *to = (T *)result + plane * (p->gradient ? outside : pooled);
        if (p->adaptive)
            NAME(max_adaptive)(plan, x, dy, p->indices ? (void *)((int64_t *)result + plane * pooled) : to, scratch);
        else if (p->gradient)
            NAME(max_gradient)(plan, x, dy, to, lines, row, scratch->index);
        else if (p->indices)
            NAME(max_indices)(plan, x, (int64_t *)result + plane * pooled, lines, row, scratch->index);
        else
            NAME(max_forward)(plan, x, to, lines, row);
    }
}

#undef NAME_LANES
#undef NAME_BELOW
#undef NAME_BAND
