/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs written as ONNX models: read back they give the values that the reference kernels give for the graph; what is refused;
 * and writing with memory that runs out. */
#include "harness.h"

#include "failing_allocator.h"
#include "ops/ops.h"
#include <sambaflow/onnx.h>

typedef struct written { /* a text, its graph, and weights for it */
    samba_graph *graph;
    int weight_count;
    samba_tensor *weights[8];
} written;

static const char *const layers =
    "graph \"layers\"\n"
    "%0 = input name=\"x\" dtype=float32 shape=[2,3,4] : float32[2,3,4]\n"
    "%1 = parameter name=\"w\" dtype=float32 shape=[5,4] init=2 init_a=-1 init_b=1 : float32[5,4] \"fc\"\n"
    "%2 = parameter name=\"b\" dtype=float32 shape=[5] init=2 init_a=-1 init_b=1 : float32[5] \"fc\"\n"
    "%3 = reshape %0 shape=[6,4] : float32[6,4] @FWD \"fc\"\n"
    "%4 = permute %1 dims=[1,0] : float32[4,5] @FWD \"fc\"\n"
    "%5 = matmul %3 %4 : float32[6,5] @FWD \"fc\"\n"
    "%6 = add %5 %2 : float32[6,5] @FWD \"fc\"\n"
    "%7 = argin name=\"p\" dtype=float64 value=0.5 role=1 : float64[]\n"
    "%8 = argin name=\"seed\" dtype=int64 value=1 role=2 : int64[]\n"
    "%9 = dropout %6 %7 %8 : float32[6,5] @FWD\n"
    "%10 = gelu %9 : float32[6,5] @FWD \"act\"\n"
    "%11 = softmax %10 dim=1 : float32[6,5] @FWD\n"
    "%12 = state name=\"count\" dtype=int64 shape=[] init=0 init_a=0 init_b=0 kind=2 : int64[]\n"
    "%13 = constant dtype=int64 shape=[] value=1 : int64[]\n"
    "%14 = add %12 %13 : int64[] @FWD\n"
    "output \"probabilities\" %11 @FWD\n"
    "output \"raw\" %6 @FWD\n"
    "output \"same\" %6 @FWD\n"
    "assign %12 %14 @FWD\n";

static const char *const numbers = "graph \"numbers\"\n"
                                   "%0 = input name=\"v0\" dtype=float32 shape=[6] : float32[6]\n"
                                   "%1 = cast %0 dtype=int8 : int8[6] @FWD\n"
                                   "%2 = constant dtype=int8 shape=[6] value=-3 : int8[6]\n"
                                   "%3 = floor_divide %1 %2 : int8[6] @FWD\n"
                                   "%4 = remainder %1 %2 : int8[6] @FWD\n"
                                   "%5 = mul %1 %1 : int8[6] @FWD\n"
                                   "%6 = cast %0 dtype=bfloat16 : bfloat16[6] @FWD\n"
                                   "%7 = exp %6 : bfloat16[6] @FWD\n"
                                   "%8 = sort %0 dim=0 first=1 count=4 descending=1 nan=0 : float32[4] @FWD\n"
                                   "%9 = cumprod %0 dim=0 reverse=1 : float32[6] @FWD\n"
                                   "%10 = log1p %0 : float32[6] @FWD\n"
                                   "%11 = amax %0 dims=[0] : float32[1] @FWD\n"
                                   "%12 = iota dtype=int32 shape=[2,3] dim=1 : int32[2,3]\n"
                                   "%13 = right_shift %1 %2 : int8[6] @FWD\n"
                                   "output \"quotient\" %3 @FWD\n"
                                   "output \"rest\" %4 @FWD\n"
                                   "output \"square\" %5 @FWD\n"
                                   "output \"power\" %7 @FWD\n"
                                   "output \"sorted\" %8 @FWD\n"
                                   "output \"products\" %9 @FWD\n"
                                   "output \"logarithm\" %10 @FWD\n"
                                   "output \"most\" %11 @FWD\n"
                                   "output \"places\" %12 @FWD\n"
                                   "output \"shifted\" %13 @FWD\n"
                                   "output \"input\" %0 @FWD\n";

static samba_status take(samba_context *of, const char *text, written *t)
{
    *t = (written){NULL, 0, {NULL}};
    samba_status status = samba_graph_parse(of, text, &t->graph);
    for (int64_t i = 0; status == SAMBA_OK && i < t->graph->node_count; i++) {
        const samba_node *node = &t->graph->nodes[i];
        if (node->op != SAMBA_OP_parameter)
            continue;
        samba_tensor *tensor = NULL;
        status = samba_tensor_new(of, samba_graph_name_at(t->graph, node->attrs->parameter.name), SAMBA_FLOAT32, node->rank,
                                  node->shape, &tensor);
        for (int64_t k = 0; status == SAMBA_OK && k < samba_tensor_numel(tensor); k++)
            ((float *)samba_tensor_data(tensor))[k] = (float)((k * 7 + 3) % 11) / 8 - 0.5f;
        if (status == SAMBA_OK)
            t->weights[t->weight_count++] = tensor;
    }
    return status;
}

static void drop(written *t)
{
    for (int i = 0; i < t->weight_count; i++)
        samba_tensor_free(t->weights[i]);
    samba_graph_free(t->graph);
}

static samba_status write_it(samba_context *of, const written *t, int opset, int64_t inside, const char *path)
{
    samba_onnx_write_options options = samba_onnx_write_defaults();
    options.opset = opset;
    options.weight_count = t->weight_count;
    options.weights = t->weights;
    options.inside_bytes = inside;
    return samba_onnx_write(of, t->graph, &options, path);
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Values of all sinks; dropout off, as what is written has it. */
static void evaluate(const samba_graph *graph, const written *t, samba_arena *arena, samba_array *values)
{
    static float x[] = {0.5f,  -1.5f, 7.25f, 100, -128.5f, 3,    1,    -0.25f,  0.75f, -2, 1.5f, 0.125f,
                        0.25f, 2.5f,  -0.5f, 1,   -1,      0.5f, -3.f, 0.0625f, 2,     0,  -1.f, 0.25f};
    const char *names[16];
    samba_array arrays[16];
    double zero = 0;
    int64_t count = 0;
    int n = 0;
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = &graph->nodes[i];
        void *data = node->op == SAMBA_OP_input ? (void *)x : NULL;
        int64_t name = node->op == SAMBA_OP_input       ? node->attrs->leaf.name
                       : node->op == SAMBA_OP_parameter ? node->attrs->parameter.name
                       : node->op == SAMBA_OP_state     ? node->attrs->state.name
                       : node->op == SAMBA_OP_argin     ? node->attrs->argin.name
                                                        : -1;
        if (name < 0 || (node->op == SAMBA_OP_argin && node->attrs->argin.role != 1))
            continue;
        names[n] = samba_graph_name_at(graph, name);
        for (int k = 0; k < t->weight_count; k++)
            if (strcmp(samba_tensor_name(t->weights[k]), names[n]) == 0)
                data = samba_tensor_data(t->weights[k]);
        arrays[n] = (samba_array){.dtype = (samba_dtype)node->dtype, .rank = node->rank, .data = data};
        if (!data)
            arrays[n].data = node->op == SAMBA_OP_argin ? (void *)&zero : (void *)&count;
        memcpy(arrays[n].shape, node->shape, sizeof node->shape);
        samba_shape_numel(node->rank, node->shape, &arrays[n].numel);
        n++;
    }
    need(samba_graph_evaluate(graph, n, names, arrays, arena, values));
}

static void compare(const written *t, const char *path)
{
    samba_onnx *model;
    samba_graph *back;
    samba_arena arena;
    samba_array before[32], after[32];
    samba_onnx_options options = samba_onnx_defaults();
    samba_arena_init(&arena, context);
    options.initializers = SAMBA_ONNX_CONSTANTS;
    need(samba_onnx_open(context, path, &model));
    need(samba_graph_new(context, "back", &back));
    need(samba_onnx_read(model, back, &options));
    evaluate(t->graph, t, &arena, before);
    evaluate(back, t, &arena, after);
    int64_t found = 0;
    for (int64_t i = 0; i < t->graph->sink_count; i++)
        for (int64_t k = 0; k < back->sink_count; k++) {
            const samba_array *x = &before[i], *y = &after[k];
            if (t->graph->sinks[i].kind == SAMBA_SINK_ASSIGN || strcmp(samba_graph_name_at(t->graph, t->graph->sinks[i].name),
                                                                       samba_graph_name_at(back, back->sinks[k].name)) != 0)
                continue;
            found++;
            assert_int_equal(x->dtype, y->dtype);
            assert_int_equal(x->numel, y->numel);
            for (int64_t e = 0; e < x->numel; e++) {
                const size_t at = (size_t)e * samba_dtype_size(x->dtype);
                const double p = samba_load_double(x->dtype, (const char *)x->data + at);
                const double q = samba_load_double(y->dtype, (const char *)y->data + at);
                if (!(p == q || (isnan(p) && isnan(q)) || fabs(p - q) <= 2e-6 * fabs(p)))
                    fail_msg("%s: %g, read back %g", samba_graph_name_at(back, back->sinks[k].name), p, q);
            }
        }
    assert_int_equal(found, back->sink_count);
    samba_graph_free(back);
    samba_onnx_free(model);
    samba_arena_free(&arena);
}

static void round_trip(const char *text)
{
    written t;
    need(take(context, text, &t));
    for (int opset = 18; opset <= 23; opset++) {
        need(write_it(context, &t, opset, 0, path_of("model.onnx")));
        compare(&t, path_of("model.onnx"));
    }
    need(write_it(context, &t, 0, 1, path_of("beside.onnx"))); /* small tensors stay inside whatever the limit is */
    compare(&t, path_of("beside.onnx"));
    drop(&t);
}

TEST(layers_read_back) { round_trip(layers); }
TEST(numbers_read_back) { round_trip(numbers); }

static long read_file(const char *path, char *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    long length = (long)fread(bytes, 1, size, file);
    fclose(file);
    return length;
}

TEST(same_bytes)
{
    static char first[1 << 16], second[1 << 16];
    written t;
    need(take(context, layers, &t));
    need(write_it(context, &t, 0, 0, path_of("a.onnx")));
    long length = read_file(path_of("a.onnx"), first, sizeof first);
    need(write_it(context, &t, 0, 0, path_of("b.onnx")));
    assert_int_equal(read_file(path_of("b.onnx"), second, sizeof second), length);
    assert_memory_equal(first, second, (size_t)length);
    drop(&t);
}

TEST(large_tensors_lie_beside)
{
    static const char *const text =
        "graph \"large\"\n"
        "%0 = input name=\"x\" dtype=float32 shape=[1,20] : float32[1,20]\n"
        "%1 = parameter name=\"w\" dtype=float32 shape=[20,30] init=2 init_a=-1 init_b=1 : float32[20,30]\n"
        "%2 = matmul %0 %1 : float32[1,30] @FWD\n"
        "output \"y\" %2 @FWD\n";
    static char bytes[4096];
    written t;
    need(take(context, text, &t));
    need(write_it(context, &t, 0, 1000, path_of("large.onnx")));
    assert_int_equal(read_file(path_of("large.onnx.data"), bytes, sizeof bytes), 20 * 30 * 4 + 32); /* a multiple of 64 */
    assert_true(read_file(path_of("large.onnx"), bytes, sizeof bytes) < 1000);
    compare(&t, path_of("large.onnx"));
    drop(&t);
}

TEST(what_is_refused)
{
    static const char *const beyond = "graph \"beyond\"\n"
                                      "%0 = input name=\"x\" dtype=float64 shape=[3] : float64[3]\n"
                                      "%1 = constant dtype=int64 shape=[] value=7 : int64[]\n"
                                      "%2 = random %1 shape=[3] : float32[3] @FWD\n"
                                      "%3 = erfc %0 : float64[3] @FWD \"head\" at \"model.py:3\"\n"
                                      "output \"a\" %2 @FWD\n"
                                      "output \"b\" %3 @FWD\n";
    written t, other;
    need(take(context, layers, &t));
    refuse(write_it(context, &t, 16, 0, path_of("x.onnx")), SAMBA_ERROR_ARGUMENT, "opset must be from 17 to 23, given 16");
    refuse(write_it(context, &t, 0, 0, "/nowhere/x.onnx"), SAMBA_ERROR_FILE, "/nowhere/x.onnx");
    const int count = t.weight_count;
    t.weight_count = 1;
    refuse(write_it(context, &t, 0, 0, path_of("x.onnx")), SAMBA_ERROR_NAME, "1 are not given: 'b'");
    t.weight_count = count;
    need(samba_tensor_set_name(t.weights[0], "other"));
    need(samba_tensor_set_name(t.weights[1], "w"));
    refuse(write_it(context, &t, 0, 0, path_of("x.onnx")), SAMBA_ERROR_SHAPE, "weight 'w': the graph has shape");
    need(take(context, beyond, &other));
    refuse(write_it(context, &other, 0, 0, path_of("x.onnx")), SAMBA_ERROR_UNSUPPORTED, "has 2 operators that ONNX cannot say");
    refuse(write_it(context, &other, 0, 0, path_of("x.onnx")), SAMBA_ERROR_UNSUPPORTED, "(in module head, model.py:3)");
    assert_int_equal(access(path_of("x.onnx"), F_OK), -1);
    drop(&other);
    drop(&t);
}

static samba_status write_once(samba_context *of, void *user)
{
    written t;
    samba_status status = take(of, user, &t);
    THEN(status, write_it(of, &t, 20, 100, path_of("memory.onnx")));
    drop(&t);
    return status;
}

TEST(memory_runs_out)
{
    fail_each_allocation(write_once, (void *)(uintptr_t)layers);
    fail_each_allocation(write_once, (void *)(uintptr_t)numbers);
}

TEST_MAIN(layers_read_back, numbers_read_back, same_bytes, large_tensors_lie_beside, what_is_refused, memory_runs_out)
