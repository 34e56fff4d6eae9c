/* SPDX-License-Identifier: Apache-2.0
 *
 * Several graphs in one PEF: weights, buffers and hyperparameters that they share by name, one plan of memory, turns of their
 * runs, the order in which they were added, and what is refused (test_messages has more of that). */
#include "training.h"
#include "failing_allocator.h"

enum { IN = 12, CLASSES = 5, OUTPUTS = 1u << SAMBA_KIND_OUTPUT };

/* ---- models ---- */
static samba_value network(samba_value x) { return samba_linear(samba_tanh(samba_linear(x, "hidden", 32)), "out", CLASSES); }

MODEL(trained) { samba_loss(g, "loss", samba_cross_entropy(network(samba_input(g, "x")), samba_input(g, "label"))); }
MODEL(answering) { samba_output(g, "logits", network(samba_input(g, "question"))); }

/* The same with a first layer of another name: `options`. */
MODEL(renamed)
{
    samba_value hidden = samba_tanh(samba_linear(samba_input(g, "question"), options, 32));
    samba_output(g, "logits", samba_linear(hidden, "out", CLASSES));
}

/* cache[:] = x; a cache of 4 rows that another graph adds up */
static samba_value twos(samba_graph *g, const char *name, int64_t rows)
{
    return samba_register_buffer(g, name, SAMBA_FLOAT32, 2, SHAPE(rows, 3), (samba_initializer){SAMBA_INIT_CONSTANT, 2, 0});
}

static samba_value sum(samba_value x) { return samba_sum(x, 0, NULL, false); }

MODEL(filling)
{
    samba_value cache = twos(g, "cache", 4), x = samba_input(g, "row");
    samba_assign(cache, samba_add(cache, x));
    samba_output(g, "filled", sum(x));
}

MODEL(adding) { samba_output(g, "total", sum(twos(g, "cache", 4))); }

/* The question by a matrix made of two parameters: the first part alike in all graphs, the second by a factor of the graph. */
MODEL(joined)
{
    const samba_initializer random = {SAMBA_INIT_NORMAL, 0, 1};
    samba_value part = samba_parameter(g, "part", SAMBA_FLOAT32, 2, SHAPE(5, IN), random);
    samba_value other = samba_parameter(g, "other", SAMBA_FLOAT32, 2, SHAPE(3, IN), random);
    samba_value parts[] = {samba_exp(part), samba_mul_scalar(samba_sin(other), *(const double *)options)};
    samba_output(g, "logits", samba_matmul(samba_input(g, "question"), samba_transpose(samba_concat(2, parts, 0), 0, 1)));
}

/* ---- what each test has: graphs to add to, and data ---- */
static samba_multigraph *graphs;
static samba_tensor *batch[2], *question;

static int setup(void **unused)
{
    (void)unused;
    need(samba_multigraph_new(context, &graphs));
    batch[0] = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(8, IN), 1));
    batch[1] = kept(tensor("label", SAMBA_INT64, 1, SHAPE(8)));
    question = kept(normal("question", SAMBA_FLOAT32, 2, SHAPE(3, IN), 2));
    need(samba_fill_integers(batch[1], 1, 0, CLASSES));
    return 0;
}

static int teardown(void **unused)
{
    samba_multigraph_free(graphs);
    return drop_kept(unused);
}

static samba_compile_options training(const char *name, const samba_optimizer *o)
{
    return training_of(name, trained, NULL, 2, batch, o);
}

static samba_compile_options inference(const char *name) { return inference_of(name, answering, NULL, 1, &question); }

static samba_status add(samba_compile_options options) { return samba_multigraph_add(graphs, &options, false); }
static samba_status add_again(samba_compile_options options) { return samba_multigraph_add(graphs, &options, true); }

static samba_status add_model(const char *name, samba_model model, const void *settings, samba_tensor *input)
{
    return add(inference_of(name, model, settings, input ? 1 : 0, &input));
}

static samba_session *open_graphs(int threads)
{
    char path[512];
    need(samba_multigraph_compile(graphs, "several", folder, path, sizeof path));
    return kept_session(open_session(path, threads, 7));
}

static samba_status run(samba_session *session, const char *graph, int inputs, samba_tensor *const *given)
{
    samba_run_options r = giving(inputs, given);
    r.graph_name = graph;
    return samba_run(session, &r);
}

static samba_status run_type(samba_session *session, const char *graph, const char *type)
{
    samba_run_options r = samba_run_defaults();
    r.graph_name = graph;
    return run_sections(session, &r, type);
}

/* ---- tests ---- */
/* Trained in one graph, answered by the other: the weights of one PEF, and the answers of another that is given them. */
TEST(weights_are_shared)
{
    samba_optimizer o = samba_adamw(0.05);
    need(add(training("train", &o)));
    need(add(inference("answer")));
    samba_compile_options train_options = training("alone_train", &o), answer_options = inference("alone_answer");
    for (int threads = 1; threads <= 2; threads++) {
        samba_session *both = open_graphs(threads), *train = open_kept(&train_options, threads, 7),
                      *answer = open_kept(&answer_options, threads, 7);
        for (int step = 0; step < 4; step++) {
            need(run(both, "train", 2, batch));
            need(run(both, "answer", 1, &question));
            need(run(train, NULL, 2, batch));
            static const char *const weights[] = {"hidden.weight", "hidden.bias", "out.weight", "out.bias"};
            assert_near(train, both, 1u << SAMBA_KIND_PARAMETER, 0);
            for (int i = 0; i < 4; i++)
                need(samba_session_set(answer, kept(get(train, weights[i]))));
            need(run(answer, NULL, 1, &question));
            assert_near(answer, both, OUTPUTS, 1e-5); /* packed weights, for nobody writes them there: other blocks, other sums */
        }
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
TEST(constants_are_shared)
{
    samba_optimizer o = samba_sgd(0.1);
    samba_compile_options options = inference("answer");
    options.precision = SAMBA_BF16;
    samba_session *alone = open_kept(&options, 1, 7);
    need(add(options));
    options.name = "again";
    need(add(options));
    samba_session *both = open_graphs(1);
    assert_int_equal(casts_of(alone), 3);
    assert_int_equal(casts_of(both), 3 + 1); /* two weights, and the question in each graph */
    for (int round = 0; round < 2; round++) {
        static const char *const names[] = {"again", "answer"};
        need(run(alone, NULL, 1, &question));
        for (int i = 0; i < 2; i++) {
            need(run(both, names[i ^ round], 1, &question));
            assert_near(alone, both, OUTPUTS, 0);
        }
        samba_tensor *weight = kept(normal("hidden.weight", SAMBA_FLOAT32, 2, SHAPE(32, IN), 5));
        need(samba_session_set(alone, weight));
        need(samba_session_set(both, weight));
    }
    options = training("train", &o);
    options.precision = SAMBA_BF16;
    need(add(options));
    /* training writes the weights: no graph's copies are constant */
    assert_int_equal(casts_of(open_graphs(1)), 2 * casts_of(alone) + casts_of(open_kept(&options, 1, 7)));
}

/* Results that are joined in one buffer are several stages' work: of graphs that join other things, each has its own. */
TEST(joined_constants)
{
    static const char *const names[] = {"twice", "thrice"};
    samba_session *alone[2];
    for (int i = 0; i < 2; i++) {
        samba_compile_options options = inference_of(names[i], joined, &(double){2 + i}, 1, &question);
        alone[i] = open_kept(&options, 1, 7);
        need(add(options));
    }
    samba_session *both = open_graphs(1);
    for (int round = 0; round < 4; round++) {
        need(run(alone[round % 2], NULL, 1, &question));
        need(run(both, names[round % 2], 1, &question));
        assert_near(alone[round % 2], both, OUTPUTS, 0);
    }
}

/* What two graphs look up is in the file once, for their memory and beside both texts; what one has alone is its own. */
MODEL(looking_up)
{
    samba_tensor *both = normal("both", SAMBA_FLOAT32, 2, SHAPE(100, 100), 3), *own = tensor("own", SAMBA_FLOAT32, 1, SHAPE(100));
    need(samba_fill_uniform(own, 1, *(const double *)options, *(const double *)options));
    samba_output(g, "y",
                 samba_add(samba_constant_tensor(g, own), samba_add(samba_input(g, "x"), samba_constant_tensor(g, both))));
    samba_tensor_free(both);
    samba_tensor_free(own);
}

TEST(literals_are_shared)
{
    static const double factors[] = {2, 3, 3};
    static const char *const names[] = {"two", "three", "again"};
    samba_tensor *x = kept(tensor("x", SAMBA_FLOAT32, 2, SHAPE(100, 100)));
    for (int i = 0; i < 3; i++)
        need(add_model(names[i], looking_up, &factors[i], x));
    samba_session *session = open_graphs(1);
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
}

TEST(buffers_are_shared)
{
    samba_tensor *row = kept(tensor("row", SAMBA_FLOAT32, 1, SHAPE(3)));
    memcpy(samba_tensor_data(row), (const float[]){1, 2, 3}, 12);
    need(add_model("fill", filling, NULL, row));
    need(add_model("add", adding, NULL, NULL));
    samba_session *session = open_graphs(1);
    for (int i = 0; i <= 3; i++) {
        if (i > 0)
            need(run(session, "fill", 1, &row));
        need(run(session, "add", 0, NULL));
        assert_true(get_scalar(session, "total") == 24 + 24 * i); /* 12 twos; 4 rows of 1 + 2 + 3 more each time */
    }
}

/* An input that one graph changes, and another one reads: its region. */
MODEL(counting)
{
    samba_value region = samba_input(g, "region");
    samba_assign(region, samba_add(region, samba_constant(g, 1, SAMBA_FLOAT32, 0, NULL)));
    samba_output(g, "before", sum(region));
}

MODEL(reading) { samba_output(g, "seen", sum(samba_input(g, "region"))); }

TEST(inputs_are_regions)
{
    samba_tensor *region = kept(tensor("region", SAMBA_FLOAT32, 1, SHAPE(4)));
    need(samba_fill_uniform(region, 1, 10, 10));
    need(add_model("count", counting, NULL, region));
    need(add_model("read", reading, NULL, region));
    samba_session *session = open_graphs(1);
    need(run(session, "count", 1, &region));
    need(run(session, "count", 0, NULL));
    need(run(session, "read", 0, NULL));
    assert_true(get_scalar(session, "seen") == 48);
    need(run(session, "read", 1, &region)); /* given anew */
    assert_true(get_scalar(session, "seen") == 40);

    samba_graph *g;
    samba_function *f;
    need(samba_graph_new(context, "g", &g));
    need(samba_graph_add_input(g, region));
    counting(g, NULL);
    refuse(samba_function_new(context, g, NULL, &f), SAMBA_ERROR_UNSUPPORTED,
           "assigns to its input \"region\", which is the caller's: make it an output");
    samba_graph_free(g);
}

/* cache[position] = row, and its sum: one row is written, whatever the cache's size, and nothing else moves. */
MODEL(writing)
{
    samba_value cache = twos(g, "cache", *(const int64_t *)options);
    samba_value filled = samba_index_copy(cache, 0, samba_input(g, "position"), samba_unsqueeze(samba_input(g, "row"), 0));
    samba_assign(cache, filled);
    samba_output(g, "last", samba_select(filled, 0, -1)); /* what others read is what was written */
}

TEST(caches_are_written_in_place)
{
    const int64_t rows = 1000;
    samba_tensor *inputs[2] = {kept(tensor("position", SAMBA_INT64, 1, SHAPE(1))),
                               kept(tensor("row", SAMBA_FLOAT32, 1, SHAPE(3)))};
    int64_t *position = samba_tensor_data(inputs[0]), count;
    float *row = samba_tensor_data(inputs[1]);
    need(add(inference_of("write", writing, &rows, 2, inputs)));
    samba_session *session = open_graphs(1);
    samba_memory_info memory;
    samba_section_info section;
    need(samba_session_memory(session, &memory));
    need(samba_session_section_info(session, 0, &section));
    assert_true(memory.activations == 0 && section.bytes < 200 && section.stage_count == 2);
    for (int i = 0; i < 3; i++) {
        *position = i == 2 ? rows - 1 : 5 * i;
        for (int k = 0; k < 3; k++)
            row[k] = (float)(10 * i + k);
        need(run(session, "write", 2, inputs));
        double *last = get_doubles(session, "last", "", &count);
        for (int k = 0; k < 3; k++)
            assert_true(last[k] == (i == 2 ? (double)row[k] : 2));
        free(last);
    }
    double *cache = get_doubles(session, "cache", "", &count);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i / 3;
        assert_true(cache[i] == (at == 0 ? 0 : at == 5 ? 10 : at == rows - 1 ? 20 : 2 - (double)(i % 3)) + (double)(i % 3));
    }
    free(cache);
    *position = rows;
    refuse(run(session, "write", 2, inputs), SAMBA_ERROR_ARGUMENT, "position[0] = 1000 is outside [0, 1000) (scatter)");
}

TEST(graphs_have_an_order)
{
    static const char *const names[] = {"b", "c", "a"};
    for (int i = 0; i < 3; i++)
        need(add(inference(names[(i + 2) % 3])));
    assert_int_equal(samba_multigraph_count(graphs), 3);
    assert_string_equal(samba_multigraph_name(graphs, 0), "a");
    need(add_again(inference("a"))); /* is the last now */
    samba_session *session = open_graphs(1);
    assert_int_equal(samba_session_graph_count(session), 3);
    for (int i = 0; i < 3; i++) {
        samba_graph_info info;
        samba_section_info section;
        need(samba_session_graph_info(session, i, &info));
        assert_string_equal(info.name, names[i]);
        assert_string_equal(samba_multigraph_name(graphs, i), names[i]);
        assert_true(info.inference && info.call_count == 1 && info.section_count == 1 && info.first_section == i &&
                    strstr(info.text, "tanh"));
        need(samba_session_section_info(session, i, &section));
        assert_int_equal(section.graph, i);
        assert_true(samba_session_graph_has(session, i, "question") && !samba_session_graph_has(session, i, "x"));
    }
    assert_null(samba_multigraph_name(graphs, 3));
    need(run(open_graphs(1), "c", 1, &question)); /* graphs stay as they were */
}

TEST(runs_take_turns)
{
    samba_optimizer o = samba_sgd(0.1);
    need(add(training("train", &o)));
    need(add(inference("answer")));
    samba_session *session = open_graphs(1);
    samba_run_options r = samba_run_defaults();
    r.graph_name = "train";
    r.run_from_call_id = 3;
    refuse(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "run_from_call_id 3: this graph's calls are 0 to 2");
    need(run(session, "train", 2, batch));
    need(run_type(session, "train", "FWD"));
    need(run(session, "answer", 1, &question));
    refuse(run_type(session, "train", "BCKWD"), SAMBA_ERROR_STATE,
           "which a run of another graph has replaced: run FWD of this graph again");
    need(run_type(session, "train", "FWD"));
    need(run_type(session, "train", "BCKWD"));
    need(run_type(session, "answer", "FWD"));
    need(run_type(session, "train", "OPT")); /* gradients are the device's, not a run's */

    samba_memory_info both, train; /* memory is planned once */
    samba_compile_options options = training("alone", &o);
    need(samba_session_memory(session, &both));
    need(samba_session_memory(open_kept(&options, 1, 7), &train));
    assert_int_equal(both.parameters, train.parameters);
    assert_int_equal(both.gradients, train.gradients);
    assert_int_equal(both.activations, train.activations); /* 8 rows need more than 3 */
}

/* ---- what cannot be one ---- */
MODEL(otherwise_begun)
{
    samba_parameter(g, "hidden.bias", SAMBA_FLOAT32, 1, SHAPE(32), (samba_initializer){SAMBA_INIT_CONSTANT, 3, 0});
    samba_output(g, "begun", samba_linear(samba_input(g, "question"), "hidden", 32));
}

MODEL(named_logits) { samba_output(g, "again", samba_relu(samba_input(g, "logits"))); }

static void refuse_graphs(samba_status status, const char *words)
{
    refuse(samba_multigraph_compile(graphs, "refused", folder, NULL, 0), status, words);
    samba_multigraph_free(graphs);
    need(samba_multigraph_new(context, &graphs));
}

TEST(names_mean_one_thing)
{
    need(add(inference("answer")));
    need(add_model("other", otherwise_begun, NULL, question));
    refuse_graphs(SAMBA_ERROR_ARGUMENT,
                  "\"hidden.bias\" is shared by graphs \"answer\" and \"other\" and starts with other values in each");
    need(add(inference("answer")));
    need(add_model("other", named_logits, NULL, kept(normal("logits", SAMBA_FLOAT32, 2, SHAPE(3, CLASSES), 3))));
    refuse_graphs(SAMBA_ERROR_NAME,
                  "\"logits\" is an output float32(3, 5) in graph \"answer\" and an input float32(3, 5) in graph \"other\"");
    samba_optimizer slow = samba_sgd(0.1), fast = samba_sgd(0.2);
    samba_compile_options options = training("more", &fast);
    need(add(training("train", &slow)));
    need(add(options));
    assert_non_null(strstr(samba_multigraph_warning(graphs),
                           "graphs \"train\" and \"more\" both train \"hidden.weight\", by optimizers \"train.optim0\" and "
                           "\"more.optim0\" that do not share their hyperparameters and count of steps, since their kinds, flags "
                           "or numbers differ"));
    assert_string_equal(samba_multigraph_warning(graphs), ""); /* said once */
    samba_session *session = open_graphs(1);                   /* two optimizers: train.optim0 and more.optim0 */
    assert_true(get_hyper(session, "train.optim0.lr") == 0.1 && get_hyper(session, "more.optim0.lr") == 0.2);
    slow.name = fast.name = "sgd";
    need(add_again(training("train", &slow)));
    need(add_again(options));
    refuse_graphs(SAMBA_ERROR_NAME, "hyperparameter \"sgd.lr\" is 0.2 in graph \"more\" and 0.1 in one before it");
    options.name = "";
    refuse(add(options), SAMBA_ERROR_ARGUMENT, "a graph needs a name");
    options = inference("small");
    options.memory_budget = 1 << 20;
    refuse(add(options), SAMBA_ERROR_ARGUMENT, "graph \"small\" is for inference, which has nothing to compute again");
}

/* Graphs over the same weights take the steps of one optimizer, as by a graph alone. */
TEST(optimizers_are_shared)
{
    samba_optimizer o = samba_adamw(0.05), named = o;
    named.name = "mine";
    samba_compile_options options = training("alone", &o);
    need(add(training("train", &o)));
    need(add(training("more", &o)));
    assert_string_equal(samba_multigraph_warning(graphs), "");
    samba_session *both = open_graphs(1), *alone = open_kept(&options, 1, 7);
    for (int step = 0; step < 4; step++) {
        need(run(both, step % 2 ? "more" : "train", 2, batch));
        need(run(alone, NULL, 2, batch));
        assert_near(alone, both, 1u << SAMBA_KIND_PARAMETER, 0);
    }
    assert_true(get_scalar(both, "train.optim0.step") == 4 && get_hyper(both, "train.optim0.lr") == 0.05);
    for (int i = 0; i < samba_session_hyperparameter_count(both); i++) {
        samba_hyperparameter info;
        need(samba_session_hyperparameter(both, i, &info));
        assert_int_equal(strncmp(info.name, "train.optim0.", 13), 0);
    }
    need(add(training("other", &named))); /* told otherwise */
    assert_non_null(strstr(samba_multigraph_warning(graphs), "\"mine\" that do not share their hyperparameters and count of "
                                                             "steps, since they have names of their own"));
    need(add_again(training("train", &o))); /* which shares with "more" as before */
    assert_string_equal(samba_multigraph_warning(graphs), "");
    assert_true(get_hyper(open_graphs(1), "mine.lr") == 0.05 && get_hyper(open_graphs(1), "train.optim0.lr") == 0.05);
}

/* A layer's name with a slip is told of once, by the trained one that it is almost; a name of its own is not. */
TEST(a_slip_in_a_name_is_told)
{
    samba_optimizer o = samba_sgd(0.1);
    need(add(training("train", &o)));
    need(add_model("answer", renamed, "hiden", question));
    open_graphs(1);
    assert_string_equal(samba_context_warning(context),
                        "no graph trains parameter \"hiden.weight\" of graph \"answer\", which keeps the values that it begins "
                        "with: is it meant to be \"hidden.weight\", which is trained? Graphs share what has one name");
    assert_string_equal(samba_context_warning(context), "");
    samba_session *session = open_graphs(1);
    assert_non_null(strstr(samba_session_warning(session), "is it meant to be \"hidden.weight\"")); /* sessions tell it too */
    assert_string_equal(samba_session_warning(session), "");
    static const char *const meant[] = {"hidden", "ema.hidden", "another"};
    for (int i = 0; i < 3; i++) {
        samba_compile_options options = inference_of("answer", renamed, meant[i], 1, &question);
        need(add_again(options));
        open_graphs(1);
        assert_string_equal(samba_context_warning(context), "");
    }
}

/* ---- no memory ---- */
static samba_status compile_two(samba_context *own, void *unused)
{
    (void)unused;
    samba_multigraph *m = NULL;
    samba_tensor *input = NULL;
    samba_status status = samba_tensor_empty(own, "question", SAMBA_FLOAT32, 2, SHAPE(3, IN), &input);
    status = status ? status : samba_multigraph_new(own, &m);
    samba_compile_options o = inference_of("a", answering, NULL, 1, &input);
    status = status ? status : samba_multigraph_add(m, &o, false);
    o.name = "b";
    status = status ? status : samba_multigraph_add(m, &o, false);
    status = status ? status : samba_multigraph_add(m, &o, true);
    status = status ? status : samba_multigraph_compile(m, "no_memory", folder, NULL, 0);
    samba_multigraph_free(m);
    samba_tensor_free(input);
    return status;
}

TEST(no_memory) { fail_each_allocation(compile_two, NULL); }

TEST_MAIN_WITH(setup, teardown, weights_are_shared, buffers_are_shared, caches_are_written_in_place, inputs_are_regions,
               graphs_have_an_order, runs_take_turns, constants_are_shared, joined_constants, literals_are_shared,
               names_mean_one_thing, optimizers_are_shared, a_slip_in_a_name_is_told, no_memory)
