/* SPDX-License-Identifier: Apache-2.0
 *
 * The sambaflow program: looks into PEFs, runs, measures and pictures them, without the models they came from. */
#ifndef SAMBA_CLI_H
#define SAMBA_CLI_H

#include "app/app.h"
#include "parallel/cost.h"
#include <sambaflow/profile.h>

typedef enum samba_cli_command {
    SAMBA_CLI_INSPECT = 1,
    SAMBA_CLI_RUN = 2,
    SAMBA_CLI_PERFORMANCE = 4,
    SAMBA_CLI_SECTIONS = 8,
    SAMBA_CLI_REPORT = 16,
    SAMBA_CLI_MACHINE = 32,
    SAMBA_CLI_TUNE = 64,
    SAMBA_CLI_SCALE = 128,
    SAMBA_CLI_EXPORT = 256
} samba_cli_command;

#define SAMBA_CLI_MAX_WORDS 64
typedef struct samba_cli_pair { /* NAME=VALUE */
    const char *name, *value;
} samba_cli_pair;

#define SAMBA_CLI_MAX_NETWORKS 8
typedef struct samba_cli_network {
    char name[48];
    const char *words; /* where its figures come from */
    samba_network_cost cost;
} samba_cli_network;

typedef struct samba_cli_arguments {
    samba_cli_command command;
    const char *pef;
    int shard_optimizer; /* replicas; 0: the plan as it is */
    bool json, graph, operators, verbose, eval, run_graph_only, inference;
    int input_count, output_count, hyperparameter_count, type_count, id_count;
    samba_cli_pair inputs[SAMBA_CLI_MAX_WORDS], outputs[SAMBA_CLI_MAX_WORDS];
    samba_hyperparameter hyperparameters[SAMBA_CLI_MAX_WORDS];
    const char *types[SAMBA_CLI_MAX_WORDS];
    int ids[SAMBA_CLI_MAX_WORDS];
    int64_t num_iterations; /* 0: not given */
    uint64_t seed;
    int threads;
    const char *isa, *load, *save, *graph_name;
    bool partial;        /* of load */
    const char *profile; /* of report: the file of times; of run: the word, which `times` is */
    samba_profile times;
    const char *trace; /* of run: the file for single times */
    const char *page;  /* of report, tune and export: the file to write; NULL: not given */
    int opset;         /* of export; 0: not given */
    const char *tune;  /* the file to use; NULL: not given */
    bool no_tune;
    double seconds; /* of tune */
    /* of scale */
    int network_count, replica_count, mode_count;
    samba_cli_network networks[SAMBA_CLI_MAX_NETWORKS];
    int replicas[SAMBA_CLI_MAX_WORDS];
    samba_replica_mode modes[SAMBA_MODE_COUNT];
    double flops, memory_rate; /* 0: not given */
    bool measure, sharded_optimizer;
    int reduce_dtype; /* 1: bfloat16 */
    const char *svg;
} samba_cli_arguments;

void samba_cli_parse(int argc, char **argv, samba_cli_arguments *arguments); /* cli/options.c; may end the process */
samba_status samba_cli_inspect(samba_context *context, const samba_cli_arguments *arguments); /* cli/inspect.c */
/* cli/profile.c: around the runs. What was measured is `profile` with --json, else `tables` (samba_text_free);
 * both are NULL without --profile. */
samba_status samba_cli_profile_begin(samba_session *session, const samba_cli_arguments *arguments);
samba_status samba_cli_profile_end(samba_context *context, samba_session *session, const samba_cli_arguments *arguments,
                                   json_t **profile, char **tables);
samba_status samba_cli_run(samba_context *context, const samba_cli_arguments *arguments);     /* cli/run.c */
samba_status samba_cli_report(samba_context *context, const samba_cli_arguments *arguments);  /* cli/report.c */
samba_status samba_cli_machine(samba_context *context, const samba_cli_arguments *arguments); /* cli/machine.c */
samba_status samba_cli_tune(samba_context *context, const samba_cli_arguments *arguments);    /* cli/tune.c */
samba_status samba_cli_stop_learning(samba_session *session); /* cli/tune.c: all learning rates are 0 from here on */
samba_status samba_cli_scale(samba_context *context, const samba_cli_arguments *arguments);  /* cli/scale.c */
samba_status samba_cli_export(samba_context *context, const samba_cli_arguments *arguments); /* cli/export.c */
/* cli/networks.c: "10gbit", or "1.2GB,20us" with the other figures of samba_network_cost behind; false: it is neither. */
bool samba_cli_network_take(const char *text, samba_cli_network *network);
/* "2T" or "2T,200GB": FLOP and bytes a second. */
bool samba_cli_rates_take(const char *text, double *flops, double *memory);
#define SAMBA_CLI_NETWORK 96
/* As the option takes it. */
const char *samba_cli_network_text(const samba_network_cost *cost, char text[SAMBA_CLI_NETWORK]);
int samba_cli_compile(int argc, char **argv); /* cli/compile.c: sambaflow compile MODEL ...; the exit status */
/* cli/frame.c. False, and told, where there is no memory. */
bool samba_cli_begin(samba_context **context);
int samba_cli_end(samba_context *context, samba_status status); /* tells a failure, frees the context; the exit status */

int samba_cli_prepare(int argc, char **argv);     /* cli/prepare.c: sambaflow prepare ...; the exit status */
int samba_cli_lm(int argc, char **argv);          /* cli/lm.c: sambaflow lm COMMAND ...; the exit status */
int samba_cli_lm_generate(int argc, char **argv); /* lm_generate.c; argv[0] is "generate" */
int samba_cli_lm_chat(int argc, char **argv);     /* lm_chat.c; argv[0] is "chat" */
int samba_cli_lm_serve(int argc, char **argv);    /* lm_serve.c; argv[0] is "serve" */
/* cli/compile_text.c: a forward graph's text; its nodes in `graph`, which has its inputs, and the values of its outputs and
 * losses in their order. Parameters that a pattern names are buffers. */
samba_status samba_cli_text_open(samba_context *context, const char *path, samba_graph **graph);
samba_status samba_cli_text_apply(const samba_graph *text, samba_graph *graph, int freeze_count, const char *const *freeze,
                                  samba_value *outputs);
/* cli/compile_loss.c: "cross_entropy:logits,label" */
#define SAMBA_CLI_NAME 200
typedef struct samba_cli_loss {
    int kind;
    char output[SAMBA_CLI_NAME], label[SAMBA_CLI_NAME];
} samba_cli_loss;
samba_status samba_cli_loss_take(samba_context *context, const char *text, samba_cli_loss *loss);
/* The label that goes with an output of this dtype and shape. */
samba_status samba_cli_loss_label(samba_context *context, const samba_cli_loss *loss, samba_dtype dtype, int rank,
                                  const int64_t *shape, samba_app_input *label);
samba_value samba_cli_loss_of(const samba_cli_loss *loss, samba_value output, samba_value label);
samba_session_options samba_cli_session(const samba_cli_arguments *arguments); /* cli/main.c: as the command line has it */

#endif
