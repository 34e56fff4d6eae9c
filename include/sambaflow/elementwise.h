/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise functions. Operands broadcast and promote as in PyTorch. */
#ifndef SAMBAFLOW_ELEMENTWISE_H
#define SAMBAFLOW_ELEMENTWISE_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_add(samba_value a, samba_value b);
SAMBA_API samba_value samba_sub(samba_value a, samba_value b);
SAMBA_API samba_value samba_mul(samba_value a, samba_value b);
SAMBA_API samba_value samba_div(samba_value a, samba_value b); /* true division */
SAMBA_API samba_value samba_pow(samba_value a, samba_value b);
SAMBA_API samba_value samba_maximum(samba_value a, samba_value b);
SAMBA_API samba_value samba_minimum(samba_value a, samba_value b);
SAMBA_API samba_value samba_eq(samba_value a, samba_value b);
SAMBA_API samba_value samba_ne(samba_value a, samba_value b);
SAMBA_API samba_value samba_lt(samba_value a, samba_value b);
SAMBA_API samba_value samba_le(samba_value a, samba_value b);
SAMBA_API samba_value samba_gt(samba_value a, samba_value b);
SAMBA_API samba_value samba_ge(samba_value a, samba_value b);
SAMBA_API samba_value samba_where(samba_value condition, samba_value a, samba_value b);
/* A number on the right: promotes as a Python float does (an integer value becomes float32). */
SAMBA_API samba_value samba_add_scalar(samba_value a, double b);
SAMBA_API samba_value samba_mul_scalar(samba_value a, double b);
SAMBA_API samba_value samba_pow_scalar(samba_value a, double b);

SAMBA_API samba_value samba_neg(samba_value a);
SAMBA_API samba_value samba_abs(samba_value a);
SAMBA_API samba_value samba_exp(samba_value a);
SAMBA_API samba_value samba_log(samba_value a);
SAMBA_API samba_value samba_log1p(samba_value a); /* log(1 + a), with all digits near 0 */
SAMBA_API samba_value samba_expm1(samba_value a); /* exp(a) - 1, with all digits near 0 */
SAMBA_API samba_value samba_sin(samba_value a);
SAMBA_API samba_value samba_cos(samba_value a);
SAMBA_API samba_value samba_floor(samba_value a); /* no gradient; so are round and sign */
SAMBA_API samba_value samba_round(samba_value a); /* to the nearest integer, halves to even */
SAMBA_API samba_value samba_sign(samba_value a);  /* -1, 0 or 1; 0 for NaN */
SAMBA_API samba_value samba_softplus(samba_value a); /* log(1 + exp(a)) without overflow */
SAMBA_API samba_value samba_detach(samba_value a);   /* a, through which no gradient flows */
SAMBA_API samba_value samba_sqrt(samba_value a);
SAMBA_API samba_value samba_rsqrt(samba_value a);
SAMBA_API samba_value samba_reciprocal(samba_value a);
SAMBA_API samba_value samba_tanh(samba_value a);
SAMBA_API samba_value samba_sigmoid(samba_value a);
SAMBA_API samba_value samba_relu(samba_value a);
SAMBA_API samba_value samba_erf(samba_value a);
SAMBA_API samba_value samba_gelu(samba_value a);      /* erf form, torch's default */
SAMBA_API samba_value samba_gelu_tanh(samba_value a); /* approximate='tanh' */
SAMBA_API samba_value samba_cast(samba_value a, samba_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
