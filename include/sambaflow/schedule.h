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

/* ---- one struct for all, as a training has it ---- */

typedef enum samba_schedule_kind {
    SAMBA_SCHEDULE_CONSTANT = 0,
    SAMBA_SCHEDULE_LINEAR = 1,      /* down to min_lr at total_steps */
    SAMBA_SCHEDULE_COSINE = 2,      /* likewise, by half a cosine */
    SAMBA_SCHEDULE_STEP = 3,        /* samba_step_lr: gamma every step_size */
    SAMBA_SCHEDULE_MULTI_STEP = 4,  /* samba_multi_step_lr: gamma at each milestone */
    SAMBA_SCHEDULE_EXPONENTIAL = 5, /* samba_exponential_lr */
    SAMBA_SCHEDULE_ONE_CYCLE = 6,   /* samba_one_cycle_lr; the rate is its greatest */
    SAMBA_SCHEDULE_PLATEAU = 7      /* samba_plateau_step, by what is validated */
} samba_schedule_kind;

/* Fields without effect on a kind stay 0. */
typedef struct samba_schedule {
    samba_schedule_kind kind;
    /* So many steps come first in which the rate rises from 1 / (warmup_steps + 1) of it (SequentialLR of LinearLR with that
     * start_factor); then the schedule begins at its step 0. Not with ONE_CYCLE, which has its own. */
    int64_t warmup_steps;
    int64_t total_steps; /* of LINEAR, COSINE and ONE_CYCLE, warm-up included; 0: those of the training */
    double min_lr;       /* of LINEAR, COSINE and PLATEAU */
    double gamma;        /* of STEP and MULTI_STEP, 0: 0.1; of EXPONENTIAL; of PLATEAU its factor, 0: 0.1 */
    int64_t step_size;   /* of STEP */
    int milestone_count;
    const int64_t *milestones; /* of MULTI_STEP, increasing */
    samba_one_cycle_options one_cycle;
    bool by_epoch; /* steps of STEP, MULTI_STEP and EXPONENTIAL are epochs, as PyTorch's schedulers are often stepped */
    /* Of PLATEAU, as ReduceLROnPlateau has them: how many validations without a better value are endured (0: 10; -1: none), how
     * many are not counted after a change, what is better. */
    int64_t patience, cooldown;
    double threshold;        /* 0: 1e-4 */
    bool absolute_threshold; /* threshold_mode 'abs' */
} samba_schedule;
/* ARGUMENT, with the field: a value that the kind cannot have, or one without effect. `total_steps` is the training's. */
SAMBA_API samba_status samba_schedule_check(samba_context *context, const samba_schedule *schedule, int64_t total_steps);
/* The rate of step `step`, from 0, in epoch `epoch`, from 0, of a training of `total_steps`. PLATEAU has what samba_plateau_step
 * made of `lr`, and its warm-up. NaN where samba_schedule_check refuses. */
SAMBA_API double samba_schedule_lr(const samba_schedule *schedule, double lr, int64_t step, int64_t epoch, int64_t total_steps);

/* ReduceLROnPlateau: what it knows between validations. Begins as samba_plateau_begin makes it; plain numbers, which a program
 * may keep and set again. */
typedef struct samba_plateau {
    double lr, best; /* best: NaN before the first */
    int64_t bad, cooling;
} samba_plateau;
SAMBA_API samba_plateau samba_plateau_begin(double lr);
/* Takes the value of a validation, of which a greater one is better or a smaller one, and gives the rate from now on. */
SAMBA_API double samba_plateau_step(samba_plateau *plateau, const samba_schedule *schedule, double value, bool greater);

#ifdef __cplusplus
}
#endif
#endif
