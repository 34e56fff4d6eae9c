/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers: text to the ids a language model was trained on, and back, as the file says that came with the model.
 *
 * Read are Hugging Face's tokenizer.json, GPT-2's vocab.json with merges.txt, SentencePiece's .model, and what the metadata of
 * a GGUF file says. Ids and texts are those of the Python packages `tokenizers` and `sentencepiece`; docs/text.md lists the
 * components.
 *
 *     samba_tokenizer_open(context, "llama/tokenizer.json", &tokenizer);
 *     samba_tokenizer_encode(context, tokenizer, "Hello", 5, true, &list);
 *     samba_tokenizer_decode(context, tokenizer, list.ids, list.count, true, &text);
 *     samba_token_text_free(context, &text);
 *     samba_token_list_free(context, &list);
 *     samba_tokenizer_free(tokenizer);
 *
 * And chat templates: a conversation as the one text that a model was trained to go on with (docs/text.md).
 *
 *     samba_chat_template_open(context, "llama", NULL, &template);
 *     samba_chat_render(context, template, "[{\"role\": \"user\", \"content\": \"Hello\"}]", 38, NULL, &chat);
 *     samba_chat_text_free(context, &chat);
 *     samba_chat_template_free(template);
 *
 * A tokenizer never changes once it is open: several threads may use one at a time, each with a context of its own, under which
 * its encoders, streams, lists and texts are made. The tokenizer must outlive them. The same holds for a chat template.
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

/* Opens a file: tokenizer.json, a SentencePiece model or a GGUF file, told apart by their first bytes; or a folder, in which it
 * takes the first of tokenizer.json, tokenizer.model, and vocab.json with merges.txt. tokenizer_config.json and
 * special_tokens_map.json beside it say which tokens are special (samba_tokenizer_special). Truncation and padding that a file
 * asks for are left out. Errors: FILE; FORMAT, for what is damaged or contradicts itself; UNSUPPORTED names the component that
 * is; MEMORY. In `tokenizers`: Tokenizer.from_file. */
SAMBA_API samba_status samba_tokenizer_open(samba_context *context, const char *path, samba_tokenizer **tokenizer);
/* The same of `size` bytes of such a file, which are read before it returns: Tokenizer.from_str. */
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

/* ---- chat templates ---- */
typedef struct samba_chat_template samba_chat_template;

/* Opens the chat template of a folder or GGUF file: chat_template.jinja, else "chat_template" of tokenizer_config.json, a text
 * or a list of named ones, of which "tool_use" is taken for conversations with tools and "default" for others. The folder's
 * special tokens, such as bos_token, are variables of the template. `text`, ended by a NUL, is a template to take in the place
 * of the folder's, or the name of one of several; NULL: the folder's. `folder` may be NULL where `text` is given. Errors: FILE;
 * FORMAT, for damaged files and templates, with the line; UNSUPPORTED names the part of Jinja that is not read; ARGUMENT, also
 * for a name that the folder does not have; MEMORY. In transformers: get_chat_template. */
SAMBA_API samba_status samba_chat_template_open(samba_context *context, const char *folder, const char *text,
                                                samba_chat_template **chat_template);
SAMBA_API void samba_chat_template_free(samba_chat_template *chat_template); /* NULL is allowed */
/* Whether the template marks the assistant's words by {% generation %} blocks. */
SAMBA_API bool samba_chat_template_marks(const samba_chat_template *chat_template);

typedef struct samba_chat_options {
    size_t struct_size;         /* sizeof(samba_chat_options) */
    bool add_generation_prompt; /* the text ends where the assistant is to speak, as far as the template knows */
    bool spans;                 /* the places of the assistant's words are wanted; else there are none in the result */
    const char *tools;          /* a JSON list of the tools' schemas; NULL: none */
    const char *variables;      /* a JSON object of further variables: {"enable_thinking": false}; NULL: none */
    int64_t now;                /* what strftime_now tells, in seconds since 1970 as local time; 0: now */
} samba_chat_options;

typedef struct samba_chat_span {
    int64_t begin, end; /* in bytes of the text; from begin to before end */
} samba_chat_span;

typedef struct samba_chat_text {
    char *text; /* UTF-8, with a NUL behind `length` bytes, which may hold others */
    size_t length;
    samba_chat_span *spans; /* {% generation %} blocks, in their order */
    int64_t span_count;
} samba_chat_text;

/* The text of a conversation: `messages` is `length` bytes of JSON, a list of objects such as {"role": "user", "content": "Hi"}.
 * Fields that are null count as absent; the order of fields is kept. `options` may be NULL. The tokens that begin a text are the
 * template's own: encode it with special = false. The result is the caller's, freed by samba_chat_text_free; on failure it is
 * empty. Errors: FORMAT, for JSON that is damaged or not of this form, and for what the template does that Jinja has as an error;
 * ARGUMENT, with the template's words, where it refuses the conversation by raise_exception; UNSUPPORTED, for what is no part of
 * the subset, more than some ten million steps, and spans of a template that marks none; MEMORY. Rendering takes at most 256 MiB
 * and 64 bytes for each of messages, tools and variables. In transformers: apply_chat_template(messages, tokenize=False). */
SAMBA_API samba_status samba_chat_render(samba_context *context, const samba_chat_template *chat_template, const char *messages,
                                         size_t length, const samba_chat_options *options, samba_chat_text *text);
SAMBA_API void samba_chat_text_free(samba_context *context, samba_chat_text *text); /* of a NULL or empty text: nothing */

#ifdef __cplusplus
}
#endif
#endif
