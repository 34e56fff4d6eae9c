/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise functions, PyTorch's in name and meaning (activations: activation.h). Operands broadcast. Dtypes promote as
 * torch.result_type says: a value of rank 0, and before it a number, gives way to the dtypes of values with dims. Integers and
 * bool become float32 where the function is one of real numbers. bfloat16 and float16 are computed in float32 and rounded once.
 * Errors stick to the graph: values of two graphs, shapes that do not broadcast, a dtype that PyTorch refuses too. */
#ifndef SAMBAFLOW_ELEMENTWISE_H
#define SAMBAFLOW_ELEMENTWISE_H

#include <sambaflow/operators.h> /* exp, tanh, maximum, eq ... : what is one operator of one operand or two */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- numbers ---------------------------------------------------------------------------------------------------
 * A number stands on either side of every function here and promotes as Python's numbers do: x * samba_number(graph, 0.5) has x's
 * dtype where that is floating-point, else float32; samba_integer leaves integers what they are.
 * In arithmetic it is not rounded to bfloat16 first. */
SAMBA_API samba_value samba_number(samba_graph *graph, double value);
SAMBA_API samba_value samba_integer(samba_graph *graph, int64_t value);
/* A value of rank 0 as a number that counts as `dtype`, of the value's kind: bool, integer or floating-point. */
SAMBA_API samba_value samba_as_number(samba_value value, samba_dtype dtype);

/* ---- arithmetic ------------------------------------------------------------------------------------------------ */
SAMBA_API samba_value samba_add(samba_value a, samba_value b); /* of bools: or */
SAMBA_API samba_value samba_sub(samba_value a, samba_value b); /* not of bools */
SAMBA_API samba_value samba_mul(samba_value a, samba_value b); /* of bools: and */
SAMBA_API samba_value samba_div(samba_value a, samba_value b); /* true division */
/* a + alpha b, a - alpha b. alpha: a number, an integer where a and b are. */
SAMBA_API samba_value samba_add_alpha(samba_value a, samba_value b, samba_value alpha);
SAMBA_API samba_value samba_sub_alpha(samba_value a, samba_value b, samba_value alpha);
/* Rounded quotients (torch.div's rounding_mode) and what they leave of a: floor_divide with remainder, which has b's sign,
 * trunc_divide with fmod, which has a's. An integer divided by 0 gives 0 and leaves 0;
 * PyTorch raises an error there, and so does a known 0 here. */
SAMBA_API samba_value samba_floor_divide(samba_value a, samba_value b);
SAMBA_API samba_value samba_trunc_divide(samba_value a, samba_value b);
SAMBA_API samba_value samba_remainder(samba_value a, samba_value b);
SAMBA_API samba_value samba_fmod(samba_value a, samba_value b);
SAMBA_API samba_value samba_pow(samba_value a, samba_value b); /* an integer's negative power is 0 but for 1 and -1 */
/* A number on the right: samba_add(a, samba_number(graph, b)) and so on. */
SAMBA_API samba_value samba_add_scalar(samba_value a, double b);
SAMBA_API samba_value samba_mul_scalar(samba_value a, double b);
SAMBA_API samba_value samba_pow_scalar(samba_value a, double b);
SAMBA_API samba_value samba_addcmul(samba_value a, samba_value b, samba_value c, samba_value value); /* a + value b c */
SAMBA_API samba_value samba_addcdiv(samba_value a, samba_value b, samba_value c, samba_value value); /* a + value b / c */
SAMBA_API samba_value samba_lerp(samba_value a, samba_value b, samba_value weight);                  /* a + weight (b - a) */

/* ---- comparisons, logic, choice ---------------------------------------------------------------------------------- */
SAMBA_API samba_value samba_isclose(samba_value a, samba_value b, double rtol, double atol, bool equal_nan); /* of one dtype */
SAMBA_API samba_value samba_isnan(samba_value a);                      /* torch.isnan: bool */
SAMBA_API samba_value samba_isinf(samba_value a);                      /* torch.isinf: bool */
SAMBA_API samba_value samba_isfinite(samba_value a);                   /* torch.isfinite: bool */
SAMBA_API samba_value samba_logical_and(samba_value a, samba_value b); /* of any dtypes: what is not 0 is true */
SAMBA_API samba_value samba_logical_or(samba_value a, samba_value b);  /* whether a or b is not 0 */
SAMBA_API samba_value samba_logical_xor(samba_value a, samba_value b); /* whether one of them is not 0 */
SAMBA_API samba_value samba_logical_not(samba_value a);                /* whether a is 0 */
/* Of integers and bools. In a graph, `or` of bools is the operator add, `and` is mul. */
SAMBA_API samba_value samba_bitwise_and(samba_value a, samba_value b);
SAMBA_API samba_value samba_bitwise_or(samba_value a, samba_value b);
SAMBA_API samba_value samba_bitwise_xor(samba_value a, samba_value b);
SAMBA_API samba_value samba_bitwise_not(samba_value a);
SAMBA_API samba_value samba_where(samba_value condition, samba_value a, samba_value b);
/* value: of rank 0; the result has a's dtype */
SAMBA_API samba_value samba_masked_fill(samba_value a, samba_value mask, samba_value value);
SAMBA_API samba_value samba_fmax(samba_value a, samba_value b); /* a NaN loses; the gradient of equal ones is a's */
SAMBA_API samba_value samba_fmin(samba_value a, samba_value b);
/* Between bounds, either of which may be left out with a zeroed value; the greatest wins where they cross.
 * At a bound the gradient is a's. */
SAMBA_API samba_value samba_clamp(samba_value a, samba_value min, samba_value max);
/* NULL: the greatest and the least finite value of a's dtype. */
SAMBA_API samba_value samba_nan_to_num(samba_value a, double nan, const double *posinf, const double *neginf);
SAMBA_API samba_value samba_heaviside(samba_value a, samba_value values);

/* ---- one operand ------------------------------------------------------------------------------------------------- */
SAMBA_API samba_value samba_square(samba_value a);                       /* a * a */
SAMBA_API samba_value samba_round_decimals(samba_value a, int decimals); /* torch.round(a, decimals=) */
SAMBA_API samba_value samba_frac(samba_value a);                         /* a - trunc(a) */
/* log(a / (1 - a)), a clamped to eps .. 1 - eps; eps < 0: not clamped */
SAMBA_API samba_value samba_logit(samba_value a, double eps);
/* Derivative n of digamma, n of 0 or 1: digamma and trigamma. The latter has no gradient. Integers become float32. */
SAMBA_API samba_value samba_polygamma(samba_value a, int n);
SAMBA_API samba_value samba_cast(samba_value a, samba_dtype dtype);

/* ---- two operands of real numbers ------------------------------------------------------------------------------------ */
SAMBA_API samba_value samba_xlogy(samba_value a, samba_value b); /* a log(b), 0 where a is 0 */

/* ---- gradients that the model says itself ------------------------------------------------------------------------------ */
/* `value`, whose gradient for inputs[i] is gradients[i], of its shape, whatever `value` was computed from and how. The gradients
 * are computed from samba_grad_output(value), which stands for the gradient that comes in, and from forward values; nothing else
 * may be computed from it (ARGUMENT when the graph is compiled). A straight-through estimator:
 * samba_custom_gradient(y, grad, 1, &x, &grad) with y = samba_round(x), grad = samba_grad_output(y). */
SAMBA_API samba_value samba_grad_output(samba_value value);
SAMBA_API samba_value samba_custom_gradient(samba_value value, samba_value grad_output, int count, const samba_value *inputs,
                                            const samba_value *gradients);

/* ---- gradients inside the model ---------------------------------------------------------------------------------------- */
/* gradients[i]: the gradient of the outputs by inputs[i], in its dtype and shape, as torch.autograd.grad gives it with
 * create_graph=True: a value as any other, in a loss too, with gradients of its own. Zeros where no output depends on the input;
 * depends[i] says which, unless `depends` is NULL. grad_outputs: where the outputs' gradients start, of their dtypes and shapes;
 * NULL: ones. Inputs are any floating-point values of the graph; equal expressions are one value, and a gradient by it is by all
 * its uses: a samba_variable is one of its own. Errors stick to the graph: ARGUMENT, DTYPE, SHAPE, UNSUPPORTED for an operator
 * that has no gradient. After one the gradients have failed. Without a graph, or memory for any result, nothing happens. */
SAMBA_API void samba_gradients(int output_count, const samba_value *outputs, const samba_value *grad_outputs, int input_count,
                               const samba_value *inputs, samba_value *gradients, bool *depends);
/* a, floating-point, as a value that no other one is: gradients by it are those by what is computed from it. Its own go to a. */
SAMBA_API samba_value samba_variable(samba_value a);

#ifdef __cplusplus
}
#endif
#endif
