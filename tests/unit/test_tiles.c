/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of tile operators, each ISA that this machine has, against plain scalar C (tile_values.h): values special and random,
 * results in place and not, lengths that leave remainders. Whatever C computes exactly must be equal; exp, log, tanh, sigmoid,
 * erf, pow and their like may be off by 4 units in the last place. */
#include "device/cpu/tile/tile.h"
#include "tile_values.h"
#include "tensor/philox.h"

#define MOST 4096
#define SEED 20240607u

static const char *const class_names[3] = {"f32", "f64", "i64"};
static const size_t class_sizes[3] = {sizeof(float), sizeof(double), sizeof(int64_t)};
static const samba_dtype class_dtypes[3] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64};

/* The next ISA's kernels; NULL after the last. */
static const samba_kernels *next_kernels(int *isa)
{
    SAMBA_EACH_KERNELS (i)
        if (i >= *isa) {
            *isa = i + 1;
            return samba_kernels_for((samba_isa)i);
        }
    return NULL;
}

/* ---- values ---- */
static const double special_values[] = {
    0.0,    -0.0,   1.0,    -1.0,      2.0,     -2.0,       0.5,       -0.5,     3.0,      1e-3,         -1e-3,   10.0,
    -10.0,  88.5,   88.8,   -87.5,     -90.0,   -100.0,     -103.9,    -104.5,   89.5,     127.0,        1e-38,   1e-40,
    -1e-40, 1e-45,  3.4e38, -3.4e38,   1e10,    -1e10,      9.3e18,    -9.3e18,  4.3e9,    65504.0,      65519.0, 65520.0,
    6e-8,   2.9e-8, 6.1e-5, 0.3465735, 0.34657, 0.70710678, 1.4142135, 255.5,    -128.5,   2147483648.0, 709.0,   710.5,
    -745.0, -746.0, 1e-308, 5e-324,    1e300,   -1e300,     NAN,       INFINITY, -INFINITY};

static int64_t special_integer(int pick)
{
    static const int64_t small[] = {0,   1,   -1,   2,    -2,  3,   7,     10,    62,     63,   64,
                                    127, 128, -128, -129, 255, 256, 32767, 32768, -32769, 65535};
    static const int64_t great[] = {16777216,         16777217,         2147483647, 2147483648, -2147483649,
                                    9007199254740992, 9007199254740993, INT64_MAX,  INT64_MIN,  -INT64_MAX};
    int at = pick % (LENGTH(small) + LENGTH(great));
    return at < LENGTH(small) ? small[at] : great[at - LENGTH(small)];
}

static double uniform(double low, double high) { return low + (high - low) * rand() / RAND_MAX; }

static tile_value get(int class_, const void *data, int64_t i)
{
    return load_value(class_dtypes[class_], class_, (const char *)data + (size_t)i * class_sizes[class_]);
}

static void put(int class_, void *data, int64_t i, tile_value v)
{
    store_value(class_dtypes[class_], class_, (char *)data + (size_t)i * class_sizes[class_], v);
}

static bool same(int class_, tile_value x, tile_value y)
{
    if (class_ == SAMBA_I64)
        return x.i == y.i;
    return (isnan(x.f) && isnan(y.f)) || x.f == y.f; /* the sign of a zero or NaN counts for nothing */
}

/* Element i of source 0, 1 or 2: the first ones run through all pairs of special values, sources turning at different speeds. */
static void fill(int class_, void *data, int count, int source)
{
    const int specials = LENGTH(special_values);
    for (int i = 0; i < count; i++) {
        int pick = source == 0 ? i : source == 1 ? i % 7 * 13 + i / specials : i / 3;
        double random = i % 3 == 0   ? uniform(-5, 5)
                        : i % 3 == 1 ? uniform(-100, 100)
                                     : ldexp(uniform(-1, 1), (int)uniform(-140, 120));
        bool special = i < specials * specials;
        tile_value v = {.f = special ? special_values[pick % specials] : random};
        if (class_ == SAMBA_I64)
            v.i = special ? special_integer(pick) : (int64_t)uniform(-1e6, 1e6) * (i % 5 == 0 ? INT64_C(1) << 40 : 1);
        put(class_, data, i, v);
    }
}

/* ---- element by element ---- */
static double unit_in_last_place(int class_, double value)
{
    int exponent;
    frexp(value, &exponent);
    if (class_ == SAMBA_F32)
        return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
    return ldexp(1, (exponent < -1021 ? -1021 : exponent) - 53);
}

/* The gelus and their like are asked for as many units of their argument (or of 1, where that is more), times the gradient;
 * those with poles as many of their result, where that is more. */
static bool is_right(int op, int class_, int to, tile_value a, tile_value b, tile_value c, tile_value got, tile_value *want)
{
    switch (value_of(op, class_, to, a, b, c, want)) {
    case EXACT: return same(to, *want, got);
    case OF_VALUE: {
        double rounded = rounded_to(class_, want->f);
        if (isnan(rounded) ? isnan(got.f) : got.f == rounded)
            return true;
        /* docs/accuracy.md: float64's silu and mish are within 5 units; and what is wanted is not always rounded right */
        bool wide = class_ == SAMBA_F64 && (op == SAMBA_TILE_silu || op == SAMBA_TILE_mish);
        return isfinite(rounded) && fabs(got.f - want->f) <= (wide ? 6 : 4) * unit_in_last_place(class_, want->f);
    }
    default: {
        double scale = samba_tile_table[op].form == SAMBA_FORM_BINARY ? fmax(fabs(b.f), 1) : 1;
        if (isnan(a.f))
            return isnan(got.f);
        if (got.f == rounded_to(class_, want->f) || (isnan(got.f) && isnan(want->f))) /* at poles */
            return true;
        const double most = fmax(fmax(fabs(a.f), 1), fabs(want->f));
        return !(fabs(a.f) < 1e6 && fabs(b.f) < 1e30) || fabs(got.f - want->f) <= 8 * scale * unit_in_last_place(class_, most);
    }
    }
}

typedef struct sources {
    char a[MOST * 8], b[MOST * 8], c[MOST * 8];
} sources;

/* n elements, then in place of each source that is as wide as the result. */
static void check_map(const samba_kernels *k, int op, int class_, const sources *s, int64_t n)
{
    static char d[MOST * 8 + 64], in_place[MOST * 8];
    samba_tile_form form = samba_tile_table[op].form;
    samba_map_fn *map = k->map[op][class_];
    int a_class = form == SAMBA_FORM_WHERE ? SAMBA_F32 : class_;
    int to = form == SAMBA_FORM_COMPARE || op == SAMBA_TILE_not_zero ? SAMBA_F32 : class_;
    const size_t bytes = (size_t)n * class_sizes[to];
    memset(d, 0x5a, sizeof d);
    map(d, s->a, s->b, s->c, n);
    for (size_t i = bytes; i < bytes + 64; i++)
        assert_int_equal(d[i], 0x5a);
    for (int64_t i = 0; i < n; i++) {
        tile_value a = get(a_class, s->a, i), b = get(class_, s->b, i), c = get(class_, s->c, i), got = get(to, d, i), want;
        if (!is_right(op, class_, to, a, b, c, got, &want))
            fail_msg("%s %s %s of (%a %lld), (%a %lld): (%a %lld), not (%a %lld)", samba_isa_names[k->isa],
                     samba_tile_table[op].name, class_names[class_], a.f, (long long)a.i, b.f, (long long)b.i, got.f,
                     (long long)got.i, want.f, (long long)want.i);
    }
    if (class_sizes[to] != class_sizes[class_])
        return;
    if (a_class == class_) {
        memcpy(in_place, s->a, sizeof in_place);
        map(in_place, in_place, s->b, s->c, n);
        assert_memory_equal(in_place, d, bytes);
    }
    if (form != SAMBA_FORM_UNARY) {
        memcpy(in_place, s->b, sizeof in_place);
        map(in_place, s->a, in_place, s->c, n);
        assert_memory_equal(in_place, d, bytes);
    }
}

static void test_map(void **state)
{
    static sources s;
    static const int64_t lengths[] = {MOST, 0, 1, 3, 15, 16, 77, 250, 255, 257};
    const samba_kernels *k;
    srand(SEED);
    for (int isa = 0; (k = next_kernels(&isa));)
        for (int op = 0; op < SAMBA_TILE_COUNT; op++)
            for (int class_ = 0; class_ < 3; class_++) {
                if (!k->map[op][class_])
                    continue;
                bool where = samba_tile_table[op].form == SAMBA_FORM_WHERE;
                fill(where ? SAMBA_F32 : class_, s.a, MOST, 0);
                fill(class_, s.b, MOST, 1);
                fill(class_, s.c, MOST, 2);
                for (int i = 0; where && i < MOST; i++)
                    ((float *)s.a)[i] = (float)(i % 2);
                for (int l = 0; l < LENGTH(lengths); l++)
                    check_map(k, op, class_, &s, lengths[l]);
            }
}

/* Every operator of an element-wise form has a kernel for f32, f64, i64 or a reason not to. */
static void test_coverage(void **state)
{
    const samba_kernels *kernels = samba_kernels_for(SAMBA_ISA_generic);
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
    assert_non_null(samba_kernels_for(samba_isa_best()));
    assert_null(samba_kernels_for(SAMBA_ISA_COUNT));
}

static void test_convert(void **state)
{
    static char a[MOST * 8], d[MOST * 8];
    const samba_kernels *k;
    srand(SEED);
    for (int isa = 0; (k = next_kernels(&isa));)
        for (int from = 0; from < 3; from++)
            for (int to = 0; to < 3; to++) {
                fill(from, a, MOST, 0);
                k->convert[from][to](d, a, NULL, NULL, MOST);
                for (int i = 0; i < MOST; i++) {
                    tile_value source = get(from, a, i), want;
                    value_of(SAMBA_TILE_cast, from, to, source, source, source, &want);
                    if (from == SAMBA_I64) {
                        char element[8];
                        samba_store_int64(class_dtypes[to], element, source.i);
                        assert_true(same(to, want, get(to, element, 0)));
                    }
                    if (!same(to, want, get(to, d, i)))
                        fail_msg("%s %s to %s of %a %lld", samba_isa_names[k->isa], class_names[from], class_names[to], source.f,
                                 (long long)source.i);
                }
            }
}

/* ---- memory: every bit pattern of 16 bits, special and random registers, against tensor.h's single elements ---- */
enum { COUNT = 65536 };

static void check_loads(const samba_kernels *k, samba_dtype dtype, char *memory, char *registers, char *apart)
{
    int class_ = samba_class_of(dtype);
    size_t size = samba_dtype_size(dtype);
    for (int i = 0; i < COUNT; i++) {
        uint64_t bits = size <= 2 ? (uint64_t)i : (uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)i;
        memcpy(memory + (size_t)i * size, &bits, size);
    }
    k->load[dtype](registers, memory, COUNT);
    for (int i = 0; i < COUNT; i++) {
        if (!same(class_, load_value(dtype, class_, memory + (size_t)i * size), get(class_, registers, i)))
            fail_msg("%s load %s of element %d", samba_isa_names[k->isa], samba_dtype_name(dtype), i);
    }
    k->load_strided[dtype](apart, memory, 3, COUNT / 3);
    for (int i = 0; i < COUNT / 3; i++)
        assert_true(same(class_, get(class_, registers, 3 * i), get(class_, apart, i)));
}

static void check_stores(const samba_kernels *k, samba_dtype dtype, char *memory, char *registers, char *apart)
{
    int class_ = samba_class_of(dtype);
    size_t size = samba_dtype_size(dtype);
    fill(class_, registers, COUNT, 0);
    k->store[dtype](memory, registers, COUNT);
    for (int i = 0; i < COUNT; i++) {
        char want[8], *at = memory + (size_t)i * size;
        tile_value source = get(class_, registers, i);
        store_value(dtype, class_, want, source);
        bool nan = class_ != SAMBA_I64 && isnan(samba_load_double(dtype, want)) && isnan(samba_load_double(dtype, at));
        if (!nan && memcmp(want, at, size) != 0)
            fail_msg("%s store %s of %a", samba_isa_names[k->isa], samba_dtype_name(dtype), source.f);
    }
    memset(apart, 0, COUNT * 8);
    k->store_strided[dtype](apart, registers, 2, COUNT / 2);
    for (size_t i = 0; i < COUNT / 2; i++)
        assert_memory_equal(apart + 2 * i * size, memory + i * size, size);
}

static void test_load_store(void **state)
{
    static char memory[COUNT * 8], registers[COUNT * 8], apart[COUNT * 8];
    const samba_kernels *k;
    srand(SEED);
    for (int isa = 0; (k = next_kernels(&isa));)
        for (int dtype = 0; dtype < SAMBA_DTYPE_COUNT; dtype++) {
            check_loads(k, (samba_dtype)dtype, memory, registers, apart);
            check_stores(k, (samba_dtype)dtype, memory, registers, apart);
        }
}

/* ---- rows ---- */
enum { LARGEST = 1300 }; /* elements of a tile */
static const int shapes[][2] = {{25, 10}, {16, 16}, {8, 32},  {3, 77},  {2, 128}, {2, 129}, {1, 129},
                                {1, 250}, {1, 256}, {256, 1}, {128, 2}, {4, 64},  {1, 1},   {7, 31},
                                {7, 33},  {85, 3},  {0, 5},   {4, 0},   {1, 512}, {1, 513}, {1, 1300}};

/* Small whole numbers, so that sums are exact in any order; some NaN and infinities for the extremes. */
static void whole_numbers(int class_, char *a, bool specials)
{
    static const double special[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < LARGEST; i++) {
        int value = rand() % 41 - 20, one_of = specials ? rand() % 60 : 9;
        put(class_, a, i,
            class_ == SAMBA_I64 ? (tile_value){.i = value} : (tile_value){.f = one_of < 3 ? special[one_of] : value});
    }
}

/* Products of them are exact in any order: 2, a half and 1 by turns, so that none grows far whatever is
 * taken together, and odd numbers, which wrap. */
static void factors(int class_, char *a)
{
    static const double turns[] = {2, 0.5, 1};
    for (int i = 0; i < LARGEST; i++)
        put(class_, a, i,
            class_ == SAMBA_I64 ? (tile_value){.i = 2 * (rand() % 41) - 41}
                                : (tile_value){.f = (rand() % 2 ? 1 : -1) * turns[i % 3]});
}

static void check_reduce(const samba_kernels *k, int op, int class_, int rows, int cols)
{
    static char a[LARGEST * 8], d[512 * 8];
    void (*const reduce)(void *, const void *, int64_t, int64_t, bool) = (op == SAMBA_TILE_sum    ? k->reduce_sum
                                                                          : op == SAMBA_TILE_prod ? k->reduce_prod
                                                                          : op == SAMBA_TILE_amax ? k->reduce_amax
                                                                                                  : k->reduce_amin)[class_];
    tile_value sums[512];
    for (int r = 0; r < rows; r++)
        sums[r] = fold_start(op, class_);
    for (int chunk = 0; chunk < 3; chunk++) {
        if (op == SAMBA_TILE_prod)
            factors(class_, a);
        else
            whole_numbers(class_, a, op != SAMBA_TILE_sum && chunk != 0);
        reduce(d, a, rows, cols, chunk == 0);
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < cols; c++)
                sums[r] = fold(op, class_, sums[r], get(class_, a, (int64_t)r * cols + c));
            if (!same(class_, sums[r], get(class_, d, r)))
                fail_msg("%s %s %s %d x %d, row %d, chunk %d", samba_isa_names[k->isa], samba_tile_table[op].name,
                         class_names[class_], rows, cols, r, chunk);
        }
    }
}

static void check_argmax(const samba_kernels *k, int class_, int rows, int cols)
{
    static char a[LARGEST * 8], best[512 * 8];
    int64_t where[512], wanted[512];
    tile_value greatest[512];
    for (int chunk = 0; chunk < 3; chunk++) {
        whole_numbers(class_, a, chunk != 0);
        k->reduce_argmax[class_](where, best, a, rows, cols, (int64_t)chunk * cols, chunk == 0);
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < cols; c++) {
                tile_value x = get(class_, a, (int64_t)r * cols + c), now = x;
                if (chunk + c > 0)
                    now = fold(SAMBA_TILE_amax, class_, greatest[r], x);
                if (chunk + c == 0 || !same(class_, now, greatest[r]))
                    wanted[r] = (int64_t)chunk * cols + c;
                greatest[r] = now;
            }
            assert_int_equal(where[r], wanted[r]);
        }
    }
}

static void check_spread_and_sums(const samba_kernels *k, int class_, int rows, int cols)
{
    static char a[LARGEST * 8], d[LARGEST * 8 + 64];
    const int n = rows * cols;
    whole_numbers(class_, a, false);
    memset(d, 0x5a, sizeof d);
    k->spread[class_](d, a, rows, cols);
    for (int i = 0; i < n; i++)
        assert_true(same(class_, get(class_, d, i), get(class_, a, i / cols)));
    assert_int_equal(d[(size_t)n * class_sizes[class_]], 0x5a);
    double sums[LARGEST], total = 0;
    int64_t integers[LARGEST];
    for (int c = 0; c < cols; c++)
        sums[c] = (double)(integers[c] = c);
    k->collect_rows[class_](class_ == SAMBA_I64 ? (void *)integers : sums, a, NULL, rows, cols);
    for (int c = 0; c < cols; c++) {
        double want = c;
        for (int r = 0; r < rows; r++) {
            tile_value x = get(class_, a, (int64_t)r * cols + c);
            want += class_ == SAMBA_I64 ? (double)x.i : x.f;
        }
        assert_true(want == (class_ == SAMBA_I64 ? (double)integers[c] : sums[c]));
        total += want - c;
    }
    assert_true(total == (class_ == SAMBA_F32   ? k->total_f32((const float *)a, n)
                          : class_ == SAMBA_F64 ? k->total_f64((const double *)a, n)
                                                : (double)k->total_i64((const int64_t *)a, n)));
}

/* Sums of few columns, and of products, are those of double row by row, whatever the number of rows: to the last bit. So are
 * those of columns in memory, whose rows lie apart. */
static void test_columns(void **state)
{
    enum { ROWS = 40, COLS = 70 };
    static float a[ROWS * COLS], b[ROWS * COLS];
    const samba_kernels *k;
    srand(SEED);
    for (int i = 0; i < ROWS * COLS; i++) {
        a[i] = (float)rand() / (float)RAND_MAX - 0.5F;
        b[i] = (float)rand() / (float)RAND_MAX - 0.5F;
    }
    for (int isa = 0; (k = next_kernels(&isa));)
        for (int cols = 2; cols <= COLS; cols++)
            for (int rows = 0; rows <= ROWS; rows += 1 + rows / 3)
                for (int product = 0; product < 2; product++) {
                    /* up to the end of what is allocated, where a sanitizer looks */
                    size_t bytes = (size_t)(rows * cols) * sizeof *a;
                    float *x = malloc(bytes + 1), *y = malloc(bytes + 1);
                    double sums[COLS], wanted[COLS], apart[COLS];
                    memcpy(x, a, bytes);
                    memcpy(y, b, bytes);
                    for (int c = 0; c < cols; c++) {
                        sums[c] = wanted[c] = apart[c] = c;
                        for (int r = 0; r < rows; r++)
                            wanted[c] += (double)(product ? x[r * cols + c] * y[r * cols + c] : x[r * cols + c]);
                    }
                    k->collect_rows[SAMBA_F32](sums, x, product ? y : NULL, rows, cols);
                    assert_memory_equal(sums, wanted, (size_t)cols * sizeof *sums);
                    for (int part = 0; part < cols && !product; part += 33) /* some of the columns of wider rows */
                        k->collect_memory[SAMBA_F32](apart + part, x + part, cols, rows, part + 33 < cols ? 33 : cols - part,
                                                     part);
                    assert_true(product || memcmp(apart, wanted, (size_t)cols * sizeof *apart) == 0);
                    free(x);
                    free(y);
                }
    (void)state;
}

/* Of bfloat16 where it lies, and of what is a number alone: some of the columns of wider rows. */
static void test_number_columns(void **state)
{
    enum { ROWS = 40, COLS = 150, WIDEST = 90 };
    static const int widths[] = {1, 2, 7, 8, 9, 31, 33, 63, 64, 65, WIDEST};
    const samba_kernels *k;
    srand(SEED);
    for (int isa = 0; (k = next_kernels(&isa));)
        for (int w = 0; w < (int)(sizeof widths / sizeof *widths); w++)
            for (int rows = 0; rows <= ROWS; rows += 1 + rows / 3) {
                const int cols = widths[w], pitch = rows % 2 ? cols : COLS;
                size_t count = (size_t)(rows > 0 ? (rows - 1) * pitch + cols : 0);
                float *x = malloc(count * sizeof *x + 1); /* up to the end, where a sanitizer looks */
                uint16_t *half = malloc(count * sizeof *half + 1);
                for (size_t i = 0; i < count; i++) {
                    uint32_t bits;
                    x[i] = rand() % 5 ? (float)uniform(-1, 1) : NAN;
                    memcpy(&bits, &x[i], sizeof bits);
                    half[i] = (uint16_t)(bits >> 16);
                    bits &= 0xffff0000u;
                    memcpy(&x[i], &bits, sizeof bits);
                }
                double wanted[WIDEST], all[WIDEST], got[WIDEST];
                for (int c = 0; c < cols; c++) {
                    wanted[c] = all[c] = c;
                    for (int r = 0; r < rows; r++) {
                        double v = (double)x[r * pitch + c];
                        wanted[c] += isnan(v) ? 0 : v;
                        all[c] += v;
                    }
                }
                for (int of = 0; of < 4; of++) {
                    const int kind = of % 2 ? SAMBA_COLLECT_BFLOAT16 : SAMBA_F32;
                    for (int c = 0; c < cols; c++)
                        got[c] = c;
                    (of < 2 ? k->collect_numbers : k->collect_memory)[kind](got, kind == SAMBA_F32 ? (const void *)x : half,
                                                                            pitch, rows, cols, of % 2 * pitch);
                    for (int c = 0; c < cols; c++) {
                        double right = of < 2 ? wanted[c] : all[c];
                        assert_true(got[c] == right || (isnan(got[c]) && isnan(right)));
                    }
                }
                free(x);
                free(half);
            }
    (void)state;
}

/* The same of float64 and of int64, which wraps; and sums of rows into results that lie apart. */
static void test_wide_columns(void **state)
{
    enum { ROWS = 24, COLS = 40 };
    const samba_kernels *k;
    srand(SEED);
    for (int isa = 0; (k = next_kernels(&isa));)
        for (int cols = 2; cols <= COLS; cols++)
            for (int rows = 0; rows <= ROWS; rows += 1 + rows / 3) {
                size_t count = (size_t)(rows * cols);
                double *x = malloc(count * sizeof *x + 1), sums[COLS], wanted[COLS];
                int64_t *n = malloc(count * sizeof *n + 1), totals[COLS], right[COLS];
                for (size_t i = 0; i < count; i++) {
                    x[i] = uniform(-1, 1);
                    n[i] = (int64_t)(((uint64_t)rand() << 33) ^ (uint64_t)rand());
                }
                for (int c = 0; c < cols; c++) {
                    sums[c] = wanted[c] = c;
                    totals[c] = right[c] = INT64_MAX - c;
                    for (int r = 0; r < rows; r++) {
                        wanted[c] += x[r * cols + c];
                        right[c] = (int64_t)((uint64_t)right[c] + (uint64_t)n[r * cols + c]);
                    }
                }
                for (int memory = 0; memory < 2; memory++) {
                    double got[COLS];
                    int64_t all[COLS];
                    memcpy(got, sums, sizeof got);
                    memcpy(all, totals, sizeof all);
                    if (memory) {
                        k->collect_memory[SAMBA_F64](got, x, cols, rows, cols, cols);
                        k->collect_memory[SAMBA_I64](all, n, cols, rows, cols, 0);
                    } else {
                        k->collect_rows[SAMBA_F64](got, x, NULL, rows, cols);
                        k->collect_rows[SAMBA_I64](all, n, NULL, rows, cols);
                    }
                    assert_memory_equal(got, wanted, (size_t)cols * sizeof *got);
                    assert_memory_equal(all, right, (size_t)cols * sizeof *all);
                }
                for (int c = 0; c < cols; c++) { /* of each row, into results that lie two apart */
                    sums[c] = wanted[c] = c;
                    totals[c] = right[c] = INT64_MIN + c;
                }
                for (int r = 0; 2 * r < cols && r < rows; r++) {
                    wanted[2 * r] += k->total_f64(x + r * cols, cols);
                    right[2 * r] = (int64_t)((uint64_t)right[2 * r] + (uint64_t)k->total_i64(n + r * cols, cols));
                }
                k->collect_totals[SAMBA_F64](sums, 2, x, rows < (cols + 1) / 2 ? rows : (cols + 1) / 2, cols);
                k->collect_totals[SAMBA_I64](totals, 2, n, rows < (cols + 1) / 2 ? rows : (cols + 1) / 2, cols);
                assert_memory_equal(sums, wanted, (size_t)cols * sizeof *sums);
                assert_memory_equal(totals, right, (size_t)cols * sizeof *totals);
                free(x);
                free(n);
            }
    (void)state;
}

static void test_rows(void **state)
{
    static const samba_tile reduced[] = {SAMBA_TILE_sum, SAMBA_TILE_prod, SAMBA_TILE_amax, SAMBA_TILE_amin};
    const samba_kernels *k;
    srand(SEED);
    for (int isa = 0; (k = next_kernels(&isa));)
        for (int class_ = 0; class_ < 3; class_++)
            for (int s = 0; s < LENGTH(shapes); s++) {
                for (int op = 0; op < LENGTH(reduced); op++)
                    check_reduce(k, reduced[op], class_, shapes[s][0], shapes[s][1]);
                if (shapes[s][1] > 0)
                    check_argmax(k, class_, shapes[s][0], shapes[s][1]);
                check_spread_and_sums(k, class_, shapes[s][0], shapes[s][1]);
            }
}

/* ---- several instructions in one give the bits of one after the other, and write nothing beyond ---- */
static float *guarded(float *got, int64_t n)
{
    got[n] = 7;
    return got;
}

static void same_floats(const float *got, const float *want, int64_t n)
{
    assert_memory_equal(got, want, (size_t)n * sizeof(float));
    assert_true(got[n] == 7);
}

static void test_gelu_both(void **state)
{
    static sources s;
    static float value[MOST], grad[MOST], want[MOST];
    fill(SAMBA_F32, s.a, MOST, 0);
    for (int i = 0; i < MOST; i++)
        ((float *)s.b)[i] = (float)(i % 7) - 3;
    const samba_kernels *k;
    for (int isa = 0; (k = next_kernels(&isa));) {
        k->gelu_tanh_both(grad, value, (const float *)s.a, (const float *)s.b, MOST);
        for (int slope = 0; slope < 2; slope++) {
            k->map[slope ? SAMBA_TILE_gelu_tanh_grad : SAMBA_TILE_gelu_tanh][SAMBA_F32](want, s.a, s.b, NULL, MOST);
            for (int i = 0; i < MOST; i++)
                assert_true(same(SAMBA_F32, get(SAMBA_F32, slope ? grad : value, i), get(SAMBA_F32, want, i)));
        }
    }
}

static void test_combined(void **state)
{
    static const int ops[3] = {SAMBA_TILE_add, SAMBA_TILE_sub, SAMBA_TILE_mul};
    static float a[LARGEST], b[LARGEST], c[LARGEST], between[LARGEST], want[LARGEST], got[LARGEST + 1];
    srand(SEED);
    for (int i = 0; i < LARGEST; i++)
        a[i] = (float)uniform(-2, 2), b[i] = i % 5 ? (float)uniform(-2, 2) : a[i], c[i] = (float)uniform(-2, 2);
    const samba_kernels *k;
    for (int isa = 0; (k = next_kernels(&isa));) {
        for (int s = 0; s < LENGTH(shapes); s++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
            for (int first = 0; first < 3; first++) {
                for (int then = 0; then < 4; then++) {
                    int op = then == 0 ? SAMBA_TILE_add : then == 3 ? SAMBA_TILE_mul : SAMBA_TILE_sub;
                    k->map[ops[first]][SAMBA_F32](between, a, b, NULL, n);
                    k->map[op][SAMBA_F32](want, then == 2 ? c : between, then == 2 ? between : c, NULL, n);
                    k->combined->pair[0][first][then](guarded(got, n), a, b, c, n);
                    same_floats(got, want, n);
                }
                k->spread[SAMBA_F32](between, b, rows, cols);
                k->map[ops[first]][SAMBA_F32](want, a, between, NULL, n);
                k->combined->rows[first](guarded(got, n), a, b, rows, cols);
                same_floats(got, want, n);
            }
            for (int op = 0; op < 6; op++) {
                k->map[SAMBA_TILE_eq + op][SAMBA_F32](between, a, b, NULL, n);
                k->map[SAMBA_TILE_where][SAMBA_F32](want, between, c, a, n);
                k->combined->select[0][op](guarded(got, n), a, b, c, a, n);
                same_floats(got, want, n);
            }
            for (int kind = 1; kind < 4; kind++) /* one number in the place of b, of c, of both */
                for (int first = 0; first < 6; first++)
                    for (int then = 0; then < 7; then++) {
                        float y[LARGEST], z[LARGEST];
                        for (int64_t i = 0; i < n; i++)
                            y[i] = kind & 1 ? b[n / 2] : b[i], z[i] = kind & 2 ? c[n / 2] : c[i];
                        if (!k->combined->pair[0][first][then])
                            continue;
                        k->combined->pair[0][first][then](want, a, y, z, n);
                        k->combined->pair[kind][first][then](guarded(got, n), a, kind & 1 ? y + n / 2 : b,
                                                             kind & 2 ? z + n / 2 : c, n);
                        same_floats(got, want, n);
                    }
            for (int op = 0; op < 6; op++) {
                float y[LARGEST], yes[LARGEST];
                for (int64_t i = 0; i < n; i++)
                    y[i] = b[0], yes[i] = c[0];
                k->combined->select[0][op](want, a, y, yes, b, n);
                k->combined->select[1][op](guarded(got, n), a, b, c, b, n);
                same_floats(got, want, n);
            }
            for (int kind = 0; kind < 4; kind++) {
                float low[LARGEST], high[LARGEST], zero[LARGEST];
                for (int64_t i = 0; i < n; i++)
                    low[i] = a[0], high[i] = a[n / 2], zero[i] = 0;
                k->combined->select[0][kind / 2 ? 3 : 2](want, a, low, zero, b, n);
                memcpy(between, want, sizeof want);
                k->combined->select[0][kind % 2 ? 5 : 4](want, a, high, zero, between, n);
                k->combined->inside[kind](guarded(got, n), a, b, a, a + n / 2, zero, n);
                same_floats(got, want, n);
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

/* Of norms: what is summed while it is made, values a row, sums of columns of products. */
static void test_combined_norms(void **state)
{
    static float a[LARGEST], b[LARGEST], c[LARGEST], s[LARGEST], t[LARGEST], u[LARGEST], x[LARGEST], y[LARGEST], want[LARGEST],
        got[LARGEST + 1];
    static double want_sums[LARGEST], got_sums[LARGEST + 1];
    float *all[] = {a, b, c, s, t, u};
    srand(SEED);
    for (int i = 0; i < LARGEST; i++)
        for (int k = 0; k < LENGTH(all); k++)
            all[k][i] = i % 7 == k ? -0.0f : (float)uniform(-2, 2);
    const samba_kernels *k;
    for (int isa = 0; (k = next_kernels(&isa));) {
        for (int size = 0; size < LENGTH(shapes); size++) {
            int64_t rows = shapes[size][0], cols = shapes[size][1], n = rows * cols;
            void (*const *by_row)(float *, const float *, const float *, int64_t, int64_t) = k->combined->rows;
            for (int kind = 0; kind < 2 * SAMBA_SUMMED_COUNT; kind++) {
                float sum[2][256], dot[2][256];
                bool first = kind % 2;
                for (int r = 0; r < LENGTH(sum[0]); r++)
                    sum[0][r] = sum[1][r] = (float)r, dot[0][r] = dot[1][r] = (float)-r;
                samba_summed made = (samba_summed)(kind / 2);
                if (made == SAMBA_SUMMED_CENTER)
                    by_row[1](want, a, s, rows, cols);
                else if (made == SAMBA_SUMMED_ADD_ADD)
                    k->combined->pair[0][0][0](want, a, b, c, n);
                else
                    k->map[made == SAMBA_SUMMED_MUL ? SAMBA_TILE_mul : SAMBA_TILE_add][SAMBA_F32](want, a, b, NULL, n);
                if (made != SAMBA_SUMMED_CENTER)
                    k->reduce_sum[SAMBA_F32](sum[0], want, rows, cols, first);
                if (made == SAMBA_SUMMED_CENTER || made == SAMBA_SUMMED_MUL)
                    k->combined->dot(dot[0], want, made == SAMBA_SUMMED_MUL ? c : want, rows, cols, first);
                k->combined->summed[made](guarded(got, n), sum[1], dot[1], a, made == SAMBA_SUMMED_CENTER ? s : b, c, rows, cols,
                                          first);
                same_floats(got, want, n);
                assert_memory_equal(sum[1], sum[0], sizeof sum[0]);
                assert_memory_equal(dot[1], dot[0], sizeof dot[0]);
            }
            for (int kind = 0; kind < SAMBA_NORM_COUNT; kind++) {
                bool affine = kind == SAMBA_NORM_AFFINE, slope = kind == SAMBA_NORM_SLOPE || kind == SAMBA_NORM_SLOPE_ADD;
                by_row[affine ? 2 : 1](x, a, s, rows, cols);
                if (slope) {
                    by_row[2](y, b, t, rows, cols);
                    k->map[SAMBA_TILE_sub][SAMBA_F32](x, x, y, NULL, n);
                }
                if (affine)
                    k->combined->pair[0][2][0](want, x, b, c, n);
                else
                    by_row[2](want, x, slope ? u : t, rows, cols);
                if (kind == SAMBA_NORM_STANDARDIZE_ADD)
                    by_row[0](want, want, u, rows, cols);
                if (kind == SAMBA_NORM_SLOPE_ADD)
                    k->map[SAMBA_TILE_add][SAMBA_F32](want, want, c, NULL, n);
                k->combined->norm[kind](guarded(got, n), a, b, c, s, t, u, rows, cols);
                same_floats(got, want, n);
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
    static const uint64_t starts[] = {0, 1, 2, 3, 4, 255, (UINT64_C(1) << 34) - 5, (UINT64_C(1) << 33) + 3};
    float d[301];
    const samba_kernels *kernels;
    for (int isa = 0; (kernels = next_kernels(&isa));) {
        for (int s = 0; s < LENGTH(starts); s++)
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

TEST_MAIN(test_coverage, test_map, test_convert, test_load_store, test_rows, test_columns, test_number_columns, test_wide_columns,
          test_gelu_both, test_combined, test_combined_norms, test_random)
