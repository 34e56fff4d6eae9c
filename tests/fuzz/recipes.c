/* SPDX-License-Identifier: Apache-2.0
 *
 * How to draw operands and attributes of an operator, by its class and by the fields that its attributes have; a few operators
 * want shapes of their own. Whatever comes out is only a proposal: fuzz_add takes it or not. */
#include "generate.h"

typedef samba_ref recipe(fuzz_maker *m, samba_op op);

/* ---- by class ---- */
static samba_ref draw_map(fuzz_maker *m, samba_op op)
{
    const char *name = samba_ops[op].name;
    samba_attrs attrs = fuzz_none();
    samba_ref inputs[4];
    int arity = samba_ops[op].arity;
    if (op == SAMBA_OP_random) {
        int64_t shape[SAMBA_MAX_RANK];
        fuzz_set_dims(op, &attrs, "shape", fuzz_shape(m, shape), shape);
        inputs[0] = fuzz_constant(m, SAMBA_INT64, (double)fuzz_below(m, 1000));
        return fuzz_add(m, op, 1, inputs, &attrs);
    }
    if (arity > 4)
        return SAMBA_NONE;
    bool bits = strstr(name, "bitwise") || strstr(name, "shift"), shift = strstr(name, "shift") != NULL,
         logical = strstr(name, "logical") != NULL;
    bool condition = op == SAMBA_OP_where;
    inputs[0] = condition ? fuzz_any_where(m, fuzz_is_boolean)
                : bits    ? fuzz_any_where(m, fuzz_chance(m, 70) ? fuzz_is_integral : fuzz_is_boolean)
                          : fuzz_any(m);
    if (condition && (inputs[0] == SAMBA_NONE || fuzz_chance(m, 30))) {
        samba_ref like = fuzz_any(m);
        inputs[0] = fuzz_beside(m, SAMBA_BOOL, samba_node_at(m->graph, like), "x");
    }
    if (inputs[0] == SAMBA_NONE)
        inputs[0] = bits ? fuzz_input(m, logical ? SAMBA_BOOL : SAMBA_INT32) : fuzz_any(m);
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node first = *samba_node_at(m->graph, inputs[0]);
    if (op == SAMBA_OP_cast) {
        int64_t *dtype = fuzz_field(op, &attrs, "dtype", SAMBA_FIELD_DTYPE);
        *dtype = fuzz_below(m, SAMBA_DTYPE_COUNT);
    }
    samba_dtype dtype = (samba_dtype)first.dtype;
    if (condition) {
        inputs[1] = fuzz_beside(m, m->dtype, &first, "x");
        dtype = m->dtype;
    }
    /* where it may need a domain: log, sqrt ... */
    if (arity == 1 && !condition && samba_ops[op].infer && fuzz_chance(m, 25) && fuzz_is_floating(&first))
        inputs[0] = fuzz_beside(m, dtype, &first, "p");
    for (int i = condition ? 2 : 1; i < arity; i++) {
        bool positive = shift || strstr(name, "div") || strstr(name, "remainder") || strstr(name, "fmod") || fuzz_chance(m, 25);
        inputs[i] = fuzz_beside(m, dtype, &first, positive ? "p" : "x");
    }
    if (arity == 2 && fuzz_chance(m, 30) && !shift) {
        samba_ref swap = inputs[0];
        inputs[0] = inputs[1];
        inputs[1] = swap;
    }
    return fuzz_add(m, op, arity, inputs, &attrs);
}

static samba_ref draw_reduce(fuzz_maker *m, samba_op op)
{
    samba_ref input = fuzz_any_where(m, fuzz_has_dims);
    if (input == SAMBA_NONE)
        return SAMBA_NONE;
    samba_attrs attrs = fuzz_none();
    int64_t dims[SAMBA_MAX_RANK], count = 0;
    int rank = samba_node_at(m->graph, input)->rank;
    for (int d = 0; d < rank; d++)
        if (fuzz_chance(m, 45))
            dims[count++] = d;
    if (count == 0)
        dims[count++] = fuzz_below(m, rank);
    fuzz_set_dims(op, &attrs, "dims", count, dims);
    return fuzz_add(m, op, 1, &input, &attrs);
}

static samba_ref draw_pad(fuzz_maker *m, samba_op op)
{
    samba_ref input = fuzz_any(m);
    int rank = samba_node_at(m->graph, input)->rank;
    samba_attrs attrs = fuzz_none();
    int64_t a[SAMBA_MAX_RANK], b[SAMBA_MAX_RANK], c[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        a[d] = fuzz_chance(m, 50) ? 0 : fuzz_below(m, 3);
        b[d] = fuzz_chance(m, 50) ? 0 : fuzz_below(m, 3);
        c[d] = fuzz_chance(m, 85) ? 0 : fuzz_below(m, 3);
    }
    fuzz_set_dims(op, &attrs, "before", rank, a);
    fuzz_set_dims(op, &attrs, "after", rank, b);
    fuzz_set_dims(op, &attrs, "interior", rank, c);
    fuzz_set_real(op, &attrs, "value",
                  fuzz_chance(m, 60) || !fuzz_is_floating(samba_node_at(m->graph, input)) ? 0 : (double)fuzz_below(m, 5) / 2 - 1);
    return fuzz_add(m, op, 1, &input, &attrs);
}

static samba_ref draw_concat(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[4] = {fuzz_any_where(m, fuzz_has_dims)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node first = *samba_node_at(m->graph, inputs[0]);
    int64_t dim = fuzz_below(m, first.rank), shape[SAMBA_MAX_RANK];
    int count = 1 + (int)fuzz_below(m, 4);
    for (int i = 1; i < count; i++) {
        inputs[i] = SAMBA_NONE;
        for (int k = 0; k < 10 && inputs[i] == SAMBA_NONE; k++) {
            samba_ref ref = fuzz_any(m);
            const samba_node *node = samba_node_at(m->graph, ref);
            bool same = node->dtype == first.dtype && node->rank == first.rank;
            for (int d = 0; d < first.rank && same; d++)
                same = d == dim || node->shape[d] == first.shape[d];
            if (same)
                inputs[i] = ref;
        }
        memcpy(shape, first.shape, sizeof first.shape);
        shape[dim] = fuzz_below(m, 5);
        if (inputs[i] == SAMBA_NONE)
            inputs[i] = fuzz_fresh(m, "x", (samba_dtype)first.dtype, first.rank, shape);
    }
    samba_attrs attrs = fuzz_none();
    fuzz_set_int(op, &attrs, "dim", dim);
    return fuzz_add(m, op, count, inputs, &attrs);
}

static samba_ref draw_move(fuzz_maker *m, samba_op op) { return op == SAMBA_OP_concat ? draw_concat(m, op) : draw_pad(m, op); }

/* ---- operators with shapes of their own ---- */
static samba_ref draw_matmul(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[2] = {fuzz_any_where(m, fuzz_is_matrices), SAMBA_NONE};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node a = *samba_node_at(m->graph, inputs[0]);
    bool swapped = fuzz_chance(m, 30);
    int64_t k = a.shape[a.rank - (swapped ? 2 : 1)], shape[SAMBA_MAX_RANK];
    for (int i = 0; i < 8 && inputs[1] == SAMBA_NONE; i++) {
        samba_ref ref = fuzz_any(m);
        const samba_node *b = samba_node_at(m->graph, ref);
        if (b->dtype == a.dtype && b->rank >= 2 && b->shape[b->rank - (swapped ? 1 : 2)] == k)
            inputs[1] = ref;
    }
    if (inputs[1] == SAMBA_NONE) {
        int rank = fuzz_chance(m, 50) ? 2 : a.rank;
        memcpy(shape, a.shape, sizeof shape);
        shape[rank - (swapped ? 1 : 2)] = k;
        shape[rank - (swapped ? 2 : 1)] = fuzz_size(m, 24);
        inputs[1] = fuzz_fresh(m, "x", (samba_dtype)a.dtype, rank, shape);
    }
    if (swapped) {
        samba_ref swap = inputs[0];
        inputs[0] = inputs[1];
        inputs[1] = swap;
    }
    samba_attrs attrs = fuzz_none();
    return fuzz_add(m, op, 2, inputs, &attrs);
}

static void window(fuzz_maker *m, samba_op op, samba_attrs *attrs, int dims, const int64_t *kernel)
{
    int64_t stride[3], padding[3], dilation[3];
    for (int d = 0; d < dims; d++) {
        stride[d] = 1 + fuzz_below(m, 3);
        dilation[d] = fuzz_chance(m, 80) ? 1 : 2;
        padding[d] = fuzz_below(m, kernel[d] / 2 + 1);
    }
    fuzz_set_dims(op, attrs, "stride", dims, stride);
    fuzz_set_dims(op, attrs, "padding", dims, padding);
    fuzz_set_dims(op, attrs, "dilation", dims, dilation);
}

static int dims_of_name(const char *name) { return strstr(name, "3d") ? 3 : strstr(name, "1d") ? 1 : 2; }

static samba_ref draw_conv(fuzz_maker *m, samba_op op)
{
    int dims = dims_of_name(samba_ops[op].name);
    samba_ref inputs[2] = {fuzz_image(m, dims), SAMBA_NONE};
    if (strstr(samba_ops[op].name, "grad") || inputs[0] == SAMBA_NONE)
        return SAMBA_NONE; /* gradients make those */
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    samba_attrs attrs = fuzz_none();
    int64_t groups = fuzz_chance(m, 70) ? 1 : fuzz_chance(m, 50) ? x.shape[1] : 2, kernel[SAMBA_MAX_RANK];
    groups = groups > 0 && x.shape[1] % groups == 0 ? groups : 1;
    kernel[0] = groups * (1 + fuzz_below(m, 5));
    kernel[1] = x.shape[1] / groups;
    for (int d = 0; d < dims; d++)
        kernel[2 + d] = 1 + fuzz_below(m, 4);
    inputs[1] = fuzz_fresh(m, "x", (samba_dtype)x.dtype, dims + 2, kernel);
    window(m, op, &attrs, dims, kernel + 2);
    fuzz_set_int(op, &attrs, "groups", groups);
    return fuzz_add(m, op, 2, inputs, &attrs);
}

static samba_ref draw_pool(fuzz_maker *m, samba_op op)
{
    int dims = dims_of_name(samba_ops[op].name);
    samba_ref input = fuzz_image(m, dims);
    if (strstr(samba_ops[op].name, "grad") || input == SAMBA_NONE)
        return SAMBA_NONE;
    samba_attrs attrs = fuzz_none();
    int64_t kernel[3];
    for (int d = 0; d < dims; d++)
        kernel[d] = 1 + fuzz_below(m, 4);
    fuzz_set_dims(op, &attrs, "kernel", dims, kernel);
    window(m, op, &attrs, dims, kernel);
    if (strncmp(samba_ops[op].name, "avg", 3) == 0)
        fuzz_set_dims(op, &attrs, "dilation", dims, (int64_t[]){1, 1, 1});
    fuzz_set_int(op, &attrs, "ceil_mode", fuzz_below(m, 2));
    fuzz_set_int(op, &attrs, "count_include_pad", fuzz_below(m, 2));
    return fuzz_add(m, op, 1, &input, &attrs);
}

/* softmax, sort, cumsum ...: one operand and a dim of it. */
static samba_ref draw_along(fuzz_maker *m, samba_op op)
{
    samba_ref input = fuzz_any_where(m, fuzz_has_dims);
    if (input == SAMBA_NONE)
        return SAMBA_NONE;
    const samba_node *node = samba_node_at(m->graph, input);
    samba_attrs attrs = fuzz_none();
    int64_t dim = fuzz_below(m, node->rank);
    fuzz_set_int(op, &attrs, "dim", dim);
    int64_t count = node->shape[dim] > 0 ? 1 + fuzz_below(m, node->shape[dim]) : 0;
    fuzz_set_int(op, &attrs, "count", count);
    fuzz_set_int(op, &attrs, "first", fuzz_chance(m, 50) ? fuzz_below(m, node->shape[dim] - count + 1) : 0);
    fuzz_set_int(op, &attrs, "nan", fuzz_chance(m, 20));
    fuzz_set_int(op, &attrs, "descending", fuzz_below(m, 2));
    fuzz_set_int(op, &attrs, "reverse", fuzz_below(m, 2));
    return fuzz_add(m, op, 1, &input, &attrs);
}

static samba_ref draw_norm(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[3] = {fuzz_any_where(m, fuzz_is_matrices)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    samba_attrs attrs = fuzz_none();
    bool groups = fuzz_field(op, &attrs, "groups", SAMBA_FIELD_INT) != NULL;
    int dims = groups ? 1 : 1 + (int)fuzz_below(m, x.rank - 1);
    fuzz_set_int(op, &attrs, "dims", dims);
    fuzz_set_int(op, &attrs, "groups", fuzz_chance(m, 50) ? 1 : x.shape[1]);
    fuzz_set_real(op, &attrs, "eps", 0.125);
    for (int i = 1; i < samba_ops[op].arity && i < 3; i++)
        inputs[i] = fuzz_fresh(m, "x", (samba_dtype)x.dtype, dims, groups ? x.shape + 1 : x.shape + x.rank - dims);
    return fuzz_add(m, op, samba_ops[op].arity, inputs, &attrs);
}

/* By its batch or by running statistics, as a number of the call says. */
static samba_ref draw_batch_norm(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[6] = {fuzz_chance(m, 50) ? fuzz_image(m, 1 + (int)fuzz_below(m, 3)) : fuzz_any_where(m, fuzz_is_matrices)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    samba_attrs attrs = fuzz_none();
    fuzz_set_real(op, &attrs, "eps", 0.125);
    for (int i = 1; i < 5; i++)
        inputs[i] = fuzz_fresh(m, i == 4 ? "p" : "x", (samba_dtype)x.dtype, 1, x.shape + 1);
    inputs[5] = fuzz_chance(m, 70) ? fuzz_constant(m, SAMBA_FLOAT64, (double)fuzz_chance(m, 65))
                                   : fuzz_fresh(m, "m", SAMBA_FLOAT64, 0, NULL);
    return fuzz_add(m, op, 6, inputs, &attrs);
}

static samba_ref draw_moments(fuzz_maker *m, samba_op op)
{
    samba_ref x = fuzz_chance(m, 50) ? fuzz_image(m, 1 + (int)fuzz_below(m, 3)) : fuzz_any_where(m, fuzz_is_matrices);
    samba_attrs attrs = fuzz_none();
    return x == SAMBA_NONE ? x : fuzz_add(m, op, 1, &x, &attrs);
}

static samba_ref draw_dropout(fuzz_maker *m, samba_op op)
{
    samba_attrs attrs = fuzz_none();
    samba_ref inputs[3] = {fuzz_any_where(m, fuzz_is_floating)};
    inputs[1] = fuzz_chance(m, 50) ? fuzz_constant(m, SAMBA_FLOAT64, (double)fuzz_below(m, 4) / 4)
                                   : fuzz_fresh(m, "r", SAMBA_FLOAT64, 0, NULL);
    inputs[2] = fuzz_fresh(m, "s", SAMBA_INT64, 0, NULL);
    return fuzz_add(m, op, 3, inputs, &attrs);
}

static samba_ref draw_cross_entropy(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[2] = {fuzz_any_where(m, fuzz_is_matrices)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    int64_t shape[SAMBA_MAX_RANK] = {x.shape[0]};
    memcpy(shape + 1, x.shape + 2, sizeof *shape * (size_t)(x.rank - 2));
    inputs[1] = fuzz_index(m, x.shape[1], x.rank - 1, shape);
    samba_attrs attrs = fuzz_none();
    fuzz_set_int(op, &attrs, "ignore_index", fuzz_chance(m, 50) ? -100 : 0);
    fuzz_set_int(op, &attrs, "reduction", fuzz_below(m, 3));
    fuzz_set_real(op, &attrs, "label_smoothing", fuzz_chance(m, 60) ? 0 : 0.25);
    return fuzz_add(m, op, 2, inputs, &attrs);
}

/* Labels of which the first are targets: one less than an index. */
static samba_ref draw_margin(fuzz_maker *m, samba_op op)
{
    samba_attrs attrs = fuzz_none();
    samba_ref inputs[3] = {fuzz_any_where(m, fuzz_has_dims)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    if (x.dtype != SAMBA_FLOAT32 && x.dtype != SAMBA_FLOAT64)
        return SAMBA_NONE;
    samba_ref index = fuzz_index(m, x.shape[x.rank - 1], x.rank, x.shape);
    if (index == SAMBA_NONE || samba_node_at(m->graph, index)->dtype != SAMBA_INT64)
        return SAMBA_NONE;
    inputs[1] = fuzz_add(m, SAMBA_OP_sub, 2, (samba_ref[]){index, fuzz_constant(m, SAMBA_INT64, 1)}, &attrs);
    if (inputs[1] == SAMBA_NONE)
        return SAMBA_NONE;
    x.shape[x.rank - 1] = 1;
    if (samba_ops[op].arity == 3)
        inputs[2] = fuzz_fresh(m, "x", (samba_dtype)x.dtype, x.rank, x.shape);
    return fuzz_add(m, op, samba_ops[op].arity, inputs, &attrs);
}

static samba_ref draw_embedding(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[2] = {fuzz_any_where(m, fuzz_is_matrices)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    int64_t shape[SAMBA_MAX_RANK];
    int rank = fuzz_shape(m, shape);
    samba_attrs attrs = fuzz_none();
    inputs[1] = fuzz_index(m, x.shape[0], rank, shape);
    return fuzz_add(m, op, samba_ops[op].arity, inputs, &attrs);
}

/* gather(x, index), scatter(x, index, values): index has x's rank and, but for the dim, no greater sizes. */
static samba_ref draw_gather(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[3] = {fuzz_any_where(m, fuzz_has_dims)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    samba_attrs attrs = fuzz_none();
    int64_t dim = fuzz_below(m, x.rank), shape[SAMBA_MAX_RANK];
    memcpy(shape, x.shape, sizeof shape);
    shape[dim] = 1 + fuzz_below(m, 8);
    fuzz_set_int(op, &attrs, "dim", dim);
    fuzz_set_int(op, &attrs, "reduce", 1);
    inputs[1] = fuzz_index(m, x.shape[dim], x.rank, shape);
    if (samba_ops[op].arity == 3)
        inputs[2] = fuzz_fresh(m, "x", (samba_dtype)x.dtype, x.rank, shape);
    return fuzz_add(m, op, samba_ops[op].arity, inputs, &attrs);
}

static samba_ref draw_attention(fuzz_maker *m, samba_op op)
{
    int64_t b = fuzz_batch(m, 2), shared = fuzz_size(m, 2), h = shared * fuzz_size(m, 2), tq = fuzz_size(m, 9),
            tk = fuzz_chance(m, 50) ? tq : fuzz_size(m, 9), d = fuzz_size(m, 8);
    samba_dtype dtype = fuzz_float(m);
    samba_ref inputs[6] = {SAMBA_NONE};
    for (int i = 0; i < 6; i++) { /* queries that were computed */
        samba_ref ref = fuzz_any(m);
        const samba_node *node = samba_node_at(m->graph, ref);
        if (node->rank == 4 && node->dtype == dtype && node_numel(node) > 0) {
            inputs[0] = ref;
            b = node->shape[0], h = node->shape[1], tq = node->shape[2], d = node->shape[3];
            shared = h % 2 == 0 ? h / 2 : h;
        }
    }
    if (inputs[0] == SAMBA_NONE)
        inputs[0] = fuzz_fresh(m, "x", dtype, 4, (int64_t[]){b, h, tq, d});
    inputs[1] = fuzz_fresh(m, "x", dtype, 4, (int64_t[]){b, shared, tk, d});
    inputs[2] = fuzz_fresh(m, "x", dtype, 4, (int64_t[]){b, shared, tk, 1 + fuzz_below(m, 8)});
    bool masked = fuzz_chance(m, 40);
    if (masked)
        inputs[3] = fuzz_fresh(m, "x", fuzz_chance(m, 50) ? SAMBA_BOOL : dtype, 2, (int64_t[]){tq, tk});
    samba_attrs attrs = fuzz_none();
    fuzz_set_int(op, &attrs, "causal", fuzz_below(m, 2));
    fuzz_set_int(op, &attrs, "masked", masked);
    fuzz_set_real(op, &attrs, "scale", 0.5);
    int count = 3 + masked;
    if (fuzz_chance(m, 25)) {
        fuzz_set_int(op, &attrs, "dropout", 1);
        inputs[count++] = fuzz_chance(m, 50) ? fuzz_constant(m, SAMBA_FLOAT64, 0.25) : fuzz_fresh(m, "r", SAMBA_FLOAT64, 0, NULL);
        inputs[count++] = fuzz_fresh(m, "s", SAMBA_INT64, 0, NULL);
    }
    return fuzz_add(m, op, count, inputs, &attrs);
}

static samba_ref draw_resample(fuzz_maker *m, samba_op op)
{
    samba_ref input = fuzz_image(m, 2);
    samba_attrs attrs = fuzz_none();
    if (input == SAMBA_NONE)
        return SAMBA_NONE;
    fuzz_set_dims(op, &attrs, "size", 2, (int64_t[]){fuzz_size(m, 8), fuzz_size(m, 8)});
    fuzz_set_int(op, &attrs, "mode", fuzz_below(m, 4));
    fuzz_set_int(op, &attrs, "align_corners", fuzz_below(m, 2));
    return fuzz_add(m, op, 1, &input, &attrs);
}

static samba_ref draw_grid_sample(fuzz_maker *m, samba_op op)
{
    const int rank = fuzz_chance(m, 30) ? 5 : 4;
    const samba_dtype dtype = fuzz_chance(m, 50) ? SAMBA_FLOAT32 : SAMBA_FLOAT64;
    int64_t x[5] = {1 + fuzz_below(m, 3), 1 + fuzz_below(m, 3)}, grid[5] = {x[0]}, y[5] = {x[0], x[1]};
    for (int i = 2; i < rank; i++) {
        x[i] = 1 + fuzz_below(m, 6);
        y[i] = grid[i - 1] = fuzz_below(m, 5);
    }
    grid[rank - 1] = rank - 2;
    samba_attrs attrs = fuzz_none();
    fuzz_set_int(op, &attrs, "mode", rank == 4 && fuzz_chance(m, 30) ? 3 : fuzz_chance(m, 30) ? 0 : 2);
    fuzz_set_int(op, &attrs, "padding", fuzz_below(m, 3));
    fuzz_set_int(op, &attrs, "align_corners", fuzz_below(m, 2));
    samba_ref places = fuzz_fresh(m, "x", dtype, rank, grid), image, dy;
    if (op == SAMBA_OP_grid_sample_input_grad) {
        fuzz_set_dims(op, &attrs, "shape", rank, x);
        dy = fuzz_fresh(m, "x", dtype, rank, y);
        return fuzz_add(m, op, 2, (samba_ref[]){places, dy}, &attrs);
    }
    image = fuzz_fresh(m, "x", dtype, rank, x);
    dy = op == SAMBA_OP_grid_sample ? SAMBA_NONE : fuzz_fresh(m, "x", dtype, rank, y);
    return fuzz_add(m, op, op == SAMBA_OP_grid_sample ? 2 : 3, (samba_ref[]){image, places, dy}, &attrs);
}

/* A complex line is a real one with a last dim of 2. */
static samba_ref draw_fft(fuzz_maker *m, samba_op op)
{
    const samba_dtype dtype = fuzz_chance(m, 50) ? SAMBA_FLOAT32 : SAMBA_FLOAT64;
    const int64_t form = fuzz_below(m, 3), length = 1 + fuzz_below(m, 18);
    const int dims = 1 + (int)fuzz_below(m, 3);
    const int64_t dim = fuzz_below(m, dims);
    int64_t shape[4] = {fuzz_below(m, 4), 1 + fuzz_below(m, 3), 1 + fuzz_below(m, 3)};
    shape[dim] = form == 2 ? length / 2 + 1 : length;
    shape[dims] = 2;
    samba_attrs attrs = fuzz_none();
    fuzz_set_int(op, &attrs, "form", form);
    fuzz_set_int(op, &attrs, "inverse", fuzz_below(m, 2));
    fuzz_set_int(op, &attrs, "dim", dim);
    fuzz_set_int(op, &attrs, "length", length);
    fuzz_set_real(op, &attrs, "scale", 0.25);
    fuzz_set_real(op, &attrs, "pairs", form > 0 && fuzz_chance(m, 30) ? 0.5 : 1);
    samba_ref x = fuzz_fresh(m, "x", dtype, dims + (form != 1), shape);
    return fuzz_add(m, op, 1, &x, &attrs);
}

/* An operator that nothing here knows: operands that are there or fit beside the first, small numbers for attributes. */
static samba_ref draw_unknown(fuzz_maker *m, samba_op op)
{
    samba_attrs attrs = fuzz_none();
    samba_ref inputs[8] = {fuzz_any(m)};
    int arity = samba_ops[op].arity < 0 ? 1 + (int)fuzz_below(m, 3) : samba_ops[op].arity;
    if (arity > 8 || arity == 0)
        return SAMBA_NONE;
    samba_node first = *samba_node_at(m->graph, inputs[0]);
    for (int i = 1; i < arity; i++)
        inputs[i] = fuzz_chance(m, 40)                     ? fuzz_any(m)
                    : fuzz_chance(m, 50) && first.rank > 1 ? fuzz_fresh(m, "p", (samba_dtype)first.dtype, 1, first.shape + 1)
                                                           : fuzz_beside(m, (samba_dtype)first.dtype, &first, "x");
    const samba_attrs_facts *facts = &samba_attrs_table[samba_ops[op].attrs];
    for (int i = 0; i < facts->field_count; i++)
        if (facts->fields[i].kind == SAMBA_FIELD_INT)
            fuzz_set_int(op, &attrs, facts->fields[i].name, fuzz_below(m, 3));
        else if (facts->fields[i].kind == SAMBA_FIELD_REAL)
            fuzz_set_real(op, &attrs, facts->fields[i].name, 0.5);
    return fuzz_add(m, op, arity, inputs, &attrs);
}

static const struct {
    const char *name; /* of the operator, or what its name begins with and '*' */
    recipe *draw;
} recipes[] = {{"matmul", draw_matmul},
               {"conv*", draw_conv},
               {"max_pool*", draw_pool},
               {"avg_pool*", draw_pool},
               {"softmax", draw_along},
               {"log_softmax", draw_along},
               {"sort", draw_along},
               {"argsort", draw_along},
               {"cum*", draw_along},
               {"logcumsumexp", draw_along},
               {"layer_norm", draw_norm},
               {"rms_norm", draw_norm},
               {"group_norm", draw_norm},
               {"cross_entropy", draw_cross_entropy},
               {"multilabel_margin*", draw_margin},
               {"embedding", draw_embedding},
               {"gather", draw_gather},
               {"scatter", draw_gather},
               {"batch_norm", draw_batch_norm},
               {"sync_batch_norm", draw_batch_norm},
               {"sync_batch_moments", draw_moments},
               {"dropout", draw_dropout},
               {"flip", draw_reduce},
               {"attention", draw_attention},
               {"resample2d", draw_resample},
               {"fft", draw_fft},
               {"grid_sample*", draw_grid_sample},
               {"triangular_solve", fuzz_matrices},
               {"lu_*", fuzz_matrices},
               {"solve", fuzz_matrices},
               {"inv", fuzz_matrices},
               {"det", fuzz_matrices},
               {"slogdet", fuzz_matrices},
               {"matrix_exp", fuzz_matrices},
               {"cholesky", fuzz_matrices},
               {"qr*", fuzz_matrices},
               {"eigh*", fuzz_matrices},
               {"svd*", fuzz_matrices},
               {"pinv", fuzz_matrices},
               {"lstsq", fuzz_matrices}};

static recipe *recipe_of(samba_op op)
{
    const char *name = samba_ops[op].name;
    for (int i = 0; i < SAMBA_COUNT(recipes); i++) {
        size_t length = strlen(recipes[i].name);
        bool begins = recipes[i].name[length - 1] == '*';
        if (begins ? strncmp(name, recipes[i].name, length - 1) == 0 : strcmp(name, recipes[i].name) == 0)
            return recipes[i].draw;
    }
    samba_op_class class_ = samba_ops[op].class_;
    return class_ == SAMBA_MAP            ? draw_map
           : class_ == SAMBA_REDUCE_CLASS ? draw_reduce
           : class_ == SAMBA_VIEW         ? fuzz_view
           : class_ == SAMBA_MOVE         ? draw_move
                                          : draw_unknown;
}

/* Left out: attention_lse comes only beside attention; cache_attention and stored_linear have no gradient
 * (tests/unit/random_models.h and test_stored.c draw them); a custom_gradient is what it says and no derivative
 * (test_custom_gradient.c), and that of ctc_loss takes log_softmax for granted (test_fourier.c). What needs LAPACK is drawn
 * where this build has it. */
static bool is_left_out(samba_op op)
{
#ifndef FUZZ_MATRICES
    if (recipe_of(op) == fuzz_matrices)
        return true;
#endif
    return op == SAMBA_OP_attention_lse || op == SAMBA_OP_cache_attention || op == SAMBA_OP_stored_linear ||
           op == SAMBA_OP_ctc_loss || op == SAMBA_OP_ctc_loss_grad || op == SAMBA_OP_grad_output ||
           op == SAMBA_OP_custom_gradient;
}

/* Of a hundred chances that one of linear algebra is drawn, these are taken: there are many, and graphs with one are no ONNX. */
enum { MATRICES = 30 };

static samba_ref draw_operator(fuzz_maker *m)
{
    static const int weights[] = {[SAMBA_MAP] = 40,     [SAMBA_REDUCE_CLASS] = 9, [SAMBA_VIEW] = 18,     [SAMBA_MOVE] = 6,
                                  [SAMBA_CONTRACT] = 7, [SAMBA_KERNEL] = 9,       [SAMBA_COMPOSITE] = 11};
    int64_t drawn = fuzz_below(m, 100);
    samba_op_class class_ = SAMBA_MAP;
    for (int k = 0; k < SAMBA_COUNT(weights); k++) {
        if (drawn >= 0 && drawn < weights[k])
            class_ = (samba_op_class)k;
        drawn -= weights[k];
    }
    samba_op op;
    do
        op = (samba_op)fuzz_below(m, SAMBA_OP_COUNT);
    while (samba_ops[op].class_ != class_ || is_left_out(op) || (recipe_of(op) == fuzz_matrices && !fuzz_chance(m, MATRICES)));
    return recipe_of(op)(m, op);
}

/* A buffer that has the type of a value, so that the value may be assigned to it. */
static samba_ref draw_buffer(fuzz_maker *m)
{
    samba_node like = *samba_node_at(m->graph, fuzz_any(m));
    return fuzz_buffer(m, "b", (samba_dtype)like.dtype, like.rank, like.shape);
}

samba_ref fuzz_draw(fuzz_maker *m)
{
    if (fuzz_chance(m, 4))
        return fuzz_input(m, m->dtype), SAMBA_NONE;
    if (fuzz_chance(m, 2))
        return draw_buffer(m), SAMBA_NONE;
    if (fuzz_chance(m, 12))
        m->focus = fuzz_chain(m, fuzz_any(m));
    samba_ref made = fuzz_chance(m, 13) ? fuzz_layer(m) : draw_operator(m);
    m->focus = SAMBA_NONE;
    if (made != SAMBA_NONE && fuzz_chance(m, 12))
        fuzz_chain(m, made);
    return made;
}
