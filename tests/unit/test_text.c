/* SPDX-License-Identifier: Apache-2.0
 *
 * The text form: real numbers and strings read back exactly, graphs round-trip byte for byte, and anything else is refused with a
 * line number: every truncation and thousands of random changes of a good text, of which none may crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../seed.h"
#include "failing_allocator.h"
#include "ops/ops.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <locale.h>
#include <math.h>

static samba_context *make_context(void)
{
    samba_context *context;
    assert_int_equal(samba_context_new(NULL, &context), SAMBA_OK);
    return context;
}

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- numbers ---- */

static void expect_real(double value, const char *text)
{
    char buffer[SAMBA_REAL_TEXT];
    double back;
    assert_string_equal(samba_real_format(value, buffer), text);
    assert_true(samba_real_parse(text, (int64_t)strlen(text), &back));
    assert_memory_equal(&back, &value, sizeof value);
}

static void reals_read_back(void **state)
{
    (void)state;
    expect_real(0, "0");
    expect_real(-0.0, "-0");
    expect_real(1, "1");
    expect_real(0.1, "0.1");
    expect_real(-1e-5, "-1e-05");
    expect_real(1.0 / 3, "0.3333333333333333");
    expect_real(5e-324, "5e-324");
    expect_real(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_real(INFINITY, "inf");
    expect_real(-INFINITY, "-inf");
    expect_real(NAN, "nan");
    uint64_t seed = random_seed(), random = seed;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&random);
        double value, back;
        char buffer[SAMBA_REAL_TEXT];
        memcpy(&value, &bits, sizeof value);
        samba_real_format(value, buffer);
        if (!samba_real_parse(buffer, (int64_t)strlen(buffer), &back) || (back != value && !isnan(value)))
            fail_msg("seed %llu: %a is written %s", (unsigned long long)seed, value, buffer);
    }
}

static void other_reals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        double value;
    } cases[] = {{"1.", true, 1},
                 {".5", true, 0.5},
                 {"+2.50", true, 2.5},
                 {"1e2", true, 100},
                 {"1.5e-1", true, 0.15},
                 {"1e-99999999", true, 0},
                 {"", false, 0},
                 {".", false, 0},
                 {"-", false, 0},
                 {"1e", false, 0},
                 {"1e+", false, 0},
                 {"1e999", false, 0},
                 {"0x10", false, 0},
                 {"1,5", false, 0},
                 {"1 ", false, 0},
                 {"infinity", false, 0},
                 {"1e99999999999999999999", false, 0},
                 {"--1", false, 0},
                 {"1.2.3", false, 0}};
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        double value = -1;
        assert_int_equal(samba_real_parse(cases[i].text, (int64_t)strlen(cases[i].text), &value), cases[i].good);
        if (cases[i].good)
            assert_true(value == cases[i].value);
    }
}

/* Skipped silently where no such locale is installed. */
static void locale_does_not_matter(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "pt_BR.UTF-8"};
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (setlocale(LC_NUMERIC, names[i])) {
            reals_read_back(state);
            break;
        }
    setlocale(LC_NUMERIC, "C");
}

/* ---- round trips ---- */

static char *expect_round_trip(samba_graph *g)
{
    char *text, *again;
    if (samba_graph_print(g, &text) != SAMBA_OK)
        fail_msg("%s", samba_error_message(g->context));
    samba_graph *back;
    if (samba_graph_parse(g->context, text, &back) != SAMBA_OK)
        fail_msg("%s in\n%s", samba_error_message(g->context), text);
    assert_int_equal(samba_graph_print(back, &again), SAMBA_OK);
    assert_string_equal(again, text);
    assert_true(samba_graph_hash(back) == samba_graph_hash(g));
    assert_int_equal(samba_graph_verify(back), SAMBA_OK);
    assert_int_equal(back->phase, SAMBA_FWD);
    assert_false(back->recompute);
    samba_text_free(g->context, again);
    samba_graph_free(back);
    return text;
}

static void add_input(samba_graph *g, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_tensor *example;
    samba_status status = samba_tensor_empty(g->context, name, dtype, rank, shape, &example);
    if (status != SAMBA_OK) {
        samba_graph_stick(g, status);
        return;
    }
    samba_graph_add_input(g, example);
    samba_tensor_free(example);
}

/* A bit of everything: each attribute kind that models make, phases, odd names, all kinds of sinks. */
static samba_graph *rich_graph(samba_context *context)
{
    samba_graph *g;
    if (samba_graph_new(context, "a \"rich\"\\graph\n", &g) != SAMBA_OK)
        return NULL;
    add_input(g, "image", SAMBA_FLOAT32, 4, (int64_t[]){2, 1, 8, 8});
    add_input(g, "label", SAMBA_INT64, 1, (int64_t[]){2});
    samba_scope_push(g, "f\xc3\xbcr \x01\x7f\"x\"\\");
    samba_value x =
        samba_conv2d(samba_input(g, "image"), "conv1", 3, (int64_t[]){3, 3}, &(samba_conv2d_options){.padding = {1, 1}});
    x = samba_avg_pool2d(samba_max_pool2d(samba_relu(x), (int64_t[]){2, 2}, NULL), (int64_t[]){2, 2}, NULL);
    samba_scope_pop(g);
    x = samba_dropout(samba_layer_norm(samba_flatten(x, 1, -1), "norm"), "drop", 0.1);
    samba_value parts[2];
    samba_split(samba_linear(x, "fc", 6), 3, 1, 2, parts);
    x = samba_softmax(samba_concat(2, (samba_value[]){parts[1], parts[0]}, 1), -1);
    x = samba_add(x, samba_mean(samba_embedding(samba_input(g, "label"), "words", 7, 6), 1, (int[]){0}, true));
    x = samba_add(x, samba_cast(samba_arange(g, 6, SAMBA_INT32), SAMBA_FLOAT32));
    x = samba_where(samba_lt(x, samba_constant(g, INFINITY, SAMBA_FLOAT32, 1, (int64_t[]){6})), x,
                    samba_constant(g, NAN, SAMBA_FLOAT32, 0, NULL));
    samba_output(g, "logits", x);
    samba_loss(g, "loss", samba_cross_entropy(x, samba_input(g, "label")));
    g->phase = SAMBA_OPT;
    g->recompute = true;
    samba_ref w = samba_graph_leaf(g, "fc.weight");
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.state.name = samba_graph_intern(g, "fc.weight.momentum_buffer");
    attrs.state.shape = (samba_dims){.count = 2, .at = {6, 12}};
    attrs.state.init = SAMBA_INIT_CONSTANT;
    attrs.state.init_a = 0.30000000000000004;
    attrs.state.kind = 2;
    samba_ref buffer = samba_emit(g, SAMBA_OP_state, 0, NULL, &attrs);
    samba_ref again = samba_emit_transpose(g, samba_emit_transpose(g, w, 0, 1), 0, 1); /* in OPT what is in FWD already */
    samba_ref next = samba_emit2(g, SAMBA_OP_add, samba_emit_scalar(g, SAMBA_OP_mul, buffer, 0.9), again);
    samba_graph_sink(g, (samba_sink){.kind = SAMBA_SINK_ASSIGN, .phase = SAMBA_OPT, .target = buffer, .value = next});
    g->recompute = false;
    return g;
}

static void a_rich_graph(void **state)
{
    (void)state;
    samba_context *context = make_context();
    samba_graph *g = rich_graph(context);
    if (samba_graph_status(g) != SAMBA_OK)
        fail_msg("%s", samba_error_message(context));
    char *text = expect_round_trip(g);
    assert_non_null(strstr(text, "graph \"a \\\"rich\\\"\\\\graph\\x0a\"\n"));
    assert_non_null(strstr(text, " @OPT"));
    assert_non_null(strstr(text, "init_a=0.30000000000000004"));
    assert_non_null(strstr(text, "value=nan"));
    samba_text_free(context, text);
    samba_graph_free(g);
    samba_context_free(context);
}

/* Any nodes in any phases: what samba_emit accepts. */
static void random_graphs(void **state)
{
    (void)state;
    uint64_t seed = random_seed(), random = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    samba_context *context = make_context();
    for (int round = 0; round < 40; round++) {
        samba_graph *g;
        assert_int_equal(samba_graph_new(context, "random", &g), SAMBA_OK);
        add_input(g, "x", SAMBA_FLOAT32, 2, (int64_t[]){3, 3});
        for (int i = 0; i < 60; i++) {
            static const samba_op ops[] = {SAMBA_OP_exp, SAMBA_OP_neg, SAMBA_OP_add, SAMBA_OP_mul, SAMBA_OP_matmul, SAMBA_OP_sum};
            samba_op op = ops[next_random(&random) % SAMBA_COUNT(ops)];
            samba_ref a = (samba_ref)(next_random(&random) % (uint64_t)g->node_count);
            samba_ref b = (samba_ref)(next_random(&random) % (uint64_t)g->node_count);
            g->phase = next_random(&random) % SAMBA_PHASE_COUNT;
            g->recompute = next_random(&random) % 2;
            char scope[3] = {(char)(1 + next_random(&random) % 255)};
            scope[1] = (char)(1 + next_random(&random) % 255);
            g->location.scope = next_random(&random) % 2 ? samba_graph_intern(g, scope) : 0;
            if (samba_op_table[op].arity == 2)
                samba_emit2(g, op, a, b);
            else if (op != SAMBA_OP_sum)
                samba_emit1(g, op, a);
            else
                samba_emit_expand(g, samba_emit_reduce(g, op, a, 1, (int64_t[]){next_random(&random) % 2}), 2, (int64_t[]){3, 3});
            if (next_random(&random) % 8 == 0)
                samba_graph_sink(g, (samba_sink){.kind = SAMBA_SINK_OUTPUT,
                                                 .phase = SAMBA_OPT,
                                                 .name = samba_graph_intern(g, scope),
                                                 .target = SAMBA_NONE,
                                                 .value = a});
            if (g->status == SAMBA_ERROR_NAME || g->status == SAMBA_ERROR_SHAPE) /* an output's name twice, or a sum of one row */
                g->status = SAMBA_OK;
        }
        samba_text_free(context, expect_round_trip(g));
        samba_graph_free(g);
    }
    samba_context_free(context);
}

static void spaces_and_comments(void **state)
{
    (void)state;
    samba_context *context = make_context();
    samba_graph *g;
    static const char text[] = "# a comment\n\n  graph\t\"g\"  # more\r\n"
                               "% 0=input name = \"x#\" dtype=float32 shape=[ 2 , 3 ]:float32 [2,3]\n"
                               "%1 = exp %0:float32[2,3]@FWD\n output \"y\" %1 @FWD";
    if (samba_graph_parse(context, text, &g) != SAMBA_OK)
        fail_msg("%s", samba_error_message(context));
    samba_text_free(context, expect_round_trip(g));
    samba_graph_free(g);
    samba_context_free(context);
}

/* ---- refusals ---- */

static void bad_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "line 1: expected 'graph' and its name, found the end of the text"},
        {"\n\n%0 = ", "line 3: expected 'graph'"},
        {"graph lenet", "line 1: expected a quoted name, found 'lenet'"},
        {"graph \"\"", "line 1: a graph needs a name"},
        {"graph \"a", "line 1: expected '\"' after the name, found the end of the text"},
        {"graph \"a\\q\"", "hexadecimal"},
        {"graph \"a\\x00\"", "hexadecimal"},
        {"graph \"a\\", "found"},
        {"graph \"a\" x", "line 1: expected the end of the line, found 'x'"},
        {"G\nfoo", "line 2: expected a node ('%'), output, loss or assign, found 'foo'"},
        {"G\n%1 = ", "line 2: expected node 0"},
        {"G\n%x", "expected the number of a node, found 'x'"},
        {"G\n%0 input", "expected '='"},
        {"G\n%0 = inputs", "expected an operator, found 'inputs'"},
        {"G\n%0 = exp %0 :", "expected the number of a node above this line, found '0'"},
        {"G\n%0 = input dtype=float32", "expected 'name=', found 'dtype=float32'"},
        {"G\n%0 = input name=\"x\" dtype=float31", "expected a dtype, found 'float31'"},
        {"G\n%0 = input name=\"x\" dtype=float32 shape=(2)", "expected '['"},
        {"G\n%0 = input name=\"x\" dtype=float32 shape=[2 3]", "expected ',' or ']', found '3]'"},
        {"G\n%0 = input name=\"x\" dtype=float32 shape=[1,1,1,1,1,1,1,1,1] :", "at most 8 numbers"},
        {"G\n%0 = input name=\"x\" dtype=float32 shape=[9223372036854775808] :", "fits 64 bits"},
        {"G\n%0 = input name=\"x\" dtype=float32 shape=[-1] : float32[-1]", "line 2: input: "},
        {"G\n%0 = input name=\"x\" dtype=float32 shape=[9223372036854775807] : float32[9223372036854775807]", "2^62"},
        {"G\n%0 = input name=\"\" dtype=float32 shape=[] : float32[]", "needs a name"},
        {"G\n%0 = input name=\"x\" dtype=float32 shape=[2] : float32[3]",
         "input gives float32(2) here, but float32(3) is written"},
        {"G\n%0 = constant dtype=float32 shape=[] value=1,5", "expected ':'"},
        {"G\n%0 = constant dtype=float32 shape=[] value=x", "expected a real number, found 'x'"},
        {"X\n%1 = exp %0 : float32[2]", "expected '@' and a phase"},
        {"X\n%1 = exp %0 : float32[2] @FORWARD", "expected ZEROGRAD, FWD"},
        {"X\n%1 = exp %0 : float32[2] @BCKWD\n%2 = neg %1 : float32[2] @FWD", "line 4: neg has an input of phase BCKWD"},
        {"X\n%1 = add %0 : float32[2] @FWD", "line 3: add: expected 2 inputs, given 1"},
        {"X\n%1 = exp %0 : float32[2] @FWD\n%2 = exp %0 : float32[2] @FWD", "line 4: %2 is %1 over again"},
        {"X\noutput \"x\" %0 @FWD", "line 3: output \"x\": input %0 has that name already"},
        {"X\noutput \"y\" %0 @FWD\noutput \"y\" %0 @FWD", "line 4: output \"y\""},
        {"X\noutput \"y\" %1 @FWD", "above this line"},
        {"X\noutput \"y\" %0", "expected '@'"},
        {"X\n%1 = exp %0 : float32[2] @FWD\nassign %1 %1 @OPT", "only a parameter, a state or an input"},
        {"X\noutput \"y\" %0 @FWD\n%1 = exp %0 : float32[2] @FWD", "nodes come before them"},
        {"X\n%1 = \x01\xff", "found '?"},
    };
    samba_context *context = make_context();
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        char text[512];
        bool graph = strncmp(cases[i].text, "G\n", 2) == 0, with_input = strncmp(cases[i].text, "X\n", 2) == 0;
        snprintf(text, sizeof text, "%s%s",
                 graph        ? "graph \"g\"\n"
                 : with_input ? "graph \"g\"\n%0 = input name=\"x\" dtype=float32 shape=[2] : float32[2]\n"
                              : "",
                 cases[i].text + (graph || with_input ? 2 : 0));
        samba_graph *g;
        assert_int_equal(samba_graph_parse(context, text, &g), SAMBA_ERROR_FORMAT);
        assert_null(g);
        if (!strstr(samba_error_message(context), cases[i].words))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].words, samba_error_message(context));
    }
    samba_graph *g;
    assert_int_equal(samba_graph_parse(context, NULL, &g), SAMBA_ERROR_ARGUMENT);
    samba_context_free(context);
}

/* Parses bytes that may be anything; what is accepted must be sound. */
static bool parse_anything(samba_context *context, const char *text)
{
    samba_graph *g;
    samba_status status = samba_graph_parse(context, text, &g);
    if (status != SAMBA_OK) {
        assert_int_equal(status, SAMBA_ERROR_FORMAT);
        assert_int_equal(strncmp(samba_error_message(context), "line ", 5), 0);
        assert_null(g);
        return false;
    }
    if (samba_graph_verify(g) != SAMBA_OK)
        fail_msg("%s", samba_error_message(context));
    samba_graph_free(g);
    return true;
}

static void damaged_texts(void **state)
{
    (void)state;
    samba_context *context = make_context();
    samba_graph *g = rich_graph(context);
    char *good = expect_round_trip(g);
    size_t length = strlen(good);
    char *text = malloc(length + 1);
    for (size_t cut = 0; cut < length; cut += 3) {
        memcpy(text, good, cut);
        text[cut] = 0;
        parse_anything(context, text);
    }
    uint64_t seed = random_seed(), random = seed;
    print_message("seed %llu\n", (unsigned long long)seed);
    static const char likely[] = "%=[]:@\"\\,.-0123456789\n #xe\x80\xff";
    int accepted = 0;
    for (int i = 0; i < 3000; i++) {
        memcpy(text, good, length + 1);
        for (uint64_t changes = 1 + next_random(&random) % 3; changes > 0; changes--) {
            size_t at = next_random(&random) % length;
            text[at] = next_random(&random) % 4 ? likely[next_random(&random) % (sizeof likely - 1)] : (char)next_random(&random);
        }
        accepted += parse_anything(context, text);
    }
    assert_true(accepted < 3000);
    free(text);
    samba_text_free(context, good);
    samba_graph_free(g);
    samba_context_free(context);
}

/* ---- memory ---- */

static samba_status print_and_parse(samba_context *context, void *user)
{
    (void)user;
    samba_graph *g = rich_graph(context), *back = NULL;
    char *text = NULL;
    samba_status status = g ? samba_graph_status(g) : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK)
        status = samba_graph_print(g, &text);
    if (status == SAMBA_OK)
        status = samba_graph_parse(context, text, &back);
    samba_text_free(context, text);
    samba_graph_free(back);
    samba_graph_free(g);
    return status;
}

static void refused_allocations(void **state)
{
    (void)state;
    fail_each_allocation(print_and_parse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals_read_back), cmocka_unit_test(other_reals),   cmocka_unit_test(locale_does_not_matter),
        cmocka_unit_test(a_rich_graph),    cmocka_unit_test(random_graphs), cmocka_unit_test(spaces_and_comments),
        cmocka_unit_test(bad_texts),       cmocka_unit_test(damaged_texts), cmocka_unit_test(refused_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
