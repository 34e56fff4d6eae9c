/* SPDX-License-Identifier: Apache-2.0
 *
 * stored_linear: y = x W^T with weights as they lie in memory, for x of few rows, where reading W is the time:
 *
 *   float32, bfloat16 (n, k); with attrs.transposed (k, n)
 *   int8 (n, k) and scales float32 (n, 1): a row is the integers times its scale
 *   uint8 (n, k / 32, 16) and scales float16 (n, k / 32, 1): byte j of a group has element j in its low half and j + 16 in its
 *   high half, each 8 more than the integer, which the group's scale multiplies
 *
 * x is float32 (..., k), and so is the result (..., n). It has no gradient: training widens such weights, which other operators
 * say. */
#include "ops/families.h"
#include <math.h>

enum { X, WEIGHTS, SCALES, GROUP = 32 };

static samba_status wrong_weights(const samba_infer *infer)
{
    const samba_node *x = infer->inputs[X], *w = infer->inputs[WEIGHTS];
    char x_text[SAMBA_SHAPE_TEXT], w_text[SAMBA_SHAPE_TEXT];
    return samba_infer_fail(infer, SAMBA_ERROR_SHAPE,
                            "expected x (..., k) and weights (n, k), of uint8 (n, k / 32, 16), given %s and %s",
                            samba_shape_format(x->rank, x->shape, x_text, sizeof x_text),
                            samba_shape_format(w->rank, w->shape, w_text, sizeof w_text));
}

static samba_status check_scales(const samba_infer *infer, samba_dtype dtype, int rank, const int64_t *shape)
{
    const samba_node *scales = infer->inputs[SCALES];
    char text[SAMBA_SHAPE_TEXT];
    if (scales->dtype != (int32_t)dtype || !samba_shape_equal(scales->rank, scales->shape, rank, shape))
        return samba_infer_fail(infer, SAMBA_ERROR_SHAPE, "expected scales of %s and shape %s, given %s of shape %s",
                                samba_dtype_name(dtype), samba_shape_format(rank, shape, text, sizeof text),
                                samba_dtype_name((samba_dtype)scales->dtype), SAMBA_SHAPE_OF(scales));
    return SAMBA_OK;
}

samba_status samba_infer_stored_linear(samba_infer *infer)
{
    const bool transposed = infer->attrs->stored.transposed != 0;
    int64_t shape[SAMBA_MAX_RANK];
    if (infer->arity < 2)
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "expected x and weights, and scales where these are integers");
    const samba_node *x = infer->inputs[X], *w = infer->inputs[WEIGHTS];
    const bool eight = w->dtype == SAMBA_INT8, four = w->dtype == SAMBA_UINT8, scaled = eight || four;
    SAMBA_TRY(samba_infer_need_dtype(infer, X, SAMBA_FLOAT32));
    if (!scaled && w->dtype != SAMBA_FLOAT32 && w->dtype != SAMBA_BFLOAT16)
        return samba_infer_fail(infer, SAMBA_ERROR_DTYPE, "expected weights of float32, bfloat16, int8 or uint8, given %s",
                                samba_dtype_name((samba_dtype)w->dtype));
    if (infer->arity != (scaled ? 3 : 2))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT,
                                "expected %d inputs with weights of %s, given %d: integers have scales, others have none",
                                scaled ? 3 : 2, samba_dtype_name((samba_dtype)w->dtype), infer->arity);
    if (infer->attrs->stored.transposed < 0 || infer->attrs->stored.transposed > 1 || (scaled && transposed))
        return samba_infer_fail(infer, SAMBA_ERROR_ARGUMENT, "weights of integers lie in rows (n, k): transposed is of others");
    const int rank = four ? 3 : 2;
    const int64_t k = x->rank > 0 ? x->shape[x->rank - 1] : -1;
    if (x->rank < 1 || w->rank != rank ||
        (four ? w->shape[2] != GROUP / 2 || k % GROUP != 0 || w->shape[1] != k / GROUP : w->shape[!transposed] != k))
        return wrong_weights(infer);
    const int64_t n = w->shape[transposed];
    if (eight)
        SAMBA_TRY(check_scales(infer, SAMBA_FLOAT32, 2, (int64_t[]){n, 1}));
    if (four)
        SAMBA_TRY(check_scales(infer, SAMBA_FLOAT16, 3, (int64_t[]){n, w->shape[1], 1}));
    for (int i = 0; i < x->rank; i++)
        shape[i] = x->shape[i];
    shape[x->rank - 1] = n;
    return samba_infer_set(infer, SAMBA_FLOAT32, x->rank, shape);
}

samba_status samba_vjp_stored_linear(samba_vjp *vjp)
{
    return samba_fail(vjp->graph->context, SAMBA_ERROR_UNSUPPORTED,
                      "stored_linear: it has no gradient, as it is there for generating; train with linear over weights that are "
                      "widened, or detach what this gives");
}

/* ---- reference ---- */

static double weight(const samba_reference *reference, int64_t k, int64_t i, int64_t l)
{
    const samba_array *w = &reference->inputs[WEIGHTS];
    if (w->dtype == SAMBA_UINT8) {
        const int64_t group = i * (k / GROUP) + l / GROUP, at = l % GROUP;
        const int byte = (int)samba_array_int64(w, group * (GROUP / 2) + at % (GROUP / 2));
        return ((at < GROUP / 2 ? byte & 15 : byte >> 4) - 8) * samba_array_double(&reference->inputs[SCALES], group);
    }
    const double element = samba_array_double(w, reference->attrs->stored.transposed ? l * w->shape[1] + i : i * k + l);
    return w->dtype == SAMBA_INT8 ? element * samba_array_double(&reference->inputs[SCALES], i) : element;
}

samba_status samba_ref_stored_linear(const samba_reference *reference)
{
    const samba_array *x = &reference->inputs[X], *y = reference->output;
    const int64_t k = x->shape[x->rank - 1], n = y->shape[y->rank - 1];
    for (int64_t e = 0; e < y->numel; e++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += samba_array_double(x, e / n * k + l) * weight(reference, k, e % n, l);
        samba_array_set_double(y, e, sum);
    }
    return SAMBA_OK;
}

int64_t samba_flops_stored_linear(const samba_node *node, const samba_node *const *inputs)
{
    double products = (double)inputs[X]->shape[inputs[X]->rank - 1];
    for (int i = 0; i < node->rank; i++)
        products *= (double)node->shape[i];
    return (int64_t)fmin(2 * products, 9e18);
}
