/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: the content of a PEF in memory. The compiler fills one, pef/write.c stores it, pef/read.c loads and checks it, the
 * runtime runs it. All pointers live in the plan's arena. docs/pef.md describes the file. */
#ifndef SAMBA_PLAN_H
#define SAMBA_PLAN_H

#include "plan/stage.h"
#include <sambaflow/session.h>

#define SAMBA_PEF_VERSION 8
#define SAMBA_PEF_REPLICAS 6 /* the first that has exchanges, and REDUCE before GRADNORM */
#define SAMBA_PEF_BLOBS 5    /* the first whose literals are blobs and whose tensors say what they are for */
#define SAMBA_PEF_OLDEST 3   /* that is still read; pef/older.c says how */

typedef enum samba_tensor_role {                          /* what a buffer is for; numbers are part of the file format */
                                 SAMBA_ROLE_MODEL = 0,    /* the model's; of all that is no buffer, too */
                                 SAMBA_ROLE_OPTIMIZER = 1 /* what an optimizer keeps */
} samba_tensor_role;

typedef struct samba_plan_tensor { /* a named device tensor, C-contiguous in its buffer from element 0 */
    char *name;
    int32_t kind; /* samba_tensor_kind */
    int32_t role; /* samba_tensor_role */
    int32_t dtype;
    int32_t rank;
    int64_t shape[SAMBA_MAX_RANK];
    int32_t buffer;
    int32_t init; /* samba_initializer_kind, filled at load: parameters, buffers, gradients; inputs start at 0 */
    double init_a, init_b;
    int32_t is_loss;   /* an OUTPUT that is a loss */
    int32_t has_range; /* an INPUT of indices: values must be in [low, high) or equal `ignore` if has_ignore */
    int32_t has_ignore;
    int64_t low, high, ignore;
    char *range_user; /* who wants it: "cross_entropy at loss", for the message */
} samba_plan_tensor;

enum { SAMBA_ARGIN_REPLICAS = 4 }; /* a role */
typedef struct samba_plan_argin {  /* a rank-0 float64 or int64 hyperparameter, 8 bytes at offset 0 of its buffer */
    char *name;
    int32_t role;  /* 0 hyperparameter, 1 dropout rate, 2 dropout seed, 3 training, 4 replicas that train together */
    int32_t dtype; /* SAMBA_FLOAT64 or SAMBA_INT64 */
    int32_t buffer;
    double value; /* until given */
} samba_plan_argin;

typedef struct samba_plan_constant { /* bytes copied into a buffer at load */
    int32_t buffer;
    int32_t blob;
} samba_plan_constant;

typedef struct samba_plan_section {
    int32_t id;    /* position in sections */
    int32_t phase; /* samba_phase's number: 0 ZEROGRAD 1 FWD 2 BCKWD 3 REDUCE 4 GRADNORM 5 OPT */
    char *name;
    int32_t first_stage, stage_count;
    int64_t flops, bytes;
    int32_t redone_by;      /* a later phase whose section computes the same again: a run of both leaves this one out; 0: none */
    int32_t forward_stages; /* > 0: a section of FWD and BCKWD (mapping spatial), whose first so many stages are FWD's ... */
    int32_t redone_stages;  /* ... and of those the last so many what BCKWD computes again; a run of both leaves them out */
    int64_t fast_memory;    /* bytes of memory that its stages touch */
} samba_plan_section;

/* One of the graphs of a PEF: what was traced, its sections and its schedule. A name means one thing in all graphs, so a tensor
 * or a hyperparameter that several have is one and the same. */
typedef struct samba_plan_graph {
    char *name;
    char *text; /* text form of the traced graph; large literals stand beside it, as &0, &1 ... */
    uint64_t hash;
    int32_t inference, grad_accumulation_steps;
    int32_t precision;                    /* 0: as traced, 1: bfloat16 contractions (samba_precision in compile.h) */
    int32_t mapping;                      /* samba_mapping in compile.h */
    int64_t fast_memory;                  /* that its sections were cut for; 0: as much as there is */
    int32_t first_section, section_count; /* each graph's follow those of the one before; calls likewise */
    int32_t first_call, call_count;
    int32_t tensor_count;
    int32_t *tensors; /* that it reads, makes or gives, ascending */
    int32_t literal_count;
    int32_t *literals; /* blobs that the text refers to */
} samba_plan_graph;

typedef struct samba_plan_location { /* where in the user's model operators come from, in words of the plan; 0: not known */
    int32_t module;                  /* "encoder.layers.0" */
    int32_t source;                  /* "model.py:42" */
    int32_t fusion;                  /* of the hint that keeps operators in one section */
} samba_plan_location;

typedef struct samba_plan {
    samba_arena arena;
    char *name;    /* of the PEF; where there is one graph, of it */
    uint64_t hash; /* of the file it was read from, all bytes behind the header; 0: it was made here */
    uint64_t ops_signature;
    int64_t memory_bytes;     /* of the arena */
    samba_memory_info memory; /* its parts */
    int32_t buffer_count, stage_count, section_count, tensor_count, argin_count, constant_count, call_count, word_count,
        location_count, graph_count, blob_count;
    samba_plan_graph *graphs; /* one or more */
    samba_buffer *buffers;
    samba_stage *stages;
    samba_plan_section *sections;
    samba_plan_tensor *tensors;
    samba_plan_argin *argins;
    samba_blob **blobs; /* bytes of constants and of graphs' literals, each once; the arena owns them with others */
    samba_plan_constant *constants;
    char **words;                   /* of operators and locations, each once; word 0 is "" */
    samba_plan_location *locations; /* each once */
    int32_t *calls;                 /* the schedules: section ids in order; a call's id is its position in its graph's */
} samba_plan;

/* A plan of one graph: all sections, calls and tensors are the first graph's. */
samba_status samba_plan_own_graph(samba_plan *plan);
/* The graph of a section. */
int32_t samba_plan_graph_of(const samba_plan *plan, int32_t section);
/* The graph of that name, NULL: the only one; -1 where there is none. */
int32_t samba_plan_graph_named(const samba_plan *plan, const char *name);
/* What an output's gradient starts with: 1, or 0 where another output gives it one. False: it has no gradient of its own. */
bool samba_plan_start(const samba_plan *plan, int32_t output, double *start);
/* "loss, with ones; logits, from which another output is computed, with zeros": where a graph's backward starts;
 * nothing for inference. */
void samba_plan_add_starts(const samba_plan *plan, int32_t graph, samba_text *text);
/* Does the graph have the tensor? */
bool samba_plan_has_tensor(const samba_plan_graph *graph, int32_t tensor);

/* plan/sizes.c: graphs FUNCTION@SIZE, each the function for inputs of one shape. */
const char *samba_size_label(const char *graph);                               /* SIZE; NULL: it is no size of anything */
bool samba_is_size_of(const char *graph, const char *function, size_t length); /* FUNCTION of so many bytes */
bool samba_is_size_like(const char *graph, const char *other);                 /* of the function that the other is a size of */
/* "x@11" of "x", and "y@11.grad" of "y.grad": what a size has in a shape of its own; and back, NULL where it is none of that
 * size. */
#define SAMBA_GRADIENT_OF ".grad"
samba_status samba_sized_name(samba_arena *arena, const char *name, const char *label, char **sized);
bool samba_is_sized(const char *sized, const char *name, const char *label);
samba_status samba_plain_name(samba_arena *arena, const char *sized, const char *label, char **name);
/* A graph's tensor of that kind and name, or its size of it; NULL: it has none. */
const samba_plan_tensor *samba_plan_tensor_in(const samba_plan *plan, int32_t graph, int32_t kind, const char *name);

/* plan/literals.c: the next reference to a literal in a graph's text, at its '&': the number behind it, -1 for one that is none,
 * and where it ends. NULL: there is no other. */
const char *samba_plan_next_literal(const char *text, int64_t *number, const char **end);
/* Adds a graph's text with all bytes in it, as samba_graph_parse takes it, of a checked plan. */
void samba_plan_add_text(const samba_plan *plan, int32_t graph, samba_text *text);

/* The lines of the user's program that a stage comes from, each once: "  [model.py:41, model.py:42]", at most SAMBA_SOURCES_SHOWN
 * and "..." for
 * more; "" where none is known. Returns buffer. */
#define SAMBA_SOURCES_SHOWN 4
#define SAMBA_SOURCES_TEXT 640
const char *samba_plan_sources(const samba_plan *plan, const samba_stage *stage, char buffer[SAMBA_SOURCES_TEXT]);

/* A stage's sizes for people. A contraction says batch x M x N x K, a pool its planes: their domains alone say less.
 * SAMBA_SHAPE_TEXT bytes are enough. */
void samba_plan_domain(const samba_stage *stage, char *buffer, size_t size);

void samba_plan_init(samba_plan *plan, samba_context *context);
void samba_plan_free(samba_plan *plan);
/* FLOPs and bytes of one run of a graph's schedule, without what it leaves out; at most INT64_MAX. */
void samba_plan_work(const samba_plan *plan, int32_t graph, int64_t *flops, int64_t *bytes);

/* plan/exchanges.c: of a checked plan that replicas run. Phases as a section has them. */
enum { SAMBA_PLAN_FWD = 1, SAMBA_PLAN_BCKWD = 2, SAMBA_PLAN_REDUCE = 3, SAMBA_PLAN_OPT = 5 };
/* The last section of BCKWD that writes what this one of REDUCE exchanges; -1: none does. */
int32_t samba_plan_completion(const samba_plan *plan, int32_t reduce);
/* Do sections behind REDUCE sum, as a norm does? How a sum is rounded depends on threads and machine; one element by itself does
 * not. */
bool samba_plan_sums_behind_reduce(const samba_plan *plan);
/* Has a section of OPT to follow this one of REDUCE or OPT, which comes before it? */
bool samba_plan_follows(const samba_plan *plan, int32_t update, int32_t before);

/* plan/constants.c: what runs never change, found from what stages write and the host gives; nothing a file says is believed. */
typedef struct samba_island { /* memory that is reached together: ranges of tensors and of what stages write, overlapping */
    int64_t begin, end;
    int32_t writers, stage; /* how many writes; the stage of the last */
    bool named, given;      /* a tensor's; an input's or a hyperparameter's */
    bool constant;
} samba_island;
typedef struct samba_constants {
    bool *buffer;          /* per buffer: its bytes are the same in all runs, as long as the host writes no constant memory */
    bool *stage;           /* per stage: it makes such bytes, of such bytes alone */
    bool *trains;          /* per stage: it is of a graph that trains, where weights are frozen to save memory */
    samba_island *islands; /* by offset */
    int32_t island_count;
} samba_constants;
/* A stage's results are constant only where no other stage writes and no tensor lies. Of a checked plan, in the arena. */
samba_status samba_constants_find(const samba_plan *plan, samba_arena *arena, samba_constants *constants);
/* Does the range lie in memory that runs change anyway? */
bool samba_constants_spared(const samba_constants *constants, int64_t offset, int64_t bytes);

/* plan/check.c: every index, offset, size, shape, register, class and reachable element is inside what it points into; sections
 * cover stages once and in order; names are unique. FORMAT names the first broken thing. Read runs it;
 * the compiler runs it before writing. */
samba_status samba_plan_check(samba_context *context, const samba_plan *plan);

/* pef/write.c, pef/read.c. write is atomic and deterministic: one plan, one sequence of bytes. read checks before it returns. */
samba_status samba_pef_write(samba_context *context, const samba_plan *plan, const char *path);
samba_status samba_pef_read(samba_context *context, const char *path, samba_plan *plan);
/* From memory, for tests and fuzzers; `name` is for messages. */
samba_status samba_pef_decode(samba_context *context, const char *name, const void *data, size_t size, samba_plan *plan);
/* plan/log.c: of a plan that was checked, or that the compiler is still at. The .pef.log:
 * sections, stages with operators, FLOPs, bytes, memory, schedule. Aligned for people. */
samba_status samba_plan_log(samba_context *context, const samba_plan *plan, samba_text *text);

extern const char *const samba_precision_names[2]; /* "fp32" "bf16" */
extern const char *const samba_mapping_names[2];   /* "section" "spatial" */
/* "FWD", or "FWD+BCKWD" of a section of both. */
const char *samba_section_type(const samba_plan_section *section);
extern const char *const samba_kind_names[5];         /* of samba_tensor_kind: "input" ... */
extern const char *const samba_section_type_names[6]; /* "ZEROGRAD" "FWD" "BCKWD" "REDUCE" "GRADNORM" "OPT" */

#endif
