/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph's text and the literals beside it. docs/graph.md describes the text: a reference is '&' and a number where the digits
 * of a literal would stand, so never inside quotes or a comment. What a file says is not believed:
 * a number that is none of the graph's literals is found by the plan's check. */
#include "plan/plan.h"

#include <string.h>

const char *samba_plan_next_literal(const char *text, int64_t *number, const char **end)
{
    const char *at = text;
    for (bool quoted = false; *at && (quoted || *at != '&'); at++) {
        if (!quoted && *at == '#')
            at += strcspn(at, "\n");
        if (*at == '"')
            quoted = !quoted;
        else if (quoted && *at == '\n') /* a string ends with its line */
            quoted = false;
        else if (quoted && *at == '\\' && at[1])
            at++;
        if (!*at)
            return NULL;
    }
    if (!*at)
        return NULL;
    const char *digit = at + 1;
    int64_t value = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        value = value > INT32_MAX ? value : value * 10 + (*digit - '0');
    *number = digit == at + 1 || value > INT32_MAX ? -1 : value;
    *end = digit;
    return at;
}

static void add_digits(const samba_blob *blob, samba_text *text)
{
    enum { AT_ONCE = 256 };
    char digits[2 * AT_ONCE + 1];
    samba_text_add(text, "\"");
    for (int64_t at = 0; at < blob->size && text->status == SAMBA_OK; at += AT_ONCE) {
        samba_hex_encode(blob->data + at, (size_t)(blob->size - at < AT_ONCE ? blob->size - at : AT_ONCE), digits);
        samba_text_add(text, "%s", digits);
    }
    samba_text_add(text, "\"");
}

void samba_plan_add_text(const samba_plan *plan, int32_t graph, samba_text *text)
{
    const samba_plan_graph *its = &plan->graphs[graph];
    const char *from = its->text, *at, *end;
    int64_t number;
    while ((at = samba_plan_next_literal(from, &number, &end))) {
        for (const char *part = from; part < at; part += 4096) /* a precision is an int */
            samba_text_add(text, "%.*s", (int)(at - part < 4096 ? at - part : 4096), part);
        add_digits(plan->blobs[its->literals[number]], text);
        from = end;
    }
    samba_text_add(text, "%s", from);
}
