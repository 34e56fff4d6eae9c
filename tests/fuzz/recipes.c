/* SPDX-License-Identifier: Apache-2.0
 *
 * How to draw operands and attributes of an operator, by its class and by the fields that its attributes have; a few operators want shapes of their
 * own. Whatever comes out is only a proposal: fuzz_add takes it or not. */
#include "generate.h"

typedef samba_ref recipe(fuzz_maker *m, samba_op op);

/* ---- attributes by the names of their fields: kinds come and go ---- */
static void *field(samba_op op, samba_attrs *attrs, const char *name, samba_field_kind kind)
{
    const samba_attrs_facts *facts = &samba_attrs_table[samba_ops[op].attrs];
    char *place = (char *)attrs;
    for (int i = 0; i < facts->field_count; i++) {
        if (strcmp(facts->fields[i].name, name) == 0 && facts->fields[i].kind == kind)
            return place;
        place += samba_field_size(facts->fields[i].kind);
    }
    return NULL;
}

static void set_int(samba_op op, samba_attrs *attrs, const char *name, int64_t value)
{
    int64_t *place = field(op, attrs, name, SAMBA_FIELD_INT);
    if (place)
        *place = value;
}

static void set_real(samba_op op, samba_attrs *attrs, const char *name, double value)
{
    double *place = field(op, attrs, name, SAMBA_FIELD_REAL);
    if (place)
        *place = value;
}

static void set_dims(samba_op op, samba_attrs *attrs, const char *name, int64_t count, const int64_t *at)
{
    samba_dims *place = field(op, attrs, name, SAMBA_FIELD_DIMS);
    if (place) {
        place->count = count;
        memcpy(place->at, at, sizeof *at * (size_t)count);
    }
}

static samba_attrs none(void)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    return attrs;
}

/* ---- operands ---- */
static int64_t draw_size(fuzz_maker *m)
{
    int64_t kind = fuzz_below(m, 100);
    return kind < 2 ? 0 : kind < 18 ? 1 : kind < 75 ? 2 + fuzz_below(m, 6) : kind < 96 ? 8 + fuzz_below(m, 20) : 40 + fuzz_below(m, 60);
}

static int draw_shape(fuzz_maker *m, int64_t *shape)
{
    int rank = (int)(fuzz_chance(m, 70) ? 1 + fuzz_below(m, 3) : fuzz_below(m, 6));
    int64_t numel = 1;
    for (int d = 0; d < rank; d++) {
        shape[d] = draw_size(m);
        if (numel * shape[d] > 1500)
            shape[d] = 1 + fuzz_below(m, 2);
        numel *= shape[d] > 0 ? shape[d] : 1;
    }
    return rank;
}

static samba_ref draw_input(fuzz_maker *m, samba_dtype dtype)
{
    int64_t shape[SAMBA_MAX_RANK];
    int rank = draw_shape(m, shape);
    return fuzz_fresh(m, fuzz_chance(m, 20) ? "p" : "x", dtype, rank, shape);
}

void fuzz_first(fuzz_maker *m)
{
    for (int64_t i = 1 + fuzz_below(m, 3); i >= 0; i--)
        draw_input(m, m->dtype);
}

/* A value there is, the latest more often; inputs are values too. */
static samba_ref any(fuzz_maker *m)
{
    int64_t count = m->graph->node_count, back = fuzz_chance(m, 60) && count > 6 ? 6 : count;
    return (samba_ref)(count - 1 - fuzz_below(m, back));
}

static samba_ref any_where(fuzz_maker *m, bool (*right)(const samba_node *node))
{
    for (int i = 0; i < 12; i++) {
        samba_ref ref = any(m);
        if (right(samba_node_at(m->graph, ref)))
            return ref;
    }
    return SAMBA_NONE;
}

static bool floating(const samba_node *node) { return samba_dtype_is_floating_point((samba_dtype)node->dtype); }
static bool has_dims(const samba_node *node) { return node->rank > 0; }
static bool matrices(const samba_node *node) { return floating(node) && node->rank >= 2; }
static bool integral(const samba_node *node) { return !floating(node) && node->dtype != SAMBA_BOOL; }
static bool is_boolean(const samba_node *node) { return node->dtype == SAMBA_BOOL; }

static samba_ref constant(fuzz_maker *m, samba_dtype dtype, double value)
{
    samba_attrs attrs = none();
    attrs.constant.dtype = dtype;
    attrs.constant.value = value;
    return fuzz_add(m, SAMBA_OP_constant, 0, NULL, &attrs);
}

/* A line of 0, 1, 2 ... along a dim. */
static samba_ref iota(fuzz_maker *m, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_attrs attrs = none();
    attrs.iota.dtype = dtype;
    attrs.iota.shape.count = rank;
    memcpy(attrs.iota.shape.at, shape, sizeof *shape * (size_t)rank);
    attrs.iota.dim = fuzz_below(m, rank);
    return fuzz_add(m, SAMBA_OP_iota, 0, NULL, &attrs);
}

/* One that broadcasts against `like`: there already, or new, in its shape, without leading dims or with sizes of 1. */
static samba_ref beside(fuzz_maker *m, samba_dtype dtype, const samba_node *like, const char *kind)
{
    int64_t shape[SAMBA_MAX_RANK];
    int drop = like->rank > 0 && fuzz_chance(m, 30) ? (int)fuzz_below(m, like->rank + 1) : 0, rank = like->rank - drop;
    for (int i = 0; i < 10 && fuzz_chance(m, 80); i++) {
        samba_ref ref = any(m);
        const samba_node *node = samba_node_at(m->graph, ref);
        bool broadcasts = node->dtype == dtype && node->rank <= like->rank;
        for (int d = 0; d < node->rank && broadcasts; d++)
            broadcasts = node->shape[d] == 1 || node->shape[d] == like->shape[like->rank - node->rank + d];
        if (broadcasts)
            return ref;
    }
    for (int d = 0; d < rank; d++)
        shape[d] = fuzz_chance(m, 20) ? 1 : like->shape[drop + d];
    if (fuzz_chance(m, 25)) {
        bool positive = kind[0] == FUZZ_POSITIVE || dtype == SAMBA_UINT8, whole = !samba_dtype_is_floating_point(dtype);
        double value = (double)(positive ? 1 + fuzz_below(m, 7) : fuzz_below(m, 13) - 6) / 4;
        return constant(m, dtype, dtype == SAMBA_BOOL ? value > 0 : whole ? trunc(value) + (positive && value < 1) : value);
    }
    if (fuzz_chance(m, 8) && rank > 0 && kind[0] == FUZZ_ANY && dtype != SAMBA_BOOL)
        return iota(m, dtype, rank, shape);
    return fuzz_fresh(m, kind, dtype, rank, shape);
}

/* ---- by class ---- */
static samba_ref draw_map(fuzz_maker *m, samba_op op)
{
    const char *name = samba_ops[op].name;
    samba_attrs attrs = none();
    samba_ref inputs[4];
    int arity = samba_ops[op].arity;
    if (op == SAMBA_OP_random) {
        int64_t shape[SAMBA_MAX_RANK];
        set_dims(op, &attrs, "shape", draw_shape(m, shape), shape);
        inputs[0] = constant(m, SAMBA_INT64, (double)fuzz_below(m, 1000));
        return fuzz_add(m, op, 1, inputs, &attrs);
    }
    if (arity > 4)
        return SAMBA_NONE;
    bool bits = strstr(name, "bitwise") || strstr(name, "shift"), shift = strstr(name, "shift") != NULL, logical = strstr(name, "logical") != NULL;
    bool condition = op == SAMBA_OP_where;
    inputs[0] = condition ? any_where(m, is_boolean) : bits ? any_where(m, fuzz_chance(m, 70) ? integral : is_boolean) : any(m);
    if (condition && (inputs[0] == SAMBA_NONE || fuzz_chance(m, 30))) {
        samba_ref like = any(m);
        inputs[0] = beside(m, SAMBA_BOOL, samba_node_at(m->graph, like), "x");
    }
    if (inputs[0] == SAMBA_NONE)
        inputs[0] = bits ? draw_input(m, logical ? SAMBA_BOOL : SAMBA_INT32) : any(m);
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node first = *samba_node_at(m->graph, inputs[0]);
    if (op == SAMBA_OP_cast) {
        int64_t *dtype = field(op, &attrs, "dtype", SAMBA_FIELD_DTYPE);
        *dtype = fuzz_below(m, SAMBA_DTYPE_COUNT);
    }
    samba_dtype dtype = (samba_dtype)first.dtype;
    if (condition) {
        inputs[1] = beside(m, m->dtype, &first, "x");
        dtype = m->dtype;
    }
    if (arity == 1 && !condition && samba_ops[op].infer && fuzz_chance(m, 25) && floating(&first)) /* where it may need a domain: log, sqrt ... */
        inputs[0] = beside(m, dtype, &first, "p");
    for (int i = condition ? 2 : 1; i < arity; i++) {
        bool positive = shift || strstr(name, "div") || strstr(name, "remainder") || strstr(name, "fmod") || fuzz_chance(m, 25);
        inputs[i] = beside(m, dtype, &first, positive ? "p" : "x");
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
    samba_ref input = any_where(m, has_dims);
    if (input == SAMBA_NONE)
        return SAMBA_NONE;
    samba_attrs attrs = none();
    int64_t dims[SAMBA_MAX_RANK], count = 0;
    int rank = samba_node_at(m->graph, input)->rank;
    for (int d = 0; d < rank; d++)
        if (fuzz_chance(m, 45))
            dims[count++] = d;
    if (count == 0)
        dims[count++] = fuzz_below(m, rank);
    set_dims(op, &attrs, "dims", count, dims);
    return fuzz_add(m, op, 1, &input, &attrs);
}

static void shuffle(fuzz_maker *m, int64_t count, int64_t *at)
{
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t k = fuzz_below(m, i + 1), swap = at[i];
        at[i] = at[k];
        at[k] = swap;
    }
}

static samba_ref draw_view(fuzz_maker *m, samba_op op)
{
    samba_ref input = any(m);
    samba_node node = *samba_node_at(m->graph, input);
    samba_attrs attrs = none();
    int64_t a[SAMBA_MAX_RANK], b[SAMBA_MAX_RANK], c[SAMBA_MAX_RANK], numel = node_numel(&node);
    if (op == SAMBA_OP_permute) {
        for (int d = 0; d < node.rank; d++)
            a[d] = d;
        shuffle(m, node.rank, a);
        set_dims(op, &attrs, "dims", node.rank, a);
    } else if (op == SAMBA_OP_reshape) { /* factors of the number of elements, in any order */
        int rank = 0;
        int64_t left = numel;
        for (int64_t f = 2; f <= left && left > 0 && rank < 5; f++)
            while (left % f == 0 && rank < 5) {
                a[rank++] = f;
                left /= f;
            }
        while (rank > 1 && fuzz_chance(m, 50)) { /* two factors become one size */
            a[rank - 2] *= a[rank - 1];
            rank--;
        }
        if (rank == 0 || left != 1)
            a[rank++] = left;
        if (rank < 6 && fuzz_chance(m, 30))
            a[rank++] = 1;
        shuffle(m, rank, a);
        set_dims(op, &attrs, "shape", rank, a);
    } else if (op == SAMBA_OP_expand) {
        int more = node.rank < 5 ? (int)fuzz_below(m, 2) : 0;
        for (int d = 0; d < more; d++)
            a[d] = 1 + fuzz_below(m, 4);
        for (int d = 0; d < node.rank; d++)
            a[more + d] = node.shape[d] == 1 && fuzz_chance(m, 70) ? 1 + fuzz_below(m, 9) : node.shape[d];
        set_dims(op, &attrs, "shape", node.rank + more, a);
    } else if (op == SAMBA_OP_slice) {
        for (int d = 0; d < node.rank; d++) {
            bool whole = node.shape[d] == 0 || fuzz_chance(m, 40);
            a[d] = whole ? 0 : fuzz_below(m, node.shape[d]);
            b[d] = whole ? node.shape[d] : a[d] + 1 + fuzz_below(m, node.shape[d] - a[d]);
            c[d] = fuzz_chance(m, 70) ? 1 : 1 + fuzz_below(m, 3);
        }
        set_dims(op, &attrs, "start", node.rank, a);
        set_dims(op, &attrs, "stop", node.rank, b);
        set_dims(op, &attrs, "step", node.rank, c);
    }
    return fuzz_add(m, op, 1, &input, &attrs);
}

static samba_ref draw_pad(fuzz_maker *m, samba_op op)
{
    samba_ref input = any(m);
    int rank = samba_node_at(m->graph, input)->rank;
    samba_attrs attrs = none();
    int64_t a[SAMBA_MAX_RANK], b[SAMBA_MAX_RANK], c[SAMBA_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        a[d] = fuzz_chance(m, 50) ? 0 : fuzz_below(m, 3);
        b[d] = fuzz_chance(m, 50) ? 0 : fuzz_below(m, 3);
        c[d] = fuzz_chance(m, 85) ? 0 : fuzz_below(m, 3);
    }
    set_dims(op, &attrs, "before", rank, a);
    set_dims(op, &attrs, "after", rank, b);
    set_dims(op, &attrs, "interior", rank, c);
    set_real(op, &attrs, "value", fuzz_chance(m, 60) || !floating(samba_node_at(m->graph, input)) ? 0 : (double)fuzz_below(m, 5) / 2 - 1);
    return fuzz_add(m, op, 1, &input, &attrs);
}

static samba_ref draw_concat(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[4] = {any_where(m, has_dims)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node first = *samba_node_at(m->graph, inputs[0]);
    int64_t dim = fuzz_below(m, first.rank), shape[SAMBA_MAX_RANK];
    int count = 1 + (int)fuzz_below(m, 4);
    for (int i = 1; i < count; i++) {
        inputs[i] = SAMBA_NONE;
        for (int k = 0; k < 10 && inputs[i] == SAMBA_NONE; k++) {
            samba_ref ref = any(m);
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
    samba_attrs attrs = none();
    set_int(op, &attrs, "dim", dim);
    return fuzz_add(m, op, count, inputs, &attrs);
}

static samba_ref draw_move(fuzz_maker *m, samba_op op) { return op == SAMBA_OP_concat ? draw_concat(m, op) : draw_pad(m, op); }

/* ---- operators with shapes of their own ---- */
static samba_ref draw_matmul(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[2] = {any_where(m, matrices), SAMBA_NONE};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node a = *samba_node_at(m->graph, inputs[0]);
    bool swapped = fuzz_chance(m, 30);
    int64_t k = a.shape[a.rank - (swapped ? 2 : 1)], shape[SAMBA_MAX_RANK];
    for (int i = 0; i < 8 && inputs[1] == SAMBA_NONE; i++) {
        samba_ref ref = any(m);
        const samba_node *b = samba_node_at(m->graph, ref);
        if (b->dtype == a.dtype && b->rank >= 2 && b->shape[b->rank - (swapped ? 1 : 2)] == k)
            inputs[1] = ref;
    }
    if (inputs[1] == SAMBA_NONE) {
        int rank = fuzz_chance(m, 50) ? 2 : a.rank;
        memcpy(shape, a.shape, sizeof shape);
        shape[rank - (swapped ? 1 : 2)] = k;
        shape[rank - (swapped ? 2 : 1)] = 1 + draw_size(m) % 24;
        inputs[1] = fuzz_fresh(m, "x", (samba_dtype)a.dtype, rank, shape);
    }
    if (swapped) {
        samba_ref swap = inputs[0];
        inputs[0] = inputs[1];
        inputs[1] = swap;
    }
    samba_attrs attrs = none();
    return fuzz_add(m, op, 2, inputs, &attrs);
}

/* An image of `dims` dims of space: a value there is, or a new input. */
static samba_ref image(fuzz_maker *m, int dims)
{
    for (int i = 0; i < 10; i++) {
        samba_ref ref = any(m);
        const samba_node *node = samba_node_at(m->graph, ref);
        if (node->rank == dims + 2 && floating(node) && node->shape[1] > 0)
            return ref;
    }
    int64_t shape[SAMBA_MAX_RANK] = {1 + fuzz_below(m, 3), 1 + fuzz_below(m, 6)};
    for (int d = 0; d < dims; d++)
        shape[2 + d] = dims == 3 ? 1 + fuzz_below(m, 6) : 1 + fuzz_below(m, 14);
    return fuzz_fresh(m, "x", floating(&(samba_node){.dtype = (uint8_t)m->dtype}) ? m->dtype : SAMBA_FLOAT32, dims + 2, shape);
}

static void window(fuzz_maker *m, samba_op op, samba_attrs *attrs, int dims, const int64_t *kernel)
{
    int64_t stride[3], padding[3], dilation[3];
    for (int d = 0; d < dims; d++) {
        stride[d] = 1 + fuzz_below(m, 3);
        dilation[d] = fuzz_chance(m, 80) ? 1 : 2;
        padding[d] = fuzz_below(m, kernel[d] / 2 + 1);
    }
    set_dims(op, attrs, "stride", dims, stride);
    set_dims(op, attrs, "padding", dims, padding);
    set_dims(op, attrs, "dilation", dims, dilation);
}

static int dims_of_name(const char *name) { return strstr(name, "3d") ? 3 : strstr(name, "1d") ? 1 : 2; }

static samba_ref draw_conv(fuzz_maker *m, samba_op op)
{
    int dims = dims_of_name(samba_ops[op].name);
    samba_ref inputs[2] = {image(m, dims), SAMBA_NONE};
    if (strstr(samba_ops[op].name, "grad") || inputs[0] == SAMBA_NONE)
        return SAMBA_NONE; /* gradients make those */
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    samba_attrs attrs = none();
    int64_t groups = fuzz_chance(m, 70) ? 1 : fuzz_chance(m, 50) ? x.shape[1] : 2, kernel[SAMBA_MAX_RANK];
    groups = groups > 0 && x.shape[1] % groups == 0 ? groups : 1;
    kernel[0] = groups * (1 + fuzz_below(m, 5));
    kernel[1] = x.shape[1] / groups;
    for (int d = 0; d < dims; d++)
        kernel[2 + d] = 1 + fuzz_below(m, 4);
    inputs[1] = fuzz_fresh(m, "x", (samba_dtype)x.dtype, dims + 2, kernel);
    window(m, op, &attrs, dims, kernel + 2);
    set_int(op, &attrs, "groups", groups);
    return fuzz_add(m, op, 2, inputs, &attrs);
}

static samba_ref draw_pool(fuzz_maker *m, samba_op op)
{
    int dims = dims_of_name(samba_ops[op].name);
    samba_ref input = image(m, dims);
    if (strstr(samba_ops[op].name, "grad") || input == SAMBA_NONE)
        return SAMBA_NONE;
    samba_attrs attrs = none();
    int64_t kernel[3];
    for (int d = 0; d < dims; d++)
        kernel[d] = 1 + fuzz_below(m, 4);
    set_dims(op, &attrs, "kernel", dims, kernel);
    window(m, op, &attrs, dims, kernel);
    if (strncmp(samba_ops[op].name, "avg", 3) == 0)
        set_dims(op, &attrs, "dilation", dims, (int64_t[]){1, 1, 1});
    set_int(op, &attrs, "ceil_mode", fuzz_below(m, 2));
    set_int(op, &attrs, "count_include_pad", fuzz_below(m, 2));
    return fuzz_add(m, op, 1, &input, &attrs);
}

/* softmax, sort, cumsum ...: one operand and a dim of it. */
static samba_ref draw_along(fuzz_maker *m, samba_op op)
{
    samba_ref input = any_where(m, has_dims);
    if (input == SAMBA_NONE)
        return SAMBA_NONE;
    const samba_node *node = samba_node_at(m->graph, input);
    samba_attrs attrs = none();
    int64_t dim = fuzz_below(m, node->rank);
    set_int(op, &attrs, "dim", dim);
    set_int(op, &attrs, "count", node->shape[dim] > 0 ? 1 + fuzz_below(m, node->shape[dim]) : 0);
    set_int(op, &attrs, "descending", fuzz_below(m, 2));
    set_int(op, &attrs, "reverse", fuzz_below(m, 2));
    return fuzz_add(m, op, 1, &input, &attrs);
}

static samba_ref draw_norm(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[3] = {any_where(m, matrices)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    samba_attrs attrs = none();
    bool groups = field(op, &attrs, "groups", SAMBA_FIELD_INT) != NULL;
    int dims = groups ? 1 : 1 + (int)fuzz_below(m, x.rank - 1);
    set_int(op, &attrs, "dims", dims);
    set_int(op, &attrs, "groups", fuzz_chance(m, 50) ? 1 : x.shape[1]);
    set_real(op, &attrs, "eps", 0.125);
    for (int i = 1; i < samba_ops[op].arity && i < 3; i++)
        inputs[i] = fuzz_fresh(m, "x", (samba_dtype)x.dtype, dims, groups ? x.shape + 1 : x.shape + x.rank - dims);
    return fuzz_add(m, op, samba_ops[op].arity, inputs, &attrs);
}

/* By its batch or by running statistics, as a number of the call says. */
static samba_ref draw_batch_norm(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[6] = {any_where(m, matrices)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    samba_attrs attrs = none();
    set_real(op, &attrs, "eps", 0.125);
    for (int i = 1; i < 5; i++)
        inputs[i] = fuzz_fresh(m, i == 4 ? "p" : "x", (samba_dtype)x.dtype, 1, x.shape + 1);
    inputs[5] = fuzz_chance(m, 50) ? constant(m, SAMBA_FLOAT64, (double)fuzz_below(m, 2)) : fuzz_fresh(m, "i2_", SAMBA_FLOAT64, 0, NULL);
    return fuzz_add(m, op, 6, inputs, &attrs);
}

/* Of evaluation, where nothing is dropped: the reference has no such mode, but a rate of 0. */
static samba_ref draw_dropout(fuzz_maker *m, samba_op op)
{
    samba_attrs attrs = none();
    samba_ref inputs[3] = {any_where(m, floating), constant(m, SAMBA_FLOAT64, 0), fuzz_fresh(m, "x", SAMBA_INT64, 0, NULL)};
    return fuzz_add(m, op, 3, inputs, &attrs);
}

static samba_ref draw_index(fuzz_maker *m, int64_t end, int rank, const int64_t *shape)
{
    char kind[24];
    snprintf(kind, sizeof kind, "i%lld_", (long long)end);
    return end > 0 ? fuzz_fresh(m, kind, fuzz_chance(m, 50) ? SAMBA_INT64 : SAMBA_INT32, rank, shape) : SAMBA_NONE;
}

static samba_ref draw_cross_entropy(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[2] = {any_where(m, matrices)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    int64_t shape[SAMBA_MAX_RANK] = {x.shape[0]};
    memcpy(shape + 1, x.shape + 2, sizeof *shape * (size_t)(x.rank - 2));
    inputs[1] = draw_index(m, x.shape[1], x.rank - 1, shape);
    samba_attrs attrs = none();
    set_int(op, &attrs, "ignore_index", fuzz_chance(m, 50) ? -100 : 0);
    set_int(op, &attrs, "reduction", fuzz_below(m, 3));
    set_real(op, &attrs, "label_smoothing", fuzz_chance(m, 60) ? 0 : 0.25);
    return fuzz_add(m, op, 2, inputs, &attrs);
}

static samba_ref draw_embedding(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[2] = {any_where(m, matrices)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    int64_t shape[SAMBA_MAX_RANK];
    int rank = draw_shape(m, shape);
    samba_attrs attrs = none();
    inputs[1] = draw_index(m, x.shape[0], rank, shape);
    return fuzz_add(m, op, samba_ops[op].arity, inputs, &attrs);
}

/* gather(x, index), scatter(x, index, values): index has x's rank and, but for the dim, no greater sizes. */
static samba_ref draw_gather(fuzz_maker *m, samba_op op)
{
    samba_ref inputs[3] = {any_where(m, has_dims)};
    if (inputs[0] == SAMBA_NONE)
        return SAMBA_NONE;
    samba_node x = *samba_node_at(m->graph, inputs[0]);
    samba_attrs attrs = none();
    int64_t dim = fuzz_below(m, x.rank), shape[SAMBA_MAX_RANK];
    memcpy(shape, x.shape, sizeof shape);
    shape[dim] = 1 + fuzz_below(m, 8);
    set_int(op, &attrs, "dim", dim);
    set_int(op, &attrs, "reduce", 1);
    inputs[1] = draw_index(m, x.shape[dim], x.rank, shape);
    if (samba_ops[op].arity == 3)
        inputs[2] = fuzz_fresh(m, "x", (samba_dtype)x.dtype, x.rank, shape);
    return fuzz_add(m, op, samba_ops[op].arity, inputs, &attrs);
}

static samba_ref draw_attention(fuzz_maker *m, samba_op op)
{
    int64_t b = 1 + fuzz_below(m, 2), shared = 1 + fuzz_below(m, 2), h = shared * (1 + fuzz_below(m, 2)), tq = 1 + fuzz_below(m, 9),
            tk = fuzz_chance(m, 50) ? tq : 1 + fuzz_below(m, 9), d = 1 + fuzz_below(m, 8);
    samba_dtype dtype = floating(&(samba_node){.dtype = (uint8_t)m->dtype}) ? m->dtype : SAMBA_FLOAT32;
    samba_ref inputs[4] = {SAMBA_NONE};
    for (int i = 0; i < 6; i++) { /* queries that were computed */
        samba_ref ref = any(m);
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
    samba_attrs attrs = none();
    set_int(op, &attrs, "causal", fuzz_below(m, 2));
    set_int(op, &attrs, "masked", masked);
    set_real(op, &attrs, "scale", 0.5);
    return fuzz_add(m, op, 3 + masked, inputs, &attrs);
}

/* An operator that nothing here knows: operands that are there or fit beside the first, small numbers for attributes. */
static samba_ref draw_unknown(fuzz_maker *m, samba_op op)
{
    samba_attrs attrs = none();
    samba_ref inputs[8] = {any(m)};
    int arity = samba_ops[op].arity < 0 ? 1 + (int)fuzz_below(m, 3) : samba_ops[op].arity;
    if (arity > 8 || arity == 0)
        return SAMBA_NONE;
    samba_node first = *samba_node_at(m->graph, inputs[0]);
    for (int i = 1; i < arity; i++)
        inputs[i] = fuzz_chance(m, 40)                    ? any(m)
                    : fuzz_chance(m, 50) && first.rank > 1 ? fuzz_fresh(m, "p", (samba_dtype)first.dtype, 1, first.shape + 1)
                                                          : beside(m, (samba_dtype)first.dtype, &first, "x");
    const samba_attrs_facts *facts = &samba_attrs_table[samba_ops[op].attrs];
    for (int i = 0; i < facts->field_count; i++)
        if (facts->fields[i].kind == SAMBA_FIELD_INT)
            set_int(op, &attrs, facts->fields[i].name, fuzz_below(m, 3));
        else if (facts->fields[i].kind == SAMBA_FIELD_REAL)
            set_real(op, &attrs, facts->fields[i].name, 0.5);
    return fuzz_add(m, op, arity, inputs, &attrs);
}

static const struct {
    const char *name; /* of the operator, or what its name begins with and '*' */
    recipe *draw;
} recipes[] = {{"matmul", draw_matmul}, {"conv*", draw_conv}, {"max_pool*", draw_pool}, {"avg_pool*", draw_pool}, {"softmax", draw_along},
               {"log_softmax", draw_along}, {"sort", draw_along}, {"argsort", draw_along}, {"cum*", draw_along}, {"logcumsumexp", draw_along},
               {"layer_norm", draw_norm}, {"rms_norm", draw_norm}, {"group_norm", draw_norm}, {"cross_entropy", draw_cross_entropy},
               {"embedding", draw_embedding}, {"gather", draw_gather}, {"scatter", draw_gather}, {"batch_norm", draw_batch_norm}, {"dropout", draw_dropout},
               {"attention", draw_attention}};

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
    return class_ == SAMBA_MAP ? draw_map : class_ == SAMBA_REDUCE_CLASS ? draw_reduce : class_ == SAMBA_VIEW ? draw_view : class_ == SAMBA_MOVE ? draw_move : draw_unknown;
}

/* Left out: attention_lse comes only beside attention. */
samba_ref fuzz_draw(fuzz_maker *m)
{
    static const int weights[] = {[SAMBA_MAP] = 44, [SAMBA_REDUCE_CLASS] = 9, [SAMBA_VIEW] = 20, [SAMBA_MOVE] = 7,
                                  [SAMBA_CONTRACT] = 7, [SAMBA_KERNEL] = 7, [SAMBA_COMPOSITE] = 6};
    if (fuzz_chance(m, 4))
        return draw_input(m, m->dtype), SAMBA_NONE;
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
    while (samba_ops[op].class_ != class_ || op == SAMBA_OP_attention_lse);
    return recipe_of(op)(m, op);
}
