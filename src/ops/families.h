/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the operator families share: every cell of ops.def, and small helpers for inference, gradients and reference
 * kernels. A cell `none` names no function; any other cell without a definition does not link, an empty one does not compile
 * (table.c). */
#ifndef SAMBA_OPS_FAMILIES_H
#define SAMBA_OPS_FAMILIES_H

#include "ops/ops.h"

/* samba_infer_<cell>, samba_vjp_<cell> ...: cells that several rows share are declared again each time, which C allows. */
#define OP(name, arity, attrs, class, tile, infer, vjp, ref, flops, expand, ...)                                                 \
    samba_infer_fn samba_infer_##infer;                                                                                          \
    samba_vjp_fn samba_vjp_##vjp;                                                                                                \
    samba_reference_fn samba_ref_##ref;                                                                                          \
    samba_flops_fn samba_flops_##flops;                                                                                          \
    samba_expand_fn samba_expand_##expand;
#include "ops.def"

/* ---- RANGE(cell): the index ranges of rows ---- */
samba_range_fn samba_range_embedding, samba_range_gather, samba_range_scatter, samba_range_cross_entropy,
    samba_range_multilabel_margin;

/* ---- inference (infer.c) ---- */
/* Sets the result. Checks what every result must be: a known dtype, rank 0 to 8, sizes >= 0, at most 2^62 bytes. */
samba_status samba_infer_set(samba_infer *infer, int64_t dtype, int64_t rank, const int64_t *shape);
/* The result is as input `i` in dtype and shape. */
samba_status samba_infer_set_like(samba_infer *infer, int i);
/* Input `i` must be floating-point, or of integer kind (not bool), or of this dtype, or of this rank. */
samba_status samba_infer_need_floating(const samba_infer *infer, int i);
samba_status samba_infer_need_integer(const samba_infer *infer, int i);
samba_status samba_infer_need_dtype(const samba_infer *infer, int i, samba_dtype dtype);
samba_status samba_infer_need_rank(const samba_infer *infer, int i, int rank);
/* Inputs `i` and `j` must have one dtype: tracing has already inserted the casts of promotion. */
samba_status samba_infer_need_same_dtype(const samba_infer *infer, int i, int j);
/* Input `i`, the gradient of a result, must have the result's shape. */
samba_status samba_infer_need_shape(const samba_infer *infer, int i, int rank, const int64_t *shape);
/* A norm over the last `dims` dims of input 0, of which there is 1 or more, with an eps of 0 or more. */
samba_status samba_infer_need_norm(const samba_infer *infer, int64_t dims, double eps);
/* A list in the attributes must have `count` entries. */
samba_status samba_infer_need_count(const samba_infer *infer, const char *what, const samba_dims *dims, int64_t count);

/* ---- gradients and expansions ---- */
/* The dtype in which torch computes inside one function on `dtype`: float32 for 16-bit floats. Formulas of several steps cast to
 * it first, so that a 16-bit result is rounded once. */
static inline samba_dtype samba_compute_dtype(samba_dtype dtype)
{
    return dtype == SAMBA_BFLOAT16 || dtype == SAMBA_FLOAT16 ? SAMBA_FLOAT32 : dtype;
}
static inline samba_dtype samba_ref_dtype(const samba_graph *graph, samba_ref ref) /* SAMBA_NONE gives float32: errors stick */
{
    return ref == SAMBA_NONE ? SAMBA_FLOAT32 : (samba_dtype)samba_node_at(graph, ref)->dtype;
}
/* `a` cast to its compute dtype. */
static inline samba_ref samba_emit_lift(samba_graph *graph, samba_ref a)
{
    return a == SAMBA_NONE ? a : samba_emit_cast(graph, a, samba_compute_dtype(samba_ref_dtype(graph, a)));
}
/* Delivers the gradient of input `i`: summed over what broadcasting repeated, cast to the input's dtype (map.c). Always OK, which
 * a vjp may return: errors stick. */
samba_status samba_vjp_deliver(samba_vjp *vjp, int i, samba_ref gradient);

/* ---- elements of reference arrays: any dtype as double or int64_t, by flat index ---- */
static inline void *samba_array_at(const samba_array *array, int64_t i)
{
    return (char *)array->data + (size_t)i * samba_dtype_table[array->dtype].size;
}
static inline double samba_array_double(const samba_array *array, int64_t i)
{
    return samba_load_double(array->dtype, samba_array_at(array, i));
}
static inline int64_t samba_array_int64(const samba_array *array, int64_t i)
{
    return samba_load_int64(array->dtype, samba_array_at(array, i));
}
static inline void samba_array_set_double(const samba_array *array, int64_t i, double value)
{
    samba_store_double(array->dtype, samba_array_at(array, i), value);
}
static inline void samba_array_set_int64(const samba_array *array, int64_t i, int64_t value)
{
    samba_store_int64(array->dtype, samba_array_at(array, i), value);
}
/* The output from f of each element of the input, which is floating-point (map_ref.c). */
samba_status samba_reference_of_one(const samba_reference *reference, double (*f)(double));
samba_status samba_reference_of_two(const samba_reference *reference, double (*f)(double, double)); /* of two inputs, broadcast */
/* Where element `i` of `whole` finds its partner in `part`, whose shape broadcasts to whole's. A reduction reads it the other
 * way: the element of the result (part) to which element `i` of the input (whole) counts. */
static inline int64_t samba_broadcast_offset(const samba_array *part, const samba_array *whole, int64_t i)
{
    int64_t offset = 0, stride = 1;
    for (int d = 1; d <= part->rank; d++) {
        int64_t size = part->shape[part->rank - d], of = whole->shape[whole->rank - d];
        if (size != 1)
            offset += i % of * stride;
        i /= of;
        stride *= size;
    }
    return offset;
}

#endif
