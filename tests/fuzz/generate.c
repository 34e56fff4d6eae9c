/* SPDX-License-Identifier: Apache-2.0
 *
 * A random graph, one node at a time. An operator is drawn from ops.def, operands from the values there are or as new inputs,
 * attributes as its kind wants them (recipes.c); inference says whether that makes sense, and the reference kernel computes the
 * new value at once, so that what is not finite, grows or is ill-conditioned is left out. A row of ops.def without a recipe is
 * tried with random operands.
 *
 * Comparisons, rounding, sorting and whatever else jumps get exact values only: those that were computed without rounding, in any
 * order of summation. For that each value has a grain (all are multiples of 2^grain) and a bound.
 * Then no two correct programs differ in a jump. */
#include "generate.h"

#define MOST_ELEMENTS 3000
#define MOST_MAGNITUDE 1000.0
#define MOST_RANK 6 /* a product's 4 batch dims may have any strides */

int64_t fuzz_below(fuzz_maker *m, int64_t bound) { return (int64_t)(next_seed(&m->state) % (uint64_t)bound); }
bool fuzz_chance(fuzz_maker *m, int percent) { return fuzz_below(m, 100) < percent; }

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

/* ---- what is known of a value ---- */
static const char *const products[] = {
    "mul", "matmul", "conv2d", "conv3d", "conv2d_input_grad", "conv2d_weight_grad", "conv3d_input_grad", "conv3d_weight_grad",
    NULL};
static const char *const sums[] = {"add", "sub", "sum", "cumsum", "scatter", "max_pool2d_grad", NULL};
static const char *const moves[] = {
    "neg",       "abs",    "relu", "sign",   "floor",   "ceil",    "trunc",  "round",    "maximum", "minimum", "clamp_min",
    "clamp_max", "where",  "amax", "amin",   "reshape", "permute", "expand", "slice",    "pad",     "concat",  "max_pool2d",
    "embedding", "gather", "sort", "cummax", "cummin",  "detach",  "cast",   "copysign", NULL};
static const char *const jumps[] = {"remainder", "fmod", "floor_divide", "trunc_divide", "sort", "cummax", "cummin",
                                    "copysign",  NULL};
static const char *const roots[] = {"sqrt",      "rsqrt",        "log",
                                    "log2",      "log10",        "reciprocal",
                                    "div",       "pow",          "atan2",
                                    "hypot",     "floor_divide", "trunc_divide",
                                    "remainder", "fmod",         "copysign" /* 0 + -0 is 0, but a compiler leaves the sum out */,
                                    NULL};

static int digits_of(samba_dtype dtype)
{
    return dtype == SAMBA_FLOAT64 ? 52 : dtype == SAMBA_FLOAT16 ? 11 : dtype == SAMBA_BFLOAT16 ? 8 : 24;
}

static void of_values(const samba_array *a, fuzz_fact *fact)
{
    fact->bound = 0;
    for (int64_t i = 0; i < a->numel; i++)
        fact->bound = fmax(fact->bound, fabs(value_at(a, i)));
}

static fuzz_fact fact_of(const fuzz_maker *m, samba_op op, int arity, const samba_ref *inputs, const samba_array *made)
{
    fuzz_fact fact = {.exact = true, .grain = 0};
    of_values(made, &fact);
    double worst = 0, product = 1, terms = 1;
    int least = 0, all = 0;
    for (int i = 0; i < arity; i++) {
        const fuzz_fact *f = &m->facts[inputs[i]];
        fact.exact = fact.exact && f->exact;
        least = f->grain < least ? f->grain : least;
        all += f->grain;
        worst += f->bound;
        product *= f->bound > 1 ? f->bound : 1;
        terms = fmax(terms, (double)m->values[inputs[i]].numel);
    }
    if (!samba_dtype_is_floating_point(made->dtype))
        return fact; /* of exact operands; integers wrap alike */
    const char *name = samba_ops[op].name;
    bool multiplies = is_one_of(name, products);
    if (!multiplies && !is_one_of(name, sums) && !is_one_of(name, moves) && samba_ops[op].class_ != SAMBA_LEAF)
        fact.exact = false;
    fact.grain = multiplies ? all : least;
    double most =
        is_one_of(name, moves) ? fact.bound : (multiplies ? product : worst) * (samba_ops[op].class_ == SAMBA_MAP ? 1 : terms);
    int inside = digits_of(made->dtype) < 24 ? 24 : digits_of(made->dtype);
    fact.exact = fact.exact && ldexp(most, -fact.grain) <= ldexp(1, inside) &&
                 ldexp(fact.bound, -fact.grain) <= ldexp(1, digits_of(made->dtype));
    return fact;
}

static bool jumps_between(samba_op op, int arity, const fuzz_maker *m, const samba_ref *inputs, samba_dtype result)
{
    bool compares = !samba_ops[op].vjp && samba_ops[op].class_ == SAMBA_MAP;
    bool casts = op == SAMBA_OP_cast && !samba_dtype_is_floating_point(result);
    if ((m->meets && (compares || casts)) || op == SAMBA_OP_detach)
        return false;
    bool jump = !samba_ops[op].vjp || is_one_of(samba_ops[op].name, jumps) || casts;
    for (int i = 0; i < arity && jump; i++)
        if (!m->facts[inputs[i]].exact)
            return true;
    return false;
}

/* ---- adding a node ---- */
static bool fits(const samba_array *a)
{
    for (int64_t i = 0; i < a->numel && samba_dtype_is_floating_point(a->dtype); i++)
        if (!(fabs(value_at(a, i)) <= MOST_MAGNITUDE))
            return false;
    return true;
}

static samba_status evaluate(fuzz_maker *m, samba_op op, int arity, const samba_array *inputs, const samba_attrs *attrs,
                             samba_array *made)
{
    made->data = samba_arena_alloc(&m->arena, (size_t)made->numel * samba_dtype_size(made->dtype) + 1);
    if (!made->data)
        return SAMBA_ERROR_MEMORY;
    samba_reference reference = {m->graph->context, m->graph, attrs, arity, inputs, made};
    return samba_ops[op].reference(&reference);
}

/* Does a small step of the operands move the result by not much more? */
static bool conditioned(fuzz_maker *m, samba_op op, int arity, const samba_array *inputs, const samba_attrs *attrs,
                        const samba_array *made)
{
    const double step = 0x1p-9;
    samba_array near = *made, moved[16];
    if (arity == 0 || arity > 16 || !samba_dtype_is_floating_point(made->dtype))
        return true;
    for (int i = 0; i < arity; i++) {
        moved[i] = inputs[i];
        if (!samba_dtype_is_floating_point(inputs[i].dtype))
            continue;
        size_t width = samba_dtype_size(inputs[i].dtype);
        moved[i].data = samba_arena_alloc(&m->arena, (size_t)inputs[i].numel * width + 1);
        for (int64_t k = 0; moved[i].data && k < inputs[i].numel; k++)
            samba_store_double(inputs[i].dtype, (char *)moved[i].data + (size_t)k * width, value_at(&inputs[i], k) * (1 + step));
        if (!moved[i].data)
            return false;
    }
    if (evaluate(m, op, arity, moved, attrs, &near) != SAMBA_OK)
        return false;
    double greatest = 0.25;
    for (int64_t k = 0; k < made->numel; k++)
        greatest = fmax(greatest, fabs(value_at(made, k)));
    for (int64_t k = 0; k < made->numel; k++)
        if (!(fabs(value_at(&near, k) - value_at(made, k)) <= 16 * arity * step * greatest))
            return false;
    return true;
}

static bool far_from_poles(fuzz_maker *m, samba_op op, int arity, const samba_ref *inputs)
{
    for (int i = 0; i < arity && is_one_of(samba_ops[op].name, roots); i++)
        for (int64_t k = 0; k < m->values[inputs[i]].numel; k++)
            if (samba_dtype_is_floating_point(m->values[inputs[i]].dtype) && fabs(value_at(&m->values[inputs[i]], k)) < 1.0 / 16)
                return false;
    return true;
}

static bool make_room(fuzz_maker *m)
{
    int64_t count = m->graph->node_count + 2;
    if (count <= m->capacity)
        return true;
    int64_t capacity = 2 * count;
    fuzz_fact *facts = realloc(m->facts, sizeof *facts * (size_t)capacity);
    m->facts = facts ? facts : m->facts;
    samba_array *values = realloc(m->values, sizeof *values * (size_t)capacity);
    m->values = values ? values : m->values;
    m->capacity = facts && values ? capacity : m->capacity;
    return facts && values;
}

static samba_ref add(fuzz_maker *m, samba_op op, int arity, const samba_ref *inputs, const samba_attrs *given, bool find)
{
    const samba_node *nodes[16];
    samba_array arrays[16], made = {.rank = 0};
    samba_attrs attrs;
    if (arity > 16 || m->graph->status != SAMBA_OK)
        return SAMBA_NONE;
    for (int i = 0; i < arity; i++) {
        if (inputs[i] == SAMBA_NONE)
            return SAMBA_NONE;
        nodes[i] = samba_node_at(m->graph, inputs[i]);
        arrays[i] = m->values[inputs[i]];
    }
    if ((samba_ops[op].arity >= 0 && samba_ops[op].arity != arity) || samba_attrs_clean(m->graph, op, given, &attrs) != SAMBA_OK)
        return SAMBA_NONE;
    samba_infer infer = {.graph = m->graph, .op = op, .arity = arity, .inputs = nodes, .attrs = &attrs};
    if (samba_ops[op].infer(&infer) != SAMBA_OK)
        return SAMBA_NONE;
    made.dtype = infer.dtype;
    made.rank = infer.rank;
    memcpy(made.shape, infer.shape, sizeof made.shape);
    if (!samba_shape_numel(made.rank, made.shape, &made.numel) || made.numel > MOST_ELEMENTS || made.rank > MOST_RANK)
        return SAMBA_NONE;
    if (op == SAMBA_OP_input) {
        made.data = samba_arena_alloc(&m->arena, (size_t)made.numel * samba_dtype_size(made.dtype) + 1);
        if (!made.data)
            return SAMBA_NONE;
        fuzz_fill(m->graph->name, samba_graph_name_at(m->graph, attrs.leaf.name), &made);
    } else if (jumps_between(op, arity, m, inputs, made.dtype) || !far_from_poles(m, op, arity, inputs) ||
               evaluate(m, op, arity, arrays, &attrs, &made) != SAMBA_OK ||
               (!fits(&made) && samba_ops[op].class_ != SAMBA_LEAF) || !conditioned(m, op, arity, arrays, &attrs, &made)) {
        return SAMBA_NONE;
    }
    int64_t before = m->graph->node_count;
    fuzz_fact fact = fact_of(m, op, arity, inputs, &made);
    if (op == SAMBA_OP_input)
        fact.grain = samba_dtype_is_floating_point(made.dtype) ? -3 : 0;
    if (op == SAMBA_OP_constant && made.numel > 0) {
        fact.grain = -2;
        fact.exact = value_at(&made, 0) * 4 == trunc(value_at(&made, 0) * 4);
    }
    if (op == SAMBA_OP_literal)
        fact.exact = !samba_dtype_is_floating_point(made.dtype);
    if (!make_room(m))
        return SAMBA_NONE;
    samba_ref ref = samba_emit(m->graph, op, arity, inputs, &attrs);
    if (ref == SAMBA_NONE || ref < before) /* the node is there already */
        return samba_ops[op].class_ == SAMBA_LEAF || find ? ref : SAMBA_NONE;
    m->values[ref] = made;
    m->facts[ref] = fact;
    fuzz_count.operators[op]++;
    fuzz_count.dims += made.rank;
    for (int d = 0; d < made.rank; d++)
        fuzz_count.ones += made.shape[d] == 1;
    fuzz_count.ranked += made.rank > 1;
    fuzz_count.leading_ones += made.rank > 1 && made.shape[0] == 1;
    return ref;
}

samba_ref fuzz_add(fuzz_maker *m, samba_op op, int arity, const samba_ref *inputs, const samba_attrs *attrs)
{
    return add(m, op, arity, inputs, attrs, false);
}

samba_ref fuzz_add_or_find(fuzz_maker *m, samba_op op, int arity, const samba_ref *inputs, const samba_attrs *attrs)
{
    return add(m, op, arity, inputs, attrs, true);
}

samba_ref fuzz_fresh(fuzz_maker *m, const char *kind, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_attrs attrs;
    char name[40];
    memset(&attrs, 0, sizeof attrs);
    snprintf(name, sizeof name, "%s%d", kind, m->names++);
    attrs.leaf.name = samba_graph_intern(m->graph, name);
    attrs.leaf.dtype = dtype;
    attrs.leaf.shape.count = rank;
    if (rank > 0)
        memcpy(attrs.leaf.shape.at, shape, sizeof *shape * (size_t)rank);
    return fuzz_add(m, SAMBA_OP_input, 0, NULL, &attrs);
}

/* ---- the whole ---- */
static void add_output(fuzz_maker *m, const char *name, samba_ref value)
{
    samba_graph_sink(m->graph, (samba_sink){SAMBA_SINK_OUTPUT, SAMBA_FWD, samba_graph_intern(m->graph, name), SAMBA_NONE, value});
}

/* What buffers become: "<buffer>.next", a value of the same type, the latest more often. */
static void add_assignments(fuzz_maker *m)
{
    for (int b = 0; b < m->buffer_count; b++) {
        const samba_node *buffer = samba_node_at(m->graph, m->buffers[b].buffer);
        samba_ref next = m->buffers[b].next;
        for (int64_t i = m->graph->node_count - 1; i >= 0 && next == SAMBA_NONE; i--) {
            const samba_node *node = samba_node_at(m->graph, (samba_ref)i);
            bool fits_in =
                node->dtype == buffer->dtype && samba_shape_equal(node->rank, node->shape, buffer->rank, buffer->shape);
            if (fits_in && (samba_ref)i != m->buffers[b].buffer && node->op != SAMBA_OP_constant &&
                !fuzz_is_of_gradient(m->graph, (samba_ref)i) && fuzz_chance(m, 60))
                next = (samba_ref)i;
        }
        if (next == SAMBA_NONE)
            continue;
        char name[48];
        snprintf(name, sizeof name, "%s.next", samba_graph_name_at(m->graph, buffer->attrs->leaf.name));
        add_output(m, name, next);
        fuzz_count.assigned++;
    }
}

static void add_outputs(fuzz_maker *m)
{
    int64_t count = m->graph->node_count, named = 0;
    uint8_t *used = calloc((size_t)count + 1, 1);
    for (int64_t i = 0; i < count && used; i++)
        for (int k = 0; k < m->graph->nodes[i].arity; k++)
            used[m->graph->nodes[i].inputs[k]] = 1;
    for (int64_t i = count - 1; i >= 0 && used && named < 12; i--) {
        if (samba_ops[m->graph->nodes[i].op].class_ == SAMBA_LEAF || (used[i] && !fuzz_chance(m, 6)) ||
            fuzz_is_of_gradient(m->graph, (samba_ref)i))
            continue;
        char name[24];
        snprintf(name, sizeof name, "y%d", (int)named++);
        add_output(m, name, (samba_ref)i);
    }
    free(used);
    if (named > 0)
        add_assignments(m);
}

samba_status fuzz_generate(samba_context *context, uint64_t seed, int nodes, samba_graph **graph)
{
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT32,  SAMBA_FLOAT32, SAMBA_FLOAT32, SAMBA_FLOAT32,
                                         SAMBA_FLOAT64, SAMBA_BFLOAT16, SAMBA_FLOAT16, SAMBA_INT64,   SAMBA_INT32};
    fuzz_maker m = {.state = seed, .focus = SAMBA_NONE};
    char name[40];
    snprintf(name, sizeof name, "fuzz %llu", (unsigned long long)seed);
    SAMBA_TRY(samba_graph_new(context, name, graph));
    m.graph = *graph;
    m.graph->phase = SAMBA_FWD;
    samba_arena_init(&m.arena, context);
    m.dtype = dtypes[fuzz_below(&m, SAMBA_COUNT(dtypes))];
    int64_t mode = fuzz_below(&m, 10);
    m.batch_of_one = mode == 1 || mode == 2 || mode == 3;
    m.ones = mode == 3 || mode == 4 ? 50 : 0;
    fuzz_count.batches_of_one += m.batch_of_one;
    fuzz_count.many_ones += m.ones > 0;
    fuzz_first(&m);
    for (int made = 0, tries = 0; made < nodes && tries < 60 * nodes && m.graph->status == SAMBA_OK; tries++)
        made += fuzz_draw(&m) != SAMBA_NONE;
    add_outputs(&m);
    samba_arena_free(&m.arena);
    free(m.values);
    free(m.facts);
    return m.graph->status;
}
