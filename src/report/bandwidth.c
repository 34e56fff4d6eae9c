/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast memory is read: all threads pass over memory that no cache holds, and add it up by vectors. A step that is bound by
 * reading weights from memory is compared with this. Memory is as a device's is, in large pages, and each thread reads its part
 * from two offsets at once: of the ways that were tried (one to eight streams, with and without asking ahead, pages in turn) none
 * was faster on a 2-core machine. */
#include "base/team.h"
#include "report/clones.h"
#include "report/report.h"
#include <sambaflow/app.h>

#include <stdatomic.h>

struct samba_reading {
    samba_context *context;
    samba_host_memory memory;
    int threads;
    int64_t part; /* bytes of a thread */
    _Atomic uint64_t sum;
};

SAMBA_CLONES static uint64_t sum_up(const uint64_t *words, int64_t count)
{
    typedef uint64_t vector __attribute__((vector_size(64), aligned(8)));
    const uint64_t *streams[] = {words, words + count / 2};
    vector sums[4] = {{0}};
    for (int64_t i = 0; i + 16 <= count / 2; i += 16)
        for (int k = 0; k < 4; k++)
            sums[k] += *(const vector *)(streams[k / 2] + i + 8 * (k % 2));
    sums[0] += sums[1] + sums[2] + sums[3];
    uint64_t sum = 0;
    for (int k = 0; k < 8; k++)
        sum += sums[0][k];
    return sum;
}

samba_status samba_reading_new(samba_context *context, int threads, int64_t bytes, samba_reading **reading)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, reading);
    *reading = NULL;
    if (threads < 1 || threads > 4096 || bytes < 1 || bytes > INT64_MAX / 2)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "samba_reading_new: %d threads and %lld bytes, expected 1 to 4096 threads and a byte or more", threads,
                          (long long)bytes);
    samba_reading *r = samba_calloc(context, sizeof *r);
    if (!r)
        return SAMBA_ERROR_MEMORY;
    *r = (samba_reading){.context = context, .threads = threads, .part = (bytes / threads + 4095) / 4096 * 4096};
    if (samba_host_memory_new(context, r->part * threads, threads, &r->memory) != SAMBA_OK) {
        samba_free(context, r, sizeof *r);
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for %lld bytes to measure reading over: ask for fewer",
                          (long long)bytes);
    }
    *reading = r;
    return SAMBA_OK;
}

static void read_part(void *argument, int thread, int team)
{
    samba_reading *reading = argument;
    (void)team;
    atomic_fetch_add_explicit(
        &reading->sum, sum_up((const uint64_t *)(const void *)(reading->memory.data + thread * reading->part), reading->part / 8),
        memory_order_relaxed);
}

double samba_reading_pass(samba_reading *reading)
{
    if (!reading)
        return 0;
    const double start = samba_seconds();
    reading->sum = 0;
    samba_team(reading->threads, read_part, reading);
    const double seconds = samba_seconds() - start;
    /* the memory is all zeros: asking only keeps the sums */
    return reading->sum == 0 && seconds > 0 ? (double)(reading->part * reading->threads) / seconds : 0;
}

void samba_reading_free(samba_reading *reading)
{
    if (!reading)
        return;
    samba_host_memory_free(&reading->memory);
    samba_free(reading->context, reading, sizeof *reading);
}

samba_status samba_measure_bandwidth(samba_context *context, int threads, double *bytes_per_second)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, bytes_per_second);
    enum { PASSES = 10 };
    samba_reading *reading;
    *bytes_per_second = 0;
    SAMBA_TRY(samba_reading_new(context, threads, (int64_t)256 << 20, &reading));
    for (int i = 0; i < PASSES; i++) {
        double now = samba_reading_pass(reading);
        *bytes_per_second = now > *bytes_per_second ? now : *bytes_per_second;
    }
    samba_reading_free(reading);
    return SAMBA_OK;
}
