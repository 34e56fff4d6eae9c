/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX models: read into a graph, to be compiled for running or for training; and graphs written as ONNX models.
 *
 * A model is opened once: the file is checked and its tensors are found, those in files beside it are mapped. Reading then builds
 * the graph by the functions that a C model calls, so shapes, dtypes and gradients are those of every other graph. docs/onnx.md
 * lists the operators.
 *
 *     samba_onnx_open(context, "model.onnx", &model);
 *     samba_graph_new(context, "model", &graph);
 *     samba_onnx_read(model, graph, &options);
 *     samba_compile(context, &(samba_compile_options){.graph = graph, ...}, ...);
 *     samba_onnx_weights(model, graph, &list);                    what the parameters start from
 *
 * A library built without ONNX (-Donnx=disabled) has these functions, which say so: UNSUPPORTED. */
#ifndef SAMBAFLOW_ONNX_H
#define SAMBAFLOW_ONNX_H

#include <sambaflow/data.h>
#include <sambaflow/graph.h>
#include <sambaflow/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_onnx samba_onnx;

/* Opens a file. Tensors that it keeps in other files ("external data") must lie in its folder or below it. Errors: FILE;
 * FORMAT, for what is no ONNX model or contradicts itself; MEMORY.
 *
 * Files of 1 MiB and more, and those beside them, are mapped: they may be replaced but not cut short while the model is open.
 * Large constants stay there: a graph that was built of a model, and what is compiled from it in memory, keep the model open,
 * whose context must not be freed before them. */
SAMBA_API samba_status samba_onnx_open(samba_context *context, const char *path, samba_onnx **model);
/* The same of bytes in memory, which are copied. `folder` is where external data lies; NULL: there may be none. */
SAMBA_API samba_status samba_onnx_open_memory(samba_context *context, const void *data, size_t size, const char *folder,
                                              samba_onnx **model);
SAMBA_API void samba_onnx_free(samba_onnx *model); /* NULL is allowed */

/* An input or output as the model declares it; inputs that are initializers do not count. Texts belong to the model. */
typedef struct samba_onnx_tensor_info {
    const char *name;
    samba_dtype dtype;   /* SAMBA_DTYPE_COUNT: one that SambaFlow has not, or no tensor */
    int rank;            /* -1: not said */
    int64_t shape[8];    /* -1: not a number */
    const char *dims[8]; /* the name of a size that is not a number; "" where it has none */
} samba_onnx_tensor_info;
SAMBA_API int samba_onnx_input_count(const samba_onnx *model);
SAMBA_API samba_status samba_onnx_input(const samba_onnx *model, int index, samba_onnx_tensor_info *info);
SAMBA_API int samba_onnx_output_count(const samba_onnx *model);
SAMBA_API samba_status samba_onnx_output(const samba_onnx *model, int index, samba_onnx_tensor_info *info);

typedef struct samba_onnx_dim { /* the size of a symbolic dim, "batch" */
    const char *name;
    int64_t size;
} samba_onnx_dim;

typedef enum samba_onnx_initializers {
    SAMBA_ONNX_PARAMETERS = 0, /* become what their role says, by name */
    SAMBA_ONNX_CONSTANTS = 1   /* all become a part of the graph, and so of the PEF */
} samba_onnx_initializers;

typedef struct samba_onnx_options {
    size_t struct_size;
    int dim_count;
    const samba_onnx_dim *dims;
    int input_count; /* examples: an input of that name has this dtype and shape */
    samba_tensor *const *inputs;
    /* Where an operator needs the value of an input to know a shape (Reshape's second input), that of the example becomes a part
     * of the graph; samba_onnx_built_in tells which. Else it is refused. */
    bool build_in;
    bool train; /* BatchNormalization and Dropout train in runs that train; else they are those of inference */
    samba_onnx_initializers initializers;
    int freeze_count; /* patterns with * and ?: parameters of these names become buffers, which nothing trains */
    const char *const *freeze;
    bool evaluate; /* instead of train: BatchNormalization and Dropout are those of inference in nodes that say training, too */
} samba_onnx_options;
SAMBA_API samba_onnx_options samba_onnx_defaults(void); /* the defaults, with struct_size set; begin with them */

/* What the model stores: initializers of its graph, in its order. */
typedef enum samba_onnx_role {
    SAMBA_ONNX_CONSTANT = 0,  /* integers, single numbers, what an operator takes as an argument */
    SAMBA_ONNX_PARAMETER = 1, /* what can be trained */
    SAMBA_ONNX_BUFFER = 2     /* running statistics, which BatchNormalization changes; scales of quantized tensors */
} samba_onnx_role;
typedef struct samba_onnx_initializer_info {
    const char *name; /* belongs to the model */
    samba_onnx_role role;
    samba_dtype dtype; /* SAMBA_DTYPE_COUNT: one that SambaFlow has not */
    int rank;
    int64_t shape[8];
} samba_onnx_initializer_info;
SAMBA_API int samba_onnx_initializer_count(const samba_onnx *model);
SAMBA_API samba_status samba_onnx_initializer(const samba_onnx *model, int index, samba_onnx_initializer_info *info);
/* Its value: a tensor over the model's memory, which it keeps; freed by the caller. */
SAMBA_API samba_status samba_onnx_initializer_value(samba_onnx *model, int index, samba_tensor **tensor);

/* Builds the model in a graph that has no values yet. Its inputs and outputs have the model's names. Errors: UNSUPPORTED, with
 * each node that cannot be read, its operator, version and reason; NAME, for a symbolic dim without a size or
 * an option that names nothing; FORMAT; those of the functions that build graphs. `options` may be NULL. */
SAMBA_API samba_status samba_onnx_read(samba_onnx *model, samba_graph *graph, const samba_onnx_options *options);

/* The model as a function of values of a graph that may have others: `outputs` gets as many as the model has. */
typedef struct samba_onnx_binding {
    const char *name;  /* of an input or an initializer */
    samba_value value; /* what it is */
} samba_onnx_binding;
SAMBA_API samba_status samba_onnx_apply(samba_onnx *model, samba_graph *graph, const samba_onnx_options *options, int count,
                                        const samba_onnx_binding *bindings, samba_value *outputs);

/* Whether the last samba_onnx_read or samba_onnx_apply has built the example's value of this input into the graph. */
SAMBA_API bool samba_onnx_built_in(const samba_onnx *model, int index);

/* The values of the initializers that the last samba_onnx_read made parameters and buffers, by name: what
 * samba_session_load_weights reads from a file. The tensors lie in the model's memory and keep it. STATE before a read. */
SAMBA_API samba_status samba_onnx_weights(samba_onnx *model, samba_tensor_list *list);

/* ---- writing ---- */

typedef struct samba_onnx_write_options {
    size_t struct_size;
    int opset; /* 0: 18; 17 to 23 */
    int weight_count;
    samba_tensor *const *weights; /* values of parameters and buffers, by name, in C order; others are ignored */
    int64_t inside_bytes; /* tensors of more bytes together lie in a file beside the model; 0: 2^31 - 2^20, as many as fit */
} samba_onnx_write_options;
SAMBA_API samba_onnx_write_options samba_onnx_write_defaults(void); /* the defaults, with struct_size set; begin with them */

/* Writes the forward pass of a graph, as a run computes it that does not train, with its weights: a model that ONNX Runtime and
 * others load. Inputs, parameters, buffers, outputs and losses keep their names; nodes are named after the modules that they come
 * from. Dropout is gone, `training` is 0 and every other hyperparameter its default; what the graph assigns to buffers, gradients
 * and optimizers is left out. Values are the graph's to rounding; what computes in 16-bit floats does so in float32, rounded
 * where the graph rounds. The same graph and weights give the same bytes. A large model has a second file, PATH.data, beside the
 * first; both are written to the end before either takes the place of an old one.
 *
 * Errors: UNSUPPORTED, with all operators that ONNX of this version has not, each with the reason and a place where it stands;
 * NAME, for parameters and buffers without a value; DTYPE and SHAPE, for values that are not the graph's; STATE, for a graph
 * without an output; ARGUMENT; FILE; MEMORY. `options` may be NULL. */
SAMBA_API samba_status samba_onnx_write(samba_context *context, const samba_graph *graph, const samba_onnx_write_options *options,
                                        const char *path);

/* The graph that a session's PEF carries, with the parameters and buffers that the session has now. `graph_name`: which of
 * several; NULL: the only one. `opset` as above; 0: 18. `context` is where the graph is made: the session's. Errors: those of
 * samba_onnx_write; NAME and ARGUMENT for the graph; STATE, for weights that the session was not given. */
SAMBA_API samba_status samba_onnx_write_session(samba_context *context, samba_session *session, const char *graph_name, int opset,
                                                const char *path);

#ifdef __cplusplus
}
#endif
#endif
