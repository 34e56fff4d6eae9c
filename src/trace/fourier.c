/* SPDX-License-Identifier: Apache-2.0
 *
 * Fourier transforms: a dim is cut or filled up to the length, then one operator transforms it. Several dims are one after the
 * other, from the last; of real ones the last is the one that is halved. */
#include "ops/ops.h"
#include "trace/promote.h"
#include "trace/trace.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/fourier.h>
#include <sambaflow/shape.h>
#include <math.h>

typedef struct kind { /* of a function */
    const char *what;
    int form; /* as ops/fourier.c has it */
    bool inverse;
    bool scales_inverse; /* `norm` takes it for an inverse one */
} kind;

enum { COMPLEX, FROM_REAL, TO_REAL };

static const kind fft = {"fft", COMPLEX, false, false}, ifft = {"ifft", COMPLEX, true, true},
                  rfft = {"rfft", FROM_REAL, false, false}, irfft = {"irfft", TO_REAL, true, true},
                  hfft = {"hfft", TO_REAL, false, false}, ihfft = {"ihfft", FROM_REAL, true, true};

/* The value as float32 or float64, its dims without that of the parts; false after an error. */
static bool enter(const char *what, const kind *k, samba_value *a, samba_fft_norm norm, samba_graph **graph, int *dims)
{
    if (!samba_trace_enter(what, 1, a, graph))
        return false;
    samba_node node = samba_trace_node(*a);
    const bool is_complex = k->form != FROM_REAL;
    if (norm < SAMBA_FFT_BACKWARD || norm > SAMBA_FFT_FORWARD)
        return samba_graph_refuse(*graph, SAMBA_ERROR_ARGUMENT, what, "there is no norm %d: expected 0 to 2", (int)norm);
    if (is_complex && (node.rank < 1 || node.shape[node.rank - 1] != 2))
        return samba_graph_refuse(*graph, SAMBA_ERROR_SHAPE, what,
                                  "expected a complex tensor, (..., 2) of real and imaginary parts, given %s",
                                  SAMBA_TYPE_OF(&node));
    if (!samba_dtype_is_floating_point((samba_dtype)node.dtype))
        *a = samba_cast(*a, SAMBA_FLOAT32);
    else if (node.dtype != SAMBA_FLOAT32 && node.dtype != SAMBA_FLOAT64)
        return samba_graph_refuse(*graph, SAMBA_ERROR_DTYPE, what,
                                  "expected float32, float64 or integers, given %s; cast it first",
                                  samba_dtype_name((samba_dtype)node.dtype));
    *dims = node.rank - is_complex;
    return *dims > 0 ||
           samba_graph_refuse(*graph, SAMBA_ERROR_SHAPE, what, "expected at least one dim, given %s", SAMBA_TYPE_OF(&node));
}

/* The dim with so many elements: the first ones, or zeros behind them. */
static samba_value resized(samba_value a, int dim, int64_t count)
{
    const int64_t size = samba_value_size(a, dim);
    if (size > count)
        return samba_narrow(a, dim, 0, count);
    if (size == count)
        return a;
    const int behind = samba_value_rank(a) - dim;
    int64_t amounts[2 * SAMBA_MAX_RANK] = {0};
    amounts[2 * behind - 1] = count - size;
    return samba_pad(a, behind, amounts, SAMBA_PAD_CONSTANT, 0);
}

static samba_value along(samba_graph *graph, const kind *k, samba_value a, int dim, int64_t n, samba_fft_norm norm)
{
    const int64_t size = samba_value_size(a, dim);
    if (n == 0)
        n = k->form == TO_REAL ? 2 * (size - 1) : size;
    if (n < 1)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, k->what, "a transform needs 1 element or more, given %lld of dim %d",
                                (long long)n, dim);
    a = resized(a, dim, k->form == TO_REAL ? n / 2 + 1 : n);
    if (samba_graph_status(graph) != SAMBA_OK)
        return samba_trace_none(graph);
    const bool scaled = norm == (k->scales_inverse ? SAMBA_FFT_BACKWARD : SAMBA_FFT_FORWARD);
    const double scale = norm == SAMBA_FFT_ORTHO ? 1 / sqrt((double)n) : scaled ? 1 / (double)n : 1;
    const samba_attrs attrs = {
        .fourier = {.form = k->form, .inverse = k->inverse, .dim = dim, .length = n, .scale = scale, .pairs = 1}};
    return samba_trace_value(graph, samba_emit(graph, SAMBA_OP_fft, 1, &a.index, &attrs));
}

static samba_value of_one(const kind *k, samba_value a, int64_t n, int dim, samba_fft_norm norm)
{
    samba_graph *graph;
    int dims, at;
    if (!enter(k->what, k, &a, norm, &graph, &dims) || !samba_trace_dim(graph, k->what, dims, dim, &at))
        return samba_trace_none(graph);
    if (n < 0)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, k->what, "n must be 1 or more, or 0 for the dim's size, given %lld",
                                (long long)n);
    SAMBA_SPEAKS(graph, k->what);
    return along(graph, k, a, at, n, norm);
}

samba_value samba_fft(samba_value a, int64_t n, int dim, samba_fft_norm norm) { return of_one(&fft, a, n, dim, norm); }
samba_value samba_ifft(samba_value a, int64_t n, int dim, samba_fft_norm norm) { return of_one(&ifft, a, n, dim, norm); }
samba_value samba_rfft(samba_value a, int64_t n, int dim, samba_fft_norm norm) { return of_one(&rfft, a, n, dim, norm); }
samba_value samba_irfft(samba_value a, int64_t n, int dim, samba_fft_norm norm) { return of_one(&irfft, a, n, dim, norm); }
samba_value samba_hfft(samba_value a, int64_t n, int dim, samba_fft_norm norm) { return of_one(&hfft, a, n, dim, norm); }
samba_value samba_ihfft(samba_value a, int64_t n, int dim, samba_fft_norm norm) { return of_one(&ihfft, a, n, dim, norm); }

/* `last` of the last of dims, `others` of those before it. A real result comes last, what is made of real ones first. */
static samba_value of_many(const char *what, const kind *last, const kind *others, samba_value a, int count, const int64_t *sizes,
                           const int *dims, samba_fft_norm norm)
{
    samba_graph *graph;
    int rank, at[SAMBA_MAX_RANK];
    bool seen[SAMBA_MAX_RANK] = {false};
    if (!enter(what, last, &a, norm, &graph, &rank))
        return samba_trace_none(graph);
    SAMBA_SPEAKS(graph, what);
    if (count < 0 || count > rank || (count == 0 && last != others))
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what, "expected %d to %d dims, given %d", last != others, rank,
                                count);
    if (count > 0 && !dims)
        return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what, "expected a list of dims, given NULL of %d", count);
    for (int i = 0; i < count; i++) {
        if (!samba_trace_dim(graph, what, rank, dims[i], &at[i]))
            return samba_trace_none(graph);
        if (seen[at[i]] || (sizes && sizes[i] < 0))
            return samba_trace_fail(graph, SAMBA_ERROR_ARGUMENT, what, "dim %d is there twice, or its size is negative", dims[i]);
        seen[at[i]] = true;
    }
    const bool real_last = last->form == TO_REAL;
    for (int step = 0; step < count && samba_graph_status(graph) == SAMBA_OK; step++) {
        const int i = real_last ? step : count - 1 - step;
        a = along(graph, i == count - 1 ? last : others, a, at[i], sizes ? sizes[i] : 0, norm);
    }
    return samba_graph_status(graph) == SAMBA_OK ? a : samba_trace_none(graph);
}

samba_value samba_fftn(samba_value a, int count, const int64_t *sizes, const int *dims, samba_fft_norm norm)
{
    return of_many("fftn", &fft, &fft, a, count, sizes, dims, norm);
}
samba_value samba_ifftn(samba_value a, int count, const int64_t *sizes, const int *dims, samba_fft_norm norm)
{
    return of_many("ifftn", &ifft, &ifft, a, count, sizes, dims, norm);
}
samba_value samba_rfftn(samba_value a, int count, const int64_t *sizes, const int *dims, samba_fft_norm norm)
{
    return of_many("rfftn", &rfft, &fft, a, count, sizes, dims, norm);
}
samba_value samba_irfftn(samba_value a, int count, const int64_t *sizes, const int *dims, samba_fft_norm norm)
{
    return of_many("irfftn", &irfft, &ifft, a, count, sizes, dims, norm);
}
