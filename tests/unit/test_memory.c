/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory from end to end. Compiling with each allocation refused in turn (a session's life is test_session.c's): MEMORY, nothing
 * leaked, nothing half written. Then runs after the first: none may allocate, counted at the library's hook and, because OpenMP
 * and kernel libraries have memory of their own, at malloc itself, which this program stands in for. Under the address sanitizer
 * malloc is the sanitizer's and only the hook counts. */
#include "training.h"
#include "failing_allocator.h"
#include "mapped_models.h"
#include <errno.h>

/* ---- malloc, counted ---- */
#if !defined(__SANITIZE_ADDRESS__) && defined(__GLIBC__)
#define COUNTS_MALLOC 1
#define INTERPOSED __attribute__((visibility("default")))
static bool counting; /* read by OpenMP's threads, which sleep or spin while it changes */
static long counted;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static void *count_one(void *block)
{
    if (__atomic_load_n(&counting, __ATOMIC_RELAXED))
        __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED);
    return block;
}
INTERPOSED void *malloc(size_t size) { return count_one(__libc_malloc(size)); }
INTERPOSED void *calloc(size_t count, size_t size) { return count_one(__libc_calloc(count, size)); }
INTERPOSED void *realloc(void *block, size_t size) { return count_one(__libc_realloc(block, size)); }
INTERPOSED void *aligned_alloc(size_t alignment, size_t size) { return count_one(__libc_memalign(alignment, size)); }
INTERPOSED int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = count_one(__libc_memalign(alignment, size));
    return *block ? 0 : ENOMEM;
}
INTERPOSED void free(void *block) { __libc_free(block ? count_one(block) : NULL); }
static void malloc_count_start(void)
{
    counted = 0;
    __atomic_store_n(&counting, true, __ATOMIC_SEQ_CST);
}
static long malloc_count_stop(void)
{
    __atomic_store_n(&counting, false, __ATOMIC_SEQ_CST);
    return counted;
}
#else
#define COUNTS_MALLOC 0
static void malloc_count_start(void) {}
static long malloc_count_stop(void) { return 0; }
#endif

/* ---- models ---- */
/* Images and words together; between them most operators. */
MODEL(many_operators)
{
    samba_value x = samba_reshape(samba_input(g, "image"), 4, SHAPE(-1, 1, 8, 6)), t = samba_input(g, "token");
    int64_t n = samba_value_size(x, 0);
    samba_conv2d_options padded = {.padding = {1, 1}};
    x = samba_relu(samba_conv2d(x, "conv1", 4, SHAPE(3, 3), &padded));
    samba_value pooled = samba_max_pool2d(x, SHAPE(2, 2), NULL), averaged = samba_avg_pool2d(x, SHAPE(2, 2), NULL);
    x = samba_concat(2, (const samba_value[]){pooled, averaged}, 1);
    x = samba_flatten(samba_gelu(samba_conv2d(x, "conv2", 3, SHAPE(2, 3), NULL)), 1, -1);
    samba_value e = samba_embedding(t, "words", 11, 6), q = samba_linear(e, "q", 6), k = samba_linear_no_bias(e, "k", 6);
    samba_value mask = samba_lt(samba_arange(g, 5, SAMBA_INT64), samba_reshape(samba_arange(g, 5, SAMBA_INT64), 2, SHAPE(5, 1)));
    samba_value scores = samba_mul_scalar(samba_matmul(q, samba_transpose(k, -2, -1)), 0.4);
    scores = samba_where(mask, scores, samba_constant(g, -1e9, SAMBA_FLOAT32, 0, NULL));
    e = samba_dropout(samba_layer_norm(samba_add(e, samba_matmul(samba_softmax(scores, -1), e)), "norm"), "drop", 0.1);
    samba_value least = samba_amin(e, 1, (const int[]){1}, false), most = samba_amax(e, 1, (const int[]){1}, false);
    samba_value both =
        samba_concat(4, (const samba_value[]){x, least, most, samba_slice(samba_reshape(e, 2, SHAPE(n, 30)), 1, 3, 27, 4)}, 1);
    samba_value logits = samba_linear(samba_tanh(samba_linear(both, "fc1", 17)), "fc2", 10);
    samba_output(g, "logits", logits);
    samba_output(g, "best", samba_argmax(logits, -1, false));
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
    samba_loss(g, "penalty", samba_mul_scalar(samba_sum(samba_sigmoid(samba_mul(q, k)), 0, NULL, false), 0.01));
}

enum { INPUTS = 3, EVERY = 10 };
static samba_tensor *inputs[INPUTS];
static void make_inputs(int64_t n)
{
    inputs[0] = kept(normal("image", SAMBA_FLOAT32, 2, SHAPE(n, 48), 1));
    inputs[1] = kept(tensor("label", SAMBA_INT64, 1, SHAPE(n)));
    inputs[2] = kept(tensor("token", SAMBA_INT32, 2, SHAPE(n, 5)));
    need(samba_fill_integers(inputs[1], 2, 0, 10));
    need(samba_fill_integers(inputs[2], 3, 0, 11));
}

static samba_compile_options options_of_many(void)
{
    static const char *const biases[] = {"*.bias", "norm.*"};
    static samba_optimizer optimizers[2];
    samba_compile_options options = training_of("many", many_operators, NULL, INPUTS, inputs, optimizers);
    optimizers[0] = samba_sgd(0.1), optimizers[1] = samba_adamw(0.01);
    optimizers[0].momentum = 0.9, optimizers[0].dampening = 0.1;
    optimizers[0].parameters = biases, optimizers[0].parameter_count = 2;
    optimizers[1].amsgrad = true, optimizers[1].max_grad_norm = 1;
    options.optimizer_count = 2;
    options.grad_accumulation_steps = 2;
    return options;
}

/* ---- refused allocations ---- */
static samba_status compile_scenario(samba_context *refusing, void *user)
{
    char path[512];
    return samba_compile(refusing, user, path, sizeof path);
}

/* Logits in chunks of rows; what the last compile wrote is whole. */
TEST(test_compile)
{
    mapped_inputs(2, inputs);
    samba_compile_options options = mapped_options(2, inputs, 2, 0, SAMBA_MAPPING_SECTION);
    fail_each_allocation(compile_scenario, &options);
    assert_int_equal(samba_session_section_count(open_kept(&options, 1, 1)), 6); /* FWD twice: BCKWD computes a part again */
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

/* Some hundreds of its allocations, of all kinds, alone or with all after it. */
TEST(test_compile_many)
{
    make_inputs(6);
    samba_compile_options options = options_of_many();
    fail_some_allocations(compile_scenario, &options, 0, EVERY, 1);
    fail_some_allocations(compile_scenario, &options, EVERY / 2, EVERY, INT64_MAX);
}

/* ---- runs that allocate nothing ---- */
static void check_runs(int64_t n, int threads)
{
    static const char *const each[] = {"zerograd", "FWD", "bckwd", "gradnorm", "Opt"};
    make_inputs(n);
    samba_compile_options options = options_of_many();
    char path[512];
    need(samba_compile(context, &options, path, sizeof path));
    failing_allocator state;
    samba_context *watched = counting_context_new(&state);
    samba_session_options so = samba_session_defaults();
    so.threads = threads;
    samba_session *session;
    assert_int_equal(samba_session_new(watched, path, &so, &session), SAMBA_OK);
    samba_tensor *outputs[] = {kept(tensor("logits", SAMBA_FLOAT32, 2, SHAPE(n, 10))),
                               kept(tensor("loss", SAMBA_FLOAT32, 0, NULL))};
    samba_tensor *transposed = kept(tensor("image", SAMBA_FLOAT32, 2, SHAPE(48, n))), *view;
    need(samba_tensor_permute(transposed, (const int[]){1, 0}, &view)); /* gathered in pieces on its way in */
    samba_tensor *strided[] = {kept(view), inputs[1], inputs[2]};
    samba_run_options r = giving(INPUTS, inputs);
    r.outputs = outputs, r.output_count = 2;
    assert_int_equal(samba_run(session, &r), SAMBA_OK);
    int64_t calls = state.calls;
    bool good = true;
    malloc_count_start(); /* nothing of cmocka's from here to the stop */
    for (int i = 0; i < 6 && good; i++) {
        samba_hyperparameter lr = {"lr", 0.01 / (1 + i)};
        r.inputs = i % 2 ? inputs : strided;
        r.hyperparameters = &lr, r.hyperparameter_count = 1;
        r.train = i != 3;
        good = samba_run(session, &r) == SAMBA_OK; /* whole schedule */
        for (int k = 0; k < 5 && good; k++)        /* section types one by one */
            good = run_sections(session, NULL, each[k]) == SAMBA_OK;
    }
    samba_run_options ids = samba_run_defaults();
    ids.section_id_count = 1, ids.section_ids = (const int[]){0};
    good = good && samba_run(session, &ids) == SAMBA_OK && samba_run(session, NULL) == SAMBA_OK;
    bool refused = run_sections(session, NULL, "BACKWARD") == SAMBA_ERROR_NAME; /* allocates nothing either */
    good = good && samba_session_set(session, inputs[0]) == SAMBA_OK && samba_session_get(session, outputs[1]) == SAMBA_OK;
    const char *warning = samba_session_warning(session);
    long mallocs = malloc_count_stop();
    if (!good)
        fail_msg("%s", samba_error_message(watched));
    assert_true(refused);
    assert_string_equal(warning, "");
    assert_int_equal(state.calls, calls);
    assert_int_equal(mallocs, 0);
    samba_session_free(session);
    counting_context_free(watched, &state);
}

TEST(test_runs)
{
#if COUNTS_MALLOC
    malloc_count_start(); /* does the count work? */
    void *volatile block = malloc(10);
    free(block);
    assert_int_equal(malloc_count_stop(), 2);
#endif
    check_runs(6, 1);
    check_runs(6, 2);
    check_runs(192, 1);
    check_runs(192, 2); /* stages that are worth sharing */
}

TEST_MAIN_WITH(NULL, drop_kept, test_compile, test_compile_many, test_runs)
