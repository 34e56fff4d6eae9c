/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions over plans made by hand (tests/pef/plans.h): training is what the formulas say, for any number of threads and
 * instruction set; a run that is refused changes nothing (test_messages has what is said); a run allocates nothing. Damaged plans
 * are tests/fuzz/files' matter. */
#include "hand_trained.h"
#include "device/cpu/kernel.h"

static char checkpoint[96];

static int setup(void **state)
{
    snprintf(checkpoint, sizeof checkpoint, "%s/a.safetensors", folder);
    return count_memory(state);
}

static void begin(fixture *f) { begin_with(f, 4, 1, NULL, NULL); }

static const float *values_of(const fixture *f, const char *name) { return samba_tensor_data(kept(get(f->session, name))); }

/* ---- training ---- */
static void check_training(const samba_session_options *options, int64_t rows)
{
    fixture f;
    begin_with(&f, rows, 1, NULL, options);
    const float *x = samba_tensor_data(f.inputs[0]), *y = samba_tensor_data(f.outputs[0]), *w = values_of(&f, "w"),
                *b = values_of(&f, "b");
    for (int step = 0; step < 3; step++) {
        run(&f);
        double sum = 0, gradient[6] = {0}, loss;
        for (int64_t i = 0; i < rows * 6; i++) {
            double product = (double)x[i] * w[i % 6], value = product + b[i % 6]; /* rounded once or twice */
            assert_true(fabs(y[i] - (value > 0 ? value : 0)) <= 0x1p-23 * (fabs(product) + fabs(value)));
            sum += y[i];
            gradient[i % 6] += y[i] > 0 ? (double)x[i] : 0;
        }
        need(samba_tensor_item(f.outputs[1], &loss));
        assert_true(fabs(loss - sum) <= 1e-5 * sum + 1e-5);
        const float *fresh = values_of(&f, "w");
        for (int c = 0; c < 6; c++)
            if (!(fabs(fresh[c] - (w[c] - 0.25 * gradient[c])) < 1e-3 * (1 + fabs(gradient[c]))))
                fail_msg("step %d: w[%d] = %g, expected %g", step, c, (double)fresh[c], w[c] - 0.25 * gradient[c]);
        w = fresh;
    }
    samba_run_stats stats;
    samba_session_stats(f.session, &stats);
    assert_int_equal(stats.runs, 3);
    assert_true(stats.kernel_seconds > 0 && stats.total_seconds >= stats.kernel_seconds);
    samba_session_reset_stats(f.session);
    samba_session_stats(f.session, &stats);
    assert_int_equal(stats.runs, 0);
    drop_kept(NULL);
}

TEST(test_training)
{
    const int threads[] = {1, 2, 3, 7};
    for (int t = 0; t < LENGTH(threads); t++)
        SAMBA_EACH_ISA (isa) {
            check_training(SESSION(.threads = threads[t], .isa = samba_isa_names[isa]), 4);
            check_training(SESSION(.threads = threads[t], .isa = samba_isa_names[isa]), 5000); /* large enough to share */
        }
    check_training(NULL, 5000);
}

TEST(test_teams)
{
    uint64_t bits[2];
    for (int nested = 0; nested < 2; nested++) { /* within a parallel region OpenMP gives fewer threads: the same bits */
        fixture f;
        begin_with(&f, 5000, 1, NULL, SESSION(.threads = 4));
        samba_status status = SAMBA_OK;
#pragma omp parallel num_threads(2) if (nested)
#pragma omp single
        for (int step = 0; step < 20 && status == SAMBA_OK; step++)
            status = samba_run(f.session, &f.run);
        need(status);
        bits[nested] = bits_of(f.session, COMPUTED);
    }
    assert_true(bits[0] == bits[1]);
}

/* ---- hyperparameters ---- */
TEST(test_hyperparameters)
{
    fixture f;
    begin(&f);
    samba_hyperparameter given = {"lr", 0};
    f.run.hyperparameters = &given;
    f.run.hyperparameter_count = 1;
    uint64_t before = bits_of(f.session, 1u << SAMBA_KIND_PARAMETER);
    run(&f);
    assert_true(bits_of(f.session, 1u << SAMBA_KIND_PARAMETER) == before); /* a rate of 0 */
    assert_int_equal(samba_session_hyperparameter_count(f.session), 3);
    assert_true(get_hyper(f.session, "optim0.lr") == 0);

    given = (samba_hyperparameter){"p", 0.25};
    run(&f);
    double first = get_scalar(f.session, "seen_seed"), second;
    assert_true(get_scalar(f.session, "seen_p") == 0.25);
    f.run.hyperparameter_count = 0;
    f.run.train = false;
    run(&f);
    second = get_scalar(f.session, "seen_seed");
    assert_true(get_scalar(f.session, "seen_p") == 0 && first != second && first >= 0 && second >= 0);
    f.run.train = true;
    run(&f); /* and back */
    assert_true(get_scalar(f.session, "seen_p") == 0.25);
    assert_true(get_hyper(f.session, "drop.seed") == get_scalar(f.session, "seen_seed"));
    given = (samba_hyperparameter){"drop.seed", 1234};
    f.run.hyperparameter_count = 1;
    run(&f);
    f.run.hyperparameter_count = 0;
    run(&f); /* a seed that was given stays */
    assert_true(get_scalar(f.session, "seen_seed") == 1234);
}

/* ---- wrong arguments: what test_messages does not have ---- */
TEST(test_refused_runs_transfer_nothing)
{
    fixture f;
    begin(&f);
    run(&f);
    uint64_t before = bits_of(f.session, ~0u);
    need(samba_fill_normal(f.inputs[0], 6, 0, 1));
    samba_tensor *label = f.inputs[1], *wrong = kept(tensor("label", SAMBA_INT64, 1, SHAPE(4)));
    samba_tensor *const given[] = {NULL, f.inputs[0], kept(tensor("tokn", SAMBA_INT64, 1, SHAPE(4))), wrong};
    ((int64_t *)samba_tensor_data(wrong))[2] = 12;
    for (int i = 0; i < LENGTH(given); i++) {
        f.inputs[1] = given[i];
        assert_int_not_equal(samba_run(f.session, &f.run), SAMBA_OK);
    }
    refuse(samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "label[2] = 12 is outside [0, 10) (cross_entropy at loss)");
    f.inputs[1] = label;
    f.run.input_count = -1;
    refuse(samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "-1 inputs");
    assert_true(bits_of(f.session, ~0u) == before);
}

static void too_much(samba_plan *plan) { plan->memory_bytes = (int64_t)1 << 46; }

TEST(test_wrong_sessions)
{
    samba_session *session;
    write_plan(4, 1, too_much);
    refuse(samba_session_new(context, pef, NULL, &session), SAMBA_ERROR_MEMORY, "this machine has");
    samba_plan zoo;
    make_zoo_plan(&zoo, context);
    for (int i = 0; i < zoo.stage_count; i++)
        if (strcmp(zoo.stages[i].name, "softmax") == 0)
            zoo.stages[i].program.registers[1].extent = SAMBA_FULL; /* of a row's greatest */
    refuse(samba_pef_write(context, &zoo, pef), SAMBA_ERROR_FORMAT, "the result has the other extent");
    samba_plan_free(&zoo);
}

/* ---- losses, faults ---- */
TEST(test_warning)
{
    for (int i = 0; i < 2; i++) {
        fixture f;
        begin(&f);
        run(&f);
        assert_string_equal(samba_session_warning(f.session), "");
        ((float *)samba_tensor_data(f.inputs[0]))[3] = i ? NAN : INFINITY;
        samba_tensor *ones = kept(tensor("w", SAMBA_FLOAT32, 1, SHAPE(6)));
        need(samba_fill_uniform(ones, 1, 1, 1));
        for (int k = 0; k < 3; k++) {
            need(samba_session_set(f.session, ones));
            run(&f); /* goes on */
        }
        assert_string_equal(samba_session_warning(f.session), i ? "loss 'loss' became nan in run 2; training goes on"
                                                                : "loss 'loss' became inf in run 2; training goes on");
        assert_string_equal(samba_session_warning(f.session), "");
    }
}

TEST(test_fault)
{
    fixture f;
    begin(&f);
    int64_t *tokens = samba_tensor_data(f.inputs[2]);
    tokens[1] = 10;
    refuse(samba_run(f.session, &f.run), SAMBA_ERROR_ARGUMENT, "stage 2 \"embedding\" met an index that is out of range");
    tokens[1] = 9;
    run(&f);
    assert_memory_equal(values_of(&f, "picked") + 3, values_of(&f, "table") + 27, 3 * sizeof(float));
}

/* ---- tensors ---- */
TEST(test_views_on_the_null_device)
{
    fixture f;
    begin_with(&f, 5000, 1, NULL, SESSION(.device = "null"));
    assert_string_equal(samba_session_isa(f.session), "null");
    uint64_t before = bits_of(f.session, LEARNED);
    run(&f); /* which computes nothing */
    assert_true(bits_of(f.session, LEARNED) == before);
    assert_memory_equal(values_of(&f, "x"), samba_tensor_data(f.inputs[0]), 30000 * sizeof(float));
    samba_tensor *turned = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(6, 5000), 3)), *view, *slice, *part;
    need(samba_tensor_permute(turned, (const int[]){1, 0}, &view));
    need(samba_session_set(f.session, kept(view)));
    const float *a = samba_tensor_data(turned), *b = values_of(&f, "x");
    for (int64_t i = 0; i < 30000; i++)
        assert_true(b[i] == a[i % 6 * 5000 + i / 6]);
    samba_tensor *wide = kept(tensor("x", SAMBA_FLOAT32, 2, SHAPE(5000, 18)));
    need(samba_tensor_slice(wide, 1, 1, 18, 3, &slice)); /* every third column */
    need(samba_session_get(f.session, kept(slice)));
    const float *c = samba_tensor_data(wide);
    for (int64_t i = 0; i < 90000; i++)
        assert_true(c[i] == (i % 3 == 1 ? b[i / 18 * 6 + i % 18 / 3] : 0));
    need(samba_tensor_slice(kept(tensor("x", SAMBA_FLOAT32, 2, SHAPE(5000, 9))), 1, 2, 8, 1, &part)); /* rows with gaps between */
    need(samba_session_get(f.session, kept(part)));
    need(samba_session_set(f.session, part));
    assert_memory_equal(values_of(&f, "x"), b, 30000 * sizeof *b);
}

TEST(test_facts)
{
    fixture f;
    begin(&f);
    samba_tensor_info table;
    samba_section_info section;
    assert_int_equal(samba_session_tensor_count(f.session), 13);
    need(samba_session_tensor_info(f.session, 5, &table));
    assert_string_equal(table.name, "table");
    assert_true(table.kind == SAMBA_KIND_PARAMETER && table.rank == 2 && table.shape[0] == 10 && table.bytes == 120);
    assert_int_equal(samba_session_section_count(f.session), 4);
    need(samba_session_section_info(f.session, 2, &section));
    assert_string_equal(section.type, "BCKWD");
    assert_true(section.id == 2 && section.stage_count == 2 && section.flops == 2000 && section.bytes == 200);
    assert_true(samba_session_threads(f.session) >= 1);
}

/* ---- files of weights that fit no more; test_shards has what they may lack, test_schedule goes on from whole ones ---- */
TEST(test_weights_file)
{
    fixture f;
    begin(&f);
    samba_tensor_list list;
    need(samba_session_save(f.session, checkpoint, false));
    need(samba_safetensors_read(context, checkpoint, &list));
    assert_int_equal(list.count, 3);
    run(&f);
    uint64_t before = bits_of(f.session, LEARNED);
    samba_tensor *other = kept(list.tensors[0]);
    list.tensors[0] = tensor(samba_tensor_name(other), SAMBA_FLOAT32, 1, SHAPE(7));
    need(samba_safetensors_write(context, checkpoint, 3, list.tensors, NULL));
    refuse(samba_session_load(f.session, checkpoint), SAMBA_ERROR_SHAPE, "(7) was given");
    samba_tensor_list_free(context, &list);
    assert_true(bits_of(f.session, LEARNED) == before);
}

/* ---- memory ---- */
TEST(test_run_allocates_nothing)
{
    fixture f;
    begin_with(&f, 5000, 1, NULL, SESSION(.threads = 2));
    int64_t calls = counted.calls;
    for (int i = 0; i < 3; i++)
        run(&f);
    f.inputs[1] = f.inputs[0];
    refuse(samba_run(f.session, &f.run), SAMBA_ERROR_NAME, "twice");
    assert_int_equal(counted.calls, calls);
}

static samba_status whole_session(samba_context *of, void *user)
{
    OWN_SESSION *session;
    OWN_TENSOR *w = NULL;
    SAMBA_TRY(samba_session_new(of, pef, user, &session));
    SAMBA_TRY(give_zeros(of, session));
    SAMBA_TRY(samba_run(session, NULL));
    SAMBA_TRY(samba_session_get_by_name(session, "w", &w));
    SAMBA_TRY(samba_session_save(session, checkpoint, true));
    return samba_session_load(session, checkpoint);
}

TEST(test_allocations)
{
    write_plan(5000, 1, NULL);
    fail_each_allocation(whole_session, SESSION(.threads = 2));
    fail_each_allocation(whole_session, SESSION(.threads = 2, .device = "null"));
}

TEST_MAIN_WITH(setup, check_memory, test_training, test_teams, test_hyperparameters, test_refused_runs_transfer_nothing,
               test_wrong_sessions, test_warning, test_fault, test_views_on_the_null_device, test_facts, test_weights_file,
               test_run_allocates_nothing, test_allocations)
