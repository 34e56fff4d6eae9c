/* SPDX-License-Identifier: Apache-2.0
 *
 * Tune files: what is written is read; a file of another plan or machine, one whose members are not as they should be, one that
 * asks for what the device does not offer or the plan cannot have, and any bytes at all change nothing but a warning; a file that
 * fits fixes the bits, and what it makes of each stage is as right as the model's way. Searching gives a file that fits, and the
 * session goes on by the model. */
#include "classifier.h"
#include "failing_allocator.h"
#include "runtime/runtime.h"
#include <jansson.h>

enum { THREADS = 2, WIDE = 128, ROWS = 96, MOST_CHOICES = 128 };

static char pef[512], tune_path[600];
static samba_plan plan; /* of the PEF */

/* Products large enough for several roads, an image for others. */
static void wide_model(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_value image = samba_reshape(samba_input(g, "image"), 4, SHAPE(-1, 1, 8, 16));
    samba_value x = samba_relu(samba_conv2d(image, "conv", 16, SHAPE(3, 3), NULL));
    x = samba_relu(samba_conv2d(x, "conv2", 16, SHAPE(3, 3), NULL));
    x = samba_gelu(samba_linear(samba_flatten(x, 1, -1), "fc1", 160));
    samba_value logits = samba_linear(samba_layer_norm(x, "norm"), "fc2", CLASSES);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

static batch wide_batch(void)
{
    batch b = {
        {kept(normal("image", SAMBA_FLOAT32, 2, SHAPE(ROWS, WIDE), 8)), kept(tensor("label", SAMBA_INT64, 1, SHAPE(ROWS)))}};
    need(samba_fill_integers(b.inputs[1], 9, 0, CLASSES));
    return b;
}

static int setup(void **unused)
{
    batch b = wide_batch();
    samba_compile_options options = training_of("wide", wide_model, NULL, 2, b.inputs, adamw());
    need(samba_compile(context, &options, pef, sizeof pef));
    snprintf(tune_path, sizeof tune_path, "%s.tune", pef);
    need(samba_pef_read(context, pef, &plan));
    return 0;
}

static int teardown(void **unused)
{
    remove(tune_path);
    samba_plan_free(&plan);
    return drop_kept(unused);
}

static samba_session *open_tuned(const char *tune)
{
    samba_session *session;
    need(samba_session_new(context, pef, SESSION(.threads = THREADS, .seed = 3, .tune = tune), &session));
    return kept_session(session);
}

/* Some steps from one beginning; then all that was computed. */
static void train(samba_session *session)
{
    batch b = wide_batch();
    for (int i = 0; i < 2; i++)
        run(session, &b);
}

/* A file for this plan and machine, with one choice or none. */
static samba_tune fitting(samba_tune_choice *choice)
{
    samba_tune tune = {.plan = plan.hash, .stages = plan.stage_count, .count = choice ? 1 : 0, .choices = choice};
    samba_session *session = open_tuned("off");
    need(samba_tune_machine_find(context, session->device, THREADS, &tune.machine));
    return tune;
}

static void write_fitting(samba_tune_choice *choice)
{
    samba_tune tune = fitting(choice);
    need(samba_tune_write(context, tune_path, &tune));
}

/* What the device offers for a stage. */
static int32_t offered(int32_t stage, samba_choice *list)
{
    int32_t count;
    samba_session *session = open_tuned("off");
    need(session->device->interface->alternatives(session->device, stage, MOST_CHOICES, list, &count));
    return count;
}

/* The first stage with a choice of another road, and the choice. */
static samba_tune_choice some_choice(void)
{
    samba_choice list[MOST_CHOICES];
    for (int32_t i = 0; i < plan.stage_count; i++) {
        int32_t count = plan.stages[i].kind == SAMBA_STAGE_CONTRACT ? offered(i, list) : 0;
        if (count > 0)
            return (samba_tune_choice){.stage = i, .gain = 0.25, .choice = list[0]};
    }
    fail_msg("no stage has a choice");
    return (samba_tune_choice){.stage = 0};
}

/* The session is what it would be without the file, but for one warning that has these words. */
static void assert_left_alone(const char *words, const char *more)
{
    samba_tuning told;
    samba_session *session = open_tuned(NULL);
    need(samba_session_tuning(session, &told));
    assert_null(told.path);
    assert_int_equal(told.choices, 0);
    assert_non_null(told.warning);
    const char *warning = samba_session_warning(session);
    if (!strstr(warning, words) || !strstr(warning, more) || !strstr(warning, tune_path))
        fail_msg("\"%s\": expected ...%s...%s...", warning, words, more);
    assert_string_equal(samba_session_warning(session), "");
    samba_session_free(things_kept.sessions[--things_kept.session_count]);
}

/* ---- reading and writing ---- */

TEST(test_written_is_read)
{
    samba_arena arena;
    samba_tune read;
    samba_choice two = {.road = "panel", .figure_count = 2, .figures = {{"panel", "rows", 96}, {"product", "step", 0.3}}},
                 none = {.road = NULL, .figure_count = 1, .figures = {{"tile", "registers", 1e-3}}};
    samba_tune_choice choices[] = {{.stage = 1, .gain = 0.125, .choice = two}, {.stage = 3, .gain = 1.0 / 3, .choice = none}};
    samba_tune tune = fitting(NULL);
    tune.count = 2, tune.choices = choices;
    need(samba_tune_write(context, tune_path, &tune));
    samba_arena_init(&arena, context);
    need(samba_tune_read(&arena, tune_path, &read));
    need(samba_tune_check(context, tune_path, &read, plan.hash, plan.stage_count, &tune.machine));
    assert_true(read.plan == tune.plan && read.stages == tune.stages && read.count == 2);
    assert_memory_equal(read.machine.caches, tune.machine.caches, sizeof tune.machine.caches);
    for (int i = 0; i < 2; i++) {
        const samba_choice *was = &choices[i].choice, *is = &read.choices[i].choice;
        assert_true(read.choices[i].stage == choices[i].stage && read.choices[i].gain == choices[i].gain);
        assert_true(was->road ? strcmp(is->road, was->road) == 0 : !is->road);
        assert_int_equal(is->figure_count, was->figure_count);
        for (int k = 0; k < was->figure_count; k++) {
            assert_string_equal(is->figures[k].group, was->figures[k].group);
            assert_string_equal(is->figures[k].name, was->figures[k].name);
            assert_true(is->figures[k].value == was->figures[k].value);
        }
    }
    samba_arena_free(&arena);
}

/* ---- files of others ---- */

static void differ(samba_tune tune, const char *field, const char *given)
{
    char words[96];
    snprintf(words, sizeof words, ": %s: expected ", field);
    need(samba_tune_write(context, tune_path, &tune));
    assert_left_alone(words, given);
}

TEST(test_foreign)
{
    const samba_tune fits = fitting(NULL);
    samba_tune tune = fits;
    tune.plan ^= 1;
    differ(tune, "plan", ", given ");
    tune = fits, tune.stages++;
    differ(tune, "stages", ", given ");
    tune = fits, snprintf(tune.machine.processor, sizeof tune.machine.processor, "abacus");
    differ(tune, "machine.processor", ", given abacus");
    tune = fits, snprintf(tune.machine.isa, sizeof tune.machine.isa, "beads");
    differ(tune, "machine.isa", ", given beads");
    tune = fits, tune.machine.threads = 7;
    differ(tune, "machine.threads", "expected 2, given 7");
    for (int i = 0; i < SAMBA_TUNE_CACHES; i++) {
        char field[32];
        tune = fits, tune.machine.caches[i] = 77;
        snprintf(field, sizeof field, "machine.caches[%d]", i);
        differ(tune, field, ", given 77");
    }
    tune = fits, tune.machine.figures ^= 1;
    differ(tune, "machine.figures", ", given ");
}

/* ---- damaged files ---- */

static void write_text(const char *text, size_t size)
{
    FILE *file = fopen(tune_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* The object with a checksum that is right, as a file; takes it. */
static void write_sealed(json_t *member)
{
    char hash[17];
    char *compact = json_dumps(member, JSON_COMPACT | JSON_SORT_KEYS);
    assert_non_null(compact);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)samba_hash(compact, strlen(compact), 0));
    json_t *object = json_pack("{s:s, s:o}", "hash", hash, "tune", member);
    assert_int_equal(json_dump_file(object, tune_path, 0), 0);
    json_decref(object);
    free(compact);
}

static json_t *fitting_member(void)
{
    json_error_t error;
    samba_tune_choice choice = some_choice();
    write_fitting(&choice);
    json_t *object = json_load_file(tune_path, 0, &error), *member = json_incref(json_object_get(object, "tune"));
    json_decref(object);
    return member;
}

/* At a path of member names and list positions the value is another; NULL: it is gone. */
static void spoil(const char *path, const char *value, const char *words)
{
    json_error_t error;
    json_t *member = fitting_member(), *at = member;
    char place[96], *next = place, *key;
    snprintf(place, sizeof place, "%s", path);
    while ((key = strsep(&next, ".")) && next)
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
    assert_non_null(at);
    if (value)
        json_object_set_new(at, key, json_loads(value, JSON_DECODE_ANY, &error));
    else
        assert_int_equal(json_object_del(at, key), 0);
    write_sealed(member);
    assert_left_alone(words, ", given ");
}

TEST(test_malformed)
{
    static const struct {
        const char *path, *value, *words;
    } rows[] = {
        {"format", "2", "format: expected 1"},
        {"format", "\"1\"", "format: expected a whole number from 1"},
        {"format", NULL, "format: expected a whole number from 1"},
        {"plan", "\"12\"", "plan: expected 16 hexadecimal digits"},
        {"plan", "7", "plan: expected 16 hexadecimal digits"},
        {"stages", "-1", "stages: expected a whole number from 0"},
        {"stages", "1e300", "stages: expected a whole number from 0"},
        {"machine", "[]", "machine: expected an object of 5 members"},
        {"machine.more", "1", "machine: expected an object of 5 members"},
        {"machine.isa", "\"an instruction set whose name has no end\"", "machine.isa: expected a text of at most 31 bytes"},
        {"machine.threads", "0", "machine.threads: expected a whole number from 1"},
        {"machine.caches", "[1, 2]", "machine.caches: expected a list of 3 sizes"},
        {"machine.caches", "[1, 2, -3]", "machine.caches: expected sizes of 0 or more bytes"},
        {"machine.caches", "[1, 2, 0.5]", "machine.caches: expected sizes of 0 or more bytes"},
        {"machine.figures", "\"0123456789abcdeF\"", "machine.figures: expected 16 hexadecimal digits"},
        {"choices", "{}", "choices: expected a list"},
        {"choices", "[7]", "choices[0]: expected an object of 4 members"},
        {"choices.0.more", "1", "choices[0]: expected an object of 4 members"},
        {"choices.0.stage", "99999", "choices[0].stage: expected a whole number from 0 to "},
        {"choices.0.stage", "-1", "choices[0].stage: expected a whole number from 0 to "},
        {"choices.0.gain", "1.5", "choices[0].gain: expected a number from 0 to 1"},
        {"choices.0.gain", "\"much\"", "choices[0].gain: expected a number from 0 to 1"},
        {"choices.0.road", "7", "choices[0].road: expected a text"},
        {"choices.0.figures", "7", "choices[0].figures: expected a list of at most 4"},
        {"choices.0.figures", "[1, 2, 3, 4, 5]", "choices[0].figures: expected a list of at most 4"},
        {"choices.0.figures", "[{}]", "choices[0].figures[0]: expected an object of 3 members"},
        {"choices.0.figures", "[{\"group\": 1, \"name\": \"a\", \"value\": 1}]", "choices[0].figures[0].group: expected a text"},
        {"choices.0.figures", "[{\"group\": \"a\", \"name\": \"a\", \"value\": -1}]",
         "figures[0].value: expected a number from 0"},
        {"choices.0.figures", "[{\"group\": \"a\", \"name\": \"a\", \"value\": 1e300}]",
         "figures[0].value: expected a number from 0"},
        {"more", "1", "tune: expected an object of 5 members"},
    };
    for (int i = 0; i < LENGTH(rows); i++)
        spoil(rows[i].path, rows[i].value, rows[i].words);
    json_t *member = fitting_member(), *choices = json_object_get(member, "choices");
    json_array_append(choices, json_array_get(choices, 0)); /* one stage twice */
    write_sealed(member);
    assert_left_alone("choices[1].stage: expected a whole number from ", ", given ");
}

TEST(test_no_tune_file)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "7",
                                        "{\"a\": 1}",
                                        "{\"hash\": 1, \"tune\": 2}",
                                        "{\"tune\": {}, \"tune\": {}}",
                                        "\xff\xfe",
                                        "{\"hash\": \"0\", \"tune\": {\"format\": 1}}"};
    for (int i = 0; i < LENGTH(texts); i++) {
        write_text(texts[i], strlen(texts[i]));
        assert_left_alone(": expected ", ", given ");
    }
    json_t *member = fitting_member(); /* a value that changed under its checksum */
    json_error_t error;
    json_t *object = json_load_file(tune_path, 0, &error);
    json_object_set_new(json_object_get(object, "tune"), "stages", json_integer(1));
    assert_int_equal(json_dump_file(object, tune_path, 0), 0);
    json_decref(object);
    json_decref(member);
    assert_left_alone("hash: expected ", ", given ");
    FILE *file = fopen(tune_path, "wb"); /* more than any plan's choices take */
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), SAMBA_TUNE_LARGEST_FILE + 1), 0);
    fclose(file);
    assert_left_alone("size: expected at most ", ", given ");
}

TEST(test_any_bytes)
{
    void *bytes;
    size_t size;
    samba_tune_choice choice = some_choice();
    write_fitting(&choice);
    need(samba_file_read(context, tune_path, &bytes, &size));
    seed_anew();
    for (int i = 0; i < 200; i++) {
        char *copy = malloc(size + 1);
        assert_non_null(copy);
        memcpy(copy, bytes, size);
        for (int k = draw_below(4); k >= 0; k--)
            copy[draw_below((int)size)] = (char)draw_below(256);
        write_text(copy, draw_below(8) ? size : (size_t)draw_below((int)size));
        samba_session *session;
        samba_tuning told;
        need(samba_session_new(context, pef, SESSION(.threads = THREADS), &session));
        need(samba_session_tuning(session, &told));
        assert_true(!told.path == (told.warning != NULL)); /* a change in a space changes nothing */
        samba_session_free(session);
        free(copy);
    }
    samba_free(context, bytes, size);
}

/* ---- choices that cannot be had ---- */

static int32_t stage_of(samba_stage_kind kind)
{
    for (int32_t i = 0; i < plan.stage_count; i++)
        if (plan.stages[i].kind == (int32_t)kind)
            return i;
    fail_msg("no stage of kind %d", (int)kind);
    return -1;
}

static void refuse_choice(int32_t stage, samba_choice choice, const char *words, const char *more)
{
    samba_tune_choice one = {.stage = stage, .choice = choice};
    write_fitting(&one);
    assert_left_alone(words, more);
}

TEST(test_inapplicable)
{
    const int32_t tile = stage_of(SAMBA_STAGE_TILE), product = stage_of(SAMBA_STAGE_CONTRACT);
    refuse_choice(tile, (samba_choice){.road = "panel"}, "choices: stage ", "expected no road, as its kind has none, given road");
    refuse_choice(product, (samba_choice){.road = "highway"}, "expected a road of products", "given road \"highway\"");
    refuse_choice(product, (samba_choice){.road = NULL}, "expected a road or 1 to 4 figures", "given 0 figures");
    refuse_choice(product, (samba_choice){.road = "panel", .figure_count = 1, .figures = {{"panel", "rows", 7}}},
                  "figure \"panel.rows\" one of ", "given 7");
    refuse_choice(product, (samba_choice){.road = "panel", .figure_count = 1, .figures = {{"panel", "rows", 0x1p40}}},
                  "figure \"panel.rows\" one of ", "given 1.09951e+12");
    refuse_choice(product, (samba_choice){.road = "blocks", .figure_count = 1, .figures = {{"panel", "rows", 96}}},
                  "figure \"panel.rows\" nothing, as it is not varied there", "given 96");
    refuse_choice(product, (samba_choice){.road = "panel", .figure_count = 1, .figures = {{"share", "gold", 1}}},
                  "figure \"share.gold\" nothing", "given 1");
    /* a road that there is, and that does not lead there: the plan's own sizes say so */
    for (int32_t i = 0; i < plan.stage_count; i++)
        if (plan.stages[i].kind == SAMBA_STAGE_CONTRACT && plan.stages[i].contract.a.window_count == 0 &&
            plan.stages[i].contract.b.window_count == 0)
            refuse_choice(i, (samba_choice){.road = "winograd"}, "the road \"winograd\" does not lead there", "choices: stage ");
    samba_choice list[MOST_CHOICES];
    int32_t count = offered(product, list);
    for (int32_t i = 0; i < count; i++)
        if (list[i].figure_count == 1) {
            samba_choice twice = list[i];
            twice.figures[twice.figure_count++] = twice.figures[0];
            refuse_choice(product, twice, " once, given twice", "figure ");
            return;
        }
    fail_msg("no figure is varied");
}

/* ---- bits ---- */

TEST(test_same_bits_without)
{
    samba_session *alone = open_tuned("off");
    train(alone);
    write_fitting(NULL); /* nothing is chosen */
    samba_session *beside = open_tuned(NULL);
    train(beside);
    assert_same_bits(alone, beside, COMPUTED);
    samba_tune_choice choice = some_choice();
    write_fitting(&choice);
    samba_session *off = open_tuned("off");
    train(off);
    assert_same_bits(alone, off, COMPUTED);
    write_text("{", 1);
    samba_session *bad = open_tuned(NULL);
    train(bad);
    assert_same_bits(alone, bad, COMPUTED);
    refuse_choice(stage_of(SAMBA_STAGE_TILE), (samba_choice){.road = "panel"}, "choices: stage ", "given road");
    samba_session *refused = open_tuned(NULL);
    train(refused);
    assert_same_bits(alone, refused, COMPUTED);
}

static void near_to(samba_session *a, samba_session *b, const char *name, double tolerance)
{
    samba_tensor *x, *y;
    need(samba_session_get_by_name(a, name, &x));
    need(samba_session_get_by_name(b, name, &y));
    const float *p = samba_tensor_data(x), *q = samba_tensor_data(y);
    for (int64_t i = 0; i < samba_tensor_numel(x); i++)
        if (!(fabs((double)p[i] - (double)q[i]) <= tolerance))
            fail_msg("%s[%lld] is %g by choice and %g by the model", name, (long long)i, (double)p[i], (double)q[i]);
    samba_tensor_free(x);
    samba_tensor_free(y);
}

/* Every way of every stage: as the model's to rounding, and always the same. */
TEST(test_every_choice)
{
    samba_choice list[MOST_CHOICES];
    batch b = wide_batch();
    int tried = 0;
    samba_session *model = open_tuned("off");
    run(model, &b);
    for (int32_t i = 0; i < plan.stage_count; i++) {
        int32_t count;
        need(model->device->interface->alternatives(model->device, i, MOST_CHOICES, list, &count));
        for (int32_t k = 0; k < count; k++, tried++) {
            samba_tune_choice choice = {.stage = i, .choice = list[k]};
            samba_tune tune = {.plan = plan.hash, .stages = plan.stage_count, .count = 1, .choices = &choice};
            need(samba_tune_machine_find(context, model->device, THREADS, &tune.machine));
            need(samba_tune_write(context, tune_path, &tune));
            samba_session *pair[2];
            for (int s = 0; s < 2; s++) {
                samba_stage_info info;
                samba_tuning told;
                need(samba_session_new(context, pef, SESSION(.threads = THREADS, .seed = 3), &pair[s]));
                need(samba_session_tuning(pair[s], &told));
                assert_true(told.path && told.choices == 1 && !told.warning);
                need(samba_session_stage_info(pair[s], i, &info));
                assert_true(info.tuned && (!list[k].road || strcmp(info.road, list[k].road) == 0));
                run(pair[s], &b);
            }
            assert_same_bits(pair[0], pair[1], COMPUTED);
            near_to(pair[0], model, "logits", 1e-4);
            near_to(pair[0], model, "fc1.weight.grad", 1e-4);
            samba_session_free(pair[0]);
            samba_session_free(pair[1]);
        }
    }
    print_message("%d ways\n", tried);
    assert_true(tried > 20);
}

/* ---- names of files, memory, searching ---- */

TEST(test_which_file)
{
    char other[640];
    samba_tuning told;
    samba_session *session;
    samba_tune_choice choice = some_choice();
    write_fitting(&choice);
    snprintf(other, sizeof other, "%s.other", tune_path);
    assert_int_equal(rename(tune_path, other), 0);
    need(samba_session_tuning(open_tuned(NULL), &told));
    assert_true(!told.path && !told.warning);
    need(samba_session_tuning(open_tuned(other), &told));
    assert_string_equal(told.path, other);
    assert_int_equal(told.choices, 1);
    refuse(samba_session_new(context, pef, SESSION(.threads = THREADS, .tune = "/nowhere/at all.tune"), &session),
           SAMBA_ERROR_FILE, "cannot read the tune file \"/nowhere/at all.tune\"");
    need(samba_session_new(context, pef, SESSION(.threads = THREADS, .device = "null", .tune = other), &session));
    need(samba_session_tuning(session, &told));
    assert_true(!told.path && !told.warning); /* it computes nothing */
    samba_session_free(session);
    remove(other);
}

static samba_status open_under(samba_context *owner, void *unused)
{
    samba_session *session = NULL;
    samba_status status = samba_session_new(owner, pef, SESSION(.threads = THREADS), &session);
    if (status == SAMBA_OK) /* memory that is refused is no reason to go without */
        assert_non_null(session->tuned.path);
    samba_session_free(session);
    return status;
}

TEST(test_memory)
{
    samba_tune_choice choice = some_choice();
    write_fitting(&choice);
    fail_each_allocation(open_under, NULL);
}

TEST(test_search)
{
    samba_arena arena;
    samba_tune_result result;
    batch b = wide_batch();
    samba_run_options once = giving(2, b.inputs);
    samba_session *session = open_tuned("off"), *model = open_tuned("off");
    const samba_tune_options options = {.seconds = 0, .run_count = 1, .runs = &once};
    samba_arena_init(&arena, context);
    need(samba_tune_search(session, &options, &arena, &result));
    assert_true(result.stages > 0 && result.kinds > 0 && result.ways >= result.kinds && result.turns == 1);
    assert_true(result.tune.plan == plan.hash && result.tune.stages == plan.stage_count);
    assert_true(result.finding_count <= result.tune.count && result.tune.count <= result.stages);
    for (int32_t i = 0; i < result.finding_count; i++)
        assert_true(result.findings[i].best_ms < result.findings[i].model_ms);
    need(samba_tune_write(context, tune_path, &result.tune));
    samba_tuning told;
    need(samba_session_tuning(open_tuned(NULL), &told));
    assert_string_equal(told.path, tune_path);
    assert_int_equal(told.choices, result.tune.count);
    samba_arena_free(&arena);
    for (int32_t i = 0; i < plan.stage_count; i++) { /* by the model again */
        samba_stage_info info, its;
        need(samba_session_stage_info(session, i, &info));
        need(samba_session_stage_info(model, i, &its));
        assert_true(info.road == its.road && !info.tuned);
    }
    samba_session *null;
    need(samba_session_new(context, pef, SESSION(.device = "null"), &null));
    kept_session(null);
    refuse(samba_tune_search(null, &options, &arena, &result), SAMBA_ERROR_UNSUPPORTED, "has nothing to tune");
}

TEST_MAIN_WITH(setup, teardown, test_written_is_read, test_foreign, test_malformed, test_no_tune_file, test_any_bytes,
               test_inapplicable, test_same_bits_without, test_every_choice, test_which_file, test_memory, test_search)
