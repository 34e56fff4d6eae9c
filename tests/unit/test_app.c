/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's parts below its command line: units and tables, the rewriting of short options, samples and batches, and the
 * commands themselves where memory runs out. What people do wrong on a command line is tests/e2e/cli.sh's. */
#include "messages.h"
#include "app/app.h"
#include "failing_allocator.h"
#include "graph/graph.h"
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sys/stat.h>

TEST(test_units)
{
    char text[SAMBA_CELL];
    assert_string_equal(samba_text_bytes(text, 0), "0 B");
    assert_string_equal(samba_text_bytes(text, 1023), "1023 B");
    assert_string_equal(samba_text_bytes(text, 1536), "1.5 KiB");
    assert_string_equal(samba_text_bytes(text, 3.0 * 1024 * 1024 * 1024), "3.0 GiB");
    assert_string_equal(samba_text_decimal(text, 0, "FLOP"), "0 FLOP");
    assert_string_equal(samba_text_decimal(text, 999, "FLOP"), "999 FLOP");
    assert_string_equal(samba_text_decimal(text, 999.7, "FLOP"), "1.00 kFLOP");
    assert_string_equal(samba_text_decimal(text, 2.31e9, "FLOP/s"), "2.31 GFLOP/s");
    assert_string_equal(samba_text_decimal(text, 231e9, "FLOP/s"), "231 GFLOP/s");
    assert_string_equal(samba_text_ms(text, 1.2345), "1.234 ms");
    assert_string_equal(samba_text_ms(text, 123.45), "123.5 ms");
}

TEST(test_table)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    samba_table table;
    samba_table_init(&table, context, "lrl");
    samba_table_row(&table, "name\tsize\tnote");
    samba_table_row(&table, "%s\t%d\t", "a", 12345);
    samba_table_row(&table, "longer\t\tends here");
    need(samba_table_print(&table, file, "  "));
    fclose(file);
    assert_string_equal(text, "  name     size  note\n"
                              "  a       12345\n"
                              "  longer         ends here\n");
    free(text);
}

TEST(test_words)
{
    char given[] = "app -b=64 -mb 4 -mb=8 -mb16 -b 2 --batch-size=3 - -p=x=y -- -b=1 -mb", joined[256] = "", *list[32];
    int count = 0;
    for (char *rest, *word = strtok_r(given, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        list[count++] = word;
    samba_arena arena;
    samba_arena_init(&arena, context);
    char **words = samba_words_normalise(&arena, &count, list);
    assert_non_null(words);
    for (int i = 0; i < count; i++)
        strcat(strcat(joined, i > 0 ? " " : ""), words[i]);
    samba_arena_free(&arena);
    assert_string_equal(joined, "app -b64 --microbatch-size=4 --microbatch-size=8 --microbatch-size=16 -b 2 --batch-size=3 - "
                                "-px=y -- -b=1 -mb");
}

/* ---- digits: ten images of 2 x 3 pixels in a folder of their own ---- */
static char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t size)
{
    need(samba_file_write_atomic(context, in_folder(name), &data, &size, 1));
}

static void write_digits(int labels, uint8_t last)
{
    uint8_t images[16 + 60] = {0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 3},
                        label[8 + 10] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)labels};
    for (int i = 0; i < 60; i++)
        images[16 + i] = (uint8_t)(4 * i);
    for (int i = 0; i < 10; i++)
        label[8 + i] = (uint8_t)(i % 3);
    label[8 + labels - 1] = last;
    write_file("digits-images-idx3-ubyte", images, sizeof images);
    write_file("digits-labels-idx1-ubyte", label, 8 + (size_t)labels);
}

static const samba_app_input digit_inputs[] = {
    {"image", SAMBA_FLOAT32, 2, {4, 6}, 0},
    {"label", SAMBA_INT64, 1, {4}, 3},
};

TEST(test_digits)
{
    samba_app_data data;
    write_digits(10, 2);
    need(samba_app_digits(context, folder, 2, digit_inputs, &data));
    assert_int_equal(data.train_count, 8);
    assert_int_equal(data.test_count, 2);
    const float *image = samba_tensor_data(data.tensors[0]);
    for (int i = 0; i < 60; i++)
        assert_true(fabs(image[i] - (4 * i / 255.0 - 0.1307) / 0.3081) < 1e-6);

    samba_batches batches;
    need(samba_batches_new(context, &data, digit_inputs, &batches));
    need(samba_batches_fill(&batches, (const int64_t[]){7, 0, 9}, 3));
    const float *batch = samba_tensor_data(batches.tensors[0]);
    const int64_t *label = samba_tensor_data(batches.tensors[1]);
    for (int i = 0; i < 6; i++) {
        assert_true(batch[i] == image[42 + i] && batch[6 + i] == image[i] && batch[12 + i] == image[54 + i]);
        assert_true(batch[18 + i] == 0); /* the rest of the batch */
    }
    assert_true(label[0] == 1 && label[1] == 0 && label[2] == 2 && label[3] == 0);
    samba_batches_free(&batches);
    samba_app_data_free(&data);
}

static samba_status digits_of(const char *home, int labels, uint8_t last, int count, const samba_app_input *inputs)
{
    samba_app_data data;
    write_digits(labels, last);
    return samba_app_digits(context, home, count, inputs, &data);
}

TEST(test_bad_digits)
{
    samba_app_input wide[] = {digit_inputs[0], digit_inputs[1]};
    wide[0].shape[1] = 7;
    says(digits_of(folder, 10, 3, 2, digit_inputs));
    says(digits_of(folder, 9, 0, 2, digit_inputs));
    says(digits_of(folder, 10, 0, 2, wide));
    says(digits_of("/nowhere", 10, 0, 2, digit_inputs));
    says(digits_of(folder, 10, 0, 1, digit_inputs));
}

/* ---- text: samples of four tokens ---- */
static const samba_app_input text_inputs[] = {
    {"input", SAMBA_INT64, 2, {2, 4}, 128},
    {"label", SAMBA_INT64, 2, {2, 4}, 128},
};

TEST(test_text)
{
    samba_app_data data;
    char text[86]; /* 21 samples and the byte after them, and one over */
    for (int i = 0; i < 86; i++)
        text[i] = (char)(32 + i);
    text[85] = (char)200;
    write_file("text.txt", text, sizeof text);
    const char *const paths[] = {folder, in_folder("text.txt")};
    for (int k = 0; k < 2; k++) {
        need(samba_app_text(context, paths[k], 2, text_inputs, &data));
        assert_int_equal(data.train_count, 19);
        assert_int_equal(data.test_count, 2);
        assert_int_equal(data.tensor_count, 2);
        const int64_t *input = samba_tensor_data(data.tensors[0]), *label = samba_tensor_data(data.tensors[1]);
        assert_int_equal(samba_tensor_numel(data.tensors[0]), 84);
        for (int i = 0; i < 84; i++)
            assert_true(input[i] == 32 + i && label[i] == 33 + i);
        samba_app_data_free(&data);
    }
}

static samba_status text_of(const char *home, const char *text, int count, const samba_app_input *inputs)
{
    samba_app_data data;
    write_file("text.txt", text, strlen(text));
    return samba_app_text(context, home, count, inputs, &data);
}

TEST(test_bad_text)
{
    samba_app_input apart[] = {text_inputs[0], text_inputs[1]};
    apart[1].shape[1] = 5;
    says(text_of(folder, "12345678", 2, text_inputs));
    says(text_of(folder, "", 2, text_inputs));
    says(text_of(folder, "12345678\x80", 2, text_inputs)); /* the last label */
    says(text_of("/nowhere", "", 2, text_inputs));
    says(text_of(folder, "", 1, text_inputs));
    says(text_of(folder, "", 2, digit_inputs));
    says(text_of(folder, "", 2, apart));
}

static samba_status text_scenario(samba_context *owner, void *user)
{
    (void)user;
    samba_app_data data;
    SAMBA_TRY(samba_app_text(owner, folder, 2, text_inputs, &data));
    samba_app_data_free(&data);
    return SAMBA_OK;
}

TEST(test_text_without_memory)
{
    write_file("text.txt", "123456789", 9);
    fail_each_allocation(text_scenario, NULL);
}

/* ---- whole commands on a small model ---- */
MODEL(model_without_logits)
{
    samba_loss(g, "loss", samba_cross_entropy(samba_linear(samba_input(g, "image"), "linear", 3), samba_input(g, "label")));
}

static void model(samba_graph *g, const void *options)
{
    model_without_logits(g, options);
    samba_output(g, "logits", samba_linear(samba_input(g, "image"), "linear", 3)); /* the same linear */
}

/* Its table, of 100 times a number of the settings, stands beside the graph's text; a second number is in it. */
static void model_with_table(samba_graph *g, const void *options)
{
    const float *numbers = options;
    samba_tensor *table;
    model(g, NULL);
    need(samba_tensor_new(g->context, "table", SAMBA_FLOAT32, 1, (const int64_t[]){100}, &table));
    for (int i = 0; i < 100; i++)
        ((float *)samba_tensor_data(table))[i] = numbers[0];
    samba_value mean = samba_mul_scalar(samba_mean(samba_input(g, "image"), 0, NULL, false), numbers[1]);
    samba_output(g, "table", samba_mul(samba_constant_tensor(g, table), mean));
    samba_tensor_free(table);
}

static int inputs(const void *settings, int64_t batch_size, samba_app_input *input)
{
    (void)settings;
    for (int i = 0; i < 2; i++) {
        input[i] = digit_inputs[i];
        input[i].shape[0] = batch_size;
    }
    return 2;
}

static samba_app small_app(void)
{
    return (samba_app){.struct_size = sizeof(samba_app),
                       .name = "small",
                       .description = "",
                       .model = model,
                       .inputs = inputs,
                       .data = samba_app_digits,
                       .batch_size = 4,
                       .num_epochs = 2,
                       .optimizer = samba_sgd(0.1)};
}

typedef struct command {
    samba_app_arguments arguments;
    samba_status (*run)(const samba_app_run *run);
} command;

/* Of words as they stand on a command line. They must outlive the command. */
static command command_of(const samba_app *app, char *line, samba_status (*run)(const samba_app_run *run))
{
    char *words[16];
    int count = 0;
    for (char *rest, *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    command c = {.run = run};
    samba_app_parse(count, words, app, &c.arguments);
    return c;
}

static samba_status command_scenario(samba_context *owner, void *user)
{
    command *c = user;
    samba_app_run run = {owner, &c->arguments};
    return c->run(&run);
}

TEST(test_commands_without_memory)
{
    static const struct {
        const char *line;
        samba_status (*run)(const samba_app_run *run);
    } commands[] = {{"small compile -p %s/small.pef --json", samba_app_compile},
                    {"small test --threads 1 --json", samba_app_test},
                    {"small run -p %s/small.pef --data %s --save %s/small.safetensors --threads 1", samba_app_train},
                    {"small compile -p %s/small.pef --json", samba_app_compile},
                    {"small run -p %s/small.pef --data %s --threads 1 --json", samba_app_train}};
    samba_app app = small_app();
    write_digits(10, 0);
    for (int i = 0; i < LENGTH(commands); i++) {
        char line[512];
        snprintf(line, sizeof line, commands[i].line, folder, folder, folder);
        if (i == 3) /* tested by its loss: two test samples fill one batch of two */
            app.model = model_without_logits, app.batch_size = 2;
        command c = command_of(&app, line, commands[i].run);
        fail_some_allocations(command_scenario, &c, 0, 1, 1);
    }
    remove(in_folder("small.safetensors"));
}

/* ---- samples that a function makes: the digits again, and hooks that count their calls ---- */
typedef struct source {
    samba_app_data digits;
    int opened, started, trained, filled, freed;
    bool weighs;
} source;

static samba_status fill(samba_context *owner, void *user, const int64_t *samples, int64_t count, int tensor_count,
                         samba_tensor *const *batch)
{
    source *s = user;
    (void)owner;
    s->filled++;
    for (int i = 0; i < tensor_count; i++) {
        const size_t row =
            (size_t)(samba_tensor_numel(s->digits.tensors[i]) / 10) * samba_dtype_size(samba_tensor_dtype(s->digits.tensors[i]));
        memset(samba_tensor_data(batch[i]), 0, row * (size_t)samba_tensor_shape(batch[i])[0]);
        for (int64_t k = 0; k < count; k++)
            memcpy((char *)samba_tensor_data(batch[i]) + row * (size_t)k,
                   (char *)samba_tensor_data(s->digits.tensors[i]) + row * (size_t)samples[k], row);
    }
    return SAMBA_OK;
}

static int64_t weigh(const void *user, int64_t sample)
{
    (void)user;
    return sample == 8 ? 3 : 1; /* the first to test with */
}

static void free_source(void *user)
{
    source *s = user;
    s->freed++;
    samba_app_data_free(&s->digits);
}

static samba_status source_samples(samba_context *owner, void *user, const char *path, int count, const samba_app_input *input,
                                   samba_app_data *data)
{
    source *s = user;
    SAMBA_TRY(samba_app_digits(owner, path, count, input, &s->digits));
    *data = (samba_app_data){.train_count = s->digits.train_count,
                             .test_count = s->digits.test_count,
                             .fill = fill,
                             .weight = s->weighs ? weigh : NULL,
                             .free = free_source,
                             .user = s};
    samba_status status = SAMBA_OK;
    for (int i = 0; i < count && status == SAMBA_OK; i++) {
        status = samba_tensor_empty(owner, input[i].name, input[i].dtype, input[i].rank, input[i].shape, &data->tensors[i]);
        data->tensor_count += status == SAMBA_OK;
    }
    if (status != SAMBA_OK)
        samba_app_data_free(data);
    return status;
}

static samba_status source_opened(samba_context *owner, void *user, const char *data, FILE *out)
{
    (void)owner;
    ((source *)user)->opened += data && out == stderr;
    return SAMBA_OK;
}

static samba_status source_started(samba_context *owner, void *user, samba_session *session)
{
    (void)owner;
    ((source *)user)->started += session != NULL;
    return SAMBA_OK;
}

static samba_status source_trained(samba_context *owner, void *user, samba_session *session, FILE *out)
{
    (void)owner;
    ((source *)user)->trained += session && out == stderr;
    return SAMBA_OK;
}

static samba_app source_app(source *s)
{
    samba_app app = small_app();
    app.data = NULL;
    app.user = s;
    app.opened = source_opened;
    app.samples = source_samples;
    app.started = source_started;
    app.trained = source_trained;
    return app;
}

static void run_line(const samba_app *app, const char *format)
{
    char line[512], *words[24];
    int count = 0;
    snprintf(line, sizeof line, format, folder, folder, folder);
    for (char *rest, *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    assert_int_equal(samba_app_main(count, words, app), 0);
}

static void assert_same_file(const char *name, const char *other)
{
    void *a, *b;
    size_t size, other_size;
    need(samba_file_read(context, in_folder(name), &a, &size));
    need(samba_file_read(context, in_folder(other), &b, &other_size));
    assert_int_equal(size, other_size);
    assert_memory_equal(a, b, size);
    samba_free(context, a, size);
    samba_free(context, b, other_size);
    remove(in_folder(name));
    remove(in_folder(other));
}

/* A training by either kind of data, of a PEF that is there or compiled on the way, gives the same bytes. */
TEST(test_source)
{
    samba_app app = small_app();
    source s = {.weighs = true};
    write_digits(10, 0);
    run_line(&app, "small compile -p %s/small.pef --json -b 2");
    run_line(&app, "small run -p %s/small.pef --data %s --save %s/a.safetensors --threads 1 --json --num-epochs 3");
    app = source_app(&s);
    run_line(&app, "small train -p %s/small.pef --data %s --save %s/b.safetensors --threads 1 --json -b 2 --num-epochs 3");
    assert_same_file("a.safetensors", "b.safetensors");
    assert_int_equal(s.opened, 1);
    assert_int_equal(s.started, 1);
    assert_int_equal(s.trained, 1);
    assert_int_equal(s.freed, 1);
    assert_int_equal(s.filled, 3 * 4 + 1);
}

TEST(test_source_without_memory)
{
    char line[] =
        "small train --data SAMPLES --threads 1 --json --log-every 1 --eval-every 2 --no-decay vectors --output-folder OUT";
    source s = {.weighs = true};
    samba_app app = source_app(&s);
    app.model = model_without_logits;
    command c = command_of(&app, line, samba_app_compile_and_train);
    c.arguments.data = folder;
    c.arguments.output_folder = folder;
    fail_some_allocations(command_scenario, &c, 0, 1, 1);
    remove(in_folder("small/small.pef"));
    remove(in_folder("small/small.pef.log"));
    assert_int_equal(rmdir(in_folder("small")), 0);
}

/* The same where the last batch, of two samples, has a graph of its own. */
TEST(test_last_batch_without_memory)
{
    char line[] =
        "small train --data SAMPLES --threads 1 --json -b 6 --microbatch-size 3 --keep-last --num-epochs 1 --output-folder OUT";
    source s = {.weighs = false};
    samba_app app = source_app(&s);
    command c = command_of(&app, line, samba_app_compile_and_train);
    c.arguments.data = folder;
    c.arguments.output_folder = folder;
    fail_some_allocations(command_scenario, &c, 0, 3, 1);
    remove(in_folder("small/small.pef"));
    remove(in_folder("small/small.pef.log"));
    assert_int_equal(rmdir(in_folder("small")), 0);
}

/* A PEF that options of the application's own are given with must be of the graph that they make, to the last byte. */
TEST(test_other_graphs)
{
    float numbers[] = {1, 2};
    char *pef = in_folder("small.pef"), compile[512];
    samba_plan plan;
    samba_app app = small_app();
    app.model = model_with_table;
    app.settings = numbers;
    snprintf(compile, sizeof compile, "small compile -p %s --inference --json", pef);
    command c = command_of(&app, compile, samba_app_compile);
    need(command_scenario(context, &c));
    need(samba_pef_read(context, pef, &plan));
    assert_int_equal(plan.graphs[0].literal_count, 1);
    c.arguments.own_given = true;
    samba_app_run run = {context, &c.arguments};
    int count;
    samba_app_input found[SAMBA_APP_MAX_INPUTS];
    need(samba_app_check(&run, &plan, 0, &count, found));
    numbers[0] = 3;
    says(samba_app_check(&run, &plan, 0, &count, found));
    numbers[1] = 3;
    says(samba_app_check(&run, &plan, 0, &count, found));
    samba_plan_free(&plan);
}

/* Apart from these files commands left nothing behind. */
TEST(nothing_is_left)
{
    static const char *const names[] = {"digits-images-idx3-ubyte", "digits-labels-idx1-ubyte", "text.txt", "small.pef",
                                        "small.pef.log"};
    for (int i = 0; i < LENGTH(names); i++)
        remove(in_folder(names[i]));
    assert_int_equal(rmdir(folder), 0);
}

TEST_MAIN_WITH(counting_begin, counting_end, test_units, test_table, test_words, test_digits, test_bad_digits, test_text,
               test_bad_text, test_text_without_memory, test_commands_without_memory, test_source, test_source_without_memory,
               test_last_batch_without_memory, test_other_graphs, nothing_is_left, every_message_said)
