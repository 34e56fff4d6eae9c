/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph as a container: hash-consing over phases, names, sinks, the sticky error, rewriting, verifying, hashing, the emit
 * helpers and refused allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "failing_allocator.h"
#include "graph_fixture.h"
#include "ops/ops.h"
#include <math.h>

static samba_attrs leaf_attrs(samba_graph *graph, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.leaf.name = samba_graph_intern(graph, name);
    attrs.leaf.dtype = dtype;
    attrs.leaf.shape.count = rank;
    if (rank > 0)
        memcpy(attrs.leaf.shape.at, shape, (size_t)rank * sizeof *shape);
    return attrs;
}

static samba_ref leaf(samba_graph *graph, samba_op op, const char *name, int64_t rows, int64_t columns)
{
    samba_attrs attrs = leaf_attrs(graph, name, SAMBA_FLOAT32, 2, (int64_t[]){rows, columns});
    return samba_emit(graph, op, 0, NULL, &attrs);
}

static samba_ref input(samba_graph *graph, const char *name) { return leaf(graph, SAMBA_OP_input, name, 2, 3); }

static void expect_failure(samba_graph *graph, samba_status status, const char *words)
{
    assert_int_equal(samba_graph_status(graph), status);
    if (!strstr(samba_error_message(graph->context), words))
        fail_msg("\"%s\" is not in \"%s\"", words, samba_error_message(graph->context));
}

/* ---- nodes ---- */

static void equal_nodes_are_one(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_ref x = input(g, "x"), y = input(g, "y");
    assert_int_not_equal(x, y);
    assert_int_equal(input(g, "x"), x);
    samba_ref sum = samba_emit2(g, SAMBA_OP_add, x, y);
    assert_int_equal(samba_emit2(g, SAMBA_OP_add, x, y), sum);
    assert_int_not_equal(samba_emit2(g, SAMBA_OP_add, y, x), sum);
    assert_int_not_equal(samba_emit2(g, SAMBA_OP_mul, x, y), sum);
    assert_int_equal(samba_emit_constant(g, 1, SAMBA_FLOAT32), samba_emit_constant(g, 1, SAMBA_FLOAT32));
    assert_int_not_equal(samba_emit_constant(g, 1, SAMBA_FLOAT32), samba_emit_constant(g, 1, SAMBA_FLOAT64));
    assert_int_not_equal(samba_emit_constant(g, 0.0, SAMBA_FLOAT32), samba_emit_constant(g, -0.0, SAMBA_FLOAT32));
    assert_int_equal(samba_emit_constant(g, NAN, SAMBA_FLOAT32), samba_emit_constant(g, -NAN, SAMBA_FLOAT32));
    assert_int_equal(samba_graph_status(g), SAMBA_OK);
    assert_int_equal(samba_graph_verify(g), SAMBA_OK);
}

static void rubbish_behind_lists_does_not_count(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_ref x = input(g, "x");
    samba_attrs attrs;
    memset(&attrs, 0xEE, sizeof attrs);
    attrs.shape.shape = (samba_dims){.count = 1, .at = {6, 77, 78}};
    samba_ref a = samba_emit(g, SAMBA_OP_reshape, 1, &x, &attrs);
    assert_int_equal(a, samba_emit_reshape(g, x, 1, (int64_t[]){6}));
    assert_int_equal(samba_graph_verify(g), SAMBA_OK);
}

static void phases(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_ref x = input(g, "x");
    assert_int_equal(g->phase, SAMBA_FWD);
    samba_ref forward = samba_emit1(g, SAMBA_OP_exp, x);
    assert_int_equal(g->nodes[x].phase, SAMBA_ZEROGRAD);
    assert_int_equal(g->nodes[forward].phase, SAMBA_FWD);
    g->phase = SAMBA_BCKWD;
    assert_int_equal(input(g, "x"), x);
    assert_int_equal(samba_emit1(g, SAMBA_OP_exp, x), forward); /* an earlier one is found */
    samba_ref backward = samba_emit1(g, SAMBA_OP_log, x);
    assert_int_equal(g->nodes[backward].phase, SAMBA_BCKWD);
    g->recompute = true;
    samba_ref again = samba_emit1(g, SAMBA_OP_exp, x);
    assert_int_not_equal(again, forward);
    assert_int_equal(g->nodes[again].phase, SAMBA_BCKWD);
    assert_int_equal(input(g, "x"), x);
    g->recompute = false;
    assert_int_equal(samba_emit1(g, SAMBA_OP_exp, x), forward); /* the earliest of two */
    g->phase = SAMBA_FWD;
    samba_ref later = samba_emit1(g, SAMBA_OP_neg, backward); /* never before its inputs */
    assert_int_equal(g->nodes[later].phase, SAMBA_BCKWD);
    assert_int_not_equal(samba_emit1(g, SAMBA_OP_log, x), backward); /* a later one is not found */
    assert_int_equal(samba_graph_verify(g), SAMBA_OK);
}

static void many_nodes_and_names(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_ref refs[3000];
    char name[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3000; i++) {
            snprintf(name, sizeof name, "leaf%d", i);
            samba_ref ref = input(g, name);
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

static void wide_concat(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_ref x = input(g, "x"), inputs[SAMBA_MAX_ARITY + 1];
    for (int i = 0; i <= SAMBA_MAX_ARITY; i++)
        inputs[i] = x;
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    samba_ref all = samba_emit(g, SAMBA_OP_concat, SAMBA_MAX_ARITY, inputs, &attrs);
    assert_int_equal(g->nodes[all].shape[0], 2 * SAMBA_MAX_ARITY);
    assert_int_equal(samba_emit(g, SAMBA_OP_concat, SAMBA_MAX_ARITY + 1, inputs, &attrs), SAMBA_NONE);
    expect_failure(g, SAMBA_ERROR_ARGUMENT, "concat: expected 1 input or more");
}

/* ---- errors ---- */

static void the_first_error_stays(void **state)
{
    fixture *f = *state;
    samba_graph *g = f->graph;
    samba_ref x = input(g, "x"), y = leaf(g, SAMBA_OP_input, "y", 4, 5);
    g->location.scope = samba_graph_intern(g, "block0.attn");
    assert_int_equal(samba_emit2(g, SAMBA_OP_add, x, y), SAMBA_NONE);
    expect_failure(g, SAMBA_ERROR_SHAPE, "add at block0.attn: ");
    samba_fail(f->context, SAMBA_ERROR_FILE, "something else");
    samba_graph_fail(g, SAMBA_ERROR_NAME, "later");
    assert_int_equal(samba_emit1(g, SAMBA_OP_exp, x), SAMBA_NONE);
    assert_int_equal(samba_graph_intern(g, "new"), 0);
    expect_failure(g, SAMBA_ERROR_SHAPE, "add at block0.attn: "); /* given again */
    char *text;
    assert_int_equal(samba_graph_print(g, &text), SAMBA_ERROR_SHAPE);
    assert_null(text);
    assert_int_equal(samba_graph_verify(g), SAMBA_ERROR_SHAPE);
}

static void none_passes_silently(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    assert_int_equal(samba_emit1(g, SAMBA_OP_exp, SAMBA_NONE), SAMBA_NONE);
    assert_int_equal(samba_emit_reshape(g, SAMBA_NONE, 0, NULL), SAMBA_NONE);
    assert_int_equal(samba_emit_permute(g, SAMBA_NONE, NULL), SAMBA_NONE);
    assert_int_equal(samba_emit_transpose(g, SAMBA_NONE, 0, 1), SAMBA_NONE);
    assert_int_equal(samba_emit_cast(g, SAMBA_NONE, SAMBA_FLOAT32), SAMBA_NONE);
    assert_int_equal(samba_emit_sum_to(g, SAMBA_NONE, 0, NULL), SAMBA_NONE);
    assert_int_equal(samba_emit_scalar(g, SAMBA_OP_add, SAMBA_NONE, 1), SAMBA_NONE);
    samba_graph_sink(g, (samba_sink){.kind = SAMBA_SINK_OUTPUT, .value = SAMBA_NONE});
    assert_int_equal(samba_graph_status(g), SAMBA_OK);
}

static void wrong_calls(void **state)
{
    samba_context *context = ((fixture *)*state)->context;
    for (int which = 0; which < 9; which++) {
        samba_graph *g;
        assert_int_equal(samba_graph_new(context, "wrong", &g), SAMBA_OK);
        samba_ref x = input(g, "x");
        samba_attrs attrs = leaf_attrs(g, "x", SAMBA_FLOAT32, 1, (int64_t[]){6});
        samba_status status = SAMBA_ERROR_ARGUMENT;
        const char *words = "";
        switch (which) {
        case 0: samba_emit(g, SAMBA_OP_add, 1, &x, NULL), words = "add: expected 2 inputs, given 1"; break;
        case 1: samba_emit(g, SAMBA_OP_COUNT, 0, NULL, NULL), status = SAMBA_ERROR_INTERNAL; break;
        case 2: samba_emit1(g, SAMBA_OP_exp, 7), status = SAMBA_ERROR_INTERNAL; break;
        case 3: samba_emit1(g, SAMBA_OP_reshape, x), words = "needs attributes of the kind shape"; break;
        case 4: attrs.leaf.shape.count = 9, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs), words = "shape has 9 numbers"; break;
        case 5: attrs.leaf.dtype = 10, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs), words = "is no dtype"; break;
        case 6: attrs.leaf.name = 99, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs), words = "is no name"; break;
        case 7: attrs.leaf.name = 0, samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs), status = SAMBA_ERROR_NAME; break;
        case 8:
            samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs), status = SAMBA_ERROR_NAME;
            words = "the name \"x\" is taken: input float32(2, 3) was made first, input float32(6)";
            break;
        }
        expect_failure(g, status, words);
        samba_graph_free(g);
    }
    samba_graph *none;
    assert_int_equal(samba_graph_new(context, NULL, &none), SAMBA_ERROR_ARGUMENT);
    assert_int_equal(samba_graph_new(context, "", &none), SAMBA_ERROR_ARGUMENT);
    assert_null(none);
    samba_graph_free(NULL);
    assert_int_equal(samba_graph_status(NULL), SAMBA_ERROR_ARGUMENT);
}

/* ---- sinks ---- */

static void wrong_sinks(void **state)
{
    samba_context *context = ((fixture *)*state)->context;
    for (int which = 0; which < 9; which++) {
        samba_graph *g;
        assert_int_equal(samba_graph_new(context, "wrong", &g), SAMBA_OK);
        samba_ref x = input(g, "x"), w = leaf(g, SAMBA_OP_parameter, "w", 2, 3), v = leaf(g, SAMBA_OP_parameter, "v", 3, 2);
        g->phase = SAMBA_BCKWD;
        samba_ref late = samba_emit1(g, SAMBA_OP_exp, x);
        uint32_t name = samba_graph_intern(g, "out");
        samba_sink good = {.kind = SAMBA_SINK_OUTPUT, .phase = SAMBA_FWD, .name = name, .target = SAMBA_NONE, .value = x};
        samba_sink assign = {.kind = SAMBA_SINK_ASSIGN, .phase = SAMBA_OPT, .target = w, .value = x}, bad = good;
        samba_graph_sink(g, good);
        samba_graph_sink(g, assign);
        assign.phase = SAMBA_BCKWD; /* another phase may assign again */
        samba_graph_sink(g, assign);
        assert_int_equal(samba_graph_status(g), SAMBA_OK);
        assert_int_equal(samba_graph_verify(g), SAMBA_OK);
        samba_status status = SAMBA_ERROR_INTERNAL;
        switch (which) {
        case 0: status = SAMBA_ERROR_NAME; break; /* the same output again */
        case 1: bad.kind = SAMBA_SINK_LOSS, status = SAMBA_ERROR_NAME; break;
        case 2: bad.name = 0, status = SAMBA_ERROR_NAME; break;
        case 3: bad.name = samba_graph_intern(g, "w"), status = SAMBA_ERROR_NAME; break; /* a leaf's */
        case 4: bad.name = samba_graph_intern(g, "o2"), bad.value = late; break;         /* computed after its phase */
        case 5: bad = assign, bad.target = v; break;                                     /* another shape */
        case 6: bad = assign; break;                                                     /* twice in a phase */
        case 7: bad = assign, bad.target = late; break;
        case 8: bad = assign, bad.target = SAMBA_NONE; break;
        }
        samba_graph_sink(g, bad);
        expect_failure(g, status, "");
        samba_graph_free(g);
    }
}

/* ---- hashing ---- */

static samba_ref small_model(samba_graph *g, bool names_first, samba_op op)
{
    if (names_first) {
        samba_graph_intern(g, "out");
        samba_graph_intern(g, "w");
    }
    samba_ref x = input(g, "x"), w = leaf(g, SAMBA_OP_parameter, "w", 2, 3);
    samba_ref y = samba_emit2(g, op, x, w);
    samba_graph_sink(g, (samba_sink){.kind = SAMBA_SINK_OUTPUT,
                                     .phase = SAMBA_FWD,
                                     .name = samba_graph_intern(g, "out"),
                                     .target = SAMBA_NONE,
                                     .value = y});
    return y;
}

static uint64_t hash_of(samba_context *context, bool names_first, samba_op op, const char *scope, bool more)
{
    samba_graph *g;
    assert_int_equal(samba_graph_new(context, scope ? scope : "hash", &g), SAMBA_OK);
    g->location.scope = scope ? samba_graph_intern(g, scope) : 0;
    samba_ref y = small_model(g, names_first, op);
    if (more)
        samba_emit1(g, SAMBA_OP_exp, y);
    assert_int_equal(samba_graph_status(g), SAMBA_OK);
    uint64_t hash = samba_graph_hash(g);
    samba_graph_free(g);
    return hash;
}

static void hash_is_of_the_structure(void **state)
{
    samba_context *context = ((fixture *)*state)->context;
    uint64_t hash = hash_of(context, false, SAMBA_OP_add, NULL, false);
    assert_true(hash == hash_of(context, true, SAMBA_OP_add, NULL, false)); /* indices of names differ */
    assert_true(hash == hash_of(context, false, SAMBA_OP_add, "scope", false));
    assert_true(hash != hash_of(context, false, SAMBA_OP_mul, NULL, false));
    assert_true(hash != hash_of(context, false, SAMBA_OP_add, NULL, true));
}

/* ---- rewriting ---- */

static void copying_drops_what_is_dead(void **state)
{
    fixture *f = *state;
    samba_graph *g = f->graph, *out;
    input(g, "unused"); /* inputs stay */
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
    assert_int_equal(samba_graph_status(g), SAMBA_OK);
    assert_int_equal(samba_graph_rewrite(g, NULL, NULL, &out), SAMBA_OK);
    assert_int_equal(samba_graph_verify(out), SAMBA_OK);
    assert_int_equal(out->node_count, 5); /* unused, x, w and the sum in two phases */
    assert_int_equal(out->sink_count, 2);
    assert_int_not_equal(samba_graph_leaf(out, "unused"), SAMBA_NONE);
    assert_int_equal(samba_graph_leaf(out, "dead"), SAMBA_NONE);
    const samba_node *copy = samba_node_at(out, out->sinks[1].value);
    assert_int_equal(copy->phase, SAMBA_BCKWD);
    assert_string_equal(samba_graph_name_at(out, copy->location.scope), "scope");
    assert_int_equal(out->sinks[1].target, samba_graph_leaf(out, "w"));
    samba_graph *twice;
    assert_int_equal(samba_graph_rewrite(out, NULL, NULL, &twice), SAMBA_OK);
    assert_true(samba_graph_hash(twice) == samba_graph_hash(out));
    samba_graph_free(twice);
    samba_graph_free(out);
}

/* add becomes mul; user counts nodes seen */
static samba_ref multiply_instead(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    (*(int *)rewriter->user)++;
    if (samba_node_at(rewriter->in, ref)->op == SAMBA_OP_add)
        return samba_emit2(rewriter->out, SAMBA_OP_mul, inputs[0], inputs[1]);
    return samba_rewrite_copy(rewriter, ref, inputs);
}

static samba_ref give_nothing(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    (void)rewriter;
    (void)ref;
    (void)inputs;
    return SAMBA_NONE;
}

static samba_ref give_error(samba_rewriter *rewriter, samba_ref ref, const samba_ref *inputs)
{
    (void)ref;
    (void)inputs;
    return samba_graph_fail(rewriter->out, SAMBA_ERROR_UNSUPPORTED, "not this");
}

static void rewriting(void **state)
{
    fixture *f = *state;
    small_model(f->graph, false, SAMBA_OP_add);
    samba_graph *out;
    int seen = 0;
    assert_int_equal(samba_graph_rewrite(f->graph, multiply_instead, &seen, &out), SAMBA_OK);
    assert_int_equal(seen, 3);
    assert_int_equal(samba_node_at(out, out->sinks[0].value)->op, SAMBA_OP_mul);
    assert_int_equal(out->phase, SAMBA_FWD);
    assert_false(out->recompute);
    samba_graph_free(out);
    assert_int_equal(samba_graph_rewrite(f->graph, give_nothing, NULL, &out), SAMBA_ERROR_INTERNAL);
    assert_null(out);
    assert_non_null(strstr(samba_error_message(f->context), "rewriting input %0 gave no node and no error"));
    assert_int_equal(samba_graph_rewrite(f->graph, give_error, NULL, &out), SAMBA_ERROR_UNSUPPORTED);
    assert_null(out);
}

static void empty_graph(void **state)
{
    fixture *f = *state;
    samba_graph *out;
    assert_int_equal(samba_graph_rewrite(f->graph, NULL, NULL, &out), SAMBA_OK);
    assert_int_equal(samba_graph_verify(out), SAMBA_OK);
    assert_true(samba_graph_hash(out) == samba_graph_hash(f->graph));
    samba_graph_free(out);
}

/* ---- verifying ---- */

static void verify_finds_what_is_broken(void **state)
{
    samba_context *context = ((fixture *)*state)->context;
    for (int which = 0; which < 13; which++) {
        samba_graph *g;
        assert_int_equal(samba_graph_new(context, "broken", &g), SAMBA_OK);
        samba_ref y = small_model(g, false, SAMBA_OP_add), x = samba_graph_leaf(g, "x");
        samba_ref inputs[2] = {x, y};
        assert_int_equal(samba_graph_verify(g), SAMBA_OK);
        samba_attrs attrs = {0};
        samba_node *node = &g->nodes[y];
        switch (which) {
        case 0: node->shape[0] = 5; break;
        case 1: node->dtype = SAMBA_FLOAT64; break;
        case 2: node->phase = SAMBA_ZEROGRAD, g->nodes[x].phase = SAMBA_FWD; break;
        case 3: node->inputs = inputs; break; /* itself */
        case 4: node->arity = 1; break;
        case 5: node->op = SAMBA_OP_COUNT; break;
        case 6: node->phase = SAMBA_PHASE_COUNT; break;
        case 7: g->nodes[x].attrs = &attrs; break; /* no name, and float32[] */
        case 8: g->sinks[0].value = 9; break;
        case 9: g->sinks[0].phase = SAMBA_ZEROGRAD; break;
        case 10: g->sinks[0].name = 0; break;
        case 11: node->op = SAMBA_OP_mul; break; /* no longer where the table has it */
        case 12: node->location.scope = 99; break;
        }
        assert_int_equal(samba_graph_verify(g), SAMBA_ERROR_INTERNAL);
        assert_non_null(strstr(samba_error_message(context), "graph \"broken\": "));
        samba_graph_free(g);
    }
}

/* ---- emit helpers ---- */

static void helpers(void **state)
{
    samba_graph *g = ((fixture *)*state)->graph;
    samba_attrs attrs = leaf_attrs(g, "x", SAMBA_FLOAT32, 3, (int64_t[]){2, 1, 3});
    samba_ref x = samba_emit(g, SAMBA_OP_input, 0, NULL, &attrs);
    assert_int_equal(samba_emit_reshape(g, x, 3, (int64_t[]){2, 1, 3}), x);
    assert_int_equal(samba_emit_expand(g, x, 3, (int64_t[]){2, 1, 3}), x);
    assert_int_equal(samba_emit_permute(g, x, (int64_t[]){0, 1, 2}), x);
    assert_int_equal(samba_emit_transpose(g, x, 1, -2), x);
    assert_int_equal(samba_emit_cast(g, x, SAMBA_FLOAT32), x);
    assert_int_equal(samba_emit_reduce(g, SAMBA_OP_sum, x, 0, NULL), x);
    assert_int_equal(samba_emit_sum_to(g, x, 3, (int64_t[]){2, 1, 3}), x);
    samba_ref t = samba_emit_transpose(g, x, 0, -1);
    assert_true(samba_shape_equal(3, g->nodes[t].shape, 3, (int64_t[]){3, 1, 2}));
    assert_int_equal(samba_emit_reduce(g, SAMBA_OP_amax, x, 2, (int64_t[]){2, 0}),
                     samba_emit_reduce(g, SAMBA_OP_amax, x, 2, (int64_t[]){0, 2}));
    samba_ref wide = samba_emit_expand(g, x, 4, (int64_t[]){5, 2, 4, 3});
    samba_ref back = samba_emit_sum_to(g, wide, 3, (int64_t[]){2, 1, 3});
    assert_true(samba_shape_equal(g->nodes[back].rank, g->nodes[back].shape, 3, (int64_t[]){2, 1, 3}));
    assert_int_equal(g->nodes[samba_emit_sum_to(g, wide, 0, NULL)].rank, 0);
    samba_ref half = samba_emit_scalar(g, SAMBA_OP_mul, samba_emit_cast(g, x, SAMBA_BFLOAT16), 0.5);
    assert_int_equal(g->nodes[half].dtype, SAMBA_BFLOAT16);
    assert_int_equal(samba_graph_verify(g), SAMBA_OK);
    assert_int_equal(samba_emit_sum_to(g, x, 1, (int64_t[]){2}), SAMBA_NONE);
    expect_failure(g, SAMBA_ERROR_INTERNAL, "(2, 1, 3) cannot be summed down to (2)");
}

static void helper_errors(void **state)
{
    samba_context *context = ((fixture *)*state)->context;
    for (int which = 0; which < 3; which++) {
        samba_graph *g;
        assert_int_equal(samba_graph_new(context, "wrong", &g), SAMBA_OK);
        samba_ref x = input(g, "x"), y = SAMBA_NONE;
        int64_t many[12] = {0};
        if (which == 0)
            y = samba_emit_transpose(g, x, 0, 2);
        else if (which == 1)
            y = samba_emit_reshape(g, x, 12, many);
        else
            y = samba_emit_reduce(g, SAMBA_OP_sum, x, 12, many);
        assert_int_equal(y, SAMBA_NONE);
        assert_int_not_equal(samba_graph_status(g), SAMBA_OK);
        samba_graph_free(g);
    }
}

/* ---- memory ---- */

static samba_status build_and_rewrite(samba_context *context, void *user)
{
    (void)user;
    samba_graph *g, *out = NULL;
    SAMBA_TRY(samba_graph_new(context, "memory", &g));
    char name[32];
    samba_ref y = small_model(g, false, SAMBA_OP_add);
    for (int i = 0; i < 70; i++) { /* all arrays and tables grow */
        snprintf(name, sizeof name, "leaf%d", i);
        y = samba_emit2(g, SAMBA_OP_add, y, input(g, name));
        samba_graph_sink(g, (samba_sink){.kind = SAMBA_SINK_OUTPUT,
                                         .phase = SAMBA_FWD,
                                         .name = samba_graph_intern(g, name + 1),
                                         .target = SAMBA_NONE,
                                         .value = y});
    }
    samba_status status = samba_graph_status(g);
    if (status == SAMBA_OK)
        status = samba_graph_rewrite(g, NULL, NULL, &out);
    if (status == SAMBA_OK)
        status = samba_graph_verify(out);
    samba_graph_free(out);
    samba_graph_free(g);
    return status;
}

static void refused_allocations(void **state)
{
    (void)state;
    fail_each_allocation(build_and_rewrite, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_nodes_are_one, setup, teardown),
        cmocka_unit_test_setup_teardown(rubbish_behind_lists_does_not_count, setup, teardown),
        cmocka_unit_test_setup_teardown(phases, setup, teardown),
        cmocka_unit_test_setup_teardown(many_nodes_and_names, setup, teardown),
        cmocka_unit_test_setup_teardown(wide_concat, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_error_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(none_passes_silently, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_sinks, setup, teardown),
        cmocka_unit_test_setup_teardown(hash_is_of_the_structure, setup, teardown),
        cmocka_unit_test_setup_teardown(copying_drops_what_is_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(rewriting, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_graph, setup, teardown),
        cmocka_unit_test_setup_teardown(verify_finds_what_is_broken, setup, teardown),
        cmocka_unit_test_setup_teardown(helpers, setup, teardown),
        cmocka_unit_test_setup_teardown(helper_errors, setup, teardown),
        cmocka_unit_test(refused_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
