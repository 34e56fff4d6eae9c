/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics: figures of merit over all samples of a test, summed up batch by batch, so that batches may be of any sizes. Counts and
 * sums are kept, and never means of means. Values are those of scikit-learn's functions of the names (zero_division=0), and of
 * PyTorch's losses where it has them. */
#ifndef SAMBAFLOW_METRIC_H
#define SAMBAFLOW_METRIC_H

#include <sambaflow/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samba_metric_kind {
    SAMBA_METRIC_MEAN = 0,      /* of numbers, each by its weight: of losses (samba_metric_add) */
    SAMBA_METRIC_ACCURACY = 1,  /* how many predictions are right, 0 to 1 (accuracy_score) */
    SAMBA_METRIC_TOP_K = 2,     /* the target is among the k greatest scores (top_k_accuracy_score) */
    SAMBA_METRIC_PRECISION = 3, /* precision_score, recall_score, f1_score, by `average` */
    SAMBA_METRIC_RECALL = 4,
    SAMBA_METRIC_F1 = 5,
    SAMBA_METRIC_PERPLEXITY = 6, /* exp of the mean cross entropy: of scores, or of losses (samba_metric_add) */
    SAMBA_METRIC_RMSE = 7,       /* root_mean_squared_error and mean_absolute_error, over all elements */
    SAMBA_METRIC_MAE = 8
} samba_metric_kind;

typedef enum samba_average {
    SAMBA_AVERAGE_MACRO = 0, /* the mean over the classes that targets or predictions have */
    SAMBA_AVERAGE_MICRO = 1, /* of all predictions together */
    SAMBA_AVERAGE_BINARY = 2 /* of class 1 alone, of two */
} samba_average;

typedef struct samba_metric_options {
    size_t struct_size;
    samba_metric_kind kind;
    const char *name;   /* NULL: that of the kind, "accuracy" */
    const char *output; /* which output of a model and which field hold scores and targets; samba_train and */
    const char *target; /* samba_evaluate read them; NULL: "logits" and "label". MEAN has neither */
    int k;              /* of TOP_K; 0: 5 */
    samba_average average;
    double threshold;     /* one score a target says class 1 where it is greater: 0 of logits, 0.5 of probabilities */
    bool ignores;         /* targets of this number do not count, as cross_entropy's ignore_index */
    int64_t ignore_index; /* -100 */
} samba_metric_options;
SAMBA_API samba_metric_options samba_metric_defaults(samba_metric_kind kind); /* ignores -100, as PyTorch */

typedef struct samba_metric samba_metric;
/* ARGUMENT: a kind, average or k that is none. */
SAMBA_API samba_status samba_metric_new(samba_context *context, const samba_metric_options *options, samba_metric **metric);
/* Takes the first `count` samples of a batch. Of classes `output` has scores in its last dim, more than one, and `target`
 * integers in the dims before; or both have one shape (the output perhaps a dim of 1 more), and a score above the threshold says
 * 1. Of RMSE and MAE both have as many elements. The greatest score is the prediction, the first of several; a NaN is greater
 * than any. SHAPE, DTYPE; INDEX: a target that is no class; ARGUMENT: count. Refused samples do not count in part. */
SAMBA_API samba_status samba_metric_update(samba_metric *metric, const samba_tensor *output, const samba_tensor *target,
                                           int64_t count);
/* Of MEAN and PERPLEXITY: one number, which counts as so many, 0 or more. */
SAMBA_API samba_status samba_metric_add(samba_metric *metric, double value, double weight);
/* The value so far; NaN where nothing has counted. */
SAMBA_API double samba_metric_value(const samba_metric *metric);
SAMBA_API void samba_metric_reset(samba_metric *metric);
SAMBA_API const char *samba_metric_name(const samba_metric *metric);
/* Whether a greater value is a better one. */
SAMBA_API bool samba_metric_is_greater_better(samba_metric_kind kind);
/* The kind of a name ("accuracy", "top_k", "f1" ...); NAME lists them. */
SAMBA_API samba_status samba_metric_from_name(samba_context *context, const char *name, samba_metric_kind *kind);
SAMBA_API void samba_metric_free(samba_metric *metric); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
