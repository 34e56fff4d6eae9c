/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention alone, forward and backward: heads of a joint projection, as a parameter, and a sum that makes a loss of the result.
 * Prints JSON: the best milliseconds of each and the share of the machine's FMA peak (causal products counted as far as they are
 * seen). The time is that of the processor with one thread, so that a busy machine disturbs it less, else the clock's.
 *
 * Usage: attention FOLDER [BATCH HEADS KEY_HEADS LENGTH DEPTH CAUSAL THREADS RUNS] */
#include <sambaflow/app.h>
#include <sambaflow/compile.h>
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH, HEADS, KEY_HEADS, LENGTH, DEPTH, CAUSAL, THREADS, RUNS, NUMBERS };

static void model(samba_graph *g, const void *options)
{
    const int64_t *n = options, heads = n[HEADS], shared = n[KEY_HEADS],
                  shape[] = {n[BATCH], n[LENGTH], heads + 2 * shared, n[DEPTH]};
    samba_value joint = samba_parameter(g, "qkv", SAMBA_FLOAT32, 4, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
    samba_value q = samba_transpose(samba_slice(joint, 2, 0, heads, 1), 1, 2);
    samba_value k = samba_transpose(samba_slice(joint, 2, heads, heads + shared, 1), 1, 2);
    samba_value v = samba_transpose(samba_slice(joint, 2, heads + shared, heads + 2 * shared, 1), 1, 2);
    samba_attention_options o = samba_attention_defaults();
    o.is_causal = n[CAUSAL] != 0;
    o.enable_gqa = true;
    samba_value y = samba_scaled_dot_product_attention(q, k, v, &o);
    samba_loss(g, "loss", samba_sum(samba_mul(y, y), 0, NULL, false));
}

static double milliseconds(bool of_processor)
{
    struct timespec t;
    clock_gettime(of_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int64_t n[NUMBERS] = {1, 12, 12, 1024, 64, 1, 1, 20};
    for (int i = 0; i < NUMBERS && i + 2 < argc; i++)
        n[i] = atoll(argv[i + 2]);
    samba_context *context;
    samba_session *session = NULL;
    char path[1024];
    samba_compile_options compile = samba_compile_defaults();
    compile.name = "attention";
    compile.model = model;
    compile.model_options = n;
    compile.output_folder = argc > 1 ? argv[1] : "out";
    samba_optimizer sgd = samba_sgd(0); /* never run: without one the parameter, and what it comes to, is a constant */
    compile.optimizers = &sgd;
    compile.optimizer_count = 1;
    samba_session_options options = samba_session_defaults();
    options.threads = (int)n[THREADS];
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        return 1;
    samba_status status = samba_compile(context, &compile, path, sizeof path);
    if (status == SAMBA_OK)
        status = samba_session_new(context, path, &options, &session);
    static const char *const sections[] = {"FWD", "BCKWD"};
    double best[2] = {INFINITY, INFINITY}, peak = 0;
    for (int64_t run = 0; status == SAMBA_OK && run < n[RUNS]; run++) {
        peak = fmax(peak, samba_measure_fma_peak((int)n[THREADS]));
        for (int s = 0; s < 2 && status == SAMBA_OK; s++) {
            samba_run_options part = samba_run_defaults();
            part.section_types = &sections[s];
            part.section_type_count = 1;
            double start = milliseconds(n[THREADS] == 1);
            status = samba_run(session, &part);
            best[s] = fmin(best[s], milliseconds(n[THREADS] == 1) - start);
        }
    }
    double t = (double)n[LENGTH], product = 2 * (double)(n[BATCH] * n[HEADS] * n[DEPTH]) * (n[CAUSAL] ? t * (t + 1) / 2 : t * t);
    if (status != SAMBA_OK)
        fprintf(stderr, "attention: %s\n", samba_error_message(context));
    else
        printf("{\"forward_ms\": %.3f, \"backward_ms\": %.3f, \"peak_gflops\": %.1f, \"forward_share\": %.3f, "
               "\"backward_share\": %.3f}\n",
               best[0], best[1], peak / 1e9, 2 * product / best[0] * 1e3 / peak, 5 * product / best[1] * 1e3 / peak);
    samba_session_free(session);
    samba_context_free(context);
    return status != SAMBA_OK;
}
