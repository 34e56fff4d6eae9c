/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of training share: models compiled into the harness's scratch folder, sessions, host tensors filled from a seed
 * and named device tensors read back as bytes or as doubles. The caller frees what it gets, or leaves it to the test's end. */
#ifndef SAMBA_TEST_TRAINING_H
#define SAMBA_TEST_TRAINING_H

#include "harness.h"
#include "base/base.h"
#include "plan/plan.h"
#include "tensor/tensor.h"
#include <sambaflow/sambaflow.h>

/* What is to live as long as its test: drop_kept, a teardown, frees it, sessions last. */
static struct {
    samba_tensor *tensors[256];
    samba_session *sessions[64];
    int tensor_count, session_count;
} things_kept __attribute__((unused));

static inline samba_tensor *kept(samba_tensor *values)
{
    assert_in_range(things_kept.tensor_count, 0, LENGTH(things_kept.tensors) - 1);
    return things_kept.tensors[things_kept.tensor_count++] = values;
}

static inline samba_session *kept_session(samba_session *session)
{
    assert_in_range(things_kept.session_count, 0, LENGTH(things_kept.sessions) - 1);
    return things_kept.sessions[things_kept.session_count++] = session;
}

static inline int drop_kept(void **unused)
{
    while (things_kept.tensor_count > 0)
        samba_tensor_free(things_kept.tensors[--things_kept.tensor_count]);
    while (things_kept.session_count > 0)
        samba_session_free(things_kept.sessions[--things_kept.session_count]);
    return 0;
}

/* For a main of its own; TEST_MAIN has both. */
static inline int training_begin(void) { return harness_begin(NULL) == 0; }
static inline int training_end(int failed) { return harness_end(NULL) != 0 || failed ? 1 : 0; }

static inline samba_tensor *normal(const char *name, samba_dtype dtype, int rank, const int64_t *shape, uint64_t seed)
{
    samba_tensor *result = tensor(name, dtype, rank, shape);
    need(samba_fill_normal(result, seed, 0, 1));
    return result;
}

/* A compile of `model` with `inputs`, everything else at its default: verified, into the scratch folder. */
static inline samba_compile_options compile_of(const char *name, samba_model model, const void *settings, int input_count,
                                               samba_tensor *const *inputs)
{
    samba_compile_options options = samba_compile_defaults();
    options.name = name;
    options.model = model;
    options.model_options = settings;
    options.input_count = input_count;
    options.inputs = inputs;
    options.output_folder = folder;
    options.verify = true;
    return options;
}

static inline samba_compile_options training_of(const char *name, samba_model model, const void *settings, int input_count,
                                                samba_tensor *const *inputs, const samba_optimizer *optimizer)
{
    samba_compile_options options = compile_of(name, model, settings, input_count, inputs);
    options.optimizers = optimizer;
    options.optimizer_count = 1;
    return options;
}

static inline samba_compile_options inference_of(const char *name, samba_model model, const void *settings, int input_count,
                                                 samba_tensor *const *inputs)
{
    samba_compile_options options = compile_of(name, model, settings, input_count, inputs);
    options.inference = true;
    return options;
}

/* OWN_SESSION *s: freed at the end of its block. */
#define OWN_SESSION __attribute__((cleanup(free_own_session))) samba_session
static inline void free_own_session(samba_session **own) { samba_session_free(*own); }

/* samba_session_new(context, path, SESSION(.isa = "generic"), &session) */
#define SESSION(...)                                                                                                             \
    &(samba_session_options) { .struct_size = sizeof(samba_session_options), __VA_ARGS__ }

/* samba_function_new(context, graph, FUNCTION(.threads = 2), &function) */
#define FUNCTION(...)                                                                                                            \
    &(samba_function_options) { .struct_size = sizeof(samba_function_options), __VA_ARGS__ }

static inline samba_session *open_session(const char *path, int threads, uint64_t seed)
{
    samba_session *session;
    need(samba_session_new(context, path, SESSION(.threads = threads, .seed = seed), &session));
    return session;
}

static inline samba_session *compile_and_open(const samba_compile_options *options, int threads, uint64_t seed)
{
    char path[512];
    need(samba_compile(context, options, path, sizeof path));
    return open_session(path, threads, seed);
}

/* To be freed by samba_plan_free. */
static inline samba_plan compiled_plan(const samba_compile_options *options)
{
    char path[512];
    samba_plan plan;
    need(samba_compile(context, options, path, sizeof path));
    need(samba_pef_read(context, path, &plan));
    return plan;
}

/* The text beside a PEF; freed with free(). */
static inline char *compiled_log(const samba_compile_options *options)
{
    char path[520], *text = calloc(1, 1 << 16);
    need(samba_compile(context, options, path, 512));
    FILE *file = fopen(strcat(path, ".log"), "r");
    assert_non_null(file);
    assert_in_range(fread(text, 1, 1 << 16, file), 1, (1 << 16) - 1);
    fclose(file);
    return text;
}

/* A run's options, everything but its inputs at its default. */
static inline samba_run_options giving(int count, samba_tensor *const *inputs)
{
    samba_run_options options = samba_run_defaults();
    options.input_count = count;
    options.inputs = inputs;
    return options;
}

/* The run with the sections that the words say, types or ids; without any: the schedule. Good until the next call. */
static inline samba_run_options of_sections(samba_run_options run, const char *words)
{
    static _Thread_local char text[128];
    static _Thread_local const char *types[8];
    static _Thread_local int ids[8];
    char *rest = text;
    snprintf(text, sizeof text, "%s", words);
    run.section_types = types;
    run.section_ids = ids;
    for (char *word; (word = strtok_r(rest, " ", &rest));)
        if (*word >= '0' && *word <= '9')
            ids[run.section_id_count++] = atoi(word);
        else
            types[run.section_type_count++] = word;
    return run;
}

/* NULL for the options: the defaults. */
static inline samba_status run_sections(samba_session *session, const samba_run_options *options, const char *words)
{
    samba_run_options run = of_sections(options ? *options : samba_run_defaults(), words);
    return samba_run(session, &run);
}

static inline samba_session *open_kept(const samba_compile_options *options, int threads, uint64_t seed)
{
    return kept_session(compile_and_open(options, threads, seed));
}

static inline samba_tensor *get(samba_session *session, const char *name)
{
    samba_tensor *result;
    need(samba_session_get_by_name(session, name, &result));
    return result;
}

static inline double element_of(const samba_tensor *t, int64_t i)
{
    return samba_load_double(t->dtype, (const char *)t->data + (size_t)i * samba_dtype_size(t->dtype));
}

/* The device tensor `name` + `ending` as doubles; freed with free(). */
static inline double *get_doubles(samba_session *session, const char *name, const char *ending, int64_t *count)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", name, ending);
    OWN_TENSOR *values = get(session, full);
    *count = samba_tensor_numel(values);
    double *result = malloc(sizeof(double) * (size_t)(*count + 1));
    assert_non_null(result);
    for (int64_t i = 0; i < *count; i++)
        result[i] = element_of(values, i);
    return result;
}

static inline double get_scalar(samba_session *session, const char *name)
{
    OWN_TENSOR *value = get(session, name);
    assert_int_equal(samba_tensor_numel(value), 1);
    return element_of(value, 0);
}

static inline double get_hyper(samba_session *session, const char *name)
{
    samba_hyperparameter info;
    for (int i = 0; i < samba_session_hyperparameter_count(session); i++) {
        need(samba_session_hyperparameter(session, i, &info));
        if (strcmp(info.name, name) == 0)
            return info.value;
    }
    fail_msg("there is no hyperparameter %s", name);
    return 0;
}

/* A number for all bits of device tensors of the kinds in the bit mask `kinds`. */
static inline uint64_t bits_of(samba_session *session, unsigned kinds)
{
    uint64_t result = 0;
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(session, i, &info));
        if (!(kinds >> info.kind & 1))
            continue;
        OWN_TENSOR *values = get(session, info.name);
        result = samba_hash(samba_tensor_data(values), (size_t)info.bytes, result);
    }
    return result;
}

#define LEARNED (1u << SAMBA_KIND_PARAMETER | 1u << SAMBA_KIND_BUFFER)
#define COMPUTED (LEARNED | 1u << SAMBA_KIND_GRADIENT | 1u << SAMBA_KIND_OUTPUT)

/* Asserts that both sessions, of equal PEFs, hold the same bits in these kinds of tensors. */
static inline void assert_same_bits(samba_session *a, samba_session *b, unsigned kinds)
{
    assert_int_equal(samba_session_tensor_count(a), samba_session_tensor_count(b));
    for (int i = 0; i < samba_session_tensor_count(a); i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(a, i, &info));
        if (!(kinds >> info.kind & 1))
            continue;
        OWN_TENSOR *x = get(a, info.name), *y = get(b, info.name);
        if (memcmp(samba_tensor_data(x), samba_tensor_data(y), (size_t)info.bytes) != 0)
            fail_msg("%s differs", info.name);
    }
}

/* Tensors of these kinds, of the first session, are off from those of the second by this part of their greatest value at most. */
static inline void assert_near(samba_session *a, samba_session *b, unsigned kinds, double tolerance)
{
    for (int t = 0; t < samba_session_tensor_count(a); t++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(a, t, &info));
        if (!(kinds >> info.kind & 1))
            continue;
        int64_t count, other;
        double *x = get_doubles(a, info.name, "", &count), *y = get_doubles(b, info.name, "", &other), scale = 1e-6, worst = 0;
        assert_int_equal(count, other);
        for (int64_t i = 0; i < count; i++) {
            scale = fmax(scale, fabs(x[i]));
            worst = fmax(worst, isnan(x[i] - y[i]) ? INFINITY : fabs(x[i] - y[i]));
        }
        if (!(worst <= tolerance * scale))
            fail_msg("%s differs by %g of %g", info.name, worst, scale);
        free(x);
        free(y);
    }
}

/* Zeros to all inputs, for tests that do not care: a session refuses to run over inputs that nobody gave. */
static inline samba_status give_zeros(samba_context *of, samba_session *session)
{
    samba_status status = SAMBA_OK;
    for (int i = 0; i < samba_session_tensor_count(session) && status == SAMBA_OK; i++) {
        samba_tensor_info info;
        samba_tensor *zeros = NULL;
        status = samba_session_tensor_info(session, i, &info);
        if (status != SAMBA_OK || info.kind != SAMBA_KIND_INPUT)
            continue;
        status = samba_tensor_new(of, info.name, info.dtype, info.rank, info.shape, &zeros);
        if (status == SAMBA_OK)
            status = samba_session_set(session, zeros);
        samba_tensor_free(zeros);
    }
    return status;
}

#endif
