/* SPDX-License-Identifier: Apache-2.0
 *
 * A model is a C function over values. A value is a small struct passed by value; it knows its graph. The first
 * error sticks to the graph, later calls pass it on, and samba_compile reports it, so model code checks nothing.
 *
 * C does not say which of two arguments, or of two elements in braces, is computed first. Where both make values of a graph,
 * as in samba_add(samba_linear(x, "a", 8), samba_linear(x, "b", 8)), two compilers number them differently, and their PEFs
 * differ. Give one a name in a statement before.
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
    uint32_t number; /* not 0: a number, as samba_number makes it */
} samba_value;

/* A model: builds its values in `graph`. `options` is what the caller gave to compile. */
typedef void (*samba_model)(samba_graph *graph, const void *options);

/* ---- graph ---------------------------------------------------------------------------------------------- */
/* An empty graph, to be freed. */
SAMBA_API samba_status samba_graph_new(samba_context *context, const char *name, samba_graph **graph);
SAMBA_API void samba_graph_free(samba_graph *graph); /* with all its values; NULL is allowed */
/* The sticky status; its message is the context's. */
SAMBA_API samba_status samba_graph_status(const samba_graph *graph);
/* Declares an input before the model runs: name, dtype and shape are what counts, not values. */
SAMBA_API samba_status samba_graph_add_input(samba_graph *graph, const samba_tensor *example);
/* A new graph of what the outputs, losses and assignments need, as samba_compile takes it; the given one stays. */
SAMBA_API samba_status samba_graph_copy(const samba_graph *graph, samba_graph **copy);
/* Text form, which samba_graph_parse reads back to an equal graph. Freed with samba_text_free. docs/graph.md */
SAMBA_API samba_status samba_graph_print(const samba_graph *graph, char **text);
SAMBA_API samba_status samba_graph_parse(samba_context *context, const char *text, samba_graph **graph);
/* The same of a text that refers to bytes beside it, as that of a PEF does to large literals:
 * samba_session_literal has those. */
SAMBA_API samba_status samba_graph_parse_beside(samba_context *context, const char *text, int64_t literal_count,
                                                const samba_literal *literals, samba_graph **graph);
SAMBA_API void samba_text_free(samba_context *context, char *text);
/* Whether `model` computes what `compiled` does, both as samba_graph_copy leaves them: STATE names the first operator or output
 * that differs and where it comes from in both. Modules' paths and lines may differ, the graphs' names, and the order in which
 * operators were called. A loss of one may be an output of the other where backward starts from the same ones. */
SAMBA_API samba_status samba_graph_compare(const samba_graph *compiled, const samba_graph *model);

/* The values from which the gradients of outputs and losses start when the graph is compiled for training, in the order they
 * were named: 1, 0, or NaN for one that has no gradient of its own. `count` is their number. Errors: those of compiling, where
 * there is nothing to differentiate. */
SAMBA_API samba_status samba_graph_starts(const samba_graph *graph, int count, double *starts);

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
    /* "encoder.layers.0", "model.py:42", the name of samba_op_fusion_push; "" where not known */
    const char *module, *source, *fusion;
} samba_node_info;
SAMBA_API int64_t samba_graph_node_count(const samba_graph *graph);
SAMBA_API samba_status samba_graph_node(const samba_graph *graph, int64_t index, samba_node_info *info);

/* A parameter or a buffer (torch's named_parameters and named_buffers). Both are numbered together, in the order in which they
 * were made. */
typedef struct samba_parameter_info {
    const char *name; /* as in a state_dict; belongs to the graph */
    bool buffer;      /* of samba_register_buffer: no gradient reaches it */
    samba_dtype dtype;
    int rank;
    int64_t shape[8];
} samba_parameter_info;
SAMBA_API int64_t samba_graph_parameter_count(const samba_graph *graph);
SAMBA_API samba_status samba_graph_parameter(const samba_graph *graph, int64_t index, samba_parameter_info *info);

/* ---- leaves and outputs ------------------------------------------------------------------------------------ */
SAMBA_API samba_value samba_input(samba_graph *graph, const char *name); /* declared with samba_graph_add_input */
/* torch.full: one value. */
SAMBA_API samba_value samba_constant(samba_graph *graph, double value, samba_dtype dtype, int rank, const int64_t *shape);
/* The tensor's values, which become part of the graph and of the PEF. */
SAMBA_API samba_value samba_constant_tensor(samba_graph *graph, const samba_tensor *tensor);
/* The same of values in C order at `data`, however that is aligned, without a copy: they must stay as they are until `release`
 * (NULL: nobody asks) is called with `owner`, once and when nobody needs them any more: the graph, its copies, what was compiled
 * from it in memory. At once after an error. */
SAMBA_API samba_value samba_constant_memory(samba_graph *graph, samba_dtype dtype, int rank, const int64_t *shape,
                                            const void *data, void (*release)(void *owner), void *owner);
SAMBA_API samba_value samba_arange(samba_graph *graph, int64_t end, samba_dtype dtype); /* 0 .. end-1, rank 1 */
/* Values a caller may ask run for. A loss is an output that gradients start from, with ones. A graph with no loss has gradients
 * start from every floating-point output: with zeros where another output is computed from it and gives it a gradient, so that of
 * a loss and logits the loss alone counts, else with ones.
 * "<output>.grad" (samba_session_set, run's output gradients) says otherwise. */
SAMBA_API void samba_output(samba_graph *graph, const char *name, samba_value value);
SAMBA_API void samba_loss(samba_graph *graph, const char *name, samba_value value);
SAMBA_API int samba_value_rank(samba_value value);
SAMBA_API int64_t samba_value_size(samba_value value, int dim); /* negative dims count from the end; 0 after an error */
SAMBA_API samba_dtype samba_value_dtype(samba_value value);
/* A dim that may be counted from the end, as 0 .. rank-1; else -1, and the graph has the error, in the name of `what`.
 * Of rank 0, -1 and 0 are 0. */
SAMBA_API int samba_value_dim(samba_value value, const char *what, int dim);

/* Names made between push and pop begin with "name." A model that ends inside a scope is refused when compiled (STATE). */
SAMBA_API void samba_scope_push(samba_graph *graph, const char *name);
SAMBA_API void samba_scope_pop(samba_graph *graph);

/* The location in the user's model of all that is traced from here on. Errors, the graph's text, the PEF and `sambaflow inspect`
 * show it; gradients have the location of the operator they belong to. Neither what a graph computes nor its hash depends on it.
 *
 * A module's path, as torch's named_modules has it ("encoder.layers.0"), instead of the scope; no name begins with it. "" or
 * NULL: the scope again. samba_scope_push, and so a layer, sets the path to the scope; samba_scope_pop sets it back. */
SAMBA_API void samba_set_module(samba_graph *graph, const char *path);
/* A line of a program, kept as "model.py:42", without folders. NULL: none. */
SAMBA_API void samba_set_source(samba_graph *graph, const char *file, int line);
#define SAMBA_HERE(graph) samba_set_source(graph, __FILE__, __LINE__)

/* A hint: operators traced between push and pop stay in one section of each type (their gradients in one of BCKWD, and so on),
 * whatever the device's memory would allow otherwise. Regions nest; the outermost holds all. Regions of one name are one. */
SAMBA_API void samba_op_fusion_push(samba_graph *graph, const char *name);
SAMBA_API void samba_op_fusion_pop(samba_graph *graph);

/* For mixed precision: operators traced between push and pop are computed as they are written (enabled false), or as mixed
 * precision computes them again (true). Regions nest, at most 64 deep. Without mixed precision they change nothing. */
SAMBA_API void samba_graphamp_push(samba_graph *graph, bool enabled);
SAMBA_API void samba_graphamp_pop(samba_graph *graph);

typedef enum samba_initializer_kind {
    SAMBA_INIT_ZEROS = 0,
    SAMBA_INIT_CONSTANT = 1,       /* a */
    SAMBA_INIT_UNIFORM = 2,        /* [a, b) */
    SAMBA_INIT_NORMAL = 3,         /* mean a, standard deviation b */
    SAMBA_INIT_NORMAL_BUT_ROW = 4, /* of rank 2: mean 0, standard deviation b, and zeros in row a: an embedding with padding */
    SAMBA_INIT_NONE = 5            /* the model's values, which a session is given before it runs: samba_session_load or _set */
} samba_initializer_kind;
typedef struct samba_initializer {
    samba_initializer_kind kind;
    double a, b;
} samba_initializer;
/* A trainable parameter, made the first time its (scoped) name is used, by this or by a layer; the second use must agree in dtype
 * and shape. So a parameter made before the layer that uses it starts as said here, and may be used elsewhere too. */
SAMBA_API samba_value samba_parameter(samba_graph *graph, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                                      samba_initializer initializer);

/* A named tensor that no gradient reaches (torch.nn.Module.register_buffer): any dtype;
 * an optimizer leaves it alone, checkpoints have it. */
SAMBA_API samba_value samba_register_buffer(samba_graph *graph, const char *name, samba_dtype dtype, int rank,
                                            const int64_t *shape, samba_initializer initializer);
/* A value that is 1 in a run that trains (samba_run_options.train), and 0 in any other run and in a graph that is compiled for
 * inference: samba_where chooses by it what torch chooses by train() and eval(). It is the hyperparameter "training", rank-0
 * float64; one a graph. */
SAMBA_API samba_value samba_training(samba_graph *graph);
/* Sets the value that a buffer has after FWD, of its dtype and shape; once a buffer. Values of this run still read its old
 * value. An input may be assigned too: its device memory keeps the value for runs that are not given that input. */
SAMBA_API void samba_assign(samba_value buffer, samba_value value);

#ifdef __cplusplus
}
#endif
#endif
