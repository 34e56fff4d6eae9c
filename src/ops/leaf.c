/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaves: operators without inputs. input, parameter, state and argin get their values from outside and have no kernel; constant,
 * literal and iota are known from their attributes. random stands here because its values, too, come from a rule and not from
 * elements: it is a function of one seed and the element's index. */
#include "ops/families.h"

#include <string.h>

samba_status samba_infer_leaf(samba_infer *infer)
{
    /* parameter and state begin with the fields of leaf */
    const samba_attrs_leaf *attrs = &infer->attrs->leaf;
    return samba_infer_set(infer, attrs->dtype, attrs->shape.count, attrs->shape.at);
}

samba_status samba_infer_argin(samba_infer *infer)
{
    const samba_attrs_argin *attrs = &infer->attrs->argin;
    if (attrs->dtype != SAMBA_FLOAT64 && attrs->dtype != SAMBA_INT64)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected float64 or int64, given %s",
                                samba_dtype_name((samba_dtype)attrs->dtype));
    return samba_infer_set(infer, attrs->dtype, 0, NULL);
}

samba_status samba_infer_constant(samba_infer *infer)
{
    const samba_attrs_constant *attrs = &infer->attrs->constant;
    return samba_infer_set(infer, attrs->dtype, attrs->shape.count, attrs->shape.at);
}

samba_status samba_ref_constant(const samba_reference *reference)
{
    for (int64_t i = 0; i < reference->output->numel; i++)
        samba_array_set_double(reference->output, i, reference->attrs->constant.value);
    return SAMBA_OK;
}

samba_status samba_infer_literal(samba_infer *infer)
{
    const samba_attrs_literal *attrs = &infer->attrs->literal;
    int64_t numel, bytes;
    if (!samba_shape_numel((int)attrs->shape.count, attrs->shape.at, &numel) ||
        !samba_mul_checked(numel, (int64_t)samba_dtype_size((samba_dtype)attrs->dtype), &bytes) ||
        bytes != samba_graph_blob_at(infer->graph, attrs->data)->size)
        return samba_infer_fail(infer, SAMBA_ERROR_FORMAT, "the data has %lld bytes, which is not what the shape takes",
                                (long long)samba_graph_blob_at(infer->graph, attrs->data)->size);
    return samba_infer_set(infer, attrs->dtype, attrs->shape.count, attrs->shape.at);
}

samba_status samba_ref_literal(const samba_reference *reference)
{
    const samba_array *output = reference->output;
    /* of the output's size: inference has looked */
    const samba_blob *blob = samba_graph_blob_at(reference->graph, reference->attrs->literal.data);
    if (blob->size > 0)
        memcpy(output->data, blob->data, (size_t)blob->size);
    return SAMBA_OK;
}

samba_status samba_infer_iota(samba_infer *infer)
{
    const samba_attrs_iota *attrs = &infer->attrs->iota;
    if (attrs->dtype == SAMBA_BOOL)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected an integer or floating-point dtype, given bool");
    if (attrs->dim < 0 || attrs->dim >= attrs->shape.count)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "dim must be 0 to %lld, given %lld",
                                (long long)attrs->shape.count - 1, (long long)attrs->dim);
    return samba_infer_set(infer, attrs->dtype, attrs->shape.count, attrs->shape.at);
}

samba_status samba_ref_iota(const samba_reference *reference)
{
    samba_array *output = reference->output;
    int64_t dim = reference->attrs->iota.dim, inner = 1;
    for (int64_t d = dim + 1; d < output->rank; d++)
        inner *= output->shape[d];
    for (int64_t i = 0; i < output->numel; i++)
        samba_array_set_int64(output, i, i / inner % output->shape[dim]);
    return SAMBA_OK;
}

samba_status samba_infer_random(samba_infer *infer)
{
    const samba_attrs_random *attrs = &infer->attrs->random;
    SAMBA_TRY(samba_infer_need_dtype(infer, 0, SAMBA_INT64));
    SAMBA_TRY(samba_infer_need_rank(infer, 0, 0));
    return samba_infer_set(infer, SAMBA_FLOAT32, attrs->shape.count, attrs->shape.at);
}

samba_status samba_ref_random(const samba_reference *reference)
{
    uint64_t seed = (uint64_t)samba_array_int64(&reference->inputs[0], 0);
    float *output = reference->output->data;
    for (int64_t i = 0; i < reference->output->numel; i++)
        output[i] = samba_philox_uniform(seed, (uint64_t)i);
    return SAMBA_OK;
}
