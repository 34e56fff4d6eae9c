/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of this machine: fp32 multiply-adds between registers, on as many threads as the work it is compared with, with the
 * widest vectors the CPU has, or those of the instruction set that SAMBAFLOW_ISA names. Measured each time, because a clock or a
 * neighbour changes it from minute to minute. */
#ifdef __clang__ /* a product and its sum are what is measured */
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#include "base/team.h"
#include "device/cpu/isa/processor.h"
#include "report/report.h"
#include <sambaflow/app.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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
#if defined(__clang__) /* it has not this word, and takes vectors as wide as they are written */
#define PEAK_TARGET __attribute__((target("avx512f")))
#else
#define PEAK_TARGET __attribute__((target("avx512f,prefer-vector-width=512")))
#endif
#include "report/peak_loop.h"
#endif

enum { SUMS = 12 }; /* of a loop; ARM's have twice as many: four multiply-adds begin together and take four cycles */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#if defined(__clang__)
#define BF16_TARGET __attribute__((target("bf16")))
#else
#define BF16_TARGET __attribute__((target("arch=armv8.2-a+bf16")))
#endif
/* ARM's multiply-add leaves its result where its sum was. */
#define ARM_LOOP(name, attributes, prepare, multiply)                                                                            \
    static attributes float name(int64_t rounds, float start)                                                                    \
    {                                                                                                                            \
        float32x4_t sums[2 * SUMS];                                                                                              \
        const float32x4_t one = vdupq_n_f32(start);                                                                              \
        prepare;                                                                                                                 \
        _Pragma("GCC unroll 24") for (int i = 0; i < 2 * SUMS; i++) sums[i] = vdupq_n_f32(start + (float)i);                     \
        for (int64_t n = 0; n < rounds; n++) {                                                                                   \
            _Pragma("GCC unroll 24") for (int i = 0; i < 2 * SUMS; i++) sums[i] = multiply;                                      \
        }                                                                                                                        \
        _Pragma("GCC unroll 24") for (int i = 1; i < 2 * SUMS; i++) sums[0] = vaddq_f32(sums[0], sums[i]);                       \
        return vaddvq_f32(sums[0]);                                                                                              \
    }
ARM_LOOP(loop_neon, , , vfmaq_f32(sums[i], one, one))
ARM_LOOP(loop_squares, BF16_TARGET, const bfloat16x8_t four = (bfloat16x8_t)one, vbfmmlaq_f32(sums[i], four, four))
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

/* The same by AMX: 12 products of registers of 16 x 16 pairs, onto four sums in turn. */
enum { AMX_PRODUCTS = 16 * 16 * 32 /* multiply-adds of an instruction */ };
static __attribute__((target("amx-tile,amx-bf16"))) float loop_amx(int64_t rounds, float start)
{
    struct {
        uint8_t palette, zeros[15];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1};
    for (int i = 0; i < 8; i++)
        shapes.row_bytes[i] = 64, shapes.rows[i] = 16;
    __asm__ volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
    for (int64_t n = 0; n < rounds; n++)
        for (int i = 0; i < SUMS / 4; i++)
            __asm__ volatile("tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
                             "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
    __asm__ volatile("tilerelease");
    return start;
}
#endif

typedef float peak_loop(int64_t rounds, float start);

#if defined(__aarch64__)
static bool is_kept_plain(void)
{
    const char *kept = getenv("SAMBAFLOW_ISA");
    return kept && strcmp(kept, "generic") == 0;
}
#endif
#if defined(__x86_64__)
/* Does SAMBAFLOW_ISA name a weaker set than this one? Where it names none that is known, sessions say so. */
static bool is_kept_below(const char *name)
{
    const char *kept = getenv("SAMBAFLOW_ISA");
    for (int i = 0; kept && i < SAMBA_ISA_COUNT && strcmp(samba_isa_names[i], name) != 0; i++)
        if (strcmp(samba_isa_names[i], kept) == 0)
            return true;
    return false;
}
#endif

static peak_loop *widest(int *bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && !is_kept_below("avx512"))
        return *bytes = 64, loop_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && !is_kept_below("avx2"))
        return *bytes = 32, loop_avx2;
#endif
#if defined(__aarch64__)
    if (!is_kept_plain())
        return *bytes = 32, loop_neon; /* two of 16 */
#endif
    return *bytes = 16, loop_generic;
}

/* Each thread takes its own time, of many short pieces of some milliseconds at most: where others are at work too, some pieces
 * run undisturbed, and the best of each thread is what it can do. All threads are at it, as the clock depends on how many are. */
typedef struct peak_work {
    peak_loop *loop;
    int lanes;
    float from;
    _Atomic uint64_t rate; /* of all threads */
} peak_work;

static void measure_part(void *argument, int thread, int team)
{
    enum { LEAST_PIECES = 8, ROUNDS = 1 << 18 };
    const double enough = 0.16; /* seconds */
    peak_work *work = argument;
    float sum = 0;
    double begin = samba_seconds(), best = 0;
    (void)thread, (void)team;
    for (int i = 0; i < LEAST_PIECES || samba_seconds() - begin < enough; i++) {
        double start = samba_seconds();
        sum += work->loop(ROUNDS, work->from);
        double seconds = samba_seconds() - start;
        if (seconds > 0 && (best == 0 || seconds < best))
            best = seconds;
    }
    if (best > 0 && sum > -1) /* the sum is positive: this only keeps the loop from being dropped */
        work->rate += (uint64_t)(2.0 * SUMS * work->lanes * ROUNDS / best);
}

static double measure(peak_loop *loop, int lanes, int threads)
{
    volatile float unknown = 2;
    peak_work work = {.loop = loop, .lanes = lanes, .from = unknown};
    samba_team(threads, measure_part, &work);
    return (double)work.rate;
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
    if (!is_kept_below("amx") && samba_processor_gives_amx())
        return measure(loop_amx, AMX_PRODUCTS, threads);
    if (__builtin_cpu_supports("avx512bf16") && !is_kept_below("avx512"))
        return measure(loop_bf16, 32, threads);
#endif
#if defined(__aarch64__)
    enum { BF16 = 1 << 14 };
    if (getauxval(AT_HWCAP2) & BF16 && !is_kept_plain())
        return measure(loop_squares, 32, threads); /* two of 16 products */
#endif
    (void)threads;
    return 0;
}
