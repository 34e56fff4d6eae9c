/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder's tokenizer as metadata. */
#ifndef SAMBA_GGUF_TOKENIZER_WRITE_H
#define SAMBA_GGUF_TOKENIZER_WRITE_H

#include "gguf/tokenizer.h"
#include "gguf/write.h"

/* Of a tokenizer.json, which `path` is, and a tokenizer_config.json (NULL: there is none), for a model with so many tokens: those
 * that the tokenizer lacks are unused ones. UNSUPPORTED: what files cannot say, by the component. */
samba_status samba_gguf_put_tokenizer(samba_gguf_builder *b, const char *path, const json_t *tokenizer, const json_t *config,
                                      int64_t vocab_size);

#endif
