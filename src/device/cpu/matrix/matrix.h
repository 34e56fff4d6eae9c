/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share. */
#ifndef SAMBA_CPU_MATRIX_H
#define SAMBA_CPU_MATRIX_H

#include "base/base.h"
#include "device/cpu/kernel.h"
#include "device/cpu/matrix/lapack.h"

/* lapack.c: the plugin, loaded when it is asked for first, for the instruction set of that time. UNSUPPORTED: there is none. */
samba_status samba_lapack_find(samba_context *context, samba_isa isa, const samba_lapack_interface **lapack);

/* exp.c: the exponential of a, n x n by columns, into `result`; five further matrices of room. */
enum { SAMBA_EXP_ROOM = 5 };
void samba_matrix_exp_f32(const samba_lapack_interface *lapack, int n, float *a, float *result, float *room);
void samba_matrix_exp_f64(const samba_lapack_interface *lapack, int n, double *a, double *result, double *room);

#endif
