/* SPDX-License-Identifier: Apache-2.0
 *
 * Support vector machines (ai.onnx.ml). All rows meet all support vectors in one product; the decisions between two classes each
 * are products of that with a constant matrix.
 *
 * Probabilities of more than two classes are those that libsvm's iteration tends to, from the equations that it solves; runtimes
 * stop it at an error of 0.005 / classes. */
#include "onnx/ml.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <string.h>

typedef struct svm {
    samba_value rows; /* (N, F) */
    int kernel;
    double gamma, coef0, degree;
    int64_t coefficients, vectors, shifts; /* how many numbers there are */
    const float *coefficient, *vector, *shift;
    samba_onnx_transform transform;
} svm;

static double *room_for(samba_onnx_node *node, int64_t count)
{
    double *values = NULL;
    if (count < 0 || count > (int64_t)1 << 24)
        samba_onnx_refuse(node, "a matrix of %lld numbers is not supported", (long long)count);
    else if (samba_onnx_afford(node, 8 * (double)count, (double)count) &&
             SAMBA_ROOM(&node->reader->arena, values, count + 1) != SAMBA_OK)
        samba_onnx_refuse(node, "%s", samba_error_message(node->reader->context));
    return values;
}

static samba_value matrix(samba_onnx_node *node, samba_value like, int64_t rows, int64_t columns, const float *list)
{
    const int64_t shape[2] = {rows, columns};
    double *values = room_for(node, rows * columns);
    for (int64_t i = 0; values && i < rows * columns; i++)
        values[i] = (double)list[i];
    return values ? samba_onnx_doubles_value(node, samba_value_dtype(like), 2, shape, values) : like;
}

static bool read_svm(samba_onnx_node *node, svm *s)
{
    static const char *const kernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID", NULL};
    int64_t count;
    memset(s, 0, sizeof *s);
    s->rows = samba_onnx_rows(node);
    s->kernel = samba_onnx_choice(node, "kernel_type", "LINEAR", kernels);
    const float *parameters = samba_onnx_floats(node, "kernel_params", &count);
    s->coefficient = samba_onnx_floats(node, "coefficients", &s->coefficients);
    s->vector = samba_onnx_floats(node, "support_vectors", &s->vectors);
    s->shift = samba_onnx_floats(node, "rho", &s->shifts);
    s->transform = samba_onnx_transform_in(node);
    if (count >= 3) {
        s->gamma = (double)parameters[0];
        s->coef0 = (double)parameters[1];
        s->degree = trunc((double)parameters[2]);
    }
    if (!node->refused && (s->coefficients < 1 || s->shifts < 1))
        samba_onnx_refuse(node, "it has no coefficients or no rho");
    return !node->refused;
}

/* The kernel's values of all rows with `count` support vectors, (N, count). */
static samba_value kernels_of(samba_onnx_node *node, const svm *s, int64_t count)
{
    int64_t columns = samba_value_size(s->rows, 1);
    if (count < 1 || s->vectors != count * columns)
        return onnx_refused(node, "%lld support vectors of %lld features are expected", (long long)count, (long long)columns);
    samba_value vectors = matrix(node, s->rows, count, columns, s->vector), none = {NULL, 0, 0};
    if (node->refused)
        return none;
    if (s->kernel == 2) {
        samba_value square = samba_square(samba_cdist(s->rows, vectors, 2, SAMBA_CDIST_NO_MM));
        return samba_exp(samba_mul_scalar(square, -s->gamma));
    }
    samba_value product = samba_functional_linear(s->rows, vectors, none);
    if (s->kernel == 0)
        return product;
    samba_value line = samba_add_scalar(samba_mul_scalar(product, s->gamma), s->coef0);
    return s->kernel == 1 ? samba_pow_scalar(line, s->degree) : samba_tanh(line);
}

void samba_onnx_svm_regressor(samba_onnx_node *node);
void samba_onnx_svm_regressor(samba_onnx_node *node)
{
    svm s;
    bool fine = read_svm(node, &s), one_class = samba_onnx_flag(node, "one_class", false);
    int64_t count = samba_onnx_int(node, "n_supports", 0), targets = samba_onnx_int(node, "n_targets", 1);
    if (!fine || node->refused)
        return;
    samba_value none = {NULL, 0, 0}, inputs = count > 0 ? kernels_of(node, &s, count) : s.rows;
    int64_t size = node->refused ? 0 : samba_value_size(inputs, 1);
    if (!node->refused && (s.coefficients != size || targets > 1))
        samba_onnx_refuse(node, "%lld coefficients do not fit; of targets one is supported", (long long)s.coefficients);
    if (node->refused)
        return;
    samba_value weight = matrix(node, s.rows, 1, size, s.coefficient);
    if (node->refused)
        return;
    samba_value score = samba_add_scalar(samba_functional_linear(inputs, weight, none), (double)s.shift[0]);
    if (one_class) {
        samba_value zero = samba_onnx_like(node, 0, score), one = samba_onnx_like(node, 1, score),
                    minus = samba_onnx_like(node, -1, score);
        samba_value inside = samba_gt(score, zero);
        score = samba_where(inside, one, minus);
    } else
        score = samba_onnx_transform_scores(node, score, s.transform);
    samba_onnx_out(node, 0, samba_cast(score, SAMBA_FLOAT32));
}

/* ---- classifier ---- */

/* A constant (rows, columns) of numbers that are mostly 0. */
static samba_value of_doubles(samba_onnx_node *node, samba_value like, int64_t rows, int64_t columns, const double *values)
{
    const int64_t shape[2] = {rows, columns};
    return samba_onnx_doubles_value(node, samba_value_dtype(like), 2, shape, values);
}

/* Decisions of class i against j, for i < j in order, (N, pairs): each of both classes' vectors with their coefficients. */
static samba_value decide(samba_onnx_node *node, const svm *s, samba_value kernels, int64_t classes, const int64_t *counts)
{
    int64_t all = samba_value_size(kernels, 1), pairs = classes * (classes - 1) / 2, pair = 0, start_i = 0;
    if (s->coefficients != (classes - 1) * all || s->shifts < pairs)
        return onnx_refused(node, "%lld coefficients do not fit %lld support vectors of %lld classes", (long long)s->coefficients,
                            (long long)all, (long long)classes);
    double *weights = room_for(node, pairs * all), *shifts = room_for(node, pairs);
    if (!weights || !shifts)
        return kernels;
    for (int64_t i = 0; i < classes; start_i += counts[i++]) {
        int64_t start_j = start_i + counts[i];
        for (int64_t j = i + 1; j < classes; start_j += counts[j++]) {
            for (int64_t k = 0; k < counts[i]; k++)
                weights[pair * all + start_i + k] = (double)s->coefficient[(j - 1) * all + start_i + k];
            for (int64_t k = 0; k < counts[j]; k++)
                weights[pair * all + start_j + k] = (double)s->coefficient[i * all + start_j + k];
            shifts[pair] = (double)s->shift[pair];
            pair++;
        }
    }
    samba_value weight = of_doubles(node, kernels, pairs, all, weights);
    samba_value bias = samba_onnx_doubles_value(node, samba_value_dtype(kernels), 1, &pairs, shifts);
    return node->refused ? kernels : samba_functional_linear(kernels, weight, bias);
}

/* How many decisions each class wins, (N, classes); a decision that is not above 0 is the second class's. */
static samba_value count_votes(samba_onnx_node *node, samba_value decisions, int64_t classes)
{
    int64_t pairs = classes * (classes - 1) / 2, pair = 0;
    double *won = room_for(node, pairs * classes), *lost = room_for(node, pairs * classes);
    if (!won || !lost)
        return decisions;
    for (int64_t i = 0; i < classes; i++)
        for (int64_t j = i + 1; j < classes; j++, pair++) {
            won[pair * classes + i] = 1;
            lost[pair * classes + j] = 1;
        }
    samba_value zero = samba_onnx_like(node, 0, decisions), above = samba_gt(decisions, zero), below = samba_logical_not(above);
    samba_value of_first = of_doubles(node, decisions, pairs, classes, won),
                of_second = of_doubles(node, decisions, pairs, classes, lost);
    samba_dtype dtype = samba_value_dtype(decisions);
    samba_value first = samba_matmul(samba_cast(above, dtype), of_first),
                second = samba_matmul(samba_cast(below, dtype), of_second);
    return samba_add(first, second);
}

/* Probabilities (N, classes) from those of pairs r[i][j], how likely i is where it is i or j: the p of sum 1 that makes the sum
 * over i and j of (r[j][i] p[i] - r[i][j] p[j])^2 least. With the last p as the rest of 1 these are equations of classes - 1
 * unknowns with a positive definite matrix, solved without looking for pivots. */
static samba_value couple(samba_onnx_node *node, samba_value decisions, int64_t classes, const float *a, const float *b)
{
    int64_t pairs = classes * (classes - 1) / 2, pair = 0, unknowns = classes - 1, n = samba_value_size(decisions, 0);
    double *slopes = room_for(node, pairs), *shifts = room_for(node, pairs), *upper = room_for(node, pairs * classes * classes);
    double *ones = room_for(node, classes * classes), *lower = room_for(node, pairs * classes * classes);
    if (!slopes || !shifts || !upper || !lower || !ones)
        return decisions;
    for (int64_t i = 0; i < classes; i++)
        for (int64_t j = i + 1; j < classes; j++, pair++) {
            slopes[pair] = -(double)a[pair];
            shifts[pair] = -(double)b[pair];
            upper[pair * classes * classes + i * classes + j] = 1;
            lower[pair * classes * classes + j * classes + i] = 1;
        }
    samba_value wide = samba_cast(decisions, SAMBA_FLOAT64),
                slope = samba_onnx_doubles_value(node, SAMBA_FLOAT64, 1, &pairs, slopes);
    samba_value shift = samba_onnx_doubles_value(node, SAMBA_FLOAT64, 1, &pairs, shifts), scaled = samba_mul(wide, slope);
    samba_value sure = samba_sigmoid(samba_add(scaled, shift)), low = samba_onnx_number(node, 1e-7),
                high = samba_onnx_number(node, 1 - 1e-7);
    samba_value likely = samba_clamp(sure, low, high);
    if (classes == 2) {
        samba_value one = samba_onnx_number(node, 1);
        const samba_value both[2] = {likely, samba_sub(one, likely)};
        return samba_cast(samba_concat(2, both, 1), samba_value_dtype(decisions));
    }
    const int64_t square[3] = {n, classes, classes};
    samba_value above = of_doubles(node, wide, pairs, classes * classes, upper),
                below = of_doubles(node, wide, pairs, classes * classes, lower);
    samba_value one = samba_onnx_number(node, 1), unlikely = samba_sub(one, likely);
    samba_value first = samba_matmul(likely, above), second = samba_matmul(unlikely, below);
    samba_value r = samba_reshape(samba_add(first, second), 3, square), turned = samba_transpose(r, 1, 2);
    const int rows = 1;
    samba_value sums = samba_sum(samba_square(r), 1, &rows, false), diagonal = samba_diag_embed(sums, 0, 1, 2);
    samba_value q = samba_sub(diagonal, samba_mul(r, turned)); /* off the diagonal -r[j][i] r[i][j]; r's own diagonal is 0 */
    samba_value row = samba_narrow(q, 1, unknowns, 1), column = samba_narrow(q, 2, unknowns, 1),
                corner = samba_narrow(row, 2, unknowns, 1);
    samba_value less = samba_sub(q, row), both = samba_sub(less, column), full = samba_add(both, corner),
                right = samba_sub(corner, column);
    samba_value square_part = samba_narrow(samba_narrow(full, 1, 0, unknowns), 2, 0, unknowns);
    const samba_value sides[2] = {square_part, samba_narrow(right, 1, 0, unknowns)};
    samba_value system = samba_concat(2, sides, 2); /* (N, unknowns, unknowns + 1) */
    for (int64_t i = 0; i < unknowns; i++) {
        memset(ones, 0, (size_t)unknowns * sizeof *ones);
        ones[i] = 1;
        samba_value is_row = of_doubles(node, wide, unknowns, 1, ones), line = samba_narrow(system, 1, i, 1);
        samba_value pivot = samba_narrow(line, 2, i, 1), unit = samba_div(line, pivot), factors = samba_narrow(system, 2, i, 1);
        samba_value others = samba_sub(factors, is_row), change = samba_mul(others, unit);
        /* the row itself: x - (x_i - 1) unit = unit, as x = x_i unit */
        system = samba_sub(system, change);
    }
    samba_value known = samba_select(system, 2, unknowns), sum = samba_sum(known, 1, &rows, true), rest = samba_sub(one, sum);
    const samba_value all[2] = {known, rest};
    return samba_cast(samba_concat(2, all, 1), samba_value_dtype(decisions));
}

/* Of two classes without probabilities: the second where the greatest vote or score is above a bound. */
static samba_value pick(samba_onnx_node *node, const svm *s, samba_value scores, samba_value votes,
                        const samba_onnx_labels *labels, bool sure)
{
    samba_value deciding = votes.graph ? votes : scores, best = samba_argmax(deciding, 1, false);
    bool positive = true;
    for (int64_t i = 0; i < s->coefficients; i++)
        positive &= s->coefficient[i] >= 0;
    if (labels->count != 2 || s->shifts != 1 || sure || !positive)
        return best;
    const int last = -1;
    samba_value most = samba_amax(deciding, 1, &last, false), half = samba_onnx_like(node, 0.5, most),
                one = samba_integer(node->graph, 1);
    samba_value above = samba_ge(most, half);
    return samba_where(above, one, best);
}

void samba_onnx_svm_classifier(samba_onnx_node *node);
void samba_onnx_svm_classifier(samba_onnx_node *node)
{
    svm s;
    samba_onnx_labels labels;
    int64_t groups, as, bs, count = 0;
    bool fine = read_svm(node, &s) && samba_onnx_labels_in(node, "classlabels_ints", &labels);
    const int64_t *counts = samba_onnx_long_ints(node, "vectors_per_class", &groups);
    const float *a = samba_onnx_floats(node, "prob_a", &as), *b = samba_onnx_floats(node, "prob_b", &bs);
    if (!fine || node->refused)
        return;
    for (int64_t i = 0; i < groups; i++) {
        if (!samba_onnx_within(node, "vectors_per_class", counts[i], 0, s.vectors))
            return;
        count += counts[i];
    }
    if (!samba_onnx_within(node, "vectors_per_class", count, 0, s.vectors)) /* in all */
        return;
    int64_t classes = labels.count, pairs = classes * (classes - 1) / 2;
    samba_value scores, votes = {NULL, 0, 0}, none = votes;
    if (classes < 2 || classes > 1024 || (count > 0 && groups != classes) || (a && (as < pairs || bs < pairs))) {
        samba_onnx_refuse(node, "its numbers do not fit %lld classes", (long long)classes);
        return;
    }
    if (count > 0) {
        samba_value kernels = kernels_of(node, &s, count);
        scores = node->refused ? none : decide(node, &s, kernels, classes, counts);
        votes = node->refused ? none : count_votes(node, scores, classes);
        if (a && !node->refused)
            scores = couple(node, scores, classes, a, b);
    } else {
        int64_t columns = samba_value_size(s.rows, 1);
        if (s.coefficients != classes * columns) {
            samba_onnx_refuse(node, "%lld coefficients do not fit %lld classes of %lld features", (long long)s.coefficients,
                              (long long)classes, (long long)columns);
            return;
        }
        samba_value weight = matrix(node, s.rows, classes, columns, s.coefficient);
        scores = node->refused ? none : samba_add_scalar(samba_functional_linear(s.rows, weight, none), (double)s.shift[0]);
    }
    if (node->refused)
        return;
    bool sure = count > 0 && a;
    samba_onnx_out_labels(node, &labels, pick(node, &s, scores, votes, &labels, sure));
    if (samba_value_size(scores, 1) == 1)
        scores = samba_onnx_two_scores(node, scores, s.transform, false);
    else
        scores = samba_onnx_transform_scores(node, scores, s.transform);
    samba_onnx_out(node, 1, samba_cast(scores, SAMBA_FLOAT32));
}
