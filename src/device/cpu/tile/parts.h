/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of convert.c, reduce.c, random.c and planes.c that kernels.c puts into its table, one name for each ISA.
 * device/cpu/kernel.h says what each does. */
#ifndef SAMBA_CPU_PARTS_H
#define SAMBA_CPU_PARTS_H

#include "device/cpu/isa/isa.h"
#include "device/cpu/tile/move.h"
#include "device/cpu/tile/tile.h"
#include "device/cpu/tile/update.h"

/* DTYPE(name, memory type, register type): the dtypes in the order of samba_dtype */
#define SAMBA_EACH_DTYPE(DTYPE)                                                                                                  \
    DTYPE(float32, float, float)                                                                                                 \
    DTYPE(bfloat16, uint16_t, float)                                                                                             \
    DTYPE(float16, uint16_t, float)                                                                                              \
    DTYPE(float64, double, double)                                                                                               \
    DTYPE(int64, int64_t, int64_t)                                                                                               \
    DTYPE(int32, int32_t, int64_t)                                                                                               \
    DTYPE(int16, int16_t, int64_t)                                                                                               \
    DTYPE(int8, int8_t, int64_t)                                                                                                 \
    DTYPE(uint8, uint8_t, int64_t)                                                                                               \
    DTYPE(bool, uint8_t, float)

/* CLASS(name, type, type of sums): the register classes in the order of samba_register_class */
#define SAMBA_EACH_CLASS(CLASS)                                                                                                  \
    CLASS(f32, float, double)                                                                                                    \
    CLASS(f64, double, double)                                                                                                   \
    CLASS(i64, int64_t, int64_t)

#define DTYPE(name, memory, type)                                                                                                \
    void SAMBA_ISA_NAME(samba_load_##name)(void *d, const void *source, int64_t n);                                              \
    void SAMBA_ISA_NAME(samba_store_##name)(void *destination, const void *a, int64_t n);                                        \
    void SAMBA_ISA_NAME(samba_load_strided_##name)(void *d, const void *source, int64_t stride, int64_t n);                      \
    void SAMBA_ISA_NAME(samba_store_strided_##name)(void *destination, const void *a, int64_t stride, int64_t n);
SAMBA_EACH_DTYPE(DTYPE)
#undef DTYPE

#define CLASS(name, type, wide)                                                                                                  \
    void SAMBA_ISA_NAME(samba_fill_##name)(void *d, const void *value, int64_t n);                                               \
    void SAMBA_ISA_NAME(samba_spread_##name)(void *d, const void *a, int64_t rows, int64_t cols);                                \
    void SAMBA_ISA_NAME(samba_sum_##name)(void *d, const void *a, int64_t rows, int64_t cols, bool first);                       \
    void SAMBA_ISA_NAME(samba_prod_##name)(void *d, const void *a, int64_t rows, int64_t cols, bool first);                      \
    void SAMBA_ISA_NAME(samba_amax_##name)(void *d, const void *a, int64_t rows, int64_t cols, bool first);                      \
    void SAMBA_ISA_NAME(samba_amin_##name)(void *d, const void *a, int64_t rows, int64_t cols, bool first);                      \
    void SAMBA_ISA_NAME(samba_argmax_##name)(int64_t * d, void *best, const void *a, int64_t rows, int64_t cols, int64_t col0,   \
                                             bool first);                                                                        \
    void SAMBA_ISA_NAME(samba_standing_amax_##name)(void *d, const void *a, int64_t rows, int64_t cols, bool first);             \
    void SAMBA_ISA_NAME(samba_standing_amin_##name)(void *d, const void *a, int64_t rows, int64_t cols, bool first);             \
    void SAMBA_ISA_NAME(samba_standing_sum_##name)(void *d, const void *a, int64_t rows, int64_t cols, bool first);              \
    void SAMBA_ISA_NAME(samba_standing_prod_##name)(void *d, const void *a, int64_t rows, int64_t cols, bool first);             \
    void SAMBA_ISA_NAME(samba_standing_argmax_##name)(int64_t * d, void *best, const void *a, int64_t rows, int64_t cols,        \
                                                      int64_t col0, bool first);                                                 \
    void SAMBA_ISA_NAME(samba_running_extremes_##name)(void *best, int64_t *at, void *x, int64_t *indices, int64_t index,        \
                                                       int64_t n, bool greatest);                                                \
    void SAMBA_ISA_NAME(samba_collect_rows_##name)(void *sums, const void *a, const void *b, int64_t rows, int64_t cols);        \
    void SAMBA_ISA_NAME(samba_collect_memory_##name)(void *sums, const void *a, int64_t pitch, int64_t rows, int64_t cols,       \
                                                     int64_t ahead);                                                             \
    void SAMBA_ISA_NAME(samba_collect_totals_##name)(void *sums, int64_t stride, const void *a, int64_t rows, int64_t cols);     \
    wide SAMBA_ISA_NAME(samba_total_##name)(const type *a, int64_t n);
SAMBA_EACH_CLASS(CLASS)
#undef CLASS

void SAMBA_ISA_NAME(samba_collect_memory_bf16)(void *sums, const void *a, int64_t pitch, int64_t rows, int64_t cols,
                                               int64_t ahead);
void SAMBA_ISA_NAME(samba_collect_numbers_f32)(void *sums, const void *a, int64_t pitch, int64_t rows, int64_t cols,
                                               int64_t ahead);
void SAMBA_ISA_NAME(samba_collect_numbers_bf16)(void *sums, const void *a, int64_t pitch, int64_t rows, int64_t cols,
                                                int64_t ahead);
void SAMBA_ISA_NAME(samba_pool_f32)(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second,
                                    void *result, const samba_pool_scratch *scratch);
void SAMBA_ISA_NAME(samba_pool_f64)(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second,
                                    void *result, const samba_pool_scratch *scratch);
void SAMBA_ISA_NAME(samba_pool_i64)(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second,
                                    void *result, const samba_pool_scratch *scratch);
void SAMBA_ISA_NAME(samba_sample_f32)(const samba_pool *pool, void *const *operands, int64_t begin, int64_t end, void *scratch);
void SAMBA_ISA_NAME(samba_sample_f64)(const samba_pool *pool, void *const *operands, int64_t begin, int64_t end, void *scratch);
void SAMBA_ISA_NAME(samba_running_sum)(float *d, const float *x, int64_t n, double *sum, bool back);
bool SAMBA_ISA_NAME(samba_margin_f32)(const samba_margins *margins, int64_t begin, int64_t end, void *room);
bool SAMBA_ISA_NAME(samba_margin_f64)(const samba_margins *margins, int64_t begin, int64_t end, void *room);
void SAMBA_ISA_NAME(samba_line_order)(int32_t *order, int32_t *keys, int64_t n, int64_t first, int64_t count);
void SAMBA_ISA_NAME(samba_lines_order)(int32_t *order, const int32_t *keys, int64_t n, int64_t first, int64_t count);
void SAMBA_ISA_NAME(samba_fourier_f32)(const samba_fourier_plan *plan, int64_t begin, int64_t end, void *scratch);
void SAMBA_ISA_NAME(samba_fourier_f64)(const samba_fourier_plan *plan, int64_t begin, int64_t end, void *scratch);
bool SAMBA_ISA_NAME(samba_lu_f32)(const samba_lu *lu);
bool SAMBA_ISA_NAME(samba_lu_f64)(const samba_lu *lu);
void SAMBA_ISA_NAME(samba_few_svd)(samba_few *few);
void SAMBA_ISA_NAME(samba_few_eigh)(samba_few *few);
void SAMBA_ISA_NAME(samba_triangle_f32)(const samba_triangle *triangle, void *b);
void SAMBA_ISA_NAME(samba_triangle_f64)(const samba_triangle *triangle, void *b);
void SAMBA_ISA_NAME(samba_transform_f64)(const samba_transform *transform, double *re, double *im, double *room);
void SAMBA_ISA_NAME(samba_interleave2)(void *d, const void *a, const void *b, int64_t n);
extern const samba_combined SAMBA_ISA_NAME(samba_combined);
extern const samba_updates SAMBA_ISA_NAME(samba_updates);
extern const samba_moves SAMBA_ISA_NAME(samba_moves);
extern const samba_extremes SAMBA_ISA_NAME(samba_extremes);
void SAMBA_ISA_NAME(samba_random)(float *d, uint64_t seed, uint64_t index, int64_t n);

#endif
