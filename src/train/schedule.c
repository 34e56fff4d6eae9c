/* SPDX-License-Identifier: Apache-2.0
 *
 * A training's schedule: one struct over the functions of schedule.h, with a warm-up before it, and ReduceLROnPlateau as
 * torch.optim.lr_scheduler has it. */
#include <sambaflow/schedule.h>
#include "base/null.h"

#include <math.h>

/* ---- what a schedule may have ---- */

static bool has_end(samba_schedule_kind kind)
{
    return kind == SAMBA_SCHEDULE_LINEAR || kind == SAMBA_SCHEDULE_COSINE || kind == SAMBA_SCHEDULE_ONE_CYCLE;
}

static bool may_go_by_epoch(samba_schedule_kind kind)
{
    return kind == SAMBA_SCHEDULE_STEP || kind == SAMBA_SCHEDULE_MULTI_STEP || kind == SAMBA_SCHEDULE_EXPONENTIAL;
}

static samba_status without_effect(samba_context *context, const char *field)
{
    return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: %s has no effect on this kind: leave it 0", field);
}

static samba_status check_unused(samba_context *context, const samba_schedule *s)
{
    const samba_schedule_kind kind = s->kind;
    const samba_one_cycle_options *o = &s->one_cycle;
    const bool plateau = kind == SAMBA_SCHEDULE_PLATEAU;
    if (s->min_lr != 0 && kind != SAMBA_SCHEDULE_LINEAR && kind != SAMBA_SCHEDULE_COSINE && !plateau)
        return without_effect(context, "min_lr");
    if (s->gamma != 0 && !may_go_by_epoch(kind) && !plateau)
        return without_effect(context, "gamma");
    if (s->step_size != 0 && kind != SAMBA_SCHEDULE_STEP)
        return without_effect(context, "step_size");
    if (s->milestone_count != 0 && kind != SAMBA_SCHEDULE_MULTI_STEP)
        return without_effect(context, "milestones");
    if (s->total_steps != 0 && !has_end(kind))
        return without_effect(context, "total_steps");
    if (s->by_epoch && !may_go_by_epoch(kind))
        return without_effect(context, "by_epoch");
    if (s->warmup_steps != 0 && kind == SAMBA_SCHEDULE_ONE_CYCLE)
        return without_effect(context, "warmup_steps");
    if (s->warmup_steps != 0 && s->by_epoch)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "schedule: a warm-up of steps and a schedule by epochs do not go together");
    if (!plateau && (s->patience != 0 || s->cooldown != 0 || s->threshold != 0 || s->absolute_threshold))
        return without_effect(context, "patience, cooldown or threshold");
    if (kind != SAMBA_SCHEDULE_ONE_CYCLE &&
        (o->pct_start != 0 || o->div_factor != 0 || o->final_div_factor != 0 || o->linear || o->three_phase))
        return without_effect(context, "one_cycle");
    return SAMBA_OK;
}

static int64_t total_of(const samba_schedule *s, int64_t total_steps) { return s->total_steps ? s->total_steps : total_steps; }

static double gamma_of(const samba_schedule *s)
{
    return s->gamma != 0 || s->kind == SAMBA_SCHEDULE_EXPONENTIAL ? s->gamma : 0.1;
}

static samba_status check_values(samba_context *context, const samba_schedule *s, int64_t total_steps)
{
    const samba_schedule_kind kind = s->kind;
    if (s->warmup_steps < 0 || s->total_steps < 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: warmup_steps %lld, total_steps %lld: both are 0 or more",
                          (long long)s->warmup_steps, (long long)s->total_steps);
    if (has_end(kind) && total_of(s, total_steps) <= s->warmup_steps)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: %lld steps, of which %lld are the warm-up, leave none",
                          (long long)total_of(s, total_steps), (long long)s->warmup_steps);
    if (!(s->min_lr >= 0) || isinf(s->min_lr))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: min_lr is %g: expected 0 or more", s->min_lr);
    if (kind == SAMBA_SCHEDULE_STEP && s->step_size < 1)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: step_size is %lld: expected 1 or more",
                          (long long)s->step_size);
    if (s->milestone_count < 0 || (s->milestone_count > 0 && !s->milestones))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: %d milestones were given", s->milestone_count);
    if (kind == SAMBA_SCHEDULE_EXPONENTIAL && s->gamma == 0)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: an exponential one needs its gamma");
    if (!(s->gamma >= 0) || isinf(s->gamma) || (kind == SAMBA_SCHEDULE_PLATEAU && gamma_of(s) >= 1))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: gamma is %g: expected 0 or more%s", s->gamma,
                          kind == SAMBA_SCHEDULE_PLATEAU ? ", and less than 1" : "");
    if (s->patience < -1)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: patience is %lld: expected -1 (none), 0 (10) or more",
                          (long long)s->patience);
    if (s->cooldown < 0 || !(s->threshold >= 0))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: cooldown %lld, threshold %g: both are 0 or more",
                          (long long)s->cooldown, s->threshold);
    if (kind == SAMBA_SCHEDULE_ONE_CYCLE && isnan(samba_one_cycle_lr(1, 0, total_of(s, total_steps), &s->one_cycle)))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: pct_start is %g: expected above 0, up to 1",
                          s->one_cycle.pct_start);
    return SAMBA_OK;
}

samba_status samba_schedule_check(samba_context *context, const samba_schedule *schedule, int64_t total_steps)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, schedule);
    if ((int)schedule->kind < 0 || schedule->kind > SAMBA_SCHEDULE_PLATEAU)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "schedule: %d is no kind", (int)schedule->kind);
    SAMBA_TRY(check_unused(context, schedule));
    return check_values(context, schedule, total_steps);
}

/* ---- rates ---- */

static double behind_warmup(const samba_schedule *s, double lr, int64_t at, int64_t epoch, int64_t total)
{
    const int64_t step = s->by_epoch ? epoch : at;
    switch (s->kind) {
    case SAMBA_SCHEDULE_LINEAR:
        return at >= total ? s->min_lr : s->min_lr + (lr - s->min_lr) * samba_polynomial_lr(1, at, total, 1);
    case SAMBA_SCHEDULE_COSINE:
        return at >= total ? s->min_lr : s->min_lr + (lr - s->min_lr) * samba_cosine_annealing_lr(1, at, total, 0);
    case SAMBA_SCHEDULE_STEP: return samba_step_lr(lr, step, s->step_size, gamma_of(s));
    case SAMBA_SCHEDULE_MULTI_STEP: return samba_multi_step_lr(lr, step, s->milestone_count, s->milestones, gamma_of(s));
    case SAMBA_SCHEDULE_EXPONENTIAL: return samba_exponential_lr(lr, step, s->gamma);
    case SAMBA_SCHEDULE_ONE_CYCLE: return samba_one_cycle_lr(lr, at < total ? at : total - 1, total, &s->one_cycle);
    default: return lr;
    }
}

double samba_schedule_lr(const samba_schedule *s, double lr, int64_t step, int64_t epoch, int64_t total_steps)
{
    if (!s || step < 0 || epoch < 0)
        return NAN;
    const int64_t at = step - s->warmup_steps;
    if (at < 0)
        return lr * (double)(step + 1) / (double)(s->warmup_steps + 1);
    return behind_warmup(s, lr, at, epoch, total_of(s, total_steps) - s->warmup_steps);
}

samba_plateau samba_plateau_begin(double lr) { return (samba_plateau){lr, NAN, 0, 0}; }

static bool is_better(const samba_schedule *s, double value, double best, bool greater)
{
    const double threshold = s->threshold != 0 ? s->threshold : 1e-4;
    if (isnan(best))
        return !isnan(value);
    if (s->absolute_threshold)
        return greater ? value > best + threshold : value < best - threshold;
    return greater ? value > best * (1 + threshold) : value < best * (1 - threshold);
}

double samba_plateau_step(samba_plateau *p, const samba_schedule *s, double value, bool greater)
{
    if (!p || !s)
        return NAN;
    if (is_better(s, value, p->best, greater)) {
        p->best = value;
        p->bad = 0;
    } else
        p->bad++;
    if (p->cooling > 0) {
        p->cooling--;
        p->bad = 0;
    }
    if (p->bad > (s->patience == 0 ? 10 : s->patience < 0 ? 0 : s->patience)) {
        const double lower = fmax(p->lr * gamma_of(s), s->min_lr);
        if (p->lr - lower > 1e-8) /* its eps: smaller changes are none */
            p->lr = lower;
        p->cooling = s->cooldown;
        p->bad = 0;
    }
    return p->lr;
}
