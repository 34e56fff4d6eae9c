/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's command line, by argp. One table says of each option which commands take it; an option given to another
 * command is refused instead of ignored. The application's own options are appended to the table and belong to every command. */
#include "app/app.h"
#include "compiler/graph/optimizers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_OWN = 512 }; /* and up: keys of the application's own options */
enum {                  /* optimizers */
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
typedef struct parse {
    samba_app_arguments a;
    bool *given;                             /* per row */
    int64_t batch, microbatch, accumulation; /* 0: not given */
    bool optimizer_given;
    unsigned flags; /* of the optimizer, that were given */
    samba_optimizer_kind kind;
} parse;

typedef void take_option(void *into, const samba_option_row *row, char *text, struct argp_state *state);
static take_option take_pass, take_optimizer, take_hyper, take_flag, take_norm, print_version;

static const char *const reduce_dtypes[2] = {"float32", "bfloat16"};

static const samba_option_row rows[] = {
    {.help = "Model and PEF:"},
    {ALL, "batch-size", "N", "Samples in a step", INTEGER_AT(batch, 1, MAX_BATCH), .letter = 'b'},
    {ALL, "microbatch-size", "N", "(also -mb) Samples in a run; must divide the batch size, a step is then several runs",
     INTEGER_AT(microbatch, 1, MAX_BATCH)},
    {C | R | T, "grad-accumulation-steps", "N", "Runs in a step, whose gradients add up: batch size / microbatch size",
     INTEGER_AT(accumulation, 1, MAX_BATCH)},
    {ALL, "inference", NULL, "Forward only", FLAG_AT(a.inference)},
    {C | T, "precision", "fp32|bf16", "bf16: contractions in bfloat16 with float32 sums, weights and all else in float32 (fp32)",
     CHOICE_AT(a.precision, samba_precision_names, 2)},
    {C | R | P | S, "pef", "FILE", "The PEF to run; for compile: the file to write", TEXT_AT(a.pef), .letter = 'p'},
    {C, "pef-name", "NAME", "Name of the PEF that compile writes (the application's)", TEXT_AT(a.pef_name)},
    {C, "output-folder", "FOLDER", "Where compile makes the folder NAME with NAME.pef and NAME.pef.log (out)",
     TEXT_AT(a.output_folder)},
    {ALL, "mapping", "section|spatial",
     "How the graph is placed: in sections that fit the fast memory one by one, or forward and backward as one (section)",
     CHOICE_AT(a.mapping, samba_mapping_names, 2)},
    {C | T, "fast-memory", "BYTES", "Memory that a section may use (as much as there is)",
     INTEGER_AT(a.fast_memory, 1, INT64_MAX)},
    {ALL, "data-parallel", NULL,
     "Replicas train together: compile gives the PEF sections that average their gradients; run is one of those that mpirun has "
     "started, and takes its part of each step's samples",
     FLAG_AT(a.data_parallel)},
    {R, "data-parallel-mode", "normal|inorder|optimal",
     "When gradients travel: in the schedule's order, while the backward makes others, or while updates run too (normal)",
     CHOICE_AT(a.mode, samba_replica_modes, SAMBA_MODE_COUNT)},
    {R, "reduce-on-rdu", NULL, "Average gradients of replicas in the device's memory, as the CPU always does",
     FLAG_AT(a.reduce_on_rdu)},
    {R, "shard-optimizer", NULL,
     "Each replica updates a part of the parameters and keeps the optimizer's state of that part alone",
     FLAG_AT(a.shard_optimizer)},
    {R, "reduce-dtype", "float32|bfloat16",
     "What gradients travel as between replicas; of bfloat16 what rounding takes is added the next time (float32)",
     CHOICE_AT(a.reduce_dtype, reduce_dtypes, 2)},
    {ALL, "world-size", "N", "How many replicas there have to be: a run by another number is refused",
     INT_AT(a.world_size, 1, 1 << 20)},
    {ALL, "distlearn-config", "FILE",
     "The same as --data-parallel; nothing in the file counts, as MPI knows who the replicas are", TEXT_AT(a.distlearn_config)},
    {C | T, "memory-budget", "BYTES", "Memory the model may take: what does not fit is computed again in the backward",
     INTEGER_AT(a.memory_budget, 1, INT64_MAX)},
    {C | T, "chunk-bytes", "BYTES", "Logits larger than this are computed in chunks of rows of at most this size (64MiB)",
     INTEGER_AT(a.chunk_bytes, 1, INT64_MAX)},
    {C, "dump-after", "PASS", "Print the graph after this pass of the compiler (all: after each)", OTHER(take_pass)},
    {C | T, "verify", NULL, "Check the graph after every pass of the compiler", FLAG_AT(a.verify)},
    {.help = "Training:"},
    {C | T, "optimizer", "NAME", "The optimizer compiled into the PEF", OTHER(take_optimizer)},
#define RUN C | R | T
#define COMPILE C | T
#define HYPERPARAMETER(name, option, range, when, help) {when, option, "X", help, OTHER(take_hyper), .at = SAMBA_HYPER_##name},
#define FLAG(name, option, help) {C | T, option, NULL, help, OTHER(take_flag), .at = SAMBA_BIT_##name},
#include "optimizers.def"
    {C | R | T, "max-grad-norm", "X", "Clip gradients to this global norm", OTHER(take_norm)},
    {C, "last-batch", "N", "Also compile for a last batch of N samples, fewer than --batch-size",
     INTEGER_AT(a.last_batch, 1, MAX_BATCH)},
    {R, "keep-last", NULL,
     "The last samples of an epoch, too few for a whole step, make a smaller one (they are left out); run wants a PEF that was "
     "compiled with --last-batch, train compiles for it",
     FLAG_AT(a.keep_last)},
    {C | T, "no-decay", "PATTERNS",
     "Parameters without weight decay: patterns of names, with a comma between two; vectors: those of one dim, norms and biases",
     TEXT_AT(a.no_decay)},
    {R, "lr-schedule", "constant|linear|cosine",
     "How the learning rate goes down to --min-lr after the warm-up (constant; with --resume that of the checkpoint, as the next "
     "three)",
     CHOICE_AT(a.schedule.kind, samba_lr_schedule_names, SAMBA_LR_SCHEDULES)},
    {R, "warmup-steps", "N", "Steps in which the learning rate rises from 0 (0)",
     INTEGER_AT(a.schedule.warmup_steps, 0, INT32_MAX)},
    {R, "total-steps", "N", "Steps of the schedule, warm-up included (those of this run)",
     INTEGER_AT(a.schedule.total_steps, 1, INT32_MAX)},
    {R, "min-lr", "X", "Learning rate at the end of the schedule (0)", REAL_AT(a.schedule.min_lr, 0, 1000000)},
    {R, "num-epochs", "N", "Times to see all training samples", INTEGER_AT(a.num_epochs, 1, 1000000)},
    {R, "eval-every", "N", "Steps between tests, besides the one at the end", INTEGER_AT(a.eval_every, 1, INT64_MAX)},
    {R, "patience", "N", "Stop behind so many tests, of each epoch or of --eval-every, that are no better than the best",
     INTEGER_AT(a.patience, 1, INT64_MAX)},
    {R, "min-delta", "X", "What a test must be better by to count for --patience: percents right, or a loss (0)",
     REAL_AT(a.min_delta, 0, 1000000)},
    {R, "save-best", "FILE", "Write weights and optimizer state of the best test to this safetensors file", TEXT_AT(a.save_best)},
    {R, "log-every", "N", "Steps between lines that say the loss of a step", INTEGER_AT(a.log_every, 1, INT64_MAX)},
    {R, "data", "PATH", "Folder of training and test samples, or the text itself (examples/data)", TEXT_AT(a.data)},
    {R, "load", "FILE", "Start from this safetensors file", TEXT_AT(a.load)},
    {R, "save", "FILE", "Write weights and optimizer state to this safetensors file at the end", TEXT_AT(a.save)},
    {R, "checkpoint-dir", "FOLDER", "Save the training there as it goes, in folders checkpoint-STEP from which --resume goes on",
     TEXT_AT(a.checkpoint_dir)},
    {R, "checkpoint-every", "N", "Steps between checkpoints, and one at the end (those of an epoch)",
     INTEGER_AT(a.checkpoint_every, 1, INT64_MAX)},
    {R, "keep", "N", "Checkpoints that stay, the newest; 0: all (2)", INT_AT(a.keep, 0, INT32_MAX)},
    {R, "shard-size", "BYTES", "Cut a checkpoint's weights and state into files of at most this size (5000000000)",
     INTEGER_AT(a.shard_size, 1, INT64_MAX)},
    {R, "resume", NULL, "Go on from the newest checkpoint of --checkpoint-dir that is whole; start where there is none",
     FLAG_AT(a.resume)},
    {.help = "Running:"},
    {R | P | S, "num-iterations", "N", "run: stop after N steps; measure: runs to measure (100)",
     INTEGER_AT(a.num_iterations, 1, INT32_MAX)},
    {P, "run-graph-only", NULL, "Measure without moving tensors between host and device", FLAG_AT(a.run_graph_only)},
    {R | T | P | S, "seed", "N", "Of weights, dropout and the order of samples (0)", INTEGER_AT(a.seed, 0, INT64_MAX)},
    {R | T | P | S, "threads", "N", "Threads (as many as the machine offers)", INT_AT(a.threads, 1, 4096)},
    {R | T | P | S, "isa", "ISA",
     "Force an instruction set, one that `sambaflow machine` lists (the best there is, or SAMBAFLOW_ISA)", TEXT_AT(a.isa)},
    {R | T | P | S, "tune", "FILE", "Use what `sambaflow tune` wrote to this file (PEF.tune, where it is there)",
     TEXT_AT(a.tune)},
    {R | T | P | S, "no-tune", NULL, "Use no such file, whatever is there", FLAG_AT(a.no_tune)},
    {ALL, "json", NULL, "Print one JSON object, and progress to stderr", FLAG_AT(a.json)},
    {.help = "Taken without effect, since they are about another device:"},
    {ALL, "o0", NULL, "One operator a section", NO_EFFECT},
    {ALL, "o1", NULL, "Operators fused by rules", NO_EFFECT},
    {ALL, "o3", NULL, "The whole graph as one", NO_EFFECT},
    {ALL, "debug", NULL, "Keep what the compiler makes", NO_EFFECT},
    {ALL, "mac-v2", NULL, "The second estimator of resources", NO_EFFECT},
    {ALL, "tiling-accum", NULL, "Add up gradients of tiles", NO_EFFECT},
    {ALL, "num-tiles", "N", "Tiles of the chip", NO_EFFECT},
    {ALL, "log-level", "WORD", "What the compiler tells", NO_EFFECT},
    {ALL, "resources-scaling-factors", "X...", "Factors of the estimates of resources", NO_EFFECT},
    {ALL, "arch", "WORD", "The chip", NO_EFFECT},
    {ALL, "compiler-mode", "WORD", "The kind of model", NO_EFFECT},
    {ALL, "optimization-rules", "FILE", "Rules of fusion", NO_EFFECT},
    {ALL, "compiler-configs-file", "FILE", "Settings of the compiler", NO_EFFECT},
    {ALL, "version", NULL, "Print the library's version", OTHER(print_version), .group = -1},
};

static const struct {
    samba_app_command command;
    samba_command_word word;
} commands[] = {
    {SAMBA_APP_COMPILE, {"compile", "Write the model and its training into one file, a PEF, and print its path"}},
    {SAMBA_APP_RUN, {"run", "Train from a PEF, or with --inference only test"}},
    {SAMBA_APP_TRAIN, {"train", "compile and run in one"}},
    {SAMBA_APP_TEST, {"test", "Compare what a compiled step computes with plain reference kernels"}},
    {SAMBA_APP_PERFORMANCE, {"measure-performance", "Time whole runs of a PEF"}},
    {SAMBA_APP_SECTIONS, {"measure-sections", "Time each section of a PEF"}},
};

static void list_commands(samba_command_word list[SAMBA_COUNT(commands) + 1])
{
    for (int i = 0; i < SAMBA_COUNT(commands); i++)
        list[i] = commands[i].word;
    list[SAMBA_COUNT(commands)] = (samba_command_word){NULL, NULL};
}

static void refuse_command(const struct argp_state *state, const char *text)
{
    samba_command_word list[SAMBA_COUNT(commands) + 1];
    list_commands(list);
    samba_command_unknown(state, text, list);
}

/* The command that the words name, for its help: the first word of one. 0: none. */
static int peek_command(int argc, char **argv)
{
    int command = 0;
    for (int i = 1; i < argc && !command; i++)
        for (int k = 0; k < SAMBA_COUNT(commands) && !command; k++)
            command = strcmp(argv[i], commands[k].word.name) == 0 ? (int)commands[k].command : 0;
    return command;
}

static const char *command_name(samba_app_command command)
{
    int i = 0;
    while (commands[i].command != command)
        i++;
    return commands[i].word.name;
}

static const char max_grad_norm[] = "max_grad_norm";

static int row_of(const char *name)
{
    int row = 0;
    while (!rows[row].name || strcmp(rows[row].name, name) != 0)
        row++;
    return row;
}

static bool is_given(const parse *p, const char *name) { return p->given[row_of(name)]; }

static void own_option(const samba_app_option *option, const char *text, struct argp_state *state)
{
    char name[64];
    snprintf(name, sizeof name, "--%s", option->name);
    if (option->integer)
        *option->integer = samba_word_integer(state, name, text, (int64_t)option->low, (int64_t)option->high);
    else if (option->real)
        *option->real = samba_word_real(state, name, text, option->low, option->high);
    else if (option->flag)
        *option->flag = true;
    else if (*option->text_count == option->text_most)
        argp_error(state, "%s: more than %d are too many", name, option->text_most);
    else
        option->texts[(*option->text_count)++] = text;
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
    samba_app_arguments *a = &p->a;
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

/* Names the optimizers that have it; how many do. */
static int name_those(char *names, size_t size, bool (*has)(samba_optimizer_kind kind, int which), int which, const char *between)
{
    int count = 0;
    names[0] = '\0';
    for (int i = 0; i < samba_optimizer_count(); i++)
        if (has((samba_optimizer_kind)i, which))
            snprintf(names + strlen(names), size - strlen(names), "%s%s", count++ ? between : "",
                     samba_optimizer_facts_at(i)->name);
    return count;
}

/* Refuses an option that the optimizer does not have, and names those that have it. */
static void check_option(const parse *p, struct argp_state *state, const samba_option_row *row,
                         bool (*has)(samba_optimizer_kind kind, int which))
{
    const samba_optimizer_kind kind = p->a.optimizer.kind;
    const int which = (int)row->at;
    if (!p->given[row - rows] || has(kind, which))
        return;
    char names[256];
    name_those(names, sizeof names, has, which, " or ");
    argp_error(state, "--%s: %s has none: give --optimizer %s too, or leave it out", row->name,
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
    for (int i = 0; i < SAMBA_COUNT(rows) && p->a.command != SAMBA_APP_RUN; i++)
        if (rows[i].take == take_hyper || rows[i].take == take_flag)
            check_option(p, state, &rows[i], rows[i].take == take_hyper ? takes : has_flag);
}

static bool has_no_effect(const samba_option_row *row) { return row->name && row->kind == SAMBA_OPTION_NOTHING; }

/* Only run knows how many there are. */
static bool is_of_replicas(int row) { return row == row_of("world-size") || row == row_of("distlearn-config"); }

static void name_without_effect(const parse *p)
{
    char names[512] = "";
    for (int i = 0; i < SAMBA_COUNT(rows); i++)
        if (p->given[i] && (has_no_effect(&rows[i]) || (!(p->a.command & SAMBA_APP_RUN) && is_of_replicas(i))))
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s--%s", names[0] ? ", " : "", rows[i].name);
    if (names[0] && samba_app_speaks())
        fprintf(stderr, "%s: warning: %s: without effect on this device, a CPU\n", p->a.app->name, names);
}

static void check_commands(const parse *p, struct argp_state *state)
{
    const samba_app_arguments *a = &p->a;
    if (!a->command)
        refuse_command(state, NULL);
    for (int i = 0; i < SAMBA_COUNT(rows); i++) {
        if (!p->given[i] || (rows[i].commands & (int)a->command))
            continue;
        char takers[128] = "";
        for (int k = 0; k < SAMBA_COUNT(commands); k++)
            if (rows[i].commands & (int)commands[k].command)
                snprintf(takers + strlen(takers), sizeof takers - strlen(takers), "%s%s", takers[0] ? ", " : "",
                         commands[k].word.name);
        argp_error(state, "--%s is not an option of %s: give it to %s", rows[i].name, command_name(a->command), takers);
    }
    if (a->inference && a->command == SAMBA_APP_TRAIN)
        argp_error(state, "--inference is not an option of train, which learns: give it to compile and run");
    for (int i = row_of("optimizer"); i <= row_of("num-epochs") && a->inference; i++)
        if (p->given[i])
            argp_error(state, "--%s is training's: leave it or --inference out", rows[i].name);
    const char *wrong = a->app->check ? a->app->check(a->app->settings) : NULL;
    if (wrong)
        argp_error(state, "%s", wrong);
}

static void settle_batch(parse *p, struct argp_state *state)
{
    samba_app_arguments *a = &p->a;
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
}

static void settle_schedule(parse *p, struct argp_state *state)
{
    samba_app_arguments *a = &p->a;
    if (a->schedule.total_steps && a->schedule.warmup_steps > a->schedule.total_steps)
        argp_error(state, "--warmup-steps %lld are more than --total-steps %lld, which count them too",
                   (long long)a->schedule.warmup_steps, (long long)a->schedule.total_steps);
    a->kind_given = is_given(p, "lr-schedule"), a->warmup_given = is_given(p, "warmup-steps");
    a->total_given = is_given(p, "total-steps"), a->min_lr_given = is_given(p, "min-lr");
    if (a->min_lr_given && a->schedule.kind == SAMBA_LR_CONSTANT)
        argp_error(state, "--min-lr is the end of a schedule: give --lr-schedule linear or cosine too");
    if (a->total_given && a->schedule.kind == SAMBA_LR_CONSTANT)
        argp_error(state, "--total-steps are those of a schedule: give --lr-schedule linear or cosine too");
}

static void settle_best(const parse *p, struct argp_state *state)
{
    const samba_app_arguments *a = &p->a;
    const char *option = a->patience ? "patience" : "save-best";
    if (is_given(p, "min-delta") && !a->patience)
        argp_error(state, "--min-delta is what a test must be better by to count for --patience: give that too");
    if ((a->patience || a->save_best) && a->inference)
        argp_error(state, "--%s is of a training, and --inference only tests", option);
    if ((a->patience || a->save_best) && a->data_parallel)
        argp_error(state, "--%s: one of several replicas tests, and the others would not know: leave it or --data-parallel out",
                   option);
}

static void settle_replicas(parse *p, struct argp_state *state)
{
    samba_app_arguments *a = &p->a;
    if (!(a->command & SAMBA_APP_RUN))
        return;
    if (a->distlearn_config && access(a->distlearn_config, F_OK) != 0)
        argp_error(state, "--distlearn-config: there is no file '%s'", a->distlearn_config);
    a->data_parallel = a->data_parallel || a->distlearn_config;
    if (a->world_size > 1 && !a->data_parallel)
        argp_error(state, "--world-size says how many replicas train together: give --data-parallel too, or leave it out");
}

static void settle_last(const parse *p, struct argp_state *state)
{
    const samba_app_arguments *a = &p->a;
    if (a->last_batch >= a->batch_size && a->last_batch)
        argp_error(state, "--last-batch %lld is no smaller batch than --batch-size %lld", (long long)a->last_batch,
                   (long long)a->batch_size);
    if ((a->last_batch || a->keep_last) && a->data_parallel)
        argp_error(state,
                   "--%s: replicas share each step evenly, so a smaller last one is not theirs: leave it or --data-parallel out",
                   a->last_batch ? "last-batch" : "keep-last");
    if (samba_app_sizes(a->app) > 1 && a->data_parallel)
        argp_error(state, "--data-parallel: samples of several sizes train in one process: leave it out, or train one size");
}

static void settle(parse *p, struct argp_state *state)
{
    samba_app_arguments *a = &p->a;
    check_commands(p, state);
    settle_batch(p, state);
    a->seed_given = is_given(p, "seed");
    if ((a->command & C) && a->pef && (a->pef_name || a->output_folder))
        argp_error(state, "--pef says which file to write: leave out --pef-name and --output-folder, or --pef");
    if ((a->command & (R | P | S)) && !(a->command & C) && !a->pef)
        argp_error(state, "--pef FILE is missing: '%s compile' makes one and prints its path", state->name);
    settle_schedule(p, state);
    settle_replicas(p, state);
    settle_best(p, state);
    settle_last(p, state);
    for (int i = row_of("checkpoint-every"); i <= row_of("resume"); i++)
        if (p->given[i] && !a->checkpoint_dir)
            argp_error(state, "--%s is of checkpoints: give --checkpoint-dir FOLDER too", rows[i].name);
    if (a->checkpoint_dir && a->inference)
        argp_error(state, "--checkpoint-dir is training's: leave it or --inference out");
    if (a->resume && a->load)
        argp_error(state, "--resume goes on from a checkpoint and --load starts from a file: give one of them");
    settle_optimizer(p);
    check_optimizer(p, state);
    if (a->no_decay && !samba_optimizer_takes(a->optimizer.kind, SAMBA_HYPER_weight_decay))
        argp_error(state, "--no-decay: %s has no weight decay: leave it out",
                   samba_optimizer_facts_at((int)a->optimizer.kind)->title);
    name_without_effect(p);
}

static void parse_command(samba_app_arguments *a, const char *text, struct argp_state *state)
{
    if (a->command)
        argp_error(state, "one command at a time: '%s' is one too many", text);
    for (int i = 0; i < SAMBA_COUNT(commands); i++)
        if (strcmp(text, commands[i].word.name) == 0)
            a->command = commands[i].command;
    if (!a->command)
        refuse_command(state, text);
    if ((a->command & SAMBA_APP_RUN) && !a->app->data && !a->app->samples)
        argp_error(state, "%s has no training data of its own, so it has no %s", a->app->name, text);
}

static void print_version(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    (void)row, (void)text, (void)state;
    printf("%s (sambaflow %s)\n", ((parse *)into)->a.app->name, samba_version());
    exit(EXIT_SUCCESS);
}

static void take_pass(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    ((parse *)into)->a.dump_after = text;
    bool known = strcmp(text, "all") == 0;
    char names[256] = "all";
    for (const char *const *pass = samba_pass_names(); *pass; pass++) {
        known = known || strcmp(text, *pass) == 0;
        snprintf(names + strlen(names), sizeof names - strlen(names), ", %s", *pass);
    }
    if (!known)
        argp_error(state, "--%s: expected one of %s, given '%s'", row->name, names, text);
}

static void take_optimizer(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    parse *p = into;
    const char *names[KINDS];
    (void)row;
    for (int i = 0; i < KINDS; i++)
        names[i] = samba_optimizer_facts_at(i)->name;
    p->kind = (samba_optimizer_kind)samba_word_choice(state, "--optimizer", text, names, KINDS);
    p->optimizer_given = true;
}

static void take_hyper(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    const samba_hyper_row *hyper = &samba_hypers[row->at];
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !samba_range_has(hyper->range, value))
        argp_error(state, "--%s: expected %s, given '%s'", row->name, samba_range_text(hyper->range), text);
    hyperparameter(&((parse *)into)->a, hyper->name, value);
}

static void take_flag(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    (void)text, (void)state;
    ((parse *)into)->flags |= 1u << row->at;
}

static void take_norm(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    (void)row;
    hyperparameter(&((parse *)into)->a, max_grad_norm, samba_word_real(state, "--max-grad-norm", text, 0, 1e30));
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parse *p = state->input;
    samba_app_arguments *a = &p->a;
    if (key >= KEY_OWN && key < KEY_OWN + a->app->option_count) {
        own_option(&a->app->options[key - KEY_OWN], text, state);
        a->own_given = true;
        return 0;
    }
    switch (key) {
    case ARGP_KEY_INIT: samba_words_check(state); return 0;
    case ARGP_KEY_ARG: parse_command(a, text, state); return 0;
    case ARGP_KEY_END: settle(p, state); return 0;
    default: break;
    }
    const int row = samba_option_find(rows, SAMBA_COUNT(rows), key);
    if (row < 0)
        return ARGP_ERR_UNKNOWN;
    p->given[row] = true;
    samba_option_take(&rows[row], p, text, state);
    return 0;
}

static bool any(samba_optimizer_kind kind, int which)
{
    (void)kind, (void)which;
    return true;
}

/* "Momentum (sgd)": the option's help and who has it, unless that is everyone. */
static void describe(char *text, size_t size, const char *help, bool (*has)(samba_optimizer_kind kind, int which), int which)
{
    char names[256];
    const int count = name_those(names, sizeof names, has, which, ", ");
    if (count == samba_optimizer_count() && has != any)
        snprintf(text, size, "%s", help);
    else
        snprintf(text, size, "%s (%s)", help, names);
}

/* Has any option behind the heading the command? */
static bool is_heading_of(int heading, int command)
{
    bool has = false;
    for (int i = heading + 1; i < SAMBA_COUNT(rows) && rows[i].name; i++)
        has = has || rows[i].commands & command;
    return has;
}

void samba_app_parse(int argc, char **argv, const samba_app *app, samba_app_arguments *arguments)
{
    struct argp_option options[SAMBA_COUNT(rows) + MAX_OWN + 2];
    char described[SAMBA_HYPERS + SAMBA_FLAG_BITS + 1][512];
    const int command = peek_command(argc, argv);
    int count = 0, told = 0;
    for (int i = 0; i < SAMBA_COUNT(rows); i++) {
        bool own = false; /* what the application means by the name has an effect */
        for (int k = 0; k < app->option_count && has_no_effect(&rows[i]); k++)
            own = own || strcmp(app->options[k].name, rows[i].name) == 0;
        if (own || (!rows[i].name && command && !is_heading_of(i, command)))
            continue;
        options[count] = samba_option_of(rows, i);
        if (command && rows[i].name && !(rows[i].commands & command))
            options[count].flags |= OPTION_HIDDEN;
        if (rows[i].take == take_optimizer || rows[i].take == take_hyper || rows[i].take == take_flag) {
            describe(described[told], sizeof described[told], rows[i].help,
                     rows[i].take == take_hyper  ? takes
                     : rows[i].take == take_flag ? has_flag
                                                 : any,
                     (int)rows[i].at);
            options[count].doc = described[told++];
        }
        count++;
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
            (struct argp_option){own->name, KEY_OWN + i, own->integer ? "N" : own->real ? "X" : own->value, 0, helps[i], 1};
    }
    options[count] = (struct argp_option){0};
    char text[1024];
    snprintf(text, sizeof text,
             "%s\vcompile writes the model and its training into one file, a PEF, and prints its path; run trains from it, or "
             "with --inference only tests; train does both in one; test compares what a compiled step computes with plain "
             "reference kernels; "
             "measure-performance and measure-sections time a PEF. Defaults: batch size %lld, %lld epochs, %s with lr %g.",
             app->description, (long long)app->batch_size, (long long)app->num_epochs,
             samba_optimizer_facts_at((int)app->optimizer.kind)->name, app->optimizer.lr);
    const struct argp argp = {options, parse_option, "compile|run|train|test|measure-performance|measure-sections", text, NULL,
                              NULL,    NULL};
    bool given[SAMBA_COUNT(rows)] = {false};
    parse p = {.a = {.app = app, .num_epochs = app->num_epochs, .keep = 2}, .given = given};
    samba_command_word list[SAMBA_COUNT(commands) + 1];
    list_commands(list);
    samba_command_parse(&argp, list, argc, argv, &p);
    *arguments = p.a;
}
