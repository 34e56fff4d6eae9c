/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operators of real numbers, and those that are of real numbers and integers alike, as nodes of ONNX. */
#include "onnx/write.h"
#include <math.h>

/* A number in what the node is computed in. */
static const char *number(onnx_writer *w, const samba_node *node, double value)
{
    return onnx_number_of(w, onnx_wide((samba_dtype)node->dtype), value);
}

static bool of_floats(const samba_node *node) { return onnx_is_float((samba_dtype)node->dtype); }

/* ---- one operand ---- */

const char *onnx_write_unary(onnx_writer *w, const samba_node *node)
{
    static const struct {
        samba_op op;
        const char *name;
    } names[] = {{SAMBA_OP_exp, "Exp"},          {SAMBA_OP_log, "Log"},         {SAMBA_OP_sin, "Sin"},
                 {SAMBA_OP_cos, "Cos"},          {SAMBA_OP_tan, "Tan"},         {SAMBA_OP_asin, "Asin"},
                 {SAMBA_OP_acos, "Acos"},        {SAMBA_OP_atan, "Atan"},       {SAMBA_OP_sinh, "Sinh"},
                 {SAMBA_OP_cosh, "Cosh"},        {SAMBA_OP_asinh, "Asinh"},     {SAMBA_OP_acosh, "Acosh"},
                 {SAMBA_OP_atanh, "Atanh"},      {SAMBA_OP_sqrt, "Sqrt"},       {SAMBA_OP_reciprocal, "Reciprocal"},
                 {SAMBA_OP_tanh, "Tanh"},        {SAMBA_OP_sigmoid, "Sigmoid"}, {SAMBA_OP_erf, "Erf"},
                 {SAMBA_OP_softplus, "Softplus"}};
    const char *name = NULL, *a = onnx_given_wide(w, node, 0);
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (names[i].op == (samba_op)node->op)
            name = names[i].name;
    if (!name) {
        onnx_cannot(w, node, "it has no name in ONNX");
        return "";
    }
    a = onnx_put1(w, name, a);
    return onnx_narrow(w, node, a);
}

const char *onnx_write_neg(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0);
    a = onnx_put1(w, "Neg", a);
    return onnx_narrow(w, node, a);
}

const char *onnx_write_abs(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0);
    a = onnx_put1(w, "Abs", a);
    return onnx_narrow(w, node, a);
}

/* ONNX leaves open what the sign of NaN is: here 0. */
const char *onnx_write_sign(onnx_writer *w, const samba_node *node)
{
    samba_dtype wide = onnx_wide((samba_dtype)node->dtype);
    const char *a = onnx_given_wide(w, node, 0), *zero = number(w, node, 0);
    const char *above = onnx_put2(w, "Greater", a, zero), *below = onnx_put2(w, "Less", a, zero);
    above = onnx_put_cast(w, above, SAMBA_BOOL, wide);
    below = onnx_put_cast(w, below, SAMBA_BOOL, wide);
    a = onnx_put2(w, "Sub", above, below);
    return onnx_narrow(w, node, a);
}

static const char *truncated(onnx_writer *w, const char *a, samba_dtype dtype)
{
    const char *zero = onnx_number_of(w, dtype, 0), *below = onnx_put2(w, "Less", a, zero);
    const char *up = onnx_put1(w, "Ceil", a), *down = onnx_put1(w, "Floor", a);
    return onnx_put_where(w, below, up, down);
}

const char *onnx_write_rounded(onnx_writer *w, const samba_node *node)
{
    if (!of_floats(node))
        return onnx_given(w, node, 0);
    const char *a = onnx_given_wide(w, node, 0);
    if (node->op == SAMBA_OP_trunc)
        a = truncated(w, a, onnx_wide((samba_dtype)node->dtype));
    else
        a = onnx_put1(w,
                      node->op == SAMBA_OP_floor  ? "Floor"
                      : node->op == SAMBA_OP_ceil ? "Ceil"
                                                  : "Round",
                      a); /* halves to even */
    return onnx_narrow(w, node, a);
}

const char *onnx_write_frac(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0), *whole = truncated(w, a, onnx_wide((samba_dtype)node->dtype));
    a = onnx_put2(w, "Sub", a, whole);
    return onnx_narrow(w, node, a);
}

/* With all digits near 0: log(u) x / (u - 1), u = 1 + x rounded, in which the error of u goes out. */
const char *onnx_log1p(onnx_writer *w, const char *x, samba_dtype dtype)
{
    const char *one = onnx_number_of(w, dtype, 1), *infinity = onnx_number_of(w, dtype, INFINITY);
    const char *u = onnx_put2(w, "Add", x, one), *step = onnx_put2(w, "Sub", u, one);
    const char *log_u = onnx_put1(w, "Log", u), *ratio = onnx_put2(w, "Div", x, step);
    const char *result = onnx_put2(w, "Mul", log_u, ratio), *same = onnx_put2(w, "Equal", u, one);
    const char *far = onnx_put2(w, "Equal", u, infinity);
    same = onnx_put2(w, "Or", same, far);
    return onnx_put_where(w, same, x, result);
}

const char *onnx_write_log1p(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0);
    a = onnx_log1p(w, a, onnx_wide((samba_dtype)node->dtype));
    return onnx_narrow(w, node, a);
}

/* (u - 1) x / log(u), u = exp(x), likewise. */
const char *onnx_write_expm1(onnx_writer *w, const samba_node *node)
{
    const char *x = onnx_given_wide(w, node, 0), *one = number(w, node, 1), *infinity = number(w, node, INFINITY);
    const char *u = onnx_put1(w, "Exp", x), *step = onnx_put2(w, "Sub", u, one), *minus = number(w, node, -1);
    const char *log_u = onnx_put1(w, "Log", u), *ratio = onnx_put2(w, "Div", x, log_u);
    const char *result = onnx_put2(w, "Mul", step, ratio), *same = onnx_put2(w, "Equal", u, one);
    const char *low = onnx_put2(w, "Equal", step, minus), *high = onnx_put2(w, "Equal", u, infinity);
    low = onnx_put2(w, "Or", low, high);
    result = onnx_put_where(w, low, step, result);
    result = onnx_put_where(w, same, x, result);
    return onnx_narrow(w, node, result);
}

const char *onnx_write_exp2(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0), *two = number(w, node, 2);
    a = onnx_put2(w, "Pow", two, a);
    return onnx_narrow(w, node, a);
}

const char *onnx_write_log2(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0), *base = number(w, node, log(node->op == SAMBA_OP_log2 ? 2 : 10));
    a = onnx_put1(w, "Log", a);
    a = onnx_put2(w, "Div", a, base);
    return onnx_narrow(w, node, a);
}

const char *onnx_write_rsqrt(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0);
    a = onnx_put1(w, "Sqrt", a);
    a = onnx_put1(w, "Reciprocal", a);
    return onnx_narrow(w, node, a);
}

const char *onnx_write_relu(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0), *zero = of_floats(node) ? NULL : number(w, node, 0);
    a = zero ? onnx_put2(w, "Max", a, zero) : onnx_put1(w, "Relu", a);
    return onnx_narrow(w, node, a);
}

/* 1 - erf(a) has no digits left where a is large. Chebyshev's fit of W. H. Press and others (Numerical Recipes, erfcc), good to
 * 1.2e-7 of the value everywhere; in float64, since its exponent is a sum of large numbers. */
const char *onnx_write_erfc(onnx_writer *w, const samba_node *node)
{
    static const double fit[] = {0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
                                 -0.18628806, 0.09678418,  0.37409196, 1.00002368,  -1.26551223};
    const samba_dtype dtype = SAMBA_FLOAT64;
    if (node->dtype == SAMBA_FLOAT64) {
        onnx_cannot(w, node, "of float64, for ONNX has erf alone, whose difference from 1 has too few digits");
        return "";
    }
    const char *x = onnx_given(w, node, 0), *one = onnx_number_of(w, dtype, 1), *half = onnx_number_of(w, dtype, 0.5);
    x = onnx_put_cast(w, x, (samba_dtype)node->dtype, dtype);
    const char *z = onnx_put1(w, "Abs", x), *t = onnx_put2(w, "Mul", z, half);
    t = onnx_put2(w, "Add", t, one);
    t = onnx_put1(w, "Reciprocal", t);
    const char *sum = onnx_number_of(w, dtype, fit[0]);
    for (int i = 1; i < SAMBA_COUNT(fit); i++) {
        const char *next = onnx_number_of(w, dtype, fit[i]);
        sum = onnx_put2(w, "Mul", sum, t);
        sum = onnx_put2(w, "Add", sum, next);
    }
    const char *square = onnx_put2(w, "Mul", z, z);
    sum = onnx_put2(w, "Sub", sum, square);
    sum = onnx_put1(w, "Exp", sum);
    sum = onnx_put2(w, "Mul", sum, t);
    const char *two = onnx_number_of(w, dtype, 2), *zero = onnx_number_of(w, dtype, 0);
    const char *other = onnx_put2(w, "Sub", two, sum), *below = onnx_put2(w, "Less", x, zero);
    sum = onnx_put_where(w, below, other, sum);
    return onnx_put_cast(w, sum, dtype, (samba_dtype)node->dtype);
}

/* ---- activations ---- */

const char *onnx_write_gelu(onnx_writer *w, const samba_node *node)
{
    const bool bent = node->op == SAMBA_OP_gelu_tanh;
    const char *x = onnx_given_wide(w, node, 0);
    if (w->options.opset >= 20 && node->dtype != SAMBA_FLOAT64) { /* whose numbers ONNX Runtime has in float32 */
        if (bent)
            onnx_attr_text(w, "approximate", "tanh");
        x = onnx_put1(w, "Gelu", x);
        return onnx_narrow(w, node, x);
    }
    const char *one = number(w, node, 1), *half = number(w, node, 0.5), *inside;
    if (bent) {
        const char *square = onnx_put2(w, "Mul", x, x), *cubic = number(w, node, 0.044715),
                   *root = number(w, node, sqrt(2 / M_PI));
        inside = onnx_put2(w, "Mul", square, cubic);
        inside = onnx_put2(w, "Add", inside, one);
        inside = onnx_put2(w, "Mul", inside, x);
        inside = onnx_put2(w, "Mul", inside, root);
        inside = onnx_put1(w, "Tanh", inside);
    } else {
        const char *root = number(w, node, sqrt(0.5));
        inside = onnx_put2(w, "Mul", x, root);
        inside = onnx_put1(w, "Erf", inside);
    }
    inside = onnx_put2(w, "Add", inside, one);
    x = onnx_put2(w, "Mul", x, half);
    x = onnx_put2(w, "Mul", x, inside);
    return onnx_narrow(w, node, x);
}

const char *onnx_write_softsign(onnx_writer *w, const samba_node *node)
{
    const char *x = onnx_given_wide(w, node, 0);
    if (node->dtype == SAMBA_FLOAT64) {
        const char *one = number(w, node, 1), *size = onnx_put1(w, "Abs", x);
        size = onnx_put2(w, "Add", size, one);
        return onnx_put2(w, "Div", x, size);
    }
    x = onnx_put1(w, "Softsign", x);
    return onnx_narrow(w, node, x);
}

const char *onnx_write_silu(onnx_writer *w, const samba_node *node)
{
    const char *x = onnx_given_wide(w, node, 0), *s = onnx_put1(w, "Sigmoid", x);
    x = onnx_put2(w, "Mul", x, s);
    return onnx_narrow(w, node, x);
}

const char *onnx_write_mish(onnx_writer *w, const samba_node *node)
{
    const char *x = onnx_given_wide(w, node, 0), *s;
    if (node->dtype == SAMBA_FLOAT64) { /* of which ONNX Runtime has no Softplus */
        const char *far = number(w, node, 40), *power = onnx_put1(w, "Exp", x);
        power = onnx_log1p(w, power, SAMBA_FLOAT64);
        far = onnx_put2(w, "Greater", x, far);
        s = onnx_put_where(w, far, x, power);
    } else {
        s = onnx_put1(w, "Softplus", x);
    }
    s = onnx_put1(w, "Tanh", s);
    x = onnx_put2(w, "Mul", x, s);
    return onnx_narrow(w, node, x);
}

const char *onnx_write_hardswish(onnx_writer *w, const samba_node *node)
{
    const char *x = onnx_given_wide(w, node, 0);
    if (node->dtype != SAMBA_FLOAT64) {
        x = onnx_put1(w, "HardSwish", x); /* by a sixth in float32 */
        return onnx_narrow(w, node, x);
    }
    const char *three = number(w, node, 3), *six = number(w, node, 6), *zero = number(w, node, 0);
    const char *y = onnx_put2(w, "Add", x, three);
    y = onnx_put2(w, "Max", y, zero);
    y = onnx_put2(w, "Min", y, six);
    y = onnx_put2(w, "Div", y, six);
    return onnx_put2(w, "Mul", x, y);
}

const char *onnx_write_leaky_relu(onnx_writer *w, const samba_node *node)
{
    double slope;
    const char *x = onnx_given_wide(w, node, 0);
    if (node->dtype != SAMBA_FLOAT64 && onnx_constant_in(w, node, 1, &slope) && onnx_from(w, node, 1)->rank == 0) {
        onnx_attr_float(w, "alpha", slope);
        x = onnx_put1(w, "LeakyRelu", x);
        return onnx_narrow(w, node, x);
    }
    const char *b = onnx_given_wide(w, node, 1), *zero = number(w, node, 0);
    const char *above = onnx_put2(w, "Greater", x, zero), *bent = onnx_put2(w, "Mul", x, b);
    x = onnx_put_where(w, above, x, bent);
    return onnx_narrow(w, node, x);
}

const char *onnx_write_shrink(onnx_writer *w, const samba_node *node)
{
    const char *x = onnx_given_wide(w, node, 0), *b = onnx_given_wide(w, node, 1), *zero = number(w, node, 0);
    if (node->op == SAMBA_OP_hardshrink) {
        const char *size = onnx_put1(w, "Abs", x), *near = onnx_put2(w, "LessOrEqual", size, b);
        x = onnx_put_where(w, near, zero, x);
        return onnx_narrow(w, node, x);
    }
    const char *minus = onnx_put1(w, "Neg", b), *above = onnx_put2(w, "Greater", x, b), *below = onnx_put2(w, "Less", x, minus);
    const char *less = onnx_put2(w, "Sub", x, b), *more = onnx_put2(w, "Add", x, b), *none = onnx_put2(w, "Mul", x, zero);
    more = onnx_put_where(w, below, more, none);
    x = onnx_put_where(w, above, less, more);
    return onnx_narrow(w, node, x);
}

const char *onnx_write_logit(onnx_writer *w, const samba_node *node)
{
    const samba_dtype wide = onnx_wide((samba_dtype)node->dtype);
    const char *x = onnx_given_wide(w, node, 0), *one = number(w, node, 1), *half = number(w, node, 0.5),
               *two = number(w, node, 2);
    const char *rest = onnx_put2(w, "Sub", one, x), *shift = onnx_put2(w, "Mul", x, two);
    shift = onnx_put2(w, "Sub", shift, one);
    const char *near = onnx_put1(w, "Abs", shift);
    near = onnx_put2(w, "Less", near, half);
    shift = onnx_put2(w, "Div", shift, rest);
    shift = onnx_log1p(w, shift, wide);
    const char *far = onnx_put2(w, "Div", x, rest);
    far = onnx_put1(w, "Log", far);
    x = onnx_put_where(w, near, shift, far);
    return onnx_narrow(w, node, x);
}

const char *onnx_write_logaddexp(onnx_writer *w, const samba_node *node)
{
    const samba_dtype wide = onnx_wide((samba_dtype)node->dtype);
    const char *a = onnx_given_wide(w, node, 0), *b = onnx_given_wide(w, node, 1), *zero = number(w, node, 0);
    const char *high = onnx_put2(w, "Max", a, b), *apart = onnx_put2(w, "Sub", a, b), *same = onnx_put2(w, "Equal", a, b);
    apart = onnx_put_where(w, same, zero, apart);
    apart = onnx_put1(w, "Abs", apart);
    apart = onnx_put1(w, "Neg", apart);
    apart = onnx_put1(w, "Exp", apart);
    apart = onnx_log1p(w, apart, wide);
    a = onnx_put2(w, "Add", high, apart);
    return onnx_narrow(w, node, a);
}

/* ---- two operands ---- */

const char *onnx_write_binary(onnx_writer *w, const samba_node *node)
{
    const bool logical = node->dtype == SAMBA_BOOL;
    const char *product = node->op == SAMBA_OP_add ? onnx_product_with_bias(w, node) : NULL;
    if (product)
        return product;
    const char *a = logical ? onnx_given(w, node, 0) : onnx_given_wide(w, node, 0);
    const char *b = logical ? onnx_given(w, node, 1) : onnx_given_wide(w, node, 1), *op;
    switch (node->op) {
    case SAMBA_OP_add: op = logical ? "Or" : "Add"; break;
    case SAMBA_OP_sub: op = "Sub"; break;
    case SAMBA_OP_mul: op = logical ? "And" : "Mul"; break;
    case SAMBA_OP_div: op = "Div"; break;
    case SAMBA_OP_maximum:
    case SAMBA_OP_clamp_min: op = logical ? "Or" : "Max"; break;
    default: op = logical ? "And" : "Min"; break;
    }
    a = onnx_put2(w, op, a, b);
    return logical ? a : onnx_narrow(w, node, a);
}

const char *onnx_write_copysign(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0), *b = onnx_given_wide(w, node, 1);
    const char *below = onnx_negative(w, b, onnx_wide((samba_dtype)node->dtype));
    a = onnx_put1(w, "Abs", a);
    const char *minus = onnx_put1(w, "Neg", a);
    a = onnx_put_where(w, below, minus, a);
    return onnx_narrow(w, node, a);
}

/* sqrt(a^2 + b^2), of numbers divided by the greater, whose squares fit. */
const char *onnx_write_hypot(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0), *b = onnx_given_wide(w, node, 1), *one = number(w, node, 1),
               *zero = number(w, node, 0);
    const char *infinity = number(w, node, INFINITY);
    a = onnx_put1(w, "Abs", a);
    b = onnx_put1(w, "Abs", b);
    const char *most = onnx_put2(w, "Max", a, b), *none = onnx_put2(w, "Equal", most, zero),
               *by = onnx_put_where(w, none, one, most);
    const char *x = onnx_put2(w, "Div", a, by), *y = onnx_put2(w, "Div", b, by);
    x = onnx_put2(w, "Mul", x, x);
    y = onnx_put2(w, "Mul", y, y);
    x = onnx_put2(w, "Add", x, y);
    x = onnx_put1(w, "Sqrt", x);
    x = onnx_put2(w, "Mul", x, most);
    const char *far = onnx_put2(w, "Equal", a, infinity), *other = onnx_put2(w, "Equal", b, infinity);
    far = onnx_put2(w, "Or", far, other); /* beside NaN too, as C has it */
    x = onnx_put_where(w, far, infinity, x);
    return onnx_narrow(w, node, x);
}

/* The angle of (|b|, |a|), from the smaller quotient, then by quadrant. */
const char *onnx_write_atan2(onnx_writer *w, const samba_node *node)
{
    const samba_dtype wide = onnx_wide((samba_dtype)node->dtype);
    const char *a = onnx_given_wide(w, node, 0), *b = onnx_given_wide(w, node, 1), *zero = number(w, node, 0),
               *one = number(w, node, 1);
    const char *a_below = onnx_negative(w, a, wide), *b_below = onnx_negative(w, b, wide);
    const char *y = onnx_put1(w, "Abs", a), *x = onnx_put1(w, "Abs", b);
    const char *steep = onnx_put2(w, "Greater", y, x), *same = onnx_put2(w, "Equal", y, x),
               *none = onnx_put2(w, "Equal", y, zero);
    const char *low = onnx_put_where(w, steep, x, y), *high = onnx_put_where(w, steep, y, x);
    const char *ratio = onnx_put2(w, "Div", low, high);
    const char *level = onnx_put_where(w, none, zero, one); /* of equal ones, infinite ones or 0 among them */
    ratio = onnx_put_where(w, same, level, ratio);
    ratio = onnx_put1(w, "Atan", ratio);
    const char *right = number(w, node, M_PI / 2), *straight = number(w, node, M_PI), *over = onnx_put2(w, "Sub", right, ratio);
    ratio = onnx_put_where(w, steep, over, ratio);
    over = onnx_put2(w, "Sub", straight, ratio);
    ratio = onnx_put_where(w, b_below, over, ratio);
    over = onnx_put1(w, "Neg", ratio);
    ratio = onnx_put_where(w, a_below, over, ratio);
    return onnx_narrow(w, node, ratio);
}

const char *onnx_write_where(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 1), *b = onnx_given_wide(w, node, 2);
    a = onnx_put_where(w, onnx_given(w, node, 0), a, b);
    return onnx_narrow(w, node, a);
}

const char *onnx_write_lerp(onnx_writer *w, const samba_node *node)
{
    const char *a = onnx_given_wide(w, node, 0), *b = onnx_given_wide(w, node, 1), *c = onnx_given_wide(w, node, 2);
    const char *half = number(w, node, 0.5), *one = number(w, node, 1), *apart = onnx_put2(w, "Sub", b, a);
    const char *near = onnx_put1(w, "Abs", c), *rest = onnx_put2(w, "Sub", one, c);
    near = onnx_put2(w, "Less", near, half);
    const char *first = onnx_put2(w, "Mul", c, apart), *second = onnx_put2(w, "Mul", apart, rest);
    first = onnx_put2(w, "Add", a, first);
    second = onnx_put2(w, "Sub", b, second);
    a = onnx_put_where(w, near, first, second);
    return onnx_narrow(w, node, a);
}

const char *onnx_write_compare(onnx_writer *w, const samba_node *node)
{
    const bool equality = node->op == SAMBA_OP_eq || node->op == SAMBA_OP_ne;
    const bool plain = equality && onnx_from(w, node, 0)->dtype == SAMBA_BOOL;
    const char *a = plain ? onnx_given(w, node, 0) : onnx_given_wide(w, node, 0);
    const char *b = plain ? onnx_given(w, node, 1) : onnx_given_wide(w, node, 1);
    switch (node->op) {
    case SAMBA_OP_lt: return onnx_put2(w, "Less", a, b);
    case SAMBA_OP_le: return onnx_put2(w, "LessOrEqual", a, b);
    case SAMBA_OP_gt: return onnx_put2(w, "Greater", a, b);
    case SAMBA_OP_ge: return onnx_put2(w, "GreaterOrEqual", a, b);
    default: break;
    }
    a = onnx_put2(w, "Equal", a, b);
    return node->op == SAMBA_OP_eq ? a : onnx_put1(w, "Not", a);
}

const char *onnx_write_logical_not(onnx_writer *w, const samba_node *node) { return onnx_put1(w, "Not", onnx_given(w, node, 0)); }

/* Floats to integers: ONNX leaves open what is out of range; here it is 0 beyond int64, and within wraps to what is narrower. */
const char *onnx_write_cast(onnx_writer *w, const samba_node *node)
{
    const samba_dtype from = (samba_dtype)onnx_from(w, node, 0)->dtype, to = (samba_dtype)node->dtype, wide = onnx_wide(from);
    const char *a = onnx_given(w, node, 0);
    if (!onnx_is_float(from)) {
        samba_dtype through = from == SAMBA_BOOL || to == SAMBA_BOOL || !onnx_is_float(to) ? from : onnx_wide(to);
        a = onnx_put_cast(w, a, from, through); /* to 16-bit floats by float32: rounded twice, as here */
        return onnx_put_cast(w, a, through, to);
    }
    a = onnx_put_cast(w, a, from, from == SAMBA_FLOAT64 && onnx_is_float(to) ? onnx_wide(to) : wide);
    if (onnx_is_float(to))
        return onnx_put_cast(w, a, from == SAMBA_FLOAT64 ? onnx_wide(to) : wide, to);
    if (to == SAMBA_BOOL)
        return onnx_put_cast(w, a, wide, to);
    const char *least = onnx_number_of(w, wide, -0x1p63), *end = onnx_number_of(w, wide, 0x1p63),
               *zero = onnx_number_of(w, wide, 0);
    const char *low = onnx_put2(w, "GreaterOrEqual", a, least), *high = onnx_put2(w, "Less", a, end);
    low = onnx_put2(w, "And", low, high);
    a = onnx_put_where(w, low, a, zero);
    a = onnx_put_cast(w, a, wide, SAMBA_INT64);
    return onnx_put_cast(w, a, SAMBA_INT64, to);
}
