/* SPDX-License-Identifier: Apache-2.0
 *
 * The base: messages, memory with sizes, arenas, text, names and whole files, and that no failed allocation leaks. */
#include "harness.h"
#include "base/base.h"

#include "failing_allocator.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

TEST(test_messages)
{
    samba_context *context;
    need(samba_context_new(NULL, &context));
    assert_string_equal(samba_error_message(context), "");
    assert_int_equal(samba_fail(context, SAMBA_ERROR_SHAPE, "got %d", 3), SAMBA_ERROR_SHAPE);
    assert_string_equal(samba_error_message(context), "got 3");
    samba_fail(context, SAMBA_ERROR_SHAPE, "layer: %s", samba_error_message(context));
    assert_string_equal(samba_error_message(context), "layer: got 3");
    char big[3000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    samba_fail(context, SAMBA_ERROR_NAME, "%s", big);
    assert_int_equal(strlen(samba_error_message(context)), 1023);
    samba_context_free(context);
    samba_context_free(NULL);
    assert_string_equal(samba_status_name(SAMBA_OK), "ok");
    assert_string_equal(samba_status_name(SAMBA_ERROR_INTERNAL), "internal");
    assert_string_equal(samba_status_name(SAMBA_ERROR_INDEX), "index");
    assert_string_equal(samba_status_name((samba_status)99), "?");
    assert_string_equal(samba_version(), "0.1.0");
}

TEST(test_no_memory_for_a_context)
{
    failing_allocator counter;
    samba_allocator allocator = failing_allocator_init(&counter);
    counter.fail_from = 0;
    counter.fail_count = 1;
    samba_context *context = (samba_context *)&counter;
    assert_int_equal(samba_context_new(&allocator, &context), SAMBA_ERROR_MEMORY);
    assert_null(context);
}

TEST(test_memory)
{
    samba_context *plain;
    need(samba_context_new(NULL, &plain));
    for (size_t size = 0; size < 200; size += 7) {
        char *block = samba_calloc(plain, size);
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(block[i], 0);
        samba_free(plain, block, size);
    }
    samba_free(plain, NULL, 5);
    assert_null(samba_alloc(plain, SIZE_MAX));
    assert_non_null(strstr(samba_error_message(plain), "no memory for"));
    int64_t *numbers = NULL, capacity = 0;
    for (int64_t i = 0; i < 1000; i++) {
        need(samba_grow(plain, (void **)&numbers, sizeof *numbers, &capacity, i + 1));
        assert_int_equal(numbers[i], 0);
        numbers[i] = i;
    }
    for (int64_t i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    assert_int_equal(capacity, 1024);
    assert_int_equal(samba_grow(plain, (void **)&numbers, sizeof *numbers, &capacity, INT64_MAX), SAMBA_ERROR_MEMORY);
    assert_int_equal(capacity, 1024);
    samba_free(plain, numbers, (size_t)capacity * sizeof *numbers);
    char *copy = samba_strdup(plain, "samba");
    assert_string_equal(copy, "samba");
    samba_strfree(plain, copy);
    samba_strfree(plain, NULL);
    samba_context_free(plain);
}

TEST(test_checked)
{
    int64_t r = 7;
    assert_true(samba_mul_checked(INT64_C(1) << 31, INT64_C(1) << 31, &r));
    assert_int_equal(r, INT64_C(1) << 62);
    assert_false(samba_mul_checked(INT64_C(1) << 32, INT64_C(1) << 31, &r));
    assert_false(samba_mul_checked(-1, 1, &r));
    assert_false(samba_mul_checked(0, -1, &r));
    assert_false(samba_add_checked(INT64_MAX, 1, &r));
    assert_false(samba_add_checked(-1, 5, &r));
    assert_int_equal(r, INT64_C(1) << 62);
    assert_true(samba_add_checked(INT64_MAX, 0, &r));
    assert_int_equal(r, INT64_MAX);
}

static samba_status arena_scenario(samba_context *context, void *user)
{
    (void)user;
    samba_arena arena;
    samba_arena_init(&arena, context);
    samba_status status = SAMBA_OK;
    unsigned char *kept[400];
    static const size_t sizes[] = {0, 1, 63, 64, 65, 900, 5000, 100000, 3000000};
    for (int i = 0; i < 400 && status == SAMBA_OK; i++) {
        size_t size = sizes[i % SAMBA_COUNT(sizes)] / (size_t)(1 + i / 20);
        unsigned char *block = kept[i] = samba_arena_alloc(&arena, size);
        if (!block) {
            status = SAMBA_ERROR_MEMORY;
            break;
        }
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t j = 0; j < size; j++)
            assert_int_equal(block[j], 0);
        memset(block, i % 251 + 1, size);
    }
    for (int i = 0; i < 400 && status == SAMBA_OK; i++) {
        size_t size = sizes[i % SAMBA_COUNT(sizes)] / (size_t)(1 + i / 20);
        for (size_t j = 0; j < size; j += size / 16 + 1)
            assert_int_equal(kept[i][j], i % 251 + 1);
    }
    if (status == SAMBA_OK) {
        char *text = samba_arena_strdup(&arena, "hello");
        status = text ? SAMBA_OK : SAMBA_ERROR_MEMORY;
        if (text)
            assert_string_equal(text, "hello");
    }
    samba_arena_free(&arena);
    return status;
}

TEST(test_arena)
{
    fail_each_allocation(arena_scenario, NULL);
    failing_allocator counter;
    samba_context *context = counting_context_new(&counter);
    samba_arena arena;
    samba_arena_init(&arena, context);
    assert_null(samba_arena_alloc(&arena, SIZE_MAX - 3));
    assert_null(samba_arena_alloc(&arena, SIZE_MAX / 2));
    samba_arena_free(&arena);
    counting_context_free(context, &counter);
}

static samba_status text_scenario(samba_context *context, void *user)
{
    (void)user;
    samba_text text;
    samba_text_init(&text, context);
    for (int i = 0; i < 300; i++)
        samba_text_add(&text, "%d,", i);
    samba_status status = text.status;
    if (status == SAMBA_OK) {
        assert_int_equal(text.length, 10 * 2 + 90 * 3 + 200 * 4);
        assert_int_equal(strlen(text.data), text.length);
        assert_memory_equal(text.data, "0,1,2,", 6);
    }
    samba_text_clear(&text);
    assert_null(text.data);
    return status;
}

TEST(test_text)
{
    fail_each_allocation(text_scenario, NULL);
}

TEST(test_match)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {{"", "", true},
                 {"", "a", false},
                 {"*", "", true},
                 {"*", "gemm1.weight", true},
                 {"gemm?.weight", "gemm1.weight", true},
                 {"gemm?.weight", "gemm.weight", false},
                 {"*.bias", "gemm1.bias", true},
                 {"*.bias", "gemm1.bias2", false},
                 {"*a*b*c*", "xaybzc", true},
                 {"*a*b*c*", "xaybz", false},
                 {"a*", "a", true},
                 {"?", "", false},
                 {"**x", "aax", true},
                 {"*ab", "aab", true},
                 {"*abc*abd", "abcabcabd", true}};
    for (int i = 0; i < SAMBA_COUNT(cases); i++)
        if (samba_match(cases[i].pattern, cases[i].name) != cases[i].matches)
            fail_msg("%s against %s", cases[i].pattern, cases[i].name);
}

TEST(test_nearest)
{
    static const char *const names[] = {"lr", "momentum", "weight_decay", "gemm1.weight", "gemm2.weight"};
    assert_string_equal(samba_nearest("momentun", names, 5), "momentum");
    assert_string_equal(samba_nearest("weigth_decay", names, 5), "weight_decay");
    assert_string_equal(samba_nearest("LR", names, 5), "lr");
    assert_string_equal(samba_nearest("rl", names, 5), "lr");
    assert_string_equal(samba_nearest("gemm2.wieght", names, 5), "gemm2.weight");
    assert_null(samba_nearest("dropout", names, 5));
    assert_null(samba_nearest("x", names, 5));
    assert_null(samba_nearest("", names, 5));
    assert_null(samba_nearest("lr", names, 0));
    char longer[400];
    memset(longer, 'q', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_null(samba_nearest(longer, names, 5));
    const char *same = longer;
    assert_ptr_equal(samba_nearest(longer, &same, 1), longer);
}

TEST(test_hash)
{
    /* XXH3's published value of no bytes with seed 0: files written today must be readable tomorrow */
    assert_true(samba_hash("", 0, 0) == UINT64_C(0x2D06800538D394C2));
    assert_true(samba_hash("abc", 3, 0) != samba_hash("abc", 3, 1));
    assert_true(samba_hash("abc", 3, 0) != samba_hash("abd", 3, 0));
}

static char folder[] = "/tmp/samba-test-base-XXXXXX";

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

static char *in_folder(char *buffer, size_t size, const char *name)
{
    snprintf(buffer, size, "%s/%s", folder, name);
    return buffer;
}

/* How many entries the folder has: temporary files must not stay. */
static int entries(void)
{
    char command[128];
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *pipe = popen(command, "r");
    int count = -1;
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

static samba_status file_scenario(samba_context *context, void *user)
{
    (void)user;
    char path[256];
    const void *parts[] = {"abc", "", "defg"};
    size_t sizes[] = {3, 0, 4};
    void *data;
    size_t size;
    SAMBA_TRY(samba_make_directories(context, in_folder(path, sizeof path, "a/b//c")));
    SAMBA_TRY(samba_file_write_atomic(context, in_folder(path, sizeof path, "a/b/c/file"), parts, sizes, 3));
    SAMBA_TRY(samba_file_read(context, path, &data, &size));
    assert_int_equal(size, 7);
    assert_memory_equal(data, "abcdefg", 7);
    samba_free(context, data, size);
    return SAMBA_OK;
}

TEST(test_files)
{
    fail_each_allocation(file_scenario, NULL);
    failing_allocator counter;
    samba_context *context = counting_context_new(&counter);
    char path[256], other[256];
    const void *part = "new";
    size_t three = 3, size;
    void *data;

    assert_int_equal(samba_file_read(context, in_folder(path, sizeof path, "missing"), &data, &size), SAMBA_ERROR_FILE);
    assert_non_null(strstr(samba_error_message(context), "missing"));
    assert_non_null(strstr(samba_error_message(context), "No such file"));
    assert_null(data);
    assert_int_equal(samba_file_read(context, folder, &data, &size), SAMBA_ERROR_FILE);
    assert_non_null(strstr(samba_error_message(context), "a directory"));
    assert_int_equal(samba_file_read(context, "/dev/null", &data, &size), SAMBA_ERROR_FILE);

    int before = entries();
    assert_int_equal(samba_file_write_atomic(context, in_folder(path, sizeof path, "no/such/file"), &part, &three, 1),
                     SAMBA_ERROR_FILE);
    assert_int_equal(samba_file_write_atomic(context, folder, &part, &three, 1), SAMBA_ERROR_FILE);
    assert_int_equal(samba_file_write_atomic(context, "/dev/null", &part, &three, 1), SAMBA_ERROR_FILE);
    assert_int_equal(entries(), before);

    /* replacing keeps the mode and follows links */
    need(samba_file_write_atomic(context, in_folder(path, sizeof path, "kept"), &part, &three, 1));
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(symlink(path, in_folder(other, sizeof other, "link")), 0);
    part = "two";
    need(samba_file_write_atomic(context, other, &part, &three, 1));
    struct stat facts;
    assert_int_equal(lstat(other, &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    need(samba_file_read(context, path, &data, &size));
    assert_memory_equal(data, "two", 3);
    samba_free(context, data, size);
    assert_int_equal(entries(), before + 2);

    /* an empty file is a file */
    need(samba_file_write_atomic(context, path, NULL, NULL, 0));
    need(samba_file_read(context, path, &data, &size));
    assert_int_equal(size, 0);
    samba_free(context, data, size);

    char below[300];
    snprintf(below, sizeof below, "%s/below", path);
    assert_int_equal(samba_make_directories(context, below), SAMBA_ERROR_FILE);
    need(samba_make_directories(context, folder));
    counting_context_free(context, &counter);
}

/* A disk that takes only a part: the old content stays and the half-written file is gone. */
TEST(test_full_disk)
{
    failing_allocator counter;
    samba_context *context = counting_context_new(&counter);
    char path[256];
    static const char block[100000];
    const void *part = "good";
    size_t size = 4;
    need(samba_file_write_atomic(context, in_folder(path, sizeof path, "saved"), &part, &size, 1));
    int before = entries();
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 50000, .rlim_max = old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    part = block;
    size = sizeof block;
    samba_status status = samba_file_write_atomic(context, path, &part, &size, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, SAMBA_ERROR_FILE);
    assert_non_null(strstr(samba_error_message(context), "File too large"));
    assert_int_equal(entries(), before);
    void *data;
    need(samba_file_read(context, path, &data, &size));
    assert_int_equal(size, 4);
    assert_memory_equal(data, "good", 4);
    samba_free(context, data, size);
    counting_context_free(context, &counter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),  cmocka_unit_test(test_no_memory_for_a_context),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_checked),
        cmocka_unit_test(test_arena),     cmocka_unit_test(test_text),
        cmocka_unit_test(test_match),     cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_hash),      cmocka_unit_test(test_files),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests_name("base", tests, make_folder, remove_folder);
}
