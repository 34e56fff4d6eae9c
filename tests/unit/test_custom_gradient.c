/* SPDX-License-Identifier: Apache-2.0
 *
 * Values whose gradient the model says itself: the gradients that samba_graph_gradient and a compiled program give, against the
 * same formulas in C, where they are not the derivative of the value; what the text form keeps; gradients inside the graph, and
 * of those gradients; and what is refused, whoever wrote the graph. */
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

/* ---- gradients inside the graph ---- */

/* tanh(v) y with v a variable of x: its first and second derivatives, and by what it does not depend on. */
TEST(gradients_inside)
{
    for (int reference = 0; reference < 2; reference++) {
        samba_tensor *results[5];
        samba_value first, second[2], none_there;
        bool depends[2] = {false, false};
        trace("x float64[4] y float64[4]");
        samba_value x = in("x"), y = in("y"), v = samba_variable(x), other = samba_variable(x);
        samba_value z = samba_mul(samba_tanh(v), y), of_x;
        samba_gradients(1, &z, NULL, 1, &v, &first, NULL);
        samba_gradients(1, &z, NULL, 1, &x, &of_x, NULL);
        samba_gradients(1, &first, &x, 2, (samba_value[]){v, y}, second, depends);
        assert_true(depends[0] && depends[1]);
        samba_gradients(1, &z, NULL, 1, &other, &none_there, depends);
        assert_false(depends[0]);
        samba_value all[5] = {first, of_x, second[0], second[1], none_there};
        for (int i = 0; i < 5; i++)
            samba_output(traced, (char[]){(char)('a' + i), 0}, all[i]);
        need(samba_graph_status(traced));
        need(samba_graph_verify(traced));
        run_function(traced, reference, 5, results);
        for (int i = 0; i < N; i++) {
            double t = tanh(X[i]), slope = 1 - t * t;
            const double wanted[5] = {slope * Y[i], slope * Y[i], -2 * t * slope * Y[i] * X[i], slope * X[i], 0};
            for (int k = 0; k < 5; k++)
                assert_true(fabs(((const double *)samba_tensor_data(results[k]))[i] - wanted[k]) < 1e-12);
        }
        free_each_tensor(5, results);
        untrace();
    }
}

static samba_value gradient_of(samba_value y, const samba_value *start, samba_value x)
{
    samba_value found;
    samba_gradients(1, &y, start, 1, &x, &found, NULL);
    return found;
}

/* The gradient of exp(x), with its backward by its own result: its second derivative goes through the value again. */
TEST(custom_gradients_in_their_turn)
{
    samba_tensor *result;
    trace("x float64[4] y float64[4]");
    samba_value x = in("x"), e = samba_exp(x), value = samba_detach(e), grad = samba_grad_output(value);
    samba_value slope = samba_mul(grad, value), y = samba_custom_gradient(value, grad, 1, &x, &slope);
    samba_value first = gradient_of(samba_mul(y, in("y")), NULL, x), second = gradient_of(first, NULL, x);
    samba_output(traced, "both", samba_add(first, samba_mul_scalar(second, 2)));
    run_function(traced, true, 1, &result);
    for (int i = 0; i < N; i++)
        assert_true(fabs(((const double *)samba_tensor_data(result))[i] - 3 * exp(X[i]) * Y[i]) < 1e-11);
    samba_tensor_free(result);
    untrace();
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
    wrong_as(SAMBA_ERROR_DTYPE, samba_variable(in("i")), "variable");
    wrong_as(SAMBA_ERROR_DTYPE, gradient_of(in("x"), NULL, in("i")), "gradients");
    samba_value start = samba_sum(in("x"), 0, NULL, false);
    wrong_as(SAMBA_ERROR_SHAPE, gradient_of(in("x"), &start, in("x")), "output 0 starts from a gradient of its dtype and shape");
    samba_gradients(0, NULL, NULL, 1, &start, &start, NULL); /* of no graph */
    untrace();
}

TEST_MAIN(values_and_gradients, gradients_inside, custom_gradients_in_their_turn, refusals)
