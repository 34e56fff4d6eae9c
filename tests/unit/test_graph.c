/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph as a container: hash-consing over phases, names, sinks, the sticky error, rewriting, verifying, hashing, the emit
 * helpers and refused allocations. */
#include "graph_fixture.h"
#include "failing_allocator.h"
#include "ops/ops.h"

static samba_attrs leaf_attrs(samba_graph *of, const char *name, int rank, const int64_t *shape)
{
    samba_attrs attrs = {.leaf = {.name = samba_graph_intern(of, name), .dtype = SAMBA_FLOAT32, .shape.count = rank}};
    memcpy(attrs.leaf.shape.at, shape, (size_t)rank * sizeof *shape);
    return attrs;
}

static samba_ref leaf(samba_graph *of, samba_op op, const char *name, int64_t rows, int64_t columns)
{
    samba_attrs attrs = leaf_attrs(of, name, SIZES(rows, columns));
    return samba_emit(of, op, 0, NULL, &attrs);
}

static samba_ref input(const char *name) { return leaf(g, SAMBA_OP_input, name, 2, 3); }

static samba_sink output_of(samba_graph *of, const char *name, samba_ref value)
{
    const samba_ref called = samba_graph_intern(of, name);
    return (samba_sink){.kind = SAMBA_SINK_OUTPUT, .phase = SAMBA_FWD, .name = called, .target = SAMBA_NONE, .value = value};
}

/* ---- nodes ---- */

TEST(equal_nodes_are_one)
{
    samba_ref x = input("x"), y = input("y");
    assert_int_not_equal(x, y);
    assert_int_equal(input("x"), x);
    samba_ref sum = samba_emit2(g, SAMBA_OP_add, x, y);
    assert_int_equal(samba_emit2(g, SAMBA_OP_add, x, y), sum);
    assert_int_not_equal(samba_emit2(g, SAMBA_OP_add, y, x), sum);
    assert_int_not_equal(samba_emit2(g, SAMBA_OP_mul, x, y), sum);
    assert_int_equal(samba_emit_constant(g, 1, SAMBA_FLOAT32), samba_emit_constant(g, 1, SAMBA_FLOAT32));
    assert_int_not_equal(samba_emit_constant(g, 1, SAMBA_FLOAT32), samba_emit_constant(g, 1, SAMBA_FLOAT64));
    assert_int_not_equal(samba_emit_constant(g, 0.0, SAMBA_FLOAT32), samba_emit_constant(g, -0.0, SAMBA_FLOAT32));
    assert_int_equal(samba_emit_constant(g, NAN, SAMBA_FLOAT32), samba_emit_constant(g, -NAN, SAMBA_FLOAT32));
    samba_attrs rubbish; /* behind a list it does not count */
    memset(&rubbish, 0xEE, sizeof rubbish);
    rubbish.shape.shape = (samba_dims){.count = 1, .at = {6, 77, 78}};
    assert_int_equal(samba_emit(g, SAMBA_OP_reshape, 1, &x, &rubbish), samba_emit_reshape(g, x, SIZES(6)));
    need(samba_graph_status(g));
    need(samba_graph_verify(g));
}

TEST(phases)
{
    samba_ref x = input("x");
    assert_int_equal(g->phase, SAMBA_FWD);
    samba_ref forward = samba_emit1(g, SAMBA_OP_exp, x);
    assert_int_equal(g->nodes[x].phase, SAMBA_ZEROGRAD);
    assert_int_equal(g->nodes[forward].phase, SAMBA_FWD);
    g->phase = SAMBA_BCKWD;
    assert_int_equal(input("x"), x);
    assert_int_equal(samba_emit1(g, SAMBA_OP_exp, x), forward); /* an earlier one is found */
    samba_ref backward = samba_emit1(g, SAMBA_OP_log, x);
    assert_int_equal(g->nodes[backward].phase, SAMBA_BCKWD);
    g->recompute = true;
    samba_ref again = samba_emit1(g, SAMBA_OP_exp, x);
    assert_int_not_equal(again, forward);
    assert_int_equal(g->nodes[again].phase, SAMBA_BCKWD);
    assert_int_equal(input("x"), x);
    g->recompute = false;
    assert_int_equal(samba_emit1(g, SAMBA_OP_exp, x), forward); /* the earliest of two */
    g->phase = SAMBA_FWD;
    samba_ref later = samba_emit1(g, SAMBA_OP_neg, backward); /* never before its inputs */
    assert_int_equal(g->nodes[later].phase, SAMBA_BCKWD);
    assert_int_not_equal(samba_emit1(g, SAMBA_OP_log, x), backward); /* a later one is not found */
    need(samba_graph_verify(g));
}

TEST(many_nodes_and_names)
{
    samba_ref refs[3000];
    char name[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3000; i++) {
            snprintf(name, sizeof name, "leaf%d", i);
            samba_ref ref = input(name);
            if (round == 0)
                refs[i] = ref;
            assert_int_equal(ref, refs[i]);
        }
    assert_int_equal(g->node_count, 3000);
    assert_int_equal(samba_graph_leaf(g, "leaf1234"), refs[1234]);
    assert_int_equal(samba_graph_leaf(g, "leaf"), SAMBA_NONE);
    assert_string_equal(samba_graph_name_at(g, 0), "");
    assert_int_equal(samba_graph_intern(g, ""), 0);
}

TEST(wide_concat)
{
    samba_ref inputs[SAMBA_MAX_ARITY + 1];
    for (int i = 0; i <= SAMBA_MAX_ARITY; i++)
        inputs[i] = input("x");
    const samba_attrs attrs = {0};
    samba_ref all = samba_emit(g, SAMBA_OP_concat, SAMBA_MAX_ARITY, inputs, &attrs);
    assert_int_equal(g->nodes[all].shape[0], 2 * SAMBA_MAX_ARITY);
    assert_int_equal(samba_emit(g, SAMBA_OP_concat, SAMBA_MAX_ARITY + 1, inputs, &attrs), SAMBA_NONE);
    refuse(samba_graph_status(g), SAMBA_ERROR_ARGUMENT, "concat: expected 1 input or more");
}

/* ---- errors ---- */

TEST(the_first_error_stays)
{
    samba_ref x = input("x"), y = leaf(g, SAMBA_OP_input, "y", 4, 5);
    g->location.scope = samba_graph_intern(g, "block0.attn");
    assert_int_equal(samba_emit2(g, SAMBA_OP_add, x, y), SAMBA_NONE);
    refuse(samba_graph_status(g), SAMBA_ERROR_SHAPE, "add at block0.attn: ");
    samba_fail(context, SAMBA_ERROR_FILE, "something else");
    samba_graph_fail(g, SAMBA_ERROR_NAME, "later");
    assert_int_equal(samba_emit1(g, SAMBA_OP_exp, x), SAMBA_NONE);
    assert_int_equal(samba_graph_intern(g, "new"), 0);
    refuse(samba_graph_status(g), SAMBA_ERROR_SHAPE, "add at block0.attn: "); /* given again */
    char *text;
    assert_int_equal(samba_graph_print(g, &text), SAMBA_ERROR_SHAPE);
    assert_null(text);
    assert_int_equal(samba_graph_verify(g), SAMBA_ERROR_SHAPE);
}

TEST(none_passes_silently)
{
    assert_int_equal(samba_emit1(g, SAMBA_OP_exp, SAMBA_NONE), SAMBA_NONE);
    assert_int_equal(samba_emit_reshape(g, SAMBA_NONE, 0, NULL), SAMBA_NONE);
    assert_int_equal(samba_emit_permute(g, SAMBA_NONE, NULL), SAMBA_NONE);
    assert_int_equal(samba_emit_transpose(g, SAMBA_NONE, 0, 1), SAMBA_NONE);
    assert_int_equal(samba_emit_cast(g, SAMBA_NONE, SAMBA_FLOAT32), SAMBA_NONE);
    assert_int_equal(samba_emit_sum_to(g, SAMBA_NONE, 0, NULL), SAMBA_NONE);
    assert_int_equal(samba_emit_scalar(g, SAMBA_OP_add, SAMBA_NONE, 1), SAMBA_NONE);
    samba_graph_sink(g, (samba_sink){.kind = SAMBA_SINK_OUTPUT, .value = SAMBA_NONE});
    need(samba_graph_status(g));
}

/* ---- hashing ---- */

static samba_ref small_model(samba_graph *of, bool names_first, samba_op op)
{
    if (names_first) {
        samba_graph_intern(of, "out");
        samba_graph_intern(of, "w");
    }
    samba_ref first = leaf(of, SAMBA_OP_input, "x", 2, 3), second = leaf(of, SAMBA_OP_parameter, "w", 2, 3);
    samba_ref sum = samba_emit2(of, op, first, second);
    samba_graph_sink(of, output_of(of, "out", sum));
    return sum;
}

static uint64_t hash_of(bool names_first, samba_op op, const char *scope, bool more)
{
    OWN_GRAPH *of = graph_named(scope ? scope : "hash");
    of->location.scope = scope ? samba_graph_intern(of, scope) : 0;
    samba_ref sum = small_model(of, names_first, op);
    if (more)
        samba_emit1(of, SAMBA_OP_exp, sum);
    need(samba_graph_status(of));
    return samba_graph_hash(of);
}

TEST(hash_is_of_the_structure)
{
    uint64_t hash = hash_of(false, SAMBA_OP_add, NULL, false);
    assert_true(hash == hash_of(true, SAMBA_OP_add, NULL, false)); /* indices of names differ */
    assert_true(hash == hash_of(false, SAMBA_OP_add, "scope", false));
    assert_true(hash != hash_of(false, SAMBA_OP_mul, NULL, false));
    assert_true(hash != hash_of(false, SAMBA_OP_add, NULL, true));
}

/* ---- rewriting ---- */

TEST(copying_drops_what_is_dead)
{
    OWN_GRAPH *out, *twice;
    input("unused"); /* inputs stay */
    leaf(g, SAMBA_OP_parameter, "dead", 2, 3);
    samba_graph_intern(g, "so that names move");
    g->location.scope = samba_graph_intern(g, "scope");
    samba_ref y = small_model(g, false, SAMBA_OP_add);
    samba_emit1(g, SAMBA_OP_tanh, y);
    g->phase = SAMBA_BCKWD;
    g->recompute = true;
    samba_ref again = samba_emit2(g, SAMBA_OP_add, samba_graph_leaf(g, "x"), samba_graph_leaf(g, "w"));
    g->phase = SAMBA_OPT;
    samba_graph_sink(
        g, (samba_sink){.kind = SAMBA_SINK_ASSIGN, .phase = SAMBA_OPT, .target = samba_graph_leaf(g, "w"), .value = again});
    need(samba_graph_status(g));
    need(samba_graph_rewrite(g, NULL, NULL, &out));
    need(samba_graph_verify(out));
    assert_int_equal(out->node_count, 5); /* unused, x, w and the sum in two phases */
    assert_int_equal(out->sink_count, 2);
    assert_int_not_equal(samba_graph_leaf(out, "unused"), SAMBA_NONE);
    assert_int_equal(samba_graph_leaf(out, "dead"), SAMBA_NONE);
    const samba_node *copy = samba_node_at(out, out->sinks[1].value);
    assert_int_equal(copy->phase, SAMBA_BCKWD);
    assert_string_equal(samba_graph_name_at(out, copy->location.scope), "scope");
    assert_int_equal(out->sinks[1].target, samba_graph_leaf(out, "w"));
    need(samba_graph_rewrite(out, NULL, NULL, &twice));
    assert_true(samba_graph_hash(twice) == samba_graph_hash(out));
}

/* add becomes mul; user counts nodes seen */
static samba_ref multiply_instead(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    (*(int *)rewriter->user)++;
    if (samba_node_at(rewriter->in, ref)->op == SAMBA_OP_add)
        return samba_emit2(rewriter->out, SAMBA_OP_mul, inputs[0], inputs[1]);
    return samba_rewrite_copy(rewriter, ref, inputs);
}

static samba_ref give_nothing(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs) { return SAMBA_NONE; }

static samba_ref give_error(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    return samba_graph_fail(rewriter->out, SAMBA_ERROR_UNSUPPORTED, "not this");
}

TEST(rewriting)
{
    OWN_GRAPH *empty, *made;
    samba_graph *out;
    int seen = 0;
    need(samba_graph_rewrite(g, NULL, NULL, &empty));
    need(samba_graph_verify(empty));
    assert_true(samba_graph_hash(empty) == samba_graph_hash(g));
    small_model(g, false, SAMBA_OP_add);
    need(samba_graph_rewrite(g, multiply_instead, &seen, &made));
    assert_int_equal(seen, 3);
    assert_int_equal(samba_node_at(made, made->sinks[0].value)->op, SAMBA_OP_mul);
    assert_int_equal(made->phase, SAMBA_FWD);
    assert_false(made->recompute);
    refuse(samba_graph_rewrite(g, give_nothing, NULL, &out), SAMBA_ERROR_INTERNAL,
           "rewriting input %0 gave no node and no error");
    assert_null(out);
    refuse(samba_graph_rewrite(g, give_error, NULL, &out), SAMBA_ERROR_UNSUPPORTED, "not this");
    assert_null(out);
}

/* ---- emit helpers ---- */

TEST(helpers)
{
    samba_attrs attrs = leaf_attrs(g, "x", SIZES(2, 1, 3));
    samba_ref x = samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs);
    assert_int_equal(samba_emit_reshape(g, x, SIZES(2, 1, 3)), x);
    assert_int_equal(samba_emit_expand(g, x, SIZES(2, 1, 3)), x);
    assert_int_equal(samba_emit_permute(g, x, (int64_t[]){0, 1, 2}), x);
    assert_int_equal(samba_emit_transpose(g, x, 1, -2), x);
    assert_int_equal(samba_emit_cast(g, x, SAMBA_FLOAT32), x);
    assert_int_equal(samba_emit_reduce(g, SAMBA_OP_sum, x, 0, NULL), x);
    assert_int_equal(samba_emit_sum_to(g, x, SIZES(2, 1, 3)), x);
    samba_ref t = samba_emit_transpose(g, x, 0, -1);
    assert_true(samba_shape_equal(3, g->nodes[t].shape, SIZES(3, 1, 2)));
    assert_int_equal(samba_emit_reduce(g, SAMBA_OP_amax, x, SIZES(2, 0)), samba_emit_reduce(g, SAMBA_OP_amax, x, SIZES(0, 2)));
    samba_ref wide = samba_emit_expand(g, x, SIZES(5, 2, 4, 3));
    samba_ref back = samba_emit_sum_to(g, wide, SIZES(2, 1, 3));
    assert_true(samba_shape_equal(g->nodes[back].rank, g->nodes[back].shape, SIZES(2, 1, 3)));
    assert_int_equal(g->nodes[samba_emit_sum_to(g, wide, 0, NULL)].rank, 0);
    samba_ref half = samba_emit_scalar(g, SAMBA_OP_mul, samba_emit_cast(g, x, SAMBA_BFLOAT16), 0.5);
    assert_int_equal(g->nodes[half].dtype, SAMBA_BFLOAT16);
    need(samba_graph_verify(g));
    assert_int_equal(samba_emit_sum_to(g, x, SIZES(2)), SAMBA_NONE);
    refuse(samba_graph_status(g), SAMBA_ERROR_INTERNAL, "(2, 1, 3) cannot be summed down to (2)");
}

/* ---- memory ---- */

static samba_status build_and_rewrite(samba_context *owner, void *user)
{
    OWN_GRAPH *made, *out = NULL;
    SAMBA_TRY(samba_graph_new(owner, "memory", &made));
    char name[32];
    samba_ref sum = small_model(made, false, SAMBA_OP_add);
    for (int i = 0; i < 70; i++) { /* all arrays and tables grow */
        snprintf(name, sizeof name, "leaf%d", i);
        sum = samba_emit2(made, SAMBA_OP_add, sum, leaf(made, SAMBA_OP_input, name, 2, 3));
        samba_graph_sink(made, output_of(made, name + 1, sum));
    }
    samba_status status = samba_graph_status(made);
    THEN(status, samba_graph_rewrite(made, NULL, NULL, &out));
    THEN(status, samba_graph_verify(out));
    return status;
}

TEST(refused_allocations) { fail_each_allocation(build_and_rewrite, NULL); }

/* ---- wrong calls ---- */

static samba_ref x, w, v, late, y;
static samba_attrs attrs;
static samba_sink again, assign;

static void one_input(void)
{
    x = input("x");
    attrs = leaf_attrs(g, "x", SIZES(6));
}

TEST(wrong_calls)
{
    samba_graph *none;
    const int64_t many[12] = {0};
    wrong(one_input, samba_graph_status, assert_int_equal(samba_emit_transpose(g, x, 0, 2), SAMBA_NONE));
    wrong(one_input, samba_graph_status, assert_int_equal(samba_emit_reshape(g, x, 12, many), SAMBA_NONE));
    wrong(one_input, samba_graph_status, assert_int_equal(samba_emit_reduce(g, SAMBA_OP_sum, x, 12, many), SAMBA_NONE));
    wrong(one_input, samba_graph_status, samba_emit(g, SAMBA_OP_add, 1, &x, NULL));
    wrong(one_input, samba_graph_status, samba_emit(g, SAMBA_OP_COUNT, 0, NULL, NULL));
    wrong(one_input, samba_graph_status, samba_emit1(g, SAMBA_OP_exp, 7));
    wrong(one_input, samba_graph_status, samba_emit1(g, SAMBA_OP_reshape, x));
    wrong(one_input, samba_graph_status, attrs.leaf.shape.count = 9, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs));
    wrong(one_input, samba_graph_status, attrs.leaf.dtype = 10, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs));
    wrong(one_input, samba_graph_status, attrs.leaf.name = 99, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs));
    wrong(one_input, samba_graph_status, attrs.leaf.name = 0, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs));
    wrong(one_input, samba_graph_status, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs));
    says(samba_graph_new(context, NULL, &none));
    says(samba_graph_new(context, "", &none));
    assert_null(none);
    samba_graph_free(NULL);
    assert_int_equal(samba_graph_status(NULL), SAMBA_ERROR_ARGUMENT);
}

static void two_sinks(void)
{
    x = input("x"), w = leaf(g, SAMBA_OP_parameter, "w", 2, 3), v = leaf(g, SAMBA_OP_parameter, "v", 3, 2);
    g->phase = SAMBA_BCKWD;
    late = samba_emit1(g, SAMBA_OP_exp, x);
    again = output_of(g, "out", x);
    assign = (samba_sink){.kind = SAMBA_SINK_ASSIGN, .phase = SAMBA_OPT, .target = w, .value = x};
    samba_graph_sink(g, again);
    samba_graph_sink(g, assign);
    assign.phase = SAMBA_BCKWD; /* another phase may assign again */
    samba_graph_sink(g, assign);
    need(samba_graph_status(g));
    need(samba_graph_verify(g));
}

TEST(wrong_sinks)
{
    wrong(two_sinks, samba_graph_status, samba_graph_sink(g, again));
    wrong(two_sinks, samba_graph_status, again.kind = SAMBA_SINK_LOSS, samba_graph_sink(g, again));
    wrong(two_sinks, samba_graph_status, again.name = 0, samba_graph_sink(g, again));
    wrong(two_sinks, samba_graph_status, samba_graph_sink(g, output_of(g, "w", x))); /* a leaf's name */
    wrong(two_sinks, samba_graph_status, samba_graph_sink(g, output_of(g, "o2", late)));
    wrong(two_sinks, samba_graph_status, assign.target = v, samba_graph_sink(g, assign)); /* another shape */
    wrong(two_sinks, samba_graph_status, samba_graph_sink(g, assign));
    wrong(two_sinks, samba_graph_status, assign.target = late, samba_graph_sink(g, assign));
    wrong(two_sinks, samba_graph_status, assign.target = SAMBA_NONE, samba_graph_sink(g, assign));
}

/* ---- broken graphs ---- */

static void sound(void)
{
    y = small_model(g, false, SAMBA_OP_add), x = samba_graph_leaf(g, "x");
    need(samba_graph_verify(g));
}

TEST(verify_finds_what_is_broken)
{
    samba_ref itself[2];
    samba_attrs empty = {0}; /* no name, and float32() */
    wrong(sound, samba_graph_verify, g->nodes[y].shape[0] = 5);
    wrong(sound, samba_graph_verify, g->nodes[y].dtype = SAMBA_FLOAT64);
    wrong(sound, samba_graph_verify, g->nodes[y].phase = SAMBA_ZEROGRAD, g->nodes[x].phase = SAMBA_FWD);
    wrong(sound, samba_graph_verify, itself[0] = x, itself[1] = y, g->nodes[y].inputs = itself);
    wrong(sound, samba_graph_verify, g->nodes[y].arity = 1);
    wrong(sound, samba_graph_verify, g->nodes[y].op = SAMBA_OP_COUNT);
    wrong(sound, samba_graph_verify, g->nodes[y].phase = SAMBA_PHASE_COUNT);
    wrong(sound, samba_graph_verify, g->nodes[x].attrs = &empty);
    wrong(sound, samba_graph_verify, g->sinks[0].value = 9);
    wrong(sound, samba_graph_verify, g->sinks[0].phase = SAMBA_ZEROGRAD);
    wrong(sound, samba_graph_verify, g->sinks[0].name = 0);
    wrong(sound, samba_graph_verify, g->nodes[y].op = SAMBA_OP_mul); /* no longer where the table has it */
    wrong(sound, samba_graph_verify, g->nodes[y].location.scope = 99);
}

TEST_MAIN_WITH(graph_begin, graph_end, equal_nodes_are_one, phases, many_nodes_and_names, wide_concat, the_first_error_stays,
               none_passes_silently, hash_is_of_the_structure, copying_drops_what_is_dead, rewriting, helpers,
               refused_allocations, wrong_calls, wrong_sinks, verify_finds_what_is_broken, every_message_said)
