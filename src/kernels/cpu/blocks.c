/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction set's side of the plain blocks: vector types, loads and stores of a part of a vector, and how many sums fit the
 * registers. block_body.h is the code, once for float and once for double. */
#include "kernels/cpu/blocks.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define MAX_VECTORS 4
/* rows of sums by vectors a row: sums, a row of b and one of a fit 32 */
static const int rows_of[MAX_VECTORS + 1] = {0, 12, 8, 6, 6};
#define DOT_ROWS 6
#define DOT_COLS 4
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define MAX_VECTORS 2
static const int rows_of[MAX_VECTORS + 1] = {0, 8, 6};
#define DOT_ROWS 4
#define DOT_COLS 2
#else
#define VECTOR_BYTES 16
#define MAX_VECTORS 2
static const int rows_of[MAX_VECTORS + 1] = {0, 8, 5};
#define DOT_ROWS 4
#define DOT_COLS 2
#endif

#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ints __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t longs __attribute__((vector_size(VECTOR_BYTES)));

/* The first n lanes, 1 <= n <= all; the others are 0 and their memory is not touched. */
#if defined(__AVX512F__)
INLINE floats load_part_f32(const float *p, int n) { return (floats)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
INLINE void store_part_f32(float *p, int n, floats v) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v); }
INLINE doubles load_part_f64(const double *p, int n) { return (doubles)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p); }
INLINE void store_part_f64(double *p, int n, doubles v) { _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v); }
#elif defined(__AVX2__)
static const int32_t lanes_on[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
INLINE __m256i first_lanes(int n) { return _mm256_loadu_si256((const __m256i *)(lanes_on + 8 - n)); }
INLINE floats load_part_f32(const float *p, int n) { return (floats)_mm256_maskload_ps(p, first_lanes(n)); }
INLINE void store_part_f32(float *p, int n, floats v) { _mm256_maskstore_ps(p, first_lanes(n), (__m256)v); }
INLINE doubles load_part_f64(const double *p, int n) { return (doubles)_mm256_maskload_pd(p, first_lanes(2 * n)); }
INLINE void store_part_f64(double *p, int n, doubles v) { _mm256_maskstore_pd(p, first_lanes(2 * n), (__m256d)v); }
#else
INLINE floats load_part_f32(const float *p, int n)
{
    floats v = {0};
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
INLINE void store_part_f32(float *p, int n, floats v)
{
    for (int i = 0; i < n; i++)
        p[i] = v[i];
}
INLINE doubles load_part_f64(const double *p, int n)
{
    doubles v = {0};
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
INLINE void store_part_f64(double *p, int n, doubles v)
{
    for (int i = 0; i < n; i++)
        p[i] = v[i];
}
#endif

#define REAL float
#define VECTOR floats
#define INDICES ints
#define NAME(name) name##_f32
#define BLOCK SAMBA_ISA_NAME(samba_block_f32)
#define TRANSPOSE SAMBA_ISA_NAME(samba_transpose4)
#include "kernels/cpu/block_body.h"
#undef REAL
#undef VECTOR
#undef INDICES
#undef NAME
#undef BLOCK
#undef TRANSPOSE

#define REAL double
#define VECTOR doubles
#define INDICES longs
#define NAME(name) name##_f64
#define BLOCK SAMBA_ISA_NAME(samba_block_f64)
#define TRANSPOSE SAMBA_ISA_NAME(samba_transpose8)
#include "kernels/cpu/block_body.h"

const samba_blocks SAMBA_ISA_NAME(samba_blocks) = {{offsets_f32, offsets_f64}, {dot_f32, dot_f64}};
