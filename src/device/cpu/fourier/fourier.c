/* SPDX-License-Identifier: Apache-2.0
 *
 * A Fourier stage, prepared: passes, tables of sines and cosines, and how many lines run side by side. Tables are computed in
 * double, from angles of the first eighth of a turn, and rounded once. Threads share blocks of lines. */
#include "device/cpu/fourier/fourier.h"
#include "device/cpu/machine.h"
#include <math.h>

typedef struct fourier_state {
    samba_fourier_plan plan;
    void (*run)(const samba_fourier_plan *plan, int64_t begin, int64_t end, void *scratch);
    int64_t blocks, scratch;
    double block; /* ns, about */
} fourier_state;

static void run_fourier(const void *state, char *scratch, int phase, int thread, int threads)
{
    const fourier_state *s = state;
    (void)phase;
    const int64_t begin = s->blocks * thread / threads, end = s->blocks * (thread + 1) / threads;
    if (begin < end)
        s->run(&s->plan, begin, end, scratch + thread * s->scratch);
}

static int64_t fourier_units(const void *state, int phase, int threads, bool *free)
{
    (void)phase, (void)threads;
    *free = false;
    return ((const fourier_state *)state)->blocks;
}

static double fourier_work(const void *state, int phase, int threads, int64_t unit)
{
    (void)phase, (void)threads, (void)unit;
    return ((const fourier_state *)state)->block;
}

static const samba_dealing fourier_dealing = {fourier_units, fourier_work, NULL, NULL};

/* exp(-2 pi i k / n), 0 <= k < n */
static void turn_at(int64_t k, int64_t n, double turn[2])
{
    const int64_t eighth = 8 * k / n, rest = 8 * k % n;
    const double angle = M_PI / 4 * (double)(eighth % 2 ? n - rest : rest) / (double)n, c = cos(angle), s = sin(angle);
    const bool steep = eighth % 4 == 1 || eighth % 4 == 2;
    const double across = steep ? s : c, up = steep ? c : s;
    turn[0] = eighth >= 2 && eighth < 6 ? -across : across;
    turn[1] = eighth < 4 ? -up : up;
}

static void put(bool narrow, void *table, int64_t k, double re, double im)
{
    if (narrow) {
        ((float *)table)[2 * k] = (float)re;
        ((float *)table)[2 * k + 1] = (float)im;
    } else {
        ((double *)table)[2 * k] = re;
        ((double *)table)[2 * k + 1] = im;
    }
}

static void *table_of(const samba_preparing *prepare, bool narrow, int64_t pairs)
{
    return samba_arena_alloc(prepare->arena, (size_t)pairs * (narrow ? 2 * sizeof(float) : 2 * sizeof(double)));
}

/* exp(-2 pi i k / n) for k below `count` */
static void *turns_of(const samba_preparing *prepare, bool narrow, int64_t n, int64_t count)
{
    void *table = table_of(prepare, narrow, count);
    for (int64_t k = 0; table && k < count; k++) {
        double turn[2];
        turn_at(k, n, turn);
        put(narrow, table, k, turn[0], turn[1]);
    }
    return table;
}

/* False where a factor is too large for a pass. */
static bool find_passes(samba_transform *t, int64_t length)
{
    static const int8_t radices[] = {4, 2, 3, 5, 7, 11, SAMBA_TRANSFORM_RADIX};
    *t = (samba_transform){.length = length};
    for (int i = 0; i < SAMBA_COUNT(radices); i++)
        for (; length % radices[i] == 0; length /= radices[i])
            t->radix[t->passes++] = radices[i];
    return length == 1;
}

/* The shortest length of at least `least` that has no other factors than 2 and at most two of 3. */
static int64_t convolution_length(int64_t least)
{
    int64_t best = 0;
    for (int64_t odd = 1; odd <= 9; odd *= 3) {
        int64_t length = odd;
        while (length < least)
            length *= 2;
        best = best == 0 || length < best ? length : best;
    }
    return best;
}

/* The chirp, and the spectrum of its conjugate around 0 by a transform in double. */
static samba_status prepare_convolution(const samba_preparing *prepare, samba_fourier_plan *p, bool narrow)
{
    const int64_t n = p->count, length = convolution_length(2 * n - 1);
    find_passes(&p->transform, length);
    void *chirp = table_of(prepare, narrow, n), *spectrum = table_of(prepare, narrow, length);
    if (!chirp || !spectrum || !(p->transform.turns = turns_of(prepare, narrow, length, length)))
        return SAMBA_ERROR_MEMORY;
    const size_t bytes = 6 * sizeof(double) * (size_t)length;
    double *re = samba_calloc(prepare->context, bytes), *im = re + length, *room = im + length, *turns = room + 2 * length;
    if (!re)
        return SAMBA_ERROR_MEMORY;
    for (int64_t k = 0; k < length; k++)
        turn_at(k, length, turns + 2 * k);
    for (int64_t k = 0; k < n; k++) {
        double turn[2];
        turn_at((int64_t)((unsigned __int128)k * (unsigned __int128)k % (unsigned __int128)(2 * n)), 2 * n, turn);
        put(narrow, chirp, k, turn[0], turn[1]);
        re[k] = re[(length - k) % length] = turn[0];
        im[k] = im[(length - k) % length] = -turn[1];
    }
    samba_transform whole = p->transform;
    whole.turns = turns;
    prepare->machine->kernels->transform_f64(&whole, re, im, room);
    for (int64_t k = 0; k < length; k++)
        put(narrow, spectrum, k, re[k] / (double)length, im[k] / (double)length);
    samba_free(prepare->context, re, bytes);
    p->chirp = chirp;
    p->spectrum = spectrum;
    return SAMBA_OK;
}

samba_status samba_prepare_fourier(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    fourier_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    const samba_fourier *f = &stage->fourier;
    const bool narrow = stage->operands[0].dtype == SAMBA_FLOAT32, folded = f->form != SAMBA_FOURIER_COMPLEX && f->size % 2 == 0;
    *s = (fourier_state){.plan = {.stage = *f, .folded = folded, .count = folded ? f->size / 2 : f->size},
                         .run = narrow ? prepare->machine->kernels->fourier_f32 : prepare->machine->kernels->fourier_f64};
    samba_fourier_plan *p = &s->plan;
    p->x = samba_operand_memory(prepare, &stage->operands[0]);
    p->y = samba_operand_memory(prepare, &stage->operands[1]);
    const int64_t lines = f->outer * f->inner, width = narrow ? (int64_t)sizeof(float) : (int64_t)sizeof(double);
    if (lines > 0) {
        p->convolved = !find_passes(&p->transform, p->count);
        if (p->convolved)
            SAMBA_TRY(prepare_convolution(prepare, p, narrow));
        else if (!(p->transform.turns = turns_of(prepare, narrow, p->count, p->count)))
            return SAMBA_ERROR_MEMORY;
        if (folded && !(p->turns = turns_of(prepare, narrow, f->size, f->size / 2 + 1)))
            return SAMBA_ERROR_MEMORY;
        p->room = p->transform.length;
        p->lanes = SAMBA_FOURIER_LANES;
        while (p->lanes > 1 && (p->lanes / 2 >= lines || 4 * p->room * p->lanes * width > prepare->machine->fourier.arrays))
            p->lanes /= 2;
        s->blocks = (lines + p->lanes - 1) / p->lanes;
        s->block = (double)stage->flops / (double)s->blocks / prepare->machine->share.fourier * 1e9;
        s->scratch = (4 * p->room * p->lanes * width + SAMBA_ALIGNMENT - 1) / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT;
    }
    *prepared =
        (samba_prepared){.run = run_fourier, .state = s, .phases = 1, .thread_scratch = s->scratch, .dealing = &fourier_dealing};
    return SAMBA_OK;
}
