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

void samba_cli_lm_name(const char *path, char name[SAMBA_CLI_NAME])
{
    size_t end = path ? strlen(path) : 0, begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
        continue;
    snprintf(name, SAMBA_CLI_NAME, "%.*s", (int)(end - begin), path ? path + begin : "");
    if (!name[0] || name[0] == '.' || name[0] == '/')
        snprintf(name, SAMBA_CLI_NAME, "lm");
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
    samba_cli_lm_name(j->folder, name);
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

/* Options with a path each: `values` of those that are given. */
static samba_status take_paths(samba_lm_command *j, const char *command, int argc, char **argv, int count,
                               const char *const *names, const char **values)
{
    for (int i = 2; i < argc; i++) {
        int k = 0;
        while (k < count && strcmp(argv[i], names[k]) != 0)
            k++;
        if (k == count || i + 1 == argc)
            return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "%s: expected %s, %s and %s, each with a value, given '%s'",
                              command, names[0], names[1], names[2], argv[i]);
        values[k] = argv[++i];
    }
    return SAMBA_OK;
}

/* sambaflow lm save: weights that run --save has written, as a folder. */
static samba_status save(samba_lm_command *j, int argc, char **argv)
{
    static const char *const names[] = {"--model", "--load", "--to"};
    const char *values[SAMBA_COUNT(names)] = {NULL};
    samba_tensor_list list;
    SAMBA_TRY(take_paths(j, "lm save", argc, argv, SAMBA_COUNT(names), names, values));
    if (!values[1] || !values[2])
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT,
                          "lm save: give the weights by --load FILE and the folder to write by --to FOLDER");
    SAMBA_TRY(samba_weights_read(j->context, values[1], &list));
    samba_status status = samba_lm_save_tensors(j->lm, list.count, list.tensors, values[2]);
    samba_tensor_list_free(j->context, &list);
    return status;
}

/* sambaflow lm merge: adapters in the model's weights, as a folder. */
static samba_status merge(samba_lm_command *j, int argc, char **argv)
{
    static const char *const names[] = {"--model", "--adapter", "--to"};
    const char *values[SAMBA_COUNT(names)] = {NULL};
    samba_lm_adapter *adapter;
    SAMBA_TRY(take_paths(j, "lm merge", argc, argv, SAMBA_COUNT(names), names, values));
    if (!values[1] || !values[2])
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT,
                          "lm merge: give the adapters by --adapter FOLDER and the folder to write by --to FOLDER");
    SAMBA_TRY(samba_lm_adapter_open(j->lm, values[1], &adapter, NULL));
    samba_status status = samba_lm_adapter_merge(adapter, values[2]);
    samba_lm_adapter_free(adapter);
    return status;
}

/* sambaflow lm export: the model as a GGUF file. */
static samba_status export(samba_lm_command *j, int argc, char **argv)
{
    static const char *const names[] = {"--model", "--to", "--type"}, *const types[] = {"f32", "f16", "bf16", "q8_0", "q4_0"};
    const char *values[SAMBA_COUNT(names)] = {NULL};
    samba_lm_export_options options = samba_lm_export_defaults();
    int kept = 0, type = 0;
    for (int i = 0; i < argc; i++) { /* the option without a value */
        const bool none = i >= 2 && strcmp(argv[i], "--no-tokenizer") == 0;
        options.no_tokenizer |= none;
        argv[kept] = argv[i];
        kept += !none;
    }
    SAMBA_TRY(take_paths(j, "lm export", kept, argv, SAMBA_COUNT(names), names, values));
    if (!values[1])
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT, "lm export: give the GGUF file to write by --to FILE");
    while (values[2] && type < SAMBA_COUNT(types) && strcmp(values[2], types[type]) != 0)
        type++;
    if (type == SAMBA_COUNT(types))
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT,
                          "lm export: --type: expected f32, f16, bf16, q8_0 or q4_0, given '%s'", values[2]);
    options.type = (samba_export_type)type;
    SAMBA_TRY(samba_lm_export(j->lm, &options, values[1]));
    printf("%s\n", values[1]);
    return SAMBA_OK;
}

static samba_status obey(samba_lm_command *j, int argc, char **argv, bool asks, int *result)
{
    const char *command = argc > 1 ? argv[1] : "nothing";
    peek(j, argc, argv);
    if (!asks && strcmp(command, "compile") != 0 && strcmp(command, "train") != 0 && strcmp(command, "save") != 0 &&
        strcmp(command, "merge") != 0 && strcmp(command, "export") != 0)
        return samba_fail(j->context, SAMBA_ERROR_ARGUMENT,
                          "lm: expected a command, compile, train, save, merge, export, generate, chat or serve, given '%s'",
                          command);
    if (!asks)
        SAMBA_TRY(prepare(j));
    if (!asks && strcmp(command, "save") == 0)
        return save(j, argc, argv);
    if (!asks && strcmp(command, "merge") == 0)
        return merge(j, argc, argv);
    if (!asks && strcmp(command, "export") == 0)
        return export(j, argc, argv);
    *result = strcmp(command, "train") == 0 ? samba_cli_lm_train(j, argc, argv) : compile(j, argc, argv);
    return SAMBA_OK;
}

int samba_cli_lm(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[2], "generate") == 0)
        return samba_cli_lm_generate(argc - 2, argv + 2);
    if (argc > 2 && strcmp(argv[2], "chat") == 0)
        return samba_cli_lm_chat(argc - 2, argv + 2);
    if (argc > 2 && strcmp(argv[2], "serve") == 0)
        return samba_cli_lm_serve(argc - 2, argv + 2);
    samba_lm_command j = {.length = 128};
    samba_cli_tuning_init(&j.tuning);
    bool asks = false;
    int result = 0;
    for (int i = 2; i < argc; i++)
        asks |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-?") == 0 || strcmp(argv[i], "--usage") == 0 ||
                strcmp(argv[i], "--version") == 0;
    if (!samba_cli_begin(&j.context))
        return 1;
    const samba_status status = obey(&j, argc - 1, argv + 1, asks, &result);
    samba_cli_tuning_free(&j.tuning);
    samba_lm_free(j.lm);
    return samba_cli_end(j.context, status) || result ? 1 : 0;
}
