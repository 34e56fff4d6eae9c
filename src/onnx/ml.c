/* SPDX-License-Identifier: Apache-2.0
 *
 * Classical learning (ai.onnx.ml): what prepares columns, and linear models. Where its text leaves open what a classifier of two
 * classes writes, it is what ONNX Runtime does, by which such models are checked. */
#include "onnx/ml.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <sambaflow/sort.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what all share ---- */

samba_value samba_onnx_rows(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return a;
    if (samba_value_rank(a) == 1)
        a = samba_unsqueeze(a, 0);
    if (samba_value_rank(a) != 2)
        return onnx_refused(node, "rows (N, features) are expected");
    return samba_value_dtype(a) == SAMBA_FLOAT64 ? a : samba_cast(a, SAMBA_FLOAT32);
}

samba_onnx_transform samba_onnx_transform_in(samba_onnx_node *node)
{
    static const char *const words[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT", NULL};
    return (samba_onnx_transform)samba_onnx_choice(node, "post_transform", "NONE", words);
}

/* The inverse of the normal distribution, by the formula of the operators' other runtimes. */
static samba_value probit(samba_onnx_node *node, samba_value p)
{
    samba_value twice = samba_mul_scalar(p, 2), x = samba_add_scalar(twice, -1), one = samba_onnx_like(node, 1, p),
                zero = samba_onnx_like(node, 0, p);
    samba_value down = samba_sub(one, x), up = samba_add(one, x), inside = samba_mul(down, up), log = samba_log(inside);
    samba_value v = samba_add_scalar(samba_mul_scalar(log, 0.5), 2 / (3.14159265358979323846 * 0.147));
    samba_value v2 = samba_mul_scalar(log, 1 / 0.147), square = samba_square(v), under = samba_sub(square, v2);
    samba_value root = samba_sqrt(under), difference = samba_sub(root, v), size = samba_sqrt(difference);
    samba_value negative = samba_lt(x, zero), minus = samba_neg(size), y = samba_where(negative, minus, size);
    samba_value none = samba_eq(inside, zero), kept = samba_where(none, zero, y);
    return samba_mul_scalar(kept, 1.41421356);
}

samba_value samba_onnx_transform_scores(samba_onnx_node *node, samba_value scores, samba_onnx_transform transform)
{
    const int last = -1;
    switch (transform) {
    case ONNX_TRANSFORM_SOFTMAX: return samba_softmax(scores, -1);
    case ONNX_TRANSFORM_LOGISTIC: return samba_sigmoid(scores);
    case ONNX_TRANSFORM_PROBIT: return probit(node, scores);
    case ONNX_TRANSFORM_SOFTMAX_ZERO: { /* what is 0 stays so */
        samba_value most = samba_amax(scores, 1, &last, true), less = samba_sub(scores, most), power = samba_exp(less);
        samba_value size = samba_abs(scores), small = samba_onnx_number(node, 1e-7), counts = samba_gt(size, small);
        samba_value factor = samba_exp(samba_neg(most)), little = samba_mul(scores, factor),
                    parts = samba_where(counts, power, little);
        samba_value sum = samba_sum(parts, 1, &last, true), zero = samba_onnx_like(node, 0, scores),
                    half = samba_onnx_like(node, 0.5, scores);
        samba_value none = samba_eq(sum, zero), shares = samba_div(parts, sum);
        return samba_where(none, half, shares);
    }
    default: return scores;
    }
}

samba_value samba_onnx_two_scores(samba_onnx_node *node, samba_value score, samba_onnx_transform transform, bool share)
{
    bool rest = transform == ONNX_TRANSFORM_PROBIT || (share && transform == ONNX_TRANSFORM_NONE);
    samba_value one = samba_onnx_like(node, 1, score), other = rest ? samba_sub(one, score) : samba_neg(score);
    const samba_value both[2] = {other, score};
    samba_value scores = samba_concat(2, both, 1);
    return samba_onnx_transform_scores(node, scores, transform);
}

bool samba_onnx_labels_in(samba_onnx_node *node, const char *numbers, samba_onnx_labels *labels)
{
    int64_t texts;
    samba_onnx_words(node, "classlabels_strings", &texts);
    labels->numbers = samba_onnx_long_ints(node, numbers, &labels->count);
    if (!node->refused && labels->count == 0 && texts == 0)
        samba_onnx_refuse(node, "it has no labels");
    if (!node->refused && labels->count == 0 && samba_onnx_wants(node, 0))
        samba_onnx_refuse(node, "its labels are texts, which are no values here: use its scores, output 1, alone");
    if (labels->count == 0)
        labels->count = texts;
    return !node->refused;
}

void samba_onnx_out_labels(samba_onnx_node *node, const samba_onnx_labels *labels, samba_value classes)
{
    if (!samba_onnx_wants(node, 0) || node->refused)
        return;
    samba_value table = samba_onnx_ints_value(node, 1, &labels->count, labels->numbers);
    samba_onnx_out(node, 0, samba_index_select(table, 0, classes));
}

/* A list as a constant row of one number or of `count`, of that value's dtype. */
static samba_value row_of(samba_onnx_node *node, const char *name, const float *list, int64_t given, int64_t count,
                          samba_value like)
{
    double *values;
    if (given != 1 && given != count)
        return onnx_refused(node, "%s has %lld numbers for %lld columns", name, (long long)given, (long long)count);
    if (SAMBA_ROOM(&node->reader->arena, values, given) != SAMBA_OK)
        return onnx_refused(node, "%s", samba_error_message(node->reader->context));
    for (int64_t i = 0; i < given; i++)
        values[i] = (double)list[i];
    return samba_onnx_doubles_value(node, samba_value_dtype(like), 1, &given, values);
}

/* ---- columns ---- */

void samba_onnx_scaler(samba_onnx_node *node);
void samba_onnx_scaler(samba_onnx_node *node)
{
    int64_t offsets, scales;
    const float *offset = samba_onnx_floats(node, "offset", &offsets), *scale = samba_onnx_floats(node, "scale", &scales);
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    int64_t columns = samba_value_rank(a) ? samba_value_size(a, -1) : 1;
    a = samba_value_dtype(a) == SAMBA_FLOAT64 ? a : samba_cast(a, SAMBA_FLOAT32);
    if (offset) {
        samba_value row = row_of(node, "offset", offset, offsets, columns, a);
        a = node->refused ? a : samba_sub(a, row);
    }
    if (scale && !node->refused) {
        samba_value row = row_of(node, "scale", scale, scales, columns, a);
        a = node->refused ? a : samba_mul(a, row);
    }
    samba_onnx_out(node, 0, samba_cast(a, SAMBA_FLOAT32));
}

void samba_onnx_normalizer(samba_onnx_node *node);
void samba_onnx_normalizer(samba_onnx_node *node)
{
    static const char *const norms[] = {"MAX", "L1", "L2", NULL};
    const int last = -1;
    samba_value a = samba_onnx_need(node, 0), size;
    int norm = samba_onnx_choice(node, "norm", "MAX", norms);
    if (node->refused)
        return;
    a = samba_value_dtype(a) == SAMBA_FLOAT64 ? a : samba_cast(a, SAMBA_FLOAT32);
    if (norm == 0)
        size = samba_amax(a, 1, &last, true);
    else
        size = samba_vector_norm(a, norm, 1, &last, true);
    samba_value zero = samba_onnx_like(node, 0, a), one = samba_onnx_like(node, 1, a), none = samba_eq(size, zero),
                divisor = samba_where(none, one, size);
    samba_onnx_out(node, 0, samba_cast(samba_div(a, divisor), SAMBA_FLOAT32));
}

void samba_onnx_binarizer(samba_onnx_node *node);
void samba_onnx_binarizer(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    double threshold = samba_onnx_float(node, "threshold", 0);
    if (node->refused)
        return;
    samba_value bound = samba_onnx_number(node, threshold), above = samba_gt(a, bound);
    samba_onnx_out(node, 0, samba_cast(above, samba_value_dtype(a)));
}

void samba_onnx_imputer(samba_onnx_node *node);
void samba_onnx_imputer(samba_onnx_node *node)
{
    int64_t count, ints;
    const float *list = samba_onnx_floats(node, "imputed_value_floats", &count);
    const int64_t *whole = samba_onnx_long_ints(node, "imputed_value_int64s", &ints);
    double missing = samba_onnx_float(node, "replaced_value_float", 0);
    int64_t missing_int = samba_onnx_int(node, "replaced_value_int64", 0);
    samba_value a = samba_onnx_need(node, 0), row, gone;
    if (node->refused)
        return;
    bool floating = samba_dtype_is_floating_point(samba_value_dtype(a));
    int64_t columns = samba_value_rank(a) ? samba_value_size(a, -1) : 1;
    if (floating ? !list : !whole) {
        samba_onnx_refuse(node, "it has no values of its input's kind to put in");
        return;
    }
    if (floating)
        row = row_of(node, "imputed_value_floats", list, count, columns, a);
    else if (ints != 1 && ints != columns)
        row = onnx_refused(node, "imputed_value_int64s has %lld numbers for %lld columns", (long long)ints, (long long)columns);
    else
        row = samba_cast(samba_onnx_ints_value(node, 1, &ints, whole), samba_value_dtype(a));
    if (node->refused)
        return;
    if (floating && isnan(missing))
        gone = samba_isnan(a);
    else {
        samba_value number = floating ? samba_onnx_number(node, missing) : samba_integer(node->graph, missing_int);
        gone = samba_eq(a, number);
    }
    samba_onnx_out(node, 0, samba_where(gone, row, a));
}

void samba_onnx_one_hot_encoder(samba_onnx_node *node);
void samba_onnx_one_hot_encoder(samba_onnx_node *node)
{
    int64_t count, texts;
    const int64_t *classes = samba_onnx_long_ints(node, "cats_int64s", &count);
    samba_onnx_words(node, "cats_strings", &texts);
    samba_onnx_flag(node, "zeros", true); /* 0: a value that is no class is an error; here it gives zeros */
    samba_value a = samba_onnx_need(node, 0);
    if (!node->refused && !classes)
        samba_onnx_refuse(node, texts ? "its classes are texts, which are no values here" : "it has no classes");
    if (node->refused)
        return;
    samba_value number = samba_cast(a, SAMBA_INT64), list = samba_onnx_ints_value(node, 1, &count, classes);
    samba_value equal = samba_eq(samba_unsqueeze(number, -1), list);
    samba_onnx_out(node, 0, samba_cast(equal, SAMBA_FLOAT32));
}

void samba_onnx_array_feature_extractor(samba_onnx_node *node);
void samba_onnx_array_feature_extractor(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), index = samba_onnx_need(node, 1);
    const int64_t all = -1;
    if (node->refused)
        return;
    samba_value line = samba_reshape(index, 1, &all), data = samba_value_rank(a) == 1 ? samba_unsqueeze(a, 0) : a;
    samba_onnx_out(node, 0, samba_index_select(data, -1, line));
    samba_onnx_out_type(node, 0, samba_onnx_type_in(node, 0));
}

/* Inputs side by side, each with as many columns as it is said to have: cut, or with zeros behind. */
void samba_onnx_feature_vectorizer(samba_onnx_node *node);
void samba_onnx_feature_vectorizer(samba_onnx_node *node)
{
    int64_t count;
    const int64_t *columns = samba_onnx_long_ints(node, "inputdimensions", &count);
    samba_value *parts;
    if (SAMBA_ROOM(&node->reader->arena, parts, node->input_count + 1) != SAMBA_OK)
        return;
    if (columns && count != node->input_count)
        samba_onnx_refuse(node, "inputdimensions has %lld numbers for %d inputs", (long long)count, node->input_count);
    for (int i = 0; i < node->input_count; i++) {
        samba_value a = samba_onnx_need(node, i);
        if (node->refused)
            return;
        if (samba_value_rank(a) == 1)
            a = samba_unsqueeze(a, 1);
        if (samba_value_rank(a) != 2) {
            samba_onnx_refuse(node, "inputs of rank 1 and 2 are expected");
            return;
        }
        if (columns && !samba_onnx_within(node, "inputdimensions", columns[i], 0, INT32_MAX))
            return;
        int64_t more[2] = {0, columns ? columns[i] - samba_value_size(a, 1) : 0};
        a = samba_cast(a, SAMBA_FLOAT32);
        parts[i] = more[1] ? samba_pad(a, 1, more, SAMBA_PAD_CONSTANT, 0) : a;
    }
    if (!node->refused)
        samba_onnx_out(node, 0, samba_concat(node->input_count, parts, 1));
}

/* ---- LabelEncoder ---- */

typedef struct pair {
    double key, value;
    int64_t int_key, int_value, order;
} pair;

static int by_int(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->int_key != y->int_key)
        return x->int_key < y->int_key ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}
static int by_double(const void *a, const void *b) /* NaN last, as samba_searchsorted has it */
{
    const pair *x = a, *y = b;
    bool nan_x = isnan(x->key), nan_y = isnan(y->key);
    if (nan_x != nan_y)
        return nan_x ? 1 : -1;
    if (!nan_x && x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* A list that is said as int64s, floats or a tensor: at most one of both arrays is not NULL. */
static int64_t read_numbers(samba_onnx_node *node, const char *what, const int64_t **ints, const double **doubles,
                            samba_dtype *dtype)
{
    char name[64];
    int64_t count, texts;
    *doubles = NULL;
    *dtype = SAMBA_INT64;
    snprintf(name, sizeof name, "%s_strings", what);
    samba_onnx_words(node, name, &texts);
    if (texts)
        samba_onnx_refuse(node, "%s are texts, which are no values here", what);
    snprintf(name, sizeof name, "%s_int64s", what);
    if ((*ints = samba_onnx_long_ints(node, name, &count)))
        return count;
    snprintf(name, sizeof name, "%s_floats", what);
    const float *floats = samba_onnx_floats(node, name, &count);
    if (floats) {
        double *list;
        if (SAMBA_ROOM(&node->reader->arena, list, count) != SAMBA_OK)
            return 0;
        for (int64_t i = 0; i < count; i++)
            list[i] = (double)floats[i];
        *doubles = list;
        *dtype = SAMBA_FLOAT32;
        return count;
    }
    snprintf(name, sizeof name, "%s_tensor", what);
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    if (attribute && attribute->t)
        *dtype = samba_onnx_dtype(attribute->t->data_type);
    *doubles = samba_onnx_tensor_doubles(node, name, &count);
    return count;
}

void samba_onnx_label_encoder(samba_onnx_node *node);
void samba_onnx_label_encoder(samba_onnx_node *node)
{
    const int64_t *int_keys, *int_values;
    const double *keys, *values, *other;
    samba_dtype key_dtype, dtype, wide;
    int64_t count = read_numbers(node, "keys", &int_keys, &keys, &key_dtype), given, default_count, kept = 0;
    given = read_numbers(node, "values", &int_values, &values, &dtype);
    double fallback = samba_dtype_is_floating_point(dtype) ? samba_onnx_float(node, "default_float", -0.0)
                                                           : (double)samba_onnx_int(node, "default_int64", -1);
    samba_onnx_text(node, "default_string", "_Unused");
    samba_onnx_float(node, "default_float", 0);
    samba_onnx_int(node, "default_int64", -1);
    other = samba_onnx_tensor_doubles(node, "default_tensor", &default_count);
    samba_value a = samba_onnx_need(node, 0);
    if (!node->refused && (count < 1 || count != given))
        samba_onnx_refuse(node, "%lld keys and %lld values are given", (long long)count, (long long)given);
    if (node->refused)
        return;
    fallback = other ? other[0] : fallback;
    pair *pairs;
    double *sorted, *results;
    int64_t *int_sorted, *int_results;
    samba_arena *arena = &node->reader->arena;
    if (SAMBA_ROOM(arena, pairs, count) != SAMBA_OK || SAMBA_ROOM(arena, sorted, count) != SAMBA_OK ||
        SAMBA_ROOM(arena, results, count + 1) != SAMBA_OK || SAMBA_ROOM(arena, int_sorted, count) != SAMBA_OK ||
        SAMBA_ROOM(arena, int_results, count + 1) != SAMBA_OK)
        return;
    bool by_number = !int_keys && samba_dtype_is_floating_point(key_dtype);
    for (int64_t i = 0; i < count; i++)
        pairs[i] = (pair){keys ? keys[i] : 0, values ? values[i] : 0,
                          int_keys    ? int_keys[i]
                          : by_number ? 0
                                      : samba_double_to_int64(keys[i]),
                          int_values ? int_values[i] : 0, i};
    qsort(pairs, (size_t)count, sizeof *pairs, by_number ? by_double : by_int);
    for (int64_t i = 0; i < count; i++) { /* of equal keys the last counts */
        bool same = i > 0 && (by_number ? pairs[i].key == pairs[i - 1].key || (isnan(pairs[i].key) && isnan(pairs[i - 1].key))
                                        : pairs[i].int_key == pairs[i - 1].int_key);
        kept += !same;
        sorted[kept - 1] = pairs[i].key;
        int_sorted[kept - 1] = pairs[i].int_key;
        results[kept - 1] = pairs[i].value;
        int_results[kept - 1] = pairs[i].int_value;
    }
    results[kept] = fallback;
    int_results[kept] = samba_double_to_int64(fallback);
    wide = by_number ? (samba_value_dtype(a) == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32) : SAMBA_INT64;
    samba_value table =
        by_number ? samba_onnx_doubles_value(node, wide, 1, &kept, sorted) : samba_onnx_ints_value(node, 1, &kept, int_sorted);
    const int64_t entries = kept + 1;
    samba_value answers = int_values ? samba_onnx_ints_value(node, 1, &entries, int_results)
                                     : samba_onnx_doubles_value(node, dtype, 1, &entries, results);
    if (node->refused)
        return;
    samba_value key = samba_cast(a, wide), at = samba_searchsorted(table, key, false), first = samba_integer(node->graph, 0);
    samba_value last = samba_integer(node->graph, kept - 1), place = samba_clamp(at, first, last);
    samba_value met = samba_take(table, place), found = samba_eq(met, key);
    if (by_number && isnan(sorted[kept - 1])) {
        samba_value nan_key = samba_isnan(key), nan_met = samba_isnan(met), both = samba_logical_and(nan_key, nan_met);
        found = samba_logical_or(found, both);
    }
    samba_value none = samba_integer(node->graph, kept), entry = samba_where(found, place, none);
    samba_onnx_out(node, 0, samba_take(answers, entry));
}

/* ---- linear models ---- */

/* Rows times coefficients (outputs, F), and intercepts; (N, outputs). */
static samba_value linear(samba_onnx_node *node, samba_value rows, int64_t outputs)
{
    int64_t count, shifts, columns = samba_value_size(rows, 1);
    const float *coefficients = samba_onnx_floats(node, "coefficients", &count),
                *intercepts = samba_onnx_floats(node, "intercepts", &shifts);
    const int64_t shape[2] = {outputs, columns};
    double *values;
    if (node->refused || outputs < 1 || count != outputs * columns || (shifts != 0 && shifts != outputs))
        return onnx_refused(node, "%lld coefficients and %lld intercepts do not fit %lld outputs of %lld features",
                            (long long)count, (long long)shifts, (long long)outputs, (long long)columns);
    if (SAMBA_ROOM(&node->reader->arena, values, count + 1) != SAMBA_OK)
        return onnx_refused(node, "%s", samba_error_message(node->reader->context));
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)coefficients[i];
    samba_value weight = samba_onnx_doubles_value(node, samba_value_dtype(rows), 2, shape, values), bias = {NULL, 0, 0};
    if (intercepts)
        bias = row_of(node, "intercepts", intercepts, shifts, outputs, rows);
    return node->refused ? rows : samba_functional_linear(rows, weight, bias);
}

void samba_onnx_linear_regressor(samba_onnx_node *node);
void samba_onnx_linear_regressor(samba_onnx_node *node)
{
    samba_value rows = samba_onnx_rows(node);
    int64_t targets = samba_onnx_int(node, "targets", 1);
    samba_onnx_transform transform = samba_onnx_transform_in(node);
    if (node->refused)
        return;
    samba_value scores = linear(node, rows, targets);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_cast(samba_onnx_transform_scores(node, scores, transform), SAMBA_FLOAT32));
}

void samba_onnx_linear_classifier(samba_onnx_node *node);
void samba_onnx_linear_classifier(samba_onnx_node *node)
{
    samba_onnx_labels labels;
    samba_value rows = samba_onnx_rows(node);
    samba_onnx_transform transform = samba_onnx_transform_in(node);
    int64_t count;
    samba_onnx_floats(node, "coefficients", &count);
    samba_onnx_int(node, "multi_class", 0); /* how it was trained */
    if (!samba_onnx_labels_in(node, "classlabels_ints", &labels))
        return;
    int64_t columns = samba_value_size(rows, 1), outputs = columns > 0 ? count / columns : 0;
    samba_value scores = linear(node, rows, outputs);
    if (!node->refused && outputs > 1 && outputs != labels.count)
        samba_onnx_refuse(node, "%lld scores are given for %lld labels", (long long)outputs, (long long)labels.count);
    if (node->refused)
        return;
    if (outputs > 1) {
        samba_onnx_out_labels(node, &labels, samba_argmax(scores, 1, false));
        samba_onnx_out(node, 1, samba_cast(samba_onnx_transform_scores(node, scores, transform), SAMBA_FLOAT32));
        return;
    }
    samba_value zero = samba_onnx_like(node, 0, scores), above = samba_gt(samba_select(scores, 1, 0), zero);
    if (labels.count == 2) {
        samba_onnx_out_labels(node, &labels, samba_cast(above, SAMBA_INT64));
        samba_onnx_out(node, 1, samba_cast(samba_onnx_two_scores(node, scores, transform, true), SAMBA_FLOAT32));
    } else
        samba_onnx_refuse(node, "one score is given for %lld labels", (long long)labels.count);
}
