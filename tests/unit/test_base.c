/* SPDX-License-Identifier: Apache-2.0
 *
 * The base: messages, memory with sizes, arenas, text, names and whole files, and that no failed allocation leaks. */
#include "messages.h"
#include "base/base.h"
#include "failing_allocator.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

TEST(test_messages)
{
    assert_string_equal(samba_error_message(context), "");
    assert_int_equal(samba_fail(context, SAMBA_ERROR_SHAPE, "got %d", 3), SAMBA_ERROR_SHAPE);
    assert_string_equal(samba_error_message(context), "got 3");
    samba_fail(context, SAMBA_ERROR_SHAPE, "layer: %s", samba_error_message(context));
    assert_string_equal(samba_error_message(context), "layer: got 3");
    samba_fail(context, SAMBA_ERROR_NAME, "%3000s", "x");
    assert_int_equal(strlen(samba_error_message(context)), 1023);
    assert_int_equal(samba_error_set(context, SAMBA_ERROR_FILE, "no %s of mine"), SAMBA_ERROR_FILE);
    assert_string_equal(samba_error_message(context), "no %s of mine");
    assert_int_equal(samba_error_set(context, SAMBA_ERROR_FILE, NULL), SAMBA_ERROR_FILE);
    assert_string_equal(samba_error_message(context), "");
    assert_int_equal(samba_error_set(NULL, SAMBA_ERROR_FILE, "x"), SAMBA_ERROR_FILE);
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
    samba_context *made = (samba_context *)&counter;
    assert_int_equal(samba_context_new(&allocator, &made), SAMBA_ERROR_MEMORY);
    assert_null(made);
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

static samba_status arena_scenario(samba_context *owner, void *user)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 900, 5000, 100000, 3000000};
    samba_arena arena;
    unsigned char *kept[400];
    int made = 0;
    samba_arena_init(&arena, owner);
#define SIZE(i) (sizes[(i) % LENGTH(sizes)] / (size_t)(1 + (i) / 20))
    while (made < 400 && (kept[made] = samba_arena_alloc(&arena, SIZE(made)))) {
        assert_int_equal((uintptr_t)kept[made] % 64, 0);
        for (size_t j = 0; j < SIZE(made); j++)
            assert_int_equal(kept[made][j], 0);
        memset(kept[made], made % 251 + 1, SIZE(made));
        made++;
    }
    for (int i = 0; i < made; i++)
        for (size_t j = 0; j < SIZE(i); j += SIZE(i) / 16 + 1)
            assert_int_equal(kept[i][j], i % 251 + 1);
#undef SIZE
    char *text = samba_arena_strdup(&arena, "hello");
    if (text)
        assert_string_equal(text, "hello");
    samba_arena_free(&arena);
    return made == 400 && text ? SAMBA_OK : SAMBA_ERROR_MEMORY;
}

TEST(test_arena)
{
    fail_each_allocation(arena_scenario, NULL);
    samba_arena arena;
    samba_arena_init(&arena, context);
    assert_null(samba_arena_alloc(&arena, SIZE_MAX - 3));
    assert_null(samba_arena_alloc(&arena, SIZE_MAX / 2));
    samba_arena_free(&arena);
}

static samba_status text_scenario(samba_context *owner, void *user)
{
    samba_text text;
    samba_text_init(&text, owner);
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

TEST(test_text) { fail_each_allocation(text_scenario, NULL); }

TEST(test_match)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {{"", "", true},
                 {"*", "", true},
                 {"*", "gemm1.weight", true},
                 {"gemm?.weight", "gemm1.weight", true},
                 {"*.bias", "gemm1.bias", true},
                 {"*a*b*c*", "xaybzc", true},
                 {"a*", "a", true},
                 {"**x", "aax", true},
                 {"*ab", "aab", true},
                 {"*abc*abd", "abcabcabd", true},
                 {"", "a", false},
                 {"gemm?.weight", "gemm.weight", false},
                 {"*.bias", "gemm1.bias2", false},
                 {"*a*b*c*", "xaybz", false},
                 {"?", "", false}};
    for (int i = 0; i < LENGTH(cases); i++)
        if (samba_match(cases[i].pattern, cases[i].name) != cases[i].matches)
            fail_msg("%s against %s", cases[i].pattern, cases[i].name);
}

TEST(test_nearest)
{
    static const char *const names[] = {"lr", "momentum", "weight_decay", "gemm1.weight", "gemm2.weight"};
    static const char *const found[][2] = {{"momentun", "momentum"},
                                           {"weigth_decay", "weight_decay"},
                                           {"LR", "lr"},
                                           {"rl", "lr"},
                                           {"gemm2.wieght", "gemm2.weight"},
                                           {"decay", "weight_decay"},
                                           {"--gemm2", "gemm2.weight"},
                                           {"Weight gemm1", "gemm1.weight"}};
    for (int i = 0; i < LENGTH(found); i++)
        assert_string_equal(samba_nearest(found[i][0], names, 5), found[i][1]);
    char longer[400];
    memset(longer, 'q', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    const char *const far[] = {"dropout", "x", "", longer, "weight", "weight of all", "gem"}, *same = longer;
    for (int i = 0; i < LENGTH(far); i++)
        assert_null(samba_nearest(far[i], names, 5));
    assert_null(samba_nearest("lr", names, 0));
    assert_ptr_equal(samba_nearest(longer, &same, 1), longer);
}

TEST(test_hash)
{
    /* XXH3's published value of no bytes with seed 0: files written today must be readable tomorrow */
    assert_true(samba_hash("", 0, 0) == UINT64_C(0x2D06800538D394C2));
    assert_true(samba_hash("abc", 3, 0) != samba_hash("abc", 3, 1));
    assert_true(samba_hash("abc", 3, 0) != samba_hash("abd", 3, 0));
}

/* How many entries the folder, in which these tests are, has: temporary files must not stay. */
static int entries(void)
{
    FILE *pipe = popen("ls -A | wc -l", "r");
    int count = -1;
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

static void assert_file(const char *path, const char *content)
{
    void *data;
    size_t size;
    need(samba_file_read(context, path, &data, &size));
    assert_int_equal(size, strlen(content));
    assert_memory_equal(data, content, size);
    samba_free(context, data, size);
}

static samba_status write_file(const char *path, const char *content)
{
    const void *part = content;
    size_t size = strlen(content);
    return samba_file_write_atomic(context, path, &part, &size, 1);
}

static samba_status file_scenario(samba_context *owner, void *user)
{
    void *data;
    size_t size;
    SAMBA_TRY(samba_make_directories(owner, "a/b//c"));
    SAMBA_TRY(samba_file_write_atomic(owner, "a/b/c/file", (const void *[]){"abc", "", "defg"}, (size_t[]){3, 0, 4}, 3));
    SAMBA_TRY(samba_file_read(owner, "a/b/c/file", &data, &size));
    assert_int_equal(size, 7);
    assert_memory_equal(data, "abcdefg", 7);
    samba_free(owner, data, size);
    return SAMBA_OK;
}

TEST(test_files)
{
    fail_each_allocation(file_scenario, NULL);
    size_t size;
    void *data;
    says(samba_file_read(context, "missing", &data, &size));
    assert_null(data);
    says(samba_file_read(context, folder, &data, &size));
    says(samba_file_read(context, "/dev/null", &data, &size));
    int before = entries();
    says(write_file("no/such/file", "new"));
    says(write_file(folder, "new"));
    says(write_file("/dev/null", "new"));
    assert_int_equal(entries(), before);

    /* replacing keeps the mode and follows links */
    need(write_file("kept", "new"));
    assert_int_equal(chmod("kept", 0600), 0);
    assert_int_equal(symlink("kept", "link"), 0);
    need(write_file("link", "two"));
    struct stat facts;
    assert_true(lstat("link", &facts) == 0 && S_ISLNK(facts.st_mode));
    assert_true(stat("kept", &facts) == 0 && (facts.st_mode & 07777) == 0600);
    assert_file("kept", "two");
    assert_int_equal(entries(), before + 2);

    need(samba_file_write_atomic(context, "kept", NULL, NULL, 0)); /* an empty file is a file */
    assert_file("kept", "");
    says(samba_make_directories(context, "kept/below"));
    need(samba_make_directories(context, folder));
}

/* A disk that takes only a part: the old content stays and the half-written file is gone. */
TEST(test_full_disk)
{
    char block[100000];
    memset(block, 'x', sizeof block);
    block[sizeof block - 1] = 0;
    need(write_file("saved", "good"));
    int before = entries();
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){50000, old.rlim_max}), 0);
    samba_status status = write_file("saved", block);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    refuse(status, SAMBA_ERROR_FILE, "File too large");
    assert_int_equal(entries(), before);
    assert_file("saved", "good");
}

static int begin(void **state) { return chdir(folder) == 0 ? counting_begin(state) : -1; }

TEST_MAIN_WITH(begin, counting_end, test_messages, test_no_memory_for_a_context, test_memory, test_checked, test_arena, test_text,
               test_match, test_nearest, test_hash, test_files, test_full_disk, every_message_said)
