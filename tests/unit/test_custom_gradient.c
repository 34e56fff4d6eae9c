/* SPDX-License-Identifier: Apache-2.0
 *
 * Values whose gradient the model says itself: the gradients that samba_graph_gradient and a compiled program give, against the
 * same formulas in C, where they are not the derivative of the value; what the text form keeps;
 * and what is refused, whoever wrote the graph. */
#include "traced.h"
#include <sambaflow/function.h>

#define N 4

/* round(x) y, whose gradients are: of x the incoming one cubed, of y its product with x */
static samba_value cubed(samba_value x, samba_value y)
{
    samba_value value = samba_mul(samba_round(x), y), grad = samba_grad_output(value);
    return samba_custom_gradient(value, grad, 2, (samba_value[]){x, y},
                                 (samba_value[]){samba_mul(grad, samba_mul(grad, grad)), samba_mul(grad, x)});
}

/* The same inside a value and a gradient of another one:
 * 3 cubed(x, y), whose gradient of x is cubed(incoming, y) and of y nothing. */
static samba_value nested(samba_value x, samba_value y)
{
    samba_value value = samba_mul_scalar(cubed(x, y), 3), grad = samba_grad_output(value);
    return samba_custom_gradient(value, grad, 1, &x, (samba_value[]){cubed(grad, y)});
}

/* Two of one value share a grad_output; each gets its own gradient there, 2 and 5 times. */
static samba_value shared(samba_value x, samba_value y)
{
    samba_value value = samba_mul(x, y), grad = samba_grad_output(value), square = samba_mul(grad, grad);
    samba_value a = samba_custom_gradient(value, grad, 1, &x, &square), b = samba_custom_gradient(value, grad, 1, &x, &grad);
    return samba_add(samba_mul_scalar(a, 2), samba_mul_scalar(b, 5));
}

typedef samba_value model(samba_value x, samba_value y);

static void of_cubed(double x, double y, double g, double r[3]) { r[0] = nearbyint(x) * y, r[1] = g * g * g, r[2] = g * x; }
static void of_nested(double x, double y, double g, double r[3])
{
    r[0] = 3 * nearbyint(x) * y, r[1] = nearbyint(g) * y, r[2] = 0;
}
static void of_shared(double x, double y, double g, double r[3]) { r[0] = 7 * x * y, r[1] = 4 * g * g + 5 * g, r[2] = 0; }

static const struct {
    const char *name;
    model *build;
    void (*expect)(double x, double y, double g, double r[3]);
} models[] = {{"cubed", cubed, of_cubed}, {"nested", nested, of_nested}, {"shared", shared, of_shared}};

static const double X[N] = {-1.7, 0.4, 2.6, 1.2}, Y[N] = {0.5, -3, 2, 1.5}, G[N] = {1.3, -0.6, 2.2, 0.1};

/* Of x, y and the incoming gradient, as many as the graph has. */
static void run_function(const samba_graph *graph, bool reference, int outputs, samba_tensor **results)
{
    samba_function_options options = samba_function_defaults();
    samba_function *f;
    samba_tensor *given[3];
    int count = 0;
    options.reference = reference;
    need(samba_function_new(context, graph, &options, &f));
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        assert_true(outputs == 1 || node->op != SAMBA_OP_grad_output); /* gradients have none left */
        if (node->op != SAMBA_OP_input)
            continue;
        const char *name = samba_graph_name_at(graph, node->attrs->leaf.name);
        given[count] = tensor(name, SAMBA_FLOAT64, 1, SHAPE(N));
        memcpy(samba_tensor_data(given[count++]), strcmp(name, "x") == 0 ? X : strcmp(name, "y") == 0 ? Y : G, sizeof X);
    }
    for (int i = 0; i < outputs; i++)
        results[i] = tensor("r", SAMBA_FLOAT64, 1, SHAPE(N));
    need(samba_function_run(f, given, results));
    free_each_tensor(count, given);
    samba_function_free(f);
}

static void expect(const samba_tensor *result, int which, size_t m)
{
    for (int i = 0; i < N; i++) {
        double wanted[3], found = ((const double *)samba_tensor_data(result))[i];
        models[m].expect(X[i], Y[i], G[i], wanted);
        if (!(fabs(found - wanted[which]) <= 1e-12 * (1 + fabs(wanted[which]))))
            fail_msg("%s: result %d[%d] is %.17g, expected %.17g", models[m].name, which, i, found, wanted[which]);
    }
}

TEST(values_and_gradients)
{
    for (size_t k = 0; k < 2 * SAMBA_COUNT(models); k++) {
        const size_t m = k / 2;
        const bool reference = k % 2 == 1;
        samba_graph *gradient, *again;
        samba_tensor *results[2];
        char *text;
        trace("x float64[4] y float64[4]");
        samba_output(traced, "z", models[m].build(in("x"), in("y")));
        need(samba_graph_status(traced));
        need(samba_graph_verify(traced));
        need(samba_graph_print(traced, &text));
        need(samba_graph_parse(context, text, &again)); /* the text has all of it */
        assert_int_equal(samba_graph_hash(again), samba_graph_hash(traced));
        run_function(again, reference, 1, results);
        expect(results[0], 0, m);
        samba_tensor_free(results[0]);
        need(samba_graph_gradient(again, 2, (const char *const[]){"x", "y"}, &gradient));
        run_function(gradient, reference, 2, results);
        expect(results[0], 1, m), expect(results[1], 2, m);
        free_each_tensor(2, results);
        samba_text_free(context, text);
        samba_graph_free(gradient), samba_graph_free(again);
        untrace();
    }
}

/* ---- what is refused ---- */

TEST(refusals)
{
    static const struct {
        samba_status status;
        const char *words, *body;
        int output; /* the node that is one */
    } texts[] = {
        {SAMBA_ERROR_FORMAT, "expected a value, its grad_output, and pairs", "%2 = custom_gradient %0 %1 : float32[4] @FWD", 2},
        {SAMBA_ERROR_FORMAT, "given 3 inputs", "%2 = custom_gradient %0 %1 %0 : float32[4] @FWD", 2},
        {SAMBA_ERROR_FORMAT, "input 1 must be a grad_output, given input", "%2 = custom_gradient %0 %0 %0 %1 : float32[4] @FWD",
         2},
        {SAMBA_ERROR_FORMAT, "input 3 must have the shape of input 2, (4), given (1)",
         "%2 = sum %1 dims=[0] : float32[1] @FWD\n%3 = custom_gradient %0 %1 %0 %2 : float32[4] @FWD", 3},
        {SAMBA_ERROR_ARGUMENT, "an output depends on a grad_output", "", 1},
        {SAMBA_ERROR_ARGUMENT, "an output depends on a grad_output",
         "%2 = custom_gradient %0 %1 %0 %1 : float32[4] @FWD\n%3 = add %1 %2 : float32[4] @FWD", 3},
        {SAMBA_ERROR_ARGUMENT, "a gradient that is another one's",
         "%2 = neg %0 : float32[4] @FWD\n%3 = grad_output %2 : float32[4] @FWD\n"
         "%4 = custom_gradient %0 %1 %0 %3 : float32[4] @FWD",
         4},
    };
    for (size_t i = 0; i < SAMBA_COUNT(texts); i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "graph \"g\"\n%%0 = input name=\"x\" dtype=float32 shape=[4] : float32[4]\n%%1 = grad_output %%0 : float32[4] "
                 "@FWD\n%s\noutput \"z\" %%%d @FWD\n",
                 texts[i].body, texts[i].output);
        samba_graph *g = NULL;
        samba_function *f;
        samba_status status = samba_graph_parse(context, text, &g);
        if (status == SAMBA_OK)
            status = samba_function_new(context, g, NULL, &f);
        refuse(status, texts[i].status, texts[i].words);
        samba_graph_free(g);
    }
    trace("x float32[4] i int64[4]");
    wrong_as(SAMBA_ERROR_ARGUMENT, samba_custom_gradient(in("x"), samba_grad_output(in("x")), 0, NULL, NULL),
             "expected 1 to 511 inputs and as many gradients, given 0 and NULL");
    wrong_as(SAMBA_ERROR_DTYPE, samba_grad_output(in("i")), "grad_output");
    untrace();
}

TEST_MAIN(values_and_gradients, refusals)
