/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a tokenizer: which of its files a path means, and freeing it. JSON is told from SentencePiece's message by its first
 * byte: an object begins with { or spaces, a message with the mark of its first field. A GGUF file has both files of JSON in its
 * metadata. */
#include "text/read.h"

#include "base/null.h"
#include "gguf/tokenizer.h"
#include <sys/stat.h>

static samba_status begin(samba_context *context, samba_tokenizer **tokenizer)
{
    samba_tokenizer *t = *tokenizer = samba_calloc(context, sizeof *t);
    if (!t)
        return SAMBA_ERROR_MEMORY;
    t->context = context;
    samba_arena_init(&t->arena, context);
    for (int i = 0; i < SAMBA_COUNT(t->special); i++)
        t->special[i] = -1;
    return SAMBA_OK;
}

void samba_tokenizer_free(samba_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    samba_regex_free(tokenizer->regexes);
    samba_arena_free(&tokenizer->arena);
    samba_free(tokenizer->context, tokenizer, sizeof *tokenizer);
}

static samba_status take_gguf(samba_tokenizer *t, const samba_gguf *gguf)
{
    json_t *tokenizer = NULL, *config = NULL;
    samba_status status = samba_gguf_has_tokenizer(gguf)
                              ? samba_gguf_tokenizer_json(gguf, &tokenizer)
                              : samba_fail(t->context, SAMBA_ERROR_FILE, "%s: this GGUF file has no tokenizer", gguf->path);
    if (status == SAMBA_OK)
        status = samba_json_take(t, gguf->path, tokenizer);
    if (status == SAMBA_OK)
        status = samba_gguf_tokenizer_config(gguf, &config);
    if (status == SAMBA_OK)
        samba_specials_take(t, config);
    json_decref(tokenizer);
    json_decref(config);
    return status;
}

static samba_status read_gguf(samba_tokenizer *t, const char *path)
{
    samba_gguf *gguf;
    SAMBA_TRY(samba_gguf_open(t->context, path, &gguf));
    samba_status status = take_gguf(t, gguf);
    samba_gguf_free(gguf);
    return status;
}

static samba_status read_bytes(samba_tokenizer *t, const char *path, const void *data, size_t size)
{
    const char *bytes = data;
    size_t at = 0;
    samba_gguf *gguf;
    if (size >= 4 && memcmp(bytes, "GGUF", 4) == 0) {
        SAMBA_TRY(samba_gguf_open_memory(t->context, path, data, size, &gguf));
        samba_status status = take_gguf(t, gguf);
        samba_gguf_free(gguf);
        return status;
    }
    while (at < size && (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\r'))
        at++;
    if (at < size && (bytes[at] == '{' || bytes[at] == '[' || at > 0))
        return samba_json_open(t, path, data, size);
    if (size > 2 && bytes[0] == '\n' && (bytes[1] == '{' || bytes[1] == ' ' || bytes[1] == '\n'))
        return samba_json_open(t, path, data, size);
    if (size > 2 && bytes[0] == '\n')
        return samba_sentencepiece_open(t, path, data, size);
    return samba_fail(t->context, SAMBA_ERROR_FORMAT,
                      "%s: this is no tokenizer: neither the JSON of a tokenizer.json nor a SentencePiece model nor a GGUF file",
                      path);
}

static samba_status read_file(samba_tokenizer *t, const char *path)
{
    void *data;
    size_t size;
    SAMBA_TRY(samba_file_read(t->context, path, &data, &size));
    samba_status status = read_bytes(t, path, data, size);
    samba_free(t->context, data, size);
    return status;
}

static bool is_there(const char *folder, const char *name, char path[PATH_MAX])
{
    struct stat facts;
    const int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX && stat(path, &facts) == 0;
}

static samba_status read_folder(samba_tokenizer *t, const char *folder)
{
    char path[PATH_MAX];
    if (is_there(folder, "tokenizer.json", path) || is_there(folder, "tokenizer.model", path))
        return read_file(t, path);
    if (is_there(folder, "vocab.json", path) && is_there(folder, "merges.txt", path))
        return samba_gpt2_open(t, folder);
    return samba_fail(t->context, SAMBA_ERROR_FILE,
                      "%s: this folder has no tokenizer: no tokenizer.json, no tokenizer.model, no vocab.json with merges.txt",
                      folder);
}

samba_status samba_tokenizer_open(samba_context *context, const char *path, samba_tokenizer **tokenizer)
{
    struct stat facts;
    samba_tokenizer *made;
    char folder[PATH_MAX];
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tokenizer);
    *tokenizer = NULL;
    SAMBA_NEED(context, path);
    if (strlen(path) >= sizeof folder)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_tokenizer_open: a path of %zu bytes is too long", strlen(path));
    SAMBA_TRY(begin(context, &made));
    const bool is_folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    const bool is_gguf = !is_folder && samba_gguf_is(path);
    samba_status status = is_folder ? read_folder(made, path) : is_gguf ? read_gguf(made, path) : read_file(made, path);
    if (status != SAMBA_OK) {
        samba_tokenizer_free(made);
        return status;
    }
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s",
             is_folder ? (int)strlen(path)
             : slash   ? (int)(slash - path)
                       : 1,
             is_folder || slash ? path : ".");
    if (!is_gguf)
        samba_specials_read(made, slash == path && !is_folder ? "/" : folder);
    samba_specials_guess(made);
    *tokenizer = made;
    return SAMBA_OK;
}

samba_status samba_tokenizer_open_memory(samba_context *context, const void *data, size_t size, samba_tokenizer **tokenizer)
{
    samba_tokenizer *made;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tokenizer);
    *tokenizer = NULL;
    SAMBA_NEED(context, data);
    SAMBA_TRY(begin(context, &made));
    samba_status status = read_bytes(made, "tokenizer", data, size);
    if (status != SAMBA_OK) {
        samba_tokenizer_free(made);
        return status;
    }
    samba_specials_guess(made);
    *tokenizer = made;
    return SAMBA_OK;
}

/* ---- the vocabulary ---- */
int64_t samba_tokenizer_size(const samba_tokenizer *tokenizer) { return tokenizer ? tokenizer->size : 0; }

int32_t samba_tokenizer_id(const samba_tokenizer *tokenizer, const char *token)
{
    if (!tokenizer || !token)
        return -1;
    const int32_t id = samba_vocab_id(&tokenizer->added_vocab, token, strlen(token));
    return id >= 0 ? id : samba_vocab_id(&tokenizer->vocab, token, strlen(token));
}

const char *samba_tokenizer_token(const samba_tokenizer *tokenizer, int32_t id)
{
    const samba_word *word = tokenizer ? samba_tokenizer_word(tokenizer, id) : NULL;
    return word ? word->text : NULL;
}

int32_t samba_tokenizer_special(const samba_tokenizer *tokenizer, samba_special purpose)
{
    if (!tokenizer || (int)purpose < 0 || (int)purpose >= SAMBA_COUNT(tokenizer->special))
        return -1;
    return tokenizer->special[purpose];
}
