/* SPDX-License-Identifier: Apache-2.0
 *
 * Which elements of a line make an element of a longer or shorter one, and with what weights: torch.nn.functional.interpolate
 * along one dim. Operators, their reference and the kernels all ask here. */
#ifndef SAMBA_TENSOR_RESAMPLE_H
#define SAMBA_TENSOR_RESAMPLE_H

#include "base/base.h"

typedef struct samba_resample_axis {
    int64_t in, out;
    int64_t mode; /* samba_resample_mode (sambaflow/resample.h), but for area, which is pooling */
    bool align_corners, antialias;
    bool wide;    /* float64: positions are not rounded to float32, as torch rounds them elsewhere */
    double scale; /* how much larger; 0: out / in */
} samba_resample_axis;

/* Can there be such a line? Elements of both are needed, a scale of 0 or more that is finite, and a mode. */
bool samba_resample_possible(const samba_resample_axis *axis);
/* The number of elements that make one of the result, the same for all. */
int64_t samba_resample_taps(const samba_resample_axis *axis);
/* Those that make element `o`, and their weights. Near an end one may come several times. */
void samba_resample_taps_of(const samba_resample_axis *axis, int64_t o, int64_t *index, double *weight);

#endif
