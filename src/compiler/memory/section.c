/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages to sections, and the schedule of each graph, which calls them in order. A call's id is its position in its graph's
 * schedule.
 *
 * Without a budget a phase is one section, or two where BCKWD computes a part of FWD again (redone.c). With one (`fast_memory`) a
 * section has as many stages as touch no more memory than that, all of them together: what a device with fast memory of that size
 * can keep there while the section runs. A section ends between modules where it can: among the ends that leave it at least half
 * as full, where the fewest levels of the module's path go on. What a fusion hint names is never parted. The mapping `spatial`
 * makes FWD and BCKWD one section, or fails.
 *
 * Where replicas train together, each bucket of gradients is a section of REDUCE, and BCKWD ends one where a bucket is complete,
 * so that its exchange can begin there (buckets.c). An exchange in FWD or BCKWD is a section too, which the session runs between
 * two of the device's. So the mapping `spatial` cannot have one, nor what a fusion hint names.
 *
 * Sections do not move stages, so what is computed is the same bit by bit. Needs: stages in order of phase, offsets. Gives:
 * sections and calls. Breaks nothing. */
#include "compiler/compiler.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory that some stages touch together: stretches between addresses where buffers begin and end, each counted once ---- */
typedef struct touched {
    const samba_plan *plan;
    int64_t *at; /* addresses, in order */
    int32_t count;
    int32_t *stamp; /* per stretch: the set it was last in */
    int32_t now;
    int64_t bytes;
} touched;

static int by_address(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static samba_status touched_begin(touched *t, samba_compiler *c)
{
    const samba_plan *plan = &c->plan;
    size_t most = 2 * (size_t)plan->buffer_count + 1, count = 0;
    *t = (touched){.plan = plan, .now = 1};
    SAMBA_TRY(SAMBA_ROOM(&c->arena, t->at, most));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, t->stamp, most));
    for (int32_t b = 0; b < plan->buffer_count; b++) {
        t->at[count++] = plan->buffers[b].offset;
        t->at[count++] = plan->buffers[b].offset + plan->buffers[b].bytes;
    }
    qsort(t->at, count, sizeof *t->at, by_address);
    for (size_t i = 0; i < count; i++)
        if (t->count == 0 || t->at[i] != t->at[t->count - 1])
            t->at[t->count++] = t->at[i];
    return SAMBA_OK;
}

static void touched_clear(touched *t)
{
    t->now++;
    t->bytes = 0;
}

static void touch(touched *t, int32_t buffer)
{
    if (buffer < 0 || t->plan->buffers[buffer].bytes == 0)
        return;
    int64_t begin = t->plan->buffers[buffer].offset, end = begin + t->plan->buffers[buffer].bytes;
    const int64_t *from = bsearch(&begin, t->at, (size_t)t->count, sizeof *t->at, by_address);
    for (int32_t i = (int32_t)(from - t->at); t->at[i] < end; i++)
        if (t->stamp[i] != t->now) {
            t->stamp[i] = t->now;
            t->bytes += t->at[i + 1] - t->at[i];
        }
}

static void touch_stage(touched *t, const samba_stage *stage)
{
    for (int32_t o = 0; o < stage->operand_count; o++)
        touch(t, stage->operands[o].buffer);
    if (stage->kind == SAMBA_STAGE_CONTRACT) {
        touch(t, stage->contract.a.buffer);
        touch(t, stage->contract.b.buffer);
    }
}

static int64_t bytes_of(touched *t, int32_t first, int32_t end)
{
    touched_clear(t);
    for (int32_t s = first; s < end; s++)
        touch_stage(t, &t->plan->stages[s]);
    return t->bytes;
}

/* ---- modules and fusions ---- */
static const char *module_of(const samba_plan *plan, int32_t stage)
{
    const samba_stage *s = &plan->stages[stage];
    for (int32_t i = 0; i < s->operator_count; i++)
        if (plan->locations[s->operators[i].location].module)
            return plan->words[plan->locations[s->operators[i].location].module];
    return "";
}

/* Bytes of the beginning that two paths share, whole parts of it, and how many parts. */
static size_t shared_path(const char *a, const char *b, int *parts)
{
    size_t shared = 0;
    *parts = 0;
    for (size_t i = 0;; i++) {
        bool a_ends = a[i] == '.' || a[i] == '\0', b_ends = b[i] == '.' || b[i] == '\0';
        if (a_ends && b_ends && i > 0) {
            shared = i;
            ++*parts;
        }
        if (a[i] != b[i] || a[i] == '\0')
            return shared;
    }
}

/* together[s]: no section may begin at stage s of first .. end - 1, since a fusion has stages on both sides. */
static samba_status find_fusions(samba_compiler *c, int32_t first, int32_t end, uint8_t *together)
{
    const samba_plan *plan = &c->plan;
    int32_t *begins;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, begins, (size_t)plan->word_count + 1)); /* stage + 1 */
    for (int32_t s = first; s < end; s++) {
        const samba_stage *stage = &plan->stages[s];
        for (int32_t i = 0; i < stage->operator_count; i++) {
            int32_t fusion = plan->locations[stage->operators[i].location].fusion;
            if (fusion && begins[fusion])
                memset(together + begins[fusion], 1, (size_t)(s + 1 - begins[fusion]));
            if (fusion)
                begins[fusion] = s + 1; /* what lies before is held together already */
        }
    }
    return SAMBA_OK;
}

/* Of the modules of stages that begin so: all that they have in common, which may be more. */
static size_t extended(const samba_plan *plan, int32_t first, int32_t end, const char *module, size_t length)
{
    size_t common = strlen(module);
    int parts;
    for (int32_t s = first; s < end; s++) {
        const char *other = module_of(plan, s);
        size_t both = shared_path(module, other, &parts);
        if (both >= length && both < common)
            common = both;
    }
    return common;
}

/* The modules of stages, as parts of what they have in common: "wte, h.0", "h.0 ... h.5"; "" where none is known. */
static samba_status name_modules(samba_compiler *c, int32_t first, int32_t end, char **name)
{
    enum { SHOWN = 4 };
    const samba_plan *plan = &c->plan;
    const char *common = NULL, *shown[SHOWN], *last = "";
    size_t length = 0, lengths[SHOWN], last_length = 0;
    int parts, count = 0;
    for (int32_t s = first; s < end; s++) {
        const char *module = module_of(plan, s);
        if (!module[0])
            continue;
        size_t both = common ? shared_path(common, module, &parts) : strlen(module);
        length = !common || both < length ? both : length;
        common = common ? common : module;
    }
    for (int32_t s = first; s < end && common; s++) {
        const char *module = module_of(plan, s);
        if (!module[0])
            continue;
        size_t own = length + (module[length] == '.');
        own += strcspn(module + own, ".");
        bool known = false;
        for (int k = 0; k < count && k < SHOWN && !known; k++)
            known = lengths[k] == own && strncmp(shown[k], module, own) == 0;
        if (known)
            continue;
        if (count < SHOWN) {
            shown[count] = module;
            lengths[count] = own;
        }
        count++;
        last = module;
        last_length = own;
    }
    samba_text text;
    samba_text_init(&text, c->context);
    for (int k = 0; k < count && count <= SHOWN; k++)
        samba_text_add(&text, "%s%.*s", k ? ", " : "", (int)extended(plan, first, end, shown[k], lengths[k]), shown[k]);
    if (count > SHOWN)
        samba_text_add(&text, "%.*s ... %.*s", (int)lengths[0], shown[0], (int)last_length, last);
    return samba_text_keep(&text, &c->plan.arena, name);
}

/* ---- making sections ---- */
static samba_status add_section(samba_compiler *c, touched *t, int32_t first, int32_t end, const char *name)
{
    samba_plan *plan = &c->plan;
    samba_plan_section section = {.id = plan->section_count,
                                  .phase = (int32_t)c->growth.made[first].phase,
                                  .first_stage = first,
                                  .stage_count = end - first};
    bool joint = c->growth.made[first].phase != c->growth.made[end - 1].phase;
    for (int32_t s = first; s < end; s++) {
        section.forward_stages += joint && c->growth.made[s].phase == SAMBA_FWD;
        section.redone_stages += joint && c->growth.made[s].redone;
        section.flops += joint && c->growth.made[s].redone ? 0 : plan->stages[s].flops;
        section.bytes += joint && c->growth.made[s].redone ? 0 : plan->stages[s].bytes;
    }
    section.redone_by = !joint && c->growth.made[first].redone ? SAMBA_BCKWD : 0;
    section.fast_memory = bytes_of(t, first, end);
    SAMBA_TRY(name ? samba_arena_copy(&plan->arena, name, &section.name) : name_modules(c, first, end, &section.name));
    if (!section.name[0])
        SAMBA_TRY(samba_arena_copy(&plan->arena, samba_phase_names[section.phase], &section.name));
    SAMBA_TRY(SAMBA_GROW(c->context, plan->sections, c->growth.section_capacity, plan->section_count + 1));
    SAMBA_TRY(SAMBA_GROW(c->context, plan->calls, c->growth.call_capacity, plan->call_count + 1));
    plan->calls[plan->call_count++] = section.id;
    plan->sections[plan->section_count++] = section;
    plan->graphs[c->growth.made[first].graph].section_count++;
    plan->graphs[c->growth.made[first].graph].call_count++;
    return SAMBA_OK;
}

static const samba_plan_graph *graph_of(const samba_compiler *c, int32_t stage)
{
    return &c->plan.graphs[c->growth.made[stage].graph];
}

static int32_t next_begin(const uint8_t *together, int32_t stage, int32_t end)
{
    do
        stage++;
    while (stage < end && together[stage]);
    return stage;
}

/* Fails: names the stages that cannot be parted and are too large, and the memory that the model needs. */
static samba_status refuse(samba_compiler *c, touched *t, int32_t first, int32_t end, int64_t bytes)
{
    int64_t most = 0;
    uint8_t *together;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, together, (size_t)c->plan.stage_count + 1));
    for (int32_t s = 0, next; s < c->plan.stage_count; s = next) { /* of all the graph's phases: what to give instead */
        for (next = s; next < c->plan.stage_count && samba_made_alike(c, next, s);)
            next++;
        SAMBA_TRY(find_fusions(c, s, next, together));
    }
    for (int32_t s = 0, next; s < c->plan.stage_count; s = next) {
        next = next_begin(together, s, c->plan.stage_count);
        int64_t own = c->growth.made[s].graph == c->growth.made[first].graph ? bytes_of(t, s, next) : 0;
        most = own > most ? own : most;
    }
    return samba_fail(c->context, SAMBA_ERROR_ARGUMENT,
                      "compile: fast memory of %lld byte%s cannot hold stage %d '%.128s'%s, which uses %lld bytes: model '%s' "
                      "needs %lld bytes, or smaller batches",
                      (long long)graph_of(c, first)->fast_memory, graph_of(c, first)->fast_memory == 1 ? "" : "s", first,
                      c->plan.stages[first].name, end - first > 1 ? " and what op_fusion keeps with it" : "", (long long)bytes,
                      graph_of(c, first)->name, (long long)most);
}

/* The end of the section that began at `begin`, if stage `full` is too much for it: sizes[s] is what it has before stage s. */
static int32_t choose_end(const samba_compiler *c, const uint8_t *together, const int64_t *sizes, int32_t begin, int32_t full)
{
    int32_t best = full;
    int fewest = INT32_MAX, parts;
    for (int32_t s = full; s > begin; s--) {
        if (together[s] || sizes[s] < sizes[full] / 2)
            continue;
        shared_path(module_of(&c->plan, s - 1), module_of(&c->plan, s), &parts);
        if (parts < fewest) {
            fewest = parts;
            best = s;
        }
    }
    return best;
}

static samba_status cut(samba_compiler *c, touched *t, int32_t first, int32_t end)
{
    uint8_t *together;
    int64_t *sizes;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, together, (size_t)end + 1));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, sizes, (size_t)end + 1));
    SAMBA_TRY(find_fusions(c, first, end, together));
    for (int32_t begin = first; begin < end;) {
        int32_t s = begin;
        for (touched_clear(t); s < end;) {
            int32_t next = next_begin(together, s, end);
            sizes[s] = t->bytes;
            for (int32_t k = s; k < next; k++)
                touch_stage(t, &c->plan.stages[k]);
            if (t->bytes > graph_of(c, first)->fast_memory)
                break;
            s = next;
        }
        if (s == begin)
            return refuse(c, t, begin, next_begin(together, begin, end), t->bytes);
        int32_t stop = s < end ? choose_end(c, together, sizes, begin, s) : end;
        bool whole = begin == first && stop == end;
        SAMBA_TRY(add_section(c, t, begin, stop, whole ? samba_phase_names[c->growth.made[first].phase] : NULL));
        begin = stop;
    }
    return SAMBA_OK;
}

/* The first exchange of those stages; -1: there is none. */
static int32_t find_exchange(const samba_compiler *c, int32_t first, int32_t end)
{
    for (int32_t s = first; s < end; s++)
        if (c->plan.stages[s].kind == SAMBA_STAGE_EXCHANGE)
            return s;
    return -1;
}

static samba_status check_spatial(samba_compiler *c, touched *t, int32_t first, int32_t end)
{
    const int32_t exchange = find_exchange(c, first, end);
    if (exchange >= 0)
        return samba_fail(
            c->context, SAMBA_ERROR_ARGUMENT,
            "compile: mapping 'spatial' makes FWD and BCKWD one section, and stage %d '%.128s' exchanges statistics "
            "between replicas, which parts sections: compile with mapping 'section', or with batch_norm in the "
            "place of sync_batch_norm",
            exchange, c->plan.stages[exchange].name);
    int64_t bytes = bytes_of(t, first, end), budget = graph_of(c, first)->fast_memory;
    if (budget == 0 || bytes <= budget)
        return SAMBA_OK;
    const samba_memory_info *m = &c->plan.memory;
    return samba_fail(c->context, SAMBA_ERROR_ARGUMENT,
                      "compile: mapping 'spatial' keeps %s in fast memory at once: that takes %lld bytes (the model has %lld of "
                      "parameters, %lld of gradients, %lld of activations), and fast memory has %lld: give that much, a smaller "
                      "batch, or mapping 'section'",
                      graph_of(c, first)->inference ? "all of FWD" : "FWD and BCKWD", (long long)bytes, (long long)m->parameters,
                      (long long)m->gradients, (long long)m->activations, (long long)budget);
}

/* Does a section end between this stage and the next because of the replicas? */
static bool ends_for_replicas(const samba_compiler *c, int32_t stage)
{
    const samba_stage *stages = c->plan.stages;
    return c->growth.made[stage].completes || stages[stage].kind == SAMBA_STAGE_EXCHANGE ||
           stages[stage + 1].kind == SAMBA_STAGE_EXCHANGE ||
           (c->growth.made[stage].phase == SAMBA_OPT &&
            samba_bucket_read(c, stage, stage) != samba_bucket_read(c, stage + 1, stage));
}

static int32_t end_of_phase(const samba_compiler *c, int32_t first)
{
    int32_t end = first + 1;
    while (end < c->plan.stage_count && samba_made_alike(c, end, first))
        end++;
    return end;
}

/* Fails where a fusion hint has stages on both sides of an exchange. */
static samba_status check_fusions(samba_compiler *c, int32_t first, int32_t end)
{
    uint8_t *together;
    if (find_exchange(c, first, end) < 0)
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_ROOM(&c->arena, together, (size_t)end + 1));
    SAMBA_TRY(find_fusions(c, first, end, together));
    for (int32_t s = first; s < end; s++)
        if (c->plan.stages[s].kind == SAMBA_STAGE_EXCHANGE && (together[s] || (s + 1 < end && together[s + 1])))
            return samba_fail(c->context, SAMBA_ERROR_ARGUMENT,
                              "compile: op_fusion keeps stages together that stage %d '%.128s' parts, an exchange of statistics "
                              "between replicas: leave sync_batch_norm out of what op_fusion names",
                              s, c->plan.stages[s].name);
    return SAMBA_OK;
}

/* Has the phase stages before or behind these? */
static bool is_part(const samba_compiler *c, int32_t first, int32_t end)
{
    return (first > 0 && samba_made_alike(c, first - 1, first)) ||
           (end < c->plan.stage_count && samba_made_alike(c, end - 1, end));
}

samba_status samba_pass_section(samba_compiler *c)
{
    samba_plan *plan = &c->plan;
    touched t;
    SAMBA_TRY(touched_begin(&t, c));
    for (int32_t first = 0, end, g = 0; first < plan->stage_count; first = end) {
        for (; g < c->growth.made[first].graph; g++) { /* every graph has a stage: something stores its first output */
            plan->graphs[g + 1].first_section = plan->section_count;
            plan->graphs[g + 1].first_call = plan->call_count;
        }
        const samba_plan_graph *graph = &plan->graphs[g];
        samba_phase phase = c->growth.made[first].phase;
        const bool begins = first == 0 || !samba_made_alike(c, first - 1, first);
        bool redone = c->growth.made[first].redone, joint = graph->mapping == SAMBA_MAPPING_SPATIAL && phase == SAMBA_FWD;
        for (end = first; end < plan->stage_count && c->growth.made[end].graph == g; end++)
            if (joint ? c->growth.made[end].phase > SAMBA_BCKWD
                      : c->growth.made[end].phase != phase || c->growth.made[end].redone != redone ||
                            (end > first && ends_for_replicas(c, end - 1)))
                break;
        if (begins && !joint && phase <= SAMBA_BCKWD)
            SAMBA_TRY(check_fusions(c, first, end_of_phase(c, first)));
        if (joint)
            SAMBA_TRY(check_spatial(c, &t, first, end));
        if (joint || graph->fast_memory == 0)
            SAMBA_TRY(add_section(c, &t, first, end,
                                  redone                                            ? "FWD, left out where BCKWD follows"
                                  : joint && c->growth.made[end - 1].phase != phase ? "FWD+BCKWD"
                                  : is_part(c, first, end)                          ? NULL
                                                                                    : samba_phase_names[phase]));
        else
            SAMBA_TRY(cut(c, &t, first, end));
    }
    return plan->graph_count == 1 ? samba_plan_own_graph(plan) : SAMBA_OK; /* link.c knows the tensors of several */
}
