/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over a sorted set of dims, which stay with size 1; over no dim they are the identity. sum of integers and bools is
 * int64, as in PyTorch; amax and amin keep the dtype; argmax is the int64 index within the reduced dims, flattened, of the first
 * greatest element.
 *
 * The reference walks the input once in order. A result has size 1 where the input is reduced, so it broadcasts to the input's
 * shape, and samba_broadcast_offset tells to which result an element counts. */
#include "ops/families.h"
#include <math.h>
#include <string.h>

/* Checks the dims and gives the result's shape. */
static samba_status reduced_shape(const samba_infer *infer, int64_t *shape)
{
    const samba_node *input = infer->inputs[0];
    const samba_dims *dims = &infer->attrs->reduce.dims;
    if (dims->count < 0 || dims->count > input->rank)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected at most %d dims to reduce, given %lld", input->rank,
                                (long long)dims->count);
    memcpy(shape, input->shape, sizeof input->shape);
    for (int64_t i = 0; i < dims->count; i++) {
        int64_t dim = dims->at[i];
        if (dim < 0 || dim >= input->rank)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "dims to reduce must be 0 to %d, given %lld", input->rank - 1,
                                    (long long)dim);
        if (i > 0 && dims->at[i - 1] >= dim)
            return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "dims to reduce must ascend, given %lld before %lld",
                                    (long long)dims->at[i - 1], (long long)dim);
        if (infer->op != SAMBA_OP_sum && input->shape[dim] == 0)
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "dim %lld has size 0: there is no greatest or least of no elements",
                                    (long long)dim);
        shape[dim] = 1;
    }
    return SAMBA_OK;
}

samba_status samba_infer_reduce(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    bool widens = infer->op == SAMBA_OP_sum && !samba_dtype_is_floating_point(input->dtype);
    int64_t shape[SAMBA_MAX_RANK];
    SAMBA_TRY(reduced_shape(infer, shape));
    return samba_infer_set(infer, widens ? SAMBA_INT64 : input->dtype, input->rank, shape);
}

samba_status samba_infer_argmax(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    int64_t shape[SAMBA_MAX_RANK], count = infer->attrs->reduce.dims.count;
    if (input->dtype == SAMBA_BOOL)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected integers or floating-point, given bool; cast it first");
    if (count != 1 && count != input->rank)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected one dim or all %d, given %lld", input->rank,
                                (long long)count);
    SAMBA_TRY(reduced_shape(infer, shape));
    return samba_infer_set(infer, SAMBA_INT64, input->rank, shape);
}

/* ---- gradients ---- */

samba_status samba_vjp_sum(samba_vjp *vjp)
{
    const samba_node *input = samba_node_at(vjp->graph, vjp->inputs[0]);
    int rank = input->rank;
    int64_t shape[SAMBA_MAX_RANK];
    memcpy(shape, input->shape, sizeof shape);
    vjp->input_gradients[0] = samba_emit_expand(vjp->graph, vjp->gradient, rank, shape);
    return SAMBA_OK;
}

/* Elements equal to the extremum share its gradient evenly. Where it is NaN none is equal, and 0 of 0 makes all gradients NaN, as
 * in PyTorch. Counted in float32 at least: bfloat16 cannot count beyond 256. */
samba_status samba_vjp_extremum(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_dims *dims = &vjp->node->attrs->reduce.dims;
    samba_ref gradient = samba_emit_lift(graph, vjp->gradient);
    samba_ref equal = samba_emit2(graph, SAMBA_OP_eq, vjp->inputs[0], vjp->output);
    samba_ref mask = samba_emit_cast(graph, equal, samba_ref_dtype(graph, gradient));
    samba_ref sharers = samba_emit_reduce(graph, SAMBA_OP_sum, mask, (int)dims->count, dims->at);
    samba_ref share = samba_emit2(graph, SAMBA_OP_div, gradient, sharers);
    return samba_vjp_deliver(vjp, 0, samba_emit2(graph, SAMBA_OP_mul, mask, share));
}

/* ---- values ---- */

typedef struct partial { /* a result while it grows */
    double real;
    int64_t integer;
    int64_t seen; /* elements so far: input order is ascending, so this is the flat index of the next one */
    int64_t index;
} partial;

static void add_element(partial *to, double real, int64_t integer)
{
    to->real += real;
    to->integer = (int64_t)((uint64_t)to->integer + (uint64_t)integer); /* wraps */
}

static void take_extreme(partial *to, double real, int64_t integer, bool greatest)
{
    bool beyond = greatest ? real > to->real || integer > to->integer : real < to->real || integer < to->integer;
    if (to->seen > 0 && !beyond && !(isnan(real) && !isnan(to->real)))
        return;
    to->real = real;
    to->integer = integer;
    to->index = to->seen;
}

static void take_greater(partial *to, double real, int64_t integer) { take_extreme(to, real, integer, true); }
static void take_less(partial *to, double real, int64_t integer) { take_extreme(to, real, integer, false); }

/* Gives every element to its result: floats as `real` with integer 0, integers the other way. */
static samba_status reduce(const samba_reference *reference, void (*take)(partial *, double, int64_t), bool wants_index)
{
    const samba_array *input = &reference->inputs[0], *output = reference->output;
    bool is_real = samba_dtype_is_floating_point(input->dtype);
    size_t size = (size_t)output->numel * sizeof(partial);
    partial *partials = samba_calloc(reference->context, size);
    if (!partials)
        return SAMBA_ERROR_MEMORY;
    for (int64_t i = 0; i < input->numel; i++) {
        partial *to = &partials[samba_broadcast_offset(output, input, i)];
        take(to, is_real ? samba_array_double(input, i) : 0, is_real ? 0 : samba_array_int64(input, i));
        to->seen++;
    }
    for (int64_t i = 0; i < output->numel; i++) {
        if (wants_index)
            samba_array_set_int64(output, i, partials[i].index);
        else if (is_real)
            samba_array_set_double(output, i, partials[i].real);
        else
            samba_array_set_int64(output, i, partials[i].integer);
    }
    samba_free(reference->context, partials, size);
    return SAMBA_OK;
}

samba_status samba_ref_sum(const samba_reference *reference) { return reduce(reference, add_element, false); }
samba_status samba_ref_amax(const samba_reference *reference) { return reduce(reference, take_greater, false); }
samba_status samba_ref_amin(const samba_reference *reference) { return reduce(reference, take_less, false); }
samba_status samba_ref_argmax(const samba_reference *reference) { return reduce(reference, take_greater, true); }
