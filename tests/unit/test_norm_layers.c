/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers that normalize: one PEF trains batch norm by its batches and evaluates it by running statistics, which only runs that
 * train move, and none of a layer that is frozen; a PEF for inference knows nothing of training. Names are those of PyTorch's
 * layers; expected values are torch's formulas in double. */
#include "traced.h"
#include "training.h"

enum { IMAGES = 4, CHANNELS = 3, PIXELS = 40, COUNT = IMAGES * CHANNELS * PIXELS };

typedef struct setting {
    bool instance;
    samba_batch_norm_layer layer;
} setting;

static void model(samba_graph *g, const void *settings)
{
    const setting *s = settings;
    samba_value x = samba_input(g, "x"),
                w = samba_parameter(g, "w", SAMBA_FLOAT32, 0, NULL, (samba_initializer){SAMBA_INIT_CONSTANT, 1, 0});
    samba_value y = (s->instance ? samba_instance_norm : samba_batch_norm)(samba_mul(x, w), "bn", &s->layer);
    samba_output(g, "y", y);
    samba_loss(g, "loss", samba_sum(samba_mul(y, y), 0, NULL, false));
}

static samba_session *session_of(const setting *s, bool inference)
{
    OWN_TENSOR *x = tensor("x", SAMBA_FLOAT32, 3, SHAPE(IMAGES, CHANNELS, PIXELS));
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options options =
        inference ? inference_of("inference", model, s, 1, &x) : training_of("training", model, s, 1, &x, &sgd);
    return compile_and_open(&options, 2, 1);
}

/* Mean and variance (over n) of channel c, of all images or of one. */
static void moments(const float *x, int image, int c, double *mean, double *variance)
{
    int first = image < 0 ? 0 : image, last = image < 0 ? IMAGES : image + 1;
    double n = (double)(last - first) * PIXELS;
    *mean = *variance = 0;
    for (int i = first; i < last; i++)
        for (int p = 0; p < PIXELS; p++)
            *mean += (double)x[(i * CHANNELS + c) * PIXELS + p] / n;
    for (int i = first; i < last; i++)
        for (int p = 0; p < PIXELS; p++)
            *variance += pow((double)x[(i * CHANNELS + c) * PIXELS + p] - *mean, 2) / n;
}

static void near(double given, double expected, const char *what, int at)
{
    if (!(fabs(given - expected) <= 1e-5 * (1 + fabs(expected)))) /* sums of 160 floats: some 10 roundings of 6e-8 each */
        fail_msg("%s %d is %.9g, expected %.9g", what, at, given, expected);
}

/* Runs batches that train and such that do not, and follows the running statistics by hand. */
static void follow(const setting *s)
{
    OWN_SESSION *trained = session_of(s, false), *inference = NULL;
    bool tracks = s->instance ? s->layer.track_running_stats : !s->layer.no_running_stats;
    double running_mean[CHANNELS] = {0}, running_var[CHANNELS] = {1, 1, 1}, mean, variance;
    for (int round = 0; round < 6; round++) {
        bool train = round % 3 != 2;
        OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, 3, SHAPE(IMAGES, CHANNELS, PIXELS), 7 + (uint64_t)round),
                   *y = tensor("y", SAMBA_FLOAT32, 3, SHAPE(IMAGES, CHANNELS, PIXELS));
        const float *in = samba_tensor_data(x), *out = samba_tensor_data(y);
        samba_run_options run = giving(1, &x);
        run.outputs = &y, run.output_count = 1;
        run.train = train;
        if (round == 5) { /* what was trained, in a PEF for inference */
            inference = session_of(s, true);
            assert_int_equal(samba_session_hyperparameter_count(inference), 0);
            static const char *const names[] = {"bn.running_mean", "bn.running_var", "bn.weight", "bn.bias"};
            for (int i = 0; i < 4; i++) {
                bool has = i < 2 ? tracks : s->instance ? s->layer.affine : !s->layer.no_affine;
                OWN_TENSOR *value = has ? get(trained, names[i]) : NULL;
                if (has)
                    need(samba_session_set(inference, value));
            }
        }
        need(run_sections(inference ? inference : trained, &run, "FWD"));
        for (int c = 0; c < CHANNELS; c++) {
            double n = s->instance ? PIXELS : IMAGES * PIXELS, average_mean = 0, average_var = 0;
            for (int i = 0; i < IMAGES; i++) {
                moments(in, s->instance ? i : -1, c, &mean, &variance);
                average_mean += mean / IMAGES;
                average_var += variance * n / (n - 1) / IMAGES;
                if (tracks && !train)
                    mean = running_mean[c], variance = running_var[c];
                for (int p = 0; p < PIXELS; p++) {
                    int at = (i * CHANNELS + c) * PIXELS + p;
                    near((double)out[at], ((double)in[at] - mean) / sqrt(variance + (s->layer.eps != 0 ? s->layer.eps : 1e-5)),
                         "element", at);
                }
            }
            double f = s->layer.cumulative ? 1.0 / (1 + round - round / 3) : s->layer.momentum != 0 ? s->layer.momentum : 0.1;
            if (tracks && train)
                running_mean[c] += f * (average_mean - running_mean[c]), running_var[c] += f * (average_var - running_var[c]);
        }
        if (!tracks)
            continue;
        OWN_TENSOR *means = get(trained, "bn.running_mean"), *variances = get(trained, "bn.running_var");
        for (int c = 0; c < CHANNELS; c++) {
            near(element_of(means, c), running_mean[c], "running mean", c);
            near(element_of(variances, c), running_var[c], "running variance", c);
        }
        assert_true(get_scalar(trained, "bn.num_batches_tracked") == round + 1 - (round + 1) / 3);
    }
}

TEST(test_running_statistics)
{
    follow(&(setting){.instance = false});
    follow(&(setting){.layer = {.momentum = 0.25, .eps = 0.01}});
    follow(&(setting){.layer = {.cumulative = true, .no_affine = true}});
    follow(&(setting){.layer = {.no_running_stats = true}});
    follow(&(setting){.instance = true});
    follow(&(setting){.instance = true, .layer = {.affine = true, .track_running_stats = true}});
}

/* A frozen layer beside one that trains: its statistics normalize and stay in all runs, its weight and what stands before it
 * learn. */
static void half_frozen(samba_graph *g, const void *settings)
{
    const setting *s = settings;
    samba_value x = samba_input(g, "x"),
                w = samba_parameter(g, "w", SAMBA_FLOAT32, 0, NULL, (samba_initializer){SAMBA_INIT_CONSTANT, 1, 0});
    samba_value scaled = samba_mul(x, w);
    samba_value frozen = (s->instance ? samba_instance_norm : samba_batch_norm)(scaled, "frozen", &s->layer);
    samba_value y = samba_batch_norm(scaled, "bn", NULL);
    samba_output(g, "y", frozen);
    samba_value product = samba_mul(frozen, y);
    samba_loss(g, "loss", samba_sum(product, 0, NULL, false));
}

TEST(test_frozen)
{
    for (int instance = 0; instance < 2; instance++) {
        setting s = {.instance = instance, .layer = {.affine = true, .track_running_stats = true, .frozen = true}};
        OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, 3, SHAPE(IMAGES, CHANNELS, PIXELS), 5),
                   *y = tensor("y", SAMBA_FLOAT32, 3, SHAPE(IMAGES, CHANNELS, PIXELS)),
                   *mean = tensor("frozen.running_mean", SAMBA_FLOAT32, 1, SHAPE(CHANNELS)),
                   *variance = tensor("frozen.running_var", SAMBA_FLOAT32, 1, SHAPE(CHANNELS));
        samba_optimizer sgd = samba_sgd(1e-4);
        samba_compile_options options = training_of("frozen", half_frozen, &s, 1, &x, &sgd);
        OWN_SESSION *session = compile_and_open(&options, 2, 1);
        for (int c = 0; c < CHANNELS; c++) {
            ((float *)samba_tensor_data(mean))[c] = 0.5F * (float)c - 0.25F;
            ((float *)samba_tensor_data(variance))[c] = 2.0F + (float)c;
        }
        need(samba_session_set(session, mean));
        need(samba_session_set(session, variance));
        for (int step = 0; step < 6; step++) {
            const double w = get_scalar(session, "w");
            OWN_TENSOR *weight = get(session, "frozen.weight"), *bias = get(session, "frozen.bias");
            samba_run_options run = giving(1, &x);
            run.outputs = &y, run.output_count = 1;
            run.train = step % 3 != 2;
            need(run.train ? samba_run(session, &run) : run_sections(session, &run, "FWD"));
            const float *in = samba_tensor_data(x), *out = samba_tensor_data(y);
            for (int at = 0; at < COUNT; at++) {
                int c = at / PIXELS % CHANNELS;
                double normal = (w * (double)in[at] - (0.5 * c - 0.25)) / sqrt(2.0 + c + 1e-5);
                near((double)out[at], normal * element_of(weight, c) + element_of(bias, c), "element", at);
            }
            assert_true(get_scalar(session, "bn.num_batches_tracked") == step + 1 - (step + 1) / 3);
            assert_true((get_scalar(session, "w") != w) == run.train);
        }
        OWN_TENSOR *means = get(session, "frozen.running_mean"), *variances = get(session, "frozen.running_var");
        for (int c = 0; c < CHANNELS; c++)
            assert_true(element_of(means, c) == 0.5 * c - 0.25 && element_of(variances, c) == 2.0 + c);
    }
}

/* A run that trains may be told to take the running statistics all the same. */
TEST(test_hyperparameter)
{
    OWN_SESSION *session = session_of(&(setting){.instance = false}, false);
    OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, 3, SHAPE(IMAGES, CHANNELS, PIXELS), 3);
    samba_run_options run = giving(1, &x);
    run.hyperparameters = (samba_hyperparameter[]){{"training", 0}}, run.hyperparameter_count = 1;
    need(samba_run(session, &run));
    assert_true(get_scalar(session, "bn.num_batches_tracked") == 0 && get_hyper(session, "training") == 0);
    run.hyperparameters = (samba_hyperparameter[]){{"training", 0.5}};
    refuse(samba_run(session, &run), SAMBA_ERROR_ARGUMENT, "is 1 in runs that train");
    run.hyperparameters = (samba_hyperparameter[]){{"training", 1}};
    need(samba_run(session, &run));
    assert_true(get_scalar(session, "bn.num_batches_tracked") == 1);
}

/* A batch of nothing has no mean: running statistics stay, and gradients of weight and bias are 0, as PyTorch's are. */
TEST(test_empty_batch)
{
    for (int instance = 0; instance < 2; instance++) {
        setting s = {.instance = instance, .layer = {.affine = true, .track_running_stats = true}};
        OWN_TENSOR *x = tensor("x", SAMBA_FLOAT32, 3, SHAPE(0, CHANNELS, PIXELS));
        samba_compile_options options = compile_of("empty", model, &s, 1, &x);
        OWN_SESSION *session = compile_and_open(&options, 1, 1);
        samba_run_options run = giving(1, &x);
        need(samba_run(session, &run));
        static const char *const names[] = {"bn.running_mean", "bn.running_var", "bn.weight.grad", "bn.bias.grad"};
        for (int i = 0; i < 4; i++) {
            OWN_TENSOR *values = get(session, names[i]);
            for (int64_t c = 0; c < CHANNELS; c++)
                assert_true(element_of(values, c) == (i == 1));
        }
    }
}

/* ---- names and refusals ---- */

static void expect_parameter(const char *name, const char *type, double value)
{
    const samba_ref leaf = samba_graph_leaf(traced, name);
    const samba_attrs_parameter *has = &samba_node_at(traced, leaf)->attrs->parameter;
    expect_type((samba_value){traced, leaf, 0}, type);
    assert_int_equal(has->init, value != 0 ? SAMBA_INIT_CONSTANT : SAMBA_INIT_ZEROS);
    assert_true(has->init_a == value);
}

TEST(test_names)
{
    int parameters = 0;
    trace("x float32[4,3,40]");
    samba_value x = samba_group_norm(in("x"), "gn", 3, NULL);
    x = samba_layer_norm_with(x, "ln", &(samba_norm_options){.dims = 2, .no_bias = true});
    x = samba_rms_norm(x, "rms", NULL);
    expect_type(samba_layer_norm_with(x, "bare", &(samba_norm_options){.no_affine = true}), "float32[4,3,40]");
    for (samba_ref i = 0; i < traced->node_count; i++)
        parameters += samba_node_at(traced, i)->op == SAMBA_OP_parameter;
    assert_int_equal(parameters, 4);
    expect_parameter("gn.weight", "float32[3]", 1);
    expect_parameter("gn.bias", "float32[3]", 0);
    expect_parameter("ln.weight", "float32[3,40]", 1);
    expect_parameter("rms.weight", "float32[40]", 1);
    untrace();
}

TEST(test_refusals)
{
    samba_batch_norm_options trains = samba_batch_norm_defaults();
    trains.training = true;
    trace("flat float32[6] one float32[1,6] whole int64[4,6]");
    wrong(samba_batch_norm(in("flat"), "bn", NULL),
          "batch_norm at bn: expected an input (N, C, ...) of rank 2 to 5, given float32(6)");
    wrong(samba_batch_norm(in("one"), "bn", &(samba_batch_norm_layer){.no_running_stats = true, .frozen = true}),
          "batch_norm at bn: a frozen layer normalizes by running statistics, and this one has none");
    wrong(samba_instance_norm(zeros_of("float32[1,6,2]"), "in", &(samba_batch_norm_layer){.frozen = true}),
          "instance_norm at in: a frozen layer normalizes by running statistics, and this one has none");
    wrong(samba_batch_norm(in("whole"), "bn", NULL), "batch_norm at bn: expected a floating-point value");
    wrong(samba_functional_batch_norm(in("one"), none, none, none, none, &trains),
          "batch_norm: expected more than 1 value for each channel when training, given float32(1, 6)");
    samba_value next[2] = {{(samba_graph *)&trains, 7, 0}, {(samba_graph *)&trains, 7, 0}}; /* no values after an error */
    trains.next_mean = &next[0], trains.next_var = &next[1];
    wrong(samba_functional_batch_norm(in("flat"), in("flat"), in("flat"), none, none, &trains), "of rank 2 or more");
    assert_true(next[0].graph == traced && next[0].index == UINT32_MAX && next[1].index == UINT32_MAX);
    trains.next_mean = trains.next_var = NULL;
    wrong(samba_functional_batch_norm(in("one"), none, none, none, none, NULL), "there are no statistics to normalize by");
    wrong(samba_functional_batch_norm(in("one"), in("flat"), none, none, none, &trains),
          "one of the running statistics is missing");
    wrong(samba_functional_batch_norm(in("one"), in("flat"), in("flat"), zeros_of("float32[2,3]"), none, NULL),
          "expected the weight to have a number for each of the 6 channels, given (2, 3)");
    wrong(samba_instance_norm(in("one"), "in", NULL), "instance_norm at in: expected an input (N, C, L, ...) of rank 3 to 5");
    wrong(samba_functional_instance_norm(zeros_of("float32[1,6,1]"), none, none, none, none, &trains),
          "more than 1 value for each channel of an image");
    wrong(samba_group_norm(in("one"), "gn", 4, NULL),
          "group_norm at gn: the number of groups must divide the 6 channels, given 4");
    wrong(samba_group_norm(in("flat"), "gn", 1, NULL), "group_norm at gn: expected an input (N, C, ...)");
    wrong(samba_rms_norm(in("flat"), "rms", &(samba_norm_options){.dims = 2}),
          "rms_norm at rms: expected an input of rank 2 or more, for 2 normalized dims");
    wrong(samba_layer_norm_with(in("flat"), "ln", &(samba_norm_options){.dims = -1}),
          "layer_norm at ln: expected an input of rank 1 or more");
    wrong(samba_functional_rms_norm(in("one"), 1, SHAPE(5), none, -1), "rms_norm: expected an input whose last dims are (5)");
    wrong(samba_functional_group_norm(in("whole"), 2, none, none, 1e-5), "group_norm: expected a floating-point value");
    untrace();
}

TEST_MAIN(test_running_statistics, test_frozen, test_hyperparameter, test_empty_batch, test_names, test_refusals)
