/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers (torch.nn): parameters by name, made by the first call of a name and shared by others. The same over values that exist
 * already, torch.nn.functional, is samba_functional_<layer> in the header of its kind. */
#ifndef SAMBAFLOW_LAYERS_H
#define SAMBAFLOW_LAYERS_H

#include <sambaflow/conv.h>
#include <sambaflow/graph.h>
#include <sambaflow/index.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_linear_options { /* zero means PyTorch's default */
    bool no_bias;
    const samba_initializer *weight, *bias; /* what they start from; NULL: uniform within 1 / sqrt(in_features) */
    bool transposed;                        /* "<name>.weight" is (in_features, out_features), as GPT-2's are */
} samba_linear_options;
/* torch.nn.Linear: makes "<name>.weight" (out_features, in_features) and "<name>.bias" (out_features). */
SAMBA_API samba_value samba_linear(samba_value input, const char *name, int64_t out_features);
SAMBA_API samba_value samba_linear_no_bias(samba_value input, const char *name, int64_t out_features); /* Linear(bias=False) */
/* The same with options. */
SAMBA_API samba_value samba_linear_with(samba_value input, const char *name, int64_t out_features,
                                        const samba_linear_options *options /* may be NULL */);
/* Bilinear: inputs (..., in1_features) and (..., in2_features), "<name>.weight" (out_features, in1_features, in2_features);
 * uniform within 1 / sqrt(in1_features). */
SAMBA_API samba_value samba_bilinear(samba_value input1, samba_value input2, const char *name, int64_t out_features,
                                     const samba_linear_options *options /* may be NULL */);
SAMBA_API samba_value samba_conv2d(samba_value input, const char *name, int64_t out_channels, const int64_t kernel[2],
                                   const samba_conv2d_options *options /* may be NULL */);
/* "<name>.weight" and "<name>.bias" as torch.nn.Conv1d, Conv3d, ConvTranspose1d, 2d and 3d have them;
 * one kernel size for each dim of space. */
SAMBA_API samba_value samba_conv1d(samba_value input, const char *name, int64_t out_channels, const int64_t kernel[1],
                                   const samba_conv1d_options *options /* may be NULL */);
SAMBA_API samba_value samba_conv3d(samba_value input, const char *name, int64_t out_channels, const int64_t kernel[3],
                                   const samba_conv3d_options *options /* may be NULL */);
SAMBA_API samba_value samba_conv_transpose1d(samba_value input, const char *name, int64_t out_channels, const int64_t kernel[1],
                                             const samba_conv_transpose1d_options *options /* may be NULL */);
SAMBA_API samba_value samba_conv_transpose2d(samba_value input, const char *name, int64_t out_channels, const int64_t kernel[2],
                                             const samba_conv_transpose2d_options *options /* may be NULL */);
SAMBA_API samba_value samba_conv_transpose3d(samba_value input, const char *name, int64_t out_channels, const int64_t kernel[3],
                                             const samba_conv_transpose3d_options *options /* may be NULL */);

/* Normalizations. In the options zero means PyTorch's default. */
typedef struct samba_norm_options {
    int dims;       /* LayerNorm, RMSNorm: how many of the last dims are normalized together; 0: 1 */
    bool no_affine; /* neither weight nor bias (elementwise_affine=False, affine=False) */
    bool no_bias;   /* LayerNorm: a weight alone */
    double eps;     /* 0: 1e-5; of RMSNorm the dtype's epsilon */
} samba_norm_options;
SAMBA_API samba_value samba_layer_norm(samba_value input, const char *name); /* last dim, eps 1e-5, weight and bias */
SAMBA_API samba_value samba_layer_norm_with(samba_value input, const char *name,
                                            const samba_norm_options *options /* may be NULL */);
SAMBA_API samba_value samba_rms_norm(samba_value input, const char *name, const samba_norm_options *options /* may be NULL */);
SAMBA_API samba_value samba_group_norm(samba_value input, const char *name, int64_t num_groups,
                                       const samba_norm_options *options /* may be NULL */);

/* BatchNorm1d, 2d and 3d, by the rank: input (N, C), or (N, C, ...) up to rank 5. A run that trains normalizes by its batch and
 * moves the buffers running_mean, running_var and num_batches_tracked; any other run (train = false, inference) normalizes by
 * these: see samba_training. A layer that is `frozen` does so in all runs, as one of torch that stands in eval() while the rest
 * trains. */
typedef struct samba_batch_norm_layer {
    bool no_affine;           /* BatchNorm: no weight and bias */
    bool affine;              /* InstanceNorm: weight and bias */
    bool no_running_stats;    /* BatchNorm: track_running_stats=False, every run normalizes by its batch */
    bool track_running_stats; /* InstanceNorm */
    bool cumulative;          /* momentum=None: running statistics are the plain average of all batches */
    double momentum, eps;     /* 0: 0.1 and 1e-5 */
    bool frozen;              /* running statistics normalize and stay in every run; ARGUMENT where the layer has none */
} samba_batch_norm_layer;
SAMBA_API samba_value samba_batch_norm(samba_value input, const char *name,
                                       const samba_batch_norm_layer *options /* may be NULL */);
/* SyncBatchNorm: BatchNorm by the statistics of the batches of all replicas (samba_functional_sync_batch_norm). */
SAMBA_API samba_value samba_sync_batch_norm(samba_value input, const char *name,
                                            const samba_batch_norm_layer *options /* may be NULL */);
/* InstanceNorm1d, 2d and 3d: (N, C, L) to (N, C, D, H, W). */
SAMBA_API samba_value samba_instance_norm(samba_value input, const char *name,
                                          const samba_batch_norm_layer *options /* may be NULL */);

/* Rows of "<name>.weight", float32 (num_embeddings, embedding_dim), which starts as N(0, 1). */
SAMBA_API samba_value samba_embedding(samba_value index, const char *name, int64_t num_embeddings, int64_t embedding_dim);
/* With options: padding_idx, whose row gets no gradient, and scale_grad_by_freq.
 * The row of padding_idx starts as zeros, as torch's does. */
SAMBA_API samba_value samba_embedding_with(samba_value index, const char *name, int64_t num_embeddings, int64_t embedding_dim,
                                           const samba_embedding_options *options /* may be NULL */);
/* EmbeddingBag: the same rows, and their sums, means or greatest elements by bags. */
SAMBA_API samba_value samba_embedding_bag(samba_value index, const char *name, int64_t num_embeddings, int64_t embedding_dim,
                                          const samba_embedding_bag_options *options /* may be NULL */);
/* PReLU: "<name>.weight" has num_parameters slopes, 1 or one for each channel (dim 1), which start at `init` (torch: 0.25). */
SAMBA_API samba_value samba_prelu(samba_value input, const char *name, int64_t num_parameters, double init);
/* Hyperparameters "<name>.p" (starts at p) and "<name>.seed". */
SAMBA_API samba_value samba_dropout(samba_value input, const char *name, double p);
/* Whole channels: input (N, C, L) or (C, L); (N, C, ...), of rank 3 too, as torch takes it; (N, C, D, H, W) or (C, D, H, W). */
SAMBA_API samba_value samba_dropout1d(samba_value input, const char *name, double p);
SAMBA_API samba_value samba_dropout2d(samba_value input, const char *name, double p);
SAMBA_API samba_value samba_dropout3d(samba_value input, const char *name, double p);
/* Keeps mean and variance; what is dropped is negative. feature_: whole channels of (N, C, ...). */
SAMBA_API samba_value samba_alpha_dropout(samba_value input, const char *name, double p);
SAMBA_API samba_value samba_feature_alpha_dropout(samba_value input, const char *name, double p);

/* torch.rand: float32, uniform in [0, 1), new ones each run: hyperparameter "<name>.seed".
 * A second call of a name gives others. */
SAMBA_API samba_value samba_rand(samba_graph *graph, const char *name, int rank, const int64_t *shape);
SAMBA_API samba_value samba_randn(samba_graph *graph, const char *name, int rank, const int64_t *shape); /* float32, N(0, 1) */
/* int64, low to high - 1, which are at most 2^24 numbers. */
SAMBA_API samba_value samba_randint(samba_graph *graph, const char *name, int64_t low, int64_t high, int rank,
                                    const int64_t *shape);
SAMBA_API samba_value samba_bernoulli(samba_value p, const char *name); /* 1 with the probability that stands there, else 0 */
/* torch.nn.functional.gumbel_softmax: softmax of logits and noise; hard:
 * its greatest element as one-hot, with the softmax's gradient. */
SAMBA_API samba_value samba_gumbel_softmax(samba_value logits, const char *name, double tau, bool hard, int dim);

/* torch.nn.Sequential: layers one after another, inside the name "<name>" under their numbers, "0", "1" ..., so that torch's
 * state dicts fit. The arguments of the layers stand in an array; a function without parameters takes its number too.
 *
 *   static samba_value conv(samba_value x, const char *name, const void *options) { return samba_conv2d(x, name, *(const int64_t
 *   *)options, three, &same); }
 *
 *   x = samba_sequential(x, "features", SAMBA_LAYERS({conv, &width}, {.function = samba_relu}, {conv, &width}, {.function =
 *   samba_relu}));
 */
typedef struct samba_layer {
    samba_value (*layer)(samba_value input, const char *name, const void *options);
    const void *options;                    /* given to `layer` */
    samba_value (*function)(samba_value a); /* instead of a layer: a function of the input alone */
} samba_layer;
#define SAMBA_LAYERS(...)                                                                                                        \
    (int)(sizeof((const samba_layer[]){__VA_ARGS__}) / sizeof(samba_layer)), (const samba_layer[]) { __VA_ARGS__ }
SAMBA_API samba_value samba_sequential(samba_value input, const char *name, int count, const samba_layer *layers);

#ifdef __cplusplus
}
#endif
#endif
