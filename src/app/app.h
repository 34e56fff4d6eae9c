/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the application driver and the sambaflow program share: reading numbers from a command line, tables and JSON,
 * descriptions of a PEF, random inputs, reports of measurements; and the driver's own parts. Unlike the rest of the library this
 * room prints, and its command lines may end the process. */
#ifndef SAMBA_APP_INTERNAL_H
#define SAMBA_APP_INTERNAL_H

#include "plan/optimizers.h"
#include "plan/plan.h"
#include "runtime/runtime.h"
#include <argp.h>
#include <jansson.h>
#include <sambaflow/app.h>
#include <sambaflow/train.h>

/* ---- numbers and words of a command line (app/words.c):
 * each ends the process as argp_error does when the text is not what is wanted ---- */
int64_t samba_word_integer(struct argp_state *state, const char *option, const char *text, int64_t low, int64_t high);
/* "65536", "64KiB", "1G": as everywhere here K, M and G are powers of 1024. */
int64_t samba_word_bytes(struct argp_state *state, const char *option, const char *text, int64_t low, int64_t high);
double samba_word_real(struct argp_state *state, const char *option, const char *text, double low, double high);
int samba_word_choice(struct argp_state *state, const char *option, const char *text, const char *const *choices, int count);
/* One row an option, in the order of the help; a row without a name is the heading of those behind it. */
typedef enum samba_option_kind {
    SAMBA_OPTION_NOTHING, /* taken without effect */
    SAMBA_OPTION_FLAG,    /* bool */
    SAMBA_OPTION_TEXT,    /* const char *, in argv */
    SAMBA_OPTION_INTEGER, /* int64_t in [low, high] */
    SAMBA_OPTION_INT,     /* int in [low, high] */
    SAMBA_OPTION_REAL,    /* double in [low, high] */
    SAMBA_OPTION_CHOICE,  /* an enum: one of `high` words */
    SAMBA_OPTION_OTHER    /* what `take` makes of it */
} samba_option_kind;
typedef struct samba_option_row samba_option_row;
struct samba_option_row {
    int commands;                    /* a bit each, of those that take it */
    const char *name, *value, *help; /* value: NULL without one */
    int letter;                      /* its short form; 0: none */
    int group;                       /* -1: behind all others, as --version; 0: its heading's */
    samba_option_kind kind;
    size_t at; /* in what the caller parses into; of OTHER whatever it means to `take` */
    int64_t low, high;
    const char *const *choices;
    void (*take)(void *into, const samba_option_row *row, char *text, struct argp_state *state);
};
/* Of rows that parse into fields of a struct `parse`. */
#define FLAG_AT(field) .kind = SAMBA_OPTION_FLAG, .at = offsetof(parse, field)
#define TEXT_AT(field) .kind = SAMBA_OPTION_TEXT, .at = offsetof(parse, field)
#define INTEGER_AT(field, least, most) .kind = SAMBA_OPTION_INTEGER, .at = offsetof(parse, field), .low = least, .high = most
#define INT_AT(field, least, most) .kind = SAMBA_OPTION_INT, .at = offsetof(parse, field), .low = least, .high = most
#define REAL_AT(field, least, most) .kind = SAMBA_OPTION_REAL, .at = offsetof(parse, field), .low = least, .high = most
#define CHOICE_AT(field, words, count) .kind = SAMBA_OPTION_CHOICE, .at = offsetof(parse, field), .choices = words, .high = count
#define OTHER(how) .kind = SAMBA_OPTION_OTHER, .take = how
#define NO_EFFECT .kind = SAMBA_OPTION_NOTHING
struct argp_option samba_option_of(const samba_option_row *rows, int row); /* as argp has it */
int samba_option_find(const samba_option_row *rows, int count, int key);   /* the row of argp's key; -1: none */
void samba_option_take(const samba_option_row *row, void *into, char *text, struct argp_state *state);
/* ---- command lines (app/command.c) ---- */
typedef struct samba_command_word { /* in lists that end with a name of NULL */
    const char *name, *summary;
} samba_command_word;
/* As argp has the rows, and an end behind: at most count + 1. Those that not all of `commands`, bits, have are taken and shown
 * nowhere. How many. */
int samba_options_list(const samba_option_row *rows, int count, int commands, struct argp_option *options);
/* As argp_parse; but where the words ask for a manual page or for what completes the last one, prints that and ends the process.
 * `commands`: of which one may be the next word; NULL: none. argv[0] is the command's whole name, "sambaflow lm serve". */
void samba_command_parse(const struct argp *argp, const samba_command_word *commands, int argc, char **argv, void *input);
/* Adds a line for each to the text, its name and its summary, which goes on below itself where a terminal of 80 columns ends. */
void samba_command_list(char *text, size_t size, const samba_command_word *commands);
/* At ARGP_KEY_INIT: refuses a word that is no option, with the nearest one. */
void samba_words_check(struct argp_state *state);
/* Refuses a word that is no command, with the nearest one and all; NULL: none was given. */
void samba_command_unknown(const struct argp_state *state, const char *word, const samba_command_word *commands);
/* Of an option --version. */
void samba_print_version(void *into, const samba_option_row *row, char *text, struct argp_state *state);
/* Do the words only ask what there is (--help, --version ...)? */
bool samba_words_ask(int argc, char **argv);

/* A copy of argv in which the short forms of the documents are argp's: "-mb N", "-mb=N" and "-mbN" become "--microbatch-size=N",
 * "-b=N" becomes "-bN". `arena` keeps it. NULL: no memory. */
char **samba_words_normalise(samba_arena *arena, int *argc, char **argv);
/* --isa, or NULL, where the device asks the environment's SAMBAFLOW_ISA. Given, it is the environment's from here on. */
const char *samba_word_isa(const char *isa);
samba_session_options samba_word_session(uint64_t seed, int threads, const char *isa); /* --seed, --threads, --isa */

/* ---- tables, units and JSON (app/report.c) ---- */
#define SAMBA_CELL 32
/* "1.50 MiB", "12.3 GFLOP", "1.234 ms"; each returns buffer */
char *samba_text_bytes(char buffer[SAMBA_CELL], double bytes);
char *samba_text_decimal(char buffer[SAMBA_CELL], double value, const char *unit); /* "12.3 G<unit>" */
char *samba_text_ms(char buffer[SAMBA_CELL], double ms);

typedef struct samba_table { /* rows of cells, printed with columns aligned; sticky when memory is short */
    samba_text text;         /* cells end in a NUL byte each */
    const char *align;       /* a letter a column: 'l' or 'r' */
    int rows;
} samba_table;
void samba_table_init(samba_table *table, samba_context *context, const char *align);
/* As many cells as columns, separated by tabs. */
void samba_table_row(samba_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
samba_status samba_table_print(samba_table *table, FILE *file, const char *indent); /* and frees */

json_t *samba_json_number(double value); /* null when not finite */
json_t *samba_json_shape(int rank, const int64_t *shape);
/* Prints with a newline and drops the object; NULL counts as no memory. Fails also when `file` does not take it. */
samba_status samba_json_print(samba_context *context, json_t *object, FILE *file);
/* Flushes stdout: FILE when something printed was lost. */
samba_status samba_flush_output(samba_context *context);

/* ---- PEFs for people (app/describe.c) ---- */
/* "label from loss, with ones": where a graph's backward starts; no line for inference. */
samba_status samba_describe_backward(samba_context *context, const samba_plan *plan, int32_t graph, const char *label,
                                     FILE *file);
samba_status samba_describe_memory(samba_context *context, const samba_plan *plan, FILE *file);
samba_status samba_describe_sections(samba_context *context, const samba_plan *plan, FILE *file);
/* With their stages, and the roads these take here. */
struct samba_plan_here;
samba_status samba_describe_stages(samba_context *context, const samba_plan *plan, const struct samba_plan_here *here,
                                   FILE *file);
/* Inputs, parameters and outputs, with `all` gradients and state too; then hyperparameters. */
samba_status samba_describe_tensors(samba_context *context, const samba_plan *plan, bool all, FILE *file);
/* A row an operator: its section and stage, its result, and where in the user's model it comes from. */
samba_status samba_describe_operators(samba_context *context, const samba_plan *plan, FILE *file);
typedef enum samba_detail { SAMBA_DETAIL_SECTIONS, SAMBA_DETAIL_STAGES, SAMBA_DETAIL_OPERATORS } samba_detail;
json_t *samba_describe_json(const samba_plan *plan, samba_detail detail, const struct samba_plan_here *here); /* NULL: no roads */

/* ---- inputs (app/inputs.c) ---- */
/* A host tensor of that device tensor's name, dtype and shape with random values: N(0, 1), integers within the range the PEF
 * states, [0, 2) where it states none. */
samba_status samba_random_input(samba_context *context, const samba_plan_tensor *input, uint64_t seed, samba_tensor **tensor);
typedef struct samba_io { /* host tensors for all inputs (random) and outputs (zero) of one of a PEF's graphs */
    int input_count, output_count;
    samba_tensor **inputs, **outputs;
} samba_io;
samba_status samba_io_new(samba_context *context, const samba_plan *plan, int32_t graph, uint64_t seed, samba_arena *arena,
                          samba_io *io);
void samba_io_free(samba_io *io);

/* ---- outputs (app/outputs.c) ---- */
/* FILE, with the option's name, unless a file can be written to `path` and is not `pef`. */
samba_status samba_check_output(samba_context *context, const char *option, const char *path, const char *pef);

/* ---- measurements for people (app/measure_report.c) ---- */
samba_status samba_report_performance(samba_context *context, const samba_session *session, const char *pef,
                                      const samba_performance *performance, bool json);
samba_status samba_report_sections(samba_context *context, const samba_session *session, const char *pef, int count,
                                   const samba_section_time *times, bool json); /* entries of one graph */
/* "tuned by FILE: 12 stages" where the session is; the same as a member "tune" of an object, null where it is not. */
samba_status samba_report_tuning(const samba_session *session, FILE *file);
void samba_json_tuning(json_t *object, const samba_session *session);
/* The whole of both commands: loads the PEF, makes inputs, measures, prints. */
typedef struct samba_measure_job {
    const char *program, *pef; /* program: how warnings begin */
    samba_session_options session;
    samba_measure_options measure;
    bool sections, json;
    const char *load; /* weights to start from; NULL: the PEF's own */
    bool partial;     /* what it lacks starts as the PEF says */
} samba_measure_job;
samba_status samba_measure_pef(samba_context *context, const samba_measure_job *job);

/* ---- the driver's own parts ---- */
typedef enum samba_app_command {
    SAMBA_APP_COMPILE = 1,
    SAMBA_APP_RUN = 2,
    SAMBA_APP_TEST = 4,
    SAMBA_APP_PERFORMANCE = 8,
    SAMBA_APP_SECTIONS = 16,
    SAMBA_APP_TRAIN = SAMBA_APP_COMPILE | SAMBA_APP_RUN /* takes the options of both */
} samba_app_command;

typedef enum samba_lr_schedule {
    SAMBA_LR_CONSTANT = 0,
    SAMBA_LR_LINEAR = 1,
    SAMBA_LR_COSINE = 2,
    SAMBA_LR_SCHEDULES
} samba_lr_schedule;
extern const char *const samba_lr_schedule_names[SAMBA_LR_SCHEDULES]; /* app/resume.c */

typedef struct samba_app_schedule { /* of the learning rate */
    samba_lr_schedule kind;
    int64_t warmup_steps, total_steps; /* total_steps 0: those of the run */
    double min_lr;
} samba_app_schedule;

/* one command line, checked; 0 or NULL where an option was not given unless said otherwise */
typedef struct samba_app_arguments {
    const samba_app *app;
    samba_app_command command;
    bool inference, run_graph_only, json, verify, no_tune;
    samba_precision precision;
    bool batch_given, own_given;    /* -b or -mb; an option of the application's own */
    int64_t batch_size, microbatch; /* defaults filled in: microbatch samples a run, accumulation runs a step */
    int accumulation;
    bool accumulation_given;
    bool data_parallel, reduce_on_rdu;
    int world_size;               /* replicas that there have to be; 0: any number */
    const char *distlearn_config; /* a file, whose presence says data_parallel */
    samba_replica_mode mode;
    bool shard_optimizer;
    int reduce_dtype;      /* 0: float32, 1: bfloat16 */
    int64_t memory_budget; /* bytes; 0: none */
    samba_mapping mapping;
    int64_t fast_memory; /* bytes; 0: as much as there is */
    int64_t chunk_bytes; /* 0: the compiler's */
    const char *pef, *pef_name, *output_folder;
    samba_optimizer optimizer;                              /* defaults filled in */
    const char *no_decay;                                   /* patterns of parameters, separated by commas */
    int hyperparameter_count;                               /* those given, for a run */
    samba_hyperparameter hyperparameters[SAMBA_HYPERS + 1]; /* max_grad_norm too */
    samba_app_schedule schedule;
    bool kind_given, warmup_given, total_given, min_lr_given; /* of the schedule */
    int64_t num_epochs, num_iterations;
    uint64_t seed;
    int threads;
    const char *isa, *save, *load, *data, *dump_after, *tune;
    bool seed_given, resume, keep_last;
    int64_t last_batch; /* samples of a smaller last batch that the PEF has a graph for, too; 0: none */
    const char *checkpoint_dir;
    int64_t checkpoint_every, shard_size; /* 0: at the end of every epoch; the library's */
    int64_t eval_every, log_every;        /* 0: never */
    int64_t patience;                     /* tests; 0: the training does not stop early */
    double min_delta;
    const char *save_best; /* NULL: the best weights are not kept */
    int keep;              /* checkpoints; 0: all */
} samba_app_arguments;
/* Its session. */
samba_session_options samba_app_session(const samba_app_arguments *arguments);
/* app/options.c: ends the process on wrong usage and after --help */
void samba_app_parse(int argc, char **argv, const samba_app *app, samba_app_arguments *arguments);

typedef struct samba_app_run { /* what every command works with */
    samba_context *context;
    const samba_app_arguments *arguments;
} samba_app_run;
/* app/compile.c */
samba_status samba_app_compile(const samba_app_run *run);
samba_status samba_app_compile_and_train(const samba_app_run *run);
typedef struct samba_app_compilation { /* samba_compile's options filled from the command line, and what they point to */
    samba_arena arena;
    samba_compile_options options;
    samba_tensor *inputs[SAMBA_APP_MAX_INPUTS]; /* examples, of a micro-batch */
    samba_optimizer optimizers[2];              /* two where some parameters do not decay: these first */
} samba_app_compilation;
/* Of one size's graph, for so many samples in a run. */
samba_status samba_app_compilation_new(const samba_app_run *run, int size, int64_t rows, samba_app_compilation *compilation);
void samba_app_compilation_free(samba_app_compilation *compilation); /* also of one that failed */
/* app/decay.c: what --no-decay names, as patterns for an optimizer. */
samba_status samba_app_undecayed(const samba_app_run *run, int input_count, const samba_app_input *inputs, samba_arena *arena,
                                 int *count, const char ***patterns);
/* "undecayed", the optimizer of those. */
extern const char samba_app_undecayed_name[];
void samba_app_free_tensors(int count, samba_tensor **tensors);
/* A new folder "<beside>.XXXXXX", and its end with the two files that compiling leaves there. */
samba_status samba_app_temporary(samba_context *context, const char *beside, samba_text *folder);
void samba_app_remove_temporary(const char *folder, const char *pef_name);

/* app/sizes.c */
int samba_app_sizes(const samba_app *app);
int samba_app_inputs(const samba_app *app, int size, int64_t rows, samba_app_input *inputs); /* how many; the rest are zeros */
/* Rows of the last batch's last run where they are fewer than a micro-batch, which takes a graph of its own; else 0. */
int64_t samba_app_rest(const samba_app_arguments *arguments);
/* All graphs of the application as one PEF, in the order that samba_app_check knows: sizes, then the last batch's. */
samba_status samba_app_compile_sizes(const samba_app_run *run, const char *folder, char *path, size_t path_size,
                                     samba_plan *plan);
/* --keep-last: how many samples the last batch of the data has, where it wants a graph of its own. */
samba_status samba_app_count_last(const samba_app_run *run, int64_t *last_batch);

/* app/check.c */
const samba_plan_tensor *samba_plan_find(const samba_plan *plan, samba_tensor_kind kind, const char *name);
/* The application's graph of these inputs. */
samba_status samba_app_trace(const samba_app_run *run, const char *name, int count, const samba_app_input *inputs,
                             samba_graph **graph);
/* Fails unless the PEF is one of this application and command line, and has this graph; gives the application's inputs in its
 * sizes. */
samba_status samba_app_check(const samba_app_run *run, const samba_plan *plan, int32_t graph, int *count,
                             samba_app_input *inputs);

samba_status samba_app_test(const samba_app_run *run);  /* app/test.c */
samba_status samba_app_train(const samba_app_run *run); /* app/train.c */
samba_status samba_app_measure(const samba_app_run *run);

/* app/resume.c: checkpoints of a training */
typedef struct samba_app_progress {    /* where it stands */
    int64_t steps_done;                /* of as many replicas as there are now: where in the order of samples */
    int64_t updates;                   /* all, by whatever number of replicas: what checkpoints are named by */
    int64_t train_count, step_samples; /* the data, which must be the same to go on, but for the number of replicas */
    int64_t epoch_steps;               /* likewise */
    int rank, replicas;                /* this replica, of those that share a step's samples */
    uint64_t seed;                     /* of the order of samples */
    double epoch_loss;                 /* sum over the epoch's steps so far */
    double base_lr;                    /* what the schedule scales; NaN: no schedule */
    samba_app_schedule schedule;
    samba_early_stop stop; /* of --patience */
    double best;           /* test; NaN: there was none */
    bool stopped;
} samba_app_progress;
samba_status samba_app_checkpoint(const samba_app_run *run, samba_session *session, const samba_app_progress *at);
/* Before the first step: makes the folder ready and, with --resume, loads the newest whole checkpoint and says so in `file`. */
samba_status samba_app_resume(const samba_app_run *run, samba_session *session, samba_app_progress *at, FILE *file);

/* app/driver.c: whether this process is the first, or the only one, of those that a launcher has started: what all have alike is
 * said by one. */
bool samba_app_speaks(void);
/* "lenet: warning: ..." on stderr for each warning the session has, appended to `list` too unless that is NULL; a
 * progress bar (or NULL) is cleared first */
void samba_app_build_warnings(const samba_app_run *run); /* the context's, of a model that was traced */
void samba_app_warnings(const char *program, samba_session *session, json_t *list, samba_progress *progress);

/* app/batches.c: batches out of prepared samples */
typedef struct samba_batches {
    samba_context *context;
    const samba_app_data *data;
    int64_t batch;
    int tensor_count;
    samba_tensor *tensors[SAMBA_APP_MAX_INPUTS]; /* the batch: inputs of a run */
} samba_batches;
/* `inputs`, SAMBA_APP_MAX_INPUTS of them, are those of a graph: they say the batch and, where samples have sizes, the shapes. */
samba_status samba_batches_new(samba_context *context, const samba_app_data *data, const samba_app_input *inputs,
                               samba_batches *batches);
void samba_batches_free(samba_batches *batches);
/* Samples order[0 .. count-1] into the batch; the rest of it becomes zeros, or what the data's `fill` makes of it. */
samba_status samba_batches_fill(samba_batches *batches, const int64_t *order, int64_t count);
/* The folder of samples: the one given, else examples/data here, else the one beside the program's source. */
samba_status samba_app_data_folder(samba_context *context, const char *given, samba_text *folder);

#endif
