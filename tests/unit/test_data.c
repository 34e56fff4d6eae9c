/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers and writers of tensor files: what other programs write, round trips, and files that are cut, too long, damaged or
 * hostile, which must give an error with the path and never a crash or a leak. */
#include "data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_fixtures.h"
#include "failing_allocator.h"

#include <unistd.h>

static failing_allocator counter;
static samba_context *context;
static char folder[] = "/tmp/samba-test-data-XXXXXX";
static char path[256];

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static int open_context(void **state)
{
    (void)state;
    context = counting_context_new(&counter);
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    counting_context_free(context, &counter);
    return 0;
}

static void put_file(const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void assert_message(samba_status given, samba_status expected, const char *part)
{
    if (given != expected || !strstr(samba_error_message(context), part))
        fail_msg("status %s, message \"%s\"; wanted %s with \"%s\"", samba_status_name(given), samba_error_message(context),
                 samba_status_name(expected), part);
    assert_non_null(strstr(samba_error_message(context), path));
}

#define SHAPE(...) SAMBA_COUNT(((int64_t[]){__VA_ARGS__})), ((int64_t[]){__VA_ARGS__})

static void assert_tensor(const samba_tensor *tensor, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                          const double *values)
{
    assert_string_equal(samba_tensor_name(tensor), name);
    assert_int_equal(tensor->dtype, dtype);
    assert_true(samba_shape_equal(tensor->rank, tensor->shape, rank, shape));
    assert_true(samba_tensor_is_contiguous(tensor));
    for (int64_t i = 0; i < samba_tensor_numel(tensor); i++)
        assert_true(samba_load_double(dtype, tensor->data + i * (int64_t)samba_dtype_size(dtype)) == values[i]);
}

/* Any of the readers as one kind of function: reads and frees. */
typedef samba_status read_fn(samba_context *, const char *);

static samba_status read_idx(samba_context *under, const char *file)
{
    samba_tensor *tensor;
    samba_status status = samba_idx_read(under, file, &tensor);
    assert_true((tensor != NULL) == (status == SAMBA_OK));
    samba_tensor_free(tensor);
    return status;
}

static samba_status read_npy(samba_context *under, const char *file)
{
    samba_tensor *tensor;
    samba_status status = samba_npy_read(under, file, &tensor);
    assert_true((tensor != NULL) == (status == SAMBA_OK));
    samba_tensor_free(tensor);
    return status;
}

static samba_status read_npz(samba_context *under, const char *file)
{
    samba_tensor_list list;
    samba_status status = samba_npz_read(under, file, &list);
    samba_tensor_list_free(under, &list);
    return status;
}

static samba_status read_safetensors(samba_context *under, const char *file)
{
    samba_tensor_list list;
    samba_status status = samba_safetensors_read(under, file, &list);
    samba_tensor_list_free(under, &list);
    return status;
}

/* Every shorter file and one longer by a byte is refused as such. */
static void check_cut(read_fn *read, const void *data, size_t size)
{
    char longer[8192];
    assert_true(size < sizeof longer);
    memcpy(longer, data, size);
    longer[size] = 0;
    for (size_t length = 0; length <= size + 1; length++) {
        put_file(longer, length);
        samba_status status = read(context, path);
        if (status != (length == size ? SAMBA_OK : SAMBA_ERROR_FORMAT))
            fail_msg("%zu of %zu bytes: %s, %s", length, size, samba_status_name(status), samba_error_message(context));
        if (length != size)
            assert_non_null(strstr(samba_error_message(context), path));
    }
}

/* Every byte replaced by several others: any answer will do that is an answer. */
static void check_damage(read_fn *read, const void *data, size_t size)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xFF};
    unsigned char damaged[8192];
    assert_true(size < sizeof damaged);
    for (size_t at = 0; at < size; at++)
        for (int m = 0; m < SAMBA_COUNT(masks); m++) {
            memcpy(damaged, data, size);
            damaged[at] ^= masks[m];
            put_file(damaged, size);
            samba_status status = read(context, path);
            if (status != SAMBA_OK && status != SAMBA_ERROR_FORMAT && status != SAMBA_ERROR_UNSUPPORTED)
                fail_msg("byte %zu: %s, %s", at, samba_status_name(status), samba_error_message(context));
            assert_int_equal(counter.live_blocks, 1);
        }
}

static samba_status scenario_read(samba_context *under, void *user) { return (*(read_fn **)user)(under, path); }

static void check_failed_allocations(read_fn *read, const void *data, size_t size)
{
    put_file(data, size);
    fail_each_allocation(scenario_read, &read);
}

/* ---- IDX ---- */

static size_t compress_gzip(const void *data, size_t size, unsigned char *packed, size_t room)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (z_const Bytef *)data;
    stream.avail_in = (uInt)size;
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t length = stream.total_out;
    deflateEnd(&stream);
    return length;
}

static const unsigned char idx_pixels[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 254, 255, 0};

static void test_idx(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[24];
        size_t size;
        samba_dtype dtype;
        double values[2];
    } files[] = {
        {{0, 0, 0x08, 1, 0, 0, 0, 2, 7, 200}, 10, SAMBA_UINT8, {7, 200}},
        {{0, 0, 0x09, 1, 0, 0, 0, 2, 7, 200}, 10, SAMBA_INT8, {7, -56}},
        {{0, 0, 0x0B, 1, 0, 0, 0, 2, 1, 2, 0xFF, 0xFE}, 12, SAMBA_INT16, {258, -2}},
        {{0, 0, 0x0C, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0xFF, 0xFF, 0xFF, 0xFF}, 16, SAMBA_INT32, {258, -1}},
        {{0, 0, 0x0D, 1, 0, 0, 0, 2, 0x3F, 0xC0, 0, 0, 0xC0, 0, 0, 0}, 16, SAMBA_FLOAT32, {1.5, -2}},
        {{0, 0, 0x0E, 1, 0, 0, 0, 2, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0}, 24, SAMBA_FLOAT64, {1.5, -2}},
    };
    unsigned char packed[256];
    samba_tensor *tensor;
    for (int i = 0; i < SAMBA_COUNT(files); i++) {
        put_file(files[i].bytes, files[i].size);
        assert_int_equal(samba_idx_read(context, path, &tensor), SAMBA_OK);
        assert_tensor(tensor, "", files[i].dtype, SHAPE(2), files[i].values);
        samba_tensor_free(tensor);
        size_t size = compress_gzip(files[i].bytes, files[i].size, packed, sizeof packed);
        put_file(packed, size);
        assert_int_equal(samba_idx_read(context, path, &tensor), SAMBA_OK);
        assert_tensor(tensor, "", files[i].dtype, SHAPE(2), files[i].values);
        samba_tensor_free(tensor);
    }
    put_file("\0\0\x08\0\x05", 5); /* rank 0 */
    assert_int_equal(samba_idx_read(context, path, &tensor), SAMBA_OK);
    assert_tensor(tensor, "", SAMBA_UINT8, 0, NULL, (double[]){5});
    samba_tensor_free(tensor);
    put_file("\0\0\x08\1\0\0\0\0", 8); /* no elements */
    assert_int_equal(samba_idx_read(context, path, &tensor), SAMBA_OK);
    assert_int_equal(samba_tensor_numel(tensor), 0);
    samba_tensor_free(tensor);
}

static void test_bad_idx(void **state)
{
    (void)state;
    unsigned char packed[512], content[200] = {0};
    check_cut(read_idx, idx_pixels, sizeof idx_pixels);
    check_damage(read_idx, idx_pixels, sizeof idx_pixels);
    check_failed_allocations(read_idx, idx_pixels, sizeof idx_pixels);
    size_t size = compress_gzip(idx_pixels, sizeof idx_pixels, packed, sizeof packed);
    check_cut(read_idx, packed, size);
    check_damage(read_idx, packed, size);
    check_failed_allocations(read_idx, packed, size);

    put_file(idx_pixels, 17);
    assert_message(read_idx(context, path), SAMBA_ERROR_FORMAT, "cut short: shape (2, 3) of uint8 does not fit the 5 bytes");
    put_file("\x89PNG\r\n", 6);
    assert_message(read_idx(context, path), SAMBA_ERROR_FORMAT, "no IDX file: it begins with 89 50 4e 47");
    put_file("\0\0\x0A\1\0\0\0\1\0", 9);
    assert_message(read_idx(context, path), SAMBA_ERROR_FORMAT, "00 00 0a 01");
    put_file("\0\0\x08\x09", 4);
    assert_message(read_idx(context, path), SAMBA_ERROR_UNSUPPORTED, "rank 9");
    put_file("\0\0\x0E\3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 16);
    assert_message(read_idx(context, path), SAMBA_ERROR_FORMAT, "(4294967295, 4294967295, 4294967295)");

    /* content that is shorter or longer than its header says, in a sound gzip file */
    memcpy(content, idx_pixels, sizeof idx_pixels);
    size = compress_gzip(content, sizeof idx_pixels - 1, packed, sizeof packed);
    put_file(packed, size);
    assert_message(read_idx(context, path), SAMBA_ERROR_FORMAT, "the data should have 6 bytes and has 5");
    size = compress_gzip(content, sizeof idx_pixels + 1, packed, sizeof packed);
    put_file(packed, size);
    assert_message(read_idx(context, path), SAMBA_ERROR_FORMAT, "goes on after its content's end");
    /* two gzip streams in a row */
    size = compress_gzip(content, sizeof idx_pixels, packed, sizeof packed);
    memcpy(packed + size, packed, size);
    put_file(packed, 2 * size);
    assert_message(read_idx(context, path), SAMBA_ERROR_FORMAT, "bytes follow the compressed data");
    /* a small file that claims 4 GB: refused before memory is taken */
    memcpy(content, "\0\0\x08\1\xFF\xFF\xFF\xFF", 8);
    size = compress_gzip(content, 8, packed, sizeof packed);
    put_file(packed, size);
    int64_t peak = counter.peak_bytes;
    assert_message(read_idx(context, path), SAMBA_ERROR_FORMAT, "(4294967295) of uint8 does not fit");
    assert_true(counter.peak_bytes < peak + 1000000);

    snprintf(path, sizeof path, "%s/missing", folder);
    assert_message(read_idx(context, path), SAMBA_ERROR_FILE, "No such file");
    snprintf(path, sizeof path, "%s", folder);
    assert_message(read_idx(context, path), SAMBA_ERROR_FILE, "a directory");
}

/* ---- .npy ---- */

static void test_npy_from_numpy(void **state)
{
    (void)state;
    samba_tensor *tensor;
    put_file(numpy_float, sizeof numpy_float);
    assert_int_equal(samba_npy_read(context, path, &tensor), SAMBA_OK);
    assert_tensor(tensor, "", SAMBA_FLOAT32, SHAPE(3, 2), (double[]){1, -2.5, 3, 0.25, 0, 7});
    /* and what we write is what NumPy writes */
    assert_int_equal(samba_npy_write(context, path, tensor), SAMBA_OK);
    samba_tensor_free(tensor);
    void *data;
    size_t size;
    assert_int_equal(samba_file_read(context, path, &data, &size), SAMBA_OK);
    assert_int_equal(size, sizeof numpy_float);
    assert_memory_equal(data, numpy_float, size);
    samba_free(context, data, size);

    put_file(numpy_vector_v2, sizeof numpy_vector_v2);
    assert_int_equal(samba_npy_read(context, path, &tensor), SAMBA_OK);
    assert_tensor(tensor, "", SAMBA_INT64, SHAPE(3), (double[]){1, 2, 3});
    samba_tensor_free(tensor);
    put_file(numpy_big_endian, sizeof numpy_big_endian);
    assert_message(read_npy(context, path), SAMBA_ERROR_UNSUPPORTED, "big-endian ('>i2')");
    put_file(numpy_fortran, sizeof numpy_fortran);
    assert_message(read_npy(context, path), SAMBA_ERROR_UNSUPPORTED, "Fortran order");
    put_file(numpy_record, sizeof numpy_record);
    assert_message(read_npy(context, path), SAMBA_ERROR_UNSUPPORTED, "records");
    put_file(numpy_text, sizeof numpy_text);
    assert_message(read_npy(context, path), SAMBA_ERROR_UNSUPPORTED, "'<U3'");
    check_cut(read_npy, numpy_float, sizeof numpy_float);
    check_cut(read_npy, numpy_vector_v2, sizeof numpy_vector_v2);
    check_damage(read_npy, numpy_float, sizeof numpy_float);
    check_failed_allocations(read_npy, numpy_float, sizeof numpy_float);
}

static void test_npy_round_trip(void **state)
{
    (void)state;
    for (int d = 0; d < SAMBA_DTYPE_COUNT; d++) {
        samba_dtype dtype = (samba_dtype)d;
        samba_tensor *wide, *view, *back;
        assert_int_equal(samba_tensor_new(context, "t", dtype, SHAPE(5, 4), &wide), SAMBA_OK);
        assert_int_equal(samba_fill_integers(wide, 1, 0, dtype == SAMBA_BOOL ? 2 : 100), SAMBA_OK);
        assert_int_equal(samba_tensor_permute(wide, (int[]){1, 0}, &view), SAMBA_OK);
        if (dtype == SAMBA_BFLOAT16) {
            assert_message(samba_npy_write(context, path, view), SAMBA_ERROR_DTYPE, "no bfloat16");
        } else {
            assert_int_equal(samba_npy_write(context, path, view), SAMBA_OK);
            assert_int_equal(samba_npy_read(context, path, &back), SAMBA_OK);
            double values[20];
            for (int i = 0; i < 20; i++)
                values[i] = samba_load_double(dtype, wide->data + (i % 5 * 4 + i / 5) * (int64_t)samba_dtype_size(dtype));
            assert_tensor(back, "", dtype, SHAPE(4, 5), values);
            samba_tensor_free(back);
        }
        samba_tensor_free(view);
        samba_tensor_free(wide);
    }
    samba_tensor *tensor;
    assert_int_equal(samba_tensor_new(context, "t", SAMBA_FLOAT32, 0, NULL, &tensor), SAMBA_OK);
    assert_int_equal(samba_npy_write(context, path, tensor), SAMBA_OK);
    samba_tensor_free(tensor);
    assert_int_equal(samba_npy_read(context, path, &tensor), SAMBA_OK);
    assert_tensor(tensor, "", SAMBA_FLOAT32, 0, NULL, (double[]){0});
    samba_tensor_free(tensor);
    assert_int_equal(samba_tensor_empty(context, "hollow", SAMBA_FLOAT32, 0, NULL, &tensor), SAMBA_OK);
    assert_message(samba_npy_write(context, path, tensor), SAMBA_ERROR_STATE, "hollow has no data");
    samba_tensor_free(tensor);
}

static void test_npy_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        samba_status status;
        const char *message;
    } cases[] = {
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", SAMBA_OK, ""},
        {"{\"shape\":(2,2),\"fortran_order\":False,\"descr\":\"<i1\"}\n", SAMBA_OK, ""},
        {"{'descr': '>u1', 'fortran_order': True, 'shape': (4L,), }", SAMBA_OK, ""},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 0x2), }", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4), }", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (-4,), }", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,), }", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'fortran_order': False}", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'fortran_order': 0, 'shape': (4,), }", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), 'more': 1}", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), } x", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,)", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '|u1", SAMBA_ERROR_FORMAT, "no dict"},
        {"", SAMBA_ERROR_FORMAT, "no dict"},
        {"{'descr': '', 'fortran_order': False, 'shape': (4,), }", SAMBA_ERROR_UNSUPPORTED, "dtype ''"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (4,), }", SAMBA_ERROR_UNSUPPORTED, "dtype '<c8'"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", SAMBA_ERROR_FORMAT,
         "cut short: shape (5) of uint8 is 5 bytes and 4"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", SAMBA_ERROR_FORMAT, "too long"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", SAMBA_ERROR_FORMAT, "cut short"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904), }", SAMBA_ERROR_FORMAT, "too long"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,4), }", SAMBA_ERROR_UNSUPPORTED, "rank 9"},
    };
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        char file[512] = "\x93NUMPY\x01\x00";
        size_t length = strlen(cases[i].header);
        file[8] = (char)length;
        memcpy(file + 10, cases[i].header, length);
        put_file(file, 10 + length + 4);
        samba_status status = read_npy(context, path);
        if (cases[i].status == SAMBA_OK)
            assert_int_equal(status, SAMBA_OK);
        else
            assert_message(status, cases[i].status, cases[i].message);
    }
    put_file("\x93NUMPY\x04\x00\x00\x00\x00\x00", 12);
    assert_message(read_npy(context, path), SAMBA_ERROR_UNSUPPORTED, "version 4.0");
    put_file("\x93NUMPY\2\0\1\0\0", 11); /* half a length */
    assert_message(read_npy(context, path), SAMBA_ERROR_FORMAT, "cut short inside its header");
}

/* ---- .npz ---- */

static void check_npz(const void *data, size_t size, int count)
{
    static const int64_t shape[] = {2, 3};
    samba_tensor_list list;
    put_file(data, size);
    assert_int_equal(samba_npz_read(context, path, &list), SAMBA_OK);
    assert_int_equal(list.count, count);
    assert_tensor(list.tensors[0], "image", SAMBA_UINT8, 2, shape, (double[]){0, 1, 2, 3, 4, 5});
    assert_tensor(list.tensors[1], "scale", SAMBA_FLOAT64, 0, NULL, (double[]){2.5});
    if (count == 3)
        assert_int_equal(samba_tensor_numel(list.tensors[2]), 2000);
    samba_tensor_list_free(context, &list);
    assert_null(list.tensors);
    check_cut(read_npz, data, size);
    check_damage(read_npz, data, size);
    check_failed_allocations(read_npz, data, size);
}

static void test_npz(void **state)
{
    (void)state;
    check_npz(npz_stored, sizeof npz_stored, 2);
    check_npz(npz_deflated, sizeof npz_deflated, 3);
}

/* An archive of `count` stored members, each with the same small array, that uses 64-bit fields throughout when `wide`. */
static size_t make_zip(char *to, const char *const *names, int count, bool wide)
{
    char *p = to;
    size_t offsets[4], size = sizeof numpy_vector_v2;
    uint32_t crc = (uint32_t)crc32_z(0, numpy_vector_v2, size);
#define PUT(bytes, value) (memcpy(p, &(uint64_t){value}, bytes), p += (bytes))
    for (int i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        offsets[i] = (size_t)(p - to);
        PUT(4, 0x04034B50), PUT(6, 20), PUT(4, 0), PUT(4, crc), PUT(4, size), PUT(4, size), PUT(2, length), PUT(2, 0);
        memcpy(p, names[i], length);
        memcpy(p + length, numpy_vector_v2, size);
        p += length + size;
    }
    size_t directory = (size_t)(p - to);
    for (int i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        PUT(4, 0x02014B50), PUT(8, 45), PUT(4, 0), PUT(4, crc), PUT(4, wide ? UINT32_MAX : size),
            PUT(4, wide ? UINT32_MAX : size);
        PUT(2, length), PUT(2, wide ? 36 : 0), PUT(2, 0), PUT(8, 0), PUT(4, wide ? UINT32_MAX : offsets[i]);
        memcpy(p, names[i], length);
        p += length;
        if (wide) { /* a field of another kind, then the sizes */
            PUT(2, 0x5455), PUT(2, 4), PUT(4, 0);
            PUT(2, 1), PUT(2, 24), PUT(8, size), PUT(8, size), PUT(8, offsets[i]);
        }
    }
    size_t end = (size_t)(p - to);
    if (wide) {
        PUT(4, 0x06064B50), PUT(8, 44), PUT(4, 0), PUT(8, 0), PUT(8, (uint64_t)count), PUT(8, (uint64_t)count);
        PUT(8, end - directory), PUT(8, directory);
        PUT(4, 0x07064B50), PUT(4, 0), PUT(8, end), PUT(4, 1);
    }
    PUT(4, 0x06054B50), PUT(4, 0), PUT(2, wide ? 0xFFFF : (uint64_t)count), PUT(2, wide ? 0xFFFF : (uint64_t)count);
    PUT(4, wide ? UINT32_MAX : end - directory), PUT(4, wide ? UINT32_MAX : directory), PUT(2, 0);
#undef PUT
    return (size_t)(p - to);
}

static void test_zip(void **state)
{
    (void)state;
    char archive[4096];
    samba_tensor_list list;
    for (int wide = 0; wide < 2; wide++) {
        size_t size = make_zip(archive, (const char *[]){"a.npy", "b.npy"}, 2, wide);
        put_file(archive, size);
        assert_int_equal(samba_npz_read(context, path, &list), SAMBA_OK);
        assert_int_equal(list.count, 2);
        assert_tensor(list.tensors[1], "b", SAMBA_INT64, SHAPE(3), (double[]){1, 2, 3});
        samba_tensor_list_free(context, &list);
        check_cut(read_npz, archive, size);
        check_damage(read_npz, archive, size);
        put_file(archive, make_zip(archive, (const char *[]){"a.npy", "a.npy"}, 2, wide));
        assert_message(read_npz(context, path), SAMBA_ERROR_FORMAT, "\"a\" stands there twice");
        put_file(archive, make_zip(archive, (const char *[]){"a.npy", "readme"}, 2, wide));
        assert_message(read_npz(context, path), SAMBA_ERROR_FORMAT, "\"readme\" is no .npy file");
        size = make_zip(archive, NULL, 0, wide);
        put_file(archive, size);
        assert_int_equal(samba_npz_read(context, path, &list), SAMBA_OK);
        assert_int_equal(list.count, 0);
        samba_tensor_list_free(context, &list);
    }
    size_t size = make_zip(archive, (const char *[]){"a.npy"}, 1, false);
    archive[size - 22 - 46 - 5 + 8] = 1;
    put_file(archive, size);
    assert_message(read_npz(context, path), SAMBA_ERROR_UNSUPPORTED, "(a.npy): the member is encrypted");
    size = make_zip(archive, (const char *[]){"a.npy"}, 1, false);
    archive[size - 22 - 46 - 5 + 10] = 14;
    put_file(archive, size);
    assert_message(read_npz(context, path), SAMBA_ERROR_UNSUPPORTED, "(a.npy): compression method 14");
    size = make_zip(archive, (const char *[]){"a.npy"}, 1, false);
    archive[100] ^= 1;
    put_file(archive, size);
    assert_message(read_npz(context, path), SAMBA_ERROR_FORMAT, "(a.npy): the checksum is wrong");
}

/* ---- safetensors ---- */

static void test_official_safetensors(void **state)
{
    (void)state;
    samba_tensor_list list;
    put_file(safetensors_official, sizeof safetensors_official);
    assert_int_equal(samba_safetensors_read(context, path, &list), SAMBA_OK);
    assert_int_equal(list.count, 4);
    for (int i = 0; i < 4; i++) {
        const samba_tensor *t = list.tensors[i];
        if (strcmp(t->name, "w.weight") == 0)
            assert_tensor(t, "w.weight", SAMBA_FLOAT32, SHAPE(2, 3), (double[]){0, 1, 2, 3, 4, 5});
        else if (strcmp(t->name, "mask") == 0)
            assert_tensor(t, "mask", SAMBA_BOOL, SHAPE(3), (double[]){1, 0, 1});
        else if (strcmp(t->name, "b") == 0)
            assert_tensor(t, "b", SAMBA_INT16, 0, NULL, (double[]){-3});
        else
            assert_tensor(t, "empty", SAMBA_INT64, SHAPE(0, 4), NULL);
    }
    /* a tensor outlives its list and the others */
    samba_tensor *kept = samba_tensor_hold(list.tensors[1]);
    samba_tensor_list_free(context, &list);
    assert_true(samba_tensor_has_data(kept));
    samba_tensor_free(kept);
    check_cut(read_safetensors, safetensors_official, sizeof safetensors_official);
    check_damage(read_safetensors, safetensors_official, sizeof safetensors_official);
    check_failed_allocations(read_safetensors, safetensors_official, sizeof safetensors_official);
}

static samba_status write_scenario(samba_context *under, void *user)
{
    (void)user;
    samba_tensor *a = NULL, *b = NULL;
    samba_status status = samba_tensor_new(under, "a", SAMBA_BOOL, SHAPE(3), &a);
    samba_tensor *wide = NULL;
    if (status == SAMBA_OK)
        status = samba_tensor_new(under, "wide", SAMBA_FLOAT32, SHAPE(2, 3), &wide);
    if (status == SAMBA_OK)
        status = samba_tensor_permute(wide, (int[]){1, 0}, &b);
    if (status == SAMBA_OK)
        status = samba_safetensors_write(under, path, 2, (samba_tensor *[]){a, b}, (const char *[]){"format", "pt", NULL});
    if (status == SAMBA_OK)
        status = samba_npy_write(under, path, b);
    samba_tensor_free(a);
    samba_tensor_free(b);
    samba_tensor_free(wide);
    return status;
}

static void test_safetensors_round_trip(void **state)
{
    (void)state;
    samba_tensor *tensors[SAMBA_DTYPE_COUNT];
    samba_tensor_list list;
    for (int d = 0; d < SAMBA_DTYPE_COUNT; d++) {
        char name[32];
        snprintf(name, sizeof name, "%c \"\\\xC3\xA9 %s", 'z' - d, samba_dtype_name((samba_dtype)d));
        assert_int_equal(samba_tensor_new(context, name, (samba_dtype)d, SHAPE(3), &tensors[d]), SAMBA_OK);
        assert_int_equal(samba_fill_integers(tensors[d], (uint64_t)d, 0, d == SAMBA_BOOL ? 2 : 100), SAMBA_OK);
    }
    const char *metadata[] = {"format", "pt", "note", "line\nbreak", NULL};
    assert_int_equal(samba_safetensors_write(context, path, SAMBA_DTYPE_COUNT, tensors, metadata), SAMBA_OK);
    void *first, *second;
    size_t first_size, second_size;
    assert_int_equal(samba_file_read(context, path, &first, &first_size), SAMBA_OK);
    assert_int_equal(samba_get64(first) % 8, 0);
    assert_int_equal(samba_safetensors_read(context, path, &list), SAMBA_OK);
    assert_int_equal(list.count, SAMBA_DTYPE_COUNT);
    for (int i = 0; i < list.count; i++) {
        const samba_tensor *read = list.tensors[i], *written = tensors[read->dtype];
        assert_string_equal(read->name, written->name);
        assert_memory_equal(read->data, written->data, 3 * samba_dtype_size(read->dtype));
        if (i > 0) { /* widest first, then by name */
            const samba_tensor *before = list.tensors[i - 1];
            size_t wider = samba_dtype_size(before->dtype), narrower = samba_dtype_size(read->dtype);
            assert_true(wider > narrower || (wider == narrower && strcmp(before->name, read->name) < 0));
        }
    }
    /* the same tensors in another order are the same bytes */
    samba_tensor *kept = tensors[0];
    tensors[0] = tensors[7];
    tensors[7] = kept;
    assert_int_equal(samba_safetensors_write(context, path, SAMBA_DTYPE_COUNT, tensors, metadata), SAMBA_OK);
    assert_int_equal(samba_file_read(context, path, &second, &second_size), SAMBA_OK);
    assert_int_equal(first_size, second_size);
    assert_memory_equal(first, second, first_size);
    samba_free(context, first, first_size);
    samba_free(context, second, second_size);
    samba_tensor_list_free(context, &list);
    for (int d = 0; d < SAMBA_DTYPE_COUNT; d++)
        samba_tensor_free(tensors[d]);

    assert_int_equal(samba_safetensors_write(context, path, 0, NULL, NULL), SAMBA_OK);
    assert_int_equal(samba_safetensors_read(context, path, &list), SAMBA_OK);
    assert_int_equal(list.count, 0);
    fail_each_allocation(write_scenario, NULL);
}

static void test_writing_wrongly(void **state)
{
    (void)state;
    samba_tensor *a, *b;
    assert_int_equal(samba_tensor_new(context, "same", SAMBA_FLOAT32, SHAPE(2), &a), SAMBA_OK);
    assert_int_equal(samba_tensor_new(context, "same", SAMBA_FLOAT32, SHAPE(2), &b), SAMBA_OK);
    samba_tensor *both[] = {a, b};
    put_file("precious", 8);
    assert_message(samba_safetensors_write(context, path, 2, both, NULL), SAMBA_ERROR_NAME, "two tensors are named \"same\"");
    samba_tensor_set_name(b, NULL);
    assert_message(samba_safetensors_write(context, path, 2, both, NULL), SAMBA_ERROR_NAME, "unnamed");
    samba_tensor_set_name(b, "__metadata__");
    assert_message(samba_safetensors_write(context, path, 2, both, NULL), SAMBA_ERROR_NAME, "__metadata__");
    samba_tensor_set_name(b, "\xFF\xFE");
    assert_message(samba_safetensors_write(context, path, 2, both, NULL), SAMBA_ERROR_NAME, "UTF-8");
    assert_message(samba_safetensors_write(context, path, 1, both, (const char *[]){"k", NULL}), SAMBA_ERROR_ARGUMENT,
                   "\"k\" has no value");
    assert_message(samba_safetensors_write(context, path, 1, both, (const char *[]){"k", "1", "k", "2", NULL}), SAMBA_ERROR_NAME,
                   "\"k\" is given twice");
    assert_message(samba_safetensors_write(context, path, 1, both, (const char *[]){"k", "\xFF", NULL}), SAMBA_ERROR_NAME,
                   "UTF-8");
    samba_tensor_free(b);
    assert_int_equal(samba_tensor_empty(context, "hollow", SAMBA_FLOAT32, SHAPE(2), &b), SAMBA_OK);
    both[1] = b;
    assert_message(samba_safetensors_write(context, path, 2, both, NULL), SAMBA_ERROR_STATE, "hollow has no data");
    void *data;
    size_t size;
    assert_int_equal(samba_file_read(context, path, &data, &size), SAMBA_OK);
    assert_int_equal(size, 8);
    assert_memory_equal(data, "precious", 8);
    samba_free(context, data, size);
    snprintf(path, sizeof path, "%s/no/such/folder", folder);
    assert_message(samba_safetensors_write(context, path, 1, both, NULL), SAMBA_ERROR_FILE, "No such file");
    samba_tensor_free(a);
    samba_tensor_free(b);
}

static void test_bad_safetensors(void **state)
{
    (void)state;
#define ENTRY(dtype, shape, begin, end) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
    static const struct {
        const char *header; /* before 8 bytes of data */
        samba_status status;
        const char *message;
    } cases[] = {
        {"{\"a\":" ENTRY("F32", "[2]", 0, 8) "}", SAMBA_OK, ""},
        {"{\"a\":" ENTRY("F32", "[1]", 4, 8) ",\"b\":" ENTRY("F32", "[]", 0, 4) "}   ", SAMBA_OK, ""},
        {"{\"a\":" ENTRY("U8", "[3]", 0, 3) ",\"b\":" ENTRY("F32", "[]", 3, 7) ",\"c\":" ENTRY("I8", "[1]", 7, 8) "}", SAMBA_OK,
         ""},
        {"{\"__metadata__\":{\"k\":\"v\"},\"a\":" ENTRY("F64", "[1]", 0, 8) ",\"e\":" ENTRY("F64", "[0]", 8, 8) "}", SAMBA_OK,
         ""},
        {"{\"__metadata__\":{\"k\":1},\"a\":" ENTRY("F64", "[1]", 0, 8) "}", SAMBA_ERROR_FORMAT,
         "__metadata__ is no object of strings"},
        {"{\"__metadata__\":[],\"a\":" ENTRY("F64", "[1]", 0, 8) "}", SAMBA_ERROR_FORMAT, "__metadata__ is no object"},
        {"{}", SAMBA_ERROR_FORMAT, "8 bytes follow the last tensor"},
        {"[]", SAMBA_ERROR_FORMAT, "no JSON object"},
        {"{", SAMBA_ERROR_FORMAT, "no valid JSON"},
        {"", SAMBA_ERROR_FORMAT, "no valid JSON"},
        {"{\"a\":" ENTRY("F32", "[1]", 0, 4) "}", SAMBA_ERROR_FORMAT, "4 bytes follow the last tensor"},
        {"{\"a\":" ENTRY("F32", "[1]", 4, 8) "}", SAMBA_ERROR_FORMAT,
         "\"a\" begins at 4 where 0 was expected: tensors leave a gap"},
        {"{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"b\":" ENTRY("F32", "[1]", 4, 8) "}", SAMBA_ERROR_FORMAT, "tensors overlap"},
        {"{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"b\":" ENTRY("F32", "[2]", 0, 8) "}", SAMBA_ERROR_FORMAT, "tensors overlap"},
        {"{\"a\":" ENTRY("F32", "[3]", 0, 8) "}", SAMBA_ERROR_FORMAT, "shape (3) and dtype float32 does not take its 8 bytes"},
        {"{\"a\":" ENTRY("F32", "[3]", 0, 12) "}", SAMBA_ERROR_FORMAT, "lies at 0 to 12; the file holds 0 to 8"},
        {"{\"a\":" ENTRY("F32", "[0]", 4, 0) "}", SAMBA_ERROR_FORMAT, "lies at 4 to 0"},
        {"{\"a\":" ENTRY("F32", "[3]", -4, 8) "}", SAMBA_ERROR_FORMAT, "lies at -4"},
        {"{\"a\":" ENTRY("F32", "[-2]", 0, 8) "}", SAMBA_ERROR_FORMAT, "something else than sizes"},
        {"{\"a\":" ENTRY("F32", "[2.0]", 0, 8) "}", SAMBA_ERROR_FORMAT, "something else than sizes"},
        {"{\"a\":" ENTRY("F32", "[4611686018427387904,4]", 0, 8) "}", SAMBA_ERROR_FORMAT, "does not take its 8 bytes"},
        {"{\"a\":" ENTRY("F32", "[99999999999999999999]", 0, 8) "}", SAMBA_ERROR_FORMAT, "no valid JSON: too big integer"},
        {"{\"a\":" ENTRY("F32", "2", 0, 8) "}", SAMBA_ERROR_FORMAT, "no shape"},
        {"{\"a\":" ENTRY("F8_E4M3", "[8]", 0, 8) "}", SAMBA_ERROR_UNSUPPORTED, "\"a\" is of dtype F8_E4M3"},
        {"{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,2]", 0, 8) "}", SAMBA_ERROR_UNSUPPORTED, "rank 9"},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", SAMBA_ERROR_FORMAT, "no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", SAMBA_ERROR_FORMAT, "no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", SAMBA_ERROR_FORMAT, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", SAMBA_ERROR_FORMAT, "no data_offsets"},
        {"{\"a\":7}", SAMBA_ERROR_FORMAT, "no dtype"},
        {"{\"\":" ENTRY("F32", "[2]", 0, 8) "}", SAMBA_ERROR_FORMAT, "empty name"},
        {"{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"a\":" ENTRY("F32", "[2]", 0, 8) "}", SAMBA_ERROR_FORMAT, "duplicate"},
        {"{\"a\":" ENTRY("F64", "[1]", 0, 8) ",\"e\":" ENTRY("F64", "[0,4611686018427387904]", 8, 8) "}", SAMBA_ERROR_FORMAT,
         "2^62"},
        {"{\"a\":" ENTRY("F64", "[1]", 0, 8) ",\"e\":" ENTRY("F64", "[0,1152921504606846976]", 8, 8) "}", SAMBA_ERROR_FORMAT,
         "2^62"},
    };
    for (int i = 0; i < SAMBA_COUNT(cases); i++) {
        char file[512] = {0};
        uint64_t length = strlen(cases[i].header);
        memcpy(file, &length, 8);
        memcpy(file + 8, cases[i].header, length);
        put_file(file, 8 + length + 8);
        samba_status status = read_safetensors(context, path);
        if (status != cases[i].status || (status != SAMBA_OK && !strstr(samba_error_message(context), cases[i].message)))
            fail_msg("header %s: %s, %s", cases[i].header, samba_status_name(status), samba_error_message(context));
    }
    put_file("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F{}", 10);
    assert_message(read_safetensors(context, path), SAMBA_ERROR_FORMAT, "limit of 100 MB");
    put_file("\x64\0\0\0\0\0\0\0{}", 10);
    assert_message(read_safetensors(context, path), SAMBA_ERROR_FORMAT, "header of 100 bytes exceeds the file");
}

/* ---- by ending ---- */

static void test_endings(void **state)
{
    (void)state;
    static const struct {
        const char *ending;
        const void *data;
        size_t size;
        const char *first;
    } files[] = {
        {"a.npy", numpy_float, sizeof numpy_float, "given"},
        {"a.npz", npz_stored, sizeof npz_stored, "image"},
        {"a.safetensors", safetensors_official, sizeof safetensors_official, "empty"},
        {"a.idx", idx_pixels, sizeof idx_pixels, "given"},
        {"train-images-idx3-ubyte", idx_pixels, sizeof idx_pixels, "given"},
        {"train-images-idx3-ubyte.gz", idx_pixels, sizeof idx_pixels, "given"},
    };
    samba_tensor_list list;
    for (int i = 0; i < SAMBA_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].ending);
        put_file(files[i].data, files[i].size);
        assert_int_equal(samba_tensors_read(context, path, "given", &list), SAMBA_OK);
        assert_string_equal(samba_tensor_name(list.tensors[0]), files[i].first);
        samba_tensor_list_free(context, &list);
    }
    snprintf(path, sizeof path, "%s/a.csv", folder);
    assert_message(samba_tensors_read(context, path, "given", &list), SAMBA_ERROR_ARGUMENT, ".safetensors");
    assert_int_equal(list.count, 0);
    snprintf(path, sizeof path, "%s/no.npy", folder);
    assert_message(samba_tensors_read(context, path, "given", &list), SAMBA_ERROR_FILE, "No such file");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)
    const struct CMUnitTest tests[] = {
        TEST(test_idx),
        TEST(test_bad_idx),
        TEST(test_npy_from_numpy),
        TEST(test_npy_round_trip),
        TEST(test_npy_headers),
        TEST(test_npz),
        TEST(test_zip),
        TEST(test_official_safetensors),
        TEST(test_safetensors_round_trip),
        TEST(test_writing_wrongly),
        TEST(test_bad_safetensors),
        TEST(test_endings),
    };
    return cmocka_run_group_tests_name("data", tests, make_folder, remove_folder);
}
