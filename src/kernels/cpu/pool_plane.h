/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of one plane, written once for float and for double: pool.c includes this with T (the type) and NAME(x) defined.
 *
 * Work goes row by row of the result; for each place (ky, kx) of the window one loop runs over the columns whose element there is
 * inside the plane. The greatest element is the first one that no later one exceeds; NaN exceeds all (as in PyTorch). */

static void NAME(max_forward)(const samba_pool *p, const T *x, T *y)
{
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        for (int64_t oj = 0; oj < p->ow; oj++)
            y[oj] = -INFINITY;
        range ky = window_range(p, 0, oi);
        for (; ky.begin < ky.end; ky.begin++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                range columns = column_range(p, kx);
                int64_t start = row_start(p, oi, ky.begin, kx);
                for (int64_t oj = columns.begin; oj < columns.end; oj++) {
                    T v = x[start + oj * p->stride[1]];
                    y[oj] = v > y[oj] || v != v ? v : y[oj];
                }
            }
    }
}

/* best, place: a row of the result */
static void NAME(max_gradient)(const samba_pool *p, const T *x, const T *dy, T *dx, T *best, int64_t *place)
{
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        for (int64_t oj = 0; oj < p->ow; oj++) {
            best[oj] = -INFINITY;
            place[oj] = -1;
        }
        range ky = window_range(p, 0, oi);
        for (; ky.begin < ky.end; ky.begin++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                range columns = column_range(p, kx);
                int64_t start = row_start(p, oi, ky.begin, kx);
                for (int64_t oj = columns.begin; oj < columns.end; oj++) {
                    T v = x[start + oj * p->stride[1]];
                    bool better = v > best[oj] || v != v || place[oj] < 0;
                    best[oj] = better ? v : best[oj];
                    place[oj] = better ? start + oj * p->stride[1] : place[oj];
                }
            }
        for (int64_t oj = 0; oj < p->ow; oj++)
            if (place[oj] >= 0)
                dx[place[oj]] += dy[oj];
    }
}

/* Windows of 2 x 2 side by side, the common case: four elements at a time, nothing to keep. */
static void NAME(max_forward_2x2)(const samba_pool *p, const T *x, T *y)
{
    for (int64_t oi = 0; oi < p->oh; oi++, x += 2 * p->w, y += p->ow)
        for (int64_t oj = 0; oj < p->ow; oj++) {
            T a = x[2 * oj], b = x[2 * oj + 1], c = x[p->w + 2 * oj], d = x[p->w + 2 * oj + 1];
            a = b > a || b != b ? b : a;
            c = d > c || d != d ? d : c;
            y[oj] = c > a || c != c ? c : a;
        }
}

static void NAME(max_gradient_2x2)(const samba_pool *p, const T *x, const T *dy, T *dx)
{
    int64_t w = p->w, used = 2 * p->ow;
    for (int64_t oi = 0; oi < p->oh; oi++, x += 2 * w, dx += 2 * w, dy += p->ow) {
        for (int64_t oj = 0; oj < p->ow; oj++) {
            T a = x[2 * oj], b = x[2 * oj + 1], c = x[w + 2 * oj], d = x[w + 2 * oj + 1], g = dy[oj];
            bool right = b > a || b != b, right_below = d > c || d != d;
            T top = right ? b : a, bottom = right_below ? d : c;
            bool below = bottom > top || bottom != bottom;
            dx[2 * oj] = !below && !right ? g : 0;
            dx[2 * oj + 1] = !below && right ? g : 0;
            dx[w + 2 * oj] = below && !right_below ? g : 0;
            dx[w + 2 * oj + 1] = below && right_below ? g : 0;
        }
        for (int64_t j = used; j < w; j++)
            dx[j] = dx[w + j] = 0;
    }
    memset(dx, 0, (size_t)((p->h - 2 * p->oh) * w) * sizeof *dx);
}

static void NAME(average_forward)(const samba_pool *p, const T *x, T *y)
{
    for (int64_t oi = 0; oi < p->oh; oi++, y += p->ow) {
        memset(y, 0, (size_t)p->ow * sizeof *y);
        range ky = window_range(p, 0, oi);
        int64_t height = ky.end - ky.begin;
        for (; ky.begin < ky.end; ky.begin++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                range columns = column_range(p, kx);
                int64_t start = row_start(p, oi, ky.begin, kx);
                for (int64_t oj = columns.begin; oj < columns.end; oj++)
                    y[oj] += x[start + oj * p->stride[1]];
            }
        for (int64_t oj = 0; oj < p->ow; oj++)
            y[oj] /= (T)divisor(p, height, oj);
    }
}

static void NAME(average_gradient)(const samba_pool *p, const T *dy, T *dx, T *share)
{
    memset(dx, 0, (size_t)(p->h * p->w) * sizeof *dx);
    for (int64_t oi = 0; oi < p->oh; oi++, dy += p->ow) {
        range ky = window_range(p, 0, oi);
        int64_t height = ky.end - ky.begin;
        for (int64_t oj = 0; oj < p->ow; oj++)
            share[oj] = dy[oj] / (T)divisor(p, height, oj);
        for (; ky.begin < ky.end; ky.begin++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
                range columns = column_range(p, kx);
                int64_t start = row_start(p, oi, ky.begin, kx);
                for (int64_t oj = columns.begin; oj < columns.end; oj++)
                    dx[start + oj * p->stride[1]] += share[oj];
            }
    }
}
