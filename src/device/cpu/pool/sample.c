/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages that read images at a grid's positions: threads share the positions, or for the gradient of the image its planes, so
 * that no two of them add to one pixel. */
#include "device/cpu/pool/pool.h"
#include "device/cpu/machine.h"

typedef struct sample_state {
    samba_pool pool;
    void (*run)(const samba_pool *pool, void *const *operands, int64_t begin, int64_t end, void *scratch);
    void *operands[4];
    int64_t units;
    double unit; /* ns, about */
} sample_state;

static void run_sample(const void *state, char *scratch, int phase, int thread, int threads)
{
    const sample_state *s = state;
    (void)phase;
    const int64_t begin = s->units * thread / threads, end = s->units * (thread + 1) / threads;
    if (begin < end)
        s->run(&s->pool, s->operands, begin, end, scratch + thread * SAMBA_SAMPLE_SCRATCH);
}

static int64_t sample_units(const void *state, int phase, int threads, bool *free)
{
    (void)phase, (void)threads;
    *free = false;
    return ((const sample_state *)state)->units;
}

static double sample_work(const void *state, int phase, int threads, int64_t unit)
{
    (void)phase, (void)threads, (void)unit;
    return ((const sample_state *)state)->unit;
}

static const samba_dealing sample_dealing = {sample_units, sample_work, NULL, NULL};

samba_status samba_prepare_sample(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    sample_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    const samba_pool *p = &stage->pool;
    const bool narrow = stage->operands[0].dtype == SAMBA_FLOAT32;
    if (narrow && p->h > INT32_MAX / p->w)
        return samba_fail(prepare->context, SAMBA_ERROR_UNSUPPORTED, "stage %s: images of %lld by %lld pixels are too large",
                          stage->name, (long long)p->h, (long long)p->w);
    *s =
        (sample_state){.pool = *p, .run = narrow ? prepare->machine->kernels->sample_f32 : prepare->machine->kernels->sample_f64};
    for (int i = 0; i < stage->operand_count; i++)
        s->operands[i] = samba_operand_memory(prepare, &stage->operands[i]);
    const int64_t together = SAMBA_SAMPLE_TOGETHER / (narrow ? 4 : 8), parts = (p->oh * p->ow + together - 1) / together;
    s->units = p->gradient && !p->of_grid ? p->planes : p->images * parts;
    if (s->units > 0)
        s->unit = (double)stage->flops / (double)s->units / prepare->machine->share.pool * 1e9;
    *prepared = (samba_prepared){
        .run = run_sample, .state = s, .phases = 1, .thread_scratch = SAMBA_SAMPLE_SCRATCH, .dealing = &sample_dealing};
    return SAMBA_OK;
}
