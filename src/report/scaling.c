/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of many replicas on two lines of time: the processors, which run sections one after the other, and the network, which
 * takes exchanges one after the other. Where a section waits for an exchange is what runtime/replicas.c does; all replicas are
 * alike, so that one stands for all. */
#include "report/scaling.h"

#include <string.h>

/* ---- of a plan ---- */
static bool is_left_out(const samba_plan *plan, const samba_plan_graph *graph, int32_t call)
{
    const samba_plan_section *section = &plan->sections[plan->calls[call]];
    for (int32_t k = call + 1; k < graph->first_call + graph->call_count && section->redone_by > 0; k++)
        if (plan->sections[plan->calls[k]].phase == section->redone_by)
            return true;
    return false;
}

static void find_exchanged(const samba_plan *plan, samba_scaling_section *section)
{
    const samba_plan_section *its = &plan->sections[section->section];
    for (int32_t s = its->first_stage; s < its->first_stage + its->stage_count; s++) {
        const samba_stage *stage = &plan->stages[s];
        if (stage->kind != SAMBA_STAGE_EXCHANGE)
            continue;
        section->element = (int32_t)samba_dtype_size((samba_dtype)stage->operands[0].dtype);
        section->bytes += stage->domain[0] * section->element;
    }
}

static int32_t place_of(const samba_scaling *scaling, int32_t section)
{
    for (int32_t i = 0; i < scaling->count && section >= 0; i++)
        if (scaling->sections[i].section == section)
            return i;
    return -1;
}

static bool updates(const samba_scaling_section *section) { return section->phase == SAMBA_PLAN_OPT; }
static bool reduces(const samba_scaling_section *section) { return section->phase == SAMBA_PLAN_REDUCE; }

static void find_order(const samba_plan *plan, samba_scaling *scaling)
{
    for (int32_t a = 0; a < scaling->count; a++) {
        samba_scaling_section *section = &scaling->sections[a];
        if (reduces(section))
            section->completed_by = place_of(scaling, samba_plan_completion(plan, section->section));
        for (int32_t b = 0; b < a && updates(section); b++)
            scaling->follows[a * scaling->count + b] = (updates(&scaling->sections[b]) || reduces(&scaling->sections[b])) &&
                                                       samba_plan_follows(plan, section->section, scaling->sections[b].section);
    }
}

static int64_t samples_of(const samba_plan *plan, const samba_plan_graph *graph)
{
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[graph->tensors[i]];
        if (tensor->kind == SAMBA_KIND_INPUT && tensor->rank > 0)
            return tensor->shape[0];
    }
    return 1;
}

samba_status samba_scaling_find(samba_context *context, const samba_plan *plan, int32_t graph, samba_arena *arena,
                                samba_scaling *scaling)
{
    const samba_plan_graph *its = &plan->graphs[graph];
    bool any = false;
    *scaling =
        (samba_scaling){.runs = its->grad_accumulation_steps > 1 ? its->grad_accumulation_steps : 1, .memory = plan->memory};
    if (its->inference)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "scale: graph \"%.128s\" is for inference: only a graph that trains has an exchange between replicas",
                          its->name);
    SAMBA_TRY(SAMBA_ROOM(arena, scaling->sections, (size_t)its->call_count + 1));
    for (int32_t i = its->first_call; i < its->first_call + its->call_count; i++) {
        samba_scaling_section *section = &scaling->sections[scaling->count];
        if (is_left_out(plan, its, i))
            continue;
        *section =
            (samba_scaling_section){.section = plan->calls[i], .phase = plan->sections[plan->calls[i]].phase, .completed_by = -1};
        find_exchanged(plan, section);
        any = any || reduces(section);
        scaling->bytes += section->bytes;
        scaling->count++;
    }
    if (!any)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "scale: graph \"%.128s\" has no section of type REDUCE, which averages the gradients of replicas: "
                          "compile it with data_parallel",
                          its->name);
    SAMBA_TRY(SAMBA_ROOM(arena, scaling->follows, (size_t)scaling->count * (size_t)scaling->count));
    find_order(plan, scaling);
    scaling->samples = samples_of(plan, its) * scaling->runs;
    return SAMBA_OK;
}

void samba_scaling_set_times(samba_scaling *scaling, const double *seconds, double rest)
{
    scaling->before = rest;
    for (int32_t i = 0; i < scaling->count; i++) {
        samba_scaling_section *section = &scaling->sections[i];
        section->seconds = section->bytes > 0 ? 0 : seconds[section->section];
        if (section->phase == SAMBA_PLAN_FWD || section->phase == SAMBA_PLAN_BCKWD)
            scaling->before += (scaling->runs - 1) * section->seconds;
    }
}

double samba_scaling_alone(const samba_scaling *scaling)
{
    double sum = scaling->before;
    for (int32_t i = 0; i < scaling->count; i++)
        sum += scaling->sections[i].seconds;
    return sum;
}

void samba_scaling_fit(samba_scaling *scaling, double step)
{
    const double factor = step / samba_scaling_alone(scaling);
    scaling->before *= factor;
    for (int32_t i = 0; i < scaling->count; i++)
        scaling->sections[i].seconds *= factor;
}

double samba_scaling_roof(const samba_plan *plan, int32_t section, double flops_per_second, double bytes_per_second)
{
    const samba_plan_section *its = &plan->sections[section];
    double sum = 0;
    for (int32_t s = its->first_stage; s < its->first_stage + its->stage_count; s++) {
        const double computes = (double)plan->stages[s].flops / flops_per_second,
                     moves = (double)plan->stages[s].bytes / bytes_per_second;
        sum += plan->stages[s].kind == SAMBA_STAGE_EXCHANGE ? 0 : computes > moves ? computes : moves;
    }
    return sum;
}

/* ---- a step ---- */
typedef struct step {
    const samba_scaling *scaling;
    const samba_network_cost *network;
    const samba_scaling_how *how;
    double now;       /* of the processors */
    double net;       /* the same moment by the network's clock, which goes slower while sections run beside an exchange */
    double open, end; /* by the network's clock: another exchange may begin; the last one ends */
    double busy;      /* seconds that anything was under way */
    double *ends;     /* by the network's clock: of each exchange, and of all before it */
    int32_t *number;  /* of each exchange, in the order in which they begin */
    int32_t count;    /* so far */
    bool *begun, *done;
} step;

static double exchanged_bytes(const step *s, const samba_scaling_section *section)
{
    return s->how->halves && section->element > 2 ? 2.0 * (double)section->bytes / section->element : (double)section->bytes;
}

/* A section and an exchange beside each other take from one another. */
static void compute(step *s, double seconds)
{
    const double speed = 1 - s->network->processor, left = s->end > s->net ? (s->end - s->net) / s->network->beside : 0,
                 both = seconds <= left * speed ? seconds / speed : left, only = seconds - both * speed;
    s->busy += both;
    s->now += both + (only > 0 ? only : 0);
    s->net += both * s->network->beside + (only > 0 ? only : 0);
}

static void wait_until(step *s, double end) /* by the network's clock */
{
    if (end <= s->net)
        return;
    s->busy += end - s->net;
    s->now += end - s->net;
    s->net = end;
}

/* Begins a half of an exchange, or both. */
static void travel(step *s, int32_t at, bool scatter, bool gather)
{
    const samba_scaling_section *section = &s->scaling->sections[at];
    const samba_exchange_how how = {s->how->replicas, scatter, gather, s->how->mode != SAMBA_MODE_NORMAL};
    const double begin = s->net > s->open ? s->net : s->open;
    const bool whole = gather && !scatter; /* parameters travel as they are */
    const samba_exchange_seconds time =
        samba_exchange_cost(s->network, &how, whole ? (double)section->bytes : exchanged_bytes(s, section));
    const double end = begin + time.occupies + time.behind;
    s->open = begin + time.occupies;
    s->end = end > s->end ? end : s->end;
    s->ends[at] = s->end;
    s->number[at] = s->count++;
    s->begun[at] = true;
}

static void exchange(step *s, int32_t at, bool waits)
{
    travel(s, at, true, !s->how->shard || s->scaling->norms || !reduces(&s->scaling->sections[at]));
    if (!waits)
        return;
    wait_until(s, s->end);
    s->open = s->end;
}

/* Parameters of a bucket whose updates are all done go to all. */
static void give_parameters(step *s, int32_t update)
{
    const samba_scaling *scaling = s->scaling;
    for (int32_t b = 0; b < scaling->count && s->how->shard; b++) {
        bool ready = reduces(&scaling->sections[b]) && scaling->follows[update * scaling->count + b];
        for (int32_t a = 0; a < scaling->count && ready; a++)
            ready = !updates(&scaling->sections[a]) || !scaling->follows[a * scaling->count + b] || s->done[a];
        if (!ready)
            continue;
        travel(s, b, false, true);
        if (s->how->mode == SAMBA_MODE_NORMAL)
            wait_until(s, s->open = s->end);
    }
}

static void update(step *s, int32_t at)
{
    compute(s, s->scaling->sections[at].seconds / (s->how->shard ? s->how->replicas : 1));
    s->done[at] = true;
    give_parameters(s, at);
}

/* The last exchange that an update in the list reads, itself where it reads none; -1: another update has to come before it. */
static int32_t waits_for(const step *s, int32_t at)
{
    const samba_scaling *scaling = s->scaling;
    int32_t last = at;
    for (int32_t b = 0; b < at; b++) {
        if (!scaling->follows[at * scaling->count + b])
            continue;
        if (updates(&scaling->sections[b]) && !s->done[b])
            return -1;
        if (reduces(&scaling->sections[b]) && (last == at || s->number[b] > s->number[last]))
            last = b;
    }
    return last;
}

/* Updates first .. end - 1 in the order in which what they read comes. */
static void run_updates(step *s, int32_t first, int32_t end)
{
    for (int32_t n = first; n < end; n++) {
        int32_t best = -1, its = -1, last;
        for (int32_t i = first; i < end; i++) {
            last = s->done[i] ? -1 : waits_for(s, i);
            const bool sooner = last >= 0 && (best < 0 || (its != best && (last == i || s->number[last] < s->number[its])));
            best = sooner ? i : best;
            its = sooner ? last : its;
        }
        if (best < 0)
            return; /* updates follow those before them: there is always a first */
        if (its != best)
            wait_until(s, s->ends[its]);
        update(s, best);
    }
}

static void run(step *s)
{
    const samba_scaling *scaling = s->scaling;
    const bool overlap = s->how->mode != SAMBA_MODE_NORMAL;
    s->now = s->net = scaling->before;
    for (int32_t i = 0; i < scaling->count; i++) {
        const samba_scaling_section *section = &scaling->sections[i];
        if (section->bytes == 0 && updates(section) && !s->done[i])
            update(s, i);
        else if (section->bytes == 0 && !updates(section))
            compute(s, section->seconds);
        else if (section->bytes > 0 && !s->begun[i])
            exchange(s, i, !overlap || !reduces(section));
        for (int32_t k = i + 1; k < scaling->count && overlap; k++)
            if (reduces(&scaling->sections[k]) && scaling->sections[k].completed_by == i && !s->begun[k])
                exchange(s, k, false);
        if (!overlap || !reduces(section) || (i + 1 < scaling->count && reduces(section + 1)))
            continue;
        int32_t end = i + 1;
        while (s->how->mode == SAMBA_MODE_OPTIMAL && end < scaling->count && updates(&scaling->sections[end]))
            end++;
        if (end > i + 1)
            run_updates(s, i + 1, end);
        else
            wait_until(s, s->end);
    }
    wait_until(s, s->end);
}

static double memory_of(const samba_scaling *scaling, const samba_scaling_how *how)
{
    const double others = (double)(how->replicas - 1) / how->replicas;
    return (double)scaling->memory.total - (how->shard ? others * (double)scaling->memory.state : 0) +
           others * SAMBA_EXCHANGE_SLOTS * (double)samba_exchange_block(how->replicas) * how->replicas;
}

samba_status samba_scaling_step(samba_context *context, const samba_scaling *scaling, const samba_network_cost *network,
                                const samba_scaling_how *how, samba_scaling_result *result)
{
    const size_t count = (size_t)scaling->count, bytes = count * (sizeof(double) + sizeof(int32_t) + 2 * sizeof(bool));
    char *room = samba_calloc(context, bytes);
    if (!room)
        return SAMBA_ERROR_MEMORY;
    int32_t *number = (int32_t *)(void *)(room + count * sizeof(double));
    bool *flags = (bool *)(number + count);
    step s = {scaling, network, how, .ends = (double *)(void *)room, .number = number, .begun = flags, .done = flags + count};
    samba_scaling_result r = {.alone = samba_scaling_alone(scaling), .memory = memory_of(scaling, how)};
    for (int32_t i = 0; i < scaling->count; i++)
        r.bound += samba_exchange_bound(network, how->replicas, exchanged_bytes(&s, &scaling->sections[i]));
    run(&s);
    samba_free(context, room, bytes);
    r.step = s.now;
    r.exchange = s.busy;
    r.hidden = s.busy > 0 ? 1 - (r.step - r.alone) / s.busy : 1;
    r.hidden = r.hidden < 0 ? 0 : r.hidden > 1 ? 1 : r.hidden;
    r.samples_per_second = (double)scaling->samples * how->replicas / r.step;
    r.efficiency = r.alone / r.step;
    *result = r;
    return SAMBA_OK;
}
