/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and normalizations. A weight or bias that is a zeroed value is left out. */
#ifndef SAMBAFLOW_NORM_H
#define SAMBAFLOW_NORM_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

SAMBA_API samba_value samba_softmax(samba_value a, int dim);     /* torch.softmax */
SAMBA_API samba_value samba_log_softmax(samba_value a, int dim); /* torch.log_softmax */
SAMBA_API samba_value samba_softmin(samba_value a, int dim);     /* softmax(-a) */

/* Over the last `count` dims, whose sizes are `shape`, as are those of weight and bias. */
SAMBA_API samba_value samba_functional_layer_norm(samba_value input, int count, const int64_t *shape, samba_value weight,
                                                  samba_value bias, double eps);
/* x / sqrt(mean(x^2) + eps), over the last `count` dims; eps below 0: torch's default, the epsilon of the dtype. */
SAMBA_API samba_value samba_functional_rms_norm(samba_value input, int count, const int64_t *shape, samba_value weight,
                                                double eps);

/* torch.nn.functional.group_norm: input (N, C, ...); weight and bias (C). */
SAMBA_API samba_value samba_functional_group_norm(samba_value input, int64_t num_groups, samba_value weight, samba_value bias,
                                                  double eps);

/* Options that batch_norm, sync_batch_norm and instance_norm share. The statistics are of the input where `training` is true, or
 * where the value `trains` (rank-0 float64: samba_training) is not 0 in a run; else those given. */
typedef struct samba_batch_norm_options {
    bool training;              /* torch's use_input_stats in instance_norm */
    samba_value trains;         /* decides in each run instead; a zeroed value: `training` does */
    double momentum;            /* running = (1 - momentum) * running + momentum * of this batch */
    samba_value average_factor; /* rank 0, instead of momentum: what a cumulative average needs; a zeroed value: none */
    double eps;
    samba_value *next_mean,
        *next_var; /* out: what the running statistics become, to be given to samba_assign; may be NULL. Where nothing
                                          trains they stay what they are */
} samba_batch_norm_options;
/* PyTorch's defaults; begin with them. */
static inline samba_batch_norm_options samba_batch_norm_defaults(void)
{
    samba_batch_norm_options options = {false, {NULL, 0, 0}, 0.1, {NULL, 0, 0}, 1e-5, NULL, NULL};
    return options;
}
/* torch.nn.functional.batch_norm: input (N, C, ...) of rank 2 or more; the others (C). running_mean and running_var, of which
 * both or none are given, may be left out while training. The running variance is the unbiased one; a channel of one element has
 * variance 0, and is refused where `training` is true. */
SAMBA_API samba_value samba_functional_batch_norm(samba_value input, samba_value running_mean, samba_value running_var,
                                                  samba_value weight, samba_value bias,
                                                  const samba_batch_norm_options *options /* may be NULL */);
/* torch.nn.SyncBatchNorm's function: batch_norm by the statistics of the batches of all replicas that train together
 * (samba_compile_options.data_parallel, samba_run_options.data_parallel), which have one size each. The running variance is
 * unbiased by the elements of all. A channel may have one element a replica. In a run of one process, or that does not train, and
 * in a graph compiled without data_parallel it is batch_norm; so it is where `training` is false and there is no `trains`. */
SAMBA_API samba_value samba_functional_sync_batch_norm(samba_value input, samba_value running_mean, samba_value running_var,
                                                       samba_value weight, samba_value bias,
                                                       const samba_batch_norm_options *options /* may be NULL */);
/* torch.nn.functional.instance_norm: each channel of each image; input of rank 3 or more. `training` is use_input_stats. */
SAMBA_API samba_value samba_functional_instance_norm(samba_value input, samba_value running_mean, samba_value running_var,
                                                     samba_value weight, samba_value bias,
                                                     const samba_batch_norm_options *options /* may be NULL */);

/* ---- lengths and distances ---- */
/* torch.nn.functional.normalize: a / max(its p-norm along dim, eps). */
SAMBA_API samba_value samba_normalize(samba_value a, double p, int dim, double eps);
/* torch._weight_norm: v * g / (2-norm of v over all dims but `dim`; SAMBA_ALL_DIMS: over all). */
#define SAMBA_ALL_DIMS 99
SAMBA_API samba_value samba_weight_norm(samba_value v, samba_value g, int dim);
/* a and b broadcast. cosine_similarity: along dim, lengths no less than eps. pairwise_distance:
 * the p-norm of a - b + eps over the last dim. */
SAMBA_API samba_value samba_cosine_similarity(samba_value a, samba_value b, int dim, double eps);
SAMBA_API samba_value samba_pairwise_distance(samba_value a, samba_value b, double p, double eps, bool keepdim);
/* torch.cdist: a (..., P, M), b (..., R, M), leading dims broadcast; distances (..., P, R). Of p = 2, sqrt(a a + b b - 2 a b) has
 * its products in a matmul, many times as fast, but loses to cancellation where rows are near each other: about the root of the
 * dtype's epsilon times their length. As in torch that is what is done where P or R is more than 25,
 * unless the mode says otherwise. */
typedef enum samba_cdist_mode {
    SAMBA_CDIST_MM_IF_NECESSARY, /* torch's compute_mode "use_mm_for_euclid_dist_if_necessary" */
    SAMBA_CDIST_MM,              /* "use_mm_for_euclid_dist" */
    SAMBA_CDIST_NO_MM            /* "donot_use_mm_for_euclid_dist" */
} samba_cdist_mode;
SAMBA_API samba_value samba_cdist(samba_value a, samba_value b, double p, samba_cdist_mode mode);
/* torch.pdist: the p-norms of differences of each two rows of a (N, M), those of the first row before those of the second:
 * (N (N - 1) / 2). N is at most 8192. */
SAMBA_API samba_value samba_pdist(samba_value a, double p);

#ifdef __cplusplus
}
#endif
#endif
