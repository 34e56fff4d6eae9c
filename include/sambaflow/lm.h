/* SPDX-License-Identifier: Apache-2.0
 *
 * Language models from a Hugging Face folder: config.json says which graph, safetensors files have its weights. docs/lm.md lists
 * the architectures.
 *
 *     samba_lm_open(context, "folder", &lm);
 *     samba_value logits = samba_lm_logits(lm, graph, samba_input(graph, "input_ids"), NULL);
 *     samba_loss(graph, "loss", samba_lm_loss(logits, samba_input(graph, "labels")));
 *     ... samba_compile, samba_session_new ...
 *     samba_session_load(session, "folder");                  where the folder's weights are float32
 *     samba_lm_save(lm, session, "trained");                  a folder again, which transformers loads
 *
 * Parameters have the names, shapes and layouts of the folder's tensors. They are float32: samba_lm_weights converts others, and
 * mixed precision is the compiler's (samba_compile_options.precision). What a config.json asks for and is not supported is
 * refused by its key and value; so is a key that nothing here knows. */
#ifndef SAMBAFLOW_LM_H
#define SAMBAFLOW_LM_H

#include <sambaflow/adapter.h>
#include <sambaflow/data.h>
#include <sambaflow/graph.h>
#include <sambaflow/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_lm samba_lm;

/* Reads config.json, and of the weights their names and dtypes where the folder has any. Without them parameters start as the
 * architecture's do; with them their values must be given to a session before it runs. Errors: FILE; FORMAT, for what is no JSON
 * or no number where one is due; UNSUPPORTED, for what is understood and not supported; MEMORY. */
SAMBA_API samba_status samba_lm_open(samba_context *context, const char *folder, samba_lm **lm);
SAMBA_API void samba_lm_free(samba_lm *lm); /* NULL is allowed */

typedef struct samba_lm_info {
    const char *model_type; /* "llama"; belongs to the model */
    int64_t vocab_size, hidden_size, num_layers, num_heads, num_key_value_heads, head_dim;
    int64_t max_positions;     /* the longest sequence of learned positions; 0: any */
    bool has_weights, float32; /* the folder has weights; they are all float32, as the graph's parameters are */
} samba_lm_info;
SAMBA_API samba_status samba_lm_get_info(const samba_lm *lm, samba_lm_info *info);

typedef struct samba_lm_options {
    size_t struct_size;
    /* All (batch, length); zeroed: none. Integers or bool; 0 hides a token from the others, as padding is hidden. */
    samba_value attention_mask;
    samba_value position_ids; /* integers; none: 0 .. length - 1. May have batch 1 */
    /* integers: tokens see those of their own document alone, so that several lie in one sequence; position_ids may begin anew */
    samba_value document_ids;
    bool no_dropout; /* whatever rates the config has */
    /* Adapters of linear layers (adapter.h); without targets of all in the decoder's layers. All else is frozen. NULL: none. */
    const samba_lora_options *lora;
    /* How what is frozen lies in memory: INT8 and INT4 are of linear layers in the decoder's layers, the rest of rank 2 is
     * bfloat16. Another than AS_TRACED without `lora` freezes everything: for inference. */
    samba_base base;
} samba_lm_options;
SAMBA_API samba_lm_options samba_lm_defaults(void);

/* (batch, length, vocab_size) of input_ids (batch, length), int64 or int32. Errors stick to the graph. */
SAMBA_API samba_value samba_lm_logits(const samba_lm *lm, samba_graph *graph, samba_value input_ids,
                                      const samba_lm_options *options /* may be NULL */);
/* Mean cross entropy of each token's successor: labels (batch, length) are the input_ids themselves, -100 where a token does not
 * count. The shift by one happens here. */
SAMBA_API samba_value samba_lm_loss(samba_value logits, samba_value labels);

/* The folder's floating-point tensors as float32, by the parameters' names: what a session loads. STATE: the folder has none. */
SAMBA_API samba_status samba_lm_weights(const samba_lm *lm, samba_tensor_list *list);

/* What a session of a graph with these options loads (samba_session_load_tensors, `partial`, since adapters start by themselves):
 * what is frozen in its base, and the magnitudes of DoRA. Of the options only `lora` and `base` matter. */
SAMBA_API samba_status samba_lm_tuned_weights(const samba_lm *lm, const samba_lm_options *options, samba_tensor_list *list);

/* ---- adapters: folders as PEFT has them, adapter_config.json and adapter_model.safetensors --------------------- */
/* Writes the session's adapters. Each file appears whole or not at all, the config last. NAME: the session has none. */
SAMBA_API samba_status samba_lm_save_adapter(const samba_lm *lm, samba_session *session, const samba_lora_options *lora,
                                             const char *folder);
/* An adapter_config.json: the options with which a graph has these adapters. UNSUPPORTED: what it asks for and is not here, by
 * its key. Freed by samba_lm_adapter_free; `lora` belongs to it. */
typedef struct samba_lm_adapter samba_lm_adapter;
SAMBA_API samba_status samba_lm_adapter_open(const samba_lm *lm, const char *folder, samba_lm_adapter **adapter,
                                             const samba_lora_options **lora);
SAMBA_API void samba_lm_adapter_free(samba_lm_adapter *adapter); /* NULL is allowed */
/* Gives a session the adapters' values. NAME, SHAPE: they are of another model or rank. */
SAMBA_API samba_status samba_lm_adapter_load(const samba_lm_adapter *adapter, samba_session *session);
/* Writes the model's folder with the adapters in its weights, float32 (see samba_lm_save). */
SAMBA_API samba_status samba_lm_adapter_merge(const samba_lm_adapter *adapter, const char *folder);

/* Writes config.json, as it was read but for its dtype, and model.safetensors with the session's parameters, float32; copies
 * the tokenizer's files where there are any. Makes the folder. Each file appears whole or not at all, config.json last. */
SAMBA_API samba_status samba_lm_save(const samba_lm *lm, samba_session *session, const char *folder);
/* The same of tensors, by the parameters' names; others do not count. NAME: a parameter has none; SHAPE: it has another dtype or
 * shape. */
SAMBA_API samba_status samba_lm_save_tensors(const samba_lm *lm, int count, samba_tensor *const *tensors, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
