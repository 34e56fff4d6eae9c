/* SPDX-License-Identifier: Apache-2.0
 *
 * What models of classical learning (ai.onnx.ml) share: inputs as rows of numbers, transforms of scores, labels of classes. */
#ifndef SAMBA_ONNX_ML_H
#define SAMBA_ONNX_ML_H

#include "onnx/lists.h"

/* Input 0 as rows (N, F) of float64 where it is that, else of float32; a vector is one row. */
samba_value samba_onnx_rows(samba_onnx_node *node);

typedef enum samba_onnx_transform {
    ONNX_TRANSFORM_NONE,
    ONNX_TRANSFORM_SOFTMAX,
    ONNX_TRANSFORM_LOGISTIC,
    ONNX_TRANSFORM_SOFTMAX_ZERO,
    ONNX_TRANSFORM_PROBIT
} samba_onnx_transform;
samba_onnx_transform samba_onnx_transform_in(samba_onnx_node *node); /* the attribute post_transform */
samba_value samba_onnx_transform_scores(samba_onnx_node *node, samba_value scores, samba_onnx_transform transform); /* (N, C) */
/* Of two classes that have one score (N, 1), that of the second, transformed: the first has its negative. Where nothing is
 * transformed ONNX Runtime writes the rest of 1 for some models, `share`. */
samba_value samba_onnx_two_scores(samba_onnx_node *node, samba_value score, samba_onnx_transform transform, bool share);

typedef struct samba_onnx_labels {
    int64_t count;
    const int64_t *numbers; /* NULL: they are texts */
} samba_onnx_labels;
/* False where refused: it has no labels, or the model wants labels that are texts. */
bool samba_onnx_labels_in(samba_onnx_node *node, const char *numbers, samba_onnx_labels *labels);
/* Gives output 0: the labels of classes by their number, int64 (N). */
void samba_onnx_out_labels(samba_onnx_node *node, const samba_onnx_labels *labels, samba_value classes);

#endif
