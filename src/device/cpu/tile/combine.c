/* SPDX-License-Identifier: Apache-2.0
 *
 * Fewer passes over a tile: where an f32 result has one reader in its step, its instruction moves into the reader, if there is a
 * kernel for the two (combined.c, labels.c). The table `rules` at the end has what is looked for, in the order of looking.
 * Nothing on the way may change what the moved instruction reads: its registers, or memory that one of them is. What results stay
 * is the same to the last bit. */
#include "device/cpu/tile/tile.h"
#include <math.h>
#include <string.h>

typedef struct combining {
    samba_tile_program *program;
    samba_instruction *list; /* as program->codes, with registers of -1 where the form has none */
    uint8_t *state;          /* of each code: PLAIN, MERGED with another, GONE into another */
    int32_t *moved;          /* the code, of an earlier step, that stands before this one; -1 none */
    int begin, end;          /* of the step that is looked at */
} combining;
enum { PLAIN, MERGED, GONE };

/* A SELECT has a fourth source, noted as its operand. */
static int times_read(const samba_instruction *x, int r)
{
    return (x->a == r) + (x->b == r) + (x->c == r) + (x->op == SAMBA_TILE_where && x->operand == r);
}

/* The instruction before `end` that alone reads what i makes, and reads it once; -1. */
static int only_reader(const combining *c, int i, int end)
{
    int reader = -1, d = c->list[i].d;
    for (int k = i + 1; k < c->program->code_count; k++) {
        int times = c->state[k] == GONE ? 0 : times_read(&c->list[k], d);
        if (times > 1 || (times == 1 && (reader >= 0 || k >= end)))
            return -1;
        reader = times == 1 ? k : reader;
        if (c->state[k] != GONE && c->list[k].d == d)
            break;
    }
    return reader;
}

/* Would i compute the same at j? */
static bool may_move(const combining *c, int i, int j)
{
    const samba_tile_register *registers = c->program->registers;
    const samba_instruction *moved = &c->list[i];
    bool choice = c->state[i] == MERGED && moved->op == SAMBA_TILE_where;
    const int sources[] = {moved->a, moved->b, moved->c, choice ? moved->operand : -1};
    bool memory = false;
    for (size_t s = 0; s < SAMBA_COUNT(sources); s++)
        memory |= sources[s] >= 0 && registers[sources[s]].direct >= 0;
    for (int k = i + 1; k < j; k++) {
        const samba_instruction *between = &c->list[k];
        if (c->state[k] == GONE)
            continue;
        if (between->d >= 0 && times_read(moved, between->d))
            return false;
        if (memory && (between->op == SAMBA_TILE_store ||
                       (between->d >= 0 && registers[between->d].direct >= 0 && between->op != SAMBA_TILE_load)))
            return false;
    }
    return true;
}

/* A map of f32 elements that is still one instruction. */
static bool is_plain_map(const combining *c, int i)
{
    const samba_code *code = &c->program->codes[i];
    return c->state[i] == PLAIN && code->action == SAMBA_DO_MAP && code->class_ == SAMBA_F32 && code->extent == SAMBA_FULL;
}

/* As tile.h counts them; -1: none of them. */
static int number(int op)
{
    switch (op) {
    case SAMBA_TILE_add: return 0;
    case SAMBA_TILE_sub: return 1;
    case SAMBA_TILE_mul: return 2;
    case SAMBA_TILE_minimum: return 3;
    case SAMBA_TILE_maximum: return 4;
    case SAMBA_TILE_relu: return 5;
    default: return -1;
    }
}

static bool is_pairable(const combining *c, int i) { return is_plain_map(c, i) && number(c->list[i].op) >= 0; }
static bool is_arithmetic(const combining *c, int i) { return is_pairable(c, i) && number(c->list[i].op) <= 2; }

static void take(combining *c, int i, int j, int ra, int rb, int rc)
{
    samba_code *code = &c->program->codes[j];
    samba_instruction *x = &c->list[j];
    x->a = (int16_t)ra, x->b = (int16_t)rb, x->c = (int16_t)rc;
    code->a = (int16_t)ra, code->b = (int16_t)(rb < 0 ? 0 : rb), code->c = (int16_t)(rc < 0 ? 0 : rc);
    c->state[j] = MERGED;
    c->state[i] = GONE;
}

/* A load that gives every column of a row one value. */
static bool loads_rows(const combining *c, int i)
{
    const samba_code *code = &c->program->codes[i];
    return c->state[i] == PLAIN && code->action == SAMBA_DO_LOAD && code->extent == SAMBA_FULL && c->program->cols > 1 &&
           c->program->views[code->view].col_stride == 0 && c->program->registers[code->d].direct < 0;
}

/* The register is used for a chunk only. */
static void narrow(combining *c, int r)
{
    samba_tile_program *program = c->program;
    program->registers[r].wide = 0;
    for (int i = 0; i < program->moving_count; i++)
        if (program->moving[i] == r)
            program->column_bytes[i] = 0;
}

/* Its register then holds one value a row. */
static void load_rows(combining *c, int i, bool once)
{
    samba_code *code = &c->program->codes[i];
    code->extent = SAMBA_ROW;
    code->once = once;
    code->kept = -1;
    narrow(c, code->d);
    c->state[i] = MERGED;
}

static void combine_spread(combining *c, int i)
{
    const samba_instruction *from = &c->list[i];
    bool loaded = loads_rows(c, i);
    int j = only_reader(c, i, c->end);
    if (j < 0 || !is_arithmetic(c, j) || !may_move(c, i, j))
        return;
    const samba_instruction *to = &c->list[j];
    if (to->op == SAMBA_TILE_sub && to->a == from->d)
        return;
    c->program->codes[j].action = SAMBA_DO_ROWS;
    c->program->codes[j].rows = c->program->kernels->combined->rows[number(to->op)];
    c->program->codes[j].pattern = (uint8_t)(SAMBA_PATTERN_ROW_ADD + number(to->op));
    take(c, i, j, to->a == from->d ? to->b : to->a, loaded ? from->d : from->a, -1);
    if (loaded)
        load_rows(c, i, false);
}

/* The instruction from `begin` on, before `end`, that last wrote r; -1. */
static int maker(const combining *c, int r, int begin, int end)
{
    while (--end >= begin)
        if (c->state[end] != GONE && c->list[end].d == r)
            return end;
    return -1;
}

/* where(a, b, c) whose a is a loaded value a row: rows are copied. What makes b then writes the result itself, if nothing else
 * stands between the two. */
static void combine_choice(combining *c, int j)
{
    samba_code *codes = c->program->codes;
    samba_instruction *x = &c->list[j];
    int i = maker(c, x->a, c->begin, j);
    if (codes[j].action != SAMBA_DO_MAP || codes[j].extent != SAMBA_FULL || codes[j].class_ != SAMBA_F32 || i < 0 ||
        !loads_rows(c, i) || c->program->registers[x->a].size != sizeof(float) || only_reader(c, i, j + 1) != j)
        return;
    load_rows(c, i, false);
    codes[j].action = SAMBA_DO_CHOOSE;
    c->state[j] = MERGED;
    int before = maker(c, x->b, c->begin, j);
    if (before < 0 || only_reader(c, before, j + 1) != j || x->c == x->d ||
        (codes[before].action != SAMBA_DO_MAP && codes[before].action != SAMBA_DO_ROWS))
        return;
    for (int k = before + 1; k < j; k++)
        if (c->state[k] != GONE && !(codes[k].action == SAMBA_DO_LOAD && codes[k].extent == SAMBA_ROW && c->list[k].d != x->d))
            return;
    c->list[before].d = codes[before].d = x->d;
    x->b = codes[j].b = x->d;
}

/* ---- labels ---- */
static int times_written(const combining *c, int r)
{
    int times = 0;
    for (int k = 0; k < c->program->code_count; k++)
        times += c->state[k] != GONE && c->list[k].d == r;
    return times;
}

/* Filled before all steps, for good. */
static bool is_setup(const combining *c, int r) { return times_written(c, r) == 1 && maker(c, r, 0, c->program->setup) >= 0; }

/* A register that holds one number for good. */
static bool holds(const combining *c, int r, double value)
{
    int i = maker(c, r, 0, c->program->setup);
    return is_setup(c, r) && c->list[i].op == SAMBA_TILE_constant && c->list[i].immediate == value;
}

static const samba_step *step_of(const combining *c, int i)
{
    const samba_step *step = c->program->steps;
    while (step->end <= i)
        step++;
    return step;
}

/* where(mask, x, -inf), of which only the greatest is asked for: its amax; -1 */
static int picked(const combining *c, int k)
{
    if (!holds(c, c->list[k].c, -INFINITY))
        return -1;
    int j = only_reader(c, k, step_of(c, k)->end);
    return j >= 0 && c->list[j].op == SAMBA_TILE_amax && c->program->codes[j].class_ == SAMBA_F32 && may_move(c, k, j) ? j : -1;
}

/* Where the mask of eq e is read: as a choice between two numbers, or between x and -inf for an amax, or otherwise. */
static bool only_choices(const combining *c, int e)
{
    int mask = c->list[e].d;
    for (int k = e + 1; k < c->program->code_count; k++) {
        const samba_instruction *x = &c->list[k];
        if (c->state[k] == GONE)
            continue;
        if (times_read(x, mask) &&
            (x->op != SAMBA_TILE_where || x->a != mask || times_read(x, mask) > 1 || c->program->codes[k].class_ != SAMBA_F32 ||
             c->program->codes[k].extent != SAMBA_FULL || (picked(c, k) < 0 && !(is_setup(c, x->b) && is_setup(c, x->c)))))
            return false;
        if (x->d == mask)
            break;
    }
    return true;
}

/* One that is read in a later step alone is made there, and needs no room for a whole row. */
static void make_where_read(combining *c, int k)
{
    int d = c->list[k].d, j = only_reader(c, k, c->program->code_count);
    bool own = times_written(c, d) == 1 && c->program->registers[d].direct < 0;
    if (!own || j < 0 || step_of(c, j) == step_of(c, k) || c->moved[j] >= 0)
        return;
    c->moved[j] = k;
    narrow(c, d);
}

static void set(combining *c, int k, int label)
{
    c->program->codes[k].action = SAMBA_DO_SET;
    c->program->codes[k].a = c->list[k].a = (int16_t)label;
    c->state[k] = MERGED;
}

static void use_label(combining *c, int e, int label)
{
    int mask = c->list[e].d;
    if (!only_choices(c, e)) {
        c->list[e].b = -1;
        set(c, e, label);
        return;
    }
    c->state[e] = GONE;
    bool ends = false;
    for (int k = e + 1, j; k < c->program->code_count && !ends; k++) {
        if (c->state[k] == GONE)
            continue;
        ends = c->list[k].d == mask;
        if (c->list[k].a != mask)
            continue;
        if ((j = picked(c, k)) >= 0) {
            c->program->codes[j].action = SAMBA_DO_PICK;
            take(c, k, j, c->list[k].b, label, -1);
        } else {
            set(c, k, label);
            make_where_read(c, k);
        }
    }
}

/* columns' numbers == a label a row */
static void combine_label(combining *c, int e)
{
    const samba_code *codes = c->program->codes;
    int numbers = maker(c, c->list[e].a, c->begin, e), label = maker(c, c->list[e].b, c->begin, e);
    if (label >= 0 && codes[label].action == SAMBA_DO_IOTA) {
        int other = numbers;
        numbers = label;
        label = other;
    }
    if (numbers < 0 || label < 0 || codes[e].class_ != SAMBA_I64 || codes[e].extent != SAMBA_FULL)
        return;
    if (codes[numbers].action != SAMBA_DO_IOTA || c->program->views[codes[numbers].view].col_stride != 1 ||
        !loads_rows(c, label) || times_written(c, c->list[label].d) > 1 || only_reader(c, label, e + 1) != e)
        return;
    bool unused = only_reader(c, numbers, e + 1) == e;
    load_rows(c, label, true);
    use_label(c, e, c->list[label].d);
    if (unused)
        c->state[numbers] = GONE;
}

/* A collector of one sum a column, over all rows. Chunks of one column, which are summed otherwise, come of one row only. */
static bool sums_columns(const combining *c, int j)
{
    const samba_code *code = &c->program->codes[j];
    const samba_view *view = &c->program->views[c->program->collectors[code->collector].view];
    return code->extent == SAMBA_FULL && code->class_ == SAMBA_F32 && c->program->cols > 1 && view->col_stride != 0 &&
           samba_view_repeats(view);
}

/* The operation of j on r, as the second of a pair, or NULL. Of equal zeros, or NaNs, a bound has that of its second operand:
 * r must be the first. */
static samba_map_fn *pair_of(const combining *c, int i, int j, int r)
{
    static const int then[6] = {0, 1, 3, 4, 5, 6};
    if (!is_pairable(c, j))
        return NULL;
    samba_map_fn *const *pairs = c->program->kernels->combined->pair[0][number(c->list[i].op)];
    int op = c->list[j].op, second = number(op);
    bool from = c->list[j].a != r;
    return from && second >= 3 ? NULL : pairs[from && op == SAMBA_TILE_sub ? 2 : then[second]];
}

static void combine_pair(combining *c, int i)
{
    const samba_combined *kernels = c->program->kernels->combined;
    const samba_instruction *from = &c->list[i];
    int j = only_reader(c, i, c->end);
    if (j < 0 || !may_move(c, i, j))
        return;
    const samba_instruction *to = &c->list[j];
    samba_code *code = &c->program->codes[j];
    samba_map_fn *pair;
    if (to->op == SAMBA_TILE_collect_sum && from->op == SAMBA_TILE_mul && sums_columns(c, j)) {
        code->product = true;
        take(c, i, j, from->a, from->b, -1);
    } else if (to->op == SAMBA_TILE_sum && from->op == SAMBA_TILE_mul) {
        if (c->program->stands)
            return;
        code->action = SAMBA_DO_DOT;
        code->dot = kernels->dot;
        take(c, i, j, from->a, from->b, -1);
    } else if ((pair = pair_of(c, i, j, from->d))) {
        code->map = pair;
        code->pattern = to->op != SAMBA_TILE_add     ? SAMBA_PATTERN_PAIR
                        : from->op == SAMBA_TILE_add ? SAMBA_PATTERN_ADD_ADD
                        : from->op == SAMBA_TILE_mul ? SAMBA_PATTERN_MUL_ADD
                                                     : SAMBA_PATTERN_PAIR;
        take(c, i, j, from->a, from->b, to->a == from->d ? to->b : to->a);
    }
}

static void combine_comparison(combining *c, int i)
{
    const samba_instruction *from = &c->list[i];
    int j = only_reader(c, i, c->end);
    if (j < 0 || c->state[j] != PLAIN || c->list[j].op != SAMBA_TILE_where || c->list[j].a != from->d || !may_move(c, i, j))
        return;
    samba_code *code = &c->program->codes[j];
    if (code->action != SAMBA_DO_MAP || code->class_ != SAMBA_F32 || code->extent != SAMBA_FULL)
        return;
    code->action = SAMBA_DO_SELECT;
    code->select = c->program->kernels->combined->select[0][from->op - SAMBA_TILE_eq];
    code->if_false = code->c;
    code->pattern = (uint8_t)(from->op - SAMBA_TILE_eq);
    c->list[j].operand = c->list[j].c;
    take(c, i, j, from->a, from->b, c->list[j].b);
}

/* where(a != a, 0, a), of which only a sum is asked for: of its rows, or collected. */
static void combine_nansum(combining *c, int i)
{
    const samba_instruction *from = &c->list[i];
    int j = only_reader(c, i, c->end);
    if (from->a != from->b || from->operand != from->a || !holds(c, from->c, 0) || j < 0 || !may_move(c, i, j))
        return;
    samba_code *code = &c->program->codes[j];
    if (c->list[j].op == SAMBA_TILE_sum) {
        code->reduce = c->program->kernels->combined->nansum;
    } else if (c->list[j].op == SAMBA_TILE_collect_sum) {
        code->nansum = true;
    } else {
        return;
    }
    take(c, i, j, from->a, -1, -1);
}

static bool is_not_equal(const combining *c, int i)
{
    const samba_code *code = &c->program->codes[i];
    return c->state[i] == MERGED && code->action == SAMBA_DO_SELECT && code->pattern == SAMBA_TILE_ne - SAMBA_TILE_eq;
}

static bool is_comparison(const combining *c, int i)
{
    return is_plain_map(c, i) && samba_tile_table[c->list[i].op].form == SAMBA_FORM_COMPARE;
}

static bool is_select(const combining *c, int i)
{
    return c->state[i] == MERGED && c->program->codes[i].action == SAMBA_DO_SELECT;
}

/* A choice of what another leaves, both by one value against numbers, which both put one number in its place: as gradients pass
 * between two bounds. */
static void combine_inside(combining *c, int i)
{
    const samba_instruction *from = &c->list[i];
    int j = only_reader(c, i, c->end);
    if (j < 0 || !is_select(c, j) || c->list[j].operand != from->d || c->list[j].a != from->a || c->list[j].c != from->c ||
        !is_setup(c, from->b) || !is_setup(c, from->c) || !is_setup(c, c->list[j].b) || !may_move(c, i, j))
        return;
    samba_code *code = &c->program->codes[j];
    int first = SAMBA_TILE_eq + c->program->codes[i].pattern, second = SAMBA_TILE_eq + code->pattern;
    bool swapped = first == SAMBA_TILE_gt || first == SAMBA_TILE_ge;
    int below = swapped ? second : first, above = swapped ? first : second;
    if ((below != SAMBA_TILE_lt && below != SAMBA_TILE_le) || (above != SAMBA_TILE_gt && above != SAMBA_TILE_ge))
        return;
    code->action = SAMBA_DO_INSIDE;
    code->inside = c->program->kernels->combined->inside[2 * (below == SAMBA_TILE_le) + (above == SAMBA_TILE_ge)];
    code->s = swapped ? c->list[j].b : from->b, code->t = swapped ? from->b : c->list[j].b, code->u = from->c;
    c->list[j].operand = -1;
    take(c, i, j, from->a, from->operand, -1);
}

/* where(a != a, number, what two bounds leave of a), as of nan_to_num. */
static void combine_number(combining *c, int j)
{
    const samba_combined *kernels = c->program->kernels->combined;
    const samba_instruction *to = &c->list[j];
    int i = maker(c, to->operand, c->begin, j);
    samba_code *code = &c->program->codes[j], from = i < 0 ? (samba_code){0} : c->program->codes[i];
    const bool above = from.map == kernels->pair[0][3][5]; /* the upper bound first */
    if (i < 0 || from.action != SAMBA_DO_MAP || (!above && from.map != kernels->pair[0][4][4]) || to->a != to->b ||
        from.a != to->a || only_reader(c, i, c->end) != j || !is_setup(c, to->c) || !is_setup(c, from.b) ||
        !is_setup(c, from.c) || !may_move(c, i, j))
        return;
    code->action = SAMBA_DO_INSIDE, code->inside = kernels->number[above];
    code->s = from.b, code->t = from.c, code->u = to->c, c->list[j].operand = -1;
    take(c, i, j, from.a, from.a, -1);
}

/* ---- gelu_tanh and its gradient, at the place of the first ---- */
static bool is_map_of(const combining *c, int i, int op, int x)
{
    return is_plain_map(c, i) && c->list[i].op == op && c->list[i].a == x;
}

/* Only stores stand between the two, none of what the later makes. */
static bool may_join(const combining *c, int first, int later)
{
    const samba_instruction *x = &c->list[first], *y = &c->list[later];
    bool fits = x->d != y->d && !times_read(y, x->d) && !times_read(x, y->d);
    for (int k = first + 1; fits && k < later; k++)
        fits = c->state[k] == GONE || (c->list[k].op == SAMBA_TILE_store && c->list[k].a != y->d);
    return fits;
}

static void combine_gelu(combining *c, int grad)
{
    if (!is_map_of(c, grad, SAMBA_TILE_gelu_tanh_grad, c->list[grad].a))
        return;
    for (int value = c->begin; value < c->end; value++) {
        int first = value < grad ? value : grad, later = value < grad ? grad : value;
        if (!is_map_of(c, value, SAMBA_TILE_gelu_tanh, c->list[grad].a) || !may_join(c, first, later))
            continue;
        samba_code *code = &c->program->codes[first];
        code->action = SAMBA_DO_BOTH;
        code->both = c->program->kernels->gelu_tanh_both;
        int d = c->list[grad].d;
        take(c, later, first, c->list[grad].a, c->list[grad].b, c->list[value].d);
        c->list[first].d = code->d = (int16_t)d;
        return;
    }
}

/* ---- norms ---- */
static bool is_rows(const combining *c, int i, int op)
{
    const samba_code *code = &c->program->codes[i];
    return c->state[i] == MERGED && code->action == SAMBA_DO_ROWS && code->pattern == SAMBA_PATTERN_ROW_ADD + number(op);
}

/* The maker of r, in the step of j, that j alone reads and that may stand beside it; -1. */
static int maker_for(const combining *c, int r, int begin, int j)
{
    int i = maker(c, r, begin, j);
    return i >= 0 && only_reader(c, i, step_of(c, j)->end) == j && may_move(c, i, j) ? i : -1;
}

/* i, whose part is done with j, goes into it. */
static void make_norm(combining *c, int i, int j, samba_norm kind, int a, int b, int z, int s, int t, int u)
{
    samba_code *code = &c->program->codes[j];
    code->action = SAMBA_DO_NORM;
    code->norm = c->program->kernels->combined->norm[kind];
    code->pattern = (uint8_t)(SAMBA_PATTERN_NORM + kind);
    code->s = (int16_t)s, code->t = (int16_t)t, code->u = (int16_t)u;
    take(c, i, j, a, b, z);
}

/* (a - s) t, ((a - s) - b t) u: j multiplies by a value a row */
static void combine_standardize(combining *c, int j)
{
    const samba_instruction *list = c->list;
    int i = maker_for(c, list[j].a, c->begin, j), u = list[j].b;
    if (i < 0)
        return;
    if (is_rows(c, i, SAMBA_TILE_sub)) {
        make_norm(c, i, j, SAMBA_NORM_STANDARDIZE, list[i].a, -1, -1, list[i].b, u, 0);
    } else if (is_arithmetic(c, i) && list[i].op == SAMBA_TILE_sub && list[i].a != list[i].b) {
        int x = maker_for(c, list[i].a, c->begin, i), y = maker_for(c, list[i].b, c->begin, i);
        if (x < 0 || y < 0 || !is_rows(c, x, SAMBA_TILE_sub) || !is_rows(c, y, SAMBA_TILE_mul) || !may_move(c, x, j) ||
            !may_move(c, y, j))
            return;
        c->state[x] = c->state[y] = GONE;
        make_norm(c, i, j, SAMBA_NORM_SLOPE, list[x].a, list[y].a, -1, list[x].b, list[y].b, u);
    }
}

static bool is_written(const combining *c, int r, int begin, int end) { return maker(c, r, begin, end) >= 0; }

/* ((a - s) t) + u: j adds a value a row */
static void combine_standardize_add(combining *c, int j)
{
    int i = maker_for(c, c->list[j].a, c->begin, j);
    const samba_code from = i < 0 ? (samba_code){0} : c->program->codes[i];
    if (i >= 0 && from.action == SAMBA_DO_NORM && from.pattern == SAMBA_PATTERN_NORM + SAMBA_NORM_STANDARDIZE &&
        !is_written(c, from.s, i + 1, j) && !is_written(c, from.t, i + 1, j))
        make_norm(c, i, j, SAMBA_NORM_STANDARDIZE_ADD, from.a, -1, -1, from.s, from.t, c->list[j].b);
}

/* (a s) b + c: j multiplies and adds */
static void combine_affine(combining *c, int j)
{
    const samba_instruction x = c->list[j];
    for (int side = 0; side < 2; side++) {
        int i = maker_for(c, side ? x.b : x.a, c->begin, j);
        if (i < 0 || !is_rows(c, i, SAMBA_TILE_mul))
            continue;
        make_norm(c, i, j, SAMBA_NORM_AFFINE, c->list[i].a, side ? x.a : x.b, x.c, c->list[i].b, 0, 0);
        return;
    }
}

/* ((a - s) - b t) u + c: j adds */
static void combine_slope_add(combining *c, int j)
{
    const samba_instruction x = c->list[j];
    for (int side = 0; side < 2; side++) {
        int i = maker_for(c, side ? x.b : x.a, c->begin, j);
        const samba_code from = i < 0 ? (samba_code){0} : c->program->codes[i];
        if (i < 0 || from.action != SAMBA_DO_NORM || from.pattern != SAMBA_PATTERN_NORM + SAMBA_NORM_SLOPE ||
            is_written(c, from.s, i + 1, j) || is_written(c, from.t, i + 1, j) || is_written(c, from.u, i + 1, j))
            continue;
        make_norm(c, i, j, SAMBA_NORM_SLOPE_ADD, from.a, from.b, side ? x.a : x.b, from.s, from.t, from.u);
        return;
    }
}

/* Nobody in between reads or writes r. */
static bool is_unseen(const combining *c, int r, int begin, int end)
{
    for (int k = begin; k < end; k++)
        if (c->state[k] != GONE && (c->list[k].d == r || times_read(&c->list[k], r)))
            return false;
    return true;
}

/* Code i's kind, if its result's rows may be summed as they are made; -1. */
static int summed_kind(const combining *c, int i)
{
    const samba_code *code = &c->program->codes[i];
    if (code->class_ != SAMBA_F32 || code->extent != SAMBA_FULL || c->state[i] == GONE ||
        c->program->registers[code->d].direct >= 0)
        return -1;
    if (is_arithmetic(c, i))
        return c->list[i].op == SAMBA_TILE_add ? SAMBA_SUMMED_ADD : c->list[i].op == SAMBA_TILE_mul ? SAMBA_SUMMED_MUL : -1;
    if (code->action == SAMBA_DO_MAP && code->pattern == SAMBA_PATTERN_ADD_ADD)
        return SAMBA_SUMMED_ADD_ADD;
    return is_rows(c, i, SAMBA_TILE_sub) ? SAMBA_SUMMED_CENTER : -1;
}

static bool is_sum_of(const combining *c, int j, int r)
{
    return c->program->codes[j].action == SAMBA_DO_REDUCE && c->program->codes[j].class_ == SAMBA_F32 &&
           c->list[j].op == SAMBA_TILE_sum && c->list[j].a == r;
}

/* The sums follow i in its step and are made with it. A dot product waits for its other operand: then i is made where the later
 * of the two sums is, if nobody else reads it before. */
static void combine_sums(combining *c, int i)
{
    samba_instruction *list = c->list;
    int kind = summed_kind(c, i), d = list[i].d, sum = -1, dot = -1;
    for (int k = i + 1; k < c->end && kind >= 0; k++) {
        if (c->state[k] == GONE)
            continue;
        if (sum < 0 && is_sum_of(c, k, d))
            sum = k;
        else if (dot < 0 && c->program->codes[k].action == SAMBA_DO_DOT &&
                 times_read(&list[k], d) == (kind == SAMBA_SUMMED_CENTER ? 2 : 1))
            dot = k;
        else if (list[k].d == d || (kind == SAMBA_SUMMED_MUL && times_read(&list[k], d)))
            break;
    }
    bool both = kind == SAMBA_SUMMED_MUL, center = kind == SAMBA_SUMMED_CENTER;
    if (kind < 0 || (sum < 0) != center || (dot < 0) != (!both && !center))
        return;
    int first = center ? dot : sum, last = i;
    if (both) {
        last = sum > dot ? sum : dot;
        first = sum > dot ? dot : sum;
        int with = list[dot].a == d ? list[dot].b : list[dot].a;
        if (!may_move(c, i, last) || !is_unseen(c, list[first].d, first + 1, last) || is_written(c, with, dot + 1, last))
            return;
        list[i].c = (int16_t)with;
    } else if (!is_unseen(c, list[first].d, i + 1, first)) {
        return;
    }
    samba_code made = c->program->codes[i];
    made.action = SAMBA_DO_SUMMED;
    made.summed = c->program->kernels->combined->summed[kind];
    made.c = list[i].c < 0 ? 0 : list[i].c;
    made.s = sum < 0 ? 0 : list[sum].d, made.t = dot < 0 ? 0 : list[dot].d;
    c->state[i] = c->state[first] = GONE;
    c->state[last] = MERGED;
    c->program->codes[last] = made;
    list[last] = list[i];
}

/* Rounding to bfloat16, and the store into memory of that dtype. Other readers need the rounded value in its register. */
static void combine_rounding(combining *c, int i)
{
    const samba_tile_program *program = c->program;
    const samba_instruction *from = &c->list[i];
    int j = only_reader(c, i, c->end);
    bool alone = j >= 0 && may_move(c, i, j);
    j = alone ? j : i + 1;
    if (j >= c->end || c->state[j] != PLAIN || c->list[j].op != SAMBA_TILE_store || c->list[j].a != from->d)
        return;
    samba_code *code = &c->program->codes[j];
    if (code->extent != SAMBA_FULL || program->views[code->view].dtype != SAMBA_BFLOAT16 ||
        program->registers[from->d].direct >= 0)
        return;
    if (alone) {
        take(c, i, j, from->a, -1, -1);
    } else if (program->views[code->view].col_stride == 1 && !program->stands) {
        code->action = SAMBA_DO_ROUND;
        code->d = from->d;
        c->list[j].d = from->d;
        take(c, i, j, from->a, -1, -1);
    }
}

/* Constants that pairs and choices read: numbers, not as many as there are elements. */
static bool is_number(const combining *c, int r) { return r >= 0 && is_setup(c, r); }

static void take_numbers(combining *c, int i)
{
    const samba_combined *kernels = c->program->kernels->combined;
    const samba_instruction *x = &c->list[i];
    samba_code *code = &c->program->codes[i];
    int numbers = is_number(c, x->b) + 2 * is_number(c, x->c);
    if (code->action == SAMBA_DO_SELECT && numbers == 3)
        code->select = kernels->select[1][code->pattern];
    for (size_t first = 0; first < 6 && code->action == SAMBA_DO_MAP; first++)
        for (size_t then = 0; then < 7; then++)
            if (kernels->pair[0][first][then] && kernels->pair[0][first][then] == code->map) {
                code->map = kernels->pair[numbers][first][then];
                return;
            }
}

/* ---- the rules ---- */
static bool is_eq(const combining *c, int i) { return c->list[i].op == SAMBA_TILE_eq; }
static bool is_gelu_grad(const combining *c, int i) { return c->list[i].op == SAMBA_TILE_gelu_tanh_grad; }
static bool is_choice(const combining *c, int i) { return c->state[i] == PLAIN && c->list[i].op == SAMBA_TILE_where; }
static bool is_scaled_rows(const combining *c, int i) { return is_rows(c, i, SAMBA_TILE_mul); }
static bool is_raised_rows(const combining *c, int i) { return is_rows(c, i, SAMBA_TILE_add); }
static bool is_sum(const combining *c, int i) { return is_arithmetic(c, i) && c->list[i].op == SAMBA_TILE_add; }
static bool is_merged(const combining *c, int i) { return c->state[i] == MERGED; }
static bool is_there(const combining *c, int i) { return c->state[i] != GONE; }

static bool is_rounding(const combining *c, int i) { return c->state[i] == PLAIN && c->list[i].op == SAMBA_TILE_round_bfloat16; }

static bool is_value_a_row(const combining *c, int i)
{
    return (c->list[i].op == SAMBA_TILE_spread || loads_rows(c, i)) && c->program->codes[i].class_ == SAMBA_F32;
}

static bool is_mul_add(const combining *c, int i)
{
    const samba_code *code = &c->program->codes[i];
    return c->state[i] == MERGED && code->action == SAMBA_DO_MAP && code->pattern == SAMBA_PATTERN_MUL_ADD;
}

/* A sweep goes over all instructions with one rule and those behind it that say or_else:
 * of these the first that begins is tried. */
typedef struct rule {
    bool (*begins)(const combining *c, int i);
    void (*combine)(combining *c, int i);
    int64_t cols;  /* the fewest that it is worth it for */
    bool or_else;  /* where the rule before does not begin */
    bool standing; /* of tiles that stand too, however few columns they have */
} rule;

static const rule rules[] = {
    /* the columns' numbers = labels of rows, then choices: one element of a row is found, none compared (SET, PICK) */
    {is_eq, combine_label, 0, false, false},
    /* a value a row, loaded or spread, then add, sub or mul: the reader takes it as such (ROWS) */
    {is_value_a_row, combine_spread, SAMBA_LONG_ROW_COLUMNS, false, true},
    /* add, sub, mul, minimum, maximum or relu, then another: one map of three sources; mul, then sum: a dot product (DOT); a
     * product that is collected */
    {is_pairable, combine_pair, 0, false, true},
    /* rounding, then storing it: the store, which rounds by itself; or, where others read it too, both in one pass (ROUND) */
    {is_rounding, combine_rounding, 0, true, false},
    /* a choice by a loaded value a row: rows are copied (CHOOSE) */
    {is_choice, combine_choice, SAMBA_LONG_ROW_COLUMNS, false, false},
    /* a comparison, then a choice: no mask is stored (SELECT) */
    {is_comparison, combine_comparison, 0, false, false},
    /* of which a sum, where 0 stands for NaN: one pass (REDUCE, COLLECT) */
    {is_not_equal, combine_nansum, 0, false, false},
    /* a number for NaN, then two bounds (INSIDE) */
    {is_not_equal, combine_number, 0, false, false},
    /* two such choices, below a number and above another (INSIDE) */
    {is_select, combine_inside, 0, false, false},
    /* what norms and their gradients do to rows: two or more of add, sub, mul by a value a row or an element (NORM) */
    {is_scaled_rows, combine_standardize, 0, false, false},
    {is_raised_rows, combine_standardize_add, 0, true, false},
    {is_mul_add, combine_affine, 0, true, false},
    {is_sum, combine_slope_add, 0, true, false},
    /* a map whose row sums are wanted, though others read it too (SUMMED) */
    {is_there, combine_sums, 0, false, false},
    /* gelu_tanh and its gradient, of one argument: they share an exponential (BOTH). Its second result stands where others have a
     * source, so it is the last. */
    {is_gelu_grad, combine_gelu, 0, false, false},
    /* the kernels for numbers: no other rule changes what an instruction reads any more */
    {is_merged, take_numbers, 0, false, false},
};

static void run_sweep(combining *c, const rule *first, const rule *end)
{
    for (int s = 0; s < c->program->step_count; s++) {
        c->begin = c->program->steps[s].begin, c->end = c->program->steps[s].end;
        for (int i = c->begin; i < c->end; i++) {
            const rule *at = first;
            while (at < end && !at->begins(c, i))
                at++;
            if (at < end)
                at->combine(c, i);
        }
    }
}

/* Closes the gaps. */
static void close_up(combining *c, samba_step *steps, samba_code *codes)
{
    samba_tile_program *program = c->program;
    int kept = program->setup;
    for (int i = kept; i < program->code_count; i++)
        if (c->moved[i] >= 0)
            c->state[c->moved[i]] = GONE;
    for (int s = 0; s < program->step_count; s++) {
        int begin = kept;
        for (int i = program->steps[s].begin; i < program->steps[s].end; i++) {
            if (c->moved[i] >= 0)
                codes[kept++] = program->codes[c->moved[i]];
            if (c->state[i] != GONE)
                codes[kept++] = program->codes[i];
        }
        steps[s] = (samba_step){begin, kept, program->steps[s].loop};
    }
    if (program->setup > 0)
        memcpy(codes, program->codes, (size_t)program->setup * sizeof *codes);
    program->codes = codes;
    program->steps = steps;
    program->code_count = kept;
}

samba_status samba_tile_combine(samba_tile_program *program, const samba_program *source, samba_arena *arena)
{
    size_t codes = (size_t)program->code_count;
    combining c = {.program = program};
    samba_step *steps = samba_arena_alloc(arena, (size_t)program->step_count * sizeof *steps);
    c.list = samba_arena_alloc(arena, codes * sizeof *c.list);
    c.state = samba_arena_alloc(arena, codes);
    c.moved = samba_arena_alloc(arena, codes * sizeof *c.moved);
    samba_code *kept = samba_arena_alloc(arena, codes * sizeof *kept);
    if (!steps || !c.list || !c.state || !c.moved || !kept)
        return SAMBA_ERROR_MEMORY;
    if (codes > 0)
        memcpy(c.list, source->instructions, codes * sizeof *c.list);
    for (size_t i = 0; i < codes; i++)
        c.moved[i] = -1;
    for (const rule *sweep = rules, *next; sweep < rules + SAMBA_COUNT(rules); sweep = next) {
        for (next = sweep + 1; next < rules + SAMBA_COUNT(rules) && next->or_else;)
            next++;
        if (program->stands ? sweep->standing : program->cols >= sweep->cols)
            run_sweep(&c, sweep, next);
    }
    close_up(&c, steps, kept);
    return SAMBA_OK;
}
