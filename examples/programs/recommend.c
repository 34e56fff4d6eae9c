/* SPDX-License-Identifier: Apache-2.0
 *
 * A recommender: matrix factorization (Koren, Bell and Volinsky, 2009). A rating is the mean of all, how generous the user is,
 * how good the item is, and the product of two short rows of numbers, one of the user and one of the item. Weight decay keeps
 * rows short of users who have rated little; biases have less of it: two optimizers, each with its parameters by name. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { USERS = 300, ITEMS = 120, RANK = 4, RATINGS = 9000, TESTED = 1000, BATCH = 100 };

static const double noise = 0.3;

/* What the data has and the model does not know: users and items by 3 hidden tastes, and noise that nothing can learn. */
static samba_source *make_ratings(samba_context *context)
{
    samba_tensor *taste = named(context, "taste", SAMBA_FLOAT32, SHAPE(USERS + ITEMS, 4));
    samba_tensor *error = named(context, "error", SAMBA_FLOAT32, SHAPE(RATINGS));
    samba_tensor *fields[] = {named(context, "user", SAMBA_INT64, SHAPE(RATINGS)),
                              named(context, "item", SAMBA_INT64, SHAPE(RATINGS)),
                              named(context, "rating", SAMBA_FLOAT32, SHAPE(RATINGS))};
    must(context, samba_fill_normal(taste, 10 * seed(), 0, 0.6));
    must(context, samba_fill_normal(error, 10 * seed() + 1, 0, noise));
    must(context, samba_fill_integers(fields[0], 10 * seed() + 2, 0, USERS));
    must(context, samba_fill_integers(fields[1], 10 * seed() + 3, 0, ITEMS));
    const int64_t *user = samba_tensor_data(fields[0]), *item = samba_tensor_data(fields[1]);
    const float *t = samba_tensor_data(taste), *e = samba_tensor_data(error);
    float *rating = samba_tensor_data(fields[2]);
    for (int i = 0; i < RATINGS; i++) {
        const float *u = t + 4 * user[i], *v = t + 4 * (USERS + item[i]);
        rating[i] = 3.5f + u[3] * 0.5f + v[3] * 0.5f + 1.5f * (u[0] * v[0] + u[1] * v[1] + u[2] * v[2]) + e[i];
    }
    samba_source *ratings;
    must(context, samba_source_tensors(context, 3, fields, &ratings));
    samba_tensor_free(taste), samba_tensor_free(error);
    for (int i = 0; i < 3; i++)
        samba_tensor_free(fields[i]);
    return ratings;
}

/* Rows that start small: the parameter is made before the layer, which would start it as N(0, 1). */
static samba_value rows(samba_graph *g, samba_value index, const char *layer, int64_t count, int64_t width)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", layer);
    samba_parameter(g, name, SAMBA_FLOAT32, SHAPE(count, width), (samba_initializer){SAMBA_INIT_NORMAL, 0, 0.1});
    return samba_embedding(index, layer, count, width);
}

static void model(samba_graph *g, const void *options)
{
    const bool biases_alone = *(const bool *)options;
    const int last[] = {1};
    samba_value user = samba_input(g, "user"), item = samba_input(g, "item"), rating = samba_input(g, "rating");
    samba_value mean = samba_parameter(g, "mean", SAMBA_FLOAT32, SHAPE(1), (samba_initializer){SAMBA_INIT_CONSTANT, 3, 0});
    samba_value generous = samba_squeeze(rows(g, user, "user_bias", USERS, 1), 1, last); /* (N), as the ratings */
    samba_value good = samba_squeeze(rows(g, item, "item_bias", ITEMS, 1), 1, last);
    samba_value guess = samba_add(samba_add(generous, good), mean);
    if (!biases_alone) {
        samba_value of_user = rows(g, user, "user_taste", USERS, RANK);
        samba_value of_item = rows(g, item, "item_taste", ITEMS, RANK);
        guess = samba_add(guess, samba_sum(samba_mul(of_user, of_item), 1, last, false));
    }
    samba_loss(g, "loss", samba_mse_loss(guess, rating, (samba_value){0}, SAMBA_MEAN));
    samba_output(g, "guess", guess);
}

static double trained(samba_context *context, samba_source *train, samba_source *test, const char *name, bool biases_alone)
{
    samba_session *session;
    char pef[1024];
    samba_tensor *inputs[] = {named(context, "user", SAMBA_INT64, SHAPE(BATCH)),
                              named(context, "item", SAMBA_INT64, SHAPE(BATCH)),
                              named(context, "rating", SAMBA_FLOAT32, SHAPE(BATCH))};
    samba_optimizer optimizers[] = {samba_adamw(0.01), samba_adamw(0.01)};
    optimizers[0].parameters = (const char *const[]){"*_taste.weight"}, optimizers[0].parameter_count = 1;
    optimizers[0].name = "tastes", optimizers[0].weight_decay = 0.05;
    optimizers[1].name = "biases", optimizers[1].weight_decay = 0; /* all that the first has not */
    samba_compile_options compile = samba_compile_defaults();
    compile.name = name, compile.model = model, compile.model_options = &biases_alone;
    compile.inputs = inputs, compile.input_count = 3;
    compile.optimizers = optimizers + biases_alone, compile.optimizer_count = 2 - biases_alone;
    must(context, samba_compile(context, &compile, pef, sizeof pef));
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_session_new(context, pef, &device, &session));

    samba_metric_options rmse = samba_metric_defaults(SAMBA_METRIC_RMSE);
    samba_train_options options = samba_train_defaults();
    samba_train_result result;
    rmse.output = "guess", rmse.target = "rating";
    options.train = train, options.validation = test;
    options.epochs = 40, options.seed = seed();
    options.metrics = &rmse, options.metric_count = 1;
    options.monitor = "rmse", options.patience = 5;
    options.schedule = (samba_schedule){.kind = SAMBA_SCHEDULE_COSINE};
    must(context, samba_train(session, &options, &result));

    for (int i = 0; i < 3; i++)
        samba_tensor_free(inputs[i]);
    samba_session_free(session);
    return result.best;
}

int main(void)
{
    samba_context *context;
    samba_source *train, *test;
    must(NULL, samba_context_new(NULL, &context));
    samba_source *all = make_ratings(context);
    must(context, samba_source_split(all, (double)TESTED / RATINGS, seed(), &train, &test));
    const double biases = trained(context, train, test, "biases", true);
    const double whole = trained(context, train, test, "recommend", false);
    printf("ratings are missed by %.3f with tastes, by %.3f without, by %.3f at the very least\n", whole, biases, noise);
    expect(whole < 0.45 && whole < 0.5 * biases, "ratings to 0.45");

    samba_source_free(all), samba_source_free(train), samba_source_free(test);
    samba_context_free(context);
    return 0;
}
