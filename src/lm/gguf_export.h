/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the parts of writing a GGUF file: gguf_metadata.c has what the description says, gguf_export.c weights, tokenizer and
 * the file. */
#ifndef SAMBA_LM_GGUF_EXPORT_H
#define SAMBA_LM_GGUF_EXPORT_H

#include "gguf/write.h"
#include "lm/gguf.h"

typedef struct samba_lm_gguf_export {
    const samba_lm *lm;
    const samba_lm_gguf_kind *kind;
    samba_gguf_builder builder;
    samba_gguf_type type; /* of matrices */
} samba_lm_gguf_export;

samba_status samba_lm_gguf_put_metadata(samba_lm_gguf_export *e);

#endif
