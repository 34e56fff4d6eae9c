/* SPDX-License-Identifier: Apache-2.0
 *
 * Data preparation in three steps, each of which can be interrupted: `scan` reads the input once, checks its lines, counts the
 * articles and, to shuffle them, deals them into buckets on the disk; `pack` reads the articles in their order, tokenizes them by
 * all threads and packs them, in order, into a spool of sequences; `write` makes the HDF5 files of the spools. The folder
 * OUTPUT/.prepare has the buckets, the spools and state.json, which says how far the work has come.
 *
 * The order of a shuffle is that of keys, one for each article's number (samba_prepare_key), so neither buckets nor memory change
 * it. One samba_preparation owns everything; what grows is bounded by the options' memory. */
#ifndef SAMBA_PREPARE_H
#define SAMBA_PREPARE_H

#include "base/base.h"
#include <sambaflow/prepare.h>
#include <sambaflow/text.h>

#include <jansson.h>

enum { SAMBA_PARTS = 2, SAMBA_TRAIN = 0, SAMBA_DEV = 1, SAMBA_MOST_BUCKETS = 512, SAMBA_MOST_LINES = 1 << 16 /* of a batch */ };
#define SAMBA_PREPARE_PATH (PATH_MAX + 320)
#define SAMBA_RESULT_COUNTS 13 /* the int64_t at the begin of a samba_prepare_result */

/* ---- lines (lines.c) ---- */
typedef struct samba_line {
    const char *text;
    int64_t length; /* with its newline, if it has one */
    int64_t number; /* in the input, from 1 */
} samba_line;
typedef struct samba_batch { /* lines that are worked on together */
    char *text;
    int64_t size, capacity;
    samba_line *lines;
    int64_t count, line_capacity;
} samba_batch;
typedef struct samba_reader { /* of the input */
    int file;
    int64_t offset, line, size; /* where the next batch begins */
} samba_reader;

/* ---- articles (article.c) ---- */
typedef struct samba_pair {
    int64_t tokens;
    int32_t category; /* -1: none */
} samba_pair;
typedef struct samba_article {
    bool there; /* else the line is blank or was skipped */
    bool bad;
    int worker; /* in whose memory its tokens lie */
    int64_t first_pair, pairs, first_token;
} samba_article;
typedef struct samba_worker { /* a thread's own */
    samba_context *context;
    samba_token_encoder *encoder;
    int32_t *ids;
    uint8_t *types;
    int64_t tokens, id_capacity, type_capacity;
    samba_pair *pairs;
    int64_t pair_count, pair_capacity;
    char *text; /* that is being made */
    int64_t text_size, text_capacity;
    samba_status status; /* of the first line that it failed at */
    int64_t failed_line;
} samba_worker;

/* ---- packing (pack.c) ---- */
typedef struct samba_packer { /* of a part */
    int spool;
    int64_t spool_bytes; /* that are in the file */
    char *buffer;        /* what is to be appended */
    int64_t buffered;
    int32_t *ids, *categories; /* the sequence being filled */
    uint8_t *types;
    int64_t filled;
    int64_t sequences, tokens, dropped_sequences, dropped_units, truncated_units;
} samba_packer;

typedef struct samba_preparation {
    samba_context *context;
    samba_prepare_options o;
    const char *input, *tokenizer_path, *output;
    char work[SAMBA_PREPARE_PATH]; /* the folder */
    int lock;                      /* a file that one process holds */
    bool text;                     /* the input is .txt */
    samba_tokenizer *tokenizer;
    samba_chat_template *chat; /* NULL: the folder has none that can be used, as chat_reason says */
    char chat_reason[256];
    int32_t bos, eos, pad; /* bos -1: none */
    int64_t vocab_size;    /* 0: unbounded */
    json_t *categories;    /* names and ids; NULL: none */
    uint64_t fingerprint, input_time;
    samba_reader reader;
    samba_batch batch;
    samba_article *articles;
    int64_t article_capacity;
    int threads;
    samba_worker *workers;
    void *allocating; /* of the workers' contexts */
    int64_t next;     /* line to be taken by a worker */
    bool tokenize;    /* else lines are checked alone */

    /* how far the work has come: what state.json has */
    bool scanned, packed, resumed;
    int buckets; /* 0: not shuffled */
    int64_t articles_total, bad_lines, part_articles[SAMBA_PARTS + 1];
    int64_t article;           /* the next one's place in the order */
    int64_t bucket, in_bucket; /* where it lies */
    int test_file;             /* the last one that was begun; 0: none */
    int64_t test_bytes;        /* of it */
    int test_spool;            /* -1: not open */
    samba_packer packers[SAMBA_PARTS];
    double saved; /* when */
} samba_preparation;

extern const char *const samba_part_names[SAMBA_PARTS + 1];
/* FILE, with the system's reason. */
samba_status samba_prepare_fail(samba_preparation *p, const char *verb, const char *path);
samba_status samba_prepare_put(samba_preparation *p, int file, const char *path, const void *data, size_t size);
void samba_prepare_tell(samba_preparation *p, const char *stage, double share);
/* OUTPUT/.prepare/NAME */
void samba_prepare_path(const samba_preparation *p, char path[SAMBA_PREPARE_PATH], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* settings.c: the options checked, the tokenizer's special tokens and categories found, the fingerprint of all that the result
 * depends on. */
samba_status samba_prepare_settle(samba_preparation *p, const samba_prepare_options *given);
extern const char *const samba_packing_names[7], *const samba_boundary_names[2];
#define SAMBA_TOKENIZER_FILES 9
extern const char *const samba_tokenizer_files[SAMBA_TOKENIZER_FILES];
/* The folder of the tokenizer: the one given, or that of the file given, "." where it has none. */
void samba_tokenizer_folder(const samba_preparation *p, char path[SAMBA_PREPARE_PATH]);

/* lines.c */
samba_status samba_reader_open(samba_preparation *p);
/* Whole lines, at least one where there is one: count 0 at the end. */
samba_status samba_batch_read(samba_preparation *p);
samba_status samba_batch_add(samba_preparation *p, const char *text, int64_t length, int64_t number);

/* team.c: the workers; each line of the batch checked, and tokenized where p->tokenize says so, into p->articles. */
samba_status samba_workers_new(samba_preparation *p);
void samba_workers_free(samba_preparation *p);
samba_status samba_batch_work(samba_preparation *p);
samba_status samba_article_read(samba_preparation *p, samba_worker *worker, const samba_line *line, samba_article *article);

/* chat.c: the text of an object's "messages", of which the spans are the assistant's, in their order; samba_chat_end frees it,
 * also after a failure. FORMAT, ARGUMENT: it is the conversation's fault. */
typedef struct samba_spoken {
    samba_chat_text text;
    samba_chat_span *spans;
    int64_t count, room; /* room 0: the spans are the text's */
} samba_spoken;
samba_status samba_chat_read(const samba_preparation *p, samba_context *context, const json_t *object, samba_spoken *spoken);
void samba_chat_end(samba_context *context, samba_spoken *spoken);

/* shuffle.c */
uint64_t samba_prepare_key(uint64_t seed, uint64_t article);
samba_status samba_prepare_scan(samba_preparation *p);
typedef struct samba_bucket { /* sorted */
    char *data;
    size_t size;
    struct samba_dealt *order;
    int64_t count;
} samba_bucket;
samba_status samba_bucket_open(samba_preparation *p, int64_t number, samba_bucket *bucket);
samba_line samba_bucket_line(const samba_bucket *bucket, int64_t i);
void samba_bucket_close(samba_preparation *p, samba_bucket *bucket);

/* pack.c */
samba_status samba_packer_open(samba_preparation *p, int part);
void samba_packer_close(samba_preparation *p, int part);
samba_status samba_packer_article(samba_preparation *p, int part, const samba_article *article);
samba_status samba_packer_end(samba_preparation *p, int part);   /* the last sequence */
samba_status samba_packer_flush(samba_preparation *p, int part); /* to the disk */
size_t samba_spool_row(const samba_preparation *p);              /* bytes of a sequence: ids, categories where asked for, types */
samba_status samba_prepare_pack(samba_preparation *p);

/* state.c */
samba_status samba_state_begin(samba_preparation *p, bool *done, samba_prepare_result *result);
samba_status samba_state_save(samba_preparation *p);
void samba_state_end(const samba_preparation *p); /* removes the work folder */

/* write.c */
samba_status samba_prepare_write(samba_preparation *p);
/* finish.c: the counts of a result and their names in metadata.yaml; test files, metadata.yaml, the tokenizer, checksums.txt */
extern const char *const samba_result_names[SAMBA_RESULT_COUNTS];
int64_t *samba_result_at(samba_prepare_result *result, int i);
void samba_prepare_count(samba_preparation *p, samba_prepare_result *result);
samba_status samba_prepare_finish(samba_preparation *p, samba_prepare_result *result);

/* A part's file `i` from 1 on has things [begin, end) of `count`. */
static inline void samba_part_share(int64_t count, int files, int i, int64_t *begin, int64_t *end)
{
    int64_t more = count % files, least = count / files, at = i - 1;
    *begin = least * at + (at < more ? at : more);
    *end = *begin + least + (at < more);
}

#endif
