/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that written models say: read again they are the same ones; where what a node says is not what the nodes are, the
 * nodes count, whatever was changed. */
#include "harness.h"

#include "failing_allocator.h"
#include "graph/graph.h"
#include "onnx/onnx.pb-c.h"
#include "ops/ops.h"
#include <sambaflow/onnx.h>

static const char *const text = "graph \"operators\"\n"
                                "%0 = input name=\"x\" dtype=float32 shape=[4,6] : float32[4,6]\n"
                                "%1 = input name=\"i\" dtype=int64 shape=[1,6] : int64[1,6]\n"
                                "%2 = amax %0 dims=[1] : float32[4,1] @FWD\n"
                                "%3 = expand %1 shape=[3,6] : int64[3,6] @FWD\n"
                                "%4 = gather %0 %3 dim=0 negative=1 : float32[3,6] @FWD\n"
                                "%5 = constant dtype=int64 shape=[] value=-3 : int64[]\n"
                                "%6 = floor_divide %1 %5 : int64[1,6] @FWD\n"
                                "%7 = cast %0 dtype=bfloat16 : bfloat16[4,6] @FWD\n"
                                "%8 = exp %7 : bfloat16[4,6] @FWD\n"
                                "%9 = cumprod %0 dim=1 reverse=1 : float32[4,6] @FWD\n"
                                "%10 = log1p %9 : float32[4,6] @FWD\n"
                                "%11 = constant dtype=float32 shape=[2,2] value=0.5 : float32[2,2]\n"
                                "%12 = tanhshrink %0 : float32[4,6] @FWD\n"
                                "%13 = input name=\"scale\" dtype=float32 shape=[6] : float32[6]\n"
                                "%14 = rms_norm %0 %13 dims=1 eps=0.125 : float32[4,6] @FWD\n"
                                "%15 = constant dtype=float64 shape=[] value=0 : float64[]\n"
                                "%16 = literal dtype=float32 shape=[6] data="
                                "\"000000000000003f0000803f0000004000004040000080bf\" : float32[6]\n"
                                "%17 = literal dtype=float32 shape=[6] data="
                                "\"0000803f0000003f0000803f000000400000404000008040\" : float32[6]\n"
                                "%18 = literal dtype=float32 shape=[6] data="
                                "\"0000803f0000003f0000803f0000004000004040000080bf\" : float32[6]\n"
                                "%19 = literal dtype=float32 shape=[6] data="
                                "\"000000400000003f0000803f000000400000404000008040\" : float32[6]\n"
                                "%20 = literal dtype=float32 shape=[6] data="
                                "\"000000400000003f0000803f0000004000004040000080bf\" : float32[6]\n"
                                "%21 = literal dtype=float32 shape=[6] data="
                                "\"000040400000003f0000803f000000400000404000008040\" : float32[6]\n"
                                "%22 = sync_batch_norm %0 %13 %13 %16 %17 %15 eps=0.125 : float32[4,6] @FWD\n"
                                "%23 = batch_norm %7 %13 %13 %18 %19 %15 eps=0.125 : bfloat16[4,6] @FWD\n"
                                "%24 = batch_norm %0 %13 %13 %20 %21 %15 eps=0.25 : float32[4,6] @FWD\n"
                                "%25 = clamp_min %0 %13 : float32[4,6] @FWD\n"
                                "%26 = maximum %0 %13 : float32[4,6] @FWD\n"
                                "output \"most\" %2 @FWD\n"
                                "output \"taken\" %4 @FWD\n"
                                "output \"quotient\" %6 @FWD\n"
                                "output \"power\" %8 @FWD\n"
                                "output \"logarithm\" %10 @FWD\n"
                                "output \"half\" %11 @FWD\n"
                                "output \"shrunk\" %12 @FWD\n"
                                "output \"rms\" %14 @FWD\n"
                                "output \"batch\" %22 @FWD\n"
                                "output \"short\" %23 @FWD\n"
                                "output \"own\" %24 @FWD\n"
                                "output \"least\" %25 @FWD\n"
                                "output \"greatest\" %26 @FWD\n";
static char bytes[1 << 16];
static size_t length;

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_model(void)
{
    samba_graph *graph;
    samba_onnx_write_options options = samba_onnx_write_defaults();
    options.opset = 21;
    need(samba_graph_parse(context, text, &graph));
    need(samba_onnx_write(context, graph, &options, path_of("model.onnx")));
    samba_graph_free(graph);
    FILE *file = fopen(path_of("model.onnx"), "rb");
    assert_non_null(file);
    length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
}

static samba_status read_model(samba_context *of, samba_graph **graph)
{
    samba_onnx *model = NULL;
    samba_graph *read = NULL;
    *graph = NULL;
    samba_status status = samba_onnx_open_memory(of, bytes, length, NULL, &model);
    if (status == SAMBA_OK)
        status = samba_graph_new(of, "read", &read);
    if (status == SAMBA_OK)
        status = samba_onnx_read(model, read, NULL);
    if (status == SAMBA_OK)
        status = samba_graph_prune(read, graph);
    samba_graph_free(read);
    samba_onnx_free(model);
    return status;
}

static int count_of(const samba_graph *graph, samba_op op)
{
    int count = 0;
    for (int64_t i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].op == op;
    return count;
}

TEST(operators_are_the_same)
{
    samba_graph *before, *after;
    write_model();
    need(samba_graph_parse(context, text, &before));
    need(read_model(context, &after));
    assert_int_equal(count_of(after, SAMBA_OP_state), 6); /* statistics, which were literals */
    for (int op = 0; op < SAMBA_OP_COUNT; op++)
        if (op != SAMBA_OP_state && op != SAMBA_OP_literal && count_of(before, op) != count_of(after, op))
            fail_msg("%s: %d, read back %d", samba_ops[op].name, count_of(before, op), count_of(after, op));
    samba_graph_free(before);
    samba_graph_free(after);
}

/* The node that says it is an operator of that name; NULL: none does. */
static Samba__Onnx__NodeProto *telling(const Samba__Onnx__ModelProto *model, const char *operator)
{
    for (size_t i = 0; i < model->graph->n_node; i++) {
        Samba__Onnx__NodeProto *node = model->graph->node[i];
        if (node->n_metadata_props && strncmp(node->metadata_props[0]->value, operator, strlen(operator)) == 0)
            return node;
    }
    return NULL;
}

static void set(char **at, const char *value)
{
    free(*at);
    *at = strdup(value);
}

/* The model with what one node says changed, read; NULL for the value: it says it no more. */
static samba_graph *read_changed(const char *operator, const char * key, const char *value)
{
    write_model();
    Samba__Onnx__ModelProto *model = samba__onnx__model_proto__unpack(NULL, length, (const uint8_t *)bytes);
    samba_graph *graph;
    assert_non_null(model);
    Samba__Onnx__NodeProto *node = telling(model, operator);
    assert_non_null(node);
    int changed = 0;
    for (size_t i = 0; i < node->n_metadata_props; i++)
        if (strcmp(node->metadata_props[i]->key, key) == 0) {
            set(value ? &node->metadata_props[i]->value : &node->metadata_props[i]->key, value ? value : "other");
            changed++;
        }
    assert_int_equal(changed, 1);
    length = samba__onnx__model_proto__pack(model, (uint8_t *)bytes);
    samba__onnx__model_proto__free_unpacked(model, NULL);
    need(read_model(context, &graph));
    return graph;
}

TEST(what_is_said_wrongly_does_not_count)
{
    static const struct {
        const char *operator, * key, *value;
        samba_op is, is_not;
    } changes[] = {
        {"amax", "sambaflow.operator", "amin dims=[1] : float32[4,1]", SAMBA_OP_amax, SAMBA_OP_amin},
        {"amax", "sambaflow.operator", "amax dims=[0] : float32[1,6]", SAMBA_OP_where, SAMBA_OP_amin},
        {"amax", "sambaflow.operator", "amax dims=[1] : float32[4]", SAMBA_OP_where, SAMBA_OP_amin},
        {"amax", "sambaflow.operator", "amax dims=[7] : float32[4,1]", SAMBA_OP_where, SAMBA_OP_amin},
        {"amax", "sambaflow.operator", "amax dims=[1] : float32[4,1] @FWD\n%2 = neg %1 : float32[4,1]", SAMBA_OP_where,
         SAMBA_OP_neg},
        {"amax", "sambaflow.operator", "", SAMBA_OP_where, SAMBA_OP_amin},
        {"amax", "sambaflow.operator", "no_such_operator : float32[4,1]", SAMBA_OP_where, SAMBA_OP_amin},
        {"amax", "sambaflow.operator", "parameter name=\"p\" dtype=float32 shape=[4,1] init=2 init_a=-1 init_b=1 : float32[4,1]",
         SAMBA_OP_where, SAMBA_OP_parameter},
        {"amax", "sambaflow.operator", "random shape=[4,1] : float32[4,1]", SAMBA_OP_where, SAMBA_OP_random},
        {"amax", "sambaflow.operator", "max_pool2d_grad : float32[4,1]", SAMBA_OP_where, SAMBA_OP_max_pool2d_grad},
        {"amax", "sambaflow.operator", NULL, SAMBA_OP_where, SAMBA_OP_amin},
        {"amax", "sambaflow.operand.0", "nothing", SAMBA_OP_where, SAMBA_OP_amin},
        {"amax", "sambaflow.operand.0", "most", SAMBA_OP_where, SAMBA_OP_amin}, /* itself */
        {"amax", "sambaflow.operand.0", "", SAMBA_OP_where, SAMBA_OP_amin},
        {"gather", "sambaflow.operand.1", "x", SAMBA_OP_where, SAMBA_OP_amin},
        {"gather", "sambaflow.operand.1", NULL, SAMBA_OP_where, SAMBA_OP_amin},
        {"gather", "sambaflow.through.1", "expand shape=[3,7] : int64[3,7]", SAMBA_OP_where, SAMBA_OP_amin},
        {"gather", "sambaflow.through.1", "neg : int64[1,6]", SAMBA_OP_where, SAMBA_OP_neg},
        {"gather", "sambaflow.through.1", "\n", SAMBA_OP_where, SAMBA_OP_amin},
        {"gather", "sambaflow.operator", "gather dim=0 negative=0 : float32[3,6]", SAMBA_OP_gather, SAMBA_OP_amin},
        {"tanhshrink", "sambaflow.operator", "tanhshrink : float32[4,7]", SAMBA_OP_tanh, SAMBA_OP_tanhshrink},
        {"tanhshrink", "sambaflow.operator", "entr : float32[4,6]", SAMBA_OP_tanh, SAMBA_OP_entr},
        {"rms_norm", "sambaflow.operator", "rms_norm dims=1 eps=0.25 : float32[4,6]", SAMBA_OP_sqrt, SAMBA_OP_rms_norm},
        {"rms_norm", "sambaflow.operand.0", "scale", SAMBA_OP_sqrt, SAMBA_OP_rms_norm},
        {"clamp_min", "sambaflow.operator", "clamp_max : float32[4,6]", SAMBA_OP_maximum, SAMBA_OP_clamp_max},
        {"floor_divide", "sambaflow.through.1", "constant dtype=int64 shape=[] value=-5 : int64[]", SAMBA_OP_trunc_divide,
         SAMBA_OP_amin},
    };
    for (int i = 0; i < SAMBA_COUNT(changes); i++) {
        samba_graph *graph = read_changed(changes[i].operator, changes[i].key, changes[i].value);
        if (count_of(graph, changes[i].is) == 0 || count_of(graph, changes[i].is_not) != 0)
            fail_msg("%s of %s is \"%s\": %d of %s, %d of %s", changes[i].key, changes[i].operator,
                     changes[i].value ? changes[i].value : "", count_of(graph, changes[i].is), samba_ops[changes[i].is].name,
                     count_of(graph, changes[i].is_not), samba_ops[changes[i].is_not].name);
        samba_graph_free(graph);
    }
}

/* Somebody changes a node, and what it says stays. */
TEST(nodes_that_changed_are_what_they_are)
{
    samba_graph *graph;
    write_model();
    Samba__Onnx__ModelProto *model = samba__onnx__model_proto__unpack(NULL, length, (const uint8_t *)bytes);
    assert_non_null(model);
    for (size_t i = 0; i < model->graph->n_node; i++)
        if (strcmp(model->graph->node[i]->op_type, "ReduceMax") == 0)
            set(&model->graph->node[i]->op_type, "ReduceMin");
    for (size_t i = 0; i < model->graph->n_initializer; i++) { /* -3, by which is divided */
        Samba__Onnx__TensorProto *tensor = model->graph->initializer[i];
        if (tensor->n_dims == 0 && tensor->raw_data.len == 8 && (int8_t)tensor->raw_data.data[0] == -3)
            tensor->raw_data.data[0] = 5, memset(tensor->raw_data.data + 1, 0, 7);
    }
    length = samba__onnx__model_proto__pack(model, (uint8_t *)bytes);
    samba__onnx__model_proto__free_unpacked(model, NULL);
    need(read_model(context, &graph));
    assert_int_equal(count_of(graph, SAMBA_OP_amax), 0);
    assert_int_not_equal(count_of(graph, SAMBA_OP_amin), 0);
    assert_int_equal(count_of(graph, SAMBA_OP_floor_divide), 0);
    assert_int_equal(count_of(graph, SAMBA_OP_log1p), 1);
    samba_graph_free(graph);
}

/* What an operator says all of is left out; where it is read after all, its nodes have to be in order. */
TEST(nodes_out_of_order)
{
    samba_graph *graph;
    write_model();
    Samba__Onnx__ModelProto *model = samba__onnx__model_proto__unpack(NULL, length, (const uint8_t *)bytes);
    assert_non_null(model);
    Samba__Onnx__NodeProto *node = telling(model, "log1p");
    set(&node->metadata_props[0]->value, "expm1 : float32[4,6]");
    size_t last = 0;
    while (model->graph->node[last] != node)
        last++;
    for (size_t i = 0; i < last / 2; i++) {
        Samba__Onnx__NodeProto *other = model->graph->node[i];
        model->graph->node[i] = model->graph->node[last - 1 - i];
        model->graph->node[last - 1 - i] = other;
    }
    length = samba__onnx__model_proto__pack(model, (uint8_t *)bytes);
    samba__onnx__model_proto__free_unpacked(model, NULL);
    refuse(read_model(context, &graph), SAMBA_ERROR_FORMAT, "which nothing before it gives");
}

/* Norms that were written, which run by running statistics, train in a model that is read to be trained. */
TEST(written_norms_train)
{
    samba_graph *graph;
    samba_onnx *model;
    samba_onnx_options options = samba_onnx_defaults();
    int trains = 0;
    options.train = true;
    options.initializers = SAMBA_ONNX_PARAMETERS;
    write_model();
    need(samba_onnx_open_memory(context, bytes, length, NULL, &model));
    need(samba_graph_new(context, "read", &graph));
    need(samba_onnx_read(model, graph, &options));
    for (int64_t i = 0; i < graph->node_count; i++) {
        const samba_node *node = &graph->nodes[i];
        assert_int_not_equal(node->op, SAMBA_OP_sync_batch_norm);
        trains += node->op == SAMBA_OP_batch_norm && samba_node_at(graph, node->inputs[5])->op == SAMBA_OP_argin;
    }
    assert_int_equal(trains, 3);
    samba_onnx_free(model);
    samba_graph_free(graph);
}

static samba_status read_once(samba_context *of, void *user)
{
    samba_graph *graph;
    (void)user;
    samba_status status = read_model(of, &graph);
    samba_graph_free(graph);
    return status;
}

TEST(memory_runs_out)
{
    write_model();
    fail_each_allocation(read_once, NULL);
}

TEST_MAIN(operators_are_the_same, what_is_said_wrongly_does_not_count, nodes_that_changed_are_what_they_are, nodes_out_of_order,
          written_norms_train, memory_runs_out)
