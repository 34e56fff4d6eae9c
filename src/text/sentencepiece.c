/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece's models: its message as a tokenizer of ours. Normalization is one step, which goes through the text by the
 * longest key of the charsmap and by user-defined symbols, collapses spaces and writes them as U+2581. The whole text is one
 * piece for the model: Unigram, BPE by scores, or single characters, which are BPE without merges.
 *
 * Control symbols are never found in a text and decode to nothing. Needs protobuf-c, whose message lives while it is read. */
#include "text/read.h"

#include "sentencepiece.pb-c.h"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };
enum { UNIGRAM = 1, BPE = 2, WORD = 3, CHAR = 4 };
#define SPACE "\xe2\x96\x81"

static void *take(void *context, size_t size)
{
    char *block = size < SIZE_MAX / 2 ? samba_alloc(context, size + 64) : NULL;
    if (!block)
        return NULL;
    memcpy(block, &size, sizeof size);
    return block + 64;
}

static void give(void *context, void *block)
{
    size_t size;
    if (!block)
        return;
    memcpy(&size, (char *)block - 64, sizeof size);
    samba_free(context, (char *)block - 64, size + 64);
}

static bool is_text(int type) { return type == NORMAL || type == USER_DEFINED; }
/* Whether a text may have the piece's characters. */
static bool is_shown(const samba_tokenizer *t, int32_t id) { return t->types[id] != BYTE && !t->control[id]; }

/* Pieces into the vocabulary, with their types; the user-defined ones into a trie. */
static samba_status read_pieces(const samba_reader *r, const Samba__Piece__Model *model, int32_t *unknown)
{
    samba_tokenizer *t = r->tokenizer;
    uint64_t bytes = 0, defined = 0;
    const int64_t count = (int64_t)model->n_pieces;
    *unknown = -1;
    for (int64_t i = 0; i < count; i++) {
        const Samba__Piece__Piece *piece = model->pieces[i];
        const size_t size = piece->piece ? strlen(piece->piece) : 0;
        if (size == 0 || samba_utf8_valid(piece->piece, size) < size)
            return samba_reader_fail(r, "", "piece %lld is empty or no UTF-8", (long long)i);
        if (piece->type < NORMAL || piece->type > BYTE || piece->type == UNUSED)
            return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: piece %lld is of type %d, which is not supported",
                              r->path, (long long)i, piece->type);
        if (!(piece->score > -1e30f && piece->score < 1e30f))
            return samba_reader_fail(r, "", "the score of piece %lld is no number", (long long)i);
        bytes += size;
        defined += piece->type == USER_DEFINED ? size : 0;
        if (piece->type == UNKNOWN)
            *unknown = (int32_t)i;
    }
    if (*unknown < 0)
        return samba_reader_fail(r, "", "the model has no piece for unknown text");
    SAMBA_TRY(samba_vocab_room(r->arena, &t->vocab, count, bytes));
    SAMBA_TRY(samba_trie_init(r->arena, &t->defined, defined));
    SAMBA_TRY(SAMBA_ROOM(r->arena, t->control, count));
    SAMBA_TRY(SAMBA_ROOM(r->arena, t->types, count));
    for (int64_t i = 0; i < count; i++) {
        const Samba__Piece__Piece *piece = model->pieces[i];
        const samba_str text = samba_str_of(piece->piece, strlen(piece->piece));
        samba_vocab_add(&t->vocab, text.data, text.size, (int32_t)i);
        t->types[i] = (uint8_t)piece->type;
        t->control[i] = piece->type == CONTROL;
        if (piece->type == USER_DEFINED)
            samba_trie_add(&t->defined, text, (int32_t)i, true);
    }
    return samba_vocab_index(r->arena, &t->vocab);
}

static samba_status read_unigram(const samba_reader *r, const Samba__Piece__Model *model, int32_t unknown, bool bytes)
{
    samba_unigram *u = &r->tokenizer->unigram;
    uint64_t size = 0;
    float least = 0, most = 0;
    bool any = false;
    r->tokenizer->model = SAMBA_MODEL_UNIGRAM;
    for (size_t i = 0; i < model->n_pieces; i++) {
        const Samba__Piece__Piece *piece = model->pieces[i];
        size += strlen(piece->piece);
        if (piece->type == NORMAL) {
            least = !any || piece->score < least ? piece->score : least;
            most = !any || piece->score > most ? piece->score : most;
            any = true;
        }
    }
    SAMBA_TRY(samba_trie_init(r->arena, &u->trie, size));
    SAMBA_TRY(SAMBA_ROOM(r->arena, u->scores, model->n_pieces));
    for (size_t i = 0; i < model->n_pieces; i++) {
        const Samba__Piece__Piece *piece = model->pieces[i];
        const size_t length = strlen(piece->piece);
        u->scores[i] = piece->type == USER_DEFINED ? (double)((float)length * most) - 0.1 : (double)piece->score;
        if (is_text(piece->type))
            samba_trie_add(&u->trie, samba_str_of(piece->piece, length), (int32_t)i, true);
    }
    u->count = (int64_t)model->n_pieces;
    u->single = true;
    u->unknown = unknown;
    u->unknown_score = (double)(least - 10.0f);
    u->byte_fallback = bytes;
    return samba_read_byte_tokens(r, u->bytes);
}

typedef struct ranked {
    float score;
    int32_t id;
} ranked;

static void sift(ranked *rows, int64_t at, int64_t count)
{
    const ranked row = rows[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && rows[child + 1].score < rows[child].score)
            child++;
        if (!(rows[child].score < row.score))
            break;
        rows[at] = rows[child];
        at = child;
    }
    rows[at] = row;
}

/* The rank of each piece among the scores, the best first; pieces of one score have one rank. */
static samba_status read_bpe(const samba_reader *r, const Samba__Piece__Model *model, int32_t unknown, bool bytes, bool merges)
{
    samba_bpe *bpe = &r->tokenizer->bpe;
    const int64_t count = (int64_t)model->n_pieces;
    ranked *rows = samba_alloc(r->context, (size_t)count * sizeof *rows);
    if (!rows)
        return SAMBA_ERROR_MEMORY;
    r->tokenizer->model = SAMBA_MODEL_BPE;
    samba_status status = SAMBA_ROOM(r->arena, bpe->ranks, count);
    for (int64_t i = 0; status == SAMBA_OK && i < count; i++) {
        bpe->ranks[i] = -1;
        rows[i] = (ranked){model->pieces[i]->score, (int32_t)i};
    }
    if (status == SAMBA_OK) { /* sorted by a heap: from the greatest to the least */
        for (int64_t i = count / 2; i-- > 0;)
            sift(rows, i, count);
        for (int64_t end = count - 1; end > 0; end--) {
            const ranked first = rows[0];
            rows[0] = rows[end];
            rows[end] = first;
            sift(rows, 0, end);
        }
        int32_t rank = 0;
        for (int64_t i = 0; i < count; i++) {
            rank += i > 0 && rows[i].score != rows[i - 1].score;
            if (merges && is_text(model->pieces[rows[i].id]->type))
                bpe->ranks[rows[i].id] = rank;
        }
    }
    samba_free(r->context, rows, (size_t)count * sizeof *rows);
    SAMBA_TRY(status);
    bpe->by_score = true;
    bpe->unknown = unknown;
    bpe->byte_fallback = bytes;
    const int32_t mark = samba_vocab_id(&r->tokenizer->vocab, SPACE, 3);
    bpe->apart = mark >= 0 && is_text(r->tokenizer->types[mark]) && samba_read_apart(r->tokenizer);
    bpe->chars_only = !merges;
    SAMBA_TRY(samba_read_chars(r));
    for (int c = 0; c < 0x800; c++)
        if (bpe->chars[c] >= 0 && !is_shown(r->tokenizer, bpe->chars[c]))
            bpe->chars[c] = -1;
    return SAMBA_OK;
}

static samba_status read_plain(const samba_reader *r, samba_text_step *step)
{
    bool *plain;
    SAMBA_TRY(SAMBA_ROOM(r->arena, plain, 128));
    for (int c = 0; c < 128; c++)
        plain[c] = c != ' ' && !r->tokenizer->defined.begins[c] &&
                   (!step->charsmap || samba_charsmap_leaves(step->charsmap, (uint8_t)c));
    step->plain = plain;
    return SAMBA_OK;
}

static samba_status read_model(const samba_reader *r, const Samba__Piece__Model *model)
{
    samba_tokenizer *t = r->tokenizer;
    const Samba__Piece__Trainer *trainer = model->trainer_spec;
    const Samba__Piece__Normalizer *normalizer = model->normalizer_spec;
    const int type = trainer ? trainer->model_type : UNIGRAM;
    const bool bytes = trainer && trainer->byte_fallback;
    int32_t unknown;
    if (trainer && trainer->treat_whitespace_as_suffix)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: treat_whitespace_as_suffix is not supported", r->path);
    if (type != UNIGRAM && type != BPE && type != CHAR)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: a model of type %d%s is not supported", r->path, type,
                          type == WORD ? " (words)" : "");
    if (model->denormalizer_spec && model->denormalizer_spec->precompiled_charsmap.len > 0)
        return samba_fail(r->context, SAMBA_ERROR_UNSUPPORTED, "%s: a denormalizer is not supported", r->path);
    SAMBA_TRY(read_pieces(r, model, &unknown));
    SAMBA_TRY(type == UNIGRAM ? read_unigram(r, model, unknown, bytes) : read_bpe(r, model, unknown, bytes, type == BPE));
    samba_text_step step = {.kind = SAMBA_STEP_SENTENCEPIECE, .prepend = SAMBA_ALWAYS, .cleanup = true, .split = true};
    if (normalizer) {
        const ProtobufCBinaryData map = normalizer->precompiled_charsmap;
        step.prepend = normalizer->add_dummy_prefix ? SAMBA_ALWAYS : SAMBA_NEVER;
        step.cleanup = normalizer->remove_extra_whitespaces;
        step.split = normalizer->escape_whitespaces;
        if (map.len > 0)
            SAMBA_TRY(samba_charsmap_new(r->context, r->arena, r->path, samba_str_of((char *)map.data, map.len), &step.charsmap));
    }
    SAMBA_TRY(read_plain(r, &step));
    SAMBA_TRY(samba_step_add(r, "", &t->normalizer, step));
    SAMBA_TRY(samba_step_add(r, "", &t->decoder, (samba_text_step){.kind = SAMBA_STEP_DECODE_BYTE_FALLBACK, .split = true}));
    step.kind = SAMBA_STEP_DECODE_SENTENCEPIECE;
    SAMBA_TRY(samba_step_add(r, "", &t->decoder, step));
    t->has_decoder = true;
    const char *surface = trainer && trainer->unk_surface ? trainer->unk_surface : " \xe2\x81\x87 ";
    char *copy;
    SAMBA_TRY(samba_arena_copy(r->arena, surface, &copy));
    if (samba_utf8_valid(copy, strlen(copy)) < strlen(copy))
        return samba_reader_fail(r, "", "unk_surface is no UTF-8");
    t->surface = (samba_word){copy, (uint32_t)strlen(copy), unknown};
    const int32_t ids[] = {trainer ? trainer->bos_id : 1, trainer ? trainer->eos_id : 2, trainer ? trainer->pad_id : -1};
    for (int i = 0; i < SAMBA_COUNT(ids); i++) /* BOS, EOS, PAD */
        t->special[i] = ids[i] >= 0 && ids[i] < t->vocab.count && t->types[ids[i]] == CONTROL ? ids[i] : -1;
    return samba_add_tokens(r, NULL, 0);
}

samba_status samba_sentencepiece_open(samba_tokenizer *tokenizer, const char *path, const void *data, size_t size)
{
    const samba_reader r = {tokenizer, tokenizer->context, &tokenizer->arena, path};
    ProtobufCAllocator allocator = {take, give, tokenizer->context};
    const int64_t refused = samba_memory_refused(tokenizer->context);
    Samba__Piece__Model *model = samba__piece__model__unpack(&allocator, size, data);
    if (!model && samba_memory_refused(tokenizer->context) != refused)
        return SAMBA_ERROR_MEMORY;
    if (!model || model->n_pieces == 0) {
        if (model)
            samba__piece__model__free_unpacked(model, &allocator);
        return samba_fail(tokenizer->context, SAMBA_ERROR_FORMAT,
                          "%s: this is no SentencePiece model: its message is damaged or has no pieces", path);
    }
    samba_status status = read_model(&r, model);
    samba__piece__model__free_unpacked(model, &allocator);
    return status;
}

/* ---- normalization ---- */
/* What stands for the begin of the text, of which it takes *size bytes. */
static samba_str next_part(const samba_tokenizer *t, const samba_text_step *step, samba_str text, size_t *size)
{
    const size_t defined = samba_trie_longest(&t->defined, text);
    if (defined > 0) {
        *size = defined;
        return samba_str_of(text.data, defined);
    }
    if (step->charsmap) {
        const samba_str made = samba_charsmap_longest(step->charsmap, text, size);
        if (*size > 0)
            return made;
    }
    *size = (size_t)samba_utf8_size(text.data[0]);
    return samba_str_of(text.data, *size);
}

/* The bytes at the begin that stay as they are. */
static size_t plain_run(const samba_text_step *step, samba_str text)
{
    size_t size = 0;
    while (size < text.size && (uint8_t)text.data[size] < 0x80 && step->plain[(uint8_t)text.data[size]])
        size++;
    const bool before_other = size > 0 && size < text.size && (uint8_t)text.data[size] >= 0x80; /* a key may have both */
    return size - before_other;
}

samba_status samba_sentencepiece_normalize(samba_work *work, const samba_text_step *step, samba_str text, samba_chars *to)
{
    const samba_tokenizer *t = work->tokenizer;
    samba_context *context = work->context;
    const samba_str space = step->split ? samba_str_of(SPACE, 3) : samba_str_of(" ", 1);
    bool spaced = step->cleanup; /* a space before is as good as written */
    size_t at = 0, size;
    while (step->cleanup && at < text.size) {
        const samba_str part = next_part(t, step, samba_str_of(text.data + at, text.size - at), &size);
        if (part.size != 1 || part.data[0] != ' ')
            break;
        at += size;
    }
    if (at == text.size)
        return SAMBA_OK;
    if (step->prepend == SAMBA_ALWAYS)
        SAMBA_TRY(samba_chars_add(context, to, space.data, space.size));
    SAMBA_TRY(samba_chars_room(context, to, text.size - at));
    for (; at < text.size; at += size) {
        size = plain_run(step, samba_str_of(text.data + at, text.size - at));
        if (size > 0) {
            SAMBA_TRY(samba_chars_add(context, to, text.data + at, size));
            spaced = false;
            continue;
        }
        samba_str part = next_part(t, step, samba_str_of(text.data + at, text.size - at), &size);
        while (spaced && part.size > 0 && part.data[0] == ' ')
            part = samba_str_of(part.data + 1, part.size - 1);
        const bool no_space = part.size > 0 && !memchr(part.data, ' ', part.size);
        if (no_space)
            SAMBA_TRY(samba_chars_add(context, to, part.data, part.size));
        for (size_t i = 0; !no_space && i < part.size; i++)
            if (part.data[i] == ' ')
                SAMBA_TRY(samba_chars_add(context, to, space.data, space.size));
            else
                SAMBA_TRY(samba_chars_add(context, to, part.data + i, 1));
        if (part.size > 0)
            spaced = part.data[part.size - 1] == ' ';
        spaced = spaced && step->cleanup;
    }
    while (step->cleanup && to->size >= (int64_t)space.size &&
           memcmp(to->data + to->size - space.size, space.data, space.size) == 0)
        to->size -= (int64_t)space.size;
    return SAMBA_OK;
}
