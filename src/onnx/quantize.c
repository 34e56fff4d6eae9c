/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantized numbers: to them and back, and products of them.
 *
 * Products are exact, of int32 numbers less their zero points. Halves are rounded to even before the zero point is added, and
 * what lies outside the type's range becomes its nearest end. */
#include "onnx/lists.h"
#include "onnx/window.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>
#include <string.h>

#define T(name) SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__##name

/* The least and the greatest number of a quantized type; false: it is none that is read. */
static bool range_of(int32_t type, double *least, double *greatest)
{
    static const struct {
        int32_t type;
        double least, greatest;
    } ranges[] = {{T(UINT8), 0, 255}, {T(INT8), -128, 127}, {T(UINT16), 0, 65535}, {T(INT16), -32768, 32767},
                  {T(UINT4), 0, 15},  {T(INT4), -8, 7},     {T(UINT2), 0, 3},      {T(INT2), -2, 1}};
    for (size_t i = 0; i < SAMBA_COUNT(ranges); i++)
        if (ranges[i].type == type) {
            *least = ranges[i].least;
            *greatest = ranges[i].greatest;
            return true;
        }
    return false;
}

/* Round, add the zero point (zeroed: none), clamp, and cast to what holds the type. `a` is float32 or wider. */
static void out_quantized(samba_onnx_node *node, samba_value a, samba_value zero_point, int32_t type)
{
    double least, greatest;
    if (!range_of(type, &least, &greatest)) {
        samba_onnx_refuse(node, "quantizing to %s is not supported", samba_onnx_type_name(type));
        return;
    }
    samba_value whole = samba_round(a);
    if (zero_point.graph) {
        samba_value shift = samba_cast(zero_point, samba_value_dtype(a));
        whole = samba_add(whole, shift);
    }
    samba_value low = samba_onnx_number(node, least), high = samba_onnx_number(node, greatest),
                within = samba_clamp(whole, low, high);
    samba_onnx_out(node, 0, samba_cast(within, samba_onnx_dtype(type)));
    samba_onnx_out_type(node, 0, type);
}

/* ---- to quantized numbers and back ---- */

/* A scale or zero point as it meets a value: of all of it, of each index of the axis, or of blocks of indices. */
static samba_value spread(samba_onnx_node *node, samba_value value, samba_value like, int64_t axis, int64_t block)
{
    int rank = samba_value_rank(like);
    int64_t shape[SAMBA_MAX_RANK];
    if (!value.graph || samba_value_rank(value) == 0)
        return value;
    if (samba_value_rank(value) == 1 && samba_value_size(value, 0) == 1 && block == 0)
        return samba_reshape(value, 0, NULL);
    if (axis < -rank || axis >= rank)
        return onnx_refused(node, "axis %lld is out of range for a value of rank %d", (long long)axis, rank);
    int dim = (int)(axis < 0 ? axis + rank : axis);
    if (block > 0) {
        int64_t size = samba_value_size(like, dim);
        block = block < size ? block : size;
        if (samba_value_rank(value) != rank || samba_value_size(value, dim) * block < size)
            return onnx_refused(node, "blocks of %lld do not reach over %lld elements", (long long)block, (long long)size);
        samba_value each = samba_repeat_interleave(value, block, dim);
        return samba_narrow(each, dim, 0, size);
    }
    if (samba_value_rank(value) != 1)
        return onnx_refused(node, "a scale of rank %d needs block_size", samba_value_rank(value));
    for (int i = 0; i < rank; i++)
        shape[i] = i == dim ? samba_value_size(value, 0) : 1;
    return samba_reshape(value, rank, shape);
}

static samba_dtype float_dtype(samba_onnx_node *node, const char *name, int64_t type, samba_dtype fallback)
{
    if (type == 0)
        return fallback;
    samba_dtype dtype = samba_onnx_dtype((int32_t)type);
    if (dtype == SAMBA_DTYPE_COUNT || !samba_dtype_is_floating_point(dtype))
        samba_onnx_refuse(node, "%s is %s, which is not supported", name, samba_onnx_type_name((int32_t)type));
    return dtype;
}

void samba_onnx_quantize_linear(samba_onnx_node *node);
void samba_onnx_quantize_linear(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), scale = samba_onnx_need(node, 1), zero_point = samba_onnx_in(node, 2);
    int64_t axis = samba_onnx_int(node, "axis", 1), block = samba_onnx_int(node, "block_size", 0),
            type = samba_onnx_int(node, "output_dtype", 0);
    int64_t precision = samba_onnx_int(node, "precision", 0);
    samba_onnx_flag(node, "saturate", true); /* of 8-bit floats, which are refused */
    if (node->refused)
        return;
    if (zero_point.graph)
        type = samba_onnx_type_of(node, 2, zero_point);
    samba_dtype dtype = float_dtype(node, "precision", precision, samba_value_dtype(scale));
    scale = spread(node, scale, a, axis, block);
    zero_point = spread(node, zero_point, a, axis, block);
    if (node->refused)
        return;
    samba_value value = samba_cast(a, dtype), divisor = samba_cast(scale, dtype), quotient = samba_div(value, divisor);
    out_quantized(node, dtype == SAMBA_FLOAT64 ? quotient : samba_cast(quotient, SAMBA_FLOAT32), zero_point,
                  type ? (int32_t)type : T(UINT8));
}

void samba_onnx_dequantize_linear(samba_onnx_node *node);
void samba_onnx_dequantize_linear(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), scale = samba_onnx_need(node, 1), zero_point = samba_onnx_in(node, 2);
    int64_t axis = samba_onnx_int(node, "axis", 1), block = samba_onnx_int(node, "block_size", 0),
            type = samba_onnx_int(node, "output_dtype", 0);
    if (node->refused)
        return;
    samba_dtype dtype = float_dtype(node, "output_dtype", type, samba_value_dtype(scale));
    samba_dtype wide = dtype == SAMBA_FLOAT64 ? dtype : SAMBA_FLOAT32;
    scale = spread(node, scale, a, axis, block);
    zero_point = spread(node, zero_point, a, axis, block);
    if (node->refused)
        return;
    samba_value number = samba_cast(a, SAMBA_INT32);
    if (zero_point.graph) {
        samba_value shift = samba_cast(zero_point, SAMBA_INT32);
        number = samba_sub(number, shift);
    }
    samba_value real = samba_cast(number, wide), factor = samba_cast(scale, wide), product = samba_mul(real, factor);
    samba_onnx_out(node, 0, samba_cast(product, dtype));
}

/* To uint8, by a scale for which 0 to 255 reaches from the least to the greatest element, and over 0. */
void samba_onnx_dynamic_quantize_linear(samba_onnx_node *node);
void samba_onnx_dynamic_quantize_linear(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    samba_value high, low = samba_aminmax(a, 0, NULL, false, &high), none = samba_onnx_like(node, 0, a),
                      steps = samba_onnx_like(node, 255, a);
    samba_value least = samba_minimum(low, none), greatest = samba_maximum(high, none), whole = samba_sub(greatest, least);
    samba_value flat = samba_eq(whole, none), one = samba_onnx_like(node, 1, a), length = samba_where(flat, one, whole);
    samba_value scale = samba_div(length, steps), below = samba_div(least, scale), start = samba_sub(none, below);
    samba_value zero_point = samba_round(samba_clamp(start, none, steps)), quotient = samba_div(a, scale);
    out_quantized(node, quotient, zero_point, T(UINT8));
    samba_onnx_out(node, 1, scale);
    samba_onnx_out(node, 2, samba_cast(zero_point, SAMBA_UINT8));
}

/* ---- products ---- */

/* Input `index` as int32, less its zero point, input `zero`. A zero point of rank 1 is one for each row of a matrix (dim -2), for
 * each column (-1), or for each channel of a weight (0). */
static samba_value number_less(samba_onnx_node *node, int index, int zero, int dim)
{
    samba_value a = samba_onnx_need(node, index), zero_point = samba_onnx_in(node, zero);
    if (node->refused)
        return a;
    samba_value number = samba_cast(a, SAMBA_INT32);
    if (!zero_point.graph)
        return number;
    samba_value shift = samba_cast(zero_point, SAMBA_INT32);
    if (samba_value_rank(shift) == 1 && samba_value_size(shift, 0) == 1)
        shift = samba_reshape(shift, 0, NULL);
    int rank = samba_value_rank(a);
    if (samba_value_rank(shift) == 1 && dim != -1 && rank > 1)
        shift = spread(node, shift, a, dim, 0);
    return node->refused ? a : samba_sub(number, shift);
}

void samba_onnx_matmul_integer(samba_onnx_node *node);
void samba_onnx_matmul_integer(samba_onnx_node *node)
{
    samba_value a = number_less(node, 0, 2, -2), b = number_less(node, 1, 3, -1);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_matmul(a, b));
}

void samba_onnx_conv_integer(samba_onnx_node *node);
void samba_onnx_conv_integer(samba_onnx_node *node)
{
    samba_value a = number_less(node, 0, 2, 1), weight = number_less(node, 1, 3, 0), none = {NULL, 0, 0};
    if (!node->refused)
        samba_onnx_out(node, 0, samba_onnx_convolve(node, a, weight, none, 0));
}

/* A scale as float32; one number where it has one element. */
static samba_value scale_in(samba_onnx_node *node, int index)
{
    samba_value scale = samba_onnx_need(node, index);
    if (node->refused)
        return scale;
    scale = samba_cast(scale, SAMBA_FLOAT32);
    return samba_value_rank(scale) == 1 && samba_value_size(scale, 0) == 1 ? samba_reshape(scale, 0, NULL) : scale;
}

/* int32 sums times a's and b's scale by y's, to y's type, which its zero point, input `zero`, says. */
static void out_requantized(samba_onnx_node *node, samba_value sums, samba_value a_scale, samba_value b_scale,
                            samba_value y_scale, int zero)
{
    samba_value zero_point = samba_onnx_need(node, zero);
    if (node->refused)
        return;
    if (samba_value_rank(zero_point) == 1 && samba_value_size(zero_point, 0) == 1)
        zero_point = samba_reshape(zero_point, 0, NULL);
    if (samba_value_rank(y_scale) != 0 || samba_value_rank(zero_point) != 0) {
        samba_onnx_refuse(node, "one scale and one zero point are expected of the result");
        return;
    }
    samba_value scales = samba_mul(a_scale, b_scale), factor = samba_div(scales, y_scale), real = samba_cast(sums, SAMBA_FLOAT32);
    out_quantized(node, samba_mul(real, factor), zero_point, samba_onnx_type_of(node, zero, zero_point));
}

void samba_onnx_qlinear_matmul(samba_onnx_node *node);
void samba_onnx_qlinear_matmul(samba_onnx_node *node)
{
    samba_value a = number_less(node, 0, 2, -2), b = number_less(node, 3, 5, -1);
    samba_value a_scale = scale_in(node, 1), b_scale = scale_in(node, 4), y_scale = scale_in(node, 6);
    if (node->refused)
        return;
    if (samba_value_rank(a_scale) == 1)
        a_scale = samba_unsqueeze(a_scale, 1);
    out_requantized(node, samba_matmul(a, b), a_scale, b_scale, y_scale, 7);
}

void samba_onnx_qlinear_conv(samba_onnx_node *node);
void samba_onnx_qlinear_conv(samba_onnx_node *node)
{
    samba_value a = number_less(node, 0, 2, 1), weight = number_less(node, 3, 5, 0), bias = samba_onnx_in(node, 8);
    samba_value a_scale = scale_in(node, 1), w_scale = scale_in(node, 4), y_scale = scale_in(node, 6);
    if (node->refused)
        return;
    samba_value sums = samba_onnx_convolve(node, a, weight, bias, 0);
    if (node->refused)
        return;
    w_scale = spread(node, w_scale, sums, 1, 0);
    out_requantized(node, sums, a_scale, w_scale, y_scale, 7);
}
