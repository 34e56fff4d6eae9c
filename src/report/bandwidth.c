/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast memory is read: all threads pass over an array that no cache holds, and add it up by vectors. What a step does whose time is that of its
 * weights coming from memory is compared with this. */
#include "report/report.h"
#include <sambaflow/app.h>

#include <omp.h>

enum { LANES = 16 }; /* floats of a vector */

static double sum_up(const float *x, int64_t count)
{
    typedef float vector __attribute__((vector_size(4 * LANES)));
    vector sums[4] = {{0}};
    for (int64_t i = 0; i + 4 * LANES <= count; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            sums[k] += *(const vector *)(x + i + k * LANES);
    sums[0] = sums[0] + sums[1] + sums[2] + sums[3];
    double sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += (double)sums[0][k];
    return sum;
}

samba_status samba_measure_bandwidth(samba_context *context, int threads, double *bytes_per_second)
{
    enum { REPEATS = 10 };
    const int64_t part = (((int64_t)256 << 20) / threads) & ~(int64_t)4095, size = part * threads;
    float *memory = samba_alloc(context, (size_t)size);
    double best = 0, sum = 0;
    *bytes_per_second = 0;
    if (!memory)
        return SAMBA_ERROR_MEMORY;
#pragma omp parallel num_threads(threads)
    for (int64_t i = 0; i < part / 4; i++)
        memory[omp_get_thread_num() * (part / 4) + i] = 1;
    for (int i = 0; i < REPEATS; i++) {
        double start = samba_seconds();
#pragma omp parallel num_threads(threads) reduction(+ : sum)
        sum += sum_up(memory + omp_get_thread_num() * (part / 4), part / 4);
        double seconds = samba_seconds() - start;
        if (seconds > 0 && (double)size / seconds > best)
            best = (double)size / seconds;
    }
    samba_free(context, memory, (size_t)size);
    *bytes_per_second = sum > 0 ? best : 0; /* it is: this only keeps the sums */
    return SAMBA_OK;
}
