/* SPDX-License-Identifier: Apache-2.0
 *
 * Where operators come from: module, line and fusion of what is traced, in the text form, in errors, on gradients, in the
 * comparison of two graphs and in the PEF; and that a fusion's operators stay in one section of each type. */
#include "training.h"
#include "autodiff/autodiff.h"
#include "failing_allocator.h"
#include "plan/plan.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

static samba_graph *new_graph(void)
{
    samba_graph *g;
    need(samba_graph_new(context, "places", &g));
    samba_tensor *x = tensor("x", SAMBA_FLOAT32, 2, SHAPE(4, 3));
    need(samba_graph_add_input(g, x));
    samba_tensor_free(x);
    return g;
}

static void expect_error(samba_graph *g, samba_status status, const char *message)
{
    assert_int_equal(samba_graph_status(g), status);
    if (!strstr(samba_error_message(context), message))
        fail_msg("\"%s\" lacks \"%s\"", samba_error_message(context), message);
    samba_graph_free(g);
}

static const samba_node *node_of(const samba_graph *g, samba_op op, samba_phase phase)
{
    for (int64_t i = 0; i < g->node_count; i++)
        if (g->nodes[i].op == op && (g->nodes[i].phase == phase || samba_op_table[op].leaf))
            return &g->nodes[i];
    fail_msg("no %s", samba_op_table[op].name);
    return NULL;
}

static void expect_place(const samba_graph *g, const samba_node *node, const char *module, const char *source, const char *fusion)
{
    assert_string_equal(samba_graph_name_at(g, node->location.scope), module);
    assert_string_equal(samba_graph_name_at(g, node->location.source), source);
    assert_string_equal(samba_graph_name_at(g, node->location.fusion), fusion);
}

TEST(operators_know_their_place)
{
    samba_graph *g = new_graph();
    samba_value x = samba_input(g, "x");
    samba_set_module(g, "encoder.layers.0");
    samba_set_source(g, "/home/user/models/model.py", 42);
    x = samba_relu(x);
    expect_place(g, node_of(g, SAMBA_OP_relu, SAMBA_FWD), "encoder.layers.0", "model.py:42", "");
    samba_set_source(g, "C:\\models\\net.py", 7);
    x = samba_tanh(x);
    expect_place(g, node_of(g, SAMBA_OP_tanh, SAMBA_FWD), "encoder.layers.0", "net.py:7", "");
    x = samba_linear(x, "fc", 5); /* a layer is a module; its parameters are not named by samba_set_module */
    expect_place(g, node_of(g, SAMBA_OP_matmul, SAMBA_FWD), "fc", "net.py:7", "");
    assert_true(samba_graph_leaf(g, "fc.weight") != SAMBA_NONE);
    expect_place(g, node_of(g, SAMBA_OP_add, SAMBA_FWD), "fc", "net.py:7", "");
    x = samba_sigmoid(x); /* after it: what was before */
    expect_place(g, node_of(g, SAMBA_OP_sigmoid, SAMBA_FWD), "encoder.layers.0", "net.py:7", "");
    samba_set_module(g, "");
    SAMBA_HERE(g);
    x = samba_exp(x);
    char here[64];
    snprintf(here, sizeof here, "test_places.c:%d", __LINE__ - 3);
    expect_place(g, node_of(g, SAMBA_OP_exp, SAMBA_FWD), "", here, "");
    samba_scope_push(g, "block");
    samba_set_module(g, "elsewhere");
    samba_set_module(g, NULL);
    samba_set_source(g, NULL, 3);
    x = samba_neg(x);
    expect_place(g, node_of(g, SAMBA_OP_neg, SAMBA_FWD), "block", "", "");
    samba_scope_pop(g);
    samba_abs(x);
    expect_place(g, node_of(g, SAMBA_OP_abs, SAMBA_FWD), "", "", "");
    need(samba_graph_status(g));
    samba_graph_free(g);

    samba_set_module(NULL, "m"); /* a graph that could not be made */
    samba_set_source(NULL, "m", 1);
    samba_op_fusion_push(NULL, "m");
    samba_op_fusion_pop(NULL);
}

TEST(the_outermost_fusion_counts)
{
    samba_graph *g = new_graph();
    samba_value x = samba_input(g, "x");
    samba_op_fusion_push(g, "outer");
    samba_op_fusion_push(g, "inner");
    x = samba_relu(x);
    samba_op_fusion_pop(g);
    x = samba_tanh(x);
    samba_op_fusion_pop(g);
    samba_exp(x);
    expect_place(g, node_of(g, SAMBA_OP_relu, SAMBA_FWD), "", "", "outer");
    expect_place(g, node_of(g, SAMBA_OP_tanh, SAMBA_FWD), "", "", "outer");
    expect_place(g, node_of(g, SAMBA_OP_exp, SAMBA_FWD), "", "", "");
    samba_op_fusion_pop(g);
    expect_error(g, SAMBA_ERROR_STATE, "samba_op_fusion_pop was called more often");
    g = new_graph();
    samba_op_fusion_push(g, "");
    expect_error(g, SAMBA_ERROR_NAME, "op_fusion: a name that is not empty is needed, given \"\"");
    g = new_graph();
    samba_op_fusion_push(g, NULL);
    samba_op_fusion_pop(g); /* the first error stays */
    expect_error(g, SAMBA_ERROR_NAME, "given NULL");
}

TEST(errors_say_it)
{
    samba_graph *g = new_graph();
    samba_value x = samba_input(g, "x");
    samba_set_module(g, "head");
    samba_set_source(g, "model.py", 9);
    samba_matmul(x, x);
    expect_error(g, SAMBA_ERROR_SHAPE, " (in module head, model.py:9)");
    assert_null(strstr(samba_error_message(context), "at head")); /* said once */

    g = new_graph();
    x = samba_input(g, "x");
    samba_set_source(g, "model.py", 10);
    samba_matmul(x, x);
    expect_error(g, SAMBA_ERROR_SHAPE, " (in model.py:10)");

    g = new_graph();
    x = samba_input(g, "x");
    samba_set_module(g, "head");
    samba_matmul(x, x);
    expect_error(g, SAMBA_ERROR_SHAPE, "matmul at head: ");

    g = new_graph(); /* a loss is wrong where it was computed */
    x = samba_input(g, "x");
    samba_set_module(g, "head");
    samba_set_source(g, "model.py", 12);
    x = samba_cast(x, SAMBA_INT64);
    samba_set_source(g, "main.py", 99);
    samba_loss(g, "loss", x);
    expect_error(g, SAMBA_ERROR_DTYPE, "given int64; cast it first (in module head, model.py:12)");

    g = new_graph(); /* a long name ends between two letters: 127 bytes, and one of two */
    char umlauts[300];
    memset(umlauts, 'u', 127);
    memcpy(umlauts + 127, "\xc3\xbc.py", 6);
    samba_set_source(g, umlauts, 5);
    umlauts[127] = 0;
    const char *kept = samba_graph_name_at(g, g->location.source);
    assert_true(strncmp(kept, umlauts, 127) == 0 && strcmp(kept + 127, ":5") == 0);
    samba_graph_free(g);

    /* seen however long the message and the names are */
    char longest[2000];
    memset(longest, 'm', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    g = new_graph();
    samba_set_module(g, longest);
    samba_set_source(g, longest, 11);
    samba_graph_fail_at(g, SAMBA_ERROR_NAME, longest, "%s", longest);
    expect_error(g, SAMBA_ERROR_NAME, "m:11)");
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
    samba_graph *g, *copy;
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
    samba_graph_free(copy);
    samba_graph_free(g);
    const struct {
        const char *place, *message;
    } wrong[] = {{"at model.py:1", "line 2: expected a source such as \"model.py:42\", found 'model.py:1'"},
                 {"fusion", "line 2: expected the name of a fusion, found the end of the line"},
                 {"fusion \"f\" at \"m\"", "line 2: expected the end of the line, found 'at'"},
                 {"at \"m\" \"scope\"", "line 2: expected the end of the line, found '\"scope\"'"}};
    for (int i = 0; i < SAMBA_COUNT(wrong); i++) {
        char one[256];
        snprintf(one, sizeof one, "graph \"g\"\n%%0 = input name=\"x\" dtype=bool shape=[] : bool[] %s\n", wrong[i].place);
        refuse(samba_graph_parse(context, one, &g), SAMBA_ERROR_FORMAT, wrong[i].message);
    }
}

TEST(gradients_have_the_place_of_their_operator)
{
    samba_graph *g = new_graph(), *all;
    samba_set_source(g, "net.py", 1);
    samba_value x = samba_linear(samba_input(g, "x"), "fc", 5);
    samba_set_module(g, "act");
    samba_set_source(g, "net.py", 2);
    samba_op_fusion_push(g, "f");
    x = samba_tanh(x);
    samba_op_fusion_pop(g);
    samba_set_module(g, "end");
    samba_set_source(g, "net.py", 3);
    samba_loss(g, "loss", samba_sum(x, 0, NULL, false));
    need(samba_autodiff(g, 1, &all));
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
    samba_graph_free(all);
    samba_graph_free(g);
}

TEST(node_info_tells_all)
{
    samba_graph *g;
    samba_node_info info;
    need(samba_graph_parse(context, lines, &g));
    assert_int_equal(samba_graph_node_count(g), 5);
    need(samba_graph_node(g, 0, &info));
    assert_string_equal(info.op, "input");
    assert_string_equal(info.name, "x");
    assert_string_equal(info.phase, "");
    assert_int_equal(info.input_count, 0);
    need(samba_graph_node(g, 1, &info));
    assert_string_equal(info.op, "relu");
    assert_string_equal(info.name, "");
    assert_string_equal(info.phase, "FWD");
    assert_true(info.dtype == SAMBA_FLOAT32 && info.rank == 1 && info.shape[0] == 4 && info.input_count == 1 &&
                info.inputs[0] == 0);
    assert_string_equal(info.module, "a.b");
    assert_string_equal(info.source, "model.py:42");
    assert_string_equal(info.fusion, "ffn");
    refuse(samba_graph_node(g, 5, &info), SAMBA_ERROR_ARGUMENT, "has nodes 0 to 4: asked for 5");
    refuse(samba_graph_node(g, -1, &info), SAMBA_ERROR_ARGUMENT, "asked for -1");
    refuse(samba_graph_node(g, 0, NULL), SAMBA_ERROR_ARGUMENT, "no place for it");
    assert_int_equal(samba_graph_node(NULL, 0, &info), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(samba_graph_node_count(NULL), 0);
    samba_graph_free(g);
}

TEST(parameters_are_told)
{
    samba_graph *g;
    samba_parameter_info info;
    need(samba_graph_new(context, "model", &g));
    assert_int_equal(samba_graph_parameter_count(g), 0);
    refuse(samba_graph_parameter(g, 0, &info), SAMBA_ERROR_ARGUMENT,
           "has 0 parameters and buffers, numbered from 0: asked for 0");
    const samba_initializer zeros = {SAMBA_INIT_ZEROS, 0, 0};
    samba_value weight = samba_parameter(g, "fc.weight", SAMBA_BFLOAT16, 2, (int64_t[]){3, 5}, zeros);
    samba_relu(weight);
    samba_register_buffer(g, "steps", SAMBA_INT64, 0, NULL, zeros);
    samba_training(g);
    samba_parameter(g, "fc.weight", SAMBA_BFLOAT16, 2, (int64_t[]){3, 5}, zeros); /* the same again */
    samba_parameter(g, "fc.bias", SAMBA_BFLOAT16, 1, (int64_t[]){3}, zeros);
    assert_int_equal(samba_graph_parameter_count(g), 3);
    need(samba_graph_parameter(g, 0, &info));
    assert_string_equal(info.name, "fc.weight");
    assert_true(!info.buffer && info.dtype == SAMBA_BFLOAT16 && info.rank == 2 && info.shape[0] == 3 && info.shape[1] == 5);
    need(samba_graph_parameter(g, 1, &info));
    assert_string_equal(info.name, "steps");
    assert_true(info.buffer && info.dtype == SAMBA_INT64 && info.rank == 0);
    need(samba_graph_parameter(g, 2, &info));
    assert_string_equal(info.name, "fc.bias");
    refuse(samba_graph_parameter(g, 3, &info), SAMBA_ERROR_ARGUMENT,
           "has 3 parameters and buffers, numbered from 0: asked for 3");
    refuse(samba_graph_parameter(g, -1, &info), SAMBA_ERROR_ARGUMENT, "asked for -1");
    refuse(samba_graph_parameter(g, 0, NULL), SAMBA_ERROR_ARGUMENT, "no place for it");
    assert_int_equal(samba_graph_parameter(NULL, 0, &info), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(samba_graph_parameter_count(NULL), 0);
    samba_graph_free(g);
}

/* ---- comparing ---- */
static void compare(const char *a, const char *b, const char *message)
{
    samba_graph *compiled, *model;
    need(samba_graph_parse(context, a, &compiled));
    need(samba_graph_parse(context, b, &model));
    if (message)
        refuse(samba_graph_compare(compiled, model), SAMBA_ERROR_STATE, message);
    else
        need(samba_graph_compare(compiled, model));
    samba_graph_free(compiled);
    samba_graph_free(model);
}

#define X(place) "graph \"g\"\n%0 = input name=\"x\" dtype=float32 shape=[4] : float32[4]" place "\n"
#define Y "output \"y\" %1 @FWD\n"
static const char branches[] =
    X() "%1 = exp %0 : float32[4] @FWD\n%2 = sin %0 : float32[4] @FWD\n%3 = sub %1 %2 : float32[4] @FWD\noutput \"y\" %3 @FWD\n";
static const char turned[] =
    X() "%1 = sin %0 : float32[4] @FWD\n%2 = exp %0 : float32[4] @FWD\n%3 = sub %2 %1 : float32[4] @FWD\noutput \"y\" %3 @FWD\n";
TEST(the_first_difference_is_named)
{
    const char *relu = X() "%1 = relu %0 : float32[4] @FWD \"act\" at \"net.py:2\"\n" Y;
    compare(relu, relu, NULL);
    compare(relu,
            "graph \"another name\"\n%0 = input name=\"x\" dtype=float32 shape=[4] : float32[4] \"m\"\n"
            "%1 = relu %0 : float32[4] @FWD \"moved\" at \"net.py:200\" fusion \"f\"\n" Y,
            NULL);
    compare(relu, X() "%1 = tanh %0 : float32[4] @FWD \"act\" at \"net.py:5\"\n" Y,
            "compiled was  %1 = relu %0 : float32[4] @FWD (in module act, net.py:2)  and the model has  %1 = tanh %0 : "
            "float32[4] @FWD (in "
            "module act, net.py:5)");
    compare(relu, X() "%1 = relu %0 : float32[4] @FWD fp32\n" Y, "and the model has  %1 = relu %0 : float32[4] @FWD fp32");
    compare(relu, X() "%1 = relu %0 : float32[4] @FWD\n%2 = relu %1 : float32[4] @FWD at \"net.py:3\"\n" Y,
            "compiled was  output \"y\" %1 @FWD (in module act, net.py:2)  and the model has  %2 = relu %1 : float32[4] @FWD (in "
            "net.py:3)");
    compare(relu, X() "%1 = relu %0 : float32[4] @FWD\noutput \"z\" %1 @FWD\n", "has  output \"z\" %1 @FWD");
    compare(relu, X() "%1 = relu %0 : float32[4] @FWD\nloss \"y\" %1 @FWD\n", "has  loss \"y\" %1 @FWD");
    compare(relu, X() "%1 = relu %0 : float32[4] @FWD\n" Y "output \"z\" %1 @FWD\n",
            "compiled was  nothing more  and the model has  output \"z\"");
    compare(relu, "graph \"g\"\n%0 = input name=\"x\" dtype=float32 shape=[5] : float32[5]\n", "compiled was  %0 = input");
    compare(relu, "graph \"g\"\n%0 = input name=\"z\" dtype=float32 shape=[4] : float32[4]\n", "has  %0 = input name=\"z\"");
    /* names count by their text: here they were met in another order */
    compare(X() "%1 = input name=\"w\" dtype=bool shape=[] : bool[] \"z\"\n",
            X("\"z\"") "%1 = input name=\"w\" dtype=bool shape=[] : bool[]\n", NULL);
    /* so do nodes: which argument of a call comes first is the compiler's choice */
    compare(branches, turned, NULL);
    compare(branches,
            X() "%1 = sin %0 : float32[4] @FWD\n%2 = exp %0 : float32[4] @FWD\n%3 = sub %1 %2 : float32[4] @FWD\noutput \"y\" %3 "
                "@FWD\n",
            "compiled was  %1 = exp %0 : float32[4] @FWD  and the model has  %1 = sin");
    compare(branches,
            X() "%1 = sin %0 : float32[4] @FWD\n%2 = exp %0 : float32[4] @FWD\n%3 = sub %2 %1 : float32[4] @FWD\noutput \"y\" %2 "
                "@FWD\n",
            "compiled was  %1 = exp %0 : float32[4] @FWD  and the model has  %1 = sin");
    compare(
        X() "%1 = input name=\"w\" dtype=bool shape=[] : bool[]\n",
        "graph \"g\"\n%0 = input name=\"w\" dtype=bool shape=[] : bool[]\n%1 = input name=\"x\" dtype=int8 shape=[4] : int8[4]\n",
        "%0 = input name=\"w\"");
    char large[1200];
    for (int more = 0; more < 2; more++) { /* a constant's data does not fill the message */
        int used = snprintf(large + more * 600, 600, "graph \"g\"\n%%0 = literal dtype=int8 shape=[200] data=\"");
        memset(large + more * 600 + used, '0' + more, 400);
        snprintf(large + more * 600 + used + 400, 100, "\" : int8[200]%s\n", more ? " at \"c.py:1\"" : "");
    }
    compare(large, large + 600, " ... (in c.py:1)");
    samba_graph *g;
    need(samba_graph_parse(context, relu, &g));
    refuse(samba_graph_compare(g, NULL), SAMBA_ERROR_ARGUMENT, "two graphs are needed");
    refuse(samba_graph_compare(NULL, g), SAMBA_ERROR_ARGUMENT, "two graphs are needed");
    assert_int_equal(samba_graph_compare(NULL, NULL), SAMBA_ERROR_ARGUMENT);
    samba_graph_free(g);
}

static samba_status compare_once(samba_context *counting, void *texts)
{
    samba_graph *a = NULL, *b = NULL;
    samba_status status = samba_graph_parse(counting, ((const char **)texts)[0], &a);
    if (status == SAMBA_OK)
        status = samba_graph_parse(counting, ((const char **)texts)[1], &b);
    if (status == SAMBA_OK)
        status = samba_graph_compare(a, b);
    samba_graph_free(a);
    samba_graph_free(b);
    return status == SAMBA_ERROR_STATE ? SAMBA_OK : status;
}

TEST(refused_allocations)
{
    fail_each_allocation(compare_once, (const char *[]){lines, X()});
    fail_each_allocation(compare_once, (const char *[]){branches, turned});
}

/* ---- PEF ---- */
enum { ROWS = 200, CLASSES = 300, INNER = 6 };

typedef struct wish { /* whose operators shall stay together; whether there are outputs that BCKWD computes again */
    bool head;
} wish;

static void two_layers(samba_graph *g, const void *options)
{
    const wish *w = options;
    samba_set_source(g, "two.c", 10);
    samba_value x = samba_tanh(samba_linear(samba_input(g, "x"), "first", INNER));
    if (w->head)
        samba_op_fusion_push(g, "head");
    samba_set_source(g, "two.c", 20);
    x = samba_gelu(x);
    samba_value logits = samba_linear(x, "second", CLASSES);
    samba_set_source(g, "two.c", 30);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
    if (w->head)
        samba_op_fusion_pop(g);
}

static void compile_two(const wish *w, int64_t chunk_bytes, samba_plan *plan)
{
    samba_tensor *inputs[2] = {normal("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, INNER), 3),
                               tensor("label", SAMBA_INT64, 1, SHAPE(ROWS))};
    char path[512];
    samba_compile_options options = compile_of("two", two_layers, w, 2, inputs);
    samba_optimizer sgd = samba_sgd(0.1);
    options.optimizers = &sgd;
    options.optimizer_count = 1;
    options.chunk_bytes = chunk_bytes;
    need(samba_compile(context, &options, path, sizeof path));
    need(samba_pef_read(context, path, plan));
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

/* Operators of a word and section type that come from `source`, in all stages. */
static int count_operators(const samba_plan *plan, int phase, const char *module, const char *source)
{
    int count = 0;
    for (int32_t i = 0; i < plan->section_count; i++)
        for (int32_t s = 0; plan->sections[i].phase == phase && s < plan->sections[i].stage_count; s++) {
            const samba_stage *stage = &plan->stages[plan->sections[i].first_stage + s];
            for (int32_t k = 0; k < stage->operator_count; k++) {
                const samba_plan_location *location = &plan->locations[stage->operators[k].location];
                count += strcmp(plan->words[location->module], module) == 0 && strcmp(plan->words[location->source], source) == 0;
            }
        }
    return count;
}

TEST(stages_name_their_operators)
{
    samba_plan plan;
    compile_two(&(wish){false}, 0, &plan);
    assert_true(count_operators(&plan, 1, "first", "two.c:10") >= 2); /* matmul, add */
    assert_true(count_operators(&plan, 1, "second", "two.c:20") >= 2);
    assert_true(count_operators(&plan, 1, "", "two.c:30") >= 2);
    assert_true(count_operators(&plan, 2, "first", "two.c:10") >= 2);
    assert_true(count_operators(&plan, 2, "second", "two.c:20") >= 2);
    for (int i = 0; i < 4; i++) /* of the stages that are joined over all parameters, too */
        assert_true(count_operators(&plan, 5, (const char *[]){"first.weight", "first.bias", "second.weight", "second.bias"}[i],
                                    "") >= 2);
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

/* Sections of a type that operators of the fusion are in; all operators of the fusion in *operators. */
static int sections_of(const samba_plan *plan, int phase, const char *fusion, int *operators)
{
    int sections = 0;
    *operators = 0;
    for (int32_t i = 0; i < plan->section_count; i++) {
        int here = 0;
        for (int32_t s = 0; plan->sections[i].phase == phase && s < plan->sections[i].stage_count; s++) {
            const samba_stage *stage = &plan->stages[plan->sections[i].first_stage + s];
            for (int32_t k = 0; k < stage->operator_count; k++)
                here += strcmp(plan->words[plan->locations[stage->operators[k].location].fusion], fusion) == 0;
        }
        sections += here > 0;
        *operators += here;
    }
    return sections;
}

TEST(a_fusion_stays_in_one_section)
{
    samba_plan plan;
    int operators;
    /* logits in chunks: what only the loss needs becomes a second section of FWD */
    compile_two(&(wish){false}, 64 * CLASSES * 4, &plan);
    int forward = 0;
    for (int32_t i = 0; i < plan.section_count; i++)
        forward += plan.sections[i].phase == 1;
    assert_int_equal(forward, 2);
    assert_int_equal(sections_of(&plan, 1, "head", &operators), 0);
    assert_int_equal(operators, 0);
    samba_plan_free(&plan);
    /* the hint reaches over both: they are one */
    compile_two(&(wish){true}, 64 * CLASSES * 4, &plan);
    assert_int_equal(sections_of(&plan, 1, "head", &operators), 1);
    assert_true(operators >= 8);
    assert_int_equal(sections_of(&plan, 2, "head", &operators), 1);
    assert_true(operators >= 8);
    samba_plan_free(&plan);
}

TEST(a_fusion_changes_no_bit)
{
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, INNER), 3), *label = tensor("label", SAMBA_INT64, 1, SHAPE(ROWS));
    need(samba_fill_integers(label, 4, 0, CLASSES));
    samba_tensor *inputs[2] = {x, label};
    double losses[2][2];
    for (int hint = 0; hint < 2; hint++) {
        samba_compile_options options = compile_of("bits", two_layers, &(wish){hint}, 2, inputs);
        options.chunk_bytes = 64 * CLASSES * 4;
        samba_session *session = compile_and_open(&options, 2, 5);
        samba_run_options run = samba_run_defaults();
        run.inputs = inputs;
        run.input_count = 2;
        need(samba_run(session, &run)); /* FWD and BCKWD */
        losses[hint][0] = get_scalar(session, "loss");
        int64_t count;
        double *gradient = get_doubles(session, "first.weight", ".grad", &count);
        losses[hint][1] = gradient[count / 2];
        free(gradient);
        samba_session_free(session);
    }
    assert_true(losses[0][0] == losses[1][0] && losses[0][1] == losses[1][1]);
    samba_tensor_free(x);
    samba_tensor_free(label);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_know_their_place),
        cmocka_unit_test(the_outermost_fusion_counts),
        cmocka_unit_test(errors_say_it),
        cmocka_unit_test(text_goes_round),
        cmocka_unit_test(gradients_have_the_place_of_their_operator),
        cmocka_unit_test(node_info_tells_all),
        cmocka_unit_test(parameters_are_told),
        cmocka_unit_test(the_first_difference_is_named),
        cmocka_unit_test(refused_allocations),
        cmocka_unit_test(stages_name_their_operators),
        cmocka_unit_test(a_fusion_stays_in_one_section),
        cmocka_unit_test(a_fusion_changes_no_bit),
    };
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, NULL, NULL));
}
