/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a session. One idea a file: session.c makes and describes it, transfer.c moves tensors, hyper.c keeps
 * hyperparameters, given.c knows which inputs have values, reuse.c which of them are an
 * earlier step's, sizes.c which graph a run means, select.c decides which sections a run
 * has, run.c runs them, weights.c fills parameters, checkpoint.c saves and loads them as one file; checkpoint.h has the folders
 * that a training resumes from.
 *
 * Everything a run needs has its room in the session's arena from the start, so a run allocates nothing. A run first checks all
 * its arguments by functions named check_... and select, which change nothing but room that only they use; from the first change
 * on only the device can fail. */
#ifndef SAMBA_RUNTIME_H
#define SAMBA_RUNTIME_H

#include <stdatomic.h>

#include "base/null.h"
#include "base/index.h"
#include "plan/plan.h"
#include "device/device.h"
#include "parallel/replicas.h"
#include "runtime/shard.h"
#include "runtime/tune.h"

typedef struct samba_argin_state {
    double value; /* in force; integers are exact up to 2^53 */
    bool given;   /* by the caller: a seed that was given stays */
} samba_argin_state;

typedef enum samba_warning { SAMBA_WARNING_QUIET = 0, SAMBA_WARNING_PENDING = 1, SAMBA_WARNING_TOLD = 2 } samba_warning;
typedef struct samba_loss_state { /* of one scalar loss */
    int32_t tensor;
    samba_warning warning;
    int64_t run; /* the one in which it became `value` */
    double value;
} samba_loss_state;

typedef struct samba_run_order { /* what of a graph's FWD and BCKWD has run and is still in memory: select.c */
    int32_t done;                /* links 0 .. done - 1 have, one after the other */
    int32_t redone;              /* as many of those that go on from FWD and are left out where BCKWD follows */
    int32_t spoiled;             /* the section after FWD and BCKWD whose run took their memory; -1: none did */
} samba_run_order;

typedef struct samba_graph_state {
    int64_t micro_step; /* of gradient accumulation: micro-batches done since ZEROGRAD */
    bool backward_done;
    bool gradients_wait; /* were begun or made, and no optimizer step has taken them yet */
    int32_t reduced;     /* sections of REDUCE that have run since BCKWD, between replicas: the first so many */
    bool norm_known;     /* GRADNORM has run since BCKWD */
    bool train;          /* the mode of the last FWD */
    bool exchanges;      /* FWD or BCKWD exchanges statistics between replicas */
    bool together;       /* the last FWD ran with data_parallel */
    int32_t forward_links, link_count;
    samba_run_order order;
} samba_graph_state;

typedef struct samba_exchange_row { /* what a section exchanges with other replicas, and what that has taken: exchange_times.c */
    int32_t section;
    samba_exchange_way way;
    int64_t bytes; /* that this replica sends in a run, and gets */
    int64_t runs;
    double seconds, waited;
    int64_t first, count; /* exchanges of the run in hand, by number */
} samba_exchange_row;

typedef struct samba_sized_tensor { /* `tensor` is what `graph` has in the place of `plain`, in a shape of its own */
    int32_t graph, plain, tensor;
} samba_sized_tensor;

typedef struct samba_reuse_function { /* a function: graphs that are sizes of one another, or one graph */
    uint8_t *ages;                    /* per tensor, of inputs; NULL: the graph is a further size of an earlier one */
    bool anew;                        /* the step in hand was given inputs */
} samba_reuse_function;

typedef struct samba_reuse { /* which inputs keep an earlier step's values: reuse.c */
    int32_t *ends, *reads;   /* per thing that runs: where its inputs end in `reads`, a list for all */
    bool *allowed;           /* per tensor: asked for, or the caller holds its memory */
    bool *set;               /* per tensor: by samba_session_set, and no run was given it since */
    int32_t *function_of;    /* per graph: its function, by the number of that one's first graph */
    samba_reuse_function *functions;
} samba_reuse;

struct samba_session {
    samba_context *context;
    atomic_bool busy; /* a thread is in a call that uses it */
    samba_plan plan;
    bool in_place;      /* inputs and outputs are where the caller has them: function.c */
    const char *source; /* "PEF" or "function", for messages */
    samba_arena arena;  /* the arrays below */
    samba_names tensors;
    samba_device *device;
    uint64_t seed;
    int threads;
    samba_argin_state *argins; /* per argin of the plan */
    /* per tensor: an input whose indices, as they were set, are outside their range; a run that reads them is refused */
    bool *bad_inputs;
    int32_t bad_count; /* of them */
    bool *undrawn;     /* per tensor: the device does not have its initial values yet (weights.c) */
    int32_t undrawn_count;
    int32_t *list; /* room for the sections of a run, as many as any run had; at first for the schedule */
    int64_t list_room;
    samba_device_copy *copies; /* room for what a run copies in and out: tensor_count */
    /* what runs run: the plan's sections and, behind them, the parts of those that are FWD and BCKWD in one */
    int32_t run_count;
    /* per section: three of them (-1: not there), FWD's, what BCKWD computes again, BCKWD's; all -1: a section of one phase */
    int32_t *parts;
    int32_t *links;  /* per thing that runs: its number in the chain of those that go on from each other; select.c */
    bool *given;     /* per tensor: it has values, or is no input; given.c */
    bool *needs;     /* per tensor: an input that stages read, and that none writes */
    bool *fed;       /* per thing that runs: all inputs that it reads were given */
    int32_t missing; /* inputs that stages read and that were not */
    samba_reuse reuse;
    int32_t *sharer;           /* per tensor: the next in its buffer, around; sizes.c */
    bool *overwritten;         /* per tensor: another has written into that memory since */
    samba_sized_tensor *sized; /* sizes.c */
    int32_t sized_count;
    int32_t last;            /* what ran last; -1: nothing did */
    const char **candidates; /* room for names, for "did you mean" */
    samba_loss_state *losses;
    int32_t loss_count;
    samba_warning unused_rate; /* a dropout rate was given, and there is no dropout */
    samba_warning eval_step;   /* a run with train false has taken a step */
    bool launch_looked_at, launch_told;
    char launch_warning[448];  /* of launched.c; "": there is none */
    int64_t forward_runs;      /* runs with a FWD section: the dropout seeds' count */
    int64_t runs;              /* all runs, for messages */
    samba_graph_state *graphs; /* per graph of the plan */
    int32_t graph;             /* that ran last: activations in memory are its own; -1 none */
    samba_run_stats stats;
    samba_profiler profiler; /* the device notes in it while it has it */
    /* phases whose sections runs asked for and the PEF needs none of, a bit each;
     * of these, what samba_session_warning has told */
    unsigned skipped, skipped_told;
    struct samba_joined *joined;             /* to other replicas: replicas.c; NULL: it is not */
    bool shards_optimizer, rounds_gradients; /* as options ask for: shard_optimizer; reduce_dtype is bfloat16 */
    samba_shards shards;
    samba_exchange_row *exchanges;
    int32_t exchange_count;
    int64_t state_loads; /* times that optimizer state was loaded */
    char *whole_state;   /* of all replicas, at the first, while it saves: shard_state.c */
    size_t whole_bytes;
    samba_tuned tuned; /* choices of a tune file, tune.c */
    bool untuned_told; /* its warning was given */
    char warning[256];
};

/* ---- one thread at a time ---- */
/* Every public call that changes the session or reads what others change begins and ends with these. ARGUMENT without a session.
 * STATE, and nothing was touched, where another thread is between them;
 * threads that take turns see what the one before has done. */
static inline samba_status samba_session_enter(samba_session *session, const char *call)
{
    if (!session)
        return samba_fail_null(NULL, call, "session");
    if (!atomic_exchange_explicit(&session->busy, true, memory_order_acquire))
        return SAMBA_OK;
    return samba_fail_aside(session->context, SAMBA_ERROR_STATE,
                            "%s: another thread is using this session: give each thread a session of its own, made under a "
                            "context of its own, or take turns",
                            call);
}

static inline samba_status samba_session_leave(samba_session *session, samba_status status)
{
    atomic_store_explicit(&session->busy, false, memory_order_release);
    return status;
}

/* ---- session.c ---- */
/* A session of a checked plan, which it takes, also where it fails; `source` ("PEF", "function") is for messages and stays the
 * caller's. Memory is given to the first `resident` bytes:
 * to all, or to all but inputs and outputs, which lie behind and are in place. */
samba_status samba_session_of_plan(samba_context *context, samba_plan *plan, int64_t resident, const char *source,
                                   const samba_session_options *options, samba_session **session);
/* The memory that a session of this plan would take, with the scratch and the packed constants of this machine; nothing is
 * loaded. threads 0: as many as OpenMP offers, `used` says how many; isa NULL: the best, and `isa_used` says which. */
samba_status samba_plan_memory(samba_context *context, const samba_plan *plan, int threads, const char *isa,
                               samba_memory_info *memory, int *used, const char **isa_used);
/* The same, and how its stages would be prepared here; texts and lists are in the arena. */
typedef struct samba_plan_here {
    samba_memory_info memory;
    int threads;
    const char *isa;
    const char **roads; /* per stage; NULL: its kind has one road alone */
    samba_tuned tuned;
} samba_plan_here;
samba_status samba_plan_prepare(samba_context *context, samba_arena *arena, const samba_plan *plan, int threads, const char *isa,
                                const char *tune, samba_plan_here *here);

/* ---- words.c: lists in messages, cut with "..." when they are long ---- */
typedef struct samba_words {
    char text[384];
    int used, count;
    bool full;
} samba_words;
void samba_words_add(samba_words *words, const char *word); /* "\"a\", \"b\"" */
/* The list, or "none". */
const char *samba_words_text(const samba_words *words);

/* ---- transfer.c ---- */
/* The tensor of that name; NAME lists those of the kind (-1: any). */
samba_status samba_session_find(const samba_session *session, const char *name, int kind, int32_t *tensor);
/* dtype, shape, memory and, for inputs, the range of indices. `what` begins the message: "input". */
samba_status samba_check_host_source(const samba_session *session, int32_t tensor, const samba_tensor *host, const char *what);
/* Whether what an input now is on the device has bad indices. */
static inline void samba_note_input(samba_session *session, int32_t tensor, bool bad)
{
    session->bad_count += bad - session->bad_inputs[tensor];
    session->bad_inputs[tensor] = bad;
}
/* The range of indices of an input as it is on the device. */
samba_status samba_check_own_input(const samba_session *session, int32_t tensor);
samba_status samba_check_host_target(const samba_session *session, int32_t tensor, const samba_tensor *host, const char *what);
samba_status samba_transfer_in(samba_session *session, int32_t tensor, const samba_tensor *host);
samba_status samba_transfer_out(samba_session *session, int32_t tensor, samba_tensor *host);
/* A new host tensor with a copy of a device tensor. */
samba_status samba_session_copy(samba_session *session, int32_t tensor, samba_tensor **host);
/* Where the tensor moves in one piece, or has no elements, describes the copy and returns true. */
bool samba_transfer_is_copy(const samba_session *session, int32_t tensor, const samba_tensor *host, samba_device_copy *copy);
static inline int64_t samba_session_offset(const samba_session *session, int32_t buffer)
{
    return session->plan.buffers[buffer].offset;
}

/* ---- hyper.c ---- */
samba_status samba_hyper_start(samba_session *session); /* the plan's values to the device */
samba_status samba_check_hyper(const samba_session *session, const samba_hyperparameter *given);
samba_status samba_hyper_set(samba_session *session, const samba_hyperparameter *given); /* a checked one */
/* this one alone, a checked value */
samba_status samba_hyper_restore(samba_session *session, int32_t index, double value, bool given);
samba_status samba_hyper_draw_seeds(samba_session *session); /* of dropouts whose seed was not given: new for each forward run */
samba_status samba_hyper_replicas(samba_session *session, int count); /* that train together in the run that comes */
samba_status samba_hyper_train(samba_session *session, bool on); /* rates and `training` on the device: 0, or those in force */

/* ---- select.c ---- */
typedef struct samba_selection { /* what a run runs */
    int32_t graph;
    const int32_t *sections; /* in order */
    int32_t count;
    bool ends_schedule;              /* has the last call of the plan's own: a micro-batch is done */
    bool begins;                     /* has the first section of FWD: masks of dropout are new */
    bool computes;                   /* has a section of FWD or BCKWD: losses may have changed */
    bool steps;                      /* has a section of OPT */
    bool backward;                   /* the last section of BCKWD: there are gradients */
    samba_run_order order;           /* the graph's after it */
    int32_t last;                    /* the session's */
    bool gradients_wait, norm_known; /* the graph's after it */
    int32_t reduced;                 /* likewise */
    bool train;                      /* the mode of its FWD and BCKWD, which go on in that of the FWD before them */
    bool together;                   /* so is this: with data_parallel */
    unsigned skipped;                /* phases asked for that the graph needs no section of, a bit each */
} samba_selection;
/* Room for it, and the parts of sections that are FWD and BCKWD in one, behind the plan's sections. */
samba_status samba_select_begin(samba_session *session);
/* NAME, ARGUMENT, STATE. Writes only the session's list, which grows where types repeat. */
samba_status samba_select_sections(samba_session *session, const samba_run_options *options, samba_selection *selection);

/* Have all sections of REDUCE of the graph run, of which there are some? */
bool samba_all_reduced(const samba_session *session, int32_t graph, int32_t reduced);

/* ---- sizes.c ---- */
samba_status samba_sizes_begin(samba_session *session); /* after the names are there */
/* The graph, or the function of several sizes, whose name is most like `name`, in `found`; NULL: none is. */
const char *samba_nearest_graph(const samba_session *session, const char *name, char found[128]);
/* The graph of that name, or that size of the function of that name whose inputs are shaped as those given; NULL: the only one,
 * or the only function. ARGUMENT, NAME, SHAPE */
samba_status samba_select_graph(const samba_session *session, const char *name, int input_count, samba_tensor *const *inputs,
                                int32_t *graph);
/* What a name means in a graph: the size's own tensor, where there is one. -1: nothing. */
int32_t samba_sizes_find(const samba_session *session, int32_t graph, const char *name);
/* The size of a tensor, called by its first one's name, that has the host's shape; itself where none has. */
int32_t samba_sizes_of_shape(const samba_session *session, int32_t tensor, const samba_tensor *host);
void samba_sizes_take(samba_session *session, int32_t tensor);        /* memory that sizes share has its values from here on */
void samba_sizes_take_outputs(samba_session *session, int32_t graph); /* which has run */
samba_status samba_sizes_check(const samba_session *session, int32_t tensor); /* STATE: it has another size's */

/* ---- given.c ---- */
samba_status samba_given_begin(samba_session *session); /* room for it; after samba_select_begin */
typedef enum samba_giver { SAMBA_GIVEN_BY_RUN, SAMBA_GIVEN_BY_SET, SAMBA_GIVEN_BY_HOLDER } samba_giver;
/* It has values from here on. */
void samba_given_note(samba_session *session, int32_t tensor, samba_giver giver);
void samba_given_forget(samba_session *session, int32_t tensor); /* an input's are gone; nothing of what is none */
/* STATE, by the names of inputs that the run would read and that neither it nor anything before gives. Writes only `fed`. */
samba_status samba_check_given(const samba_session *session, const samba_run_options *options, const samba_selection *selection);
bool samba_section_reads(const samba_session *session, int32_t section, int32_t tensor);

/* ---- reuse.c ---- */
/* Room for it, and what options name; after samba_given_begin and samba_sizes_begin. NAME, ARGUMENT */
samba_status samba_reuse_begin(samba_session *session, const samba_session_options *options);
void samba_reuse_given(samba_session *session, int32_t tensor, samba_giver giver);
/* STATE, by the names of inputs that the run would take from an earlier step, beside those that it is given. */
samba_status samba_check_reuse(const samba_session *session, const samba_run_options *options, const samba_selection *selection);
/* Of a run that begins, with its inputs given. */
void samba_reuse_note(samba_session *session, const samba_run_options *options, const samba_selection *selection);

/* ---- run.c ---- */
samba_status samba_run_device(samba_session *session, const samba_device_run *work); /* and waits for it */

/* ---- replicas.c ---- */
typedef struct samba_joined samba_joined;
typedef enum samba_replica_mode {
    SAMBA_MODE_NORMAL,
    SAMBA_MODE_INORDER,
    SAMBA_MODE_OPTIMAL,
    SAMBA_MODE_COUNT
} samba_replica_mode;
extern const char *const samba_replica_modes[SAMBA_MODE_COUNT]; /* "normal" "inorder" "optimal" */
/* With all other replicas, once. ARGUMENT where they have not all the same. */
samba_status samba_session_join(samba_session *session);
void samba_session_part(samba_session *session);
int samba_session_rank(const samba_session *session);
int samba_session_size(const samba_session *session);
const samba_world *samba_session_world(const samba_session *session); /* that it has joined */
int samba_session_sharers(const samba_session *session);              /* replicas on its processors */
/* How replicas are to run a graph. ARGUMENT, NAME, UNSUPPORTED, STATE */
samba_status samba_check_replicas(const samba_session *session, int32_t graph, const samba_run_options *options,
                                  samba_replica_mode *mode);
samba_status samba_share_weights(samba_session *session); /* replica 0's to all, once */
/* As the device runs it, with exchanges in it: those of FWD and BCKWD where the run trains. */
samba_status samba_run_replicas(samba_session *session, const samba_device_run *work, samba_replica_mode mode, bool train);
/* Does the session run the section between two runs of the device? */
bool samba_is_exchange(const samba_session *session, int32_t at);

int64_t samba_session_rest_bytes(const samba_session *session); /* of memory for what rounding has left of gradients */
/* A session that shards the optimizer does it with all replicas. ARGUMENT */
samba_status samba_check_shards(const samba_session *session, const samba_run_options *options, const samba_selection *selection);

/* ---- exchange_times.c ---- */
samba_status samba_exchanges_begin(samba_session *session); /* rows, of a session that has joined others */
/* Section `at` has asked for exchanges `first` .. `end` - 1. */
void samba_exchanges_note(samba_session *session, int32_t at, int64_t first, int64_t end);
void samba_exchanges_settle(samba_session *session, const samba_exchange *exchange); /* a run is over, and all are done */

/* ---- shard_state.c ---- */
/* A save of a session that shards the optimizer is one of all replicas: the first gets the state of all and writes, the others
 * wait for how it went. Between begin and end samba_session_copy gives whole tensors. *writes: this one does. */
samba_status samba_save_begin(samba_session *session, bool *writes);
samba_status samba_save_end(samba_session *session, samba_status status);
/* Of a tensor that is whole here, or while samba_save_begin has it. UNSUPPORTED: "..." */
samba_status samba_check_whole(const samba_session *session, int32_t tensor);
/* Where the whole of a sharded tensor lies while a save has it; NULL: it has not. */
const char *samba_whole_state(const samba_session *session, int32_t tensor);

/* ---- launched.c ---- */
/* Before a training run: whether it is one that nobody wants, which a warning says. All replicas call it alike. */
samba_status samba_look_at_launch(samba_session *session, const samba_run_options *options);

/* ---- profile.c ---- */
void samba_time_note(samba_time *time, double seconds); /* of a run */
void samba_profiler_free(samba_session *session);
/* The way a stage is computed; NULL: its kind has one way. */
const char *samba_session_road(const samba_session *session, int32_t stage);

/* ---- checkpoint.c ---- */
/* Is the tensor's name that of one of the kind, and then `ending`? */
bool samba_is_of(const samba_session *session, const samba_plan_tensor *tensor, const char *ending, samba_tensor_kind kind);

/* ---- weights.c ---- */
/* Parameters, buffers and gradients have the values of their initializers. */
void samba_weights_begin(samba_session *session);                        /* none is drawn yet */
void samba_weights_are_set(samba_session *session, int32_t tensor);      /* nor has it to be */
samba_status samba_weights_need(samba_session *session, int32_t tensor); /* before it is read */
samba_status samba_weights_need_all(samba_session *session);             /* before a run */

#endif
