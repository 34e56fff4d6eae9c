/* SPDX-License-Identifier: Apache-2.0
 *
 * Several graphs in one PEF, compiled in the order they are added: each with inputs, outputs and optimizers of its own, run by
 * its name (samba_run_options.graph_name). A name means one thing in all graphs: a parameter, buffer, input, output or
 * hyperparameter. So a model that is trained by one graph answers by another, and a cache in a buffer (samba_register_buffer) is
 * filled by one and read by the next. What is spelled otherwise is another tensor, and a layer whose name has a slip in one graph
 * a parameter of its own, which nothing trains: one function of the program traces what graphs share, and compiling warns of
 * names that are almost alike (samba_context_warning, which samba_session_warning gives too). Memory is planned for all of them
 * together: what they share once, and for intermediates as much as the greediest needs. */
#ifndef SAMBAFLOW_MULTIGRAPH_H
#define SAMBAFLOW_MULTIGRAPH_H

#include <sambaflow/compile.h>
#include <sambaflow/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_multigraph samba_multigraph;

/* Without graphs; to be freed. */
SAMBA_API samba_status samba_multigraph_new(samba_context *context, samba_multigraph **multigraph);
SAMBA_API void samba_multigraph_free(samba_multigraph *multigraph); /* NULL is allowed */

/* Traces and compiles a graph, as samba_compile would, and adds it behind the others under options->name; nothing of the options
 * is needed later, and output_folder and pef_name do not count. NAME if there is a graph of that name, unless `overwrite`, which
 * takes the old one out. An optimizer that has a name is the same in all graphs that name it, its hyperparameters and its count
 * of steps. One without a name is that of an earlier graph which trains the same parameter and is alike in kind, flags and
 * numbers, else it is called "<graph>.optim0" ... A memory_budget is that of the graph by itself.
 * On an error the graphs are as they were. */
SAMBA_API samba_status samba_multigraph_add(samba_multigraph *multigraph, const samba_compile_options *options, bool overwrite);

/* The same of one size of a function, options->name: the graph is "<name>@<size>", `size` a word without '@'. Where its inputs,
 * outputs and their gradients have shapes that differ from those of a size before it, they are "x@<size>" on the device, and "x"
 * in runs of the function, which go by the inputs' shapes. Inputs and outputs of all sizes lie in the same memory, so the plan is
 * that of the largest. Optimizers without a name are "<name>.optim0" ..., those of all sizes. Everything else is as between any
 * two graphs: what is shared by name has one dtype and shape. */
SAMBA_API samba_status samba_multigraph_add_size(samba_multigraph *multigraph, const samba_compile_options *options,
                                                 const char *size);

/* The oldest warning not yet taken ("" when none), valid as long as its graph: two graphs train a parameter by optimizers that do
 * not share their hyperparameters and count of steps. */
SAMBA_API const char *samba_multigraph_warning(samba_multigraph *multigraph);

SAMBA_API int samba_multigraph_count(const samba_multigraph *multigraph); /* how many graphs it has */
/* Name of a graph, in their order; NULL where there is none. */
SAMBA_API const char *samba_multigraph_name(const samba_multigraph *multigraph, int index);

/* Writes <output_folder>/<name>/<name>.pef and its log, as samba_compile does. output_folder NULL: "out". NAME where graphs have
 * something of one name that differs in kind, dtype, shape or start value.
 * More graphs may be added afterwards, and compiled anew. */
SAMBA_API samba_status samba_multigraph_compile(samba_multigraph *multigraph, const char *name, const char *output_folder,
                                                char *path, size_t path_size);

/* Compiles as samba_multigraph_compile does and makes a session of it, without a file. options NULL: samba_session_defaults();
 * its `tune` is the path of a file, or nothing. The multigraph must outlive the session and stay as it is. */
SAMBA_API samba_status samba_multigraph_session(samba_multigraph *multigraph, const char *name,
                                                const samba_session_options *options, samba_session **session);

#ifdef __cplusplus
}
#endif
#endif
