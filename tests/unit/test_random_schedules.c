/* SPDX-License-Identifier: Apache-2.0
 *
 * Random schedules: test_random_schedules [CASES] [SEED]. A case trains one of three models (mapped_models.h), mapped somehow,
 * for some steps in pieces - the schedule whole or by ranges of calls, types in any case of letters, ids - with evaluations
 * between. A second session without budget does the same by whole steps and types: after each step both hold the same bits. In
 * between, a case asks for what is not allowed: it is refused, with the sentence that says why, and nothing has changed. No
 * section of a mapping is larger than allowed, and fusions are never parted.
 *
 * The seed and what was drawn are printed; case i of a seed is case 0 of the seed + i. */
#include "training.h"
#include "mapped_models.h"
#include "runtime/runtime.h"
#include "tensor/philox.h"
#include <ctype.h>

static int64_t cases = 200;
static uint64_t first_seed, seed, drawn;
static int below(int bound) { return (int)samba_philox_below(samba_philox_word64(seed, drawn++), (uint64_t)bound); }

enum { MOST = 256, ZEROGRAD = 0, FWD = 1, BCKWD = 2, OPT = 5, PHASES = 6 };

/* ---- what was drawn ---- */
enum { BY_CALLS, BY_TYPES, BY_IDS, EVALUATED, BETWEEN, MADE_AGAIN, REFUSED };
enum { WAY = REFUSED + 3, COUNTED = WAY + MAPPED_MODELS * 8 };
static int counts[COUNTED];

static void print_counts(void)
{
    print_message("runs by calls, types, ids, evaluations, those within steps, parts made again; refusals by kind;"
                  " plain, least, spatial, budget, and accumulated, of each model:");
    for (int i = 0; i < COUNTED; i++)
        print_message("%s%d", i == REFUSED || (i >= WAY && (i - WAY) % 8 == 0) ? "; " : " ", counts[i]);
    print_message("\n");
}

/* ---- sections of a plan ---- */
/* Memory that stages touch, counted by the byte. */
static int64_t bytes_touched(const samba_plan *plan, const samba_plan_section *section)
{
    uint8_t *touched = calloc(1, (size_t)plan->memory_bytes + 1);
    assert_non_null(touched);
    int64_t bytes = 0;
    for (int32_t s = 0; s < section->stage_count; s++) {
        const samba_stage *stage = &plan->stages[section->first_stage + s];
        bool product = stage->kind == SAMBA_STAGE_CONTRACT;
        int32_t both[2] = {product ? stage->contract.a.buffer : -1, product ? stage->contract.b.buffer : -1};
        for (int32_t o = -2; o < stage->operand_count; o++) {
            int32_t b = o >= 0 ? stage->operands[o].buffer : both[o + 2];
            if (b >= 0)
                memset(touched + plan->buffers[b].offset, 1, (size_t)plan->buffers[b].bytes);
        }
    }
    for (int64_t i = 0; i < plan->memory_bytes; i++)
        bytes += touched[i];
    free(touched);
    return bytes;
}

static void check_sections(const samba_plan *plan, int64_t budget)
{
    int32_t sections_of[PHASES] = {0}; /* with operators of the fusion */
    for (int32_t i = 0; i < plan->section_count; i++) {
        const samba_plan_section *section = &plan->sections[i];
        assert_int_equal(section->fast_memory, bytes_touched(plan, section));
        assert_true(budget == 0 || section->fast_memory <= budget);
        bool fused = false;
        for (int32_t s = section->first_stage; s < section->first_stage + section->stage_count; s++)
            for (int32_t k = 0; k < plan->stages[s].operator_count; k++)
                fused |= plan->locations[plan->stages[s].operators[k].location].fusion != 0;
        sections_of[section->phase] += fused;
    }
    assert_true(sections_of[FWD] <= 1 && sections_of[BCKWD] <= 1);
}

/* ---- models, each compiled once in each way but the last, of a budget that the case draws ---- */
enum { PLAIN, LEAST, SPATIAL, BUDGET, WAYS, ACCUMULATIONS = 2 }; /* the reference is plain */
static char paths[MAPPED_MODELS][ACCUMULATIONS][BUDGET][512];
static int64_t least[MAPPED_MODELS][ACCUMULATIONS];

static void compile_way(int model, int a, samba_tensor **inputs, int64_t budget, int way, char path[512])
{
    samba_compile_options options =
        mapped_options(model, inputs, a ? 3 : 1, budget, way == SPATIAL ? SAMBA_MAPPING_SPATIAL : SAMBA_MAPPING_SECTION);
    char name[40];
    snprintf(name, sizeof name, "m%d-%d-%d", model, a, way);
    options.pef_name = name;
    need(samba_compile(context, &options, path, 512));
}

static void compile_all(void)
{
    for (int model = 0; model < MAPPED_MODELS; model++) {
        samba_tensor *inputs[2];
        mapped_inputs(model, inputs);
        for (int a = 0; a < ACCUMULATIONS; a++) {
            least[model][a] = mapped_least(model, inputs, a ? 3 : 1);
            for (int way = 0; way < BUDGET; way++)
                compile_way(model, a, inputs, way == LEAST ? least[model][a] : 0, way, paths[model][a][way]);
        }
        free_each_tensor(2, inputs);
    }
}

/* ---- one case ---- */
typedef struct schedule {
    samba_session *given, *reference;
    samba_tensor *inputs[2];
    const samba_plan *plan; /* of `given` */
    int accumulation;
    bool spatial;
    bool trained; /* some BCKWD has run */
    bool spoiled; /* OPT ran after the last FWD, and BCKWD did not */
} schedule;

static bool any_of_phase(const samba_plan *plan, int phase)
{
    for (int32_t i = 0; i < plan->section_count; i++)
        if (plan->sections[i].phase == phase || (phase == BCKWD && plan->sections[i].forward_stages > 0))
            return true;
    return false;
}

/* "FWD", "fwd", "Fwd" ... */
static const char *any_case(int phase, char word[16])
{
    snprintf(word, 16, "%s", samba_section_type_names[phase]);
    for (char *at = word; *at; at++)
        *at = (char)(below(2) ? tolower(*at) : *at);
    return word;
}

/* Types of phases [begin, end) that the plan has, in one run or several. */
static void run_by_types(schedule *s, samba_session *session, int begin, int end, bool whole, bool train, bool with_inputs)
{
    char words[PHASES * 16] = "", word[16];
    counts[BY_TYPES]++;
    for (int phase = begin; phase < end; phase++) {
        if (any_of_phase(s->plan, phase))
            strcat(strcat(words, any_case(phase, word)), " ");
        if (!*words || (phase < end - 1 && (whole || below(3) > 0)))
            continue;
        samba_run_options r = giving(with_inputs ? 2 : 0, s->inputs);
        r.train = train;
        need(run_sections(session, &r, words));
        *words = 0;
    }
}

/* Ids of the sections of phases [begin, end), in one run or several.
 * What BCKWD makes again may be there or not where BCKWD follows. */
static void run_by_ids(schedule *s, int begin, int end, bool train)
{
    int ids[MOST], count = 0;
    counts[BY_IDS]++;
    for (int32_t i = 0; i < s->plan->section_count; i++) {
        int32_t phase = s->plan->sections[i].phase;
        if (phase < begin || phase >= end || (s->plan->sections[i].redone_by > 0 && end > BCKWD && below(2)))
            continue;
        assert_true(count < MOST);
        ids[count++] = i;
    }
    for (int from = 0, until; from < count; from = until) {
        until = below(2) ? count : from + 1 + below(count - from);
        samba_run_options r = giving(2 * below(2), s->inputs);
        r.section_ids = ids + from;
        r.section_id_count = until - from;
        r.train = train;
        need(samba_run(s->given, &r));
    }
}

/* The schedule, in one run or by ranges of its calls. */
static void run_by_calls(schedule *s)
{
    counts[BY_CALLS]++;
    for (int from = 0, until, count = samba_session_call_count(s->given); from < count; from = until) {
        samba_run_options r = giving(2 * below(2), s->inputs);
        until = below(3) == 0 ? count : from + 1 + below(count - from);
        r.run_from_call_id = from > 0 || below(2) ? from : -1;
        r.run_until_call_id = until < count || below(2) ? until : -1;
        need(samba_run(s->given, &r));
    }
}

/* By types or, where that is possible, by ids: in space FWD and BCKWD have one, which is both. */
static void run_either(schedule *s, int begin, int end, bool train)
{
    if ((s->spatial && (end == FWD + 1 || begin == BCKWD)) || below(2))
        run_by_types(s, s->given, begin, end, false, train, below(2));
    else
        run_by_ids(s, begin, end, train);
}

static void evaluate(schedule *s)
{
    counts[EVALUATED]++;
    s->spoiled = false;
    run_by_types(s, s->reference, FWD, FWD + 1, true, false, true);
    run_either(s, FWD, FWD + 1, false);
}

/* A step of `accumulation` micro-batches; an evaluation may come between BCKWD and what follows it. */
static void train_step(schedule *s)
{
    s->spoiled = false;
    bool by_calls = below(2);
    for (int micro = 0; micro < s->accumulation; micro++) {
        bool last = micro == s->accumulation - 1, evaluated = !by_calls && last && below(4) == 0;
        samba_run_options whole = giving(2, s->inputs);
        if (by_calls) {
            run_by_calls(s);
            need(samba_run(s->reference, &whole));
            continue;
        }
        int begin = micro == 0 ? ZEROGRAD : FWD, end = last && !evaluated ? PHASES : BCKWD + 1;
        run_by_types(s, s->reference, begin, end, true, true, true);
        for (int from = begin, until; from < end; from = until) {
            until = from + 1 + below(end - from);
            run_either(s, from, until, true);
        }
        if (evaluated) {
            counts[BETWEEN]++;
            evaluate(s);
            run_by_types(s, s->reference, BCKWD + 1, PHASES, true, true, false);
            run_either(s, BCKWD + 1, PHASES, true);
        }
        s->spoiled = evaluated;
    }
    s->trained = true;
}

/* ---- what is not allowed; `pending`: a forward run has just been done whose activations are there ---- */
static int32_t section_of(const schedule *s, int phase, int number)
{
    for (int32_t i = 0; i < s->plan->section_count; i++)
        if (s->plan->sections[i].phase == phase && s->plan->sections[i].redone_by == 0 && number-- == 0)
            return i;
    return -1;
}

static void refuse_words(schedule *s, const char *sections, const char *words)
{
    samba_run_options r = giving(2 * below(2), s->inputs);
    refuse(run_sections(s->given, &r, sections), SAMBA_ERROR_STATE, words);
}

/* Of ids, `second` -1: one alone. */
static void refuse_sections(schedule *s, int32_t first, int32_t second, const char *words)
{
    char ids[32];
    snprintf(ids, sizeof ids, second >= 0 ? "%d %d" : "%d", (int)first, (int)second);
    refuse_words(s, ids, words);
}

/* What is wrong whatever ran before is in messages/messages.txt. */
static void refuse_something(schedule *s, bool pending)
{
    const int kind = below(3);
    counts[REFUSED + kind]++;
    switch (kind) {
    case 0: /* BCKWD without a forward run, or again */
        if (!pending)
            refuse_words(s, "bckwd", s->spoiled ? "has taken that memory" : "(BCKWD) needs the activations of a forward run");
        refuse_words(s, "FWD BCKWD Bckwd", "used up those of the last");
        break;
    case 1: need(run_sections(s->given, NULL, "reduce")); break; /* a type that no graph here needs: a run of nothing */
    case 2:                                                      /* not in the order in which they go on from each other */
        if (section_of(s, FWD, 2) >= 0)
            refuse_sections(s, section_of(s, FWD, 0), section_of(s, FWD, 2), "(FWD) goes on from the FWD sections before it");
        if (section_of(s, BCKWD, 1) >= 0)
            refuse_sections(s, section_of(s, BCKWD, 1), -1, "(BCKWD)");
        if (!s->trained && section_of(s, OPT, 0) >= 0)
            refuse_sections(s, section_of(s, OPT, 0), -1, "(OPT) needs gradients");
    }
}

static void run_case(void)
{
    drawn = 0;
    int model = below(MAPPED_MODELS), a = below(ACCUMULATIONS), threads = 1 + below(2), way = below(WAYS);
    int64_t budget = way == LEAST ? least[model][a] : way == BUDGET ? least[model][a] + below(4 * (int)least[model][a]) : 0;
    char path[512];
    schedule s = {.accumulation = a ? 3 : 1, .spatial = way == SPATIAL};
    counts[WAY + 8 * model + 4 * a + way]++;
    mapped_inputs(model, s.inputs);
    if (way == BUDGET)
        compile_way(model, a, s.inputs, budget, way, path);
    s.given = open_session(way == BUDGET ? path : paths[model][a][way], threads, seed);
    s.reference = open_session(paths[model][a][PLAIN], threads, seed);
    s.plan = &s.given->plan;
    check_sections(s.plan, budget);
    for (int32_t i = 0; i < s.reference->plan.section_count; i++)
        counts[MADE_AGAIN] += model == 2 && s.reference->plan.sections[i].redone_by > 0;
    assert_true(s.spatial || s.plan->section_count >= s.reference->plan.section_count);
    for (int i = 0; i < 2; i++)
        need(samba_session_set(s.given, s.inputs[i])); /* runs may bring inputs or leave them */
    bool pending = false;
    for (int i = 2 + below(3); i > 0; i--) {
        if (below(3) == 0)
            refuse_something(&s, pending);
        pending = below(4) == 0;
        if (pending)
            evaluate(&s);
        else
            train_step(&s);
        assert_same_bits(s.reference, s.given, COMPUTED);
    }
    refuse_something(&s, pending);
    assert_same_bits(s.reference, s.given, COMPUTED);
    samba_session_free(s.given);
    samba_session_free(s.reference);
    free_each_tensor(2, s.inputs);
}

TEST(test_random_schedules)
{
    compile_all();
    print_message("seed %llu, %lld cases\n", (unsigned long long)first_seed, (long long)cases);
    for (int64_t i = 0; i < cases; i++) {
        seed = first_seed + (uint64_t)i;
        if (cases > 1)
            fprintf(stderr, "\rcase %llu ", (unsigned long long)seed); /* the one that fails is the last */
        run_case();
    }
    fputc('\n', stderr);
    print_counts();
    assert_true(counts[MADE_AGAIN] > 0 || cases < 100);
}

int main(int argc, char **argv)
{
    first_seed = random_seed();
    if (argc > 1)
        cases = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_schedules)};
    return cmocka_run_group_tests(tests, harness_begin, harness_end);
}
