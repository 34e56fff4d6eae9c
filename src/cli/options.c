/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of sambaflow, by argp: one table that says which commands take each option.
 * Words of lists are cut in place, in argv. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum {
    I = SAMBA_CLI_INSPECT,
    R = SAMBA_CLI_RUN,
    P = SAMBA_CLI_PERFORMANCE,
    S = SAMBA_CLI_SECTIONS,
    PAGE = SAMBA_CLI_REPORT,
    M = SAMBA_CLI_MACHINE,
    TUNE = SAMBA_CLI_TUNE,
    SCALE = SAMBA_CLI_SCALE,
    X = SAMBA_CLI_EXPORT,
    ALL = I | R | P | S | PAGE | M | TUNE | SCALE | X
};

typedef struct parse {
    samba_cli_arguments a;
    bool *given; /* per row */
    int output_count;
    char *outputs[SAMBA_CLI_MAX_WORDS];
    samba_cli_pair hyperparameters[SAMBA_CLI_MAX_WORDS];
} parse;

typedef void take_option(void *into, const samba_option_row *row, char *text, struct argp_state *state);
static take_option take_input, take_output, take_hyperparameter, take_types, take_ids, take_network, take_replicas, take_modes,
    take_flops;
static const char *const reduce_dtypes[] = {"float32", "bfloat16"};

static const samba_option_row rows[] = {
    {.help = "What is shown:"},
    {I, "graph", NULL, "Print the text of the traced graph instead", FLAG_AT(a.graph)},
    {I, "operators", NULL, "List every operator instead, with the module and the line of the model that it comes from",
     FLAG_AT(a.operators)},
    {I, "shard-optimizer", "N", "Show what the first of N replicas has that shard the optimizer, and the memory that takes",
     INT_AT(a.shard_optimizer, 1, 1000000)},
    {I, "verbose", NULL, "List every stage, tensor and hyperparameter", FLAG_AT(a.verbose), .letter = 'v'},
    {.help = "What is run and written:"},
    {R, "input", "NAME=FILE",
     "Read an input from .npy, .npz, .safetensors, IDX, .hdf5 or FILE.hdf5:DATASET; those not given are random",
     OTHER(take_input), .letter = 'i'},
    {R | PAGE | TUNE | X, "output", "NAME=FILE",
     "Write an output to a .npy file; without any, all outputs are summed up on the terminal. report, tune, export: -o FILE is "
     "the file to write (PEF.html, PEF.tune, PEF.onnx)",
     OTHER(take_output), .letter = 'o'},
    {R, "hyperparameter", "NAME=VALUE", "Set lr, momentum, weight_decay ...", OTHER(take_hyperparameter)},
    {R, "section-types", "TYPES", "Run these, e.g. FWD,BCKWD (the whole schedule)", OTHER(take_types)},
    {R, "section-ids", "IDS", "Run these sections, e.g. 0,1", OTHER(take_ids)},
    {R, "eval", NULL, "As in eval(): no dropout, norms by their running statistics, which stay", FLAG_AT(a.eval)},
    {R, "save", "FILE", "Write weights and optimizer state to this safetensors file", TEXT_AT(a.save)},
    {R | PAGE | SCALE, "profile", "WORD",
     "Measure the runs: summary, times of sections; detailed, of their stages too, whose operators run fused and have one time "
     "together. report, scale: the .json with the times, which --trace or a profile of Python wrote (none: report shows what the "
     "machine allows at best, scale measures)",
     TEXT_AT(a.profile)},
    {R, "trace", "FILE",
     "Write what --profile measured: single times where FILE ends in .json (Trace Event, for Perfetto), the page of report where "
     "it ends in .html, else the tables",
     TEXT_AT(a.trace)},
    {.help = "What is measured:"},
    {P | S, "inference", NULL, "Measure FWD alone", FLAG_AT(a.inference)},
    {P, "run-graph-only", NULL, "Move no tensors between host and device (measure-performance)", FLAG_AT(a.run_graph_only)},
    {.help = "How long:"},
    {TUNE, "seconds", "X", "How long to measure, about (60)", REAL_AT(a.seconds, 0, 1000000)},
    {.help = "What is modelled:"},
    {SCALE, "network", "NETWORK",
     "10gbit, 100gbit, 400gbit, or BANDWIDTH,LATENCY as 1.2GB,20us, and behind them, if known, the time a message (1us), the "
     "rate "
     "of sums (10GB), the share of the processors that an exchange takes from sections (0) and the share of its speed that it "
     "keeps beside them (1); several times for several (the three names)",
     OTHER(take_network)},
    {SCALE, "replicas", "LIST", "Numbers of replicas (2,4,8,16,64,256,1024,4096,10000)", OTHER(take_replicas)},
    {SCALE, "mode", "LIST", "Of normal, inorder and optimal (inorder)", OTHER(take_modes)},
    {SCALE, "flops", "RATE",
     "Measure no steps: a machine that does 2T FLOP/s, or 2T,200GB with the rate of its memory (RATE / 10)", OTHER(take_flops)},
    {SCALE, "measure", NULL,
     "Under mpirun: measure the network too, and steps with exchanges, beside what the model says of them", FLAG_AT(a.measure)},
    {SCALE, "sharded-optimizer", NULL, "Of a run with --shard-optimizer: each replica updates a part of the parameters",
     FLAG_AT(a.sharded_optimizer)},
    {SCALE, "reduce-dtype", "DTYPE", "Of gradients that travel, float32 or bfloat16 (float32)",
     CHOICE_AT(a.reduce_dtype, reduce_dtypes, 2)},
    {SCALE, "svg", "FILE", "Draw efficiency over the number of replicas", TEXT_AT(a.svg)},
    {.help = "The model:"},
    {X, "opset", "N", "Version of ONNX's operators, 17 to 23 (18)", INT_AT(a.opset, 17, 23)},
    {.help = "Weights, machine and tuning:"},
    {R | P | S | TUNE | SCALE | X, "load", "FILE",
     "Start from the weights in this safetensors file, or folder of such files with an index (not report)", TEXT_AT(a.load)},
    {R | P | S, "partial", NULL, "With --load: tensors that it lacks start as they do without it", FLAG_AT(a.partial)},
    {R | P | S | SCALE | X, "graph-name", "NAME", "Run, measure or write this one of several graphs (not report)",
     TEXT_AT(a.graph_name)},
    {R | P | S | SCALE, "num-iterations", "N", "Times to run (1; to measure 100; scale: 10)",
     INTEGER_AT(a.num_iterations, 1, INT32_MAX)},
    {R | P | S | TUNE | SCALE | X, "seed", "N", "Of weights, dropout and random inputs (0)", INTEGER_AT(a.seed, 0, INT64_MAX)},
    {R | P | S | PAGE | TUNE | SCALE, "threads", "N", "Threads (as many as the machine offers)", INT_AT(a.threads, 1, 4096)},
    {R | P | S | PAGE | M | TUNE | SCALE, "isa", "ISA",
     "Force an instruction set, one that `machine` lists (the best there is, or SAMBAFLOW_ISA); machine: show it with this one",
     TEXT_AT(a.isa)},
    {I | R | P | S | PAGE | SCALE, "tune", "FILE", "Use what `tune` wrote to this file (PEF.tune, where it is there)",
     TEXT_AT(a.tune)},
    {I | R | P | S | PAGE | SCALE, "no-tune", NULL, "Use no such file, whatever is there", FLAG_AT(a.no_tune)},
    {.help = "What is printed:"},
    {I | R | P | S | M | TUNE | SCALE, "json", NULL, "Print one JSON object (all but report)", FLAG_AT(a.json)},
    {ALL, "version", NULL, "Print the version", OTHER(samba_print_version), .group = -1},
};
/* Commands of this table have a bit; others have options of their own. */
static const struct {
    int bit;
    const char *arguments; /* behind the name */
    samba_command_word word;
    const char *more; /* for its help; NULL: the summary says all */
} commands[] = {
    {0, NULL, {"compile", "Make a PEF of an ONNX model or of the text of a graph"}, NULL},
    {I, "PEF", {"inspect", "Show what a PEF holds"}, NULL},
    {R, "PEF", {"run", "Run a PEF's sections on given or random inputs"}, NULL},
    {P,
     "PEF",
     {"measure-performance", "Measure whole runs of a PEF"},
     "Time, FLOP/s against the machine's peak, bandwidth and memory."},
    {S, "PEF", {"measure-sections", "Measure each section of a PEF"}, NULL},
    {PAGE,
     "PEF",
     {"report", "Write an HTML page of a PEF"},
     "A browser shows it without a network: sections, timeline, roofline, memory over time, stages with their operators."},
    {TUNE,
     "PEF",
     {"tune", "Measure what is the fastest for each stage on this machine"},
     "Ways and sizes of blocks that are faster than what is taken anyway are written to PEF.tune, which everything that runs the "
     "PEF on this machine uses from then on."},
    {SCALE, "PEF", {"scale", "Say how fast many replicas would train on a network, by a model of cost"}, NULL},
    {X, "PEF", {"export", "Write what a PEF computes forward, with weights, as an ONNX model"}, NULL},
    {M, NULL, {"machine", "Show what is known of this machine and tuned by"}, NULL},
    {0, NULL, {"lm", "Compile, train, run, serve and convert language models"}, NULL},
    {0, NULL, {"prepare", "Make a file of lines the training data of a language model"}, NULL},
};

static void list_commands(samba_command_word list[SAMBA_COUNT(commands) + 1])
{
    for (int i = 0; i < SAMBA_COUNT(commands); i++)
        list[i] = commands[i].word;
    list[SAMBA_COUNT(commands)] = (samba_command_word){NULL, NULL};
}

static int index_of(int bit)
{
    int i = 0;
    while (commands[i].bit != bit)
        i++;
    return i;
}

static samba_cli_pair pair_of(struct argp_state *state, const char *option, char *text, int count)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        argp_error(state, "%s: expected NAME=%s, given '%s'", option, strcmp(option, "--hyperparameter") == 0 ? "VALUE" : "FILE",
                   text);
    else
        *equals = '\0';
    if (count == SAMBA_CLI_MAX_WORDS)
        argp_error(state, "%s: more than %d are too many", option, SAMBA_CLI_MAX_WORDS);
    return (samba_cli_pair){text, equals ? equals + 1 : ""};
}

/* An option that is given twice is refused: the last does not win in silence. */
static void check_names(struct argp_state *state, const char *option, int count, const samba_cli_pair *pairs)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(pairs[i].name, pairs[k].name) == 0)
                argp_error(state, "%s: '%s' is given twice, as '%s' and as '%s': give it once", option, pairs[i].name,
                           pairs[k].value, pairs[i].value);
}

/* The next word of a list, cut in place; NULL: there is none. */
static char *next_word(char **list)
{
    char *word = *list;
    *list = word ? strchr(word, ',') : NULL;
    if (*list)
        *(*list)++ = '\0';
    return word;
}

static void take_input(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_cli_arguments *a = &((parse *)into)->a;
    (void)row;
    a->inputs[a->input_count] = pair_of(state, "--input", text, a->input_count);
    a->input_count++;
}

/* A pair, or report's file: settle knows the command. */
static void take_output(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    parse *p = into;
    if (p->output_count == SAMBA_CLI_MAX_WORDS)
        argp_error(state, "--%s: more than %d are too many", row->name, SAMBA_CLI_MAX_WORDS);
    p->outputs[p->output_count++] = text;
}

static void take_hyperparameter(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_cli_arguments *a = &((parse *)into)->a;
    samba_cli_pair pair = pair_of(state, "--hyperparameter", text, a->hyperparameter_count);
    (void)row;
    double value = samba_word_real(state, "--hyperparameter", pair.value, -1e300, 1e300);
    ((parse *)into)->hyperparameters[a->hyperparameter_count] = pair;
    a->hyperparameters[a->hyperparameter_count++] = (samba_hyperparameter){pair.name, value};
}

static void take_types(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_cli_arguments *a = &((parse *)into)->a;
    for (char *word; (word = next_word(&text));) {
        if (a->type_count == SAMBA_CLI_MAX_WORDS)
            argp_error(state, "--%s: more than %d are too many", row->name, SAMBA_CLI_MAX_WORDS);
        a->types[a->type_count++] = word;
    }
}

static void take_ids(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_cli_arguments *a = &((parse *)into)->a;
    for (char *word; (word = next_word(&text));) {
        if (a->id_count == SAMBA_CLI_MAX_WORDS)
            argp_error(state, "--%s: more than %d are too many", row->name, SAMBA_CLI_MAX_WORDS);
        a->ids[a->id_count++] = (int)samba_word_integer(state, "--section-ids", word, 0, INT32_MAX);
    }
}

static void take_network(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_cli_arguments *a = &((parse *)into)->a;
    if (a->network_count == SAMBA_CLI_MAX_NETWORKS)
        argp_error(state, "--%s: more than %d are too many", row->name, SAMBA_CLI_MAX_NETWORKS);
    if (!samba_cli_network_take(text, &a->networks[a->network_count]))
        argp_error(
            state,
            "--%s: expected 10gbit, 100gbit, 400gbit, or BANDWIDTH,LATENCY with their units, e.g. 25Gbit,20us or 1.2GB,20us, "
            "given '%s'",
            row->name, text);
    a->network_count++;
}

static void take_replicas(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_cli_arguments *a = &((parse *)into)->a;
    a->replica_count = 0;
    for (char *word; (word = next_word(&text));) {
        if (a->replica_count == SAMBA_CLI_MAX_WORDS)
            argp_error(state, "--%s: more than %d are too many", row->name, SAMBA_CLI_MAX_WORDS);
        a->replicas[a->replica_count++] = (int)samba_word_integer(state, "--replicas", word, 1, 1000000);
    }
}

static void take_modes(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_cli_arguments *a = &((parse *)into)->a;
    (void)row;
    a->mode_count = 0;
    for (char *word; (word = next_word(&text));) {
        const int mode = samba_word_choice(state, "--mode", word, samba_replica_modes, SAMBA_MODE_COUNT);
        for (int i = 0; i < a->mode_count; i++)
            if ((int)a->modes[i] == mode)
                argp_error(state, "--mode: '%s' is given twice: give it once", word);
        a->modes[a->mode_count++] = (samba_replica_mode)mode;
    }
}

static void take_flops(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    samba_cli_arguments *a = &((parse *)into)->a;
    if (!samba_cli_rates_take(text, &a->flops, &a->memory_rate))
        argp_error(state, "--%s: expected FLOP a second, e.g. 2T, or 2T,200GB with bytes of memory a second, given '%s'",
                   row->name, text);
}

static void refuse_command(const struct argp_state *state, const char *text)
{
    samba_command_word list[SAMBA_COUNT(commands) + 1];
    list_commands(list);
    samba_command_unknown(state, text, list);
}

static void parse_word(samba_cli_arguments *a, const char *text, struct argp_state *state)
{
    if (a->command && a->pef)
        argp_error(state, "'%s' is one word too many after the PEF '%s'", text, a->pef);
    if (a->command == SAMBA_CLI_MACHINE)
        argp_error(state, "machine takes no PEF: '%s' is one word too many", text);
    if (a->command) {
        a->pef = text;
        return;
    }
    for (int i = 0; i < SAMBA_COUNT(commands); i++)
        if (strcmp(text, commands[i].word.name) == 0) {
            if (!commands[i].bit)
                argp_error(state, "%s is the first word where it is a command: sambaflow %s ...", text, text);
            a->command = (samba_cli_command)commands[i].bit;
        }
    if (!a->command)
        refuse_command(state, text);
}

static void settle_outputs(parse *p, struct argp_state *state)
{
    samba_cli_arguments *a = &p->a;
    const bool page = a->command == SAMBA_CLI_REPORT, model = a->command == SAMBA_CLI_EXPORT;
    const bool one = page || model || a->command == SAMBA_CLI_TUNE;
    if (one && p->output_count > 1)
        argp_error(state, "%s: '--output %s' is one too many",
                   page    ? "report writes one page"
                   : model ? "export writes one model"
                           : "tune writes one file",
                   p->outputs[1]);
    if (one && p->output_count > 0)
        a->page = p->outputs[0];
    for (int i = 0; i < p->output_count && a->command == SAMBA_CLI_RUN; i++, a->output_count++)
        a->outputs[i] = pair_of(state, "--output", p->outputs[i], i);
    for (int i = 0; i < a->output_count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(a->outputs[i].value, a->outputs[k].value) == 0)
                argp_error(state, "--output: '%s' and '%s' would both be written to '%s': give each a file of its own",
                           a->outputs[k].name, a->outputs[i].name, a->outputs[i].value);
}

/* --profile is a word to run, and a file to report. */
static void settle_profile(samba_cli_arguments *a, struct argp_state *state)
{
    if (a->command == SAMBA_CLI_RUN && a->profile) {
        a->times = strcmp(a->profile, "summary") == 0    ? SAMBA_PROFILE_SECTIONS
                   : strcmp(a->profile, "detailed") == 0 ? SAMBA_PROFILE_STAGES
                                                         : SAMBA_PROFILE_OFF;
        if (a->times == SAMBA_PROFILE_OFF)
            argp_error(state, "--profile %s: expected summary or detailed", a->profile);
    }
    if (a->trace && !a->profile)
        argp_error(state, "--trace %s: measured by what? Add --profile summary or --profile detailed", a->trace);
}

static void check_files(const samba_cli_arguments *a, struct argp_state *state)
{
    const char *others[] = {a->save, a->trace};
    for (int k = 0; k < SAMBA_COUNT(others); k++)
        for (int i = 0; others[k] && i < a->output_count; i++)
            if (strcmp(others[k], a->outputs[i].value) == 0)
                argp_error(state, "--%s and --output '%s' would both be written to '%s': give each a file of its own",
                           k == 0 ? "save" : "trace", a->outputs[i].name, others[k]);
    if (a->save && a->trace && strcmp(a->save, a->trace) == 0)
        argp_error(state, "--save and --trace would both be written to '%s': give each a file of its own", a->save);
}

/* Where the times of scale come from, and what it draws. */
static void settle_scale(const samba_cli_arguments *a, struct argp_state *state)
{
    if (a->command != SAMBA_CLI_SCALE)
        return;
    if (a->flops > 0 && a->profile)
        argp_error(state, "--flops and --profile contradict each other: give one of them");
    if ((a->flops > 0 || a->profile) && a->num_iterations)
        argp_error(state, "--num-iterations: nothing is run with --%s", a->flops > 0 ? "flops" : "profile");
    for (int i = 0; i < a->replica_count; i++)
        for (int k = 0; k < i; k++)
            if (a->replicas[k] == a->replicas[i])
                argp_error(state, "--replicas: %d is given twice: give it once", a->replicas[i]);
    if (a->svg && a->replica_count == 1 && !a->measure) /* which has a number of its own */
        argp_error(state, "--svg: a line takes two numbers of replicas, and --replicas has one");
}

static void settle(parse *p, struct argp_state *state)
{
    samba_cli_arguments *a = &p->a;
    if (!a->command)
        refuse_command(state, NULL);
    const char *command = commands[index_of((int)a->command)].word.name;
    for (int i = 0; i < SAMBA_COUNT(rows); i++)
        if (p->given[i] && !(rows[i].commands & (int)a->command))
            argp_error(state, "--%s is not an option of %s", rows[i].name, command);
    if (!a->pef && a->command != SAMBA_CLI_MACHINE)
        argp_error(state, "%s: which PEF? Give its path", command);
    if (a->type_count && a->id_count)
        argp_error(state, "--section-types and --section-ids contradict each other: give one of them");
    if (a->tune && a->no_tune)
        argp_error(state, "--tune and --no-tune contradict each other: give one of them");
    check_names(state, "--input", a->input_count, a->inputs);
    check_names(state, "--hyperparameter", a->hyperparameter_count, p->hyperparameters);
    settle_outputs(p, state);
    settle_profile(a, state);
    check_files(a, state);
    settle_scale(a, state);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parse *p = state->input;
    const int row = samba_option_find(rows, SAMBA_COUNT(rows), key);
    if (key == ARGP_KEY_ARG)
        parse_word(&p->a, text, state);
    else if (key == ARGP_KEY_END)
        settle(p, state);
    else if (key == ARGP_KEY_INIT)
        samba_words_check(state);
    else if (row < 0)
        return ARGP_ERR_UNKNOWN;
    if (row >= 0) {
        p->given[row] = true;
        samba_option_take(&rows[row], p, text, state);
    }
    return 0;
}

/* The index of the command that the words name, for its help; -1: none. */
static int peek_command(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        for (int k = 0; k < SAMBA_COUNT(commands); k++)
            if (commands[k].bit && strcmp(argv[i], commands[k].word.name) == 0)
                return k;
    return -1;
}

/* "Shows what a PEF holds." of all commands, or one's own words. */
static void describe(int command, char *text, size_t size)
{
    if (command >= 0) {
        snprintf(text, size, "%s.%s%s", commands[command].word.summary, commands[command].more ? "\v" : "",
                 commands[command].more ? commands[command].more : "");
        return;
    }
    snprintf(text, size, "%s",
             "Looks into PEFs, the compiled models of SambaFlow, runs them and measures them.\vCommands, each "
             "with a --help of its own:\n");
    samba_command_word list[SAMBA_COUNT(commands) + 1];
    list_commands(list);
    samba_command_list(text, size, list);
}

void samba_cli_parse(int argc, char **argv, samba_cli_arguments *arguments)
{
    const int command = peek_command(argc, argv);
    const bool asks = samba_words_ask(argc, argv);
    struct argp_option options[SAMBA_COUNT(rows) + 1];
    char text[2048], name[64];
    samba_options_list(rows, SAMBA_COUNT(rows), command >= 0 ? commands[command].bit : ALL, options);
    describe(command, text, sizeof text);
    const struct argp argp = {options, parse_option, command < 0 ? "COMMAND [WORD...]" : commands[command].arguments, text, NULL,
                              NULL,    NULL};
    samba_command_word list[SAMBA_COUNT(commands) + 1];
    /* messages begin with it however the program was called; a page of help has the command, too */
    snprintf(name, sizeof name, "sambaflow%s%s", command >= 0 && asks ? " " : "",
             command >= 0 && asks ? commands[command].word.name : "");
    argv[0] = name;
    bool given[SAMBA_COUNT(rows)] = {false};
    parse p = {.given = given, .a.seconds = 60};
    list_commands(list);
    samba_command_parse(&argp, list, argc, argv, &p);
    *arguments = p.a;
}
