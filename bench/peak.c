/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the FMA peak of this machine, measured now, as JSON. Usage: peak THREADS */
#include <sambaflow/app.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    printf("{\"gflops\": %.1f}\n", samba_measure_fma_peak(argc > 1 ? atoi(argv[1]) : 1) / 1e9);
    return 0;
}
