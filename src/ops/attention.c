/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaled dot product attention as one operator: softmax(q k^T * scale + mask) v for each head, in which no T x T matrix is ever a
 * value of the graph. What backward needs of the weights is one number a query, the log of the sum of their exponentials
 * (attention_lse): weight ij is exp(score ij - lse i). attention and attention_lse are two nodes of equal inputs, and fusion
 * makes one stage of them.
 *
 * Heads stand before positions in the inputs, as torch has them, and after them in the results: a result lies as the next
 * projection reads it, the gradients as the joint projection of q, k and v wrote those. */
#include "ops/families.h"
#include <math.h>
#include <string.h>

enum { Q, K, V, MASK };

typedef struct sizes {
    int64_t b, h, hkv, tq, tk, d, dv;
    int64_t group;           /* query heads that share a key head */
    int mask, p, seed, rest; /* numbers of inputs; -1: not there; rest: of what follows attention's own inputs */
} sizes;

static sizes sizes_of(const samba_attrs_attention *attrs, const int64_t *q, const int64_t *k, const int64_t *v)
{
    sizes s = {.b = q[0], .h = q[1], .hkv = k[1], .tq = q[2], .tk = k[2], .d = q[3], .dv = v[3]};
    s.group = s.hkv > 0 ? s.h / s.hkv : 1;
    s.mask = attrs->masked ? MASK : -1;
    s.p = attrs->dropout ? MASK + (attrs->masked != 0) : -1;
    s.seed = attrs->dropout ? s.p + 1 : -1;
    s.rest = V + 1 + (attrs->masked != 0) + 2 * (attrs->dropout != 0);
    return s;
}

static bool packs(const sizes *s) { return s->tq == s->tk && s->d == s->dv; }

/* ---- shapes ---- */

static samba_status check_mask(samba_infer *infer, const sizes *s)
{
    const samba_node *mask = infer->inputs[MASK];
    if (mask->dtype != SAMBA_BOOL)
        SAMBA_TRY(samba_infer_need_same_dtype(infer, Q, MASK));
    const int64_t scores[4] = {s->b, s->h, s->tq, s->tk};
    bool broadcasts = mask->rank <= 4;
    for (int i = 1; broadcasts && i <= mask->rank; i++)
        broadcasts = mask->shape[mask->rank - i] == 1 || mask->shape[mask->rank - i] == scores[4 - i];
    return broadcasts
               ? SAMBA_OK
               : samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "the mask %s does not broadcast to the scores (B, H, Tq, Tk) = %s",
                                  SAMBA_SHAPE_OF(mask), SAMBA_SHAPE(4, scores));
}

/* Checks what attention, attention_lse and attention_grad share: `more` inputs follow attention's own. */
static samba_status check_inputs(samba_infer *infer, int more, sizes *s)
{
    const samba_attrs_attention *attrs = &infer->attrs->attention;
    int expected = V + 1 + (attrs->masked != 0) + 2 * (attrs->dropout != 0) + more;
    if (infer->arity != expected)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected %d inputs with masked = %lld and dropout = %lld, given %d",
                                expected, (long long)attrs->masked, (long long)attrs->dropout, infer->arity);
    if (isnan(attrs->scale))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "the scale must be a number, given NaN");
    SAMBA_TRY(samba_infer_need_floating(infer, Q));
    const samba_node *q = infer->inputs[Q], *k = infer->inputs[K], *v = infer->inputs[V];
    char q_text[SAMBA_SHAPE_TEXT], k_text[SAMBA_SHAPE_TEXT], v_text[SAMBA_SHAPE_TEXT];
    samba_shape_format(q->rank, q->shape, q_text, sizeof q_text);
    samba_shape_format(k->rank, k->shape, k_text, sizeof k_text);
    samba_shape_format(v->rank, v->shape, v_text, sizeof v_text);
    for (int i = K; i <= V; i++)
        SAMBA_TRY(samba_infer_need_same_dtype(infer, Q, i));
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || q->shape[0] != k->shape[0] || q->shape[0] != v->shape[0] ||
        k->shape[1] != v->shape[1] || k->shape[2] != v->shape[2] || q->shape[3] != k->shape[3])
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected q (B, H, Tq, D), k (B, Hkv, Tk, D) and v (B, Hkv, Tk, Dv), given %s, %s and %s", q_text,
                                k_text, v_text);
    if (k->shape[1] == 0 ? q->shape[1] != 0 : q->shape[1] % k->shape[1] != 0)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "the heads of k and v must divide those of q, given %lld heads of q and %lld of k",
                                (long long)q->shape[1], (long long)k->shape[1]);
    *s = sizes_of(attrs, q->shape, k->shape, v->shape);
    if (s->mask >= 0)
        SAMBA_TRY(check_mask(infer, s));
    if (s->p >= 0) {
        SAMBA_TRY(samba_infer_need_dtype(infer, s->p, SAMBA_FLOAT64));
        SAMBA_TRY(samba_infer_need_rank(infer, s->p, 0));
        SAMBA_TRY(samba_infer_need_dtype(infer, s->seed, SAMBA_INT64));
        SAMBA_TRY(samba_infer_need_rank(infer, s->seed, 0));
    }
    return SAMBA_OK;
}

samba_status samba_infer_attention(samba_infer *infer)
{
    sizes s;
    SAMBA_TRY(check_inputs(infer, 0, &s));
    return samba_infer_set(infer, infer->inputs[Q]->dtype, 4, (int64_t[]){s.b, s.tq, s.h, s.dv});
}

samba_status samba_infer_attention_lse(samba_infer *infer)
{
    sizes s;
    SAMBA_TRY(check_inputs(infer, 0, &s));
    return samba_infer_set(infer, samba_compute_dtype(infer->inputs[Q]->dtype), 3, (int64_t[]){s.b, s.h, s.tq});
}

samba_status samba_infer_attention_grad(samba_infer *infer)
{
    sizes s;
    SAMBA_TRY(check_inputs(infer, 3, &s));
    const samba_node *q = infer->inputs[Q], *lse = infer->inputs[s.rest + 1];
    const int64_t result[4] = {s.b, s.tq, s.h, s.dv}, rows[3] = {s.b, s.h, s.tq};
    for (int i = s.rest; i <= s.rest + 2; i += 2) {
        const samba_node *given = infer->inputs[i];
        SAMBA_TRY(samba_infer_need_same_dtype(infer, Q, i));
        if (!samba_shape_equal(given->rank, given->shape, 4, result))
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected the %s in shape %s, given %s",
                                    i == s.rest ? "result" : "gradient of the result", SAMBA_SHAPE(4, result),
                                    SAMBA_SHAPE_OF(given));
    }
    SAMBA_TRY(samba_infer_need_dtype(infer, s.rest + 1, samba_compute_dtype(q->dtype)));
    if (!samba_shape_equal(lse->rank, lse->shape, 3, rows))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected the log-sum-exp in shape %s, given %s", SAMBA_SHAPE(3, rows),
                                SAMBA_SHAPE_OF(lse));
    if (packs(&s))
        return samba_infer_set(infer, q->dtype, 4, (int64_t[]){s.b, s.tq, s.h + 2 * s.hkv, s.d});
    int64_t dq, dk, dv, total; /* each at most the size of an input, which is checked; the heads of k are at most q's */
    bool fits = samba_shape_numel(4, (int64_t[]){s.b, s.tq, s.h, s.d}, &dq) &&
                samba_shape_numel(4, (int64_t[]){s.b, s.tk, s.hkv, s.d}, &dk) &&
                samba_shape_numel(4, (int64_t[]){s.b, s.tk, s.hkv, s.dv}, &dv) && samba_add_checked(dq, dk, &total) &&
                samba_add_checked(total, dv, &total);
    return samba_infer_set(infer, q->dtype, 1, &(int64_t){fits ? total : INT64_MAX});
}

/* ---- gradient ---- */

/* One part of what attention_grad gives, (B, T, heads, D) with `heads` from `first` on, as (B, heads, T, D). */
static samba_ref part_of(samba_graph *graph, const sizes *s, samba_ref gradients, int input)
{
    int64_t heads = input == Q ? s->h : s->hkv, length = input == Q ? s->tq : s->tk, depth = input == V ? s->dv : s->d;
    int64_t shape[4] = {s->b, length, heads, depth};
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    samba_attrs_slice *slice = &attrs.slice;
    if (packs(s)) {
        slice->start.count = slice->stop.count = slice->step.count = 4;
        for (int i = 0; i < 4; i++) {
            slice->stop.at[i] = shape[i];
            slice->step.at[i] = 1;
        }
        slice->start.at[2] = input == Q ? 0 : input == K ? s->h : s->h + s->hkv;
        slice->stop.at[2] = slice->start.at[2] + heads;
        samba_ref part = samba_emit(graph, SAMBA_OP_slice, 1, &gradients, &attrs);
        return samba_emit_permute(graph, part, (int64_t[]){0, 2, 1, 3});
    }
    int64_t dq = s->b * s->tq * s->h * s->d, dk = s->b * s->tk * s->hkv * s->d;
    slice->start.count = slice->stop.count = slice->step.count = 1;
    slice->start.at[0] = input == Q ? 0 : input == K ? dq : dq + dk;
    slice->stop.at[0] = slice->start.at[0] + s->b * length * heads * depth;
    slice->step.at[0] = 1;
    samba_ref part = samba_emit_reshape(graph, samba_emit(graph, SAMBA_OP_slice, 1, &gradients, &attrs), 4, shape);
    return samba_emit_permute(graph, part, (int64_t[]){0, 2, 1, 3});
}

/* A key or value head for each query head: (B, Hkv, Tk, D) -> (B, H, Tk, D). */
static samba_ref for_each_query(samba_graph *graph, const sizes *s, samba_ref heads, int64_t depth)
{
    if (s->group == 1)
        return heads;
    samba_ref apart = samba_emit_reshape(graph, heads, 5, (int64_t[]){s->b, s->hkv, 1, s->tk, depth});
    apart = samba_emit_expand(graph, apart, 5, (int64_t[]){s->b, s->hkv, s->group, s->tk, depth});
    return samba_emit_reshape(graph, apart, 4, (int64_t[]){s->b, s->h, s->tk, depth});
}

/* 0, 1 ... along one dim of the scores, to be broadcast over the other. */
static samba_ref positions(samba_graph *graph, int64_t count, bool of_queries)
{
    samba_ref line = samba_emit_iota(graph, 1, &count, 0);
    return of_queries ? samba_emit_reshape(graph, line, 2, (int64_t[]){count, 1}) : line;
}

/* The gradient of a mask that is trained (T5's position bias) comes from a matrix of scores made for it: weights * (dweights -
 * sum(dy * y)). The mask of most models is made of constants and asks for none. */
static samba_ref mask_gradient(samba_vjp *vjp, const samba_attrs_attention *attrs, const sizes *s, samba_ref lse)
{
    samba_graph *g = vjp->graph;
    const samba_ref *in = vjp->inputs;
    samba_ref keys = for_each_query(g, s, in[K], s->d), values = for_each_query(g, s, in[V], s->dv);
    samba_ref scores = samba_emit_lift(g, samba_emit2(g, SAMBA_OP_matmul, in[Q], samba_emit_transpose(g, keys, 2, 3)));
    samba_dtype dtype = samba_ref_dtype(g, scores);
    samba_ref mask = samba_emit_lift(g, in[MASK]);
    scores = samba_emit2(g, SAMBA_OP_add, samba_emit_scalar(g, SAMBA_OP_mul, scores, attrs->scale), mask);
    samba_ref column = samba_emit_reshape(g, lse, 4, (int64_t[]){s->b, s->h, s->tq, 1}); /* -inf: the query sees nothing */
    samba_ref blind = samba_emit2(g, SAMBA_OP_eq, column, samba_emit_constant(g, -INFINITY, dtype));
    column = samba_emit3(g, SAMBA_OP_where, blind, samba_emit_constant(g, INFINITY, dtype), column);
    samba_ref weights = samba_emit1(g, SAMBA_OP_exp, samba_emit2(g, SAMBA_OP_sub, scores, column));
    if (attrs->causal) {
        samba_ref query = positions(g, s->tq, true), key = positions(g, s->tk, false);
        samba_ref seen = samba_emit2(g, SAMBA_OP_le, key, query);
        weights = samba_emit3(g, SAMBA_OP_where, seen, weights, samba_emit_constant(g, 0, dtype));
    }
    samba_ref dy = samba_emit_permute(g, vjp->gradient, (int64_t[]){0, 2, 1, 3}),
              y = samba_emit_permute(g, vjp->output, (int64_t[]){0, 2, 1, 3});
    samba_ref dweights = samba_emit_lift(g, samba_emit2(g, SAMBA_OP_matmul, dy, samba_emit_transpose(g, values, 2, 3)));
    if (s->p >= 0)
        dweights = samba_emit3(g, SAMBA_OP_dropout, dweights, in[s->p], in[s->seed]);
    samba_ref result = samba_emit_lift(g, y), total = samba_emit2(g, SAMBA_OP_mul, samba_emit_lift(g, dy), result);
    total = samba_emit_reduce(g, SAMBA_OP_sum, total, 1, (int64_t[]){3});
    return samba_emit2(g, SAMBA_OP_mul, weights, samba_emit2(g, SAMBA_OP_sub, dweights, total));
}

/* The log-sum-exp belongs to the phase of the attention: there one stage computes both. */
samba_status samba_vjp_attention(samba_vjp *vjp)
{
    enum { MOST = MASK + 6 };
    samba_graph *graph = vjp->graph;
    samba_node node = *vjp->node;
    samba_attrs attrs = {.attention = node.attrs->attention};
    sizes s = sizes_of(&attrs.attention, samba_node_at(graph, vjp->inputs[Q])->shape, samba_node_at(graph, vjp->inputs[K])->shape,
                       samba_node_at(graph, vjp->inputs[V])->shape);
    samba_ref inputs[MOST];
    memcpy(inputs, vjp->inputs, (size_t)s.rest * sizeof *inputs);
    samba_phase phase = graph->phase;
    graph->phase = (samba_phase)node.phase;
    samba_ref lse = samba_emit(graph, SAMBA_OP_attention_lse, s.rest, inputs, &attrs);
    graph->phase = phase;
    if (s.mask >= 0 && vjp->needed[MASK])
        samba_vjp_deliver(vjp, MASK, mask_gradient(vjp, &attrs.attention, &s, lse));
    inputs[s.rest] = vjp->output;
    inputs[s.rest + 1] = lse;
    inputs[s.rest + 2] = vjp->gradient;
    samba_ref gradients = samba_emit(graph, SAMBA_OP_attention_grad, s.rest + 3, inputs, &attrs);
    for (int i = Q; gradients != SAMBA_NONE && i <= V; i++)
        if (vjp->needed[i])
            vjp->input_gradients[i] = part_of(graph, &s, gradients, i);
    return SAMBA_OK;
}

/* ---- gradients of the gradient: by the same function in parts, in which T x T matrices are values ---- */

typedef struct parts { /* of a node of attention, attention_lse or attention_grad */
    samba_attrs_attention attrs;
    sizes s;
} parts;

static parts parts_of(const samba_vjp *vjp)
{
    const samba_graph *g = vjp->graph;
    parts p = {.attrs = vjp->node->attrs->attention};
    p.s = sizes_of(&p.attrs, samba_node_at(g, vjp->inputs[Q])->shape, samba_node_at(g, vjp->inputs[K])->shape,
                   samba_node_at(g, vjp->inputs[V])->shape);
    return p;
}

/* The scores (B, H, Tq, Tk), -infinity where a query does not see a key. */
static samba_ref scores_of(samba_graph *g, const parts *p, const samba_ref *in)
{
    const sizes *s = &p->s;
    samba_ref keys = for_each_query(g, s, samba_emit_lift(g, in[K]), s->d);
    samba_ref queries = samba_emit_lift(g, in[Q]), turned = samba_emit_transpose(g, keys, 2, 3);
    samba_ref scores = samba_emit_scalar(g, SAMBA_OP_mul, samba_emit2(g, SAMBA_OP_matmul, queries, turned), p->attrs.scale);
    samba_ref none = samba_emit_constant(g, -INFINITY, samba_ref_dtype(g, scores));
    if (s->mask >= 0 && samba_ref_dtype(g, in[MASK]) == SAMBA_BOOL)
        scores = samba_emit3(g, SAMBA_OP_where, in[MASK], scores, none);
    else if (s->mask >= 0)
        scores = samba_emit2(g, SAMBA_OP_add, scores, samba_emit_lift(g, in[MASK]));
    if (p->attrs.causal) {
        samba_ref query = positions(g, s->tq, true), key = positions(g, s->tk, false);
        scores = samba_emit3(g, SAMBA_OP_where, samba_emit2(g, SAMBA_OP_le, key, query), scores, none);
    }
    return scores;
}

/* Which queries see nothing, (B, H, Tq, 1). */
static samba_ref blind_of(samba_graph *g, samba_ref scores)
{
    samba_ref greatest = samba_emit_reduce(g, SAMBA_OP_amax, samba_emit1(g, SAMBA_OP_detach, scores), 1, (int64_t[]){3});
    return samba_emit_scalar(g, SAMBA_OP_eq, greatest, -INFINITY);
}

static samba_ref compose_attention(samba_graph *g, const parts *p, const samba_ref *in)
{
    const sizes *s = &p->s;
    samba_ref scores = scores_of(g, p, in), blind = blind_of(g, scores);
    samba_ref zero = samba_emit_constant(g, 0, samba_ref_dtype(g, scores));
    samba_attrs along = {.axis = {.dim = 3}};
    scores = samba_emit3(g, SAMBA_OP_where, blind, zero, scores);
    samba_ref weights = samba_emit(g, SAMBA_OP_softmax, 1, &scores, &along);
    weights = samba_emit3(g, SAMBA_OP_where, blind, zero, weights);
    if (s->p >= 0)
        weights = samba_emit3(g, SAMBA_OP_dropout, weights, in[s->p], in[s->seed]);
    samba_ref values = for_each_query(g, s, samba_emit_lift(g, in[V]), s->dv);
    samba_ref result = samba_emit2(g, SAMBA_OP_matmul, weights, values);
    return samba_emit_permute(g, result, (int64_t[]){0, 2, 1, 3});
}

/* log(sum(exp(scores - greatest))) + greatest; of a blind query -infinity, which no gradient reaches */
static samba_ref compose_lse(samba_graph *g, const void *user, const samba_ref *in)
{
    const parts *p = user;
    samba_ref scores = scores_of(g, p, in), blind = blind_of(g, scores);
    samba_dtype dtype = samba_ref_dtype(g, scores);
    scores = samba_emit3(g, SAMBA_OP_where, blind, samba_emit_constant(g, 0, dtype), scores);
    samba_ref greatest = samba_emit_reduce(g, SAMBA_OP_amax, samba_emit1(g, SAMBA_OP_detach, scores), 1, (int64_t[]){3});
    samba_ref terms = samba_emit1(g, SAMBA_OP_exp, samba_emit2(g, SAMBA_OP_sub, scores, greatest));
    samba_ref sum = samba_emit1(g, SAMBA_OP_log, samba_emit_reduce(g, SAMBA_OP_sum, terms, 1, (int64_t[]){3}));
    samba_ref lse = samba_emit2(g, SAMBA_OP_add, sum, greatest);
    lse = samba_emit3(g, SAMBA_OP_where, blind, samba_emit_constant(g, -INFINITY, dtype), lse);
    return samba_emit_reshape(g, lse, 3, (int64_t[]){p->s.b, p->s.h, p->s.tq});
}

samba_status samba_vjp_attention_lse(samba_vjp *vjp)
{
    parts p = parts_of(vjp);
    return samba_vjp_compose(vjp, p.s.rest, compose_lse, &p);
}

/* attention_grad is a function of attention's inputs and of dout alone: its result and its lse follow from those. The gradients
 * of q, k and v in parts, and theirs by the parts of what comes in. */
samba_status samba_vjp_attention_grad(samba_vjp *vjp)
{
    enum { MOST = MASK + 6 };
    samba_graph *g = vjp->graph;
    parts p = parts_of(vjp);
    const sizes *s = &p.s;
    int dout = s->rest + 2, floats[MOST], wanted = 0;
    samba_ref inputs[MOST], by[MOST], results[MOST], first[3], starts[3];
    samba_ref from[3];
    for (int i = 0; i <= dout; i++) {
        inputs[i] = vjp->inputs[i];
        bool is_own = i <= V || i == s->mask || i == dout;
        if (!is_own || (!vjp->needed[i] && i > V))
            continue;
        inputs[i] = samba_emit_variable(g, vjp->inputs[i]); /* q, k and v: what is differentiated first */
        if (!vjp->needed[i])
            continue;
        floats[wanted] = i;
        by[wanted++] = inputs[i];
    }
    samba_ref y = compose_attention(g, &p, inputs), dy = samba_emit_lift(g, inputs[dout]);
    SAMBA_TRY(g->status);
    for (int i = Q; i <= V; i++)
        from[i] = inputs[i];
    SAMBA_TRY(samba_reverse(g, 1, &y, &dy, 3, from, first));
    int count = 0;
    samba_ref out[3];
    for (int i = Q; i <= V; i++) {
        if (first[i] == SAMBA_NONE)
            continue;
        out[count] = first[i];
        starts[count++] = part_of(g, s, vjp->gradient, i);
    }
    SAMBA_TRY(g->status);
    if (count == 0 || wanted == 0)
        return SAMBA_OK;
    SAMBA_TRY(samba_reverse(g, count, out, starts, wanted, by, results));
    for (int k = 0; k < wanted; k++)
        if (results[k] != SAMBA_NONE)
            SAMBA_TRY(samba_vjp_deliver(vjp, floats[k], results[k]));
    return g->status;
}

/* ---- reference ---- */

typedef struct weights { /* one row of scores at a time */
    const samba_reference *reference;
    sizes s;
    double *p;    /* of one query: the weights before dropout */
    double *kept; /* of one query: what dropout multiplies them with */
    double lse;
} weights;

static samba_status weights_new(const samba_reference *reference, weights *w)
{
    const samba_array *in = reference->inputs;
    *w = (weights){.reference = reference, .s = sizes_of(&reference->attrs->attention, in[Q].shape, in[K].shape, in[V].shape)};
    w->p = samba_calloc(reference->context, (size_t)(2 * w->s.tk + 1) * sizeof *w->p);
    w->kept = w->p ? w->p + w->s.tk : NULL;
    return w->p ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

static void weights_free(weights *w) { samba_free(w->reference->context, w->p, (size_t)(2 * w->s.tk + 1) * sizeof *w->p); }

static double element(const samba_array *a, int64_t b, int64_t h, int64_t t, int64_t i)
{
    return samba_array_double(a, ((b * a->shape[1] + h) * a->shape[2] + t) * a->shape[3] + i);
}

/* The mask's addend to score (b, h, i, j). */
static double masked(const weights *w, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const samba_array *mask = &w->reference->inputs[MASK];
    const samba_array scores = {.rank = 4, .shape = {w->s.b, w->s.h, w->s.tq, w->s.tk}};
    double value =
        samba_array_double(mask, samba_broadcast_offset(mask, &scores, ((b * w->s.h + h) * w->s.tq + i) * w->s.tk + j));
    return mask->dtype == SAMBA_BOOL ? (value != 0 ? 0 : -INFINITY) : value;
}

/* The weights of query i: p[j] = exp(score[j] - lse), all 0 where it sees nothing. */
static void fill_row(weights *w, int64_t b, int64_t h, int64_t i)
{
    const samba_array *in = w->reference->inputs;
    const samba_attrs_attention *attrs = &w->reference->attrs->attention;
    const sizes *s = &w->s;
    double greatest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->tk; j++) {
        double score = 0;
        for (int64_t d = 0; d < s->d; d++)
            score += element(&in[Q], b, h, i, d) * element(&in[K], b, h / s->group, j, d);
        score = attrs->causal && j > i ? -INFINITY : score * attrs->scale + (s->mask >= 0 ? masked(w, b, h, i, j) : 0);
        w->p[j] = score;
        greatest = score > greatest || isnan(score) ? score : greatest;
    }
    bool blind = greatest == -INFINITY;
    for (int64_t j = 0; j < s->tk; j++)
        sum += w->p[j] = blind ? 0 : exp(w->p[j] - greatest);
    w->lse = blind ? -INFINITY : greatest + log(sum);
    for (int64_t j = 0; j < s->tk; j++) {
        w->p[j] = blind ? 0 : w->p[j] / sum;
        w->kept[j] = 1;
        if (s->p >= 0) {
            double rate = samba_array_double(&in[s->p], 0);
            uint64_t seed = (uint64_t)samba_array_int64(&in[s->seed], 0);
            bool kept = samba_philox_uniform(seed, (uint64_t)(((b * s->h + h) * s->tq + i) * s->tk + j)) >= (float)rate;
            w->kept[j] = kept ? 1 / (1 - rate) : 0;
        }
    }
}

samba_status samba_ref_attention(const samba_reference *reference)
{
    weights w;
    SAMBA_TRY(weights_new(reference, &w));
    const sizes *s = &w.s;
    for (int64_t b = 0; b < s->b; b++)
        for (int64_t h = 0; h < s->h; h++)
            for (int64_t i = 0; i < s->tq; i++) {
                fill_row(&w, b, h, i);
                for (int64_t d = 0; d < s->dv; d++) {
                    double sum = 0;
                    for (int64_t j = 0; j < s->tk; j++)
                        if (w.p[j] != 0)
                            sum += w.p[j] * w.kept[j] * element(&reference->inputs[V], b, h / s->group, j, d);
                    samba_array_set_double(reference->output, ((b * s->tq + i) * s->h + h) * s->dv + d, sum);
                }
            }
    weights_free(&w);
    return SAMBA_OK;
}

samba_status samba_ref_attention_lse(const samba_reference *reference)
{
    weights w;
    SAMBA_TRY(weights_new(reference, &w));
    for (int64_t row = 0; row < reference->output->numel; row++) {
        fill_row(&w, row / w.s.tq / w.s.h, row / w.s.tq % w.s.h, row % w.s.tq);
        samba_array_set_double(reference->output, row, w.lse);
    }
    weights_free(&w);
    return SAMBA_OK;
}

/* The offset of element (b, t, head, d) of the gradient of input q, k or v in the result of attention_grad. */
static int64_t gradient_offset(const sizes *s, int input, int64_t b, int64_t head, int64_t t, int64_t d)
{
    int64_t heads = input == Q ? s->h : s->hkv, length = input == Q ? s->tq : s->tk, depth = input == V ? s->dv : s->d;
    int64_t dq = s->b * s->tq * s->h * s->d, dk = s->b * s->tk * s->hkv * s->d;
    if (packs(s))
        return ((b * length + t) * (s->h + 2 * s->hkv) + (input == Q ? 0 : input == K ? s->h : s->h + s->hkv) + head) * depth + d;
    return (input == Q ? 0 : input == K ? dq : dq + dk) + ((b * length + t) * heads + head) * depth + d;
}

/* With do the gradient of the result, p the weights and m what dropout multiplies them with:
 * dv_j = sum_i p_ij m_ij do_i;  ds_ij = p_ij (m_ij do_i.v_j - do_i.out_i);  dq_i = scale sum_j ds_ij k_j;
 * dk_j = scale sum_i ds_ij q_i */
static void add_gradients(weights *w, double *sums, int64_t b, int64_t h, int64_t i)
{
    const samba_array *in = w->reference->inputs, *out = &in[w->s.rest], *gradient = &in[w->s.rest + 2];
    const sizes *s = &w->s;
    double scale = w->reference->attrs->attention.scale, delta = 0;
    int64_t head = h / s->group, row = ((b * s->tq + i) * s->h + h) * s->dv;
    fill_row(w, b, h, i);
    for (int64_t d = 0; d < s->dv; d++)
        delta += samba_array_double(gradient, row + d) * samba_array_double(out, row + d);
    for (int64_t j = 0; j < s->tk; j++) {
        double along = 0;
        if (w->p[j] == 0)
            continue;
        for (int64_t d = 0; d < s->dv; d++) {
            double g = samba_array_double(gradient, row + d);
            along += g * element(&in[V], b, head, j, d);
            sums[gradient_offset(s, V, b, head, j, d)] += w->p[j] * w->kept[j] * g;
        }
        double ds = w->p[j] * (w->kept[j] * along - delta) * scale;
        for (int64_t d = 0; d < s->d; d++) {
            sums[gradient_offset(s, Q, b, h, i, d)] += ds * element(&in[K], b, head, j, d);
            sums[gradient_offset(s, K, b, head, j, d)] += ds * element(&in[Q], b, h, i, d);
        }
    }
}

samba_status samba_ref_attention_grad(const samba_reference *reference)
{
    size_t size = (size_t)(reference->output->numel + 1) * sizeof(double);
    double *sums = samba_calloc(reference->context, size);
    weights w;
    samba_status status = sums ? weights_new(reference, &w) : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK) {
        for (int64_t row = 0; row < w.s.b * w.s.h * w.s.tq; row++)
            add_gradients(&w, sums, row / w.s.tq / w.s.h, row / w.s.tq % w.s.h, row % w.s.tq);
        for (int64_t i = 0; i < reference->output->numel; i++)
            samba_array_set_double(reference->output, i, sums[i]);
        weights_free(&w);
    }
    if (sums)
        samba_free(reference->context, sums, size);
    return status;
}

/* ---- flops: products of the scores that are seen, about half of all where it is causal ---- */

static int64_t flops(const samba_node *node, const samba_node *const *inputs, double times_d, double times_dv)
{
    sizes s = sizes_of(&node->attrs->attention, inputs[Q]->shape, inputs[K]->shape, inputs[V]->shape);
    double tq = (double)s.tq, tk = (double)s.tk, seen = tq * tk;
    if (node->attrs->attention.causal)
        seen = tq <= tk ? tq * (tq + 1) / 2 : tk * (tk + 1) / 2 + (tq - tk) * tk;
    return (int64_t)fmin(2 * (double)s.b * (double)s.h * seen * (times_d * (double)s.d + times_dv * (double)s.dv), 9e18);
}

int64_t samba_flops_attention(const samba_node *node, const samba_node *const *inputs) { return flops(node, inputs, 1, 1); }
int64_t samba_flops_attention_lse(const samba_node *node, const samba_node *const *inputs) { return flops(node, inputs, 1, 0); }
int64_t samba_flops_attention_grad(const samba_node *node, const samba_node *const *inputs) { return flops(node, inputs, 3, 2); }
