/* SPDX-License-Identifier: Apache-2.0
 *
 * A {% for %} and the name `loop` within it. Items are taken one by one, and a condition is asked when its item is: it may tell
 * of what the loop has changed before. Reading ahead happens only for those parts of `loop` that need it. */
#include "text/chat.h"

/* The next item that the loop's condition takes. */
static samba_status pull(samba_chat_run *w, samba_chat_loop *loop, samba_chat_value *item, bool *more)
{
    const samba_chat_node *condition = loop->node->kids.nodes[2];
    if (loop->rest) {
        *more = loop->rest_at < loop->rest->count;
        if (*more)
            *item = loop->rest->items[loop->rest_at++];
        return SAMBA_OK;
    }
    for (;;) {
        bool taken = true;
        SAMBA_TRY(samba_chat_next(w, loop->iterator, item, more));
        if (!*more || !condition)
            return SAMBA_OK;
        samba_chat_scope inner = {.outer = loop->scope}, *kept = w->scope;
        samba_chat_value value;
        w->scope = &inner;
        SAMBA_TRY(samba_chat_assign(w, loop->node->kids.nodes[0], *item));
        SAMBA_TRY(samba_chat_evaluate(w, condition, &value));
        SAMBA_TRY(samba_chat_truth(w, value, &taken));
        w->scope = kept;
        if (taken)
            return SAMBA_OK;
    }
}

samba_status samba_chat_loop_next(samba_chat_run *w, samba_chat_loop *loop, bool *more)
{
    samba_chat_value item;
    *more = loop->has_ahead;
    if (loop->has_ahead)
        item = loop->ahead;
    else
        SAMBA_TRY(pull(w, loop, &item, more));
    loop->has_ahead = false;
    if (!*more)
        return SAMBA_OK;
    loop->has_before = loop->index >= 0;
    loop->before = loop->item;
    loop->item = item;
    loop->index++;
    return SAMBA_OK;
}

static samba_status look_ahead(samba_chat_run *w, samba_chat_loop *loop)
{
    return loop->has_ahead ? SAMBA_OK : pull(w, loop, &loop->ahead, &loop->has_ahead);
}

static samba_status count(samba_chat_run *w, samba_chat_loop *loop, int64_t *length)
{
    if (loop->length < 0 && !loop->node->kids.nodes[2] && loop->iterator->source.kind != SAMBA_CHAT_ITERATOR)
        samba_chat_length(w, loop->iterator->source, &loop->length);
    if (loop->length < 0) {
        samba_chat_list *rest;
        SAMBA_TRY(samba_chat_list_new(w, &rest));
        for (;;) {
            samba_chat_value item;
            bool more;
            SAMBA_TRY(pull(w, loop, &item, &more));
            if (!more)
                break;
            SAMBA_TRY(samba_chat_list_add(w, rest, item));
        }
        loop->rest = rest;
        loop->length = rest->count + loop->index + 1 + loop->has_ahead;
    }
    *length = loop->length;
    return SAMBA_OK;
}

/* ABSENT: it has no such part. */
samba_status samba_chat_loop_attribute(samba_chat_run *w, samba_chat_loop *loop, samba_str name, samba_chat_value *part)
{
    static const char *const names[] = {"index", "index0",    "first",  "depth",    "depth0",  "revindex",
                                        "last",  "revindex0", "length", "previtem", "nextitem"};
    int64_t length;
    int which = 0;
    while (which < SAMBA_COUNT(names) && !samba_str_equal(name, samba_chat_str(names[which])))
        which++;
    switch (which) {
    case 0: *part = samba_chat_int(loop->index + 1); break;
    case 1: *part = samba_chat_int(loop->index); break;
    case 2: *part = samba_chat_bool(loop->index == 0); break;
    case 3: *part = samba_chat_int(1); break;
    case 4: *part = samba_chat_int(0); break;
    case 5:
    case 7:
    case 8:
        SAMBA_TRY(count(w, loop, &length));
        *part = samba_chat_int(which == 8 ? length : length - loop->index - (which == 7));
        break;
    case 6:
        SAMBA_TRY(look_ahead(w, loop));
        *part = samba_chat_bool(!loop->has_ahead);
        break;
    case 9:
        *part = loop->has_before ? loop->before : samba_chat_undefined(samba_chat_str("there is no item before the first"));
        break;
    case 10:
        SAMBA_TRY(look_ahead(w, loop));
        *part = loop->has_ahead ? loop->ahead : samba_chat_undefined(samba_chat_str("there is no item behind the last"));
        break;
    default: *part = (samba_chat_value){.kind = SAMBA_CHAT_ABSENT};
    }
    return SAMBA_OK;
}
