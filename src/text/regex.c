/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions through PCRE2, compiled to machine code where it can. A pattern is a file's and may take exponential time
 * on some text, so what a match may take is bounded: PCRE2 counts steps from each place where it tries to begin, up to a limit;
 * where that is too low the limit grows, place by place, until all that a text may take is used up. Time is so at most
 * proportional to the text, with a large factor, and ends in a status.
 *
 * A compiled pattern is constant. A matcher is what one thread matches in. Their memory is the context's. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>

enum { FEW_STEPS = 2000, MOST_STEPS = 2000000, STEPS_OF_TEXT = 20000000, STEPS_OF_BYTE = 50, WINDOW = 4096, PREFIX = 64 };

struct samba_regex {
    samba_context *context;
    samba_regex *next;
    pcre2_general_context *memory;
    pcre2_code *code;
    const char *where;
};

struct samba_matcher {
    samba_context *context;
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_match_data *data;
    pcre2_jit_stack *stack;
    int64_t left; /* steps that the text may still take */
};

/* PCRE2 frees without a size: it stands before the block. */
static void *take(size_t size, void *context)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    char *block = samba_alloc(context, size + PREFIX);
    if (!block)
        return NULL;
    memcpy(block, &size, sizeof size);
    return block + PREFIX;
}

static void give(void *block, void *context)
{
    if (!block)
        return;
    size_t size;
    memcpy(&size, (char *)block - PREFIX, sizeof size);
    samba_free(context, (char *)block - PREFIX, size + PREFIX);
}

bool samba_regex_is_script(const char *name)
{
    char pattern[80];
    int error;
    PCRE2_SIZE at;
    snprintf(pattern, sizeof pattern, "\\p{sc:%s}", name);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &at, NULL);
    pcre2_code_free(code);
    return code != NULL;
}

static samba_status compile(samba_regex *regex, const char *pattern)
{
    samba_context *context = regex->context;
    samba_text text;
    samba_text_init(&text, context);
    samba_status status = samba_pattern_translate(context, regex->where, pattern, &text);
    int64_t refused = samba_memory_refused(context);
    pcre2_compile_context *settings = status == SAMBA_OK ? pcre2_compile_context_create(regex->memory) : NULL;
    if (settings) {
        int error;
        PCRE2_SIZE at;
        pcre2_set_newline(settings, PCRE2_NEWLINE_LF);
        pcre2_set_bsr(settings, PCRE2_BSR_UNICODE);
        pcre2_set_max_pattern_length(settings, 1 << 20);
        pcre2_set_parens_nest_limit(settings, 250);
        const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT | PCRE2_NEVER_BACKSLASH_C;
        regex->code =
            pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), (PCRE2_SIZE)text.length, options, &error, &at, settings);
        if (!regex->code && samba_memory_refused(context) == refused) {
            PCRE2_UCHAR reason[160];
            char shown[SAMBA_SHOWN];
            pcre2_get_error_message(error, reason, sizeof reason);
            status = samba_fail(context, SAMBA_ERROR_FORMAT, "%s: the regular expression \"%.200s\" is none: %s", regex->where,
                                samba_shown(pattern, shown), (char *)reason);
        } else if (regex->code) /* without machine code it is interpreted: slower, the same matches */
            (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
        pcre2_compile_context_free(settings);
    }
    samba_text_clear(&text);
    if (status == SAMBA_OK && (!regex->code || samba_memory_refused(context) != refused))
        status = SAMBA_ERROR_MEMORY;
    return status;
}

samba_status samba_regex_new(samba_arena *arena, const char *where, const char *pattern, samba_regex **all, samba_regex **regex)
{
    samba_context *context = arena->context;
    samba_regex *made;
    char *place;
    *regex = NULL;
    SAMBA_TRY(SAMBA_ROOM(arena, made, 1));
    SAMBA_TRY(samba_arena_copy(arena, where, &place));
    made->context = context;
    made->where = place;
    made->memory = pcre2_general_context_create(take, give, context);
    if (!made->memory)
        return SAMBA_ERROR_MEMORY;
    made->next = *all;
    *all = made;
    SAMBA_TRY(compile(made, pattern));
    *regex = made;
    return SAMBA_OK;
}

void samba_regex_free(samba_regex *all)
{
    for (; all; all = all->next) {
        pcre2_code_free(all->code);
        pcre2_general_context_free(all->memory);
    }
}

samba_status samba_matcher_new(samba_context *context, samba_matcher **matcher)
{
    samba_matcher *m = *matcher = samba_calloc(context, sizeof *m);
    if (!m)
        return SAMBA_ERROR_MEMORY;
    m->context = context;
    m->memory = pcre2_general_context_create(take, give, context);
    m->limits = m->memory ? pcre2_match_context_create(m->memory) : NULL;
    m->data = m->limits ? pcre2_match_data_create(4, m->memory) : NULL;
    m->stack = m->data ? pcre2_jit_stack_create(32 << 10, 4 << 20, m->memory) : NULL;
    if (m->data && !m->stack) { /* no machine code on this machine, or no memory, which the next call will tell */
        uint32_t jit = 0;
        pcre2_config(PCRE2_CONFIG_JIT, &jit);
        if (jit) {
            samba_matcher_free(m);
            *matcher = NULL;
            return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for the stack of regular expressions");
        }
    }
    if (!m->data) {
        samba_matcher_free(m);
        *matcher = NULL;
        return SAMBA_ERROR_MEMORY;
    }
    pcre2_set_heap_limit(m->limits, 64 << 10); /* KiB */
    if (m->stack)
        pcre2_jit_stack_assign(m->limits, NULL, m->stack);
    return SAMBA_OK;
}

void samba_matcher_free(samba_matcher *m)
{
    if (!m)
        return;
    if (m->stack)
        pcre2_jit_stack_free(m->stack);
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->limits);
    pcre2_general_context_free(m->memory);
    samba_free(m->context, m, sizeof *m);
}

void samba_matcher_begin(samba_matcher *m, size_t size) { m->left = STEPS_OF_TEXT + STEPS_OF_BYTE * (int64_t)size; }

samba_status samba_regex_find(const samba_regex *regex, samba_matcher *m, samba_str text, size_t from, size_t *begin, size_t *end)
{
    uint32_t steps = FEW_STEPS;
    *begin = *end = SIZE_MAX;
    size_t window = WINDOW;
    while (from <= text.size) {
        pcre2_set_match_limit(m->limits, steps);
        pcre2_set_offset_limit(m->limits, from + window);
        int found = pcre2_match(regex->code, (PCRE2_SPTR)text.data, text.size, from, PCRE2_NO_UTF_CHECK, m->data, m->limits);
        if (found >= 0) {
            const PCRE2_SIZE *where = pcre2_get_ovector_pointer(m->data);
            *begin = where[0];
            *end = where[1] < where[0] ? where[0] : where[1];
            return SAMBA_OK;
        }
        if (found == PCRE2_ERROR_NOMATCH) {
            if (steps > FEW_STEPS)
                m->left -= steps / 4;
            from += window + 1;
            while (from < text.size && (text.data[from] & 0xc0) == 0x80)
                from++;
            steps = FEW_STEPS;
            window = WINDOW;
        } else if (found == PCRE2_ERROR_MATCHLIMIT && window > 0) { /* place by place */
            m->left -= steps;
            window = 0;
        } else if (found == PCRE2_ERROR_MATCHLIMIT && steps < MOST_STEPS) {
            m->left -= steps;
            steps *= 10;
        } else if (found == PCRE2_ERROR_NOMEMORY)
            return samba_fail(m->context, SAMBA_ERROR_MEMORY, "no memory to match a regular expression in");
        else
            m->left = -1;
        if (m->left < 0)
            return samba_fail(m->context, SAMBA_ERROR_UNSUPPORTED,
                              "%s: the regular expression takes too many steps on this text, from byte %zu on", regex->where,
                              from);
    }
    return SAMBA_OK;
}
