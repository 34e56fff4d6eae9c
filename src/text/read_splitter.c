/* SPDX-License-Identifier: Apache-2.0
 *
 * The pre-tokenizer of tokenizer.json as steps. BertPreTokenizer is two. */
#include "text/read.h"

static samba_status add_class(const samba_reader *r, const char *where, samba_text_steps *steps, bool (*belongs)(uint32_t),
                              samba_behavior behavior)
{
    return samba_step_add(r, where, steps,
                          (samba_text_step){.kind = SAMBA_STEP_SPLIT_CLASS, .belongs = belongs, .behavior = behavior});
}

static samba_status byte_level(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_BYTE_LEVEL, .split = true};
    bool prefix = true;
    SAMBA_TRY(samba_read_bool(r, where, object, "add_prefix_space", &prefix));
    SAMBA_TRY(samba_read_bool(r, where, object, "use_regex", &step.split));
    step.prepend = prefix ? SAMBA_ALWAYS : SAMBA_NEVER;
    return samba_step_add(r, where, steps, step);
}

static samba_status whitespace(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_WHITESPACE});
}

static samba_status whitespace_split(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return add_class(r, where, steps, samba_char_is_space, SAMBA_REMOVED);
}

static samba_status split(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_SPLIT};
    SAMBA_TRY(samba_read_pattern(r, where, object, &step));
    SAMBA_TRY(samba_read_behavior(r, where, object, &step.behavior));
    SAMBA_TRY(samba_read_bool(r, where, object, "invert", &step.invert));
    return samba_step_add(r, where, steps, step);
}

static samba_status punctuation(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_behavior behavior = SAMBA_ISOLATED;
    SAMBA_TRY(samba_read_behavior(r, where, object, &behavior));
    return add_class(r, where, steps, samba_char_is_punctuation, behavior);
}

static samba_status digits(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    bool each = false;
    SAMBA_TRY(samba_read_bool(r, where, object, "individual_digits", &each));
    return add_class(r, where, steps, samba_char_is_numeric, each ? SAMBA_ISOLATED : SAMBA_CONTIGUOUS);
}

static samba_status metaspace(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_METASPACE};
    SAMBA_TRY(samba_read_metaspace(r, where, object, &step));
    return samba_step_add(r, where, steps, step);
}

static samba_status bert(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    SAMBA_TRY(add_class(r, where, steps, samba_char_is_space, SAMBA_REMOVED));
    return add_class(r, where, steps, samba_char_is_punctuation, SAMBA_ISOLATED);
}

static samba_status delimiter(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_SPLIT, .behavior = SAMBA_REMOVED};
    SAMBA_TRY(samba_need_char(r, where, object, "delimiter", &step.text));
    return samba_step_add(r, where, steps, step);
}

static samba_status scripts(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_SCRIPTS});
}

static samba_status fixed_length(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_FIXED_LENGTH, .start = 5};
    SAMBA_TRY(samba_read_count(r, where, object, "length", INT64_MAX, &step.start));
    if (step.start == 0)
        return samba_reader_fail(r, where, "\"length\" is 0");
    return samba_step_add(r, where, steps, step);
}

samba_status samba_read_splitter(const samba_reader *r, const json_t *component)
{
    static const samba_step_type types[] = {{"ByteLevel", byte_level},
                                            {"Whitespace", whitespace},
                                            {"WhitespaceSplit", whitespace_split},
                                            {"Split", split},
                                            {"Punctuation", punctuation},
                                            {"Digits", digits},
                                            {"Metaspace", metaspace},
                                            {"BertPreTokenizer", bert},
                                            {"CharDelimiterSplit", delimiter},
                                            {"Delimiter", delimiter},
                                            {"UnicodeScripts", scripts},
                                            {"FixedLength", fixed_length},
                                            {NULL, NULL}};
    return component ? samba_read_steps(r, "pre_tokenizer", component, "pretokenizers", types, &r->tokenizer->splitter)
                     : SAMBA_OK;
}
