/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer: what a file said, checked once and then constant, and the walk from text to ids:
 *
 *   text -> added.c: added tokens are cut out -> normalize.c -> added.c again, for normalized ones
 *        -> split.c: pieces -> bpe.c, unigram.c, wordpiece.c: ids of a piece -> encode.c: tokens around them
 *
 * and back: ids -> decode.c: tokens, changed one after the other by the decoder's steps -> text. The steps of a component (a
 * Sequence is its parts, laid flat) are a list of samba_text_step, each a row that a file filled once.
 *
 * Offsets into the text are not kept: ids need none, but for the piece that begins at the text's begin, which a flag tells.
 *
 * Ownership: all of a tokenizer lies in its arena, under the context that opened it. What a call needs to work in belongs to a
 * samba_work, under the context of the caller, so threads share nothing that changes. */
#ifndef SAMBA_TEXT_TEXT_H
#define SAMBA_TEXT_TEXT_H

#include "base/base.h"

#include <sambaflow/text.h>
#include <string.h>

#define SAMBA_MOST_STEPS 32 /* of a component: what recurses once a step is bounded by it */
#define SAMBA_MOST_TOKENS (1 << 26)

/* ---- bytes of text, somebody's ---- */
typedef struct samba_str {
    const char *data;
    size_t size;
} samba_str;
static inline samba_str samba_str_of(const char *data, size_t size) { return (samba_str){data, size}; }
static inline bool samba_str_begins(samba_str text, samba_str with)
{
    return text.size >= with.size && memcmp(text.data, with.data, with.size) == 0;
}
static inline bool samba_str_equal(samba_str a, samba_str b) { return a.size == b.size && memcmp(a.data, b.data, a.size) == 0; }

/* Bytes that grow; the context is the work's. */
typedef struct samba_chars {
    char *data;
    int64_t size, capacity;
} samba_chars;
samba_status samba_chars_room(samba_context *context, samba_chars *chars, size_t more);
samba_status samba_chars_add(samba_context *context, samba_chars *chars, const char *data, size_t size);
samba_status samba_chars_add_code(samba_context *context, samba_chars *chars, uint32_t code);
void samba_chars_free(samba_context *context, samba_chars *chars);
static inline samba_str samba_chars_view(const samba_chars *chars)
{
    return samba_str_of(chars->data ? chars->data : "", (size_t)chars->size);
}

typedef struct samba_ids {
    int32_t *data;
    int64_t count, capacity;
} samba_ids;
static inline samba_status samba_ids_add(samba_context *context, samba_ids *ids, int32_t id)
{
    if (ids->count == ids->capacity)
        SAMBA_TRY(SAMBA_GROW(context, ids->data, ids->capacity, ids->count + 1));
    ids->data[ids->count++] = id;
    return SAMBA_OK;
}
void samba_ids_free(samba_context *context, samba_ids *ids);

/* ---- UTF-8 (utf8.c) ---- */
/* The character at `text`, which is valid UTF-8 and not at its end; *size is its bytes. */
static inline uint32_t samba_utf8_code(const char *text, int *size)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return *size = 1, p[0];
    if (p[0] < 0xe0)
        return *size = 2, (p[0] & 31u) << 6 | (p[1] & 63u);
    if (p[0] < 0xf0)
        return *size = 3, (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
    return *size = 4, (p[0] & 7u) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
}
static inline int samba_utf8_size(char first) /* of the character that begins so */
{
    unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}
int samba_utf8_put(uint32_t code, char *to); /* up to 4 bytes; how many */
/* Bytes of a whole character at the begin; 0 for those of none, of which *bad are to be one U+FFFD, and *cut tells that more
 * bytes could make them one. */
int samba_utf8_check(const char *text, size_t size, int *bad, bool *cut);
size_t samba_utf8_valid(const char *text, size_t size); /* how many bytes at the begin are */
/* Adds the text with U+FFFD for what is none. */
samba_status samba_utf8_mend(samba_context *context, samba_str text, samba_chars *to);

/* ---- classes of characters (unicode.c) ---- */
typedef struct samba_span { /* or a pair: from, to */
    uint32_t first, last;
} samba_span;
typedef struct samba_span_kind {
    uint32_t first, last, kind;
} samba_span_kind;
bool samba_char_is_space(uint32_t c);
bool samba_char_is_punctuation(uint32_t c);
bool samba_char_is_unclean(uint32_t c);
bool samba_char_is_nonspacing(uint32_t c);
bool samba_char_is_mark(uint32_t c);
bool samba_char_is_numeric(uint32_t c);
bool samba_char_is_word(uint32_t c);
bool samba_char_is_letter(uint32_t c); /* of regular expressions: \p{L}, \p{N} */
bool samba_char_is_number(uint32_t c);
bool samba_char_is_unnormalized(uint32_t c);
bool samba_char_is_ideograph(uint32_t c); /* as BertNormalizer has them */
uint32_t samba_char_lower(uint32_t c);
int samba_char_script(uint32_t c);
/* Ranges of the general category (its second letter 0: of all that begin so) which are newer than Unicode 14, one by one from
 * *at on; false behind the last. */
bool samba_char_newer(char major, char minor, int *at, samba_span *span);

/* ---- words and ids (vocab.c) ---- */
typedef struct samba_word {
    const char *text; /* with a NUL behind */
    uint32_t size;
    int32_t id;
} samba_word;
typedef struct samba_vocab {
    samba_word *words;
    int64_t count;
    char *room;               /* for the texts that are still to come */
    int32_t *by_text, *by_id; /* open addressing: the word's place, -1: none */
    uint64_t mask;            /* slots of each, less one */
} samba_vocab;
/* Once, before the first: for so many words with so many bytes together. */
samba_status samba_vocab_room(samba_arena *arena, samba_vocab *vocab, int64_t count, uint64_t bytes);
void samba_vocab_add(samba_vocab *vocab, const char *text, size_t size, int32_t id);
samba_status samba_vocab_index(samba_arena *arena, samba_vocab *vocab);                      /* once, behind the last */
int32_t samba_vocab_id(const samba_vocab *vocab, const char *text, size_t size);             /* -1: none */
const samba_word *samba_vocab_find(const samba_vocab *vocab, const char *text, size_t size); /* NULL: none */
const samba_word *samba_vocab_word(const samba_vocab *vocab, int32_t id);                    /* NULL: none */

/* ---- tries (trie.c): from a node by a byte to the next, 0: there is none; node 1 is the root ---- */
typedef struct samba_trie {
    uint64_t *slots; /* open addressing: node, byte, next */
    int32_t *values; /* of a node; -1: no key ends there */
    uint64_t mask;
    uint32_t nodes, room;
    uint8_t begins[256]; /* whether a key begins so */
} samba_trie;
samba_status samba_trie_init(samba_arena *arena, samba_trie *trie, uint64_t bytes); /* of all keys together */
void samba_trie_add(samba_trie *trie, samba_str key, int32_t value, bool replace);
size_t samba_trie_longest(const samba_trie *trie, samba_str text); /* bytes of the longest key at the begin; 0: none */
static inline uint32_t samba_trie_next(const samba_trie *trie, uint32_t node, uint8_t byte)
{
    const uint64_t key = (uint64_t)node << 8 | byte;
    for (uint64_t at = key * 0x9e3779b97f4a7c15u >> 20 & trie->mask;; at = (at + 1) & trie->mask) {
        if (trie->slots[at] == 0)
            return 0;
        if (trie->slots[at] >> 28 == key)
            return (uint32_t)(trie->slots[at] & 0xfffffff);
    }
}

/* ---- regular expressions (regex.c) ---- */
typedef struct samba_regex samba_regex;
/* `where` names the pattern in messages. FORMAT where it is none, UNSUPPORTED for what is not translated. It goes before those of
 * the list `all`, which is freed whole. */
samba_status samba_regex_new(samba_arena *arena, const char *where, const char *pattern, samba_regex **all, samba_regex **regex);
void samba_regex_free(samba_regex *all);
typedef struct samba_matcher samba_matcher; /* a work's memory to match in */
samba_status samba_matcher_new(samba_context *context, samba_matcher **matcher);
void samba_matcher_free(samba_matcher *matcher);
/* A new text for the matcher, whose steps are counted over it. */
void samba_matcher_begin(samba_matcher *matcher, size_t size);
/* The next match from `from` on: *begin and *end; *begin is SIZE_MAX where there is none. UNSUPPORTED where it takes too many
 * steps. */
samba_status samba_regex_find(const samba_regex *regex, samba_matcher *matcher, samba_str text, size_t from, size_t *begin,
                              size_t *end);

/* ---- a component's step ---- */
typedef enum samba_step_kind {
    /* normalizers */
    SAMBA_STEP_FORM, /* NFC, NFD, NFKC, NFKD */
    SAMBA_STEP_LOWERCASE,
    SAMBA_STEP_DROP_CLASS, /* characters that `belongs` tells of */
    SAMBA_STEP_STRIP,
    SAMBA_STEP_REPLACE,
    SAMBA_STEP_PREPEND,
    SAMBA_STEP_BERT,
    SAMBA_STEP_NMT,
    SAMBA_STEP_PRECOMPILED,
    SAMBA_STEP_BYTES,
    SAMBA_STEP_SENTENCEPIECE,
    /* pre-tokenizers */
    SAMBA_STEP_BYTE_LEVEL,
    SAMBA_STEP_WHITESPACE,
    SAMBA_STEP_SPLIT_CLASS, /* characters of a class: `belongs` */
    SAMBA_STEP_SPLIT,
    SAMBA_STEP_METASPACE,
    SAMBA_STEP_SCRIPTS,
    SAMBA_STEP_FIXED_LENGTH,
    /* decoders */
    SAMBA_STEP_DECODE_BYTES,
    SAMBA_STEP_DECODE_WORDPIECE,
    SAMBA_STEP_DECODE_METASPACE,
    SAMBA_STEP_DECODE_BPE,
    SAMBA_STEP_DECODE_CTC,
    SAMBA_STEP_DECODE_BYTE_FALLBACK,
    SAMBA_STEP_DECODE_FUSE,
    SAMBA_STEP_DECODE_STRIP,
    SAMBA_STEP_DECODE_REPLACE,
    SAMBA_STEP_DECODE_SENTENCEPIECE,
} samba_step_kind;

typedef enum samba_behavior { /* of a split: what becomes of matches */
                              SAMBA_REMOVED,
                              SAMBA_ISOLATED,
                              SAMBA_MERGED_WITH_PREVIOUS,
                              SAMBA_MERGED_WITH_NEXT,
                              SAMBA_CONTIGUOUS
} samba_behavior;

typedef enum samba_prepend { SAMBA_NEVER, SAMBA_FIRST, SAMBA_ALWAYS } samba_prepend;

typedef struct samba_charsmap samba_charsmap;

typedef struct samba_text_step {
    samba_step_kind kind;
    int flags;            /* FORM: samba_form; STRIP: 1 left, 2 right; BERT: 1 clean, 2 ideographs */
    samba_regex *regex;   /* SPLIT, REPLACE, DECODE_REPLACE, BYTE_LEVEL; NULL: `text` is the pattern, of BYTE_LEVEL none */
    samba_str text, with; /* the pattern and what takes its place; prefix, suffix, replacement, delimiter */
    samba_behavior behavior;
    samba_prepend prepend;
    bool invert, cleanup, split;
    int64_t start, stop; /* STRIP of decoders; FIXED_LENGTH: start */
    bool (*belongs)(uint32_t c);
    samba_charsmap *charsmap;
    const bool *plain; /* SENTENCEPIECE: which of ASCII's characters stay as they are before another of them */
} samba_text_step;
typedef enum samba_form { SAMBA_NFC = 1, SAMBA_NFD = 2, SAMBA_NFKC = 5, SAMBA_NFKD = 6 } samba_form;

typedef struct samba_text_steps {
    samba_text_step steps[SAMBA_MOST_STEPS];
    int count;
} samba_text_steps;

/* ---- models ---- */
typedef struct samba_merge {
    int32_t left, right, rank, made; /* left -1: an empty slot */
} samba_merge;
typedef struct samba_bpe {
    samba_merge *merges; /* open addressing by left and right */
    uint64_t mask;
    int32_t *chars;     /* the id of each character below U+0800 alone, -1: none */
    int32_t bytes[256]; /* of <0x00> and its like, -1: none */
    samba_str prefix, suffix;
    int32_t unknown;          /* -1: unknown characters are left out, but for an */
    const char *unknown_text; /* unk_token that is not in the vocabulary; else NULL */
    bool fuse, byte_fallback, ignore_merges;
    bool apart;      /* no merge reaches from another character to a U+2581 behind it */
    bool chars_only; /* nothing merges */
    bool by_score;   /* SentencePiece: any two neighbours that are a piece together merge, the best score first */
    int32_t *ranks;  /* by id; for by_score. -1: it is not made by merging */
} samba_bpe;
typedef struct samba_unigram {
    samba_trie trie; /* values are places in `scores` */
    double *scores;
    int64_t count;
    int32_t unknown; /* -1: none */
    int32_t bytes[256];
    double unknown_score;
    bool byte_fallback;
    bool single; /* SentencePiece adds scores as floats */
} samba_unigram;
typedef struct samba_wordpiece {
    samba_trie trie;
    uint32_t inner; /* the node behind the prefix, 0: none */
    int64_t most;   /* characters of a word */
    int32_t unknown;
    const char *unknown_text;
    bool whole; /* WordLevel */
} samba_wordpiece;
typedef enum samba_model_kind { SAMBA_MODEL_BPE, SAMBA_MODEL_UNIGRAM, SAMBA_MODEL_WORDPIECE } samba_model_kind;

/* ---- added tokens (added.c) ---- */
typedef struct samba_added {
    samba_str text;
    int32_t id;
    bool special, normalized, single_word, lstrip, rstrip;
} samba_added;

typedef struct samba_around { /* the post-processor: tokens before and behind */
    int32_t *before, *behind;
    int64_t before_count, behind_count;
} samba_around;

typedef struct samba_dense { /* an id's */
    const samba_word *word;  /* NULL: there is none */
    const char *plain;       /* decode_plain.c: what it decodes to between others; NULL: that depends on them */
    uint32_t plain_size;
    bool whole; /* whether that is whole characters */
    bool special;
} samba_dense;
typedef struct samba_stage_state { /* of a samba_stage that keeps no text */
    int64_t count, run;
    bool open, past, waits;
} samba_stage_state;

struct samba_tokenizer {
    samba_context *context;
    samba_arena arena;
    samba_vocab vocab; /* the model's */
    samba_model_kind model;
    samba_bpe bpe;
    samba_unigram unigram;
    samba_wordpiece wordpiece;
    samba_text_steps normalizer, splitter, decoder;
    bool has_decoder;
    samba_around around;
    samba_added *added; /* in the order of the file, each text once */
    int64_t added_count;
    samba_vocab added_vocab, added_shown;   /* as the file spells them; as the normalizer does, which is how they are decoded */
    samba_trie added_raw, added_normalized; /* values are places in `added` */
    bool any_raw, any_normalized;
    int64_t size;
    int32_t special[7];
    uint8_t *control, *types; /* SentencePiece: whether an id is never text, its type; NULL: all else */
    samba_trie defined;       /* its user-defined symbols */
    samba_word surface;       /* what its unknown token decodes to */
    samba_dense *shown;       /* decode.c: by id, for most ids */
    int64_t shown_count;
    bool bytes_alone;           /* decode_plain.c: ByteLevel is all of the decoder */
    bool settles;               /* whether its stages have a state to which plain tokens leave them */
    samba_stage_state *settled; /* which */
    samba_regex *regexes;       /* all, to be freed */
};

/* ---- a call's or encoder's memory (encode.c) ---- */
typedef struct samba_cell { /* a cached word */
    uint64_t hash;
    uint8_t size, count; /* count 0: empty */
    char text[54];
    int32_t ids[16];
} samba_cell;
typedef struct samba_symbol {
    int32_t id, before, behind; /* neighbours; -1: none. id -1: merged into the one before it */
    uint32_t begin, size;
    bool frozen; /* SentencePiece: it never merges */
} samba_symbol;
typedef struct samba_offer {
    int32_t rank, at, made;
} samba_offer;
typedef struct samba_best {
    double score;
    int32_t from, word; /* from -1: not reached */
} samba_best;
typedef struct samba_stage {        /* a step of the decoder at work: decode_stage.c */
    samba_chars held, made, before; /* a piece of which parts have come; what goes to the next stage or waits for more; a token */
    int64_t count, run;
    bool open, past, waits; /* a piece has begun; one has come; something waits for what comes next */
} samba_stage;
typedef struct samba_work {
    samba_context *context;
    const samba_tokenizer *tokenizer;
    samba_matcher *matcher;
    samba_ids ids, wrapped;
    samba_chars mended, normal[2], word, steps[SAMBA_MOST_STEPS], spaced[SAMBA_MOST_STEPS];
    samba_cell *cells; /* NULL: no cache */
    samba_symbol *symbols;
    samba_offer *offers;
    samba_best *nodes;
    int32_t *codes;
    int64_t symbol_room, offer_room, offer_count, node_room, code_room;
    samba_stage stages[SAMBA_MOST_STEPS];
    bool joined;  /* decode.c: a token has come, of a tokenizer without a decoder */
    bool settled; /* the stages are in the tokenizer's settled state */
} samba_work;
enum { SAMBA_CELLS = 1 << 15 };
samba_status samba_work_init(samba_work *work, samba_context *context, const samba_tokenizer *tokenizer, bool cache);
void samba_work_free(samba_work *work);
samba_status samba_work_encode(samba_work *work, samba_str text, bool special); /* ids in work->ids */

/* normalize.c: the text after all steps, in the work's memory or as it was. *zero: so many bytes at its begin come from the first
 * character of the text. */
samba_status samba_normal_text(samba_work *work, const samba_text_steps *steps, samba_str text, samba_str *normal, size_t *zero);
/* The text with each match of the step's pattern as its `with`; also a decoder's. */
samba_status samba_normalize_replace(samba_work *work, const samba_text_step *step, samba_str text, samba_chars *to);
/* The matches of the step's pattern in turn, as `tokenizers` finds them: false behind the last. */
typedef struct samba_search {
    size_t at, last;
} samba_search;
samba_status samba_search_next(samba_work *work, const samba_text_step *step, samba_str text, samba_search *search, size_t *begin,
                               size_t *end);
/* sentencepiece.c */
samba_status samba_sentencepiece_normalize(samba_work *work, const samba_text_step *step, samba_str text, samba_chars *to);
/* form.c: the Unicode forms of normalization */
samba_status samba_normalize_form(samba_work *work, samba_form form, samba_str text, samba_chars *to);
/* charsmap.c: SentencePiece's table of what is written for what */
samba_status samba_charsmap_new(samba_context *context, samba_arena *arena, const char *where, samba_str bytes,
                                samba_charsmap **map);
samba_status samba_charsmap_apply(samba_context *context, const samba_charsmap *map, samba_str text, samba_chars *to);
/* What stands for the longest key at the begin of the text, whose bytes are *size; 0: no key is there. */
bool samba_charsmap_leaves(const samba_charsmap *map, uint8_t c); /* whether no key is this of ASCII, or this and another */
samba_str samba_charsmap_longest(const samba_charsmap *map, samba_str text, size_t *size);

/* split.c: the ids of a normalized text; `zero` of its bytes come from the begin of the whole one */
samba_status samba_split_text(samba_work *work, int step, samba_str piece, size_t zero);

/* The ids of a piece, added to work->ids: model.c and those of the models. */
samba_status samba_model_ids(samba_work *work, samba_str piece);
samba_status samba_bpe_ids(samba_work *work, samba_str piece);
samba_status samba_unigram_ids(samba_work *work, samba_str piece);
samba_status samba_wordpiece_ids(samba_work *work, samba_str piece);

/* gpt2.c: where the match of GPT-2's regular expression ends that begins at `at`, which is in the piece */
size_t samba_gpt2_end(samba_str piece, size_t at);

/* bytes.c: GPT-2's characters for bytes */
uint32_t samba_byte_char(uint8_t byte);
int samba_char_byte(uint32_t c); /* -1: none */
samba_status samba_bytes_as_chars(samba_context *context, samba_str bytes, samba_chars *to);

/* added.c */
samba_status samba_added_index(samba_tokenizer *tokenizer);
/* Cuts the text: found(…) with the id, or with -1 and the text between, in order. */
typedef samba_status samba_added_found(samba_work *work, int32_t id, samba_str text, size_t zero);
samba_status samba_added_cut(samba_work *work, const samba_trie *trie, samba_str text, size_t zero, samba_added_found *found);

samba_status samba_decode_index(samba_tokenizer *tokenizer); /* decode.c, once, behind the last token */
/* decode.c: the text of tokens, id by id: what is told for good is added to the text, the rest at the end. */
void samba_decode_begin(samba_work *work, size_t size); /* of so many bytes of tokens, as far as is known */
samba_status samba_decode_next(samba_work *work, int32_t id, bool skip_special, samba_chars *to);
samba_status samba_decode_end(samba_work *work, samba_chars *to);
samba_status samba_decode_word(samba_work *work, const samba_word *word, samba_chars *to); /* through the stages */
const samba_word *samba_tokenizer_word(const samba_tokenizer *tokenizer, int32_t id);      /* added ones first; NULL: none */
/* decode_plain.c: the texts of plain tokens, once, behind the rest of the index. */
samba_status samba_plain_index(samba_tokenizer *tokenizer);
bool samba_plain_settled(const samba_work *work);
/* The texts of so many tokens at the begin as are plain: *done of them. */
samba_status samba_plain_add(samba_work *work, const int32_t *ids, int64_t count, bool skip_special, samba_chars *to,
                             int64_t *done);
/* decode_stage.c: a part of a piece, of whole characters, for a stage; `end`: the piece's last. */
typedef struct samba_stages {
    samba_work *work;
    samba_stage *stages;
    samba_chars *to;
} samba_stages;
samba_status samba_stages_push(samba_stages *line, int stage, samba_str text, bool end);
samba_status samba_stages_end(samba_stages *line);
samba_status samba_stages_bytes(samba_context *context, samba_str token, samba_chars *to); /* that ByteLevel has for it */

#endif
