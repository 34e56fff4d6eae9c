/* SPDX-License-Identifier: Apache-2.0
 *
 * Running: a session holds one PEF on a device, its weights and state, and runs its sections. A PEF has one graph or several
 * (multigraph.h), whose runs take turns: each gives what they share, the device's tensors, to the next, but not its activations.
 * Everything is planned at load: run allocates nothing.
 *
 * One thread uses a session at a time, and the same goes for its context: a program that runs several sessions at once makes
 * each under a context of its own. Threads may take turns. A call that finds another thread in one of the session's calls does
 * nothing and says so (STATE; samba_error_message tells that thread alone). This holds for all calls that change the session or
 * read what others change. Facts about the PEF (tensor_info, section_info and the like) may be asked at any time; warnings,
 * stats, times and freeing belong to the thread whose turn it is.
 *
 * A process made by fork goes on with copies of its parent's sessions, functions and other objects, and may make more: all that
 * work by several threads get threads anew there. A session that another thread of the parent was using during the fork stays in
 * use: it says STATE for ever.
 *
 * Device tensors are named: inputs and outputs by their names, parameters by state_dict name, a parameter's
 * gradient "<name>.grad", optimizer state "<name>.<state>" ("<name>.exp_avg") or, where it is one number, "<optimizer>.<state>"
 * ("<optimizer>.step"), by the names of torch.optim (docs/optimizers.md). */
#ifndef SAMBAFLOW_SESSION_H
#define SAMBAFLOW_SESSION_H

#include <sambaflow/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_session samba_session;

typedef struct samba_session_options {
    size_t struct_size;
    uint64_t seed;      /* of initial weights and dropout; the weights do not depend on the thread count */
    int threads;        /* 0: as many as OpenMP offers */
    const char *isa;    /* `sambaflow machine` lists them; NULL: that of the environment's SAMBAFLOW_ISA, else the best */
    const char *device; /* NULL or "cpu"; "null" plans and moves tensors but computes nothing (tests) */
    /* NULL: what `sambaflow tune` found for this machine, in PEF.tune beside the PEF, where it is there; "off": nothing; else the
     * path of such a file, FILE where it is not there. A file of another machine or PEF, or a damaged one, is left alone, with a
     * warning. It decides how sums are ordered, so it is a part of what fixes the bits. */
    const char *tune;
    /* The session is that of one of several replicas: they meet here, not in the first run with data_parallel, and where
     * threads is 0 and OMP_NUM_THREADS is not set those of one machine share its processors. */
    bool data_parallel;
    /* Each replica updates a part of the parameters, as even as can be, and keeps the optimizer's state of that part alone; then
     * it gets the others'. The results are the same bits. samba_session_save and samba_checkpoint_save are then called by every
     * replica, and the first one writes; each loads a checkpoint itself. State, and gradients that were averaged, cannot be read
     * by name. Wants data_parallel, here and in every run of OPT; has no effect for a single replica. */
    bool shard_optimizer;
    /* NULL or "float32": gradients travel between replicas as they are. "bfloat16": those of float32 travel rounded, in half the
     * bytes, and what rounding takes is added the next time; it takes as much memory as they do and is no part of a checkpoint.
     * Wants data_parallel. */
    const char *reduce_dtype;
    int reuse_input_count;
    const char *const *reuse_inputs; /* names of inputs that keep their values from step to step: see samba_run_options */
} samba_session_options;
SAMBA_API samba_session_options samba_session_defaults(void); /* the defaults, with struct_size set; begin with them */

/* Loads a PEF, allocates device memory as planned.
 * Parameters and state have the values of their initializers, drawn when a run or a reader first needs them. */
SAMBA_API samba_status samba_session_new(samba_context *context, const char *pef_path, const samba_session_options *options,
                                         samba_session **session);
SAMBA_API void samba_session_free(samba_session *session);

typedef struct samba_hyperparameter {
    const char *name;
    double value;
} samba_hyperparameter;

/* A run reads its lists, `inputs`, `outputs`, `section_types`, `hyperparameters` and the others, from where these point to. A
 * compound literal, or an array, that is made in the body of an `if` or a loop is gone at the body's end, and a pointer to it is
 * then wrong: make the list where samba_run is called, or before the body. */
typedef struct samba_run_options {
    size_t struct_size;
    int input_count;
    /* transferred by name before the run; others keep their value, and STATE, by name, if they have none. A run of FWD, or
     * of what goes on from it, that is given some inputs is given all: STATE, by name, where it reads another as an earlier
     * step had it (reuse_inputs below). One that is given none computes over what the device has */
    samba_tensor *const *inputs;
    int output_count;
    samba_tensor *const *outputs; /* host tensors that receive outputs by name after the run; others stay on the device */
    int hyperparameter_count;
    /* Stay until given again. "p" where nothing is dropped is a warning. A run reads them from where this points to. */
    const samba_hyperparameter *hyperparameters;
    int section_type_count;
    const char *const
        *section_types; /* ZEROGRAD FWD BCKWD REDUCE GRADNORM OPT, any case: all sections of each, in the order given; none: the
                                         schedule. Both leave out what a later section of the run computes again (redone_by
                                         below). ZEROGRAD, GRADNORM and REDUCE are left out where the graph needs none,
                                         with a warning; any other type that it lacks is NAME. REDUCE
                                         that is named right behind GRADNORM runs before it: the norm is that of the mean */
    int section_id_count;
    const int *section_ids; /* instead of section_types, in the order given */
    /* false, as torch's eval(): every dropout rate is 0 and samba_training too, in the FWD of this run and in the BCKWD that goes
     * on from it, whichever run that is of. So norms take their running statistics, which stay, as do counts of batches. FWD
     * alone does not say that it evaluates: with true it moves them, as the first part of a step. A graph that was compiled for
     * inference never trains, nor does a layer that is frozen */
    bool train;
    /* the schedule's calls from this one on; -1: from the first.
     * Calls are numbered from 0, each graph's, as the .pef.log shows */
    int run_from_call_id;
    /* up to this one, which is not run; -1: to the end. Runs of [0, k) and [k, end) are one run of the schedule, gradient
     * accumulation and dropout too */
    int run_until_call_id;
    int output_gradient_count;
    samba_tensor *const *output_gradients; /* what the backward starts from, "<output>.grad": set before the run, and stay */
    /* which graph runs: its schedule, or those of its sections that are asked for; or which function, of which that size runs
     * whose inputs have the shapes that are given (samba_multigraph_add_size), without inputs the one that ran last. NULL: the
     * only graph, or the only function */
    const char *graph_name;
    /* This process is one of several replicas (parallel.h), and each calls samba_run alike, with a batch of its own: REDUCE
     * averages their gradients, and GRADNORM and OPT want it behind BCKWD. Where sync_batch_norm exchanges statistics, FWD, BCKWD
     * and REDUCE go on from each other with data_parallel all or none (STATE); a run that does not train exchanges none. ARGUMENT
     * where the PEF was compiled without data_parallel. The first such run compares what replicas must have alike and gives
     * replica 0's parameters and buffers to all. */
    bool data_parallel;
    bool reduce_on_rdu; /* device memory goes to the network as it is; the CPU's memory always does */
    /* NULL or "normal": in the schedule's order. "inorder": gradients travel while BCKWD makes others; sections run in the same
     * order. "optimal": OPT may begin where its gradients have come, too. The results are the same bits */
    const char *data_parallel_mode;
    /* Names of inputs that this run is not given and that keep their values, in this and all later runs: a mask, a constant. Nor
     * need those be given again that samba_session_set has set, until a run is given them, and those whose memory
     * samba_session_input gave. NAME: there is no such input; ARGUMENT: this run is given it */
    int reuse_input_count;
    const char *const *reuse_inputs;
} samba_run_options;
SAMBA_API samba_run_options samba_run_defaults(void); /* train = true, whole schedule, nothing moved */

/* Runs sections. Nothing is transferred or changed when an argument is wrong. Errors name the tensor or word, what was
 * expected and what was given: NAME, SHAPE, DTYPE, ARGUMENT, STATE. BCKWD goes on from the FWD of its graph, if no other graph
 * has run since. OPT of a graph that clips needs GRADNORM since BCKWD. Where an index that the graph computes is out of range,
 * ARGUMENT: FWD and BCKWD ran (buffers that FWD assigns have changed), OPT did not, and the step's gradients are gone. A
 * non-finite loss is no error: the run goes on, and samba_session_warning says so once. Of a graph that accumulates gradients
 * over N runs (samba_compile_options.grad_accumulation_steps) the session counts runs of the whole schedule: every N-th runs
 * REDUCE, GRADNORM and OPT too, and its learning rate is that of the update; the others are FWD and BCKWD, of a batch each. */
SAMBA_API samba_status samba_run(samba_session *session, const samba_run_options *options);

/* The oldest warning not yet taken ("" when none), e.g. that a loss became NaN, or which section types a run asked for that the
 * PEF does not need. Each is given once. */
SAMBA_API const char *samba_session_warning(samba_session *session);

/* Host -> device and device -> host by the tensor's name; dtypes and shapes must be equal. */
SAMBA_API samba_status samba_session_set(samba_session *session, const samba_tensor *tensor);
SAMBA_API samba_status samba_session_get(samba_session *session, samba_tensor *tensor);
/* A tensor that is the session's own memory of an input, where the device works in this process's memory (cpu and null do, others
 * are UNSUPPORTED). A batch that is written there is given to samba_run as any other, but nothing is copied. Use it while the
 * session lives, and as it is: a run refuses other views of that memory. */
SAMBA_API samba_status samba_session_input(samba_session *session, const char *name, samba_tensor **tensor);
/* A new host tensor with a copy of the named device tensor. */
SAMBA_API samba_status samba_session_get_by_name(samba_session *session, const char *name, samba_tensor **tensor);

/* One file, safetensors (checkpoint.h has checkpoints to resume from): parameters, buffers and, with_state, optimizer state. save
 * is atomic. load takes parameters by name: all of the PEF's must be there with equal dtype and shape, others are ignored; state
 * is loaded if there. load also takes what Hugging Face's libraries and checkpoints have:
 * a folder with model.safetensors, or with model.safetensors.index.json and the files that it names, or that index. */
SAMBA_API samba_status samba_session_save(samba_session *session, const char *path, bool with_state);
SAMBA_API samba_status samba_session_load(samba_session *session, const char *path);

typedef struct samba_load_options {
    size_t struct_size;
    bool partial;            /* what is not given keeps its value; where nothing at all fits a name it is NAME */
    const char *drop_prefix; /* NULL, or what names begin with that the PEF's do not: "base_model.model." */
    int *loaded;             /* NULL, or receives how many of the PEF's tensors were given */
} samba_load_options;
SAMBA_API samba_load_options samba_load_defaults(void); /* the defaults, with struct_size set; begin with them */
/* The same, otherwise; and of tensors in memory, which are copied. Everything is checked before anything changes. Errors: FILE,
 * FORMAT of a file; NAME: tensors are missing, or two have one name; DTYPE, SHAPE. */
SAMBA_API samba_status samba_session_load_with(samba_session *session, const char *path,
                                               const samba_load_options *options /* may be NULL */);
SAMBA_API samba_status samba_session_load_tensors(samba_session *session, int count, samba_tensor *const *tensors,
                                                  const samba_load_options *options /* may be NULL */);

typedef enum samba_tensor_kind { /* numbers are part of the file format */
                                 SAMBA_KIND_INPUT = 0,
                                 SAMBA_KIND_PARAMETER = 1,
                                 SAMBA_KIND_BUFFER = 2, /* buffers and optimizer state */
                                 SAMBA_KIND_GRADIENT = 3,
                                 SAMBA_KIND_OUTPUT = 4
} samba_tensor_kind;
typedef struct samba_tensor_info {
    const char *name;
    samba_tensor_kind kind;
    samba_dtype dtype;
    int rank;
    int64_t shape[SAMBA_MAX_RANK];
    int64_t bytes;
} samba_tensor_info;
SAMBA_API int samba_session_tensor_count(const samba_session *session); /* how many device tensors it has */
/* Facts of a device tensor, by index; ARGUMENT where there is none. */
SAMBA_API samba_status samba_session_tensor_info(const samba_session *session, int index, samba_tensor_info *info);
/* The value with which each element of an output's gradient ("<output>.grad") starts when the PEF is loaded: 1 where the
 * backward starts from the output, 0 where another output is computed from it, NaN where it has no gradient of its own. NAME
 * where there is no such output. */
SAMBA_API samba_status samba_session_start(const samba_session *session, const char *output, double *start);

typedef struct samba_section_info {
    int id;
    const char *type; /* "FWD" ... */
    int stage_count;
    int64_t flops, bytes;
    const char *redone_by; /* a section type that computes the same again: runs of both leave this section out; NULL: none */
    int graph;             /* whose it is */
    const char *name;      /* the modules it computes, where a type has several sections */
    int64_t fast_memory;   /* bytes of memory that its stages touch */
    /* > 0: of FWD and BCKWD (mapping spatial; its type is "FWD+BCKWD"), the first so many stages FWD's.
     * Runs of either type alone run its part */
    int forward_stages;
} samba_section_info;
SAMBA_API int samba_session_section_count(const samba_session *session); /* of all graphs */
/* Length of the schedule, of the first graph where there are several: call ids are 0 to one less. */
SAMBA_API int samba_session_call_count(const samba_session *session);
SAMBA_API samba_status samba_session_section_info(const samba_session *session, int index, samba_section_info *info);
/* Names of hyperparameters (argins), with the value in force. */
SAMBA_API int samba_session_hyperparameter_count(const samba_session *session);
SAMBA_API samba_status samba_session_hyperparameter(const samba_session *session, int index, samba_hyperparameter *info);
/* Sets them without a run, as samba_run does before one: they stay until given again. Where one is refused none is set. */
SAMBA_API samba_status samba_session_set_hyperparameters(samba_session *session, int count, const samba_hyperparameter *values);

typedef struct
    samba_memory_info { /* bytes. A session knows more than its PEF: scratch, and among constants the weights of inference as
                                      this machine's kernels want them packed */
    int64_t parameters, state, gradients, inputs_outputs, activations, constants, scratch, total;
} samba_memory_info;
/* Bytes of the device's memory, by purpose. */
SAMBA_API samba_status samba_session_memory(const samba_session *session, samba_memory_info *memory);

typedef struct samba_run_stats {
    int64_t runs;          /* since the session began or stats were reset */
    double kernel_seconds; /* inside sections, copies of inputs and outputs that are one piece of memory among them */
    double total_seconds;  /* inside samba_run */
} samba_run_stats;
SAMBA_API void samba_session_stats(const samba_session *session, samba_run_stats *stats); /* what runs took so far */
SAMBA_API void samba_session_reset_stats(samba_session *session);                         /* counts from 0 again */
/* Dropout seeds are drawn from `seed` from here on as by a new session, also where the caller had given some. */
SAMBA_API samba_status samba_session_reset_random(samba_session *session, uint64_t seed);
/* Replica 0's parameters and buffers to all others, which all call it, once a session; else the first run with data_parallel does
 * so. Nothing where there is one replica. ARGUMENT, UNSUPPORTED, NETWORK, as that run has them. */
SAMBA_API samba_status samba_session_share(samba_session *session);
typedef struct samba_graph_info { /* strings live as long as the session */
    const char *name;
    const char *text; /* of what was traced (docs/graph.md); large literals stand beside it: samba_session_literal */
    bool inference;
    int grad_accumulation_steps;
    int first_section, section_count; /* ids of its sections; the schedule's calls */
    int call_count;
} samba_graph_info;
SAMBA_API int samba_session_graph_count(const samba_session *session);
SAMBA_API samba_status samba_session_graph_info(const samba_session *session, int index, samba_graph_info *info);
/* The literals that stand beside a graph's text, which refers to them by number: what samba_graph_parse_beside takes. The bytes
 * live as long as the session. 0 where there is no such graph. */
SAMBA_API int64_t samba_session_literal_count(const samba_session *session, int graph);
SAMBA_API samba_status samba_session_literal(const samba_session *session, int graph, int64_t number, samba_literal *literal);
/* Does the graph have the tensor of that name? */
SAMBA_API bool samba_session_graph_has(const samba_session *session, int index, const char *tensor);
/* Which graph a run of these inputs would run (samba_run_options.graph_name): its index. The inputs need no memory. ARGUMENT,
 * NAME, SHAPE, as samba_run has them. */
SAMBA_API samba_status samba_session_graph_for(const samba_session *session, const char *name, int input_count,
                                               samba_tensor *const *inputs, int *index);
/* What the device calls a tensor of a graph: its name, or, of a size that has it in a shape of its own, "x@11". NULL where the
 * graph has none of that name. Lives as long as the session. */
SAMBA_API const char *samba_session_name_in(const samba_session *session, int graph, const char *name);
/* How a graph was mapped: "section" or "spatial"; NULL where there is no such graph. */
SAMBA_API const char *samba_session_mapping(const samba_session *session, int graph);
/* Name of the graph that was traced, the first of several. Lives as long as the session. */
SAMBA_API const char *samba_session_graph_name(const samba_session *session);
/* Text of the graph that was traced, the first of several, as the PEF carries it (docs/graph.md): large literals stand beside it.
 * Lives as long as the session. */
SAMBA_API const char *samba_session_graph_text(const samba_session *session);
SAMBA_API int samba_session_threads(const samba_session *session);
SAMBA_API const char *samba_session_isa(const samba_session *session);
typedef struct samba_tuning { /* strings live as long as the session */
    const char *path;         /* of the tune file in use; NULL: none */
    int choices;              /* stages that it chooses for */
    const char *warning;      /* why a file is not used, as samba_session_warning says it once; NULL: there is no such thing */
} samba_tuning;
SAMBA_API samba_status samba_session_tuning(const samba_session *session, samba_tuning *tuning);

#ifdef __cplusplus
}
#endif
#endif
