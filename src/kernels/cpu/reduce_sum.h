/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a row is summed, in one place, so that all who sum rows agree to the last bit: several running sums where a row
 * is long, since one addition waits for the one before it. It depends on the row's length alone. */
#ifndef SAMBA_CPU_REDUCE_SUM_H
#define SAMBA_CPU_REDUCE_SUM_H

#define SHORT_SUM 32 /* columns below which a row is no work for vectors: plain additions of several rows overlap */
#define LONG_SUM 128

/* result = sum of value, an expression in i, for i from 0 to n - 1 */
#define SAMBA_SUM(type, result, n, value)                                                                                    \
    {                                                                                                                        \
        type part0_ = 0, part1_ = 0, part2_ = 0, part3_ = 0;                                                                 \
        int64_t quarter_ = (n) >= LONG_SUM ? (n) / 4 : 0, done_ = 4 * quarter_;                                              \
        if (quarter_ > 0) {                                                                                                  \
            _Pragma("omp simd reduction(+ : part0_, part1_, part2_, part3_)")                                                \
            for (int64_t at_ = 0; at_ < quarter_; at_++) {                                                                   \
                int64_t i = at_;                                                                                             \
                part0_ += value;                                                                                             \
                i += quarter_;                                                                                               \
                part1_ += value;                                                                                             \
                i += quarter_;                                                                                               \
                part2_ += value;                                                                                             \
                i += quarter_;                                                                                               \
                part3_ += value;                                                                                             \
            }                                                                                                                \
            part0_ = (part0_ + part1_) + (part2_ + part3_);                                                                  \
        }                                                                                                                    \
        if ((n) - done_ < SHORT_SUM) {                                                                                       \
            for (int64_t i = done_; i < (n); i++)                                                                            \
                part0_ += value;                                                                                             \
        } else {                                                                                                             \
            _Pragma("omp simd reduction(+ : part0_)")                                                                        \
            for (int64_t i = done_; i < (n); i++)                                                                            \
                part0_ += value;                                                                                             \
        }                                                                                                                    \
        result = part0_;                                                                                                     \
    }

#endif
