/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model learns of a sequence. Labels are the tokens of completions, -100 those of prompts, of padding and behind padding;
 * the graph shifts them. Where articles are apart, document_ids count up behind each article's end and position_ids begin anew
 * there, and padding is a document of its own. Padding at the end of a sequence is behind all that looks at it; other padding a
 * mask hides. A sequence is cut to the shortest of several lengths that holds its tokens. All sequences are looked through once
 * before training, so that bad ones are told then, and those without anything to learn are left out. */
#include "cli/lm.h"

#include <string.h>

#define IGNORED (-100)

/* Token i, from what is before it: padding says nothing. */
static bool is_learned(const samba_lm_samples *s, int64_t i)
{
    const int32_t type = s->types[i];
    return (type == SAMBA_LM_COMPLETION || type == SAMBA_LM_END || (type == SAMBA_LM_PROMPT && s->learn_prompts)) &&
           (i == 0 || s->types[i - 1] != SAMBA_LM_PADDING);
}

/* ---- looking through ---- */

static samba_status check_token(const samba_lm_samples *s, int64_t row, int64_t i)
{
    const samba_lm_file *file = samba_lm_sequences_file(&s->sequences, row);
    const long long sequence = (long long)(row - file->first);
    if (s->types[i] < SAMBA_LM_PROMPT || s->types[i] > SAMBA_LM_END)
        return samba_fail(
            s->context, SAMBA_ERROR_FORMAT,
            "%s: sequence %lld has type %d at token %lld: types are 0 (prompt), 1 (completion), 2 (padding) and 3 (an "
            "article's end)",
            file->path, sequence, (int)s->types[i], (long long)i);
    if (s->types[i] != SAMBA_LM_PADDING && (s->ids[i] < 0 || s->ids[i] >= s->vocab_size))
        return samba_fail(
            s->context, SAMBA_ERROR_FORMAT,
            "%s: sequence %lld has token %d at %lld: the model's vocabulary has tokens 0 to %lld; was the data made "
            "by its tokenizer?",
            file->path, sequence, (int)s->ids[i], (long long)i, (long long)s->vocab_size - 1);
    return SAMBA_OK;
}

static samba_status look_at(samba_lm_samples *s, int64_t row)
{
    const int64_t length = s->sequences.length;
    int32_t learned = 0, tokens = 0;
    bool ended = false, padded = false;
    samba_lm_sequences_row(&s->sequences, row, s->ids, s->types);
    for (int64_t i = 0; i < length; i++) {
        SAMBA_TRY(check_token(s, row, i));
        const bool padding = s->types[i] == SAMBA_LM_PADDING;
        s->several |= ended && !padding;
        s->inner_padding |= padded && !padding;
        s->prompts |= s->types[i] == SAMBA_LM_PROMPT;
        ended |= s->types[i] == SAMBA_LM_END;
        padded |= padding;
        tokens = padding ? tokens : (int32_t)i + 1;
        learned += i > 0 && is_learned(s, i);
    }
    if (learned == 0) {
        s->left_out++;
        return SAMBA_OK;
    }
    const int64_t sample = s->train_count + s->test_count;
    const bool train = row < s->sequences.train_count;
    s->rows[sample] = row;
    s->learned[sample] = learned;
    s->tokens[sample] = tokens;
    *(train ? &s->train_count : &s->test_count) += 1;
    *(train ? &s->train_tokens : &s->test_tokens) += learned;
    return SAMBA_OK;
}

static samba_status look(samba_lm_samples *s)
{
    const int64_t count = s->sequences.count, length = s->sequences.length;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->rows, count + 1));
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->learned, count + 1));
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->tokens, count + 1));
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->ids, length));
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->types, length));
    for (int64_t row = 0; row < count; row++)
        SAMBA_TRY(look_at(s, row));
    if (s->train_count == 0)
        return samba_fail(s->context, SAMBA_ERROR_FORMAT,
                          "%s: of %lld sequences to train on none has a token to learn (a completion's, behind the first token)",
                          s->sequences.files[0].path, (long long)s->sequences.train_count);
    return SAMBA_OK;
}

samba_status samba_lm_samples_new(samba_context *context, samba_lm_sequences *sequences, int64_t vocab_size, bool learn_prompts,
                                  samba_lm_samples *samples)
{
    *samples =
        (samba_lm_samples){.context = context, .sequences = *sequences, .vocab_size = vocab_size, .learn_prompts = learn_prompts};
    *sequences = (samba_lm_sequences){0};
    samba_arena_init(&samples->arena, context);
    samba_status status = look(samples);
    if (status != SAMBA_OK)
        samba_lm_samples_free(samples);
    return status;
}

void samba_lm_samples_free(samba_lm_samples *s)
{
    if (!s->context)
        return;
    samba_arena_free(&s->arena);
    samba_lm_sequences_free(&s->sequences);
    *s = (samba_lm_samples){0};
}

/* ---- batches ---- */

typedef void row_fn(const samba_lm_samples *s, int64_t length, int64_t *to);

static void fill_ids(const samba_lm_samples *s, int64_t length, int64_t *to)
{
    for (int64_t i = 0; i < length; i++) /* a padding token may be beyond the vocabulary: nothing looks at it */
        to[i] = s->ids[i] >= 0 && s->ids[i] < s->vocab_size ? s->ids[i] : 0;
}

static void fill_labels(const samba_lm_samples *s, int64_t length, int64_t *to)
{
    for (int64_t i = 0; i < length; i++)
        to[i] = is_learned(s, i) ? s->ids[i] : IGNORED;
}

static void fill_mask(const samba_lm_samples *s, int64_t length, int64_t *to)
{
    for (int64_t i = 0; i < length; i++)
        to[i] = s->types[i] != SAMBA_LM_PADDING;
}

/* Whether a document begins at token i. */
static bool begins(const samba_lm_samples *s, int64_t i)
{
    return i > 0 &&
           (s->types[i - 1] == SAMBA_LM_END || (s->types[i] == SAMBA_LM_PADDING) != (s->types[i - 1] == SAMBA_LM_PADDING));
}

static void fill_documents(const samba_lm_samples *s, int64_t length, int64_t *to)
{
    to[0] = 0;
    for (int64_t i = 1; i < length; i++)
        to[i] = to[i - 1] + begins(s, i);
}

static void fill_positions(const samba_lm_samples *s, int64_t length, int64_t *to)
{
    to[0] = 0;
    for (int64_t i = 1; i < length; i++)
        to[i] = begins(s, i) ? 0 : to[i - 1] + 1;
}

static row_fn *filler_of(const char *name)
{
    static const struct {
        const char *name;
        row_fn *fill;
    } all[] = {{"input_ids", fill_ids},
               {"labels", fill_labels},
               {"attention_mask", fill_mask},
               {"document_ids", fill_documents},
               {"position_ids", fill_positions}};
    int i = 0;
    while (i < SAMBA_COUNT(all) && strcmp(all[i].name, name) != 0)
        i++;
    return i < SAMBA_COUNT(all) ? all[i].fill : NULL;
}

samba_status samba_lm_samples_fill(samba_context *context, void *user, const int64_t *samples, int64_t count, int tensor_count,
                                   samba_tensor *const *batch)
{
    samba_lm_samples *s = user;
    const int64_t rows = samba_tensor_shape(batch[0])[0], length = samba_tensor_shape(batch[0])[1]; /* that of all tensors */
    for (int64_t k = 0; k < rows; k++) {
        if (k < count)
            samba_lm_sequences_row(&s->sequences, s->rows[samples[k]], s->ids, s->types);
        for (int64_t i = 0; i < length && k >= count; i++) { /* a row that does not count: a prompt of the first token */
            s->ids[i] = 0;
            s->types[i] = SAMBA_LM_PROMPT;
        }
        for (int i = 0; i < tensor_count; i++) {
            row_fn *fill = filler_of(samba_tensor_name(batch[i]));
            if (!fill)
                return samba_fail(context, SAMBA_ERROR_INTERNAL, "lm: no samples for the input '%s'",
                                  samba_tensor_name(batch[i]));
            int64_t *to = (int64_t *)samba_tensor_data(batch[i]) + k * length;
            fill(s, length, to);
            for (int64_t at = 0; at < length && k >= count && fill == fill_labels; at++)
                to[at] = IGNORED; /* even where prompts are learned */
        }
    }
    return SAMBA_OK;
}

int64_t samba_lm_samples_weight(const void *user, int64_t sample) { return ((const samba_lm_samples *)user)->learned[sample]; }

int samba_lm_samples_size(const void *user, int64_t sample)
{
    const samba_lm_samples *s = user;
    int size = 0;
    while (size + 1 < s->length_count && s->lengths[size] < s->tokens[sample])
        size++;
    return size;
}
