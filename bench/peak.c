/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what this machine can do at most, measured now, as JSON: float32 and bfloat16 multiply-adds (0: no such instruction; a
 * matrix unit is not measured), and reading of memory that no cache holds. Usage: peak THREADS */
#include <sambaflow/app.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    double fp32 = samba_measure_fma_peak(threads), bf16 = samba_measure_bf16_peak(threads), memory;
    samba_context *context;
    if (samba_context_new(NULL, &context) != SAMBA_OK || samba_measure_bandwidth(context, threads, &memory) != SAMBA_OK) {
        fprintf(stderr, "peak: %s\n", samba_error_message(context));
        return 1;
    }
    samba_context_free(context);
    printf("{\"fp32_gflops\": %.1f, \"bf16_gflops\": %.1f, \"read_gbytes\": %.1f}\n", fp32 / 1e9, bf16 / 1e9, memory / 1e9);
    return 0;
}
