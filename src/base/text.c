/* SPDX-License-Identifier: Apache-2.0
 *
 * Building text piece by piece. The builder is sticky: after the first failure further pieces are dropped and `status` says why,
 * so a writer checks once, at its end. The text owns its memory until it is cleared. */
#include "base/base.h"

void samba_text_init(samba_text *text, samba_context *context) { *text = (samba_text){.context = context, .status = SAMBA_OK}; }

void samba_text_add(samba_text *text, const char *format, ...)
{
    if (text->status != SAMBA_OK)
        return;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
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

void samba_text_clear(samba_text *text)
{
    samba_free(text->context, text->data, (size_t)text->capacity);
    samba_text_init(text, text->context);
}
