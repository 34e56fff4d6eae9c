/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of operators. samba_ops is ops.def as a table; each column's function type stands here. A family file
 * (map.c, conv.c ...) holds infer, vjp, ref, flops and expand of its operators together.
 *
 * Semantics beyond PyTorch's function of the same name:
 *   random(seed)        float32 uniform in [0, 1), attrs.shape; element i is lane i%4 of Philox4x32-10(key = seed int64,
 *                       counter = i/4), its top 24 bits times 2^-24 (tensor/philox.h)
 *   argin               rank 0, float64 or int64; role 0: hyperparameter, 1: dropout rate, 2: dropout seed,
 *                       3: training, 1 while a run trains, else 0, 4: the number of replicas that train together
 *   literal             attrs.data: the values' bytes, little endian, in C order
 *   state               attrs.kind is a samba_tensor_kind (BUFFER, GRADIENT)
 *   matmul, conv2d, ... of 16-bit floats give float32: the sum, not rounded
 *   conv2d(x, w)        NCHW, no bias; attrs.shape unused. conv2d_input_grad(w, dy): attrs.shape = x's shape.
 *                       conv2d_weight_grad(x, dy): attrs.shape = w's shape
 *   max_pool2d_grad(x, dy), avg_pool2d_grad(dy): attrs.shape = x's shape. The first greatest element of a window gets its
 *                       gradient
 *   embedding(weight, index): index int64 or int32 of any shape. gather(x, index), scatter(x, index, source): see index.c
 *   attention(q, k, v[, mask][, p, seed]): q (B,H,Tq,D), k (B,Hkv,Tk,D), v (B,Hkv,Tk,Dv), Hkv divides H -> (B,Tq,H,Dv).
 *                       attrs.masked and attrs.dropout say which of the others are there: a mask, bool (true: may see) or of q's
 *                       dtype (added), that broadcasts to (B,H,Tq,Tk); rate and seed as dropout's, over the weights
 *                       (B,H,Tq,Tk). attrs.causal: query i sees keys j <= i. A query that sees nothing gives 0
 *   attention_lse(as attention) -> (B,H,Tq), float64 for float64, else float32: log of the sum of exponentials of a query's
 *                       scores
 *   attention_grad(attention's inputs, its result, its lse, dout): all gradients in one. Where Tq = Tk and D = Dv: as
 *                       (B,T,H+2*Hkv,D), heads of dq, dk, dv side by side, as the gradient of a joint projection lies. Else: of
 *                       rank 1, dq (B,Tq,H,D), dk (B,Tk,Hkv,D), dv (B,Tk,Hkv,Dv) in a row
 *   stored_linear(x, weights), (x, weights, scales): a linear layer over weights as they are kept: see stored.c
 *   cache_attention(q, k, v, start): attention of new tokens over a cache of attrs.slots slots: see cache.c
 *   layer_norm(x, weight, bias), rms_norm(x, weight): over the last attrs.dims dims
 *   batch_norm(x, weight, bias, running_mean, running_var, training): x (N, C, ...), the others (C) but training, rank-0
 *                       float64: 0: by the running statistics; else by those of the batch. sync_batch_norm: by those of the
 *                       batches of all replicas, in runs that train
 *   replica_mean(a)     the mean over all replicas that train together, in runs that train; else a
 *   sync_batch_moments(x): x (N, C, ...) -> (2, C): mean and variance over n of each channel, of all replicas' batches
 *   group_norm(x, weight, bias): attrs.groups of channels
 *   dropout(x, p, seed): x * (random(seed) >= p) / (1 - p); p rank-0 float64, seed rank-0 int64
 *   variable(a)         a, as a node of its own: attrs.number tells it from others of the same a; see reverse.c
 *   custom_gradient(value, grad_output(value), x1, g1, x2, g2 ...): value, whose gradients the gs are: see custom.c
 *   where(cond bool, a, b); compare -> bool; relu(NaN) = NaN; maximum/minimum/amax/amin propagate NaN
 *   slice               start, stop, step for every dim, 0 <= start <= stop <= size
 *   pad                 before/after >= 0, interior zeros between elements */
#ifndef SAMBA_OPS_H
#define SAMBA_OPS_H

#include "graph/graph.h"
#include "tensor/philox.h"

typedef enum samba_op_class {
    SAMBA_LEAF,
    SAMBA_MAP,
    SAMBA_REDUCE_CLASS,
    SAMBA_VIEW,
    SAMBA_MOVE,
    SAMBA_CONTRACT,
    SAMBA_KERNEL,
    SAMBA_COMPOSITE
} samba_op_class;

typedef struct samba_infer { /* in: what is asked; out: dtype, rank, shape */
    samba_graph *graph;      /* for messages: samba_infer_fail */
    samba_op op;
    int arity;
    const samba_node *const *inputs;
    const samba_attrs *attrs;
    samba_dtype dtype;
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
} samba_infer;
typedef samba_status samba_infer_fn(samba_infer *infer);
/* "conv2d: <message>" as the context's error. */
samba_status samba_infer_fail(const samba_infer *infer, samba_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct samba_vjp {
    samba_graph *graph; /* where to emit; phase is already BCKWD */
    /* the forward node: valid until the first emit only, so copy what you need (attrs pointers stay valid) */
    const samba_node *node;
    const samba_ref *inputs;    /* the forward inputs */
    samba_ref output;           /* the forward result */
    samba_ref gradient;         /* of the result: same dtype and shape */
    const bool *needed;         /* per input: is its gradient wanted */
    samba_ref *input_gradients; /* out; SAMBA_NONE (preset) means zero. Same dtype and shape as the input */
} samba_vjp;
/* fails only for operators without a gradient of their gradient; emit errors stick */
typedef samba_status samba_vjp_fn(samba_vjp *vjp);

typedef struct samba_array { /* a contiguous tensor for reference kernels */
    samba_dtype dtype;
    int rank;
    int64_t shape[SAMBA_MAX_RANK], numel;
    void *data;
} samba_array;
typedef struct samba_reference {
    samba_context *context;
    const samba_graph *graph; /* whose names attrs may mean */
    const samba_attrs *attrs;
    int arity;
    const samba_array *inputs;
    samba_array *output; /* dtype, shape and memory are set; the kernel fills the values */
} samba_reference;
typedef samba_status samba_reference_fn(const samba_reference *reference); /* fails for no memory or an index out of range */

typedef int64_t samba_flops_fn(const samba_node *node, const samba_node *const *inputs);
/* node: copy before emitting */
typedef samba_ref samba_expand_fn(samba_graph *graph, const samba_node *node, const samba_ref *inputs);

typedef enum samba_amp { SAMBA_AMP_low, SAMBA_AMP_fp32, SAMBA_AMP_any } samba_amp; /* enumerators by their cells */
typedef enum samba_conv_role {
    SAMBA_CONV_none,
    SAMBA_CONV_forward,
    SAMBA_CONV_input_grad,
    SAMBA_CONV_weight_grad
} samba_conv_role;

typedef struct samba_index_range {
    int64_t low, high; /* low <= index < high */
    bool has_ignore;   /* or index == ignore */
    int64_t ignore;
    bool trusted; /* no kernel looks at the indices: all of an input that they come from must be in range, used or not */
} samba_index_range;
typedef samba_index_range samba_range_fn(const samba_node *node, const samba_node *source); /* source: the first input */

typedef struct samba_op_facts {
    const char *name;
    int arity;
    samba_attrs_kind attrs;
    samba_op_class class_;
    samba_infer_fn *infer;
    samba_vjp_fn *vjp;
    samba_reference_fn *reference;
    samba_flops_fn *flops;
    samba_expand_fn *expand;
    samba_amp amp;
    /* traits */
    bool tensor, inline_, position, exact;
    samba_conv_role conv;
    samba_op combine, twin; /* SAMBA_OP_input, which is neither of any: none */
    samba_range_fn *range;  /* NULL: none */
} samba_op_facts;
extern const samba_op_facts samba_ops[SAMBA_OP_COUNT]; /* ops/table.c */

/* A reduction whose results over parts of the elements can be combined (COMBINE of ops.def). */
static inline bool samba_is_combined(const samba_node *node) { return samba_ops[node->op].combine != SAMBA_OP_input; }

/* A reduction whose result of integers and bools is int64. */
bool samba_widens_integers(samba_op op);

/* Hash of every row's tokens: two libraries with different operator tables refuse each other's graphs. */
uint64_t samba_ops_signature(void);

/* ---- ops/reverse.c: gradients inside a graph ---- */
/* Adds to the gradients of a node's inputs what the node's own, gradient[ref], makes of them, of those that are wanted. Emits at
 * the node's location, in the graph's phase. UNSUPPORTED for an operator without a gradient. */
samba_status samba_reverse_visit(samba_graph *graph, samba_ref ref, const bool *wanted, samba_ref *gradient);
/* The gradients of `in` from those of `out`, `starts`, of their dtypes and shapes; SAMBA_NONE: nothing leads there. Nodes may be
 * among both, and several times. */
samba_status samba_reverse(samba_graph *graph, int outputs, const samba_ref *out, const samba_ref *starts, int inputs,
                           const samba_ref *in, samba_ref *results);
/* The same values as a node that is no other one. */
samba_ref samba_emit_variable(samba_graph *graph, samba_ref a);
/* The gradients of a node's first `count` inputs by those of the same result composed of other operators. */
enum { SAMBA_COMPOSED = 12 };
typedef samba_ref samba_compose_fn(samba_graph *graph, const void *user, const samba_ref *inputs);
samba_status samba_vjp_compose(samba_vjp *vjp, int count, samba_compose_fn *compose, const void *user);

/* ---- ops/custom.c ---- */
/* ARGUMENT where something else than the gradients of a custom_gradient is computed from its grad_output. */
samba_status samba_check_grad_outputs(const samba_graph *graph);

/* ---- ops/line.c ---- */
#define SAMBA_LINE_LONGEST ((int64_t)1 << 31) /* elements of a dim that is sorted */
/* A sort's `first`: its one result is in the middle of those that are not NaN, or the first of a line that has no other. Not
 * descending, without `nan`. */
#define SAMBA_SORT_MIDDLE (-1)
/* Where elements at an int64 index along dim stand among all elements of `a`, whose other dims the index has:
 * int64 (outer, index, inner). */
samba_ref samba_emit_flat_indices(samba_graph *graph, const samba_node *a, samba_ref index, int dim);

/* ---- ops/evaluate.c: the whole graph by reference kernels ---- */
/* Leaves' values by name (contiguous, exact dtype and shape); argins not given take their default. Returns the values of the
 * sinks, in their order, in memory of `arena`. */
samba_status samba_graph_evaluate(const samba_graph *graph, int leaf_count, const char *const *leaf_names,
                                  const samba_array *leaves, samba_arena *arena, samba_array *sink_values);

#endif
