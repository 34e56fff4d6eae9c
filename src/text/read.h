/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of files share: fields of JSON objects, each checked for its type, whose failure says where it stands. Nothing
 * in a file is trusted. Texts are copied into the tokenizer's arena; the JSON is the caller's. */
#ifndef SAMBA_TEXT_READ_H
#define SAMBA_TEXT_READ_H

#include "text/text.h"

#include <jansson.h>

typedef struct samba_reader {
    samba_tokenizer *tokenizer;
    samba_context *context;
    samba_arena *arena;
    const char *path; /* of the file, for messages */
} samba_reader;

/* FORMAT: "path: where: ..." */
samba_status samba_reader_fail(const samba_reader *r, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fields that are absent or null are as they were in *value. */
samba_status samba_read_bool(const samba_reader *r, const char *where, const json_t *object, const char *name, bool *value);
samba_status samba_read_count(const samba_reader *r, const char *where, const json_t *object, const char *name, int64_t most,
                              int64_t *value);
samba_status samba_read_text(const samba_reader *r, const char *where, const json_t *object, const char *name, samba_str *value);
/* The same for a text that has to be there, and for one character. */
samba_status samba_need_text(const samba_reader *r, const char *where, const json_t *object, const char *name, samba_str *value);
samba_status samba_need_char(const samba_reader *r, const char *where, const json_t *object, const char *name, samba_str *value);
samba_status samba_copy_text(const samba_reader *r, const json_t *text, samba_str *value);
/* A file's JSON, at most 1 GiB; its root has to be an object. json_decref frees it. */
samba_status samba_json_parse(samba_context *context, const char *path, const void *data, size_t size, json_t **json);

samba_status samba_read_model(const samba_reader *r, const json_t *model);                         /* read_model.c */
samba_status samba_read_merges(const samba_reader *r, int64_t count, const samba_str (*pairs)[2]); /* read_merges.c */
samba_status samba_read_merge_list(const samba_reader *r, const json_t *merges);
samba_status samba_read_merge_lines(const samba_reader *r, const char *text, size_t size); /* merges.txt */
samba_status samba_read_vocab(const samba_reader *r, const char *where, const json_t *object);
samba_status samba_read_byte_tokens(const samba_reader *r, int32_t bytes[256]); /* <0x00> and its like in the vocabulary */
samba_status samba_read_chars(const samba_reader *r);                           /* BPE's table of short characters */
/* Whether U+2581 is a token, and none has one behind another character: then words that begin with it are pieces of their own,
 * whose ids are those that they have in the whole text. Needs the vocabulary and the rest of a BPE model. */
bool samba_read_apart(const samba_tokenizer *tokenizer);
samba_status samba_read_normalizer(const samba_reader *r, const json_t *component); /* read_normalizer.c */
samba_status samba_read_splitter(const samba_reader *r, const json_t *component);   /* read_splitter.c */
samba_status samba_read_decoder(const samba_reader *r, const json_t *component);    /* read_decoder.c */
samba_status samba_read_around(const samba_reader *r, const json_t *component);     /* read_around.c */
samba_status samba_read_added(const samba_reader *r, const json_t *tokens);         /* read_added.c */
samba_status samba_add_tokens(const samba_reader *r, const samba_added *tokens, int64_t count);

/* ---- components.c: steps of components ---- */
typedef samba_status samba_read_step(const samba_reader *r, const char *where, const json_t *object, samba_text_steps *steps);
typedef struct samba_step_type {
    const char *name;
    samba_read_step *read;
} samba_step_type;
/* Reads a component, or a Sequence of them under the field `parts`, by the table, whose end has no name. */
samba_status samba_read_steps(const samba_reader *r, const char *where, const json_t *object, const char *parts,
                              const samba_step_type *types, samba_text_steps *steps);
samba_status samba_step_add(const samba_reader *r, const char *where, samba_text_steps *steps, samba_text_step step);
/* The field "pattern": a text or a regular expression. */
samba_status samba_read_pattern(const samba_reader *r, const char *where, const json_t *object, samba_text_step *step);
samba_status samba_read_behavior(const samba_reader *r, const char *where, const json_t *object, samba_behavior *behavior);
samba_status samba_read_metaspace(const samba_reader *r, const char *where, const json_t *object, samba_text_step *step);

/* ---- the files ---- */
samba_status samba_json_open(samba_tokenizer *tokenizer, const char *path, const void *data, size_t size);
samba_status samba_json_take(samba_tokenizer *tokenizer, const char *path, const json_t *json); /* that is parsed already */
samba_status samba_sentencepiece_open(samba_tokenizer *tokenizer, const char *path, const void *data, size_t size);
samba_status samba_gpt2_open(samba_tokenizer *tokenizer, const char *folder);
/* specials.c: those beside the tokenizer; what is not there or damaged says nothing */
void samba_specials_read(samba_tokenizer *tokenizer, const char *folder);
void samba_specials_take(samba_tokenizer *tokenizer, const json_t *config); /* of a tokenizer_config.json */
void samba_specials_guess(samba_tokenizer *tokenizer);

#endif
