/* SPDX-License-Identifier: Apache-2.0
 *
 * Images read at a grid's positions, written once for float and double: samples.c includes this with T, INDEX (an integer of its
 * size) and NAME(x) defined.
 *
 * So many positions are taken at once: their coordinates become pixels, weights and slopes of each axis, then of all axes, in
 * tables that all channels share. What is left for a channel is a loop over a table. A pixel outside has the index -1; it is
 * read as 0. Positions with all pixels outside, and taps that are outside of all positions, leave the tables. */

enum { NAME(AT_ONCE) = SAMBA_SAMPLE_TOGETHER / sizeof(T) };

typedef struct NAME(axis) {
    INDEX at[4][NAME(AT_ONCE)];
    T weight[4][NAME(AT_ONCE)], slope[4][NAME(AT_ONCE)];
} NAME(axis);

typedef struct NAME(tables) {
    NAME(axis) axes[3];
    INDEX index[16][NAME(AT_ONCE)], from[16][NAME(AT_ONCE)];
    T weight[16][NAME(AT_ONCE)], slopes[3][16][NAME(AT_ONCE)];
    INDEX where[NAME(AT_ONCE)]; /* the positions that tables are of */
    int64_t kept;               /* how many */
    bool holes;                 /* pixels outside are left */
    T place[NAME(AT_ONCE)], next[NAME(AT_ONCE)], sign[NAME(AT_ONCE)], unit[3][NAME(AT_ONCE)], sums[3][NAME(AT_ONCE)];
} NAME(tables);
_Static_assert(sizeof(NAME(tables)) <= SAMBA_SAMPLE_SCRATCH, "a thread's scratch holds the tables");

/* Coordinates after padding. What is multiplied into `slope` is 0 where they stay at an edge, and -1 where they run backwards. */
static void NAME(pad)(const samba_pool *p, int64_t size, int64_t n, T *at, T *slope)
{
    const T last = (T)(size - 1), low = p->align_corners ? 0 : (T)-0.5, twice = 2 * (T)(p->align_corners ? size - 1 : size);
    if (p->outside == SAMBA_SAMPLE_REFLECTION && twice == 0) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
            at[i] *= 0;
            slope[i] = 0;
        }
    } else if (p->outside == SAMBA_SAMPLE_REFLECTION) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
            T away = at[i] - low, far = away < 0 ? -away : away, rest = far - NAME(floor)(far / twice) * twice;
            T back = twice - rest, one = away < 0 ? -slope[i] : slope[i];
            slope[i] = rest > back ? -one : one;
            at[i] = (rest > back ? back : rest) + low;
        }
    }
    if (p->outside != SAMBA_SAMPLE_ZEROS) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
            T a = at[i];
            slope[i] = ((a <= 0) | (a >= last)) ? 0 : slope[i];
            a = a < 0 ? 0 : a;
            at[i] = a > last ? last : a;
        }
    }
}

/* Whole coordinates as pixels. */
static void NAME(pixels)(int64_t size, int64_t n, const T *at, INDEX *pixel)
{
    const T last = (T)(size - 1);
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
        bool inside = (at[i] >= 0) & (at[i] <= last);
        T whole = inside ? at[i] : 0;
        pixel[i] = inside ? (INDEX)whole : -1;
    }
}

/* Weights and slopes of linear interpolation, of the coordinates in t->place. */
static void NAME(linear)(int64_t size, int64_t n, NAME(tables) * t, NAME(axis) * axis, const T *unit)
{
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
        T below = NAME(floor)(t->place[i]), share = t->place[i] - below;
        t->next[i] = below + 1;
        t->place[i] = below;
        axis->weight[0][i] = 1 - share;
        axis->weight[1][i] = share;
        axis->slope[0][i] = -unit[i];
        axis->slope[1][i] = unit[i];
    }
    NAME(pixels)(size, n, t->place, axis->at[0]);
    NAME(pixels)(size, n, t->next, axis->at[1]);
}

/* Of Keys' cubic with a = -0.75. Each of the four pixels is padded by itself. */
static void NAME(cubic)(const samba_pool *p, int64_t size, int64_t n, NAME(tables) * t, NAME(axis) * axis, const T *unit)
{
    const T a = (T)-0.75;
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
        T below = NAME(floor)(t->place[i]), x = t->place[i] - below, u = unit[i];
        T before = x + 1, rest = 1 - x, behind = rest + 1;
        t->place[i] = below;
        axis->weight[0][i] = ((a * before - 5 * a) * before + 8 * a) * before - 4 * a;
        axis->weight[1][i] = ((a + 2) * x - (a + 3)) * x * x + 1;
        axis->weight[2][i] = ((a + 2) * rest - (a + 3)) * rest * rest + 1;
        axis->weight[3][i] = ((a * behind - 5 * a) * behind + 8 * a) * behind - 4 * a;
        axis->slope[0][i] = ((3 * a * before - 10 * a) * before + 8 * a) * u;
        axis->slope[1][i] = (3 * (a + 2) * x - 2 * (a + 3)) * x * u;
        axis->slope[2][i] = -(3 * (a + 2) * rest - 2 * (a + 3)) * rest * u;
        axis->slope[3][i] = -((3 * a * behind - 10 * a) * behind + 8 * a) * u;
    }
    for (int k = 0; k < 4; k++) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            t->next[i] = t->place[i] + (T)(k - 1);
        NAME(pad)(p, size, n, t->next, t->sign);
        NAME(pixels)(size, n, t->next, axis->at[k]);
    }
}

/* One axis of n positions, whose coordinates lie `step` apart. */
static void NAME(find)(const samba_pool *p, int64_t size, int64_t n, const T *grid, int64_t step, NAME(tables) * t,
                       NAME(axis) * axis, T *unit)
{
    const T whole = (T)size, half = (T)(p->align_corners ? size - 1 : size) / 2;
    if (p->align_corners) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            t->place[i] = (grid[i * step] + 1) * half;
    } else {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            t->place[i] = ((grid[i * step] + 1) * whole - 1) * (T)0.5;
    }
    for (int64_t i = 0; i < n; i++) {
        unit[i] = half;
        t->sign[i] = 1;
    }
    if (p->sample == SAMBA_SAMPLE_CUBIC) {
        NAME(cubic)(p, size, n, t, axis, unit);
        return;
    }
    NAME(pad)(p, size, n, t->place, unit);
    if (p->sample == SAMBA_SAMPLE_LINEAR) {
        NAME(linear)(size, n, t, axis, unit);
        return;
    }
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
        t->place[i] = NAME(rint)(t->place[i]);
    NAME(pixels)(size, n, t->place, axis->at[0]);
}

/* One tap of all axes together. */
static void NAME(join)(const samba_pool *p, int64_t n, NAME(tables) * t, int tap, const int *taps, bool slopes)
{
    const INDEX w = (INDEX)p->w, h = (INDEX)(p->depth ? p->h / p->depth : p->h);
    const NAME(axis) *x = &t->axes[0], *y = &t->axes[1], *z = &t->axes[2];
    const INDEX *xs = x->at[taps[0]], *ys = y->at[taps[1]], *zs = z->at[taps[2]];
    const T *xw = x->weight[taps[0]], *yw = y->weight[taps[1]], *zw = z->weight[taps[2]];
    INDEX *index = t->index[tap];
    T *weight = t->weight[tap], *sx = t->slopes[0][tap], *sy = t->slopes[1][tap], *sz = t->slopes[2][tap];
    if (p->depth) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            index[i] = (xs[i] | ys[i] | zs[i]) < 0 ? -1 : (zs[i] * h + ys[i]) * w + xs[i];
    } else {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            index[i] = (xs[i] | ys[i]) < 0 ? -1 : ys[i] * w + xs[i];
    }
    if (p->sample == SAMBA_SAMPLE_NEAREST)
        return;
    if (p->depth) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            weight[i] = xw[i] * yw[i] * zw[i];
    } else {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            weight[i] = xw[i] * yw[i];
    }
    if (!slopes)
        return;
    const T *xd = x->slope[taps[0]], *yd = y->slope[taps[1]], *zd = z->slope[taps[2]];
    if (p->depth) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
            sx[i] = xd[i] * yw[i] * zw[i];
            sy[i] = xw[i] * yd[i] * zw[i];
            sz[i] = xw[i] * yw[i] * zd[i];
        }
    } else {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
            sx[i] = xd[i] * yw[i];
            sy[i] = xw[i] * yd[i];
        }
    }
}

/* Leaves out positions with all pixels outside. One whose weights are no numbers stays: so is what comes of it. */
static void NAME(leave_out)(int64_t n, NAME(tables) * t, int count, int spatial, bool weighted, bool slopes)
{
    INDEX *outside = t->from[0];
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
        outside[i] = weighted && t->weight[0][i] != t->weight[0][i] ? 0 : t->index[0][i];
    for (int k = 1; k < count; k++) {
        const INDEX *index = t->index[k];
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            outside[i] &= index[i]; /* negative where all are */
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        t->where[kept] = (INDEX)i;
        kept += outside[i] >= 0;
    }
    t->kept = kept;
    for (int k = 0; k < count && kept < n; k++) {
        for (int64_t i = 0; i < kept; i++)
            t->index[k][i] = t->index[k][t->where[i]];
        for (int64_t i = 0; i < kept && weighted; i++)
            t->weight[k][i] = t->weight[k][t->where[i]];
        for (int d = 0; d < spatial && weighted && slopes; d++)
            for (int64_t i = 0; i < kept; i++)
                t->slopes[d][k][i] = t->slopes[d][k][t->where[i]];
    }
}

/* Leaves out taps that are outside of all positions; returns how many are left. */
static int NAME(leave_taps_out)(NAME(tables) * t, int count, int spatial, bool weighted, bool slopes)
{
    const size_t bytes = (size_t)t->kept * sizeof(T);
    int kept = 0;
    bool holes = false;
    for (int k = 0; k < count; k++) {
        INDEX inside = 0, outside = 0;
        for (int64_t i = 0; i < t->kept; i++) {
            inside |= (t->index[k][i] >= 0) | (weighted && t->weight[k][i] != t->weight[k][i]);
            outside |= t->index[k][i];
        }
        if (!inside)
            continue;
        holes |= outside < 0;
        if (kept != k) {
            memcpy(t->index[kept], t->index[k], bytes);
            memcpy(t->weight[kept], t->weight[k], bytes);
            for (int d = 0; d < spatial && slopes; d++)
                memcpy(t->slopes[d][kept], t->slopes[d][k], bytes);
        }
        kept++;
    }
    t->holes = holes;
    return kept;
}

/* The tables of n positions; returns the number of taps. */
static int NAME(look)(const samba_pool *p, int64_t n, const T *grid, NAME(tables) * t, bool slopes)
{
    const int spatial = p->depth ? 3 : 2, each = p->sample == SAMBA_SAMPLE_NEAREST ? 1 : p->sample == SAMBA_SAMPLE_LINEAR ? 2 : 4;
    const int64_t sizes[3] = {p->w, p->depth ? p->h / p->depth : p->h, p->depth};
    int count = 1;
    for (int d = 0; d < spatial; d++) {
        NAME(find)(p, sizes[d], n, grid + d, spatial, t, &t->axes[d], t->unit[d]);
        count *= each;
    }
    for (int tap = 0; tap < count; tap++)
        NAME(join)(p, n, t, tap, (int[]){tap % each, tap / each % each, tap / each / each}, slopes);
    const bool weighted = p->sample != SAMBA_SAMPLE_NEAREST;
    if (p->outside == SAMBA_SAMPLE_ZEROS) {
        NAME(leave_out)(n, t, count, spatial, weighted, slopes);
    } else {
        t->kept = n;
        for (int64_t i = 0; i < n; i++)
            t->where[i] = (INDEX)i;
    }
    return NAME(leave_taps_out)(t, count, spatial, weighted, slopes);
}

/* ---- loops over a plane ---- */

/* Asks for a plane in the order of memory, of which so many positions see most: they would fetch its lines in theirs. */
INLINE void NAME(fetch_plane)(const T *x, int64_t pixels, int64_t positions)
{
    const int64_t step = SAMBA_LINE / (int64_t)sizeof *x;
    for (int64_t i = 0; i < pixels && pixels <= positions * step; i += step)
        __builtin_prefetch(x + i, 0, 2);
}

/* holes: may a pixel be outside? */
INLINE T NAME(pixel)(const T *x, INDEX at, bool holes)
{
    if (!holes)
        return x[at];
    T v = x[at < 0 ? 0 : at];
    return at < 0 ? 0 : v;
}

static void NAME(nearest_values)(const T *x, const NAME(tables) * t, int64_t n, T *y)
{
    const INDEX *at = t->index[0];
    if (t->holes) {
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            y[i] = NAME(pixel)(x, at[i], true);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = x[at[i]];
}

/* Four taps at a time. */
INLINE void NAME(values_of)(const T *x, const NAME(tables) * t, int count, int64_t n, T *y, bool holes)
{
    int k = 0;
    if (count < 4)
        memset(y, 0, (size_t)n * sizeof *y);
    for (; k + 4 <= count; k += 4) {
        const INDEX *a = t->index[k], *b = t->index[k + 1], *c = t->index[k + 2], *d = t->index[k + 3];
        const T *p = t->weight[k], *q = t->weight[k + 1], *r = t->weight[k + 2], *s = t->weight[k + 3];
        if (k == 0) {
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
                y[i] = p[i] * NAME(pixel)(x, a[i], holes) + q[i] * NAME(pixel)(x, b[i], holes) +
                       r[i] * NAME(pixel)(x, c[i], holes) + s[i] * NAME(pixel)(x, d[i], holes);
        } else {
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
                y[i] += p[i] * NAME(pixel)(x, a[i], holes) + q[i] * NAME(pixel)(x, b[i], holes) +
                        r[i] * NAME(pixel)(x, c[i], holes) + s[i] * NAME(pixel)(x, d[i], holes);
        }
    }
    for (; k < count; k++) {
        const INDEX *a = t->index[k];
        const T *p = t->weight[k];
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
            y[i] += p[i] * NAME(pixel)(x, a[i], holes);
    }
}

static void NAME(values)(const T *x, const NAME(tables) * t, int count, int64_t n, T *y)
{
    if (t->holes)
        NAME(values_of)(x, t, count, n, y, true);
    else
        NAME(values_of)(x, t, count, n, y, false);
}

/* What a plane adds to the sums of the grid's gradient. */
static void NAME(slopes)(const T *x, const T *dy, NAME(tables) * t, int count, int spatial, int64_t n)
{
    T *x_sum = t->sums[0], *y_sum = t->sums[1], *z_sum = t->sums[2];
    for (int k = 0; k < count; k++) {
        const INDEX *at = t->index[k];
        const T *xs = t->slopes[0][k], *ys = t->slopes[1][k], *zs = t->slopes[2][k];
        if (spatial == 2) {
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
                T share = dy[i] * NAME(pixel)(x, at[i], true);
                x_sum[i] += share * xs[i];
                y_sum[i] += share * ys[i];
            }
        } else {
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
                T share = dy[i] * NAME(pixel)(x, at[i], true);
                x_sum[i] += share * xs[i];
                y_sum[i] += share * ys[i];
                z_sum[i] += share * zs[i];
            }
        }
    }
}

/* Taps of pixels that are there, side by side: index, weight and the position they are of. */
static int64_t NAME(gather_taps)(NAME(tables) * t, int count, bool weighted)
{
    const int64_t n = t->kept;
    INDEX *to = t->index[0], *from = t->from[0];
    T *weights = t->weight[0];
    int64_t kept = 0;
    for (int k = 0; k < count; k++)
        for (int64_t i = 0; i < n; i++) { /* never ahead of what is read */
            INDEX at = t->index[k][i];
            weights[kept] = weighted ? t->weight[k][i] : 1;
            to[kept] = at;
            from[kept] = t->where[i];
            kept += at >= 0;
        }
    return kept;
}

/* To some planes at once: positions that meet at one pixel, as all beyond a border do, wait for one another. */
INLINE void NAME(scatter)(const int planes, const INDEX *to, const INDEX *of, const T *weights, int64_t taps, const T *from,
                          int64_t positions, T *image, int64_t pixels)
{
    for (int64_t k = 0; k < taps; k++) {
        const T *a = from + of[k];
        T *d = image + to[k];
        for (int c = 0; c < planes; c++)
            d[c * pixels] += weights[k] * a[c * positions];
    }
}

static void NAME(sample_image_gradient)(const samba_pool *p, const T *grid, const T *dy, T *dx, int64_t begin, int64_t end,
                                        NAME(tables) * t)
{
    const int64_t channels = p->planes / p->images, pixels = p->h * p->w, positions = p->oh * p->ow;
    const int spatial = p->depth ? 3 : 2;
    memset(dx + begin * pixels, 0, (size_t)((end - begin) * pixels) * sizeof *dx);
    for (int64_t plane = begin, last; plane < end; plane = last) {
        const int64_t image = plane / channels;
        last = (image + 1) * channels < end ? (image + 1) * channels : end;
        for (int64_t first = 0; first < positions; first += NAME(AT_ONCE)) {
            const int64_t n = positions - first < NAME(AT_ONCE) ? positions - first : NAME(AT_ONCE);
            const int count = NAME(look)(p, n, grid + (image * positions + first) * spatial, t, false);
            const int64_t kept = NAME(gather_taps)(t, count, p->sample != SAMBA_SAMPLE_NEAREST);
            const INDEX *to = t->index[0], *of = t->from[0];
            const T *weights = t->weight[0];
            for (int64_t c = plane, some; c < last; c += some) {
                some = last - c < SAMBA_SAMPLE_PLANES ? 1 : SAMBA_SAMPLE_PLANES;
                for (int64_t i = c; i < c + some; i++)
                    NAME(fetch_plane)(dx + i * pixels, pixels, kept / (count > 0 ? count : 1));
                const T *from = dy + c * positions + first;
                T *image_of = dx + c * pixels;
                if (some == 1)
                    NAME(scatter)(1, to, of, weights, kept, from, positions, image_of, pixels);
                else
                    NAME(scatter)(SAMBA_SAMPLE_PLANES, to, of, weights, kept, from, positions, image_of, pixels);
            }
        }
    }
}

/* Units are planes for the gradient of the image, else SAMBA_SAMPLE_TOGETHER positions of an image, or fewer at its end. */
void SAMBA_ISA_NAME(NAME(samba_sample))(const samba_pool *p, void *const *operands, int64_t begin, int64_t end, void *scratch)
{
    const int64_t pixels = p->h * p->w, positions = p->oh * p->ow, spatial = p->depth ? 3 : 2;
    NAME(tables) *t = scratch;
    if (p->gradient && !p->of_grid) {
        NAME(sample_image_gradient)(p, operands[0], operands[1], operands[2], begin, end, t);
        return;
    }
    const int64_t channels = p->planes / p->images, parts = (positions + NAME(AT_ONCE) - 1) / NAME(AT_ONCE);
    const T *x = operands[0], *grid = operands[1], *dy = operands[2];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / parts, first = unit % parts * NAME(AT_ONCE), left = positions - first;
        const int64_t n = left < NAME(AT_ONCE) ? left : NAME(AT_ONCE), at = image * positions + first;
        const int count = NAME(look)(p, n, grid + at * spatial, t, p->of_grid);
        const int64_t kept = t->kept;
        const bool all = kept == n, nearest = p->sample == SAMBA_SAMPLE_NEAREST;
        if (p->of_grid)
            memset(t->sums, 0, sizeof t->sums);
        for (int64_t c = image * channels; c < (image + 1) * channels; c++) {
            NAME(fetch_plane)(x + c * pixels, pixels, kept);
            if (!p->of_grid) {
                T *y = (T *)operands[2] + c * positions + first, *to = all ? y : t->place;
                if (!all)
                    memset(y, 0, (size_t)n * sizeof *y);
                if (!nearest)
                    NAME(values)(x + c * pixels, t, count, kept, to);
                else if (count)
                    NAME(nearest_values)(x + c * pixels, t, kept, to);
                for (int64_t i = 0; i < kept && !all; i++)
                    y[t->where[i]] = to[i];
                if (nearest && !count)
                    memset(y, 0, (size_t)n * sizeof *y);
            } else if (!nearest) {
                const T *from = dy + c * positions + first;
                for (int64_t i = 0; i < kept && !all; i++)
                    t->place[i] = from[t->where[i]];
                NAME(slopes)(x + c * pixels, all ? from : t->place, t, count, (int)spatial, kept);
            }
        }
        if (!p->of_grid)
            continue;
        T *result = (T *)operands[3] + at * spatial;
        memset(result, 0, (size_t)(n * spatial) * sizeof *result);
        for (int64_t i = 0; i < kept; i++)
            for (int64_t d = 0; d < spatial; d++)
                result[t->where[i] * spatial + d] = t->sums[d][i];
    }
}
