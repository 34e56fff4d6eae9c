/* SPDX-License-Identifier: Apache-2.0
 *
 * Margins between the classes of a row (ops/margin.c): what is no target is laid aside, with -infinity where a target
 * stands and behind the last class, and passed over once a target. Differences are of x's dtype, as torch has them, and
 * are summed in double, lane by lane; how often they were above 0 is counted in integers, so the gradient is rounded once.
 * Compiled once for each ISA. */
#include "device/cpu/isa/lanes.h"
#include "device/cpu/isa/isa.h"
#include "device/cpu/tile/parts.h"
#include <math.h>

enum { LANES = SAMBA_MARGIN_LANES, SHORT = LANES / 2 /* classes of a short row */ };

#define MARGIN(name, type, integer)                                                                                              \
    /* The targets of a row; -1: one is no class. Lays aside what is none of them. */                                            \
    INLINE int64_t others_##name(type *others, const type *x, const int64_t *labels, int64_t classes, int64_t whole)             \
    {                                                                                                                            \
        int64_t targets = 0;                                                                                                     \
        for (; targets < classes && labels[targets] >= 0; targets++)                                                             \
            if (labels[targets] >= classes)                                                                                      \
                return -1;                                                                                                       \
        for (int64_t k = 0; k < classes; k++)                                                                                    \
            others[k] = x[k];                                                                                                    \
        for (int64_t k = classes; k < whole; k++)                                                                                \
            others[k] = -(type)INFINITY;                                                                                         \
        for (int64_t t = 0; t < targets; t++)                                                                                    \
            others[labels[t]] = -(type)INFINITY;                                                                                 \
        return targets;                                                                                                          \
    }                                                                                                                            \
    INLINE type loss_##name(const type *others, const type *x, const int64_t *labels, int64_t targets, int64_t whole)            \
    {                                                                                                                            \
        double sums[LANES] = {0};                                                                                                \
        for (int64_t t = 0; t < targets; t++) {                                                                                  \
            type least = x[labels[t]] - 1;                                                                                       \
            for (int64_t k = 0; k < whole; k += LANES)                                                                           \
                for (int lane = 0; lane < LANES; lane++) {                                                                       \
                    type beyond = others[k + lane] - least;                                                                      \
                    sums[lane] += (double)(beyond > 0 ? beyond : 0);                                                             \
                }                                                                                                                \
        }                                                                                                                        \
        for (int half = LANES / 2; half > 0; half /= 2)                                                                          \
            for (int lane = 0; lane < half; lane++)                                                                              \
                sums[lane] += sums[lane + half];                                                                                 \
        return (type)sums[0];                                                                                                    \
    }                                                                                                                            \
    /* Of each class how many differences it raises, less how many it lowers. */                                                 \
    INLINE void count_##name(integer *counts, const type *others, const type *x, const int64_t *labels, int64_t targets,         \
                             int64_t whole)                                                                                      \
    {                                                                                                                            \
        for (int64_t k = 0; k < whole; k++)                                                                                      \
            counts[k] = 0;                                                                                                       \
        for (int64_t t = 0; t < targets; t++) {                                                                                  \
            type least = x[labels[t]] - 1;                                                                                       \
            integer sums[LANES] = {0}, sum = 0;                                                                                  \
            for (int64_t k = 0; k < whole; k += LANES)                                                                           \
                for (int lane = 0; lane < LANES; lane++) {                                                                       \
                    integer hit = others[k + lane] - least > 0;                                                                  \
                    counts[k + lane] += hit;                                                                                     \
                    sums[lane] += hit;                                                                                           \
                }                                                                                                                \
            for (int lane = 0; lane < LANES; lane++)                                                                             \
                sum += sums[lane];                                                                                               \
            counts[labels[t]] -= sum;                                                                                            \
        }                                                                                                                        \
    }                                                                                                                            \
    /* Short rows, as many as lanes or fewer: a lane is a row, and nothing waits for where targets end. */                       \
    INLINE bool short_##name(const type *x, const int64_t *labels, int64_t rows, int64_t classes, const bool slopes,             \
                             const type *dy, type *y)                                                                            \
    {                                                                                                                            \
        type values[SHORT][LANES], others[SHORT][LANES];                                                                         \
        integer targets[SHORT][LANES], counts[SHORT][LANES], alive[LANES], bad[LANES] = {0}, any = 0;                            \
        double sums[LANES] = {0};                                                                                                \
        SAMBA_VECTOR_LOOP for (int lane = 0; lane < LANES; lane++)                                                               \
            alive[lane] = lane < rows;                                                                                           \
        for (int64_t k = 0; k < classes; k++)                                                                                    \
            for (int64_t lane = 0; lane < LANES; lane++) {                                                                       \
                int64_t at = (lane < rows ? lane : 0) * classes + k, label = labels[at];                                         \
                values[k][lane] = others[k][lane] = x[at];                                                                       \
                targets[k][lane] = (integer)(label < classes ? label < 0 ? -1 : label : LANES);                                  \
                counts[k][lane] = 0;                                                                                             \
            }                                                                                                                    \
        for (int64_t t = 0; t < classes; t++) SAMBA_VECTOR_LOOP                                                                  \
            for (int lane = 0; lane < LANES; lane++) {                                                                           \
                alive[lane] &= targets[t][lane] >= 0;                                                                            \
                targets[t][lane] = alive[lane] ? targets[t][lane] : -1;                                                          \
                bad[lane] |= targets[t][lane] == LANES;                                                                          \
            }                                                                                                                    \
        for (integer t = 0; t < (integer)classes; t++)                                                                           \
            for (integer k = 0; k < (integer)classes; k++) SAMBA_VECTOR_LOOP                                                     \
                for (int lane = 0; lane < LANES; lane++)                                                                         \
                    others[k][lane] = targets[t][lane] == k ? -(type)INFINITY : others[k][lane];                                 \
        for (integer t = 0; t < (integer)classes; t++) {                                                                         \
            type least[LANES];                                                                                                   \
            integer hits[LANES] = {0};                                                                                           \
            SAMBA_VECTOR_LOOP for (int lane = 0; lane < LANES; lane++)                                                           \
                least[lane] = (type)INFINITY;                                                                                    \
            for (integer k = 0; k < (integer)classes; k++) SAMBA_VECTOR_LOOP                                                     \
                for (int lane = 0; lane < LANES; lane++)                                                                         \
                    least[lane] = targets[t][lane] == k ? values[k][lane] - 1 : least[lane];                                     \
            for (integer k = 0; k < (integer)classes; k++) SAMBA_VECTOR_LOOP                                                     \
                for (int lane = 0; lane < LANES; lane++) {                                                                       \
                    type beyond = others[k][lane] - least[lane];                                                                 \
                    if (slopes) {                                                                                                \
                        integer hit = beyond > 0;                                                                                \
                        counts[k][lane] += hit;                                                                                  \
                        hits[lane] += hit;                                                                                       \
                    } else {                                                                                                     \
                        sums[lane] += (double)(beyond > 0 ? beyond : 0);                                                         \
                    }                                                                                                            \
                }                                                                                                                \
            for (integer k = 0; slopes && k < (integer)classes; k++) SAMBA_VECTOR_LOOP                                           \
                for (int lane = 0; lane < LANES; lane++)                                                                         \
                    counts[k][lane] -= targets[t][lane] == k ? hits[lane] : 0;                                                   \
        }                                                                                                                        \
        for (int64_t row = 0; row < rows && !slopes; row++)                                                                      \
            y[row] = (type)sums[row];                                                                                            \
        for (int64_t row = 0; row < rows && slopes; row++)                                                                       \
            for (int64_t k = 0; k < classes; k++)                                                                                \
                y[row * classes + k] = (type)counts[k][row] * dy[row];                                                           \
        for (int lane = 0; lane < LANES; lane++)                                                                                 \
            any |= bad[lane];                                                                                                    \
        return !any;                                                                                                             \
    }                                                                                                                            \
    bool SAMBA_ISA_NAME(samba_margin_##name)(const samba_margins *margins, int64_t begin, int64_t end, void *room)               \
    {                                                                                                                            \
        const int64_t classes = margins->classes, whole = (classes + LANES - 1) / LANES * LANES;                                 \
        type *others = room, *y = margins->result;                                                                               \
        integer *counts = (integer *)room + whole;                                                                               \
        const type *dy = margins->dy;                                                                                            \
        bool good = true;                                                                                                        \
        if (classes == 1) { /* no class is beside a target */                                                                    \
            for (int64_t i = begin; i < end; i++) {                                                                              \
                good &= margins->labels[i] < classes;                                                                            \
                y[i] = dy ? 0 * dy[i] : 0;                                                                                       \
            }                                                                                                                    \
            return good;                                                                                                         \
        }                                                                                                                        \
        if (classes <= SHORT) {                                                                                                  \
            for (int64_t i = begin; i < end; i += LANES) {                                                                       \
                const type *x = (const type *)margins->x + i * classes;                                                          \
                const int64_t *labels = margins->labels + i * classes, rows = end - i < LANES ? end - i : LANES;                 \
                good &= dy ? short_##name(x, labels, rows, classes, true, dy + i, y + i * classes)                               \
                           : short_##name(x, labels, rows, classes, false, NULL, y + i);                                         \
            }                                                                                                                    \
            return good;                                                                                                         \
        }                                                                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                                                  \
            const type *x = (const type *)margins->x + i * classes;                                                              \
            const int64_t *labels = margins->labels + i * classes;                                                               \
            int64_t targets = others_##name(others, x, labels, classes, whole);                                                  \
            good = good && targets >= 0;                                                                                         \
            if (dy) {                                                                                                            \
                count_##name(counts, others, x, labels, targets, whole);                                                         \
                for (int64_t k = 0; k < classes; k++)                                                                            \
                    y[i * classes + k] = (type)counts[k] * dy[i];                                                                \
            } else {                                                                                                             \
                y[i] = loss_##name(others, x, labels, targets, whole);                                                           \
            }                                                                                                                    \
        }                                                                                                                        \
        return good;                                                                                                             \
    }
MARGIN(f32, float, int32_t)
MARGIN(f64, double, int64_t)
