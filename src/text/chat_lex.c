/* SPDX-License-Identifier: Apache-2.0
 *
 * A template's text as tokens: data, and between {{ }} and {% %} names, texts, numbers and signs. White space goes here: that
 * beside a - in a delimiter, the newline behind a block (trim_blocks), the blanks of a line before one (lstrip_blocks), and the
 * one newline at the template's end. Comments go, and {% raw %} becomes data. */
#include "text/chat.h"

#include <stdlib.h>

typedef struct lexer {
    samba_context *context;
    samba_arena *arena;
    samba_chat_tokens *tokens;
    const char *text;
    size_t size, at, counted;
    int line;           /* of `counted` */
    bool line_starts;   /* what was read last ended a line */
    char brackets[256]; /* that are open in the delimiter at hand */
    int open;
} lexer;

samba_status samba_chat_syntax(samba_context *context, samba_status status, int line, const char *format, ...)
{
    char message[600];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(message, sizeof message, format, arguments) < 0)
        message[0] = '\0';
    va_end(arguments);
    return samba_fail(context, status, "chat template: line %d: %s", line, message);
}

static int line_at(lexer *l, size_t at)
{
    if (at < l->counted) {
        l->counted = 0;
        l->line = 1;
    }
    for (; l->counted < at; l->counted++)
        l->line += l->text[l->counted] == '\n';
    return l->line;
}

static samba_status add(lexer *l, samba_chat_token_kind kind, samba_str text, size_t at, samba_chat_value value)
{
    samba_chat_tokens *all = l->tokens;
    SAMBA_TRY(SAMBA_MORE(l->arena, all->tokens, all->count, all->room));
    all->tokens[all->count++] = (samba_chat_token){kind, line_at(l, at), text, value};
    return SAMBA_OK;
}

static samba_status add_plain(lexer *l, samba_chat_token_kind kind, size_t from, size_t to)
{
    return add(l, kind, samba_str_of(l->text + from, to - from), from, samba_chat_none());
}

static bool at_text(const lexer *l, size_t at, const char *text)
{
    const size_t size = strlen(text);
    return l->size - at >= size && memcmp(l->text + at, text, size) == 0;
}

/* Behind the white space that begins at `at`. */
static size_t behind_spaces(const lexer *l, size_t at)
{
    for (int size; at < l->size && samba_chat_is_space(samba_utf8_code(l->text + at, &size));)
        at += (size_t)size;
    return at;
}

static size_t before_spaces(const lexer *l, size_t from, size_t to)
{
    return from + samba_chat_strip(samba_str_of(l->text + from, to - from), samba_str_of(NULL, 0), false, true).size;
}

/* The data before a delimiter, whose sign is `-`, `+` or another character. */
static samba_status add_data(lexer *l, size_t from, size_t to, char sign, bool is_print)
{
    if (sign == '-')
        to = before_spaces(l, from, to);
    else if (sign != '+' && !is_print) {
        size_t begin = to;
        while (begin > from && l->text[begin - 1] != '\n')
            begin--;
        if ((begin > from || l->line_starts) && behind_spaces(l, begin) >= to)
            to = begin;
    }
    return to > from ? add_plain(l, SAMBA_CHAT_TOKEN_DATA, from, to) : SAMBA_OK;
}

/* Goes behind a delimiter's end: its sign was read. */
static void behind_end(lexer *l, char sign, bool is_print)
{
    l->at += 2;
    if (sign == '-')
        l->at = behind_spaces(l, l->at);
    else if (sign != '+' && !is_print && l->at < l->size && l->text[l->at] == '\n')
        l->at++;
    l->line_starts = l->at > 0 && l->text[l->at - 1] == '\n';
}

/* ---- in a delimiter ---- */
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int hex(char c) { return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* The character that a \ and `digits` digits in hexadecimal stand for. */
static samba_status code(lexer *l, size_t at, size_t end, int digits, uint32_t *found)
{
    *found = 0;
    for (int i = 0; i < digits; i++, at++) {
        if (at >= end || hex(l->text[at]) < 0)
            return samba_chat_syntax(l->context, SAMBA_ERROR_FORMAT, line_at(l, l->at), "a \\ has too few digits behind it");
        *found = *found << 4 | (uint32_t)hex(l->text[at]);
    }
    if (*found > 0x10ffff)
        return samba_chat_syntax(l->context, SAMBA_ERROR_FORMAT, line_at(l, l->at), "\\U%08x is no character", *found);
    if (*found >= 0xd800 && *found < 0xe000)
        return samba_chat_syntax(l->context, SAMBA_ERROR_UNSUPPORTED, line_at(l, l->at),
                                 "half a character, \\u%04x, is not supported", *found);
    return SAMBA_OK;
}

/* A text from behind its quote at `from` to before the other one, with its escapes resolved as Python does. */
static samba_status read_text(lexer *l, size_t from, size_t end)
{
    static const char escapes[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char *text;
    size_t size = 0;
    SAMBA_TRY(samba_arena_room(l->arena, end - from + 1, &text));
    for (size_t i = from; i < end;) {
        const char c = l->text[i + 1];
        const char *known = NULL;
        for (const char *e = escapes; *e && !known; e += 2)
            known = *e == c ? e + 1 : NULL;
        if (l->text[i] != '\\')
            text[size++] = l->text[i++];
        else if (c == '\n')
            i += 2;
        else if (c == 'x' || c == 'u' || c == 'U') {
            const int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            uint32_t found;
            SAMBA_TRY(code(l, i + 2, end, digits, &found));
            size += (size_t)samba_utf8_put(found, text + size);
            i += 2 + (size_t)digits;
        } else if (c >= '0' && c <= '7') {
            uint32_t found = 0;
            i++;
            for (int digits = 0; digits < 3 && i < end && l->text[i] >= '0' && l->text[i] <= '7'; digits++)
                found = found * 8 + (uint32_t)(l->text[i++] - '0');
            size += (size_t)samba_utf8_put(found, text + size);
        } else if (c == 'N')
            return samba_chat_syntax(l->context, SAMBA_ERROR_UNSUPPORTED, line_at(l, l->at), "\\N in a text is not supported");
        else if (known) {
            text[size++] = *known;
            i += 2;
        } else { /* the \ stays */
            text[size++] = '\\';
            i++;
        }
    }
    return add(l, SAMBA_CHAT_TOKEN_TEXT, samba_str_of(text, size), l->at, samba_chat_none());
}

/* Digits with single _ between them; behind them. */
static size_t behind_digits(const lexer *l, size_t at)
{
    while (at < l->size && (is_digit(l->text[at]) ||
                            (l->text[at] == '_' && at + 1 < l->size && is_digit(l->text[at + 1]) && is_digit(l->text[at - 1]))))
        at++;
    return at;
}

static samba_status read_number(lexer *l)
{
    size_t end = behind_digits(l, l->at), whole = end;
    bool real = false;
    char digits[400];
    size_t size = 0;
    if (end + 1 < l->size && l->text[end] == '.' && is_digit(l->text[end + 1])) {
        end = behind_digits(l, end + 1);
        real = true;
    }
    if (end + 1 < l->size && (l->text[end] | 32) == 'e') {
        const size_t sign = end + 1 + (l->text[end + 1] == '-' || l->text[end + 1] == '+');
        if (sign < l->size && is_digit(l->text[sign])) {
            end = behind_digits(l, sign);
            real = true;
        }
    }
    if (l->at > 0 && l->text[l->at - 1] == '.') { /* a.0.1: no float stands behind a dot */
        real = false;
        end = whole;
    }
    const int base = l->text[l->at] == '0' && whole - l->at == 1 && whole < l->size ? (l->text[whole] | 32) == 'x'   ? 16
                                                                                      : (l->text[whole] | 32) == 'b' ? 2
                                                                                      : (l->text[whole] | 32) == 'o' ? 8
                                                                                                                     : 10
                                                                                    : 10;
    if (base != 10 && !real)
        return samba_chat_syntax(l->context, SAMBA_ERROR_UNSUPPORTED, line_at(l, l->at), "numbers to base %d are not supported",
                                 base);
    if (!real && l->text[l->at] == '0') /* 012 is 0 and 12 */
        for (end = l->at + 1; end < whole && (l->text[end] == '0' || (l->text[end] == '_' && l->text[end + 1] == '0')); end++)
            continue;
    for (size_t i = l->at; i < end; i++)
        if (l->text[i] != '_') {
            if (size + 1 >= sizeof digits)
                return samba_chat_syntax(l->context, SAMBA_ERROR_UNSUPPORTED, line_at(l, l->at), "a number has too many digits");
            digits[size++] = l->text[i];
        }
    digits[size] = '\0';
    int64_t integer = 0;
    for (size_t i = 0; !real && i < size; i++)
        if (!samba_mul_checked(integer, 10, &integer) || !samba_add_checked(integer, digits[i] - '0', &integer))
            return samba_chat_syntax(l->context, SAMBA_ERROR_UNSUPPORTED, line_at(l, l->at), "%.40s is more than 64 bits",
                                     digits);
    const samba_chat_value value = real ? samba_chat_float(strtod(digits, NULL)) : samba_chat_int(integer);
    SAMBA_TRY(add(l, SAMBA_CHAT_TOKEN_NUMBER, samba_str_of(l->text + l->at, end - l->at), l->at, value));
    l->at = end;
    return SAMBA_OK;
}

static samba_status read_sign(lexer *l)
{
    static const char *const signs[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (int i = 0; i < SAMBA_COUNT(signs); i++) {
        const char c = signs[i][0];
        if (!at_text(l, l->at, signs[i]))
            continue;
        if (c == '(' || c == '[' || c == '{') {
            if (l->open == SAMBA_COUNT(l->brackets))
                return samba_chat_syntax(l->context, SAMBA_ERROR_UNSUPPORTED, line_at(l, l->at), "too many brackets are open");
            l->brackets[l->open++] = (char)(c == '(' ? ')' : c == '[' ? ']' : '}');
        } else if ((c == ')' || c == ']' || c == '}') && (l->open == 0 || l->brackets[--l->open] != c))
            return samba_chat_syntax(l->context, SAMBA_ERROR_FORMAT, line_at(l, l->at), "this '%c' closes nothing", c);
        SAMBA_TRY(add_plain(l, SAMBA_CHAT_TOKEN_SIGN, l->at, l->at + strlen(signs[i])));
        l->at += strlen(signs[i]);
        return SAMBA_OK;
    }
    char shown[SAMBA_SHOWN], cut[8] = {0};
    memcpy(cut, l->text + l->at, (size_t)samba_utf8_size(l->text[l->at]));
    return samba_chat_syntax(l->context, SAMBA_ERROR_FORMAT, line_at(l, l->at), "the character '%s' has no meaning here",
                             samba_shown(cut, shown));
}

static samba_status read_token(lexer *l)
{
    const char c = l->text[l->at];
    int size;
    if (is_digit(c))
        return read_number(l);
    if (c == '\'' || c == '"') {
        size_t end = l->at + 1;
        while (end < l->size && l->text[end] != c)
            end += l->text[end] == '\\' ? 2 : 1;
        if (end >= l->size)
            return samba_chat_syntax(l->context, SAMBA_ERROR_FORMAT, line_at(l, l->at), "a text has no end");
        SAMBA_TRY(read_text(l, l->at + 1, end));
        l->at = end + 1;
        return SAMBA_OK;
    }
    if (!is_letter(c) && ((unsigned char)c < 0x80 || !samba_char_is_letter(samba_utf8_code(l->text + l->at, &size))))
        return read_sign(l);
    size_t end = l->at;
    while (end < l->size && (is_letter(l->text[end]) || is_digit(l->text[end]) || (unsigned char)l->text[end] >= 0x80)) {
        if (!samba_char_is_word(samba_utf8_code(l->text + end, &size)))
            break;
        end += (size_t)size;
    }
    SAMBA_TRY(add_plain(l, SAMBA_CHAT_TOKEN_NAME, l->at, end));
    l->at = end;
    return SAMBA_OK;
}

/* From behind {{ or {% to behind its end. */
static samba_status read_delimited(lexer *l, bool is_print, size_t begin)
{
    const char *end = is_print ? "}}" : "%}";
    SAMBA_TRY(add_plain(l, is_print ? SAMBA_CHAT_TOKEN_PRINT : SAMBA_CHAT_TOKEN_BLOCK, begin, begin + 2));
    l->open = 0;
    for (;;) {
        l->at = behind_spaces(l, l->at);
        if (l->at >= l->size)
            return samba_chat_syntax(l->context, SAMBA_ERROR_FORMAT, line_at(l, begin), "%s has no %s", is_print ? "{{" : "{%",
                                     end);
        const char c = l->text[l->at];
        const bool sign = c == '-' || (c == '+' && !is_print);
        if (l->open == 0 && at_text(l, l->at + sign, end)) {
            SAMBA_TRY(add_plain(l, is_print ? SAMBA_CHAT_TOKEN_PRINT_END : SAMBA_CHAT_TOKEN_BLOCK_END, l->at, l->at));
            l->at += sign;
            behind_end(l, sign ? c : ' ', is_print);
            return SAMBA_OK;
        }
        SAMBA_TRY(read_token(l));
    }
}

static samba_status skip_comment(lexer *l, size_t begin)
{
    const size_t from = l->at;
    while (l->at < l->size && !at_text(l, l->at, "#}"))
        l->at++;
    if (l->at >= l->size)
        return samba_chat_syntax(l->context, SAMBA_ERROR_FORMAT, line_at(l, begin), "{# has no #}");
    const char sign = l->text[l->at - 1];
    behind_end(l, l->at > from ? sign : ' ', false);
    return SAMBA_OK;
}

/* {% WORD %} at `at`, with any signs: behind its %}, where its own sign stands, and that before its %}; 0: it is not there. */
static size_t behind_word(const lexer *l, size_t at, const char *word, char *first, char *last)
{
    if (!at_text(l, at, "{%"))
        return 0;
    at += 2;
    *first = at < l->size && (l->text[at] == '-' || l->text[at] == '+') ? l->text[at++] : ' ';
    at = behind_spaces(l, at);
    if (!at_text(l, at, word))
        return 0;
    at = behind_spaces(l, at + strlen(word));
    *last = at < l->size && (l->text[at] == '-' || l->text[at] == '+') ? l->text[at++] : ' ';
    return at_text(l, at, "%}") ? at : 0;
}

/* From behind {% raw %}, whose %} stands at `at`. */
static samba_status read_raw(lexer *l, size_t begin, size_t at, char last)
{
    char first, end;
    l->at = at + 2;
    if (last == '-')
        l->at = behind_spaces(l, l->at);
    l->line_starts = l->text[l->at - 1] == '\n';
    for (size_t i = l->at, from = l->at; i < l->size; i++) {
        const size_t behind = behind_word(l, i, "endraw", &first, &end);
        if (behind == 0)
            continue;
        SAMBA_TRY(add_data(l, from, i, first, false));
        l->at = behind;
        behind_end(l, end, false);
        return SAMBA_OK;
    }
    return samba_chat_syntax(l->context, SAMBA_ERROR_FORMAT, line_at(l, begin), "{%% raw %%} has no {%% endraw %%}");
}

static samba_status read_all(lexer *l)
{
    for (size_t from = l->at, i = l->at; i < l->size;) {
        if (l->text[i] != '{' || i + 1 >= l->size || !strchr("{%#", l->text[i + 1]) || l->text[i + 1] == '\0') {
            i++;
            continue;
        }
        char first, last;
        const char kind = l->text[i + 1];
        const size_t raw = kind == '%' ? behind_word(l, i, "raw", &first, &last) : 0;
        const bool signs = i + 2 < l->size && (l->text[i + 2] == '-' || l->text[i + 2] == '+');
        SAMBA_TRY(add_data(l, from, i, signs ? l->text[i + 2] : ' ', kind == '{'));
        l->at = i + 2 + signs;
        if (raw && last != '+')
            SAMBA_TRY(read_raw(l, i, raw, last));
        else if (kind == '#')
            SAMBA_TRY(skip_comment(l, i));
        else
            SAMBA_TRY(read_delimited(l, kind == '{', i));
        from = i = l->at;
    }
    const size_t from = l->at;
    return from < l->size ? add_plain(l, SAMBA_CHAT_TOKEN_DATA, from, l->size) : SAMBA_OK;
}

samba_status samba_chat_lex(samba_context *context, samba_arena *arena, samba_str text, samba_chat_tokens *tokens)
{
    char *clean;
    size_t size = 0;
    *tokens = (samba_chat_tokens){0};
    SAMBA_TRY(samba_arena_room(arena, text.size + 1, &clean));
    for (size_t i = 0; i < text.size; i++) { /* every end of a line is \n */
        if (text.data[i] == '\r' && i + 1 < text.size && text.data[i + 1] == '\n')
            continue;
        clean[size++] = (char)(text.data[i] == '\r' ? '\n' : text.data[i]);
    }
    size -= size > 0 && clean[size - 1] == '\n';
    lexer l = {.context = context, .arena = arena, .tokens = tokens, .text = clean, .size = size, .line = 1, .line_starts = true};
    clean[size] = '\0';
    SAMBA_TRY(read_all(&l));
    return add_plain(&l, SAMBA_CHAT_TOKEN_END, size, size);
}
