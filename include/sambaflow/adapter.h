/* SPDX-License-Identifier: Apache-2.0
 *
 * Fine-tuning a part of a model: parameters that stay as they are, kept in fewer bits, and low-rank adapters beside them. Both
 * are said around the calls that trace the model, as scopes are:
 *
 *     samba_freeze_push(graph, &(samba_freeze_options){.struct_size = sizeof(samba_freeze_options), .base = SAMBA_BASE_INT8});
 *     samba_lora_push(graph, &(samba_lora_options){.struct_size = sizeof(samba_lora_options), .rank = 8, .alpha = 16});
 *     ... the model ...
 *     samba_lora_pop(graph);
 *     samba_freeze_pop(graph);
 *
 * Patterns have * (any characters) and ? (one) and are of whole names; a pattern that matched nothing is an error at the pop. */
#ifndef SAMBAFLOW_ADAPTER_H
#define SAMBAFLOW_ADAPTER_H

#include <sambaflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters that stay ------------------------------------------------------------------------------------- */
/* How a frozen parameter lies in memory.
 * BFLOAT16   of parameters of rank 2 and more that are traced as float32
 * INT8       weights of linear layers: "weight" int8 (out, in) and "weight_scale" float32 (out, 1). A row is the integers times
 *            its scale. Other parameters as BFLOAT16
 * INT4       "weight_packed" uint8 (out, in / 32, 16) and "weight_scale" float16 (out, in / 32, 1), as GGML's Q4_0: byte j of a
 *            group has element j in its low half and j + 16 in its high half, each 8 more than the integer. `in` must be a
 *            multiple of 32 */
typedef enum samba_base {
    SAMBA_BASE_AS_TRACED = 0,
    SAMBA_BASE_BFLOAT16 = 1,
    SAMBA_BASE_INT8 = 2,
    SAMBA_BASE_INT4 = 3
} samba_base;

typedef struct samba_freeze_options {
    size_t struct_size;
    int pattern_count; /* 0: all parameters */
    const char *const *patterns;
    int except_count; /* of those, these do train */
    const char *const *excepts;
    samba_base base;
    /* Linear layers of the region, frozen or not, read their weights as they are kept (samba_stored_linear): for inference, since
     * such a layer has no gradient. What they are given is float32. */
    bool as_kept;
} samba_freeze_options;
SAMBA_API samba_freeze_options samba_freeze_defaults(void); /* the defaults, with struct_size set; begin with them */

/* Parameters that are made until the pop, and whose names match, become buffers (samba_register_buffer): they have no gradient
 * and no optimizer's state, and layers read them as before. Their values are given to a session by their names: samba_quantize
 * makes those of another base. Regions nest, and the innermost decides. Errors stick to the graph. */
SAMBA_API void samba_freeze_push(samba_graph *graph, const samba_freeze_options *options /* may be NULL: all, as traced */);
SAMBA_API void samba_freeze_pop(samba_graph *graph);

/* What a session is given of a frozen weight: float32 (out, in), or (in, out) with `transposed`. parts[0], and of INT8 and INT4
 * the scales in parts[1] (else NULL), are the caller's and have the names above, from the weight's "<name>.weight". INT8: a row's
 * greatest magnitude is 127 scales. INT4: the element of greatest magnitude in a group is -8 scales. Errors: ARGUMENT; DTYPE;
 * SHAPE, for INT4 of rows that are no multiple of 32; MEMORY. */
SAMBA_API samba_status samba_quantize(samba_context *context, const samba_tensor *weight, samba_base base, bool transposed,
                                      samba_tensor *parts[2]);

/* ---- adapters --------------------------------------------------------------------------------------------------- */
typedef struct samba_lora_options {
    size_t struct_size;
    int64_t rank;     /* 1 or more */
    double alpha;     /* the adapter's factor is alpha / rank */
    double dropout;   /* of the adapter's input, 0 <= dropout < 1 */
    bool rslora;      /* the factor is alpha / sqrt(rank): Kalajdzievski, arXiv:2312.03732 */
    bool dora;        /* magnitude and direction apart: Liu et al., arXiv:2402.09353 */
    int target_count; /* linear layers: "q_proj" is each whose name is that or ends in ".q_proj"; 0: all */
    const char *const *targets;
    int exclude_count; /* but these */
    const char *const *excludes;
} samba_lora_options;
SAMBA_API samba_lora_options samba_lora_defaults(void); /* rank 8, alpha 8 */

/* Linear layers (samba_linear and its like) that are traced until the pop, and whose names match, get an adapter: y of x becomes
 * y + factor * B A x (Hu et al., arXiv:2106.09685), with parameters "<name>.lora_A.weight" (rank, in), which starts as PEFT's,
 * and "<name>.lora_B.weight" (out, rank), which starts as 0. With dora it becomes the bias plus
 * magnitude * (W + factor * B A) x / |W + factor * B A|, of norms of rows, which no gradient passes, with the parameter
 * "<name>.lora_magnitude_vector" (out), which a session is given: the norms of W's rows. Adapters are never frozen. Errors stick
 * to the graph. */
SAMBA_API void samba_lora_push(samba_graph *graph, const samba_lora_options *options);
SAMBA_API void samba_lora_pop(samba_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
