/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as a function of host tensors: compiled in memory by the compiler that makes PEFs, and run at once. This is eager
 * execution: of one operator, or of all that was traced into the graph. Gradients are functions too: samba_graph_gradient gives
 * their graph.
 *
 *     samba_graph_new(context, "product", &graph);
 *     samba_graph_add_input(graph, a);                    named "a"
 *     samba_graph_add_input(graph, b);
 *     samba_output(graph, "c", samba_matmul(samba_input(graph, "a"), samba_input(graph, "b")));
 *     samba_function_new(context, graph, NULL, &function);
 *     samba_function_run(function, (samba_tensor *[]){a, b}, (samba_tensor *[]){c});
 *
 * A function has inputs and outputs and remembers nothing: a parameter or buffer becomes an input. Everything is planned when it
 * is made: a run of small tensors allocates nothing. One thread uses a function at a time; another one that comes
 * meanwhile is told so (STATE). */
#ifndef SAMBAFLOW_FUNCTION_H
#define SAMBAFLOW_FUNCTION_H

#include <sambaflow/graph.h>
#include <sambaflow/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_function samba_function;

typedef struct samba_function_options {
    size_t struct_size;
    int threads;     /* 0: as many as OpenMP offers; what one does in some 20 microseconds, one does */
    const char *isa; /* `sambaflow machine` lists them; NULL: that of the environment's SAMBAFLOW_ISA, else the best */
    bool train;      /* false: dropout does nothing, and there are no hyperparameters */
    uint64_t seed;   /* of dropout whose seed is not set: each run has another one */
    /* true: no compiling; each run evaluates the graph operator by operator with the plain kernels that say what operators mean,
     * in double. Everything else is tested against it; slow, one thread, and a run allocates. */
    bool reference;
    /* true: each operator is a stage of its own, to find out whether a difference comes from fusing them; slower */
    bool unfused;
} samba_function_options;
SAMBA_API samba_function_options samba_function_defaults(void); /* the defaults, with struct_size set; begin with them */

/* Compiles the graph, which stays the caller's and may be freed. ARGUMENT: it has a parameter, a buffer or an assignment, or no
 * output; else as samba_compile and samba_session_new. `options` may be NULL. */
SAMBA_API samba_status samba_function_new(samba_context *context, const samba_graph *graph, const samba_function_options *options,
                                          samba_function **function);
SAMBA_API void samba_function_free(samba_function *function); /* NULL is allowed */

/* Inputs in the order they were declared, outputs and losses in the order they were named. */
SAMBA_API int samba_function_input_count(const samba_function *function);
SAMBA_API int samba_function_output_count(const samba_function *function);
SAMBA_API samba_status samba_function_input(const samba_function *function, int index, samba_tensor_info *info);
SAMBA_API samba_status samba_function_output(const samba_function *function, int index, samba_tensor_info *info);

/* As many tensors of each as there are, in order; names do not matter, dtypes and shapes must be equal. Any view may be given; an
 * output may not be expanded, and may be the memory of an input. Large tensors that are C-contiguous at multiples of 64 bytes are
 * used where they lie. A run that is refused changes nothing; an index out of range that the graph computes itself may leave
 * outputs of any value. Errors: ARGUMENT, SHAPE, DTYPE, MEMORY. */
SAMBA_API samba_status samba_function_run(samba_function *function, samba_tensor *const *inputs, samba_tensor *const *outputs);
/* The same over C-contiguous memory of the right dtypes and sizes, which nobody can check. */
SAMBA_API samba_status samba_function_run_memory(samba_function *function, void *const *inputs, void *const *outputs);

/* A dropout's rate "<name>.p" or seed "<name>.seed", until set again; NAME lists what there is. */
SAMBA_API samba_status samba_function_set(samba_function *function, const samba_hyperparameter *hyperparameter);
/* Bytes of memory that the function has. */
SAMBA_API samba_status samba_function_memory(const samba_function *function, samba_memory_info *memory);

/* The graph of gradients: its outputs are "<input>.grad" of the `count` named inputs of `graph`, in that order (zeros where no
 * output depends on one); its inputs are those of `graph` that the gradients are computed from, in order, and behind them as many
 * of "<output>.grad", the gradients of the floating-point outputs (torch.autograd.grad's grad_outputs). The gradients of a
 * gradient are the second derivatives. Errors:
 * NAME, DTYPE (an input that is not floating-point), ARGUMENT, UNSUPPORTED for an operator that has no gradient. */
SAMBA_API samba_status samba_graph_gradient(const samba_graph *graph, int count, const char *const *inputs,
                                            samba_graph **gradient);
/* Whether the graph has an input of that name. */
SAMBA_API bool samba_graph_has_input(const samba_graph *graph, const char *name);

#ifdef __cplusplus
}
#endif
#endif
