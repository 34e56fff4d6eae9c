/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of words for messages, in a buffer of fixed size: an error must be reported without memory. */
#include "runtime/runtime.h"

#define WORD_ROOM 96 /* of one word with quotes and comma; longer ones are cut */

void samba_words_add(samba_words *words, const char *word)
{
    if (words->full)
        return;
    int room = (int)sizeof words->text - words->used;
    if (room < WORD_ROOM + 8) {
        words->full = true;
        snprintf(words->text + words->used, (size_t)room, ", ...");
        return;
    }
    words->used += snprintf(words->text + words->used, WORD_ROOM, "%s\"%.*s\"", words->count ? ", " : "", WORD_ROOM - 8, word);
    words->count++;
}

const char *samba_words_text(const samba_words *words) { return words->count ? words->text : "none"; }
