/* SPDX-License-Identifier: Apache-2.0
 *
 * Between memory of any dtype and registers: load and store, contiguous and strided; and 2-byte elements put side by side.
 * Registers hold float for float32, bfloat16, float16 and bool, double for float64, int64_t for integers.
 * Compiled once for each ISA. */
#include "device/cpu/isa/unrolled.h"
#include "device/cpu/isa/pairs.h"
#include "device/cpu/tile/parts.h"

static inline float read_float32(float m) { return m; }
static inline float write_float32(float v) { return v; }
static inline float read_bfloat16(uint16_t m) { return float_of_bfloat16(m); }
static inline uint16_t write_bfloat16(float v) { return bfloat16_of_float(v); }
static inline float read_float16(uint16_t m) { return float_of_float16(m); }
static inline uint16_t write_float16(float v) { return float16_of_float(v); }
static inline double read_float64(double m) { return m; }
static inline double write_float64(double v) { return v; }
static inline int64_t read_int64(int64_t m) { return m; }
static inline int64_t write_int64(int64_t v) { return v; }
static inline int64_t read_int32(int32_t m) { return m; }
static inline int32_t write_int32(int64_t v) { return (int32_t)v; }
static inline int64_t read_int16(int16_t m) { return m; }
static inline int16_t write_int16(int64_t v) { return (int16_t)v; }
static inline int64_t read_int8(int8_t m) { return m; }
static inline int8_t write_int8(int64_t v) { return (int8_t)v; }
static inline int64_t read_uint8(uint8_t m) { return m; }
static inline uint8_t write_uint8(int64_t v) { return (uint8_t)v; }
static inline float read_bool(uint8_t m) { return m != 0 ? 1.0f : 0.0f; }
static inline uint8_t write_bool(float v) { return v != 0.0f; }

#define DTYPE(name, memory, type)                                                                                                \
    void SAMBA_ISA_NAME(samba_load_##name)(void *d_, const void *source, int64_t n)                                              \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const memory *s = source;                                                                                                \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                                                        \
            d[i] = read_##name(s[i]);                                                                                            \
    }                                                                                                                            \
    void SAMBA_ISA_NAME(samba_load_strided_##name)(void *d_, const void *source, int64_t stride, int64_t n)                      \
    {                                                                                                                            \
        type *d = d_;                                                                                                            \
        const memory *s = source;                                                                                                \
        if (stride == 2) { /* every other pixel: whole vectors and shuffles */                                                   \
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                                                    \
                d[i] = read_##name(s[2 * i]);                                                                                    \
            return;                                                                                                              \
        }                                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                          \
            d[i] = read_##name(s[i * stride]);                                                                                   \
    }                                                                                                                            \
    void SAMBA_ISA_NAME(samba_store_strided_##name)(void *destination, const void *a_, int64_t stride, int64_t n)                \
    {                                                                                                                            \
        memory *d = destination;                                                                                                 \
        const type *a = a_;                                                                                                      \
        for (int64_t i = 0; i < n; i++)                                                                                          \
            d[i * stride] = write_##name(a[i]);                                                                                  \
    }
SAMBA_EACH_DTYPE(DTYPE)

#define STORE(name, memory, type)                                                                                                \
    void SAMBA_ISA_NAME(samba_store_##name)(void *destination, const void *a_, int64_t n)                                        \
    {                                                                                                                            \
        memory *d = destination;                                                                                                 \
        const type *a = a_;                                                                                                      \
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                                                        \
            d[i] = write_##name(a[i]);                                                                                           \
    }
STORE(float32, float, float)
STORE(float16, uint16_t, float)
STORE(float64, double, double)
STORE(int64, int64_t, int64_t)
STORE(int32, int32_t, int64_t)
STORE(int16, int16_t, int64_t)
STORE(int8, int8_t, int64_t)
STORE(uint8, uint8_t, int64_t)
STORE(bool, uint8_t, float)

void SAMBA_ISA_NAME(samba_store_bfloat16)(void *destination, const void *a, int64_t n) { store_best_bfloat16(destination, a, n); }

void SAMBA_ISA_NAME(samba_interleave2)(void *d_, const void *a_, const void *b_, int64_t n)
{
    uint32_t *d = d_; /* pairs; the lower half comes first in memory on every CPU that has a table */
    const uint16_t *a = a_, *b = b_;
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
        d[i] = (uint32_t)a[i] | (uint32_t)b[i] << 16;
}
