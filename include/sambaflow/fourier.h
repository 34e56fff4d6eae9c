/* SPDX-License-Identifier: Apache-2.0
 *
 * Discrete Fourier transforms (torch.fft), of float32 or float64 and of any length; integers become float32. A graph has no
 * complex dtype: a complex tensor is a real one with one more dim at its end, of size 2, real and imaginary part, as
 * torch.view_as_real gives it. `dim` and `dims` count the others: -1 is the one before it.
 *
 * n: elements of the dim that are transformed: more are cut off, missing ones count as 0; 0: as many as there are. Gradients are
 * those of the parts. */
#ifndef SAMBAFLOW_FOURIER_H
#define SAMBAFLOW_FOURIER_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samba_fft_norm {
    SAMBA_FFT_BACKWARD = 0, /* torch's default: 1/n of inverse transforms */
    SAMBA_FFT_ORTHO = 1,    /* 1/sqrt(n) of both */
    SAMBA_FFT_FORWARD = 2   /* 1/n of those that are not inverse */
} samba_fft_norm;

/* ---- complex (..., 2) to complex: y[k] = sum over j of a[j] exp(-2 pi i j k / n); inverse exp(2 pi i j k / n) ---- */
SAMBA_API samba_value samba_fft(samba_value a, int64_t n, int dim, samba_fft_norm norm);
SAMBA_API samba_value samba_ifft(samba_value a, int64_t n, int dim, samba_fft_norm norm);

/* ---- a real line and its frequencies 0 to n / 2, of which the others are the conjugates ---- */
SAMBA_API samba_value samba_rfft(samba_value a, int64_t n, int dim, samba_fft_norm norm);
/* n: of the real line; 0: 2 (frequencies - 1). Imaginary parts of frequencies 0 and n / 2 count as 0. */
SAMBA_API samba_value samba_irfft(samba_value a, int64_t n, int dim, samba_fft_norm norm);
/* The same for real frequencies: of half a line, complex, and back. */
SAMBA_API samba_value samba_hfft(samba_value a, int64_t n, int dim, samba_fft_norm norm);
SAMBA_API samba_value samba_ihfft(samba_value a, int64_t n, int dim, samba_fft_norm norm);

/* ---- several dims: sizes as n, one for each of dims, which differ; sizes NULL: all 0. rfftn halves the last of dims ---- */
SAMBA_API samba_value samba_fftn(samba_value a, int count, const int64_t *sizes, const int *dims, samba_fft_norm norm);
SAMBA_API samba_value samba_ifftn(samba_value a, int count, const int64_t *sizes, const int *dims, samba_fft_norm norm);
SAMBA_API samba_value samba_rfftn(samba_value a, int count, const int64_t *sizes, const int *dims, samba_fft_norm norm);
SAMBA_API samba_value samba_irfftn(samba_value a, int count, const int64_t *sizes, const int *dims, samba_fft_norm norm);

#ifdef __cplusplus
}
#endif
#endif
