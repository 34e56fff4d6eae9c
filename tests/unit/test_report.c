/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a plan: roofs against arithmetic, memory over time against counting byte by byte, names that would be markup as
 * text that JSON gives back, Trace Event files read and refused, memory refused. Seeds are printed. */
#include "training.h"
#include "../pef/plans.h"
#include "failing_allocator.h"
#include "report/report.h"
#include <jansson.h>
#include <unistd.h>

static const samba_machine machine = {2, 100e9, 200e9, 10e9, 50e9, "made \"by\" hand", 0, -1};

TEST(test_roofs)
{
    static const struct {
        bool half;
        double flops, bytes, seconds;
        const char *bound;
        double share, least;
    } cases[] = {
        {false, 100e9, 1e9, 2, "compute", 0.5, 1},
        {true, 100e9, 1e9, 1, "compute", 0.5, 0.5},
        {false, 1e9, 10e9, 4, "memory", 0.25, 1},
        {false, 1e9, 10e9, 0.5, "cache", 0.4, 1},      /* 20 GB/s come from no memory */
        {false, 1e9, 10e9, 0.9, "memory", 1 / 0.9, 1}, /* no faster than measuring errs */
        {false, 15e9, 10e9, 0.5, "cache", 0.4, 1},
        {false, 30e9, 10e9, 0.5, "compute", 0.6, 1},
        {false, 0, 10e9, 2, "memory", 0.5, 1},
        {false, 0, 0, 2, "", 0, 0},
        {false, 1e9, 10e9, 0, "", 0, 1}, /* not measured */
        {false, 1e9, 10e9, 1, "", 0, 0}, /* nor is the machine */
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        const samba_machine *of = i < LENGTH(cases) - 1 ? &machine : &(samba_machine){.threads = 1};
        samba_roof roof = samba_machine_roof(of, cases[i].half, cases[i].flops, cases[i].bytes, cases[i].seconds);
        assert_string_equal(roof.bound, cases[i].bound);
        assert_true(fabs(roof.share - cases[i].share) < 1e-12 && fabs(roof.seconds - cases[i].least) <= 1e-12 * cases[i].least);
    }
    samba_machine here;
    refuse(samba_machine_measure(context, 0, &here), SAMBA_ERROR_ARGUMENT, "0 threads, expected 1 to 4096");
    need(samba_machine_measure(context, 1, &here));
    const double slow = emulated() ? 100 : 1;
    assert_true(here.threads == 1 && here.flops_per_second > 1e8 / slow && here.memory_bytes_per_second > 1e7 / slow &&
                here.cache_bytes_per_second > 1e7 / slow);
    assert_true(here.measured_at > 1700000000 && here.others <= 1 && here.others >= (access("/proc/stat", R_OK) ? -1 : 0));
}

TEST(test_reading)
{
    samba_reading *reading;
    refuse(samba_reading_new(context, 0, 4096, &reading), SAMBA_ERROR_ARGUMENT,
           "0 threads and 4096 bytes, expected 1 to 4096 threads and a byte or more");
    refuse(samba_reading_new(context, 1, 0, &reading), SAMBA_ERROR_ARGUMENT, "1 threads and 0 bytes");
    refuse(samba_reading_new(context, 1, INT64_MAX / 4, &reading), SAMBA_ERROR_MEMORY,
           "bytes to measure reading over: ask for fewer");
    assert_null(reading);
    samba_reading_free(reading);
    need(samba_reading_new(context, 3, 1 << 20, &reading));
    for (int i = 0; i < 3; i++)
        assert_true(samba_reading_pass(reading) > 1e6);
    samba_reading_free(reading);
}

/* ---- memory over time ---- */
#define MOST_BYTES 640

/* Buffers anywhere in a small arena, over each other too; stages that touch some, and are nothing more. */
static void make_random_plan(samba_plan *plan)
{
    plan_begin(plan, context, "random");
    plan->memory_bytes = plan->memory.total = 64 * (1 + draw_below(MOST_BYTES / 64));
    plan_section(plan, 1); /* FWD */
    int tensors = draw_below(4), buffers = tensors + draw_below(12), stages = draw_below(9);
    for (int i = 0; i < tensors; i++) {
        char name[] = {(char)('a' + i), 0};
        plan->tensors[plan->tensor_count++] = (samba_plan_tensor){
            .name = samba_arena_strdup(&plan->arena, name), .kind = draw_below(5), .dtype = SAMBA_UINT8, .buffer = i};
    }
    for (int i = 0; i < buffers; i++) {
        int64_t offset = 64 * draw_below((int)(plan->memory_bytes / 64));
        plan->buffers[plan->buffer_count++] = (samba_buffer){offset, draw_below((int)(plan->memory_bytes - offset) + 1)};
    }
    for (int s = 0; s < stages; s++) {
        samba_stage *stage = plan_stage(plan, SAMBA_STAGE_TILE, "stage", 1, SHAPE(1));
        for (int k = draw_below(4); k > 0 && buffers > 0; k--)
            if (draw_below(2))
                operand(stage, draw_below(buffers + 1) - 1, SAMBA_UINT8, 0, 0);
            else
                store(stage, 0, draw_below(buffers), SAMBA_UINT8, 0, 0);
    }
}

static bool holds(const samba_plan *plan, int32_t buffer, int64_t byte)
{
    return byte >= plan->buffers[buffer].offset && byte < plan->buffers[buffer].offset + plan->buffers[buffer].bytes;
}

/* A buffer is in use from the first stage that touches it to the last; those of tensors always are, constants if ever. */
static void find_uses(const samba_plan *plan, const samba_constants *constants, int32_t *first, int32_t *last)
{
    for (int32_t b = 0; b < plan->buffer_count; b++) {
        first[b] = INT32_MAX, last[b] = -1;
        for (int32_t s = plan->stage_count - 1; s >= 0; s--)
            for (int32_t o = 0; o < plan->stages[s].operand_count; o++)
                if (plan->stages[s].operands[o].buffer == b)
                    first[b] = s, last[b] = s > last[b] ? s : last[b];
        if (b < plan->tensor_count || (constants->buffer[b] && last[b] >= 0))
            first[b] = -1, last[b] = plan->stage_count;
    }
}

static void check_live(const samba_plan *plan)
{
    int32_t begins[MOST], ends[MOST];
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_live live;
    samba_constants constants; /* tested by test_constants */
    need(samba_live_find(plan, &plan->memory, &arena, &live));
    need(samba_constants_find(plan, &arena, &constants));
    find_uses(plan, &constants, begins, ends);
    double lasting[SAMBA_LIVE_LASTING] = {0}, all = 0, most = -1;
    static const samba_live_kind kinds[] = {SAMBA_LIVE_INPUTS, SAMBA_LIVE_PARAMETERS, SAMBA_LIVE_STATE, SAMBA_LIVE_GRADIENTS,
                                            SAMBA_LIVE_INPUTS};
    for (int64_t byte = 0; byte < plan->memory_bytes; byte++) {
        int first = SAMBA_LIVE_LASTING;
        for (int32_t b = 0; b < plan->buffer_count; b++) {
            int kind = b < plan->tensor_count ? (int)kinds[plan->tensors[b].kind] : SAMBA_LIVE_CONSTANTS;
            if (begins[b] < 0 && holds(plan, b, byte) && (b < plan->tensor_count ? kind < first : first == SAMBA_LIVE_LASTING))
                first = kind;
        }
        if (first < SAMBA_LIVE_LASTING)
            lasting[first]++, all++;
    }
    for (int i = 0; i < SAMBA_LIVE_LASTING; i++)
        assert_true(live.lasting[i] == lasting[i]);
    for (int32_t s = 0; s < plan->stage_count; s++) {
        double count = -all;
        for (int64_t byte = 0; byte < plan->memory_bytes; byte++)
            for (int32_t b = 0; b < plan->buffer_count; b++)
                if (holds(plan, b, byte) && begins[b] <= s && s <= ends[b]) {
                    count++;
                    break;
                }
        assert_true(live.activations[s] == count);
        most = fmax(most, count);
    }
    assert_true(live.peak < 0 ? plan->stage_count == 0 : live.activations[live.peak] == most);
    samba_arena_free(&arena);
}

TEST(test_live)
{
    seed_anew();
    for (int i = 0; i < 300; i++) {
        samba_plan plan;
        make_random_plan(&plan);
        check_live(&plan);
        samba_plan_free(&plan);
    }
}

/* ---- the page ---- */
static json_t *numbers_of(const char *page)
{
    static const char begin[] = "<script id=\"numbers\" type=\"application/json\">";
    const char *at = strstr(page, begin), *end = at ? strstr(at, "</script>") : NULL;
    assert_non_null(end);
    json_error_t error;
    json_t *numbers = json_loadb(at + strlen(begin), (size_t)(end - at) - strlen(begin), 0, &error);
    if (!numbers)
        fail_msg("the page's JSON: line %d: %s", error.line, error.text);
    return numbers;
}

static const char *word(const json_t *event, const char *name) { return json_string_value(json_object_get(event, name)); }

TEST(test_names)
{
    static const struct {
        const char *given, *shown;
    } cases[] = {{"plain.weight", NULL}, /* shown as given */
                 {"</script><script>alert(1)</script>", NULL},
                 {"<!--&lt;\"'\\u003c\n\t\x7f\x01", NULL},
                 {"gr\xc3\xb6\xc3\237e \xf0\x9f\x90\x8d", NULL},
                 {"\xff<\xc3(\xed\xa0\x80\xf5", "\xef\xbf\xbd<\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                 {"cut \xf0\x9f\x90", "cut \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        samba_plan plan;
        make_train_plan(&plan, context, 5);
        char given[128];
        snprintf(given, sizeof given, "%s", cases[i].given);
        const char *shown = cases[i].shown ? cases[i].shown : given;
        plan.name = plan.sections[0].name = plan.stages[0].name = given;
        samba_report report = {
            .plan = &plan, .pef = given, .machine = &machine, .memory = plan.memory, .threads = 2, .isa = "generic"};
        samba_text page;
        samba_text_init(&page, context);
        need(samba_report_page(context, &report, &page));
        json_t *numbers = numbers_of(page.data);
        const json_t *section = json_array_get(json_object_get(numbers, "sections"), 0),
                     *stage = json_array_get(json_object_get(numbers, "stages"), 0);
        assert_string_equal(word(numbers, "name"), shown);
        assert_string_equal(word(numbers, "pef"), shown);
        assert_string_equal(word(section, "name"), shown);
        assert_string_equal(word(stage, "name"), shown);
        assert_string_equal(word(json_object_get(numbers, "machine"), "processor"), machine.processor);
        int scripts = 0;
        for (const char *at = page.data; (at = strstr(at, "</script>")); at++)
            scripts++;
        assert_int_equal(scripts, 2);
        json_decref(numbers);
        samba_text_clear(&page);
        samba_plan_free(&plan);
    }
}

/* ---- Trace Event files ---- */
static samba_status read_trace(const samba_plan *plan, const char *text, samba_arena *arena, samba_report *report)
{
    char path[128];
    snprintf(path, sizeof path, "%s/trace.json", folder);
    need(samba_file_write_atomic(context, path, (const void *const[]){text}, (const size_t[]){strlen(text)}, 1));
    *report = (samba_report){.plan = plan};
    return samba_trace_read(context, path, plan, arena, report);
}

TEST(test_traces)
{
    samba_plan plan;
    make_train_plan(&plan, context, 5);
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_report r;
    char text[1024], other[128];
    snprintf(other, sizeof other, "'otherData': {'graph': '%s', 'sections': %d, 'stages': %d, 'events_left_out': 7}", plan.name,
             plan.section_count, plan.stage_count);
    static const struct {
        samba_status status;
        const char *events, *words; /* of a trace of this plan; behind a "!": the whole text */
    } cases[] = {
        {SAMBA_OK, "{'ph': 'X', 'dur': 1, 'args': {'section': 0, 'stage': 0}}", ""},
        {SAMBA_OK,
         "{'ph': 'M'}, {'ph': 'X', 'dur': 2000, 'args': {'section': 1}}, {'ph': 'X', 'dur': 4e3, 'args': {'section': 1}}", ""},
        {SAMBA_ERROR_FORMAT, "{'ph': 'X', 'dur': 1, 'args': {'section': 99}}", "event 0 says section 99, stage -1"},
        {SAMBA_ERROR_FORMAT, "{'ph': 'X', 'dur': 1, 'args': {'section': 0, 'stage': 99}}", "stage 99"},
        {SAMBA_ERROR_FORMAT, "{'ph': 'X', 'dur': -1, 'args': {'section': 0}}", "a duration of -1 us"},
        {SAMBA_ERROR_FORMAT, "{'ph': 'X', 'args': {'section': 0}}", "event 0"},
        {SAMBA_ERROR_FORMAT, "{'ph': 'X', 'dur': 1}", "section -1"},
        {SAMBA_ERROR_FORMAT, "![", "is no JSON: line 1"},
        {SAMBA_ERROR_FORMAT, "![]", "is no Trace Event file"},
        {SAMBA_ERROR_FORMAT, "!{'traceEvents': []}", "does not say which graph"},
        {SAMBA_ERROR_STATE, "!{'traceEvents': [], 'otherData': {'graph': 'other', 'sections': 1, 'stages': 1}}",
         "is of graph 'other' with 1 sections and 1 stages, and the PEF has"},
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        if (cases[i].events[0] == '!')
            snprintf(text, sizeof text, "%s", cases[i].events + 1);
        else
            snprintf(text, sizeof text, "{'traceEvents': [%s], %s}", cases[i].events, other);
        for (char *at = text; (at = strchr(at, '\'')); at++)
            *at = '"';
        if (cases[i].status != SAMBA_OK)
            refuse(read_trace(&plan, text, &arena, &r), cases[i].status, cases[i].words);
        else
            need(read_trace(&plan, text, &arena, &r));
        if (i == 0)
            assert_int_equal(r.stages[0].runs, 1);
        if (i == 1) {
            assert_true(r.sections[1].runs == 2 && fabs(r.sections[1].seconds - 6e-3) < 1e-12 && r.sections[1].least == 2e-3 &&
                        r.sections[1].greatest == 4e-3);
            assert_true(r.sections[0].runs == 0 && !r.stages && r.left_out == 7);
        }
    }
    refuse(samba_trace_read(context, "/nowhere/trace.json", &plan, &arena, &r), SAMBA_ERROR_FILE, "/nowhere/trace.json");
    samba_arena_free(&arena);
    samba_plan_free(&plan);
}

static samba_status make_page(samba_context *of, void *user)
{
    samba_plan *plan = user;
    samba_report report = {.plan = plan, .machine = &machine, .memory = plan->memory, .threads = 1, .isa = "generic"};
    samba_text page;
    samba_text_init(&page, of);
    samba_status status = samba_report_page(of, &report, &page);
    samba_text_clear(&page);
    return status;
}

TEST(test_no_memory)
{
    samba_plan plan;
    make_zoo_plan(&plan, context);
    fail_each_allocation(make_page, &plan);
    samba_plan_free(&plan);
}

TEST_MAIN(test_roofs, test_reading, test_live, test_names, test_traces, test_no_memory)
