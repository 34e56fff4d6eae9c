/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of writing a graph as an ONNX model.
 *
 * First the graph is brought to what ONNX can say (write_lower.c): the forward pass alone, dropout and its like gone,
 * hyperparameters constants. Then each node in order is put as nodes of the model by the function that its row of write.def names
 * (write_math.c, write_int.c, write_shape.c, write_line.c, write_nn.c, write_plane.c), a composite that ONNX has not by those of
 * what it is made of (write_expand.c). Such a function gets names of values and gives the name of its result. ONNX Runtime has
 * few operators for 16-bit floats and small integers, so what computes does so in float32 and int32, between casts; that is
 * exact, as a cast back wraps here and there alike.
 *
 * Failures stick to the writer, as those of a graph do; functions go on with "" for a name. What ONNX cannot say is a refusal: a
 * line of the final message. One expression must not put two nodes: their order, and so their names, would be the compiler's. */
#ifndef SAMBA_ONNX_WRITE_H
#define SAMBA_ONNX_WRITE_H

#include "graph/graph.h"
#include "onnx/onnx.pb-c.h"
#include "ops/families.h"
#include <sambaflow/onnx.h>

typedef struct samba_onnx_list { /* of pointers, in the writer's arena */
    void **at;
    int64_t count, capacity;
} samba_onnx_list;

typedef struct samba_onnx_word { /* of a table: a text and what it stands for */
    const char *text;
    const void *value;
} samba_onnx_word;

typedef struct samba_onnx_writer {
    samba_context *context;
    samba_arena arena;
    samba_onnx_write_options options;
    const samba_graph *graph; /* as ONNX can say it */
    const char **values;      /* per node of it: the name of what holds its result; NULL: not written yet */
    int64_t *uses;            /* per node: how many read it, outputs among them */
    const char **results;     /* per node: the name that its result must have, of an output; NULL: any */
    const samba_node *node;   /* being written */
    samba_onnx_list nodes, initializers, inputs, outputs, attributes; /* attributes: of the node that is put next */
    Samba__Onnx__NodeProto *latest;                                   /* put last, or found to be there already */
    int64_t puts;                                                     /* nodes asked for so far */
    int64_t room;                                                     /* bytes of numbers that may still be made */
    bool fresh; /* a node of its own for each, whatever is there: outputs that are one value have two names */
    samba_onnx_word *words;
    int64_t word_count, word_size;
    int64_t numbered; /* values so far */
    samba_text refusals;
    int refusal_count;
    samba_status status; /* sticky */
} samba_onnx_writer;

typedef const char *samba_onnx_write_fn(samba_onnx_writer *w, const samba_node *node);
typedef bool samba_onnx_own_fn(const samba_onnx_writer *w, const samba_graph *graph, const samba_node *node,
                               const samba_ref *inputs);
typedef struct samba_onnx_write_row {
    samba_onnx_write_fn *write; /* NULL: a composite, which is expanded; one that write_lower.c has replaced; or refused */
    samba_onnx_own_fn *own; /* of a composite: whether ONNX's own operator says it; else it is expanded. NULL: it never does */
    bool pass;              /* it is its first input */
    bool tells;             /* a node alone says what it was */
    const char *reason;     /* why ONNX cannot say it; NULL: it can */
} samba_onnx_write_row;
extern const samba_onnx_write_row *const samba_onnx_write_rows[SAMBA_OP_COUNT]; /* write_ops.c, of write.def */

/* ---- write_lower.c ---- */
/* The forward graph of outputs and losses as ONNX can say it; sinks keep order and names. */
samba_status samba_onnx_lower(samba_onnx_writer *w, const samba_graph *graph, samba_graph **result);

/* ---- write.c ---- */
/* How many read each node that sinks need, sinks among them; `uses` are zeros before. */
void samba_onnx_count_uses(const samba_graph *graph, int64_t *uses);

/* ---- write_expand.c ---- */
/* A node of the writer's graph, which becomes w->node; the name of what holds its result. */
const char *samba_onnx_write_operator(samba_onnx_writer *w, const samba_node *node);
/* Operands that functions look through, whose nodes nothing may need then. */
static inline bool samba_onnx_is_seen_through(const samba_node *node)
{
    return node->op == SAMBA_OP_constant || node->op == SAMBA_OP_expand;
}

/* recognize.c: the node that ends an operator says which, so that a reader of ours has it again. */
#define SAMBA_ONNX_OLDEST 17
#define SAMBA_ONNX_NEWEST 23
void samba_onnx_say_operator(samba_onnx_writer *w, Samba__Onnx__NodeProto *result, const samba_node *node);

/* ---- write_put.c ---- */
samba_status samba_onnx_stop(samba_onnx_writer *w, samba_status status); /* sticks it, with the context's message */
void samba_onnx_cannot(samba_onnx_writer *w, const samba_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool samba_onnx_push(samba_onnx_writer *w, samba_onnx_list *list, void *item);
const char *samba_onnx_format(samba_onnx_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
const samba_onnx_word *samba_onnx_look(const samba_onnx_writer *w, const char *text); /* NULL: not in the table */
void samba_onnx_keep(samba_onnx_writer *w, const char *text, const void *value);
int32_t samba_onnx_type_of_dtype(samba_dtype dtype);

/* Attributes of the node that is put next. */
void samba_onnx_attr_int(samba_onnx_writer *w, const char *name, int64_t value);
void samba_onnx_attr_float(samba_onnx_writer *w, const char *name, double value);
void samba_onnx_attr_text(samba_onnx_writer *w, const char *name, const char *value);
void samba_onnx_attr_ints(samba_onnx_writer *w, const char *name, int64_t count, const int64_t *values);
/* A node; the name of its first result. An input that is NULL is left out. */
const char *samba_onnx_put(samba_onnx_writer *w, const char *op, int count, const char *const *inputs);
const char *samba_onnx_put1(samba_onnx_writer *w, const char *op, const char *a);
const char *samba_onnx_put2(samba_onnx_writer *w, const char *op, const char *a, const char *b);
const char *samba_onnx_put3(samba_onnx_writer *w, const char *op, const char *a, const char *b, const char *c);
/* Nodes have the path of their module for a name until all are there that stay: then names of their own. */
void samba_onnx_name_nodes(samba_onnx_writer *w);
const char *samba_onnx_second_result(samba_onnx_writer *w); /* gives the node that was put last another result: its name */

/* Initializers. What is small stands in the model once. */
const char *samba_onnx_tensor_of(samba_onnx_writer *w, samba_dtype dtype, int rank, const int64_t *shape,
                                 const void *data);                                         /* data is kept */
const char *samba_onnx_number_of(samba_onnx_writer *w, samba_dtype dtype, double value);    /* rank 0 */
const char *samba_onnx_numbers(samba_onnx_writer *w, int64_t count, const int64_t *values); /* int64, rank 1 */
void *samba_onnx_room(samba_onnx_writer *w, int64_t count, samba_dtype dtype);              /* zeroed; NULL after an error */
void samba_onnx_initialize(samba_onnx_writer *w, const char *name, samba_dtype dtype, int rank, const int64_t *shape,
                           const void *data);

const char *samba_onnx_put_cast(samba_onnx_writer *w, const char *a, samba_dtype from, samba_dtype to);
static inline samba_dtype samba_onnx_wide(samba_dtype dtype) /* what ONNX Runtime computes in */
{
    return dtype == SAMBA_FLOAT16 || dtype == SAMBA_BFLOAT16                                            ? SAMBA_FLOAT32
           : dtype == SAMBA_INT8 || dtype == SAMBA_INT16 || dtype == SAMBA_UINT8 || dtype == SAMBA_BOOL ? SAMBA_INT32
                                                                                                        : dtype;
}
static inline bool samba_onnx_is_float(samba_dtype dtype) { return samba_dtype_is_floating_point(dtype); }
static inline const samba_node *samba_onnx_from(const samba_onnx_writer *w, const samba_node *node, int input)
{
    return samba_node_at(w->graph, node->inputs[input]);
}
static inline const char *samba_onnx_given(const samba_onnx_writer *w, const samba_node *node, int input)
{
    return w->values[node->inputs[input]];
}
/* The same cast to what it is computed in; and a result of that as the node has it. */
const char *samba_onnx_given_wide(samba_onnx_writer *w, const samba_node *node, int input);
const char *samba_onnx_narrow(samba_onnx_writer *w, const samba_node *node, const char *a);
/* Nodes of few words, of any value. */
const char *samba_onnx_put_reshape(samba_onnx_writer *w, const char *a, int rank, const int64_t *shape);
const char *samba_onnx_put_expand(samba_onnx_writer *w, const char *a, samba_dtype dtype, int rank, const int64_t *shape);
const char *samba_onnx_put_transpose(samba_onnx_writer *w, const char *a, int rank, const int64_t *dims);
const char *samba_onnx_put_slice(samba_onnx_writer *w, const char *a, int64_t dim, int64_t start, int64_t stop, int64_t step);
const char *samba_onnx_put_where(samba_onnx_writer *w, const char *condition, const char *a, const char *b); /* of what is wide */
const char *samba_onnx_put_reduce(samba_onnx_writer *w, const char *op, const char *a, int64_t count,
                                  const int64_t *dims); /* keeps dims */
const char *samba_onnx_put_concat(samba_onnx_writer *w, int64_t dim, const char *a, const char *b);
const char *samba_onnx_whole(samba_onnx_writer *w, int64_t size, int rank, int dim);     /* 0, 1 ... along dim; int64 */
const char *samba_onnx_negative(samba_onnx_writer *w, const char *a, samba_dtype dtype); /* bool: the sign, of -0 too */
bool samba_onnx_constant_in(const samba_onnx_writer *w, const samba_node *node, int input, double *value); /* one number, known */
const char *samba_onnx_log1p(samba_onnx_writer *w, const char *x, samba_dtype dtype);
const char *samba_onnx_product_with_bias(samba_onnx_writer *w, const samba_node *node); /* of an add; NULL: it is none */
const char *samba_onnx_filled(samba_onnx_writer *w, const samba_node *node,
                              double value); /* all of the node's elements that number */

#define WRITE(name, function) samba_onnx_write_fn function;
#define TELL WRITE
#define OWN(name, function, when)                                                                                                \
    samba_onnx_write_fn function;                                                                                                \
    samba_onnx_own_fn when;
#define TELL_OWN OWN
#define EXPAND(name)
#define PASS(name)
#define REFUSE(name, reason)
#include "onnx/write.def"
#undef WRITE
#undef TELL
#undef OWN
#undef TELL_OWN
#undef EXPAND
#undef PASS
#undef REFUSE

#endif
