/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as functions of host tensors: values against arithmetic, gradients and second derivatives by formula, views, tensors of
 * no and of one element, outputs over inputs, dropout, what is refused, and runs allocate nothing. */
#include "training.h"
#include "messages.h"
#include "failing_allocator.h"

typedef samba_value operation(samba_value x, samba_value y);

static samba_graph *graph_of(operation *op, const samba_tensor *x, const samba_tensor *y)
{
    samba_graph *g;
    need(samba_graph_new(context, "f", &g));
    need(samba_graph_add_input(g, x));
    need(samba_graph_add_input(g, y));
    samba_output(g, "z", op(samba_input(g, "x"), samba_input(g, "y")));
    need(samba_graph_status(g));
    return g;
}

static bool by_reference; /* whether functions are evaluated by the reference kernels: the same tests again */

static samba_function *function_of(const samba_graph *g)
{
    samba_function *f;
    /* as many threads as OpenMP offers: valgrind asks for one */
    need(samba_function_new(context, g, by_reference ? FUNCTION(.reference = true) : NULL, &f));
    return f;
}

static samba_tensor *output_of(const samba_function *f, int index)
{
    samba_tensor_info info;
    need(samba_function_output(f, index, &info));
    return tensor(info.name, info.dtype, info.rank, info.shape);
}

/* z = op(x, y) with its tensors, x and y normal. */
typedef struct made {
    samba_tensor *x, *y, *z;
    samba_graph *g;
    samba_function *f;
} made;

static made make_with(operation *op, samba_tensor *x, samba_tensor *y)
{
    made m = {.x = x, .y = y, .g = graph_of(op, x, y)};
    m.f = function_of(m.g);
    m.z = output_of(m.f, 0);
    return m;
}

static made make(operation *op, int x_rank, const int64_t *x_shape, int y_rank, const int64_t *y_shape)
{
    samba_tensor *x = normal("x", SAMBA_FLOAT32, x_rank, x_shape, 1);
    return make_with(op, x, normal("y", SAMBA_FLOAT32, y_rank, y_shape, 2));
}

static samba_status run_with(const made *m, samba_tensor *x, samba_tensor *y, samba_tensor *z)
{
    return samba_function_run(m->f, (samba_tensor *[]){x, y}, &z);
}

#define OWN_MADE __attribute__((cleanup(unmake))) made
static void unmake(made *m)
{
    free_tensors(m->x, m->y, m->z);
    samba_function_free(m->f);
    samba_graph_free(m->g);
}

#define OWN_FUNCTION __attribute__((cleanup(free_own_function))) samba_function
static void free_own_function(samba_function **own) { samba_function_free(*own); }

/* ---- values ---- */

static samba_value times_plus(samba_value x, samba_value y) { return samba_add(samba_mul(x, y), x); }

TEST(values_and_repeats)
{
    OWN_MADE m = make(times_plus, SIZES(3, 4), SIZES(4));
    samba_graph_free(m.g); /* not needed any more */
    m.g = NULL;
    assert_int_equal(samba_function_input_count(m.f), 2);
    assert_int_equal(samba_function_output_count(m.f), 1);
    samba_tensor_info info;
    need(samba_function_input(m.f, 1, &info));
    assert_string_equal(info.name, "y");
    samba_memory_info memory;
    need(samba_function_memory(m.f, &memory));
    assert_true(memory.total >= (12 + 4 + 12) * 4);
    for (uint64_t round = 0; round < 3; round++) {
        need(samba_fill_normal(m.x, 10 + round, 0, 1));
        void *inputs[] = {m.x->data, m.y->data}, *outputs[] = {m.z->data};
        need(round == 1 ? samba_function_run_memory(m.f, inputs, outputs) : run_with(&m, m.x, m.y, m.z));
        for (int64_t i = 0; i < 12; i++)
            assert_float_equal(element_of(m.z, i), element_of(m.x, i) * element_of(m.y, i % 4) + element_of(m.x, i), 1e-6);
    }
    samba_function_free(NULL);
}

TEST(views_and_places)
{
    OWN_MADE m = make(times_plus, SIZES(3, 4), SIZES(4));
    OWN_TENSOR *turned = normal("x", SAMBA_FLOAT32, SIZES(4, 3), 3), *turned_z = tensor("z", SAMBA_FLOAT32, SIZES(4, 3));
    OWN_TENSOR *view, *view_z, *wide;
    need(samba_tensor_permute(turned, (const int[]){1, 0}, &view));
    need(samba_tensor_permute(turned_z, (const int[]){1, 0}, &view_z));
    need(run_with(&m, view, m.y, view_z));
    for (int64_t r = 0; r < 3; r++)
        for (int64_t c = 0; c < 4; c++)
            assert_float_equal(element_of(turned_z, c * 3 + r), element_of(turned, c * 3 + r) * (element_of(m.y, c) + 1), 1e-6);
    need(run_with(&m, m.x, m.y, m.z));
    need(run_with(&m, m.x, m.y, m.x)); /* over its own input */
    assert_memory_equal(m.x->data, m.z->data, 12 * sizeof(float));
    need(samba_tensor_expand(m.y, SIZES(3, 4), &wide));
    need(run_with(&m, wide, m.y, m.z));
    assert_float_equal(element_of(m.z, 5), element_of(m.y, 1) * (element_of(m.y, 1) + 1), 1e-6);
    says(run_with(&m, m.x, m.y, wide));
}

static samba_value sum_of_product(samba_value x, samba_value y) { return samba_sum(samba_mul(x, y), 0, NULL, false); }
static samba_value first_alone(samba_value x, samba_value y) { return x; }

/* Runs with those of the tensors whose names its inputs have. */
static void run_named(samba_function *f, int count, samba_tensor *const *tensors, samba_tensor *const *results)
{
    samba_tensor *given[8] = {NULL};
    samba_tensor_info info;
    for (int i = 0; i < samba_function_input_count(f); i++) {
        need(samba_function_input(f, i, &info));
        for (int k = 0; k < count; k++)
            given[i] = strcmp(info.name, samba_tensor_name(tensors[k])) == 0 ? tensors[k] : given[i];
        assert_non_null(given[i]);
    }
    need(samba_function_run(f, given, results));
}

TEST(no_elements_and_one)
{
    OWN_MADE none = make(times_plus, SIZES(0, 4), SIZES(4));
    need(run_with(&none, none.x, none.y, none.z));
    need(samba_function_run_memory(none.f, (void *[]){NULL, none.y->data}, (void *[]){NULL}));

    OWN_MADE m = make(sum_of_product, SIZES(0, 4), SIZES(4)); /* the sum of nothing; and its gradients */
    OWN_GRAPH *gradient;
    need(run_with(&m, m.x, m.y, m.z));
    assert_true(element_of(m.z, 0) == 0);
    need(samba_graph_gradient(m.g, 1, (const char *[]){"y"}, &gradient));
    OWN_FUNCTION *f = function_of(gradient);
    OWN_TENSOR *dy = normal("y", SAMBA_FLOAT32, SIZES(4), 1), *dz = normal("z.grad", SAMBA_FLOAT32, 0, NULL, 2);
    run_named(f, 2, (samba_tensor *[]){m.x, dz}, &dy);
    for (int64_t i = 0; i < 4; i++)
        assert_true(element_of(dy, i) == 0);

    samba_tensor *x = normal("x", SAMBA_BFLOAT16, 0, NULL, 5);
    OWN_MADE one = make_with(first_alone, x, normal("y", SAMBA_BFLOAT16, 0, NULL, 6)); /* nothing to compute */
    need(run_with(&one, one.x, one.y, one.z));
    assert_true(element_of(one.z, 0) == element_of(one.x, 0));
}

/* ---- in place ---- */

enum { LARGE = 192 }; /* squared, of float32: more than IN_PLACE_BYTES */

static samba_value two_steps(samba_value x, samba_value y) { return samba_softmax(samba_matmul(x, samba_exp(y)), -1); }

static samba_tensor *unaligned_copy(const samba_tensor *source, char **memory)
{
    samba_tensor *copy;
    *memory = malloc((size_t)samba_tensor_numel(source) * sizeof(float) + 128);
    assert_non_null(*memory);
    char *place = *memory + 64 - (uintptr_t)*memory % 64 + 4;
    need(samba_tensor_from_memory(context, "x", SAMBA_FLOAT32, 2, samba_tensor_shape(source), NULL, place, NULL, NULL, &copy));
    need(samba_tensor_copy(copy, source));
    return copy;
}

/* Wherever tensors lie, results are the same bits. */
TEST(large_tensors_stay)
{
    operation *const ops[] = {times_plus, two_steps, samba_matmul};
    const size_t bytes = sizeof(float) * LARGE * LARGE;
    for (int k = 0; k < LENGTH(ops); k++) {
        OWN_MADE m = make(ops[k], SIZES(LARGE, LARGE), SIZES(LARGE, LARGE));
        samba_memory_info memory;
        need(samba_function_memory(m.f, &memory));
        assert_int_equal(memory.inputs_outputs, 0);
        OWN_TENSOR *again = output_of(m.f, 0), *turned = tensor("t", SAMBA_FLOAT32, SIZES(LARGE, LARGE)), *view;
        need(samba_tensor_permute(turned, (const int[]){1, 0}, &view));
        need(samba_tensor_copy(view, m.x));
        char *place, *behind;
        OWN_TENSOR *odd = unaligned_copy(m.x, &place), *odd_z = unaligned_copy(m.x, &behind);
        need(run_with(&m, m.x, m.y, m.z));
        samba_tensor *const given[] = {view, odd, m.x}, *const wanted[] = {again, odd_z, again};
        for (int i = 0; i < 3; i++) {
            need(run_with(&m, given[i], m.y, wanted[i]));
            assert_memory_equal(wanted[i]->data, m.z->data, bytes);
            need(samba_fill_normal(wanted[i], 5, 0, 1));
        }
        need(run_with(&m, view, m.y, view)); /* a view over itself */
        need(samba_tensor_copy(again, view));
        assert_memory_equal(again->data, m.z->data, bytes);
        need(run_with(&m, m.x, m.y, m.y)); /* over an input that later steps still read */
        assert_memory_equal(m.y->data, m.z->data, bytes);
        says(run_with(&m, m.x, NULL, m.z));
        free(place);
        free(behind);
    }
}

/* ---- gradients ---- */

static samba_value cubed(samba_value x, samba_value y) { return samba_mul(samba_mul(x, samba_mul(x, x)), samba_exp(y)); }

/* Of x^3 e^y and of its two gradients, by formula; fuzz takes differences of every operator's: slopes.c. */
TEST(gradients)
{
    enum { N = 16 };
    static const char *const both[] = {"x", "y"}, *const names[] = {"x", "y", "z.grad", "x.grad.grad", "y.grad.grad"};
    samba_tensor *given[5], *results[4];
    for (int i = 0; i < 5; i++)
        given[i] = normal(names[i], SAMBA_FLOAT64, SIZES(4, 4), 11 + (uint64_t)i);
    OWN_GRAPH *g = graph_of(cubed, given[0], given[1]), *first, *second;
    need(samba_graph_gradient(g, 2, both, &first));
    need(samba_graph_gradient(first, 2, both, &second));
    OWN_FUNCTION *df = function_of(first), *ddf = function_of(second);
    for (int i = 0; i < 4; i++)
        results[i] = output_of(i < 2 ? df : ddf, i % 2);
    run_named(df, 3, given, results);
    run_named(ddf, 5, given, results + 2);
    for (int64_t i = 0; i < N; i++) {
        const double x = element_of(given[0], i), scale = exp(element_of(given[1], i)) * element_of(given[2], i),
                     v = element_of(given[3], i), u = element_of(given[4], i);
        const double expected[] = {3 * x * x, x * x * x, 6 * x * v + 3 * x * x * u, 3 * x * x * v + x * x * x * u};
        for (int k = 0; k < 4; k++)
            assert_true(fabs(element_of(results[k], i) - scale * expected[k]) <= 1e-12 * (1 + fabs(scale * expected[k])));
    }
    free_each_tensor(5, given);
    free_each_tensor(4, results);
}

TEST(gradients_need_little)
{
    OWN_MADE sum = make(samba_add, SIZES(4), SIZES(4)), first = make(first_alone, SIZES(4), SIZES(4));
    OWN_GRAPH *of_sum, *of_first;
    need(samba_graph_gradient(sum.g, 2, (const char *[]){"x", "y"}, &of_sum));
    assert_false(samba_graph_has_input(of_sum, "x")); /* a sum's gradient is that of its result */
    assert_true(samba_graph_has_input(of_sum, "z.grad"));
    assert_false(samba_graph_has_input(of_sum, "x.grad"));
    need(samba_graph_gradient(first.g, 1, (const char *[]){"y"}, &of_first)); /* zeros, of nothing */
    OWN_FUNCTION *f = function_of(of_first);
    assert_int_equal(samba_function_input_count(f), 0);
    need(samba_fill_normal(first.z, 1, 0, 1));
    run_named(f, 0, NULL, &first.z);
    for (int64_t i = 0; i < 4; i++)
        assert_true(element_of(first.z, i) == 0);
}

TEST(gradients_refused)
{
    OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, SIZES(4), 1), *y = tensor("y", SAMBA_INT64, SIZES(4));
    OWN_GRAPH *g = graph_of(times_plus, x, y), *compared = graph_of(samba_lt, x, y);
    samba_graph *gradient;
    says(samba_graph_gradient(g, 1, (const char *[]){"w"}, &gradient));
    assert_null(gradient);
    says(samba_graph_gradient(g, 1, (const char *[]){"y"}, &gradient));
    says(samba_graph_gradient(g, 2, (const char *[]){"x", "x"}, &gradient));
    says(samba_graph_gradient(g, 0, NULL, &gradient));
    says(samba_graph_gradient(compared, 1, (const char *[]){"x"}, &gradient));
    samba_reshape(samba_input(g, "x"), SIZES(5));
    says(samba_graph_gradient(g, 1, (const char *[]){"x"}, &gradient));
    assert_int_equal(samba_graph_gradient(NULL, 0, NULL, &gradient), SAMBA_ERROR_ARGUMENT);
    assert_false(samba_graph_has_input(NULL, "x") || samba_graph_has_input(g, NULL));
}

/* ---- dropout ---- */

static samba_value dropped(samba_value x, samba_value y) { return samba_dropout(x, "drop", 0.5); }

TEST(dropout)
{
    enum { N = 64 };
    OWN_MADE m = make(dropped, SIZES(N), SIZES(N));
    OWN_GRAPH *gradient;
    OWN_FUNCTION *f, *df;
    OWN_TENSOR *second = output_of(m.f, 0), *compiled = output_of(m.f, 0);
    samba_tensor *both[] = {m.x, m.y};
    const size_t bytes = N * sizeof(float);
    for (int i = 0; i < N; i++)
        ((float *)m.x->data)[i] = 1;
    need(run_with(&m, m.x, m.y, m.z)); /* without train nothing is dropped */
    assert_memory_equal(m.z->data, m.x->data, bytes);
    const samba_hyperparameter seed = {"drop.seed", 7};
    says(samba_function_set(m.f, &seed));
    need(samba_function_new(context, m.g, FUNCTION(.train = true, .reference = by_reference), &f));
    need(samba_function_run(f, both, &m.z));
    need(samba_function_run(f, both, &second));
    assert_memory_not_equal(m.z->data, second->data, bytes);
    need(samba_function_set(f, &seed));
    need(samba_function_run(f, both, &m.z));
    need(samba_graph_gradient(m.g, 1, (const char *[]){"x"}, &gradient));
    need(samba_function_new(context, gradient, FUNCTION(.train = true, .reference = by_reference), &df));
    need(samba_function_set(df, &seed));
    need(samba_function_run(df, &m.x, &second)); /* a gradient of ones: the mask itself */
    assert_memory_equal(m.z->data, second->data, bytes);
    says(samba_function_set(df, NULL));
    says(samba_function_set(df, &(samba_hyperparameter){"drop.p", 2}));

    OWN_FUNCTION *other; /* the masks of the reference are those of the compiled dropout: of one seed and index */
    need(samba_function_new(context, m.g, FUNCTION(.train = true, .reference = !by_reference), &other));
    need(samba_function_set(other, &seed));
    need(samba_function_run(other, both, &compiled));
    for (int64_t i = 0; i < N; i++)
        assert_float_equal(element_of(compiled, i), element_of(m.z, i), 1e-6);
}

/* ---- what is refused ---- */

static samba_value looked_up(samba_value x, samba_value y) { return samba_functional_embedding(y, x, NULL); }

TEST(runs_refused)
{
    OWN_TENSOR *empty;
    OWN_MADE m = make_with(looked_up, normal("x", SAMBA_FLOAT32, SIZES(3, 2), 1), tensor("y", SAMBA_INT64, SIZES(4)));
    samba_tensor_info info;
    void *rows = m.y->data, *result = m.z->data;
    need(samba_tensor_empty(context, "x", SAMBA_FLOAT32, SIZES(3, 2), &empty));
    says(samba_function_input(m.f, 2, &info));
    says(samba_function_output(m.f, -1, &info));
    says(samba_function_run(m.f, NULL, &m.z));
    says(samba_function_run(m.f, (samba_tensor *[]){m.x, m.y}, NULL));
    says(run_with(&m, m.x, NULL, m.z));
    says(run_with(&m, m.x, m.y, NULL));
    says(run_with(&m, m.y, m.y, m.z));
    says(run_with(&m, m.z, m.y, m.z));
    says(run_with(&m, empty, m.y, m.z));
    says(samba_function_run_memory(m.f, (void *[]){NULL, rows}, &result));
    says(samba_function_run_memory(m.f, NULL, &result));
    says(samba_function_run_memory(m.f, (void *[]){m.x->data, rows}, NULL));
    ((int64_t *)rows)[2] = 3;
    ((float *)result)[0] = 42;
    says(run_with(&m, m.x, m.y, m.z));
    assert_true(element_of(m.z, 0) == 42);
}

TEST(graphs_refused)
{
    OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, SIZES(3, 2), 1), *y = normal("y", SAMBA_FLOAT32, SIZES(3, 2), 1);
    samba_function *f;
    samba_function_options options = samba_function_defaults();
    OWN_GRAPH *g = graph_of(samba_add, x, y), *bare;
    says(samba_function_new(context, g, FUNCTION(.isa = "mmx"), &f));
    assert_null(f);
    options.struct_size = 4096;
    says(samba_function_new(context, g, &options, &f));
    says(samba_function_new(context, NULL, NULL, &f));
    samba_output(g, "w", samba_linear(samba_input(g, "x"), "layer", 3));
    says(samba_function_new(context, g, NULL, &f));
    samba_reshape(samba_input(g, "x"), SIZES(5));
    says(samba_function_new(context, g, NULL, &f));
    need(samba_graph_new(context, "none", &bare));
    says(samba_function_new(context, bare, NULL, &f));
    samba_value held = samba_register_buffer(bare, "held", SAMBA_FLOAT32, 0, NULL, (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    samba_assign(held, samba_exp(held));
    says(samba_function_new(context, bare, NULL, &f));
}

/* ---- memory ---- */

static samba_value product(samba_value x, samba_value y) { return samba_matmul(samba_tanh(x), y); }

static samba_status make_and_run(samba_context *owner, void *user)
{
    const int64_t size = *(const int64_t *)user, shape[2] = {size, size};
    OWN_TENSOR *x = NULL, *y = NULL;
    OWN_GRAPH *g = NULL, *gradient = NULL;
    OWN_FUNCTION *f = NULL;
    samba_status status = samba_tensor_new(owner, "x", SAMBA_FLOAT32, 2, shape, &x);
    THEN(status, samba_tensor_new(owner, "y", SAMBA_FLOAT32, 2, shape, &y));
    THEN(status, samba_graph_new(owner, "f", &g));
    THEN(status, samba_graph_add_input(g, x));
    THEN(status, samba_graph_add_input(g, y));
    if (status == SAMBA_OK)
        samba_output(g, "z", product(samba_input(g, "x"), samba_input(g, "y")));
    THEN(status, samba_graph_status(g));
    THEN(status, samba_graph_gradient(g, 2, (const char *[]){"x", "y"}, &gradient));
    THEN(status, samba_function_new(owner, gradient, FUNCTION(.threads = 1, .reference = by_reference), &f));
    THEN(status, samba_function_run(f, (samba_tensor *[]){x, y, x}, (samba_tensor *[]){x, y}));
    return status;
}

TEST(no_memory)
{
    fail_each_allocation(make_and_run, &(int64_t){3});
    fail_each_allocation(make_and_run, &(int64_t){160}); /* in place, outputs over inputs */
}

TEST(runs_allocate_nothing)
{
    counting_begin(NULL);
    made large = make(product, SIZES(300, 300), SIZES(300, 300)), small = make(times_plus, SIZES(30), SIZES(30));
    need(run_with(&large, large.x, large.y, large.z));
    int64_t before = counted_memory.calls;
    for (int i = 0; i < 3; i++) /* large, but where they were */
        need(run_with(&large, large.x, large.y, large.z));
    need(run_with(&small, small.x, small.y, small.z));
    need(run_with(&small, small.y, small.x, small.z));
    assert_int_equal(counted_memory.calls, before);
    unmake(&large);
    unmake(&small);
    counting_end(NULL);
}

/* The reference stands behind the same checks and transfers. */
TEST(the_same_by_reference)
{
    by_reference = true;
    values_and_repeats(state);
    views_and_places(state);
    no_elements_and_one(state);
    gradients(state);
    dropout(state);
    graphs_refused(state);
    fail_each_allocation(make_and_run, &(int64_t){3});
    by_reference = false;
}

TEST_MAIN(values_and_repeats, views_and_places, no_elements_and_one, large_tensors_stay, gradients, gradients_need_little,
          gradients_refused, dropout, runs_refused, graphs_refused, no_memory, runs_allocate_nothing, the_same_by_reference,
          every_message_said)
