/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses (torch.nn.functional). Inputs and targets broadcast and promote as there; 16-bit floats are computed in float32.
 * Gradients go to whatever is floating-point, targets and weights too. A zeroed value is left out; options start from their
 * defaults, which are PyTorch's, and may be NULL.
 *
 * Beware of shapes that broadcast by mistake: guesses (N, 1) of a linear layer and targets (N) are N * N differences, each
 * guess compared with each target, and the model learns the mean. Targets of (N, 1), or samba_squeeze of the guesses, are what
 * is meant. As PyTorch does, such a loss warns and is built: samba_context_warning. */
#ifndef SAMBAFLOW_LOSS_H
#define SAMBAFLOW_LOSS_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* SAMBA_BATCH_MEAN, the sum divided by the first size, is samba_kl_div's alone. */
typedef enum samba_reduction { SAMBA_MEAN = 0, SAMBA_SUM = 1, SAMBA_NO_REDUCTION = 2, SAMBA_BATCH_MEAN = 3 } samba_reduction;

/* ---- classes ---- */
typedef struct samba_cross_entropy_options {
    int64_t ignore_index; /* torch's default is -100: start from samba_cross_entropy_defaults() */
    double label_smoothing;
    samba_reduction reduction;
    samba_value weight; /* (C): of each class; a zeroed value: none */
} samba_cross_entropy_options;
/* PyTorch's defaults; begin with them. */
static inline samba_cross_entropy_options samba_cross_entropy_defaults(void)
{
    samba_cross_entropy_options options = {-100, 0.0, SAMBA_MEAN, {NULL, 0, 0}};
    return options;
}
/* logits (N, C) or (N, C, d1 ...) or (C); integer class indices (N), (N, d1 ...) or (), or probabilities of the logits' shape,
 * floating-point. */
SAMBA_API samba_value samba_cross_entropy(samba_value logits, samba_value label);
SAMBA_API samba_value samba_cross_entropy_with(samba_value logits, samba_value label, const samba_cross_entropy_options *options);
/* Log-probabilities and class indices of cross_entropy's shapes; label_smoothing must be 0. samba_run reports a label that is
 * no class; behind log_softmax the loss is infinite of one that the model computes. */
SAMBA_API samba_value samba_nll_loss(samba_value input, samba_value target,
                                     const samba_cross_entropy_options *options /* may be NULL */);

typedef struct samba_multi_margin_options {
    int p; /* 1 or 2 */
    double margin;
    samba_value weight; /* (C) */
    samba_reduction reduction;
} samba_multi_margin_options;
/* PyTorch's defaults; begin with them. */
static inline samba_multi_margin_options samba_multi_margin_defaults(void)
{
    samba_multi_margin_options options = {1, 1.0, {NULL, 0, 0}, SAMBA_MEAN};
    return options;
}
/* input (N, C) or (C), class indices (N) or (). */
SAMBA_API samba_value samba_multi_margin_loss(samba_value input, samba_value target,
                                              const samba_multi_margin_options *options /* may be NULL */);
/* input (N, C) or (C), class indices of its shape: those of a row that stand before the first -1. */
SAMBA_API samba_value samba_multilabel_margin_loss(samba_value input, samba_value target, samba_reduction reduction);
SAMBA_API samba_value samba_multilabel_soft_margin_loss(samba_value input, samba_value target, samba_value weight,
                                                        samba_reduction reduction);

/* ---- distances ---- */
/* A weight has the input's shape; the mean of mse_loss and l1_loss then is the weighted one, divided by the sum of weights, that
 * of huber_loss divided by their number, as torch's are. */
SAMBA_API samba_value samba_mse_loss(samba_value input, samba_value target, samba_value weight, samba_reduction reduction);
SAMBA_API samba_value samba_l1_loss(samba_value input, samba_value target, samba_value weight, samba_reduction reduction);
/* torch: beta 1 */
SAMBA_API samba_value samba_smooth_l1_loss(samba_value input, samba_value target, double beta, samba_reduction reduction);
/* torch: delta 1 */
SAMBA_API samba_value samba_huber_loss(samba_value input, samba_value target, double delta, samba_value weight,
                                       samba_reduction reduction);

/* ---- likelihoods ---- */
/* torch.nn.functional.kl_div: log-probabilities, and probabilities or, with log_target, their logarithms. */
SAMBA_API samba_value samba_kl_div(samba_value input, samba_value target, bool log_target, samba_reduction reduction);
/* Input in [0, 1] and target of one shape; a zeroed weight: none. */
SAMBA_API samba_value samba_binary_cross_entropy(samba_value input, samba_value target, samba_value weight,
                                                 samba_reduction reduction);
/* The same of logits, without overflow; pos_weight: of the positive class; zeroed: none. */
SAMBA_API samba_value samba_binary_cross_entropy_with_logits(samba_value input, samba_value target, samba_value weight,
                                                             samba_value pos_weight, samba_reduction reduction);
typedef struct samba_poisson_nll_options {
    bool no_log_input; /* log_input=False: the input is the rate and not its logarithm */
    bool full;         /* with Stirling's term */
    double eps;        /* added to a rate whose logarithm is taken */
    samba_reduction reduction;
} samba_poisson_nll_options;
/* PyTorch's defaults; begin with them. */
static inline samba_poisson_nll_options samba_poisson_nll_defaults(void)
{
    samba_poisson_nll_options options = {false, false, 1e-8, SAMBA_MEAN};
    return options;
}
/* torch.nn.functional.poisson_nll_loss. */
SAMBA_API samba_value samba_poisson_nll_loss(samba_value input, samba_value target,
                                             const samba_poisson_nll_options *options /* may be NULL */);
typedef struct samba_gaussian_nll_options {
    bool full;  /* with the constant */
    double eps; /* the least variance, more than 0 */
    samba_reduction reduction;
} samba_gaussian_nll_options;
/* PyTorch's defaults; begin with them. */
static inline samba_gaussian_nll_options samba_gaussian_nll_defaults(void)
{
    samba_gaussian_nll_options options = {false, 1e-6, SAMBA_MEAN};
    return options;
}
/* torch.nn.functional.gaussian_nll_loss. */
SAMBA_API samba_value samba_gaussian_nll_loss(samba_value input, samba_value target, samba_value var,
                                              const samba_gaussian_nll_options *options /* may be NULL */);

/* ---- sequences ---- */
typedef struct samba_ctc_options {
    int64_t blank;
    int64_t most; /* labels of a row, where targets stand in one line; 0: as many as stand there */
    bool zero_infinity;
    samba_reduction reduction; /* SAMBA_MEAN: of each row's loss divided by its target length, or by 1 */
} samba_ctc_options;
static inline samba_ctc_options samba_ctc_defaults(void)
{
    samba_ctc_options options = {0, 0, false, SAMBA_MEAN};
    return options;
}
/* [torch.nn.functional.ctc_loss] Connectionist temporal classification (Graves et al., 2006). Log probabilities (T, N, C),
 * targets (N, S) or one row behind the other in one line, lengths (N); or (T, C), (S) and lengths () or (1). The gradient is that
 * of log_softmax's results, as torch's. samba_run reports labels and lengths that are out of range. */
SAMBA_API samba_value samba_ctc_loss(samba_value log_probs, samba_value targets, samba_value input_lengths,
                                     samba_value target_lengths, const samba_ctc_options *options /* may be NULL */);

/* ---- margins; targets are 1 or -1 ---- */
/* The mean of log(1 + exp(-target * input)). */
SAMBA_API samba_value samba_soft_margin_loss(samba_value input, samba_value target, samba_reduction reduction);
/* torch: margin 1 */
SAMBA_API samba_value samba_hinge_embedding_loss(samba_value input, samba_value target, double margin, samba_reduction reduction);
SAMBA_API samba_value samba_margin_ranking_loss(samba_value input1, samba_value input2, samba_value target, double margin,
                                                samba_reduction reduction);
/* Inputs (N, D) and target (N), or (D) and (). */
SAMBA_API samba_value samba_cosine_embedding_loss(samba_value input1, samba_value input2, samba_value target, double margin,
                                                  samba_reduction reduction);
typedef struct samba_triplet_margin_options {
    double margin, p, eps; /* of samba_pairwise_distance the last two */
    bool swap;             /* the negative's distance is the lesser of those to anchor and positive */
    samba_reduction reduction;
} samba_triplet_margin_options;
/* PyTorch's defaults; begin with them. */
static inline samba_triplet_margin_options samba_triplet_margin_defaults(void)
{
    samba_triplet_margin_options options = {1.0, 2.0, 1e-6, false, SAMBA_MEAN};
    return options;
}
SAMBA_API samba_value samba_triplet_margin_loss(samba_value anchor, samba_value positive, samba_value negative,
                                                const samba_triplet_margin_options *options /* may be NULL */);

#ifdef __cplusplus
}
#endif
#endif
