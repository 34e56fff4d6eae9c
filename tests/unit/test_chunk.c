/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits in chunks of rows: with the limit lowered, small models give the losses and gradients of the reference, whole and
 * section by section with the same bits, and no stage has a domain of all logits. What cannot be cut stays as it was.
 * test_random_schedules.c trains such a model in all kinds of parts. */
#include "training.h"
#include "reference.h"
#include "device/cpu/kernel.h"
#include "runtime/runtime.h"

enum { INNER = 6 };
typedef struct head {
    const char *name;
    int64_t batch, length, classes; /* length 0: rows are the batch */
    bool bias, tied, logits_out, accuracy, float64;
    double label_smoothing;
    samba_reduction reduction;
    int64_t ignore; /* label that does not count; 0: none */
    double dropout; /* > 0: before the logits */
    int kind;       /* what else is done with the logits */
    bool uncut;     /* expected */
} head;

static samba_value parameter(samba_graph *g, const char *name, samba_dtype dtype, int rank, const int64_t *shape, double mean,
                             double deviation)
{
    return samba_parameter(g, name, dtype, rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, mean, deviation});
}

static samba_value logits_of(samba_graph *g, const head *h)
{
    samba_dtype dtype = h->float64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    samba_value x = samba_input(g, "x"), w;
    if (h->tied) /* x is tokens */
        x = samba_embedding(x, "wte", h->classes, INNER);
    else
        x = samba_mul(samba_tanh(x), parameter(g, "scale", dtype, 1, SHAPE(INNER), 1, 0.2));
    if (h->dropout > 0)
        x = samba_dropout(x, "drop", h->dropout);
    w = parameter(g, h->tied ? "wte.weight" : "head", dtype, 2, SHAPE(h->classes, INNER), 0, h->tied ? 1 : 0.7);
    samba_value y = samba_matmul(h->tied ? samba_tanh(x) : x, samba_transpose(w, 0, 1));
    return h->bias ? samba_add(y, parameter(g, "bias", dtype, 1, SHAPE(h->classes), 0, 0.5)) : y;
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
        logits = samba_add(logits, parameter(g, "offsets", SAMBA_FLOAT32, 2, SHAPE(h->batch, h->classes), 0, 1));
    if (h->kind == 4) /* (N, C, d) */
        logits = samba_permute(logits, (const int[]){0, 2, 1});
    samba_cross_entropy_options o = {h->ignore ? h->ignore : -100, h->label_smoothing, h->reduction, {NULL, 0, 0}};
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
        samba_value w = parameter(g, "across", SAMBA_FLOAT32, 2, SHAPE(3, h->classes), 0, 1);
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
    {"plain", 200, .classes = 555},
    {"bias", 193, 0, 1001, .bias = true},
    {"tokens", 3, 100, 640, .bias = true},
    {"one_sequence", 1, 150, .classes = 640},
    {"tied", 4, 70, 333, .tied = true},
    {"smooth_sum", 130, 0, 700, .label_smoothing = 0.2, .reduction = SAMBA_SUM, .ignore = 5},
    {"ignored_mean", 300, 0, 64, .bias = true, .label_smoothing = 0.1, .ignore = 3},
    {"rows_out", 180, 0, 257, .reduction = SAMBA_NO_REDUCTION, .bias = true, .ignore = 7},
    {"doubles", 131, 0, 300, .float64 = true, .bias = true},
    {"capped", 200, 0, 300, .kind = 1, .bias = true},
    {"sums_count", 200, 0, 300, .kind = 2, .bias = true},
    {"accuracy", 2, 90, 300, .accuracy = true, .bias = true},
    {"classes_second", 2, 90, 300, .kind = 4, .bias = true},
    {"over_rows", 200, 0, 300, .kind = 6, .bias = true},
    {"columns", 200, 0, 300, .kind = 5, .bias = true, .uncut = true},
    {"wide_leaf", 200, 0, 300, .kind = 7, .uncut = true},
    {"loss_squared", 200, 0, 300, .kind = 3, .uncut = true},
    {"logits_out", 200, 0, 300, .logits_out = true, .uncut = true},
    {"few_rows", 64, 0, 3000, .uncut = true},
    {"narrow", 300, 0, 40, .uncut = true},
};

static void make_inputs(const head *h, samba_tensor **inputs)
{
    int64_t shape[3] = {h->batch, h->length ? h->length : INNER, INNER}, rows[2] = {h->batch, h->length};
    if (h->tied) {
        inputs[0] = kept(tensor("x", SAMBA_INT64, 2, rows));
        need(samba_fill_integers(inputs[0], 5, 0, h->classes));
    } else {
        inputs[0] = kept(normal("x", h->float64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32, h->length ? 3 : 2, shape, 6));
    }
    inputs[1] = kept(tensor("label", SAMBA_INT64, h->length ? 2 : 1, rows));
    need(samba_fill_integers(inputs[1], 7, 0, h->classes));
    if (h->ignore)
        for (int64_t i = 0; i < samba_tensor_numel(inputs[1]); i += 3)
            ((int64_t *)samba_tensor_data(inputs[1]))[i] = h->ignore;
}

/* No stage has the logits of all rows. */
static bool is_cut(const head *h, char *planned)
{
    char whole[3][64];
    long long rows = h->batch * (h->length ? h->length : 1), classes = h->classes;
    snprintf(whole[0], sizeof whole[0], " %lldx%lldx%d ", rows, classes, INNER);
    snprintf(whole[1], sizeof whole[1], "(%lld, %lld)", rows, classes);
    snprintf(whole[2], sizeof whole[2], "(%lld, %lld, %lld)", (long long)h->batch, (long long)h->length, classes);
    char *tensors = strstr(planned, "\ntensors"); /* a leaf may be as wide */
    if (tensors)
        *tensors = 0;
    return !strstr(planned, whole[0]) && !strstr(planned, whole[1]) && !strstr(planned, whole[2]);
}

static samba_session *with_inputs(samba_session *session, samba_tensor **inputs)
{
    for (int i = 0; i < 2; i++)
        need(samba_session_set(session, inputs[i]));
    return session;
}

static void check_head(const head *h, bool inference)
{
    samba_tensor *inputs[2];
    char path[512];
    make_inputs(h, inputs);
    const reference_case c = {h->name, model, h, 2, inputs, inference, .precision = SAMBA_FP32};
    pass_texts texts = compile_case(&c, 64 * h->classes * (h->float64 ? 8 : 4), path);
    /* no gradient that is as wide, or waits */
    bool cut = !h->uncut || (inference && (h->kind == 3 || h->kind == 5 || h->kind == 7));
    if (is_cut(h, texts.planned) != cut)
        fail_msg("%s: %s\n%s", h->name, cut ? "a stage has all logits" : "cut, where it should not be", texts.planned);
    SAMBA_EACH_ISA (isa)
        samba_session_free(run_against_reference(&c, path, 1 + isa % 2, samba_isa_names[isa]));
    samba_session *whole = run_against_reference(&c, path, 2, NULL), *parts = with_inputs(open_session(path, 2, 3), inputs);
    if (!inference) {
        need(run_sections(parts, NULL, "FWD"));
        assert_true(get_scalar(parts, "loss") == get_scalar(whole, "loss"));
        need(run_sections(parts, NULL, "BCKWD"));
        assert_same_bits(whole, parts, COMPUTED);
    }
    samba_session_free(parts);
    samba_session_free(whole);
    free_texts(&texts);
}

TEST(every_head)
{
    for (int i = 0; i < 2 * LENGTH(heads); i++)
        check_head(&heads[i / 2], i % 2);
}

/* ---- sections ---- */
static const head sectioned = {"sectioned", 2, 100, 640, .bias = true, .accuracy = true, .dropout = 0.3};

/* FWD 0, the part of it that BCKWD computes again 1, BCKWD 2, GRADNORM 3, OPT 4 */
TEST(sections)
{
    samba_tensor *inputs[2];
    make_inputs(&sectioned, inputs);
    samba_optimizer adamw = samba_adamw(0.01);
    adamw.max_grad_norm = 0.5;
    samba_compile_options options = training_of("sectioned", model, &sectioned, 2, inputs, &adamw);
    options.chunk_bytes = 64 * 640 * 4;
    samba_session *s = with_inputs(open_kept(&options, 2, 5), inputs);
    int64_t flops = 0, bytes = 0, run_flops, run_bytes;
    assert_int_equal(samba_session_section_count(s), 5);
    for (int i = 0; i < 5; i++) {
        samba_section_info info;
        need(samba_session_section_info(s, i, &info));
        assert_int_equal(info.redone_by != NULL, i == 1);
        if (i != 1)
            flops += info.flops, bytes += info.bytes;
        else
            assert_true(strcmp(info.type, "FWD") == 0 && strcmp(info.redone_by, "BCKWD") == 0);
    }
    samba_plan_work(&s->plan, 0, &run_flops, &run_bytes);
    assert_true(run_flops == flops && run_bytes == bytes);

    static const char *const selected[][2] = {
        {"", "0 2 3 4 "},
        {"FWD BCKWD", "0 2 "},
        {"FWD BCKWD GRADNORM OPT FWD", "0 2 3 4 0 1 "}, /* in the order given */
        {"FWD", "0 1 "},
        {"fwd Fwd bckwd fwd bckwd gradnorm opt opt", "0 0 2 0 2 3 4 4 "},
        {"0 1 2", "0 1 2 "}, /* ids run what they say */
    };
    for (int i = 0; i < LENGTH(selected); i++) {
        char text[64] = "";
        samba_selection selection;
        samba_run_options run = of_sections(samba_run_defaults(), selected[i][0]);
        need(samba_select_sections(s, &run, &selection));
        for (int k = 0; k < selection.count; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", selection.sections[k]);
        assert_string_equal(text, selected[i][1]);
    }
    for (int i = 0; i < 2; i++)
        refuse(run_sections(s, NULL, i ? "0 1 1" : "0 2 1"), SAMBA_ERROR_STATE, "what the last run of them left is used up");

    need(run_sections(s, NULL, "0")); /* BCKWD alone delivers what FWD left out */
    assert_true(get_scalar(s, "loss") == 0);
    need(run_sections(s, NULL, "2"));
    assert_true(get_scalar(s, "loss") > 1 && get_scalar(s, "right") >= 0);
}

/* Logits of what buffers held before FWD overwrote them, one in its place and one with what the other was. */
static void remembering(samba_graph *g, const void *options)
{
    const head *h = options;
    samba_initializer normal = {SAMBA_INIT_NORMAL, 0, 1};
    samba_value state = samba_register_buffer(g, "state", SAMBA_FLOAT32, 2, SHAPE(h->batch, INNER), normal),
                last = samba_register_buffer(g, "last", SAMBA_FLOAT32, 2, SHAPE(h->batch, INNER), normal);
    samba_value scale = samba_mean(parameter(g, "scale", SAMBA_FLOAT32, 1, SHAPE(INNER), 0, 1), 0, NULL, false);
    samba_value w = parameter(g, "head", SAMBA_FLOAT32, 2, SHAPE(INNER, h->classes), 0, 1);
    samba_value offset =
        samba_reshape(samba_slice(samba_reshape(last, 1, SHAPE(-1)), 0, 7, 7 + h->batch, 1), 2, SHAPE(h->batch, 1));
    samba_value logits = samba_add(samba_matmul(samba_add(last, samba_input(g, "x")), w), offset);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
    samba_loss(g, "size", samba_mean(samba_mul(state, scale), 0, NULL, false));
    samba_assign(state, samba_mul(state, samba_add_scalar(scale, 2)));
    samba_assign(last, state);
}

/* In chunks and at once: whole runs, and by types, where FWD is whole. What is dropped in a chunk is what was dropped there. */
TEST(chunks_and_whole)
{
    static const head buffers = {"remembering", 200, .classes = 555};
    for (int drops = 0; drops < 2; drops++) {
        const head *h = drops ? &sectioned : &buffers;
        samba_tensor *inputs[2];
        samba_session *s[2];
        make_inputs(h, inputs);
        for (int i = 0; i < 2; i++) {
            samba_compile_options options = compile_of(h->name, drops ? model : remembering, h, 2, inputs);
            options.chunk_bytes = i ? INT64_MAX : 64 * h->classes * 4;
            s[i] = with_inputs(open_kept(&options, 2, 5), inputs);
        }
        assert_int_equal(samba_session_section_count(s[0]), 3);
        for (int run = 0; run < 6; run++) {
            for (int i = 0; i < 2; i++) {
                need(run % 2 ? run_sections(s[i], NULL, "FWD") : samba_run(s[i], NULL));
                need(run % 2 ? run_sections(s[i], NULL, "BCKWD") : samba_run(s[i], NULL));
            }
            assert_near(s[0], s[1], COMPUTED, 2e-5);
        }
    }
}

TEST(refuse_negative)
{
    samba_compile_options options = compile_of("negative", model, &heads[0], 0, NULL);
    options.chunk_bytes = -1;
    refuse(samba_compile(context, &options, NULL, 0), SAMBA_ERROR_ARGUMENT, "chunk_bytes is -1");
}

TEST_MAIN_WITH(NULL, drop_kept, every_head, sections, chunks_and_whole, refuse_negative)
