/* SPDX-License-Identifier: Apache-2.0
 *
 * What a preparation is asked to do: options checked, tokens that have a purpose and categories found, and the fingerprint of all
 * that the result depends on, by which an interrupted preparation knows its own. */
#include "prepare/prepare.h"

#include "gguf/gguf.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

const char *const samba_packing_names[7] = {
    "full",         "greedy::drop",          "greedy::truncate_left", "greedy::truncate_right",
    "single::drop", "single::truncate_left", "single::truncate_right"};
const char *const samba_boundary_names[2] = {"jsonl", "prompt_completion_pair"};
const char *const samba_part_names[SAMBA_PARTS + 1] = {"train", "dev", "test"};
const char *const samba_tokenizer_files[SAMBA_TOKENIZER_FILES] = {
    "tokenizer.json",          "tokenizer.model", "vocab.json",        "merges.txt",         "tokenizer_config.json",
    "special_tokens_map.json", "config.json",     "added_tokens.json", "chat_template.jinja"};

enum { MOST_FILES = 10000 };

samba_prepare_options samba_prepare_defaults(void)
{
    return (samba_prepare_options){.struct_size = sizeof(samba_prepare_options),
                                   .max_seq_length = 2048,
                                   .num_training_splits = 1,
                                   .dev_ratio = -1,
                                   .test_ratio = -1,
                                   .memory = 500000000};
}

static samba_status refuse(samba_preparation *p, const char *words)
{
    return samba_fail(p->context, SAMBA_ERROR_ARGUMENT, "%s", words);
}

static samba_status check_ranges(samba_preparation *p)
{
    const samba_prepare_options *o = &p->o;
    if (o->max_seq_length < 2 || o->max_seq_length > 1 << 20)
        return samba_fail(p->context, SAMBA_ERROR_ARGUMENT, "max_seq_length is %lld: expected 2 to 1048576",
                          (long long)o->max_seq_length);
    if ((int)o->packing < 0 || (int)o->packing > 6 || (int)o->packing_boundary < 0 || (int)o->packing_boundary > 1 ||
        (int)o->attention_boundary < 0 || (int)o->attention_boundary > 1)
        return refuse(p, "the packing, its boundary or the attention boundary is no value of its enum");
    if (o->packing == SAMBA_PACKING_FULL && o->packing_boundary != SAMBA_BOUNDARY_JSONL)
        return refuse(p, "packing_boundary has no effect with the packing full, which cuts anything: leave it out, or take "
                         "greedy or single");
    if (o->num_training_splits < 1 || o->num_training_splits > MOST_FILES || o->num_dev_splits < 0 ||
        o->num_dev_splits > MOST_FILES || o->num_test_splits < 0 || o->num_test_splits > MOST_FILES)
        return refuse(p, "num_training_splits is 1 to 10000, num_dev_splits and num_test_splits 0 to 10000");
    if (!(o->dev_ratio < 1) || !(o->test_ratio < 1) || fmax(o->dev_ratio, 0) + fmax(o->test_ratio, 0) >= 1)
        return refuse(p, "dev_ratio and test_ratio are shares of all articles: each, and their sum, is less than 1");
    if ((o->num_dev_splits > 0 && o->dev_ratio == 0) || (o->num_test_splits > 0 && o->test_ratio == 0))
        return refuse(p, "a part of ratio 0 has no files: leave its number of files out");
    if (o->no_shuffle && o->seed != 0)
        return refuse(p, "seed has no effect without a shuffle: leave one of the two out");
    if (o->num_workers < 0 || o->num_workers > 4096)
        return refuse(p, "num_workers is 0, for as many threads as there are, to 4096");
    if (o->memory < 64 << 20)
        return samba_fail(p->context, SAMBA_ERROR_ARGUMENT, "memory is %lld bytes: expected at least 67108864",
                          (long long)o->memory);
    if (o->vocab_size < 0 || o->vocab_size > INT32_MAX)
        return refuse(p, "vocab_size is 0, for no bound of one's own, to 2147483647");
    return SAMBA_OK;
}

/* Of text nothing has an effect that is about the members of a JSON object. */
static samba_status check_kind(samba_preparation *p)
{
    const samba_prepare_options *o = &p->o;
    p->text = samba_ends_with(p->input, ".txt");
    if (samba_ends_with(p->input, ".parquet"))
        return samba_fail(p->context, SAMBA_ERROR_UNSUPPORTED,
                          "%s: Parquet is read from Python alone, by sambaflow.prepare.prepare with pyarrow: call that, or write "
                          "the rows as .jsonl",
                          p->input);
    if (!p->text && !samba_ends_with(p->input, ".jsonl"))
        return samba_fail(p->context, SAMBA_ERROR_ARGUMENT,
                          "%s: the name must end in .jsonl, for an object or a list of objects a line, or in .txt", p->input);
    if (p->text && (o->prompt_keyword || o->completion_keyword || o->prompt_prefix || o->prompt_postfix ||
                    o->disable_space_separator || o->keep_prompt_only_sequences || o->categories_path))
        return refuse(p, "keywords, prefix and postfix, the space separator, prompt-only sequences and categories are jsonl's: "
                         "they have no effect on a .txt file");
    return SAMBA_OK;
}

/* A part without a ratio has the share of its files in what the ratios leave. */
static void take_ratios(samba_prepare_options *o)
{
    const bool dev = o->dev_ratio >= 0, test = o->test_ratio >= 0;
    const double left = 1 - (dev ? o->dev_ratio : 0) - (test ? o->test_ratio : 0);
    const double files = (double)o->num_training_splits + (dev ? 0 : o->num_dev_splits) + (test ? 0 : o->num_test_splits);
    if (!dev)
        o->dev_ratio = left * o->num_dev_splits / files;
    if (!test)
        o->test_ratio = left * o->num_test_splits / files;
    if (o->dev_ratio > 0 && o->num_dev_splits == 0)
        o->num_dev_splits = 1;
    if (o->test_ratio > 0 && o->num_test_splits == 0)
        o->num_test_splits = 1;
}

static samba_status find_token(samba_preparation *p, const char *given, samba_special purpose, int32_t *id)
{
    *id = given ? samba_tokenizer_id(p->tokenizer, given) : samba_tokenizer_special(p->tokenizer, purpose);
    if (given && *id < 0)
        return samba_fail(p->context, SAMBA_ERROR_NAME, "%s: the tokenizer has no token \"%s\"", p->tokenizer_path, given);
    return SAMBA_OK;
}

void samba_tokenizer_folder(const samba_preparation *p, char path[SAMBA_PREPARE_PATH])
{
    struct stat facts;
    const char *given = p->tokenizer_path, *slash = strrchr(given, '/');
    if (stat(given, &facts) != 0 || S_ISDIR(facts.st_mode) || samba_gguf_is(given)) /* which has all of it in it */
        snprintf(path, SAMBA_PREPARE_PATH, "%.4000s", given);
    else
        snprintf(path, SAMBA_PREPARE_PATH, "%.*s", slash ? slash == given ? 1 : (int)(slash - given) : 1, slash ? given : ".");
}

/* That there is no template matters where a conversation comes. */
static samba_status find_template(samba_preparation *p)
{
    char folder[SAMBA_PREPARE_PATH];
    samba_tokenizer_folder(p, folder);
    samba_status status = p->text ? SAMBA_OK : samba_chat_template_open(p->context, folder, NULL, &p->chat);
    if (status == SAMBA_ERROR_MEMORY)
        return status;
    snprintf(p->chat_reason, sizeof p->chat_reason, "%s", status == SAMBA_OK ? "" : samba_error_message(p->context));
    return SAMBA_OK;
}

/* The model's own size, where its config lies beside the tokenizer. */
static void find_vocab_size(samba_preparation *p)
{
    char path[SAMBA_PREPARE_PATH], folder[SAMBA_PREPARE_PATH];
    samba_tokenizer_folder(p, folder);
    snprintf(path, sizeof path, "%.4000s/config.json", folder);
    json_t *config = json_load_file(path, 0, NULL);
    json_int_t size = json_integer_value(json_object_get(config, "vocab_size"));
    p->vocab_size = p->o.vocab_size ? p->o.vocab_size : size > 0 && size <= INT32_MAX ? size : 0;
    json_decref(config);
}

static samba_status find_tokens(samba_preparation *p)
{
    SAMBA_TRY(samba_tokenizer_open(p->context, p->tokenizer_path, &p->tokenizer));
    SAMBA_TRY(find_token(p, NULL, SAMBA_SPECIAL_BOS, &p->bos));
    SAMBA_TRY(find_token(p, p->o.eos_token, SAMBA_SPECIAL_EOS, &p->eos));
    SAMBA_TRY(find_token(p, p->o.pad_token, SAMBA_SPECIAL_PAD, &p->pad));
    if (p->eos < 0)
        return samba_fail(p->context, SAMBA_ERROR_NAME,
                          "%s: no file says which token ends a text: name it by eos_token (--eos-token)", p->tokenizer_path);
    if (p->pad < 0)
        p->pad = p->eos;
    find_vocab_size(p);
    if (p->vocab_size && (p->eos >= p->vocab_size || p->pad >= p->vocab_size))
        return samba_fail(p->context, SAMBA_ERROR_ARGUMENT,
                          "the tokens that end a text (%d) and pad (%d) are not below the vocabulary's size, %lld", p->eos,
                          p->pad, (long long)p->vocab_size);
    return SAMBA_OK;
}

static samba_status read_categories(samba_preparation *p)
{
    json_error_t error;
    if (!p->o.categories_path)
        return SAMBA_OK;
    json_t *given = json_load_file(p->o.categories_path, 0, &error), *value;
    const char *name;
    size_t i;
    bool fine = json_is_object(given) || json_is_array(given);
    if (!given)
        return samba_fail(p->context, SAMBA_ERROR_FORMAT, "%s: %s (line %d)", p->o.categories_path, error.text, error.line);
    p->categories = json_object();
    json_array_foreach(given, i, value)
    {
        fine &= json_is_string(value) && !json_object_get(p->categories, json_string_value(value));
        if (fine)
            json_object_set_new(p->categories, json_string_value(value), json_integer((json_int_t)i));
    }
    json_object_foreach(given, name, value)
    {
        json_int_t id = json_integer_value(value);
        fine &= json_is_integer(value) && id >= 0 && id <= INT32_MAX;
        json_object_set(p->categories, name, value);
    }
    json_decref(given);
    return fine ? SAMBA_OK
                : samba_fail(p->context, SAMBA_ERROR_FORMAT,
                             "%s: expected a list of different names, or an object of names with their ids, 0 or more",
                             p->o.categories_path);
}

/* The content of a tokenizer's files, as far as they are there. */
static samba_status hash_file(samba_preparation *p, const char *path, uint64_t *hash)
{
    void *data;
    size_t size;
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode))
        return SAMBA_OK;
    SAMBA_TRY(samba_file_read(p->context, path, &data, &size));
    *hash = samba_hash(data, size, *hash + 1);
    samba_free(p->context, data, size);
    return SAMBA_OK;
}

/* Of a GGUF file what stands before its weights, and perhaps some of them. */
static samba_status hash_gguf(samba_preparation *p, const char *path, uint64_t *hash)
{
    samba_gguf *gguf;
    SAMBA_TRY(samba_gguf_open(p->context, path, &gguf));
    *hash = samba_hash(gguf->data, gguf->size, *hash);
    samba_gguf_free(gguf);
    return SAMBA_OK;
}

static samba_status take_fingerprint(samba_preparation *p)
{
    const samba_prepare_options *o = &p->o;
    char path[SAMBA_PREPARE_PATH], folder[SAMBA_PREPARE_PATH];
    struct stat facts;
    uint64_t files = 0;
    samba_tokenizer_folder(p, folder);
    if (stat(p->input, &facts) != 0)
        return samba_prepare_fail(p, "read", p->input);
    p->input_time = (uint64_t)facts.st_mtim.tv_sec * 1000000000u + (uint64_t)facts.st_mtim.tv_nsec;
    SAMBA_TRY((samba_gguf_is(p->tokenizer_path) ? hash_gguf : hash_file)(p, p->tokenizer_path, &files));
    for (int i = 0; i < SAMBA_TOKENIZER_FILES; i++) {
        snprintf(path, sizeof path, "%.4000s/%s", folder, samba_tokenizer_files[i]);
        SAMBA_TRY(hash_file(p, path, &files));
    }
    json_t *all =
        json_pack("[s, b, I, I, i, i, i, s?, s?, s?, s?, b, b, O?, i, i, i, f, f, b, I, b, I, i, i, i]", "sambaflow prepare 1",
                  p->text, (json_int_t)facts.st_size, (json_int_t)o->max_seq_length, (int)o->packing, (int)o->packing_boundary,
                  (int)o->attention_boundary, o->prompt_keyword, o->completion_keyword, o->prompt_prefix, o->prompt_postfix,
                  o->disable_space_separator, o->keep_prompt_only_sequences, p->categories, o->num_training_splits,
                  o->num_dev_splits, o->num_test_splits, o->dev_ratio, o->test_ratio, o->no_shuffle, (json_int_t)o->seed,
                  o->skip_bad, (json_int_t)p->vocab_size, p->bos, p->eos, p->pad);
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(all);
    if (!text)
        return samba_fail(p->context, SAMBA_ERROR_ARGUMENT, "keywords, prefix and postfix are UTF-8: one of those given is not");
    p->fingerprint = samba_hash(text, strlen(text), files);
    free(text);
    return SAMBA_OK;
}

samba_status samba_prepare_settle(samba_preparation *p, const samba_prepare_options *given)
{
    p->o = samba_prepare_defaults();
    if (given)
        SAMBA_TRY(samba_options_take(p->context, "samba_prepare", given, sizeof p->o, &p->o));
    SAMBA_TRY(check_ranges(p));
    SAMBA_TRY(check_kind(p));
    take_ratios(&p->o);
    p->threads = p->o.num_workers;
    SAMBA_TRY(find_tokens(p));
    SAMBA_TRY(find_template(p));
    SAMBA_TRY(read_categories(p));
    return take_fingerprint(p);
}
