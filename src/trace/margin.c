/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses with a margin: between a value and its label, between pairs, between classes. */
#include "trace/losses.h"

#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>

static const int last = -1;

static samba_value along(samba_value a) { return samba_sum(a, 1, &last, false); }

/* ---- a value and its label of 1 or -1 ---- */

samba_value samba_soft_margin_loss(samba_value input, samba_value target, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target};
    if (!samba_losses_enter(&loss, "soft_margin_loss", 2, v, reduction))
        return samba_trace_none(loss.graph);
    samba_losses_compare(&loss, input, target, false);
    return samba_losses_leave(&loss, samba_softplus(samba_neg(samba_mul(v[1], v[0]))), reduction);
}

samba_value samba_hinge_embedding_loss(samba_value input, samba_value target, double margin, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target};
    if (!samba_losses_enter(&loss, "hinge_embedding_loss", 2, v, reduction))
        return samba_trace_none(loss.graph);
    samba_value one = samba_losses_number(&loss, 1), zero = samba_losses_number(&loss, 0);
    samba_value beyond = samba_losses_positive(&loss, samba_add_scalar(samba_neg(v[0]), margin));
    samba_value unlike = samba_where(samba_ne(v[1], one), beyond, zero),
                like = samba_where(samba_ne(v[1], samba_neg(one)), v[0], zero);
    return samba_losses_leave(&loss, samba_add(unlike, like), reduction);
}

/* ---- pairs ---- */

samba_value samba_margin_ranking_loss(samba_value input1, samba_value input2, samba_value target, double margin,
                                      samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input1, input2, target};
    if (!samba_losses_enter(&loss, "margin_ranking_loss", 3, v, reduction))
        return samba_trace_none(loss.graph);
    samba_value each = samba_add_scalar(samba_neg(samba_mul(v[2], samba_sub(v[0], v[1]))), margin);
    return samba_losses_leave(&loss, samba_losses_positive(&loss, each), reduction);
}

samba_value samba_cosine_embedding_loss(samba_value input1, samba_value input2, samba_value target, double margin,
                                        samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input1, input2, target};
    if (!samba_losses_enter_any(&loss, "cosine_embedding_loss", 3, v, reduction))
        return samba_trace_none(loss.graph);
    samba_node x = samba_trace_node(input1), y = samba_trace_node(input2), t = samba_trace_node(target);
    if (x.rank != t.rank + 1 || t.rank > 1 || !samba_shape_equal(x.rank, x.shape, y.rank, y.shape) ||
        (t.rank == 1 && t.shape[0] != x.shape[0]))
        return samba_losses_fail_all(&loss, "two inputs (N, D) and a target (N), or (D) and ()", 3,
                                     (samba_value[]){input1, input2, target});
    samba_value product = along(samba_mul(v[0], v[1])), squares[2];
    for (int i = 0; i < 2; i++)
        squares[i] = samba_add_scalar(along(samba_mul(v[i], v[i])), 1e-12);
    samba_value cosine = samba_div(product, samba_sqrt(samba_mul(squares[0], squares[1]))), one = samba_losses_number(&loss, 1);
    samba_value zero = samba_losses_number(&loss, 0), away = samba_losses_positive(&loss, samba_add_scalar(cosine, -margin));
    samba_value apart = samba_where(samba_eq(v[2], samba_neg(one)), away, zero);
    samba_value together = samba_sub(one, cosine), alike = samba_eq(v[2], one);
    return samba_losses_leave(&loss, samba_where(alike, together, apart), reduction);
}

samba_value samba_triplet_margin_loss(samba_value anchor, samba_value positive, samba_value negative,
                                      const samba_triplet_margin_options *options)
{
    const samba_triplet_margin_options defaults = samba_triplet_margin_defaults(), *o = options ? options : &defaults;
    samba_losses loss;
    samba_value v[] = {anchor, positive, negative};
    if (!samba_losses_enter(&loss, "triplet_margin_loss", 3, v, o->reduction))
        return samba_trace_none(loss.graph);
    samba_node x = samba_trace_node(anchor);
    if (x.rank == 0 || samba_value_rank(positive) != x.rank || samba_value_rank(negative) != x.rank)
        return samba_losses_fail_all(&loss, "an anchor, a positive and a negative of one rank, 1 or more", 3,
                                     (samba_value[]){anchor, positive, negative});
    samba_value near = samba_pairwise_distance(v[0], v[1], o->p, o->eps, false),
                far = samba_pairwise_distance(v[0], v[2], o->p, o->eps, false);
    if (o->swap)
        far = samba_minimum(far, samba_pairwise_distance(v[1], v[2], o->p, o->eps, false));
    return samba_losses_leave(&loss, samba_losses_positive(&loss, samba_add_scalar(samba_sub(near, far), o->margin)),
                              o->reduction);
}

/* ---- classes ---- */

/* Logits (N, C) or (C), and a target (N) or (), or of the logits' shape where `wide`. */
static bool need_rows(const samba_losses *loss, samba_value input, samba_value target, bool wide, samba_node *x)
{
    *x = samba_trace_node(input);
    samba_node t = samba_trace_node(target);
    bool fits = x->rank == 1 || x->rank == 2;
    fits = fits && (wide           ? samba_shape_equal(x->rank, x->shape, t.rank, t.shape)
                    : x->rank == 2 ? t.rank == 1 && t.shape[0] == x->shape[0]
                                   : t.rank == 0 || (t.rank == 1 && t.shape[0] == 1));
    if (!fits || x->shape[x->rank - 1] < 1) {
        samba_losses_fail_shapes(loss,
                                 wide ? "an input (N, C) or (C) of 1 class or more and a target of its shape"
                                      : "an input (N, C) or (C) of 1 class or more and a target (N) or ()",
                                 input, target);
        return false;
    }
    if (samba_dtype_table[t.dtype].category == SAMBA_CATEGORY_INTEGER)
        return true;
    return samba_graph_refuse(loss->graph, SAMBA_ERROR_DTYPE, loss->what,
                              "expected a target of class indices, integers, given %s", samba_dtype_name(t.dtype));
}

samba_value samba_multi_margin_loss(samba_value input, samba_value target, const samba_multi_margin_options *options)
{
    const samba_multi_margin_options defaults = samba_multi_margin_defaults(), *o = options ? options : &defaults;
    samba_losses loss;
    samba_node x;
    samba_value v[] = {input, target, o->weight};
    if (!samba_losses_enter_any(&loss, "multi_margin_loss", 3, v, o->reduction) || !need_rows(&loss, input, target, false, &x))
        return samba_trace_none(loss.graph);
    int64_t classes = x.shape[x.rank - 1];
    if (o->p != 1 && o->p != 2)
        return samba_trace_fail(loss.graph, SAMBA_ERROR_ARGUMENT, loss.what, "p must be 1 or 2, given %d", o->p);
    if (o->weight.graph && (samba_value_rank(o->weight) != 1 || samba_value_size(o->weight, 0) != classes))
        return samba_losses_fail_shapes(&loss, "a weight of each class", input, o->weight);
    samba_value zero = samba_losses_number(&loss, 0),
                labels = samba_reshape(target, x.rank, x.rank == 2 ? (const int64_t[]){x.shape[0], 1} : (const int64_t[]){1});
    samba_value is_class = samba_eq(samba_losses_classes(&loss, x.rank, x.rank - 1, classes), labels);
    samba_value own = samba_sum(samba_where(is_class, v[0], zero), 1, &last, true);
    samba_value beyond = samba_sub(samba_add_scalar(v[0], o->margin), own);
    beyond = samba_where(samba_gt(beyond, zero), beyond, zero);
    beyond = samba_where(is_class, zero, o->p == 2 ? samba_mul(beyond, beyond) : beyond);
    if (o->weight.graph)
        beyond = samba_mul(beyond, samba_sum(samba_where(is_class, v[2], zero), 1, &last, true));
    return samba_losses_leave(&loss, samba_mul_scalar(along(beyond), 1 / (double)classes), o->reduction);
}

/* Of each row the targets stand in front of the first -1. Every class that is no target wants to be 1 below each target. */
samba_value samba_multilabel_margin_loss(samba_value input, samba_value target, samba_reduction reduction)
{
    samba_losses loss;
    samba_node x;
    samba_value v[] = {input, target};
    if (!samba_losses_enter_any(&loss, "multilabel_margin_loss", 2, v, reduction) || !need_rows(&loss, input, target, true, &x))
        return samba_trace_none(loss.graph);
    int64_t classes = x.shape[x.rank - 1], rows = x.rank == 2 ? x.shape[0] : 1;
    samba_ref logits = samba_reshape(v[0], 2, (int64_t[]){rows, classes}).index;
    samba_ref labels = samba_reshape(samba_cast(target, SAMBA_INT64), 2, (int64_t[]){rows, classes}).index;
    SAMBA_SPEAKS(loss.graph, loss.what);
    samba_ref sums = samba_emit2(loss.graph, SAMBA_OP_multilabel_margin, logits, labels);
    samba_value each = samba_reshape(samba_trace_value(loss.graph, sums), 1, &rows);
    each = samba_mul_scalar(each, 1 / (double)classes);
    return samba_losses_leave(&loss, x.rank == 1 ? samba_reshape(each, 0, NULL) : each, reduction);
}

samba_value samba_multilabel_soft_margin_loss(samba_value input, samba_value target, samba_value weight,
                                              samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target, weight};
    if (!samba_losses_enter(&loss, "multilabel_soft_margin_loss", 3, v, reduction))
        return samba_trace_none(loss.graph);
    if (samba_value_rank(input) == 0)
        return samba_losses_fail_shapes(&loss, "an input (..., C)", input, target);
    samba_value one = samba_losses_number(&loss, 1);
    samba_value of_all = samba_softplus(samba_neg(v[0]));
    samba_value each = samba_add(samba_mul(samba_sub(one, v[1]), v[0]), of_all);
    if (weight.graph)
        each = samba_mul(each, v[2]);
    return samba_losses_leave(&loss, samba_mean(each, 1, &last, false), reduction);
}
