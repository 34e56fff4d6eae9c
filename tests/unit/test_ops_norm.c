/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_norm, group_norm and rms_norm: gradients against differences, expansion against the reference, planes that have
 * statistics of their own and such that are too small for them, and what inference refuses. PyTorch's numbers:
 * tests/operators/norm.py. */
#include "../seed.h"
#include "gradient_check.h"

#define RANDOM(...) drawn(SHAPE(__VA_ARGS__), -1, 1)

static const int rank = 0;

static operand number(double value)
{
    static double values[2];
    values[value != 0] = value;
    return (operand){.dtype = SAMBA_FLOAT64, .rank = rank, .values = &values[value != 0], .constant = true};
}

static samba_attrs batch(double eps)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.batch_norm.eps = eps;
    return attrs;
}

static samba_attrs group(int64_t groups, double eps)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.group_norm.groups = groups;
    attrs.group_norm.eps = eps;
    return attrs;
}

static samba_attrs norm(int64_t dims, double eps)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.norm.dims = dims;
    attrs.norm.eps = eps;
    return attrs;
}

static void test_gradients(void **state)
{
    (void)state;
    uint64_t seed = random_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    static const int64_t shapes[][4] = {{4, 6, 1, 1}, {3, 6, 2, 3}, {2, 6, 5, 7}, {1, 6, 6, 6}, {2, 6, 1, 33}};
    for (int i = 0; i < SAMBA_COUNT(shapes); i++) {
        const int64_t *s = shapes[i];
        for (int training = 0; training < 2; training++) {
            operand running_mean = RANDOM(6), running_var = drawn(SHAPE(6), 0.5, 1.5);
            running_mean.constant = running_var.constant = true; /* buffers: no gradient is given to them */
            operand inputs[6] = {
                RANDOM(s[0], s[1], s[2], s[3]), RANDOM(6), RANDOM(6), running_mean, running_var, number(training)};
            samba_attrs attrs = batch(0.01);
            gradient_check(SAMBA_OP_batch_norm, &attrs, 6, inputs, seed + (uint64_t)i);
        }
        for (int64_t groups = 1; groups <= 6; groups += groups) {
            operand inputs[3] = {RANDOM(s[0], s[1], s[2], s[3]), RANDOM(6), RANDOM(6)};
            samba_attrs attrs = group(groups == 4 ? 6 : groups, 0.01);
            gradient_check(SAMBA_OP_group_norm, &attrs, 3, inputs, seed + (uint64_t)i);
        }
        for (int dims = 1; dims <= 2; dims++) {
            operand inputs[2] = {RANDOM(s[0], s[1], s[2], s[3]), dims == 1 ? RANDOM(s[3]) : RANDOM(s[2], s[3])};
            samba_attrs attrs = norm(dims, 0.01);
            gradient_check(SAMBA_OP_rms_norm, &attrs, 2, inputs, seed + (uint64_t)i);
        }
    }
}

static void test_refusals(void **state)
{
    (void)state;
    operand x = RANDOM(2, 6, 4), c = RANDOM(6), three = RANDOM(3), flat = RANDOM(6), single = RANDOM(6), half = RANDOM(6),
            four = RANDOM(4), whole = x;
    single.dtype = SAMBA_FLOAT32;
    half.dtype = SAMBA_BFLOAT16;
    whole.dtype = SAMBA_INT64;
    const struct {
        samba_op op;
        samba_attrs attrs;
        int count;
        operand inputs[6];
        samba_status status;
    } cases[] = {
        {SAMBA_OP_batch_norm, batch(0), 6, {x, c, c, c, c, number(1)}, SAMBA_OK},
        {SAMBA_OP_batch_norm, batch(-1), 6, {x, c, c, c, c, number(1)}, SAMBA_ERROR_ARGUMENT},
        {SAMBA_OP_batch_norm, batch(0), 6, {flat, c, c, c, c, number(1)}, SAMBA_ERROR_SHAPE},
        {SAMBA_OP_batch_norm, batch(0), 6, {x, three, c, c, c, number(1)}, SAMBA_ERROR_SHAPE},
        {SAMBA_OP_batch_norm, batch(0), 6, {x, c, c, c, three, number(1)}, SAMBA_ERROR_SHAPE},
        {SAMBA_OP_batch_norm, batch(0), 6, {x, c, single, c, c, number(1)}, SAMBA_ERROR_DTYPE},
        {SAMBA_OP_batch_norm, batch(0), 6, {whole, c, c, c, c, number(1)}, SAMBA_ERROR_DTYPE},
        {SAMBA_OP_batch_norm, batch(0), 6, {x, c, c, c, c, c}, SAMBA_ERROR_SHAPE},
        {SAMBA_OP_group_norm, group(3, 0), 3, {x, c, c}, SAMBA_OK},
        {SAMBA_OP_group_norm, group(4, 0), 3, {x, c, c}, SAMBA_ERROR_ARGUMENT},
        {SAMBA_OP_group_norm, group(0, 0), 3, {x, c, c}, SAMBA_ERROR_ARGUMENT},
        {SAMBA_OP_group_norm, group(3, NAN), 3, {x, c, c}, SAMBA_ERROR_ARGUMENT},
        {SAMBA_OP_group_norm, group(3, 0), 3, {x, c, half}, SAMBA_ERROR_DTYPE},
        {SAMBA_OP_rms_norm, norm(1, 0), 2, {x, four}, SAMBA_OK},
        {SAMBA_OP_rms_norm, norm(4, 0), 2, {x, four}, SAMBA_ERROR_ARGUMENT},
        {SAMBA_OP_rms_norm, norm(1, -1), 2, {x, four}, SAMBA_ERROR_ARGUMENT},
        {SAMBA_OP_rms_norm, norm(1, 0), 2, {x, c}, SAMBA_ERROR_SHAPE},
        {SAMBA_OP_rms_norm, norm(1, 0), 2, {whole, four}, SAMBA_ERROR_DTYPE},
    };
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        samba_status status = op_status(cases[i].op, &cases[i].attrs, cases[i].count, cases[i].inputs);
        if (status != cases[i].status)
            fail_msg("case %d: %s, expected %s", i, samba_status_name(status), samba_status_name(cases[i].status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
