/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear algebra: batches of small matrices that are well apart from those that have no result. The diagonal of each is more than
 * all else of its row, and where factors have vectors its elements are apart, as then their eigenvalues and singular values
 * are. */
#include "generate.h"
#include "ops/matrix.h"

#include <string.h>

/* First on the diagonal, then `step` more in each row. */
static samba_ref diagonal(fuzz_maker *m, samba_dtype dtype, int64_t rows, int64_t columns, double first, double step)
{
    samba_attrs attrs = fuzz_none();
    const int64_t shape[2] = {rows, columns};
    samba_array array = {.dtype = dtype, .rank = 2, .numel = rows * columns};
    samba_blob *blob = samba_blob_new(m->graph->context, array.numel * (int64_t)samba_dtype_size(dtype));
    if (!blob)
        return SAMBA_NONE;
    array.data = blob->data;
    for (int64_t i = 0; i < array.numel; i++)
        samba_array_set_double(&array, i, i / columns == i % columns ? first + step * (double)(i / columns) : 0);
    samba_blob_seal(blob);
    attrs.literal.dtype = dtype;
    attrs.literal.shape = samba_dims_of(2, shape);
    attrs.literal.data = samba_graph_blob(m->graph, blob);
    samba_blob_drop(blob);
    return fuzz_add_or_find(m, SAMBA_OP_literal, 0, NULL, &attrs);
}

/* a + a^T */
static samba_ref symmetric(fuzz_maker *m, samba_ref a)
{
    if (a == SAMBA_NONE)
        return a;
    const int rank = samba_node_at(m->graph, a)->rank;
    int64_t dims[3] = {0, 1, 2};
    dims[rank - 2] = rank - 1;
    dims[rank - 1] = rank - 2;
    samba_attrs attrs = fuzz_none(), plain = fuzz_none();
    fuzz_set_dims(SAMBA_OP_permute, &attrs, "dims", rank, dims);
    samba_ref turned = fuzz_add_or_find(m, SAMBA_OP_permute, 1, &a, &attrs);
    return turned == SAMBA_NONE ? turned : fuzz_add(m, SAMBA_OP_add, 2, (samba_ref[]){a, turned}, &plain);
}

/* Of no operand: the attributes of `op`, drawn. */
static samba_attrs drawn(fuzz_maker *m, samba_op op)
{
    samba_attrs attrs = fuzz_none();
    switch (op) {
    case SAMBA_OP_triangular_solve: fuzz_set_int(op, &attrs, "upper", fuzz_below(m, 2)); break;
    case SAMBA_OP_lu_factors: fuzz_set_int(op, &attrs, "singular", fuzz_below(m, 2)); break;
    case SAMBA_OP_lu_solve: fuzz_set_int(op, &attrs, "transposed", fuzz_below(m, 2)); break;
    case SAMBA_OP_eigh_factors:
    case SAMBA_OP_svd_factors: fuzz_set_int(op, &attrs, "values", fuzz_below(m, 2)); break;
    case SAMBA_OP_slogdet:
    case SAMBA_OP_qr: fuzz_set_int(op, &attrs, "part", fuzz_below(m, 2)); break;
    case SAMBA_OP_eigh: fuzz_set_int(op, &attrs, "part", fuzz_below(m, 3)); break;
    case SAMBA_OP_svd: fuzz_set_int(op, &attrs, "part", fuzz_below(m, 4)); break;
    case SAMBA_OP_pinv: fuzz_set_real(op, &attrs, "rtol", 1e-4); break;
    case SAMBA_OP_lstsq: fuzz_set_real(op, &attrs, "rcond", 1e-4); break;
    default: break;
    }
    return attrs;
}

samba_ref fuzz_matrices(fuzz_maker *m, samba_op op)
{
    const char *name = samba_ops[op].name;
    const bool spectrum = strncmp(name, "eigh", 4) == 0, definite = op == SAMBA_OP_cholesky || spectrum;
    const bool svd = strncmp(name, "svd", 3) == 0, least = op == SAMBA_OP_pinv || op == SAMBA_OP_lstsq,
               oblong = svd || least || strncmp(name, "qr", 2) == 0;
    const samba_dtype dtype = fuzz_float(m) == SAMBA_FLOAT64 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
    const int rank = 2 + (int)fuzz_below(m, 2);
    const int64_t n = fuzz_size(m, 4), rows = oblong && fuzz_chance(m, 60) ? fuzz_size(m, 4) : n, batch = fuzz_batch(m, 3);
    const int64_t shape[3] = {rank == 3 ? batch : rows, rank == 3 ? rows : n, n}, right = fuzz_size(m, 3);
    const int64_t sides[3] = {rank == 3 ? batch : rows, rank == 3 ? rows : right, right};
    samba_attrs attrs = drawn(m, op), plain = fuzz_none();
    samba_ref inputs[2] = {fuzz_fresh(m, "x", dtype, rank, shape)};
    if (samba_ops[op].arity == 2)
        inputs[1] = fuzz_fresh(m, "x", dtype, rank, sides);
    if (inputs[0] == SAMBA_NONE || (samba_ops[op].arity == 2 && inputs[1] == SAMBA_NONE))
        return SAMBA_NONE;
    samba_ref scale = fuzz_constant(m, dtype, definite ? 0.0625 : 0.125);
    inputs[0] = fuzz_add(m, SAMBA_OP_mul, 2, (samba_ref[]){inputs[0], scale}, &plain);
    if (definite)
        inputs[0] = symmetric(m, inputs[0]);
    const double first = op == SAMBA_OP_matrix_exp ? 0.5 : 4;
    samba_ref more = diagonal(m, dtype, rows, n, first, svd || spectrum ? 4 : 0);
    if (inputs[0] == SAMBA_NONE || more == SAMBA_NONE)
        return SAMBA_NONE;
    inputs[0] = fuzz_add(m, SAMBA_OP_add, 2, (samba_ref[]){inputs[0], more}, &plain);
    if ((op == SAMBA_OP_lu_solve || op == SAMBA_OP_lu_inverse) && inputs[0] != SAMBA_NONE)
        inputs[0] = fuzz_add(m, SAMBA_OP_lu_factors, 1, inputs, &plain);
    return inputs[0] == SAMBA_NONE ? inputs[0] : fuzz_add(m, op, samba_ops[op].arity, inputs, &attrs);
}
