/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the FMA peaks of this machine, float32 and bfloat16 (0: no such instruction), measured now, as JSON. Usage: peak THREADS */
#include <sambaflow/app.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    printf("{\"gflops\": %.1f, \"bf16_gflops\": %.1f}\n", samba_measure_fma_peak(threads) / 1e9, samba_measure_bf16_peak(threads) / 1e9);
    return 0;
}
