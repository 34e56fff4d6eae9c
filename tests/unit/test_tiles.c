/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of tile operators, each ISA that this machine has, against plain scalar C: values special and random, results in
 * place and not, lengths that leave remainders. Whatever C computes exactly must be equal; exp, log, tanh, sigmoid, erf and
 * pow may be off by 4 units in the last place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "device/cpu/tile/tile.h"
#include "tensor/philox.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096
#define SEED 20240607u

typedef union element {
    float f32;
    double f64;
    int64_t i64;
} element;

static const char *const class_names[3] = {"f32", "f64", "i64"};
static const size_t class_sizes[3] = {sizeof(float), sizeof(double), sizeof(int64_t)};

static const samba_kernels *kernels_of(int isa) { return samba_kernels_for((samba_isa)isa); }

/* ---- values ---- */
static const double special_values[] = {
    0.0,    -0.0,   1.0,    -1.0,      2.0,     -2.0,       0.5,       -0.5,     3.0,      1e-3,         -1e-3,   10.0,
    -10.0,  88.5,   88.8,   -87.5,     -90.0,   -100.0,     -103.9,    -104.5,   89.5,     127.0,        1e-38,   1e-40,
    -1e-40, 1e-45,  3.4e38, -3.4e38,   1e10,    -1e10,      9.3e18,    -9.3e18,  4.3e9,    65504.0,      65519.0, 65520.0,
    6e-8,   2.9e-8, 6.1e-5, 0.3465735, 0.34657, 0.70710678, 1.4142135, 255.5,    -128.5,   2147483648.0, 709.0,   710.5,
    -745.0, -746.0, 1e-308, 5e-324,    1e300,   -1e300,     NAN,       INFINITY, -INFINITY};
static const int64_t special_integers[] = {0,
                                           1,
                                           -1,
                                           2,
                                           -2,
                                           3,
                                           7,
                                           127,
                                           128,
                                           -128,
                                           -129,
                                           255,
                                           256,
                                           32767,
                                           32768,
                                           -32769,
                                           65535,
                                           2147483647,
                                           2147483648,
                                           -2147483649,
                                           1 << 24,
                                           (1 << 24) + 1,
                                           INT64_C(1) << 53,
                                           (INT64_C(1) << 53) + 1,
                                           INT64_MAX,
                                           INT64_MIN,
                                           INT64_MIN + 1,
                                           10,
                                           62,
                                           63,
                                           64};

static double uniform(double low, double high) { return low + (high - low) * rand() / RAND_MAX; }

static element make(int class_, int i, int salt)
{
    element e = {.i64 = 0};
    int specials = SAMBA_COUNT(special_values), integers = SAMBA_COUNT(special_integers);
    /* the first elements run through all pairs of special values, sources turning at different speeds */
    int pick = salt == 0 ? i : salt == 1 ? i % 7 * 13 + i / specials : i / 3;
    double random = i % 3 == 0   ? uniform(-5, 5)
                    : i % 3 == 1 ? uniform(-100, 100)
                                 : ldexp(uniform(-1, 1), (int)uniform(-140, 120));
    bool special = i < specials * specials;
    if (class_ == SAMBA_F32)
        e.f32 = (float)(special ? special_values[pick % specials] : random);
    else if (class_ == SAMBA_F64)
        e.f64 = special ? special_values[pick % specials] : random;
    else
        e.i64 = special ? special_integers[pick % integers] : (int64_t)uniform(-1e6, 1e6) * (i % 5 == 0 ? INT64_C(1) << 40 : 1);
    return e;
}

static element get(int class_, const void *data, int64_t i)
{
    element e = {.i64 = 0};
    memcpy(&e, (const char *)data + (size_t)i * class_sizes[class_], class_sizes[class_]);
    return e;
}

static void put(int class_, void *data, int64_t i, element e)
{
    memcpy((char *)data + (size_t)i * class_sizes[class_], &e, class_sizes[class_]);
}

/* ---- references ---- */
static double approximate(int op, double x, double y)
{
    switch (op) {
    case SAMBA_TILE_exp: return exp(x);
    case SAMBA_TILE_log: return log(x);
    case SAMBA_TILE_log1p: return log1p(x);
    case SAMBA_TILE_expm1: return expm1(x);
    case SAMBA_TILE_sin: return sin(x);
    case SAMBA_TILE_cos: return cos(x);
    case SAMBA_TILE_tanh: return tanh(x);
    case SAMBA_TILE_sigmoid: return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
    case SAMBA_TILE_erf: return erf(x);
    case SAMBA_TILE_exp2: return exp2(x);
    case SAMBA_TILE_log2: return log2(x);
    case SAMBA_TILE_log10: return log10(x);
    case SAMBA_TILE_tan: return tan(x);
    case SAMBA_TILE_asin: return asin(x);
    case SAMBA_TILE_acos: return acos(x);
    case SAMBA_TILE_atan: return atan(x);
    case SAMBA_TILE_sinh: return sinh(x);
    case SAMBA_TILE_cosh: return cosh(x);
    case SAMBA_TILE_asinh: return asinh(x);
    case SAMBA_TILE_acosh: return acosh(x);
    case SAMBA_TILE_atanh: return atanh(x);
    case SAMBA_TILE_erfc: return erfc(x);
    case SAMBA_TILE_atan2: return atan2(x, y);
    case SAMBA_TILE_hypot: return hypot(x, y);
    case SAMBA_TILE_silu: return x * (x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)));
    case SAMBA_TILE_mish: return x * tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
    case SAMBA_TILE_pow: return pow(x, y);
    default: return 0;
    }
}

/* gelu and its gradient are asked for as many units of their argument (or of 1, where that is more), times the gradient. */
static bool gelu_of(int op, double x, double y, double *exact)
{
    double bent = M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x), t = tanh(bent), cdf = 0.5 * erfc(-x * M_SQRT1_2);
    double s = 1 / (1 + exp(-x)), m = tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
    switch (op) {
    case SAMBA_TILE_gelu: *exact = x * cdf; return true;
    case SAMBA_TILE_gelu_grad: *exact = y * (cdf + x * exp(-0.5 * x * x) * (M_2_SQRTPI * M_SQRT1_2 / 2)); return true;
    case SAMBA_TILE_gelu_tanh: *exact = 0.5 * x * (1 + t); return true;
    case SAMBA_TILE_silu_grad: *exact = y * (s + x * s * (1 - s)); return true;
    case SAMBA_TILE_mish_grad: *exact = y * (m + x * s * (1 - m * m)); return true;
    case SAMBA_TILE_gelu_tanh_grad:
        *exact = y * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * M_2_SQRTPI * M_SQRT1_2 * (1 + 3 * 0.044715 * x * x));
        return true;
    default: return false;
    }
}

static bool is_approximate(int op, int class_)
{
    static const samba_tile ops[] = {SAMBA_TILE_exp,   SAMBA_TILE_log,   SAMBA_TILE_tanh,  SAMBA_TILE_sigmoid, SAMBA_TILE_erf,
                                     SAMBA_TILE_pow,   SAMBA_TILE_log1p, SAMBA_TILE_expm1, SAMBA_TILE_sin,     SAMBA_TILE_cos,
                                     SAMBA_TILE_exp2,  SAMBA_TILE_log2,  SAMBA_TILE_log10, SAMBA_TILE_tan,     SAMBA_TILE_asin,
                                     SAMBA_TILE_acos,  SAMBA_TILE_atan,  SAMBA_TILE_sinh,  SAMBA_TILE_cosh,    SAMBA_TILE_asinh,
                                     SAMBA_TILE_acosh, SAMBA_TILE_atanh, SAMBA_TILE_erfc,  SAMBA_TILE_atan2,   SAMBA_TILE_hypot,
                                     SAMBA_TILE_silu,  SAMBA_TILE_mish};
    bool found = false;
    for (int i = 0; i < SAMBA_COUNT(ops); i++)
        found |= op == (int)ops[i];
    return found && class_ != SAMBA_I64;
}

static int64_t power(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)x;
    for (; y; y >>= 1, base *= base)
        if (y & 1)
            result *= base;
    return (int64_t)result;
}

static double remainder_of(double x, double y)
{
    double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/* Python's: the rest is exact, the quotient of what it leaves may be a digit off. */
static double floor_quotient(double x, double y)
{
    double rest = fmod(x, y), quotient = (x - rest) / y - (rest != 0 && (rest < 0) != (y < 0));
    return y == 0 ? x / y : isnan(quotient) ? NAN : quotient - floor(quotient) > 0.5 ? floor(quotient) + 1 : floor(quotient);
}

#define FLOAT_OPS(type, root, absolute, below, nearest)                                                                          \
    switch (op) {                                                                                                                \
    case SAMBA_TILE_neg: return -x;                                                                                              \
    case SAMBA_TILE_abs: return absolute(x);                                                                                     \
    case SAMBA_TILE_sign: return (type)(x > 0 ? 1 : x < 0 ? -1 : 0);                                                             \
    case SAMBA_TILE_floor: return below(x);                                                                                      \
    case SAMBA_TILE_ceil: return -below(-x);                                                                                     \
    case SAMBA_TILE_trunc: return x < 0 ? -below(-x) : below(x);                                                                 \
    case SAMBA_TILE_copysign: return signbit(y) ? -absolute(x) : absolute(x);                                                    \
    case SAMBA_TILE_fmod: return (type)fmod(x, y);                                                                               \
    case SAMBA_TILE_remainder: return (type)remainder_of(x, y);                                                                  \
    case SAMBA_TILE_floor_divide: return (type)floor_quotient(x, y);                                                             \
    case SAMBA_TILE_trunc_divide: return (type)trunc((type)(x / y));                                                             \
    case SAMBA_TILE_round: return nearest(x);                                                                                    \
    case SAMBA_TILE_sqrt: return root(x);                                                                                        \
    case SAMBA_TILE_rsqrt: return 1 / root(x);                                                                                   \
    case SAMBA_TILE_reciprocal: return 1 / x;                                                                                    \
    case SAMBA_TILE_relu: return isnan(x) ? x : x < 0 ? 0 : x;                                                                   \
    case SAMBA_TILE_logical_not: return x == 0;                                                                                  \
    case SAMBA_TILE_add: return x + y;                                                                                           \
    case SAMBA_TILE_sub: return x - y;                                                                                           \
    case SAMBA_TILE_mul: return x * y;                                                                                           \
    case SAMBA_TILE_div: return x / y;                                                                                           \
    case SAMBA_TILE_maximum: return isnan(x) ? x : isnan(y) ? y : x > y ? x : y;                                                 \
    case SAMBA_TILE_minimum: return isnan(x) ? x : isnan(y) ? y : x < y ? x : y;                                                 \
    default: fail_msg("no reference for %s", samba_tile_table[op].name); return 0;                                               \
    }
static float exact_f32(int op, float x, float y)
{
    if (op == SAMBA_TILE_round_bfloat16)
        return samba_bfloat16_to_float(samba_float_to_bfloat16(x));
    if (op == SAMBA_TILE_round_float16)
        return samba_float16_to_float(samba_float_to_float16(x));
    FLOAT_OPS(float, sqrtf, fabsf, floorf, nearbyintf)
}
static double exact_f64(int op, double x, double y) { FLOAT_OPS(double, sqrt, fabs, floor, nearbyint) }

static int64_t exact_i64(int op, int64_t x, int64_t y)
{
    uint64_t u = (uint64_t)x, v = (uint64_t)y;
    switch (op) {
    case SAMBA_TILE_neg: return (int64_t)-u;
    case SAMBA_TILE_abs: return x < 0 ? (int64_t)-u : x;
    case SAMBA_TILE_sign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case SAMBA_TILE_floor:
    case SAMBA_TILE_round:
    case SAMBA_TILE_ceil:
    case SAMBA_TILE_trunc: return x;
    case SAMBA_TILE_bitwise_not: return -1 - x;
    case SAMBA_TILE_bitwise_and: return (int64_t)(u & v);
    case SAMBA_TILE_bitwise_or: return (int64_t)(u | v);
    case SAMBA_TILE_bitwise_xor: return (int64_t)(u ^ v);
    case SAMBA_TILE_left_shift: return y < 0 || y > 63 ? 0 : (int64_t)(u << v);
    case SAMBA_TILE_right_shift: return y < 0 || y > 63 ? -(x < 0) : x < 0 ? (int64_t) ~(~u >> v) : (int64_t)(u >> v);
    case SAMBA_TILE_trunc_divide: return y == 0 ? 0 : y == -1 ? (int64_t)-u : x / y;
    case SAMBA_TILE_fmod: return y == 0 || y == -1 ? 0 : x % y;
    case SAMBA_TILE_remainder:
        return y == 0 || y == -1 ? 0 : (int64_t)((uint64_t)(x % y) + (x % y != 0 && (x % y < 0) != (y < 0) ? v : 0));
    case SAMBA_TILE_floor_divide: return y == 0 ? 0 : y == -1 ? (int64_t)-u : x / y - (x % y != 0 && (x < 0) != (y < 0));
    case SAMBA_TILE_relu: return x < 0 ? 0 : x;
    case SAMBA_TILE_logical_not: return x == 0;
    case SAMBA_TILE_add: return (int64_t)(u + v);
    case SAMBA_TILE_sub: return (int64_t)(u - v);
    case SAMBA_TILE_mul: return (int64_t)(u * v);
    case SAMBA_TILE_pow: return power(x, y);
    case SAMBA_TILE_maximum: return x > y ? x : y;
    case SAMBA_TILE_minimum: return x < y ? x : y;
    case SAMBA_TILE_wrap_int32: return (int32_t)x;
    case SAMBA_TILE_wrap_int16: return (int16_t)x;
    case SAMBA_TILE_wrap_int8: return (int8_t)x;
    case SAMBA_TILE_wrap_uint8: return (uint8_t)x;
    default: fail_msg("no reference for %s", samba_tile_table[op].name); return 0;
    }
}

static float compared(int op, int class_, element x, element y)
{
#define ORDER(m) (x.m < y.m ? -1 : x.m > y.m ? 1 : x.m == y.m ? 0 : 2)
    int order = class_ == SAMBA_F32 ? ORDER(f32) : class_ == SAMBA_F64 ? ORDER(f64) : ORDER(i64);
    switch (op) {
    case SAMBA_TILE_eq: return order == 0;
    case SAMBA_TILE_ne: return order != 0;
    case SAMBA_TILE_lt: return order == -1;
    case SAMBA_TILE_le: return order == -1 || order == 0;
    case SAMBA_TILE_gt: return order == 1;
    default: return order == 1 || order == 0;
    }
}

static double unit_in_last_place(int class_, double value)
{
    int exponent;
    frexp(value, &exponent);
    if (class_ == SAMBA_F32)
        return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
    return ldexp(1, (exponent < -1021 ? -1021 : exponent) - 53);
}

static bool same(int class_, element x, element y)
{
    if (class_ == SAMBA_I64)
        return x.i64 == y.i64;
    double p = class_ == SAMBA_F32 ? x.f32 : x.f64, q = class_ == SAMBA_F32 ? y.f32 : y.f64;
    return (isnan(p) && isnan(q)) || p == q; /* the sign of a zero or NaN counts for nothing */
}

static void check_result(const char *isa, int op, int class_, int result_class, element a, element b, element c, element got)
{
    samba_tile_form form = samba_tile_table[op].form;
    element want = {.i64 = 0};
    if (form == SAMBA_FORM_COMPARE)
        want.f32 = compared(op, class_, a, b);
    else if (op == SAMBA_TILE_not_zero)
        want.f32 = class_ == SAMBA_F32 ? a.f32 != 0 : class_ == SAMBA_F64 ? a.f64 != 0 : a.i64 != 0;
    else if (form == SAMBA_FORM_WHERE)
        want = a.f32 != 0 ? b : c;
    else if (class_ != SAMBA_I64 &&
             gelu_of(op, class_ == SAMBA_F32 ? a.f32 : a.f64, class_ == SAMBA_F32 ? b.f32 : b.f64, &want.f64)) {
        double x = class_ == SAMBA_F32 ? a.f32 : a.f64, y = class_ == SAMBA_F32 ? b.f32 : b.f64, exact = want.f64;
        double value = class_ == SAMBA_F32 ? got.f32 : got.f64, scale = form == SAMBA_FORM_BINARY ? fmax(fabs(y), 1) : 1;
        if (fabs(x) < 1e6 && fabs(y) < 1e30 && !(fabs(value - exact) <= 8 * scale * unit_in_last_place(class_, fmax(fabs(x), 1))))
            fail_msg("%s %s %s of %a, %a: %a, exactly %a", isa, samba_tile_table[op].name, class_names[class_], x, y, value,
                     exact);
        if (isnan(x) && !isnan(value))
            fail_msg("%s %s %s of NaN: %a", isa, samba_tile_table[op].name, class_names[class_], value);
        return;
    } else if (is_approximate(op, class_)) {
        double x = class_ == SAMBA_F32 ? a.f32 : a.f64, y = class_ == SAMBA_F32 ? b.f32 : b.f64, exact = approximate(op, x, y);
        double value = class_ == SAMBA_F32 ? got.f32 : got.f64, rounded = class_ == SAMBA_F32 ? (float)exact : exact;
        bool equal = isnan(rounded) ? isnan(value) : value == rounded;
        if (!equal && !(fabs(value - exact) <= 4 * unit_in_last_place(class_, exact) && isfinite(rounded)))
            fail_msg("%s %s %s of %a, %a: %a, exactly %a", isa, samba_tile_table[op].name, class_names[class_], x, y, value,
                     exact);
        return;
    } else if (class_ == SAMBA_F32)
        want.f32 = exact_f32(op, a.f32, b.f32);
    else if (class_ == SAMBA_F64)
        want.f64 = exact_f64(op, a.f64, b.f64);
    else
        want.i64 = exact_i64(op, a.i64, b.i64);
    if (!same(result_class, want, got))
        fail_msg("%s %s %s of (%a %a %lld), (%a %a %lld): (%a %a %lld), not (%a %a %lld)", isa, samba_tile_table[op].name,
                 class_names[class_], a.f32, a.f64, (long long)a.i64, b.f32, b.f64, (long long)b.i64, got.f32, got.f64,
                 (long long)got.i64, want.f32, want.f64, (long long)want.i64);
}

static void test_map(void **state)
{
    (void)state;
    static char a[MOST * 8], b[MOST * 8], c[MOST * 8], d[MOST * 8 + 64], in_place[MOST * 8];
    static const int64_t lengths[] = {MOST, 0, 1, 3, 15, 16, 77, 250, 255, 257};
    srand(SEED);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *kernels = kernels_of(isa);
        for (int op = 0; kernels && op < SAMBA_TILE_COUNT; op++)
            for (int class_ = 0; class_ < 3; class_++) {
                samba_map_fn *map = kernels->map[op][class_];
                if (!map)
                    continue;
                samba_tile_form form = samba_tile_table[op].form;
                int a_class = form == SAMBA_FORM_WHERE ? SAMBA_F32 : class_;
                int d_class = form == SAMBA_FORM_COMPARE || op == SAMBA_TILE_not_zero ? SAMBA_F32 : class_;
                for (int i = 0; i < MOST; i++) {
                    put(a_class, a, i, make(a_class, i, 0));
                    put(class_, b, i, make(class_, i, 1));
                    put(class_, c, i, make(class_, i, 2));
                    if (form == SAMBA_FORM_WHERE)
                        ((float *)a)[i] = (float)(i % 2);
                }
                for (int l = 0; l < SAMBA_COUNT(lengths); l++) {
                    int64_t n = lengths[l];
                    memset(d, 0x5a, sizeof d);
                    map(d, a, b, c, n);
                    for (size_t i = (size_t)n * class_sizes[d_class]; i < (size_t)n * class_sizes[d_class] + 64; i++)
                        assert_int_equal(d[i], 0x5a);
                    for (int64_t i = 0; i < n; i++)
                        check_result(samba_isa_names[isa], op, class_, d_class, get(a_class, a, i), get(class_, b, i),
                                     get(class_, c, i), get(d_class, d, i));
                    if (class_sizes[d_class] == class_sizes[class_] && a_class == class_) {
                        memcpy(in_place, a, sizeof a);
                        map(in_place, in_place, b, c, n);
                        assert_memory_equal(in_place, d, (size_t)n * class_sizes[d_class]);
                    }
                    if (form != SAMBA_FORM_UNARY && class_sizes[d_class] == class_sizes[class_]) {
                        memcpy(in_place, b, sizeof b);
                        map(in_place, a, in_place, c, n);
                        assert_memory_equal(in_place, d, (size_t)n * class_sizes[d_class]);
                    }
                }
            }
    }
}

/* Every operator of an element-wise form has a kernel for f32, f64, i64 or a reason not to. */
static void test_coverage(void **state)
{
    (void)state;
    const samba_kernels *kernels = kernels_of(SAMBA_ISA_generic);
    for (int op = 0; op < SAMBA_TILE_COUNT; op++) {
        samba_tile_form form = samba_tile_table[op].form;
        bool any = kernels->map[op][0] || kernels->map[op][1] || kernels->map[op][2];
        bool wanted = (form >= SAMBA_FORM_UNARY && form <= SAMBA_FORM_ROUND) && op != SAMBA_TILE_cast;
        if (any != wanted)
            fail_msg("%s: kernel %d, wanted %d", samba_tile_table[op].name, any, wanted);
    }
    assert_int_equal(samba_class_of(SAMBA_BOOL), SAMBA_F32);
    assert_int_equal(samba_class_of(SAMBA_FLOAT16), SAMBA_F32);
    assert_int_equal(samba_class_of(SAMBA_FLOAT64), SAMBA_F64);
    assert_int_equal(samba_class_of(SAMBA_UINT8), SAMBA_I64);
    assert_non_null(kernels_of((int)samba_isa_best()));
    assert_null(samba_kernels_for(SAMBA_ISA_COUNT));
}

static void test_convert(void **state)
{
    (void)state;
    static char a[MOST * 8], d[MOST * 8];
    static const samba_dtype dtypes[3] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64};
    srand(SEED);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *kernels = kernels_of(isa);
        for (int from = 0; kernels && from < 3; from++)
            for (int to = 0; to < 3; to++) {
                for (int i = 0; i < MOST; i++)
                    put(from, a, i, make(from, i, 0));
                kernels->convert[from][to](d, a, NULL, NULL, MOST);
                for (int i = 0; i < MOST; i++) {
                    element want = {.i64 = 0}, source = get(from, a, i);
                    if (to == SAMBA_I64)
                        want.i64 = samba_load_int64(dtypes[from], &source);
                    else if (from == SAMBA_I64)
                        samba_store_int64(dtypes[to], &want, source.i64);
                    else
                        samba_store_double(dtypes[to], &want, samba_load_double(dtypes[from], &source));
                    if (!same(to, want, get(to, d, i)))
                        fail_msg("%s %s to %s of %a %lld", samba_isa_names[isa], class_names[from], class_names[to], source.f64,
                                 (long long)source.i64);
                }
            }
    }
}

/* Memory of every bit pattern of 16 bits, and special and random registers, against tensor.h's single elements. */
static void test_load_store(void **state)
{
    (void)state;
    enum { COUNT = 65536 };
    char *memory = malloc(COUNT * 8), *registers = malloc(COUNT * 8), *back = malloc(COUNT * 8);
    srand(SEED);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *kernels = kernels_of(isa);
        for (int dtype = 0; kernels && dtype < SAMBA_DTYPE_COUNT; dtype++) {
            int class_ = samba_class_of((samba_dtype)dtype);
            size_t size = samba_dtype_size((samba_dtype)dtype);
            for (int i = 0; i < COUNT; i++) {
                uint64_t bits = size <= 2 ? (uint64_t)i : (uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)i;
                memcpy(memory + (size_t)i * size, &bits, size);
            }
            kernels->load[dtype](registers, memory, COUNT);
            for (int i = 0; i < COUNT; i++) {
                const void *at = memory + (size_t)i * size;
                element want = {.i64 = 0};
                if (class_ == SAMBA_I64)
                    want.i64 = samba_load_int64((samba_dtype)dtype, at);
                else if (class_ == SAMBA_F64)
                    want.f64 = samba_load_double((samba_dtype)dtype, at);
                else
                    want.f32 = (float)samba_load_double((samba_dtype)dtype, at);
                if (!same(class_, want, get(class_, registers, i)))
                    fail_msg("%s load %s of element %d", samba_isa_names[isa], samba_dtype_name((samba_dtype)dtype), i);
            }
            kernels->load_strided[dtype](back, memory, 3, COUNT / 3);
            for (int i = 0; i < COUNT / 3; i++)
                assert_true(same(class_, get(class_, registers, 3 * i), get(class_, back, i)));
            for (int i = 0; i < COUNT; i++)
                put(class_, registers, i, make(class_, i, 0));
            kernels->store[dtype](memory, registers, COUNT);
            for (int i = 0; i < COUNT; i++) {
                char want[8], *at = memory + (size_t)i * size;
                element source = get(class_, registers, i);
                if (class_ == SAMBA_I64)
                    samba_store_int64((samba_dtype)dtype, want, source.i64);
                else
                    samba_store_double((samba_dtype)dtype, want, class_ == SAMBA_F32 ? source.f32 : source.f64);
                bool nan = class_ != SAMBA_I64 && isnan(samba_load_double((samba_dtype)dtype, want)) &&
                           isnan(samba_load_double((samba_dtype)dtype, at));
                if (!nan && memcmp(want, at, size) != 0)
                    fail_msg("%s store %s of %a", samba_isa_names[isa], samba_dtype_name((samba_dtype)dtype), source.f32);
            }
            memset(back, 0, COUNT * 8);
            kernels->store_strided[dtype](back, registers, 2, COUNT / 2);
            for (size_t i = 0; i < COUNT / 2; i++)
                assert_memory_equal(back + 2 * i * size, memory + i * size, size);
        }
    }
    free(memory);
    free(registers);
    free(back);
}

/* ---- rows ---- */
static element fold(int op, int class_, element sum, element x)
{
    if (op == SAMBA_TILE_sum) {
        sum.i64 = class_ == SAMBA_I64 ? (int64_t)((uint64_t)sum.i64 + (uint64_t)x.i64) : sum.i64;
        if (class_ == SAMBA_F32)
            sum.f32 += x.f32;
        if (class_ == SAMBA_F64)
            sum.f64 += x.f64;
        return sum;
    }
    bool greatest = op == SAMBA_TILE_amax;
    if (class_ == SAMBA_F32)
        return isnan(sum.f32) || (!isnan(x.f32) && (greatest ? sum.f32 >= x.f32 : sum.f32 <= x.f32)) ? sum : x;
    if (class_ == SAMBA_F64)
        return isnan(sum.f64) || (!isnan(x.f64) && (greatest ? sum.f64 >= x.f64 : sum.f64 <= x.f64)) ? sum : x;
    return (greatest ? sum.i64 >= x.i64 : sum.i64 <= x.i64) ? sum : x;
}

enum { LARGEST = 1300 }; /* elements of a tile */
static const int shapes[][2] = {{25, 10}, {16, 16}, {8, 32}, {3, 77}, {2, 128}, {1, 256}, {256, 1}, {128, 2},
                                {1, 1},   {7, 31},  {7, 33}, {85, 3}, {0, 5},   {4, 0},   {1, 1300}};

/* Small whole numbers, so that sums are exact in any order; some NaN and infinities for the extremes. */
static void whole_numbers(int class_, char *a, bool specials)
{
    for (int i = 0; i < LARGEST; i++) {
        int value = rand() % 41 - 20, special = specials ? rand() % 60 : 9;
        double x = special == 0 ? NAN : special == 1 ? INFINITY : special == 2 ? -INFINITY : (double)value;
        element values[3] = {{.f32 = (float)x}, {.f64 = x}, {.i64 = value}};
        put(class_, a, i, values[class_]);
    }
}

static void test_reduce(void **state)
{
    (void)state;
    static char a[LARGEST * 8], d[512 * 8], best[512 * 8];
    int64_t where[512];
    srand(SEED);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *k = kernels_of(isa);
        for (int class_ = 0; k && class_ < 3; class_++)
            for (int s = 0; s < SAMBA_COUNT(shapes); s++) {
                int rows = shapes[s][0], cols = shapes[s][1];
                for (int op = SAMBA_TILE_sum; op <= SAMBA_TILE_amin; op++) {
                    int kind = op - SAMBA_TILE_sum;
                    void (*const *kernels[3])(void *, const void *, int64_t, int64_t, bool) = {k->reduce_sum, k->reduce_amax,
                                                                                               k->reduce_amin};
                    void (*reduce)(void *, const void *, int64_t, int64_t, bool) = kernels[kind][class_];
                    double start = kind == 0 ? 0 : kind == 1 ? -INFINITY : INFINITY;
                    int64_t integer_start = kind == 0 ? 0 : kind == 1 ? INT64_MIN : INT64_MAX;
                    element zeros[3] = {{.f32 = (float)start}, {.f64 = start}, {.i64 = integer_start}}, zero = zeros[class_];
                    element sums[512];
                    for (int r = 0; r < rows; r++)
                        sums[r] = zero;
                    for (int chunk = 0; chunk < 3; chunk++) {
                        whole_numbers(class_, a, op != SAMBA_TILE_sum && chunk != 0);
                        reduce(d, a, rows, cols, chunk == 0);
                        for (int r = 0; r < rows; r++) {
                            for (int c = 0; c < cols; c++)
                                sums[r] = fold(op, class_, sums[r], get(class_, a, (int64_t)r * cols + c));
                            if (!same(class_, sums[r], get(class_, d, r)))
                                fail_msg("%s %s %s %d x %d, row %d, chunk %d", samba_isa_names[isa], samba_tile_table[op].name,
                                         class_names[class_], rows, cols, r, chunk);
                        }
                    }
                }
                if (cols == 0)
                    continue;
                int64_t wanted[512];
                element greatest[512];
                for (int chunk = 0; chunk < 3; chunk++) {
                    whole_numbers(class_, a, chunk != 0);
                    k->reduce_argmax[class_](where, best, a, rows, cols, (int64_t)chunk * cols, chunk == 0);
                    for (int r = 0; r < rows; r++) {
                        for (int c = 0; c < cols; c++) {
                            element x = get(class_, a, (int64_t)r * cols + c),
                                    now = chunk + c ? fold(SAMBA_TILE_amax, class_, greatest[r], x) : x;
                            if (chunk + c == 0 || !same(class_, now, greatest[r]))
                                wanted[r] = (int64_t)chunk * cols + c;
                            greatest[r] = now;
                        }
                        assert_int_equal(where[r], wanted[r]);
                    }
                }
            }
    }
}

static void test_gelu_both(void **state)
{
    (void)state;
    enum { COUNT = 1003 };
    static float x[COUNT], y[COUNT], value[COUNT], grad[COUNT], values[COUNT], grads[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = i < 10 ? (float)(i - 5) * 1e30f : (float)(i - 500) * 0.031f;
        y[i] = (float)(i % 7) - 3;
    }
    x[0] = NAN;
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *k = kernels_of(isa);
        if (!k)
            continue;
        k->gelu_tanh_both(grad, value, x, y, COUNT);
        k->map[SAMBA_TILE_gelu_tanh][SAMBA_F32](values, x, NULL, NULL, COUNT);
        k->map[SAMBA_TILE_gelu_tanh_grad][SAMBA_F32](grads, x, y, NULL, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_true(same(SAMBA_F32, get(SAMBA_F32, value, i), get(SAMBA_F32, values, i)));
            assert_true(same(SAMBA_F32, get(SAMBA_F32, grad, i), get(SAMBA_F32, grads, i)));
        }
    }
}

static void test_spread_and_sums(void **state)
{
    (void)state;
    static char a[LARGEST * 8], d[LARGEST * 8 + 64];
    srand(SEED);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *k = kernels_of(isa);
        for (int class_ = 0; k && class_ < 3; class_++)
            for (int s = 0; s < SAMBA_COUNT(shapes); s++) {
                int rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
                whole_numbers(class_, a, false);
                memset(d, 0x5a, sizeof d);
                k->spread[class_](d, a, rows, cols);
                for (int i = 0; i < n; i++)
                    assert_true(same(class_, get(class_, d, i), get(class_, a, i / cols)));
                assert_int_equal(d[(size_t)n * class_sizes[class_]], 0x5a);
                double sums[LARGEST], total = 0;
                int64_t integers[LARGEST], integer_total = 0;
                for (int c = 0; c < cols; c++)
                    sums[c] = (double)(integers[c] = c);
                k->collect_rows[class_](class_ == SAMBA_I64 ? (void *)integers : sums, a, NULL, rows, cols);
                for (int i = 0; i < n; i++) {
                    element x = get(class_, a, i);
                    total += class_ == SAMBA_F32 ? x.f32 : class_ == SAMBA_F64 ? x.f64 : 0;
                    integer_total += class_ == SAMBA_I64 ? x.i64 : 0;
                }
                for (int c = 0; c < cols; c++) {
                    double want = c;
                    for (int r = 0; r < rows; r++) {
                        element x = get(class_, a, (int64_t)r * cols + c);
                        want += class_ == SAMBA_F32 ? x.f32 : class_ == SAMBA_F64 ? x.f64 : (double)x.i64;
                    }
                    assert_true(want == (class_ == SAMBA_I64 ? (double)integers[c] : sums[c]));
                }
                if (class_ == SAMBA_F32)
                    assert_true(k->total_f32((const float *)a, n) == total);
                else if (class_ == SAMBA_F64)
                    assert_true(k->total_f64((const double *)a, n) == total);
                else
                    assert_int_equal(k->total_i64((const int64_t *)a, n), integer_total);
            }
    }
}

/* Several instructions in one give the bits of one after the other. */
static void test_combined(void **state)
{
    (void)state;
    static const int ops[3] = {SAMBA_TILE_add, SAMBA_TILE_sub, SAMBA_TILE_mul};
    static const int sizes[][2] = {{1, 256}, {1, 250}, {1, 129}, {3, 77}, {4, 64}, {25, 10}, {1, 1}, {0, 5}, {4, 0}, {1, 1300}};
    static float a[LARGEST], b[LARGEST], c[LARGEST], between[LARGEST], want[LARGEST], got[LARGEST + 1];
    srand(SEED);
    for (int i = 0; i < LARGEST; i++)
        a[i] = (float)uniform(-2, 2), b[i] = i % 5 ? (float)uniform(-2, 2) : a[i], c[i] = (float)uniform(-2, 2);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *k = kernels_of(isa);
        for (int s = 0; k && s < SAMBA_COUNT(sizes); s++) {
            int64_t rows = sizes[s][0], cols = sizes[s][1], n = rows * cols;
            for (int first = 0; first < 3; first++) {
                for (int then = 0; then < 4; then++) {
                    int op = then == 0 ? SAMBA_TILE_add : then == 3 ? SAMBA_TILE_mul : SAMBA_TILE_sub;
                    k->map[ops[first]][SAMBA_F32](between, a, b, NULL, n);
                    k->map[op][SAMBA_F32](want, then == 2 ? c : between, then == 2 ? between : c, NULL, n);
                    got[n] = 7;
                    k->combined->pair[first][then](got, a, b, c, n);
                    assert_memory_equal(got, want, (size_t)n * sizeof(float));
                    assert_true(got[n] == 7);
                }
                k->spread[SAMBA_F32](between, b, rows, cols);
                k->map[ops[first]][SAMBA_F32](want, a, between, NULL, n);
                got[n] = 7;
                k->combined->rows[first](got, a, b, rows, cols);
                assert_memory_equal(got, want, (size_t)n * sizeof(float));
                assert_true(got[n] == 7);
            }
            for (int op = 0; op < 6; op++) {
                k->map[SAMBA_TILE_eq + op][SAMBA_F32](between, a, b, NULL, n);
                k->map[SAMBA_TILE_where][SAMBA_F32](want, between, c, a, n);
                got[n] = 7;
                k->combined->select[op](got, a, b, c, a, n);
                assert_memory_equal(got, want, (size_t)n * sizeof(float));
                assert_true(got[n] == 7);
            }
            for (int go_on = 0; go_on < 2; go_on++) {
                memcpy(want, c, sizeof c);
                memcpy(got, c, sizeof c);
                k->map[SAMBA_TILE_mul][SAMBA_F32](between, a, b, NULL, n);
                k->reduce_sum[SAMBA_F32](want, between, rows, cols, !go_on);
                k->combined->dot(got, a, b, rows, cols, !go_on);
                assert_memory_equal(got, want, sizeof want);
            }
        }
    }
}

/* The same of norms: what is summed while it is made, values a row, sums of columns of products.
 * Beyond the results nothing is written. */
static void test_combined_norms(void **state)
{
    (void)state;
    static const int sizes[][2] = {{1, 512}, {1, 250}, {2, 129}, {3, 77}, {4, 64},   {25, 10},
                                   {7, 33},  {1, 1},   {0, 5},   {4, 0},  {1, 1300}, {1, 513}};
    static float a[LARGEST], b[LARGEST], c[LARGEST], s[LARGEST], t[LARGEST], u[LARGEST], x[LARGEST], y[LARGEST], want[LARGEST],
        got[LARGEST + 1];
    static double want_sums[LARGEST], got_sums[LARGEST + 1];
    float *all[] = {a, b, c, s, t, u};
    srand(SEED);
    for (int i = 0; i < LARGEST; i++)
        for (int k = 0; k < SAMBA_COUNT(all); k++)
            all[k][i] = i % 7 == k ? -0.0f : (float)uniform(-2, 2);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *k = kernels_of(isa);
        for (int size = 0; k && size < SAMBA_COUNT(sizes); size++) {
            int64_t rows = sizes[size][0], cols = sizes[size][1], n = rows * cols;
            void (*const *by_row)(float *, const float *, const float *, int64_t, int64_t) = k->combined->rows;
            for (int kind = 0; kind < 2 * SAMBA_SUMMED_COUNT; kind++) {
                float sum[2][32], dot[2][32];
                bool first = kind % 2;
                for (int r = 0; r < 32; r++)
                    sum[0][r] = sum[1][r] = (float)r, dot[0][r] = dot[1][r] = (float)-r;
                samba_summed made = (samba_summed)(kind / 2);
                if (made == SAMBA_SUMMED_CENTER)
                    by_row[1](want, a, s, rows, cols);
                else if (made == SAMBA_SUMMED_ADD_ADD)
                    k->combined->pair[0][0](want, a, b, c, n);
                else
                    k->map[made == SAMBA_SUMMED_MUL ? SAMBA_TILE_mul : SAMBA_TILE_add][SAMBA_F32](want, a, b, NULL, n);
                if (made != SAMBA_SUMMED_CENTER)
                    k->reduce_sum[SAMBA_F32](sum[0], want, rows, cols, first);
                if (made == SAMBA_SUMMED_CENTER || made == SAMBA_SUMMED_MUL)
                    k->combined->dot(dot[0], want, made == SAMBA_SUMMED_MUL ? c : want, rows, cols, first);
                got[n] = 7;
                k->combined->summed[made](got, sum[1], dot[1], a, made == SAMBA_SUMMED_CENTER ? s : b, c, rows, cols, first);
                assert_memory_equal(got, want, (size_t)n * sizeof(float));
                assert_memory_equal(sum[1], sum[0], sizeof sum[0]);
                assert_memory_equal(dot[1], dot[0], sizeof dot[0]);
                assert_true(got[n] == 7);
            }
            for (int kind = 0; kind < SAMBA_NORM_COUNT; kind++) {
                bool affine = kind == SAMBA_NORM_AFFINE, slope = kind == SAMBA_NORM_SLOPE || kind == SAMBA_NORM_SLOPE_ADD;
                by_row[affine ? 2 : 1](x, a, s, rows, cols);
                if (slope) {
                    by_row[2](y, b, t, rows, cols);
                    k->map[SAMBA_TILE_sub][SAMBA_F32](x, x, y, NULL, n);
                }
                if (affine)
                    k->combined->pair[2][0](want, x, b, c, n);
                else
                    by_row[2](want, x, slope ? u : t, rows, cols);
                if (kind == SAMBA_NORM_SLOPE_ADD)
                    k->map[SAMBA_TILE_add][SAMBA_F32](want, want, c, NULL, n);
                got[n] = 7;
                k->combined->norm[kind](got, a, b, c, s, t, u, rows, cols);
                assert_memory_equal(got, want, (size_t)n * sizeof(float));
                assert_true(got[n] == 7);
            }
            for (int64_t i = 0; i < cols; i++)
                want_sums[i] = got_sums[i] = a[i];
            got_sums[cols] = 7;
            k->map[SAMBA_TILE_mul][SAMBA_F32](x, a, b, NULL, n);
            k->collect_rows[SAMBA_F32](want_sums, x, NULL, rows, cols);
            k->collect_rows[SAMBA_F32](got_sums, a, b, rows, cols);
            assert_memory_equal(got_sums, want_sums, (size_t)cols * sizeof(double));
            assert_true(got_sums[cols] == 7);
        }
    }
}

static void test_random(void **state)
{
    (void)state;
    static const uint64_t starts[] = {0, 1, 2, 3, 4, 255, (UINT64_C(1) << 34) - 5, (UINT64_C(1) << 33) + 3};
    float d[301];
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const samba_kernels *kernels = kernels_of(isa);
        for (int s = 0; kernels && s < SAMBA_COUNT(starts); s++)
            for (int64_t n = 0; n <= 300; n += n < 40 ? 1 : 53) {
                uint64_t seed = UINT64_C(0x9876543210abcdef) * (uint64_t)(s + 1);
                d[n] = 7;
                kernels->random(d, seed, starts[s], n);
                assert_true(d[n] == 7);
                for (int64_t i = 0; i < n; i++)
                    assert_true(d[i] == samba_philox_uniform(seed, starts[s] + (uint64_t)i));
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage),        cmocka_unit_test(test_map),       cmocka_unit_test(test_convert),
        cmocka_unit_test(test_load_store),      cmocka_unit_test(test_reduce),    cmocka_unit_test(test_random),
        cmocka_unit_test(test_spread_and_sums), cmocka_unit_test(test_gelu_both), cmocka_unit_test(test_combined),
        cmocka_unit_test(test_combined_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
