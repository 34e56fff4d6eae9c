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

/* The determinant of small matrices, by the first row. */
#define LARGEST_DET 4

static samba_value element(samba_value a, int64_t row, int64_t column)
{
    samba_value line = samba_select(a, -2, row);
    return samba_select(line, -1, column);
}

static samba_value minor_sum(samba_value a, int size, int row, const int *columns)
{
    if (size == 1)
        return element(a, row, columns[0]);
    samba_value sum = {NULL, 0, 0};
    for (int i = 0; i < size; i++) {
        int rest[LARGEST_DET];
        for (int k = 0, count = 0; k < size; k++)
            if (k != i)
                rest[count++] = columns[k];
        samba_value factor = element(a, row, columns[i]), minor = minor_sum(a, size - 1, row + 1, rest);
        samba_value term = samba_mul(factor, minor);
        sum = i == 0 ? term : i % 2 ? samba_sub(sum, term) : samba_add(sum, term);
    }
    return sum;
}

void samba_onnx_det(samba_onnx_node *node);
void samba_onnx_det(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    const int columns[LARGEST_DET] = {0, 1, 2, 3};
    if (node->refused)
        return;
    int rank = samba_value_rank(a);
    int64_t size = rank >= 2 ? samba_value_size(a, -1) : 0;
    if (rank < 2 || size != samba_value_size(a, -2) || size < 1 || size > LARGEST_DET)
        samba_onnx_refuse(node, "determinants of 1 x 1 to %d x %d are supported", LARGEST_DET, LARGEST_DET);
    else
        samba_onnx_out(node, 0, minor_sum(a, (int)size, 0, columns));
}
