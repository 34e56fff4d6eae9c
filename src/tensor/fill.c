/* SPDX-License-Identifier: Apache-2.0
 *
 * Random ranges, a chunk at a time: words from Philox, values in double or int64, then one conversion to the dtype. Chunks begin
 * at multiples of the chunk's size in the index, so whole Philox blocks are made and none twice. */
#include "tensor/fill.h"
#include "tensor/philox.h"

#include <math.h>
#include <string.h>

#define CHUNK 256 /* elements; a multiple of 4 */

/* How many elements from `index` on belong to its chunk, at most `left`. */
static int64_t chunk_length(uint64_t index, int64_t left)
{
    int64_t room = CHUNK - (int64_t)(index % CHUNK);
    return left < room ? left : room;
}

/* The words of the chunk that holds element `index`, `per_element` (1 or 2) to an element, from that element on. */
static const uint32_t *chunk_words(uint64_t seed, uint64_t index, int per_element, uint32_t words[2 * CHUNK])
{
    uint64_t skipped = index % CHUNK, block = (index - skipped) / 4 * (uint64_t)per_element;
    for (uint64_t i = 0; i < CHUNK / 4 * (uint64_t)per_element; i++)
        samba_philox_block(seed, block + i, words + 4 * i);
    return words + skipped * (uint64_t)per_element;
}

/* The greatest value of the dtype below `high`: rounding must not carry a value up to a bound that is excluded. */
static double greatest_below(samba_dtype dtype, double high)
{
    uint64_t bits = 0, sign = UINT64_C(1) << (8 * samba_dtype_size(dtype) - 1);
    samba_store_double(dtype, &bits, high); /* little endian: the low bytes */
    double value = samba_load_double(dtype, &bits);
    if (value < high)
        return value;
    if (bits & sign)
        bits = (bits & ~sign) == 0 ? sign | 1 : bits + 1;
    else
        bits = bits == 0 ? sign | 1 : bits - 1;
    return samba_load_double(dtype, &bits);
}

void samba_fill_uniform_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, double low,
                              double high)
{
    uint32_t space[2 * CHUNK];
    double values[CHUNK], width = high - low, last = fmax(greatest_below(dtype, high), low);
    int per_element = dtype == SAMBA_FLOAT64 ? 2 : 1;
    char *to = data;
    for (int64_t done = 0, n; done < count; done += n) {
        uint64_t index = first_index + (uint64_t)done;
        n = chunk_length(index, count - done);
        const uint32_t *words = chunk_words(seed, index, per_element, space);
        for (int64_t i = 0; i < n; i++) {
            double unit = per_element == 1 ? samba_philox_to_float(words[i])
                                           : (double)(((uint64_t)words[2 * i + 1] << 32 | words[2 * i]) >> 11) * 0x1p-53;
            double value = low + unit * width;
            values[i] = value < last ? value : last;
        }
        samba_copy_elements(dtype, to + done * (int64_t)samba_dtype_size(dtype), 1, SAMBA_FLOAT64, values, 1, n);
    }
}

/* ln of (word + 1) * 2^-32, in (0, 1]. With m in [1/sqrt 2, sqrt 2) and s = (m-1)/(m+1): ln m = 2 (s + s^3/3 + s^5/5 ...); what
 * is cut off is below 1e-14 of the result. With the C library's functions a normal value takes three times as long, and other
 * libraries round otherwise. */
static inline double log_of_word(uint32_t word)
{
    uint64_t bits;
    double m = (double)word + 1;
    memcpy(&bits, &m, sizeof bits);
    uint64_t high = (bits & UINT64_C(0xFFFFFFFFFFFFF)) >= UINT64_C(0x6A09E667F3BCD); /* mantissa from sqrt 2 on */
    double exponent = (double)((int32_t)(bits >> 52) - 1023 - 32 + (int32_t)high);
    bits = (bits & UINT64_C(0xFFFFFFFFFFFFF)) | (1023 - high) << 52;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), z = s * s;
    double series = 1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * (1.0 / 13 + z * (1.0 / 15))))));
    return exponent * 0.6931471805599453 + 2 * (s + s * z * series);
}

/* Cosine and sine of word * 2^-32 turns. The nearest quarter turn comes off exactly, in integers; Taylor's series does the rest,
 * at most an eighth of a turn, to 2e-14. */
static inline void cos_sin_of_word(uint32_t word, double *cosine, double *sine)
{
    uint32_t quarter = (word + (UINT32_C(1) << 29)) >> 30;
    double a = (double)(int32_t)(word - (quarter << 30)) * (0x1p-32 * 6.283185307179586), z = a * a;
    double s = a + a * z *
                       (-1.0 / 6 + z * (1.0 / 120 +
                                        z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800 + z * (1.0 / 6227020800))))));
    double c =
        1 + z * (-1.0 / 2 +
                 z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 +
                                                                           z * (1.0 / 479001600 + z * (-1.0 / 87178291200)))))));
    double x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
    *cosine = (quarter + 1) & 2 ? -x : x;
    *sine = quarter & 2 ? -y : y;
}

void samba_fill_normal_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, double mean,
                             double deviation)
{
    uint32_t space[2 * CHUNK];
    double values[CHUNK];
    char *to = data;
    for (int64_t done = 0, n; done < count; done += n) {
        uint64_t index = first_index + (uint64_t)done;
        int odd = (int)(index % 2); /* the range begins with the second value of a pair */
        n = chunk_length(index, count - done);
        const uint32_t *words = chunk_words(seed, index - (uint64_t)odd, 1, space);
        for (int64_t i = 0; i < n + odd; i += 2) {
            double radius = deviation * sqrt(-2 * log_of_word(words[i])), cosine, sine;
            cos_sin_of_word(words[i + 1], &cosine, &sine);
            values[i] = mean + radius * cosine;
            values[i + 1] = mean + radius * sine;
        }
        samba_copy_elements(dtype, to + done * (int64_t)samba_dtype_size(dtype), 1, SAMBA_FLOAT64, values + odd, 1, n);
    }
}

void samba_fill_integers_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, int64_t low,
                               int64_t high)
{
    uint32_t space[2 * CHUNK];
    int64_t values[CHUNK];
    uint64_t width = (uint64_t)high - (uint64_t)low;
    char *to = data;
    for (int64_t done = 0, n; done < count; done += n) {
        uint64_t index = first_index + (uint64_t)done;
        n = chunk_length(index, count - done);
        const uint32_t *words = chunk_words(seed, index, 2, space);
        for (int64_t i = 0; i < n; i++)
            values[i] = (int64_t)((uint64_t)low + samba_philox_below((uint64_t)words[2 * i + 1] << 32 | words[2 * i], width));
        samba_copy_elements(dtype, to + done * (int64_t)samba_dtype_size(dtype), 1, SAMBA_INT64, values, 1, n);
    }
}
