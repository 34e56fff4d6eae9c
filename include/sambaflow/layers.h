/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers (torch.nn): parameters by name, made by the first call of a name and shared by others. The same over values that exist already,
 * torch.nn.functional, is samba_functional_<layer> in the header of its kind. */
#ifndef SAMBAFLOW_LAYERS_H
#define SAMBAFLOW_LAYERS_H

#include <sambaflow/conv.h>
#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_linear_options { /* zero means PyTorch's default */
    bool no_bias;
    const samba_initializer *weight, *bias; /* what they start from; NULL: uniform within 1 / sqrt(in_features) */
} samba_linear_options;
SAMBA_API samba_value samba_linear(samba_value input, const char *name, int64_t out_features);
SAMBA_API samba_value samba_linear_no_bias(samba_value input, const char *name, int64_t out_features);
SAMBA_API samba_value samba_linear_with(samba_value input, const char *name, int64_t out_features,
                                        const samba_linear_options *options /* may be NULL */);
SAMBA_API samba_value samba_conv2d(samba_value input, const char *name, int64_t out_channels, const int64_t kernel[2],
                                   const samba_conv2d_options *options /* may be NULL */);
SAMBA_API samba_value samba_layer_norm(samba_value input, const char *name); /* last dim, eps 1e-5, weight and bias */
/* Rows of "<name>.weight", float32 (num_embeddings, embedding_dim), which starts as N(0, 1). */
SAMBA_API samba_value samba_embedding(samba_value index, const char *name, int64_t num_embeddings, int64_t embedding_dim);
/* Hyperparameters "<name>.p" (starts at p) and "<name>.seed". */
SAMBA_API samba_value samba_dropout(samba_value input, const char *name, double p);

/* torch.rand: float32, uniform in [0, 1), new ones each run: hyperparameter "<name>.seed". A second call of a name gives others. */
SAMBA_API samba_value samba_rand(samba_graph *graph, const char *name, int rank, const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif
