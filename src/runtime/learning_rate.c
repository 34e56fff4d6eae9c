/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate schedules: the closed formulas of torch.optim.lr_scheduler, which steps by recurrence where it can be chained. */
#include <sambaflow/schedule.h>

#include <math.h>

static double half_cosine(double from, double to, double part)
{
    return to + (from - to) * (1 + cos(3.14159265358979323846 * part)) / 2;
}

double samba_constant_lr(double lr, int64_t step, double factor, int64_t total_steps)
{
    if (step < 0 || !(factor >= 0 && factor <= 1))
        return NAN;
    return step < total_steps ? lr * factor : lr;
}

double samba_linear_lr(double lr, int64_t step, double start_factor, double end_factor, int64_t total_steps)
{
    if (step < 0 || total_steps < 1 || !(start_factor > 0 && start_factor <= 1) || !(end_factor >= 0 && end_factor <= 1))
        return NAN;
    return lr *
           (start_factor + (end_factor - start_factor) * (double)(step < total_steps ? step : total_steps) / (double)total_steps);
}

double samba_polynomial_lr(double lr, int64_t step, int64_t total_steps, double power)
{
    if (step < 0 || total_steps < 1)
        return NAN;
    return step < total_steps ? lr * pow(1 - (double)step / (double)total_steps, power) : 0;
}

double samba_step_lr(double lr, int64_t step, int64_t step_size, double gamma)
{
    return step < 0 || step_size < 1 ? NAN : lr * pow(gamma, (double)(step / step_size));
}

double samba_multi_step_lr(double lr, int64_t step, int count, const int64_t *milestones, double gamma)
{
    if (step < 0 || count < 0 || (count > 0 && !milestones))
        return NAN;
    for (int i = 0; i < count; i++)
        lr *= step >= milestones[i] ? gamma : 1;
    return lr;
}

double samba_exponential_lr(double lr, int64_t step, double gamma) { return step < 0 ? NAN : lr * pow(gamma, (double)step); }

double samba_cosine_annealing_lr(double lr, int64_t step, int64_t t_max, double eta_min)
{
    return step < 0 || t_max < 1 ? NAN : half_cosine(lr, eta_min, (double)(step % (2 * t_max)) / (double)t_max);
}

double samba_cosine_annealing_warm_restarts(double lr, int64_t step, int64_t t_0, int64_t t_mult, double eta_min)
{
    if (step < 0 || t_0 < 1 || t_mult < 1)
        return NAN;
    int64_t length = t_0;
    if (t_mult == 1)
        step %= t_0;
    for (; step >= length && t_mult > 1; length = length > INT64_MAX / t_mult ? INT64_MAX : length * t_mult)
        step -= length;
    return half_cosine(lr, eta_min, (double)step / (double)length);
}

double samba_one_cycle_lr(double max_lr, int64_t step, int64_t total_steps, const samba_one_cycle_options *options)
{
    samba_one_cycle_options o = {0};
    if (options)
        o = *options;
    double up = o.pct_start != 0 ? o.pct_start : 0.3, start = max_lr / (o.div_factor != 0 ? o.div_factor : 25);
    double end = start / (o.final_div_factor != 0 ? o.final_div_factor : 1e4), last = (double)total_steps - 1, at = (double)step;
    if (step < 0 || total_steps < 1 || step >= total_steps || !(up > 0 && up <= 1))
        return NAN;
    /* where each phase ends, and at which rate */
    const double ends[3] = {up * (double)total_steps - 1, 2 * up * (double)total_steps - 2, last},
                 rates[3] = {max_lr, o.three_phase ? start : end, end};
    double begin = 0, from = start;
    for (int i = 0; i < 3; i++) {
        bool final = i == 2 || (i == 1 && !o.three_phase);
        double stop = final ? last : ends[i];
        if (at <= stop || final) {
            double part = stop > begin ? (at - begin) / (stop - begin) : 1;
            return o.linear ? from + (rates[i] - from) * part : half_cosine(from, rates[i], part);
        }
        begin = stop;
        from = rates[i];
    }
    return NAN;
}
