/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources and loaders: what files give, and with which words a broken one is refused; parts, joins and functions as sources; the
 * order of batches, in one thread and read ahead by another. */
#include "failing_allocator.h"
#include "base/base.h"
#include <sambaflow/source.h>

static char path_text[256];

/* A file of the scratch folder with this text. */
static const char *file_of(const char *name, const char *text)
{
    snprintf(path_text, sizeof path_text, "%s/%s", folder, name);
    FILE *file = fopen(path_text, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path_text;
}

#define COLUMNS(...)                                                                                                             \
    LENGTH(((samba_column[]){__VA_ARGS__})), (samba_column[]) { __VA_ARGS__ }
static samba_file_options options_of(int count, const samba_column *columns)
{
    samba_file_options options = samba_file_defaults();
    options.column_count = count;
    options.columns = columns;
    return options;
}

static const samba_column x = {.field = {"x", SAMBA_FLOAT32, 0, {0}}}, n = {.field = {"n", SAMBA_INT64, 0, {0}}};

/* The text as a file has one field, whose values are these. */
static void gives(const char *name, const char *text, const samba_file_options *options, int count, const double *values)
{
    samba_tensor_list list;
    need(samba_columns_read(context, file_of(name, text), options, &list));
    assert_int_equal(list.count, 1);
    assert_int_equal(samba_tensor_numel(list.tensors[0]), count);
    OWN_TENSOR *wide = tensor("", SAMBA_FLOAT64, samba_tensor_rank(list.tensors[0]), samba_tensor_shape(list.tensors[0]));
    need(samba_tensor_copy(wide, list.tensors[0]));
    for (int i = 0; i < count; i++)
        if (((const double *)samba_tensor_data(wide))[i] != values[i])
            fail_msg("%s: element %d is %g and not %g", text, i, ((const double *)samba_tensor_data(wide))[i], values[i]);
    samba_tensor_list_free(context, &list);
}

static void refuses(const char *name, const char *text, const samba_file_options *options, samba_status status, const char *words)
{
    samba_tensor_list list;
    refuse(samba_columns_read(context, file_of(name, text), options, &list), status, words);
    assert_int_equal(list.count, 0);
}

TEST(csv)
{
    samba_file_options o = options_of(COLUMNS(x));
    gives("a.csv", "x,y\n1,2\n-3.5e1,4\n", &o, 2, (double[]){1, -35});
    gives("a.csv", "\xef\xbb\xbf\"x\",y\r\n\"1\" ,2\r\n\r\n 3 ,\"a \"\"b\"\"\n, c\"\r\n", &o, 2, (double[]){1, 3});
    gives("a.tsv", "y\tx\n1,5\t2\n", &o, 1, (double[]){2});
    o.delimiter = ';';
    gives("a.csv", "x;y\n7;2", &o, 1, (double[]){7});
    samba_column wide = {.field = {"p", SAMBA_FLOAT64, 2, {2, 2}}, .from = "p*,x", .scale = 2, .shift = 1};
    o = options_of(COLUMNS(wide));
    gives("a.csv", "p1,x,p2,p3\n1,2,3,4\n", &o, 4, (double[]){3, 7, 9, 5});
    wide.from = "0,2,1,1";
    wide.scale = wide.shift = 0;
    o = options_of(COLUMNS(wide));
    o.no_header = true;
    gives("a.csv", "1,2,3\n4,5,6\n", &o, 8, (double[]){1, 3, 2, 2, 4, 6, 5, 5});
    samba_column kind = n;
    kind.class_count = 2;
    kind.classes = (const char *const[]){"cat", "dog"};
    o = options_of(COLUMNS(kind));
    gives("a.csv", "n\ndog\n\"cat\"\n", &o, 2, (double[]){1, 0});
    refuses("a.csv", "n\ndog\ncta\n", &o, SAMBA_ERROR_FORMAT,
            ":3: column 'n': 'cta' is none of its 2 classes: did you mean 'cat'?");
}

TEST(broken_csv)
{
    samba_file_options o = options_of(COLUMNS(x)), whole = options_of(COLUMNS(n));
    refuses("b.csv", "x,y\n1,2\n3\n", &o, SAMBA_ERROR_FORMAT, "b.csv:3: 1 cells, and the first line has 2");
    refuses("b.csv", "x,y\n1,2\n\n3,4,5\n", &o, SAMBA_ERROR_FORMAT, ":4: 3 cells, and the first line has 2");
    refuses("b.csv", "x,y\n\"a\nb\",2\n3,4\n", &o, SAMBA_ERROR_FORMAT, ":2: column 'x': 'a");
    refuses("b.csv", "y,x\n\"a\nb\",2\n3,z\n", &o, SAMBA_ERROR_FORMAT, ":4: column 'x': 'z' is no number");
    refuses("b.csv", "x\n0x10\n", &o, SAMBA_ERROR_FORMAT, "'0x10' is no number");
    refuses("b.csv", "x\n1 2\n", &o, SAMBA_ERROR_FORMAT, "'1 2' is no number");
    refuses("b.csv", "x\n\"1\n", &o, SAMBA_ERROR_FORMAT, ":2: a quote is not closed");
    refuses("b.csv", "x\n\"1\"2\n", &o, SAMBA_ERROR_FORMAT, ":2: text follows the quote");
    refuses("b.csv", "x,y\n,2\n", &o, SAMBA_ERROR_FORMAT, ":2: column 'x': the value is missing; fill_missing");
    refuses("b.csv", "x\nNaN\n", &o, SAMBA_ERROR_FORMAT, "the value is missing");
    refuses("b.csv", "", &o, SAMBA_ERROR_FORMAT, "b.csv has no samples: it is empty");
    refuses("b.csv", "\n\r\n", &o, SAMBA_ERROR_FORMAT, "it is empty");
    refuses("b.csv", "x,y\n", &o, SAMBA_ERROR_FORMAT, "has no samples: one line, which is the header");
    refuses("b.csv", "x\n1e39\n", &o, SAMBA_ERROR_FORMAT, ":2: column 'x': 9.99");
    refuses("b.csv", "x\n1e999\n", &o, SAMBA_ERROR_FORMAT, "1e999 is too large");
    refuses("b.csv", "n\n1e30\n", &whole, SAMBA_ERROR_FORMAT, "too large for the field's dtype");
    refuses("b.csv", "n\n9223372036854775808\n", &whole, SAMBA_ERROR_FORMAT, "too large for the field's dtype");
    refuses("b.csv", "n\n1.5\n", &whole, SAMBA_ERROR_FORMAT, "1.5 is no whole number");
    refuses("b.csv", "a,b\n1,2\n", &o, SAMBA_ERROR_NAME, "b.csv has no column 'x'; there are 'a', 'b'");
    gives("b.csv", "n\n9223372036854775807\n", &whole, 1, (double[]){0x1p63});
    gives("b.csv", "x\ninf\n-Infinity\n", &o, 2, (double[]){INFINITY, -INFINITY});
    o.fill_missing = true;
    o.missing = -1;
    gives("b.csv", "x,y\n,2\nNA,3\n5,\n", &o, 3, (double[]){-1, -1, 5});
    o.no_header = true;
    refuses("b.csv", "1,2\n", &o, SAMBA_ERROR_NAME, "no column 'x'; there are 0 to 1, as there is no header");
    samba_column two = x;
    two.from = "a,b";
    o = options_of(COLUMNS(two));
    refuses("b.csv", "a,b\n1,2\n", &o, SAMBA_ERROR_SHAPE, "field 'x' has 1 elements, and 'a,b' is 2 columns");
    samba_column small = {.field = {"x", SAMBA_UINT8, 0, {0}}};
    o = options_of(COLUMNS(small));
    refuses("b.csv", "x\n256\n", &o, SAMBA_ERROR_FORMAT, "256 is too large");
    refuses("b.csv", "x\n-1\n", &o, SAMBA_ERROR_FORMAT, "-1 is too large");
}

TEST(jsonl)
{
    samba_column list = {.field = {"v", SAMBA_FLOAT32, 2, {2, 1}}};
    samba_file_options o = options_of(COLUMNS(list)), number = options_of(COLUMNS(n));
    gives("a.jsonl", "{\"v\": [[1], [2.5]], \"other\": {}}\n\n{\"v\": [[-1], [0]]}", &o, 4, (double[]){1, 2.5, -1, 0});
    gives("a.jsonl", "{\"n\": true}\r\n{\"n\": 7}\n", &number, 2, (double[]){1, 7});
    refuses("a.jsonl", "{\"n\": 1}\n{\"n\": 1,}\n", &number, SAMBA_ERROR_FORMAT, "a.jsonl:2: byte ");
    refuses("a.jsonl", "{\"n\": 1}\n[1]\n", &number, SAMBA_ERROR_FORMAT, ":2: expected an object");
    refuses("a.jsonl", "{\"n\": 1}\n{\"m\": 1}\n", &number, SAMBA_ERROR_FORMAT, ":2: column 'n': the value is missing");
    refuses("a.jsonl", "{\"n\": \"1\"}\n", &number, SAMBA_ERROR_FORMAT, "expected a number, found a text");
    refuses("a.jsonl", "{\"n\": [1]}\n", &number, SAMBA_ERROR_FORMAT, "found a list");
    refuses("a.jsonl", "{\"n\": 1e400}\n", &number, SAMBA_ERROR_FORMAT, "a.jsonl:1: byte");
    refuses("a.jsonl", "{\"v\": [[1], [2], [3]]}\n", &o, SAMBA_ERROR_FORMAT, "expected a list of 2 in dim 0");
    refuses("a.jsonl", "{\"v\": [1, 2]}\n", &o, SAMBA_ERROR_FORMAT, "expected a list of 1 in dim 1");
    refuses("a.jsonl", "", &number, SAMBA_ERROR_FORMAT, "has no samples");
    number.fill_missing = true;
    number.missing = 9;
    gives("a.jsonl", "{\"n\": null}\n{}\n", &number, 2, (double[]){9, 9});
    number.delimiter = ';';
    refuses("a.jsonl", "{\"n\": 1}\n", &number, SAMBA_ERROR_ARGUMENT, "delimiter and no_header");
}

TEST(tensors_of_files)
{
    samba_tensor_list list;
    samba_source *source;
    char path[256];
    OWN_TENSOR *image = tensor("image", SAMBA_UINT8, SIZES(3, 2, 2)), *label = tensor("label", SAMBA_INT64, SIZES(3));
    for (int i = 0; i < 12; i++)
        ((uint8_t *)samba_tensor_data(image))[i] = (uint8_t)(20 * i);
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    need(samba_safetensors_write(context, path, 2, (samba_tensor *[]){image, label}, NULL));
    samba_column columns[2] = {{.field = {"pixels", SAMBA_FLOAT32, 1, {4}}, .from = "image", .scale = 0.5, .shift = -1},
                               {.field = {"label", SAMBA_INT32, 0, {0}}}};
    samba_file_options o = options_of(2, columns);
    need(samba_source_file(context, path, &o, &source));
    assert_int_equal(samba_source_count(source), 3);
    assert_string_equal(samba_source_field(source, 0)->name, "pixels");
    assert_null(samba_source_field(source, 2));
    OWN_TENSOR *rows = tensor("", SAMBA_FLOAT32, SIZES(2, 4)), *labels = tensor("", SAMBA_INT32, SIZES(2));
    need(samba_source_read(source, 2, (int64_t[]){2, 0}, 2, (samba_tensor *[]){rows, labels}));
    assert_float_equal(((float *)samba_tensor_data(rows))[1], 20 * 9 * 0.5 - 1, 0);
    assert_float_equal(((float *)samba_tensor_data(rows))[4], -1, 0);
    refuse(samba_source_read(source, 2, (int64_t[]){3, 0}, 2, (samba_tensor *[]){rows, labels}), SAMBA_ERROR_INDEX,
           "sample 3 is not there: the source has 3");
    refuse(samba_source_read(source, 2, (int64_t[]){1, 0}, 2, (samba_tensor *[]){labels, rows}), SAMBA_ERROR_DTYPE, "'pixels'");
    refuse(samba_source_read(source, 3, (int64_t[]){1, 0, 2}, 2, (samba_tensor *[]){rows, labels}), SAMBA_ERROR_SHAPE,
           "at least 3");
    samba_source_free(source);
    columns[1].from = "x";
    refuse(samba_columns_read(context, path, &o, &list), SAMBA_ERROR_NAME, "has no tensor 'x'; there are 'label', 'image'");
    columns[1].from = "image";
    refuse(samba_columns_read(context, path, &o, &list), SAMBA_ERROR_SHAPE, "does not make samples of field 'label'");
    columns[1].from = NULL;
    o.no_header = true;
    refuse(samba_columns_read(context, path, &o, &list), SAMBA_ERROR_ARGUMENT, "are for files .csv");
    need(samba_source_file(context, path, NULL, &source));
    assert_int_equal(samba_source_field_count(source), 2);
    samba_source_free(source);
    o = samba_file_defaults();
    refuse(samba_columns_read(context, file_of("c.csv", "x\n1\n"), &o, &list), SAMBA_ERROR_ARGUMENT, "`columns` must say");
    snprintf(path, sizeof path, "%s/none.csv", folder);
    o = options_of(COLUMNS(x));
    refuse(samba_columns_read(context, path, &o, &list), SAMBA_ERROR_FILE, "none.csv");
    refuse(samba_columns_read(context, "what.xyz", &o, &list), SAMBA_ERROR_ARGUMENT, "no known ending");
}

/* What becomes of a file after it was read has no effect. */
TEST(a_file_that_changes)
{
    samba_source *source;
    samba_file_options o = options_of(COLUMNS(x));
    need(samba_source_file(context, file_of("d.csv", "x\n1\n2\n"), &o, &source));
    file_of("d.csv", "y\n");
    OWN_TENSOR *rows = tensor("", SAMBA_FLOAT32, SIZES(1));
    need(samba_source_read(source, 1, (int64_t[]){1}, 1, (samba_tensor *[]){rows}));
    assert_float_equal(*(float *)samba_tensor_data(rows), 2, 0);
    samba_source_free(source);
}

/* ---- sources in memory ---- */

/* `count` samples: x is the number, y twice that, in a list of one. */
static samba_source *numbers(int64_t count)
{
    samba_source *source;
    OWN_TENSOR *a = tensor("x", SAMBA_FLOAT32, 1, SHAPE(count)), *b = tensor("y", SAMBA_INT64, 2, SHAPE(count, 1));
    for (int64_t i = 0; i < count; i++) {
        ((float *)samba_tensor_data(a))[i] = (float)i;
        ((int64_t *)samba_tensor_data(b))[i] = 2 * i;
    }
    need(samba_source_tensors(context, 2, (samba_tensor *[]){a, b}, &source));
    return source;
}

static samba_loader *loader_of(samba_source *source, samba_loader_options o)
{
    samba_loader *loader;
    o.struct_size = sizeof o;
    need(samba_loader_new(context, source, &o, &loader));
    return loader;
}

/* An epoch's samples in their order; how many. */
static int epoch_of(samba_loader *loader, int64_t epoch, int64_t first, int64_t *order, int64_t *batches)
{
    samba_batch batch;
    int count = 0;
    *batches = 0;
    need(samba_loader_begin(loader, epoch, first));
    for (;;) {
        need(samba_loader_next(loader, &batch));
        if (batch.count == 0)
            break;
        ++*batches;
        assert_int_equal(samba_tensor_shape(batch.tensors[0])[0], batch.count);
        assert_string_equal(samba_tensor_name(batch.tensors[1]), "y");
        for (int64_t i = 0; i < batch.count; i++) {
            order[count] = (int64_t)((float *)samba_tensor_data(batch.tensors[0]))[i];
            assert_int_equal(((int64_t *)samba_tensor_data(batch.tensors[1]))[i], 2 * order[count]);
            count++;
        }
    }
    refuse(samba_loader_next(loader, &batch), SAMBA_ERROR_STATE, "the epoch has ended: call samba_loader_begin");
    assert_int_equal(batch.count, 0);
    return count;
}

TEST(loaders)
{
    int64_t order[64], again[64], batches;
    seed_anew();
    for (int round = 0; round < 30; round++) {
        const int64_t count = draw_below(40), size = 1 + draw_below(9);
        const bool drop = draw_below(2);
        samba_source *source = numbers(count);
        samba_loader_options o = {.batch_size = size, .shuffle = draw_below(2), .seed = next_random(), .drop_last = drop};
        samba_loader *plain = loader_of(source, o);
        o.prefetch = 1 + draw_below(4);
        samba_loader *ahead = loader_of(source, o);
        samba_source_free(source); /* the loaders hold it */
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            const int given = epoch_of(plain, epoch, 0, order, &batches);
            assert_int_equal(given, drop ? count / size * size : count);
            assert_int_equal(batches, samba_loader_batches(plain));
            assert_int_equal(epoch_of(ahead, epoch, 0, again, &batches), given);
            assert_memory_equal(order, again, sizeof *order * (size_t)given);
            bool seen[64] = {false};
            for (int i = 0; i < given; i++) {
                assert_false(seen[order[i]]);
                seen[order[i]] = true;
                assert_true(o.shuffle || order[i] == i);
            }
            const int64_t first = batches > 0 ? draw_below((int)batches) : 0; /* from within the epoch */
            assert_int_equal(epoch_of(ahead, epoch, first, again, &batches), given - first * size > 0 ? given - first * size : 0);
            assert_memory_equal(order + first * size, again,
                                sizeof *order * (size_t)(given - first * size > 0 ? given - first * size : 0));
        }
        samba_loader_free(plain);
        samba_loader_free(ahead); /* perhaps while its thread waits */
    }
}

TEST(pads)
{
    samba_batch batch;
    samba_source *source = numbers(3);
    samba_loader *loader =
        loader_of(source, (samba_loader_options){.batch_size = 2, .pad_count = 1, .pads = &(samba_padding){"y", -100}});
    need(samba_loader_begin(loader, 0, 1));
    need(samba_loader_next(loader, &batch));
    assert_int_equal(batch.count, 1);
    assert_int_equal(((int64_t *)samba_tensor_data(batch.padded[1]))[1], -100);
    assert_float_equal(((float *)samba_tensor_data(batch.padded[0]))[1], 0, 0);
    assert_int_equal(samba_tensor_shape(batch.padded[0])[0], 2);
    samba_loader_free(loader);
    samba_loader *none;
    samba_loader_options o = samba_loader_defaults();
    o.pad_count = 1;
    o.pads = &(samba_padding){"z", 0};
    refuse(samba_loader_new(context, source, &o, &none), SAMBA_ERROR_NAME, "a pad is for 'z'");
    o = samba_loader_defaults();
    o.batch_size = 0;
    refuse(samba_loader_new(context, source, &o, &none), SAMBA_ERROR_ARGUMENT, "batch_size is 0");
    o.batch_size = 1;
    o.prefetch = 65;
    refuse(samba_loader_new(context, source, &o, &none), SAMBA_ERROR_ARGUMENT, "prefetch is 65");
    o.prefetch = 0;
    need(samba_loader_new(context, source, &o, &loader));
    refuse(samba_loader_next(loader, &batch), SAMBA_ERROR_STATE, "samba_loader_begin first");
    refuse(samba_loader_begin(loader, -1, 0), SAMBA_ERROR_ARGUMENT, "epoch -1");
    samba_loader_free(loader);
    samba_source_free(source);
}

TEST(parts)
{
    int64_t order[64], batches, count;
    samba_source *source = numbers(11), *train, *rest, *part, *joined;
    need(samba_source_split(source, 0.3, 5, &train, &rest));
    assert_int_equal(samba_source_count(train), 8);
    assert_int_equal(samba_source_count(rest), 3);
    samba_source *const both[] = {train, rest};
    bool seen[11] = {false};
    for (int i = 0; i < 2; i++) {
        samba_loader *loader = loader_of(both[i], (samba_loader_options){.batch_size = 4, .prefetch = 1});
        count = epoch_of(loader, 0, 0, order, &batches);
        for (int64_t k = 0; k < count; k++) {
            assert_false(seen[order[k]]);
            seen[order[k]] = true;
        }
        samba_loader_free(loader);
    }
    for (int i = 0; i < 11; i++)
        assert_true(seen[i]);
    refuse(samba_source_split(source, 1.5, 5, &part, &joined), SAMBA_ERROR_ARGUMENT, "share is 1.5");
    need(samba_source_part(source, 2, 5, &part));
    samba_loader *loader = loader_of(part, (samba_loader_options){.batch_size = 4});
    assert_int_equal(epoch_of(loader, 0, 0, order, &batches), 3);
    assert_int_equal(order[2], 4);
    samba_loader_free(loader);
    refuse(samba_source_part(source, 5, 12, &joined), SAMBA_ERROR_INDEX, "the source has 11");
    samba_source *picked, *again;
    need(samba_source_pick(source, 4, (const int64_t[]){10, 0, 3, 10}, &picked));
    need(samba_source_pick(picked, 2, (const int64_t[]){3, 2}, &again));
    loader = loader_of(picked, (samba_loader_options){.batch_size = 3});
    assert_int_equal(epoch_of(loader, 0, 0, order, &batches), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(order[i], ((const int64_t[]){10, 0, 3, 10})[i]);
    samba_loader_free(loader);
    loader = loader_of(again, (samba_loader_options){.batch_size = 3});
    assert_int_equal(epoch_of(loader, 0, 0, order, &batches), 2);
    assert_int_equal(order[0], 10);
    assert_int_equal(order[1], 3);
    samba_loader_free(loader);
    samba_source_free(again);
    samba_source_free(picked);
    need(samba_source_pick(source, 0, NULL, &picked));
    assert_int_equal(samba_source_count(picked), 0);
    samba_source_free(picked);
    refuse(samba_source_pick(source, 2, (const int64_t[]){3, 11}, &picked), SAMBA_ERROR_INDEX,
           "sample 1 of 2 is number 11, and the source has 11");
    refuse(samba_source_pick(source, 1, (const int64_t[]){-1}, &picked), SAMBA_ERROR_INDEX, "is number -1");
    refuse(samba_source_pick(source, -1, NULL, &picked), SAMBA_ERROR_ARGUMENT, "-1 samples and no numbers");
    refuse(samba_source_join(context, 2, (samba_source *[]){train, rest}, &joined), SAMBA_ERROR_SHAPE,
           "source 1 of a join has 3 samples, and the first has 8");
    refuse(samba_source_join(context, 2, (samba_source *[]){source, source}, &joined), SAMBA_ERROR_NAME,
           "two fields of a source are named 'x'");
    need(samba_source_join(context, 1, (samba_source *[]){rest}, &joined));
    assert_int_equal(samba_source_field_count(joined), 2);
    samba_source_free(source); /* the parts hold it */
    samba_source_free(train);
    samba_source_free(rest);
    samba_source_free(joined);
    samba_source_free(part);
}

TEST(tensors_refused)
{
    samba_source *source;
    OWN_TENSOR *a = tensor("a", SAMBA_FLOAT32, SIZES(3)), *b = tensor("b", SAMBA_FLOAT32, SIZES(4)),
               *scalar = tensor("s", SAMBA_FLOAT32, 0, NULL), *nameless = tensor(NULL, SAMBA_FLOAT32, SIZES(3)), *wide = NULL;
    refuse(samba_source_tensors(context, 2, (samba_tensor *[]){a, b}, &source), SAMBA_ERROR_SHAPE,
           "tensor 'b' of a source has 4 samples, and the first has 3");
    refuse(samba_source_tensors(context, 1, (samba_tensor *[]){scalar}, &source), SAMBA_ERROR_SHAPE, "has no dims");
    refuse(samba_source_tensors(context, 1, (samba_tensor *[]){nameless}, &source), SAMBA_ERROR_NAME, "has no name");
    refuse(samba_source_tensors(context, 2, (samba_tensor *[]){a, a}, &source), SAMBA_ERROR_NAME, "named 'a'");
    refuse(samba_source_tensors(context, 0, (samba_tensor *[]){a}, &source), SAMBA_ERROR_ARGUMENT, "0 tensors");
    need(samba_tensor_empty(context, "e", SAMBA_FLOAT32, SIZES(3), &wide));
    refuse(samba_source_tensors(context, 1, (samba_tensor *[]){wide}, &source), SAMBA_ERROR_STATE, "has no data");
    OWN_TENSOR *m = tensor("m", SAMBA_FLOAT32, SIZES(2, 3)), *t = NULL; /* a view that is not contiguous */
    for (int i = 0; i < 6; i++)
        ((float *)samba_tensor_data(m))[i] = (float)i;
    need(samba_tensor_permute(m, (int[]){1, 0}, &t));
    need(samba_source_tensors(context, 1, (samba_tensor *[]){t}, &source));
    OWN_TENSOR *row = tensor("", SAMBA_FLOAT32, SIZES(1, 2));
    need(samba_source_read(source, 1, (int64_t[]){2}, 1, (samba_tensor *[]){row}));
    assert_float_equal(((float *)samba_tensor_data(row))[1], 5, 0);
    samba_source_free(source);
}

/* ---- functions ---- */

typedef struct stream {
    int64_t at, count, broken_at;
    int freed;
} stream;

static samba_status next(samba_context *of, void *user, int64_t most, int field_count, samba_tensor *const *rows, int64_t *got)
{
    stream *s = user;
    assert_int_equal(field_count, 2);
    for (*got = 0; *got < most && s->at < s->count; ++*got, s->at++) {
        if (s->at == s->broken_at) {
            OWN_TENSOR *none = NULL;
            return samba_tensor_new(of, "broken", SAMBA_FLOAT32, 1, SHAPE(-1), &none);
        }
        ((float *)samba_tensor_data(rows[0]))[*got] = (float)s->at;
        ((int64_t *)samba_tensor_data(rows[1]))[*got] = 2 * s->at;
    }
    return SAMBA_OK;
}

static samba_status back(samba_context *of, void *user)
{
    ((stream *)user)->at = 0;
    return SAMBA_OK;
}

static void done(void *user) { ((stream *)user)->freed++; }

TEST(functions)
{
    int64_t order[64], batches;
    stream s = {.count = 7, .broken_at = -1};
    const samba_field fields[] = {{"x", SAMBA_FLOAT32, 0, {0}}, {"y", SAMBA_INT64, 1, {1}}};
    samba_source_options o = samba_source_defaults();
    samba_source *source, *none;
    samba_loader *loader;
    samba_batch batch;
    o.field_count = 2;
    o.fields = fields;
    o.user = &s;
    o.free = done;
    refuse(samba_source_new(context, &o, &source), SAMBA_ERROR_ARGUMENT, "needs `read` and a count of samples, or `next`");
    o.next = next;
    o.rewind = back;
    need(samba_source_new(context, &o, &source));
    for (int prefetch = 0; prefetch < 3; prefetch++)
        for (int drop = 0; drop < 2; drop++) {
            loader = loader_of(source, (samba_loader_options){.batch_size = 3, .prefetch = prefetch, .drop_last = drop});
            assert_int_equal(samba_loader_batches(loader), -1);
            assert_int_equal(epoch_of(loader, 0, 0, order, &batches), drop ? 6 : 7);
            assert_int_equal(epoch_of(loader, 1, 1, order, &batches), drop ? 3 : 4);
            assert_int_equal(order[0], 3);
            s.broken_at = 4;
            need(samba_loader_begin(loader, 0, 0));
            need(samba_loader_next(loader, &batch));
            refuse(samba_loader_next(loader, &batch), SAMBA_ERROR_ARGUMENT, "-1"); /* the function's own message */
            refuse(samba_loader_next(loader, &batch), SAMBA_ERROR_ARGUMENT, "-1");
            s.broken_at = -1;
            samba_loader_free(loader);
        }
    samba_loader_options by = samba_loader_defaults();
    by.shuffle = true;
    refuse(samba_loader_new(context, source, &by, &loader), SAMBA_ERROR_ARGUMENT, "cannot shuffle");
    refuse(samba_source_split(source, 0.5, 0, &none, &none), SAMBA_ERROR_ARGUMENT, "in order alone");
    refuse(samba_source_join(context, 1, &source, &none), SAMBA_ERROR_ARGUMENT, "in order alone");
    refuse(samba_source_pick(source, 1, order, &none), SAMBA_ERROR_ARGUMENT, "samba_source_pick: the source gives");
    OWN_TENSOR *rows = tensor("", SAMBA_FLOAT32, SIZES(1));
    refuse(samba_source_read(source, 1, order, 1, (samba_tensor *[]){rows}), SAMBA_ERROR_ARGUMENT, "in order alone");
    samba_source_free(source);
    assert_int_equal(s.freed, 1);
    o.field_count = 0;
    refuse(samba_source_new(context, &o, &source), SAMBA_ERROR_ARGUMENT, "a source has 0 fields");
    o.field_count = 2;
    o.count = -2;
    refuse(samba_source_new(context, &o, &source), SAMBA_ERROR_ARGUMENT, "has -2 samples");
    assert_int_equal(s.freed, 1);
}

/* A program's own function that fails: with a message of its own, or without one. */
static samba_status fail_at(samba_context *of, void *user, int64_t count, const int64_t *samples, int field_count,
                            samba_tensor *const *rows)
{
    (void)samples, (void)field_count, (void)rows;
    const char *message = *(const char **)user;
    return count < 2 ? SAMBA_OK : message ? samba_error_set(of, SAMBA_ERROR_FILE, message) : SAMBA_ERROR_FILE;
}

static samba_status next_fails(samba_context *of, void *user, int64_t most, int field_count, samba_tensor *const *rows,
                               int64_t *got)
{
    *got = 0;
    return fail_at(of, user, most, NULL, field_count, rows);
}

static samba_status rewind_fails(samba_context *of, void *user)
{
    return fail_at(of, user, *(const char **)user ? 0 : 2, NULL, 0, NULL);
}

TEST(messages_of_functions)
{
    const samba_field field = {"x", SAMBA_FLOAT32, 0, {0}};
    for (int prefetch = 0; prefetch < 2; prefetch++)
        for (int told = 0; told < 2; told++) {
            const char *message = told ? "picture 3 is not there" : NULL;
            samba_source_options o = samba_source_defaults();
            samba_source *source, *part;
            samba_batch batch;
            o.fields = &field, o.field_count = 1;
            o.user = &message;
            o.count = 5, o.read = fail_at;
            need(samba_source_new(context, &o, &source));
            need(samba_source_pick(source, 3, (const int64_t[]){4, 2, 0}, &part));
            samba_loader *loader = loader_of(part, (samba_loader_options){.batch_size = 2, .prefetch = prefetch});
            need(samba_loader_begin(loader, 0, 0));
            refuse(samba_loader_next(loader, &batch), SAMBA_ERROR_FILE,
                   told ? "picture 3 is not there"
                        : "a source's function `read` failed (file) and left no message: samba_error_set leaves one");
            samba_loader_free(loader);
            samba_source_free(part);
            samba_source_free(source);

            o.count = -1, o.read = NULL, o.next = next_fails, o.rewind = rewind_fails;
            need(samba_source_new(context, &o, &source));
            loader = loader_of(source, (samba_loader_options){.batch_size = 2, .prefetch = prefetch});
            if (told) {
                need(samba_loader_begin(loader, 0, 0));
                refuse(samba_loader_next(loader, &batch), SAMBA_ERROR_FILE, "picture 3 is not there");
            } else
                refuse(samba_loader_begin(loader, 0, 0), SAMBA_ERROR_FILE, "function `rewind` failed (file)");
            samba_loader_free(loader);
            samba_source_free(source);
        }
}

/* ---- memory ---- */

static samba_status walk(samba_context *of, samba_source *source, int prefetch)
{
    samba_loader_options o = samba_loader_defaults();
    samba_loader *loader = NULL;
    samba_batch batch = {.count = 1};
    o.batch_size = 2;
    o.shuffle = true;
    o.prefetch = prefetch;
    samba_status status = samba_loader_new(of, source, &o, &loader);
    THEN(status, samba_loader_begin(loader, 0, 0));
    while (status == SAMBA_OK && batch.count > 0)
        status = samba_loader_next(loader, &batch);
    samba_loader_free(loader);
    return status;
}

static samba_status read_and_walk(samba_context *of, void *path)
{
    samba_column columns[] = {{.field = {"v", SAMBA_FLOAT32, 1, {2}}, .from = "a,b"}, n};
    if (samba_ends_with(path, ".jsonl"))
        columns[0].from = NULL;
    samba_file_options o = options_of(2, columns);
    samba_source *all = NULL, *first = NULL, *second = NULL, *joined = NULL;
    samba_status status = samba_source_file(of, path, &o, &all);
    THEN(status, samba_source_split(all, 0.4, 0, &first, &second));
    THEN(status, samba_source_join(of, 1, &first, &joined));
    THEN(status, walk(of, joined, 0));
    THEN(status, walk(of, second, 1));
    samba_source_free(all);
    samba_source_free(first);
    samba_source_free(second);
    samba_source_free(joined);
    return status;
}

TEST(without_memory)
{
    char path[256];
    snprintf(path, sizeof path, "%s", file_of("m.csv", "a,b,n\n1,2,3\n\"4\",5,6\n7,8,9\n0,1,2\n3,4,5\n"));
    fail_each_allocation(read_and_walk, path);
    snprintf(path, sizeof path, "%s", file_of("m.jsonl", "{\"v\": [1, 2], \"n\": 3}\n{\"v\": [4, 5], \"n\": 6}\n"));
    fail_each_allocation(read_and_walk, path);
}

TEST_MAIN(csv, broken_csv, jsonl, tensors_of_files, a_file_that_changes, loaders, pads, parts, tensors_refused, functions,
          messages_of_functions, without_memory)
