/* SPDX-License-Identifier: Apache-2.0
 *
 * A regular expression while it is translated for PCRE2: pattern.c does it, regex.c asks for it and answers what PCRE2 knows. */
#ifndef SAMBA_TEXT_PATTERN_H
#define SAMBA_TEXT_PATTERN_H

#include "text/text.h"

typedef struct samba_translation {
    samba_context *context;
    const char *where, *begin, *at;
    samba_text *out;
} samba_translation;

/* `pattern` is valid UTF-8. */
samba_status samba_pattern_translate(samba_context *context, const char *where, const char *pattern, samba_text *out);
bool samba_regex_is_script(const char *name); /* regex.c: whether PCRE2 knows a script of this name */

#endif
