/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops behind update.h, compiled once for each ISA. Products and sums are rounded separately and in the programs' order, so
 * that no bit differs from what the interpreter gives. */
#include "device/cpu/isa/uncontracted.h"
#include "device/cpu/tile/parts.h"

#include <math.h>

static inline __attribute__((always_inline)) void sgd_of(const samba_update *u, int64_t first, int64_t count, const bool clip, const bool momentum,
                                                         const bool whole)
{
    float *p = u->parameter + first, *m = momentum ? u->mean + first : NULL;
    const float *g = u->gradient + first;
    const float factor = clip ? *u->clip : 1, decay = *u->decay, keep = momentum ? *u->keep_mean : 0, rate = *u->rate;
    const float share = whole ? 1 : *u->share;
    SAMBA_VECTOR_LOOP
    for (int64_t i = 0; i < count; i++) {
        float d = (clip ? g[i] * factor : g[i]) + p[i] * decay;
        if (momentum)
            m[i] = d = m[i] * keep + (whole ? d : d * share);
        p[i] = p[i] - d * rate;
    }
}

static inline __attribute__((always_inline)) void nesterov_of(const samba_update *u, int64_t first, int64_t count, const bool clip)
{
    float *p = u->parameter + first, *m = u->mean + first;
    const float *g = u->gradient + first;
    const float factor = clip ? *u->clip : 1, decay = *u->decay, keep = *u->keep_mean, rate = *u->rate, share = *u->share;
    SAMBA_VECTOR_LOOP
    for (int64_t i = 0; i < count; i++) {
        float d = (clip ? g[i] * factor : g[i]) + p[i] * decay;
        float next = m[i] * keep + d * share;
        m[i] = next;
        p[i] = p[i] - (d + next * keep) * rate;
    }
}

static inline __attribute__((always_inline)) void sgd_clipped(const samba_update *u, int64_t first, int64_t count, const bool clip)
{
    if (!u->mean || (u->active && !*u->active))
        sgd_of(u, first, count, clip, false, true);
    else if (u->nesterov)
        nesterov_of(u, first, count, clip);
    else if (!u->share || *u->share == 1)
        sgd_of(u, first, count, clip, true, true);
    else
        sgd_of(u, first, count, clip, true, false);
}

static void sgd(const samba_update *u, int64_t first, int64_t count)
{
    if (u->clip)
        sgd_clipped(u, first, count, true);
    else
        sgd_clipped(u, first, count, false);
}

static inline __attribute__((always_inline)) void adamw_of(const samba_update *u, int64_t first, int64_t count, const bool clip)
{
    float *p = u->parameter + first, *m = u->mean + first, *v = u->square + first;
    const float *g = u->gradient + first;
    const float factor = clip ? *u->clip : 1, decay = *u->decay, share_mean = *u->share_mean, rate = *u->rate;
    const float keep_square = *u->keep_square, share_square = *u->share_square, scale = *u->scale, eps = *u->eps;
    SAMBA_VECTOR_LOOP
    for (int64_t i = 0; i < count; i++) {
        float d = clip ? g[i] * factor : g[i];
        float mean = m[i] + (d - m[i]) * share_mean;
        float square = v[i] * keep_square + d * d * share_square;
        m[i] = mean;
        v[i] = square;
        p[i] = p[i] * decay - mean / (sqrtf(square) * scale + eps) * rate;
    }
}

static void adamw(const samba_update *u, int64_t first, int64_t count)
{
    if (u->clip)
        adamw_of(u, first, count, true);
    else
        adamw_of(u, first, count, false);
}

const samba_updates SAMBA_ISA_NAME(samba_updates) = {sgd, adamw};
