/* SPDX-License-Identifier: Apache-2.0
 *
 * Connectionist temporal classification (ops/ctc.c says what it is): each row of the batch is a whole, so threads share the rows.
 * Sums of probabilities run in logarithms and in double, step by step. The gradient keeps alpha of all steps, and of beta the
 * last one. A row with a label or a length out of range gives 0 and raises the stage's fault. */
#include "device/cpu/machine.h"
#include <math.h>

typedef struct ctc_state {
    samba_ctc ctc;
    bool narrow; /* float32 */
    const void *x, *dy;
    const int64_t *targets, *input_lengths, *target_lengths;
    void *y;
    int64_t scratch;
    double row; /* ns, about */
    volatile int32_t *fault;
    int32_t fault_value;
} ctc_state;

typedef struct row { /* of the batch, at work */
    const ctc_state *s;
    int64_t number, steps, places; /* places: labels and the blanks around them */
    const int64_t *labels;
} row;

static inline double read_at(const ctc_state *s, const void *from, int64_t i)
{
    return s->narrow ? (double)((const float *)from)[i] : ((const double *)from)[i];
}
static inline void write_at(const ctc_state *s, int64_t i, double value)
{
    if (s->narrow)
        ((float *)s->y)[i] = (float)value;
    else
        ((double *)s->y)[i] = value;
}

static bool row_at(const ctc_state *s, int64_t number, row *r)
{
    const int64_t labels = s->target_lengths[number];
    *r = (row){s, number, s->input_lengths[number], 1, s->targets + number * s->ctc.most};
    if (r->steps < 0 || r->steps > s->ctc.steps || labels < 0 || labels > s->ctc.most)
        return false;
    r->places = 2 * labels + 1;
    for (int64_t i = 0; i < labels; i++)
        if (r->labels[i] < 0 || r->labels[i] >= s->ctc.classes)
            return false;
    return true;
}

static inline int64_t label_at(const row *r, int64_t place) { return place % 2 ? r->labels[place / 2] : r->s->ctc.blank; }
static inline int64_t element(const row *r, int64_t step, int64_t class_)
{
    return (step * r->s->ctc.batch + r->number) * r->s->ctc.classes + class_;
}
static inline double log_at(const row *r, int64_t step, int64_t place)
{
    return read_at(r->s, r->s->x, element(r, step, label_at(r, place)));
}
/* May a way go from the place two before to this one? */
static inline bool skips(const row *r, int64_t place)
{
    return place % 2 && place >= 3 && r->labels[place / 2] != r->labels[place / 2 - 1];
}

static inline double log_sum(double a, double b, double c)
{
    const double most = fmax(fmax(a, b), c);
    if (most == -INFINITY && a == a && b == b && c == c)
        return -INFINITY;
    return most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

/* alpha of a step, from that of the step before; NULL: of the first */
static void go_forward(const row *r, int64_t step, const double *before, double *alpha)
{
    for (int64_t p = 0; p < r->places; p++) {
        double sum = p < 2 ? 0 : -INFINITY;
        if (before)
            sum = log_sum(before[p], p > 0 ? before[p - 1] : -INFINITY, skips(r, p) ? before[p - 2] : -INFINITY);
        alpha[p] = sum + log_at(r, step, p);
    }
}

static double total_of(const row *r, const double *last)
{
    return log_sum(last[r->places - 1], r->places > 1 ? last[r->places - 2] : -INFINITY, -INFINITY);
}

static void find_loss(const row *r, double *room)
{
    double *alpha = room, *next = room + 2 * r->s->ctc.most + 1, total = r->places == 1 ? 0 : -INFINITY;
    for (int64_t step = 0; step < r->steps; step++) {
        go_forward(r, step, step ? alpha : NULL, next);
        double *was = alpha;
        alpha = next;
        next = was;
    }
    if (r->steps > 0)
        total = total_of(r, alpha);
    write_at(r->s, r->number, r->s->ctc.zero_infinity && total == -INFINITY ? 0 : -total);
}

/* beta of a step, in place: on entry that of the step behind, to whose log probabilities it is added on the way */
static void go_back(const row *r, int64_t step, double *beta)
{
    if (step == r->steps - 1) {
        for (int64_t p = 0; p < r->places; p++)
            beta[p] = p >= r->places - 2 ? 0 : -INFINITY;
        return;
    }
    for (int64_t p = 0; p < r->places; p++)
        beta[p] += log_at(r, step + 1, p);
    for (int64_t p = 0; p < r->places; p++)
        beta[p] = log_sum(beta[p], p + 1 < r->places ? beta[p + 1] : -INFINITY,
                          p + 2 < r->places && skips(r, p + 2) ? beta[p + 2] : -INFINITY);
}

static void clear(const row *r, int64_t step)
{
    for (int64_t c = 0; c < r->s->ctc.classes; c++)
        write_at(r->s, element(r, step, c), 0);
}

static void find_gradient(const row *r, double *room)
{
    const ctc_state *s = r->s;
    const int64_t pitch = 2 * s->ctc.most + 1;
    double *beta = room, *ways = room + pitch, *alpha = ways + s->ctc.classes;
    for (int64_t step = 0; step < r->steps; step++)
        go_forward(r, step, step ? alpha + (step - 1) * pitch : NULL, alpha + step * pitch);
    const double total = r->steps > 0 ? total_of(r, alpha + (r->steps - 1) * pitch) : 0, dy = read_at(s, s->dy, r->number);
    const bool none = s->ctc.zero_infinity && total == -INFINITY;
    for (int64_t step = s->ctc.steps - 1; step >= 0; step--) {
        if (none || step >= r->steps) {
            clear(r, step);
            continue;
        }
        go_back(r, step, beta);
        for (int64_t c = 0; c < s->ctc.classes; c++)
            ways[c] = -INFINITY;
        for (int64_t p = 0; p < r->places; p++) {
            double *way = &ways[label_at(r, p)];
            *way = log_sum(*way, alpha[step * pitch + p] + beta[p], -INFINITY);
        }
        for (int64_t c = 0; c < s->ctc.classes; c++) {
            const int64_t at = element(r, step, c);
            write_at(s, at, (exp(read_at(s, s->x, at)) - exp(ways[c] - total)) * dy);
        }
    }
}

static void run_ctc(const void *state, char *scratch, int phase, int thread, int threads)
{
    const ctc_state *s = state;
    const int64_t begin = s->ctc.batch * thread / threads, end = s->ctc.batch * (thread + 1) / threads;
    double *room = (double *)(void *)(scratch + thread * s->scratch);
    (void)phase;
    for (int64_t number = begin; number < end; number++) {
        row r;
        if (row_at(s, number, &r)) {
            (s->ctc.gradient ? find_gradient : find_loss)(&r, room);
            continue;
        }
        __atomic_store_n(s->fault, s->fault_value, __ATOMIC_RELAXED);
        if (!s->ctc.gradient)
            write_at(s, number, 0);
        for (int64_t step = 0; step < s->ctc.steps && s->ctc.gradient; step++)
            clear(&r, step);
    }
}

static int64_t ctc_units(const void *state, int phase, int threads, bool *free)
{
    (void)phase, (void)threads;
    *free = false;
    return ((const ctc_state *)state)->ctc.batch;
}

static double ctc_work(const void *state, int phase, int threads, int64_t unit)
{
    (void)phase, (void)threads, (void)unit;
    return ((const ctc_state *)state)->row;
}

static const samba_dealing ctc_dealing = {ctc_units, ctc_work, NULL, NULL};

samba_status samba_prepare_ctc(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    ctc_state *s = samba_arena_alloc(prepare->arena, sizeof *s);
    if (!s)
        return SAMBA_ERROR_MEMORY;
    const samba_ctc *c = &stage->ctc;
    const samba_operand *o = stage->operands;
    *s = (ctc_state){.ctc = *c, .narrow = o->dtype == SAMBA_FLOAT32, .fault = prepare->fault};
    s->fault_value = prepare->stage_index + 1;
    s->x = samba_operand_memory(prepare, o++);
    s->targets = (const int64_t *)(const void *)samba_operand_memory(prepare, o++);
    s->input_lengths = (const int64_t *)(const void *)samba_operand_memory(prepare, o++);
    s->target_lengths = (const int64_t *)(const void *)samba_operand_memory(prepare, o++);
    if (c->gradient)
        s->dy = samba_operand_memory(prepare, o++);
    s->y = samba_operand_memory(prepare, o);
    const int64_t places = 2 * c->most + 1, numbers = c->gradient ? (c->steps + 1) * places + c->classes : 2 * places;
    s->scratch = (numbers * (int64_t)sizeof(double) + SAMBA_ALIGNMENT - 1) / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT;
    if (c->batch > 0)
        s->row = (double)stage->flops / (double)c->batch / prepare->machine->share.line * 1e9;
    *prepared = (samba_prepared){.run = run_ctc, .state = s, .phases = 1, .thread_scratch = s->scratch, .dealing = &ctc_dealing};
    return SAMBA_OK;
}
