/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on names: hashing, matching against '*' and '?', and finding the one a person probably meant. Pure functions over
 * bytes; nothing is allocated. */
#include "base/base.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t samba_hash(const void *data, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(data, size, seed); }

uint64_t samba_hash_parts(const void *const *parts, const size_t *sizes, int count)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (int i = 0; i < count; i++)
        XXH3_64bits_update(&state, parts[i], sizes[i]);
    return XXH3_64bits_digest(&state);
}

bool samba_ends_with(const char *text, const char *ending)
{
    const size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

bool samba_match(const char *pattern, const char *name)
{
    /* After a '*' only the latest one needs to be retried: an earlier one could gain nothing that it cannot. */
    const char *star = NULL, *resume = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

#define LONGEST 128 /* names longer than this are compared by their first bytes */

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c; }

static int least(int a, int b) { return a < b ? a : b; }

/* Levenshtein's distance with swaps of neighbours (optimal string alignment), blind to case. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length)
{
    int rows[3][LONGEST + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (int j = 0; j <= b_length; j++)
        above[j] = before[j] = j;
    for (int i = 1; i <= a_length; i++) {
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int differs = lower(a[i - 1]) != lower(b[j - 1]);
            row[j] = least(above[j - 1] + differs, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        int *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b_length];
}

static bool is_word(char c) { return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9'); }

/* The next word from *at on, of letters and digits; its length, 0 at the end. *at is behind it. */
static int next_word(const char **at, const char **word)
{
    while (**at && !is_word(**at))
        ++*at;
    for (*word = *at; is_word(**at);)
        ++*at;
    return (int)(*at - *word);
}

/* How many words of `name` there are, all of which the other has; 0: it lacks one. */
static int words_in(const char *name, const char *other)
{
    const char *word, *its;
    int count = 0;
    for (int length = next_word(&name, &word); length > 0; length = next_word(&name, &word)) {
        bool there = false;
        const char *at = other;
        for (int n = next_word(&at, &its); n > 0 && !there; n = next_word(&at, &its)) {
            there = n == length;
            for (int i = 0; there && i < n; i++)
                there = lower(word[i]) == lower(its[i]);
        }
        if (!there)
            return 0;
        count++;
    }
    return count;
}

/* What has all words of the name, and the fewest others: "max-new-tokens" for "max-tokens", "lin.weight" for "weight". Where one
 * word is all, only one may have it. */
static const char *by_words(const char *name, const char *const *candidates, int count)
{
    const char *found = NULL;
    int fewest = 0, ties = 0;
    for (int i = 0; i < count; i++) {
        const int own = words_in(name, candidates[i]), all = own ? words_in(candidates[i], candidates[i]) : 0;
        if (own == 0 || (found && all > fewest))
            continue;
        ties = found && all == fewest ? ties + 1 : 1;
        if (ties == 1)
            found = candidates[i];
        fewest = all;
    }
    return ties > 1 && words_in(name, name) < 2 ? NULL : found;
}

const char *samba_nearest(const char *name, const char *const *candidates, int count)
{
    int length = (int)strnlen(name, LONGEST), best = 1 + length / 4;
    const char *nearest = NULL;
    for (int i = 0; i < count; i++) {
        int candidate_length = (int)strnlen(candidates[i], LONGEST);
        int difference = candidate_length > length ? candidate_length - length : length - candidate_length;
        if (difference > best)
            continue;
        int distance = edit_distance(name, length, candidates[i], candidate_length);
        /* a distance of the whole length means that nothing is in common */
        if (distance <= best && distance < length) {
            if (nearest && distance == best)
                continue;
            nearest = candidates[i];
            best = distance;
        }
    }
    return nearest ? nearest : by_words(name, candidates, count);
}
