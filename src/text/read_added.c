/* SPDX-License-Identifier: Apache-2.0
 *
 * Added tokens. Their ids are not what the file says but what `tokenizers` gives them, which reads the list as if it was added to
 * the model one by one: a token of the model keeps its id, another takes the next free one. Of tokens with one text the last
 * counts; it is special where any of them was. */
#include "text/read.h"

samba_status samba_add_tokens(const samba_reader *r, const samba_added *tokens, int64_t count)
{
    samba_tokenizer *t = r->tokenizer;
    samba_vocab all = {0};
    uint64_t bytes = 0;
    int64_t most = -1, outside = 0;
    for (int64_t i = 0; i < count; i++)
        bytes += tokens[i].text.size;
    SAMBA_TRY(samba_vocab_room(r->arena, &all, count, bytes));
    for (int64_t i = 0; i < count; i++)
        samba_vocab_add(&all, tokens[i].text.data, tokens[i].text.size, (int32_t)i);
    SAMBA_TRY(samba_vocab_index(r->arena, &all));
    SAMBA_TRY(SAMBA_ROOM(r->arena, t->added, count + 1));
    for (int64_t i = 0; i < count; i++) /* at the place of the last one with its text */
        t->added[i].id = -1;
    for (int64_t i = 0; i < count; i++) {
        const samba_str text = tokens[i].text;
        if (text.size == 0)
            continue;
        samba_added *added = &t->added[samba_vocab_id(&all, text.data, text.size)];
        const bool special = added->special || tokens[i].special;
        int32_t id = added->id >= 0 ? added->id : samba_vocab_id(&t->vocab, text.data, text.size);
        if (id < 0) {
            id = (int32_t)(most >= t->vocab.count || (t->vocab.count == 0 && most >= 0) ? most + 1 : t->vocab.count);
            outside++;
        }
        most = id > most ? id : most;
        *added = tokens[i];
        added->special = special;
        added->id = id;
    }
    for (int64_t i = 0; i < count; i++)
        if (t->added[i].id >= 0)
            t->added[t->added_count++] = t->added[i];
    SAMBA_TRY(samba_vocab_room(r->arena, &t->added_vocab, t->added_count, bytes));
    for (int64_t i = 0; i < t->added_count; i++)
        samba_vocab_add(&t->added_vocab, t->added[i].text.data, t->added[i].text.size, t->added[i].id);
    SAMBA_TRY(samba_vocab_index(r->arena, &t->added_vocab));
    t->size = t->vocab.count + outside;
    SAMBA_TRY(samba_added_index(t));
    return samba_decode_index(t);
}

samba_status samba_read_added(const samba_reader *r, const json_t *list)
{
    samba_added *tokens;
    const size_t count = json_array_size(list);
    char where[60];
    if (list && !json_is_array(list))
        return samba_reader_fail(r, "", "\"added_tokens\" is no list");
    SAMBA_TRY(SAMBA_ROOM(r->arena, tokens, count + 1));
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        samba_added *token = &tokens[i];
        snprintf(where, sizeof where, "added_tokens[%zu]", i);
        if (!json_is_object(object))
            return samba_reader_fail(r, where, "it is no object");
        SAMBA_TRY(samba_need_text(r, where, object, "content", &token->text));
        SAMBA_TRY(samba_read_bool(r, where, object, "single_word", &token->single_word));
        SAMBA_TRY(samba_read_bool(r, where, object, "lstrip", &token->lstrip));
        SAMBA_TRY(samba_read_bool(r, where, object, "rstrip", &token->rstrip));
        SAMBA_TRY(samba_read_bool(r, where, object, "special", &token->special));
        SAMBA_TRY(samba_read_bool(r, where, object, "normalized", &token->normalized));
    }
    return samba_add_tokens(r, tokens, (int64_t)count);
}
