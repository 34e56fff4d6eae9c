/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul: A[..., M, K] x B[..., K, N] -> [..., M, N]. Both have rank >= 2; leading dims are batch dims and broadcast.
 * The vector cases of torch.matmul are reshapes around it and stand in trace. Products of 16-bit floats are summed in float32,
 * and that is the result: who wants 16 bits again casts.
 *
 * Gradient: dA = dC B^T, dB = A^T dC, each summed over the batch dims its operand was broadcast along. For a weight, B of
 * rank 2, the batch dims of A join the rows instead: one tall product, no sum over batches. */
#include "ops/families.h"
#include <math.h>

samba_status samba_infer_matmul(samba_infer *infer)
{
    const samba_node *a = infer->inputs[0], *b = infer->inputs[1];
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 1));
    if (a->dtype == SAMBA_BOOL)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected floats or integers, given bool; cast both first");
    char a_text[SAMBA_SHAPE_TEXT], b_text[SAMBA_SHAPE_TEXT];
    samba_shape_format(a->rank, a->shape, a_text, sizeof a_text);
    samba_shape_format(b->rank, b->shape, b_text, sizeof b_text);
    if (a->rank < 2 || b->rank < 2)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected (..., M, K) and (..., K, N) of rank 2 or more, given %s and %s", a_text, b_text);
    if (a->shape[a->rank - 1] != b->shape[b->rank - 2])
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected (..., M, K) and (..., K, N), given %s and %s: the columns of the first, %lld, are not "
                                "the rows of the second, %lld; transpose or reshape one",
                                a_text, b_text, (long long)a->shape[a->rank - 1], (long long)b->shape[b->rank - 2]);
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    if (!samba_shape_broadcast(a->rank - 2, a->shape, b->rank - 2, b->shape, &rank, shape))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "the batch dims, all but the last two, must be equal or 1 in one operand; given %s and %s",
                                a_text, b_text);
    shape[rank++] = a->shape[a->rank - 2];
    shape[rank++] = b->shape[b->rank - 1];
    return samba_infer_set(infer, samba_compute_dtype(a->dtype), rank, shape);
}

static samba_ref transposed(samba_graph *graph, samba_ref matrix, int rank)
{
    return samba_emit_transpose(graph, matrix, rank - 2, rank - 1);
}

/* The gradient of a rank-2 B: the rows of all batches under each other make one product. */
static samba_ref weight_gradient(samba_vjp *vjp, samba_ref gradient, const samba_node *a, const samba_node *b)
{
    samba_graph *graph = vjp->graph;
    int64_t rows = 1;
    for (int i = 0; i < a->rank - 1; i++)
        rows *= a->shape[i];
    samba_ref tall_a = vjp->inputs[0], tall_gradient = gradient;
    if (a->rank > 2) {
        tall_a = samba_emit_reshape(graph, tall_a, 2, (int64_t[]){rows, b->shape[0]});
        tall_gradient = samba_emit_reshape(graph, tall_gradient, 2, (int64_t[]){rows, b->shape[1]});
    }
    return samba_emit2(graph, SAMBA_OP_matmul, transposed(graph, tall_a, 2), tall_gradient);
}

samba_status samba_vjp_matmul(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    samba_node a = *samba_node_at(graph, vjp->inputs[0]), b = *samba_node_at(graph, vjp->inputs[1]);
    samba_ref g = samba_emit_cast(graph, vjp->gradient, a.dtype);
    if (vjp->needed[0])
        samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_matmul, g, transposed(graph, vjp->inputs[1], b.rank)));
    if (vjp->needed[1] && b.rank == 2)
        samba_vjp_deliver(vjp, 1, weight_gradient(vjp, g, &a, &b));
    else if (vjp->needed[1])
        samba_vjp_deliver(vjp, 1, samba_emit2(graph, SAMBA_OP_matmul, transposed(graph, vjp->inputs[0], a.rank), g));
    return SAMBA_OK;
}

samba_status samba_ref_matmul(const samba_reference *reference)
{
    const samba_array *a = &reference->inputs[0], *b = &reference->inputs[1], *c = reference->output;
    samba_array a_batches = *a, b_batches = *b, c_batches = *c; /* their batch dims alone */
    a_batches.rank -= 2;
    b_batches.rank -= 2;
    c_batches.rank -= 2;
    bool floating = samba_dtype_is_floating_point(c->dtype);
    int64_t rows = c->shape[c->rank - 2], columns = c->shape[c->rank - 1], depth = a->shape[a->rank - 1];
    for (int64_t i = 0; i < c->numel; i++) {
        int64_t batch = i / (rows * columns), row = i / columns % rows, column = i % columns;
        int64_t a_row = (samba_broadcast_offset(&a_batches, &c_batches, batch) * rows + row) * depth;
        int64_t b_column = samba_broadcast_offset(&b_batches, &c_batches, batch) * depth * columns + column;
        double sum = 0;
        uint64_t integer_sum = 0; /* unsigned, so that integers wrap */
        for (int64_t k = 0; k < depth; k++) {
            if (floating)
                sum += samba_array_double(a, a_row + k) * samba_array_double(b, b_column + k * columns);
            else
                integer_sum += (uint64_t)samba_array_int64(a, a_row + k) * (uint64_t)samba_array_int64(b, b_column + k * columns);
        }
        if (floating)
            samba_array_set_double(c, i, sum);
        else
            samba_array_set_int64(c, i, (int64_t)integer_sum);
    }
    return SAMBA_OK;
}

int64_t samba_flops_matmul(const samba_node *node, const samba_node *const *inputs)
{
    double products = (double)inputs[0]->shape[inputs[0]->rank - 1]; /* double: shapes may be checked that no memory could hold */
    for (int i = 0; i < node->rank; i++)
        products *= (double)node->shape[i];
    return (int64_t)fmin(2 * products, 9e18);
}
