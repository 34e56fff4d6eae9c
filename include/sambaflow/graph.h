/* SPDX-License-Identifier: Apache-2.0
 *
 * A model is a C function over values. A value is a small struct passed by value; it knows its graph. The first
 * error sticks to the graph, later calls pass it on, and samba_compile reports it, so model code checks nothing.
 *
 * Layers are called by name inside the current scope: the first call of a name makes its parameters, a second shares them.
 * Parameter names are those of PyTorch's state_dict ("conv1.weight", scopes joined by '.'), and so are the initializers. */
#ifndef SAMBAFLOW_GRAPH_H
#define SAMBAFLOW_GRAPH_H

#include <sambaflow/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_graph samba_graph;
typedef struct samba_value {
    samba_graph *graph;
    uint32_t index;
} samba_value;

/* A model: builds its values in `graph`. `options` is what the caller gave to compile. */
typedef void (*samba_model)(samba_graph *graph, const void *options);

/* ---- graph ---------------------------------------------------------------------------------------------- */
SAMBA_API samba_status samba_graph_new(samba_context *context, const char *name, samba_graph **graph);
SAMBA_API void samba_graph_free(samba_graph *graph);
/* The sticky status; its message is the context's. */
SAMBA_API samba_status samba_graph_status(const samba_graph *graph);
/* Declares an input before the model runs: name, dtype and shape are what counts, not values. */
SAMBA_API samba_status samba_graph_add_input(samba_graph *graph, const samba_tensor *example);
/* A new graph of what the outputs, losses and assignments need, as samba_compile takes it; the given one stays. */
SAMBA_API samba_status samba_graph_copy(const samba_graph *graph, samba_graph **copy);
/* Text form, which samba_graph_parse reads back to an equal graph. Freed with samba_text_free. docs/graph.md */
SAMBA_API samba_status samba_graph_print(const samba_graph *graph, char **text);
SAMBA_API samba_status samba_graph_parse(samba_context *context, const char *text, samba_graph **graph);
SAMBA_API void samba_text_free(samba_context *context, char *text);
/* Whether `model` computes what `compiled` does, both as samba_graph_copy leaves them: STATE names the first operator or output that
 * differs and where it comes from in both. Modules' paths and lines may differ, and the graphs' names. */
SAMBA_API samba_status samba_graph_compare(const samba_graph *compiled, const samba_graph *model);

/* One operator or leaf. Strings and inputs belong to the graph; the latter until something is added to it. */
typedef struct samba_node_info {
    const char *op;   /* "relu"; of leaves "input", "parameter", "state", "argin", "constant", "literal", "iota" */
    const char *name; /* of an input, parameter, state or argin; else "" */
    samba_dtype dtype;
    int rank;
    int64_t shape[8];
    int input_count;
    const uint32_t *inputs; /* numbers of nodes */
    const char *phase;      /* "FWD" ...; "" for leaves */
    const char *module, *source, *fusion; /* "encoder.layers.0", "model.py:42", the name of samba_op_fusion_push; "" where not known */
} samba_node_info;
SAMBA_API int64_t samba_graph_node_count(const samba_graph *graph);
SAMBA_API samba_status samba_graph_node(const samba_graph *graph, int64_t index, samba_node_info *info);

/* ---- leaves and outputs ------------------------------------------------------------------------------------ */
SAMBA_API samba_value samba_input(samba_graph *graph, const char *name); /* declared with samba_graph_add_input */
SAMBA_API samba_value samba_constant(samba_graph *graph, double value, samba_dtype dtype, int rank, const int64_t *shape);
/* The tensor's values, which become part of the graph and of the PEF. */
SAMBA_API samba_value samba_constant_tensor(samba_graph *graph, const samba_tensor *tensor);
SAMBA_API samba_value samba_arange(samba_graph *graph, int64_t end, samba_dtype dtype); /* 0 .. end-1, rank 1 */
/* Values a caller may ask run for. A loss is an output that gradients start from; a graph with no loss has gradients start
 * from every floating-point output, with ones. */
SAMBA_API void samba_output(samba_graph *graph, const char *name, samba_value value);
SAMBA_API void samba_loss(samba_graph *graph, const char *name, samba_value value);
SAMBA_API int samba_value_rank(samba_value value);
SAMBA_API int64_t samba_value_size(samba_value value, int dim); /* negative dims count from the end; 0 after an error */
SAMBA_API samba_dtype samba_value_dtype(samba_value value);

/* Names made between push and pop begin with "name." */
SAMBA_API void samba_scope_push(samba_graph *graph, const char *name);
SAMBA_API void samba_scope_pop(samba_graph *graph);

/* Where in the user's model comes from what is traced from here on. Errors, the graph's text, the PEF and `sambaflow inspect` say it;
 * gradients have the place of the operator they belong to. What a graph computes, and its hash, do not depend on it.
 *
 * A module's path, as torch's named_modules has it ("encoder.layers.0"), instead of the scope; no name begins with it. "" or NULL: the
 * scope again. samba_scope_push, and so a layer, sets the path to the scope, samba_scope_pop to what it was before. */
SAMBA_API void samba_set_module(samba_graph *graph, const char *path);
/* A line of a program, kept as "model.py:42", without folders. NULL: none. */
SAMBA_API void samba_set_source(samba_graph *graph, const char *file, int line);
#define SAMBA_HERE(graph) samba_set_source(graph, __FILE__, __LINE__)

/* A hint: operators traced between push and pop stay in one section of each type (their gradients in one of BCKWD, and so on), whatever the
 * device's memory would allow otherwise. Regions nest; the outermost holds all. Regions of one name are one. */
SAMBA_API void samba_op_fusion_push(samba_graph *graph, const char *name);
SAMBA_API void samba_op_fusion_pop(samba_graph *graph);

/* What is traced between push and pop is computed as written when mixed precision is asked for (enabled false), or again as
 * mixed precision does it (true). Regions nest, at most 64 deep. Without mixed precision they change nothing. */
SAMBA_API void samba_graphamp_push(samba_graph *graph, bool enabled);
SAMBA_API void samba_graphamp_pop(samba_graph *graph);

typedef enum samba_initializer_kind {
    SAMBA_INIT_ZEROS = 0,
    SAMBA_INIT_CONSTANT = 1, /* a */
    SAMBA_INIT_UNIFORM = 2,  /* [a, b) */
    SAMBA_INIT_NORMAL = 3    /* mean a, standard deviation b */
} samba_initializer_kind;
typedef struct samba_initializer {
    samba_initializer_kind kind;
    double a, b;
} samba_initializer;
/* A trainable parameter, made the first time its (scoped) name is used, by this or by a layer; the second use must agree in dtype and
 * shape. So a parameter made before the layer that uses it starts as said here, and may be used elsewhere too. */
SAMBA_API samba_value samba_parameter(samba_graph *graph, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                                      samba_initializer initializer);

/* A named tensor that no gradient reaches (torch.nn.Module.register_buffer): any dtype; an optimizer leaves it alone, checkpoints have it. */
SAMBA_API samba_value samba_register_buffer(samba_graph *graph, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                                   samba_initializer initializer);
/* What a buffer holds after FWD: of its dtype and shape. Values of this run still are what it held before. Once a buffer. */
SAMBA_API void samba_assign(samba_value buffer, samba_value value);

/* ---- layers (torch.nn): parameters by name ------------------------------------------------------------------- */
typedef struct samba_conv2d_options { /* zero means PyTorch's default: stride 1, padding 0, dilation 1, groups 1, bias */
    int64_t stride[2], padding[2], dilation[2], groups;
    bool no_bias;
} samba_conv2d_options;
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

/* ---- the same over values (torch.nn.functional); a bias or weight that is a zeroed value is left out ------------- */
SAMBA_API samba_value samba_functional_linear(samba_value input, samba_value weight /* (out, in) */, samba_value bias);
SAMBA_API samba_value samba_functional_conv2d(samba_value input, samba_value weight /* (out, in / groups, kh, kw) */, samba_value bias,
                                              const samba_conv2d_options *options /* no_bias is not looked at */);
typedef struct samba_conv_transpose2d_options { /* zero means PyTorch's default: stride 1, padding 0, output_padding 0, dilation 1, groups 1 */
    int64_t stride[2], padding[2], output_padding[2], dilation[2], groups;
} samba_conv_transpose2d_options;
/* torch.nn.functional.conv_transpose2d: input (N, C, H, W) or (C, H, W), weight (C, out_channels / groups, kh, kw), bias (out_channels); a
 * result height (H - 1) * stride - 2 * padding + dilation * (kh - 1) + output_padding + 1, and so the width. */
SAMBA_API samba_value samba_functional_conv_transpose2d(samba_value input, samba_value weight, samba_value bias,
                                                        const samba_conv_transpose2d_options *options /* may be NULL */);
/* Over the last `count` dims, whose sizes are `shape`, as are those of weight and bias. */
SAMBA_API samba_value samba_functional_layer_norm(samba_value input, int count, const int64_t *shape, samba_value weight,
                                                  samba_value bias, double eps);
SAMBA_API samba_value samba_functional_embedding(samba_value index, samba_value weight);

/* torch.index_add along dim 0, of floating-point values: base (V, D), integer indices 0 .. V-1 of any shape, rows of that shape and (D);
 * a copy of base to whose row index[i] row i is added, repeated ones too. */
SAMBA_API samba_value samba_index_add(samba_value base, samba_value index, samba_value rows);

/* ---- functions (torch.nn.functional and tensor operators); operands broadcast and promote as in PyTorch ---------- */
SAMBA_API samba_value samba_add(samba_value a, samba_value b);
SAMBA_API samba_value samba_sub(samba_value a, samba_value b);
SAMBA_API samba_value samba_mul(samba_value a, samba_value b);
SAMBA_API samba_value samba_div(samba_value a, samba_value b); /* true division */
SAMBA_API samba_value samba_pow(samba_value a, samba_value b);
SAMBA_API samba_value samba_maximum(samba_value a, samba_value b);
SAMBA_API samba_value samba_minimum(samba_value a, samba_value b);
SAMBA_API samba_value samba_eq(samba_value a, samba_value b);
SAMBA_API samba_value samba_ne(samba_value a, samba_value b);
SAMBA_API samba_value samba_lt(samba_value a, samba_value b);
SAMBA_API samba_value samba_le(samba_value a, samba_value b);
SAMBA_API samba_value samba_gt(samba_value a, samba_value b);
SAMBA_API samba_value samba_ge(samba_value a, samba_value b);
SAMBA_API samba_value samba_where(samba_value condition, samba_value a, samba_value b);
/* A number on the right: promotes as a Python float does (an integer value becomes float32). */
SAMBA_API samba_value samba_add_scalar(samba_value a, double b);
SAMBA_API samba_value samba_mul_scalar(samba_value a, double b);
SAMBA_API samba_value samba_pow_scalar(samba_value a, double b);

SAMBA_API samba_value samba_neg(samba_value a);
SAMBA_API samba_value samba_abs(samba_value a);
SAMBA_API samba_value samba_exp(samba_value a);
SAMBA_API samba_value samba_log(samba_value a);
SAMBA_API samba_value samba_log1p(samba_value a); /* log(1 + a), with all digits near 0 */
SAMBA_API samba_value samba_expm1(samba_value a); /* exp(a) - 1, with all digits near 0 */
SAMBA_API samba_value samba_sin(samba_value a);
SAMBA_API samba_value samba_cos(samba_value a);
SAMBA_API samba_value samba_floor(samba_value a); /* no gradient; so are round and sign */
SAMBA_API samba_value samba_round(samba_value a); /* to the nearest integer, halves to even */
SAMBA_API samba_value samba_sign(samba_value a);  /* -1, 0 or 1; 0 for NaN */
SAMBA_API samba_value samba_softplus(samba_value a); /* log(1 + exp(a)) without overflow */
SAMBA_API samba_value samba_detach(samba_value a);   /* a, through which no gradient flows */
SAMBA_API samba_value samba_sqrt(samba_value a);
SAMBA_API samba_value samba_rsqrt(samba_value a);
SAMBA_API samba_value samba_reciprocal(samba_value a);
SAMBA_API samba_value samba_tanh(samba_value a);
SAMBA_API samba_value samba_sigmoid(samba_value a);
SAMBA_API samba_value samba_relu(samba_value a);
SAMBA_API samba_value samba_erf(samba_value a);
SAMBA_API samba_value samba_gelu(samba_value a);      /* erf form, torch's default */
SAMBA_API samba_value samba_gelu_tanh(samba_value a); /* approximate='tanh' */
SAMBA_API samba_value samba_cast(samba_value a, samba_dtype dtype);

/* Reductions over the listed dims (count 0: all). */
SAMBA_API samba_value samba_sum(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_mean(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_amax(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_amin(samba_value a, int count, const int *dims, bool keepdim);
SAMBA_API samba_value samba_argmax(samba_value a, int dim, bool keepdim); /* int64; the first of equal ones; NaN is greatest */

SAMBA_API samba_value samba_reshape(samba_value a, int rank, const int64_t *shape);
SAMBA_API samba_value samba_permute(samba_value a, const int *dims);
SAMBA_API samba_value samba_transpose(samba_value a, int dim0, int dim1);
SAMBA_API samba_value samba_flatten(samba_value a, int start_dim, int end_dim);
SAMBA_API samba_value samba_expand(samba_value a, int rank, const int64_t *shape);
SAMBA_API samba_value samba_slice(samba_value a, int dim, int64_t start, int64_t stop, int64_t step);
SAMBA_API samba_value samba_concat(int count, const samba_value *values, int dim);
/* Chunks of split_size along dim, the last one smaller; `count` is the room in `values` and must be the number of chunks. */
SAMBA_API void samba_split(samba_value a, int64_t split_size, int dim, int count, samba_value *values);

SAMBA_API samba_value samba_matmul(samba_value a, samba_value b); /* every case of torch.matmul */
SAMBA_API samba_value samba_softmax(samba_value a, int dim);
SAMBA_API samba_value samba_log_softmax(samba_value a, int dim);

/* torch.nn.functional.scaled_dot_product_attention: softmax(q k^T * scale + mask) v for each head, in one kernel that stores no matrix
 * of scores. q (..., H, Tq, D), k (..., H, Tk, D), v (..., H, Tk, Dv) of one floating-point dtype, rank 2 (no heads) or more, the
 * leading dims equal; views of a joint projection are read in place. The result is (..., H, Tq, Dv), and lies in memory as (..., Tq, H,
 * Dv), so that what gives it back to a projection, samba_transpose and samba_reshape, costs nothing. A query that may see no key gives
 * 0. A mask that depends on a parameter is differentiated through a matrix of scores made for that. */
typedef struct samba_attention_options {
    samba_value mask;    /* broadcasts to (..., H, Tq, Tk); bool: true where a query may see a key; floating-point: added to the scores;
                            a zeroed value: none */
    bool is_causal;      /* query i sees keys 0 .. i, also where Tq and Tk differ; with a mask both must allow */
    bool enable_gqa;     /* k and v may have fewer heads, H / n: n heads of q in a row share one */
    double scale;        /* 0: 1 / sqrt(D) */
    const char *dropout; /* NULL: none. Else the weights are dropped out by hyperparameters "<dropout>.p" and "<dropout>.seed" */
    double dropout_p;    /* what "<dropout>.p" starts at */
} samba_attention_options;
static inline samba_attention_options samba_attention_defaults(void)
{
    samba_attention_options options = {{NULL, 0}, false, false, 0.0, NULL, 0.0};
    return options;
}
SAMBA_API samba_value samba_scaled_dot_product_attention(samba_value q, samba_value k, samba_value v,
                                                         const samba_attention_options *options /* may be NULL */);

typedef struct samba_pool2d_options { /* zero stride means the kernel's size; other zeros are PyTorch's defaults */
    int64_t stride[2], padding[2], dilation[2]; /* dilation: max_pool2d only */
    bool ceil_mode, no_count_include_pad;       /* the latter: avg_pool2d only */
} samba_pool2d_options;
SAMBA_API samba_value samba_max_pool2d(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options);
SAMBA_API samba_value samba_avg_pool2d(samba_value a, const int64_t kernel[2], const samba_pool2d_options *options);

typedef enum samba_reduction { SAMBA_MEAN = 0, SAMBA_SUM = 1, SAMBA_NO_REDUCTION = 2 } samba_reduction;
typedef struct samba_cross_entropy_options {
    int64_t ignore_index; /* torch's default is -100: start from samba_cross_entropy_defaults() */
    double label_smoothing;
    samba_reduction reduction;
} samba_cross_entropy_options;
static inline samba_cross_entropy_options samba_cross_entropy_defaults(void)
{
    samba_cross_entropy_options options = {-100, 0.0, SAMBA_MEAN};
    return options;
}
/* logits (N, C) or (N, C, d1 ...) or (C); integer class indices (N), (N, d1 ...) or (). */
SAMBA_API samba_value samba_cross_entropy(samba_value logits, samba_value label);
SAMBA_API samba_value samba_cross_entropy_with(samba_value logits, samba_value label, const samba_cross_entropy_options *options);

#ifdef __cplusplus
}
#endif
#endif
