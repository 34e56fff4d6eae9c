/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate schedules (torch.optim.lr_scheduler), on the host: the rate after `step` steps, as a function of it alone. A
 * schedule scales the rate it is given, which may be another schedule's; the result is a hyperparameter of the next run:
 *
 *     double lr = samba_cosine_annealing_lr(3e-4, step, 10000, 3e-5);
 *     if (step < 100)
 *         lr = samba_linear_lr(3e-4, step, 0.01, 1, 100);                               warm-up
 *     run.hyperparameters = &(samba_hyperparameter){"lr", lr};
 *     run.hyperparameter_count = 1;
 *
 * Values are those of PyTorch's scheduler of the name after `step` calls of its step(), to rounding. The result is NaN where
 * PyTorch refuses an argument, and for a negative step. */
#ifndef SAMBAFLOW_SCHEDULE_H
#define SAMBAFLOW_SCHEDULE_H

#include <sambaflow/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ConstantLR: lr * factor (of 0 to 1) for total_steps steps, then lr. */
SAMBA_API double samba_constant_lr(double lr, int64_t step, double factor, int64_t total_steps);
/* LinearLR: from lr * start_factor (above 0, up to 1) in equal steps to lr * end_factor (0 to 1) after total_steps,
 * which stays. */
SAMBA_API double samba_linear_lr(double lr, int64_t step, double start_factor, double end_factor, int64_t total_steps);
/* PolynomialLR: lr * (1 - step / total_steps) ^ power, from total_steps on 0. */
SAMBA_API double samba_polynomial_lr(double lr, int64_t step, int64_t total_steps, double power);
/* StepLR: lr * gamma ^ (step / step_size), the quotient a whole number. */
SAMBA_API double samba_step_lr(double lr, int64_t step, int64_t step_size, double gamma);
/* MultiStepLR: lr * gamma for each of the `count` milestones that step has reached. */
SAMBA_API double samba_multi_step_lr(double lr, int64_t step, int count, const int64_t *milestones, double gamma);
/* ExponentialLR: lr * gamma ^ step. */
SAMBA_API double samba_exponential_lr(double lr, int64_t step, double gamma);
/* CosineAnnealingLR: half a cosine from lr to eta_min after t_max steps; it goes up again behind that. */
SAMBA_API double samba_cosine_annealing_lr(double lr, int64_t step, int64_t t_max, double eta_min);
/* CosineAnnealingWarmRestarts: half a cosine from lr to eta_min within t_0 steps, then from lr again, each t_mult (1 or more)
 * times as long as the last. */
SAMBA_API double samba_cosine_annealing_warm_restarts(double lr, int64_t step, int64_t t_0, int64_t t_mult, double eta_min);

typedef struct samba_one_cycle_options { /* zero means PyTorch's default */
    double pct_start;                    /* 0: 0.3: the part of the steps in which the rate goes up */
    double div_factor;                   /* 0: 25: it starts at max_lr / div_factor */
    double final_div_factor;             /* 0: 10000: and ends at its start / final_div_factor */
    bool linear;                         /* straight lines instead of cosines */
    bool three_phase;                    /* down to the start as it went up, then to the end */
} samba_one_cycle_options;
/* OneCycleLR for steps 0 .. total_steps - 1; NaN behind. */
SAMBA_API double samba_one_cycle_lr(double max_lr, int64_t step, int64_t total_steps,
                                    const samba_one_cycle_options *options /* may be NULL */);

#ifdef __cplusplus
}
#endif
#endif
