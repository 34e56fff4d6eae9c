/* SPDX-License-Identifier: Apache-2.0
 *
 * fft(a; form, inverse, dim, length, scale, pairs): the discrete Fourier transforms of `length` elements along a dim. A complex
 * tensor is a real one with one more dim at its end, of size 2: real and imaginary part; `dim` counts the dims before it.
 *
 * form 0, complex to complex:  y[k] = scale * sum over j of a[j] exp(-+ 2 pi i j k / length): - forward, + inverse
 * form 1, real to complex:     the same of a real line, for k = 0 to length / 2: the others are their conjugates
 * form 2, complex to real:     the line whose frequencies 0 to length / 2 are `a` and the others their conjugates. The imaginary
 *                              parts of frequency 0 and of length / 2 count as 0
 * pairs: factor of the frequencies that stand for their conjugate too, all but 0 and length / 2; 1 of form 0.
 *
 * As a map of real numbers each form is linear, so its gradient is its transpose: form 0 the other way round; forms 1 and 2 each
 * other, the other way round, with pairs / 2 and 2 pairs. So it holds for gradients of gradients. */
#include "ops/families.h"
#include <math.h>
#include <string.h>

enum { COMPLEX, FROM_REAL, TO_REAL };

static bool takes_complex(const samba_attrs_fourier *f) { return f->form != FROM_REAL; }

/* ---- inference ---- */
samba_status samba_infer_fft(samba_infer *infer)
{
    const samba_attrs_fourier *f = &infer->attrs->fourier;
    const samba_node *a = infer->inputs[0];
    if (a->dtype != SAMBA_FLOAT32 && a->dtype != SAMBA_FLOAT64)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected float32 or float64, given %s; cast it first",
                                samba_dtype_name((samba_dtype)a->dtype));
    if (f->form < COMPLEX || f->form > TO_REAL || f->inverse < 0 || f->inverse > 1 || !isfinite(f->scale) ||
        !isfinite(f->pairs) || (f->form == COMPLEX && f->pairs != 1))
        return samba_infer_fail(
            infer, SAMBA_ERROR_ARGUMENT,
            "expected form 0 to 2, inverse 0 or 1, a finite scale and finite pairs, 1 of form 0, given form %lld, "
            "inverse %lld, scale %g and pairs %g",
            (long long)f->form, (long long)f->inverse, f->scale, f->pairs);
    const int dims = a->rank - takes_complex(f);
    if (takes_complex(f) && (a->rank < 1 || a->shape[a->rank - 1] != 2))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected a complex tensor (..., 2), given %s", SAMBA_SHAPE_OF(a));
    if (f->dim < 0 || f->dim >= dims)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "dim must be 0 to %d, given %lld", dims - 1, (long long)f->dim);
    const int64_t half = f->length / 2 + 1;
    if (f->length < 1 || a->shape[f->dim] != (f->form == TO_REAL ? half : f->length))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "a transform of length %lld takes %lld elements of dim %lld, given %s",
                                (long long)f->length, (long long)(f->form == TO_REAL ? half : f->length), (long long)f->dim,
                                SAMBA_SHAPE_OF(a));
    int64_t shape[SAMBA_MAX_RANK + 1];
    memcpy(shape, a->shape, sizeof a->shape);
    shape[f->dim] = f->form == FROM_REAL ? half : f->length;
    shape[dims] = 2;
    const int rank = dims + (f->form != TO_REAL);
    if (rank > SAMBA_MAX_RANK)
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "a complex tensor has at most %d dims beside the last, given %d",
                                SAMBA_MAX_RANK - 1, dims);
    return samba_infer_set(infer, a->dtype, rank, shape);
}

/* ---- gradient ---- */
samba_status samba_vjp_fft(samba_vjp *vjp)
{
    samba_attrs attrs = {.fourier = vjp->node->attrs->fourier};
    samba_attrs_fourier *f = &attrs.fourier;
    f->inverse = !f->inverse;
    f->pairs *= f->form == FROM_REAL ? 0.5 : f->form == TO_REAL ? 2 : 1;
    f->form = f->form == COMPLEX ? COMPLEX : f->form == FROM_REAL ? TO_REAL : FROM_REAL;
    return samba_vjp_deliver(vjp, 0, samba_emit(vjp->graph, SAMBA_OP_fft, 1, &vjp->gradient, &attrs));
}

/* ---- work: 5 n log2 n of a complex line, half of it where one side is real ---- */
int64_t samba_flops_fft(const samba_node *node, const samba_node *const *inputs)
{
    const samba_attrs_fourier *f = &node->attrs->fourier;
    const double numbers =
        (double)samba_flops_map(f->form == FROM_REAL ? inputs[0] : node, NULL); /* of a complex line twice as many */
    return (int64_t)fmin(2.5 * numbers * log2(1 + (double)f->length), 9e18);
}

/* ---- values ---- */
typedef struct line { /* elements of a tensor along the dim: `parts` numbers each */
    const samba_array *array;
    int64_t start, step;
    int parts;
} line;

static line line_of(const samba_array *a, int64_t dim, int64_t number, bool is_complex)
{
    int64_t inner = 1;
    const int parts = is_complex ? 2 : 1;
    for (int64_t d = dim + 1; d < a->rank - is_complex; d++)
        inner *= a->shape[d];
    return (line){a, (number / inner * inner * a->shape[dim] + number % inner) * parts, inner * parts, parts};
}

static double part(const line *l, int64_t i, int which)
{
    return which < l->parts ? samba_array_double(l->array, l->start + i * l->step + which) : 0;
}

/* The sum over the line of a[j] exp(turn 2 pi i j k / n), turn 1 or -1; frequencies of a half line count as attrs say. */
static void transform(const samba_attrs_fourier *f, const line *from, int64_t k, double sum[2])
{
    const int64_t n = f->length, count = f->form == TO_REAL ? n / 2 + 1 : n;
    const double turn = f->inverse ? 2 * M_PI : -2 * M_PI;
    sum[0] = sum[1] = 0;
    for (int64_t j = 0; j < count; j++) {
        const double angle = turn * (double)((__int128)j * k % n) / (double)n;
        const bool paired = f->form == TO_REAL && j > 0 && 2 * j != n;
        const double re = part(from, j, 0), im = f->form == TO_REAL && !paired ? 0 : part(from, j, 1);
        const double times = paired ? 2 * f->pairs : 1;
        sum[0] += times * (re * cos(angle) - im * sin(angle));
        sum[1] += times * (re * sin(angle) + im * cos(angle));
    }
}

samba_status samba_ref_fft(const samba_reference *reference)
{
    const samba_attrs_fourier *f = &reference->attrs->fourier;
    const samba_array *y = reference->output;
    const bool gives_complex = f->form != TO_REAL;
    const int64_t results = y->shape[f->dim], lines = y->numel / (results * (gives_complex ? 2 : 1));
    for (int64_t number = 0; number < lines; number++) {
        const line from = line_of(&reference->inputs[0], f->dim, number, takes_complex(f)),
                   to = line_of(y, f->dim, number, gives_complex);
        for (int64_t k = 0; k < results; k++) {
            double sum[2];
            transform(f, &from, k, sum);
            const bool paired = f->form == FROM_REAL && k > 0 && 2 * k != f->length;
            for (int which = 0; which < to.parts; which++) {
                const bool none = f->form == FROM_REAL && which == 1 && !paired;
                samba_array_set_double(y, to.start + k * to.step + which,
                                       none ? 0 : sum[which] * f->scale * (paired ? f->pairs : 1));
            }
        }
    }
    return SAMBA_OK;
}
