/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF files: a header made byte by byte is read as it was meant; cut at each byte, with each byte another one, with counts,
 * sizes and places that contradict each other it is refused with what is wrong; what is written is read again; a model whose
 * metadata or tensors do not fit is refused by the key or the tensor; and with no memory nothing is left.
 * tests/python/test_lm_gguf.py compares values and models with other implementations. */
#include "failing_allocator.h"
#include "gguf/tokenizer.h"
#include "gguf/write.h"
#include <sambaflow/lm.h>
#include <sambaflow/text.h>

/* ---- files, byte by byte ---- */

typedef struct bytes {
    char data[4096];
    size_t size;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    assert_true(b->size + size <= sizeof b->data);
    memcpy(b->data + b->size, data, size);
    b->size += size;
}
static void put32(bytes *b, uint32_t value) { put(b, &value, sizeof value); }
static void put64(bytes *b, uint64_t value) { put(b, &value, sizeof value); }
static void put_text(bytes *b, const char *text)
{
    put64(b, strlen(text));
    put(b, text, strlen(text));
}
static void key(bytes *b, const char *name, uint32_t kind)
{
    put_text(b, name);
    put32(b, kind);
}
static void head(bytes *b, uint32_t version, uint64_t tensors, uint64_t entries)
{
    b->size = 0;
    put(b, "GGUF", 4);
    put32(b, version);
    put64(b, tensors);
    put64(b, entries);
}
static void name_tensor(bytes *b, const char *name, uint64_t columns, uint64_t rows, uint32_t type, uint64_t offset)
{
    put_text(b, name);
    put32(b, 2);
    put64(b, columns);
    put64(b, rows);
    put32(b, type);
    put64(b, offset);
}
static void pad(bytes *b, size_t data)
{
    while (b->size % 32 != 0)
        put(b, "", 1);
    for (size_t i = 0; i < data; i++)
        put(b, "\1", 1);
}

static samba_status open_bytes(const bytes *b)
{
    samba_gguf *gguf = NULL;
    char *own = malloc(b->size ? b->size : 1);
    memcpy(own, b->data, b->size);
    samba_status status = samba_gguf_open_memory(context, "file", own, b->size, &gguf);
    assert_int_equal(status == SAMBA_OK, gguf != NULL);
    samba_gguf_free(gguf);
    free(own);
    return status;
}

/* Values of all kinds, two tensors. */
static void whole(bytes *b)
{
    head(b, 3, 2, 6);
    key(b, "general.alignment", SAMBA_GGUF_UINT32);
    put32(b, 32);
    key(b, "a.flag", SAMBA_GGUF_BOOL);
    put(b, "\1", 1);
    key(b, "a.number", SAMBA_GGUF_FLOAT64);
    put(b, &(double){0.1}, 8);
    key(b, "a.small", SAMBA_GGUF_INT8);
    put(b, "\xfe", 1);
    key(b, "a.texts", SAMBA_GGUF_ARRAY);
    put32(b, SAMBA_GGUF_STRING);
    put64(b, 2);
    put_text(b, "one");
    put_text(b, "");
    key(b, "a.lists", SAMBA_GGUF_ARRAY);
    put32(b, SAMBA_GGUF_ARRAY);
    put64(b, 2);
    for (uint64_t i = 1; i < 3; i++) {
        put32(b, SAMBA_GGUF_UINT16);
        put64(b, i);
        put(b, "\5\0\6\0", 2 * i);
    }
    name_tensor(b, "x", 2, 3, SAMBA_GGUF_F32, 0);
    name_tensor(b, "y", 32, 1, SAMBA_GGUF_Q8_0, 32);
    pad(b, 32 + 34);
}

TEST(test_read)
{
    bytes b;
    samba_gguf *g;
    samba_gguf_value element, inner;
    double number = 0;
    int64_t integer = 0;
    bool flag = false;
    size_t at = 0, inside = 0;
    char shown[SAMBA_GGUF_SHOWN];
    whole(&b);
    need(samba_gguf_open_memory(context, "file", b.data, b.size, &g));
    assert_true(samba_gguf_flag(samba_gguf_find(g, "a.flag"), &flag) && flag);
    assert_true(samba_gguf_number(samba_gguf_find(g, "a.number"), &number) && number == 0.1);
    assert_true(samba_gguf_integer(samba_gguf_find(g, "a.small"), &integer) && integer == -2);
    assert_false(samba_gguf_integer(samba_gguf_find(g, "a.number"), &integer));
    assert_false(samba_gguf_flag(samba_gguf_find(g, "a.small"), &flag));
    assert_null(samba_gguf_find(g, "a"));
    const samba_gguf_value *texts = samba_gguf_find(g, "a.texts"), *lists = samba_gguf_find(g, "a.lists");
    assert_true(samba_gguf_next(texts, &at, &element) && samba_gguf_is_text(&element, "one"));
    assert_true(samba_gguf_next(texts, &at, &element) && samba_gguf_is_text(&element, ""));
    assert_false(samba_gguf_next(texts, &at, &element));
    at = 0;
    assert_true(samba_gguf_next(lists, &at, &element) && element.count == 1);
    assert_true(samba_gguf_next(lists, &at, &element) && element.count == 2);
    assert_true(samba_gguf_next(&element, &inside, &inner) && samba_gguf_integer(&inner, &integer) && integer == 5);
    assert_true(samba_gguf_next(&element, &inside, &inner) && samba_gguf_integer(&inner, &integer) && integer == 6);
    assert_false(samba_gguf_next(lists, &at, &element));
    assert_string_equal(samba_gguf_shown(lists, shown), "an array of 2");
    const samba_gguf_tensor *x = samba_gguf_tensor_find(g, "x"), *y = samba_gguf_tensor_find(g, "y");
    assert_null(samba_gguf_tensor_find(g, "z"));
    assert_true(x->rank == 2 && x->shape[0] == 3 && x->shape[1] == 2 && x->bytes == 24 && x->elements == 6);
    char blocks[34];
    float values[32];
    need(samba_gguf_tensor_bytes(g, y, blocks));
    samba_gguf_dequantize(y->type, blocks, 32, values);
    assert_true(values[0] == (float)(257 * 0x1p-24) && values[31] == values[0]); /* 1 times the float16 of 01 01 */
    samba_gguf_free(g);
    b.data[4] = 2; /* version 2 is read alike */
    need(open_bytes(&b));
}

TEST(test_cut)
{
    bytes b;
    whole(&b);
    need(open_bytes(&b));
    const size_t size = b.size;
    for (b.size = 0; b.size < size; b.size++) {
        assert_int_equal(open_bytes(&b), SAMBA_ERROR_FORMAT);
        assert_non_null(strstr(samba_error_message(context), "file: "));
    }
    for (size_t i = 0; i < size; i++)
        for (int k = 0; k < 255; k += 1 + (i > 40 ? 16 : 0)) {
            whole(&b);
            b.data[i] = (char)(b.data[i] + 1 + k);
            if (open_bytes(&b) != SAMBA_OK)
                assert_non_null(strstr(samba_error_message(context), "file: "));
        }
}

/* A file of one value and perhaps tensors. */
#define ONE(...)                                                                                                                 \
    do {                                                                                                                         \
        bytes *b = &file;                                                                                                        \
        __VA_ARGS__;                                                                                                             \
    } while (0)
static const samba_status FORMAT = SAMBA_ERROR_FORMAT, UNSUPPORTED = SAMBA_ERROR_UNSUPPORTED;

TEST(test_headers)
{
    bytes file;
    ONE(whole(b), b->data[0] = 'H');
    refuse(open_bytes(&file), FORMAT, "this is no GGUF file");
    ONE(head(b, 1, 0, 0));
    refuse(open_bytes(&file), UNSUPPORTED, "version 1 of GGUF: supported are 2 and 3");
    ONE(head(b, 4, 0, 0));
    refuse(open_bytes(&file), UNSUPPORTED, "version 4 of GGUF");
    ONE(head(b, 0x03000000, 0, 0));
    refuse(open_bytes(&file), UNSUPPORTED, "a big-endian GGUF file");
    ONE(head(b, 3, 0, 0));
    need(open_bytes(&file));
    static const uint64_t absurd[] = {1, 1000, INT32_MAX, UINT32_MAX, 1ull << 40, 1ull << 63, UINT64_MAX};
    for (int i = 0; i < LENGTH(absurd); i++) {
        const char *words = i > 0 ? "than the file has bytes for" : ""; /* one entry might be there, if the file went on */
        ONE(head(b, 3, absurd[i], 0));
        refuse(open_bytes(&file), FORMAT, words);
        ONE(head(b, 3, 0, absurd[i]));
        refuse(open_bytes(&file), FORMAT, words);
        ONE(head(b, 3, 0, 1), key(b, "k", SAMBA_GGUF_STRING), put64(b, absurd[i]));
        refuse(open_bytes(&file), FORMAT, "the file ends within its header");
        ONE(head(b, 3, 0, 1), put64(b, absurd[i] + 20));
        assert_int_equal(open_bytes(&file), FORMAT);
        ONE(head(b, 3, 0, 1), key(b, "k", SAMBA_GGUF_ARRAY), put32(b, SAMBA_GGUF_FLOAT64), put64(b, absurd[i]));
        assert_int_equal(open_bytes(&file), FORMAT);
        ONE(head(b, 3, 0, 1), key(b, "k", SAMBA_GGUF_ARRAY), put32(b, SAMBA_GGUF_STRING), put64(b, absurd[i]));
        assert_int_equal(open_bytes(&file), FORMAT);
    }
    ONE(head(b, 3, 0, 1), key(b, "long enough for it", 13));
    refuse(open_bytes(&file), FORMAT, "a value of type 13, where types are numbered 0 to 12");
    ONE(head(b, 3, 0, 1), key(b, "k", SAMBA_GGUF_BOOL), put(b, "\2", 1));
    refuse(open_bytes(&file), FORMAT, "neither 0 nor 1");
    ONE(head(b, 3, 0, 1), key(b, "", SAMBA_GGUF_UINT64), put64(b, 1));
    refuse(open_bytes(&file), FORMAT, "a name in the header is empty");
    ONE(head(b, 3, 0, 2), key(b, "k", SAMBA_GGUF_UINT64), put64(b, 1), key(b, "k", SAMBA_GGUF_UINT64), put64(b, 1));
    refuse(open_bytes(&file), FORMAT, "\"k\" is there twice");
    ONE(head(b, 3, 0, 1), key(b, "k", SAMBA_GGUF_ARRAY));
    for (int i = 0; i < 9; i++)
        put32(&file, SAMBA_GGUF_ARRAY), put64(&file, 1);
    refuse(open_bytes(&file), UNSUPPORTED, "arrays within arrays, 5 deep");
    static const uint32_t alignments[] = {0, 12, 1u << 30};
    for (int i = 0; i < LENGTH(alignments); i++) {
        ONE(head(b, 3, 0, 1), key(b, "general.alignment", SAMBA_GGUF_UINT32), put32(b, alignments[i]));
        refuse(open_bytes(&file), FORMAT, "\"general.alignment\" is ");
    }
}

TEST(test_tensors)
{
    bytes file;
    ONE(head(b, 3, 1, 0), name_tensor(b, "x", 2, 3, SAMBA_GGUF_F32, 0), pad(b, 24));
    need(open_bytes(&file));
    file.size--;
    refuse(open_bytes(&file), FORMAT, "tensor \"x\" lies behind the end of the file");
    static const uint64_t far[] = {32, 1ull << 40, 1ull << 62, INT64_MAX - 31, UINT64_MAX - 31};
    for (int i = 0; i < LENGTH(far); i++) {
        ONE(head(b, 3, 1, 0), name_tensor(b, "x", 2, 3, SAMBA_GGUF_F32, far[i]), pad(b, 24));
        assert_int_equal(open_bytes(&file), FORMAT);
        assert_non_null(strstr(samba_error_message(context), "tensor \"x\" "));
    }
    ONE(head(b, 3, 1, 0), name_tensor(b, "x", 2, 3, SAMBA_GGUF_F32, 8), pad(b, 64));
    refuse(open_bytes(&file), FORMAT, "does not lie at a multiple of the alignment");
    ONE(head(b, 3, 2, 0), name_tensor(b, "x", 2, 8, 0, 0), name_tensor(b, "y", 2, 3, 0, 32), pad(b, 64));
    refuse(open_bytes(&file), FORMAT, "tensor \"y\" lies over another one");
    ONE(head(b, 3, 2, 0), name_tensor(b, "x", 2, 3, 0, 0), name_tensor(b, "x", 2, 3, 0, 32), pad(b, 64));
    refuse(open_bytes(&file), FORMAT, "\"x\" is there twice");
    ONE(head(b, 3, 1, 0), name_tensor(b, "x", 2, 0, SAMBA_GGUF_F32, 0), pad(b, 24));
    refuse(open_bytes(&file), FORMAT, "has a size of 0");
    ONE(head(b, 3, 1, 0), name_tensor(b, "x", 1ull << 40, 1ull << 40, SAMBA_GGUF_F32, 0), pad(b, 24));
    refuse(open_bytes(&file), FORMAT, "sizes beyond all files");
    ONE(head(b, 3, 1, 0), name_tensor(b, "x", 1ull << 39, 1ull << 23, SAMBA_GGUF_F32, 0), pad(b, 24));
    refuse(open_bytes(&file), FORMAT, "has more than 2^63 bytes");
    ONE(head(b, 3, 1, 0), name_tensor(b, "x", 31, 1, SAMBA_GGUF_Q4_0, 0), pad(b, 24));
    refuse(open_bytes(&file), FORMAT, "has rows of 31, and Q4_0 has blocks of 32");
    ONE(head(b, 3, 1, 0), name_tensor(b, "x", 256, 1, 16, 0), pad(b, 66));
    refuse(open_bytes(&file), UNSUPPORTED, "tensor \"x\" is IQ2_XXS: supported are F32, F16");
    ONE(head(b, 3, 1, 0), name_tensor(b, "x", 256, 1, 1000, 0), pad(b, 66));
    refuse(open_bytes(&file), UNSUPPORTED, "tensor \"x\" is of type 1000");
    ONE(head(b, 3, 1, 0), put_text(b, "x"), put32(b, 5), pad(b, 96));
    refuse(open_bytes(&file), FORMAT, "has a rank that is none of 1 to 4");
}

/* ---- writing ---- */

TEST(test_written)
{
    samba_gguf_builder b;
    samba_gguf *g;
    char path[300];
    float values[64];
    int64_t integer;
    double number;
    const int64_t shape[2] = {2, 32};
    static const samba_gguf_type types[] = {SAMBA_GGUF_F32, SAMBA_GGUF_F16, SAMBA_GGUF_BF16, SAMBA_GGUF_Q8_0, SAMBA_GGUF_Q4_0};
    for (int i = 0; i < 64; i++)
        values[i] = (float)(i % 8 - 7); /* each type has room for these, and for its -7 as the greatest */
    snprintf(path, sizeof path, "%s/written.gguf", folder);
    samba_gguf_build_init(&b, context);
    samba_gguf_put_integer(&b, "i", UINT32_MAX);
    samba_gguf_put_number(&b, "n", 0.5);
    samba_gguf_put_array(&b, "t", SAMBA_GGUF_STRING, 1);
    samba_gguf_add_text(&b, "a\0b", 3);
    for (int i = 0; i < LENGTH(types); i++)
        samba_gguf_put_tensor(&b, samba_gguf_type_facts(types[i]).name, types[i], 2, shape, values);
    need(samba_gguf_build_write(&b, path));
    refuse(samba_gguf_build_write(&b, "/nowhere/at/all"), SAMBA_ERROR_FILE, "/nowhere/at/all");
    samba_gguf_build_free(&b);
    assert_true(samba_gguf_is(path) && !samba_gguf_is(folder) && !samba_gguf_is("/nowhere"));
    need(samba_gguf_open(context, path, &g));
    assert_true(samba_gguf_integer(samba_gguf_find(g, "i"), &integer) && integer == UINT32_MAX);
    assert_true(samba_gguf_number(samba_gguf_find(g, "n"), &number) && number == 0.5);
    assert_int_equal(samba_gguf_find(g, "t")->size, 11);
    for (int i = 0; i < LENGTH(types); i++) {
        const samba_gguf_tensor *t = samba_gguf_tensor_find(g, samba_gguf_type_facts(types[i]).name);
        char blocks[256];
        float given[64];
        assert_true(t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 32 && t->offset % 32 == 0);
        need(samba_gguf_tensor_bytes(g, t, blocks));
        samba_gguf_dequantize(t->type, blocks, 64, given);
        for (int k = 0; k < 64; k++)
            assert_true(fabsf(given[k] - values[k]) <= (i < 3 ? 0 : i == 3 ? 0.03f : 0.5f));
    }
    assert_int_equal(truncate(path, 100), 0);
    char blocks[256];
    refuse(samba_gguf_tensor_bytes(g, &g->tensors[0], blocks), SAMBA_ERROR_FILE, "the file has become shorter");
    samba_gguf_free(g);
}

TEST(test_no_room)
{
    samba_gguf_builder b;
    const float large[32] = {1e6f}, huge[32] = {3.4e38f}, odd[3] = {0};
    static const samba_gguf_type narrow[] = {SAMBA_GGUF_F16, SAMBA_GGUF_Q8_0, SAMBA_GGUF_Q4_0, SAMBA_GGUF_BF16};
    for (int i = 0; i < LENGTH(narrow); i++) {
        const bool fits = narrow[i] == SAMBA_GGUF_Q8_0 || narrow[i] == SAMBA_GGUF_BF16; /* 1e6 / 127 */
        samba_gguf_build_init(&b, context);
        samba_gguf_put_tensor(&b, "x", narrow[i], 1, SHAPE(32), large);
        if (fits)
            need(b.status);
        samba_gguf_put_tensor(&b, "x", narrow[i], 1, SHAPE(32), narrow[i] == SAMBA_GGUF_BF16 ? large : huge);
        if (narrow[i] != SAMBA_GGUF_BF16)
            refuse(samba_gguf_build_write(&b, "x"), UNSUPPORTED, "tensor \"x\" has a value that ");
        samba_gguf_build_free(&b);
    }
    samba_gguf_build_init(&b, context);
    samba_gguf_put_tensor(&b, "x", SAMBA_GGUF_Q8_0, 1, SHAPE(3), odd);
    refuse(samba_gguf_build_write(&b, "x"), UNSUPPORTED, "tensor \"x\" has rows of 3, and Q8_0 has blocks of 32");
    samba_gguf_build_free(&b);
}

/* ---- a model ---- */

typedef struct change {
    const char *without, *key, *tensor; /* left out; one more */
    int64_t value, rows;
} change;

/* Whether the key is the changed one. */
static bool put_key(samba_gguf_builder *b, const change *c, const char *name, int64_t value)
{
    const bool changed = c->key && strcmp(c->key, name) == 0;
    if (!c->without || strcmp(c->without, name) != 0)
        samba_gguf_put_integer(b, name, changed ? c->value : value);
    return changed;
}

static samba_status write_model(samba_context *owner, const char *path, const change *c)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } tensors[] = {
        {"token_embd.weight", 5, 4},        {"output_norm.weight", 0, 4},    {"blk.0.attn_norm.weight", 0, 4},
        {"blk.0.attn_q.weight", 4, 4},      {"blk.0.attn_k.weight", 2, 4},   {"blk.0.attn_v.weight", 2, 4},
        {"blk.0.attn_output.weight", 4, 4}, {"blk.0.ffn_norm.weight", 0, 4}, {"blk.0.ffn_gate.weight", 3, 4},
        {"blk.0.ffn_up.weight", 3, 4},      {"blk.0.ffn_down.weight", 4, 3},
    };
    float values[64];
    samba_gguf_builder b;
    for (int i = 0; i < 64; i++)
        values[i] = (float)(i % 7) / 4;
    samba_gguf_build_init(&b, owner);
    if (!c->without || strcmp(c->without, "general.architecture") != 0)
        samba_gguf_put_text(&b, "general.architecture", "llama", 5);
    bool there = put_key(&b, c, "llama.embedding_length", 4);
    there |= put_key(&b, c, "llama.block_count", 1);
    there |= put_key(&b, c, "llama.attention.head_count", 2);
    there |= put_key(&b, c, "llama.attention.head_count_kv", 1);
    there |= put_key(&b, c, "llama.feed_forward_length", 3);
    there |= put_key(&b, c, "llama.context_length", 8);
    if (!c->without || strcmp(c->without, "llama.attention.layer_norm_rms_epsilon") != 0)
        samba_gguf_put_number(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5);
    if (c->key && !there)
        samba_gguf_put_integer(&b, c->key, c->value);
    for (int i = 0; i < LENGTH(tensors); i++) {
        const bool changed = c->tensor && strcmp(c->tensor, tensors[i].name) == 0;
        const int64_t rows = changed && c->rows ? c->rows : tensors[i].rows;
        if (c->without && strcmp(c->without, tensors[i].name) == 0)
            continue;
        samba_gguf_put_tensor(&b, tensors[i].name, SAMBA_GGUF_F32, rows ? 2 : 1,
                              rows ? (int64_t[]){rows, tensors[i].columns} : &tensors[i].columns, values);
    }
    if (c->tensor && !c->rows)
        samba_gguf_put_tensor(&b, c->tensor, SAMBA_GGUF_F32, 1, SHAPE(4), values);
    samba_status status = samba_gguf_build_write(&b, path);
    samba_gguf_build_free(&b);
    return status;
}

static samba_status open_changed(const change *c)
{
    char path[300];
    samba_lm *lm = NULL;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    need(write_model(context, path, c));
    samba_status status = samba_lm_open(context, path, &lm);
    samba_lm_free(lm);
    return status;
}

TEST(test_models)
{
    static const struct {
        change change;
        samba_status status;
        const char *words;
    } cases[] = {
        {{.without = "general.architecture"},
         SAMBA_ERROR_UNSUPPORTED,
         "\"general.architecture\" is not there: supported are llama"},
        {{.without = "llama.block_count"},
         SAMBA_ERROR_FORMAT,
         "\"llama.block_count\" is not there: expected is an integer from 1"},
        {{.without = "llama.attention.layer_norm_rms_epsilon"},
         SAMBA_ERROR_FORMAT,
         "epsilon\" is not there: expected is a number"},
        {{.key = "llama.embedding_length", .value = 0}, SAMBA_ERROR_FORMAT, "\"llama.embedding_length\" is 0: expected is"},
        {{.key = "llama.embedding_length", .value = UINT32_MAX}, SAMBA_ERROR_FORMAT, "\"llama.embedding_length\" is 4294967295"},
        {{.key = "llama.embedding_length", .value = 1 << 30}, SAMBA_ERROR_FORMAT, "\"hidden_size\" is 1073741824"},
        {{.key = "llama.attention.head_count", .value = 3}, SAMBA_ERROR_UNSUPPORTED, "turn 1 of a head's 1 features"},
        {{.key = "llama.expert_count", .value = 8},
         SAMBA_ERROR_UNSUPPORTED,
         "\"llama.expert_count\" is 8, and nothing here knows that key of the model \"llama\""},
        {{.key = "llama.rope.dimension_count", .value = 1}, SAMBA_ERROR_UNSUPPORTED, "supported is the size of a head"},
        {{.key = "llama.vocab_size", .value = 9}, SAMBA_ERROR_FORMAT, "expected is the number of rows of \"token_embd.weight\""},
        {{.key = "split.count", .value = 2}, SAMBA_ERROR_UNSUPPORTED, "a model in 2 files"},
        {{.without = "token_embd.weight"}, SAMBA_ERROR_FORMAT, "there is no tensor \"token_embd.weight\" of rank 2"},
        {{.without = "blk.0.ffn_up.weight"}, SAMBA_ERROR_FORMAT, "the model needs a tensor \"blk.0.ffn_up.weight\""},
        {{.tensor = "blk.0.attn_q.weight", .rows = 6},
         SAMBA_ERROR_FORMAT,
         "tensor \"blk.0.attn_q.weight\" is expected to be (4, 4), given (6, 4)"},
        {{.tensor = "blk.0.ffn_gate_inp.weight"},
         SAMBA_ERROR_UNSUPPORTED,
         "tensor \"blk.0.ffn_gate_inp.weight\" belongs to no part of the model"},
        {{.tensor = "rope_freqs.weight"}, SAMBA_ERROR_FORMAT, "\"rope_freqs.weight\" is expected to be F32 (1)"},
    };
    for (int i = 0; i < LENGTH(cases); i++)
        refuse(open_changed(&cases[i].change), cases[i].status, cases[i].words);
    need(open_changed(&(change){.key = "llama.expert_count", .value = 0})); /* what is 0 asks for nothing */
    need(open_changed(&(change){0}));
}

/* ---- no memory ---- */

static samba_status everything(samba_context *owner, void *user)
{
    char path[300], again[300];
    samba_lm *lm = NULL;
    samba_tensor_list list = {0};
    samba_lm_export_options options = samba_lm_export_defaults();
    options.type = SAMBA_EXPORT_BF16;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    snprintf(again, sizeof again, "%s/again.gguf", folder);
    samba_status status = write_model(owner, path, user);
    THEN(status, samba_lm_open(owner, path, &lm));
    THEN(status, samba_lm_weights(lm, &list));
    THEN(status, samba_lm_export(lm, &options, again));
    snprintf(path, sizeof path, "%s/folder", folder);
    THEN(status, samba_lm_save_tensors(lm, list.count, list.tensors, path));
    samba_tensor_list_free(owner, &list);
    samba_lm_free(lm);
    return status;
}

TEST(test_no_memory) { fail_each_allocation(everything, &(change){0}); }

TEST(test_misuse)
{
    samba_lm *lm;
    char path[300];
    samba_lm_export_options options = samba_lm_export_defaults();
    options.type = (samba_export_type)5;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    need(write_model(context, path, &(change){0}));
    need(samba_lm_open(context, path, &lm));
    refuse(samba_lm_export(lm, &options, "x"), SAMBA_ERROR_ARGUMENT, "a type of samba_export_type is expected, given 5");
    refuse(samba_lm_export(lm, NULL, "/nowhere/x.gguf"), SAMBA_ERROR_FILE, "/nowhere/x.gguf");
    refuse(samba_lm_export(lm, NULL, NULL), SAMBA_ERROR_ARGUMENT, "path");
    samba_tokenizer *tokenizer;
    refuse(samba_tokenizer_open(context, path, &tokenizer), SAMBA_ERROR_FILE, "this GGUF file has no tokenizer");
    samba_lm_free(lm);
}

TEST_MAIN(test_read, test_cut, test_headers, test_tensors, test_written, test_no_room, test_models, test_no_memory, test_misuse)
