/* SPDX-License-Identifier: Apache-2.0
 *
 * 64 bytes side by side as vectors of the instruction set at hand, so that the order of sums is the same whatever a vector holds.
 * A compiler's own type of 64 bytes goes through memory, element by element, where registers are smaller.
 *
 * WIDE(name, type, VECTOR, INDICES): wide_<name>, with all its elements set, loaded, stored, added; and their sum, by halves: the
 * upper to the lower, until one is left. INDICES are integers as wide as the type, of lanes.h. EACH_PART(p) is a loop over its
 * vectors. */
#ifndef SAMBA_CPU_WIDE_H
#define SAMBA_CPU_WIDE_H

#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/shuffle.h"

enum { WIDE_PARTS = 64 / VECTOR_BYTES };
#define EACH_PART(p) UNROLL for (int p = 0; p < WIDE_PARTS; p++)

/* Lanes from any one on; a shuffle counts those beyond the last from 0 again. */
static const int32_t lanes_from_ints[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                            16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
static const int64_t lanes_from_longs[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#define WIDE(name, type, VECTOR, INDICES)                                                                                        \
    typedef struct wide_##name {                                                                                                 \
        VECTOR v[WIDE_PARTS];                                                                                                    \
    } wide_##name;                                                                                                               \
    INLINE void wide_set_##name(wide_##name *x, type value)                                                                      \
    {                                                                                                                            \
        EACH_PART(p)                                                                                                             \
        x->v[p] = value - (VECTOR){0}; /* minus 0 keeps -0 */                                                                    \
    }                                                                                                                            \
    INLINE void wide_load_##name(wide_##name *x, const type *from)                                                               \
    {                                                                                                                            \
        EACH_PART(p)                                                                                                             \
        __builtin_memcpy(&x->v[p], from + p * (int)(sizeof(VECTOR) / sizeof(type)), sizeof(VECTOR));                             \
    }                                                                                                                            \
    INLINE void wide_store_##name(type *to, const wide_##name *x)                                                                \
    {                                                                                                                            \
        EACH_PART(p)                                                                                                             \
        __builtin_memcpy(to + p * (int)(sizeof(VECTOR) / sizeof(type)), &x->v[p], sizeof(VECTOR));                               \
    }                                                                                                                            \
    INLINE void wide_add_##name(wide_##name *sum, const wide_##name *x)                                                          \
    {                                                                                                                            \
        EACH_PART(p)                                                                                                             \
        sum->v[p] += x->v[p];                                                                                                    \
    }                                                                                                                            \
    INLINE type wide_total_##name(const wide_##name *x)                                                                          \
    {                                                                                                                            \
        enum { LANES_ = sizeof(VECTOR) / sizeof(type) };                                                                         \
        wide_##name sums = *x;                                                                                                   \
        UNROLL for (int half = WIDE_PARTS / 2; half > 0; half /= 2) {                                                            \
            UNROLL for (int p = 0; p < half; p++)                                                                                \
                sums.v[p] += sums.v[p + half];                                                                                   \
        }                                                                                                                        \
        UNROLL for (int half = LANES_ / 2; half > 0; half /= 2) {                                                                \
            INDICES other; /* out of memory: GCC makes them lane by lane where they are worked out */                            \
            __builtin_memcpy(&other, lanes_from_##INDICES + half, sizeof other);                                                 \
            sums.v[0] += SHUFFLE1(sums.v[0], other);                                                                             \
        }                                                                                                                        \
        return sums.v[0][0];                                                                                                     \
    }

#endif
