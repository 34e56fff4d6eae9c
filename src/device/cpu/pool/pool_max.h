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

/* ---- the greatest of elements that lie side by side, a vector at a time ---- */

/* The first n elements from x on, fewer than a vector's lanes or not; beyond them the one that is given. */
INLINE VECTOR NAME(load_filled)(const T *x, int64_t n, T fill, INDICES numbers)
{
    INDICES inside = numbers < (NAME(index))(n < NAME_LANES ? n : NAME_LANES);
    VECTOR v = NAME(load_span)(x, NAME(span_of)(n)), other = fill - (VECTOR){0};
    return (VECTOR)(((INDICES)v & inside) | ((INDICES)other & ~inside));
}

/* The greatest of all lanes, in each of them. */
INLINE VECTOR NAME(greatest_across)(VECTOR most)
{
    INDICES other;
    UNROLL for (int half = NAME_LANES / 2; half > 0; half /= 2) {
        __builtin_memcpy(&other, LANES_FROM + half, sizeof other);
        most = NAME(greater)(most, SHUFFLE1(most, other));
    }
    return most;
}

/* NaN where there is one; n >= 1 */
static T NAME(greatest_of)(const T *x, int64_t n)
{
    T most = x[0], lanes[4 * NAME_LANES];
    int64_t i = 0;
    if (n > 2 && n <= NAME_LANES) { /* the compiler makes branches of the loop below, which depend on the values */
        INDICES numbers;
        __builtin_memcpy(&numbers, LANES_FROM, sizeof numbers);
        return NAME(greatest_across)(NAME(load_filled)(x, n, x[0], numbers))[0];
    }
    if (n >= 4 * NAME_LANES) {
        VECTOR v[4];
        UNROLL for (int k = 0; k < 4; k++)
            v[k] = NAME(load_whole)(x + k * NAME_LANES);
        for (i = 4 * NAME_LANES; i + 4 * NAME_LANES <= n; i += 4 * NAME_LANES) {
            UNROLL for (int k = 0; k < 4; k++)
                v[k] = NAME(greater)(v[k], NAME(load_whole)(x + i + k * NAME_LANES));
        }
        v[0] = NAME(greater)(NAME(greater)(v[0], v[1]), NAME(greater)(v[2], v[3]));
        __builtin_memcpy(lanes, v, sizeof v[0]);
        for (int k = 0; k < NAME_LANES; k++)
            most = ((lanes[k] > most) | NO_NUMBER(lanes[k])) ? lanes[k] : most;
    }
    for (; i < n; i++)
        most = ((x[i] > most) | NO_NUMBER(x[i])) ? x[i] : most;
    return most;
}

/* The first of elements at .. n-1 that equals `most`, or n. */
static int64_t NAME(first_equal)(const T *x, int64_t at, int64_t n, T most)
{
    for (int64_t band = 4 * NAME_LANES; at + band <= n; at += band) { /* bands without it are passed over */
        INDICES any = {0};
        UNROLL for (int k = 0; k < 4; k++)
            any |= (INDICES)(NAME(load_whole)(x + at + k * NAME_LANES) == (VECTOR){0} + most);
        bool there = false;
        NAME(index) masks[NAME_LANES];
        __builtin_memcpy(masks, &any, sizeof any);
        UNROLL for (int i = 0; i < NAME_LANES; i++)
            there |= masks[i] != 0;
        if (there)
            break;
    }
    while (at < n && x[at] != most)
        at++;
    return at;
}

/* The first of n elements, of a few vectors, that equals the greatest; -1 where one is no number. Each lane keeps the first of
 * its greatest, where elements beyond the last repeat the first. */
INLINE int64_t NAME(find_in_vectors)(const T *x, int64_t n)
{
    INDICES numbers, other;
    __builtin_memcpy(&numbers, LANES_FROM, sizeof numbers);
    VECTOR best = NAME(load_filled)(x, n, x[0], numbers);
    INDICES at = numbers;
    for (int64_t i = NAME_LANES; i < n; i += NAME_LANES) {
        VECTOR next = NAME(load_filled)(x + i, n - i, x[0], numbers);
        at = (INDICES)NAME(beaten)(best, next, (VECTOR)at, (VECTOR)(numbers + (NAME(index))i));
        best = NAME(greater)(best, next);
    }
    VECTOR most = NAME(greatest_across)(best);
    if (NO_NUMBER(most[0]))
        return -1;
    INDICES is_most = best == most;
    at = (at & is_most) | (~is_most & (NAME(index))INT32_MAX);
    UNROLL for (int half = NAME_LANES / 2; half > 0; half /= 2) {
        __builtin_memcpy(&other, LANES_FROM + half, sizeof other);
        INDICES across = SHUFFLE1(at, other), less = across < at;
        at = (across & less) | (at & ~less);
    }
    return (int64_t)at[0];
}

/* The first that equals the greatest, or the last that is no number. */
static int64_t NAME(find_greatest)(const T *x, int64_t n)
{
    int64_t found = n > 2 && n < 4 * NAME_LANES ? NAME(find_in_vectors)(x, n) : -1;
    if (found >= 0)
        return found;
    if (n < 4 * NAME_LANES) { /* in one pass */
        T most = x[0];
        int64_t at = 0;
        for (int64_t i = 1; i < n; i++) {
            T v = x[i];
            bool better = (v > most) | NO_NUMBER(v);
            most = better ? v : most;
            at = better ? i : at;
        }
        return at;
    }
    T most = NAME(greatest_of)(x, n);
    if (!NO_NUMBER(most))
        return NAME(first_equal)(x, 0, n, most);
    int64_t at = n - 1;
    while (at > 0 && !NO_NUMBER(x[at]))
        at--;
    return at;
}

/* ---- adaptive: windows of several sizes, whose rows and columns are those of the plane ---- */

/* The greatest element of each column within rows, and its row. */
INLINE void NAME(fold_rows)(const T *x, samba_pool_range rows, int64_t w, T *best, NAME(index) * row_of)
{
    for (int64_t j = 0; j < w; j += NAME_LANES) {
        NAME(span) part = NAME(span_of)(w - j);
        VECTOR v = NAME(load_span)(x + rows.begin * w + j, part);
        INDICES row = (INDICES){0} + (NAME(index))rows.begin;
        for (int64_t i = rows.begin + 1; i < rows.end; i++) {
            VECTOR next = NAME(load_span)(x + i * w + j, part);
            if (row_of)
                row = (INDICES)NAME(beaten)(v, next, (VECTOR)row, (VECTOR)((INDICES){0} + (NAME(index))i));
            v = NAME(greater)(v, next);
        }
        NAME(store_span)(best + j, part, v);
        if (row_of)
            NAME(store_span)((T *)row_of + j, part, (VECTOR)row);
    }
}

/* Of columns' greatest elements that of a window: the first of its row and column, or the last that is no number. */
INLINE int64_t NAME(find_column)(const T *best, const NAME(index) * row_of, samba_pool_range columns)
{
    int64_t n = columns.end - columns.begin, found;
    best += columns.begin;
    row_of += columns.begin;
    T most = NAME(greatest_of)(best, n);
    if (NO_NUMBER(most)) {
        found = -1;
        for (int64_t j = 0; j < n; j++)
            if (NO_NUMBER(best[j]) && (found < 0 || row_of[j] >= row_of[found]))
                found = j;
    } else {
        found = NAME(first_equal)(best, 0, n, most);
        for (int64_t j = found + 1; (j = NAME(first_equal)(best, j, n, most)) < n; j++)
            if (row_of[j] < row_of[found])
                found = j;
    }
    return columns.begin + found;
}

static void NAME(max_adaptive_row)(const samba_pool_plan *plan, const T *x, int64_t oi, T *y, T *row)
{
    const samba_pool *p = &plan->pool;
    samba_pool_range rows = plan->rows[oi];
    bool empty = rows.begin >= rows.end;
    const T *best = x + rows.begin * p->w;
    if (!empty && rows.end - rows.begin > 1) {
        best = plan->single ? y : row;
        NAME(fold_rows)(x, rows, p->w, plan->single ? y : row, NULL);
    } else if (!empty && plan->single) {
        memcpy(y, best, (size_t)p->w * sizeof *y);
    }
    for (int64_t oj = 0; oj < p->ow && (empty || !plan->single); oj++) {
        samba_pool_range columns = plan->columns[oj];
        y[oj] =
            empty || columns.begin >= columns.end ? LEAST : NAME(greatest_of)(best + columns.begin, columns.end - columns.begin);
    }
}

/* Where in the plane the greatest elements are, or -1. dx: gets dy there; indices: is told; either may be NULL. */
static void NAME(find_adaptive_row)(const samba_pool_plan *plan, const T *x, int64_t oi, const T *dy, T *dx, int64_t *indices,
                                    T *row, NAME(index) * row_of)
{
    const samba_pool *p = &plan->pool;
    samba_pool_range rows = plan->rows[oi];
    bool many = rows.end - rows.begin > 1;
    if (many)
        NAME(fold_rows)(x, rows, p->w, row, row_of);
    for (int64_t oj = 0; oj < p->ow; oj++) {
        samba_pool_range columns = plan->columns[oj];
        int64_t at = -1;
        if (rows.begin < rows.end && columns.begin < columns.end) {
            const T *one = x + rows.begin * p->w + columns.begin;
            int64_t j = plan->single ? oj
                        : many       ? NAME(find_column)(row, row_of, columns)
                                     : columns.begin + NAME(find_greatest)(one, columns.end - columns.begin);
            at = (many ? (int64_t)row_of[j] : rows.begin) * p->w + j;
        }
        if (indices)
            indices[oj] = at;
        if (dx && at >= 0)
            dx[at] += dy[oj];
    }
}

static void NAME(max_adaptive)(const samba_pool_plan *plan, const T *first, const T *dy, void *result,
                               const samba_pool_scratch *scratch)
{
    const samba_pool *p = &plan->pool;
    for (int64_t oi = 0; oi < p->oh; oi++) {
        int64_t at = oi * p->ow;
        if (p->gradient)
            NAME(find_adaptive_row)(plan, first, oi, dy + at, result, NULL, scratch->value, scratch->index);
        else if (p->indices)
            NAME(find_adaptive_row)(plan, first, oi, NULL, NULL, (int64_t *)result + at, scratch->value, scratch->index);
        else
            NAME(max_adaptive_row)(plan, first, oi, (T *)result + at, scratch->value);
    }
}

/* ---- one window, the whole plane: passed over as it lies ---- */

/* Zeros for the gradient of a plane; small planes get them some at a time. */
static void NAME(clear_planes)(T *dx, int64_t n, int64_t plane, int64_t planes)
{
    const int64_t together = n < 16 * NAME_LANES ? 64 : 1, left = planes - plane;
    if (plane % together == 0)
        memset(dx + plane * n, 0, (size_t)(n * (left < together ? left : together)) * sizeof *dx);
}

static void NAME(max_whole)(const samba_pool *p, int64_t planes, const T *x, const T *dy, void *result)
{
    int64_t n = p->h * p->w;
    T *y = result;
    int64_t *indices = result;
    for (int64_t plane = 0; plane < planes; plane++) {
        const T *from = x + plane * n;
        if (p->gradient)
            NAME(clear_planes)(y, n, plane, planes);
        if (!p->gradient && !p->indices) {
            y[plane] = NAME(greatest_of)(from, n);
            continue;
        }
        int64_t at = NAME(find_greatest)(from, n);
        if (p->gradient) {
            y[plane * n + at] = dy[plane];
        } else {
            indices[plane] = at;
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
    if (is_whole(plan)) {
        NAME(max_whole)(p, planes, x, dy, result);
        return;
    }
    for (int64_t i = 0; i < plan->kept * plan->kept_size; i++)
        lines[i] = LEAST;
    for (int64_t plane = 0; plane < planes; plane++, x += outside, dy += p->gradient ? pooled : 0) {
        T *to = (T *)result + plane * (p->gradient ? outside : pooled);
        if (p->adaptive && p->gradient)
            NAME(clear_planes)(result, outside, plane, planes);
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
