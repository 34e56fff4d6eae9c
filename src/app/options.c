/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's command line, by argp. One table says of each option which commands take it; an option given to another
 * command is refused instead of ignored. The application's own options are appended to the table and belong to every command. */
#include "app/app.h"
#include "compiler/graph/optimizers.h"

#include <stdlib.h>
#include <string.h>

enum { /* keys of options without a letter */
       KEY_INFERENCE = 256,
       KEY_PRECISION,
       KEY_MICROBATCH,
       KEY_PEF_NAME,
       KEY_OUTPUT_FOLDER,
       KEY_MAPPING,
       KEY_DATA_PARALLEL,
       KEY_REDUCE_ON_RDU,
       KEY_ACCUMULATION,
       KEY_ITERATIONS,
       KEY_GRAPH_ONLY,
       KEY_OPTIMIZER,
       KEY_HYPERS,
       KEY_FLAGS = KEY_HYPERS + SAMBA_HYPERS, /* those of optimizers.def */
       KEY_MAX_GRAD_NORM = KEY_FLAGS + SAMBA_FLAG_BITS,
       KEY_LR_SCHEDULE,
       KEY_WARMUP,
       KEY_TOTAL_STEPS,
       KEY_MIN_LR,
       KEY_EPOCHS,
       KEY_SEED,
       KEY_THREADS,
       KEY_ISA,
       KEY_SAVE,
       KEY_LOAD,
       KEY_DATA,
       KEY_JSON,
       KEY_DUMP_AFTER,
       KEY_MEMORY_BUDGET,
       KEY_VERIFY,
       KEY_VERSION,
       KEY_CHUNK_BYTES,
       KEY_FAST_MEMORY,
       KEY_CHECKPOINT_DIR,
       KEY_CHECKPOINT_EVERY,
       KEY_KEEP,
       KEY_SHARD_SIZE,
       KEY_RESUME,
       KEY_O0 = 400,
       KEY_O1,
       KEY_O3,
       KEY_DEBUG,
       KEY_MAC_V2,
       KEY_TILING_ACCUM,
       KEY_NUM_TILES,
       KEY_LOG_LEVEL,
       KEY_SCALING_FACTORS,
       KEY_ARCH,
       KEY_COMPILER_MODE,
       /* of another device: taken and named once */
       KEY_OPTIMIZATION_RULES,
       KEY_COMPILER_CONFIGS,
       KEY_WORLD_SIZE,
       KEY_DISTLEARN_CONFIG,
       KEY_NO_EFFECT_END,
       KEY_OWN = 512 /* and up: the application's */
};
enum { /* optimizers */
       KINDS = 0
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps) +1
#include "optimizers.def"
};
#define MAX_BATCH (1 << 24)
#define MAX_OWN 24

enum {
    C = SAMBA_APP_COMPILE,
    R = SAMBA_APP_RUN,
    T = SAMBA_APP_TEST,
    P = SAMBA_APP_PERFORMANCE,
    S = SAMBA_APP_SECTIONS,
    ALL = C | R | T | P | S
};
typedef struct option_row {
    struct argp_option argp;
    int commands;
} option_row;
static const option_row rows[] = {
    {{0, 0, 0, 0, "Model and PEF:", 1}, ALL},
    {{"batch-size", 'b', "N", 0, "Samples in a step", 1}, ALL},
    {{"microbatch-size", KEY_MICROBATCH, "N", 0,
      "(also -mb) Samples in a run; must divide the batch size, a step is then several runs", 1},
     ALL},
    {{"grad-accumulation-steps", KEY_ACCUMULATION, "N", 0, "Runs in a step, whose gradients add up: batch size / microbatch size",
      1},
     C | R | T},
    {{"inference", KEY_INFERENCE, 0, 0, "Forward only", 1}, ALL},
    {{"precision", KEY_PRECISION, "fp32|bf16", 0,
      "bf16: contractions in bfloat16 with float32 sums, weights and all else in float32 (fp32)", 1},
     C | T},
    {{"pef", 'p', "FILE", 0, "The PEF to run; for compile: the file to write", 1}, C | R | P | S},
    {{"pef-name", KEY_PEF_NAME, "NAME", 0, "Name of the PEF that compile writes (the application's)", 1}, C},
    {{"output-folder", KEY_OUTPUT_FOLDER, "FOLDER", 0, "Where compile makes the folder NAME with NAME.pef and NAME.pef.log (out)",
      1},
     C},
    {{"mapping", KEY_MAPPING, "section|spatial", 0,
      "How the graph is placed: in sections that fit the fast memory one by one, or forward and backward as one (section)", 1},
     ALL},
    {{"fast-memory", KEY_FAST_MEMORY, "BYTES", 0, "Memory that a section may use (as much as there is)", 1}, C | T},
    {{"data-parallel", KEY_DATA_PARALLEL, 0, 0, "Train several replicas", 1}, ALL},
    {{"reduce-on-rdu", KEY_REDUCE_ON_RDU, 0, 0, "Average gradients of replicas on the device", 1}, ALL},
    {{"memory-budget", KEY_MEMORY_BUDGET, "BYTES", 0,
      "Memory the model may take: what does not fit is computed again in the backward", 1},
     C | T},
    {{"chunk-bytes", KEY_CHUNK_BYTES, "N", 0,
      "Logits larger than this are computed in chunks of rows of at most this size (67108864)", 1},
     C | T},
    {{"dump-after", KEY_DUMP_AFTER, "PASS", 0, "Print the graph after this pass of the compiler (all: after each)", 1}, C},
    {{"verify", KEY_VERIFY, 0, 0, "Check the graph after every pass of the compiler", 1}, C | T},
    {{0, 0, 0, 0, "Training:", 2}, ALL},
    {{"optimizer", KEY_OPTIMIZER, "NAME", 0, "The optimizer compiled into the PEF", 2}, C | T},
#define RUN C | R | T
#define COMPILE C | T
#define HYPERPARAMETER(name, option, range, when, help) {{option, KEY_HYPERS + SAMBA_HYPER_##name, "X", 0, help, 2}, when},
#define FLAG(name, option, help) {{option, KEY_FLAGS + SAMBA_BIT_##name, 0, 0, help, 2}, C | T},
#include "optimizers.def"
    {{"max-grad-norm", KEY_MAX_GRAD_NORM, "X", 0, "Clip gradients to this global norm", 2}, C | R | T},
    {{"lr-schedule", KEY_LR_SCHEDULE, "constant|linear|cosine", 0,
      "How the learning rate goes down to --min-lr after the warm-up (constant; with --resume that of the checkpoint, as the "
      "next three)",
      2},
     R},
    {{"warmup-steps", KEY_WARMUP, "N", 0, "Steps in which the learning rate rises from 0 (0)", 2}, R},
    {{"total-steps", KEY_TOTAL_STEPS, "N", 0, "Steps of the schedule, warm-up included (those of this run)", 2}, R},
    {{"min-lr", KEY_MIN_LR, "X", 0, "Learning rate at the end of the schedule (0)", 2}, R},
    {{"num-epochs", KEY_EPOCHS, "N", 0, "Times to see all training samples", 2}, R},
    {{"data", KEY_DATA, "PATH", 0, "Folder of training and test samples, or the text itself (examples/data)", 2}, R},
    {{"load", KEY_LOAD, "FILE", 0, "Start from this safetensors file", 2}, R},
    {{"save", KEY_SAVE, "FILE", 0, "Write weights and optimizer state to this safetensors file at the end", 2}, R},
    {{"checkpoint-dir", KEY_CHECKPOINT_DIR, "FOLDER", 0,
      "Save the training there as it goes, in folders checkpoint-STEP from which --resume goes on", 2},
     R},
    {{"checkpoint-every", KEY_CHECKPOINT_EVERY, "N", 0, "Steps between checkpoints, and one at the end (those of an epoch)", 2},
     R},
    {{"keep", KEY_KEEP, "N", 0, "Checkpoints that stay, the newest; 0: all (2)", 2}, R},
    {{"shard-size", KEY_SHARD_SIZE, "BYTES", 0,
      "Cut a checkpoint's weights and state into files of at most this size (5000000000)", 2},
     R},
    {{"resume", KEY_RESUME, 0, 0, "Go on from the newest checkpoint of --checkpoint-dir that is whole; start where there is none",
      2},
     R},
    {{0, 0, 0, 0, "Running:", 3}, ALL},
    {{"num-iterations", KEY_ITERATIONS, "N", 0, "run: stop after N steps; measure: runs to measure (100)", 3}, R | P | S},
    {{"run-graph-only", KEY_GRAPH_ONLY, 0, 0, "Measure without moving tensors between host and device", 3}, P},
    {{"seed", KEY_SEED, "N", 0, "Of weights, dropout and the order of samples (0)", 3}, R | T | P | S},
    {{"threads", KEY_THREADS, "N", 0, "Threads (as many as the machine offers)", 3}, R | T | P | S},
    {{"isa", KEY_ISA, "ISA", 0, "Force an instruction set, one that `sambaflow machine` lists (the best there is, or SAMBAFLOW_ISA)", 3},
     R | T | P | S},
    {{"json", KEY_JSON, 0, 0, "Print one JSON object, and progress to stderr", 3}, ALL},
    {{0, 0, 0, 0, "Taken without effect, since they are about another device:", 4}, ALL},
    {{"o0", KEY_O0, 0, 0, "One operator a section", 4}, ALL},
    {{"o1", KEY_O1, 0, 0, "Operators fused by rules", 4}, ALL},
    {{"o3", KEY_O3, 0, 0, "The whole graph as one", 4}, ALL},
    {{"debug", KEY_DEBUG, 0, 0, "Keep what the compiler makes", 4}, ALL},
    {{"mac-v2", KEY_MAC_V2, 0, 0, "The second estimator of resources", 4}, ALL},
    {{"tiling-accum", KEY_TILING_ACCUM, 0, 0, "Add up gradients of tiles", 4}, ALL},
    {{"num-tiles", KEY_NUM_TILES, "N", 0, "Tiles of the chip", 4}, ALL},
    {{"log-level", KEY_LOG_LEVEL, "WORD", 0, "What the compiler tells", 4}, ALL},
    {{"resources-scaling-factors", KEY_SCALING_FACTORS, "X...", 0, "Factors of the estimates of resources", 4}, ALL},
    {{"arch", KEY_ARCH, "WORD", 0, "The chip", 4}, ALL},
    {{"compiler-mode", KEY_COMPILER_MODE, "WORD", 0, "The kind of model", 4}, ALL},
    {{"optimization-rules", KEY_OPTIMIZATION_RULES, "FILE", 0, "Rules of fusion", 4}, ALL},
    {{"compiler-configs-file", KEY_COMPILER_CONFIGS, "FILE", 0, "Settings of the compiler", 4}, ALL},
    {{"world-size", KEY_WORLD_SIZE, "N", 0, "Replicas", 4}, ALL},
    {{"distlearn-config", KEY_DISTLEARN_CONFIG, "FILE", 0, "Settings of replicas", 4}, ALL},
    {{"version", KEY_VERSION, 0, 0, "Print the library's version", -1}, ALL},
};

static const char *const command_names[] = {"compile", "run", "test", "measure-performance", "measure-sections"};

static const char max_grad_norm[] = "max_grad_norm";

typedef struct parse {
    samba_app_arguments *arguments;
    bool given[SAMBA_COUNT(rows)];
    int64_t batch, microbatch, accumulation; /* 0: not given */
    bool optimizer_given;
    unsigned flags; /* of the optimizer, that were given */
    samba_optimizer_kind kind;
    const struct argp_option *options; /* all, ended by one without a name and a group */
} parse;

static int row_of(int key)
{
    for (int i = 0; i < SAMBA_COUNT(rows); i++)
        if (rows[i].argp.name && rows[i].argp.key == key)
            return i;
    return -1;
}

static void own_option(const samba_app_option *option, const char *text, struct argp_state *state)
{
    char name[64];
    snprintf(name, sizeof name, "--%s", option->name);
    if (option->integer)
        *option->integer = samba_word_integer(state, name, text, (int64_t)option->low, (int64_t)option->high);
    else if (option->real)
        *option->real = samba_word_real(state, name, text, option->low, option->high);
    else
        *option->flag = true;
}

static void hyperparameter(samba_app_arguments *arguments, const char *name, double value)
{
    int i = 0;
    while (i < arguments->hyperparameter_count && strcmp(arguments->hyperparameters[i].name, name) != 0)
        i++;
    arguments->hyperparameters[i] = (samba_hyperparameter){name, value};
    if (i == arguments->hyperparameter_count)
        arguments->hyperparameter_count++;
}

/* The optimizer: the application's or, when another kind was asked for, PyTorch's defaults; then what was given. */
static void settle_optimizer(parse *p)
{
    samba_app_arguments *a = p->arguments;
    a->optimizer = a->app->optimizer;
    if (p->optimizer_given && p->kind != a->optimizer.kind)
        a->optimizer = samba_optimizer_defaults(p->kind);
    samba_optimizer *o = &a->optimizer;
    for (int i = 0; i < a->hyperparameter_count; i++) {
        for (int k = 0; k < SAMBA_HYPERS; k++)
            if (strcmp(a->hyperparameters[i].name, samba_hypers[k].name) == 0)
                samba_hyper_set_in(o, (samba_hyper)k, a->hyperparameters[i].value);
        if (strcmp(a->hyperparameters[i].name, max_grad_norm) == 0)
            o->max_grad_norm = a->hyperparameters[i].value;
    }
#define FLAG(name, option, help) o->name = o->name || (p->flags & SAMBA_FLAG_##name);
#include "optimizers.def"
}

/* Refuses an option that the optimizer does not have, and names those that have it. */
static void check_option(const parse *p, struct argp_state *state, int key, bool (*has)(samba_optimizer_kind kind, int which),
                         int which)
{
    const samba_optimizer_kind kind = p->arguments->optimizer.kind;
    if (!p->given[row_of(key)] || has(kind, which))
        return;
    char names[256] = "";
    for (int i = 0; i < samba_optimizer_count(); i++)
        if (has((samba_optimizer_kind)i, which))
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? " or " : "",
                     samba_optimizer_facts_at(i)->name);
    argp_error(state, "--%s: %s has none: give --optimizer %s too, or leave it out", rows[row_of(key)].argp.name,
               samba_optimizer_facts_at((int)kind)->title, names);
}

static bool takes(samba_optimizer_kind kind, int hyper) { return samba_optimizer_takes(kind, (samba_hyper)hyper); }

static bool has_flag(samba_optimizer_kind kind, int bit)
{
    static const char *const names[] = {
#define FLAG(name, option, help) [SAMBA_BIT_##name] = #name,
#include "optimizers.def"
    };
    return samba_optimizer_has(kind, names[bit]);
}

/* Options that the optimizer does not have are refused; a run learns the optimizer from the PEF. */
static void check_optimizer(const parse *p, struct argp_state *state)
{
    if (p->arguments->command == SAMBA_APP_RUN)
        return;
    for (int i = 0; i < SAMBA_HYPERS; i++)
        check_option(p, state, KEY_HYPERS + i, takes, i);
#define FLAG(name, option, help) check_option(p, state, KEY_FLAGS + SAMBA_BIT_##name, has_flag, SAMBA_BIT_##name);
#include "optimizers.def"
}

static bool has_no_effect(int key) { return key >= KEY_O0 && key < KEY_NO_EFFECT_END; }

static void name_without_effect(const parse *p)
{
    char names[512] = "";
    for (int i = 0; i < SAMBA_COUNT(rows); i++)
        if (p->given[i] && has_no_effect(rows[i].argp.key))
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s--%s", names[0] ? ", " : "", rows[i].argp.name);
    if (names[0])
        fprintf(stderr, "%s: warning: %s: without effect on this device, a CPU\n", p->arguments->app->name, names);
}

/* Refuses a word that is neither an option nor the beginning of one, before argp does without a hint. */
static void check_names(const parse *p, struct argp_state *state)
{
    const char *known[SAMBA_COUNT(rows) + MAX_OWN + 2] = {"help", "usage"};
    int count = 2;
    state->name = (char *)p->arguments->app->name; /* argp sets it later; nobody writes there */
    for (const struct argp_option *o = p->options; o->name || o->group; o++)
        if (o->name)
            known[count++] = o->name;
    for (int i = 1; i < state->argc && strcmp(state->argv[i], "--") != 0; i++) {
        const char *word = state->argv[i], *end = word + strcspn(word, "=");
        if (strcmp(word, "-b") == 0 || strcmp(word, "-p") == 0)
            i++; /* its value */
        if (strncmp(word, "--", 2) != 0)
            continue;
        const size_t length = (size_t)(end - word) - 2;
        int at = 0;
        while (at < count && strncmp(known[at], word + 2, length) != 0)
            at++;
        if (at == count) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)length, word + 2);
            const char *near = samba_nearest(name, known, count);
            argp_error(state, "there is no option --%s%s%s%s", name, near ? ": did you mean --" : "", near ? near : "",
                       near ? "?" : "");
        }
        for (const struct argp_option *o = p->options; !*end && (o->name || o->group); o++)
            if (o->name && strcmp(o->name, known[at]) == 0 && o->arg)
                i++;
    }
}

static void settle(parse *p, struct argp_state *state)
{
    samba_app_arguments *a = p->arguments;
    if (!a->command)
        argp_error(state, "give a command: compile, run, test, measure-performance or measure-sections");
    for (int i = 0; i < SAMBA_COUNT(rows); i++) {
        if (!p->given[i] || (rows[i].commands & (int)a->command))
            continue;
        char takers[128] = "";
        for (int k = 0; k < SAMBA_COUNT(command_names); k++)
            if (rows[i].commands & (1 << k))
                snprintf(takers + strlen(takers), sizeof takers - strlen(takers), "%s%s", takers[0] ? ", " : "",
                         command_names[k]);
        const char *command = command_names[__builtin_ctz(a->command)];
        argp_error(state, "--%s is not an option of %s: give it to %s", rows[i].argp.name, command, takers);
    }
    for (int key = KEY_OPTIMIZER; key <= KEY_EPOCHS && a->inference; key++)
        if (p->given[row_of(key)])
            argp_error(state, "--%s is training's: leave it or --inference out", rows[row_of(key)].argp.name);
    const char *wrong = a->app->check ? a->app->check(a->app->settings) : NULL;
    if (wrong)
        argp_error(state, "%s", wrong);
    a->batch_given = p->batch || p->microbatch;
    a->batch_size = p->batch ? p->batch : a->app->batch_size;
    a->microbatch = p->microbatch ? p->microbatch : a->batch_size;
    if (a->batch_size % a->microbatch != 0)
        argp_error(state, "--microbatch-size %lld does not divide --batch-size %lld", (long long)a->microbatch,
                   (long long)a->batch_size);
    a->accumulation_given = p->accumulation > 0;
    bool pefs_batch = a->command == SAMBA_APP_RUN && !a->batch_given; /* then the PEF says how many samples a step has */
    if (!p->microbatch && p->accumulation && !pefs_batch) {
        if (a->batch_size % p->accumulation != 0)
            argp_error(state, "--grad-accumulation-steps %lld does not divide --batch-size %lld", (long long)p->accumulation,
                       (long long)a->batch_size);
        a->microbatch = a->batch_size / p->accumulation;
    }
    a->accumulation = (int)(pefs_batch && p->accumulation ? p->accumulation : a->batch_size / a->microbatch);
    if (p->accumulation && p->accumulation != a->accumulation)
        argp_error(state, "--grad-accumulation-steps %lld contradicts --batch-size %lld / --microbatch-size %lld, which is %d",
                   (long long)p->accumulation, (long long)a->batch_size, (long long)a->microbatch, a->accumulation);
    if (a->command == SAMBA_APP_COMPILE && a->pef && (a->pef_name || a->output_folder))
        argp_error(state, "--pef says which file to write: leave out --pef-name and --output-folder, or --pef");
    if ((a->command & (R | P | S)) && !a->pef)
        argp_error(state, "--pef FILE is missing: '%s compile' makes one and prints its path", state->name);
    if (a->schedule.total_steps && a->schedule.warmup_steps > a->schedule.total_steps)
        argp_error(state, "--warmup-steps %lld are more than --total-steps %lld, which count them too",
                   (long long)a->schedule.warmup_steps, (long long)a->schedule.total_steps);
    a->kind_given = p->given[row_of(KEY_LR_SCHEDULE)], a->warmup_given = p->given[row_of(KEY_WARMUP)];
    a->total_given = p->given[row_of(KEY_TOTAL_STEPS)], a->min_lr_given = p->given[row_of(KEY_MIN_LR)];
    if (a->min_lr_given && a->schedule.kind == SAMBA_LR_CONSTANT)
        argp_error(state, "--min-lr is the end of a schedule: give --lr-schedule linear or cosine too");
    if (a->total_given && a->schedule.kind == SAMBA_LR_CONSTANT)
        argp_error(state, "--total-steps are those of a schedule: give --lr-schedule linear or cosine too");
    for (int key = KEY_CHECKPOINT_EVERY; key <= KEY_RESUME; key++)
        if (p->given[row_of(key)] && !a->checkpoint_dir)
            argp_error(state, "--%s is of checkpoints: give --checkpoint-dir FOLDER too", rows[row_of(key)].argp.name);
    if (a->checkpoint_dir && a->inference)
        argp_error(state, "--checkpoint-dir is training's: leave it or --inference out");
    if (a->resume && a->load)
        argp_error(state, "--resume goes on from a checkpoint and --load starts from a file: give one of them");
    settle_optimizer(p);
    check_optimizer(p, state);
    name_without_effect(p);
}

static void parse_command(samba_app_arguments *a, const char *text, struct argp_state *state)
{
    if (a->command)
        argp_error(state, "one command at a time: '%s' is one too many", text);
    for (int i = 0; i < SAMBA_COUNT(command_names); i++)
        if (strcmp(text, command_names[i]) == 0)
            a->command = (samba_app_command)(1 << i);
    if (!a->command)
        argp_error(state, "'%s' is no command: give compile, run, test, measure-performance or measure-sections", text);
    if (a->command == SAMBA_APP_RUN && !a->app->data)
        argp_error(state, "%s has no training data of its own, so it has no run", a->app->name);
}

static void parse_pass(samba_app_arguments *a, const char *text, struct argp_state *state)
{
    a->dump_after = text;
    bool known = strcmp(text, "all") == 0;
    char names[256] = "all";
    for (const char *const *pass = samba_pass_names(); *pass; pass++) {
        known = known || strcmp(text, *pass) == 0;
        snprintf(names + strlen(names), sizeof names - strlen(names), ", %s", *pass);
    }
    if (!known)
        argp_error(state, "--dump-after: expected one of %s, given '%s'", names, text);
}

static samba_optimizer_kind parse_kind(const char *text, struct argp_state *state)
{
    const char *names[KINDS];
    for (int i = 0; i < KINDS; i++)
        names[i] = samba_optimizer_facts_at(i)->name;
    return (samba_optimizer_kind)samba_word_choice(state, "--optimizer", text, names, KINDS);
}

static void parse_hyper(samba_app_arguments *a, samba_hyper hyper, const char *text, struct argp_state *state)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !samba_range_has(samba_hypers[hyper].range, value))
        argp_error(state, "--%s: expected %s, given '%s'", rows[row_of(KEY_HYPERS + (int)hyper)].argp.name,
                   samba_range_text(samba_hypers[hyper].range), text);
    hyperparameter(a, samba_hypers[hyper].name, value);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parse *p = state->input;
    samba_app_arguments *a = p->arguments;
    if (key >= KEY_OWN && key < KEY_OWN + a->app->option_count) {
        own_option(&a->app->options[key - KEY_OWN], text, state);
        a->own_given = true;
        return 0;
    }
    int row = row_of(key);
    if (row >= 0)
        p->given[row] = true;
    if (key >= KEY_HYPERS && key < KEY_FLAGS) {
        parse_hyper(a, (samba_hyper)(key - KEY_HYPERS), text, state);
        return 0;
    }
    if (key >= KEY_FLAGS && key < KEY_MAX_GRAD_NORM) {
        p->flags |= 1u << (key - KEY_FLAGS);
        return 0;
    }
    switch (key) {
    case 'b': p->batch = samba_word_integer(state, "--batch-size", text, 1, MAX_BATCH); break;
    case KEY_MICROBATCH: p->microbatch = samba_word_integer(state, "--microbatch-size", text, 1, MAX_BATCH); break;
    case KEY_ACCUMULATION: p->accumulation = samba_word_integer(state, "--grad-accumulation-steps", text, 1, MAX_BATCH); break;
    case KEY_MEMORY_BUDGET: a->memory_budget = samba_word_integer(state, "--memory-budget", text, 1, INT64_MAX); break;
    case KEY_INFERENCE: a->inference = true; break;
    case KEY_PRECISION:
        a->precision = (samba_precision)samba_word_choice(state, "--precision", text, samba_precision_names, 2);
        break;
    case 'p': a->pef = text; break;
    case KEY_PEF_NAME: a->pef_name = text; break;
    case KEY_OUTPUT_FOLDER: a->output_folder = text; break;
    case KEY_MAPPING: a->mapping = (samba_mapping)samba_word_choice(state, "--mapping", text, samba_mapping_names, 2); break;
    case KEY_FAST_MEMORY: a->fast_memory = samba_word_integer(state, "--fast-memory", text, 1, INT64_MAX); break;
    case KEY_DATA_PARALLEL: argp_failure(state, 1, 0, "--data-parallel is not supported by this build: run one replica"); break;
    case KEY_REDUCE_ON_RDU: argp_failure(state, 1, 0, "--reduce-on-rdu is not supported by this build: run one replica"); break;
    case KEY_ITERATIONS: a->num_iterations = samba_word_integer(state, "--num-iterations", text, 1, INT32_MAX); break;
    case KEY_GRAPH_ONLY: a->run_graph_only = true; break;
    case KEY_OPTIMIZER:
        p->kind = parse_kind(text, state);
        p->optimizer_given = true;
        break;
    case KEY_MAX_GRAD_NORM: hyperparameter(a, max_grad_norm, samba_word_real(state, "--max-grad-norm", text, 0, 1e30)); break;
    case KEY_LR_SCHEDULE:
        a->schedule.kind =
            (samba_lr_schedule)samba_word_choice(state, "--lr-schedule", text, samba_lr_schedule_names, SAMBA_LR_SCHEDULES);
        break;
    case KEY_WARMUP: a->schedule.warmup_steps = samba_word_integer(state, "--warmup-steps", text, 0, INT32_MAX); break;
    case KEY_TOTAL_STEPS: a->schedule.total_steps = samba_word_integer(state, "--total-steps", text, 1, INT32_MAX); break;
    case KEY_MIN_LR: a->schedule.min_lr = samba_word_real(state, "--min-lr", text, 0, 1e6); break;
    case KEY_EPOCHS: a->num_epochs = samba_word_integer(state, "--num-epochs", text, 1, 1000000); break;
    case KEY_CHECKPOINT_DIR: a->checkpoint_dir = text; break;
    case KEY_CHECKPOINT_EVERY: a->checkpoint_every = samba_word_integer(state, "--checkpoint-every", text, 1, INT64_MAX); break;
    case KEY_KEEP: a->keep = (int)samba_word_integer(state, "--keep", text, 0, INT32_MAX); break;
    case KEY_SHARD_SIZE: a->shard_size = samba_word_integer(state, "--shard-size", text, 1, INT64_MAX); break;
    case KEY_RESUME: a->resume = true; break;
    case KEY_SEED:
        a->seed_given = true;
        a->seed = (uint64_t)samba_word_integer(state, "--seed", text, 0, INT64_MAX);
        break;
    case KEY_THREADS: a->threads = (int)samba_word_integer(state, "--threads", text, 1, 4096); break;
    case KEY_ISA: a->isa = text; break;
    case KEY_SAVE: a->save = text; break;
    case KEY_LOAD: a->load = text; break;
    case KEY_DATA: a->data = text; break;
    case KEY_JSON: a->json = true; break;
    case KEY_CHUNK_BYTES: a->chunk_bytes = samba_word_integer(state, "--chunk-bytes", text, 1, INT64_MAX); break;
    case KEY_DUMP_AFTER: parse_pass(a, text, state); break;
    case KEY_VERIFY: a->verify = true; break;
    case KEY_VERSION: printf("%s (sambaflow %s)\n", a->app->name, samba_version()); exit(EXIT_SUCCESS);
    case ARGP_KEY_INIT: check_names(p, state); break;
    case ARGP_KEY_ARG: parse_command(a, text, state); break;
    case ARGP_KEY_END: settle(p, state); break;
    default: return has_no_effect(key) ? 0 : ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static struct argp_option *option_of(struct argp_option *options, int count, int key)
{
    int i = 0;
    while (i < count && options[i].key != key)
        i++;
    return i < count ? &options[i] : NULL;
}

static bool any(samba_optimizer_kind kind, int which)
{
    (void)kind, (void)which;
    return true;
}

/* "Momentum (sgd)": the option's help and who has it, unless that is everyone. */
static void describe(char *text, size_t size, const char *help, bool (*has)(samba_optimizer_kind kind, int which), int which)
{
    char names[256] = "";
    int count = 0;
    for (int i = 0; i < samba_optimizer_count(); i++) {
        const bool its = has((samba_optimizer_kind)i, which);
        count += its;
        if (its)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? ", " : "",
                     samba_optimizer_facts_at(i)->name);
    }
    if (count == samba_optimizer_count() && has != any)
        snprintf(text, size, "%s", help);
    else
        snprintf(text, size, "%s (%s)", help, names);
}

void samba_app_parse(int argc, char **argv, const samba_app *app, samba_app_arguments *arguments)
{
    struct argp_option options[SAMBA_COUNT(rows) + MAX_OWN + 2];
    int count = 0;
    for (int row = 0; row < SAMBA_COUNT(rows); row++) {
        bool own = false; /* what the application means by the name has an effect */
        for (int i = 0; i < app->option_count && has_no_effect(rows[row].argp.key); i++)
            own = own || strcmp(app->options[i].name, rows[row].argp.name) == 0;
        if (!own)
            options[count++] = rows[row].argp;
    }
    char optimizers[512];
    struct argp_option *kinds = option_of(options, count, KEY_OPTIMIZER);
    describe(optimizers, sizeof optimizers, kinds->doc, any, 0);
    kinds->doc = optimizers;
    char hyper_helps[SAMBA_HYPERS + SAMBA_FLAG_BITS][256];
    for (int i = 0; i < SAMBA_HYPERS + SAMBA_FLAG_BITS; i++) {
        struct argp_option *option = option_of(options, count, KEY_HYPERS + i);
        if (!option)
            continue; /* bits that are no flags of the table */
        describe(hyper_helps[i], sizeof hyper_helps[i], option->doc, i < SAMBA_HYPERS ? takes : has_flag,
                 i < SAMBA_HYPERS ? i : i - SAMBA_HYPERS);
        option->doc = hyper_helps[i];
    }
    char helps[MAX_OWN][160];
    for (int i = 0; i < app->option_count && i < MAX_OWN; i++) {
        const samba_app_option *own = &app->options[i];
        if (own->integer)
            snprintf(helps[i], sizeof helps[i], "%s (%lld)", own->help, (long long)*own->integer);
        else if (own->real)
            snprintf(helps[i], sizeof helps[i], "%s (%g)", own->help, *own->real);
        else
            snprintf(helps[i], sizeof helps[i], "%s", own->help);
        options[count++] =
            (struct argp_option){own->name, KEY_OWN + i, own->integer ? "N" : own->real ? "X" : NULL, 0, helps[i], 1};
    }
    options[count] = (struct argp_option){0};
    char text[1024];
    snprintf(text, sizeof text,
             "%s\v"
             "compile writes the model and its training into one file, a PEF, and prints its path; run trains from it, or with "
             "--inference only "
             "tests; test compares what a compiled step computes with plain reference kernels; measure-performance and "
             "measure-sections time "
             "a PEF. Defaults: batch size %lld, %lld epochs, %s with lr %g.",
             app->description, (long long)app->batch_size, (long long)app->num_epochs,
             samba_optimizer_facts_at((int)app->optimizer.kind)->name, app->optimizer.lr);
    const struct argp argp = {options, parse_option, "compile|run|test|measure-performance|measure-sections", text, NULL,
                              NULL,    NULL};
    *arguments = (samba_app_arguments){.app = app, .num_epochs = app->num_epochs, .keep = 2};
    parse p = {.arguments = arguments, .options = options};
    argp_parse(&argp, argc, argv, 0, NULL, &p);
}
