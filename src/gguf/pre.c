/* SPDX-License-Identifier: Apache-2.0
 *
 * Pre-tokenizers of byte-level BPE, which GGUF files have by name alone: what the name stands for, as tokenizer.json of the
 * models has it. A name that is not here is refused: ids would be others. */
#include "gguf/tokenizer.h"

#define BYTES(regex) "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":" regex "}"
#define SPLIT(pattern)                                                                                                           \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern                            \
    "\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTES("false") "]}"
#define SHORTENED "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define REST "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define WORD "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define TEKKEN                                                                                                                   \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "+" LOWER "*|\\\\p{N}"             \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static const samba_gguf_pre table[] = {
    {"gpt-2", "null", BYTES("true"), false, false},
    {"llama-bpe", "null", SPLIT(SHORTENED WORD "\\\\p{N}{1,3}" REST), true, true},
    {"qwen2", "{\"type\":\"NFC\"}", SPLIT(SHORTENED WORD "\\\\p{N}" REST), false, false},
    {"tekken", "null", SPLIT(TEKKEN), true, true},
    {"smollm", "null",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," BYTES("true") "]}", false,
     false},
    {"falcon", "null",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}," BYTES(
         "true") ",{\"type\":\"Digits\",\"individual_digits\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[0-9][0-9][0-9]"
                 "\"},\"behavior\":\"Isolated\",\"invert\":false}]}",
     false, false},
    {"olmo", "{\"type\":\"NFC\"}", BYTES("true"), false, false},
};
const char samba_gguf_pre_names[] = "gpt-2, llama-bpe, qwen2, tekken, smollm, falcon, olmo";

const samba_gguf_pre *samba_gguf_pre_find(const char *name, size_t size)
{
    for (int i = 0; i < SAMBA_COUNT(table); i++)
        if (strlen(table[i].name) == size && memcmp(table[i].name, name, size) == 0)
            return &table[i];
    return NULL;
}

/* Without what makes no difference to ids; defaults are left out. */
static void simplify(json_t *json)
{
    json_t *value;
    const char *key;
    size_t i;
    json_object_del(json, "trim_offsets");
    if (json_is_true(json_object_get(json, "use_regex")))
        json_object_del(json, "use_regex");
    if (json_is_false(json_object_get(json, "invert")))
        json_object_del(json, "invert");
    json_object_foreach(json, key, value) simplify(value);
    json_array_foreach(json, i, value) simplify(value);
}

static bool is_component(const json_t *given, const char *text)
{
    json_t *expected = json_loads(text, JSON_DECODE_ANY, NULL), *copy = given ? json_deep_copy(given) : json_null();
    simplify(expected);
    simplify(copy);
    const bool equal = expected && copy && json_equal(expected, copy);
    json_decref(expected);
    json_decref(copy);
    return equal;
}

const samba_gguf_pre *samba_gguf_pre_of(const json_t *normalizer, const json_t *splitter, bool ignore_merges)
{
    for (int i = 0; i < SAMBA_COUNT(table); i++)
        if (table[i].ignore_merges == ignore_merges && is_component(normalizer, table[i].normalizer) &&
            is_component(splitter, table[i].splitter))
            return &table[i];
    return NULL;
}
