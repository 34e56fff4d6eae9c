/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for better choices than the model's by measuring, in three phases:
 *
 *   try       every way of every stage, in turns. A variant is a whole step in which each stage goes by one of its ways, so all
 *             stages are tried at once and each finds the caches as a step leaves them. After a turn ways that fell far behind
 *             are left out: the later the turn, the less behind. Ways that the first turn had no time for are counted.
 *   confirm   the best way of each stage again, in fresh turns, between two measurements of the model: the best of many looks
 *             better than it is. A way is taken where the median over turns of its time by the model's is below 1 by more than
 *             the noise, and it won nearly every turn. The noise is what two measurements of the model differ by in the same
 *             turns, twice its median and at least 2 %.
 *   whole     steps by the model and by all that was taken, in turns and without clocks between stages. If those are no faster
 *             everything is dropped.
 *
 * A measurement is the fastest of several runs after one that is not counted, so that an interruption does not count. */
#include "runtime/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WAYS = 96, MOST_TURNS = 40, LEAST_CONFIRMED = 5, AGAIN = 4 /* variants between two measurements of the model */ };
#define LEAST_GAIN 0.02         /* of a stage's time */
#define LEAST_SHARE 0.0002      /* of a step's time that a choice has to save */
#define LEAST_MEASURED 0.02     /* seconds of runs that a measurement takes at least */
#define MOST_RUNS 200           /* of one */
#define SHARE_OF_TRYING 0.6     /* of the seconds there are */
#define SHARE_OF_CONFIRMING 0.3 /* the rest is for whole steps */

typedef struct way {
    samba_choice choice;
    double ratios[MOST_TURNS]; /* by the model's time, a turn each */
    int turns;
    bool live;
} way;

typedef struct subject { /* stages that do the same work, as the layers of a model do, and have a choice; they choose as one */
    int32_t *stages, stage_count;
    int32_t count, best; /* of ways; the one that is confirmed: -1, none */
    way *ways;
    double model; /* seconds of its stages by the model, as last measured */
    double own[MOST_TURNS], times[MOST_TURNS], noise[MOST_TURNS];
    const char *road; /* the model's */
} subject;

typedef struct search {
    samba_session *session;
    const samba_tune_options *options;
    samba_arena *arena;
    subject *subjects;
    int32_t count;
    int32_t *subject_of;          /* per stage; -1: it has no choice */
    int64_t live;                 /* ways */
    const samba_choice **choices; /* per stage: a variant */
    int64_t runs;                 /* of a measurement */
    double step, begin;           /* seconds of a step; when it began */
    samba_tune_result *result;
} search;

/* ---- measuring ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *values, int count)
{
    double sorted[MOST_TURNS];
    if (count == 0)
        return NAN;
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double spent(const search *s) { return samba_seconds() - s->begin; }

static void tell(const search *s, samba_tune_phase phase)
{
    double share = spent(s) / s->options->seconds;
    if (s->options->tell)
        s->options->tell(s->options->to, phase, share < 1 ? share : 1, s->live, s->count);
}

static samba_status step(const search *s)
{
    for (int i = 0; i < s->options->run_count; i++)
        SAMBA_TRY(samba_run(s->session, &s->options->runs[i]));
    return SAMBA_OK;
}

/* The device as `choices` have it; NULL: the model. */
static samba_status become(const search *s, const samba_choice *const *choices)
{
    samba_device *device = s->session->device;
    SAMBA_TRY(device->interface->choose(device, &s->session->plan, choices));
    SAMBA_TRY(device->interface->rebuild(device));
    if (choices && device->unfit[0]) /* alternatives() had prepared it */
        return samba_fail(s->session->context, SAMBA_ERROR_INTERNAL, "tuning: %s", device->unfit);
    return step(s);
}

/* Seconds of the stages, of the fastest of several runs. */
static samba_status measure_stages(const search *s, const samba_choice *const *choices)
{
    samba_time *times = s->session->profiler.stages;
    SAMBA_TRY(become(s, choices));
    memset(times, 0, (size_t)s->session->plan.stage_count * sizeof *times);
    for (int64_t i = 0; i < s->runs; i++)
        SAMBA_TRY(step(s));
    return SAMBA_OK;
}

static samba_status measure_step(const search *s, const samba_choice *const *choices, double *seconds)
{
    SAMBA_TRY(become(s, choices));
    for (int64_t i = 0; i < s->runs; i++) {
        double start = samba_seconds();
        SAMBA_TRY(step(s));
        double now = samba_seconds() - start;
        *seconds = i == 0 || now < *seconds ? now : *seconds;
    }
    return SAMBA_OK;
}

static double seconds_of(const search *s, const subject *u)
{
    double seconds = 0;
    for (int32_t i = 0; i < u->stage_count; i++)
        seconds += s->session->profiler.stages[u->stages[i]].least;
    return seconds;
}

static void choose(const search *s, const subject *u, const way *w)
{
    for (int32_t i = 0; i < u->stage_count; i++)
        s->choices[u->stages[i]] = w ? &w->choice : NULL;
}

static samba_status measure_model(search *s)
{
    SAMBA_TRY(measure_stages(s, NULL));
    for (int32_t i = 0; i < s->count; i++)
        s->subjects[i].model = seconds_of(s, &s->subjects[i]);
    return SAMBA_OK;
}

/* ---- what there is to try ---- */

/* But for where their operands lie. */
static bool same_work(const samba_stage *a, const samba_stage *b)
{
    if (a->kind != b->kind || a->rank != b->rank || a->flops != b->flops || a->bytes != b->bytes ||
        a->operand_count != b->operand_count || a->program.instruction_count != b->program.instruction_count ||
        memcmp(a->domain, b->domain, (size_t)a->rank * sizeof *a->domain) != 0)
        return false;
    for (int32_t i = 0; i < a->program.instruction_count; i++)
        if (a->program.instructions[i].op != b->program.instructions[i].op)
            return false;
    samba_contract mine = a->contract, other = b->contract;
    mine.a.buffer = mine.b.buffer = other.a.buffer = other.b.buffer = 0;
    mine.a.offset = mine.b.offset = other.a.offset = other.b.offset = 0;
    return a->kind != SAMBA_STAGE_CONTRACT || memcmp(&mine, &other, sizeof mine) == 0;
}

/* As the device's model has them: where an operand lies may say how it is read. */
static bool same_ways(const subject *u, const char *road, const samba_choice *list, int32_t count)
{
    if (u->count != count || u->road != road)
        return false;
    for (int32_t k = 0; k < count; k++) {
        const samba_choice *own = &u->ways[k].choice;
        if (own->road != list[k].road || own->figure_count != list[k].figure_count)
            return false;
        for (int32_t f = 0; f < own->figure_count; f++)
            if (own->figures[f].name != list[k].figures[f].name || own->figures[f].value != list[k].figures[f].value)
                return false;
    }
    return true;
}

static samba_status list_ways(search *s)
{
    samba_device *device = s->session->device;
    const samba_stage *all = s->session->plan.stages;
    const int32_t stages = s->session->plan.stage_count;
    samba_choice list[MOST_WAYS];
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->subjects, stages));
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->choices, stages));
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->subject_of, stages));
    for (int32_t i = 0; i < stages; i++) {
        int32_t count, same = 0;
        const char *road = device->interface->road(device, i);
        SAMBA_TRY(device->interface->alternatives(device, i, MOST_WAYS, list, &count));
        s->subject_of[i] = -1;
        if (count == 0)
            continue;
        s->result->stages++;
        while (same < s->count &&
               !(same_work(&all[s->subjects[same].stages[0]], &all[i]) && same_ways(&s->subjects[same], road, list, count)))
            same++;
        s->subject_of[i] = same;
        subject *u = &s->subjects[same];
        if (same < s->count) {
            u->stages[u->stage_count++] = i;
            continue;
        }
        s->count++;
        *u = (subject){.stage_count = 1, .count = count, .best = -1, .road = road};
        SAMBA_TRY(SAMBA_ROOM(s->arena, u->ways, count));
        SAMBA_TRY(SAMBA_ROOM(s->arena, u->stages, stages - i));
        u->stages[0] = i;
        for (int32_t k = 0; k < count; k++)
            u->ways[k] = (way){.choice = list[k], .live = true};
        s->live += count;
    }
    s->result->kinds = s->count;
    s->result->ways = s->live;
    return SAMBA_OK;
}

/* How many runs make a measurement: those of a step that takes long, one. */
static samba_status find_runs(search *s)
{
    s->runs = 1;
    SAMBA_TRY(measure_step(s, NULL, &s->step));
    SAMBA_TRY(measure_step(s, NULL, &s->step));
    double runs = ceil(LEAST_MEASURED / s->step);
    s->runs = runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : (int64_t)runs;
    return SAMBA_OK;
}

/* ---- trying ---- */

/* The way that is number `variant` of those that are left, round and round; NULL: none is. */
static way *way_of(const subject *u, int32_t variant)
{
    int32_t live = 0;
    for (int32_t k = 0; k < u->count; k++)
        live += u->ways[k].live;
    for (int32_t k = 0, at = live ? variant % live : 0; k < u->count && live; k++)
        if (u->ways[k].live && at-- == 0)
            return &u->ways[k];
    return NULL;
}

static int32_t variants_of(const search *s)
{
    int32_t most = 0;
    for (int32_t i = 0; i < s->count; i++) {
        int32_t live = 0;
        for (int32_t k = 0; k < s->subjects[i].count; k++)
            live += s->subjects[i].ways[k].live;
        most = live > most ? live : most;
    }
    return most;
}

static samba_status try_variant(search *s, int32_t variant)
{
    memset(s->choices, 0, (size_t)s->session->plan.stage_count * sizeof *s->choices);
    for (int32_t i = 0; i < s->count; i++) {
        choose(s, &s->subjects[i], way_of(&s->subjects[i], variant));
    }
    SAMBA_TRY(measure_stages(s, s->choices));
    for (int32_t i = 0; i < s->count; i++) {
        way *w = way_of(&s->subjects[i], variant);
        if (w && w->turns < MOST_TURNS && s->subjects[i].model > 0)
            w->ratios[w->turns++] = seconds_of(s, &s->subjects[i]) / s->subjects[i].model;
    }
    return SAMBA_OK;
}

/* Leaves out what is slower than the model by more than a turn can err, the less the more turns there were. */
static void leave_out(search *s, int turn)
{
    const double most = turn == 0 ? 1.08 : turn == 1 ? 1.0 : 1 - LEAST_GAIN / 2;
    s->live = 0;
    for (int32_t i = 0; i < s->count; i++)
        for (int32_t k = 0; k < s->subjects[i].count; k++) {
            way *w = &s->subjects[i].ways[k];
            w->live = w->live && w->turns > 0 && median_of(w->ratios, w->turns) < most;
            s->live += w->live;
        }
}

/* Of the first turn: what there was no time for, and the seconds that all of it would have taken. */
static void note_untried(search *s, double begin, int32_t tried, int32_t variants)
{
    for (int32_t i = 0; i < s->count; i++)
        for (int32_t k = 0; k < s->subjects[i].count; k++)
            s->result->untried += s->subjects[i].ways[k].turns == 0;
    s->result->enough_seconds = ceil((begin + (spent(s) - begin) * variants / tried) / SHARE_OF_TRYING);
}

static samba_status try_all(search *s)
{
    const double most = SHARE_OF_TRYING * s->options->seconds;
    for (int turn = 0; turn < MOST_TURNS; turn++) {
        const int32_t variants = variants_of(s);
        const double begin = spent(s);
        if (variants == 0 || (turn > 0 && begin > most))
            break;
        int32_t v = 0;
        for (; v < variants && (v == 0 || turn > 0 || spent(s) < most); v++) {
            if (v % AGAIN == 0)
                SAMBA_TRY(measure_model(s));
            SAMBA_TRY(try_variant(s, v));
            tell(s, SAMBA_TUNE_TRY);
        }
        if (v < variants)
            note_untried(s, begin, v, variants);
        leave_out(s, turn);
        s->result->turns++;
    }
    return SAMBA_OK;
}

/* ---- confirming ---- */

static int32_t pick_best(search *s)
{
    int32_t picked = 0;
    s->live = 0;
    for (int32_t i = 0; i < s->count; i++) {
        subject *u = &s->subjects[i];
        double least = 1 - LEAST_GAIN;
        for (int32_t k = 0; k < u->count; k++) {
            double ratio = u->ways[k].live ? median_of(u->ways[k].ratios, u->ways[k].turns) : 1;
            if (ratio < least) {
                least = ratio;
                u->best = k;
            }
        }
        picked += u->best >= 0;
    }
    s->live = picked;
    return picked;
}

static void choose_best(search *s)
{
    memset(s->choices, 0, (size_t)s->session->plan.stage_count * sizeof *s->choices);
    for (int32_t i = 0; i < s->count; i++)
        if (s->subjects[i].best >= 0)
            choose(s, &s->subjects[i], &s->subjects[i].ways[s->subjects[i].best]);
}

/* A turn: the model, what was picked, the model. */
static samba_status confirm_once(search *s, int turn)
{
    SAMBA_TRY(measure_model(s));
    SAMBA_TRY(measure_stages(s, s->choices));
    for (int32_t i = 0; i < s->count; i++)
        s->subjects[i].times[turn] = seconds_of(s, &s->subjects[i]);
    SAMBA_TRY(measure_stages(s, NULL));
    for (int32_t i = 0; i < s->count; i++) {
        subject *u = &s->subjects[i];
        u->own[turn] = (u->model + seconds_of(s, u)) / 2;
        u->noise[turn] = fabs(seconds_of(s, u) - u->model) / u->own[turn];
    }
    return SAMBA_OK;
}

static bool is_faster(const search *s, const subject *u, int turns)
{
    double ratios[MOST_TURNS], noise = 2 * median_of(u->noise, turns);
    int won = 0;
    for (int i = 0; i < turns; i++) {
        ratios[i] = u->times[i] / u->own[i];
        won += ratios[i] < 1;
    }
    double ratio = median_of(ratios, turns);
    return ratio < 1 - (noise > LEAST_GAIN ? noise : LEAST_GAIN) && won >= turns - turns / 5 &&
           (1 - ratio) * median_of(u->own, turns) > LEAST_SHARE * s->step;
}

static samba_status confirm(search *s)
{
    int turns = 0;
    if (pick_best(s) == 0)
        return SAMBA_OK;
    choose_best(s);
    for (; turns < MOST_TURNS; turns++) {
        if (turns >= LEAST_CONFIRMED && spent(s) > (SHARE_OF_TRYING + SHARE_OF_CONFIRMING) * s->options->seconds)
            break;
        SAMBA_TRY(confirm_once(s, turns));
        tell(s, SAMBA_TUNE_CONFIRM);
    }
    double noise[MOST_TURNS];
    int sampled = 0;
    for (int32_t i = 0; i < s->count; i++) {
        subject *u = &s->subjects[i];
        if (sampled < MOST_TURNS)
            noise[sampled++] = median_of(u->noise, turns);
        if (u->best >= 0 && !is_faster(s, u, turns))
            u->best = -1;
    }
    s->result->noise = median_of(noise, sampled);
    s->result->confirming_turns = turns;
    return SAMBA_OK;
}

/* ---- whole steps ---- */

static samba_status compare_steps(search *s)
{
    double model[MOST_TURNS], tuned[MOST_TURNS], ratios[MOST_TURNS];
    int turns = 0;
    choose_best(s);
    for (; turns < MOST_TURNS; turns++) {
        if (turns >= LEAST_CONFIRMED && spent(s) > s->options->seconds)
            break;
        SAMBA_TRY(measure_step(s, NULL, &model[turns]));
        SAMBA_TRY(measure_step(s, s->choices, &tuned[turns]));
        ratios[turns] = tuned[turns] / model[turns];
        tell(s, SAMBA_TUNE_WHOLE);
    }
    s->result->model_ms = 1e3 * median_of(model, turns);
    s->result->tuned_ms = s->result->model_ms * median_of(ratios, turns);
    s->result->dropped = median_of(ratios, turns) >= 1;
    return SAMBA_OK;
}

/* ---- the result ---- */

static samba_status take_result(search *s)
{
    const samba_plan *plan = &s->session->plan;
    samba_tune *tune = &s->result->tune;
    int turns = s->result->confirming_turns;
    tune->plan = plan->hash;
    tune->stages = plan->stage_count;
    SAMBA_TRY(samba_tune_machine_find(s->session->context, s->session->device, s->session->threads, &tune->machine));
    SAMBA_TRY(SAMBA_ROOM(s->arena, tune->choices, plan->stage_count));
    SAMBA_TRY(SAMBA_ROOM(s->arena, s->result->findings, s->count));
    for (int32_t i = 0; i < s->count && !s->result->dropped; i++) {
        const subject *u = &s->subjects[i];
        const double own = median_of(u->own, turns), best = u->best < 0 ? own : median_of(u->times, turns);
        if (!(best < own)) /* a busy machine may have decided */
            continue;
        const samba_choice *choice = &u->ways[u->best].choice;
        const char *model = u->road ? u->road : "";
        s->result->findings[s->result->finding_count++] = (samba_tune_finding){.stage = u->stages[0],
                                                                               .stage_count = u->stage_count,
                                                                               .choice = choice,
                                                                               .model = model,
                                                                               .best = choice->road ? choice->road : model,
                                                                               .model_ms = 1e3 * own,
                                                                               .best_ms = 1e3 * best};
    }
    for (int32_t i = 0; i < plan->stage_count && !s->result->dropped; i++) {
        const subject *u = s->subject_of[i] < 0 ? NULL : &s->subjects[s->subject_of[i]];
        if (!u || u->best < 0)
            continue;
        const double own = median_of(u->own, turns), best = median_of(u->times, turns);
        if (best < own)
            tune->choices[tune->count++] =
                (samba_tune_choice){.stage = i, .gain = (own - best) / own, .choice = u->ways[u->best].choice};
    }
    return SAMBA_OK;
}

static samba_status find(search *s)
{
    bool any = false;
    SAMBA_TRY(list_ways(s));
    SAMBA_TRY(find_runs(s));
    s->result->model_ms = s->result->tuned_ms = 1e3 * s->step;
    SAMBA_TRY(samba_session_profile(s->session, SAMBA_PROFILE_STAGES, 0));
    SAMBA_TRY(try_all(s));
    SAMBA_TRY(confirm(s));
    SAMBA_TRY(samba_session_profile(s->session, SAMBA_PROFILE_OFF, 0));
    for (int32_t i = 0; i < s->count; i++)
        any = any || s->subjects[i].best >= 0;
    if (any)
        SAMBA_TRY(compare_steps(s));
    return take_result(s);
}

samba_status samba_tune_search(samba_session *session, const samba_tune_options *options, samba_arena *arena,
                               samba_tune_result *result)
{
    *result = (samba_tune_result){.stages = 0};
    samba_device *device = session->device;
    search s = {.session = session, .options = options, .arena = arena, .begin = samba_seconds(), .result = result};
    if (!device->interface->choose)
        return samba_fail(session->context, SAMBA_ERROR_UNSUPPORTED, "the device \"%s\" has nothing to tune",
                          device->interface->name);
    samba_status status = find(&s), back = become(&s, NULL);
    return status == SAMBA_OK ? back : status;
}
