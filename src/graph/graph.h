/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph: one immutable, hash-consed node type, addressed by 32-bit index; inputs always have smaller indices. Every node has
 * one result, whose dtype and shape stand on the node. The purpose of a graph stands in its sinks: outputs, losses, assignments
 * to leaves.
 *
 * The phase of a node says which section type computes it (SAMBA_FWD ...). It is part of a node's identity, so the same
 * expression may exist once per phase. samba_emit makes nodes in the graph's current phase but first looks for an equal node of
 * an earlier one, unless graph->recompute is set.
 *
 * Errors while building stick: samba_emit returns SAMBA_NONE from then on. Given SAMBA_NONE as an input it returns SAMBA_NONE
 * without a message. */
#ifndef SAMBA_GRAPH_INTERNAL_H
#define SAMBA_GRAPH_INTERNAL_H

#include "tensor/tensor.h"
#include <sambaflow/graph.h>

typedef uint32_t samba_ref; /* a node of one graph */
#define SAMBA_NONE UINT32_MAX
#define SAMBA_MAX_ARITY 1024 /* concat is the only operator that comes near */

typedef enum samba_op {
#define OP(name, ...) SAMBA_OP_##name,
#include "ops.def"
    SAMBA_OP_COUNT
} samba_op;

typedef enum samba_phase { /* order of execution; numbers are part of the file format */
                           SAMBA_ZEROGRAD = 0,
                           SAMBA_FWD = 1,
                           SAMBA_BCKWD = 2,
                           SAMBA_REDUCE = 3,
                           SAMBA_GRADNORM = 4,
                           SAMBA_OPT = 5,
                           SAMBA_PHASE_COUNT = 6
} samba_phase;
extern const char *const samba_phase_names[SAMBA_PHASE_COUNT]; /* "ZEROGRAD" ... */

/* ---- attributes: one typed struct a kind, fields listed once in attrs.def for hashing, printing and parsing ---- */
typedef struct samba_dims { /* a list of up to 8 numbers: a shape, strides, dims */
    int64_t count;
    int64_t at[SAMBA_MAX_RANK];
} samba_dims;
#define INT(field) int64_t field;
#define REAL(field) double field;
#define DIMS(field) samba_dims field;
#define DTYPE(field) int64_t field;
#define NAME(field) int64_t field; /* index into the graph's names */
#define BLOB(field) int64_t field; /* index into the graph's blobs */
#define ATTRS(kind, fields)                                                                                                      \
    typedef struct samba_attrs_##kind {                                                                                          \
        fields int64_t unused_;                                                                                                  \
    } samba_attrs_##kind;
#include "graph/attrs.def"
typedef union samba_attrs { /* zero all of it before filling: equality and hash are over the kind's bytes */
#define ATTRS(kind, fields) samba_attrs_##kind kind;
#include "graph/attrs.def"
} samba_attrs;
typedef enum samba_attrs_kind {
#define ATTRS(kind, fields) SAMBA_ATTRS_##kind,
#include "graph/attrs.def"
    SAMBA_ATTRS_COUNT
} samba_attrs_kind;
/* What a state leaf is for: a samba_tensor_kind (a buffer of the model, a gradient), or of what an optimizer keeps. */
enum { SAMBA_STATE_OPTIMIZER = 16 };
typedef enum samba_field_kind {
    SAMBA_FIELD_INT,
    SAMBA_FIELD_REAL,
    SAMBA_FIELD_DIMS,
    SAMBA_FIELD_DTYPE,
    SAMBA_FIELD_NAME,
    SAMBA_FIELD_BLOB
} samba_field_kind;
typedef struct samba_attrs_field {
    const char *name;
    samba_field_kind kind;
} samba_attrs_field;
typedef struct samba_attrs_facts { /* graph/attrs.c */
    const char *name;
    size_t size; /* bytes of the struct */
    int field_count;
    const samba_attrs_field *fields; /* in order, without gaps: each lies samba_field_size after the one before */
} samba_attrs_facts;
extern const samba_attrs_facts samba_attrs_table[SAMBA_ATTRS_COUNT];
size_t samba_field_size(samba_field_kind kind);

/* The facts of an operator that the graph itself knows: the columns of ops.def that the text form and interning need. */
typedef struct samba_op_syntax { /* graph/attrs.c */
    const char *name;
    int arity; /* -1: any number >= 1 */
    samba_attrs_kind attrs;
    bool leaf; /* class LEAF: costs nothing, belongs to no section, always of phase ZEROGRAD */
} samba_op_syntax;
extern const samba_op_syntax samba_op_table[SAMBA_OP_COUNT];

/* Where in the user's model a node comes from: indices into the graph's names, 0 is nothing. For people, but for `fusion`: the
 * nodes of a name stay in one section of a type (compiler/memory/section.c).
 * No part of a node's identity, nor of the graph's hash. */
typedef struct samba_location {
    uint32_t scope;  /* path of the module: "encoder.layers.0" */
    uint32_t source; /* line of the user's program: "model.py:42" */
    uint32_t fusion; /* name given to samba_op_fusion_push */
} samba_location;

typedef struct samba_node {
    uint16_t op;
    uint8_t dtype, rank, phase;
    uint8_t fp32; /* mixed precision leaves it alone; part of its identity, never of a leaf */
    uint16_t arity;
    samba_location location;
    uint32_t part; /* nodes of two parts never share a stage (compiler/graph/chunk.c); not part of its identity */
    const samba_ref *inputs;
    const samba_attrs *attrs; /* only the bytes of the op's kind exist */
    int64_t shape[SAMBA_MAX_RANK];
} samba_node;

typedef enum samba_sink_kind {
    SAMBA_SINK_OUTPUT,
    SAMBA_SINK_LOSS,
    SAMBA_SINK_ASSIGN,
    SAMBA_SINK_AGAIN /* what an output or loss of an earlier phase has delivered, computed again (compiler/graph/chunk.c) */
} samba_sink_kind;
typedef struct samba_sink {
    samba_sink_kind kind;
    samba_phase phase; /* section type that delivers it */
    uint32_t name;     /* of an output or loss; 0 for an assignment */
    samba_ref target;  /* leaf (parameter or state) that an assignment overwrites when its phase ends; else SAMBA_NONE */
    samba_ref value;
} samba_sink;

typedef struct samba_named_leaf {
    uint32_t ref;     /* 1 + the leaf of that name, 0 for none */
    uint8_t assigned; /* bit set: phases in which a sink assigns to it */
} samba_named_leaf;

typedef struct samba_outer_scope { /* what samba_scope_pop brings back */
    uint32_t scope, module;
} samba_outer_scope;

struct samba_graph {
    samba_context *context;
    samba_arena arena; /* inputs, attributes, names; owns the blobs with others */
    char *name;
    samba_node *nodes;
    int64_t node_count, node_capacity;
    uint32_t *table; /* open addressing over nodes, power of two; 1 + index, 0 is free */
    int64_t table_size;
    const char **names; /* interned; index 0 is "" */
    int64_t name_count, name_capacity;
    uint32_t *name_table; /* as table */
    int64_t name_table_size;
    samba_blob **blobs; /* bytes of literals, each once */
    int64_t blob_count, blob_capacity;
    uint32_t *blob_table; /* as table */
    int64_t blob_table_size;
    samba_named_leaf *leaves; /* per name */
    int64_t leaf_capacity;
    samba_sink *sinks;
    int64_t sink_count, sink_capacity;
    samba_phase phase;  /* given to new nodes */
    bool recompute;     /* new nodes are of `phase` even if an earlier phase has an equal one */
    bool fp32;          /* given to new nodes */
    uint64_t amp_stack; /* of samba_graphamp_push: what `fp32` was, the innermost in bit 0 */
    int amp_depth;
    uint32_t scope;          /* current scope, which names made now begin with */
    samba_location location; /* given to new nodes */
    const char *speaker;     /* what messages call the operator: the function that is composed of others; NULL: its own name */
    /* what messages call the two dims of a plane, where a function has others than height and width; else NULL */
    const char *const *axes;
    int fusion_depth;                /* of samba_op_fusion_push */
    struct samba_freezing *freezing; /* innermost of samba_freeze_push; NULL: none */
    struct samba_adapting *adapting; /* of samba_lora_push */
    int64_t variables;               /* number of the next `variable` */
    uint32_t part;                   /* given to new nodes; 0 but while a pass says otherwise */
    samba_outer_scope *scopes;       /* those around it, outermost first */
    int64_t scope_count, scope_capacity;
    samba_status status; /* sticky */
    char error[1024];    /* its message */
};

/* ---- ops/emit.c ---- */
/* Adds or finds a node: checks arity, infers dtype and shape, interns. attrs may be NULL for the kind `none`. */
samba_ref samba_emit(samba_graph *graph, samba_op op, int arity, const samba_ref *inputs, const samba_attrs *attrs);

/* ---- graph/attrs.c ---- */
/* Copies attributes field by field to a zeroed union in their only normal form (unused list elements 0, one NaN), so that equal
 * attributes are equal bytes. ARGUMENT for a list that is too long, a number that is no dtype,
 * an index that is no name or blob. */
samba_status samba_attrs_clean(const samba_graph *graph, samba_op op, const samba_attrs *attrs, samba_attrs *clean);
/* A node's attributes as another graph has them: its names and bytes are added there. After an error `into` has it. */
void samba_attrs_carry(samba_graph *into, const samba_graph *from, const samba_node *node, samba_attrs *attrs);

/* ---- graph/graph.c ---- */
/* Interns a node whose op, dtype, rank, shape, inputs and (clean) attrs are known to be right; phase and location are the
 * graph's, the phase no earlier than the inputs'. What samba_emit ends with. */
samba_ref samba_graph_add(samba_graph *graph, const samba_node *proto);
/* The node equal to `node`, phase included, or SAMBA_NONE. */
samba_ref samba_graph_find(const samba_graph *graph, const samba_node *node);
uint32_t samba_graph_intern(samba_graph *graph, const char *name); /* 0 after an error */
/* The index of these bytes among the graph's blobs, of which it becomes an owner unless it has them; 0 after an error. `blob` may
 * be NULL after one that the context has. */
uint32_t samba_graph_blob(samba_graph *graph, samba_blob *blob);
/* Adds a sink. An output or loss needs a name no other one and no leaf has; an assignment a parameter or state of the value's
 * dtype and shape that nothing else assigns in that phase. */
void samba_graph_sink(samba_graph *graph, samba_sink sink);
/* The leaf (input, parameter, state, argin) of that name, or SAMBA_NONE. */
samba_ref samba_graph_leaf(const samba_graph *graph, const char *name);
/* Sticks an error to the graph unless it has one: "at scope: message", or "message (in module scope, model.py:42)" where the
 * current location has a source. Returns SAMBA_NONE. */
samba_ref samba_graph_fail(samba_graph *graph, samba_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same about an operator or layer: "what at scope: message" or "what: message (in module scope, model.py:42)". */
samba_ref samba_graph_fail_at(samba_graph *graph, samba_status status, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same as a condition that does not hold, which compilers see. */
#define samba_graph_refuse(...) (samba_graph_fail_at(__VA_ARGS__), false)
/* The same with the message that the context already has. */
samba_ref samba_graph_stick(samba_graph *graph, samba_status status);
/* Room for one more than `count` items in an array of the graph, of whose pointer `array` is the address. */
samba_status samba_graph_grow(samba_graph *graph, void *array, size_t size, int64_t *capacity, int64_t count);
/* A new, empty graph of the same context and name; passes build their result in one. */
samba_status samba_graph_like(const samba_graph *graph, samba_graph **result);
static inline const samba_node *samba_node_at(const samba_graph *graph, samba_ref ref) { return &graph->nodes[ref]; }
static inline const char *samba_graph_name_at(const samba_graph *graph, int64_t index) { return graph->names[index]; }
static inline samba_blob *samba_graph_blob_at(const samba_graph *graph, int64_t index) { return graph->blobs[index]; }
/* The location of this graph that says what `location` says in another one. */
samba_location samba_graph_location(samba_graph *graph, const samba_graph *other, samba_location location);
#define SAMBA_LOCATION_TEXT 512
/* " (in module encoder.layers.0, model.py:42)"; "" where nothing is known. Returns buffer. */
const char *samba_location_format(const samba_graph *graph, samba_location location, char buffer[SAMBA_LOCATION_TEXT]);
/* ---- graph/hash.c ---- */
/* Structure hash: equal graphs (same text) have equal hashes. The graph's name and locations are for people and do not count. */
uint64_t samba_graph_hash(const samba_graph *graph);

/* ---- graph/rewrite.c: the frame of every graph-to-graph pass ---- */
/* Copies `in` to a new graph node by node in order, calling `rewrite` with the inputs already mapped; it returns the ref in `out`
 * (NULL rewrite: copy). Only nodes that sinks need, and inputs, are visited: dead nodes go. Phases, locations and sinks carry
 * over. While `rewrite` runs, out->phase, out->location and out->fp32 are the node's and out->recompute is true. */
typedef struct samba_rewriter {
    const samba_graph *in;
    samba_graph *out;
    samba_ref *map; /* node of `in` -> node of `out` */
    void *user;
} samba_rewriter;
typedef samba_ref samba_rewrite_fn(samba_rewriter *rewriter, samba_ref node, const samba_ref *inputs);
samba_status samba_graph_rewrite(const samba_graph *in, samba_rewrite_fn *rewrite, void *user, samba_graph **out);
/* A copy of what sinks need: of inputs too. */
samba_status samba_graph_prune(const samba_graph *in, samba_graph **out);
/* A node that a rewrite leaves alone: the same operator on `inputs`, names interned anew. */
samba_ref samba_rewrite_copy(samba_rewriter *rewriter, samba_ref node, const samba_ref *inputs);

/* ---- graph/print.c ---- */
/* The text as a PEF has it: literals of more than SAMBA_LITERAL_INLINE bytes stand beside it and are referred to as &0, &1 ... in
 * the order in which nodes use them, equal ones once. `literals`, in `arena`, has the graph's index of each. */
#define SAMBA_LITERAL_INLINE 64 /* bytes: as many as the PEF would pad a blob to */
samba_status samba_graph_print_beside(const samba_graph *graph, samba_arena *arena, char **text, int32_t *count,
                                      uint32_t **literals);
/* Lines of the text without their ends, for messages:
 * of a node without its location and with no more than the first bytes of a literal. */
#define SAMBA_LITERAL_SHOWN 256
void samba_graph_print_node(samba_text *text, const samba_graph *graph, int64_t index);
/* of an operator by itself, without operands and phase: "amax dims=[1] : float32[2,1]" */
void samba_graph_print_operator(samba_text *text, const samba_graph *graph, int64_t index);
void samba_graph_print_sink(samba_text *text, const samba_graph *graph, int64_t index);

/* ---- graph/print.c, graph/parse.c: numbers as the text form has them, whatever the locale ---- */
#define SAMBA_REAL_TEXT 32
/* The shortest decimal that reads back to the same double; "inf", "-inf", "nan". Returns buffer. */
char *samba_real_format(double value, char buffer[SAMBA_REAL_TEXT]);
/* Reads what samba_real_format writes and any other decimal of at most 63 bytes; false when all of `text` is not one. */
bool samba_real_parse(const char *text, int64_t length, double *value);

/* ---- ops/verify.c ---- */
/* Checks every invariant: order, arity, inferred dtype and shape equal to the stored ones, sinks, names, phases never later than
 * their users'. INTERNAL with the first broken one. */
samba_status samba_graph_verify(const samba_graph *graph);

/* ---- emit helpers (graph/build.c), for vjps, expansions and passes; same dtype operands, broadcasting as the op allows ---- */
samba_dims samba_dims_of(int count, const int64_t *numbers); /* a longer list keeps its count, which samba_emit refuses */
samba_ref samba_emit1(samba_graph *g, samba_op op, samba_ref a);
samba_ref samba_emit2(samba_graph *g, samba_op op, samba_ref a, samba_ref b);
samba_ref samba_emit3(samba_graph *g, samba_op op, samba_ref a, samba_ref b, samba_ref c);
samba_ref samba_emit_constant(samba_graph *g, double value, samba_dtype dtype);     /* rank 0 */
samba_ref samba_emit_iota(samba_graph *g, int rank, const int64_t *shape, int dim); /* int64: the index along dim */
samba_ref samba_emit_reshape(samba_graph *g, samba_ref a, int rank, const int64_t *shape);
samba_ref samba_emit_permute(samba_graph *g, samba_ref a, const int64_t *dims);
samba_ref samba_emit_transpose(samba_graph *g, samba_ref a, int dim0, int dim1);
samba_ref samba_emit_expand(samba_graph *g, samba_ref a, int rank, const int64_t *shape);
samba_ref samba_emit_cast(samba_graph *g, samba_ref a, samba_dtype dtype); /* a itself when it has the dtype */
typedef enum samba_scatter_mode {                                          /* scatter's attrs.reduce */
                                  SAMBA_MODE_SET,
                                  SAMBA_MODE_ADD,
                                  SAMBA_MODE_MUL,
                                  SAMBA_MODE_AMAX,
                                  SAMBA_MODE_AMIN
} samba_scatter_mode;
samba_ref samba_emit_gather(samba_graph *g, samba_ref a, samba_ref index, int64_t dim, bool negative);
samba_ref samba_emit_scatter(samba_graph *g, samba_ref a, samba_ref index, samba_ref source, int64_t dim, samba_scatter_mode mode,
                             bool negative);
/* reduce ops (sum, amax, amin) over a set of dims, each kept with size 1; dims not negative */
samba_ref samba_emit_reduce(samba_graph *g, samba_op op, samba_ref a, int count, const int64_t *dims);
/* Sums `a` down to a shape that broadcasts to a's shape: the gradient of broadcasting. */
samba_ref samba_emit_sum_to(samba_graph *g, samba_ref a, int rank, const int64_t *shape);
/* a (op) number, the number as a rank-0 constant of a's dtype */
samba_ref samba_emit_scalar(samba_graph *g, samba_op op, samba_ref a, double number);

#endif
