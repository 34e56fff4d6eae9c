/* SPDX-License-Identifier: Apache-2.0
 *
 * BPE's merges, as tokenizer.json lists them (texts of two tokens with a space between, or lists of two) and as the lines of
 * merges.txt. A merge's rank is its place in the list. Both tokens and the one that they make have to be in the vocabulary. */
#include "text/read.h"

static samba_status begin(const samba_reader *r, int64_t count)
{
    samba_bpe *bpe = &r->tokenizer->bpe;
    uint64_t slots = 8;
    if (count > SAMBA_MOST_TOKENS)
        return samba_reader_fail(r, "merges", "there are %lld; %d are the most", (long long)count, SAMBA_MOST_TOKENS);
    while (slots < (uint64_t)count * 2)
        slots *= 2;
    bpe->mask = slots - 1;
    SAMBA_TRY(SAMBA_ROOM(r->arena, bpe->merges, slots));
    for (uint64_t i = 0; i < slots; i++)
        bpe->merges[i].left = -1;
    return SAMBA_OK;
}

static samba_status missing(const samba_reader *r, int64_t rank, samba_str token)
{
    char where[40], shown[SAMBA_SHOWN];
    snprintf(where, sizeof where, "merge %lld", (long long)rank);
    return samba_reader_fail(r, where, "the token \"%.200s\" is not in the vocabulary", samba_shown(token.data, shown));
}

static samba_status add(const samba_reader *r, int64_t rank, samba_str left, samba_str right)
{
    samba_bpe *bpe = &r->tokenizer->bpe;
    const samba_vocab *vocab = &r->tokenizer->vocab;
    const int32_t a = samba_vocab_id(vocab, left.data, left.size), b = samba_vocab_id(vocab, right.data, right.size);
    samba_chars both = {0};
    samba_status status = SAMBA_OK;
    if (a < 0 || b < 0 || right.size < bpe->prefix.size) {
        samba_str token = a < 0 ? left : right;
        status = samba_chars_add(r->context, &both, token.data, token.size);
        if (status == SAMBA_OK)
            status = samba_chars_add(r->context, &both, "", 1);
        if (status == SAMBA_OK && a >= 0 && b >= 0)
            status = samba_reader_fail(
                r, "merges", "the second token of merge %lld does not begin with continuing_subword_prefix", (long long)rank);
        else if (status == SAMBA_OK)
            status = missing(r, rank, samba_chars_view(&both));
        samba_chars_free(r->context, &both);
        return status;
    }
    char small[256];
    const size_t more = right.size - bpe->prefix.size, size = left.size + more;
    char *text = small;
    if (size >= sizeof small) {
        SAMBA_TRY(samba_chars_room(r->context, &both, size + 1));
        text = both.data;
    }
    memcpy(text, left.data, left.size);
    memcpy(text + left.size, right.data + bpe->prefix.size, more);
    text[size] = '\0';
    const int32_t made = samba_vocab_id(vocab, text, size);
    if (made < 0)
        status = missing(r, rank, samba_str_of(text, size));
    samba_chars_free(r->context, &both);
    SAMBA_TRY(status);
    const uint64_t key = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    uint64_t at = key * 0x9e3779b97f4a7c15u >> 24 & bpe->mask;
    while (bpe->merges[at].left >= 0 && (bpe->merges[at].left != a || bpe->merges[at].right != b))
        at = (at + 1) & bpe->mask;
    bpe->merges[at] = (samba_merge){a, b, (int32_t)rank, made};
    return SAMBA_OK;
}

/* "a b": two tokens around the only space. */
static samba_status add_line(const samba_reader *r, int64_t rank, samba_str line)
{
    const char *space = memchr(line.data, ' ', line.size);
    const size_t first = space ? (size_t)(space - line.data) : line.size;
    if (!space || memchr(space + 1, ' ', line.size - first - 1))
        return samba_reader_fail(r, "merges", "merge %lld is not two tokens with a space between", (long long)rank);
    return add(r, rank, samba_str_of(line.data, first), samba_str_of(space + 1, line.size - first - 1));
}

samba_status samba_read_merge_list(const samba_reader *r, const json_t *merges)
{
    if (!merges)
        return SAMBA_OK;
    if (!json_is_array(merges))
        return samba_reader_fail(r, "model", "\"merges\" is no list");
    SAMBA_TRY(begin(r, (int64_t)json_array_size(merges)));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i), *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        if (json_is_string(merge))
            SAMBA_TRY(add_line(r, (int64_t)i, samba_str_of(json_string_value(merge), json_string_length(merge))));
        else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right))
            SAMBA_TRY(add(r, (int64_t)i, samba_str_of(json_string_value(left), json_string_length(left)),
                          samba_str_of(json_string_value(right), json_string_length(right))));
        else
            return samba_reader_fail(r, "model", "\"merges\"[%zu] is neither a text nor a list of two", i);
    }
    return SAMBA_OK;
}

samba_status samba_read_merge_lines(const samba_reader *r, const char *text, size_t size)
{
    int64_t count = 1, rank = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] == '\n';
    SAMBA_TRY(begin(r, count));
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(text + at, '\n', size - at);
        const size_t end = newline ? (size_t)(newline - text) : size;
        samba_str line = samba_str_of(text + at, end - at);
        line.size -= line.size > 0 && line.data[line.size - 1] == '\r';
        at = end + 1;
        if (line.size == 0 || samba_str_begins(line, samba_str_of("#version", 8)))
            continue;
        SAMBA_TRY(add_line(r, rank++, line));
    }
    return SAMBA_OK;
}
