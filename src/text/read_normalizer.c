/* SPDX-License-Identifier: Apache-2.0
 *
 * The normalizer of tokenizer.json as steps. BertNormalizer is several. */
#include "text/read.h"

static samba_status nfc(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_FORM, .flags = SAMBA_NFC});
}

static samba_status nfd(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_FORM, .flags = SAMBA_NFD});
}

static samba_status nfkc(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_FORM, .flags = SAMBA_NFKC});
}

static samba_status nfkd(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_FORM, .flags = SAMBA_NFKD});
}

static samba_status lowercase(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_LOWERCASE});
}

static samba_status accents(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_DROP_CLASS, .belongs = samba_char_is_mark});
}

static samba_status nmt(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_NMT});
}

static samba_status bytes(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_BYTES});
}

static samba_status strip(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    bool left = true, right = true;
    SAMBA_TRY(samba_read_bool(r, where, object, "strip_left", &left));
    SAMBA_TRY(samba_read_bool(r, where, object, "strip_right", &right));
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_STRIP, .flags = left | right << 1});
}

static samba_status replace(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_REPLACE};
    SAMBA_TRY(samba_read_pattern(r, where, object, &step));
    SAMBA_TRY(samba_need_text(r, where, object, "content", &step.with));
    return samba_step_add(r, where, steps, step);
}

static samba_status prepend(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_PREPEND};
    SAMBA_TRY(samba_need_text(r, where, object, "prepend", &step.with));
    return samba_step_add(r, where, steps, step);
}

static samba_status bert(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    bool clean = true, ideographs = true, lower = true;
    SAMBA_TRY(samba_read_bool(r, where, object, "clean_text", &clean));
    SAMBA_TRY(samba_read_bool(r, where, object, "handle_chinese_chars", &ideographs));
    SAMBA_TRY(samba_read_bool(r, where, object, "lowercase", &lower));
    bool strips = lower; /* where it does not say */
    SAMBA_TRY(samba_read_bool(r, where, object, "strip_accents", &strips));
    if (clean || ideographs)
        SAMBA_TRY(samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_BERT, .flags = clean | ideographs << 1}));
    if (strips) {
        SAMBA_TRY(nfd(r, where, object, steps));
        SAMBA_TRY(samba_step_add(r, where, steps,
                                 (samba_text_step){.kind = SAMBA_STEP_DROP_CLASS, .belongs = samba_char_is_nonspacing}));
    }
    return lower ? lowercase(r, where, object, steps) : SAMBA_OK;
}

/* The bytes of a text in base64, which take the place of its characters; false: it is none. */
static bool decode_base64(char *text, size_t *size)
{
    uint32_t bits = 0;
    int count = 0;
    size_t made = 0, at = 0;
    for (; at < *size && text[at] != '='; at++) {
        const char c = text[at];
        const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                          : c >= 'a' && c <= 'z' ? c - 'a' + 26
                          : c >= '0' && c <= '9' ? c - '0' + 52
                          : c == '+'             ? 62
                          : c == '/'             ? 63
                                                 : -1;
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count >= 8) {
            count -= 8;
            text[made++] = (char)(bits >> count);
        }
    }
    for (; at < *size; at++)
        if (text[at] != '=')
            return false;
    *size = made;
    return true;
}

static samba_status precompiled(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_PRECOMPILED};
    samba_str text;
    char place[SAMBA_SHOWN];
    SAMBA_TRY(samba_need_text(r, where, object, "precompiled_charsmap", &text));
    if (!decode_base64((char *)text.data, &text.size)) /* the copy is the tokenizer's */
        return samba_reader_fail(r, where, "\"precompiled_charsmap\" is no base64");
    if (text.size == 0)
        return SAMBA_OK;
    snprintf(place, sizeof place, "%.300s: %.120s", r->path, where);
    SAMBA_TRY(samba_charsmap_new(r->context, r->arena, place, text, &step.charsmap));
    return samba_step_add(r, where, steps, step);
}

samba_status samba_read_normalizer(const samba_reader *r, const json_t *component)
{
    static const samba_step_type types[] = {{"NFC", nfc},
                                            {"NFD", nfd},
                                            {"NFKC", nfkc},
                                            {"NFKD", nfkd},
                                            {"Lowercase", lowercase},
                                            {"StripAccents", accents},
                                            {"Nmt", nmt},
                                            {"ByteLevel", bytes},
                                            {"Strip", strip},
                                            {"StripNormalizer", strip},
                                            {"Replace", replace},
                                            {"Prepend", prepend},
                                            {"BertNormalizer", bert},
                                            {"Precompiled", precompiled},
                                            {NULL, NULL}};
    return component ? samba_read_steps(r, "normalizer", component, "normalizers", types, &r->tokenizer->normalizer) : SAMBA_OK;
}
