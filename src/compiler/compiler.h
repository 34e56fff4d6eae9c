/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler's rooms in the order of the data (pipeline.c has the list):
 *   graph/    precision, alone, autodiff, replicas, optimizer, expand, simplify, chunk, remat, hold: graph -> graph
 *   fuse/     nodes -> groups, each of which becomes one stage
 *   lower/    values -> buffers (bufferize.c), groups -> stages (tile programs, contractions, kernels)
 *   memory/   buffers -> offsets in one arena; neighbouring stages -> one stage; stages -> sections and the call schedule
 *
 * Here: the drivers (compile.c, multigraph.c, pipeline.c), the pass that runs others at one price of memory after another
 * (budget.c), and several graphs in one plan (link.c). Everything lives in the compile's arena but graphs, which replace each
 * other, and the plan, which has an arena of its own. */
#ifndef SAMBA_COMPILER_H
#define SAMBA_COMPILER_H

#include "autodiff/autodiff.h"
#include "plan/plan.h"
#include <sambaflow/compile.h>

/* Of a value that exists, so the product fits. */
static inline int64_t samba_sizes_product(int count, const int64_t *sizes)
{
    int64_t result = 1;
    for (int i = 0; i < count; i++)
        result *= sizes[i];
    return result;
}

static inline int64_t samba_node_numel(const samba_node *node) { return samba_sizes_product(node->rank, node->shape); }

static inline int64_t samba_node_bytes(const samba_node *node)
{
    return samba_node_numel(node) * (int64_t)samba_dtype_size((samba_dtype)node->dtype);
}

/* ---- views: a VIEW node as strides over the memory of the node that has memory ---- */
typedef struct samba_access {
    samba_ref base;
    int64_t offset, strides[SAMBA_MAX_RANK]; /* over the viewing node's shape */
} samba_access;

/* ---- groups ---- */
typedef enum samba_group_kind { SAMBA_GROUP_TILE, SAMBA_GROUP_CONTRACT, SAMBA_GROUP_KERNEL, SAMBA_GROUP_MOVE } samba_group_kind;
typedef enum samba_member_role {
    SAMBA_MEMBER_FULL,    /* one value for each element of the domain */
    SAMBA_MEMBER_ROW,     /* one for each row */
    SAMBA_MEMBER_COLLECT, /* known only when the whole group has run: never read inside it */
    SAMBA_MEMBER_ALIAS    /* a view that only adds or drops dims of size 1, or broadcasts: its source's register serves */
} samba_member_role;

typedef struct samba_group_list {
    int32_t *at;
    int64_t count, capacity;
} samba_group_list;

typedef struct samba_group {
    samba_group_kind kind;
    samba_phase phase;
    bool redone; /* of FWD, and left out where BCKWD follows (redone.c): runs after the rest of its phase */
    bool idle;   /* nobody reads what it computes (narrow.c): no stage */
    int rank;    /* domain */
    int64_t domain[SAMBA_MAX_RANK];
    int8_t order[SAMBA_MAX_RANK]; /* dims as nodes have them -> where each lies in the domain (turn.c) */
    int cols;                     /* trailing domain dims that a row reduction runs over; 0: none does */
    samba_ref anchor;             /* the node that made the group */
    int plan_rank;                /* CONTRACT: the domain its stage will have, in which every operand must be a view */
    int64_t plan_shape[SAMBA_MAX_RANK];
    int64_t member_count, member_capacity;
    samba_ref *members;             /* in order */
    samba_group_list before, after; /* depend.c: groups it reads and groups that read it, as they were named then */
    int32_t position, merged_into;  /* in an order in which nothing comes before what it depends on; -1: a group of its own */
    uint32_t stamp;                 /* of the last search that came by */
} samba_group;

typedef struct samba_member { /* per node; group -1: leaf, inline leaf, or a view of memory */
    int32_t group;
    uint8_t role;
    uint8_t stored;              /* somebody outside its group reads it: it has memory */
    int8_t dims[SAMBA_MAX_RANK]; /* node dim -> domain dim; -1 for size 1 */
} samba_member;

typedef struct samba_fusion {
    const samba_graph *graph;
    samba_arena arena;
    samba_access *access;  /* per node */
    samba_member *members; /* per node */
    bool *read_back;       /* per node: a reduction whose result meets what it reduced, or the like of it, again */
    samba_group *groups;
    int64_t group_count, group_capacity;
    int32_t *pending; /* of a search over groups */
    uint32_t stamp;
    int32_t *order; /* groups in the order they run, phase by phase; groups merged into others are left out */
    int64_t order_count;
} samba_fusion;

/* redone.c */
samba_status samba_fusion_find_redone(samba_fusion *fusion);
bool samba_is_delivered_again(const samba_graph *graph, const samba_sink *sink);
/* For each node what needs it: no sink, only outputs that BCKWD delivers again, or others too. */
enum { SAMBA_SERVES_NOTHING, SAMBA_SERVES_REDONE, SAMBA_SERVES_KEPT };
void samba_find_servants(const samba_graph *graph, uint8_t *serves);

/* narrow.c: groups read 16-bit floats where casts of them were stored */
samba_status samba_fusion_read_narrow(samba_fusion *fusion);

/* fuse.c: forms groups over nodes of phases up to `last` (later ones are ignored: remat asks what forward alone stores). */
samba_status samba_fuse(const samba_graph *graph, samba_phase last, samba_fusion *fusion);
void samba_fusion_free(samba_fusion *fusion);
/* Makes `after` run after `before`; `done` is false, and nothing is, when that would be a cycle. */
samba_status samba_fusion_order(samba_fusion *fusion, int32_t before, int32_t after, bool *done);
/* Fills fusion->order. */
samba_status samba_fusion_schedule(samba_fusion *fusion);
/* constants, iota and random numbers are computed where they are used and never have memory of their own */
bool samba_is_inline(const samba_graph *graph, samba_ref ref);
/* The value that reading `ref` reads: of a random number, which is drawn where it is used, the seed; else itself. */
samba_ref samba_value_read(const samba_graph *graph, samba_ref ref);

/* access.c */
void samba_access_own(const samba_graph *graph, samba_ref ref, samba_access *access); /* memory of its own, in order */
/* A VIEW node through its input's access; false where no strides can express it. */
bool samba_access_follow(const samba_graph *graph, samba_ref ref, const samba_access *from, samba_access *to);
samba_status samba_access_all(const samba_graph *graph, samba_access *access);
bool samba_access_is_dense(const samba_graph *graph, const samba_access *access, samba_ref ref); /* in order, from any place on */
bool samba_access_is_whole(const samba_graph *graph, const samba_access *access, samba_ref ref); /* all of base, in order */

/* ---- values and where they live ---- */
typedef struct samba_extra_store { /* a member stored to a second buffer: a sink whose value already has one */
    samba_ref value;
    int32_t buffer;
} samba_extra_store;

typedef struct samba_copy { /* a sink that needs a stage of its own: value (any view, leaf or constant) -> buffer */
    samba_ref value;
    int32_t buffer;
    samba_phase phase;
    bool redone; /* as a group's */
} samba_copy;

typedef struct samba_readers { /* bufferize.c: per leaf, groups[begin .. end - 1] read it */
    int64_t *begin, *end;
    int32_t *groups;
} samba_readers;

/* inplace.c: positions are those of groups, and of copies at the end of a phase, in the order they run */
typedef struct samba_uses {
    int32_t buffer_count;
    int64_t *first, *last; /* per buffer: positions that touch it; -1 none */
    int32_t *same;         /* per buffer: the one it shares all memory with, itself at first */
    int64_t *begin;        /* per position: its part of `touched` */
    samba_phase *phase;    /* per position */
    int32_t *touched;
    int64_t touched_count, touched_capacity;
    int64_t position; /* that is being lowered */
} samba_uses;

typedef struct samba_origins { /* origin.c: finds words and locations of the plan */
    uint32_t *slots;
    int64_t slot_count; /* a power of two */
} samba_origins;

/* ---- what passes leave to those behind them, each in a struct of its own; what one alone needs is its own ---- */
typedef struct samba_placed { /* place: values and sinks */
    int32_t *buffer_of;       /* per node of graph: -1 none */
    samba_extra_store *extra_stores;
    int64_t extra_store_count, extra_store_capacity;
    samba_copy *copies;
    int64_t copy_count, copy_capacity;
    samba_readers readers;
} samba_placed;

typedef struct samba_lowering { /* lower, while it makes stages */
    samba_uses uses;
    bool redone; /* given to new stages */
} samba_lowering;

typedef struct samba_made_stage { /* beside each of the plan's */
    samba_phase phase;
    int32_t graph;  /* of the plan's graphs */
    bool redone;    /* as its group's */
    bool completes; /* a bucket of gradients, whose exchange may begin behind it (buckets.c) */
} samba_made_stage;

/* of the plan: its arrays grow in context memory; place, lower and section add to them, link all of another plan's */
typedef struct samba_growth {
    int64_t buffer_capacity, stage_capacity, tensor_capacity, argin_capacity, constant_capacity, section_capacity, call_capacity,
        blob_capacity, word_capacity, location_capacity, persistent_capacity, made_capacity;
    uint8_t *persistent;    /* per buffer: never shares memory */
    samba_made_stage *made; /* per stage */
    samba_origins origins;  /* of words and places */
} samba_growth;

typedef struct samba_trained { /* a parameter that an optimizer updates */
    const char *parameter, *optimizer;
    samba_optimizer settings;
} samba_trained;

typedef struct samba_compiler {
    samba_context *context;
    const samba_compile_options *options;
    const char *name;
    bool train;          /* dropout drops out: not for inference, but for functions that train */
    bool unfused;        /* each node is a stage of its own */
    bool one_of_several; /* a graph of a PEF that has others: hyperparameters are named by their optimizer */
    /* of one of several: which optimizers got their names here and not by the caller, and what earlier graphs train, which these
     * then share with them (graph/share_optimizer.c) */
    const bool *named_here;
    const struct samba_compiler *const *others;
    int other_count;
    samba_trained *trained; /* by this graph's optimizers; in the arena */
    int64_t trained_count;
    char *warning; /* what compiling has to tell; NULL: nothing */
    samba_arena arena;
    samba_graph *traced; /* as the user's model made it: stored in the PEF */
    samba_graph *graph;  /* the current one */
    samba_fusion fusion; /* of fuse */
    samba_placed placed;
    samba_lowering lowering;
    samba_plan plan; /* under construction */
    samba_growth growth;
} samba_compiler;

/* Stages of one graph that run together or not at all. */
static inline bool samba_made_alike(const samba_compiler *compiler, int32_t a, int32_t b)
{
    const samba_made_stage *made = compiler->growth.made;
    return made[a].graph == made[b].graph && made[a].phase == made[b].phase && made[a].redone == made[b].redone;
}

/* passes: `run` replaces compiler->graph, or fills the plan */
typedef samba_status samba_pass_fn(samba_compiler *compiler);
samba_pass_fn samba_pass_trace, samba_pass_precision, samba_pass_alone, samba_pass_autodiff, samba_pass_replicas,
    samba_pass_optimizer, samba_pass_expand, samba_pass_simplify, samba_pass_chunk, samba_pass_remat, samba_pass_budget,
    samba_pass_hold, samba_pass_fuse, samba_pass_bufferize, samba_pass_lower, samba_pass_buckets, samba_pass_coalesce,
    samba_pass_memory, samba_pass_section;
/* graph/optimizer.c: are the optimizers of the options right, and the names that they and `gradients` list? And whether a
 * parameter has a gradient, where there are optimizers: `compile_options` is a samba_compile_options */
samba_status samba_check_optimizers(const samba_compiler *compiler);
bool samba_has_gradient(const void *compile_options, const char *parameter);
/* precision.c: a traced graph with the casts of `precision`, a new graph */
samba_status samba_lower_precision(const samba_graph *in, samba_precision precision, samba_graph **out);
/* pipeline.c: all passes; those of one graph alone, up to its stages;
 * those behind, which see the stages of all graphs of a PEF */
samba_status samba_run_passes(samba_compiler *compiler);
samba_status samba_run_graph_passes(samba_compiler *compiler);
samba_status samba_run_plan_passes(samba_compiler *compiler);
/* Those between `budget` and `memory`, the latter too, on a compiler of their own: how much memory the plan of its graph takes.
 * Nothing is dumped. */
samba_status samba_try_passes(samba_compiler *compiler);

/* link.c: adds the graph that `from` has lowered to the plan of `into`, which keeps using its memory */
samba_status samba_link(samba_compiler *into, const samba_compiler *from);
/* misspelt.c: warns where a graph has a parameter that is called almost as one that others train; after the last
 * link */
samba_status samba_find_misspelt(samba_compiler *linked, const samba_compiler *const *graphs, int count);
/* share.c: what graphs compute alike of constants is computed once; after the last link */
samba_status samba_share_constants(samba_compiler *compiler);
/* memory.c: per stage, before there are offsets */
samba_status samba_find_constant_stages(samba_compiler *compiler, const bool **stages);
/* buckets.c: the exchange, of stages 0 .. end - 1, of the first bucket that a stage of OPT touches; -1: none */
int32_t samba_bucket_read(const samba_compiler *compiler, int32_t stage, int32_t end);
bool samba_program_equal(const samba_program *a, const samba_program *b); /* coalesce.c */
/* compile.c: are the options those of a compilation? Checks the plan as the reader will and writes PEF and log */
samba_status samba_compile_check(samba_context *context, const samba_compile_options *options);
samba_status samba_compile_write(samba_compiler *compiler, char *path, size_t path_size);

/* compile.c: samba_compile, after which the caller has the plan that was written, and frees it; NULL: nobody wants it. */
samba_status samba_compile_kept(samba_context *context, const samba_compile_options *options, char *path, size_t path_size,
                                samba_plan *plan);
/* compile.c: a graph's plan for inference, checked, and no file; with `train` dropout stays, `unfused` makes each node a stage.
 * The caller frees the plan. */
samba_status samba_compile_plan(samba_context *context, const samba_graph *graph, bool train, bool unfused, samba_plan *plan);
struct samba_multigraph;
samba_context *samba_multigraph_context(const struct samba_multigraph *multigraph); /* multigraph.c */
/* multigraph.c: the plan of all its graphs, checked, and no file. The caller frees it. */
samba_status samba_multigraph_plan(struct samba_multigraph *multigraph, const char *name, samba_plan *plan);
/* compile.c: the compiler's end: frees it. Its plan is the caller's, NULL: nobody's, unless the status is an error */
samba_status samba_compile_hand_over(samba_compiler *compiler, samba_status status, samba_plan *plan);
/* compile.c: frees all that the compiler has made; its graphs may be NULL */
void samba_compiler_release(samba_compiler *compiler);

/* replaces compiler->graph, freeing the old one; by the graph that rewriting it gives */
void samba_compiler_take_graph(samba_compiler *compiler, samba_graph *graph);
samba_status samba_compiler_rewrite(samba_compiler *compiler, samba_rewrite_fn *rewrite, void *user);

/* concat.c: parts along a dim as one, which is the part itself where there is one; start to stop of each dim */
samba_ref samba_emit_concat(samba_graph *graph, int count, const samba_ref *inputs, int64_t dim);
samba_ref samba_emit_slice(samba_graph *graph, samba_ref input, int rank, const int64_t *start, const int64_t *stop);
/* concat.c: what simplify knows of joining and cutting; SAMBA_NONE where no rule applies */
samba_ref samba_simplify_concat(samba_graph *graph, const samba_node *node, const samba_ref *inputs);
/* window.c: what simplify knows of convolutions' windows that meet padding, or all of an image; SAMBA_NONE likewise */
samba_ref samba_simplify_window(samba_graph *graph, const samba_node *node, const samba_ref *inputs);

/* products.c: sums of shallow products as one deep product; what simplify counts of the graph that it rewrites */
typedef struct samba_reads {
    int32_t *count; /* of each node: inputs and sinks that read it */
    bool *inner;    /* a sum that one sum alone adds to */
} samba_reads;
samba_ref samba_simplify_products(samba_rewriter *rewriter, samba_ref node, const samba_reads *reads);

/* pieces.c: inputs of a concat that are computed in its memory: before buffers are given to values, and after */
samba_status samba_pieces_find(samba_compiler *compiler);
void samba_pieces_bufferize(samba_compiler *compiler);
bool samba_is_computed_in_concat(const samba_access *access, samba_ref concat, samba_ref input); /* nothing to copy of it */
static inline bool samba_is_piece(const samba_access *access, samba_ref base) { return access[base].base != base; }

/* compile.c: the plan's number of these bytes, which it has once */
samba_status samba_plan_add_blob(samba_compiler *compiler, samba_blob *blob, int32_t *index);
/* bufferize.c */
samba_status samba_plan_add_buffer(samba_compiler *compiler, int64_t bytes, bool persistent, int32_t *buffer);

/* inplace.c: while stages are made, a last reader's result may take the buffer it reads */
samba_status samba_uses_find(samba_compiler *compiler);
/* May the stage at the current position write `to` over `from`,
 * as far as other stages are concerned? Then they are one from now on. */
bool samba_share_buffer(samba_compiler *compiler, int32_t from, int32_t to);
void samba_uses_settle(samba_compiler *compiler); /* all stages: shared buffers under one number */

/* origin.c: the operators of a stage and where they come from; of one that is made of neighbours; the table's end */
samba_status samba_stage_operators(samba_compiler *compiler, const samba_group *group, samba_stage *stage);
/* words of another plan */
samba_status samba_stage_operators_link(samba_compiler *compiler, const samba_plan *from, samba_stage *stage);
samba_status samba_stage_operators_join(samba_compiler *compiler, samba_stage *stage, const samba_stage *stages, int32_t count);
void samba_origins_free(samba_compiler *compiler);

/* lower.c and its families */
samba_status samba_plan_add_stage(samba_compiler *compiler, samba_phase phase, samba_stage **stage);
/* The same for a group, with its name and its operators. */
samba_status samba_plan_add_labelled(samba_compiler *compiler, const samba_group *group, samba_stage_kind kind,
                                     samba_stage **stage);
/* Where some stages are dropped, the others move forward: to <= from. */
void samba_plan_move_stage(samba_compiler *compiler, int32_t from, int32_t to);
samba_status samba_stage_label(samba_compiler *compiler, const samba_group *group, samba_stage *stage);
/* lower_tile.c: the group's program; plan_rank and plan_shape as samba_emitter_finish takes them */
samba_status samba_lower_program(samba_compiler *compiler, int32_t group, int plan_rank, const int64_t *plan_shape,
                                 samba_stage *stage);
samba_tile samba_tile_of(samba_op op); /* lower_tile.c: of a MAP or REDUCE; SAMBA_TILE_COUNT for other classes */
samba_status samba_lower_copy(samba_compiler *compiler, const samba_copy *copy); /* lower_tile.c */
samba_status samba_lower_contract(samba_compiler *compiler, int32_t group);      /* lower_contract.c */
/* lower_contract.c: a CONTRACT node's contraction but for its buffers, and the domain [batch..., M,
 * N] of what follows on its blocks. */
samba_status samba_contract_describe(const samba_graph *graph, const samba_access *access, samba_ref anchor,
                                     samba_contract *contract, int *plan_rank, int64_t *plan_shape);
samba_status samba_lower_kernel(samba_compiler *compiler, int32_t group);    /* lower_kernel.c */
samba_status samba_lower_attention(samba_compiler *compiler, int32_t group); /* lower_attention.c */
samba_status samba_lower_line(samba_compiler *compiler, int32_t group);      /* lower_line.c */
/* The buffer that holds a value's elements in order, from a given element on; copies views that do not. lower_kernel.c */
samba_status samba_lower_contiguous(samba_compiler *compiler, samba_ref ref, samba_phase phase, samba_operand *operand);
samba_status samba_lower_move(samba_compiler *compiler, int32_t group); /* lower_move.c */

#endif
