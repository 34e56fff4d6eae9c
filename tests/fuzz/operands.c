/* SPDX-License-Identifier: Apache-2.0
 *
 * What recipes share: attributes by the names of their fields, and operands:
 * values that are there, or new inputs of drawn sizes. */
#include "generate.h"

/* ---- attributes by the names of their fields: kinds come and go ---- */
void *fuzz_field(samba_op op, samba_attrs *attrs, const char *name, samba_field_kind kind)
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

void fuzz_set_int(samba_op op, samba_attrs *attrs, const char *name, int64_t value)
{
    int64_t *place = fuzz_field(op, attrs, name, SAMBA_FIELD_INT);
    if (place)
        *place = value;
}

void fuzz_set_real(samba_op op, samba_attrs *attrs, const char *name, double value)
{
    double *place = fuzz_field(op, attrs, name, SAMBA_FIELD_REAL);
    if (place)
        *place = value;
}

void fuzz_set_dims(samba_op op, samba_attrs *attrs, const char *name, int64_t count, const int64_t *at)
{
    samba_dims *place = fuzz_field(op, attrs, name, SAMBA_FIELD_DIMS);
    if (place) {
        place->count = count;
        memcpy(place->at, at, sizeof *at * (size_t)count);
    }
}

samba_attrs fuzz_none(void)
{
    samba_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    return attrs;
}

/* ---- operands ---- */
static int64_t draw_size(fuzz_maker *m)
{
    int64_t kind = fuzz_chance(m, m->ones) ? 2 : fuzz_below(m, 100);
    return kind < 2    ? 0
           : kind < 18 ? 1
           : kind < 75 ? 2 + fuzz_below(m, 6)
           : kind < 96 ? 8 + fuzz_below(m, 20)
                       : 40 + fuzz_below(m, 60);
}

int64_t fuzz_size(fuzz_maker *m, int64_t most) { return fuzz_chance(m, m->ones) ? 1 : 1 + fuzz_below(m, most); }

int64_t fuzz_batch(fuzz_maker *m, int64_t most) { return m->batch_of_one ? 1 : fuzz_size(m, most); }

int fuzz_shape(fuzz_maker *m, int64_t *shape)
{
    int rank = (int)(fuzz_chance(m, 70) ? 1 + fuzz_below(m, 3) : fuzz_below(m, 6));
    int64_t numel = 1;
    for (int d = 0; d < rank; d++) {
        shape[d] = d == 0 && rank > 1 && m->batch_of_one ? 1 : draw_size(m);
        if (numel * shape[d] > 1500)
            shape[d] = 1 + fuzz_below(m, 2);
        numel *= shape[d] > 0 ? shape[d] : 1;
    }
    return rank;
}

samba_ref fuzz_input(fuzz_maker *m, samba_dtype dtype)
{
    int64_t shape[SAMBA_MAX_RANK];
    int rank = fuzz_shape(m, shape);
    return fuzz_fresh(m, fuzz_chance(m, 20) ? "p" : "x", dtype, rank, shape);
}

void fuzz_first(fuzz_maker *m)
{
    for (int64_t i = 1 + fuzz_below(m, 3); i >= 0; i--)
        fuzz_input(m, m->dtype);
}

bool fuzz_is_of_gradient(const samba_graph *graph, samba_ref ref)
{
    uint8_t *reads = calloc((size_t)ref + 1, 1);
    for (int64_t i = 0; reads && i <= (int64_t)ref; i++) {
        const samba_node *node = samba_node_at(graph, (samba_ref)i);
        reads[i] = node->op == SAMBA_OP_grad_output;
        for (int k = 0; k < (node->op == SAMBA_OP_custom_gradient ? 1 : node->arity); k++)
            reads[i] |= reads[node->inputs[k]];
    }
    const bool is = reads && reads[ref];
    free(reads);
    return is;
}

static samba_ref any_node(fuzz_maker *m)
{
    if (m->focus != SAMBA_NONE && fuzz_chance(m, 70))
        return m->focus;
    int64_t count = m->graph->node_count, back = fuzz_chance(m, 60) && count > 6 ? 6 : count;
    return (samba_ref)(count - 1 - fuzz_below(m, back));
}

/* A value there is, the latest more often; inputs are values too. None that belongs to the gradient of a custom_gradient, which
 * layers may have. */
samba_ref fuzz_any(fuzz_maker *m)
{
    samba_ref ref = any_node(m);
    while (fuzz_is_of_gradient(m->graph, ref))
        ref--;
    return ref;
}

samba_ref fuzz_any_where(fuzz_maker *m, bool (*right)(const samba_node *node))
{
    for (int i = 0; i < 12; i++) {
        samba_ref ref = fuzz_any(m);
        if (right(samba_node_at(m->graph, ref)))
            return ref;
    }
    return SAMBA_NONE;
}

bool fuzz_is_floating(const samba_node *node) { return samba_dtype_is_floating_point((samba_dtype)node->dtype); }
bool fuzz_has_dims(const samba_node *node) { return node->rank > 0; }
bool fuzz_is_matrices(const samba_node *node) { return fuzz_is_floating(node) && node->rank >= 2; }
bool fuzz_is_integral(const samba_node *node) { return !fuzz_is_floating(node) && node->dtype != SAMBA_BOOL; }
bool fuzz_is_boolean(const samba_node *node) { return node->dtype == SAMBA_BOOL; }

samba_ref fuzz_constant(fuzz_maker *m, samba_dtype dtype, double value)
{
    samba_attrs attrs = fuzz_none();
    attrs.constant.dtype = dtype;
    attrs.constant.value = value;
    return fuzz_add(m, SAMBA_OP_constant, 0, NULL, &attrs);
}

/* A line of 0, 1, 2 ... along a dim. */
static samba_ref iota(fuzz_maker *m, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_attrs attrs = fuzz_none();
    attrs.iota.dtype = dtype;
    attrs.iota.shape.count = rank;
    memcpy(attrs.iota.shape.at, shape, sizeof *shape * (size_t)rank);
    attrs.iota.dim = fuzz_below(m, rank);
    return fuzz_add(m, SAMBA_OP_iota, 0, NULL, &attrs);
}

/* One that broadcasts against `like`: there already, or new, in its shape, without leading dims or with sizes of 1. */
samba_ref fuzz_beside(fuzz_maker *m, samba_dtype dtype, const samba_node *like, const char *kind)
{
    int64_t shape[SAMBA_MAX_RANK];
    int drop = like->rank > 0 && fuzz_chance(m, 30) ? (int)fuzz_below(m, like->rank + 1) : 0, rank = like->rank - drop;
    for (int i = 0; i < 10 && fuzz_chance(m, 80); i++) {
        samba_ref ref = fuzz_any(m);
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
        return fuzz_constant(m, dtype, dtype == SAMBA_BOOL ? value > 0 : whole ? trunc(value) + (positive && value < 1) : value);
    }
    if (fuzz_chance(m, 8) && rank > 0 && kind[0] == FUZZ_ANY && dtype != SAMBA_BOOL)
        return iota(m, dtype, rank, shape);
    return fuzz_fresh(m, kind, dtype, rank, shape);
}

samba_dtype fuzz_float(const fuzz_maker *m) { return samba_dtype_is_floating_point(m->dtype) ? m->dtype : SAMBA_FLOAT32; }

samba_ref fuzz_index(fuzz_maker *m, int64_t end, int rank, const int64_t *shape)
{
    char kind[24];
    snprintf(kind, sizeof kind, "i%lld_", (long long)end);
    return end > 0 ? fuzz_fresh(m, kind, fuzz_chance(m, 50) ? SAMBA_INT64 : SAMBA_INT32, rank, shape) : SAMBA_NONE;
}

samba_ref fuzz_image(fuzz_maker *m, int dims)
{
    for (int i = 0; i < 10; i++) {
        samba_ref ref = fuzz_any(m);
        const samba_node *node = samba_node_at(m->graph, ref);
        if (fuzz_is_floating(node) && node->rank != dims + 2 && node_numel(node) > 0 && fuzz_chance(m, 15))
            ref = fuzz_of_rank(m, ref, dims + 2);
        node = ref == SAMBA_NONE ? NULL : samba_node_at(m->graph, ref);
        if (node && node->rank == dims + 2 && fuzz_is_floating(node) && node->shape[1] > 0)
            return ref;
    }
    int64_t shape[SAMBA_MAX_RANK] = {fuzz_batch(m, 3), fuzz_size(m, 6)};
    for (int d = 0; d < dims; d++)
        shape[2 + d] = fuzz_size(m, dims == 3 ? 5 : 10);
    return fuzz_fresh(m, "x", fuzz_float(m), dims + 2, shape);
}

samba_ref fuzz_buffer(fuzz_maker *m, const char *kind, samba_dtype dtype, int rank, const int64_t *shape)
{
    if (m->buffer_count == FUZZ_BUFFERS)
        return SAMBA_NONE;
    samba_ref ref = fuzz_fresh(m, kind, dtype, rank, shape);
    if (ref != SAMBA_NONE) {
        m->buffers[m->buffer_count].buffer = ref;
        m->buffers[m->buffer_count++].next = SAMBA_NONE;
        fuzz_count.buffers++;
    }
    return ref;
}
