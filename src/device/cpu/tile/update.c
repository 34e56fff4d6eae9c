/* SPDX-License-Identifier: Apache-2.0
 *
 * See update.h. A program is read as expressions: each instruction's sources are the instructions that made them, so neither the
 * order of instructions nor the numbers of registers matter. The rules of updates.def are expanded as patterns, one for each set
 * of flags, and a program that has the form of one computes what its loop does. Either side of a sum, product or maximum may be
 * the one that is looked for: both orders give the same bits. */
#include "device/cpu/tile/update.h"

enum { MOST = 64 }; /* instructions and registers of a program that is looked at */

typedef struct reading {
    const samba_preparing *prepare;
    const samba_stage *stage;
    const samba_instruction *list;
    int a[MOST], b[MOST], c[MOST]; /* the instructions that made the sources of instruction i; -1 none */
    int store[MOST], stores;       /* instructions that store */
} reading;

static void *place_of(const reading *r, const samba_operand *operand)
{
    int64_t size = (int64_t)samba_dtype_size((samba_dtype)operand->dtype);
    return r->prepare->memory + r->prepare->buffers[operand->buffer].offset + operand->offset * size;
}

/* A load after a store there would give the new value. */
static bool reads_what_is_stored(const reading *r, const samba_instruction *x)
{
    const samba_operand *operands = r->stage->operands;
    bool again = false;
    for (int i = 0; i < r->stores && x->op == SAMBA_TILE_load; i++)
        again = again || place_of(r, &operands[r->list[r->store[i]].operand]) == place_of(r, &operands[x->operand]);
    return again;
}

static bool read_program(reading *r)
{
    const samba_program *program = &r->stage->program;
    int maker[MOST];
    if (program->instruction_count > MOST || program->register_count > MOST || program->step_count != 1 ||
        !program->steps[0].loop)
        return false;
    for (int i = 0; i < program->register_count; i++)
        maker[i] = -1;
    for (int i = 0; i < program->instruction_count; i++) {
        const samba_instruction *x = &r->list[i];
        r->a[i] = x->a >= 0 ? maker[x->a] : -1;
        r->b[i] = x->b >= 0 ? maker[x->b] : -1;
        r->c[i] = x->c >= 0 ? maker[x->c] : -1;
        if (x->op == SAMBA_TILE_store)
            r->store[r->stores++] = i;
        else if (x->d < 0 || program->registers[x->d].class_ != SAMBA_F32 || reads_what_is_stored(r, x))
            return false;
        else
            maker[x->d] = i;
    }
    return true;
}

/* ---- operands ---- */
/* Memory of a load or store whose elements lie in the domain's order without gaps; NULL. */
static float *array(const reading *r, int at, int op)
{
    if (at < 0 || r->list[at].op != op)
        return NULL;
    const samba_operand *operand = &r->stage->operands[r->list[at].operand];
    int64_t stride = 1;
    for (int i = r->stage->rank - 1; i >= 0; i--) {
        if (r->stage->domain[i] != 1 && operand->strides[i] != stride)
            return NULL;
        stride *= r->stage->domain[i];
    }
    return operand->dtype == SAMBA_FLOAT32 ? place_of(r, operand) : NULL;
}

/* Memory of a load that gives one number of that dtype everywhere; NULL. */
static const void *number(const reading *r, int at, samba_dtype dtype)
{
    if (at < 0 || r->list[at].op != SAMBA_TILE_load)
        return NULL;
    const samba_operand *operand = &r->stage->operands[r->list[at].operand];
    for (int i = 0; i < r->stage->rank; i++)
        if (r->stage->domain[i] != 1 && operand->strides[i] != 0)
            return NULL;
    return operand->dtype == (int32_t)dtype ? place_of(r, operand) : NULL;
}

/* ---- patterns ---- */
enum { LEAF = 0x8000, PARAMETER_LEAF = LEAF, GRADIENT_LEAF, CLIP_LEAF, CONDITION_LEAF, NUMBER_LEAF, STATE_LEAF };
enum { NODES = 96, NONE = -1 };

typedef struct pattern_node {
    int op;      /* of an instruction, or a leaf */
    int slot;    /* which number or state */
    int a, b, c; /* nodes; NONE */
} pattern_node;

typedef struct pattern {
    pattern_node nodes[NODES];
    int count, numbers, kept_count;
    int parameter, gradient, result;
    int kept[SAMBA_STATES]; /* what state becomes; NONE: it has none */
    unsigned flags;
} pattern;

static int node_of(pattern *x, int op, int slot, int a, int b, int c)
{
    const int at = x->count < NODES ? x->count++ : NODES - 1; /* a rule that has more matches nothing: its tests fail */
    x->nodes[at] = (pattern_node){op, slot, a, b, c};
    return at;
}

static int leaf_of(pattern *x, int leaf, int slot) { return node_of(x, leaf, slot, NONE, NONE, NONE); }

static void keep_node(pattern *x, int state, int value)
{
    x->kept[state] = value;
    x->kept_count++;
}

#define UNARY(op, a) node_of(x, SAMBA_TILE_##op, 0, a, NONE, NONE)
#define BINARY(op, a, b) node_of(x, SAMBA_TILE_##op, 0, a, b, NONE)
#define VALUE int
#define RULE(name) static void name(pattern *x)
#define EACH_ELEMENT
#define IS(flag) ((x->flags & SAMBA_FLAG_##flag) != 0)
#define KEEP_TOTAL(state, value)
#define SCALAR(name, value)
#define CONDITION(name, value) const int name = leaf_of(x, CONDITION_LEAF, 0)
#define NUMBER(name, value) const int name = leaf_of(x, NUMBER_LEAF, x->numbers++)
#define PARAMETER (x->parameter)
#define GRADIENT (x->gradient)
#define BEFORE(state) leaf_of(x, STATE_LEAF, SAMBA_STATE_##state)
#define KEEP(state, value) keep_node(x, SAMBA_STATE_##state, value)
#define KEEP_WHILE(condition, state, value) KEEP(state, CHOOSE(condition, value, BEFORE(state)))
#define CHOOSE(condition, a, b) node_of(x, SAMBA_TILE_where, 0, condition, a, b)
#define RESULT(value) x->result = value
#define ADD(a, b) BINARY(add, a, b)
#define SUB(a, b) BINARY(sub, a, b)
#define MUL(a, b) BINARY(mul, a, b)
#define DIV(a, b) BINARY(div, a, b)
#define MAXIMUM(a, b) BINARY(maximum, a, b)
#define SQRT(a) UNARY(sqrt, a)
#define ABS(a) UNARY(abs, a)
#define SIGN(a) UNARY(sign, a)
#include "updates.def"

/* The rule with these flags. */
static void begin_pattern(pattern *x, unsigned flags)
{
    *x = (pattern){.flags = flags};
    for (int i = 0; i < SAMBA_STATES; i++)
        x->kept[i] = NONE;
    x->parameter = leaf_of(x, PARAMETER_LEAF, 0);
    x->gradient = leaf_of(x, GRADIENT_LEAF, 0);
    if (IS(CLIP))
        x->gradient = MUL(x->gradient, leaf_of(x, CLIP_LEAF, 0));
    if (IS(MAXIMIZE))
        x->gradient = UNARY(neg, x->gradient);
}

/* ---- a program beside a pattern ---- */
/* Is the leaf what it stood for elsewhere in the pattern? At its first place it becomes what is found. */
static bool same(const void *found, const void **leaf)
{
    if (!*leaf)
        *leaf = found;
    return found && *leaf == found;
}

/* State is stored where it was, the gradient is not:
 * in a rule where they could stand for one another, as Lion's, this tells which is which. */
static bool is_stored(const reading *r, const float *elements)
{
    bool stored = false;
    for (int i = 0; i < r->stores; i++)
        stored = stored || array(r, r->store[i], SAMBA_TILE_store) == elements;
    return stored;
}

static bool fits_leaf(const reading *r, const pattern_node *node, int at, samba_update *u)
{
    float *elements = array(r, at, SAMBA_TILE_load);
    switch (node->op) {
    case PARAMETER_LEAF: return elements == u->parameter;
    case GRADIENT_LEAF: return elements && !is_stored(r, elements) && same(elements, (const void **)&u->gradient);
    case CLIP_LEAF: return same(number(r, at, SAMBA_FLOAT32), (const void **)&u->clip);
    case CONDITION_LEAF: return same(number(r, at, SAMBA_BOOL), (const void **)&u->condition);
    case NUMBER_LEAF: return same(number(r, at, SAMBA_FLOAT32), (const void **)&u->numbers[node->slot]);
    default:
        u->state[node->slot] = u->state[node->slot] ? u->state[node->slot] : elements;
        return elements && u->state[node->slot] == elements && is_stored(r, elements);
    }
}

/* Does instruction `at` compute node `n`? Leaves of what fits are noted in `u`. */
static bool fits(const reading *r, const pattern *x, int n, int at, samba_update *u)
{
    const pattern_node *node = &x->nodes[n];
    if (at < 0)
        return false;
    if (node->op >= LEAF)
        return fits_leaf(r, node, at, u);
    if (r->list[at].op != node->op)
        return false;
    const samba_update before = *u;
    const bool other = node->op == SAMBA_TILE_add || node->op == SAMBA_TILE_mul || node->op == SAMBA_TILE_maximum;
    if (fits(r, x, node->a, r->a[at], u) && (node->b == NONE || fits(r, x, node->b, r->b[at], u)) &&
        (node->c == NONE || fits(r, x, node->c, r->c[at], u)))
        return true;
    *u = before;
    if (other && fits(r, x, node->a, r->b[at], u) && fits(r, x, node->b, r->a[at], u))
        return true;
    *u = before;
    return false;
}

static bool keeps(const reading *r, const pattern *x, int state, samba_update *u)
{
    bool kept = x->kept[state] == NONE;
    for (int i = 0; i < r->stores && !kept; i++)
        kept = u->state[state] && array(r, r->store[i], SAMBA_TILE_store) == u->state[state] &&
               fits(r, x, x->kept[state], r->a[r->store[i]], u);
    return kept;
}

/* Is the program the pattern's, and the parameter what store `i` stores? */
static bool is_pattern(const reading *r, const pattern *x, int i, samba_update *u)
{
    u->parameter = array(r, r->store[i], SAMBA_TILE_store);
    if (r->stores != x->kept_count + 1 || !u->parameter || !fits(r, x, x->result, r->a[r->store[i]], u))
        return false;
    bool kept = true;
    for (int state = 0; state < SAMBA_STATES && kept; state++)
        kept = keeps(r, x, state, u);
    return kept;
}

typedef struct candidate {
    void (*rule)(pattern *x);
    unsigned may, fixed; /* flags that a program sets, that are set */
} candidate;

/* A rule whose numbers are all used tells where each is; what a set of flags leaves out is never read. */
static bool is_update(const reading *r, const candidate *rule, unsigned flags, samba_update *u)
{
    static const float unused = 0;
    const samba_update start = *u;
    pattern x;
    begin_pattern(&x, flags);
    rule->rule(&x);
    for (int i = 0; i < r->stores && x.count < NODES && x.numbers <= SAMBA_UPDATE_NUMBERS; i++) {
        *u = start;
        if (!is_pattern(r, &x, i, u))
            continue;
        for (int k = 0; k < SAMBA_UPDATE_NUMBERS; k++)
            u->numbers[k] = u->numbers[k] ? u->numbers[k] : &unused;
        u->flags = flags;
        return true;
    }
    *u = start;
    return false;
}

/* An update stores where it loads from: most programs are seen not to be one by that. */
static bool updates_something(const reading *r)
{
    bool found = false;
    for (int i = 0; i < r->stores && !found; i++) {
        const float *stored = array(r, r->store[i], SAMBA_TILE_store);
        for (int k = 0; k < r->stage->program.instruction_count && !found; k++)
            found = stored && array(r, k, SAMBA_TILE_load) == stored;
    }
    return found && r->stores <= SAMBA_STATES;
}

bool samba_update_init(samba_update *update, const samba_preparing *prepare, const samba_stage *stage)
{
    static const candidate candidates[SAMBA_UPDATE_RULES] = {
#define SET(flag) | SAMBA_FLAG_##flag
#define HAS(flag) | SAMBA_FLAG_##flag
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    {rule, SAMBA_FLAG_CLIP | SAMBA_FLAG_MAXIMIZE flags, 0 fixed},
#define EARLIER(rule) {rule, SAMBA_FLAG_CLIP | SAMBA_FLAG_MAXIMIZE, 0},
#include "optimizers.def"
    };
    reading r = {.prepare = prepare, .stage = stage, .list = stage->program.instructions};
    int64_t count = 1;
    for (int i = 0; i < stage->rank; i++)
        if (!samba_mul_checked(count, stage->domain[i], &count))
            return false;
    if (!read_program(&r) || !updates_something(&r))
        return false;
    for (int k = 0; k < SAMBA_UPDATE_RULES; k++) {
        *update = (samba_update){.count = count, .run = prepare->machine->kernels->updates->run[k]};
        const unsigned may = candidates[k].may;
        for (unsigned set = may;; set = (set - 1) & may) { /* each subset */
            if (is_update(&r, &candidates[k], set | candidates[k].fixed, update))
                return true;
            if (set == 0)
                break;
        }
    }
    return false;
}
