/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers against the update rules that torch.optim.SGD, torch.optim.AdamW and torch.nn.utils.clip_grad_norm_ document,
 * written here again in double precision. The gradients that the rules take are read back from the device, so only the updates
 * are compared: twelve steps of a model whose parameters have odd sizes, from one element to more than a thread takes at once, in
 * float32 and float64. Then parameter groups, hyperparameters while training, and options that must be refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "training.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

#define STEPS 12

/* ---- the model ---- */
static const char *const trained[] = {"fc1.weight", "fc1.bias", "norm.weight", "norm.bias", "fc2.weight",
                                      "fc2.bias",   "scale",    "shift",       "table"};
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

typedef struct trial {
    samba_session *session;
    samba_tensor *inputs[2];
    samba_run_options run;
} trial;

static trial begin(samba_dtype dtype, int threads, int count, const samba_optimizer *optimizers)
{
    trial t = {.inputs = {normal("x", dtype, 2, SHAPE(6, 7), 5), normal("y", dtype, 2, SHAPE(6, 5), 6)},
               .run = samba_run_defaults()};
    samba_compile_options options = compile_of("optimizer", odd_sizes, &dtype, 2, t.inputs);
    options.optimizer_count = count;
    options.optimizers = optimizers;
    t.session = compile_and_open(&options, threads, 17);
    return t;
}

static void end(trial *t)
{
    samba_session_free(t->session);
    samba_tensor_free(t->inputs[0]);
    samba_tensor_free(t->inputs[1]);
}

/* New inputs for a step; odd steps have greater ones, so that gradients grow and shrink. */
static void step(trial *t, int number)
{
    need(samba_fill_normal(t->inputs[0], (uint64_t)(100 + number), 0, number % 2 ? 2 : 0.5));
    need(samba_fill_normal(t->inputs[1], (uint64_t)(200 + number), 0, number % 2 ? 3 : 0.3));
    samba_run_options run = t->run;
    run.input_count = 2;
    run.inputs = t->inputs;
    need(samba_run(t->session, &run));
}

/* ---- the rules ---- */
typedef struct rule { /* of one parameter, in double precision */
    const char *name;
    const samba_optimizer *optimizer;
    int64_t count;
    double *p, *grad;
    double *buffer;           /* SGD */
    int with_momentum;        /* SGD: steps */
    double *m, *v, *greatest; /* AdamW */
} rule;

static double *zeros(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert_non_null(values);
    return values;
}

static rule rule_new(samba_session *session, const char *name, const samba_optimizer *optimizer)
{
    rule r = {.name = name, .optimizer = optimizer};
    r.p = get_doubles(session, name, "", &r.count);
    r.buffer = zeros(r.count), r.m = zeros(r.count), r.v = zeros(r.count), r.greatest = zeros(r.count);
    return r;
}

static void rule_free(rule *r) { free(r->p), free(r->buffer), free(r->m), free(r->v), free(r->greatest); }

/* The factor that clip_grad_norm_ multiplies gradients by. */
static double clip_factor(const rule *rules, int count, double max_norm)
{
    double total = 0;
    for (int k = 0; k < count; k++)
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
        double g = r->grad[i] * factor + o->weight_decay * r->p[i];
        g = o->maximize ? -r->grad[i] * factor + o->weight_decay * r->p[i] : g;
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

static void compare(samba_session *session, samba_dtype dtype, const rule *r, const char *ending, const double *expected,
                    double tolerance)
{
    int64_t count;
    double *given = get_doubles(session, r->name, ending, &count), worst = 0;
    double scale = dtype == SAMBA_FLOAT16 ? 0x1p-14 : 1e-30; /* below, float16 has fewer bits */
    assert_int_equal(count, r->count);
    for (int64_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs(expected[i]));
        worst = fabs(given[i] - expected[i]) <= worst ? worst : fabs(given[i] - expected[i]);
    }
    free(given);
    if (!(worst <= tolerance * scale))
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

/* Rules follow a step that the session has taken; returns the clipping factor. */
static double follow(samba_session *session, samba_dtype dtype, rule *rules, int count, int number, double max_norm,
                     double tolerance)
{
    for (int k = 0; k < count; k++) {
        int64_t numel;
        rules[k].grad = get_doubles(session, rules[k].name, ".grad", &numel);
        assert_int_equal(numel, rules[k].count);
    }
    double factor = clip_factor(rules, count, max_norm);
    for (int k = 0; k < count; k++) {
        rule *r = &rules[k];
        if (r->optimizer->kind == SAMBA_SGD)
            rule_sgd(r, factor);
        else
            rule_adamw(r, number, factor);
        free(r->grad);
        for (int i = 0; i < 5; i++)
            round_to(dtype, ((double *[]){r->p, r->buffer, r->m, r->v, r->greatest})[i], r->count);
        compare(session, dtype, r, "", r->p, tolerance);
        if (r->optimizer->kind == SAMBA_SGD)
            compare(session, dtype, r, ".momentum_buffer", r->buffer, tolerance);
        if (r->optimizer->kind == SAMBA_ADAMW) {
            compare(session, dtype, r, ".exp_avg", r->m, tolerance);
            compare(session, dtype, r, ".exp_avg_sq", r->v, tolerance);
        }
        if (r->optimizer->kind == SAMBA_ADAMW && r->optimizer->amsgrad)
            compare(session, dtype, r, ".max_exp_avg_sq", r->greatest, tolerance);
    }
    return factor;
}

/* ---- one optimizer ---- */
typedef struct optimizer_case {
    const char *name;
    samba_optimizer optimizer;
} optimizer_case;
#define SGD(...)                                                                                                                 \
    {                                                                                                                            \
        sizeof(samba_optimizer), SAMBA_SGD, __VA_ARGS__                                                                          \
    }
#define ADAMW(...)                                                                                                               \
    {                                                                                                                            \
        sizeof(samba_optimizer), SAMBA_ADAMW, __VA_ARGS__                                                                        \
    }
static const optimizer_case cases[] = {
    {"sgd", SGD(.lr = 0.02)},
    {"sgd weight_decay", SGD(.lr = 0.02, .weight_decay = 0.3)},
    {"sgd momentum", SGD(.lr = 0.02, .momentum = 0.9)},
    {"sgd dampening", SGD(.lr = 0.02, .momentum = 0.8, .dampening = 0.3)},
    {"sgd nesterov", SGD(.lr = 0.02, .momentum = 0.9, .nesterov = true)},
    {"sgd clipped", SGD(.lr = 0.02, .max_grad_norm = 0.8)},
    {"sgd everything", SGD(.lr = 0.02, .momentum = 0.7, .dampening = 0.1, .weight_decay = 0.1, .max_grad_norm = 0.8)},
    {"sgd nesterov weight_decay clipped",
     SGD(.lr = 0.02, .momentum = 0.7, .nesterov = true, .weight_decay = 0.1, .max_grad_norm = 0.8)},
    {"adamw", ADAMW(.lr = 0.01, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8)},
    {"adamw betas", ADAMW(.lr = 0.01, .weight_decay = 0.01, .beta1 = 0.5, .beta2 = 0.8, .eps = 1e-8)},
    {"adamw eps", ADAMW(.lr = 0.01, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 0.1)},
    {"adamw weight_decay", ADAMW(.lr = 0.01, .weight_decay = 0.7, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8)},
    {"adamw amsgrad", ADAMW(.lr = 0.01, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.6, .eps = 1e-8, .amsgrad = true)},
    {"adamw clipped", ADAMW(.lr = 0.01, .weight_decay = 0, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 0.8)},
    {"adamw everything",
     ADAMW(.lr = 0.01, .weight_decay = 0.2, .beta1 = 0.8, .beta2 = 0.7, .eps = 1e-5, .amsgrad = true, .max_grad_norm = 0.8)},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void check_case(const samba_optimizer *o, samba_dtype dtype, int threads, double tolerance)
{
    trial t = begin(dtype, threads, 1, o);
    rule rules[TRAINED];
    for (int k = 0; k < TRAINED; k++)
        rules[k] = rule_new(t.session, trained[k], o);
    samba_tensor *before = get(t.session, "side");
    int clipped = 0;
    for (int number = 1; number <= STEPS; number++) {
        step(&t, number);
        clipped += follow(t.session, dtype, rules, TRAINED, number, o->max_grad_norm, tolerance) < 1;
    }
    assert_true(o->max_grad_norm > 0 ? clipped > 0 && clipped < STEPS : clipped == 0); /* else the case tests nothing */
    assert_true(get_scalar(t.session, "optim0.step") == (o->kind == SAMBA_SGD && o->momentum == 0 ? 0 : STEPS));
    samba_tensor *after = get(t.session, "side");
    assert_memory_equal(samba_tensor_data(before), samba_tensor_data(after), 9 * samba_dtype_size(dtype));
    samba_tensor_free(before);
    samba_tensor_free(after);
    for (int k = 0; k < TRAINED; k++)
        rule_free(&rules[k]);
    end(&t);
}

static void test_rule(void **state)
{
    const optimizer_case *c = *state;
    check_case(&c->optimizer, SAMBA_FLOAT64, 1, 1e-12);
    check_case(&c->optimizer, SAMBA_FLOAT32, 2, 1e-5);
    check_case(&c->optimizer, SAMBA_BFLOAT16, 2, 0x1p-6);
    check_case(&c->optimizer, SAMBA_FLOAT16, 1, 0x1p-9);
}

/* ---- several optimizers ---- */
static const char *const biases[] = {"*.bias"};
static const char *const weights[] = {"*.weight", "t?ble"};

/* Biases to SGD, weights to AdamW, scale and shift to none; both clipped by the norm over both. */
static void test_groups(void **unused)
{
    (void)unused;
    samba_optimizer o[2] = {samba_sgd(0.02), samba_adamw(0.01)};
    o[0].name = "small", o[0].parameters = biases, o[0].parameter_count = 1, o[0].momentum = 0.9, o[0].max_grad_norm = 0.8;
    o[1].name = "large", o[1].parameters = weights, o[1].parameter_count = 2;
    trial t = begin(SAMBA_FLOAT64, 2, 2, o);
    rule rules[TRAINED];
    int count = 0, clipped = 0;
    for (int k = 0; k < TRAINED; k++)
        if (strcmp(trained[k], "scale") != 0 && strcmp(trained[k], "shift") != 0)
            rules[count++] = rule_new(t.session, trained[k], &o[strstr(trained[k], ".bias") == NULL]);
    assert_int_equal(count, 7);
    samba_tensor *before[2] = {get(t.session, "scale"), get(t.session, "shift")};
    for (int number = 1; number <= STEPS; number++) {
        samba_hyperparameter given[2] = {{"small.lr", 0.05}, {"large.lr", 0.03}};
        if (number == 4) { /* one each, for good */
            t.run.hyperparameter_count = 2, t.run.hyperparameters = given;
            o[0].lr = 0.05, o[1].lr = 0.03;
        } else if (number == 7) { /* a plain name is everybody's; a later one has the last word */
            given[0] = (samba_hyperparameter){"lr", 0.008}, given[1] = (samba_hyperparameter){"small.lr", 0.04};
            t.run.hyperparameter_count = 2, t.run.hyperparameters = given;
            o[0].lr = 0.04, o[1].lr = 0.008;
        } else if (number == 9) {
            given[0] = (samba_hyperparameter){"weight_decay", 0.05}, given[1] = (samba_hyperparameter){"max_grad_norm", 2};
            t.run.hyperparameter_count = 2, t.run.hyperparameters = given;
            o[0].weight_decay = o[1].weight_decay = 0.05;
            o[0].max_grad_norm = 2;
        } else {
            t.run.hyperparameter_count = 0, t.run.hyperparameters = NULL;
        }
        step(&t, number);
        clipped += follow(t.session, SAMBA_FLOAT64, rules, count, number, o[0].max_grad_norm, 1e-12) < 1;
    }
    assert_true(clipped > 0);
    assert_true(get_hyper(t.session, "small.lr") == 0.04 && get_hyper(t.session, "large.lr") == 0.008);
    assert_true(get_hyper(t.session, "small.weight_decay") == 0.05 && get_hyper(t.session, "large.weight_decay") == 0.05);
    assert_true(get_scalar(t.session, "large.step") == STEPS);
    samba_tensor *after[2] = {get(t.session, "scale"), get(t.session, "shift")};
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(samba_tensor_data(before[i]), samba_tensor_data(after[i]), i ? 48 : 8);
        samba_tensor_free(before[i]);
        samba_tensor_free(after[i]);
    }
    for (int k = 0; k < count; k++)
        rule_free(&rules[k]);
    end(&t);
}

/* The rest to the second, whose name is made up; each optimizer counts its own steps. */
static void test_rest(void **unused)
{
    (void)unused;
    samba_optimizer o[2] = {samba_adamw(0.01), samba_adamw(0.002)};
    o[0].name = "head", o[0].parameters = biases, o[0].parameter_count = 1, o[0].weight_decay = 0;
    trial t = begin(SAMBA_FLOAT64, 1, 2, o);
    rule rules[TRAINED];
    for (int k = 0; k < TRAINED; k++)
        rules[k] = rule_new(t.session, trained[k], &o[strstr(trained[k], ".bias") == NULL]);
    for (int number = 1; number <= 3; number++) {
        step(&t, number);
        follow(t.session, SAMBA_FLOAT64, rules, TRAINED, number, 0, 1e-12);
    }
    assert_true(get_hyper(t.session, "head.lr") == 0.01 && get_hyper(t.session, "optim1.lr") == 0.002);
    assert_true(get_scalar(t.session, "head.step") == 3 && get_scalar(t.session, "optim1.step") == 3);
    for (int k = 0; k < TRAINED; k++)
        rule_free(&rules[k]);
    end(&t);
}

/* ---- hyperparameters of one optimizer while it trains ---- */
static void test_given_stays(void **unused)
{
    (void)unused;
    samba_optimizer o = samba_adamw(0.01);
    o.name = "all"; /* alone it needs no prefix */
    trial t = begin(SAMBA_FLOAT64, 2, 1, &o);
    rule rules[TRAINED];
    for (int k = 0; k < TRAINED; k++)
        rules[k] = rule_new(t.session, trained[k], &o);
    const samba_hyperparameter given[] = {{"lr", 0.03}, {"beta1", 0.7}, {"beta2", 0.9}, {"eps", 0.01}, {"weight_decay", 0.4}};
    for (int number = 1; number <= 10; number++) {
        t.run.hyperparameter_count = number >= 4 && number <= 8 ? 1 : 0;
        t.run.hyperparameters = number >= 4 && number <= 8 ? &given[number - 4] : NULL;
        o.lr = number >= 4 ? 0.03 : o.lr, o.beta1 = number >= 5 ? 0.7 : o.beta1, o.beta2 = number >= 6 ? 0.9 : o.beta2;
        o.eps = number >= 7 ? 0.01 : o.eps, o.weight_decay = number >= 8 ? 0.4 : o.weight_decay;
        step(&t, number);
        follow(t.session, SAMBA_FLOAT64, rules, TRAINED, number, 0, 1e-12);
    }
    size_t size, size_after;
    char *before = snapshot(t.session, COMPUTED, &size);
    const samba_hyperparameter wrong[] = {{"lr", 0.5}, {"momentum", 0.5}}; /* one that is not there: nothing is changed */
    t.run.hyperparameter_count = 2, t.run.hyperparameters = wrong;
    refuse(samba_run(t.session, &t.run), SAMBA_ERROR_NAME, "\"momentum\"");
    char *after = snapshot(t.session, COMPUTED, &size_after);
    assert_true(get_hyper(t.session, "lr") == 0.03);
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
    for (int k = 0; k < TRAINED; k++)
        rule_free(&rules[k]);
    end(&t);
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

static void check_changes(unsigned seed, samba_dtype dtype, double tolerance)
{
    enum { CHANGED = 30 };
    unsigned first = seed;
    samba_optimizer o = rand_r(&seed) % 4 ? samba_sgd(0.01) : samba_adamw(0.01);
    o.max_grad_norm = rand_r(&seed) % 2;
    draw(&seed, &o);
    o.nesterov = o.kind == SAMBA_SGD && rand_r(&seed) % 4 == 0;
    if (o.nesterov)
        o.momentum = 0.5, o.dampening = 0;
    o.maximize = o.kind == SAMBA_SGD && rand_r(&seed) % 4 == 0;
    o.amsgrad = o.kind == SAMBA_ADAMW && rand_r(&seed) % 2;
    print_message("changes of seed %u: %s, %s%s%s\n", first, o.kind == SAMBA_SGD ? "SGD" : "AdamW", samba_dtype_name(dtype),
                  o.nesterov ? ", Nesterov" : "", o.max_grad_norm > 0 ? ", clipped" : "");
    trial t = begin(dtype, 1 + (int)(first % 2), 1, &o);
    rule rules[TRAINED];
    for (int k = 0; k < TRAINED; k++)
        rules[k] = rule_new(t.session, trained[k], &o);
    for (int number = 1; number <= CHANGED; number++) {
        samba_hyperparameter given[6];
        int count = 0;
        if (number % 3 == 0 || rand_r(&seed) % 3 == 0) {
            draw(&seed, &o);
            given[count++] = (samba_hyperparameter){"lr", o.lr};
            given[count++] = (samba_hyperparameter){"weight_decay", o.weight_decay};
            given[count++] =
                o.kind == SAMBA_SGD ? (samba_hyperparameter){"momentum", o.momentum} : (samba_hyperparameter){"beta1", o.beta1};
            given[count++] =
                o.kind == SAMBA_SGD ? (samba_hyperparameter){"dampening", o.dampening} : (samba_hyperparameter){"beta2", o.beta2};
            if (o.kind == SAMBA_ADAMW)
                given[count++] = (samba_hyperparameter){"eps", o.eps};
            if (o.max_grad_norm > 0)
                given[count++] = (samba_hyperparameter){"max_grad_norm", o.max_grad_norm};
        }
        t.run.hyperparameter_count = count, t.run.hyperparameters = given;
        step(&t, number);
        follow(t.session, dtype, rules, TRAINED, number, o.max_grad_norm, tolerance);
    }
    for (int k = 0; k < TRAINED; k++)
        rule_free(&rules[k]);
    end(&t);
}

static void test_changes(void **unused)
{
    (void)unused;
    for (unsigned seed = 1; seed <= 16; seed++)
        check_changes(seed, seed % 2 ? SAMBA_FLOAT64 : SAMBA_FLOAT32, seed % 2 ? 1e-11 : 2e-5);
}

/* Plain SGD costs no more than it did: a step whose momentum is 0 does not even read the buffer, whatever is in it. */
static void test_left_alone(void **unused)
{
    (void)unused;
    samba_optimizer o = samba_sgd(0.01);
    trial t = begin(SAMBA_FLOAT32, 2, 1, &o);
    samba_tensor *buffer = get(t.session, "table.momentum_buffer"), *table = get(t.session, "table");
    float *values = samba_tensor_data(buffer);
    for (int64_t i = 0; i < samba_tensor_numel(buffer); i++)
        values[i] = NAN;
    need(samba_session_set(t.session, buffer));
    step(&t, 1);
    samba_tensor *after = get(t.session, "table.momentum_buffer"), *moved = get(t.session, "table");
    assert_memory_equal(values, samba_tensor_data(after), (size_t)samba_tensor_numel(buffer) * sizeof(float));
    const float *p = samba_tensor_data(moved), *old = samba_tensor_data(table);
    int changed = 0;
    for (int64_t i = 0; i < samba_tensor_numel(moved); i++) {
        assert_true(isfinite(p[i]));
        changed += p[i] != old[i];
    }
    assert_true(changed > 0);
    assert_true(get_scalar(t.session, "optim0.step") == 0);
    samba_tensor *all[] = {buffer, table, after, moved};
    for (int i = 0; i < 4; i++)
        samba_tensor_free(all[i]);
    end(&t);
}

/* What is structure and no number, and "p" where nothing is dropped. */
static void test_no_numbers(void **unused)
{
    (void)unused;
    samba_optimizer o = samba_sgd(0.01);
    trial t = begin(SAMBA_FLOAT32, 1, 1, &o);
    static const char *const words[] = {"nesterov", "amsgrad", "optim0.maximize", "max_grad_norm", "betas"};
    for (int i = 0; i < 5; i++) {
        const samba_hyperparameter given = {words[i], 1};
        char said[64];
        snprintf(said, sizeof said, "\"%s\" cannot be set by a run", words[i]);
        refuse(samba_session_set_hyperparameters(t.session, 1, &given), SAMBA_ERROR_NAME, said);
    }
    const samba_hyperparameter wrong = {"p", 1.5}, rate = {"p", 0.5}, typo = {"momentun", 0.5};
    refuse(samba_session_set_hyperparameters(t.session, 1, &wrong), SAMBA_ERROR_ARGUMENT, "\"p\" = 1.5");
    refuse(samba_session_set_hyperparameters(t.session, 1, &typo), SAMBA_ERROR_NAME, "did you mean \"momentum\"?");
    assert_string_equal(samba_session_warning(t.session), "");
    for (int i = 0; i < 3; i++)
        need(samba_session_set_hyperparameters(t.session, 1, &rate));
    assert_string_equal(samba_session_warning(t.session), "hyperparameter \"p\" has no effect: there is no dropout");
    need(samba_session_set_hyperparameters(t.session, 1, &rate));
    assert_string_equal(samba_session_warning(t.session), "");
    end(&t);
}

/* ---- what is refused ---- */
static samba_status try_compile(int count, const samba_optimizer *optimizers, bool inference)
{
    samba_dtype dtype = SAMBA_FLOAT32;
    samba_tensor *inputs[] = {tensor("x", dtype, 2, SHAPE(6, 7)), tensor("y", dtype, 2, SHAPE(6, 5))};
    samba_compile_options options = compile_of("refused", odd_sizes, &dtype, 2, inputs);
    options.optimizer_count = count;
    options.optimizers = optimizers;
    options.inference = inference;
    samba_status status = samba_compile(context, &options, NULL, 0);
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
    return status;
}

static void test_refused(void **unused)
{
    (void)unused;
    static const char *const nothing[] = {"fc3.*"}, *const twice[] = {"fc1.bias", "table"}, *const no_pattern[] = {NULL},
                             *const misspelt[] = {"fc2.weight", "fc1.weigth", "table"}, *const no_match[] = {"*.weight", "gru*"},
                             *const unreached[] = {"fc1.weight", "side"};
#define REFUSE(count, status, part) refuse(try_compile(count, o, false), SAMBA_ERROR_##status, part)
#define START() o[0] = samba_sgd(0.1), o[1] = samba_sgd(0.1), o[0].parameters = biases, o[0].parameter_count = 1
    samba_optimizer o[2];
    START();
    need(try_compile(2, o, false));
    START(), o[0].nesterov = true;
    REFUSE(2, ARGUMENT, "optimizer 0: nesterov needs momentum > 0 and dampening 0, given momentum 0 and dampening 0");
    START(), o[1].nesterov = true, o[1].momentum = 0.9, o[1].dampening = 0.5;
    REFUSE(2, ARGUMENT, "optimizer 1: nesterov needs momentum > 0 and dampening 0, given momentum 0.9 and dampening 0.5");
    START(), o[0].max_grad_norm = 1, o[1].max_grad_norm = 2;
    REFUSE(2, ARGUMENT, "optimizer 1 has max_grad_norm 2");
    START(), o[0].max_grad_norm = -1;
    REFUSE(1, ARGUMENT, "optimizer 0 has max_grad_norm -1");
    START(), o[0].max_grad_norm = NAN;
    REFUSE(1, ARGUMENT, "optimizer 0 has max_grad_norm nan");
    START(), o[0].name = o[1].name = "same";
    REFUSE(2, NAME, "optimizers 0 and 1 are both named 'same'");
    START(), o[0].name = "optim1"; /* what the second is called */
    REFUSE(2, NAME, "optimizers 0 and 1 are both named 'optim1'");
    START(), o[1].parameters = nothing, o[1].parameter_count = 1;
    REFUSE(2, NAME, "optimizer 'optim1': no parameter matches 'fc3.*'");
    START(), o[1].parameters = biases, o[1].parameter_count = 1; /* all are the first one's */
    REFUSE(2, NAME, "optimizer 'optim1': '*.bias' gets nothing, an earlier optimizer has 'fc2.bias' already");
    START(), o[1].parameters = twice, o[1].parameter_count = 2; /* one is, one is not: each by itself */
    REFUSE(2, NAME, "optimizer 'optim1': 'fc1.bias' gets nothing");
    START(), o[1].parameters = misspelt, o[1].parameter_count = 3;
    REFUSE(2, NAME, "optimizer 'optim1': no parameter matches 'fc1.weigth' (did you mean 'fc1.weight'?)");
    START(), o[1].parameters = no_match, o[1].parameter_count = 2;
    REFUSE(2, NAME, "optimizer 'optim1': no parameter matches 'gru*'; the model's begin with");
    START(), o[1].parameters = unreached, o[1].parameter_count = 2; /* "side" is a parameter, which no loss reaches */
    need(try_compile(2, o, false));
    START(), o[0].parameters = NULL;
    REFUSE(1, ARGUMENT, "optimizer 0");
    START(), o[0].parameters = no_pattern;
    REFUSE(1, ARGUMENT, "optimizer 0");
    START(), o[1].kind = (samba_optimizer_kind)77;
    REFUSE(2, ARGUMENT, "optimizer 1 has kind 77: expected SAMBA_SGD (0), SAMBA_ADAMW (1)");
    START(), o[1].struct_size = 0;
    REFUSE(2, ARGUMENT, "optimizer 1 must start from samba_sgd() or samba_adamw()");
    refuse(try_compile(1, NULL, false), SAMBA_ERROR_ARGUMENT, "optimizers");
    refuse(try_compile(-1, o, false), SAMBA_ERROR_ARGUMENT, "optimizers");
    START();
    refuse(try_compile(1, o, true), SAMBA_ERROR_ARGUMENT, "inference");
    /* the numbers that torch.optim refuses */
    START(), o[0].lr = -1;
    REFUSE(1, ARGUMENT, "optimizer 0 has lr -1");
    START(), o[0].lr = NAN;
    REFUSE(1, ARGUMENT, "optimizer 0 has lr nan");
    START(), o[0].weight_decay = -0.1;
    REFUSE(1, ARGUMENT, "optimizer 0 has weight_decay -0.1");
    START(), o[0].momentum = -0.1;
    REFUSE(1, ARGUMENT, "optimizer 0 has momentum -0.1");
    o[0] = samba_adamw(0.1), o[0].beta1 = 1;
    REFUSE(1, ARGUMENT, "optimizer 0 has beta1 1");
    o[0] = samba_adamw(0.1), o[0].beta2 = -0.5;
    REFUSE(1, ARGUMENT, "optimizer 0 has beta2 -0.5");
    o[0] = samba_adamw(0.1), o[0].eps = -1;
    REFUSE(1, ARGUMENT, "optimizer 0 has eps -1");
}

int main(void)
{
    if (!training_begin())
        return 1;
    enum { OTHERS = 7 };
    struct CMUnitTest tests[CASES + OTHERS] = {
        cmocka_unit_test(test_groups),  cmocka_unit_test(test_rest),       cmocka_unit_test(test_given_stays),
        cmocka_unit_test(test_changes), cmocka_unit_test(test_left_alone), cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_refused),
    };
    for (int i = 0; i < CASES; i++)
        tests[OTHERS + i] = (struct CMUnitTest){cases[i].name, test_rule, NULL, NULL, (void *)(uintptr_t)&cases[i]};
    return training_end(_cmocka_run_group_tests("optimizers", tests, CASES + OTHERS, NULL, NULL));
}
