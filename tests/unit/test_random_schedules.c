/* SPDX-License-Identifier: Apache-2.0
 *
 * Random schedules: test_random_schedules [CASES] [SEED]. A case takes one of three models (mapped_models.h), mapped in one way
 * or another, with or without gradient accumulation, and trains it for some steps in pieces - the schedule whole or by ranges of
 * calls, types in any case of letters, ids - with evaluations between. A second session of the same model without budget does the
 * same by whole steps and types: after each step both hold the same bits. In between, a case asks for what is not allowed: it is
 * refused, with the sentence that says why, and nothing has changed.
 *
 * The seed is printed; case i of a seed is case 0 of the seed + i. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../seed.h"
#include "training.h"

#include "mapped_models.h"
#include "runtime/runtime.h"
#include "tensor/philox.h"
#include <ctype.h>

static int64_t cases = 100;
static uint64_t first_seed, seed, drawn;
static int below(int bound) { return (int)samba_philox_below(samba_philox_word64(seed, drawn++), (uint64_t)bound); }

enum { MOST = 256, ZEROGRAD = 0, FWD = 1, BCKWD = 2, PHASES = 6 };

/* ---- models, each compiled once in each way ---- */
enum { WAYS = 4, ACCUMULATIONS = 2 }; /* 0: the reference's; two budgets; spatial */
static char paths[MAPPED_MODELS][ACCUMULATIONS][WAYS][64];

static void compile_all(void)
{
    for (int model = 0; model < MAPPED_MODELS; model++) {
        samba_tensor *inputs[2];
        mapped_inputs(model, inputs);
        for (int a = 0; a < ACCUMULATIONS; a++) {
            int accumulation = a ? 3 : 1;
            int64_t least = mapped_least(model, inputs, accumulation);
            for (int way = 0; way < WAYS; way++) {
                samba_compile_options options = mapped_options(model, inputs, accumulation,
                                                               way == 1   ? least
                                                               : way == 2 ? 2 * least
                                                                          : 0,
                                                               way == 3 ? SAMBA_MAPPING_SPATIAL : SAMBA_MAPPING_SECTION);
                char name[16], path[512];
                snprintf(name, sizeof name, "m%d-%d-%d", model, a, way);
                options.pef_name = name;
                need(samba_compile(context, &options, path, sizeof path));
                assert_true(strlen(path) < sizeof paths[0][0][0]);
                strcpy(paths[model][a][way], path);
            }
        }
        samba_tensor_free(inputs[0]);
        samba_tensor_free(inputs[1]);
    }
}

/* ---- one case ---- */
typedef struct schedule {
    samba_session *given, *reference;
    samba_tensor *inputs[2];
    const samba_plan *plan; /* of `given` */
    int accumulation;
    bool trained; /* some BCKWD has run */
    bool spoiled; /* OPT ran after the last FWD, and BCKWD did not */
} schedule;

static samba_run_options options_of(schedule *s, bool with_inputs)
{
    samba_run_options r = samba_run_defaults();
    r.inputs = s->inputs;
    r.input_count = with_inputs ? 2 : 0;
    return r;
}

static bool has_phase(const samba_plan *plan, int32_t section, int phase)
{
    return plan->sections[section].phase == phase || (phase == BCKWD && plan->sections[section].forward_stages > 0);
}

static bool any_of_phase(const samba_plan *plan, int phase)
{
    for (int32_t i = 0; i < plan->section_count; i++)
        if (has_phase(plan, i, phase))
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
    char words[PHASES][16];
    const char *types[PHASES];
    int count = 0;
    for (int phase = begin; phase < end; phase++) {
        if (!any_of_phase(s->plan, phase))
            continue;
        types[count++] = any_case(phase, words[phase]);
        if ((!whole && below(3) == 0) || phase == end - 1) {
            samba_run_options r = options_of(s, with_inputs);
            r.section_types = types;
            r.section_type_count = count;
            r.train = train;
            need(samba_run(session, &r));
            count = 0;
        }
    }
    if (count > 0) {
        samba_run_options r = options_of(s, with_inputs);
        r.section_types = types;
        r.section_type_count = count;
        r.train = train;
        need(samba_run(session, &r));
    }
}

/* Ids of the sections of phases [begin, end), in one run or several.
 * What BCKWD makes again may be there or not where BCKWD follows. */
static void run_by_ids(schedule *s, int begin, int end, bool train)
{
    int ids[MOST], count = 0;
    for (int32_t i = 0; i < s->plan->section_count; i++) {
        int32_t phase = s->plan->sections[i].phase;
        if (phase < begin || phase >= end || (s->plan->sections[i].redone_by > 0 && end > BCKWD && below(2)))
            continue;
        assert_true(count < MOST);
        ids[count++] = i;
    }
    for (int from = 0; from < count;) {
        int until = below(2) ? count : from + 1 + below(count - from);
        samba_run_options r = options_of(s, below(2));
        r.section_ids = ids + from;
        r.section_id_count = until - from;
        r.train = train;
        need(samba_run(s->given, &r));
        from = until;
    }
}

/* The schedule, in one run or by ranges of its calls. */
static void run_by_calls(schedule *s)
{
    int count = samba_session_call_count(s->given);
    for (int from = 0; from < count;) {
        samba_run_options r = options_of(s, below(2));
        int until = below(3) == 0 ? count : from + 1 + below(count - from);
        r.run_from_call_id = from > 0 || below(2) ? from : -1;
        r.run_until_call_id = until < count || below(2) ? until : -1;
        need(samba_run(s->given, &r));
        from = until;
    }
}

static bool spatial(const schedule *s)
{
    return s->plan->sections[0].forward_stages > 0 || (s->plan->section_count > 1 && s->plan->sections[1].forward_stages > 0);
}

/* A step of `accumulation` micro-batches; an evaluation may come between BCKWD and what follows it. */
static void train_step(schedule *s)
{
    s->spoiled = false;
    bool by_calls = below(2);
    for (int micro = 0; micro < s->accumulation; micro++) {
        bool last = micro == s->accumulation - 1, evaluated = !by_calls && last && below(4) == 0;
        samba_run_options whole = options_of(s, true);
        if (by_calls) {
            run_by_calls(s);
            need(samba_run(s->reference, &whole));
            continue;
        }
        int begin = micro == 0 ? ZEROGRAD : FWD, end = last && !evaluated ? PHASES : BCKWD + 1;
        run_by_types(s, s->reference, begin, end, true, true, true);
        for (int from = begin, until; from < end; from = until) {
            until = from + 1 + below(end - from);
            if (spatial(s) && until == FWD + 1) /* its id is both */
                run_by_types(s, s->given, from, until, false, true, below(2));
            else if (spatial(s) && from == BCKWD)
                run_by_types(s, s->given, from, until, false, true, below(2));
            else if (below(2))
                run_by_types(s, s->given, from, until, false, true, below(2));
            else
                run_by_ids(s, from, until, true);
        }
        s->spoiled = evaluated;
        if (evaluated) {
            run_by_types(s, s->reference, FWD, FWD + 1, true, false, true);
            run_by_types(s, s->given, FWD, FWD + 1, true, false, below(2));
            run_by_types(s, s->reference, BCKWD + 1, PHASES, true, true, false);
            if (below(2))
                run_by_types(s, s->given, BCKWD + 1, PHASES, false, true, false);
            else
                run_by_ids(s, BCKWD + 1, PHASES, true);
        }
    }
    s->trained = true;
}

static void evaluate(schedule *s)
{
    s->spoiled = false;
    run_by_types(s, s->reference, FWD, FWD + 1, true, false, true);
    if (spatial(s) || below(2))
        run_by_types(s, s->given, FWD, FWD + 1, true, false, below(2));
    else
        run_by_ids(s, FWD, FWD + 1, false);
}

/* ---- what is not allowed; `pending`: a forward run has just been done whose activations are there ---- */
static void refuse_run(schedule *s, samba_run_options *r, samba_status status, const char *part)
{
    refuse(samba_run(s->given, r), status, part);
}

static int32_t section_of(const schedule *s, int phase, int number)
{
    for (int32_t i = 0; i < s->plan->section_count; i++)
        if (s->plan->sections[i].phase == phase && s->plan->sections[i].redone_by == 0 && number-- == 0)
            return i;
    return -1;
}

static void refuse_something(schedule *s, bool pending)
{
    samba_run_options r = options_of(s, below(2));
    const char *types[2] = {"bckwd", "OPT"};
    int ids[3] = {0, 0, 0}, calls = samba_session_call_count(s->given);
    switch (below(10)) {
    case 0:
        ids[1] = s->plan->section_count + below(3);
        r.section_ids = ids, r.section_id_count = 2;
        refuse_run(s, &r, SAMBA_ERROR_ARGUMENT, "there is no section");
        break;
    case 1:
        ids[0] = -1 - below(3);
        r.section_ids = ids, r.section_id_count = 1;
        refuse_run(s, &r, SAMBA_ERROR_ARGUMENT, "there is no section");
        break;
    case 2:
        r.section_ids = ids, r.section_id_count = 1, r.section_types = types, r.section_type_count = 1;
        refuse_run(s, &r, SAMBA_ERROR_ARGUMENT, "give one of them");
        break;
    case 3:
        types[1] = below(2) ? "BACKWARD" : "";
        r.section_types = types + 1, r.section_type_count = 1;
        refuse_run(s, &r, SAMBA_ERROR_NAME, "there is no section type");
        break;
    case 4: /* a type that no graph here needs: a run of nothing */
        types[1] = "reduce";
        r = samba_run_defaults();
        r.section_types = types + 1, r.section_type_count = 1;
        need(samba_run(s->given, &r));
        break;
    case 5:
        r.run_from_call_id = calls + below(3);
        refuse_run(s, &r, SAMBA_ERROR_ARGUMENT, "run_from_call_id");
        break;
    case 6:
        r.run_from_call_id = below(calls), r.run_until_call_id = below(r.run_from_call_id + 1);
        refuse_run(s, &r, SAMBA_ERROR_ARGUMENT, "call");
        break;
    case 7:
        r.run_until_call_id = calls, r.section_types = types, r.section_type_count = 1;
        refuse_run(s, &r, SAMBA_ERROR_ARGUMENT, "call ids are of the schedule");
        break;
    case 8: /* BCKWD without a forward run, or again */
        r.section_types = types, r.section_type_count = 1;
        if (!pending)
            refuse_run(s, &r, SAMBA_ERROR_STATE,
                       s->spoiled ? "has taken that memory" : "(BCKWD) needs the activations of a forward run");
        types[0] = "FWD", types[1] = "BCKWD";
        r.section_type_count = 2;
        const char *again[] = {"FWD", "BCKWD", "bckwd"};
        r.section_types = again, r.section_type_count = 3;
        refuse_run(s, &r, SAMBA_ERROR_STATE, "used up those of the last");
        break;
    default: /* not in the order in which they go on from each other */
        ids[0] = section_of(s, FWD, 0);
        ids[1] = section_of(s, FWD, 2);
        if (ids[0] >= 0 && ids[1] >= 0) {
            r.section_ids = ids, r.section_id_count = 2;
            refuse_run(s, &r, SAMBA_ERROR_STATE, "(FWD) goes on from the FWD sections before it");
        }
        ids[0] = section_of(s, BCKWD, 1);
        if (ids[0] >= 0) {
            r.section_ids = ids, r.section_id_count = 1;
            refuse_run(s, &r, SAMBA_ERROR_STATE, "(BCKWD)");
        }
        ids[0] = section_of(s, 5, 0);
        if (!s->trained && ids[0] >= 0) {
            r.section_ids = ids, r.section_id_count = 1;
            refuse_run(s, &r, SAMBA_ERROR_STATE, "(OPT) needs gradients");
        }
    }
}

static void run_case(void)
{
    drawn = 0;
    int model = below(MAPPED_MODELS), a = below(ACCUMULATIONS), threads = 1 + below(2);
    schedule s = {.accumulation = a ? 3 : 1};
    mapped_inputs(model, s.inputs);
    s.given = open_session(paths[model][a][below(WAYS)], threads, seed);
    s.reference = open_session(paths[model][a][0], threads, seed);
    s.plan = &s.given->plan;
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
    samba_tensor_free(s.inputs[0]);
    samba_tensor_free(s.inputs[1]);
}

static void test_random_schedules(void **unused)
{
    (void)unused;
    compile_all();
    print_message("seed %llu, %lld cases\n", (unsigned long long)first_seed, (long long)cases);
    for (int64_t i = 0; i < cases; i++) {
        seed = first_seed + (uint64_t)i;
        if (cases > 1)
            fprintf(stderr, "\rcase %llu ", (unsigned long long)seed); /* the one that fails is the last */
        run_case();
    }
    fputc('\n', stderr);
}

int main(int argc, char **argv)
{
    first_seed = random_seed();
    if (argc > 1)
        cases = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_schedules)};
    return training_begin() ? training_end(cmocka_run_group_tests_name("random schedules", tests, NULL, NULL)) : 1;
}
