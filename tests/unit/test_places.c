/* SPDX-License-Identifier: Apache-2.0
 *
 * Where operators come from: module, line and fusion of what is traced, in the text form, in errors, on gradients, in the
 * comparison of two graphs and in the PEF; and that a fusion's operators stay in one section of each type. */
#include "training.h"
#include "messages.h"
#include "autodiff/autodiff.h"
#include "failing_allocator.h"

/* With an input x; what is traced first stands in this module and line, where they are not NULL. */
static samba_graph *graph_at(const char *module, const char *source, int line, samba_value *x)
{
    samba_graph *g;
    need(samba_graph_new(context, "places", &g));
    OWN_TENSOR *example = tensor("x", SAMBA_FLOAT32, SIZES(4, 3));
    need(samba_graph_add_input(g, example));
    *x = samba_input(g, "x");
    if (module)
        samba_set_module(g, module);
    if (source)
        samba_set_source(g, source, line);
    return g;
}

static void refused(samba_graph *g, samba_status status, const char *words)
{
    refuse(samba_graph_status(g), status, words);
    samba_graph_free(g);
}

static void expect_place(const samba_graph *g, const samba_node *node, const char *module, const char *source, const char *fusion)
{
    assert_string_equal(samba_graph_name_at(g, node->location.scope), module);
    assert_string_equal(samba_graph_name_at(g, node->location.source), source);
    assert_string_equal(samba_graph_name_at(g, node->location.fusion), fusion);
}

/* The value itself, of the operator that has this place. */
static samba_value placed(samba_value value, const char *module, const char *source, const char *fusion)
{
    expect_place(value.graph, samba_node_at(value.graph, value.index), module, source, fusion);
    return value;
}

TEST(operators_know_their_place)
{
    samba_value x;
    OWN_GRAPH *g = graph_at("encoder.layers.0", "/home/user/models/model.py", 42, &x);
    x = placed(samba_relu(x), "encoder.layers.0", "model.py:42", "");
    samba_set_source(g, "C:\\models\\net.py", 7);
    x = placed(samba_tanh(x), "encoder.layers.0", "net.py:7", "");
    /* a layer is a module; its parameters are not named by samba_set_module */
    x = placed(samba_linear(x, "fc", 5), "fc", "net.py:7", "");
    expect_place(g, samba_node_at(g, samba_node_at(g, x.index)->inputs[0]), "fc", "net.py:7", "");
    assert_true(samba_graph_leaf(g, "fc.weight") != SAMBA_NONE);
    x = placed(samba_sigmoid(x), "encoder.layers.0", "net.py:7", ""); /* after it: what was before */
    samba_set_module(g, "");
    SAMBA_HERE(g);
    char here[64];
    snprintf(here, sizeof here, "test_places.c:%d", __LINE__ - 2);
    x = placed(samba_exp(x), "", here, "");
    samba_scope_push(g, "block");
    samba_set_module(g, "elsewhere");
    samba_set_module(g, NULL);
    samba_set_source(g, NULL, 3);
    x = placed(samba_neg(x), "block", "", "");
    samba_scope_pop(g);
    placed(samba_abs(x), "", "", "");
    need(samba_graph_status(g));

    samba_set_module(NULL, "m"); /* a graph that could not be made */
    samba_set_source(NULL, "m", 1);
    samba_op_fusion_push(NULL, "m");
    samba_op_fusion_pop(NULL);
}

TEST(the_outermost_fusion_counts)
{
    samba_value x;
    samba_graph *g = graph_at(NULL, NULL, 0, &x);
    samba_op_fusion_push(g, "outer");
    samba_op_fusion_push(g, "inner");
    x = placed(samba_relu(x), "", "", "outer");
    samba_op_fusion_pop(g);
    x = placed(samba_tanh(x), "", "", "outer");
    samba_op_fusion_pop(g);
    placed(samba_exp(x), "", "", "");
    samba_op_fusion_pop(g);
    refused(g, SAMBA_ERROR_STATE, "samba_op_fusion_pop was called more often");
    g = graph_at(NULL, NULL, 0, &x);
    samba_op_fusion_push(g, "");
    refused(g, SAMBA_ERROR_NAME, "op_fusion: a name that is not empty is needed, given \"\"");
    g = graph_at(NULL, NULL, 0, &x);
    samba_op_fusion_push(g, NULL);
    samba_op_fusion_pop(g); /* the first error stays */
    refused(g, SAMBA_ERROR_NAME, "given NULL");
}

TEST(errors_say_it)
{
    samba_value x;
    samba_graph *g = graph_at("head", "model.py", 9, &x);
    samba_matmul(x, x);
    refused(g, SAMBA_ERROR_SHAPE, " (in module head, model.py:9)");
    assert_null(strstr(samba_error_message(context), "at head")); /* said once */
    g = graph_at(NULL, "model.py", 10, &x);
    samba_matmul(x, x);
    refused(g, SAMBA_ERROR_SHAPE, " (in model.py:10)");
    g = graph_at("head", NULL, 0, &x);
    samba_matmul(x, x);
    refused(g, SAMBA_ERROR_SHAPE, "matmul at head: ");

    g = graph_at("head", "model.py", 12, &x); /* a loss is wrong where it was computed */
    x = samba_cast(x, SAMBA_INT64);
    samba_set_source(g, "main.py", 99);
    samba_loss(g, "loss", x);
    refused(g, SAMBA_ERROR_DTYPE, "given int64; cast it first (in module head, model.py:12)");

    char umlauts[300], longest[2000] = ""; /* a long name ends between two letters: 127 bytes, and one of two */
    memset(umlauts, 'u', 127);
    memcpy(umlauts + 127, "\xc3\xbc.py", 6);
    g = graph_at(NULL, umlauts, 5, &x);
    umlauts[127] = 0;
    const char *kept = samba_graph_name_at(g, g->location.source);
    assert_true(strncmp(kept, umlauts, 127) == 0 && strcmp(kept + 127, ":5") == 0);
    samba_graph_free(g);

    memset(longest, 'm', sizeof longest - 1); /* seen however long the message and the names are */
    g = graph_at(longest, longest, 11, &x);
    samba_graph_fail_at(g, SAMBA_ERROR_NAME, longest, "%s", longest);
    refused(g, SAMBA_ERROR_NAME, "m:11)");
}

static const char lines[] = "graph \"lines\"\n"
                            "%0 = input name=\"x\" dtype=float32 shape=[4] : float32[4] \"\\x01\" at \"in put.py:1\"\n"
                            "%1 = relu %0 : float32[4] @FWD \"a.b\" at \"model.py:42\" fusion \"ffn\"\n"
                            "%2 = tanh %1 : float32[4] @FWD at \"model.py:43\"\n"
                            "%3 = exp %2 : float32[4] @FWD fp32 fusion \"\\\"\"\n"
                            "%4 = neg %3 : float32[4] @FWD \"at\" fusion \"fusion\"\n"
                            "output \"y\" %4 @FWD\n";

TEST(text_goes_round)
{
    OWN_GRAPH *g, *copy;
    char *text;
    need(samba_graph_parse(context, lines, &g));
    expect_place(g, &g->nodes[0], "\x01", "in put.py:1", "");
    expect_place(g, &g->nodes[1], "a.b", "model.py:42", "ffn");
    expect_place(g, &g->nodes[3], "", "", "\"");
    expect_place(g, &g->nodes[4], "at", "", "fusion");
    need(samba_graph_copy(g, &copy)); /* rewriting keeps places */
    assert_true(samba_graph_hash(copy) == samba_graph_hash(g));
    need(samba_graph_print(copy, &text));
    assert_string_equal(text, lines);
    samba_text_free(context, text);
}

TEST(gradients_have_the_place_of_their_operator)
{
    samba_value x;
    OWN_GRAPH *g = graph_at(NULL, "net.py", 1, &x), *all;
    x = samba_linear(x, "fc", 5);
    samba_set_module(g, "act");
    samba_set_source(g, "net.py", 2);
    samba_op_fusion_push(g, "f");
    x = samba_tanh(x);
    samba_op_fusion_pop(g);
    samba_set_module(g, "end");
    samba_set_source(g, "net.py", 3);
    samba_loss(g, "loss", samba_sum(x, 0, NULL, false));
    need(samba_autodiff(g, 1, NULL, &all));
    int seen = 0;
    for (int64_t i = 0; i < all->node_count; i++) {
        const samba_node *node = &all->nodes[i];
        if (node->phase != SAMBA_BCKWD)
            continue;
        seen |= 1 << (samba_graph_name_at(all, node->location.source)[strlen("net.py:")] - '0');
        if (node->op == SAMBA_OP_matmul || node->op == SAMBA_OP_permute)
            expect_place(all, node, "fc", "net.py:1", "");
        if (node->op == SAMBA_OP_sub)
            expect_place(all, node, "act", "net.py:2", "f");
    }
    assert_int_equal(seen, 1 << 1 | 1 << 2 | 1 << 3); /* every gradient has a line, every line gradients */
}

TEST(node_info_tells_all)
{
    OWN_GRAPH *g;
    samba_node_info info;
    need(samba_graph_parse(context, lines, &g));
    assert_int_equal(samba_graph_node_count(g), 5);
    need(samba_graph_node(g, 0, &info));
    assert_true(strcmp(info.op, "input") == 0 && strcmp(info.name, "x") == 0 && !*info.phase && info.input_count == 0);
    need(samba_graph_node(g, 1, &info));
    assert_true(strcmp(info.op, "relu") == 0 && strcmp(info.name, "") == 0 && strcmp(info.phase, "FWD") == 0);
    assert_true(info.dtype == SAMBA_FLOAT32 && info.rank == 1 && info.shape[0] == 4);
    assert_true(info.input_count == 1 && info.inputs[0] == 0 && strcmp(info.module, "a.b") == 0);
    assert_true(strcmp(info.source, "model.py:42") == 0 && strcmp(info.fusion, "ffn") == 0);
    says(samba_graph_node(g, 5, &info));
    says(samba_graph_node(g, -1, &info));
    says(samba_graph_node(g, 0, NULL));
    assert_int_equal(samba_graph_node(NULL, 0, &info), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(samba_graph_node_count(NULL), 0);
}

static samba_parameter_info parameter_of(const samba_graph *g, int index, const char *name, bool buffer, samba_dtype dtype,
                                         int rank)
{
    samba_parameter_info info;
    need(samba_graph_parameter(g, index, &info));
    assert_string_equal(info.name, name);
    assert_true(info.buffer == buffer && info.dtype == dtype && info.rank == rank);
    return info;
}

TEST(parameters_are_told)
{
    OWN_GRAPH *g;
    samba_parameter_info info;
    need(samba_graph_new(context, "model", &g));
    assert_int_equal(samba_graph_parameter_count(g), 0);
    says(samba_graph_parameter(g, 0, &info));
    const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0};
    samba_relu(samba_parameter(g, "fc.weight", SAMBA_BFLOAT16, SIZES(3, 5), zeros));
    samba_register_buffer(g, "steps", SAMBA_INT64, 0, NULL, zeros);
    samba_training(g);
    samba_parameter(g, "fc.weight", SAMBA_BFLOAT16, SIZES(3, 5), zeros); /* the same again */
    samba_parameter(g, "fc.bias", SAMBA_BFLOAT16, SIZES(3), zeros);
    assert_int_equal(samba_graph_parameter_count(g), 3);
    info = parameter_of(g, 0, "fc.weight", false, SAMBA_BFLOAT16, 2);
    assert_true(info.shape[0] == 3 && info.shape[1] == 5);
    parameter_of(g, 1, "steps", true, SAMBA_INT64, 0);
    parameter_of(g, 2, "fc.bias", false, SAMBA_BFLOAT16, 1);
    says(samba_graph_parameter(g, 3, &info));
    says(samba_graph_parameter(g, -1, &info));
    says(samba_graph_parameter(g, 0, NULL));
    assert_int_equal(samba_graph_parameter(NULL, 0, &info), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(samba_graph_parameter_count(NULL), 0);
}

/* ---- comparing ---- */

/* Two graphs of one text, each from its line "graph" on. */
static samba_status compare_under(samba_context *owner, const char *text)
{
    OWN_GRAPH *compiled = NULL, *model = NULL;
    const char *second = strstr(text + 1, "\ngraph ");
    char first[1024];
    assert_non_null(second);
    snprintf(first, sizeof first, "%.*s", (int)(second - text), text);
    samba_status status = samba_graph_parse(owner, first, &compiled);
    THEN(status, samba_graph_parse(owner, second, &model));
    THEN(status, samba_graph_compare(compiled, model));
    return status;
}

static samba_status compare(const char *text) { return compare_under(context, text); }

static samba_status compare_once(samba_context *owner, void *text)
{
    samba_status status = compare_under(owner, text);
    return status == SAMBA_ERROR_STATE ? SAMBA_OK : status;
}

TEST(the_first_difference_is_named)
{
    replay("compared", compare);
    char large[2000] = "";
    for (int more = 0; more < 2; more++) { /* a constant's data does not fill the message */
        int used = (int)strlen(large);
        used += sprintf(large + used, "graph \"g\"\n%%0 = literal dtype=int8 shape=[200] data=\"");
        memset(large + used, '0' + more, 400);
        sprintf(large + used + 400, "\" : int8[200]%s\n", more ? " at \"c.py:1\"" : "");
    }
    refuse(compare(large), SAMBA_ERROR_STATE, " ... (in c.py:1)");
    samba_value x;
    OWN_GRAPH *g = graph_at(NULL, NULL, 0, &x);
    refuse(samba_graph_compare(g, NULL), SAMBA_ERROR_ARGUMENT, "two graphs are needed");
    refuse(samba_graph_compare(NULL, g), SAMBA_ERROR_ARGUMENT, "two graphs are needed");
    assert_int_equal(samba_graph_compare(NULL, NULL), SAMBA_ERROR_ARGUMENT);
}

TEST(refused_allocations)
{
    for (int i = 0; i < message_count; i++) /* one that differs, one whose nodes are in another order */
        if (strstr(messages[i].given, "moved") || strstr(messages[i].given, "%3 = sub %2 %1"))
            fail_each_allocation(compare_once, messages[i].given);
    char two[1024];
    snprintf(two, sizeof two, "%sgraph \"g\"\n%%0 = input name=\"x\" dtype=float32 shape=[4] : float32[4]\n", lines);
    fail_each_allocation(compare_once, two);
}

/* ---- PEF ---- */
enum { ROWS = 200, CLASSES = 300, INNER = 6 };

/* Operators of its second half are a fusion, if that is wished. */
static void two_layers(samba_graph *g, const void *fused)
{
    samba_set_source(g, "two.c", 10);
    samba_value x = samba_tanh(samba_linear(samba_input(g, "x"), "first", INNER));
    if (*(const bool *)fused)
        samba_op_fusion_push(g, "head");
    samba_set_source(g, "two.c", 20);
    x = samba_gelu(x);
    samba_value logits = samba_linear(x, "second", CLASSES);
    samba_set_source(g, "two.c", 30);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
    if (*(const bool *)fused)
        samba_op_fusion_pop(g);
}

/* Its logits in chunks, if that is wished; a plan or, where that is NULL, a session in which it has run. */
static samba_session *compile_two(bool fused, bool cut, samba_plan *plan)
{
    samba_tensor *inputs[2] = {normal("x", SAMBA_FLOAT32, SIZES(ROWS, INNER), 3), tensor("label", SAMBA_INT64, SIZES(ROWS))};
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options options = training_of("two", two_layers, &fused, 2, inputs, &sgd);
    samba_session *session = NULL;
    char path[512];
    options.chunk_bytes = cut ? 64 * CLASSES * 4 : 0;
    need(samba_fill_integers(inputs[1], 4, 0, CLASSES));
    need(samba_compile(context, &options, path, sizeof path));
    if (plan) {
        need(samba_pef_read(context, path, plan));
    } else {
        samba_run_options run = giving(2, inputs);
        session = open_session(path, 2, 5);
        need(samba_run(session, &run));
    }
    free_tensors(inputs[0], inputs[1]);
    return session;
}

/* Operators of a section type with this place, in all stages; in how many sections, if asked for. */
static int count_operators(const samba_plan *plan, int phase, const char *module, const char *source, const char *fusion,
                           int *sections)
{
    int count = 0, seen = 0;
    for (int32_t i = 0; i < plan->section_count; i++) {
        int before = count;
        for (int32_t s = 0; plan->sections[i].phase == phase && s < plan->sections[i].stage_count; s++) {
            const samba_stage *stage = &plan->stages[plan->sections[i].first_stage + s];
            for (int32_t k = 0; k < stage->operator_count; k++) {
                const samba_plan_location *at = &plan->locations[stage->operators[k].location];
                count += (!module || strcmp(plan->words[at->module], module) == 0) &&
                         (!source || strcmp(plan->words[at->source], source) == 0) &&
                         (!fusion || strcmp(plan->words[at->fusion], fusion) == 0);
            }
        }
        seen += count > before;
    }
    if (sections)
        *sections = seen;
    return count;
}

TEST(stages_name_their_operators)
{
    static const struct {
        int phase;
        const char *module, *source;
    } places[] = {/* 5: stages that are joined over all parameters */
                  {1, "first", "two.c:10"}, {1, "second", "two.c:20"}, {1, "", "two.c:30"},
                  {2, "first", "two.c:10"}, {2, "second", "two.c:20"}, {5, "first.weight", ""},
                  {5, "first.bias", ""},    {5, "second.weight", ""},  {5, "second.bias", ""}};
    samba_plan plan;
    compile_two(false, false, &plan);
    for (int i = 0; i < LENGTH(places); i++) /* matmul, add */
        assert_true(count_operators(&plan, places[i].phase, places[i].module, places[i].source, NULL, NULL) >= 2);
    for (int32_t i = 0; i < plan.word_count; i++)
        for (int32_t k = 0; k < i; k++)
            assert_string_not_equal(plan.words[i], plan.words[k]);
    for (int32_t i = 0; i < plan.location_count; i++)
        for (int32_t k = 0; k < i; k++)
            assert_true(memcmp(&plan.locations[i], &plan.locations[k], sizeof *plan.locations) != 0);
    samba_text log;
    samba_text_init(&log, context);
    need(samba_plan_log(context, &plan, &log));
    assert_non_null(strstr(log.data, "  [two.c:10]\n"));
    assert_non_null(strstr(log.data, "two.c:20, two.c:30]\n"));
    samba_text_clear(&log);
    samba_plan_free(&plan);
}

TEST(a_fusion_stays_in_one_section)
{
    samba_plan plan;
    int sections, forward = 0;
    compile_two(false, true, &plan); /* what only the loss needs becomes a second section of FWD */
    for (int32_t i = 0; i < plan.section_count; i++)
        forward += plan.sections[i].phase == 1;
    assert_int_equal(forward, 2);
    assert_int_equal(count_operators(&plan, 1, NULL, NULL, "head", NULL), 0);
    samba_plan_free(&plan);
    compile_two(true, true, &plan); /* the hint reaches over both: they are one */
    for (int phase = 1; phase <= 2; phase++) {
        assert_true(count_operators(&plan, phase, NULL, NULL, "head", &sections) >= 8);
        assert_int_equal(sections, 1);
    }
    samba_plan_free(&plan);
}

TEST(a_fusion_changes_no_bit)
{
    OWN_SESSION *fused = compile_two(true, true, NULL), *apart = compile_two(false, true, NULL);
    assert_same_bits(fused, apart, COMPUTED);
}

TEST_MAIN(operators_know_their_place, the_outermost_fusion_counts, errors_say_it, text_goes_round,
          gradients_have_the_place_of_their_operator, node_info_tells_all, parameters_are_told, the_first_difference_is_named,
          refused_allocations, stages_name_their_operators, a_fusion_stays_in_one_section, a_fusion_changes_no_bit,
          every_message_said)
