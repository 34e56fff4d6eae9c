/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine can do at most: fp32 multiply-adds between registers, on as many threads as the work it is compared with, with the widest
 * vectors the CPU has. Measured each time, because a clock or a neighbour changes it from minute to minute. */
#include "report/report.h"
#include <sambaflow/app.h>

#include <omp.h>

#define PEAK_NAME loop_generic
#define PEAK_BYTES 16
#define PEAK_TARGET
#include "report/peak_loop.h"
#if defined(__x86_64__)
#define PEAK_NAME loop_avx2
#define PEAK_BYTES 32
#define PEAK_TARGET __attribute__((target("avx2,fma")))
#include "report/peak_loop.h"
#define PEAK_NAME loop_avx512
#define PEAK_BYTES 64
#define PEAK_TARGET __attribute__((target("avx512f,prefer-vector-width=512")))
#include "report/peak_loop.h"
#endif

#if defined(__x86_64__)
#include <immintrin.h>
/* The same in pairs of bfloat16 with float sums. */
static __attribute__((target("avx512f,avx512bf16"))) float loop_bf16(int64_t rounds, float start)
{
    const __m512 one = _mm512_set1_ps(start + 1);
    const __m512bh scale = _mm512_cvtne2ps_pbh(one, one);
    __m512 sums[12];
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
        sums[i] = _mm512_set1_ps(start + (float)i);
    for (int64_t n = 0; n < rounds; n++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sums[i] = _mm512_dpbf16_ps(sums[i], scale, scale);
#pragma GCC unroll 12
    for (int i = 1; i < 12; i++)
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    return _mm512_cvtss_f32(sums[0]);
}
#endif

typedef float peak_loop(int64_t rounds, float start);

static peak_loop *widest(int *bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return *bytes = 64, loop_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return *bytes = 32, loop_avx2;
#endif
    return *bytes = 16, loop_generic;
}

/* Each thread takes its own time, of many short pieces of some milliseconds at most: where others are at work too, some pieces run undisturbed, and
 * the best of each thread is what it can do. All threads are at it, as the clock depends on how many are. */
static double measure(peak_loop *loop, int lanes, int threads)
{
    enum { SUMS = 12, LEAST_PIECES = 8, ROUNDS = 1 << 18 };
    const double enough = 0.16; /* seconds */
    volatile float unknown = 2;
    float sum = 0, from = unknown;
    double rate = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum, rate)
    {
        double begin = samba_seconds(), best = 0;
        for (int i = 0; i < LEAST_PIECES || samba_seconds() - begin < enough; i++) {
            double start = samba_seconds();
            sum += loop(ROUNDS, from);
            double seconds = samba_seconds() - start;
            if (seconds > 0 && (best == 0 || seconds < best))
                best = seconds;
        }
        rate += best > 0 ? 2.0 * SUMS * lanes * ROUNDS / best : 0;
    }
    return sum < -1 ? 0 : rate; /* the sum is positive: this only keeps the loop from being dropped */
}

double samba_measure_fma_peak(int threads)
{
    int bytes;
    peak_loop *loop = widest(&bytes);
    return measure(loop, bytes / 4, threads);
}

double samba_measure_bf16_peak(int threads)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16"))
        return measure(loop_bf16, 32, threads);
#endif
    (void)threads;
    return 0;
}
