/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading ONNX models: inputs, initializers and their roles, dims by name, control flow and functions, external data, and what is
 * refused. What each operator means is compared with ONNX's own cases in tests/python/test_onnx_nodes.py. */
#include "onnx_models.h"
#include "failing_allocator.h"
#include "graph/graph.h"
#include "ops/ops.h"

#include <sambaflow/data.h>
#include <sambaflow/function.h>
#include <sys/stat.h>

/* ---- reading ---- */

/* Reads the model at hand; its message where it fails. */
static samba_status read_with(const samba_onnx_options *options)
{
    samba_onnx *model;
    samba_graph *graph;
    samba_status status = open_in(context, folder, &model);
    if (status != SAMBA_OK)
        return status;
    need(samba_graph_new(context, "test", &graph));
    status = samba_onnx_read(model, graph, options);
    if (status == SAMBA_OK)
        need(samba_graph_verify(graph));
    else
        assert_int_equal(samba_graph_status(graph), status);
    samba_graph_free(graph);
    samba_onnx_free(model);
    return status;
}

/* The model at hand as a function, its only output's values for the values of its only input. */
static void compute(int in_rank, const int64_t *in_shape, const float *in, int count, float *out)
{
    samba_onnx *model;
    samba_graph *graph;
    samba_function *function;
    samba_onnx_options options = samba_onnx_defaults();
    OWN_TENSOR *x = tensor("x", SAMBA_FLOAT32, in_rank, in_shape);
    memcpy(samba_tensor_data(x), in, (size_t)samba_tensor_numel(x) * 4);
    options.initializers = SAMBA_ONNX_CONSTANTS;
    options.input_count = 1;
    options.inputs = &x;
    need(open_in(context, folder, &model));
    need(samba_graph_new(context, "test", &graph));
    need(samba_onnx_read(model, graph, &options));
    need(samba_function_new(context, graph, NULL, &function));
    samba_tensor_info info;
    need(samba_function_output(function, 0, &info));
    OWN_TENSOR *y = tensor("y", info.dtype, info.rank, info.shape);
    need(samba_function_run(function, (samba_tensor *[]){x}, (samba_tensor *[]){y}));
    assert_int_equal(samba_tensor_numel(y), count);
    memcpy(out, samba_tensor_data(y), (size_t)count * 4);
    samba_function_free(function);
    samba_graph_free(graph);
    samba_onnx_free(model);
}

static void begin_line(void)
{
    begin(17);
    input("x", FLOAT, SIZES(-1, 2));
    floats("w", SIZES(2, 1), FLOATS(2, 3));
    floats("b", SIZES(1), FLOATS(10));
    node("Gemm", "x w b", "y");
    output("y");
}

TEST(test_line)
{
    float y[2];
    begin_line();
    compute(SIZES(2, 2), (float[]){1, 1, 2, -1}, 2, y);
    assert_float_equal(y[0], 15, 0);
    assert_float_equal(y[1], 11, 0);
}

/* The model as a function of values: twice over in one graph, with a parameter of the caller's. */
TEST(test_apply)
{
    samba_onnx *model;
    samba_graph *graph;
    samba_value once, twice;
    OWN_TENSOR *x = tensor("in", SAMBA_FLOAT32, SIZES(3, 2));
    begin(17);
    input("x", FLOAT, SIZES(-1, 2));
    floats("w", SIZES(2, 2), FLOATS(2, 3, 4, 5));
    node("MatMul", "x w", "y");
    output("y");
    need(open_in(context, NULL, &model));
    need(samba_graph_new(context, "test", &graph));
    need(samba_graph_add_input(graph, x));
    samba_value mine = samba_parameter(graph, "mine", SAMBA_FLOAT32, SIZES(2, 2), (samba_initializer){SAMBA_INIT_ZEROS, 0, 0});
    samba_value in = samba_input(graph, "in");
    samba_onnx_binding bindings[] = {{"x", in}, {"w", mine}};
    need(samba_onnx_apply(model, graph, NULL, 2, bindings, &once));
    bindings[0].value = once;
    need(samba_onnx_apply(model, graph, NULL, 2, bindings, &twice));
    assert_int_equal(samba_graph_parameter_count(graph), 1);
    assert_int_equal(samba_value_size(twice, 0), 3);
    bindings[1].name = "v";
    refuse(samba_onnx_apply(model, graph, NULL, 2, bindings, &twice), SAMBA_ERROR_NAME, "no input and no initializer \"v\"");
    samba_graph_free(graph);
    need(samba_graph_new(context, "test", &graph));
    need(samba_graph_add_input(graph, x));
    bindings[0].value = samba_input(graph, "in");
    bindings[0].name = "w";
    refuse(samba_onnx_apply(model, graph, NULL, 1, bindings, &twice), SAMBA_ERROR_NAME, "no value is given for input \"x\"");
    samba_graph_free(graph);
    samba_onnx_free(model);
}

TEST(test_initializers_are_parameters)
{
    samba_onnx *model;
    samba_onnx_options options = samba_onnx_defaults();
    const samba_onnx_dim dims[] = {{"n1", 4}};
    const char *frozen[] = {"b*"};
    samba_graph *graph;
    samba_tensor_list weights;
    samba_parameter_info info;
    begin_line();
    options.dim_count = options.freeze_count = 1;
    options.dims = dims;
    options.freeze = frozen;
    need(open_in(context, NULL, &model));
    need(samba_graph_new(context, "test", &graph));
    need(samba_onnx_read(model, graph, &options));
    assert_int_equal(samba_graph_parameter_count(graph), 2);
    need(samba_graph_parameter(graph, 0, &info));
    assert_string_equal(info.name, "w");
    assert_false(info.buffer);
    need(samba_graph_parameter(graph, 1, &info));
    assert_string_equal(info.name, "b");
    assert_true(info.buffer);
    need(samba_onnx_weights(model, &weights));
    samba_onnx_free(model); /* the tensors keep its memory */
    assert_int_equal(weights.count, 2);
    assert_string_equal(samba_tensor_name(weights.tensors[0]), "w");
    assert_float_equal(((float *)samba_tensor_data(weights.tensors[0]))[1], 3, 0);
    samba_tensor_list_free(context, &weights);
    samba_graph_free(graph);
}

/* PyTorch's older exporter stores equal tensors once, the others are Identities of it: they are parameters of their own. */
TEST(test_identities_of_initializers)
{
    samba_onnx *model;
    samba_onnx_initializer_info info;
    begin(17);
    input("x", FLOAT, SIZES(2, 3));
    floats("scale", SIZES(3), FLOATS(1, 1, 1));
    floats("zero", SIZES(3), FLOATS(0, 0, 0));
    node("Identity", "zero", "mean");
    node("Identity", "scale", "var");
    node("BatchNormalization", "x scale zero mean var", "y");
    output("y");
    need(open_in(context, NULL, &model));
    assert_int_equal(samba_onnx_initializer_count(model), 4);
    for (int i = 0; i < 4; i++) {
        need(samba_onnx_initializer(model, i, &info));
        bool buffer = strcmp(info.name, "mean") == 0 || strcmp(info.name, "var") == 0;
        assert_int_equal(info.role, buffer ? SAMBA_ONNX_BUFFER : SAMBA_ONNX_PARAMETER);
    }
    refuse(samba_onnx_initializer(model, 4, &info), SAMBA_ERROR_INDEX, "no initializer 4");
    samba_graph *graph;
    samba_onnx_options options = samba_onnx_defaults();
    options.train = true;
    need(samba_graph_new(context, "test", &graph));
    need(samba_onnx_read(model, graph, &options));
    int assigned = 0;
    for (int64_t i = 0; i < graph->sink_count; i++)
        assigned += graph->sinks[i].kind == SAMBA_SINK_ASSIGN;
    assert_int_equal(assigned, 2); /* the running statistics */
    samba_graph_free(graph);
    samba_onnx_free(model);
}

/* ---- what the caller says ---- */

TEST(test_dims_by_name)
{
    samba_onnx_options options = samba_onnx_defaults();
    begin_line();
    refuse(read_with(NULL), SAMBA_ERROR_NAME, "dim 0 of input \"x\" is \"n1\", whose size is not given");
    options.dim_count = 1;
    options.dims = &(samba_onnx_dim){"n1", 3};
    need(read_with(&options));
    options.dims = &(samba_onnx_dim){"n2", 3};
    refuse(read_with(&options), SAMBA_ERROR_NAME, "no input has a dim \"n2\"");
    options.dims = &(samba_onnx_dim){"n1", -3};
    refuse(read_with(&options), SAMBA_ERROR_ARGUMENT, "cannot have size -3");
    options.dims = &(samba_onnx_dim){"n1", 3};
    options.freeze_count = 1;
    options.freeze = (const char *[]){"c*"};
    refuse(read_with(&options), SAMBA_ERROR_NAME, "no parameter has a name like \"c*\"");
}

TEST(test_examples)
{
    samba_onnx_options options = samba_onnx_defaults();
    OWN_TENSOR *fits = tensor("x", SAMBA_FLOAT32, SIZES(5, 2)), *other = tensor("z", SAMBA_FLOAT32, SIZES(5, 2));
    OWN_TENSOR *wide = tensor("x", SAMBA_FLOAT32, SIZES(5, 3)), *wrong = tensor("x", SAMBA_INT64, SIZES(5, 2));
    begin_line();
    options.input_count = 1;
    options.inputs = &fits;
    need(read_with(&options));
    options.inputs = &other;
    refuse(read_with(&options), SAMBA_ERROR_NAME, "there is no input \"z\"");
    options.inputs = &wide;
    refuse(read_with(&options), SAMBA_ERROR_SHAPE, "float32(-1, 2) in the model (-1: any size), given float32(5, 3)");
    options.inputs = &wrong;
    refuse(read_with(&options), SAMBA_ERROR_SHAPE, "given int64(5, 2)");
}

TEST(test_built_in)
{
    samba_onnx *model;
    samba_onnx_options options = samba_onnx_defaults();
    OWN_TENSOR *shape = tensor("s", SAMBA_INT64, SIZES(2));
    samba_graph *graph;
    ((int64_t *)samba_tensor_data(shape))[0] = 3;
    ((int64_t *)samba_tensor_data(shape))[1] = 2;
    begin(17);
    input("x", FLOAT, SIZES(6));
    input("s", INT64, SIZES(2));
    node("Reshape", "x s", "y");
    output("y");
    options.input_count = 1;
    options.inputs = &shape;
    refuse(read_with(&options), SAMBA_ERROR_UNSUPPORTED, "node 'y' (Reshape, version 17): the shape, \"s\", is not known");
    options.build_in = true;
    need(open_in(context, NULL, &model));
    need(samba_graph_new(context, "test", &graph));
    need(samba_onnx_read(model, graph, &options));
    assert_false(samba_onnx_built_in(model, 0));
    assert_true(samba_onnx_built_in(model, 1));
    assert_false(samba_onnx_built_in(model, 2));
    refuse(samba_onnx_read(model, graph, &options), SAMBA_ERROR_STATE, "a graph without values");
    samba_graph_free(graph);
    samba_onnx_free(model);
}

/* ---- refusals ---- */

TEST(test_all_refusals_at_once)
{
    begin(17);
    input("x", FLOAT, SIZES(2, 3));
    node("NoSuchThing", "x", "a");
    node("Relu", "a", "b"); /* left out with it, without a line of its own */
    node("StringNormalizer", "x", "c");
    node("NonZero", "x", "d");
    Samba__Onnx__NodeProto *odd = node("Relu", "x", "e");
    integer(odd, "colour", 3);
    node("Relu", "x x", "f");
    node("Add", "x", "g");
    output("b");
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "node 'a' (NoSuchThing, version 17): there is no such operator; node 'c'");
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "node 'e' (Relu, version 17): attribute colour is not supported; node");
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "node 'f' (Relu, version 17): input 1 is not supported; node");
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "node 'g' (Add, version 17): input 1 is missing");
}

TEST(test_many_refusals)
{
    begin(17);
    input("x", FLOAT, SIZES(2));
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        node("Nothing", "x", name);
    }
    output("x");
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "others");
}

/* Before version 9 its statistics could be of each pixel. */
TEST(test_batch_norm_of_pixels)
{
    begin(7);
    input("x", FLOAT, SIZES(2, 3, 4, 5));
    floats("one", SIZES(3), FLOATS(1, 1, 1));
    integer(node("BatchNormalization", "x one one one one", "y"), "spatial", 0);
    output("y");
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "(BatchNormalization, version 7): spatial is 0, statistics of each pixel");
}

TEST(test_what_functions_say)
{
    begin(17);
    input("x", FLOAT, SIZES(2, 3));
    input("z", FLOAT, SIZES(4));
    node("Add", "x z", "y");
    output("y");
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "node 'y' (Add, version 17): add");
}

TEST(test_structure)
{
    begin(17);
    message->graph = NULL;
    refuse(read_with(NULL), SAMBA_ERROR_FORMAT, "the model has no graph");
    begin(17);
    message->n_opset_import = 0;
    refuse(read_with(NULL), SAMBA_ERROR_FORMAT, "does not say which version");
    begin(17);
    input("x", FLOAT, SIZES(2));
    node("Relu", "nobody", "y");
    output("y");
    refuse(read_with(NULL), SAMBA_ERROR_FORMAT, "needs \"nobody\", which nothing before it gives");
    begin(17);
    input("x", FLOAT, SIZES(2));
    node("Add", "x y", "y"); /* a cycle */
    output("y");
    refuse(read_with(NULL), SAMBA_ERROR_FORMAT, "needs \"y\", which nothing before it gives");
    begin(17);
    input("x", FLOAT, SIZES(2));
    node("Relu", "x", "y");
    node("Abs", "x", "y");
    output("y");
    refuse(read_with(NULL), SAMBA_ERROR_FORMAT, "two values have the name \"y\"");
    begin(17);
    input("x", FLOAT, SIZES(2));
    node("Relu", "x", "y");
    output("z");
    refuse(read_with(NULL), SAMBA_ERROR_FORMAT, "no node gives the output \"z\"");
    begin(17);
    floats("w", SIZES(1), FLOATS(1));
    floats("w", SIZES(1), FLOATS(2));
    refuse(read_with(NULL), SAMBA_ERROR_FORMAT, "two initializers have the name \"w\"");
    begin(17);
    input("", FLOAT, SIZES(2));
    refuse(read_with(NULL), SAMBA_ERROR_FORMAT, "input 0 of the graph has no name");
    begin(17);
    input("x", SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__STRING, SIZES(2));
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "input \"x\" is string");
    begin(17);
    input("x", FLOAT, SIZES(2, 2, 2, 2, 2, 2, 2, 2, 2));
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "input \"x\" has 9 dims");
}

TEST(test_tensors_that_lie)
{
    begin_line();
    main_graph->initializer[0]->dims[0] = 3;
    refuse(read_with(&(samba_onnx_options){
               .struct_size = sizeof(samba_onnx_options), .dim_count = 1, .dims = &(samba_onnx_dim){"n1", 1}}),
           SAMBA_ERROR_UNSUPPORTED, "tensor \"w\" of shape (3, 1) has 8 bytes");
    begin_line();
    main_graph->initializer[0]->dims[0] = INT64_MAX;
    refuse(read_with(&(samba_onnx_options){
               .struct_size = sizeof(samba_onnx_options), .dim_count = 1, .dims = &(samba_onnx_dim){"n1", 1}}),
           SAMBA_ERROR_UNSUPPORTED, "tensor \"w\" has a shape that is none");
    begin_line();
    main_graph->initializer[0]->data_type = SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX64;
    refuse(read_with(&(samba_onnx_options){
               .struct_size = sizeof(samba_onnx_options), .dim_count = 1, .dims = &(samba_onnx_dim){"n1", 1}}),
           SAMBA_ERROR_UNSUPPORTED, "tensor \"w\" is of type complex64");
}

/* ---- bytes ---- */

TEST(test_bytes)
{
    samba_onnx *model;
    refuse(samba_onnx_open_memory(context, "\xff\xff\xff", 3, NULL, &model), SAMBA_ERROR_FORMAT,
           "no ONNX file, or a damaged one");
    assert_null(model);
    refuse(samba_onnx_open_memory(context, "", 0, NULL, &model), SAMBA_ERROR_FORMAT, "the model has no graph");
    refuse(samba_onnx_open(context, "/nowhere/m.onnx", &model), SAMBA_ERROR_FILE, "/nowhere/m.onnx");
    refuse(samba_onnx_open(context, folder, &model), SAMBA_ERROR_FILE, "directory");
    /* types of types: field 7 graph, 11 input, 2 type, 4 sequence, 1 type, 4 sequence ... */
    static uint8_t deep[4096];
    size_t at = sizeof deep;
    for (int depth = 0; depth < 600; depth++) {
        size_t inside = sizeof deep - at;
        if (inside >= 128)
            deep[--at] = (uint8_t)(inside >> 7);
        deep[--at] = (uint8_t)(inside >= 128 ? (inside & 127) | 128 : inside);
        deep[--at] = depth % 2 ? 4 << 3 | 2 : 1 << 3 | 2;
    }
    for (int i = 0; i < 3; i++) {
        static const uint8_t fields[] = {2 << 3 | 2, 11 << 3 | 2, 7 << 3 | 2};
        size_t inside = sizeof deep - at;
        deep[--at] = (uint8_t)(inside >> 7);
        deep[--at] = (uint8_t)((inside & 127) | 128);
        deep[--at] = fields[i];
    }
    refuse(samba_onnx_open_memory(context, deep + at, sizeof deep - at, NULL, &model), SAMBA_ERROR_FORMAT,
           "nested more than 100 deep");
    /* a million empty nodes in two bytes each */
    size_t count = 1 << 20, size = 2 * count + 4;
    uint8_t *many = malloc(size);
    assert_non_null(many);
    memcpy(many, (uint8_t[]){7 << 3 | 2, 0x80, 0x80, 0x80}, 4);
    many[3] = 1;
    for (size_t i = 0; i < count; i++)
        memcpy(many + 4 + 2 * i, (uint8_t[]){1 << 3 | 2, 0}, 2);
    refuse(samba_onnx_open_memory(context, many, size, NULL, &model), SAMBA_ERROR_FORMAT, "ONNX file");
    free(many);
}

/* ---- a file that is mapped: its large tensors stay there ---- */

enum { LARGE = 100001 };
static float large[3][LARGE];

static void large_initializer(const char *name, int which)
{
    Samba__Onnx__TensorProto *tensor = tensor_of(name, FLOAT, 1, SHAPE(LARGE), 0, "");
    for (int i = 0; i < LARGE; i++)
        large[which][i] = (float)(i % 1000 + which);
    tensor->raw_data = (ProtobufCBinaryData){sizeof large[which], (uint8_t *)large[which]};
    APPEND(main_graph, initializer, tensor);
}

/* Two messages behind each other are one, whose lists are joined: the last tensor comes from the second. */
static char *large_model(size_t *size)
{
    size_t first, second;
    begin(17);
    input("x", FLOAT, SIZES(LARGE));
    large_initializer("a", 0);
    floats("two", SIZES(1), FLOATS(2));
    large_initializer("bb", 1);
    node("Mul", "x two", "doubled");
    node("Add", "doubled a", "with_a");
    node("Add", "with_a bb", "with_b");
    node("Sub", "with_b ccc", "y");
    output("y");
    char *bytes = packed(&first);
    begin(17);
    message->n_opset_import = 0;
    large_initializer("ccc", 2);
    char *more = packed(&second), *both = malloc(first + second);
    assert_non_null(both);
    memcpy(both, bytes, first);
    memcpy(both + first, more, second);
    free(bytes);
    free(more);
    *size = first + second;
    return both;
}

static samba_status read_as(samba_onnx *model, samba_onnx_initializers initializers, samba_graph **graph)
{
    samba_onnx_options options = samba_onnx_defaults();
    options.initializers = initializers;
    need(samba_graph_new(context, "large", graph));
    return samba_onnx_read(model, *graph, &options);
}

/* More inputs than a scan may have, and as many scanned as it may not. */
TEST(test_scan_of_many_inputs)
{
    static const int64_t counts[] = {0, 65, 70, -1, 1000};
    for (int i = 0; i < LENGTH(counts); i++) {
        samba_onnx *model;
        samba_graph *graph;
        begin(17);
        input("x", FLOAT, SIZES(3, 2));
        Samba__Onnx__NodeProto *part = node("Scan", "x", "y");
        part->n_input = 70;
        part->input = make(70 * sizeof *part->input);
        for (int k = 0; k < 70; k++)
            part->input[k] = word("x");
        integer(part, "num_scan_inputs", counts[i]);
        attribute(part, "body", SAMBA__ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = NEW(GraphProto);
        output("y");
        need(open_in(context, NULL, &model));
        need(samba_graph_new(context, "scan", &graph));
        refuse(samba_onnx_read(model, graph, NULL), SAMBA_ERROR_UNSUPPORTED, "its graph does not fit 70 inputs");
        samba_graph_free(graph);
        samba_onnx_free(model);
    }
}

TEST(test_large_file)
{
    size_t size;
    char path[256], *bytes = large_model(&size), *mapped_text, *copied_text;
    samba_onnx *mapped, *copied;
    samba_graph *from_file, *from_memory, *trained;
    samba_tensor_list weights;
    assert_true(size > 1 << 20);
    snprintf(path, sizeof path, "%s/large.onnx", folder);
    FILE *file = fopen(path, "wb");
    assert_true(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    need(samba_onnx_open(context, path, &mapped));
    need(samba_onnx_open_memory(context, bytes, size, NULL, &copied));
    free(bytes);
    need(read_as(mapped, SAMBA_ONNX_PARAMETERS, &trained));
    need(samba_onnx_weights(mapped, &weights));
    assert_int_equal(weights.count, 4);
    for (int i = 0; i < 4; i++) {
        const char *name = samba_tensor_name(weights.tensors[i]);
        const int which = strcmp(name, "a") == 0 ? 0 : strcmp(name, "bb") == 0 ? 1 : 2;
        if (strcmp(name, "two") != 0)
            assert_memory_equal(samba_tensor_data(weights.tensors[i]), large[which], sizeof large[which]);
    }
    samba_tensor_list_free(context, &weights);
    need(read_as(mapped, SAMBA_ONNX_CONSTANTS, &from_file));
    need(read_as(copied, SAMBA_ONNX_CONSTANTS, &from_memory));
    samba_onnx_free(mapped); /* the graph keeps it */
    samba_onnx_free(copied);
    need(samba_graph_print(from_file, &mapped_text));
    need(samba_graph_print(from_memory, &copied_text));
    assert_true(strcmp(mapped_text, copied_text) == 0);
    samba_text_free(context, mapped_text);
    samba_text_free(context, copied_text);
    samba_graph_free(trained);
    samba_graph_free(from_file);
    samba_graph_free(from_memory);
    assert_int_equal(truncate(path, (off_t)size / 2), 0);
    refuse(samba_onnx_open(context, path, &mapped), SAMBA_ERROR_FORMAT, "no ONNX file, or a damaged one");
}

TEST(test_external_data)
{
    char path[256];
    samba_onnx_options options = samba_onnx_defaults();
    options.dim_count = 1;
    options.dims = &(samba_onnx_dim){"n1", 1};
    snprintf(path, sizeof path, "%s/weights", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite((float[]){0, 2, 3}, 4, 3, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/link", folder);
    unlink(path);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    static const struct {
        const char *location, *offset, *length, *words;
    } cases[] = {
        {"weights", "4", "8", NULL},
        {"weights", "4", NULL, NULL},
        {"weights", "8", "8", "lies at 8 to 16 of \"weights\", which has 12 bytes"},
        {"weights", "9223372036854775800", "8", "which has 12 bytes"},
        {"weights", "-4", "8", "the place of tensor \"w\" is damaged: offset is \"-4\""},
        {"weights", "4x", "8", "offset is \"4x\""},
        {"weights", "4", "4", "has 4 bytes in \"weights\"; its shape takes 8"},
        {"../weights", "4", "8", "a file below the model's folder is expected"},
        {"/etc/hostname", "0", "8", "a file below the model's folder is expected"},
        {"link", "0", "8", "a link to a file outside the model's folder"},
        {"missing", "0", "8", "No such file"},
        {".", "0", "8", "outside the model's folder"},
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        begin_line();
        Samba__Onnx__TensorProto *w = main_graph->initializer[0];
        w->has_raw_data = 0;
        w->has_data_location = 1;
        w->data_location = SAMBA__ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        const char *const pairs[3][2] = {
            {"location", cases[i].location}, {"offset", cases[i].offset}, {"length", cases[i].length}};
        for (int k = 0; k < 3; k++) {
            Samba__Onnx__StringStringEntryProto *entry = NEW(StringStringEntryProto);
            entry->key = word(pairs[k][0]);
            entry->value = pairs[k][1] ? word(pairs[k][1]) : NULL;
            if (pairs[k][1])
                APPEND(w, external_data, entry);
        }
        if (cases[i].words)
            refuse(read_with(&options), SAMBA_ERROR_UNSUPPORTED, cases[i].words);
        else {
            float y;
            compute(SIZES(1, 2), (float[]){1, 1}, 1, &y);
            assert_float_equal(y, 15, 0);
        }
    }
    samba_onnx *model;
    begin_line();
    main_graph->initializer[0]->has_data_location = 1;
    main_graph->initializer[0]->data_location = SAMBA__ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    samba_tensor *value;
    need(open_in(context, NULL, &model));
    refuse(samba_onnx_initializer_value(model, 0, &value), SAMBA_ERROR_FORMAT, "a file that it does not name");
    samba_onnx_free(model);
}

/* ---- control flow and functions ---- */

static Samba__Onnx__GraphProto *body_of(Samba__Onnx__NodeProto *of, const char *name)
{
    Samba__Onnx__AttributeProto *part = attribute(of, name, SAMBA__ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    return main_graph = part->g = NEW(GraphProto);
}

static void begin_loop(int64_t turns)
{
    begin(17);
    input("x", FLOAT, SIZES(2));
    integers("turns", INTEGERS(turns));
    Samba__Onnx__NodeProto *loop = node("Loop", "turns - x", "y s");
    output("y");
    output("s");
    body_of(loop, "body");
    input("i", INT64, 0, NULL);
    input("go", SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, NULL);
    input("v", FLOAT, SIZES(2));
    node("Identity", "go", "on");
    node("Add", "v x", "w"); /* of the graph around it */
    node("Neg", "w", "n");
    output("on");
    output("w");
    output("n");
    main_graph = message->graph;
}

TEST(test_loop)
{
    float y[2];
    begin_loop(3);
    main_graph->n_output = 1;
    compute(SIZES(2), (float[]){1, 10}, 2, y);
    assert_float_equal(y[0], 4, 0);
    assert_float_equal(y[1], 40, 0);
    begin_loop(3);
    need(read_with(NULL));
    begin_loop(100000);
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "more than 65536 turns");
}

TEST(test_if)
{
    float y[2];
    for (int64_t way = 0; way < 2; way++) {
        begin(17);
        input("x", FLOAT, SIZES(2));
        integers("way", INTEGERS(way));
        Samba__Onnx__NodeProto *choice = node("If", "way", "y");
        output("y");
        body_of(choice, "then_branch");
        node("Neg", "x", "a");
        output("a");
        main_graph = message->graph;
        body_of(choice, "else_branch");
        node("Abs", "x", "a");
        output("a");
        main_graph = message->graph;
        compute(SIZES(2), (float[]){1, -2}, 2, y);
        assert_float_equal(y[0], way ? -1 : 1, 0);
    }
}

static Samba__Onnx__FunctionProto *function_of(const char *name, const char *inputs, const char *outputs)
{
    Samba__Onnx__FunctionProto *function = NEW(FunctionProto);
    function->name = word(name);
    function->domain = word("mine");
    function->input = words(inputs, &function->n_input);
    function->output = words(outputs, &function->n_output);
    APPEND(function, opset_import, operator_set("", 17));
    APPEND(function, opset_import, operator_set("mine", 1));
    APPEND(message, functions, function);
    return function;
}

TEST(test_functions)
{
    float y[2];
    begin(17);
    APPEND(message, opset_import, operator_set("mine", 1));
    input("x", FLOAT, SIZES(2));
    Samba__Onnx__NodeProto *call = node("Scaled", "x", "y");
    call->domain = word("mine");
    Samba__Onnx__AttributeProto *alpha = attribute(call, "slope", SAMBA__ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    alpha->has_f = 1;
    alpha->f = 0.5f;
    output("y");
    Samba__Onnx__FunctionProto *function = function_of("Scaled", "a", "b");
    Samba__Onnx__NodeProto *inside = new_node("LeakyRelu", "a", "b");
    attribute(inside, "alpha", SAMBA__ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT)->ref_attr_name = word("slope");
    APPEND(function, node, inside);
    compute(SIZES(2), (float[]){4, -4}, 2, y);
    assert_float_equal(y[0], 4, 0);
    assert_float_equal(y[1], -2, 0);

    begin(17); /* one that calls itself */
    APPEND(message, opset_import, operator_set("mine", 1));
    input("x", FLOAT, SIZES(2));
    node("Again", "x", "y")->domain = word("mine");
    output("y");
    function = function_of("Again", "a", "b");
    inside = new_node("Again", "a", "b");
    inside->domain = word("mine");
    APPEND(function, node, inside);
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "nested more than 64 deep, or call themselves");

    begin(17); /* each calls the next one twice: 2^40 nodes */
    APPEND(message, opset_import, operator_set("mine", 1));
    input("x", FLOAT, SIZES(2));
    node("F0", "x", "y")->domain = word("mine");
    output("y");
    for (int i = 0; i < 40; i++) {
        char name[8], next[8];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, "F%d", i + 1);
        function = function_of(name, "a", "c");
        for (int k = 0; k < 2; k++) {
            inside = i == 39 ? new_node("Relu", k ? "b" : "a", k ? "c" : "b") : new_node(next, k ? "b" : "a", k ? "c" : "b");
            inside->domain = word(i == 39 ? "" : "mine");
            APPEND(function, node, inside);
        }
    }
    refuse(read_with(NULL), SAMBA_ERROR_UNSUPPORTED, "unroll to more than");
}

/* ---- large ---- */

TEST(test_many_nodes)
{
    enum { NODES = 100000 };
    begin(17);
    input("x", FLOAT, SIZES(2));
    Samba__Onnx__NodeProto *nodes = calloc(NODES, sizeof *nodes);
    Samba__Onnx__NodeProto **list = calloc(NODES, sizeof *list);
    char(*names)[16] = calloc(NODES + 1, sizeof *names);
    char **pointers = calloc(NODES + 1, sizeof *pointers);
    assert_true(nodes && list && names && pointers);
    strcpy(names[0], "x");
    pointers[0] = names[0];
    for (int i = 0; i < NODES; i++) {
        snprintf(names[i + 1], sizeof *names, "v%d", i);
        pointers[i + 1] = names[i + 1];
        samba__onnx__node_proto__init(&nodes[i]);
        nodes[i].op_type = i % 2 ? (char *)"Neg" : (char *)"Abs";
        nodes[i].input = &pointers[i];
        nodes[i].output = &pointers[i + 1];
        nodes[i].n_input = nodes[i].n_output = 1;
        list[i] = &nodes[i];
    }
    main_graph->node = list;
    main_graph->n_node = NODES;
    output(names[NODES]);
    need(read_with(NULL));
    free(nodes);
    free(list);
    free(names);
    free(pointers);
}

/* ---- no memory ---- */

static samba_status without_memory(samba_context *owner, void *user)
{
    samba_onnx *model;
    samba_graph *graph = NULL;
    samba_tensor_list weights = {0, NULL};
    samba_onnx_options options = samba_onnx_defaults();
    options.dim_count = 1;
    options.dims = &(samba_onnx_dim){"n1", 1};
    samba_status status = open_in(owner, NULL, &model);
    if (status != SAMBA_OK)
        return status;
    THEN(status, samba_graph_new(owner, "test", &graph));
    THEN(status, samba_onnx_read(model, graph, &options));
    THEN(status, samba_onnx_weights(model, &weights));
    if (status == SAMBA_OK)
        samba_tensor_list_free(owner, &weights);
    samba_graph_free(graph);
    samba_onnx_free(model);
    return status;
}

TEST(test_no_memory)
{
    begin_line();
    fail_each_allocation(without_memory, NULL);
}

TEST_MAIN(test_line, test_apply, test_initializers_are_parameters, test_identities_of_initializers, test_dims_by_name,
          test_examples, test_built_in, test_all_refusals_at_once, test_many_refusals, test_batch_norm_of_pixels,
          test_what_functions_say, test_structure, test_tensors_that_lie, test_bytes, test_scan_of_many_inputs, test_large_file,
          test_external_data, test_loop, test_if, test_functions, test_many_nodes, test_no_memory)
