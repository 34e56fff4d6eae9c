/* SPDX-License-Identifier: Apache-2.0
 *
 * Fourier transforms of lines of one type: lines.c includes this for float and double, with FOURIER(name) and `real` defined. No
 * include guard: one copy for each.
 *
 * A working array has `lanes` numbers for each element. In a pass, `run` is how many neighbours are treated alike: all lanes of
 * all elements that earlier passes have brought together. */

/* ---- passes: x of m parts of a line of radix * m, y ---- */
#define TURN(k) const real turn_re_##k = turns[2 * (k)*j * step], turn_im_##k = turns[2 * (k)*j * step + 1]
#define PUT(k, re, im)                                                                                                           \
    yr[(radix * j + (k)) * run + q] = (re)*turn_re_##k - (im)*turn_im_##k;                                                       \
    yi[(radix * j + (k)) * run + q] = (re)*turn_im_##k + (im)*turn_re_##k

static void FOURIER(pass2)(const real *restrict xr, const real *restrict xi, real *restrict yr, real *restrict yi, int64_t m,
                           int64_t run, const real *turns, int64_t step)
{
    const int64_t radix = 2;
    for (int64_t j = 0; j < m; j++) {
        TURN(1);
        SAMBA_VECTOR_LOOP for (int64_t q = 0; q < run; q++) {
            const real ar = xr[j * run + q], ai = xi[j * run + q], br = xr[(j + m) * run + q], bi = xi[(j + m) * run + q];
            yr[radix * j * run + q] = ar + br;
            yi[radix * j * run + q] = ai + bi;
            PUT(1, ar - br, ai - bi);
        }
    }
}

static void FOURIER(pass3)(const real *restrict xr, const real *restrict xi, real *restrict yr, real *restrict yi, int64_t m,
                           int64_t run, const real *turns, int64_t step)
{
    const int64_t radix = 3;
    const real high = (real)0.86602540378443864676; /* sqrt(3) / 2 */
    for (int64_t j = 0; j < m; j++) {
        TURN(1);
        TURN(2);
        SAMBA_VECTOR_LOOP for (int64_t q = 0; q < run; q++) {
            const real ar = xr[j * run + q], ai = xi[j * run + q], br = xr[(j + m) * run + q], bi = xi[(j + m) * run + q];
            const real cr = xr[(j + 2 * m) * run + q], ci = xi[(j + 2 * m) * run + q];
            const real sr = br + cr, si = bi + ci, dr = (br - cr) * high, di = (bi - ci) * high;
            const real middle_re = ar - sr / 2, middle_im = ai - si / 2;
            yr[radix * j * run + q] = ar + sr;
            yi[radix * j * run + q] = ai + si;
            PUT(1, middle_re + di, middle_im - dr);
            PUT(2, middle_re - di, middle_im + dr);
        }
    }
}

static void FOURIER(pass4)(const real *restrict xr, const real *restrict xi, real *restrict yr, real *restrict yi, int64_t m,
                           int64_t run, const real *turns, int64_t step)
{
    const int64_t radix = 4;
    for (int64_t j = 0; j < m; j++) {
        TURN(1);
        TURN(2);
        TURN(3);
        SAMBA_VECTOR_LOOP for (int64_t q = 0; q < run; q++) {
            const real ar = xr[j * run + q], ai = xi[j * run + q], br = xr[(j + m) * run + q], bi = xi[(j + m) * run + q];
            const real cr = xr[(j + 2 * m) * run + q], ci = xi[(j + 2 * m) * run + q];
            const real dr = xr[(j + 3 * m) * run + q], di = xi[(j + 3 * m) * run + q];
            const real even_re = ar + cr, even_im = ai + ci, odd_re = br + dr, odd_im = bi + di;
            const real e_re = ar - cr, e_im = ai - ci, o_re = bi - di, o_im = dr - br; /* -i (b - d) */
            yr[radix * j * run + q] = even_re + odd_re;
            yi[radix * j * run + q] = even_im + odd_im;
            PUT(1, e_re + o_re, e_im + o_im);
            PUT(2, even_re - odd_re, even_im - odd_im);
            PUT(3, e_re - o_re, e_im - o_im);
        }
    }
}

/* Any radix: each result is a sum over all. */
static void FOURIER(pass_any)(const real *restrict xr, const real *restrict xi, real *restrict yr, real *restrict yi, int64_t m,
                              int64_t run, const real *turns, int64_t step, int64_t radix)
{
    const int64_t root = m * step; /* between powers of exp(-2 pi i / radix) */
    for (int64_t j = 0; j < m; j++)
        for (int64_t r = 0; r < radix; r++) {
            const real turn_re = turns[2 * r * j * step], turn_im = turns[2 * r * j * step + 1];
            for (int64_t q0 = 0; q0 < run; q0 += SAMBA_FOURIER_LANES) {
                real sum_re[SAMBA_FOURIER_LANES] = {0}, sum_im[SAMBA_FOURIER_LANES] = {0};
                const int64_t width = run - q0 < SAMBA_FOURIER_LANES ? run - q0 : SAMBA_FOURIER_LANES;
                for (int64_t i = 0; i < radix; i++) {
                    const real wr = turns[2 * (i * r % radix) * root], wi = turns[2 * (i * r % radix) * root + 1];
                    const real *ar = xr + (j + i * m) * run + q0, *ai = xi + (j + i * m) * run + q0;
                    SAMBA_VECTOR_LOOP for (int64_t q = 0; q < width; q++) {
                        sum_re[q] += ar[q] * wr - ai[q] * wi;
                        sum_im[q] += ar[q] * wi + ai[q] * wr;
                    }
                }
                real *br = yr + (radix * j + r) * run + q0, *bi = yi + (radix * j + r) * run + q0;
                SAMBA_VECTOR_LOOP for (int64_t q = 0; q < width; q++) {
                    br[q] = sum_re[q] * turn_re - sum_im[q] * turn_im;
                    bi[q] = sum_re[q] * turn_im + sum_im[q] * turn_re;
                }
            }
        }
}
#undef TURN
#undef PUT

typedef struct FOURIER(work) { /* two pairs of arrays: a pass goes from the first to the second */
    real *re, *im, *other_re, *other_im;
} FOURIER(work);

static void FOURIER(exchange)(FOURIER(work) * w)
{
    const FOURIER(work) was = *w;
    *w = (FOURIER(work)){was.other_re, was.other_im, was.re, was.im};
}

static void FOURIER(transform)(const samba_transform *t, FOURIER(work) * w, int64_t lanes)
{
    int64_t step = 1;
    for (int pass = 0; pass < t->passes; pass++) {
        const int64_t radix = t->radix[pass], m = t->length / step / radix, run = step * lanes;
        switch (radix) {
        case 2: FOURIER(pass2)(w->re, w->im, w->other_re, w->other_im, m, run, t->turns, step); break;
        case 3: FOURIER(pass3)(w->re, w->im, w->other_re, w->other_im, m, run, t->turns, step); break;
        case 4: FOURIER(pass4)(w->re, w->im, w->other_re, w->other_im, m, run, t->turns, step); break;
        default: FOURIER(pass_any)(w->re, w->im, w->other_re, w->other_im, m, run, t->turns, step, radix);
        }
        FOURIER(exchange)(w);
        step *= radix;
    }
}

/* re, im: elements times factors, a pair for each element */
static void FOURIER(times)(real *re, real *im, const real *factors, int64_t count, int64_t lanes)
{
    for (int64_t k = 0; k < count; k++) {
        const real fr = factors[2 * k], fi = factors[2 * k + 1];
        SAMBA_VECTOR_LOOP for (int64_t lane = 0; lane < lanes; lane++) {
            const real ar = re[k * lanes + lane], ai = im[k * lanes + lane];
            re[k * lanes + lane] = ar * fr - ai * fi;
            im[k * lanes + lane] = ar * fi + ai * fr;
        }
    }
}

static void FOURIER(turn_over)(FOURIER(work) * w)
{
    real *re = w->re;
    w->re = w->im;
    w->im = re;
}

static void FOURIER(forward)(const samba_fourier_plan *p, FOURIER(work) * w)
{
    const int64_t lanes = p->lanes, length = p->transform.length;
    if (!p->convolved) {
        FOURIER(transform)(&p->transform, w, lanes);
        return;
    }
    FOURIER(times)(w->re, w->im, p->chirp, p->count, lanes);
    for (int64_t i = p->count * lanes; i < length * lanes; i++)
        w->re[i] = w->im[i] = 0;
    FOURIER(transform)(&p->transform, w, lanes);
    FOURIER(times)(w->re, w->im, p->spectrum, length, lanes);
    FOURIER(turn_over)(w);
    FOURIER(transform)(&p->transform, w, lanes);
    FOURIER(turn_over)(w);
    FOURIER(times)(w->re, w->im, p->chirp, p->count, lanes);
}

/* ---- between memory and working arrays ---- */
typedef struct FOURIER(block) {                    /* some lines of a tensor: element k of a lane begins at at[lane] + k * step */
    int64_t at[SAMBA_FOURIER_LANES], step, inside; /* inside: lanes that are lines of the stage */
    bool apart;                                    /* elements of a line lie nearer than those of two */
} FOURIER(block);

static FOURIER(block) FOURIER(block_of)(const samba_fourier_plan *p, int64_t first, int64_t elements, int parts)
{
    const int64_t inner = p->stage.inner, lines = p->stage.outer * inner;
    FOURIER(block)
    b = {.step = inner * parts, .inside = lines - first < p->lanes ? lines - first : p->lanes, .apart = inner == 1};
    for (int64_t lane = 0; lane < p->lanes; lane++) {
        const int64_t line = first + (lane < b.inside ? lane : b.inside - 1);
        b.at[lane] = (line / inner * inner * elements + line % inner) * parts;
    }
    return b;
}

/* Elements of two numbers, `second` apart; 0: of one. `step` between elements. */
static void FOURIER(take)(const FOURIER(block) * b, const real *x, int64_t step, int64_t second, int64_t count, int64_t lanes,
                          real *restrict re, real *restrict im)
{
    if (b->apart) {
        for (int64_t lane = 0; lane < lanes; lane++)
            for (int64_t k = 0; k < count; k++) {
                const real *from = x + b->at[lane] + k * step;
                re[k * lanes + lane] = from[0];
                im[k * lanes + lane] = second ? from[second] : 0;
            }
        return;
    }
    for (int64_t k = 0; k < count; k++)
        for (int64_t lane = 0; lane < lanes; lane++) {
            const real *from = x + b->at[lane] + k * step;
            re[k * lanes + lane] = from[0];
            im[k * lanes + lane] = second ? from[second] : 0;
        }
}

static void FOURIER(give)(const FOURIER(block) * b, real *y, int64_t step, int64_t second, int64_t count, int64_t lanes,
                          const real *restrict re, const real *restrict im, real scale)
{
    if (b->apart) {
        for (int64_t lane = 0; lane < b->inside; lane++)
            for (int64_t k = 0; k < count; k++) {
                real *to = y + b->at[lane] + k * step;
                to[0] = re[k * lanes + lane] * scale;
                if (second)
                    to[second] = im[k * lanes + lane] * scale;
            }
        return;
    }
    for (int64_t k = 0; k < count; k++)
        for (int64_t lane = 0; lane < b->inside; lane++) {
            real *to = y + b->at[lane] + k * step;
            to[0] = re[k * lanes + lane] * scale;
            if (second)
                to[second] = im[k * lanes + lane] * scale;
        }
}

/* The frequencies of real lines, of the transform of their folded or whole elements. */
static void FOURIER(give_half)(const samba_fourier_plan *p, const FOURIER(block) * b, const FOURIER(work) * w, real *y)
{
    const int64_t lanes = p->lanes, size = p->stage.size, half = size / 2;
    const real *turns = p->turns;
    for (int64_t k = 0; k <= half; k++) {
        const bool paired = k > 0 && 2 * k != size;
        const real scale = (real)(p->stage.scale * (paired ? p->stage.pairs : 1)), side = p->stage.inverse ? -scale : scale;
        const real *re = w->re + (p->folded ? k % half : k) * lanes, *im = w->im + (p->folded ? k % half : k) * lanes;
        const real *re2 = p->folded ? w->re + (half - k) % half * lanes : re,
                   *im2 = p->folded ? w->im + (half - k) % half * lanes : im;
        const real wr = p->folded ? turns[2 * k] : 1, wi = p->folded ? turns[2 * k + 1] : 0;
        for (int64_t lane = 0; lane < b->inside; lane++) {
            real *to = y + b->at[lane] + k * b->step, value_re = re[lane], value_im = im[lane];
            if (p->folded) { /* the even elements' transform, and that of the odd ones, turned */
                const real even_re = (re[lane] + re2[lane]) / 2, even_im = (im[lane] - im2[lane]) / 2;
                const real odd_re = (im[lane] + im2[lane]) / 2, odd_im = (re2[lane] - re[lane]) / 2;
                value_re = even_re + (odd_re * wr - odd_im * wi);
                value_im = even_im + (odd_re * wi + odd_im * wr);
            }
            to[0] = value_re * scale;
            to[1] = paired ? value_im * side : 0;
        }
    }
}

/* The other way: what must be transformed to give real lines, as exchanged parts, since that is the inverse. */
static void FOURIER(take_half)(const samba_fourier_plan *p, const FOURIER(block) * b, const real *x, FOURIER(work) * w)
{
    const int64_t lanes = p->lanes, size = p->stage.size, half = size / 2;
    const real pairs = (real)p->stage.pairs, side = p->stage.inverse ? pairs : -pairs, *turns = p->turns;
    if (!p->folded) {
        for (int64_t k = 0; k <= half; k++)
            for (int64_t lane = 0; lane < lanes; lane++) {
                const real *from = x + b->at[lane] + k * b->step;
                const bool paired = k > 0 && 2 * k != size;
                w->im[k * lanes + lane] = paired ? from[0] * pairs : from[0];
                w->re[k * lanes + lane] = paired ? from[1] * side : 0;
                if (paired) {
                    w->im[(size - k) * lanes + lane] = from[0] * pairs;
                    w->re[(size - k) * lanes + lane] = -(from[1] * side);
                }
            }
        return;
    }
    for (int64_t k = 0; k < half; k++) {
        const real wr = turns[2 * k], wi = -turns[2 * k + 1];
        for (int64_t lane = 0; lane < lanes; lane++) {
            const real *from = x + b->at[lane] + k * b->step, *other = x + b->at[lane] + (half - k) * b->step;
            const real ar = k > 0 ? from[0] * pairs : from[0], ai = k > 0 ? from[1] * side : 0;
            const real cr = k > 0 ? other[0] * pairs : other[0], ci = k > 0 ? -(other[1] * side) : 0;
            const real dr = ar - cr, di = ai - ci;
            w->im[k * lanes + lane] = (ar + cr) - (dr * wi + di * wr); /* a + c + i turn (a - c) */
            w->re[k * lanes + lane] = (ai + ci) + (dr * wr - di * wi);
        }
    }
}

/* Blocks [begin, end) of lines; `room`: four arrays. */
void SAMBA_ISA_NAME(FOURIER(samba_fourier))(const samba_fourier_plan *p, int64_t begin, int64_t end, void *room)
{
    const samba_fourier *f = &p->stage;
    const int64_t lanes = p->lanes, array = p->room * lanes, half = f->size / 2 + 1;
    const bool from_real = f->form == SAMBA_FOURIER_FROM_REAL, to_real = f->form == SAMBA_FOURIER_TO_REAL;
    for (int64_t number = begin; number < end; number++) {
        real *arrays = room;
        FOURIER(work) w = {arrays, arrays + array, arrays + 2 * array, arrays + 3 * array};
        const FOURIER(block) in = FOURIER(block_of)(p, number * lanes, to_real ? half : f->size, from_real ? 1 : 2),
                             out = FOURIER(block_of)(p, number * lanes, from_real ? half : f->size, to_real ? 1 : 2);
        const bool turned = to_real || (f->form == SAMBA_FOURIER_COMPLEX && f->inverse);
        if (to_real)
            FOURIER(take_half)(p, &in, p->x, &w);
        else if (from_real && p->folded)
            FOURIER(take)(&in, p->x, 2 * in.step, in.step, p->count, lanes, w.re, w.im);
        else if (from_real)
            FOURIER(take)(&in, p->x, in.step, 0, p->count, lanes, w.re, w.im);
        else
            FOURIER(take)(&in, p->x, in.step, 1, p->count, lanes, turned ? w.im : w.re, turned ? w.re : w.im);
        FOURIER(forward)(p, &w);
        if (turned)
            FOURIER(turn_over)(&w);
        if (from_real)
            FOURIER(give_half)(p, &out, &w, p->y);
        else if (to_real && p->folded)
            FOURIER(give)(&out, p->y, 2 * out.step, out.step, p->count, lanes, w.re, w.im, (real)f->scale);
        else if (to_real)
            FOURIER(give)(&out, p->y, out.step, 0, p->count, lanes, w.re, w.im, (real)f->scale);
        else
            FOURIER(give)(&out, p->y, out.step, 1, p->count, lanes, w.re, w.im, (real)f->scale);
    }
}
