/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of generating: see speed.h. */
#include "speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double gpt2_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double gpt2_prompt_flops(const gpt2_settings *s, int64_t tokens)
{
    double c = (double)s->n_embd, t = (double)tokens;
    return (double)s->n_layer * (24 * t * c * c + 2 * t * t * c) + 2 * c * (double)s->vocab_size;
}

double gpt2_weight_bytes(const samba_session *session, bool bf16)
{
    double bytes = 0;
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        if (samba_session_tensor_info(session, i, &info) != SAMBA_OK)
            return -1;
        if (info.kind == SAMBA_KIND_PARAMETER && strcmp(info.name, "wpe.weight") != 0)
            bytes += (double)info.bytes / (bf16 && info.rank == 2 ? 2 : 1);
    }
    return bytes;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct spread {
    double least, median, greatest;
} spread;

static spread spread_of(double *values, int64_t count)
{
    if (count == 0)
        return (spread){0};
    qsort(values, (size_t)count, sizeof *values, by_size);
    return (spread){values[0], values[count / 2], values[count - 1]};
}

static double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

void gpt2_speed_print(gpt2_speed *f, bool json)
{
    const spread prefill = spread_of(f->prefill, f->prompts), peak = spread_of(f->peak, f->prompts),
                 step = spread_of(f->step, f->steps), read = spread_of(f->read, f->measured ? f->steps : 0);
    const double flops = over(f->flops, prefill.median), rate = over(1, step.median), best_rate = over(1, step.least);
    const double mfu = over(flops, peak.median), share = over(rate * f->weight_bytes, read.median),
                 best_share = over(best_rate * f->weight_bytes, read.greatest);
    if (json) {
        printf("\"prompt_tokens\": %lld, \"prefill_ms\": %.4f, \"tokens_per_second\": %.3f, \"best_tokens_per_second\": %.3f, "
               "\"weight_bytes\": %.0f",
               (long long)f->prompt, 1e3 * prefill.median, rate, best_rate, f->weight_bytes);
        if (f->measured)
            printf(", \"peak\": %.4g, \"prefill_mfu\": %.4f, \"bandwidth\": %.4g, \"best_bandwidth\": %.4g, \"of_bandwidth\": "
                   "%.4f, \"best_of_bandwidth\": %.4f",
                   peak.median, mfu, read.median, read.greatest, share, best_share);
        return;
    }
    printf("prompt      %lld tokens in %.2f ms", (long long)f->prompt, 1e3 * prefill.median);
    if (f->measured)
        printf(", %.1f %% of the %.1f GFLOP/s that multiply-adds reach", 100 * mfu, peak.median / 1e9);
    if (f->steps > 0)
        printf("\ngeneration  %.2f tokens/s, the fastest %.2f", rate, best_rate);
    if (f->steps > 0 && f->measured)
        printf("\nweights     %.2f GB/s, %.1f %% of the %.2f GB/s that memory gives; the fastest %.2f GB/s, %.1f %% of %.2f",
               rate * f->weight_bytes / 1e9, 100 * share, read.median / 1e9, best_rate * f->weight_bytes / 1e9, 100 * best_share,
               read.greatest / 1e9);
    puts("");
}
