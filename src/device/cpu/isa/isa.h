/* SPDX-License-Identifier: Apache-2.0
 *
 * One source, several instruction sets. The build compiles the sources listed in src/device/cpu/meson.build as isa_sources once
 * for each ISA that sets.def has for the processors built for, with -DSAMBA_ISA=, its name, and its flags. Every function that
 * such a source exports is named through SAMBA_ISA_NAME, so the copies live side by side; kernels.c gathers them in the table
 * samba_kernels_<isa>. Nothing outside those sources may call them but through the table, since the CPU may lack the
 * instructions. */
#ifndef SAMBA_CPU_ISA_H
#define SAMBA_CPU_ISA_H

#ifndef SAMBA_ISA
#error "compile with -DSAMBA_ISA=, the name of a row of sets.def"
#endif

#define SAMBA_ISA_JOIN_(name, isa) name##_##isa
#define SAMBA_ISA_JOIN(name, isa) SAMBA_ISA_JOIN_(name, isa)
#define SAMBA_ISA_NAME(name) SAMBA_ISA_JOIN(name, SAMBA_ISA) /* samba_block_f32 -> samba_block_f32_avx512 */
#define SAMBA_ISA_NUMBER_(isa) SAMBA_ISA_##isa
#define SAMBA_ISA_NUMBER_OF(isa) SAMBA_ISA_NUMBER_(isa)
#define SAMBA_ISA_NUMBER SAMBA_ISA_NUMBER_OF(SAMBA_ISA) /* its samba_isa */

/* Before a loop over elements: sources may be the result exactly, but never overlap it otherwise,
 * so iterations are independent. */
#define SAMBA_VECTOR_LOOP _Pragma("omp simd")

#endif
