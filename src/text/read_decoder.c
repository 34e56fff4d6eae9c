/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of tokenizer.json as steps. */
#include "text/read.h"

static samba_status bytes(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_DECODE_BYTES});
}

static samba_status fallback(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_DECODE_BYTE_FALLBACK});
}

static samba_status fuse(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    (void)object;
    return samba_step_add(r, where, steps, (samba_text_step){.kind = SAMBA_STEP_DECODE_FUSE});
}

static samba_status wordpiece(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_DECODE_WORDPIECE, .text = {"##", 2}, .cleanup = true};
    SAMBA_TRY(samba_read_text(r, where, object, "prefix", &step.text));
    SAMBA_TRY(samba_read_bool(r, where, object, "cleanup", &step.cleanup));
    return samba_step_add(r, where, steps, step);
}

static samba_status metaspace(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_DECODE_METASPACE};
    SAMBA_TRY(samba_read_metaspace(r, where, object, &step));
    return samba_step_add(r, where, steps, step);
}

static samba_status bpe(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_DECODE_BPE, .text = {"</w>", 4}};
    SAMBA_TRY(samba_read_text(r, where, object, "suffix", &step.text));
    return samba_step_add(r, where, steps, step);
}

static samba_status ctc(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_DECODE_CTC, .text = {"<pad>", 5}, .with = {"|", 1}, .cleanup = true};
    SAMBA_TRY(samba_read_text(r, where, object, "pad_token", &step.text));
    SAMBA_TRY(samba_read_text(r, where, object, "word_delimiter_token", &step.with));
    SAMBA_TRY(samba_read_bool(r, where, object, "cleanup", &step.cleanup));
    return samba_step_add(r, where, steps, step);
}

static samba_status strip(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_DECODE_STRIP};
    SAMBA_TRY(samba_need_char(r, where, object, "content", &step.text));
    SAMBA_TRY(samba_read_count(r, where, object, "start", INT64_MAX, &step.start));
    SAMBA_TRY(samba_read_count(r, where, object, "stop", INT64_MAX, &step.stop));
    return samba_step_add(r, where, steps, step);
}

static samba_status replace(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps)
{
    samba_text_step step = {.kind = SAMBA_STEP_DECODE_REPLACE};
    SAMBA_TRY(samba_read_pattern(r, where, object, &step));
    SAMBA_TRY(samba_need_text(r, where, object, "content", &step.with));
    return samba_step_add(r, where, steps, step);
}

samba_status samba_read_decoder(const samba_reader *r, const json_t *component)
{
    static const samba_step_type types[] = {{"ByteLevel", bytes},
                                            {"ByteFallback", fallback},
                                            {"Fuse", fuse},
                                            {"WordPiece", wordpiece},
                                            {"Metaspace", metaspace},
                                            {"BPEDecoder", bpe},
                                            {"CTC", ctc},
                                            {"Strip", strip},
                                            {"Replace", replace},
                                            {NULL, NULL}};
    r->tokenizer->has_decoder = component != NULL;
    return component ? samba_read_steps(r, "decoder", component, "decoders", types, &r->tokenizer->decoder) : SAMBA_OK;
}
