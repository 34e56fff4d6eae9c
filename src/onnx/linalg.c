/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices. */
#include "onnx/onnx.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/shape.h>

void samba_onnx_matmul(samba_onnx_node *node);
void samba_onnx_matmul(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), b = samba_onnx_need(node, 1);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_matmul(a, b));
}

/* alpha A B + beta C, A and B transposed where asked. */
void samba_onnx_gemm(samba_onnx_node *node);
void samba_onnx_gemm(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), b = samba_onnx_need(node, 1), c = samba_onnx_in(node, 2);
    double alpha = samba_onnx_float(node, "alpha", 1), beta = samba_onnx_float(node, "beta", 1);
    if (node->version < 7)
        samba_onnx_flag(node, "broadcast", false); /* of c, which broadcasts ever since */
    bool turn_a = samba_onnx_flag(node, "transA", false), turn_b = samba_onnx_flag(node, "transB", false);
    if (node->refused)
        return;
    if (turn_a)
        a = samba_transpose(a, 0, 1);
    if (turn_b)
        b = samba_transpose(b, 0, 1);
    if (c.graph) {
        samba_onnx_out(node, 0, samba_addmm(c, a, b, beta, alpha));
        return;
    }
    samba_value product = samba_mm(a, b);
    if (alpha != 1) {
        samba_value factor = samba_onnx_number(node, alpha), scaled = samba_mul(product, factor);
        product = samba_cast(scaled, samba_value_dtype(a));
    }
    samba_onnx_out(node, 0, product);
}

void samba_onnx_einsum(samba_onnx_node *node);
void samba_onnx_einsum(samba_onnx_node *node)
{
    const char *equation = samba_onnx_text(node, "equation", "");
    samba_value *operands;
    if (SAMBA_ROOM(&node->reader->arena, operands, node->input_count + 1) != SAMBA_OK)
        return;
    for (int i = 0; i < node->input_count; i++)
        operands[i] = samba_onnx_need(node, i);
    if (!node->refused)
        samba_onnx_out(node, 0, samba_einsum(equation, node->input_count, operands));
}

void samba_onnx_det(samba_onnx_node *node);
void samba_onnx_det(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    if (node->refused)
        return;
    const samba_dtype dtype = samba_value_dtype(a);
    const bool wide = dtype == SAMBA_FLOAT64 || dtype == SAMBA_FLOAT32;
    samba_value determinant = samba_det(wide ? a : samba_cast(a, SAMBA_FLOAT32));
    samba_onnx_out(node, 0, wide ? determinant : samba_cast(determinant, dtype));
}
