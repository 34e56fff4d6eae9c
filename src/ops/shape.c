/* SPDX-License-Identifier: Apache-2.0
 *
 * The same elements under another shape or in another order. Attributes are explicit: no -1, no negative dims; the layer above
 * has resolved them. Each gradient is the operator that goes the other way. The compiler makes views of these copies. */
#include "ops/families.h"
#include <string.h>

/* ---- inference ---- */

samba_status samba_infer_reshape(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    const samba_dims *to = &infer->attrs->shape.shape;
    SAMBA_TRY(samba_infer_set(infer, input->dtype, to->count, to->at));
    int64_t have, want;
    if (!samba_shape_numel(input->rank, input->shape, &have) || !samba_shape_numel(infer->rank, infer->shape, &want) ||
        have != want)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "%s has other elements in number than %s", SAMBA_SHAPE_OF(infer),
                                SAMBA_SHAPE_OF(input));
    return SAMBA_OK;
}

samba_status samba_infer_permute(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    const samba_dims *dims = &infer->attrs->permute.dims;
    int64_t shape[SAMBA_MAX_RANK] = {0};
    bool used[SAMBA_MAX_RANK] = {false};
    SAMBA_TRY(samba_infer_need_count(infer, "dims", dims, input->rank));
    for (int d = 0; d < input->rank; d++) {
        int64_t from = dims->at[d];
        if (from < 0 || from >= input->rank || used[from])
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "dims must be each of 0 to %d once, given %lld in place %d",
                                    input->rank - 1, (long long)from, d);
        used[from] = true;
        shape[d] = input->shape[from];
    }
    return samba_infer_set(infer, input->dtype, input->rank, shape);
}

samba_status samba_infer_expand(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    const samba_dims *to = &infer->attrs->shape.shape;
    SAMBA_TRY(samba_infer_set(infer, input->dtype, to->count, to->at));
    bool fits = infer->rank >= input->rank;
    for (int d = 1; fits && d <= input->rank; d++)
        fits = input->shape[input->rank - d] == 1 || input->shape[input->rank - d] == infer->shape[infer->rank - d];
    if (!fits)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                "%s does not expand to %s: counted from the last, a size must be 1 or stay",
                                SAMBA_SHAPE_OF(input), SAMBA_SHAPE_OF(infer));
    return SAMBA_OK;
}

samba_status samba_infer_slice(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    const samba_attrs_slice *attrs = &infer->attrs->slice;
    int64_t shape[SAMBA_MAX_RANK];
    SAMBA_TRY(samba_infer_need_count(infer, "start", &attrs->start, input->rank));
    SAMBA_TRY(samba_infer_need_count(infer, "stop", &attrs->stop, input->rank));
    SAMBA_TRY(samba_infer_need_count(infer, "step", &attrs->step, input->rank));
    for (int d = 0; d < input->rank; d++) {
        int64_t start = attrs->start.at[d], stop = attrs->stop.at[d], step = attrs->step.at[d];
        if (start < 0 || start > stop || stop > input->shape[d] || step < 1)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                    "dim %d: expected 0 <= start <= stop <= %lld and step >= 1, given %lld, %lld and %lld", d,
                                    (long long)input->shape[d], (long long)start, (long long)stop, (long long)step);
        shape[d] = (stop - start) / step + ((stop - start) % step != 0);
    }
    return samba_infer_set(infer, input->dtype, input->rank, shape);
}

samba_status samba_infer_pad(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    const samba_attrs_pad *attrs = &infer->attrs->pad;
    int64_t shape[SAMBA_MAX_RANK];
    SAMBA_TRY(samba_infer_need_count(infer, "before", &attrs->before, input->rank));
    SAMBA_TRY(samba_infer_need_count(infer, "after", &attrs->after, input->rank));
    SAMBA_TRY(samba_infer_need_count(infer, "interior", &attrs->interior, input->rank));
    for (int d = 0; d < input->rank; d++) {
        int64_t before = attrs->before.at[d], after = attrs->after.at[d], interior = attrs->interior.at[d];
        int64_t size = input->shape[d], gaps;
        if (before < 0 || after < 0 || interior < 0)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                    "dim %d: before, after and interior must be 0 or more, given %lld, %lld and %lld", d,
                                    (long long)before, (long long)after, (long long)interior);
        if (!samba_mul_checked(size > 0 ? size - 1 : 0, interior, &gaps) || !samba_add_checked(size, gaps, &shape[d]) ||
            !samba_add_checked(shape[d], before, &shape[d]) || !samba_add_checked(shape[d], after, &shape[d]))
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "dim %d would be larger than 2^63 elements; pad it less", d);
    }
    return samba_infer_set(infer, input->dtype, input->rank, shape);
}

samba_status samba_infer_concat(samba_infer *infer)
{
    const samba_node *first = infer->inputs[0];
    int64_t dim = infer->attrs->axis.dim, shape[SAMBA_MAX_RANK];
    if (dim < 0 || dim >= first->rank)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "inputs of rank %d have no dim %lld to join along", first->rank,
                                (long long)dim);
    memcpy(shape, first->shape, sizeof shape);
    for (int i = 1; i < infer->arity; i++) {
        const samba_node *input = infer->inputs[i];
        SAMBA_TRY(samba_infer_need_same_dtype(infer, 0, i));
        bool fits = input->rank == first->rank;
        for (int d = 0; fits && d < first->rank; d++)
            fits = d == dim || input->shape[d] == first->shape[d];
        if (!fits)
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                    "all sizes but that of dim %lld must be equal, given %s and, input %d, %s", (long long)dim,
                                    SAMBA_SHAPE_OF(first), i, SAMBA_SHAPE_OF(input));
        if (!samba_add_checked(shape[dim], input->shape[dim], &shape[dim]))
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "dim %lld would be larger than 2^63 elements", (long long)dim);
    }
    return samba_infer_set(infer, first->dtype, first->rank, shape);
}

samba_status samba_infer_flip(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    const samba_dims *dims = &infer->attrs->reduce.dims;
    bool used[SAMBA_MAX_RANK] = {false};
    for (int64_t i = 0; i < dims->count; i++) {
        int64_t dim = dims->at[i];
        if (dim < 0 || dim >= input->rank || used[dim])
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                    "dims must be of 0 to %d, each at most once, given %lld in place %lld", input->rank - 1,
                                    (long long)dim, (long long)i);
        used[dim] = true;
    }
    return samba_infer_set_like(infer, 0);
}

/* ---- gradients ---- */

samba_status samba_vjp_reshape(samba_vjp *vjp)
{
    const samba_node *input = samba_node_at(vjp->graph, vjp->inputs[0]);
    int rank = input->rank;
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, input->shape, sizeof shape);
    vjp->input_gradients[0] = samba_emit_reshape(vjp->graph, vjp->gradient, rank, shape);
    return SAMBA_OK;
}

samba_status samba_vjp_permute(samba_vjp *vjp)
{
    const samba_dims *dims = &vjp->node->attrs->permute.dims;
    int64_t inverse[SAMBA_MAX_RANK];
    for (int64_t d = 0; d < dims->count; d++)
        inverse[dims->at[d]] = d;
    vjp->input_gradients[0] = samba_emit_permute(vjp->graph, vjp->gradient, inverse);
    return SAMBA_OK;
}

samba_status samba_vjp_expand(samba_vjp *vjp) { return samba_vjp_deliver(vjp, 0, vjp->gradient); }

/* Every element goes back to where it was, with zeros around and between. */
samba_status samba_vjp_slice(samba_vjp *vjp)
{
    const samba_attrs_slice *attrs = &vjp->node->attrs->slice;
    const samba_node *input = samba_node_at(vjp->graph, vjp->inputs[0]);
    samba_attrs pad = {.pad = {.before.count = input->rank, .after.count = input->rank, .interior.count = input->rank}};
    for (int d = 0; d < input->rank; d++) {
        int64_t taken = vjp->node->shape[d], start = attrs->start.at[d], step = attrs->step.at[d];
        int64_t end = taken > 0 ? start + (taken - 1) * step + 1 : start; /* after the last element taken */
        pad.pad.before.at[d] = start;
        pad.pad.after.at[d] = input->shape[d] - end;
        pad.pad.interior.at[d] = taken > 1 ? step - 1 : 0;
    }
    vjp->input_gradients[0] = samba_emit(vjp->graph, SAMBA_OP_pad, 1, &vjp->gradient, &pad);
    return SAMBA_OK;
}

samba_status samba_vjp_pad(samba_vjp *vjp)
{
    const samba_attrs_pad *attrs = &vjp->node->attrs->pad;
    const samba_node *input = samba_node_at(vjp->graph, vjp->inputs[0]);
    int rank = vjp->node->rank;
    samba_attrs slice = {.slice = {.start.count = rank, .stop.count = rank, .step.count = rank}};
    for (int d = 0; d < rank; d++) {
        slice.slice.start.at[d] = attrs->before.at[d];
        slice.slice.stop.at[d] = vjp->node->shape[d] - attrs->after.at[d];
        slice.slice.step.at[d] = input->shape[d] > 1 ? attrs->interior.at[d] + 1 : 1;
    }
    vjp->input_gradients[0] = samba_emit(vjp->graph, SAMBA_OP_slice, 1, &vjp->gradient, &slice);
    return SAMBA_OK;
}

samba_status samba_vjp_concat(samba_vjp *vjp)
{
    int64_t dim = vjp->node->attrs->axis.dim, start = 0;
    int arity = vjp->node->arity, rank = vjp->node->rank;
    samba_attrs slice = {.slice = {.start.count = rank, .stop.count = rank, .step.count = rank}};
    for (int d = 0; d < rank; d++) {
        slice.slice.stop.at[d] = vjp->node->shape[d];
        slice.slice.step.at[d] = 1;
    }
    for (int i = 0; i < arity; i++) {
        slice.slice.start.at[dim] = start;
        start += samba_node_at(vjp->graph, vjp->inputs[i])->shape[dim];
        slice.slice.stop.at[dim] = start;
        if (vjp->needed[i])
            vjp->input_gradients[i] = samba_emit(vjp->graph, SAMBA_OP_slice, 1, &vjp->gradient, &slice);
    }
    return SAMBA_OK;
}

samba_status samba_vjp_flip(samba_vjp *vjp)
{
    samba_attrs attrs = {.reduce = vjp->node->attrs->reduce};
    vjp->input_gradients[0] = samba_emit(vjp->graph, SAMBA_OP_flip, 1, &vjp->gradient, &attrs);
    return SAMBA_OK;
}

/* ---- values ---- */

/* Runs over `index`'s elements in order; element i is the one at `base` + its coordinates times `strides` of `far`, either read
 * from there or written to there. */
static int64_t far_offset(const samba_array *index, int64_t i, int64_t base, const int64_t *strides)
{
    for (int d = index->rank - 1; d >= 0; d--) {
        base += i % index->shape[d] * strides[d];
        i /= index->shape[d];
    }
    return base;
}

static void copy_element(const samba_array *to, int64_t to_index, const samba_array *from, int64_t from_index)
{
    memcpy(samba_array_at(to, to_index), samba_array_at(from, from_index), samba_dtype_size(to->dtype));
}

/* Each element of the output from its offset in the input. */
static samba_status gather(const samba_reference *reference, int64_t base, const int64_t *strides)
{
    const samba_array *output = reference->output;
    for (int64_t i = 0; i < output->numel; i++)
        copy_element(output, i, &reference->inputs[0], far_offset(output, i, base, strides));
    return SAMBA_OK;
}

samba_status samba_ref_reshape(const samba_reference *reference)
{
    const samba_array *output = reference->output;
    memcpy(output->data, reference->inputs[0].data, (size_t)output->numel * samba_dtype_size(output->dtype));
    return SAMBA_OK;
}

samba_status samba_ref_permute(const samba_reference *reference)
{
    const samba_array *input = &reference->inputs[0];
    int64_t strides[SAMBA_MAX_RANK], of_input[SAMBA_MAX_RANK];
    samba_shape_contiguous_strides(input->rank, input->shape, of_input);
    for (int d = 0; d < input->rank; d++)
        strides[d] = of_input[reference->attrs->permute.dims.at[d]];
    return gather(reference, 0, strides);
}

samba_status samba_ref_expand(const samba_reference *reference)
{
    const samba_array *input = &reference->inputs[0], *output = reference->output;
    for (int64_t i = 0; i < output->numel; i++)
        copy_element(output, i, input, samba_broadcast_offset(input, output, i));
    return SAMBA_OK;
}

samba_status samba_ref_slice(const samba_reference *reference)
{
    const samba_array *input = &reference->inputs[0];
    const samba_attrs_slice *attrs = &reference->attrs->slice;
    int64_t strides[SAMBA_MAX_RANK], base = 0;
    samba_shape_contiguous_strides(input->rank, input->shape, strides);
    for (int d = 0; d < input->rank; d++) {
        base += attrs->start.at[d] * strides[d];
        if (reference->output->shape[d] > 1) /* else it is never taken, and may be too large to multiply */
            strides[d] *= attrs->step.at[d];
    }
    return gather(reference, base, strides);
}

samba_status samba_ref_pad(const samba_reference *reference)
{
    const samba_array *input = &reference->inputs[0], *output = reference->output;
    const samba_attrs_pad *attrs = &reference->attrs->pad;
    int64_t strides[SAMBA_MAX_RANK], base = 0;
    samba_shape_contiguous_strides(output->rank, output->shape, strides);
    for (int d = 0; d < output->rank; d++) {
        base += attrs->before.at[d] * strides[d];
        if (input->shape[d] > 1)
            strides[d] *= attrs->interior.at[d] + 1;
    }
    for (int64_t i = 0; i < output->numel; i++)
        samba_array_set_double(output, i, attrs->value);
    for (int64_t i = 0; i < input->numel; i++)
        copy_element(output, far_offset(input, i, base, strides), input, i);
    return SAMBA_OK;
}

samba_status samba_ref_concat(const samba_reference *reference)
{
    const samba_array *output = reference->output;
    int64_t dim = reference->attrs->axis.dim, start = 0, strides[SAMBA_MAX_RANK];
    samba_shape_contiguous_strides(output->rank, output->shape, strides);
    for (int k = 0; k < reference->arity; k++) {
        const samba_array *input = &reference->inputs[k];
        for (int64_t i = 0; i < input->numel; i++)
            copy_element(output, far_offset(input, i, start * strides[dim], strides), input, i);
        start += input->shape[dim];
    }
    return SAMBA_OK;
}

samba_status samba_ref_flip(const samba_reference *reference)
{
    const samba_array *input = &reference->inputs[0];
    const samba_dims *dims = &reference->attrs->reduce.dims;
    int64_t strides[SAMBA_MAX_RANK], base = 0;
    samba_shape_contiguous_strides(input->rank, input->shape, strides);
    for (int64_t i = 0; i < dims->count; i++) {
        base += (input->shape[dims->at[i]] - 1) * strides[dims->at[i]];
        strides[dims->at[i]] = -strides[dims->at[i]];
    }
    return gather(reference, base, strides);
}
