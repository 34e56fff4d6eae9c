/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates as one loop (device/cpu/tile/update.h): programs of every rule of updates.def with every set of flags,
 * recognised whatever the order of sources, equal to the naive interpreter of naive_tiles.h to the last bit, on every ISA and
 * several teams, and not taken for what they are not. */
#include "device/cpu/tile/update.h"
#include "naive_tiles.h"

typedef struct wanted {
    int rule;
    unsigned flags;
    bool turned; /* sources of sums and products change sides */
} wanted;

static const int64_t counts[] = {1, 15, 16, 17, 100, 1000, 7850};

/* An operand of fractions between low and high. */
static int fractions(tile_case *t, bool scalar, double low, double high)
{
    int o = case_layout(t, "", SAMBA_FLOAT32, scalar ? "" : NULL);
    int64_t count = 1;
    for (int i = 0; i < t->stage.rank && !scalar; i++)
        count *= t->stage.domain[i];
    for (int64_t i = 0; i < count; i++)
        ((float *)case_memory(t, o))[i] = (float)(low + (high - low) * rand() / RAND_MAX);
    return o;
}

static int value_by(tile_case *t, samba_tile op, int a, int b, int c, int operand)
{
    int d = case_register(t, SAMBA_F32, SAMBA_FULL, 0, -1);
    case_emit(t, op, d, a, b, c, operand, 0);
    return d;
}

static int loaded(tile_case *t, int operand) { return value_by(t, SAMBA_TILE_load, -1, -1, -1, operand); }
static int result_of(tile_case *t, samba_tile op, int a, int b) { return value_by(t, op, a, b, -1, -1); }
static int chosen_of(tile_case *t, int if_so, int a, int b) { return value_by(t, SAMBA_TILE_where, if_so, a, b, -1); }

static int either(tile_case *t, const wanted *w, samba_tile op, int a, int b)
{
    return w->turned ? result_of(t, op, b, a) : result_of(t, op, a, b);
}

/* ---- the rules as tile programs ---- */
typedef struct building {
    tile_case *t;
    const wanted *w;
    unsigned flags;
    int numbers[SAMBA_UPDATE_NUMBERS], number_count, condition;   /* registers, loaded in setup */
    int parameter_operand, gradient_operand, state[SAMBA_STATES]; /* operands */
    int parameter, gradient, before[SAMBA_STATES];                /* registers; 0: not loaded yet */
} building;

static int state_of(building *x, int state)
{
    if (!x->before[state])
        x->before[state] = loaded(x->t, x->state[state]);
    return x->before[state];
}

static void begin_elements(building *x)
{
    case_setup_ends(x->t);
    x->gradient = loaded(x->t, x->gradient_operand), x->parameter = loaded(x->t, x->parameter_operand);
    if (x->flags & SAMBA_FLAG_CLIP)
        x->gradient = either(x->t, x->w, SAMBA_TILE_mul, x->gradient, x->numbers[SAMBA_UPDATE_NUMBERS - 1]);
    if (x->flags & SAMBA_FLAG_MAXIMIZE)
        x->gradient = result_of(x->t, SAMBA_TILE_neg, x->gradient, -1);
}

#define UNARY(op, a) result_of(x->t, SAMBA_TILE_##op, a, -1)
#define BINARY(op, a, b) result_of(x->t, SAMBA_TILE_##op, a, b)
#define EITHER(op, a, b) either(x->t, x->w, SAMBA_TILE_##op, a, b)
#define VALUE int
#define RULE(name) static void name(building *x)
#define EACH_ELEMENT begin_elements(x);
#define IS(flag) ((x->flags & SAMBA_FLAG_##flag) != 0)
#define KEEP_TOTAL(state, value)
#define SCALAR(name, value)
#define CONDITION(name, value) const int name = x->condition
#define NUMBER(name, value) const int name = x->numbers[x->number_count++]
#define PARAMETER (x->parameter)
#define GRADIENT (x->gradient)
#define BEFORE(which) state_of(x, SAMBA_STATE_##which)
#define KEEP(which, value) case_store(x->t, value, x->state[SAMBA_STATE_##which])
#define KEEP_WHILE(condition, which, value) KEEP(which, chosen_of(x->t, condition, value, BEFORE(which)))
#define CHOOSE(condition, a, b) chosen_of(x->t, condition, a, b)
#define RESULT(value) case_store(x->t, value, x->parameter_operand)
#define ADD(a, b) EITHER(add, a, b)
#define SUB(a, b) BINARY(sub, a, b)
#define MUL(a, b) EITHER(mul, a, b)
#define DIV(a, b) BINARY(div, a, b)
#define MAXIMUM(a, b) EITHER(maximum, a, b)
#define SQRT(a) UNARY(sqrt, a)
#define ABS(a) UNARY(abs, a)
#define SIGN(a) UNARY(sign, a)
#include "updates.def"

static const struct {
    const char *name;
    void (*rule)(building *x);
    unsigned may, fixed;
} rules[SAMBA_UPDATE_RULES] = {
#define SET(flag) | SAMBA_FLAG_##flag
#define HAS(flag) | SAMBA_FLAG_##flag
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    {#name, rule, ((branch) ? SAMBA_FLAG_ACTIVE : 0)flags, 0 fixed},
#define EARLIER(rule) {#rule, rule, 0, 0},
#include "optimizers.def"
};

static void make_update(tile_case *t, const wanted *w, int rank, const int64_t *domain)
{
    building x = {.t = t, .w = w, .flags = w->flags | rules[w->rule].fixed};
    int operands[SAMBA_UPDATE_NUMBERS];
    case_begin(t, rank, domain);
    for (int i = 0; i < SAMBA_UPDATE_NUMBERS; i++)
        operands[i] = fractions(t, true, 0.001, 0.999);
    int flag = case_layout(t, "", SAMBA_BOOL, "");
    *(uint8_t *)case_memory(t, flag) = (w->flags & SAMBA_FLAG_ACTIVE) != 0;
    x.parameter_operand = fractions(t, false, -1, 1), x.gradient_operand = fractions(t, false, -1, 1);
    for (int i = 0; i < SAMBA_STATES; i++)
        x.state[i] = fractions(t, false, 0.001, 1);
    for (int i = 0; i < SAMBA_UPDATE_NUMBERS; i++)
        x.numbers[i] = loaded(t, operands[i]);
    x.condition = loaded(t, flag);
    rules[w->rule].rule(&x);
    case_step(t, 1);
}

static bool is_update(const tile_case *t)
{
    volatile int32_t fault = 0;
    samba_update update;
    samba_preparing prepare = case_prepare(t, NULL, NULL, SAMBA_ISA_generic, 1, t->memory, &fault);
    return samba_update_init(&update, &prepare, &t->stage);
}

static void each_update(void (*check)(const wanted *w, const char *name))
{
    for (int rule = 0; rule < SAMBA_UPDATE_RULES; rule++) {
        const unsigned may = rules[rule].may | SAMBA_FLAG_CLIP | SAMBA_FLAG_MAXIMIZE;
        for (unsigned set = may;; set = (set - 1) & may) {
            for (int turned = 0; turned < 2; turned++) {
                const wanted w = {rule, set, turned};
                char name[96];
                snprintf(name, sizeof name, "%s, flags %#x%s", rules[rule].name, set, turned ? ", turned" : "");
                check(&w, name);
            }
            if (set == 0)
                break;
        }
    }
}

static void same_bits(const wanted *w, const char *name)
{
    tile_case t;
    for (int i = 0; i < LENGTH(counts); i++) {
        make_update(&t, w, 1, &counts[i]);
        if (counts[i] > 1 && !is_update(&t)) /* of one element, memory and a scalar look alike */
            fail_msg("%s of %lld elements is no update", name, (long long)counts[i]);
        case_check(&t, 0, "%s", name);
    }
    make_update(&t, w, 3, SHAPE(3, 1, 50));
    assert_true(is_update(&t));
    case_check(&t, 0, "%s", name);
}

static void test_same_bits(void **state)
{
    srand(1);
    each_update(same_bits);
}

/* Each instruction becomes another, then the gradient a row that all rows share: no updates any more, and still right. */
static void near_misses(const wanted *w, const char *name)
{
    tile_case t;
    int instructions = 1;
    for (int i = 0; i <= instructions; i++) {
        make_update(&t, w, 2, SHAPE(4, 33));
        instructions = t.stage.program.instruction_count;
        uint16_t *op = &t.instructions[i].op;
        if (i == instructions)
            t.operands[t.stage.operand_count - 1 - SAMBA_STATES].strides[0] = 0;
        else if (*op != SAMBA_TILE_load && *op != SAMBA_TILE_store)
            *op = samba_tile_table[*op].form == SAMBA_FORM_UNARY ? SAMBA_TILE_relu
                  : *op == SAMBA_TILE_mul                        ? SAMBA_TILE_add
                                                                 : SAMBA_TILE_mul;
        bool changed = i == instructions || (*op != SAMBA_TILE_load && *op != SAMBA_TILE_store);
        if (is_update(&t) == changed)
            fail_msg("%s, instruction %d changed: %s update", name, i, changed ? "an" : "no");
        case_check(&t, 0, "%s", name);
    }
}

static void test_near_misses(void **state)
{
    srand(2);
    each_update(near_misses);
}

/* One store more, or to another place than what was read; another dtype; two steps; a load of what was stored before. */
static void test_refusals(void **state)
{
    for (int kind = 0; kind < 5; kind++)
        for (int rule = 0; rule < SAMBA_UPDATE_RULES; rule++) {
            const wanted w = {.rule = rule};
            tile_case t;
            make_update(&t, &w, 1, SHAPE(40));
            samba_program *p = &t.stage.program;
            samba_instruction *first = &p->instructions[p->setup], *last = &p->instructions[p->instruction_count - 1];
            assert_true(is_update(&t));
            switch (kind) {
            case 0:
                case_store(&t, last->a, case_layout(&t, "", SAMBA_FLOAT32, NULL));
                p->steps[0].end++;
                break;
            case 1: last->operand = (int16_t)case_layout(&t, "", SAMBA_FLOAT32, NULL); break;
            case 2: last->operand = (int16_t)case_layout(&t, "", SAMBA_BFLOAT16, NULL); break;
            case 3: /* the gradient is loaded from where the result will have been stored */
                memmove(first + 1, first, sizeof *first * (size_t)(last + 1 - first));
                *first = (samba_instruction){SAMBA_TILE_store, -1, 0, -1, -1, first[1].operand, 0};
                p->steps[0].end = ++p->instruction_count;
                break;
            default:
                p->step_count = 2;
                p->steps[1] = p->steps[0];
                p->steps[0].end = p->steps[1].begin = p->setup + 1;
            }
            assert_false(is_update(&t));
            case_end(&t);
        }
}

TEST_MAIN(test_same_bits, test_near_misses, test_refusals)
