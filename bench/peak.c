/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what this machine can do at most, measured now, as JSON: float32 and bfloat16 multiply-adds (0: no such instruction; a matrix unit
 * is not measured), and reading of memory that no cache holds. Usage: peak THREADS */
#include <sambaflow/app.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double read_bandwidth(int threads)
{
    enum { WORDS = 1 << 25, REPEATS = 5 }; /* 256 MiB */
    uint64_t *data = malloc(sizeof *data * WORDS), sum = 0;
    if (!data)
        return 0;
    memset(data, 1, sizeof *data * WORDS);
    double best = 0;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds();
#pragma omp parallel for simd num_threads(threads) reduction(+ : sum)
        for (int k = 0; k < WORDS; k++)
            sum += data[k];
        double rate = sizeof *data * (double)WORDS / (seconds() - start);
        best = sum != 0 && rate > best ? rate : best;
    }
    free(data);
    return best;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    double fp32 = samba_measure_fma_peak(threads), bf16 = samba_measure_bf16_peak(threads), memory = read_bandwidth(threads);
    printf("{\"fp32_gflops\": %.1f, \"bf16_gflops\": %.1f, \"read_gbytes\": %.1f}\n", fp32 / 1e9, bf16 / 1e9, memory / 1e9);
    return 0;
}
