/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of sambaflow, by argp: one table that says which commands take each option.
 * Words of lists are cut in place, in argv. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEY_GRAPH = 256,
    KEY_OPERATORS,
    KEY_HYPERPARAMETER,
    KEY_TYPES,
    KEY_IDS,
    KEY_ITERATIONS,
    KEY_EVAL,
    KEY_LOAD,
    KEY_SAVE,
    KEY_SEED,
    KEY_THREADS,
    KEY_ISA,
    KEY_JSON,
    KEY_GRAPH_NAME,
    KEY_GRAPH_ONLY,
    KEY_INFERENCE,
    KEY_PROFILE,
    KEY_TRACE,
    KEY_VERSION
};
enum {
    I = SAMBA_CLI_INSPECT,
    R = SAMBA_CLI_RUN,
    P = SAMBA_CLI_PERFORMANCE,
    S = SAMBA_CLI_SECTIONS,
    PAGE = SAMBA_CLI_REPORT,
    M = SAMBA_CLI_MACHINE,
    ALL = I | R | P | S | PAGE | M
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "inspect:", 1},
    {"graph", KEY_GRAPH, 0, 0, "Print the text of the traced graph instead", 1},
    {"operators", KEY_OPERATORS, 0, 0,
     "List every operator instead, with the module and the line of the model that it comes from", 1},
    {"verbose", 'v', 0, 0, "List every stage, tensor and hyperparameter", 1},
    {0, 0, 0, 0, "run, and report where it says so:", 2},
    {"input", 'i', "NAME=FILE", 0, "Read an input from .npy, .npz, .safetensors or IDX; those not given are random", 2},
    {"output", 'o', "NAME=FILE", 0,
     "Write an output to a .npy file; without any, all outputs are summed up on the terminal. report: -o FILE is the page to "
     "write (PEF.html)",
     2},
    {"hyperparameter", KEY_HYPERPARAMETER, "NAME=VALUE", 0, "Set lr, momentum, weight_decay ...", 2},
    {"section-types", KEY_TYPES, "TYPES", 0, "Run these, e.g. FWD,BCKWD (the whole schedule)", 2},
    {"section-ids", KEY_IDS, "IDS", 0, "Run these sections, e.g. 0,1", 2},
    {"eval", KEY_EVAL, 0, 0, "Dropout off", 2},
    {"load", KEY_LOAD, "FILE", 0, "Start from the weights in this safetensors file, or folder of such files with an index", 2},
    {"save", KEY_SAVE, "FILE", 0, "Write weights and optimizer state to this safetensors file", 2},
    {"profile", KEY_PROFILE, "WORD", 0,
     "Measure the runs: summary, times of sections; detailed, of their stages too, whose operators run fused and have one time "
     "together. "
     "report: the .json with the times to show, which --trace or a profile of Python wrote (none: what the machine allows at "
     "best)",
     2},
    {"trace", KEY_TRACE, "FILE", 0,
     "Write what --profile measured: single times where FILE ends in .json (Trace Event, for Perfetto), the page of report where "
     "it ends in .html, else "
     "the tables",
     2},
    {0, 0, 0, 0, "measure-performance, measure-sections:", 3},
    {"inference", KEY_INFERENCE, 0, 0, "Measure FWD alone", 3},
    {"run-graph-only", KEY_GRAPH_ONLY, 0, 0, "Move no tensors between host and device (measure-performance)", 3},
    {0, 0, 0, 0, "run, report and measuring:", 5},
    {"graph-name", KEY_GRAPH_NAME, "NAME", 0, "Run or measure this one of several graphs (not report)", 5},
    {"num-iterations", KEY_ITERATIONS, "N", 0, "Times to run (1; to measure 100)", 5},
    {"seed", KEY_SEED, "N", 0, "Of weights, dropout and random inputs (0)", 5},
    {"threads", KEY_THREADS, "N", 0, "Threads (as many as the machine offers)", 5},
    {"isa", KEY_ISA, "ISA", 0,
     "Force an instruction set, one that `machine` lists (the best there is, or SAMBAFLOW_ISA); machine: show it with this one", 5},
    {0, 0, 0, 0, "all:", 6},
    {"json", KEY_JSON, 0, 0, "Print one JSON object (all but report)", 6},
    {"version", KEY_VERSION, 0, 0, "Print the version", -1},
    {0},
};

static const struct {
    int key, commands;
} takers[] = {
    {KEY_GRAPH, I},
    {KEY_OPERATORS, I},
    {'v', I},
    {'i', R},
    {'o', R | PAGE},
    {KEY_HYPERPARAMETER, R},
    {KEY_GRAPH_NAME, R | P | S},
    {KEY_TYPES, R},
    {KEY_IDS, R},
    {KEY_EVAL, R},
    {KEY_LOAD, R},
    {KEY_SAVE, R},
    {KEY_INFERENCE, P | S},
    {KEY_GRAPH_ONLY, P},
    {KEY_ITERATIONS, R | P | S},
    {KEY_SEED, R | P | S},
    {KEY_THREADS, R | P | S | PAGE},
    {KEY_ISA, R | P | S | PAGE | M},
    {KEY_PROFILE, R | PAGE},
    {KEY_TRACE, R},
    {KEY_JSON, I | R | P | S | M},
    {KEY_VERSION, ALL},
};
static const char *const command_names[] = {"inspect", "run", "measure-performance", "measure-sections", "report", "machine"};
#define COMMANDS "inspect, run, measure-performance, measure-sections, report or machine"

typedef struct parse {
    samba_cli_arguments *arguments;
    bool given[SAMBA_COUNT(takers)];
    int output_count;
    char *outputs[SAMBA_CLI_MAX_WORDS];
    samba_cli_pair hyperparameters[SAMBA_CLI_MAX_WORDS];
} parse;

static const char *option_name(int key)
{
    for (int i = 0; i < SAMBA_COUNT(options); i++)
        if (options[i].name && options[i].key == key)
            return options[i].name;
    return "?";
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

static void parse_types(samba_cli_arguments *a, char *text, struct argp_state *state)
{
    for (char *word = text; word; word = text) {
        text = strchr(word, ',');
        if (text)
            *text++ = '\0';
        if (a->type_count == SAMBA_CLI_MAX_WORDS)
            argp_error(state, "--section-types: more than %d are too many", SAMBA_CLI_MAX_WORDS);
        a->types[a->type_count++] = word;
    }
}

static void parse_ids(samba_cli_arguments *a, char *text, struct argp_state *state)
{
    for (char *word = text; word; word = text) {
        text = strchr(word, ',');
        if (text)
            *text++ = '\0';
        if (a->id_count == SAMBA_CLI_MAX_WORDS)
            argp_error(state, "--section-ids: more than %d are too many", SAMBA_CLI_MAX_WORDS);
        a->ids[a->id_count++] = (int)samba_word_integer(state, "--section-ids", word, 0, INT32_MAX);
    }
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
    for (int i = 0; i < SAMBA_COUNT(command_names); i++)
        if (strcmp(text, command_names[i]) == 0)
            a->command = (samba_cli_command)(1 << i);
    if (!a->command)
        argp_error(state, "'%s' is no command: give " COMMANDS, text);
}

static void settle_outputs(const parse *p, struct argp_state *state)
{
    samba_cli_arguments *a = p->arguments;
    if (a->command == SAMBA_CLI_REPORT && p->output_count > 1)
        argp_error(state, "report writes one page: '--output %s' is one too many", p->outputs[1]);
    if (a->command == SAMBA_CLI_REPORT && p->output_count > 0)
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

static void settle(const parse *p, struct argp_state *state)
{
    samba_cli_arguments *a = p->arguments;
    if (!a->command)
        argp_error(state, "give a command: " COMMANDS);
    const char *command = command_names[__builtin_ctz(a->command)];
    for (int i = 0; i < SAMBA_COUNT(takers); i++)
        if (p->given[i] && !(takers[i].commands & (int)a->command))
            argp_error(state, "--%s is not an option of %s", option_name(takers[i].key), command);
    if (!a->pef && a->command != SAMBA_CLI_MACHINE)
        argp_error(state, "%s: which PEF? Give its path", command);
    if (a->type_count && a->id_count)
        argp_error(state, "--section-types and --section-ids contradict each other: give one of them");
    check_names(state, "--input", a->input_count, a->inputs);
    check_names(state, "--hyperparameter", a->hyperparameter_count, p->hyperparameters);
    settle_outputs(p, state);
    settle_profile(a, state);
    check_files(a, state);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parse *p = state->input;
    samba_cli_arguments *a = p->arguments;
    for (int i = 0; i < SAMBA_COUNT(takers); i++)
        p->given[i] = p->given[i] || takers[i].key == key;
    switch (key) {
    case KEY_GRAPH: a->graph = true; break;
    case KEY_OPERATORS: a->operators = true; break;
    case 'v': a->verbose = true; break;
    case 'i':
        a->inputs[a->input_count] = pair_of(state, "--input", text, a->input_count);
        a->input_count++;
        break;
    case 'o': /* a pair, or report's file: settle knows the command */
        if (p->output_count == SAMBA_CLI_MAX_WORDS)
            argp_error(state, "--output: more than %d are too many", SAMBA_CLI_MAX_WORDS);
        p->outputs[p->output_count++] = text;
        break;
    case KEY_PROFILE: a->profile = text; break;
    case KEY_TRACE: a->trace = text; break;
    case KEY_HYPERPARAMETER: {
        samba_cli_pair pair = pair_of(state, "--hyperparameter", text, a->hyperparameter_count);
        double value = samba_word_real(state, "--hyperparameter", pair.value, -1e300, 1e300);
        p->hyperparameters[a->hyperparameter_count] = pair;
        a->hyperparameters[a->hyperparameter_count++] = (samba_hyperparameter){pair.name, value};
        break;
    }
    case KEY_TYPES: parse_types(a, text, state); break;
    case KEY_IDS: parse_ids(a, text, state); break;
    case KEY_EVAL: a->eval = true; break;
    case KEY_GRAPH_NAME: a->graph_name = text; break;
    case KEY_LOAD: a->load = text; break;
    case KEY_SAVE: a->save = text; break;
    case KEY_INFERENCE: a->inference = true; break;
    case KEY_GRAPH_ONLY: a->run_graph_only = true; break;
    case KEY_ITERATIONS: a->num_iterations = samba_word_integer(state, "--num-iterations", text, 1, INT32_MAX); break;
    case KEY_SEED: a->seed = (uint64_t)samba_word_integer(state, "--seed", text, 0, INT64_MAX); break;
    case KEY_THREADS: a->threads = (int)samba_word_integer(state, "--threads", text, 1, 4096); break;
    case KEY_ISA: a->isa = text; break;
    case KEY_JSON: a->json = true; break;
    case KEY_VERSION: printf("sambaflow %s\n", samba_version()); exit(EXIT_SUCCESS);
    case ARGP_KEY_ARG: parse_word(a, text, state); break;
    case ARGP_KEY_END: settle(p, state); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void samba_cli_parse(int argc, char **argv, samba_cli_arguments *arguments)
{
    static const struct argp argp = {options,
                                     parse_option,
                                     "inspect|run|measure-performance|measure-sections|report PEF\nmachine",
                                     "Looks into PEFs, the compiled models of SambaFlow, runs them and measures them.\v"
                                     "inspect shows what a PEF holds; run runs its sections on given or random inputs; "
                                     "measure-performance reports time, FLOP/s against the "
                                     "machine's peak, bandwidth and memory of whole runs; measure-sections of each section; "
                                     "report writes one HTML page that a browser shows without a "
                                     "network: sections, timeline, roofline, memory over time, stages with their operators; "
                                     "machine shows what is known of this machine and tuned by, and takes no PEF.",
                                     NULL,
                                     NULL,
                                     NULL};
    static char name[] = "sambaflow"; /* messages begin with it however the program was called */
    argv[0] = name;
    *arguments = (samba_cli_arguments){0};
    parse p = {.arguments = arguments};
    argp_parse(&argp, argc, argv, 0, NULL, &p);
}
