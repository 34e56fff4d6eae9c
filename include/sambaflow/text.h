/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers: text to the ids a language model was trained on, and back, as the file says that came with the model.
 *
 * Read are Hugging Face's tokenizer.json, GPT-2's vocab.json with merges.txt, and SentencePiece's .model. Ids and texts are
 * those of the Python packages `tokenizers` and `sentencepiece`; docs/text.md lists the components.
 *
 *     samba_tokenizer_open(context, "llama/tokenizer.json", &tokenizer);
 *     samba_tokenizer_encode(context, tokenizer, "Hello", 5, true, &list);
 *     samba_tokenizer_decode(context, tokenizer, list.ids, list.count, true, &text);
 *     samba_token_text_free(context, &text);
 *     samba_token_list_free(context, &list);
 *     samba_tokenizer_free(tokenizer);
 *
 * A tokenizer never changes once it is open: several threads may use one at a time, each with a context of its own, under which
 * its encoders, streams, lists and texts are made. The tokenizer must outlive them.
 *
 * A library built without tokenizers (-Dtext=disabled) has these functions, which say so: UNSUPPORTED. */
#ifndef SAMBAFLOW_TEXT_H
#define SAMBAFLOW_TEXT_H

#include <sambaflow/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_tokenizer samba_tokenizer;
typedef struct samba_token_encoder samba_token_encoder;
typedef struct samba_token_stream samba_token_stream;

/* Opens a file: tokenizer.json or a SentencePiece model, told apart by the first byte; or a folder, in which it takes the first
 * of tokenizer.json, tokenizer.model, and vocab.json with merges.txt. tokenizer_config.json and special_tokens_map.json beside it
 * say which tokens are special (samba_tokenizer_special). Truncation and padding that a file asks for are left out.
 * Errors: FILE; FORMAT, for what is damaged or contradicts itself; UNSUPPORTED names the component that is; MEMORY.
 * In `tokenizers`: Tokenizer.from_file. */
SAMBA_API samba_status samba_tokenizer_open(samba_context *context, const char *path, samba_tokenizer **tokenizer);
/* The same of `size` bytes of a tokenizer.json or SentencePiece model, which are read before it returns: Tokenizer.from_str. */
SAMBA_API samba_status samba_tokenizer_open_memory(samba_context *context, const void *data, size_t size,
                                                   samba_tokenizer **tokenizer);
SAMBA_API void samba_tokenizer_free(samba_tokenizer *tokenizer); /* NULL is allowed */

/* ---- text to ids ---- */
typedef struct samba_token_list {
    int32_t *ids;
    int64_t count;
} samba_token_list;

/* The ids of `length` bytes at `text`, which may hold NULs and need not end in one; bytes that are no UTF-8 count as U+FFFD, as
 * in Python's errors="replace". `special`: with the tokens that the file puts around a text, such as [CLS] and [SEP].
 * The list is the caller's, freed by samba_token_list_free; on failure it is empty. Errors: ARGUMENT; MEMORY; FORMAT, for text
 * that the vocabulary has no token for, nor one for unknown text; UNSUPPORTED, where a regular expression of the file takes too
 * many steps on this text. In `tokenizers`: encode(text, add_special_tokens=special).ids. */
SAMBA_API samba_status samba_tokenizer_encode(samba_context *context, const samba_tokenizer *tokenizer, const char *text,
                                              size_t length, bool special, samba_token_list *list);
SAMBA_API void samba_token_list_free(samba_context *context, samba_token_list *list); /* of a NULL or empty list: nothing */

/* For many texts: an encoder keeps its memory and the words it has met. One thread at a time; some 8 MiB. */
SAMBA_API samba_status samba_token_encoder_new(samba_context *context, const samba_tokenizer *tokenizer,
                                               samba_token_encoder **encoder);
/* samba_tokenizer_encode whose ids belong to the encoder and are there until its next call. */
SAMBA_API samba_status samba_token_encoder_run(samba_token_encoder *encoder, const char *text, size_t length, bool special,
                                               const int32_t **ids, int64_t *count);
SAMBA_API void samba_token_encoder_free(samba_token_encoder *encoder); /* NULL is allowed */

/* ---- ids to text ---- */
typedef struct samba_token_text {
    char *text; /* UTF-8, with a NUL behind `length` bytes, which may hold others */
    size_t length;
} samba_token_text;

/* The text of ids; ids that no token has are left out, and with `skip_special` the special tokens. The text is the caller's,
 * freed by samba_token_text_free; on failure it is empty. Errors: ARGUMENT; MEMORY; UNSUPPORTED as above.
 * In `tokenizers`: decode(ids, skip_special_tokens=skip_special). */
SAMBA_API samba_status samba_tokenizer_decode(samba_context *context, const samba_tokenizer *tokenizer, const int32_t *ids,
                                              int64_t count, bool skip_special, samba_token_text *text);
SAMBA_API void samba_token_text_free(samba_context *context, samba_token_text *text); /* of a NULL or empty text: nothing */

/* Decoding id by id. The texts given, one after the other, are that of all ids, and each has whole characters only: the bytes of
 * a character that further ids complete wait for them. Bytes that cannot become one are a U+FFFD. One thread at a time.
 * In `tokenizers`: decoders.DecodeStream. */
SAMBA_API samba_status samba_token_stream_new(samba_context *context, const samba_tokenizer *tokenizer, bool skip_special,
                                              samba_token_stream **stream);
/* One id more. *text, of *length bytes and a NUL, belongs to the stream and is there until its next call; "" when nothing is
 * whole yet. */
SAMBA_API samba_status samba_token_stream_next(samba_token_stream *stream, int32_t id, const char **text, size_t *length);
/* The end: what still waits can become no character and is given as U+FFFD. The stream then begins anew. */
SAMBA_API samba_status samba_token_stream_end(samba_token_stream *stream, const char **text, size_t *length);
SAMBA_API void samba_token_stream_free(samba_token_stream *stream); /* NULL is allowed */

/* ---- the vocabulary ---- */
/* How many tokens there are, added ones included: get_vocab_size(). 0 for NULL. */
SAMBA_API int64_t samba_tokenizer_size(const samba_tokenizer *tokenizer);
/* The id of a token, spelled as in the file and ended by a NUL; -1: there is none. token_to_id(). */
SAMBA_API int32_t samba_tokenizer_id(const samba_tokenizer *tokenizer, const char *token);
/* The token of an id, ended by a NUL, which belongs to the tokenizer; NULL: there is none. id_to_token(). */
SAMBA_API const char *samba_tokenizer_token(const samba_tokenizer *tokenizer, int32_t id);

typedef enum samba_special {
    SAMBA_SPECIAL_BOS = 0, /* begins a text */
    SAMBA_SPECIAL_EOS = 1, /* ends one */
    SAMBA_SPECIAL_PAD = 2,
    SAMBA_SPECIAL_UNK = 3,
    SAMBA_SPECIAL_SEP = 4,
    SAMBA_SPECIAL_CLS = 5,
    SAMBA_SPECIAL_MASK = 6
} samba_special;
/* The id of a token that has a purpose, as the files beside the tokenizer say, or the tokenizer itself; -1: none says.
 * In transformers: bos_token_id and its like. */
SAMBA_API int32_t samba_tokenizer_special(const samba_tokenizer *tokenizer, samba_special purpose);

#ifdef __cplusplus
}
#endif
#endif
