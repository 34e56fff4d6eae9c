/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over a sorted set of dims, which stay with size 1; over no dim they are the identity. sum of integers and bools is
 * int64, as in PyTorch; amax and amin keep the dtype; argmax is the int64 index within the reduced dims, flattened, of the first
 * greatest element. prod is as sum; the gradient of an element is the product of all others, zeros among them or not.
 *
 * The reference walks the input once in order. A result has size 1 where the input is reduced, so it broadcasts to the input's
 * shape, and samba_broadcast_offset tells to which result an element counts. */
#include "ops/families.h"
#include <math.h>
#include <string.h>

bool samba_widens_integers(samba_op op) { return op == SAMBA_OP_sum || op == SAMBA_OP_prod; }

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
            return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                                    infer->op == SAMBA_OP_prod
                                        ? "dim %lld has size 0: the product of no elements is the constant 1"
                                        : "dim %lld has size 0: there is no greatest or least of no elements",
                                    (long long)dim);
        shape[dim] = 1;
    }
    return SAMBA_OK;
}

samba_status samba_infer_reduce(samba_infer *infer)
{
    const samba_node *input = infer->inputs[0];
    bool widens = samba_widens_integers(infer->op) && !samba_dtype_is_floating_point(input->dtype);
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

/* ---- the gradient of a product ---- */

static samba_ref slice_of(samba_graph *graph, samba_ref x, int dim, int64_t start, int64_t stop)
{
    if (graph->status != SAMBA_OK)
        return SAMBA_NONE;
    const samba_node *node = samba_node_at(graph, x);
    int64_t starts[SAMBA_MAX_RANK] = {0}, stops[SAMBA_MAX_RANK], steps[SAMBA_MAX_RANK];
    for (int i = 0; i < node->rank; i++) {
        stops[i] = i == dim ? stop : node->shape[i];
        steps[i] = 1;
    }
    starts[dim] = start;
    samba_attrs attrs = {.slice = {.start = samba_dims_of(node->rank, starts),
                                   .stop = samba_dims_of(node->rank, stops),
                                   .step = samba_dims_of(node->rank, steps)}};
    return samba_emit(graph, SAMBA_OP_slice, 1, &x, &attrs);
}

static samba_ref times(samba_graph *graph, samba_ref a, samba_ref b)
{
    return a == SAMBA_NONE ? b : b == SAMBA_NONE ? a : samba_emit2(graph, SAMBA_OP_mul, a, b);
}

/* What each of `count` parts has to be multiplied with, all others; SAMBA_NONE: there are none. */
static void others_of(samba_graph *graph, int count, const samba_ref *of, samba_ref *others)
{
    samba_ref before = SAMBA_NONE, behind = SAMBA_NONE;
    for (int i = 0; i < count; i++) {
        others[i] = before;
        before = i + 1 < count ? times(graph, before, of[i]) : SAMBA_NONE;
    }
    for (int i = count - 1; i >= 0; i--) {
        others[i] = times(graph, others[i], behind);
        behind = i > 0 ? times(graph, behind, of[i]) : SAMBA_NONE;
    }
}

/* The gradient of x, of the products along `dim` whose gradient is g: quarters of x are multiplied with quarters, and what comes
 * of them again, so that an element meets few others one by one. No quotient: zeros have gradients too. */
static samba_ref gradient_along(samba_graph *graph, samba_ref x, samba_ref g, int dim)
{
    enum { PARTS = 4, MOST = 2 * PARTS - 1 }; /* and the elements that are left over */
    if (graph->status != SAMBA_OK)
        return SAMBA_NONE;
    const int64_t n = samba_node_at(graph, x)->shape[dim], axis[] = {dim};
    if (n == 1)
        return g;
    const int parts = n < PARTS ? (int)n : PARTS, rest = (int)(n % parts);
    const int64_t part = n / parts;
    samba_ref of[PARTS], others[PARTS], gradients[MOST];
    for (int p = 0; p < parts; p++)
        of[p] = slice_of(graph, x, dim, p * part, (p + 1) * part);
    others_of(graph, parts, of, others);
    samba_ref product = times(graph, others[0], of[0]), single[PARTS], beside[PARTS];
    single[0] = rest ? samba_emit_reduce(graph, SAMBA_OP_prod, product, 1, axis) : SAMBA_NONE;
    for (int i = 0; i < rest; i++)
        single[i + 1] = slice_of(graph, x, dim, parts * part + i, parts * part + i + 1);
    beside[0] = SAMBA_NONE;
    if (rest)
        others_of(graph, rest + 1, single, beside);
    samba_ref of_product = gradient_along(graph, product, times(graph, g, beside[0]), dim);
    for (int p = 0; p < parts; p++)
        gradients[p] = times(graph, of_product, others[p]);
    for (int i = 0; i < rest; i++)
        gradients[parts + i] = times(graph, g, beside[i + 1]);
    samba_attrs attrs = {.axis = {.dim = dim}};
    return samba_emit(graph, SAMBA_OP_concat, parts + rest, gradients, &attrs);
}

/* Along the last of some dims, of the products along all others. */
static samba_ref gradient_over(samba_graph *graph, samba_ref x, samba_ref g, int count, const int64_t *dims)
{
    if (count == 0)
        return g;
    samba_ref product = samba_emit_reduce(graph, SAMBA_OP_prod, x, 1, &dims[count - 1]);
    samba_ref of_product = gradient_over(graph, product, g, count - 1, dims);
    return gradient_along(graph, x, of_product, (int)dims[count - 1]);
}

samba_status samba_vjp_prod(samba_vjp *vjp)
{
    samba_graph *graph = vjp->graph;
    const samba_dims dims = vjp->node->attrs->reduce.dims;
    samba_ref x = samba_emit_lift(graph, vjp->inputs[0]), g = samba_emit_lift(graph, vjp->gradient);
    if (graph->status != SAMBA_OK)
        return graph->status;
    const samba_node node = *samba_node_at(graph, x);
    if (dims.count < node.rank)
        return samba_vjp_deliver(vjp, 0, gradient_over(graph, x, g, (int)dims.count, dims.at));
    int64_t numel = 1;
    for (int i = 0; i < node.rank; i++)
        numel *= node.shape[i];
    samba_ref line = samba_emit_reshape(graph, x, 1, &numel);
    samba_ref flat = samba_emit_reshape(graph, g, 1, (const int64_t[]){1});
    samba_ref along = gradient_along(graph, line, flat, 0);
    return samba_vjp_deliver(vjp, 0, samba_emit_reshape(graph, along, node.rank, node.shape));
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

static void multiply_element(partial *to, double real, int64_t integer)
{
    to->real = to->seen > 0 ? to->real * real : real;
    to->integer = to->seen > 0 ? (int64_t)((uint64_t)to->integer * (uint64_t)integer) : integer; /* wraps */
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
samba_status samba_ref_prod(const samba_reference *reference) { return reduce(reference, multiply_element, false); }
samba_status samba_ref_amax(const samba_reference *reference) { return reduce(reference, take_greater, false); }
samba_status samba_ref_amin(const samba_reference *reference) { return reduce(reference, take_less, false); }
samba_status samba_ref_argmax(const samba_reference *reference) { return reduce(reference, take_greater, true); }
