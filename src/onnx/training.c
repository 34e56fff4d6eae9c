/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of optimizers (ai.onnx.preview.training), as the formulas they are: of a rate and how many steps were taken, then of as
 * many tensors as a model has, their gradients and what the optimizer remembers of each. */
#include "onnx/onnx.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/shape.h>

/* Inputs rate, steps, then `parts` lists of as many tensors: how many; 0 where refused. Both as numbers of rank 0. */
static int read_lists(samba_onnx_node *node, int parts, samba_value *rate, samba_value *steps)
{
    *rate = samba_onnx_need(node, 0);
    *steps = samba_onnx_need(node, 1);
    int count = (node->input_count - 2) / parts;
    if (!node->refused && (count < 1 || node->input_count != 2 + parts * count))
        samba_onnx_refuse(node, "a rate, a number of steps and %d lists of as many tensors are expected", parts);
    if (node->refused)
        return 0;
    *rate = samba_reshape(*rate, 0, NULL);
    *steps = samba_reshape(*steps, 0, NULL);
    return count;
}

/* Tensor i of list `part`; gradients have that of the tensor's squared length added. */
static samba_value tensor_of(samba_onnx_node *node, int count, int part, int i)
{
    return samba_onnx_need(node, 2 + part * count + i);
}
static samba_value gradient_of(samba_onnx_node *node, int count, int i, double norm_coefficient)
{
    samba_value x = tensor_of(node, count, 0, i), gradient = tensor_of(node, count, 1, i);
    if (norm_coefficient == 0 || node->refused)
        return gradient;
    samba_value pull = samba_mul_scalar(x, norm_coefficient);
    return samba_add(pull, gradient);
}

void samba_onnx_adagrad(samba_onnx_node *node);
void samba_onnx_adagrad(samba_onnx_node *node)
{
    samba_value rate, steps;
    double decay = samba_onnx_float(node, "decay_factor", 0), eps = samba_onnx_float(node, "epsilon", 0),
           norm = samba_onnx_float(node, "norm_coefficient", 0);
    int count = read_lists(node, 3, &rate, &steps);
    for (int i = 0; i < count && !node->refused; i++) {
        samba_value x = tensor_of(node, count, 0, i), g = gradient_of(node, count, i, norm), h = tensor_of(node, count, 2, i);
        if (node->refused)
            return;
        samba_dtype dtype = samba_value_dtype(x);
        samba_value passed = samba_cast(steps, dtype), slower = samba_add_scalar(samba_mul_scalar(passed, decay), 1);
        samba_value now = samba_div(samba_cast(rate, dtype), slower), square = samba_square(g), sum = samba_add(h, square);
        samba_value root = samba_add_scalar(samba_sqrt(sum), eps), step = samba_mul(now, g), scaled = samba_div(step, root);
        samba_onnx_out(node, i, samba_sub(x, scaled));
        samba_onnx_out(node, count + i, sum);
    }
}

void samba_onnx_momentum(samba_onnx_node *node);
void samba_onnx_momentum(samba_onnx_node *node)
{
    static const char *const modes[] = {"standard", "nesterov", NULL};
    samba_value rate, steps;
    double alpha = samba_onnx_float(node, "alpha", 0), beta = samba_onnx_float(node, "beta", 0),
           norm = samba_onnx_float(node, "norm_coefficient", 0);
    bool nesterov = samba_onnx_choice(node, "mode", "standard", modes) == 1;
    int count = read_lists(node, 3, &rate, &steps);
    for (int i = 0; i < count && !node->refused; i++) {
        samba_value x = tensor_of(node, count, 0, i), g = gradient_of(node, count, i, norm), v = tensor_of(node, count, 2, i);
        if (node->refused)
            return;
        samba_value none = samba_integer(node->graph, 0), later = samba_gt(steps, none); /* the first gradient counts fully */
        samba_value usual = samba_onnx_like(node, beta, x), first = samba_onnx_like(node, 1, x),
                    factor = samba_where(later, usual, first);
        samba_value old = samba_mul_scalar(v, alpha), new = samba_mul(factor, g), moved = samba_add(old, new), step = moved;
        if (nesterov) {
            samba_value ahead = samba_mul_scalar(moved, alpha);
            step = samba_add(g, ahead);
        }
        samba_value scaled = samba_mul(samba_cast(rate, samba_value_dtype(x)), step);
        samba_onnx_out(node, i, samba_sub(x, scaled));
        samba_onnx_out(node, count + i, moved);
    }
}

/* old * factor + (1 - factor) * new */
static samba_value average(samba_value old, samba_value new, double factor)
{
    samba_value kept = samba_mul_scalar(old, factor), share = samba_mul_scalar(new, 1 - factor);
    return samba_add(kept, share);
}

/* 1 - base^steps */
static samba_value rest_of_power(samba_onnx_node *node, double base, samba_value steps)
{
    samba_value number = samba_onnx_like(node, base, steps), one = samba_onnx_like(node, 1, steps),
                power = samba_pow(number, steps);
    return samba_sub(one, power);
}

void samba_onnx_adam(samba_onnx_node *node);
void samba_onnx_adam(samba_onnx_node *node)
{
    samba_value rate, steps;
    double alpha = samba_onnx_float(node, "alpha", 0.9), beta = samba_onnx_float(node, "beta", 0.999),
           eps = samba_onnx_float(node, "epsilon", 0);
    double norm = samba_onnx_float(node, "norm_coefficient", 0), post = samba_onnx_float(node, "norm_coefficient_post", 0);
    int count = read_lists(node, 4, &rate, &steps);
    for (int i = 0; i < count && !node->refused; i++) {
        samba_value x = tensor_of(node, count, 0, i), g = gradient_of(node, count, i, norm);
        samba_value v = tensor_of(node, count, 2, i), h = tensor_of(node, count, 3, i);
        if (node->refused)
            return;
        samba_dtype dtype = samba_value_dtype(x);
        samba_value moved = average(v, g, alpha), square = average(h, samba_square(g), beta);
        samba_value passed = samba_cast(steps, SAMBA_FLOAT64), none = samba_integer(node->graph, 0),
                    begun = samba_gt(steps, none);
        samba_value of_square = samba_sqrt(rest_of_power(node, beta, passed)), of_mean = rest_of_power(node, alpha, passed);
        samba_value ratio = samba_div(of_square, of_mean), one = samba_onnx_like(node, 1, passed),
                    factor = samba_where(begun, ratio, one);
        samba_value first = samba_cast(factor, dtype), now = samba_mul(samba_cast(rate, dtype), first);
        samba_value root = samba_add_scalar(samba_sqrt(square), eps), quotient = samba_div(moved, root),
                    step = samba_mul(now, quotient);
        samba_value result = samba_sub(x, step);
        samba_onnx_out(node, i, post == 0 ? result : samba_mul_scalar(result, 1 - post));
        samba_onnx_out(node, count + i, moved);
        samba_onnx_out(node, 2 * count + i, square);
    }
}
