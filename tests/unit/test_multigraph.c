/* SPDX-License-Identifier: Apache-2.0
 *
 * Several graphs in one PEF: weights, buffers and hyperparameters that they share by name, one plan of memory, turns of their
 * runs, the order in which they were added, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "failing_allocator.h"
#include "plan/plan.h"
#include "training.h"

#include <sambaflow/function.h>
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/multigraph.h>
#include <sambaflow/profile.h>
#include <math.h>

enum { IN = 12, CLASSES = 5 };

/* ---- models ---- */
static samba_value network(samba_value x)
{
    x = samba_tanh(samba_linear(x, "hidden", 32));
    return samba_linear(x, "out", CLASSES);
}

static void trained(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_loss(g, "loss", samba_cross_entropy(network(samba_input(g, "x")), samba_input(g, "label")));
}

static void answering(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_output(g, "logits", network(samba_input(g, "question")));
}

/* cache[:] = x; a cache of 4 rows that another graph adds up */
static void filling(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_value cache =
        samba_register_buffer(g, "cache", SAMBA_FLOAT32, 2, SHAPE(4, 3), (samba_initializer){SAMBA_INIT_CONSTANT, 2, 0});
    samba_value x = samba_input(g, "row");
    samba_assign(cache, samba_add(cache, x));
    samba_output(g, "filled", samba_sum(x, 0, NULL, false));
}

static void adding(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_value cache =
        samba_register_buffer(g, "cache", SAMBA_FLOAT32, 2, SHAPE(4, 3), (samba_initializer){SAMBA_INIT_CONSTANT, 2, 0});
    samba_output(g, "total", samba_sum(cache, 0, NULL, false));
}

/* The question by a matrix made of two parameters, one after the other:
 * the first part alike in all graphs, the second by a factor of the graph. */
static void joined(samba_graph *g, const void *factor)
{
    samba_value part = samba_parameter(g, "part", SAMBA_FLOAT32, 2, SHAPE(5, IN), (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
    samba_value other = samba_parameter(g, "other", SAMBA_FLOAT32, 2, SHAPE(3, IN), (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
    samba_value parts[] = {samba_exp(part), samba_mul_scalar(samba_sin(other), *(const double *)factor)};
    samba_output(g, "logits", samba_matmul(samba_input(g, "question"), samba_transpose(samba_concat(2, parts, 0), 0, 1)));
}

/* ---- helpers ---- */
static samba_multigraph *graphs_new(void)
{
    samba_multigraph *m;
    need(samba_multigraph_new(context, &m));
    return m;
}

typedef struct data {
    samba_tensor *batch[2], *question;
} data;

static data data_new(void)
{
    data d = {{normal("x", SAMBA_FLOAT32, 2, SHAPE(8, IN), 1), tensor("label", SAMBA_INT64, 1, SHAPE(8))},
              normal("question", SAMBA_FLOAT32, 2, SHAPE(3, IN), 2)};
    int64_t *labels = samba_tensor_data(d.batch[1]);
    for (int i = 0; i < 8; i++)
        labels[i] = i % CLASSES;
    return d;
}

static void data_free(data *d)
{
    samba_tensor_free(d->batch[0]);
    samba_tensor_free(d->batch[1]);
    samba_tensor_free(d->question);
}

static samba_status add_trained(samba_multigraph *m, data *d, const samba_optimizer *o, bool overwrite)
{
    samba_compile_options options = compile_of("train", trained, NULL, 2, d->batch);
    options.optimizers = o;
    options.optimizer_count = 1;
    return samba_multigraph_add(m, &options, overwrite);
}

static samba_status add_answering(samba_multigraph *m, data *d, const char *name, bool overwrite)
{
    samba_compile_options options = compile_of(name, answering, NULL, 1, &d->question);
    options.inference = true;
    return samba_multigraph_add(m, &options, overwrite);
}

static samba_status add_model(samba_multigraph *m, const char *name, samba_model model, samba_tensor *input)
{
    samba_compile_options options = compile_of(name, model, NULL, input ? 1 : 0, &input);
    options.inference = true;
    return samba_multigraph_add(m, &options, false);
}

static samba_session *graphs_open(samba_multigraph *m, int threads)
{
    char path[512];
    need(samba_multigraph_compile(m, "several", folder, path, sizeof path));
    return open_session(path, threads, 7);
}

static samba_status run(samba_session *session, const char *graph, int inputs, samba_tensor *const *given, samba_tensor *output)
{
    samba_run_options r = samba_run_defaults();
    r.graph_name = graph;
    r.inputs = given, r.input_count = inputs;
    r.outputs = &output, r.output_count = output ? 1 : 0;
    return samba_run(session, &r);
}

static samba_status run_type(samba_session *session, const char *graph, const char *type)
{
    samba_run_options r = samba_run_defaults();
    r.graph_name = graph;
    r.section_types = &type, r.section_type_count = 1;
    return samba_run(session, &r);
}

static void assert_bits_of(samba_tensor *a, samba_tensor *b)
{
    assert_int_equal(samba_tensor_numel(a), samba_tensor_numel(b));
    assert_memory_equal(samba_tensor_data(a), samba_tensor_data(b), (size_t)samba_tensor_numel(a) * sizeof(float));
}

/* Sums of at most 32 products of numbers below 4, in any order. */
static void assert_near(samba_tensor *a, samba_tensor *b)
{
    const float *x = samba_tensor_data(a), *y = samba_tensor_data(b);
    for (int64_t i = 0; i < samba_tensor_numel(a); i++)
        if (!(fabsf(x[i] - y[i]) <= 32 * 16 * 0x1p-24f))
            fail_msg("element %lld: %.9g and %.9g", (long long)i, (double)x[i], (double)y[i]);
}

/* ---- tests ---- */
/* Trained in one graph, answered by the other:
 * after every step the weights of one PEF, and the answers of another to which they are carried by hand. */
static void weights_are_shared(void **unused)
{
    (void)unused;
    for (int threads = 1; threads <= 2; threads++) {
        data d = data_new();
        samba_optimizer o = samba_adamw(0.05);
        samba_multigraph *m = graphs_new();
        need(add_trained(m, &d, &o, false));
        need(add_answering(m, &d, "answer", false));
        samba_session *both = graphs_open(m, threads);
        samba_multigraph_free(m);
        samba_compile_options options = compile_of("alone_train", trained, NULL, 2, d.batch);
        options.optimizers = &o, options.optimizer_count = 1;
        samba_session *train = compile_and_open(&options, threads, 7);
        options = compile_of("alone_answer", answering, NULL, 1, &d.question);
        options.inference = true;
        samba_session *answer = compile_and_open(&options, threads, 7);
        static const char *const weights[] = {"hidden.weight", "hidden.bias", "out.weight", "out.bias"};
        samba_tensor *expected = tensor("logits", SAMBA_FLOAT32, 2, SHAPE(3, CLASSES)),
                     *given = tensor("logits", SAMBA_FLOAT32, 2, SHAPE(3, CLASSES));
        for (int step = 0; step < 4; step++) {
            need(run(both, "train", 2, d.batch, NULL));
            need(run(both, "answer", 1, &d.question, given));
            need(run(train, NULL, 2, d.batch, NULL));
            for (int i = 0; i < 4; i++) {
                samba_tensor *w = get(train, weights[i]), *ours = get(both, weights[i]);
                assert_bits_of(w, ours);
                need(samba_session_set(answer, w));
                samba_tensor_free(w);
                samba_tensor_free(ours);
            }
            need(run(answer, NULL, 1, &d.question, expected));
            assert_near(given, expected); /* packed weights, for nobody writes them there: other blocks, other sums */
        }
        samba_tensor_free(given);
        samba_tensor_free(expected);
        samba_session_free(train);
        samba_session_free(answer);
        samba_session_free(both);
        data_free(&d);
    }
}

static int casts_of(const samba_session *session)
{
    int count = 0;
    for (int i = 0; i < samba_session_stage_count(session); i++) {
        samba_stage_info info;
        need(samba_session_stage_info(session, i, &info));
        count += strcmp(info.kind, "tile") == 0 && strstr(info.operators, "cast") != NULL;
    }
    return count;
}

/* Two graphs that answer in bfloat16 keep one copy of the weights, whichever runs first, and it follows the weights;
 * a graph that trains has its own. */
static void constants_are_shared(void **unused)
{
    (void)unused;
    data d = data_new();
    samba_optimizer o = samba_sgd(0.1);
    samba_compile_options options = compile_of("answer", answering, NULL, 1, &d.question);
    options.inference = true, options.precision = SAMBA_BF16;
    samba_session *alone = compile_and_open(&options, 1, 7);
    samba_multigraph *m = graphs_new();
    need(samba_multigraph_add(m, &options, false));
    options.name = "again";
    need(samba_multigraph_add(m, &options, false));
    samba_session *both = graphs_open(m, 1);
    assert_int_equal(casts_of(alone), 3);
    assert_int_equal(casts_of(both), 3 + 1); /* two weights, and the question in each graph */
    samba_tensor *expected = tensor("logits", SAMBA_FLOAT32, 2, SHAPE(3, CLASSES)),
                 *given = tensor("logits", SAMBA_FLOAT32, 2, SHAPE(3, CLASSES));
    for (int round = 0; round < 2; round++) {
        static const char *const names[] = {"again", "answer"};
        need(run(alone, NULL, 1, &d.question, expected));
        for (int i = 0; i < 2; i++) {
            need(run(both, names[i ^ round], 1, &d.question, given));
            assert_bits_of(given, expected);
        }
        samba_tensor *weight = normal("hidden.weight", SAMBA_FLOAT32, 2, SHAPE(32, IN), 5);
        need(samba_session_set(alone, weight));
        need(samba_session_set(both, weight));
        samba_tensor_free(weight);
    }
    samba_session_free(both);
    options = compile_of("train", trained, NULL, 2, d.batch);
    options.optimizers = &o, options.optimizer_count = 1, options.precision = SAMBA_BF16;
    need(samba_multigraph_add(m, &options, false));
    both = graphs_open(m, 1);
    samba_session *train = compile_and_open(&options, 1, 7);
    /* training writes the weights: no graph's copies are constant */
    assert_int_equal(casts_of(both), 2 * casts_of(alone) + casts_of(train));
    samba_multigraph_free(m);
    samba_tensor_free(given);
    samba_tensor_free(expected);
    samba_session_free(train);
    samba_session_free(both);
    samba_session_free(alone);
    data_free(&d);
}

/* Results that are joined in one buffer are several stages' work: of graphs that join other things, each has its own. */
static void joined_constants(void **unused)
{
    (void)unused;
    static const double factors[] = {2, 3};
    static const char *const names[] = {"twice", "thrice"};
    data d = data_new();
    samba_multigraph *m = graphs_new();
    samba_tensor *expected = tensor("logits", SAMBA_FLOAT32, 2, SHAPE(3, 8)),
                 *given = tensor("logits", SAMBA_FLOAT32, 2, SHAPE(3, 8));
    samba_session *alone[2];
    for (int i = 0; i < 2; i++) {
        samba_compile_options options = compile_of(names[i], joined, &factors[i], 1, &d.question);
        options.inference = true;
        alone[i] = compile_and_open(&options, 1, 7);
        need(samba_multigraph_add(m, &options, false));
    }
    samba_session *both = graphs_open(m, 1);
    for (int round = 0; round < 4; round++) {
        need(run(alone[round % 2], NULL, 1, &d.question, expected));
        need(run(both, names[round % 2], 1, &d.question, given));
        assert_bits_of(given, expected);
    }
    for (int i = 0; i < 2; i++)
        samba_session_free(alone[i]);
    samba_session_free(both);
    samba_multigraph_free(m);
    samba_tensor_free(given);
    samba_tensor_free(expected);
    data_free(&d);
}

/* What two graphs look up is in the file once, for their memory and beside both texts; what one has alone is its own. */
static void looking_up(samba_graph *g, const void *options)
{
    samba_tensor *both = tensor("both", SAMBA_FLOAT32, 2, SHAPE(100, 100)), *own = tensor("own", SAMBA_FLOAT32, 1, SHAPE(100));
    need(samba_fill_normal(both, 3, 0, 1));
    for (int i = 0; i < 100; i++)
        ((float *)samba_tensor_data(own))[i] = (float)*(const double *)options;
    samba_output(g, "y",
                 samba_add(samba_constant_tensor(g, own), samba_add(samba_input(g, "x"), samba_constant_tensor(g, both))));
    samba_tensor_free(both);
    samba_tensor_free(own);
}

static void literals_are_shared(void **unused)
{
    (void)unused;
    static const double factors[] = {2, 3, 3};
    static const char *const names[] = {"two", "three", "again"};
    samba_tensor *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(100, 100));
    samba_multigraph *m = graphs_new();
    for (int i = 0; i < 3; i++) {
        samba_compile_options options = compile_of(names[i], looking_up, &factors[i], 1, &x);
        options.inference = true;
        need(samba_multigraph_add(m, &options, false));
    }
    samba_session *session = graphs_open(m, 1);
    samba_literal literals[3][2];
    for (int i = 0; i < 3; i++) {
        samba_graph_info info;
        samba_graph *read, *traced;
        need(samba_session_graph_info(session, i, &info));
        assert_int_equal(samba_session_literal_count(session, i), 2);
        for (int k = 0; k < 2; k++)
            need(samba_session_literal(session, i, k, &literals[i][k]));
        need(samba_graph_new(context, names[i], &traced));
        need(samba_graph_add_input(traced, x));
        looking_up(traced, &factors[i]);
        need(samba_graph_parse_beside(context, info.text, 2, literals[i], &read));
        need(samba_graph_compare(read, traced));
        samba_graph_free(read);
        samba_graph_free(traced);
        for (int k = 0; k < 2; k++) /* which of the two is first depends on which argument C evaluates first */
            assert_true((literals[i][k].data == literals[0][k].data) == (i == 0 || literals[i][k].size == 40000));
    }
    assert_ptr_equal(literals[1][0].data, literals[2][0].data);
    assert_ptr_equal(literals[1][1].data, literals[2][1].data);
    samba_session_free(session);
    samba_multigraph_free(m);
    samba_tensor_free(x);
}

static void buffers_are_shared(void **unused)
{
    (void)unused;
    samba_tensor *row = tensor("row", SAMBA_FLOAT32, 1, SHAPE(3)), *total = tensor("total", SAMBA_FLOAT32, 0, NULL);
    float *values = samba_tensor_data(row);
    values[0] = 1, values[1] = 2, values[2] = 3;
    samba_multigraph *m = graphs_new();
    need(add_model(m, "fill", filling, row));
    need(add_model(m, "add", adding, NULL));
    samba_session *session = graphs_open(m, 1);
    need(run(session, "add", 0, NULL, total));
    assert_true(*(float *)samba_tensor_data(total) == 24); /* 12 twos */
    for (int i = 1; i <= 3; i++) {
        need(run(session, "fill", 1, &row, NULL));
        need(run(session, "add", 0, NULL, total));
        assert_true(*(float *)samba_tensor_data(total) == (float)(24 + 24 * i)); /* 4 rows of 1 + 2 + 3 more */
    }
    samba_session_free(session);
    samba_multigraph_free(m);
    samba_tensor_free(row);
    samba_tensor_free(total);
}

/* An input that one graph changes, and another one reads: its region. */
static void counting(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_value region = samba_input(g, "region");
    samba_assign(region, samba_add(region, samba_constant(g, 1, SAMBA_FLOAT32, 0, NULL)));
    samba_output(g, "before", samba_sum(region, 0, NULL, false));
}

static void reading(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_output(g, "seen", samba_sum(samba_input(g, "region"), 0, NULL, false));
}

static void inputs_are_regions(void **unused)
{
    (void)unused;
    samba_tensor *region = normal("region", SAMBA_FLOAT32, 1, SHAPE(4), 5), *seen = tensor("seen", SAMBA_FLOAT32, 0, NULL);
    for (int i = 0; i < 4; i++)
        ((float *)samba_tensor_data(region))[i] = 10;
    samba_multigraph *m = graphs_new();
    need(add_model(m, "count", counting, region));
    need(add_model(m, "read", reading, region));
    samba_session *session = graphs_open(m, 1);
    samba_multigraph_free(m);
    need(run(session, "count", 1, &region, NULL));
    need(run(session, "count", 0, NULL, NULL));
    need(run(session, "read", 0, NULL, seen));
    assert_true(*(float *)samba_tensor_data(seen) == 48);
    need(run(session, "read", 1, &region, seen)); /* given anew */
    assert_true(*(float *)samba_tensor_data(seen) == 40);
    samba_session_free(session);

    samba_graph *g;
    samba_function *f;
    need(samba_graph_new(context, "g", &g));
    need(samba_graph_add_input(g, region));
    counting(g, NULL);
    refuse(samba_function_new(context, g, NULL, &f), SAMBA_ERROR_UNSUPPORTED,
           "assigns to its input \"region\", which is the caller's: make it an output");
    samba_graph_free(g);
    samba_tensor_free(region);
    samba_tensor_free(seen);
}

/* cache[position] = row, and its sum: one row is written, whatever the cache's size, and nothing else moves. */
static void writing(samba_graph *g, const void *rows)
{
    samba_value cache = samba_register_buffer(g, "cache", SAMBA_FLOAT32, 2, SHAPE(*(const int64_t *)rows, 3),
                                              (samba_initializer){SAMBA_INIT_CONSTANT, 2, 0});
    samba_value filled = samba_index_copy(cache, 0, samba_input(g, "position"), samba_unsqueeze(samba_input(g, "row"), 0));
    samba_assign(cache, filled);
    samba_output(g, "last", samba_select(filled, 0, -1)); /* what others read is what was written */
}

static void caches_are_written_in_place(void **unused)
{
    (void)unused;
    const int64_t rows = 1000;
    samba_tensor *inputs[2] = {tensor("position", SAMBA_INT64, 1, SHAPE(1)), tensor("row", SAMBA_FLOAT32, 1, SHAPE(3))},
                 *last = tensor("last", SAMBA_FLOAT32, 1, SHAPE(3));
    float *row = samba_tensor_data(inputs[1]);
    samba_multigraph *m = graphs_new();
    samba_compile_options options = compile_of("write", writing, &rows, 2, inputs);
    options.inference = true;
    need(samba_multigraph_add(m, &options, false));
    samba_session *session = graphs_open(m, 1);
    samba_multigraph_free(m);
    samba_memory_info memory;
    samba_section_info section;
    need(samba_session_memory(session, &memory));
    need(samba_session_section_info(session, 0, &section));
    assert_true(memory.activations == 0 && section.bytes < 200 && section.stage_count == 2);
    for (int i = 0; i < 3; i++) {
        *(int64_t *)samba_tensor_data(inputs[0]) = i == 2 ? rows - 1 : 5 * i;
        for (int k = 0; k < 3; k++)
            row[k] = (float)(10 * i + k);
        need(run(session, "write", 2, inputs, last));
        for (int k = 0; k < 3; k++)
            assert_true(((float *)samba_tensor_data(last))[k] == (i == 2 ? row[k] : 2));
    }
    int64_t count;
    double *cache = get_doubles(session, "cache", "", &count);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i / 3;
        assert_true(cache[i] == (at == 0 ? 0 : at == 5 ? 10 : at == rows - 1 ? 20 : 2 - (double)(i % 3)) + (double)(i % 3));
    }
    free(cache);
    *(int64_t *)samba_tensor_data(inputs[0]) = rows;
    refuse(run(session, "write", 2, inputs, last), SAMBA_ERROR_ARGUMENT, "position[0] = 1000 is outside [0, 1000) (scatter)");
    samba_session_free(session);
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
    samba_tensor_free(last);
}

static void graphs_have_an_order(void **unused)
{
    (void)unused;
    data d = data_new();
    samba_multigraph *m = graphs_new();
    char path[512];
    refuse(samba_multigraph_compile(m, "none", folder, path, sizeof path), SAMBA_ERROR_STATE, "there is no graph to compile");
    need(add_answering(m, &d, "a", false));
    need(add_answering(m, &d, "b", false));
    need(add_answering(m, &d, "c", false));
    refuse(add_answering(m, &d, "a", false), SAMBA_ERROR_NAME,
           "there is a graph \"a\" already: give this one another name, or overwrite it");
    assert_int_equal(samba_multigraph_count(m), 3);
    assert_string_equal(samba_multigraph_name(m, 0), "a");
    need(add_answering(m, &d, "a", true)); /* is the last now */
    static const char *const names[] = {"b", "c", "a"};
    samba_session *session = graphs_open(m, 1);
    assert_int_equal(samba_session_graph_count(session), 3);
    for (int i = 0; i < 3; i++) {
        samba_graph_info info;
        samba_section_info section;
        need(samba_session_graph_info(session, i, &info));
        assert_string_equal(info.name, names[i]);
        assert_string_equal(samba_multigraph_name(m, i), names[i]);
        assert_true(info.inference && info.call_count == 1 && info.section_count == 1 && info.first_section == i &&
                    strstr(info.text, "tanh"));
        need(samba_session_section_info(session, i, &section));
        assert_int_equal(section.graph, i);
        assert_true(samba_session_graph_has(session, i, "question") && !samba_session_graph_has(session, i, "x"));
    }
    samba_graph_info info;
    refuse(samba_session_graph_info(session, 3, &info), SAMBA_ERROR_ARGUMENT, "there is no graph 3: the PEF has 3");
    assert_null(samba_multigraph_name(m, 3));
    samba_session_free(session);
    session = graphs_open(m, 1); /* graphs stay as they were */
    need(run(session, "c", 1, &d.question, NULL));
    samba_session_free(session);
    samba_multigraph_free(m);
    data_free(&d);
}

static void runs_take_turns(void **unused)
{
    (void)unused;
    data d = data_new();
    samba_optimizer o = samba_sgd(0.1);
    samba_multigraph *m = graphs_new();
    need(add_trained(m, &d, &o, false));
    need(add_answering(m, &d, "answer", false));
    samba_session *session = graphs_open(m, 1);
    samba_multigraph_free(m);
    refuse(run(session, NULL, 0, NULL, NULL), SAMBA_ERROR_ARGUMENT,
           "this PEF has 2 graphs, and the run does not say which: give it a graph_name of: \"train\", \"answer\"");
    refuse(run(session, "tain", 0, NULL, NULL), SAMBA_ERROR_NAME,
           "there is no graph \"tain\"; this PEF has: \"train\", \"answer\"");
    refuse(run(session, "answer", 2, d.batch, NULL), SAMBA_ERROR_NAME,
           "graph \"answer\" has no input \"x\", another one has; its inputs are: \"question\"");
    samba_tensor *logits = tensor("logits", SAMBA_FLOAT32, 2, SHAPE(3, CLASSES));
    refuse(run(session, "train", 2, d.batch, logits), SAMBA_ERROR_NAME,
           "graph \"train\" has no output \"logits\", another one has; its outputs are: \"loss\"");
    refuse(run_type(session, "answer", "BCKWD"), SAMBA_ERROR_NAME,
           "there is no section of type \"BCKWD\"; this graph has: \"FWD\"");
    samba_run_options r = samba_run_defaults();
    r.graph_name = "train";
    r.section_ids = (const int[]){3}, r.section_id_count = 1;
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "there is no section 3: this graph's ids are 0 to 2");
    r.section_ids = NULL, r.section_id_count = 0;
    r.run_from_call_id = 3;
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "run_from_call_id 3: this graph's calls are 0 to 2");
    refuse(run_type(session, "train", "BCKWD"), SAMBA_ERROR_STATE, "there was none yet: run FWD before it");
    need(run(session, "train", 2, d.batch, NULL));
    need(run_type(session, "train", "FWD"));
    need(run(session, "answer", 1, &d.question, logits));
    refuse(run_type(session, "train", "BCKWD"), SAMBA_ERROR_STATE, "another graph has run since: run FWD before it");
    need(run_type(session, "train", "FWD"));
    need(run_type(session, "train", "BCKWD"));
    need(run_type(session, "answer", "FWD"));
    need(run_type(session, "train", "OPT")); /* gradients are the device's, not a run's */
    samba_tensor_free(logits);
    samba_session_free(session);
    data_free(&d);
}

static void memory_is_planned_once(void **unused)
{
    (void)unused;
    data d = data_new();
    samba_optimizer o = samba_sgd(0.1);
    samba_multigraph *m = graphs_new();
    need(add_trained(m, &d, &o, false));
    need(add_answering(m, &d, "answer", false));
    samba_session *session = graphs_open(m, 1);
    samba_memory_info both, train;
    need(samba_session_memory(session, &both));
    samba_session_free(session);
    samba_compile_options options = compile_of("alone", trained, NULL, 2, d.batch);
    options.optimizers = &o, options.optimizer_count = 1;
    session = compile_and_open(&options, 1, 7);
    need(samba_session_memory(session, &train));
    samba_session_free(session);
    assert_int_equal(both.parameters, train.parameters);
    assert_int_equal(both.gradients, train.gradients);
    assert_int_equal(both.activations, train.activations); /* 8 rows need more than 3 */
    samba_multigraph_free(m);
    data_free(&d);
}

/* ---- what cannot be one ---- */
static void wide(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_parameter(g, "hidden.weight", SAMBA_FLOAT32, 2, SHAPE(7, IN), (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    samba_output(g, "wide", samba_linear(samba_input(g, "question"), "hidden", 7));
}

static void otherwise_begun(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_parameter(g, "hidden.bias", SAMBA_FLOAT32, 1, SHAPE(32), (samba_initializer){SAMBA_INIT_CONSTANT, 3, 0});
    samba_output(g, "begun", samba_linear(samba_input(g, "question"), "hidden", 32));
}

static void named_logits(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_output(g, "again", samba_relu(samba_input(g, "logits")));
}

static void names_mean_one_thing(void **unused)
{
    (void)unused;
    data d = data_new();
    char path[512];
    samba_tensor *logits = normal("logits", SAMBA_FLOAT32, 2, SHAPE(3, CLASSES), 3);
    const struct {
        samba_model model;
        samba_tensor *input;
        samba_status status;
        const char *message;
    } cases[] = {
        {wide, d.question, SAMBA_ERROR_NAME,
         "\"hidden.weight\" is a parameter float32(32, 12) in graph \"answer\" and a parameter float32(7, 12) in graph "
         "\"other\": what graphs share"},
        {otherwise_begun, d.question, SAMBA_ERROR_ARGUMENT,
         "\"hidden.bias\" is shared by graphs \"answer\" and \"other\" and starts with other values in each"},
        {named_logits, logits, SAMBA_ERROR_NAME,
         "\"logits\" is an output float32(3, 5) in graph \"answer\" and an input float32(3, 5) in graph \"other\""},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        samba_multigraph *m = graphs_new();
        need(add_answering(m, &d, "answer", false));
        need(add_model(m, "other", cases[i].model, cases[i].input));
        refuse(samba_multigraph_compile(m, "refused", folder, path, sizeof path), cases[i].status, cases[i].message);
        samba_multigraph_free(m);
    }
    samba_multigraph *m = graphs_new();
    samba_optimizer slow = samba_sgd(0.1), fast = samba_sgd(0.2);
    need(add_trained(m, &d, &slow, false));
    samba_compile_options options = compile_of("more", trained, NULL, 2, d.batch);
    options.optimizers = &fast, options.optimizer_count = 1;
    need(samba_multigraph_add(m, &options, false));
    samba_session *session = graphs_open(m, 1); /* two optimizers: train.optim0 and more.optim0 */
    assert_true(get_hyper(session, "train.optim0.lr") == 0.1 && get_hyper(session, "more.optim0.lr") == 0.2);
    samba_session_free(session);
    slow.name = fast.name = "sgd";
    need(add_trained(m, &d, &slow, true));
    need(samba_multigraph_add(m, &options, true));
    refuse(samba_multigraph_compile(m, "refused", folder, path, sizeof path), SAMBA_ERROR_NAME,
           "hyperparameter \"sgd.lr\" is 0.2 in graph \"more\" and 0.1 in one before it");
    options.name = "";
    refuse(samba_multigraph_add(m, &options, false), SAMBA_ERROR_ARGUMENT, "a graph needs a name");
    options = compile_of("small", answering, NULL, 1, &d.question);
    options.inference = true;
    options.memory_budget = 1 << 20;
    refuse(samba_multigraph_add(m, &options, false), SAMBA_ERROR_ARGUMENT,
           "graph \"small\" is for inference, which has nothing to compute again");
    samba_multigraph_free(m);
    samba_tensor_free(logits);
    data_free(&d);
}

/* ---- no memory ---- */
static samba_status compile_two(samba_context *own)
{
    samba_multigraph *m = NULL;
    samba_tensor *question = NULL;
    samba_status status = samba_tensor_empty(own, "question", SAMBA_FLOAT32, 2, SHAPE(3, IN), &question);
    if (status == SAMBA_OK)
        status = samba_multigraph_new(own, &m);
    samba_compile_options o = compile_of("a", answering, NULL, 1, &question);
    o.inference = true;
    if (status == SAMBA_OK)
        status = samba_multigraph_add(m, &o, false);
    o.name = "b";
    if (status == SAMBA_OK)
        status = samba_multigraph_add(m, &o, false);
    if (status == SAMBA_OK)
        status = samba_multigraph_add(m, &o, true);
    if (status == SAMBA_OK)
        status = samba_multigraph_compile(m, "no_memory", folder, NULL, 0);
    samba_multigraph_free(m);
    samba_tensor_free(question);
    return status;
}

static samba_status scenario(samba_context *own, void *unused)
{
    (void)unused;
    return compile_two(own);
}

static void no_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_shared),
        cmocka_unit_test(buffers_are_shared),
        cmocka_unit_test(caches_are_written_in_place),
        cmocka_unit_test(inputs_are_regions),
        cmocka_unit_test(graphs_have_an_order),
        cmocka_unit_test(runs_take_turns),
        cmocka_unit_test(memory_is_planned_once),
        cmocka_unit_test(constants_are_shared),
        cmocka_unit_test(joined_constants),
        cmocka_unit_test(literals_are_shared),
        cmocka_unit_test(names_mean_one_thing),
        cmocka_unit_test(no_memory),
    };
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, NULL, NULL));
}
