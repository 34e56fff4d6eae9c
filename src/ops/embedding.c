/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding(weight (V,D), index) -> index.shape + (D): row index[i] of the weight at place i. Its gradient adds each row of dy
 * to the row it came from: embedding_grad(index, dy) -> (V,D), V in attrs.num_embeddings; rows that no index names are 0.
 * index_add(base (V,D), index, dy) adds them to a copy of base instead: torch.index_add along dim 0, the rows of dy in order.
 * An index outside 0 .. V-1 is an error of the values, which only running can find. */
#include "ops/families.h"
#include <string.h>

static samba_status need_index(const samba_infer *infer, int i)
{
    samba_dtype dtype = (samba_dtype)infer->inputs[i]->dtype;
    if (dtype != SAMBA_INT64 && dtype != SAMBA_INT32)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected indices of dtype int64 or int32, given %s",
                                samba_dtype_name(dtype));
    return SAMBA_OK;
}

samba_status samba_infer_embedding(samba_infer *infer)
{
    const samba_node *weight = infer->inputs[0], *index = infer->inputs[1];
    SAMBA_TRY(need_index(infer, 1));
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    SAMBA_TRY(samba_infer_need_rank(infer, 0, 2));
    int64_t shape[SAMBA_MAX_RANK + 1];
    memcpy(shape, index->shape, sizeof index->shape);
    shape[index->rank] = weight->shape[1];
    return samba_infer_set(infer, weight->dtype, index->rank + 1, shape);
}

samba_status samba_infer_embedding_grad(samba_infer *infer)
{
    const samba_node *index = infer->inputs[0], *dy = infer->inputs[1];
    SAMBA_TRY(need_index(infer, 0));
    SAMBA_TRY(samba_infer_need_floating(infer, 1));
    if (dy->rank != index->rank + 1 || !samba_shape_equal(index->rank, index->shape, dy->rank - 1, dy->shape)) {
        char index_text[SAMBA_SHAPE_TEXT], dy_text[SAMBA_SHAPE_TEXT];
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected a gradient of the index's shape %s and one more dim, given shape %s",
                                samba_shape_format(index->rank, index->shape, index_text, sizeof index_text),
                                samba_shape_format(dy->rank, dy->shape, dy_text, sizeof dy_text));
    }
    int64_t shape[2] = {infer->attrs->embedding.num_embeddings, dy->shape[dy->rank - 1]};
    return samba_infer_set(infer, dy->dtype, 2, shape);
}

samba_status samba_infer_index_add(samba_infer *infer)
{
    const samba_node *base = infer->inputs[0], *index = infer->inputs[1], *dy = infer->inputs[2];
    SAMBA_TRY(need_index(infer, 1));
    SAMBA_TRY(samba_infer_need_floating(infer, 0));
    SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, 2));
    SAMBA_TRY(samba_infer_need_rank(infer, 0, 2));
    if (dy->rank != index->rank + 1 || !samba_shape_equal(index->rank, index->shape, dy->rank - 1, dy->shape) ||
        dy->shape[dy->rank - 1] != base->shape[1]) {
        char base_text[SAMBA_SHAPE_TEXT], index_text[SAMBA_SHAPE_TEXT], dy_text[SAMBA_SHAPE_TEXT];
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "expected rows of the index's shape %s and the base's width (base %s), given shape %s",
                                samba_shape_format(index->rank, index->shape, index_text, sizeof index_text),
                                samba_shape_format(base->rank, base->shape, base_text, sizeof base_text),
                                samba_shape_format(dy->rank, dy->shape, dy_text, sizeof dy_text));
    }
    return samba_infer_set_like(infer, 0);
}

samba_status samba_vjp_index_add(samba_vjp *vjp)
{
    samba_ref gradient = vjp->gradient, index = vjp->inputs[1];
    if (vjp->needed[2])
        vjp->input_gradients[2] = samba_emit2(vjp->graph, SAMBA_OP_embedding, gradient, index);
    if (vjp->needed[0])
        vjp->input_gradients[0] = gradient;
    return SAMBA_OK;
}

int64_t samba_flops_index_add(const samba_node *node, const samba_node *const *inputs)
{
    (void)node;
    return samba_flops_map(inputs[2], NULL);
}

samba_status samba_vjp_embedding(samba_vjp *vjp)
{
    if (!vjp->needed[0])
        return SAMBA_OK;
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.embedding.num_embeddings = samba_node_at(vjp->graph, vjp->inputs[0])->shape[0];
    vjp->input_gradients[0] =
        samba_emit(vjp->graph, SAMBA_OP_embedding_grad, 2, (samba_ref[]){vjp->inputs[1], vjp->gradient}, &attrs);
    return SAMBA_OK;
}

static samba_status load_index(const samba_reference *reference, const char *op, const samba_array *index, int64_t i,
                               int64_t rows, int64_t *row)
{
    *row = samba_array_int64(index, i);
    if (*row < 0 || *row >= rows)
        return samba_fail(reference->context, SAMBA_ERROR_ARGUMENT,
                          "%s: index %lld at place %lld is out of range: expected 0 to %lld, for %lld embeddings", op,
                          (long long)*row, (long long)i, (long long)rows - 1, (long long)rows);
    return SAMBA_OK;
}

samba_status samba_ref_embedding(const samba_reference *reference)
{
    const samba_array *weight = &reference->inputs[0], *index = &reference->inputs[1], *y = reference->output;
    int64_t width = weight->shape[1], row;
    for (int64_t i = 0; i < index->numel; i++) {
        SAMBA_TRY(load_index(reference, "embedding", index, i, weight->shape[0], &row));
        for (int64_t d = 0; d < width; d++)
            samba_array_set_double(y, i * width + d, samba_array_double(weight, row * width + d));
    }
    return SAMBA_OK;
}

static samba_status add_rows(const samba_reference *reference, const char *op, const samba_array *base, const samba_array *index,
                             const samba_array *dy)
{
    const samba_array *output = reference->output;
    int64_t rows = output->shape[0], width = output->shape[1], row;
    size_t bytes = (size_t)output->numel * sizeof(double); /* sums in double: an index may come often */
    double *sums = samba_calloc(reference->context, bytes);
    samba_status status = sums ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < output->numel && base && status == SAMBA_OK; i++)
        sums[i] = samba_array_double(base, i);
    for (int64_t i = 0; i < index->numel && status == SAMBA_OK; i++) {
        status = load_index(reference, op, index, i, rows, &row);
        for (int64_t d = 0; d < width && status == SAMBA_OK; d++)
            sums[row * width + d] += samba_array_double(dy, i * width + d);
    }
    for (int64_t i = 0; i < output->numel && status == SAMBA_OK; i++)
        samba_array_set_double(output, i, sums[i]);
    if (sums)
        samba_free(reference->context, sums, bytes);
    return status;
}

samba_status samba_ref_embedding_grad(const samba_reference *reference)
{
    return add_rows(reference, "embedding_grad", NULL, &reference->inputs[0], &reference->inputs[1]);
}

samba_status samba_ref_index_add(const samba_reference *reference)
{
    return add_rows(reference, "index_add", &reference->inputs[0], &reference->inputs[1], &reference->inputs[2]);
}
