/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operators of real numbers, and those that are of real numbers and integers alike, as nodes of ONNX. */
#include "onnx/write.h"
#include <math.h>

/* A number in what the node is computed in. */
static const char *number(samba_onnx_writer *w, const samba_node *node, double value)
{
    return samba_onnx_number_of(w, samba_onnx_wide((samba_dtype)node->dtype), value);
}

static bool of_floats(const samba_node *node) { return samba_onnx_is_float((samba_dtype)node->dtype); }

/* ---- one operand ---- */

const char *samba_onnx_write_unary(samba_onnx_writer *w, const samba_node *node)
{
    static const struct {
        samba_op op;
        const char *name;
    } names[] = {{SAMBA_OP_exp, "Exp"},           {SAMBA_OP_log, "Log"},         {SAMBA_OP_sin, "Sin"},
                 {SAMBA_OP_cos, "Cos"},           {SAMBA_OP_tan, "Tan"},         {SAMBA_OP_asin, "Asin"},
                 {SAMBA_OP_acos, "Acos"},         {SAMBA_OP_atan, "Atan"},       {SAMBA_OP_sinh, "Sinh"},
                 {SAMBA_OP_cosh, "Cosh"},         {SAMBA_OP_asinh, "Asinh"},     {SAMBA_OP_acosh, "Acosh"},
                 {SAMBA_OP_atanh, "Atanh"},       {SAMBA_OP_sqrt, "Sqrt"},       {SAMBA_OP_reciprocal, "Reciprocal"},
                 {SAMBA_OP_tanh, "Tanh"},         {SAMBA_OP_sigmoid, "Sigmoid"}, {SAMBA_OP_erf, "Erf"},
                 {SAMBA_OP_softplus, "Softplus"}, {SAMBA_OP_det, "Det"}};
    const char *name = NULL, *a = samba_onnx_given_wide(w, node, 0);
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (names[i].op == (samba_op)node->op)
            name = names[i].name;
    if (!name) {
        samba_onnx_cannot(w, node, "it has no name in ONNX");
        return "";
    }
    a = samba_onnx_put1(w, name, a);
    return samba_onnx_narrow(w, node, a);
}

/* Of matrices without elements it is a constant. */
bool samba_onnx_own_det(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node, const samba_ref *inputs)
{
    const samba_node *a = samba_node_at(graph, inputs[0]);
    (void)w, (void)node;
    return a->shape[a->rank - 1] > 0;
}

const char *samba_onnx_write_neg(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0);
    a = samba_onnx_put1(w, "Neg", a);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_abs(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0);
    a = samba_onnx_put1(w, "Abs", a);
    return samba_onnx_narrow(w, node, a);
}

/* ONNX leaves open what the sign of NaN is: here 0. */
const char *samba_onnx_write_sign(samba_onnx_writer *w, const samba_node *node)
{
    samba_dtype wide = samba_onnx_wide((samba_dtype)node->dtype);
    const char *a = samba_onnx_given_wide(w, node, 0), *zero = number(w, node, 0);
    const char *above = samba_onnx_put2(w, "Greater", a, zero), *below = samba_onnx_put2(w, "Less", a, zero);
    above = samba_onnx_put_cast(w, above, SAMBA_BOOL, wide);
    below = samba_onnx_put_cast(w, below, SAMBA_BOOL, wide);
    a = samba_onnx_put2(w, "Sub", above, below);
    return samba_onnx_narrow(w, node, a);
}

static const char *truncated(samba_onnx_writer *w, const char *a, samba_dtype dtype)
{
    const char *zero = samba_onnx_number_of(w, dtype, 0), *below = samba_onnx_put2(w, "Less", a, zero);
    const char *up = samba_onnx_put1(w, "Ceil", a), *down = samba_onnx_put1(w, "Floor", a);
    return samba_onnx_put_where(w, below, up, down);
}

const char *samba_onnx_write_rounded(samba_onnx_writer *w, const samba_node *node)
{
    if (!of_floats(node))
        return samba_onnx_given(w, node, 0);
    const char *a = samba_onnx_given_wide(w, node, 0);
    if (node->op == SAMBA_OP_trunc)
        a = truncated(w, a, samba_onnx_wide((samba_dtype)node->dtype));
    else
        a = samba_onnx_put1(w,
                            node->op == SAMBA_OP_floor  ? "Floor"
                            : node->op == SAMBA_OP_ceil ? "Ceil"
                                                        : "Round",
                            a); /* halves to even */
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_frac(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0), *whole = truncated(w, a, samba_onnx_wide((samba_dtype)node->dtype));
    a = samba_onnx_put2(w, "Sub", a, whole);
    return samba_onnx_narrow(w, node, a);
}

/* With all digits near 0: log(u) x / (u - 1), u = 1 + x rounded, in which the error of u goes out. */
const char *samba_onnx_log1p(samba_onnx_writer *w, const char *x, samba_dtype dtype)
{
    const char *one = samba_onnx_number_of(w, dtype, 1), *infinity = samba_onnx_number_of(w, dtype, INFINITY);
    const char *u = samba_onnx_put2(w, "Add", x, one), *step = samba_onnx_put2(w, "Sub", u, one);
    const char *log_u = samba_onnx_put1(w, "Log", u), *ratio = samba_onnx_put2(w, "Div", x, step);
    const char *result = samba_onnx_put2(w, "Mul", log_u, ratio), *same = samba_onnx_put2(w, "Equal", u, one);
    const char *far = samba_onnx_put2(w, "Equal", u, infinity);
    same = samba_onnx_put2(w, "Or", same, far);
    return samba_onnx_put_where(w, same, x, result);
}

const char *samba_onnx_write_log1p(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0);
    a = samba_onnx_log1p(w, a, samba_onnx_wide((samba_dtype)node->dtype));
    return samba_onnx_narrow(w, node, a);
}

/* (u - 1) x / log(u), u = exp(x), likewise. */
const char *samba_onnx_write_expm1(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = samba_onnx_given_wide(w, node, 0), *one = number(w, node, 1), *infinity = number(w, node, INFINITY);
    const char *u = samba_onnx_put1(w, "Exp", x), *step = samba_onnx_put2(w, "Sub", u, one), *minus = number(w, node, -1);
    const char *log_u = samba_onnx_put1(w, "Log", u), *ratio = samba_onnx_put2(w, "Div", x, log_u);
    const char *result = samba_onnx_put2(w, "Mul", step, ratio), *same = samba_onnx_put2(w, "Equal", u, one);
    const char *low = samba_onnx_put2(w, "Equal", step, minus), *high = samba_onnx_put2(w, "Equal", u, infinity);
    low = samba_onnx_put2(w, "Or", low, high);
    result = samba_onnx_put_where(w, low, step, result);
    result = samba_onnx_put_where(w, same, x, result);
    return samba_onnx_narrow(w, node, result);
}

const char *samba_onnx_write_exp2(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0), *two = number(w, node, 2);
    a = samba_onnx_put2(w, "Pow", two, a);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_log2(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0), *base = number(w, node, log(node->op == SAMBA_OP_log2 ? 2 : 10));
    a = samba_onnx_put1(w, "Log", a);
    a = samba_onnx_put2(w, "Div", a, base);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_rsqrt(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0);
    a = samba_onnx_put1(w, "Sqrt", a);
    a = samba_onnx_put1(w, "Reciprocal", a);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_relu(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0), *zero = of_floats(node) ? NULL : number(w, node, 0);
    a = zero ? samba_onnx_put2(w, "Max", a, zero) : samba_onnx_put1(w, "Relu", a);
    return samba_onnx_narrow(w, node, a);
}

/* 1 - erf(a) has no digits left where a is large. Chebyshev's fit of W. H. Press and others (Numerical Recipes, erfcc), good to
 * 1.2e-7 of the value everywhere; in float64, since its exponent is a sum of large numbers. */
const char *samba_onnx_write_erfc(samba_onnx_writer *w, const samba_node *node)
{
    static const double fit[] = {0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
                                 -0.18628806, 0.09678418,  0.37409196, 1.00002368,  -1.26551223};
    const samba_dtype dtype = SAMBA_FLOAT64;
    if (node->dtype == SAMBA_FLOAT64) {
        samba_onnx_cannot(w, node, "of float64, for ONNX has erf alone, whose difference from 1 has too few digits");
        return "";
    }
    const char *x = samba_onnx_given(w, node, 0), *one = samba_onnx_number_of(w, dtype, 1),
               *half = samba_onnx_number_of(w, dtype, 0.5);
    x = samba_onnx_put_cast(w, x, (samba_dtype)node->dtype, dtype);
    const char *z = samba_onnx_put1(w, "Abs", x), *t = samba_onnx_put2(w, "Mul", z, half);
    t = samba_onnx_put2(w, "Add", t, one);
    t = samba_onnx_put1(w, "Reciprocal", t);
    const char *sum = samba_onnx_number_of(w, dtype, fit[0]);
    for (int i = 1; i < SAMBA_COUNT(fit); i++) {
        const char *next = samba_onnx_number_of(w, dtype, fit[i]);
        sum = samba_onnx_put2(w, "Mul", sum, t);
        sum = samba_onnx_put2(w, "Add", sum, next);
    }
    const char *square = samba_onnx_put2(w, "Mul", z, z);
    sum = samba_onnx_put2(w, "Sub", sum, square);
    sum = samba_onnx_put1(w, "Exp", sum);
    sum = samba_onnx_put2(w, "Mul", sum, t);
    const char *two = samba_onnx_number_of(w, dtype, 2), *zero = samba_onnx_number_of(w, dtype, 0);
    const char *other = samba_onnx_put2(w, "Sub", two, sum), *below = samba_onnx_put2(w, "Less", x, zero);
    sum = samba_onnx_put_where(w, below, other, sum);
    return samba_onnx_put_cast(w, sum, dtype, (samba_dtype)node->dtype);
}

/* ---- activations ---- */

const char *samba_onnx_write_gelu(samba_onnx_writer *w, const samba_node *node)
{
    const bool bent = node->op == SAMBA_OP_gelu_tanh;
    const char *x = samba_onnx_given_wide(w, node, 0);
    if (w->options.opset >= 20 && node->dtype != SAMBA_FLOAT64) { /* whose numbers ONNX Runtime has in float32 */
        if (bent)
            samba_onnx_attr_text(w, "approximate", "tanh");
        x = samba_onnx_put1(w, "Gelu", x);
        return samba_onnx_narrow(w, node, x);
    }
    const char *one = number(w, node, 1), *half = number(w, node, 0.5), *inside;
    if (bent) {
        const char *square = samba_onnx_put2(w, "Mul", x, x), *cubic = number(w, node, 0.044715),
                   *root = number(w, node, sqrt(2 / M_PI));
        inside = samba_onnx_put2(w, "Mul", square, cubic);
        inside = samba_onnx_put2(w, "Add", inside, one);
        inside = samba_onnx_put2(w, "Mul", inside, x);
        inside = samba_onnx_put2(w, "Mul", inside, root);
        inside = samba_onnx_put1(w, "Tanh", inside);
    } else {
        const char *root = number(w, node, sqrt(0.5));
        inside = samba_onnx_put2(w, "Mul", x, root);
        inside = samba_onnx_put1(w, "Erf", inside);
    }
    inside = samba_onnx_put2(w, "Add", inside, one);
    x = samba_onnx_put2(w, "Mul", x, half);
    x = samba_onnx_put2(w, "Mul", x, inside);
    return samba_onnx_narrow(w, node, x);
}

const char *samba_onnx_write_softsign(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = samba_onnx_given_wide(w, node, 0);
    if (node->dtype == SAMBA_FLOAT64) {
        const char *one = number(w, node, 1), *size = samba_onnx_put1(w, "Abs", x);
        size = samba_onnx_put2(w, "Add", size, one);
        return samba_onnx_put2(w, "Div", x, size);
    }
    x = samba_onnx_put1(w, "Softsign", x);
    return samba_onnx_narrow(w, node, x);
}

const char *samba_onnx_write_silu(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = samba_onnx_given_wide(w, node, 0), *s = samba_onnx_put1(w, "Sigmoid", x);
    x = samba_onnx_put2(w, "Mul", x, s);
    return samba_onnx_narrow(w, node, x);
}

const char *samba_onnx_write_mish(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = samba_onnx_given_wide(w, node, 0), *s;
    if (node->dtype == SAMBA_FLOAT64) { /* of which ONNX Runtime has no Softplus */
        const char *far = number(w, node, 40), *power = samba_onnx_put1(w, "Exp", x);
        power = samba_onnx_log1p(w, power, SAMBA_FLOAT64);
        far = samba_onnx_put2(w, "Greater", x, far);
        s = samba_onnx_put_where(w, far, x, power);
    } else {
        s = samba_onnx_put1(w, "Softplus", x);
    }
    s = samba_onnx_put1(w, "Tanh", s);
    x = samba_onnx_put2(w, "Mul", x, s);
    return samba_onnx_narrow(w, node, x);
}

const char *samba_onnx_write_hardswish(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = samba_onnx_given_wide(w, node, 0);
    if (node->dtype != SAMBA_FLOAT64) {
        x = samba_onnx_put1(w, "HardSwish", x); /* by a sixth in float32 */
        return samba_onnx_narrow(w, node, x);
    }
    const char *three = number(w, node, 3), *six = number(w, node, 6), *zero = number(w, node, 0);
    const char *y = samba_onnx_put2(w, "Add", x, three);
    y = samba_onnx_put2(w, "Max", y, zero);
    y = samba_onnx_put2(w, "Min", y, six);
    y = samba_onnx_put2(w, "Div", y, six);
    return samba_onnx_put2(w, "Mul", x, y);
}

const char *samba_onnx_write_leaky_relu(samba_onnx_writer *w, const samba_node *node)
{
    double slope;
    const char *x = samba_onnx_given_wide(w, node, 0);
    if (node->dtype != SAMBA_FLOAT64 && samba_onnx_constant_in(w, node, 1, &slope) && samba_onnx_from(w, node, 1)->rank == 0) {
        samba_onnx_attr_float(w, "alpha", slope);
        x = samba_onnx_put1(w, "LeakyRelu", x);
        return samba_onnx_narrow(w, node, x);
    }
    const char *b = samba_onnx_given_wide(w, node, 1), *zero = number(w, node, 0);
    const char *above = samba_onnx_put2(w, "Greater", x, zero), *bent = samba_onnx_put2(w, "Mul", x, b);
    x = samba_onnx_put_where(w, above, x, bent);
    return samba_onnx_narrow(w, node, x);
}

const char *samba_onnx_write_shrink(samba_onnx_writer *w, const samba_node *node)
{
    const char *x = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1), *zero = number(w, node, 0);
    if (node->op == SAMBA_OP_hardshrink) {
        const char *size = samba_onnx_put1(w, "Abs", x), *near = samba_onnx_put2(w, "LessOrEqual", size, b);
        x = samba_onnx_put_where(w, near, zero, x);
        return samba_onnx_narrow(w, node, x);
    }
    const char *minus = samba_onnx_put1(w, "Neg", b), *above = samba_onnx_put2(w, "Greater", x, b),
               *below = samba_onnx_put2(w, "Less", x, minus);
    const char *less = samba_onnx_put2(w, "Sub", x, b), *more = samba_onnx_put2(w, "Add", x, b),
               *none = samba_onnx_put2(w, "Mul", x, zero);
    more = samba_onnx_put_where(w, below, more, none);
    x = samba_onnx_put_where(w, above, less, more);
    return samba_onnx_narrow(w, node, x);
}

const char *samba_onnx_write_logit(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dtype wide = samba_onnx_wide((samba_dtype)node->dtype);
    const char *x = samba_onnx_given_wide(w, node, 0), *one = number(w, node, 1), *half = number(w, node, 0.5),
               *two = number(w, node, 2);
    const char *rest = samba_onnx_put2(w, "Sub", one, x), *shift = samba_onnx_put2(w, "Mul", x, two);
    shift = samba_onnx_put2(w, "Sub", shift, one);
    const char *near = samba_onnx_put1(w, "Abs", shift);
    near = samba_onnx_put2(w, "Less", near, half);
    shift = samba_onnx_put2(w, "Div", shift, rest);
    shift = samba_onnx_log1p(w, shift, wide);
    const char *far = samba_onnx_put2(w, "Div", x, rest);
    far = samba_onnx_put1(w, "Log", far);
    x = samba_onnx_put_where(w, near, shift, far);
    return samba_onnx_narrow(w, node, x);
}

const char *samba_onnx_write_logaddexp(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dtype wide = samba_onnx_wide((samba_dtype)node->dtype);
    const char *a = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1), *zero = number(w, node, 0);
    const char *high = samba_onnx_put2(w, "Max", a, b), *apart = samba_onnx_put2(w, "Sub", a, b),
               *same = samba_onnx_put2(w, "Equal", a, b);
    apart = samba_onnx_put_where(w, same, zero, apart);
    apart = samba_onnx_put1(w, "Abs", apart);
    apart = samba_onnx_put1(w, "Neg", apart);
    apart = samba_onnx_put1(w, "Exp", apart);
    apart = samba_onnx_log1p(w, apart, wide);
    a = samba_onnx_put2(w, "Add", high, apart);
    return samba_onnx_narrow(w, node, a);
}

/* ---- two operands ---- */

const char *samba_onnx_write_binary(samba_onnx_writer *w, const samba_node *node)
{
    const bool logical = node->dtype == SAMBA_BOOL;
    const char *product = node->op == SAMBA_OP_add ? samba_onnx_product_with_bias(w, node) : NULL;
    if (product)
        return product;
    const char *a = logical ? samba_onnx_given(w, node, 0) : samba_onnx_given_wide(w, node, 0);
    const char *b = logical ? samba_onnx_given(w, node, 1) : samba_onnx_given_wide(w, node, 1), *op;
    switch (node->op) {
    case SAMBA_OP_add: op = logical ? "Or" : "Add"; break;
    case SAMBA_OP_sub: op = "Sub"; break;
    case SAMBA_OP_mul: op = logical ? "And" : "Mul"; break;
    case SAMBA_OP_div: op = "Div"; break;
    case SAMBA_OP_maximum:
    case SAMBA_OP_clamp_min: op = logical ? "Or" : "Max"; break;
    default: op = logical ? "And" : "Min"; break;
    }
    a = samba_onnx_put2(w, op, a, b);
    return logical ? a : samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_copysign(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1);
    const char *below = samba_onnx_negative(w, b, samba_onnx_wide((samba_dtype)node->dtype));
    a = samba_onnx_put1(w, "Abs", a);
    const char *minus = samba_onnx_put1(w, "Neg", a);
    a = samba_onnx_put_where(w, below, minus, a);
    return samba_onnx_narrow(w, node, a);
}

/* sqrt(a^2 + b^2), of numbers divided by the greater, whose squares fit. */
const char *samba_onnx_write_hypot(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1), *one = number(w, node, 1),
               *zero = number(w, node, 0);
    const char *infinity = number(w, node, INFINITY);
    a = samba_onnx_put1(w, "Abs", a);
    b = samba_onnx_put1(w, "Abs", b);
    const char *most = samba_onnx_put2(w, "Max", a, b), *none = samba_onnx_put2(w, "Equal", most, zero),
               *by = samba_onnx_put_where(w, none, one, most);
    const char *x = samba_onnx_put2(w, "Div", a, by), *y = samba_onnx_put2(w, "Div", b, by);
    x = samba_onnx_put2(w, "Mul", x, x);
    y = samba_onnx_put2(w, "Mul", y, y);
    x = samba_onnx_put2(w, "Add", x, y);
    x = samba_onnx_put1(w, "Sqrt", x);
    x = samba_onnx_put2(w, "Mul", x, most);
    const char *far = samba_onnx_put2(w, "Equal", a, infinity), *other = samba_onnx_put2(w, "Equal", b, infinity);
    far = samba_onnx_put2(w, "Or", far, other); /* beside NaN too, as C has it */
    x = samba_onnx_put_where(w, far, infinity, x);
    return samba_onnx_narrow(w, node, x);
}

/* The angle of (|b|, |a|), from the smaller quotient, then by quadrant. */
const char *samba_onnx_write_atan2(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dtype wide = samba_onnx_wide((samba_dtype)node->dtype);
    const char *a = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1), *zero = number(w, node, 0),
               *one = number(w, node, 1);
    const char *a_below = samba_onnx_negative(w, a, wide), *b_below = samba_onnx_negative(w, b, wide);
    const char *y = samba_onnx_put1(w, "Abs", a), *x = samba_onnx_put1(w, "Abs", b);
    const char *steep = samba_onnx_put2(w, "Greater", y, x), *same = samba_onnx_put2(w, "Equal", y, x),
               *none = samba_onnx_put2(w, "Equal", y, zero);
    const char *low = samba_onnx_put_where(w, steep, x, y), *high = samba_onnx_put_where(w, steep, y, x);
    const char *ratio = samba_onnx_put2(w, "Div", low, high);
    const char *level = samba_onnx_put_where(w, none, zero, one); /* of equal ones, infinite ones or 0 among them */
    ratio = samba_onnx_put_where(w, same, level, ratio);
    ratio = samba_onnx_put1(w, "Atan", ratio);
    const char *right = number(w, node, M_PI / 2), *straight = number(w, node, M_PI),
               *over = samba_onnx_put2(w, "Sub", right, ratio);
    ratio = samba_onnx_put_where(w, steep, over, ratio);
    over = samba_onnx_put2(w, "Sub", straight, ratio);
    ratio = samba_onnx_put_where(w, b_below, over, ratio);
    over = samba_onnx_put1(w, "Neg", ratio);
    ratio = samba_onnx_put_where(w, a_below, over, ratio);
    return samba_onnx_narrow(w, node, ratio);
}

const char *samba_onnx_write_where(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 1), *b = samba_onnx_given_wide(w, node, 2);
    a = samba_onnx_put_where(w, samba_onnx_given(w, node, 0), a, b);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_lerp(samba_onnx_writer *w, const samba_node *node)
{
    const char *a = samba_onnx_given_wide(w, node, 0), *b = samba_onnx_given_wide(w, node, 1),
               *c = samba_onnx_given_wide(w, node, 2);
    const char *half = number(w, node, 0.5), *one = number(w, node, 1), *apart = samba_onnx_put2(w, "Sub", b, a);
    const char *near = samba_onnx_put1(w, "Abs", c), *rest = samba_onnx_put2(w, "Sub", one, c);
    near = samba_onnx_put2(w, "Less", near, half);
    const char *first = samba_onnx_put2(w, "Mul", c, apart), *second = samba_onnx_put2(w, "Mul", apart, rest);
    first = samba_onnx_put2(w, "Add", a, first);
    second = samba_onnx_put2(w, "Sub", b, second);
    a = samba_onnx_put_where(w, near, first, second);
    return samba_onnx_narrow(w, node, a);
}

const char *samba_onnx_write_compare(samba_onnx_writer *w, const samba_node *node)
{
    const bool equality = node->op == SAMBA_OP_eq || node->op == SAMBA_OP_ne;
    const bool plain = equality && samba_onnx_from(w, node, 0)->dtype == SAMBA_BOOL;
    const char *a = plain ? samba_onnx_given(w, node, 0) : samba_onnx_given_wide(w, node, 0);
    const char *b = plain ? samba_onnx_given(w, node, 1) : samba_onnx_given_wide(w, node, 1);
    switch (node->op) {
    case SAMBA_OP_lt: return samba_onnx_put2(w, "Less", a, b);
    case SAMBA_OP_le: return samba_onnx_put2(w, "LessOrEqual", a, b);
    case SAMBA_OP_gt: return samba_onnx_put2(w, "Greater", a, b);
    case SAMBA_OP_ge: return samba_onnx_put2(w, "GreaterOrEqual", a, b);
    default: break;
    }
    if (node->op == SAMBA_OP_ne && a == b && samba_onnx_is_float((samba_dtype)samba_onnx_from(w, node, 0)->dtype))
        return samba_onnx_put1(w, "IsNaN", a);
    a = samba_onnx_put2(w, "Equal", a, b);
    return node->op == SAMBA_OP_eq ? a : samba_onnx_put1(w, "Not", a);
}

const char *samba_onnx_write_logical_not(samba_onnx_writer *w, const samba_node *node)
{
    return samba_onnx_put1(w, "Not", samba_onnx_given(w, node, 0));
}

/* Floats to integers: ONNX leaves open what is out of range; here it is 0 beyond int64, and within wraps to what is narrower. */
const char *samba_onnx_write_cast(samba_onnx_writer *w, const samba_node *node)
{
    const samba_dtype from = (samba_dtype)samba_onnx_from(w, node, 0)->dtype, to = (samba_dtype)node->dtype,
                      wide = samba_onnx_wide(from);
    const char *a = samba_onnx_given(w, node, 0);
    if (!samba_onnx_is_float(from)) {
        samba_dtype through = from == SAMBA_BOOL || to == SAMBA_BOOL || !samba_onnx_is_float(to) ? from : samba_onnx_wide(to);
        a = samba_onnx_put_cast(w, a, from, through); /* to 16-bit floats by float32: rounded twice, as here */
        return samba_onnx_put_cast(w, a, through, to);
    }
    a = samba_onnx_put_cast(w, a, from, from == SAMBA_FLOAT64 && samba_onnx_is_float(to) ? samba_onnx_wide(to) : wide);
    if (samba_onnx_is_float(to))
        return samba_onnx_put_cast(w, a, from == SAMBA_FLOAT64 ? samba_onnx_wide(to) : wide, to);
    if (to == SAMBA_BOOL)
        return samba_onnx_put_cast(w, a, wide, to);
    const char *least = samba_onnx_number_of(w, wide, -0x1p63), *end = samba_onnx_number_of(w, wide, 0x1p63),
               *zero = samba_onnx_number_of(w, wide, 0);
    const char *low = samba_onnx_put2(w, "GreaterOrEqual", a, least), *high = samba_onnx_put2(w, "Less", a, end);
    low = samba_onnx_put2(w, "And", low, high);
    a = samba_onnx_put_where(w, low, a, zero);
    a = samba_onnx_put_cast(w, a, wide, SAMBA_INT64);
    return samba_onnx_put_cast(w, a, SAMBA_INT64, to);
}
