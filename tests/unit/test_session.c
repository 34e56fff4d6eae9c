/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions over plans made by hand (tests/pef/plans.h): training is what the formulas say, for any number of threads and
 * instruction set; every wrong argument is refused with a message before anything changed; a run allocates nothing; and plans
 * damaged at random that still pass the check run without touching memory that is not theirs (what the sanitizers watch). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../pef/plans.h"
#include "failing_allocator.h"
#include "seeded.h"
#include "zeros.h"
#include "device/cpu/kernel.h"
#include <sambaflow/data.h>
#include <sambaflow/session.h>

static char path[64], checkpoint[80];

typedef struct fixture {
    failing_allocator state;
    samba_context *context;
    samba_session *session;
    samba_tensor *x, *label, *token, *y, *loss;
    samba_tensor *inputs[3], *outputs[2];
    samba_run_options run;
} fixture;

static void must(const fixture *f, samba_status status)
{
    if (status != SAMBA_OK)
        fail_msg("%s: %s", samba_status_name(status), samba_error_message(f->context));
}

static void expect(const fixture *f, samba_status status, samba_status expected, const char *part)
{
    if (status != expected || !strstr(samba_error_message(f->context), part))
        fail_msg("status %s (expected %s), message \"%s\" lacks \"%s\"", samba_status_name(status), samba_status_name(expected),
                 samba_error_message(f->context), part);
}

static void write_plan(samba_context *context, int64_t rows, int accumulation)
{
    samba_plan plan;
    make_train_plan(&plan, context, rows);
    plan.graphs[0].grad_accumulation_steps = accumulation;
    if (samba_pef_write(context, &plan, path) != SAMBA_OK)
        fail_msg("%s", samba_error_message(context));
    samba_plan_free(&plan);
}

static samba_tensor *new_tensor(fixture *f, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_tensor *tensor;
    must(f, samba_tensor_new(f->context, name, dtype, rank, shape, &tensor));
    return tensor;
}

static void begin_with(fixture *f, int64_t rows, int accumulation, const samba_session_options *options)
{
    f->context = counting_context_new(&f->state);
    write_plan(f->context, rows, accumulation);
    must(f, samba_session_new(f->context, path, options, &f->session));
    f->inputs[0] = f->x = new_tensor(f, "x", SAMBA_FLOAT32, 2, (const int64_t[]){rows, 6});
    f->inputs[1] = f->label = new_tensor(f, "label", SAMBA_INT64, 1, (const int64_t[]){4});
    f->inputs[2] = f->token = new_tensor(f, "token", SAMBA_INT64, 1, (const int64_t[]){4});
    f->outputs[0] = f->y = new_tensor(f, "y", SAMBA_FLOAT32, 2, (const int64_t[]){rows, 6});
    f->outputs[1] = f->loss = new_tensor(f, "loss", SAMBA_FLOAT32, 0, NULL);
    samba_fill_normal(f->x, 5, 0, 1);
    f->run = samba_run_defaults();
    f->run.input_count = 3;
    f->run.inputs = f->inputs;
    f->run.output_count = 2;
    f->run.outputs = f->outputs;
}

static void begin(fixture *f) { begin_with(f, 4, 1, NULL); }

static void end(fixture *f)
{
    for (int i = 0; i < 3; i++)
        samba_tensor_free(f->inputs[i]);
    for (int i = 0; i < 2; i++)
        samba_tensor_free(f->outputs[i]);
    samba_session_free(f->session);
    counting_context_free(f->context, &f->state);
}

static void get(fixture *f, const char *name, void *values, size_t size)
{
    samba_tensor *tensor;
    must(f, samba_session_get_by_name(f->session, name, &tensor));
    assert_int_equal(samba_tensor_numel(tensor) * (int64_t)samba_dtype_size(samba_tensor_dtype(tensor)), size);
    memcpy(values, samba_tensor_data(tensor), size);
    samba_tensor_free(tensor);
}

static samba_status run_types(fixture *f, const char *a, const char *b)
{
    const char *types[] = {a, b};
    samba_run_options run = f->run;
    run.section_types = types;
    run.section_type_count = b ? 2 : 1;
    return samba_run(f->session, &run);
}

/* ---- training ---- */
static void check_training(const samba_session_options *options, int64_t rows)
{
    fixture f;
    begin_with(&f, rows, 1, options);
    float w[6], b[6], fresh[6];
    const float *x = samba_tensor_data(f.x), *y = samba_tensor_data(f.y);
    get(&f, "w", w, sizeof w);
    get(&f, "b", b, sizeof b);
    for (int step = 0; step < 3; step++) {
        must(&f, samba_run(f.session, &f.run));
        double sum = 0, gradient[6] = {0}, loss;
        for (int64_t i = 0; i < rows * 6; i++) {
            double product = (double)x[i] * w[i % 6], value = product + b[i % 6]; /* rounded once or twice */
            assert_true(fabs(y[i] - (value > 0 ? value : 0)) <= 0x1p-23 * (fabs(product) + fabs(value)));
            sum += y[i];
            gradient[i % 6] += y[i] > 0 ? (double)x[i] : 0;
        }
        must(&f, samba_tensor_item(f.loss, &loss));
        assert_true(fabs(loss - sum) <= 1e-5 * sum + 1e-5);
        get(&f, "w", fresh, sizeof fresh);
        for (int c = 0; c < 6; c++) {
            if (!(fabs(fresh[c] - (w[c] - 0.25 * gradient[c])) < 1e-3 * (1 + fabs(gradient[c]))))
                fail_msg("step %d: w[%d] = %g, expected %g", step, c, (double)fresh[c], w[c] - 0.25 * gradient[c]);
            w[c] = fresh[c];
        }
    }
    samba_run_stats stats;
    samba_session_stats(f.session, &stats);
    assert_int_equal(stats.runs, 3);
    assert_true(stats.kernel_seconds > 0 && stats.total_seconds >= stats.kernel_seconds);
    samba_session_reset_stats(f.session);
    samba_session_stats(f.session, &stats);
    assert_int_equal(stats.runs, 0);
    end(&f);
}

static void test_training(void **unused)
{
    (void)unused;
    const int threads[] = {1, 2, 3, 7};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
            samba_session_options options = samba_session_defaults();
            options.threads = threads[t];
            options.isa = samba_isa_names[isa];
            if (!samba_kernels_for((samba_isa)isa))
                continue;
            check_training(&options, 4);
            check_training(&options, 5000); /* large enough to share */
        }
    check_training(NULL, 5000);
}

static void test_teams(void **unused)
{
    (void)unused;
    float first[6], inside[6];
    samba_session_options options = samba_session_defaults();
    options.threads = 4;
    for (int nested = 0; nested < 2; nested++) { /* within a parallel region OpenMP gives fewer threads: the same bits */
        fixture f;
        begin_with(&f, 5000, 1, &options);
        samba_status status = SAMBA_OK;
#pragma omp parallel num_threads(2) if (nested)
#pragma omp single
        for (int step = 0; step < 20 && status == SAMBA_OK; step++)
            status = samba_run(f.session, &f.run);
        must(&f, status);
        get(&f, "w", nested ? inside : first, sizeof first);
        end(&f);
    }
    assert_memory_equal(first, inside, sizeof first);
}

static void test_weights(void **unused)
{
    (void)unused;
    float table[3][30], w[6], b[6];
    for (int i = 0; i < 3; i++) { /* one thread, three threads, another seed */
        samba_session_options options = samba_session_defaults();
        options.threads = i == 1 ? 3 : 1;
        options.seed = i == 2 ? 9 : 8;
        fixture f;
        begin_with(&f, 4, 1, &options);
        get(&f, "table", table[i], sizeof table[i]);
        get(&f, "w", w, sizeof w);
        get(&f, "b", b, sizeof b);
        for (int k = 0; k < 6; k++)
            assert_true(w[k] >= -1 && w[k] < 1 && b[k] == 0.5f);
        end(&f);
    }
    assert_memory_equal(table[0], table[1], sizeof table[0]);
    assert_true(memcmp(table[0], table[2], sizeof table[0]) != 0);
    double square = 0;
    for (int i = 0; i < 30; i++)
        square += table[0][i] * table[0][i];
    assert_true(square / 30 > 1 && square / 30 < 10); /* deviation 2 */
}

static void test_accumulation(void **unused)
{
    (void)unused;
    fixture f, g;
    float before[6], after[6], one[6], sum[6];
    begin_with(&f, 4, 3, NULL);
    get(&f, "w", before, sizeof before);
    for (int step = 0; step < 2; step++) {
        for (int micro = 0; micro < 3; micro++) {
            must(&f, samba_run(f.session, &f.run));
            get(&f, "w", after, sizeof after);
            assert_int_equal(memcmp(before, after, sizeof after) == 0, micro < 2);
            get(&f, "w.grad", sum, sizeof sum);
            if (micro == 0)
                memcpy(one, sum, sizeof one);
            for (int c = 0; c < 6; c++)
                assert_true(fabsf(sum[c] - one[c] * (float)(micro + 1)) < 1e-5f);
        }
        memcpy(before, after, sizeof before);
    }
    end(&f);
    begin(&g); /* types run what they say: gradients go on adding up without ZEROGRAD */
    must(&g, run_types(&g, "zerograd", NULL));
    expect(&g, run_types(&g, "BCKWD", "fwd"), SAMBA_ERROR_STATE, "run FWD before it"); /* in the order given */
    must(&g, run_types(&g, "FWD", "bckwd"));
    get(&g, "w.grad", one, sizeof one);
    must(&g, run_types(&g, "fwd", "Bckwd"));
    get(&g, "w.grad", sum, sizeof sum);
    for (int c = 0; c < 6; c++)
        assert_true(fabsf(sum[c] - 2 * one[c]) < 1e-5f);
    end(&g);
}

/* ---- hyperparameters ---- */
static void test_hyperparameters(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f);
    samba_hyperparameter given = {"lr", 0}, known;
    f.run.hyperparameters = &given;
    f.run.hyperparameter_count = 1;
    float before[6], after[6];
    get(&f, "w", before, sizeof before);
    must(&f, samba_run(f.session, &f.run));
    get(&f, "w", after, sizeof after);
    assert_memory_equal(before, after, sizeof before); /* a rate of 0 */
    assert_int_equal(samba_session_hyperparameter_count(f.session), 3);
    must(&f, samba_session_hyperparameter(f.session, 0, &known));
    assert_string_equal(known.name, "optim0.lr");
    assert_true(known.value == 0);
    expect(&f, samba_session_hyperparameter(f.session, 3, &known), SAMBA_ERROR_ARGUMENT, "no hyperparameter 3");

    double p;
    int64_t first, second;
    given = (samba_hyperparameter){"p", 0.25};
    must(&f, samba_run(f.session, &f.run));
    get(&f, "seen_p", &p, sizeof p);
    get(&f, "seen_seed", &first, sizeof first);
    assert_true(p == 0.25);
    f.run.hyperparameter_count = 0;
    f.run.train = false;
    must(&f, samba_run(f.session, &f.run));
    get(&f, "seen_p", &p, sizeof p);
    get(&f, "seen_seed", &second, sizeof second);
    assert_true(p == 0 && first != second && first >= 0 && second >= 0);
    f.run.train = true;
    must(&f, samba_run(f.session, &f.run)); /* and back */
    get(&f, "seen_p", &p, sizeof p);
    assert_true(p == 0.25);
    get(&f, "seen_seed", &first, sizeof first);
    must(&f, samba_session_hyperparameter(f.session, 2, &known));
    assert_true(known.value == (double)first);
    given = (samba_hyperparameter){"drop.seed", 1234};
    f.run.hyperparameter_count = 1;
    must(&f, samba_run(f.session, &f.run));
    f.run.hyperparameter_count = 0;
    must(&f, samba_run(f.session, &f.run)); /* a seed that was given stays */
    get(&f, "seen_seed", &first, sizeof first);
    assert_int_equal(first, 1234);

    f.run.hyperparameter_count = 1;
    const struct {
        samba_hyperparameter given;
        samba_status status;
        const char *part;
    } wrong[] = {{{"lrr", 1}, SAMBA_ERROR_NAME, "there is no hyperparameter \"lrr\" (did you mean \"lr\"?); they are"},
                 {{"optim0.lr", (double)NAN}, SAMBA_ERROR_ARGUMENT, "nan"},
                 {{"p", 1.5}, SAMBA_ERROR_ARGUMENT, "the dropout rate \"drop.p\" must be in [0, 1]"},
                 {{"seed", 0.5}, SAMBA_ERROR_ARGUMENT, "takes an integer"},
                 {{"seed", 1e17}, SAMBA_ERROR_ARGUMENT, "53 bits"},
                 {{NULL, 1}, SAMBA_ERROR_ARGUMENT, "no name"},
                 {{"zebra", 1}, SAMBA_ERROR_NAME, "they are: \"optim0.lr\", \"drop.p\", \"drop.seed\""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        given = wrong[i].given;
        expect(&f, samba_run(f.session, &f.run), wrong[i].status, wrong[i].part);
    }
    end(&f);
}

static void test_seeds_repeat(void **unused)
{
    (void)unused;
    int64_t seeds[2][3];
    for (int i = 0; i < 2; i++) {
        fixture f;
        begin(&f);
        for (int k = 0; k < 3; k++) {
            must(&f, run_types(&f, "FWD", NULL));
            get(&f, "seen_seed", &seeds[i][k], sizeof seeds[i][k]);
        }
        end(&f);
    }
    assert_memory_equal(seeds[0], seeds[1], sizeof seeds[0]);
    assert_true(seeds[0][0] != seeds[0][1] && seeds[0][1] != seeds[0][2]);
}

/* ---- wrong arguments ---- */
static void test_wrong_inputs(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f);
    samba_tensor *imag = new_tensor(&f, "tokn", SAMBA_INT64, 1, (const int64_t[]){4}),
                 *w = new_tensor(&f, "w", SAMBA_FLOAT32, 1, (const int64_t[]){6});
    samba_tensor *empty, *view, *other;
    float before[24], after[24];
    must(&f, samba_run(f.session, &f.run));
    get(&f, "x", before, sizeof before);
    samba_fill_normal(f.x, 6, 0, 1);
    struct {
        samba_tensor *given;
        samba_status status;
        const char *part;
    } wrong[] = {
        {imag, SAMBA_ERROR_NAME, "there is no input \"tokn\" (did you mean \"token\"?); inputs are: \"x\", \"label\", \"token\""},
        {w, SAMBA_ERROR_NAME, "\"w\" is of kind parameter, not input: samba_session_set moves it"},
        {f.x, SAMBA_ERROR_NAME, "input \"x\" was given twice"},
        {NULL, SAMBA_ERROR_ARGUMENT, "input 1 of the run is NULL"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        f.inputs[1] = wrong[i].given;
        expect(&f, samba_run(f.session, &f.run), wrong[i].status, wrong[i].part);
    }
    f.inputs[1] = other = new_tensor(&f, "label", SAMBA_INT32, 1, (const int64_t[]){4});
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_DTYPE, "input \"label\" is int64 in the PEF and int32 was given");
    samba_tensor_free(other);
    f.inputs[1] = other = new_tensor(&f, "label", SAMBA_INT64, 2, (const int64_t[]){4, 1});
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_SHAPE,
           "input \"label\" has the shape (4) in the PEF and (4, 1) was given");
    samba_tensor_free(other);
    must(&f, samba_tensor_empty(f.context, "label", SAMBA_INT64, 1, (const int64_t[]){4}, &empty));
    f.inputs[1] = empty;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "no memory to transfer");
    f.inputs[1] = f.label;
    ((int64_t *)samba_tensor_data(f.label))[2] = 12;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "label[2] = 12 is outside [0, 10) (cross_entropy at loss)");
    ((int64_t *)samba_tensor_data(f.label))[2] = -1;
    /* as dummy inputs are: what they hold need mean nothing before a run reads it */
    must(&f, samba_session_set(f.session, f.label));
    f.run.input_count = 1;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT,
           "input label[2] = -1 is outside [0, 10) (cross_entropy at loss): it was set before, and this run was given no other");
    f.run.input_count = 2;
    ((int64_t *)samba_tensor_data(f.label))[2] = -100; /* ignored */
    must(&f, samba_session_set(f.session, f.label));
    get(&f, "x", after, sizeof after);
    assert_memory_equal(before, after, sizeof before); /* nothing of all this was transferred */

    must(&f, samba_tensor_expand(f.loss, 1, (const int64_t[]){1}, &view));
    f.run.outputs = &view;
    f.run.output_count = 1;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_SHAPE, "output \"loss\" has the shape () in the PEF and (1) was given");
    samba_tensor_free(view);
    other = new_tensor(&f, "y", SAMBA_FLOAT32, 2, (const int64_t[]){1, 6});
    must(&f, samba_tensor_expand(other, 2, (const int64_t[]){4, 6}, &view));
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "output \"y\" is a view whose elements share memory");
    samba_tensor_free(view);
    samba_tensor_free(other);
    f.run.outputs = &w;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_NAME, "samba_session_get moves it");
    f.run.input_count = -1;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "-1 inputs");
    f.run.struct_size = 0;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "struct_size of 0");
    samba_tensor_free(imag);
    samba_tensor_free(w);
    samba_tensor_free(empty);
    end(&f);
}

static void test_wrong_sections(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f);
    const char *type = "forward";
    const int ids[] = {0, 4}, backward = 2, opt = 3;
    f.run.section_types = &type;
    f.run.section_type_count = 1;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_NAME,
           "there is no section type \"forward\"; this PEF has: \"ZEROGRAD\", \"FWD\", \"BCKWD\", \"OPT\"");
    type = "gradnorm";
    must(&f, samba_run(f.session, &f.run)); /* which this model does not need */
    assert_string_equal(samba_session_warning(f.session),
                        "the PEF that ran has no section of type GRADNORM, which its model does not need: runs leave it out");
    assert_string_equal(samba_session_warning(f.session), "");
    f.run.section_ids = ids;
    f.run.section_id_count = 2;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "both section types and section ids");
    f.run.section_type_count = 0;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "there is no section 4: this PEF's ids are 0 to 3");
    f.run.section_ids = &backward;
    f.run.section_id_count = 1;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_STATE,
           "section 2 (BCKWD) needs the activations of a forward run, and there was none");
    f.run.section_ids = &opt;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_STATE, "section 3 (OPT) needs gradients");
    f.run.section_id_count = 0;
    must(&f, run_types(&f, "FWD", NULL));
    f.run.section_ids = &backward;
    f.run.section_id_count = 1;
    must(&f, samba_run(f.session, &f.run));
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_STATE, "it has used up those of the last");
    f.run.section_ids = &opt;
    must(&f, samba_run(f.session, &f.run));
    must(&f, samba_run(f.session, &f.run));
    end(&f);
}

static void test_wrong_sessions(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f);
    samba_session *session;
    samba_session_options options = samba_session_defaults();
    expect(&f, samba_session_new(f.context, NULL, NULL, &session), SAMBA_ERROR_ARGUMENT, "no path");
    expect(&f, samba_session_new(f.context, "/nowhere/a.pef", NULL, &session), SAMBA_ERROR_FILE, "/nowhere/a.pef");
    assert_null(session);
    options.device = "rdu";
    expect(&f, samba_session_new(f.context, path, &options, &session), SAMBA_ERROR_UNSUPPORTED,
           "no device \"rdu\"; devices are: \"cpu\", \"null\"");
    options.device = NULL;
    options.isa = "avx1024";
    expect(&f, samba_session_new(f.context, path, &options, &session), SAMBA_ERROR_UNSUPPORTED,
           "\"avx1024\" is not available: this processor and library have generic");
    options.isa = NULL;
    options.threads = -1;
    expect(&f, samba_session_new(f.context, path, &options, &session), SAMBA_ERROR_ARGUMENT, "-1 threads");
    options.struct_size = 1000;
    expect(&f, samba_session_new(f.context, path, &options, &session), SAMBA_ERROR_ARGUMENT, "struct_size of 1000");
    samba_plan plan;
    make_train_plan(&plan, f.context, 4);
    plan.memory_bytes = (int64_t)1 << 46;
    must(&f, samba_pef_write(f.context, &plan, path));
    expect(&f, samba_session_new(f.context, path, NULL, &session), SAMBA_ERROR_MEMORY, "this machine has");
    samba_plan_free(&plan);
    end(&f);
}

/* ---- losses, faults ---- */
static void test_warning(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f);
    must(&f, samba_run(f.session, &f.run));
    assert_string_equal(samba_session_warning(f.session), "");
    ((float *)samba_tensor_data(f.x))[3] = INFINITY;
    for (int i = 0; i < 3; i++) {
        samba_tensor *w;
        must(&f, samba_session_get_by_name(f.session, "w", &w));
        for (int c = 0; c < 6; c++)
            ((float *)samba_tensor_data(w))[c] = 1;
        must(&f, samba_session_set(f.session, w));
        samba_tensor_free(w);
        must(&f, samba_run(f.session, &f.run)); /* goes on */
    }
    assert_string_equal(samba_session_warning(f.session), "loss 'loss' became inf in run 2; training goes on");
    assert_string_equal(samba_session_warning(f.session), "");
    end(&f);
}

static void test_fault(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f);
    ((int64_t *)samba_tensor_data(f.token))[1] = 10;
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "stage 2 \"embedding\" met an index that is out of range");
    ((int64_t *)samba_tensor_data(f.token))[1] = 9;
    must(&f, samba_run(f.session, &f.run));
    float picked[12], table[30];
    get(&f, "picked", picked, sizeof picked);
    get(&f, "table", table, sizeof table);
    assert_memory_equal(picked + 3, table + 27, 3 * sizeof *picked);
    end(&f);
}

/* ---- tensors ---- */
static void test_views(void **unused)
{
    (void)unused;
    fixture f;
    samba_session_options options = samba_session_defaults();
    options.device = "null";
    begin_with(&f, 5000, 1, &options);
    assert_string_equal(samba_session_isa(f.session), "null");
    samba_tensor *turned, *view, *back, *wide, *slice;
    turned = new_tensor(&f, "x", SAMBA_FLOAT32, 2, (const int64_t[]){6, 5000});
    samba_fill_normal(turned, 3, 0, 1);
    must(&f, samba_tensor_permute(turned, (const int[]){1, 0}, &view));
    must(&f, samba_session_set(f.session, view));
    must(&f, samba_session_get_by_name(f.session, "x", &back));
    const float *a = samba_tensor_data(turned), *b = samba_tensor_data(back);
    for (int64_t i = 0; i < 30000; i++)
        assert_true(b[i] == a[i % 6 * 5000 + i / 6]);
    wide = new_tensor(&f, "x", SAMBA_FLOAT32, 2, (const int64_t[]){5000, 18});
    must(&f, samba_tensor_slice(wide, 1, 1, 18, 3, &slice)); /* every third column */
    must(&f, samba_session_get(f.session, slice));
    const float *c = samba_tensor_data(wide);
    for (int64_t i = 0; i < 90000; i++)
        assert_true(c[i] == (i % 3 == 1 ? b[i / 18 * 6 + i % 18 / 3] : 0));
    samba_tensor *rows = new_tensor(&f, "x", SAMBA_FLOAT32, 2, (const int64_t[]){5000, 9}), *part;
    must(&f, samba_tensor_slice(rows, 1, 2, 8, 1, &part)); /* whole rows with gaps between */
    must(&f, samba_session_get(f.session, part));
    must(&f, samba_session_set(f.session, part));
    samba_tensor *once_more;
    must(&f, samba_session_get_by_name(f.session, "x", &once_more));
    assert_memory_equal(samba_tensor_data(once_more), b, 30000 * sizeof *b);
    samba_tensor *all[] = {turned, view, back, wide, slice, rows, part, once_more};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        samba_tensor_free(all[i]);
    expect(&f, samba_session_get_by_name(f.session, "z", &back), SAMBA_ERROR_NAME, "there is no tensor \"z\"");
    expect(&f, samba_session_set(f.session, NULL), SAMBA_ERROR_ARGUMENT, "no tensor");
    end(&f);
}

static void test_null_device(void **unused)
{
    (void)unused;
    fixture f;
    samba_session_options options = samba_session_defaults();
    options.device = "null";
    begin_with(&f, 4, 1, &options);
    float before[6], after[6];
    get(&f, "w", before, sizeof before);
    must(&f, samba_run(f.session, &f.run));
    get(&f, "w", after, sizeof after);
    assert_memory_equal(before, after, sizeof before);
    float x[24];
    get(&f, "x", x, sizeof x);
    assert_memory_equal(x, samba_tensor_data(f.x), sizeof x);
    end(&f);
}

static void test_facts(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f);
    samba_tensor_info tensor;
    samba_section_info section;
    samba_memory_info memory;
    assert_int_equal(samba_session_tensor_count(f.session), 13);
    must(&f, samba_session_tensor_info(f.session, 5, &tensor));
    assert_string_equal(tensor.name, "table");
    assert_true(tensor.kind == SAMBA_KIND_PARAMETER && tensor.rank == 2 && tensor.shape[0] == 10 && tensor.bytes == 120);
    expect(&f, samba_session_tensor_info(f.session, -1, &tensor), SAMBA_ERROR_ARGUMENT, "no tensor -1");
    assert_int_equal(samba_session_section_count(f.session), 4);
    must(&f, samba_session_section_info(f.session, 2, &section));
    assert_string_equal(section.type, "BCKWD");
    assert_true(section.id == 2 && section.stage_count == 2 && section.flops == 2000 && section.bytes == 200);
    expect(&f, samba_session_section_info(f.session, 4, &section), SAMBA_ERROR_ARGUMENT, "no section 4");
    must(&f, samba_session_memory(f.session, &memory));
    assert_true(memory.total > 0);
    assert_true(samba_session_threads(f.session) >= 1);
    end(&f);
}

/* ---- checkpoints ---- */
static void test_checkpoint(void **unused)
{
    (void)unused;
    fixture f, g;
    float w[2][6], state[2][6];
    int64_t seen[2];
    begin(&f);
    for (int i = 0; i < 3; i++)
        must(&f, samba_run(f.session, &f.run));
    must(&f, samba_session_save(f.session, checkpoint, true));
    samba_session_options options = samba_session_defaults();
    options.seed = 99;
    begin_with(&g, 4, 1, &options);
    must(&g, samba_session_load(g.session, checkpoint));
    must(&f, samba_run(f.session, &f.run)); /* both go on alike: weights, state, dropout seeds */
    must(&g, samba_run(g.session, &g.run));
    get(&f, "w", w[0], sizeof w[0]), get(&g, "w", w[1], sizeof w[1]);
    get(&f, "w.momentum_buffer", state[0], sizeof state[0]), get(&g, "w.momentum_buffer", state[1], sizeof state[1]);
    get(&f, "seen_seed", &seen[0], 8), get(&g, "seen_seed", &seen[1], 8);
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_memory_equal(state[0], state[1], sizeof state[0]);
    assert_int_equal(seen[0], seen[1]);

    must(&f, samba_session_save(f.session, checkpoint, false));
    samba_tensor_list list;
    must(&f, samba_safetensors_read(f.context, checkpoint, &list));
    assert_int_equal(list.count, 3);
    must(&f, samba_safetensors_write(f.context, checkpoint, 2, list.tensors, NULL));
    const char *left_out = samba_tensor_name(list.tensors[2]);
    expect(&g, samba_session_load(g.session, checkpoint), SAMBA_ERROR_NAME, left_out);
    samba_tensor *other = list.tensors[0];
    must(&f, samba_tensor_new(f.context, samba_tensor_name(other), SAMBA_FLOAT32, 1, (const int64_t[]){7}, &list.tensors[0]));
    must(&f, samba_safetensors_write(f.context, checkpoint, 3, list.tensors, NULL));
    expect(&g, samba_session_load(g.session, checkpoint), SAMBA_ERROR_SHAPE, "(7) was given");
    samba_tensor_free(other);
    samba_tensor_list_free(f.context, &list);
    float after[6];
    get(&g, "w", after, sizeof after);
    assert_memory_equal(after, w[1], sizeof after); /* refused files changed nothing */
    expect(&g, samba_session_load(g.session, NULL), SAMBA_ERROR_ARGUMENT, "no path");
    expect(&g, samba_session_save(g.session, "/nowhere/a.safetensors", true), SAMBA_ERROR_FILE, "/nowhere");
    end(&g);
    end(&f);
}

/* ---- memory ---- */
static void test_run_allocates_nothing(void **unused)
{
    (void)unused;
    fixture f;
    samba_session_options options = samba_session_defaults();
    options.threads = 2;
    begin_with(&f, 5000, 1, &options);
    int64_t calls = f.state.calls;
    for (int i = 0; i < 3; i++)
        must(&f, samba_run(f.session, &f.run));
    f.inputs[1] = f.inputs[0];
    expect(&f, samba_run(f.session, &f.run), SAMBA_ERROR_NAME, "twice");
    f.inputs[1] = f.label;
    assert_int_equal(f.state.calls, calls);
    end(&f);
}

static samba_status whole_session(samba_context *context, void *user)
{
    const samba_session_options *options = user;
    samba_session *session;
    samba_tensor *w = NULL;
    samba_status status = samba_session_new(context, path, options, &session);
    if (status == SAMBA_OK)
        status = give_zeros(context, session);
    if (status == SAMBA_OK)
        status = samba_run(session, NULL);
    if (status == SAMBA_OK)
        status = samba_session_get_by_name(session, "w", &w);
    if (status == SAMBA_OK)
        status = samba_session_save(session, checkpoint, true);
    if (status == SAMBA_OK)
        status = samba_session_load(session, checkpoint);
    samba_tensor_free(w);
    samba_session_free(session);
    return status;
}

static void test_allocations(void **unused)
{
    (void)unused;
    failing_allocator state;
    samba_context *context = counting_context_new(&state);
    write_plan(context, 5000, 1);
    counting_context_free(context, &state);
    samba_session_options options = samba_session_defaults();
    options.threads = 2;
    fail_each_allocation(whole_session, &options);
    options.device = "null";
    fail_each_allocation(whole_session, &options);
}

/* ---- plans damaged at random ---- */
/* Sizes of what a run would do; a plan may ask for more work than a test has time for. */
static bool is_small(const samba_plan *plan)
{
    const double most = 1e5;
    bool small = (double)plan->memory_bytes < 1e7;
    for (int32_t i = 0; i < plan->stage_count; i++) {
        const samba_stage *s = &plan->stages[i];
        double domain = 1, pool = 1;
        for (int32_t k = 0; k < s->rank; k++)
            domain *= (double)s->domain[k];
        if (s->kind == SAMBA_STAGE_CONTRACT)
            for (int32_t k = 0; k < s->contract.k_rank; k++)
                domain *= (double)s->contract.k[k];
        if (s->kind == SAMBA_STAGE_POOL)
            pool = (double)s->pool.planes * (double)(s->pool.oh * s->pool.ow + s->pool.h * s->pool.w) *
                   (double)(s->pool.kernel[0] * s->pool.kernel[1]);
        if (s->kind == SAMBA_STAGE_GATHER)
            pool = (double)s->gather.table_rows;
        if (s->kind == SAMBA_STAGE_ATTENTION) {
            pool = (double)(s->attention.d + s->attention.dv + 1);
            domain *= pool;
            pool *= (double)s->domain[0] * (double)s->domain[1] * (double)(s->domain[2] + s->domain[3]);
        }
        small = small && domain < most && pool < most;
    }
    return small;
}

static bool run_damaged(samba_context *context, const char *bytes, size_t size, const samba_session_options *options)
{
    samba_plan plan;
    if (samba_pef_decode(context, "damaged", bytes, size, &plan) != SAMBA_OK)
        return false;
    bool small = is_small(&plan);
    samba_plan_free(&plan);
    if (!small)
        return false;
    FILE *file = fopen(path, "wb"); /* not samba_file_write_atomic: waiting for the disk a thousand times takes long */
    assert_true(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    samba_session *session;
    if (samba_session_new(context, path, options, &session) != SAMBA_OK)
        return false; /* a kernel may refuse what the check cannot know */
    (void)samba_run(session, NULL);
    samba_session_free(session);
    return true;
}

static void test_damaged_plans(void **unused)
{
    (void)unused;
    int ran = 0;
    for (int zoo = 0; zoo < 2; zoo++) {
        failing_allocator state;
        samba_context *context = counting_context_new(&state);
        samba_plan plan;
        if (zoo)
            make_zoo_plan(&plan, context);
        else
            make_train_plan(&plan, context, 4);
        void *original;
        size_t size;
        assert_int_equal(samba_pef_write(context, &plan, path), SAMBA_OK);
        assert_int_equal(samba_file_read(context, path, &original, &size), SAMBA_OK);
        samba_pef_header header;
        memcpy(&header, original, sizeof header);
        char *bytes = malloc(size);
        samba_session_options options = samba_session_defaults();
        for (int i = 0; i < 1500; i++) {
            memcpy(bytes, original, size);
            for (int k = 0; k < 1 + i % 3; k++) { /* small numbers are likelier to fit */
                char *byte = bytes + header.message_offset + (int64_t)(next_random() % (uint64_t)header.message_length);
                *byte = i % 2 ? (char)(next_random() % 12) : (char)(*byte ^ (1 << next_random() % 8));
            }
            seal(bytes, size);
            options.threads = 1 + i % 2;
            ran += run_damaged(context, bytes, size, &options);
        }
        free(bytes);
        samba_free(context, original, size);
        samba_plan_free(&plan);
        counting_context_free(context, &state);
    }
    print_message("%d damaged plans ran\n", ran);
    assert_true(ran > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_training),        cmocka_unit_test(test_teams),
                                       cmocka_unit_test(test_weights),         cmocka_unit_test(test_accumulation),
                                       cmocka_unit_test(test_hyperparameters), cmocka_unit_test(test_seeds_repeat),
                                       cmocka_unit_test(test_wrong_inputs),    cmocka_unit_test(test_wrong_sections),
                                       cmocka_unit_test(test_wrong_sessions),  cmocka_unit_test(test_warning),
                                       cmocka_unit_test(test_fault),           cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_null_device),     cmocka_unit_test(test_facts),
                                       cmocka_unit_test(test_checkpoint),      cmocka_unit_test(test_run_allocates_nothing),
                                       cmocka_unit_test(test_allocations),     cmocka_unit_test(test_damaged_plans)};
    seed_anew();
    strcpy(path, "/tmp/samba_test_session_XXXXXX");
    int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    snprintf(checkpoint, sizeof checkpoint, "%s.safetensors", path);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    unlink(checkpoint);
    return failed;
}
