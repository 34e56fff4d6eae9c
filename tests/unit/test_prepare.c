/* SPDX-License-Identifier: Apache-2.0
 *
 * Data preparation: a small file's sequences number by number, what is refused, and memory that is refused at each allocation.
 * tests/python/test_prepare.py compares random files and settings with the rules written once more, kills, and fills disks. */
#include "harness.h"
#include "failing_allocator.h"

#include <math.h>
#include <sambaflow/data.h>
#include <sambaflow/prepare.h>
#include <sys/stat.h>

/* Words a and b, <s> around a text's begin, </s> at its end. A ' is a " in the file. */
#define TOKENIZER                                                                                                                \
    "{'added_tokens': [{'id': 3, 'content': '<s>', 'special': true}, {'id': 4, 'content': '</s>', 'special': true}],"            \
    "'pre_tokenizer': {'type': 'Whitespace'}, 'post_processor': {'type': 'TemplateProcessing', 'single':"                        \
    "[{'SpecialToken': {'id': 'B'}}, {'Sequence': {'id': 'A'}}, {'SpecialToken': {'id': 'E'}}], 'special_tokens':"               \
    "{'B': {'id': 'B', 'ids': [3]}, 'E': {'id': 'E', 'ids': [4]}}},"                                                             \
    "'model': {'type': 'WordLevel', 'vocab': {'a': 0, 'b': 1, '!': 2, '<s>': 3, '</s>': 4}, 'unk_token': '!'}}"
#define LINES                                                                                                                    \
    "{'prompt': 'a ', 'completion': '  b b'}\n\n[{'completion': 'a'}, {'completion': ''}, {'prompt': 'b', 'completion': 'a'}]\n" \
    "{'text': 'b'}"

static char input[600], tokenizer[600];

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (; *text; text++)
        fputc(*text == '\'' ? '"' : *text, file);
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state)
{
    char path[700];
    if (harness_begin(state) != 0)
        return -1;
    setenv("SAMBAFLOW_PLUGINS", SAMBA_TEST_PLUGINS, 1);
    snprintf(input, sizeof input, "%s/in.jsonl", folder);
    snprintf(tokenizer, sizeof tokenizer, "%s/model", folder);
    mkdir(tokenizer, 0777);
    write_file(input, LINES);
    snprintf(path, sizeof path, "%s/tokenizer.json", tokenizer);
    write_file(path, TOKENIZER);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", tokenizer);
    write_file(path, "{'bos_token': '<s>', 'eos_token': '</s>'}");
    return 0;
}

static samba_prepare_options small(void)
{
    samba_prepare_options o = samba_prepare_defaults();
    o.max_seq_length = 6;
    o.no_shuffle = true;
    o.num_workers = 1;
    return o;
}

static const char *out_of(int number)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/out%d", folder, number);
    return path;
}

static void expect(const char *out, const char *name, int64_t rows, const int32_t *numbers)
{
    char path[800];
    OWN_TENSOR *tensor = NULL;
    snprintf(path, sizeof path, "%s/train_1_of_1.hdf5", out);
    need(samba_hdf5_read(context, path, name, &tensor));
    assert_int_equal(samba_tensor_dtype(tensor), SAMBA_INT32);
    assert_int_equal(samba_tensor_shape(tensor)[0], rows);
    assert_memory_equal(samba_tensor_data(tensor), numbers, (size_t)samba_tensor_numel(tensor) * sizeof *numbers);
}

TEST(sequences)
{
    samba_prepare_options o = small();
    samba_prepare_result r;
    /* <s> a | b b </s>; <s> a </s>; <s> b | a </s>; <s> b </s> */
    static const int32_t full[] = {3, 0, 1, 1, 4, 3, 0, 4, 3, 1, 0, 4, 3, 1, 4, 4, 4, 4};
    static const int32_t types[] = {0, 0, 1, 1, 3, 1, 1, 1, 0, 0, 1, 3, 1, 1, 3, 2, 2, 2};
    need(samba_prepare(context, input, tokenizer, out_of(1), &o, &r));
    expect(out_of(1), "input_ids", 3, full);
    expect(out_of(1), "token_type_ids", 3, types);
    assert_int_equal(r.articles, 3);
    assert_int_equal(r.train_tokens, 15);
    assert_int_equal(r.max_batch_train, 3);
    o.packing = SAMBA_PACKING_SINGLE_TRUNCATE_LEFT;
    o.packing_boundary = SAMBA_BOUNDARY_PAIR;
    o.max_seq_length = 3;
    static const int32_t single[] = {1, 1, 4, 3, 0, 4, 1, 0, 4, 3, 1, 4};
    need(samba_prepare(context, input, tokenizer, out_of(2), &o, &r));
    expect(out_of(2), "input_ids", 4, single);
    assert_int_equal(r.truncated_units, 2);
}

TEST(refused)
{
    samba_prepare_options o = small();
    o.memory = 1;
    assert_int_equal(samba_prepare(context, input, tokenizer, out_of(3), &o, NULL), SAMBA_ERROR_ARGUMENT);
    o = small();
    o.max_seq_length = 1;
    assert_int_equal(samba_prepare(context, input, tokenizer, out_of(3), &o, NULL), SAMBA_ERROR_ARGUMENT);
    o = small();
    o.struct_size = sizeof o + 8;
    assert_int_equal(samba_prepare(context, input, tokenizer, out_of(3), &o, NULL), SAMBA_ERROR_ARGUMENT);
    o = small();
    assert_int_equal(samba_prepare(context, "nowhere.jsonl", tokenizer, out_of(3), &o, NULL), SAMBA_ERROR_FILE);
    o.dev_ratio = NAN;
    assert_int_equal(samba_prepare(context, input, tokenizer, out_of(3), &o, NULL), SAMBA_ERROR_ARGUMENT);
}

static samba_status prepare_small(samba_context *owner, void *user)
{
    samba_prepare_options o = small();
    o.no_shuffle = false;
    o.num_test_splits = o.num_dev_splits = 1;
    return samba_prepare(owner, input, tokenizer, out_of(100 + (*(int *)user)++), &o, NULL);
}

TEST(without_memory)
{
    int runs = 0;
    fail_each_allocation(prepare_small, &runs);
    assert_true(runs > 20);
}

/* What was interrupted for lack of memory is gone on with. */
TEST(goes_on)
{
    samba_prepare_options o = small();
    for (int64_t number = 0;; number++) {
        failing_allocator refusing;
        samba_context *owner = counting_context_new(&refusing);
        refusing.fail_from = refusing.calls + number;
        refusing.fail_count = 1;
        samba_status status = samba_prepare(owner, input, tokenizer, out_of(4), &o, NULL);
        counting_context_free(owner, &refusing);
        if (status == SAMBA_OK)
            break;
        assert_int_equal(status, SAMBA_ERROR_MEMORY);
    }
    need(samba_prepare(context, input, tokenizer, out_of(5), &o, NULL));
    char command[2048], first[700];
    snprintf(first, sizeof first, "%s", out_of(4));
    snprintf(command, sizeof command, "diff -r '%s' '%s'", first, out_of(5));
    assert_int_equal(system(command), 0);
}

TEST_MAIN_AROUND(begin, harness_end, NULL, NULL, sequences, refused, without_memory, goes_on)
