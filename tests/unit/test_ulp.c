/* SPDX-License-Identifier: Apache-2.0
 *
 * How far every element-wise float32 kernel is from the exact value, in units in the last place (ULP), on each ISA that this
 * machine has. The exact value is double's, by libm, whose own error is nothing here. Alone, the program takes every 4099th
 * float, random ones, and all near the places where functions change their ways; `test_ulp all [function]` takes all 2^32
 * floats (minutes) and prints the table that docs/performance.md shows.
 *
 * An infinity counts as 2^128, a result below the least normal number in units of 2^-149. A NaN that is none in the exact
 * result, or the other way round, and a zero of the wrong sign are infinitely wrong. For gelu the unit is that of its
 * argument, and nothing is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 4096
#define STEP 4099 /* a prime: its multiples meet all mantissas */
#define NEIGHBOURS 1024

typedef struct function {
    const char *name;
    int op;
    double (*exact)(double);
    double limit;            /* ULP; HALF: correctly rounded */
    bool rising;             /* it never falls as its argument grows; the kernel may, and that is counted */
    bool argument;           /* in units of the argument instead of the result */
} function;

typedef struct finding {
    double worst;
    float at;
    uint64_t count, exact, falls;
} finding;

/* ---- the functions ---- */
static double negative(double x) { return -x; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double relu(double x) { return x < 0 ? 0 : x; }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double reciprocal(double x) { return 1 / x; }
static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double logical_not(double x) { return x == 0; }
static double not_zero(double x) { return x != 0; }
static double to_bfloat16(double x) { return samba_bfloat16_to_float(samba_float_to_bfloat16((float)x)); }
static double to_float16(double x) { return samba_float16_to_float(samba_float_to_float16((float)x)); }
static double silu(double x) { return x == -INFINITY ? NAN : x * sigmoid(x); }
static double mish(double x) { return x == -INFINITY ? NAN : x * tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))); }
static double gelu(double x) { return x * 0.5 * erfc(-x * M_SQRT1_2); }
static double gelu_tanh(double x)
{
    double y = 2 * M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x); /* (1 + tanh(y / 2)) / 2 = sigmoid y */
    return x * sigmoid(y);
}
static double gelu_slope(double x)
{
    double slope = 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) * (M_2_SQRTPI * M_SQRT1_2 / 2);
    return slope == 0 ? -0.0 : slope; /* it leaves double's range from below 0 */
}

#define HALF 0.5000001
static const function functions[] = {
    {"exp", SAMBA_TILE_exp, exp, 4, true, false},
    {"log", SAMBA_TILE_log, log, 4, true, false},
    {"log1p", SAMBA_TILE_log1p, log1p, 4, true, false},
    {"expm1", SAMBA_TILE_expm1, expm1, 4, true, false},
    {"sin", SAMBA_TILE_sin, sin, 4, false, false},
    {"cos", SAMBA_TILE_cos, cos, 4, false, false},
    {"floor", SAMBA_TILE_floor, floor, 0, true, false},
    {"round", SAMBA_TILE_round, nearbyint, 0, true, false},
    {"tanh", SAMBA_TILE_tanh, tanh, 4, true, false},
    {"sigmoid", SAMBA_TILE_sigmoid, sigmoid, 4, true, false},
    {"erf", SAMBA_TILE_erf, erf, 4, true, false},
    {"rsqrt", SAMBA_TILE_rsqrt, rsqrt, 4, false, false},
    {"sqrt", SAMBA_TILE_sqrt, sqrt, HALF, true, false},
    {"reciprocal", SAMBA_TILE_reciprocal, reciprocal, HALF, false, false},
    {"neg", SAMBA_TILE_neg, negative, 0, false, false},
    {"abs", SAMBA_TILE_abs, fabs, 0, false, false},
    {"sign", SAMBA_TILE_sign, sign, 0, true, false},
    {"relu", SAMBA_TILE_relu, relu, 0, true, false},
    {"logical_not", SAMBA_TILE_logical_not, logical_not, 0, false, false},
    {"not_zero", SAMBA_TILE_not_zero, not_zero, 0, false, false},
    {"round_bfloat16", SAMBA_TILE_round_bfloat16, to_bfloat16, 0, true, false},
    {"round_float16", SAMBA_TILE_round_float16, to_float16, 0, true, false},
    {"exp2", SAMBA_TILE_exp2, exp2, 4, true, false},
    {"log2", SAMBA_TILE_log2, log2, 4, true, false},
    {"log10", SAMBA_TILE_log10, log10, 4, true, false},
    {"tan", SAMBA_TILE_tan, tan, 4, false, false},
    {"asin", SAMBA_TILE_asin, asin, 4, true, false},
    {"acos", SAMBA_TILE_acos, acos, 4, false, false},
    {"atan", SAMBA_TILE_atan, atan, 4, true, false},
    {"sinh", SAMBA_TILE_sinh, sinh, 4, true, false},
    {"cosh", SAMBA_TILE_cosh, cosh, 4, false, false},
    {"asinh", SAMBA_TILE_asinh, asinh, 4, true, false},
    {"acosh", SAMBA_TILE_acosh, acosh, 4, true, false},
    {"atanh", SAMBA_TILE_atanh, atanh, 4, true, false},
    {"erfc", SAMBA_TILE_erfc, erfc, 4, false, false},
    {"silu", SAMBA_TILE_silu, silu, 4, false, false},
    {"mish", SAMBA_TILE_mish, mish, 4, false, false},
    {"ceil", SAMBA_TILE_ceil, ceil, 0, true, false},
    {"trunc", SAMBA_TILE_trunc, trunc, 0, true, false},
    {"gelu", SAMBA_TILE_gelu, gelu, INFINITY, false, true},
    {"gelu_tanh", SAMBA_TILE_gelu_tanh, gelu_tanh, INFINITY, false, true},
    {"gelu_grad", SAMBA_TILE_gelu_grad, gelu_slope, 5, false, false},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };
typedef finding findings[FUNCTIONS][SAMBA_ISA_COUNT];

/* ---- measuring ---- */
static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double bounded(double x) { return x > 0x1p128 ? 0x1p128 : x < -0x1p128 ? -0x1p128 : x; }

static double unit_at(double x) /* distance of floats about x */
{
    double size = fabs(x);
    size = size < 0x1p-126 ? 0x1p-126 : size >= 0x1p128 ? 0x1p127 : size;
    uint64_t bits;
    memcpy(&bits, &size, sizeof bits);
    bits &= UINT64_C(0x7ff) << 52;
    memcpy(&size, &bits, sizeof size);
    return size * 0x1p-23;
}

static double error_of(float given, double exact, double about)
{
    if (isnan(exact) || isnan(given))
        return isnan(exact) && isnan(given) ? 0 : INFINITY;
    if (given == 0 && (float)exact == 0)
        return signbit(given) == signbit((float)exact) ? fabs(exact) / 0x1p-149 : INFINITY;
    return fabs(bounded(given) - bounded(exact)) / unit_at(about);
}

/* n floats, ascending as numbers or descending, or in no order. */
static void measure(const function *f, finding *found, const float *x, int n, int order)
{
    double exact[CHUNK];
    float given[CHUNK], ones[CHUNK]; /* a gradient's second operand */
    for (int i = 0; i < n; i++)
        ones[i] = 1;
    for (int i = 0; i < n; i++)
        exact[i] = f->exact(x[i]);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *kernels = samba_kernels_for((samba_isa)isa);
        if (!kernels)
            continue;
        kernels->map[f->op][SAMBA_F32](given, x, ones, NULL, n);
        finding *at = &found[isa];
        at->count += (uint64_t)n;
        for (int i = 0; i < n; i++) {
            at->exact += given[i] == (float)exact[i] || (isnan(given[i]) && isnan(exact[i]));
            double error = error_of(given[i], exact[i], f->argument ? x[i] : exact[i]);
            if (error > at->worst) {
                at->worst = error;
                at->at = x[i];
            }
        }
        for (int i = 1; f->rising && order != 0 && i < n; i++)
            at->falls += order > 0 ? given[i] < given[i - 1] : given[i] > given[i - 1];
    }
}

static void join(findings all, findings part)
{
    for (int f = 0; f < FUNCTIONS; f++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
            finding *to = &all[f][isa], *from = &part[f][isa];
            to->count += from->count, to->exact += from->exact, to->falls += from->falls;
            /* of equals the one with the least bits, so that the table does not depend on threads */
            if (from->worst > to->worst || (from->worst == to->worst && memcmp(&from->at, &to->at, sizeof from->at) < 0)) {
                to->worst = from->worst;
                to->at = from->at;
            }
        }
}

static void print_table(findings all, const char *only)
{
    printf("%-15s %-8s %12s  %-15s %10s %8s\n", "function", "ISA", "greatest ULP", "at", "exact", "falls");
    for (int f = 0; f < FUNCTIONS; f++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
            const finding *at = &all[f][isa];
            if (at->count == 0 || (only && strcmp(only, functions[f].name) != 0))
                continue;
            printf("%-15s %-8s %12.4f  %-15.8g %8.4f %% %8llu\n", functions[f].name, samba_isa_names[isa], at->worst, (double)at->at,
                   100.0 * (double)at->exact / (double)at->count, (unsigned long long)at->falls);
        }
}

/* ---- all floats ---- */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int measure_all(const char *only)
{
    static findings all;
    const int64_t chunks = (INT64_C(1) << 32) / CHUNK;
    int64_t done = 0;
    double start = seconds();
#pragma omp parallel
    {
        findings *own = calloc(1, sizeof *own);
#pragma omp for schedule(dynamic, 64)
        for (int64_t c = 0; c < chunks; c++) {
            float x[CHUNK];
            for (int i = 0; i < CHUNK; i++)
                x[i] = float_of((uint32_t)c * CHUNK + (uint32_t)i);
            for (int f = 0; own && f < FUNCTIONS; f++)
                if (!only || strcmp(only, functions[f].name) == 0)
                    measure(&functions[f], (*own)[f], x, CHUNK, c < chunks / 2 ? 1 : -1);
#pragma omp critical
            if (++done % (chunks / 50) == 0) {
                double spent = seconds() - start;
                fprintf(stderr, "%3.0f %%, %.0f s left\n", 100.0 * (double)done / (double)chunks,
                        spent * (double)(chunks - done) / (double)done);
            }
        }
#pragma omp critical
        if (own)
            join(all, *own);
        free(own);
    }
    print_table(all, only);
    int bad = 0;
    for (int f = 0; f < FUNCTIONS; f++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
            bad |= !(all[f][isa].worst <= functions[f].limit);
    return bad;
}

/* ---- a share of them ---- */
static const float places[] = {0.0f, 1e-38f, 0x1p-126f, 1e-4f, 0.34657359f, 0.70710678f, 0.75179154f, 1.0f, 1.41421356f, 3.9192059f, 4.0f,
                               9.0109134f, 16.6355324f, 17.32868f, 87.336548f, 88.722839f, 88.3762589f, 103.278931f, 103.972084f,
                               104.5f, 65504.0f, 65520.0f, 0x1p127f, INFINITY};

static void test_share(void **state)
{
    (void)state;
    static findings all;
    unsigned seed = (unsigned)time(NULL) ^ (unsigned)getpid();
    printf("random floats by seed %u\n", seed);
    srand(seed);
    float x[CHUNK];
    for (int64_t begin = 0; begin < INT64_C(1) << 32; begin += (int64_t)CHUNK * STEP) {
        int n = 0;
        for (; n < CHUNK && begin + (int64_t)n * STEP < INT64_C(1) << 32; n++)
            x[n] = float_of((uint32_t)(begin + (int64_t)n * STEP));
        for (int f = 0; f < FUNCTIONS; f++)
            measure(&functions[f], all[f], x, n, 0);
    }
    for (int round = 0; round < 16; round++) {
        for (int i = 0; i < CHUNK; i++)
            x[i] = float_of((uint32_t)rand() << 16 ^ (uint32_t)rand());
        for (int f = 0; f < FUNCTIONS; f++)
            measure(&functions[f], all[f], x, CHUNK, 0);
    }
    for (int place = 0; place < 2 * SAMBA_COUNT(places); place++) {
        uint32_t bits, minus = place % 2 ? UINT32_C(1) << 31 : 0;
        memcpy(&bits, &places[place / 2], sizeof bits);
        for (int i = 0; i < 2 * NEIGHBOURS; i++)
            x[i] = float_of((bits - NEIGHBOURS + (uint32_t)i) ^ minus);
        for (int f = 0; f < FUNCTIONS; f++)
            measure(&functions[f], all[f], x, 2 * NEIGHBOURS, 0);
    }
    for (int f = 0; f < FUNCTIONS; f++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
            if (!(all[f][isa].worst <= functions[f].limit)) {
                print_table(all, functions[f].name);
                fail_msg("%s on %s is %g ULP off at %a (seed %u); %g are allowed", functions[f].name, samba_isa_names[isa],
                         all[f][isa].worst, (double)all[f][isa].at, seed, functions[f].limit);
            }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_share)};
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        return measure_all(argc > 2 ? argv[2] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
