/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers and writers of tensor files: what other programs write (files/: NumPy 2.4.6, Python's zipfile and safetensors 0.8.0),
 * round trips, and files that are cut, too long, damaged or hostile: an error with the path, never a crash or a leak. */
#include "messages.h"
#include "data/data.h"
#include "failing_allocator.h"

static char path[256]; /* of the file at hand */

static int data_begin(void **unused)
{
    snprintf(path, sizeof path, "%s/file", folder);
    return counting_begin(unused);
}

static void put_file(const char *name, const void *data, size_t size)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

typedef struct stored { /* a file that another program wrote */
    size_t size;
    unsigned char bytes[1024];
} stored;

/* It is put into the scratch folder as well. */
static stored put_stored(const char *name)
{
    stored s;
    char place[512];
    snprintf(place, sizeof place, "%s/files/%s", SAMBA_TEST_FOLDER, name);
    FILE *file = fopen(place, "rb");
    assert_non_null(file);
    s.size = fread(s.bytes, 1, sizeof s.bytes, file);
    assert_int_equal(fclose(file), 0);
    put_file(name, s.bytes, s.size);
    return s;
}

static void assert_file(const void *data, size_t size)
{
    void *read;
    size_t read_size;
    need(samba_file_read(context, path, &read, &read_size));
    assert_int_equal(read_size, size);
    assert_memory_equal(read, data, size);
    samba_free(context, read, read_size);
}

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

/* By the reader of the file's ending. */
static samba_status read_file(samba_context *under, const char *file)
{
    samba_tensor_list list;
    samba_status status = samba_tensors_read(under, file, "x", &list);
    assert_true(status == SAMBA_OK || !list.tensors);
    samba_tensor_list_free(under, &list);
    return status;
}

static samba_status read_bytes(const char *name, const void *bytes, size_t size)
{
    put_file(name, bytes, size);
    return read_file(context, path);
}

static samba_status read_stored(const char *name)
{
    put_stored(name);
    return read_file(context, path);
}

static samba_status scenario_read(samba_context *under, void *user) { return read_file(under, path); }

/* Every shorter file and one longer by a byte is refused as such. Every byte replaced by several others: any answer will do that
 * is an answer. And with no memory nothing is left. */
static void check_robust(const char *name, const void *data, size_t size)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xFF};
    char changed[8192] = {0};
    assert_true(size < sizeof changed);
    memcpy(changed, data, size);
    for (size_t length = 0; length <= size + 1; length++) {
        samba_status status = read_bytes(name, changed, length);
        if (status != (length == size ? SAMBA_OK : SAMBA_ERROR_FORMAT))
            fail_msg("%zu of %zu bytes: %s, %s", length, size, samba_status_name(status), samba_error_message(context));
        assert_true(length == size || strstr(samba_error_message(context), path));
    }
    for (size_t i = 0; i < 3 * size; i++) {
        changed[i / 3] = (char)(((const char *)data)[i / 3] ^ masks[i % 3]);
        samba_status status = read_bytes(name, changed, size);
        changed[i / 3] = ((const char *)data)[i / 3];
        if (status != SAMBA_OK && status != SAMBA_ERROR_FORMAT && status != SAMBA_ERROR_UNSUPPORTED)
            fail_msg("byte %zu: %s, %s", i / 3, samba_status_name(status), samba_error_message(context));
        assert_int_equal(counted_memory.live_blocks, 1);
    }
    put_file(name, data, size);
    fail_each_allocation(scenario_read, NULL);
}

/* ---- IDX ---- */

static size_t compress_gzip(const void *data, size_t size, unsigned char *packed, size_t room)
{
    z_stream stream = {.next_in = (z_const Bytef *)data, .avail_in = (uInt)size, .next_out = packed, .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t length = stream.total_out;
    deflateEnd(&stream);
    return length;
}

static const unsigned char idx_pixels[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 254, 255, 0};

/* Packed by gzip, as the test's file; its size. */
static size_t put_gzip(const void *data, size_t size)
{
    unsigned char packed[512];
    size_t length = compress_gzip(data, size, packed, sizeof packed);
    put_file("file.idx.gz", packed, length);
    return length;
}

static void expect_idx(samba_dtype dtype, int rank, const int64_t *shape, const double *values)
{
    OWN_TENSOR *read;
    need(samba_idx_read(context, path, &read));
    assert_tensor(read, "", dtype, rank, shape, values);
}

TEST(test_idx)
{
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
    for (int i = 0; i < LENGTH(files); i++) {
        put_file("file.idx", files[i].bytes, files[i].size);
        expect_idx(files[i].dtype, SIZES(2), files[i].values);
        put_gzip(files[i].bytes, files[i].size);
        expect_idx(files[i].dtype, SIZES(2), files[i].values);
    }
    put_file("file.idx", "\0\0\x08\0\x05", 5); /* rank 0 */
    expect_idx(SAMBA_UINT8, 0, NULL, (double[]){5});
    put_file("file.idx", "\0\0\x08\1\0\0\0\0", 8); /* no elements */
    expect_idx(SAMBA_UINT8, SIZES(0), NULL);
}

static samba_status read_gzip(const void *data, size_t size)
{
    put_gzip(data, size);
    return read_file(context, path);
}

TEST(test_bad_idx)
{
    unsigned char packed[512], longer[200] = {0};
    memcpy(longer, idx_pixels, sizeof idx_pixels);
    check_robust("file.idx", idx_pixels, sizeof idx_pixels);
    size_t size = compress_gzip(idx_pixels, sizeof idx_pixels, packed, sizeof packed);
    check_robust("file.idx", packed, size);
    says(read_bytes("file.idx", idx_pixels, 17));
    says(read_bytes("file.idx", "\x89PNG\r\n", 6));
    says(read_bytes("file.idx", "\0\0\x0A\1\0\0\0\1\0", 9));
    says(read_bytes("file.idx", "\0\0\x08\x09", 4));
    says(read_bytes("file.idx", "\0\0\x0E\3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 16));
    /* content that is shorter or longer than its header says, in a sound gzip file */
    says(read_gzip(idx_pixels, sizeof idx_pixels - 1));
    says(read_gzip(longer, sizeof idx_pixels + 1));
    memcpy(packed + size, packed, size); /* two gzip streams in a row */
    says(read_bytes("file.idx", packed, 2 * size));
    int64_t peak = counted_memory.peak_bytes; /* a small file that claims 4 GB: refused before memory is taken */
    says(read_gzip("\0\0\x08\1\xFF\xFF\xFF\xFF", 8));
    assert_true(counted_memory.peak_bytes < peak + 1000000);
    says(read_file(context, "/nowhere/missing.idx"));
    samba_tensor *read;
    says(samba_idx_read(context, folder, &read));
    assert_null(read);
}

/* ---- .npy ---- */

TEST(test_npy_from_numpy)
{
    samba_tensor *read;
    stored written = put_stored("float.npy");
    need(samba_npy_read(context, path, &read));
    assert_tensor(read, "", SAMBA_FLOAT32, SIZES(3, 2), (double[]){1, -2.5, 3, 0.25, 0, 7});
    need(samba_npy_write(context, path, read)); /* and what we write is what NumPy writes */
    samba_tensor_free(read);
    assert_file(written.bytes, written.size);
    check_robust("file.npy", written.bytes, written.size);

    written = put_stored("vector_v2.npy");
    need(samba_npy_read(context, path, &read));
    assert_tensor(read, "", SAMBA_INT64, SIZES(3), (double[]){1, 2, 3});
    samba_tensor_free(read);
    check_robust("file.npy", written.bytes, written.size);
    says(read_stored("big_endian.npy"));
    says(read_stored("fortran.npy"));
    says(read_stored("record.npy"));
    says(read_stored("text.npy"));
}

TEST(test_npy_round_trip)
{
    for (int d = 0; d < SAMBA_DTYPE_COUNT; d++) {
        samba_dtype dtype = (samba_dtype)d;
        OWN_TENSOR *wide = tensor("t", dtype, SIZES(5, 4));
        need(samba_fill_integers(wide, 1, 0, dtype == SAMBA_BOOL ? 2 : 100));
        OWN_TENSOR *view, *back = NULL;
        need(samba_tensor_permute(wide, (int[]){1, 0}, &view));
        if (dtype == SAMBA_BFLOAT16) {
            says(samba_npy_write(context, path, view));
        } else {
            need(samba_npy_write(context, path, view));
            need(samba_npy_read(context, path, &back));
            double values[20];
            for (int i = 0; i < 20; i++)
                values[i] = samba_load_double(dtype, wide->data + (i % 5 * 4 + i / 5) * (int64_t)samba_dtype_size(dtype));
            assert_tensor(back, "", dtype, SIZES(4, 5), values);
        }
    }
    OWN_TENSOR *scalar = tensor("t", SAMBA_FLOAT32, 0, NULL), *back, *view;
    need(samba_npy_write(context, path, scalar));
    need(samba_npy_read(context, path, &back));
    assert_tensor(back, "", SAMBA_FLOAT32, 0, NULL, (double[]){0});
    need(samba_tensor_empty(context, "hollow", SAMBA_FLOAT32, 0, NULL, &view));
    says(samba_npy_write(context, path, view));
}

static samba_status read_npy_header(const char *header)
{
    char file[512] = "\x93NUMPY\x01\x00";
    size_t length = strlen(header);
    file[8] = (char)length;
    memcpy(file + 10, header, length);
    return read_bytes("file.npy", file, 10 + length + 4);
}

TEST(test_npy_headers)
{
    replay("npy headers, before 4 bytes", read_npy_header);
    says(read_bytes("file.npy", "\x93NUMPY\x04\x00\x00\x00\x00\x00", 12));
    samba_tensor *read;
    says(read_bytes("file.npy", "\x93NUMPY\2\0\1\0\0", 11)); /* half a length */
    assert_true(samba_npy_read(context, path, &read) != SAMBA_OK && !read);
}

/* ---- .npz ---- */

TEST(test_npz)
{
    static const char *const names[] = {"stored.npz", "deflated.npz"};
    for (int i = 0; i < 2; i++) {
        stored written = put_stored(names[i]);
        samba_tensor_list list;
        need(samba_npz_read(context, path, &list));
        assert_int_equal(list.count, 2 + i);
        assert_tensor(list.tensors[0], "image", SAMBA_UINT8, SIZES(2, 3), (double[]){0, 1, 2, 3, 4, 5});
        assert_tensor(list.tensors[1], "scale", SAMBA_FLOAT64, 0, NULL, (double[]){2.5});
        if (i == 1)
            assert_int_equal(samba_tensor_numel(list.tensors[2]), 2000);
        samba_tensor_list_free(context, &list);
        assert_null(list.tensors);
        check_robust("file.npz", written.bytes, written.size);
    }
}

/* An archive of `count` stored members, each with the same small array, that uses 64-bit fields throughout. */
static size_t make_zip(char *to, const char *const *names, int count)
{
    char *p = to;
    const stored array = put_stored("vector_v2.npy");
    size_t offsets[4], size = array.size;
    uint32_t crc = (uint32_t)crc32_z(0, array.bytes, size);
#define PUT(bytes, value) (memcpy(p, &(uint64_t){value}, bytes), p += (bytes))
    for (int i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        offsets[i] = (size_t)(p - to);
        PUT(4, 0x04034B50), PUT(6, 20), PUT(4, 0), PUT(4, crc), PUT(4, size), PUT(4, size), PUT(2, length), PUT(2, 0);
        memcpy(p, names[i], length);
        memcpy(p + length, array.bytes, size);
        p += length + size;
    }
    size_t directory = (size_t)(p - to);
    for (int i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        PUT(4, 0x02014B50), PUT(8, 45), PUT(4, 0), PUT(4, crc), PUT(4, UINT32_MAX), PUT(4, UINT32_MAX);
        PUT(2, length), PUT(2, 36), PUT(2, 0), PUT(8, 0), PUT(4, UINT32_MAX);
        memcpy(p, names[i], length);
        p += length; /* a field of another kind, then the sizes */
        PUT(2, 0x5455), PUT(2, 4), PUT(4, 0);
        PUT(2, 1), PUT(2, 24), PUT(8, size), PUT(8, size), PUT(8, offsets[i]);
    }
    size_t end = (size_t)(p - to);
    PUT(4, 0x06064B50), PUT(8, 44), PUT(4, 0), PUT(8, 0), PUT(8, (uint64_t)count), PUT(8, (uint64_t)count);
    PUT(8, end - directory), PUT(8, directory);
    PUT(4, 0x07064B50), PUT(4, 0), PUT(8, end), PUT(4, 1);
    PUT(4, 0x06054B50), PUT(4, 0), PUT(2, 0xFFFF), PUT(2, 0xFFFF), PUT(4, UINT32_MAX), PUT(4, UINT32_MAX), PUT(2, 0);
#undef PUT
    return (size_t)(p - to);
}

static void put_zip(const char *first, const char *second)
{
    char archive[4096];
    put_file("file.npz", archive, make_zip(archive, (const char *[]){first, second}, first ? 2 : 0));
}

/* An archive of one member whose byte `at`, from the end if negative, is `byte`. */
static samba_status read_zip_with(int at, char byte)
{
    char archive[4096];
    size_t size = make_zip(archive, (const char *[]){"a.npy"}, 1);
    archive[at < 0 ? (int)size + at : at] = byte;
    return read_bytes("file.npz", archive, size);
}

TEST(test_zip)
{
    char archive[4096];
    samba_tensor_list list;
    size_t size = make_zip(archive, (const char *[]){"a.npy", "b.npy"}, 2);
    put_file("file.npz", archive, size);
    need(samba_npz_read(context, path, &list));
    assert_int_equal(list.count, 2);
    assert_tensor(list.tensors[1], "b", SAMBA_INT64, SIZES(3), (double[]){1, 2, 3});
    samba_tensor_list_free(context, &list);
    check_robust("file.npz", archive, size);
    says((put_zip("a.npy", "a.npy"), read_file(context, path)));
    says((put_zip("a.npy", "readme"), read_file(context, path)));
    put_zip(NULL, NULL);
    need(samba_npz_read(context, path, &list));
    assert_int_equal(list.count, 0);
    samba_tensor_list_free(context, &list);
    says(read_zip_with(-98 - 36 - 46 - 5 + 8, 1));
    says(read_zip_with(-98 - 36 - 46 - 5 + 10, 14));
    says(read_zip_with(100, '!'));
}

/* ---- safetensors ---- */

TEST(test_official_safetensors)
{
    samba_tensor_list list;
    stored written = put_stored("official.safetensors");
    need(samba_safetensors_read(context, path, &list));
    assert_int_equal(list.count, 4);
    assert_tensor(list.tensors[0], "empty", SAMBA_INT64, SIZES(0, 4), NULL);
    assert_tensor(list.tensors[1], "w.weight", SAMBA_FLOAT32, SIZES(2, 3), (double[]){0, 1, 2, 3, 4, 5});
    assert_tensor(list.tensors[2], "b", SAMBA_INT16, 0, NULL, (double[]){-3});
    assert_tensor(list.tensors[3], "mask", SAMBA_BOOL, SIZES(3), (double[]){1, 0, 1});
    /* a tensor outlives its list and the others */
    samba_tensor *kept = samba_tensor_hold(list.tensors[1]);
    samba_tensor_list_free(context, &list);
    assert_true(samba_tensor_has_data(kept));
    samba_tensor_free(kept);
    check_robust("file.safetensors", written.bytes, written.size);
}

static samba_status write_scenario(samba_context *under, void *user)
{
    OWN_TENSOR *a = NULL, *b = NULL, *wide = NULL;
    samba_status status = samba_tensor_new(under, "a", SAMBA_BOOL, SIZES(3), &a);
    THEN(status, samba_tensor_new(under, "wide", SAMBA_FLOAT32, SIZES(2, 3), &wide));
    THEN(status, samba_tensor_permute(wide, (int[]){1, 0}, &b));
    THEN(status, samba_safetensors_write(under, path, 2, (samba_tensor *[]){a, b}, (const char *[]){"format", "pt", NULL}));
    THEN(status, samba_npy_write(under, path, b));
    return status;
}

TEST(test_safetensors_round_trip)
{
    samba_tensor *tensors[SAMBA_DTYPE_COUNT];
    samba_tensor_list list;
    for (int d = 0; d < SAMBA_DTYPE_COUNT; d++) {
        char name[32];
        snprintf(name, sizeof name, "%c \"\\\xC3\xA9 %s", 'z' - d, samba_dtype_name((samba_dtype)d));
        tensors[d] = tensor(name, (samba_dtype)d, SIZES(3));
        need(samba_fill_integers(tensors[d], (uint64_t)d, 0, d == SAMBA_BOOL ? 2 : 100));
    }
    const char *metadata[] = {"format", "pt", "note", "line\nbreak", NULL};
    need(samba_safetensors_write(context, path, SAMBA_DTYPE_COUNT, tensors, metadata));
    void *first;
    size_t first_size;
    need(samba_file_read(context, path, &first, &first_size));
    assert_int_equal(samba_get64(first) % 8, 0);
    need(samba_safetensors_read(context, path, &list));
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
    samba_tensor *first_one = tensors[0];
    tensors[0] = tensors[7], tensors[7] = first_one;
    need(samba_safetensors_write(context, path, SAMBA_DTYPE_COUNT, tensors, metadata));
    assert_file(first, first_size);
    samba_free(context, first, first_size);
    samba_tensor_list_free(context, &list);
    free_each_tensor(SAMBA_DTYPE_COUNT, tensors);

    need(samba_safetensors_write(context, path, 0, NULL, NULL));
    need(samba_safetensors_read(context, path, &list));
    assert_int_equal(list.count, 0);
    fail_each_allocation(write_scenario, NULL);
}

TEST(test_writing_wrongly)
{
    OWN_TENSOR *a = tensor("same", SAMBA_FLOAT32, SIZES(2)), *b = tensor("same", SAMBA_FLOAT32, SIZES(2)), *hollow;
    need(samba_tensor_empty(context, "hollow", SAMBA_FLOAT32, SIZES(2), &hollow));
    samba_tensor *both[] = {a, b}, *one[] = {a, hollow};
    put_file("file.safetensors", "precious", 8);
    says(samba_safetensors_write(context, path, 2, both, NULL));
    samba_tensor_set_name(b, NULL);
    says(samba_safetensors_write(context, path, 2, both, NULL));
    samba_tensor_set_name(b, "__metadata__");
    says(samba_safetensors_write(context, path, 2, both, NULL));
    samba_tensor_set_name(b, "\xFF\xFE");
    says(samba_safetensors_write(context, path, 2, both, NULL));
    says(samba_safetensors_write(context, path, 1, both, (const char *[]){"k", NULL}));
    says(samba_safetensors_write(context, path, 1, both, (const char *[]){"k", "1", "k", "2", NULL}));
    says(samba_safetensors_write(context, path, 1, both, (const char *[]){"k", "\xFF", NULL}));
    says(samba_safetensors_write(context, path, 2, one, NULL));
    assert_file("precious", 8);
    says(samba_safetensors_write(context, "/nowhere/folder", 1, both, NULL));
}

static samba_status read_safetensors_header(const char *header)
{
    char file[512] = {0};
    uint64_t length = strlen(header);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    return read_bytes("file.safetensors", file, 8 + length + 8);
}

TEST(test_bad_safetensors)
{
    replay("safetensors headers, before 8 bytes", read_safetensors_header);
    need(read_safetensors_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   "));
    says(read_bytes("file.safetensors", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F{}", 10));
    says(read_bytes("file.safetensors", "\x64\0\0\0\0\0\0\0{}", 10));
}

/* ---- by ending ---- */

TEST(test_endings)
{
    static const char *const files[][2] = {{"float.npy", "given"},
                                           {"stored.npz", "image"},
                                           {"official.safetensors", "empty"},
                                           {"a.idx", "given"},
                                           {"train-images-idx3-ubyte", "given"},
                                           {"train-images-idx3-ubyte.gz", "given"}};
    samba_tensor_list list;
    for (int i = 0; i < LENGTH(files); i++) {
        if (i < 3)
            put_stored(files[i][0]);
        else
            put_file(files[i][0], idx_pixels, sizeof idx_pixels);
        need(samba_tensors_read(context, path, "given", &list));
        assert_string_equal(samba_tensor_name(list.tensors[0]), files[i][1]);
        samba_tensor_list_free(context, &list);
    }
    says(samba_tensors_read(context, "a.csv", "given", &list));
    assert_int_equal(list.count, 0);
    says(samba_tensors_read(context, "/nowhere/no.npy", "given", &list));
}

TEST_MAIN_WITH(data_begin, counting_end, test_idx, test_bad_idx, test_npy_from_numpy, test_npy_round_trip, test_npy_headers,
               test_npz, test_zip, test_official_safetensors, test_safetensors_round_trip, test_writing_wrongly,
               test_bad_safetensors, test_endings, every_message_said)
