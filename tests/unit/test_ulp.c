/* SPDX-License-Identifier: Apache-2.0
 *
 * How far every elementwise float32 function (ulp_functions.h) is from the exact value, in units in the last place (ULP),
 * compiled for each ISA that this machine has; that it never falls between neighbours of the same sign where it should rise; and
 * that it is exact where libm's value is a float.
 *
 * Alone, the program takes every 4099th float from a random one on, random ones, and all near the places where functions change
 * their ways, and windows of neighbours. `test_ulp all [FUNCTION...]` takes all 2^32 floats, in a process for each core (or
 * OMP_NUM_THREADS), and prints the table of docs/accuracy.md. An infinity counts as 2^128, a result below the least normal number
 * in units of 2^-149. A NaN on one side alone and a zero of the wrong sign are infinitely wrong. */
#include "ops/ops.h"
#include "training.h"
#include "ulp_functions.h"
#include <sys/mman.h>
#include <sys/wait.h>

#define CHUNK 4096
#define STEP 4099 /* a prime: its multiples meet all mantissas */
#define NEIGHBOURS 1024
#define WINDOWS 64 /* of neighbours, where functions are neither straight nor at their end */

typedef struct finding {
    double worst;
    float at, beside; /* beside: the second operand */
    uint64_t count, exact, falls;
    float fall; /* one of them is before this */
} finding;
typedef finding findings[FUNCTIONS][SAMBA_ISA_COUNT];

static bool is_here[SAMBA_ISA_COUNT]; /* to ask the CPU takes long */
static void ask_cpu(void)
{
    SAMBA_EACH_KERNELS (isa)
        is_here[isa] = true;
}

/* ---- functions, compiled ---- */
static samba_graph *graph_of(samba_dtype dtype, bool pair)
{
    samba_graph *g;
    OWN_TENSOR *x = tensor("x", dtype, 1, SHAPE(CHUNK)), *y = tensor("y", SAMBA_FLOAT32, 1, SHAPE(CHUNK));
    need(samba_graph_new(context, "f", &g));
    need(samba_graph_add_input(g, x));
    if (pair)
        need(samba_graph_add_input(g, y));
    return g;
}

static samba_function *compiled(samba_graph *g, int isa)
{
    samba_function_options options = samba_function_defaults();
    samba_function *made;
    options.isa = samba_isa_names[isa];
    options.threads = 1;
    need(samba_graph_status(g));
    need(samba_function_new(context, g, &options, &made));
    samba_graph_free(g);
    return made;
}

static samba_value traced(const function *f, samba_value x)
{
    samba_value y = f->traced ? f->traced(x) : f->with ? f->with(x, f->number) : samba_cast(x, f->cast);
    return (f->traced || f->with) && samba_value_dtype(y) != SAMBA_BOOL ? y : samba_cast(y, SAMBA_FLOAT32);
}

static samba_function *compile_function(const function *f, samba_dtype dtype, int isa)
{
    samba_graph *g = graph_of(dtype, false), *slope = NULL;
    samba_output(g, "y", traced(f, samba_input(g, "x")));
    if (!f->slope)
        return compiled(g, isa);
    need(samba_graph_gradient(g, 1, (const char *[]){"x"}, &slope));
    samba_graph_free(g);
    return compiled(slope, isa);
}

static samba_function *compile_pair(const pair_function *f, int isa)
{
    samba_graph *g = graph_of(SAMBA_FLOAT32, true);
    samba_output(g, "z", f->traced(samba_input(g, "x"), samba_input(g, "y")));
    return compiled(g, isa);
}

static samba_function *made[FUNCTIONS][SAMBA_ISA_COUNT];
static samba_function *function_at(int f, int isa)
{
    if (!made[f][isa])
        made[f][isa] = compile_function(&functions[f], SAMBA_FLOAT32, isa);
    return made[f][isa];
}
static void forget_functions(void)
{
    for (int f = 0; f < FUNCTIONS; f++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
            samba_function_free(made[f][isa]), made[f][isa] = NULL;
}

/* ---- errors ---- */
static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline double bounded(double x) { return x > 0x1p128 ? 0x1p128 : x < -0x1p128 ? -0x1p128 : x; }

static inline double per_unit(double x) /* 1 / distance of floats about x */
{
    double size = fabs(x);
    size = size < 0x1p-126 ? 0x1p-126 : size >= 0x1p128 ? 0x1p127 : size;
    uint64_t bits;
    memcpy(&bits, &size, sizeof bits);
    bits = ((UINT64_C(2046) + 23) << 52) - (bits & UINT64_C(0x7ff) << 52);
    memcpy(&size, &bits, sizeof size);
    return size;
}

static inline double error_of(float given, double exact, double scale)
{
    float rounded = (float)exact;
    double error = fabs(bounded(given) - bounded(exact)) * scale;
    bool both = isnan(given) && isnan(exact), one = isnan(given) || isnan(exact);
    bool signs = given == 0 && rounded == 0 && signbit(given) != signbit(rounded);
    return both ? 0 : one || signs ? INFINITY : error;
}

static inline void note(finding *at, double error, float x, float y)
{
    if (error > at->worst)
        *at = (finding){error, x, y, at->count, at->exact, at->falls, at->fall};
}

static inline double scale_at(const function *f, float x, double exact)
{
    return per_unit(f->near[0] < x && x < f->near[1] && fabs(exact) < f->term ? f->term : exact);
}

static inline bool is_same(float given, double exact)
{
    return isnan(exact) ? isnan(given) : given == (float)exact && signbit(given) == signbit((float)exact);
}

/* CHUNK floats; the first n count, whose sizes ascend if `ascending`, all of one sign. */
static void measure(int index, finding *found, const float *x, int n, bool ascending)
{
    static _Alignas(64) float ones[CHUNK], given[CHUNK];
    static double exact[CHUNK];
    const function *f = &functions[index];
    for (int i = 0; i < CHUNK; i++)
        ones[i] = 1;
    for (int i = 0; i < n; i++)
        exact[i] = f->exact(x[i]);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        if (!is_here[isa])
            continue;
        need(samba_function_run_memory(function_at(index, isa), (void *[]){(void *)(uintptr_t)x, ones}, (void *[]){given}));
        finding *at = &found[isa];
        at->count += (uint64_t)n;
        for (int i = 0; i < n; i++) {
            bool right = is_same(given[i], exact[i]);
            at->exact += right;
            if (!right || at->worst < 0.5) /* what is rounded right is half a unit off at most */
                note(at, error_of(given[i], exact[i], scale_at(f, x[i], exact[i])), x[i], 0);
        }
        if (f->shape == NONE || !ascending || n == 0)
            continue;
        bool rises = f->shape == VALLEY || (f->shape == RISING) != (bool)signbit(x[0]);
        for (int i = 1; i < n; i++)
            if (!isnan(x[i]) && (rises ? given[i] < given[i - 1] : given[i] > given[i - 1]))
                at->falls++, at->fall = x[i];
    }
}

static void join(finding *to, const finding *from)
{
    bool worse = from->worst > to->worst || (from->worst == to->worst && fabsf(from->at) < fabsf(to->at));
    *to = (finding){
        worse ? from->worst : to->worst, worse ? from->at : to->at,          0, to->count + from->count, to->exact + from->exact,
        to->falls + from->falls,         from->falls ? from->fall : to->fall};
}

static int report_short(int f, const finding *found)
{
    int count = 0;
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const finding *at = &found[isa];
        if (at->count == 0 || (at->worst <= functions[f].limit && at->falls == 0))
            continue;
        print_error("%s on %s is %g ULP off at %a, %g are allowed; %llu falls, one of them before %a\n", functions[f].name,
                    samba_isa_names[isa], at->worst, (double)at->at, functions[f].limit, (unsigned long long)at->falls,
                    (double)at->fall);
        count++;
    }
    return count;
}

/* A row a function: the greatest error on each ISA and where it is; the least share of right results, the falls of all. */
static void print_head(void)
{
    printf("| function |");
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
        printf(" %s |", samba_isa_names[isa]);
    printf(" at | correctly rounded | falls |\n|");
    for (int column = 0; column < SAMBA_ISA_COUNT + 4; column++)
        printf(" --- |%s", column == SAMBA_ISA_COUNT + 3 ? "\n" : "");
}

static void print_row(const function *f, const finding *found)
{
    const finding *worst = NULL;
    double right = 1;
    unsigned long long falls = 0;
    printf("| `%s` |", f->name);
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
        const finding *at = &found[isa];
        if (at->count == 0) {
            printf(" - |");
            continue;
        }
        printf(" %.3f |", at->worst);
        worst = !worst || at->worst > worst->worst ? at : worst;
        right = fmin(right, (double)at->exact / (double)at->count);
        falls += at->falls;
    }
    char fallen[32] = "";
    if (f->shape != NONE)
        snprintf(fallen, sizeof fallen, "%llu", falls);
    printf(" %.8g | %.4f %% | %s |\n", (double)worst->at, 100 * right, fallen);
}

/* ---- all floats ---- */
enum { BLOCKS = 256, BLOCK = 1 << 24 };

static bool is_wanted(int f, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], functions[f].name) == 0)
            return true;
    return count == 0;
}

/* Chunks overlap by one float, blocks too, so that no two neighbours are parted. */
static void measure_block(int f, int block, finding *found)
{
    static _Alignas(64) float x[CHUNK];
    uint32_t sign = (uint32_t)(block / (BLOCKS / 2)) << 31, first = (uint32_t)(block % (BLOCKS / 2)) * BLOCK, end = first + BLOCK;
    for (uint32_t begin = first > 0 ? first - 1 : 0; begin + 1 < end; begin += CHUNK - 1) {
        int n = end - begin < CHUNK ? (int)(end - begin) : CHUNK;
        for (int i = 0; i < n; i++)
            x[i] = float_of((begin | sign) + (uint32_t)i);
        measure(f, found, x, n, true);
    }
}

/* Every so-many-th block of each function, to the end of this process. */
static void work(int process, int processes, findings *own, int count, char **names)
{
    if (!training_begin())
        exit(1);
    for (int f = 0; f < FUNCTIONS; f++) {
        if (!is_wanted(f, count, names))
            continue;
        if (process == 0)
            fprintf(stderr, "%s\n", functions[f].name);
        for (int block = process; block < BLOCKS; block += processes)
            measure_block(f, block, (*own)[f]);
        forget_functions();
    }
    exit(training_end(0));
}

static int measure_all(int count, char **names)
{
    static findings all;
    const char *asked = getenv("OMP_NUM_THREADS");
    int processes = asked && atoi(asked) > 0 ? atoi(asked) : (int)sysconf(_SC_NPROCESSORS_ONLN), failed = 0;
    size_t size = (size_t)processes * sizeof(findings);
    findings *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    for (int p = 0; p < processes; p++) {
        pid_t child = fork();
        if (child == 0)
            work(p, processes, &shared[p], count, names);
        failed |= child < 0;
    }
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    print_head();
    for (int f = 0; f < FUNCTIONS; f++) {
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
            for (int p = 0; p < processes; p++)
                join(&all[f][isa], &shared[p][f][isa]);
        if (is_wanted(f, count, names))
            print_row(&functions[f], all[f]);
    }
    for (int f = 0; f < FUNCTIONS; f++)
        failed |= report_short(f, all[f]) > 0;
    munmap(shared, size);
    return failed;
}

/* ---- a share of them ---- */
static unsigned seed;
static uint32_t random_bits(void) { return (uint32_t)rand() << 16 ^ (uint32_t)rand(); }

static const float places[] = {0.0f,       1e-38f,      0x1p-126f,   1e-4f,       0.015625f,   0.1f,   0.25f,      0.34657359f,
                               0.5f,       0.6f,        0.70710678f, 0.75f,       0.75179154f, 0.9f,   1.0f,       1.27846456f,
                               1.19243f,   1.41421356f, 3.0f,        3.9192059f,  4.0f,        6.0f,   9.0109134f, 10.77f,
                               14.4f,      15.0f,       16.6355324f, 17.32868f,   20.0f,       25.0f,  80.0f,      87.336548f,
                               88.722839f, 88.3762589f, 103.278931f, 103.972084f, 104.5f,      108.0f, 112.0f,     65504.0f,
                               65520.0f,   16777216.0f, 0x1p127f,    INFINITY};

static void test_share(void **state)
{
    static _Alignas(64) float x[CHUNK];
    uint32_t offset = random_bits() % STEP;
    int failed = 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        finding found[SAMBA_ISA_COUNT] = {{0}};
        for (uint32_t sign = 0; sign < 2; sign++)
            for (uint64_t begin = offset; begin < UINT64_C(1) << 31; begin += (uint64_t)CHUNK * STEP) {
                int n = 0;
                for (; n < CHUNK && begin + (uint64_t)n * STEP < UINT64_C(1) << 31; n++)
                    x[n] = float_of((uint32_t)(begin + (uint64_t)n * STEP) | sign << 31);
                measure(f, found, x, n, true);
            }
        for (int round = 0; round < 16; round++) {
            for (int i = 0; i < CHUNK; i++)
                x[i] = float_of(random_bits());
            measure(f, found, x, CHUNK, false);
        }
        for (int place = 0; place < 2 * LENGTH(places); place++) {
            uint32_t bits, minus = place % 2 ? UINT32_C(1) << 31 : 0;
            memcpy(&bits, &places[place / 2], sizeof bits);
            bits -= bits < NEIGHBOURS ? bits : NEIGHBOURS;
            for (int i = 0; i < 2 * NEIGHBOURS; i++)
                x[i] = float_of((bits + (uint32_t)i) ^ minus);
            measure(f, found, x, 2 * NEIGHBOURS, true);
        }
        for (int window = 0; window < WINDOWS; window++) {
            uint32_t bits = (115 + random_bits() % 20) << 23; /* 2^-12 to 2^7 */
            bits |= random_bits() & 0x807fffffu;
            for (int i = 0; i < 2 * NEIGHBOURS; i++)
                x[i] = float_of(bits + (uint32_t)i);
            measure(f, found, x, 2 * NEIGHBOURS, true);
        }
        failed += report_short(f, found);
    }
    assert_int_equal(failed, 0);
}

/* Functions that have code of their own for AVX-512 have AVX2's bits. */
static void test_bits(void **state)
{
    static _Alignas(64) float x[CHUNK], ones[CHUNK], given[2][CHUNK];
    static const char *const names[] = {"exp", "log", "log2", "log10", "logit"};
    (void)state;
    if (!is_here[SAMBA_ISA_avx512])
        skip();
    for (int f = 0; f < FUNCTIONS; f++)
        for (int i = 0; i < LENGTH(names); i++)
            for (int round = 0; strcmp(functions[f].name, names[i]) == 0 && round < 512; round++) {
                for (int k = 0; k < CHUNK; k++)
                    x[k] = round % 2 ? float_of(random_bits()) : float_of(random_bits() % 0x3f800000u), ones[k] = 1;
                for (int wide = 0; wide < 2; wide++)
                    need(samba_function_run_memory(function_at(f, wide ? SAMBA_ISA_avx512 : SAMBA_ISA_avx2), (void *[]){x, ones},
                                                   (void *[]){given[wide]}));
                for (int k = 0; k < CHUNK; k++)
                    if (memcmp(&given[0][k], &given[1][k], sizeof(float)) != 0 && !(isnan(given[0][k]) && isnan(given[1][k])))
                        fail_msg("%s of %a is %a by AVX2 and %a by AVX-512", names[i], x[k], given[0][k], given[1][k]);
            }
}

/* ---- where libm's value is a float ---- */
/* Integers and halves, powers of 2 and of 10, squares, fractions of whole numbers, with both signs. */
static int candidates(float *x)
{
    int n = 0;
    for (int i = 0; i <= 300; i++)
        x[n++] = (float)i, x[n++] = (float)i + 0.5f;
    for (int i = -149; i <= 127; i++)
        x[n++] = ldexpf(1, i);
    for (int i = 0; i <= 10; i++)
        x[n++] = (float)pow(10, i);
    for (int i = 300; i < 700; i++)
        x[n++] = (float)(i * i), x[n++] = (float)(i * i) / 1024;
    x[n++] = INFINITY, x[n++] = NAN, x[n++] = 0x1.fffffep127f;
    for (int i = 0; i < n; i++)
        x[n + i] = -x[i];
    return 2 * n;
}

static void test_exact(void **state)
{
    static _Alignas(64) float x[CHUNK], given[CHUNK], ones[CHUNK];
    int n = candidates(x), points = 0, failed = 0;
    assert_true(n <= CHUNK);
    for (int i = 0; i < CHUNK; i++)
        ones[i] = 1;
    for (int f = 0; f < FUNCTIONS; f++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
            if (!is_here[isa] || functions[f].with == samba_celu) /* x / 1.5 * 1.5 is not x */
                continue;
            need(samba_function_run_memory(function_at(f, isa), (void *[]){x, ones}, (void *[]){given}));
            for (int i = 0; i < n; i++) {
                double exact = functions[f].exact(x[i]);
                /* 0.5 + x / 4 is no sigmoid, though all digits agree */
                bool series = 0x1p-40f < fabsf(x[i]) && fabsf(x[i]) < 0x1p-12f;
                bool is_float = isnan(exact) || (!series && exact == (double)(float)exact);
                points += is_float;
                if (is_float && !is_same(given[i], exact))
                    failed++, print_error("%s of %a on %s is %a, expected exactly %a\n", functions[f].name, (double)x[i],
                                          samba_isa_names[isa], (double)given[i], exact);
            }
        }
    assert_int_equal(failed, 0);
    printf("%d exact values\n", points);
}

/* ---- all bfloat16 and float16 numbers: float32 inside, rounded once ---- */
static float widened(uint16_t bits, samba_dtype dtype)
{
    return dtype == SAMBA_BFLOAT16 ? samba_bfloat16_to_float(bits) : samba_float16_to_float(bits);
}
static uint16_t narrowed(float x, samba_dtype dtype)
{
    return dtype == SAMBA_BFLOAT16 ? samba_float_to_bfloat16(x) : samba_float_to_float16(x);
}

static void check_halves(int f, samba_dtype dtype, int isa)
{
    static _Alignas(64) float x[CHUNK], wide[CHUNK], ones[CHUNK], float_results[CHUNK];
    static _Alignas(64) uint16_t bits[CHUNK], half_ones[CHUNK], half_results[CHUNK];
    samba_function *narrow = compile_function(&functions[f], dtype, isa);
    samba_tensor_info output;
    need(samba_function_output(narrow, 0, &output));
    for (uint32_t begin = 0; begin < 65536; begin += CHUNK) {
        for (uint32_t i = 0; i < CHUNK; i++) {
            bits[i] = (uint16_t)(begin + i), x[i] = widened(bits[i], dtype);
            ones[i] = 1, half_ones[i] = narrowed(1, dtype);
        }
        need(samba_function_run_memory(function_at(f, isa), (void *[]){x, ones}, (void *[]){wide}));
        need(samba_function_run_memory(narrow, (void *[]){bits, half_ones},
                                       (void *[]){output.dtype == dtype ? (void *)half_results : float_results}));
        for (int i = 0; i < CHUNK; i++) {
            float expected = output.dtype == dtype ? widened(narrowed(wide[i], dtype), dtype) : wide[i];
            float given = output.dtype == dtype ? widened(half_results[i], dtype) : float_results[i];
            if (!is_same(given, expected))
                fail_msg("%s of %s %a on %s is %a, expected %a", functions[f].name, samba_dtype_name(dtype), (double)x[i],
                         samba_isa_names[isa], (double)given, (double)expected);
        }
    }
    samba_function_free(narrow);
}

static void test_halves(void **state)
{
    for (int f = 0; f < FUNCTIONS; f++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)
            if (is_here[isa])
                check_halves(f, SAMBA_BFLOAT16, isa), check_halves(f, SAMBA_FLOAT16, isa);
}

/* ---- two operands ---- */
/* Pairs of any bits, of about the same size, of numbers that models have; first of all, each special one with each. */
static void fill_pairs(float *x, float *y, int round)
{
    static const float special[] = {0.0f, 0x1p-149f, 0x1p-126f, 0.5f, 1.0f, 2.0f, 3.0f, 0x1p64f, 0x1.fffffep127f, INFINITY};
    enum { SPECIAL = LENGTH(special), SIGNED = 2 * SPECIAL + 1 };
    for (int i = 0; i < CHUNK; i++) {
        x[i] = float_of(random_bits());
        y[i] = float_of(random_bits());
        if (round % 3 == 1)
            y[i] = x[i] * (float)(random_bits() % 4096) / 1024;
        if (round % 3 == 2)
            x[i] = ((float)(random_bits() >> 8) - 0x1p23f) * 0x1p-20f, y[i] = ((float)(random_bits() >> 8) - 0x1p23f) * 0x1p-20f;
    }
    for (int i = 0; round == 0 && i < SIGNED * SIGNED; i++) {
        int a = i % SIGNED, b = i / SIGNED;
        x[i] = a == 0 ? NAN : a > SPECIAL ? -special[a - SPECIAL - 1] : special[a - 1];
        y[i] = b == 0 ? NAN : b > SPECIAL ? -special[b - SPECIAL - 1] : special[b - 1];
    }
}

static void test_pairs(void **state)
{
    static _Alignas(64) float x[CHUNK], y[CHUNK], given[CHUNK];
    for (int f = 0; f < PAIR_FUNCTIONS; f++)
        for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++) {
            const pair_function *at = &pair_functions[f];
            if (!is_here[isa])
                continue;
            samba_function *pair = compile_pair(at, isa);
            finding found = {0};
            for (int round = 0; round < 60; round++) {
                fill_pairs(x, y, round);
                need(samba_function_run_memory(pair, (void *[]){x, y}, (void *[]){given}));
                for (int i = 0; i < CHUNK; i++) {
                    double exact = at->exact(x[i], y[i]);
                    found.count++;
                    found.exact += given[i] == (float)exact || (isnan(given[i]) && isnan(exact));
                    note(&found, error_of(given[i], exact, per_unit(exact)), x[i], y[i]);
                }
            }
            samba_function_free(pair);
            if (!(found.worst <= at->limit))
                fail_msg("%s on %s is %g ULP off at %a, %a (seed %u), %g are allowed", at->name, samba_isa_names[isa],
                         found.worst, (double)found.at, (double)found.beside, seed, at->limit);
        }
}

/* Every operator that maps one float to one, and every gradient operator, is in the table. */
static void test_coverage(void **state)
{
    for (int op = 0; op < SAMBA_OP_COUNT; op++) {
        const char *name = samba_op_table[op].name;
        bool grad = strlen(name) > 5 && strcmp(name + strlen(name) - 5, "_grad") == 0, found = false;
        if (samba_ops[op].class_ != SAMBA_MAP || (samba_op_table[op].arity != 1 && !grad) || op == SAMBA_OP_bitwise_not ||
            op == SAMBA_OP_random)
            continue;
        for (int f = 0; f < FUNCTIONS; f++)
            found |= strncmp(functions[f].name, name, strlen(name)) == 0;
        if (!found)
            fail_msg("ulp_functions.h has no row for %s", name);
    }
}

int main(int argc, char **argv)
{
    ask_cpu();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_coverage), cmocka_unit_test(test_share),
                                       cmocka_unit_test(test_bits),     cmocka_unit_test(test_exact),
                                       cmocka_unit_test(test_halves),   cmocka_unit_test(test_pairs)};
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        return measure_all(argc - 2, argv + 2);
    seed = (unsigned)random_seed();
    printf("random floats by seed %u\n", seed);
    srand(seed);
    if (!training_begin())
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_functions();
    return training_end(failed);
}
