/* SPDX-License-Identifier: Apache-2.0
 *
 * What the harnesses over files share. Each is one program: with clang's libFuzzer, which searches for inputs that break it, or
 * with replay.c, which gives it stored ones and, by a seed, changed copies of them. The names that begin with LLVMFuzzer are
 * libFuzzer's.
 *
 * A harness answers 0, and counts what was read as what it is. What it must never do is crash, read or write where nothing is,
 * take memory or time out of proportion. */
#ifndef SAMBA_FUZZ_FILES_H
#define SAMBA_FUZZ_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Changes the input in its `room`; returns its new size. libFuzzer's, or that of replay.c. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
/* The harness's own way to change one, which knows its form. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
/* How many inputs were read without an error: replay.c refuses inputs to begin with that are not, as those of an older format
 * would be. */
size_t samba_fuzz_accepted __attribute__((weak));
/* Writes inputs to begin with as files into the folder. */
void samba_fuzz_seeds(const char *folder);

/* splitmix64 */
static inline uint64_t samba_fuzz_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Memory that is counted: what lives, and the most that did. A context's realloc. */
static size_t samba_fuzz_live __attribute__((unused)), samba_fuzz_most __attribute__((unused));
static inline void *samba_fuzz_count(void *user, void *block, size_t old_size, size_t new_size)
{
    (void)user;
    void *fresh = new_size ? aligned_alloc(64, (new_size + 63) / 64 * 64) : NULL;
    if (fresh && block)
        memcpy(fresh, block, old_size < new_size ? old_size : new_size);
    if (new_size && !fresh)
        return NULL;
    free(block);
    samba_fuzz_live += new_size - old_size;
    samba_fuzz_most = samba_fuzz_live > samba_fuzz_most ? samba_fuzz_live : samba_fuzz_most;
    return fresh;
}

#endif
