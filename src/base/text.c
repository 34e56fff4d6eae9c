/* SPDX-License-Identifier: Apache-2.0
 *
 * Building text piece by piece. The builder is sticky: after the first failure further pieces are dropped and `status` says why,
 * so a writer checks once, at its end. The text owns its memory until it is cleared. */
#include "base/base.h"

void samba_text_init(samba_text *text, samba_context *context) { *text = (samba_text){.context = context, .status = SAMBA_OK}; }

static void add(samba_text *text, const char *format, va_list arguments)
{
    if (text->status != SAMBA_OK)
        return;
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0)
        text->status =
            samba_fail(text->context, SAMBA_ERROR_INTERNAL, "text \"%s\" cannot be formatted; please report it", format);
    else
        text->status = samba_grow(text->context, (void **)&text->data, 1, &text->capacity, text->length + length + 1);
    if (text->status == SAMBA_OK) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += length;
    }
    va_end(again);
}

void samba_text_add(samba_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(text, format, arguments);
    va_end(arguments);
}

samba_status samba_text_begin(samba_text *text, samba_context *context, const char *format, ...)
{
    va_list arguments;
    samba_text_init(text, context);
    va_start(arguments, format);
    add(text, format, arguments);
    va_end(arguments);
    return text->status;
}

samba_status samba_text_keep(samba_text *text, samba_arena *arena, char **kept)
{
    samba_status status = text->status;
    if (status == SAMBA_OK)
        status = samba_arena_copy(arena, text->data ? text->data : "", kept);
    samba_text_clear(text);
    return status;
}

void samba_text_clear(samba_text *text)
{
    samba_free(text->context, text->data, (size_t)text->capacity);
    samba_text_init(text, text->context);
}
