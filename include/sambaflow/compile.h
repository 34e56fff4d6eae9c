/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiling: model function + example inputs + optimizers -> one PEF on disk, with a readable log beside it. */
#ifndef SAMBAFLOW_COMPILE_H
#define SAMBAFLOW_COMPILE_H

#include <sambaflow/graph.h>
#include <sambaflow/optimizers.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samba_precision {
    SAMBA_FP32 = 0, /* everything in the dtypes it was traced in */
    /* Mixed, as torch.autocast(bfloat16): contractions read bfloat16 and sum in float32; norms, softmax, losses and sums are
     * float32; parameters, gradients and optimizers stay as traced (samba_graphamp_push leaves parts out). */
    SAMBA_BF16 = 1
} samba_precision;

typedef enum samba_mapping { /* how the graph is mapped to the device; numbers are part of the file format */
                             SAMBA_MAPPING_SECTION = 0, /* each phase is cut into sections that fit the fast memory one by one */
                             SAMBA_MAPPING_SPATIAL = 1  /* forward and backward are one section, which fits as a whole */
} samba_mapping;

typedef struct samba_compile_options {
    size_t struct_size;
    const char *name; /* of the graph; NULL: "graph" */
    samba_model model;
    const void *model_options;
    samba_graph *graph; /* instead of model and inputs: an already built graph, which stays the caller's */
    int input_count;
    samba_tensor *const *inputs; /* named examples; memory is not needed */
    int optimizer_count;
    const samba_optimizer *optimizers;
    bool inference; /* forward only: no gradients, dropout does nothing and has no hyperparameters */
    samba_precision precision;
    int grad_accumulation_steps; /* N >= 1 micro-batches make a step: their gradients, each divided by N, add up; the inputs are
                                    one micro-batch, and samba_run says when the update is */
    int64_t chunk_bytes;         /* logits and their like, larger than this and read by row-wise computations only, are never
                                    stored whole: chunks of rows of at most this size are, in turn. 0: 64 MiB */
    const char *output_folder;   /* NULL: "out" */
    const char *pef_name;        /* NULL: name */
    const char *dump_after;      /* name of a pass, "all", or NULL: calls dump with the graph's text after it */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    /* > 0: bytes that parameters, gradients, state, inputs, outputs and activations may take together; the backward computes
     * again what does not fit, with the same results. ARGUMENT, naming the least, when nothing helps. Kernels' scratch, which
     * depends on CPU and threads, comes on top (samba_session_memory). */
    int64_t memory_budget;
    samba_mapping mapping;
    /* > 0: bytes of fast memory that a section may use, all memory that its stages touch counted once; 0: as much as there is.
     * Sections end between modules where they can, and never inside a samba_op_fusion_push. The results do not depend on it, bit
     * by bit. ARGUMENT, with the sizes, where a stage, a fusion or, with SPATIAL, forward and backward do not fit. */
    int64_t fast_memory;
    /* Replicas train together: REDUCE sections average their gradients behind BCKWD, and sync_batch_norm has the statistics of
     * all. The batch is one replica's; a session knows how many replicas there are (samba_run_options.data_parallel). */
    bool data_parallel;
    bool verify; /* run the verifier after every pass (tests do) */
    /* With optimizers, parameters that none of them has have no gradient: nothing computes or keeps one. These have: names, in
     * which * stands for any characters. Without optimizers all have one, and this must be empty. NAME where one matches
     * nothing. */
    int gradient_count;
    const char *const *gradients;
} samba_compile_options;
SAMBA_API samba_compile_options samba_compile_defaults(void); /* the defaults, with struct_size set; begin with them */

/* Writes <output_folder>/<pef_name>/<pef_name>.pef and .pef.log, each by writing beside it and renaming, so that an
 * existing file stays whole on any error. `path` receives the PEF's path (may be NULL). */
SAMBA_API samba_status samba_compile(samba_context *context, const samba_compile_options *options, char *path, size_t path_size);

/* The passes in order, NULL-terminated, as dump_after takes them. */
SAMBA_API const char *const *samba_pass_names(void);

#ifdef __cplusplus
}
#endif
#endif
