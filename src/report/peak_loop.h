/* SPDX-License-Identifier: Apache-2.0
 *
 * The multiply-add loop of peak.c, once for each vector width: included with PEAK_NAME, PEAK_BYTES (of a vector) and PEAK_TARGET
 * (a function attribute or nothing) defined. Twelve independent sums hide the latency of one multiply-add and leave registers
 * free on every target. `start` is not known to the compiler,
 * or it might find that a sum never changes and leave its work out. */
static PEAK_TARGET float PEAK_NAME(int64_t rounds, float start)
{
    typedef float vector __attribute__((vector_size(PEAK_BYTES)));
    const vector zero = {0}, scale = zero + 0.9999f, shift = zero + 0.0001f;
    vector a = zero + start, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5;
    vector g = a + 6, h = a + 7, i = a + 8, j = a + 9, k = a + 10, l = a + 11;
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
