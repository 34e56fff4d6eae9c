/* SPDX-License-Identifier: Apache-2.0
 *
 * What the harnesses over files share. Each is one program: with clang's libFuzzer, which searches for inputs that break it, or
 * with replay.c, which gives it stored ones and, by a seed, changed copies of them. The names that begin with LLVMFuzzer are
 * libFuzzer's.
 *
 * A harness answers 0. What it must never do is crash, read or write where nothing is, take memory or time out of proportion. */
#ifndef SAMBA_FUZZ_FILES_H
#define SAMBA_FUZZ_FILES_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Changes the input in its `room`; returns its new size. libFuzzer's, or that of replay.c. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
/* The harness's own way to change one, which knows its form. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
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

#endif
