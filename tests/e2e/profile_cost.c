/* SPDX-License-Identifier: Apache-2.0
 *
 * What profiling costs, for profile_cost.sh: runs a PEF on one thread.
 *   profile_cost PEF off|again|summary|detailed RUNS   so many in the function counted_runs, which a counter of instructions
 *   looks at; again: it was on
 *                                                      before, and is off
 *   profile_cost PEF time SECONDS                      off, summary and detailed in turns: the best and the median milliseconds
 *   of each as JSON,
 *                                                      for bench/profiling.py */
#include <sambaflow/data.h>
#include <sambaflow/profile.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MODES = 3, MOST = 200000 };
static const samba_profile modes[MODES] = {SAMBA_PROFILE_OFF, SAMBA_PROFILE_SECTIONS, SAMBA_PROFILE_STAGES};
static const char *const names[MODES] = {"off", "summary", "detailed"};
static samba_context *context;
static samba_session *session;

static void need(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "profile_cost: %s\n", samba_error_message(context));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

void counted_runs(long runs); /* by this name */
__attribute__((noinline)) void counted_runs(long runs)
{
    while (runs-- > 0)
        need(samba_run(session, NULL));
}

static int shorter(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* A few runs of each in turn, so that whatever else the machine does, it does to all alike. */
static void time_modes(double seconds)
{
    static double times[MODES][MOST];
    int counts[MODES] = {0};
    for (double end = now() + 1e3 * seconds; now() < end;)
        for (int mode = 0; mode < MODES; mode++) {
            need(samba_session_profile(session, modes[mode], 0));
            counted_runs(2); /* the first ones find caches as the other mode left them */
            for (int i = 0; i < 8 && counts[mode] < MOST; i++) {
                double start = now();
                counted_runs(1);
                times[mode][counts[mode]++] = now() - start;
            }
        }
    for (int mode = 0; mode < MODES; mode++) {
        qsort(times[mode], (size_t)counts[mode], sizeof times[mode][0], shorter);
        printf("%s\"%s\": {\"runs\": %d, \"best_ms\": %.6f, \"median_ms\": %.6f}", mode ? ", " : "{", names[mode], counts[mode],
               times[mode][0], times[mode][counts[mode] / 2]);
    }
    puts("}");
}

static void fill_inputs(void)
{
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        samba_tensor *x;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_INPUT)
            continue;
        need(samba_session_input(session, info.name, &x));
        if (samba_dtype_is_floating_point(info.dtype)) /* integers stay 0: of any model's labels */
            need(samba_fill_normal(x, 1, 0, 1));
        samba_tensor_free(x);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: profile_cost PEF off|again|summary|detailed RUNS, or PEF time SECONDS\n", stderr);
        return 2;
    }
    need(samba_context_new(NULL, &context));
    samba_session_options options = samba_session_defaults();
    options.threads = 1;
    need(samba_session_new(context, argv[1], &options, &session));
    fill_inputs();
    samba_profile mode = strcmp(argv[2], "summary") == 0    ? SAMBA_PROFILE_SECTIONS
                         : strcmp(argv[2], "detailed") == 0 ? SAMBA_PROFILE_STAGES
                                                            : SAMBA_PROFILE_OFF;
    if (strcmp(argv[2], "again") == 0) {
        need(samba_session_profile(session, SAMBA_PROFILE_STAGES, 100));
        need(samba_run(session, NULL));
    }
    if (strcmp(argv[2], "off") != 0)
        need(samba_session_profile(session, mode, 0));
    for (int i = 0; i < 5; i++)
        need(samba_run(session, NULL));
    if (strcmp(argv[2], "time") == 0)
        time_modes(strtod(argv[3], NULL));
    else
        counted_runs(strtol(argv[3], NULL, 10));
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
