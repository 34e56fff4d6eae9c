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

/* ln of m * 2^-32, for a normal number m > 0. With m in [1/sqrt 2, sqrt 2) and s = (m-1)/(m+1): ln m = 2 (s + s^3/3 + s^5/5 ...);
 * what is cut off is below 1e-14 of the result. With the C library's functions a normal value takes three times as long, and
 * other libraries round otherwise. */
static inline double log_of(double m)
{
    uint64_t bits;
    memcpy(&bits, &m, sizeof bits);
    uint64_t high = (bits & UINT64_C(0xFFFFFFFFFFFFF)) >= UINT64_C(0x6A09E667F3BCD); /* mantissa from sqrt 2 on */
    double exponent = (double)((int32_t)(bits >> 52) - 1023 - 32 + (int32_t)high);
    bits = (bits & UINT64_C(0xFFFFFFFFFFFFF)) | (1023 - high) << 52;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), z = s * s;
    double series = 1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * (1.0 / 13 + z * (1.0 / 15))))));
    return exponent * 0.6931471805599453 + 2 * (s + s * z * series);
}

/* ln of (word + 1) * 2^-32, in (0, 1]. */
static inline double log_of_word(uint32_t word) { return log_of((double)word + 1); }

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

/* ---- the inverse of the normal distribution function ----
 * M. J. Wichura, "Algorithm AS 241: The percentage points of the normal distribution", 1988, PPND16: quotients of polynomials in
 * the middle and in the two tails, to 1e-16. */
static double quotient(const double over[8], const double under[8], double x)
{
    double a = over[7], b = under[7];
    for (int i = 6; i >= 0; i--) {
        a = a * x + over[i];
        b = b * x + under[i];
    }
    return a / b;
}

/* Of p = tail * 2^-32 where `lower`, else of 1 - p; 0 < tail <= 2^31. */
static double normal_quantile(double tail, bool lower)
{
    static const double middle[2][8] = {
        {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
         4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
        {1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3, 2.1213794301586595867e+4,
         3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
    static const double near[2][8] = {
        {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
         1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
        {1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
         1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9}};
    static const double far[2][8] = {
        {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
         2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
        {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
         1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}};
    double q = 0.5 - tail * 0x1p-32, value;
    if (q <= 0.425) {
        value = q * quotient(middle[0], middle[1], 0.180625 - q * q);
    } else {
        double root = sqrt(-log_of(tail));
        value = root <= 5 ? quotient(near[0], near[1], root - 1.6) : quotient(far[0], far[1], root - 5);
    }
    return lower ? -value : value;
}

/* Of position * 2^-32 in (0, 1). */
static double quantile_at(double position)
{
    return position <= 0x1p31 ? normal_quantile(position, true) : normal_quantile(0x1p32 - position, false);
}

void samba_fill_inverse_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, double mean,
                              double deviation)
{
    uint32_t space[2 * CHUNK];
    double values[CHUNK];
    char *to = data;
    for (int64_t done = 0, n; done < count; done += n) {
        uint64_t index = first_index + (uint64_t)done;
        n = chunk_length(index, count - done);
        const uint32_t *words = chunk_words(seed, index, 1, space);
        for (int64_t i = 0; i < n; i++)
            values[i] = mean + deviation * quantile_at((double)words[i] + 0.5);
        samba_copy_elements(dtype, to + done * (int64_t)samba_dtype_size(dtype), 1, SAMBA_FLOAT64, values, 1, n);
    }
}

/* The part of the distribution in the upper tail is taken in the lower one, where small probabilities are exact, and mirrored. */
void samba_fill_truncated_range(samba_dtype dtype, void *data, uint64_t seed, uint64_t first_index, int64_t count, double mean,
                                double deviation, double low, double high)
{
    uint32_t space[2 * CHUNK];
    double values[CHUNK];
    const bool mirrored = low > mean;
    /* of a distribution around 0 */
    const double from = mirrored ? mean - high : low - mean, until = mirrored ? mean - low : high - mean;
    const double begin = 0.5 * erfc(-from / deviation * 0.7071067811865476),
                 end = 0.5 * erfc(-until / deviation * 0.7071067811865476);
    char *to = data;
    for (int64_t done = 0, n; done < count; done += n) {
        uint64_t index = first_index + (uint64_t)done;
        n = chunk_length(index, count - done);
        const uint32_t *words = chunk_words(seed, index, 1, space);
        for (int64_t i = 0; i < n; i++) {
            double p = begin + ((double)words[i] + 0.5) * 0x1p-32 * (end - begin);
            /* too far out: the nearer bound */
            double value = deviation == 0 ? 0 : p < 0x1p-1000 ? until : deviation * quantile_at(p * 0x1p32);
            value = mean + (mirrored ? -value : value);
            values[i] = value < low ? low : value > high ? high : value;
        }
        samba_copy_elements(dtype, to + done * (int64_t)samba_dtype_size(dtype), 1, SAMBA_FLOAT64, values, 1, n);
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
