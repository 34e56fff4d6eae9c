/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies beside the sequences: test files, the tokenizer, metadata.yaml, and checksums.txt, the last to appear, which says
 * that all the others are there. Checksums are XXH3's of 64 bits. */
#include "prepare/prepare.h"

#include "gguf/tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

const char *const samba_result_names[SAMBA_RESULT_COUNTS] = {
    "articles",     "bad_lines",  "train_articles",    "dev_articles",  "test_articles",   "train_sequences",     "dev_sequences",
    "train_tokens", "dev_tokens", "dropped_sequences", "dropped_units", "truncated_units", "max_batch_size_train"};

int64_t *samba_result_at(samba_prepare_result *r, int i)
{
    int64_t *const all[SAMBA_RESULT_COUNTS] = {&r->articles,       &r->bad_lines,         &r->train_articles, &r->dev_articles,
                                               &r->test_articles,  &r->train_sequences,   &r->dev_sequences,  &r->train_tokens,
                                               &r->dev_tokens,     &r->dropped_sequences, &r->dropped_units,  &r->truncated_units,
                                               &r->max_batch_train};
    return all[i];
}

void samba_prepare_count(samba_preparation *p, samba_prepare_result *r)
{
    const samba_packer *train = &p->packers[SAMBA_TRAIN], *dev = &p->packers[SAMBA_DEV];
    *r = (samba_prepare_result){.articles = p->articles_total,
                                .bad_lines = p->bad_lines,
                                .train_articles = p->part_articles[0],
                                .dev_articles = p->part_articles[1],
                                .test_articles = p->part_articles[2],
                                .train_sequences = train->sequences,
                                .dev_sequences = dev->sequences,
                                .train_tokens = train->tokens,
                                .dev_tokens = dev->tokens,
                                .dropped_sequences = train->dropped_sequences + dev->dropped_sequences,
                                .dropped_units = train->dropped_units + dev->dropped_units,
                                .truncated_units = train->truncated_units + dev->truncated_units,
                                .max_batch_train = train->sequences / p->o.num_training_splits,
                                .max_batch_dev = p->o.num_dev_splits ? dev->sequences / p->o.num_dev_splits : 0};
}

/* ---- files ---- */
static void test_name(const samba_preparation *p, int i, char *name, size_t size)
{
    snprintf(name, size, "test_%d_of_%d.%s", i, p->o.num_test_splits, p->text ? "txt" : "jsonl");
}

static samba_status finish_tests(samba_preparation *p)
{
    char name[64], made[SAMBA_PREPARE_PATH], path[SAMBA_PREPARE_PATH];
    for (int i = 1; i <= p->o.num_test_splits; i++) {
        test_name(p, i, name, sizeof name);
        snprintf(path, sizeof path, "%.4000s/%s", p->output, name);
        samba_prepare_path(p, made, "test_%d", i);
        if (access(path, F_OK) == 0)
            continue;
        if (access(made, F_OK) != 0)
            SAMBA_TRY(samba_file_write_atomic(p->context, path, NULL, NULL, 0));
        else if (rename(made, path) != 0)
            return samba_prepare_fail(p, "write", path);
    }
    return SAMBA_OK;
}

static samba_status copy_file(samba_preparation *p, const char *from, const char *name)
{
    char path[SAMBA_PREPARE_PATH];
    struct stat facts;
    void *data;
    size_t size;
    if (stat(from, &facts) != 0 || !S_ISREG(facts.st_mode))
        return SAMBA_OK;
    snprintf(path, sizeof path, "%.4000s/tokenizer/%.200s", p->output, name);
    SAMBA_TRY(samba_file_read(p->context, from, &data, &size));
    samba_status status = samba_file_write_atomic(p->context, path, (const void *[]){data}, &size, 1);
    samba_free(p->context, data, size);
    return status;
}

static samba_status write_text(samba_preparation *p, samba_text *text, const char *name)
{
    char path[SAMBA_PREPARE_PATH];
    snprintf(path, sizeof path, "%.4000s/%s", p->output, name);
    if (text->status != SAMBA_OK)
        return text->status;
    return samba_file_write_atomic(p->context, path, (const void *[]){text->data}, (const size_t[]){(size_t)text->length}, 1);
}

static samba_status write_json(samba_preparation *p, const json_t *json, const char *name)
{
    samba_text text;
    char *words = json_dumps(json, JSON_INDENT(2));
    if (!words)
        return samba_fail(p->context, SAMBA_ERROR_MEMORY, "no memory for %s", name);
    samba_text_init(&text, p->context);
    samba_text_add(&text, "%s\n", words);
    free(words);
    samba_status status = write_text(p, &text, name);
    samba_text_clear(&text);
    return status;
}

/* A GGUF file's tokenizer as the files of a folder, without the weights. */
static samba_status write_gguf(samba_preparation *p)
{
    samba_gguf *gguf;
    json_t *tokenizer = NULL, *config = NULL;
    SAMBA_TRY(samba_gguf_open(p->context, p->tokenizer_path, &gguf));
    samba_status status = samba_gguf_tokenizer_json(gguf, &tokenizer);
    if (status == SAMBA_OK)
        status = samba_gguf_tokenizer_config(gguf, &config);
    if (status == SAMBA_OK)
        status = write_json(p, tokenizer, "tokenizer/tokenizer.json");
    if (status == SAMBA_OK)
        status = write_json(p, config, "tokenizer/tokenizer_config.json");
    json_decref(tokenizer);
    json_decref(config);
    samba_gguf_free(gguf);
    return status;
}

static samba_status copy_tokenizer(samba_preparation *p)
{
    char path[SAMBA_PREPARE_PATH], folder[SAMBA_PREPARE_PATH];
    const char *slash = strrchr(p->tokenizer_path, '/');
    samba_tokenizer_folder(p, folder);
    snprintf(path, sizeof path, "%.4000s/tokenizer", p->output);
    SAMBA_TRY(samba_make_directories(p->context, path));
    if (samba_gguf_is(p->tokenizer_path))
        return write_gguf(p);
    SAMBA_TRY(copy_file(p, p->tokenizer_path, slash ? slash + 1 : p->tokenizer_path));
    for (int i = 0; i < SAMBA_TOKENIZER_FILES; i++) {
        snprintf(path, sizeof path, "%.4000s/%s", folder, samba_tokenizer_files[i]);
        SAMBA_TRY(copy_file(p, path, samba_tokenizer_files[i]));
    }
    return SAMBA_OK;
}

static samba_status write_metadata(samba_preparation *p, samba_prepare_result *r)
{
    samba_text text;
    samba_text_init(&text, p->context);
    samba_text_add(&text, "max_seq_length: %lld\ntoken_type_ids: true\ncategory_ids: %s\n", (long long)p->o.max_seq_length,
                   p->categories ? "true" : "false");
    samba_text_add(&text, "vocab_size: %lld\neos_token_id: %d\npad_token_id: %d\n",
                   (long long)(p->vocab_size ? p->vocab_size : samba_tokenizer_size(p->tokenizer)), p->eos, p->pad);
    samba_text_add(&text, "input_packing_config: \"%s\"\npacking_boundary: %s\nattention_boundary: %s\n",
                   samba_packing_names[p->o.packing], samba_boundary_names[p->o.packing_boundary],
                   samba_boundary_names[p->o.attention_boundary]);
    samba_text_add(&text, "shuffled: %s\nseed: %llu\n", p->o.no_shuffle ? "false" : "true", (unsigned long long)p->o.seed);
    samba_text_add(&text, "number_of_training_files: %d\nnumber_of_dev_files: %d\nnumber_of_test_files: %d\n",
                   p->o.num_training_splits, p->o.num_dev_splits, p->o.num_test_splits);
    for (int i = 0; i < SAMBA_RESULT_COUNTS; i++)
        samba_text_add(&text, "%s: %lld\n", samba_result_names[i], (long long)*samba_result_at(r, i));
    samba_text_add(&text, "max_batch_size_dev: %lld\nfingerprint: \"%016llx\"\n", (long long)r->max_batch_dev,
                   (unsigned long long)p->fingerprint);
    samba_status status = write_text(p, &text, "metadata.yaml");
    samba_text_clear(&text);
    return status;
}

/* ---- checksums ---- */
static samba_status add_checksum(samba_preparation *p, samba_text *text, const char *name)
{
    char path[SAMBA_PREPARE_PATH];
    const size_t most = (size_t)1 << 20;
    snprintf(path, sizeof path, "%.4000s/%s", p->output, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? SAMBA_OK : samba_prepare_fail(p, "read", path);
    char *block = samba_alloc(p->context, most);
    XXH3_state_t *state = samba_alloc(p->context, sizeof *state);
    samba_status status = block && state ? SAMBA_OK : SAMBA_ERROR_MEMORY;
    if (status == SAMBA_OK)
        XXH3_64bits_reset(state);
    for (ssize_t got = 1; got != 0 && status == SAMBA_OK;) {
        got = read(file, block, most);
        if (got > 0)
            XXH3_64bits_update(state, block, (size_t)got);
        else if (got < 0 && errno != EINTR)
            status = samba_prepare_fail(p, "read", path);
    }
    if (status == SAMBA_OK)
        samba_text_add(text, "XXH3_%016llx  %s\n", (unsigned long long)XXH3_64bits_digest(state), name);
    samba_free(p->context, block, most);
    samba_free(p->context, state, sizeof *state);
    (void)close(file);
    return status;
}

static samba_status add_checksums(samba_preparation *p, samba_text *text)
{
    char name[320];
    const int files[] = {p->o.num_training_splits, p->o.num_dev_splits};
    const char *slash = strrchr(p->tokenizer_path, '/'), *own = slash ? slash + 1 : p->tokenizer_path;
    bool listed = false;
    for (int part = 0; part < SAMBA_PARTS; part++)
        for (int i = 1; i <= files[part]; i++) {
            snprintf(name, sizeof name, "%s_%d_of_%d.hdf5", samba_part_names[part], i, files[part]);
            SAMBA_TRY(add_checksum(p, text, name));
        }
    for (int i = 1; i <= p->o.num_test_splits; i++) {
        test_name(p, i, name, sizeof name);
        SAMBA_TRY(add_checksum(p, text, name));
    }
    for (int i = 0; i < SAMBA_TOKENIZER_FILES; i++) {
        listed |= strcmp(own, samba_tokenizer_files[i]) == 0;
        snprintf(name, sizeof name, "tokenizer/%s", samba_tokenizer_files[i]);
        SAMBA_TRY(add_checksum(p, text, name));
    }
    snprintf(name, sizeof name, "tokenizer/%.200s", own);
    struct stat facts;
    if (!listed && stat(p->tokenizer_path, &facts) == 0 && S_ISREG(facts.st_mode))
        SAMBA_TRY(add_checksum(p, text, name));
    return add_checksum(p, text, "metadata.yaml");
}

samba_status samba_prepare_finish(samba_preparation *p, samba_prepare_result *result)
{
    samba_text text;
    SAMBA_TRY(finish_tests(p));
    SAMBA_TRY(copy_tokenizer(p));
    SAMBA_TRY(write_metadata(p, result));
    samba_text_init(&text, p->context);
    samba_status status = add_checksums(p, &text);
    if (status == SAMBA_OK)
        status = write_text(p, &text, "checksums.txt");
    samba_text_clear(&text);
    return status;
}
