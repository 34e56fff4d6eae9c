/* SPDX-License-Identifier: Apache-2.0
 *
 * One description of a decoder serves all architectures: what differs between them is a field here or a name of samba_lm_names.
 * config.c reads JSON with its checks, architectures.def has the table of those who fill the description from it, build.c makes
 * the graph. A new architecture is a row, a function of a page, its names, and a field where none says it yet.
 *
 * Ownership: a samba_lm has one arena; JSON values belong to its config. */
#ifndef SAMBA_LM_LM_H
#define SAMBA_LM_LM_H

#include "base/base.h"
#include <sambaflow/lm.h>

#include <jansson.h>

/* ---- config.c: one object of JSON, of which nothing is trusted ---- */
#define SAMBA_LM_MOST_KEYS 64
typedef struct samba_lm_config {
    samba_context *context;
    const char *path;   /* of the file, for messages */
    const char *within; /* "", or the key of the object and a '.' */
    const json_t *json;
    const char *asked[SAMBA_LM_MOST_KEYS]; /* keys that somebody has looked at */
    int asked_count;
    samba_status status; /* the first failure; later calls give their defaults */
} samba_lm_config;
void samba_lm_config_init(samba_lm_config *config, samba_context *context, const char *path, const char *within,
                          const json_t *json);
/* The key's value; NULL where it is null or not there. `key` is kept. */
const json_t *samba_lm_ask(samba_lm_config *config, const char *key);
bool samba_lm_is_null(samba_lm_config *config, const char *key); /* null, and not left out */
/* `otherwise` where it is null or not there. */
int64_t samba_lm_integer(samba_lm_config *config, const char *key, int64_t otherwise, int64_t low, int64_t high);
double samba_lm_number(samba_lm_config *config, const char *key, double otherwise, double low, double high);
bool samba_lm_flag(samba_lm_config *config, const char *key, bool otherwise);
const char *samba_lm_word(samba_lm_config *config, const char *key, const char *otherwise);
/* UNSUPPORTED: the key, its value, and what is supported: "silu, gelu". */
void samba_lm_refuse(samba_lm_config *config, const char *key, const char *supported);
/* FORMAT: the key, its value, and what is expected. */
void samba_lm_wrong(samba_lm_config *config, const char *key, const char *expected);
void samba_lm_only(samba_lm_config *config, const char *key, bool supported); /* refuses the other value */
/* The status; UNSUPPORTED where there is a key that nobody has asked for and that is not known to change nothing. */
samba_status samba_lm_config_finish(samba_lm_config *config);

/* ---- rope.c: how rotary positions turn ---- */
typedef enum samba_lm_rope_kind {
    SAMBA_LM_NO_ROPE,
    SAMBA_LM_ROPE,
    SAMBA_LM_LINEAR,
    SAMBA_LM_DYNAMIC,
    SAMBA_LM_LLAMA3,
    SAMBA_LM_YARN,
    SAMBA_LM_LONGROPE
} samba_lm_rope_kind;
typedef struct samba_lm_rope {
    samba_lm_rope_kind kind;
    int64_t dims; /* features that turn */
    double base, factor, low, high, original, most, attention_factor, beta_fast, beta_slow;
    bool truncate;
    const json_t *short_factor, *long_factor;
} samba_lm_rope;
typedef struct samba_lm_rope_keys { /* what differs between architectures */
    const char *base, *partial;     /* of config.json itself; "rope_theta"; NULL: none */
    double default_base, default_partial;
    bool may_be_partial; /* the architecture turns a part of a head's features where the scaling is none */
    const char *yarn;    /* what "yarn" and "su" mean; NULL: themselves */
    int64_t original;    /* what "original_max_position_embeddings" of config.json itself is where it is not there; 0: nothing */
} samba_lm_rope_keys;
extern const samba_lm_rope_keys samba_lm_rope_usual;
/* From "rope_scaling", "rope_parameters" and the keys beside them. */
void samba_lm_rope_read(samba_lm_config *config, const samba_lm_rope_keys *keys, int64_t head_dim, int64_t most,
                        samba_lm_rope *rope);
/* The same from one object, which may be NULL. */
void samba_lm_rope_of(samba_lm_config *config, const char *key, const json_t *object, const samba_lm_rope_keys *keys, double base,
                      int64_t head_dim, int64_t most, samba_lm_rope *rope);
/* dims / 2 angles of one step in position, for sequences of `length`; `scale` is the factor of cosine and sine. */
void samba_lm_rope_steps(const samba_lm_rope *rope, int64_t length, float *steps, double *scale);

/* ---- the description ---- */
typedef struct samba_lm_norm {
    bool rms; /* else layer norm */
    double eps;
    bool plus_one;           /* the factor is 1 + weight */
    bool no_weight, no_bias; /* of layer norm */
} samba_lm_norm;
typedef enum samba_lm_qkv {
    SAMBA_LM_SEPARATE, /* three projections */
    SAMBA_LM_JOINED,   /* queries of all heads, keys of all, values of all */
    SAMBA_LM_GROUPED   /* for each key-value head its queries, its key, its value */
} samba_lm_qkv;
typedef enum samba_lm_activation {
    SAMBA_LM_GELU,
    SAMBA_LM_GELU_TANH,
    SAMBA_LM_SILU,
    SAMBA_LM_RELU,
    SAMBA_LM_TANH
} samba_lm_activation;
typedef enum samba_lm_order {
    SAMBA_LM_PRE_NORM,  /* x + f(norm(x)) */
    SAMBA_LM_POST_NORM, /* norm(x + f(x)) */
    SAMBA_LM_PARALLEL   /* x + attention(norm(x)) + mlp(norm(x)) */
} samba_lm_order;

/* Names of modules as transformers has them; NULL or "": the architecture has none. */
typedef struct samba_lm_names {
    const char *model; /* in front of all but the head; files of the bare model lack its first word */
    const char *embedding, *embedding_norm, *positions, *project_in, *layers, *final_norm, *project_out, *head;
    const char *attention, *query, *key, *value, *qkv, *out, *query_norm, *key_norm;
    const char *mlp, *gate, *up, *gate_up, *down;
    const char *norm_attention, *after_attention, *norm_mlp, *after_mlp;
} samba_lm_names;
extern const samba_lm_names samba_lm_llama_names; /* llama.c: of its like, and of Gemma */

typedef struct samba_lm_shape {
    samba_lm_names names;
    int64_t vocab_size, hidden_size, embedding_size, intermediate_size, layers, heads, key_value_heads, head_dim;
    int64_t positions, position_offset; /* rows of learned positions, and the row of position 0; 0: none */
    bool positions_follow_mask;         /* they count the tokens that the mask shows */
    bool has_padding;                   /* the embedding of this token is not trained */
    int64_t padding;
    double embedding_scale, initializer_range;
    bool tied;                     /* the head is the embedding */
    samba_lm_norm norm, head_norm; /* head_norm: of queries and keys, where they have names */
    bool norms_each_head;          /* each head has a weight of its own */
    samba_lm_order order;
    bool shared_norm; /* of PARALLEL: attention and MLP have one */
    samba_lm_qkv qkv;
    bool transposed; /* weights are (in, out) */
    bool qkv_bias, out_bias, mlp_bias;
    samba_lm_activation activation;
    double scale;                    /* of attention's scores */
    bool scale_by_layer;             /* divided by the layer's number, from 1 */
    double attention_cap, final_cap; /* c tanh(x / c); 0: none */
    /* ALiBi: a head's slope times a key's position is added to its scores (alibi.c); scaled as they are, and rounded to bfloat16,
     * where the architecture has it so */
    bool alibi, alibi_scaled, alibi_rounded;
    samba_lm_rope rope, sliding_rope;
    int64_t window; /* tokens that a query sees in sliding layers; 0: there are none */
    bool *sliding;  /* which layers are */
    double embedding_dropout, attention_dropout, attention_out_dropout, mlp_out_dropout;
} samba_lm_shape;

struct samba_lm {
    samba_context *context;
    samba_arena arena;
    json_t *json;
    const char *text; /* that it was read from */
    size_t size;
    const char *folder, *model_type;
    struct samba_gguf *gguf; /* of a file, which `folder` is the path of then (gguf.h); NULL: a folder */
    const struct samba_lm_gguf_kind *gguf_kind;
    const char *whole; /* names.model as transformers' class with a head has it, where the files are of the bare model */
    samba_lm_shape shape;
    bool has_weights, float32;
    const int32_t *stop_ids; /* once samba_lm_stop_ids has asked for them */
    int64_t stop_count;
};

/* ---- GGUF files: gguf_weights.c ---- */
samba_status samba_lm_gguf_check(samba_lm *lm); /* whether its tensors are those of the model */
samba_status samba_lm_gguf_read(const samba_lm *lm, samba_tensor_list *list);

/* ---- the architectures: architectures.c has the table ---- */
typedef void samba_lm_read(samba_lm_config *config, samba_arena *arena, samba_lm_shape *shape);
#define ARCHITECTURE(type, read) samba_lm_read samba_lm_read_##read;
#include "lm/architectures.def"
#undef ARCHITECTURE
samba_status samba_lm_describe(samba_lm *lm, const char *path);

/* Parts of their functions (parts.c). */
#define SAMBA_LM_MOST_WIDTH (1 << 22)
/* hidden_size, layers, heads, MLP, vocabulary, by the keys that most have. */
void samba_lm_read_sizes(samba_lm_config *config, samba_lm_shape *shape, int64_t vocab, int64_t hidden, int64_t intermediate,
                         int64_t layers, int64_t heads);
/* "num_key_value_heads" and "head_dim"; 0: as many as heads; hidden_size / heads. */
void samba_lm_read_heads(samba_lm_config *config, samba_lm_shape *shape, int64_t key_value_heads, int64_t head_dim);
void samba_lm_divide_heads(samba_lm_config *config, samba_lm_shape *shape); /* head_dim = hidden_size / heads */
void samba_lm_read_padding(samba_lm_config *config, samba_lm_shape *shape, int64_t otherwise); /* -1: none */
samba_lm_activation samba_lm_read_activation(samba_lm_config *config, const char *key, const char *otherwise);
double samba_lm_read_dropout(samba_lm_config *config, const char *key, double otherwise);
/* "layer_types", or layers of index from `from` on, or `every`: all but each so manyth. */
void samba_lm_read_sliding(samba_lm_config *config, samba_arena *arena, samba_lm_shape *shape, bool has_types, int64_t from,
                           int64_t every);

/* ---- the graph: layers.c, attention.c, build.c, step.c ---- */
typedef struct samba_lm_build {
    samba_graph *graph;
    const samba_lm *lm;
    const samba_lm_shape *m;
    samba_lm_options options;
    int64_t batch, length;
    /* of a step (step.c): where each sequence's tokens begin and how many count, (batch); what the cache holds, and how many
     * tokens come at once at most. capacity 0: whole sequences, and no cache */
    samba_value start, count;
    int64_t capacity, chunk;
    bool each;         /* of a step: logits of each token */
    int64_t sequences; /* of a step of one of them: (1) which it is; 0: the batch has all that the cache has */
    samba_value row;
    bool inside; /* a layer: the head and what widens the embedding are linear layers of the usual layout */
} samba_lm_build;
void samba_lm_enter(samba_lm_build *b, const char *name); /* a module's scope; NULL and "" are none */
void samba_lm_leave(samba_lm_build *b, const char *name);
samba_value samba_lm_parameter(samba_lm_build *b, const char *name, int rank, const int64_t *shape, double start);
samba_value samba_lm_linear(samba_lm_build *b, samba_value x, const char *name, int64_t out_features, bool bias);
samba_value samba_lm_normalize(samba_lm_build *b, samba_value x, const char *name, const samba_lm_norm *norm);
samba_value samba_lm_drop(samba_lm_build *b, samba_value x, const char *name, double p);
samba_value samba_lm_cap(samba_value x, double cap);
samba_value samba_lm_attention(samba_lm_build *b, samba_value x, int64_t layer);
/* Attention of a step, by which keys and values go into the layer's cache: all (batch, heads, length, head_dim). */
samba_value samba_lm_attend_step(samba_lm_build *b, const samba_value qkv[3], int64_t layer, double scale);
/* alibi.c: what is added to the scores of keys at these positions, (batch or 1, keys), for all queries: (batch or 1, heads, 1,
 * keys). */
samba_value samba_lm_alibi(samba_lm_build *b, samba_value positions, double scale);
samba_value samba_lm_last_token(const samba_lm_build *b, samba_value x); /* (batch, length, n) -> (batch, 1, n) */
samba_value samba_lm_logits_of(samba_lm_build *b,
                               samba_value input_ids); /* build.c: (batch, length, vocab_size), or (batch, 1, ..) */
bool samba_lm_slides(const samba_lm_shape *m, int64_t capacity, int64_t chunk);
samba_value samba_lm_mlp(samba_lm_build *b, samba_value x);

/* sample.c: the caller's, over defaults, or why not. */
samba_status samba_lm_check_sampling(samba_context *context, const samba_sampling *given, samba_sampling *sampling);
/* Of what is left of the logits, with a checked sampling: `vocab` probabilities. */
samba_status samba_lm_probabilities(samba_context *context, const samba_sampling *sampling, const float *logits, int64_t vocab,
                                    const int32_t *seen, int64_t seen_count, double *probability);
/* generator.c */
samba_context *samba_generator_context(const samba_generator *generator);
int64_t samba_generator_vocab(const samba_generator *generator);
enum { SAMBA_LM_MOST_DRAFT = 64 }; /* draft_tokens */
int64_t samba_generator_draft_tokens(const samba_generator *generator);
/* The cache has so many of a sequence's tokens, which a truncation had given up: those that came again. */
void samba_generator_has_cached(samba_generator *generator, int64_t sequence, int64_t count);
/* Runs what is new of each sequence, at most draft_tokens + 1 tokens, and gives the logits of each of them: (sequences, *length,
 * vocab), a sequence's first tokens; the generator's, until its next call. */
samba_status samba_generator_run_each(samba_generator *generator, const float **logits, int64_t *length);
/* generate.c: samba_generate, which tells `visit`, if there is one, of each new token and whether its sequence has an end with
 * it; id -1: the end alone. It may say that there is one. */
typedef samba_status samba_lm_visit(void *user, int64_t sequence, int32_t id, samba_generation_end *end);
samba_status samba_lm_generate(samba_generator *generator, const samba_generation_options *options, samba_lm_visit *visit,
                               void *user, samba_generation_end *ends);
typedef struct samba_lm_generation {
    samba_generator *generator;
    samba_context *context;
    const samba_generation_options *options;
    samba_sampling sampling;
    samba_lm_visit *visit;
    void *user;
    samba_generation_end *ends;
    int64_t *made; /* new tokens of each sequence */
} samba_lm_generation;
/* A token that was chosen for a sequence that goes on, which may have its end with it. */
samba_status samba_lm_take_token(samba_lm_generation *generation, int64_t sequence, int32_t id);
/* The next token of a sequence whose logits are there, or its end. */
samba_status samba_lm_extend(samba_lm_generation *generation, int64_t sequence);
/* speculate.c: new tokens until each of `going` sequences has an end, by way of those that a smaller model drafts. */
samba_status samba_lm_speculate(samba_lm_generation *generation, int64_t going);

const samba_lora_options *samba_lm_adapter_lora(const samba_lm_adapter *adapter); /* adapter.c */

/* ---- tuned.c ---- */
/* One of one token, which has the leaves of all graphs with these options' adapters and base; freed by the caller. */
samba_status samba_lm_token_graph(const samba_lm *lm, const samba_lm_options *options /* may be NULL */, samba_graph **graph);

/* The folder's weights to a session, as samba_lm_tuned_weights makes them, but one at a time: beside the session's memory there
 * is no more than the largest. */
samba_status samba_lm_give_weights(const samba_lm *lm, samba_session *session, const samba_lm_options *options);

/* ---- weights.c ---- */
/* Which names the folder's tensors have: corrects names.model and names.head, has_weights, float32. */
samba_status samba_lm_look_at_weights(samba_lm *lm);
/* All of them, with their dtypes. */
samba_status samba_lm_read_weights(const samba_lm *lm, samba_tensor_list *list);
samba_status samba_lm_own_float32(samba_context *context, samba_tensor **tensor); /* a copy in its place */

#endif
