/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of a function in one PEF: each computes what a PEF of its own does, bit by bit, also where they take turns in training
 * and where micro-batches of a step are of several sizes; memory is that of the largest; runs go by the shapes of their inputs;
 * what another size has overwritten is not taken for values. */
#include "training.h"
#include "failing_allocator.h"

enum { IN = 12, CLASSES = 5, SIZES = 3 };
static const int64_t rows[SIZES] = {8, 3, 2};
static const char *const labels[SIZES] = {"8", "3", "2"};

MODEL(trained)
{
    samba_value x = samba_linear(samba_input(g, "x"), "hidden", 32);
    samba_value logits = samba_linear(samba_tanh(samba_batch_norm(x, "norm", NULL)), "out", CLASSES);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}
MODEL(answering) { samba_output(g, "logits", samba_linear(samba_input(g, "x"), "out", CLASSES)); }
MODEL(vectors) { samba_output(g, "y", samba_square(samba_linear(samba_input(g, "x"), "w", 4))); }

/* A buffer as large as the batch, and an input that the graph writes. */
MODEL(remembering)
{
    samba_value x = samba_input(g, "x");
    samba_value last = samba_register_buffer(g, "last", SAMBA_FLOAT32, 2, SHAPE(samba_value_size(x, 0), IN),
                                             (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    samba_output(g, "y", samba_add(x, last));
}
MODEL(counting)
{
    samba_value region = samba_input(g, "x");
    samba_assign(region, samba_add_scalar(region, 1));
    samba_output(g, "y", samba_mul_scalar(region, 2));
}

static samba_multigraph *graphs;
static samba_tensor *batch[SIZES][2];

static int setup(void **unused)
{
    (void)unused;
    need(samba_multigraph_new(context, &graphs));
    for (int k = 0; k < SIZES; k++) {
        batch[k][0] = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(rows[k], IN), (uint64_t)k));
        batch[k][1] = kept(tensor("label", SAMBA_INT64, 1, SHAPE(rows[k])));
        need(samba_fill_integers(batch[k][1], (uint64_t)k, 0, CLASSES));
    }
    return 0;
}

static int teardown(void **unused)
{
    samba_multigraph_free(graphs);
    return drop_kept(unused);
}

static samba_compile_options training(int k, const samba_optimizer *o, int accumulation)
{
    samba_compile_options options = training_of("train", trained, NULL, 2, batch[k], o);
    options.grad_accumulation_steps = accumulation;
    return options;
}

static void add_sizes(const samba_optimizer *o, int accumulation)
{
    for (int k = 0; k < SIZES; k++) {
        const samba_compile_options options = training(k, o, accumulation);
        need(samba_multigraph_add_size(graphs, &options, labels[k]));
    }
}

static samba_session *open_graphs(void)
{
    char path[512];
    need(samba_multigraph_compile(graphs, "sizes", folder, path, sizeof path));
    return kept_session(open_session(path, 1, 7));
}

/* A run of a size by the function's name; NULL: by no name. */
static samba_status run(samba_session *session, const char *name, int k, const char *sections)
{
    samba_run_options r = giving(2, batch[k]);
    r.graph_name = name;
    return sections ? run_sections(session, &r, sections) : samba_run(session, &r);
}

/* Everything that lasts from one to the other. */
static void move_state(samba_session *from, samba_session *to)
{
    for (int i = 0; i < samba_session_tensor_count(to); i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(to, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER && info.kind != SAMBA_KIND_BUFFER && info.kind != SAMBA_KIND_GRADIENT)
            continue;
        OWN_TENSOR *values = get(from, info.name);
        need(samba_session_set(to, values));
    }
}

static void assert_alike(samba_session *a, samba_session *b, const char *name)
{
    OWN_TENSOR *x = get(a, name), *y = get(b, name);
    assert_int_equal(samba_tensor_numel(x), samba_tensor_numel(y));
    assert_memory_equal(samba_tensor_data(x), samba_tensor_data(y),
                        (size_t)samba_tensor_numel(x) * samba_dtype_size(samba_tensor_dtype(x)));
}

/* In any order each step has the bits of the size's own PEF, batch norm and the optimizer's count of steps too. */
TEST(sizes_take_turns)
{
    samba_optimizer o = samba_adamw(0.05);
    o.name = "adam";
    samba_session *alone[SIZES];
    add_sizes(&o, 1);
    samba_session *all = open_graphs();
    for (int k = 0; k < SIZES; k++) {
        const samba_compile_options options = training(k, &o, 1);
        alone[k] = open_kept(&options, 1, 7);
    }
    static const int order[] = {0, 0, 1, 0, 1, 1, 2, 0, 2, 1};
    int before = -1;
    for (int i = 0; i < (int)LENGTH(order); i++) {
        const int k = order[i];
        if (before >= 0 && before != k)
            move_state(alone[before], alone[k]);
        need(run(alone[k], NULL, k, NULL));
        need(run(all, i % 2 ? "train" : NULL, k, NULL));
        assert_alike(all, alone[k], "loss");
        for (int t = 0; t < samba_session_tensor_count(alone[k]); t++) {
            samba_tensor_info info;
            need(samba_session_tensor_info(alone[k], t, &info));
            if (info.kind == SAMBA_KIND_PARAMETER || info.kind == SAMBA_KIND_BUFFER)
                assert_alike(all, alone[k], info.name);
        }
        before = k;
    }
}

/* 8 + 3 rows as a window of two micro-batches, of a PEF that divides by 4: gradients of their shares add up to those of the mean
 * over 11. */
TEST(windows_of_several_sizes)
{
    samba_optimizer o = samba_sgd(0);
    samba_tensor *start = kept(tensor("loss.grad", SAMBA_FLOAT32, 0, NULL));
    add_sizes(&o, 4);
    samba_session *all = open_graphs();
    int64_t count;
    double *expected = NULL;
    for (int k = 0; k < 2; k++) {
        const samba_compile_options options = training(k, &o, 1);
        samba_session *alone = open_kept(&options, 1, 7);
        need(run(alone, NULL, k, NULL));
        double *its = get_doubles(alone, "out.weight", ".grad", &count);
        expected = expected ? expected : calloc((size_t)count + 1, sizeof *expected);
        for (int64_t i = 0; i < count; i++)
            expected[i] += its[i] * (double)rows[k] / 11;
        free(its);
    }
    for (int k = 0; k < 2; k++) {
        samba_run_options r = giving(2, batch[k]);
        *(float *)samba_tensor_data(start) = (float)(4 * (double)rows[k] / 11);
        r.graph_name = "train";
        r.output_gradients = &start;
        r.output_gradient_count = 1;
        need(run_sections(all, &r, k == 0 ? "ZEROGRAD FWD BCKWD" : "FWD BCKWD OPT"));
    }
    double *got = get_doubles(all, "out.weight", ".grad", &count);
    for (int64_t i = 0; i < count; i++)
        assert_true(fabs(got[i] - expected[i]) < 1e-6);
    free(got);
    free(expected);
}

TEST(memory_is_that_of_the_largest)
{
    samba_optimizer o = samba_adamw(0.05);
    samba_memory_info all, alone;
    add_sizes(&o, 1);
    const samba_compile_options options = training(0, &o, 1);
    need(samba_session_memory(open_graphs(), &all));
    need(samba_session_memory(open_kept(&options, 1, 7), &alone));
    assert_int_equal(all.parameters, alone.parameters);
    assert_int_equal(all.gradients, alone.gradients);
    assert_int_equal(all.state, alone.state);
    assert_int_equal(all.activations, alone.activations);
    assert_int_equal(all.inputs_outputs, alone.inputs_outputs);
}

TEST(names_in_a_size)
{
    samba_optimizer o = samba_sgd(0.1);
    int index;
    add_sizes(&o, 1);
    samba_session *all = open_graphs();
    assert_string_equal(samba_session_name_in(all, 0, "x"), "x");
    assert_string_equal(samba_session_name_in(all, 1, "x"), "x@3");
    assert_string_equal(samba_session_name_in(all, 1, "logits"), "logits@3");
    assert_string_equal(samba_session_name_in(all, 1, "loss"), "loss");
    assert_string_equal(samba_session_name_in(all, 1, "logits@3"), "logits@3");
    assert_null(samba_session_name_in(all, 0, "logits@3"));
    assert_null(samba_session_name_in(all, SIZES, "x"));
    assert_null(samba_session_name_in(NULL, 0, "x"));
    for (int k = 0; k < SIZES; k++) {
        need(samba_session_graph_for(all, k ? "train" : NULL, 2, batch[k], &index));
        assert_int_equal(index, k);
    }
    refuse(samba_session_graph_for(all, "train", -1, NULL, &index), SAMBA_ERROR_ARGUMENT, "a count or its list is missing");
    refuse(samba_session_graph_for(all, "test", 2, batch[0], &index), SAMBA_ERROR_NAME, "there is no graph \"test\"");
    refuse(samba_session_graph_for(all, "trains", 2, batch[0], &index), SAMBA_ERROR_NAME,
           "there is no graph \"trains\" (did you mean \"train\"?); this PEF has: \"train@");
    assert_int_equal(samba_session_graph_for(NULL, "train", 0, NULL, &index), SAMBA_ERROR_ARGUMENT);
}

TEST(what_does_not_fit_is_refused)
{
    samba_optimizer o = samba_sgd(0.1);
    add_sizes(&o, 1);
    samba_session *all = open_graphs();
    refuse(run_sections(all, NULL, "FWD"), SAMBA_ERROR_ARGUMENT, "the run does not say which size it is of");
    samba_tensor *odd[2] = {kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(5, IN), 1)), batch[0][1]};
    samba_run_options r = giving(2, odd);
    refuse(samba_run(all, &r), SAMBA_ERROR_SHAPE,
           "input \"x\" has the shape (5, 12), and \"train\" was compiled for: \"(8, 12)\", \"(3, 12)\", \"(2, 12)\"");
    r.graph_name = "train";
    refuse(samba_run(all, &r), SAMBA_ERROR_SHAPE, "give one of these, or compile that size too");
    odd[0] = batch[1][0];
    refuse(samba_run(all, &r), SAMBA_ERROR_SHAPE, "the inputs are of different sizes of \"train\"");
    r.graph_name = "train@8";
    refuse(samba_run(all, &r), SAMBA_ERROR_SHAPE, "input \"x\" has the shape (8, 12) in the PEF and (3, 12) was given");
    odd[1] = odd[0];
    r.graph_name = "train";
    refuse(samba_run(all, &r), SAMBA_ERROR_NAME, "input \"x\" was given twice");
    samba_tensor *twice[2] = {batch[1][0], kept(normal("x@3", SAMBA_FLOAT32, 2, SHAPE(3, IN), 1))};
    r.inputs = twice;
    refuse(samba_run(all, &r), SAMBA_ERROR_NAME, "input \"x@3\" was given twice");
}

/* Memory that sizes share has the values of the one that came last. */
TEST(what_is_overwritten_is_gone)
{
    samba_optimizer o = samba_sgd(0.1);
    samba_tensor *logits[2] = {kept(tensor("logits", SAMBA_FLOAT32, 2, SHAPE(rows[0], CLASSES))),
                               kept(tensor("logits", SAMBA_FLOAT32, 2, SHAPE(rows[1], CLASSES)))};
    add_sizes(&o, 1);
    samba_session *all = open_graphs();
    need(run(all, NULL, 0, "FWD"));
    need(run_sections(all, NULL, "BCKWD")); /* goes on with what ran last */
    need(samba_session_get(all, logits[0]));
    need(run(all, NULL, 1, "FWD"));
    need(samba_session_get(all, logits[1]));
    refuse(samba_session_get(all, logits[0]), SAMBA_ERROR_STATE, "\"logits\" lies in memory that all sizes share");
    samba_run_options r = samba_run_defaults();
    r.graph_name = "train@8";
    refuse(run_sections(all, &r, "FWD"), SAMBA_ERROR_STATE, "reads the inputs \"x\", \"label\", which were never given");
    need(samba_session_set(all, batch[0][0]));
    refuse(run_sections(all, &r, "FWD"), SAMBA_ERROR_STATE, "reads the input \"label\", which was never given");
    need(samba_session_set(all, batch[0][1]));
    need(run_sections(all, &r, "FWD"));
    need(samba_session_set(all, batch[2][0])); /* a size by its shape */
    refuse(run_sections(all, &r, "FWD"), SAMBA_ERROR_STATE, "reads the input \"x\", which was never given");
}

/* Gradients that callers set stay, whatever runs between; each size's output has its own. */
TEST(gradients_of_outputs)
{
    samba_optimizer o = samba_sgd(0);
    samba_tensor *twos = kept(tensor("y.grad", SAMBA_FLOAT32, 2, SHAPE(rows[0], 4)));
    int64_t count;
    double starts;
    need(samba_fill_uniform(twos, 1, 2, 2));
    for (int k = 0; k < 2; k++) {
        samba_compile_options options = training_of("square", vectors, NULL, 1, batch[k], &o);
        need(samba_multigraph_add_size(graphs, &options, labels[k]));
    }
    samba_session *all = open_graphs();
    assert_string_equal(samba_session_name_in(all, 1, "y.grad"), "y@3.grad");
    need(samba_session_start(all, "y@3", &starts));
    assert_true(starts == 1);
    double *first[2];
    for (int round = 0; round < 2; round++) {
        samba_run_options r = giving(1, batch[0]);
        r.output_gradients = &twos;
        r.output_gradient_count = round == 1;
        need(samba_run(all, &r));
        first[round] = get_doubles(all, "w.weight", ".grad", &count);
        r = giving(1, batch[1]);
        need(samba_run(all, &r));
    }
    samba_run_options r = giving(1, batch[0]);
    need(samba_run(all, &r));
    double *again = get_doubles(all, "w.weight", ".grad", &count);
    for (int64_t i = 0; i < count; i++)
        assert_true(again[i] == first[1][i] && fabs(first[1][i] - 2 * first[0][i]) <= 1e-6 * fabs(first[1][i]));
    free(first[0]);
    free(first[1]);
    free(again);
}

/* An input that a graph writes is state: sizes have one each. */
TEST(written_inputs_are_apart)
{
    for (int k = 0; k < 2; k++) {
        samba_compile_options options = inference_of("count", counting, NULL, 1, batch[k]);
        need(samba_multigraph_add_size(graphs, &options, labels[k]));
    }
    samba_session *all = open_graphs();
    samba_run_options r = giving(1, batch[0]);
    need(samba_run(all, &r));
    r = giving(1, batch[1]);
    need(samba_run(all, &r));
    OWN_TENSOR *x = get(all, "x");
    for (int64_t i = 0; i < samba_tensor_numel(x); i++)
        assert_true(element_of(x, i) == (double)(float)(element_of(batch[0][0], i) + 1));
}

TEST(what_cannot_be_a_size)
{
    samba_optimizer o = samba_sgd(0.1);
    samba_compile_options options = training(0, &o, 1);
    refuse(samba_multigraph_add_size(graphs, &options, ""), SAMBA_ERROR_ARGUMENT, "words without '@'");
    refuse(samba_multigraph_add_size(graphs, &options, "8@8"), SAMBA_ERROR_ARGUMENT, "words without '@'");
    refuse(samba_multigraph_add_size(graphs, &options, NULL), SAMBA_ERROR_ARGUMENT, "size");
    options.name = "a@b";
    refuse(samba_multigraph_add_size(graphs, &options, "8"), SAMBA_ERROR_ARGUMENT, "words without '@'");
    options.name = NULL;
    refuse(samba_multigraph_add_size(graphs, &options, "8"), SAMBA_ERROR_ARGUMENT, "words without '@'");
    options = training(0, &o, 1);
    need(samba_multigraph_add_size(graphs, &options, "8"));
    refuse(samba_multigraph_add_size(graphs, &options, "8"), SAMBA_ERROR_NAME, "there is a graph \"train@8\" already");
    options = inference_of("answer", answering, NULL, 1, batch[1]); /* another function */
    need(samba_multigraph_add(graphs, &options, false));
    refuse(samba_multigraph_compile(graphs, "refused", folder, NULL, 0), SAMBA_ERROR_NAME,
           "\"x\" is an input float32(8, 12) in graph \"train@8\" and an input float32(3, 12) in graph \"answer\"");
    samba_multigraph_free(graphs);
    need(samba_multigraph_new(context, &graphs));
    for (int k = 0; k < 2; k++) {
        options = inference_of("remember", remembering, NULL, 1, batch[k]);
        need(samba_multigraph_add_size(graphs, &options, labels[k]));
    }
    refuse(samba_multigraph_compile(graphs, "refused", folder, NULL, 0), SAMBA_ERROR_NAME,
           "\"last\" is a buffer float32(8, 12) in graph \"remember@8\" and a buffer float32(3, 12) in graph \"remember@3\"");
}

/* ---- no memory ---- */
static samba_status run_two(samba_context *own, void *unused)
{
    (void)unused;
    samba_multigraph *m = NULL;
    samba_session *session = NULL;
    samba_status status = samba_multigraph_new(own, &m);
    for (int k = 0; k < 2; k++) {
        samba_tensor *x = NULL;
        THEN(status, samba_tensor_empty(own, "x", SAMBA_FLOAT32, 2, SHAPE(rows[k], IN), &x));
        if (status == SAMBA_OK) {
            const samba_compile_options options = inference_of("answer", answering, NULL, 1, &x);
            status = samba_multigraph_add_size(m, &options, labels[k]);
        }
        samba_tensor_free(x);
    }
    THEN(status, samba_multigraph_session(m, "sizes", SESSION(.threads = 1, .device = "null"), &session));
    samba_session_free(session);
    samba_multigraph_free(m);
    return status;
}

TEST(no_memory) { fail_some_allocations(run_two, NULL, 0, 1, 1); }

TEST_MAIN_WITH(setup, teardown, sizes_take_turns, windows_of_several_sizes, memory_is_that_of_the_largest, names_in_a_size,
               what_does_not_fit_is_refused, what_is_overwritten_is_gone, gradients_of_outputs, written_inputs_are_apart,
               what_cannot_be_a_size, no_memory)
