/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a row is summed, in one place, so that all who sum rows agree to the last bit. It depends on the row's length
 * alone: four running vectors of 64 bytes, since one addition waits for the one before it, and one addition across them at the
 * end. */
#ifndef SAMBA_CPU_REDUCE_SUM_H
#define SAMBA_CPU_REDUCE_SUM_H

#include <stdint.h>
#include <string.h>

#define SHORT_SUM 32 /* columns below which a row is no work for vectors: plain additions of several rows overlap */

/* samba_row_sum_<name>: the sum of a[i], or of a[i] * b[i] where b is not NULL */
#define SAMBA_ROW_SUM(name, type)                                                                                            \
    typedef type samba_lanes_##name __attribute__((vector_size(64)));                                                        \
    static inline void samba_add_lanes_##name(samba_lanes_##name *sum, const type *a, const type *b)                         \
    {                                                                                                                        \
        samba_lanes_##name x, y;                                                                                             \
        memcpy(&x, a, sizeof x);                                                                                             \
        if (b) {                                                                                                             \
            memcpy(&y, b, sizeof y);                                                                                         \
            x *= y;                                                                                                          \
        }                                                                                                                    \
        *sum += x;                                                                                                           \
    }                                                                                                                        \
    static inline type samba_row_sum_##name(const type *a, const type *b, int64_t n)                                         \
    {                                                                                                                        \
        enum { LANES = 64 / (int)sizeof(type) };                                                                             \
        type sum = 0;                                                                                                        \
        int64_t i = 0;                                                                                                       \
        if (n >= SHORT_SUM) {                                                                                                \
            samba_lanes_##name part0 = {0}, part1 = part0, part2 = part0, part3 = part0;                                     \
            for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                                     \
                samba_add_lanes_##name(&part0, a + i, b ? b + i : b);                                                        \
                samba_add_lanes_##name(&part1, a + i + LANES, b ? b + i + LANES : b);                                        \
                samba_add_lanes_##name(&part2, a + i + 2 * LANES, b ? b + i + 2 * LANES : b);                                \
                samba_add_lanes_##name(&part3, a + i + 3 * LANES, b ? b + i + 3 * LANES : b);                                \
            }                                                                                                                \
            for (; i + LANES <= n; i += LANES)                                                                               \
                samba_add_lanes_##name(&part0, a + i, b ? b + i : b);                                                        \
            part0 = (part0 + part1) + (part2 + part3);                                                                       \
            type lanes[LANES];                                                                                               \
            memcpy(lanes, &part0, sizeof lanes);                                                                             \
            for (int width = LANES / 2; width > 0; width /= 2)                                                               \
                for (int k = 0; k < width; k++)                                                                              \
                    lanes[k] += lanes[k + width];                                                                            \
            sum = lanes[0];                                                                                                  \
        }                                                                                                                    \
        for (; i < n; i++)                                                                                                   \
            sum += b ? a[i] * b[i] : a[i];                                                                                   \
        return sum;                                                                                                          \
    }

#endif
