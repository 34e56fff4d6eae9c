/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses. */
#ifndef SAMBAFLOW_LOSS_H
#define SAMBAFLOW_LOSS_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samba_reduction { SAMBA_MEAN = 0, SAMBA_SUM = 1, SAMBA_NO_REDUCTION = 2 } samba_reduction;
typedef struct samba_cross_entropy_options {
    int64_t ignore_index; /* torch's default is -100: start from samba_cross_entropy_defaults() */
    double label_smoothing;
    samba_reduction reduction;
} samba_cross_entropy_options;
static inline samba_cross_entropy_options samba_cross_entropy_defaults(void)
{
    samba_cross_entropy_options options = {-100, 0.0, SAMBA_MEAN};
    return options;
}
/* logits (N, C) or (N, C, d1 ...) or (C); integer class indices (N), (N, d1 ...) or (). */
SAMBA_API samba_value samba_cross_entropy(samba_value logits, samba_value label);
SAMBA_API samba_value samba_cross_entropy_with(samba_value logits, samba_value label, const samba_cross_entropy_options *options);

#ifdef __cplusplus
}
#endif
#endif
