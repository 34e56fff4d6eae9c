/* SPDX-License-Identifier: Apache-2.0
 *
 * Early stopping, as Keras' EarlyStopping counts: the best value so far, and how many came since that were no better. */
#include <sambaflow/train.h>

#include <math.h>

bool samba_is_better(double value, double than, bool greater)
{
    return !isnan(value) && (isnan(than) || (greater ? value > than : value < than));
}

bool samba_early_stop_step(samba_early_stop *stop, double value)
{
    if (!stop)
        return false;
    const double bound = stop->greater ? stop->best + stop->min_delta : stop->best - stop->min_delta;
    if (samba_is_better(value, bound, stop->greater)) {
        stop->best = value;
        stop->bad = 0;
    } else
        stop->bad++;
    return stop->patience > 0 && stop->bad >= stop->patience;
}
