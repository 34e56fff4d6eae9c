/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a GGUF file: its header; where that is read, each value of the metadata, each tensor's bytes as numbers, the
 * config.json of the metadata, the tokenizer and its special tokens. Memory is counted: a small multiple of the file's bytes,
 * whatever the header claims. */
#include "files.h"
#include "gguf/tokenizer.h"
#include "lm/gguf.h"

#include <stdio.h>
#include <stdlib.h>

static void stop(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static int64_t look(const samba_gguf_value *value, int depth)
{
    char shown[SAMBA_GGUF_SHOWN];
    samba_gguf_value element;
    size_t at = 0;
    int64_t sum = (int64_t)strlen(samba_gguf_shown(value, shown));
    for (size_t i = 0; i < value->size; i++)
        sum += value->data[i];
    if (value->kind != SAMBA_GGUF_ARRAY)
        return sum;
    int64_t count = 0;
    for (; samba_gguf_next(value, &at, &element); count++)
        sum += depth < 8 ? look(&element, depth + 1) : 0;
    if (value->size > 0 && count != value->count)
        stop("an array has another number of elements than it says");
    return sum;
}

static void read_tensor(samba_context *context, const samba_gguf *gguf, const samba_gguf_tensor *tensor)
{
    char *bytes = samba_alloc(context, (size_t)tensor->bytes);
    float *values = malloc((size_t)tensor->elements * sizeof *values);
    if (!bytes || !values)
        stop("no memory for a tensor whose bytes are there");
    if (samba_gguf_tensor_bytes(gguf, tensor, bytes) != SAMBA_OK)
        stop("a tensor's bytes are not there");
    samba_gguf_dequantize(tensor->type, bytes, tensor->elements, values);
    free(values);
    samba_free(context, bytes, (size_t)tensor->bytes);
}

/* What is refused has a sentence. */
static bool fine(samba_context *context, samba_status status)
{
    if (status != SAMBA_OK && !samba_error_message(context)[0])
        stop("a file is refused without a word");
    return status == SAMBA_OK;
}

static void use(samba_context *context, const samba_gguf *gguf)
{
    const samba_lm_gguf_kind *kind;
    json_t *json = NULL;
    int64_t sum = 0;
    for (int64_t i = 0; i < gguf->entry_count; i++)
        sum += look(&gguf->entries[i].value, 0) + (samba_gguf_find(gguf, gguf->entries[i].key) == NULL);
    for (int64_t i = 0; i < gguf->tensor_count; i++)
        read_tensor(context, gguf, &gguf->tensors[i]);
    if (fine(context, samba_lm_gguf_config(gguf, &kind, &json)) && sum != INT64_MAX)
        json_decref(json);
    if (fine(context, samba_gguf_tokenizer_json(gguf, &json)))
        json_decref(json);
    if (fine(context, samba_gguf_tokenizer_config(gguf, &json)))
        json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const samba_allocator allocator = {samba_fuzz_count, NULL};
    samba_context *context;
    samba_gguf *gguf;
    samba_fuzz_live = samba_fuzz_most = 0;
    if (samba_context_new(&allocator, &context) != SAMBA_OK)
        abort();
    const bool opened = fine(context, samba_gguf_open_memory(context, "file", data, size, &gguf));
    if (samba_fuzz_most > 64 * size + (1 << 20)) {
        fprintf(stderr, "opening %zu bytes took %zu\n", size, samba_fuzz_most);
        abort();
    }
    samba_fuzz_accepted += opened;
    if (opened)
        use(context, gguf);
    if (opened)
        samba_gguf_free(gguf);
    samba_context_free(context);
    if (samba_fuzz_live != 0)
        stop("bytes are left");
    return 0;
}

/* A number of the header, 4 or 8 bytes long, becomes an odd one; or any bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static const uint64_t odd[] = {0,          1,          2,          8,          9,          13,         31,         0x7fffffff,
                                   0x80000000, 0xffffffff, 1ull << 32, 1ull << 40, 1ull << 62, 1ull << 63, ~0ull >> 1, ~0ull};
    uint64_t state = seed;
    if (size < 40 || samba_fuzz_next(&state) % 2 == 0)
        return LLVMFuzzerMutate(data, size, room);
    const size_t bytes = samba_fuzz_next(&state) % 2 ? 8 : 4;
    const size_t at =
        samba_fuzz_next(&state) % 4 == 0 ? 8 + samba_fuzz_next(&state) % 2 * 8 : samba_fuzz_next(&state) % (size - 8);
    uint64_t number = odd[samba_fuzz_next(&state) % (sizeof odd / sizeof *odd)];
    if (samba_fuzz_next(&state) % 3 == 0)
        number = size - samba_fuzz_next(&state) % 64;
    for (size_t i = 0; i < bytes; i++)
        data[at + i] = (uint8_t)(number >> 8 * i);
    return size;
}

/* Those of corpus/gguf are small models of several architectures and types, made by the package gguf (gguf_models.py). */
void samba_fuzz_seeds(const char *folder) { (void)folder; }
