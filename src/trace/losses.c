/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of each element of an input and a target, and the frame that all losses share. */
#include "trace/losses.h"
#include "graph/warn.h"

#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>

/* ---- what losses share ---- */

static bool fail_reduction(const samba_losses *loss, samba_reduction reduction)
{
    if ((int)reduction >= SAMBA_MEAN && reduction <= SAMBA_NO_REDUCTION)
        return false;
    samba_graph_fail_at(loss->graph, SAMBA_ERROR_ARGUMENT, loss->what,
                        "expected the reduction SAMBA_MEAN, SAMBA_SUM or SAMBA_NO_REDUCTION, given %d", (int)reduction);
    return true;
}

bool samba_losses_enter_any(samba_losses *loss, const char *what, int count, samba_value *values, samba_reduction reduction)
{
    *loss = (samba_losses){.what = what};
    if (!samba_trace_enter_optional(what, count, values, &loss->graph) || !samba_trace_need_floating(values[0], what) ||
        fail_reduction(loss, reduction))
        return false;
    for (int i = 0; i < count; i++) {
        if (!values[i].graph)
            continue;
        const samba_node *node = samba_node_at(loss->graph, values[i].index);
        if (!samba_dtype_is_floating_point(node->dtype))
            continue;
        samba_promotion kind = node->rank == 0 ? SAMBA_ZERO_DIM : SAMBA_DIMENSIONED, first = i == 0 ? kind : SAMBA_DIMENSIONED;
        loss->dtype = i == 0 ? node->dtype : samba_promote(loss->dtype, first, node->dtype, kind);
    }
    loss->wide = loss->dtype == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    for (int i = 0; i < count; i++)
        if (values[i].graph && samba_dtype_is_floating_point(samba_value_dtype(values[i])))
            values[i].index = samba_emit_cast(loss->graph, values[i].index, loss->wide);
    return true;
}

bool samba_losses_enter(samba_losses *loss, const char *what, int count, samba_value *values, samba_reduction reduction)
{
    if (!samba_losses_enter_any(loss, what, count, values, reduction))
        return false;
    int rank = 0;
    int64_t shape[SAMBA_MAX_RANK];
    bool fits = true;
    for (int i = 0; i < count && fits; i++) {
        samba_node node = values[i].graph ? samba_trace_node(values[i]) : (samba_node){0};
        fits = !values[i].graph || samba_shape_broadcast(rank, shape, node.rank, node.shape, &rank, shape);
    }
    if (!fits)
        samba_losses_fail_all(loss, "values of one shape, or of shapes that broadcast together", count, values);
    return fits;
}

void samba_losses_compare(const samba_losses *loss, samba_value input, samba_value target, bool alike)
{
    const samba_node x = samba_trace_node(input), t = samba_trace_node(target);
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    if (samba_shape_equal(x.rank, x.shape, t.rank, t.shape) ||
        !samba_shape_broadcast(x.rank, x.shape, t.rank, t.shape, &rank, shape))
        return;
    const bool one = samba_shape_equal(rank, shape, x.rank, x.shape) || samba_shape_equal(rank, shape, t.rank, t.shape);
    if (one && !alike)
        return;
    samba_graph_warn_at(loss->graph, loss->what,
                        "the input %s and the target %s broadcast to %s, so that a value or a target is compared with several, "
                        "which is seldom meant: give both the same shape by squeeze, unsqueeze or reshape",
                        SAMBA_SHAPE(x.rank, x.shape), SAMBA_SHAPE(t.rank, t.shape), SAMBA_SHAPE(rank, shape));
}

samba_value samba_losses_leave(const samba_losses *loss, samba_value each, samba_reduction reduction)
{
    samba_value result = reduction == SAMBA_SUM    ? samba_sum(each, 0, NULL, false)
                         : reduction == SAMBA_MEAN ? samba_mean(each, 0, NULL, false)
                                                   : each;
    return samba_cast(result, loss->dtype);
}

/* A weight, where there is one, has the input's shape. */
static bool check_weight(const samba_losses *loss, samba_value input, samba_value weight)
{
    samba_node x = samba_trace_node(input), w = weight.graph ? samba_trace_node(weight) : x;
    if (samba_shape_equal(x.rank, x.shape, w.rank, w.shape))
        return true;
    samba_losses_fail_shapes(loss, "a weight of the input's shape", input, weight);
    return false;
}

/* A loss of each element times its weight, where there is one; then the mean is by the sum of weights. */
static samba_value weighted(const samba_losses *loss, samba_value each, samba_value weight, samba_reduction reduction)
{
    if (!weight.graph || reduction != SAMBA_MEAN)
        return samba_losses_leave(loss, weight.graph ? samba_mul(each, weight) : each, reduction);
    samba_value weights = samba_sum(weight, 0, NULL, false), sum = samba_sum(samba_mul(each, weight), 0, NULL, false);
    return samba_cast(samba_div(sum, weights), loss->dtype);
}

samba_value samba_losses_fail_all(const samba_losses *loss, const char *expected, int count, const samba_value *values)
{
    char given[6 * SAMBA_TYPE_TEXT] = "", text[SAMBA_TYPE_TEXT];
    size_t used = 0;
    int left = 0;
    for (int i = 0; i < count; i++)
        left += values[i].graph != NULL;
    for (int i = 0; i < count && used < sizeof given; i++) {
        if (!values[i].graph)
            continue;
        samba_node node = samba_trace_node(values[i]);
        const char *between = used == 0 ? "" : left == 1 ? " and " : ", ";
        used += (size_t)snprintf(given + used, sizeof given - used, "%s%s", between, samba_trace_format(&node, text));
        left--;
    }
    return samba_trace_fail(loss->graph, SAMBA_ERROR_SHAPE, loss->what, "expected %s, given %s", expected, given);
}

samba_value samba_losses_fail_shapes(const samba_losses *loss, const char *expected, samba_value a, samba_value b)
{
    return samba_losses_fail_all(loss, expected, 2, (samba_value[]){a, b});
}

samba_value samba_losses_number(const samba_losses *loss, double number)
{
    return samba_constant(loss->graph, number, loss->wide, 0, NULL);
}

samba_value samba_losses_positive(const samba_losses *loss, samba_value x)
{
    samba_value zero = samba_losses_number(loss, 0);
    return samba_where(samba_lt(x, zero), zero, x);
}

samba_value samba_losses_classes(const samba_losses *loss, int rank, int dim, int64_t classes)
{
    int64_t shape[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = d == dim ? classes : 1;
    return samba_reshape(samba_arange(loss->graph, classes, SAMBA_INT64), rank, shape);
}

samba_value samba_losses_unsqueeze(samba_value a, int dim)
{
    if (!a.graph || a.index == SAMBA_NONE)
        return a;
    samba_node node = samba_trace_node(a);
    int64_t shape[SAMBA_MAX_RANK] = {0};
    for (int d = 0; d <= node.rank && d < SAMBA_MAX_RANK; d++)
        shape[d] = d == dim ? 1 : node.shape[d - (d > dim)];
    return samba_reshape(a, node.rank + 1, shape);
}

/* ---- distances ---- */

samba_value samba_mse_loss(samba_value input, samba_value target, samba_value weight, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target, weight};
    if (!samba_losses_enter(&loss, "mse_loss", 3, v, reduction) || !check_weight(&loss, input, weight))
        return samba_trace_none(loss.graph);
    samba_losses_compare(&loss, input, target, true);
    samba_value away = samba_sub(v[0], v[1]);
    return weighted(&loss, samba_mul(away, away), v[2], reduction);
}

samba_value samba_l1_loss(samba_value input, samba_value target, samba_value weight, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target, weight};
    if (!samba_losses_enter(&loss, "l1_loss", 3, v, reduction) || !check_weight(&loss, input, weight))
        return samba_trace_none(loss.graph);
    samba_losses_compare(&loss, input, target, true);
    return weighted(&loss, samba_abs(samba_sub(v[0], v[1])), v[2], reduction);
}

/* d^2 / 2 of a difference d up to the threshold t, and beyond it t (|d| - t / 2), times `scale`: of u, which is d kept between -t
 * and t, u (d - u / 2), whose slope is u. */
static samba_value smooth(const samba_losses *loss, samba_value input, samba_value target, double threshold, double scale)
{
    samba_value away = samba_sub(input, target);
    samba_value most = samba_losses_number(loss, threshold), least = samba_losses_number(loss, -threshold);
    samba_value kept = samba_clamp(away, least, most), half = samba_mul_scalar(kept, 0.5);
    samba_value rest = samba_sub(away, half), scaled = samba_mul_scalar(kept, scale);
    samba_value each = samba_mul(scaled, rest), grad = samba_grad_output(each), slope = samba_mul(grad, scaled);
    return samba_custom_gradient(each, grad, 1, &away, &slope);
}

samba_value samba_smooth_l1_loss(samba_value input, samba_value target, double beta, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target};
    if (!samba_losses_enter(&loss, "smooth_l1_loss", 2, v, reduction))
        return samba_trace_none(loss.graph);
    samba_losses_compare(&loss, input, target, true);
    if (!(beta >= 0))
        return samba_trace_fail(loss.graph, SAMBA_ERROR_ARGUMENT, loss.what, "beta must be 0 or more, given %g", beta);
    samba_value each = beta == 0 ? samba_abs(samba_sub(v[0], v[1])) : smooth(&loss, v[0], v[1], beta, 1 / beta);
    return samba_losses_leave(&loss, each, reduction);
}

samba_value samba_huber_loss(samba_value input, samba_value target, double delta, samba_value weight, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target, weight};
    if (!samba_losses_enter(&loss, "huber_loss", 3, v, reduction) || !check_weight(&loss, input, weight))
        return samba_trace_none(loss.graph);
    samba_losses_compare(&loss, input, target, true);
    if (!(delta > 0))
        return samba_trace_fail(loss.graph, SAMBA_ERROR_ARGUMENT, loss.what, "delta must be more than 0, given %g", delta);
    samba_value each = smooth(&loss, v[0], v[1], delta, 1);
    return samba_losses_leave(&loss, weight.graph ? samba_mul(each, v[2]) : each, reduction);
}

/* ---- likelihoods ---- */

samba_value samba_kl_div(samba_value input, samba_value target, bool log_target, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target};
    samba_reduction sum = reduction == SAMBA_BATCH_MEAN ? SAMBA_SUM : reduction;
    if (!samba_losses_enter(&loss, "kl_div", 2, v, sum))
        return samba_trace_none(loss.graph);
    samba_losses_compare(&loss, input, target, false);
    samba_value each, zero = samba_losses_number(&loss, 0);
    if (log_target) {
        samba_value away = samba_sub(v[1], v[0]), share = samba_exp(v[1]);
        each = samba_mul(share, away);
    } else { /* 0 log 0 is 0, and so is its slope */
        samba_value none = samba_eq(v[1], zero), logs = samba_log(samba_where(none, samba_losses_number(&loss, 1), v[1]));
        samba_value crossed = samba_mul(v[1], v[0]), own = samba_where(none, zero, samba_mul(v[1], logs));
        each = samba_sub(own, crossed);
    }
    if (reduction != SAMBA_BATCH_MEAN)
        return samba_losses_leave(&loss, each, reduction);
    samba_node x = samba_trace_node(input);
    if (x.rank == 0)
        return samba_losses_leave(&loss, each, SAMBA_SUM);
    return samba_cast(samba_mul_scalar(samba_sum(each, 0, NULL, false), 1 / (double)x.shape[0]), loss.dtype);
}

/* The logarithms are no less than -100, as torch's. The gradient, (x - t) / max(x (1 - x), 1e-12), is not that of the parts where
 * they end. */
samba_value samba_binary_cross_entropy(samba_value input, samba_value target, samba_value weight, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target, weight};
    if (!samba_losses_enter(&loss, "binary_cross_entropy", 3, v, reduction))
        return samba_trace_none(loss.graph);
    samba_node x = samba_trace_node(v[0]), t = samba_trace_node(v[1]);
    if (!samba_shape_equal(x.rank, x.shape, t.rank, t.shape))
        return samba_losses_fail_shapes(&loss, "a target of the input's shape", v[0], v[1]);
    samba_value one = samba_losses_number(&loss, 1), least = samba_losses_number(&loss, -100), rest = samba_sub(one, v[0]);
    samba_value log_yes = samba_log(v[0]), minus = samba_neg(v[0]), log_no = samba_log1p(minus);
    samba_value yes = samba_maximum(log_yes, least), no = samba_maximum(log_no, least), other = samba_add_scalar(v[1], -1);
    samba_value of_yes = samba_mul(v[1], yes), of_no = samba_mul(other, no), each = samba_sub(of_no, of_yes);
    samba_value tiny = samba_losses_number(&loss, 1e-12), area = samba_mul(v[0], rest), below = samba_maximum(area, tiny);
    samba_value away = samba_sub(v[0], v[1]), slope = samba_div(away, below), apart = samba_sub(no, yes);
    samba_value grad = samba_grad_output(each), of_input = samba_mul(grad, slope), of_target = samba_mul(grad, apart);
    each = samba_custom_gradient(each, grad, 2, (samba_value[]){v[0], v[1]}, (samba_value[]){of_input, of_target});
    return samba_losses_leave(&loss, weight.graph ? samba_mul(each, v[2]) : each, reduction);
}

samba_value samba_binary_cross_entropy_with_logits(samba_value input, samba_value target, samba_value weight,
                                                   samba_value pos_weight, samba_reduction reduction)
{
    samba_losses loss;
    samba_value v[] = {input, target, weight, pos_weight};
    if (!samba_losses_enter(&loss, "binary_cross_entropy_with_logits", 4, v, reduction))
        return samba_trace_none(loss.graph);
    samba_node x = samba_trace_node(v[0]), t = samba_trace_node(v[1]);
    if (!samba_shape_equal(x.rank, x.shape, t.rank, t.shape))
        return samba_losses_fail_shapes(&loss, "a target of the input's shape", v[0], v[1]);
    samba_value one = samba_losses_number(&loss, 1), positive = samba_softplus(samba_neg(v[0])); /* -log sigmoid */
    if (pos_weight.graph)
        positive = samba_mul(samba_add(samba_mul(samba_sub(v[3], one), v[1]), one), positive);
    samba_value each = samba_add(samba_mul(samba_sub(one, v[1]), v[0]), positive);
    return samba_losses_leave(&loss, weight.graph ? samba_mul(each, v[2]) : each, reduction);
}

samba_value samba_poisson_nll_loss(samba_value input, samba_value target, const samba_poisson_nll_options *options)
{
    const samba_poisson_nll_options defaults = samba_poisson_nll_defaults(), *o = options ? options : &defaults;
    samba_losses loss;
    samba_value v[] = {input, target};
    if (!samba_losses_enter(&loss, "poisson_nll_loss", 2, v, o->reduction))
        return samba_trace_none(loss.graph);
    samba_losses_compare(&loss, input, target, false);
    samba_value product = samba_mul(v[1], o->no_log_input ? samba_log(samba_add_scalar(v[0], o->eps)) : v[0]);
    samba_value each = samba_sub(o->no_log_input ? v[0] : samba_exp(v[0]), product);
    if (o->full) { /* Stirling, of targets above 1 */
        samba_value one = samba_losses_number(&loss, 1), large = samba_gt(v[1], one), t = samba_where(large, v[1], one);
        samba_value logs = samba_mul_scalar(samba_log(samba_mul_scalar(t, 2 * 3.14159265358979323846)), 0.5);
        samba_value stirling = samba_add(samba_sub(samba_mul(t, samba_log(t)), t), logs);
        each = samba_add(each, samba_where(large, stirling, samba_losses_number(&loss, 0)));
    }
    return samba_losses_leave(&loss, each, o->reduction);
}

samba_value samba_gaussian_nll_loss(samba_value input, samba_value target, samba_value var,
                                    const samba_gaussian_nll_options *options)
{
    const samba_gaussian_nll_options defaults = samba_gaussian_nll_defaults(), *o = options ? options : &defaults;
    samba_losses loss;
    samba_value v[] = {input, target, var};
    if (!samba_losses_enter_any(&loss, "gaussian_nll_loss", 3, v, o->reduction))
        return samba_trace_none(loss.graph);
    samba_losses_compare(&loss, input, target, false);
    samba_node x = samba_trace_node(input), s = samba_trace_node(var);
    bool rows = s.rank == x.rank - 1 && samba_shape_equal(s.rank, s.shape, s.rank, x.shape);
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    bool fits = rows || (samba_shape_broadcast(x.rank, x.shape, s.rank, s.shape, &rank, shape) &&
                         samba_shape_equal(rank, shape, x.rank, x.shape) && (s.rank == x.rank || s.rank == 0));
    for (int d = 0; fits && !rows && d < s.rank - 1; d++)
        fits = s.shape[d] == x.shape[d];
    if (!fits)
        return samba_losses_fail_shapes(&loss, "a variance of the input's shape, of it without the last dim, or with 1 there",
                                        input, var);
    if (!(o->eps > 0))
        return samba_trace_fail(loss.graph, SAMBA_ERROR_ARGUMENT, loss.what, "eps must be more than 0, given %g", o->eps);
    if (rows)
        v[2] = samba_losses_unsqueeze(v[2], x.rank - 1);
    samba_value clamped = samba_maximum(v[2], samba_losses_number(&loss, o->eps)); /* in value, not in gradient */
    samba_value held = samba_add(v[2], samba_detach(samba_sub(clamped, v[2]))), away = samba_sub(v[0], v[1]);
    samba_value ratio = samba_div(samba_mul(away, away), held), each = samba_mul_scalar(samba_add(samba_log(held), ratio), 0.5);
    if (o->full)
        each = samba_add_scalar(each, 0.5 * log(2 * 3.14159265358979323846));
    return samba_losses_leave(&loss, each, o->reduction);
}
