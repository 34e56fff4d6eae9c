/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers of GGUF files and of Hugging Face folders, each as the other: tokenizer.json and tokenizer_config.json of a file's
 * metadata (tokenizer.c), and metadata of them (tokenizer_write.c). Both ways go through one table of pre-tokenizers (pre.c).
 *
 * JSON is the caller's, who drops it. */
#ifndef SAMBA_GGUF_TOKENIZER_H
#define SAMBA_GGUF_TOKENIZER_H

#include "gguf/gguf.h"

/* Whether the file says anything about one. */
bool samba_gguf_has_tokenizer(const samba_gguf *gguf);
/* UNSUPPORTED names the kind of tokenizer or pre-tokenizer that is; FORMAT: lists of other lengths, a token that is no UTF-8. */
samba_status samba_gguf_tokenizer_json(const samba_gguf *gguf, json_t **tokenizer);
/* Special tokens and chat templates. */
samba_status samba_gguf_tokenizer_config(const samba_gguf *gguf, json_t **config);

/* ---- pre.c: what "tokenizer.ggml.pre" stands for ---- */
typedef struct samba_gguf_pre {
    const char *name;
    const char *normalizer, *splitter; /* JSON of tokenizer.json's components; "null" */
    bool ignore_merges, begins;        /* whole words of the vocabulary are tokens; a text begins with the token for it */
} samba_gguf_pre;
const samba_gguf_pre *samba_gguf_pre_find(const char *name, size_t size); /* NULL: it is not known */
/* The one with these components, either of which may be NULL or null. */
const samba_gguf_pre *samba_gguf_pre_of(const json_t *normalizer, const json_t *splitter, bool ignore_merges);
extern const char samba_gguf_pre_names[];

/* ---- tokenizer.c, for tokenizer_write.c ---- */
/* Components of a tokenizer with U+2581 for spaces; `prefix`: a text gets one in front. */
json_t *samba_gguf_space_normalizer(bool prefix);
json_t *samba_gguf_space_decoder(bool prefix);
/* The merges that scores stand for: pairs of tokens that are one together, the best first. `tokens` are texts, types as files
 * have them. */
samba_status samba_gguf_merges_of_scores(samba_context *context, const char *path, int64_t count, const char *const *tokens,
                                         const double *scores, const int64_t *types, json_t **merges);
enum { /* types of tokens in files */
       SAMBA_GGUF_NORMAL = 1,
       SAMBA_GGUF_UNKNOWN = 2,
       SAMBA_GGUF_CONTROL = 3,
       SAMBA_GGUF_USER_DEFINED = 4,
       SAMBA_GGUF_UNUSED = 5,
       SAMBA_GGUF_BYTE = 6
};

#endif
