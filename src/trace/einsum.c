/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of products whose dims have labels: einsum, tensordot, inner. Labels are 0 .. 51 for letters, A to Z first as they sort,
 * and the next ones for dims of "...", counted from the last. Two operands at a time become one matrix product: labels of both
 * that are still wanted are its batch dims, labels of both that are not are summed, the others are rows and columns. */
#include "trace/trace.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <string.h>

#define LETTERS 52
#define LABELS (LETTERS + SAMBA_MAX_RANK)

typedef struct labelled { /* dim d of the value has label at[d]; no label twice */
    samba_value value;
    int rank, at[SAMBA_MAX_RANK];
} labelled;

static int find(const labelled *x, int label)
{
    for (int d = 0; d < x->rank; d++)
        if (x->at[d] == label)
            return d;
    return -1;
}

static int64_t size_of(const labelled *x, int label)
{
    int d = find(x, label);
    return d < 0 ? 1 : samba_value_size(x->value, d);
}

/* Sums over the labels that are not in `wanted`; the dtype stays. */
static void sum_out(labelled *x, const bool *wanted)
{
    int dims[SAMBA_MAX_RANK], count = 0, rank = 0;
    for (int d = 0; d < x->rank; d++) {
        if (wanted[x->at[d]])
            x->at[rank++] = x->at[d];
        else
            dims[count++] = d;
    }
    if (count > 0)
        x->value = samba_cast(samba_sum(x->value, count, dims, false), samba_value_dtype(x->value));
    x->rank = rank;
}

/* The value with the dims of `labels`, in their order; those it lacks have size 1. */
static samba_value arranged(const labelled *x, int count, const int *labels)
{
    int order[SAMBA_MAX_RANK], at = 0;
    int64_t shape[LABELS];
    for (int i = 0; i < count; i++) {
        shape[i] = size_of(x, labels[i]);
        if (find(x, labels[i]) >= 0)
            order[at++] = find(x, labels[i]);
    }
    return samba_reshape(samba_permute(x->value, order), count, shape);
}

/* The labels of two factors by their part in a batched product, and the size of each part as one dim. */
enum { BATCH, SUMMED, ROWS, COLUMNS, KINDS };
typedef struct sorted_labels {
    int labels[KINDS][SAMBA_MAX_RANK * 2], count[KINDS];
    int64_t merged[KINDS];
} sorted_labels;

static int64_t common_size(const labelled *a, const labelled *b, int label)
{
    return size_of(a, label) == 1 ? size_of(b, label) : size_of(a, label);
}

static sorted_labels sort_labels(const labelled *a, const labelled *b, const bool *wanted)
{
    sorted_labels sorted = {.merged = {1, 1, 1, 1}};
    for (int side = 0; side < 2; side++) {
        const labelled *x = side ? b : a;
        for (int d = 0; d < x->rank; d++) {
            int label = x->at[d];
            bool shared = find(a, label) >= 0 && find(b, label) >= 0;
            if (side && shared)
                continue;
            int kind = shared ? (wanted[label] ? BATCH : SUMMED) : side ? COLUMNS : ROWS;
            sorted.labels[kind][sorted.count[kind]++] = label;
            sorted.merged[kind] *= common_size(a, b, label);
        }
    }
    return sorted;
}

static int append(int *to, int rank, const sorted_labels *sorted, int kind)
{
    for (int i = 0; i < sorted->count[kind]; i++)
        to[rank++] = sorted->labels[kind][i];
    return rank;
}

/* One matmul of a (batch, rows, summed) and b (batch, summed, columns); shape: the result's, the batch first. */
static samba_value multiply(const labelled *a, const labelled *b, const sorted_labels *sorted, int rank, const int64_t *shape)
{
    int left[LABELS], right[LABELS], batch = sorted->count[BATCH];
    int left_rank = append(left, append(left, append(left, 0, sorted, BATCH), sorted, ROWS), sorted, SUMMED);
    int right_rank = append(right, append(right, append(right, 0, sorted, BATCH), sorted, SUMMED), sorted, COLUMNS);
    samba_value x = arranged(a, left_rank, left), y = arranged(b, right_rank, right);
    int64_t flat_a[SAMBA_MAX_RANK], flat_b[SAMBA_MAX_RANK];
    if (batch + 2 > SAMBA_MAX_RANK) { /* too many batch dims are one, over which both are repeated first */
        for (int i = 0; i < left_rank; i++)
            flat_a[i] = i < batch ? shape[i] : size_of(a, left[i]);
        for (int i = 0; i < right_rank; i++)
            flat_b[i] = i < batch ? shape[i] : size_of(b, right[i]);
        x = samba_expand(x, left_rank, flat_a);
        y = samba_expand(y, right_rank, flat_b);
        flat_a[0] = flat_b[0] = sorted->merged[BATCH];
        batch = 1;
    } else {
        for (int i = 0; i < batch; i++) {
            flat_a[i] = size_of(a, left[i]);
            flat_b[i] = size_of(b, left[i]);
        }
    }
    flat_a[batch] = sorted->merged[ROWS];
    flat_a[batch + 1] = flat_b[batch] = sorted->merged[SUMMED];
    flat_b[batch + 1] = sorted->merged[COLUMNS];
    y = samba_reshape(y, batch + 2, flat_b);
    x = samba_reshape(x, batch + 2, flat_a);
    return samba_reshape(samba_matmul(x, y), rank, shape);
}

/* Those of the labels that stand in `order` come first, as they do there. */
static void put_in_order(int *labels, int rank, int count, const int *order)
{
    for (int i = 0, at = 0; i < count; i++)
        for (int d = at; d < rank; d++)
            if (labels[d] == order[i]) {
                labels[d] = labels[at];
                labels[at++] = order[i];
                break;
            }
}

/* a * b, summed over the labels of both that are not wanted. Labels that only one of them has are wanted. What sums nothing has
 * its dims in the order of the whole result, `count` labels, at once: moving them later takes longer than the product. */
static labelled contract(labelled a, labelled b, const bool *wanted, int count, const int *order)
{
    bool kept[LABELS];
    for (int i = 0; i < LABELS; i++) { /* what is summed and has size 1 on one side is summed on the other alone */
        bool shared = find(&a, i) >= 0 && find(&b, i) >= 0;
        kept[i] = wanted[i] || (shared && size_of(&a, i) == size_of(&b, i));
    }
    samba_dtype dtype = samba_value_dtype(a.value);
    sum_out(&a, kept);
    sum_out(&b, kept);
    const sorted_labels sorted = sort_labels(&a, &b, wanted);
    int all[LABELS], rank = append(all, append(all, append(all, 0, &sorted, BATCH), &sorted, ROWS), &sorted, COLUMNS);
    labelled result = {.rank = 0};
    if (rank > SAMBA_MAX_RANK) {
        result.value = samba_trace_fail(a.value.graph, SAMBA_ERROR_SHAPE, "einsum",
                                        "a product on the way has %d dims; at most %d are possible", rank, SAMBA_MAX_RANK);
        return result;
    }
    if (sorted.count[SUMMED] == 0)
        put_in_order(all, rank, count, order);
    int64_t shape[SAMBA_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = common_size(&a, &b, all[i]);
    memcpy(result.at, all, sizeof(int) * (size_t)rank);
    result.rank = rank;
    if (sorted.count[SUMMED] == 0) {
        samba_value right = arranged(&b, rank, all), left = arranged(&a, rank, all);
        result.value = samba_mul(left, right);
    } else {
        result.value = samba_cast(multiply(&a, &b, &sorted, rank, shape), dtype);
    }
    return result;
}

/* ---- the equation ---- */

typedef struct equation {
    samba_graph *graph;
    int count[LABELS]; /* how often a label occurs among the operands */
    int64_t size[LABELS];
    bool in_result[LABELS];
    int dots; /* the most dims that "..." stands for */
    int result[LABELS], result_rank;
} equation;

static bool refuse(equation *e, samba_status status, const char *text, const char *what, int number)
{
    return samba_graph_refuse(e->graph, status, "einsum", "%s %d of the equation \"%.80s\"", what, number, text);
}

static int letter(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }

/* Labels of an operand, from *text up to a comma, an arrow or the end. */
static bool parse_operand(equation *e, const char *whole, const char **text, int number, samba_value value, labelled *x)
{
    int labels[SAMBA_MAX_RANK], count = 0, dots_at = -1, rank = samba_value_rank(value);
    const char *c = *text;
    for (; *c && *c != ',' && strncmp(c, "->", 2) != 0; c++) {
        if (*c == ' ')
            continue;
        if (strncmp(c, "...", 3) == 0 && dots_at < 0) {
            dots_at = count;
            c += 2;
            continue;
        }
        if (letter(*c) < 0)
            return refuse(e, SAMBA_ERROR_ARGUMENT, whole, "expected letters a to z and A to Z, and \"...\" once, for operand",
                          number);
        if (count == SAMBA_MAX_RANK)
            return refuse(e, SAMBA_ERROR_SHAPE, whole, "there are more letters than dims for operand", number);
        labels[count++] = letter(*c);
    }
    *text = c;
    if (dots_at < 0 ? count != rank : count > rank) {
        samba_node node = samba_trace_node(value);
        return samba_graph_refuse(e->graph, SAMBA_ERROR_SHAPE, "einsum",
                                  "operand %d has %d letters%s in the equation \"%.80s\", given %s", number, count,
                                  dots_at < 0 ? "" : " and \"...\"", whole, SAMBA_TYPE_OF(&node));
    }
    int dots = rank - count;
    e->dots = dots > e->dots && dots_at >= 0 ? dots : e->dots;
    x->value = value;
    x->rank = rank;
    for (int d = 0, at = 0; d < rank; d++) {
        bool dotted = dots_at >= 0 && d >= dots_at && d < dots_at + dots;
        int label = dotted ? LETTERS + (dots_at + dots - 1 - d) : labels[at++]; /* the last dim of "..." is the first label */
        int64_t size = samba_value_size(value, d);
        if (e->size[label] > 1 && size > 1 && e->size[label] != size)
            return samba_graph_refuse(e->graph, SAMBA_ERROR_SHAPE, "einsum",
                                      "dim %d of operand %d has size %lld, and %lld elsewhere in the equation \"%.80s\"", d,
                                      number, (long long)size, (long long)e->size[label], whole);
        e->size[label] = e->count[label] == 0 || size != 1 ? size : e->size[label];
        e->count[label]++;
        x->at[d] = label;
    }
    return true;
}

/* Equal labels of one operand: its diagonal, which moves to the end. */
static bool take_diagonals(equation *e, const char *whole, int number, labelled *x)
{
    for (int i = 0; i < x->rank; i++)
        for (int j = i + 1; j < x->rank; j++) {
            if (x->at[i] != x->at[j])
                continue;
            if (samba_value_size(x->value, i) != samba_value_size(x->value, j))
                return refuse(e, SAMBA_ERROR_SHAPE, whole, "a letter that is repeated names dims of several sizes in operand",
                              number);
            int label = x->at[i], rank = 0;
            x->value = samba_diagonal(x->value, 0, i, j);
            for (int d = 0; d < x->rank; d++)
                if (d != i && d != j)
                    x->at[rank++] = x->at[d];
            x->at[rank++] = label;
            x->rank = rank;
            i = -1;
            break;
        }
    return true;
}

static void add_result(equation *e, int label)
{
    e->in_result[label] = true;
    e->result[e->result_rank++] = label;
}

static void add_dots(equation *e)
{
    for (int i = e->dots - 1; i >= 0; i--)
        add_result(e, LETTERS + i);
}

/* The labels behind the arrow; without one the dims of "...", then all letters that occur once. */
static bool parse_result(equation *e, const char *whole, const char *c)
{
    bool dotted = false;
    if (!*c) {
        add_dots(e);
        for (int i = 0; i < LETTERS; i++)
            if (e->count[i] == 1)
                add_result(e, i);
        return true;
    }
    for (c += 2; *c; c++) {
        if (*c == ' ')
            continue;
        if (strncmp(c, "...", 3) == 0 && !dotted) {
            dotted = true;
            add_dots(e);
            c += 2;
            continue;
        }
        int label = letter(*c);
        if (label < 0 || e->in_result[label] || e->count[label] == 0)
            return samba_graph_refuse(
                e->graph, SAMBA_ERROR_ARGUMENT, "einsum",
                "\"%c\" in the result of the equation \"%.80s\": expected letters of the operands, each once", *c, whole);
        add_result(e, label);
    }
    return true;
}

samba_value samba_einsum(const char *text, int count, const samba_value *operands)
{
    enum { MOST = 64 };
    labelled values[MOST];
    equation e = {.dots = 0};
    if (count < 1 || !operands)
        return samba_trace_none(NULL);
    if (!samba_trace_enter("einsum", count, operands, &e.graph))
        return samba_trace_none(e.graph);
    if (!text || count > MOST)
        return samba_trace_fail(e.graph, SAMBA_ERROR_ARGUMENT, "einsum",
                                "expected an equation and up to %d operands, given %s and %d", MOST, text ? "one" : "NULL",
                                count);
    const char *c = text;
    for (int i = 0; i < count; i++) {
        if (!parse_operand(&e, text, &c, i, operands[i], &values[i]))
            return samba_trace_none(e.graph);
        if (samba_value_dtype(operands[i]) != samba_value_dtype(operands[0]))
            return samba_trace_fail(
                e.graph, SAMBA_ERROR_DTYPE, "einsum", "expected operands of one dtype, given %s and %s; cast one of them",
                samba_dtype_name(samba_value_dtype(operands[0])), samba_dtype_name(samba_value_dtype(operands[i])));
        if ((*c == ',') != (i + 1 < count))
            return samba_trace_fail(e.graph, SAMBA_ERROR_ARGUMENT, "einsum",
                                    "the equation \"%.80s\" has %s operands than the %d given", text,
                                    *c == ',' ? "more" : "fewer", count);
        c += *c == ',';
    }
    if (!parse_result(&e, text, c))
        return samba_trace_none(e.graph);
    if (e.result_rank > SAMBA_MAX_RANK)
        return samba_trace_fail(e.graph, SAMBA_ERROR_SHAPE, "einsum", "the result has %d dims; at most %d are possible",
                                e.result_rank, SAMBA_MAX_RANK);
    for (int i = 0; i < count; i++)
        if (!take_diagonals(&e, text, i, &values[i]))
            return samba_trace_none(e.graph);
    labelled product = values[0];
    for (int i = 1; i < count; i++) {
        bool wanted[LABELS], single[LABELS];
        memcpy(wanted, e.in_result, sizeof wanted);
        for (int k = i + 1; k < count; k++)
            for (int d = 0; d < values[k].rank; d++)
                wanted[values[k].at[d]] = true;
        for (int label = 0; label < LABELS; label++) /* what only one of the two has, and nobody else, is summed before */
            single[label] = wanted[label] || (find(&product, label) >= 0 && find(&values[i], label) >= 0);
        sum_out(&product, single);
        sum_out(&values[i], single);
        product = contract(product, values[i], wanted, e.result_rank, e.result);
        if (product.value.index == SAMBA_NONE)
            return product.value;
    }
    /* sums of integers alone are int64, as torch's */
    bool widens = count == 1 && !samba_dtype_is_floating_point(samba_value_dtype(operands[0]));
    if (widens && product.rank > e.result_rank)
        product.value = samba_cast(product.value, SAMBA_INT64);
    sum_out(&product, e.in_result);
    return arranged(&product, e.result_rank, e.result);
}

/* ---- by dims ---- */

samba_value samba_tensordot(samba_value a, samba_value b, int count, const int *dims_a, const int *dims_b)
{
    samba_graph *graph;
    if (!samba_trace_enter("tensordot", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    labelled left = {.value = a, .rank = samba_value_rank(a)}, right = {.value = b, .rank = samba_value_rank(b)};
    bool wanted[LABELS] = {false};
    if (count < 0 || count > left.rank || count > right.rank || (count > 0 && (!dims_a || !dims_b)))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "tensordot", "expected lists of 0 to %d dims, given %d",
                                left.rank < right.rank ? left.rank : right.rank, count);
    if (samba_value_dtype(a) != samba_value_dtype(b))
        return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, "tensordot",
                                "expected operands of one dtype, given %s and %s; cast one of them",
                                samba_dtype_name(samba_value_dtype(a)), samba_dtype_name(samba_value_dtype(b)));
    for (int d = 0; d < left.rank; d++)
        wanted[left.at[d] = d] = true;
    for (int d = 0; d < right.rank; d++)
        wanted[right.at[d] = SAMBA_MAX_RANK + d] = true;
    for (int i = 0; i < count; i++) {
        int of_a, of_b;
        if (!samba_trace_dim(graph, "tensordot", left.rank, dims_a[i], &of_a) ||
            !samba_trace_dim(graph, "tensordot", right.rank, dims_b[i], &of_b))
            return samba_trace_none(graph);
        int64_t m = samba_value_size(a, of_a), n = samba_value_size(b, of_b);
        if (!wanted[left.at[of_a]] || right.at[of_b] < SAMBA_MAX_RANK)
            return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, "tensordot",
                                    "dim %d of the %s operand is in the list of its dims twice",
                                    wanted[left.at[of_a]] ? of_b : of_a, wanted[left.at[of_a]] ? "second" : "first");
        if (m != n && m != 1 && n != 1)
            return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "tensordot",
                                    "dims %d and %d, of sizes %lld and %lld, cannot be summed over together", dims_a[i],
                                    dims_b[i], (long long)m, (long long)n);
        right.at[of_b] = left.at[of_a];
        wanted[left.at[of_a]] = false;
    }
    int order[LABELS], rank = 0;
    for (int side = 0; side < 2; side++)
        for (int d = 0; d < (side ? right.rank : left.rank); d++)
            if (wanted[(side ? right : left).at[d]])
                order[rank++] = (side ? right : left).at[d];
    labelled product = contract(left, right, wanted, 0, NULL);
    return product.value.index == SAMBA_NONE ? product.value : arranged(&product, rank, order);
}

samba_value samba_inner(samba_value a, samba_value b)
{
    samba_graph *graph;
    if (!samba_trace_enter("inner", 2, (samba_value[]){a, b}, &graph))
        return samba_trace_none(graph);
    int left = samba_value_rank(a) - 1, right = samba_value_rank(b) - 1;
    if (left < 0 || right < 0)
        return samba_mul(a, b);
    if (samba_value_dtype(a) != samba_value_dtype(b))
        return samba_trace_fail(graph, SAMBA_ERROR_DTYPE, "inner",
                                "expected factors of one dtype, given %s and %s; cast one of them",
                                samba_dtype_name(samba_value_dtype(a)), samba_dtype_name(samba_value_dtype(b)));
    if (samba_value_size(a, left) != samba_value_size(b, right))
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "inner", "expected last dims of one size, given %lld and %lld",
                                (long long)samba_value_size(a, left), (long long)samba_value_size(b, right));
    return samba_tensordot(a, b, 1, &left, &right);
}
