/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates as one loop (device/cpu/tile/update.h): recognised whatever the order of instructions and sources, equal to the
 * naive interpreter of naive_tiles.h to the last bit, on every ISA and several teams, and not taken for what they are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "device/cpu/tile/update.h"
#include "naive_tiles.h"

typedef struct wanted {
    bool adamw, clip, momentum, turned; /* turned: sources of sums and products change sides */
    bool chosen, flag; /* of momentum: a flag says whether it counts; its value */
    bool nesterov, whole; /* where it is chosen: Nesterov's; the gradient counts for 1 in it */
} wanted;

static const int64_t counts[] = {1, 15, 16, 17, 100, 1000, 7850};
static const int64_t none[SAMBA_MAX_RANK] = {0};

/* An operand of fractions between low and high. */
static int fractions(tile_case *t, bool scalar, double low, double high)
{
    int o = scalar ? case_operand(t, SAMBA_FLOAT32, 0, none) : case_contiguous(t, SAMBA_FLOAT32);
    const samba_buffer *buffer = &t->buffers[t->operands[o].buffer];
    int64_t count = 1;
    for (int i = 0; i < t->stage.rank && !scalar; i++)
        count *= t->stage.domain[i];
    for (int64_t i = 0; i < count; i++)
        ((float *)(t->memory + buffer->offset))[i] = (float)(low + (high - low) * rand() / RAND_MAX);
    return o;
}

static int loaded(tile_case *t, int operand)
{
    int d = case_register(t, SAMBA_F32, SAMBA_FULL, 0, -1);
    case_load(t, d, operand);
    return d;
}

static int result_of(tile_case *t, samba_tile op, int a, int b)
{
    int d = case_register(t, SAMBA_F32, SAMBA_FULL, 0, -1);
    case_op(t, op, d, a, b);
    return d;
}

static int either(tile_case *t, const wanted *w, samba_tile op, int a, int b)
{
    return w->turned ? result_of(t, op, b, a) : result_of(t, op, a, b);
}

static int chosen_of(tile_case *t, int condition, int a, int b)
{
    int d = case_register(t, SAMBA_F32, SAMBA_FULL, 0, -1);
    case_emit(t, SAMBA_TILE_where, d, condition, a, b, -1, 0);
    return d;
}

static char *memory_of(const tile_case *t, int operand) { return t->memory + t->buffers[t->operands[operand].buffer].offset; }

static void make_update(tile_case *t, const wanted *w, int rank, const int64_t *domain)
{
    enum { CLIP, DECAY, KEEP, SHARE, KEEP_SQUARE, SHARE_SQUARE, SCALE, EPS, RATE, SCALARS };
    int s[SCALARS], operands[SCALARS], mul = SAMBA_TILE_mul, add = SAMBA_TILE_add, sub = SAMBA_TILE_sub;
    case_begin(t, rank, domain);
    for (int i = 0; i < SCALARS; i++)
        operands[i] = fractions(t, true, 0.001, 0.999);
    int flag = case_operand(t, SAMBA_BOOL, 0, none);
    *(uint8_t *)memory_of(t, flag) = (uint8_t)w->flag;
    if (w->whole)
        *(float *)memory_of(t, operands[SHARE]) = 1;
    int p = fractions(t, false, -1, 1), g = fractions(t, false, -1, 1), m = fractions(t, false, -1, 1), v = fractions(t, false, 0, 1);
    for (int i = 0; i < SCALARS; i++)
        s[i] = loaded(t, operands[i]);
    int active = loaded(t, flag);
    case_setup_ends(t);
    int d = loaded(t, g), before = loaded(t, p), change;
    if (w->clip)
        d = either(t, w, mul, d, s[CLIP]);
    if (w->adamw) {
        int mean = loaded(t, m), square = loaded(t, v);
        mean = either(t, w, add, mean, either(t, w, mul, result_of(t, sub, d, mean), s[SHARE]));
        square = either(t, w, add, either(t, w, mul, square, s[KEEP_SQUARE]), either(t, w, mul, result_of(t, mul, d, d), s[SHARE_SQUARE]));
        case_store(t, square, v);
        case_store(t, mean, m);
        int root = either(t, w, mul, result_of(t, SAMBA_TILE_sqrt, square, -1), s[SCALE]);
        change = either(t, w, mul, result_of(t, SAMBA_TILE_div, mean, either(t, w, add, root, s[EPS])), s[RATE]);
        before = either(t, w, mul, before, s[DECAY]);
    } else {
        d = either(t, w, add, d, either(t, w, mul, before, s[DECAY]));
        if (w->momentum && w->chosen) {
            int kept = loaded(t, m), next = either(t, w, add, either(t, w, mul, kept, s[KEEP]), either(t, w, mul, d, s[SHARE]));
            case_store(t, chosen_of(t, active, next, kept), m);
            d = chosen_of(t, active, w->nesterov ? either(t, w, add, d, either(t, w, mul, next, s[KEEP])) : next, d);
        } else if (w->momentum) {
            d = either(t, w, add, either(t, w, mul, loaded(t, m), s[KEEP]), d);
            case_store(t, d, m);
        }
        change = either(t, w, mul, d, s[RATE]);
    }
    case_store(t, result_of(t, sub, before, change), p);
    case_step(t, 1);
}

static bool is_update(const tile_case *t)
{
    volatile int32_t fault = 0;
    samba_update update;
    samba_prepare prepare = case_prepare(t, NULL, NULL, SAMBA_ISA_generic, 1, t->memory, &fault);
    return samba_update_init(&update, &prepare, &t->stage);
}

static void each_update(void (*check)(const wanted *w, const char *name))
{
    for (int i = 0; i < 256; i++) {
        wanted w = {.adamw = i & 1, .clip = i & 2, .turned = i & 4, .momentum = i & 8, .chosen = i & 16, .flag = i & 32, .nesterov = i & 64, .whole = i & 128};
        if ((w.adamw && i >= 16) || (i >= 16 && !w.momentum) || (i >= 32 && !w.chosen))
            continue;
        char name[160];
        snprintf(name, sizeof name, "%s%s%s%s%s%s%s%s", w.adamw ? "AdamW" : "SGD", w.clip ? ", clipped" : "", w.turned ? ", turned" : "",
                 w.momentum && !w.adamw ? ", momentum" : "", w.chosen ? ", chosen" : "", w.flag ? ", which counts" : "", w.nesterov ? ", Nesterov's" : "",
                 w.whole ? ", whole" : "");
        check(&w, name);
    }
}

static void same_bits(const wanted *w, const char *name)
{
    tile_case t;
    for (int i = 0; i < SAMBA_COUNT(counts); i++) {
        make_update(&t, w, 1, &counts[i]);
        if (counts[i] > 1 && !is_update(&t)) /* of one element, memory and a scalar look alike */
            fail_msg("%s of %lld elements is no update", name, (long long)counts[i]);
        case_check(&t, 0, name);
        case_end(&t);
    }
    make_update(&t, w, 3, (const int64_t[]){3, 1, 50});
    assert_true(is_update(&t));
    case_check(&t, 0, name);
    case_end(&t);
}

static void test_same_bits(void **state)
{
    (void)state;
    srand(1);
    each_update(same_bits);
}

/* Each instruction becomes another, then the gradient a row that all rows share: no updates any more, and still right. */
static void near_misses(const wanted *w, const char *name)
{
    static const int64_t domain[] = {4, 33};
    tile_case t;
    int instructions = 1;
    for (int i = 0; i <= instructions; i++) {
        make_update(&t, w, 2, domain);
        instructions = t.stage.program.instruction_count;
        uint16_t *op = &t.instructions[i].op;
        if (i == instructions)
            t.operands[t.stage.operand_count - 3].strides[0] = 0;
        else if (*op != SAMBA_TILE_load && *op != SAMBA_TILE_store)
            *op = *op == SAMBA_TILE_mul ? SAMBA_TILE_maximum : *op == SAMBA_TILE_sqrt ? SAMBA_TILE_abs : SAMBA_TILE_mul;
        bool changed = i == instructions || (*op != SAMBA_TILE_load && *op != SAMBA_TILE_store);
        if (is_update(&t) == changed)
            fail_msg("%s, instruction %d changed: %s update", name, i, changed ? "an" : "no");
        case_check(&t, 0, name);
        case_end(&t);
    }
}

static void test_near_misses(void **state)
{
    (void)state;
    srand(2);
    each_update(near_misses);
}

/* One store more, or to another place than what was read; another dtype; two steps; a load of what was stored before. */
static void test_refusals(void **state)
{
    (void)state;
    static const int64_t domain[] = {40};
    for (int kind = 0; kind < 5; kind++)
        for (int adamw = 0; adamw < 2; adamw++) {
            wanted w = {.adamw = adamw, .momentum = true};
            tile_case t;
            make_update(&t, &w, 1, domain);
            samba_program *p = &t.stage.program;
            samba_instruction *last = &p->instructions[p->instruction_count - 1];
            assert_true(is_update(&t));
            if (kind == 0) {
                case_store(&t, last->a, case_contiguous(&t, SAMBA_FLOAT32));
                p->steps[0].end++;
            } else if (kind == 1) {
                last->operand = (int16_t)case_contiguous(&t, SAMBA_FLOAT32);
            } else if (kind == 2) {
                last->operand = (int16_t)case_contiguous(&t, SAMBA_BFLOAT16);
            } else if (kind == 3) {
                int first = p->setup; /* the gradient is loaded from where the result will have been stored */
                memmove(&p->instructions[first + 1], &p->instructions[first], sizeof *last * (size_t)(p->instruction_count - first));
                p->instructions[first] = (samba_instruction){.op = SAMBA_TILE_store, .d = -1, .a = 0, .b = -1, .c = -1, .operand = p->instructions[first + 1].operand};
                p->instruction_count++;
                p->steps[0].end++;
            } else {
                p->step_count = 2;
                p->steps[1] = p->steps[0];
                p->steps[0].end = p->steps[1].begin = p->setup + 1;
            }
            assert_false(is_update(&t));
            case_end(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_near_misses), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
