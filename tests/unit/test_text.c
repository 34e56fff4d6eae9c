/* SPDX-License-Identifier: Apache-2.0
 *
 * The text form: real numbers and strings read back exactly, graphs round-trip byte for byte (tests/fuzz/files has random ones),
 * and anything else is refused with a line number: truncations and thousands of random changes, of which none may crash. */
#include "messages.h"
#include "failing_allocator.h"
#include "ops/ops.h"
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <locale.h>

/* ---- numbers ---- */

static bool read_real(const char *text, double *value) { return samba_real_parse(text, (int64_t)strlen(text), value); }

TEST(reals_read_back)
{
    static const struct {
        double value;
        const char *text;
    } reals[] = {{0, "0"},           {-0.0, "-0"},
                 {1, "1"},           {0.1, "0.1"},
                 {-1e-5, "-1e-05"},  {1.0 / 3, "0.3333333333333333"},
                 {5e-324, "5e-324"}, {1.7976931348623157e308, "1.7976931348623157e+308"},
                 {INFINITY, "inf"},  {-INFINITY, "-inf"},
                 {NAN, "nan"}};
    char buffer[SAMBA_REAL_TEXT];
    double back;
    for (int i = 0; i < LENGTH(reals); i++) {
        assert_string_equal(samba_real_format(reals[i].value, buffer), reals[i].text);
        assert_true(read_real(reals[i].text, &back));
        assert_memory_equal(&back, &reals[i].value, sizeof back);
    }
    seed_anew();
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random();
        double value;
        memcpy(&value, &bits, sizeof value);
        samba_real_format(value, buffer);
        if (!read_real(buffer, &back) || (back != value && !isnan(value)))
            fail_msg("%a is written %s", value, buffer);
    }
}

TEST(other_reals)
{
    static const char *const
        good[] = {"1.", ".5", "+2.50", "1e2", "1.5e-1", "1e-99999999"},
        *const bad[] = {"",    ".",    "-", "1e", "1e+", "1e999", "0x10", "1,5", "1 ", "infinity", "1e99999999999999999999",
                        "--1", "1.2.3"};
    static const double values[] = {1, 0.5, 2.5, 100, 0.15, 0};
    double value;
    for (int i = 0; i < LENGTH(good); i++)
        assert_true(read_real(good[i], &value) && value == values[i]);
    for (int i = 0; i < LENGTH(bad); i++)
        assert_false(read_real(bad[i], &value));
}

/* Skipped silently where no such locale is installed. */
TEST(locale_does_not_matter)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "pt_BR.UTF-8"};
    for (int i = 0; i < LENGTH(names); i++)
        if (setlocale(LC_NUMERIC, names[i])) {
            reals_read_back(state);
            break;
        }
    setlocale(LC_NUMERIC, "C");
}

/* ---- round trips ---- */

static char *expect_round_trip(const samba_graph *g)
{
    char *text, *again;
    OWN_GRAPH *back;
    need(samba_graph_print(g, &text));
    need(samba_graph_parse(context, text, &back));
    need(samba_graph_print(back, &again));
    assert_string_equal(again, text);
    assert_true(samba_graph_hash(back) == samba_graph_hash(g));
    need(samba_graph_verify(back));
    assert_int_equal(back->phase, SAMBA_FWD);
    assert_false(back->recompute);
    samba_text_free(context, again);
    return text;
}

static void add_input(samba_graph *g, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    OWN_TENSOR *example;
    samba_status status = samba_tensor_empty(g->context, name, dtype, rank, shape, &example);
    THEN(status, samba_graph_add_input(g, example));
    samba_graph_stick(g, status);
}

/* A bit of everything: each attribute kind that models make, phases, odd names, all kinds of sinks. */
static samba_graph *rich_graph(samba_context *owner)
{
    samba_graph *g;
    if (samba_graph_new(owner, "a \"rich\"\\graph\n", &g) != SAMBA_OK)
        return NULL;
    add_input(g, "image", SAMBA_FLOAT32, SIZES(2, 1, 8, 8));
    add_input(g, "label", SAMBA_INT64, SIZES(2));
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
    x = samba_where(samba_lt(x, samba_constant(g, INFINITY, SAMBA_FLOAT32, SIZES(6))), x,
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

TEST(a_rich_graph)
{
    OWN_GRAPH *g = rich_graph(context);
    need(samba_graph_status(g));
    char *text = expect_round_trip(g);
    assert_non_null(strstr(text, "graph \"a \\\"rich\\\"\\\\graph\\x0a\"\n"));
    assert_non_null(strstr(text, " @OPT"));
    assert_non_null(strstr(text, "init_a=0.30000000000000004"));
    assert_non_null(strstr(text, "value=nan"));
    samba_text_free(context, text);
}

TEST(spaces_and_comments)
{
    OWN_GRAPH *g;
    static const char text[] = "# a comment\n\n  graph\t\"g\"  # more\r\n"
                               "% 0=input name = \"x#\" dtype=float32 shape=[ 2 , 3 ]:float32 [2,3]\n"
                               "%1 = exp %0:float32[2,3]@FWD\n output \"y\" %1 @FWD";
    need(samba_graph_parse(context, text, &g));
    samba_text_free(context, expect_round_trip(g));
}

/* ---- refusals ---- */

/* What is accepted is sound. */
static samba_status parse(const char *text)
{
    OWN_GRAPH *parsed;
    samba_status status = samba_graph_parse(context, text, &parsed);
    assert_true((parsed != NULL) == (status == SAMBA_OK));
    if (status == SAMBA_OK)
        need(samba_graph_verify(parsed));
    return status;
}

TEST(bad_texts)
{
    replay("bad_texts", parse);
    refuse(parse("graph \"g\"\n%0 = \x01\xff"), SAMBA_ERROR_FORMAT, "found '?");
    assert_int_equal(parse(NULL), SAMBA_ERROR_ARGUMENT);
}

/* Of bytes that may be anything. */
static void parse_anything(const char *text)
{
    const samba_status status = parse(text);
    if (status != SAMBA_OK)
        refuse(status, SAMBA_ERROR_FORMAT, "line ");
}

TEST(damaged_texts)
{
    OWN_GRAPH *g = rich_graph(context);
    char *good = expect_round_trip(g);
    size_t length = strlen(good);
    char *text = malloc(length + 1);
    for (size_t cut = 0; cut < length; cut += 3) {
        memcpy(text, good, cut);
        text[cut] = 0;
        parse_anything(text);
    }
    seed_anew();
    static const char likely[] = "%=[]:@\"\\,.-0123456789\n #xe\x80\xff";
    for (int i = 0; i < 3000; i++) {
        memcpy(text, good, length + 1);
        for (uint64_t changes = 1 + next_random() % 3; changes > 0; changes--) {
            size_t at = next_random() % length;
            text[at] = next_random() % 4 ? likely[next_random() % (sizeof likely - 1)] : (char)next_random();
        }
        parse_anything(text);
    }
    free(text);
    samba_text_free(context, good);
}

/* ---- memory ---- */

static samba_status print_and_parse(samba_context *owner, void *user)
{
    OWN_GRAPH *g = rich_graph(owner), *back = NULL;
    char *text = NULL;
    samba_status status = g ? samba_graph_status(g) : SAMBA_ERROR_MEMORY;
    THEN(status, samba_graph_print(g, &text));
    THEN(status, samba_graph_parse(owner, text, &back));
    samba_text_free(owner, text);
    return status;
}

TEST(refused_allocations) { fail_each_allocation(print_and_parse, NULL); }

TEST_MAIN(reals_read_back, other_reals, locale_does_not_matter, a_rich_graph, spaces_and_comments, bad_texts, damaged_texts,
          refused_allocations, every_message_said)
