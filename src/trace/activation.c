/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations. Those made of others are written so that the gradient autodiff finds is PyTorch's, at kinks too: a branch of
 * `where` gives no gradient to the other one. NaN is neither greater nor less, and goes the way that keeps it. */
#include "trace/promote.h"
#include "trace/shape.h"

#include <sambaflow/activation.h>
#include <math.h>

samba_value samba_glu(samba_value a, int dim)
{
    samba_graph *graph;
    samba_ref x;
    int at;
    if (!samba_trace_floating("glu", a, &graph, &x) || !samba_trace_dim(graph, "glu", samba_value_rank(a), dim, &at))
        return samba_trace_none(graph);
    samba_node node = samba_trace_node(a);
    if (node.rank == 0 || node.shape[at] % 2 != 0)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "glu", "expected an even size of dim %d, to halve it, given %s", at,
                                SAMBA_TYPE_OF(&node));
    int64_t half = node.shape[at] / 2;
    samba_ref gate = samba_emit1(graph, SAMBA_OP_sigmoid, samba_trace_slice(graph, x, at, half, 2 * half, 1));
    return samba_trace_result(graph, samba_emit2(graph, SAMBA_OP_mul, samba_trace_slice(graph, x, at, 0, half, 1), gate),
                              node.dtype);
}

/* ---- positive values as they are ---- */

samba_value samba_leaky_relu(samba_value a, double negative_slope)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_floating("leaky_relu", a, &graph, &x))
        return samba_trace_none(graph);
    return samba_trace_result(graph, E2(leaky_relu, x, CONSTANT(negative_slope, x)), samba_value_dtype(a));
}

samba_value samba_functional_prelu(samba_value a, samba_value weight)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_enter("prelu", 2, (samba_value[]){a, weight}, &graph) || !samba_trace_floating("prelu", a, &graph, &x))
        return samba_trace_none(graph);
    samba_node of = samba_trace_node(a), w = samba_trace_node(weight);
    int64_t channels = of.rank > 1 ? of.shape[1] : 1, shape[SAMBA_MAX_RANK];
    if (w.dtype != of.dtype || w.rank > 1 || (w.rank == 1 && w.shape[0] != 1 && w.shape[0] != channels))
        return samba_trace_fail_shape(graph, "prelu",
                                      "a weight of the input's dtype with one number, or one for each index of dim 1", &of, &w);
    samba_ref slope = samba_emit_lift(graph, weight.index);
    for (int d = 0; d < of.rank; d++)
        shape[d] = d == 1 && w.rank == 1 ? w.shape[0] : 1;
    slope = samba_emit_reshape(graph, slope, of.rank, shape);
    return samba_trace_result(graph, E2(leaky_relu, x, slope), samba_value_dtype(a));
}

/* scale x, and scale alpha (exp(x / width) - 1) where x is not positive */
static samba_value exponential(const char *what, samba_value a, double alpha, double scale, double width)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_floating(what, a, &graph, &x))
        return samba_trace_none(graph);
    /* so that exp is finite where it does not count */
    samba_ref above = EN(gt, x, 0), below = E3(where, above, CONSTANT(0, x), x);
    if (width != 1)
        below = EN(mul, below, 1 / width);
    samba_ref curve = E1(expm1, below), line = scale == 1 ? x : EN(mul, x, scale);
    if (alpha * scale != 1)
        curve = EN(mul, curve, alpha * scale);
    return samba_trace_result(graph, E3(where, above, line, curve), samba_value_dtype(a));
}

samba_value samba_elu(samba_value a, double alpha) { return exponential("elu", a, alpha, 1, 1); }
samba_value samba_selu(samba_value a)
{
    return exponential("selu", a, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}

samba_value samba_celu(samba_value a, double alpha)
{
    samba_graph *graph;
    if (alpha == 0 && samba_trace_enter("celu", 1, &a, &graph))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "celu", "alpha must not be 0");
    return exponential("celu", a, alpha, 1, alpha);
}

/* ---- between two bounds: at them the gradient is 0 ---- */

samba_value samba_hardtanh(samba_value a, double min, double max)
{
    samba_graph *graph;
    if (!samba_trace_enter("hardtanh", 1, &a, &graph))
        return samba_trace_none(graph);
    if (min > max)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "hardtanh", "min must not be greater than max, given %g and %g", min,
                                max);
    samba_dtype dtype = samba_value_dtype(a);
    if (dtype == SAMBA_BOOL)
        return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, "hardtanh",
                                "expected integers or floating-point, given bool; cast it first");
    samba_ref x = a.index, low = CONSTANT(samba_trace_held(min, dtype), x), high = CONSTANT(samba_trace_held(max, dtype), x);
    samba_ref most = E3(where, E2(ge, x, high), high, x), below = E2(le, x, low);
    return samba_trace_value(graph, E3(where, below, low, most));
}

samba_value samba_relu6(samba_value a)
{
    samba_graph *graph;
    if (!samba_trace_enter("relu6", 1, &a, &graph))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, "relu6");
    return samba_hardtanh(a, 0, 6);
}

/* (x + 3) / 6 of x between -3 and 3: as a product, of which 6 makes 1 too */
static samba_ref sixth(samba_graph *graph, samba_ref x)
{
    samba_ref low = CONSTANT(-3, x), high = CONSTANT(3, x);
    samba_ref above = E2(ge, x, high), most = E3(where, above, high, x), below = E2(le, x, low);
    samba_ref near = E3(where, below, low, most);
    return EN(mul, EN(add, near, 3), 1.0 / 6);
}

samba_value samba_hardsigmoid(samba_value a)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_floating("hardsigmoid", a, &graph, &x))
        return samba_trace_none(graph);
    return samba_trace_result(graph, sixth(graph, x), samba_value_dtype(a));
}

samba_value samba_threshold(samba_value a, double threshold, double value)
{
    samba_graph *graph;
    if (!samba_trace_enter("threshold", 1, &a, &graph))
        return samba_trace_none(graph);
    samba_dtype dtype = samba_value_dtype(a);
    if (dtype == SAMBA_BOOL)
        return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, "threshold",
                                "expected integers or floating-point, given bool; cast it first");
    samba_ref x = a.index, below = E2(le, x, CONSTANT(samba_trace_held(threshold, dtype), x));
    return samba_trace_value(graph, E3(where, below, CONSTANT(samba_trace_held(value, dtype), x), x));
}

/* ---- smooth ones ---- */

samba_value samba_softplus_beta(samba_value a, double beta, double threshold)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_floating("softplus", a, &graph, &x))
        return samba_trace_none(graph);
    samba_dtype dtype = samba_value_dtype(a);
    if (beta == 1 && threshold == 20 && dtype != SAMBA_FLOAT64) /* what the threshold cuts off is less than a digit of a float */
        return samba_softplus(a);
    samba_ref scaled = beta == 1 ? x : EN(mul, x, beta), y = E1(softplus, scaled);
    if (beta != 1)
        y = EN(div, y, beta);
    return samba_trace_result(graph, E3(where, EN(gt, scaled, threshold), x, y), dtype);
}

samba_value samba_log_sigmoid(samba_value a)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_floating("log_sigmoid", a, &graph, &x))
        return samba_trace_none(graph);
    return samba_trace_result(graph, E1(neg, E1(softplus, E1(neg, x))), samba_value_dtype(a));
}

/* ---- nothing near 0 ---- */

samba_value samba_hardshrink(samba_value a, double lambda)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_floating("hardshrink", a, &graph, &x))
        return samba_trace_none(graph);
    samba_ref by = CONSTANT(samba_trace_held(lambda, samba_value_dtype(a)), x);
    return samba_trace_result(graph, E2(hardshrink, x, by), samba_value_dtype(a));
}

samba_value samba_softshrink(samba_value a, double lambda)
{
    samba_graph *graph;
    samba_ref x;
    if (!samba_trace_floating("softshrink", a, &graph, &x))
        return samba_trace_none(graph);
    if (!(lambda >= 0))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "softshrink", "lambda must be 0 or more, given %g", lambda);
    samba_ref by = CONSTANT(samba_trace_held(lambda, samba_value_dtype(a)), x);
    return samba_trace_result(graph, E2(softshrink, x, by), samba_value_dtype(a));
}
