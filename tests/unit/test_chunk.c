/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits in chunks of rows: with the limit lowered, small models give the losses and gradients of the reference, whole and
 * section by section with the same bits, and no stage has a domain of all logits. What cannot be cut stays as it was. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "device/cpu/kernel.h"
#include "runtime/runtime.h"
#include "training.h"

#include "reference.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

enum { INNER = 6 };
typedef struct head {
    const char *name;
    int64_t batch, length, classes; /* length 0: rows are the batch */
    bool bias, tied, logits_out, accuracy, float64;
    double label_smoothing;
    samba_reduction reduction;
    int64_t ignore; /* label that does not count */
    double dropout; /* > 0: before the logits */
    int kind;       /* what else is done with the logits */
    bool cut;       /* expected */
} head;

static samba_value logits_of(samba_graph *g, const head *h)
{
    samba_dtype dtype = h->float64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    samba_value x = samba_input(g, "x");
    if (h->tied) /* x is tokens */
        x = samba_embedding(x, "wte", h->classes, INNER);
    else
        x = samba_mul(samba_tanh(x),
                      samba_parameter(g, "scale", dtype, 1, SHAPE(INNER), (samba_initializer){SAMBA_INIT_NORMAL, 1, 0.2}));
    if (h->dropout > 0)
        x = samba_dropout(x, "drop", h->dropout);
    if (h->tied)
        return samba_matmul(samba_tanh(x), samba_transpose(samba_parameter(g, "wte.weight", dtype, 2, SHAPE(h->classes, INNER),
                                                                           (samba_initializer){SAMBA_INIT_NORMAL, 0, 1}),
                                                           0, 1));
    samba_value w =
        samba_parameter(g, "head", dtype, 2, SHAPE(h->classes, INNER), (samba_initializer){SAMBA_INIT_NORMAL, 0, 0.7});
    samba_value y = samba_matmul(x, samba_transpose(w, 0, 1));
    return h->bias ? samba_add(y, samba_parameter(g, "bias", dtype, 1, SHAPE(h->classes),
                                                  (samba_initializer){SAMBA_INIT_NORMAL, 0, 0.5}))
                   : y;
}

static void model(samba_graph *g, const void *options)
{
    const head *h = options;
    samba_value logits = logits_of(g, h), label = samba_input(g, "label");
    if (h->length && h->kind != 4) {
        logits = samba_reshape(logits, 2, SHAPE(h->batch * h->length, h->classes));
        label = samba_flatten(label, 0, -1);
    }
    if (h->kind == 1) /* scaled and capped */
        logits = samba_mul_scalar(samba_tanh(samba_mul_scalar(logits, 0.3)), 4);
    if (h->kind == 7) /* a leaf as wide as the logits */
        logits = samba_add(logits, samba_parameter(g, "offsets", samba_value_dtype(logits), 2, SHAPE(h->batch, h->classes),
                                                   (samba_initializer){SAMBA_INIT_NORMAL, 0, 1}));
    if (h->kind == 4) /* (N, C, d) */
        logits = samba_permute(logits, (const int[]){0, 2, 1});
    samba_cross_entropy_options o = {h->ignore, h->label_smoothing, h->reduction, {NULL, 0, 0}};
    samba_value loss = samba_cross_entropy_with(logits, label, &o);
    if (h->reduction == SAMBA_NO_REDUCTION)
        loss = samba_sum(samba_mul(loss, loss), 0, NULL, false);
    if (h->kind == 2) { /* the size of the sums counts too */
        samba_value z = samba_log(samba_sum(samba_exp(logits), 1, (const int[]){1}, true));
        loss = samba_add(loss, samba_mul_scalar(samba_mean(samba_mul(z, z), 0, NULL, false), 0.01));
    }
    if (h->kind == 3) /* the gradient waits for the loss */
        loss = samba_mul(loss, loss);
    if (h->kind == 5) { /* rows as the columns of a product */
        samba_value w =
            samba_parameter(g, "across", SAMBA_FLOAT32, 2, SHAPE(3, h->classes), (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
        samba_value across = samba_matmul(w, samba_transpose(samba_softmax(logits, -1), 0, 1));
        samba_output(g, "across_rows", across);
        loss = samba_add(loss, samba_sum(samba_mul(across, across), 0, NULL, false));
    }
    if (h->kind == 6) { /* over the rows, class by class */
        samba_output(g, "sums", samba_sum(samba_tanh(logits), 1, (const int[]){0}, false));
        samba_output(g, "peaks", samba_amax(logits, 1, (const int[]){0}, true));
        samba_output(g, "depths", samba_amin(logits, 2, (const int[]){0, 1}, false));
    }
    if (h->logits_out)
        samba_output(g, "logits", logits);
    if (h->accuracy)
        samba_output(g, "right",
                     samba_sum(samba_cast(samba_eq(samba_argmax(logits, -1, false), label), SAMBA_INT64), 0, NULL, false));
    samba_loss(g, "loss", loss);
}

static const head heads[] = {
    {"plain", 200, 0, 555, .cut = true, .ignore = -100},
    {"bias", 193, 0, 1001, .bias = true, .cut = true, .ignore = -100},
    {"tokens", 3, 100, 640, .bias = true, .cut = true, .ignore = -100},
    {"one_sequence", 1, 150, 640, .cut = true, .ignore = -100},
    {"tied", 4, 70, 333, .tied = true, .cut = true, .ignore = -100},
    {"smooth_sum", 130, 0, 700, .label_smoothing = 0.2, .reduction = SAMBA_SUM, .cut = true, .ignore = 5},
    {"ignored_mean", 300, 0, 64, .bias = true, .label_smoothing = 0.1, .cut = true, .ignore = 3},
    {"rows_out", 180, 0, 257, .reduction = SAMBA_NO_REDUCTION, .bias = true, .cut = true, .ignore = 7},
    {"large", 130, 0, 5000, .bias = true, .cut = true, .ignore = -100},
    {"doubles", 131, 0, 300, .float64 = true, .bias = true, .cut = true, .ignore = -100},
    {"capped", 200, 0, 300, .kind = 1, .bias = true, .cut = true, .ignore = -100},
    {"sums_count", 200, 0, 300, .kind = 2, .bias = true, .cut = true, .ignore = -100},
    {"accuracy", 2, 90, 300, .accuracy = true, .bias = true, .cut = true, .ignore = -100},
    {"classes_second", 2, 90, 300, .kind = 4, .bias = true, .cut = true, .ignore = -100},
    {"over_rows", 200, 0, 300, .kind = 6, .bias = true, .cut = true, .ignore = -100},
    {"columns", 200, 0, 300, .kind = 5, .bias = true, .cut = false, .ignore = -100},
    {"wide_leaf", 200, 0, 300, .kind = 7, .cut = false, .ignore = -100},
    {"loss_squared", 200, 0, 300, .kind = 3, .cut = false, .ignore = -100},
    {"logits_out", 200, 0, 300, .logits_out = true, .cut = false, .ignore = -100},
    {"few_rows", 64, 0, 3000, .cut = false, .ignore = -100},
    {"narrow", 300, 0, 40, .cut = false, .ignore = -100},
};

static void make_inputs(const head *h, samba_tensor **inputs)
{
    int64_t shape[3] = {h->batch, h->length ? h->length : INNER, INNER}, rows[2] = {h->batch, h->length};
    if (h->tied) {
        inputs[0] = tensor("x", SAMBA_INT64, 2, rows);
        need(samba_fill_integers(inputs[0], 5, 0, h->classes));
    } else {
        inputs[0] = normal("x", h->float64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32, h->length ? 3 : 2, shape, 6);
    }
    inputs[1] = tensor("label", SAMBA_INT64, h->length ? 2 : 1, rows);
    need(samba_fill_integers(inputs[1], 7, 0, h->classes));
    if (h->ignore >= 0)
        for (int64_t i = 0; i < samba_tensor_numel(inputs[1]); i += 3)
            ((int64_t *)samba_tensor_data(inputs[1]))[i] = h->ignore;
}

static void run_with(samba_session *session, samba_tensor **inputs, int count, const char *const *types)
{
    samba_run_options r = samba_run_defaults();
    r.inputs = inputs;
    r.input_count = 2;
    r.section_types = types;
    r.section_type_count = count;
    need(samba_run(session, &r));
}

static char *log_text;
static void take(void *user, const char *pass, const char *text)
{
    (void)user, (void)pass;
    free(log_text);
    log_text = strdup(text);
    char *tensors = strstr(log_text, "\ntensors"); /* a leaf may be as wide */
    if (tensors)
        *tensors = 0;
}

static void compile_head(const head *h, samba_tensor **inputs, bool inference, int64_t chunk_bytes, char *path, size_t size)
{
    samba_compile_options options = compile_of(h->name, model, h, 2, inputs);
    options.chunk_bytes = chunk_bytes;
    options.inference = inference;
    options.dump_after = "section";
    options.dump = take;
    need(samba_compile(context, &options, path, size));
}

/* No stage has the logits of all rows. */
static bool is_cut(const head *h)
{
    char product[64], two[64], three[64];
    snprintf(product, sizeof product, " %lldx%lldx%d ", (long long)(h->batch * (h->length ? h->length : 1)),
             (long long)h->classes, INNER);
    snprintf(two, sizeof two, "(%lld, %lld)", (long long)(h->batch * (h->length ? h->length : 1)), (long long)h->classes);
    snprintf(three, sizeof three, "(%lld, %lld, %lld)", (long long)h->batch, (long long)h->length, (long long)h->classes);
    return !strstr(log_text, product) && !strstr(log_text, two) && !strstr(log_text, three);
}

static void check_isa(const head *h, samba_tensor **inputs, const char *path, int threads, const char *isa, bool inference)
{
    samba_session_options so = samba_session_defaults();
    so.threads = threads;
    so.isa = isa;
    so.seed = 3;
    samba_session *whole, *pieces;
    need(samba_session_new(context, path, &so, &whole));
    run_with(whole, inputs, 0, NULL);
    compare_with_reference(&(reference_case){h->name, model, h, 2, inputs, inference, 0, NULL, 0, SAMBA_FP32}, whole);
    if (!inference) {
        need(samba_session_new(context, path, &so, &pieces));
        run_with(pieces, inputs, 1, (const char *[]){"FWD"});
        double forward = get_scalar(pieces, "loss");
        assert_true(forward == get_scalar(whole, "loss"));
        run_with(pieces, inputs, 1, (const char *[]){"BCKWD"});
        assert_same_bits(whole, pieces, COMPUTED);
        samba_session_free(pieces);
    }
    samba_session_free(whole);
}

static void check_head(void **state)
{
    const head *h = *state;
    samba_tensor *inputs[2];
    char path[512];
    make_inputs(h, inputs);
    for (int inference = 0; inference < 2; inference++) {
        compile_head(h, inputs, inference, 64 * h->classes * (h->float64 ? 8 : 4), path, sizeof path);
        /* no gradient that is as wide, or waits */
        bool cut = h->cut || (inference && (h->kind == 3 || h->kind == 5 || h->kind == 7));
        if (is_cut(h) != cut)
            fail_msg("%s: %s\n%s", h->name, cut ? "a stage has all logits" : "cut, where it should not be", log_text);
        for (int isa = 0; isa <= (int)samba_isa_best(); isa++)
            check_isa(h, inputs, path, 1 + isa % 2, samba_isa_names[isa], inference);
        check_isa(h, inputs, path, 2, NULL, inference);
    }
    samba_tensor_free(inputs[0]);
    samba_tensor_free(inputs[1]);
}

/* ---- sections ---- */
#define TYPES(...)                                                                                                               \
    (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]) { __VA_ARGS__ }
#define IDS(...)                                                                                                                 \
    (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]) { __VA_ARGS__ }

static void expect_selection(samba_session *session, int types, const char *const *type, int ids, const int *id, int count,
                             const int *expected)
{
    samba_run_options o = samba_run_defaults();
    o.section_type_count = types, o.section_types = type;
    o.section_id_count = ids, o.section_ids = id;
    samba_selection selection;
    need(samba_select_sections(session, &o, &selection));
    assert_int_equal(selection.count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(selection.sections[i], expected[i]);
}

static samba_status run_ids(samba_session *session, samba_tensor **inputs, int count, const int *ids)
{
    samba_run_options r = samba_run_defaults();
    r.inputs = inputs;
    r.input_count = 2;
    r.section_ids = ids;
    r.section_id_count = count;
    return samba_run(session, &r);
}

static const head sectioned = {"sectioned", 2, 100, 640, .bias = true, .accuracy = true, .dropout = 0.3, .ignore = -100};

static samba_session *sectioned_new(samba_tensor **inputs, int64_t chunk_bytes, int accumulation, int threads)
{
    static samba_optimizer o;
    o = samba_adamw(0.01);
    o.max_grad_norm = 0.5;
    samba_compile_options options = compile_of("sectioned", model, &sectioned, 2, inputs);
    options.chunk_bytes = chunk_bytes;
    options.optimizers = &o;
    options.optimizer_count = 1;
    options.grad_accumulation_steps = accumulation;
    return compile_and_open(&options, threads, 5);
}

/* FWD 0, the part of it that BCKWD computes again 1, BCKWD 2, GRADNORM 3, OPT 4 */
static void check_sections(void **state)
{
    (void)state;
    samba_tensor *inputs[2];
    make_inputs(&sectioned, inputs);
    samba_session *s = sectioned_new(inputs, 64 * 640 * 4, 1, 2);
    int64_t flops = 0, bytes = 0, run_flops, run_bytes;
    samba_section_info info;
    for (int i = 0; i < samba_session_section_count(s); i++) {
        need(samba_session_section_info(s, i, &info));
        assert_int_equal(info.redone_by != NULL, i == 1);
        if (info.redone_by) {
            assert_string_equal(info.type, "FWD");
            assert_string_equal(info.redone_by, "BCKWD");
            continue;
        }
        flops += info.flops, bytes += info.bytes;
    }
    samba_plan_work(&s->plan, 0, &run_flops, &run_bytes);
    assert_true(run_flops == flops && run_bytes == bytes && samba_session_section_count(s) == 5);

    expect_selection(s, 0, NULL, 0, NULL, IDS(0, 2, 3, 4));
    expect_selection(s, TYPES("FWD", "BCKWD"), 0, NULL, IDS(0, 2));
    expect_selection(s, TYPES("FWD", "BCKWD", "GRADNORM", "OPT", "FWD"), 0, NULL, IDS(0, 2, 3, 4, 0, 1)); /* in the order given */
    expect_selection(s, TYPES("FWD"), 0, NULL, IDS(0, 1));
    expect_selection(s, TYPES("fwd", "Fwd", "bckwd", "fwd", "bckwd", "gradnorm", "opt", "opt"), 0, NULL,
                     IDS(0, 0, 2, 0, 2, 3, 4, 4));
    expect_selection(s, 0, NULL, IDS(0, 1, 2), IDS(0, 1, 2)); /* ids run what they say */
    refuse(run_ids(s, inputs, IDS(1)), SAMBA_ERROR_STATE,
           "goes on from the FWD sections before it, and there was no run of them yet");
    refuse(run_ids(s, inputs, IDS(0, 1, 1)), SAMBA_ERROR_STATE, "what the last run of them left is used up");
    refuse(run_ids(s, inputs, IDS(0, 2, 1)), SAMBA_ERROR_STATE, "what the last run of them left is used up");

    need(run_ids(s, inputs, IDS(0))); /* BCKWD alone delivers what FWD left out */
    assert_true(get_scalar(s, "loss") == 0);
    need(run_ids(s, inputs, IDS(2)));
    double loss = get_scalar(s, "loss"), right = get_scalar(s, "right");
    assert_true(loss > 1 && right >= 0);
    refuse(run_ids(s, inputs, IDS(1)), SAMBA_ERROR_STATE, "used up");
    refuse(run_ids(s, inputs, IDS(2)), SAMBA_ERROR_STATE, "used up");
    samba_session_free(s);
    for (int i = 0; i < 2; i++)
        samba_tensor_free(inputs[i]);
}

/* Training whole, by types and by ids: the same bits, dropout and micro-batches too. */
static void check_training(int accumulation)
{
    samba_tensor *inputs[2];
    make_inputs(&sectioned, inputs);
    samba_session *s[4];
    for (int i = 0; i < 4; i++)
        s[i] = sectioned_new(inputs, i == 3 ? INT64_MAX : 64 * 640 * 4, accumulation, 2);
    int first = accumulation > 1; /* ZEROGRAD is section 0 then */
    for (int step = 0; step < 3 * accumulation; step++) {
        bool opens = step % accumulation == 0, closes = step % accumulation == accumulation - 1;
        run_with(s[0], inputs, 0, NULL);
        run_with(s[3], inputs, 0, NULL);
        if (first && opens) {
            run_with(s[1], inputs, TYPES("ZEROGRAD"));
            need(run_ids(s[2], inputs, IDS(0)));
        }
        run_with(s[1], inputs, TYPES("FWD"));
        assert_true(get_scalar(s[1], "loss") == get_scalar(s[0], "loss"));
        run_with(s[1], inputs, TYPES("BCKWD"));
        need(run_ids(s[2], inputs, IDS(first, first + 1)));
        need(run_ids(s[2], inputs, IDS(first + 2)));
        if (closes) {
            run_with(s[1], inputs, TYPES("GRADNORM", "OPT"));
            need(run_ids(s[2], inputs, IDS(first + 3, first + 4)));
        }
        assert_same_bits(s[0], s[1], COMPUTED);
        assert_same_bits(s[0], s[2], COMPUTED);
        double cut = get_scalar(s[0], "loss"), whole = get_scalar(s[3], "loss");
        assert_true(fabs(cut - whole) <= 1e-4 * fabs(whole));
    }
    for (int i = 0; i < 4; i++)
        samba_session_free(s[i]);
    for (int i = 0; i < 2; i++)
        samba_tensor_free(inputs[i]);
}
static void train(void **state)
{
    (void)state;
    check_training(1);
}
static void accumulate(void **state)
{
    (void)state;
    check_training(3);
}

/* Logits of buffers that FWD overwrites, one in its place and one with what the other was:
 * of what they held before, in chunks too. */
static void remembering(samba_graph *g, const void *options)
{
    const head *h = options;
    samba_initializer normal = {SAMBA_INIT_NORMAL, 0, 1};
    samba_value state = samba_register_buffer(g, "state", SAMBA_FLOAT32, 2, SHAPE(h->batch, INNER), normal),
                last = samba_register_buffer(g, "last", SAMBA_FLOAT32, 2, SHAPE(h->batch, INNER), normal);
    samba_value scale = samba_mean(samba_parameter(g, "scale", SAMBA_FLOAT32, 1, SHAPE(INNER), normal), 0, NULL, false);
    samba_value w = samba_parameter(g, "head", SAMBA_FLOAT32, 2, SHAPE(INNER, h->classes), normal);
    samba_value offset =
        samba_reshape(samba_slice(samba_reshape(last, 1, SHAPE(-1)), 0, 7, 7 + h->batch, 1), 2, SHAPE(h->batch, 1));
    samba_loss(
        g, "loss",
        samba_cross_entropy(samba_add(samba_matmul(samba_add(last, samba_input(g, "x")), w), offset), samba_input(g, "label")));
    samba_loss(g, "size", samba_mean(samba_mul(state, scale), 0, NULL, false));
    samba_assign(state, samba_mul(state, samba_add_scalar(scale, 2)));
    samba_assign(last, state);
}

static void keep_buffers(void **unused)
{
    (void)unused;
    static const head h = {"remembering", 200, 0, 555, .ignore = -100};
    static const char *const both[] = {"FWD", "BCKWD"};
    static const char *const changed[] = {"loss", "size", "state", "last", "scale.grad", "head.grad"};
    samba_tensor *inputs[2];
    samba_session *s[2];
    make_inputs(&h, inputs);
    for (int i = 0; i < 2; i++) {
        samba_compile_options options = compile_of("remembering", remembering, &h, 2, inputs);
        options.chunk_bytes = i ? INT64_MAX : 64 * h.classes * 4;
        s[i] = compile_and_open(&options, 2, 5);
    }
    assert_int_equal(samba_session_section_count(s[0]), 3);
    for (int run = 0; run < 6; run++) {
        for (int i = 0; i < 2; i++) { /* at once, and by types: FWD is whole then */
            run_with(s[i], inputs, run % 2, both);
            if (run % 2)
                run_with(s[i], inputs, 1, both + 1);
        }
        for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
            samba_tensor *cut = get(s[0], changed[i]), *whole = get(s[1], changed[i]);
            const float *a = samba_tensor_data(cut), *b = samba_tensor_data(whole);
            for (int64_t k = 0; k < samba_tensor_numel(cut); k++)
                if (!(fabsf(a[k] - b[k]) <= 1e-4f * fmaxf(1, fabsf(b[k]))))
                    fail_msg("run %d: %s[%lld] is %g in chunks and %g at once", run, changed[i], (long long)k, a[k], b[k]);
            samba_tensor_free(cut);
            samba_tensor_free(whole);
        }
    }
    for (int i = 0; i < 2; i++) {
        samba_session_free(s[i]);
        samba_tensor_free(inputs[i]);
    }
}

static void refuse_negative(void **state)
{
    (void)state;
    samba_tensor *inputs[2];
    make_inputs(&heads[0], inputs);
    samba_compile_options options = compile_of("negative", model, &heads[0], 2, inputs);
    options.chunk_bytes = -1;
    refuse(samba_compile(context, &options, NULL, 0), SAMBA_ERROR_ARGUMENT, "chunk_bytes is -1");
    for (int i = 0; i < 2; i++)
        samba_tensor_free(inputs[i]);
}

int main(void)
{
    if (!training_begin())
        return 1;
    enum { COUNT = sizeof heads / sizeof heads[0] };
    struct CMUnitTest tests[COUNT + 5] = {[COUNT] = cmocka_unit_test(check_sections),
                                          cmocka_unit_test(train),
                                          cmocka_unit_test(accumulate),
                                          cmocka_unit_test(keep_buffers),
                                          cmocka_unit_test(refuse_negative)};
    for (int i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){heads[i].name, check_head, NULL, NULL, (void *)(uintptr_t)&heads[i]};
    int failed = _cmocka_run_group_tests("chunks of rows", tests, COUNT + 5, NULL, NULL);
    free(log_text);
    return training_end(failed);
}
