/* SPDX-License-Identifier: Apache-2.0
 *
 * Fourier transforms of lines, float and double: lines_body.h. Each line is computed alike, whatever stands beside it, so threads
 * may share them as they like. Compiled once for each ISA. */
#include "device/cpu/fourier/fourier.h"
#include "device/cpu/tile/parts.h"

#define real float
#define FOURIER(name) name##_f32
#include "device/cpu/fourier/lines_body.h"
#undef real
#undef FOURIER
#define real double
#define FOURIER(name) name##_f64
#include "device/cpu/fourier/lines_body.h"

void SAMBA_ISA_NAME(samba_transform_f64)(const samba_transform *transform, double *re, double *im, double *room)
{
    work_f64 w = {re, im, room, room + transform->length};
    transform_f64(transform, &w, 1);
    for (int64_t i = 0; w.re != re && i < transform->length; i++) {
        re[i] = w.re[i];
        im[i] = w.im[i];
    }
}
