/* SPDX-License-Identifier: Apache-2.0
 *
 * See update.h. A program is read as expressions: each instruction's sources are the instructions that made them, so neither the
 * order of instructions nor the numbers of registers matter. Either side of a sum or product may be the one that is looked for:
 * both orders give the same bits. */
#include "device/cpu/tile/update.h"

enum { MOST = 64 }; /* instructions and registers of a program that is looked at */

typedef struct reading {
    const samba_prepare *prepare;
    const samba_stage *stage;
    const samba_instruction *list;
    int a[MOST], b[MOST], c[MOST]; /* the instructions that made the sources of instruction i; -1 none */
    int store[MOST], stores; /* instructions that store */
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
    if (program->instruction_count > MOST || program->register_count > MOST || program->step_count != 1 || !program->steps[0].loop)
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

static const float *scalar(const reading *r, int at) { return number(r, at, SAMBA_FLOAT32); }

/* ---- expressions; each true where `at` is one ---- */
static bool is(const reading *r, int at, int op, int *a, int *b)
{
    if (at < 0 || r->list[at].op != op)
        return false;
    *a = r->a[at];
    *b = r->b[at];
    return true;
}

/* x op s */
static bool with_scalar(const reading *r, int at, int op, int *x, const float **s)
{
    int other;
    if (!is(r, at, op, x, &other))
        return false;
    if ((*s = scalar(r, other)))
        return true;
    int left = *x;
    *x = other;
    return (*s = scalar(r, left)) != NULL;
}

/* memory * s, where `memory` is this or, when *memory is NULL, any */
static bool scaled(const reading *r, int at, float **memory, const float **s)
{
    int x;
    if (!with_scalar(r, at, SAMBA_TILE_mul, &x, s))
        return false;
    float *found = array(r, x, SAMBA_TILE_load);
    bool fits = found && (!*memory || *memory == found);
    *memory = fits ? found : *memory;
    return fits;
}

/* memory * s + rest */
static bool scaled_and(const reading *r, int at, float **memory, const float **s, int *rest)
{
    int x, y;
    if (!is(r, at, SAMBA_TILE_add, &x, &y))
        return false;
    *rest = y;
    if (scaled(r, x, memory, s))
        return true;
    *rest = x;
    return scaled(r, y, memory, s);
}

/* The gradient, clipped or not. */
static bool read_gradient(const reading *r, int at, samba_update *u)
{
    float *gradient = array(r, at, SAMBA_TILE_load);
    if (!gradient && !scaled(r, at, &gradient, &u->clip))
        return false;
    u->gradient = gradient;
    return true;
}

/* Is the value `at` stored at `memory`? */
static bool is_stored(const reading *r, int at, const float *memory)
{
    for (int i = 0; i < r->stores; i++)
        if (r->a[r->store[i]] == at && array(r, r->store[i], SAMBA_TILE_store) == memory)
            return true;
    return false;
}

/* active ? x : y, where `y` is that */
static bool is_choice(const reading *r, int at, const uint8_t **active, int *x, int *y)
{
    if (at < 0 || r->list[at].op != SAMBA_TILE_where)
        return false;
    const uint8_t *flag = number(r, r->a[at], SAMBA_BOOL);
    if (!flag || (*active && *active != flag))
        return false;
    *active = flag;
    *x = r->b[at];
    *y = r->c[at];
    return true;
}

/* Is what the momentum becomes while it counts, and else the momentum that is there, stored there? */
static bool keeps_momentum(const reading *r, int mean, samba_update *u)
{
    bool kept = false;
    for (int i = 0; i < r->stores; i++) {
        int next, before;
        kept = kept || (array(r, r->store[i], SAMBA_TILE_store) == u->mean && is_choice(r, r->a[r->store[i]], &u->active, &next, &before) && next == mean &&
                        array(r, before, SAMBA_TILE_load) == u->mean);
    }
    return kept;
}

/* With momentum: what `at` is of d, which is found. momentum * keep + d, or, where a run decides whether there is momentum,
 * active ? m or d + m * keep : d, with m = momentum * keep + d * share */
static bool read_momentum(const reading *r, int at, samba_update *u, int *d)
{
    int mean = at, taken, other, scaled_d;
    const float *again = NULL;
    if (!is_choice(r, at, &u->active, &mean, d))
        return scaled_and(r, at, &u->mean, &u->keep_mean, d) && is_stored(r, at, u->mean);
    if (is(r, mean, SAMBA_TILE_add, &taken, &other) && (taken == *d || other == *d)) {
        u->nesterov = true;
        if (!with_scalar(r, taken == *d ? other : taken, SAMBA_TILE_mul, &mean, &again))
            return false;
    }
    if (!is(r, mean, SAMBA_TILE_add, &taken, &other))
        return false;
    bool found = scaled(r, taken, &u->mean, &u->keep_mean) && with_scalar(r, other, SAMBA_TILE_mul, &scaled_d, &u->share) && scaled_d == *d;
    if (!found) {
        u->mean = NULL;
        found = scaled(r, other, &u->mean, &u->keep_mean) && with_scalar(r, taken, SAMBA_TILE_mul, &scaled_d, &u->share) && scaled_d == *d;
    }
    return found && (!u->nesterov || again == u->keep_mean) && keeps_momentum(r, mean, u);
}

/* p - step * rate, step of d with momentum or without, d = g + p * decay */
static bool read_sgd(const reading *r, int result, samba_update *u)
{
    int p, step, d, gradient;
    if (!is(r, result, SAMBA_TILE_sub, &p, &step) || !(u->parameter = array(r, p, SAMBA_TILE_load)) ||
        !is_stored(r, result, u->parameter) || !with_scalar(r, step, SAMBA_TILE_mul, &d, &u->rate))
        return false;
    if (r->stores == 2 && !read_momentum(r, d, u, &d))
        return false;
    return scaled_and(r, d, &u->parameter, &u->decay, &gradient) && read_gradient(r, gradient, u);
}

/* p * decay - mean' / (sqrt(square') * scale + eps) * rate, mean' = mean + (g - mean) * share, square' = square * keep + g * g * share */
static bool read_adamw(const reading *r, int result, samba_update *u)
{
    int kept, step, ratio, mean, below, root, square, none, m, change, away, g, m_again, product, g1, g2;
    if (!is(r, result, SAMBA_TILE_sub, &kept, &step) || !scaled(r, kept, &u->parameter, &u->decay) ||
        !is_stored(r, result, u->parameter) || !with_scalar(r, step, SAMBA_TILE_mul, &ratio, &u->rate) ||
        !is(r, ratio, SAMBA_TILE_div, &mean, &below) || !with_scalar(r, below, SAMBA_TILE_add, &root, &u->eps) ||
        !with_scalar(r, root, SAMBA_TILE_mul, &square, &u->scale) || !is(r, square, SAMBA_TILE_sqrt, &square, &none))
        return false;
    if (!is(r, mean, SAMBA_TILE_add, &m, &change))
        return false;
    if (!(u->mean = array(r, m, SAMBA_TILE_load))) {
        u->mean = array(r, change, SAMBA_TILE_load);
        change = m;
    }
    if (!u->mean || !is_stored(r, mean, u->mean) || !with_scalar(r, change, SAMBA_TILE_mul, &away, &u->share_mean) || !is(r, away, SAMBA_TILE_sub, &g, &m_again) ||
        array(r, m_again, SAMBA_TILE_load) != u->mean)
        return false;
    return scaled_and(r, square, &u->square, &u->keep_square, &change) && is_stored(r, square, u->square) &&
           with_scalar(r, change, SAMBA_TILE_mul, &product, &u->share_square) &&
           is(r, product, SAMBA_TILE_mul, &g1, &g2) && g1 == g && g2 == g && read_gradient(r, g, u);
}

bool samba_update_init(samba_update *update, const samba_prepare *prepare, const samba_stage *stage)
{
    reading r = {.prepare = prepare, .stage = stage, .list = stage->program.instructions};
    int64_t count = 1;
    for (int i = 0; i < stage->rank; i++)
        if (!samba_mul_checked(count, stage->domain[i], &count))
            return false;
    if (!read_program(&r))
        return false;
    for (int i = 0; i < r.stores && r.stores <= 3; i++) {
        int result = r.a[r.store[i]];
        *update = (samba_update){.count = count, .run = prepare->machine->kernels->updates->sgd};
        if (r.stores <= 2 && read_sgd(&r, result, update))
            return true;
        *update = (samba_update){.count = count, .run = prepare->machine->kernels->updates->adamw};
        if (r.stores == 3 && read_adamw(&r, result, update))
            return true;
    }
    return false;
}
