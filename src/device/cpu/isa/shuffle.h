/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes by number, for masks that are worked out: SHUFFLE1(v, mask) has lane mask[i] of v at i, SHUFFLE2(a, b, mask) takes the
 * lanes of b as those that follow a's. GCC has this built in. Clang's __builtin_shufflevector takes constants alone, so it gets a
 * loop over lanes, out of which it makes a shuffle again where the mask turns out to be known. */
#ifndef SAMBA_CPU_SHUFFLE_H
#define SAMBA_CPU_SHUFFLE_H

#ifdef __clang__
#define SHUFFLE2(a, b, mask)                                                                                                     \
    __extension__({                                                                                                              \
        enum { COUNT_ = sizeof(a) / sizeof((a)[0]) };                                                                            \
        __typeof__(a) lower_ = (a), upper_ = (b), result_;                                                                       \
        const __typeof__(mask) mask_ = (mask);                                                                                   \
        _Pragma("clang loop unroll(full)") for (int lane_ = 0; lane_ < COUNT_; lane_++) result_[lane_] =                         \
            mask_[lane_] & COUNT_ ? upper_[mask_[lane_] & (COUNT_ - 1)] : lower_[mask_[lane_] & (COUNT_ - 1)];                   \
        result_;                                                                                                                 \
    })
#define SHUFFLE1(v, mask)                                                                                                        \
    __extension__({                                                                                                              \
        enum { COUNT_ = sizeof(v) / sizeof((v)[0]) };                                                                            \
        __typeof__(v) from_ = (v), result_;                                                                                      \
        const __typeof__(mask) mask_ = (mask);                                                                                   \
        _Pragma("clang loop unroll(full)") for (int lane_ = 0; lane_ < COUNT_; lane_++) result_[lane_] =                         \
            from_[mask_[lane_] & (COUNT_ - 1)];                                                                                  \
        result_;                                                                                                                 \
    })
#else
#define SHUFFLE1(v, mask) __builtin_shuffle(v, mask)
#define SHUFFLE2(a, b, mask) __builtin_shuffle(a, b, mask)
#endif

#endif
