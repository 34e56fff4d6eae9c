/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources that read files in parts beside the same read whole: CSV, JSON lines and HDF5, sample by sample, in the order of
 * shuffled epochs, with less memory than the file takes; and what is refused of them. The seed is printed. */
#include "failing_allocator.h"
#include "base/base.h"
#include "data/hdf5.h"
#include <sambaflow/source.h>

#include <zlib.h>

enum { RECORDS = 3000, WIDE = 24, MEMORY = 64 << 10 };

static char path_text[256];

static const char *in_folder(const char *name)
{
    snprintf(path_text, sizeof path_text, "%s/%s", folder, name);
    return path_text;
}

static FILE *begin_file(const char *name)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    return file;
}

static uint64_t drawn_seed(void)
{
    const uint64_t seed = random_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    return seed;
}

static const char *const words[] = {"red", "green, or \"blue\"", "two\nlines"};
static const char *const escaped[] = {"red", "\"green, or \"\"blue\"\"\"", "\"two\nlines\""};

static samba_file_options options_of(int count, const samba_column *columns, int64_t memory)
{
    samba_file_options o = samba_file_defaults();
    o.column_count = count;
    o.columns = columns;
    o.memory = memory;
    return o;
}

static const samba_column columns[] = {{.field = {"x", SAMBA_FLOAT32, 1, {WIDE}}, .from = "x*", .scale = 0.5},
                                       {.field = {"kind", SAMBA_INT64, 0, {0}}, .class_count = 3, .classes = words}};

/* The same samples, wherever they lie: in order, and in two epochs' orders, read ahead. */
static void same(samba_source *whole, samba_source *parts)
{
    assert_int_equal(samba_source_count(whole), samba_source_count(parts));
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        samba_loader_options by = samba_loader_defaults();
        samba_loader *loaders[2];
        by.batch_size = 31;
        by.shuffle = epoch > 0;
        by.prefetch = (int)epoch;
        need(samba_loader_new(context, whole, &by, &loaders[0]));
        need(samba_loader_new(context, parts, &by, &loaders[1]));
        need(samba_loader_begin(loaders[0], epoch, 0));
        need(samba_loader_begin(loaders[1], epoch, 0));
        for (;;) {
            samba_batch a, b;
            need(samba_loader_next(loaders[0], &a));
            need(samba_loader_next(loaders[1], &b));
            assert_int_equal(a.count, b.count);
            if (a.count == 0)
                break;
            for (int i = 0; i < a.tensor_count; i++)
                assert_memory_equal(samba_tensor_data(a.tensors[i]), samba_tensor_data(b.tensors[i]),
                                    (size_t)samba_tensor_numel(a.tensors[i]) *
                                        samba_dtype_size(samba_tensor_dtype(a.tensors[i])));
        }
        samba_loader_free(loaders[0]);
        samba_loader_free(loaders[1]);
    }
}

/* By two contexts that count: what is at most alive while the file is opened and a batch is read. */
static int64_t peak_of(const char *path, const samba_file_options *o)
{
    failing_allocator state;
    samba_allocator allocator = failing_allocator_init(&state);
    samba_context *of;
    samba_source *source;
    samba_loader *loader;
    samba_batch batch;
    samba_loader_options by = samba_loader_defaults();
    assert_int_equal(samba_context_new(&allocator, &of), SAMBA_OK);
    need_in(of, samba_source_file(of, path, o, &source));
    by.prefetch = 0;
    need_in(of, samba_loader_new(of, source, &by, &loader));
    need_in(of, samba_loader_begin(loader, 0, 0));
    need_in(of, samba_loader_next(loader, &batch));
    samba_loader_free(loader);
    samba_source_free(source);
    samba_context_free(of);
    assert_int_equal(state.live_bytes, 0);
    return state.peak_bytes;
}

static int64_t size_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    const int64_t size = ftell(file);
    fclose(file);
    return size;
}

/* Both ways, of which one takes less than the file. */
static void compare(const char *path, const samba_column *its)
{
    const samba_file_options whole = options_of(2, its, 0), parts = options_of(2, its, MEMORY);
    samba_source *a, *b;
    need(samba_source_file(context, path, &whole, &a));
    need(samba_source_file(context, path, &parts, &b));
    same(a, b);
    samba_source_free(a);
    samba_source_free(b);
    const int64_t size = size_of(path), most = peak_of(path, &whole), least = peak_of(path, &parts);
    if (size < 8 * MEMORY || most < size || least > 3 * MEMORY)
        fail_msg("%s of %lld bytes: %lld whole, %lld in parts", path, (long long)size, (long long)most, (long long)least);
}

TEST(csv)
{
    const uint64_t seed = drawn_seed();
    FILE *file = begin_file("a.csv");
    fprintf(file, "\xef\xbb\xbf\r\nkind");
    for (int i = 0; i < WIDE; i++)
        fprintf(file, ",x%d", i);
    for (int k = 0; k < RECORDS; k++) {
        const uint64_t drawn = samba_hash(&k, sizeof k, seed);
        fprintf(file, "%s%s%s", drawn % 5 == 0 ? "\r" : "", "\n", drawn % 7 == 0 ? "\n" : "");
        fputs(escaped[drawn % 3], file);
        for (int i = 0; i < WIDE; i++)
            fprintf(file, ", %lld.5", (long long)((drawn >> i) % 100000));
    }
    fclose(file); /* without an end of its last line */
    compare(in_folder("a.csv"), columns);
}

TEST(jsonl)
{
    const uint64_t seed = drawn_seed();
    FILE *file = begin_file("a.jsonl");
    for (int k = 0; k < RECORDS; k++) {
        const uint64_t drawn = samba_hash(&k, sizeof k, seed);
        fprintf(file, "%s{\"kind\": %d, \"x\": [", drawn % 5 == 0 ? "\n" : "", (int)(drawn % 3));
        for (int i = 0; i < WIDE; i++)
            fprintf(file, "%s%lld.25", i ? ", " : "", (long long)((drawn >> i) % 100000));
        fprintf(file, "]}\n");
    }
    fclose(file);
    samba_column its[] = {columns[0], columns[1]};
    its[0].from = NULL;
    its[1].class_count = 0;
    compare(in_folder("a.jsonl"), its);
}

#ifdef SAMBA_TEST_PLUGINS
/* Two datasets in chunks that rows of a batch lie across. */
static void write_hdf5(const char *path)
{
    enum { CHUNK = 64, COLUMNS = 8 };
    static const char *const names[] = {"x", "kind"};
    const samba_hdf5_interface *hdf5;
    samba_hdf5_file *file = NULL;
    char message[SAMBA_HDF5_MESSAGE] = "";
    need(samba_hdf5_begin(context, &hdf5));
    samba_status status = hdf5->create(path, 2, names, RECORDS, COLUMNS, CHUNK, &file, message);
    for (int d = 0; d < 2 && status == SAMBA_OK; d++)
        for (int row = 0; row < RECORDS && status == SAMBA_OK; row += CHUNK) {
            int32_t values[CHUNK * COLUMNS];
            unsigned char packed[CHUNK * COLUMNS * 8];
            uLongf size = sizeof packed;
            for (int i = 0; i < CHUNK * COLUMNS; i++)
                values[i] = (row * COLUMNS + i) * (d + 3) % 10007;
            assert_int_equal(compress2(packed, &size, (const Bytef *)values, sizeof values, SAMBA_HDF5_LEVEL), Z_OK);
            status = hdf5->add(file, d, row, packed, size, message);
        }
    if (status == SAMBA_OK)
        status = hdf5->close(file, message);
    samba_hdf5_end();
    if (status != SAMBA_OK)
        fail_msg("%s", message);
}

TEST(hdf5)
{
    const samba_column its[] = {{.field = {"x", SAMBA_FLOAT32, 2, {2, 4}}, .scale = 0.25},
                                {.field = {"label", SAMBA_INT64, 1, {8}}, .from = "kind"}};
    samba_file_options whole = options_of(2, its, 0), parts = options_of(2, its, 4096);
    samba_source *a, *b, *first, *second;
    char path[256];
    setenv("SAMBAFLOW_PLUGINS", SAMBA_TEST_PLUGINS, 1);
    snprintf(path, sizeof path, "%s", in_folder("a.h5"));
    write_hdf5(path);
    need(samba_source_file(context, path, &whole, &a));
    need(samba_source_file(context, path, &parts, &b));
    same(a, b);
    need(samba_source_split(b, 0.25, 1, &first, &second)); /* both keep the readers */
    samba_source_free(b);
    OWN_TENSOR *x = tensor("", SAMBA_FLOAT32, SIZES(1, 2, 4)), *label = tensor("", SAMBA_INT64, SIZES(1, 8));
    need(samba_source_read(second, 1, (int64_t[]){0}, 2, (samba_tensor *[]){x, label}));
    samba_source_free(first);
    samba_source_free(second);
    samba_source_free(a);
    samba_column wrong[] = {its[0], its[1]};
    wrong[1].field.shape[0] = 7;
    parts.columns = wrong;
    refuse(samba_source_file(context, path, &parts, &a), SAMBA_ERROR_SHAPE, "does not make samples of field 'label'");
    wrong[1] = its[1], wrong[1].from = "kinds";
    refuse(samba_source_file(context, path, &parts, &a), SAMBA_ERROR_NAME, "no dataset 'kinds'");
    wrong[1] = its[1], wrong[1].field.dtype = SAMBA_INT8;
    need(samba_source_file(context, path, &parts, &a));
    OWN_TENSOR *small = tensor("", SAMBA_INT8, SIZES(1, 8));
    refuse(samba_source_read(a, 1, (int64_t[]){2000}, 2, (samba_tensor *[]){x, small}), SAMBA_ERROR_FORMAT,
           "h5:2000: column 'kind'");
    samba_source_free(a);
}

#else
TEST(hdf5) { skip(); }
#endif

/* A broken line is told by its number, as when the file is read whole. */
TEST(broken)
{
    const samba_column x = {.field = {"x", SAMBA_FLOAT32, 0, {0}}};
    const samba_file_options whole = options_of(1, &x, 0), parts = options_of(1, &x, 1);
    static const char *const lines[] = {"1,2,3", "no number,2", "\"never closed,1"};
    for (int i = 0; i < LENGTH(lines); i++) {
        samba_source *source;
        char told[256];
        FILE *file = begin_file("b.csv");
        fputs("x,y\n", file);
        for (int k = 0; k < 2000; k++)
            fprintf(file, "%s\n", k == 1500 ? lines[i] : "1,\"a\nb\"");
        fclose(file);
        assert_int_equal(samba_source_file(context, in_folder("b.csv"), &whole, &source), SAMBA_ERROR_FORMAT);
        snprintf(told, sizeof told, "%s", samba_error_message(context));
        refuse(samba_source_file(context, in_folder("b.csv"), &parts, &source), SAMBA_ERROR_FORMAT, told);
    }
    FILE *file = begin_file("c.csv");
    fputs("x\n", file);
    fclose(file);
    samba_source *source;
    refuse(samba_source_file(context, in_folder("c.csv"), &parts, &source), SAMBA_ERROR_FORMAT, "has no samples: one line");
}

TEST(refused)
{
    const samba_column x = {.field = {"x", SAMBA_FLOAT32, 0, {0}}};
    samba_file_options o = options_of(1, &x, 4);
    samba_tensor_list list;
    samba_source *source;
    FILE *file = begin_file("d.csv");
    fputs("x\n1\n2\n3\n", file);
    fclose(file);
    refuse(samba_columns_read(context, in_folder("d.csv"), &o, &list), SAMBA_ERROR_ARGUMENT, "memory has no effect");
    need(samba_source_file(context, in_folder("d.csv"), &o, &source));
    OWN_TENSOR *rows = tensor("", SAMBA_FLOAT32, SIZES(3));
    need(samba_source_read(source, 3, (int64_t[]){2, 0, 2}, 1, (samba_tensor *[]){rows}));
    assert_float_equal(((float *)samba_tensor_data(rows))[0], 3, 0);
    assert_float_equal(((float *)samba_tensor_data(rows))[1], 1, 0);
    file = begin_file("d.csv");
    fputs("x\n1\n", file);
    fclose(file);
    refuse(samba_source_read(source, 1, (int64_t[]){0}, 1, (samba_tensor *[]){rows}), SAMBA_ERROR_FILE, "has changed since");
    samba_source_free(source);
    refuse(samba_source_file(context, in_folder("x.npy"), &o, &source), SAMBA_ERROR_ARGUMENT, "memory is for files .csv");
    o.memory = -1;
    refuse(samba_source_file(context, in_folder("d.csv"), &o, &source), SAMBA_ERROR_ARGUMENT, "memory is -1 bytes");
}

static samba_status open_and_read(samba_context *of, void *path)
{
    const samba_column x = {.field = {"x", SAMBA_FLOAT32, 0, {0}}};
    const samba_file_options o = options_of(1, &x, 4);
    samba_tensor *rows = NULL;
    samba_source *source = NULL;
    samba_status status = samba_source_file(of, path, &o, &source);
    if (status == SAMBA_OK)
        status = samba_tensor_new(of, "", SAMBA_FLOAT32, SIZES(1), &rows);
    if (status == SAMBA_OK)
        status = samba_source_read(source, 1, (int64_t[]){1}, 1, &rows);
    samba_tensor_free(rows);
    samba_source_free(source);
    return status;
}

TEST(without_memory)
{
    char path[256];
    FILE *file = begin_file("m.csv");
    fputs("x,y\n1,2\n\"4\",5\n", file);
    fclose(file);
    snprintf(path, sizeof path, "%s", in_folder("m.csv"));
    fail_each_allocation(open_and_read, path);
}

TEST_MAIN(csv, jsonl, hdf5, broken, refused, without_memory)
