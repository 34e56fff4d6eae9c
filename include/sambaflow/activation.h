/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations: torch.nn.functional's in name, meaning and gradient, at kinks too. bfloat16 and float16 are computed in float32
 * and rounded once. Values must be floating-point unless said otherwise. */
#ifndef SAMBAFLOW_ACTIVATION_H
#define SAMBAFLOW_ACTIVATION_H

#include <sambaflow/operators.h> /* relu, gelu, silu, mish, softplus ... : what is one operator */

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_relu6(samba_value a);                             /* of integers too */
SAMBA_API samba_value samba_leaky_relu(samba_value a, double negative_slope); /* torch: 0.01 */
/* Where a is not positive it is multiplied by the weight: one number, or one for each index of dim 1. */
SAMBA_API samba_value samba_functional_prelu(samba_value a, samba_value weight);
SAMBA_API samba_value samba_elu(samba_value a, double alpha); /* alpha (exp(a) - 1) where a is not positive. torch: 1 */
SAMBA_API samba_value samba_selu(samba_value a);
SAMBA_API samba_value samba_celu(samba_value a, double alpha); /* alpha (exp(a / alpha) - 1) where a is not positive. torch: 1 */
/* the first half along dim times the sigmoid of the second. torch: -1 */
SAMBA_API samba_value samba_glu(samba_value a, int dim);
/* softplus(beta a) / beta, and a itself where beta a > threshold. torch: 1 and 20 */
SAMBA_API samba_value samba_softplus_beta(samba_value a, double beta, double threshold);
SAMBA_API samba_value samba_log_sigmoid(samba_value a);
SAMBA_API samba_value samba_hardsigmoid(samba_value a);
SAMBA_API samba_value samba_hardtanh(samba_value a, double min, double max); /* of integers too. torch: -1 and 1 */
SAMBA_API samba_value samba_hardshrink(samba_value a, double lambda);        /* torch: 0.5 */
SAMBA_API samba_value samba_softshrink(samba_value a, double lambda);        /* lambda >= 0. torch: 0.5 */
/* value where a <= threshold; of integers too */
SAMBA_API samba_value samba_threshold(samba_value a, double threshold, double value);

#ifdef __cplusplus
}
#endif
#endif
