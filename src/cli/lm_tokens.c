/* SPDX-License-Identifier: Apache-2.0
 *
 * A text as sequences: the tokens of all of it, with those that the tokenizer puts around a text, cut every `length` tokens. The
 * last sequence is filled up with padding. The text is one article. */
#include "cli/lm.h"
#include <sambaflow/text.h>

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static samba_status cut(samba_context *context, const samba_token_list *list, int64_t length, int32_t padding,
                        samba_lm_file *file)
{
    const int64_t rows = (list->count + length - 1) / length, shape[] = {rows, length};
    if (list->count < 2)
        return samba_fail(context, SAMBA_ERROR_FORMAT,
                          "%s: the text has %lld tokens, and a token is learned from those before it", file->path,
                          (long long)list->count);
    SAMBA_TRY(samba_tensor_new(context, "input_ids", SAMBA_INT32, 2, shape, &file->ids));
    SAMBA_TRY(samba_tensor_new(context, "token_type_ids", SAMBA_INT8, 2, shape, &file->types));
    int32_t *ids = samba_tensor_data(file->ids);
    int8_t *types = samba_tensor_data(file->types);
    memcpy(ids, list->ids, (size_t)list->count * sizeof *ids);
    memset(types, SAMBA_LM_COMPLETION, (size_t)list->count);
    for (int64_t i = list->count; i < rows * length; i++) {
        ids[i] = padding;
        types[i] = SAMBA_LM_PADDING;
    }
    file->count = rows;
    return SAMBA_OK;
}

static samba_status tokenize(samba_context *context, const samba_tokenizer *tokenizer, const char *path, samba_token_list *list)
{
    void *text;
    size_t size;
    SAMBA_TRY(samba_file_read(context, path, &text, &size));
    samba_status status = samba_tokenizer_encode(context, tokenizer, text, size, true, list);
    samba_free(context, text, size);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* Whether the folder has a file that a tokenizer is read from. */
static samba_status find_tokenizer(samba_context *context, const char *folder, const char *text)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json"};
    bool there = false;
    for (int i = 0; i < SAMBA_COUNT(names) && !there; i++) {
        samba_text path;
        samba_status status = samba_text_begin(&path, context, "%s/%s", folder, names[i]);
        there = status == SAMBA_OK && access(path.data, F_OK) == 0;
        samba_text_clear(&path);
        SAMBA_TRY(status);
    }
    return there ? SAMBA_OK
                 : samba_fail(context, SAMBA_ERROR_FILE,
                              "--data '%s' is a text, and the folder '%s' has no tokenizer (tokenizer.json, tokenizer.model, or "
                              "vocab.json with merges.txt) to make tokens of it: put one there, or give tokens",
                              text, folder);
}

samba_status samba_lm_text_read(samba_context *context, const char *path, const char *model, int64_t length, samba_lm_file *file)
{
    samba_tokenizer *tokenizer;
    samba_token_list list = {0};
    if (is_folder(model))
        SAMBA_TRY(find_tokenizer(context, model, path));
    SAMBA_TRY(samba_tokenizer_open(context, model, &tokenizer));
    samba_status status = tokenize(context, tokenizer, path, &list);
    if (status == SAMBA_OK) {
        const int32_t padding = samba_tokenizer_special(tokenizer, SAMBA_SPECIAL_PAD);
        status = cut(context, &list, length, padding >= 0 ? padding : 0, file);
    }
    samba_token_list_free(context, &list);
    samba_tokenizer_free(tokenizer);
    return status;
}
