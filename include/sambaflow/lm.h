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
#include <sambaflow/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_lm samba_lm;

/* Reads config.json, and of the weights their names and dtypes where the folder has any. Without them parameters start as the
 * architecture's do; with them their values must be given to a session before it runs. `folder` may also be a GGUF file, whose
 * metadata stands for config.json; its weights are those of samba_lm_weights alone, which dequantizes them. Errors: FILE;
 * FORMAT, for what is no JSON or no number where one is due; UNSUPPORTED, for what is understood and not supported; MEMORY. */
SAMBA_API samba_status samba_lm_open(samba_context *context, const char *folder, samba_lm **lm);
SAMBA_API void samba_lm_free(samba_lm *lm); /* NULL is allowed */

typedef struct samba_lm_info {
    const char *model_type; /* "llama"; belongs to the model */
    int64_t vocab_size, hidden_size, num_layers, num_heads, num_key_value_heads, head_dim;
    int64_t max_positions;     /* the longest sequence of learned positions; 0: any */
    bool has_weights, float32; /* the folder has weights; they are all float32, as the graph's parameters are */
} samba_lm_info;
SAMBA_API samba_status samba_lm_get_info(const samba_lm *lm, samba_lm_info *info); /* what the folder says of the model */

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
    /* How what is frozen lies in memory: INT4 is of linear layers in the decoder's layers, and with it, as with INT8, the table
     * of embeddings and linear layers outside have rows of int8; the rest of rank 2 is bfloat16. Another than AS_TRACED without
     * `lora` freezes everything: for inference. */
    samba_base base;
} samba_lm_options;
SAMBA_API samba_lm_options samba_lm_defaults(void); /* the defaults, with struct_size set; begin with them */

/* (batch, length, vocab_size) of input_ids (batch, length), int64 or int32. Errors stick to the graph. */
SAMBA_API samba_value samba_lm_logits(const samba_lm *lm, samba_graph *graph, samba_value input_ids,
                                      const samba_lm_options *options /* may be NULL */);
/* Mean cross entropy of each token's successor: labels (batch, length) are the input_ids themselves, -100 where a token does not
 * count. The shift by one happens here. */
SAMBA_API samba_value samba_lm_loss(samba_value logits, samba_value labels);

/* ---- generating: a graph of one step, and what runs it ---- */

typedef struct samba_lm_step_options {
    size_t struct_size;
    int64_t capacity; /* positions that a sequence may have, at least 1 */
    int64_t chunk;    /* the greatest length of graphs that share the cache, at least this one's; 0: this one's */
    /* How weights lie in memory, all of them buffers then, as samba_lm_options.base says; samba_lm_tuned_weights makes them.
     * Products read them as they lie (samba_stored_linear), whatever the base is */
    samba_base base;
    const samba_lora_options *lora; /* adapters of linear layers, as in samba_lm_options, without dropout. NULL: none */
    bool each; /* the logits of each token, (batch, length, vocab_size): what is no token of a sequence has some that mean nothing
        */
    /* A step of one sequence over a cache of several: how many, and which of them, (1), int64 or int32; all else has batch 1. 0:
     * the batch has all sequences of the cache */
    int64_t sequences;
    samba_value row;
} samba_lm_step_options;
SAMBA_API samba_lm_step_options samba_lm_step_defaults(void); /* capacity 0, which is to be set */

/* The logits (batch, vocab_size) of the last of some new tokens. input_ids (batch, length), int64 or int32: of sequence b the
 * first count[b] are its tokens at positions start[b], start[b] + 1 ..., and the others, which may be anything that is a token,
 * change nothing; of a count of 0 the logits mean nothing. start and count (batch), int64 or int32. The keys and values of
 * tokens before them lie in each attention module's buffers "cache_key" and "cache_value", (batch, key-value heads,
 * slots + 1, head_dim), where a run writes those of its own, in place. Layers with a window keep window + chunk - 1 slots, in a
 * ring, others `capacity`; the slot beyond is for tokens that do not count. Graphs of one batch, capacity and chunk share them
 * (multigraph.h), so that a prompt comes by many tokens at once and then one at a time. start[b] + count[b] may be at most
 * capacity; no limit where every layer has a window, no positions are learned and capacity is window + chunk - 1 or more. Nobody
 * clears a cache: a sequence that starts at 0 sees nothing of what was there.
 * Errors stick to the graph: ARGUMENT, SHAPE. */
SAMBA_API samba_value samba_lm_step(const samba_lm *lm, samba_graph *graph, samba_value input_ids, samba_value start,
                                    samba_value count, const samba_lm_step_options *options);

/* The tokens that end a text: eos_token_id of generation_config.json, else of config.json, one or a list. *ids belongs to the
 * model; *count is 0 where neither says. Errors: FILE; FORMAT. */
SAMBA_API samba_status samba_lm_stop_ids(samba_lm *lm, const int32_t **ids, int64_t *count);

/* Sequences that grow: a session of steps, with its cache, and the tokens of each sequence. One thread at a time. */
typedef struct samba_generator samba_generator;

typedef struct samba_generator_options {
    size_t struct_size;
    int64_t sequences; /* at once, 1 to 1024 */
    /* tokens that a sequence may have, its prompt among them, unless it slides (samba_lm_step). 0: as many as the config has
     * positions, at most 4096 */
    int64_t capacity;
    int64_t chunk; /* tokens of a prompt that are taken at once, 1 to 4096, as far as the capacity goes */
    int threads;   /* as samba_session_options has them, and the next two */
    const char *isa;
    uint64_t seed; /* of initial weights, where the folder has none */
    /* How weights lie in memory, as samba_lm_options.base says; AS_TRACED: float32. Products read them as they lie and widen
     * them in registers; sums, activations and the cache are float32 */
    samba_base base;
    int64_t draft_tokens; /* of a smaller model, that are looked at together (samba_generation_options.draft), 0 to 64 */
    const struct samba_lm_adapter
        *adapter; /* beside the weights, whatever their base; read while the generator is made. NULL: none */
} samba_generator_options;
SAMBA_API samba_generator_options samba_generator_defaults(void); /* 1 sequence, chunk 512 */

/* Compiles the model's steps and takes the folder's weights. The model must outlive the generator. Errors: those of compiling
 * and loading; ARGUMENT, for a capacity that the model's positions do not reach. */
SAMBA_API samba_status samba_generator_new(const samba_lm *lm, const samba_generator_options *options /* may be NULL */,
                                           samba_generator **generator);
SAMBA_API void samba_generator_free(samba_generator *generator);                    /* NULL is allowed */
SAMBA_API samba_session *samba_generator_session(const samba_generator *generator); /* the generator's */
SAMBA_API int64_t samba_generator_sequences(const samba_generator *generator);
/* Tokens at the end of a sequence. ARGUMENT where there is no such sequence, an id is none of the vocabulary, or they do not
 * fit: then the sequence is as it was. */
SAMBA_API samba_status samba_generator_add(samba_generator *generator, int64_t sequence, const int32_t *ids, int64_t count);
SAMBA_API samba_status samba_generator_clear(samba_generator *generator, int64_t sequence); /* it has no tokens any more */
/* The sequence has its first `count` tokens alone. STATE: a layer with a window cannot go back as far; fewer tokens than the
 * chunk always can. */
SAMBA_API samba_status samba_generator_truncate(samba_generator *generator, int64_t sequence, int64_t count);
/* The tokens of a sequence, which belong to the generator until its next call; no such sequence: none. */
SAMBA_API const int32_t *samba_generator_ids(const samba_generator *generator, int64_t sequence, int64_t *count);
/* How many tokens still fit; INT64_MAX where sequences slide. */
SAMBA_API int64_t samba_generator_room(const samba_generator *generator, int64_t sequence);
/* Runs the model over all tokens that have been added and not run. */
SAMBA_API samba_status samba_generator_run(samba_generator *generator);
/* vocab_size logits of what follows the sequence's last token, float32, until the generator's next call. NULL where the sequence
 * has no tokens, or some that were not run. */
SAMBA_API const float *samba_generator_logits(const samba_generator *generator, int64_t sequence);

/* How a token is chosen from logits: what is here is applied in this order, with the meanings of transformers' processors. */
typedef struct samba_sampling {
    size_t struct_size;
    double
        repetition_penalty; /* > 0: logits of tokens that the sequence has are divided by it, negative ones multiplied; 1: not */
    double temperature;     /* > 0: logits are divided by it; 0: the token of the greatest logit, and nothing below counts */
    int64_t top_k;          /* > 0: so many tokens of the greatest logits, and those equal to the last; 0: all */
    double top_p;           /* (0, 1]: the fewest of the most probable tokens that together have this probability; 1: all */
    double min_p;           /* [0, 1): tokens of at least this part of the greatest probability; 0: all */
    uint64_t seed;          /* the n-th new token of sequence s takes number s 2^32 + n of this seed's */
    /* NULL, or where the uniform numbers in [0, 1) come from instead, by sequence and new token */
    double (*uniform)(void *user, int64_t sequence, int64_t step);
    void *user;
} samba_sampling;
SAMBA_API samba_sampling samba_sampling_defaults(void); /* greedy: no penalty, temperature 0 */

/* One token: the first one up to which, by ids, the probabilities of what is left add up to more than `uniform` of all. seen:
 * the sequence's tokens, for the penalty. ARGUMENT: a number out of its range, one that has no effect at temperature 0, or
 * logits of which none is above -infinity; a NaN among them. */
SAMBA_API samba_status samba_sample_token(samba_context *context, const samba_sampling *sampling, const float *logits,
                                          int64_t vocab_size, const int32_t *seen, int64_t seen_count, double uniform,
                                          int32_t *token);

typedef enum samba_generation_end {
    SAMBA_END_STOP = 1,     /* a token of stop_ids, which is the last of the sequence */
    SAMBA_END_STRING = 2,   /* a stop string */
    SAMBA_END_LENGTH = 3,   /* max_new_tokens */
    SAMBA_END_CAPACITY = 4, /* no more fits */
    SAMBA_END_CALLER = 5    /* the callback said so */
} samba_generation_end;

typedef struct samba_draft_counts {
    int64_t runs;              /* of the large model behind the first */
    int64_t drafted, accepted; /* tokens of the small one; those that the large one took */
} samba_draft_counts;

typedef struct samba_generation_options {
    size_t struct_size;
    samba_sampling sampling;
    int64_t max_new_tokens; /* of each sequence, 0 or more */
    const int32_t *stop_ids;
    int64_t stop_count;
    /* Called with each new token of each sequence, in their order; false: that sequence ends. NULL: nobody asks. */
    bool (*token)(void *user, int64_t sequence, int32_t id);
    void *user;
    /* of samba_generate_text */
    const char *const *stop_strings; /* what ends a text, which is then the text before it; none is empty */
    int64_t stop_string_count;
    bool keep_special; /* special tokens are part of the text */
    /* Called with more of the text of a sequence; whole characters, nothing that may yet be part of a stop string. */
    bool (*text)(void *user, int64_t sequence, const char *text, size_t length);
    /* Speculative decoding (Leviathan et al., arXiv:2211.17192): a generator of a smaller model with the same vocabulary and as
     * many sequences, whose tokens are made those of the other. It drafts, and the large model looks at as many tokens at once
     * as its generator was made for (draft_tokens). Greedy text is what the large model alone gives, sampled text follows its
     * distribution, with other random numbers than without a draft. `uniform` of sampling is UNSUPPORTED with it. NULL: none */
    samba_generator *draft;
    samba_draft_counts *draft_counts; /* NULL, or where they are added up */
} samba_generation_options;
SAMBA_API samba_generation_options samba_generation_defaults(void); /* greedy, 128 new tokens, nothing stops */

/* New tokens behind those of each sequence that has some, all sequences in step, until each has an end: ends[sequence], one for
 * each sequence of the generator; 0 where a sequence has no tokens. The last token of a sequence
 * may not have been run through the model. Errors: those of samba_sample_token, of runs; MEMORY. */
SAMBA_API samba_status samba_generate(samba_generator *generator, const samba_generation_options *options,
                                      samba_generation_end *ends);
/* The same as text. */
SAMBA_API samba_status samba_generate_text(samba_generator *generator, const samba_tokenizer *tokenizer,
                                           const samba_generation_options *options, samba_generation_end *ends);

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
 * the tokenizer's files where there are any. Makes the folder. Each file appears whole or not at all, config.json last of a
 * folder's. Of a GGUF file the tokenizer is written last: one that nothing here knows is UNSUPPORTED, when all else is saved. */
SAMBA_API samba_status samba_lm_save(const samba_lm *lm, samba_session *session, const char *folder);
/* The same of tensors, by the parameters' names; others do not count. NAME: a parameter has none; SHAPE: it has another dtype or
 * shape. */
SAMBA_API samba_status samba_lm_save_tensors(const samba_lm *lm, int count, samba_tensor *const *tensors, const char *folder);

/* ---- GGUF files ---- */
typedef enum samba_export_type { /* of matrices; vectors, norms and tables of positions are float32 */
                                 SAMBA_EXPORT_F32 = 0,
                                 SAMBA_EXPORT_F16 = 1,
                                 SAMBA_EXPORT_BF16 = 2,
                                 SAMBA_EXPORT_Q8_0 = 3, /* blocks of 32 integers of 8 bits */
                                 SAMBA_EXPORT_Q4_0 = 4  /* of 4 bits, as SAMBA_BASE_INT4 has them */
} samba_export_type;
typedef struct samba_lm_export_options {
    size_t struct_size;
    samba_export_type type;
    bool no_tokenizer; /* the file has none, even where the folder does */
} samba_lm_export_options;
SAMBA_API samba_lm_export_options samba_lm_export_defaults(void); /* F32, with the tokenizer */
/* Writes the model with its weights, and the tokenizer where its folder has a tokenizer.json, as a GGUF file of version 3, which
 * appears whole or not at all. UNSUPPORTED: what such files cannot say of the model or its tokenizer, by name; rows that are no
 * whole blocks; values that the type has no room for. STATE: the folder has no weights. */
SAMBA_API samba_status samba_lm_export(const samba_lm *lm, const samba_lm_export_options *options /* may be NULL */,
                                       const char *path);

#ifdef __cplusplus
}
#endif
#endif
