/* SPDX-License-Identifier: Apache-2.0
 *
 * WIDE_PRODUCTS(a, b): in each lane of 64 bits the product of the lower 32 of a and of b, where the instruction set has it. */
#ifndef SAMBA_CPU_WIDE_PRODUCTS_H
#define SAMBA_CPU_WIDE_PRODUCTS_H

#include "device/cpu/isa/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__AVX512F__)
#define WIDE_PRODUCTS(a, b) (words64) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
#define WIDE_PRODUCTS(a, b) (words64) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#else
#define WIDE_PRODUCTS(a, b) (words64) _mm_mul_epu32((__m128i)(a), (__m128i)(b))
#endif
typedef uint64_t words64 __attribute__((vector_size(VECTOR_BYTES)));
#elif defined(SAMBA_NEON)
#define WIDE_PRODUCTS(a, b) (words64) vmull_u32(vmovn_u64((uint64x2_t)(a)), vmovn_u64((uint64x2_t)(b)))
typedef uint64_t words64 __attribute__((vector_size(VECTOR_BYTES)));
#endif

#endif
