/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of a command line: numbers that must lie in a range, choices, and the short forms that argp does not know.
 *
 * argp reads "-mb" as -m -b and "-b=64" as the value "=64";
 * the documents write both, so argv is rewritten before argp sees it. */
#include "app/app.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t samba_word_integer(struct argp_state *state, const char *option, const char *text, int64_t low, int64_t high)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        argp_error(state, "%s: expected a whole number from %lld to %lld, given '%s'", option, (long long)low, (long long)high,
                   text);
    return value;
}

int64_t samba_word_bytes(struct argp_state *state, const char *option, const char *text, int64_t low, int64_t high)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    bool good = !errno && end != text;
    int power = 0;
    while (good && power < SAMBA_COUNT(units) && strncmp(end, units[power], 1) != 0)
        power++;
    const char *rest = power > 0 && power < SAMBA_COUNT(units) ? end + 1 : end;
    good = good && power < SAMBA_COUNT(units) && (!*rest || (power > 0 && strcmp(rest, "iB") == 0)) &&
           value <= INT64_MAX >> 10 * power && value >= 0;
    const int64_t bytes = good ? (int64_t)value << 10 * power : 0;
    if (!good || bytes < low || bytes > high)
        argp_error(state, "%s: expected bytes from %lld to %lld, such as 65536, 64KiB or 1GiB, given '%s'", option,
                   (long long)low, (long long)high, text);
    return bytes;
}

double samba_word_real(struct argp_state *state, const char *option, const char *text, double low, double high)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < low || value > high)
        argp_error(state, "%s: expected a number from %g to %g, given '%s'", option, low, high, text);
    return value;
}

int samba_word_choice(struct argp_state *state, const char *option, const char *text, const char *const *choices, int count)
{
    char known[256] = "";
    for (int i = 0; i < count; i++) {
        if (strcmp(text, choices[i]) == 0)
            return i;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", choices[i]);
    }
    argp_error(state, "%s: expected %s, given '%s'", option, known, text);
    return 0;
}

static int key_of(const samba_option_row *rows, int row) { return rows[row].letter ? rows[row].letter : 256 + row; }

struct argp_option samba_option_of(const samba_option_row *rows, int row)
{
    int group = 0;
    for (int i = 0; i <= row; i++)
        group += !rows[i].name;
    return (struct argp_option){rows[row].name, rows[row].name ? key_of(rows, row) : 0,   rows[row].value, 0,
                                rows[row].help, rows[row].group ? rows[row].group : group};
}

int samba_option_find(const samba_option_row *rows, int count, int key)
{
    int row = 0;
    while (row < count && (!rows[row].name || key_of(rows, row) != key))
        row++;
    return row < count ? row : -1;
}

void samba_option_take(const samba_option_row *row, void *into, char *text, struct argp_state *state)
{
    char option[64];
    void *to = (char *)into + row->at;
    snprintf(option, sizeof option, "--%s", row->name);
    switch (row->kind) {
    case SAMBA_OPTION_NOTHING: break;
    case SAMBA_OPTION_FLAG: *(bool *)to = true; break;
    case SAMBA_OPTION_TEXT: *(const char **)to = text; break;
    case SAMBA_OPTION_INTEGER:
        *(int64_t *)to =
            (strcmp(row->value, "BYTES") == 0 ? samba_word_bytes : samba_word_integer)(state, option, text, row->low, row->high);
        break;
    case SAMBA_OPTION_INT: *(int *)to = (int)samba_word_integer(state, option, text, row->low, row->high); break;
    case SAMBA_OPTION_REAL: *(double *)to = samba_word_real(state, option, text, (double)row->low, (double)row->high); break;
    case SAMBA_OPTION_CHOICE: *(int *)to = samba_word_choice(state, option, text, row->choices, (int)row->high); break;
    case SAMBA_OPTION_OTHER: row->take(into, row, text, state); break;
    }
}

static char *join(samba_arena *arena, const char *front, const char *back)
{
    size_t size = strlen(front) + strlen(back) + 1;
    char *text = samba_arena_alloc(arena, size);
    if (text)
        snprintf(text, size, "%s%s", front, back);
    return text;
}

static bool is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return end != text && !*end;
}

char **samba_words_normalise(samba_arena *arena, int *argc, char **argv)
{
    static const char microbatch[] = "--microbatch-size=";
    char **words = samba_arena_alloc(arena, sizeof(char *) * ((size_t)*argc + 1));
    if (!words)
        return NULL;
    int count = 0;
    bool plain = false; /* after "--" */
    for (int i = 0; i < *argc; i++) {
        char *word = argv[i];
        if (i > 0 && !plain && strcmp(word, "--") == 0)
            plain = true;
        /* takes as many numbers as follow: one value for argp */
        if (!plain && strcmp(word, "--resources-scaling-factors") == 0) {
            const char *between = "=";
            while (word && i + 1 < *argc && is_number(argv[i + 1])) {
                char *front = join(arena, word, between);
                word = front ? join(arena, front, argv[++i]) : NULL;
                between = " ";
            }
            if (!word)
                return NULL;
            words[count++] = word;
            continue;
        }
        if (i == 0 || plain || word[0] != '-' || word[1] == '\0' || word[1] == '-') {
            words[count++] = word;
            continue;
        }
        if (strncmp(word, "-mb", 3) == 0) {
            const char *value = word[3] == '=' ? word + 4 : word + 3;
            bool apart = word[3] == '\0';
            if (apart && i + 1 < *argc)
                value = argv[++i];
            word = apart && value[0] == '\0' ? join(arena, "--microbatch-size", "") : join(arena, microbatch, value);
        } else if (word[2] == '=') {
            char letter[3] = {'-', word[1], '\0'};
            word = join(arena, letter, word + 3);
        }
        if (!word)
            return NULL;
        words[count++] = word;
    }
    *argc = count;
    return words;
}

const char *samba_word_isa(const char *isa)
{
    if (isa) /* for the whole program: peaks are measured by the same instructions */
        setenv("SAMBAFLOW_ISA", isa, 1);
    return isa;
}

samba_session_options samba_word_session(uint64_t seed, int threads, const char *isa)
{
    samba_session_options options = samba_session_defaults();
    options.seed = seed;
    options.threads = threads;
    options.isa = samba_word_isa(isa);
    return options;
}
