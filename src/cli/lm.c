/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow lm compile --model FOLDER: a language model of a Hugging Face folder, or of a GGUF file, as an application whose
 * command compile it is, with all of its options. Its inputs are input_ids, labels to train, and what else is asked for; its
 * outputs the loss, and logits for inference or where they are asked for. Weights stay in the folder, which run, train and
 * measure take with --load; where they are not float32 they are converted beside the PEF. */
#include "cli/lm.h"
#include "data/data.h"

#include <string.h>

/* NAME.safetensors beside NAME.pef, where a session cannot take the folder as it is. */
static samba_status convert_weights(samba_lm_command *j, const char *pef, char path[PATH_MAX + 32])
{
    samba_tensor_list list;
    size_t length = strlen(pef);
    if (length > 4 && strcmp(pef + length - 4, ".pef") == 0)
        length -= 4;
    snprintf(path, PATH_MAX + 32, "%.*s.safetensors", (int)length, pef);
    samba_lm_options options = samba_lm_defaults();
    samba_cli_tuning_apply(&j->tuning, &options);
    SAMBA_TRY(samba_lm_tuned_weights(j->lm, &options, &list));
    samba_status status = samba_safetensors_write_remade(j->context, path, list.count, list.tensors);
    samba_tensor_list_free(j->context, &list);
    return status;
}

static samba_status tell_weights(samba_context *context, void *user, const char *pef, FILE *out)
{
    samba_lm_command *j = user;
    char path[PATH_MAX + 32];
    if (!j->info.has_weights)
        return SAMBA_OK;
    snprintf(path, sizeof path, "%s", j->folder);
    const bool as_they_are = j->info.float32 && !samba_cli_tuning_changes(&j->tuning);
    samba_status status = as_they_are ? SAMBA_OK : convert_weights(j, pef, path);
    if (status != SAMBA_OK)
        return samba_fail(context, status, "%s", samba_error_message(j->context));
    if (out)
        fprintf(out, "weights        %s (run, train and measure with --load%s)\n", path,
                j->tuning.tuned ? " and --partial: adapters start by themselves" : "");
    return SAMBA_OK;
}

/* ---- the command ---- */

/* The model is needed before its options are understood; the application's parser sees all of them again. */
static void peek(samba_lm_command *j, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        j->inference |= strcmp(argv[i], "--inference") == 0;
        if (strncmp(argv[i], "--model=", 8) == 0)
            j->folder = argv[i] + 8;
        else if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            j->folder = argv[++i];
    }
}

void samba_cli_lm_name(const char *path, const char *none, char name[SAMBA_CLI_NAME])
{
    size_t end = path ? strlen(path) : 0, begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
        continue;
    snprintf(name, SAMBA_CLI_NAME, "%.*s", (int)(end - begin), path ? path + begin : "");
    if (!name[0] || name[0] == '.' || name[0] == '/')
        snprintf(name, SAMBA_CLI_NAME, "%s", none);
}

static int compile(samba_lm_command *j, int argc, char **argv)
{
    char name[SAMBA_CLI_NAME];
    const char *seen[1];
    int count = 0;
    samba_app_option options[7 + SAMBA_CLI_TUNING_OPTIONS] = {
        {.name = "model",
         .help = "The model's folder, config.json and its safetensors files, or a GGUF file",
         .texts = seen,
         .text_count = &count,
         .text_most = 1,
         .value = "FOLDER"},
        {.name = "length", .help = "Tokens in a sequence", .integer = &j->length, .low = 1, .high = 1 << 24},
        {.name = "logits", .help = "Make the logits an output, which keeps all of them in memory", .flag = &j->logits},
        {.name = "attention-mask", .help = "An input that hides tokens, with 0, from the others", .flag = &j->attention_mask},
        {.name = "position-ids", .help = "An input with the position of each token", .flag = &j->position_ids},
        {.name = "document-ids",
         .help = "An input with the document of each token, which sees those of its own alone",
         .flag = &j->document_ids},
        {.name = "no-dropout", .help = "No dropout, whatever rates the config has", .flag = &j->no_dropout},
    };
    samba_cli_tuning_options(&j->tuning, options + 7);
    samba_cli_lm_name(j->folder, j->folder ? "lm" : "sambaflow lm compile", name);
    samba_app app = {.struct_size = sizeof app,
                     .name = name,
                     .description =
                         "sambaflow lm compile --model FOLDER: makes a PEF of a language model by its config.json. Run "
                         "and train it with --load FOLDER.",
                     .model = samba_cli_lm_build,
                     .settings = &j,
                     .option_count = SAMBA_COUNT(options),
                     .options = options,
                     .check = samba_cli_lm_check,
                     .inputs = samba_cli_lm_inputs,
                     .batch_size = 1,
                     .num_epochs = 1,
                     .optimizer = samba_adamw(5e-5),
                     .compiled = tell_weights,
                     .compiled_user = j};
    return samba_app_main(argc, argv, &app);
}

static samba_status prepare(samba_lm_command *j)
{
    if (!j->folder)
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "lm: which model? Give its folder by --model FOLDER");
    SAMBA_TRY(samba_lm_open(j->context, j->folder, &j->lm));
    return samba_lm_get_info(j->lm, &j->info);
}

static samba_status obey(samba_lm_command *j, int argc, char **argv, bool asks, int *result)
{
    peek(j, argc, argv);
    if (!asks)
        SAMBA_TRY(prepare(j));
    *result = strcmp(argv[1], "train") == 0 ? samba_cli_lm_train(j, argc, argv) : compile(j, argc, argv);
    return SAMBA_OK;
}

static int model_command(int argc, char **argv)
{
    samba_lm_command j = {.length = 128};
    int result = 0;
    samba_cli_tuning_init(&j.tuning);
    if (!samba_cli_begin(&j.context))
        return 1;
    const samba_status status = obey(&j, argc, argv, samba_words_ask(argc, argv), &result);
    samba_cli_tuning_free(&j.tuning);
    samba_lm_free(j.lm);
    return samba_cli_end(j.context, status) || result ? 1 : 0;
}

/* ---- which command ---- */

static const samba_command_word commands[] = {
    {"compile", "Make a PEF of a language model"},
    {"train", "Train a language model, or adapters of it"},
    {"save", "Write trained weights as a folder"},
    {"merge", "Put adapters into the weights of their model"},
    {"export", "Write a model as a GGUF file"},
    {"generate", "Continue a text"},
    {"chat", "Talk with a language model"},
    {"serve", "Answer requests over HTTP"},
    {NULL, NULL},
};

static const samba_option_row rows[] = {
    {1, "version", NULL, "Print the library's version", .kind = SAMBA_OPTION_OTHER, .take = samba_print_version, .group = -1},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    const int row = samba_option_find(rows, SAMBA_COUNT(rows), key);
    if (key == ARGP_KEY_INIT)
        samba_words_check(state);
    else if (key == ARGP_KEY_ARG || key == ARGP_KEY_END)
        samba_command_unknown(state, key == ARGP_KEY_ARG ? text : NULL, commands);
    else if (row < 0)
        return ARGP_ERR_UNKNOWN;
    if (row >= 0)
        samba_option_take(&rows[row], NULL, text, state);
    return 0;
}

/* Only asks, or is wrong. */
static void parse_none(int argc, char **argv)
{
    struct argp_option options[SAMBA_COUNT(rows) + 1];
    static char name[] = "sambaflow lm";
    char text[1024] = "Compiles, trains and runs language models.\vCommands, each with a --help of its own:\n";
    samba_command_list(text, sizeof text, commands);
    samba_options_list(rows, SAMBA_COUNT(rows), 1, options);
    const struct argp argp = {options, parse_option, "COMMAND [WORD...]", text, NULL, NULL, NULL};
    argv[0] = name;
    samba_command_parse(&argp, commands, argc, argv, NULL);
}

int samba_cli_lm(int argc, char **argv)
{
    static int (*const makers[])(int, char **) = {samba_cli_lm_generate, samba_cli_lm_chat, samba_cli_lm_serve};
    static const char *const names[] = {"generate", "chat", "serve"};
    const char *command = argc > 2 ? argv[2] : "";
    int result = 1;
    for (int i = 0; i < SAMBA_COUNT(names); i++)
        if (strcmp(command, names[i]) == 0)
            return makers[i](argc - 2, argv + 2);
    if (argc > 2 && samba_cli_lm_files(argc - 2, argv + 2, &result))
        return result;
    if (strcmp(command, "compile") == 0 || strcmp(command, "train") == 0)
        return model_command(argc - 1, argv + 1);
    parse_none(argc - 1, argv + 1);
    return result;
}
