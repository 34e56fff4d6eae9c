/* SPDX-License-Identifier: Apache-2.0
 *
 * See resample.h. Formulas of torch's ATen/native/UpSample.h, for the same elements at the same positions. */
#include "tensor/resample.h"
#include <math.h>

enum { NEAREST, NEAREST_EXACT, LINEAR, BICUBIC };

#define MOST_TAPS 0x1p30              /* of antialiasing */
#define MOST_TAPS_OF_A_LINE 134217728 /* of all taps of a line, which the reference holds */

static double step_of(const samba_resample_axis *axis)
{
    if (axis->align_corners)
        return axis->out > 1 ? (double)(axis->in - 1) / (double)(axis->out - 1) : 0;
    return axis->scale > 0 ? 1 / axis->scale : (double)axis->in / (double)axis->out;
}

/* Half of what an antialiasing filter reaches over. */
static double support_of(const samba_resample_axis *axis)
{
    double step = step_of(axis), half = axis->mode == LINEAR ? 1 : 2;
    return step >= 1 ? half * step : half;
}

bool samba_resample_possible(const samba_resample_axis *axis)
{
    return axis->in >= 1 && axis->out >= 1 && axis->in <= INT32_MAX && axis->out <= INT32_MAX && axis->mode >= NEAREST &&
           axis->mode <= BICUBIC && axis->scale >= 0 && isfinite(axis->scale) && isfinite(step_of(axis)) &&
           (!axis->antialias || (axis->mode >= LINEAR && support_of(axis) < MOST_TAPS)) &&
           samba_resample_taps(axis) <= MOST_TAPS_OF_A_LINE / axis->out;
}

int64_t samba_resample_taps(const samba_resample_axis *axis)
{
    if (!axis->antialias)
        return axis->mode <= NEAREST_EXACT ? 1 : axis->mode == LINEAR ? 2 : 4;
    int64_t most = (int64_t)ceil(support_of(axis)) * 2 + 1;
    return most < axis->in ? most : axis->in;
}

static int64_t inside(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

/* Keys' cubic convolution, near (up to 1) and far (up to 2). */
static double near_cubic(double x, double a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
static double far_cubic(double x, double a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

static double filter(const samba_resample_axis *axis, double x)
{
    x = fabs(x);
    if (axis->mode == LINEAR)
        return x < 1 ? 1 - x : 0;
    return x < 1 ? near_cubic(x, -0.5) : x < 2 ? far_cubic(x, -0.5) : 0;
}

/* A filter as wide as the elements that fall together. What it does not reach repeats the last element, sharing its weight. */
static void antialiased(const samba_resample_axis *axis, int64_t o, int64_t *index, double *weight)
{
    double step = step_of(axis), support = support_of(axis), center = step * ((double)o + 0.5), narrow = step >= 1 ? 1 / step : 1,
           total = 0;
    int64_t taps = samba_resample_taps(axis), first = (int64_t)fmax(center - support + 0.5, 0);
    first = inside(first, axis->in);
    int64_t end = (int64_t)fmin(center + support + 0.5, (double)axis->in), count = end - first;
    count = count < 1 ? 1 : count > taps ? taps : count;
    for (int64_t k = 0; k < count; k++) {
        index[k] = first + k;
        weight[k] = filter(axis, ((double)(first + k) - center + 0.5) * narrow);
        total += weight[k];
    }
    for (int64_t k = 0; k < count && total != 0; k++)
        weight[k] /= total;
    double share = weight[count - 1] / (double)(taps - count + 1);
    for (int64_t k = count - 1; k < taps; k++) {
        index[k] = first + count - 1;
        weight[k] = share;
    }
}

void samba_resample_taps_of(const samba_resample_axis *axis, int64_t o, int64_t *index, double *weight)
{
    double step = step_of(axis), position = axis->align_corners ? step * (double)o : step * ((double)o + 0.5) - 0.5;
    if (axis->antialias) {
        antialiased(axis, o, index, weight);
        return;
    }
    weight[0] = 1;
    if (axis->mode == NEAREST) {
        float at = axis->wide ? (float)(step * (double)o) : (float)step * (float)o;
        index[0] = inside((int64_t)floorf(at), axis->in);
    } else if (axis->mode == NEAREST_EXACT) {
        float at = (float)step * ((float)o + 0.5f) - 0.5f;
        at = axis->wide ? (float)(fmax(position, 0) + 0.5) : (at < 0 ? 0 : at) + 0.5f;
        index[0] = inside((int64_t)floorf(at), axis->in);
    } else if (axis->mode == LINEAR) {
        position = axis->in == axis->out ? (double)o : fmax(position, 0);
        index[0] = inside((int64_t)floor(position), axis->in);
        index[1] = inside(index[0] + 1, axis->in);
        weight[1] = fmin(fmax(position - (double)index[0], 0), 1);
        weight[0] = 1 - weight[1];
    } else {
        int64_t at = (int64_t)floor(position);
        at = at < axis->in - 1 ? at : axis->in - 1;
        double t = fmin(fmax(position - (double)at, 0), 1);
        for (int k = 0; k < 4; k++)
            index[k] = inside(at - 1 + k, axis->in);
        weight[0] = far_cubic(t + 1, -0.75);
        weight[1] = near_cubic(t, -0.75);
        weight[2] = near_cubic(1 - t, -0.75);
        weight[3] = far_cubic((1 - t) + 1, -0.75);
    }
}
