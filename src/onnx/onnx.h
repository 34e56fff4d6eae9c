/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of an ONNX model and of its reading into a graph.
 *
 * A model is the message as protobuf-c reads it, in memory that is bounded by the file's size, and the mapped files of its
 * external data. Reading walks the nodes of a graph in order. Each name stands for an item; a row of operators.def names the
 * function that makes the items of a node's outputs from those of its inputs, by the public functions that trace models.
 *
 * Such a function asks for attributes and inputs by samba_onnx_int, samba_onnx_in and their like. What it never asked for, and
 * the node has, is refused: nothing that a model says is without effect. A refusal is a part of the final message; the node's
 * outputs are then missing, and nodes that need them are left out without one of their own.
 *
 * What a shape depends on must be known. The graph built so far is evaluated for that by the reference kernels (known.c), so
 * that no operator is written twice. */
#ifndef SAMBA_ONNX_INTERNAL_H
#define SAMBA_ONNX_INTERNAL_H

#include "graph/graph.h"
#include "onnx/onnx.pb-c.h"
#include "ops/ops.h"
#include <sambaflow/onnx.h>

/* ---- the model: model.c ---- */

typedef struct samba_onnx_map { /* a file of external data */
    struct samba_onnx_map *next;
    const char *location; /* as the model names it */
    char *data;
    size_t size;
} samba_onnx_map;

typedef struct samba_onnx_memory samba_onnx_memory; /* a block that protobuf-c asked for */

typedef struct samba_onnx_stored { /* what the model stores under a name: an initializer, or an Identity of one */
    const char *name;
    const Samba__Onnx__TensorProto *proto;
    samba_onnx_role role;
} samba_onnx_stored;

struct samba_onnx {
    samba_context *context;
    int64_t holders; /* the caller, and tensors that lie in its memory */
    samba_arena arena;
    const char *path;   /* for messages */
    const char *folder; /* where external data lies; NULL: nowhere */
    size_t size;        /* of the message's bytes */
    void *file;         /* mapped, where it is large; else NULL */
    size_t file_size;
    Samba__Onnx__ModelProto *message;
    samba_onnx_memory *blocks; /* of the message, the latest first */
    samba_onnx_map *maps;
    int stored_count;
    samba_onnx_stored *stored;
    const samba_onnx_stored **by_name; /* sorted */
    int input_count;                   /* of the graph, without initializers */
    Samba__Onnx__ValueInfoProto **inputs;
    /* of the last samba_onnx_read */
    uint64_t built_in; /* bit i: input i */
    int kept_count, kept_capacity;
    const samba_onnx_stored **kept; /* what became parameters and buffers */
};

#define ONNX_FAIL(model, status, ...) samba_fail((model)->context, status, __VA_ARGS__)
void samba_onnx_hold(samba_onnx *model);
samba_status samba_onnx_find_stored(samba_onnx *model);                                   /* roles.c */
const samba_onnx_stored *samba_onnx_stored_as(const samba_onnx *model, const char *name); /* NULL: nothing */

/* thin.c: as `unpack` reads the bytes, which are known to be fields, but for the large tensors, which stay where they are. */
samba_status samba_onnx_unpack_thin(samba_onnx *model, const void *data, size_t size,
                                    samba_status (*unpack)(samba_onnx *model, const void *data, size_t size));

/* ---- tensors: tensor.c ---- */

/* What a TensorProto's elements are here. Unsigned numbers of 16 and 32 bits are held in signed ones of twice the size, those of
 * 64 bits in int64 as far as it reaches. SAMBA_DTYPE_COUNT: not at all. */
samba_dtype samba_onnx_dtype(int32_t type);
const char *samba_onnx_type_name(int32_t type); /* "uint16" */
/* What a tensor of the message is, checked; its shape is the message's. */
typedef struct samba_onnx_form {
    samba_dtype dtype;
    int rank;
    const int64_t *shape;
    int64_t bytes;
} samba_onnx_form;
samba_status samba_onnx_form_of(samba_onnx *model, const Samba__Onnx__TensorProto *proto, samba_onnx_form *form);
/* A tensor of the message, checked, over the model's memory where that is as the dtype has it. */
samba_status samba_onnx_tensor(samba_onnx *model, const Samba__Onnx__TensorProto *proto, samba_tensor **tensor);
/* The same as a constant of the graph, which holds the model where its elements stay in the model's memory. After an error of the
 * graph the status is OK. */
samba_status samba_onnx_constant_of(samba_onnx *model, const Samba__Onnx__TensorProto *proto, samba_graph *graph,
                                    samba_value *value);

/* ---- items ---- */

typedef struct samba_onnx_item {
    const char *name;
    int32_t type;                                /* SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__...; 0: as the value's dtype */
    samba_value value;                           /* graph NULL: not in the graph yet */
    const Samba__Onnx__TensorProto *initializer; /* what it is made of when it is asked for; else NULL */
    const Samba__Onnx__TensorProto *origin;      /* the same, afterwards too */
    const Samba__Onnx__NodeProto *maker;         /* whose output it is; else NULL */
    const samba_onnx_stored *stored; /* of an initializer of the main graph that may be a parameter or buffer; else NULL */
    bool missing;                    /* its node was refused */
    bool skipped;                    /* its node was not read: an operator behind it may say all */
    bool is_list;                    /* a sequence: known as a list when the model is read */
    int list_count;
    struct samba_onnx_item **list;
} samba_onnx_item;

typedef struct samba_onnx_scope {   /* the names of a graph or a function's body */
    struct samba_onnx_scope *outer; /* a graph inside a node sees the names around it; NULL */
    int64_t count, size;            /* size: a power of two */
    samba_onnx_item **table;
} samba_onnx_scope;

/* A function being expanded, or the main graph. */
typedef struct samba_onnx_frame {
    struct samba_onnx_frame *caller;
    const Samba__Onnx__FunctionProto *function; /* NULL: the main graph */
    size_t import_count;
    Samba__Onnx__OperatorSetIdProto **imports;
    int attribute_count; /* of the call, all resolved */
    const Samba__Onnx__AttributeProto **attributes;
} samba_onnx_frame;

typedef struct samba_onnx_reader {
    samba_onnx *model;
    samba_context *context;
    samba_graph *graph;
    samba_onnx_options options;
    samba_arena arena;
    samba_onnx_scope *scope;
    samba_onnx_frame *frame;
    size_t function_count; /* of the model, sorted */
    const Samba__Onnx__FunctionProto **functions;
    int depth;     /* of functions and graphs inside nodes */
    int64_t nodes; /* read so far: bounds what loops and functions unroll */
    int64_t tried; /* nodes that say what they were */
    uint8_t *skip; /* of each node of the main graph: nothing but what an operator says needs it; NULL: of none */
    size_t at;     /* the node of the main graph that is read */
    bool filling;  /* reading those that were left out */
    int64_t draws; /* random values so far, for names of seeds */
    samba_text refusals;
    int refusal_count;
    struct samba_onnx_known *known; /* by node of the graph */
    int64_t known_capacity;
    samba_ref *stack; /* values that samba_onnx_known has yet to decide */
    int64_t stack_capacity;
    double known_flops, known_bytes; /* spent on it */
    double room;                     /* bytes that samba_onnx_afford has granted */
    uint64_t *freeze_hits;
    const char **used; /* names that nodes and outputs of the main graph take, sorted; NULL: nobody has asked yet */
    size_t used_count;
    int tells_modes; /* whether a batch norm of the main graph says that it trains: 1, or -1; 0: nobody has asked yet */
} samba_onnx_reader;

/* ---- a node: node.c ---- */

typedef struct samba_onnx_node {
    samba_onnx_reader *reader;
    samba_graph *graph;
    const Samba__Onnx__NodeProto *proto;
    const char *op;  /* "Conv" */
    int64_t version; /* of the operator set of its domain */
    int input_count, output_count;
    samba_onnx_item **inputs;  /* NULL: left out */
    samba_onnx_item **outputs; /* NULL: nobody asked for it */
    bool *read, *told;         /* inputs and attributes that were asked for */
    bool refused;
} samba_onnx_node;
typedef void samba_onnx_operator_fn(samba_onnx_node *node);

/* A line of the final message, once a node. */
void samba_onnx_refuse(samba_onnx_node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same as a value, for operators that end so. */
#define onnx_refused(node, ...) (samba_onnx_refuse(node, __VA_ARGS__), (samba_value){NULL, SAMBA_NONE, 0})

/* Inputs. One that was left out, or lies behind the last one, is a zeroed value; samba_onnx_need refuses that. */
bool samba_onnx_has(const samba_onnx_node *node, int index);
samba_value samba_onnx_in(samba_onnx_node *node, int index);
samba_value samba_onnx_need(samba_onnx_node *node, int index);
samba_onnx_item *samba_onnx_item_in(samba_onnx_node *node, int index); /* NULL: left out */
int32_t samba_onnx_type_in(const samba_onnx_node *node,
                           int index); /* as the model says it: uint16, not what holds it; 0: left out */
void samba_onnx_out(samba_onnx_node *node, int index, samba_value value);
void samba_onnx_out_type(samba_onnx_node *node, int index, int32_t type); /* of an output that was given */
/* Output 0, which has the type of input 0, unsigned ones held in others too. */
void samba_onnx_out_same(samba_onnx_node *node, samba_value value);
void samba_onnx_out_list(samba_onnx_node *node, int index, int count, samba_onnx_item **list);
bool samba_onnx_wants(const samba_onnx_node *node, int index); /* whether the model uses that output */
samba_onnx_item *samba_onnx_new_item(samba_onnx_reader *reader, const char *name);
/* Whether a node may take memory of its own, and do work, of a size that numbers of the file decide: all nodes together have a
 * share that grows with the file. Refuses where not. */
bool samba_onnx_afford(samba_onnx_node *node, double bytes, double steps);
/* An item as a value of the graph: initializers become parameters, buffers or constants here. */
samba_value samba_onnx_value_of(samba_onnx_reader *reader, samba_onnx_item *item);
samba_value samba_onnx_buffer(samba_onnx_node *node, int index); /* an initializer that its node changes in runs that train */

/* Attributes; the fallback where there is none. */
const Samba__Onnx__AttributeProto *samba_onnx_attribute(samba_onnx_node *node, const char *name); /* NULL: none */
int64_t samba_onnx_int(samba_onnx_node *node, const char *name, int64_t fallback);
bool samba_onnx_flag(samba_onnx_node *node, const char *name, bool fallback);
double samba_onnx_float(samba_onnx_node *node, const char *name, double fallback);
const char *samba_onnx_text(samba_onnx_node *node, const char *name, const char *fallback);
/* The count, of which at most `most` are stored; -1: none. More than `most` are refused. */
int samba_onnx_ints(samba_onnx_node *node, const char *name, int most, int64_t *values);
const Samba__Onnx__GraphProto *samba_onnx_graph(samba_onnx_node *node, const char *name);
/* The index of the attribute's word in a NULL-terminated list; refuses another. */
int samba_onnx_choice(samba_onnx_node *node, const char *name, const char *fallback, const char *const *words);

/* Values that shapes depend on: integers of input `index`, at most `most`. The count; -1: left out, or refused, as node->refused
 * tells. */
int samba_onnx_known_ints(samba_onnx_node *node, int index, const char *what, int most, int64_t *values);
int64_t samba_onnx_known_int(samba_onnx_node *node, int index, const char *what, int64_t fallback);
double samba_onnx_known_double(samba_onnx_node *node, int index, const char *what, double fallback);
int samba_onnx_known_doubles(samba_onnx_node *node, int index, const char *what, int most, double *values);
/* Of any size and dtype; NULL: left out or refused. */
const samba_array *samba_onnx_known_in(samba_onnx_node *node, int index, const char *what);
/* Dims that an attribute named until version `since`, and input `index` from there on. -1: none said. Each 0 .. rank-1. */
int samba_onnx_axes(samba_onnx_node *node, int index, int64_t since, int rank, int dims[SAMBA_MAX_RANK]);
int samba_onnx_axis(samba_onnx_node *node, const char *name, int64_t fallback, int rank); /* an attribute; -1: refused */
int samba_onnx_fit_dim(samba_onnx_node *node, int64_t axis, int rank);                    /* a number of a list; -1: refused */
/* Whether a number of a list lies between bounds; refuses another. */
bool samba_onnx_within(samba_onnx_node *node, const char *name, int64_t value, int64_t least, int64_t greatest);

/* Small values. */
samba_value samba_onnx_number(samba_onnx_node *node, double value);            /* promotes as a number */
samba_value samba_onnx_like(samba_onnx_node *node, double value, samba_value); /* rank 0, of that value's dtype */
samba_value samba_onnx_ints_value(samba_onnx_node *node, int rank, const int64_t *shape, const int64_t *values);
static inline int samba_onnx_rank(samba_value value) { return samba_value_rank(value); }
void samba_onnx_shape(samba_value value, int64_t shape[SAMBA_MAX_RANK]);

/* Reads the nodes of a graph inside a node, whose inputs are these items, in a scope of its own. Its outputs' items. */
bool samba_onnx_run_graph(samba_onnx_node *node, const Samba__Onnx__GraphProto *graph, int count, samba_onnx_item **inputs,
                          samba_onnx_item ***outputs);
/* Expands a function of the model. */
void samba_onnx_call(samba_onnx_node *node, const Samba__Onnx__FunctionProto *function);
samba_status samba_onnx_read_nodes(samba_onnx_reader *reader, size_t count, Samba__Onnx__NodeProto **nodes);
/* scope.c */
bool samba_onnx_open_scope(samba_onnx_reader *reader, samba_onnx_scope *scope, samba_onnx_scope *outer);
/* The item gets another name, in the innermost scope. */
bool samba_onnx_bind_as(samba_onnx_reader *reader, const char *name, const samba_onnx_item *item);
samba_onnx_item *samba_onnx_find(const samba_onnx_reader *reader, const char *name);
bool samba_onnx_bind(samba_onnx_reader *reader, const char *name, samba_onnx_item *item); /* false: there is one, or no memory */

/* recognize.c: of a node that says which operator of ours it ends, where it and those before it are what is written for that:
 * the operator becomes its output. False: it is what it is. */
bool samba_onnx_recognize(samba_onnx_node *node);
/* Which nodes of the main graph need not be read where all that nodes say is right. */
samba_status samba_onnx_find_skippable(samba_onnx_reader *reader);

/* ---- evaluation: known.c ---- */

#define ONNX_MOST_STEPS 2e8 /* of the reference kernels for all values of a model, and of the reader's own loops */

/* The value's elements, where no parameter, and no input but those that may be built in, decides them; else NULL. `inputs`: which
 * of those it was computed from. */
const samba_array *samba_onnx_known(samba_onnx_reader *reader, samba_value value, uint64_t *inputs);
/* The value, or a constant in its place where it is small and known without inputs. */
samba_value samba_onnx_fold(samba_onnx_reader *reader, samba_value value);
void samba_onnx_known_free(samba_onnx_reader *reader);

/* ---- the table: operators.c ---- */

typedef struct samba_onnx_operator {
    const char *domain, *name;
    int since;                        /* the first version of this row; a later row of the name takes over from its own */
    samba_onnx_operator_fn *function; /* NULL: refused for `reason` */
    const char *reason;               /* what of it is refused, or why all is */
} samba_onnx_operator;
extern const samba_onnx_operator samba_onnx_operators[];
extern const int samba_onnx_operator_count;
const samba_onnx_operator *samba_onnx_operator_find(const char *domain, const char *name, int64_t version);

#endif
