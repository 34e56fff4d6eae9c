/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers against the update rules that torch.optim.SGD, torch.optim.AdamW and torch.nn.utils.clip_grad_norm_ document,
 * written here again in double precision; the gradients that they take are read back from the device. Steps of a model
 * whose parameters have odd sizes; parameter groups; hyperparameters while training. What is refused: messages/messages.txt. */
#include "training.h"

enum { STEPS = 12 };

/* ---- the model ---- */
static const char *const trained[] = {"fc1.weight", "fc1.bias", "norm.weight", "norm.bias", "fc2.weight",
                                      "fc2.bias",   "table",    "scale",       "shift"};
enum { TRAINED = sizeof trained / sizeof trained[0] };

static void odd_sizes(samba_graph *g, const void *settings)
{
    const samba_dtype dtype = *(const samba_dtype *)settings;
    const samba_initializer random = {SAMBA_INIT_NORMAL, 0.3, 0.7};
    samba_value x = samba_input(g, "x"), y = samba_input(g, "y");
    samba_value hidden = samba_layer_norm(samba_tanh(samba_linear(x, "fc1", 13)), "norm");
    samba_value out = samba_linear(hidden, "fc2", 5);
    out = samba_mul(out, samba_parameter(g, "scale", dtype, 0, NULL, random));
    out = samba_add(out, samba_parameter(g, "shift", dtype, 2, SHAPE(6, 1), random));
    samba_value error = samba_sub(out, y), table = samba_parameter(g, "table", dtype, 3, SHAPE(3, 101, 91), random);
    samba_value far = samba_mul(samba_mul(table, table), samba_slice(samba_slice(x, 0, 0, 1, 1), 1, 0, 1, 1));
    samba_loss(
        g, "loss",
        samba_add(samba_mean(samba_mul(error, error), 0, NULL, false), samba_mul_scalar(samba_sum(far, 0, NULL, false), 1e-3)));
    /* no loss is reached from it */
    samba_output(g, "aside", samba_mul_scalar(samba_parameter(g, "side", dtype, 1, SHAPE(9), random), 2));
}

/* ---- the rules ---- */
enum { MOST = 3 * 101 * 91 };
typedef struct rule { /* of one parameter, in double precision */
    const char *name;
    const samba_optimizer *optimizer;
    int64_t count;
    double *grad, p[MOST];
    double buffer[MOST];                     /* SGD */
    int with_momentum;                       /* SGD: steps */
    double m[MOST], v[MOST], greatest[MOST]; /* AdamW */
} rule;
static rule rules[TRAINED];
static int rule_count;

/* A session, and what is to come of its parameters. */
typedef struct trial {
    samba_session *session;
    samba_tensor *inputs[2];
    samba_run_options run;
    samba_dtype dtype;
    double tolerance;
    int number; /* of steps taken */
} trial;

static void begin_rule(const trial *t, const char *name, const samba_optimizer *optimizer)
{
    rule *r = &rules[rule_count++];
    memset(r, 0, sizeof *r);
    r->name = name;
    r->optimizer = optimizer;
    double *values = get_doubles(t->session, name, "", &r->count);
    assert_in_range(r->count, 1, MOST);
    memcpy(r->p, values, (size_t)r->count * sizeof *values);
    free(values);
}

/* One optimizer has all parameters; of two the first has the biases. */
static trial begin(samba_dtype dtype, double tolerance, int threads, int count, const samba_optimizer *optimizers)
{
    trial t = {.inputs = {kept(normal("x", dtype, 2, SHAPE(6, 7), 5)), kept(normal("y", dtype, 2, SHAPE(6, 5), 6))},
               .run = samba_run_defaults(),
               .dtype = dtype,
               .tolerance = tolerance};
    samba_compile_options options = training_of("optimizer", odd_sizes, &dtype, 2, t.inputs, optimizers);
    options.optimizer_count = count;
    t.session = open_kept(&options, threads, 17);
    rule_count = 0;
    for (int k = 0; k < TRAINED; k++)
        begin_rule(&t, trained[k], &optimizers[count == 2 && !strstr(trained[k], ".bias")]);
    return t;
}

static void give(trial *t, int count, const samba_hyperparameter *given)
{
    t->run.hyperparameter_count = count;
    t->run.hyperparameters = given;
}

/* The factor that clip_grad_norm_ multiplies gradients by. */
static double clip_factor(double max_norm)
{
    double total = 0;
    for (int k = 0; k < rule_count; k++)
        for (int64_t i = 0; i < rules[k].count; i++)
            total += rules[k].grad[i] * rules[k].grad[i];
    return max_norm > 0 ? fmin(1, max_norm / (sqrt(total) + 1e-6)) : 1;
}

/* As PyTorch: the first step with momentum copies the gradient; one without leaves the buffer alone. */
static void rule_sgd(rule *r, double factor)
{
    const samba_optimizer *o = r->optimizer;
    bool first = o->momentum != 0 && r->with_momentum++ == 0;
    for (int64_t i = 0; i < r->count; i++) {
        double g = (o->maximize ? -1 : 1) * r->grad[i] * factor + o->weight_decay * r->p[i];
        if (o->momentum != 0) {
            r->buffer[i] = first ? g : o->momentum * r->buffer[i] + (1 - o->dampening) * g;
            g = o->nesterov ? g + o->momentum * r->buffer[i] : r->buffer[i];
        }
        r->p[i] -= o->lr * g;
    }
}

static void rule_adamw(rule *r, int number, double factor)
{
    const samba_optimizer *o = r->optimizer;
    for (int64_t i = 0; i < r->count; i++) {
        double g = r->grad[i] * factor;
        r->p[i] -= o->lr * o->weight_decay * r->p[i];
        r->m[i] = o->beta1 * r->m[i] + (1 - o->beta1) * g;
        r->v[i] = o->beta2 * r->v[i] + (1 - o->beta2) * g * g;
        r->greatest[i] = fmax(r->greatest[i], r->v[i]);
        double mean = r->m[i] / (1 - pow(o->beta1, number));
        double square = (o->amsgrad ? r->greatest[i] : r->v[i]) / (1 - pow(o->beta2, number));
        r->p[i] -= o->lr * mean / (sqrt(square) + o->eps);
    }
}

static void compare(const trial *t, const rule *r, const char *ending, const double *expected)
{
    int64_t count;
    double *given = get_doubles(t->session, r->name, ending, &count), worst = 0;
    double scale = t->dtype == SAMBA_FLOAT16 ? 0x1p-14 : 1e-30; /* below, float16 has fewer bits */
    assert_int_equal(count, r->count);
    for (int64_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs(expected[i]));
        worst = fabs(given[i] - expected[i]) <= worst ? worst : fabs(given[i] - expected[i]);
    }
    free(given);
    if (!(worst <= t->tolerance * scale))
        fail_msg("%s%s differs by %g from a value of up to %g", r->name, ending, worst, scale);
}

/* What is stored in half precision is rounded; everything between is not. */
static void round_to(samba_dtype dtype, double *values, int64_t count)
{
    char bytes[8];
    for (int64_t i = 0; i < count; i++) {
        samba_store_double(dtype, bytes, values[i]);
        values[i] = samba_load_double(dtype, bytes);
    }
}

/* A step with new inputs, odd ones with greater, so that gradients grow and shrink; the rules follow. Gives the factor. */
static double step(trial *t, double max_norm)
{
    int number = ++t->number;
    need(samba_fill_normal(t->inputs[0], (uint64_t)(100 + number), 0, number % 2 ? 2 : 0.5));
    need(samba_fill_normal(t->inputs[1], (uint64_t)(200 + number), 0, number % 2 ? 3 : 0.3));
    t->run.input_count = 2;
    t->run.inputs = t->inputs;
    need(samba_run(t->session, &t->run));
    for (int k = 0; k < rule_count; k++) {
        int64_t numel;
        rules[k].grad = get_doubles(t->session, rules[k].name, ".grad", &numel);
        assert_int_equal(numel, rules[k].count);
    }
    double factor = clip_factor(max_norm);
    for (int k = 0; k < rule_count; k++) {
        rule *r = &rules[k];
        const bool sgd = r->optimizer->kind == SAMBA_SGD;
        if (sgd)
            rule_sgd(r, factor);
        else
            rule_adamw(r, number, factor);
        free(r->grad);
        const struct {
            const char *ending;
            double *values;
            bool has;
        } parts[] = {{"", r->p, true},
                     {".momentum_buffer", r->buffer, sgd},
                     {".exp_avg", r->m, !sgd},
                     {".exp_avg_sq", r->v, !sgd},
                     {".max_exp_avg_sq", r->greatest, r->optimizer->amsgrad}};
        for (int i = 0; i < LENGTH(parts); i++) {
            round_to(t->dtype, parts[i].values, r->count);
            if (parts[i].has)
                compare(t, r, parts[i].ending, parts[i].values);
        }
    }
    return factor;
}

/* ---- several optimizers ---- */
static const char *const biases[] = {"*.bias"}, *const weights[] = {"*.weight", "t?ble", "side"};

/* Biases to SGD, weights and what no loss reaches to AdamW, scale and shift to none; both clipped by the norm over both. */
TEST(test_groups)
{
    samba_optimizer o[2] = {samba_sgd(0.02), samba_adamw(0.01)};
    o[0].name = "small", o[0].parameters = biases, o[0].parameter_count = 1, o[0].momentum = 0.9, o[0].max_grad_norm = 0.8;
    o[1].name = "large", o[1].parameters = weights, o[1].parameter_count = 3;
    trial t = begin(SAMBA_FLOAT64, 1e-12, 2, 2, o);
    int clipped = 0;
    rule_count = TRAINED - 2;
    samba_tensor *before[2] = {kept(get(t.session, "scale")), kept(get(t.session, "shift"))};
    static const samba_hyperparameter given[] = {
        {"large.lr", 0.03}, {"lr", 0.008}, {"small.lr", 0.04}, {"weight_decay", 0.05}, {"max_grad_norm", 2}};
    while (t.number < STEPS) {
        give(&t, 0, NULL);
        if (t.number == 6) { /* a plain name is everybody's; a later one has the last word */
            give(&t, LENGTH(given), given);
            o[0].lr = 0.04, o[1].lr = 0.008;
            o[0].weight_decay = o[1].weight_decay = 0.05;
            o[0].max_grad_norm = 2;
        }
        clipped += step(&t, o[0].max_grad_norm) < 1;
    }
    assert_true(clipped > 0);
    assert_true(get_hyper(t.session, "small.lr") == 0.04 && get_hyper(t.session, "large.lr") == 0.008);
    assert_true(get_hyper(t.session, "small.weight_decay") == 0.05 && get_hyper(t.session, "large.weight_decay") == 0.05);
    assert_true(get_scalar(t.session, "large.step") == STEPS);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(samba_tensor_data(before[i]), samba_tensor_data(kept(get(t.session, i ? "shift" : "scale"))),
                            i ? 48 : 8);
}

/* The rest to the second, whose name is made up; each optimizer counts its own steps. */
TEST(test_rest)
{
    samba_optimizer o[2] = {samba_adamw(0.01), samba_adamw(0.002)};
    o[0].name = "head", o[0].parameters = biases, o[0].parameter_count = 1, o[0].weight_decay = 0;
    trial t = begin(SAMBA_FLOAT64, 1e-12, 1, 2, o);
    while (t.number < 3)
        step(&t, 0);
    assert_true(get_hyper(t.session, "head.lr") == 0.01 && get_hyper(t.session, "optim1.lr") == 0.002);
    assert_true(get_scalar(t.session, "head.step") == 3 && get_scalar(t.session, "optim1.step") == 3);
    uint64_t now = bits_of(t.session, ~0u);
    give(&t, 2, (const samba_hyperparameter[]){{"lr", 0.5}, {"momentum", 0.5}}); /* one is not there: nothing is changed */
    refuse(samba_run(t.session, &t.run), SAMBA_ERROR_NAME, "\"momentum\"");
    assert_true(bits_of(t.session, ~0u) == now && get_hyper(t.session, "head.lr") == 0.01);
}

/* Every number of a rule changes while it trains, to what a seed draws, whatever it was when compiled. */
static double drawn(unsigned *seed, double most) { return rand_r(seed) % 3 == 0 ? 0 : most * rand_r(seed) / RAND_MAX; }

static void draw(unsigned *seed, samba_optimizer *o)
{
    o->lr = 0.001 + drawn(seed, 0.02);
    o->weight_decay = drawn(seed, 0.3);
    o->momentum = drawn(seed, 0.95);
    o->dampening = drawn(seed, 0.9);
    o->beta1 = drawn(seed, 0.95);
    o->beta2 = drawn(seed, 0.99);
    o->eps = 1e-8 + drawn(seed, 0.1);
    o->max_grad_norm = o->max_grad_norm > 0 ? 0.1 + drawn(seed, 3) : 0;
}

/* Gives the steps that were clipped. */
static int check_changes(unsigned seed, samba_dtype dtype, double tolerance)
{
    samba_hyperparameter given[6];
    unsigned first = seed;
    int clipped = 0;
    samba_optimizer o = rand_r(&seed) % 4 ? samba_sgd(0.01) : samba_adamw(0.01);
    o.max_grad_norm = rand_r(&seed) % 2;
    draw(&seed, &o);
    o.nesterov = o.kind == SAMBA_SGD && rand_r(&seed) % 4 == 0;
    if (o.nesterov)
        o.momentum = 0.5, o.dampening = 0;
    o.maximize = o.kind == SAMBA_SGD && rand_r(&seed) % 4 == 0;
    o.amsgrad = o.kind == SAMBA_ADAMW && rand_r(&seed) % 2;
    o.name = "all"; /* alone it needs no prefix */
    print_message("changes of seed %u: %s, %s%s%s\n", first, o.kind == SAMBA_SGD ? "SGD" : "AdamW", samba_dtype_name(dtype),
                  o.nesterov ? ", Nesterov" : "", o.max_grad_norm > 0 ? ", clipped" : "");
    trial t = begin(dtype, tolerance, 1 + (int)(first % 2), 1, &o);
    samba_tensor *before = kept(get(t.session, "side"));
    while (t.number < 30) {
        int count = 0;
        if (t.number % 3 == 2 || rand_r(&seed) % 3 == 0) {
            draw(&seed, &o);
            const bool sgd = o.kind == SAMBA_SGD;
            const samba_hyperparameter all[] = {
                {"lr", o.lr},
                {"weight_decay", o.weight_decay},
                {sgd ? "momentum" : "beta1", sgd ? o.momentum : o.beta1},
                {sgd ? "dampening" : "beta2", sgd ? o.dampening : o.beta2},
                {o.max_grad_norm > 0 ? "max_grad_norm" : "lr", o.max_grad_norm > 0 ? o.max_grad_norm : o.lr},
                {"eps", o.eps}};
            memcpy(given, all, sizeof given);
            count = sgd ? 5 : 6;
        }
        give(&t, count, given);
        clipped += step(&t, o.max_grad_norm) < 1;
    }
    assert_true(get_scalar(t.session, "all.step") == (o.kind == SAMBA_SGD ? rules[0].with_momentum : t.number));
    assert_memory_equal(samba_tensor_data(before), samba_tensor_data(kept(get(t.session, "side"))), 9 * samba_dtype_size(dtype));
    drop_kept(NULL);
    return clipped;
}

TEST(test_changes)
{
    static const struct {
        samba_dtype dtype;
        double tolerance;
    } kinds[] = {{SAMBA_FLOAT64, 1e-12}, {SAMBA_FLOAT32, 1e-5}, {SAMBA_BFLOAT16, 0x1p-6}, {SAMBA_FLOAT16, 0x1p-9}};
    int clipped = 0;
    for (unsigned seed = 0; seed < 32; seed++)
        clipped += check_changes(seed + 1, kinds[seed % 4].dtype, kinds[seed % 4].tolerance);
    assert_true(clipped > 0 && clipped < 32 * 15); /* else clipping was not tested */
}

/* Plain SGD costs no more than it did: a step whose momentum is 0 does not even read the buffer, whatever is in it. */
TEST(test_left_alone)
{
    samba_optimizer o = samba_sgd(0.01);
    trial t = begin(SAMBA_FLOAT32, INFINITY, 2, 1, &o);
    samba_tensor *buffer = kept(get(t.session, "table.momentum_buffer")), *table = kept(get(t.session, "table"));
    const size_t size = (size_t)samba_tensor_numel(buffer) * sizeof(float);
    for (int64_t i = 0; i < samba_tensor_numel(buffer); i++)
        ((float *)samba_tensor_data(buffer))[i] = NAN;
    need(samba_session_set(t.session, buffer));
    rule_count = 0;
    step(&t, 0);
    assert_memory_equal(samba_tensor_data(buffer), samba_tensor_data(kept(get(t.session, "table.momentum_buffer"))), size);
    const float *moved = samba_tensor_data(kept(get(t.session, "table")));
    for (int64_t i = 0; i < samba_tensor_numel(table); i++)
        assert_true(isfinite(moved[i]));
    assert_memory_not_equal(moved, samba_tensor_data(table), size);
    assert_true(get_scalar(t.session, "optim0.step") == 0);
}

/* "p" where nothing is dropped; names that are no numbers: messages/messages.txt. */
TEST(test_no_effect)
{
    samba_optimizer o = samba_sgd(0.01);
    trial t = begin(SAMBA_FLOAT32, 1e-5, 1, 1, &o);
    const samba_hyperparameter rate = {"p", 0.5};
    assert_string_equal(samba_session_warning(t.session), "");
    for (int i = 0; i < 3; i++)
        need(samba_session_set_hyperparameters(t.session, 1, &rate));
    assert_string_equal(samba_session_warning(t.session), "hyperparameter \"p\" has no effect: there is no dropout");
    need(samba_session_set_hyperparameters(t.session, 1, &rate));
    assert_string_equal(samba_session_warning(t.session), "");
}

/* A run with train false that takes a step says so once; one of FWD takes none. Lists whose count is forgotten are refused where
 * all would be another thing than the list. */
TEST(test_meant_otherwise)
{
    static const samba_dtype dtype = SAMBA_FLOAT32;
    samba_tensor *inputs[2] = {kept(normal("x", dtype, 2, SHAPE(6, 7), 5)), kept(normal("y", dtype, 2, SHAPE(6, 5), 6))};
    samba_optimizer o = samba_sgd(0.01);
    samba_compile_options options = training_of("meant", odd_sizes, &dtype, 2, inputs, &o);
    samba_session *session = open_kept(&options, 1, 17);
    samba_run_options run = samba_run_defaults();
    run.inputs = inputs, run.input_count = 2, run.train = false;
    run.section_types = (const char *const[]){"FWD"}, run.section_type_count = 1;
    need(samba_run(session, &run));
    assert_string_equal(samba_session_warning(session), "");
    run.section_types = NULL, run.section_type_count = 0;
    for (int i = 0; i < 2; i++) {
        need(samba_run(session, &run));
        assert_string_equal(
            samba_session_warning(session),
            i > 0 ? ""
                  : "a run with train false, as torch's eval(), took a step of the optimizer, as it would in torch: "
                    "section_types {\"FWD\"} evaluates without one");
    }
    char path[512];
    options.optimizer_count = 0;
    refuse(
        samba_compile(context, &options, path, sizeof path), SAMBA_ERROR_ARGUMENT,
        "compile: optimizers is given, and optimizer_count is 0, so nothing would train: set the count, or optimizers to NULL");
    options.optimizer_count = 1;
    o.parameters = (const char *const[]){"table"};
    refuse(samba_compile(context, &options, path, sizeof path), SAMBA_ERROR_ARGUMENT,
           "optimizer 0: parameters is given, and parameter_count is 0: set the count, or parameters to NULL, which means all");
}

/* Gradients behind one step of SGD with rate 0; of what has none, NULL. */
static void gradients_of(const samba_optimizer *optimizer, int asked_count, const char *const *asked, int threads,
                         double *gradients[TRAINED])
{
    static const samba_dtype dtype = SAMBA_FLOAT32;
    samba_tensor *inputs[2] = {kept(normal("x", dtype, 2, SHAPE(6, 7), 5)), kept(normal("y", dtype, 2, SHAPE(6, 5), 6))};
    samba_compile_options options = training_of("left_out", odd_sizes, &dtype, 2, inputs, optimizer);
    samba_run_options run = samba_run_defaults();
    options.gradient_count = asked_count;
    options.gradients = asked;
    samba_session *session = open_kept(&options, threads, 17);
    run.input_count = 2;
    run.inputs = inputs;
    need(samba_run(session, &run));
    for (int k = 0; k < TRAINED; k++) {
        char name[64];
        int64_t count;
        samba_tensor *there = NULL;
        snprintf(name, sizeof name, "%s.grad", trained[k]);
        const samba_status status = samba_session_get_by_name(session, name, &there);
        samba_tensor_free(there);
        assert_true(status == SAMBA_OK || status == SAMBA_ERROR_NAME);
        gradients[k] = status == SAMBA_OK ? get_doubles(session, trained[k], ".grad", &count) : NULL;
    }
}

/* Each parameter falls to the optimizer, is asked for, or neither: then it has no gradient. The others have the same bits. */
TEST(test_left_out)
{
    double *all[TRAINED], *some[TRAINED];
    samba_optimizer everything = samba_sgd(0);
    gradients_of(&everything, 0, NULL, 1, all);
    for (unsigned seed = 1; seed <= 12; seed++) {
        unsigned drawn_from = seed;
        const char *owned[TRAINED], *asked[TRAINED];
        int owned_count = 0, asked_count = 0, lot[TRAINED];
        for (int k = 0; k < TRAINED; k++) {
            lot[k] = (int)(rand_r(&drawn_from) >> 8) % 3;
            if (k == (int)seed % TRAINED)
                lot[k] = 0;
            if (lot[k] == 0)
                owned[owned_count++] = trained[k];
            if (lot[k] == 1)
                asked[asked_count++] = trained[k];
        }
        print_message("seed %u: %d of the optimizer, %d asked for\n", seed, owned_count, asked_count);
        samba_optimizer o = samba_sgd(0);
        o.parameters = owned;
        o.parameter_count = owned_count;
        gradients_of(&o, asked_count, asked, 1 + (int)(seed % 2), some);
        for (int k = 0; k < TRAINED; k++) {
            int64_t count = k == 6 ? 3 * 101 * 91 : 1;
            assert_true((some[k] != NULL) == (lot[k] < 2));
            if (some[k] && seed % 2 == 0) /* sums over threads are others */
                assert_memory_equal(some[k], all[k], (size_t)count * sizeof(double));
            free(some[k]);
        }
        drop_kept(NULL);
    }
    for (int k = 0; k < TRAINED; k++)
        free(all[k]);
}

TEST_MAIN_WITH(NULL, drop_kept, test_groups, test_rest, test_changes, test_left_alone, test_no_effect, test_meant_otherwise,
               test_left_out)
