/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding: both ways to pair features, angles made and given, a part of the features, refusals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "training.h"

#include <sambaflow/functional.h>

enum { HEADS = 2, TIME = 5, WIDTH = 8, NUMEL = HEADS * TIME * WIDTH };

typedef struct setting {
    bool interleaved, positions, given;
    int64_t dims;
    double base;
} setting;

static void model(samba_graph *g, const void *settings)
{
    const setting *s = settings;
    samba_rotary_options o = samba_rotary_defaults();
    o.interleaved = s->interleaved;
    o.base = s->base;
    o.dims = s->dims;
    if (s->positions)
        o.positions = samba_input(g, "at");
    if (s->given) { /* angles of all pairs of a position are the position: an easy table */
        samba_value at = samba_reshape(samba_cast(samba_input(g, "at"), SAMBA_FLOAT32), 2, SHAPE(TIME, 1));
        samba_value wide = samba_expand(at, 2, SHAPE(TIME, s->dims ? s->dims : WIDTH));
        o.cos = samba_cos(wide), o.sin = samba_sin(wide);
    }
    samba_output(g, "y", samba_rotary_embedding(samba_input(g, "x"), &o));
}

static void test_values(void **state)
{
    (void)state;
    static const setting settings[] = {{false, false, false, 0, 10000}, {true, false, false, 0, 10000},
                                       {false, true, false, 4, 100},    {true, true, false, 6, 500},
                                       {false, false, true, 0, 10000},  {true, false, true, 4, 10000}};
    static const int64_t at[TIME] = {3, 0, 7, 1, 2};
    for (int i = 0; i < SAMBA_COUNT(settings); i++) {
        const setting *s = &settings[i];
        samba_tensor *inputs[] = {normal("x", SAMBA_FLOAT32, 3, SHAPE(HEADS, TIME, WIDTH), 3),
                                  tensor("at", SAMBA_INT64, 1, SHAPE(TIME))};
        samba_tensor *y = tensor("y", SAMBA_FLOAT32, 3, SHAPE(HEADS, TIME, WIDTH));
        memcpy(samba_tensor_data(inputs[1]), at, sizeof at);
        samba_compile_options options = compile_of("rotary", model, s, 2, inputs);
        options.inference = true;
        samba_session *session = compile_and_open(&options, 2, 1);
        samba_run_options run = samba_run_defaults();
        run.inputs = inputs, run.input_count = 2, run.outputs = &y, run.output_count = 1;
        need(samba_run(session, &run));
        const float *x = samba_tensor_data(inputs[0]), *found = samba_tensor_data(y);
        int64_t dims = s->dims ? s->dims : WIDTH;
        for (int row = 0; row < HEADS * TIME; row++) {
            double position = s->positions || s->given ? (double)at[row % TIME] : row % TIME;
            for (int64_t d = 0; d < WIDTH; d++) {
                int64_t pair = s->interleaved ? d / 2 : d % (dims / 2), first = s->interleaved ? 2 * pair : pair,
                        second = s->interleaved ? first + 1 : pair + dims / 2;
                double angle = s->given ? position : position * pow(s->base, -2.0 * (double)pair / (double)dims);
                double a = (double)x[row * WIDTH + first], b = (double)x[row * WIDTH + second];
                double expected = d >= dims    ? (double)x[row * WIDTH + d]
                                  : d == first ? a * cos(angle) - b * sin(angle)
                                               : b * cos(angle) + a * sin(angle);
                if (!(fabs((double)found[row * WIDTH + d] - expected) <= 1e-5)) /* angles up to 7 in float32 */
                    fail_msg("case %d, row %d, feature %lld: %.9g, expected %.9g", i, row, (long long)d,
                             (double)found[row * WIDTH + d], expected);
            }
        }
        samba_tensor_free(inputs[0]);
        samba_tensor_free(inputs[1]);
        samba_tensor_free(y);
        samba_session_free(session);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        samba_graph *g;
        samba_tensor *x = tensor("x", SAMBA_FLOAT32, 3, SHAPE(HEADS, TIME, WIDTH)),
                     *whole = tensor("whole", SAMBA_INT64, 1, SHAPE(4));
        need(samba_graph_new(context, "wrong", &g));
        need(samba_graph_add_input(g, x));
        need(samba_graph_add_input(g, whole));
        samba_value v = samba_input(g, "x"), n = samba_input(g, "whole");
        samba_rotary_options o = samba_rotary_defaults();
        const char *part = "";
        switch (i) {
        case 0:
            o.dims = 5, part = "rotary_embedding: expected an input (..., T, D) and an even number of turned features, 2 to D, "
                               "given float32(2, 5, 8) and 5";
            break;
        case 1: o.dims = 10, part = "2 to D, given float32(2, 5, 8) and 10"; break;
        case 2: o.cos = v, part = "give cos and sin together"; break;
        case 3: o.positions = n, part = "cos and sin (or positions) that broadcast"; break;
        case 4: o.base = 0, part = "base must be more than 0, given 0"; break;
        case 5: v = n, part = "expected a floating-point value, given int64"; break;
        }
        samba_rotary_embedding(v, &o);
        if (samba_graph_status(g) == SAMBA_OK || !strstr(samba_error_message(context), part))
            fail_msg("case %d: \"%s\", expected \"%s\"", i, samba_error_message(context), part);
        samba_graph_free(g);
        samba_tensor_free(x);
        samba_tensor_free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refusals)};
    return training_begin() ? training_end(cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
