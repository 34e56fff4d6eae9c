/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the rows of tests/unit/values/NAME.txt, each in all ways that operator_rows.h names: the operator's own kernel, its
 * expansion, its gradients by its vjp, differences, 16-bit floats, costs and what it refuses. torch_NAME.txt are written by
 * tests/torch/make_values.py: the values and gradients that PyTorch has. */
#include "operator_rows.h"
#include <dirent.h>

#define EXPANSION_TOLERANCE 1e-12

static const row_reader *place; /* of the row that is run */
static uint64_t run_seed;

static void expect_elements(const char *what, const samba_array *found, const operand *wanted, double tolerance, double least)
{
    char shapes[2][SAMBA_SHAPE_TEXT];
    if (found->dtype != wanted->dtype || !samba_shape_equal(found->rank, found->shape, wanted->rank, wanted->shape))
        row_fail(place, "%s is %s%s, expected %s%s", what, samba_dtype_name(found->dtype),
                 samba_shape_format(found->rank, found->shape, shapes[0], SAMBA_SHAPE_TEXT), samba_dtype_name(wanted->dtype),
                 samba_shape_format(wanted->rank, wanted->shape, shapes[1], SAMBA_SHAPE_TEXT));
    for (int64_t i = 0; i < found->numel; i++) {
        char rounded[8];
        uint64_t unused = 0;
        samba_store_double(wanted->dtype, rounded, operand_value(wanted, i, &unused));
        double value = array_get(found, i), expected = samba_load_double(wanted->dtype, rounded);
        if (value == expected || (isnan(value) && isnan(expected)) ||
            fabs(value - expected) <= tolerance * fmax(fabs(expected), least))
            continue;
        row_fail(place, "element %lld of %s is %.17g, expected %.17g", (long long)i, what, value, expected);
    }
}

static operand as_operand(const samba_array *array, double *values)
{
    operand result = {.dtype = array->dtype, .rank = array->rank, .values = values, .value_count = (int)array->numel};
    memcpy(result.shape, array->shape, sizeof result.shape);
    for (int64_t i = 0; i < array->numel; i++)
        values[i] = array_get(array, i);
    return result;
}

/* The value, and where they are said the gradients, of one evaluation. */
static void check_values(const operator_row *row)
{
    op_bench bench = row_bench(row);
    if (bench.result == SAMBA_NONE)
        row_fail(place, "%s", samba_error_message(bench.context));
    samba_node node = *samba_node_at(bench.graph, bench.result);
    bool needed[OPERANDS_MAX], any = false;
    samba_ref gradients[OPERANDS_MAX], expanded = SAMBA_NONE;
    int sink_count = 1;
    gradient_sink(&bench, "value", SAMBA_FWD, bench.result);
    if (samba_ops[row->op].expand && node.dtype == SAMBA_FLOAT64) {
        expanded = op_bench_expansion(&bench, row->op);
        gradient_sink(&bench, "expanded", SAMBA_FWD, expanded);
        sink_count++;
    }
    for (int i = 0; i < row->count; i++)
        any |= needed[i] = row->has_gradient[i];
    if (any) {
        row_weights(&bench);
        gradient_emit(&bench, row->op, needed, gradients);
    }
    for (int i = 0; i < row->count; i++)
        if (needed[i] && row->no_gradient[i])
            assert_int_equal(gradients[i], SAMBA_NONE);
        else if (needed[i])
            gradient_sink(&bench, gradient_names[i], SAMBA_BCKWD, gradients[i]);
    if (samba_graph_status(bench.graph) != SAMBA_OK)
        row_fail(place, "%s", samba_error_message(bench.context));

    samba_arena arena;
    samba_array sinks[SINKS_MAX];
    gradient_evaluate(&bench, &arena, sinks);
    if (row->has_value)
        expect_elements("the value", &sinks[0], &row->expected, place->tolerance, place->least);
    if (expanded != SAMBA_NONE) {
        double *values = malloc((size_t)(sinks[0].numel + 1) * sizeof *values);
        operand kernel = as_operand(&sinks[0], values);
        expect_elements("the expansion", &sinks[1], &kernel, EXPANSION_TOLERANCE, 1e-3);
        free(values);
    }
    for (int i = 0; i < row->count; i++)
        if (needed[i] && !row->no_gradient[i])
            expect_elements(gradient_names[i], &sinks[sink_count++], &row->gradients[i], fmax(place->tolerance, 1e-10),
                            fmax(place->least, 1e-3));
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

/* In 16-bit floats the expansion is the kernel's but for the last place, and a gradient has its operand's dtype. Of operands in
 * float64 the first is narrow, and those behind it that are not constant. */
static void check_narrow(const operator_row *row, samba_dtype dtype)
{
    operand narrow[OPERANDS_MAX];
    bool needed[OPERANDS_MAX];
    op_bench bench;
    uint64_t random = 7;
    for (int i = 0; i < row->count; i++) {
        narrow[i] = row->operands[i];
        needed[i] = narrow[i].dtype == SAMBA_FLOAT64 && !narrow[i].constant;
        narrow[i].dtype = needed[i] ? dtype : narrow[i].dtype;
    }
    op_bench_begin(&bench, row->op, &row->attrs, row->count, narrow, &random);
    samba_graph *graph = bench.graph;
    gradient_sink(&bench, "value", SAMBA_FWD, bench.result);
    gradient_sink(&bench, "expanded", SAMBA_FWD, op_bench_expansion(&bench, row->op));
    row_weights(&bench);
    samba_ref gradients[OPERANDS_MAX];
    gradient_emit(&bench, row->op, needed, gradients);
    for (int i = 0; i < row->count; i++)
        if (needed[i])
            assert_int_equal(samba_node_at(graph, gradients[i])->dtype, dtype);
    samba_arena arena;
    samba_array sinks[SINKS_MAX];
    gradient_evaluate(&bench, &arena, sinks);
    double values[256];
    assert_true(sinks[0].numel <= SAMBA_COUNT(values));
    operand kernel = as_operand(&sinks[0], values);
    assert_int_equal(kernel.dtype, dtype);
    expect_elements("the expansion in 16 bits", &sinks[1], &kernel, dtype == SAMBA_BFLOAT16 ? 0x1p-7 : 0x1p-10, 1e-4);
    samba_arena_free(&arena);
    op_bench_end(&bench);
}

static void check_refusal(const operator_row *row)
{
    op_bench bench = row_bench(row);
    samba_status status = samba_graph_status(bench.graph);
    assert_int_equal(bench.result == SAMBA_NONE, status != SAMBA_OK);
    if (row->at_run) {
        assert_int_equal(status, SAMBA_OK);
        gradient_sink(&bench, "value", SAMBA_FWD, bench.result);
        samba_arena arena;
        samba_array sink;
        samba_arena_init(&arena, bench.context);
        status = samba_graph_evaluate(bench.graph, bench.leaf_count, operand_names, bench.arrays, &arena, &sink);
        samba_arena_free(&arena);
    }
    const char *message = samba_error_message(bench.context);
    if (status != row->status || !message[0] || !strstr(message, row->words))
        row_fail(place, "%s: \"%s\", expected %s: \"%s\"", samba_status_name(status), message, samba_status_name(row->status),
                 row->words);
    op_bench_end(&bench);
}

static void check_flops(const operator_row *row)
{
    const samba_node *inputs[OPERANDS_MAX];
    op_bench bench = row_bench(row);
    assert_int_equal(samba_graph_status(bench.graph), SAMBA_OK);
    for (int i = 0; i < row->count; i++)
        inputs[i] = samba_node_at(bench.graph, bench.leaves[i]);
    int64_t flops = samba_ops[row->op].flops(samba_node_at(bench.graph, bench.result), inputs);
    if (flops != row->flops)
        row_fail(place, "%lld flops, expected %lld", (long long)flops, (long long)row->flops);
    op_bench_end(&bench);
}

static void check_row(const operator_row *row)
{
    if (!row->has_value && !row->differences && !row->narrow && !row->refused && row->flops < 0)
        row_fail(place, "nothing is expected of this row");
    if (row->refused)
        check_refusal(row);
    if (row->has_value)
        check_values(row);
    snprintf(bench_place, sizeof bench_place, "%s:%d", place->file, place->line);
    if (row->differences)
        gradient_check(row->op, &row->attrs, row->count, row->operands, row->of_run ? run_seed + (uint64_t)place->line : 7);
    if (row->narrow) {
        check_narrow(row, SAMBA_BFLOAT16);
        check_narrow(row, SAMBA_FLOAT16);
    }
    if (row->flops >= 0)
        check_flops(row);
}

static void rows_of_a_file(void **state)
{
    const char *name = *state;
    char path[512], names[ROW_TEXT];
    snprintf(path, sizeof path, "%s/%s", VALUES_FOLDER, name);
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "r");
    if (!file || getdelim(&text, &size, '\0', file) <= 0 || fclose(file) != 0)
        fail_msg("no %s", path);
    static operator_row row;
    row_reader reader = {.file = name, .at = text, .line = 1};
    place = &reader;
    int rows = 0;
    for (; *reader.at; reader.at++, reader.line++) {
        if (*reader.at == '#' || *reader.at == '\n') {
            reader.at += strcspn(reader.at, "\n");
        } else if (strncmp(reader.at, "tolerance ", 10) == 0) {
            char *end;
            reader.tolerance = strtod(reader.at + 10, &end);
            reader.least = strtod(end, &end);
            reader.at = end;
        } else {
            assert_true(row_word(&reader, names));
            const row_reader behind = reader;
            for (char *rest, *op = strtok_r(names, "|", &rest); op; op = strtok_r(NULL, "|", &rest), rows++) {
                reader = behind;
                row_rest(&reader, &row, op);
                check_row(&row);
            }
        }
        if (*reader.at != '\n')
            row_fail(&reader, "expected a line's end, found '%.20s'", reader.at);
    }
    assert_true(rows > 0);
    free(text);
}

int main(void)
{
    enum { FILES_MAX = 64 };
    static char names[FILES_MAX][64];
    struct CMUnitTest tests[FILES_MAX];
    size_t count = 0;
    run_seed = random_seed();
    printf("seed %llu\n", (unsigned long long)run_seed);
    DIR *values = opendir(VALUES_FOLDER);
    for (struct dirent *entry; values && (entry = readdir(values)) && count < FILES_MAX;)
        if (strstr(entry->d_name, ".txt") && !strstr(entry->d_name, "functions")) { /* those: test_composed.c */
            snprintf(names[count], sizeof names[count], "%.60s", entry->d_name);
            tests[count] = (struct CMUnitTest){names[count], rows_of_a_file, NULL, NULL, names[count]};
            count++;
        }
    if (!values || closedir(values) != 0 || count == 0)
        return 1;
    return _cmocka_run_group_tests("operators", tests, count, NULL, NULL);
}
