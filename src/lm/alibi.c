/* SPDX-License-Identifier: Apache-2.0
 *
 * ALiBi, attention with linear biases: to the score of a key a head adds its slope times the key's position. What all keys of a
 * query have in common changes no softmax, so that this is minus the slope times the distance. Slopes are a geometric sequence
 * for a power of two of heads; further heads have every other slope of the sequence for twice as many.
 *
 * Falcon adds the bias before scores are scaled and rounds it to bfloat16, whatever the model's dtype; Bloom does neither. */
#include "graph/graph.h"
#include "lm/lm.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <math.h>

static void slopes_of(int64_t heads, float *slopes)
{
    int64_t power = 1;
    while (2 * power <= heads)
        power *= 2;
    const float base = (float)pow(2, -8.0 / (double)power), other = (float)pow(2, -4.0 / (double)power);
    for (int64_t i = 0; i < heads; i++)
        slopes[i] = i < power ? powf(base, (float)(i + 1)) : powf(other, (float)(2 * (i - power) + 1));
}

samba_value samba_lm_alibi(samba_lm_build *b, samba_value positions, double scale)
{
    const samba_lm_shape *m = b->m;
    const samba_dtype dtype = m->alibi_rounded ? SAMBA_BFLOAT16 : SAMBA_FLOAT32;
    samba_tensor *slopes = NULL;
    if (samba_graph_status(b->graph) != SAMBA_OK)
        return positions;
    samba_status status = samba_tensor_new(b->lm->context, NULL, SAMBA_FLOAT32, 4, (int64_t[]){1, m->heads, 1, 1}, &slopes);
    if (status != SAMBA_OK) {
        samba_graph_fail(b->graph, status, "no memory for the slopes of ALiBi");
        return positions;
    }
    slopes_of(m->heads, samba_tensor_data(slopes));
    samba_value slope = samba_cast(samba_constant_tensor(b->graph, slopes), dtype);
    samba_tensor_free(slopes);
    samba_value at = samba_cast(samba_unsqueeze(samba_unsqueeze(positions, 1), 1), dtype);
    samba_value bias = samba_cast(samba_mul(slope, at), SAMBA_FLOAT32);
    return m->alibi_scaled ? samba_mul_scalar(bias, scale) : bias;
}
