/* SPDX-License-Identifier: Apache-2.0
 *
 * Uniform random numbers of consecutive indices: whole Philox blocks of four, many at a time, and parts of one at both ends.
 * Compiled once for each ISA. Every number is samba_philox_uniform(seed, index), bit for bit.
 *
 * On x86 a vector holds one word of several blocks, each in a lane of 64 bits, since the instruction that multiplies 32 by
 * 32 bits takes and gives such lanes (a loop in plain C comes out 3 to 5 times slower). */
#include "device/cpu/tile/parts.h"
#include "device/cpu/isa/shuffle.h"
#include "device/cpu/isa/wide_products.h"
#include "tensor/philox.h"

#if defined(WIDE_PRODUCTS) /* isa/wide_products.h */
#define WIDTH VECTOR_BYTES
#define LANES (WIDTH / 8) /* blocks at a time */

typedef uint64_t words64 __attribute__((vector_size(WIDTH)));
typedef uint32_t words32 __attribute__((vector_size(WIDTH)));
typedef int32_t integers __attribute__((vector_size(WIDTH)));
typedef float floats __attribute__((vector_size(WIDTH)));

static inline void store_floats(float *d, words64 words)
{
    floats values = __builtin_convertvector((integers)((words32)words >> 8), floats) * 0x1p-24f;
    __builtin_memcpy(d, &values, WIDTH);
}

static int64_t random_blocks(float *d, uint64_t seed, uint64_t block, int64_t blocks)
{
    words64 zero = {0}, lane = {0}, low = {0}, high = {0}; /* low, high: lanes 0, LANES, 1, LANES + 1, ... of two vectors */
    for (int i = 0; i < LANES; i++) {
        lane[i] = (uint64_t)i;
        low[i] = (uint64_t)(i % 2 * LANES + i / 2);
        high[i] = (uint64_t)(i % 2 * LANES + LANES / 2 + i / 2);
    }
    words64 factor0 = zero + UINT64_C(0xD2511F53), factor1 = zero + UINT64_C(0xCD9E8D57);
    int64_t b = 0;
    for (; b + LANES <= blocks; b += LANES) {
        words64 c0 = lane + (block + (uint64_t)b), c1 = c0 >> 32, c2 = zero, c3 = zero; /* low 32 bits of a lane count */
        uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            words64 p0 = WIDE_PRODUCTS(factor0, c0), p1 = WIDE_PRODUCTS(factor1, c2);
            c0 = p1 >> 32 ^ c1 ^ (uint64_t)key0;
            c2 = p0 >> 32 ^ c3 ^ (uint64_t)key1;
            c1 = p1;
            c3 = p0;
            key0 += UINT32_C(0x9E3779B9);
            key1 += UINT32_C(0xBB67AE85);
        }
        words64 first = c1 << 32 | (c0 & 0xffffffffu), second = c3 << 32 | (c2 & 0xffffffffu);
        store_floats(d + 4 * b, SHUFFLE2(first, second, low));
        store_floats(d + 4 * b + 2 * LANES, SHUFFLE2(first, second, high));
    }
    return b;
}
#endif

static void random_part(float *d, uint64_t seed, uint64_t index, int64_t n)
{
    uint32_t words[4];
    samba_philox_block(seed, index / 4, words);
    for (int64_t i = 0; i < n; i++)
        d[i] = samba_philox_to_float(words[index % 4 + (uint64_t)i]);
}

void SAMBA_ISA_NAME(samba_random)(float *d, uint64_t seed, uint64_t index, int64_t n)
{
    int64_t head = (int64_t)(-index % 4), done = head < n ? head : n;
    if (done > 0)
        random_part(d, seed, index, done);
#if defined(WIDE_PRODUCTS)
    done += 4 * random_blocks(d + done, seed, (index + (uint64_t)done) / 4, (n - done) / 4);
#endif
    for (; done < n; done += 4)
        random_part(d + done, seed, index + (uint64_t)done, n - done < 4 ? n - done : 4);
}
