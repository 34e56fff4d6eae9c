/* SPDX-License-Identifier: Apache-2.0
 *
 * What every unit test shares: cmocka with the headers that it asks for, one context and one scratch folder a program, calls that
 * must succeed or must be refused with some words, and a main of one line. A call that goes otherwise than it must fails the test
 * with the library's message and its own line. Include before anything else. */
#ifndef SAMBA_TEST_HARNESS_H
#define SAMBA_TEST_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../seed.h"
#include <sambaflow/context.h>
#include <sambaflow/graph.h>
#include <sambaflow/tensor.h>

/* A test is given a state; few have one. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define SHAPE(...)                                                                                                               \
    (const int64_t[]) { __VA_ARGS__ }
#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))
/* A rank and its shape, as two arguments. */
#define SIZES(...) LENGTH(((int64_t[]){__VA_ARGS__})), ((int64_t[]){__VA_ARGS__})

/* TEST(name) { ... } is a test of cmocka's, MODEL(name) { ... } makes the graph g. */
#define TEST(name) static void name(void **state __attribute__((unused)))
#define MODEL(name) static void name(samba_graph *g, const void *options __attribute__((unused)))

static samba_context *context __attribute__((unused));
static char folder[64] __attribute__((unused));

/* need: the call succeeds. refuse: it fails with this status, and the message has these words. */
#define need(call) need_at(context, (call), #call, __FILE__, __LINE__)
#define need_in(of, call) need_at((of), (call), #call, __FILE__, __LINE__)
#define refuse(call, status, words) refuse_at(context, (call), (status), (words), #call, __FILE__, __LINE__)
#define refuse_in(of, call, status, words) refuse_at((of), (call), (status), (words), #call, __FILE__, __LINE__)

static inline void need_at(samba_context *of, samba_status status, const char *call, const char *file, int line)
{
    if (status == SAMBA_OK)
        return;
    print_error("%s: %s: %s\n", call, samba_status_name(status), samba_error_message(of));
    _fail(file, line);
}

static inline void refuse_at(samba_context *of, samba_status given, samba_status expected, const char *words, const char *call,
                             const char *file, int line)
{
    if (given == expected && strstr(samba_error_message(of), words))
        return;
    print_error("%s: %s: %s\nexpected %s: ...%s...\n", call, samba_status_name(given), samba_error_message(of),
                samba_status_name(expected), words);
    _fail(file, line);
}

static inline samba_tensor *tensor(const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_tensor *result;
    need(samba_tensor_new(context, name, dtype, rank, shape, &result));
    return result;
}

/* free_tensors(a, b, c) */
#define free_tensors(...) free_each_tensor(LENGTH(((samba_tensor *[]){__VA_ARGS__})), (samba_tensor *[]){__VA_ARGS__})
static inline void free_each_tensor(int count, samba_tensor *const *tensors)
{
    for (int i = 0; i < count; i++)
        samba_tensor_free(tensors[i]);
}

/* OWN_TENSOR *x, OWN_GRAPH *g: freed at the end of their block. */
#define OWN_TENSOR __attribute__((cleanup(free_own_tensor))) samba_tensor
#define OWN_GRAPH __attribute__((cleanup(free_own_graph))) samba_graph
static inline void free_own_tensor(samba_tensor **own) { samba_tensor_free(*own); }
static inline void free_own_graph(samba_graph **own) { samba_graph_free(*own); }

static inline int harness_begin(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/sambaflow-test-XXXXXX");
    return mkdtemp(folder) && samba_context_new(NULL, &context) == SAMBA_OK ? 0 : -1;
}

static inline int harness_end(void **state)
{
    char command[128];
    samba_context_free(context);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? 0 : -1;
}

/* Random numbers of a test, from a seed that seed_anew prints. */
static uint64_t test_seed __attribute__((unused));
static inline uint64_t next_random(void) { return next_seed(&test_seed); }
static inline int draw_below(int bound) { return (int)((next_random() >> 16) % (uint64_t)bound); }
static inline void seed_anew(void)
{
    test_seed = random_seed();
    print_message("seed %llu\n", (unsigned long long)test_seed);
}

/* TEST_MAIN(test_one, test_two): a main that runs these functions, void name(void **state), in the scratch folder's time.
 * TEST_MAIN_WITH(setup, teardown, ...): each between these two as well, int name(void **state). TEST_MAIN_AROUND(first, last,
 * setup, teardown, ...): all of them between two that call harness_begin and harness_end. At most 32. */
#define EACH_(...) EACH_4_(EACH_4_(EACH_4_(__VA_ARGS__)))
#define EACH_4_(...) EACH_3_(EACH_3_(EACH_3_(__VA_ARGS__)))
#define EACH_3_(...) EACH_2_(EACH_2_(EACH_2_(__VA_ARGS__)))
#define EACH_2_(...) EACH_1_(EACH_1_(EACH_1_(__VA_ARGS__)))
#define EACH_1_(...) __VA_ARGS__
#define AGAIN_() TEST_ROW_
#define PARENS_ ()
#define TEST_ROW_(begin, end, test, ...) {#test, test, begin, end, NULL}, __VA_OPT__(AGAIN_ PARENS_(begin, end, __VA_ARGS__))
#define TEST_MAIN_AROUND(begin_all, end_all, begin, end, ...)                                                                    \
    int main(void)                                                                                                               \
    {                                                                                                                            \
        const struct CMUnitTest tests[] = {EACH_(TEST_ROW_(begin, end, __VA_ARGS__))};                                           \
        return cmocka_run_group_tests(tests, begin_all, end_all);                                                                \
    }
#define TEST_MAIN_WITH(begin, end, ...) TEST_MAIN_AROUND(harness_begin, harness_end, begin, end, __VA_ARGS__)
#define TEST_MAIN(...) TEST_MAIN_WITH(NULL, NULL, __VA_ARGS__)

#endif
