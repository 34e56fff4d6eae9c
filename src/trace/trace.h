/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers that the files of trace share. A public function checks its values once with samba_trace_enter, works on refs of one
 * graph, and wraps the result. An error sticks to the graph under the function's name; a value that already failed passes without
 * another message. */
#ifndef SAMBA_TRACE_H
#define SAMBA_TRACE_H

#include "graph/graph.h"

#include <sambaflow/adapter.h>

/* True when all values are of one graph without an error; the graph then is *graph. Otherwise the error stands in it, and the
 * result of the function is samba_trace_value(*graph, SAMBA_NONE). */
bool samba_trace_enter(const char *what, int count, const samba_value *values, samba_graph **graph);
static inline samba_value samba_trace_value(samba_graph *graph, samba_ref ref) { return (samba_value){graph, ref, 0}; }
/* The value that a function returns after an error. */
static inline samba_value samba_trace_none(samba_graph *graph) { return samba_trace_value(graph, SAMBA_NONE); }
/* samba_graph_fail_at, with what a function returns after it. */
#define samba_trace_fail(graph, ...) samba_trace_value(graph, samba_graph_fail_at(graph, __VA_ARGS__))
/* Enters with as many of at most 8 values as are there: a zeroed one was left out, but the first may not be. */
bool samba_trace_enter_optional(const char *what, int count, const samba_value *values, samba_graph **graph);
/* The result of a function that was given NULL for its second result. */
static inline samba_value samba_trace_no_result(const char *what, samba_value a, const char *place)
{
    if (a.graph)
        samba_graph_fail_at(a.graph, SAMBA_ERROR_ARGUMENT, what, "there is no place for %s: NULL was given", place);
    return samba_trace_none(a.graph);
}
/* A copy: emitting moves nodes. */
static inline samba_node samba_trace_node(samba_value value) { return *samba_node_at(value.graph, value.index); }

/* A function that is composed of others speaks for them: until the block's end, messages name `what`, the outermost one. */
typedef struct samba_speaker {
    samba_graph *graph;
    const char *before;
} samba_speaker;
static inline samba_speaker samba_trace_speak(samba_graph *graph, const char *what)
{
    samba_speaker speaker = {graph, graph->speaker};
    graph->speaker = speaker.before ? speaker.before : what;
    return speaker;
}
static inline void samba_trace_fall_silent(samba_speaker *speaker) { speaker->graph->speaker = speaker->before; }
#define SAMBA_SPEAKS(graph, what)                                                                                                \
    samba_speaker samba_speaks_ __attribute__((cleanup(samba_trace_fall_silent), unused)) = samba_trace_speak(graph, what)

/* A dim counted from the end when negative, as 0 .. rank-1; a value of rank 0 takes 0 and -1, as PyTorch's. */
bool samba_trace_dim(samba_graph *graph, const char *what, int rank, int dim, int *result);
/* "float32(2, 3)" */
#define SAMBA_TYPE_TEXT (SAMBA_SHAPE_TEXT + 16)
char *samba_trace_format(const samba_node *node, char buffer[SAMBA_TYPE_TEXT]);
#define SAMBA_TYPE_OF(node) samba_trace_format(node, (char[SAMBA_TYPE_TEXT]){0}) /* until the block's end */
/* A literal of these elements, as many as the shape, which is known to be right, says; they are copied. */
samba_value samba_trace_literal(samba_graph *graph, samba_dtype dtype, int rank, const int64_t *shape, const void *data);
/* A shape of 0 to SAMBA_MAX_RANK sizes; else the error sticks. */
bool samba_trace_check_shape(samba_graph *graph, const char *what, int rank, const int64_t *shape);
/* "expected <expected>, given an input ... and a weight ..." */
samba_value samba_trace_fail_shape(samba_graph *graph, const char *what, const char *expected, const samba_node *input,
                                   const samba_node *weight);
bool samba_trace_need_floating(samba_value value, const char *what);

/* Checks a layer's input, as `what`, and opens the scope of its name, so that names and messages are the layer's; what it returns
 * with samba_scope_pop. */
bool samba_trace_enter_layer(const char *what, const samba_value *input, const char *name, bool floating, samba_graph **graph);
/* The name inside the current scope, interned; 0 after an error. */
uint32_t samba_trace_scoped(samba_graph *graph, const char *what, const char *name);
/* A rank-0 float64: how many replicas train together in a run, 1 in one that does not train. */
samba_value samba_trace_replica_count(samba_graph *graph);
/* A hyperparameter by its scoped name. role: 1 dropout rate, 2 dropout seed, 3 training. */
samba_ref samba_trace_argin(samba_graph *graph, const char *name, samba_dtype dtype, double value, int64_t role);
/* Rate "<name>.p", which starts at p, and "<name>.seed" of one use of dropout. A second use of the name shares both
 * hyperparameters but not the mask: each draws its own. False after an error. (layers.c) */
bool samba_trace_dropout(samba_graph *graph, const char *what, const char *name, double p, samba_ref *rate, samba_ref *seed);

/* ---- adapter.c: what regions of tracing say of parameters and linear layers ---- */
typedef struct samba_patterns { /* with * and ? */
    int count;
    const char **at;
    bool *hit; /* it has matched a name */
} samba_patterns;
typedef struct samba_freezing {
    struct samba_freezing *outer;
    bool as_kept;
    samba_base base;
    samba_patterns names, excepts;
} samba_freezing;
typedef struct samba_adapting {
    struct samba_adapting *outer;
    int64_t rank;
    double factor, dropout;
    bool dora;
    samba_patterns targets, excludes;
} samba_adapting;
/* Whether a parameter of this whole name is frozen, and how it lies in memory then. */
bool samba_trace_is_frozen(samba_graph *graph, const char *name, samba_base *base);
/* base.c: a linear layer's parameter "weight", made in its scope: (out, in), however it lies; `turned`: as (in, out). */
typedef struct samba_linear_weight {
    samba_value wide; /* (out, in), of the layer's dtype */
    samba_value kept,
        scales; /* what samba_stored_linear reads instead; zeroed: the region says nothing of it; it has no scales */
    bool transposed;
} samba_linear_weight;
samba_linear_weight samba_trace_linear_weight(samba_graph *graph, samba_dtype dtype, int64_t out, int64_t in, bool turned,
                                              samba_initializer initializer);
/* A linear layer's result with what the region adds to it; called in the layer's scope. bias: zeroed: none. */
samba_value samba_trace_adapt(samba_value input, samba_value result, samba_value weight, samba_value bias);

/* The root of what is at least 0, with gradient 0 where it is 0. statistics.c */
samba_ref samba_trace_root(samba_graph *graph, samba_ref a);

#endif
