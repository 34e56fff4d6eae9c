/* SPDX-License-Identifier: Apache-2.0
 *
 * Regression from a CSV file whose samples no batch size divides: 430 houses to train with are 13 batches of 32 and one of 14,
 * 100 to test with are 3 batches and one of 4. A PEF has a graph for each of these sizes over one set of weights, so that nothing
 * is padded and nothing left out. The program writes the file first. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { HOUSES = 530, BATCH = 32, NOISE = 10 };

static const char file_name[] = "houses.csv";

/* A price of area, rooms, age and distance, in thousands, with noise that nothing can learn. */
static void write_houses(samba_context *context)
{
    samba_tensor *random = named(context, "random", SAMBA_FLOAT32, SHAPE(HOUSES, 4));
    samba_tensor *noise = named(context, "noise", SAMBA_FLOAT32, SHAPE(HOUSES));
    must(context, samba_fill_uniform(random, 1, 0, 1));
    must(context, samba_fill_normal(noise, 2, 0, NOISE));
    const float *r = samba_tensor_data(random), *n = samba_tensor_data(noise);
    FILE *file = fopen(file_name, "w");
    expect(file != NULL, "a file can be written here");
    fprintf(file, "area,rooms,age,distance,price\n");
    for (int i = 0; i < HOUSES; i++, r += 4) {
        double area = 40 + 160 * (double)r[0], age = 80 * (double)r[2], distance = 20 * (double)r[3];
        int rooms = 1 + (int)(area / 35 + (double)r[1]);
        double price = 100 + 2 * area + 15 * rooms + 150 * exp(-distance / 5) - 60 * sin(age / 25) + (double)n[i];
        fprintf(file, "%.1f,%d,%.0f,%.2f,%.1f\n", area, rooms, age, distance, price);
    }
    fclose(file);
    samba_tensor_free(random);
    samba_tensor_free(noise);
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    samba_value area = samba_input(g, "area"), rooms = samba_input(g, "rooms");
    samba_value age = samba_input(g, "age"), distance = samba_input(g, "distance"), price = samba_input(g, "price");
    samba_value house = samba_concat(4, (const samba_value[]){area, rooms, age, distance}, 1);
    samba_value hidden = samba_tanh(samba_linear(house, "fc1", 32));
    hidden = samba_tanh(samba_linear(hidden, "fc2", 32));
    samba_value guess = samba_squeeze(samba_linear(hidden, "fc3", 1), 1, (const int[]){1});
    samba_loss(g, "loss", samba_mse_loss(guess, price, (samba_value){0}, SAMBA_MEAN));
    samba_output(g, "guess", guess);
}

/* Each column gets about the size that a network likes: value * scale + shift. A field has one scale, so columns that differ are
 * fields of their own, and inputs of their own, which the model joins. Prices are in hundreds of thousands. */
static samba_source *read_houses(samba_context *context)
{
    const samba_column columns[] = {
        {.field = {"area", SAMBA_FLOAT32, 1, {1}}, .scale = 0.02, .shift = -2.4},
        {.field = {"rooms", SAMBA_FLOAT32, 1, {1}}, .scale = 0.5, .shift = -2},
        {.field = {"age", SAMBA_FLOAT32, 1, {1}}, .scale = 0.04, .shift = -1.6},
        {.field = {"distance", SAMBA_FLOAT32, 1, {1}}, .scale = 0.15, .shift = -1.5},
        {.field = {"price", SAMBA_FLOAT32, 0, {0}}, .scale = 0.01},
    };
    samba_file_options file = samba_file_defaults();
    samba_source *houses;
    file.columns = columns, file.column_count = 5;
    must(context, samba_source_file(context, file_name, &file, &houses));
    return houses;
}

static void add_size(samba_context *context, samba_multigraph *multigraph, int64_t rows)
{
    samba_tensor *inputs[] = {
        named(context, "area", SAMBA_FLOAT32, SHAPE(rows, 1)), named(context, "rooms", SAMBA_FLOAT32, SHAPE(rows, 1)),
        named(context, "age", SAMBA_FLOAT32, SHAPE(rows, 1)), named(context, "distance", SAMBA_FLOAT32, SHAPE(rows, 1)),
        named(context, "price", SAMBA_FLOAT32, SHAPE(rows))};
    samba_optimizer adamw = samba_adamw(0.01);
    samba_compile_options compile = samba_compile_defaults();
    char size[32];
    snprintf(size, sizeof size, "%d", (int)rows);
    compile.name = "houses", compile.model = model;
    compile.inputs = inputs, compile.input_count = 5;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_multigraph_add_size(multigraph, &compile, size));
    for (int i = 0; i < 5; i++)
        samba_tensor_free(inputs[i]);
}

int main(void)
{
    samba_context *context;
    samba_multigraph *multigraph;
    samba_session *session;
    samba_source *train, *validation;
    char pef[1024];
    must(NULL, samba_context_new(NULL, &context));
    write_houses(context);
    samba_source *all = read_houses(context);
    must(context, samba_source_split(all, 100.0 / HOUSES, 1, &train, &validation));

    must(context, samba_multigraph_new(context, &multigraph));
    add_size(context, multigraph, BATCH);
    add_size(context, multigraph, samba_source_count(train) % BATCH);
    add_size(context, multigraph, samba_source_count(validation) % BATCH);
    must(context, samba_multigraph_compile(multigraph, "houses", NULL, pef, sizeof pef));
    must(context, samba_session_new(context, pef, NULL, &session));

    samba_metric_options rmse = samba_metric_defaults(SAMBA_METRIC_RMSE);
    samba_train_options options = samba_train_defaults();
    samba_train_result result;
    rmse.output = "guess", rmse.target = "price";
    options.train = train, options.validation = validation;
    options.graph_name = "houses";
    options.epochs = 150;
    options.metrics = &rmse, options.metric_count = 1;
    options.monitor = "rmse";
    options.schedule = (samba_schedule){.kind = SAMBA_SCHEDULE_COSINE};
    must(context, samba_train(session, &options, &result));
    printf("prices are missed by %.1f thousand, of which %d are noise\n", 100 * result.best, NOISE);
    expect(result.best < 0.15, "prices to 15 thousand");

    samba_source_free(all), samba_source_free(train), samba_source_free(validation);
    samba_session_free(session);
    samba_multigraph_free(multigraph);
    samba_context_free(context);
    return 0;
}
