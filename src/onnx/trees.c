/* SPDX-License-Identifier: Apache-2.0
 *
 * Ensembles of trees (ai.onnx.ml). All rows walk all trees at once, a level at a time: each level gathers the nodes' features,
 * thresholds and children, which are constants, so that the graph is as long as the deepest tree. Leaves are their own
 * children. */
#include "onnx/ml.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NODES ((int64_t)1 << 24)
#define MOST_WEIGHTS ((int64_t)1 << 26)

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF };
enum { AVERAGE, SUM, MIN, MAX };

typedef struct forest {
    int64_t count, trees, targets, depth;
    double *feature, *threshold, *mode, *missing; /* of each node; missing: 1 where NaN goes to the true side */
    double *child;                                /* two of each: where it is false, where it is true */
    double *weight;                               /* (count, targets) */
    double *root;
    bool modes[LEAF + 1], has_missing;
} forest;

/* One block for all of it: numbers of nodes are exact in double. */
static bool make_forest(samba_onnx_node *node, forest *f, int64_t count, int64_t trees, int64_t targets, double nothing)
{
    double *block = NULL;
    if (count < 1 || count > MOST_NODES || trees < 1 || trees > count || targets < 1 || targets > MOST_WEIGHTS / count) {
        samba_onnx_refuse(node, "%lld nodes of %lld trees for %lld targets are not supported", (long long)count, (long long)trees,
                          (long long)targets);
        return false;
    }
    if (!samba_onnx_afford(node, 8 * (double)count * (double)(6 + targets), 0))
        return false;
    if (SAMBA_ROOM(&node->reader->arena, block, count * (6 + targets) + trees) != SAMBA_OK) {
        samba_onnx_refuse(node, "%s", samba_error_message(node->reader->context));
        return false;
    }
    *f = (forest){.count = count, .trees = trees, .targets = targets};
    f->feature = block;
    f->threshold = f->feature + count;
    f->mode = f->threshold + count;
    f->missing = f->mode + count;
    f->child = f->missing + count;
    f->weight = f->child + 2 * count;
    f->root = f->weight + count * targets;
    for (int64_t i = 0; i < count; i++) {
        f->mode[i] = LEAF;
        f->child[2 * i] = f->child[2 * i + 1] = (double)i;
    }
    for (int64_t i = 0; i < count * targets; i++)
        f->weight[i] = nothing;
    return true;
}

/* A leaf's weight of a target, with others that the same leaf has. */
static void add_weight(forest *f, int64_t leaf, int64_t target, double weight, int how)
{
    double *w = &f->weight[leaf * f->targets + target];
    *w = how == MIN ? fmin(*w, weight) : how == MAX ? fmax(*w, weight) : *w + weight;
}

/* The depth, level by level; a node that two others lead to would be a graph that is no tree. */
static bool measure(samba_onnx_node *node, forest *f, int64_t features)
{
    int64_t *level, *next, count = 0, seen = 0;
    if (SAMBA_ROOM(&node->reader->arena, level, f->count + 1) != SAMBA_OK ||
        SAMBA_ROOM(&node->reader->arena, next, f->count + 1) != SAMBA_OK)
        return false;
    for (int64_t i = 0; i < f->trees; i++)
        if (f->mode[(int64_t)f->root[i]] != LEAF)
            level[count++] = (int64_t)f->root[i];
    for (f->depth = 0; count > 0; f->depth++) {
        int64_t more = 0;
        seen += count;
        for (int64_t i = 0; i < 2 * count; i++) {
            int64_t child = (int64_t)f->child[2 * level[i / 2] + i % 2];
            if (f->mode[child] == LEAF)
                continue;
            if (seen + more >= f->count) {
                samba_onnx_refuse(node, "its nodes are no trees: some have several parents");
                return false;
            }
            next[more++] = child;
        }
        int64_t *swap = level;
        level = next;
        next = swap;
        count = more;
    }
    for (int64_t i = 0; i < f->count; i++) {
        f->modes[(int)f->mode[i]] = true;
        f->has_missing |= f->missing[i] != 0;
        if (f->feature[i] < 0 || f->feature[i] >= (double)features) {
            samba_onnx_refuse(node, "a node looks at feature %.0f of %lld", f->feature[i], (long long)features);
            return false;
        }
    }
    return true;
}

/* ---- walking ---- */

static samba_value table_of(samba_onnx_node *node, samba_dtype dtype, int64_t count, const double *values)
{
    return samba_onnx_doubles_value(node, dtype, 1, &count, values);
}

/* What of a table stands at each index (N, trees). */
static samba_value look_up(samba_value table, samba_value index)
{
    const int64_t all = -1, shape[2] = {samba_value_size(index, 0), samba_value_size(index, 1)};
    samba_value line = samba_reshape(index, 1, &all), picked = samba_index_select(table, 0, line);
    return samba_reshape(picked, 2, shape);
}

static samba_value compare(samba_value x, samba_value threshold, int mode)
{
    switch (mode) {
    case LT: return samba_lt(x, threshold);
    case GTE: return samba_ge(x, threshold);
    case GT: return samba_gt(x, threshold);
    case EQ: return samba_eq(x, threshold);
    case NEQ: return samba_ne(x, threshold);
    default: return samba_le(x, threshold);
    }
}

/* The leaves that rows (N, F) come to in each tree: numbers of nodes, (N, trees). */
static samba_value walk(samba_onnx_node *node, const forest *f, samba_value rows)
{
    samba_dtype dtype = samba_value_dtype(rows);
    const int64_t shape[2] = {samba_value_size(rows, 0), f->trees};
    samba_value features = table_of(node, SAMBA_INT64, f->count, f->feature),
                thresholds = table_of(node, dtype, f->count, f->threshold);
    samba_value children = table_of(node, SAMBA_INT64, 2 * f->count, f->child),
                roots = table_of(node, SAMBA_INT64, f->trees, f->root);
    samba_value modes = table_of(node, SAMBA_INT64, f->count, f->mode),
                missing = table_of(node, SAMBA_BOOL, f->count, f->missing);
    if (node->refused)
        return rows;
    samba_value index = samba_expand(roots, 2, shape), two = samba_integer(node->graph, 2);
    int kinds = 0;
    for (int mode = LEQ; mode <= NEQ; mode++)
        kinds += f->modes[mode];
    for (int64_t level = 0; level < f->depth; level++) {
        samba_value feature = look_up(features, index), x = samba_gather(rows, 1, feature),
                    threshold = look_up(thresholds, index);
        samba_value mode = kinds > 1 ? look_up(modes, index) : index, yes = {NULL, 0, 0};
        for (int m = LEQ; m <= NEQ; m++) {
            if (!f->modes[m])
                continue;
            samba_value holds = compare(x, threshold, m);
            if (yes.graph) {
                samba_value number = samba_integer(node->graph, m), is_that = samba_eq(mode, number);
                yes = samba_where(is_that, holds, yes);
            } else
                yes = holds;
        }
        if (f->has_missing) {
            samba_value nan = samba_isnan(x), goes = look_up(missing, index), both = samba_logical_and(nan, goes);
            yes = samba_logical_or(yes, both);
        }
        samba_value pair = samba_mul(index, two), side = samba_cast(yes, SAMBA_INT64), place = samba_add(pair, side);
        index = look_up(children, place);
    }
    return index;
}

/* Weights of the leaves, all trees together, (N, targets). */
static samba_value gather_scores(samba_onnx_node *node, const forest *f, samba_value rows, samba_dtype dtype, int how)
{
    const int64_t all = -1, n = samba_value_size(rows, 0), table[2] = {f->count, f->targets},
                  apart[3] = {n, f->trees, f->targets};
    const int trees = 1;
    samba_value weights = samba_onnx_doubles_value(node, dtype, 2, table, f->weight), leaves = walk(node, f, rows);
    if (node->refused)
        return rows;
    samba_value line = samba_reshape(leaves, 1, &all), picked = samba_index_select(weights, 0, line);
    samba_value each = samba_reshape(picked, 3, apart), result;
    if (how == SUM || how == AVERAGE) {
        result = samba_sum(each, 1, &trees, false);
        return how == SUM ? result : samba_mul_scalar(result, 1 / (double)f->trees);
    }
    result = how == MIN ? samba_amin(each, 1, &trees, false) : samba_amax(each, 1, &trees, false);
    samba_value zero = samba_onnx_like(node, 0, result), none = samba_isinf(result); /* no leaf had anything for that target */
    return samba_where(none, zero, result);
}

/* ---- the form of versions 1 to 3: nodes have numbers in their trees, leaves are nodes ---- */

typedef struct place {
    int64_t tree, number, index;
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->tree != y->tree)
        return x->tree < y->tree ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int64_t find(const place *places, int64_t count, int64_t tree, int64_t number)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        const place *p = &places[middle];
        if (p->tree < tree || (p->tree == tree && p->number < number))
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && places[low].tree == tree && places[low].number == number ? places[low].index : -1;
}

/* `what`: "target" or "class", as the leaves' weights are called. */
static bool read_numbered(samba_onnx_node *node, forest *f, const char *what, int64_t targets, int how, bool *positive,
                          uint8_t *used)
{
    static const char *const words[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "",           "LEAF"};
    int64_t counts[7], sizes[4], unused, trees = 0;
    char names[4][64];
    const int64_t *tree = samba_onnx_long_ints(node, "nodes_treeids", &counts[0]),
                  *number = samba_onnx_long_ints(node, "nodes_nodeids", &counts[1]);
    const int64_t *feature = samba_onnx_long_ints(node, "nodes_featureids", &counts[2]);
    const int64_t *yes = samba_onnx_long_ints(node, "nodes_truenodeids", &counts[3]),
                  *no = samba_onnx_long_ints(node, "nodes_falsenodeids", &counts[4]);
    const char *const *mode = samba_onnx_words(node, "nodes_modes", &counts[5]);
    const double *threshold = samba_onnx_doubles(node, "nodes_values", &counts[6]);
    int64_t missings, count = counts[0];
    const int64_t *missing = samba_onnx_long_ints(node, "nodes_missing_value_tracks_true", &missings);
    samba_onnx_doubles(node, "nodes_hitrates", &unused); /* how often nodes are met: for speed alone */
    static const char *const parts[4] = {"treeids", "nodeids", "ids", "weights"};
    for (int i = 0; i < 4; i++)
        snprintf(names[i], sizeof names[i], "%s_%s", what, parts[i]);
    const int64_t *leaf_tree = samba_onnx_long_ints(node, names[0], &sizes[0]),
                  *leaf_number = samba_onnx_long_ints(node, names[1], &sizes[1]);
    const int64_t *target = samba_onnx_long_ints(node, names[2], &sizes[2]);
    const double *weight = samba_onnx_doubles(node, names[3], &sizes[3]);
    bool fits = !missing || missings == count;
    for (int i = 0; i < 7; i++)
        fits &= counts[i] == count;
    for (int i = 0; i < 4; i++)
        fits &= sizes[i] == sizes[0];
    place *places;
    if (!fits && !node->refused)
        samba_onnx_refuse(node, "its lists of nodes, or of leaves, are not of one length");
    if (node->refused || SAMBA_ROOM(&node->reader->arena, places, count + 1) != SAMBA_OK)
        return false;
    for (int64_t i = 0; i < count; i++)
        places[i] = (place){tree[i], number[i], i};
    qsort(places, (size_t)count, sizeof *places, by_place);
    for (int64_t i = 0; i < count; i++)
        trees += i == 0 || places[i].tree != places[i - 1].tree;
    if (!make_forest(node, f, count, trees, targets, how == MIN ? INFINITY : how == MAX ? -INFINITY : 0))
        return false;
    for (int64_t i = 0, t = -1; i < count; i++) { /* the root is a tree's first node */
        bool first = i == 0 || places[i].tree != places[i - 1].tree;
        t += first;
        if (first || (double)places[i].index < f->root[t])
            f->root[t] = (double)places[i].index;
    }
    for (int64_t i = 0; i < count; i++) {
        int kind = LEAF;
        while (kind >= 0 && (kind == MEMBER || strcmp(words[kind], mode[i]) != 0))
            kind--;
        if (kind < 0) {
            samba_onnx_refuse(node, "a node has the mode \"%.64s\"", mode[i]);
            return false;
        }
        if (kind == LEAF)
            continue;
        int64_t sides[2] = {find(places, count, tree[i], no[i]), find(places, count, tree[i], yes[i])};
        if (sides[0] < 0 || sides[1] < 0) {
            samba_onnx_refuse(node, "a node of tree %lld has a child that is not there", (long long)tree[i]);
            return false;
        }
        f->mode[i] = kind;
        f->feature[i] = (double)feature[i];
        f->threshold[i] = threshold[i];
        f->missing[i] = missing && missing[i] != 0;
        f->child[2 * i] = (double)sides[0];
        f->child[2 * i + 1] = (double)sides[1];
    }
    *positive = true;
    for (int64_t i = 0; i < sizes[0]; i++) {
        int64_t leaf = find(places, count, leaf_tree[i], leaf_number[i]);
        if (leaf < 0 || target[i] < 0 || target[i] >= targets) {
            samba_onnx_refuse(node, "a weight belongs to no leaf, or to no %s", what);
            return false;
        }
        add_weight(f, leaf, target[i], weight[i], how);
        *positive &= weight[i] >= 0;
        if (target[i] < 2)
            used[target[i]] = 1;
    }
    return true;
}

/* Base values, one of each target or one for all. */
static samba_value add_base(samba_onnx_node *node, samba_value scores, const double *base, int64_t count)
{
    if (!base || node->refused)
        return scores;
    if (count != 1 && count != samba_value_size(scores, 1))
        return onnx_refused(node, "%lld base values are given for %lld scores", (long long)count,
                            (long long)samba_value_size(scores, 1));
    samba_value row = samba_onnx_doubles_value(node, samba_value_dtype(scores), 1, &count, base);
    return node->refused ? scores : samba_add(scores, row);
}

void samba_onnx_tree_ensemble_regressor(samba_onnx_node *node);
void samba_onnx_tree_ensemble_regressor(samba_onnx_node *node)
{
    static const char *const ways[] = {"AVERAGE", "SUM", "MIN", "MAX", NULL};
    forest f;
    bool positive;
    uint8_t used[2] = {0, 0};
    samba_value rows = samba_onnx_rows(node);
    int64_t targets = samba_onnx_int(node, "n_targets", 1), bases;
    int how = samba_onnx_choice(node, "aggregate_function", "SUM", ways);
    samba_onnx_transform transform = samba_onnx_transform_in(node);
    const double *base = samba_onnx_doubles(node, "base_values", &bases);
    if (node->refused || !read_numbered(node, &f, "target", targets, how, &positive, used) ||
        !measure(node, &f, samba_value_size(rows, 1)))
        return;
    samba_value scores = gather_scores(node, &f, rows, samba_value_dtype(rows), how), sum = add_base(node, scores, base, bases);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_cast(samba_onnx_transform_scores(node, sum, transform), SAMBA_FLOAT32));
}

/* Two classes of which trees score one: the label is the second's where that score is high, above a half where no weight is
 * negative, else above 0. */
static void classify_two(samba_onnx_node *node, const samba_onnx_labels *labels, samba_value scores, int scored,
                         const double *base, int64_t bases, samba_onnx_transform transform, bool positive)
{
    samba_value bound = samba_onnx_like(node, positive ? 0.5 : 0, scores), score = samba_narrow(scores, 1, scored, 1), result;
    if (base)
        score = samba_add_scalar(score, base[scored < bases ? scored : 0]);
    if (scored == 0)
        result = samba_onnx_two_scores(node, score, transform, positive);
    else {
        samba_value other = samba_narrow(scores, 1, 0, 1);
        const samba_value both[2] = {base && bases == 2 ? samba_add_scalar(other, base[0]) : other, score};
        result = samba_onnx_transform_scores(node, samba_concat(2, both, 1), transform);
    }
    samba_value above = samba_gt(samba_select(score, 1, 0), bound);
    samba_onnx_out_labels(node, labels, samba_cast(above, SAMBA_INT64));
    samba_onnx_out(node, 1, samba_cast(result, SAMBA_FLOAT32));
}

void samba_onnx_tree_ensemble_classifier(samba_onnx_node *node);
void samba_onnx_tree_ensemble_classifier(samba_onnx_node *node)
{
    forest f;
    samba_onnx_labels labels;
    bool positive;
    uint8_t used[2] = {0, 0};
    samba_value rows = samba_onnx_rows(node);
    int64_t bases;
    samba_onnx_transform transform = samba_onnx_transform_in(node);
    const double *base = samba_onnx_doubles(node, "base_values", &bases);
    if (!samba_onnx_labels_in(node, "classlabels_int64s", &labels) ||
        !read_numbered(node, &f, "class", labels.count, SUM, &positive, used) || !measure(node, &f, samba_value_size(rows, 1)))
        return;
    samba_value scores = gather_scores(node, &f, rows, samba_value_dtype(rows), SUM);
    if (!node->refused && labels.count < 2)
        samba_onnx_refuse(node, "one label is given, at least two are expected");
    if (!node->refused && base && bases > 2 && bases != labels.count)
        samba_onnx_refuse(node, "%lld base values are given for %lld labels", (long long)bases, (long long)labels.count);
    if (node->refused)
        return;
    if (labels.count == 2 && used[0] + used[1] == 1) {
        classify_two(node, &labels, scores, used[1], base, bases, transform, positive);
        return;
    }
    samba_value sum = add_base(node, scores, base, bases);
    if (node->refused)
        return;
    samba_value result = samba_onnx_transform_scores(node, sum, transform);
    samba_onnx_out_labels(node, &labels, samba_argmax(sum, 1, false));
    samba_onnx_out(node, 1, samba_cast(result, SAMBA_FLOAT32));
}

/* ---- the form of version 5: nodes and leaves apart ---- */

/* Nodes that ask for one of several values become a chain of nodes that ask for one each. */
static bool read_apart(samba_onnx_node *node, forest *f, int64_t targets, int how)
{
    int64_t counts[8], leaf_counts[2], trees, members, unused, count, leaves, extra, at;
    const int64_t *root = samba_onnx_long_ints(node, "tree_roots", &trees),
                  *feature = samba_onnx_long_ints(node, "nodes_featureids", &counts[0]);
    const int64_t *yes = samba_onnx_long_ints(node, "nodes_truenodeids", &counts[1]),
                  *no = samba_onnx_long_ints(node, "nodes_falsenodeids", &counts[2]);
    const int64_t *yes_leaf = samba_onnx_long_ints(node, "nodes_trueleafs", &counts[3]);
    const int64_t *no_leaf = samba_onnx_long_ints(node, "nodes_falseleafs", &counts[4]);
    const int64_t *missing = samba_onnx_long_ints(node, "nodes_missing_value_tracks_true", &counts[5]);
    const double *split = samba_onnx_tensor_doubles(node, "nodes_splits", &counts[6]),
                 *mode = samba_onnx_tensor_doubles(node, "nodes_modes", &counts[7]);
    const int64_t *target = samba_onnx_long_ints(node, "leaf_targetids", &leaf_counts[0]);
    const double *weight = samba_onnx_tensor_doubles(node, "leaf_weights", &leaf_counts[1]);
    const double *member = samba_onnx_tensor_doubles(node, "membership_values", &members);
    samba_onnx_tensor_doubles(node, "nodes_hitrates", &unused);
    count = counts[0];
    leaves = leaf_counts[0];
    if (!missing)
        counts[5] = count;
    bool fits = leaf_counts[1] == leaves && trees > 0 && count > 0;
    for (int i = 1; i < 8; i++)
        fits &= counts[i] == count;
    for (int64_t i = 0; i < trees && fits; i++)
        fits &= root[i] >= 0 && root[i] < count;
    for (int64_t i = 0; i < count && fits; i++)
        fits &= yes[i] >= 0 && yes[i] < (yes_leaf[i] ? leaves : count) && no[i] >= 0 && no[i] < (no_leaf[i] ? leaves : count) &&
                mode[i] >= LEQ && mode[i] <= MEMBER;
    for (int64_t i = 0; i < leaves && fits; i++)
        fits &= target[i] >= 0 && target[i] < targets;
    if (!fits && !node->refused)
        samba_onnx_refuse(node, "its lists of nodes and leaves do not fit each other");
    if (node->refused || !make_forest(node, f, count + leaves + members, trees, targets,
                                      how == MIN   ? INFINITY
                                      : how == MAX ? -INFINITY
                                                   : 0))
        return false;
    for (int64_t i = 0; i < trees; i++)
        f->root[i] = (double)root[i];
    for (int64_t i = 0; i < leaves; i++)
        add_weight(f, count + i, target[i], weight[i], how);
    extra = count + leaves;
    at = 0;
    for (int64_t i = 0; i < count; i++) {
        double side_yes = (double)(yes[i] + (yes_leaf[i] ? count : 0)), side_no = (double)(no[i] + (no_leaf[i] ? count : 0));
        int64_t now = i;
        bool one = mode[i] != MEMBER, more = true;
        while (more) {
            double value = one ? split[i] : at < members ? member[at++] : NAN;
            more = !one && !isnan(value) && at < members && !isnan(member[at]);
            f->mode[now] = one ? mode[i] : EQ;
            f->feature[now] = (double)feature[i];
            f->threshold[now] = value;
            f->missing[now] = missing && missing[i] != 0;
            f->child[2 * now + 1] = side_yes;
            f->child[2 * now] = more ? (double)extra : side_no;
            if (!one && !more && !isnan(value) && at < members)
                at++; /* the NaN behind the last one */
            now = extra;
            extra += more;
        }
    }
    return true;
}

void samba_onnx_tree_ensemble(samba_onnx_node *node);
void samba_onnx_tree_ensemble(samba_onnx_node *node)
{
    forest f;
    samba_value rows = samba_onnx_rows(node), a = samba_onnx_need(node, 0);
    int64_t targets = samba_onnx_int(node, "n_targets", 1), how = samba_onnx_int(node, "aggregate_function", SUM);
    int64_t transform = samba_onnx_int(node, "post_transform", 0);
    if (!node->refused && (how < AVERAGE || how > MAX || transform < 0 || transform > ONNX_TRANSFORM_PROBIT))
        samba_onnx_refuse(node, "aggregate_function is %lld and post_transform %lld", (long long)how, (long long)transform);
    if (node->refused || !read_apart(node, &f, targets, (int)how) || !measure(node, &f, samba_value_size(rows, 1)))
        return;
    samba_value scores = gather_scores(node, &f, rows, samba_value_dtype(rows), (int)how);
    if (!node->refused)
        samba_onnx_out(
            node, 0,
            samba_cast(samba_onnx_transform_scores(node, scores, (samba_onnx_transform)transform), samba_value_dtype(a)));
}
