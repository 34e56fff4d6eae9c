/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers.
 *
 * They are SambaFlow's own, counter-based: a run draws new ones from the hyperparameter "random_<n>.seed", n counting the model's
 * draws in the order of its nodes, and the same seed gives the same numbers with any number of threads. A node's own seed has no
 * effect: ONNX leaves open which numbers a seed gives, so that no two runtimes give the same for one. */
#include "onnx/lists.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/layers.h>
#include <sambaflow/norm.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <sambaflow/sort.h>
#include <stdio.h>

#define T(name) SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__##name

static const char *draw_name(samba_onnx_node *node, char name[64])
{
    snprintf(name, 64, "random_%lld", (long long)node->reader->draws++);
    return name;
}

/* Numbers of a shape, times `factor` and plus `shift`, as that type. */
static void draw(samba_onnx_node *node, bool normal, int32_t type, int rank, const int64_t *shape)
{
    char name[64];
    double low = normal ? 0 : samba_onnx_float(node, "low", 0), high = normal ? 0 : samba_onnx_float(node, "high", 1);
    double shift = normal ? samba_onnx_float(node, "mean", 0) : low,
           factor = normal ? samba_onnx_float(node, "scale", 1) : high - low;
    samba_dtype dtype = samba_onnx_dtype(type);
    samba_onnx_float(node, "seed", 0);
    if (dtype == SAMBA_DTYPE_COUNT || !samba_dtype_is_floating_point(dtype))
        samba_onnx_refuse(node, "random numbers of type %s are not supported", samba_onnx_type_name(type));
    if (node->refused)
        return;
    draw_name(node, name);
    samba_value numbers = normal ? samba_randn(node->graph, name, rank, shape) : samba_rand(node->graph, name, rank, shape);
    samba_value scaled = factor == 1 ? numbers : samba_mul_scalar(numbers, factor);
    samba_value moved = shift == 0 ? scaled : samba_add_scalar(scaled, shift);
    samba_onnx_out(node, 0, samba_cast(moved, dtype));
}

static void draw_shaped(samba_onnx_node *node, bool normal)
{
    int64_t shape[SAMBA_MAX_RANK];
    int rank = samba_onnx_ints(node, "shape", SAMBA_MAX_RANK, shape);
    int32_t type = (int32_t)samba_onnx_int(node, "dtype", T(FLOAT));
    if (!node->refused && rank < 0)
        samba_onnx_refuse(node, "it has no shape");
    draw(node, normal, type, rank, shape);
}

static void draw_like(samba_onnx_node *node, bool normal)
{
    int64_t shape[SAMBA_MAX_RANK];
    samba_value like = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    int32_t type = (int32_t)samba_onnx_int(node, "dtype", samba_onnx_type_of(node, 0, like));
    samba_onnx_shape(like, shape);
    draw(node, normal, type, samba_value_rank(like), shape);
}

void samba_onnx_random_normal(samba_onnx_node *node);
void samba_onnx_random_normal(samba_onnx_node *node) { draw_shaped(node, true); }
void samba_onnx_random_uniform(samba_onnx_node *node);
void samba_onnx_random_uniform(samba_onnx_node *node) { draw_shaped(node, false); }
void samba_onnx_random_normal_like(samba_onnx_node *node);
void samba_onnx_random_normal_like(samba_onnx_node *node) { draw_like(node, true); }
void samba_onnx_random_uniform_like(samba_onnx_node *node);
void samba_onnx_random_uniform_like(samba_onnx_node *node) { draw_like(node, false); }

static samba_dtype out_dtype(samba_onnx_node *node, int64_t type)
{
    samba_dtype dtype = samba_onnx_dtype((int32_t)type);
    if (dtype == SAMBA_DTYPE_COUNT)
        samba_onnx_refuse(node, "%s is no dtype that SambaFlow has", samba_onnx_type_name((int32_t)type));
    return dtype;
}

void samba_onnx_bernoulli(samba_onnx_node *node);
void samba_onnx_bernoulli(samba_onnx_node *node)
{
    char name[64];
    samba_value p = samba_onnx_need(node, 0);
    int64_t type = samba_onnx_int(node, "dtype", samba_onnx_type_of(node, 0, p));
    samba_onnx_float(node, "seed", 0);
    if (node->refused)
        return;
    samba_dtype dtype = out_dtype(node, type);
    if (node->refused)
        return;
    samba_value drawn = samba_bernoulli(p, draw_name(node, name));
    samba_onnx_out(node, 0, samba_cast(drawn, dtype));
    samba_onnx_out_type(node, 0, (int32_t)type);
}

/* Classes by their unnormalized log-probabilities (N, classes): where a uniform number falls among the running sums. */
void samba_onnx_multinomial(samba_onnx_node *node);
void samba_onnx_multinomial(samba_onnx_node *node)
{
    char name[64];
    samba_value logits = samba_onnx_need(node, 0);
    int64_t samples = samba_onnx_int(node, "sample_size", 1), type = samba_onnx_int(node, "dtype", T(INT32));
    samba_onnx_float(node, "seed", 0);
    if (node->refused)
        return;
    samba_dtype dtype = out_dtype(node, type);
    if (!node->refused && (samba_value_rank(logits) != 2 || samba_value_size(logits, 1) < 1 || samples < 0))
        samba_onnx_refuse(node, "log-probabilities (N, classes) are expected");
    if (node->refused)
        return;
    const int64_t shape[2] = {samba_value_size(logits, 0), samples}, classes = samba_value_size(logits, 1);
    samba_value drawn = samba_rand(node->graph, draw_name(node, name), 2, shape);
    samba_value sums = samba_cumsum(samba_softmax(samba_cast(logits, SAMBA_FLOAT32), 1), 1);
    samba_value place = samba_searchsorted(sums, drawn, true), first = samba_integer(node->graph, 0);
    samba_value last = samba_integer(node->graph, classes - 1); /* the sums may end below 1 */
    samba_onnx_out(node, 0, samba_cast(samba_clamp(place, first, last), dtype));
}
