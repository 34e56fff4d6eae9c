/* SPDX-License-Identifier: Apache-2.0
 *
 * One contender of `make bench`: whole training steps of any PEF. It writes its initial weights and inputs to a safetensors file for the
 * other contender, then obeys lines on standard input, so that contenders can take turns:
 *   losses N   runs N steps, prints their losses
 *   time N     runs N steps, prints a JSON line with each one's ms, the time outside kernels and memory
 * A step is samba_run with the inputs given: their transfer counts. */
#include <sambaflow/data.h>
#include <sambaflow/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_TENSORS = 1024 };
static samba_context *context;

static void need(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "step: %s\n", samba_error_message(context));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc < 3 || samba_context_new(NULL, &context) != SAMBA_OK) {
        fprintf(stderr, "usage: step PEF TENSORS.safetensors [CLASSES [THREADS]]\n");
        return 2;
    }
    samba_session_options options = samba_session_defaults();
    options.seed = 1;
    options.threads = argc > 4 ? atoi(argv[4]) : 0;
    int64_t classes = argc > 3 ? atoll(argv[3]) : 10;
    samba_session *session;
    need(samba_session_new(context, argv[1], &options, &session));
    samba_tensor *saved[MAX_TENSORS], *inputs[16], *loss = NULL;
    int count = 0, input_count = 0;
    for (int i = 0; i < samba_session_tensor_count(session) && count < MAX_TENSORS; i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind == SAMBA_KIND_PARAMETER) {
            need(samba_session_get_by_name(session, info.name, &saved[count++]));
        } else if (info.kind == SAMBA_KIND_INPUT && input_count < 16) {
            samba_tensor *t;
            need(samba_tensor_new(context, info.name, info.dtype, info.rank, info.shape, &t));
            need(samba_dtype_is_floating_point(info.dtype) ? samba_fill_normal(t, 100 + (uint64_t)i, 0, 1) : samba_fill_integers(t, 100 + (uint64_t)i, 0, classes));
            inputs[input_count++] = saved[count++] = t;
        } else if (info.kind == SAMBA_KIND_OUTPUT && strcmp(info.name, "loss") == 0) {
            need(samba_tensor_new(context, "loss", info.dtype, info.rank, info.shape, &loss));
        }
    }
    if (!loss) {
        fprintf(stderr, "step: %s has no output named loss\n", argv[1]);
        return 1;
    }
    need(samba_safetensors_write(context, argv[2], count, saved, NULL));
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs;
    run.input_count = input_count;
    run.outputs = &loss;
    run.output_count = 1;
    samba_memory_info memory;
    need(samba_session_memory(session, &memory));
    char line[64], what[16];
    int n;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%15s %d", what, &n) == 2) {
        bool timing = strcmp(what, "time") == 0;
        samba_session_reset_stats(session);
        printf(timing ? "{\"ms\": [" : "[");
        for (int i = 0; i < n; i++) {
            double value, start = now();
            need(samba_run(session, &run));
            double ms = 1e3 * (now() - start);
            need(samba_tensor_item(loss, &value));
            printf("%s%.9g", i ? ", " : "", timing ? ms : value);
        }
        samba_run_stats stats;
        samba_session_stats(session, &stats);
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        if (timing)
            printf("], \"outside_ms\": %.6g, \"peak_bytes\": %lld, \"plan_bytes\": %lld, \"threads\": %d, \"isa\": \"%s\"}\n",
                   1e3 * (stats.total_seconds - stats.kernel_seconds) / (double)(stats.runs ? stats.runs : 1), (long long)usage.ru_maxrss * 1024,
                   (long long)memory.total, samba_session_threads(session), samba_session_isa(session));
        else
            printf("]\n");
        fflush(stdout);
    }
    for (int i = 0; i < count; i++)
        samba_tensor_free(saved[i]);
    samba_tensor_free(loss);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
