/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of tokenizer.json, which are Oniguruma's in Ruby's syntax, as PCRE2 reads them. Most of both languages is one; here is
 * what differs: classes within classes and their intersections, \h, \v, \uHHHH, (?m), {,n}, {n,m}+, which repeats again and
 * is not possessive, names of properties, and the characters that \s, \w, \d and the general categories stand for, where those of
 * newer Unicode are added to what PCRE2 knows.
 *
 * A class becomes an expression for one character: [..], or a choice of several where one has a complement inside. */
#include "text/pattern.h"

#define MOST_DEPTH 40 /* classes within classes */

static samba_status expression(samba_translation *p, samba_text *out, int depth);

static samba_status refuse(samba_translation *p, const char *what)
{
    char shown[SAMBA_SHOWN];
    return samba_fail(p->context, SAMBA_ERROR_UNSUPPORTED, "%s: the regular expression \"%.200s\" has %s, which is not supported",
                      p->where, samba_shown(p->begin, shown), what);
}

static const char SPACES[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
                             "\\x{3000}";

static void add_newer(samba_text *out, char major, char minor)
{
    samba_span span;
    for (int at = 0; samba_char_newer(major, minor, &at, &span);)
        samba_text_add(out, "\\x{%x}-\\x{%x}", span.first, span.last);
}

static void add_category(samba_text *out, char major, char minor)
{
    samba_text_add(out, minor ? "\\p{%c%c}" : "\\p{%c}", major, minor);
    add_newer(out, major, minor);
}

/* The characters of \s, \w, \d or \h, by its lower letter, as they stand in a class. Alone, \w has also the fractions and
 * superscripts of Latin-1. */
static void add_shorthand(samba_text *out, char letter, bool alone)
{
    switch (letter) {
    case 's': samba_text_add(out, "%s", SPACES); break;
    case 'd': add_category(out, 'N', 'd'); break;
    case 'h': samba_text_add(out, "0-9a-fA-F"); break;
    default:
        add_category(out, 'L', 0);
        add_category(out, 'M', 0);
        add_category(out, 'N', 'd');
        samba_text_add(out, "\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}");
        if (alone)
            samba_text_add(out, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
    }
}

/* A property's name, behind its \p, as it stands in a class. */
static samba_status property(samba_translation *p, samba_text *out, bool *negative)
{
    static const struct {
        const char *name, *category;
    } names[] = {{"letter", "L"},           {"mark", "M"},           {"number", "N"},          {"punctuation", "P"},
                 {"symbol", "S"},           {"separator", "Z"},      {"other", "C"},           {"uppercaseletter", "Lu"},
                 {"lowercaseletter", "Ll"}, {"decimalnumber", "Nd"}, {"nonspacingmark", "Mn"}, {"spaceseparator", "Zs"},
                 {"control", "Cc"},         {"format", "Cf"}};
    char name[64], plain[64];
    int length = 0, plain_length = 0;
    if (*p->at != '{')
        return refuse(p, "\\p without {}");
    p->at++;
    if (*p->at == '^') {
        *negative = !*negative;
        p->at++;
    }
    for (; *p->at && *p->at != '}' && length < (int)sizeof name - 1; p->at++) {
        const char c = *p->at;
        if (!samba_char_is_word((uint8_t)c) && c != ' ' && c != '-' && c != '=')
            return refuse(p, "a property of an odd name");
        name[length++] = c;
        if (c != '_' && c != ' ' && c != '-')
            plain[plain_length++] = (char)samba_char_lower((uint8_t)c);
    }
    name[length] = plain[plain_length] = '\0';
    if (*p->at != '}')
        return refuse(p, "a property without an end");
    p->at++;
    const char *category = NULL;
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (strcmp(plain, names[i].name) == 0)
            category = names[i].category;
    if (!category && plain_length > 0 && plain_length <= 2 && strchr("lmnpszc", plain[0]))
        category = name;
    if (category) {
        const char upper = (char)(category[0] & ~32);
        add_category(out, upper, (char)(category[1] ? category[1] | 32 : 0));
    } else if (strcmp(plain, "word") == 0)
        add_shorthand(out, 'w', false);
    else if (strcmp(plain, "space") == 0 || strcmp(plain, "whitespace") == 0)
        add_shorthand(out, 's', false);
    else if (strcmp(plain, "digit") == 0)
        add_shorthand(out, 'd', false);
    else if (strcmp(plain, "alnum") == 0 || strcmp(plain, "punct") == 0 || strcmp(plain, "print") == 0 ||
             strcmp(plain, "graph") == 0 || strcmp(plain, "cntrl") == 0 || strcmp(plain, "blank") == 0)
        return refuse(p, "a POSIX class as a property");
    else if (strcmp(plain, "han") == 0) /* with the ideographs of Unicode 15 and 15.1 */
        samba_text_add(out, "\\p{sc:Han}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}");
    else
        samba_text_add(out, samba_regex_is_script(name) ? "\\p{sc:%s}" : "\\p{%s}", name);
    return SAMBA_OK;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* \xHH, \x{H..}, \uHHHH or a letter's character, behind the \ and its letter; -1: it is none. */
static samba_status escaped_code(samba_translation *p, char letter, int64_t *code)
{
    static const char letters[] = "ntrfvae", codes[] = {10, 9, 13, 12, 11, 7, 27};
    const char *known = strchr(letters, letter);
    int most = letter == 'u' ? 4 : 2;
    *code = -1;
    if (letter && known)
        *code = codes[known - letters];
    if (letter != 'x' && letter != 'u')
        return SAMBA_OK;
    bool braced = letter == 'x' && *p->at == '{';
    if (braced) {
        most = 8;
        p->at++;
    }
    int64_t number = 0;
    int count = 0;
    for (; count < most && digit(*p->at) >= 0; count++)
        number = number * 16 + digit(*p->at++);
    if (count == 0 || (letter == 'u' && count < 4) || (braced && *p->at++ != '}') || number > 0x10ffff ||
        (number >= 0xd800 && number < 0xe000))
        return refuse(p, "a character's number that is none");
    *code = number;
    return SAMBA_OK;
}

/* ---- classes: a choice of what is in [..] and of complements ---- */
typedef struct choice {
    samba_text inside, others;
} choice;

static void add_char(samba_text *out, uint32_t code) { samba_text_add(out, "\\x{%x}", code); }

/* What one item of a class stands for: *code, or -1 for a set, which it has added. */
static samba_status item(samba_translation *p, choice *c, int depth, int64_t *code)
{
    *code = -1;
    if (*p->at == '[' && p->at[1] == ':') {
        const char *end = strstr(p->at, ":]");
        if (!end || end - p->at > 12)
            return refuse(p, "a POSIX class without an end");
        static const char *const names[][2] = {{"space", "s"},  {"word", "w"},   {"digit", "d"},  {"xdigit", "h"},
                                               {"alpha", NULL}, {"alnum", NULL}, {"upper", NULL}, {"lower", NULL}};
        int which = 0;
        const size_t length = (size_t)(end - p->at) - 2;
        while (which < SAMBA_COUNT(names) &&
               (strlen(names[which][0]) != length || strncmp(p->at + 2, names[which][0], length) != 0))
            which++;
        if (which == SAMBA_COUNT(names))
            return refuse(p, "a POSIX class other than space, word, digit, xdigit, alpha, alnum, upper and lower");
        if (names[which][1])
            add_shorthand(&c->inside, names[which][1][0], false);
        else {
            samba_text_add(&c->inside, which == 6 ? "\\p{Uppercase}" : which == 7 ? "\\p{Lowercase}" : "\\p{Alphabetic}");
            add_newer(&c->inside, 'L', which == 6 ? 'u' : which == 7 ? 'l' : '\0');
            if (which == 5)
                add_category(&c->inside, 'N', 'd');
        }
        p->at = end + 2;
        return SAMBA_OK;
    }
    if (*p->at == '[') {
        samba_text_add(&c->others, "%s", c->others.length ? "|" : "");
        return expression(p, &c->others, depth + 1);
    }
    if (*p->at != '\\') {
        int size;
        *code = samba_utf8_code(p->at, &size);
        p->at += size;
        return SAMBA_OK;
    }
    const char letter = p->at[1];
    if (!letter)
        return refuse(p, "a \\ at its end");
    p->at += 2;
    if (strchr("sdwhSDWH", letter)) {
        if (letter & 32)
            add_shorthand(&c->inside, letter, false);
        else {
            samba_text_add(&c->others, "%s[^", c->others.length ? "|" : "");
            add_shorthand(&c->others, (char)(letter | 32), false);
            samba_text_add(&c->others, "]");
        }
        return SAMBA_OK;
    }
    if (letter == 'p' || letter == 'P') {
        bool negative = letter == 'P';
        samba_text name;
        samba_text_init(&name, p->context);
        samba_status status = property(p, &name, &negative);
        if (status == SAMBA_OK && negative)
            samba_text_add(&c->others, "%s[^%s]", c->others.length ? "|" : "", name.data ? name.data : "");
        else if (status == SAMBA_OK)
            samba_text_add(&c->inside, "%s", name.data ? name.data : "");
        status = status == SAMBA_OK ? name.status : status;
        samba_text_clear(&name);
        return status;
    }
    SAMBA_TRY(escaped_code(p, letter, code));
    if (letter == 'b')
        *code = 8;
    if (*code < 0 && samba_char_is_word((uint8_t)letter))
        return refuse(p, "an escape that is not known in a class");
    if (*code < 0) {
        int size;
        p->at--;
        *code = samba_utf8_code(p->at, &size);
        p->at += size;
    }
    return SAMBA_OK;
}

/* One side of an && up to the next or to the ]. */
static samba_status side(samba_translation *p, choice *c, int depth)
{
    for (bool first = true; *p->at && (*p->at != ']' || first) && !(p->at[0] == '&' && p->at[1] == '&'); first = false) {
        int64_t from, to;
        if (*p->at == ']' && !first)
            break;
        SAMBA_TRY(item(p, c, depth, &from));
        if (from >= 0 && p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
            p->at++;
            SAMBA_TRY(item(p, c, depth, &to));
            if (to < from)
                return refuse(p, "a range of characters that ends before it begins");
            samba_text_add(&c->inside, "\\x{%x}-\\x{%x}", (unsigned)from, (unsigned)to);
        } else if (from >= 0)
            add_char(&c->inside, (uint32_t)from);
    }
    return SAMBA_OK;
}

static void put_choice(samba_text *out, const choice *c)
{
    const char *inside = c->inside.length ? c->inside.data : "", *others = c->others.length ? c->others.data : "";
    if (!*others)
        samba_text_add(out, *inside ? "[%s]" : "(?!)%s", inside);
    else if (!*inside)
        samba_text_add(out, "(?:%s)", others);
    else
        samba_text_add(out, "(?:[%s]|%s)", inside, others);
}

/* [..] as an expression for one character. */
static samba_status expression(samba_translation *p, samba_text *out, int depth)
{
    if (depth > MOST_DEPTH)
        return refuse(p, "classes nested too deeply");
    samba_text all; /* the sides so far, as one that looks ahead */
    samba_text_init(&all, p->context);
    choice c;
    samba_text_init(&c.inside, p->context);
    samba_text_init(&c.others, p->context);
    p->at++;
    const bool negative = *p->at == '^';
    p->at += negative;
    samba_status status = SAMBA_OK;
    bool several = false;
    while (status == SAMBA_OK) {
        status = side(p, &c, depth);
        if (status != SAMBA_OK || !(p->at[0] == '&' && p->at[1] == '&'))
            break;
        p->at += 2;
        samba_text_add(&all, "(?=");
        put_choice(&all, &c);
        samba_text_add(&all, ")");
        samba_text_clear(&c.inside);
        samba_text_clear(&c.others);
        several = true;
    }
    if (status == SAMBA_OK && *p->at != ']')
        status = samba_fail(p->context, SAMBA_ERROR_FORMAT, "%s: a class of the regular expression has no ]", p->where);
    if (status == SAMBA_OK) {
        p->at++;
        if (!several && !c.others.length && c.inside.length)
            samba_text_add(out, negative ? "[^%s]" : "[%s]", c.inside.data);
        else {
            samba_text_add(out, negative ? "(?:(?!" : "(?:");
            samba_text_add(out, "%s", all.length ? all.data : "");
            put_choice(out, &c);
            samba_text_add(out, negative ? ")(?s:.))" : ")");
        }
        status = c.inside.status != SAMBA_OK ? c.inside.status : c.others.status != SAMBA_OK ? c.others.status : all.status;
    }
    samba_text_clear(&c.inside);
    samba_text_clear(&c.others);
    samba_text_clear(&all);
    return status;
}

/* ---- what stands outside of classes ---- */
static samba_status escape(samba_translation *p)
{
    samba_text *out = p->out;
    const char letter = p->at[1];
    if (!letter)
        return refuse(p, "a \\ at its end");
    p->at += 2;
    int64_t code;
    if (strchr("sdwhSDWH", letter)) {
        samba_text_add(out, letter & 32 ? "[" : "[^");
        add_shorthand(out, (char)(letter | 32), true);
        samba_text_add(out, "]");
        return SAMBA_OK;
    }
    if (letter == 'p' || letter == 'P') {
        bool negative = letter == 'P';
        samba_text name;
        samba_text_init(&name, p->context);
        samba_status status = property(p, &name, &negative);
        if (status == SAMBA_OK)
            samba_text_add(out, negative ? "[^%s]" : "[%s]", name.data ? name.data : "");
        status = status == SAMBA_OK ? name.status : status;
        samba_text_clear(&name);
        return status;
    }
    if (letter == 'b' || letter == 'B') { /* by the same \w */
        const char *signs[] = {"(?:(?<=", ")(?!", ")|(?<!", ")(?=", "))"};
        const char *none[] = {"(?:(?<=", ")(?=", ")|(?<!", ")(?!", "))"};
        for (int i = 0; i < 5; i++) {
            samba_text_add(out, "%s", letter == 'b' ? signs[i] : none[i]);
            if (i < 4) {
                samba_text_add(out, "[");
                add_shorthand(out, 'w', true);
                samba_text_add(out, "]");
            }
        }
        return SAMBA_OK;
    }
    SAMBA_TRY(escaped_code(p, letter, &code));
    if (code >= 0)
        add_char(out, (uint32_t)code);
    else if (strchr("AzZR123456789k", letter))
        samba_text_add(out, "\\%c", letter);
    else if (samba_char_is_word((uint8_t)letter) && !(letter & 0x80))
        return refuse(p, "an escape that is not known");
    else {
        int size;
        p->at--;
        add_char(out, samba_utf8_code(p->at, &size));
        p->at += size;
    }
    return SAMBA_OK;
}

/* (?..., up to where the group's content begins. */
static samba_status group(samba_translation *p)
{
    static const char *const same[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?<", NULL};
    samba_text *out = p->out;
    if (p->at[1] == '*')
        return refuse(p, "a verb");
    if (p->at[1] != '?') {
        samba_text_add(out, "(");
        p->at++;
        return SAMBA_OK;
    }
    for (int i = 0; same[i]; i++)
        if (strncmp(p->at, same[i], strlen(same[i])) == 0) {
            samba_text_add(out, "%s", same[i]);
            p->at += strlen(same[i]);
            return SAMBA_OK;
        }
    samba_text_add(out, "(?");
    for (p->at += 2; *p->at && strchr("imx-", *p->at); p->at++)
        samba_text_add(out, "%c", *p->at == 'm' ? 's' : *p->at);
    if (*p->at != ':' && *p->at != ')')
        return refuse(p, "a group of an unknown kind");
    if (*p->at == ':') {
        samba_text_add(out, ":");
        p->at++;
    }
    return SAMBA_OK;
}

/* {n}, {n,}, {,m} or {n,m}; false: a { that is one. */
static bool interval(samba_translation *p, int64_t last)
{
    const char *at = p->at + 1;
    int64_t least = 0, most = -1;
    bool any = false, comma = false;
    for (; *at >= '0' && *at <= '9' && least < 100000; at++, any = true)
        least = least * 10 + (*at - '0');
    if (*at == ',') {
        comma = true;
        at++;
        if (*at >= '0' && *at <= '9') {
            any = true;
            for (most = 0; *at >= '0' && *at <= '9' && most < 100000; at++)
                most = most * 10 + (*at - '0');
        }
    }
    if (*at != '}' || !any || last < 0)
        return false;
    p->at = at + 1;
    char text[64];
    int length = comma && most >= 0 ? snprintf(text, sizeof text, "{%lld,%lld}", (long long)least, (long long)most)
                 : comma            ? snprintf(text, sizeof text, "{%lld,}", (long long)least)
                                    : snprintf(text, sizeof text, "{%lld}", (long long)least);
    samba_text_add(p->out, "%.*s", length, text);
    if (*p->at == '+' && p->out->status == SAMBA_OK) { /* once more, from where what it repeats begins */
        samba_text_add(p->out, "(?:)");                /* room */
        if (p->out->status == SAMBA_OK) {
            char *data = p->out->data;
            memmove(data + last + 3, data + last, (size_t)(p->out->length - 4 - last));
            memcpy(data + last, "(?:", 3);
            data[p->out->length - 1] = ')';
        }
    }
    return true;
}

samba_status samba_pattern_translate(samba_context *context, const char *where, const char *pattern, samba_text *out)
{
    samba_translation p = {.context = context, .where = where, .begin = pattern, .at = pattern, .out = out};
    int64_t groups[256], last = -1; /* where in `out` each open group begins, and what a quantifier repeats */
    int open = 0;
    while (*p.at && out->status == SAMBA_OK) {
        const int64_t begin = out->length;
        switch (*p.at) {
        case '\\':
            SAMBA_TRY(escape(&p));
            last = begin;
            break;
        case '[':
            SAMBA_TRY(expression(&p, out, 0));
            last = begin;
            break;
        case '(':
            if (open == SAMBA_COUNT(groups))
                return refuse(&p, "groups nested too deeply");
            SAMBA_TRY(group(&p));
            groups[open++] = begin;
            last = -1;
            break;
        case ')':
            samba_text_add(out, ")");
            p.at++;
            last = open > 0 ? groups[--open] : -1;
            break;
        case '{':
            if (!interval(&p, last)) {
                samba_text_add(out, "\\{");
                p.at++;
                last = begin;
            }
            break;
        case '*':
        case '+':
        case '?':
        case '|':
        case '^':
        case '$':
        case '.':
            samba_text_add(out, "%c", *p.at);
            last = *p.at == '.' ? begin : strchr("|^$", *p.at) ? -1 : last;
            p.at++;
            break;
        default: {
            int size = samba_utf8_size(*p.at);
            samba_text_add(out, "%.*s", size, p.at);
            p.at += size;
            last = begin;
        }
        }
    }
    return out->status;
}
