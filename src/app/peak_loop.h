/* SPDX-License-Identifier: Apache-2.0
 *
 * The multiply-add loop of peak.c, once for each vector width: included with PEAK_NAME, PEAK_BYTES (of a vector) and PEAK_TARGET (a function
 * attribute or nothing) defined. Twelve independent sums hide the latency of one multiply-add and leave registers free on every target. */
static PEAK_TARGET float PEAK_NAME(int64_t rounds)
{
    typedef float vector __attribute__((vector_size(PEAK_BYTES)));
    const vector zero = {0}, scale = zero + 0.9999f, shift = zero + 0.0001f;
    vector a = zero, b = zero + 1, c = zero + 2, d = zero + 3, e = zero + 4, f = zero + 5;
    vector g = zero + 6, h = zero + 7, i = zero + 8, j = zero + 9, k = zero + 10, l = zero + 11;
    for (int64_t n = 0; n < rounds; n++) {
        a = a * scale + shift;
        b = b * scale + shift;
        c = c * scale + shift;
        d = d * scale + shift;
        e = e * scale + shift;
        f = f * scale + shift;
        g = g * scale + shift;
        h = h * scale + shift;
        i = i * scale + shift;
        j = j * scale + shift;
        k = k * scale + shift;
        l = l * scale + shift;
    }
    vector sum = a + b + c + d + e + f + g + h + i + j + k + l;
    return sum[0];
}
#undef PEAK_NAME
#undef PEAK_BYTES
#undef PEAK_TARGET
